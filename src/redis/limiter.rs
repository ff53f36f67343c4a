//! [`SharedLimiter`]: one quota, whose state lies in a store.

use super::away::{Local, WhenAway};
use super::error::{StoreError, Trouble};
use super::refusals::Refusals;
use super::rule::{Rule, State};
use super::stats::Count;
use super::store::{Action, Part, Reply, Store};
use super::together::Demand;
use crate::algorithm::Snapshot;
use crate::registry::Receipt;
use crate::{Allowed, Denied, Reason, Status};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Limits each client on its own, in whichever process it calls: one quota, and a state for every key in a [`Store`].
///
/// Each decision is one round trip, in which a script looks and takes. Its answers are those of the limiters within a
/// process, for the same history, at the store's time in whole microseconds: waits are rounded up to that. Keys are bytes,
/// such as a `str`; write addresses and numbers in one form everywhere, as by `to_string`.
///
/// Cloned, and shared among tasks, at no cost. Use it within one tokio runtime, with its time and I/O enabled: the
/// connection lives there.
///
/// # While the store is away
///
/// A call is answered within the [budget](super::StoreBuilder::budget), by what [`WhenAway`] says. A request that was sent
/// and not answered in time may still be carried out, once: it is never sent again. So an outage can cost a client tokens
/// that nobody was let pass for, and never the other way round.
///
/// # Cancelling
///
/// A future that is dropped before it is polled has done nothing. Dropped later, its request may have been sent, and if so,
/// may have been charged; there is no telling. It is not charged twice, nothing is left to clean up, and no other call is
/// affected.
///
/// Only calls that end tell whether the store is away. So keep the budget below the timeouts that are set around calls: where
/// all are dropped before it has passed, the store is asked on and on, over a connection that may have gone silent.
#[derive(Clone)]
pub struct SharedLimiter {
    core: Arc<Core>,
}

#[derive(Debug)]
pub(super) struct Core {
    pub(super) store: Store,
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) when_away: WhenAway,
    pub(super) local: Option<Local>,
    pub(super) refusals: Refusals,
}

