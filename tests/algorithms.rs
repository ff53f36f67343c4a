//! The tutorials' own figures, for each of the four algorithms, on a clock that is moved by hand.

use std::time::Duration;
use tollgate::{Algorithm, Anchor, Clock, Gate, Limiter, ManualClock, Quota};

fn per_10_s(count: u64) -> Quota {
    Quota::per(count, Duration::from_secs(10))
}

/// The clock at so many milliseconds.
fn at(clock: &ManualClock, millis: u64) {
    clock.set(Duration::from_millis(millis));
}

/// How many of `calls` pass at once.
fn passed<A: Algorithm, C: Clock>(limiter: &Limiter<A, C>, calls: usize) -> usize {
    (0..calls).filter(|_| limiter.allow("client")).count()
}

#[test]
fn a_fixed_window_lets_through_twice_the_limit_around_its_end() {
    let clock = ManualClock::new();
    let limiter = Limiter::fixed_window(per_10_s(5)).clock(clock.clone()).build().unwrap();
    assert_eq!(passed(&limiter, 5), 5);
    at(&clock, 9_900);
    assert_eq!(passed(&limiter, 1), 0);
    at(&clock, 10_100);
    assert_eq!(passed(&limiter, 5), 5);
}

#[test]
fn an_aligned_window_ends_at_a_multiple_of_its_period() {
    let clock = ManualClock::new();
    let limiter = Limiter::fixed_window(per_10_s(3)).clock(clock.clone()).build().unwrap();
    assert_eq!(passed(&limiter, 4), 3);
    at(&clock, 5_000);
    assert_eq!(passed(&limiter, 1), 0);
    at(&clock, 10_000);
    assert_eq!(passed(&limiter, 1), 1);
}

#[test]
fn an_aligned_window_that_is_met_late_ends_early() {
    // Whether it is the client that comes at 9 s, or the limiter that is built then.
    for built_at in [0, 9_000] {
        let clock = ManualClock::new();
        at(&clock, built_at);
        let limiter = Limiter::fixed_window(per_10_s(3)).clock(clock.clone()).build().unwrap();
        at(&clock, 9_000);
        assert_eq!(passed(&limiter, 4), 3);
        at(&clock, 9_999);
        assert_eq!(passed(&limiter, 1), 0);
        at(&clock, 10_000);
        assert_eq!(passed(&limiter, 4), 3);
    }
}

#[test]
fn a_window_from_the_first_request_lasts_a_whole_period() {
    let clock = ManualClock::new();
    let limiter = Limiter::fixed_window(per_10_s(3)).anchor(Anchor::FirstRequest).clock(clock.clone()).build().unwrap();
    at(&clock, 9_000);
    assert_eq!(passed(&limiter, 4), 3);
    at(&clock, 18_999);
    assert_eq!(passed(&limiter, 1), 0);
    at(&clock, 19_000);
    assert_eq!(passed(&limiter, 4), 3);
}

#[test]
fn a_sliding_log_counts_each_call_for_a_whole_window() {
    let clock = ManualClock::new();
    let limiter = Limiter::sliding_log(per_10_s(5)).clock(clock.clone()).build().unwrap();
    assert_eq!(passed(&limiter, 5), 5);
    at(&clock, 9_900);
    assert_eq!(passed(&limiter, 5), 0);
    at(&clock, 10_100);
    assert_eq!(passed(&limiter, 1), 1);
}

#[test]
fn a_sliding_counter_lets_through_what_a_window_ago_has_left() {
    let clock = ManualClock::new();
    let limiter =
        Limiter::sliding_counter(per_10_s(10)).anchor(Anchor::FirstRequest).clock(clock.clone()).build().unwrap();
    assert_eq!(passed(&limiter, 11), 10);
    let calls: Vec<bool> = (0..10)
        .map(|call| {
            at(&clock, 10_000 + 50 * call);
            limiter.allow("client")
        })
        .collect();
    assert_eq!(calls, [false, true, false, false, false, false, false, false, false, false]);
}

#[test]
fn the_strict_rule_counts_parts_of_a_call() {
    let clock = ManualClock::new();
    let limiter = Limiter::sliding_counter(per_10_s(10)).strict().clock(clock.clone()).build().unwrap();
    assert_eq!(passed(&limiter, 11), 10);
    at(&clock, 10_999);
    assert_eq!(passed(&limiter, 1), 0);
    at(&clock, 11_000);
    assert_eq!(passed(&limiter, 2), 1);
}

