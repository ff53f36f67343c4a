//! What a limiter takes of memory, and when it gives that back.
//!
//! The tests run one at a time: what is to be freed waits for every thread of the process that is inside a limiter.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use tollgate::{Algorithm, Anchor, Gate, Limiter, ManualClock, Quota, SlidingLog, TokenBucket, WhenFull};

/// The system's allocator, which keeps count for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: everything is handed on as it comes. The counters neither allocate nor unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.set(LIVE_BYTES.get() + layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get() - layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `work` allocates, and by how many bytes what is allocated has grown after it.
fn allocations(work: impl FnOnce()) -> (u64, i64) {
    let before = (ALLOCATIONS.get(), LIVE_BYTES.get());
    work();
    (ALLOCATIONS.get() - before.0, LIVE_BYTES.get() - before.1)
}

/// Asserts that `calls` neither allocate nor hold more memory after them.
///
/// What other threads have retired, such as that of the test before, which may still be ending, is freed by whoever calls.
/// That comes to an end, so another attempt counts too.
fn assert_quiet(what: &str, mut calls: impl FnMut()) {
    const ATTEMPTS: usize = 3;
    let mut counts = Vec::new();
    for _ in 0..ATTEMPTS {
        let (allocated, grown) = allocations(&mut calls);
        if allocated == 0 && grown <= 0 {
            return;
        }
        counts.push((allocated, grown));
    }
    panic!("{what}: allocations and bytes grown {counts:?}");
}

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

fn limiter(text: &str, clock: &ManualClock) -> Limiter<TokenBucket, ManualClock> {
    Limiter::token_bucket(quota(text)).clock(clock.clone()).build().unwrap()
}

/// A debug build is some ten times slower, and makes do with fewer calls.
const fn debug_or_release(debug: u64, release: u64) -> u64 {
    if cfg!(debug_assertions) { debug } else { release }
}

const CHECKS: u64 = debug_or_release(2_000_000, 10_000_000);
const CHURN: u64 = debug_or_release(1_000_000, 10_000_000);
const CHURN_ON_THREADS: u64 = debug_or_release(200_000, 10_000_000);
const CLIENTS: Range<u64> = 0..1000;

#[test]
fn no_call_of_a_known_client_allocates() {
    let _alone = alone();
    // One that does not run out, and one that has.
    let [generous, strict] = [("1/s;burst=1000000000", 1_000_000), ("1/h", 1)].map(|(text, cost)| {
        let limiter = Limiter::token_bucket(quota(text)).build().unwrap();
        CLIENTS.for_each(|client| assert!(limiter.check_n(&client, cost).is_ok()));
        limiter.sweep();
        (limiter, Gate::token_bucket(quota(text)).build().unwrap())
    });
    assert!(strict.1.allow());
    // What the tests before have retired is freed by whoever calls, so that is to be over first.
    CLIENTS.cycle().take(300_000).for_each(|client| assert!(!strict.0.allow(&client)));

    let held = [generous.0.memory_bytes(), strict.0.memory_bytes()];
    let quiet = |what, call: &mut dyn FnMut(u64)| {
        assert_quiet(what, || CLIENTS.cycle().take(CHECKS as usize).for_each(&mut *call));
    };
    quiet("limiter, allowed", &mut |client| assert!(generous.0.check(&client).is_ok()));
    quiet("limiter, refused", &mut |client| assert!(strict.0.check(&client).is_err()));
    quiet("limiter, peek", &mut |client| assert_eq!(strict.0.peek(&client).remaining(), 0));
    quiet("limiter, given back", &mut |client| assert_eq!(generous.0.check(&client).unwrap().give_back(), 1));
    let (mut allowing, mut refusing) = (generous.0.session(), strict.0.session());
    quiet("session, allowed", &mut |client| assert!(allowing.check(&client).is_ok()));
    quiet("session, refused", &mut |client| assert!(refusing.check(&client).is_err()));
    quiet("gate, allowed", &mut |_| assert!(generous.1.check().is_ok()));
    quiet("gate, refused", &mut |_| assert!(strict.1.check().is_err()));
    quiet("gate, peek", &mut |_| assert_eq!(strict.1.peek().remaining(), 0));
    assert_eq!([generous.0.memory_bytes(), strict.0.memory_bytes()], held);
}

