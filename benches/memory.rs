//! How many bytes a client takes, as the system sees it: `cargo bench --bench memory`.
//!
//! Each case runs in a process of its own, which is this program again, so that nothing of another case is left in its
//! memory. The growth of its resident set is taken once all clients are there and nothing is growing any more, and beside
//! it that of the largest one that it had on the way. A flood of clients that come once is watched on its way too.

mod common;

use common::form::Form;
use common::keys::Key;
use common::limits::Limits;
use common::output::{Progress, count};
use common::records::{Record, Records};
use common::subject::{self, CHECK, Contender, DASHMAP, GOVERNOR, MUTEX, PAPAYA, SHARDED, Subject};
use common::tables::{self, FLOOD, FLOOD_MAX_KEYS, FLOOD_SWEPT, FLOOD_UNSWEPT, PEAK, REPORTED, RESIDENT};
use std::error::Error;
use std::fs;
use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

const MILLION: u64 = 1_000_000;

/// Just too many for a table of 2^21 slots, of which three quarters may be taken: the most memory a client of tollgate's
/// can take.
const WORST: u64 = (1 << 21) / 4 * 3 + 1;

/// Names a case when this program is started for that case alone.
const CASE: &str = "TOLLGATE_BENCH_CASE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    U64,
    Ip,
    String,
}

impl Keys {
    const ALL: [Self; 3] = [Self::U64, Self::Ip, Self::String];

