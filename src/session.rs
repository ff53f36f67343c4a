//! [`Session`]: several checks under one pin.

use crate::algorithm::{Algorithm, TokenBucket};
use crate::clock::{Clock, MonotonicClock};
use crate::decision::{Allowed, Denied};
use crate::epoch::Guard;
use crate::limiter::Core;
use ahash::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};

/// After so many checks a session pins anew.
const REPIN_EVERY: u32 = 128;

/// A run of checks on one thread that shares one pin of the epoch. Made by [`Limiter::session`](crate::Limiter::session).
///
/// Use it for a loop of checks, and drop it when the loop ends. It pins anew by itself when the limiter has moved to
/// another table, and every 128 checks; not while the thread has another session, since the older pin stands. While it is
/// idle it keeps whatever the process has retired since from being freed: tables that limiters have left and logs that were
/// replaced (they count in `memory_bytes`), and other users of crossbeam-epoch's default collector are held up too. It cannot
/// be sent to another thread, nor held across an await of a task that may move.
pub struct Session<'a, A: Algorithm = TokenBucket, C = MonotonicClock, S = RandomState> {
    core: &'a Core<A, C, S>,
    guard: Guard,
    root: usize,
    checks: u32,
}

impl<'a, A: Algorithm, C: Clock, S: BuildHasher> Session<'a, A, C, S> {
    pub(crate) fn new(core: &'a Core<A, C, S>) -> Self {
        Self { core, guard: core.map().pin(), root: core.map().root_mark(), checks: 0 }
    }

    /// As [`Limiter::allow`](crate::Limiter::allow).
    #[inline]
    pub fn allow<K: Hash + ?Sized>(&mut self, key: &K) -> bool {
        self.check(key).is_ok()
    }

    /// As [`Limiter::check`](crate::Limiter::check).
    ///
    /// # Errors
    ///
    /// [`Denied`], with the reason and the time to wait.
    #[inline]
    pub fn check<K: Hash + ?Sized>(&mut self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// As [`Limiter::check_n`](crate::Limiter::check_n).
    ///
    /// # Errors
    ///
    /// [`Denied`], with the reason and the time to wait.
    #[inline(always)]
    pub fn check_n<K: Hash + ?Sized>(&mut self, key: &K, cost: u64) -> Result<Allowed, Denied> {
        self.freshen();
        self.core.check(&self.guard, self.core.fingerprint(key), cost)
    }

    #[inline]
    fn freshen(&mut self) {
        let root = self.core.map().root_mark();
        self.checks += 1;
        if self.checks >= REPIN_EVERY || root != self.root {
            (self.checks, self.root) = (0, root);
            self.core.map().freshen(&mut self.guard);
        }
    }
}

impl<A: Algorithm, C, S> fmt::Debug for Session<'_, A, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("checks", &self.checks).finish_non_exhaustive()
    }
}