#[test]
fn a_batch_allocates_its_answers_at_once() {
    let _alone = alone();
    let limiter = limiter("1/h", &ManualClock::new());
    let keys: Vec<u64> = CLIENTS.collect();
    drop(limiter.check_many(&keys));
    limiter.sweep();
    assert_eq!(allocations(|| drop(limiter.check_many(&keys))), (1, 0));
}

#[test]
fn a_flood_of_one_shot_keys_takes_no_more_than_its_memory() {
    let _alone = alone();
    for mode in [WhenFull::Deny, WhenFull::Allow, WhenFull::Shared] {
        let builder = Limiter::token_bucket(quota("5/s")).clock(ManualClock::new()).max_keys(10_000).when_full(mode);
        let limiter = builder.build().unwrap();
        let flood = |keys: Range<u64>| {
            for key in keys {
                let _ = limiter.check(&key);
                assert!(key % 1000 > 0 || limiter.len() <= 11_250);
            }
        };
        flood(0..100_000);
        let (len, bytes) = (limiter.len(), limiter.memory_bytes());
        assert!((10_000..=11_250).contains(&len), "{len} clients");
        // 43 bytes a client, twice that while it grew.
        assert!(bytes <= 2 * 43 * 10_000, "{bytes} bytes");
        flood(100_000..1_000_000);
        assert_eq!(limiter.len(), len);
        assert!(limiter.memory_bytes() <= bytes);
    }
}

#[test]
fn idle_clients_are_forgotten_though_only_another_one_calls() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = limiter("10/s", &clock);
    let bytes = limiter.memory_bytes();
    assert!((0..100_000).all(|client| limiter.allow(&client)));
    assert_eq!(limiter.len(), 100_000);
    clock.advance(Duration::from_secs(1));
    let another_calls = |pause| {
        for _ in 0..10_000 {
            let _ = limiter.check("another");
            clock.advance(pause);
        }
    };
    another_calls(Duration::ZERO);
    assert!(limiter.len() <= 10_000, "{} clients", limiter.len());
    // The memory follows a piece a millisecond, so that no call takes long.
    another_calls(Duration::from_micros(50));
    assert!(limiter.memory_bytes() <= bytes + (256 << 10), "{} bytes", limiter.memory_bytes());
}

/// Ten thousand calls of one client, so that whatever is due is done.
fn look_after(limiter: &Limiter<TokenBucket, ManualClock>, clock: &ManualClock) {
    for _ in 0..10_000 {
        clock.advance(Duration::from_micros(100));
        let _ = limiter.check(&u64::MAX);
    }
}

#[test]
fn a_table_is_left_when_few_of_its_places_are_live_clients_and_not_before() {
    let _alone = alone();
    // Of 262,144 places an eighth is 32,768.
    for (live, is_left) in [(60_000, false), (15_000, true)] {
        let clock = ManualClock::new();
        let limiter = limiter("1/s;burst=100", &clock);
        for client in 0..150_000_u64 {
            assert!(limiter.check_n(&client, if client < live { 10 } else { 1 }).is_ok());
        }
        let (bytes, migrations) = (limiter.memory_bytes(), limiter.migrations());
        clock.advance(Duration::from_secs(2));
        look_after(&limiter, &clock);
        let (held, left) = (limiter.len() as u64, limiter.migrations() > migrations);
        assert_eq!(left, is_left, "{live} live, {held} held");
        if is_left {
            assert!(held <= live + 1, "{held} held");
            // One more move, as soon as the table that still had places for all is old enough.
            assert!(limiter.memory_bytes() <= bytes / 2, "{} bytes of {bytes}", limiter.memory_bytes());
        }
    }
}

