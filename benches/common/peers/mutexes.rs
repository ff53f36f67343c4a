//! Buckets behind locks, as they are written by hand.

use crate::common::keys::Key;
use crate::common::limits::Limits;
use crate::common::subject::Subject;
use ahash::RandomState;
use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::HashMap;
use std::sync::{Mutex, RwLock};
use std::time::Instant;

const UNPOISONED: &str = "a lock that nobody poisoned";

/// The token bucket of the tutorials.
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

impl Refill {
    fn full(self, now: Instant) -> Bucket {
        Bucket { tokens: self.burst, at: now }
    }

    fn tokens(self, bucket: &Bucket, now: Instant) -> f64 {
        // The time was taken before the lock, so it may be earlier than that of a thread that got the lock sooner.
        let elapsed = now.saturating_duration_since(bucket.at);
        (bucket.tokens + elapsed.as_secs_f64() * self.per_second).min(self.burst)
    }

    #[inline]
    fn take(self, bucket: &mut Bucket, now: Instant) -> bool {
        bucket.tokens = self.tokens(bucket, now);
        bucket.at = bucket.at.max(now);
        let allowed = bucket.tokens >= 1.0;
        if allowed {
            bucket.tokens -= 1.0;
        }
        allowed
    }

    fn is_live(self, bucket: &Bucket, now: Instant) -> bool {
        self.tokens(bucket, now) < self.burst
    }
}

/// What comes first to mind: std's map behind std's lock.
pub struct One<K> {
    buckets: Mutex<HashMap<K, Bucket>>,
    refill: Refill,
}

impl<K: Key> One<K> {
    pub fn new(limits: Limits) -> Self {
        Self { buckets: Mutex::default(), refill: limits.into() }
    }
}

impl<K: Key> Subject<K> for One<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        // Read outside of the lock, which is held the shorter for it.
        let now = Instant::now();
        let mut buckets = self.buckets.lock().expect(UNPOISONED);
        match buckets.get_mut(key) {
            Some(bucket) => self.refill.take(bucket, now),
            None => self.refill.take(buckets.entry(key.clone()).or_insert(self.refill.full(now)), now),
        }
    }

    fn sweep(&self) {
        let now = Instant::now();
        self.buckets.lock().expect(UNPOISONED).retain(|_, bucket| self.refill.is_live(bucket, now));
    }

    fn len(&self) -> usize {
        self.buckets.lock().expect(UNPOISONED).len()
    }
}

/// A lock for each bucket, and one for the map, which only a new client takes for itself.
pub struct Each<K> {
    buckets: RwLock<HashMap<K, Mutex<Bucket>>>,
    refill: Refill,
}

impl<K: Key> Each<K> {
    pub fn new(limits: Limits) -> Self {
        Self { buckets: RwLock::default(), refill: limits.into() }
    }
}

impl<K: Key> Subject<K> for Each<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        let now = Instant::now();
        if let Some(bucket) = self.buckets.read().expect(UNPOISONED).get(key) {
            return self.refill.take(&mut bucket.lock().expect(UNPOISONED), now);
        }
        let mut buckets = self.buckets.write().expect(UNPOISONED);
        let bucket = buckets.entry(key.clone()).or_insert_with(|| self.refill.full(now).into());
        self.refill.take(bucket.get_mut().expect(UNPOISONED), now)
    }

    fn sweep(&self) {
        let now = Instant::now();
        let is_live = |bucket: &mut Mutex<Bucket>| self.refill.is_live(bucket.get_mut().expect(UNPOISONED), now);
        self.buckets.write().expect(UNPOISONED).retain(|_, bucket| is_live(bucket));
    }

    fn len(&self) -> usize {
        self.buckets.read().expect(UNPOISONED).len()
    }
}

/// The best that can be had with locks: many small ones, each on a cache line of its own, and one fast hash a check.
pub struct Sharded<K> {
    shards: Box<[CachePadded<Shard<K>>]>,
    hasher: RandomState,
    refill: Refill,
}

type Shard<K> = parking_lot::Mutex<HashTable<(K, Bucket)>>;

impl<K: Key> Sharded<K> {
    pub fn new(limits: Limits) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = 16 * (4 * cores).next_power_of_two();
        let shard = || CachePadded::new(Shard::new(HashTable::new()));
        Self { shards: (0..shards).map(|_| shard()).collect(), hasher: RandomState::new(), refill: limits.into() }
    }
}

impl<K: Key> Subject<K> for Sharded<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        let now = Instant::now();
        let hash = self.hasher.hash_one(key);
        // The table indexes by the low bits, and tags by the top seven.
        let shard = (hash >> 32) as usize & (self.shards.len() - 1);
        let mut table = self.shards[shard].lock();
        match table.entry(hash, |(owner, _)| owner == key, |(owner, _)| self.hasher.hash_one(owner)) {
            Entry::Occupied(mut entry) => self.refill.take(&mut entry.get_mut().1, now),
            Entry::Vacant(entry) => {
                let mut bucket = self.refill.full(now);
                let allowed = self.refill.take(&mut bucket, now);
                entry.insert((key.clone(), bucket));
                allowed
            }
        }
    }

    fn sweep(&self) {
        let now = Instant::now();
        for shard in &self.shards {
            shard.lock().retain(|(_, bucket)| self.refill.is_live(bucket, now));
        }
    }

    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
