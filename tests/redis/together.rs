//! Several limits in one decision.

use crate::patient;
use crate::server::RedisServer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::time::Duration;
use tollgate::redis::{CheckAllError, SharedLimiter, Store, WhenAway, check_all};
use tollgate::{ManualClock, Quota, Reason, SomeDenied};

fn denied(error: CheckAllError) -> SomeDenied {
    match error {
        CheckAllError::Denied(denied) => denied,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn all_are_charged_or_none() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let second = SharedLimiter::token_bucket("second", Quota::per_hour(3)).build(&store).unwrap();
    let day = SharedLimiter::fixed_window("day", Quota::per_day(5)).build(&store).unwrap();
    let tenant = SharedLimiter::sliding_log("tenant", Quota::per_day(100)).build(&store).unwrap();
    let demands = |cost| [second.demand("alice", cost), day.demand("alice", cost), tenant.demand("acme", 1)];

    let allowed = check_all(demands(2)).await.unwrap();
    assert!(allowed.iter().map(|one| one.remaining()).eq([1, 3, 99]));
    let refused = denied(check_all(demands(2)).await.unwrap_err());
    assert_eq!(refused.reason(), Reason::Limited);
    assert_eq!(refused.denied().map(|(place, denied)| (place, denied.remaining())).collect::<Vec<_>>(), [(0, 1)]);
    let left: Vec<_> = refused.outcomes().filter_map(Result::ok).map(|status| status.remaining()).collect();
    assert_eq!(left, [3, 99]);
    let never = denied(check_all(demands(4)).await.unwrap_err());
    assert_eq!((never.reason(), never.retry_after()), (Reason::Never, None));
    // Nothing was taken by the refused ones.
    assert_eq!(day.peek("alice").await.unwrap().remaining(), 3);
    assert_eq!(tenant.peek("acme").await.unwrap().remaining(), 99);
    assert_eq!(server.keys().len(), 3);
    let stats = store.stats();
    assert_eq!((stats.allowed, stats.denied, stats.never), (3, 2, 1));
}

#[tokio::test]
async fn the_same_limit_twice_is_asked_for_the_sum() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per_hour(5)).build(&store).unwrap();
    let twice = || check_all([limiter.demand("alice", 2), limiter.demand("alice", 1), limiter.demand("bob", 1)]);
    assert!(twice().await.unwrap().iter().map(|one| one.remaining()).eq([2, 2, 4]));
    let refused = denied(twice().await.unwrap_err());
    assert_eq!(refused.denied().map(|(place, _)| place).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(limiter.peek("bob").await.unwrap().remaining(), 4);
    assert!(check_all([]).await.is_ok());
    assert!(check_all([limiter.demand("alice", 0)]).await.is_ok());
    let sum = denied(check_all([limiter.demand("alice", u64::MAX), limiter.demand("alice", 1)]).await.unwrap_err());
    assert_eq!(sum.reason(), Reason::Never);
}

#[tokio::test]
async fn what_cannot_be_decided_together_is_an_error() {
    let server = RedisServer::start();
    let open = || patient(&server).open().unwrap();
    let store = open();
    let api = SharedLimiter::token_bucket("api", Quota::per_hour(5)).build(&store).unwrap();
    let other = SharedLimiter::token_bucket("api", Quota::per_hour(6)).build(&store).unwrap();
    let elsewhere = SharedLimiter::token_bucket("more", Quota::per_hour(5)).build(&open()).unwrap();
    let names = check_all([api.demand("alice", 1), other.demand("alice", 1)]).await.unwrap_err();
    assert!(matches!(names, CheckAllError::Names(ref name) if name == "api"), "{names}");
    let stores = check_all([api.demand("alice", 1), elsewhere.demand("alice", 1)]).await.unwrap_err();
    assert!(matches!(stores, CheckAllError::Stores), "{stores}");
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn a_known_refusal_spares_the_store_the_question() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let few = SharedLimiter::token_bucket("few", Quota::per_hour(1)).cache_refusals(8).build(&store).unwrap();
    let many = SharedLimiter::token_bucket("many", Quota::per_hour(9)).build(&store).unwrap();
    let both = || check_all([many.demand("alice", 1), few.demand("alice", 1)]);
    assert!(both().await.is_ok());
    assert!(both().await.is_err());
    for _ in 0..5 {
        let refused = denied(both().await.unwrap_err());
        assert_eq!(refused.denied().map(|(place, _)| place).collect::<Vec<_>>(), [1]);
    }
    assert_eq!(store.stats().from_cache, 5);
}

