//! The log against a list of instants.

use super::super::testing::{Amount, Oracle, Pair, any_call, any_give_back, any_size, any_start, any_take, calls};
use super::super::testing::{Receipt, survives_the_end_of_time};
use super::super::windows::tests::any_period;
use super::*;
use crate::Quota;
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

/// Every event that there was, unless it was put back.
struct Exact {
    window: u64,
    limit: u64,
    /// Instants, and how many events each has.
    events: Vec<(u64, u64)>,
    /// When the list was last changed. Nobody is before that.
    changed: u64,
}

impl Exact {
    fn at(&self, now: u64) -> u64 {
        now.max(self.changed)
    }

    fn counts(&self, event: u64, now: u64) -> bool {
        self.at(now) - event < self.window
    }

    fn used(&self, now: u64) -> u64 {
        self.events.iter().filter(|(event, _)| self.counts(*event, now)).map(|(_, n)| n).sum()
    }

    /// Removes up to `tokens` events, the newest first, of those that count and are `eligible`.
    fn remove(&mut self, now: u64, mut tokens: u64, eligible: impl Fn(u64) -> bool) -> u64 {
        let at = self.at(now);
        let mut removed = 0;
        for (event, n) in self.events.iter_mut().rev() {
            if at - *event < self.window && eligible(*event) {
                let taken = tokens.min(*n);
                (*n, tokens, removed) = (*n - taken, tokens - taken, removed + taken);
            }
        }
        self.events.retain(|(_, n)| *n > 0);
        if removed > 0 {
            self.changed = at;
        }
        removed
    }
}

impl Oracle for Exact {
    /// The instant of the events.
    type Charge = u64;

    fn admits(&self, now: u64, cost: u64) -> bool {
        self.used(now) + cost <= self.limit
    }

    fn remaining(&self, now: u64) -> u64 {
        self.limit - self.used(now)
    }

    fn take(&mut self, now: u64, cost: u64) -> u64 {
        self.changed = self.at(now);
        self.events.push((self.changed, cost));
        self.changed
    }

    fn give_back(&mut self, now: u64, cost: u64, instant: &u64) -> u64 {
        self.remove(now, cost, |event| event == *instant)
    }

    fn refund(&mut self, now: u64, tokens: u64) -> u64 {
        self.remove(now, tokens, |_| true)
    }

    fn reset(&mut self, now: u64) -> bool {
        self.remove(now, u64::MAX, |_| true) > 0
    }

    fn is_idle(&self, now: u64) -> bool {
        now >= self.changed && self.used(now) == 0 || self.used(self.changed) > 0 && self.used(now) == 0
    }
}

fn pair(plan: Plan) -> Pair<SlidingLog, Exact> {
    let (limit, window) = (plan.quota.count(), plan.quota.period().as_nanos() as u64);
    Pair::new(SlidingLog::new(plan).unwrap(), Exact { window, limit, events: Vec::new(), changed: 0 })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let limit = prop_oneof![
        60 => (0..20_u64).prop_map(Amount::Low),
        20 => (0..1000_u64).prop_map(Amount::Low),
        1 => (0..2_u64).prop_map(Amount::High),
    ];
    (limit, any_period(), any::<u64>()).prop_map(|(limit, period, origin)| Plan {
        origin,
        ..Plan::new(Quota::per(limit.of(MOST), Duration::from_nanos(period)))
    })
}

/// What a log of so many events takes.
fn bytes(events: usize) -> usize {
    (24 + 8 * events).next_multiple_of(32)
}

