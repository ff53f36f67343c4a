//! Builders: everything about a store or a shared limiter that can be chosen.

use super::away::{Local, WhenAway};
use super::breaker::Breaker;
use super::error::SetupError;
use super::limiter::{Core, SharedLimiter};
use super::link::Address;
use super::name::{self, Naming};
use super::refusals::Refusals;
use super::rule::{LONGEST, Rule};
use super::store::{Shared, Store};
use crate::{Anchor, Clock, FixedWindow, Quota, SlidingCounter, Windowed};
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Builds a [`Store`]. Made by [`Store::at`].
#[must_use]
pub struct StoreBuilder {
    address: Result<Address, SetupError>,
    prefix: String,
    naming: Naming,
    budget: Duration,
    failures: u32,
    pause: Duration,
    clock: Option<Box<dyn Clock>>,
    grace: Duration,
}

impl StoreBuilder {
    fn new<E: fmt::Display>(address: Result<Address, E>) -> Self {
        Self {
            address: address.map_err(|error| SetupError::Address(error.to_string())),
            prefix: "tollgate".to_owned(),
            naming: Naming::hashed(b""),
            budget: Duration::from_millis(50),
            failures: 5,
            pause: Duration::from_millis(500),
            clock: None,
            grace: Duration::ZERO,
        }
    }

    pub(super) fn single(address: &str) -> Self {
        Self::new(redis::Client::open(address).map(Address::Single))
    }

    #[cfg(feature = "redis-cluster")]
    pub(super) fn cluster<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Self {
        // The library's retries would send a charge again whose fate it does not know.
        let builder = redis::cluster::ClusterClientBuilder::new(addresses).retries(0);
        Self::new(builder.build().map(|client| Address::Cluster(Box::new(client))))
    }

    /// What all key names begin with: `tollgate` by default.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// A secret by which the keys of clients are hashed, the same in all processes. Without one, whoever can read the store
    /// can find out by trying whether a client that they think of is in it.
    pub fn hash_key(mut self, secret: impl AsRef<[u8]>) -> Self {
        self.naming = Naming::hashed(secret.as_ref());
        self
    }

    /// Puts the keys of clients into the store as they are, with percent signs for what is not visible ASCII, and for
    /// braces, colons and percent signs.
    ///
    /// For tests and for looking at a store. Clients then decide how long names are, and the store shows who they are.
    pub fn readable_keys(mut self) -> Self {
        self.naming = Naming::Readable;
        self
    }

    /// How long a decision may take, from the call on, with all that it may wait for: 50 ms by default. Then the answer
    /// is what [`WhenAway`] says.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// After how many failures one after another the store is left alone, and for how long: after 5 for 500 ms by default.
    /// At the end of each pause one call tries it.
    pub fn breaker(mut self, failures: u32, pause: Duration) -> Self {
        (self.failures, self.pause) = (failures, pause);
        self
    }

    /// Passes this clock's time to the store, for servers that do not allow `TIME` in scripts. It has to count from the Unix
    /// epoch, as [`SystemClock`] does.
    ///
    /// A client's time never goes back: a call whose clock is behind is decided as of the latest time that was passed for
    /// that client. So clocks that differ do not add up, but the one most ahead decides how much has refilled. Keep the
    /// clocks of the instances together.
    pub fn pass_time(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// How much longer keys are kept than anything of them counts: not at all by default.
    ///
    /// Keys expire by the store's clock. Where another time is passed that may run slower, a grace keeps them long enough.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Opens the store. Connects when first asked.
    ///
    /// # Errors
    ///
    /// - [`SetupError::Address`]: an address cannot be understood.
    /// - [`SetupError::Name`]: the prefix does not fit into a name.
    /// - [`SetupError::Zero`]: the budget, the failures or the pause are zero.
    /// - [`SetupError::GraceTooLong`]: the grace is over 2^51 microseconds, about 71 years.
    pub fn open(self) -> Result<Store, SetupError> {
        let Self { address, prefix, naming, budget, failures, pause, clock, grace } = self;
        name::check(&prefix)?;
        let zeros = [
            ("the budget of a decision", budget.is_zero()),
            ("the number of failures", failures == 0),
            ("the breaker's pause", pause.is_zero()),
        ];
        if let Some((what, _)) = zeros.into_iter().find(|&(_, zero)| zero) {
            return Err(SetupError::Zero(what));
        }
        // Added to the time that a key is needed, it stays exact.
        if grace > Duration::from_micros(LONGEST) {
            return Err(SetupError::GraceTooLong(grace));
        }
        Ok(Store::new(Shared {
            link: Store::link(address?),
            prefix,
            naming,
            budget,
            breaker: Breaker::new(failures, pause),
            counters: Default::default(),
            clock,
            grace,
            start: Instant::now(),
        }))
    }
}

impl fmt::Debug for StoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBuilder")
            .field("prefix", &self.prefix)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// The system's wall clock, in nanoseconds since the Unix epoch; 0 before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// What an algorithm is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) quota: Quota,
    pub(super) anchor: Anchor,
    pub(super) strict: bool,
}

/// Builds a [`SharedLimiter`]. Made by [`SharedLimiter::token_bucket`] and its like.
#[derive(Clone, Debug)]
#[must_use]
pub struct SharedLimiterBuilder<A> {
    name: String,
    plan: Plan,
    rule: fn(Plan) -> Result<Rule, SetupError>,
    local: fn(Plan) -> Result<Local, crate::BuildError>,
    when_away: WhenAway,
    refusals: usize,
    algorithm: PhantomData<A>,
}

