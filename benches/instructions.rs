//! How many instructions a check takes: `cargo bench --bench instructions`.
//!
//! The figure to watch from commit to commit, since it does not depend on what else the machine does. Each case runs in a
//! process of its own under valgrind, twice, with two numbers of checks: the difference is free of all that is done once.
//! Keys are hashed with a fixed seed and the clock is moved by hand, so that every run counts the same.
//!
//! The counts stand beside those in `benches/instructions.txt`, and a case that takes more than that is an error. After a
//! change that is worth it, `-- --save` writes them there. They belong to a compiler and a kind of processor, which the
//! file names: with another, compare two runs of your own.

mod common;

use ahash::RandomState;
use common::form::is_bench;
use common::output::{Progress, Table};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::process::{Command, ExitCode};
use std::{env, fs};
use tollgate::{Algorithm, Gate, Limiter, LimiterBuilder, ManualClock, Quota};

/// Named before a case and its number of checks when this program is started for that alone.
const CASE: &str = "--case";

/// What the counts are compared with.
const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");

/// The numbers of checks of the two runs.
const CHECKS: [u64; 2] = [20_000, 220_000];

/// Clients in cases that know them before: few, so that all are known after the shorter run.
const KNOWN: u64 = 1_000;

/// Makes that many checks.
type Run = fn(u64);

const CASES: [(&str, Run); 17] = [
    ("Limiter::check, allowed", |checks| known(&limiter(Limiter::token_bucket(PLENTY)), checks)),
    ("Limiter::check, refused", |checks| known(&limiter(Limiter::token_bucket(HARDLY_ANY)), checks)),
    ("Limiter::check, new key", |checks| new(&limiter(Limiter::token_bucket(PLENTY)), checks)),
    ("Session::check, allowed", |checks| {
        let limiter = limiter(Limiter::token_bucket(PLENTY));
        let mut session = limiter.session();
        (0..checks).for_each(|key| _ = black_box(session.check(&(key % KNOWN)).is_ok()));
    }),
    ("Session::check, refused", |checks| {
        let limiter = limiter(Limiter::token_bucket(HARDLY_ANY));
        let mut session = limiter.session();
        (0..checks).for_each(|key| _ = black_box(session.check(&(key % KNOWN)).is_ok()));
    }),
    ("check_many(64), a key, allowed", |checks| {
        let limiter = limiter(Limiter::token_bucket(PLENTY));
        let keys: Vec<u64> = (0..KNOWN).collect();
        let batches = keys.windows(64).cycle();
        batches.take(checks as usize / 64).for_each(|keys| _ = black_box(limiter.check_many(keys)));
    }),
    ("Gate::check, allowed", |checks| {
        let gate = Gate::token_bucket(PLENTY).clock(ManualClock::new()).build().expect("a quota that fits");
        (0..checks).for_each(|_| _ = black_box(gate.check().is_ok()));
    }),
    ("Gate::check, refused", |checks| {
        let gate = Gate::token_bucket(HARDLY_ANY).clock(ManualClock::new()).build().expect("a quota that fits");
        (0..checks).for_each(|_| _ = black_box(gate.check().is_ok()));
    }),
    ("fixed window, allowed", |checks| known(&limiter(Limiter::fixed_window(PER_DAY)), checks)),
    ("fixed window, refused", |checks| known(&limiter(Limiter::fixed_window(HARDLY_ANY)), checks)),
    ("sliding counter, allowed", |checks| known(&limiter(Limiter::sliding_counter(PER_DAY)), checks)),
    ("sliding counter, refused", |checks| known(&limiter(Limiter::sliding_counter(HARDLY_ANY)), checks)),
    // 220 calls of each client, and so up to 220 events in its log.
    ("sliding log, allowed", |checks| known(&limiter(Limiter::sliding_log(Quota::per_day(10_000))), checks)),
    ("sliding log, refused", |checks| known(&limiter(Limiter::sliding_log(HARDLY_ANY)), checks)),
    ("governor, allowed", |checks| governor(PLENTY, KNOWN, checks)),
    ("governor, refused", |checks| governor(HARDLY_ANY, KNOWN, checks)),
    ("governor, new key", |checks| governor(PLENTY, u64::MAX, checks)),
];

const PLENTY: Quota = Quota::per_second(1_000).burst(1_000_000);
const PER_DAY: Quota = Quota::per_day(1_000_000);
const HARDLY_ANY: Quota = Quota::per_day(1);

fn hasher() -> RandomState {
    RandomState::with_seeds(1, 2, 3, 4)
}

fn limiter<A: Algorithm>(builder: LimiterBuilder<A>) -> Limiter<A, ManualClock> {
    builder.clock(ManualClock::new()).hasher(hasher()).build().expect("a quota that fits")
}

