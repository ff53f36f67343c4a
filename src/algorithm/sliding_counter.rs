//! The sliding window counter: two counts that stand for a window which moves with time.
//!
//! The word holds the number of a window, how much it was charged, and how much the one before it was. The window that
//! ends now overlaps both, and what it has used is estimated as if the calls of the earlier one had been spread evenly:
//!
//! ```text
//! estimate = previous x (1 - elapsed fraction of the current window) + current
//! ```
//!
//! # Two rules
//!
//! By default a cost is admitted while the *whole part* of the estimate and the cost are within the limit: for a cost of 1,
//! while the estimate is below the limit. The *strict* rule counts parts too: the estimate itself and the cost must be
//! within the limit. With 10 per 10 s, 10 calls in the last window and half a percent of this one over, the estimate is
//! 9.95. By default one call passes, as 9 + 1 is not over 10; by the strict rule it is refused, and so is every other until
//! a tenth of the window is over. Both are compared in whole numbers, multiplied out, so nothing is ever rounded.
//!
//! # What it guarantees
//!
//! At most the limit in each window, and so at most twice the limit in any stretch of one period. A client that calls evenly
//! is held to the limit over every such stretch, and at exactly the limit it is refused now and then, as the estimate of a
//! new window begins with the whole of the last. More than the limit needs calls that come in bursts, one late in a window
//! and one late in the next.
//!
//! # When to choose it
//!
//! For high limits over long periods where a log would be too large and the burst at the boundary of fixed windows too
//! much. Where a stated number must never be exceeded, choose the log; for a steady rate, the token bucket.
//!
//! # What it costs
//!
//! The word of a token bucket, and about its time. A client is forgotten two windows after its last one began.

use super::windows::{Windows, bits_of};
use super::{Algorithm, Answers, Any, Charged, Plan, Snapshot, sealed::Sealed};
use crate::error::BuildError;

/// A window that moves with time, estimated from two counts.
///
/// Choose it for high limits over long periods. It holds a client that calls evenly to the limit over every stretch of one
/// period, and any other to twice the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    windows: Windows,
    limit: u64,
    /// What is added to a share before its fraction is dropped: nothing, or by the strict rule so much that any fraction
    /// counts as a call.
    rounding: u64,
    /// Bits of the payload that hold the current count; the previous one takes as many above, and then comes the number.
    bits: u32,
    /// The largest number of so many bits.
    most: u64,
}

/// A client's counts at an instant.
#[derive(Clone, Copy)]
struct Counts {
    /// The number of the current window. 0 if nothing is used: then the next charge starts one.
    number: u64,
    /// When it starts.
    start: u64,
    previous: u64,
    current: u64,
}

impl Counts {
    const NONE: Self = Self { number: 0, start: 0, previous: 0, current: 0 };
}

impl SlidingCounter {
    /// The windows of a plan.
    ///
    /// # Errors
    ///
    /// - [`BuildError::Quota`]: the count, the period or the burst is zero.
    /// - [`BuildError::BurstOfWindow`]: the burst is not the count.
    /// - [`BuildError::WindowTooLong`]: the period is over 2^62 nanoseconds (146 years).
    /// - [`BuildError::LimitTooLarge`]: two counts up to the limit do not fit one word beside the numbers of 30 years of
    ///   windows.
    pub(crate) fn new(plan: Plan) -> Result<Self, BuildError> {
        let limit = plan.quota.count();
        Ok(Self::with(Windows::new(plan, 2)?, limit, plan.strict))
    }

    /// The counter of a quota, for a model.
    #[cfg(tollgate_loom)]
    pub fn of(quota: crate::Quota, anchor: super::Anchor) -> Self {
        Self::new(Plan { anchor, ..Plan::new(quota) }).expect("a quota that fits")
    }

    /// The windows that a decision carries.
    pub(super) fn of_parts(limit: u64, period: u64, offset: u64, grain: u8, strict: bool) -> Self {
        Self::with(Windows::of_parts(period, offset, grain, 2 * bits_of(limit)), limit, strict)
    }

