//! For the tests of services: does a limit do what it should?
//!
//! ```
//! use http::{Request, Response};
//! use std::convert::Infallible;
//! use tollgate::http::{RateLimitLayer, testing::assert_limit};
//! use tollgate::{Limiter, ManualClock, Quota};
//! use tower::{ServiceBuilder, service_fn};
//!
//! # run(async {
//! let clock = ManualClock::new();
//! let limiter = Limiter::token_bucket(Quota::per_minute(5)).clock(clock.clone()).build().unwrap();
//! let mut service = ServiceBuilder::new()
//!     .layer(RateLimitLayer::new(limiter))
//!     .service(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(()))));
//!
//! assert_limit(&mut service, || Request::new(()), 5, Some(12)).await;
//! clock.advance(std::time::Duration::from_secs(24));
//! assert_limit(&mut service, || Request::new(()), 2, Some(12)).await;
//! # });
//! # fn run(future: impl Future<Output = ()>) {
//! #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
//! # }
//! ```
//!
//! The clock is the one that the limiter was given, so a test reaches it through any number of layers.

use http::{HeaderMap, Request, Response, StatusCode, header::RETRY_AFTER};
use std::fmt::Debug;
use std::future::poll_fn;
use tower_service::Service;

/// Sends requests to a service and asserts that the first `passes` of them are let through, whatever they are answered,
/// and that the next one is refused and told to wait for `retry_after` seconds, or with `None` that no wait helps.
///
/// A refusal is a 429, or in gRPC the status RESOURCE_EXHAUSTED; there the wait is what `grpc-retry-pushback-ms` says,
/// rounded up to seconds.
///
/// # Panics
///
/// If it is otherwise, or if the service fails.
pub async fn assert_limit<S, B, R>(
    service: &mut S,
    mut request: impl FnMut() -> Request<B>,
    passes: u64,
    retry_after: Option<u64>,
) where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Debug,
{
    for passed in 0..passes {
        let response = send(service, request()).await;
        assert!(
            !is_refusal(&response),
            "request {} of {passes} was refused, to be sent again after {:?} seconds",
            passed + 1,
            wait(response.headers()),
        );
    }
    let response = send(service, request()).await;
    assert!(is_refusal(&response), "request {} was let through, with status {}", passes + 1, response.status());
    let wait = wait(response.headers());
    assert_eq!(wait, retry_after, "seconds that the refused request {} is told to wait", passes + 1);
}

async fn send<S, B, R>(service: &mut S, request: Request<B>) -> Response<R>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Debug,
{
    poll_fn(|cx| service.poll_ready(cx)).await.expect("a service that is ready");
    service.call(request).await.expect("a response")
}

fn is_refusal<R>(response: &Response<R>) -> bool {
    response.status() == StatusCode::TOO_MANY_REQUESTS
        || response.headers().get("grpc-status").is_some_and(|status| status == "8")
}

fn wait(headers: &HeaderMap) -> Option<u64> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<i64>().ok();
    let pushback = || number("grpc-retry-pushback-ms").map(|millis| (millis + 999).div_euclid(1000));
    number(RETRY_AFTER.as_str()).or_else(pushback).and_then(|seconds| u64::try_from(seconds).ok()).filter(|&s| s > 0)
}
