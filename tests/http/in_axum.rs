//! In axum: around the whole app, one router, one route.

use super::support::*;
use axum::{Router, routing::get};
use std::time::Duration;
use tollgate::http::{Decision, Exempt, Headers, Policy, RateLimitLayer, Reset};
use tollgate::{Gate, ManualClock, Quota};

async fn hello() -> &'static str {
    "hello"
}

#[tokio::test]
async fn around_the_whole_app_all_routes_draw_from_one_limit() {
    let layer = RateLimitLayer::new(frozen(Quota::per_hour(3)));
    let app = Router::new().route("/a", get(hello)).route("/b", get(hello)).layer(layer);
    let mut client = Client::connect(serve(app).await).await;
    assert_eq!(client.statuses("/a", 2).await, [200, 200]);
    assert_eq!(client.statuses("/b", 2).await, [200, 429]);
    // Where there is no route, too: who looks for one is counted.
    assert_eq!(client.status("/nowhere").await, 429);
}

#[tokio::test]
async fn around_one_router_or_one_route_the_others_are_free() {
    let inner = Router::new()
        .route("/a", get(hello))
        .route("/b", get(hello))
        .layer(RateLimitLayer::new(frozen(Quota::per_hour(1))));
    let app = Router::new()
        .route("/route", get(hello).layer(RateLimitLayer::new(frozen(Quota::per_hour(1)))))
        .route("/free", get(hello))
        .nest("/nested", inner);
    let mut client = Client::connect(serve(app).await).await;
    assert_eq!(client.statuses("/nested/a", 1).await, [200]);
    assert_eq!(client.statuses("/nested/b", 1).await, [429]);
    assert_eq!(client.statuses("/route", 2).await, [200, 429]);
    assert_eq!(client.statuses("/free", 5).await, [200; 5]);
}

#[tokio::test]
async fn twenty_connections_share_one_state() {
    let app = Router::new().route("/", get(hello)).layer(RateLimitLayer::new(frozen(Quota::per_hour(5))));
    let address = serve(app).await;
    let requests: Vec<_> =
        (0..20).map(|_| tokio::spawn(async move { Client::connect(address).await.status("/").await })).collect();
    let mut passed = 0;
    for request in requests {
        passed += usize::from(request.await.unwrap() == 200);
    }
    assert_eq!(passed, 5);
}

#[tokio::test]
async fn a_layer_that_is_mounted_twice_counts_once() {
    let layer = RateLimitLayer::new(frozen(Quota::per_hour(2)));
    let inner = Router::new().route("/a", get(hello)).layer(layer.clone());
    let mut client = Client::connect(serve(Router::new().nest("/api", inner).layer(layer)).await).await;
    assert_eq!(client.statuses("/api/a", 3).await, [200, 200, 429]);
}

#[tokio::test]
async fn two_layers_count_on_their_own() {
    let limiter = frozen(Quota::per_hour(4));
    let inner = Router::new().route("/a", get(hello)).layer(RateLimitLayer::new(limiter.clone()));
    let app = Router::new().nest("/api", inner).layer(RateLimitLayer::new(limiter));
    let mut client = Client::connect(serve(app).await).await;
    assert_eq!(client.statuses("/api/a", 3).await, [200, 200, 429]);
}

#[tokio::test]
async fn an_exempt_route_is_exempt_from_every_layer_further_in() {
    let none = || Gate::token_bucket(Quota::per_hour(1)).build().unwrap();
    let (app_limit, route_limit, ban) = (none(), none(), none());
    let route = get(hello).layer(RateLimitLayer::new(route_limit.clone()));
    let app = Router::new()
        .route("/health", route)
        .route("/data", get(hello))
        .layer(RateLimitLayer::new(ban.clone()))
        .layer(RateLimitLayer::builder().policy(app_limit.clone()).exempt_path("/health").build().unwrap());
    let mut client = Client::connect(serve(app).await).await;
    assert_eq!(client.statuses("/health", 10).await, [200; 10]);
    for gate in [app_limit, route_limit, ban] {
        assert_eq!(gate.peek().remaining(), 1);
    }
    assert_eq!(client.statuses("/data", 2).await, [200, 429]);
    assert_eq!(client.statuses("/health", 2).await, [200; 2]);
}

#[tokio::test]
async fn a_request_can_be_exempted_by_code_of_ones_own() {
    let mark = axum::middleware::map_request(async |mut request: axum::extract::Request| {
        if request.headers().contains_key("x-internal") {
            request.extensions_mut().insert(Exempt);
        }
        request
    });
    let app = Router::new().route("/", get(hello)).layer(RateLimitLayer::new(frozen(Quota::per_hour(1)))).layer(mark);
    let mut client = Client::connect(serve(app).await).await;
    for _ in 0..3 {
        assert_eq!(client.send(http::Method::GET, "/", &[("x-internal", "1")]).await.status, 200);
    }
    assert_eq!(client.statuses("/", 2).await, [200, 429]);
}

#[tokio::test]
async fn a_handler_reads_what_is_left_and_a_response_tells_it() {
    async fn left(decision: Decision) -> String {
        let answers = decision.answers().map(|answer| format!("{}={}", answer.policy(), answer.remaining()));
        format!("{:?} {}", decision.remaining(), answers.collect::<Vec<_>>().join(","))
    }
    let clock = ManualClock::new();
    let layer = RateLimitLayer::builder()
        .policy(Policy::new("second", limiter(Quota::per_second(2), &clock)))
        .policy(Policy::new("hour", limiter(Quota::per_hour(10), &clock)))
        .headers(Headers::x_rate_limit(Reset::After).on_every_response())
        .build()
        .unwrap();
    let outer = RateLimitLayer::builder()
        .policy(Policy::new("all", Gate::token_bucket(Quota::per_hour(100)).build().unwrap()))
        .build()
        .unwrap();
    let app = Router::new().route("/", get(left)).layer(layer).layer(outer).route("/free", get(left));
    let mut client = Client::connect(serve(app).await).await;
    let reply = client.get("/").await;
    assert_eq!(reply.body, "Some(1) all=99,second=1,hour=9");
    assert_eq!(
        ["limit", "remaining", "reset"].map(|name| reply.header(&format!("x-ratelimit-{name}")).unwrap()),
        ["2", "1", "1"]
    );
    assert_eq!(client.get("/free").await.body, "None ");
    // It comes back with time.
    assert_eq!(client.get("/").await.header("x-ratelimit-remaining"), Some("0"));
    clock.advance(Duration::from_secs(1));
    assert_eq!(client.get("/").await.header("x-ratelimit-remaining"), Some("1"));
}
