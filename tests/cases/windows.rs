//! What is about windows: where they start and end, and what counts in them.

use super::*;

const FIXED: [Kind; 2] = [FixedWindow(Aligned), FixedWindow(FirstRequest)];

/// Which of the calls pass that come at these seconds, one after the other.
fn passing(client: &dyn Client, clock: &ManualClock, seconds: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut last = 0;
    let mut comes = |second: u64| {
        clock.advance(secs(second - last));
        last = second;
        client.allow()
    };
    seconds.into_iter().filter(|second| comes(*second)).collect()
}

// Counts and limits.

#[test]
fn a_limit_above_the_root_of_a_billion_is_counted_right() {
    let remaining = |kind, text, expected: &[u64]| {
        on(kind, text, |client, clock| {
            for expected in expected {
                assert_eq!(client.left(), *expected, "{kind:?}");
                clock.advance(millis(100));
            }
        });
    };
    let first_second: Vec<u64> = (65_525..65_535).rev().collect();
    for kind in FIXED {
        remaining(kind, "65535/s", &[&first_second[..], &[65_534, 65_533]].concat());
    }
    // Each event makes room as the next one comes.
    remaining(SlidingLog, "65535/s", &[&first_second[..], &[65_525; 12]].concat());
    for kind in [SlidingCounter(Aligned), StrictCounter(Aligned)] {
        remaining(kind, "65535/s", &[&first_second[..], &[65_524; 10]].concat());
    }
}

#[test]
fn the_most_that_an_error_names_can_be_had() {
    for kind in windows() {
        for period in [1, 7, 1023, 1024, 1_000_000_000, 86_400_000_000_000, 1 << 61] {
            let quota = |count| Quota::per(count, nanos(period));
            let BuildError::LimitTooLarge { most, .. } = build_error(kind, quota(u64::MAX)) else { panic!("{kind:?}") };
            let gate = kind.gate(quota(most), ManualClock::new()).unwrap();
            assert!(gate.check_n(most).is_ok());
            assert_eq!((gate.peek().limit(), gate.passes()), (most, 0), "{kind:?}");
            assert_eq!(build_error(kind, quota(most + 1)), BuildError::LimitTooLarge { quota: quota(most + 1), most });
        }
    }
}

#[test]
fn a_window_has_no_burst_of_its_own() {
    for kind in windows() {
        let with_burst = quota("5/s;burst=10");
        assert_eq!(build_error(kind, with_burst), BuildError::BurstOfWindow(with_burst));
        assert!(kind.gate(quota("5/s;burst=5"), ManualClock::new()).is_ok());
    }
}

#[test]
fn a_window_of_a_year_lasts_a_year() {
    for kind in windows() {
        for year in [Duration::ZERO, 365 * DAY, 50 * 365 * DAY] {
            let clock = clock_at(year);
            let limiter = kind.limiter(quota("5/365d"), clock.clone()).unwrap();
            assert_eq!(limiter.passes(), 5);
            for days in [25, 364] {
                clock.set(year + days * DAY);
                assert_eq!((limiter.allow(), limiter.sweep()), (false, 0));
            }
            // Of a counter's last window all counts still, but for a nanosecond's part.
            clock.set(year + 365 * DAY + nanos(1));
            assert_eq!(limiter.allow(), !matches!(kind, StrictCounter(_)), "{kind:?}");
        }
    }
}

#[test]
fn refused_calls_are_not_counted_however_many() {
    let refused = |kind, calls: u32| {
        on(kind, "10/h", |client, clock| {
            client.drain();
            let reset_after = client.peek().reset_after();
            assert!((0..calls).all(|_| !client.allow()));
            assert_eq!(client.peek().reset_after(), reset_after);
            clock.advance(reset_after);
            assert_eq!(client.passes(), 10, "{kind:?}");
        });
    };
    refused(FixedWindow(Aligned), 1_000_000);
    ALL.into_iter().for_each(|kind| refused(kind, 10_000));
}

// Where windows start and end.

