//! Fixed windows and sliding counters: what a window may hold is never exceeded, on whichever side of its end a clock is.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use tollgate::model::Map;

/// In the first window, at its end, and when the window after it ends.
const NOW: u64 = WINDOW - 1;
const END: u64 = WINDOW;
const LAST: u64 = END + WINDOW;

fn aligned(limit: u64) -> FixedWindow {
    fixed(limit, Anchor::Aligned)
}

fn first_request(limit: u64) -> FixedWindow {
    fixed(limit, Anchor::FirstRequest)
}

fn reset<A: Algorithm>(map: &Map<A>, now: u64) -> bool {
    map.reset(map.locate(&map.pin(), client(0)), now)
}

// Calls in one window.

fn calls_meet_at_the_last_place(name: &str, algorithm: impl Algorithm) {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model(name, move || {
        let map = charged(algorithm, NOW);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || charge(&a, client(0), NOW), move || charge(&b, client(0), NOW));
        assert_ne!(passed.0, passed.1, "one place for two");
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn calls_meet_at_the_last_place_of_a_fixed_window() {
    calls_meet_at_the_last_place("calls_meet_at_the_last_place_of_a_fixed_window", aligned(2));
}

#[test]
fn calls_meet_at_the_last_place_of_a_sliding_counter() {
    calls_meet_at_the_last_place("calls_meet_at_the_last_place_of_a_sliding_counter", counter(2));
}

// Calls in two windows.

#[test]
fn calls_meet_at_the_end_of_a_fixed_window() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("calls_meet_at_the_end_of_a_fixed_window", move || {
        let map = charged(aligned(2), NOW);
        let take = |map: &Map<_>, now| charge_until(map, aligned(2), now);
        let (a, b) = (map.clone(), map.clone());
        let (early, late) = race(move || [take(&a, NOW), take(&a, NOW)], move || [take(&b, END), take(&b, END)]);
        let calls = [Some(END), early[0], early[1], late[0], late[1]];
        for end in [END, LAST] {
            assert!(calls.iter().filter(|call| **call == Some(end)).count() <= 2, "over 2 in a window: {calls:?}");
        }
        assert_eq!(take(&map, END).is_some(), calls.iter().filter(|call| **call == Some(LAST)).count() < 2);
        outcomes.add((early, late));
    });
    let (one, other) = (Some(END), Some(LAST));
    seen.are([
        ([one, None], [other, other]),
        ([one, other], [other, None]),
        ([other, None], [other, None]),
        ([None, None], [other, other]),
    ]);
}

#[test]
fn calls_meet_at_the_end_of_a_sliding_counters_window() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("calls_meet_at_the_end_of_a_sliding_counters_window", move || {
        let map = charged(counter(2), NOW);
        // When the next window starts, the whole of the last one counts; in its middle, half.
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || charge(&a, client(0), NOW), move || charge(&b, client(0), END));
        assert_ne!(passed.0, passed.1, "one place for two");
        let left = (remaining(&map, counter(2), END), remaining(&map, counter(2), END + WINDOW / 2));
        outcomes.add((passed, left));
    });
    // Two in the last window of which half count after half of this one, or one in each: one and a half.
    seen.are([((true, false), (0, 1)), ((false, true), (0, 1))]);
}

#[test]
fn first_requests_meet() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("first_requests_meet", move || {
        let map = map(first_request(2));
        let take = |map: &Map<_>, now| charge_until(map, first_request(2), now);
        let (a, b) = (map.clone(), map.clone());
        let calls = race(move || take(&a, NOW), move || take(&b, NOW + 2));
        assert!(calls.0.is_some() && calls.0 == calls.1, "both in the window that the first of them began");
        assert_eq!(take(&map, NOW + WINDOW - 1), None);
        outcomes.add((calls.0, take(&map, NOW + WINDOW)));
    });
    seen.are([(Some(NOW + WINDOW), Some(NOW + 2 * WINDOW)), (Some(NOW + 2 + WINDOW), None)]);
}

#[test]
fn a_first_request_meets_the_end_of_a_window() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_first_request_meets_the_end_of_a_window", move || {
        let map = charged(first_request(1), NOW);
        let take = |map: &Map<_>, now| charge_until(map, first_request(1), now);
        let (a, b) = (map.clone(), map.clone());
        let calls = race(move || take(&a, NOW + WINDOW - 1), move || take(&b, NOW + WINDOW));
        assert_eq!(calls, (None, Some(NOW + 2 * WINDOW)));
        outcomes.add(calls);
    });
    seen.are([(None, Some(NOW + 2 * WINDOW))]);
}