    fn name(self) -> &'static str {
        match self {
            Self::U64 => tables::U64_KEYS,
            Self::Ip => tables::IP_KEYS,
            Self::String => tables::STRING_KEYS,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Case {
    Clients { keys: Keys, subject: &'static str, clients: u64 },
    Flood(&'static str),
}

/// In an order that depends on nothing but the form, so that a case can be named by its number.
fn cases(form: Form) -> Vec<Case> {
    let subjects: &[_] = match form {
        Form::Smoke | Form::Short => &[CHECK, GOVERNOR],
        Form::Full => {
            &[CHECK, GOVERNOR, DASHMAP, PAPAYA, subject::SCC, subject::FLURRY, MUTEX, SHARDED, subject::RWLOCK]
        }
    };
    let numbers: &[_] = match form {
        Form::Smoke | Form::Short => &[8 * MILLION],
        Form::Full => &[100_000, MILLION, 8 * MILLION],
    };
    let mut cases = Vec::new();
    for keys in Keys::ALL {
        for &subject in subjects {
            cases.extend(numbers.iter().map(|&clients| Case::Clients { keys, subject, clients }));
        }
        if form == Form::Full {
            cases.extend([WORST, 10 * MILLION].map(|clients| Case::Clients { keys, subject: CHECK, clients }));
        }
    }
    if form != Form::Short {
        cases.extend([FLOOD_MAX_KEYS, FLOOD_SWEPT, FLOOD_UNSWEPT].map(Case::Flood));
    }
    cases
}

impl Case {
    fn name(self) -> String {
        match self {
            Self::Clients { keys, subject, clients } => format!("{} {}, {subject}", count(clients), keys.name()),
            Self::Flood(subject) => format!("{FLOOD}, {subject}"),
        }
    }

    /// Measures in a new process.
    fn measure_apart(self, number: usize, form: Form) -> Vec<Record> {
        let program = std::env::current_exe().expect("this program's path");
        let case =
            [number.to_string(), clap::ValueEnum::to_possible_value(&form).expect("a form").get_name().to_owned()];
        let output = Command::new(program).env(CASE, case.join(" ")).output().expect("this program once more");
        assert!(output.status.success(), "{} failed: {}", self.name(), String::from_utf8_lossy(&output.stderr));
        let output = String::from_utf8(output.stdout).expect("figures");
        output.lines().map(|line| self.record(line)).collect()
    }

    /// What the other process wrote in a line: a measure, and its value.
    fn record(self, line: &str) -> Record {
        let (measure, value) = line.split_once('\t').expect("a measure and its value");
        let value: f64 = value.parse().expect("a value");
        match self {
            Self::Clients { keys, subject, clients } => {
                let workload = tables::memory_workload(clients, keys.name());
                Record::once(&workload, 1, subject, measure, value)
            }
            Self::Flood(subject) => Record::once(FLOOD, 1, subject, measure, value),
        }
    }

    fn measure(self, form: Form) {
        match self {
            Self::Clients { keys: Keys::U64, subject, clients } => fill::<u64>(subject, form.clients(clients)),
            Self::Clients { keys: Keys::Ip, subject, clients } => fill::<IpAddr>(subject, form.clients(clients)),
            Self::Clients { keys: Keys::String, subject, clients } => fill::<String>(subject, form.clients(clients)),
            Self::Flood(subject) => flood(subject, form),
        }
    }
}

/// A value for the process that started this one.
fn tell(measure: &str, value: f64) {
    println!("{measure}\t{value}");
}

/// Lets so many clients come, who all stay live.
fn fill<K: Key>(subject: &str, clients: u64) {
    let Contender { make, .. } = subject::keyed::<K>().into_iter().find(|one| one.name == subject).expect("a subject");
    let (before, peak_before) = (resident(), peak());
    let subject = make(Limits::LIVE);
    for number in 0..clients {
        assert!(subject.check(&K::of(number)));
    }
    settle(&*subject, clients);
    assert_eq!(subject.len() as u64, clients, "clients were forgotten");
    let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / clients as f64;
    tell(RESIDENT, each(resident(), before));
    tell(PEAK, each(peak(), peak_before));
    if let Some(bytes) = subject.bytes() {
        tell(REPORTED, bytes as f64 / clients as f64);
    }
}

/// Calls until memory has not changed for so long that no table can be on the move: the table that was left last is given
/// back in pieces, by the calls that follow.
fn settle<K: Key>(subject: &dyn Subject<K>, clients: u64) {
    const QUIET: Duration = Duration::from_secs(1);
    let (mut last, mut since) = (subject.bytes(), Instant::now());
    for number in 0.. {
        if last.is_none() || since.elapsed() > QUIET {
            return;
        }
        assert!(subject.check(&K::of(number % clients)));
        if subject.bytes() != last {
            (last, since) = (subject.bytes(), Instant::now());
        }
    }
}

/// Clients that come once each, ten million of them. Each is idle a second after its call.
fn flood(name: &str, form: Form) {
    let limits = Limits::every(Duration::from_secs(1));
    let (step, steps) = (form.clients(MILLION), 10);
    let before = resident();
    let subject: Box<dyn Subject<u64>> = match name {
        FLOOD_MAX_KEYS => {
            let limiter = common::peers::tollgate::builder(limits).max_keys(step as usize).build();
            Box::new(common::peers::tollgate::Single(limiter.expect("limits that tollgate can hold")))
        }
        _ => (subject::keyed().into_iter().find(|one| one.name == GOVERNOR).expect("a subject").make)(limits),
    };
    for million in 1..=steps {
        for number in 0..step {
            // Beyond the bound new clients are refused.
            subject.check(&(million * step + number));
        }
        if name == FLOOD_SWEPT {
            subject.sweep();
        }
        tell(&tables::after_millions(million), resident().saturating_sub(before) as f64 / f64::from(1 << 20));
    }
}

/// A figure of this process in bytes, where Linux keeps them.
fn from_proc(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    1024 * kib.unwrap_or_else(|| panic!("this needs {name} in {file} of Linux"))
}

/// The resident set. The sum over the mappings is exact, where `status` lags by what each processor has not yet added.
fn resident() -> u64 {
    from_proc("/proc/self/smaps_rollup", "Rss:")
}

/// The largest resident set so far. It lags too, so what is resident now may be more.
fn peak() -> u64 {
    from_proc("/proc/self/status", "VmHWM:").max(resident())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(case) = std::env::var(CASE) {
        let (number, form) = case.split_once(' ').ok_or("a number and a form")?;
        let form = clap::ValueEnum::from_str(form, false)?;
        cases(form)[number.parse::<usize>()?].measure(form);
        return Ok(());
    }
    let Some(form) = Form::from_args() else { return Ok(()) };
    let progress = Progress::new("memory");
    let cases = cases(form);
    let mut records = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        progress.step(&format!("[{}/{}] {}", number + 1, cases.len(), case.name()));
        records.extend(case.measure_apart(number, form));
    }
    drop(progress);
    let records = Records(records);
    records.save(form, "memory")?;
    println!("{}", tables::memory(&records));
    Ok(())
}
