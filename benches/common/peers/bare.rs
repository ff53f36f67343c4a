//! What a check cannot be had without, and no more: the lower bounds of this crate's figures. It limits nobody.

use crate::common::keys::{Key, Keys};
use crate::common::subject::{Subject, run_in_batches};
use ahash::RandomState;
use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use tollgate::{Allowed, Clock, Denied, MonotonicClock};

/// A hash of the key, a reading of the clock, and a compare-and-swap of the word that the hash leads to; before these a pin
/// of the epoch, or not.
pub struct Bare<const PIN: bool> {
    /// Two to a slot, as a client has a fingerprint and a word.
    words: Box<[AtomicU64]>,
    hasher: RandomState,
    clock: MonotonicClock,
}

impl<const PIN: bool> Bare<PIN> {
    /// With room for so many clients, whose memory comes into being when it is first touched.
    pub fn new(slots: usize) -> Self {
        let words = Box::into_raw(vec![0_u64; 2 * slots].into_boxed_slice());
        // SAFETY: an atomic number lies in memory as the number does, and nobody else has the box.
        let words = unsafe { Box::from_raw(words as *mut [AtomicU64]) };
        Self { words, hasher: RandomState::new(), clock: MonotonicClock::new() }
    }
}

/// What a decision in a batch cannot be had without: a hash of the key, its place found among the four of a cache line, a
/// compare-and-swap of the word there, and as many bytes written as a decision has.
pub struct BareBatch {
    slots: Box<[[[AtomicU64; 2]; BareBatch::LINE]]>,
    hasher: RandomState,
}

type Decision = [u64; size_of::<Result<Allowed, Denied>>() / size_of::<u64>()];

impl BareBatch {
    const LINE: usize = 4;

    pub fn new(slots: usize) -> Self {
        Self { slots: (0..slots / Self::LINE).map(|_| Default::default()).collect(), hasher: RandomState::new() }
    }

    fn check_many<K: Key>(&self, keys: &[K]) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(keys.len());
        for key in keys {
            let hash = self.hasher.hash_one(key);
            let line = &self.slots[hash as usize & (self.slots.len() - 1)];
            let index: usize = (1..Self::LINE).map(|i| i * usize::from(line[i][0].load(Relaxed) == hash)).sum();
            let [fingerprint, word] = &line[index % Self::LINE];
            let mut seen = word.load(Acquire);
            while let Err(other) = word.compare_exchange(seen, seen + 1, Release, Acquire) {
                seen = other;
            }
            let mut decision = Decision::default();
            decision.fill(seen);
            decision[0] = u64::from(fingerprint.load(Relaxed) == hash);
            decisions.push(decision);
        }
        decisions
    }
}

impl<K: Key> Subject<K> for BareBatch {
    fn check(&self, key: &K) -> bool {
        !self.check_many(std::slice::from_ref(key)).is_empty()
    }

    fn run(&self, keys: &mut Keys, checks: u64) -> u64 {
        run_in_batches(keys, checks, |batch: &[K]| self.check_many(batch).len())
    }
}

/// What the admission of a sliding log that is never changed cannot be had without: a pin, a hash, and a reading of the
/// clock; the log found by the word that the hash leads to; as many events read, and written to memory that was a log
/// before; and a compare-and-swap of the word.
pub struct BareLog<const EVENTS: usize> {
    /// Two to a slot. The second is where in `logs` the client's is.
    words: Box<[AtomicU64]>,
    logs: Box<[[AtomicU64; EVENTS]]>,
    /// For each thread a log that was replaced. Nobody waits until it is not read any more.
    spares: Box<[CachePadded<AtomicU64>]>,
    hasher: RandomState,
    clock: MonotonicClock,
}

impl<const EVENTS: usize> BareLog<EVENTS> {
    const THREADS: usize = 64;

    pub fn new(clients: usize) -> Self {
        let slots = (2 * clients).next_power_of_two();
        let log = |_| std::array::from_fn(|_| AtomicU64::new(0));
        let spare = |thread| CachePadded::new(AtomicU64::new((slots + thread) as u64));
        Self {
            words: (0..2 * slots as u64).map(|word| AtomicU64::new(word / 2)).collect(),
            logs: (0..slots + Self::THREADS).map(log).collect(),
            spares: (0..Self::THREADS).map(spare).collect(),
            hasher: RandomState::new(),
            clock: MonotonicClock::new(),
        }
    }

    fn spare(&self) -> &AtomicU64 {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Relaxed));
        &self.spares[NUMBER.with(|number| number % Self::THREADS)]
    }
}

impl<const EVENTS: usize> Subject<u64> for BareLog<EVENTS> {
    #[inline]
    fn check(&self, client: &u64) -> bool {
        let _guard = crossbeam_epoch::pin();
        let hash = self.hasher.hash_one(client);
        let word = &self.words[2 * (hash as usize & (self.words.len() / 2 - 1)) + 1];
        let now = self.clock.now();
        let spare = self.spare();
        let new = spare.load(Relaxed);
        let mut seen = word.load(Acquire);
        loop {
            let (log, copy) = (&self.logs[seen as usize], &self.logs[new as usize]);
            // One has expired, and one is new.
            for (event, place) in log[1..].iter().zip(copy) {
                place.store(event.load(Relaxed), Relaxed);
            }
            copy[EVENTS - 1].store(now, Relaxed);
            match word.compare_exchange(seen, new, Release, Acquire) {
                Ok(_) => break,
                Err(other) => seen = other,
            }
        }
        spare.store(seen, Relaxed);
        true
    }
}

impl<const PIN: bool, K: Key> Subject<K> for Bare<PIN> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        let _guard = PIN.then(crossbeam_epoch::pin);
        // Who limits one thing as a whole has nothing to hash.
        let hash = if size_of::<K>() == 0 { 0 } else { self.hasher.hash_one(key) };
        let word = &self.words[2 * (hash as usize & (self.words.len() / 2 - 1))];
        let now = self.clock.now();
        let mut seen = word.load(Acquire);
        while let Err(other) = word.compare_exchange(seen, seen.max(now) + 1, Release, Acquire) {
            seen = other;
        }
        true
    }
}
