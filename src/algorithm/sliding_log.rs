//! The sliding window log: the instant of every call in the window.
//!
//! The word points to a log, which is never changed once it is published: an admission writes a new one, with the
//! events that still count and its own, and swings the word to it by the same CAS that every other algorithm uses. Whoever
//! reads the old one under a guard goes on reading it; its memory is used again afterwards, by the thread that replaced it.
//! A refusal writes nothing.
//!
//! # What it guarantees
//!
//! Exactly the rule: an event at s counts at t while t - s is less than the window, so **never more than the limit in any
//! stretch of one window**, wherever it starts. A cost of n is n events. Where a call's reading of the clock is older than
//! an instant at which the log was written, it counts as of that one.
//!
//! # When to choose it
//!
//! Where a stated number must not be exceeded over any stretch, and limits are small: logins, payments, calls to somebody
//! who counts in this way.
//!
//! # What it costs
//!
//! Eight bytes an event, and 24 a client that has any, beside the word, rounded up to 32. An admission writes a log and
//! copies the events that count, so its time grows with the limit; a limit may be at most 65,536. A log lies there until its
//! client is charged again or forgotten, a window after its last event.
//!
//! What was replaced may be used again when no guard of its time is left: an idle [`Session`](crate::Session) holds back all
//! that is replaced meanwhile. Each thread that admits keeps up to 128 KiB of memory for its next logs, and while it calls no
//! more up to 128 KiB of logs that it has replaced. The latter count as held by their limiter, and so may up to 4 KiB of the
//! former.

mod cache;
mod ledger;
mod limbo;
mod log;
mod spares;
#[cfg(tollgate_loom)]
mod witness;

#[cfg(tollgate_loom)]
pub use limbo::Limbo;

use super::windows::limit_and_period;
use super::{Algorithm, Answers, Any, Charged, Plan, Snapshot, sealed::Sealed};
use crate::epoch::Guard;
use crate::error::BuildError;
use crate::sync::Plain;
use ledger::Ledger;
use log::Log;

/// The most events of a log, since an admission copies all that count.
const MOST: u64 = 1 << 16;

/// The last instant, after 584 years. Time stands still there, so that the `u64` after it can mean "never".
const HORIZON: u64 = u64::MAX - 1;

/// A log of the calls in the window before now: never more than the limit in any stretch of that length.
///
/// Choose it for small limits that must hold exactly. It takes 8 bytes for each call in the window, and copies them at each
/// admission.
#[derive(Clone, Copy, Debug)]
pub struct SlidingLog {
    window: u64,
    limit: u64,
    ledger: &'static Ledger,
}

impl SlidingLog {
    /// The log of a plan.
    ///
    /// # Errors
    ///
    /// - [`BuildError::Quota`]: the count, the period or the burst is zero.
    /// - [`BuildError::BurstOfWindow`]: the burst is not the count.
    /// - [`BuildError::WindowTooLong`]: the period is over 2^62 nanoseconds (146 years).
    /// - [`BuildError::LimitTooLarge`]: the count is over 65,536.
    pub(crate) fn new(plan: Plan) -> Result<Self, BuildError> {
        let (limit, window) = limit_and_period(plan.quota)?;
        match limit {
            ..=MOST => Ok(Self { window, limit, ledger: Ledger::open() }),
            _ => Err(BuildError::LimitTooLarge { quota: plan.quota, most: MOST }),
        }
    }

    /// The log of a quota, for a model.
    #[cfg(tollgate_loom)]
    pub fn of(quota: crate::Quota) -> Self {
        Self::new(Plan::new(quota)).expect("a quota that fits")
    }

    /// How many logs the calling thread's model has not freed.
    #[cfg(tollgate_loom)]
    pub fn logs() -> usize {
        witness::live()
    }

    #[inline]
    fn read<'a>(payload: u64) -> Log<'a> {
        // SAFETY: payloads come from words, which whoever has this one read under a guard that still stands. (Nobody else
        // can have a value of this type to ask.)
        unsafe { log::read(payload) }
    }

    /// The events that count at `now`: a call whose clock is behind the log counts as of that.
    #[inline]
    fn counting<'a>(&self, payload: u64, now: u64) -> Log<'a> {
        let Log { events, instant } = Self::read(payload);
        let instant = now.min(HORIZON).max(instant);
        // Each admission leaves behind what has expired, so there is seldom much of it to pass over.
        const FEW: usize = 4;
        let counts = |event: &Plain<u64>| instant - event.get() < self.window;
        let first = events.iter().take(FEW).position(counts);
        let first = first.unwrap_or_else(|| events.partition_point(|event| !counts(event)));
        Log { events: &events[first..], instant }
    }

    /// When `cost` could be taken, if nobody else takes any.
    fn ready_at(&self, events: &[Plain<u64>], cost: u64) -> Option<u64> {
        match (events.len() as u64).saturating_add(cost).saturating_sub(self.limit) {
            _ if cost > self.limit => None,
            0 => Some(0),
            in_the_way => {
                let ready_at = events[in_the_way as usize - 1].get().checked_add(self.window);
                ready_at.filter(|&at| at <= HORIZON)
            }
        }
    }
}

