//! Decisions a second of a shared limiter, and how long they take: `cargo bench --bench redis`.
//!
//! Beside it, over a connection of the same kind and in turns within the same run, the bare round trip (`PING`) and the
//! script that counts in most tutorials (`INCR`, then `EXPIRE` on the first). A third script shows what any limiter with a
//! rate costs at least: it asks for the time, reads a state, writes one that expires after a time that it computes, answers
//! by it, and decides nothing. The server is one of its own on this machine, so that server and clients share its
//! processors; the column *in the server* is what it says itself that it spent on a call (`usec_per_call`), without the
//! network. The column *of INCR* is the median of the rounds' ratios, and their quartiles.

mod common;
#[path = "../tests/common/redis_server.rs"]
mod server;

use common::form::is_bench;
use common::output::{Progress, Table, count, machine, time};
use common::records::{Record, median};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Cmd, Value};
use server::RedisServer;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tollgate::Quota;
use tollgate::redis::{SharedLimiter, Store};

/// How many calls are under way at a time.
const CONCURRENCIES: [usize; 3] = [1, 64, 512];

/// How often each subject has its turn, and for how long.
const TURNS: usize = 11;
const TURN: Duration = Duration::from_millis(200);

/// Of the throughput of the script with `INCR`, a token bucket's is at least so much.
const TARGET: f64 = 0.6;

/// What a refusal from the cache takes at most.
const CACHED_TARGET: Duration = Duration::from_micros(1);

const CLIENTS: u64 = 1000;

const COUNT: &str = "
    local count = redis.call('INCR', KEYS[1])
    if count == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
    return count";

/// Without a rule: as many bytes as a token bucket's state.
const MINIMAL: &str = "
    local time = redis.call('TIME')
    redis.call('GET', KEYS[1])
    local state = '12345678901234567890123456789012345678901'
    redis.call('SET', KEYS[1], state, 'PX', 1000 * ARGV[1] + time[2] % 1000)
    return state";

#[derive(Clone)]
enum Subject {
    Ping(ConnectionManager),
    /// With the script's hash, and a mark of its keys.
    Script(ConnectionManager, Arc<str>, char),
    Limiter(SharedLimiter),
}

impl Subject {
    async fn call(&mut self, client: u64) {
        let client = client % CLIENTS;
        match self {
            Self::Ping(connection) => {
                let pong: String = redis::cmd("PING").query_async(connection).await.expect("a server");
                black_box(pong);
            }
            Self::Script(connection, hash, mark) => {
                let mut command = Cmd::with_capacity(5, 128);
                command.arg("EVALSHA").arg(&**hash).arg(1).arg(format!("{mark}:client-{client}")).arg(3600);
                let answer: Value = command.query_async(connection).await.expect("a server");
                black_box(answer);
            }
            Self::Limiter(limiter) => {
                let allowed = limiter.check(&format!("client-{client}")).await;
                assert!(black_box(allowed).is_ok(), "a quota that is never used up");
            }
        }
    }
}

/// What a subject has come to at one concurrency.
#[derive(Default)]
struct Sample {
    calls_a_second: Vec<f64>,
    latencies: Vec<Duration>,
    /// Microseconds a call, as the server says.
    served: Vec<f64>,
}

impl Sample {
    fn latency(&mut self, fraction: f64) -> Duration {
        self.latencies.sort();
        self.latencies[((self.latencies.len() - 1) as f64 * fraction) as usize]
    }
}

/// What the server spent on each call of a command since its counts were reset, in microseconds.
fn served(server: &RedisServer, command: &str) -> f64 {
    let stats: String = server.run("INFO commandstats");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let fields = line.expect("a command that was called").split(',');
    let mean = fields.filter_map(|field| field.strip_prefix("usec_per_call=")).next();
    mean.expect("a mean").parse().expect("a number")
}

fn turn(runtime: &Runtime, subject: &Subject, concurrency: usize, sample: &mut Sample) {
    let start = Instant::now();
    let calls = (0..concurrency).map(|task| {
        let mut subject = subject.clone();
        runtime.spawn(async move {
            let mut latencies = Vec::new();
            let mut client = task as u64 * 7919;
            while start.elapsed() < TURN {
                let called = Instant::now();
                subject.call(client).await;
                latencies.push(called.elapsed());
                client += 1;
            }
            latencies
        })
    });
    let calls: Vec<_> = calls.collect();
    let before = sample.latencies.len();
    for call in calls {
        sample.latencies.extend(runtime.block_on(call).expect("a task that ends"));
    }
    sample.calls_a_second.push((sample.latencies.len() - before) as f64 / start.elapsed().as_secs_f64());
}

