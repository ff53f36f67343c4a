//! Stretches of time of one length, numbered so that the number fits beside counts in a word.
//!
//! A window may start at any of a few *grid points* in each period, counted from the clock's origin: at one only, the
//! period's beginning, where windows are aligned; otherwise at every 2^grain nanoseconds from there. Grid points are
//! numbered in their order, from 1, so the number of a window's first one says when it starts, exactly: windows that follow
//! each other start a whole period apart, whatever the grain.
//!
//! Instants here are nanoseconds since the last multiple of the period before the limiter was built. They end at a
//! *horizon*, the last one with a number, or a period before the end of 64 bits if that is sooner; from there time stands
//! still, and waits that would end later have no answer.
//!
//! The window of a word never goes back. A call may come with an instant before the word's window, since it read the clock
//! before others did; it counts in that window, and not in an earlier one, of which the word knows nothing any more.

use super::{PAYLOAD_MAX, Plan, UPTIME};
use crate::error::BuildError;
use crate::quota::Quota;

/// Where windows start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Anchor {
    /// At the multiples of the period since the clock's origin, for all clients alike. Cheapest, and with a clock that
    /// counts from midnight "per day" means the calendar's. All clients get their new window at the same instant, and whoever
    /// knows it can call twice as often around it.
    #[default]
    Aligned,
    /// With the first request of each client that has nothing used: so windows of different clients end at different
    /// times, and a client that calls after a pause has a whole window before it. The start is rounded down to a grid of
    /// 2^k nanoseconds within each period, the finest that fits the word, never coarser than a 1024th of the period.
    FirstRequest,
}

/// The longest window in nanoseconds, about 146 years, so that the horizon is beyond the guaranteed uptime.
const LONGEST: u64 = (1 << 62) - 1;

/// The grain at which a period has one grid point.
const ALIGNED: u8 = 62;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Windows {
    /// How long a window is, in nanoseconds.
    pub(super) period: u64,
    /// The instant at which the limiter was built: less than a period.
    pub(super) offset: u64,
    /// A grid point lies at every 2^grain nanoseconds of a period.
    pub(super) grain: u8,
    /// The last instant: at most a period before the last `u64`, so that the window of any instant ends at one too.
    horizon: u64,
}

impl Windows {
    /// The windows of a plan, whose words hold so many counts beside a number; with the bits of one count.
    ///
    /// # Errors
    ///
    /// Those of [`FixedWindow::new`](super::FixedWindow::new).
    pub(super) fn new(plan: Plan, counts: u32) -> Result<Self, BuildError> {
        let Plan { quota, anchor, origin, .. } = plan;
        let (limit, period) = limit_and_period(quota)?;
        match finest(period, anchor, counts * bits_of(limit)) {
            Some(grain) => Ok(Self::of_parts(period, origin % period, grain, counts * bits_of(limit))),
            None => {
                let most = (1..bits_of(limit)).rev().find(|&bits| finest(period, anchor, counts * bits).is_some());
                Err(BuildError::LimitTooLarge { quota, most: most.map_or(0, |bits| (1 << bits) - 1) })
            }
        }
    }

    /// The windows that a decision carries. `bits` of the payload belong to counts.
    pub(super) fn of_parts(period: u64, offset: u64, grain: u8, bits: u32) -> Self {
        let windows = Self { period, offset, grain, horizon: u64::MAX };
        let end = windows.start_of(u128::from(PAYLOAD_MAX >> bits) + 1);
        let most = u64::MAX - period;
        Self { horizon: u64::try_from(end - 1).map_or(most, |last| last.min(most)), ..windows }
    }

    /// The instant of a limiter's time.
    #[inline]
    pub(super) fn instant(&self, now: u64) -> u64 {
        now.saturating_add(self.offset).min(self.horizon)
    }

    /// The limiter's time at an instant; `None` past the horizon, as it never comes.
    pub(super) fn time_of(&self, instant: u64) -> Option<u64> {
        (instant <= self.horizon).then(|| instant.saturating_sub(self.offset))
    }

    /// The number of the last grid point up to an instant, from 1.
    #[inline]
    pub(super) fn number(&self, instant: u64) -> u64 {
        let (period, within) = (instant / self.period, instant % self.period);
        period * self.points() + (within >> self.grain) + 1
    }

    /// When the window starts whose first grid point has this number.
    #[inline]
    pub(super) fn start(&self, number: u64) -> u64 {
        match self.grain {
            ALIGNED => (number - 1) * self.period,
            _ => self.start_of(u128::from(number)) as u64,
        }
    }

    /// Grid points in a period: the numbers by which windows that follow each other differ.
    #[inline]
    pub(super) fn points(&self) -> u64 {
        points(self.period, self.grain)
    }

    fn start_of(&self, number: u128) -> u128 {
        let (points, number) = (u128::from(self.points()), number - 1);
        number / points * u128::from(self.period) + ((number % points) << self.grain)
    }
}

/// What a window may hold, and how long it is in nanoseconds.
///
/// # Errors
///
/// - [`BuildError::Quota`]: the count, the period or the burst is zero.
/// - [`BuildError::BurstOfWindow`]: the burst is not the count.
/// - [`BuildError::WindowTooLong`]: the period is over 2^62 nanoseconds.
pub(super) fn limit_and_period(quota: Quota) -> Result<(u64, u64), BuildError> {
    quota.validate()?;
    if quota.capacity() != quota.count() {
        return Err(BuildError::BurstOfWindow(quota));
    }
    match u64::try_from(quota.period().as_nanos()) {
        Ok(period @ ..=LONGEST) => Ok((quota.count(), period)),
        _ => Err(BuildError::WindowTooLong(quota)),
    }
}

/// The bits that a count up to `limit` takes.
pub(super) fn bits_of(limit: u64) -> u32 {
    u64::BITS - limit.leading_zeros()
}

fn points(period: u64, grain: u8) -> u64 {
    ((period - 1) >> grain) + 1
}

/// The finest grain with which the guaranteed uptime can be numbered, beside counts of so many bits.
fn finest(period: u64, anchor: Anchor, bits: u32) -> Option<u8> {
    // From the first instant, less than a period after 0, to where the last charge of that time is forgotten.
    let periods = u128::from(UPTIME).div_ceil(u128::from(period)) + 3;
    let numbers = u128::from(PAYLOAD_MAX.checked_shr(bits).unwrap_or(0));
    let fits = |&grain: &u8| periods * u128::from(points(period, grain)) <= numbers;
    match anchor {
        Anchor::Aligned => Some(ALIGNED).filter(fits),
        Anchor::FirstRequest => {
            (0..ALIGNED).take_while(|&grain| grain == 0 || 1024 << grain <= u128::from(period)).find(fits)
        }
    }
}

#[cfg(all(test, not(tollgate_loom)))]
pub(super) mod tests;
