//! The slowest checks: `cargo bench --bench tails`.
//!
//! Every call is timed, on hot clients, while another thread does what makes limiters stall: it inserts 8 million new
//! clients, or it sweeps 8 million that are idle. A machine that others use interrupts programs for longer than any call
//! should take, so beside the limiters runs an *empty operation*, nothing but the two readings of the clock, for as long as
//! tollgate took: what its worst case is, no limiter can stay below. It makes more calls in that time, so the interruptions
//! are a smaller part of them; the *noise* is their part of as many calls as tollgate made. And calls in which the thread
//! lost its processor to another are told from the others. What a hypervisor takes away cannot be told; but a limiter that
//! stalls does so whenever it grows, so a pass without a stall says that those of other passes were not its own.

mod common;

use common::form::Form;
use common::limits::Limits;
use common::output::{Progress, count};
use common::race::{self, beside};
use common::records::{Record, Records};
use common::subject::{self, CHECK, Contender, Subject};
use common::tables::{self, EMPTY, MAX, MAX_UNDISTURBED, MAX_UNDISTURBED_BEST, NOISE, PERCENTILES};
use hdrhistogram::Histogram;
use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 8_000_000;

/// The clients that are checked meanwhile.
const HOT: u64 = 1_000;

/// Calls of at least this length are looked into.
const SLOW: Duration = Duration::from_micros(50);

/// When a client is idle after its only call, where idle clients are swept. All must have come before. governor keeps them
/// for as long again.
const IDLE_AFTER: Duration = Duration::from_secs(20);

/// Who takes part: where a limiter stalls depends on its map, so of each kind one.
fn contenders(form: Form) -> Vec<Contender<u64>> {
    use subject::{DASHMAP, GOVERNOR, MUTEX, PAPAYA, SHARDED};
    let names: &[_] = match form {
        Form::Smoke | Form::Full => &[CHECK, GOVERNOR, DASHMAP, PAPAYA, MUTEX, SHARDED],
        Form::Short => &[CHECK, GOVERNOR],
    };
    let mut contenders = subject::keyed();
    contenders.retain(|contender| names.contains(&contender.name));
    contenders
}

/// What is kept of a run of calls, in nanoseconds.
#[derive(Clone, Debug)]
struct Calls {
    histogram: Histogram<u64>,
    /// The longest of those in which the thread kept its processor.
    undisturbed: u64,
}

impl Calls {
    fn new() -> Self {
        // Up to a minute, to three digits.
        let histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds that a histogram can have");
        Self { histogram, undisturbed: 0 }
    }

