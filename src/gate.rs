//! [`Gate`]: one quota, one state, no keys.

use crate::algorithm::{Algorithm, Charged, FixedWindow, SlidingCounter, SlidingLog, Snapshot, TokenBucket};
use crate::builder::GateBuilder;
use crate::clock::Timeline;
use crate::clock::{Clock, MonotonicClock};
use crate::decision::{Allowed, Denied, Reason, Status};
use crate::epoch::{Epoch, Guard};
use crate::error::BuildError;
use crate::map::Charge;
use crate::map::word::{Pointees, Step, Word};
use crate::quota::Quota;
use crate::registry::{Entry, GiveBack, Receipt};
use crate::together::{Demand, Source};
use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::{Arc, Weak};
#[cfg(feature = "tower")]
use std::time::Duration;

/// Limits one thing as a whole: one quota, one state, no keys.
///
/// All methods take `&self` and never block; clones share one state. A check reads the clock and writes one word, a refusal
/// writes nothing.
///
/// ```
/// use tollgate::{Gate, Quota};
///
/// let gate = Gate::token_bucket(Quota::per_second(1000)).build()?;
/// assert!(gate.allow());
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub struct Gate<A: Algorithm = TokenBucket, C = MonotonicClock> {
    core: Arc<Core<A, C>>,
}

struct Core<A: Algorithm, C> {
    word: CachePadded<Word>,
    algorithm: A,
    epoch: Epoch,
    time: Timeline<C>,
    entry: Entry,
}

impl Gate {
    /// Starts to build a gate with a token bucket: the burst at once, then the steady rate. See [`TokenBucket`].
    pub fn token_bucket(quota: Quota) -> GateBuilder<TokenBucket> {
        GateBuilder::new(quota, |plan| TokenBucket::new(plan.quota))
    }

    /// Starts to build a gate with a fixed window: the quota's count in each period. See [`FixedWindow`].
    pub fn fixed_window(quota: Quota) -> GateBuilder<FixedWindow> {
        GateBuilder::new(quota, FixedWindow::new)
    }

    /// Starts to build a gate with a sliding log: never more than the quota's count in any stretch of one period. See
    /// [`SlidingLog`].
    pub fn sliding_log(quota: Quota) -> GateBuilder<SlidingLog> {
        GateBuilder::new(quota, SlidingLog::new)
    }

    /// Starts to build a gate with a sliding counter: the quota's count in a period that moves with time, estimated. See
    /// [`SlidingCounter`].
    pub fn sliding_counter(quota: Quota) -> GateBuilder<SlidingCounter> {
        GateBuilder::new(quota, SlidingCounter::new)
    }
}

impl<A: Algorithm, C: Clock> Gate<A, C> {
    /// Whether one call may go ahead; takes one token if so.
    #[inline]
    pub fn allow(&self) -> bool {
        self.check().is_ok()
    }

    /// Takes one token, or says why not. The same as `check_n(1)`.
    ///
    /// # Errors
    ///
    /// [`Denied`], with the reason and the time to wait. Nothing is taken then.
    #[inline]
    pub fn check(&self) -> Result<Allowed, Denied> {
        self.check_n(1)
    }

    /// Takes `cost` tokens, all or none. A cost of 0 is always allowed and changes nothing.
    ///
    /// # Errors
    ///
    /// [`Denied`]: with [`Reason::Limited`] if that many are not left, with [`Reason::Never`] if the cost is above the
    /// limit. Nothing is taken then.
    #[inline]
    pub fn check_n(&self, cost: u64) -> Result<Allowed, Denied> {
        self.core.check(cost)
    }

    /// What this gate is asked for in a decision over several limits, made by [`check_all`](crate::check_all).
    pub fn demand(&self, cost: u64) -> Demand<'_> {
        Demand::new(&*self.core, 0, cost)
    }

    /// What is left. Takes nothing and writes nothing.
    pub fn peek(&self) -> Status {
        Status { snapshot: self.core.peek(self.core.time.now(), 1) }
    }

    /// Puts `tokens` back, whoever took them, and returns how many found room: a part of a token counts as one.
    ///
    /// The level never rises above the limit. But unlike [`Allowed::give_back`], which knows when its tokens were taken, a
    /// refund can let more pass over a stretch of time than the quota says.
    pub fn refund(&self, tokens: u64) -> u64 {
        let core = &*self.core;
        core.put_back(|payload| core.algorithm.refund(payload, core.time.now(), tokens))
    }

    /// Makes the whole limit available again. Returns whether there was less.
    ///
    /// What was taken before is forgiven by that already. A call from before that is given back all the same may put back
    /// what others have taken since.
    pub fn reset(&self) -> bool {
        let core = &*self.core;
        core.put_back(|payload| Some((core.algorithm.reset(payload, core.time.now())?, 1))) > 0
    }

    /// How long it takes until the whole limit is there again, once all of it was used.
    #[cfg(feature = "tower")]
    pub(crate) fn window(&self) -> Duration {
        Duration::from_nanos(self.core.algorithm.window())
    }

    /// Bytes held: the gate, its log if it has one, and logs that were replaced and not freed yet. It frees what this thread
    /// may free.
    pub fn memory_bytes(&self) -> usize {
        self.core.reclaim();
        size_of::<Core<A, C>>() + self.core.algorithm.bytes()
    }

    pub(crate) fn new(make: impl FnOnce(u64) -> Result<A, BuildError>, clock: C) -> Result<Self, BuildError> {
        let time = Timeline::new(clock);
        let algorithm = make(time.origin())?;
        Ok(Self {
            core: Arc::new_cyclic(|core: &Weak<Core<A, C>>| Core {
                word: CachePadded::new(Word::new()),
                algorithm,
                epoch: Epoch::default(),
                time,
                entry: Entry::new(core.clone()),
            }),
        })
    }
}

