//! A clock that moves only when told to, for tests.

use std::sync::Arc;
use std::time::Duration;

use super::{Clock, saturating_nanos};
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that stands still until it is moved by hand.
///
/// Clones share one time, so a test keeps one and gives the other to the limiter.
///
/// Every access is relaxed: the time is one atomic, and a thread that has been told of a move, by
/// whatever means, cannot read a time from before it.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that reads 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on by `step`, as far as [`u64::MAX`] nanoseconds.
    pub fn advance(&self, step: Duration) {
        let step = saturating_nanos(step);
        // The closure never declines, so there is no error to see.
        let _ = self.nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |nanos| Some(nanos.saturating_add(step)));
    }

    /// Sets the time since the clock's origin, cut off at [`u64::MAX`] nanoseconds.
    ///
    /// It may be earlier than the present reading: this is how to step a clock back.
    pub fn set(&self, time: Duration) {
        self.nanos.store(saturating_nanos(time), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> u64 {
        self.nanos.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_only_by_hand_and_both_ways() {
        let clock = ManualClock::new();
        assert_eq!(clock.now(), 0);
        clock.advance(Duration::from_micros(3));
        clock.advance(Duration::from_nanos(5));
        assert_eq!(clock.now(), 3_005);
        clock.set(Duration::from_nanos(8));
        assert_eq!(clock.now(), 8);
        assert!(!clock.is_monotonic());
    }

    #[test]
    fn clones_share_one_time() {
        let clock = ManualClock::new();
        let other = clock.clone();
        clock.advance(Duration::from_nanos(1));
        assert_eq!(other.now(), 1);
    }

    #[test]
    fn stops_at_the_end_of_time() {
        let clock = ManualClock::new();
        clock.set(Duration::MAX);
        assert_eq!(clock.now(), u64::MAX);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(clock.now(), u64::MAX);
        clock.set(Duration::from_nanos(9));
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), u64::MAX);
    }
}
