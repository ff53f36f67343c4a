//! What a refused client is answered.

use super::support::*;
use axum::{Router, routing::get};
use http::{Method, Response, StatusCode};
use std::time::Duration;
use tollgate::http::client::ApiKey;
use tollgate::http::{Draft, Headers, Policy, RateLimitLayer, RateLimitLayerBuilder, Refusal, Reset};
use tollgate::{ManualClock, Quota};

fn builder(limit: Manual) -> RateLimitLayerBuilder {
    RateLimitLayer::builder().policy(Policy::new("hello", limit))
}

async fn connect(builder: RateLimitLayerBuilder) -> Client {
    let app = Router::new().route("/", get(async || "hello")).layer(builder.build().unwrap());
    Client::connect(serve(app).await).await
}

async fn refused(builder: RateLimitLayerBuilder, accept: &str) -> Reply {
    let mut client = connect(builder).await;
    while client.status("/").await == 200 {}
    client.send(Method::GET, "/", &[("accept", accept)]).await
}

#[tokio::test]
async fn a_refusal_is_a_problem_with_a_wait_and_is_not_stored() {
    let reply = refused(builder(frozen(Quota::per_minute(2))), "*/*").await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(reply.header("retry-after"), Some("30"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""hello";q=2;w=60"#));
    assert_eq!(reply.header("ratelimit"), Some(r#""hello";r=0;t=30;a=0;w=30"#));
    let expected = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request quota exceeded",
        "status": 429,
        "detail": "Rate limit exceeded. Retry after 30 seconds.",
        "violated-policies": ["hello"],
    });
    assert_eq!(reply.json(), expected);
}

#[tokio::test]
async fn who_prefers_text_gets_text() {
    let reply = refused(builder(frozen(Quota::per_hour(3600))), "text/plain, */*;q=0.1").await;
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(reply.body, "Rate limit exceeded. Retry after 1 second.\n");
}

#[tokio::test]
async fn waiting_the_stated_seconds_always_suffices() {
    // In nanoseconds, the time of a refused call after the bucket was emptied, and what its client is told.
    for (quota, at, told) in [
        (Quota::per_second(2).burst(1), 100_000_000, "1"),
        (Quota::per(1, Duration::from_millis(1200)), 0, "2"),
        (Quota::per(1, Duration::from_millis(1200)), 200_000_000, "1"),
        (Quota::per(1, Duration::from_millis(1200)), 199_999_999, "2"),
        (Quota::per_second(1), 200_000_000, "1"),
        (Quota::per_second(1_000_000).burst(1), 0, "1"),
        (Quota::per_hour(1), 1, "3600"),
    ] {
        let clock = ManualClock::new();
        let mut client = connect(builder(limiter(quota, &clock))).await;
        assert_eq!(client.status("/").await, 200);
        clock.advance(Duration::from_nanos(at));
        let reply = client.get("/").await;
        assert_eq!(reply.header("retry-after"), Some(told), "{quota} at {at} ns");
        clock.advance(Duration::from_secs(told.parse().unwrap()));
        assert_eq!(client.status("/").await, 200, "{quota} at {at} ns");
    }
}

#[tokio::test]
async fn what_can_never_pass_has_no_wait() {
    let policy = Policy::new("hello", frozen(Quota::per_minute(2))).cost(3);
    let reply = refused(RateLimitLayer::builder().policy(policy), "text/plain").await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, None));
    assert_eq!(reply.body, "This request costs more than its limit ever allows.\n");
}