proptest! {
    #[test]
    fn every_answer_is_that_of_the_list(plan in any_plan(), start in any_start(), events in calls(any_call())) {
        let mut pair = pair(plan);
        pair.run(start, &events)?;
        // All other logs are gone.
        let held = match pair.client.word {
            0 => 0,
            // SAFETY: the pair holds the log.
            word => bytes(unsafe { log::read(word) }.events.len()),
        };
        prop_assert_eq!(pair.client.algorithm.bytes(), held);
    }

    #[test]
    fn dropping_an_idle_client_changes_no_answer(
        plan in any_plan(), start in any_start(), events in calls(any_call()),
    ) {
        pair(plan).run_beside(&mut pair(plan), start, &events)?;
    }

    /// What was given back does not count. Charges and receipts may come with any old reading of the clock.
    #[test]
    fn no_stretch_of_one_window_holds_more_than_the_limit(
        plan in any_plan(), start in any_start(), events in calls(prop_oneof![4 => any_take(), 1 => any_give_back()]),
    ) {
        let mut pair = pair(plan);
        pair.run(start, &events)?;
        let (window, limit) = (plan.quota.period().as_nanos() as u64, plan.quota.count());
        for Receipt { now, latest, charged, .. } in &pair.receipts {
            prop_assert!((*now..=*latest).contains(&charged.payload), "an event at another time than its call's");
        }
        // In the order of the calls, and so of the events.
        for (i, first) in pair.receipts.iter().enumerate() {
            let stretch = pair.receipts[i..].iter().take_while(|last| last.charged.payload - first.charged.payload < window);
            prop_assert!(stretch.map(|event| event.kept).sum::<u64>() <= limit);
        }
    }

    /// A client without a word is told what it would be told with one.
    #[test]
    fn a_client_that_is_not_held_is_answered_as_a_new_one(plan in any_plan(), now in any_size(), cost in any::<u64>()) {
        let pair = pair(plan);
        let log = pair.client.algorithm;
        let cost = 1 + cost % log.limit();
        let payload = log.charge(0, now, cost).unwrap();
        let (new, held) = (log.snapshot_of_new(now, cost), log.snapshot(payload, now, cost));
        // SAFETY: no word holds it.
        unsafe { SlidingLog::free(payload) };
        prop_assert_eq!((new.limit(), new.remaining()), (held.limit(), held.remaining()));
        prop_assert_eq!(new.reset_after(), held.reset_after());
    }

    #[test]
    fn at_the_end_of_time_nothing_wraps_and_nothing_expires(
        plan in any_plan(), times in vec((any_size(), any_call()), 1..40),
    ) {
        survives_the_end_of_time(SlidingLog::new(plan).unwrap(), times)?;
    }

    #[test]
    fn every_quota_is_a_log_or_a_typed_error(
        count in prop_oneof![any_size(), MOST - 2..MOST + 3],
        period in prop_oneof![any_period().prop_map(Duration::from_nanos), any::<Duration>()],
        burst in prop_oneof![4 => Just(None), 1 => any_size().prop_map(Some)],
    ) {
        let quota = Quota::per(count, period).burst(burst.unwrap_or(count));
        match SlidingLog::new(Plan::new(quota)) {
            Ok(log) => {
                log.close();
                prop_assert!((1..=MOST).contains(&count) && quota.capacity() == count && period.as_nanos() < 1 << 62);
            }
            Err(BuildError::Quota(_)) => prop_assert!(count == 0 || period.is_zero() || quota.capacity() == 0),
            Err(BuildError::BurstOfWindow(_)) => prop_assert!(quota.capacity() != count),
            Err(BuildError::WindowTooLong(_)) => prop_assert!(period.as_nanos() >= 1 << 62),
            Err(BuildError::LimitTooLarge { most, .. }) => prop_assert!(count > most && most == 65_536),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn a_log_holds_at_most_65_536_events() {
    let pair = pair(Plan::new(Quota::per_second(65_536)));
    let log = pair.client.algorithm;
    let full = log.charge(0, 0, 65_536).unwrap();
    assert_eq!((log.remaining(full, 0), log.charge(full, 0, 1)), (0, None));
    assert_eq!(log.bytes(), bytes(65_536));
    // SAFETY: no word holds it.
    unsafe { SlidingLog::free(full) };
    assert_eq!(log.bytes(), 0);
    let error = SlidingLog::new(Plan::new(Quota::per_second(65_537))).unwrap_err();
    assert!(matches!(error, BuildError::LimitTooLarge { most: 65_536, .. }));
}

/// A call that was held up while the events expired that it would have to be weighed against.
#[test]
fn a_late_call_does_not_fill_its_window_again() {
    let mut pair = pair(Plan::new(Quota::per_second(5)));
    let log = pair.client.algorithm;
    let (late, now) = (999_999_999, 1_000_000_000);
    let mut replace = |payload| {
        let old = std::mem::replace(&mut pair.client.word, payload);
        // SAFETY: nobody else has the word.
        unsafe { SlidingLog::free(old) };
        payload
    };
    let full = replace(log.charge(0, 0, 5).unwrap());
    assert_eq!(log.charge(full, late, 1), None);
    let next = replace(log.charge(full, now, 1).unwrap());
    let charged = log.snapshot(next, now, 1).charged();
    let empty = replace(log.give_back(next, now, 1, charged).unwrap().0);
    assert!(!log.is_idle(empty, late) && log.is_idle(empty, now));
    // It counts as of the moment at which the others were forgotten.
    let counted = replace(log.charge(empty, late, 5).unwrap());
    assert_eq!(log.retry_after(counted, now, 1), Some(1_000_000_000));
}

/// One nanosecond before the last is the last at which anything expires: the last one of all means never.
#[test]
fn time_ends_a_nanosecond_before_the_last_u64() {
    const WINDOW: u64 = 1_000_000_000;
    let log = SlidingLog::new(Plan::new(Quota::per_second(1))).unwrap();
    for (at, expires) in [(HORIZON - WINDOW, true), (HORIZON - WINDOW + 1, false)] {
        let payload = log.charge(0, at, 1).unwrap();
        let wait = expires.then_some(WINDOW);
        assert_eq!([log.retry_after(payload, at, 1), log.snapshot(payload, at, 1).retry_after(1)], [wait; 2]);
        assert_eq!([log.idle_at(payload) < u64::MAX, log.is_idle(payload, u64::MAX)], [expires; 2]);
        assert_eq!([HORIZON, u64::MAX].map(|end| log.remaining(payload, end)), [u64::from(expires); 2]);
        // SAFETY: no word holds it.
        unsafe { SlidingLog::free(payload) };
    }
    log.close();
}
