//! What can go wrong: [`SetupError`] before the first decision, [`StoreError`] where the store gives no answer, and
//! [`CheckAllError`] for decisions over several limits.

use crate::{BuildError, Quota, QuotaError, SomeDenied};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a store or a shared limiter cannot be set up. Each names the bound that was crossed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetupError {
    /// The address cannot be understood.
    Address(String),
    /// The budget of a decision, or the breaker's pause, is zero.
    Zero(&'static str),
    /// The time that keys are kept beyond need is over 2^51 microseconds, about 71 years.
    GraceTooLong(Duration),
    /// The prefix or the name of a limit is empty, or has a brace, white space or a control character.
    Name(String),
    /// The quota's count, period or burst is zero.
    Quota(QuotaError),
    /// The rate has over 2^53 parts of a token a microsecond.
    RateTooHigh(Quota),
    /// The burst is above the most that can be counted exactly at this rate, or takes over 142 years to refill.
    BurstTooLarge {
        /// The quota asked for.
        quota: Quota,
        /// The largest burst at this rate.
        most: u64,
    },
    /// A window of a quota whose burst is not its count: a window has no burst of its own.
    BurstOfWindow(Quota),
    /// The period of a window is no whole number of microseconds, in which the store counts time.
    NotMicroseconds(Quota),
    /// The period of a window is over 2^51 microseconds, about 71 years.
    WindowTooLong(Quota),
    /// The count of a window is above the most that can be counted exactly.
    LimitTooLarge {
        /// The quota asked for.
        quota: Quota,
        /// The largest count in such a window.
        most: u64,
    },
    /// The share of the quota that is to hold while the store is away is less than one call.
    ShareTooSmall {
        /// The quota asked for.
        quota: Quota,
        /// The part of it that was to hold here: one in so many.
        one_in: u32,
    },
    /// The limiter that is to hold while the store is away cannot be built.
    Local(BuildError),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => write!(f, "no address of a store: {error}: write redis://host:port/"),
            Self::Zero(what) => {
                write!(f, "{what} is zero, so the store would never be asked: allow a few milliseconds")
            }
            Self::GraceTooLong(grace) => {
                write!(f, "a grace of {grace:?} is over 71 years: a few times the difference of the clocks is enough")
            }
            Self::Name(name) => write!(
                f,
                "{name:?} cannot be part of a key's name: use visible characters without braces, at least one"
            ),
            Self::Quota(error) => write!(f, "{error}"),
            Self::RateTooHigh(quota) => {
                write!(f, "the rate of {quota} cannot be counted exactly in 2^53 parts: count in larger units")
            }
            Self::BurstTooLarge { quota, most } => write!(
                f,
                "the burst of {quota} is above {most}, the most that can be counted exactly at this rate: lower it, or count \
                 in larger units"
            ),
            Self::BurstOfWindow(quota) => {
                write!(f, "{quota} has a burst, and a window has none: leave it out, or take a token bucket")
            }
            Self::NotMicroseconds(quota) => {
                write!(f, "the period of {quota} is no whole number of microseconds, in which the store counts time")
            }
            Self::WindowTooLong(quota) => write!(f, "the period of {quota} is over 71 years: take a shorter window"),
            Self::LimitTooLarge { quota, most } => write!(
                f,
                "the limit of {quota} is above {most}, the most that can be counted exactly in such a window: lower it, \
                 take a shorter window, or a token bucket"
            ),
            Self::ShareTooSmall { quota, one_in } => {
                write!(f, "one in {one_in} of {quota} is less than one call: give each instance a larger share")
            }
            Self::Local(error) => write!(f, "while the store is away: {error}"),
        }
    }
}

impl Error for SetupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Quota(error) => Some(error),
            Self::Local(error) => Some(error),
            _ => None,
        }
    }
}

impl From<QuotaError> for SetupError {
    fn from(error: QuotaError) -> Self {
        Self::Quota(error)
    }
}

/// What is the matter with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trouble {
    /// The budget had passed before the answer came. The call may have been counted, or be counted yet, once.
    TimedOut,
    /// Not asked: the breaker is open after failures one after another.
    Paused,
    /// There is no connection, or it broke. A call that was under way may have been counted, once.
    Disconnected,
    /// The store is loading its data (`LOADING`), or its primary is down (`MASTERDOWN`).
    Loading,
    /// The store is a replica and cannot be written to (`READONLY`).
    ReadOnly,
    /// The store has no memory left for a write (`OOM`).
    OutOfMemory,
    /// The key is on another node of a cluster (`MOVED`, `ASK`, `TRYAGAIN`, `CROSSSLOT`), or that is down
    /// (`CLUSTERDOWN`).
    Moved,
    /// The user may not run a command (`NOPERM`), or the store does not allow `TIME` in scripts.
    Forbidden,
    /// The store answered something else.
    Other,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::TimedOut,
        Self::Paused,
        Self::Disconnected,
        Self::Loading,
        Self::ReadOnly,
        Self::OutOfMemory,
        Self::Moved,
        Self::Forbidden,
        Self::Other,
    ];

    /// A name for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Paused => "paused",
            Self::Disconnected => "disconnected",
            Self::Loading => "loading",
            Self::ReadOnly => "read_only",
            Self::OutOfMemory => "out_of_memory",
            Self::Moved => "moved",
            Self::Forbidden => "forbidden",
            Self::Other => "other",
        }
    }
}

/// Why the store gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    pub(super) trouble: Trouble,
    pub(super) detail: String,
    /// When the store will be asked again at the earliest.
    pub(super) pause: Duration,
}

impl StoreError {
    pub(super) fn new(trouble: Trouble, detail: impl Into<String>) -> Self {
        Self { trouble, detail: detail.into(), pause: Duration::ZERO }
    }

    /// What is the matter.
    pub fn trouble(&self) -> Trouble {
        self.trouble
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = &self.detail;
        match self.trouble {
            Trouble::TimedOut => write!(f, "the store did not answer within the budget of {detail}"),
            Trouble::Paused => write!(f, "the store has failed and is not asked for another {:?}", self.pause),
            Trouble::Disconnected => write!(f, "no connection to the store: {detail}"),
            Trouble::Loading => write!(f, "the store is loading: {detail}"),
            Trouble::ReadOnly => write!(f, "the store is a read-only replica, connect to its primary: {detail}"),
            Trouble::OutOfMemory => write!(f, "the store is out of memory: {detail}"),
            Trouble::Moved => write!(f, "the key is on another node, or not in one slot of a cluster: {detail}"),
            Trouble::Forbidden => {
                write!(f, "the store forbids a command; if it is TIME, pass the time from here: {detail}")
            }
            Trouble::Other => write!(f, "the store answered an error: {detail}"),
        }
    }
}

impl Error for StoreError {}

/// Why several limits did not all let a call pass.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CheckAllError {
    /// At least one of them refused it, and none was charged.
    Denied(SomeDenied),
    /// The keys would not share a slot of the cluster, so they cannot be decided on together: tag the demands alike.
    Slots,
    /// The limits are in different stores.
    Stores,
    /// Two limits have the same name and different quotas, so that they would share one key.
    Names(String),
}

impl fmt::Display for CheckAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denied) => write!(f, "{denied}"),
            Self::Slots => write!(
                f,
                "the keys of one decision have to share a slot of the cluster: give the demands one tag by `tagged`"
            ),
            Self::Stores => write!(f, "the limits of one decision have to be in one store"),
            Self::Names(name) => write!(f, "two limits with different quotas have the name {name:?}: rename one"),
        }
    }
}

impl Error for CheckAllError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Denied(denied) => Some(denied),
            _ => None,
        }
    }
}
