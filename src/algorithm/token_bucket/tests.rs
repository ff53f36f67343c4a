//! The bucket against an exact one.
//!
//! [`Exact`] is the bucket of the textbooks in numbers of any size, with nothing rounded anywhere. [`Pair`] takes it
//! and the bucket under test through the same calls. It moves each call of the exact one to the instant at which that
//! has produced what V says: less than a unit away, and not at all in the exact class. Every answer must be the same.

use super::super::testing::{Call, Event, YEAR, any_call, any_give_back, any_size, any_start, any_take, calls};
use super::*;
use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseResult;
use std::time::Duration;

/// The textbook bucket: a level, and the instant at which it was that.
///
/// Instants are counted in ticks and amounts in parts, both so fine that all is whole: one tick produces one part.
struct Exact {
    capacity: BigInt,
    token: BigInt,
    level: BigInt,
    at: BigInt,
}

impl Exact {
    fn level(&self, at: &BigInt) -> BigInt {
        (&self.level + (at - &self.at)).min(self.capacity.clone())
    }

    fn missing(&self, at: &BigInt) -> BigInt {
        &self.capacity - self.level(at)
    }

    fn has(&self, at: &BigInt, cost: u64) -> bool {
        self.level(at) >= &self.token * cost
    }

    fn remaining(&self, at: &BigInt) -> BigInt {
        self.level(at).max(0.into()) / &self.token
    }

    fn take(&mut self, at: &BigInt, cost: u64) {
        (self.level, self.at) = (self.level(at) - &self.token * cost, at.clone());
    }

    /// Puts in as much as there is room for, and returns how much that was.
    fn put(&mut self, at: &BigInt, parts: BigInt) -> BigInt {
        let parts = parts.min(self.missing(at)).max(0.into());
        if parts > BigInt::ZERO {
            (self.level, self.at) = (self.level(at) + &parts, at.clone());
        }
        parts
    }
}

/// The same quota in both buckets.
struct Pair {
    bucket: TokenBucket,
    word: u64,
    exact: Exact,
    /// Ticks in a nanosecond.
    nanosecond: BigInt,
    /// Parts in a unit.
    unit: BigInt,
    /// Whether a token has as many units as the period, in lowest terms, has nanoseconds.
    in_exact_class: bool,
    /// V(t) less the capacity is 1 + (t * multiplier >> shift).
    multiplier: BigInt,
    shift: u32,
    charges: Vec<Charge>,
}

/// A charge that was admitted.
#[derive(Clone, Debug)]
struct Charge {
    at: u64,
    cost: u64,
    /// What of it was not given back, in parts.
    kept: BigInt,
    open: bool,
}

impl Pair {
    fn new(quota: Quota) -> Self {
        let bucket = TokenBucket::new(quota).unwrap();
        let period = quota.period().as_nanos() as u64;
        let (nanosecond, unit) = (BigInt::from(quota.count()) * bucket.scale.unit, BigInt::from(period));
        // The rate in units, as finely as 64 bits can say it, rounded up.
        let multiplier = |shift: &u32| div_ceil(&nanosecond << *shift, &unit);
        let shift = (0..=64).rev().find(|shift| multiplier(shift) < BigInt::from(1) << 64).unwrap();
        let token = &unit * bucket.scale.unit;
        Self {
            bucket,
            word: 0,
            exact: Exact {
                capacity: &token * quota.capacity(),
                level: &token * quota.capacity(),
                token,
                at: BigInt::ZERO,
            },
            in_exact_class: bucket.scale.unit == period / gcd(quota.count(), period),
            multiplier: multiplier(&shift),
            shift,
            nanosecond,
            unit,
            charges: Vec::new(),
        }
    }

    /// When the exact bucket has produced what V says at `now`.
    fn moved(&self, now: u64) -> BigInt {
        ((&self.multiplier * now) >> self.shift) * &self.unit
    }

    /// By how many parts the two may differ: a unit, or nothing.
    fn tolerance(&self) -> BigInt {
        if self.in_exact_class { BigInt::ZERO } else { self.unit.clone() }
    }

