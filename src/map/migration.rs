//! Moving the clients of one table to the next: the one way to grow, to shrink and to forget.
//!
//! 1. **Start.** The room of the old table T is closed, which bounds its claims for good. T' is made with that many
//!    places set aside, its floor is fixed, and one CAS publishes it as T's next. From then on T is due for every caller.
//! 2. **Move.** Each slot of T goes through the same steps, all of them idempotent, so that any thread may do any slot at
//!    any time, and do it again:
//!    - an empty slot is sealed;
//!    - a client's word is frozen; unless it is idle at the floor, its fingerprint is claimed in T' and its payload
//!      installed there; then it is marked as moved.
//!
//!    Who needs a client whose word is frozen but not moved moves that one itself and goes on.
//! 3. **Finish.** Slots are moved in chunks, from a cursor. Once that has passed the end, helpers take whatever chunk is
//!    not yet finished, whoever has begun it: a helper that never returns holds up nobody. Whoever sees all chunks
//!    finished swings the root to T' and retires T.
//!
//! A helper that stops after it has finished a chunk, and before it has accounted for it, withholds a few places of T'
//! until it goes on, or until the next migration counts them anew. Nothing else depends on the accounts.
//!
//! Whether a frozen word is idle at the floor is a fact that every helper computes alike, or reads from the mark of one
//! that has. So the number of clients that a chunk keeps is a fact too, and the first to finish it accounts for it: that is
//! how the places that were set aside for dropped clients become free, exactly once. Whoever is the first to mark a dropped
//! word retires what its payload pointed to.

use super::Map;
use super::slot::{Fingerprint, Owner, Slot};
use super::table::{Found, Table};
use super::upkeep::Aim;
use super::word::{Frozen, Pointees};
use crate::algorithm::Algorithm;
use crate::epoch::Guard;
use crate::sync::Ordering;
use std::ptr;

/// How many clients of a chunk are idle.
pub(super) type Dropped = usize;

/// What became of a client's word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Dropped,
    /// Taken along, with its payload where this call has read it.
    Kept(Option<u64>),
}

impl<A: Algorithm> Map<A> {
    /// Starts the migration of `table`, which is the root. `false` if there is no memory for another table; true too if
    /// somebody else was first.
    pub(super) fn start(&self, guard: &Guard, table: &Table, now: u64, aim: Aim) -> bool {
        let birth = table.birth();
        // The memory first: without it, the table goes on as it is. Its size is a guess until the room is closed.
        let guess = self.sizes.next(table, table.claimed(), aim);
        let Ok(lines) = Table::allocate(guess) else { return false };
        let spent = birth.limit - table.room.close().min(birth.limit);
        if table.next(guard).is_some() {
            return true;
        }
        let slots = self.sizes.next(table, spent, aim);
        let lines = if slots == guess { Ok(lines) } else { Table::allocate(slots) };
        let Ok(lines) = lines else { return false };
        let floor = birth.floor.max(now);
        let next = Table::new(lines, self.sizes.limit(slots), spent, floor, birth.generation + 1);
        if slots > self.sizes.settled() {
            // By then whatever the new table starts with is idle. Helpers learn of earlier times on the way.
            next.due_at.store(floor.saturating_add(self.algorithm.longest_idle()), Ordering::Relaxed);
        }
        let _ = table.publish(next);
        self.call_for_help(table);
        true
    }

    /// Makes a migration due for every caller.
    pub(super) fn call_for_help(&self, table: &Table) {
        // Relaxed: a hint. Nothing raises it again.
        table.due_at.store(0, Ordering::Relaxed);
    }

    /// Moves one chunk of `table`, which is the root, to `next`. Returns how many clients this dropped for good.
    pub(super) fn help(&self, guard: &Guard, table: &Table, next: &Table) -> Dropped {
        match table.progress.next_chunk() {
            Some(chunk) => self.move_chunk(guard, table, chunk, next),
            None => {
                self.swing(guard, table, next);
                0
            }
        }
    }

    fn move_chunk(&self, guard: &Guard, table: &Table, chunk: usize, next: &Table) -> Dropped {
        let (mut kept, mut dropped, mut live) = (0, 0, None);
        let chunks = table.progress.chunks();
        // Where no client ever was, the memory that is about to be sealed is fresh.
        table.expect_moves(chunk, chunks);
        for slot in table.chunk(chunk) {
            let owner = match slot.owner() {
                Owner::Nobody => match slot.seal() {
                    Ok(()) => continue,
                    Err(owner) => owner,
                },
                owner => owner,
            };
            let Owner::Client(client) = owner else { continue };
            // Not before: while all are idle, the memory of the next table stays as it is.
            let prepare = || {
                if kept == 0 {
                    next.expect_moves(chunk, chunks);
                }
            };
            match self.carry(guard, slot, client, next, prepare) {
                Fate::Kept(payload) => (kept, live) = (kept + 1, payload.or(live)),
                Fate::Dropped => dropped += 1,
            }
        }
        if !table.progress.finish(chunk) {
            return 0;
        }
        if let Some(payload) = live
            && next.slots() > self.sizes.settled()
        {
            next.due_at.fetch_min(self.algorithm.idle_at(payload), Ordering::Relaxed);
        }
        next.room.give(dropped);
        if let Some(clients) = table.progress.account(kept + dropped) {
            // Places set aside for claims that were never made.
            next.room.give(next.birth().reserved - clients);
            self.settle(next);
            self.swing(guard, table, next);
        }
        dropped
    }

