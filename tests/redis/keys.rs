//! What lies in the store: names, times to live, and nothing for good.

use crate::patient;
use crate::server::RedisServer;
use std::thread;
use std::time::{Duration, Instant};
use tollgate::redis::{SetupError, SharedLimiter, Store, Trouble};
use tollgate::{Quota, Reason};

/// One of each algorithm.
fn each(store: &Store, quota: Quota) -> [SharedLimiter; 4] {
    [
        SharedLimiter::token_bucket("each", quota).build(store).unwrap(),
        SharedLimiter::fixed_window("each", quota).build(store).unwrap(),
        SharedLimiter::sliding_counter("each", quota).build(store).unwrap(),
        SharedLimiter::sliding_log("each", quota).build(store).unwrap(),
    ]
}

#[tokio::test]
async fn names_have_a_prefix_a_version_and_no_client() {
    let server = RedisServer::start();
    let store = patient(&server).prefix("shop").open().unwrap();
    for limiter in each(&store, Quota::per_hour(10)) {
        assert!(limiter.allow("alice").await);
    }
    let keys = server.keys();
    assert_eq!(keys.len(), 4);
    for (key, letter) in keys.iter().zip(["c", "f", "l", "t"]) {
        assert!(key.starts_with("shop:1:{") && key.ends_with(&format!("}}:each:{letter}")), "{key}");
        assert!(!key.contains("alice"));
    }
    // A second process comes to the same names, and one with a secret to others.
    let again = patient(&server).prefix("shop").open().unwrap();
    assert_eq!(each(&again, Quota::per_hour(10))[0].check("alice").await.unwrap().remaining(), 8);
    let secret = patient(&server).prefix("shop").hash_key("secret").open().unwrap();
    assert_eq!(each(&secret, Quota::per_hour(10))[0].check("alice").await.unwrap().remaining(), 9);
}

#[tokio::test]
async fn braces_are_harmless() {
    let server = RedisServer::start();
    for store in [patient(&server), patient(&server).readable_keys().prefix("readable")] {
        let store = store.open().unwrap();
        let limiter = SharedLimiter::token_bucket("api", Quota::per_hour(2)).build(&store).unwrap();
        let keys = ["{", "}", "{}", "}{", "{a}", "a", "%7ba%7d", "", "a:b", "\u{e4} \r\n"];
        for key in keys {
            assert_eq!(limiter.check(key).await.unwrap().remaining(), 1, "{key:?}");
        }
        for key in keys {
            assert_eq!(limiter.check(key).await.unwrap().remaining(), 0, "{key:?}");
        }
    }
    assert_eq!(server.keys().len(), 20);
    assert!(server.keys().contains(&"readable:1:{%7ba%7d}:api:t".to_owned()));
}

#[tokio::test]
async fn every_key_lives_for_as_long_as_it_counts() {
    let server = RedisServer::start();
    let store = patient(&server).readable_keys().open().unwrap();
    // One call of three in 90 seconds, in windows of 90 seconds.
    let quota = Quota::per(3, Duration::from_secs(90));
    for (limiter, letter) in each(&store, quota).into_iter().zip(["t", "f", "c", "l"]) {
        let reset = limiter.check("alice").await.unwrap().reset_after();
        let key = format!("tollgate:1:{{alice}}:each:{letter}");
        let left = Duration::from_millis(server.run(&format!("PTTL {key}")));
        let due = match letter {
            // Two windows from the beginning of the current one.
            "c" => Duration::from_secs(90) + reset,
            _ => reset,
        };
        let due = if letter == "c" { due.min(Duration::from_secs(180)) } else { due };
        assert!(left <= due + Duration::from_millis(2), "{key}: {left:?}, {due:?}");
        assert!(
            left > due.saturating_sub(Duration::from_secs(10)) && left > Duration::ZERO,
            "{key}: {left:?}, {due:?}"
        );
        // Somebody takes it off. A call that takes puts it back, and so does one that is refused, or only looks.
        let calls: [&dyn Fn(&SharedLimiter) -> u64; 3] = [&|_| 1, &|_| 3, &|_| 0];
        for cost in calls.map(|cost| cost(&limiter)) {
            let () = server.run(&format!("PERSIST {key}"));
            assert_eq!(server.run::<i64>(&format!("PTTL {key}")), -1);
            let _ = limiter.check_n("alice", cost).await;
            let left: i64 = server.run(&format!("PTTL {key}"));
            assert!(left > 0 && left <= 180_002, "{key} after a call of {cost}: {left}");
        }
    }
}

/// Keys expire by whole milliseconds, which begin before the instant of the decision. A key that went with them would hand
/// out what has not refilled.
#[tokio::test]
async fn no_key_expires_before_its_last_moment() {
    let server = RedisServer::start();
    let store = patient(&server).readable_keys().open().unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per(1, Duration::from_secs(100))).build(&store).unwrap();
    for client in 0..20 {
        let client = client.to_string();
        let [seconds, micros]: [u64; 2] = server.run("TIME");
        assert!(limiter.allow(&client).await);
        let expires: u64 = server.run(&format!("PEXPIRETIME tollgate:1:{{{client}}}:api:t"));
        assert!(expires > 1000 * seconds + micros / 1000 + 100_000);
    }
    // What is refilled at once has a time to live too.
    let limiter = SharedLimiter::token_bucket("fast", Quota::per(1, Duration::from_nanos(1))).build(&store).unwrap();
    assert!(limiter.allow("alice").await);
    assert_ne!(server.run::<i64>("PTTL tollgate:1:{alice}:fast:t"), -1);
}

