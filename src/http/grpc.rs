//! Refusals of gRPC calls.
//!
//! A gRPC client takes a plain 429 for UNAVAILABLE, which it may retry at once. So it gets what it understands: 200, and in
//! the headers, which are the trailers of a response without a body, the status RESOURCE_EXHAUSTED and when to come back.

use super::refusal::Refusal;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::time::Duration;

const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The content type of a gRPC call, of any kind.
pub(super) fn content_type(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers
        .get(CONTENT_TYPE)
        .filter(|value| value.as_bytes().get(..16).is_some_and(|start| start.eq_ignore_ascii_case(b"application/grpc")))
}

pub(super) fn respond(refusal: &Refusal<'_>, content_type: &HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    status(refusal, headers);
    headers.insert(CONTENT_TYPE, content_type.clone());
    headers.insert(PUSHBACK, pushback(refusal.retry_after).into());
    response
}

/// Milliseconds, rounded up. A number below zero tells a client not to retry: where no wait helps, or one of more than 24
/// days, which the 32 bits of this header do not hold.
fn pushback(wait: Option<Duration>) -> i32 {
    wait.and_then(|wait| i32::try_from(wait.as_nanos().div_ceil(1_000_000)).ok()).unwrap_or(-1)
}

/// As tonic writes it, with `google.rpc.RetryInfo` among the details.
#[cfg(feature = "tonic")]
fn status(refusal: &Refusal<'_>, headers: &mut HeaderMap) {
    use tonic_types::{ErrorDetails, StatusExt};

    let code = match refusal.status() {
        StatusCode::FORBIDDEN => tonic::Code::PermissionDenied,
        StatusCode::SERVICE_UNAVAILABLE => tonic::Code::Unavailable,
        _ => tonic::Code::ResourceExhausted,
    };
    let status = match refusal.retry_after {
        Some(wait) => {
            tonic::Status::with_error_details(code, refusal.message(), ErrorDetails::with_retry_info(Some(wait)))
        }
        None => tonic::Status::new(code, refusal.message()),
    };
    // Fails only for what cannot stand in a header; our messages can.
    let _ = status.add_header(headers);
}

#[cfg(not(feature = "tonic"))]
fn status(refusal: &Refusal<'_>, headers: &mut HeaderMap) {
    let code = match refusal.status() {
        StatusCode::FORBIDDEN => 7,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        _ => 8,
    };
    headers.insert("grpc-status", HeaderValue::from(code));
    // Our messages have nothing that gRPC would encode.
    if let Ok(message) = HeaderValue::try_from(refusal.message()) {
        headers.insert("grpc-message", message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pushback_is_rounded_up_and_below_zero_where_it_does_not_fit() {
        for (wait, millis) in [
            (Some(Duration::from_nanos(1)), 1),
            (Some(Duration::from_millis(400)), 400),
            (Some(Duration::from_micros(1_200_001)), 1201),
            (Some(Duration::from_millis(i32::MAX as u64)), i32::MAX),
            (Some(Duration::from_millis(i32::MAX as u64 + 1)), -1),
            (Some(Duration::MAX), -1),
            (None, -1),
        ] {
            assert_eq!(pushback(wait), millis, "{wait:?}");
        }
    }
}
