//! How many more clients a table may take: credits, spent one a claim.
//!
//! A claim needs a credit before it touches a slot, so claims can never exceed the credits, whoever stalls where. Credits
//! lie in a common pool and in stripes that draw from it in batches: claims of different threads seldom meet. Who finds
//! both empty takes from the other stripes before giving up, so no credit is ever out of reach.
//!
//! Closing a room ends the spending for good, and tells how many claims there can be at most. All of it is arithmetic on
//! single atomics: nothing is published through a credit, so every access is relaxed.

use crate::stripes::Stripes;
use crate::sync::{AtomicUsize, Ordering};
use crossbeam_utils::CachePadded;

const CLOSED: usize = 1 << (usize::BITS - 1);

#[derive(Debug)]
pub struct Room {
    pool: CachePadded<AtomicUsize>,
    stripes: Stripes,
    batch: usize,
}

impl Room {
    pub fn new(credits: usize) -> Self {
        let stripes = Stripes::new();
        let batch = (credits / (16 * stripes.len())).clamp(1, 64);
        Self { pool: CachePadded::new(AtomicUsize::new(credits)), stripes, batch }
    }

    /// Spends one credit, if there is one and the room is open.
    pub fn take(&self) -> bool {
        let own = self.stripes.own();
        if withdraw(own, 1) == 1 {
            return true;
        }
        let drawn = withdraw(&self.pool, self.batch);
        if drawn > 1 {
            own.fetch_add(drawn - 1, Ordering::Relaxed);
        }
        drawn > 0 || self.stripes.iter().any(|stripe| withdraw(stripe, 1) == 1)
    }

    /// Returns credits. Those given to a closed room are counted, and spent by nobody.
    pub fn give(&self, credits: usize) {
        if credits > 0 {
            self.stripes.own().fetch_add(credits, Ordering::Relaxed);
        }
    }

    /// Ends the spending and returns the credits left. Every credit that is missing from them was spent, or will be found
    /// unspent by its holder. May be called again.
    pub fn close(&self) -> usize {
        self.cells().map(|cell| cell.fetch_or(CLOSED, Ordering::Relaxed) & !CLOSED).sum()
    }

    /// Credits left; exact while nobody spends or returns any.
    pub fn left(&self) -> usize {
        self.cells().map(|cell| cell.load(Ordering::Relaxed) & !CLOSED).sum()
    }

    /// Bytes that the stripes take.
    pub(crate) fn bytes(&self) -> usize {
        self.stripes.bytes()
    }

    fn cells(&self) -> impl Iterator<Item = &AtomicUsize> {
        std::iter::once(&*self.pool).chain(self.stripes.iter())
    }
}

/// Takes up to `most` credits from a cell, none if it is closed.
fn withdraw(cell: &AtomicUsize, most: usize) -> usize {
    let mut left = cell.load(Ordering::Relaxed);
    loop {
        if left == 0 || left & CLOSED != 0 {
            return 0;
        }
        let taken = left.min(most);
        match cell.compare_exchange(left, left - taken, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return taken,
            Err(actual) => left = actual,
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize as Count;

    #[test]
    fn every_credit_can_be_spent_and_not_one_more() {
        for credits in [0, 1, 7, 192, 5000] {
            let room = Room::new(credits);
            let spent = (0..credits + 10).filter(|_| room.take()).count();
            assert_eq!((spent, room.left()), (credits, 0));
        }
    }

    #[test]
    fn credits_stranded_in_other_stripes_are_found() {
        let room = Room::new(100);
        std::thread::scope(|scope| {
            scope.spawn(|| room.take());
        });
        assert_eq!((0..100).filter(|_| room.take()).count(), 99);
    }

    #[test]
    fn a_closed_room_says_what_was_spent() {
        let room = Room::new(50);
        assert!((0..20).all(|_| room.take()));
        assert_eq!(room.close(), 30);
        assert!(!room.take());
        room.give(1);
        assert_eq!((room.close(), room.left()), (31, 31));
        assert!(!room.take());
    }

    #[test]
    fn racing_threads_never_overspend() {
        let (room, spent, start) = (Room::new(10_000), Count::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    for i in 0..3000 {
                        if room.take() {
                            spent.fetch_add(1, Ordering::Relaxed);
                            if i % 7 == 0 {
                                spent.fetch_sub(1, Ordering::Relaxed);
                                room.give(1);
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(spent.load(Ordering::Relaxed) + room.left(), 10_000);
    }
}
