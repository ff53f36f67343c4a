//! Memory of freed logs, kept for those that are written next. Never more than [`MOST`] words.

use crate::sync::Plain;

/// Memory of a log to be written: empty, and with room for exactly as much as was asked for, rounded up to a size.
pub(super) type Memory = Vec<Plain<u64>>;

/// Words by which sizes differ.
const STEP: usize = 4;

/// Sizes of which some are kept: up to 2 KiB.
const SIZES: usize = 64;

/// Words that are kept, with those of the lists: 128 KiB.
const MOST: usize = 1 << 14;

/// Words that a list needs for each place.
const PLACE: usize = size_of::<Memory>() / size_of::<u64>();

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
        let places = kept.capacity();
        kept.push(memory);
        self.words += size + PLACE * (kept.capacity() - places);
        while self.words > MOST {
            self.make_room();
        }
    }

    /// Frees half of what is kept of the size of which there is most. So what nobody asks for any more goes.
    #[cold]
    fn make_room(&mut self) {
        let words = |kept: &Vec<Memory>, steps| kept.len() * steps * STEP + kept.capacity() * PLACE;
        if let Some((kept, steps)) = self.sizes.iter_mut().zip(1..).max_by_key(|(kept, steps)| words(kept, *steps)) {
            let before = words(kept, steps);
            kept.truncate(kept.len() / 2);
            kept.shrink_to_fit();
            self.words -= before - words(kept, steps);
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    fn memory(size: usize) -> Memory {
        let memory = Vec::with_capacity(size);
        assert_eq!(memory.capacity(), size);
        memory
    }

    fn held(spares: &Spares) -> usize {
        let words = |kept: &Vec<Memory>| kept.iter().map(Vec::capacity).sum::<usize>() + kept.capacity() * PLACE;
        spares.sizes.iter().map(words).sum()
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
        assert_eq!(spares.words, held(&spares));
        assert!(spares.sizes.iter().all(Vec::is_empty));
    }

    #[test]
    fn sizes_that_are_asked_for_no_more_make_room() {
        let mut spares = Spares::new();
        for size in [8, 256, 128, 4] {
            for _ in 0..10_000 {
                spares.keep(memory(size));
                assert!(spares.words == held(&spares) && spares.words <= MOST, "{} words", spares.words);
            }
            let of_this = std::iter::from_fn(|| spares.take(size)).count() * size;
            assert!(of_this >= MOST / 8, "{of_this} words of size {size}");
        }
    }
}
