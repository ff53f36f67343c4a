//! What has gone wrong with rate limiters in production, and what must happen instead.
//!
//! Every clock here is moved by hand. Where it makes sense, a test runs on a [`Gate`] and on one client of a
//! [`Limiter`]. What is about memory is in `allocations.rs`, and what takes many threads in `stress.rs`.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::cell::Cell;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;
use tollgate::{
    Allowed, BuildError, Clock, Denied, Gate, Limiter, ManualClock, Quota, QuotaError, Reason, Status, TokenBucket,
    WhenFull,
};

/// One token bucket, whatever holds it.
trait Bucket: Sync {
    fn check_n(&self, cost: u64) -> Result<Allowed, Denied>;
    fn peek(&self) -> Status;
    fn refund(&self, tokens: u64) -> u64;
    fn reset(&self) -> bool;

    fn allow(&self) -> bool {
        self.check_n(1).is_ok()
    }

    /// What is left after one token is taken.
    fn left(&self) -> u64 {
        self.check_n(1).expect("one token is there").remaining()
    }

    fn drain(&self) {
        let left = self.peek().remaining();
        self.check_n(left).expect("as much as remains can be taken");
        assert_eq!(self.peek().remaining(), 0);
    }

    /// How long a call has to wait that is refused for now.
    fn wait(&self, cost: u64) -> Duration {
        let denied = self.check_n(cost).expect_err("nothing is left");
        assert_eq!(denied.reason(), Reason::Limited);
        denied.retry_after().expect("a wait that ends")
    }

    /// How many calls of one token pass at this moment, if not more than the capacity.
    fn passes(&self) -> u64 {
        (0..=self.peek().limit()).take_while(|_| self.allow()).count() as u64
    }
}

impl<C: Clock> Bucket for Gate<TokenBucket, C> {
    fn check_n(&self, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(cost)
    }

    fn peek(&self) -> Status {
        self.peek()
    }

    fn refund(&self, tokens: u64) -> u64 {
        self.refund(tokens)
    }

    fn reset(&self) -> bool {
        self.reset()
    }
}

const CLIENT: &str = "client";

impl<C: Clock> Bucket for Limiter<TokenBucket, C> {
    fn check_n(&self, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(CLIENT, cost)
    }

    fn peek(&self) -> Status {
        self.peek(CLIENT)
    }

    fn refund(&self, tokens: u64) -> u64 {
        self.refund(CLIENT, tokens)
    }

    fn reset(&self) -> bool {
        self.reset(CLIENT)
    }
}

fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

fn limiter(text: &str, clock: &ManualClock) -> Limiter<TokenBucket, ManualClock> {
    Limiter::token_bucket(quota(text)).clock(clock.clone()).build().unwrap()
}

/// Runs a test on a full bucket of its own for each kind. Time starts somewhere, as the time of real clocks does.
fn on_both(text: &str, test: impl Fn(&dyn Bucket, &ManualClock)) {
    let clock = ManualClock::new();
    clock.set(secs(1_000_000));
    test(&Gate::token_bucket(quota(text)).clock(clock.clone()).build().unwrap(), &clock);
    let clock = ManualClock::new();
    test(&limiter(text, &clock), &clock);
}

fn build_error(quota: Quota) -> BuildError {
    let error = Gate::token_bucket(quota).build().expect_err("no such bucket");
    assert_eq!(Limiter::token_bucket(quota).build().expect_err("no such bucket"), error);
    error
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

const fn nanos(n: u64) -> Duration {
    Duration::from_nanos(n)
}

const HOUR: Duration = secs(3600);
const DAY: Duration = secs(86_400);
const YEAR: Duration = secs(31_557_600);

// Arithmetic: very fast, very slow, and ratios that are no round number.

#[test]
fn a_long_idle_time_overflows_nothing() {
    on_both("1000000/s", |bucket, clock| {
        bucket.drain();
        clock.advance(12 * HOUR);
        assert_eq!(bucket.left(), 999_999);
    });
    for rate in ["4/ns;burst=1000000", "1000000001/s", "7/s", "700/min", "1/h", "10/365d"] {
        on_both(rate, |bucket, clock| {
            let limit = bucket.peek().limit();
            for idle in [3 * HOUR, 6 * HOUR, 100 * DAY, 14 * YEAR, 15 * YEAR] {
                bucket.drain();
                clock.advance(idle.max(bucket.peek().reset_after()));
                assert_eq!(bucket.left(), limit - 1, "{rate} after {idle:?}");
            }
        });
    }
}

#[test]
fn rates_above_a_thousand_a_second_refill_between_milliseconds() {
    on_both("2000/s;burst=20", |bucket, clock| {
        bucket.drain();
        clock.advance(micros(499));
        assert_eq!(bucket.wait(1), micros(1));
        clock.advance(micros(1));
        assert!(bucket.allow());
    });
    for (rate, interval) in [("8000/s", 125_000), ("1000000/s", 1_000), ("500000000/s", 2), ("1000000000/s", 1)] {
        on_both(rate, |bucket, clock| {
            bucket.drain();
            assert_eq!(bucket.wait(1), nanos(interval));
            clock.advance(nanos(interval - 1));
            assert!(!bucket.allow(), "{rate}");
            clock.advance(nanos(1));
            assert!(bucket.allow(), "{rate}");
            assert!(!bucket.allow(), "{rate}");
        });
    }
}

#[test]
fn what_remains_counts_down_by_one_and_the_client_is_held() {
    let limiter = limiter("1000/min;burst=1001", &ManualClock::new());
    for remaining in [1000, 999, 998] {
        assert_eq!(limiter.left(), remaining);
        assert_eq!(limiter.len(), 1);
    }
}

#[test]
fn a_rate_above_one_a_nanosecond_refuses_nobody_who_has_tokens() {
    const CALLS: u64 = 1_000_000;
    on_both("1000000001/s", |bucket, _| {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert!((0..CALLS).all(|_| bucket.allow())));
            }
        });
        assert_eq!(bucket.peek().remaining(), 998_000_001);
    });
}

