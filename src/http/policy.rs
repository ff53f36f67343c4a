//! [`Policy`]: one limit, the requests it is for, and how it counts them.

use super::path::Pattern;
use super::{Head, client::Client, client::Identify};
use crate::algorithm::Algorithm;
#[cfg(feature = "redis")]
use crate::redis::SharedLimiter;
use crate::{Clock, Demand, Gate, Limiter};
use http::{Method, StatusCode};
use std::borrow::Cow;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

/// What a policy draws from: a [`Limiter`], in which each client has a state of its own, or a [`Gate`], which all share.
/// Of any algorithm, with any clock. Implemented by this crate only.
pub trait Limit: sealed::Asked {}

pub(super) mod sealed {
    use super::*;

    pub trait Asked: Send + Sync + 'static {
        /// Whether it matters who the client is.
        fn by_client(&self) -> bool;

        fn demand(&self, client: &Client, cost: u64) -> Demand<'_>;

        /// How long it takes until a client that has used everything has everything again.
        fn window(&self) -> Duration;

        /// How many clients are held, and how often they moved to another table.
        fn upkeep(&self) -> Option<(usize, u64)>;
    }
}

impl<A: Algorithm, C: Clock, S: BuildHasher + Send + Sync + 'static> Limit for Limiter<A, C, S> {}

impl<A: Algorithm, C: Clock, S: BuildHasher + Send + Sync + 'static> sealed::Asked for Limiter<A, C, S> {
    fn by_client(&self) -> bool {
        true
    }

    fn demand(&self, client: &Client, cost: u64) -> Demand<'_> {
        self.demand(client, cost)
    }

    fn window(&self) -> Duration {
        self.window()
    }

    fn upkeep(&self) -> Option<(usize, u64)> {
        Some((self.len(), self.migrations()))
    }
}

impl<A: Algorithm, C: Clock> Limit for Gate<A, C> {}

impl<A: Algorithm, C: Clock> sealed::Asked for Gate<A, C> {
    fn by_client(&self) -> bool {
        false
    }

    fn demand(&self, _: &Client, cost: u64) -> Demand<'_> {
        self.demand(cost)
    }

    fn window(&self) -> Duration {
        self.window()
    }

    fn upkeep(&self) -> Option<(usize, u64)> {
        None
    }
}

/// Where a policy's limit is.
#[derive(Clone)]
enum Place {
    Here(Arc<dyn sealed::Asked>),
    #[cfg(feature = "redis")]
    Shared(SharedLimiter),
}

/// What a policy asks of its limit about a request.
pub(super) enum Ask<'a> {
    Here(Demand<'a>),
    #[cfg(feature = "redis")]
    Shared {
        limiter: &'a SharedLimiter,
        key: String,
        cost: u64,
    },
}

