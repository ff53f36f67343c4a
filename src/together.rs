//! [`check_all`]: one decision over several limits.

use crate::all_or_nothing::{Groups, Part, take_all};
use crate::decision::{Allowed, Denied, Reason, Status};
use crate::few::Few;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A limiter or a gate as a decision over several sees it.
pub(crate) trait Source: Send + Sync {
    /// The client's state, if `cost` could be taken now.
    fn look(&self, client: u64, cost: u64) -> Result<Status, Denied>;

    /// As `check_n`.
    fn take(&self, client: u64, cost: u64) -> Result<Allowed, Denied>;
}

/// What one limit is asked for, in a decision over several: made by [`Limiter::demand`](crate::Limiter::demand) and
/// [`Gate::demand`](crate::Gate::demand), for [`check_all`].
#[derive(Clone, Copy)]
#[must_use = "a demand takes nothing until it is given to `check_all`"]
pub struct Demand<'a> {
    source: &'a dyn Source,
    client: u64,
    cost: u64,
}

impl<'a> Demand<'a> {
    pub(crate) fn new(source: &'a dyn Source, client: u64, cost: u64) -> Self {
        Self { source, client, cost }
    }
}

#[cfg(feature = "tower")]
impl Demand<'_> {
    /// Decides on this demand alone.
    pub(crate) fn check(&self) -> Result<Allowed, Denied> {
        self.source.take(self.client, self.cost)
    }
}

impl fmt::Debug for Demand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demand").field("cost", &self.cost).finish_non_exhaustive()
    }
}

impl Part for Demand<'_> {
    type Rank = (usize, u64);
    type Seen = Status;
    type Taken = Allowed;
    type Refusal = Denied;

    fn rank(&self) -> (usize, u64) {
        (std::ptr::from_ref(self.source).cast::<()>().addr(), self.client)
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn look(&self, cost: u64) -> Result<Status, Denied> {
        self.source.look(self.client, cost)
    }

    fn take(&self, cost: u64) -> Result<Allowed, Denied> {
        self.source.take(self.client, cost)
    }

    fn give_back(&self, taken: Allowed) {
        taken.give_back();
    }
}

/// Takes from all of several limits, or from none of them.
///
/// ```
/// use tollgate::{Gate, Limiter, Quota, check_all};
///
/// let by_user = Limiter::token_bucket(Quota::per_second(10)).build()?;
/// let by_tenant = Limiter::token_bucket(Quota::per_day(1000)).build()?;
/// let all = Gate::token_bucket(Quota::per_second(5000)).build()?;
///
/// let answer = check_all([by_user.demand("alice", 1), by_tenant.demand("acme", 1), all.demand(1)]);
/// match answer {
///     Ok(allowed) => assert!(allowed.iter().map(|one| one.remaining()).eq([9, 999, 4999])),
///     Err(denied) => println!("retry after {:?}", denied.retry_after()),
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// The order in which demands are listed changes no answer. A limit that is listed more than once, with the same client, is
/// asked for the sum. No demands at all are allowed. Up to four demands are decided on without an allocation, unless they
/// are refused; the time grows with the square of their number, which is meant to be small.
///
/// # What others see meanwhile
///
/// All limits are looked at before any is taken from, so that a refusal, as a rule, has written nothing. Another call may
/// come between look and take, and get what was seen there. Then what was already taken is given back, by
/// [`Allowed::give_back`], which is less what has refilled in that moment. For so long a call that asks for it can be
/// refused, although it would have passed. There is never an admission too many: what is held counts as taken. Of several
/// calls that are after the last tokens of the same limits at once, one gets them, in whatever order each lists them, while
/// no call of another kind comes between.
///
/// # Errors
///
/// [`SomeDenied`], with what each limit said. A limiter that has no place for a new client
/// ([`Reason::Full`]) notices when it is taken from, after the look has found enough in all limits; so of several such
/// limiters one is reported.
pub fn check_all<'a>(demands: impl IntoIterator<Item = Demand<'a>>) -> Result<AllAllowed, SomeDenied> {
    let demands: Few<Demand<'a>> = demands.into_iter().collect();
    match take_all(&demands) {
        Ok(taken) => Ok(AllAllowed(
            demands
                .iter()
                .filter_map(|demand| Some((demand, of_group(&taken, demand)?)))
                .map(|(demand, Allowed { snapshot, receipt })| Allowed {
                    snapshot: *snapshot,
                    receipt: receipt.part(demand.cost),
                })
                .collect(),
        )),
        Err(outcomes) => {
            Err(SomeDenied(demands.iter().filter_map(|demand| of_group(&outcomes, demand)).cloned().collect()))
        }
    }
}

/// What the group of a demand came to; there is one for each.
fn of_group<'g, 'd, T>(groups: &'g Groups<Demand<'d>, T>, demand: &Demand<'d>) -> Option<&'g T> {
    groups.iter().find(|(rank, _)| *rank == demand.rank()).map(|(_, item)| item)
}

/// Every limit let the call pass, and was charged.
///
/// Iterates over an [`Allowed`] for each demand, in the order in which they were listed; each can be given back for itself.
#[derive(Debug)]
pub struct AllAllowed(pub(crate) Few<Allowed>);

impl AllAllowed {
    /// What each limit answered, in the order in which the demands were listed.
    pub fn iter(&self) -> impl Iterator<Item = &Allowed> {
        self.0.iter()
    }

    /// Undoes all of the charges, each as [`Allowed::give_back`] does. Returns the sum of the tokens put back.
    pub fn give_back(self) -> u64 {
        self.0.into_iter().map(Allowed::give_back).fold(0, u64::saturating_add)
    }
}

impl IntoIterator for AllAllowed {
    type Item = Allowed;
    type IntoIter = <Few<Allowed> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// At least one limit refused the call, and none was charged.
#[derive(Clone, Debug)]
pub struct SomeDenied(pub(crate) Vec<Result<Status, Denied>>);

impl SomeDenied {
    /// What each limit said, in the order in which the demands were listed: [`Denied`] where it refused, or else what is
    /// left there.
    ///
    /// A limit that was listed more than once speaks of the sum each time.
    pub fn outcomes(&self) -> impl Iterator<Item = Result<&Status, &Denied>> {
        self.0.iter().map(Result::as_ref)
    }

    #[cfg(feature = "tower")]
    pub(crate) fn into_outcomes(self) -> impl Iterator<Item = Result<Status, Denied>> {
        self.0.into_iter()
    }

    /// The refusals, each with its place in the list of demands, from 0.
    pub fn denied(&self) -> impl Iterator<Item = (usize, &Denied)> {
        self.outcomes().enumerate().filter_map(|(place, outcome)| Some((place, outcome.err()?)))
    }

    /// The longest wait of the limits that refused: after it the same call succeeds, if nobody else calls.
    ///
    /// `None` where one of them can never be met, as in [`Denied::retry_after`].
    pub fn retry_after(&self) -> Option<Duration> {
        self.denied()
            .map(|(_, denied)| denied.retry_after())
            .try_fold(Duration::ZERO, |longest, wait| Some(longest.max(wait?)))
    }

    /// Why the call was refused: the first that is true of any limit, of [`Reason::Never`], [`Reason::Limited`],
    /// [`Reason::Full`] and [`Reason::Unavailable`].
    pub fn reason(&self) -> Reason {
        let any = |reason| self.denied().any(|(_, denied)| denied.reason() == reason);
        let first = [Reason::Never, Reason::Limited, Reason::Full].into_iter().find(|&reason| any(reason));
        first.unwrap_or(Reason::Unavailable)
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

#[cfg(test)]
mod tests;
