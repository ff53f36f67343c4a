//! Looking, putting back, starting over.

use super::*;

#[test]
fn looking_takes_nothing_and_makes_no_client_known() {
    for kind in ALL {
        let limiter = kind.limiter(quota("10/s"), ManualClock::new()).unwrap();
        for _ in 0..1000 {
            let status = limiter.client(0).peek();
            assert_eq!((status.limit(), status.remaining(), status.reset_after()), (10, 10, Duration::ZERO));
        }
        for stranger in (0..1000).map(|key| limiter.client(key)) {
            assert_eq!(stranger.peek().remaining(), 10);
            assert_eq!(stranger.refund(3), 0);
            assert!(!stranger.reset());
        }
        assert_eq!(limiter.len(), 0);
    }
}

#[test]
fn looking_holds_no_client_back_from_being_forgotten() {
    let clock = ManualClock::new();
    let limiter = limiter("10/s", &clock);
    assert!(limiter.allow("client"));
    clock.advance(millis(99));
    assert_eq!(limiter.peek("client").reset_after(), millis(1));
    assert_eq!(limiter.sweep(), 0);
    clock.advance(millis(1));
    assert_eq!(limiter.peek("client").remaining(), 10);
    assert_eq!(limiter.sweep(), 1);
    assert_eq!(limiter.len(), 0);
}

#[test]
fn a_refund_stops_at_the_capacity_and_says_how_much_found_room() {
    on_all("10/10s", |client, _| {
        client.drain();
        assert_eq!(client.refund(4), 4);
        assert_eq!(client.peek().remaining(), 4);
        assert_eq!(client.refund(100), 6);
        assert_eq!([client.refund(u64::MAX), client.refund(0)], [0, 0]);
        assert_eq!(client.passes(), 10);
    });
    on_both("1/s;burst=10", |bucket, clock| {
        bucket.drain();
        // Half a token has refilled, so a half of the last one finds room.
        clock.advance(millis(500));
        assert_eq!(bucket.refund(0), 0);
        assert_eq!(bucket.refund(u64::MAX), 10);
        assert_eq!(bucket.passes(), 10);
    });
}

#[test]
fn a_receipt_returns_its_cost_less_what_has_refilled() {
    on_both("1/s;burst=10", |bucket, clock| {
        let receipt = bucket.check_n(10).unwrap();
        assert_eq!(receipt.give_back(), 10);
        assert_eq!(bucket.peek().remaining(), 10);

        let receipt = bucket.check_n(10).unwrap();
        clock.advance(secs(4));
        assert_eq!(receipt.give_back(), 6);
        assert_eq!(bucket.peek().remaining(), 10);

        let (early, late) = (bucket.check_n(5).unwrap(), bucket.check_n(5).unwrap());
        clock.advance(millis(4500));
        assert_eq!(early.give_back(), 1);
        clock.advance(secs(1));
        assert_eq!(late.give_back(), 0);
        assert_eq!(bucket.peek().remaining(), 6);
    });
}

#[test]
fn a_receipt_never_lifts_a_caller_above_the_bound() {
    on_both("1/s;burst=10", |bucket, clock| {
        let receipt = bucket.check_n(5).unwrap();
        clock.advance(secs(5));
        // The refill has already replaced the five.
        bucket.check_n(10).unwrap();
        assert_eq!(receipt.give_back(), 0);
        assert!(!bucket.allow());
    });
}

type Interruption = Box<dyn FnOnce() + Send>;

/// A clock whose next reading is followed by whatever other threads do while this one does not run.
struct Interrupted {
    clock: ManualClock,
    interruption: Mutex<Option<Interruption>>,
}

impl Clock for Interrupted {
    fn now(&self) -> u64 {
        let reading = self.clock.now();
        let interruption = self.interruption.lock().unwrap().take();
        if let Some(others) = interruption {
            others();
        }
        reading
    }

    fn is_monotonic(&self) -> bool {
        true
    }
}

#[test]
fn a_receipt_that_is_held_up_on_its_way_mints_nothing() {
    fn held_up<B: Client + Clone + Send + 'static>(bucket: B, clock: Arc<Interrupted>) {
        let receipt = bucket.check_n(5).unwrap();
        let (others, time) = (bucket.clone(), clock.clock.clone());
        // While it is being given back, the five come back by themselves, and others take everything.
        *clock.interruption.lock().unwrap() = Some(Box::new(move || {
            time.advance(secs(20));
            assert_eq!(others.passes(), 10);
        }));
        let returned = receipt.give_back();
        assert_eq!((returned, bucket.passes()), (0, 0), "tokens returned, and calls that pass on top of the capacity");
    }
    let clock = || Arc::new(Interrupted { clock: ManualClock::new(), interruption: Mutex::default() });
    let quota = quota("10/10s");
    macro_rules! held_up {
        ($($algorithm:ident),*) => {$(
            let (one, other) = (clock(), clock());
            held_up(Gate::$algorithm(quota).clock(one.clone()).build().unwrap(), one);
            held_up(Limiter::$algorithm(quota).clock(other.clone()).build().unwrap(), other);
        )*};
    }
    held_up!(token_bucket, fixed_window, sliding_log, sliding_counter);
}

