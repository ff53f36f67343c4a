//! [`BlockingLimiter`]: a shared limiter for threads that do not await.

use super::{SharedLimiter, Trouble};
use crate::{Allowed, Denied};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tokio::runtime::Handle;

/// A [`SharedLimiter`] for threads that do not await.
///
/// The work is done by a tokio runtime that somebody else runs; a call hands a task to it and waits for the answer. The
/// thread sleeps meanwhile, for the budget at most. In asynchronous code use the limiter itself: a call from there would
/// stop the runtime's thread for as long.
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate::redis::{BlockingLimiter, SharedLimiter, Store};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
/// let store = Store::open("redis://127.0.0.1/")?;
/// let limiter = SharedLimiter::token_bucket("jobs", Quota::per_second(10)).build(&store)?;
/// let limiter = BlockingLimiter::new(limiter, runtime.handle().clone());
/// assert!(limiter.allow("alice"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BlockingLimiter {
    limiter: SharedLimiter,
    runtime: Handle,
}

impl BlockingLimiter {
    /// A wrapper that has its work done on a runtime with time and I/O enabled, and a thread of its own: one that runs only
    /// within `block_on` does nothing between.
    pub fn new(limiter: SharedLimiter, runtime: Handle) -> Self {
        Self { limiter, runtime }
    }

    /// Whether one call of this client may go ahead; takes one token if so.
    pub fn allow<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> bool {
        self.check(key).is_ok()
    }

    /// Takes one token of this client, or says why not. The same as `check_n(key, 1)`.
    ///
    /// # Errors
    ///
    /// [`Denied`], as in [`SharedLimiter::check_n`].
    pub fn check<K: AsRef<[u8]> + ?Sized>(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `cost` tokens of this client, all or none.
    ///
    /// # Errors
    ///
    /// [`Denied`], as in [`SharedLimiter::check_n`]. A runtime that does not run counts as a store that is away.
    pub fn check_n<K: AsRef<[u8]> + ?Sized>(&self, key: &K, cost: u64) -> Result<Allowed, Denied> {
        /// Beyond the budget, within which a running runtime answers.
        const SLACK: Duration = Duration::from_millis(50);
        let key = key.as_ref();
        let (sender, answer) = mpsc::sync_channel(1);
        let (limiter, owned) = (self.limiter.clone(), key.to_owned());
        self.runtime.spawn(async move {
            // Nobody may be waiting any more.
            let _ = sender.try_send(limiter.check_n(&owned, cost).await);
        });
        let budget = self.limiter.store().shared().budget;
        answer.recv_timeout(budget.saturating_add(SLACK)).unwrap_or_else(|error| {
            let trouble = match error {
                RecvTimeoutError::Timeout => Trouble::TimedOut,
                RecvTimeoutError::Disconnected => Trouble::Disconnected,
            };
            self.limiter.without_store(key, cost, trouble)
        })
    }
}