impl Sealed for SlidingLog {}

impl Answers for SlidingLog {
    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self, payload: u64, now: u64) -> u64 {
        self.limit - self.counting(payload, now).events.len() as u64
    }

    fn retry_after(&self, payload: u64, now: u64, cost: u64) -> Option<u64> {
        Some(self.ready_at(self.counting(payload, now).events, cost)?.saturating_sub(now))
    }
}

impl Algorithm for SlidingLog {
    const POINTS: bool = true;

    #[inline]
    fn charge(&self, payload: u64, now: u64, cost: u64) -> Option<u64> {
        debug_assert!((1..=self.limit).contains(&cost));
        log::fetch(payload, self.limit as usize);
        let Log { events, instant } = self.counting(payload, now);
        (events.len() as u64 + cost <= self.limit)
            .then(|| log::write(self.ledger, instant, [events, &[]], cost as usize))
    }

    /// The very events of the charge, or as many of the same instant, as far as they still count.
    fn give_back(&self, payload: u64, now: u64, cost: u64, charged: Charged) -> Option<(u64, u64)> {
        let Log { events, instant } = self.counting(payload, now);
        let end = events.partition_point(|event| event.get() <= charged.payload);
        let of_that_instant = events[..end].iter().rev().take_while(|event| event.get() == charged.payload).count();
        let returned = of_that_instant.min(usize::try_from(cost).unwrap_or(usize::MAX));
        (returned > 0).then(|| {
            let kept = [&events[..end - returned], &events[end..]];
            (log::write(self.ledger, instant, kept, 0), returned as u64)
        })
    }

    /// The newest events, as if the last calls had not been.
    fn refund(&self, payload: u64, now: u64, tokens: u64) -> Option<(u64, u64)> {
        let Log { events, instant } = self.counting(payload, now);
        let returned = events.len().min(usize::try_from(tokens).unwrap_or(usize::MAX));
        (returned > 0).then(|| {
            let kept = [&events[..events.len() - returned], &[]];
            (log::write(self.ledger, instant, kept, 0), returned as u64)
        })
    }

    fn reset(&self, payload: u64, now: u64) -> Option<u64> {
        let Log { events, instant } = self.counting(payload, now);
        (!events.is_empty()).then(|| log::write(self.ledger, instant, [&[], &[]], 0))
    }

    #[inline]
    fn is_idle(&self, payload: u64, now: u64) -> bool {
        now.min(HORIZON) >= self.idle_at(payload)
    }

    fn idle_at(&self, payload: u64) -> u64 {
        let Log { events, instant } = Self::read(payload);
        events.last().map_or(instant, |newest| newest.get().saturating_add(self.window))
    }

    fn longest_idle(&self) -> u64 {
        self.window
    }

    #[inline]
    fn snapshot(&self, payload: u64, now: u64, cost: u64) -> Snapshot {
        let events = self.counting(payload, now).events;
        let newest = events.last().map_or(0, Plain::get);
        let remaining = (self.limit - events.len() as u64) as u32;
        let retry_at = self.ready_at(events, cost).unwrap_or(u64::MAX);
        let answers = Any::SlidingLog { limit: self.limit as u32, remaining, window: self.window, retry_at };
        Snapshot { answers, payload: newest, now }
    }

    fn snapshot_of_new(&self, now: u64, cost: u64) -> Snapshot {
        let remaining = self.limit.saturating_sub(cost) as u32;
        let answers = Any::SlidingLog { limit: self.limit as u32, remaining, window: self.window, retry_at: u64::MAX };
        Snapshot { answers, payload: now.min(HORIZON), now }
    }

    unsafe fn free(payload: u64) {
        // SAFETY: the caller's promise.
        unsafe { log::free(payload) }
    }

    unsafe fn retire(payload: u64, guard: &Guard) {
        // SAFETY: the caller's promise.
        unsafe { log::retire(payload, guard) }
    }

    fn reclaim(guard: &Guard) {
        cache::reclaim(guard);
    }

    fn bytes(&self) -> usize {
        cache::settle();
        self.ledger.bytes()
    }

    fn close(&self) {
        cache::settle();
        self.ledger.close();
    }
}

/// What a decision carries of a log that it cannot read any more. Its payload is the newest event that counts.
pub(super) struct Digest {
    pub(super) limit: u32,
    pub(super) remaining: u32,
    pub(super) window: u64,
    /// When the cost of the decision could be taken; `u64::MAX` if never.
    pub(super) retry_at: u64,
}

impl Answers for Digest {
    fn limit(&self) -> u64 {
        self.limit.into()
    }

    fn remaining(&self, _: u64, _: u64) -> u64 {
        self.remaining.into()
    }

    /// For the cost of the decision, whatever `cost` is.
    fn retry_after(&self, _: u64, now: u64, _: u64) -> Option<u64> {
        (self.retry_at < u64::MAX).then(|| self.retry_at.saturating_sub(now))
    }

    fn reset_after(&self, newest: u64, now: u64) -> u64 {
        match self.limit - self.remaining {
            0 => 0,
            _ => newest.saturating_add(self.window).saturating_sub(now),
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests;