#[test]
fn a_call_that_is_held_up_while_its_client_is_forgotten_counts_in_full() {
    fn held_up<A: Algorithm>(limiter: Limiter<A, Arc<Interrupted>>, clock: Arc<Interrupted>) {
        limiter.drain();
        let (others, time) = (limiter.clone(), clock.clock.clone());
        // The call has read a time at which the client was drained. Before it goes on, the client has everything again, and
        // is forgotten.
        *clock.interruption.lock().unwrap() = Some(Box::new(move || {
            time.advance(secs(2));
            assert_eq!((others.sweep(), others.len()), (1, 0));
        }));
        assert_eq!(limiter.check_n(CLIENT, 10).unwrap().remaining(), 0);
        assert_eq!(limiter.passes(), 0);
    }
    macro_rules! held_up {
        ($($algorithm:ident),*) => {$(
            let clock = Arc::new(Interrupted { clock: ManualClock::new(), interruption: Mutex::default() });
            held_up(Limiter::$algorithm(quota("10/s")).clock(clock.clone()).build().unwrap(), clock);
        )*};
    }
    held_up!(token_bucket, fixed_window, sliding_log, sliding_counter);
}

#[test]
fn a_place_that_is_given_back_goes_to_exactly_one_other() {
    on_all("1/h", |client, _| {
        let race = || {
            let (start, winners) = (Barrier::new(16), AtomicUsize::new(0));
            let receipt = thread::scope(|scope| {
                let callers: Vec<_> = (0..16)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            client.check_n(1).ok().inspect(|_| _ = winners.fetch_add(1, Relaxed))
                        })
                    })
                    .collect();
                callers.into_iter().find_map(|caller| caller.join().unwrap())
            });
            assert_eq!(winners.into_inner(), 1);
            receipt.unwrap()
        };
        assert_eq!(race().give_back(), 1);
        race();
        assert!(!client.allow());
    });
}

#[test]
fn a_reset_gives_the_whole_limit() {
    on_all("5/h", |client, _| {
        assert!(!client.reset());
        assert!(client.allow());
        assert!(client.reset());
        assert!(!client.reset());
        client.drain();
        assert!(client.reset());
        assert_eq!(client.passes(), 5);
    });
}

#[test]
fn sessions_and_batches_decide_as_single_calls_do() {
    let limiter = limiter("1/s;burst=3", &ManualClock::new());
    let keys = ["a", "b", "a", "a", "a", "b"];
    let batch = limiter.check_many(&keys).into_iter().map(|decision| decision.map(|allowed| allowed.remaining()).ok());
    assert_eq!(batch.collect::<Vec<_>>(), [Some(2), Some(2), Some(1), Some(0), None, Some(1)]);
    let mut session = limiter.session();
    assert!(!session.allow("a"));
    assert_eq!(session.check("b").unwrap().remaining(), 0);
    assert_eq!(session.check_n("a", 4).unwrap_err().reason(), Reason::Never);
    assert_eq!(session.check_n("b", 2).unwrap_err().retry_after(), Some(secs(2)));

    /// All that a decision says.
    fn told(decision: Result<Allowed, Denied>) -> (u64, Duration, Option<(Reason, Option<Duration>)>) {
        match decision {
            Ok(allowed) => (allowed.remaining(), allowed.reset_after(), None),
            Err(denied) => (denied.remaining(), denied.reset_after(), Some((denied.reason(), denied.retry_after()))),
        }
    }
    for kind in ALL {
        let clock = ManualClock::new();
        let [single, other] = [(); 2].map(|()| kind.limiter(quota("3/3s"), clock.clone()).unwrap());
        for step in 0..20 {
            clock.advance(millis(700));
            let keys: Vec<u64> = (0..200).map(|n| (n + step) * n % 83).collect();
            let batch: Vec<_> = other.check_many(&keys).into_iter().map(told).collect();
            assert_eq!(batch, keys.iter().map(|&key| told(single.check(key))).collect::<Vec<_>>(), "{kind:?}");
            let calls: Vec<_> = keys.iter().map(|&key| (key / 2, key % 5)).collect();
            let session: Vec<_> = other.check_in_session(&calls).into_iter().map(told).collect();
            let singly = calls.iter().map(|&(key, cost)| told(single.client(key).check_n(cost)));
            assert_eq!(session, singly.collect::<Vec<_>>(), "{kind:?}");
        }
    }
}
