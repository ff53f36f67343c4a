//! Retired tables: each is freed once, by whoever gets hold of it.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use std::sync::Arc;
use tollgate::model::Graveyard;

#[test]
fn a_burial_meets_another() {
    model("a_burial_meets_another", move || {
        let graveyard = Arc::new(Graveyard::new());
        let (a, b) = (graveyard.clone(), graveyard.clone());
        race(move || a.bury_one(), move || b.bury_one());
        while graveyard.free_piece(1) {}
        assert_eq!(graveyard.bytes(), 0);
    });
}

#[test]
fn a_burial_meets_a_helper() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_burial_meets_a_helper", move || {
        let graveyard = Arc::new(Graveyard::new());
        graveyard.bury_one();
        let (a, b) = (graveyard.clone(), graveyard.clone());
        let ((), freed) = race(move || a.bury_one(), move || (b.free_piece(1), b.free_piece(1)));
        assert!(freed.0);
        while graveyard.free_piece(1) {}
        assert_eq!(graveyard.bytes(), 0);
        outcomes.add(freed);
    });
    seen.are([(true, true)]);
}

#[test]
fn two_helpers_free_nothing_twice() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("two_helpers_free_nothing_twice", move || {
        let graveyard = Arc::new(Graveyard::new());
        graveyard.bury_one();
        let (a, b) = (graveyard.clone(), graveyard.clone());
        let freed = race(move || a.free_piece(1), move || b.free_piece(1));
        while graveyard.free_piece(1) {}
        assert_eq!(graveyard.bytes(), 0);
        outcomes.add(freed);
    });
    // One may find nothing because the other has it all in hand.
    seen.are([(true, true), (true, false), (false, true)]);
}
