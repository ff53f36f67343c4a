//! The same history in a store and in this process, at the same instants.

use crate::patient;
use crate::server::RedisServer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::time::Duration;
use tokio::runtime::Runtime;
use tollgate::redis::{SharedLimiter, SharedLimiterBuilder, Store};
use tollgate::{
    Algorithm, Allowed, Anchor, Denied, Limiter, LimiterBuilder, ManualClock, Quota, Reason, SlidingCounter,
};

/// Keys outlive a history, whose time is not the server's.
const GRACE: Duration = Duration::from_secs(3600);

/// An instant at which no window of the tests starts.
const START: Duration = Duration::from_micros(1_796_131_413_777_777);

#[derive(Clone, Debug)]
enum Step {
    Wait(Duration),
    Check(u64),
    Peek,
    Refund(u64),
    Reset,
    /// Gives back one of the last charges.
    GiveBack(usize),
}

/// Steps whose waits are about as long as a few calls take to come back.
fn steps(quota: Quota) -> impl Strategy<Value = Vec<Step>> {
    let (period, limit) = (quota.period().as_micros() as u64, quota.capacity());
    let slice = (period / quota.count()).max(1);
    let wait = prop_oneof![0..=3_u64, 0..=2 * slice, Just(slice), 0..=2 * period + 2, Just(period), 0..=period];
    let cost = prop_oneof![4 => 1..=limit.div_ceil(3), 2 => 0..=limit + 1, 1 => Just(1), 1 => any::<u64>()];
    let step = prop_oneof![
        4 => wait.prop_map(|micros| Step::Wait(Duration::from_micros(micros))),
        8 => cost.clone().prop_map(Step::Check),
        1 => Just(Step::Peek),
        1 => cost.prop_map(Step::Refund),
        1 => Just(Step::Reset),
        2 => (0..3_usize).prop_map(Step::GiveBack),
    ];
    prop::collection::vec(step, 1..40)
}

#[derive(Debug, PartialEq)]
struct Seen {
    refused: Option<Reason>,
    limit: u64,
    remaining: u64,
    reset_after: Duration,
    retry_after: Option<Duration>,
}

impl Seen {
    fn of(answer: &Result<Allowed, Denied>) -> Self {
        match answer {
            Ok(allowed) => Self {
                refused: None,
                limit: allowed.limit(),
                remaining: allowed.remaining(),
                reset_after: micros(allowed.reset_after()),
                retry_after: None,
            },
            Err(denied) => Self {
                refused: Some(denied.reason()),
                limit: denied.limit(),
                remaining: denied.remaining(),
                reset_after: micros(denied.reset_after()),
                retry_after: denied.retry_after().map(micros),
            },
        }
    }
}

/// Rounded up to whole microseconds, in which the store counts time.
fn micros(time: Duration) -> Duration {
    Duration::from_micros(time.as_nanos().div_ceil(1000) as u64)
}

struct Beside {
    runtime: Runtime,
    server: RedisServer,
    clock: ManualClock,
    store: Store,
    number: Cell<u64>,
}

impl Beside {
    fn new() -> Self {
        let (server, clock) = (RedisServer::start(), ManualClock::new());
        let store = patient(&server).pass_time(clock.clone()).grace(GRACE).open().unwrap();
        clock.set(START);
        Self { runtime: Runtime::new().unwrap(), server, clock, store, number: Cell::new(0) }
    }

    fn compare<A: Algorithm>(
        &self,
        quota: Quota,
        local: impl Fn(Quota) -> LimiterBuilder<A>,
        shared: impl Fn(Quota) -> SharedLimiterBuilder<A>,
    ) {
        let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
        let shared = shared(quota).build(&self.store).unwrap();
        let result = runner.run(&steps(quota), |steps| {
            self.clock.set(START);
            let local = local(quota).clock(self.clock.clone()).build().unwrap();
            let key = self.number.replace(self.number.get() + 1).to_string();
            self.runtime.block_on(self.follow(&local, &shared, &key, &steps))
        });
        result.unwrap_or_else(|error| panic!("{quota}: {error}"));
        // Nothing is left that would not expire.
        assert_eq!(self.store.stats().all_failures(), 0);
    }

