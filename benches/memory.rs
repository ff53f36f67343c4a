//! How many bytes a client takes, as the system sees it: `cargo bench --bench memory`.
//!
//! Each case runs in a process of its own, which is this program again, so that nothing of another case is left in its
//! memory. The growth of its resident set is taken once all clients are there and nothing is growing any more.

mod common;

use common::{Limits, Progress, Table};
use std::fs;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// What tollgate promises of a full limiter, in bytes.
const TARGET: f64 = 43.0;

/// Named before the number of a case when this program is started for that case alone.
const CASE: &str = "--case";

#[derive(Clone, Copy)]
enum Holder {
    Tollgate,
    Governor,
}

#[derive(Clone, Copy)]
enum Keys {
    U64,
    /// Half of them IPv4, half IPv6.
    Ip,
    /// 24 bytes each.
    String,
}

#[derive(Clone, Copy)]
struct Case {
    holder: Holder,
    keys: Keys,
    clients: u64,
}

const MILLION: u64 = 1_000_000;

/// Just too many for a table of 2^21 slots, of which three quarters may be taken: the most memory a client can take.
const WORST: u64 = (1 << 21) / 4 * 3 + 1;

const CASES: [Case; 10] = [
    Case { holder: Holder::Tollgate, keys: Keys::U64, clients: MILLION },
    Case { holder: Holder::Tollgate, keys: Keys::U64, clients: WORST },
    Case { holder: Holder::Tollgate, keys: Keys::U64, clients: 10 * MILLION },
    Case { holder: Holder::Tollgate, keys: Keys::Ip, clients: MILLION },
    Case { holder: Holder::Tollgate, keys: Keys::Ip, clients: 10 * MILLION },
    Case { holder: Holder::Tollgate, keys: Keys::String, clients: MILLION },
    Case { holder: Holder::Tollgate, keys: Keys::String, clients: 10 * MILLION },
    Case { holder: Holder::Governor, keys: Keys::U64, clients: MILLION },
    Case { holder: Holder::Governor, keys: Keys::Ip, clients: MILLION },
    Case { holder: Holder::Governor, keys: Keys::String, clients: MILLION },
];

/// What a case came to, in bytes.
struct Measured {
    resident: u64,
    /// What the limiter itself says, if it says.
    reported: Option<u64>,
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == CASE) {
        let number = args.get(at + 1).and_then(|number| number.parse::<usize>().ok());
        let measured = number.and_then(|number| CASES.get(number)).expect("the number of a case").measure();
        println!("{} {}", measured.resident, measured.reported.unwrap_or(0));
        return ExitCode::SUCCESS;
    }
    if !common::is_bench() {
        println!("to be run by `cargo bench --bench memory`");
        return ExitCode::SUCCESS;
    }
    if resident().is_none() {
        eprintln!("this needs /proc/self/smaps_rollup of Linux");
        return ExitCode::FAILURE;
    }
    let (progress, machine) = (Progress::new(), common::machine());
    let mut table = Table::new(&["", "keys", "clients", "bytes a client", "as it says itself", "target", ""]);
    for (number, case) in CASES.iter().enumerate() {
        progress.step(&format!("[{}/{}] {} {}", number + 1, CASES.len(), case.holder(), case.keys()));
        table.row(case.row(&case.measure_apart(number)));
    }
    drop(progress);
    println!("Growth of a process that makes a limiter and lets that many clients come, on {machine}.\n");
    println!("{table}");
    ExitCode::SUCCESS
}

impl Case {
    fn holder(&self) -> &'static str {
        match self.holder {
            Holder::Tollgate => "tollgate",
            Holder::Governor => "governor",
        }
    }

    fn keys(&self) -> &'static str {
        match self.keys {
            Keys::U64 => "u64",
            Keys::Ip => "IpAddr",
            Keys::String => "String of 24",
        }
    }

    fn row(&self, measured: &Measured) -> Vec<String> {
        let each = |bytes: u64| bytes as f64 / self.clients as f64;
        let resident = each(measured.resident);
        let (target, verdict) = match self.holder {
            Holder::Tollgate => (format!("<= {TARGET}"), common::verdict(resident <= TARGET)),
            Holder::Governor => (String::new(), String::new()),
        };
        vec![
            self.holder().to_owned(),
            self.keys().to_owned(),
            common::count(self.clients),
            format!("{resident:.1}"),
            measured.reported.map_or("-".to_owned(), |bytes| format!("{:.1}", each(bytes))),
            target,
            verdict,
        ]
    }

    /// Measures in a new process.
    fn measure_apart(&self, number: usize) -> Measured {
        let program = std::env::current_exe().expect("this program's path");
        let output = Command::new(program).args([CASE, &number.to_string()]).output().expect("this program once more");
        assert!(output.status.success(), "a case failed: {}", String::from_utf8_lossy(&output.stderr));
        let output = String::from_utf8(output.stdout).expect("two numbers");
        let mut numbers = output.split_whitespace().map(|number| number.parse().expect("a number"));
        let mut next = || numbers.next().expect("two numbers");
        Measured { resident: next(), reported: Some(next()).filter(|&bytes| bytes > 0) }
    }

    fn measure(&self) -> Measured {
        // Every number is another client, and they come in no order that a table could like.
        let scatter = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        match self.keys {
            Keys::U64 => self.measure_with(scatter),
            Keys::Ip => self.measure_with(|number| match number % 2 {
                0 => IpAddr::from(Ipv4Addr::from_bits(scatter(number) as u32)),
                _ => IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) | u128::from(scatter(number)))),
            }),
            Keys::String => self.measure_with(|number| format!("client-{number:017}")),
        }
    }

    fn measure_with<K: Hash + Eq + Clone>(&self, key: impl Fn(u64) -> K) -> Measured {
        let before = resident().expect("the resident set");
        let grown = || resident().expect("the resident set").saturating_sub(before);
        match self.holder {
            Holder::Tollgate => {
                let limiter = Limits::LIVE.limiter();
                for number in 0..self.clients {
                    assert!(limiter.allow(&key(number)));
                }
                // The table that was left last is given back in pieces, by the calls that follow.
                settle(|call| limiter.allow(&key(call % self.clients)), || limiter.memory_bytes());
                assert_eq!(limiter.len() as u64, self.clients, "clients were forgotten");
                Measured { resident: grown(), reported: Some(limiter.memory_bytes() as u64) }
            }
            Holder::Governor => {
                let limiter = governor::RateLimiter::keyed(common::governor_quota(Limits::LIVE));
                for number in 0..self.clients {
                    assert!(limiter.check_key(&key(number)).is_ok());
                }
                let resident = grown();
                assert_eq!(limiter.len() as u64, self.clients);
                Measured { resident, reported: None }
            }
        }
    }
}

/// Calls, with numbers that go up, until memory has not changed for so long that no table can be on the move.
fn settle(call: impl Fn(u64) -> bool, bytes: impl Fn() -> usize) {
    const QUIET: Duration = Duration::from_secs(1);
    let (mut last, mut since) = (bytes(), Instant::now());
    for number in 0.. {
        assert!(call(number));
        if bytes() != last {
            (last, since) = (bytes(), Instant::now());
        }
        if since.elapsed() > QUIET {
            return;
        }
    }
}

/// The resident set of this process in bytes. The sum over its mappings is exact, where `statm` lags by what each
/// processor has not yet added.
fn resident() -> Option<u64> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let kib = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?.trim().strip_suffix(" kB")?;
    Some(kib.parse::<u64>().ok()? * 1024)
}
