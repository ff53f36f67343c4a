//! [`Store`]: the server that instances share, with what is done when it is away.

use super::breaker::Breaker;
use super::builder::{StoreBuilder, SystemClock};
use super::error::{SetupError, StoreError, Trouble};
use super::link::{Address, Answer, Link};
use super::name::Naming;
use super::rule::{LAST, Rule, State};
use super::script;
use super::stats::{Count, Counters, Stats};
use crate::Clock;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A Redis or Valkey server, or a cluster of them, in which limits lie that several processes share.
///
/// Opened once and cloned; clones share the connection, the breaker and the counters. Connects when first asked, and again
/// by itself.
///
/// ```no_run
/// use tollgate::Quota;
/// use tollgate::redis::{SharedLimiter, Store};
///
/// # async fn example() -> Result<(), tollgate::redis::SetupError> {
/// let store = Store::open("redis://127.0.0.1/")?;
/// let limiter = SharedLimiter::token_bucket("api", Quota::per_second(10).burst(20)).build(&store)?;
/// if limiter.allow("alice").await {
///     println!("hello, alice");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) link: Link,
    pub(super) prefix: String,
    pub(super) naming: Naming,
    pub(super) budget: Duration,
    pub(super) breaker: Breaker,
    pub(super) counters: Counters,
    /// The clock whose time is passed to the scripts, instead of the server's.
    pub(super) clock: Option<Box<dyn Clock>>,
    pub(super) grace: Duration,
    pub(super) start: Instant,
}

/// What a script is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Take,
    Peek,
    Refund,
    /// Returns the charge with this mark.
    Return(u64),
    Reset,
}

impl Action {
    /// Its number in scripts, and the mark of the charge to return.
    fn numbers(self) -> (u8, u64) {
        match self {
            Self::Take => (0, 0),
            Self::Peek => (1, 0),
            Self::Refund => (2, 0),
            Self::Return(mark) => (3, mark),
            Self::Reset => (4, 0),
        }
    }
}

/// One limit's part in a decision.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) name: String,
    pub(super) rule: &'a Rule,
    pub(super) cost: u64,
}

/// What the script said.
#[derive(Debug)]
pub(super) struct Reply {
    /// Whether all was taken, or how much was put back.
    pub(super) result: u64,
    /// The instant of the decision, in microseconds.
    pub(super) now: u64,
    /// Whether each cost fits, and the state after the decision.
    pub(super) parts: Vec<(bool, State)>,
}

impl Store {
    /// The server at an address such as `redis://:password@host:6379/0`, with everything as it is by default.
    ///
    /// With `?protocol=resp3` at the end a connection that breaks while idle is noticed at once, and not by the first call
    /// after it.
    ///
    /// # Errors
    ///
    /// [`SetupError::Address`] if it cannot be understood. Whether there is a server is not looked at.
    pub fn open(address: &str) -> Result<Self, SetupError> {
        Self::at(address).open()
    }

    /// Starts to describe the server at an address.
    pub fn at(address: &str) -> StoreBuilder {
        StoreBuilder::single(address)
    }