    fn with(windows: Windows, limit: u64, strict: bool) -> Self {
        let bits = bits_of(limit);
        let rounding = if strict { windows.period - 1 } else { 0 };
        Self { windows, limit, rounding, bits, most: (1 << bits) - 1 }
    }

    fn count(&self, payload: u64) -> u64 {
        payload & self.most
    }

    fn pack(&self, number: u64, previous: u64, current: u64) -> u64 {
        (number << self.bits | previous) << self.bits | current
    }

    /// The counts that a word holds, in the window that was last charged.
    #[inline]
    fn unpack(&self, payload: u64) -> Counts {
        let (previous, current) = (self.count(payload >> self.bits), self.count(payload));
        if previous | current == 0 {
            return Counts::NONE;
        }
        let number = payload >> (2 * self.bits);
        Counts { number, start: self.windows.start(number), previous, current }
    }

    /// The counts at an instant. One before the window's start counts as its start: others are there already.
    #[inline]
    fn at(&self, payload: u64, instant: u64) -> Counts {
        let counts = self.unpack(payload);
        let elapsed = instant.saturating_sub(counts.start);
        if elapsed < self.windows.period {
            counts
        } else if elapsed - self.windows.period < self.windows.period && counts.current > 0 {
            self.next(counts)
        } else {
            Counts::NONE
        }
    }

    /// The same counts seen from the next window.
    fn next(&self, counts: Counts) -> Counts {
        Counts {
            number: counts.number + self.windows.points(),
            start: counts.start + self.windows.period,
            previous: counts.current,
            current: 0,
        }
    }

    /// From when on the word says nothing any more: where nothing is used, from the beginning of its window.
    fn idle_from(&self, payload: u64) -> u64 {
        if payload == 0 {
            return 0;
        }
        let windows = match (self.count(payload >> self.bits), self.count(payload)) {
            (0, 0) => 0,
            (_, 0) => 1,
            _ => 2,
        };
        self.windows.start(payload >> (2 * self.bits)).saturating_add(windows * self.windows.period)
    }

    /// Charges a word that is near the limit, or whose window is over, or that has none.
    #[inline(never)]
    fn charge_closely(&self, payload: u64, instant: u64, cost: u64) -> Option<u64> {
        let counts = self.at(payload, instant);
        if counts.number == 0 {
            let number = self.windows.number(instant).max(payload >> (2 * self.bits));
            return Some(self.pack(number, 0, cost));
        }
        let room = self.limit.checked_sub(counts.current + cost)?;
        self.fits(counts.previous, self.left(counts, instant), room)
            .then(|| self.pack(counts.number, counts.previous, counts.current + cost))
    }

    /// How much of the window has yet to come, in nanoseconds.
    fn left(&self, counts: Counts, instant: u64) -> u64 {
        self.windows.period - instant.saturating_sub(counts.start)
    }

    /// What `previous` counts for with so much of the window `left`, in parts of which a call has as many as the period has
    /// nanoseconds. The rule is to drop a fraction of a call here.
    #[inline]
    fn parts(&self, previous: u64, left: u64) -> u128 {
        u128::from(previous) * u128::from(left) + u128::from(self.rounding)
    }

    /// What `previous` counts for in whole calls.
    fn share(&self, previous: u64, left: u64) -> u64 {
        (self.parts(previous, left) / u128::from(self.windows.period)) as u64
    }

    /// Whether that is no more than `room`.
    #[inline]
    fn fits(&self, previous: u64, left: u64, room: u64) -> bool {
        self.parts(previous, left) < u128::from(room + 1) * u128::from(self.windows.period)
    }

    /// The largest number by which `factor`, a count or the time left, can be multiplied to fit into `room`: the other of
    /// the two.
    fn largest(&self, factor: u64, room: u64) -> u64 {
        let parts = u128::from(room + 1) * u128::from(self.windows.period) - u128::from(self.rounding) - 1;
        u64::try_from(parts / u128::from(factor)).unwrap_or(u64::MAX)
    }