#[tokio::test]
async fn nothing_is_left_after_a_refill_of_silence() {
    let server = RedisServer::start();
    let store = patient(&server).open().unwrap();
    let limiters = each(&store, Quota::per(2, Duration::from_millis(200)));
    for client in 0..250 {
        for limiter in &limiters {
            let _ = limiter.check_n(&client.to_string(), 2).await;
        }
    }
    let silent = Instant::now();
    // Two windows of the counter, the second that the store may take to notice, and two for a busy machine.
    while server.run::<u64>("DBSIZE") > 0 {
        assert!(silent.elapsed() < Duration::from_millis(400 + 1000 + 2000), "{} keys are left", server.keys().len());
        thread::sleep(Duration::from_millis(10));
    }
}

/// A key that has expired and is not yet deleted does not keep its old count, and one that lives does not either.
#[tokio::test]
async fn a_call_a_window_passes_for_ever() {
    let server = RedisServer::start();
    let clock = tollgate::ManualClock::new();
    clock.set(Duration::from_secs(1_800_000_000));
    let store = patient(&server).pass_time(clock.clone()).grace(Duration::from_secs(60)).open().unwrap();
    let limiter = SharedLimiter::fixed_window("api", Quota::per_second(1)).build(&store).unwrap();
    for _ in 0..60 {
        assert!(limiter.allow("alice").await && !limiter.allow("alice").await);
        clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_key_of_somebody_else_is_an_error() {
    let server = RedisServer::start();
    let store = patient(&server).readable_keys().open().unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per_hour(2)).build(&store).unwrap();
    // The second is as long as a state.
    for text in ["nonsense", "d41d8cd98f00b204e9800998ecf8427ef"] {
        let () = server.run(&format!("SET tollgate:1:{{alice}}:api:t {text}"));
        let error = limiter.peek("alice").await.unwrap_err();
        assert_eq!(error.trouble(), Trouble::Other);
        assert!(error.to_string().contains("a key holds something else than the state of this limit"), "{error}");
        // Nor is it written over.
        assert_eq!(limiter.check("alice").await.unwrap_err().reason(), Reason::Unavailable);
        assert_eq!(server.run::<String>("GET tollgate:1:{alice}:api:t"), text);
    }
    let () = server.run("RPUSH tollgate:1:{bob}:api:t 1");
    assert!(limiter.peek("bob").await.unwrap_err().to_string().contains("WRONGTYPE"));
}

#[test]
fn setups_that_cannot_work_are_errors() {
    let store = Store::open("redis://127.0.0.1/").unwrap();
    let error = Store::open("nowhere").unwrap_err();
    assert!(matches!(error, SetupError::Address(_)), "{error}");
    assert_eq!(Store::at("redis://127.0.0.1/").prefix("{x}").open().unwrap_err(), SetupError::Name("{x}".to_owned()));
    let zero = Store::at("redis://127.0.0.1/").budget(Duration::ZERO).open().unwrap_err();
    assert!(zero.to_string().starts_with("the budget of a decision is zero"), "{zero}");
    let grace = |grace| Store::at("redis://127.0.0.1/").grace(grace).open().map(drop);
    assert_eq!(grace(Duration::MAX), Err(SetupError::GraceTooLong(Duration::MAX)));
    assert_eq!(grace(Duration::from_micros(1 << 51)), Ok(()));
    let bucket = |quota| SharedLimiter::token_bucket("api", quota).build(&store).map(drop);
    let quota = Quota::per_day(1).burst(52_125);
    assert_eq!(bucket(quota), Err(SetupError::BurstTooLarge { quota, most: 52_124 }));
    assert_eq!(bucket(Quota::per_day(1).burst(52_124)), Ok(()));
    let quota = Quota::per_second(10_000_000_000);
    assert_eq!(bucket(quota), Ok(()));
    let quota = Quota::per_second(u64::MAX);
    assert_eq!(bucket(quota), Err(SetupError::RateTooHigh(quota)));
    let counter = |quota| SharedLimiter::sliding_counter("api", quota).build(&store).map(drop);
    let quota = Quota::per_day(104_249);
    assert_eq!(counter(quota), Err(SetupError::LimitTooLarge { quota, most: 104_248 }));
    assert_eq!(counter(Quota::per_day(104_248)), Ok(()));
    let quota = Quota::per(1, Duration::from_nanos(1500));
    assert_eq!(counter(quota), Err(SetupError::NotMicroseconds(quota)));
    let quota = Quota::per(1, Duration::from_hours(24 * 365 * 80));
    assert_eq!(counter(quota), Err(SetupError::WindowTooLong(quota)));
    let log = |quota| SharedLimiter::sliding_log("api", quota).build(&store).map(drop);
    let quota = Quota::per_day(65_537);
    assert_eq!(log(quota), Err(SetupError::LimitTooLarge { quota, most: 65_536 }));
    assert_eq!(log(Quota::per_day(2).burst(3)), Err(SetupError::BurstOfWindow(Quota::per_day(2).burst(3))));
}
