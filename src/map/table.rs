//! One table: an array of cache lines, probed linearly, and what its migration needs to know.

use super::memory::Lines;
use super::room::Room;
use super::slot::{Fingerprint, Line, Owner, SLOTS, Slot};
use crate::epoch::Guard;
use crate::prefetch::prefetch;
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, Plain};
use std::io;

/// Slots that a helper moves at a time.
pub(super) const CHUNK: usize = if cfg!(tollgate_loom) { 1 } else { 64 };

/// The lines of the smallest page of memory.
const PAGE: usize = 64;

#[derive(Debug)]
pub(super) struct Table {
    lines: Lines,
    /// What a table knows from its birth.
    birth: Plain<Birth>,
    /// When the next call should look after the table, in nanoseconds; 0 from the moment its migration starts.
    pub(super) due_at: AtomicU64,
    /// When it next pays to look for idle clients to make room for a new one.
    pub(super) scarce_at: AtomicU64,
    pub(super) room: Room,
    next: AtomicPtr<Table>,
    pub(super) progress: Progress,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Birth {
    /// The instant at which the previous table's idle clients were told from the live ones. Nothing here is read at an
    /// earlier one.
    pub(super) floor: u64,
    /// The most clients it may take.
    pub(super) limit: usize,
    /// How many of these places were set aside for the clients of the previous table.
    pub(super) reserved: usize,
    pub(super) generation: u64,
    /// 63 less the binary logarithm of the number of lines.
    shift: u32,
}

/// How far a table has been moved.
#[derive(Debug)]
pub(super) struct Progress {
    /// The next chunk that nobody has begun.
    cursor: AtomicUsize,
    /// One bit a chunk, set by the first helper to finish it. The table is left once all are set.
    done: Box<[AtomicU64]>,
    /// All chunks of the words of `done` before this one are finished. May lag.
    swept: AtomicUsize,
    /// How many chunks are accounted for.
    counted: AtomicUsize,
    /// Clients accounted for so far, kept or dropped.
    moved: AtomicUsize,
    chunks: usize,
}

/// Where a client's probe ends.
pub(super) enum Found<'a> {
    Slot(&'a Slot),
    Empty(&'a Slot),
    Sealed,
    /// Every slot is another client's.
    Nowhere,
}

impl Table {
    /// Memory for a table. `slots` is a power of two and makes at least a line.
    pub(super) fn allocate(slots: usize) -> io::Result<Lines> {
        Lines::new(slots / SLOTS)
    }

    /// An empty table.
    pub(super) fn new(lines: Lines, limit: usize, reserved: usize, floor: u64, generation: u64) -> Box<Self> {
        let count = lines.len();
        let slots = count * SLOTS;
        debug_assert!(count.is_power_of_two() && reserved <= limit && limit <= slots);
        let birth = Birth { floor, limit, reserved, generation, shift: u64::BITS - 1 - count.trailing_zeros() };
        Box::new(Self {
            lines,
            birth: Plain::new(birth),
            due_at: AtomicU64::new(u64::MAX),
            scarce_at: AtomicU64::new(0),
            room: Room::new(limit - reserved),
            next: AtomicPtr::new(std::ptr::null_mut()),
            progress: Progress::new(slots.div_ceil(CHUNK)),
        })
    }

    #[inline]
    pub(super) fn birth(&self) -> Birth {
        self.birth.get()
    }

    #[inline]
    pub(super) fn is_due(&self, now: u64) -> bool {
        // Relaxed: a hint. Whoever acts on it reads what it needs for itself.
        cfg!(tollgate_stress) || now >= self.due_at.load(Ordering::Relaxed)
    }

    /// Whether a call at `now` has nothing to do here but its own: the table is not due, nor is the instant before its
    /// floor.
    #[inline]
    pub(super) fn is_quiet(&self, now: u64) -> bool {
        !self.is_due(now) && now >= self.birth().floor
    }

    pub(super) fn slots(&self) -> usize {
        self.lines.len() * SLOTS
    }

    /// Clients held, those set aside included; exact while nobody calls.
    pub(super) fn claimed(&self) -> usize {
        self.birth().limit - self.room.left().min(self.birth().limit)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.lines.bytes() + self.room.bytes() + size_of_val(&*self.progress.done)
    }

    /// Gives memory back, a piece a call; 0 once only the header is left.
    pub(super) fn release(&mut self, piece: usize) -> usize {
        // Read so that a model notices a table that is handed on without its fields.
        debug_assert!(self.birth().limit > 0);
        self.lines.release(piece)
    }

    /// The table that this one is moving to.
    #[inline]
    pub(super) fn next<'g>(&self, guard: &'g Guard) -> Option<&'g Table> {
        // Acquire: pairs with the Release of `publish`.
        let next = self.next.load(Ordering::Acquire);
        guard.reach(next);
        // SAFETY: a table that was published is retired only after it was the root and ceased to be, which is after this
        // one, reached under the guard, did: so not before the guard is gone.
        unsafe { next.as_ref() }
    }

    /// Starts the migration to `next`, unless another has started: then `next` comes back.
    pub(super) fn publish(&self, next: Box<Table>) -> Result<(), Box<Table>> {
        let next = Box::into_raw(next);
        // Release: the new table's fields. Where it fails, only the fact counts.
        match self.next.compare_exchange(std::ptr::null_mut(), next, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: it came from a box just now, and was not published.
            Err(_) => Err(unsafe { Box::from_raw(next) }),
        }
    }

