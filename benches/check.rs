//! What one check costs, beside other ways to have it.
//!
//! - `cargo bench --bench check` measures with criterion; a part of a name after it selects, as `'1,000 keys'`.
//! - `cargo bench --bench check -- --ratios [--rounds N]` takes the subjects in turns, in a new random order each round,
//!   and prints how many times tollgate's median the others' medians are. So what slows the machine down for long falls on
//!   all of them. And a turn consists of short bursts: those in which a thread lost its processor to another program are
//!   left out, since two threads of which one waits for a processor do not get into each other's way.
//!
//! Every subject has the same limits and draws its keys in the same way. Times are per check and thread: with two
//! threads each makes as many checks as a single one would.

mod common;

use common::{Batch, Burst, Checked, Draw, Governor, Limits, MutexMap, Progress, Sharded, Single, Subject, Table};
use criterion::{BenchmarkId, Criterion, SamplingMode};
use std::cell::LazyCell;
use std::process::ExitCode;
use std::time::Duration;

/// How long a burst is, about. A system lets a thread that has just woken up run for some milliseconds before it gives its
/// processor to another.
const BURST: Duration = Duration::from_millis(2);

/// A subject's turn in a round: so many bursts at a time, until enough of them were undisturbed or patience is at an end.
const BURSTS: usize = 16;
const CALM_A_TURN: usize = 24;
const BURSTS_A_TURN: usize = 48;

const ROUNDS: u64 = 11;