    async fn follow<A: Algorithm>(
        &self,
        local: &Limiter<A, ManualClock>,
        shared: &SharedLimiter,
        key: &str,
        steps: &[Step],
    ) -> Result<(), TestCaseError> {
        let mut charges = Vec::new();
        for step in steps {
            match *step {
                Step::Wait(time) => self.clock.advance(time),
                Step::Check(cost) => {
                    let (here, there) = (local.check_n(key, cost), shared.check_n(key, cost).await);
                    prop_assert_eq!(Seen::of(&there), Seen::of(&here), "{:?}", step);
                    if let (Ok(here), Ok(there)) = (here, there) {
                        charges.push((cost, here, there));
                    }
                }
                Step::Peek => {
                    let (here, there) = (local.peek(key), shared.peek(key).await.unwrap());
                    prop_assert_eq!(
                        (there.limit(), there.remaining(), there.reset_after()),
                        (here.limit(), here.remaining(), micros(here.reset_after()))
                    );
                }
                Step::Refund(tokens) => {
                    prop_assert_eq!(shared.refund(key, tokens).await.unwrap(), local.refund(key, tokens), "{:?}", step);
                }
                Step::Reset => prop_assert_eq!(shared.reset(key).await.unwrap(), local.reset(key)),
                Step::GiveBack(back) => {
                    if back < charges.len() {
                        let (cost, here, there) = charges.remove(charges.len() - 1 - back);
                        let there = shared.give_back(key, cost, there).await.unwrap();
                        prop_assert_eq!(there, here.give_back(), "{:?} of {}", step, cost);
                    }
                }
            }
        }
        Ok(())
    }
}

#[test]
fn token_buckets_answer_alike() {
    let beside = Beside::new();
    // All of them of the class that is exact in-process.
    for quota in
        ["10/s;burst=7", "100/min", "3/h;burst=5", "1/d;burst=3", "4/13ms;burst=50", "2/3us;burst=9", "3/us;burst=40"]
    {
        let shared = |quota| SharedLimiter::token_bucket(name(quota), quota);
        beside.compare(quota.parse().unwrap(), Limiter::token_bucket, shared);
    }
}

#[test]
fn fixed_windows_answer_alike() {
    let beside = Beside::new();
    for quota in ["10/s", "1000/d", "3/7us", "25/90min"] {
        let shared = |quota| SharedLimiter::fixed_window(name(quota), quota);
        beside.compare(quota.parse().unwrap(), Limiter::fixed_window, shared);
    }
    // So few that the in-process windows start on a grid that has every microsecond.
    for quota in ["10/s", "31/d"] {
        let first = Anchor::FirstRequest;
        let shared = |quota| SharedLimiter::fixed_window(format!("first-{}", name(quota)), quota).anchor(first);
        beside.compare(quota.parse().unwrap(), |quota| Limiter::fixed_window(quota).anchor(first), shared);
    }
}

#[test]
fn sliding_counters_answer_alike() {
    let beside = Beside::new();
    let strict = |builder: LimiterBuilder<SlidingCounter>| builder.strict();
    for quota in ["10/s", "1000/d", "3/7us", "25/90min"] {
        let shared = |quota| SharedLimiter::sliding_counter(name(quota), quota);
        beside.compare(quota.parse().unwrap(), Limiter::sliding_counter, shared);
        let shared = |quota| SharedLimiter::sliding_counter(format!("strict-{}", name(quota)), quota).strict();
        beside.compare(quota.parse().unwrap(), |quota| strict(Limiter::sliding_counter(quota)), shared);
    }
    let first = Anchor::FirstRequest;
    let shared = |quota| SharedLimiter::sliding_counter(format!("first-{}", name(quota)), quota).anchor(first);
    beside.compare("3/s".parse().unwrap(), |quota| Limiter::sliding_counter(quota).anchor(first), shared);
}

#[test]
fn sliding_logs_answer_alike() {
    let beside = Beside::new();
    for quota in ["10/s", "1000/d", "3/7us", "25/90min"] {
        let shared = |quota| SharedLimiter::sliding_log(name(quota), quota);
        beside.compare(quota.parse().unwrap(), Limiter::sliding_log, shared);
    }
    assert!(beside.server.keys().iter().all(|key| key.ends_with(":l")));
}

