//! How tutorials write a rate limit, and why it does not limit.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tollgate::Quota;
use tollgate::http::Head;
use tollgate::http::client::{Client, Identify};

/// How tutorials write a token bucket: read the tokens, see whether one is left, write back one less. Each step is right,
/// and the map is behind a mutex, yet it does not limit: see `data_unsafe`. Nor does it ever forget a client.
#[derive(Clone)]
pub struct CheckThenAct {
    quota: Quota,
    client: Arc<dyn Identify>,
    buckets: Arc<Mutex<HashMap<Option<Client>, Bucket>>>,
}

/// The tokens there were at an instant.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl CheckThenAct {
    pub fn new(quota: Quota, client: Arc<dyn Identify>) -> Self {
        Self { quota, client, buckets: Arc::default() }
    }

    fn tokens_per_second(&self) -> f64 {
        self.quota.count() as f64 / self.quota.period().as_secs_f64()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<Client>, Bucket>> {
        // Nothing panics under the lock, and a bucket is replaced whole: there is no half-written state to fear.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, client: &Option<Client>, now: Instant) -> f64 {
        let full = self.quota.capacity() as f64;
        self.lock().get(client).map_or(full, |bucket| {
            let refilled = now.saturating_duration_since(bucket.at).as_secs_f64() * self.tokens_per_second();
            full.min(bucket.tokens + refilled)
        })
    }

    fn write(&self, client: Option<Client>, bucket: Bucket) {
        self.lock().insert(client, bucket);
    }
}

/// The lock is given up between the check and the act. All requests that come in meanwhile read the same number, find a
/// token left, pass, and write the same number less one: thirty at once cost one token. No test that calls one after the
/// other can show it.
///
/// The wait stands for what happens in between, say a look at a database, and makes the race certain; without it there is
/// still one, only a rarer one. A lock held throughout would be right, and have all clients wait for each other's
/// databases. The fix is `/api/data-safe`: there, the layer checks and takes in one step.
pub async fn data_unsafe(State(limiter): State<CheckThenAct>, request: Request) -> Response {
    let client = limiter.client.identify(&Head::from(&request));
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

pub fn pass(limit: u64, remaining: u64) -> Response {
    let headers = [("x-ratelimit-limit", limit.to_string()), ("x-ratelimit-remaining", remaining.to_string())];
    (headers, Json(json!({ "data": "hello", "remaining": remaining }))).into_response()
}

pub fn refuse(retry_after: Option<Duration>) -> Response {
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
