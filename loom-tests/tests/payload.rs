//! Payloads that are pointers, as those of a log: whoever reads one must see what it points to, and what no word holds any
//! more is freed once, when nobody can be reading it.
//!
//! loom reports a read of a log that may race with its writing. The quarantine behind the guards reports a log that is
//! reached after its retirement, or retired twice. Every log has to be freed at the end of a run, once, and none may be
//! read after that: so no model has to ask for it.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use std::sync::Arc;
use tollgate::model::{Charge, Map, Stop};

/// The first call at this instant also looks after the table, which is then left alone.
const NOW: u64 = WINDOW;
const THEN: u64 = NOW + WINDOW;

type Logs = Map<SlidingLog>;

fn take(map: &Logs) -> bool {
    charge(map, client(0), NOW)
}

fn refund(map: &Logs) -> u64 {
    map.refund(map.locate(&map.pin(), client(0)), NOW, 1)
}

/// A map whose client 0 has used one of two.
fn one_left() -> Arc<Logs> {
    charged(log(2), NOW)
}

/// The same with a migration started at an instant, whose chunks are begun, so that whoever comes does them again.
fn begun(now: u64) -> Arc<Logs> {
    let map = one_left();
    map.start_migration(&map.pin(), now);
    map.stall(&map.pin(), client(0), Stop::Begun);
    map.stall(&map.pin(), client(0), Stop::Begun);
    map
}

// Publication.

#[test]
fn a_payload_that_is_read_is_whole() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_payload_that_is_read_is_whole", move || {
        let map = one_left();
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || take(&a), move || take(&b));
        assert_ne!(passed.0, passed.1, "one for two");
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn a_payload_that_is_read_once_is_whole() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_payload_that_is_read_once_is_whole", move || {
        let map = one_left();
        let (a, b) = (map.clone(), map.clone());
        let (passed, left) = race(move || take(&a), move || remaining(&b, log(2), NOW));
        assert!(passed);
        outcomes.add(left);
    });
    seen.are([0, 1]);
}

#[test]
fn a_payload_that_is_moved_is_whole() {
    model("a_payload_that_is_moved_is_whole", move || {
        let map = one_left();
        map.start_migration(&map.pin(), NOW);
        let (a, b) = (map.clone(), map.clone());
        let (refunded, ()) = race(move || refund(&a), move || b.help_once(&b.pin()));
        assert_eq!(refunded, 1);
        map.migrate(&map.pin(), NOW);
        assert!(take(&map) && take(&map) && !take(&map));
    });
}

#[test]
fn a_payload_that_was_moved_by_another_is_whole() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(2, "a_payload_that_was_moved_by_another_is_whole", move || {
        let map = one_left();
        map.start_migration(&map.pin(), NOW);
        // Written by one, moved by the second, read by the third.
        let (a, b) = (map.clone(), map.clone());
        let writer = loom::thread::spawn(move || take(&a));
        let mover = loom::thread::spawn(move || b.help_once(&b.pin()));
        outcomes.add(remaining(&map, log(2), NOW));
        assert!(writer.join().unwrap());
        mover.join().unwrap();
    });
    seen.are([0, 1]);
}

#[test]
fn a_payload_that_a_late_helper_meets_is_whole() {
    model("a_payload_that_a_late_helper_meets_is_whole", move || {
        let map = begun(NOW);
        let (a, b) = (map.clone(), map.clone());
        let (refunded, ()) = race(move || refund(&a), move || b.help_once(&b.pin()));
        assert_eq!(refunded, 1);
    });
}

// Retirement.

#[test]
fn a_log_is_reached_by_nobody_who_pins_after_its_retirement() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_log_is_reached_by_nobody_who_pins_after_its_retirement", move || {
        let map = one_left();
        let (a, b) = (map.clone(), map.clone());
        let (passed, left) = race(move || take(&a), move || (remaining(&b, log(2), NOW), remaining(&b, log(2), NOW)));
        assert!(passed);
        outcomes.add(left);
    });
    seen.are([(1, 1), (1, 0), (0, 0)]);
}

#[test]
fn a_log_outlives_its_retirement_for_those_who_pinned_before() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_log_outlives_its_retirement_for_those_who_pinned_before", move || {
        let map = charged(log(3), NOW);
        let (a, b) = (map.clone(), map.clone());
        let (passed, (before, after, passed_too)) = race(
            move || take(&a),
            move || {
                let guard = b.pin();
                let (payload, now) = b.peek(b.locate(&guard, client(0)), NOW);
                let passed = charge_under(&guard, &b, client(0), NOW);
                // By now others may have replaced what this call has read, or written.
                let before = log(3).remaining(payload, now);
                let (payload, now) = b.peek(b.locate(&guard, client(0)), NOW);
                (before, log(3).remaining(payload, now), passed)
            },
        );
        assert!(passed && passed_too);
        assert_eq!(remaining(&map, log(3), NOW), 0);
        outcomes.add((before, after));
    });
    seen.are([(2, 0), (1, 0), (2, 1)]);
}

#[test]
fn two_helpers_drop_a_log_once() {
    model("two_helpers_drop_a_log_once", move || {
        let map = begun(THEN);
        let (a, b) = (map.clone(), map.clone());
        race(move || a.help_once(&a.pin()), move || b.help_once(&b.pin()));
        finish(&map);
        assert_eq!(map.len(), 0);
    });
}

#[test]
fn two_helpers_take_a_log_along_once() {
    model("two_helpers_take_a_log_along_once", move || {
        let map = begun(NOW);
        let (a, b) = (map.clone(), map.clone());
        race(move || a.help_once(&a.pin()), move || b.help_once(&b.pin()));
        finish(&map);
        assert_eq!(map.len(), 1);
        assert!(take(&map) && !take(&map), "one of two was left");
    });
}

#[test]
fn a_late_helper_drops_no_log_that_came_after() {
    model("a_late_helper_drops_no_log_that_came_after", move || {
        let map = begun(THEN);
        // The client is dropped, by whichever of the two, and charged anew in the next table.
        let (a, b) = (map.clone(), map.clone());
        let ((), passed) = race(move || a.help_once(&a.pin()), move || charge(&b, client(0), THEN));
        assert!(passed);
        finish(&map);
        assert_eq!(map.len(), 1);
        assert_eq!(remaining(&map, log(2), THEN), 1);
    });
}

#[test]
fn a_late_helper_meets_a_log_that_replaced_the_one_it_moves() {
    model("a_late_helper_meets_a_log_that_replaced_the_one_it_moves", move || {
        let map = begun(NOW);
        // Taken along, by whichever of the two, and replaced and retired in the next table.
        let (a, b) = (map.clone(), map.clone());
        let ((), passed) = race(move || a.help_once(&a.pin()), move || take(&b));
        assert!(passed && !take(&map), "one of two was left");
        finish(&map);
        assert_eq!(map.len(), 1);
    });
}

#[test]
fn a_log_that_is_shared_is_copied_and_not_handed_on() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    let passes = |charge| matches!(charge, Charge::Allowed { .. });
    model("a_log_that_is_shared_is_copied_and_not_handed_on", move || {
        let map = Arc::new(Map::new(log(2), 2, true).unwrap());
        assert!(passes(map.charge_shared(&map.pin(), NOW, 1)));
        let (a, b) = (map.clone(), map.clone());
        let (placed, without) = race(move || take(&a), move || passes(b.charge_shared(&b.pin(), NOW, 1)));
        assert!(without, "one of two was left");
        assert!(!take(&map), "nobody gets more than what was left");
        outcomes.add(placed);
    });
    seen.are([false, true]);
}
