//! [`check_all`]: one decision over several shared limits, in one round trip.

use super::SharedLimiter;
use super::error::CheckAllError;
use super::name::tag_of;
use super::store::{Action, Part, Reply};
use crate::{Allowed, Denied, Reason, Status};
use std::error::Error;
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
/// tag, is asked for the sum. No demands at all are allowed.
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
    let Some(first) = demands.first() else { return Ok(AllAllowed(Vec::new())) };
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
            Ok(AllAllowed(allowed))
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

/// Every limit let the call pass, and was charged.
#[derive(Debug)]
pub struct AllAllowed(Vec<Allowed>);

impl AllAllowed {
    /// What each limit answered, in the order in which the demands were listed.
    pub fn iter(&self) -> impl Iterator<Item = &Allowed> {
        self.0.iter()
    }
}

impl IntoIterator for AllAllowed {
    type Item = Allowed;
    type IntoIter = std::vec::IntoIter<Allowed>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// At least one limit refused the call, and none was charged.
#[derive(Clone, Debug)]
pub struct SomeDenied(Vec<Result<Status, Denied>>);

impl SomeDenied {
    /// What each limit said, in the order in which the demands were listed: [`Denied`] where it refused, or else what is
    /// left there. Where a refusal was known without asking the store, the others state their whole limit.
    ///
    /// A limit that was listed more than once speaks of the sum each time.
    pub fn outcomes(&self) -> impl Iterator<Item = Result<&Status, &Denied>> {
        self.0.iter().map(Result::as_ref)
    }

    /// The refusals, each with its place in the list of demands, from 0.
    pub fn denied(&self) -> impl Iterator<Item = (usize, &Denied)> {
        self.outcomes().enumerate().filter_map(|(place, outcome)| Some((place, outcome.err()?)))
    }

    /// The longest wait of the limits that refused: after it the same call succeeds, if nobody else calls.
    ///
    /// `None` where one of them can never be met.
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied()
            .map(|(_, denied)| denied.retry_after())
            .try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    /// Why the call was refused: [`Reason::Never`] if that is true of any limit, or else [`Reason::Limited`] if that is, or
    /// else [`Reason::Unavailable`].
    pub fn reason(&self) -> Reason {
        let any = |reason| self.denied().any(|(_, denied)| denied.reason() == reason);
        [Reason::Never, Reason::Limited].into_iter().find(|&reason| any(reason)).unwrap_or(Reason::Unavailable)
    }
}

impl fmt::Display for SomeDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (refusing, all) = (self.denied().count(), self.0.len());
        match self.retry_after() {
            Some(wait) => write!(f, "refused by {refusing} of {all} limits, retry after {wait:?}"),
            None => write!(f, "refused by {refusing} of {all} limits, for good"),
        }
    }
}

impl Error for SomeDenied {}
