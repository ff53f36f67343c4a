//! Migrations from their start to their end, at fewer preemptions than their parts.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;

const NOW: u64 = 0;

#[test]
fn a_charge_meets_a_whole_migration() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(2, "a_charge_meets_a_whole_migration", move || {
        let map = one_token_left(NOW);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(
            move || charge(&a, client(0), NOW),
            move || {
                b.migrate(&b.pin(), NOW);
                charge(&b, client(0), NOW)
            },
        );
        assert_ne!(passed.0, passed.1, "one token for two");
        assert_eq!((map.generation(), map.len()), (1, 1));
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn a_peek_meets_a_whole_migration() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_peek_meets_a_whole_migration", move || {
        let map = one_token_left(NOW);
        let (a, b) = (map.clone(), map.clone());
        let ((left, generation), ()) =
            race(move || (remaining(&a, bucket(2), NOW), a.generation()), move || b.migrate(&b.pin(), NOW));
        assert_eq!(left, 1);
        outcomes.add(generation);
    });
    seen.are([0, 1]);
}

#[test]
fn a_new_client_meets_a_whole_migration() {
    model_at_most(1, "a_new_client_meets_a_whole_migration", move || {
        let map = buckets(1);
        let (a, b) = (map.clone(), map.clone());
        // May have taken a place of the old table before the start, and claim its slot when all have left.
        let (passed, ()) = race(move || charge(&a, client(0), NOW), move || b.migrate(&b.pin(), NOW));
        assert!(passed);
        assert!(!charge(&map, client(0), NOW), "one token was left");
        assert_eq!(map.len(), 1);
    });
}

#[test]
fn a_log_meets_a_whole_migration() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(1, "a_log_meets_a_whole_migration", move || {
        let map = charged(log(2), WINDOW);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(
            move || charge(&a, client(0), WINDOW),
            move || {
                b.migrate(&b.pin(), WINDOW);
                charge(&b, client(0), WINDOW)
            },
        );
        assert_ne!(passed.0, passed.1, "one place for two");
        assert_eq!((map.generation(), map.len()), (1, 1));
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn migrations_follow_each_other() {
    model_at_most(1, "migrations_follow_each_other", move || {
        let map = one_token_left(NOW);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(
            move || charge(&a, client(0), NOW),
            move || {
                b.migrate(&b.pin(), NOW);
                b.migrate(&b.pin(), NOW);
            },
        );
        assert!(passed);
        assert!(!charge(&map, client(0), NOW));
        assert_eq!((map.generation(), map.len()), (2, 1));
    });
}
