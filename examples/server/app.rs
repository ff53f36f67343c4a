//! The routes, and the limits around them.

use crate::race::{self, CheckThenAct};
use crate::shared::{self, GetThenSet};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use axum::http::{Method, Response, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router, body::Bytes};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tollgate::http::client::{ApiKey, ClientAddress, Identify, Network, Trust};
use tollgate::http::{Decision, Headers, Policy, RateLimitLayer, Refusal, Reset};
use tollgate::redis::{SharedLimiter, Store};
use tollgate::{Limiter, Quota};
use tower_http::cors::{Any, CorsLayer};

/// The store, if there is one, is at an address, and has so long for each decision.
pub fn new(
    quota: Quota,
    trusted_proxies: Vec<Network>,
    store: Option<(String, Duration)>,
) -> Result<Router, Box<dyn Error>> {
    // Whoever invents keys becomes many clients. The bound keeps that to some tens of megabytes; while a million clients
    // are live, new ones are refused, and those already known notice nothing.
    let requests = match &store {
        None => Policy::new("requests", Limiter::token_bucket(quota).max_keys(1_000_000).build()?),
        // All instances have one limit. Who is known to be refused is refused without asking the store.
        Some((address, budget)) => {
            let store = Store::at(address).budget(*budget).open()?;
            let limiter = SharedLimiter::token_bucket("requests", quota).cache_refusals(100_000).build(&store)?;
            Policy::shared("requests", limiter)
        }
    };
    let passwords = Limiter::token_bucket(Quota::per_minute(5)).max_keys(1_000_000).build()?;

    // A service should also have keys validated that it gave out (`ApiKey::valid_if`), or everybody has as many limits as
    // they can think of keys.
    let address = ClientAddress::new().trust(Trust::networks(trusted_proxies));
    let client: Arc<dyn Identify> = Arc::new(ApiKey::new().or(address.clone()));

    let limits = RateLimitLayer::builder()
        .policy(requests.path("/api/*").cost_by(|head| match head.uri().path() {
            "/api/report" => 5,
            _ => 1,
        }))
        .policy(Policy::new("passwords", passwords).path("/login").by(address).failures_only())
        .identify(client.clone())
        .headers(Headers::x_rate_limit(Reset::After).on_every_response())
        .respond(refuse);

    // Around the limits, so that an app from elsewhere can read a refusal, and preflights are not counted.
    let cors = CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([CONTENT_TYPE, HeaderName::from_static("x-api-key")])
        .expose_headers([RETRY_AFTER, HeaderName::from_static("x-ratelimit-remaining")]);

    let routes = Router::new()
        .route("/api/data", get(data))
        .route("/api/data-safe", get(data))
        .route("/api/report", get(report))
        .route("/login", post(login));
    let publish: Arc<dyn Fn() + Send + Sync>;
    // All that is above is limited, and what is below is not.
    let routes = match &store {
        None => {
            let limits = limits.build()?;
            let unsafe_limit = CheckThenAct::new(quota, client);
            publish = Arc::new({
                let limits = limits.clone();
                move || limits.publish_metrics()
            });
            routes.route_layer(limits).route("/api/data-unsafe", get(race::data_unsafe).with_state(unsafe_limit))
        }
        Some((address, _)) => {
            let limits = limits.build_shared()?;
            let unsafe_limit = GetThenSet::new(address, quota, client)?;
            publish = Arc::new({
                let limits = limits.clone();
                move || limits.publish_metrics()
            });
            routes.route_layer(limits).route("/api/data-unsafe", get(shared::data_unsafe).with_state(unsafe_limit))
        }
    };

    let page = PrometheusBuilder::new().install_recorder()?;
    let metrics = async move || {
        publish();
        page.render()
    };
    Ok(routes
        .route("/health", get(async || Json(json!({ "status": "ok" }))))
        .route("/metrics", get(metrics))
        .layer(cors))
}

/// The layer has decided and taken the token in one atomic step: however many requests of a client come at once, on
/// whatever threads, no more get here than it has tokens.
async fn data(decision: Decision) -> Json<Value> {
    Json(json!({ "data": "hello", "remaining": decision.remaining() }))
}

async fn report(decision: Decision) -> Json<Value> {
    Json(json!({ "report": "all is well", "remaining": decision.remaining() }))
}

/// A wrong password stays charged, and a right one is given back. An address that is out of guesses is refused whatever it
/// sends.
async fn login(Json(form): Json<Value>) -> (StatusCode, Json<Value>) {
    if form["user"] == "ann" && form["password"] == "open sesame" {
        (StatusCode::OK, Json(json!({ "welcome": "ann" })))
    } else {
        (StatusCode::UNAUTHORIZED, Json(json!({ "detail": "Wrong user or password" })))
    }
}

/// The standard refusal, with a body like those of this API's other errors.
fn refuse(refusal: Refusal<'_>) -> Response<Bytes> {
    let body: &[u8] = match refusal.status() {
        StatusCode::SERVICE_UNAVAILABLE => br#"{"detail":"Rate limit unavailable"}"#,
        _ => br#"{"detail":"Rate limit exceeded"}"#,
    };
    let mut response = refusal.into_response().map(|_| Bytes::from_static(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