#[test]
fn a_sweep_leaves_nothing_idle_and_little_memory() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = limiter("10/s", &clock);
    let bytes = limiter.memory_bytes();
    assert!((0..200_000).all(|client| limiter.allow(&client)));
    assert_eq!((limiter.sweep(), limiter.len()), (0, 200_000));
    clock.advance(Duration::from_millis(50));
    assert!((0..100).all(|client| limiter.allow(&client)));
    clock.advance(Duration::from_millis(50));
    assert_eq!((limiter.sweep(), limiter.len()), (199_900, 100));
    assert!((0..100).all(|client| limiter.peek(&client).remaining() == 9));
    assert!(limiter.memory_bytes() <= 2 * bytes, "{} bytes", limiter.memory_bytes());
    clock.advance(Duration::from_millis(100));
    assert_eq!((limiter.sweep(), limiter.len()), (100, 0));
    assert_eq!(limiter.sweep(), 0);
    assert!(limiter.memory_bytes() <= bytes, "{} bytes, not {bytes}", limiter.memory_bytes());
}

#[test]
fn churn_takes_the_memory_of_the_live_clients_only() {
    let _alone = alone();
    for (rate, step) in [("1/s", Duration::from_millis(1)), ("1/us", Duration::from_nanos(1))] {
        for in_session in [false, true] {
            let clock = ManualClock::new();
            let limiter = limiter(rate, &clock);
            let mut session = in_session.then(|| limiter.session());
            for key in 0..CHURN {
                assert!(session.as_mut().map_or_else(|| limiter.allow(&key), |session| session.allow(&key)));
                clock.advance(step);
                if key % 64 == 0 {
                    let slots = limiter.memory_bytes() / 16;
                    assert!(slots <= 64 * 1000, "{slots} slots for 1,000 live clients at {rate} after {key}");
                }
            }
        }
    }
}

/// Clients that call once, on eight threads, and at most 10,000 of them live at a time. Returns the most bytes held.
fn churn_on_eight_threads(limiter: &Limiter<TokenBucket, ManualClock>, clock: &ManualClock) -> usize {
    let (keys, peak) = (AtomicU64::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let key = keys.fetch_add(1, Relaxed);
                    if key >= CHURN_ON_THREADS {
                        return;
                    }
                    let _ = limiter.check(&key);
                    clock.advance(Duration::from_micros(100));
                    if key % 64 == 0 {
                        peak.fetch_max(limiter.memory_bytes(), Relaxed);
                    }
                }
            });
        }
    });
    peak.into_inner()
}

/// What a limiter of 10,000 clients may hold: its table and the one it moves to, four retired ones and a megabyte, and
/// one more that is retired when those are reached.
const MOST_BYTES: usize = 7 * (16_384 * 16 + 4096) + (1 << 20);

#[test]
fn what_is_retired_does_not_pile_up_while_many_threads_churn() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = Limiter::token_bucket(quota("1/s")).clock(clock.clone()).max_keys(10_000).build().unwrap();
    let peak = churn_on_eight_threads(&limiter, &clock);
    assert!(peak <= MOST_BYTES, "{peak} bytes");
}

#[test]
fn what_is_retired_does_not_pile_up_behind_an_idle_session() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = Limiter::token_bucket(quota("1/s")).clock(clock.clone()).max_keys(10_000).build().unwrap();
    let idle = limiter.session();
    let peak = churn_on_eight_threads(&limiter, &clock);
    assert!(peak <= MOST_BYTES, "{peak} bytes");
    drop(idle);
    // A thread that has just ended may still be handing its garbage over, pinned while it does.
    let freed = (0..1000).any(|attempt| {
        thread::sleep(Duration::from_millis(u64::from(attempt > 0)));
        limiter.sweep();
        limiter.memory_bytes() <= MOST_BYTES / 2
    });
    assert!(freed, "{} bytes", limiter.memory_bytes());
}

// Logs: what clients hold beside the table.

fn logs(text: &str, clock: &ManualClock) -> Limiter<SlidingLog, ManualClock> {
    Limiter::sliding_log(quota(text)).clock(clock.clone()).build().unwrap()
}

/// What a log of so many events takes.
const fn log_bytes(events: usize) -> usize {
    (24 + 8 * events).next_multiple_of(32)
}

/// Frees what this thread has retired, and whatever was before that. No other thread is inside a limiter, though one that
/// is just ending may hold the epoch for a moment.
fn collect() {
    static COLLECTED: AtomicUsize = AtomicUsize::new(0);
    let before = COLLECTED.load(Relaxed);
    crossbeam_epoch::pin().defer(|| COLLECTED.fetch_add(1, Relaxed));
    while COLLECTED.load(Relaxed) == before {
        crossbeam_epoch::pin().flush();
        thread::yield_now();
    }
}

