//! Windows against a grid in numbers of any size, and the plans that both kinds of them are tested with.

use super::super::testing::{Amount, any_size};
use super::*;
use num_bigint::BigInt;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::Duration;

/// The instants at which windows may start, counted from the clock's origin.
#[derive(Clone, Debug)]
pub(in super::super) struct Grid {
    origin: BigInt,
    pub(in super::super) period: BigInt,
    /// A window may start at each multiple of this within a period.
    cell: BigInt,
}

impl Grid {
    /// The finest grid whose points over 30 years, and a few periods around them, can be numbered beside so many counts up
    /// to the limit. `None` if there is none.
    pub(in super::super) fn new(plan: Plan, counts: u64) -> Option<Self> {
        let period = BigInt::from(plan.quota.period().as_nanos());
        let numbers = (BigInt::from(1) << 62_u64.saturating_sub(counts * BigInt::from(plan.quota.count()).bits())) - 1;
        let periods: BigInt = (BigInt::from(UPTIME) + &period - 1) / &period + 3;
        let fits = |cell: &BigInt| &periods * ((&period + cell - 1) / cell) <= numbers;
        let mut cells: Box<dyn Iterator<Item = BigInt>> = match plan.anchor {
            Anchor::Aligned => Box::new([period.clone()].into_iter()),
            Anchor::FirstRequest => Box::new((0..62).map(|k| BigInt::from(1) << k)),
        };
        let cell = cells.find(fits)?;
        let coarse = plan.anchor == Anchor::FirstRequest && cell > BigInt::from(1) && &cell * 1024 > period;
        (!coarse).then(|| Self { origin: plan.origin.into(), period, cell })
    }

    pub(in super::super) fn instant(&self, now: u64) -> BigInt {
        &self.origin + now
    }

    /// The last point up to an instant.
    pub(in super::super) fn point(&self, instant: &BigInt) -> BigInt {
        let begun = instant / &self.period * &self.period;
        let within = instant - &begun;
        begun + within / &self.cell * &self.cell
    }
}

/// The most that fits, of counts in one word, where all that can be wrong is the limit.
pub(in super::super) fn most(plan: Plan, counts: u32) -> u64 {
    let quota = Quota::per(u64::MAX, plan.quota.period());
    match Windows::new(Plan { quota, ..plan }, counts) {
        Err(BuildError::LimitTooLarge { most, .. }) => most,
        other => panic!("{other:?}"),
    }
}

pub(in super::super) fn any_period() -> impl Strategy<Value = u64> {
    let known = vec![1, 2, 1000, 1023, 1024, 1025, 2047, 2048, 1_000_000_000, 86_400_000_000_000, LONGEST - 1, LONGEST];
    prop_oneof![1 => select(known), 2 => any_size().prop_map(|nanos| nanos.clamp(1, LONGEST))]
}

/// Plans that build with so many counts in a word: limits from 1 to the bound, periods from a nanosecond to 146 years,
/// any origin, both anchors, both rules.
pub(in super::super) fn any_plan(counts: u32) -> impl Strategy<Value = Plan> {
    let limit = prop_oneof![
        2 => (0..20_u64).prop_map(Amount::Low),
        1 => (0..2_u64).prop_map(Amount::High),
        1 => any::<u32>().prop_map(Amount::Part),
    ];
    let anchor = select(vec![Anchor::Aligned, Anchor::FirstRequest]);
    (limit, any_period(), anchor, any::<bool>(), prop_oneof![Just(0), any_size()]).prop_map(
        move |(limit, period, anchor, strict, origin)| {
            let plan =
                |count| Plan { anchor, strict, origin, ..Plan::new(Quota::per(count, Duration::from_nanos(period))) };
            plan(limit.of(most(plan(1), counts)))
        },
    )
}

