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

    /// As if nothing had ever been.
    fn reset(&mut self, now: u64) -> bool {
        let used = self.used(now) > 0;
        if used {
            (self.events, self.changed) = (Vec::new(), 0);
        }
        used
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

proptest! {
    #[test]
    fn every_answer_is_that_of_the_list(plan in any_plan(), start in any_start(), events in calls(any_call())) {
        let mut pair = pair(plan);
        pair.run(start, &events)?;
        // All other logs are gone.
        let held = match pair.client.word {
            ..=EMPTY => 0,
            // SAFETY: the pair holds the log.
            word => 24 + 8 * unsafe { log::read(word) }.0.len(),
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
    assert_eq!(log.bytes(), 24 + 8 * 65_536);
    // SAFETY: no word holds it.
    unsafe { SlidingLog::free(full) };
    assert_eq!(log.bytes(), 0);
    let error = SlidingLog::new(Plan::new(Quota::per_second(65_537))).unwrap_err();
    assert!(matches!(error, BuildError::LimitTooLarge { most: 65_536, .. }));
}
