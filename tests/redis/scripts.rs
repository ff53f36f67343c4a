//! Scripts that the store has forgotten, quotas that change, and clients that call at once.

use crate::patient;
use crate::server::RedisServer;
use std::sync::Arc;
use std::time::Duration;
use tollgate::redis::{BlockingLimiter, SharedLimiter};
use tollgate::{Anchor, ManualClock, Quota, Reason};

#[tokio::test]
async fn a_forgotten_script_is_loaded_and_takes_once() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let limiters = [
        SharedLimiter::token_bucket("api", Quota::per_day(10)).build(&store).unwrap(),
        SharedLimiter::fixed_window("api", Quota::per_day(10)).build(&store).unwrap(),
        SharedLimiter::sliding_counter("api", Quota::per_day(10)).build(&store).unwrap(),
        SharedLimiter::sliding_log("api", Quota::per_day(10)).build(&store).unwrap(),
    ];
    for (limiter, reloads) in limiters.iter().zip(0..) {
        for left in (0..10).rev() {
            let () = server.run("SCRIPT FLUSH");
            assert_eq!(limiter.check("alice").await.unwrap().remaining(), left);
        }
        assert_eq!(limiter.check("alice").await.unwrap_err().reason(), Reason::Limited);
        assert_eq!(store.stats().reloads, 10 * (reloads + 1));
    }
    assert_eq!(store.stats().all_failures(), 0);
}

#[tokio::test]
async fn a_decision_is_one_round_trip() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per_day(10)).build(&store).unwrap();
    let _ = limiter.check("alice").await;
    let () = server.run("CONFIG RESETSTAT");
    for _ in 0..20 {
        let _ = limiter.check("alice").await;
    }
    let stats: String = server.run("INFO commandstats");
    assert!(stats.contains("cmdstat_evalsha:calls=20,"), "{stats}");
    assert!(!stats.contains("cmdstat_eval:"), "{stats}");
}

/// Three hundred at once, from three connections, of a quota that refills too slowly to matter.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_capacity_passes() {
    let server = RedisServer::start();
    let limiters: Vec<_> = (0..3)
        .map(|_| {
            SharedLimiter::token_bucket("api", Quota::per_day(37)).build(&patient(&server).open().unwrap()).unwrap()
        })
        .collect();
    let calls = (0..300).map(|call| {
        let limiter = limiters[call % 3].clone();
        tokio::spawn(async move { limiter.allow("alice").await })
    });
    let mut passed = 0;
    for call in calls.collect::<Vec<_>>() {
        passed += usize::from(call.await.unwrap());
    }
    assert_eq!(passed, 37);
    let counted: u64 = limiters.iter().map(|limiter| limiter.store().stats().allowed).sum();
    assert_eq!(counted, 37);
}

/// The same by way of the server's own clock: what the answer promises comes true.
#[tokio::test]
async fn the_wait_that_is_told_is_long_enough() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let quota = Quota::per(1, Duration::from_micros(1500)).burst(3);
    let limiter = SharedLimiter::token_bucket("fast", quota).build(&store).unwrap();
    for _ in 0..100 {
        if let Err(denied) = limiter.check("alice").await {
            tokio::time::sleep(denied.retry_after().unwrap()).await;
            assert!(limiter.allow("alice").await);
        }
    }
}

#[tokio::test]
async fn a_new_quota_takes_over_what_was_used() {
    let server = RedisServer::start();
    let clock = ManualClock::new();
    clock.set(Duration::from_secs(1_800_000_000));
    let store = patient(&server).pass_time(clock.clone()).grace(Duration::from_secs(60)).open().unwrap();
    let bucket = |quota| SharedLimiter::token_bucket("api", quota).build(&store).unwrap();
    let (old, new) = (bucket(Quota::per_second(7).burst(20)), bucket(Quota::per_minute(11).burst(30)));
    assert_eq!(old.check_n("alice", 12).await.unwrap().remaining(), 8);
    assert_eq!(new.check_n("alice", 3).await.unwrap().remaining(), 15);
    assert_eq!(old.peek("alice").await.unwrap().remaining(), 5);
    // Side by side, each takes from the same bucket, and nothing is minted or lost beyond the rounding of a part.
    let mut left = 5;
    while old.allow("alice").await {
        left -= 1;
        let _ = new.peek("alice").await;
    }
    assert_eq!(left, 0);
    assert_eq!(new.peek("alice").await.unwrap().remaining(), 10);
    // A smaller burst: all of it is used, and no more.
    let small = bucket(Quota::per_second(1).burst(2));
    assert_eq!(small.check("alice").await.unwrap_err().retry_after(), Some(Duration::from_secs(1)));

    let window = |quota, anchor| SharedLimiter::fixed_window("api", quota).anchor(anchor).build(&store).unwrap();
    for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
        let (old, new) = (window(Quota::per_minute(10), anchor), window(Quota::per_hour(20), anchor));
        old.reset("bob").await.unwrap();
        assert_eq!(old.check_n("bob", 9).await.unwrap().remaining(), 1);
        assert_eq!(new.check_n("bob", 2).await.unwrap().remaining(), 9);
        assert_eq!(old.check("bob").await.unwrap_err().remaining(), 0);
    }
    let counter = |quota| SharedLimiter::sliding_counter("api", quota).build(&store).unwrap();
    assert!(counter(Quota::per_minute(10)).check_n("bob", 9).await.is_ok());
    assert_eq!(counter(Quota::per_hour(20)).check_n("bob", 2).await.unwrap().remaining(), 9);
}

#[test]
fn threads_that_do_not_await_are_answered_too() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let limiter =
        SharedLimiter::token_bucket("api", Quota::per_day(10)).build(&patient(&server).open().unwrap()).unwrap();
    let limiter = Arc::new(BlockingLimiter::new(limiter, runtime.handle().clone()));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let limiter = limiter.clone();
            std::thread::spawn(move || (0..5).filter(|_| limiter.allow("alice")).count())
        })
        .collect();
    let passed: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(passed, 10);
    assert_eq!(limiter.check_n("alice", 11).unwrap_err().reason(), Reason::Never);
    // Without a runtime nobody answers.
    runtime.shutdown_background();
    assert_eq!(limiter.check("alice").unwrap_err().reason(), Reason::Unavailable);
}
