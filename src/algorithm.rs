//! The rate-limiting algorithms: pure functions on one `u64`.
//!
//! A client's whole state is the *payload* of one word: 62 bits, whose meaning belongs to the algorithm. Nothing here
//! knows of atomics, keys or clocks: instants are nanoseconds since the limiter was built, and a transition takes a
//! payload and returns another. Two rules bind every algorithm:
//!
//! - payload 0 means *never written*, and stands for exactly what an absent client stands for: nothing used;
//! - no transition returns payload 0, so a word that was written once can always be told from one that was not.
//!
//! A payload may point to memory ([`Algorithm::POINTS`]). A transition then returns a new piece of memory and never
//! changes an old one; whoever has the words says when one is free to go.

mod fixed_window;
mod sliding_counter;
mod sliding_log;
#[cfg(all(test, not(tollgate_loom)))]
mod testing;
mod token_bucket;
mod windows;

use crate::epoch::Guard;
use crate::error::BuildError;
use crate::quota::Quota;

pub use fixed_window::FixedWindow;
pub use sliding_counter::SlidingCounter;
#[cfg(tollgate_loom)]
pub use sliding_log::Limbo;
pub use sliding_log::SlidingLog;
pub use token_bucket::TokenBucket;
pub use windows::Anchor;

/// The largest payload of a word; the two bits above belong to the table.
pub(crate) const PAYLOAD_MAX: u64 = (1 << 62) - 1;

/// The uptime for which a limiter is guaranteed to keep exact time: 30 years of 365.25 days, in nanoseconds.
const UPTIME: u64 = 30 * 31_557_600 * 1_000_000_000;

/// What an algorithm is asked to be, before it is known whether its numbers fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) quota: Quota,
    /// Where windows start, for the algorithms that have some.
    pub(crate) anchor: Anchor,
    /// Whether a sliding counter counts parts of a call as whole ones.
    pub(crate) strict: bool,
    /// The clock's reading when the limiter was built.
    pub(crate) origin: u64,
}

impl Plan {
    pub(crate) fn new(quota: Quota) -> Self {
        Self { quota, anchor: Anchor::default(), strict: false, origin: 0 }
    }
}

/// How an algorithm is made of its plan.
pub(crate) type Make<A> = fn(Plan) -> Result<A, BuildError>;

/// How an algorithm reads a client's word.
pub trait Answers {
    /// The largest cost that can ever be admitted at once, in tokens.
    fn limit(&self) -> u64;

    /// Whole tokens that could be taken at `now`.
    fn remaining(&self, payload: u64, now: u64) -> u64;

    /// Nanoseconds from `now` until `cost` could be taken, if nobody else takes any; `None` if that never comes.
    fn retry_after(&self, payload: u64, now: u64, cost: u64) -> Option<u64>;

    /// Nanoseconds from `now` until the whole limit could be taken, or until the end of time if that never comes.
    fn reset_after(&self, payload: u64, now: u64) -> u64 {
        self.retry_after(payload, now, self.limit()).unwrap_or(u64::MAX - now)
    }
}

