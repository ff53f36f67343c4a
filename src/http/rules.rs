//! [`Rules`]: all that a layer decides by, shared by its clones and their services.

use super::Head;
use super::client::{Client, Identify};
use super::decision::{Answer, Decision, Outcome};
use super::headers::{Headers, whole_seconds};
use super::observe::Meter;
use super::policy::Policy;
use super::refusal::Refusal;
use crate::few::Few;
use crate::{Allowed, Demand, Denied, Status, check_all};
use ahash::RandomState;
use bytes::Bytes;
use http::{Extensions, Request, Response};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// In the extensions of a request: no rate-limit layer counts or refuses it.
///
/// A layer puts it there for the requests that it exempts, so that they are exempt from the layers further in, too. Code of
/// your own may do the same, for whom it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Exempt;

/// What becomes of a request whose client is not known, where a policy goes by clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenUnknown {
    /// All such requests are one client's.
    #[default]
    Shared,
    /// It passes, uncounted by that policy.
    Allow,
    /// It is refused, with 403 Forbidden.
    Refuse,
}

pub(super) type Exemption = Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>;
pub(super) type Respond = Arc<dyn Fn(Refusal<'_>) -> Response<Bytes> + Send + Sync>;

/// What a request comes to.
pub(super) enum Verdict {
    /// It passes.
    Passed,
    /// It passes, and something is left to do with the response.
    PassedWith(Box<After>),
    /// In a box since it is large, and so would be everything around it.
    Refused(Box<Response<Bytes>>),
}

/// A policy does not let in whom it does not know.
struct NotKnown;

/// One policy, and what goes with it.
pub(super) struct Rule {
    pub(super) policy: Policy,
    pub(super) meter: Meter,
    by_client: bool,
    /// In whole seconds.
    window: u64,
}

impl Rule {
    pub(super) fn new(policy: Policy) -> Self {
        let (by_client, window) = (policy.limit().by_client(), whole_seconds(policy.stated_window()));
        Self { meter: Meter::new(&policy), by_client, window, policy }
    }
}

pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    pub(super) identify: Arc<dyn Identify>,
    pub(super) exemptions: Vec<Exemption>,
    pub(super) when_unknown: WhenUnknown,
    /// The client of all requests without one, and of those that only gates are asked about.
    pub(super) nobody: Client,
    pub(super) headers: Headers,
    pub(super) jitter: Duration,
    pub(super) respond: Option<Respond>,
    pub(super) log_clients: bool,
    pub(super) dice: Dice,
}

/// A policy that is asked about a request.
struct Asked<'a> {
    place: usize,
    rule: &'a Rule,
    /// The client as the policy's limit knows it.
    key: u64,
    cost: u64,
    /// Kept for events only.
    client: Option<Box<Client>>,
    partition: Option<u64>,
}

impl<'a> Asked<'a> {
    fn demand(&self) -> Demand<'a> {
        Demand::new(self.rule.policy.limit().source(), self.key, self.cost)
    }

    fn is_enforced(&self) -> bool {
        !self.rule.policy.is_shadow()
    }
}

impl Rules {
    /// Which layer this is. Clones are the same one.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Decides on a request, and puts into its extensions what handlers find there.
    pub(super) fn decide<B>(self: &Arc<Self>, request: &mut Request<B>) -> Verdict {
        let head = Head::from(&*request);
        if head.extensions().get::<Exempt>().is_some() {
            return Verdict::Passed;
        }
        if self.exemptions.iter().any(|exempt| exempt(&head)) {
            request.extensions_mut().insert(Exempt);
            return Verdict::Passed;
        }
        // Mounted twice on the way of one request, a layer still counts it once.
        if head.extensions().get::<Decision>().is_some_and(|decision| decision.is_by(self.id())) {
            return Verdict::Passed;
        }
        let mut asked = Few::new();
        if let Err(NotKnown) = self.ask(&head, &mut asked) {
            return self.refuse(&head, &Decision::default(), None);
        }
        if asked.is_empty() {
            return Verdict::Passed;
        }
        match asked.only() {
            Some(only) if only.is_enforced() => {
                let answer = only.demand().check();
                if let Err(denied) = answer {
                    let wait = denied.retry_after();
                    return self.deny(&head, &asked, iter::once(Err(denied)), wait);
                }
                let mut passing = Passing::new(request.extensions_mut());
                passing.note(self, only, answer);
                passing.finish(self)
            }
            _ => match check_all(asked.iter().filter(|asked| asked.is_enforced()).map(Asked::demand)) {
                Ok(allowed) => {
                    let (mut allowed, mut passing) = (allowed.into_iter(), Passing::new(request.extensions_mut()));
                    // Those in shadow are asked now, each for itself.
                    for one in asked.iter() {
                        let answer =
                            if one.is_enforced() { allowed.next().map(Ok) } else { Some(one.demand().check()) };
                        // There is an answer for each demand.
                        let Some(answer) = answer else { break };
                        passing.note(self, one, answer);
                    }
                    passing.finish(self)
                }
                Err(denied) => {
                    let wait = denied.retry_after();
                    self.deny(&head, &asked, denied.into_outcomes(), wait)
                }
            },
        }
    }

