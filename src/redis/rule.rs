//! [`Rule`]: a quota in the whole numbers that a script works with, and [`State`], what is known of a client by it.
//!
//! Time is counted in microseconds since the Unix epoch, which is what the store's clock gives. A script computes in
//! doubles, which hold every whole number up to 2^53. A rule exists only where no number leaves that range, so that nothing
//! is ever rounded:
//!
//! - *Token bucket.* Let the rate be r tokens per p microseconds in lowest terms. A token has p parts, and a microsecond
//!   refills r of them. The largest number is the capacity in parts, or the time to refill it.
//! - *Windows.* The period is a whole number of microseconds. The sliding counter weighs counts by the time left, up to
//!   (limit + 1) × period.
//! - *Log.* Counts only, up to the limit of the in-process log.
//!
//! The answers to a decision are computed here, from the state that the script returns, by 128-bit numbers.

use super::error::SetupError;
use crate::algorithm::Snapshot;
use crate::{Anchor, Quota};

/// The first whole number above which doubles have gaps.
const EXACT: u64 = 1 << 53;

/// The last instant, in the year 2112: what is reckoned from it stays below 2^53.
pub(super) const LAST: u64 = 1 << 52;

/// The longest window, as two follow an instant.
pub(super) const LONGEST: u64 = 1 << 51;

/// The most events of a log, as in-process.
const MOST_EVENTS: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    TokenBucket,
    FixedWindow,
    SlidingCounter,
    SlidingLog,
}

impl Algorithm {
    pub(super) const ALL: [Self; 4] = [Self::TokenBucket, Self::FixedWindow, Self::SlidingCounter, Self::SlidingLog];

    /// Its place in [`ALL`](Self::ALL).
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Its number in scripts, and the first byte of what they store: none that a text starts with.
    pub(super) fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Its letter in key names.
    pub(super) fn letter(self) -> &'static str {
        match self {
            Self::TokenBucket => "t",
            Self::FixedWindow => "f",
            Self::SlidingCounter => "c",
            Self::SlidingLog => "l",
        }
    }
}

/// A quota as a script has it. Times are microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The largest cost that can be admitted at once.
    pub(super) limit: u64,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Parts of a token, and how many of them a microsecond refills.
    TokenBucket {
        parts: u64,
        refill: u64,
    },
    FixedWindow {
        period: u64,
        anchor: Anchor,
    },
    SlidingCounter {
        period: u64,
        anchor: Anchor,
        strict: bool,
    },
    SlidingLog {
        window: u64,
    },
}

/// What a script knows of a client, brought up to the instant of the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Parts used, and when that was so.
    TokenBucket {
        used: u64,
        at: u64,
    },
    FixedWindow {
        count: u64,
        start: u64,
    },
    SlidingCounter {
        current: u64,
        previous: u64,
        start: u64,
    },
    /// Events that count, the instant of the newest, and of the one that has to end for the decision's cost to fit.
    SlidingLog {
        count: u64,
        newest: u64,
        in_the_way: u64,
    },
}

impl State {
    /// What a charge that led to this state is known by.
    fn mark(self) -> u64 {
        match self {
            Self::TokenBucket { at: mark, .. }
            | Self::FixedWindow { start: mark, .. }
            | Self::SlidingCounter { start: mark, .. }
            | Self::SlidingLog { newest: mark, .. } => mark,
        }
    }
}

/// The answers to a decision. Times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) reset_after: u64,
    /// 0 if the cost fits, `None` if it never will.
    pub(super) retry_after: Option<u64>,
}

impl Answers {
    pub(super) fn snapshot(self, state: State) -> Snapshot {
        let nanos = |micros: u64| micros.saturating_mul(1000);
        let Self { limit, remaining, reset_after, retry_after } = self;
        Snapshot::told(limit, remaining, nanos(reset_after), retry_after.map(nanos), state.mark())
    }
}

impl Rule {
    /// # Errors
    ///
    /// [`SetupError::Quota`], [`RateTooHigh`](SetupError::RateTooHigh), [`BurstTooLarge`](SetupError::BurstTooLarge).
    pub(super) fn token_bucket(quota: Quota) -> Result<Self, SetupError> {
        quota.validate()?;
        let limit = quota.capacity();
        // count tokens in period nanoseconds are 1000 × count in period microseconds.
        let (count, period) = (1000 * u128::from(quota.count()), quota.period().as_nanos());
        let divisor = gcd(count, period);
        let (refill, parts) = (count / divisor, period / divisor);
        let refill = exact(refill).ok_or(SetupError::RateTooHigh(quota))?;
        let most = u128::from(EXACT - 1) / parts;
        let most = narrow(most.min(u128::from(LAST) * u128::from(refill) / parts));
        if limit > most {
            return Err(SetupError::BurstTooLarge { quota, most });
        }
        Ok(Self { limit, kind: Kind::TokenBucket { parts: parts as u64, refill } })
    }

