//! Credit for time spent idle; costs of nothing, of too much, and quotas of nothing.

use super::*;

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

#[test]
fn a_cost_above_the_limit_is_never_admitted_and_changes_nothing() {
    on_all("3/3s", |client, clock| {
        assert!(client.allow());
        clock.advance(secs(6));
        for cost in [4, 5, 5000, u64::MAX] {
            let denied = client.check_n(cost).unwrap_err();
            assert_eq!((denied.reason(), denied.retry_after()), (Reason::Never, None));
            assert_eq!((denied.limit(), denied.remaining(), denied.reset_after()), (3, 3, Duration::ZERO));
        }
        // The same of one that has used something.
        assert_eq!(client.left(), 2);
        clock.advance(millis(400));
        let reset_after = client.peek().reset_after();
        for cost in [4, u64::MAX] {
            let denied = client.check_n(cost).unwrap_err();
            assert_eq!((denied.reason(), denied.retry_after()), (Reason::Never, None));
            assert_eq!((denied.remaining(), denied.reset_after()), (2, reset_after));
        }
        assert!(reset_after > Duration::ZERO);
        assert_eq!(client.passes(), 2);
    });
    on_both("1/s;burst=3", |bucket, clock| {
        assert_eq!(bucket.left(), 2);
        clock.advance(millis(400));
        assert_eq!(bucket.check_n(4).unwrap_err().reset_after(), millis(600));
    });
    on_all("300/5min", |client, _| {
        assert_eq!(client.check_n(301).unwrap_err().reason(), Reason::Never);
        assert_eq!(client.left(), 299);
    });
    on_all("3/2s", |client, _| assert_eq!(client.check_n(4).unwrap_err().reason(), Reason::Never));
    on_all("5/s", |client, _| assert_eq!(client.check_n(5000).unwrap_err().reason(), Reason::Never));
    on_all("10/min", |client, _| {
        assert!(client.check_n(5).is_ok());
        assert_eq!(client.check_n(100).unwrap_err().reason(), Reason::Never);
        assert_eq!(client.peek().remaining(), 5);
    });
}

#[test]
fn a_large_cost_and_a_small_one_add_up() {
    on_all("10/min", |client, _| {
        assert_eq!([8, 3, 2, 1].map(|cost| client.check_n(cost).is_ok()), [true, false, true, false]);
    });
}

#[test]
fn a_call_that_can_never_pass_makes_no_client_known() {
    for kind in ALL {
        let limiter = kind.limiter(quota("5/s"), ManualClock::new()).unwrap();
        for client in 0..1000 {
            assert!(limiter.client(client).check_n(6).is_err());
            assert!(limiter.client(client).check_n(0).is_ok());
        }
        assert_eq!(limiter.len(), 0);
    }
}

#[test]
fn a_cost_of_nothing_passes_and_changes_nothing() {
    on_all("5/s", |client, clock| {
        for used in 0..=5 {
            let before = client.peek();
            for _ in 0..10 {
                let allowed = client.check_n(0).unwrap();
                assert_eq!((allowed.limit(), allowed.remaining()), (5, 5 - used));
                assert_eq!(allowed.reset_after(), before.reset_after());
                assert_eq!(allowed.give_back(), 0);
            }
            assert_eq!(client.allow(), used < 5);
        }
        clock.advance(client.wait(1));
        assert!(client.check_n(0).is_ok());
        assert!(client.allow());
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
        for kind in ALL {
            assert_eq!(build_error(kind, quota), BuildError::Quota(error.clone()));
        }
    }
}
