use super::*;
use crate::{Gate, Limiter, ManualClock, Quota, TokenBucket};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

type Manual = Limiter<TokenBucket, ManualClock>;

fn limiter(text: &str, clock: &ManualClock) -> Manual {
    Limiter::token_bucket(text.parse().unwrap()).clock(clock.clone()).build().unwrap()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[test]
fn a_refusal_by_one_limit_charges_none() {
    let clock = ManualClock::new();
    let (second, day) = (limiter("10/s", &clock), limiter("1000/d", &clock));
    let passed = (0..500).filter(|_| check_all([second.demand("a", 1), day.demand("a", 1)]).is_ok()).count();
    assert_eq!((passed, day.peek("a").remaining()), (10, 990));

    let (five, one) = (limiter("5/min", &clock), limiter("1/min", &clock));
    let passed = (0..5).filter(|_| check_all([five.demand("a", 1), one.demand("b", 1)]).is_ok()).count();
    assert_eq!((passed, five.peek("a").remaining()), (1, 4));
}

#[test]
fn the_order_of_the_list_changes_no_answer() {
    for reversed in [false, true] {
        let clock = ManualClock::new();
        let (minute, second) = (limiter("2/min", &clock), limiter("1/s", &clock));
        let check = |at: f64| {
            clock.set(seconds(at));
            let mut demands = [minute.demand("a", 1), second.demand("a", 1)];
            if reversed {
                demands.reverse();
            }
            check_all(demands).map(drop).map_err(|denied| denied.retry_after())
        };
        assert_eq!(check(0.0), Ok(()));
        assert_eq!(check(0.1), Err(Some(seconds(0.9))));
        assert_eq!(check(1.0), Ok(()));
        // Both refuse: the minute's wait is the longer one.
        assert_eq!(check(1.5), Err(Some(seconds(28.5))));
        assert_eq!(check(2.0), Err(Some(seconds(28.0))));
    }
}

#[test]
fn a_limit_listed_twice_is_asked_for_the_sum() {
    let clock = ManualClock::new();
    let (limit, other) = (limiter("10/s", &clock), limiter("100/s", &clock));
    let ask = |first, second| {
        check_all([limit.demand("a", first), other.demand("a", 1), limit.demand("a", second), limit.demand("b", 1)])
    };
    let allowed = ask(3, 4).unwrap();
    assert!(allowed.iter().map(Allowed::remaining).eq([3, 99, 3, 9]));

    let denied = ask(2, 2).unwrap_err();
    assert!(denied.denied().map(|(place, one)| (place, one.remaining())).eq([(0, 3), (2, 3)]));
    assert_eq!((denied.reason(), denied.retry_after()), (Reason::Limited, Some(seconds(0.1))));
    // Each fits for itself, and the sum never does.
    let denied = ask(5, 6).unwrap_err();
    assert_eq!((denied.reason(), denied.retry_after()), (Reason::Never, None));
    assert_eq!(ask(u64::MAX, u64::MAX).unwrap_err().reason(), Reason::Never);

    // Each has a receipt for its own part.
    let mut parts = allowed.into_iter();
    assert_eq!(parts.next().unwrap().give_back(), 3);
    assert_eq!(limit.peek("a").remaining(), 6);
    assert_eq!(parts.map(Allowed::give_back).sum::<u64>(), 6);
    assert_eq!((limit.peek("a").remaining(), limit.peek("b").remaining(), other.peek("a").remaining()), (10, 10, 100));
}

#[test]
fn what_can_never_be_met_has_no_wait_whatever_the_others_say() {
    let clock = ManualClock::new();
    let (small, large) = (limiter("2/s", &clock), limiter("5/min", &clock));
    assert!(large.check_n("a", 5).is_ok());
    let denied = check_all([large.demand("a", 3), small.demand("a", 3)]).unwrap_err();
    assert!(denied.denied().map(|(place, one)| (place, one.reason())).eq([(0, Reason::Limited), (1, Reason::Never)]));
    assert_eq!((denied.reason(), denied.retry_after()), (Reason::Never, None));
    assert_eq!(denied.to_string(), "refused by 2 of 2 limits, for good");
}

#[test]
fn a_success_is_given_back_as_a_whole() {
    let clock = ManualClock::new();
    let (limit, gate) = (limiter("10/s", &clock), Gate::token_bucket(Quota::per_second(10)).build().unwrap());
    let allowed = check_all([limit.demand("a", 4), gate.demand(0)]).unwrap();
    clock.advance(seconds(0.1));
    assert_eq!(allowed.give_back(), 3);
    assert_eq!(limit.peek("a").remaining(), 10);
}

#[test]
fn limits_of_all_algorithms_can_be_charged_together() {
    let (clock, quota) = (ManualClock::new(), Quota::per_second(10));
    let bucket = Limiter::token_bucket(quota).clock(clock.clone()).build().unwrap();
    let window = Limiter::fixed_window(quota).clock(clock.clone()).build().unwrap();
    let log = Limiter::sliding_log(quota).clock(clock.clone()).build().unwrap();
    let counter = Gate::sliding_counter(quota).clock(clock.clone()).build().unwrap();
    let smallest = limiter("5/s", &clock);
    let ask = |cost| {
        check_all([
            counter.demand(cost),
            smallest.demand("a", 1),
            log.demand("a", 1),
            bucket.demand("a", cost),
            window.demand("a", cost),
            log.demand("a", cost - 1),
        ])
    };
    let left = || {
        let limits = [bucket.peek("a"), window.peek("a"), log.peek("a"), counter.peek()];
        limits.map(|status| status.remaining())
    };
    let allowed = ask(6).unwrap();
    assert!(allowed.iter().map(Allowed::remaining).eq([4, 4, 4, 4, 4, 4]));
    let denied = ask(5).unwrap_err();
    assert_eq!((denied.denied().count(), left()), (5, [4; 4]));
    assert!(ask(2).is_ok());
    let mut parts = allowed.into_iter();
    assert_eq!(parts.nth(2).unwrap().give_back(), 1);
    assert_eq!(left(), [2, 2, 3, 2]);
    assert_eq!(parts.map(Allowed::give_back).collect::<Vec<_>>(), [6, 6, 5]);
    assert_eq!(left(), [8, 8, 8, 2]);
}

#[test]
fn one_of_two_receipts_can_be_given_back() {
    let clock = ManualClock::new();
    let (forgiving, strict) = (limiter("20/s", &clock), limiter("20/s", &clock));
    for _ in 0..10 {
        let both = check_all([forgiving.demand("a", 1), strict.demand("a", 1)]).unwrap();
        both.into_iter().next().unwrap().give_back();
    }
    assert_eq!((forgiving.peek("a").remaining(), strict.peek("a").remaining()), (20, 10));
}

#[test]
fn a_full_limiter_is_found_last_and_charges_nobody() {
    let clock = ManualClock::new();
    let full = Limiter::token_bucket(Quota::per_hour(1)).clock(clock.clone()).max_keys(8).build().unwrap();
    let stranger = (0..).find(|client| !full.allow(client)).unwrap();
    let open = limiter("5/h", &clock);
    for reversed in [false, true] {
        let mut demands = [full.demand(&stranger, 1), open.demand(&stranger, 1)];
        if reversed {
            demands.reverse();
        }
        let denied = check_all(demands).unwrap_err();
        assert_eq!((denied.reason(), denied.denied().count()), (Reason::Full, 1));
        assert_eq!(open.peek(&stranger).remaining(), 5);
    }
}

#[test]
fn nothing_asked_is_allowed() {
    assert_eq!(check_all([]).unwrap().iter().count(), 0);
    let limit = limiter("1/s", &ManualClock::new());
    assert!(limit.allow("a"));
    assert!(check_all([limit.demand("a", 0), limit.demand("b", 1)]).is_ok());
}

#[test]
fn of_two_who_are_after_the_last_tokens_of_both_one_gets_them() {
    let clock = ManualClock::new();
    for _ in 0..2_000 {
        let limits = [limiter("1/h", &clock), limiter("1/h", &clock)];
        let (start, passed) = (Barrier::new(2), AtomicU64::new(0));
        thread::scope(|scope| {
            for first in [0, 1] {
                let (limits, start, passed) = (&limits, &start, &passed);
                scope.spawn(move || {
                    let demands = [limits[first].demand("a", 1), limits[1 - first].demand("a", 1)];
                    start.wait();
                    passed.fetch_add(check_all(demands).is_ok().into(), Relaxed);
                });
            }
        });
        assert_eq!(passed.into_inner(), 1);
        assert!(limits.iter().all(|limit| limit.peek("a").remaining() == 0));
    }
}

/// A bucket in plain numbers: units of a nanosecond times the count.
#[derive(Clone)]
struct Plain {
    count: u64,
    level: u64,
}

/// One limit of the oracle, `count` a second with as much burst.
const SECOND: u64 = 1_000_000_000;

impl Plain {
    fn missing(&self, cost: u64) -> u64 {
        (cost * SECOND).saturating_sub(self.level)
    }
}

#[derive(Debug, Clone)]
struct Call {
    pause: u64,
    /// Limit, client and cost.
    demands: Vec<(usize, u8, u64)>,
    turn: usize,
    give_back: bool,
}

fn any_call() -> impl Strategy<Value = Call> {
    (0..SECOND, vec((0..3_usize, 0..2_u8, 0..4_u64), 0..7), 0..7_usize, any::<bool>())
        .prop_map(|(pause, demands, turn, give_back)| Call { pause, demands, turn, give_back })
}

/// The counts of the limits: of the exact class.
const COUNTS: [u64; 3] = [1, 2, 4];

proptest! {
    /// Against plain buckets, and against the same calls with each list turned and reversed.
    #[test]
    fn answers_are_those_of_plain_buckets_in_any_order(calls in vec(any_call(), 1..30)) {
        let clock = ManualClock::new();
        let make = || COUNTS.map(|count| limiter(&format!("{count}/s"), &clock));
        let (straight, turned) = (make(), make());
        let mut plain: HashMap<(usize, u8), Plain> = HashMap::new();
        for Call { pause, demands, turn, give_back } in calls {
            clock.advance(Duration::from_nanos(pause));
            for Plain { count, level } in plain.values_mut() {
                *level = (*level + *count * pause).min(*count * SECOND);
            }
            let mut sums: HashMap<(usize, u8), u64> = HashMap::new();
            for &(limit, client, cost) in &demands {
                let count = COUNTS[limit];
                plain.entry((limit, client)).or_insert(Plain { count, level: count * SECOND });
                *sums.entry((limit, client)).or_default() += cost;
            }
            let refusing = |at: (usize, u8)| plain[&at].missing(sums[&at]) > 0;
            let never = sums.iter().any(|(at, &sum)| sum > plain[at].count);
            let wait = sums.iter().map(|(at, &sum)| plain[at].missing(sum).div_ceil(plain[at].count)).max();

            let mut order: Vec<usize> = (0..demands.len()).collect();
            order.rotate_left(turn.min(demands.len()));
            order.reverse();
            let ask = |limits: &[Manual; 3], order: &[usize]| {
                check_all(order.iter().map(|&at| demands[at]).map(|(limit, client, cost)| {
                    limits[limit].demand(&client, cost)
                }))
            };
            let as_listed: Vec<usize> = (0..demands.len()).collect();
            match (ask(&straight, &as_listed), ask(&turned, &order)) {
                (Ok(one), Ok(other)) => {
                    prop_assert!(!sums.keys().any(|&at| refusing(at)));
                    for (at, &sum) in &sums {
                        plain.get_mut(at).unwrap().level -= sum * SECOND;
                    }
                    let expected = |at: &usize| {
                        let (limit, client, _) = demands[*at];
                        plain[&(limit, client)].level / SECOND
                    };
                    prop_assert!(one.iter().map(Allowed::remaining).eq(as_listed.iter().map(expected)));
                    prop_assert!(other.iter().map(Allowed::remaining).eq(order.iter().map(expected)));
                    if give_back {
                        prop_assert_eq!(one.give_back(), sums.values().sum::<u64>());
                        other.give_back();
                        for (at, &sum) in &sums {
                            plain.get_mut(at).unwrap().level += sum * SECOND;
                        }
                    }
                }
                (Err(one), Err(other)) => {
                    let wait = if never { None } else { wait.map(Duration::from_nanos) };
                    for (denied, order) in [(one, &as_listed), (other, &order)] {
                        prop_assert_eq!(denied.retry_after(), wait);
                        prop_assert_eq!(denied.reason() == Reason::Never, never);
                        for (outcome, &at) in denied.outcomes().zip(order) {
                            let (limit, client, _) = demands[at];
                            prop_assert_eq!(outcome.is_err(), refusing((limit, client)));
                            let remaining = outcome.map_or_else(Denied::remaining, Status::remaining);
                            prop_assert_eq!(remaining, plain[&(limit, client)].level / SECOND);
                        }
                    }
                }
                (one, other) => prop_assert!(false, "{:?} and {:?}", one, other),
            }
        }
    }
}