    /// The next table as raw pointer, for whoever ends both.
    pub(super) fn next_raw(&self) -> *mut Table {
        self.next.load(Ordering::Acquire)
    }

    /// A client's first line, whose fetching this starts. It comes from the high bits, so the clients of a chunk lie
    /// together in any other table too, and a migration walks both in order.
    #[inline]
    pub(super) fn home(&self, client: Fingerprint) -> &Line {
        let line = self.line(client);
        prefetch(std::ptr::from_ref(line));
        line
    }

    /// A client's first line.
    #[inline]
    pub(super) fn line(&self, client: Fingerprint) -> &Line {
        &self.lines[self.home_index(client)]
    }

    /// Prepares memory that may be fresh for a client who is about to get a place there.
    #[inline]
    pub(super) fn touch(&self, client: Fingerprint) {
        self.home(client).0[0].touch();
    }

    #[inline]
    fn home_index(&self, client: Fingerprint) -> usize {
        // Two shifts, since a table of one line would be a shift by 64.
        (client.get() >> 1 >> self.birth().shift) as usize
    }

    /// Follows a client's probe order: its home line, then line after line.
    pub(super) fn find(&self, client: Fingerprint) -> Found<'_> {
        for Line(slots) in self.probe(client) {
            for slot in slots {
                match slot.owner() {
                    Owner::Client(owner) if owner == client => return Found::Slot(slot),
                    Owner::Client(_) => {}
                    Owner::Nobody => return Found::Empty(slot),
                    Owner::Sealed => return Found::Sealed,
                }
            }
        }
        Found::Nowhere
    }

    /// A client's slot, if it has one; mostly it is in its home line.
    #[inline(always)]
    pub(super) fn find_from<'a>(&'a self, home: &'a Line, client: Fingerprint) -> Option<&'a Slot> {
        home.find(client).or_else(|| self.find_beyond(home, client))
    }

    /// A client's slot past its home line, if it has one there.
    #[cold]
    fn find_beyond(&self, home: &Line, client: Fingerprint) -> Option<&Slot> {
        if home.has_room() {
            return None;
        }
        match self.find(client) {
            Found::Slot(slot) => Some(slot),
            _ => None,
        }
    }

    fn probe(&self, client: Fingerprint) -> impl Iterator<Item = &Line> {
        let home = self.home_index(client);
        let mask = self.lines.len() - 1;
        (home..=home + mask).map(move |line| &self.lines[line & mask])
    }

    /// Prepares for moves from one of so many parts of the table, or to there: touches its memory, which may be fresh, and
    /// has its lines fetched.
    pub(super) fn expect_moves(&self, part: usize, parts: usize) {
        let count = (self.lines.len() / parts).max(1);
        let first = part / (parts / self.lines.len()).max(1) * count;
        let lines = &self.lines[first..first + count];
        lines.iter().step_by(PAGE).for_each(|line| line.0[0].touch());
        lines.iter().for_each(|line| prefetch(line));
    }

    /// The slots of a chunk.
    pub(super) fn chunk(&self, chunk: usize) -> impl Iterator<Item = &Slot> {
        let slots = chunk * CHUNK..self.slots().min((chunk + 1) * CHUNK);
        slots.map(|slot| &self.lines[slot / SLOTS].0[slot % SLOTS])
    }
}

impl Progress {
    fn new(chunks: usize) -> Self {
        Self {
            cursor: AtomicUsize::new(0),
            done: (0..chunks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            swept: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
            chunks,
        }
    }

    pub(super) fn chunks(&self) -> usize {
        self.chunks
    }

    /// A chunk to move: one that nobody has begun, or else one that nobody has finished. `None` once all are finished:
    /// then every move of every chunk is visible to the caller.
    pub(super) fn next_chunk(&self) -> Option<usize> {
        // Relaxed: a chunk that is handed out twice, or begun and never finished, is moved again.
        if self.cursor.load(Ordering::Relaxed) < self.chunks {
            let chunk = self.cursor.fetch_add(1, Ordering::Relaxed);
            if chunk < self.chunks {
                return Some(chunk);
            }
        }
        // Acquire, twice: pairs with the Release of `finish`, or with that of `swept`, whose writer had seen the bits.
        let swept = self.swept.load(Ordering::Acquire);
        for (word, done) in self.done.iter().enumerate().skip(swept) {
            let chunk = word * 64 + done.load(Ordering::Acquire).trailing_ones() as usize;
            if chunk < self.chunks.min((word + 1) * 64) {
                self.swept.fetch_max(word, Ordering::Release);
                return Some(chunk);
            }
        }
        None
    }

    /// Records that every slot of a chunk was moved. Returns whether this was the first record of it.
    pub(super) fn finish(&self, chunk: usize) -> bool {
        let bit = 1 << (chunk % 64);
        // Release: pairs with `next_chunk`, which may find that this was the last.
        self.done[chunk / 64].fetch_or(bit, Ordering::Release) & bit == 0
    }

    /// Accounts for a chunk, once, and for its clients. Returns how many clients there were in all, if it was the last.
    pub(super) fn account(&self, clients: usize) -> Option<usize> {
        self.moved.fetch_add(clients, Ordering::Relaxed);
        // Release: the sum above. Acquire: those of all others.
        let last = self.counted.fetch_add(1, Ordering::AcqRel) + 1 == self.chunks;
        last.then(|| self.moved.load(Ordering::Relaxed))
    }
}
