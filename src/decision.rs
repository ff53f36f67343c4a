//! What a limiter answers: [`Allowed`], [`Denied`], [`Status`].
//!
//! Answers are owned values. They hold no lock, no guard and no borrow, so they may be kept across an await or put into a
//! request's extensions; what they report describes the instant of the decision, and is computed when asked for.

use crate::algorithm::Snapshot;
use crate::registry::Receipt;
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The call may go ahead: its cost was taken.
#[derive(Debug)]
pub struct Allowed {
    pub(crate) snapshot: Snapshot,
    pub(crate) receipt: Receipt,
}

impl Allowed {
    /// The largest cost that can be admitted at once, in tokens: the burst of a token bucket, or what a
    /// window may hold.
    pub fn limit(&self) -> u64 {
        self.snapshot.limit()
    }

    /// Whole tokens left after this call.
    pub fn remaining(&self) -> u64 {
        self.snapshot.remaining()
    }

    /// Time from the decision until the client has its whole limit again, if it makes no further call. Rounded up to the
    /// nanosecond.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.snapshot.reset_after())
    }

    /// Undoes this call's charge, for instance because the work behind it never happened. Returns the tokens put back,
    /// a part of a token counted as one.
    ///
    /// At most the cost comes back, less what has refilled since; of windows only while the one that was charged lasts; to
    /// a log the call's own events. So no client ever gets more over any stretch of time than its quota allows, unless it
    /// was reset meanwhile. Returns 0 once nothing of the charge counts any more, if the limiter is gone, and for a client
    /// that [`WhenFull::Allow`](crate::WhenFull::Allow) let pass.
    pub fn give_back(self) -> u64 {
        self.receipt.give_back(self.snapshot.charged())
    }
}

/// The call must not go ahead: nothing was taken.
#[derive(Clone, Debug)]
pub struct Denied {
    pub(crate) snapshot: Snapshot,
    pub(crate) cost: u64,
    pub(crate) reason: Reason,
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The client has used its quota for now.
    Limited,
    /// The cost is above the limit, so that no wait will ever be enough.
    Never,
    /// The limiter holds as many live clients as it may, and this one is not among them.
    Full,
    /// The store that holds the limit gave no answer, and calls are refused meanwhile. Limiters within a process never
    /// say so.
    Unavailable,
}

impl Denied {
    /// The largest cost that can be admitted at once, in tokens: the burst of a token bucket, or what a
    /// window may hold.
    pub fn limit(&self) -> u64 {
        self.snapshot.limit()
    }

    /// Whole tokens that a smaller cost could still take: 0 for [`Reason::Full`].
    pub fn remaining(&self) -> u64 {
        self.snapshot.remaining()
    }

    /// Time from the decision until the client has its whole limit again, if it makes no further call. Rounded up to the
    /// nanosecond.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.snapshot.reset_after())
    }

    /// Time from the decision until the same call succeeds, if nobody else calls: exact to the nanosecond for
    /// [`Reason::Limited`], and never zero.
    ///
    /// `None` for [`Reason::Never`], and where the wait ends past the limiter's time horizon (30 years or more of
    /// uptime). For [`Reason::Full`] it is a wait that is long enough, of a millisecond or more, unless an idle
    /// [`Session`](crate::Session) keeps the limiter from making room; a place is often free sooner. For
    /// [`Reason::Unavailable`] it is the time after which the store is asked again. Where a store decided, waits are rounded
    /// up to the microsecond.
    pub fn retry_after(&self) -> Option<Duration> {
        self.snapshot.retry_after(self.cost).map(Duration::from_nanos)
    }

    /// Why the call was refused.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason, self.retry_after()) {
            (Reason::Never, _) => write!(f, "the cost of {} is above the limit of {}", self.cost, self.limit()),
            (Reason::Full, Some(wait)) => write!(f, "no room for another client, retry within {wait:?}"),
            (Reason::Unavailable, Some(wait)) => write!(f, "the shared store is away, retry after {wait:?}"),
            (Reason::Limited, Some(wait)) => write!(f, "rate limit exceeded, retry after {wait:?}"),
            (_, None) => write!(f, "rate limit exceeded"),
        }
    }
}

impl Error for Denied {}

/// What is left to a client, read without taking anything.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub(crate) snapshot: Snapshot,
}

impl Status {
    /// The largest cost that can be admitted at once, in tokens: the burst of a token bucket, or what a
    /// window may hold.
    pub fn limit(&self) -> u64 {
        self.snapshot.limit()
    }

    /// Whole tokens that could be taken now.
    pub fn remaining(&self) -> u64 {
        self.snapshot.remaining()
    }

    /// Time until the client has its whole limit again, if it makes no further call. Rounded up to the nanosecond.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.snapshot.reset_after())
    }

    /// What a call of `cost` would come to.
    pub(crate) fn judge(self, cost: u64) -> Result<Self, Denied> {
        if cost <= self.remaining() {
            return Ok(self);
        }
        let reason = if cost > self.limit() { Reason::Never } else { Reason::Limited };
        Err(Denied { snapshot: self.snapshot, cost, reason })
    }
}