    /// # Errors
    ///
    /// [`SetupError::Quota`], [`BurstOfWindow`](SetupError::BurstOfWindow),
    /// [`NotMicroseconds`](SetupError::NotMicroseconds), [`WindowTooLong`](SetupError::WindowTooLong),
    /// [`LimitTooLarge`](SetupError::LimitTooLarge).
    pub(super) fn fixed_window(quota: Quota, anchor: Anchor) -> Result<Self, SetupError> {
        let period = period_of(quota)?;
        let limit = at_most(quota, EXACT - 1)?;
        Ok(Self { limit, kind: Kind::FixedWindow { period, anchor } })
    }

    /// # Errors
    ///
    /// Those of [`fixed_window`](Self::fixed_window).
    pub(super) fn sliding_counter(quota: Quota, anchor: Anchor, strict: bool) -> Result<Self, SetupError> {
        let period = period_of(quota)?;
        let limit = at_most(quota, (EXACT - 1) / period - 1)?;
        Ok(Self { limit, kind: Kind::SlidingCounter { period, anchor, strict } })
    }

    /// # Errors
    ///
    /// Those of [`fixed_window`](Self::fixed_window).
    pub(super) fn sliding_log(quota: Quota) -> Result<Self, SetupError> {
        let window = period_of(quota)?;
        let limit = at_most(quota, MOST_EVENTS)?;
        Ok(Self { limit, kind: Kind::SlidingLog { window } })
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        match self.kind {
            Kind::TokenBucket { .. } => Algorithm::TokenBucket,
            Kind::FixedWindow { .. } => Algorithm::FixedWindow,
            Kind::SlidingCounter { .. } => Algorithm::SlidingCounter,
            Kind::SlidingLog { .. } => Algorithm::SlidingLog,
        }
    }

    /// The time to refill an empty bucket, or a window, in microseconds.
    #[cfg(feature = "tower")]
    pub(super) fn window(&self) -> u64 {
        match self.kind {
            Kind::TokenBucket { parts, refill } => (self.limit * parts).div_ceil(refill),
            Kind::FixedWindow { period, .. } | Kind::SlidingCounter { period, .. } => period,
            Kind::SlidingLog { window } => window,
        }
    }

    /// The three numbers of the script: a, b and c.
    pub(super) fn numbers(&self) -> [u64; 3] {
        let first = |anchor| u64::from(anchor == Anchor::FirstRequest);
        match self.kind {
            Kind::TokenBucket { parts, refill } => [parts, refill, 0],
            Kind::FixedWindow { period, anchor } => [period, first(anchor), 0],
            Kind::SlidingCounter { period, anchor, strict } => [period, first(anchor), strict.into()],
            Kind::SlidingLog { window } => [window, 0, 0],
        }
    }

    /// The state that a script states by three numbers.
    pub(super) fn state(&self, [x, y, z]: [u64; 3]) -> State {
        match self.kind {
            Kind::TokenBucket { .. } => State::TokenBucket { used: x, at: y },
            Kind::FixedWindow { .. } => State::FixedWindow { count: x, start: y },
            Kind::SlidingCounter { .. } => State::SlidingCounter { current: x, previous: y, start: z },
            Kind::SlidingLog { .. } => State::SlidingLog { count: x, newest: y, in_the_way: z },
        }
    }

    /// The state of a client that had nothing used and has just taken `cost`, no more than the limit.
    pub(super) fn after(&self, cost: u64, now: u64) -> State {
        let start = |period: u64, anchor| match anchor {
            Anchor::FirstRequest => now,
            Anchor::Aligned => now - now % period,
        };
        match self.kind {
            Kind::TokenBucket { parts, .. } => State::TokenBucket { used: cost * parts, at: now },
            Kind::FixedWindow { period, anchor } => State::FixedWindow { count: cost, start: start(period, anchor) },
            Kind::SlidingCounter { period, anchor, .. } => {
                State::SlidingCounter { current: cost, previous: 0, start: start(period, anchor) }
            }
            Kind::SlidingLog { .. } => State::SlidingLog { count: cost, newest: now, in_the_way: 0 },
        }
    }

