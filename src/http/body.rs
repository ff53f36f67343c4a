//! [`RateLimitBody`]: the service's body, or a refusal's.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// The body of a response that came through a [`RateLimit`](super::RateLimit): the service's own, or that of a refusal.
    #[derive(Debug)]
    pub struct RateLimitBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = Projected]
    enum Kind<B> {
        Service { #[pin] body: B },
        Refusal { data: Bytes },
    }
}

impl<B> RateLimitBody<B> {
    pub(super) fn service(body: B) -> Self {
        Self { kind: Kind::Service { body } }
    }

    pub(super) fn refusal(data: Bytes) -> Self {
        Self { kind: Kind::Refusal { data } }
    }
}

impl<B: Default> Default for RateLimitBody<B> {
    fn default() -> Self {
        Self::service(B::default())
    }
}

impl<B> Body for RateLimitBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().kind.project() {
            Projected::Service { body } => body.poll_frame(cx),
            Projected::Refusal { data } if data.is_empty() => Poll::Ready(None),
            Projected::Refusal { data } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(data).into())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Service { body } => body.is_end_stream(),
            Kind::Refusal { data } => data.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Service { body } => body.size_hint(),
            Kind::Refusal { data } => SizeHint::with_exact(data.len() as u64),
        }
    }
}
