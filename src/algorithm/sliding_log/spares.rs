//! Memory of freed logs, kept for those that are written next. Never more than [`MOST`] words.

use crate::sync::Plain;
use std::mem::ManuallyDrop;
use std::ptr::with_exposed_provenance_mut;

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

/// Memory of each size, and how much it is in all.
#[derive(Debug)]
pub(super) struct Spares {
    sizes: [List; SIZES],
    words: usize,
}

/// Memory of one size, each piece of which holds the address of the next: so the list itself takes nothing.
#[derive(Clone, Copy, Debug)]
struct List {
    /// The address of the first; 0 if there is none.
    first: u64,
    len: usize,
}

impl List {
    const EMPTY: Self = Self { first: 0, len: 0 };

    #[inline]
    fn push(&mut self, mut memory: Memory) {
        memory.clear();
        memory.push(Plain::new(self.first));
        self.first = ManuallyDrop::new(memory).as_mut_ptr().expose_provenance() as u64;
        self.len += 1;
    }

    /// The first, if there is one. All are of that size.
    #[inline]
    fn pop(&mut self, size: usize) -> Option<Memory> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: `push` let go of it, a list of that capacity with one item, and whatever is listed is popped once.
        let mut memory = unsafe { Memory::from_raw_parts(with_exposed_provenance_mut(self.first as usize), 1, size) };
        self.first = memory.pop()?.get();
        Some(memory)
    }
}

impl Spares {
    pub(super) const fn new() -> Self {
        Self { sizes: [List::EMPTY; SIZES], words: 0 }
    }

    /// Memory of a size, if there is some.
    #[inline]
    pub(super) fn take(&mut self, size: usize) -> Option<Memory> {
        let memory = self.sizes.get_mut(size / STEP - 1)?.pop(size)?;
        self.words -= size;
        Some(memory)
    }

    /// Keeps memory, if its size may be.
    #[inline]
    pub(super) fn keep(&mut self, memory: Memory) {
        let size = memory.capacity();
        let Some(list) = self.sizes.get_mut(size / STEP - 1) else { return };
        list.push(memory);
        self.words += size;
        if self.words > MOST {
            self.make_room();
        }
    }

    /// Frees half of what is kept of the size of which there is most. So what nobody asks for any more goes.
    #[cold]
    fn make_room(&mut self) {
        if let Some((steps, list)) = (1..).zip(self.sizes).max_by_key(|(steps, list)| steps * list.len) {
            self.free(steps * STEP, list.len.div_ceil(2));
        }
    }

    fn free(&mut self, size: usize, count: usize) {
        for _ in 0..count {
            drop(self.take(size));
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        for (steps, list) in (1..).zip(self.sizes) {
            self.free(steps * STEP, list.len);
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;
    use std::iter;

    fn memory(size: usize) -> Memory {
        let memory = Vec::with_capacity(size);
        assert_eq!(memory.capacity(), size);
        memory
    }

    /// Words in the lists, by what they say.
    fn listed(spares: &Spares) -> usize {
        (1..).zip(&spares.sizes).map(|(steps, list)| steps * STEP * list.len).sum()
    }

    /// The same, by taking all of it.
    fn held(mut spares: Spares) -> usize {
        let sizes = (1..=SIZES).map(|steps| steps * STEP);
        sizes.map(|size| iter::from_fn(|| spares.take(size)).map(|memory| memory.capacity()).sum::<usize>()).sum()
    }

    #[test]
    fn memory_comes_back_by_its_size() {
        let mut spares = Spares::new();
        for words in [1, 4, 5, 256, 257] {
            let size = size(words);
            assert!(spares.take(size).is_none());
            spares.keep(memory(size));
            let kept = spares.take(size).map(|memory| memory.capacity());
            assert_eq!(kept, is_kept(size).then_some(size), "{words} words");
        }
        assert_eq!((spares.words, listed(&spares), held(spares)), (0, 0, 0));
    }

    #[test]
    fn sizes_that_are_asked_for_no_more_make_room() {
        let mut spares = Spares::new();
        for size in [8, 256, 128, 4] {
            for _ in 0..10_000 {
                spares.keep(memory(size));
                assert!(spares.words == listed(&spares) && spares.words <= MOST, "{} words", spares.words);
            }
            let of_this = iter::from_fn(|| spares.take(size)).count() * size;
            assert!(of_this >= MOST / 4, "{of_this} words of size {size}");
        }
        let words = spares.words;
        assert_eq!(held(spares), words);
    }
}
