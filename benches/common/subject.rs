//! What is measured: limiters behind one trait, and their list.

use super::keys::{Key, Keys};
use super::limits::Limits;
use super::peers::bare::{Bare, BareBatch};
use super::peers::{direct, governor, maps, mutexes, tollgate};

/// A limiter under test.
pub trait Subject<K: Key>: Send + Sync {
    /// Whether one call of this client may go ahead.
    fn check(&self, key: &K) -> bool;

    /// Makes so many checks, and returns how many were allowed. It is a loop compiled for each subject: this is timed.
    fn run(&self, keys: &mut Keys, checks: u64) -> u64 {
        let mut allowed = 0;
        for _ in 0..checks {
            allowed += u64::from(self.check(&K::of(keys.number())));
        }
        allowed
    }

    /// Forgets the clients who have their whole limit again.
    fn sweep(&self) {}

    /// Clients that are held.
    fn len(&self) -> usize {
        1
    }

    /// Bytes held, of those who know.
    fn bytes(&self) -> Option<usize> {
        None
    }
}

/// Makes so many checks in batches of 64, of each of which `allowed` says how many were.
#[inline]
pub fn run_in_batches<K: Key>(keys: &mut Keys, checks: u64, allowed: impl Fn(&[K]) -> usize) -> u64 {
    const SIZE: u64 = 64;
    let mut sum = 0;
    let mut left = checks;
    while left > 0 {
        let size = left.min(SIZE);
        let batch: [K; SIZE as usize] = std::array::from_fn(|_| K::of(keys.number()));
        sum += allowed(&batch[..size as usize]) as u64;
        left -= size;
    }
    sum
}

/// One that takes part.
pub struct Contender<K: Key> {
    pub name: &'static str,
    pub make: fn(Limits) -> Box<dyn Subject<K>>,
}

impl<K: Key> Clone for Contender<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Key> Copy for Contender<K> {}

pub const CHECK: &str = "tollgate";
pub const SESSION: &str = "tollgate Session";
pub const CHECK_MANY: &str = "tollgate check_many(64)";
pub const GATE: &str = "tollgate Gate";
pub const GOVERNOR: &str = "governor";
pub const GOVERNOR_AHASH: &str = "governor + ahash";
pub const GOVERNOR_DIRECT: &str = "governor direct";
pub const RATELIMIT: &str = "ratelimit";
pub const RATELOCK: &str = "ratelock";
pub const LEAKY_BUCKET: &str = "leaky-bucket";
pub const LEAKY_BUCKET_UNFAIR: &str = "leaky-bucket unfair";
pub const DASHMAP: &str = "word in DashMap";
pub const PAPAYA: &str = "word in papaya";
pub const PAPAYA_BLOCKING: &str = "word in papaya, blocking";
pub const SCC: &str = "word in scc";
pub const FLURRY: &str = "word in flurry";
pub const MUTEX: &str = "Mutex<HashMap>";
pub const SHARDED: &str = "sharded mutex";
pub const RWLOCK: &str = "RwLock<HashMap<Mutex>>";
pub const BARE_CHECK: &str = "bare: pin, hash, clock, CAS";
pub const BARE_SESSION: &str = "bare: hash, clock, CAS";
pub const BARE_CHECK_MANY: &str = "bare: hash, search, CAS, decision";
pub const BARE_GATE: &str = "bare: clock, CAS";

/// Slots for some thousand clients, and for 8 million.
const FEW_SLOTS: usize = 1 << 12;
const MANY_SLOTS: usize = 1 << 24;

/// Where subjects are not given the same limits, or do not do the same.
pub const NOTES: &str = "Where a gate's limit refills once a day, ratelock's does so once a second, its slowest rate that \
                         is not none. leaky-bucket unfair reads no clock while it has permits. The bare rows limit \
                         nobody: they are what a check is made of at the least.";

/// Whether a subject is this crate's.
pub fn is_ours(name: &str) -> bool {
    name.starts_with("tollgate")
}

