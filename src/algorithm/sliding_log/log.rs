//! A log in memory: one allocation that is written once and then only read.
//!
//! ```text
//! [ number of events | address of the ledger | instant | event | event | ... ]     oldest first
//! ```
//!
//! Its size is rounded up to a multiple of four words, so that memory can be used again for logs of about the same length.
//!
//! The instant is the one as of which the log was written. It may be later than the last event, where later ones were taken
//! back: nothing may be added at an earlier instant all the same, since events have been left out that count there.

use super::cache;
use super::ledger::Ledger;
use super::spares::{Memory, size};
#[cfg(tollgate_loom)]
use super::witness;
use crate::epoch::Guard;
use crate::prefetch::prefetch;
use crate::sync::Plain;
use std::iter::repeat_n;
use std::mem::ManuallyDrop;
use std::ptr;

const HEADER: usize = 3;

/// Addresses are multiples of 4 and may use all 64 bits, as where a part of them is a tag.
const SHIFT: u32 = 2;
const _: () = assert!(align_of::<Plain<u64>>() >= 1 << SHIFT);

/// A log that was never written has no events, and is as of the beginning.
const UNWRITTEN: u64 = 0;

/// What a log says.
pub(super) struct Log<'a> {
    /// Oldest first.
    pub(super) events: &'a [Plain<u64>],
    /// The instant as of which it was written. All events count then.
    pub(super) instant: u64,
}

/// Writes a log as of `instant`, of events that were in another, in their order, and `n` of this instant. Returns its
/// payload.
#[inline]
pub(super) fn write(ledger: &'static Ledger, instant: u64, kept: [&[Plain<u64>]; 2], n: usize) -> u64 {
    let events = kept[0].len() + kept[1].len() + n;
    let mut log = cache::take(ledger, size(HEADER + events));
    log.push(Plain::new(events as u64));
    log.push(Plain::new(ptr::from_ref(ledger).expose_provenance() as u64));
    log.push(Plain::new(instant));
    Plain::append(&mut log, kept[0]);
    Plain::append(&mut log, kept[1]);
    log.extend(repeat_n(instant, n).map(Plain::new));
    let payload = ManuallyDrop::new(log).as_mut_ptr().expose_provenance() as u64 >> SHIFT;
    #[cfg(tollgate_loom)]
    witness::written(payload);
    payload
}

/// Has a log fetched into the cache that may have so many events, as much of it as is not found by the processor itself once
/// it is read from the start. Otherwise its events would be asked for only when its length has arrived.
#[inline]
pub(super) fn fetch(payload: u64, events: usize) {
    const LINE: usize = 64 / size_of::<u64>();
    const LINES: usize = 8;
    let lines = (HEADER + events).div_ceil(LINE).min(LINES);
    (0..lines).for_each(|line| prefetch(address(payload).wrapping_add(line * LINE)));
}

/// Reads a log.
///
/// # Safety
///
/// The payload comes from `write`, or is 0, and is not freed during `'a`.
#[inline]
pub(super) unsafe fn read<'a>(payload: u64) -> Log<'a> {
    if payload == UNWRITTEN {
        return Log { events: &[], instant: 0 };
    }
    #[cfg(tollgate_loom)]
    witness::read(payload);
    let log = address(payload);
    // SAFETY: the caller's promise. A log starts with its header.
    unsafe {
        let events = (*log).get() as usize;
        let instant = (*log.add(2)).get();
        Log { events: &*ptr::slice_from_raw_parts(log.add(HEADER), events), instant }
    }
}

/// Lets go of a log that others may still be reading.
///
/// # Safety
///
/// The payload comes from `write`, or is 0. Nobody reaches it any more but under a guard that is pinned already, and it is
/// retired only once.
#[inline]
pub(super) unsafe fn retire(payload: u64, guard: &Guard) {
    // SAFETY: the caller's promise: so it is not freed yet.
    let Log { events, .. } = unsafe { read(payload) };
    if payload != UNWRITTEN {
        // SAFETY: the caller's promise.
        unsafe { cache::retire(payload, size(HEADER + events.len()), guard) };
    }
}

/// Frees a log.
///
/// # Safety
///
/// As `read`, and nobody reads it any more.
pub(super) unsafe fn free(payload: u64) {
    if payload != UNWRITTEN {
        // SAFETY: the caller's promise.
        let (ledger, memory) = unsafe { dissolve(payload) };
        cache::keep(ledger, memory);
    }
}

/// The memory of a log that there is no more, and the ledger that it counts in.
///
/// # Safety
///
/// As `free`, and the payload is not 0.
#[inline]
pub(super) unsafe fn dissolve(payload: u64) -> (&'static Ledger, Memory) {
    #[cfg(tollgate_loom)]
    witness::freed(payload);
    let log = address(payload);
    // SAFETY: the caller's promise. It is the memory that `write` let go of, and ledgers are never freed.
    unsafe {
        let words = HEADER + (*log).get() as usize;
        let ledger = &*ptr::with_exposed_provenance::<Ledger>((*log.add(1)).get() as usize);
        (ledger, Memory::from_raw_parts(log, words, size(words)))
    }
}

fn address(payload: u64) -> *mut Plain<u64> {
    ptr::with_exposed_provenance_mut((payload << SHIFT) as usize)
}
