//! A log in memory: one allocation that is written once and then only read.
//!
//! ```text
//! [ number of events | address of the ledger | as of | event | event | ... ]     oldest first
//! ```
//!
//! A log is written *as of* an instant, by which earlier events may have been left out. No later call counts as before it.
//! Mostly that is the instant of the newest event; where the newest were given back it is not, and may outlive them all.

use super::ledger::Ledger;
use crate::sync::Plain;
use std::iter::repeat_n;
use std::ptr;

/// The payload of a log that knows of nothing. No log has this address.
pub(super) const EMPTY: u64 = 1;

const HEADER: usize = 3;

/// Addresses are multiples of 4 and may use all 64 bits, as where a part of them is a tag.
const SHIFT: u32 = 2;
const _: () = assert!(align_of::<Plain<u64>>() >= 1 << SHIFT);

/// Writes a log of events that were in another, in their order, and of `n` more as of now. Returns its payload.
#[inline]
pub(super) fn write(ledger: &'static Ledger, as_of: u64, events: [&[Plain<u64>]; 2], n: usize) -> u64 {
    let [before, after] = events;
    let events = before.len() + after.len() + n;
    let mut log = Vec::with_capacity(HEADER + events);
    log.push(Plain::new(events as u64));
    log.push(Plain::new(ptr::from_ref(ledger).expose_provenance() as u64));
    log.push(Plain::new(as_of));
    log.extend_from_slice(before);
    log.extend_from_slice(after);
    log.extend(repeat_n(as_of, n).map(Plain::new));
    let log = log.into_boxed_slice();
    ledger.add(size_of_val(&*log));
    Box::into_raw(log).cast::<Plain<u64>>().expose_provenance() as u64 >> SHIFT
}

/// The events of a log, oldest first, and the instant as of which it was written.
///
/// # Safety
///
/// The payload comes from `write`, or is 0 or [`EMPTY`], and is not freed during `'a`.
#[inline]
pub(super) unsafe fn read<'a>(payload: u64) -> (&'a [Plain<u64>], u64) {
    if payload <= EMPTY {
        return (&[], 0);
    }
    let log = address(payload);
    // SAFETY: the caller's promise. A log starts with its header.
    unsafe {
        let events = (*log).get() as usize;
        (&*ptr::slice_from_raw_parts(log.add(HEADER), events), (*log.add(2)).get())
    }
}

/// Frees a log.
///
/// # Safety
///
/// As `read`, and nobody reads it any more.
pub(super) unsafe fn free(payload: u64) {
    if payload <= EMPTY {
        return;
    }
    let log = address(payload);
    // SAFETY: the caller's promise. It is the box that `write` let go of, and ledgers are never freed.
    unsafe {
        let ledger = &*ptr::with_exposed_provenance::<Ledger>((*log.add(1)).get() as usize);
        let log = Box::from_raw(ptr::slice_from_raw_parts_mut(log, HEADER + (*log).get() as usize));
        ledger.subtract(size_of_val(&*log));
    }
}

fn address(payload: u64) -> *mut Plain<u64> {
    ptr::with_exposed_provenance_mut((payload << SHIFT) as usize)
}
