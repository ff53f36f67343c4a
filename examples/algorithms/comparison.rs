//! The same traffic through the four algorithms.

use crate::traffic::Traffic;
use std::time::Duration;
use tollgate::{Algorithm, BuildError, Gate, ManualClock, Quota};

/// What each algorithm made of the same traffic.
pub struct Comparison {
    pub traffic: Traffic,
    pub quota: Quota,
    /// The quota's, in nanoseconds.
    pub period: u64,
    pub outcomes: [Outcome; 4],
}

/// What an algorithm admitted and what it refused: instants in nanoseconds, in order.
pub struct Outcome {
    pub algorithm: &'static str,
    pub admitted: Vec<u64>,
    pub refused: Vec<u64>,
}

impl Comparison {
    /// Asks each algorithm about each request.
    ///
    /// # Errors
    ///
    /// [`BuildError`], if one of the algorithms cannot hold the quota.
    pub fn run(traffic: Traffic, quota: Quota) -> Result<Self, BuildError> {
        let period = u64::try_from(quota.period().as_nanos()).map_err(|_| BuildError::PeriodTooLong(quota))?;
        // A window has no burst of its own.
        let window = Quota::per(quota.count(), quota.period());
        let arrivals = &*traffic.arrivals;
        let outcomes = [
            ask("token bucket", arrivals, |clock| Gate::token_bucket(quota).clock(clock).build())?,
            ask("fixed window", arrivals, |clock| Gate::fixed_window(window).clock(clock).build())?,
            ask("sliding log", arrivals, |clock| Gate::sliding_log(window).clock(clock).build())?,
            ask("sliding counter", arrivals, |clock| Gate::sliding_counter(window).clock(clock).build())?,
        ];
        Ok(Self { traffic, quota, period, outcomes })
    }
}

fn ask<A: Algorithm>(
    algorithm: &'static str,
    arrivals: &[u64],
    build: impl FnOnce(ManualClock) -> Result<Gate<A, ManualClock>, BuildError>,
) -> Result<Outcome, BuildError> {
    let clock = ManualClock::new();
    // A gate keeps time from when it is built. Its windows start at multiples of the period on the clock all the same.
    clock.set(Duration::from_nanos(arrivals.first().copied().unwrap_or_default()));
    let gate = build(clock.clone())?;
    let (admitted, refused) = arrivals.iter().partition(|&&instant| {
        clock.set(Duration::from_nanos(instant));
        gate.allow()
    });
    Ok(Outcome { algorithm, admitted, refused })
}

impl Outcome {
    /// The most that were admitted in any stretch of one period, wherever it starts.
    pub fn most_in(&self, period: u64) -> usize {
        let mut oldest = 0;
        let ending_at = |(newest, &instant): (usize, &u64)| {
            while instant - self.admitted[oldest] >= period {
                oldest += 1;
            }
            newest - oldest + 1
        };
        self.admitted.iter().enumerate().map(ending_at).max().unwrap_or(0)
    }
}