#[test]
fn an_interval_that_is_no_whole_number_of_nanoseconds_is_not_rounded() {
    for rate in [600_000_000, 700_000_000, 999_999_999, 1_000_000_001, 3_999_999_999] {
        on_both(&format!("{rate}/s"), |bucket, clock| {
            bucket.drain();
            clock.advance(millis(500));
            assert_eq!(bucket.peek().remaining(), rate / 2);
            clock.advance(millis(500));
            bucket.check_n(rate).unwrap();
            assert!(!bucket.allow());
        });
    }
}

#[test]
fn a_hungry_caller_gets_the_rate_over_an_hour() {
    on_both("700/min", |bucket, clock| {
        bucket.drain();
        let (mut elapsed, mut admitted) = (Duration::ZERO, 0);
        while elapsed < HOUR {
            let step = bucket.wait(1).min(HOUR - elapsed);
            clock.advance(step);
            elapsed += step;
            admitted += bucket.passes();
        }
        assert_eq!(admitted, 42_000);
    });
    // However often it asks, and at whatever times.
    for (rate, in_an_hour) in [("120000/min", 7_200_000), ("7/s", 25_200), ("1000/13s", 276_923), ("11/h", 11)] {
        on_both(rate, |bucket, clock| {
            bucket.drain();
            let mut admitted = 0;
            for step in [377_777_777, 1, 622_222_222].iter().cycle().take(3 * 3600) {
                clock.advance(nanos(*step));
                admitted += bucket.peek().remaining();
                bucket.drain();
            }
            assert_eq!(admitted, in_an_hour, "{rate}");
        });
    }
}

#[test]
fn who_waits_exactly_long_enough_gets_in() {
    on_both("10/13s;burst=1", |bucket, clock| {
        bucket.drain();
        clock.advance(nanos(1_299_999_999));
        assert_eq!(bucket.wait(1), nanos(1));
        clock.advance(nanos(1));
        assert!(bucket.allow());
    });
}

#[test]
fn refused_calls_cost_a_slow_rate_nothing() {
    on_both("1/h", |bucket, clock| {
        bucket.drain();
        let mut elapsed = 0;
        while !bucket.allow() {
            clock.advance(secs(7));
            elapsed += 7;
        }
        assert_eq!(elapsed, 3605);
    });
}

#[test]
fn calls_more_frequent_than_the_refill_do_not_stop_it() {
    on_both("10/30s", |bucket, clock| {
        for remaining in [9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2] {
            assert_eq!(bucket.left(), remaining);
            clock.advance(secs(1));
        }
    });
    // A refused call each nanosecond, and an allowed one as soon as may be.
    on_both("1/us;burst=2", |bucket, clock| {
        bucket.drain();
        let mut admitted = 0;
        for _ in 0..10_000 {
            clock.advance(nanos(1));
            admitted += u64::from(bucket.allow());
        }
        assert_eq!(admitted, 10);
    });
}

#[test]
fn a_rate_or_burst_that_does_not_fit_is_an_error_and_never_wraps() {
    assert!(matches!(build_error(quota("2199023255552/s;burst=34359738368")), BuildError::RateTooHigh(_)));
    const EDGES: [u64; 8] = [1, 2, 1 << 31, 1 << 32, 1 << 35, i64::MAX as u64, 1 << 63, u64::MAX];
    for count in EDGES {
        for period in EDGES {
            for burst in EDGES {
                let quota = Quota::per(count, nanos(period)).burst(burst);
                let Ok(gate) = Gate::token_bucket(quota).clock(ManualClock::new()).build() else { continue };
                assert!(gate.check_n(burst).is_ok(), "{quota}");
                assert!(gate.check_n(1).is_err(), "{quota}");
            }
        }
    }
}

#[test]
fn a_period_that_is_too_long_is_an_error() {
    for period in [Duration::MAX, 1000 * YEAR] {
        assert!(matches!(build_error(Quota::per(1, period)), BuildError::PeriodTooLong(_)));
    }
}

#[test]
fn a_client_of_a_very_slow_rate_is_kept() {
    let clock = ManualClock::new();
    let limiter = limiter("1/365d;burst=120", &clock);
    limiter.drain();
    clock.advance(DAY);
    assert_eq!(limiter.sweep(), 0);
    assert_eq!(limiter.len(), 1);
    assert_eq!(limiter.wait(1), 364 * DAY);
}

// Clocks that do not do what clocks should.

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

/// Runs a test on buckets that go by a clock which shows `time` at first.
fn by_clock<C: Clock>(
    text: &str,
    time: Duration,
    make: impl Fn(ManualClock) -> C,
    test: impl Fn(&dyn Bucket, &ManualClock),
) {
    let set = || {
        let clock = ManualClock::new();
        clock.set(time);
        clock
    };
    let clock = set();
    test(&Gate::token_bucket(quota(text)).clock(make(clock.clone())).build().unwrap(), &clock);
    let clock = set();
    test(&Limiter::token_bucket(quota(text)).clock(make(clock.clone())).build().unwrap(), &clock);
}

#[test]
fn a_clock_that_jitters_backwards_admits_neither_more_nor_less() {
    by_clock(
        "1/min;burst=30",
        HOUR,
        |clock| Jittery::new(clock, false),
        |bucket, clock| {
            clock.advance(millis(1));
            assert_eq!(bucket.passes(), 30);
            assert!(!bucket.allow());
        },
    );
}

