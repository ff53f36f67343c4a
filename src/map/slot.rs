//! One client's place in a table: a fingerprint that says whose it is, and a word.
//!
//! ```text
//! EMPTY ──claim──► fingerprint        a client's, for as long as the table lives
//!   │
//!   └────seal────► SEALED             nobody's: the table is being left
//! ```
//!
//! Claiming publishes nothing, since a word of 0 is what an absent client has.

use super::word::Word;
use crate::sync::{AtomicU64, Ordering};

/// Slots that share a cache line.
pub(crate) const SLOTS: usize = if cfg!(tollgate_loom) { 2 } else { 4 };

const EMPTY: u64 = 0;
const SEALED: u64 = 1;

/// The identity of a client inside a limiter: a keyed hash of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint for a hash. Two values mark slots, so their hashes share a fingerprint with others.
    #[inline]
    pub const fn new(hash: u64) -> Self {
        Self(if hash <= SEALED { hash + 2 } else { hash })
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

/// What a slot's fingerprint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    Sealed,
    Client(Fingerprint),
}

impl Owner {
    #[inline]
    fn of(fingerprint: u64) -> Self {
        match fingerprint {
            EMPTY => Self::Nobody,
            SEALED => Self::Sealed,
            client => Self::Client(Fingerprint(client)),
        }
    }
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    fingerprint: AtomicU64,
    pub(crate) word: Word,
}

/// A cache line of slots.
#[derive(Debug)]
#[cfg_attr(not(tollgate_loom), repr(C, align(64)))]
pub(crate) struct Line(pub(crate) [Slot; SLOTS]);

#[cfg(not(tollgate_loom))]
const _: () = assert!(size_of::<Line>() == 64);

impl Slot {
    #[inline]
    pub(crate) fn owner(&self) -> Owner {
        // Acquire: SEALED leads to the next table, which its sealer had seen.
        Owner::of(self.fingerprint.load(Ordering::Acquire))
    }

    /// Whether the slot is this client's.
    #[inline]
    pub(crate) fn is(&self, client: Fingerprint) -> bool {
        // Relaxed: a claim publishes nothing, and a client's slot is its own for good.
        self.fingerprint.load(Ordering::Relaxed) == client.0
    }

    /// Writes without changing anything, so that the system gives the slot a page of its own at once. A fresh page that is
    /// read first is one of zeros that all share, and the write after it a second fault, of which every processor is told.
    #[inline]
    pub(crate) fn touch(&self) {
        // Relaxed: it says nothing to anybody. To a model it would only be one step more.
        if cfg!(not(tollgate_loom)) {
            let _ = self.fingerprint.compare_exchange(EMPTY, EMPTY, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Makes an empty slot a client's, or says whose it is instead.
    pub(crate) fn claim(&self, client: Fingerprint) -> Result<(), Owner> {
        self.replace_empty(client.0)
    }

    /// Makes sure that an empty slot stays empty, or says whose it is instead.
    pub(crate) fn seal(&self) -> Result<(), Owner> {
        self.replace_empty(SEALED)
    }

    fn replace_empty(&self, new: u64) -> Result<(), Owner> {
        // Release: what the sealer had seen goes with the seal; a claim needs none. Acquire: as in `owner`.
        match self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(actual) => Err(Owner::of(actual)),
        }
    }
}

impl Line {
    /// A client's slot, if it has one in this line. Where in the line cannot be predicted, so there is no branch on it.
    #[inline]
    pub(crate) fn find(&self, client: Fingerprint) -> Option<&Slot> {
        // No more than one slot is the client's, so the sum is its index; or 0, which goes for the first and for none.
        let index: usize = (1..SLOTS).map(|i| i * usize::from(self.0[i].is(client))).sum();
        let slot = &self.0[index % SLOTS];
        slot.is(client).then_some(slot)
    }
}

impl Line {
    /// Whether a probe ends in this line.
    pub(crate) fn has_room(&self) -> bool {
        self.0.iter().any(|slot| !matches!(slot.owner(), Owner::Client(_)))
    }
}

#[cfg(tollgate_loom)]
impl Line {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Slot { fingerprint: AtomicU64::new(EMPTY), word: Word::new() }))
    }
}
