//! tollgate, by each of its ways to check.

use crate::common::keys::{Key, Keys};
use crate::common::limits::Limits;
use crate::common::subject::{Subject, run_in_batches};
use tollgate::{Algorithm, Gate, Limiter, LimiterBuilder, Quota, TokenBucket};

/// The same limits for tollgate.
pub fn builder(limits: Limits) -> LimiterBuilder<TokenBucket> {
    Limiter::token_bucket(quota(limits))
}

fn quota(limits: Limits) -> Quota {
    Quota::per(1, limits.period).burst(limits.burst.into())
}

fn limiter(limits: Limits) -> Limiter {
    builder(limits).build().expect("limits that tollgate can hold")
}

/// [`Limiter::check`], with any algorithm.
pub struct Single<A: Algorithm = TokenBucket>(pub Limiter<A>);

impl Single {
    pub fn new(limits: Limits) -> Self {
        Self(limiter(limits))
    }
}

impl<A: Algorithm, K: Key> Subject<K> for Single<A> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        self.0.check(key).is_ok()
    }

    fn sweep(&self) {
        self.0.sweep();
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.0.memory_bytes())
    }
}

/// [`Session::check`](tollgate::Session::check).
pub struct InSession(Limiter);

impl InSession {
    pub fn new(limits: Limits) -> Self {
        Self(limiter(limits))
    }
}

impl<K: Key> Subject<K> for InSession {
    fn check(&self, key: &K) -> bool {
        self.0.check(key).is_ok()
    }

    fn run(&self, keys: &mut Keys, checks: u64) -> u64 {
        let mut session = self.0.session();
        let mut allowed = 0;
        for _ in 0..checks {
            allowed += u64::from(session.check(&K::of(keys.number())).is_ok());
        }
        allowed
    }
}

/// [`Limiter::check_many`].
pub struct Batch(Limiter);

impl Batch {
    pub fn new(limits: Limits) -> Self {
        Self(limiter(limits))
    }
}

impl<K: Key> Subject<K> for Batch {
    fn check(&self, key: &K) -> bool {
        self.0.check(key).is_ok()
    }

    fn run(&self, keys: &mut Keys, checks: u64) -> u64 {
        let allowed = |batch: &[K]| self.0.check_many(batch).iter().filter(|decision| decision.is_ok()).count();
        run_in_batches(keys, checks, allowed)
    }
}

/// [`Gate::check`].
pub struct OneGate(Gate);

impl OneGate {
    pub fn new(limits: Limits) -> Self {
        Self(Gate::token_bucket(quota(limits)).build().expect("limits that tollgate can hold"))
    }
}

impl Subject<()> for OneGate {
    #[inline]
    fn check(&self, (): &()) -> bool {
        self.0.check().is_ok()
    }
}