#[test]
fn around_a_boundary_only_fixed_windows_pass_twice_the_limit() {
    let around = |kind, test: &dyn Fn(&dyn Client, &ManualClock, u64)| {
        on(kind, "5/min", |client, clock| {
            clock.advance(millis(59_900));
            let before = client.passes();
            clock.advance(millis(100));
            test(client, clock, before + client.passes());
        });
    };
    around(FixedWindow(Aligned), &|_, _, passed| assert_eq!(passed, 10));
    for kind in [SlidingCounter(Aligned), StrictCounter(Aligned)] {
        around(kind, &|client, clock, passed| {
            assert_eq!(passed, 5);
            // The strict rule needs a whole call's room: a fifth of the window. By the other a part of one is enough.
            let next = if kind == StrictCounter(Aligned) { secs(12) } else { nanos(1) };
            assert_eq!(client.wait(1), next);
            clock.advance(next);
            assert_eq!(client.passes(), 1);
        });
    }
    around(SlidingLog, &|client, _, passed| {
        assert_eq!(passed, 5);
        assert_eq!(client.wait(1), millis(59_900));
    });
    // Where the window starts with the first request, the boundary is elsewhere.
    for kind in [FixedWindow(FirstRequest), SlidingCounter(FirstRequest), StrictCounter(FirstRequest)] {
        around(kind, &|_, _, passed| assert_eq!(passed, 5));
    }
}

#[test]
fn calls_one_window_apart_all_pass() {
    for kind in [SlidingLog, FixedWindow(Aligned), FixedWindow(FirstRequest)] {
        on(kind, "1/100ms", |client, clock| {
            for _ in 0..10 {
                assert!(client.allow(), "{kind:?}");
                clock.advance(millis(100));
            }
        });
    }
}

#[test]
fn who_keeps_trying_gets_in() {
    for kind in [SlidingLog, FixedWindow(Aligned), FixedWindow(FirstRequest)] {
        on(kind, "2/4s", |client, clock| {
            assert_eq!(passing(client, clock, 0..=12), [0, 1, 4, 5, 8, 9, 12], "{kind:?}");
        });
    }
}

#[test]
fn a_hungry_caller_gets_the_limit_of_a_window_and_no_more() {
    for kind in windows() {
        on(kind, "1200/min", |client, clock| {
            let mut admitted = 0;
            for _ in 0..6000 {
                admitted += u64::from(client.allow());
                clock.advance(millis(10));
            }
            assert_eq!(admitted, 1200, "{kind:?}");
        });
    }
}

#[test]
fn idle_time_earns_no_more_than_the_limit() {
    for kind in windows() {
        on(kind, "10/s", |client, clock| {
            clock.advance(HOUR);
            assert_eq!(client.passes(), 10);
            clock.advance(HOUR);
            assert_eq!((client.peek().remaining(), client.passes()), (10, 10));
        });
    }
}

// What is told of a window.

#[test]
fn what_remains_of_a_counter_is_what_its_last_window_leaves() {
    for kind in
        [SlidingCounter(Aligned), SlidingCounter(FirstRequest), StrictCounter(Aligned), StrictCounter(FirstRequest)]
    {
        on(kind, "100/min", |client, clock| {
            client.check_n(50).unwrap();
            clock.advance(secs(60));
            client.check_n(10).unwrap();
            clock.advance(secs(6));
            assert_eq!(client.peek().remaining(), 45);
            assert_eq!(client.passes(), 45, "{kind:?}");
        });
    }
}

#[test]
fn the_wait_of_a_log_ends_when_the_event_in_the_way_expires() {
    on(SlidingLog, "10/min", |client, clock| {
        assert_eq!(passing(client, clock, (0..20).step_by(2)).len(), 10);
        clock.advance(secs(2));
        assert_eq!(client.wait(1), secs(40));
        // More of them are in the way of a larger cost.
        assert_eq!(client.wait(4), secs(46));
    });
    on(SlidingLog, "2/min", |client, clock| {
        assert_eq!(passing(client, clock, [0, 10]), [0, 10]);
        clock.advance(secs(10));
        assert_eq!(client.wait(1), secs(40));
        assert_eq!([client.wait(2), client.peek().reset_after()], [secs(50); 2]);
    });
}

#[test]
fn an_aligned_window_resets_when_it_ends() {
    on(FixedWindow(Aligned), "5/min", |client, clock| {
        clock.advance(secs(10));
        assert_eq!(client.check_n(1).unwrap().reset_after(), secs(50));
        client.drain();
        assert_eq!([client.wait(1), client.wait(5)], [secs(50); 2]);
    });
    on(FixedWindow(FirstRequest), "5/min", |client, clock| {
        clock.advance(secs(10));
        // But for the grid of starts, which is at least a thousand times finer.
        let reset_after = client.check_n(1).unwrap().reset_after();
        assert!(reset_after <= secs(60) && reset_after > secs(60) - millis(59), "{reset_after:?}");
    });
}

