//! What one check costs, beside other ways to have it.
//!
//! - `cargo bench --bench check` measures with criterion; a part of a name after it selects, as `'1,000 keys'`.
//! - `cargo bench --bench check -- --ratios [--rounds N]` takes the subjects in turns, in a new random order each round,
//!   and prints how many times tollgate's median the others' medians are. What disturbs the machine for longer than a
//!   round so falls on all of them, and what is shorter leaves the median alone.
//!
//! Every subject has the same limits and draws its keys in the same way. Times are per check and thread: with two
//! threads each makes as many checks as a single one would.

mod common;

use common::{Batch, Checked, Draw, Governor, Limits, MutexMap, Progress, Sharded, Single, Subject, Table};
use criterion::{BenchmarkId, Criterion, SamplingMode};
use std::cell::LazyCell;
use std::process::ExitCode;
use std::time::Duration;

/// How long one subject runs in a round, about.
const TURN: Duration = Duration::from_millis(80);

const ROUNDS: u64 = 11;

/// Fewer checks than this say nothing about how many are allowed.
const MANY: u64 = 100_000;

#[derive(Clone, Copy)]
struct Contender {
    name: &'static str,
    make: fn(Limits) -> Box<dyn Subject>,
    /// Whether it also runs on two threads.
    threaded: bool,
}

const TOLLGATE: &str = "tollgate check";
const BATCH: &str = "check_many(64)";
const GOVERNOR: &str = "governor";
const MUTEX: &str = "Mutex<HashMap>";

const CONTENDERS: [Contender; 6] = [
    Contender { name: TOLLGATE, make: |limits| Box::new(Single(limits.limiter())), threaded: true },
    Contender { name: "Session::check", make: |limits| Box::new(Checked(limits.limiter())), threaded: true },
    Contender { name: BATCH, make: |limits| Box::new(Batch(limits.limiter())), threaded: false },
    Contender { name: GOVERNOR, make: |limits| Box::new(Governor::new(limits)), threaded: true },
    Contender { name: MUTEX, make: |limits| Box::new(MutexMap::new(limits)), threaded: true },
    Contender { name: "sharded mutex", make: |limits| Box::new(Sharded::new(limits)), threaded: true },
];

/// What the checks come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Allowed,
    Refused,
    /// Allowed, and every client has its whole limit again before its next check.
    Idle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Workload {
    keys: u64,
    threads: usize,
    answer: Answer,
}

const ONE: u64 = 1;
const THOUSAND: u64 = 1_000;
const MILLION: u64 = 1_000_000;

impl Workload {
    fn all() -> impl Iterator<Item = Self> {
        use Answer::{Allowed, Idle, Refused};
        let loads = [
            (ONE, Allowed),
            (THOUSAND, Allowed),
            (MILLION, Allowed),
            (THOUSAND, Refused),
            (THOUSAND, Idle),
            (MILLION, Idle),
        ];
        loads.into_iter().flat_map(|(keys, answer)| [1, 2].map(|threads| Self { keys, threads, answer }))
    }

    fn name(self) -> String {
        let keys = match self.keys {
            ONE => "1 key".to_owned(),
            MILLION => "1 million keys".to_owned(),
            keys => format!("{} keys", common::count(keys)),
        };
        let answer = match self.answer {
            Answer::Allowed => "",
            Answer::Refused => ", mostly refused",
            Answer::Idle => ", always idle",
        };
        let threads = if self.threads == 1 { "1 thread" } else { "2 threads" };
        format!("{keys}{answer}, {threads}")
    }

    fn limits(self) -> Limits {
        match (self.answer, self.keys) {
            (Answer::Allowed, ONE) => Limits::LIVE_ALONE,
            (Answer::Allowed, _) => Limits::LIVE,
            (Answer::Refused, _) => Limits::REFUSED,
            (Answer::Idle, _) => Limits::IDLE,
        }
    }

    fn contenders(self) -> impl Iterator<Item = Contender> {
        CONTENDERS.into_iter().filter(move |contender| contender.threaded || self.threads == 1)
    }