/// How an algorithm moves a client's word. Implemented by this crate's algorithms only.
pub trait Algorithm: Answers + Copy + std::fmt::Debug + Send + Sync + 'static + sealed::Sealed {
    /// Whether payloads point to memory. It is read under a guard only, and freed when the word has let go of it.
    const POINTS: bool = false;

    /// The payload after `cost` (from 1 to the limit) is taken at `now`, or `None` if it is refused.
    fn charge(&self, payload: u64, now: u64, cost: u64) -> Option<u64>;

    /// [`charge`](Self::charge) at one instant, for any payload. What depends on the instant alone is computed here.
    #[inline(always)]
    fn charges(&self, now: u64, cost: u64) -> impl Fn(u64) -> Option<u64> {
        move |payload| self.charge(payload, now, cost)
    }

    /// The payload after the charge of `cost` that came to `charged` is undone at `now`, with the tokens that this
    /// returns.
    fn give_back(&self, payload: u64, now: u64, cost: u64, charged: Charged) -> Option<(u64, u64)>;

    /// The payload after `tokens` are put back at `now` whoever took them, with how many found room.
    fn refund(&self, payload: u64, now: u64, tokens: u64) -> Option<(u64, u64)>;

    /// The payload of a client with nothing used at `now`, or `None` if this one has its whole limit already.
    fn reset(&self, payload: u64, now: u64) -> Option<u64>;

    /// Whether dropping the client at `now` changes no answer from then on.
    fn is_idle(&self, payload: u64, now: u64) -> bool;

    /// The first instant at which the client is idle, if nothing more is charged; `u64::MAX` if never.
    fn idle_at(&self, payload: u64) -> u64;

    /// How long it takes, in nanoseconds, until a client that has used everything is idle.
    fn longest_idle(&self) -> u64;

    /// The stretch of time, in nanoseconds, in which about the limit is let through in the long run.
    fn window(&self) -> u64 {
        self.longest_idle()
    }

    /// What a decision on `cost` carries away: answers that need no guard any more.
    fn snapshot(&self, payload: u64, now: u64, cost: u64) -> Snapshot;

    /// The same for a client that has no word and has just taken `cost`.
    fn snapshot_of_new(&self, now: u64, cost: u64) -> Snapshot {
        self.snapshot(self.charge(0, now, cost).unwrap_or_default(), now, cost)
    }

    /// Frees what a payload points to.
    ///
    /// # Safety
    ///
    /// The payload came from a transition, nobody will read it any more, and it is freed only once.
    unsafe fn free(_payload: u64) {}

    /// Frees what a payload points to once no guard is left that is pinned now, under which others may be reading it.
    ///
    /// # Safety
    ///
    /// The payload came from a transition, nobody reaches it under a later guard, and it is retired only once.
    unsafe fn retire(_payload: u64, _guard: &Guard) {}

    /// Frees what the calling thread has retired, as far as that may be, and asks the epoch for the rest.
    fn reclaim(_guard: &Guard) {}

    /// Bytes that payloads point to, those included that cannot be freed yet.
    fn bytes(&self) -> usize {
        0
    }

    /// Ends the algorithm's use: nothing is charged any more, though memory may still be freed.
    fn close(&self) {}
}

/// A client's state at one instant, as decisions carry it: without a guard, a lock or a borrow.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    pub(crate) answers: Any,
    /// What the answers are read from: mostly the payload itself.
    pub(crate) payload: u64,
    /// Nanoseconds since the limiter was built.
    pub(crate) now: u64,
}

/// What a charge came to, for whoever undoes it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Charged {
    /// The payload of the charge's snapshot.
    pub(crate) payload: u64,
    /// The instant of the charge.
    pub(crate) now: u64,
}

#[cfg(tollgate_loom)]
#[allow(missing_docs)]
impl Charged {
    /// The charge of `cost` at `now` that came to `payload`.
    pub fn of(algorithm: &impl Algorithm, payload: u64, now: u64, cost: u64) -> Self {
        algorithm.snapshot(payload, now, cost).charged()
    }
}

impl Snapshot {
    /// What a client is told that finds no place: to wait, for so many nanoseconds.
    pub(crate) fn no_room(limit: u64, wait: u64, now: u64) -> Self {
        Self { answers: Any::NoRoom { limit, wait }, payload: 0, now }
    }

    /// The answers that a store gave, with the mark of the charge there.
    #[cfg(feature = "redis")]
    pub(crate) fn told(limit: u64, remaining: u64, reset_after: u64, retry_after: Option<u64>, mark: u64) -> Self {
        let retry_after = retry_after.unwrap_or(u64::MAX);
        Self { answers: Any::Told { limit, remaining, retry_after }, payload: reset_after, now: mark }
    }