    #[inline]
    fn add(&mut self, call: Call) {
        self.histogram.saturating_record(call.took);
        if !call.switched_out {
            self.undisturbed = self.undisturbed.max(call.took);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Call {
    took: u64,
    switched_out: bool,
}

/// Times the calls of one thread.
struct Timer {
    switches: Option<u64>,
}

impl Timer {
    fn new() -> Self {
        Self { switches: race::switches() }
    }

    #[inline]
    fn time<R>(&mut self, operation: impl FnOnce() -> R) -> (Call, R) {
        let start = Instant::now();
        let result = operation();
        let took = start.elapsed();
        (Call { took: took.as_nanos() as u64, switched_out: took >= SLOW && self.was_switched_out() }, result)
    }

    /// Whether the thread has lost its processor since this was last asked. That makes a call slow, so it was in the call
    /// just made; or else between two, and then a call that is slow by itself may be excused by mistake, in this pass.
    #[cold]
    fn was_switched_out(&mut self) -> bool {
        let now = race::switches();
        std::mem::replace(&mut self.switches, now) != now
    }
}

/// A subject that does nothing.
struct Empty;

impl Subject<u64> for Empty {
    fn check(&self, key: &u64) -> bool {
        black_box(key);
        true
    }
}

/// New clients, and what of it has to do with the largest migration of a subject that says how many bytes it has.
struct Growth {
    all: Calls,
    /// The call that starts it.
    start: Calls,
    /// The calls after that, until the memory of the old table is given back.
    during: Calls,
}

impl Growth {
    /// A new client with each call.
    fn take(subject: &dyn Subject<u64>, clients: u64) -> Self {
        enum Migration {
            Ahead,
            Running { bytes_after: usize },
            Over,
        }
        // The largest migration starts at three quarters of a power of two. It is looked out for from a little before.
        let mut fills_at = 3;
        while fills_at * 2 <= clients {
            fills_at *= 2;
        }
        let soon = if subject.bytes().is_some() { fills_at - fills_at / 64 } else { u64::MAX };
        let bytes = || subject.bytes().expect("a subject that says how many bytes it has");
        let mut growth = Self { all: Calls::new(), start: Calls::new(), during: Calls::new() };
        let (mut timer, mut migration) = (Timer::new(), Migration::Ahead);
        for number in HOT..HOT + clients {
            let watch = matches!(migration, Migration::Ahead) && number >= soon;
            let before = if watch { bytes() } else { 0 };
            let (call, allowed) = timer.time(|| subject.check(&number));
            assert!(allowed, "the first check of a client was refused");
            growth.all.add(call);
            match migration {
                Migration::Ahead if watch => {
                    let after = bytes();
                    if after > before + before / 2 {
                        growth.start.add(call);
                        migration = Migration::Running { bytes_after: after - before };
                    }
                }
                Migration::Running { bytes_after } => {
                    growth.during.add(call);
                    // Seldom: to ask is a call too, and may do what the next one would have had to do.
                    if number % 256 == 0 && bytes() < bytes_after + bytes_after / 64 {
                        migration = Migration::Over;
                    }
                }
                _ => {}
            }
        }
        let seen = matches!(migration, Migration::Over);
        assert!(subject.bytes().is_none() || seen, "no migration was seen from its start to its end");
        growth
    }
}

/// Hot clients, until there is nobody left to wait for.
fn keep_checking(subject: &dyn Subject<u64>, stop: &AtomicBool) -> Calls {
    let (mut calls, mut timer) = (Calls::new(), Timer::new());
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        calls.add(timer.time(|| subject.check(&(number % HOT))).0);
        number += 1;
    }
    calls
}

/// The empty operation, for that long.
fn keep_idle(time: Duration) -> Calls {
    let (mut calls, mut timer) = (Calls::new(), Timer::new());
    let empty: &dyn Subject<u64> = &Empty;
    let start = Instant::now();
    let mut number = 0;
    while number % 1024 != 0 || start.elapsed() < time {
        calls.add(timer.time(|| empty.check(&number)).0);
        number += 1;
    }
    calls
}

/// The same calls in every pass: one line of the table.
struct Row {
    workload: String,
    subject: &'static str,
    passes: Vec<Calls>,
}

/// The lines, in the order in which their first calls came.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    fn add(&mut self, workload: &str, subject: &'static str, calls: Calls) {
        match self.0.iter_mut().find(|row| row.workload == workload && row.subject == subject) {
            Some(row) => row.passes.push(calls),
            None => self.0.push(Row { workload: workload.to_owned(), subject, passes: vec![calls] }),
        }
    }
}

/// Hot clients beside new ones.
fn while_growing(form: Form, rows: &mut Rows, step: impl Fn(&str)) {
    let clients = form.clients(CLIENTS);
    let mut tollgate_took = Duration::ZERO;
    for Contender { name, make } in contenders(form) {
        step(&format!("{name} grows"));
        let subject = make(Limits::LIVE);
        // Known from before, and live for long enough.
        (0..HOT).for_each(|key| assert!(subject.check(&key)));
        let start = Instant::now();
        let (growth, hot) = beside(|| Growth::take(&*subject, clients), |stop| keep_checking(&*subject, stop));
        rows.add(tables::HOT_WHILE_GROWING, name, hot);
        rows.add(tables::NEW_CLIENTS, name, growth.all);
        if name == CHECK {
            tollgate_took = start.elapsed();
            rows.add(tables::MIGRATION_START, name, growth.start);
            rows.add(tables::MIGRATION, name, growth.during);
        }
    }
    step("an empty operation instead");
    let (first, second) = beside(|| keep_idle(tollgate_took), |stop| keep_checking(&Empty, stop));
    rows.add(tables::HOT_WHILE_GROWING, EMPTY, second);
    rows.add(tables::NEW_CLIENTS, EMPTY, first);
}

