//! [`RateLimit`], a service with limits around it, and the future of its responses.

use super::Head;
use super::body::RateLimitBody;
use super::decision::Decision;
use super::rules::{Exempt, Rules, Verdict};
use crate::Allowed;
use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_service::Service;

/// A service with limits around it. Made by [`RateLimitLayer`](super::RateLimitLayer); clones share the layer's state.
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S> RateLimit<S> {
    pub(super) fn new(inner: S, rules: Arc<Rules>) -> Self {
        Self { inner, rules }
    }

    /// The service inside.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service inside.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The service inside.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<RateLimitBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let after = match self.rules.decide(&Head::from(&request)) {
            Verdict::Refused(response) => return ResponseFuture { state: State::Refused { response: Some(response) } },
            Verdict::Uncounted => None,
            Verdict::Exempt => {
                request.extensions_mut().insert(Exempt);
                None
            }
            Verdict::Allowed { decision, conditional } => {
                let tells = self.rules.headers.are_on_every_response();
                let after = (tells || !conditional.is_empty()).then(|| {
                    let decision = if tells { decision.clone() } else { Decision::default() };
                    Box::new(After { rules: self.rules.clone(), decision, conditional })
                });
                decision.attach(request.extensions_mut());
                after
            }
        };
        ResponseFuture { state: State::Passed { future: self.inner.call(request), after } }
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// What is left to do once the service has answered.
struct After {
    rules: Arc<Rules>,
    decision: Decision,
    conditional: Vec<(usize, Allowed)>,
}

impl After {
    fn finish<R>(mut self, response: &mut Response<R>) {
        for (place, allowed) in self.conditional {
            if !self.rules.rules[place].policy.keeps(response.status()) {
                self.decision.note_returned(place, allowed.give_back());
            }
        }
        if self.rules.headers.are_on_every_response() {
            self.rules.headers.write(&self.decision, response.headers_mut());
        }
    }
}

pin_project! {
    /// The future of a response from a [`RateLimit`].
    pub struct ResponseFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = Projected]
    enum State<F> {
        Passed { #[pin] future: F, after: Option<Box<After>> },
        Refused { response: Option<Response<Bytes>> },
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<RateLimitBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            Projected::Passed { future, after } => {
                let mut response = ready!(future.poll(cx))?;
                if let Some(after) = after.take() {
                    after.finish(&mut response);
                }
                Poll::Ready(Ok(response.map(RateLimitBody::service)))
            }
            Projected::Refused { response } => {
                let response = response.take().expect("a future is not polled after it is ready");
                Poll::Ready(Ok(response.map(RateLimitBody::refusal)))
            }
        }
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
