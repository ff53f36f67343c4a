//! [`RateLimitLayer`], which puts limits around a service, and its builder.

use super::Head;
use super::client::{Client, ClientAddress, Identify};
use super::headers::{Headers, is_name};
use super::path::Pattern;
use super::policy::{Limit, Policy};
use super::refusal::Refusal;
use super::rules::{Dice, Exemption, Respond, Rule, Rules, WhenUnknown};
use super::service::RateLimit;
#[cfg(feature = "redis")]
use super::shared::SharedRateLimitLayer;
use bytes::Bytes;
use http::{Method, Response, header};
use std::borrow::Cow;
use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;

/// Puts limits around any HTTP service.
///
/// Clones and the services made by them share one state, over all connections. On the way of one request a layer counts
/// once, wherever its clones are mounted; two layers count on their own, also when they hold the same limiter.
///
/// [`new`](RateLimitLayer::new) limits each client address; a [`builder`](RateLimitLayer::builder) sets everything else.
///
/// ```
/// use tollgate::http::RateLimitLayer;
/// use tollgate::{Limiter, Quota};
///
/// let layer = RateLimitLayer::new(Limiter::token_bucket(Quota::per_second(10)).build()?);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone)]
pub struct RateLimitLayer {
    pub(super) rules: Arc<Rules>,
}

impl RateLimitLayer {
    /// One policy for all requests, named `default`. Clients are known by [address](ClientAddress), and all requests
    /// without one are one client's.
    pub fn new(limit: impl Limit) -> Self {
        Self::from_settings(Settings::default().with(limit.into()))
    }

    /// Starts to build a layer.
    pub fn builder() -> RateLimitLayerBuilder {
        RateLimitLayerBuilder { settings: Settings::default() }
    }

    /// Reports the gauges of each policy whose limit goes by clients, through the `metrics` facade: clients held, and how
    /// often they have moved. To be called before a scrape. Requests are counted as they come.
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self) {
        super::observe::describe();
        for Rule { policy, meter, .. } in &self.rules.rules {
            meter.report_upkeep(policy);
        }
    }

    fn from_settings(settings: Settings) -> Self {
        let Settings { policies, identify, exemptions, when_unknown, headers, jitter, respond, log_clients } = settings;
        let rules = policies.into_iter().map(Rule::new).collect();
        let identify = identify.unwrap_or_else(|| Arc::new(ClientAddress::new()));
        let (nobody, dice) = (Client::named("unknown", ""), Dice::default());
        Self {
            rules: Arc::new(Rules {
                rules,
                identify,
                exemptions,
                when_unknown,
                nobody,
                headers,
                jitter,
                respond,
                log_clients,
                dice,
            }),
        }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, self.rules.clone())
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies: Vec<&Policy> = self.rules.rules.iter().map(|rule| &rule.policy).collect();
        f.debug_struct("RateLimitLayer").field("policies", &policies).finish_non_exhaustive()
    }
}

/// Everything that can be chosen.
#[derive(Clone, Default)]
struct Settings {
    policies: Vec<Policy>,
    identify: Option<Arc<dyn Identify>>,
    exemptions: Vec<Exemption>,
    when_unknown: WhenUnknown,
    headers: Headers,
    jitter: Duration,
    respond: Option<Respond>,
    log_clients: bool,
}

impl Settings {
    fn with(mut self, policy: Policy) -> Self {
        self.policies.push(policy);
        self
    }
}

/// Builds a [`RateLimitLayer`].
///
/// ```
/// use http::Method;
/// use tollgate::http::{Policy, RateLimitLayer, client::{ApiKey, ClientAddress, Identify}};
/// use tollgate::{Limiter, Quota};
///
/// let burst = Limiter::token_bucket(Quota::per_second(10)).build()?;
/// let daily = Limiter::token_bucket(Quota::per_day(1000)).build()?;
/// let layer = RateLimitLayer::builder()
///     .policy(Policy::new("burst", burst))
///     .policy(Policy::new("daily", daily).path("/api/*").methods([Method::POST]))
///     .identify(ApiKey::new().or(ClientAddress::new()))
///     .exempt_path("/health")
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct RateLimitLayerBuilder {
    settings: Settings,
}

impl RateLimitLayerBuilder {
    /// Adds a policy; a limiter or a gate alone makes one named `default`, for all requests.
    ///
    /// All policies that are for a request are decided on together, as by [`check_all`](crate::check_all): a refusal by one
    /// charges none.
    pub fn policy(self, policy: impl Into<Policy>) -> Self {
        Self { settings: self.settings.with(policy.into()) }
    }

    /// Whose request it is, where a policy says nothing else. By default its [address](ClientAddress) tells.
    pub fn identify(mut self, identify: impl Identify) -> Self {
        self.settings.identify = Some(Arc::new(identify));
        self
    }

    /// What becomes of requests whose client is not known. By default they are all one client's.
    pub fn when_unknown(mut self, answer: WhenUnknown) -> Self {
        self.settings.when_unknown = answer;
        self
    }

