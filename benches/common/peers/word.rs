//! A bucket in one word, as plainly as it can be written: GCRA in nanoseconds, moved by compare-and-swap.

use crate::common::limits::Limits;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What every word is checked against. The clock is governor's.
pub struct Rule {
    clock: quanta::Clock,
    period: u64,
    tolerance: u64,
}

impl Rule {
    pub fn new(limits: Limits) -> Self {
        let period = limits.period.as_nanos() as u64;
        Self { clock: quanta::Clock::new(), period, tolerance: period * (u64::from(limits.burst) - 1) }
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.delta_as_nanos(0, self.clock.raw())
    }

    /// Takes a token. The word says when the bucket is full again, 0 being long ago.
    #[inline]
    pub fn take(&self, word: &AtomicU64) -> bool {
        let now = self.now();
        let mut full_at = word.load(Relaxed);
        while full_at <= now.saturating_add(self.tolerance) {
            let next = full_at.max(now) + self.period;
            match word.compare_exchange_weak(full_at, next, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(other) => full_at = other,
            }
        }
        false
    }

    /// Whether words are worth keeping, as of now.
    pub fn is_live(&self) -> impl Fn(&AtomicU64) -> bool {
        let now = self.now();
        move |word| word.load(Relaxed) > now
    }
}