#[test]
fn time_that_passes_twice_refills_once() {
    // Each swing of this clock is worth 40 tokens.
    for sworn in [false, true] {
        by_clock(
            "100/ms;burst=30",
            HOUR,
            |clock| Jittery::new(clock, sworn),
            |bucket, clock| {
                clock.advance(millis(1));
                let admitted = AtomicU64::new(0);
                thread::scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            let passed = (0..20_000).filter(|_| bucket.allow()).count();
                            admitted.fetch_add(passed as u64, Relaxed);
                        });
                    }
                });
                let admitted = admitted.into_inner();
                assert!((30..=30 + 40).contains(&admitted), "{admitted}");
            },
        );
    }
}

#[test]
fn a_step_back_takes_nothing_from_a_caller() {
    by_clock("1/s;burst=5", secs(50), Skewed, |bucket, clock| {
        clock.set(secs(100));
        assert_eq!([bucket.left(), bucket.left(), bucket.left()], [4, 3, 2]);
        clock.set(secs(89));
        assert_eq!(bucket.left(), 1);
        // Even one to before the limiter was built.
        clock.set(secs(1));
        assert_eq!(bucket.left(), 0);
        assert_eq!(bucket.wait(1), secs(1));
    });
}

#[test]
fn a_thread_whose_clock_is_slow_takes_and_mints_nothing() {
    by_clock("1/s;burst=5", secs(50), Skewed, |bucket, clock| {
        clock.set(secs(100));
        assert_eq!([bucket.left(), bucket.left(), bucket.left()], [4, 3, 2]);
        thread::scope(|scope| {
            scope.spawn(|| {
                SKEW.set(secs(11));
                assert_eq!(bucket.left(), 1);
            });
        });
        assert_eq!([bucket.passes(), bucket.passes()], [1, 0]);
        clock.set(secs(101));
        assert_eq!(bucket.passes(), 1);
    });
}

#[test]
fn threads_whose_clocks_disagree_share_one_bucket() {
    by_clock("2/s;burst=4", secs(50), Skewed, |bucket, clock| {
        clock.set(secs(100));
        let admitted = AtomicU64::new(0);
        for skew in [0, 10, 0, 5, 0] {
            thread::scope(|scope| {
                scope.spawn(|| {
                    SKEW.set(secs(skew));
                    admitted.fetch_add(bucket.passes(), Relaxed);
                });
            });
        }
        assert_eq!(admitted.into_inner(), 4);
    });
}

#[test]
fn a_false_leap_refills_once_and_time_then_waits_for_the_clock() {
    by_clock("1/s;burst=5", secs(50), Skewed, |bucket, clock| {
        bucket.drain();
        clock.advance(DAY);
        assert_eq!(bucket.passes(), 5);
        clock.set(secs(51));
        assert_eq!(bucket.passes(), 0);
        clock.set(secs(50) + DAY);
        assert_eq!(bucket.passes(), 0);
        clock.advance(secs(1));
        assert_eq!(bucket.passes(), 1);
    });
}

#[test]
fn a_leap_to_the_end_of_time_is_survived() {
    by_clock("1/s;burst=5", secs(50), Skewed, |bucket, clock| {
        bucket.drain();
        clock.set(Duration::MAX);
        assert_eq!(bucket.passes(), 5);
        let denied = bucket.check_n(1).unwrap_err();
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::Limited, None));
        clock.set(secs(51));
        assert_eq!(bucket.passes(), 0);
    });
}

#[test]
fn whether_time_asleep_counts_is_up_to_the_clock() {
    let (boot_time, awake_time) = (ManualClock::new(), ManualClock::new());
    let gate = |clock: &ManualClock| Gate::token_bucket(quota("5/h")).clock(clock.clone()).build().unwrap();
    let (by_boot_time, by_awake_time) = (gate(&boot_time), gate(&awake_time));
    by_boot_time.drain();
    by_awake_time.drain();
    boot_time.advance(10 * HOUR);
    assert!(by_boot_time.allow());
    assert!(!by_awake_time.allow());
}

// Credit for time spent idle.

#[test]
fn idle_time_is_worth_the_burst_and_no_more() {
    on_both("10/s", |bucket, clock| {
        clock.advance(HOUR);
        assert_eq!(bucket.check_n(11).unwrap_err().reason(), Reason::Never);
        assert!(bucket.check_n(10).is_ok());
        assert_eq!(bucket.wait(1), millis(100));
    });
    on_both("1/s;burst=10", |bucket, clock| {
        clock.advance(secs(100));
        bucket.drain();
        assert!(!bucket.allow());
        clock.advance(secs(1));
        assert_eq!(bucket.passes(), 1);
    });
    on_both("5/s", |bucket, clock| {
        bucket.drain();
        clock.advance(secs(2));
        assert_eq!(bucket.passes(), 5);
    });
}

#[test]
fn two_a_second_is_not_one_in_two_seconds() {
    let gate = |quota: Quota, clock: &ManualClock| Gate::token_bucket(quota).clock(clock.clone()).build().unwrap();
    for two_a_second in [Quota::per_second(2), Quota::per(2, secs(1)), Quota::per_minute(120), quota("2/s")] {
        let clock = ManualClock::new();
        let gate = gate(two_a_second, &clock);
        gate.drain();
        for _ in 0..20 {
            clock.advance(millis(500));
            assert_eq!(gate.passes(), 1);
        }
    }
}

// Costs of nothing, of too much, and quotas of nothing.

