//! [`Limiter`]: one quota, a state of its own for each key.

use crate::algorithm::{Algorithm, TokenBucket};
use crate::builder::{LimiterBuilder, WhenFull};
use crate::clock::Timeline;
use crate::clock::{Clock, MonotonicClock};
use crate::decision::{Allowed, Denied, Reason, Snapshot, Status};
use crate::epoch::Guard;
use crate::error::BuildError;
use crate::map::slot::Fingerprint;
use crate::map::{Charge, Map};
use crate::quota::Quota;
use crate::registry::{Entry, GiveBack, Receipt};
use crate::session::Session;
use ahash::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Limits each client on its own: one quota, and a state for every key.
///
/// All methods take `&self` and never block: put a limiter into a `static` or share it by cloning, as clones share one
/// state. A check of a client that is known reads the clock, one cache line of its own, and writes one word; it allocates
/// nothing. A refusal writes nothing at all.
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
pub struct Limiter<A = TokenBucket, C = MonotonicClock, S = RandomState> {
    core: Arc<Core<A, C, S>>,
}

/// What all clones of a limiter share.
pub(crate) struct Core<A, C, S> {
    map: Map<A>,
    time: Timeline<C>,
    hasher: S,
    when_full: WhenFull,
    entry: Entry,
}

impl Limiter {
    /// Starts to build a limiter of token buckets: the burst at once, then the steady rate. See [`TokenBucket`].
    pub fn token_bucket(quota: Quota) -> LimiterBuilder<TokenBucket> {
        LimiterBuilder::token_bucket(quota)
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
    #[inline]
    pub fn check_n<K: Hash + ?Sized>(&self, key: &K, cost: u64) -> Result<Allowed, Denied> {
        let client = self.core.fingerprint(key);
        let guard = self.core.map.pin();
        self.core.map.prefetch(&guard, client);
        self.core.decide(&guard, client, self.core.time.now(), cost)
    }

    /// Decides for a batch: one token for each key, in their order, at one reading of the clock. A key that occurs twice is
    /// charged twice.
    ///
    /// Several times faster than single checks, since the cache misses of a batch overlap: best from about 16 keys, and
    /// most where there are more clients than the cache holds. Longer batches are done in blocks of 64.
    pub fn check_many<K: Hash>(&self, keys: &[K]) -> Vec<Result<Allowed, Denied>> {
        const BLOCK: usize = 64;
        let core = &*self.core;
        let mut guard = core.map.pin();
        let now = core.time.now();
        let mut decisions = Vec::with_capacity(keys.len());
        let mut clients = [Fingerprint::new(0); BLOCK];
        for (i, block) in keys.chunks(BLOCK).enumerate() {
            if i > 0 {
                guard.repin();
            }
            for (client, key) in clients.iter_mut().zip(block) {
                *client = core.fingerprint(key);
                core.map.prefetch(&guard, *client);
            }
            decisions.extend(clients[..block.len()].iter().map(|&client| core.decide(&guard, client, now, 1)));
        }
        decisions
    }

    /// What is left to a client. Takes nothing, writes nothing, and does not make a client known.
    pub fn peek<K: Hash + ?Sized>(&self, key: &K) -> Status {
        let core = &*self.core;
        Status { snapshot: core.peek(&core.map.pin(), core.fingerprint(key), core.time.now()) }
    }

    /// Puts `tokens` back for a client, whoever took them, and returns how many found room: a part of a token counts as
    /// one.
    ///
    /// A level never rises above the limit. But unlike [`Allowed::give_back`], which knows when its tokens were taken, a
    /// refund can let a client have more over a stretch of time than its quota says.
    pub fn refund<K: Hash + ?Sized>(&self, key: &K, tokens: u64) -> u64 {
        let core = &*self.core;
        core.map.refund(&core.map.pin(), core.fingerprint(key), core.time.now(), tokens)
    }

    /// Gives a client its whole limit again. Returns whether it had less.
    pub fn reset<K: Hash + ?Sized>(&self, key: &K) -> bool {
        let core = &*self.core;
        core.map.reset(&core.map.pin(), core.fingerprint(key), core.time.now())
    }

    /// Starts a run of checks on this thread that shares one pin of the epoch, which is a sixth of the time of a single
    /// check or more.
    pub fn session(&self) -> Session<'_, A, C, S> {
        Session::new(&self.core)
    }

