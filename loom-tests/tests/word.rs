//! One word: charges against each other and against everything else that writes or reads it.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom_tests::*;

const NOW: u64 = 10;

#[test]
fn charges_of_two_threads_never_exceed_the_bucket() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("charges_of_two_threads_never_exceed_the_bucket", move || {
        let map = buckets(2);
        assert!(charge(&map, client(0), NOW));
        let (a, b) = (map.clone(), map.clone());
        let passed = race(move || charge(&a, client(0), NOW), move || charge(&b, client(0), NOW));
        assert_ne!(passed.0, passed.1, "one token for two");
        outcomes.add(passed);
    });
    seen.are([(true, false), (false, true)]);
}

#[test]
fn an_older_reading_of_the_clock_mints_nothing() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("an_older_reading_of_the_clock_mints_nothing", move || {
        let map = buckets(1);
        assert!(charge(&map, client(0), NOW));
        // One token comes at NOW + 1; the thread that reads NOW may be late or early, and never gets it.
        let (a, b) = (map.clone(), map.clone());
        let passed = race(
            move || charge(&a, client(0), NOW),
            move || (charge(&b, client(0), NOW + 1), charge(&b, client(0), NOW + 1)),
        );
        assert_eq!(passed, (false, (true, false)));
        outcomes.add(passed);
    });
    seen.are([(false, (true, false))]);
}

#[test]
fn a_refund_is_seen_whole_or_not_at_all() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_refund_is_seen_whole_or_not_at_all", move || {
        let map = buckets(2);
        assert_eq!(drain(&map, client(0), NOW), 2);
        let (a, b) = (map.clone(), map.clone());
        let (passed, refunded) =
            race(move || charge(&a, client(0), NOW), move || b.refund(b.locate(&b.pin(), client(0)), NOW, 2));
        assert_eq!(refunded, 2);
        let left = drain(&map, client(0), NOW);
        assert_eq!(u64::from(passed) + left, 2);
        outcomes.add(passed);
    });
    seen.are([false, true]);
}

#[test]
fn a_receipt_returns_what_was_taken() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_receipt_returns_what_was_taken", move || {
        let map = buckets(2);
        let receipt = charge_for_receipt(&map, bucket(2), NOW).unwrap();
        let (a, b) = (map.clone(), map.clone());
        let (passed, returned) = race(
            move || u64::from(charge(&a, client(0), NOW)) + u64::from(charge(&a, client(0), NOW)),
            move || give_back(&b, NOW, receipt),
        );
        assert_eq!(returned, 1);
        assert_eq!(passed + drain(&map, client(0), NOW), 2);
        outcomes.add(passed);
    });
    seen.are([1, 2]);
}

#[test]
fn a_reset_gives_a_whole_bucket_once() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_reset_gives_a_whole_bucket_once", move || {
        let map = buckets(2);
        assert!(charge(&map, client(0), NOW));
        let (a, b) = (map.clone(), map.clone());
        let (passed, reset) =
            race(move || charge(&a, client(0), NOW), move || b.reset(b.locate(&b.pin(), client(0)), NOW));
        assert!(passed && reset);
        let left = drain(&map, client(0), NOW);
        outcomes.add(left);
    });
    // The charge before the reset is forgiven, the one after it counts.
    seen.are([1, 2]);
}

#[test]
fn a_peek_sees_a_level_that_was() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_peek_sees_a_level_that_was", move || {
        let map = buckets(2);
        let (a, b) = (map.clone(), map.clone());
        let (_, seen) = race(
            move || charge(&a, client(0), NOW) && charge(&a, client(0), NOW),
            move || remaining(&b, bucket(2), NOW),
        );
        outcomes.add(seen);
    });
    seen.are([0, 1, 2]);
}
