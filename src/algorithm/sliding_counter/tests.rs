//! The sliding counter against an estimate in rational numbers.

use super::super::testing::{Oracle, Pair, any_call, any_give_back, any_size, any_start, any_take, calls};
use super::super::testing::{Receipt, survives_the_end_of_time};
use super::super::windows::tests::{Grid, any_plan};
use super::*;
use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Two windows that follow each other, and an estimate from both.
struct Exact {
    grid: Grid,
    limit: BigInt,
    strict: bool,
    windows: Two,
}

/// The later one of two windows, and what was taken in both.
#[derive(Clone, Default)]
struct Two {
    /// 0 before anything was taken.
    start: BigInt,
    previous: BigInt,
    current: BigInt,
}

impl Exact {
    /// The windows as a call at `now` sees them, and the time left of the later one. Who reads an older clock than others
    /// did is with them. `None` if nothing counts.
    fn at(&self, now: u64) -> Option<(Two, BigInt)> {
        let period = &self.grid.period;
        let mut windows = self.windows.clone();
        let instant = self.grid.instant(now).max(windows.start.clone());
        while instant >= &windows.start + period && windows.current > BigInt::ZERO {
            windows = Two { start: windows.start + period, previous: windows.current, current: BigInt::ZERO };
        }
        let left = &windows.start + period - instant;
        let used = &windows.previous + &windows.current > BigInt::ZERO;
        (used && left > BigInt::ZERO).then_some((windows, left))
    }

    /// What counts as used, before the rule rounds it: a number of calls times the period.
    fn estimate(&self, now: u64) -> BigInt {
        self.at(now)
            .map_or(BigInt::ZERO, |(windows, left)| windows.previous * left + windows.current * &self.grid.period)
    }

    /// The estimate in whole calls, by the rule.
    fn used(&self, now: u64) -> BigInt {
        let up = if self.strict { &self.grid.period - 1 } else { BigInt::ZERO };
        (self.estimate(now) + up) / &self.grid.period
    }
}

impl Oracle for Exact {
    /// When the window started.
    type Charge = BigInt;

    fn admits(&self, now: u64, cost: u64) -> bool {
        let period = &self.grid.period;
        match self.strict {
            true => self.estimate(now) + period * cost <= &self.limit * period,
            false => self.estimate(now) / period + cost <= self.limit,
        }
    }

    fn remaining(&self, now: u64) -> u64 {
        u64::try_from((&self.limit - self.used(now)).max(0.into())).unwrap()
    }

    fn take(&mut self, now: u64, cost: u64) -> BigInt {
        self.windows = match self.at(now) {
            Some((windows, _)) => windows,
            None => {
                let point = self.grid.point(&self.grid.instant(now));
                Two { start: point.max(self.windows.start.clone()), ..Two::default() }
            }
        };
        self.windows.current += cost;
        self.windows.start.clone()
    }

    fn give_back(&mut self, now: u64, cost: u64, start: &BigInt) -> u64 {
        match self.at(now) {
            Some((mut windows, _)) if windows.start == *start => {
                let returned = windows.current.clone().min(cost.into());
                if returned > BigInt::ZERO {
                    windows.current -= &returned;
                    self.windows = windows;
                }
                u64::try_from(returned).unwrap()
            }
            _ => 0,
        }
    }

