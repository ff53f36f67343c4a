//! Many threads on few clients and on many, while the table grows, shrinks and moves all the time. Every token counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tollgate::{Algorithm, Allowed, Anchor, Clock, Gate, Limiter, ManualClock, Quota, TokenBucket};

const THREADS: u64 = 8;

type Manual<A> = Limiter<A, ManualClock>;

/// Runs a generic function on a limiter of each window algorithm, and of each way to set it up: `f(limiter, arguments...)`.
macro_rules! on_windows {
    ($f:ident, $text:expr, $clock:expr $(, $argument:expr)*) => {
        let (quota, clock): (Quota, &ManualClock) = ($text.parse().unwrap(), &$clock);
        $f(&Limiter::sliding_log(quota).clock(clock.clone()).build().unwrap() $(, $argument)*);
        for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
            $f(&Limiter::fixed_window(quota).anchor(anchor).clock(clock.clone()).build().unwrap() $(, $argument)*);
            let counter = Limiter::sliding_counter(quota).anchor(anchor).clock(clock.clone());
            $f(&counter.clone().build().unwrap() $(, $argument)*);
            $f(&counter.strict().build().unwrap() $(, $argument)*);
        }
    };
}

/// A sequence of numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What one client was given, and what came back.
#[derive(Default)]
struct Account {
    admitted: AtomicU64,
    returned: AtomicU64,
    refunded: AtomicU64,
}

/// Sweeps until a flag is set: so all clients move from table to table without end.
fn sweep_until<A: Algorithm>(done: &AtomicBool, limiter: &Manual<A>) {
    while !done.load(Relaxed) {
        limiter.sweep();
    }
}

/// How much each thread does.
#[derive(Clone, Copy)]
struct Work {
    calls: u64,
    /// Clients of its own that it brings in, for the table to grow on. Their keys lie above those of the others.
    strangers: u64,
    /// What each client has. All or most of it is taken.
    burst: u64,
}

/// One thread's calls: charges of 1 to 5 tokens, and now and then a receipt given back, a refund, or a look.
fn trade<A: Algorithm>(limiter: &Manual<A>, accounts: &[Account], thread: u64, work: Work) {
    let mut numbers = Numbers(thread);
    let mut receipts: Vec<(usize, u64, Allowed)> = Vec::new();
    for call in 0..work.calls {
        let client = numbers.below(accounts.len() as u64) as usize;
        let account = &accounts[client];
        match numbers.below(10) {
            0 => _ = account.refunded.fetch_add(limiter.refund(&client, 1 + numbers.below(3)), Relaxed),
            1 => assert!(limiter.peek(&client).remaining() <= limiter.peek(&client).limit()),
            2 | 3 if !receipts.is_empty() => {
                let pick = numbers.below(receipts.len() as u64) as usize;
                let (client, cost, receipt) = receipts.swap_remove(pick);
                let returned = receipt.give_back();
                assert!(returned <= cost);
                accounts[client].returned.fetch_add(returned, Relaxed);
            }
            _ => {
                let cost = 1 + numbers.below(5);
                if let Ok(receipt) = limiter.check_n(&client, cost) {
                    account.admitted.fetch_add(cost, Relaxed);
                    receipts.push((client, cost, receipt));
                }
            }
        }
        if call < work.strangers {
            assert!(limiter.check(&(u64::MAX - thread * work.strangers - call)).is_ok());
        }
    }
}

fn tokens_are_conserved<A: Algorithm>(limiter: &Manual<A>, clients: usize, work: Work) {
    let accounts: Vec<Account> = (0..clients).map(|_| Account::default()).collect();
    let (start, done) = (Barrier::new(THREADS as usize + 1), AtomicBool::new(false));
    thread::scope(|scope| {
        let (accounts, start) = (&accounts, &start);
        let callers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    start.wait();
                    trade(limiter, accounts, thread, work);
                })
            })
            .collect();
        scope.spawn(|| {
            start.wait();
            sweep_until(&done, limiter);
        });
        let outcomes: Vec<_> = callers.into_iter().map(|caller| caller.join()).collect();
        done.store(true, Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    for (client, account) in accounts.iter().enumerate() {
        let [admitted, returned, refunded] =
            [&account.admitted, &account.returned, &account.refunded].map(|n| n.load(Relaxed));
        let left = limiter.peek(&client).remaining();
        assert_eq!(
            admitted + left,
            work.burst + returned + refunded,
            "client {client}: {admitted} admitted, {left} left"
        );
        if left > 0 {
            assert!(limiter.check_n(&client, left).is_ok());
        }
        assert!(limiter.check(&client).is_err());
    }
    for stranger in 0..THREADS * work.strangers {
        assert_eq!(limiter.peek(&(u64::MAX - stranger)).remaining(), work.burst - 1);
    }
}

