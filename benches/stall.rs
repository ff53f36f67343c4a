//! The worst calls while a limiter grows from nothing to 8 million live clients: `cargo bench --bench stall`.
//!
//! Every call is timed. A machine that others use interrupts programs for longer than any call should take, so beside the
//! limiters runs an *empty operation*, nothing but the two readings of the clock, for as long: what its worst case is, no
//! limiter can stay below. And calls in which the thread lost its processor to another are told from the others. What a
//! hypervisor takes away cannot be told; but a limiter that stalls does so whenever it grows, so a pass without a stall
//! says that those of other passes were not its own.

mod common;

use common::{Governor, Limits, Progress, Single, Subject, Table, micros};
use std::hint::black_box;
use std::iter::Sum;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// No call should take as long.
const TARGET: Duration = Duration::from_millis(2);

/// How often each limiter is filled, with all others in between.
const PASSES: usize = 3;

const CLIENTS: u64 = 8_000_000;

/// The clients that are checked meanwhile.
const KNOWN: u64 = 1_000;

/// From here on the largest migration is looked out for. It starts at three quarters of 2^23 slots.
const SOON_LARGEST: u64 = (1 << 23) / 4 * 3 - 10_000;

/// Calls of at least this length are looked into.
const SLOW: Duration = Duration::from_micros(50);

/// How many of the worst calls are kept.
const KEPT: usize = 10;

#[derive(Clone, Copy, Debug)]
struct Call {
    took: Duration,
    /// How many calls came before it.
    number: u64,
    switched_out: bool,
}

/// Times the calls of one thread.
struct Timer {
    switches: Option<u64>,
}

impl Timer {
    fn new() -> Self {
        Self { switches: common::switches() }
    }

    #[inline]
    fn time<R>(&mut self, number: u64, operation: impl FnOnce() -> R) -> (Call, R) {
        let start = Instant::now();
        let result = operation();
        let took = start.elapsed();
        (Call { took, number, switched_out: took >= SLOW && self.was_switched_out() }, result)
    }

    /// Whether the thread has lost its processor since this was last asked. That makes a call slow, so it was in the call
    /// just made; or else between two, and then a call that is slow by itself may be excused by mistake, in this pass.
    #[cold]
    fn was_switched_out(&mut self) -> bool {
        let now = common::switches();
        std::mem::replace(&mut self.switches, now) != now
    }
}

/// What is kept of a run of calls.
#[derive(Clone, Debug, Default)]
struct Calls {
    count: u64,
    slow: u64,
    /// The longest calls, longest first.
    worst: Vec<Call>,
    /// The longest of those in which the thread kept its processor.
    undisturbed: Duration,
}

impl Calls {
    #[inline]
    fn add(&mut self, call: Call) {
        self.count += 1;
        if !call.switched_out && call.took > self.undisturbed {
            self.undisturbed = call.took;
        }
        if call.took >= SLOW {
            self.slow += 1;
        }
        if self.worst.len() < KEPT || call.took > self.worst[KEPT - 1].took {
            self.keep(call);
        }
    }

    #[cold]
    fn keep(&mut self, call: Call) {
        let place = self.worst.partition_point(|kept| kept.took >= call.took);
        self.worst.insert(place, call);
        self.worst.truncate(KEPT);
    }

    fn longest(&self) -> Duration {
        self.worst.first().map_or(Duration::ZERO, |call| call.took)
    }
}

impl<'a> Sum<&'a Calls> for Calls {
    fn sum<I: Iterator<Item = &'a Calls>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, calls| {
            sum.count += calls.count;
            sum.slow += calls.slow;
            sum.undisturbed = sum.undisturbed.max(calls.undisturbed);
            calls.worst.iter().for_each(|&call| sum.keep(call));
            sum
        })
    }
}

/// A new client with each call.
fn fill(subject: &dyn Subject) -> Calls {
    let (mut calls, mut timer) = (Calls::default(), Timer::new());
    for number in 0..CLIENTS {
        let (call, allowed) = timer.time(number, || subject.check(number));
        assert!(allowed, "the first check of a client was refused");
        calls.add(call);
    }
    calls
}

/// Known clients, until there is nobody left to wait for.
fn keep_checking(subject: &dyn Subject, stop: &AtomicBool) -> Calls {
    let (mut calls, mut timer) = (Calls::default(), Timer::new());
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        calls.add(timer.time(number, || subject.check(number % KNOWN)).0);
        number += 1;
    }
    calls
}

/// A subject that does nothing.
struct Empty;

impl Subject for Empty {
    fn check(&self, key: u64) -> bool {
        black_box(key);
        true
    }
}

/// The empty operation, for that long.
fn idle(time: Duration) -> Calls {
    let (mut calls, mut timer) = (Calls::default(), Timer::new());
    let start = Instant::now();
    let mut number = 0;
    while number % 1024 != 0 || start.elapsed() < time {
        calls.add(timer.time(number, || (&Empty as &dyn Subject).check(number)).0);
        number += 1;
    }
    calls
}

/// Runs both at the same time, the second until the first has finished.
fn beside(first: impl FnOnce() -> Calls, second: impl FnOnce(&AtomicBool) -> Calls + Send) -> [Calls; 2] {
    let (ready, stop) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            ready.wait();
            second(&stop)
        });
        ready.wait();
        let first = first();
        stop.store(true, Ordering::Relaxed);
        [first, second.join().expect("the second thread panicked")]
    })
}

/// New clients, and what of it has to do with the largest migration.
#[derive(Default)]
struct Growth {
    all: Calls,
    /// The call that starts it.
    start: Calls,
    /// The calls after that, until the memory of the old table is given back.
    during: Calls,
}

