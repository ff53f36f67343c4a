//! A counter in several cells, so that threads seldom meet in one.

use crate::sync::AtomicUsize;
use crossbeam_utils::CachePadded;

/// As many cells as threads run at the same time, about: a power of two, up to 64. They start at 0.
#[derive(Debug)]
pub(crate) struct Stripes(Box<[CachePadded<AtomicUsize>]>);

impl Stripes {
    pub(crate) fn new() -> Self {
        Self((0..stripes()).map(|_| CachePadded::new(AtomicUsize::new(0))).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The calling thread's cell, which it may share with others.
    #[inline]
    pub(crate) fn own(&self) -> &AtomicUsize {
        &self.0[thread_number() & (self.0.len() - 1)]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AtomicUsize> {
        self.0.iter().map(|stripe| &**stripe)
    }

    /// Bytes that the cells take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

#[cfg(not(tollgate_loom))]
fn stripes() -> usize {
    static STRIPES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *STRIPES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get().next_power_of_two().min(64)))
}

#[cfg(tollgate_loom)]
fn stripes() -> usize {
    1
}

/// Small numbers, one a thread.
#[cfg(not(tollgate_loom))]
fn thread_number() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    // A thread that is ending may have lost its number; any stripe will do.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

#[cfg(tollgate_loom)]
fn thread_number() -> usize {
    0
}
