//! The limit of several instances: in a Redis or Valkey server, and beside it the way in which tutorials put one there.

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, middleware, routing::get};
use redis::AsyncCommands;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use serde_json::json;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tollgate::http::Head;
use tollgate::http::client::Identify;
use tollgate::redis::{SharedLimiter, Store};
use tollgate::{Quota, Reason};

/// What the limit has left to a request that it let pass.
#[derive(Clone, Copy)]
pub struct Left(pub u64);

#[derive(Clone)]
pub struct Shared {
    limiter: SharedLimiter,
    client: Arc<dyn Identify>,
    quota: Quota,
    /// For the unsafe way only. The limiter has a connection of its own.
    connection: ConnectionManager,
}

impl Shared {
    pub fn new(
        address: &str,
        budget: Duration,
        quota: Quota,
        client: Arc<dyn Identify>,
    ) -> Result<Self, Box<dyn Error>> {
        let store = Store::at(address).budget(budget).open()?;
        let limiter = SharedLimiter::token_bucket("requests", quota).cache_refusals(100_000).build(&store)?;
        let config = ConnectionManagerConfig::new();
        let connection = ConnectionManager::new_lazy_with_config(redis::Client::open(address)?, config)?;
        Ok(Self { limiter, client, quota, connection })
    }

    /// Puts the limit around routes.
    pub fn around(&self, routes: Router) -> Router {
        routes.route_layer(middleware::from_fn_with_state(self.clone(), limit))
    }

    /// The route that is limited the unsafe way.
    pub fn race(self) -> Router {
        Router::new().route("/api/data-unsafe", get(data_unsafe).with_state(self))
    }

    fn key_of(&self, request: &Request) -> String {
        let client = self.client.identify(&Head::from(request));
        client.map_or_else(String::new, |client| client.expose().to_string())
    }
}

/// The store looks and takes in one step: however many requests of a client come at once, to whatever instances, no more
/// pass than it has tokens.
async fn limit(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let cost = if request.uri().path() == "/api/report" { 5 } else { 1 };
    let key = shared.key_of(&request);
    match shared.limiter.check_n(&key, cost).await {
        Ok(allowed) => {
            request.extensions_mut().insert(Left(allowed.remaining()));
            let mut response = next.run(request).await;
            state(&mut response, allowed.limit(), allowed.remaining());
            response
        }
        Err(denied) => {
            let mut response = refuse(denied.reason(), denied.retry_after());
            state(&mut response, denied.limit(), denied.remaining());
            response
        }
    }
}

fn state(response: &mut Response, limit: u64, remaining: u64) {
    for (name, value) in [("x-ratelimit-limit", limit), ("x-ratelimit-remaining", remaining)] {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(value));
    }
}

fn refuse(reason: Reason, retry_after: Option<Duration>) -> Response {
    let (status, detail) = match reason {
        // Not the client's doing.
        Reason::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Rate limit unavailable"),
        _ => (StatusCode::TOO_MANY_REQUESTS, "Rate limit exceeded"),
    };
    let mut response = (status, [(CACHE_CONTROL, "no-store")], Json(json!({ "detail": detail }))).into_response();
    if let Some(wait) = retry_after {
        let seconds = u64::try_from(wait.as_nanos().div_ceil(1_000_000_000).max(1)).unwrap_or(u64::MAX);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// How tutorials share a limit: GET the count, see whether it is below the limit, SET it to one more. Each command is atomic,
/// and yet all who come between the two read the same number, in whatever process they are, and pass. The wait stands for
/// what happens in between.
///
/// `INCR` would count right, and then leave a key without an end if the process stops before its `EXPIRE`.
async fn data_unsafe(State(mut shared): State<Shared>, request: Request) -> Response {
    let key = format!("unsafe:{}", shared.key_of(&request));
    let Ok(count) = shared.connection.get::<_, Option<u64>>(&key).await else {
        return refuse(Reason::Unavailable, None);
    };
    let (count, limit) = (count.unwrap_or(0), shared.quota.capacity());
    if count >= limit {
        return refuse(Reason::Limited, Some(shared.quota.period()));
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let period = shared.quota.period().as_secs().max(1);
    if shared.connection.set_ex::<_, _, ()>(&key, count + 1, period).await.is_err() {
        return refuse(Reason::Unavailable, None);
    }
    let mut response = Json(json!({ "data": "hello", "remaining": limit - count - 1 })).into_response();
    state(&mut response, limit, limit - count - 1);
    response
}

/// What is left, where the shared limit has let the request pass.
pub fn left(extension: Option<Extension<Left>>) -> Option<u64> {
    extension.map(|Extension(Left(left))| left)
}