proptest! {
    #[test]
    fn a_number_says_when_its_window_starts(
        (counts, plan) in (1..=2_u32).prop_flat_map(|counts| (Just(counts), any_plan(counts))),
        nanos in any_size(),
        later in any_size(),
    ) {
        let windows = Windows::new(plan, counts).unwrap();
        let grid = Grid::new(plan, counts.into()).unwrap();
        let now = nanos % UPTIME;
        let instant = windows.instant(now);
        let number = windows.number(instant);
        // Instants here begin with the period in which the limiter was built.
        let before = BigInt::from(plan.origin) - windows.offset;
        let start = &before + windows.start(number);
        prop_assert_eq!(&start, &grid.point(&grid.instant(now)));
        prop_assert!(number >= 1 && number <= PAYLOAD_MAX >> (counts * bits_of(plan.quota.count())));
        prop_assert_eq!(windows.number(windows.start(number)), number);
        // Windows that follow each other differ by the same.
        prop_assert_eq!(&before + windows.start(number + windows.points()), start + windows.period);
        // Later is never earlier.
        prop_assert!(windows.number(windows.instant(now.saturating_add(later))) >= number);
        prop_assert_eq!(windows.time_of(instant), Some(now));
    }

    #[test]
    fn the_horizon_is_beyond_30_years_and_a_window(plan in any_plan(1)) {
        let windows = Windows::new(plan, 1).unwrap();
        prop_assert!(windows.horizon - windows.offset > UPTIME + windows.period);
        prop_assert!(windows.horizon <= u64::MAX - windows.period);
        prop_assert_eq!(windows.instant(u64::MAX), windows.horizon);
        prop_assert_eq!(windows.time_of(windows.horizon + 1), None);
        let last = windows.number(windows.horizon);
        prop_assert!(last <= PAYLOAD_MAX >> bits_of(plan.quota.count()));
        prop_assert!(windows.start(last) <= windows.horizon);
    }

    #[test]
    fn every_quota_has_windows_or_is_a_typed_error(
        count in prop_oneof![any_size(), any::<u64>()],
        period in prop_oneof![
            any_period().prop_map(Duration::from_nanos), any_size().prop_map(Duration::from_nanos), any::<Duration>(),
        ],
        burst in prop_oneof![4 => Just(None), 1 => any_size().prop_map(Some)],
        anchor in select(vec![Anchor::Aligned, Anchor::FirstRequest]),
        counts in 1..=2_u32,
        origin in any::<u64>(),
    ) {
        let quota = Quota::per(count, period).burst(burst.unwrap_or(count));
        let plan = Plan { anchor, origin, ..Plan::new(quota) };
        let with = |count| Plan { quota: Quota::per(count, period), ..plan };
        match Windows::new(plan, counts) {
            Ok(_) => {
                prop_assert!(count > 0 && quota.capacity() == count && period.as_nanos() < 1 << 62);
                prop_assert!(Grid::new(plan, counts.into()).is_some());
            }
            Err(BuildError::Quota(_)) => prop_assert!(count == 0 || period.is_zero() || quota.capacity() == 0),
            Err(BuildError::BurstOfWindow(_)) => prop_assert!(quota.capacity() != count),
            Err(BuildError::WindowTooLong(_)) => prop_assert!(period.as_nanos() >= 1 << 62),
            Err(BuildError::LimitTooLarge { most, .. }) => {
                prop_assert!((1..count).contains(&most));
                prop_assert!(Windows::new(with(most), counts).is_ok());
                prop_assert!(Windows::new(with(most + 1), counts).is_err());
                prop_assert!(Grid::new(plan, counts.into()).is_none());
                prop_assert!(Grid::new(with(most), counts.into()).is_some());
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

#[test]
fn a_window_lasts_at_most_146_years() {
    let windows = |nanos| Windows::new(Plan::new(Quota::per(1, Duration::from_nanos(nanos))), 1);
    assert!(windows(LONGEST).is_ok());
    for nanos in [LONGEST + 1, 1 << 63, u64::MAX] {
        assert!(matches!(windows(nanos), Err(BuildError::WindowTooLong(_))));
    }
}

#[test]
fn the_grid_of_first_requests_is_as_fine_as_documented() {
    for (period, count) in [("s", 100), ("min", 1000), ("h", 10), ("d", 100_000), ("365d", 1)] {
        let quota = format!("{count}/{period}").parse().unwrap();
        let plan = Plan { anchor: Anchor::FirstRequest, ..Plan::new(quota) };
        for counts in 1..=2 {
            let windows = Windows::new(plan, counts).unwrap();
            assert!(1024 << windows.grain <= windows.period, "{windows:?}");
        }
    }
}
