//! Tables, progress, and what figures should be read with.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::{IsTerminal, stderr};
use std::process::Command;

/// Rows of text in columns: the first to the left, the others to the right.
#[derive(Clone, Debug)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    pub fn new<T: ToString>(header: impl IntoIterator<Item = T>) -> Self {
        Self(vec![header.into_iter().map(|cell| cell.to_string()).collect()])
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    pub fn markdown(&self) -> String {
        let line = |row: &[String]| format!("| {} |\n", escaped(&row.join(" | ")));
        let mut out = line(&self.0[0]);
        let rule: Vec<_> = (0..self.0[0].len()).map(|column| if column == 0 { "---" } else { "---:" }).collect();
        let _ = writeln!(out, "|{}|", rule.join("|"));
        self.0[1..].iter().for_each(|row| out += &line(row));
        out
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
    question: &'static str,
}

impl Progress {
    pub fn new(question: &'static str) -> Self {
        Self { terminal: stderr().is_terminal(), question }
    }

    pub fn step(&self, what: &str) {
        if self.terminal {
            eprint!("\r{}: {what}\x1b[K", self.question);
        } else {
            eprintln!("{}: {what}", self.question);
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

/// The machine, in a sentence.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cpus = read("/proc/cpuinfo");
    let unknown = || "an unknown kind".to_owned();
    let model = field(&cpus, "model name").unwrap_or_else(unknown);
    let virtual_machine = if cpus.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor")) {
        " of a virtual machine"
    } else {
        ""
    };
    let memory =
        field(&read("/proc/meminfo"), "MemTotal").and_then(|size| size.strip_suffix(" kB")?.parse::<u64>().ok());
    let memory = memory.map_or(String::new(), |kib| format!(", {} GiB of memory", (kib + (1 << 19)) >> 20));
    let system = read("/proc/sys/kernel/osrelease");
    let rustc = Command::new("rustc").arg("--version").output().ok().and_then(|out| String::from_utf8(out.stdout).ok());
    let rustc = rustc.and_then(|text| text.split_whitespace().nth(1).map(|version| format!(", Rust {version}")));
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!(
        "{} processors{virtual_machine}, of the model {model} ({arch}){memory}, {os} {}{}",
        super::race::cores(),
        system.trim(),
        rustc.unwrap_or_default(),
    )
}

/// Everything that says how far to trust figures of more threads than processors.
pub fn oversubscription() -> String {
    format!(
        "This machine has {} processors. More threads than that measure oversubscription: threads that wait for a \
         processor, and locks whose holder has none. There every burst counts, elsewhere those in which no thread lost its \
         processor to another program.",
        super::race::cores()
    )
}

/// Text that Markdown would take for a tag or for struck-out text.
pub fn escaped(text: &str) -> String {
    text.replace('<', "\\<").replace('~', "\\~")
}

/// How many threads, in words.
pub fn threads(number: usize) -> String {
    format!("{number} thread{}", if number == 1 { "" } else { "s" })
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

/// A number to three digits or so.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if size < 10.0 => format!("{number:.2}"),
        size if size < 100.0 => format!("{number:.1}"),
        _ => count(number.round() as u64),
    }
}

/// A time in nanoseconds with the unit that suits it.
pub fn time(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{} ns", short(n)),
        n if n < 1e6 => format!("{} µs", short(n / 1e3)),
        n => format!("{} ms", short(n / 1e6)),
    }
}
