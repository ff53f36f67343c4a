//! The logs that a thread has replaced, in the order in which it did, until nobody reads them any more.
//!
//! The epoch knows when that is, and runs what was deferred on whichever thread it likes. Were logs freed there, their
//! memory would wander from thread to thread: through the locks of the allocator, and from one processor's cache to
//! another's. So what runs there touches no log. It tells the thread that replaced them how far they are free to go:
//! whoever could read one of them had a guard before the *passage* was deferred.

use crate::sync::{AtomicU64, Ordering};
use std::collections::VecDeque;

/// The replaced logs of one thread.
#[derive(Debug)]
pub struct Limbo {
    /// Oldest first.
    logs: VecDeque<u64>,
    /// The number of the oldest. They start at 1, and go on where those of the mark's last owner ended.
    first: u64,
    /// What the mark said when it was last looked at.
    passed: u64,
    /// The number up to which passages were made.
    promised: u64,
    mark: &'static Mark,
}

/// The number of the last log that nobody reads any more, of all that its owners ever replaced.
#[derive(Debug)]
struct Mark(AtomicU64);

/// What is to be opened once nobody reads the logs any more that were in limbo when it was made.
#[derive(Debug)]
#[must_use]
pub struct Passage {
    mark: &'static Mark,
    last: u64,
}

impl Limbo {
    pub fn new() -> Self {
        let (mark, last) = marks::take();
        Self::after(mark, last)
    }

    /// One whose numbers come after those that the mark's owners have used.
    fn after(mark: &'static Mark, last: u64) -> Self {
        Self { logs: VecDeque::new(), first: last + 1, passed: 0, promised: last, mark }
    }

    /// The number of the newest log that was ever here.
    fn last(&self) -> u64 {
        self.first + self.logs.len() as u64 - 1
    }

    /// Takes in a log that others may still be reading.
    #[inline]
    pub fn push(&mut self, log: u64) {
        self.logs.push_back(log);
    }

    /// Takes out the oldest log, if nobody reads it any more.
    #[inline]
    pub fn pop(&mut self) -> Option<u64> {
        if self.passed < self.first {
            // Acquire: pairs with the Release of `open`, behind which the log's readers are done.
            self.passed = self.mark.0.load(Ordering::Acquire);
        }
        if self.passed < self.first {
            return None;
        }
        let log = self.logs.pop_front()?;
        self.first += 1;
        Some(log)
    }

    /// The passage of the logs that are here, unless all of them have one.
    pub fn passage(&mut self) -> Option<Passage> {
        let last = self.last();
        let is_new = std::mem::replace(&mut self.promised, last) < last;
        is_new.then_some(Passage { mark: self.mark, last })
    }

    /// Takes out all logs, which others may still be reading.
    pub fn clear(&mut self) -> VecDeque<u64> {
        self.first = self.last() + 1;
        std::mem::take(&mut self.logs)
    }
}

impl Drop for Limbo {
    fn drop(&mut self) {
        marks::keep(self.mark, self.last());
    }
}

impl Passage {
    /// Lets the logs' thread have them. On any thread.
    #[inline]
    pub fn open(self) {
        // Release: pairs with the Acquire of `pop`. A maximum, since passages may be opened in another order than they were
        // made in.
        self.mark.0.fetch_max(self.last, Ordering::Release);
    }
}

/// Marks outlive their owners, since a passage may be opened long after: they are never freed, only handed on.
#[cfg(not(tollgate_loom))]
mod marks {
    use super::{AtomicU64, Mark};
    use std::sync::{Mutex, MutexGuard};

    /// Marks that no thread has, each with the last number that was used. Locked when a thread starts to admit, or ends.
    static VACANT: Mutex<Vec<(&'static Mark, u64)>> = Mutex::new(Vec::new());

    fn vacant() -> MutexGuard<'static, Vec<(&'static Mark, u64)>> {
        VACANT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn take() -> (&'static Mark, u64) {
        vacant().pop().unwrap_or_else(|| (Box::leak(Box::new(Mark(AtomicU64::new(0)))), 0))
    }

    pub(super) fn keep(mark: &'static Mark, last: u64) {
        vacant().push((mark, last));
    }
}

/// In models each has one of its own, since atomics do not outlive a run.
#[cfg(tollgate_loom)]
mod marks {
    use super::{AtomicU64, Mark};

    pub(super) fn take() -> (&'static Mark, u64) {
        (Box::leak(Box::new(Mark(AtomicU64::new(0)))), 0)
    }

    pub(super) fn keep(_: &'static Mark, _: u64) {}
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn logs_come_out_as_they_went_in_and_not_before_their_passage_is_open() {
        let mut limbo = Limbo::new();
        assert!(limbo.passage().is_none());
        [5, 6].into_iter().for_each(|log| limbo.push(log));
        let first = limbo.passage().unwrap();
        assert!(limbo.passage().is_none());
        limbo.push(7);
        let second = limbo.passage().unwrap();
        limbo.push(8);
        assert_eq!(limbo.pop(), None);
        first.open();
        assert_eq!([limbo.pop(), limbo.pop(), limbo.pop()], [Some(5), Some(6), None]);
        second.open();
        assert_eq!([limbo.pop(), limbo.pop()], [Some(7), None]);
        assert_eq!(limbo.clear(), [8]);
    }

    #[test]
    fn a_later_passage_lets_earlier_logs_pass_and_an_earlier_one_takes_nothing_back() {
        let mut limbo = Limbo::new();
        limbo.push(5);
        let first = limbo.passage().unwrap();
        limbo.push(6);
        limbo.passage().unwrap().open();
        first.open();
        assert_eq!([limbo.pop(), limbo.pop()], [Some(5), Some(6)]);
    }

    #[test]
    fn a_passage_that_outlives_its_limbo_lets_no_log_of_the_next_one_pass() {
        let mut limbo = Limbo::new();
        limbo.push(5);
        let late = limbo.passage().unwrap();
        assert_eq!(limbo.clear(), [5]);
        let mut next = Limbo::after(limbo.mark, limbo.last());
        // Or else another test could be given the mark.
        std::mem::forget(limbo);
        next.push(6);
        late.open();
        assert_eq!(next.pop(), None);
        next.passage().unwrap().open();
        assert_eq!(next.pop(), Some(6));
    }
}
