//! Memory of freed logs, kept for those that are written next. Never more than [`MOST`] words.

use crate::sync::Plain;

/// Memory of a log to be written: empty, and with room for exactly as much as was asked for, rounded up to a size.
pub(super) type Memory = Vec<Plain<u64>>;

/// Words by which sizes differ.
const STEP: usize = 4;

/// Sizes of which some are kept: up to 2 KiB.
const SIZES: usize = 64;

/// Words that are kept: 128 KiB.
const MOST: usize = 1 << 14;

/// The size of a log of so many words.
#[inline]
pub(super) fn size(words: usize) -> usize {
    words.next_multiple_of(STEP)
}

/// Whether memory of a size may be kept.
#[inline]
pub(super) fn is_kept(size: usize) -> bool {
    size <= SIZES * STEP
}

#[derive(Debug)]
pub(super) struct Spares {
    sizes: [Vec<Memory>; SIZES],
    words: usize,
}

impl Spares {
    pub(super) const fn new() -> Self {
        Self { sizes: [const { Vec::new() }; SIZES], words: 0 }
    }

    /// Memory of a size, if there is some.
    #[inline]
    pub(super) fn take(&mut self, size: usize) -> Option<Memory> {
        let memory = self.sizes.get_mut(size / STEP - 1)?.pop()?;
        self.words -= size;
        Some(memory)
    }

    /// Keeps memory, if its size may be.
    #[inline]
    pub(super) fn keep(&mut self, mut memory: Memory) {
        let size = memory.capacity();
        let Some(kept) = self.sizes.get_mut(size / STEP - 1) else { return };
        memory.clear();
        kept.push(memory);
        self.words += size;
        if self.words > MOST {
            self.free_one();
        }
    }

    /// Frees memory of the size of which most is kept: so what nobody asks for any more makes room.
    #[cold]
    fn free_one(&mut self) {
        let most = self.sizes.iter_mut().zip(1..).max_by_key(|(kept, steps)| kept.len() * steps);
        let memory = most.and_then(|(kept, _)| kept.pop());
        self.words -= memory.map_or(0, |memory| memory.capacity());
    }
}
