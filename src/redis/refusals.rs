//! The cache of refusals: who is known to be refused is refused here, without the store.
//!
//! An entry is what the store said of a client when it refused a call, and when. From it, what it would say now follows by
//! arithmetic, provided that nobody gives the client anything back: others can only have taken more. So a call that would
//! be refused by that state is refused, and any other goes to the store. The wait is the one that follows from it too; what
//! other processes let the client take since makes it longer.
//!
//! The store decided after it was asked, so its clock is now at most at the instant it named plus the time since *before*
//! it was asked. Counted from there, the cache may ask the store a little too early, and never refuses a moment too long.
//!
//! What gives a client something back has it forgotten. A refusal that was asked for before that may be told here only
//! after it; so it is not remembered.
//!
//! Entries lie in sets of four, each behind a lock that is held for some nanoseconds. A full set gives up what ends first.

use super::rule::{Rule, State};
use ahash::RandomState;
use std::sync::{Mutex, MutexGuard, PoisonError};

const WAYS: usize = 4;

/// A refusal as the store told it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    /// A keyed 64-bit hash of the client: as in-process, some two of n clients share it with a probability below n²/2⁶⁵.
    client: u64,
    cost: u64,
    state: State,
    /// Adds up with local time to the store's, in microseconds.
    offset: u64,
    /// When the call will be let pass, in the store's time.
    until: u64,
}

#[derive(Debug, Default)]
struct Set {
    places: [Option<Refusal>; WAYS],
    /// When one of the set's clients was last given something back, in local time.
    given_back: u64,
}

#[derive(Debug)]
pub(super) struct Refusals {
    hasher: RandomState,
    sets: Box<[Mutex<Set>]>,
}

impl Refusals {
    /// A cache of at least so many entries; of none, if that is 0.
    pub(super) fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(WAYS);
        Self { hasher: RandomState::new(), sets: (0..sets).map(|_| Mutex::default()).collect() }
    }

    pub(super) fn is_off(&self) -> bool {
        self.sets.is_empty()
    }

    pub(super) fn client(&self, key: &[u8], tag: Option<&[u8]>) -> u64 {
        self.hasher.hash_one((key, tag))
    }

    /// Under which state, and at which instant of the store, a call would be refused. `local` is in microseconds.
    pub(super) fn find(&self, rule: &Rule, client: u64, cost: u64, local: u64) -> Option<(State, u64)> {
        let set = self.set(client)?;
        let refusal = set.places.iter().flatten().find(|refusal| refusal.client == client)?;
        let now = refusal.offset.wrapping_add(local);
        // A log's state answers for the cost of its own decision only.
        let speaks = cost == refusal.cost || !matches!(refusal.state, State::SlidingLog { .. });
        let refused = || rule.answers(refusal.state, now, cost).retry_after.is_none_or(|wait| wait > 0);
        (speaks && refused()).then_some((refusal.state, now))
    }

    /// Remembers what the store said at `now`, when it was asked at `asked` of the local clock.
    pub(super) fn remember(&self, rule: &Rule, client: u64, cost: u64, state: State, now: u64, asked: u64) {
        let Some(wait @ 1..) = rule.answers(state, now, cost).retry_after else { return };
        let offset = now.wrapping_sub(asked);
        let refusal = Refusal { client, cost, state, offset, until: now.saturating_add(wait) };
        let Some(mut set) = self.set(client) else { return };
        if asked < set.given_back {
            return;
        }
        let places = &mut set.places;
        let place = places.iter().position(|place| place.is_some_and(|there| there.client == client));
        let ends_first = || (0..WAYS).min_by_key(|&place| places[place].map_or(0, |there| there.until));
        if let Some(place) = place.or_else(ends_first) {
            places[place] = Some(refusal);
        }
    }

    pub(super) fn forget(&self, client: u64) {
        if let Some(mut set) = self.set(client) {
            set.forget(client);
        }
    }

    /// Forgets a client that has been given something back by now.
    pub(super) fn given_back(&self, client: u64, local: u64) {
        if let Some(mut set) = self.set(client) {
            set.forget(client);
            set.given_back = set.given_back.max(local);
        }
    }

    fn set(&self, client: u64) -> Option<MutexGuard<'_, Set>> {
        let sets = self.sets.len() as u128;
        let set = self.sets.get(((u128::from(client) * sets) >> 64) as usize)?;
        Some(set.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Set {
    fn forget(&mut self, client: u64) {
        let found = |place: &&mut Option<Refusal>| place.is_some_and(|there| there.client == client);
        self.places.iter_mut().filter(found).for_each(|place| *place = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;

    #[test]
    fn refuses_up_to_the_very_microsecond() {
        let (rule, cache) = (Rule::token_bucket(Quota::per_second(2)).unwrap(), Refusals::new(1));
        // Emptied at 1,000,000 of the store, which was asked at 50 of the local clock.
        let State::TokenBucket { used: parts, .. } = rule.state([1_000_000, 0, 0]) else { unreachable!() };
        let (client, state) = (cache.client(b"alice", None), State::TokenBucket { used: parts, at: 1_000_000 });
        assert!(rule.answers(state, 1_000_000, 1).retry_after == Some(500_000), "{rule:?}");
        cache.remember(&rule, client, 1, state, 1_000_000, 50);
        assert_eq!(cache.find(&rule, client, 1, 500_049), Some((state, 1_499_999)));
        assert_eq!(cache.find(&rule, client, 1, 500_050), None);
        // A larger cost follows from the same state.
        assert_eq!(cache.find(&rule, client, 2, 500_050), Some((state, 1_500_000)));
        assert_eq!(cache.find(&rule, cache.client(b"bob", None), 1, 60), None);
        cache.forget(client);
        assert_eq!(cache.find(&rule, client, 1, 60), None);
    }

    #[test]
    fn what_was_asked_before_a_return_is_not_remembered() {
        let (rule, cache) = (Rule::token_bucket(Quota::per_hour(1)).unwrap(), Refusals::new(1));
        let (client, state) = (cache.client(b"alice", None), rule.after(1, 1_000_000));
        let held_when_asked_at = |asked| {
            cache.remember(&rule, client, 1, state, 1_000_000, asked);
            cache.find(&rule, client, 1, asked).is_some()
        };
        assert!(held_when_asked_at(50));
        cache.given_back(client, 60);
        assert!(!held_when_asked_at(59));
        assert!(held_when_asked_at(60));
    }

    #[test]
    fn a_full_set_gives_up_what_ends_first() {
        let (rule, cache) =
            (Rule::fixed_window(Quota::per_second(1), crate::Anchor::Aligned).unwrap(), Refusals::new(4));
        for client in [3, 1, 4, 5, 9] {
            let state = State::FixedWindow { count: 1, start: client * 1000 };
            cache.remember(&rule, client, 1, state, client * 1000, 0);
        }
        let held = [1, 3, 4, 5, 9].map(|client| cache.find(&rule, client, 1, 0).is_some());
        assert_eq!(held, [false, true, true, true, true]);
        assert!(Refusals::new(0).is_off());
    }
}