fn bucket(tokens: u64) -> Manual<TokenBucket> {
    Limiter::token_bucket(Quota::per_day(tokens)).clock(ManualClock::new()).build().unwrap()
}

#[test]
fn tokens_of_one_client_are_conserved() {
    tokens_are_conserved(&bucket(1_000_000), 1, Work { calls: 300_000, strangers: 0, burst: 1_000_000 });
}

#[test]
fn tokens_of_three_clients_are_conserved() {
    tokens_are_conserved(&bucket(300_000), 3, Work { calls: 300_000, strangers: 0, burst: 300_000 });
}

#[test]
fn tokens_of_few_clients_are_conserved_while_the_table_grows() {
    tokens_are_conserved(&bucket(100_000), 1, Work { calls: 20_000, strangers: 10_000, burst: 100_000 });
    tokens_are_conserved(&bucket(100), 3, Work { calls: 20_000, strangers: 10_000, burst: 100 });
}

#[test]
fn tokens_of_many_clients_are_conserved() {
    tokens_are_conserved(&bucket(100), 5_000, Work { calls: 60_000, strangers: 0, burst: 100 });
}

#[test]
fn calls_in_windows_are_conserved() {
    let clock = ManualClock::new();
    on_windows!(tokens_are_conserved, "200/d", clock, 1, Work { calls: 20_000, strangers: 0, burst: 200 });
    on_windows!(tokens_are_conserved, "200/d", clock, 3, Work { calls: 10_000, strangers: 2_000, burst: 200 });
    on_windows!(tokens_are_conserved, "20/d", clock, 1_000, Work { calls: 10_000, strangers: 0, burst: 20 });
}

/// Time stands still until all clients are drained, and then leaps in the midst of their calls. Those who find a client
/// drained at the old time, forget it as idle at the new one, and charge it all race here. The gate forgets nothing.
fn forgetting_mints_and_loses_nothing<A: Algorithm>(
    rounds: usize,
    limiter: &Manual<A>,
    gate: Gate<A, ManualClock>,
    clock: &ManualClock,
) {
    const CLIENTS: u64 = 3;
    let admitted: Vec<AtomicU64> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    let mut expected = 0;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (admitted, done) = (&admitted, &done);
            scope.spawn(move || {
                for call in thread.. {
                    if done.load(Relaxed) {
                        break;
                    }
                    let client = call % CLIENTS;
                    admitted[client as usize].fetch_add(limiter.allow(&client).into(), Relaxed);
                    if call % 16 == 0 {
                        let _ = limiter.check(&(u64::MAX - call * THREADS - thread));
                    }
                }
            });
        }
        scope.spawn(|| sweep_until(&done, limiter));
        let mut drain = || {
            expected += (0..11).filter(|_| gate.allow()).count() as u64;
            while (0..CLIENTS).any(|client| limiter.peek(&client).remaining() > 0) {
                thread::yield_now();
            }
        };
        drain();
        for round in 0..rounds {
            // Half a refill, one all but a nanosecond, exactly one, and more than one.
            const STEPS: [u64; 4] = [500_000_000, 999_999_999, 1_000_000_000, 2_500_000_000];
            clock.advance(Duration::from_nanos(STEPS[round % STEPS.len()]));
            drain();
        }
        done.store(true, Relaxed);
    });
    assert_eq!(admitted.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>(), [expected; CLIENTS as usize]);
}

