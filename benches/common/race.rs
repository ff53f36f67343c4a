//! Threads that start together, and what they were disturbed by.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, hint, thread};

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

/// Processors that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
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
    // Where threads share processors, one that spins would only keep away those it waits for.
    let wait = if threads > cores() { thread::yield_now } else { hint::spin_loop };
    let run = |state: &mut S, burst: usize| {
        // Blocks until all are there, and what is left of their waking up is waited for here.
        ready.wait();
        let before = switches();
        waiting.fetch_add(1, Ordering::Relaxed);
        while waiting.load(Ordering::Relaxed) < threads * (burst + 1) {
            wait();
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

/// Runs both at the same time, the second until the first has finished.
pub fn beside<A, B: Send>(first: impl FnOnce() -> A, second: impl FnOnce(&AtomicBool) -> B + Send) -> (A, B) {
    let (ready, stop) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            ready.wait();
            second(&stop)
        });
        ready.wait();
        let first = first();
        stop.store(true, Ordering::Relaxed);
        (first, second.join().expect("the second thread panicked"))
    })
}

/// How often this thread lost its processor to another, where the system counts it.
pub fn switches() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}
