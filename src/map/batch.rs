//! Charges of many clients at one instant.
//!
//! What is the same for all of them is found out once: the table, whether it is quiet, and what the algorithm computes from
//! the instant. Their slots are fetched into the cache together. A client for whom that is not enough is charged alone.

use super::slot::Fingerprint;
use super::table::Table;
use super::word::{Applied, Pointees, Step};
use super::{Charge, Map, Spot};
use crate::algorithm::Algorithm;
use crate::epoch::Guard;

/// Charges of one token each, under one guard.
#[allow(missing_debug_implementations)]
pub struct Batch<'g, A: Algorithm, F> {
    map: &'g Map<A>,
    guard: &'g Guard,
    table: &'g Table,
    now: u64,
    /// Whether a client who is found has nothing else to look after, whatever its payload.
    is_quiet: bool,
    charge: F,
}

impl<A: Algorithm> Map<A> {
    /// A batch at `now`. Not for long: what it knows of the table is as of its start.
    #[inline]
    pub fn batch<'g>(&'g self, guard: &'g Guard, now: u64) -> Batch<'g, A, impl Fn(u64) -> Option<u64> + 'g> {
        let table = self.root(guard);
        // A client that was never charged would have what those without a place share.
        let is_quiet = table.is_quiet(now) && self.shared.is_none();
        Batch { map: self, guard, table, now, is_quiet, charge: self.algorithm.charges(now, 1) }
    }
}

impl<A: Algorithm, F: Fn(u64) -> Option<u64>> Batch<'_, A, F> {
    /// Lets a client's slot be fetched, for a charge that comes soon.
    #[inline]
    pub fn announce(&self, client: Fingerprint) {
        self.table.home(client);
    }

    /// Takes one token.
    #[inline(always)]
    pub fn charge(&self, client: Fingerprint) -> Charge {
        let home = self.table.line(client);
        if self.is_quiet
            && let Some(slot) = self.table.find_from(home, client)
        {
            let step = |payload| Step::charged((self.charge)(payload), payload, self.now);
            if let Applied::Done(charge) = slot.word.apply::<A, _>(&Pointees::under(self.guard), step) {
                return charge;
            }
        }
        self.charge_alone(client)
    }

    #[cold]
    fn charge_alone(&self, client: Fingerprint) -> Charge {
        let Self { map, guard, table, now, .. } = *self;
        map.charge(Spot { guard, client, table, home: table.line(client) }, now, 1)
    }
}
