//! [`Limiter`]: one quota, a state of its own for each key.

use crate::algorithm::{Algorithm, Charged, FixedWindow, SlidingCounter, SlidingLog, Snapshot, TokenBucket};
use crate::builder::{LimiterBuilder, WhenFull};
use crate::clock::Timeline;
use crate::clock::{Clock, MonotonicClock};
use crate::decision::{Allowed, Denied, Reason, Status};
use crate::epoch::Guard;
use crate::error::BuildError;
use crate::map::slot::Fingerprint;
use crate::map::{Charge, Map, Spot};
use crate::quota::Quota;
use crate::registry::{Entry, GiveBack, Receipt};
use crate::session::Session;
use crate::together::{Demand, Source};
use ahash::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
#[cfg(feature = "tower")]
use std::time::Duration;

/// Limits each client on its own: one quota, and a state for every key.
///
/// All methods take `&self` and never block: put a limiter into a `static` or share it by cloning, as clones share one
/// state. A check of a client that is known reads the clock, one cache line of its own, and writes one word; it allocates
/// nothing, unless a [`SlidingLog`] admits it. A refusal writes nothing at all. Now and then a check has a piece of upkeep
/// to do beside that: it moves a few clients to another table, or makes one.
///
/// A client is known by the 64-bit keyed hash of its key. Keys are not stored, and clients that have their whole limit
/// again are forgotten by themselves. With n live clients, some two of them share a state with a probability below
/// n²/2⁶⁵ (3 in a million at 10 million clients): they are then limited together, and refunded and reset together.
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// let limiter = Limiter::token_bucket(Quota::per_second(10).burst(20)).build()?;
/// match limiter.check("alice") {
///     Ok(allowed) => println!("{} left", allowed.remaining()),
///     Err(denied) => println!("{denied}"),
/// }
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Limiter<A: Algorithm = TokenBucket, C = MonotonicClock, S = RandomState> {
    core: Arc<Core<A, C, S>>,
}

/// Stands in a receipt for the bucket that clients without a place share. No client has this fingerprint.
const SHARED: u64 = 0;

/// What all clones of a limiter share.
pub(crate) struct Core<A: Algorithm, C, S> {
    map: Map<A>,
    time: Timeline<C>,
    hasher: S,
    when_full: WhenFull,
    entry: Entry,
}

impl Limiter {
    /// Starts to build a limiter of token buckets: the burst at once, then the steady rate. See [`TokenBucket`].
    pub fn token_bucket(quota: Quota) -> LimiterBuilder<TokenBucket> {
        LimiterBuilder::new(quota, |plan| TokenBucket::new(plan.quota))
    }

    /// Starts to build a limiter of fixed windows: the quota's count in each period. See [`FixedWindow`].
    pub fn fixed_window(quota: Quota) -> LimiterBuilder<FixedWindow> {
        LimiterBuilder::new(quota, FixedWindow::new)
    }

    /// Starts to build a limiter of sliding logs: never more than the quota's count in any stretch of one period. See
    /// [`SlidingLog`].
    pub fn sliding_log(quota: Quota) -> LimiterBuilder<SlidingLog> {
        LimiterBuilder::new(quota, SlidingLog::new)
    }

    /// Starts to build a limiter of sliding counters: the quota's count in a period that moves with time, estimated. See
    /// [`SlidingCounter`].
    pub fn sliding_counter(quota: Quota) -> LimiterBuilder<SlidingCounter> {
        LimiterBuilder::new(quota, SlidingCounter::new)
    }
}

