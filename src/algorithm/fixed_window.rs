//! The fixed window: a count that starts again from nothing at the end of each window.
//!
//! The word holds the number of the window that was last charged, and how much it was charged. Where that window is over,
//! nothing is used. A number never becomes smaller, not even where all was given back: by an older reading of the clock, a
//! window would be charged again that is used up and forgotten.
//!
//! # What it guarantees
//!
//! At most the limit in each window. Over a stretch of time as long as a window it admits up to **twice the limit**, when a
//! client uses all of one window at its end and all of the next at its beginning; over any stretch d, at most the limit
//! times (d / period, rounded up, and one more).
//!
//! # When to choose it
//!
//! Where the rule itself is about windows ("a thousand a day, from midnight"), and for quotas so that users can
//! reckon themselves when they may go on. To protect a service from load choose a token bucket or a sliding window instead.
//!
//! # What it costs
//!
//! The word of a token bucket, and about its time. A client is forgotten at the end of its window.

use super::windows::{Windows, bits_of};
use super::{Algorithm, Answers, Any, Charged, Plan, Snapshot, sealed::Sealed};
use crate::error::BuildError;

/// Fixed windows: at most the limit in each stretch of one period, then from nothing again.
///
/// Choose it where the rule is about windows, such as a number a day. Around the end of a window it admits up to twice the
/// limit within one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    windows: Windows,
    limit: u64,
    /// Bits of the payload that hold the count; the window's number stands above.
    bits: u32,
    /// The largest number of so many bits.
    most: u64,
}

impl FixedWindow {
    /// The windows of a plan.
    ///
    /// # Errors
    ///
    /// - [`BuildError::Quota`]: the count, the period or the burst is zero.
    /// - [`BuildError::BurstOfWindow`]: the burst is not the count.
    /// - [`BuildError::WindowTooLong`]: the period is over 2^62 nanoseconds (146 years).
    /// - [`BuildError::LimitTooLarge`]: a count up to the limit does not fit one word beside the numbers of 30 years of
    ///   windows.
    pub(crate) fn new(plan: Plan) -> Result<Self, BuildError> {
        let limit = plan.quota.count();
        Ok(Self::with(Windows::new(plan, 1)?, limit))
    }

    /// The windows of a quota, for a model.
    #[cfg(tollgate_loom)]
    pub fn of(quota: crate::Quota, anchor: super::Anchor) -> Self {
        Self::new(Plan { anchor, ..Plan::new(quota) }).expect("a quota that fits")
    }

    /// The windows that a decision carries.
    pub(super) fn of_parts(limit: u64, period: u64, offset: u64, grain: u8) -> Self {
        Self::with(Windows::of_parts(period, offset, grain, bits_of(limit)), limit)
    }

    fn with(windows: Windows, limit: u64) -> Self {
        let bits = bits_of(limit);
        Self { windows, limit, bits, most: (1 << bits) - 1 }
    }

    /// Where the window ends that was last charged.
    #[inline]
    fn end(&self, payload: u64) -> u64 {
        self.windows.start(payload >> self.bits) + self.windows.period
    }

    /// From when on the word says nothing any more: where nothing is used, from the beginning of its window.
    fn idle_from(&self, payload: u64) -> u64 {
        match self.count(payload) {
            0 if payload == 0 => 0,
            0 => self.windows.start(payload >> self.bits),
            _ => self.end(payload),
        }
    }

    fn count(&self, payload: u64) -> u64 {
        payload & self.most
    }

    /// What is used at an instant. An instant before the window's start counts as in it: others are there already.
    #[inline]
    fn used(&self, payload: u64, instant: u64) -> u64 {
        match self.count(payload) {
            0 => 0,
            used if instant < self.end(payload) => used,
            _ => 0,
        }
    }

    fn lower(&self, payload: u64, now: u64, tokens: u64) -> Option<(u64, u64)> {
        let returned = self.used(payload, self.windows.instant(now)).min(tokens);
        (returned > 0).then(|| (payload - returned, returned))
    }
}

impl Sealed for FixedWindow {}

impl Answers for FixedWindow {
    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self, payload: u64, now: u64) -> u64 {
        self.limit - self.used(payload, self.windows.instant(now))
    }

    fn retry_after(&self, payload: u64, now: u64, cost: u64) -> Option<u64> {
        if cost > self.limit {
            return None;
        }
        if cost <= self.remaining(payload, now) {
            return Some(0);
        }
        Some(self.windows.time_of(self.end(payload))?.saturating_sub(now))
    }
}

impl Algorithm for FixedWindow {
    #[inline]
    fn charge(&self, payload: u64, now: u64, cost: u64) -> Option<u64> {
        debug_assert!((1..=self.limit).contains(&cost));
        let instant = self.windows.instant(now);
        match self.used(payload, instant) {
            0 => Some(self.windows.number(instant).max(payload >> self.bits) << self.bits | cost),
            used => (used + cost <= self.limit).then_some(payload + cost),
        }
    }

    /// Only within the window that was charged: what another one has used is not this charge's.
    fn give_back(&self, payload: u64, now: u64, cost: u64, charged: Charged) -> Option<(u64, u64)> {
        match payload >> self.bits == charged.payload >> self.bits {
            true => self.lower(payload, now, cost),
            false => None,
        }
    }

    fn refund(&self, payload: u64, now: u64, tokens: u64) -> Option<(u64, u64)> {
        self.lower(payload, now, tokens)
    }

    fn reset(&self, payload: u64, now: u64) -> Option<u64> {
        self.lower(payload, now, self.limit).map(|(payload, _)| payload)
    }

    #[inline]
    fn is_idle(&self, payload: u64, now: u64) -> bool {
        self.windows.instant(now) >= self.idle_from(payload)
    }

    fn idle_at(&self, payload: u64) -> u64 {
        self.windows.time_of(self.idle_from(payload)).unwrap_or(u64::MAX)
    }

    fn longest_idle(&self) -> u64 {
        self.windows.period
    }

    #[inline]
    fn snapshot(&self, payload: u64, now: u64, _: u64) -> Snapshot {
        let Windows { period, offset, grain, .. } = self.windows;
        Snapshot { answers: Any::FixedWindow { limit: self.limit, period, offset, grain }, payload, now }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests;