/// Bytes held when all that was replaced is freed, other than by threads that are still there.
fn bytes_at_rest(limiter: &Limiter<SlidingLog, ManualClock>) -> usize {
    // Asking hands the logs that this thread has replaced to the epoch, and frees those which come back.
    let _ = limiter.memory_bytes();
    collect();
    limiter.memory_bytes()
}

#[test]
fn no_call_of_a_known_client_of_windows_allocates() {
    fn is_quiet<A: Algorithm>(what: &str, generous: &Limiter<A, ManualClock>, strict: &Limiter<A, ManualClock>) {
        CLIENTS.for_each(|client| assert!(generous.allow(&client) && strict.check_n(&client, 3).is_ok()));
        strict.sweep();
        generous.sweep();
        collect();
        CLIENTS.cycle().take(10_000).for_each(|client| assert!(!strict.allow(&client)));
        assert_quiet(what, || {
            for client in CLIENTS.cycle().take(100_000) {
                assert!(!strict.allow(&client));
                assert_eq!(strict.peek(&client).remaining(), 0);
                assert_eq!(generous.check(&client).unwrap().give_back(), 1);
                assert!(generous.allow(&client));
            }
        });
    }
    let _alone = alone();
    let clock = ManualClock::new();
    for anchor in [Anchor::Aligned, Anchor::FirstRequest] {
        let window = |text| Limiter::fixed_window(quota(text)).anchor(anchor).clock(clock.clone()).build().unwrap();
        is_quiet("fixed window", &window("1000000/d"), &window("3/d"));
        let counter = |text| Limiter::sliding_counter(quota(text)).anchor(anchor).clock(clock.clone()).build().unwrap();
        is_quiet("sliding counter", &counter("100000/d"), &counter("3/d"));
    }
}

#[test]
fn a_log_allocates_once_an_admission_and_never_for_a_refusal() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = logs("100/min", &clock);
    assert!(limiter.allow("client"));
    limiter.sweep();
    collect();
    for _ in 1..100 {
        clock.advance(Duration::from_nanos(1));
        let (allocated, _) = allocations(|| assert!(limiter.allow("client")));
        // The log, unless there is memory at hand, and now and then a bag of the epoch's for what was replaced.
        assert!(allocated <= 4, "{allocated} allocations");
    }
    let refusals = || (0..10_000).for_each(|_| assert!(limiter.check("client").is_err()));
    let peeks = || (0..10_000).for_each(|_| assert_eq!(limiter.peek("client").remaining(), 0));
    assert_quiet("refusals", refusals);
    assert_quiet("peeks", peeks);
}

#[test]
fn a_log_takes_8_bytes_an_event_and_gives_them_back() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = logs("100/s", &clock);
    let bytes = limiter.memory_bytes();
    for client in 0..100 {
        assert!(limiter.check_n(&client, 1 + client).is_ok());
    }
    let all = |events: std::ops::RangeInclusive<usize>| events.map(log_bytes).sum::<usize>();
    assert_eq!(bytes_at_rest(&limiter), bytes + all(1..=100));
    // More calls: each replaces a log by a longer one.
    for client in 0..99 {
        assert!(limiter.allow(&client));
    }
    assert_eq!(bytes_at_rest(&limiter), bytes + all(2..=100) + log_bytes(100));
    // Less of them.
    for client in 0..100 {
        assert_eq!(limiter.refund(&client, 1), 1);
        assert!(client > 50 || limiter.reset(&client));
    }
    assert!(bytes_at_rest(&limiter) < bytes + 100 * log_bytes(100));
    clock.advance(Duration::from_secs(1));
    limiter.sweep();
    assert_eq!((limiter.len(), bytes_at_rest(&limiter)), (0, bytes));
}

/// What a thread that calls no more may hold of the logs that it replaced, and strike off late.
const HELD_BY_A_THREAD: usize = (128 << 10) + 4096;

