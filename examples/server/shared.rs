//! How tutorials share a limit between processes, and why it does not limit. The right way is in `app.rs`.

use crate::race::{pass, refuse};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use redis::AsyncCommands;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use std::sync::Arc;
use std::time::Duration;
use tollgate::Quota;
use tollgate::http::Head;
use tollgate::http::client::Identify;

/// A count in Redis: read it, see whether it is below the limit, write back one more.
#[derive(Clone)]
pub struct GetThenSet {
    quota: Quota,
    client: Arc<dyn Identify>,
    connection: ConnectionManager,
}

impl GetThenSet {
    pub fn new(address: &str, quota: Quota, client: Arc<dyn Identify>) -> redis::RedisResult<Self> {
        let config = ConnectionManagerConfig::new();
        let connection = ConnectionManager::new_lazy_with_config(redis::Client::open(address)?, config)?;
        Ok(Self { quota, client, connection })
    }
}

/// Each command is atomic, and yet all who come between GET and SET read the same number, in whatever process they are, and
/// pass. The wait stands for what happens in between.
///
/// `INCR` would count right, and then leave a key without an end if the process stops before its `EXPIRE`.
pub async fn data_unsafe(State(mut limiter): State<GetThenSet>, request: Request) -> Response {
    let client = limiter.client.identify(&Head::from(&request));
    let key = client.map_or_else(|| "unsafe".to_owned(), |client| format!("unsafe:{}", client.expose()));
    let Ok(count) = limiter.connection.get::<_, Option<u64>>(&key).await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let (count, limit) = (count.unwrap_or(0), limiter.quota.capacity());
    if count >= limit {
        return refuse(Some(limiter.quota.period()));
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    let period = limiter.quota.period().as_secs().max(1);
    if limiter.connection.set_ex::<_, _, ()>(&key, count + 1, period).await.is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    pass(limit, limit - count - 1)
}
