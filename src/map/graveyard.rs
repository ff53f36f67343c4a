//! Tables that nobody can reach any more, waiting to be freed in pieces.
//!
//! Freeing a large table takes milliseconds, too long for the call in which the epoch happens to end. So the epoch's
//! callback only lays the table down here, and calls that are doing maintenance anyway free one piece each. Only what is
//! still held by a guard when its limiter is dropped is freed whole, when that guard is gone.

use super::table::Table;
use crate::epoch::Guard;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use std::ptr;

/// What a call frees on its way. All processors that run threads of this process are told of each piece, and wait.
const PIECE: usize = 64 << 10;

#[derive(Debug)]
pub struct Graveyard {
    /// A stack, of which only the whole is ever taken: so no pointer can come back unseen.
    graves: AtomicPtr<Grave>,
    /// Bytes retired and not yet freed.
    bytes: AtomicUsize,
}

#[derive(Debug)]
struct Grave {
    table: Box<Table>,
    next: *mut Grave,
}

impl Graveyard {
    pub fn new() -> Self {
        Self { graves: AtomicPtr::new(ptr::null_mut()), bytes: AtomicUsize::new(0) }
    }

    /// Bytes retired and not yet freed, those included that a guard still holds.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts a table that has been retired.
    pub(super) fn expect(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Lays down a table that nobody can reach any more.
    pub(super) fn bury(&self, table: Box<Table>) {
        let grave = Box::into_raw(Box::new(Grave { table, next: ptr::null_mut() }));
        self.push(grave, grave);
    }

    /// Moves reclamation on by one bounded step: frees a piece, or if none is free to go, nudges the epoch now and then.
    pub(super) fn tidy(&self, guard: &Guard) {
        if self.bytes() > 0 && !self.free_piece(PIECE) && now_and_then() {
            guard.flush();
        }
    }

    /// Frees one piece, of about so many bytes. `false` if no table lies here, or others are busy with all that do.
    pub fn free_piece(&self, bytes: usize) -> bool {
        // Looking first keeps the line shared while nothing lies here.
        if self.graves.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Acquire: pairs with the Release of `push`. What is taken is this call's alone.
        let first = self.graves.swap(ptr::null_mut(), Ordering::Acquire);
        if first.is_null() {
            return false;
        }
        // SAFETY: the chain was pushed whole, and the swap made it this call's alone.
        let grave = unsafe { &mut *first };
        let rest = grave.next;
        let released = grave.table.release(bytes);
        if released > 0 {
            self.bytes.fetch_sub(released, Ordering::Relaxed);
            self.push(first, last(first));
        } else {
            self.bytes.fetch_sub(grave.table.bytes(), Ordering::Relaxed);
            // SAFETY: as above, and it goes back to nobody.
            drop(unsafe { Box::from_raw(first) });
            if !rest.is_null() {
                self.push(rest, last(rest));
            }
        }
        true
    }

    /// Pushes the chain from `first` to `last`, which is the caller's alone.
    fn push(&self, first: *mut Grave, last: *mut Grave) {
        let mut top = self.graves.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller owns the chain until the exchange below succeeds.
            unsafe { (*last).next = top };
            match self.graves.compare_exchange(top, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(actual) => top = actual,
            }
        }
    }
}

/// True once in 16 calls of a thread: the epoch moves on only when every thread has pinned anew, and asking is not free.
#[cfg(not(tollgate_loom))]
fn now_and_then() -> bool {
    use std::cell::Cell;
    thread_local!(static CALLS: Cell<u8> = const { Cell::new(0) });
    let call = |calls: &Cell<u8>| calls.replace(calls.get().wrapping_add(1));
    CALLS.try_with(call).is_ok_and(|calls| calls % 16 == 0)
}

#[cfg(tollgate_loom)]
fn now_and_then() -> bool {
    true
}

/// The end of a chain that the caller owns.
fn last(mut grave: *mut Grave) -> *mut Grave {
    // SAFETY: the caller owns the chain, whose links are valid or null.
    unsafe {
        while !(*grave).next.is_null() {
            grave = (*grave).next;
        }
    }
    grave
}

impl Drop for Graveyard {
    fn drop(&mut self) {
        let mut grave = self.graves.load(Ordering::Acquire);
        while !grave.is_null() {
            // SAFETY: the last owner of the graveyard owns all that lies in it.
            let buried = unsafe { Box::from_raw(grave) };
            grave = buried.next;
        }
    }
}

#[cfg(tollgate_loom)]
#[allow(missing_docs)]
impl Graveyard {
    /// Retires and buries a table of two lines.
    pub fn bury_one(&self) {
        let table = Table::new(Table::allocate(4).expect("memory"), 2, 0, 0, 0);
        self.expect(table.bytes());
        self.bury(table);
    }
}

// SAFETY: graves are owned through the stack, by one thread at a time, and tables may be used from any thread.
unsafe impl Send for Graveyard {}
// SAFETY: as above.
unsafe impl Sync for Graveyard {}