    /// The mark of the charge in a store, if the answers came from one; 0 if there was no charge.
    #[cfg(feature = "redis")]
    pub(crate) fn mark(&self) -> Option<u64> {
        matches!(self.answers, Any::Told { .. }).then_some(self.now)
    }

    /// The same of a call that was charged nothing.
    #[cfg(feature = "redis")]
    pub(crate) fn unmarked(self) -> Self {
        Self { now: 0, ..self }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.answers.with(|answers| answers.limit())
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.answers.with(|answers| answers.remaining(self.payload, self.now))
    }

    pub(crate) fn reset_after(&self) -> u64 {
        self.answers.with(|answers| answers.reset_after(self.payload, self.now))
    }

    pub(crate) fn retry_after(&self, cost: u64) -> Option<u64> {
        self.answers.with(|answers| answers.retry_after(self.payload, self.now, cost))
    }

    /// What a receipt of this decision gives back by.
    pub(crate) fn charged(&self) -> Charged {
        Charged { payload: self.payload, now: self.now }
    }
}

/// One of the algorithms inside a decision: as little as its answers can be computed from. Fields lie in the variants, and
/// not in types of their own, so that the small ones share a word with the tag.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Any {
    TokenBucket {
        limit: u64,
        unit: u64,
        multiplier: u64,
        shift: u8,
    },
    FixedWindow {
        limit: u64,
        period: u64,
        offset: u64,
        grain: u8,
    },
    SlidingCounter {
        limit: u64,
        period: u64,
        offset: u64,
        grain: u8,
        strict: bool,
    },
    SlidingLog {
        limit: u32,
        remaining: u32,
        window: u64,
        retry_at: u64,
    },
    NoRoom {
        limit: u64,
        wait: u64,
    },
    #[cfg(feature = "redis")]
    Told {
        limit: u64,
        remaining: u64,
        retry_after: u64,
    },
}

impl Any {
    fn with<R>(self, answer: impl FnOnce(&dyn Answers) -> R) -> R {
        match self {
            Self::TokenBucket { limit, unit, multiplier, shift } => {
                answer(&TokenBucket::of_parts(limit, unit, multiplier, shift))
            }
            Self::FixedWindow { limit, period, offset, grain } => {
                answer(&FixedWindow::of_parts(limit, period, offset, grain))
            }
            Self::SlidingCounter { limit, period, offset, grain, strict } => {
                answer(&SlidingCounter::of_parts(limit, period, offset, grain, strict))
            }
            Self::SlidingLog { limit, remaining, window, retry_at } => {
                answer(&sliding_log::Digest { limit, remaining, window, retry_at })
            }
            Self::NoRoom { limit, wait } => answer(&NoRoom { limit, wait }),
            #[cfg(feature = "redis")]
            Self::Told { limit, remaining, retry_after } => answer(&Told { limit, remaining, retry_after }),
        }
    }
}

/// The answers to a client that has no place.
struct NoRoom {
    limit: u64,
    wait: u64,
}

impl Answers for NoRoom {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self, _: u64, _: u64) -> u64 {
        0
    }

    fn retry_after(&self, _: u64, _: u64, _: u64) -> Option<u64> {
        (self.wait < u64::MAX).then_some(self.wait)
    }
}

/// Answers that were computed elsewhere. The payload is the time until all is there again.
#[cfg(feature = "redis")]
struct Told {
    limit: u64,
    remaining: u64,
    /// For the cost of the decision; `u64::MAX` if never.
    retry_after: u64,
}

#[cfg(feature = "redis")]
impl Answers for Told {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self, _: u64, _: u64) -> u64 {
        self.remaining
    }

    fn retry_after(&self, _: u64, _: u64, _: u64) -> Option<u64> {
        (self.retry_after < u64::MAX).then_some(self.retry_after)
    }

    fn reset_after(&self, reset_after: u64, _: u64) -> u64 {
        reset_after
    }
}

pub(crate) mod sealed {
    /// Keeps [`Algorithm`](super::Algorithm) closed: the table relies on its rules.
    pub trait Sealed {}
}
