//! The store is away, in each way there is: each against a server that is really in that state.

use crate::server::RedisServer;
use std::io::Read;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};
use tollgate::redis::{SharedLimiter, Store, StoreBuilder, SystemClock, Trouble, WhenAway};
use tollgate::{Quota, Reason};

const BUDGET: Duration = Duration::from_millis(50);

/// Beyond a budget, on a busy machine.
const SLACK: Duration = Duration::from_millis(700);

/// A budget that a server which is there keeps also on a busy machine, and that is over soon where it is not.
const AMPLE: Duration = Duration::from_millis(700);

/// Never leaves the store alone, unless told to, and waits for long.
fn patient(url: &str) -> StoreBuilder {
    Store::at(url).budget(Duration::from_secs(20)).breaker(u32::MAX, Duration::from_millis(1))
}

fn limiter(store: &Store, away: WhenAway) -> SharedLimiter {
    SharedLimiter::token_bucket("api", Quota::per_day(10)).when_away(away).build(store).unwrap()
}

/// The three answers to a store in trouble, and what is counted.
async fn expect(store: &Store, trouble: Trouble) {
    let before = store.stats();
    let refused = limiter(store, WhenAway::Refuse).check("alice").await.unwrap_err();
    assert_eq!(refused.reason(), Reason::Unavailable, "{trouble:?}");
    assert!(refused.retry_after().unwrap() > Duration::ZERO && refused.remaining() == 0);
    let allowed = limiter(store, WhenAway::Allow).check("alice").await.unwrap();
    assert_eq!((allowed.limit(), allowed.remaining()), (10, 9));
    let local = limiter(store, WhenAway::Local { one_in: 5 });
    let answers = [local.check("alice").await, local.check("alice").await, local.check("alice").await];
    assert_eq!(answers.map(|answer| answer.is_ok()), [true, true, false], "{trouble:?}");
    let after = store.stats();
    assert_eq!(after.failures(trouble) - before.failures(trouble), 5, "{after:?}");
    assert_eq!(after.all_failures() - before.all_failures(), 5);
    assert_eq!(after.without_store - before.without_store, 5);
    assert_eq!((after.allowed - before.allowed, after.denied - before.denied), (3, 1));
    assert_eq!(after.unavailable - before.unavailable, 1);
}

#[tokio::test]
async fn out_of_memory() {
    let server = RedisServer::with(&["--maxmemory", "1mb", "--maxmemory-policy", "noeviction"]);
    let store = patient(&server.url()).open().unwrap();
    // Full, but for less than a key.
    for length in [100_000, 10_000, 1000, 100, 10, 1] {
        let full = |number: u64| {
            let mut fill = redis::cmd("SET");
            fill.arg(format!("fill-{length}-{number}")).arg("x".repeat(length));
            server.query::<()>(fill).is_err()
        };
        assert!((0..10_000).any(full));
    }
    expect(&store, Trouble::OutOfMemory).await;
    let () = server.run("CONFIG SET maxmemory 0");
    assert!(limiter(&store, WhenAway::Refuse).allow("alice").await);
}

#[tokio::test]
async fn a_replica() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    let () = replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    replica.wait_until("a replica that is up to date", |replica| {
        replica.run::<String>("INFO replication").contains("master_link_status:up").then_some(())
    });
    let store = patient(&replica.url()).open().unwrap();
    let before = store.stats().failures(Trouble::ReadOnly);
    assert!(!limiter(&store, WhenAway::Refuse).allow("alice").await);
    assert_eq!(store.stats().failures(Trouble::ReadOnly), before + 1);
    let () = replica.run("REPLICAOF NO ONE");
    assert!(limiter(&store, WhenAway::Refuse).allow("alice").await);
}

#[tokio::test]
async fn loading() {
    let mut server =
        RedisServer::with(&["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"]);
    // Two thousand keys, each of which takes two milliseconds to load.
    let mut fill = redis::cmd("EVAL");
    fill.arg("for i = 1, 2000 do redis.call('SET', i, string.rep('x', 100)) end").arg(0);
    server.query::<()>(fill).unwrap();
    let () = server.run("SAVE");
    server.kill();
    server.revive_loading();
    let store = patient(&server.url()).open().unwrap();
    expect(&store, Trouble::Loading).await;
    server.kill();
}