impl<A: Algorithm, C: Clock, S: BuildHasher + Send + Sync + 'static> Limiter<A, C, S> {
    /// Whether one call of this client may go ahead; takes one token if so.
    #[inline]
    pub fn allow<K: Hash + ?Sized>(&self, key: &K) -> bool {
        self.check(key).is_ok()
    }

    /// Takes one token of this client, or says why not. The same as `check_n(key, 1)`.
    ///
    /// # Errors
    ///
    /// [`Denied`], with the reason and the time to wait. Nothing is taken then.
    #[inline]
    pub fn check<K: Hash + ?Sized>(&self, key: &K) -> Result<Allowed, Denied> {
        self.check_n(key, 1)
    }

    /// Takes `cost` tokens of this client, all or none. A cost of 0 is always allowed and changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`]: with [`Reason::Limited`] if that many are not left, with [`Reason::Never`] if the cost is above the
    /// limit, with [`Reason::Full`] if the client is new and cannot be held. Nothing is taken then.
    #[inline(always)]
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, cost: u64) -> Result<Allowed, Denied> {
        let core = &*self.core;
        // The pin comes first: the processor then computes the hash while the pin's fence waits for the stores before it.
        let guard = core.map.pin();
        core.check(&guard, core.fingerprint(key), cost)
    }

    /// Decides for a batch: one token for each key, in their order, at one reading of the clock. A key that occurs twice is
    /// charged twice.
    ///
    /// Several times faster than single checks, since the cache misses of a batch overlap: best from about 16 keys, and
    /// most where there are more clients than the cache holds. Longer batches are done in blocks of 64.
    pub fn check_many<K: Hash>(&self, keys: &[K]) -> Vec<Result<Allowed, Denied>> {
        const BLOCK: usize = 64;
        let core = &*self.core;
        let now = core.time.now();
        let mut decisions = Vec::with_capacity(keys.len());
        let mut guard = core.map.pin();
        for block in keys.chunks(BLOCK) {
            core.map.freshen(&mut guard);
            let batch = core.map.batch(&guard, now);
            let mut clients = [Fingerprint::new(0); BLOCK];
            for (client, key) in clients.iter_mut().zip(block) {
                *client = core.fingerprint(key);
                batch.announce(*client);
            }
            // Each is written where it is made. Made here and pushed there, all of its bytes would be copied once more.
            let places = &mut decisions.spare_capacity_mut()[..block.len()];
            for (&client, place) in clients.iter().zip(places) {
                match batch.charge(client) {
                    Charge::Allowed { payload, now } => {
                        place.write(Ok(core.allowed(payload, now, 1, client.get())));
                    }
                    Charge::Refused { payload, now } => {
                        place.write(Err(core.limited(payload, now, 1)));
                    }
                    Charge::Full { now } => {
                        place.write(core.decide_full(now, 1));
                    }
                }
            }
            // SAFETY: so many places were within the capacity, and were written.
            unsafe { decisions.set_len(decisions.len() + block.len()) };
        }
        decisions
    }

    /// What this limiter is asked for in a decision over several limits, made by [`check_all`](crate::check_all).
    pub fn demand<K: Hash + ?Sized>(&self, key: &K, cost: u64) -> Demand<'_> {
        Demand::new(&*self.core, self.core.fingerprint(key).get(), cost)
    }

    /// What is left to a client. Takes nothing, writes nothing, and does not make a client known.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K) -> Status {
        self.core.peek(self.core.fingerprint(key), 1)
    }

    /// Puts `tokens` back for a client, whoever took them, and returns how many found room: a part of a token counts as
    /// one.
    ///
    /// A level never rises above the limit. But unlike [`Allowed::give_back`], which knows when its tokens were taken, a
    /// refund can let a client have more over a stretch of time than its quota says.
    pub fn refund<K: Hash + ?Sized>(&self, key: &K, tokens: u64) -> u64 {
        let core = &*self.core;
        core.map.refund(core.locate(&core.map.pin(), key), core.time.now(), tokens)
    }

    /// Gives a client its whole limit again. Returns whether it had less.
    ///
    /// What was taken before is forgiven by that already. A call from before that is given back all the same may put back
    /// what others have taken since.
    pub fn reset<K: Hash + ?Sized>(&self, key: &K) -> bool {
        let core = &*self.core;
        core.map.reset(core.locate(&core.map.pin(), key), core.time.now())
    }

    /// Starts a run of checks on this thread that shares one pin of the epoch, a good part of the time of a single check.
    pub fn session(&self) -> Session<'_, A, C, S> {
        Session::new(&self.core)
    }

    /// Forgets every client of whom nothing counts any more, and fits the table to the others. Returns how many clients
    /// this call forgot; others may forget some at the same time.
    ///
    /// Never needed: a limiter forgets by itself as it is called. It copies the table in this thread, and other threads help
    /// if they call meanwhile; nobody waits. It does nothing while an idle [`Session`] keeps too much from being freed.
    pub fn sweep(&self) -> usize {
        self.core.map.sweep(self.core.time.now())
    }

    /// How many clients are held, idle ones not yet forgotten among them; exact while nobody else calls.
    pub fn len(&self) -> usize {
        self.core.map.len()
    }

    /// Whether no client is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often all clients have moved to another table: to grow, to shrink, or to forget the idle ones.
    pub fn migrations(&self) -> u64 {
        self.core.map.migrations()
    }

    /// Bytes held: the tables, the logs, and what was retired and is not freed yet. It frees what this thread may free.
    pub fn memory_bytes(&self) -> usize {
        self.core.map.memory_bytes() + size_of::<Core<A, C, S>>() - size_of::<Map<A>>()
    }

    /// How long it takes until a client that has used everything has everything again.
    #[cfg(feature = "tower")]
    pub(crate) fn window(&self) -> Duration {
        Duration::from_nanos(self.core.map.algorithm().window())
    }

    pub(crate) fn new(
        make: impl FnOnce(u64) -> Result<A, BuildError>,
        clock: C,
        hasher: S,
        max_keys: usize,
        when_full: WhenFull,
    ) -> Result<Self, BuildError> {
        let time = Timeline::new(clock);
        let map = Map::new(make(time.origin())?, max_keys, when_full == WhenFull::Shared)
            .map_err(|_| BuildError::OutOfMemory)?;
        Ok(Self {
            core: Arc::new_cyclic(|core: &std::sync::Weak<Core<A, C, S>>| {
                let entry = Entry::new(core.clone());
                Core { map, time, hasher, when_full, entry }
            }),
        })
    }
}