    /// What can be asked without changing anything.
    fn agree(&self, now: u64) -> TestCaseResult {
        let Self { bucket, word, exact, .. } = self;
        let (at, real) = (self.moved(now), &self.nanosecond * now);
        prop_assert!(at == real || (&at - &real).magnitude() < self.tolerance().magnitude(), "moved too far");

        let remaining = bucket.remaining(*word, now);
        prop_assert_eq!(BigInt::from(remaining), exact.remaining(&at));
        prop_assert!(remaining == 0 || bucket.charge(*word, now, remaining).is_some());
        prop_assert!(remaining == bucket.limit() || bucket.charge(*word, now, remaining + 1).is_none());

        prop_assert_eq!(bucket.is_idle(*word, now), exact.missing(&at) == BigInt::ZERO);
        let reset_after = bucket.reset_after(*word, now);
        self.is_first(now, now + reset_after, |at| exact.missing(at) == BigInt::ZERO)?;
        if self.in_exact_class {
            prop_assert_eq!(BigInt::from(reset_after), div_ceil(exact.missing(&at), &self.nanosecond));
        }
        Ok(())
    }

    /// Whether `then` is the first nanosecond from `now` on at which something holds that comes to stay.
    fn is_first(&self, now: u64, then: u64, holds: impl Fn(&BigInt) -> bool) -> TestCaseResult {
        prop_assert!(holds(&self.moved(then)), "not yet at {}", then);
        prop_assert!(then == now || !holds(&self.moved(then - 1)), "already before {}", then);
        Ok(())
    }

    /// Charges both. Returns how long to wait if they refuse.
    fn take(&mut self, now: u64, cost: u64) -> Result<Option<u64>, TestCaseError> {
        let (bucket, word, at) = (self.bucket, self.word, self.moved(now));
        let wait = bucket.retry_after(word, now, cost);
        let Some(charged) = bucket.charge(word, now, cost) else {
            prop_assert!(!self.exact.has(&at, cost), "refused what the exact bucket has");
            let Some(wait) = wait else { return Err(TestCaseError::fail("a wait without an end")) };
            let then = now + wait;
            prop_assert!(wait > 0);
            prop_assert!(bucket.charge(word, then, cost).is_some());
            prop_assert!(bucket.charge(word, then - 1, cost).is_none());
            self.is_first(now, then, |at| self.exact.has(at, cost))?;
            if self.in_exact_class {
                let lacking = &self.exact.token * cost - self.exact.level(&at);
                prop_assert_eq!(BigInt::from(wait), div_ceil(lacking, &self.nanosecond));
            }
            return Ok(Some(wait));
        };
        prop_assert!(self.exact.has(&at, cost), "admitted what the exact bucket lacks");
        prop_assert_eq!(wait, Some(0));
        self.exact.take(&at, cost);
        self.charges.push(Charge { at: now, cost, kept: &self.exact.token * cost, open: true });
        self.write(charged)?;
        Ok(None)
    }

    /// Gives a charge back to both, once.
    fn give_back(&mut self, now: u64, charge: Index) -> TestCaseResult {
        if self.charges.is_empty() {
            return Ok(());
        }
        let at = self.moved(now);
        let charge = charge.index(self.charges.len());
        let Charge { at: taken, cost, open, .. } = self.charges[charge];
        if !open {
            return Ok(());
        }
        let refilled = (&at - self.moved(taken)).max(0.into());
        let returned = self.exact.put(&at, &self.exact.token * cost - refilled);
        self.charges[charge].kept -= &returned;
        self.charges[charge].open = false;
        let given = self.bucket.give_back(self.word, now, cost, Charged { payload: 0, now: taken });
        self.put(given, &returned)
    }

    fn refund(&mut self, now: u64, tokens: u64) -> TestCaseResult {
        let at = self.moved(now);
        let returned = self.exact.put(&at, &self.exact.token * tokens);
        self.put(self.bucket.refund(self.word, now, tokens), &returned)
    }

    /// Checks and writes what a return of tokens came to.
    fn put(&mut self, returned: Option<(u64, u64)>, parts: &BigInt) -> TestCaseResult {
        let tokens = returned.map_or(0, |(_, tokens)| tokens);
        prop_assert_eq!(BigInt::from(tokens), div_ceil(parts.clone(), &self.exact.token));
        returned.map_or(Ok(()), |(word, _)| self.write(word))
    }