    /// The first instant from this one on at which `cost`, no more than the limit, is admitted.
    fn ready(&self, payload: u64, instant: u64, cost: u64) -> u64 {
        let now = self.at(payload, instant);
        if now.number == 0 {
            return instant;
        }
        let next = self.next(now);
        for counts in [now, next] {
            let room = self.limit.checked_sub(counts.current + cost);
            let left = match (room, counts.previous) {
                (None, _) => 0,
                (Some(_), 0) => self.windows.period,
                (Some(room), previous) => self.largest(previous, room).min(self.windows.period),
            };
            if left > 0 {
                let ready = counts.start.saturating_add(self.windows.period - left);
                return if ready <= instant.max(now.start) { instant } else { ready };
            }
        }
        next.start.saturating_add(self.windows.period)
    }
}

impl Sealed for SlidingCounter {}

impl Answers for SlidingCounter {
    #[inline]
    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self, payload: u64, now: u64) -> u64 {
        let instant = self.windows.instant(now);
        let counts = self.at(payload, instant);
        if counts.number == 0 {
            return self.limit;
        }
        self.limit.saturating_sub(counts.current + self.share(counts.previous, self.left(counts, instant)))
    }

    fn retry_after(&self, payload: u64, now: u64, cost: u64) -> Option<u64> {
        if cost > self.limit {
            return None;
        }
        let ready = self.ready(payload, self.windows.instant(now), cost);
        Some(self.windows.time_of(ready)?.saturating_sub(now))
    }
}

impl Algorithm for SlidingCounter {
    #[inline]
    fn charge(&self, payload: u64, now: u64, cost: u64) -> Option<u64> {
        debug_assert!((1..=self.limit).contains(&cost));
        let instant = self.windows.instant(now);
        let (previous, current) = (self.count(payload >> self.bits), self.count(payload));
        // Far from the limit it does not matter how much of the previous count counts.
        if previous | current != 0 && previous + current + cost <= self.limit {
            let elapsed = instant.saturating_sub(self.windows.start(payload >> (2 * self.bits)));
            if elapsed < self.windows.period {
                return Some(payload + cost);
            }
        }
        self.charge_closely(payload, instant, cost)
    }

    /// Only within the window that was charged: a later one counts it as spread evenly, and not at the instant at which it
    /// was.
    fn give_back(&self, payload: u64, now: u64, cost: u64, charged: Charged) -> Option<(u64, u64)> {
        let Counts { number, previous, current, .. } = self.at(payload, self.windows.instant(now));
        let returned = current.min(cost);
        let same = number == charged.payload >> (2 * self.bits);
        (same && returned > 0).then(|| (self.pack(number, previous, current - returned), returned))
    }

    /// From the current count first, and then as much from the previous one as makes the rest of the difference now.
    fn refund(&self, payload: u64, now: u64, tokens: u64) -> Option<(u64, u64)> {
        let instant = self.windows.instant(now);
        let counts = self.at(payload, instant);
        if counts.number == 0 {
            return None;
        }
        let left = self.left(counts, instant);
        let share = self.share(counts.previous, left);
        let current = counts.current.min(tokens);
        let previous = share.min(tokens - current);
        let lowered = match previous {
            0 => counts.previous,
            _ => self.largest(left, share - previous),
        };
        let returned = current + previous;
        (returned > 0).then(|| (self.pack(counts.number, lowered, counts.current - current), returned))
    }

    fn reset(&self, payload: u64, now: u64) -> Option<u64> {
        let number = self.at(payload, self.windows.instant(now)).number;
        (self.remaining(payload, now) < self.limit).then(|| self.pack(number, 0, 0))
    }

    #[inline]
    fn is_idle(&self, payload: u64, now: u64) -> bool {
        self.windows.instant(now) >= self.idle_from(payload)
    }

    fn idle_at(&self, payload: u64) -> u64 {
        self.windows.time_of(self.idle_from(payload)).unwrap_or(u64::MAX)
    }

    fn longest_idle(&self) -> u64 {
        2 * self.windows.period
    }

    fn window(&self) -> u64 {
        self.windows.period
    }

    #[inline]
    fn snapshot(&self, payload: u64, now: u64, _: u64) -> Snapshot {
        let Windows { period, offset, grain, .. } = self.windows;
        let strict = self.rounding > 0;
        let answers = Any::SlidingCounter { limit: self.limit, period, offset, grain, strict };
        Snapshot { answers, payload, now }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests;