    /// Never counts or refuses requests of which this is true, and marks them as [`Exempt`](super::Exempt) for the layers
    /// further in. A layer around this one counts them unless it exempts them itself.
    pub fn exempt(mut self, predicate: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.settings.exemptions.push(Arc::new(predicate));
        self
    }

    /// Exempts a path, or, with `/*` at the end, it and all below. It is compared as in [`Policy::path`].
    pub fn exempt_path(self, pattern: impl Into<Cow<'static, str>>) -> Self {
        let pattern = Pattern::new(pattern);
        self.exempt(move |head| pattern.matches(head.uri().path()))
    }

    /// Exempts CORS preflights. Not needed where a CORS layer is around this one, as it should be: it answers them itself.
    ///
    /// Anybody can send what looks like a preflight, so the service should do nothing costly for an OPTIONS request.
    pub fn exempt_preflights(self) -> Self {
        self.exempt(|head| {
            let has = |name| head.headers().contains_key(name);
            head.method() == Method::OPTIONS && has(header::ORIGIN) && has(header::ACCESS_CONTROL_REQUEST_METHOD)
        })
    }

    /// What responses tell clients about their limits.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.settings.headers = headers;
        self
    }

    /// Adds a random time from zero to `most` to each wait that a client is told, so that those who were refused together
    /// do not come back together. Never shortens it. None by default.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.settings.jitter = most;
        self
    }

    /// Makes refusals another response. [`Refusal::into_response`] gives the one to start from.
    ///
    /// ```
    /// use tollgate::http::{Refusal, RateLimitLayer};
    /// # use tollgate::{Limiter, Quota};
    ///
    /// # let limiter = Limiter::token_bucket(Quota::per_second(10)).build()?;
    /// let layer = RateLimitLayer::builder().policy(limiter).respond(|refusal: Refusal<'_>| {
    ///     refusal.into_response().map(|_| "Slow down, please.".into())
    /// });
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn respond(mut self, respond: impl Fn(Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.settings.respond = Some(Arc::new(respond));
        self
    }

    /// Puts the client into events about refusals, as [`Client::expose`](super::client::Client::expose) writes it: an API
    /// key in plain text. Without this, nothing that is reported tells who a client is.
    #[cfg(feature = "tracing")]
    pub fn log_clients(mut self) -> Self {
        self.settings.log_clients = true;
        self
    }

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// - [`LayerError::NoPolicy`]: there is nothing to limit by.
    /// - [`LayerError::BadName`]: a policy's name is not of the form `[a-z][a-z0-9_.-]*`.
    /// - [`LayerError::DuplicateName`]: two policies have the same name.
    /// - [`LayerError::Shared`]: the limit of a policy is in a store, and has to be waited for.
    pub fn build(self) -> Result<RateLimitLayer, LayerError> {
        if let Some(shared) = self.settings.policies.iter().find(|policy| policy.is_shared()) {
            return Err(LayerError::Shared(shared.name().to_string()));
        }
        self.check()
    }

    /// Builds a layer whose limits may be in a store.
    ///
    /// # Errors
    ///
    /// Those of [`build`](Self::build), but for [`LayerError::Shared`].
    #[cfg(feature = "redis")]
    pub fn build_shared(self) -> Result<SharedRateLimitLayer, LayerError> {
        Ok(SharedRateLimitLayer::new(self.check()?))
    }

    fn check(self) -> Result<RateLimitLayer, LayerError> {
        if self.settings.policies.is_empty() {
            return Err(LayerError::NoPolicy);
        }
        let mut names = HashSet::new();
        for name in self.settings.policies.iter().map(Policy::name) {
            if !is_name(name) {
                return Err(LayerError::BadName(name.to_string()));
            }
            if !names.insert(name) {
                return Err(LayerError::DuplicateName(name.to_string()));
            }
        }
        Ok(RateLimitLayer::from_settings(self.settings))
    }
}

impl fmt::Debug for RateLimitLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayerBuilder").field("policies", &self.settings.policies).finish_non_exhaustive()
    }
}

/// Why a layer cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerError {
    /// There is no policy.
    NoPolicy,
    /// A policy's name has a character that is not allowed, or is empty.
    BadName(String),
    /// Two policies have this name.
    DuplicateName(String),
    /// The limit of this policy is in a store, which a layer of limits in this process does not wait for.
    Shared(String),
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPolicy => write!(f, "no policy: add a limiter or a gate with `policy`"),
            Self::BadName(name) => {
                write!(f, "bad policy name {name:?}: use a lower-case letter, then a-z, 0-9, _, . or -")
            }
            Self::DuplicateName(name) => write!(f, "two policies are named {name:?}: give each its own name"),
            Self::Shared(name) => write!(f, "the limit of policy {name:?} is in a store: build with `build_shared`"),
        }
    }
}

impl Error for LayerError {}
