//! [`Decision`]: what the policies said about a request, for handlers and responses.

use crate::algorithm::Snapshot;
use crate::few::Few;
use crate::{Allowed, Denied, Reason, Status};
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

    #[inline]
    pub(super) fn push(&mut self, answer: Answer) -> &Answer {
        self.answers.push(answer)
    }

    /// What this layer has said.
    pub(super) fn part_of(&self, layer: usize) -> Self {
        Self { answers: self.answers().filter(|answer| answer.layer == layer).cloned().collect() }
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
    /// In whole seconds, as it is told. A `Duration` has padding, and would be copied together with half of its neighbour.
    pub(super) window: u64,
    /// A hash that tells clients apart, where they are to be.
    pub(super) partition: Option<u64>,
    pub(super) outcome: Outcome,
    /// What was put back since.
    pub(super) returned: u64,
}

/// What a decision came to: as little of [`Allowed`] and of [`Denied`] as answers need, in one form for both, so that it is
/// copied and never taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    snapshot: Snapshot,
    /// The cost that was refused, and why.
    refused: Option<(u64, Reason)>,
}

impl Outcome {
    #[inline]
    pub(super) fn of<A: Left>(answer: &Result<A, Denied>) -> Self {
        let (snapshot, refused) = match answer {
            Ok(left) => (left.snapshot(), None),
            Err(denied) => (&denied.snapshot, Some((denied.cost, denied.reason))),
        };
        Self { snapshot: *snapshot, refused }
    }
}

/// What tells what is left to a client that was not refused.
pub(super) trait Left {
    fn snapshot(&self) -> &Snapshot;
}

impl Left for Allowed {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl Left for Status {
    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

impl Answer {
    /// The policy's name.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The largest cost that can be admitted at once, in tokens.
    pub fn limit(&self) -> u64 {
        self.outcome.snapshot.limit()
    }

    /// Whole tokens left after the decision.
    pub fn remaining(&self) -> u64 {
        self.outcome.snapshot.remaining().saturating_add(self.returned).min(self.limit())
    }

    /// Time from the decision until the whole limit is there again, if nobody calls.
    pub fn reset_after(&self) -> Duration {
        Duration::from_nanos(self.outcome.snapshot.reset_after())
    }

    /// Why the policy refused the request, if it did: in shadow, it would have.
    pub fn reason(&self) -> Option<Reason> {
        self.outcome.refused.map(|(_, reason)| reason)
    }

    /// How long to wait, where the policy refused the request and waiting helps.
    pub fn retry_after(&self) -> Option<Duration> {
        let (cost, _) = self.outcome.refused?;
        self.outcome.snapshot.retry_after(cost).map(Duration::from_nanos)
    }

    /// Whether the policy only tries out what it would do.
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// The window that is stated to clients, in whole seconds rounded up.
    pub fn window(&self) -> Duration {
        Duration::from_secs(self.window)
    }

    /// Whether the policy is in force and refused the request.
    pub(super) fn refuses(&self) -> bool {
        !self.shadow && self.outcome.refused.is_some()
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
