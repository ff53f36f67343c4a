//! Arithmetic: very fast, very slow, and ratios that are no round number.

use super::*;

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
    let of_bucket = limiter("1000/min;burst=1001", &ManualClock::new());
    let of_windows = windows().map(|kind| kind.limiter(quota("1001/min"), ManualClock::new()).unwrap());
    for limiter in of_windows.chain([Box::new(of_bucket) as Box<dyn Clients>]) {
        for remaining in [1000, 999, 998] {
            assert_eq!(limiter.left(), remaining);
            assert_eq!(limiter.len(), 1);
        }
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
    assert!(matches!(
        build_error(Kind::TokenBucket, quota("2199023255552/s;burst=34359738368")),
        BuildError::RateTooHigh(_)
    ));
    const EDGES: [u64; 8] = [1, 2, 1 << 31, 1 << 32, 1 << 35, i64::MAX as u64, 1 << 63, u64::MAX];
    for count in EDGES {
        for period in EDGES {
            for burst in EDGES {
                let quota = Quota::per(count, nanos(period)).burst(burst);
                for kind in ALL {
                    let Ok(gate) = kind.gate(quota, ManualClock::new()) else { continue };
                    assert!(gate.check_n(burst).is_ok(), "{quota}");
                    assert!(gate.check_n(1).is_err(), "{quota}");
                }
            }
        }
    }
}

#[test]
fn a_period_that_is_too_long_is_an_error() {
    for period in [Duration::MAX, 1000 * YEAR] {
        assert!(matches!(build_error(Kind::TokenBucket, Quota::per(1, period)), BuildError::PeriodTooLong(_)));
        for kind in windows() {
            assert!(matches!(build_error(kind, Quota::per(1, period)), BuildError::WindowTooLong(_)));
        }
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