/// What a subject of this crate cannot do without, as a subject that does only that.
pub fn bare(name: &str) -> Option<&'static str> {
    match name {
        CHECK => Some(BARE_CHECK),
        SESSION => Some(BARE_SESSION),
        CHECK_MANY => Some(BARE_CHECK_MANY),
        GATE => Some(BARE_GATE),
        _ => None,
    }
}

/// Whether a subject is one of the lower bounds, and no limiter.
pub fn is_bare(name: &str) -> bool {
    name.starts_with("bare")
}

/// Those who limit each client on its own, a check at a time.
pub fn keyed<K: Key>() -> Vec<Contender<K>> {
    vec![
        Contender { name: CHECK, make: |limits| Box::new(tollgate::Single::new(limits)) },
        Contender { name: GOVERNOR, make: |limits| Box::new(governor::with_std_hash(limits)) },
        Contender { name: GOVERNOR_AHASH, make: |limits| Box::new(governor::with_ahash(limits)) },
        Contender { name: DASHMAP, make: |limits| Box::new(maps::InDashMap::new(limits)) },
        Contender { name: PAPAYA, make: |limits| Box::new(maps::InPapaya::incremental(limits)) },
        Contender { name: PAPAYA_BLOCKING, make: |limits| Box::new(maps::InPapaya::blocking(limits)) },
        Contender { name: SCC, make: |limits| Box::new(maps::InScc::new(limits)) },
        Contender { name: FLURRY, make: |limits| Box::new(maps::InFlurry::new(limits)) },
        Contender { name: MUTEX, make: |limits| Box::new(mutexes::One::new(limits)) },
        Contender { name: SHARDED, make: |limits| Box::new(mutexes::Sharded::new(limits)) },
        Contender { name: RWLOCK, make: |limits| Box::new(mutexes::Each::new(limits)) },
    ]
}

/// As [`keyed`], and the two ways to make tollgate's checks cheaper in a loop and in a batch.
pub fn keyed_in_loops<K: Key>() -> Vec<Contender<K>> {
    let mut all = keyed();
    let ours = [
        Contender { name: SESSION, make: |limits| Box::new(tollgate::InSession::new(limits)) },
        Contender { name: CHECK_MANY, make: |limits| Box::new(tollgate::Batch::new(limits)) },
    ];
    all.splice(1..1, ours);
    all
}

/// Those who limit one thing as a whole.
pub fn direct() -> Vec<Contender<()>> {
    vec![
        Contender { name: GATE, make: |limits| Box::new(tollgate::OneGate::new(limits)) },
        Contender { name: GOVERNOR_DIRECT, make: |limits| Box::new(governor::Direct::new(limits)) },
        Contender { name: RATELIMIT, make: |limits| Box::new(direct::Ratelimit::new(limits)) },
        Contender { name: RATELOCK, make: |limits| Box::new(direct::Ratelock::new(limits)) },
        Contender { name: LEAKY_BUCKET, make: |limits| Box::new(direct::LeakyBucket::fair(limits)) },
        Contender { name: LEAKY_BUCKET_UNFAIR, make: |limits| Box::new(direct::LeakyBucket::unfair(limits)) },
    ]
}

/// The lower bounds of what this crate does for each of a few clients.
pub fn bare_keyed<K: Key>() -> Vec<Contender<K>> {
    vec![
        Contender { name: BARE_CHECK, make: |_| Box::new(Bare::<true>::new(FEW_SLOTS)) },
        Contender { name: BARE_SESSION, make: |_| Box::new(Bare::<false>::new(FEW_SLOTS)) },
        Contender { name: BARE_CHECK_MANY, make: |_| Box::new(BareBatch::new(FEW_SLOTS)) },
    ]
}

/// The lower bound of a check by each of 8 million clients: in a table that never grows, but holds them from the start.
pub fn bare_growth<K: Key>() -> Contender<K> {
    Contender { name: BARE_CHECK, make: |_| Box::new(Bare::<true>::new(MANY_SLOTS)) }
}

/// The lower bound of a gate.
pub fn bare_direct() -> Vec<Contender<()>> {
    vec![Contender { name: BARE_GATE, make: |_| Box::new(Bare::<false>::new(1)) }]
}