#[test]
fn a_cost_above_the_capacity_is_never_admitted_and_changes_nothing() {
    on_both("1/s;burst=3", |bucket, clock| {
        assert!(bucket.allow());
        clock.advance(secs(3));
        for cost in [4, 5, 5000, u64::MAX] {
            let denied = bucket.check_n(cost).unwrap_err();
            assert_eq!((denied.reason(), denied.retry_after()), (Reason::Never, None));
            assert_eq!((denied.limit(), denied.remaining(), denied.reset_after()), (3, 3, Duration::ZERO));
        }
        // The same of a bucket that is not full.
        assert_eq!(bucket.left(), 2);
        clock.advance(millis(400));
        let denied = bucket.check_n(4).unwrap_err();
        assert_eq!((denied.reason(), denied.retry_after()), (Reason::Never, None));
        assert_eq!((denied.remaining(), denied.reset_after()), (2, millis(600)));
        assert_eq!(bucket.passes(), 2);
    });
    on_both("1/s;burst=300", |bucket, _| {
        assert_eq!(bucket.check_n(301).unwrap_err().reason(), Reason::Never);
        assert_eq!(bucket.left(), 299);
    });
    on_both("3/2s", |bucket, _| assert_eq!(bucket.check_n(4).unwrap_err().reason(), Reason::Never));
    on_both("5/s", |bucket, _| assert_eq!(bucket.check_n(5000).unwrap_err().reason(), Reason::Never));
}

#[test]
fn a_call_that_can_never_pass_makes_no_client_known() {
    let limiter = limiter("5/s", &ManualClock::new());
    for client in 0..1000 {
        assert!(limiter.check_n(&client, 6).is_err());
        assert!(limiter.check_n(&client, 0).is_ok());
    }
    assert_eq!(limiter.len(), 0);
}

#[test]
fn a_cost_of_nothing_passes_and_changes_nothing() {
    on_both("5/s", |bucket, clock| {
        for used in 0..=5 {
            let before = bucket.peek();
            for _ in 0..10 {
                let allowed = bucket.check_n(0).unwrap();
                assert_eq!((allowed.limit(), allowed.remaining()), (5, 5 - used));
                assert_eq!(allowed.reset_after(), before.reset_after());
                assert_eq!(allowed.give_back(), 0);
            }
            assert_eq!(bucket.allow(), used < 5);
        }
        assert_eq!(bucket.wait(1), millis(200));
        clock.advance(millis(200));
        assert!(bucket.check_n(0).is_ok());
        assert_eq!(bucket.passes(), 1);
    });
}

#[test]
fn a_quota_of_nothing_is_an_error() {
    let zeros = [
        (Quota::per_second(0), QuotaError::ZeroCount),
        (Quota::per_second(0).burst(1), QuotaError::ZeroCount),
        (Quota::per(1, Duration::ZERO), QuotaError::ZeroPeriod),
        (Quota::per(u64::MAX, Duration::ZERO), QuotaError::ZeroPeriod),
        (Quota::per_second(1).burst(0), QuotaError::ZeroBurst),
    ];
    for (quota, error) in zeros {
        assert_eq!(build_error(quota), BuildError::Quota(error));
    }
}

// What is told to the caller.

/// The value of a `Retry-After` header.
fn header(wait: Duration) -> u64 {
    (wait.as_nanos().div_ceil(1_000_000_000) as u64).max(1)
}

#[test]
fn a_wait_in_whole_seconds_rounded_up_always_suffices() {
    on_both("2/s;burst=1", |bucket, clock| {
        bucket.drain();
        clock.advance(millis(100));
        assert_eq!(bucket.wait(1), millis(400));
        assert_eq!(header(bucket.wait(1)), 1);
    });
    on_both("2/s;burst=4", |bucket, clock| {
        bucket.drain();
        clock.advance(millis(300));
        assert_eq!(bucket.wait(3), millis(1200));
        assert_eq!(header(bucket.wait(3)), 2);
    });
    for rate in ["7/s", "1/ns", "700/min", "3/h", "1/d;burst=2", "10/13s;burst=30", "1000000001/s"] {
        on_both(rate, |bucket, clock| {
            let limit = bucket.peek().limit();
            for (cost, pause) in [(1, 0), (limit, 1), (limit, 999_999_999), (limit / 2, 12_345), (1, 1_000_000_000)] {
                bucket.drain();
                clock.advance(nanos(pause));
                let Err(denied) = bucket.check_n(cost) else { continue };
                clock.advance(secs(header(denied.retry_after().unwrap())));
                assert!(bucket.check_n(cost).is_ok(), "{cost} at {rate}");
            }
        });
    }
}

#[test]
fn a_wait_is_the_shortest_that_suffices() {
    // A small deficit is no wait of zero, a fraction that is there counts, and so does the burst.
    on_both("1000/s;burst=1", |bucket, clock| {
        bucket.drain();
        clock.advance(micros(700));
        assert_eq!(bucket.wait(1), micros(300));
    });
    on_both("1/s", |bucket, clock| {
        bucket.drain();
        clock.advance(millis(200));
        assert_eq!(bucket.wait(1), millis(800));
    });
    on_both("1/s;burst=5", |bucket, _| {
        bucket.drain();
        assert_eq!(bucket.wait(1), secs(1));
        assert_eq!(bucket.wait(5), secs(5));
    });
    for rate in ["7/s", "4/ns", "700/min", "3/h", "1/d;burst=2", "10/13s;burst=30", "1000000001/s", "1/365d;burst=9"] {
        on_both(rate, |bucket, clock| {
            let limit = bucket.peek().limit();
            for cost in [1, 2, limit / 2, limit].into_iter().filter(|cost| (1..=limit).contains(cost)) {
                bucket.drain();
                let wait = bucket.wait(cost);
                clock.advance(wait - nanos(1));
                assert_eq!(bucket.wait(cost), nanos(1), "{cost} at {rate}");
                clock.advance(nanos(1));
                assert!(bucket.check_n(cost).is_ok(), "{cost} at {rate}");
            }
        });
    }
}

#[test]
fn what_remains_comes_back() {
    on_both("5/min", |bucket, clock| {
        assert_eq!(bucket.check_n(4).unwrap().remaining(), 1);
        assert_eq!(bucket.left(), 0);
        clock.advance(secs(60));
        assert_eq!(bucket.left(), 4);
    });
}

