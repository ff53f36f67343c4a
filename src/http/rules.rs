//! [`Rules`]: all that a layer decides by, shared by its clones and their services.

use super::Head;
use super::client::{Client, Identify};
use super::decision::{Answer, Decision};
use super::headers::Headers;
use super::observe::Meter;
use super::policy::Policy;
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
struct Asked<'a> {
    place: usize,
    rule: &'a Rule,
    demand: Demand<'a>,
    /// Kept for events only.
    client: Option<Box<Client>>,
}

impl Asked<'_> {
    fn is_enforced(&self) -> bool {
        !self.rule.policy.is_shadow()
    }
}

impl Rules {
    /// Which layer this is. Clones are the same one.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(super) fn decide(&self, head: &Head<'_>) -> Verdict {
        let extensions = head.extensions();
        if extensions.get::<Exempt>().is_some() {
            return Verdict::Uncounted;
        }
        if self.exemptions.iter().any(|exempt| exempt(head)) {
            return Verdict::Exempt;
        }
        // Mounted twice on the way of one request, a layer still counts it once.
        if extensions.get::<Decision>().is_some_and(|decision| decision.is_by(self.id())) {
            return Verdict::Uncounted;
        }
        let Some(asked) = self.ask(head) else {
            return Verdict::Refused(self.refuse(head, &Decision::default(), None));
        };
        match (asked.iter().next(), asked.len()) {
            (None, _) => Verdict::Uncounted,
            (Some(only), 1) if only.is_enforced() => match only.demand.check() {
                Ok(allowed) => self.allow(&asked, iter::once(allowed)),
                Err(denied) => {
                    let wait = denied.retry_after();
                    self.deny(head, &asked, iter::once(Err(denied)), wait)
                }
            },
            _ => match check_all(asked.iter().filter(|asked| asked.is_enforced()).map(|asked| asked.demand)) {
                Ok(allowed) => self.allow(&asked, allowed.into_iter()),
                Err(denied) => {
                    let wait = denied.retry_after();
                    self.deny(head, &asked, denied.into_outcomes(), wait)
                }
            },
        }
    }

    /// The policies that are for this request, or `None` if one of them does not let in whom it does not know.
    fn ask(&self, head: &Head<'_>) -> Option<Few<Asked<'_>>> {
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
                _ if !policy.limit().by_client() => &None,
                Some(identify) => {
                    own = identify.identify(head);
                    &own
                }
                None => client.get_or_insert_with(|| self.identify.identify(head)),
            };
            let nobody;
            let known = match (known, self.when_unknown) {
                (Some(known), _) => known,
                (None, WhenUnknown::Allow) if policy.limit().by_client() => continue,
                (None, WhenUnknown::Refuse) if policy.limit().by_client() && !policy.is_shadow() => return None,
                (None, _) => {
                    nobody = Client::named("unknown", "");
                    &nobody
                }
            };
            let demand = policy.limit().demand(known, policy.cost_of(head));
            asked.push(Asked { place, rule, demand, client: self.log_clients.then(|| Box::new(known.clone())) });
        }
        Some(asked)
    }

    /// All policies in force have let it pass. Those in shadow are asked now, each for itself.
    fn allow(&self, asked: &Few<Asked<'_>>, mut allowed: impl Iterator<Item = Allowed>) -> Verdict {
        let (mut decision, mut conditional) = (Decision::default(), Vec::new());
        for one in asked.iter() {
            let answer = match one.is_enforced() {
                true => allowed.next().map(Ok),
                false => Some(one.demand.check()),
            };
            // There is an answer for each demand.
            let Some(answer) = answer else { break };
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
    fn deny(
        &self,
        head: &Head<'_>,
        asked: &Few<Asked<'_>>,
        outcomes: impl Iterator<Item = Result<Status, Denied>>,
        wait: Option<Duration>,
    ) -> Verdict {
        let mut decision = Decision::default();
        for (one, outcome) in asked.iter().filter(|asked| asked.is_enforced()).zip(outcomes) {
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
