//! Migration: whatever races with it, each client keeps its state, exactly once.
//!
//! A migration is cut into its parts, its start, its chunks and its end, and each part meets each kind of call: so the
//! search goes deep where the whole would be too long. `whole.rs` runs the whole, at fewer preemptions.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use std::sync::Arc;
use tollgate::model::{Charge, Map, Stop};

/// The instant at which a limiter is built: here a bucket that is full again has the smallest of all payloads.
const NOW: u64 = 0;

/// The same with a migration started, whose first chunk holds the client and whose second is empty.
fn under_way() -> Arc<Buckets> {
    let map = one_token_left(NOW);
    map.start_migration(&map.pin(), NOW);
    map
}

/// Ends the migration and checks that it changed nothing.
fn settle(map: &Buckets, clients: usize) {
    map.migrate(&map.pin(), NOW);
    assert_eq!(map.len(), clients);
}

// The start.

#[test]
fn a_charge_meets_the_start() {
    model("a_charge_meets_the_start", move || {
        let map = one_token_left(NOW);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(0), NOW), move || b.start_migration(&b.pin(), NOW));
        assert!(passed);
        settle(&map, 1);
        assert!(!charge(&map, client(0), NOW));
    });
}

#[test]
fn a_new_client_meets_the_start() {
    model("a_new_client_meets_the_start", move || {
        let map = one_token_left(NOW);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(1), NOW), move || b.start_migration(&b.pin(), NOW));
        assert!(passed);
        settle(&map, 2);
        assert_eq!((drain(&map, client(0), NOW), drain(&map, client(1), NOW)), (1, 1));
    });
}

#[test]
fn a_new_client_is_not_claimed_in_both_tables() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(1, "a_new_client_is_not_claimed_in_both_tables", move || {
        let map = buckets(1);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(
            // May have taken a place of the old table before the start, and claim its slot after it.
            move || charge(&a, client(0), NOW),
            move || {
                b.start_migration(&b.pin(), NOW);
                // So that the charge does not begin with moving the slot.
                b.stall(&b.pin(), client(0), Stop::Begun);
                charge(&b, client(0), NOW)
            },
        );
        assert_ne!(passed.0, passed.1, "one token for two");
        settle(&map, 1);
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn two_threads_start_one_migration() {
    model("two_threads_start_one_migration", move || {
        let map = one_token_left(NOW);
        let start = |map: Arc<Buckets>| {
            move || {
                map.start_migration(&map.pin(), NOW);
                // Where the client then is, whoever started.
                map.help_once(&map.pin());
            }
        };
        race(start(map.clone()), start(map.clone()));
        finish(&map);
        assert_eq!((map.len(), drain(&map, client(0), NOW)), (1, 1));
    });
}

// A chunk.

#[test]
fn a_charge_meets_the_move() {
    model("a_charge_meets_the_move", move || {
        let map = under_way();
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(0), NOW), move || b.help_once(&b.pin()));
        assert!(passed);
        assert!(!charge(&map, client(0), NOW), "one token was left");
        settle(&map, 1);
    });
}

#[test]
fn a_new_client_meets_the_move() {
    model("a_new_client_meets_the_move", move || {
        let map = buckets(1);
        map.start_migration(&map.pin(), NOW);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(0), NOW), move || b.help_once(&b.pin()));
        assert!(passed);
        assert!(!charge(&map, client(0), NOW), "one token was left");
        settle(&map, 1);
    });
}