/// What was called in the first window counts at `late`, and no more at `end`, when the next call is given back: by a clock
/// that is late, nobody may be in the first window again, with nothing used.
fn a_late_clock_finds_no_room_in_a_window_that_is_over(name: &str, algorithm: impl Algorithm, late: u64, end: u64) {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model(name, move || {
        let map = charged(algorithm, NOW);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(
            move || charge(&a, client(0), late),
            move || {
                let receipt = charge_for_receipt(&b, algorithm, end).expect("the window is over");
                assert_eq!(give_back(&b, end, receipt), 1);
            },
        );
        assert_eq!(charge(&map, client(0), end + WINDOW / 2), !passed, "one in this window");
        outcomes.add(passed);
    });
    seen.are([false, true]);
}

#[test]
fn a_late_clock_finds_no_room_in_a_fixed_window_that_is_over() {
    let name = "a_late_clock_finds_no_room_in_a_fixed_window_that_is_over";
    a_late_clock_finds_no_room_in_a_window_that_is_over(name, aligned(1), NOW, END);
}

#[test]
fn a_late_clock_finds_no_room_in_a_window_of_a_first_request_that_is_over() {
    let name = "a_late_clock_finds_no_room_in_a_window_of_a_first_request_that_is_over";
    a_late_clock_finds_no_room_in_a_window_that_is_over(name, first_request(1), NOW + WINDOW - 1, NOW + WINDOW);
}

#[test]
fn a_late_clock_finds_no_room_in_a_sliding_counters_windows_that_are_over() {
    let name = "a_late_clock_finds_no_room_in_a_sliding_counters_windows_that_are_over";
    a_late_clock_finds_no_room_in_a_window_that_is_over(name, counter(1), END, LAST);
}

/// The same where what is left of the client is dropped by a migration whose starter's clock is late.
fn a_late_clock_drops_no_window_that_has_begun(name: &str, algorithm: impl Algorithm, late: u64, end: u64) {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model(name, move || {
        let map = charged(algorithm, NOW);
        assert!(charge(&map, client(0), end) && reset(&map, end));
        map.start_migration(&map.pin(), late);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(0), late), move || b.help_once(&b.pin()));
        assert!(passed && !charge(&map, client(0), end + WINDOW / 2), "one in this window");
        outcomes.add(passed);
    });
    seen.are([true]);
}

#[test]
fn a_late_clock_drops_no_fixed_window_that_has_begun() {
    let name = "a_late_clock_drops_no_fixed_window_that_has_begun";
    a_late_clock_drops_no_window_that_has_begun(name, aligned(1), NOW, END);
}

#[test]
fn a_late_clock_drops_no_sliding_counters_window_that_has_begun() {
    let name = "a_late_clock_drops_no_sliding_counters_window_that_has_begun";
    a_late_clock_drops_no_window_that_has_begun(name, counter(1), END, LAST);
}

// Migration.

fn a_call_meets_the_move(name: &str, algorithm: impl Algorithm) {
    model(name, move || {
        let map = charged(algorithm, NOW);
        map.start_migration(&map.pin(), NOW);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(0), NOW), move || b.help_once(&b.pin()));
        assert!(passed);
        assert!(!charge(&map, client(0), NOW), "one place was left");
        finish(&map);
        assert_eq!(map.len(), 1);
    });
}

#[test]
fn a_call_meets_the_move_of_a_fixed_window() {
    a_call_meets_the_move("a_call_meets_the_move_of_a_fixed_window", aligned(2));
}

#[test]
fn a_call_meets_the_move_of_a_sliding_counter() {
    a_call_meets_the_move("a_call_meets_the_move_of_a_sliding_counter", counter(2));
}

/// A client is dropped at the end of its last window, while a call comes by a clock that says it is not.
fn a_late_call_meets_the_drop(name: &str, algorithm: impl Algorithm, late: u64, end: u64) {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model(name, move || {
        let map = charged(algorithm, NOW);
        map.start_migration(&map.pin(), end);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(0), late), move || b.help_once(&b.pin()));
        // Whoever takes what the new window holds, it is one.
        assert_eq!(charge(&map, client(0), end), !passed);
        finish(&map);
        assert_eq!(map.len(), 1);
        outcomes.add(passed);
    });
    seen.are([false, true]);
}

#[test]
fn a_late_call_meets_the_drop_of_a_fixed_window() {
    a_late_call_meets_the_drop("a_late_call_meets_the_drop_of_a_fixed_window", aligned(1), NOW, END);
}

#[test]
fn a_late_call_meets_the_drop_of_a_sliding_counter() {
    a_late_call_meets_the_drop("a_late_call_meets_the_drop_of_a_sliding_counter", counter(1), END, LAST);
}