#[tokio::test]
async fn while_the_store_is_away_local_limits_are_all_charged_or_none() {
    let mut server = RedisServer::start();
    let store = Store::at(&server.url()).breaker(1, Duration::from_secs(60)).open().unwrap();
    server.kill();
    let local = |name: &str, quota| {
        SharedLimiter::token_bucket(name, quota).when_away(WhenAway::Local { one_in: 2 }).build(&store).unwrap()
    };
    let (few, many) = (local("few", Quota::per_hour(4)), local("many", Quota::per_hour(20)));
    let both = || check_all([many.demand("alice", 1), few.demand("alice", 1)]);
    assert!(both().await.is_ok() && both().await.is_ok());
    for _ in 0..20 {
        assert!(both().await.is_err());
    }
    assert_eq!(many.check("alice").await.unwrap().remaining(), 7);
}

/// Random decisions over three limits, beside limits that are looked at one by one.
#[test]
fn decisions_over_several_are_those_of_each() {
    let (server, clock) = (RedisServer::start(), ManualClock::new());
    let store = patient(&server).pass_time(clock.clone()).grace(Duration::from_secs(3600)).open().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let quotas = [Quota::per_second(5).burst(8), Quota::per_minute(12), Quota::per(9, Duration::from_millis(700))];
    let limits = [
        SharedLimiter::token_bucket("a", quotas[0]).build(&store).unwrap(),
        SharedLimiter::sliding_counter("b", quotas[1]).build(&store).unwrap(),
        SharedLimiter::sliding_log("c", quotas[2]).build(&store).unwrap(),
    ];
    let calls = prop::collection::vec((0..300_u64, prop::collection::vec((0..3_usize, 0..4_u64), 1..5)), 1..30);
    let cases = std::cell::Cell::new(0);
    TestRunner::new(Config { cases: 30, failure_persistence: None, ..Config::default() })
        .run(&calls, |calls| {
            clock.set(Duration::from_secs(1_800_000_000));
            cases.set(cases.get() + 1);
            let key = cases.get().to_string();
            let locals = (
                tollgate::Limiter::token_bucket(quotas[0]).clock(clock.clone()).build().unwrap(),
                tollgate::Limiter::sliding_counter(quotas[1]).clock(clock.clone()).build().unwrap(),
                tollgate::Limiter::sliding_log(quotas[2]).clock(clock.clone()).build().unwrap(),
            );
            let left = |limit: usize| match limit {
                0 => locals.0.peek("").remaining(),
                1 => locals.1.peek("").remaining(),
                _ => locals.2.peek("").remaining(),
            };
            for (wait, demands) in calls {
                clock.advance(Duration::from_millis(wait));
                let sum = |limit| demands.iter().filter(|demand| demand.0 == limit).map(|demand| demand.1).sum::<u64>();
                let fits = (0..3).all(|limit| sum(limit) <= left(limit));
                let asked = demands.iter().map(|&(limit, cost)| limits[limit].demand(&key, cost));
                let answer = runtime.block_on(check_all(asked));
                prop_assert_eq!(answer.is_ok(), fits, "{:?}", demands);
                if fits {
                    assert!(locals.0.check_n("", sum(0)).is_ok());
                    assert!(locals.1.check_n("", sum(1)).is_ok());
                    assert!(locals.2.check_n("", sum(2)).is_ok());
                    let answers: Vec<u64> = answer.unwrap().iter().map(|allowed| allowed.remaining()).collect();
                    prop_assert_eq!(answers, demands.iter().map(|demand| left(demand.0)).collect::<Vec<_>>());
                }
            }
            Ok(())
        })
        .unwrap();
}
