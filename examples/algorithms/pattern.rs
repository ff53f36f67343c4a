//! Patterns of traffic in which the algorithms differ, made to the measure of a quota.

use crate::time::DAY;
use crate::traffic::{self, Traffic};
use clap::ValueEnum;
use std::error::Error;
use std::fmt;
use tollgate::Quota;

/// In all of them n is the quota's count; in bursts after a silence, its burst if that is larger.
#[derive(Clone, Copy, ValueEnum)]
pub enum Pattern {
    /// n a period, evenly: a client that keeps to its quota
    Steady,
    /// n at once just before a window ends, n at once just after
    Boundary,
    /// 3n a period, evenly: a client that does not listen
    Hungry,
    /// one request, a long silence, then three bursts half a period apart, the first of 2n
    Idle,
}

impl Pattern {
    /// # Errors
    ///
    /// [`PatternError`], if it would take too many requests or too long.
    pub fn traffic(self, quota: Quota) -> Result<Traffic, PatternError> {
        let (title, periods) = match self {
            Self::Steady => ("Steady", 4),
            Self::Boundary => ("Burst at the boundary", 2),
            Self::Hungry => ("Hungry client", 4),
            Self::Idle => ("Idle, then burst", 4),
        };
        let end = quota.period().as_nanos().saturating_mul(periods);
        if end > u128::from(traffic::LONGEST) {
            return Err(PatternError::TooLong { title, quota });
        }
        // All of them are before the end, so they fit.
        let arrivals: Vec<u64> = self.arrivals(quota).take(traffic::MOST + 1).map(|instant| instant as u64).collect();
        if arrivals.len() > traffic::MOST {
            return Err(PatternError::TooMany { title, quota });
        }
        Ok(Traffic { title: title.to_owned(), arrivals, shown: (0, end as u64 - 1), unit: DAY })
    }

    fn arrivals(self, quota: Quota) -> Box<dyn Iterator<Item = u128>> {
        let (period, count) = (quota.period().as_nanos(), u128::from(quota.count()));
        let most_at_once = count.max(u128::from(quota.capacity()));
        let evenly = |per_period: u128| (0..4 * per_period).map(move |i| period * i / per_period);
        let at_once = |percent: u128, requests: u128| (0..requests).map(move |_| period * percent / 100);
        match self {
            Self::Steady => Box::new(evenly(count)),
            Self::Hungry => Box::new(evenly(3 * count)),
            Self::Boundary => Box::new(at_once(99, count).chain(at_once(101, count))),
            Self::Idle => {
                let first_burst = at_once(0, 1).chain(at_once(250, 2 * most_at_once));
                Box::new(first_burst.chain(at_once(300, most_at_once)).chain(at_once(350, most_at_once)))
            }
        }
    }
}

/// Why a pattern cannot be made for a quota.
#[derive(Debug)]
pub enum PatternError {
    TooMany { title: &'static str, quota: Quota },
    TooLong { title: &'static str, quota: Quota },
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { title, quota } => {
                write!(f, "\"{title}\" at {quota} takes more than {} requests: ", traffic::MOST)?;
                write!(f, "take a smaller count, for the shape is the same")
            }
            Self::TooLong { title, quota } => {
                write!(f, "\"{title}\" at {quota} takes more than the 30 years for which a limiter keeps time: ")?;
                write!(f, "take a shorter period, for the shape is the same")
            }
        }
    }
}

impl Error for PatternError {}
