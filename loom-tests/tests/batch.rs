//! Batches: what they know of the table from their start may be over by the time of a charge.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use std::sync::Arc;
use tollgate::model::{Charge, Map};

const NOW: u64 = 0;

/// Client 0 may take one, and a batch and another call are after it.
fn one_for_two<A: Algorithm>(name: &str, now: u64, one_left: impl Fn() -> Arc<Map<A>> + Send + Sync + 'static) {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model(name, move || {
        let map = one_left();
        let (a, b) = (map.clone(), map);
        let passed = race(move || charge_in_batch(&a, client(0), now), move || charge(&b, client(0), now));
        assert_ne!(passed.0, passed.1, "one for two");
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn a_batch_meets_a_charge() {
    one_for_two("a_batch_meets_a_charge", NOW, || one_token_left(NOW));
}

#[test]
fn a_batch_of_logs_meets_a_charge() {
    one_for_two("a_batch_of_logs_meets_a_charge", WINDOW, || charged(log(2), WINDOW));
}

#[test]
fn a_batch_gives_no_fresh_bucket_where_clients_share_one() {
    one_for_two("a_batch_gives_no_fresh_bucket_where_clients_share_one", NOW, || {
        let map = Map::new(bucket(2), 2, true).unwrap();
        assert!(matches!(map.charge_shared(&map.pin(), NOW, 1), Charge::Allowed { .. }));
        Arc::new(map)
    });
}

#[test]
fn a_batch_meets_a_whole_migration() {
    model_at_most(2, "a_batch_meets_a_whole_migration", move || {
        let map = one_token_left(NOW);
        let (a, b) = (map.clone(), map.clone());
        let (passed, ()) = race(move || charge_in_batch(&a, client(0), NOW), move || b.migrate(&b.pin(), NOW));
        assert!(passed);
        map.migrate(&map.pin(), NOW);
        assert_eq!((map.len(), charge(&map, client(0), NOW)), (1, false), "one token was left");
    });
}

#[test]
fn a_batch_goes_by_the_floor() {
    model("a_batch_goes_by_the_floor", move || {
        // Dropped when it was full again; then a thread comes with an older reading.
        let map = one_token_left(NOW);
        map.migrate(&map.pin(), NOW + 1);
        assert_eq!(map.len(), 0);
        let (a, b) = (map.clone(), map.clone());
        let take_two = move || [(); 2].map(|()| charge_in_batch(&a, client(0), NOW));
        let (passed, late) = race(take_two, move || charge(&b, client(0), NOW + 1));
        let passed = passed.into_iter().chain([late]).filter(|&passed| passed).count();
        assert_eq!(passed, 2, "two tokens at the floor, and no time has passed since");
    });
}
