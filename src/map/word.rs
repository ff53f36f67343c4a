//! The atomic word of one client: the algorithm's payload, and two flags of the migration.
//!
//! ```text
//! payload ──charge, refund, reset──► payload      while neither flag is set
//!    │
//!    └─ freeze ─► FROZEN│payload ─── move ───► MOVED│FROZEN│payload
//! ```
//!
//! A frozen payload never changes again. While it is frozen and not moved it is still the client's state, and may be read;
//! once it is moved, the state lives in the next table, or was dropped. Of the payload then one bit is left, which says
//! that: what it was may be gone.
//!
//! A payload may be a pointer. What it points to belongs to the word that holds it: a CAS that replaces it retires it, one
//! that fails frees what it would have published, and installing it in the next table hands it on. So it may be read by
//! whoever loaded it, unmoved, under a guard that stands.

use super::Charge;
use crate::algorithm::{Algorithm, PAYLOAD_MAX};
use crate::epoch::Guard;
use crate::sync::{AtomicU64, Ordering};
use std::marker::PhantomData;

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

impl Step<Charge> {
    /// Takes `cost` at `now`.
    #[inline(always)]
    pub(crate) fn charge(algorithm: &impl Algorithm, payload: u64, now: u64, cost: u64) -> Self {
        Self::charged(algorithm.charge(payload, now, cost), payload, now)
    }

    /// Writes the payload that a charge has come to, or leaves the one that it found.
    #[inline(always)]
    pub(crate) fn charged(charged: Option<u64>, payload: u64, now: u64) -> Self {
        match charged {
            Some(payload) => Self::Write(payload, Charge::Allowed { payload, now }),
            None => Self::Keep(Charge::Refused { payload, now }),
        }
    }
}

impl Step<u64> {
    /// Puts tokens back as a transition says: the new payload, and how many they are.
    pub(crate) fn put_back(transition: Option<(u64, u64)>) -> Self {
        transition.map_or(Self::Keep(0), |(payload, tokens)| Self::Write(payload, tokens))
    }
}

/// What payloads point to, where the algorithm's are pointers; else nothing, and all of this is nothing too.
pub(crate) struct Pointees<'g, A> {
    guard: Option<&'g Guard>,
    algorithm: PhantomData<fn(A)>,
}

impl<'g, A: Algorithm> Pointees<'g, A> {
    /// Those that may be reached under a guard.
    #[inline]
    pub(crate) fn under(guard: &'g Guard) -> Self {
        Self::maybe_under(Some(guard))
    }

    /// The same; without a guard only for payloads that are no pointers.
    #[inline]
    pub(crate) fn maybe_under(guard: Option<&'g Guard>) -> Self {
        debug_assert!(!A::POINTS || guard.is_some());
        Self { guard, algorithm: PhantomData }
    }

    /// Notes that a payload is about to be read.
    #[inline]
    fn reach(&self, payload: u64) {
        if A::POINTS
            && let Some(guard) = self.guard
        {
            guard.reach(payload as *const ());
        }
    }

    /// Lets go of a payload that no word holds any more, and that others may be reading.
    #[inline]
    pub(super) fn retire(&self, payload: u64) {
        if A::POINTS
            && payload != 0
            && let Some(guard) = self.guard
        {
            // SAFETY: the caller took it out of the only word that held it, so nobody reaches it from now on, and nobody
            // else retires it.
            unsafe { A::retire(payload, guard) };
        }
    }

