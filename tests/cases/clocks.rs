//! Clocks that do not do what clocks should.

use super::*;
use std::cell::Cell;

/// A clock that shows up to 400 microseconds too little, another amount at each reading.
struct Jittery {
    clock: ManualClock,
    readings: AtomicU64,
    monotonic: bool,
}

impl Jittery {
    /// `sworn`: the clock says that it is monotonic, though it is not.
    fn new(clock: ManualClock, sworn: bool) -> Self {
        Self { clock, readings: AtomicU64::new(0), monotonic: sworn }
    }
}

impl Clock for Jittery {
    fn now(&self) -> u64 {
        let reading = self.readings.fetch_add(1, Relaxed);
        self.clock.now() - reading.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 400_000
    }

    fn is_monotonic(&self) -> bool {
        self.monotonic
    }
}

thread_local!(static SKEW: Cell<Duration> = const { Cell::new(Duration::ZERO) });

/// A clock that each thread reads with a skew of its own.
struct Skewed(ManualClock);

impl Clock for Skewed {
    fn now(&self) -> u64 {
        self.0.now().saturating_sub(SKEW.get().as_nanos() as u64)
    }
}

/// Runs a test on clients that go by a clock which shows `time` at first.
fn by_clock<C: Clock>(
    kind: Kind,
    text: &str,
    time: Duration,
    make: impl Fn(ManualClock) -> C,
    test: impl Fn(&dyn Client, &ManualClock),
) {
    let clock = clock_at(time);
    test(&*kind.gate(quota(text), make(clock.clone())).unwrap(), &clock);
    let clock = clock_at(time);
    test(&*kind.limiter(quota(text), make(clock.clone())).unwrap(), &clock);
}

/// The same for every algorithm.
fn all_by_clock<C: Clock>(
    text: &str,
    time: Duration,
    make: impl Fn(ManualClock) -> C,
    test: impl Fn(&dyn Client, &ManualClock),
) {
    ALL.into_iter().for_each(|kind| by_clock(kind, text, time, &make, &test));
}

#[test]
fn a_clock_that_jitters_backwards_admits_neither_more_nor_less() {
    all_by_clock(
        "30/30min",
        HOUR,
        |clock| Jittery::new(clock, false),
        |client, clock| {
            clock.advance(millis(1));
            assert_eq!(client.passes(), 30);
            assert!(!client.allow());
        },
    );
}

#[test]
fn time_that_passes_twice_counts_once() {
    let admitted = |kind, text, sworn| {
        let total = AtomicU64::new(0);
        let clock = |clock| Jittery::new(clock, sworn);
        by_clock(kind, text, HOUR, clock, |client, clock| {
            clock.advance(millis(1));
            let admitted = AtomicU64::new(0);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let passed = (0..20_000).filter(|_| client.allow()).count();
                        admitted.fetch_add(passed as u64, Relaxed);
                    });
                }
            });
            total.fetch_max(admitted.into_inner(), Relaxed);
        });
        total.into_inner()
    };
    for sworn in [false, true] {
        // Each swing of this clock is worth 40 tokens.
        let admitted_by_bucket = admitted(Kind::TokenBucket, "100/ms;burst=30", sworn);
        assert!((30..=30 + 40).contains(&admitted_by_bucket), "{admitted_by_bucket}");
        // And at most five windows, each of which it enters many times.
        for kind in windows() {
            let admitted = admitted(kind, "15/100us", sworn);
            assert!((15..=5 * 15).contains(&admitted), "{admitted} by {kind:?}");
        }
    }
}

#[test]
fn a_step_back_takes_nothing_from_a_caller() {
    all_by_clock("5/5s", secs(50), Skewed, |client, clock| {
        clock.set(secs(100));
        assert_eq!([client.left(), client.left(), client.left()], [4, 3, 2]);
        clock.set(secs(89));
        assert_eq!(client.left(), 1);
        // Even one to before the limiter was built.
        clock.set(secs(1));
        assert_eq!(client.left(), 0);
        let wait = client.wait(1);
        clock.set(secs(100) + wait - nanos(1));
        assert!(!client.allow());
        clock.set(secs(100) + wait);
        assert!(client.allow());
    });
}

#[test]
fn a_thread_whose_clock_is_slow_takes_and_mints_nothing() {
    all_by_clock("5/5s", secs(50), Skewed, |client, clock| {
        clock.set(secs(100));
        assert_eq!([client.left(), client.left(), client.left()], [4, 3, 2]);
        thread::scope(|scope| {
            scope.spawn(|| {
                SKEW.set(secs(11));
                assert_eq!(client.left(), 1);
            });
        });
        assert_eq!([client.passes(), client.passes()], [1, 0]);
        clock.advance(client.wait(1));
        assert!(client.allow());
    });
}

#[test]
fn threads_whose_clocks_disagree_share_one_client() {
    all_by_clock("4/2s", secs(50), Skewed, |client, clock| {
        clock.set(secs(100));
        let admitted = AtomicU64::new(0);
        for skew in [0, 10, 0, 5, 0] {
            thread::scope(|scope| {
                scope.spawn(|| {
                    SKEW.set(secs(skew));
                    admitted.fetch_add(client.passes(), Relaxed);
                });
            });
        }
        assert_eq!(admitted.into_inner(), 4);
    });
}

#[test]
fn a_false_leap_is_worth_the_limit_once_and_time_then_waits_for_the_clock() {
    all_by_clock("5/5s", secs(50), Skewed, |client, clock| {
        client.drain();
        clock.advance(DAY);
        assert_eq!(client.passes(), 5);
        clock.set(secs(51));
        assert_eq!(client.passes(), 0);
        clock.set(secs(50) + DAY);
        assert_eq!(client.passes(), 0);
        clock.advance(client.wait(1));
        assert!(client.allow());
    });
}

#[test]
fn a_leap_to_the_end_of_time_is_survived() {
    all_by_clock("5/5s", secs(50), Skewed, |client, clock| {
        client.drain();
        clock.set(Duration::MAX);
        assert_eq!(client.passes(), 5);
        assert_eq!(client.check_n(1).unwrap_err().reason(), Reason::Limited);
        clock.set(secs(51));
        assert_eq!(client.passes(), 0);
    });
    by_clock(Kind::TokenBucket, "1/s;burst=5", secs(50), Skewed, |bucket, clock| {
        clock.set(Duration::MAX);
        bucket.drain();
        assert_eq!(bucket.check_n(1).unwrap_err().retry_after(), None);
    });
}

#[test]
fn whether_time_asleep_counts_is_up_to_the_clock() {
    for kind in ALL {
        let (boot_time, awake_time) = (ManualClock::new(), ManualClock::new());
        let gate = |clock: &ManualClock| kind.gate(quota("5/h"), clock.clone()).unwrap();
        let (by_boot_time, by_awake_time) = (gate(&boot_time), gate(&awake_time));
        by_boot_time.drain();
        by_awake_time.drain();
        boot_time.advance(10 * HOUR);
        assert!(by_boot_time.allow());
        assert!(!by_awake_time.allow());
    }
}
