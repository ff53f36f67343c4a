//! The token bucket, with tokens and time in one number.
//!
//! A bucket holds up to `capacity` tokens, starts full, and gains tokens at a steady rate. The textbook state is a pair,
//! *(tokens, time of the last update)*. Here both live in their difference. Let V(t), the **token clock**, be the
//! fixed-point number of tokens that the rate has produced by t since the limiter was built, plus the capacity. A bucket
//! with level L at time t is stored as V(t) - L. As time passes V grows and so does the level, with nothing rewritten:
//!
//! ```text
//! level(now)     = min(capacity, V(now) - word)
//! take n at now:   word' = max(word, V(now) - capacity) + n, allowed iff word' <= V(now)
//! full at now      iff word <= V(now) - capacity
//! ```
//!
//! # Units
//!
//! Amounts are counted in *units*, a whole number of them to a token, and V is computed from the time since the limiter
//! was built with one multiplication and one shift. It is never accumulated, so no error ever builds up.
//!
//! Let the rate be c tokens per p nanoseconds in lowest terms. With p units to a token, V grows by exactly c units a
//! nanosecond and is a whole number at each of them: every answer equals that of the exact, rational bucket. This is the
//! **exact class**. It needs the units of 30 years and of two refills to fit the word. Otherwise a token gets as many
//! units as do fit, V is rounded to a whole unit, and every answer is the exact bucket's at an instant less than one unit
//! away, a unit lasting at most two nanoseconds.
//!
//! # Bounds
//!
//! Over any stretch of time d a bucket admits at most capacity + rate x d, and one and a half units where it is not exact:
//! one for rounding V down, and half a one for the multiplier. Up to 30 years of uptime every wait that is answered comes
//! true. Past the end of the word V stands still: what is left in a bucket can be taken, nothing refills any more, and
//! waits have no answer. Nothing wraps.

use super::{Algorithm, Answers, Any, Charged, PAYLOAD_MAX, Snapshot, UPTIME, sealed::Sealed};
use crate::error::BuildError;
use crate::quota::Quota;

/// The token bucket: a burst up to the capacity, then a steady rate.
///
/// Choose it where short bursts are fine and the long-run rate matters. Over any stretch of time it admits at most the
/// capacity plus what the rate produces in that time. Exact for rates whose units fit the word, otherwise within two
/// nanoseconds of exact, however long it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    scale: Scale,
    /// Capacity in units.
    capacity: u64,
    /// The last nanosecond at which V fits a payload; V stands still from there.
    horizon: u64,
}

/// What a bucket's numbers mean: all that a decision has to carry along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    /// Capacity in tokens.
    limit: u64,
    /// Units to a token.
    unit: u64,
    /// Units that `t` nanoseconds produce: `t * multiplier >> shift`.
    multiplier: u64,
    shift: u8,
}

impl TokenBucket {
    /// The bucket of a quota.
    ///
    /// # Errors
    ///
    /// - [`BuildError::Quota`]: the count, the period or the burst is zero.
    /// - [`BuildError::PeriodTooLong`]: the period is over `u64::MAX` nanoseconds (584 years).
    /// - [`BuildError::RateTooHigh`]: more than about 4.8 tokens a nanosecond.
    /// - [`BuildError::RefillTooLong`]: an empty bucket takes more than about 131 years to fill.
    /// - [`BuildError::BurstTooLarge`]: rate and burst each fit the word, but not together.
    pub(crate) fn new(quota: Quota) -> Result<Self, BuildError> {
        quota.validate()?;
        let limit = quota.capacity();
        let period = u64::try_from(quota.period().as_nanos()).map_err(|_| BuildError::PeriodTooLong(quota))?;
        let divisor = gcd(quota.count(), period);
        let (c, p) = (u128::from(quota.count() / divisor), u128::from(period / divisor));

        // V at the end of the guaranteed uptime and of one more refill is 1 + unit * (c * UPTIME / p + 2 * burst). The
        // space left above covers the rounding of the multiplier.
        let space = u128::from(PAYLOAD_MAX) - 3;
        let growth = c * u128::from(UPTIME);
        if growth > space * p {
            return Err(BuildError::RateTooHigh(quota));
        }
        let span = (2 * u128::from(limit)).checked_mul(p).and_then(|refills| refills.checked_add(growth));
        let unit = span.map_or(0, |span| space * p / span).min(p);
        if 2 * unit * c < p {
            // Whether 30 years and two refills fit with units of two nanoseconds, if those could be broken.
            let too_long = span.is_none_or(|span| span > 2 * space * c);
            return Err(if too_long { BuildError::RefillTooLong(quota) } else { BuildError::BurstTooLarge(quota) });
        }

        let (multiplier, shift) = fixed_point(unit * c, p);
        Ok(Scale { limit, unit: unit as u64, multiplier, shift }.into())
    }

    /// The bucket that a decision carries.
    pub(super) fn of_parts(limit: u64, unit: u64, multiplier: u64, shift: u8) -> Self {
        Scale { limit, unit, multiplier, shift }.into()
    }

    /// The bucket of a quota, for a model.
    #[cfg(tollgate_loom)]
    pub fn of(quota: Quota) -> Self {
        Self::new(quota).expect("a quota that fits")
    }