fn known<A: Algorithm>(limiter: &Limiter<A, ManualClock>, checks: u64) {
    (0..checks).for_each(|key| _ = black_box(limiter.check(&(key % KNOWN)).is_ok()));
}

fn new<A: Algorithm>(limiter: &Limiter<A, ManualClock>, checks: u64) {
    (0..checks).for_each(|key| _ = black_box(limiter.check(&key).is_ok()));
}

/// governor's keyed limiter with its default map, and with a clock and a hasher that always do the same.
fn governor(quota: Quota, keys: u64, checks: u64) {
    use governor::RateLimiter;
    use governor::clock::FakeRelativeClock;
    use governor::middleware::NoOpMiddleware;
    use governor::state::keyed::DashMapStateStore;
    let each = quota.period() / u32::try_from(quota.count()).expect("a small count");
    let burst = NonZeroU32::new(quota.capacity() as u32).expect("a burst of at least one");
    let quota = governor::Quota::with_period(each).expect("a period of at least a nanosecond").allow_burst(burst);
    let state = DashMapStateStore::<u64, RandomState>::with_hasher(hasher());
    let limiter: RateLimiter<_, _, _, NoOpMiddleware<_>> = RateLimiter::new(quota, state, FakeRelativeClock::default());
    (0..checks).for_each(|key| _ = black_box(limiter.check_key(&(key % keys)).is_ok()));
}

fn main() -> ExitCode {
    let args: Vec<_> = env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == CASE) {
        let number =
            |after: usize| args.get(at + after).and_then(|number| number.parse::<u64>().ok()).expect("a number");
        CASES[number(1) as usize].1(number(2));
        return ExitCode::SUCCESS;
    }
    if !is_bench() {
        return ExitCode::SUCCESS;
    }
    match run(args.iter().any(|arg| arg == "--save")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts all cases and prints them. Whether none takes more than it did.
fn run(save: bool) -> Result<bool, String> {
    let progress = Progress::new("instructions");
    let mut counts = Vec::new();
    for (number, (name, _)) in CASES.iter().enumerate() {
        progress.step(&format!("[{}/{}] {name}", number + 1, CASES.len()));
        let [few, many] = CHECKS.map(|checks| instructions(number, checks));
        counts.push((*name, (many? - few?) as f64 / (CHECKS[1] - CHECKS[0]) as f64));
    }
    drop(progress);

    let before = baseline();
    let mut table = Table::new(["instructions a check", "now", "before", ""]);
    let mut more = false;
    for (name, count) in &counts {
        let count = format!("{count:.1}");
        let (old, change) = match before.get(*name) {
            None => (String::new(), "new".to_owned()),
            Some(old) if *old == count => (old.clone(), String::new()),
            Some(old) => {
                let change = number(&count) - number(old);
                more |= change > 0.0 && !name.starts_with("governor");
                (old.clone(), format!("{change:+.1}"))
            }
        };
        table.row(vec![(*name).to_owned(), count, old, change]);
    }
    println!("Instructions a check, counted by valgrind, for {}.\n", platform());
    println!("{table}");
    if save {
        let lines: String = counts.iter().map(|(name, count)| format!("{count:.1}\t{name}\n")).collect();
        let text = format!("# Written by `cargo bench --bench instructions -- --save` for {}.\n{lines}", platform());
        fs::write(BASELINE, text).map_err(|error| format!("cannot write {BASELINE}: {error}"))?;
        return Ok(true);
    }
    if more {
        println!("More than before: see why, or accept it with `-- --save`.");
    }
    Ok(!more)
}

/// All instructions of a process that makes that many checks.
fn instructions(case: usize, checks: u64) -> Result<u64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(program)
        .args([CASE, &case.to_string(), &checks.to_string()])
        .output()
        .map_err(|error| format!("cannot start valgrind, which this needs (`apt-get install valgrind`): {error}"))?;
    let printed = String::from_utf8_lossy(&output.stderr);
    let refs = printed.lines().find_map(|line| line.split_once("I refs:").or(line.split_once("I   refs:")));
    let count = refs.and_then(|(_, count)| count.trim().replace(',', "").parse().ok());
    count.filter(|_| output.status.success()).ok_or_else(|| format!("valgrind failed:\n{printed}"))
}

/// The counts of the baseline by their cases, as they are written there.
fn baseline() -> BTreeMap<String, String> {
    let text = fs::read_to_string(BASELINE).unwrap_or_default();
    let cases = text.lines().filter_map(|line| line.split_once('\t'));
    cases.map(|(count, name)| (name.to_owned(), count.to_owned())).collect()
}

fn number(count: &str) -> f64 {
    count.parse().unwrap_or(f64::NAN)
}

fn platform() -> String {
    let rustc = Command::new("rustc").arg("--version").output().ok();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!("{} by {}", env::consts::ARCH, rustc.as_deref().unwrap_or("an unknown compiler"))
}
