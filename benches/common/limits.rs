//! The limits that all subjects are given.

use std::time::Duration;

/// One token each `period`, and `burst` of them at once.
///
/// A limiter may forget a client that has its whole limit again. So where a workload is about clients that are there, what
/// they have used must not refill before the measurement ends.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub period: Duration,
    pub burst: u32,
}

impl Limits {
    /// A client is live for half an hour after its only call, and may make a million.
    pub const LIVE: Self = Self { period: Duration::from_mins(30), burst: 1_000_000 };

    /// A client is live for half a minute after its only call, and may make 50 million: for few clients.
    pub const BUSY: Self = Self { period: Duration::from_secs(36), burst: 50_000_000 };

    /// Tokens enough for one client that takes all the load.
    pub const ALONE: Self = Self { period: Duration::from_millis(1), burst: 4_000_000_000 };

    /// A client that has made its only call is refused for a day.
    pub const REFUSED: Self = Self { period: Duration::from_hours(24), burst: 1 };

    /// A client has its whole limit again by the time of its next check: a billion a second.
    pub const IDLE: Self = Self { period: Duration::from_nanos(1), burst: 1_000_000 };

    /// One call, and so long until the next.
    pub const fn every(period: Duration) -> Self {
        Self { period, burst: 1 }
    }
}