impl SharedLimiter {
    pub(super) fn new(core: Core) -> Self {
        Self { core: Arc::new(core) }
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// The store that this limiter is in.
    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// The largest cost that can be admitted at once, in tokens.
    pub fn limit(&self) -> u64 {
        self.core.rule.limit
    }

    /// How long it takes until a client that has used everything has everything again.
    #[cfg(feature = "tower")]
    pub(crate) fn window(&self) -> Duration {
        Duration::from_micros(self.core.rule.window())
    }

    /// Whether one call of this client may go ahead; takes one token if so.
    pub fn allow<'a, K: AsRef<[u8]> + ?Sized>(&'a self, key: &'a K) -> impl Future<Output = bool> + Send + 'a {
        let check = self.check_n(key, 1);
        async { check.await.is_ok() }
    }

    /// Takes one token of this client, or says why not. The same as `check_n(key, 1)`.
    ///
    /// # Errors
    ///
    /// [`Denied`], as in [`check_n`](Self::check_n).
    pub fn check<'a, K: AsRef<[u8]> + ?Sized>(
        &'a self,
        key: &'a K,
    ) -> impl Future<Output = Result<Allowed, Denied>> + Send + 'a {
        self.check_n(key, 1)
    }

    /// Takes `cost` tokens of this client, all or none. A cost of 0 is always allowed and changes nothing.
    ///
    /// [`Allowed::give_back`] does nothing for a call that the store let pass: see [`give_back`](Self::give_back).
    ///
    /// # Errors
    ///
    /// [`Denied`]: with [`Reason::Limited`] if that many are not left, with [`Reason::Never`] if the cost is above the
    /// limit. While the store is away, with [`Reason::Unavailable`] if calls are refused then, or what the local limiter
    /// answers. Nothing is taken then.
    pub fn check_n<'a, K: AsRef<[u8]> + ?Sized>(
        &'a self,
        key: &'a K,
        cost: u64,
    ) -> impl Future<Output = Result<Allowed, Denied>> + Send + 'a {
        let key = key.as_ref();
        async move {
            let demand = self.demand(key, cost);
            match self.core.known_refusal(&demand) {
                Some(denied) => self.core.counted(Err(denied)),
                None => self.core.decide(demand).await,
            }
        }
    }

    /// What is left to a client. Takes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store gives no answer: there is no other.
    pub fn peek<'a, K: AsRef<[u8]> + ?Sized>(
        &'a self,
        key: &'a K,
    ) -> impl Future<Output = Result<Status, StoreError>> + Send + 'a {
        let demand = self.demand(key.as_ref(), 0);
        async move {
            let Reply { now, parts, .. } = self.core.ask(Action::Peek, &demand).await?;
            let (_, state) = parts[0];
            Ok(Status { snapshot: self.core.rule.answers(state, now, 0).snapshot(state) })
        }
    }

    /// Puts `tokens` back for a client, whoever took them, and returns how many found room: a part of a token counts as
    /// one. Can let a client have more over a stretch of time than its quota says, unlike [`give_back`](Self::give_back).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store gives no answer. If it [timed out](super::Trouble::TimedOut), they may be put back yet.
    pub fn refund<'a, K: AsRef<[u8]> + ?Sized>(
        &'a self,
        key: &'a K,
        tokens: u64,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + 'a {
        let demand = self.demand(key.as_ref(), tokens.min(self.core.rule.limit));
        async move { Ok(self.core.ask_and_forget(Action::Refund, &demand).await?.result) }
    }

    /// Undoes a call's charge of `cost`, for instance because the work behind it never happened. Returns the tokens put
    /// back, a part of a token counted as one.
    ///
    /// At most the cost comes back, less what has refilled since; of windows only while the one that was charged lasts; to
    /// a log the call's own events. So no client gets more over any stretch of time than its quota allows. A call that was
    /// let pass while the store was away was not charged there; what a local limiter charged for it is put back there.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store gives no answer. If it [timed out](super::Trouble::TimedOut), they may be put back yet.
    pub fn give_back<'a, K: AsRef<[u8]> + ?Sized>(
        &'a self,
        key: &'a K,
        cost: u64,
        allowed: Allowed,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + 'a {
        let demand = self.demand(key.as_ref(), cost);
        async move {
            match allowed.snapshot.mark() {
                Some(0) => Ok(0),
                Some(mark) => Ok(self.core.ask_and_forget(Action::Return(mark), &demand).await?.result),
                None => Ok(allowed.give_back()),
            }
        }
    }

    /// Gives a client its whole limit again. Returns whether it had less.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store gives no answer. If it [timed out](super::Trouble::TimedOut), it may happen yet.
    pub fn reset<'a, K: AsRef<[u8]> + ?Sized>(
        &'a self,
        key: &'a K,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send + 'a {
        let demand = self.demand(key.as_ref(), 0);
        async move {
            let Reply { now, parts, .. } = self.core.ask_and_forget(Action::Reset, &demand).await?;
            let (_, state) = parts[0];
            Ok(self.core.rule.answers(state, now, 0).remaining < self.core.rule.limit)
        }
    }

    /// What this limit is asked for, in a decision over several: see [`check_all`](super::check_all).
    pub fn demand<'a, K: AsRef<[u8]> + ?Sized>(&'a self, key: &'a K, cost: u64) -> Demand<'a> {
        Demand { limiter: self, key: key.as_ref(), tag: None, cost }
    }

    /// The answer without the store, for whoever could not even ask it.
    pub(super) fn without_store(&self, key: &[u8], cost: u64, trouble: Trouble) -> Result<Allowed, Denied> {
        let shared = self.core.store.shared();
        shared.counters.failure(trouble);
        self.core.counted(self.core.without_store(&self.demand(key, cost), Duration::ZERO))
    }
}

impl Core {
    /// The name of the demand's key in the store.
    pub(super) fn key_of(&self, demand: &Demand<'_>) -> String {
        let shared = self.store.shared();
        let letter = self.rule.algorithm().letter();
        shared.naming.name(&shared.prefix, &self.name, letter, demand.key, demand.tag)
    }

    async fn ask(&self, action: Action, demand: &Demand<'_>) -> Result<Reply, StoreError> {
        let part = Part { name: self.key_of(demand), rule: &self.rule, cost: demand.cost };
        self.store.shared().ask(action, &[part]).await
    }

    async fn ask_and_forget(&self, action: Action, demand: &Demand<'_>) -> Result<Reply, StoreError> {
        let _forget = Forget { core: self, demand };
        self.ask(action, demand).await
    }

    async fn decide(&self, demand: Demand<'_>) -> Result<Allowed, Denied> {
        // Of use to the cache only.
        let asked = if self.refusals.is_off() { 0 } else { self.local() };
        let charged = (1..=self.rule.limit).contains(&demand.cost);
        let part = Part { name: self.key_of(&demand), rule: &self.rule, cost: if charged { demand.cost } else { 0 } };
        let action = if charged { Action::Take } else { Action::Peek };
        self.counted(match self.store.shared().ask(action, &[part]).await {
            Ok(reply) => self.judge(&demand, reply.result == 1, reply.now, reply.parts[0], asked),
            Err(error) => self.without_store(&demand, error.pause),
        })
    }

