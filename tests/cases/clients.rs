//! Many clients.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseResult;
use std::collections::VecDeque;

/// Holds as many live clients as it may: each has used everything. Returns how many those are.
fn fill(limiter: &dyn Clients) -> usize {
    let cost = limiter.client(0).peek().limit();
    let full = |client| limiter.client(client).check_n(cost).is_err_and(|denied| denied.reason() == Reason::Full);
    // A few more: a caller may find the last places where another does not look.
    let clients = (0..).position(full).unwrap();
    assert_eq!(limiter.len(), clients);
    clients
}

const MODES: [WhenFull; 3] = [WhenFull::Deny, WhenFull::Allow, WhenFull::Shared];

/// A client that no other key below is.
const STRANGER: u64 = u64::MAX;

/// What a limiter of 10,000 clients holds when it is full.
const HELD: usize = 11_250;

/// A limiter of 5 a second that holds 10,000 clients.
fn bounded(kind: Kind, mode: WhenFull, clock: &ManualClock) -> Box<dyn Clients> {
    kind.bounded(quota("5/s"), clock.clone(), 10_000, mode).unwrap()
}

/// The same, full of clients that have used everything.
fn full(kind: Kind, mode: WhenFull, clock: &ManualClock) -> Box<dyn Clients> {
    let limiter = bounded(kind, mode, clock);
    assert!((0..HELD as u64).all(|client| limiter.client(client).check_n(5).is_ok()));
    limiter
}

