//! [`SharedRateLimitLayer`]: limits in a store around a service, which have to be waited for.
//!
//! The limits in this process are asked first. Only if they let a request pass are those in the store, all together and in
//! one round trip where they can be; if they refuse, what the others charged is given back.

use super::Head;
use super::body::RateLimitBody;
use super::layer::RateLimitLayer;
use super::policy::Ask;
use super::rules::{Asked, Rules, Verdict, answers, enforced};
use crate::few::Few;
use crate::redis::{self, CheckAllError, SharedLimiter};
use crate::{Allowed, Denied, Status, check_all};
use http::{Request, Response};
use std::fmt;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// Puts limits around any HTTP service of which some are in a store: a [`RateLimitLayer`] that waits for them.
///
/// It needs a service that can be cloned, and takes an allocation for each request.
///
/// ```
/// use tollgate::http::{Policy, RateLimitLayer};
/// use tollgate::redis::{SharedLimiter, Store};
/// use tollgate::{Gate, Quota};
///
/// let store = Store::open("redis://127.0.0.1/")?;
/// let daily = SharedLimiter::fixed_window("daily", Quota::per_day(1000)).build(&store)?;
/// let layer = RateLimitLayer::builder()
///     .policy(Policy::shared("daily", daily))
///     .policy(Policy::new("here", Gate::token_bucket(Quota::per_second(5000)).build()?))
///     .build_shared()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// All policies that are for a request are decided on together. Those whose keys cannot share a slot of a cluster, or that
/// are in several stores, are asked one after the other, and what was charged is given back if one refuses.
///
/// A request that is cancelled while it waits was counted or not, and is not let through.
#[derive(Clone, Debug)]
pub struct SharedRateLimitLayer {
    layer: RateLimitLayer,
}

impl SharedRateLimitLayer {
    pub(super) fn new(layer: RateLimitLayer) -> Self {
        Self { layer }
    }

    /// Reports the gauges of limits in this process, as [`RateLimitLayer::publish_metrics`] does.
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self) {
        self.layer.publish_metrics();
    }
}

impl<S> Layer<S> for SharedRateLimitLayer {
    type Service = SharedRateLimit<S>;

    fn layer(&self, inner: S) -> SharedRateLimit<S> {
        SharedRateLimit { inner, rules: self.layer.rules.clone() }
    }
}

/// A service with limits around it of which some are in a store. Made by [`SharedRateLimitLayer`]; clones share the layer's
/// state.
#[derive(Clone)]
pub struct SharedRateLimit<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S, B, R> Service<Request<B>> for SharedRateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Send,
{
    type Response = Response<RateLimitBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The one that is ready goes along, and its clone stays.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let rules = self.rules.clone();
        Box::pin(async move {
            let mut asked = Few::new();
            let verdict = match rules.before(&mut request, &mut asked) {
                ControlFlow::Break(verdict) => verdict,
                ControlFlow::Continue(()) => {
                    let taken = take(&asked).await;
                    conclude(&rules, &mut request, &asked, taken)
                }
            };
            let after = match verdict {
                Verdict::Passed => None,
                Verdict::PassedWith(after) => Some(after),
                Verdict::Refused(response) => return Ok(response.map(RateLimitBody::refusal)),
            };
            let mut response = inner.call(request).await?;
            if let Some(mut after) = after {
                for (place, allowed) in after.take_returns(response.status()) {
                    if let Some(one) = asked.iter().find(|one| one.place == place) {
                        after.note_returned(place, give_back(one, allowed).await);
                    }
                }
                after.tell(response.headers_mut());
            }
            Ok(response.map(RateLimitBody::service))
        })
    }
}

/// What came of taking from the limits.
enum Taken {
    /// All in force let it pass. In the order of the policies, with those in shadow.
    All(Vec<Result<Allowed, Denied>>),
    /// One refused. By places among those asked, as far as they were asked, and how long to wait.
    Nothing(Vec<(usize, Result<Status, Denied>)>, Option<Duration>),
}