#[test]
fn the_reset_is_when_the_bucket_is_full_and_no_later() {
    on_both("30/min;burst=16", |bucket, clock| {
        assert_eq!(bucket.check_n(1).unwrap().reset_after(), secs(2));
        clock.advance(millis(500));
        assert_eq!(bucket.peek().reset_after(), millis(1500));
        bucket.drain();
        assert_eq!(bucket.check_n(1).unwrap_err().reset_after(), millis(31_500));
        clock.advance(millis(31_500) - nanos(1));
        assert_eq!((bucket.peek().remaining(), bucket.peek().reset_after()), (15, nanos(1)));
        clock.advance(nanos(1));
        assert_eq!((bucket.peek().remaining(), bucket.peek().reset_after()), (16, Duration::ZERO));
    });
}

// Looking, putting back, starting over.

#[test]
fn looking_takes_nothing_and_makes_no_client_known() {
    let limiter = limiter("10/s", &ManualClock::new());
    for _ in 0..1000 {
        let status = limiter.peek("nobody");
        assert_eq!((status.limit(), status.remaining(), status.reset_after()), (10, 10, Duration::ZERO));
    }
    for stranger in 0..1000 {
        assert_eq!(limiter.peek(&stranger).remaining(), 10);
        assert_eq!(limiter.refund(&stranger, 3), 0);
        assert!(!limiter.reset(&stranger));
    }
    assert_eq!(limiter.len(), 0);
    assert!(limiter.is_empty());
}

#[test]
fn looking_holds_no_client_back_from_being_forgotten() {
    let clock = ManualClock::new();
    let limiter = limiter("10/s", &clock);
    assert!(limiter.allow("client"));
    clock.advance(millis(99));
    assert_eq!(limiter.peek("client").reset_after(), millis(1));
    assert_eq!(limiter.sweep(), 0);
    clock.advance(millis(1));
    assert_eq!(limiter.peek("client").remaining(), 10);
    assert_eq!(limiter.sweep(), 1);
    assert_eq!(limiter.len(), 0);
}

#[test]
fn a_refund_stops_at_the_capacity_and_says_how_much_found_room() {
    on_both("1/s;burst=10", |bucket, clock| {
        bucket.drain();
        assert_eq!(bucket.refund(4), 4);
        assert_eq!(bucket.peek().remaining(), 4);
        assert_eq!(bucket.refund(100), 6);
        assert_eq!(bucket.refund(u64::MAX), 0);
        assert_eq!(bucket.passes(), 10);
        // Half a token has refilled, so a half of the last one finds room.
        clock.advance(millis(500));
        assert_eq!(bucket.refund(0), 0);
        assert_eq!(bucket.refund(u64::MAX), 10);
        assert_eq!(bucket.passes(), 10);
    });
}

#[test]
fn a_receipt_returns_its_cost_less_what_has_refilled() {
    on_both("1/s;burst=10", |bucket, clock| {
        let receipt = bucket.check_n(10).unwrap();
        assert_eq!(receipt.give_back(), 10);
        assert_eq!(bucket.peek().remaining(), 10);

        let receipt = bucket.check_n(10).unwrap();
        clock.advance(secs(4));
        assert_eq!(receipt.give_back(), 6);
        assert_eq!(bucket.peek().remaining(), 10);

        let (early, late) = (bucket.check_n(5).unwrap(), bucket.check_n(5).unwrap());
        clock.advance(millis(4500));
        assert_eq!(early.give_back(), 1);
        clock.advance(secs(1));
        assert_eq!(late.give_back(), 0);
        assert_eq!(bucket.peek().remaining(), 6);
    });
}

#[test]
fn a_receipt_never_lifts_a_caller_above_the_bound() {
    on_both("1/s;burst=10", |bucket, clock| {
        let receipt = bucket.check_n(5).unwrap();
        clock.advance(secs(5));
        // The refill has already replaced the five.
        bucket.check_n(10).unwrap();
        assert_eq!(receipt.give_back(), 0);
        assert!(!bucket.allow());
    });
}

type Interruption = Box<dyn FnOnce() + Send>;

/// A clock whose next reading is followed by whatever other threads do while this one does not run.
struct Interrupted {
    clock: ManualClock,
    interruption: Mutex<Option<Interruption>>,
}

impl Clock for Interrupted {
    fn now(&self) -> u64 {
        let reading = self.clock.now();
        let interruption = self.interruption.lock().unwrap().take();
        if let Some(others) = interruption {
            others();
        }
        reading
    }

    fn is_monotonic(&self) -> bool {
        true
    }
}

#[test]
fn a_receipt_that_is_held_up_on_its_way_mints_nothing() {
    fn held_up<B: Bucket + Clone + Send + 'static>(bucket: B, clock: Arc<Interrupted>) {
        let receipt = bucket.check_n(5).unwrap();
        let (others, time) = (bucket.clone(), clock.clock.clone());
        // While it is being given back, the five refill, and others take everything.
        *clock.interruption.lock().unwrap() = Some(Box::new(move || {
            time.advance(secs(5));
            assert_eq!(others.passes(), 10);
        }));
        let returned = receipt.give_back();
        assert_eq!((returned, bucket.passes()), (0, 0), "tokens returned, and calls that pass on top of the capacity");
    }
    let clock = || Arc::new(Interrupted { clock: ManualClock::new(), interruption: Mutex::default() });
    let (one, other) = (clock(), clock());
    let quota = quota("1/s;burst=10");
    held_up(Gate::token_bucket(quota).clock(one.clone()).build().unwrap(), one);
    held_up(Limiter::token_bucket(quota).clock(other.clone()).build().unwrap(), other);
}