#[test]
fn two_charges_meet_the_move() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(2, "two_charges_meet_the_move", move || {
        let map = under_way();
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || charge(&a, client(0), NOW), move || charge(&b, client(0), NOW));
        assert_ne!(passed.0, passed.1, "one token for two");
        settle(&map, 1);
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn a_new_client_is_in_one_table_only() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(2, "a_new_client_is_in_one_table_only", move || {
        let map = buckets(1);
        map.start_migration(&map.pin(), NOW);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || charge(&a, client(0), NOW), move || charge(&b, client(0), NOW));
        assert_ne!(passed.0, passed.1, "one token for two");
        settle(&map, 1);
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn a_refund_meets_the_move() {
    model("a_refund_meets_the_move", move || {
        let map = under_way();
        let (a, b) = (map.clone(), map.clone());
        let (refunded, ()) =
            race(move || a.refund(a.locate(&a.pin(), client(0)), NOW, 1), move || b.help_once(&b.pin()));
        assert_eq!(refunded, 1);
        assert_eq!(remaining(&map, bucket(2), NOW), 2, "wherever the refund was made");
        assert_eq!(drain(&map, client(0), NOW), 2);
    });
}

#[test]
fn a_receipt_meets_the_move() {
    model("a_receipt_meets_the_move", move || {
        let map = buckets(2);
        let receipt = charge_for_receipt(&map, bucket(2), NOW).unwrap();
        map.start_migration(&map.pin(), NOW);
        let (a, b) = (map.clone(), map.clone());
        let (returned, ()) = race(move || give_back(&a, NOW, receipt), move || b.help_once(&b.pin()));
        assert_eq!(returned, 1);
        assert_eq!(drain(&map, client(0), NOW), 2);
    });
}

#[test]
fn a_reset_meets_the_move() {
    model("a_reset_meets_the_move", move || {
        let map = under_way();
        let (a, b) = (map.clone(), map.clone());
        let (reset, ()) = race(move || a.reset(a.locate(&a.pin(), client(0)), NOW), move || b.help_once(&b.pin()));
        assert!(reset);
        assert_eq!(drain(&map, client(0), NOW), 2);
    });
}

#[test]
fn a_peek_meets_the_move() {
    model("a_peek_meets_the_move", move || {
        let map = under_way();
        let (a, b) = (map.clone(), map.clone());
        let (left, ()) = race(move || remaining(&a, bucket(2), NOW), move || b.help_once(&b.pin()));
        assert_eq!(left, 1);
    });
}

#[test]
fn two_helpers_move_a_chunk_once() {
    model("two_helpers_move_a_chunk_once", move || {
        let map = under_way();
        // Both chunks are begun, so that whoever comes does them again.
        map.stall(&map.pin(), client(0), Stop::Begun);
        map.stall(&map.pin(), client(0), Stop::Begun);
        let (a, b) = (map.clone(), map.clone());
        race(move || a.help_once(&a.pin()), move || b.help_once(&b.pin()));
        assert!(charge(&map, client(0), NOW) && !charge(&map, client(0), NOW), "one token was left");
        settle(&map, 1);
    });
}

#[test]
fn a_late_helper_undoes_no_refund() {
    model("a_late_helper_undoes_no_refund", move || {
        let map = under_way();
        map.stall(&map.pin(), client(0), Stop::Frozen);
        map.stall(&map.pin(), client(0), Stop::Begun);
        let (a, b) = (map.clone(), map.clone());
        let ((), refunded) =
            race(move || a.help_once(&a.pin()), move || b.refund(b.locate(&b.pin(), client(0)), NOW, 2));
        assert_eq!((refunded, drain(&map, client(0), NOW)), (1, 2));
    });
}

#[test]
fn a_late_helper_undoes_no_reset() {
    model("a_late_helper_undoes_no_reset", move || {
        let map = under_way();
        map.stall(&map.pin(), client(0), Stop::Frozen);
        map.stall(&map.pin(), client(0), Stop::Begun);
        let (a, b) = (map.clone(), map.clone());
        let ((), reset) = race(move || a.help_once(&a.pin()), move || b.reset(b.locate(&b.pin(), client(0)), NOW));
        assert_eq!((reset, drain(&map, client(0), NOW)), (true, 2));
    });
}

#[test]
fn dropping_an_idle_client_changes_no_answer() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("dropping_an_idle_client_changes_no_answer", move || {
        let map = one_token_left(NOW);
        // Full again at NOW + 1, when the migration asks. The other thread's clock still says NOW: one token.
        let (a, b) = (map.clone(), map.clone());
        let (early, ()) = race(
            move || u64::from(charge(&a, client(0), NOW)) + u64::from(charge(&a, client(0), NOW)),
            move || {
                b.start_migration(&b.pin(), NOW + 1);
                b.help_once(&b.pin());
            },
        );
        let late = drain(&map, client(0), NOW + 1);
        // One token at NOW and one more by NOW + 1, whoever takes them when.
        assert_eq!(early + late, 2);
        outcomes.add((early, late));
    });
    seen.are([(1, 1), (2, 0)]);
}

#[test]
fn a_floor_never_goes_back() {
    model("a_floor_never_goes_back", move || {
        // Dropped when it was full again; then a thread with an older reading moves the table, and calls.
        let map = one_token_left(NOW);
        map.migrate(&map.pin(), NOW + 1);
        map.migrate(&map.pin(), NOW);
        assert_eq!(map.len(), 0);
        assert_eq!(drain(&map, client(0), NOW), 2);
        let (a, b) = (map.clone(), map.clone());
        let early = race(move || charge(&a, client(0), NOW), move || charge(&b, client(0), NOW + 1));
        assert_eq!(early, (false, false), "two tokens at the floor, and no time has passed since");
    });
}

/// A helper stops for good at `stop`, while another thread calls and then does all that is left.
fn nobody_waits_for_a_helper_that_stops(name: &str, stop: Stop) {
    model(name, move || {
        let map = under_way();
        let (a, b) = (map.clone(), map.clone());
        let ((), passed) = race(move || a.stall(&a.pin(), client(0), stop), move || charge(&b, client(0), NOW));
        assert!(passed);
        map.migrate(&map.pin(), NOW);
        assert_eq!(map.generation(), 1, "the migration came to its end");
        assert!(!charge(&map, client(0), NOW));
        assert_eq!(map.len(), 1);
    });
}

#[test]
fn nobody_waits_for_a_helper_that_has_begun() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_begun", Stop::Begun);
}