#[tokio::test]
async fn headers_are_on_refusals_on_every_response_or_nowhere() {
    let both = Headers::rate_limit(Draft::V11).and(Headers::x_rate_limit(Reset::After));
    for (headers, passed, refused) in [
        (Headers::none(), [None, None], [None, None]),
        (Headers::none().on_every_response(), [None, None], [None, None]),
        (both, [None, None], [Some(r#""hello";r=0;t=30"#), Some("0")]),
        (both.on_every_response(), [Some(r#""hello";r=1;t=30"#), Some("1")], [Some(r#""hello";r=0;t=30"#), Some("0")]),
        (Headers::rate_limit(Draft::V12), [None, None], [Some(r#""hello";a=0;w=30"#), None]),
    ] {
        let mut client = connect(builder(frozen(Quota::per_minute(2))).headers(headers)).await;
        for (status, expected) in [(200, Some(passed)), (200, None), (429, Some(refused))] {
            let reply = client.get("/").await;
            assert_eq!(reply.status, status);
            if let Some(expected) = expected {
                assert_eq!(
                    ["ratelimit", "x-ratelimit-remaining"].map(|name| reply.header(name)),
                    expected,
                    "{headers:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_partition_key_tells_clients_apart_and_not_who_they_are() {
    let headers = Headers::rate_limit(Draft::V12).with_partition_key().on_every_response();
    let builder = builder(frozen(Quota::per_minute(9))).identify(ApiKey::new()).headers(headers);
    let mut client = connect(builder).await;
    let mut keys = Vec::new();
    for key in ["ann", "ben", "ann"] {
        let reply = client.send(Method::GET, "/", &[("x-api-key", key)]).await;
        let field = reply.header("ratelimit-policy").unwrap();
        keys.push(field.strip_prefix(r#""hello";q=9;w=60;pk=:"#).unwrap().to_owned());
        assert!(reply.header("ratelimit").unwrap().ends_with(keys.last().unwrap()));
    }
    assert_eq!(keys[0], keys[2]);
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn a_receipt_that_came_back_counts_in_the_headers() {
    let policy = Policy::new("logins", frozen(Quota::per_minute(2))).failures_only();
    let headers = Headers::x_rate_limit(Reset::After).on_every_response();
    let mut client = connect(RateLimitLayer::builder().policy(policy).headers(headers)).await;
    for _ in 0..3 {
        assert_eq!(client.get("/").await.header("x-ratelimit-remaining"), Some("2"));
    }
}

#[tokio::test]
async fn jitter_lengthens_the_wait_and_never_shortens_it() {
    let mut client = connect(builder(frozen(Quota::per_minute(2))).jitter(Duration::from_secs(20))).await;
    client.statuses("/", 2).await;
    let mut waits = Vec::new();
    for _ in 0..200 {
        waits.push(client.get("/").await.header("retry-after").unwrap().parse::<u64>().unwrap());
    }
    assert!(waits.iter().all(|wait| (30..=50).contains(wait)), "{waits:?}");
    waits.sort_unstable();
    waits.dedup();
    assert!(waits.len() > 10, "{waits:?}");
}

#[tokio::test]
async fn a_hook_makes_another_response() {
    let hook = |refusal: Refusal<'_>| {
        let violated = refusal.violated().map(|answer| answer.policy().to_owned()).collect::<Vec<_>>();
        let body = format!("{} {:?} {violated:?}", refusal.head.uri(), refusal.retry_after_seconds());
        Response::builder().status(503).header("x-hooked", "yes").body(body.into()).unwrap()
    };
    let reply = refused_with(hook).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-hooked")), (503, Some("yes")));
    assert_eq!(reply.body, r#"/?q=1 Some(30) ["hello"]"#);

    let reply = refused_with(|refusal| refusal.into_response().map(|_| "Slow down.".into())).await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, Some("30")));
    assert_eq!((reply.body.as_str(), reply.header("content-length")), ("Slow down.", Some("10")));
}

async fn refused_with(hook: impl Fn(Refusal<'_>) -> Response<hyper::body::Bytes> + Send + Sync + 'static) -> Reply {
    let mut client = connect(builder(frozen(Quota::per_minute(2))).respond(hook)).await;
    client.statuses("/", 2).await;
    client.get("/?q=1").await
}
