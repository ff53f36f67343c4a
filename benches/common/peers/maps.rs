//! The bucket word in the concurrent maps that people would take for it, all with the same fast hash.

use super::word::Rule;
use crate::common::keys::Key;
use crate::common::limits::Limits;
use crate::common::subject::Subject;
use ahash::RandomState;
use std::sync::atomic::AtomicU64;

/// dashmap: shards, each behind a lock for readers and writers.
pub struct InDashMap<K> {
    words: dashmap::DashMap<K, AtomicU64, RandomState>,
    rule: Rule,
}

impl<K: Key> InDashMap<K> {
    pub fn new(limits: Limits) -> Self {
        Self { words: dashmap::DashMap::with_hasher(RandomState::new()), rule: Rule::new(limits) }
    }
}

impl<K: Key> Subject<K> for InDashMap<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        match self.words.get(key) {
            Some(word) => self.rule.take(&word),
            None => self.rule.take(&self.words.entry(key.clone()).or_default()),
        }
    }

    fn sweep(&self) {
        let is_live = self.rule.is_live();
        self.words.retain(|_, word| is_live(word));
    }

    fn len(&self) -> usize {
        self.words.len()
    }
}

/// papaya: lock-free, entries behind pointers.
pub struct InPapaya<K> {
    words: papaya::HashMap<K, AtomicU64, RandomState>,
    rule: Rule,
}

impl<K: Key> InPapaya<K> {
    /// The default: who inserts moves a part of a map that is growing. Where nobody inserts any more it stays half moved,
    /// and lookups go through both of its tables.
    pub fn incremental(limits: Limits) -> Self {
        Self::new(limits, papaya::ResizeMode::default())
    }

    /// Its best for clients that are there: who finds the map full moves all of it, and others wait.
    pub fn blocking(limits: Limits) -> Self {
        Self::new(limits, papaya::ResizeMode::Blocking)
    }

    fn new(limits: Limits, mode: papaya::ResizeMode) -> Self {
        let words = papaya::HashMap::builder().hasher(RandomState::new()).resize_mode(mode).build();
        Self { words, rule: Rule::new(limits) }
    }
}

impl<K: Key> Subject<K> for InPapaya<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        let words = self.words.pin();
        match words.get(key) {
            Some(word) => self.rule.take(word),
            None => self.rule.take(words.get_or_insert_with(key.clone(), AtomicU64::default)),
        }
    }

    fn sweep(&self) {
        let is_live = self.rule.is_live();
        self.words.pin().retain(|_, word| is_live(word));
    }

    fn len(&self) -> usize {
        self.words.len()
    }
}

/// scc: small buckets, each behind a lock for readers and writers.
pub struct InScc<K> {
    words: scc::HashMap<K, AtomicU64, RandomState>,
    rule: Rule,
}

impl<K: Key> InScc<K> {
    pub fn new(limits: Limits) -> Self {
        Self { words: scc::HashMap::with_hasher(RandomState::new()), rule: Rule::new(limits) }
    }
}

impl<K: Key> Subject<K> for InScc<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        match self.words.read_sync(key, |_, word| self.rule.take(word)) {
            Some(allowed) => allowed,
            None => self.rule.take(self.words.entry_sync(key.clone()).or_default().get()),
        }
    }

    fn sweep(&self) {
        let is_live = self.rule.is_live();
        self.words.retain_sync(|_, word| is_live(word));
    }

    fn len(&self) -> usize {
        self.words.len()
    }
}

/// flurry: Java's `ConcurrentHashMap`, lists in buckets, entries behind pointers.
pub struct InFlurry<K> {
    words: flurry::HashMap<K, AtomicU64, RandomState>,
    rule: Rule,
}

impl<K: Key> InFlurry<K> {
    pub fn new(limits: Limits) -> Self {
        Self { words: flurry::HashMap::with_hasher(RandomState::new()), rule: Rule::new(limits) }
    }
}

impl<K: Key> Subject<K> for InFlurry<K> {
    #[inline]
    fn check(&self, key: &K) -> bool {
        let guard = self.words.guard();
        match self.words.get(key, &guard) {
            Some(word) => self.rule.take(word),
            None => match self.words.try_insert(key.clone(), AtomicU64::default(), &guard) {
                Ok(word) => self.rule.take(word),
                Err(taken) => self.rule.take(taken.current),
            },
        }
    }

    fn sweep(&self) {
        let is_live = self.rule.is_live();
        self.words.retain(|_, word| is_live(word), &self.words.guard());
    }

    fn len(&self) -> usize {
        self.words.len()
    }
}