type Predicate = Arc<dyn Fn(&Head<'_>) -> bool + Send + Sync>;

#[derive(Clone)]
enum Cost {
    Fixed(u64),
    By(Arc<dyn Fn(&Head<'_>) -> u64 + Send + Sync>),
}

/// A named limit, with the requests that it is for.
///
/// For all requests, at a cost of 1 each, unless told otherwise. What `path`, `methods` and `when` ask for must all be true.
///
/// ```
/// use http::Method;
/// use tollgate::http::Policy;
/// use tollgate::{Limiter, Quota};
///
/// let logins = Limiter::token_bucket(Quota::per_minute(5)).build()?;
/// let policy = Policy::new("logins", logins).path("/login").methods([Method::POST]).failures_only();
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Policy {
    name: Cow<'static, str>,
    limit: Place,
    applies: Vec<Predicate>,
    cost: Cost,
    identify: Option<Arc<dyn Identify>>,
    stays: Option<Arc<dyn Fn(StatusCode) -> bool + Send + Sync>>,
    shadow: bool,
    window: Option<Duration>,
}

impl Policy {
    /// The name of a policy that was given none.
    pub(super) const DEFAULT: &'static str = "default";

    /// A policy for all requests. Its name is told to clients, metrics and logs: a lower-case letter, then more of
    /// those, digits, and `_`, `.` or `-`.
    pub fn new(name: impl Into<Cow<'static, str>>, limit: impl Limit) -> Self {
        Self::at(name.into(), Place::Here(Arc::new(limit)))
    }

    /// The same with a limit in a store that other processes share, for a
    /// [`SharedRateLimitLayer`](super::SharedRateLimitLayer). Clients are known there as
    /// [`Client::expose`](super::client::Client::expose) writes them, hashed unless the store is told otherwise. Bearer
    /// tokens need one key in all processes: [`Bearer::keyed`](super::client::Bearer::keyed).
    #[cfg(feature = "redis")]
    pub fn shared(name: impl Into<Cow<'static, str>>, limit: SharedLimiter) -> Self {
        Self::at(name.into(), Place::Shared(limit))
    }

    fn at(name: Cow<'static, str>, limit: Place) -> Self {
        Self {
            name,
            limit,
            applies: Vec::new(),
            cost: Cost::Fixed(1),
            identify: None,
            stays: None,
            shadow: false,
            window: None,
        }
    }

    /// Only for requests of which this is true.
    pub fn when(mut self, predicate: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.applies.push(Arc::new(predicate));
        self
    }

    /// Only for this path, or, with `/*` at the end, for it and all below.
    ///
    /// The path is compared byte by byte, as routers do. It is the path that the layer sees: a router that nests others
    /// cuts off what it has matched.
    pub fn path(self, pattern: impl Into<Cow<'static, str>>) -> Self {
        let pattern = Pattern::new(pattern);
        self.when(move |head| pattern.matches(head.uri().path()))
    }

    /// Only for these methods.
    pub fn methods(self, methods: impl IntoIterator<Item = Method>) -> Self {
        let methods: Vec<Method> = methods.into_iter().collect();
        self.when(move |head| methods.contains(head.method()))
    }

    /// What each request costs, instead of 1. A cost of 0 always passes.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = Cost::Fixed(cost);
        self
    }

    /// What a request costs, by what it asks for: say its `Content-Length` in kilobytes.
    pub fn cost_by(mut self, cost: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Cost::By(Arc::new(cost));
        self
    }

    /// Whose request it is for this policy, instead of what the layer goes by. Means nothing for a [`Gate`].
    pub fn by(mut self, identify: impl Identify) -> Self {
        self.identify = Some(Arc::new(identify));
        self
    }

    /// Gives the charge back unless this is true of the answer's status.
    ///
    /// A request is charged when it comes, so no more of them can be under way at a time than the limit says. It gets its
    /// charge back once the answer's head is there, less what has refilled since, as by
    /// [`Allowed::give_back`](crate::Allowed::give_back): who holds a request open gains nothing by it. A request that ends
    /// without an answer, because the service failed or the client went away, stays charged.
    pub fn charge_if(mut self, stays: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.stays = Some(Arc::new(stays));
        self
    }

    /// Charges failures only: answers with a status of 400 or above. For a login, it counts wrong passwords.
    pub fn failures_only(self) -> Self {
        self.charge_if(|status| status.is_client_error() || status.is_server_error())
    }

    /// Counts and reports what would be refused, and refuses nothing: to try a limit out. Clients are told nothing of it.
    pub fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// The window to state in `RateLimit-Policy`, in whole seconds rounded up. Unless told otherwise, the time after which
    /// a client that has used everything has everything again.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    pub(super) fn name(&self) -> &Cow<'static, str> {
        &self.name
    }

    /// Whether it matters who the client is.
    pub(super) fn by_client(&self) -> bool {
        match &self.limit {
            Place::Here(limit) => limit.by_client(),
            #[cfg(feature = "redis")]
            Place::Shared(_) => true,
        }
    }

    pub(super) fn ask(&self, client: &Client, head: &Head<'_>) -> Ask<'_> {
        let cost = self.cost_of(head);
        match &self.limit {
            Place::Here(limit) => Ask::Here(limit.demand(client, cost)),
            #[cfg(feature = "redis")]
            Place::Shared(limiter) => Ask::Shared { limiter, key: client.expose().to_string(), cost },
        }
    }

    /// Whether the limit is in a store.
    pub(super) fn is_shared(&self) -> bool {
        !matches!(self.limit, Place::Here(_))
    }

    /// How many clients are held here, and how often they moved to another table.
    #[cfg(feature = "metrics")]
    pub(super) fn upkeep(&self) -> Option<(usize, u64)> {
        match &self.limit {
            Place::Here(limit) => limit.upkeep(),
            #[cfg(feature = "redis")]
            Place::Shared(_) => None,
        }
    }

    pub(super) fn applies(&self, head: &Head<'_>) -> bool {
        self.applies.iter().all(|predicate| predicate(head))
    }

    fn cost_of(&self, head: &Head<'_>) -> u64 {
        match &self.cost {
            Cost::Fixed(cost) => *cost,
            Cost::By(cost) => cost(head),
        }
    }

    pub(super) fn identify(&self) -> Option<&dyn Identify> {
        self.identify.as_deref()
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether a charge is ever given back.
    pub(super) fn is_conditional(&self) -> bool {
        self.stays.is_some()
    }

    pub(super) fn keeps(&self, status: StatusCode) -> bool {
        self.stays.as_ref().is_none_or(|stays| stays(status))
    }

    pub(super) fn stated_window(&self) -> Duration {
        self.window.unwrap_or_else(|| match &self.limit {
            Place::Here(limit) => limit.window(),
            #[cfg(feature = "redis")]
            Place::Shared(limiter) => limiter.window(),
        })
    }
}

/// A policy named `default`.
impl<L: Limit> From<L> for Policy {
    fn from(limit: L) -> Self {
        Self::new(Self::DEFAULT, limit)
    }
}

/// A policy named `default`.
#[cfg(feature = "redis")]
impl From<SharedLimiter> for Policy {
    fn from(limit: SharedLimiter) -> Self {
        Self::shared(Self::DEFAULT, limit)
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).field("shadow", &self.shadow).finish_non_exhaustive()
    }
}
