//! Requests, before anybody has decided on them.

use crate::time::YEAR;

/// The most requests of one run. A log of many events is copied for each, so more would take long.
pub const MOST: usize = 100_000;

/// How long a limiter keeps time for, at least, in nanoseconds.
pub const LONGEST: u64 = 30 * YEAR;

/// Requests of one client. Instants are nanoseconds.
pub struct Traffic {
    pub title: String,
    /// When each request comes, in order; at least one.
    pub arrivals: Vec<u64>,
    /// The first and the last instant to show.
    pub shown: (u64, u64),
    /// The longest unit to label instants in.
    pub unit: u64,
}

impl Traffic {
    /// How many requests there are, in words.
    pub fn size(&self) -> String {
        match self.arrivals.len() {
            1 => "1 request".to_owned(),
            several => format!("{several} requests"),
        }
    }
}
