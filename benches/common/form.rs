//! How much is measured, and where the figures go.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Shows that everything works, in seconds. Its figures mean nothing.
    Smoke,
    /// What the targets ask for, in less than five minutes.
    Short,
    /// Everything.
    Full,
}

#[derive(Parser)]
#[command(about = "A part of the benchmark suite; benches/run runs all parts.")]
struct Args {
    /// How much to measure
    #[arg(long, value_enum, default_value_t = Form::Full)]
    form: Form,
    /// Of the contention suite: in turns, and not with criterion
    #[arg(long)]
    ratios: bool,
    /// Passed by cargo bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// Whether `cargo bench` started this, and not `cargo test --all-targets`, which only wants to see it start.
pub fn is_bench() -> bool {
    let bench = std::env::args().any(|arg| arg == "--bench");
    if !bench {
        println!("to be run by `cargo bench` or benches/run");
    }
    bench
}

impl Form {
    /// As asked for on the command line; nothing unless this [is a benchmark](is_bench).
    pub fn from_args() -> Option<Self> {
        is_bench().then(|| Args::parse().form)
    }

    /// One of three, by the size of the run.
    pub fn of<T>(self, smoke: T, short: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Short => short,
            Self::Full => full,
        }
    }

    /// So many clients, or far fewer in a smoke run, where names still tell the former number.
    pub fn clients(self, clients: u64) -> u64 {
        self.of((clients / 32).clamp(clients.min(1_000), 250_000), clients, clients)
    }

    /// The directory for its figures, and for the documents of a smoke run.
    pub fn directory(self) -> PathBuf {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let benches = target.parent().expect("a directory in the target directory").join("benches");
        self.of(benches.join("smoke"), benches.join("short"), benches)
    }
}