/// The time of a refusal that is known.
fn cached(runtime: &Runtime, store: &Store) -> Duration {
    const CALLS: u32 = 100_000;
    let limiter = SharedLimiter::token_bucket("cached", Quota::per_day(1)).cache_refusals(1024).build(store);
    let limiter = limiter.expect("a quota that fits");
    runtime.block_on(async {
        let _ = limiter.check("client").await;
        assert!(limiter.check("client").await.is_err());
        let mut best = Duration::MAX;
        for _ in 0..TURNS {
            let start = Instant::now();
            for _ in 0..CALLS {
                assert!(black_box(limiter.check("client").await).is_err());
            }
            best = best.min(start.elapsed() / CALLS);
        }
        best
    })
}

fn main() {
    if !is_bench() {
        return;
    }
    let server = RedisServer::start();
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let connection = runtime.block_on(async {
        let config = ConnectionManagerConfig::new().set_response_timeout(None).set_pipeline_buffer_size(1024);
        ConnectionManager::new_with_config(server.client(), config).await.expect("a connection")
    });
    let store = Store::at(&server.url()).budget(Duration::from_secs(30)).open().expect("an address");
    // Whose state lives for longer than from one call of a client to its next, as that of a busy client does.
    let never_used_up = Quota::per_second(10).burst(1_000_000_000);
    let limiter = SharedLimiter::token_bucket("bench", never_used_up).build(&store).expect("a quota that fits");
    let load = |text: &str| -> Arc<str> {
        let hash: String = server.query(redis::cmd("SCRIPT").arg("LOAD").arg(text).clone()).expect("a script");
        hash.into()
    };
    let subjects = [
        ("PING", Subject::Ping(connection.clone())),
        ("INCR + EXPIRE", Subject::Script(connection.clone(), load(COUNT), 'i')),
        ("TIME + GET + SET", Subject::Script(connection, load(MINIMAL), 's')),
        ("token bucket", Subject::Limiter(limiter)),
    ];

    let progress = Progress::new("redis");
    let mut table = Table::new(["", "at once", "calls/s", "p50", "p99", "in the server", "of INCR"]);
    let (mut worst, mut bound) = (f64::INFINITY, f64::INFINITY);
    for concurrency in CONCURRENCIES {
        let mut samples: [Sample; 4] = Default::default();
        for round in 0..TURNS {
            for ((name, subject), sample) in subjects.iter().zip(&mut samples) {
                progress.step(&format!("{concurrency} at once, {name}, turn {} of {TURNS}", round + 1));
                let () = server.run("CONFIG RESETSTAT");
                turn(&runtime, subject, concurrency, sample);
                sample.served.push(served(&server, if *name == "PING" { "ping" } else { "evalsha" }));
            }
        }
        let incr = samples[1].calls_a_second.clone();
        let mut ratios = Vec::new();
        for ((name, _), sample) in subjects.iter().zip(&mut samples) {
            // Within a round, as the machine may be slower in another.
            let mut each: Vec<_> = sample.calls_a_second.iter().zip(&incr).map(|(ours, incr)| ours / incr).collect();
            let Record { value: ratio, quartiles: [low, high], .. } = Record::median("", 0, name, "of INCR", &mut each);
            ratios.push(ratio);
            let (p50, p99) = (sample.latency(0.5), sample.latency(0.99));
            table.row(vec![
                (*name).to_owned(),
                concurrency.to_string(),
                count(median(&mut sample.calls_a_second) as u64),
                time(p50.as_nanos() as f64),
                time(p99.as_nanos() as f64),
                time(1000.0 * median(&mut sample.served)),
                format!("{ratio:.2} ({low:.2} to {high:.2})"),
            ]);
        }
        worst = worst.min(ratios[3]);
        bound = bound.min(ratios[2]);
    }
    let cached = cached(&runtime, &store);
    drop(progress);

    println!("{}", machine());
    println!("{table}");
    let (fast, cheap) = (worst >= TARGET, cached < CACHED_TARGET);
    let verdict = |met| if met { "met" } else { "missed" };
    println!("TIME + GET + SET, of INCR + EXPIRE at worst: {bound:.2}");
    println!("token bucket, of INCR + EXPIRE at worst: {worst:.2} (at least {TARGET}: {})", verdict(fast));
    println!(
        "a refusal from the cache: {} ns (below {}: {})",
        cached.as_nanos(),
        CACHED_TARGET.as_nanos(),
        verdict(cheap)
    );
}
