//! What the models of tollgate share.
//!
//! A model runs one race over and over, each time in another interleaving, and asserts what must hold in all of them.
//! Interleavings are bounded by their preemptions, the times that a thread is interrupted while it could go on:
//! `TOLLGATE_PREEMPTIONS` gives the bound (3 unless set), and `none` sets no bound. A model also collects the outcomes it
//! has seen, and fails if one that can happen never did: otherwise it might be blind to the race it is about.
//! `TOLLGATE_SECONDS` ends a model early, which then says so, and does not ask for what it did not come to.
#![cfg(tollgate_loom)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tollgate::Quota;
use tollgate::model::{Charge, Charged, Fingerprint, Guard, Map};
pub use tollgate::{Algorithm, Anchor, Answers, FixedWindow, SlidingCounter, SlidingLog, TokenBucket};

/// Explores `run` and prints how far.
pub fn model(name: &str, run: impl Fn() + Sync + Send + 'static) {
    model_at_most(usize::MAX, name, run);
}

/// Explores `run`, which is long, with no more than `most` preemptions while the bound is 3 or less.
pub fn model_at_most(most: usize, name: &str, run: impl Fn() + Sync + Send + 'static) {
    let bound = asked().map(|asked| if asked <= 3 { most.min(asked) } else { asked });
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = bound;
    builder.max_duration = std::env::var("TOLLGATE_SECONDS")
        .ok()
        .map(|seconds| Duration::from_secs(seconds.parse().expect("TOLLGATE_SECONDS is a number")));
    // How often the time is looked at, in iterations.
    builder.checkpoint_interval = 100;
    let longest = builder.max_duration.unwrap_or(Duration::MAX);
    let (iterations, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let count = iterations.clone();
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        run();
        // The real epoch frees in its own time.
        if cfg!(not(crossbeam_loom)) {
            assert_eq!(SlidingLog::logs(), 0, "logs that were never freed");
        }
    });
    let cut = start.elapsed() >= longest;
    CUT.set(cut);
    let bound = bound.map_or("unbounded".into(), |bound| format!("{bound} preemptions"));
    let cut = if cut { ", cut short" } else { "" };
    println!("model {name}: {} iterations, {bound}, {:.1?}{cut}", iterations.load(Relaxed), start.elapsed());
}

thread_local!(
    /// Whether the thread's last model was ended before it had explored everything.
    static CUT: Cell<bool> = const { Cell::new(false) };
);

/// The bound on preemptions that was asked for.
fn asked() -> Option<usize> {
    match std::env::var("TOLLGATE_PREEMPTIONS").as_deref() {
        Ok("none") => None,
        Ok(number) => Some(number.parse().expect("TOLLGATE_PREEMPTIONS is a number or `none`")),
        Err(_) => Some(3),
    }
}

/// The outcomes that a model has come to. Not part of what it explores.
#[derive(Debug)]
pub struct Seen<T>(Arc<Mutex<BTreeSet<T>>>);

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Ord + Debug> Default for Seen<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Ord + Debug> Seen<T> {
    pub fn add(&self, outcome: T) {
        self.0.lock().unwrap().insert(outcome);
    }

    /// Fails unless exactly these outcomes were seen. With fewer than 3 preemptions, or little time, some may be missing.
    pub fn are(&self, expected: impl IntoIterator<Item = T>) {
        let (seen, expected) = (self.0.lock().unwrap(), expected.into_iter().collect::<BTreeSet<T>>());
        match asked() {
            Some(3..) | None if !CUT.get() => assert_eq!(*seen, expected, "outcomes seen"),
            _ => assert!(seen.is_subset(&expected), "outcomes seen: {seen:?}, not among {expected:?}"),
        }
    }
}

/// A bucket of `burst` tokens that gains one each nanosecond.
pub fn bucket(burst: u64) -> TokenBucket {
    TokenBucket::of(Quota::per(1, Duration::from_nanos(1)).burst(burst))
}

/// How long the windows below are, in nanoseconds.
pub const WINDOW: u64 = 10;

pub fn log(limit: u64) -> SlidingLog {
    SlidingLog::of(in_a_window(limit))
}

pub fn fixed(limit: u64, anchor: Anchor) -> FixedWindow {
    FixedWindow::of(in_a_window(limit), anchor)
}

pub fn counter(limit: u64) -> SlidingCounter {
    SlidingCounter::of(in_a_window(limit), Anchor::Aligned)
}

fn in_a_window(limit: u64) -> Quota {
    Quota::per(limit, Duration::from_nanos(WINDOW))
}

/// A client whose probe starts at the line `n / 2` of a table of 8 slots, in 4 lines.
pub fn client(n: u64) -> Fingerprint {
    Fingerprint::new((n << 61) | (n + 2))
}

