//! Why a limiter cannot be built.

use crate::quota::{Quota, QuotaError};
use std::error::Error;
use std::fmt;

/// Why a limiter or a gate cannot be built. Each names the bound that was crossed; nothing is ever clamped instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The quota's count, period or burst is zero.
    Quota(QuotaError),
    /// The quota's period is longer than `u64::MAX` nanoseconds, about 584 years.
    PeriodTooLong(Quota),
    /// The quota's rate is more than about 4.8 tokens a nanosecond.
    RateTooHigh(Quota),
    /// An empty bucket would take more than about 131 years to fill.
    RefillTooLong(Quota),
    /// The burst is too large to be counted in one word at this rate.
    BurstTooLarge(Quota),
    /// A window of a quota whose burst is not its count: a window has no burst of its own.
    BurstOfWindow(Quota),
    /// The period of a window is over 2^62 nanoseconds, about 146 years.
    WindowTooLong(Quota),
    /// The count of a window is above the most that can be held.
    LimitTooLarge {
        /// The quota asked for.
        quota: Quota,
        /// The most that a window of this period can hold.
        most: u64,
    },
    /// `max_keys(0)`: a limiter that may hold no client.
    ZeroMaxKeys,
    /// `max_keys` is above 2^40.
    MaxKeysTooLarge(usize),
    /// The system gave no memory for the first table.
    OutOfMemory,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quota(error) => write!(f, "{error}"),
            Self::PeriodTooLong(quota) => {
                write!(f, "the period of {quota} is over 584 years: state the same rate with a shorter one")
            }
            Self::RateTooHigh(quota) => {
                write!(
                    f,
                    "the rate of {quota} is above 4.8 tokens a nanosecond: count in larger units, say blocks for bytes"
                )
            }
            Self::RefillTooLong(quota) => {
                write!(f, "an empty bucket of {quota} takes over 131 years to fill: lower the burst or raise the rate")
            }
            Self::BurstTooLarge(quota) => {
                write!(
                    f,
                    "the burst of {quota} does not fit one word beside its rate: lower it, or count in larger units"
                )
            }
            Self::BurstOfWindow(quota) => {
                write!(f, "{quota} has a burst, and a window has none: leave it out, or take a token bucket")
            }
            Self::WindowTooLong(quota) => write!(f, "the period of {quota} is over 146 years: take a shorter window"),
            Self::LimitTooLarge { quota, most } => {
                write!(
                    f,
                    "the limit of {quota} is above {most}, the most that can be counted exactly in such a window: "
                )?;
                write!(f, "lower it, take a longer window, or a token bucket")
            }
            Self::ZeroMaxKeys => write!(f, "max_keys is 0, so no client could ever be held: allow at least 1"),
            Self::MaxKeysTooLarge(keys) => write!(f, "max_keys is {keys}, above the bound of 2^40"),
            Self::OutOfMemory => write!(f, "the system gave no memory for the table of clients"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Quota(error) => Some(error),
            _ => None,
        }
    }
}

impl From<QuotaError> for BuildError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}
