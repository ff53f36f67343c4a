//! governor: GCRA, with a clock from the time-stamp counter.

use crate::common::keys::Key;
use crate::common::limits::Limits;
use crate::common::subject::Subject;
use governor::clock::DefaultClock;
use governor::state::keyed::{DashMapStateStore, DefaultHasher};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::hash::BuildHasher;
use std::num::NonZeroU32;

fn quota(limits: Limits) -> Quota {
    let burst = NonZeroU32::new(limits.burst).expect("a burst of at least one");
    Quota::with_period(limits.period).expect("a period of at least a nanosecond").allow_burst(burst)
}

/// One state for each key, in a `DashMap`.
pub struct Keyed<K: Key, S: BuildHasher + Clone>(RateLimiter<K, DashMapStateStore<K, S>, DefaultClock>);

/// The defaults.
pub fn with_std_hash<K: Key>(limits: Limits) -> Keyed<K, DefaultHasher> {
    Keyed(RateLimiter::keyed(quota(limits)))
}

/// A faster hash.
pub fn with_ahash<K: Key>(limits: Limits) -> Keyed<K, ahash::RandomState> {
    Keyed(RateLimiter::dashmap_with_clock_and_hasher(quota(limits), DefaultClock::default(), ahash::RandomState::new()))
}

impl<K: Key, S: BuildHasher + Clone + Send + Sync> Subject<K> for Keyed<K, S> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        self.0.check_key(key).is_ok()
    }

    fn sweep(&self) {
        self.0.retain_recent();
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// One state, no keys.
pub struct Direct(DefaultDirectRateLimiter);

impl Direct {
    pub fn new(limits: Limits) -> Self {
        Self(RateLimiter::direct(quota(limits)))
    }
}

impl Subject<()> for Direct {
    #[inline]
    fn check(&self, (): &()) -> bool {
        self.0.check().is_ok()
    }
}
