//! Crates that limit one thing as a whole.

use crate::common::limits::Limits;
use crate::common::subject::Subject;
use std::time::Duration;

/// ratelimit: tokens in one word, the time of the last refill in another.
pub struct Ratelimit(ratelimit::Ratelimiter);

impl Ratelimit {
    pub fn new(limits: Limits) -> Self {
        let burst = limits.burst.into();
        let builder = ratelimit::Ratelimiter::builder(1).period(limits.period);
        Self(builder.max_tokens(burst).initial_available(burst).build().expect("limits that ratelimit can hold"))
    }
}

impl Subject<()> for Ratelimit {
    #[inline]
    fn check(&self, (): &()) -> bool {
        self.0.try_wait().is_ok()
    }
}

/// ratelock: whole tokens, and a whole number of them a second. What should be slower than one a second is one a second:
/// at none it would not read a clock at all.
pub struct Ratelock(ratelock::RateLimiter<ratelock::StdClock>);

impl Ratelock {
    pub fn new(limits: Limits) -> Self {
        let per_second = Duration::from_secs(1).as_nanos() / limits.period.as_nanos();
        Self(ratelock::RateLimiter::new(limits.burst.into(), (per_second as u64).max(1)))
    }
}

impl Subject<()> for Ratelock {
    #[inline]
    fn check(&self, (): &()) -> bool {
        self.0.allow()
    }
}

/// leaky-bucket, by its call that does not wait. It refills in steps of whole milliseconds.
pub struct LeakyBucket(leaky_bucket::RateLimiter);

impl LeakyBucket {
    /// The default: who waits is served in turn, so every call takes the lock of the queue.
    pub fn fair(limits: Limits) -> Self {
        Self::new(limits, true)
    }

    /// Its best: the lock and the clock are left alone until nothing is left. While calls are allowed it is a counter.
    pub fn unfair(limits: Limits) -> Self {
        Self::new(limits, false)
    }

    fn new(limits: Limits, fair: bool) -> Self {
        let burst = limits.burst as usize;
        let mut builder = leaky_bucket::RateLimiter::builder();
        builder.max(burst).initial(burst).refill(1).interval(limits.period.max(Duration::from_millis(1)));
        Self(builder.fair(fair).build())
    }
}

impl Subject<()> for LeakyBucket {
    #[inline]
    fn check(&self, (): &()) -> bool {
        self.0.try_acquire(1)
    }
}