#[tokio::test]
async fn time_is_forbidden_in_scripts() {
    let server = RedisServer::start();
    let () = server.run("ACL SETUSER default -time");
    let store = patient(&server.url()).open().unwrap();
    expect(&store, Trouble::Forbidden).await;
    let error = limiter(&store, WhenAway::Refuse).peek("alice").await.unwrap_err();
    assert_eq!(error.trouble(), Trouble::Forbidden);
    assert!(error.to_string().contains("pass the time from here"), "{error}");
    // So it is passed from here.
    let store = patient(&server.url()).pass_time(SystemClock).open().unwrap();
    let limiter = limiter(&store, WhenAway::Refuse);
    for left in (0..10).rev() {
        assert_eq!(limiter.check("alice").await.unwrap().remaining(), left);
    }
    let wait = limiter.check("alice").await.unwrap_err().retry_after().unwrap();
    assert!(wait > Duration::from_secs(8600) && wait <= Duration::from_secs(8640), "{wait:?}");
}

#[tokio::test]
async fn nobody_listens() {
    let mut server = RedisServer::start();
    server.kill();
    let store = Store::at(&server.url()).breaker(3, Duration::from_secs(60)).open().unwrap();
    let limiter = limiter(&store, WhenAway::Refuse);
    let start = Instant::now();
    for _ in 0..1000 {
        assert_eq!(limiter.check("alice").await.unwrap_err().reason(), Reason::Unavailable);
    }
    // Three budgets at most, whatever the number of calls.
    assert!(start.elapsed() < 3 * BUDGET + SLACK, "{:?}", start.elapsed());
    let stats = store.stats();
    assert_eq!((stats.breaks, stats.all_failures(), stats.failures(Trouble::Paused)), (1, 3, 997));
    let wait = limiter.check("alice").await.unwrap_err().retry_after().unwrap();
    assert!(wait > Duration::from_secs(50) && wait <= Duration::from_secs(60), "{wait:?}");
}

/// Takes connections, reads, and never answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_black_hole() {
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", hole.local_addr().unwrap());
    thread::spawn(move || {
        for stream in hole.incoming() {
            thread::spawn(move || stream.unwrap().read_to_end(&mut Vec::new()));
        }
    });
    let store = Store::at(&url).breaker(u32::MAX, Duration::from_millis(1)).open().unwrap();
    for _ in 0..3 {
        let start = Instant::now();
        assert!(!limiter(&store, WhenAway::Refuse).allow("alice").await);
        assert!(start.elapsed() < BUDGET + SLACK, "{:?}", start.elapsed());
    }
    assert_eq!(store.stats().failures(Trouble::TimedOut), 3);
}

/// The server stands still in the middle of traffic. Each answer comes within the budget, and once it goes on, what was
/// counted is no more than what was called: nothing was sent twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_counts_nothing_twice() {
    let server = RedisServer::start();
    let store = Store::at(&server.url()).breaker(u32::MAX, Duration::from_millis(1)).open().unwrap();
    store.ping().await.unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per_day(1000)).build(&store).unwrap();
    let patient = SharedLimiter::token_bucket("api", Quota::per_day(1000));
    let patient = patient.build(&self::patient(&server.url()).open().unwrap()).unwrap();
    assert!(patient.allow("alice").await);
    server.freeze();
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                let start = Instant::now();
                (limiter.check("alice").await.unwrap_err().reason(), start.elapsed())
            })
        })
        .collect();
    for call in calls {
        let (reason, took) = call.await.unwrap();
        assert_eq!(reason, Reason::Unavailable);
        assert!(took < BUDGET + SLACK, "{took:?}");
    }
    server.thaw();
    // The server serves what is in its queue before it takes this.
    let counted = 1000 - patient.peek("alice").await.unwrap().remaining();
    assert!((1..=11).contains(&counted), "{counted} of 11");
    // And nothing comes later.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(1000 - patient.peek("alice").await.unwrap().remaining() <= 11);
    assert_eq!(store.stats().failures(Trouble::TimedOut), 10);
    assert!(recovers(&limiter, "bob").await);
}