    /// Finds the policies that are for this request.
    fn ask<'a>(&'a self, head: &Head<'_>, asked: &mut Few<Asked<'a>>) -> Result<(), NotKnown> {
        // Who it is in the eyes of the layer, found out once.
        let mut client: Option<Option<Client>> = None;
        for (place, rule) in self.rules.iter().enumerate() {
            let Rule { policy, by_client, .. } = rule;
            if !policy.applies(head) {
                continue;
            }
            let own;
            let known = match policy.identify() {
                _ if !by_client => Some(&self.nobody),
                Some(identify) => {
                    own = identify.identify(head);
                    own.as_ref()
                }
                None => client.get_or_insert_with(|| self.identify.identify(head)).as_ref(),
            };
            let known = match (known, self.when_unknown) {
                (Some(known), _) => known,
                (None, WhenUnknown::Allow) => continue,
                (None, WhenUnknown::Refuse) if !policy.is_shadow() => return Err(NotKnown),
                (None, _) => &self.nobody,
            };
            let partition = self.headers.have_partition_keys() && *by_client;
            asked.push(Asked {
                place,
                rule,
                key: policy.limit().key(known),
                cost: policy.cost_of(head),
                client: self.log_clients.then(|| Box::new(known.clone())),
                partition: partition.then(|| self.dice.key.hash_one(known)),
            });
        }
        Ok(())
    }

    /// Some policy in force has refused it, and none was charged; those in shadow are not asked, as it never gets there.
    fn deny(
        &self,
        head: &Head<'_>,
        asked: &Few<Asked<'_>>,
        outcomes: impl Iterator<Item = Result<Status, Denied>>,
        wait: Option<Duration>,
    ) -> Verdict {
        let mut decision = Decision::default();
        for (one, outcome) in asked.iter().filter(|asked| asked.is_enforced()).zip(outcomes) {
            let answer = decision.push(self.answer(one, Outcome::of(&outcome)));
            if answer.refuses() {
                one.rule.meter.report(answer, one.client.as_deref());
            }
        }
        self.refuse(head, &decision, wait)
    }

    #[inline]
    fn answer(&self, asked: &Asked<'_>, outcome: Outcome) -> Answer {
        let Rule { policy, window, .. } = asked.rule;
        Answer {
            layer: self.id(),
            place: asked.place,
            policy: policy.name().clone(),
            shadow: policy.is_shadow(),
            window: *window,
            partition: asked.partition,
            outcome,
            returned: 0,
        }
    }

    fn refuse(&self, head: &Head<'_>, decision: &Decision, wait: Option<Duration>) -> Verdict {
        let wait = wait.map(|wait| wait.saturating_add(self.dice.up_to(self.jitter)));
        let refusal = Refusal::new(*head, decision, wait, self.headers);
        Verdict::Refused(Box::new(match &self.respond {
            Some(respond) => respond(refusal),
            None => refusal.into_response(),
        }))
    }
}

/// What is noted of a request that passes.
struct Passing<'a> {
    decision: &'a mut Decision,
    conditional: Vec<(usize, Allowed)>,
}

impl<'a> Passing<'a> {
    /// Answers are written to where they stay: they are large. Those of layers around this one are there already.
    fn new(extensions: &'a mut Extensions) -> Self {
        Self { decision: extensions.get_or_insert_with(Decision::default), conditional: Vec::new() }
    }

    /// Notes what a policy said.
    ///
    /// Not inlined, nor is the answer taken apart before: the compiler would split it into single bytes.
    #[inline(never)]
    fn note(&mut self, rules: &Rules, asked: &Asked<'_>, answer: Result<Allowed, Denied>) {
        let outcome = Outcome::of(&answer);
        let told = self.decision.push(rules.answer(asked, outcome));
        asked.rule.meter.report(told, asked.client.as_deref());
        if let (true, Ok(allowed)) = (asked.rule.policy.is_conditional(), answer) {
            self.conditional.push((asked.place, allowed));
        }
    }

    fn finish(self, rules: &Arc<Rules>) -> Verdict {
        let tells = rules.headers.are_on_every_response();
        if !tells && self.conditional.is_empty() {
            return Verdict::Passed;
        }
        let decision = if tells { self.decision.part_of(rules.id()) } else { Decision::default() };
        Verdict::PassedWith(Box::new(After { rules: rules.clone(), decision, conditional: self.conditional }))
    }
}

/// What is left to do once the service has answered.
pub(super) struct After {
    rules: Arc<Rules>,
    /// What this layer's policies said, if responses tell it.
    decision: Decision,
    /// Charges that may be given back, with the places of their policies.
    conditional: Vec<(usize, Allowed)>,
}

impl After {
    pub(super) fn finish<R>(mut self, response: &mut Response<R>) {
        for (place, allowed) in self.conditional {
            if !self.rules.rules[place].policy.keeps(response.status()) {
                let returned = allowed.give_back();
                if let Some(answer) = self.decision.answers_mut().find(|answer| answer.place == place) {
                    answer.returned = returned;
                }
            }
        }
        if self.rules.headers.are_on_every_response() {
            self.rules.headers.write(&self.decision, response.headers_mut());
        }
    }
}

/// Random numbers that need not be good.
#[derive(Debug, Default)]
pub(super) struct Dice {
    key: RandomState,
    throws: AtomicU64,
}

impl Dice {
    /// A duration from zero to `most`.
    fn up_to(&self, most: Duration) -> Duration {
        if most.is_zero() {
            return most;
        }
        let throw = self.key.hash_one(self.throws.fetch_add(1, Ordering::Relaxed));
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(((u128::from(throw) * (u128::from(nanos) + 1)) >> 64) as u64)
    }
}