    /// Forgets every client that has its whole limit, fits the table to the others, and returns how many it forgot.
    ///
    /// Never needed: a limiter forgets by itself as it is called. It does the work of one migration in this thread (about
    /// 10 milliseconds a million slots), and other threads help if they call meanwhile; nobody waits.
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

    /// Bytes held: the tables, and what was retired and cannot be freed yet.
    pub fn memory_bytes(&self) -> usize {
        self.core.map.memory_bytes() + size_of::<Core<A, C, S>>() - size_of::<Map<A>>()
    }

    pub(crate) fn new(
        algorithm: A,
        clock: C,
        hasher: S,
        max_keys: usize,
        when_full: WhenFull,
    ) -> Result<Self, BuildError> {
        let map = Map::new(algorithm, max_keys, when_full == WhenFull::Shared).map_err(|_| BuildError::OutOfMemory)?;
        let time = Timeline::new(clock);
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

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.time.now()
    }

    /// Decides on a call of `cost` tokens.
    #[inline]
    pub(crate) fn decide(&self, guard: &Guard, client: Fingerprint, now: u64, cost: u64) -> Result<Allowed, Denied> {
        if cost.wrapping_sub(1) >= self.map.algorithm().limit() {
            return self.decide_unchargeable(guard, client, now, cost);
        }
        match self.map.charge(guard, client, now, cost) {
            Charge::Full => self.decide_full(client, now, cost),
            charge => self.decision(client, cost, charge),
        }
    }

    #[inline]
    fn decision(&self, client: Fingerprint, cost: u64, charge: Charge) -> Result<Allowed, Denied> {
        match charge {
            Charge::Allowed { payload, now } => Ok(Allowed {
                snapshot: self.snapshot(payload, now),
                receipt: self.entry.receipt(client.get(), cost, now),
            }),
            Charge::Refused { payload, now } => {
                Err(Denied { snapshot: self.snapshot(payload, now), cost, reason: Reason::Limited })
            }
            Charge::Full => unreachable!("decided by the caller"),
        }
    }

    /// A cost of nothing, or of more than there can ever be.
    #[cold]
    fn decide_unchargeable(&self, guard: &Guard, client: Fingerprint, now: u64, cost: u64) -> Result<Allowed, Denied> {
        let snapshot = self.peek(guard, client, now);
        match cost {
            0 => Ok(Allowed { snapshot, receipt: Receipt::NOTHING }),
            _ => Err(Denied { snapshot, cost, reason: Reason::Never }),
        }
    }

    /// A new client for which there is no room.
    #[cold]
    fn decide_full(&self, client: Fingerprint, now: u64, cost: u64) -> Result<Allowed, Denied> {
        let algorithm = self.map.algorithm();
        // What a client has that nobody knows, and one that has used everything: by the time it is idle, all are.
        let charged = |cost| algorithm.charge(0, now, cost).unwrap_or_default();
        match self.when_full {
            WhenFull::Deny => {
                let (payload, cost) = (charged(algorithm.limit()), algorithm.limit());
                Err(Denied { snapshot: self.snapshot(payload, now), cost, reason: Reason::Full })
            }
            WhenFull::Allow => Ok(Allowed { snapshot: self.snapshot(charged(cost), now), receipt: Receipt::NOTHING }),
            WhenFull::Shared => match self.map.charge_shared(now, cost) {
                Some(charge) => self.decision(client, cost, charge),
                None => unreachable!("built with a shared word"),
            },
        }
    }

    fn peek(&self, guard: &Guard, client: Fingerprint, now: u64) -> Snapshot {
        let (payload, now) = self.map.peek(guard, client, now);
        self.snapshot(payload, now)
    }

    #[inline]
    fn snapshot(&self, payload: u64, now: u64) -> Snapshot {
        Snapshot { algorithm: self.map.algorithm().any(), payload, now }
    }
}

impl<A: Algorithm, C: Clock, S: BuildHasher + Send + Sync> GiveBack for Core<A, C, S> {
    fn give_back(&self, fingerprint: u64, cost: u64, taken: u64) -> u64 {
        let guard = self.map.pin();
        self.map.give_back(&guard, Fingerprint::new(fingerprint), self.time.now(), cost, taken)
    }
}

/// Clones share one state.
impl<A, C, S> Clone for Limiter<A, C, S> {
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