#[test]
fn a_call_that_is_held_up_while_its_client_is_forgotten_counts_in_full() {
    let clock = Arc::new(Interrupted { clock: ManualClock::new(), interruption: Mutex::default() });
    let limiter = Limiter::token_bucket(quota("10/s")).clock(clock.clone()).build().unwrap();
    limiter.drain();
    let (others, time) = (limiter.clone(), clock.clock.clone());
    // The call has read a time at which the client was drained. Before it goes on, the client is full, and forgotten.
    *clock.interruption.lock().unwrap() = Some(Box::new(move || {
        time.advance(secs(1));
        assert_eq!((others.sweep(), others.len()), (1, 0));
    }));
    assert_eq!(limiter.check_n(CLIENT, 10).unwrap().remaining(), 0);
    assert_eq!(limiter.passes(), 0);
}

#[test]
fn a_place_that_is_given_back_goes_to_exactly_one_other() {
    on_both("1/h;burst=1", |bucket, _| {
        let race = || {
            let (start, winners) = (Barrier::new(16), AtomicUsize::new(0));
            let receipt = thread::scope(|scope| {
                let callers: Vec<_> = (0..16)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            bucket.check_n(1).ok().inspect(|_| _ = winners.fetch_add(1, Relaxed))
                        })
                    })
                    .collect();
                callers.into_iter().find_map(|caller| caller.join().unwrap())
            });
            assert_eq!(winners.into_inner(), 1);
            receipt.unwrap()
        };
        assert_eq!(race().give_back(), 1);
        race();
        assert!(!bucket.allow());
    });
}

#[test]
fn a_reset_gives_the_whole_limit() {
    on_both("1/h;burst=5", |bucket, _| {
        assert!(!bucket.reset());
        assert!(bucket.allow());
        assert!(bucket.reset());
        assert!(!bucket.reset());
        bucket.drain();
        assert!(bucket.reset());
        assert_eq!(bucket.passes(), 5);
    });
}

#[test]
fn sessions_and_batches_decide_as_single_calls_do() {
    let clock = ManualClock::new();
    let limiter = limiter("1/s;burst=3", &clock);
    let keys = ["a", "b", "a", "a", "a", "b"];
    let batch = limiter.check_many(&keys).into_iter().map(|decision| decision.map(|allowed| allowed.remaining()).ok());
    assert_eq!(batch.collect::<Vec<_>>(), [Some(2), Some(2), Some(1), Some(0), None, Some(1)]);
    let mut session = limiter.session();
    assert!(!session.allow("a"));
    assert_eq!(session.check("b").unwrap().remaining(), 0);
    assert_eq!(session.check_n("a", 4).unwrap_err().reason(), Reason::Never);
    assert_eq!(session.check_n("b", 2).unwrap_err().retry_after(), Some(secs(2)));
}

// Many clients.

/// Holds as many live clients as it may: each has used everything. Returns how many those are.
fn fill(limiter: &Limiter<TokenBucket, ManualClock>) -> usize {
    let cost = limiter.peek(&0_u64).limit();
    let full = |client: &u64| limiter.check_n(client, cost).is_err_and(|denied| denied.reason() == Reason::Full);
    // A few more: a caller may find the last places where another does not look.
    let clients = (0..).position(|client| full(&client)).unwrap();
    assert_eq!(limiter.len(), clients);
    clients
}

const MODES: [WhenFull; 3] = [WhenFull::Deny, WhenFull::Allow, WhenFull::Shared];

/// A limiter of 5 a second that holds 10,000 clients.
fn bounded(mode: WhenFull, clock: &ManualClock) -> Limiter<TokenBucket, ManualClock> {
    Limiter::token_bucket(quota("5/s")).clock(clock.clone()).max_keys(10_000).when_full(mode).build().unwrap()
}

#[test]
fn a_new_client_of_a_full_limiter_gets_the_configured_answer() {
    for mode in MODES {
        let limiter = bounded(mode, &ManualClock::new());
        let mut answers = (0..20_000_u64).map(|key| limiter.check(&key));
        let held = limiter.len();
        let _ = answers.by_ref().take(11_250).map(|answer| assert!(answer.is_ok())).count();
        assert_eq!((held, limiter.len()), (0, 11_250));
        let strangers: Vec<_> = answers.collect();
        match mode {
            WhenFull::Deny => {
                for denied in strangers.into_iter().map(Result::unwrap_err) {
                    assert_eq!((denied.reason(), denied.remaining()), (Reason::Full, 0));
                    assert_eq!(denied.retry_after(), Some(secs(1)));
                }
            }
            WhenFull::Allow => {
                for allowed in strangers.into_iter().map(Result::unwrap) {
                    assert_eq!(allowed.remaining(), 4);
                    assert_eq!(allowed.give_back(), 0);
                }
            }
            _ => {
                let (passed, refused): (Vec<_>, Vec<_>) = strangers.into_iter().partition(Result::is_ok);
                assert_eq!((passed.len(), refused.len()), (5, 8_745));
                for denied in refused.into_iter().map(Result::unwrap_err) {
                    assert_eq!((denied.reason(), denied.retry_after()), (Reason::Limited, Some(millis(200))));
                }
            }
        }
    }
}

#[test]
fn a_client_that_has_used_something_survives_any_flood() {
    for mode in MODES {
        let clock = ManualClock::new();
        let limiter = bounded(mode, &clock);
        assert!(limiter.check_n("drained", 5).is_ok());
        for key in 0..400_000_u64 {
            clock.advance(nanos(2_000));
            let _ = limiter.check_n(&key, 1 + key % 5);
            if key % 40_000 == 0 {
                limiter.sweep();
            }
            if key % 1000 == 0 {
                let denied = limiter.check_n("drained", 5).unwrap_err();
                assert_eq!(denied.retry_after(), Some(secs(1) - nanos(2_000 * (key + 1))));
            }
        }
    }
}