/// So many events that those which count begin and end far apart in the list, and some that begin where many have ended.
#[test]
fn long_sliding_logs_answer_alike() {
    let beside = Beside::new();
    let quota = Quota::per_second(300);
    let local = Limiter::sliding_log(quota).clock(beside.clock.clone()).build().unwrap();
    let shared = SharedLimiter::sliding_log("long", quota).build(&beside.store).unwrap();
    let steps = (0..1000_u64).flat_map(|number| {
        let wait = match number % 157 {
            0 => 700_000,
            80 => 330_000,
            _ => 2_900,
        };
        let further = match number % 31 {
            0 => Step::GiveBack((number % 29) as usize),
            1 => Step::Check(40),
            2 => Step::Refund(2),
            _ => Step::Wait(Duration::ZERO),
        };
        [Step::Wait(Duration::from_micros(wait)), Step::Check(1 + number % 3), further]
    });
    let steps: Vec<_> = steps.collect();
    beside.runtime.block_on(beside.follow(&local, &shared, "alice", &steps)).unwrap();
}

fn name(quota: Quota) -> String {
    quota.to_string()
}

/// The bucket in rational numbers, for rates that the in-process one answers for at an instant a nanosecond away.
struct Oracle {
    limit: u128,
    /// Parts of a token in a nanosecond, and in a token.
    rate: (u128, u128),
    used: u128,
    at: u128,
}

impl Oracle {
    fn check(&mut self, now: u128, cost: u128) -> Result<u128, u128> {
        let (refill, token) = self.rate;
        self.used = self.used.saturating_sub((now - self.at) * refill);
        self.at = now;
        let after = self.used + cost * token;
        if after > self.limit * token {
            return Err((after - self.limit * token).div_ceil(1000 * refill));
        }
        self.used = after;
        Ok((self.limit * token - after) / token)
    }
}

