//! Traffic from a file with a timestamp on each line.
//!
//! A timestamp is a decimal number of seconds, read digit by digit: a float could not tell nanoseconds apart in Unix time.

use crate::time::SECOND;
use crate::traffic::{self, Traffic};
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longer lines are taken for a file of another kind.
const LONGEST_LINE: usize = 1000;

/// The latest timestamp in nanoseconds, 292 years, so that the end of no window leaves 64 bits.
const LATEST: u64 = i64::MAX as u64;

/// Reads the traffic of a file, in any order.
///
/// # Errors
///
/// [`FileError`]: it cannot be read, has nothing in it or too much, or a line is none of a timestamp.
pub fn read(path: &Path) -> Result<Traffic, FileError> {
    let fail = |problem| FileError { path: path.to_owned(), problem };
    let mut arrivals = File::open(path)
        .map_err(|error| fail(Problem::Unreadable(error)))
        .and_then(|file| read_lines(BufReader::new(file)).map_err(fail))?;
    arrivals.sort_unstable();
    let (Some(&first), Some(&last)) = (arrivals.first(), arrivals.last()) else {
        return Err(fail(Problem::Empty));
    };
    if last - first > traffic::LONGEST {
        return Err(fail(Problem::TooLong));
    }
    Ok(Traffic { title: title(path), arrivals, shown: (first, last), unit: SECOND })
}

/// The file's name, harmless to a terminal and not too long for a title.
fn title(path: &Path) -> String {
    const LONGEST: usize = 60;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let printable = name.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
    let mut title: String = printable.take(LONGEST).collect();
    if name.chars().nth(LONGEST).is_some() {
        title.push('…');
    }
    title
}

fn read_lines(mut file: impl BufRead) -> Result<Vec<u64>, Problem> {
    let mut arrivals = Vec::new();
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let mut line = file.by_ref().take(LONGEST_LINE as u64 + 1);
        if line.read_until(b'\n', &mut bytes).map_err(Problem::Unreadable)? == 0 {
            break;
        }
        let bad = |why| Problem::Line { number, why };
        if bytes.len() > LONGEST_LINE {
            return Err(bad(LineError::TooLong));
        }
        let text = String::from_utf8_lossy(&bytes);
        // Some editors put a byte order mark before the first line.
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if arrivals.len() == traffic::MOST {
            return Err(bad(LineError::TooMany));
        }
        arrivals.push(parse(text).map_err(bad)?);
    }
    Ok(arrivals)
}

/// A timestamp in nanoseconds.
fn parse(text: &str) -> Result<u64, LineError> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) {
        return Err(LineError::of_no_timestamp(text));
    }
    if decimals.len() > 9 {
        return Err(LineError::TooFine(excerpt(text)));
    }
    let parsed = || {
        let nanos: u64 = format!("{decimals:0<9}").parse().ok()?;
        whole.parse::<u64>().ok()?.checked_mul(SECOND)?.checked_add(nanos).filter(|&nanos| nanos <= LATEST)
    };
    parsed().ok_or_else(|| LineError::TooLate(excerpt(text)))
}

/// The start of a text, quoted and escaped.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(32) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Why a file is no traffic.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Unreadable(io::Error),
    Empty,
    TooLong,
    Line { number: usize, why: LineError },
}

/// What is wrong with a line; with an excerpt of it.
#[derive(Debug)]
enum LineError {
    NoNumber(String),
    NotFinite(String),
    Negative(String),
    NotPlain(String),
    TooFine(String),
    TooLate(String),
    TooLong,
    TooMany,
}

impl LineError {
    /// What to say of a text that is not digits with or without a point between them.
    fn of_no_timestamp(text: &str) -> Self {
        let text_of = excerpt(text);
        match text.parse::<f64>() {
            Err(_) => Self::NoNumber(text_of),
            Ok(number) if !number.is_finite() => Self::NotFinite(text_of),
            Ok(number) if number.is_sign_negative() => Self::Negative(text_of),
            Ok(_) => Self::NotPlain(text_of),
        }
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber(text) => write!(f, "{text} is not a time: write seconds, as in 12 or 12.5"),
            Self::NotFinite(text) => write!(f, "{text} is not finite: write seconds, as in 12 or 12.5"),
            Self::Negative(text) => write!(f, "{text} is before 0: count seconds from an earlier start"),
            Self::NotPlain(text) => write!(f, "{text} has more than digits and a point: write it as in 12 or 0.5"),
            Self::TooFine(text) => write!(f, "{text} is finer than a nanosecond: use at most nine decimals"),
            Self::TooLate(text) => {
                write!(f, "{text} is too late: use at most {} seconds, about 292 years", LATEST / SECOND)
            }
            Self::TooLong => write!(f, "longer than {LONGEST_LINE} bytes: write one time a line, as in 12 or 12.5"),
            Self::TooMany => write!(f, "more than {} requests: take a part of them", traffic::MOST),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::Unreadable(error) => write!(f, "cannot read {path}: {error}"),
            Problem::Empty => write!(f, "{path} has no request: write one time in seconds a line, as in 12 or 12.5"),
            Problem::TooLong => {
                write!(f, "{path} spans more than the 30 years for which a limiter keeps time: take a part of it")
            }
            Problem::Line { number, why } => write!(f, "{path}:{number}: {why}"),
        }
    }
}

impl Error for FileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.problem {
            Problem::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}
