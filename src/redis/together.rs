//! [`check_all`]: one decision over several shared limits, in one round trip.

use super::SharedLimiter;
use super::error::CheckAllError;
use super::name::tag_of;
use super::store::{Action, Part, Reply};
use crate::few::Few;
use crate::{AllAllowed, Allowed, Denied, SomeDenied, Status};
use std::fmt;
use std::time::Duration;

/// What one shared limit is asked for: made by [`SharedLimiter::demand`], for [`check_all`].
#[derive(Clone, Copy)]
#[must_use = "a demand takes nothing until it is given to `check_all`"]
pub struct Demand<'a> {
    pub(super) limiter: &'a SharedLimiter,
    pub(super) key: &'a [u8],
    pub(super) tag: Option<&'a [u8]>,
    pub(super) cost: u64,
}

impl<'a> Demand<'a> {
    /// Puts the key into the cluster's slot of a tag, instead of the slot of the client: keys of one decision have to share
    /// one.
    ///
    /// The tag becomes a part of the key's name: give one client of one limit the same tag always, or it has a state for
    /// each. For a decision over a user and their tenant, tag both with the tenant.
    pub fn tagged<T: AsRef<[u8]> + ?Sized>(self, tag: &'a T) -> Self {
        Self { tag: Some(tag.as_ref()), ..self }
    }
}

impl fmt::Debug for Demand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demand").field("limiter", self.limiter).field("cost", &self.cost).finish_non_exhaustive()
    }
}

/// Takes from all of several limits in one store, or from none of them, in one atomic step.
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate::redis::{SharedLimiter, Store, check_all};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::open("redis://127.0.0.1/")?;
/// let by_user = SharedLimiter::token_bucket("user", Quota::per_second(10)).build(&store)?;
/// let by_tenant = SharedLimiter::fixed_window("tenant", Quota::per_day(1000)).build(&store)?;
///
/// let demands = [by_user.demand("alice", 1).tagged("acme"), by_tenant.demand("acme", 1).tagged("acme")];
/// match check_all(demands).await {
///     Ok(allowed) => println!("{} left", allowed.iter().map(|one| one.remaining()).min().unwrap_or(0)),
///     Err(error) => println!("{error}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// The order in which demands are listed changes no answer. A limit that is listed more than once, with the same client and
/// tag, is asked for the sum, and each of its answers speaks of that. No demands at all are allowed. Where a limit is known to
/// refuse, by its cache of refusals, the store is not asked, and the outcomes of the others state their whole limit.
///
/// To undo a charge, see [`SharedLimiter::give_back`]: [`AllAllowed::give_back`] does nothing for what the store charged.
///
/// While the store is away, each limit answers as it would alone; the call passes if all let it, and local limiters get back
/// what they were charged if not.
///
/// # Errors
///
/// - [`CheckAllError::Denied`]: at least one limit refused, and none was charged.
/// - [`CheckAllError::Stores`], [`Slots`](CheckAllError::Slots), [`Names`](CheckAllError::Names): the limits cannot be
///   decided on together. Nothing was sent.
pub fn check_all<'a>(
    demands: impl IntoIterator<Item = Demand<'a>>,
) -> impl Future<Output = Result<AllAllowed, CheckAllError>> + Send {
    let demands: Vec<Demand<'a>> = demands.into_iter().collect();
    async move { decide(&demands).await }
}