impl<A> SharedLimiterBuilder<A> {
    pub(super) fn new(
        name: String,
        quota: Quota,
        rule: fn(Plan) -> Result<Rule, SetupError>,
        local: fn(Plan) -> Result<Local, crate::BuildError>,
    ) -> Self {
        let plan = Plan { quota, anchor: Anchor::default(), strict: false };
        Self { name, plan, rule, local, when_away: WhenAway::default(), refusals: 0, algorithm: PhantomData }
    }

    /// What is answered while the store is away: by default, calls are refused.
    pub fn when_away(mut self, answer: WhenAway) -> Self {
        self.when_away = answer;
        self
    }

    /// Remembers so many refusals, rounded up to a multiple of 4, each for as long as it is known to last, and repeats them
    /// without asking the store: none by default.
    ///
    /// A flood of refused calls then does not reach the store. An entry takes less than 100 bytes. What gives a client back
    /// what it has used, by a refund or a reset in another process, is noticed late: when the refusal would have ended
    /// without it.
    pub fn cache_refusals(mut self, entries: usize) -> Self {
        self.refusals = entries;
        self
    }

    /// Builds the limiter, in a store.
    ///
    /// # Errors
    ///
    /// [`SetupError`]: [`Name`](SetupError::Name) for a name that does not fit into that of a key;
    /// [`Quota`](SetupError::Quota), [`RateTooHigh`](SetupError::RateTooHigh),
    /// [`BurstTooLarge`](SetupError::BurstTooLarge), [`BurstOfWindow`](SetupError::BurstOfWindow),
    /// [`NotMicroseconds`](SetupError::NotMicroseconds), [`WindowTooLong`](SetupError::WindowTooLong),
    /// [`LimitTooLarge`](SetupError::LimitTooLarge) for a quota that cannot be counted exactly;
    /// [`ShareTooSmall`](SetupError::ShareTooSmall) and [`Local`](SetupError::Local) for one that cannot be shared out.
    pub fn build(self, store: &Store) -> Result<SharedLimiter, SetupError> {
        let Self { name, plan, rule, local, when_away, refusals, algorithm: _ } = self;
        name::check(&name)?;
        let rule = rule(plan)?;
        let local = match when_away {
            WhenAway::Local { one_in } => {
                let quota = share(plan.quota, one_in)?;
                Some(local(Plan { quota, ..plan }).map_err(SetupError::Local)?)
            }
            WhenAway::Refuse | WhenAway::Allow => None,
        };
        Ok(SharedLimiter::new(Core {
            store: store.clone(),
            name,
            rule,
            when_away,
            local,
            refusals: Refusals::new(refusals),
        }))
    }
}

/// One part in so many of a quota: of its rate, exactly, where it has a burst of its own, and of whole calls where not.
fn share(quota: Quota, one_in: u32) -> Result<Quota, SetupError> {
    let part = |whole: u64| match whole.checked_div(one_in.into()) {
        Some(part @ 1..) => Ok(part),
        _ => Err(SetupError::ShareTooSmall { quota, one_in }),
    };
    let burst = part(quota.capacity())?;
    match quota.period().checked_mul(one_in) {
        Some(period) if quota.capacity() != quota.count() => Ok(Quota::per(quota.count(), period).burst(burst)),
        _ => Ok(Quota::per(part(quota.count())?, quota.period()).burst(burst)),
    }
}

impl<A: Windowed> SharedLimiterBuilder<A> {
    /// Where windows start: by default [`Anchor::Aligned`], at the multiples of the period since the Unix epoch.
    /// [`Anchor::FirstRequest`] is exact to the microsecond.
    pub fn anchor(mut self, anchor: Anchor) -> Self {
        self.plan.anchor = anchor;
        self
    }
}

impl SharedLimiterBuilder<SlidingCounter> {
    /// Counts parts of a call too. See [`SlidingCounter`].
    pub fn strict(mut self) -> Self {
        self.plan.strict = true;
        self
    }
}

impl SharedLimiter {
    /// Starts to build a limiter of token buckets. The name tells this limit from others in the store: limiters of one name
    /// and algorithm draw from the same buckets, in whatever process they are.
    pub fn token_bucket(name: impl Into<String>, quota: Quota) -> SharedLimiterBuilder<crate::TokenBucket> {
        SharedLimiterBuilder::new(name.into(), quota, |plan| Rule::token_bucket(plan.quota), Local::token_bucket)
    }

    /// Starts to build a limiter of fixed windows. See [`token_bucket`](Self::token_bucket) about names.
    pub fn fixed_window(name: impl Into<String>, quota: Quota) -> SharedLimiterBuilder<FixedWindow> {
        let rule = |plan: Plan| Rule::fixed_window(plan.quota, plan.anchor);
        SharedLimiterBuilder::new(name.into(), quota, rule, Local::fixed_window)
    }

    /// Starts to build a limiter of sliding counters. See [`token_bucket`](Self::token_bucket) about names.
    pub fn sliding_counter(name: impl Into<String>, quota: Quota) -> SharedLimiterBuilder<SlidingCounter> {
        let rule = |plan: Plan| Rule::sliding_counter(plan.quota, plan.anchor, plan.strict);
        SharedLimiterBuilder::new(name.into(), quota, rule, Local::sliding_counter)
    }

    /// Starts to build a limiter of sliding logs. See [`token_bucket`](Self::token_bucket) about names.
    pub fn sliding_log(name: impl Into<String>, quota: Quota) -> SharedLimiterBuilder<crate::SlidingLog> {
        SharedLimiterBuilder::new(name.into(), quota, |plan| Rule::sliding_log(plan.quota), Local::sliding_log)
    }
}
