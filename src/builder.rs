//! Builders: everything about a limiter or a gate that can be chosen.

use crate::algorithm::{Algorithm, TokenBucket};
use crate::clock::{Clock, MonotonicClock};
use crate::error::BuildError;
use crate::gate::Gate;
use crate::limiter::Limiter;
use crate::quota::Quota;
use ahash::RandomState;
use std::hash::BuildHasher;

/// The most live clients that a limiter holds unless it is told otherwise: 100 million, in at most 4 GiB.
const MAX_KEYS: usize = if usize::BITS < 64 { MOST_KEYS } else { 100_000_000 };

/// The bound of `max_keys`: 2^40, or 2^20 where addresses have 32 bits.
const MOST_KEYS: usize = 1 << (usize::BITS / 8 * 5);

/// What a new client gets when the limiter already holds as many live ones as it may. A live client is never dropped to
/// make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// It is refused, with [`Reason::Full`](crate::Reason::Full) and a time after which it will find room.
    #[default]
    Deny,
    /// It passes, uncounted.
    Allow,
    /// All clients without a place share one bucket. One that gets its place later starts from what is left in that
    /// bucket, and so does one that was idle, forgotten, and comes back; `peek`, `refund` and `reset` of a client without
    /// a place mean the shared bucket.
    Shared,
}

/// How an algorithm is made of its quota.
type Make<A> = fn(Quota) -> Result<A, BuildError>;

/// Where the clock comes from. The default one is calibrated when it is made, so only if it is needed.
#[derive(Clone, Debug)]
enum Source<C> {
    Default(fn() -> C),
    Given(C),
}

impl<C> Source<C> {
    fn get(self) -> C {
        match self {
            Self::Default(make) => make(),
            Self::Given(clock) => clock,
        }
    }
}

/// Builds a [`Limiter`]. Made by [`Limiter::token_bucket`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LimiterBuilder<A, C = MonotonicClock, S = RandomState> {
    quota: Quota,
    make: Make<A>,
    clock: Source<C>,
    hasher: S,
    max_keys: usize,
    when_full: WhenFull,
}

impl LimiterBuilder<TokenBucket> {
    pub(crate) fn token_bucket(quota: Quota) -> Self {
        Self {
            quota,
            make: TokenBucket::new,
            clock: Source::Default(MonotonicClock::new),
            hasher: RandomState::new(),
            max_keys: MAX_KEYS,
            when_full: WhenFull::default(),
        }
    }
}

impl<A: Algorithm, C: Clock, S: BuildHasher + Send + Sync + 'static> LimiterBuilder<A, C, S> {
    /// The clock to go by, instead of [`MonotonicClock`].
    pub fn clock<D: Clock>(self, clock: D) -> LimiterBuilder<A, D, S> {
        let Self { quota, make, clock: _, hasher, max_keys, when_full } = self;
        LimiterBuilder { quota, make, clock: Source::Given(clock), hasher, max_keys, when_full }
    }

    /// The hasher of keys, instead of aHash with a random key.
    ///
    /// A client is known by the 64-bit hash of its key alone, and clients choose their keys: take a keyed hash whose key
    /// they cannot know, and one whose every bit is good.
    pub fn hasher<T: BuildHasher + Send + Sync + 'static>(self, hasher: T) -> LimiterBuilder<A, C, T> {
        let Self { quota, make, clock, hasher: _, max_keys, when_full } = self;
        LimiterBuilder { quota, make, clock, hasher, max_keys, when_full }
    }

    /// How many live clients the limiter holds, at least: from 1 to 2^40, 100 million by default. It may hold an eighth
    /// more, idle ones not yet dropped among them. A place takes 16 bytes, and the table of a full limiter at most 48 bytes
    /// for each of `max_keys`; twice that for a moment while it moves, besides what was retired and cannot be freed yet.
    pub fn max_keys(mut self, clients: usize) -> Self {
        self.max_keys = clients;
        self
    }

    /// What a new client gets when no more can be held: by default it is refused.
    pub fn when_full(mut self, answer: WhenFull) -> Self {
        self.when_full = answer;
        self
    }

    /// Builds the limiter; its time starts now.
    ///
    /// # Errors
    ///
    /// - [`BuildError::Quota`], [`PeriodTooLong`](BuildError::PeriodTooLong), [`RateTooHigh`](BuildError::RateTooHigh),
    ///   [`RefillTooLong`](BuildError::RefillTooLong), [`BurstTooLarge`](BuildError::BurstTooLarge): the quota cannot be
    ///   held exactly enough in a word.
    /// - [`BuildError::ZeroMaxKeys`], [`MaxKeysTooLarge`](BuildError::MaxKeysTooLarge): `max_keys` is outside of 1 to 2^40.
    /// - [`BuildError::OutOfMemory`]: the system gives no memory for the first table, which takes 4 KiB.
    pub fn build(self) -> Result<Limiter<A, C, S>, BuildError> {
        let algorithm = (self.make)(self.quota)?;
        match self.max_keys {
            0 => Err(BuildError::ZeroMaxKeys),
            1..=MOST_KEYS => Limiter::new(algorithm, self.clock.get(), self.hasher, self.max_keys, self.when_full),
            too_large => Err(BuildError::MaxKeysTooLarge(too_large)),
        }
    }
}

/// Builds a [`Gate`]. Made by [`Gate::token_bucket`].
#[derive(Clone, Debug)]
#[must_use]
pub struct GateBuilder<A, C = MonotonicClock> {
    quota: Quota,
    make: Make<A>,
    clock: Source<C>,
}

impl GateBuilder<TokenBucket> {
    pub(crate) fn token_bucket(quota: Quota) -> Self {
        Self { quota, make: TokenBucket::new, clock: Source::Default(MonotonicClock::new) }
    }
}

impl<A: Algorithm, C: Clock> GateBuilder<A, C> {
    /// The clock to go by, instead of [`MonotonicClock`].
    pub fn clock<D: Clock>(self, clock: D) -> GateBuilder<A, D> {
        GateBuilder { quota: self.quota, make: self.make, clock: Source::Given(clock) }
    }

    /// Builds the gate; its time starts now.
    ///
    /// # Errors
    ///
    /// Those of [`LimiterBuilder::build`] that concern the quota.
    pub fn build(self) -> Result<Gate<A, C>, BuildError> {
        Ok(Gate::new((self.make)(self.quota)?, self.clock.get()))
    }
}