impl<A: Algorithm, C: Clock, S: BuildHasher> Core<A, C, S> {
    #[inline]
    pub(crate) fn fingerprint<K: Hash + ?Sized>(&self, key: &K) -> Fingerprint {
        Fingerprint::new(self.hasher.hash_one(key))
    }

    pub(crate) fn map(&self) -> &Map<A> {
        &self.map
    }

    fn locate<'g, K: Hash + ?Sized>(&self, guard: &'g Guard, key: &K) -> Spot<'g> {
        self.map.locate(guard, self.fingerprint(key))
    }

    /// A client's state, for a call of `cost`.
    fn peek(&self, client: Fingerprint, cost: u64) -> Status {
        let guard = self.map.pin();
        let (payload, now) = self.map.peek(self.map.locate(&guard, client), self.time.now());
        Status { snapshot: self.map.algorithm().snapshot(payload, now, cost) }
    }

    /// Decides on a call of `cost` tokens now.
    #[inline(always)]
    pub(crate) fn check(&self, guard: &Guard, client: Fingerprint, cost: u64) -> Result<Allowed, Denied> {
        // Only what the caller looks at of these values is ever computed, as all of it is inlined.
        if !(1..=self.map.algorithm().limit()).contains(&cost) {
            return self.decide_unchargeable(client, cost);
        }
        let spot = self.map.locate(guard, client);
        match self.map.charge(spot, self.time.now(), cost) {
            Charge::Allowed { payload, now } => Ok(self.allowed(payload, now, cost, client.get())),
            Charge::Refused { payload, now } => Err(self.limited(payload, now, cost)),
            Charge::Full { now } => self.decide_full(now, cost),
        }
    }

    #[inline(always)]
    fn allowed(&self, payload: u64, now: u64, cost: u64, fingerprint: u64) -> Allowed {
        let snapshot = self.map.algorithm().snapshot(payload, now, cost);
        Allowed { snapshot, receipt: self.entry.receipt(fingerprint, cost) }
    }

    #[inline(always)]
    fn limited(&self, payload: u64, now: u64, cost: u64) -> Denied {
        Denied { snapshot: self.map.algorithm().snapshot(payload, now, cost), cost, reason: Reason::Limited }
    }

    /// A cost of nothing, or of more than there can ever be.
    #[cold]
    fn decide_unchargeable(&self, client: Fingerprint, cost: u64) -> Result<Allowed, Denied> {
        let Status { snapshot } = self.peek(client, cost);
        match cost {
            0 => Ok(Allowed { snapshot, receipt: Receipt::NOTHING }),
            _ => Err(Denied { snapshot, cost, reason: Reason::Never }),
        }
    }

    /// A new client for which there is no room.
    #[cold]
    fn decide_full(&self, now: u64, cost: u64) -> Result<Allowed, Denied> {
        /// The limiter looks for places less than a millisecond apart.
        const LEAST_WAIT: u64 = 1_000_000;
        let algorithm = self.map.algorithm();
        // Until what the charge came to is read.
        let guard = self.map.pin();
        let shared = match self.when_full {
            WhenFull::Deny => Charge::Full { now },
            WhenFull::Allow => {
                return Ok(Allowed { snapshot: algorithm.snapshot_of_new(now, cost), receipt: Receipt::NOTHING });
            }
            WhenFull::Shared => self.map.charge_shared(&guard, now, cost),
        };
        match shared {
            Charge::Allowed { payload, now } => Ok(self.allowed(payload, now, cost, SHARED)),
            Charge::Refused { payload, now } => Err(self.limited(payload, now, cost)),
            Charge::Full { now } => {
                // By the time that a client which has used everything is idle, all are.
                let wait = algorithm.longest_idle().max(LEAST_WAIT);
                Err(Denied { snapshot: Snapshot::no_room(algorithm.limit(), wait, now), cost, reason: Reason::Full })
            }
        }
    }
}

impl<A: Algorithm, C: Clock, S: BuildHasher + Send + Sync> GiveBack for Core<A, C, S> {
    fn give_back(&self, fingerprint: u64, cost: u64, charged: Charged) -> u64 {
        let (guard, clock) = (self.map.pin(), || self.time.now());
        if fingerprint == SHARED {
            return self.map.give_back_shared(&guard, clock, cost, charged);
        }
        self.map.give_back(self.map.locate(&guard, Fingerprint::new(fingerprint)), clock, cost, charged)
    }
}

impl<A: Algorithm, C: Clock, S: BuildHasher + Send + Sync> Source for Core<A, C, S> {
    fn look(&self, client: u64, cost: u64) -> Result<Status, Denied> {
        self.peek(Fingerprint::new(client), cost).judge(cost)
    }

    fn take(&self, client: u64, cost: u64) -> Result<Allowed, Denied> {
        self.check(&self.map.pin(), Fingerprint::new(client), cost)
    }
}

/// Clones share one state.
impl<A: Algorithm, C, S> Clone for Limiter<A, C, S> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<A: Algorithm, C: Clock, S> fmt::Debug for Limiter<A, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("algorithm", self.core.map.algorithm())
            .field("clients", &self.core.map.len())
            .finish_non_exhaustive()
    }
}
