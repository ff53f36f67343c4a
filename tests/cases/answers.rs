//! Answers outlive everything.

use super::*;
use std::hash::{BuildHasherDefault, DefaultHasher};

#[test]
fn answers_are_owned_values_that_may_go_anywhere() {
    fn goes_anywhere<T: Send + Sync + 'static>() {}
    goes_anywhere::<Allowed>();
    goes_anywhere::<Denied>();
    goes_anywhere::<Status>();
    goes_anywhere::<Limiter>();
    goes_anywhere::<Gate>();
    goes_anywhere::<BuildError>();
}

#[test]
fn an_answer_in_hand_holds_nobody_up() {
    for kind in ALL {
        let limiter = kind.limiter(quota("2/2s"), ManualClock::new()).unwrap();
        let client = limiter.client(0);
        let (allowed, status) = (client.check_n(1).unwrap(), client.peek());
        assert!((1..10_000).all(|key| limiter.check(key).is_ok()));
        assert_eq!(limiter.sweep(), 0);
        assert_eq!(client.left(), 0);
        // It tells of its own moment, and still works.
        assert_eq!((allowed.remaining(), status.remaining()), (1, 1));
        assert_eq!(thread::spawn(|| allowed.give_back()).join().unwrap(), 1);
        assert_eq!(client.peek().remaining(), 1);
    }
}

#[test]
fn a_receipt_outlives_its_limiter_and_touches_no_other() {
    let clock = ManualClock::new();
    // All hash alike, so one's receipt would fit any other.
    let limiter = || {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        Limiter::token_bucket(quota("1/h;burst=3")).clock(clock.clone()).hasher(hasher).build().unwrap()
    };
    for kind in ALL {
        let gate = || kind.gate(quota("3/3h"), clock.clone()).unwrap();
        let orphan = gate().check_n(3).unwrap();
        // These take the place of the one that is gone.
        let gates: Vec<_> = (0..8).map(|_| gate()).collect();
        assert!(gates.iter().all(|gate| gate.check_n(3).is_ok()));
        assert_eq!((orphan.remaining(), orphan.give_back()), (0, 0));
        assert!(gates.iter().all(|gate| !gate.allow()));
    }

    let orphan = limiter().check_n("client", 3).unwrap();
    let limiters: Vec<_> = (0..8).map(|_| limiter()).collect();
    assert!(limiters.iter().all(|limiter| limiter.check_n("client", 3).is_ok()));
    assert_eq!((orphan.remaining(), orphan.give_back()), (0, 0));
    assert!(limiters.iter().all(|limiter| !limiter.allow("client")));
}

#[test]
fn a_receipt_of_a_client_that_was_forgotten_returns_nothing() {
    for kind in ALL {
        let clock = ManualClock::new();
        let limiter = kind.limiter(quota("3/3s"), clock.clone()).unwrap();
        let receipt = limiter.client(0).check_n(3).unwrap();
        clock.advance(secs(6));
        assert_eq!(limiter.sweep(), 1);
        assert_eq!(receipt.give_back(), 0);
        assert_eq!(limiter.len(), 0);
    }
}

#[test]
fn clones_share_one_state() {
    let clock = ManualClock::new();
    let limiter = limiter("1/h;burst=2", &clock);
    let gate = Gate::token_bucket(quota("1/h;burst=2")).clock(Arc::new(clock)).build().unwrap();
    assert!(limiter.clone().allow("client") && limiter.allow("client") && !limiter.clone().allow("client"));
    assert!(gate.clone().allow() && gate.allow() && !gate.clone().allow());
}
