//! [`Rules`]: all that a layer decides by, shared by its clones and their services.

use super::Head;
use super::client::{Client, Identify};
use super::decision::{Answer, Decision, Outcome};
use super::headers::{Headers, whole_seconds};
use super::observe::Meter;
use super::policy::{Ask, Policy};
use super::refusal::Refusal;
use crate::few::Few;
use crate::{Allowed, Demand, Denied, Status, check_all};
use ahash::RandomState;
use bytes::Bytes;
use http::{Extensions, HeaderMap, Request, Response, StatusCode};
use std::iter;
use std::mem;
use std::ops::ControlFlow;
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

/// Some policy in force refuses clients who are not known, and this one is not.
struct NotKnown;

/// One policy, and what goes with it.
pub(super) struct Rule {
    pub(super) policy: Policy,
    pub(super) meter: Meter,
    /// Whether it matters who the client is.
    by_client: bool,
    /// The window that is stated, in whole seconds.
    window: u64,
}

impl Rule {
    pub(super) fn new(policy: Policy) -> Self {
        let (by_client, window) = (policy.by_client(), whole_seconds(policy.stated_window()));
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
pub(super) struct Asked<'a> {
    pub(super) place: usize,
    rule: &'a Rule,
    pub(super) ask: Ask<'a>,
    /// Kept for events only.
    client: Option<Box<Client>>,
    partition: Option<u64>,
}

impl<'a> Asked<'a> {
    pub(super) fn is_enforced(&self) -> bool {
        !self.rule.policy.is_shadow()
    }

    /// What is asked of a limit in this process.
    pub(super) fn here(&self) -> Option<Demand<'a>> {
        match self.ask {
            Ask::Here(demand) => Some(demand),
            #[cfg(feature = "redis")]
            Ask::Shared { .. } => None,
        }
    }
}

impl Rules {
    /// Which layer this is. Clones are the same one.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Decides on a request by limits in this process only, and puts into its extensions what handlers find there.
    pub(super) fn decide<B>(self: &Arc<Self>, request: &mut Request<B>) -> Verdict {
        let mut asked = Few::new();
        if let ControlFlow::Break(verdict) = self.before(request, &mut asked) {
            return verdict;
        }
        match asked.only() {
            Some(only @ Asked { ask: Ask::Here(demand), .. }) if only.is_enforced() => match demand.check() {
                Err(denied) => {
                    let wait = denied.retry_after();
                    self.deny(&Head::from(&*request), iter::once((only, Err(denied))), wait)
                }
                allowed => self.allow(request.extensions_mut(), iter::once((only, allowed))),
            },
            _ => match check_all(enforced(&asked).filter_map(Asked::here)) {
                Ok(allowed) => {
                    let mut allowed = allowed.into_iter();
                    // Those in shadow are asked now, each for itself.
                    let answer = |one: &Asked<'_>| match one.is_enforced() {
                        true => allowed.next().map(Ok),
                        false => one.here().map(|demand| demand.check()),
                    };
                    self.allow(request.extensions_mut(), answers(&asked, answer))
                }
                Err(denied) => {
                    let wait = denied.retry_after();
                    self.deny(&Head::from(&*request), enforced(&asked).zip(denied.into_outcomes()), wait)
                }
            },
        }
    }

    /// Finds the policies to ask about a request, at least one, or what it comes to without asking any.
    pub(super) fn before<'a, B>(
        &'a self,
        request: &mut Request<B>,
        asked: &mut Few<Asked<'a>>,
    ) -> ControlFlow<Verdict> {
        let head = Head::from(&*request);
        if head.extensions().get::<Exempt>().is_some() {
            return ControlFlow::Break(Verdict::Passed);
        }
        if self.exemptions.iter().any(|exempt| exempt(&head)) {
            request.extensions_mut().insert(Exempt);
            return ControlFlow::Break(Verdict::Passed);
        }
        // Mounted twice on the way of one request, a layer still counts it once.
        if head.extensions().get::<Decision>().is_some_and(|decision| decision.is_by(self.id())) {
            return ControlFlow::Break(Verdict::Passed);
        }
        match self.ask(&head, asked) {
            Err(NotKnown) => ControlFlow::Break(self.refuse(&head, &Decision::default(), None)),
            Ok(()) if asked.is_empty() => ControlFlow::Break(Verdict::Passed),
            Ok(()) => ControlFlow::Continue(()),
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
                ask: policy.ask(known, head),
                client: self.log_clients.then(|| Box::new(known.clone())),
                partition: partition.then(|| self.dice.key.hash_one(known)),
            });
        }
        Ok(())
    }

    /// All policies in force have let it pass. `answers` has what each said, those in shadow too.
    pub(super) fn allow<'a: 'b, 'b>(
        self: &Arc<Self>,
        extensions: &mut Extensions,
        answers: impl Iterator<Item = (&'b Asked<'a>, Result<Allowed, Denied>)>,
    ) -> Verdict {
        let mut passing = Passing::new(extensions);
        for (one, answer) in answers {
            passing.note(self, one, answer);
        }
        passing.finish(self)
    }

    /// Some policy in force has refused it, and none was charged; those in shadow are not asked, as it never gets there.
    /// Outcomes are of the policies that were asked.
    pub(super) fn deny<'a: 'b, 'b>(
        &self,
        head: &Head<'_>,
        outcomes: impl Iterator<Item = (&'b Asked<'a>, Result<Status, Denied>)>,
        wait: Option<Duration>,
    ) -> Verdict {
        let mut decision = Decision::default();
        for (one, outcome) in outcomes {
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

/// The policies in force.
pub(super) fn enforced<'a: 'b, 'b>(asked: &'b Few<Asked<'a>>) -> impl Iterator<Item = &'b Asked<'a>> {
    asked.iter().filter(|asked| asked.is_enforced())
}

/// The policies with what each said; there is an answer for each.
pub(super) fn answers<'a: 'b, 'b>(
    asked: &'b Few<Asked<'a>>,
    mut answer: impl FnMut(&Asked<'a>) -> Option<Result<Allowed, Denied>>,
) -> impl Iterator<Item = (&'b Asked<'a>, Result<Allowed, Denied>)> {
    asked.iter().filter_map(move |one| Some((one, answer(one)?)))
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
    /// Does all of it, where no limit is in a store.
    pub(super) fn finish<R>(mut self, response: &mut Response<R>) {
        for (place, allowed) in self.take_returns(response.status()) {
            self.note_returned(place, allowed.give_back());
        }
        self.tell(response.headers_mut());
    }

    /// Takes out the charges that are to be given back after a response of this status, with the places of their policies.
    pub(super) fn take_returns(&mut self, status: StatusCode) -> Vec<(usize, Allowed)> {
        let mut returns = mem::take(&mut self.conditional);
        returns.retain(|&(place, _)| !self.rules.rules[place].policy.keeps(status));
        returns
    }

    /// So much was given back of what the policy at a place was charged.
    pub(super) fn note_returned(&mut self, place: usize, returned: u64) {
        self.decision.note_returned(place, returned);
    }

    /// Tells the client, if responses do.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        if self.rules.headers.are_on_every_response() {
            self.rules.headers.write(&self.decision, headers);
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