    /// V(now) - capacity: the word of a bucket that is just full. At least 1, so that no transition writes 0.
    #[inline]
    fn full(&self, now: u64) -> u64 {
        if now > self.horizon {
            return self.full_at_last();
        }
        // The shift is by 64, less what the instant is raised by beforehand: below the horizon that fits, since V does.
        let raised = now << (64 - self.scale.shift);
        1 + ((u128::from(raised) * u128::from(self.scale.multiplier)) >> 64) as u64
    }

    /// The same from the horizon on. Apart, so that before it nothing has to wait for a comparison.
    #[cold]
    fn full_at_last(&self) -> u64 {
        self.full(self.horizon)
    }

    /// The first instant at which V - capacity reaches `word`.
    fn full_at(&self, word: u64) -> Option<u64> {
        let units = u128::from(word.saturating_sub(1));
        let at = (units << self.scale.shift).div_ceil(u128::from(self.scale.multiplier));
        u64::try_from(at).ok().filter(|&at| at <= self.horizon)
    }

    /// Lowers `word` by up to `units`, not past full.
    fn lower(&self, word: u64, now: u64, units: u64) -> Option<(u64, u64)> {
        let full = self.full(now);
        let taken = word.saturating_sub(full).min(units);
        (taken > 0).then(|| (word - taken, taken.div_ceil(self.scale.unit)))
    }
}

impl From<Scale> for TokenBucket {
    fn from(scale: Scale) -> Self {
        let capacity = scale.limit * scale.unit;
        let last = PAYLOAD_MAX - 1 - capacity;
        let horizon = ((u128::from(last + 1) << scale.shift) - 1) / u128::from(scale.multiplier);
        Self { scale, capacity, horizon: u64::try_from(horizon).unwrap_or(u64::MAX) }
    }
}

impl Sealed for TokenBucket {}

impl Answers for TokenBucket {
    #[inline]
    fn limit(&self) -> u64 {
        self.scale.limit
    }

    fn remaining(&self, word: u64, now: u64) -> u64 {
        let full = self.full(now);
        (full + self.capacity).saturating_sub(word.max(full)) / self.scale.unit
    }

    fn retry_after(&self, word: u64, now: u64, cost: u64) -> Option<u64> {
        if cost > self.scale.limit {
            return None;
        }
        // Allowed once V reaches word + cost, so once V - capacity reaches that less the capacity.
        let at = self.full_at((word + cost * self.scale.unit).saturating_sub(self.capacity))?;
        Some(at.saturating_sub(now))
    }
}

impl Algorithm for TokenBucket {
    #[inline(always)]
    fn charge(&self, word: u64, now: u64, cost: u64) -> Option<u64> {
        self.charges(now, cost)(word)
    }

    #[inline(always)]
    fn charges(&self, now: u64, cost: u64) -> impl Fn(u64) -> Option<u64> {
        debug_assert!((1..=self.scale.limit).contains(&cost));
        let full = self.full(now);
        let (units, most) = (cost * self.scale.unit, full + self.capacity);
        move |word| Some(word.max(full) + units).filter(|&charged| charged <= most)
    }

    /// What has refilled since the charge is not returned: without the charge, the refill would have found less room.
    fn give_back(&self, word: u64, now: u64, cost: u64, charged: Charged) -> Option<(u64, u64)> {
        let refilled = self.full(now).saturating_sub(self.full(charged.now));
        self.lower(word, now, (cost * self.scale.unit).saturating_sub(refilled))
    }

    fn refund(&self, word: u64, now: u64, tokens: u64) -> Option<(u64, u64)> {
        self.lower(word, now, tokens.saturating_mul(self.scale.unit))
    }

    fn reset(&self, word: u64, now: u64) -> Option<u64> {
        let full = self.full(now);
        (word > full).then_some(full)
    }

    #[inline]
    fn is_idle(&self, word: u64, now: u64) -> bool {
        word <= self.full(now)
    }

    fn idle_at(&self, word: u64) -> u64 {
        self.full_at(word).unwrap_or(u64::MAX)
    }

    fn longest_idle(&self) -> u64 {
        self.idle_at(1 + self.capacity)
    }

    #[inline]
    fn snapshot(&self, word: u64, now: u64, _: u64) -> Snapshot {
        let Scale { limit, unit, multiplier, shift } = self.scale;
        Snapshot { answers: Any::TokenBucket { limit, unit, multiplier, shift }, payload: word, now }
    }
}

/// `numerator / denominator`, which lies in [1/2, 5), as `multiplier / 2^shift` with all 64 bits of the multiplier in
/// use, rounded up. The product with an instant is then too large by less than half a unit as long as it fits a payload,
/// and exact where the ratio is whole.
fn fixed_point(numerator: u128, denominator: u128) -> (u64, u8) {
    let whole = (numerator / denominator) as u64;
    let shift = whole.leading_zeros() as u8;
    match u64::try_from((numerator << shift).div_ceil(denominator)) {
        Ok(multiplier) => (multiplier, shift),
        Err(_) => (1 << 63, shift - 1),
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests;