#[test]
fn nobody_waits_for_a_helper_that_has_frozen() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_frozen", Stop::Frozen);
}

#[test]
fn nobody_waits_for_a_helper_that_has_claimed() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_claimed", Stop::Claimed);
}

#[test]
fn nobody_waits_for_a_helper_that_has_installed() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_installed", Stop::Installed);
}

#[test]
fn nobody_waits_for_a_helper_that_has_finished() {
    nobody_waits_for_a_helper_that_stops("nobody_waits_for_a_helper_that_has_finished", Stop::Finished);
}

// The end.

#[test]
fn a_charge_meets_the_swing() {
    model("a_charge_meets_the_swing", move || {
        let map = under_way();
        map.help_once(&map.pin());
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(0), NOW), move || b.help_once(&b.pin()));
        assert!(passed);
        assert!(!charge(&map, client(0), NOW));
        assert_eq!((map.generation(), map.len()), (1, 1));
    });
}

#[test]
fn a_swing_has_seen_what_others_moved() {
    model("a_swing_has_seen_what_others_moved", move || {
        let map = under_way();
        // The chunk of the client is begun, the other is finished.
        map.stall(&map.pin(), client(0), Stop::Begun);
        map.help_once(&map.pin());
        let (a, b) = (map.clone(), map.clone());
        let ((), left) = race(
            // Moves the client and stops before the swing, which so is the other's.
            move || a.stall(&a.pin(), client(0), Stop::Finished),
            move || {
                b.help_once(&b.pin());
                remaining(&b, bucket(2), NOW)
            },
        );
        assert_eq!(left, 1);
    });
}

#[test]
fn a_new_client_meets_the_swing() {
    model("a_new_client_meets_the_swing", move || {
        let map = under_way();
        map.help_once(&map.pin());
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge(&a, client(1), NOW), move || b.help_once(&b.pin()));
        assert!(passed);
        assert_eq!((drain(&map, client(0), NOW), drain(&map, client(1), NOW)), (1, 1));
        assert_eq!((map.generation(), map.len()), (1, 2));
    });
}

#[test]
fn a_table_is_reached_by_nobody_who_pins_after_its_retirement() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    // The quarantine behind the guards panics when a retired table is reached under a later pin.
    model("a_table_is_reached_by_nobody_who_pins_after_its_retirement", move || {
        let map = under_way();
        map.help_once(&map.pin());
        let (a, b) = (map.clone(), map.clone());
        let (generation, ()) = race(
            move || {
                let guard = a.pin();
                let spot = a.locate(&guard, client(0));
                // Found in the old table, and used there whether or not it has been retired meanwhile.
                let (payload, now) = a.peek(spot, NOW);
                assert_eq!(bucket(2).remaining(payload, now), 1);
                drop(guard);
                assert_eq!(remaining(&a, bucket(2), NOW), 1);
                a.generation()
            },
            move || b.help_once(&b.pin()),
        );
        outcomes.add(generation);
    });
    seen.are([0, 1]);
}

#[test]
fn two_helpers_swing_once() {
    // The quarantine panics when a table is retired twice.
    model("two_helpers_swing_once", move || {
        let map = under_way();
        map.help_once(&map.pin());
        map.stall(&map.pin(), client(0), Stop::Begun);
        let (a, b) = (map.clone(), map.clone());
        race(move || a.help_once(&a.pin()), move || b.help_once(&b.pin()));
        map.help_once(&map.pin());
        assert_eq!((map.generation(), map.len()), (1, 1));
    });
}

// Room.

#[test]
fn claims_that_run_while_the_new_table_fills_leave_room_for_the_old_clients() {
    model_at_most(2, "claims_that_run_while_the_new_table_fills_leave_room_for_the_old_clients", move || {
        // At most three clients, two of them on the move: one place for new ones.
        let map: Arc<Buckets> = Arc::new(Map::new(bucket(1), 3, false).unwrap());
        assert!(charge(&map, client(0), NOW) && charge(&map, client(1), NOW));
        map.start_migration(&map.pin(), NOW);
        let (a, b) = (map.clone(), map.clone());
        let (placed, ()) = race(move || charge(&a, client(2), NOW), move || b.help_once(&b.pin()));
        assert!(placed);
        settle(&map, 3);
        assert!((0..3).all(|n| !charge(&map, client(n), NOW)), "charged before");
        assert_eq!(map.charge(map.locate(&map.pin(), client(3)), NOW, 1), Charge::Full { now: NOW });
    });
}
