//! Payloads that are pointers: whoever reads one must see what it points to. loom reports a read that may race with the
//! writing of it.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom::cell::UnsafeCell;
use loom_tests::*;
use std::sync::Arc;
use tollgate::model::{Charge, Charged, Map, Sealed, Snapshot, Stop};
use tollgate::{Algorithm, Answers};

const NOW: u64 = 10;

/// Counts what is used in a cell of its own for every state, which is never written again.
#[derive(Clone, Copy, Debug)]
struct Cells {
    limit: u64,
}

impl Cells {
    fn used(payload: u64) -> u64 {
        match payload {
            0 => 0,
            // SAFETY: a payload comes from `holding`, which leaks its cell.
            cell => unsafe { &*(cell as *const UnsafeCell<u64>) }.with(|used| unsafe { *used }),
        }
    }

    fn holding(used: u64) -> u64 {
        let cell = Box::leak(Box::new(UnsafeCell::new(0)));
        // SAFETY: nobody else has the cell yet.
        cell.with_mut(|inner| unsafe { *inner = used });
        std::ptr::from_ref(cell) as u64
    }
}

impl Sealed for Cells {}

impl Answers for Cells {
    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self, payload: u64, _: u64) -> u64 {
        self.limit - Self::used(payload)
    }

    fn retry_after(&self, _: u64, _: u64, _: u64) -> Option<u64> {
        None
    }
}

impl Algorithm for Cells {
    fn charge(&self, payload: u64, _: u64, cost: u64) -> Option<u64> {
        let used = Self::used(payload) + cost;
        (used <= self.limit).then(|| Self::holding(used))
    }

    fn give_back(&self, payload: u64, now: u64, cost: u64, _: Charged) -> Option<(u64, u64)> {
        self.refund(payload, now, cost)
    }

    fn refund(&self, payload: u64, _: u64, tokens: u64) -> Option<(u64, u64)> {
        let used = Self::used(payload);
        let back = used.min(tokens);
        (back > 0).then(|| (Self::holding(used - back), back))
    }

    fn reset(&self, payload: u64, _: u64) -> Option<u64> {
        (Self::used(payload) > 0).then(|| Self::holding(0))
    }

    fn is_idle(&self, payload: u64, _: u64) -> bool {
        Self::used(payload) == 0
    }

    fn longest_idle(&self) -> u64 {
        u64::MAX
    }

    fn idle_at(&self, _: u64) -> u64 {
        u64::MAX
    }

    fn snapshot(&self, _: u64, _: u64, _: u64) -> Snapshot {
        unreachable!("a model looks at no decision")
    }
}

fn take(map: &Map<Cells>) -> bool {
    matches!(map.charge(map.locate(&map.pin(), client(0)), NOW, 1), Charge::Allowed { .. })
}

/// A map whose client 0 has used one of two.
fn one_left() -> Arc<Map<Cells>> {
    let map = Arc::new(Map::new(Cells { limit: 2 }, 1000, false).unwrap());
    assert!(take(&map));
    map
}

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
    model("a_payload_that_is_read_once_is_whole", move || {
        let map = one_left();
        let (a, b) = (map.clone(), map.clone());
        let (passed, left) = race(
            move || take(&a),
            move || {
                let (payload, now) = b.peek(b.locate(&b.pin(), client(0)), NOW);
                Cells { limit: 2 }.remaining(payload, now)
            },
        );
        assert!(passed && left <= 1);
    });
}

#[test]
fn a_payload_that_is_moved_is_whole() {
    model("a_payload_that_is_moved_is_whole", move || {
        let map = one_left();
        map.start_migration(&map.pin(), NOW);
        let (a, b) = (map.clone(), map.clone());
        let (refunded, ()) =
            race(move || a.refund(a.locate(&a.pin(), client(0)), NOW, 1), move || b.help_once(&b.pin()));
        assert_eq!(refunded, 1);
        map.migrate(&map.pin(), NOW);
        assert!(take(&map) && take(&map) && !take(&map));
    });
}

#[test]
fn a_payload_that_was_moved_by_another_is_whole() {
    model_at_most(2, "a_payload_that_was_moved_by_another_is_whole", move || {
        let map = one_left();
        map.start_migration(&map.pin(), NOW);
        // Written by one, moved by the second, read by the third.
        let (a, b) = (map.clone(), map.clone());
        let writer = loom::thread::spawn(move || a.refund(a.locate(&a.pin(), client(0)), NOW, 1));
        let mover = loom::thread::spawn(move || b.help_once(&b.pin()));
        let (payload, now) = map.peek(map.locate(&map.pin(), client(0)), NOW);
        assert!(Cells { limit: 2 }.remaining(payload, now) >= 1);
        assert_eq!(writer.join().unwrap(), 1);
        mover.join().unwrap();
    });
}

#[test]
fn a_payload_that_a_late_helper_meets_is_whole() {
    model("a_payload_that_a_late_helper_meets_is_whole", move || {
        let map = one_left();
        map.start_migration(&map.pin(), NOW);
        map.stall(&map.pin(), client(0), Stop::Begun);
        map.stall(&map.pin(), client(0), Stop::Begun);
        let (a, b) = (map.clone(), map.clone());
        let (refunded, ()) =
            race(move || a.refund(a.locate(&a.pin(), client(0)), NOW, 1), move || b.help_once(&b.pin()));
        assert_eq!(refunded, 1);
    });
}
