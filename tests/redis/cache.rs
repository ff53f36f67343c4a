//! The cache of refusals.

use crate::patient;
use crate::server::RedisServer;
use std::time::Duration;
use tollgate::redis::SharedLimiter;
use tollgate::{ManualClock, Quota, Reason};

#[tokio::test]
async fn a_flood_of_refused_calls_does_not_reach_the_store() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per_hour(1)).cache_refusals(64).build(&store).unwrap();
    assert!(limiter.allow("alice").await);
    let first = limiter.check("alice").await.unwrap_err();
    // Whoever asked it would wait for the budget, and then be refused for another reason.
    server.freeze();
    for _ in 0..10_000 {
        let denied = limiter.check("alice").await.unwrap_err();
        assert_eq!((denied.reason(), denied.remaining(), denied.limit()), (Reason::Limited, 0, 1));
        assert!(denied.retry_after() <= first.retry_after());
    }
    server.thaw();
    assert_eq!((store.stats().from_cache, store.stats().denied), (10_000, 10_001));
    // Others are not touched.
    assert!(limiter.allow("bob").await);
}

/// The last permit, and the first after a refusal, pass with a warm cache as with a cold one.
#[tokio::test]
async fn answers_are_the_same_with_and_without() {
    let server = RedisServer::start();
    let clock = ManualClock::new();
    clock.set(Duration::from_secs(1_800_000_000));
    let store = patient(&server).pass_time(clock.clone()).grace(Duration::from_secs(600)).open().unwrap();
    for quota in ["10/7s", "3/s"] {
        let quota: Quota = quota.parse().unwrap();
        let build = |name: &str, entries| {
            [
                SharedLimiter::token_bucket(name, quota).cache_refusals(entries).build(&store).unwrap(),
                SharedLimiter::fixed_window(name, quota).cache_refusals(entries).build(&store).unwrap(),
                SharedLimiter::sliding_counter(name, quota).cache_refusals(entries).build(&store).unwrap(),
                SharedLimiter::sliding_log(name, quota).cache_refusals(entries).build(&store).unwrap(),
            ]
        };
        for (with, without) in build(&format!("{quota}-with"), 100).iter().zip(build(&format!("{quota}-without"), 0)) {
            for step in 0_u64..400 {
                let cost = [1, 1, 2, 1, 3][(step % 5) as usize];
                let answers = (with.check_n("alice", cost).await, without.check_n("alice", cost).await);
                match answers {
                    (Ok(with), Ok(without)) => {
                        assert_eq!(
                            (with.remaining(), with.reset_after()),
                            (without.remaining(), without.reset_after())
                        );
                    }
                    (Err(with), Err(without)) => {
                        assert_eq!(
                            (with.retry_after(), with.reset_after(), with.reason()),
                            (without.retry_after(), without.reset_after(), without.reason())
                        );
                        // Exactly to the instant that was told, and a microsecond short of it, now and then.
                        let wait = with.retry_after().unwrap();
                        match step % 3 {
                            0 => clock.advance(wait),
                            1 => clock.advance(wait - Duration::from_micros(1)),
                            _ => clock.advance(wait / 5),
                        }
                    }
                    (with, without) => panic!("{with:?} {without:?}"),
                }
            }
        }
    }
    assert!(store.stats().from_cache > 100, "{:?}", store.stats());
}

#[tokio::test]
async fn what_is_given_back_here_is_noticed_at_once() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let limiter = SharedLimiter::sliding_log("api", Quota::per_hour(1)).cache_refusals(64).build(&store).unwrap();
    for _ in 0..2 {
        let allowed = limiter.check("alice").await.unwrap();
        assert!(!limiter.allow("alice").await && !limiter.allow("alice").await);
        assert_eq!(limiter.give_back("alice", 1, allowed).await, Ok(1));
        assert!(limiter.allow("alice").await && !limiter.allow("alice").await);
        assert_eq!(limiter.refund("alice", 5).await, Ok(1));
        assert!(limiter.allow("alice").await && !limiter.allow("alice").await);
        assert_eq!(limiter.reset("alice").await, Ok(true));
    }
}

/// It may be carried out, as here.
#[tokio::test]
async fn a_refund_that_is_cancelled_is_noticed_too() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per_hour(1)).cache_refusals(64).build(&store).unwrap();
    assert!(limiter.allow("alice").await && !limiter.allow("alice").await);
    // From here on the server knows the script, so that one request is all.
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 0);
    server.freeze();
    assert!(tokio::time::timeout(Duration::from_millis(1), limiter.refund("alice", 1)).await.is_err());
    server.thaw();
    assert!(limiter.allow("alice").await);
}