// Putting back.

#[test]
fn a_reset_clears_both_windows_of_a_counter() {
    for kind in
        [SlidingCounter(Aligned), SlidingCounter(FirstRequest), StrictCounter(Aligned), StrictCounter(FirstRequest)]
    {
        on(kind, "5/min", |client, clock| {
            assert_eq!(client.passes(), 5);
            clock.advance(secs(110));
            assert!(client.passes() >= 4);
            assert!(client.reset());
            assert_eq!(client.passes(), 5, "{kind:?}");
            // And they count as if nothing had been before.
            assert_eq!(client.peek().remaining(), 0);
            clock.advance(secs(130));
            assert_eq!(client.passes(), 5);
        });
    }
}

#[test]
fn a_receipt_is_good_in_its_own_window_only() {
    let kinds =
        FIXED.into_iter().chain([SlidingCounter(Aligned), SlidingCounter(FirstRequest), StrictCounter(Aligned)]);
    for kind in kinds {
        on(kind, "10/min", |client, clock| {
            let (early, late) = (client.check_n(6).unwrap(), client.check_n(4).unwrap());
            clock.advance(secs(59));
            assert_eq!((early.give_back(), client.peek().remaining()), (6, 6));
            clock.advance(secs(59));
            let before = client.peek().remaining();
            assert_eq!((late.give_back(), client.peek().remaining()), (0, before), "{kind:?}");
            // Nor does it return what another call has taken since.
            let receipt = client.check_n(1).unwrap();
            clock.advance(secs(60));
            let _ = client.check_n(1);
            let before = client.peek().remaining();
            assert_eq!((receipt.give_back(), client.peek().remaining()), (0, before), "{kind:?}");
        });
    }
}

#[test]
fn a_receipt_of_a_log_returns_that_very_event() {
    on(SlidingLog, "3/min", |client, clock| {
        let first = client.check_n(1).unwrap();
        clock.advance(secs(10));
        let second = client.check_n(1).unwrap();
        clock.advance(secs(10));
        let third = client.check_n(1).unwrap();
        // Until the first expires it is as long as before.
        assert_eq!(second.give_back(), 1);
        assert_eq!(client.peek().remaining(), 1);
        client.drain();
        assert_eq!(client.wait(1), secs(40));
        clock.advance(secs(40));
        // The first has expired, so there is nothing to return.
        assert_eq!((first.give_back(), client.peek().remaining()), (0, 1));
        assert_eq!((third.give_back(), client.peek().remaining()), (1, 2));
    });
}

#[test]
fn a_receipt_from_before_a_reset_returns_nothing_that_others_took_since() {
    for kind in [SlidingLog, FixedWindow(Aligned), SlidingCounter(Aligned)] {
        on(kind, "10/s", |client, clock| {
            let receipt = client.check_n(10).unwrap();
            assert!(client.reset());
            assert_eq!((receipt.give_back(), client.peek().remaining()), (0, 10), "{kind:?}");
            let receipt = client.check_n(10).unwrap();
            assert!(client.reset());
            clock.advance(secs(1));
            client.drain();
            assert_eq!((receipt.give_back(), client.peek().remaining()), (0, 0), "{kind:?}");
        });
    }
}

#[test]
fn whatever_is_given_back_no_window_passes_more_than_the_limit() {
    for kind in windows() {
        on(kind, "5/s", |client, clock| {
            let (mut receipts, mut kept) = (Vec::new(), Vec::new());
            for step in 0..2000_u64 {
                clock.advance(millis(37));
                match client.check_n(1 + step % 3) {
                    Ok(receipt) if step % 2 == 0 => receipts.push((step, receipt)),
                    Ok(_) => kept.push((step * 37, 1 + step % 3)),
                    Err(_) => {}
                }
                if step % 5 == 0
                    && let Some((taken, receipt)) = receipts.pop()
                {
                    let returned = receipt.give_back();
                    kept.push((taken * 37, 1 + taken % 3 - returned));
                }
            }
            kept.extend(receipts.iter().map(|(taken, _)| (taken * 37, 1 + taken % 3)));
            kept.sort_unstable();
            let most = if kind == SlidingLog { 5 } else { 10 };
            for (i, (first, _)) in kept.iter().enumerate() {
                let within = kept[i..].iter().take_while(|(last, _)| last - first < 1000);
                assert!(within.map(|(_, kept)| kept).sum::<u64>() <= most, "{kind:?}");
            }
        });
    }
}