#[test]
fn the_wait_of_a_full_limiter_suffices() {
    const RATES: [&str; 7] =
        ["1/d;burst=3", "5/s", "1000/s;burst=10", "1/us;burst=1000", "1/us;burst=1", "1/ns;burst=1000", "4/ns"];
    for rate in RATES {
        for max_keys in [1, 2, 100, 1000, 10_000] {
            let clock = ManualClock::new();
            let limiter = Limiter::token_bucket(quota(rate)).clock(clock.clone()).max_keys(max_keys).build().unwrap();
            fill(&limiter);
            let denied = limiter.check("stranger").unwrap_err();
            assert_eq!(denied.reason(), Reason::Full);
            clock.advance(denied.retry_after().unwrap());
            assert!(limiter.allow("stranger"), "{rate} with {max_keys}");
        }
    }
}

#[test]
fn a_receipt_gives_the_shared_bucket_no_more_than_was_taken_from_it() {
    let clock = ManualClock::new();
    let limiter = bounded(WhenFull::Shared, &clock);
    let receipt = limiter.check("early").unwrap();
    limiter.reset("early");
    limiter.sweep();
    assert!((0..11_250_u64).all(|client| limiter.check_n(&client, 5).is_ok()));
    // From here on "early" has no place, and its receipt is for one that it had.
    let shared = limiter.check("stranger").unwrap();
    let left = limiter.peek("stranger").remaining();
    assert_eq!(receipt.give_back(), 0);
    assert_eq!(limiter.peek("stranger").remaining(), left);
    assert_eq!(shared.give_back(), 1);
    assert_eq!(limiter.peek("stranger").remaining(), left + 1);
}

#[test]
fn a_refused_newcomer_takes_no_place() {
    let clock = ManualClock::new();
    let limiter = bounded(WhenFull::Shared, &clock);
    let held = 11_250;
    assert!((0..held as u64).all(|client| limiter.check_n(&client, 5).is_ok()));
    while limiter.allow("stranger") {}
    // Places are free again, and the shared bucket is empty.
    (0..10).for_each(|client: u64| assert!(limiter.reset(&client)));
    limiter.sweep();
    assert_eq!(limiter.len(), held - 10);
    assert!((0..5).all(|n| !limiter.allow(&format!("newcomer {n}"))));
    assert_eq!(limiter.len(), held - 10);
}

#[test]
fn a_place_that_falls_free_is_found_at_once() {
    for max_keys in [1, 2, 20, 100, 1000, 5000, 10_000] {
        let clock = ManualClock::new();
        let limiter = Limiter::token_bucket(quota("5/h")).clock(clock.clone()).max_keys(max_keys).build().unwrap();
        let held = fill(&limiter);
        assert!((max_keys..=max_keys + max_keys / 8).contains(&held));
        // As soon as fewer clients are live than may be, a new one has its place: at the same instant.
        for client in 0..=(held - max_keys) as u64 {
            assert!(limiter.reset(&client));
        }
        assert!(limiter.allow("stranger"), "{max_keys}");
        assert!(limiter.len() <= held);
    }
}

#[test]
fn a_client_that_gets_its_place_later_starts_from_the_shared_bucket() {
    let clock = ManualClock::new();
    let limiter = bounded(WhenFull::Shared, &clock);
    let all_live = (0..11_250_u64).all(|client| limiter.check_n(&client, 5).is_ok());
    assert!(all_live);
    // Two strangers share what a single one could take.
    assert_eq!(limiter.check_n("first", 2).unwrap().remaining(), 3);
    assert_eq!(limiter.check_n("second", 2).unwrap().remaining(), 1);
    assert_eq!(limiter.peek("third").remaining(), 1);
    assert_eq!(limiter.len(), 11_250);
    for client in 0..2_000_u64 {
        assert!(limiter.reset(&client));
    }
    // It has a place of its own now, and in it what was left.
    assert_eq!(limiter.check("first").unwrap().remaining(), 0);
    assert_eq!(limiter.peek("third").remaining(), 1);
    limiter.sweep();
    assert_eq!(limiter.len(), 9_251);
    assert!(limiter.check_n("second", 2).is_err());
    clock.advance(millis(800));
    assert_eq!(limiter.check_n("first", 4).unwrap().remaining(), 0);
}

#[test]
fn clients_that_come_and_go_keep_their_own_state() {
    // Each client is drained, and comes back just before and just after it has refilled.
    let clock = ManualClock::new();
    let limiter = limiter("1/ms;burst=2", &clock);
    let mut waiting = VecDeque::new();
    for client in 0..100_000_u64 {
        assert_eq!(limiter.check_n(&client, 2).unwrap().remaining(), 0);
        waiting.push_back(client);
        clock.advance(micros(1));
        if waiting.len() == 1_999 {
            let client = waiting.pop_front().unwrap();
            assert_eq!(limiter.check_n(&client, 2).unwrap_err().retry_after(), Some(micros(1)));
            assert_eq!(limiter.peek(&client).remaining(), 1);
        }
    }
}

/// What happens to one of a few clients of a limiter.
#[derive(Clone, Debug)]
enum Event {
    Charge(u64),
    GiveBack(Index),
    Refund(u64),
    Reset,
    Sweep,
    /// So many clients call that the table grows.
    Crowd,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => (0..=7_u64).prop_map(Event::Charge),
        2 => any::<Index>().prop_map(Event::GiveBack),
        1 => (0..=7_u64).prop_map(Event::Refund),
        1 => select(vec![Event::Reset, Event::Crowd]),
        3 => Just(Event::Sweep),
    ]
}

