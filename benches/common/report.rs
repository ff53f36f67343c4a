//! Tables, and what a figure should be read with.

use std::fmt;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Rows of text in columns: the first to the left, the others to the right.
#[derive(Debug)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    pub fn new(header: &[&str]) -> Self {
        Self(vec![header.iter().map(ToString::to_string).collect()])
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.0.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in &self.0 {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                match column {
                    0 => line += &format!("{cell:<width$}", width = widths[0]),
                    _ => line += &format!("  {cell:>width$}", width = widths[column]),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// What is going on, on stderr: on a terminal in one line that is overwritten.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
}

impl Progress {
    pub fn new() -> Self {
        Self { terminal: stderr().is_terminal() }
    }

    pub fn step(&self, what: &str) {
        if self.terminal {
            eprint!("\r{what}\x1b[K");
        } else {
            eprintln!("{what}");
        }
    }

    /// What is worth showing only where it does not pile up.
    pub fn detail(&self, what: &str) {
        if self.terminal {
            self.step(what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

/// The machine and what else it is doing, in a line.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    format!("{cores} cores of {}, load {load}", model.unwrap_or("an unknown model"))
}

pub fn verdict(met: bool) -> String {
    if met { "met" } else { "missed" }.to_owned()
}

/// Whether `cargo bench` started this, and not `cargo test --all-targets`, which only wants to see it start.
pub fn is_bench() -> bool {
    std::env::args().any(|arg| arg == "--bench")
}

/// A number with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A duration in microseconds.
pub fn micros(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e6)
}
