//! How many bytes the logs of one limiter take, those included that are retired and not yet freed.
//!
//! A log may be freed after its limiter is gone, by whichever thread ends the epoch, so what it is struck off must
//! outlive everything. Counting references on each admission would make one contended line of them. So a ledger is never
//! freed, only handed on to a later limiter, once it is balanced: then no log knows it any more.
//!
//! Each thread has an [`Account`], so that it writes to a ledger seldom and not twice an admission.

#[cfg(not(tollgate_loom))]
pub(super) use real::Ledger;
use std::mem::take;
use std::ptr;
#[cfg(tollgate_loom)]
pub(super) use unkept::Ledger;

/// Bytes that a thread may strike off late.
const MOST_OWED: usize = 4096;

/// What a thread has freed of one ledger's logs and not struck off yet, since it will soon write about as much.
#[derive(Debug)]
pub(super) struct Account {
    ledger: Option<&'static Ledger>,
    owed: usize,
}

impl Account {
    pub(super) const fn new() -> Self {
        Self { ledger: None, owed: 0 }
    }

    #[inline]
    fn is_of(&self, ledger: &'static Ledger) -> bool {
        self.ledger.is_some_and(|own| ptr::eq(own, ledger))
    }

    /// Counts a log that is written.
    #[inline]
    pub(super) fn add(&mut self, ledger: &'static Ledger, bytes: usize) {
        if self.is_of(ledger) && self.owed >= bytes {
            self.owed -= bytes;
        } else {
            ledger.add(bytes);
        }
    }

    /// Strikes off a log that is freed, now or later.
    #[inline]
    pub(super) fn subtract(&mut self, ledger: &'static Ledger, bytes: usize) {
        if !self.is_of(ledger) {
            self.settle();
            self.ledger = Some(ledger);
        }
        self.owed += bytes;
        if self.owed > MOST_OWED {
            self.settle();
        }
    }

    /// Strikes off all that is owed.
    pub(super) fn settle(&mut self) {
        if let Some(ledger) = self.ledger {
            ledger.subtract(take(&mut self.owed));
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(not(tollgate_loom))]
mod real {
    use crate::stripes::Stripes;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::{Mutex, MutexGuard};

    /// Bytes written less bytes freed. A log may be freed by another thread than wrote it, so a stripe alone may wrap, and
    /// only their sum is a number of bytes.
    #[derive(Debug)]
    pub(in super::super) struct Ledger(Stripes);

    /// Ledgers that no limiter has. Locked when a limiter is built or dropped, never by a call.
    static CLOSED: Mutex<Vec<&'static Ledger>> = Mutex::new(Vec::new());

    fn closed() -> MutexGuard<'static, Vec<&'static Ledger>> {
        CLOSED.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    impl Ledger {
        /// A balanced ledger, for one limiter.
        pub(in super::super) fn open() -> &'static Self {
            let mut closed = closed();
            let balanced = closed.iter().position(|ledger| ledger.balance() == 0);
            balanced.map_or_else(|| &*Box::leak(Box::new(Self(Stripes::new()))), |i| closed.swap_remove(i))
        }

        /// Lets a later limiter have the ledger. Nothing is added any more.
        pub(in super::super) fn close(&'static self) {
            closed().push(self);
        }

        #[inline]
        pub(in super::super) fn add(&self, bytes: usize) {
            self.0.own().fetch_add(bytes, Relaxed);
        }

        #[inline]
        pub(in super::super) fn subtract(&self, bytes: usize) {
            self.0.own().fetch_sub(bytes, Relaxed);
        }

        /// The sum of the stripes. They are read one after another: what is added to one that was read, and subtracted from
        /// one that was not, makes it less than it ever was, and even less than nothing.
        fn balance(&self) -> isize {
            self.0.iter().map(|stripe| stripe.load(Relaxed) as isize).fold(0, isize::wrapping_add)
        }

        /// Bytes that are held; exact while nobody writes.
        pub(in super::super) fn bytes(&self) -> usize {
            usize::try_from(self.balance()).unwrap_or(0)
        }
    }
}

/// Models keep no books, as statistics are no part of what they explore.
#[cfg(tollgate_loom)]
mod unkept {
    #[derive(Debug)]
    pub struct Ledger;

    impl Ledger {
        pub(in super::super) fn open() -> &'static Self {
            &Self
        }

        pub(in super::super) fn close(&'static self) {}

        pub(in super::super) fn add(&self, _: usize) {}

        pub(in super::super) fn subtract(&self, _: usize) {}

        pub(in super::super) fn bytes(&self) -> usize {
            0
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_struck_off_before_its_writing_is_seen_counts_as_nothing() {
        let ledger = Ledger::open();
        ledger.subtract(64);
        assert_eq!(ledger.bytes(), 0);
        ledger.add(96);
        assert_eq!(ledger.bytes(), 32);
        ledger.subtract(32);
        ledger.close();
    }

    #[test]
    fn a_ledger_is_not_handed_on_while_a_thread_owes_to_it() {
        let (ledger, mut account) = (Ledger::open(), Account::new());
        ledger.add(64);
        account.subtract(ledger, 64);
        ledger.close();
        let next = Ledger::open();
        assert!(!ptr::eq(next, ledger) && ledger.bytes() == 64);
        next.close();
        account.settle();
        assert_eq!(ledger.bytes(), 0);
    }
}