#[test]
fn forgetting_idle_clients_under_way_mints_and_loses_nothing() {
    let quota = Quota::per_second(10);
    macro_rules! forgetting {
        ($rounds:expr, $algorithm:ident $(, $method:ident($($argument:expr)?))*) => {
            let clock = ManualClock::new();
            let limiter = Limiter::$algorithm(quota)$(.$method($($argument)?))*.clock(clock.clone()).build().unwrap();
            let gate = Gate::$algorithm(quota)$(.$method($($argument)?))*.clock(clock.clone()).build().unwrap();
            forgetting_mints_and_loses_nothing($rounds, &limiter, gate, &clock);
        };
    }
    forgetting!(200, token_bucket);
    forgetting!(40, sliding_log);
    for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
        forgetting!(40, fixed_window, anchor(anchor));
        forgetting!(40, sliding_counter, anchor(anchor));
        forgetting!(40, sliding_counter, anchor(anchor), strict());
    }
}

/// An admitted call: the clock before it and after it. Its own instant lies between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Passed {
    before: u64,
    after: u64,
}

/// The window of the limiters below, in nanoseconds.
const WINDOW: u64 = 1_000_000_000;
const LIMIT: usize = 100;

/// Eight threads call, and give some of it back, while time goes on in steps of all sizes, and another one sweeps. Returns
/// what each of three clients got and kept.
fn hammer<A: Algorithm>(limiter: &Manual<A>, clock: &ManualClock) -> Vec<Vec<Passed>> {
    const CLIENTS: usize = 3;
    const STEPS: [u64; 8] = [WINDOW / 3, 1, WINDOW / 10, WINDOW / 2, WINDOW - 1, WINDOW / 10, WINDOW / 7, 3 * WINDOW];
    let passed: Vec<Mutex<Vec<Passed>>> = (0..CLIENTS).map(|_| Mutex::default()).collect();
    let (calls, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (passed, calls, done) = (&passed, &calls, &done);
            scope.spawn(move || {
                let mut numbers = Numbers(thread);
                let mut receipts: Vec<(usize, Passed, Allowed)> = Vec::new();
                let mut kept: Vec<(usize, Passed)> = Vec::new();
                while !done.load(Relaxed) {
                    let client = numbers.below(CLIENTS as u64) as usize;
                    let before = clock.now();
                    let decision = limiter.check(&client);
                    let passed = Passed { before, after: clock.now() };
                    match decision {
                        Ok(receipt) if numbers.below(4) == 0 => receipts.push((client, passed, receipt)),
                        Ok(_) => kept.push((client, passed)),
                        Err(_) => {}
                    }
                    if numbers.below(8) == 0
                        && let Some((client, passed, receipt)) = receipts.pop()
                        && receipt.give_back() == 0
                    {
                        kept.push((client, passed));
                    }
                    if numbers.below(64) == 0 {
                        let _ = limiter.check(&numbers.below(u64::MAX >> 33));
                    }
                    calls.fetch_add(1, Relaxed);
                }
                let rest = receipts.into_iter().map(|(client, at, _)| (client, at));
                kept.into_iter().chain(rest).for_each(|(client, at)| passed[client].lock().unwrap().push(at));
            });
        }
        scope.spawn(|| sweep_until(&done, limiter));
        for step in 0..120 {
            clock.advance(Duration::from_nanos(STEPS[step % STEPS.len()]));
            // Now and then time goes on before anybody has called.
            let enough = calls.load(Relaxed) + [0, 40, 400][step % 3];
            while calls.load(Relaxed) < enough {
                thread::yield_now();
            }
        }
        done.store(true, Relaxed);
    });
    passed.into_iter().map(|passed| passed.into_inner().unwrap()).collect()
}

/// No stretch of one window holds more than `most` calls, and no run of aligned windows more than the limit for each.
fn never_exceed(mut passed: Vec<Passed>, most: usize, aligned: bool) {
    passed.sort_unstable();
    assert!(passed.len() > 10 * LIMIT, "{} calls passed: too few to tell anything", passed.len());
    for (i, first) in passed.iter().enumerate() {
        let within =
            |end: u64| passed[i..].iter().take_while(|call| call.before < end).filter(|call| call.after < end).count();
        let admitted = within(first.before + WINDOW);
        assert!(admitted <= most, "{admitted} calls in one window from {first:?}");
        if aligned && (i == 0 || passed[i - 1].before < first.before) {
            for windows in 1..=3 {
                let end = (first.before / WINDOW + windows) * WINDOW;
                let admitted = within(end);
                assert!(admitted <= LIMIT * windows as usize, "{admitted} calls in {windows} windows up to {end}");
            }
        }
    }
}