/// Whether the store is asked again within a few seconds.
async fn recovers(limiter: &SharedLimiter, key: &str) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if limiter.allow(key).await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// A connection that takes everything and never answers is given up for a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_is_given_up() {
    let server = RedisServer::start();
    let (port, hole) = (server.port(), TcpListener::bind("127.0.0.1:0").unwrap());
    let url = format!("redis://{}/", hole.local_addr().unwrap());
    // Passes the first connection on to the server for a while, and then keeps it open and passes nothing more. Later ones
    // are passed on for good.
    let silent = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let first_is_silent = silent.clone();
    thread::spawn(move || {
        for (number, stream) in hole.incoming().enumerate() {
            let (mut here, there) = (stream.unwrap(), std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
            let (mut from, mut back) = (there.try_clone().unwrap(), here.try_clone().unwrap());
            let mut there = there;
            let is_silent = first_is_silent.clone();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = here.read(&mut buffer) {
                    if number == 0 && is_silent.load(std::sync::atomic::Ordering::Relaxed) {
                        continue;
                    }
                    let _ = std::io::Write::write_all(&mut there, &buffer[..read]);
                }
            });
            thread::spawn(move || std::io::copy(&mut from, &mut back));
        }
    });
    let store = Store::at(&url).budget(AMPLE).breaker(2, Duration::from_millis(20)).open().unwrap();
    store.ping().await.unwrap();
    let limiter = limiter(&store, WhenAway::Refuse);
    assert!(limiter.allow("alice").await);
    silent.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(!limiter.allow("alice").await && !limiter.allow("alice").await);
    assert!(recovers(&limiter, "alice").await);
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_survived() {
    let mut server = RedisServer::start();
    let store = Store::at(&server.url()).budget(AMPLE).breaker(3, Duration::from_millis(20)).open().unwrap();
    store.ping().await.unwrap();
    let limiter = limiter(&store, WhenAway::Refuse);
    assert!(limiter.allow("alice").await);
    server.kill();
    while store.stats().breaks == 0 {
        assert!(!limiter.allow("alice").await);
    }
    server.revive();
    assert!(recovers(&limiter, "alice").await);
    // It came back empty, and without the scripts, of which there are two for this: one takes, one looks.
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 9);
    assert_eq!(store.stats().reloads, 4);
    assert!(store.stats().failures(Trouble::Disconnected) > 0, "{:?}", store.stats());
}

/// Dropped before it is sent, a call takes nothing; dropped later, it takes once at most. Others are not touched.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_calls_take_at_most_once() {
    let server = RedisServer::start();
    let store = patient(&server.url()).open().unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per_day(1000)).build(&store).unwrap();
    drop(limiter.check("alice"));
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 1000);
    // Cut off after every number of polls that a call takes, and at every time.
    for micros in 0..200 {
        let _ = tokio::time::timeout(Duration::from_micros(micros), limiter.check("alice")).await;
    }
    let left = limiter.peek("alice").await.unwrap().remaining();
    assert!((800..=1000).contains(&left), "{left}");
    // A cancelled call that had the right to try a store that was away keeps nobody from it for long.
    let store = Store::at(&server.url()).breaker(1, Duration::from_millis(20)).open().unwrap();
    let limiter = SharedLimiter::token_bucket("api", Quota::per_day(1000)).build(&store).unwrap();
    server.freeze();
    assert!(!limiter.allow("bob").await);
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert!(tokio::time::timeout(Duration::from_millis(1), limiter.check("bob")).await.is_err());
    server.thaw();
    assert!(recovers(&limiter, "bob").await);
}

/// A node of a cluster, asked as if it were alone.
#[tokio::test]
async fn moved() {
    let node = RedisServer::with(&["--cluster-enabled", "yes"]);
    let store = patient(&node.url()).open().unwrap();
    // No slot is served.
    expect(&store, Trouble::Moved).await;
}

/// Seven pass, three are refused, one never can, and twice the store is away: the counters say so, and name nobody.
#[cfg(feature = "metrics")]
#[test]
fn what_happens_is_counted_and_nobody_named() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let mut server = RedisServer::start();
            let store = patient(&server.url()).open().unwrap();
            let limiter = SharedLimiter::token_bucket("api", Quota::per_day(7)).build(&store).unwrap();
            for _ in 0..10 {
                let _ = limiter.check("alice").await;
            }
            let _ = limiter.check_n("alice", 8).await;
            server.kill();
            for _ in 0..2 {
                let _ = tokio::time::timeout(Duration::from_secs(5), limiter.check("alice")).await.unwrap();
            }
        });
    });
    let page = page.render();
    for line in [
        r#"tollgate_store_answers_total{outcome="allowed"} 7"#,
        r#"tollgate_store_answers_total{outcome="refused"} 3"#,
        r#"tollgate_store_answers_total{outcome="never"} 1"#,
        r#"tollgate_store_answers_total{outcome="unavailable"} 2"#,
        r#"tollgate_store_failures_total{trouble="disconnected"} 2"#,
        "tollgate_store_fallbacks_total 2",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    assert!(!page.contains("alice"), "{page}");
}
