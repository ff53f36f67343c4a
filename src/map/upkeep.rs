//! When to migrate, and to what size.
//!
//! A migration is due when the room of the table is spent, and when it would give memory back. In both cases a call
//! *looks*: it reads a few chunks of the table. Where the room is spent, the next table is twice as large, or of the same
//! size if at least half of the clients seen are idle: then each chunk that is moved frees more places than a call needs.
//! For memory, a call looks at a time that the last look or the last migration learned. If no more than an eighth of the
//! table is live clients, it starts a migration, to a smaller one if its clients fit there, idle ones too; otherwise it
//! learns when there will be so few. So a flood is forgotten even when only known clients call, and a table is not copied
//! in vain: idle clients in a table of the right size cost nothing, and their places come back, many at once, when they
//! are needed. Where clients hold memory beside the table they do cost something, and half of them idle are worth a
//! migration: each that is forgotten then pays for copying at most one that is not. Other tables of up to [`SETTLED`]
//! slots are left alone, as there is nothing to win.
//!
//! At the largest size, idle clients are sought as soon as a new one finds no place, and 1 in 32 is worth a migration.

use super::Map;
use super::slot::{Owner, SLOTS};
use super::table::{CHUNK, Table};
use super::word::{Applied, Pointees, Step};
use crate::algorithm::Algorithm;
use crate::epoch::Guard;
use crate::sync::Ordering;

/// How many chunks a call moves at most in search of a place in a full map.
pub(super) const PATIENCE: usize = if cfg!(tollgate_loom) { 3 } else { 16 };

/// The shortest time between two looks at a table, in nanoseconds.
const LOOK_EVERY: u64 = 1_000_000;

/// Claimed slots that a look wants to see, and chunks that it reads for them at most.
const SAMPLE: usize = 64;
const SAMPLE_CHUNKS: usize = 8;
/// As many chunks are read in search of a place in a full map: up to 8,192 slots, exactly.
const SCARCE_CHUNKS: usize = 128;

/// Retired memory may be this many times what is in use, and a megabyte, before migrations have to wait that only forget
/// idle clients.
const RETIRED_MULTIPLE: usize = 4;
const RETIRED_SLACK: usize = 1 << 20;

/// The smallest table, and the places kept for threads that claim at the same time.
const SMALLEST: usize = if cfg!(tollgate_loom) { SLOTS } else { 256 };
const SLACK: usize = if cfg!(tollgate_loom) { 0 } else { 64 };

/// A table that has at least this many slots to a live client is too large, and one that becomes smaller has about half as
/// many: so it does not grow again at once.
const ROOMY: usize = 8;

/// How long such a table is kept at least, in nanoseconds a slot: of the order of what it takes to move. Otherwise callers
/// who come in bursts would make it shrink and grow in turns.
const STAY: u64 = if cfg!(tollgate_loom) { 0 } else { 100 };
/// A table that has at least this many slots to a live client is not kept for so long.
const DESERTED: usize = 64;

/// Tables of up to this many slots (128 KiB) are not migrated to save memory.
const SETTLED: usize = if cfg!(tollgate_loom) { SMALLEST } else { 8192 };

/// What a migration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Make room where most clients are live.
    Grow,
    /// Be rid of idle clients, and of memory where so many live ones, about, have too much.
    Balance { live: usize },
    /// Become as small as possible.
    Fit,
}

/// The sizes that the tables of a map may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The most clients that may be held: the live ones asked for, and an eighth for idle ones not yet dropped.
    claims: usize,
    largest: usize,
    /// Tables of up to so many slots are not migrated to save memory.
    settled: usize,
}

impl Sizes {
    pub(super) fn new<A: Algorithm>(max_keys: usize) -> Self {
        let claims = max_keys + max_keys / 8;
        let settled = if A::POINTS { 0 } else { SETTLED };
        Self { claims, largest: slots_for(claims).max(SMALLEST), settled }
    }

    pub(super) fn settled(&self) -> usize {
        self.settled
    }

    pub(super) fn first(&self) -> usize {
        SMALLEST
    }

    /// The most clients that a table may take: three quarters of its slots. Further up the probes of unknown clients grow
    /// from 3 lines to 9 (at 7/8) and 50 (at 19/20).
    pub(super) fn limit(&self, slots: usize) -> usize {
        (slots - slots / 4).min(self.claims)
    }

    /// The size for the clients of `table`, of which there are at most `claimed`, and those that may come while it moves:
    /// every claim moves a chunk.
    pub(super) fn next(&self, table: &Table, claimed: usize, aim: Aim) -> usize {
        let enough = slots_for(claimed + table.progress.chunks() + SLACK);
        let roomy = match aim {
            Aim::Grow => enough.max(2 * table.slots()),
            // No larger than before: the places of the idle clients are enough.
            Aim::Balance { live } => {
                let wanted = (ROOMY / 2 * live).next_power_of_two();
                slots_for(claimed).max(wanted).clamp(self.settled, table.slots().max(self.settled))
            }
            Aim::Fit => enough,
        };
        roomy.clamp(SMALLEST, self.largest)
    }
}

