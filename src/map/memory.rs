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
    use std::ops::Deref;

    /// How much is handed back at a time: elsewhere than on Unix, everything when the mapping is dropped.
    const PIECE: usize = if cfg!(unix) { 256 << 10 } else { usize::MAX };

    #[derive(Debug)]
    pub(crate) struct Lines {
        map: MmapMut,
        count: usize,
        released: usize,
    }

    impl Lines {
        pub(crate) fn new(count: usize) -> io::Result<Self> {
            let bytes = count.checked_mul(size_of::<Line>()).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Self { map: MmapMut::map_anon(bytes)?, count, released: 0 })
        }

        pub(crate) fn bytes(&self) -> usize {
            self.map.len() - self.released
        }

        /// Hands a piece back to the system and returns its size, 0 once nothing is left. The lines read as empty then.
        pub(crate) fn release(&mut self) -> usize {
            let piece = self.bytes().min(PIECE);
            #[cfg(unix)]
            {
                use memmap2::UncheckedAdvice::DontNeed;
                // SAFETY: the pages are anonymous and private, nobody borrows them (`&mut`), and zeroed lines are valid.
                let advice = unsafe { self.map.unchecked_advise_range(DontNeed, self.released, piece) };
                // A refusal costs nothing but time: dropping the mapping frees the piece all the same.
                let _ = advice;
            }
            self.released += piece;
            piece
        }
    }

    impl Deref for Lines {
        type Target = [Line];

        #[inline]
        fn deref(&self) -> &[Line] {
            // SAFETY: the mapping holds `count` lines, is aligned to a page, lives as long as `self`, and was zero when it
            // was made, which is a valid line. Lines consist of atomics, so shared access may write.
            unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.count) }
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

        pub(crate) fn release(&mut self) -> usize {
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
    fn a_mapping_is_given_back_in_pieces_until_nothing_is_left() {
        let mut lines = Lines::new(10_000).unwrap();
        let (total, mut released) = (lines.bytes(), 0);
        assert!(total >= 640_000);
        loop {
            match lines.release() {
                0 => break,
                piece => released += piece,
            }
        }
        assert_eq!((released, lines.bytes()), (total, 0));
    }

    #[test]
    fn memory_that_does_not_exist_is_an_error() {
        assert!(Lines::new(usize::MAX).is_err());
        assert!(Lines::new(1 << 50).is_err());
    }
}
