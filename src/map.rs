//! The concurrent map from clients to words. The only code with atomics that matter; what the models check.
//!
//! # Shape
//!
//! A client is a [`Fingerprint`], a 64-bit keyed hash; keys are not stored. A [`table`] is an array of 16-byte
//! [`slot`]s, four to a cache line, probed linearly. A client takes the first empty slot of its probe order with one
//! CAS, so it can never be in a table twice; from then on its state changes by CAS on its [`word`] alone. Claims stop at
//! three quarters of the slots, which the [`room`] of a table counts.
//!
//! Nothing is ever deleted from a table. Growing, shrinking and forgetting idle clients are one mechanism: the
//! [`migration`] to a new table, which takes along only what is not idle. Every charge moves a chunk of it, so nobody waits
//! for anybody. [`upkeep`] decides when to start one. The old table is retired through the epoch, laid down in the
//! [`graveyard`] and freed there in pieces.
//!
//! # Finding a client while a migration runs
//!
//! The old table comes first, always. A client may be used in the new one only when its slot in the old one is moved, or
//! its probe in the old one meets a sealed slot, or runs through the whole table and meets neither the client nor an
//! empty slot. A charge that meets an empty slot there seals it. So a client is never live in both.
//!
//! # Idle clients
//!
//! Each migration has a *floor*, an instant at or after the one at which it started. A word that is idle at the floor is
//! not taken along, and in the new table no instant before the floor is ever used: `now` is read as `max(now, floor)`.
//! So dropping it changes no answer, whatever a thread with an older reading of the clock is just doing.

pub(crate) mod batch;
pub(crate) mod graveyard;
mod memory;
pub(crate) mod migration;
pub(crate) mod room;
pub(crate) mod slot;
mod table;
mod upkeep;
pub(crate) mod word;

use crate::algorithm::{Algorithm, Charged};
use crate::epoch::{Epoch, Guard};
use crate::sync::{AtomicPtr, Ordering};
use crossbeam_utils::CachePadded;
use graveyard::Graveyard;
use slot::{Fingerprint, Line};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Count;
use table::{Found, Table};
use upkeep::Sizes;
use word::{Applied, Pointees, Step, Word};

/// What a charge came to. Instants are those that the decision used, at or after the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Charge {
    /// Taken: the payload after it.
    Allowed {
        /// The client's payload after the charge.
        payload: u64,
        /// The instant of the decision.
        now: u64,
    },
    /// Refused: the payload as it is.
    Refused {
        /// The client's payload, unchanged.
        payload: u64,
        /// The instant of the decision.
        now: u64,
    },
    /// The client is new, and as many live ones as may be are held.
    Full {
        /// The instant of the decision.
        now: u64,
    },
}

/// Where a client is looked for first. Valid under its guard, also when the map has moved on since.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations)]
pub struct Spot<'g> {
    guard: &'g Guard,
    client: Fingerprint,
    table: &'g Table,
    home: &'g Line,
}

/// What to do about a client that is not held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// Give it a place.
    Claim,
    /// Take it for what those without a place share, if they share anything.
    Share,
    /// Nothing: it has nothing used.
    Ignore,
}

/// All clients of one limiter.
#[derive(Debug)]
pub struct Map<A: Algorithm> {
    root: AtomicPtr<Table>,
    algorithm: A,
    sizes: Sizes,
    /// The state of all clients that are not held, where they share one.
    shared: Option<CachePadded<Word>>,
    epoch: Epoch,
    graveyard: Arc<Graveyard>,
    /// Migrations that have ended. For reports only, so the models do not steer it.
    migrations: Count,
}

