//! Where the limiter gets the time from.
//!
//! A [`Clock`] counts nanoseconds from an origin of its own. Wall time is never used: it is set by
//! hand, by the network and by leap seconds, and a limiter needs only how much time went by.
//!
//! # Clocks that step back
//!
//! Unless a clock promises otherwise ([`Clock::is_monotonic`]), the limiter keeps the latest reading
//! it has seen, in one atomic that all threads share and that is written only when time moves on. A
//! reading older than that counts as that one, so a clock that steps back stands still instead,
//! until it has caught up. No stretch of time is counted twice, so a step back mints no token; and
//! what could be taken before it can be taken after it, so it locks nobody out.
//!
//! The same holds for a clock that leaps far ahead and then returns: time stays at the far mark until
//! real time gets there. Tokens that were there can still be taken, but none is added. The limiter
//! cannot tell a false leap from a true one when it comes, so it has already let in whatever the
//! leap refilled; to follow the clock back would refill the same stretch once more. A limiter that
//! has to be wrong is better wrong on the side of letting in less.
//!
//! # Time asleep
//!
//! Whether time counts while the machine is suspended is up to the clock. [`MonotonicClock`] goes by
//! [`Instant`](std::time::Instant), which on Linux and macOS stops meanwhile.

mod manual;
mod monotonic;
pub(crate) mod timeline;
pub(crate) mod tsc;

use std::sync::Arc;
use std::time::Duration;

pub use manual::ManualClock;
pub use monotonic::MonotonicClock;
pub(crate) use timeline::Timeline;

/// A source of time for a limiter.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since an origin that stays the same for the life of the clock.
    ///
    /// 64 bits last for 584 years; a clock that gets there should stay at [`u64::MAX`].
    fn now(&self) -> u64;

    /// Whether readings only ever move on, across all threads.
    ///
    /// `true` promises that no reading, on any thread, is older than one that any thread got before,
    /// by more than what a few instructions take: some microseconds, if the processor reads a counter
    /// while an instruction before it still waits for memory. The limiter then uses the readings as
    /// they are. With `false`, the default, it keeps a high-water mark of them and the clock may do
    /// as it likes. The answer must not change over the life of the clock.
    fn is_monotonic(&self) -> bool {
        false
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    #[inline]
    fn now(&self) -> u64 {
        C::now(self)
    }

    #[inline]
    fn is_monotonic(&self) -> bool {
        C::is_monotonic(self)
    }
}

/// The nanoseconds of a duration, at most [`u64::MAX`].
fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Steady;

    impl Clock for Steady {
        fn now(&self) -> u64 {
            7
        }

        fn is_monotonic(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_shared_clock_answers_as_the_clock_does() {
        let shared: Arc<dyn Clock> = Arc::new(Steady);
        assert_eq!(Clock::now(&shared), 7);
        assert!(Clock::is_monotonic(&shared));
        assert!(!Clock::is_monotonic(&Arc::new(ManualClock::new())));
    }

    #[test]
    fn a_duration_of_more_nanoseconds_than_fit_is_cut_off() {
        assert_eq!(saturating_nanos(Duration::from_nanos(u64::MAX)), u64::MAX);
        assert_eq!(saturating_nanos(Duration::MAX), u64::MAX);
        assert_eq!(saturating_nanos(Duration::from_millis(2)), 2_000_000);
    }
}
