//! A small HTTP API with a limit for each client, and beside it the same limit done wrong.
//!
//! ```text
//! cargo run --release --example server
//! curl -i -H 'X-API-Key: alice' http://127.0.0.1:8123/api/data
//! ```
//!
//! All there is to know about tollgate is in `run`, where the limiter is built, and in `data`, where it is asked.

use axum::extract::rejection::ExtensionRejection;
use axum::extract::{ConnectInfo, FromRequestParts, State};
use axum::http::header::{CACHE_CONTROL, HeaderValue, RETRY_AFTER};
use axum::http::{StatusCode, request::Parts};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::get};
use clap::Parser;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tollgate::{Limiter, Quota};

/// Serves an API that limits each client, known by its X-API-Key header or else by its IP address.
#[derive(Parser)]
#[command(after_help = "\
Routes:
  /health           never limited
  /api/data         limited
  /api/data-safe    the same, on the same limit
  /api/data-unsafe  limited by a check-then-act race: try 30 requests at once")]
struct Args {
    /// Address and port to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8123")]
    listen: SocketAddr,

    /// What each client may do: 10/s, "100 per 5 min", or with a burst of its own, "2/s;burst=10"
    #[arg(long, value_name = "QUOTA", default_value_t = Quota::per_second(2).burst(10))]
    quota: Quota,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(Args { listen, quota }: Args) -> Result<(), Box<dyn Error>> {
    // Whoever invents keys becomes many clients. The bound keeps that to some tens of megabytes; while a million clients
    // are live, new ones are refused, and those already known notice nothing.
    let limiter = Limiter::token_bucket(quota).max_keys(1_000_000).build()?;

    let app = Router::new()
        .route("/health", get(health))
        // A clone shares the state of the original, so these two draw from one limit.
        .route("/api/data", get(data).with_state(limiter.clone()))
        .route("/api/data-safe", get(data).with_state(limiter))
        .route("/api/data-unsafe", get(data_unsafe).with_state(CheckThenAct::new(quota)));

    let listener = TcpListener::bind(listen).await.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{}, {quota} for each client", listener.local_addr()?)?;
    stdout.flush()?;

    // Without the connect info there would be no peer address to know clients by.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// One call decides and takes the token, in one atomic step: however many requests of a client come at once, on whatever
/// threads, no more pass than it has tokens.
async fn data(State(limiter): State<Limiter>, client: Client) -> Response {
    match limiter.check(&client) {
        Ok(allowed) => pass(allowed.limit(), allowed.remaining()),
        Err(denied) => refuse(denied.retry_after()),
    }
}

fn pass(limit: u64, remaining: u64) -> Response {
    let headers = [("x-ratelimit-limit", limit.to_string()), ("x-ratelimit-remaining", remaining.to_string())];
    (headers, Json(json!({ "data": "hello", "remaining": remaining }))).into_response()
}

fn refuse(retry_after: Option<Duration>) -> Response {
    let body = Json(json!({ "detail": "Rate limit exceeded" }));
    // A cache must not answer with this once the client may call again.
    let mut response = (StatusCode::TOO_MANY_REQUESTS, [(CACHE_CONTROL, "no-store")], body).into_response();
    if let Some(wait) = retry_after {
        // The header counts whole seconds. Rounded down, it would send the client back too early, to be refused again.
        let seconds = wait.as_nanos().div_ceil(1_000_000_000).max(1);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
    }
    response
}

/// Who is limited. The limiter takes any key that is `Hash`, and the derived one covers which variant it is: somebody who
/// sends the key `10.0.0.1` does not touch the limit of the address 10.0.0.1.
///
/// Two things are left out here. A service should refuse keys it never gave out before it limits by them, or everybody has
/// as many limits as they can think of keys. And behind a reverse proxy each peer address is the proxy's: there, take the
/// address from the header that the proxy sets.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Client {
    Key(HeaderValue),
    Address(IpAddr),
}

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        if let Some(key) = parts.headers.get("x-api-key").filter(|key| !key.is_empty()) {
            return Ok(Self::Key(key.clone()));
        }
        let ConnectInfo(peer) = ConnectInfo::<SocketAddr>::from_request_parts(parts, state).await?;
        // On an IPv6 socket, IPv4 peers come as ::ffff:10.0.0.1.
        Ok(Self::Address(peer.ip().to_canonical()))
    }
}

/// How tutorials write a token bucket: read the tokens, see whether one is left, write back one less. Each step is right,
/// and the map is behind a mutex, yet it does not limit: see `data_unsafe`. Nor does it ever forget a client.
#[derive(Clone)]
struct CheckThenAct {
    quota: Quota,
    buckets: Arc<Mutex<HashMap<Client, Bucket>>>,
}

/// The tokens there were at an instant.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl CheckThenAct {
    fn new(quota: Quota) -> Self {
        Self { quota, buckets: Arc::default() }
    }

    fn tokens_per_second(&self) -> f64 {
        self.quota.count() as f64 / self.quota.period().as_secs_f64()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Client, Bucket>> {
        // Nothing panics under the lock, and a bucket is replaced whole: there is no half-written state to fear.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, client: &Client, now: Instant) -> f64 {
        let full = self.quota.capacity() as f64;
        self.lock().get(client).map_or(full, |bucket| {
            let refilled = now.saturating_duration_since(bucket.at).as_secs_f64() * self.tokens_per_second();
            full.min(bucket.tokens + refilled)
        })
    }

    fn write(&self, client: Client, bucket: Bucket) {
        self.lock().insert(client, bucket);
    }
}

/// The lock is given up between the check and the act. All requests that come in meanwhile read the same number, find a
/// token left, pass, and write the same number less one: thirty at once cost one token. No test that calls one after the
/// other can show it.
///
/// The wait stands for what happens in between, say a look at a database, and makes the race certain; without it there is
/// still one, only a rarer one. A lock held throughout would be right, and have all clients wait for each other's
/// databases. The fix is `/api/data-safe`: there, `data` checks and takes in one step.
async fn data_unsafe(State(limiter): State<CheckThenAct>, client: Client) -> Response {
    let now = Instant::now();
    let tokens = limiter.read(&client, now);
    if tokens < 1.0 {
        return refuse(Duration::try_from_secs_f64((1.0 - tokens) / limiter.tokens_per_second()).ok());
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let tokens = tokens - 1.0;
    limiter.write(client, Bucket { tokens, at: now });
    pass(limiter.quota.capacity(), tokens as u64)
}