async fn decide(demands: &[Demand<'_>]) -> Result<AllAllowed, CheckAllError> {
    let Some(first) = demands.first() else { return Ok(AllAllowed(Few::new())) };
    let store = first.limiter.store();
    if demands.iter().any(|demand| !demand.limiter.store().is(store)) {
        return Err(CheckAllError::Stores);
    }
    let (parts, places) = parts_of(demands)?;
    let shares_slot = |part: &Part<'_>| tag_of(&part.name) == tag_of(&parts[0].name);
    if store.shared().link.is_cluster() && !parts.iter().all(shares_slot) {
        return Err(CheckAllError::Slots);
    }
    // What each demand's limit is asked for in all.
    let sums: Vec<Demand<'_>> =
        demands.iter().zip(&places).map(|(demand, &place)| Demand { cost: parts[place].cost, ..*demand }).collect();

    let outcomes = match known_refusals(&sums) {
        Some(outcomes) => Err(outcomes),
        None => ask(&sums, parts, &places).await,
    };
    // Charges and refusals are counted once for each limit that speaks.
    match outcomes {
        Ok(allowed) => {
            sums.iter().for_each(|sum| sum.limiter.core().count(None));
            Ok(AllAllowed(allowed.into_iter().collect()))
        }
        Err(outcomes) => {
            let refusals = outcomes.iter().zip(&sums).filter_map(|(outcome, sum)| Some((outcome.as_ref().err()?, sum)));
            refusals.for_each(|(denied, sum)| sum.limiter.core().count(Some(denied.reason())));
            Err(CheckAllError::Denied(SomeDenied(outcomes)))
        }
    }
}

/// One part for each key, with the sum of what it is asked for, and each demand's place among them.
fn parts_of<'a>(demands: &[Demand<'a>]) -> Result<(Vec<Part<'a>>, Vec<usize>), CheckAllError> {
    let mut parts: Vec<Part<'a>> = Vec::with_capacity(demands.len());
    let mut places = Vec::with_capacity(demands.len());
    for demand in demands {
        let core = demand.limiter.core();
        let name = core.key_of(demand);
        let place = match parts.iter().position(|part| part.name == name) {
            Some(place) if *parts[place].rule != core.rule => return Err(CheckAllError::Names(core.name.clone())),
            Some(place) => place,
            None => {
                parts.push(Part { name, rule: &core.rule, cost: 0 });
                parts.len() - 1
            }
        };
        parts[place].cost = parts[place].cost.saturating_add(demand.cost);
        places.push(place);
    }
    Ok((parts, places))
}

type Outcomes = Vec<Result<Status, Denied>>;

/// The outcomes, if one of the limits is known to refuse: of the others it is not known what is left.
fn known_refusals(sums: &[Demand<'_>]) -> Option<Outcomes> {
    let known: Vec<Option<Denied>> = sums.iter().map(|sum| sum.limiter.core().known_refusal(sum)).collect();
    known.iter().any(Option::is_some).then(|| {
        let not_asked = |sum: &Demand<'_>| Ok(Status { snapshot: sum.limiter.core().untouched(0) });
        known.into_iter().zip(sums).map(|(denied, sum)| denied.map_or_else(|| not_asked(sum), Err)).collect()
    })
}

async fn ask(sums: &[Demand<'_>], mut parts: Vec<Part<'_>>, places: &[usize]) -> Result<Vec<Allowed>, Outcomes> {
    let core = sums[0].limiter.core();
    let asked = core.local();
    let never = parts.iter().any(|part| part.cost > part.rule.limit);
    let action = if never || parts.iter().all(|part| part.cost == 0) { Action::Peek } else { Action::Take };
    for part in &mut parts {
        // A script is asked for what can fit only.
        part.cost = if part.cost > part.rule.limit { 0 } else { part.cost };
    }
    match core.store.shared().ask(action, &parts).await {
        Ok(reply) => judge(sums, places, &reply, asked, never),
        Err(error) => without_store(sums, error.pause),
    }
}

fn judge(
    sums: &[Demand<'_>],
    places: &[usize],
    reply: &Reply,
    asked: u64,
    never: bool,
) -> Result<Vec<Allowed>, Outcomes> {
    let all = reply.result == 1 && !never;
    let answers = sums
        .iter()
        .zip(places)
        .map(|(sum, &place)| sum.limiter.core().judge(sum, all, reply.now, reply.parts[place], asked));
    match all {
        true => answers.collect::<Result<_, _>>().map_err(|denied| vec![Err(denied)]),
        false => Err(answers.map(|answer| answer.map(status)).collect()),
    }
}

fn without_store(sums: &[Demand<'_>], pause: Duration) -> Result<Vec<Allowed>, Outcomes> {
    let answers: Vec<_> = sums.iter().map(|sum| sum.limiter.core().without_store(sum, pause)).collect();
    if answers.iter().all(Result::is_ok) {
        return Ok(answers.into_iter().flatten().collect());
    }
    let given_back = |allowed: Allowed| {
        let status = status_of(&allowed);
        allowed.give_back();
        status
    };
    Err(answers.into_iter().map(|answer| answer.map(given_back)).collect())
}

fn status(allowed: Allowed) -> Status {
    status_of(&allowed)
}

fn status_of(allowed: &Allowed) -> Status {
    Status { snapshot: allowed.snapshot }
}
