//! Which requests a policy is for, how it counts them, and several in one layer.

use super::support::*;
use axum::extract::Path;
use axum::{Router, routing::any};
use http::{Method, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tollgate::http::client::{ApiKey, ClientAddress, Identify};
use tollgate::http::{Decision, LayerError, Policy, RateLimitLayer};
use tollgate::{Gate, ManualClock, Quota, Reason};

/// Answers with the status that the path asks for.
async fn answer(Path(status): Path<u16>) -> StatusCode {
    StatusCode::from_u16(status).unwrap()
}

async fn connect(layer: RateLimitLayer) -> Client {
    let app = Router::new().route("/{status}", any(answer)).route("/free/{status}", any(answer)).layer(layer);
    Client::connect(serve(app).await).await
}

fn layer(policies: impl IntoIterator<Item = Policy>) -> RateLimitLayer {
    policies.into_iter().fold(RateLimitLayer::builder(), |builder, policy| builder.policy(policy)).build().unwrap()
}

#[tokio::test]
async fn a_refusal_by_one_policy_charges_none() {
    let clock = ManualClock::new();
    let (second, day) =
        (limiter(Quota::per_second(10), &clock), Gate::token_bucket(Quota::per_day(1000)).build().unwrap());
    let mut client = connect(layer([Policy::new("second", second), Policy::new("day", day.clone())])).await;
    let passed = client.statuses("/200", 50).await.iter().filter(|&&status| status == 200).count();
    assert_eq!((passed, day.peek().remaining()), (10, 990));
}

#[tokio::test]
async fn the_longest_wait_and_all_who_refuse_are_told() {
    for reversed in [false, true] {
        let clock = ManualClock::new();
        let mut policies = [
            Policy::new("minute", limiter(Quota::per_minute(2), &clock)),
            Policy::new("second", limiter(Quota::per_second(1), &clock)),
        ];
        if reversed {
            policies.reverse();
        }
        let mut client = connect(layer(policies)).await;
        for (at, status, wait, violated) in [
            (0, 200, None, 0),
            (100, 429, Some("1"), 1),
            (1000, 200, None, 0),
            (1500, 429, Some("29"), 2),
            (2000, 429, Some("28"), 1),
        ] {
            clock.set(Duration::from_millis(at));
            let reply = client.get("/200").await;
            assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (status, wait), "at {at} ms");
            if violated > 0 {
                assert_eq!(reply.json()["violated-policies"].as_array().unwrap().len(), violated);
            }
        }
    }
}

#[tokio::test]
async fn a_policy_is_for_its_paths_methods_and_predicates() {
    let hour = || frozen(Quota::per_hour(1));
    let mut client = connect(layer([
        Policy::new("path", hour()).path("/201"),
        Policy::new("below", hour()).path("/free/*").methods([Method::PUT, Method::POST]),
        Policy::new("predicate", hour()).when(|head| head.headers().contains_key("x-slow")),
    ]))
    .await;
    assert_eq!(client.statuses("/200", 3).await, [200; 3]);
    assert_eq!(client.statuses("/201", 2).await, [201, 429]);
    for (method, status) in [(Method::GET, 200), (Method::PUT, 200), (Method::POST, 429), (Method::GET, 200)] {
        assert_eq!(client.send(method, "/free/200", &[]).await.status, status);
    }
    for status in [202, 429] {
        assert_eq!(client.send(Method::GET, "/202", &[("x-slow", "")]).await.status, status);
    }
}

#[tokio::test]
async fn a_request_costs_what_the_policy_says() {
    let bytes = |head: &tollgate::http::Head<'_>| {
        head.headers().get("x-bytes").and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(0)
    };
    let (five, sized) = (frozen(Quota::per_hour(12)), frozen(Quota::per_hour(1000)));
    let mut client =
        connect(layer([Policy::new("five", five).cost(5), Policy::new("sized", sized).cost_by(bytes)])).await;
    assert_eq!(client.send(Method::GET, "/200", &[("x-bytes", "1001")]).await.header("retry-after"), None);
    assert_eq!(client.send(Method::GET, "/200", &[("x-bytes", "900")]).await.status, 200);
    assert_eq!(client.send(Method::GET, "/200", &[("x-bytes", "101")]).await.header("retry-after"), Some("4"));
    assert_eq!(client.statuses("/200", 2).await, [200, 429]);
}

#[tokio::test]
async fn a_policy_can_have_clients_of_its_own() {
    let (by_key, by_address) = (frozen(Quota::per_hour(1)), frozen(Quota::per_hour(3)));
    let layer = RateLimitLayer::builder()
        .policy(Policy::new("key", by_key))
        .policy(Policy::new("address", by_address).by(ClientAddress::new()))
        .identify(ApiKey::new().or(ClientAddress::new()))
        .build()
        .unwrap();
    let mut client = connect(layer).await;
    for (key, status) in [("a", 200), ("a", 429), ("b", 200), ("c", 200), ("d", 429)] {
        assert_eq!(client.send(Method::GET, "/200", &[("x-api-key", key)]).await.status, status);
    }
}

