//! What the benchmarks share: the limiters under test, how keys are drawn, how threads start together, and tables.
#![allow(dead_code, unused_imports, reason = "each benchmark uses a part of this")]

mod peers;
mod report;

pub use peers::{Batch, Checked, Governor, Limits, MutexMap, Sharded, Single, Subject, governor_quota};
pub use report::{Progress, Table, count, is_bench, machine, micros, verdict};

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, hint, thread};

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

/// What all threads did at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// From the first start to the last end.
    pub time: Duration,
    /// The sum of what the work returned.
    pub sum: u64,
    /// Whether all threads started together and none lost its processor to another.
    pub calm: bool,
}

/// Runs `work` on so many threads at the same time, for so many bursts.
///
/// Starting a thread is not part of a burst, and neither is `prepare`: what a thread sets up once.
pub fn race<S>(
    threads: usize,
    bursts: usize,
    prepare: impl Fn(usize) -> S + Sync,
    work: impl Fn(&mut S) -> u64 + Sync,
) -> Vec<Burst> {
    struct Run {
        start: Instant,
        end: Instant,
        sum: u64,
        switched_out: bool,
    }
    let (ready, waiting) = (Barrier::new(threads), AtomicUsize::new(0));
    let run = |state: &mut S, burst: usize| {
        // Blocks until all are there, and what is left of their waking up is spun away.
        ready.wait();
        let before = switches();
        waiting.fetch_add(1, Ordering::Relaxed);
        while waiting.load(Ordering::Relaxed) < threads * (burst + 1) {
            hint::spin_loop();
        }
        let start = Instant::now();
        let sum = work(state);
        let end = Instant::now();
        Run { start, end, sum, switched_out: switches() != before }
    };
    let runner = |thread| {
        let mut state = prepare(thread);
        (0..bursts).map(|burst| run(&mut state, burst)).collect()
    };
    let runner = &runner;
    let runs: Vec<Vec<Run>> = thread::scope(|scope| {
        let runners: Vec<_> = (0..threads).map(|thread| scope.spawn(move || runner(thread))).collect();
        runners.into_iter().map(|runner| runner.join().expect("a thread of the benchmark panicked")).collect()
    });
    let burst = |burst: usize| {
        let runs: Vec<_> = runs.iter().map(|runs| &runs[burst]).collect();
        let start = runs.iter().map(|run| run.start).min().expect("at least one thread");
        let end = runs.iter().map(|run| run.end).max().expect("at least one thread");
        let time = end - start;
        let calm = runs.iter().all(|run| !run.switched_out && run.start - start <= time / 20);
        Burst { time, sum: runs.iter().map(|run| run.sum).sum(), calm }
    };
    (0..bursts).map(burst).collect()
}

/// How often this thread lost its processor to another, where the system counts it.
pub fn switches() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}
