//! [`Rules`]: all that a layer decides by, shared by its clones and their services.

use super::Head;
use super::client::{Client, Identify};
use super::decision::{Answer, Decision};
use super::headers::Headers;
use super::observe::Meter;
use super::policy::{Ask, Policy};
use super::refusal::Refusal;
use crate::few::Few;
use crate::{Allowed, Demand, Denied, Status, check_all};
use ahash::RandomState;
use bytes::Bytes;
use http::Response;
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
    /// No policy is for it.
    Uncounted,
    Exempt,
    Allowed {
        decision: Decision,
        /// Charges that may be given back, with the places of their policies.
        conditional: Vec<(usize, Allowed)>,
    },
    Refused(Response<Bytes>),
}

/// What a request comes to before any limit is asked.
pub(super) enum Before<'a> {
    /// These are to be asked, at least one.
    Ask(Few<Asked<'a>>),
    Decided(Verdict),
}

/// One policy, and what goes with it.
pub(super) struct Rule {
    pub(super) policy: Policy,
    pub(super) meter: Meter,
    window: Duration,
}

impl Rule {
    pub(super) fn new(policy: Policy) -> Self {
        Self { meter: Meter::new(&policy), window: policy.stated_window(), policy }
    }
}

pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    pub(super) identify: Arc<dyn Identify>,
    pub(super) exemptions: Vec<Exemption>,
    pub(super) when_unknown: WhenUnknown,
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

    /// Decides by limits in this process only.
    pub(super) fn decide(&self, head: &Head<'_>) -> Verdict {
        let asked = match self.before(head) {
            Before::Ask(asked) => asked,
            Before::Decided(verdict) => return verdict,
        };
        match (asked.iter().next(), asked.len()) {
            (Some(only @ Asked { ask: Ask::Here(demand), .. }), 1) if only.is_enforced() => match demand.check() {
                Ok(allowed) => {
                    let mut allowed = Some(allowed);
                    self.allow(&asked, |_| allowed.take().map(Ok))
                }
                Err(denied) => {
                    let wait = denied.retry_after();
                    self.deny(head, iter::once((only, Err(denied))), wait)
                }
            },
            _ => match check_all(enforced(&asked).filter_map(Asked::here)) {
                Ok(allowed) => {
                    let mut allowed = allowed.into_iter();
                    self.allow(&asked, |one| match one.is_enforced() {
                        true => allowed.next().map(Ok),
                        false => one.here().map(|demand| demand.check()),
                    })
                }
                Err(denied) => {
                    let wait = denied.retry_after();
                    self.deny(head, enforced(&asked).zip(denied.into_outcomes()), wait)
                }
            },
        }
    }

    /// The policies to ask about a request, or what it comes to without asking any.
    pub(super) fn before<'a>(&'a self, head: &Head<'_>) -> Before<'a> {
        let extensions = head.extensions();
        if extensions.get::<Exempt>().is_some() {
            return Before::Decided(Verdict::Uncounted);
        }
        if self.exemptions.iter().any(|exempt| exempt(head)) {
            return Before::Decided(Verdict::Exempt);
        }
        // Mounted twice on the way of one request, a layer still counts it once.
        if extensions.get::<Decision>().is_some_and(|decision| decision.is_by(self.id())) {
            return Before::Decided(Verdict::Uncounted);
        }
        match self.ask(head) {
            None => Before::Decided(Verdict::Refused(self.refuse(head, &Decision::default(), None))),
            Some(asked) if asked.is_empty() => Before::Decided(Verdict::Uncounted),
            Some(asked) => Before::Ask(asked),
        }
    }

    /// The policies that are for this request, or `None` if one of them does not let in whom it does not know.
    fn ask<'a>(&'a self, head: &Head<'_>) -> Option<Few<Asked<'a>>> {
        let mut asked = Few::new();
        // Who it is in the eyes of the layer, found out once.
        let mut client: Option<Option<Client>> = None;
        for (place, rule) in self.rules.iter().enumerate() {
            let Rule { policy, .. } = rule;
            if !policy.applies(head) {
                continue;
            }
            let own;
            let known = match policy.identify() {
                _ if !policy.by_client() => &None,
                Some(identify) => {
                    own = identify.identify(head);
                    &own
                }
                None => client.get_or_insert_with(|| self.identify.identify(head)),
            };
            let nobody;
            let known = match (known, self.when_unknown) {
                (Some(known), _) => known,
                (None, WhenUnknown::Allow) if policy.by_client() => continue,
                (None, WhenUnknown::Refuse) if policy.by_client() && !policy.is_shadow() => return None,
                (None, _) => {
                    nobody = Client::named("unknown", "");
                    &nobody
                }
            };
            let ask = policy.ask(known, head);
            let partition = self.headers.have_partition_keys() && policy.by_client();
            let partition = partition.then(|| self.dice.key.hash_one(known));
            let client = self.log_clients.then(|| Box::new(known.clone()));
            asked.push(Asked { place, rule, ask, client, partition });
        }
        Some(asked)
    }

    /// All policies in force have let it pass. `answer` has what each said, those in shadow too.
    pub(super) fn allow<'a>(
        &self,
        asked: &Few<Asked<'a>>,
        mut answer: impl FnMut(&Asked<'a>) -> Option<Result<Allowed, Denied>>,
    ) -> Verdict {
        let (mut decision, mut conditional) = (Decision::default(), Vec::new());
        for one in asked.iter() {
            // There is an answer for each.
            let Some(answer) = answer(one) else { break };
            let outcome = answer.map(|allowed| {
                let status = Status::from(&allowed);
                if one.rule.policy.is_conditional() {
                    conditional.push((one.place, allowed));
                }
                status
            });
            let answer = self.answer(one, outcome);
            one.rule.meter.report(&answer, one.client.as_deref());
            decision.push(answer);
        }
        Verdict::Allowed { decision, conditional }
    }

    /// Some policy in force has refused it, and none was charged; those in shadow are not asked, as it never gets there.
    /// Answers are of the policies that were asked.
    pub(super) fn deny<'a: 'b, 'b>(
        &self,
        head: &Head<'_>,
        outcomes: impl Iterator<Item = (&'b Asked<'a>, Result<Status, Denied>)>,
        wait: Option<Duration>,
    ) -> Verdict {
        let mut decision = Decision::default();
        for (one, outcome) in outcomes {
            let answer = self.answer(one, outcome);
            if answer.refuses() {
                one.rule.meter.report(&answer, one.client.as_deref());
            }
            decision.push(answer);
        }
        Verdict::Refused(self.refuse(head, &decision, wait))
    }

    fn answer(&self, asked: &Asked<'_>, outcome: Result<Status, Denied>) -> Answer {
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

    fn refuse(&self, head: &Head<'_>, decision: &Decision, wait: Option<Duration>) -> Response<Bytes> {
        let wait = wait.map(|wait| wait.saturating_add(self.dice.up_to(self.jitter)));
        let refusal = Refusal::new(*head, decision, wait, self.headers);
        match &self.respond {
            Some(respond) => respond(refusal),
            None => refusal.into_response(),
        }
    }
}

/// The policies in force.
pub(super) fn enforced<'a: 'b, 'b>(asked: &'b Few<Asked<'a>>) -> impl Iterator<Item = &'b Asked<'a>> {
    asked.iter().filter(|asked| asked.is_enforced())
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