/// The smallest table that takes that many claims.
fn slots_for(claims: usize) -> usize {
    (claims + claims.div_ceil(3)).next_power_of_two()
}

/// What a look has seen: when the clients that are live will be idle, and how many are.
struct Sample {
    live: Vec<u64>,
    idle: usize,
}

impl Sample {
    fn seen(&self) -> usize {
        self.idle + self.live.len()
    }

    fn is_half_idle(&self) -> bool {
        self.idle > 0 && self.idle >= self.live.len()
    }

    /// How many of so many clients are live, if they are as those that were seen.
    fn live_of(&self, claimed: usize) -> usize {
        part(self.live.len(), self.seen(), claimed)
    }

    /// When so many of the clients seen will be idle, or all that are live.
    fn idle_at(mut self, wanted: usize) -> Option<u64> {
        let missing = wanted.saturating_sub(self.idle);
        self.live.sort_unstable();
        self.live.get(missing.min(self.live.len().saturating_sub(1))).copied()
    }
}

impl<A: Algorithm> Map<A> {
    /// Frees what is retired, as far as no guard but this one holds it.
    pub(super) fn reclaim(&self, guard: &mut Guard) {
        const TRIES: usize = 8;
        A::reclaim(guard);
        for _ in 0..TRIES {
            if self.graveyard.bytes() == 0 {
                return;
            }
            guard.repin();
            guard.flush();
            // Whole tables, so that other threads are disturbed seldom.
            while self.graveyard.free_piece(usize::MAX) {}
        }
    }

    /// Does what is due, a bounded piece of it: moves a chunk, or looks at the table, or frees memory.
    pub(super) fn look_after(&self, guard: &Guard, now: u64) {
        let table = self.root(guard);
        if let Some(next) = table.next(guard) {
            // Whoever started may have been stopped before it could say so.
            self.call_for_help(table);
            self.help(guard, table, next);
        } else if cfg!(tollgate_stress) {
            // The test build in which tables are always on the move.
            let aim = Aim::Balance { live: table.claimed() };
            let _ = self.can_afford_eviction(table) && self.start(guard, table, now, aim);
        } else if table.is_due(now) {
            self.look(guard, table, now);
        } else {
            self.graveyard.tidy(guard);
        }
    }

    /// Looks whether a migration would give memory back.
    fn look(&self, guard: &Guard, table: &Table, now: u64) {
        let due = table.due_at.load(Ordering::Relaxed);
        let again = now.saturating_add(LOOK_EVERY);
        // One call looks. 0 stands for good, so that the help called for meanwhile comes.
        if due == 0 || due > now || !replace(table, due, again) {
            return;
        }
        self.graveyard.tidy(guard);
        let mut next_look = if self.graveyard.bytes() > 0 { again } else { u64::MAX };
        if table.slots() > self.sizes.settled {
            let sample = self.sample(guard, table, now, SAMPLE_CHUNKS);
            let claimed = table.claimed();
            let live = sample.live_of(claimed);
            let leave_at = self.too_large_from(table, live);
            if leave_at.is_some_and(|at| now >= at) || A::POINTS && sample.is_half_idle() {
                if self.can_afford_eviction(table) && self.start(guard, table, now, Aim::Balance { live }) {
                    return;
                }
                next_look = again;
            } else {
                let due = leave_at.or_else(|| {
                    let seen = sample.seen();
                    // More than an eighth of the slots is live, so there are more clients than that.
                    let worthwhile =
                        if A::POINTS { seen / 2 } else { seen - part(table.slots() / ROOMY, claimed, seen) };
                    sample.idle_at(worthwhile)
                });
                next_look = due.map_or(next_look, |due| next_look.min(due).max(again));
            }
        }
        replace(table, again, next_look);
    }

    /// Reads chunks of a table until it has seen enough clients.
    fn sample(&self, guard: &Guard, table: &Table, now: u64, most: usize) -> Sample {
        let chunks = table.progress.chunks();
        // Anywhere: which chunk it is says nothing about the clients in it.
        let first = now.wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize % chunks;
        let mut sample = Sample { live: Vec::new(), idle: 0 };
        for chunk in 0..chunks.min(most) {
            for slot in table.chunk((first + chunk) % chunks) {
                if let Owner::Client(_) = slot.owner()
                    && let Applied::Done(payload) = slot.word.apply::<A, _>(&Pointees::under(guard), Step::Keep)
                {
                    match payload == 0 || self.algorithm.is_idle(payload, now) {
                        true => sample.idle += 1,
                        false => sample.live.push(self.algorithm.idle_at(payload)),
                    }
                }
            }
            if most == SAMPLE_CHUNKS && sample.seen() >= SAMPLE {
                break;
            }
        }
        sample
    }

    /// From when on it is worth leaving a table that is too large for so many live clients; `None` if it is not.
    fn too_large_from(&self, table: &Table, live: usize) -> Option<u64> {
        let slots = table.slots();
        let age = if live <= slots / DESERTED { 0 } else { STAY * slots as u64 };
        let (smallest, most) = (self.sizes.settled.max(SMALLEST), slots / ROOMY);
        (slots > smallest && live <= most).then(|| table.birth().floor.saturating_add(age))
    }