impl<A: Algorithm, C> Core<A, C> {
    /// What the word points to is read under a guard; a number needs none.
    #[inline]
    fn guard(&self) -> Option<Guard> {
        A::POINTS.then(|| self.epoch.pin())
    }

    /// Frees what this thread has retired, as far as that may be.
    fn reclaim(&self) {
        if let Some(guard) = self.guard() {
            A::reclaim(&guard);
        }
    }

    #[inline]
    fn apply<R>(&self, guard: Option<&Guard>, step: impl Fn(u64) -> Step<R>) -> R {
        self.word.apply::<A, _>(&Pointees::maybe_under(guard), step).never_frozen()
    }

    fn put_back(&self, transition: impl Fn(u64) -> Option<(u64, u64)>) -> u64 {
        self.apply(self.guard().as_ref(), |payload| Step::put_back(transition(payload)))
    }

    fn peek(&self, now: u64, cost: u64) -> Snapshot {
        let guard = self.guard();
        self.algorithm.snapshot(self.apply(guard.as_ref(), Step::Keep), now, cost)
    }

    /// A cost of nothing, or of more than there can ever be.
    #[cold]
    fn decide_unchargeable(&self, now: u64, cost: u64) -> Result<Allowed, Denied> {
        let snapshot = self.peek(now, cost);
        match cost {
            0 => Ok(Allowed { snapshot, receipt: Receipt::NOTHING }),
            _ => Err(Denied { snapshot, cost, reason: Reason::Never }),
        }
    }
}

impl<A: Algorithm, C: Clock> Core<A, C> {
    #[inline]
    fn check(&self, cost: u64) -> Result<Allowed, Denied> {
        let guard = self.guard();
        let now = self.time.now();
        if cost.wrapping_sub(1) >= self.algorithm.limit() {
            return self.decide_unchargeable(now, cost);
        }
        let step = |payload| Step::charge(&self.algorithm, payload, now, cost);
        match self.apply(guard.as_ref(), step) {
            Charge::Allowed { payload, now } => {
                let snapshot = self.algorithm.snapshot(payload, now, cost);
                Ok(Allowed { snapshot, receipt: self.entry.receipt(0, cost) })
            }
            Charge::Refused { payload, now } => {
                let snapshot = self.algorithm.snapshot(payload, now, cost);
                Err(Denied { snapshot, cost, reason: Reason::Limited })
            }
            Charge::Full { .. } => unreachable!("a gate has no clients"),
        }
    }
}

impl<A: Algorithm, C> Drop for Core<A, C> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the gate, so nobody reads the payload or has it any more.
        unsafe { A::free(self.word.take()) };
        self.reclaim();
        self.algorithm.close();
    }
}

impl<A: Algorithm, C: Clock> GiveBack for Core<A, C> {
    fn give_back(&self, _: u64, cost: u64, charged: Charged) -> u64 {
        // The clock is read after the payload, as in `Map::give_back`.
        self.put_back(|payload| self.algorithm.give_back(payload, self.time.now(), cost, charged))
    }
}

impl<A: Algorithm, C: Clock> Source for Core<A, C> {
    fn look(&self, _: u64, cost: u64) -> Result<Status, Denied> {
        Status { snapshot: self.peek(self.time.now(), cost) }.judge(cost)
    }

    fn take(&self, _: u64, cost: u64) -> Result<Allowed, Denied> {
        self.check(cost)
    }
}

/// Clones share one state.
impl<A: Algorithm, C> Clone for Gate<A, C> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<A: Algorithm, C: Clock> fmt::Debug for Gate<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("algorithm", &self.core.algorithm).finish_non_exhaustive()
    }
}