    fn reset(&mut self, now: u64) -> TestCaseResult {
        let at = self.moved(now);
        let missing = self.exact.missing(&at);
        self.exact.put(&at, missing.clone());
        let reset = self.bucket.reset(self.word, now);
        prop_assert_eq!(reset.is_some(), missing > BigInt::ZERO);
        reset.map_or(Ok(()), |word| self.write(word))
    }

    fn write(&mut self, word: u64) -> TestCaseResult {
        prop_assert!((1..=PAYLOAD_MAX).contains(&word), "payload {}", word);
        self.word = word;
        Ok(())
    }

    fn call(&mut self, now: u64, call: &Call) -> Result<Option<u64>, TestCaseError> {
        let limit = self.bucket.limit();
        match call {
            Call::Take(amount) => return self.take(now, amount.of(limit)),
            Call::GiveBack(charge) => self.give_back(now, *charge)?,
            Call::Refund(amount) => self.refund(now, amount.of(limit))?,
            Call::RefundTooMuch(tokens) => self.refund(now, *tokens)?,
            Call::Reset => self.reset(now)?,
        }
        Ok(None)
    }
}

fn div_ceil(numerator: BigInt, denominator: &BigInt) -> BigInt {
    (numerator + denominator - 1) / denominator
}

/// Quotas that build, from one a century to 4 a nanosecond, with bursts that take up to a century.
fn any_quota() -> impl Strategy<Value = Quota> {
    const KNOWN: [&str; 16] = [
        "1/365d",
        "1/365d;burst=120",
        "1/36500d",
        "1/d",
        "700/min",
        "7/s",
        "10/13s;burst=1",
        "1000/min;burst=1001",
        "600000000/s",
        "1000000001/s",
        "48/10ns;burst=1000000",
        "1/3ns",
        "1/ns;burst=1000000000000000000",
        "4/ns",
        "47/10ns;burst=1000000",
        // A ratio that rounds up to a power of two.
        "6148914691236517207/9223372036854775811ns;burst=350000000000000000",
    ];
    let random = (any_size(), any_size(), any_size()).prop_filter_map("does not build", |(count, period, burst)| {
        let period = period.max(1);
        let most = u128::from(count) * u128::from(100 * YEAR) / u128::from(period);
        let burst = 1 + burst % u64::try_from(most).unwrap_or(u64::MAX).max(1);
        let quota = Quota::per(count, Duration::from_nanos(period)).burst(burst);
        TokenBucket::new(quota).is_ok().then_some(quota)
    });
    prop_oneof![1 => select(KNOWN.to_vec()).prop_map(|text| text.parse().unwrap()), 2 => random]
}

