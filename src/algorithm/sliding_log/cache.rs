//! What each thread has at hand for the logs that it writes: those that it has replaced, and their memory once nobody
//! reads them any more.
//!
//! An admission writes a log and replaces another of about the same length. So a thread can live on what it replaces, and
//! seldom goes to the allocator.

use super::ledger::{Account, Ledger};
use super::limbo::Limbo;
use super::log;
use super::spares::{Memory, Spares, is_kept};
use crate::epoch::{Epoch, Guard};
use std::cell::RefCell;
use std::ptr;

/// Words of logs that may be in limbo: 128 KiB, more than there are while the epoch moves on. What is replaced while it
/// stands still is freed by whoever moves it.
const MOST: usize = 1 << 14;

/// After so many words of replaced logs the epoch is asked to move on: 16 KiB. Asking has a price, and so has memory that
/// was written to so long ago that the processor's cache has lost it.
const ASK_EVERY: usize = 1 << 11;

struct Cache {
    limbo: Limbo,
    /// Words of the logs in limbo.
    waiting: usize,
    /// Words of all logs that were replaced since the epoch was last asked.
    unasked: usize,
    spares: Spares,
    account: Account,
}

thread_local!(static CACHE: RefCell<Cache> = RefCell::new(Cache::new()));

/// Runs `work` with the thread's cache, inside of which no guard may be pinned or flushed. A thread that is ending has none
/// any more; and none has in models, where all are one thread of the system.
#[inline]
fn with<R>(work: impl FnOnce(&mut Cache) -> R) -> Option<R> {
    if cfg!(tollgate_loom) {
        return None;
    }
    CACHE.try_with(|cache| work(&mut cache.borrow_mut())).ok()
}

/// Memory of a size, for a log that counts in that ledger.
#[inline]
pub(super) fn take(ledger: &'static Ledger, size: usize) -> Memory {
    let spare = with(|cache| {
        // One for the one that will be replaced, and another so that limbo shrinks again after the epoch stood still.
        cache.recycle(2);
        cache.account.add(ledger, bytes(size));
        cache.spares.take(size)
    });
    if spare.is_none() {
        ledger.add(bytes(size));
    }
    spare.flatten().unwrap_or_else(|| Vec::with_capacity(size))
}

/// Takes memory back that was taken.
#[inline]
pub(super) fn keep(ledger: &'static Ledger, memory: Memory) {
    let size = memory.capacity();
    // Without a cache it is freed here.
    if with(|cache| cache.keep(ledger, memory)).is_none() {
        ledger.subtract(bytes(size));
    }
}

/// Lets go of a log of that size that was replaced.
///
/// # Safety
///
/// Nobody reaches it any more but under a guard that is pinned already, and it is retired only once.
#[inline]
pub(super) unsafe fn retire(payload: u64, size: usize, guard: &Guard) {
    let (waits, is_time_to_ask) =
        with(|cache| (cache.wait(payload, size), cache.is_time_to_ask(size))).unwrap_or_default();
    if !waits {
        // SAFETY: the caller's promise.
        unsafe { guard.retire(payload as *const (), move || log::free(payload)) };
    }
    if is_time_to_ask {
        ask(guard);
    }
}

/// Frees what the thread has replaced, as far as nobody reads it any more, and asks the epoch for the rest.
pub(super) fn reclaim(guard: &Guard) {
    ask(guard);
    with(|cache| cache.recycle(usize::MAX));
}

/// Brings the ledger up to date that the thread wrote to last.
pub(super) fn settle() {
    with(|cache| cache.account.settle());
}

/// Asks the epoch to move on, and for the passage of all that is in limbo.
#[cold]
fn ask(guard: &Guard) {
    if let Some(passage) = with(|cache| cache.limbo.passage()).flatten() {
        // SAFETY: there is no object; a passage outlives everything and may be opened on any thread.
        unsafe { guard.retire(ptr::null::<()>(), move || passage.open()) };
    }
    guard.flush();
}

impl Cache {
    fn new() -> Self {
        Self { limbo: Limbo::new(), waiting: 0, unasked: 0, spares: Spares::new(), account: Account::new() }
    }

    /// Puts a log into limbo, if there is room.
    #[inline]
    fn wait(&mut self, payload: u64, size: usize) -> bool {
        let has_room = is_kept(size) && self.waiting + size <= MOST;
        if has_room {
            self.limbo.push(payload);
            self.waiting += size;
        }
        has_room
    }

    #[inline]
    fn is_time_to_ask(&mut self, size: usize) -> bool {
        self.unasked += size;
        let is_time = self.unasked >= ASK_EVERY;
        if is_time {
            self.unasked = 0;
        }
        is_time
    }

    /// Takes the memory of logs that nobody reads any more, at most so many.
    #[inline]
    fn recycle(&mut self, most: usize) {
        for _ in 0..most {
            let Some(payload) = self.limbo.pop() else { return };
            // SAFETY: it was put there by `retire`, and nobody else has it.
            let (ledger, memory) = unsafe { log::dissolve(payload) };
            self.waiting -= memory.capacity();
            self.keep(ledger, memory);
        }
    }

    #[inline]
    fn keep(&mut self, ledger: &'static Ledger, memory: Memory) {
        self.account.subtract(ledger, bytes(memory.capacity()));
        self.spares.keep(memory);
    }
}

impl Drop for Cache {
    /// Others may still be reading what is in limbo, and this thread will not be there any more.
    fn drop(&mut self) {
        let logs = self.limbo.clear();
        if !logs.is_empty() {
            // SAFETY: it was put there by `retire`, and nobody else has it.
            let free = move || logs.into_iter().for_each(|payload| unsafe { log::free(payload) });
            // SAFETY: there is no object; logs may be freed on any thread, and ledgers outlive everything.
            unsafe { Epoch::default().pin().retire(ptr::null::<()>(), free) };
        }
    }
}

fn bytes(size: usize) -> usize {
    size * size_of::<u64>()
}