impl Growth {
    fn take() -> Self {
        enum Migration {
            Ahead,
            Running { bytes_after: usize },
            Over,
        }
        let limiter = Limits::LIVE.limiter();
        let (mut growth, mut timer, mut migration) = (Self::default(), Timer::new(), Migration::Ahead);
        for number in 0..CLIENTS {
            let watch = matches!(migration, Migration::Ahead) && number >= SOON_LARGEST;
            let before = if watch { limiter.memory_bytes() } else { 0 };
            let (call, allowed) = timer.time(number, || limiter.allow(&number));
            assert!(allowed, "the first check of a client was refused");
            growth.all.add(call);
            match migration {
                Migration::Ahead if watch => {
                    let bytes = limiter.memory_bytes();
                    if bytes > before + before / 2 {
                        growth.start.add(call);
                        migration = Migration::Running { bytes_after: bytes - before };
                    }
                }
                Migration::Running { bytes_after } => {
                    growth.during.add(call);
                    // Seldom: to ask is a call too, and may do what the next one would have had to do.
                    if number % 256 == 0 && limiter.memory_bytes() < bytes_after + bytes_after / 64 {
                        migration = Migration::Over;
                    }
                }
                _ => {}
            }
        }
        assert!(matches!(migration, Migration::Over), "no migration was seen from its start to its end");
        growth
    }
}

/// One line of the table: the same calls in every pass.
struct Row {
    name: &'static str,
    /// Whether the target is meant for these.
    ours: bool,
    passes: Vec<Calls>,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let each = |longest: fn(&Calls) -> Duration| -> Vec<_> { self.passes.iter().map(longest).collect() };
        let (longest, undisturbed) = (each(Calls::longest), each(|calls| calls.undisturbed));
        let met = |longest: &Duration| *longest < TARGET;
        let verdict = match (longest.iter().all(met), undisturbed.iter().any(met)) {
            _ if !self.ours => "",
            (true, _) => "met",
            (false, true) => "met while undisturbed",
            (false, false) => "missed",
        };
        let join = |passes: Vec<Duration>| passes.into_iter().map(micros).collect::<Vec<_>>().join(" / ");
        let all: Calls = self.passes.iter().sum();
        vec![
            self.name.to_owned(),
            common::count(all.count),
            join(longest),
            join(undisturbed),
            common::count(all.slow),
            verdict.to_owned(),
        ]
    }
}

const NAMES: [(&str, bool); 11] = [
    ("tollgate, new clients", true),
    ("  starting the migration past 6 million", true),
    ("  during that migration", true),
    ("empty operation", false),
    ("governor, new clients", false),
    ("tollgate, new clients, a thread beside", true),
    ("  known clients on that thread", true),
    ("empty operation, a thread beside", false),
    ("  empty operation on that thread", false),
    ("governor, new clients, a thread beside", false),
    ("  known clients on that thread", false),
];

/// Fills everything once, in the order of the names.
fn pass(step: impl Fn(&str)) -> [Calls; NAMES.len()] {
    step("tollgate");
    let start = Instant::now();
    let Growth { all, start: starting, during } = Growth::take();
    let time = start.elapsed();
    step("nothing");
    let empty = idle(time);
    step("governor");
    let governor = fill(&Governor::new(Limits::LIVE));

    let both = |subject: &dyn Subject| {
        // Known from before, and live for long enough: what they have used is refilled in a day.
        (0..KNOWN).for_each(|key| assert!((0..KNOWN).all(|_| subject.check(key))));
        beside(|| fill(subject), |stop| keep_checking(subject, stop))
    };
    step("tollgate on two threads");
    let start = Instant::now();
    let [new, known] = both(&Single(Limits::LIVE.limiter()));
    let time = start.elapsed();
    step("nothing on two threads");
    let [nothing, nothing_beside] = beside(|| idle(time), |stop| keep_checking(&Empty, stop));
    step("governor on two threads");
    let [governor_new, governor_known] = both(&Governor::new(Limits::LIVE));
    [all, starting, during, empty, governor, new, known, nothing, nothing_beside, governor_new, governor_known]
}

fn main() -> ExitCode {
    if !common::is_bench() {
        println!("to be run by `cargo bench --bench stall`");
        return ExitCode::SUCCESS;
    }
    let (progress, machine) = (Progress::new(), common::machine());
    let mut rows = NAMES.map(|(name, ours)| Row { name, ours, passes: Vec::new() });
    for number in 1..=PASSES {
        let calls = pass(|what| progress.step(&format!("[{number}/{PASSES}] {what}")));
        for (row, calls) in rows.iter_mut().zip(calls) {
            row.passes.push(calls);
        }
    }
    drop(progress);

    let clients = common::count(CLIENTS);
    println!("The longest calls in each of {PASSES} passes while {clients} clients come, in microseconds,");
    println!("on {machine}. Target: under {}.\n", micros(TARGET));
    let slow = format!("of {} or more", micros(SLOW));
    let mut table = Table::new(&["", "calls", "longest", "not switched out", &slow, "target"]);
    rows.iter().for_each(|row| table.row(row.cells()));
    println!("{table}");

    println!("The {KEPT} longest calls of new clients of tollgate, on one thread:\n");
    let mut table = Table::new(&["microseconds", "clients before", ""]);
    for call in rows[0].passes.iter().sum::<Calls>().worst {
        let note = if call.switched_out { "switched out" } else { "" };
        table.row(vec![micros(call.took), common::count(call.number), note.to_owned()]);
    }
    println!("{table}");
    ExitCode::SUCCESS
}
