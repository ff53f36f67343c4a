//! Sliding logs: never more than the limit in any window, whoever calls with whatever clock.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use tollgate::model::{Map, Stop};

/// The first call at this instant also looks after the table, which is then left alone.
const START: u64 = WINDOW;
/// When what was called at the start has expired, and just before.
const END: u64 = START + WINDOW;
const BEFORE: u64 = END - 1;

type Logs = Map<SlidingLog>;

/// A call of client 0; until when it counts.
fn take(map: &Logs, limit: u64, now: u64) -> Option<u64> {
    charge_until(map, log(limit), now)
}

// Calls.

#[test]
fn calls_meet_at_the_last_place() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("calls_meet_at_the_last_place", move || {
        let map = charged(log(2), START);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || take(&a, 2, START + 3), move || take(&b, 2, START + 4));
        assert_ne!(passed.0.is_some(), passed.1.is_some(), "one place for two");
        outcomes.add(passed);
    });
    seen.are([(Some(END + 3), None), (None, Some(END + 4))]);
}

#[test]
fn calls_meet_an_expiry() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("calls_meet_an_expiry", move || {
        let map = charged(log(2), START);
        // By one clock the first event still counts, by the other no more.
        let (a, b) = (map.clone(), map.clone());
        let (early, late) = race(move || [take(&a, 2, BEFORE), take(&a, 2, BEFORE)], move || take(&b, 2, END));
        never_more_than(2, [Some(END), early[0], early[1], late]);
        assert_eq!(take(&map, 2, END), None, "two in the window");
        outcomes.add((early, late));
    });
    let (at_end, before) = (Some(END + WINDOW), Some(BEFORE + WINDOW));
    seen.are([([before, None], at_end), ([at_end, None], at_end)]);
}

#[test]
fn calls_meet_in_a_full_log_of_which_one_event_expires() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("calls_meet_in_a_full_log_of_which_one_event_expires", move || {
        let map = charged(log(2), START);
        let second = take(&map, 2, START + 1);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || take(&a, 2, END), move || (take(&b, 2, BEFORE), take(&b, 2, END)));
        never_more_than(2, [Some(END), second, passed.0, passed.1.0, passed.1.1]);
        assert_eq!(passed.1.0, None, "full at that instant, and full again when the other was first");
        assert_ne!(passed.0, passed.1.1, "one place for two");
        outcomes.add(passed);
    });
    let passed = Some(END + WINDOW);
    seen.are([(passed, (None, None)), (None, (None, passed))]);
}

// What is taken back.

#[test]
fn a_refund_meets_a_call() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_refund_meets_a_call", move || {
        let map = charged(log(1), START);
        let (a, b) = (map.clone(), map.clone());
        let (passed, refunded) =
            race(move || take(&a, 1, START), move || b.refund(b.locate(&b.pin(), client(0)), START, 1));
        assert_eq!(refunded, 1);
        assert_eq!(take(&map, 1, START).is_some(), passed.is_none());
        outcomes.add(passed);
    });
    seen.are([None, Some(END)]);
}

#[test]
fn a_reset_meets_a_call() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_reset_meets_a_call", move || {
        let map = charged(log(2), START);
        let (a, b) = (map.clone(), map.clone());
        let (passed, reset) = race(move || take(&a, 2, START), move || b.reset(b.locate(&b.pin(), client(0)), START));
        assert!(passed.is_some() && reset);
        // The call before the reset is forgiven, the one after it counts.
        outcomes.add(remaining(&map, log(2), START));
    });
    seen.are([1, 2]);
}

#[test]
fn a_receipt_meets_a_call() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_receipt_meets_a_call", move || {
        let map = map(log(2));
        let receipt = charge_for_receipt(&map, log(2), START).unwrap();
        let (a, b) = (map.clone(), map.clone());
        let (passed, returned) =
            race(move || [take(&a, 2, START + 1), take(&a, 2, START + 1)], move || give_back(&b, START + 1, receipt));
        assert_eq!((returned, passed[0]), (1, Some(END + 1)), "that very event, and no other");
        never_more_than(2, passed);
        assert_eq!(remaining(&map, log(2), START + 1), 2 - passed.iter().flatten().count() as u64);
        outcomes.add(passed[1]);
    });
    seen.are([None, Some(END + 1)]);
}

#[test]
fn a_call_whose_clock_is_late_finds_no_room_in_what_was_given_back() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_call_whose_clock_is_late_finds_no_room_in_what_was_given_back", move || {
        let map = charged(log(1), START);
        // At the end the first event is forgotten, and the call that forgot it given back: a call just before must not
        // count from before.
        let (a, b) = (map.clone(), map.clone());
        let (late, returned) = race(
            move || take(&a, 1, BEFORE),
            move || {
                let receipt = charge_for_receipt(&b, log(1), END).expect("the first has expired");
                give_back(&b, END, receipt)
            },
        );
        assert_eq!(returned, 1);
        never_more_than(1, [Some(END), late, take(&map, 1, BEFORE + WINDOW)]);
        outcomes.add(late);
    });
    seen.are([None, Some(END + WINDOW)]);
}