#[test]
fn a_new_client_of_a_full_limiter_gets_the_configured_answer() {
    for kind in ALL {
        // When a client that has used everything has everything again, and when all of them have one call again.
        let (all, one) = match kind {
            Kind::TokenBucket => (secs(1), millis(200)),
            SlidingCounter(_) => (secs(2), secs(1) + nanos(1)),
            StrictCounter(_) => (secs(2), millis(1200)),
            _ => (secs(1), secs(1)),
        };
        for mode in MODES {
            let limiter = bounded(kind, mode, &ManualClock::new());
            let mut answers = (0..20_000).map(|key| limiter.check(key));
            let held = limiter.len();
            let _ = answers.by_ref().take(HELD).map(|answer| assert!(answer.is_ok())).count();
            assert_eq!((held, limiter.len()), (0, HELD));
            let strangers: Vec<_> = answers.collect();
            match mode {
                WhenFull::Deny => {
                    for denied in strangers.into_iter().map(Result::unwrap_err) {
                        assert_eq!((denied.reason(), denied.remaining()), (Reason::Full, 0));
                        assert_eq!(denied.retry_after(), Some(all), "{kind:?}");
                    }
                }
                WhenFull::Allow => {
                    for allowed in strangers.into_iter().map(Result::unwrap) {
                        assert_eq!((allowed.limit(), allowed.remaining()), (5, 4));
                        assert!(allowed.reset_after() > Duration::ZERO);
                        assert_eq!(allowed.give_back(), 0);
                    }
                }
                _ => {
                    let (passed, refused): (Vec<_>, Vec<_>) = strangers.into_iter().partition(Result::is_ok);
                    assert_eq!((passed.len(), refused.len()), (5, 8_745));
                    for denied in refused.into_iter().map(Result::unwrap_err) {
                        assert_eq!((denied.reason(), denied.retry_after()), (Reason::Limited, Some(one)), "{kind:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_client_that_has_used_something_survives_any_flood() {
    for kind in ALL {
        let keys = if kind == Kind::TokenBucket { 400_000 } else { 50_000 };
        let step = nanos(800_000_000 / keys);
        for mode in MODES {
            let clock = ManualClock::new();
            let limiter = bounded(kind, mode, &clock);
            let drained = limiter.client(STRANGER);
            assert!(drained.check_n(5).is_ok());
            let wait = drained.wait(5);
            for key in 0..keys {
                clock.advance(step);
                let _ = limiter.client(key).check_n(1 + key % 5);
                if key % (keys / 10) == 0 {
                    limiter.sweep();
                }
                if key % 1000 == 0 {
                    assert_eq!(drained.wait(5), wait - step * (key as u32 + 1), "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn the_wait_of_a_full_limiter_suffices() {
    const RATES: [&str; 7] =
        ["1/d;burst=3", "5/s", "1000/s;burst=10", "1/us;burst=1000", "1/us;burst=1", "1/ns;burst=1000", "4/ns"];
    const WINDOWS: [&str; 5] = ["1/d", "5/s", "1000/s", "5/100us", "1/7ns"];
    let suffices = |kind: Kind, rate| {
        for max_keys in [1, 2, 100, 1000, 10_000] {
            let clock = ManualClock::new();
            let limiter = kind.bounded(quota(rate), clock.clone(), max_keys, WhenFull::Deny).unwrap();
            fill(&*limiter);
            let denied = limiter.check(STRANGER).unwrap_err();
            assert_eq!(denied.reason(), Reason::Full);
            clock.advance(denied.retry_after().unwrap());
            assert!(limiter.check(STRANGER).is_ok(), "{rate} with {max_keys} by {kind:?}");
        }
    };
    RATES.iter().for_each(|rate| suffices(Kind::TokenBucket, rate));
    windows().for_each(|kind| WINDOWS.iter().for_each(|rate| suffices(kind, rate)));
}

#[test]
fn a_receipt_gives_the_shared_state_no_more_than_was_taken_from_it() {
    for kind in ALL {
        let limiter = bounded(kind, WhenFull::Shared, &ManualClock::new());
        let (early, stranger) = (limiter.client(STRANGER - 1), limiter.client(STRANGER));
        let receipt = early.check_n(1).unwrap();
        early.reset();
        limiter.sweep();
        assert!((0..HELD as u64).all(|client| limiter.client(client).check_n(5).is_ok()));
        // From here on "early" has no place, and its receipt is for one that it had.
        let shared = stranger.check_n(1).unwrap();
        let left = stranger.peek().remaining();
        assert_eq!(receipt.give_back(), 0);
        assert_eq!(stranger.peek().remaining(), left);
        assert_eq!(shared.give_back(), 1);
        assert_eq!(stranger.peek().remaining(), left + 1, "{kind:?}");
    }
}

#[test]
fn clients_without_a_place_share_one_state() {
    for kind in ALL {
        let clock = ManualClock::new();
        let limiter = full(kind, WhenFull::Shared, &clock);
        let [one, other] = [STRANGER, STRANGER - 1].map(|key| limiter.client(key));
        assert_eq!((one.check_n(2).unwrap().remaining(), other.peek().remaining()), (3, 3));
        assert_eq!((other.refund(1), one.peek().remaining()), (1, 4));
        assert_eq!(other.check_n(4).unwrap().remaining(), 0);
        assert_eq!(one.check_n(6).unwrap_err().reason(), Reason::Never);
        assert_eq!((one.reset(), other.reset(), other.peek().remaining()), (true, false, 5));
        other.drain();
        // By the time that places fall free again, they have everything again too.
        clock.advance(secs(2));
        assert_eq!((one.passes(), other.passes()), (5, 5), "{kind:?}");
    }
}

#[test]
fn a_refused_newcomer_takes_no_place() {
    for kind in ALL {
        let limiter = full(kind, WhenFull::Shared, &ManualClock::new());
        while limiter.check(STRANGER).is_ok() {}
        // Places are free again, and the shared state is used up.
        (0..10).for_each(|client| assert!(limiter.client(client).reset()));
        limiter.sweep();
        assert_eq!(limiter.len(), HELD - 10);
        assert!((1..6).all(|n| limiter.check(STRANGER - n).is_err()));
        assert_eq!(limiter.len(), HELD - 10);
    }
}

#[test]
fn a_place_that_falls_free_is_found_at_once() {
    for kind in ALL {
        for max_keys in [1, 2, 20, 100, 1000, 5000, 10_000] {
            let clock = ManualClock::new();
            let limiter = kind.bounded(quota("5/h"), clock.clone(), max_keys, WhenFull::Deny).unwrap();
            let held = fill(&*limiter);
            assert!((max_keys..=max_keys + max_keys / 8).contains(&held));
            // As soon as fewer clients are live than may be, a new one has its place: at the same instant.
            for client in 0..=(held - max_keys) as u64 {
                assert!(limiter.client(client).reset());
            }
            assert!(limiter.check(STRANGER).is_ok(), "{max_keys} by {kind:?}");
            assert!(limiter.len() <= held);
        }
    }
}

#[test]
fn a_client_that_gets_its_place_later_starts_from_the_shared_state() {
    for kind in ALL {
        let clock = ManualClock::new();
        let limiter = full(kind, WhenFull::Shared, &clock);
        let [first, second, third] = [1, 2, 3].map(|n| limiter.client(STRANGER - n));
        // Two strangers share what a single one could take.
        assert_eq!(first.check_n(2).unwrap().remaining(), 3);
        assert_eq!(second.check_n(2).unwrap().remaining(), 1);
        assert_eq!(third.peek().remaining(), 1);
        assert_eq!(limiter.len(), HELD);
        for client in 0..2_000 {
            assert!(limiter.client(client).reset());
        }
        // It has a place of its own now, and in it what was left.
        assert_eq!(first.left(), 0);
        assert_eq!(third.peek().remaining(), 1);
        limiter.sweep();
        assert_eq!(limiter.len(), HELD - 1_999);
        assert!(second.check_n(2).is_err());
        clock.advance(first.wait(4));
        assert!(first.check_n(4).is_ok(), "{kind:?}");
    }
}

#[test]
fn clients_that_come_and_go_keep_their_own_state() {
    for kind in ALL {
        // Each client is drained, and comes back just before it can call again.
        let clock = ManualClock::new();
        let limiter = kind.limiter(quota("2/2ms"), clock.clone()).unwrap();
        let mut waiting = VecDeque::new();
        let mut time = Duration::ZERO;
        for client in (0..30_000).map(|key| (key, limiter.client(key))) {
            assert_eq!(client.1.check_n(2).unwrap().remaining(), 0);
            waiting.push_back((time + client.1.wait(2), client.0));
            clock.advance(micros(1));
            time += micros(1);
            while let Some((ready, key)) = waiting.pop_front_if(|(ready, _)| *ready <= time + micros(1)) {
                let early = (ready > time).then(|| ready - time);
                assert_eq!(limiter.client(key).check_n(2).err().map(|denied| denied.retry_after()), early.map(Some));
            }
        }
        assert!(waiting.len() < 30_000 / 2);
    }
}

/// What happens to one of a few clients of a limiter.
#[derive(Clone, Debug)]
enum Event {
    Charge(u64),
    GiveBack(Index),
    Refund(u64),
    Reset,
    Sweep,
    /// So many clients call that the table grows.
    Crowd,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => (0..=7_u64).prop_map(Event::Charge),
        2 => any::<Index>().prop_map(Event::GiveBack),
        1 => (0..=7_u64).prop_map(Event::Refund),
        1 => select(vec![Event::Reset, Event::Crowd]),
        3 => Just(Event::Sweep),
    ]
}

/// A gate forgets nothing, so it shows what a limiter that forgot too much would get wrong.
fn is_answered_as_a_gate_would(kind: Kind, rate: &str, events: Vec<(usize, u64, Event)>) -> TestCaseResult {
    let clock = ManualClock::new();
    let limiter = kind.limiter(quota(rate), clock.clone()).unwrap();
    let gates = [(); 3].map(|()| kind.gate(quota(rate), clock.clone()).unwrap());
    gates[0].drain();
    let refill = gates[0].peek().reset_after();
    gates[0].reset();
    let mut receipts = Vec::new();
    let mut strangers = 1_000..;
    for (client, thousandths, event) in events {
        let (gate, client) = (&gates[client], limiter.client(client as u64));
        clock.advance(refill.mul_f64(thousandths.saturating_sub(300) as f64 / 1000.0));
        match event {
            Event::Charge(cost) => match (client.check_n(cost), gate.check_n(cost)) {
                (Ok(ours), Ok(theirs)) => {
                    prop_assert_eq!(ours.remaining(), theirs.remaining());
                    prop_assert_eq!(ours.reset_after(), theirs.reset_after());
                    receipts.push((ours, theirs));
                }
                (Err(ours), Err(theirs)) => {
                    prop_assert_eq!(ours.reason(), theirs.reason());
                    prop_assert_eq!(ours.remaining(), theirs.remaining());
                    prop_assert_eq!(ours.reset_after(), theirs.reset_after());
                    prop_assert_eq!(ours.retry_after(), theirs.retry_after());
                }
                (ours, theirs) => prop_assert!(false, "{:?}, not {:?}", ours, theirs),
            },
            Event::GiveBack(receipt) if !receipts.is_empty() => {
                let (ours, theirs): (Allowed, Allowed) = receipts.swap_remove(receipt.index(receipts.len()));
                prop_assert_eq!(ours.give_back(), theirs.give_back());
            }
            Event::GiveBack(_) => {}
            Event::Refund(tokens) => prop_assert_eq!(client.refund(tokens), gate.refund(tokens)),
            Event::Reset => prop_assert_eq!(client.reset(), gate.reset()),
            Event::Sweep => _ = limiter.sweep(),
            Event::Crowd => assert!(strangers.by_ref().take(300).all(|stranger| limiter.check(stranger).is_ok())),
        }
        prop_assert_eq!(client.peek().remaining(), gate.peek().remaining());
        prop_assert_eq!(client.peek().reset_after(), gate.peek().reset_after());
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_client_of_a_bucket_is_answered_as_a_gate_of_its_own_would_be(
        rate in select(vec!["6/s", "7/s", "3/ns;burst=6", "1/d;burst=6"]),
        events in vec((0..3_usize, 0..=1300_u64, any_event()), 1..100),
    ) {
        is_answered_as_a_gate_would(Kind::TokenBucket, rate, events)?;
    }

    #[test]
    fn a_client_of_windows_is_answered_as_a_gate_of_its_own_would_be(
        kind in select(windows().collect::<Vec<_>>()),
        rate in select(vec!["6/s", "7/s", "6/d", "5/100us", "1/13min"]),
        events in vec((0..3_usize, 0..=1300_u64, any_event()), 1..100),
    ) {
        is_answered_as_a_gate_would(kind, rate, events)?;
    }
}

/// In batches of all lengths around a block, with clients that find no place, come twice, or come at a clock that went back.
#[test]
fn batches_meet_a_full_limiter_as_single_calls_do() {
    fn told(decision: &Result<Allowed, Denied>) -> (u64, Option<Reason>) {
        match decision {
            Ok(allowed) => (allowed.remaining(), None),
            Err(denied) => (denied.remaining(), Some(denied.reason())),
        }
    }
    for (kind, mode) in ALL.into_iter().flat_map(|kind| MODES.map(|mode| (kind, mode))) {
        let clock = clock_at(secs(3600));
        let [single, other] = [(); 2].map(|()| kind.bounded(quota("3/h"), clock.clone(), 100, mode).unwrap());
        let mut full = 0;
        for (step, len) in (0..).zip([0, 1, 63, 64, 65, 128, 200, 64]) {
            clock.set(secs(if step == 5 { 3599 } else { 3600 }));
            let keys: Vec<u64> = (0..len).map(|n| (n * 7 + step * 31) % 180).collect();
            let batch: Vec<_> = other.check_many(&keys).iter().map(told).collect();
            let singly: Vec<_> = keys.iter().map(|&key| told(&single.check(key))).collect();
            assert_eq!(batch, singly, "{kind:?}, {mode:?}, {len} keys");
            full += batch.iter().filter(|(_, reason)| *reason == Some(Reason::Full)).count();
        }
        assert_eq!(full > 0, mode == WhenFull::Deny, "{kind:?}, {mode:?}");
    }
}