proptest! {
    /// A gate forgets nothing, so it shows what a limiter that forgot too much would get wrong.
    #[test]
    fn a_client_is_answered_as_a_gate_of_its_own_would_be(
        rate in select(vec!["6/s", "7/s", "3/ns;burst=6", "1/d;burst=6"]),
        events in vec((0..3_usize, 0..=1300_u64, any_event()), 1..100),
    ) {
        let clock = ManualClock::new();
        let limiter = limiter(rate, &clock);
        let gates = [(); 3].map(|()| Gate::token_bucket(quota(rate)).clock(clock.clone()).build().unwrap());
        gates[0].drain();
        let refill = gates[0].peek().reset_after();
        gates[0].reset();
        let mut receipts = Vec::new();
        let mut strangers = 1_000..;
        for (client, thousandths, event) in events {
            let gate = &gates[client];
            clock.advance(refill.mul_f64(thousandths.saturating_sub(300) as f64 / 1000.0));
            match event {
                Event::Charge(cost) => match (limiter.check_n(&client, cost), gate.check_n(cost)) {
                    (Ok(ours), Ok(theirs)) => {
                        prop_assert_eq!(ours.remaining(), theirs.remaining());
                        prop_assert_eq!(ours.reset_after(), theirs.reset_after());
                        receipts.push((ours, theirs));
                    }
                    (Err(ours), Err(theirs)) => {
                        prop_assert_eq!(ours.reason(), theirs.reason());
                        prop_assert_eq!(ours.remaining(), theirs.remaining());
                        prop_assert_eq!(ours.reset_after(), theirs.reset_after());
                        prop_assert_eq!(ours.retry_after(), theirs.retry_after());
                    }
                    (ours, theirs) => prop_assert!(false, "{:?}, not {:?}", ours, theirs),
                },
                Event::GiveBack(receipt) if !receipts.is_empty() => {
                    let (ours, theirs) = receipts.swap_remove(receipt.index(receipts.len()));
                    prop_assert_eq!(ours.give_back(), theirs.give_back());
                }
                Event::GiveBack(_) => {}
                Event::Refund(tokens) => prop_assert_eq!(limiter.refund(&client, tokens), gate.refund(tokens)),
                Event::Reset => prop_assert_eq!(limiter.reset(&client), gate.reset()),
                Event::Sweep => _ = limiter.sweep(),
                Event::Crowd => assert!(strangers.by_ref().take(300).all(|stranger| limiter.allow(&stranger))),
            }
            prop_assert_eq!(limiter.peek(&client).remaining(), gate.peek().remaining());
        }
    }
}

// Answers outlive everything.

#[test]
fn answers_are_owned_values_that_may_go_anywhere() {
    fn goes_anywhere<T: Send + Sync + 'static>() {}
    goes_anywhere::<Allowed>();
    goes_anywhere::<Denied>();
    goes_anywhere::<Status>();
    goes_anywhere::<Limiter>();
    goes_anywhere::<Gate>();
    goes_anywhere::<BuildError>();
}

#[test]
fn an_answer_in_hand_holds_nobody_up() {
    let clock = ManualClock::new();
    let limiter = limiter("1/s;burst=2", &clock);
    let (allowed, status) = (limiter.check("client").unwrap(), limiter.peek("client"));
    for key in 0..10_000_u64 {
        assert!(limiter.allow(&key));
    }
    assert_eq!(limiter.sweep(), 0);
    assert_eq!(limiter.check("client").unwrap().remaining(), 0);
    // It tells of its own moment, and still works.
    assert_eq!((allowed.remaining(), status.remaining()), (1, 1));
    assert_eq!(thread::spawn(|| allowed.give_back()).join().unwrap(), 1);
    assert_eq!(limiter.peek("client").remaining(), 1);
}

#[test]
fn a_receipt_outlives_its_limiter_and_touches_no_other() {
    let clock = ManualClock::new();
    let gate = || Gate::token_bucket(quota("1/h;burst=3")).clock(clock.clone()).build().unwrap();
    // All hash alike, so one's receipt would fit any other.
    let limiter = || {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        Limiter::token_bucket(quota("1/h;burst=3")).clock(clock.clone()).hasher(hasher).build().unwrap()
    };
    let orphan = gate().check_n(3).unwrap();
    // These take the place of the one that is gone.
    let gates: Vec<_> = (0..8).map(|_| gate()).collect();
    assert!(gates.iter().all(|gate| gate.check_n(3).is_ok()));
    assert_eq!((orphan.remaining(), orphan.give_back()), (0, 0));
    assert!(gates.iter().all(|gate| !gate.allow()));

    let orphan = limiter().check_n("client", 3).unwrap();
    let limiters: Vec<_> = (0..8).map(|_| limiter()).collect();
    assert!(limiters.iter().all(|limiter| limiter.check_n("client", 3).is_ok()));
    assert_eq!((orphan.remaining(), orphan.give_back()), (0, 0));
    assert!(limiters.iter().all(|limiter| !limiter.allow("client")));
}

#[test]
fn a_receipt_of_a_client_that_was_forgotten_returns_nothing() {
    let clock = ManualClock::new();
    let limiter = limiter("1/s;burst=3", &clock);
    let receipt = limiter.check_n("client", 3).unwrap();
    clock.advance(secs(3));
    assert_eq!(limiter.sweep(), 1);
    assert_eq!(receipt.give_back(), 0);
    assert_eq!(limiter.len(), 0);
}

#[test]
fn clones_share_one_state() {
    let clock = ManualClock::new();
    let limiter = limiter("1/h;burst=2", &clock);
    let gate = Gate::token_bucket(quota("1/h;burst=2")).clock(Arc::new(clock)).build().unwrap();
    assert!(limiter.clone().allow("client") && limiter.allow("client") && !limiter.clone().allow("client"));
    assert!(gate.clone().allow() && gate.allow() && !gate.clone().allow());
}