#[test]
fn a_thread_that_calls_no_more_holds_little_and_one_that_ends_nothing() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = logs("101/h", &clock);
    CLIENTS.for_each(|client| assert!(limiter.allow(&client)));
    // The clients' logs, and the table.
    let live = 1000 * log_bytes(101) + bytes_at_rest(&limiter) - 1000 * log_bytes(1);
    let (idle, end) = (Barrier::new(3), Barrier::new(3));
    thread::scope(|scope| {
        for thread in 0..2 {
            let (limiter, clock, idle, end) = (&limiter, &clock, &idle, &end);
            scope.spawn(move || {
                for client in CLIENTS.cycle().skip(500 * thread).take(50_000) {
                    assert!(limiter.allow(&client));
                    clock.advance(Duration::from_nanos(1));
                }
                idle.wait();
                end.wait();
            });
        }
        idle.wait();
        let held = bytes_at_rest(&limiter) - live;
        assert!(held > 0 && held <= 2 * HELD_BY_A_THREAD, "{held} bytes");
        end.wait();
    });
    // Threads that have just ended may still be handing over what they held, pinned while they do.
    let freed = (0..1000).any(|attempt| {
        thread::sleep(Duration::from_millis(u64::from(attempt > 0)));
        bytes_at_rest(&limiter) == live
    });
    assert!(freed, "{} bytes", limiter.memory_bytes() - live);
}

/// Calls limiters, and drops one, while its thread ends: which may have lost by then what it had at hand for logs.
struct LastCalls(Limiter<SlidingLog, ManualClock>);

impl Drop for LastCalls {
    fn drop(&mut self) {
        let own = logs("5/s", &ManualClock::new());
        for limiter in [&self.0, &own] {
            for client in (0..7).cycle().take(2_000) {
                let _ = limiter.allow(&client);
                limiter.reset(&client);
            }
        }
    }
}

#[test]
fn a_thread_may_call_limiters_while_it_ends() {
    thread_local!(static FIRST: RefCell<Option<LastCalls>> = const { RefCell::new(None) });
    thread_local!(static LAST: RefCell<Option<LastCalls>> = const { RefCell::new(None) });
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = logs("5/s", &clock);
    let bytes = limiter.memory_bytes();
    for _ in 0..20 {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    // Destroyed one before and one after what the thread has at hand, whichever comes first.
                    FIRST.set(Some(LastCalls(limiter.clone())));
                    let _ = limiter.allow(&0);
                    LAST.set(Some(LastCalls(limiter.clone())));
                });
            }
        });
    }
    // A scope ends before all of its threads do.
    let freed = (0..1000).any(|attempt| {
        thread::sleep(Duration::from_millis(u64::from(attempt > 0)));
        clock.advance(Duration::from_secs(1));
        limiter.sweep();
        bytes_at_rest(&limiter) == bytes
    });
    assert!(freed, "{} bytes, not {bytes}", limiter.memory_bytes());
}

#[test]
fn logs_come_back_though_only_another_client_calls() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = logs("20/s", &clock);
    let bytes = limiter.memory_bytes();
    for clients in [100, 20_000] {
        assert!((0..clients).all(|client| limiter.check_n(&client, 20).is_ok()));
        assert!(limiter.memory_bytes() >= bytes + clients * log_bytes(20));
        clock.advance(Duration::from_secs(1));
        // One that is refused most of the time. The memory follows a piece a millisecond.
        for _ in 0..20_000 {
            let _ = limiter.check("another");
            clock.advance(Duration::from_micros(200));
        }
        assert!(limiter.len() <= clients / 10, "{} of {clients} clients", limiter.len());
        let left = limiter.memory_bytes();
        assert!(left <= bytes + clients * log_bytes(20) / 10 + (256 << 10), "{left} bytes after {clients} clients");
    }
}

