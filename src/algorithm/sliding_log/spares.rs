//! Memory of freed logs, which each thread keeps for those that it writes next.
//!
//! An admission writes one log and lets go of another. The epoch frees them by the hundred, more than an allocator keeps at
//! hand of one size, so that each would go the long way twice. A thread keeps no more than [`MOST`] words.

use crate::sync::Plain;
use std::cell::RefCell;

/// Memory of a log to be written: empty, and with room for exactly as much as was asked for, rounded up to a size.
pub(super) type Memory = Vec<Plain<u64>>;

/// Words by which sizes differ.
const STEP: usize = 4;

/// Sizes of which some are kept: up to 2 KiB.
const SIZES: usize = 64;

/// Words that a thread keeps: 128 KiB.
const MOST: usize = 1 << 14;

/// The size of a log of so many words.
#[inline]
pub(super) fn size(words: usize) -> usize {
    words.next_multiple_of(STEP)
}

struct Spares {
    sizes: [Vec<Memory>; SIZES],
    words: usize,
}

thread_local! {
    static SPARES: RefCell<Spares> = const { RefCell::new(Spares { sizes: [const { Vec::new() }; SIZES], words: 0 }) };
}

impl Spares {
    fn of(&mut self, size: usize) -> Option<&mut Vec<Memory>> {
        self.sizes.get_mut(size / STEP - 1)
    }
}

/// Memory for so many words.
#[inline]
pub(super) fn take(words: usize) -> Memory {
    let size = size(words);
    // A thread that is ending has lost its spares.
    let spare = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        let spare = spares.of(size)?.pop()?;
        spares.words -= size;
        Some(spare)
    });
    let memory = spare.ok().flatten().unwrap_or_else(|| Vec::with_capacity(size));
    debug_assert_eq!(memory.capacity(), size);
    memory
}

/// Takes memory back that was taken.
#[inline]
pub(super) fn keep(mut memory: Memory) {
    memory.clear();
    let size = memory.capacity();
    // If it is not kept, it is freed here.
    let _ = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        let room = spares.words + size <= MOST;
        if let Some(kept) = spares.of(size).filter(|_| room && cfg!(not(tollgate_loom))) {
            kept.push(memory);
            spares.words += size;
        }
    });
}