    /// Moves a client's word, unless others have; if it is kept, after `prepare`.
    pub(super) fn carry(
        &self,
        guard: &Guard,
        slot: &Slot,
        client: Fingerprint,
        next: &Table,
        prepare: impl FnOnce(),
    ) -> Fate {
        let pointees = Pointees::<A>::under(guard);
        let payload = match slot.word.freeze(&pointees) {
            Frozen::Payload(payload) => payload,
            Frozen::Moved { kept: true } => return Fate::Kept(None),
            Frozen::Moved { kept: false } => return Fate::Dropped,
        };
        let kept = self.is_kept(payload, next);
        if kept {
            prepare();
            Self::install(client, payload, next);
        }
        if slot.word.mark_moved(payload, kept) && !kept {
            pointees.retire(payload);
        }
        if kept { Fate::Kept(Some(payload)) } else { Fate::Dropped }
    }

    /// Whether a frozen payload is taken along.
    fn is_kept(&self, payload: u64, next: &Table) -> bool {
        payload != 0 && !self.algorithm.is_idle(payload, next.birth().floor)
    }

    /// Puts a frozen payload into the next table. Late helpers find it there, or the table itself on the move.
    fn install(client: Fingerprint, payload: u64, next: &Table) {
        loop {
            match next.find(client) {
                Found::Slot(slot) => return slot.word.install(payload),
                // Only a table that is complete is left, so another helper has moved this client.
                Found::Sealed => return,
                Found::Empty(slot) => {
                    if slot.claim(client).is_ok() {
                        return slot.word.install(payload);
                    }
                }
                // A place was set aside before the table was published, and claims of others never touch those.
                Found::Nowhere => unreachable!("no place for a client that has one set aside"),
            }
        }
    }

    /// Makes `next` the root once `table` is complete, and retires `table`.
    fn swing(&self, guard: &Guard, table: &Table, next: &Table) {
        let (old, new) = (ptr::from_ref(table).cast_mut(), ptr::from_ref(next).cast_mut());
        // Release: pairs with the Acquire of `root`. The caller has seen every move, so whoever sees the new root does.
        if self.root.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_err() {
            return;
        }
        self.migrations.fetch_add(1, Ordering::Relaxed);
        let graveyard = self.graveyard.clone();
        graveyard.expect(table.bytes());
        // SAFETY: the root was the only way to the table, and the exchange happens once. The box is the one that `new` or
        // `publish` let go of; tables are `Send`, and the graveyard lives as long as somebody holds it.
        unsafe { guard.retire(old, move || graveyard.bury(Box::from_raw(old))) };
        guard.flush();
        self.expect_burial(next);
    }
}

/// Steps at which a model's helper stops for good.
#[cfg(tollgate_loom)]
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// With a chunk begun.
    Begun,
    /// With a word frozen.
    Frozen,
    /// With a slot claimed in the next table, and nothing in it.
    Claimed,
    /// With the payload in the next table, and not yet marked as moved here.
    Installed,
    /// With a chunk finished, and not accounted for.
    Finished,
}

#[cfg(tollgate_loom)]
#[allow(missing_docs)]
impl<A: Algorithm> Map<A> {
    /// Starts a migration of the root, or joins the one that runs, and does nothing more.
    pub fn start_migration(&self, guard: &Guard, now: u64) {
        let root = self.root(guard);
        self.start(guard, root, now, Aim::Balance { live: root.claimed() });
    }

    /// Does one helper's share of the running migration.
    pub fn help_once(&self, guard: &Guard) {
        let table = self.root(guard);
        if let Some(next) = table.next(guard) {
            self.help(guard, table, next);
        }
    }

    /// Starts a migration of the root, or joins the one that runs, and stays with it to the end.
    pub fn migrate(&self, guard: &Guard, now: u64) {
        self.start_migration(guard, now);
        let table = self.root(guard);
        while let Some(next) = table.next(guard) {
            if !ptr::eq(self.root(guard), table) {
                return;
            }
            self.help(guard, table, next);
        }
    }

    /// Helps with the chunk of this client in the running migration, up to a step. A helper that never comes back.
    pub fn stall(&self, guard: &Guard, client: Fingerprint, stop: Stop) {
        let table = self.root(guard);
        let Some(next) = table.next(guard) else { return };
        let Some(chunk) = table.progress.next_chunk() else { return };
        let Some(slot) = table.chunk(chunk).next() else { return };
        if slot.owner() != Owner::Client(client) {
            return;
        }
        if let Stop::Begun = stop {
            return;
        }
        let Frozen::Payload(payload) = slot.word.freeze(&Pointees::<A>::under(guard)) else { return };
        if let Stop::Frozen = stop {
            return;
        }
        if self.is_kept(payload, next) {
            if let Stop::Claimed = stop {
                if let Found::Empty(slot) = next.find(client) {
                    let _ = slot.claim(client);
                }
                return;
            }
            Self::install(client, payload, next);
        }
        if let Stop::Claimed | Stop::Installed = stop {
            return;
        }
        self.carry(guard, slot, client, next, || next.touch(client));
        table.progress.finish(chunk);
    }

    /// How many tables the map has gone through.
    pub fn generation(&self) -> u64 {
        let guard = self.pin();
        self.root(&guard).birth().generation
    }
}
