//! What is answered while the store is away.

use super::builder::Plan;
use crate::algorithm::Algorithm;
use crate::{Allowed, BuildError, Denied, Limiter};
use std::fmt;

/// What a shared limiter answers when the store does not, whatever the trouble is.
///
/// None of the answers reaches the store later: what is let pass during an outage is not charged to the shared quota when
/// it is back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenAway {
    /// The call is refused, with [`Reason::Unavailable`](crate::Reason::Unavailable) and the time after which the store is
    /// asked again. Protects what is behind the limit.
    #[default]
    Refuse,
    /// The call passes, uncounted; its answer is that of a client with nothing used before. Protects whoever calls.
    Allow,
    /// A limiter in this process decides, on its part of the quota. With as many instances as `one_in`, all of them together
    /// let pass what the quota says.
    ///
    /// A quota with a burst of its own has its rate divided exactly, and its burst rounded down. Otherwise the count in a
    /// period is divided and rounded down.
    Local {
        /// The part: one in so many, at least 1.
        one_in: u32,
    },
}

/// A limiter in this process, of any algorithm.
pub(super) struct Local(Box<dyn CheckBytes>);

trait CheckBytes: Send + Sync {
    fn check_n(&self, key: &[u8], cost: u64) -> Result<Allowed, Denied>;
}

impl<A: Algorithm> CheckBytes for Limiter<A> {
    fn check_n(&self, key: &[u8], cost: u64) -> Result<Allowed, Denied> {
        self.check_n(key, cost)
    }
}

impl Local {
    pub(super) fn token_bucket(plan: Plan) -> Result<Self, BuildError> {
        Ok(Self(Box::new(Limiter::token_bucket(plan.quota).build()?)))
    }

    pub(super) fn fixed_window(plan: Plan) -> Result<Self, BuildError> {
        Ok(Self(Box::new(Limiter::fixed_window(plan.quota).anchor(plan.anchor).build()?)))
    }

    pub(super) fn sliding_counter(plan: Plan) -> Result<Self, BuildError> {
        let builder = Limiter::sliding_counter(plan.quota).anchor(plan.anchor);
        Ok(Self(Box::new(if plan.strict { builder.strict() } else { builder }.build()?)))
    }

    pub(super) fn sliding_log(plan: Plan) -> Result<Self, BuildError> {
        Ok(Self(Box::new(Limiter::sliding_log(plan.quota).build()?)))
    }

    pub(super) fn check_n(&self, key: &[u8], cost: u64) -> Result<Allowed, Denied> {
        self.0.check_n(key, cost)
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Local")
    }
}
