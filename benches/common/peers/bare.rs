//! What a check cannot be had without, and no more: the lower bounds of this crate's figures. It limits nobody.

use crate::common::keys::Key;
use crate::common::subject::Subject;
use ahash::RandomState;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use tollgate::{Clock, MonotonicClock};

/// A hash of the key, and a compare-and-swap of the word that it leads to; before these a pin of the epoch, between them
/// a reading of the clock, or not.
pub struct Bare<const PIN: bool, const CLOCK: bool> {
    /// Two to a slot, as a client has a fingerprint and a word.
    words: Box<[AtomicU64]>,
    hasher: RandomState,
    clock: MonotonicClock,
}

impl<const PIN: bool, const CLOCK: bool> Bare<PIN, CLOCK> {
    /// With room for so many clients, whose memory comes into being when it is first touched.
    pub fn new(slots: usize) -> Self {
        let words = Box::into_raw(vec![0_u64; 2 * slots].into_boxed_slice());
        // SAFETY: an atomic number lies in memory as the number does, and nobody else has the box.
        let words = unsafe { Box::from_raw(words as *mut [AtomicU64]) };
        Self { words, hasher: RandomState::new(), clock: MonotonicClock::new() }
    }
}

/// What a sliding log's admission cannot be had without: a check, and as much memory read and written as a log of so many
/// events is.
pub struct BareLog<const EVENTS: usize> {
    check: Bare<true, true>,
    logs: Box<[[AtomicU64; EVENTS]]>,
}

impl<const EVENTS: usize> BareLog<EVENTS> {
    /// For clients that are numbered, below `clients`.
    pub fn new(clients: usize) -> Self {
        let logs = (0..clients).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        Self { check: Bare::new((2 * clients).next_power_of_two()), logs }
    }
}

impl<const EVENTS: usize> Subject<u64> for BareLog<EVENTS> {
    #[inline]
    fn check(&self, &client: &u64) -> bool {
        for event in &self.logs[client as usize] {
            event.store(event.load(Relaxed) + 1, Relaxed);
        }
        self.check.check(&client)
    }
}

impl<const PIN: bool, const CLOCK: bool, K: Key> Subject<K> for Bare<PIN, CLOCK> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        let _guard = PIN.then(crossbeam_epoch::pin);
        // Who limits one thing as a whole has nothing to hash.
        let hash = if size_of::<K>() == 0 { 0 } else { self.hasher.hash_one(key) };
        let word = &self.words[2 * (hash as usize & (self.words.len() / 2 - 1))];
        let now = if CLOCK { self.clock.now() } else { 0 };
        let mut seen = word.load(Acquire);
        while let Err(other) = word.compare_exchange(seen, seen.max(now) + 1, Release, Acquire) {
            seen = other;
        }
        true
    }
}
