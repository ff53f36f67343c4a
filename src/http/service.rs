//! [`RateLimit`], a service with limits around it, and the future of its responses.

use super::body::RateLimitBody;
use super::rules::{After, Rules, Verdict};
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

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let after = match self.rules.decide(&mut request) {
            Verdict::Passed => None,
            Verdict::PassedWith(after) => Some(after),
            Verdict::Refused(response) => return ResponseFuture { state: State::Refused { response: Some(response) } },
        };
        ResponseFuture { state: State::Passed { future: self.inner.call(request), after } }
    }
}

impl<S: fmt::Debug> fmt::Debug for RateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
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
        Refused { response: Option<Box<Response<Bytes>>> },
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<RateLimitBody<R>>, E>;

    #[inline]
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