/// A map that starts with one table of two slots.
pub fn map<A: Algorithm>(algorithm: A) -> Arc<Map<A>> {
    Arc::new(Map::new(algorithm, 1000, false).unwrap())
}

/// A map whose client 0 has used one at `now`.
pub fn charged<A: Algorithm>(algorithm: A, now: u64) -> Arc<Map<A>> {
    let map = map(algorithm);
    assert!(charge(&map, client(0), now));
    map
}

pub type Buckets = Map<TokenBucket>;

/// A map of buckets.
pub fn buckets(burst: u64) -> Arc<Buckets> {
    map(bucket(burst))
}

/// A map whose client 0 has one of two tokens left.
pub fn one_token_left(now: u64) -> Arc<Buckets> {
    charged(bucket(2), now)
}

/// One call of cost 1 at `now` under its own guard; whether it passed.
pub fn charge<A: Algorithm>(map: &Map<A>, client: Fingerprint, now: u64) -> bool {
    charge_under(&map.pin(), map, client, now)
}

pub fn charge_under<A: Algorithm>(guard: &Guard, map: &Map<A>, client: Fingerprint, now: u64) -> bool {
    passed(map.charge(map.locate(guard, client), now, 1))
}

/// The same as a batch of one, which knows of the table what there was when it began.
pub fn charge_in_batch<A: Algorithm>(map: &Map<A>, client: Fingerprint, now: u64) -> bool {
    let guard = map.pin();
    let batch = map.batch(&guard, now);
    batch.announce(client);
    passed(batch.charge(client))
}

fn passed(charge: Charge) -> bool {
    match charge {
        Charge::Allowed { .. } => true,
        Charge::Refused { .. } => false,
        Charge::Full { .. } => panic!("no place"),
    }
}

/// The same for client 0 of a limiter with windows: when its whole limit can be had again, if the call passed. That is a
/// window after the instant at which a log has the call, and the end of the fixed window that it counts in.
pub fn charge_until<A: Algorithm>(map: &Map<A>, algorithm: A, now: u64) -> Option<u64> {
    let guard = map.pin();
    match map.charge(map.locate(&guard, client(0)), now, 1) {
        Charge::Allowed { payload, now } => Some(now + algorithm.reset_after(payload, now)),
        Charge::Refused { .. } => None,
        Charge::Full { .. } => panic!("no place"),
    }
}

/// A call of cost 1 of client 0 that passes, and its receipt.
pub fn charge_for_receipt<A: Algorithm>(map: &Map<A>, algorithm: A, now: u64) -> Option<Charged> {
    let guard = map.pin();
    match map.charge(map.locate(&guard, client(0)), now, 1) {
        Charge::Allowed { payload, now } => Some(Charged::of(&algorithm, payload, now, 1)),
        _ => None,
    }
}

/// Gives back a call of cost 1 of client 0.
pub fn give_back<A: Algorithm>(map: &Map<A>, now: u64, charged: Charged) -> u64 {
    map.give_back(map.locate(&map.pin(), client(0)), || now, 1, charged)
}

/// What client 0 could take at `now`.
pub fn remaining<A: Algorithm>(map: &Map<A>, algorithm: A, now: u64) -> u64 {
    let guard = map.pin();
    let (payload, now) = map.peek(map.locate(&guard, client(0)), now);
    algorithm.remaining(payload, now)
}

/// Fails if calls of a log, by when they end to count, were too many in some window.
pub fn never_more_than(limit: usize, calls: impl IntoIterator<Item = Option<u64>>) {
    let mut calls: Vec<u64> = calls.into_iter().flatten().collect();
    calls.sort_unstable();
    for pair in calls.windows(limit + 1) {
        assert!(pair[limit] - pair[0] >= WINDOW, "over {limit} in a window: {calls:?}");
    }
}

/// Tokens that a client can still take at `now`, found by taking them.
pub fn drain<A: Algorithm>(map: &Map<A>, client: Fingerprint, now: u64) -> u64 {
    (0..100).take_while(|_| charge(map, client, now)).count() as u64
}

/// Ends the migration that was started in the map's first table, if others have not.
pub fn finish<A: Algorithm>(map: &Map<A>) {
    for _ in 0..10 {
        if map.generation() == 0 {
            map.help_once(&map.pin());
        }
    }
    assert_eq!(map.generation(), 1, "the migration came to its end");
}

/// Runs `a` and `b` at the same time.
pub fn race<A: 'static, B: 'static>(a: impl FnOnce() -> A + 'static, b: impl FnOnce() -> B + 'static) -> (A, B) {
    let other = loom::thread::spawn(a);
    let b = b();
    (other.join().unwrap(), b)
}