#[tokio::test]
async fn failures_only_charges_failures_only() {
    let (forgiving, strict) = (frozen(Quota::per_hour(10)), frozen(Quota::per_hour(20)));
    let layer = layer([Policy::new("failures", forgiving).failures_only(), Policy::new("all", strict)]);
    let mut client = connect(layer).await;
    assert_eq!(client.statuses("/200", 7).await, [200; 7]);
    assert_eq!(client.statuses("/401", 9).await, [401; 9]);
    // One failure is left, and a success takes none.
    assert_eq!(client.statuses("/303", 2).await, [303; 2]);
    assert_eq!(client.statuses("/500", 2).await, [500, 429]);
}

#[tokio::test]
async fn any_statuses_can_be_charged() {
    let policy = Policy::new("missing", frozen(Quota::per_hour(2))).charge_if(|status| status == StatusCode::NOT_FOUND);
    let mut client = connect(layer([policy])).await;
    assert_eq!(client.statuses("/401", 5).await, [401; 5]);
    assert_eq!(client.statuses("/404", 3).await, [404, 404, 429]);
}

#[tokio::test]
async fn successes_that_are_held_open_buy_no_attempts() {
    let clock = ManualClock::new();
    let (arrived, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let held = {
        let (arrived, go) = (arrived.clone(), go.clone());
        move || async move {
            arrived.add_permits(1);
            go.acquire().await.unwrap().forget();
        }
    };
    let logins = Policy::new("logins", limiter(Quota::per_minute(5), &clock)).failures_only();
    let app = Router::new().route("/held", any(held)).route("/{status}", any(answer)).layer(layer([logins]));
    let address = serve(app).await;
    let open: Vec<_> =
        (0..5).map(|_| tokio::spawn(async move { Client::connect(address).await.status("/held").await })).collect();
    arrived.acquire_many(5).await.unwrap().forget();

    // While they are under way they count, so no more than five attempts are under way at a time.
    let mut client = Client::connect(address).await;
    assert_eq!(client.statuses("/401", 1).await, [429]);
    clock.advance(Duration::from_secs(60));
    assert_eq!(client.statuses("/401", 6).await, [401, 401, 401, 401, 401, 429]);
    // All that they took has refilled since, so there is nothing to give back.
    go.add_permits(5);
    for request in open {
        assert_eq!(request.await.unwrap(), 200);
    }
    assert_eq!(client.statuses("/401", 1).await, [429]);
}

#[tokio::test]
async fn a_request_that_is_given_up_stays_charged() {
    let arrived = Arc::new(Semaphore::new(0));
    let never = {
        let arrived = arrived.clone();
        move || async move {
            arrived.add_permits(1);
            std::future::pending::<()>().await;
        }
    };
    let limit = frozen(Quota::per_hour(2));
    let logins = Policy::new("logins", limit).failures_only();
    let app = Router::new().route("/never", any(never)).route("/{status}", any(answer)).layer(layer([logins]));
    let address = serve(app).await;
    let abandoned = tokio::spawn(async move { Client::connect(address).await.status("/never").await });
    arrived.acquire().await.unwrap().forget();
    abandoned.abort();
    let mut client = Client::connect(address).await;
    assert_eq!(client.statuses("/401", 2).await, [401, 429]);
}

#[tokio::test]
async fn a_shadow_counts_and_refuses_nothing() {
    async fn reasons(decision: Decision) -> String {
        let answers = decision
            .answers()
            .map(|answer| format!("{} {} {:?}", answer.policy(), answer.is_shadow(), answer.reason()));
        answers.collect::<Vec<_>>().join(", ")
    }
    let (tried, enforced) = (frozen(Quota::per_hour(1)), frozen(Quota::per_hour(3)));
    let layer = layer([Policy::new("tried", tried.clone()).shadow(), Policy::new("enforced", enforced)]);
    let app = Router::new().route("/", any(reasons)).layer(layer);
    let mut client = Client::connect(serve(app).await).await;
    assert_eq!(client.get("/").await.body, "tried true None, enforced false None");
    let limited = Some(Reason::Limited);
    assert_eq!(client.get("/").await.body, format!("tried true {limited:?}, enforced false None"));
    assert_eq!(client.status("/").await, 200);
    let refused = client.get("/").await;
    assert_eq!(refused.json()["violated-policies"], serde_json::json!(["enforced"]));
    assert!(!refused.header("ratelimit-policy").unwrap().contains("tried"));
}

#[test]
fn a_layer_says_why_it_cannot_be_built() {
    let gate = || Gate::token_bucket(Quota::per_hour(1)).build().unwrap();
    let error = |names: &[&'static str]| {
        let builder = RateLimitLayer::builder();
        let builder = names.iter().fold(builder, |builder, name| builder.policy(Policy::new(*name, gate())));
        builder.build().unwrap_err()
    };
    assert_eq!(error(&[]), LayerError::NoPolicy);
    assert_eq!(error(&["a", "Bad name"]), LayerError::BadName("Bad name".into()));
    assert_eq!(error(&["a", "b", "a"]), LayerError::DuplicateName("a".into()));
    assert!(error(&[""]).to_string().contains("use a lower-case letter"));
}
