//! What the models of tollgate share.
//!
//! A model runs one race over and over, each time in another interleaving, and asserts what must hold in all of them.
//! Interleavings are bounded by their preemptions, the times that a thread is interrupted while it could go on:
//! `TOLLGATE_PREEMPTIONS` gives the bound (3 unless set), and `none` sets no bound. A model also collects the outcomes it
//! has seen, and fails if one that can happen never did: otherwise it might be blind to the race it is about.
#![cfg(tollgate_loom)]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
pub use tollgate::TokenBucket;
use tollgate::model::{Charge, Fingerprint, Guard, Map};

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
    let (iterations, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let count = iterations.clone();
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        run();
    });
    let bound = bound.map_or("unbounded".into(), |bound| format!("{bound} preemptions"));
    println!("model {name}: {} iterations, {bound}, {:.1?}", iterations.load(Relaxed), start.elapsed());
}

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

    /// Fails unless exactly these outcomes were seen. With fewer than 3 preemptions some may be missing.
    pub fn are(&self, expected: impl IntoIterator<Item = T>) {
        let (seen, expected) = (self.0.lock().unwrap(), expected.into_iter().collect::<BTreeSet<T>>());
        match asked() {
            Some(..3) => assert!(seen.is_subset(&expected), "outcomes seen: {seen:?}, not among {expected:?}"),
            _ => assert_eq!(*seen, expected, "outcomes seen"),
        }
    }
}

/// A bucket of `burst` tokens that gains one each nanosecond.
pub fn bucket(burst: u64) -> TokenBucket {
    TokenBucket::of(tollgate::Quota::per(1, Duration::from_nanos(1)).burst(burst))
}

/// A client whose probe starts at the line `n / 2` of a table of 8 slots, in 4 lines.
pub fn client(n: u64) -> Fingerprint {
    Fingerprint::new((n << 61) | (n + 2))
}

pub type Buckets = Map<TokenBucket>;

/// A map of buckets that starts with one table of two slots.
pub fn buckets(burst: u64) -> Arc<Buckets> {
    Arc::new(Map::new(bucket(burst), 1000, false).unwrap())
}

/// One call of cost 1 at `now` under its own guard; whether it passed.
pub fn charge(map: &Buckets, client: Fingerprint, now: u64) -> bool {
    charge_under(&map.pin(), map, client, now)
}

pub fn charge_under(guard: &Guard, map: &Buckets, client: Fingerprint, now: u64) -> bool {
    match map.charge(map.locate(guard, client), now, 1) {
        Charge::Allowed { .. } => true,
        Charge::Refused { .. } => false,
        Charge::Full => panic!("no place"),
    }
}

/// Tokens that a client can still take at `now`, found by taking them.
pub fn drain(map: &Buckets, client: Fingerprint, now: u64) -> u64 {
    (0..100).take_while(|_| charge(map, client, now)).count() as u64
}

/// Runs `a` and `b` at the same time.
pub fn race<A: 'static, B: 'static>(a: impl FnOnce() -> A + 'static, b: impl FnOnce() -> B + 'static) -> (A, B) {
    let other = loom::thread::spawn(a);
    let b = b();
    (other.join().unwrap(), b)
}