    /// Starts to describe a cluster, some of whose nodes are at these addresses.
    #[cfg(feature = "redis-cluster")]
    pub fn cluster<'a>(addresses: impl IntoIterator<Item = &'a str>) -> StoreBuilder {
        StoreBuilder::cluster(addresses)
    }

    pub(super) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    pub(super) fn link(address: Address) -> Link {
        Link::new(address)
    }

    /// What was counted since the store was opened.
    pub fn stats(&self) -> Stats {
        self.shared.counters.stats()
    }

    /// Connects, if there is no connection yet, and asks something of no consequence, to see at the start of a service
    /// whether the store is there. Waits for longer than the budget: up to five seconds.
    ///
    /// # Errors
    ///
    /// [`StoreError`], if the store does not answer as it should.
    pub async fn ping(&self) -> Result<(), StoreError> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let rule = Rule::token_bucket(crate::Quota::per_second(1))
            .map_err(|error| StoreError::new(Trouble::Other, error.to_string()))?;
        let name = self.shared.naming.name(&self.shared.prefix, "ping", "t", b"", None);
        self.shared.ask_within(PATIENCE, Action::Peek, &[Part { name, rule: &rule, cost: 0 }]).await.map(drop)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Shared {
    /// Asks the store, if the breaker lets it, within the budget, and counts what became of it.
    pub(super) async fn ask(&self, action: Action, parts: &[Part<'_>]) -> Result<Reply, StoreError> {
        if let Err(pause) = self.breaker.enter() {
            self.counters.failure(Trouble::Paused);
            return Err(StoreError { pause, ..StoreError::new(Trouble::Paused, "") });
        }
        self.ask_within(self.budget, action, parts).await
    }

    async fn ask_within(&self, budget: Duration, action: Action, parts: &[Part<'_>]) -> Result<Reply, StoreError> {
        let error = match self.run_within(budget, action, parts).await {
            Ok(reply) => {
                self.breaker.succeeded();
                return Ok(reply);
            }
            Err(error) => error,
        };
        self.counters.failure(error.trouble);
        if self.breaker.failed() {
            self.counters.count(Count::Breaks);
        }
        if error.trouble == Trouble::TimedOut && self.breaker.is_open() {
            self.link.give_up();
        }
        Err(error)
    }

    async fn run_within(&self, budget: Duration, action: Action, parts: &[Part<'_>]) -> Result<Reply, StoreError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StoreError::new(Trouble::Disconnected, "the limiter is used outside of a tokio runtime"));
        }
        let late = |_| StoreError::new(Trouble::TimedOut, format!("{budget:?}"));
        tokio::time::timeout(budget, self.run(action, parts)).await.map_err(late)?
    }

    /// Asks once, without a budget.
    async fn run(&self, action: Action, parts: &[Part<'_>]) -> Result<Reply, StoreError> {
        let time = self.clock.as_ref().map(|clock| clock.now() / 1000);
        if time.is_some_and(|time| time > LAST) {
            return Err(StoreError::new(Trouble::Other, "the time that is passed to it lies past the year 2112"));
        }
        let (script, what) = match (action, parts) {
            (Action::Take, [part]) => (script::single(part.rule.algorithm()), None),
            _ => (script::several(parts.iter().map(|part| part.rule.algorithm())), Some(action)),
        };
        let keys = parts.iter().map(|part| &*part.name);
        let argument = self.argument(time, parts, what);
        let answer = self.link.run(script, keys, &argument).await;
        let Answer { value, loaded } = answer.map_err(|error| trouble_of(&error))?;
        if loaded {
            self.counters.count(Count::Reloads);
        }
        decode(&value, parts).map_err(|error| trouble_of(&error))
    }

    /// The numbers that a script gets: see [`script`]. The script for a charge by one limit needs not be told what to do.
    fn argument(&self, time: Option<u64>, parts: &[Part<'_>], what: Option<Action>) -> Vec<u8> {
        let mut argument = Vec::with_capacity(8 * (4 + 6 * parts.len()));
        let mut push = |number: f64| argument.extend_from_slice(&number.to_le_bytes());
        push(time.map_or(-1.0, |time| time as f64));
        push(self.grace.as_millis() as f64);
        for Part { rule, cost, .. } in parts {
            let [a, b, c] = rule.numbers();
            [*cost, rule.limit, a, b, c].into_iter().for_each(|number| push(number as f64));
        }
        if let Some(action) = what {
            let (action, mark) = action.numbers();
            push(action.into());
            push(mark as f64);
            parts.iter().for_each(|part| push(part.rule.algorithm().number().into()));
        }
        argument
    }

    /// The time since the Unix epoch as this process knows it, in microseconds.
    pub(super) fn wall(&self) -> u64 {
        self.clock.as_ref().map_or_else(|| SystemClock.now(), |clock| clock.now()) / 1000
    }

    /// The local time by which the cache of refusals counts, in microseconds.
    pub(super) fn local(&self) -> u64 {
        match &self.clock {
            Some(clock) => clock.now() / 1000,
            None => u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// The states that a script answers: see [`script`].
fn decode(value: &Value, parts: &[Part<'_>]) -> RedisResult<Reply> {
    const STATE: usize = 1 + 5 * 8;
    let unexpected = || RedisError::from((ErrorKind::UnexpectedReturnType, "an answer of another kind or length"));
    let Value::BulkString(bytes) = value else { return Err(unexpected()) };
    let (states, result) = bytes.as_chunks::<STATE>();
    let number = |bytes: &[u8; 8]| f64::from_le_bytes(*bytes) as u64;
    let mut now = 0;
    let part = |([tag, numbers @ ..], part): (&[u8; STATE], &Part<'_>)| {
        let (numbers, _) = numbers.as_chunks::<8>();
        let [_, x, y, z, time] = std::array::from_fn(|place| number(&numbers[place]));
        now = time;
        (*tag != 0, part.rule.state([x, y, z]))
    };
    let parts = match states.len() == parts.len() {
        true => states.iter().zip(parts).map(part).collect::<Vec<_>>(),
        false => return Err(unexpected()),
    };
    let result = match (<&[u8; 8]>::try_from(result), &*parts) {
        (Ok(result), _) => number(result),
        // A charge by one limit: whether the cost fits says all.
        (Err(_), &[(fits, _)]) if result.is_empty() => fits.into(),
        _ => return Err(unexpected()),
    };
    Ok(Reply { result, now, parts })
}

fn trouble_of(error: &RedisError) -> StoreError {
    // Errors that a command raises inside a script come with their own code from Redis 7 on, and before that only in
    // the text.
    let text = error.to_string();
    let says = |code: &str| error.code() == Some(code) || text.contains(code);
    let trouble = match error.kind() {
        ErrorKind::Server(kind) => match kind {
            ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown => Trouble::Loading,
            ServerErrorKind::ReadOnly => Trouble::ReadOnly,
            ServerErrorKind::NoPerm => Trouble::Forbidden,
            ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::CrossSlot => Trouble::Moved,
            _ if says("OOM ") => Trouble::OutOfMemory,
            _ if says("READONLY") => Trouble::ReadOnly,
            _ if ["NOPERM", "can't run this command", "not allowed from script"].into_iter().any(says) => {
                Trouble::Forbidden
            }
            _ => Trouble::Other,
        },
        ErrorKind::Extension if says("OOM") => Trouble::OutOfMemory,
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound | ErrorKind::AuthenticationFailed => Trouble::Disconnected,
        _ => Trouble::Other,
    };
    StoreError::new(trouble, text)
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("link", &self.shared.link).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
