//! Many threads on few clients and on many, while the table grows, shrinks and moves all the time. Every token counts.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tollgate::{Allowed, Gate, Limiter, ManualClock, Quota, TokenBucket};

const THREADS: u64 = 8;

type Manual = Limiter<TokenBucket, ManualClock>;

fn limiter(text: &str, clock: &ManualClock) -> Manual {
    let quota: Quota = text.parse().unwrap();
    Limiter::token_bucket(quota).clock(clock.clone()).build().unwrap()
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
fn sweep_until(done: &AtomicBool, limiter: &Manual) {
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
fn trade(limiter: &Manual, accounts: &[Account], thread: u64, work: Work) {
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

fn tokens_are_conserved(clients: usize, work: Work) {
    let limiter = limiter(&format!("{}/d", work.burst), &ManualClock::new());
    let accounts: Vec<Account> = (0..clients).map(|_| Account::default()).collect();
    let (start, done) = (Barrier::new(THREADS as usize + 1), AtomicBool::new(false));
    thread::scope(|scope| {
        let (limiter, accounts, start) = (&limiter, &accounts, &start);
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

#[test]
fn tokens_of_one_client_are_conserved() {
    tokens_are_conserved(1, Work { calls: 300_000, strangers: 0, burst: 1_000_000 });
}

#[test]
fn tokens_of_three_clients_are_conserved() {
    tokens_are_conserved(3, Work { calls: 300_000, strangers: 0, burst: 300_000 });
}

#[test]
fn tokens_of_few_clients_are_conserved_while_the_table_grows() {
    tokens_are_conserved(1, Work { calls: 20_000, strangers: 10_000, burst: 100_000 });
    tokens_are_conserved(3, Work { calls: 20_000, strangers: 10_000, burst: 100 });
}

#[test]
fn tokens_of_many_clients_are_conserved() {
    tokens_are_conserved(5_000, Work { calls: 60_000, strangers: 0, burst: 100 });
}

/// Time stands still until all clients are drained, and then leaps in the midst of their calls. Those who find a client
/// drained at the old time, forget it as idle at the new one, and charge it all race here.
#[test]
fn forgetting_idle_clients_under_way_mints_and_loses_nothing() {
    const CLIENTS: u64 = 3;
    const ROUNDS: usize = 200;
    let clock = ManualClock::new();
    let limiter = limiter("10/s", &clock);
    let admitted: Vec<AtomicU64> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    // Forgets nothing.
    let gate = Gate::token_bucket(Quota::per_second(10)).clock(clock.clone()).build().unwrap();
    let mut expected = 0;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (limiter, admitted, done) = (&limiter, &admitted, &done);
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
        scope.spawn(|| sweep_until(&done, &limiter));
        let mut drain = || {
            expected += (0..11).filter(|_| gate.allow()).count() as u64;
            while (0..CLIENTS).any(|client| limiter.peek(&client).remaining() > 0) {
                thread::yield_now();
            }
        };
        drain();
        for round in 0..ROUNDS {
            // Half a refill, one all but a nanosecond, exactly one, and more than one.
            const STEPS: [u64; 4] = [500_000_000, 999_999_999, 1_000_000_000, 2_500_000_000];
            clock.advance(Duration::from_nanos(STEPS[round % STEPS.len()]));
            drain();
        }
        done.store(true, Relaxed);
    });
    assert_eq!(admitted.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>(), [expected; CLIENTS as usize]);
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
