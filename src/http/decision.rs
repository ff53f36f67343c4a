//! [`Decision`]: what the policies said about a request, for handlers and responses.

use crate::few::Few;
use crate::{Allowed, Denied, Reason, Status};
use http::Extensions;
use std::borrow::Cow;
use std::time::Duration;

/// What all policies that were asked said about a request.
///
/// A layer puts it into the request's extensions, where handlers find it:
///
/// ```
/// use http::{Request, Response};
/// use tollgate::http::Decision;
///
/// async fn handler(request: Request<String>) -> Response<String> {
///     let left = request.extensions().get::<Decision>().and_then(Decision::remaining);
///     Response::new(format!("{left:?} left"))
/// }
/// ```
///
/// In axum it is an extractor too, with the feature `axum`. Where several layers decide on a request, the answers of the
/// outer ones come first.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    answers: Few<Answer, 1>,
}

impl Decision {
    /// The answer of each policy, in the order in which they were given to the layer.
    pub fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter()
    }

    /// The answer of the policy of this name, if it was asked.
    pub fn policy(&self, name: &str) -> Option<&Answer> {
        self.answers().find(|answer| answer.policy == name)
    }

    /// The policy in force that leaves the least: of those that leave the same, the one that takes longest to be whole.
    /// `None` if no policy was asked but in shadow.
    pub fn tightest(&self) -> Option<&Answer> {
        let enforced = self.answers().filter(|answer| !answer.shadow);
        enforced.min_by_key(|answer| (answer.remaining(), std::cmp::Reverse(answer.reset_after())))
    }

    /// The least that any policy in force leaves, in whole tokens.
    pub fn remaining(&self) -> Option<u64> {
        self.tightest().map(Answer::remaining)
    }

    pub(super) fn push(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// Puts the decision where handlers find it, behind those of outer layers.
    pub(super) fn attach(self, extensions: &mut Extensions) {
        match extensions.get_mut::<Self>() {
            Some(outer) => outer.answers.extend(self.answers),
            None => _ = extensions.insert(self),
        }
    }

    /// So much was given back of what the policy at a place was charged.
    pub(super) fn note_returned(&mut self, place: usize, returned: u64) {
        if let Some(answer) = self.answers.iter_mut().find(|answer| answer.place == place) {
            answer.returned = returned;
        }
    }

    /// Whether this layer has decided on the request already.
    pub(super) fn is_by(&self, layer: usize) -> bool {
        self.answers().any(|answer| answer.layer == layer)
    }
}

/// What one policy said about a request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) layer: usize,
    /// The policy's place in its layer.
    pub(super) place: usize,
    pub(super) policy: Cow<'static, str>,
    pub(super) shadow: bool,
    pub(super) window: Duration,
    /// A hash that tells clients apart, where they are to be.
    pub(super) partition: Option<u64>,
    pub(super) outcome: Result<Status, Denied>,
    /// What was put back since.
    pub(super) returned: u64,
}

impl Answer {
    /// The policy's name.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The largest cost that can be admitted at once, in tokens.
    pub fn limit(&self) -> u64 {
        self.outcome.as_ref().map_or_else(Denied::limit, Status::limit)
    }

    /// Whole tokens left after the decision.
    pub fn remaining(&self) -> u64 {
        let left = self.outcome.as_ref().map_or_else(Denied::remaining, Status::remaining);
        left.saturating_add(self.returned).min(self.limit())
    }

    /// Time from the decision until the whole limit is there again, if nobody calls.
    pub fn reset_after(&self) -> Duration {
        self.outcome.as_ref().map_or_else(Denied::reset_after, Status::reset_after)
    }

    /// Why the policy refused the request, if it did: in shadow, it would have.
    pub fn reason(&self) -> Option<Reason> {
        self.outcome.as_ref().err().map(Denied::reason)
    }

    /// How long to wait, where the policy refused the request and waiting helps.
    pub fn retry_after(&self) -> Option<Duration> {
        self.outcome.as_ref().err().and_then(Denied::retry_after)
    }

    /// Whether the policy only tries out what it would do.
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// The window that is stated to clients.
    pub fn window(&self) -> Duration {
        self.window
    }

    /// Whether the policy is in force and refused the request.
    pub(super) fn refuses(&self) -> bool {
        !self.shadow && self.outcome.is_err()
    }
}

/// What is left after a call that was let pass.
impl From<&Allowed> for Status {
    fn from(allowed: &Allowed) -> Self {
        Self { snapshot: allowed.snapshot }
    }
}

#[cfg(feature = "axum")]
mod extract {
    use super::Decision;
    use axum::extract::FromRequestParts;
    use http::request::Parts;
    use std::convert::Infallible;

    /// The decision, or one without answers where no layer has decided.
    impl<S: Send + Sync> FromRequestParts<S> for Decision {
        type Rejection = Infallible;

        async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
            Ok(parts.extensions.get().cloned().unwrap_or_default())
        }
    }
}