    /// From the current window first; then the previous one is lowered no further than it takes.
    fn refund(&mut self, now: u64, tokens: u64) -> u64 {
        let Some((mut windows, _)) = self.at(now) else { return 0 };
        let before = self.used(now);
        let returned = before.clone().min(tokens.into());
        if returned == BigInt::ZERO {
            return 0;
        }
        let current = windows.current.clone().min(returned.clone());
        windows.current -= current;
        self.windows = windows.clone();
        let wanted = before - &returned;
        // The most of the previous window with which no more is used than that.
        let (mut low, mut high) = (BigInt::ZERO, windows.previous);
        while low < high {
            let middle: BigInt = (&low + &high + 1) / 2;
            self.windows.previous = middle.clone();
            match self.used(now) <= wanted {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        self.windows.previous = low;
        u64::try_from(returned).unwrap()
    }

    fn reset(&mut self, now: u64) -> bool {
        if self.used(now) == BigInt::ZERO {
            return false;
        }
        if let Some((windows, _)) = self.at(now) {
            self.windows = Two { start: windows.start, ..Two::default() };
        }
        true
    }

    fn is_idle(&self, now: u64) -> bool {
        let Two { start, previous, current } = &self.windows;
        let windows = match (previous > &BigInt::ZERO, current > &BigInt::ZERO) {
            (_, true) => 2,
            (true, false) => 1,
            (false, false) => 0,
        };
        self.grid.instant(now) >= start + &self.grid.period * windows
    }
}

fn pair(plan: Plan) -> Pair<SlidingCounter, Exact> {
    let grid = Grid::new(plan, 2).unwrap();
    let exact = Exact { grid, limit: plan.quota.count().into(), strict: plan.strict, windows: Two::default() };
    Pair::new(SlidingCounter::new(plan).unwrap(), exact)
}

proptest! {
    #[test]
    fn every_answer_is_that_of_the_rational_estimate(
        plan in any_plan(2), start in any_start(), events in calls(any_call()),
    ) {
        pair(plan).run(start, &events)?;
    }

    #[test]
    fn dropping_an_idle_client_changes_no_answer(
        plan in any_plan(2), start in any_start(), events in calls(any_call()),
    ) {
        pair(plan).run_beside(&mut pair(plan), start, &events)?;
    }

    /// What was given back does not count. Charges and receipts may come with any old reading of the clock.
    #[test]
    fn no_window_admits_more_than_the_limit_and_no_stretch_of_a_period_twice_that(
        plan in any_plan(2), start in any_start(), events in calls(prop_oneof![4 => any_take(), 1 => any_give_back()]),
    ) {
        let mut pair = pair(plan);
        pair.run(start, &events)?;
        let (counter, limit) = (pair.client.algorithm, u128::from(plan.quota.count()));
        let windows = counter.windows;
        let mut by_window: BTreeMap<u64, u128> = BTreeMap::new();
        for Receipt { now, latest, kept, charged, .. } in &pair.receipts {
            let start = windows.start(charged.payload >> (2 * counter.bits));
            prop_assert!(start <= windows.instant(*latest), "a window that has not begun");
            prop_assert!(start + windows.period > windows.instant(*now), "a window that is over");
            *by_window.entry(start).or_default() += u128::from(*kept);
        }
        by_window.retain(|_, kept| *kept > 0);
        let counts: Vec<_> = by_window.into_iter().collect();
        prop_assert!(counts.iter().all(|(_, kept)| *kept <= limit));
        prop_assert!(counts.is_sorted_by(|(one, _), (next, _)| next - one >= windows.period));

        let calls: Vec<_> = pair.receipts.iter().filter(|call| call.now == call.latest).collect();
        for (i, first) in calls.iter().enumerate() {
            let in_a_period = calls[i..].iter().take_while(|last| last.now - first.now < windows.period);
            prop_assert!(in_a_period.map(|last| u128::from(last.kept)).sum::<u128>() <= 2 * limit);
        }
    }

    /// The strict rule refuses whatever the other one does.
    #[test]
    fn the_strict_rule_admits_no_more_than_the_other(
        plan in any_plan(2), counts in [any::<u32>(), any::<u32>()], nanos in any_size(), cost in any::<u32>(),
    ) {
        let [strict, tutorials] = [true, false].map(|strict| SlidingCounter::new(Plan { strict, ..plan }).unwrap());
        let up_to_limit = |part: u32| u64::from(part) % (plan.quota.count() + 1);
        let windows = strict.windows;
        let word = strict.pack(windows.number(windows.offset), up_to_limit(counts[0]), up_to_limit(counts[1]));
        let (now, cost) = (nanos % (2 * windows.period), 1 + u64::from(cost) % plan.quota.count());
        let [by_strict, by_tutorials] = [strict, tutorials].map(|counter| counter.charge(word, now, cost));
        prop_assert!(by_strict.is_none() || by_strict == by_tutorials);
        let difference = tutorials.remaining(word, now) - strict.remaining(word, now);
        prop_assert!(difference <= 1);
    }

    #[test]
    fn past_the_horizon_nothing_wraps_and_no_window_begins(
        plan in any_plan(2), times in vec((any_size(), any_call()), 1..40),
    ) {
        survives_the_end_of_time(SlidingCounter::new(plan).unwrap(), times)?;
    }
}

/// A call that was held up since a window that nothing tells of any more.
#[test]
fn a_late_call_does_not_fill_its_window_again() {
    let counter = SlidingCounter::new(Plan::new(crate::Quota::per_second(5))).unwrap();
    let (late, now) = (999_999_999, 2_000_000_000);
    let full = counter.charge(0, late, 5).unwrap();
    let later = counter.charge(full, now, 1).unwrap();
    let charged = counter.snapshot(later, now, 1).charged();
    let (empty, _) = counter.give_back(later, now, 1, charged).unwrap();
    assert!(!counter.is_idle(empty, late) && counter.is_idle(empty, now));
    let counted = counter.charge(empty, late, 5).unwrap();
    assert_eq!((counter.remaining(counted, now), counter.remaining(counted, late)), (0, 0));
}
