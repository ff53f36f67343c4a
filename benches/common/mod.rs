//! What the benchmarks share: the limiters under test, how keys are drawn, how threads start together, and tables.
#![allow(dead_code, unused_imports, reason = "each benchmark uses a part of this")]

mod peers;
mod report;

pub use peers::{Batch, Checked, Governor, Limits, MutexMap, Sharded, Single, Subject, governor_quota};
pub use report::{Progress, Table, count, is_bench, machine, micros, verdict};

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// A cheap stream of random numbers, the same for every subject.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Different seeds give different streams.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds would start alike, and 0 would stay 0.
        Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    #[inline]
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`, which is at most 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.number() >> 32) * bound) >> 32
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Runs `work` on so many threads and returns the time from the first start to the last end, with what each returned.
///
/// Starting a thread is not part of that time, and neither is what it does but once: each prepares, waits for all to be
/// there, takes its time itself, and stays until all have finished.
pub fn race<T: Send>(
    threads: usize,
    prepare: impl Fn(usize) + Sync,
    work: impl Fn(usize) -> T + Sync,
) -> (Duration, Vec<T>) {
    let (ready, finished) = (Barrier::new(threads), Barrier::new(threads));
    let runner = |thread| {
        prepare(thread);
        ready.wait();
        let start = Instant::now();
        let result = work(thread);
        let end = Instant::now();
        finished.wait();
        (start, end, result)
    };
    let runner = &runner;
    let runs: Vec<_> = thread::scope(|scope| {
        let runners: Vec<_> = (0..threads).map(|thread| scope.spawn(move || runner(thread))).collect();
        runners.into_iter().map(|runner| runner.join().expect("a thread of the benchmark panicked")).collect()
    });
    let first = runs.iter().map(|run| run.0).min().expect("at least one thread");
    let last = runs.iter().map(|run| run.1).max().expect("at least one thread");
    (last - first, runs.into_iter().map(|run| run.2).collect())
}