#[test]
fn any_rate_is_exact() {
    let beside = Beside::new();
    for quota in ["7/s", "700/min;burst=3", "13/7ms;burst=100", "999983/h;burst=11", "17/11ns;burst=100000"] {
        let quota: Quota = quota.parse().unwrap();
        let shared = SharedLimiter::token_bucket(name(quota), quota).build(&beside.store).unwrap();
        let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
        let limit = quota.capacity();
        let slice = (quota.period().as_micros() as u64 / quota.count()).max(1);
        let calls =
            prop::collection::vec((prop_oneof![Just(slice), 0..=3 * slice, 0..=5_u64], 1..=limit.div_ceil(2)), 1..40);
        let result = runner.run(&calls, |calls| {
            beside.clock.set(START);
            let key = beside.number.replace(beside.number.get() + 1).to_string();
            let rate = (quota.count().into(), quota.period().as_nanos());
            let mut oracle = Oracle { limit: limit.into(), rate, used: 0, at: START.as_nanos() };
            let mut now = START;
            for (wait, cost) in calls {
                now += Duration::from_micros(wait);
                beside.clock.set(now);
                let answer = beside.runtime.block_on(shared.check_n(&key, cost));
                let answer = answer
                    .map(|allowed| allowed.remaining().into())
                    .map_err(|denied| denied.retry_after().unwrap().as_micros());
                prop_assert_eq!(answer, oracle.check(now.as_nanos(), cost.into()));
            }
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{quota}: {error}"));
    }
}

#[test]
fn the_largest_numbers_are_exact() {
    let beside = Beside::new();
    let clock = &beside.clock;
    // A day has 86,400,000,000 parts, and 30,000 of them take 82 years to refill.
    let quota = Quota::per_day(1).burst(30_000);
    let shared = SharedLimiter::token_bucket("days", quota).build(&beside.store).unwrap();
    let check = |cost| beside.runtime.block_on(shared.check_n("alice", cost));
    assert_eq!(check(30_000).unwrap().remaining(), 0);
    assert_eq!(check(1).unwrap_err().retry_after(), Some(Duration::from_hours(24)));
    clock.advance(Duration::from_hours(24) - Duration::from_micros(1));
    assert_eq!(check(1).unwrap_err().retry_after(), Some(Duration::from_micros(1)));
    clock.advance(Duration::from_micros(1));
    let allowed = check(1).unwrap();
    assert_eq!(allowed.reset_after(), Duration::from_hours(24 * 30_000));
    clock.advance(Duration::from_hours(24 * 30_000) - Duration::from_micros(1));
    assert_eq!(check(30_000).unwrap_err().retry_after(), Some(Duration::from_micros(1)));
    clock.advance(Duration::from_micros(1));
    assert!(check(30_000).is_ok());

    // Above a billion tokens a microsecond refills several.
    let quota = Quota::per_second(1_000_003).burst(9_000_000_000);
    let shared = SharedLimiter::token_bucket("bytes", quota).build(&beside.store).unwrap();
    clock.set(START);
    let check = |cost| beside.runtime.block_on(shared.check_n("alice", cost));
    assert_eq!(check(9_000_000_000).unwrap().remaining(), 0);
    clock.advance(Duration::from_micros(999_999));
    assert_eq!(check(1_000_003).unwrap_err().remaining(), 1_000_001);
    clock.advance(Duration::from_micros(1));
    assert_eq!(check(1_000_003).unwrap().remaining(), 0);
}

#[test]
fn times_past_the_last_are_an_error() {
    let beside = Beside::new();
    beside.clock.set(Duration::from_micros((1 << 52) + 1));
    let shared = SharedLimiter::token_bucket("api", Quota::per_second(2)).build(&beside.store).unwrap();
    let error = beside.runtime.block_on(shared.peek("alice")).unwrap_err();
    assert!(error.to_string().contains("past the year 2112"), "{error}");
}

#[test]
fn a_clock_that_steps_back_locks_nobody_out() {
    let beside = Beside::new();
    let (store, quota) = (&beside.store, Quota::per(5, Duration::from_secs(5)));
    let limiters = [
        SharedLimiter::token_bucket("back", quota).build(store).unwrap(),
        SharedLimiter::fixed_window("back", quota).build(store).unwrap(),
        SharedLimiter::sliding_counter("back", quota).build(store).unwrap(),
        SharedLimiter::sliding_log("back", quota).build(store).unwrap(),
    ];
    for limiter in limiters {
        beside.clock.set(START);
        let check = |cost| beside.runtime.block_on(limiter.check_n("alice", cost));
        assert_eq!(check(3).unwrap().remaining(), 2, "{limiter:?}");
        beside.clock.set(START - Duration::from_secs(11));
        assert_eq!(check(1).unwrap().remaining(), 1, "{limiter:?}");
        // Nor does it mint: the way back to where it was refills nothing.
        beside.clock.set(START);
        assert_eq!(check(2).unwrap_err().remaining(), 1, "{limiter:?}");
    }
}

/// A node ten seconds behind takes and does not rewind; a leap ahead that is taken back freezes, and mints nothing.
#[test]
fn clocks_that_differ_mint_nothing() {
    let beside = Beside::new();
    let (ahead, behind) = (beside.clock.clone(), ManualClock::new());
    let store = Store::at(&beside.server.url()).pass_time(behind.clone()).grace(GRACE).open().unwrap();
    let build = |store| SharedLimiter::token_bucket("api", Quota::per_second(2).burst(4)).build(store).unwrap();
    let (a, b) = (build(&beside.store), build(&store));
    behind.set(START - Duration::from_secs(10));
    let passed = beside.runtime.block_on(async {
        let mut passed = 0;
        for limiter in [&a, &a, &a, &a, &a, &b, &a, &a, &a, &a, &a] {
            passed += usize::from(limiter.allow("alice").await);
        }
        // Its clock has ten seconds to catch up, and then half a one to wait.
        let wait = b.check("alice").await.unwrap_err().retry_after();
        assert_eq!(wait, Some(Duration::from_millis(10_500)));
        passed
    });
    assert_eq!(passed, 4);

    ahead.advance(Duration::from_hours(24));
    let count = |calls: usize| {
        beside.runtime.block_on(async {
            let mut passed = 0;
            for _ in 0..calls {
                passed += usize::from(a.allow("alice").await);
            }
            passed
        })
    };
    assert_eq!(count(10), 4);
    ahead.set(START + Duration::from_secs(1));
    assert_eq!(count(10), 0);
}