    /// A subject that has seen every key before, and as often as it takes for the answer.
    fn prepare(self, contender: Contender) -> Box<dyn Subject> {
        let limits = self.limits();
        let subject = (contender.make)(limits);
        // What three checks take is not refilled before the end.
        let checks = if self.answer == Answer::Refused { limits.burst } else { 3 };
        for _ in 0..checks {
            for key in 0..self.keys {
                assert!(subject.check(key), "{} refuses a first check", contender.name);
            }
        }
        subject
    }

    /// Lets every thread make `checks` checks, and returns the time that took. Another round draws other keys: else a slow
    /// subject, which does not come far, would soon have all of its own in the cache.
    fn run(self, subject: &dyn Subject, checks: u64, round: u64) -> Duration {
        let draw = |thread| Draw::new(round * self.threads as u64 + thread as u64);
        // What a thread has to set up on its first call is no part of a check.
        let warm_up = |thread| assert!(subject.run(&mut draw(thread), self.keys, 1) <= 1);
        let (time, allowed) =
            common::race(self.threads, warm_up, |thread| subject.run(&mut draw(thread), self.keys, checks));
        let share = allowed.iter().sum::<u64>() as f64 / (checks * self.threads as u64) as f64;
        let as_meant = match self.answer {
            Answer::Allowed | Answer::Idle => share > 0.99,
            Answer::Refused => share < 0.01,
        };
        assert!(checks < MANY || as_meant, "{}: a share of {share} was allowed", self.name());
        time
    }
}

fn main() -> ExitCode {
    if !common::is_bench() {
        println!("to be run by `cargo bench --bench check`");
        return ExitCode::SUCCESS;
    }
    let args: Vec<_> = std::env::args().collect();
    if !args.iter().any(|arg| arg == "--ratios") {
        with_criterion();
        return ExitCode::SUCCESS;
    }
    let rounds = match args.iter().position(|arg| arg == "--rounds") {
        None => Some(ROUNDS),
        Some(at) => args.get(at + 1).and_then(|rounds| rounds.parse().ok()).filter(|&rounds| rounds > 0),
    };
    let Some(rounds) = rounds else {
        eprintln!("--rounds takes a number of at least 1");
        return ExitCode::FAILURE;
    };
    ratios(rounds);
    ExitCode::SUCCESS
}

