//! The slots of a table: zeroed memory, taken from the system lazily and given back in pieces.
//!
//! A large table must cost nothing at the moment it is made, and little at the moment it goes. An anonymous mapping is
//! both: its pages are zero, come into being when they are first touched, and can be handed back a piece at a time, while
//! an allocator may clear them by hand, free them in one long call, or keep them for itself.

use super::slot::Line;
use std::io;

#[cfg(not(tollgate_loom))]
pub(crate) use real::Lines;

#[cfg(not(tollgate_loom))]
mod real {
    use super::{Line, io};
    use memmap2::MmapMut;
    use std::alloc::{Layout, alloc_zeroed};
    use std::ops::Deref;
    use std::ptr::NonNull;

    /// Smaller tables come from the allocator, which reuses memory without a word to the system.
    const MAPPED_FROM: usize = 1 << 20;

    #[derive(Debug)]
    pub(crate) struct Lines {
        /// Inside the mapping, or else a box of their own.
        lines: NonNull<[Line]>,
        mapping: Option<MmapMut>,
        released: usize,
    }

    // SAFETY: the lines are owned, and consist of atomics.
    unsafe impl Send for Lines {}
    // SAFETY: as above.
    unsafe impl Sync for Lines {}

    impl Lines {
        pub(crate) fn new(count: usize) -> io::Result<Self> {
            let bytes = count.checked_mul(size_of::<Line>()).ok_or(io::ErrorKind::OutOfMemory)?;
            if bytes < MAPPED_FROM {
                return Ok(Self { lines: allocate(count)?, mapping: None, released: 0 });
            }
            let mut map = MmapMut::map_anon(bytes)?;
            let first = NonNull::from(&mut *map).cast();
            Ok(Self { lines: NonNull::slice_from_raw_parts(first, count), mapping: Some(map), released: 0 })
        }

        pub(crate) fn bytes(&self) -> usize {
            self.lines.len() * size_of::<Line>() - self.released
        }

        /// Hands a piece back, of so many bytes if the system takes pieces, and returns its size, 0 once nothing is left.
        /// Nobody uses the lines any more.
        pub(crate) fn release(&mut self, piece: usize) -> usize {
            let Some(map) = &self.mapping else {
                let bytes = self.bytes();
                *self = Self { lines: NonNull::from(&mut []), mapping: None, released: 0 };
                return bytes;
            };
            // Elsewhere all of it is handed back when it is dropped.
            let piece = if cfg!(unix) { self.bytes().min(piece) } else { self.bytes() };
            #[cfg(unix)]
            {
                use memmap2::UncheckedAdvice::DontNeed;
                // SAFETY: the pages are anonymous and private, nobody borrows them (`&mut`), and zeroed lines are valid.
                let advice = unsafe { map.unchecked_advise_range(DontNeed, self.released, piece) };
                // A refusal costs nothing but time: dropping the mapping frees the piece all the same.
                let _ = advice;
            }
            self.released += piece;
            piece
        }
    }

    /// A box of zeroed lines, let go of.
    fn allocate(count: usize) -> io::Result<NonNull<[Line]>> {
        let layout = Layout::array::<Line>(count).map_err(|_| io::ErrorKind::OutOfMemory)?;
        assert!(layout.size() > 0, "a table has at least a line");
        // SAFETY: the layout is not empty.
        let lines = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        // Zeroed lines are valid, of empty slots with unwritten words.
        Ok(NonNull::slice_from_raw_parts(lines.cast(), count))
    }

    impl Deref for Lines {
        type Target = [Line];

        #[inline]
        fn deref(&self) -> &[Line] {
            // SAFETY: the lines live as long as `self`, in a box or in a mapping that is aligned to a page and was zero when
            // it was made, which is a valid line. They consist of atomics, so shared access may write.
            unsafe { self.lines.as_ref() }
        }
    }

    impl Drop for Lines {
        fn drop(&mut self) {
            if self.mapping.is_none() {
                // SAFETY: without a mapping, the lines came from the global allocator with the layout of a box, or there
                // are none.
                drop(unsafe { Box::from_raw(self.lines.as_ptr()) });
            }
        }
    }
}

#[cfg(tollgate_loom)]
pub(crate) use model::Lines;

#[cfg(tollgate_loom)]
mod model {
    use super::{Line, io};
    use std::ops::Deref;

    #[derive(Debug)]
    pub(crate) struct Lines(Vec<Line>);

    impl Lines {
        pub(crate) fn new(count: usize) -> io::Result<Self> {
            Ok(Self((0..count).map(|_| Line::new()).collect()))
        }

        pub(crate) fn bytes(&self) -> usize {
            self.0.len()
        }

        pub(crate) fn release(&mut self, _: usize) -> usize {
            self.0.pop().map_or(0, |_| 1)
        }
    }

    impl Deref for Lines {
        type Target = [Line];

        fn deref(&self) -> &[Line] {
            &self.0
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_until_nothing_is_left() {
        // One from the allocator, and one that is mapped.
        for count in [10_000, 100_000] {
            let mut lines = Lines::new(count).unwrap();
            let mut pieces = Vec::new();
            while let piece @ 1.. = lines.release(1 << 16) {
                pieces.push(piece);
            }
            assert_eq!((pieces.iter().sum::<usize>(), lines.bytes()), (count * 64, 0));
            assert_eq!(pieces.len() > 1, cfg!(unix) && count == 100_000, "{pieces:?}");
        }
    }

    #[test]
    fn memory_that_does_not_exist_is_an_error() {
        assert!(Lines::new(usize::MAX).is_err());
        assert!(Lines::new(1 << 50).is_err());
    }
}
