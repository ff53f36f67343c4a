//! Slots: who gets one, and that nobody gets two.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use std::sync::Arc;
use tollgate::model::{Charge, Map, Room};

const NOW: u64 = 10;

#[test]
fn two_threads_that_bring_one_new_client_share_its_slot() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("two_threads_that_bring_one_new_client_share_its_slot", move || {
        let map = buckets(1);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || charge(&a, client(0), NOW), move || charge(&b, client(0), NOW));
        assert_ne!(passed.0, passed.1, "one token for two");
        assert_eq!(map.len(), 1);
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn two_clients_that_collide_get_a_slot_each() {
    model("two_clients_that_collide_get_a_slot_each", move || {
        let map = buckets(1);
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || charge(&a, client(0), NOW), move || charge(&b, client(1), NOW));
        assert_eq!(passed, (true, true));
        assert_eq!(map.len(), 2);
        assert_eq!((charge(&map, client(0), NOW), charge(&map, client(1), NOW)), (false, false));
    });
}

#[test]
fn claims_beyond_the_table_grow_it_and_lose_nobody() {
    model_at_most(1, "claims_beyond_the_table_grow_it_and_lose_nobody", move || {
        let map = buckets(1);
        assert!(charge(&map, client(0), NOW));
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || charge(&a, client(2), NOW), move || charge(&b, client(4), NOW));
        assert_eq!(passed, (true, true));
        assert_eq!(map.len(), 3);
        for n in [0, 2, 4] {
            assert!(!charge(&map, client(n), NOW), "client {n} was charged before");
        }
    });
}

#[test]
fn a_room_spends_no_credit_twice_and_counts_all_when_it_closes() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_room_spends_no_credit_twice_and_counts_all_when_it_closes", move || {
        let room = Arc::new(Room::new(2));
        let (a, b, c) = (room.clone(), room.clone(), room.clone());
        let taker = loom::thread::spawn(move || a.take());
        let giver = loom::thread::spawn(move || {
            let taken = b.take();
            if taken {
                b.give(1);
            }
            taken
        });
        let left = c.close();
        let (took, gave) = (taker.join().unwrap(), giver.join().unwrap());
        // What the closer counted as spent bounds what is.
        assert!(usize::from(took) <= 2 - left, "a claim that the closer did not know of");
        assert!(!room.take(), "closed for good");
        assert_eq!(room.close() + usize::from(took), 2, "a credit lost or made");
        outcomes.add((took, gave, left));
    });
    seen.are([
        (false, false, 2),
        (false, true, 1),
        (false, true, 2),
        (true, false, 1),
        (true, true, 0),
        (true, true, 1),
    ]);
}

/// A map that holds two live clients, and no more.
fn full_map() -> Arc<Map<TokenBucket>> {
    let map = Arc::new(Map::new(bucket(2), 2, false).unwrap());
    assert!(charge(&map, client(0), NOW) && charge(&map, client(1), NOW));
    map
}

fn charge_any(map: &Map<TokenBucket>, n: u64, now: u64) -> Charge {
    map.charge(map.locate(&map.pin(), client(n)), now, 1)
}

#[test]
fn a_full_map_refuses_new_clients_and_keeps_the_old() {
    model_at_most(2, "a_full_map_refuses_new_clients_and_keeps_the_old", move || {
        let map = full_map();
        let (a, b) = (map.clone(), map.clone());
        let (stranger, known) = race(move || charge_any(&a, 2, NOW), move || charge(&b, client(0), NOW));
        assert_eq!((stranger, known), (Charge::Full { now: NOW }, true));
        assert_eq!(map.len(), 2);
        assert_eq!((drain(&map, client(0), NOW), drain(&map, client(1), NOW)), (0, 1));
    });
}

#[test]
fn a_full_map_makes_room_of_an_idle_client() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model_at_most(2, "a_full_map_makes_room_of_an_idle_client", move || {
        let map = full_map();
        // Both clients are idle from NOW + 1, and one is charged again at the same time as a new one comes.
        let (a, b) = (map.clone(), map.clone());
        let (stranger, known) = race(
            move || matches!(charge_any(&a, 2, NOW + 1), Charge::Allowed { .. }),
            move || matches!(charge_any(&b, 0, NOW + 1), Charge::Allowed { .. }),
        );
        assert!(known, "a client that is held, or for which two places are free");
        assert!(map.len() <= 2);
        assert_eq!(drain(&map, client(0), NOW + 1), 1);
        if stranger {
            assert_eq!(drain(&map, client(2), NOW + 1), 1);
        }
        outcomes.add(stranger);
    });
    seen.are([true]);
}

#[test]
fn a_client_that_gets_a_place_starts_from_what_those_without_have_left() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_client_that_gets_a_place_starts_from_what_those_without_have_left", move || {
        let map = Arc::new(Map::new(bucket(2), 2, true).unwrap());
        assert!(matches!(map.charge_shared(&map.pin(), NOW, 1), Charge::Allowed { .. }));
        let (a, b) = (map.clone(), map.clone());
        let (placed, without) = race(
            move || charge(&a, client(0), NOW),
            move || matches!(map.charge_shared(&map.pin(), NOW, 1), Charge::Allowed { .. }),
        );
        assert!(without, "one token was left");
        assert!(!charge(&b, client(0), NOW), "nobody gets more than what was left");
        outcomes.add(placed);
    });
    seen.are([false, true]);
}