fn with_criterion() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    for workload in Workload::all() {
        let mut group = criterion.benchmark_group(workload.name());
        // Samples of equal length, and no longer than it takes to leave every client some of its burst.
        group.sampling_mode(SamplingMode::Flat).sample_size(20);
        group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
        for contender in workload.contenders() {
            let subject = LazyCell::new(|| workload.prepare(contender));
            let mut rounds = 0..;
            group.bench_function(BenchmarkId::from_parameter(contender.name), |bencher| {
                bencher.iter_custom(|checks| {
                    let round = rounds.next().expect("a number without end");
                    workload.run(&**subject, checks, round)
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

/// The median time of a check in nanoseconds, of each contender on one workload.
struct Measured {
    workload: Workload,
    medians: Vec<(&'static str, f64)>,
}

impl Measured {
    fn median(&self, name: &str) -> Option<f64> {
        self.medians.iter().find(|(contender, _)| *contender == name).map(|(_, median)| *median)
    }

    fn take(workload: Workload, rounds: u64, name: &str, progress: &Progress, draw: &mut Draw) -> Self {
        struct Entrant {
            name: &'static str,
            subject: Box<dyn Subject>,
            checks: u64,
            times: Vec<f64>,
        }
        progress.step(name);
        let mut entrants: Vec<_> = workload
            .contenders()
            .map(|contender| {
                let subject = workload.prepare(contender);
                let checks = checks_in(TURN, |checks| workload.run(&*subject, checks, 0));
                Entrant { name: contender.name, subject, checks, times: Vec::new() }
            })
            .collect();
        for round in 1..=rounds {
            progress.detail(&format!("{name}: round {round} of {rounds}"));
            draw.shuffle(&mut entrants);
            for Entrant { subject, checks, times, .. } in &mut entrants {
                let time = workload.run(&**subject, *checks, round);
                times.push(time.as_secs_f64() * 1e9 / *checks as f64);
            }
        }
        let medians = entrants.into_iter().map(|mut entrant| (entrant.name, median(&mut entrant.times))).collect();
        Self { workload, medians }
    }
}

/// How many checks take about that long.
fn checks_in(time: Duration, run: impl Fn(u64) -> Duration) -> u64 {
    let mut checks = 1 << 12;
    loop {
        let took = run(checks);
        if took * 4 >= time {
            return (checks as f64 * time.as_secs_f64() / took.as_secs_f64()) as u64;
        }
        checks *= 2;
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len() % 2 == 1 { times[middle] } else { f64::midpoint(times[middle - 1], times[middle]) }
}

/// A ratio that is to be reached: of one contender's median to another's.
struct Target {
    slower: &'static str,
    faster: &'static str,
    keys: u64,
    threads: usize,
    least: f64,
}

const TARGETS: [Target; 5] = [
    Target { slower: GOVERNOR, faster: TOLLGATE, keys: THOUSAND, threads: 1, least: 1.35 },
    Target { slower: GOVERNOR, faster: TOLLGATE, keys: THOUSAND, threads: 2, least: 1.8 },
    Target { slower: GOVERNOR, faster: TOLLGATE, keys: MILLION, threads: 1, least: 2.2 },
    Target { slower: GOVERNOR, faster: BATCH, keys: MILLION, threads: 1, least: 8.0 },
    Target { slower: MUTEX, faster: TOLLGATE, keys: THOUSAND, threads: 2, least: 3.0 },
];

fn ratios(rounds: u64) {
    // The order of the rounds should be another each time; nothing else depends on this.
    let mut draw = Draw::new(std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64));
    let (progress, machine) = (Progress::new(), common::machine());
    let workloads: Vec<_> = Workload::all().collect();
    let mut results = Vec::new();
    for (i, &workload) in workloads.iter().enumerate() {
        let name = format!("[{}/{}] {}", i + 1, workloads.len(), workload.name());
        results.push(Measured::take(workload, rounds, &name, &progress, &mut draw));
    }
    drop(progress);

    println!("Nanoseconds per check and thread, and those as multiples of `{TOLLGATE}`:");
    println!("medians of {rounds} interleaved rounds of about {} ms, on {machine}.\n", TURN.as_millis());
    println!("{}", times_table(&results));
    println!("{}", targets_table(&results));
}

fn times_table(results: &[Measured]) -> Table {
    let header: Vec<_> = std::iter::once("").chain(CONTENDERS.map(|contender| contender.name)).collect();
    let mut table = Table::new(&header);
    for measured in results {
        let tollgate = measured.median(TOLLGATE).expect("tollgate takes part in every workload");
        let cell = |contender: Contender| match measured.median(contender.name) {
            None => "-".to_owned(),
            Some(median) if contender.name == TOLLGATE => format!("{median:.1}"),
            Some(median) => format!("{median:.1} {:>6}", format!("x{:.2}", median / tollgate)),
        };
        table.row(std::iter::once(measured.workload.name()).chain(CONTENDERS.map(cell)).collect());
    }
    table
}

fn targets_table(results: &[Measured]) -> Table {
    let mut table = Table::new(&["target", "at least", "measured", ""]);
    for target in TARGETS {
        let workload = Workload { keys: target.keys, threads: target.threads, answer: Answer::Allowed };
        let measured = results.iter().find(|measured| measured.workload == workload);
        let ratio = measured.and_then(|all| Some(all.median(target.slower)? / all.median(target.faster)?));
        let ratio = ratio.expect("targets are set for what is measured");
        table.row(vec![
            format!("{} / {}: {}", target.slower, target.faster, workload.name()),
            format!("{}", target.least),
            format!("{ratio:.2}"),
            common::verdict(ratio >= target.least),
        ]);
    }
    table
}
