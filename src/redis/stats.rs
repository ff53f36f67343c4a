//! What a store counts, for [`Store::stats`](super::Store::stats) and, with the feature `metrics`, through the facade of that
//! name. Neither says who a client is.

use super::error::Trouble;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a [`Store`](super::Store), from when it was opened: one for each answer that a limiter gave, and one for
/// each time that the store failed to give one. They name no client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that were let pass, by whomever.
    pub allowed: u64,
    /// Calls that were refused because the quota was used, by whomever.
    pub denied: u64,
    /// Calls whose cost is above the limit.
    pub never: u64,
    /// Calls refused because the store was away.
    pub unavailable: u64,
    /// Of all answers, those that came from the cache of refusals.
    pub from_cache: u64,
    /// Of all answers, those that were given because the store was away.
    pub without_store: u64,
    /// Times that a script was loaded, because the store did not know it.
    pub reloads: u64,
    /// Times that the breaker opened.
    pub breaks: u64,
    failures: [u64; Trouble::ALL.len()],
}

impl Stats {
    /// How often the store gave no answer, for one cause.
    pub fn failures(&self, trouble: Trouble) -> u64 {
        self.failures[trouble as usize]
    }

    /// How often the store gave no answer, for any cause but [`Trouble::Paused`], where it was not asked.
    pub fn all_failures(&self) -> u64 {
        Trouble::ALL
            .into_iter()
            .filter(|&trouble| trouble != Trouble::Paused)
            .map(|trouble| self.failures(trouble))
            .sum()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Allowed,
    Denied,
    Never,
    Unavailable,
    FromCache,
    WithoutStore,
    Reloads,
    Breaks,
}

/// The counters themselves.
#[derive(Debug, Default)]
pub(super) struct Counters {
    counts: [AtomicU64; 8],
    failures: [AtomicU64; Trouble::ALL.len()],
}

impl Counters {
    pub(super) fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Relaxed);
        #[cfg(feature = "metrics")]
        facade::count(what);
    }

    pub(super) fn failure(&self, trouble: Trouble) {
        self.failures[trouble as usize].fetch_add(1, Relaxed);
        #[cfg(feature = "metrics")]
        facade::failure(trouble);
    }

    pub(super) fn stats(&self) -> Stats {
        let count = |what: Count| self.counts[what as usize].load(Relaxed);
        Stats {
            allowed: count(Count::Allowed),
            denied: count(Count::Denied),
            never: count(Count::Never),
            unavailable: count(Count::Unavailable),
            from_cache: count(Count::FromCache),
            without_store: count(Count::WithoutStore),
            reloads: count(Count::Reloads),
            breaks: count(Count::Breaks),
            failures: self.failures.each_ref().map(|failures| failures.load(Relaxed)),
        }
    }
}

#[cfg(feature = "metrics")]
mod facade {
    use super::{Count, Trouble};
    use metrics::counter;

    pub(super) fn count(what: Count) {
        let answer = |outcome: &'static str| counter!("tollgate_store_answers_total", "outcome" => outcome);
        match what {
            Count::Allowed => answer("allowed"),
            Count::Denied => answer("refused"),
            Count::Never => answer("never"),
            Count::Unavailable => answer("unavailable"),
            Count::FromCache => counter!("tollgate_store_cached_total"),
            Count::WithoutStore => counter!("tollgate_store_fallbacks_total"),
            Count::Reloads => counter!("tollgate_store_reloads_total"),
            Count::Breaks => counter!("tollgate_store_breaks_total"),
        }
        .increment(1);
    }

    pub(super) fn failure(trouble: Trouble) {
        counter!("tollgate_store_failures_total", "trouble" => trouble.name()).increment(1);
    }
}
