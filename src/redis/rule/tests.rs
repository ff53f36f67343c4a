use super::*;
use std::time::Duration;

#[test]
fn rates_are_in_lowest_terms_of_microseconds() {
    let bucket = |quota: &str| Rule::token_bucket(quota.parse().unwrap()).unwrap().numbers();
    assert_eq!(bucket("10/s"), [100_000, 1, 0]);
    assert_eq!(bucket("7/s"), [1_000_000, 7, 0]);
    assert_eq!(bucket("3/us;burst=40"), [1, 3, 0]);
    assert_eq!(bucket("2/3ns"), [3, 2000, 0]);
    assert_eq!(bucket("1/d"), [86_400_000_000, 1, 0]);
}

/// No number of a script may leave 2^53, at whatever bound a rule is.
#[test]
fn the_largest_rules_stay_exact() {
    let last = u128::from(EXACT - 1);
    for quota in
        [Quota::per_day(1), Quota::per_second(7), Quota::per_second(999_983), Quota::per(1, Duration::from_nanos(3))]
    {
        let Err(SetupError::BurstTooLarge { most, .. }) = Rule::token_bucket(quota.burst(u64::MAX)) else {
            panic!("{quota} has no bound");
        };
        let rule = Rule::token_bucket(quota.burst(most)).unwrap();
        let [parts, refill, _] = rule.numbers();
        assert!(u128::from(most) * u128::from(parts) <= last);
        // The time to refill, beside one by which a clock may be behind.
        assert!(most * parts / refill + 1 + LAST <= EXACT, "{quota}");
        assert!(u128::from(most + 1) * u128::from(parts) > last || (most + 1) * parts / refill > LAST, "{quota}");
    }
    for period in [1, 7, 1_000_000, 86_400_000_000, LONGEST] {
        let quota = |count| Quota::per(count, Duration::from_micros(period));
        let counter = |count| Rule::sliding_counter(quota(count), Anchor::Aligned, false);
        let Err(SetupError::LimitTooLarge { most, .. }) = counter(EXACT) else { panic!("{period} has no bound") };
        assert!((u128::from(most) + 1) * u128::from(period) <= last);
        assert!(counter(most).is_ok() && counter(most + 1).is_err());
        assert!(LAST + 2 * period <= EXACT);
    }
}

/// Answers from a state of an earlier instant are those of the state brought up to now.
#[test]
fn answers_follow_from_earlier_states() {
    let rule = Rule::token_bucket("2/s;burst=4".parse().unwrap()).unwrap();
    let state = rule.after(4, 1_000_000);
    let at = |now, cost| {
        let Answers { remaining, reset_after, retry_after, .. } = rule.answers(state, now, cost);
        (remaining, reset_after, retry_after)
    };
    assert_eq!(at(1_000_000, 1), (0, 2_000_000, Some(500_000)));
    assert_eq!(at(1_499_999, 1), (0, 1_500_001, Some(1)));
    assert_eq!(at(1_500_000, 1), (1, 1_500_000, Some(0)));
    assert_eq!(at(9_000_000, 5), (4, 0, None));
    // A clock that is behind the state has to catch up first.
    assert_eq!(at(0, 1), (0, 3_000_000, Some(1_500_000)));

    let rule = Rule::sliding_counter("10/10s".parse().unwrap(), Anchor::Aligned, false).unwrap();
    let state = rule.after(10, 1_000_000);
    let at = |now| rule.answers(state, now, 1);
    assert_eq!(at(1_000_000).retry_after, Some(9_000_001));
    assert_eq!((at(15_000_000).remaining, at(15_000_000).retry_after), (5, Some(0)));
    assert_eq!((at(25_000_000).remaining, at(25_000_000).reset_after), (10, 0));
}