    /// The answer to a demand, from what the script said of it: whether its cost fits, and the state.
    pub(super) fn judge(
        &self,
        demand: &Demand<'_>,
        taken: bool,
        now: u64,
        (fits, state): (bool, State),
        asked: u64,
    ) -> Result<Allowed, Denied> {
        let Demand { cost, .. } = *demand;
        let answers = self.rule.answers(state, now, cost);
        let denied = |reason| Err(Denied { snapshot: answers.snapshot(state), cost, reason });
        if cost > self.rule.limit {
            return denied(Reason::Never);
        }
        let charged = taken && cost > 0;
        if !self.refusals.is_off() && (charged || !fits) {
            let client = self.refusals.client(demand.key, demand.tag);
            match charged {
                // What was known of the client is from before.
                true => self.refusals.forget(client),
                false => self.refusals.remember(&self.rule, client, cost, state, now, asked),
            }
        }
        if !fits {
            return denied(Reason::Limited);
        }
        let snapshot = answers.snapshot(state);
        let snapshot = if charged { snapshot } else { snapshot.unmarked() };
        Ok(Allowed { snapshot, receipt: Receipt::NOTHING })
    }

    /// The refusal of a demand that is known to be refused still.
    pub(super) fn known_refusal(&self, demand: &Demand<'_>) -> Option<Denied> {
        if self.refusals.is_off() || !(1..=self.rule.limit).contains(&demand.cost) {
            return None;
        }
        let client = self.refusals.client(demand.key, demand.tag);
        let (state, now) = self.refusals.find(&self.rule, client, demand.cost, self.local())?;
        self.store.shared().counters.count(Count::FromCache);
        let snapshot = self.rule.answers(state, now, demand.cost).snapshot(state);
        Some(Denied { snapshot, cost: demand.cost, reason: Reason::Limited })
    }

    /// The answer while the store is away, which it is for at least as long as a pause.
    pub(super) fn without_store(&self, demand: &Demand<'_>, pause: Duration) -> Result<Allowed, Denied> {
        /// What a caller is told to wait where nothing is known.
        const LEAST: Duration = Duration::from_millis(1);
        let Demand { cost, .. } = *demand;
        let limit = self.rule.limit;
        self.store.shared().counters.count(Count::WithoutStore);
        let wait = u64::try_from(pause.max(LEAST).as_nanos()).unwrap_or(u64::MAX - 1);
        let untouched = self.untouched(if cost <= limit { cost } else { 0 });
        if cost > limit {
            let snapshot = Snapshot::told(limit, limit, 0, None, 0);
            return Err(Denied { snapshot, cost, reason: Reason::Never });
        }
        if cost == 0 {
            return Ok(Allowed { snapshot: untouched, receipt: Receipt::NOTHING });
        }
        let unavailable = || {
            Err(Denied { snapshot: Snapshot::told(limit, 0, wait, Some(wait), 0), cost, reason: Reason::Unavailable })
        };
        match (&self.local, self.when_away) {
            (Some(local), _) => match local.check_n(self.key_of(demand).as_bytes(), cost) {
                // More than its part can ever be, but not more than the limit.
                Err(denied) if denied.reason() == Reason::Never => unavailable(),
                answer => answer,
            },
            (None, WhenAway::Allow) => Ok(Allowed { snapshot: untouched, receipt: Receipt::NOTHING }),
            (None, _) => unavailable(),
        }
    }

    /// The answers of a client that had nothing used and has just taken `cost`.
    pub(super) fn untouched(&self, cost: u64) -> Snapshot {
        let now = self.store.shared().wall();
        let state = self.rule.after(cost, now);
        self.rule.answers(state, now, 0).snapshot(state).unmarked()
    }

    pub(super) fn local(&self) -> u64 {
        self.store.shared().local()
    }

    /// Counts an answer.
    pub(super) fn counted(&self, answer: Result<Allowed, Denied>) -> Result<Allowed, Denied> {
        self.count(answer.as_ref().err().map(Denied::reason));
        answer
    }

    pub(super) fn count(&self, refused: Option<Reason>) {
        self.store.shared().counters.count(match refused {
            None => Count::Allowed,
            Some(Reason::Never) => Count::Never,
            Some(Reason::Unavailable) => Count::Unavailable,
            Some(_) => Count::Denied,
        });
    }
}

/// Has the cache forget a client when this ends: also after a failure, and when it is dropped, as what gives the client
/// something back may have been carried out.
struct Forget<'a> {
    core: &'a Core,
    demand: &'a Demand<'a>,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let Self { core, demand } = self;
        if !core.refusals.is_off() {
            core.refusals.given_back(core.refusals.client(demand.key, demand.tag), core.local());
        }
    }
}

impl fmt::Debug for SharedLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLimiter")
            .field("name", &self.core.name)
            .field("rule", &self.core.rule)
            .finish_non_exhaustive()
    }
}
