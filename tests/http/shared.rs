//! Limits in a store around a service.

use super::redis_server::RedisServer;
use super::support::*;
use axum::extract::Path;
use axum::{Router, routing::any};
use http::{Method, StatusCode};
use std::time::Duration;
use tollgate::http::{Headers, LayerError, Policy, RateLimitLayer, RateLimitLayerBuilder, Reset};
use tollgate::redis::{SharedLimiter, Store};
use tollgate::{Gate, Quota};

async fn answer(Path(status): Path<u16>) -> StatusCode {
    StatusCode::from_u16(status).unwrap()
}

async fn connect(builder: RateLimitLayerBuilder) -> Client {
    let layer = builder.headers(Headers::x_rate_limit(Reset::After).on_every_response()).build_shared().unwrap();
    Client::connect(serve(Router::new().route("/{status}", any(answer)).layer(layer)).await).await
}

fn open(server: &RedisServer) -> Store {
    Store::at(&server.url()).budget(Duration::from_secs(20)).open().unwrap()
}

fn bucket(store: &Store, name: &str, count: u64) -> SharedLimiter {
    SharedLimiter::token_bucket(name, Quota::per_hour(count)).build(store).unwrap()
}

#[tokio::test]
async fn a_limit_in_a_store_stands_in_for_a_local_one() {
    let server = RedisServer::start();
    let store = open(&server);
    // Two services, one limit.
    let mut first = connect(RateLimitLayer::builder().policy(bucket(&store, "api", 3))).await;
    let mut second = connect(RateLimitLayer::builder().policy(bucket(&open(&server), "api", 3))).await;
    let reply = first.get("/200").await;
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (StatusCode::OK, Some("2")));
    assert_eq!(second.get("/200").await.header("x-ratelimit-remaining"), Some("1"));
    assert_eq!(first.statuses("/200", 2).await, [200, 429]);
    let refused = second.get("/200").await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("1200")));
}

/// Limits here and there: a refusal by one charges none.
#[tokio::test]
async fn limits_here_and_in_stores_are_all_charged_or_none() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let here = Gate::token_bucket(Quota::per_hour(100)).build().unwrap();
    let (store, elsewhere) = (open(&server), open(&other));
    let (few, many, far) = (bucket(&store, "few", 2), bucket(&store, "many", 50), bucket(&elsewhere, "far", 70));
    let builder = RateLimitLayer::builder()
        .policy(Policy::new("here", here.clone()))
        .policy(Policy::shared("far", far))
        .policy(Policy::shared("many", many))
        .policy(Policy::shared("few", few))
        .policy(Policy::shared("next", bucket(&store, "next", 1)).shadow());
    let mut client = connect(builder).await;
    assert_eq!(client.statuses("/200", 20).await.iter().filter(|&&status| status == 200).count(), 2);
    assert_eq!(here.peek().remaining(), 98);
    for (store, name, left) in [(&store, "many", 48), (&elsewhere, "far", 68)] {
        let keys: Vec<String> = if name == "far" { other.keys() } else { server.keys() };
        assert_eq!(keys.iter().filter(|key| key.contains(name)).count(), 1, "{keys:?}");
        let limiter = bucket(store, name, if name == "far" { 70 } else { 50 });
        assert_eq!(limiter.peek("address:127.0.0.1").await.unwrap().remaining(), left, "{name}");
    }
}

#[tokio::test]
async fn only_failures_stay_charged() {
    let server = RedisServer::start();
    let policy = Policy::shared("logins", bucket(&open(&server), "logins", 2)).failures_only();
    let mut client = connect(RateLimitLayer::builder().policy(policy)).await;
    assert_eq!(client.statuses("/200", 5).await, [200; 5]);
    assert_eq!(client.get("/204").await.header("x-ratelimit-remaining"), Some("2"));
    assert_eq!(client.statuses("/401", 3).await, [401, 401, 429]);
}

#[tokio::test]
async fn a_store_that_is_away_is_no_fault_of_the_client() {
    let mut server = RedisServer::start();
    let store = open(&server);
    server.kill();
    let mut client = connect(RateLimitLayer::builder().policy(bucket(&store, "api", 3)).exempt_path("/202")).await;
    let reply = client.get("/200").await;
    assert_eq!((reply.status.as_u16(), reply.header("cache-control")), (503, Some("no-store")));
    assert_eq!(reply.json()["title"], "Service Unavailable");
    assert_eq!(client.status("/202").await, 202);
    let call = client.send(Method::POST, "/200", &[("content-type", "application/grpc")]).await;
    assert_eq!((call.status.as_u16(), call.header("grpc-status")), (200, Some("14")));
}

#[test]
fn a_layer_that_does_not_wait_takes_no_limit_in_a_store() {
    let store = Store::open("redis://127.0.0.1/").unwrap();
    let builder = RateLimitLayer::builder().policy(Policy::shared("api", bucket(&store, "api", 3)));
    assert_eq!(builder.build().unwrap_err(), LayerError::Shared("api".to_owned()));
}