    /// The answers to a decision on `cost` at `now`, from a state of that instant or an earlier one.
    pub(super) fn answers(&self, state: State, now: u64, cost: u64) -> Answers {
        let (remaining, reset_after, ready_after) = match (self.kind, state) {
            (Kind::TokenBucket { parts, refill }, State::TokenBucket { used, at }) => {
                self.bucket(parts, refill, used, at, now, cost)
            }
            (Kind::FixedWindow { period, .. }, State::FixedWindow { count, start }) => {
                let end = (start + period).saturating_sub(now);
                let count = if end == 0 { 0 } else { count };
                let remaining = self.limit.saturating_sub(count);
                (remaining, if count > 0 { end } else { 0 }, if cost <= remaining { 0 } else { end })
            }
            (Kind::SlidingCounter { period, strict, .. }, State::SlidingCounter { current, previous, start }) => {
                Weighed { limit: self.limit, period, strict, current, previous, start }.answers(now, cost)
            }
            (Kind::SlidingLog { window }, State::SlidingLog { count, newest, in_the_way }) => {
                let after = |event: u64| (event + window).saturating_sub(now);
                let reset = if count > 0 { after(newest) } else { 0 };
                let remaining = if reset > 0 { self.limit.saturating_sub(count) } else { self.limit };
                // Known for the cost of the script's own decision only.
                (remaining, reset, if cost <= remaining { 0 } else { after(in_the_way) })
            }
            _ => unreachable!("a state is made by its rule"),
        };
        let retry_after = (cost <= self.limit).then_some(ready_after);
        Answers { limit: self.limit, remaining, reset_after, retry_after }
    }

    fn bucket(&self, parts: u64, refill: u64, used: u64, at: u64, now: u64, cost: u64) -> (u64, u64, u64) {
        let refilled = u128::from(now.saturating_sub(at)) * u128::from(refill);
        let used = u64::try_from(u128::from(used).saturating_sub(refilled)).unwrap_or(u64::MAX);
        let capacity = self.limit * parts;
        // Where the state is ahead of now, time has to catch up first.
        let after = |parts: u128| match parts {
            0 => 0,
            parts => narrow(parts.div_ceil(refill.into())).saturating_add(at.saturating_sub(now)),
        };
        let missing = (u128::from(used) + u128::from(cost) * u128::from(parts)).saturating_sub(capacity.into());
        (capacity.saturating_sub(used) / parts, after(used.into()), after(missing))
    }
}

/// A sliding counter's numbers at work. The rules are those of the in-process one.
struct Weighed {
    limit: u64,
    period: u64,
    strict: bool,
    current: u64,
    previous: u64,
    start: u64,
}

impl Weighed {
    fn answers(mut self, now: u64, cost: u64) -> (u64, u64, u64) {
        while now >= self.start + self.period && self.current + self.previous > 0 {
            self = self.next();
        }
        let left = self.period - now.saturating_sub(self.start).min(self.period);
        let remaining = self.limit.saturating_sub(self.current.saturating_add(self.share(left)));
        (remaining, self.ready_after(now, self.limit), self.ready_after(now, cost))
    }

    fn next(&self) -> Self {
        Self { previous: self.current, current: 0, start: self.start + self.period, ..*self }
    }

    /// What the previous count stands for with so much of the window left, as the rule rounds it.
    fn share(&self, left: u64) -> u64 {
        let (share, period) = (u128::from(self.previous) * u128::from(left), u128::from(self.period));
        narrow(if self.strict { share.div_ceil(period) } else { share / period })
    }

    /// The most of the window that may be left for the previous count to stand for no more than `room` calls.
    fn most_left(&self, room: u64) -> u64 {
        let (previous, room, period) = (u128::from(self.previous), u128::from(room), u128::from(self.period));
        match (self.previous, self.strict) {
            (0, _) => self.period,
            (_, true) => narrow(room * period / previous),
            (_, false) => narrow(((room + 1) * period).div_ceil(previous) - 1),
        }
        .min(self.period)
    }

    fn ready_after(&self, now: u64, cost: u64) -> u64 {
        if self.current + self.previous == 0 || cost > self.limit {
            return 0;
        }
        let next = self.next();
        for counts in [self, &next] {
            let left = match self.limit.checked_sub(counts.current + cost) {
                Some(room) => counts.most_left(room),
                None => 0,
            };
            if left > 0 {
                return (counts.start + counts.period - left).saturating_sub(now);
            }
        }
        (next.start + next.period).saturating_sub(now)
    }
}

/// A number that fits as long as the numbers of a rule do.
fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn exact(value: u128) -> Option<u64> {
    u64::try_from(value).ok().filter(|&value| value < EXACT)
}

fn period_of(quota: Quota) -> Result<u64, SetupError> {
    quota.validate()?;
    if quota.capacity() != quota.count() {
        return Err(SetupError::BurstOfWindow(quota));
    }
    let nanos = quota.period().as_nanos();
    if !nanos.is_multiple_of(1000) {
        return Err(SetupError::NotMicroseconds(quota));
    }
    match u64::try_from(nanos / 1000) {
        Ok(period @ ..=LONGEST) => Ok(period),
        _ => Err(SetupError::WindowTooLong(quota)),
    }
}

fn at_most(quota: Quota, most: u64) -> Result<u64, SetupError> {
    match quota.count() {
        limit if limit <= most => Ok(limit),
        _ => Err(SetupError::LimitTooLarge { quota, most }),
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
