//! [`Refusal`], and the response that it becomes.

use super::accept::Form;
use super::decision::{Answer, Decision};
use super::headers::{Headers, whole_seconds};
use super::text::Append;
use super::{Head, grpc};
use crate::Reason;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use std::time::Duration;

/// Why a request was not let through.
///
/// Passed to a [hook](super::RateLimitLayerBuilder::respond) that makes another response of it. Nothing in it tells who the
/// client is, except for the request itself.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The request.
    pub head: Head<'a>,
    /// What the policies of this layer said; without answers if the client is not known.
    pub decision: &'a Decision,
    /// What the client is told to wait: the longest wait of the policies that refuse, and the jitter. `None` where no wait
    /// helps: a policy can never admit the cost, or the client is not known.
    pub retry_after: Option<Duration>,
    headers: Headers,
}

impl<'a> Refusal<'a> {
    pub(super) fn new(head: Head<'a>, decision: &'a Decision, retry_after: Option<Duration>, headers: Headers) -> Self {
        Self { head, decision, retry_after, headers }
    }

    /// The policies that refuse.
    pub fn violated(&self) -> impl Iterator<Item = &'a Answer> {
        self.decision.answers().filter(|answer| answer.refuses())
    }

    /// 429 Too Many Requests, 403 Forbidden for a client who is not known, or 503 Service Unavailable where nobody but a
    /// store that is away is the reason.
    pub fn status(&self) -> StatusCode {
        let reasons = || self.violated().filter_map(Answer::reason);
        if reasons().next().is_none() {
            StatusCode::FORBIDDEN
        } else if reasons().all(|reason| reason == Reason::Unavailable) {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::TOO_MANY_REQUESTS
        }
    }

    /// The wait in whole seconds, for `Retry-After`: rounded up, and at least 1.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(|wait| whole_seconds(wait).max(1))
    }

    /// The response that is sent unless a hook makes another one: for gRPC a response that is trailers only, or else
    /// `application/problem+json` (RFC 9457) or `text/plain`, whichever is preferred by `Accept`.
    pub fn into_response(self) -> Response<Bytes> {
        let mut response = match grpc::content_type(self.head.headers()) {
            Some(content_type) => grpc::respond(&self, content_type),
            None => self.respond(Form::preferred(self.head.headers())),
        };
        // RFC 6585: a 429 must not be stored. A cache would go on to refuse a client who may call again.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        self.headers.write(self.decision, response.headers_mut());
        response
    }

    fn respond(&self, form: Form) -> Response<Bytes> {
        let (content_type, body) = match form {
            Form::Problem => ("application/problem+json", self.problem()),
            Form::Text => ("text/plain; charset=utf-8", self.message() + "\n"),
        };
        let mut response = Response::new(body.into());
        // All that is inserted here and by the caller, so that it is made room for once.
        response.headers_mut().reserve(5);
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(seconds) = self.retry_after_seconds() {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    /// A sentence about the refusal.
    pub(super) fn message(&self) -> String {
        let mut message = String::with_capacity(64);
        self.tell(&mut message);
        message
    }

    fn tell(&self, text: &mut String) {
        match (self.status(), self.retry_after_seconds()) {
            (StatusCode::FORBIDDEN, _) => text.word("The client of this request is not known."),
            (StatusCode::SERVICE_UNAVAILABLE, _) => text.word("The rate limit is unavailable."),
            (_, Some(1)) => text.word("Rate limit exceeded. Retry after 1 second."),
            (_, Some(seconds)) => text.word("Rate limit exceeded. Retry after ").number(seconds).word(" seconds."),
            (_, None) => text.word("This request costs more than its limit ever allows."),
        };
    }

    fn problem(&self) -> String {
        let status = self.status();
        let (kind, title) = match status {
            StatusCode::FORBIDDEN => ("about:blank", "Forbidden"),
            StatusCode::SERVICE_UNAVAILABLE => ("about:blank", "Service Unavailable"),
            _ => ("https://iana.org/assignments/http-problem-types#quota-exceeded", "Request quota exceeded"),
        };
        // Nothing here needs an escape: names are restricted to what does not.
        let mut json = String::with_capacity(256);
        json.word(r#"{"type":""#).word(kind).word(r#"","title":""#).word(title);
        json.word(r#"","status":"#).word(status.as_str()).word(r#","detail":""#);
        self.tell(&mut json);
        json.push('"');
        let mut before = r#","violated-policies":[""#;
        for answer in self.violated() {
            json.word(before).word(answer.policy()).word("\"");
            before = r#",""#;
        }
        json.push_str(if self.violated().next().is_some() { "]}" } else { "}" });
        json
    }
}