/// Hot clients beside a sweep of idle ones.
fn while_sweeping(form: Form, rows: &mut Rows, step: impl Fn(&str)) {
    let clients = form.clients(CLIENTS);
    let idle_after = form.of(IDLE_AFTER / 10, IDLE_AFTER / 2, IDLE_AFTER);
    let fill = |contender: Contender<u64>| {
        step(&format!("{} is filled for a sweep", contender.name));
        let subject = (contender.make)(Limits::every(idle_after));
        (0..clients).for_each(|number| assert!(subject.check(&number)));
        assert_eq!(subject.len() as u64, clients, "{} has forgotten clients: it was filled too slowly", contender.name);
        (contender.name, subject)
    };
    let subjects: Vec<_> = contenders(form).into_iter().map(fill).collect();
    step("all clients become idle");
    thread::sleep(2 * idle_after);
    let mut tollgate_took = Duration::ZERO;
    for (name, subject) in subjects {
        step(&format!("{name} is swept"));
        let start = Instant::now();
        let ((), hot) = beside(|| subject.sweep(), |stop| keep_checking(&*subject, stop));
        if name == CHECK {
            tollgate_took = start.elapsed();
        }
        // The hot ones have called again.
        assert!(subject.len() as u64 <= HOT, "{name} still holds {} clients", subject.len());
        rows.add(tables::HOT_WHILE_SWEEPING, name, hot);
    }
    step("an empty operation instead");
    let (_, second) = beside(|| keep_idle(tollgate_took), |stop| keep_checking(&Empty, stop));
    rows.add(tables::HOT_WHILE_SWEEPING, EMPTY, second);
}

impl Row {
    /// The calls of all passes.
    fn all(&self) -> Histogram<u64> {
        let mut all = Histogram::new_from(&self.passes[0].histogram);
        for calls in &self.passes {
            all.add(&calls.histogram).expect("histograms of the same bounds");
        }
        all
    }

    fn record(&self, subject: &str, measure: &str, value: u64, calls: u64) -> Record {
        let record = Record::once(&self.workload, 2, subject, measure, value as f64);
        Record { samples: calls as usize, ..record }
    }

    /// What all passes came to together, and what the best of them came to.
    fn records(&self) -> Vec<Record> {
        let all = self.all();
        let record = |measure: &str, value| self.record(self.subject, measure, value, all.len());
        let undisturbed = || self.passes.iter().map(|calls| calls.undisturbed);
        let mut records = Vec::new();
        for (name, quantile) in PERCENTILES {
            // Of fewer calls than one in so many, the percentile is the longest.
            records.push(record(name, all.value_at_quantile(quantile)));
        }
        records.push(record(MAX, all.max()));
        records.push(record(MAX_UNDISTURBED, undisturbed().max().unwrap_or(0)));
        records.push(record(MAX_UNDISTURBED_BEST, undisturbed().min().unwrap_or(0)));
        records
    }

    /// Of the empty operation: its percentiles, had it made so many calls in the same time, with the same interruptions.
    fn noise(&self, calls: u64) -> Vec<Record> {
        let all = self.all();
        let part = (calls as f64 / all.len() as f64).min(1.0);
        let value = |quantile| all.value_at_quantile(1.0 - (1.0 - quantile) * part);
        PERCENTILES.map(|(name, quantile)| self.record(NOISE, name, value(quantile), calls)).into()
    }
}

impl Rows {
    fn records(&self) -> Records {
        let ours = |row: &Row| self.0.iter().find(|other| other.workload == row.workload && other.subject == CHECK);
        let records = |row: &Row| {
            let noise = (row.subject == EMPTY).then(|| ours(row)).flatten().map(|ours| row.noise(ours.all().len()));
            [row.records(), noise.unwrap_or_default()].concat()
        };
        Records(self.0.iter().flat_map(records).collect())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(form) = Form::from_args() else { return Ok(()) };
    let passes = form.of(2, 1, 3);
    let progress = Progress::new("tails");
    let mut rows = Rows::default();
    for pass in 1..=passes {
        let step = |what: &str| progress.step(&format!("[{pass}/{passes}] {what}"));
        while_growing(form, &mut rows, step);
        while_sweeping(form, &mut rows, step);
    }
    drop(progress);
    let records = rows.records();
    records.save(form, "tails")?;
    println!("Nanoseconds of a call, in {passes} passes with {} clients.\n", count(form.clients(CLIENTS)));
    println!("{}", tables::tails(&records));
    Ok(())
}