fn conclude<B>(rules: &Arc<Rules>, request: &mut Request<B>, asked: &Few<Asked<'_>>, taken: Taken) -> Verdict {
    match taken {
        Taken::All(said) => {
            let mut said = said.into_iter();
            rules.allow(request.extensions_mut(), answers(asked, |_| said.next()))
        }
        Taken::Nothing(outcomes, wait) => {
            let of = |(place, outcome)| Some((asked.iter().nth(place)?, outcome));
            rules.deny(&Head::from(&*request), outcomes.into_iter().filter_map(of), wait)
        }
    }
}

async fn take(asked: &Few<Asked<'_>>) -> Taken {
    let places = |shared: bool| {
        let in_force = asked.iter().enumerate().filter(|(_, one)| one.is_enforced());
        in_force.filter(move |(_, one)| one.here().is_none() == shared).map(|(place, _)| place)
    };
    let here = match check_all(enforced(asked).filter_map(Asked::here)) {
        Ok(here) => here,
        Err(denied) => {
            let wait = denied.retry_after();
            return Taken::Nothing(places(false).zip(denied.into_outcomes()).collect(), wait);
        }
    };
    let there = match take_shared(&enforced(asked).filter_map(shared).collect::<Vec<_>>()).await {
        Ok(there) => there,
        Err((outcomes, wait)) => {
            let given_back = |allowed: Allowed| {
                let status = left(&allowed);
                allowed.give_back();
                Ok(status)
            };
            let here = places(false).zip(here.into_iter().map(given_back));
            let mut outcomes: Vec<_> = here.chain(places(true).zip(outcomes)).collect();
            outcomes.sort_by_key(|&(place, _)| place);
            return Taken::Nothing(outcomes, wait);
        }
    };
    let (mut here, mut there) = (here.into_iter(), there.into_iter());
    let mut answers = Vec::with_capacity(asked.len());
    for one in asked.iter() {
        let answer = match (one.is_enforced(), one.here(), shared(one)) {
            (true, Some(_), _) => here.next().map(Ok),
            (true, None, _) => there.next().map(Ok),
            (false, Some(demand), _) => Some(demand.check()),
            (false, None, Some((limiter, key, cost))) => Some(limiter.check_n(key, cost).await),
            (false, None, None) => None,
        };
        answers.extend(answer);
    }
    Taken::All(answers)
}

type Refused = (Vec<Result<Status, Denied>>, Option<Duration>);

async fn take_shared(demands: &[(&SharedLimiter, &str, u64)]) -> Result<Vec<Allowed>, Refused> {
    match redis::check_all(demands.iter().map(|&(limiter, key, cost)| limiter.demand(key, cost))).await {
        Ok(allowed) => return Ok(allowed.into_iter().collect()),
        Err(CheckAllError::Denied(denied)) => {
            let wait = denied.retry_after();
            return Err((denied.into_outcomes().collect(), wait));
        }
        // They cannot be decided on together.
        Err(_) => {}
    }
    let mut taken = Vec::with_capacity(demands.len());
    for &(limiter, key, cost) in demands {
        match limiter.check_n(key, cost).await {
            Ok(allowed) => taken.push(allowed),
            Err(denied) => {
                let wait = denied.retry_after();
                let mut outcomes = Vec::with_capacity(taken.len() + 1);
                for (&(limiter, key, cost), allowed) in demands.iter().zip(taken) {
                    outcomes.push(Ok(left(&allowed)));
                    // If the store does not answer, it stays charged.
                    let _ = limiter.give_back(key, cost, allowed).await;
                }
                outcomes.push(Err(denied));
                return Err((outcomes, wait));
            }
        }
    }
    Ok(taken)
}

/// What is left after a limit let a request pass that another one refused.
fn left(allowed: &Allowed) -> Status {
    Status { snapshot: allowed.snapshot }
}

/// What is asked of a limit in a store.
fn shared<'b>(one: &'b Asked<'_>) -> Option<(&'b SharedLimiter, &'b str, u64)> {
    match &one.ask {
        Ask::Here(_) => None,
        Ask::Shared { limiter, key, cost } => Some((limiter, key, *cost)),
    }
}

async fn give_back(one: &Asked<'_>, allowed: Allowed) -> u64 {
    match shared(one) {
        None => allowed.give_back(),
        // If the store does not answer, it stays charged.
        Some((limiter, key, cost)) => limiter.give_back(key, cost, allowed).await.unwrap_or(0),
    }
}

impl<S: fmt::Debug> fmt::Debug for SharedRateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
