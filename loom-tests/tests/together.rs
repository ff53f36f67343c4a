//! Several limits in one decision: two calls that take from the same two clients, each listing them in its own order.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;
use std::sync::Arc;
use tollgate::model::{Charge, Charged, Few, Part, take_all};

const NOW: u64 = 10;

/// One token of one client.
struct Token {
    map: Arc<Buckets>,
    client: u64,
}

impl Part for Token {
    type Rank = u64;
    type Seen = ();
    type Taken = Charged;
    type Refusal = ();

    fn rank(&self) -> u64 {
        self.client
    }

    fn cost(&self) -> u64 {
        1
    }

    fn look(&self, cost: u64) -> Result<(), ()> {
        use tollgate::Answers;
        let (payload, now) = self.map.peek(self.map.locate(&self.map.pin(), client(self.client)), NOW);
        if bucket(BURST).remaining(payload, now) >= cost { Ok(()) } else { Err(()) }
    }

    fn take(&self, cost: u64) -> Result<Charged, ()> {
        let guard = self.map.pin();
        match self.map.charge(self.map.locate(&guard, client(self.client)), NOW, cost) {
            Charge::Allowed { payload, now } => Ok(Charged::of(&bucket(BURST), payload, now, cost)),
            Charge::Refused { .. } => Err(()),
            Charge::Full { .. } => panic!("no place"),
        }
    }

    fn give_back(&self, taken: Charged) {
        let returned = self.map.give_back(self.map.locate(&self.map.pin(), client(self.client)), || NOW, 1, taken);
        assert_eq!(returned, 1, "what is held is there to be given back");
    }
}

const BURST: u64 = 2;

/// Whether a call passes that lists these clients.
fn together(map: &Arc<Buckets>, clients: [u64; 2]) -> bool {
    let tokens: Few<Token> = clients.into_iter().map(|client| Token { map: map.clone(), client }).collect();
    take_all(&tokens).is_ok()
}

/// A map in which both clients have one token left.
fn one_left_each() -> Arc<Buckets> {
    let map = buckets(BURST);
    assert!(charge(&map, client(0), NOW) && charge(&map, client(1), NOW));
    map
}

fn left(map: &Buckets) -> (u64, u64) {
    (drain(map, client(0), NOW), drain(map, client(1), NOW))
}

#[test]
fn of_two_calls_after_the_same_last_tokens_one_gets_them() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("of_two_calls_after_the_same_last_tokens_one_gets_them", move || {
        let map = one_left_each();
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || together(&a, [0, 1]), move || together(&b, [1, 0]));
        assert_ne!(passed.0, passed.1, "both tokens for one of two");
        assert_eq!(left(&map), (0, 0));
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn what_a_refused_call_held_comes_back() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("what_a_refused_call_held_comes_back", move || {
        let map = one_left_each();
        let (a, b, c) = (map.clone(), map.clone(), map.clone());
        // Two single calls come between look and take, or find a token held that is given back.
        let other = loom::thread::spawn(move || charge(&c, client(0), NOW));
        let (all, second) = race(move || together(&a, [0, 1]), move || charge(&b, client(1), NOW));
        let first = other.join().unwrap();
        let taken = (u64::from(all) + u64::from(first), u64::from(all) + u64::from(second));
        assert!(taken.0 <= 1 && taken.1 <= 1, "an admission too many");
        assert_eq!(left(&map), (1 - taken.0, 1 - taken.1), "a refusal charges nothing");
        outcomes.add((all, first, second));
    });
    // The last one: the first token was held meanwhile, by the call that found the second one gone.
    seen.are([(true, false, false), (false, true, true), (false, false, true)]);
}
