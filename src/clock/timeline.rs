//! The time a limiter works with: nanoseconds since it was made, which never run backwards.
//!
//! A clock that is not monotonic is followed through a high-water mark. [`Timeline::now`] answers
//! with the mark or the clock's reading, whichever is later, and moves the mark up to what it
//! answers. The mark alone is shared, and it publishes nothing but itself, so relaxed accesses are
//! enough: all threads see the values of one atomic in one order, here an ascending one, and a call
//! that comes after another, on the same thread or with any synchronisation in between, finds what
//! that one left there or something later. Between calls that are not ordered in any such way
//! "before" has no meaning: one may answer with a mark that the other is about to raise.

use crossbeam_utils::CachePadded;

use super::Clock;
use crate::sync::{AtomicU64, Ordering};

/// A clock with its origin moved to the moment of creation, and with its steps back taken out.
pub struct Timeline<C> {
    clock: C,
    /// The clock's first reading.
    origin: u64,
    /// The latest time answered, in nanoseconds since the origin; unused for a monotonic clock.
    latest: CachePadded<AtomicU64>,
    /// The clock's promise, asked for once.
    monotonic: bool,
}

impl<C: Clock> Timeline<C> {
    /// A timeline that starts at the clock's present reading.
    pub fn new(clock: C) -> Self {
        Self {
            origin: clock.now(),
            latest: CachePadded::new(AtomicU64::new(0)),
            monotonic: clock.is_monotonic(),
            clock,
        }
    }

    /// The clock's reading at the origin, in nanoseconds since the clock's own.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// Nanoseconds since the origin; 0 for a clock that reads less than it did then.
    #[inline]
    pub fn now(&self) -> u64 {
        let reading = self.clock.now().saturating_sub(self.origin);
        if self.monotonic {
            return reading;
        }
        let latest = self.latest.load(Ordering::Relaxed);
        // Looking first keeps the mark's cache line shared while time stands still.
        if reading <= latest {
            return latest;
        }
        self.latest.fetch_max(reading, Ordering::Relaxed).max(reading)
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;

    /// A manual clock that claims to be monotonic.
    struct Sworn(ManualClock);

    impl Clock for Sworn {
        fn now(&self) -> u64 {
            self.0.now()
        }

        fn is_monotonic(&self) -> bool {
            true
        }
    }

    fn at(nanos: u64) -> ManualClock {
        let clock = ManualClock::new();
        clock.set(Duration::from_nanos(nanos));
        clock
    }

    #[test]
    fn counts_from_the_first_reading() {
        let clock = at(1_000);
        let timeline = Timeline::new(clock.clone());
        assert_eq!(timeline.now(), 0);
        clock.advance(Duration::from_nanos(7));
        assert_eq!(timeline.now(), 7);
    }

    #[test]
    fn a_reading_before_the_origin_is_zero() {
        let clock = at(1_000);
        let (timeline, sworn) = (Timeline::new(clock.clone()), Timeline::new(Sworn(clock.clone())));
        clock.set(Duration::from_nanos(1));
        assert_eq!(timeline.now(), 0);
        assert_eq!(sworn.now(), 0);
    }

    #[test]
    fn a_step_back_stands_still_until_time_has_caught_up() {
        let clock = at(0);
        let timeline = Timeline::new(clock.clone());
        clock.set(Duration::from_nanos(500));
        assert_eq!(timeline.now(), 500);
        clock.set(Duration::from_nanos(100));
        assert_eq!(timeline.now(), 500);
        clock.advance(Duration::from_nanos(400));
        assert_eq!(timeline.now(), 500);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(timeline.now(), 501);
    }

    #[test]
    fn a_monotonic_clock_is_taken_at_its_word() {
        let clock = at(0);
        let timeline = Timeline::new(Sworn(clock.clone()));
        clock.set(Duration::from_nanos(500));
        assert_eq!(timeline.now(), 500);
        clock.set(Duration::from_nanos(100));
        assert_eq!(timeline.now(), 100);
    }

    #[test]
    fn timelines_keep_marks_of_their_own() {
        let (one, two) = (at(0), at(50));
        let timelines = (Timeline::new(one.clone()), Timeline::new(two.clone()));
        one.set(Duration::from_nanos(500));
        two.set(Duration::from_nanos(60));
        assert_eq!(timelines.0.now(), 500);
        assert_eq!(timelines.1.now(), 10);
        one.set(Duration::ZERO);
        two.set(Duration::from_nanos(70));
        assert_eq!(timelines.0.now(), 500);
        assert_eq!(timelines.1.now(), 20);
    }

    #[test]
    fn threads_that_read_a_restless_clock_each_see_time_move_on() {
        let clock = at(0);
        let timeline = Timeline::new(clock.clone());
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let (clock, timeline) = (&clock, &timeline);
                scope.spawn(move || {
                    let mut last = 0;
                    for step in 0..400_000_u64 {
                        let noise = (step * 7_919 + thread * 31) % 5;
                        clock.set(Duration::from_nanos(step + noise));
                        let now = timeline.now();
                        assert!(now >= last, "{now} after {last}");
                        last = now;
                    }
                });
            }
        });
    }
}