impl<A: Algorithm> Map<A> {
    /// An empty map for at least `max_keys` live clients. With `shared`, clients that find no room share one word.
    pub fn new(algorithm: A, max_keys: usize, shared: bool) -> io::Result<Self> {
        let sizes = Sizes::new::<A>(max_keys);
        let lines = Table::allocate(sizes.first()).inspect_err(|_| algorithm.close())?;
        let first = Table::new(lines, sizes.limit(sizes.first()), 0, 0, 0);
        if first.slots() > sizes.settled() {
            first.due_at.store(algorithm.longest_idle(), Ordering::Relaxed);
        }
        Ok(Self {
            root: AtomicPtr::new(Box::into_raw(first)),
            algorithm,
            sizes,
            shared: shared.then(|| CachePadded::new(Word::new())),
            epoch: Epoch::default(),
            graveyard: Arc::new(Graveyard::new()),
            migrations: Count::new(0),
        })
    }

    #[inline]
    pub(crate) fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// A guard under which this map may be used.
    #[inline]
    pub fn pin(&self) -> Guard {
        self.epoch.pin()
    }

    /// Where to look for a client. What is found is fetched into the cache meanwhile, so read the clock afterwards.
    #[inline]
    pub fn locate<'g>(&self, guard: &'g Guard, client: Fingerprint) -> Spot<'g> {
        let table = self.root(guard);
        Spot { guard, client, table, home: table.home(client) }
    }

    /// Pins anew, and frees what is due: for those who keep a guard through many calls.
    #[inline]
    pub(crate) fn freshen(&self, guard: &mut Guard) {
        guard.repin();
        A::reclaim(guard);
    }

    /// Takes `cost` tokens, from 1 to the limit.
    #[inline(always)]
    pub fn charge(&self, spot: Spot<'_>, now: u64, cost: u64) -> Charge {
        let step = |payload, now| Step::charge(&self.algorithm, payload, now, cost);
        self.update(spot, now, Absent::Claim, step).unwrap_or(Charge::Full { now })
    }

    /// Takes `cost` tokens from the word that all clients without a place share; [`Charge::Full`] if there is none.
    pub fn charge_shared(&self, guard: &Guard, now: u64, cost: u64) -> Charge {
        let step = |payload| Step::charge(&self.algorithm, payload, now, cost);
        self.shared
            .as_ref()
            .map_or(Charge::Full { now }, |word| word.apply::<A, _>(&Pointees::under(guard), step).never_frozen())
    }

    /// Undoes a charge; returns the tokens put back.
    ///
    /// The clock is read again once the payload is known. By an older reading, what has refilled meanwhile, and was charged
    /// by others, would be put back on top.
    pub fn give_back(&self, spot: Spot<'_>, clock: impl Fn() -> u64, cost: u64, charged: Charged) -> u64 {
        self.put_back(spot, clock(), Absent::Ignore, |payload, now| {
            self.algorithm.give_back(payload, now.max(clock()), cost, charged)
        })
    }

    /// Undoes a charge of the word that all clients without a place share; returns the tokens put back.
    pub fn give_back_shared(&self, guard: &Guard, clock: impl Fn() -> u64, cost: u64, charged: Charged) -> u64 {
        let step = |payload| Step::put_back(self.algorithm.give_back(payload, clock(), cost, charged));
        self.shared.as_ref().map_or(0, |word| word.apply::<A, _>(&Pointees::under(guard), step).never_frozen())
    }

    /// Puts tokens back; returns how many found room.
    pub fn refund(&self, spot: Spot<'_>, now: u64, tokens: u64) -> u64 {
        self.put_back(spot, now, Absent::Share, |payload, now| self.algorithm.refund(payload, now, tokens))
    }

    /// Makes a client as good as new; returns whether it was not.
    pub fn reset(&self, spot: Spot<'_>, now: u64) -> bool {
        self.put_back(spot, now, Absent::Share, |payload, now| {
            self.algorithm.reset(payload, now).map(|payload| (payload, 1))
        }) > 0
    }

    /// A client's payload, and the instant at which it is to be read. Writes nothing.
    pub fn peek(&self, spot: Spot<'_>, now: u64) -> (u64, u64) {
        let seen = self.update(spot, now, Absent::Share, |payload, now| Step::Keep((payload, now)));
        seen.unwrap_or((0, now))
    }

    fn put_back(
        &self,
        spot: Spot<'_>,
        now: u64,
        absent: Absent,
        transition: impl Fn(u64, u64) -> Option<(u64, u64)>,
    ) -> u64 {
        let guard = spot.guard;
        let step = |payload, now| Step::put_back(transition(payload, now));
        let tokens = self.update(spot, now, absent, step).unwrap_or(0);
        if tokens > 0 {
            self.expect_idle(guard);
        }
        tokens
    }

    /// Runs `step` on a client's payload and writes what it says. `None` if the client is new and finds no place.
    #[inline(always)]
    fn update<R>(&self, spot: Spot<'_>, now: u64, absent: Absent, step: impl Fn(u64, u64) -> Step<R>) -> Option<R> {
        let Spot { guard, client, table, home } = spot;
        if table.is_quiet(now)
            && let Some(slot) = table.find_from(home, client)
        {
            let step = |payload| step(self.or_shared(guard, payload, absent), now);
            if let Applied::Done(outcome) = slot.word.apply::<A, _>(&Pointees::under(guard), step) {
                return Some(outcome);
            }
        }
        self.update_with_care(guard, client, now, absent, step)
    }

    /// The whole of `update`: looks after the table first, and follows the client from table to table.
    #[cold]
    fn update_with_care<R>(
        &self,
        guard: &Guard,
        client: Fingerprint,
        now: u64,
        absent: Absent,
        step: impl Fn(u64, u64) -> Step<R>,
    ) -> Option<R> {
        if absent == Absent::Claim {
            self.look_after(guard, now);
        }
        let mut patience = upkeep::PATIENCE;
        let mut table = self.root(guard);
        loop {
            let at = now.max(table.birth().floor);
            let step = |payload| step(self.or_shared(guard, payload, absent), at);
            let next = match table.find(client) {
                Found::Slot(slot) => match slot.word.apply::<A, _>(&Pointees::under(guard), step) {
                    Applied::Done(outcome) => return Some(outcome),
                    Applied::Moved => table.next(guard),
                    Applied::Frozen => table.next(guard).inspect(|next| {
                        self.carry(guard, slot, client, next, || next.touch(client));
                    }),
                },
                Found::Sealed => table.next(guard),
                Found::Empty(slot) => match (table.next(guard), absent) {
                    (Some(next), Absent::Claim) => match slot.seal() {
                        Ok(()) | Err(slot::Owner::Sealed) => Some(next),
                        Err(_) => continue,
                    },
                    (Some(next), _) => Some(next),
                    // A refusal takes no place.
                    (None, Absent::Claim)
                        if self.shared.is_some()
                            && let Some(outcome) = Self::refused(guard, step(0)) =>
                    {
                        return Some(outcome);
                    }
                    (None, Absent::Claim) if table.room.take() => {
                        if slot.claim(client).is_err() {
                            table.room.give(1);
                        }
                        continue;
                    }
                    (None, Absent::Claim) => None,
                    (None, _) => return Some(self.update_absent(guard, absent, step)),
                },
                Found::Nowhere => match (table.next(guard), absent) {
                    (next, Absent::Claim) | (next @ Some(_), _) => next,
                    (None, _) => return Some(self.update_absent(guard, absent, step)),
                },
            };
            table = match next {
                Some(next) => {
                    if absent == Absent::Claim {
                        next.touch(client);
                    }
                    next
                }
                None if self.make_room(guard, table, at, &mut patience) => self.root(guard),
                None => return None,
            };
        }
    }

    /// Runs `step` for a client that is not held.
    fn update_absent<R>(&self, guard: &Guard, absent: Absent, step: impl Fn(u64) -> Step<R>) -> R {
        let pointees = Pointees::<A>::under(guard);
        match &self.shared {
            Some(word) if absent == Absent::Share => word.apply(&pointees, step).never_frozen(),
            // Nothing was used, so there is nothing to put back.
            _ => match step(0) {
                Step::Keep(outcome) => outcome,
                Step::Write(payload, outcome) => {
                    pointees.discard(payload);
                    outcome
                }
            },
        }
    }

    /// The outcome of a step that writes nothing.
    fn refused<R>(guard: &Guard, step: Step<R>) -> Option<R> {
        match step {
            Step::Keep(outcome) => Some(outcome),
            Step::Write(payload, _) => {
                Pointees::<A>::under(guard).discard(payload);
                None
            }
        }
    }

    /// A client that was never charged has what the clients without a place share, where they share anything: so getting
    /// a place gives nobody a fresh bucket.
    #[inline]
    fn or_shared(&self, guard: &Guard, payload: u64, absent: Absent) -> u64 {
        match (payload, &self.shared) {
            (0, Some(word)) if absent != Absent::Ignore => Self::read(guard, word),
            (payload, _) => payload,
        }
    }

    /// The payload of a word that is in no table. Seldom needed, and so kept out of each step.
    #[cold]
    #[inline(never)]
    fn read(guard: &Guard, word: &Word) -> u64 {
        word.apply::<A, _>(&Pointees::under(guard), Step::Keep).never_frozen()
    }

    /// The table that every search starts from.
    #[inline]
    fn root<'g>(&self, guard: &'g Guard) -> &'g Table {
        // Acquire: pairs with the Release of the swing, behind which all of the table's clients have arrived.
        let root = self.root.load(Ordering::Acquire);
        guard.reach(root);
        // SAFETY: the root is never null, and is retired only after it ceased to be the root: so not before the guard,
        // under which it was loaded, is gone.
        unsafe { &*root }
    }

    /// The root, and the table that it is moving to.
    fn tables<'g>(&self, guard: &'g Guard) -> (&'g Table, Option<&'g Table>) {
        let root = self.root(guard);
        (root, root.next(guard))
    }

    /// Whether the root is another table than when `mark` was made.
    #[inline]
    pub(crate) fn root_mark(&self) -> usize {
        // Relaxed: a hint to pin again; nothing is reached through it.
        self.root.load(Ordering::Relaxed) as usize
    }

    /// Clients held; exact while nobody calls.
    pub fn len(&self) -> usize {
        let guard = self.pin();
        match self.tables(&guard) {
            (root, None) => root.claimed(),
            // What was set aside for this table's clients was counted when the migration started.
            (root, Some(next)) => (next.claimed() + root.claimed()).saturating_sub(next.birth().reserved),
        }
    }

    /// How many migrations have ended.
    pub fn migrations(&self) -> u64 {
        self.migrations.load(Ordering::Relaxed)
    }

    /// Bytes held, what was retired and not yet freed included.
    pub fn memory_bytes(&self) -> usize {
        let guard = self.pin();
        A::reclaim(&guard);
        let (root, next) = self.tables(&guard);
        let tables = root.bytes() + next.map_or(0, Table::bytes) + self.graveyard.bytes();
        size_of::<Self>() + tables + self.algorithm.bytes()
    }
}