#[test]
fn a_call_whose_clock_is_late_meets_a_reset_and_the_drop_of_what_it_left() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(2, "a_call_whose_clock_is_late_meets_a_reset_and_the_drop_of_what_it_left", move || {
        let map = charged(log(1), START);
        assert!(charge(&map, client(0), END));
        assert!(map.reset(map.locate(&map.pin(), client(0)), END));
        // Whoever starts the migration is late, too: by its clock the emptied log is needed.
        map.start_migration(&map.pin(), BEFORE);
        let (a, b) = (map.clone(), map.clone());
        let (late, ()) = race(move || take(&a, 1, BEFORE), move || b.help_once(&b.pin()));
        never_more_than(1, [Some(END), late]);
        outcomes.add(late);
    });
    seen.are([Some(END + WINDOW)]);
}

// Migration.

#[test]
fn a_call_meets_the_move_of_a_log() {
    model("a_call_meets_the_move_of_a_log", move || {
        let map = charged(log(2), START);
        map.start_migration(&map.pin(), START);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(0), START), move || b.help_once(&b.pin()));
        assert!(passed);
        assert!(!charge(&map, client(0), START), "one place was left");
        finish(&map);
        assert_eq!(map.len(), 1);
    });
}

#[test]
fn a_call_whose_clock_is_late_meets_the_drop_of_a_log() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_call_whose_clock_is_late_meets_the_drop_of_a_log", move || {
        let map = charged(log(1), START);
        let (a, b) = (map.clone(), map.clone());
        let (late, ()) = race(
            move || take(&a, 1, BEFORE),
            move || {
                b.start_migration(&b.pin(), END);
                b.help_once(&b.pin());
            },
        );
        never_more_than(1, [Some(END), late, take(&map, 1, BEFORE + WINDOW)]);
        outcomes.add(late);
    });
    seen.are([None, Some(END + WINDOW)]);
}

#[test]
fn a_call_whose_clock_is_late_meets_a_sweep() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(1, "a_call_whose_clock_is_late_meets_a_sweep", move || {
        let map = charged(log(1), START);
        let (a, b) = (map.clone(), map.clone());
        let (late, dropped) = race(move || take(&a, 1, BEFORE), move || b.sweep(END));
        assert!(dropped <= 1);
        never_more_than(1, [Some(END), late, take(&map, 1, BEFORE + WINDOW)]);
        outcomes.add(late);
    });
    seen.are([None, Some(END + WINDOW)]);
}

/// A helper stops for good at `stop` of a migration that starts at `floor`, while another thread calls when the log's
/// event has expired, and then does all that is left.
fn nobody_waits_for_a_helper_that_stops(name: &str, floor: u64, stop: Stop) {
    model(name, move || {
        let map = charged(log(1), START);
        map.start_migration(&map.pin(), floor);
        let (a, b) = (map.clone(), map.clone());
        let ((), late) = race(move || a.stall(&a.pin(), client(0), stop), move || (take(&b, 1, END), take(&b, 1, END)));
        assert_eq!(late, (Some(END + WINDOW), None));
        finish(&map);
        // A helper that stops before its accounts withholds the place of the client that it dropped.
        assert!((1..=2).contains(&map.len()));
        assert_eq!(take(&map, 1, END + BEFORE - START), None);
    });
}

#[test]
fn nobody_waits_for_a_helper_that_has_begun_a_log() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_begun_a_log", BEFORE, Stop::Begun);
}

#[test]
fn nobody_waits_for_a_helper_that_has_frozen_a_log() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_frozen_a_log", BEFORE, Stop::Frozen);
}

#[test]
fn nobody_waits_for_a_helper_that_has_claimed_a_place_for_a_log() {
    let name = "nobody_waits_for_a_helper_that_has_claimed_a_place_for_a_log";
    nobody_waits_for_a_helper_that_stops(name, BEFORE, Stop::Claimed);
}

#[test]
fn nobody_waits_for_a_helper_that_has_installed_a_log() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_installed_a_log", BEFORE, Stop::Installed);
}

#[test]
fn nobody_waits_for_a_helper_that_has_moved_a_log() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_moved_a_log", BEFORE, Stop::Finished);
}

#[test]
fn nobody_waits_for_a_helper_that_has_frozen_an_expired_log() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_frozen_an_expired_log", END, Stop::Frozen);
}

#[test]
fn nobody_waits_for_a_helper_that_has_dropped_a_log() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_dropped_a_log", END, Stop::Finished);
}