#[test]
fn a_limiter_that_is_dropped_takes_its_logs_along() {
    let _alone = alone();
    let clock = ManualClock::new();
    let use_up = |mode| {
        let limiter = Limiter::sliding_log(quota("50/s")).clock(clock.clone()).max_keys(100).when_full(mode);
        let limiter = limiter.build().unwrap();
        let gate = Gate::sliding_log(quota("50/s")).clock(clock.clone()).build().unwrap();
        for client in 0..300 {
            // The last ones share a log, or have none.
            let _ = limiter.check_n(&client, 1 + client % 50);
            let _ = gate.check();
            clock.advance(Duration::from_millis(7));
        }
        let _ = limiter.check(&1).map(|receipt| receipt.give_back());
        limiter.refund(&2, 1);
        limiter.reset(&3);
        // One more in the midst of a migration.
        (1000..1120).for_each(|client| _ = limiter.allow(&client));
    };
    const MODES: [WhenFull; 3] = [WhenFull::Deny, WhenFull::Allow, WhenFull::Shared];
    let all = || {
        MODES.into_iter().for_each(use_up);
        collect();
    };
    // The first time what is kept for the next limiters is made.
    all();
    let (allocated, grown) = allocations(|| (0..20).for_each(|_| all()));
    // A thread keeps some memory for the logs that it writes next, and some of the logs that it replaced.
    const KEPT: i64 = 256 << 10;
    assert!(allocated > 1000 && grown <= KEPT, "{grown} bytes left of {allocated} allocations");
}

#[test]
fn large_logs_do_not_pile_up() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = logs("10000/h", &clock);
    assert!(limiter.check_n("client", 5_000).is_ok());
    for _ in 0..5_000 {
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.allow("client"));
        assert!(limiter.memory_bytes() < 16 * log_bytes(10_000), "{} bytes", limiter.memory_bytes());
    }
}

#[test]
fn an_idle_session_holds_logs_back_until_it_ends() {
    let _alone = alone();
    let clock = ManualClock::new();
    let limiter = logs("1000/h", &clock);
    let bytes = limiter.memory_bytes();
    let mut session = limiter.session();
    assert!(session.allow("client"));
    for _ in 1..1000 {
        clock.advance(Duration::from_nanos(1));
        assert!(limiter.allow("client"));
    }
    (0..8).for_each(|_| crossbeam_epoch::pin().flush());
    // Every log that there was since: of 1 event, of 2, and so on.
    let all: usize = (1..=1000).map(log_bytes).sum();
    let held = limiter.memory_bytes() - bytes;
    assert!(held > all / 2 && held <= all, "{held} of {all} bytes");
    drop(session);
    assert_eq!(bytes_at_rest(&limiter), bytes + log_bytes(1000));

    // A session that is used lets go by itself.
    let limiter = logs("1000/h", &clock);
    let mut session = limiter.session();
    for client in 0..10 {
        (0..1000).for_each(|_| assert!(session.allow(&client)));
    }
    let held = limiter.memory_bytes() - bytes;
    assert!(held <= 10 * log_bytes(1000) + 1000 * log_bytes(1000), "{held} bytes");
}

#[cfg(feature = "tower")]
#[test]
fn telling_whose_request_it_is_allocates_nothing_for_a_token_or_an_address_whatever_the_headers() {
    use http::{HeaderValue, Request};
    use tollgate::http::Head;
    use tollgate::http::client::{ApiKey, Bearer, ClientAddress, ForwardingHeader, Identify, Peer, Trust};

    let address = ClientAddress::new().trust(Trust::hops(usize::MAX));
    let forwarded = address.clone().header(ForwardingHeader::Forwarded);
    let (key, token) = (ApiKey::new(), Bearer::new());
    for hostile in [",", "10.0.0.1,", "for=10.0.0.1,", "_a,", "for=\"", "\\\"", "\"\\", ";", "a;", "x", "é"] {
        let value = hostile.repeat(100_000);
        let value = |start: &str| HeaderValue::from_bytes(format!("{start}{value}").as_bytes()).unwrap();
        let mut request = Request::new(());
        request.extensions_mut().insert(Peer([10, 0, 0, 1].into()));
        for name in ["x-forwarded-for", "forwarded", "x-api-key"] {
            request.headers_mut().append(name, value(""));
            request.headers_mut().append(name, value(""));
        }
        request.headers_mut().append("authorization", value("Bearer "));
        let head = Head::from(&request);
        for clients in [&address as &dyn Identify, &forwarded, &token] {
            assert_eq!(allocations(|| assert!(clients.identify(&head).is_some())), (0, 0), "{hostile}");
        }
        // A key shares the header's memory; what counts the two of them may be a few words.
        let mut client = None;
        let (count, bytes) = allocations(|| client = key.identify(&head));
        assert!(client.is_some() && count <= 1 && bytes <= 64, "{hostile}: {count} with {bytes} bytes");
    }
}
