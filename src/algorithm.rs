//! The rate-limiting algorithms: pure functions on one `u64`.
//!
//! A client's whole state is the *payload* of one word: 62 bits, whose meaning belongs to the algorithm. Nothing here
//! knows of atomics, keys or clocks: instants are nanoseconds since the limiter was built, and a transition takes a
//! payload and returns another. Two rules bind every algorithm:
//!
//! - payload 0 means *never written*, and stands for exactly what an absent client stands for: nothing used;
//! - no transition returns payload 0, so a word that was written once can always be told from one that was not.

mod token_bucket;

pub use token_bucket::{Scale, TokenBucket};

/// The largest payload of a word; the two bits above belong to the table.
pub(crate) const PAYLOAD_MAX: u64 = (1 << 62) - 1;

/// How an algorithm reads a client's word.
pub trait Answers {
    /// The largest cost that can ever be admitted at once, in tokens.
    fn limit(&self) -> u64;

    /// Whole tokens that could be taken at `now`.
    fn remaining(&self, payload: u64, now: u64) -> u64;

    /// Nanoseconds from `now` until `cost` could be taken, if nobody else takes any; `None` if that never comes.
    fn retry_after(&self, payload: u64, now: u64, cost: u64) -> Option<u64>;

    /// The first instant at which dropping the client changes no answer, if nothing more is charged; `u64::MAX` if never.
    fn idle_at(&self, payload: u64) -> u64;

    /// Nanoseconds from `now` until nothing is used.
    fn reset_after(&self, payload: u64, now: u64) -> u64 {
        match payload {
            0 => 0,
            _ => self.idle_at(payload).saturating_sub(now),
        }
    }
}

/// How an algorithm moves a client's word. Implemented by this crate's algorithms only.
pub trait Algorithm: Answers + Copy + std::fmt::Debug + Send + Sync + 'static + sealed::Sealed {
    /// The payload after `cost` (from 1 to the limit) is taken at `now`, or `None` if it is refused.
    fn charge(&self, payload: u64, now: u64, cost: u64) -> Option<u64>;

    /// The payload after the charge of `cost` at `taken` is undone at `now`, with the tokens that this returns.
    fn give_back(&self, payload: u64, now: u64, cost: u64, taken: u64) -> Option<(u64, u64)>;

    /// The payload after `tokens` are put back at `now` whoever took them, with how many found room.
    fn refund(&self, payload: u64, now: u64, tokens: u64) -> Option<(u64, u64)>;

    /// The payload of a client with nothing used at `now`, or `None` if this one is such already.
    fn reset(&self, payload: u64, now: u64) -> Option<u64>;

    /// Whether dropping the client at `now` changes no answer from then on.
    fn is_idle(&self, payload: u64, now: u64) -> bool;

    /// How long it takes, in nanoseconds, until a client that has used everything is idle.
    fn longest_idle(&self) -> u64;

    /// The algorithm as a value that decisions can carry.
    #[doc(hidden)]
    fn any(self) -> Any;
}

/// One of the algorithms, inside a decision: as little as its answers can be computed from.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Any {
    /// A token bucket.
    TokenBucket(Scale),
    /// An algorithm of the models, which look at no decision.
    #[cfg(tollgate_loom)]
    Opaque,
}

impl Any {
    fn with<R>(self, answer: impl FnOnce(&dyn Answers) -> R) -> R {
        match self {
            Self::TokenBucket(scale) => answer(&TokenBucket::from(scale)),
            #[cfg(tollgate_loom)]
            Self::Opaque => unreachable!("a model looks at no decision"),
        }
    }

    pub(crate) fn limit(self) -> u64 {
        self.with(|algorithm| algorithm.limit())
    }

    pub(crate) fn remaining(self, payload: u64, now: u64) -> u64 {
        self.with(|algorithm| algorithm.remaining(payload, now))
    }

    pub(crate) fn reset_after(self, payload: u64, now: u64) -> u64 {
        self.with(|algorithm| algorithm.reset_after(payload, now))
    }

    pub(crate) fn retry_after(self, payload: u64, now: u64, cost: u64) -> Option<u64> {
        self.with(|algorithm| algorithm.retry_after(payload, now, cost))
    }
}

pub(crate) mod sealed {
    /// Keeps [`Algorithm`](super::Algorithm) closed: the table relies on its two rules.
    pub trait Sealed {}
}
