//! The limiters under test, each a subject with the same limits.

use super::Draw;
use ahash::RandomState;
use crossbeam_utils::CachePadded;
use governor::clock::DefaultClock;
use governor::state::keyed::DefaultKeyedStateStore;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tollgate::{Limiter, Quota};

/// One token each `period`, and `burst` of them at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub period: Duration,
    pub burst: u32,
}

impl Limits {
    /// A client that was checked stays live for more than a minute: 1,000 a day, or a million at once.
    pub const LIVE: Self = Self { period: Duration::from_millis(86_400), burst: 1_000_000 };

    /// As [`LIVE`](Self::LIVE), with tokens enough for one client that takes all the load.
    pub const LIVE_ALONE: Self = Self { period: Duration::from_millis(1), burst: 4_000_000_000 };

    /// A client that has used its burst is refused for a minute and more.
    pub const REFUSED: Self = Self { period: Duration::from_millis(86_400), burst: 10 };

    /// A client has its whole limit again by the time of its next check: a billion a second.
    pub const IDLE: Self = Self { period: Duration::from_nanos(1), burst: 1_000_000 };

    /// The same for tollgate.
    pub fn limiter(self) -> Limiter {
        let quota = Quota::per(1, self.period).burst(self.burst.into());
        Limiter::token_bucket(quota).build().expect("limits that tollgate can hold")
    }
}

/// The same limits for governor.
pub fn governor_quota(limits: Limits) -> governor::Quota {
    let burst = NonZeroU32::new(limits.burst).expect("a burst of at least one");
    governor::Quota::with_period(limits.period).expect("a period of at least a nanosecond").allow_burst(burst)
}

/// A limiter under test. What a call is to be measured by is [`run`](Self::run), a loop compiled for each subject.
pub trait Subject: Sync {
    /// Whether one call of this client may go ahead.
    fn check(&self, key: u64) -> bool;

    /// Makes `checks` checks of random keys below `keys`, and returns how many were allowed.
    fn run(&self, draw: &mut Draw, keys: u64, checks: u64) -> u64 {
        let mut allowed = 0;
        for _ in 0..checks {
            allowed += u64::from(self.check(draw.below(keys)));
        }
        allowed
    }
}

/// [`Limiter::check`].
pub struct Single(pub Limiter);

impl Subject for Single {
    #[inline]
    fn check(&self, key: u64) -> bool {
        self.0.check(&key).is_ok()
    }
}

/// [`Session::check`](tollgate::Session::check).
pub struct Checked(pub Limiter);

impl Subject for Checked {
    fn check(&self, key: u64) -> bool {
        self.0.check(&key).is_ok()
    }

    fn run(&self, draw: &mut Draw, keys: u64, checks: u64) -> u64 {
        let mut session = self.0.session();
        let mut allowed = 0;
        for _ in 0..checks {
            allowed += u64::from(session.check(&draw.below(keys)).is_ok());
        }
        allowed
    }
}

/// [`Limiter::check_many`] of as many keys at a time.
pub struct Batch(pub Limiter);

impl Batch {
    pub const SIZE: usize = 64;
}

impl Subject for Batch {
    fn check(&self, key: u64) -> bool {
        self.0.check(&key).is_ok()
    }

    fn run(&self, draw: &mut Draw, keys: u64, checks: u64) -> u64 {
        let mut batch = [0; Self::SIZE];
        let mut allowed = 0;
        let mut left = checks;
        while left > 0 {
            let size = left.min(Self::SIZE as u64);
            let batch = &mut batch[..size as usize];
            batch.fill_with(|| draw.below(keys));
            allowed += self.0.check_many(batch).iter().filter(|decision| decision.is_ok()).count() as u64;
            left -= size;
        }
        allowed
    }
}

/// governor's keyed limiter at its defaults: a `DashMap` with std's hasher, and a clock from the time-stamp counter.
pub struct Governor(governor::RateLimiter<u64, DefaultKeyedStateStore<u64>, DefaultClock>);

impl Governor {
    pub fn new(limits: Limits) -> Self {
        Self(governor::RateLimiter::keyed(governor_quota(limits)))
    }
}

impl Subject for Governor {
    #[inline]
    fn check(&self, key: u64) -> bool {
        self.0.check_key(&key).is_ok()
    }
}

/// A token bucket as it is written by hand.
struct Bucket {
    tokens: f64,
    at: Instant,
}

#[derive(Clone, Copy)]
struct Refill {
    per_second: f64,
    burst: f64,
}

impl From<Limits> for Refill {
    fn from(limits: Limits) -> Self {
        Self { per_second: 1.0 / limits.period.as_secs_f64(), burst: limits.burst.into() }
    }
}

impl Bucket {
    fn full(now: Instant, refill: Refill) -> Self {
        Self { tokens: refill.burst, at: now }
    }

    #[inline]
    fn take(&mut self, now: Instant, refill: Refill) -> bool {
        // The time was taken before the lock, so it may be earlier than that of a thread that got the lock sooner.
        let elapsed = now.saturating_duration_since(self.at);
        self.tokens = (self.tokens + elapsed.as_secs_f64() * refill.per_second).min(refill.burst);
        self.at = self.at.max(now);
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}

/// What comes first to mind: std's map behind std's lock.
pub struct MutexMap {
    buckets: Mutex<HashMap<u64, Bucket>>,
    refill: Refill,
}

impl MutexMap {
    pub fn new(limits: Limits) -> Self {
        Self { buckets: Mutex::default(), refill: limits.into() }
    }
}

impl Subject for MutexMap {
    #[inline]
    fn check(&self, key: u64) -> bool {
        // Read outside of the lock, which is held the shorter for it.
        let now = Instant::now();
        let mut buckets = self.buckets.lock().expect("a lock that nobody poisoned");
        buckets.entry(key).or_insert_with(|| Bucket::full(now, self.refill)).take(now, self.refill)
    }
}

/// The best that can be had with locks: many small ones, each on a cache line of its own, and one fast hash a check.
pub struct Sharded {
    shards: Box<[CachePadded<Shard>]>,
    hasher: RandomState,
    refill: Refill,
}

type Shard = parking_lot::Mutex<HashTable<(u64, Bucket)>>;

impl Sharded {
    pub fn new(limits: Limits) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = 16 * (4 * cores).next_power_of_two();
        let shards = (0..shards).map(|_| CachePadded::new(Shard::default())).collect();
        Self { shards, hasher: RandomState::new(), refill: limits.into() }
    }
}

impl Subject for Sharded {
    #[inline]
    fn check(&self, key: u64) -> bool {
        let now = Instant::now();
        let hash = self.hasher.hash_one(key);
        // The table indexes by the low bits, and tags by the top seven.
        let shard = (hash >> 32) as usize & (self.shards.len() - 1);
        let mut table = self.shards[shard].lock();
        match table.entry(hash, |(owner, _)| *owner == key, |(owner, _)| self.hasher.hash_one(owner)) {
            Entry::Occupied(mut entry) => entry.get_mut().1.take(now, self.refill),
            Entry::Vacant(entry) => {
                let mut bucket = Bucket::full(now, self.refill);
                let allowed = bucket.take(now, self.refill);
                entry.insert((key, bucket));
                allowed
            }
        }
    }
}
