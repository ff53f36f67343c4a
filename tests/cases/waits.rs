//! What is told to the caller.

use super::*;

/// The value of a `Retry-After` header.
fn header(wait: Duration) -> u64 {
    (wait.as_nanos().div_ceil(1_000_000_000) as u64).max(1)
}

#[test]
fn a_wait_in_whole_seconds_rounded_up_always_suffices() {
    on_both("2/s;burst=1", |bucket, clock| {
        bucket.drain();
        clock.advance(millis(100));
        assert_eq!(bucket.wait(1), millis(400));
        assert_eq!(header(bucket.wait(1)), 1);
    });
    on_both("2/s;burst=4", |bucket, clock| {
        bucket.drain();
        clock.advance(millis(300));
        assert_eq!(bucket.wait(3), millis(1200));
        assert_eq!(header(bucket.wait(3)), 2);
    });
    for rate in ["7/s", "1/ns", "700/min", "3/h", "1/d;burst=2", "10/13s;burst=30", "1000000001/s"] {
        on_both(rate, |bucket, clock| {
            let limit = bucket.peek().limit();
            for (cost, pause) in [(1, 0), (limit, 1), (limit, 999_999_999), (limit / 2, 12_345), (1, 1_000_000_000)] {
                bucket.drain();
                clock.advance(nanos(pause));
                let Err(denied) = bucket.check_n(cost) else { continue };
                clock.advance(secs(header(denied.retry_after().unwrap())));
                assert!(bucket.check_n(cost).is_ok(), "{cost} at {rate}");
            }
        });
    }
}

#[test]
fn a_wait_is_the_shortest_that_suffices() {
    // A small deficit is no wait of zero, a fraction that is there counts, and so does the burst.
    on_both("1000/s;burst=1", |bucket, clock| {
        bucket.drain();
        clock.advance(micros(700));
        assert_eq!(bucket.wait(1), micros(300));
    });
    on_both("1/s", |bucket, clock| {
        bucket.drain();
        clock.advance(millis(200));
        assert_eq!(bucket.wait(1), millis(800));
    });
    on_both("1/s;burst=5", |bucket, _| {
        bucket.drain();
        assert_eq!(bucket.wait(1), secs(1));
        assert_eq!(bucket.wait(5), secs(5));
    });
    for rate in ["7/s", "4/ns", "700/min", "3/h", "1/d;burst=2", "10/13s;burst=30", "1000000001/s", "1/365d;burst=9"] {
        on_both(rate, |bucket, clock| {
            let limit = bucket.peek().limit();
            for cost in [1, 2, limit / 2, limit].into_iter().filter(|cost| (1..=limit).contains(cost)) {
                bucket.drain();
                let wait = bucket.wait(cost);
                clock.advance(wait - nanos(1));
                assert_eq!(bucket.wait(cost), nanos(1), "{cost} at {rate}");
                clock.advance(nanos(1));
                assert!(bucket.check_n(cost).is_ok(), "{cost} at {rate}");
            }
        });
    }
}

#[test]
fn what_remains_comes_back() {
    on_both("5/min", |bucket, clock| {
        assert_eq!(bucket.check_n(4).unwrap().remaining(), 1);
        assert_eq!(bucket.left(), 0);
        clock.advance(secs(60));
        assert_eq!(bucket.left(), 4);
    });
}

#[test]
fn the_reset_is_when_the_bucket_is_full_and_no_later() {
    on_both("30/min;burst=16", |bucket, clock| {
        assert_eq!(bucket.check_n(1).unwrap().reset_after(), secs(2));
        clock.advance(millis(500));
        assert_eq!(bucket.peek().reset_after(), millis(1500));
        bucket.drain();
        assert_eq!(bucket.check_n(1).unwrap_err().reset_after(), millis(31_500));
        clock.advance(millis(31_500) - nanos(1));
        assert_eq!((bucket.peek().remaining(), bucket.peek().reset_after()), (15, nanos(1)));
        clock.advance(nanos(1));
        assert_eq!((bucket.peek().remaining(), bucket.peek().reset_after()), (16, Duration::ZERO));
    });
}

#[test]
fn every_wait_of_a_window_is_the_shortest_that_suffices_and_so_is_its_header() {
    const PAUSES: [u64; 5] = [0, 1, 1_234_567, 400_000_000, 999_999_999];
    for kind in windows() {
        for rate in ["1/s", "7/s", "5/min", "1/7ns", "1000/h", "4095/10s", "2/10d"] {
            on(kind, rate, |client, clock| {
                let limit = client.peek().limit();
                for (n, pause) in PAUSES.iter().cycle().take(15).enumerate() {
                    clock.advance(nanos(*pause));
                    // Some of it now, and the rest a little later.
                    let first = client.peek().remaining().div_ceil(2 + n as u64 % 3);
                    if first > 0 {
                        client.check_n(first).unwrap();
                    }
                    clock.advance(nanos(*pause / 3));
                    client.drain();
                    for cost in [1, 2, limit.div_ceil(2), limit] {
                        let Err(denied) = client.check_n(cost.min(limit)) else { continue };
                        let wait = denied.retry_after().unwrap();
                        assert!(header(wait) * 1_000_000_000 >= wait.as_nanos() as u64);
                        clock.advance(wait - nanos(1));
                        assert_eq!(client.wait(cost.min(limit)), nanos(1), "{cost} at {rate} by {kind:?}");
                        clock.advance(nanos(1));
                        client.check_n(cost.min(limit)).unwrap();
                        client.drain();
                    }
                    let reset_after = client.peek().reset_after();
                    clock.advance(reset_after - nanos(1));
                    assert!(client.peek().remaining() < limit);
                    clock.advance(nanos(1));
                    assert_eq!((client.peek().remaining(), client.peek().reset_after()), (limit, Duration::ZERO));
                }
            });
        }
    }
}
