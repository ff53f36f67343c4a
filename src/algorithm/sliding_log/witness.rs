//! What models know of logs: each is freed once and not read afterwards, and at the end of a run none is left.
//!
//! The threads of a model are one thread of the system, so each model has books of its own.

use std::cell::RefCell;
use std::collections::HashSet;

thread_local!(static LOGS: RefCell<HashSet<u64>> = RefCell::default());

pub(super) fn written(payload: u64) {
    LOGS.with_borrow_mut(|logs| logs.insert(payload));
}

pub(super) fn read(payload: u64) {
    assert!(LOGS.with_borrow(|logs| logs.contains(&payload)), "read after it was freed");
}

pub(super) fn freed(payload: u64) {
    assert!(LOGS.with_borrow_mut(|logs| logs.remove(&payload)), "freed twice");
}

/// How many logs have not been freed.
pub(super) fn live() -> usize {
    LOGS.with_borrow(HashSet::len)
}