#[test]
fn no_window_passes_more_than_the_limit_while_clients_move_and_time_goes_on() {
    let quota = Quota::per_second(LIMIT as u64);
    macro_rules! hammer {
        ($most:expr, $aligned:expr, $algorithm:ident $(, $method:ident($($argument:expr)?))*) => {
            let clock = ManualClock::new();
            let limiter = Limiter::$algorithm(quota)$(.$method($($argument)?))*.clock(clock.clone()).build().unwrap();
            hammer(&limiter, &clock).into_iter().for_each(|passed| never_exceed(passed, $most, $aligned));
        };
    }
    hammer!(LIMIT, false, sliding_log);
    for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
        let aligned = anchor == Anchor::Aligned;
        hammer!(2 * LIMIT, aligned, fixed_window, anchor(anchor));
        hammer!(2 * LIMIT, aligned, sliding_counter, anchor(anchor));
        hammer!(2 * LIMIT, aligned, sliding_counter, anchor(anchor), strict());
    }
}

/// By the real clock: eight threads call and one sweeps.
#[test]
fn a_log_admits_no_more_than_its_limit_in_any_second() {
    let limiter = Limiter::sliding_log(Quota::per_second(LIMIT as u64)).build().unwrap();
    let (built, time) = (Instant::now(), Duration::from_secs(3));
    let call_while_time_lasts = || {
        let mut passed = Vec::new();
        while built.elapsed() < time {
            let before = built.elapsed().as_nanos() as u64;
            if limiter.allow("client") {
                passed.push(Passed { before, after: built.elapsed().as_nanos() as u64 });
            }
        }
        passed
    };
    let passed: Vec<Passed> = thread::scope(|scope| {
        scope.spawn(|| {
            while built.elapsed() < time {
                limiter.sweep();
            }
        });
        let callers: Vec<_> = (0..THREADS).map(|_| scope.spawn(call_while_time_lasts)).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    let mut passed = passed;
    passed.sort_unstable();
    // Two clocks are read here, which may go a millionth apart.
    let second = WINDOW - WINDOW / 1_000_000;
    for (i, first) in passed.iter().enumerate() {
        let within = passed[i..].iter().take_while(|call| call.before < first.before + second);
        let admitted = within.filter(|call| call.after < first.before + second).count();
        assert!(admitted <= LIMIT, "{admitted} calls in one second from {first:?}");
    }
    assert!(passed.len() >= 2 * LIMIT, "{} calls in three seconds", passed.len());
}

/// By the real clock, and with more threads than the machine has processors.
#[test]
fn sixteen_hungry_threads_get_the_rate_and_the_burst() {
    // A debug build on a busy machine could be too slow to be hungry.
    const RATE: u64 = if cfg!(debug_assertions) { 18_000 } else { 180_000 };
    const TIME: Duration = Duration::from_secs(5);
    let limiter = Limiter::token_bucket(Quota::per_second(RATE)).build().unwrap();
    let gate = Gate::token_bucket(Quota::per_second(RATE)).build().unwrap();
    let built = Instant::now();
    let call_while_time_lasts = || {
        let (mut admitted, mut last) = ([0_u64; 2], [Duration::ZERO; 2]);
        loop {
            let now = built.elapsed();
            if now >= TIME {
                return (admitted, last);
            }
            let passed = [limiter.allow("client"), gate.allow()];
            for i in (0..2).filter(|&i| passed[i]) {
                (admitted[i], last[i]) = (admitted[i] + 1, now);
            }
            if passed == [false, false] {
                thread::yield_now();
            }
        }
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let callers: Vec<_> = (0..16).map(|_| scope.spawn(call_while_time_lasts)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    for i in 0..2 {
        let admitted: u64 = outcomes.iter().map(|(admitted, _)| admitted[i]).sum();
        let last = outcomes.iter().map(|(_, last)| last[i]).max().unwrap();
        let expected = RATE as f64 * (1.0 + last.as_secs_f64());
        let off = admitted as f64 / expected - 1.0;
        assert!(off.abs() < 0.01, "{admitted} until {last:?} are {off:+.4} off");
    }
}
