//! The circuit breaker: after failures one after another, the store is left alone for a while.
//!
//! Without it each call of an outage would wait for its whole budget. Open, it lets one call through at the end of each
//! pause, to see whether the store is back; that call's success closes it. The right to try is taken by moving the end of
//! the pause on. So nothing has to be returned, and a call that is cancelled while it tries costs another pause at most.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Breaker {
    /// How many failures one after another open it.
    failures: u32,
    pause: u64,
    start: Instant,
    failed: AtomicU32,
    /// The end of the pause, in nanoseconds from `start`; 0 while closed.
    until: AtomicU64,
}

impl Breaker {
    pub(super) fn new(failures: u32, pause: Duration) -> Self {
        Self {
            failures,
            pause: nanos(pause),
            start: Instant::now(),
            failed: AtomicU32::new(0),
            until: AtomicU64::new(0),
        }
    }

    /// Whether the store may be asked; if not, how long it is left alone.
    // No other memory hangs on these two numbers, so they need no order.
    pub(super) fn enter(&self) -> Result<(), Duration> {
        // Closed, which it nearly always is, it needs no clock.
        if self.is_open() { self.enter_at(nanos(self.start.elapsed())) } else { Ok(()) }
    }

    pub(super) fn succeeded(&self) {
        // A write to a shared line only where something changes.
        if self.failed.load(Relaxed) != 0 {
            self.failed.store(0, Relaxed);
        }
        if self.until.load(Relaxed) != 0 {
            self.until.store(0, Relaxed);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.until.load(Relaxed) != 0
    }

    /// Returns whether the breaker opened by this.
    pub(super) fn failed(&self) -> bool {
        self.failed_at(nanos(self.start.elapsed()))
    }

    fn enter_at(&self, now: u64) -> Result<(), Duration> {
        let until = self.until.load(Relaxed);
        if until > now {
            return Err(Duration::from_nanos(until - now));
        }
        if until == 0 {
            return Ok(());
        }
        match self.until.compare_exchange(until, now + self.pause, Relaxed, Relaxed) {
            // This one tries, or the store is back meanwhile.
            Ok(_) | Err(0) => Ok(()),
            Err(_) => Err(Duration::from_nanos(self.pause)),
        }
    }

    fn failed_at(&self, now: u64) -> bool {
        let failed = self.failed.load(Relaxed).saturating_add(1);
        self.failed.store(failed, Relaxed);
        failed >= self.failures && self.until.compare_exchange(0, now + self.pause, Relaxed, Relaxed).is_ok()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_nanos(100);

    #[test]
    fn opens_after_failures_one_after_another() {
        let breaker = Breaker::new(3, PAUSE);
        assert!(!breaker.failed_at(10) && !breaker.failed_at(11));
        breaker.succeeded();
        assert!(!breaker.failed_at(12) && !breaker.failed_at(13));
        assert_eq!(breaker.enter_at(14), Ok(()));
        assert!(breaker.failed_at(15));
        assert_eq!(breaker.enter_at(16), Err(Duration::from_nanos(99)));
    }

    #[test]
    fn lets_one_through_at_the_end_of_each_pause() {
        let breaker = Breaker::new(1, PAUSE);
        assert!(breaker.failed_at(0));
        assert_eq!(breaker.enter_at(99), Err(Duration::from_nanos(1)));
        assert_eq!(breaker.enter_at(100), Ok(()));
        assert_eq!(breaker.enter_at(100), Err(PAUSE));
        // The one that tried was cancelled, or failed.
        assert!(!breaker.failed_at(150));
        assert_eq!(breaker.enter_at(199), Err(Duration::from_nanos(1)));
        assert_eq!(breaker.enter_at(200), Ok(()));
        breaker.succeeded();
        assert_eq!((breaker.enter_at(201), breaker.enter_at(201)), (Ok(()), Ok(())));
    }
}
