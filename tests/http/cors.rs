//! A browser's app from another origin. The CORS layer goes around the limiter: it answers preflights itself, and what the
//! limiter refuses gets the headers without which the app could not read it.

use super::support::*;
use axum::{Router, routing::get};
use http::{Method, header};
use tollgate::Quota;
use tollgate::http::{RateLimitLayer, RateLimitLayerBuilder};
use tower_http::cors::{Any, CorsLayer};

const PREFLIGHT: &[(&str, &str)] = &[("origin", "https://app.example"), ("access-control-request-method", "GET")];
const CROSS: &[(&str, &str)] = &[("origin", "https://app.example")];

fn cors() -> CorsLayer {
    CorsLayer::new().allow_origin(Any).expose_headers([header::RETRY_AFTER])
}

fn two() -> RateLimitLayerBuilder {
    RateLimitLayer::builder().policy(frozen(Quota::per_hour(2)))
}

#[tokio::test]
async fn preflights_cost_nothing_and_a_refusal_can_be_read() {
    let app = Router::new().route("/", get(async || "hello")).layer(two().build().unwrap()).layer(cors());
    let mut client = Client::connect(serve(app).await).await;
    for (method, headers, status) in [
        (Method::OPTIONS, PREFLIGHT, 200),
        (Method::GET, CROSS, 200),
        (Method::OPTIONS, PREFLIGHT, 200),
        (Method::GET, CROSS, 200),
        (Method::GET, CROSS, 429),
    ] {
        let reply = client.send(method, "/", headers).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        if status == 429 {
            assert_eq!(reply.header("access-control-expose-headers"), Some("retry-after"));
            assert_eq!(reply.header("retry-after"), Some("1800"));
        }
    }
}

#[tokio::test]
async fn with_the_layers_the_other_way_round_preflights_can_be_exempted() {
    for (layer, statuses) in [(two(), [200, 200, 429]), (two().exempt_preflights(), [200, 200, 200])] {
        let app = Router::new().route("/", get(async || "hello")).layer(cors()).layer(layer.build().unwrap());
        let mut client = Client::connect(serve(app).await).await;
        for status in statuses {
            assert_eq!(client.send(Method::OPTIONS, "/", PREFLIGHT).await.status, status);
        }
        // Not every OPTIONS is a preflight.
        let left = if statuses[2] == 200 { 200 } else { 429 };
        assert_eq!(client.send(Method::OPTIONS, "/", CROSS).await.status, left);
    }
}
