//! Migrations from their start to their end, at fewer preemptions than their parts.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use std::sync::Arc;

const NOW: u64 = 0;

/// A map whose client 0 has one of two tokens left.
fn one_token_left() -> Arc<Buckets> {
    let map = buckets(2);
    assert!(charge(&map, client(0), NOW));
    map
}

#[test]
fn a_charge_meets_a_whole_migration() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(2, "a_charge_meets_a_whole_migration", move || {
        let map = one_token_left();
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
fn migrations_follow_each_other() {
    model_at_most(1, "migrations_follow_each_other", move || {
        let map = one_token_left();
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
