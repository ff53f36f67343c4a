use super::*;
use crate::{Limiter, ManualClock, Quota, Status};
use proptest::prelude::*;
use sfv::{BareItem, Key, List, ListEntry, Parser};

/// What a limiter of `quota` says about a call of `cost`, once `used` were taken and `pause` went by.
fn answer(name: &'static str, quota: Quota, used: u64, pause: Duration, cost: u64) -> Answer {
    let clock = ManualClock::new();
    let limiter = Limiter::token_bucket(quota).clock(clock.clone()).build().unwrap();
    limiter.check_n("a", used).unwrap();
    clock.advance(pause);
    Answer {
        layer: 0,
        place: 0,
        policy: name.into(),
        shadow: false,
        window: limiter.window(),
        partition: None,
        outcome: limiter.check_n("a", cost).map(|allowed| Status::from(&allowed)),
        returned: 0,
    }
}

fn written(headers: Headers, answers: impl IntoIterator<Item = Answer>) -> HeaderMap {
    let (mut decision, mut map) = (Decision::default(), HeaderMap::new());
    answers.into_iter().for_each(|answer| decision.push(answer));
    headers.write(&decision, &mut map);
    map
}

fn text(map: &HeaderMap, name: &str) -> String {
    map.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

fn burst_and_hourly() -> [Answer; 2] {
    [
        answer("burst", Quota::per_second(10), 10, Duration::ZERO, 1),
        answer("hourly", Quota::per_hour(1000), 1, Duration::ZERO, 0),
    ]
}

#[test]
fn each_version_of_the_draft_has_its_parameters() {
    for (draft, limit) in [
        (Draft::Bridge, r#""burst";r=0;t=1;a=0;w=1"#),
        (Draft::V11, r#""burst";r=0;t=1"#),
        (Draft::V12, r#""burst";a=0;w=1"#),
    ] {
        let map = written(Headers::rate_limit(draft), burst_and_hourly());
        assert_eq!(text(&map, "ratelimit-policy"), r#""burst";q=10;w=1, "hourly";q=1000;w=3600"#);
        assert_eq!(text(&map, "ratelimit"), limit);
    }
}

#[test]
fn without_a_refusal_all_policies_say_what_is_left() {
    let [_, hourly] = burst_and_hourly();
    let burst = answer("burst", Quota::per_second(10), 4, Duration::ZERO, 2);
    let map = written(Headers::default(), [burst, hourly]);
    assert_eq!(text(&map, "ratelimit"), r#""burst";r=4;t=1;a=4;w=1, "hourly";r=999;t=4;a=999;w=4"#);
}

#[test]
fn the_older_headers_are_those_of_the_tightest_policy() {
    let map = written(Headers::x_rate_limit(Reset::After), burst_and_hourly());
    assert_eq!(
        ["limit", "remaining", "reset"].map(|what| text(&map, &format!("x-ratelimit-{what}"))),
        ["10", "0", "1"]
    );

    let map = written(Headers::x_rate_limit(Reset::Epoch), burst_and_hourly());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let reset: u64 = text(&map, "x-ratelimit-reset").parse().unwrap();
    assert!((now..=now + 2).contains(&reset), "{reset} at {now}");
}

#[test]
fn a_reset_is_rounded_up() {
    let one_hit = answer("a", Quota::per_minute(30).burst(16), 1, Duration::ZERO, 0);
    assert_eq!(text(&written(Headers::x_rate_limit(Reset::After), [one_hit]), "x-ratelimit-reset"), "2");
    let a_moment_later = answer("a", Quota::per_minute(30).burst(16), 1, Duration::from_nanos(1), 0);
    assert_eq!(text(&written(Headers::x_rate_limit(Reset::After), [a_moment_later]), "x-ratelimit-reset"), "2");
}

#[test]
fn shadows_say_nothing() {
    let [burst, hourly] = burst_and_hourly();
    let all = Headers::rate_limit(Draft::Bridge).and(Headers::x_rate_limit(Reset::After));
    let map = written(all, [Answer { shadow: true, ..burst }, hourly]);
    assert_eq!(text(&map, "ratelimit-policy"), r#""hourly";q=1000;w=3600"#);
    assert_eq!(text(&map, "x-ratelimit-remaining"), "999");
    assert!(written(all, []).is_empty());
}

#[test]
fn a_tighter_limit_further_in_keeps_the_older_headers() {
    let headers = Headers::x_rate_limit(Reset::After);
    let [_, hourly] = burst_and_hourly();
    let mut decision = Decision::default();
    decision.push(hourly);
    for (said, remains) in [("3", "3"), ("1000", "999"), ("no number", "999")] {
        let mut map = HeaderMap::new();
        map.insert(X_REMAINING, HeaderValue::from_static(said));
        headers.write(&decision, &mut map);
        assert_eq!(text(&map, "x-ratelimit-remaining"), remains);
    }
}

#[test]
fn numbers_stay_within_those_of_structured_fields() {
    let huge = answer("a", Quota::per(1 << 60, Duration::from_hours(24 * 365 * 20)), 1, Duration::ZERO, 0);
    let map = written(Headers::default(), [huge]);
    assert!(text(&map, "ratelimit").starts_with(r#""a";r=999999999999999;t=1;"#), "{map:?}");
    assert!(text(&map, "ratelimit-policy").contains("q=999999999999999;"));
}

#[test]
fn a_partition_key_is_the_base64_of_a_hash() {
    let [burst, _] = burst_and_hourly();
    for hash in [0, 1, 0x0123_4567_89AB_CDEF, u64::MAX] {
        let map = written(Headers::default(), [Answer { partition: Some(hash), ..burst.clone() }]);
        for field in ["ratelimit", "ratelimit-policy"] {
            let list: List = Parser::new(&text(&map, field)).parse().unwrap();
            let ListEntry::Item(item) = &list[0] else { panic!("{field} is no list of items") };
            let key = item.params.get(Key::from_string("pk".into()).unwrap().as_ref());
            assert_eq!(key, Some(&BareItem::ByteSequence(hash.to_be_bytes().into())), "{map:?}");
        }
    }
}

#[test]
fn names_are_those_that_need_no_escape() {
    for name in ["a", "burst", "a1_.-", "per-user.v2"] {
        assert!(is_name(name), "{name}");
    }
    for name in ["", "A", "1a", "_a", "-", "a b", "a\"", "a\\", "ä", "aB", "a\n"] {
        assert!(!is_name(name), "{name}");
    }
}

fn parameter(entry: &ListEntry, name: &str) -> Option<i64> {
    let ListEntry::Item(item) = entry else { return None };
    match item.params.get(Key::from_string(name.into()).unwrap().as_ref()) {
        Some(BareItem::Integer(number)) => Some((*number).into()),
        _ => None,
    }
}

fn name(entry: &ListEntry) -> Option<String> {
    let ListEntry::Item(item) = entry else { return None };
    item.bare_item.as_string().map(|name| name.as_str().to_owned())
}

proptest! {
    /// A parser of Structured Fields reads what is written, and no wait is longer than `Retry-After`.
    #[test]
    fn both_fields_are_lists_of_names_with_numbers(
        counts in (1..1000_u64, 1..1000_u64), used in (0..1000_u64, 0..1000_u64), pause in 0..100_000_000_000_u64,
        costs in (0..1001_u64, 0..1001_u64),
    ) {
        let pause = Duration::from_nanos(pause);
        let answers = [
            answer("one", Quota::per_minute(counts.0), used.0.min(counts.0), pause, costs.0),
            answer("two.v2", Quota::per_hour(counts.1), used.1.min(counts.1), pause, costs.1),
        ];
        let refused = answers.iter().any(Answer::refuses);
        let waits: Vec<_> = answers.iter().filter(|answer| answer.refuses()).map(Answer::retry_after).collect();
        let longest = waits.iter().copied().max().flatten().map(|wait| whole_seconds(wait).max(1));
        let map = written(Headers::default(), answers.clone());

        let policies: List = Parser::new(&text(&map, "ratelimit-policy")).parse().unwrap();
        let names: Vec<_> = policies.iter().filter_map(name).collect();
        prop_assert_eq!(names, ["one", "two.v2"]);
        for (entry, answer) in policies.iter().zip(&answers) {
            prop_assert_eq!(parameter(entry, "q"), Some(answer.limit() as i64));
            prop_assert!(parameter(entry, "w").unwrap() > 0);
        }

        let limits: List = Parser::new(&text(&map, "ratelimit")).parse().unwrap();
        let told = answers.iter().filter(|answer| !refused || answer.refuses());
        prop_assert_eq!(limits.len(), told.clone().count());
        for (entry, answer) in limits.iter().zip(told) {
            prop_assert_eq!(parameter(entry, "r"), Some(answer.remaining() as i64));
            prop_assert_eq!(parameter(entry, "a"), parameter(entry, "r"));
            prop_assert_eq!(parameter(entry, "w"), parameter(entry, "t"));
            let lasts = parameter(entry, "t").unwrap();
            prop_assert!(lasts >= 1);
            if let Some(longest) = longest.filter(|_| waits.iter().all(Option::is_some)) {
                prop_assert!(lasts <= longest as i64);
            }
        }
    }
}
