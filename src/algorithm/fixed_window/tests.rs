//! The fixed window against a list of windows, each with what was taken in it.

use super::super::testing::{Oracle, Pair, any_call, any_give_back, any_size, any_start, any_take, calls};
use super::super::testing::{Receipt, survives_the_end_of_time};
use super::super::windows::tests::{Grid, any_plan};
use super::*;
use num_bigint::BigInt;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// All windows in which something was taken, in their order.
struct Exact {
    grid: Grid,
    limit: u64,
    windows: Vec<Window>,
}

#[derive(Clone)]
struct Window {
    start: BigInt,
    used: u64,
}

impl Exact {
    /// The last window, and whether a call at `now` is in it. Who reads an older clock than others did is with them.
    fn current(&self, now: u64) -> Option<&Window> {
        let window = self.windows.last()?;
        (self.grid.instant(now) < &window.start + &self.grid.period).then_some(window)
    }

    fn used(&self, now: u64) -> u64 {
        self.current(now).map_or(0, |window| window.used)
    }

    fn put_back(&mut self, now: u64, tokens: u64) -> u64 {
        let returned = self.used(now).min(tokens);
        if returned > 0
            && let Some(window) = self.windows.last_mut()
        {
            window.used -= returned;
        }
        returned
    }
}

impl Oracle for Exact {
    /// When the window started.
    type Charge = BigInt;

    fn admits(&self, now: u64, cost: u64) -> bool {
        u128::from(self.used(now)) + u128::from(cost) <= self.limit.into()
    }

    fn remaining(&self, now: u64) -> u64 {
        self.limit - self.used(now)
    }

    fn take(&mut self, now: u64, cost: u64) -> BigInt {
        if self.used(now) == 0 {
            let point = self.grid.point(&self.grid.instant(now));
            let start = self.windows.last().map_or(point.clone(), |last| point.max(last.start.clone()));
            self.windows.push(Window { start, used: 0 });
        }
        let window = self.windows.last_mut().expect("one that was used, or has just begun");
        window.used += cost;
        window.start.clone()
    }

    fn give_back(&mut self, now: u64, cost: u64, start: &BigInt) -> u64 {
        match self.windows.last() {
            Some(window) if window.start == *start => self.put_back(now, cost),
            _ => 0,
        }
    }

    fn refund(&mut self, now: u64, tokens: u64) -> u64 {
        self.put_back(now, tokens)
    }

    fn reset(&mut self, now: u64) -> bool {
        self.put_back(now, u64::MAX) > 0
    }

    fn is_idle(&self, now: u64) -> bool {
        let instant = self.grid.instant(now);
        self.windows.last().is_none_or(|window| match window.used {
            0 => instant >= window.start,
            _ => instant >= &window.start + &self.grid.period,
        })
    }
}

fn pair(plan: Plan) -> Pair<FixedWindow, Exact> {
    let exact = Exact { grid: Grid::new(plan, 1).unwrap(), limit: plan.quota.count(), windows: Vec::new() };
    Pair::new(FixedWindow::new(plan).unwrap(), exact)
}

proptest! {
    #[test]
    fn every_answer_is_that_of_the_list(plan in any_plan(1), start in any_start(), events in calls(any_call())) {
        pair(plan).run(start, &events)?;
    }

    #[test]
    fn dropping_an_idle_client_changes_no_answer(
        plan in any_plan(1), start in any_start(), events in calls(any_call()),
    ) {
        pair(plan).run_beside(&mut pair(plan), start, &events)?;
    }

    /// What was given back does not count. Charges and receipts may come with any old reading of the clock.
    #[test]
    fn no_window_admits_more_than_the_limit(
        plan in any_plan(1), start in any_start(), events in calls(prop_oneof![4 => any_take(), 1 => any_give_back()]),
    ) {
        let mut pair = pair(plan);
        pair.run(start, &events)?;
        let (window, limit) = (pair.client.algorithm, u128::from(plan.quota.count()));
        let mut by_window: BTreeMap<u64, u128> = BTreeMap::new();
        for Receipt { now, latest, kept, charged, .. } in &pair.receipts {
            let start = window.windows.start(charged.payload >> window.bits);
            prop_assert!(start <= window.windows.instant(*latest), "a window that has not begun");
            prop_assert!(start + window.windows.period > window.windows.instant(*now), "a window that is over");
            *by_window.entry(start).or_default() += u128::from(*kept);
        }
        by_window.retain(|_, kept| *kept > 0);
        let windows: Vec<_> = by_window.into_iter().collect();
        prop_assert!(windows.iter().all(|(_, kept)| *kept <= limit));
        prop_assert!(windows.is_sorted_by(|(one, _), (next, _)| next - one >= window.windows.period));

        // Over any stretch at most the limit for each period begun, and once more.
        let calls: Vec<_> = pair.receipts.iter().filter(|call| call.now == call.latest).collect();
        for (i, first) in calls.iter().enumerate() {
            let mut admitted = 0;
            for last in &calls[i..] {
                admitted += u128::from(last.kept);
                let periods = u128::from(last.now - first.now + 1).div_ceil(window.windows.period.into());
                prop_assert!(admitted <= limit * (periods + 1));
            }
        }
    }

    #[test]
    fn past_the_horizon_nothing_wraps_and_no_window_begins(
        plan in any_plan(1), times in vec((any_size(), any_call()), 1..40),
    ) {
        survives_the_end_of_time(FixedWindow::new(plan).unwrap(), times)?;
    }
}

/// A call that was held up since the last window: what has been given back meanwhile must not make it forget that window.
#[test]
fn a_late_call_does_not_fill_its_window_again() {
    let window = FixedWindow::new(Plan::new(crate::Quota::per_second(5))).unwrap();
    let (late, now) = (999_999_999, 1_000_000_000);
    let full = window.charge(0, late, 5).unwrap();
    let next = window.charge(full, now, 1).unwrap();
    let charged = window.snapshot(next, now, 1).charged();
    let (empty, _) = window.give_back(next, now, 1, charged).unwrap();
    assert!(!window.is_idle(empty, late) && window.is_idle(empty, now));
    // It is in the window that the others are in.
    let counted = window.charge(empty, late, 5).unwrap();
    assert_eq!((window.remaining(counted, now), window.retry_after(counted, late, 1)), (0, Some(1_000_000_001)));
}