/// With fewer undisturbed bursts in all rounds, the others count too.
const ENOUGH: usize = 10;

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

    /// Lets every thread make `checks` checks a burst. Another number draws other keys: else a slow subject, which does not
    /// come far, would soon have all of its own in the cache.
    fn run(self, subject: &dyn Subject, checks: u64, bursts: usize, number: u64) -> Vec<Burst> {
        let prepare = |thread| {
            let mut draw = Draw::new(number * self.threads as u64 + thread as u64);
            // What a thread has to set up on its first call is no part of a check.
            subject.run(&mut draw, self.keys, 1);
            draw
        };
        let bursts = common::race(self.threads, bursts, prepare, |draw| subject.run(draw, self.keys, checks));
        let all = (checks * (self.threads * bursts.len()) as u64) as f64;
        let share = bursts.iter().map(|burst| burst.sum).sum::<u64>() as f64 / all;
        let as_meant = match self.answer {
            Answer::Allowed | Answer::Idle => share > 0.99,
            Answer::Refused => share < 0.01,
        };
        assert!(checks < MANY || as_meant, "{}: a share of {share} was allowed", self.name());
        bursts
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
            let mut numbers = 0..;
            group.bench_function(BenchmarkId::from_parameter(contender.name), |bencher| {
                bencher.iter_custom(|checks| {
                    let number = numbers.next().expect("numbers do not end");
                    workload.run(&**subject, checks, 1, number)[0].time
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
}

/// What one contender's checks took.
struct Times {
    name: &'static str,
    /// In nanoseconds.
    median: f64,
    bursts: usize,
    calm: usize,
}

impl Times {
    fn of(name: &'static str, bursts: &[Burst], checks: u64) -> Self {
        let calm = bursts.iter().filter(|burst| burst.calm).count();
        let counts = |burst: &&Burst| burst.calm || calm < ENOUGH;
        let mut times: Vec<_> = bursts.iter().filter(counts).map(|burst| burst.time).collect();
        times.sort_unstable();
        let median = times[times.len() / 2].as_secs_f64() * 1e9 / checks as f64;
        Self { name, median, bursts: bursts.len(), calm }
    }

    fn doubt(&self) -> &'static str {
        if self.calm < ENOUGH { "~" } else { "" }
    }
}

/// Every contender on one workload.
struct Measured {
    workload: Workload,
    times: Vec<Times>,
}

impl Measured {
    fn times(&self, name: &str) -> Option<&Times> {
        self.times.iter().find(|times| times.name == name)
    }

    /// How many times one's median is another's, and a mark if one of them is in doubt.
    fn ratio(&self, slower: &str, faster: &str) -> Option<(f64, &'static str)> {
        let (slower, faster) = (self.times(slower)?, self.times(faster)?);
        let doubt = if slower.doubt().is_empty() { faster.doubt() } else { slower.doubt() };
        Some((slower.median / faster.median, doubt))
    }

    fn take(workload: Workload, rounds: u64, name: &str, progress: &Progress, draw: &mut Draw) -> Self {
        struct Entrant {
            name: &'static str,
            subject: Box<dyn Subject>,
            checks: u64,
            bursts: Vec<Burst>,
        }
        progress.step(name);
        let mut entrants: Vec<_> = workload
            .contenders()
            .map(|contender| {
                let subject = workload.prepare(contender);
                let checks = checks_in(BURST, |checks| workload.run(&*subject, checks, 8, 0));
                Entrant { name: contender.name, subject, checks, bursts: Vec::new() }
            })
            .collect();
        for round in 1..=rounds {
            progress.detail(&format!("{name}: round {round} of {rounds}"));
            draw.shuffle(&mut entrants);
            for Entrant { subject, checks, bursts, .. } in &mut entrants {
                let (mut made, mut calm) = (0, 0);
                while calm < CALM_A_TURN && made < BURSTS_A_TURN {
                    let more = workload.run(&**subject, *checks, BURSTS, round * BURSTS_A_TURN as u64 + made as u64);
                    calm += more.iter().filter(|burst| burst.calm).count();
                    made += more.len();
                    bursts.extend(more);
                }
            }
        }
        let times = entrants.iter().map(|entrant| Times::of(entrant.name, &entrant.bursts, entrant.checks)).collect();
        Self { workload, times }
    }
}

/// How many checks take about that long, when nothing disturbs them.
fn checks_in(time: Duration, run: impl Fn(u64) -> Vec<Burst>) -> u64 {
    let mut checks = 1 << 8;
    loop {
        let took = run(checks).iter().map(|burst| burst.time).min().expect("at least one burst");
        if took * 4 >= time {
            return (checks as f64 * time.as_secs_f64() / took.as_secs_f64()) as u64;
        }
        checks *= 2;
    }
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

    let all = || results.iter().flat_map(|measured| &measured.times);
    let (bursts, calm) = all().fold((0, 0), |(bursts, calm), times| (bursts + times.bursts, calm + times.calm));
    println!("Nanoseconds per check and thread, and those as multiples of `{TOLLGATE}`: medians of bursts of");
    println!("about {} ms in {rounds} interleaved rounds, on {machine}.", BURST.as_millis());
    println!("Undisturbed, and so counted: {} % of the bursts.\n", 100 * calm / bursts);
    println!("{}", times_table(&results));
    if all().any(|times| !times.doubt().is_empty()) {
        println!("~ Hardly any burst was undisturbed, so all count: to be taken again on a calmer machine.\n");
    }
    println!("{}", targets_table(&results));
}

fn times_table(results: &[Measured]) -> Table {
    let header: Vec<_> = std::iter::once("").chain(CONTENDERS.map(|contender| contender.name)).collect();
    let mut table = Table::new(&header);
    for measured in results {
        let cell = |contender: Contender| match measured.times(contender.name) {
            None => "-".to_owned(),
            Some(times) if contender.name == TOLLGATE => format!("{}{:.1}", times.doubt(), times.median),
            Some(times) => {
                let (ratio, doubt) = measured.ratio(contender.name, TOLLGATE).expect("tollgate takes part everywhere");
                format!("{}{:.1} {:>7}", times.doubt(), times.median, format!("{doubt}x{ratio:.2}"))
            }
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
        let ratio = measured.and_then(|measured| measured.ratio(target.slower, target.faster));
        let (ratio, doubt) = ratio.expect("targets are set for what is measured");
        table.row(vec![
            format!("{} / {}: {}", target.slower, target.faster, workload.name()),
            format!("{}", target.least),
            format!("{doubt}{ratio:.2}"),
            common::verdict(ratio >= target.least),
        ]);
    }
    table
}