#[test]
fn a_token_bucket_refills_token_by_token() {
    let clock = ManualClock::new();
    let limiter = Limiter::token_bucket(Quota::per_second(1).burst(5)).clock(clock.clone()).build().unwrap();
    assert_eq!(passed(&limiter, 7), 5);
    at(&clock, 1_000);
    assert_eq!(passed(&limiter, 1), 1);
    at(&clock, 1_500);
    assert_eq!(passed(&limiter, 1), 0);
    at(&clock, 11_500);
    assert_eq!(passed(&limiter, 8), 5);
}

#[test]
fn a_token_bucket_never_holds_more_than_its_burst() {
    let clock = ManualClock::new();
    let limiter = Limiter::token_bucket(Quota::per_second(1).burst(3)).clock(clock.clone()).build().unwrap();
    let calls = |calls: usize| (0..calls).map(|_| limiter.allow("client")).collect::<Vec<_>>();
    assert_eq!(calls(4), [true, true, true, false]);
    clock.advance(Duration::from_secs(2));
    assert_eq!(calls(3), [true, true, false]);
    clock.advance(Duration::from_secs(100));
    assert_eq!(calls(4), [true, true, true, false]);
}

/// 5,000 clients that call once each, 10 ms apart, are all forgotten 120 s later: on the way, or by the sweep.
fn are_swept<A: Algorithm>(limiter: &Limiter<A, ManualClock>, clock: &ManualClock) {
    let (mut most, mut dropped_on_the_way) = (0, 0);
    for client in 0..5000 {
        assert!(limiter.allow(&client));
        clock.advance(Duration::from_millis(10));
        let held = limiter.len();
        dropped_on_the_way += (most + 1_usize).saturating_sub(held);
        most = held;
    }
    clock.advance(Duration::from_secs(120));
    let swept = limiter.sweep();
    assert_eq!((limiter.len(), dropped_on_the_way + swept), (0, 5000));
}

#[test]
fn clients_whose_time_has_passed_are_swept() {
    let clock = ManualClock::new();
    let quota = Quota::per(10, Duration::from_secs(5));
    are_swept(&Limiter::token_bucket(Quota::per_second(2).burst(10)).clock(clock.clone()).build().unwrap(), &clock);
    are_swept(&Limiter::sliding_log(quota).clock(clock.clone()).build().unwrap(), &clock);
    for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
        are_swept(&Limiter::fixed_window(quota).anchor(anchor).clock(clock.clone()).build().unwrap(), &clock);
        are_swept(&Limiter::sliding_counter(quota).anchor(anchor).clock(clock.clone()).build().unwrap(), &clock);
        are_swept(&Limiter::sliding_counter(quota).strict().clock(clock.clone()).build().unwrap(), &clock);
    }
}

#[test]
fn a_gate_has_every_algorithm() {
    fn at_most<A: Algorithm>(gate: &Gate<A, ManualClock>, clock: &ManualClock, limit: u64) {
        let allowed = gate.check_n(limit).unwrap();
        assert_eq!((allowed.limit(), allowed.remaining()), (limit, 0));
        let denied = gate.check().unwrap_err();
        clock.advance(denied.retry_after().unwrap() - Duration::from_nanos(1));
        assert!(!gate.allow());
        clock.advance(Duration::from_nanos(1));
        assert!(gate.allow());
        gate.reset();
        assert_eq!((gate.peek().remaining(), gate.refund(1)), (limit, 0));
    }
    let clock = ManualClock::new();
    at_most(&Gate::token_bucket(per_10_s(7)).clock(clock.clone()).build().unwrap(), &clock, 7);
    at_most(&Gate::sliding_log(per_10_s(7)).clock(clock.clone()).build().unwrap(), &clock, 7);
    for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
        at_most(&Gate::fixed_window(per_10_s(7)).anchor(anchor).clock(clock.clone()).build().unwrap(), &clock, 7);
        at_most(&Gate::sliding_counter(per_10_s(7)).anchor(anchor).clock(clock.clone()).build().unwrap(), &clock, 7);
        at_most(
            &Gate::sliding_counter(per_10_s(7)).anchor(anchor).strict().clock(clock.clone()).build().unwrap(),
            &clock,
            7,
        );
    }
}