    /// Lets go of a payload that was never in a word.
    #[inline]
    pub(super) fn discard(&self, payload: u64) {
        if A::POINTS {
            // SAFETY: nobody else has seen it.
            unsafe { A::free(payload) };
        }
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Frozen {
    /// It holds the client's payload, for good.
    Payload(u64),
    /// It was moved before: taken along to the next table, or dropped.
    Moved { kept: bool },
}

#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Runs `step` on the payload until its outcome stands.
    #[inline(always)]
    pub(crate) fn apply<A: Algorithm, R>(
        &self,
        pointees: &Pointees<'_, A>,
        step: impl Fn(u64) -> Step<R>,
    ) -> Applied<R> {
        // Acquire: pairs with the Release of whoever wrote the payload, which may be a pointer; and a flag that is seen
        // brings with it the next table, which its setter had seen.
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & MOVED != 0 {
                return Applied::Moved;
            }
            let seen = word & PAYLOAD_MAX;
            pointees.reach(seen);
            match step(seen) {
                Step::Keep(outcome) => return Applied::Done(outcome),
                Step::Write(payload, _) if word & FROZEN != 0 => {
                    pointees.discard(payload);
                    return Applied::Frozen;
                }
                Step::Write(payload, outcome) => {
                    debug_assert!((1..=PAYLOAD_MAX).contains(&payload));
                    match self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire) {
                        Ok(_) => {
                            pointees.retire(seen);
                            return Applied::Done(outcome);
                        }
                        Err(actual) => {
                            pointees.discard(payload);
                            word = actual;
                        }
                    }
                }
            }
        }
    }

    /// Ends all writes to the payload.
    pub(crate) fn freeze<A: Algorithm>(&self, pointees: &Pointees<'_, A>) -> Frozen {
        // Acquire: the payload may be a pointer. Release: the flag leads others to the next table.
        let word = self.0.fetch_or(FROZEN, Ordering::AcqRel);
        if word & MOVED != 0 {
            return Frozen::Moved { kept: word & PAYLOAD_MAX != 0 };
        }
        pointees.reach(word & PAYLOAD_MAX);
        Frozen::Payload(word & PAYLOAD_MAX)
    }

    /// Puts a payload that was frozen elsewhere into this word, which nobody has charged. Happens once: a word that was
    /// written never holds payload 0 again, so a helper that comes late changes nothing.
    pub(crate) fn install(&self, payload: u64) {
        // Relaxed: this word is read by those who have seen the old one marked as moved, or a table that came after. Who
        // marked it had acquired the payload when it froze it, and had seen this word written, by itself or by another.
        let _ = self.0.compare_exchange(0, payload, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Declares that the frozen `payload` is in the next table (`kept`), or was dropped. Returns whether this call was the
    /// first to do so.
    pub(crate) fn mark_moved(&self, payload: u64, kept: bool) -> bool {
        let (frozen, moved) = (FROZEN | payload, FROZEN | MOVED | u64::from(kept));
        // Release: whoever sees the flag must see the installed payload behind it.
        self.0.compare_exchange(frozen, moved, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes the payload out of a word that nobody else has any more.
    pub(crate) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed) & PAYLOAD_MAX
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use crate::algorithm::TokenBucket;

    const NUMBERS: Pointees<'static, TokenBucket> = Pointees { guard: None, algorithm: PhantomData };

    fn write(payload: u64) -> impl Fn(u64) -> Step<u64> {
        move |seen| Step::Write(payload, seen)
    }

    #[test]
    fn a_frozen_word_can_be_read_but_not_written() {
        let word = Word::new();
        assert!(matches!(word.apply(&NUMBERS, write(5)), Applied::Done(0)));
        assert_eq!(word.freeze(&NUMBERS), Frozen::Payload(5));
        assert!(matches!(word.apply(&NUMBERS, write(6)), Applied::Frozen));
        assert!(matches!(word.apply(&NUMBERS, Step::Keep), Applied::Done(5)));
    }

    #[test]
    fn a_moved_word_answers_nothing() {
        for kept in [false, true] {
            let word = Word::new();
            assert!(matches!(word.apply(&NUMBERS, write(5)), Applied::Done(0)));
            let _ = word.freeze(&NUMBERS);
            assert!(word.mark_moved(5, kept));
            assert!(!word.mark_moved(5, kept));
            assert!(matches!(word.apply(&NUMBERS, Step::Keep), Applied::Moved));
            assert_eq!(word.freeze(&NUMBERS), Frozen::Moved { kept });
        }
    }

    #[test]
    fn a_payload_is_installed_once() {
        let word = Word::new();
        word.install(7);
        word.install(8);
        assert!(matches!(word.apply(&NUMBERS, Step::Keep), Applied::Done(7)));
    }
}