    /// Sees to it that a new client may find a place if it tries again. `false` if there is none to be had.
    pub(super) fn make_room(&self, guard: &Guard, table: &Table, now: u64, patience: &mut usize) -> bool {
        let root = self.root(guard);
        let at_most = |slots| slots == self.sizes.largest;
        if let Some(next) = root.next(guard) {
            self.help(guard, root, next);
            *patience -= usize::from(at_most(next.slots()));
            return *patience > 0;
        }
        if !std::ptr::eq(root, table) {
            return true;
        }
        if !at_most(root.slots()) {
            let mut aim = Aim::Grow;
            if root.slots() >= self.sizes.settled && self.can_afford_eviction(root) {
                let sample = self.sample(guard, root, now, SAMPLE_CHUNKS);
                if sample.is_half_idle() {
                    aim = Aim::Balance { live: sample.live_of(root.claimed()) };
                }
            }
            return self.start(guard, root, now, aim);
        }
        if !self.can_afford_eviction(root) {
            self.graveyard.tidy(guard);
            return false;
        }
        let due = root.scarce_at.load(Ordering::Relaxed);
        if now < due {
            return false;
        }
        // The more slots are read, the less often.
        let again = now.saturating_add(16 * root.slots().min(SCARCE_CHUNKS * CHUNK) as u64);
        if root.scarce_at.compare_exchange(due, again, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            *patience -= 1;
            return *patience > 0;
        }
        let sample = self.sample(guard, root, now, SCARCE_CHUNKS);
        if sample.idle > sample.live.len() / 32 {
            return self.start(guard, root, now, Aim::Balance { live: sample.live_of(root.claimed()) });
        }
        let worthwhile = sample.seen() / 32;
        let enough = sample.idle_at(worthwhile).map_or(again, |at| at.max(again));
        let _ = root.scarce_at.compare_exchange(again, enough, Ordering::Relaxed, Ordering::Relaxed);
        false
    }

    /// Whether so little is retired that a migration may start which is not needed to take in more clients. While a guard
    /// keeps tables from being freed, only growth goes on, and that adds up to no more than the table it ends with.
    fn can_afford_eviction(&self, table: &Table) -> bool {
        self.graveyard.bytes() <= RETIRED_MULTIPLE * table.bytes() + RETIRED_SLACK
    }

    /// Somebody was made idle, or nearly so: what was learned of places is out of date. A hint: a look that is just under
    /// way may miss it, and the next one finds the place.
    pub(super) fn expect_idle(&self, guard: &Guard) {
        let root = self.root(guard);
        if root.scarce_at.load(Ordering::Relaxed) != 0 {
            root.scarce_at.store(0, Ordering::Relaxed);
        }
    }

    /// A table has just got all of its clients.
    pub(super) fn settle(&self, table: &Table) {
        if let Some(at) = self.too_large_from(table, table.claimed()) {
            table.due_at.fetch_min(at, Ordering::Relaxed);
        }
    }

    /// A table is about to be laid down in the graveyard, and `root` has taken its place.
    pub(super) fn expect_burial(&self, root: &Table) {
        root.due_at.fetch_min(root.birth().floor.saturating_add(LOOK_EVERY), Ordering::Relaxed);
    }

    /// Drops every client that is idle now and fits the table to the rest. Returns how many were dropped by this call; those
    /// that others dropped meanwhile are theirs. Does nothing while too much is retired and held by a guard.
    pub fn sweep(&self, now: u64) -> usize {
        let mut guard = self.pin();
        let root = self.root(&guard);
        let last = root.birth().generation + 1 + u64::from(root.next(&guard).is_some());
        let mut dropped = 0;
        for step in 1_u64.. {
            if step % 64 == 0 {
                self.freshen(&mut guard);
            }
            if let (root, Some(next)) = self.tables(&guard) {
                dropped += self.help(&guard, root, next);
                continue;
            }
            self.reclaim(&mut guard);
            let root = self.root(&guard);
            let generation = root.birth().generation;
            let fits = self.sizes.next(root, root.claimed(), Aim::Fit) >= root.slots();
            let done = generation >= last && (fits || generation >= last + Self::FITTINGS);
            if done || !self.can_afford_eviction(root) || !self.start(&guard, root, now, Aim::Fit) {
                break;
            }
        }
        dropped
    }

    /// Migrations that one sweep adds at most in order to become smaller: each divides the size by up to 32.
    const FITTINGS: u64 = 6;
}

/// As many of `number` as `some` are of `all`. In 64 bits, since products leave an address's size where that is less.
fn part(some: usize, all: usize, number: usize) -> usize {
    (some as u64 * number as u64 / (all as u64).max(1)) as usize
}

/// Moves a table's due time on, unless it has changed meanwhile.
fn replace(table: &Table, due: u64, new: u64) -> bool {
    table.due_at.compare_exchange(due, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}