proptest! {
    #[test]
    fn every_answer_is_that_of_the_exact_bucket_less_than_a_unit_away(
        quota in any_quota(), start in any_start(), events in calls(any_call()),
    ) {
        let mut pair = Pair::new(quota);
        let (mut latest, mut wait) = (start, 0);
        for Event { step, late_by, call } in events {
            latest = latest.saturating_add(step.nanos(&pair.bucket, pair.word, latest, wait)).min(UPTIME);
            let now = latest.saturating_sub(late_by);
            pair.agree(now)?;
            wait = pair.call(now, &call)?.unwrap_or(wait);
            pair.agree(now)?;
        }
    }

    /// What was given back does not count. Charges may come with any old reading of the clock: that mints nothing.
    #[test]
    fn no_stretch_of_time_admits_more_than_the_capacity_and_what_it_produces(
        quota in any_quota(),
        start in any_start(),
        events in calls(prop_oneof![4 => any_take(), 1 => any_give_back()]),
    ) {
        let mut pair = Pair::new(quota);
        let (mut latest, mut wait) = (start, 0);
        for Event { step, late_by, call } in events {
            latest = latest.saturating_add(step.nanos(&pair.bucket, pair.word, latest, wait)).min(UPTIME);
            let now = if let Call::Take(_) = call { latest.saturating_sub(late_by) } else { latest };
            wait = pair.call(now, &call)?.unwrap_or(wait);
        }
        pair.charges.sort_by_key(|charge| charge.at);
        for (i, first) in pair.charges.iter().enumerate() {
            let mut admitted = BigInt::ZERO;
            for last in &pair.charges[i..] {
                admitted += &last.kept;
                let produced = &pair.nanosecond * (last.at - first.at);
                // One unit for V being whole, and half a one for the multiplier, which is rounded up.
                let bound = &pair.exact.capacity + produced + pair.tolerance() * 3 / 2;
                prop_assert!(admitted <= bound, "{} of {} from {} to {}", admitted, bound, first.at, last.at);
            }
        }
    }

    #[test]
    fn dropping_an_idle_client_changes_no_answer(
        quota in any_quota(), start in any_start(), events in calls(any_call()),
    ) {
        let (mut kept, mut dropped) = (Pair::new(quota), Pair::new(quota));
        let (mut now, mut wait) = (start, 0);
        for Event { step, call, .. } in events {
            now = now.saturating_add(step.nanos(&kept.bucket, kept.word, now, wait)).min(UPTIME);
            if kept.bucket.is_idle(kept.word, now) {
                dropped.word = 0;
            }
            dropped.agree(now)?;
            let answers = (kept.call(now, &call)?, dropped.call(now, &call)?);
            prop_assert_eq!(answers.0, answers.1);
            dropped.agree(now)?;
            wait = answers.0.unwrap_or(wait);
        }
    }

    /// However long it runs: the time may be anything, up to the last nanosecond that there is.
    #[test]
    fn past_the_horizon_nothing_wraps_and_nothing_refills(
        quota in any_quota(), word in any_size(), mut times in vec((any_size(), any_call()), 1..40),
    ) {
        let bucket = TokenBucket::new(quota).unwrap();
        prop_assert!(bucket.horizon > UPTIME);
        times.sort_by_key(|(now, _)| *now);
        // A word that some calls before may have left.
        let first = times[0].0;
        let mut word = word.clamp(1, bucket.full(first) + bucket.capacity);
        for (now, call) in &times {
            let (now, limit) = (*now, bucket.limit());
            let before = word;
            match call {
                Call::Take(amount) => word = bucket.charge(word, now, amount.of(limit)).unwrap_or(word),
                Call::GiveBack(_) => word = bucket.give_back(word, now, limit, Charged { payload: 0, now: first }).map_or(word, |(word, _)| word),
                Call::Refund(_) => word = bucket.refund(word, now, 1).map_or(word, |(word, _)| word),
                Call::RefundTooMuch(tokens) => word = bucket.refund(word, now, *tokens).map_or(word, |(word, _)| word),
                Call::Reset => word = bucket.reset(word, now).unwrap_or(word),
            }
            prop_assert!((1..=PAYLOAD_MAX).contains(&word), "{} became {}", before, word);
            prop_assert!(bucket.remaining(word, now) <= limit);
            for cost in [1, limit] {
                let wait = bucket.retry_after(word, now, cost);
                let charged = |now| bucket.charge(word, now, cost).is_some();
                match wait {
                    Some(wait) => prop_assert!(charged(now + wait) && (wait == 0 || !charged(now + wait - 1))),
                    None => prop_assert!(!charged(u64::MAX)),
                }
            }
            let idle_at = now.checked_add(bucket.reset_after(word, now)).unwrap();
            prop_assert!(idle_at == u64::MAX || bucket.is_idle(word, idle_at));
        }
        // What is left can be taken, once.
        let end = bucket.horizon;
        if let left @ 1.. = bucket.remaining(word, end) {
            word = bucket.charge(word, end, left).unwrap();
        }
        for now in [end, end + 1, u64::MAX] {
            prop_assert_eq!(bucket.charge(word, now, 1), None);
            prop_assert_eq!(bucket.retry_after(word, now, 1), None);
        }
    }

    #[test]
    fn every_quota_is_a_bucket_or_a_typed_error(
        count in prop_oneof![any_size(), any::<u64>()],
        period in prop_oneof![any_size().prop_map(Duration::from_nanos), any::<Duration>(), Just(Duration::MAX)],
        burst in prop_oneof![any_size(), any::<u64>()],
    ) {
        let quota = Quota::per(count, period).burst(burst);
        let (c, p, b) = (BigInt::from(count), BigInt::from(period.as_nanos()), BigInt::from(burst));
        // What 30 years and two refills take of the word, times the period.
        let span = |unit: &BigInt| (&c * UPTIME + &b * &p * 2) * unit;
        let word = BigInt::from(PAYLOAD_MAX - 3) * &p;
        match TokenBucket::new(quota) {
            Ok(bucket) => {
                let period = period.as_nanos() as u64;
                prop_assert!(&c * bucket.scale.unit * 2 >= p, "a unit of {:?} is over two nanoseconds", bucket);
                prop_assert!(span(&bucket.scale.unit.into()) <= word, "{:?} does not fit the word", bucket);
                let finest = bucket.scale.unit == period / gcd(count, period);
                prop_assert!(finest || span(&(bucket.scale.unit + 1).into()) > word, "{:?} could be finer", bucket);
            }
            Err(BuildError::Quota(_)) => prop_assert!(count == 0 || period.is_zero() || burst == 0),
            Err(BuildError::PeriodTooLong(_)) => prop_assert!(period > Duration::from_nanos(u64::MAX)),
            Err(BuildError::RateTooHigh(_)) => prop_assert!(c * 10 > p * 48),
            Err(BuildError::RefillTooLong(_) | BuildError::BurstTooLarge(_)) => {
                let coarsest = div_ceil(p.clone(), &(&c * 2));
                prop_assert!(span(&coarsest) > word, "{} units to a token would fit", coarsest);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

fn build(text: &str) -> Result<TokenBucket, BuildError> {
    TokenBucket::new(text.parse().unwrap())
}

#[test]
fn a_period_is_at_most_584_years() {
    let period = |nanos| TokenBucket::new(Quota::per(1000, Duration::from_nanos_u128(nanos)).burst(1));
    assert!(period(u128::from(584 * YEAR)).is_ok());
    assert!(period(u128::from(u64::MAX)).is_ok());
    assert!(matches!(period(u128::from(u64::MAX) + 1), Err(BuildError::PeriodTooLong(_))));
    assert!(matches!(period(585 * u128::from(YEAR)), Err(BuildError::PeriodTooLong(_))));
}

#[test]
fn a_rate_is_at_most_about_4_8_tokens_a_nanosecond() {
    assert!(build("48/10ns").is_ok());
    assert!(matches!(build("49/10ns"), Err(BuildError::RateTooHigh(_))));
    assert!(matches!(build("18446744073709551615/ns"), Err(BuildError::RateTooHigh(_))));
}

#[test]
fn an_empty_bucket_fills_in_at_most_about_131_years() {
    for rate in ["1/365d", "10/3650d"] {
        let burst = |tokens| build(&format!("{rate};burst={tokens}"));
        assert!(burst(131).is_ok());
        assert!(matches!(burst(132), Err(BuildError::RefillTooLong(_))));
        assert!(matches!(burst(u64::MAX), Err(BuildError::RefillTooLong(_))));
    }
}

/// Rates that need whole units of a nanosecond or two run out of them sooner.
#[test]
fn a_bucket_that_fills_in_less_is_not_called_too_slow() {
    for (quota, years) in [("1/3ns;burst=1000000000000000000", 96), ("2/5ns;burst=1000000000000000000", 80)] {
        let error = build(quota).unwrap_err();
        assert!(matches!(error, BuildError::BurstTooLarge(_)), "{years} years, but {error}");
    }
}

#[test]
fn a_burst_must_fit_the_word_beside_the_rate() {
    assert!(build("4/ns;burst=412000000000000000").is_ok());
    assert!(matches!(build("4/ns;burst=413000000000000000"), Err(BuildError::BurstTooLarge(_))));
    assert!(matches!(build("4/ns;burst=4000000000000000000"), Err(BuildError::BurstTooLarge(_))));
}

#[test]
fn up_to_4_tokens_in_lowest_terms_are_in_the_exact_class() {
    let is_exact = |text: &str| Pair::new(text.parse().unwrap()).in_exact_class;
    assert!(["1/s", "10/s", "1000/h", "3/7ns", "4/ns", "3/365d"].into_iter().all(is_exact));
    assert!(!["7/s", "700/min", "11/13s", "1000000001/s"].into_iter().any(is_exact));
}
