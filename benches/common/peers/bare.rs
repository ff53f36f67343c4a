//! What a check cannot be had without, and no more: the lower bounds of this crate's figures. It limits nobody.

use crate::common::keys::Key;
use crate::common::limits::Limits;
use crate::common::subject::Subject;
use ahash::RandomState;
use crossbeam_utils::CachePadded;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use tollgate::{Clock, MonotonicClock};

/// A hash of the key, and a compare-and-swap of the word that it leads to; before these a pin of the epoch, between them
/// a reading of the clock, or not.
pub struct Bare<const PIN: bool, const CLOCK: bool> {
    words: Vec<CachePadded<AtomicU64>>,
    hasher: RandomState,
    clock: MonotonicClock,
}

impl<const PIN: bool, const CLOCK: bool> Bare<PIN, CLOCK> {
    /// Enough for some thousand clients.
    const WORDS: usize = 1 << 12;

    pub fn new(_: Limits) -> Self {
        let words = (0..Self::WORDS).map(|_| CachePadded::default()).collect();
        Self { words, hasher: RandomState::new(), clock: MonotonicClock::new() }
    }
}

impl<const PIN: bool, const CLOCK: bool, K: Key> Subject<K> for Bare<PIN, CLOCK> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        let _guard = PIN.then(crossbeam_epoch::pin);
        // Who limits one thing as a whole has nothing to hash.
        let hash = if size_of::<K>() == 0 { 0 } else { self.hasher.hash_one(key) };
        let word = &self.words[hash as usize % Self::WORDS];
        let now = if CLOCK { self.clock.now() } else { 0 };
        let mut seen = word.load(Acquire);
        while let Err(other) = word.compare_exchange(seen, seen.max(now) + 1, Release, Acquire) {
            seen = other;
        }
        true
    }
}
