//! The atomic word of one client: the algorithm's payload, and two flags of the migration.
//!
//! ```text
//! payload ──charge, refund, reset──► payload      while neither flag is set
//!    │
//!    └─ freeze ─► FROZEN│payload ─── move ───► MOVED│FROZEN│payload
//! ```
//!
//! A frozen payload never changes again. While it is frozen and not moved it is still the client's state, and may be read;
//! once it is moved, the state lives in the next table and this payload means nothing.
//!
//! A payload may be a pointer to what the algorithm has published behind it: none of today's is, but the orderings here
//! are strong enough, and a model shows it.

use crate::algorithm::PAYLOAD_MAX;
use crate::sync::{AtomicU64, Ordering};

const FROZEN: u64 = 1 << 63;
const MOVED: u64 = 1 << 62;

/// What a transition wants of a word.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub enum Step<R> {
    /// Replace the payload.
    Write(u64, R),
    /// Leave the word alone.
    Keep(R),
}

/// What became of a transition.
#[derive(Debug)]
#[must_use]
pub(crate) enum Applied<R> {
    Done(R),
    /// The word is frozen, so the new payload could not be written. It has to be moved first.
    Frozen,
    /// The client's state is in the next table.
    Moved,
}

impl<R> Applied<R> {
    /// The outcome, for a word that is in no table.
    pub(crate) fn never_frozen(self) -> R {
        match self {
            Self::Done(outcome) => outcome,
            Self::Frozen | Self::Moved => unreachable!("only a table's migration freezes words"),
        }
    }
}

/// A word as its freezing found it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Frozen {
    pub(crate) payload: u64,
    pub(crate) moved: bool,
}

#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Runs `step` on the payload until its outcome stands.
    #[inline]
    pub(crate) fn apply<R>(&self, step: impl Fn(u64) -> Step<R>) -> Applied<R> {
        // Acquire: pairs with the Release of whoever wrote the payload, which may be a pointer; and a flag that is seen
        // brings with it the next table, which its setter had seen.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & MOVED != 0 {
                return Applied::Moved;
            }
            match step(word & PAYLOAD_MAX) {
                Step::Keep(outcome) => return Applied::Done(outcome),
                Step::Write(..) if word & FROZEN != 0 => return Applied::Frozen,
                Step::Write(payload, outcome) => {
                    debug_assert!((1..=PAYLOAD_MAX).contains(&payload));
                    match self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire) {
                        Ok(_) => return Applied::Done(outcome),
                        Err(actual) => word = actual,
                    }
                }
            }
        }
    }

    /// Ends all writes to the payload.
    pub(crate) fn freeze(&self) -> Frozen {
        // Acquire: the payload may be a pointer. Release: the flag leads others to the next table.
        let word = self.0.fetch_or(FROZEN, Ordering::AcqRel);
        Frozen { payload: word & PAYLOAD_MAX, moved: word & MOVED != 0 }
    }

    /// Puts a payload that was frozen elsewhere into this word, which nobody has charged. Happens once: a word that was
    /// written never holds payload 0 again, so a helper that comes late changes nothing.
    pub(crate) fn install(&self, payload: u64) {
        // Relaxed: this word is read by those who have seen the old one marked as moved, or a table that came after. Who
        // marked it had acquired the payload when it froze it, and had seen this word written, by itself or by another.
        let _ = self.0.compare_exchange(0, payload, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Declares that the payload is in the next table, or was dropped. Returns whether this call was the first to do so.
    pub(crate) fn mark_moved(&self) -> bool {
        // Release: whoever sees the flag must see the installed payload behind it.
        self.0.fetch_or(MOVED, Ordering::Release) & MOVED == 0
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    fn write(payload: u64) -> impl Fn(u64) -> Step<u64> {
        move |seen| Step::Write(payload, seen)
    }

    #[test]
    fn a_frozen_word_can_be_read_but_not_written() {
        let word = Word::new();
        assert!(matches!(word.apply(write(5)), Applied::Done(0)));
        let frozen = word.freeze();
        assert_eq!((frozen.payload, frozen.moved), (5, false));
        assert!(matches!(word.apply(write(6)), Applied::Frozen));
        assert!(matches!(word.apply(Step::Keep), Applied::Done(5)));
    }

    #[test]
    fn a_moved_word_answers_nothing() {
        let word = Word::new();
        let _ = word.freeze();
        assert!(word.mark_moved());
        assert!(!word.mark_moved());
        assert!(matches!(word.apply(Step::Keep), Applied::Moved));
        assert!(word.freeze().moved);
    }

    #[test]
    fn a_payload_is_installed_once() {
        let word = Word::new();
        word.install(7);
        word.install(8);
        assert!(matches!(word.apply(Step::Keep), Applied::Done(7)));
    }
}