impl<A: Algorithm> Map<A> {
    /// Frees what words point to. For the end, when nobody else has the map.
    fn free_pointees(&mut self) {
        let guard = self.pin();
        // With all clients in one table, each pointer is in one word.
        while let (root, Some(next)) = self.tables(&guard) {
            self.help(&guard, root, next);
        }
        let root = self.root(&guard);
        let words = (0..root.progress.chunks()).flat_map(|chunk| root.chunk(chunk)).map(|slot| &slot.word);
        for word in words.chain(self.shared.as_deref()) {
            // SAFETY: nobody else has the map, so nobody reads the payload or has it any more.
            unsafe { A::free(word.take()) };
        }
    }
}

impl<A: Algorithm> Drop for Map<A> {
    fn drop(&mut self) {
        if A::POINTS {
            self.free_pointees();
        }
        self.reclaim(&mut self.epoch.pin());
        self.algorithm.close();
        let mut table = self.root.load(Ordering::Acquire);
        while !table.is_null() {
            // SAFETY: nobody else has the map. The root and what it is moving to were never retired, and all that was is
            // not in this chain.
            let owned = unsafe { Box::from_raw(table) };
            table = owned.next_raw();
        }
        #[cfg(all(tollgate_loom, not(crossbeam_loom)))]
        self.epoch.empty();
    }
}
