//! One pattern of traffic through all four algorithms, to see what each admits: as text, and as a picture.
//!
//! ```text
//! cargo run --release --example algorithms
//! cargo run --release --example algorithms -- --pattern hungry --quota 10/min --svg hungry.svg
//! cargo run --release --example algorithms -- --file arrivals.txt
//! ```
//!
//! All there is to know about tollgate is in `comparison`, where the four are built and asked.

mod chart;
mod columns;
mod comparison;
mod file;
mod pattern;
mod svg;
mod time;
mod traffic;

use clap::Parser;
use comparison::Comparison;
use pattern::Pattern;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tollgate::Quota;

/// Shows what a token bucket, a fixed window, a sliding log and a sliding counter admit of the same requests.
#[derive(Parser)]
#[command(after_help = "\
A file has one request a line: its time in seconds from 0, as in 12 or 12.5, with up to nine decimals; Unix time is fine.
The order does not matter. Empty lines and lines that start with # are left out.

Windows start at multiples of the period.")]
struct Args {
    /// The traffic; n is the quota's count
    #[arg(long, value_enum, default_value_t = Pattern::Boundary, conflicts_with = "file")]
    pattern: Pattern,

    /// Take the traffic from a file instead
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// What may pass: 10/s, "100 per 5 min"; a burst of its own, as in "2/s;burst=10", is the token bucket's only
    #[arg(long, value_name = "QUOTA", default_value = "5/10s")]
    quota: Quota,

    /// Draw a picture too, into this file, which is overwritten
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(Args { pattern, file, quota, svg }: Args) -> Result<(), Box<dyn Error>> {
    let traffic = match &file {
        Some(path) => file::read(path)?,
        None => pattern.traffic(quota)?,
    };
    let comparison = Comparison::run(traffic, quota)?;
    if let Some(path) = svg {
        fs::write(&path, svg::draw(&comparison))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    match io::stdout().write_all(chart::draw(&comparison).as_bytes()) {
        // Whoever reads has seen enough, as `head` has.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
