//! Builders: everything about a limiter or a gate that can be chosen.

use crate::algorithm::{Algorithm, Anchor, FixedWindow, Make, Plan, SlidingCounter};
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

/// An algorithm, as far as it was chosen.
#[derive(Clone, Debug)]
struct Choice<A> {
    plan: Plan,
    make: Make<A>,
}

impl<A> Choice<A> {
    fn new(quota: Quota, make: Make<A>) -> Self {
        Self { plan: Plan::new(quota), make }
    }

    fn make(self, origin: u64) -> Result<A, BuildError> {
        (self.make)(Plan { origin, ..self.plan })
    }
}

/// Algorithms whose windows can start in several ways.
pub trait Windowed: Algorithm {}

impl Windowed for FixedWindow {}
impl Windowed for SlidingCounter {}

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

/// Builds a [`Limiter`]. Made by [`Limiter::token_bucket`] and its like.
#[derive(Clone, Debug)]
#[must_use]
pub struct LimiterBuilder<A, C = MonotonicClock, S = RandomState> {
    choice: Choice<A>,
    clock: Source<C>,
    hasher: S,
    max_keys: usize,
    when_full: WhenFull,
}

impl<A> LimiterBuilder<A> {
    pub(crate) fn new(quota: Quota, make: Make<A>) -> Self {
        Self {
            choice: Choice::new(quota, make),
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
        let Self { choice, clock: _, hasher, max_keys, when_full } = self;
        LimiterBuilder { choice, clock: Source::Given(clock), hasher, max_keys, when_full }
    }

    /// The hasher of keys, instead of aHash with a random key.
    ///
    /// A client is known by the 64-bit hash of its key alone, and clients choose their keys: take a keyed hash whose key
    /// they cannot know, and one whose every bit is good.
    pub fn hasher<T: BuildHasher + Send + Sync + 'static>(self, hasher: T) -> LimiterBuilder<A, C, T> {
        let Self { choice, clock, hasher: _, max_keys, when_full } = self;
        LimiterBuilder { choice, clock, hasher, max_keys, when_full }
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
    ///   held exactly enough in a token bucket's word.
    /// - [`BuildError::Quota`], [`BurstOfWindow`](BuildError::BurstOfWindow),
    ///   [`WindowTooLong`](BuildError::WindowTooLong), [`LimitTooLarge`](BuildError::LimitTooLarge): the quota is none of a
    ///   window, or cannot be held exactly.
    /// - [`BuildError::ZeroMaxKeys`], [`MaxKeysTooLarge`](BuildError::MaxKeysTooLarge): `max_keys` is outside of 1 to 2^40.
    /// - [`BuildError::OutOfMemory`]: the system gives no memory for the first table, which takes 4 KiB.
    pub fn build(self) -> Result<Limiter<A, C, S>, BuildError> {
        let Self { choice, clock, hasher, max_keys, when_full } = self;
        match max_keys {
            0 => Err(BuildError::ZeroMaxKeys),
            1..=MOST_KEYS => Limiter::new(|origin| choice.make(origin), clock.get(), hasher, max_keys, when_full),
            too_large => Err(BuildError::MaxKeysTooLarge(too_large)),
        }
    }
}

/// Builds a [`Gate`]. Made by [`Gate::token_bucket`] and its like.
#[derive(Clone, Debug)]
#[must_use]
pub struct GateBuilder<A, C = MonotonicClock> {
    choice: Choice<A>,
    clock: Source<C>,
}

impl<A> GateBuilder<A> {
    pub(crate) fn new(quota: Quota, make: Make<A>) -> Self {
        Self { choice: Choice::new(quota, make), clock: Source::Default(MonotonicClock::new) }
    }
}

impl<A: Algorithm, C: Clock> GateBuilder<A, C> {
    /// The clock to go by, instead of [`MonotonicClock`].
    pub fn clock<D: Clock>(self, clock: D) -> GateBuilder<A, D> {
        GateBuilder { choice: self.choice, clock: Source::Given(clock) }
    }

    /// Builds the gate; its time starts now.
    ///
    /// # Errors
    ///
    /// Those of [`LimiterBuilder::build`] that concern the quota.
    pub fn build(self) -> Result<Gate<A, C>, BuildError> {
        let Self { choice, clock } = self;
        Gate::new(|origin| choice.make(origin), clock.get())
    }
}

impl<A: Windowed, C, S> LimiterBuilder<A, C, S> {
    /// Where windows start: by default [`Anchor::Aligned`], at multiples of the period.
    pub fn anchor(mut self, anchor: Anchor) -> Self {
        self.choice.plan.anchor = anchor;
        self
    }
}

impl<A: Windowed, C> GateBuilder<A, C> {
    /// Where windows start: by default [`Anchor::Aligned`], at multiples of the period.
    pub fn anchor(mut self, anchor: Anchor) -> Self {
        self.choice.plan.anchor = anchor;
        self
    }
}

impl<C, S> LimiterBuilder<SlidingCounter, C, S> {
    /// Counts parts of a call too: a cost is admitted only if the estimate itself and the cost are within the limit. See
    /// [`SlidingCounter`].
    pub fn strict(mut self) -> Self {
        self.choice.plan.strict = true;
        self
    }
}

impl<C> GateBuilder<SlidingCounter, C> {
    /// Counts parts of a call too: a cost is admitted only if the estimate itself and the cost are within the limit. See
    /// [`SlidingCounter`].
    pub fn strict(mut self) -> Self {
        self.choice.plan.strict = true;
        self
    }
}
