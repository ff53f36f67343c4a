//! Threads whose reading of the clock is older than the table that they find: they are answered as of the table's floor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tollgate::{Algorithm, Clock, Limiter, Quota};

const SECOND: u64 = 1_000_000_000;

/// A clock that says that it never steps back, and shows what it likes: so what a thread reads that was held up.
#[derive(Clone, Default)]
struct Shown(Arc<AtomicU64>);

impl Clock for Shown {
    fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn is_monotonic(&self) -> bool {
        true
    }
}

/// All that a client is told from its new table on, if its clock shows `late` after a sweep at ten seconds.
fn answers<A: Algorithm>(limiter: &Limiter<A, Shown>, clock: &Shown, late: u64) -> Vec<u64> {
    let at = |nanos| clock.0.store(nanos, Relaxed);
    at(0);
    assert!(limiter.check_n("idle", 5).is_ok());
    at(10 * SECOND);
    assert!(limiter.check_n("live", 2).is_ok());
    assert_eq!(limiter.sweep(), 1);
    at(late);
    let migrations = limiter.migrations();
    let mut told = Vec::new();
    for client in ["live", "idle", "new"] {
        told.push(limiter.peek(client).remaining());
        let receipt = limiter.check(client);
        told.extend(receipt.iter().flat_map(|allowed| [allowed.remaining(), allowed.reset_after().as_nanos() as u64]));
        told.push(receipt.map_or(9, |allowed| allowed.give_back()));
        told.extend(limiter.check_many(&[client; 3]).iter().map(|decision| u64::from(decision.is_ok())));
        told.push(limiter.refund(client, 2));
        let mut session = limiter.session();
        told.extend((0..5).map(|_| u64::from(session.allow(client))));
        told.extend(
            limiter.check(client).err().and_then(|denied| denied.retry_after()).map(|wait| wait.as_nanos() as u64),
        );
        told.push(u64::from(limiter.reset(client)));
        told.push(limiter.peek(client).remaining());
        assert!(limiter.check_n(client, 5).is_ok() && !limiter.allow(client));
    }
    assert_eq!(limiter.migrations(), migrations);
    // Nothing was refilled before its time.
    at(10 * SECOND);
    assert!(["live", "idle", "new"].iter().all(|client| !limiter.allow(client)));
    at(20 * SECOND);
    told.extend(["live", "idle", "new"].map(|client| limiter.peek(client).remaining()));
    told
}

#[test]
fn a_late_clock_is_answered_as_of_the_floor() {
    let quota = Quota::per(5, Duration::from_secs(5));
    macro_rules! of_every_lateness {
        ($($algorithm:ident)*) => {$(
            let told = [10 * SECOND, 10 * SECOND - 1, SECOND, 0].map(|late| {
                let clock = Shown::default();
                let limiter = Limiter::$algorithm(quota).clock(clock.clone()).build().unwrap();
                answers(&limiter, &clock, late)
            });
            assert!(told.iter().all(|late| *late == told[0]), "{}: {told:?}", stringify!($algorithm));
        )*};
    }
    of_every_lateness!(token_bucket fixed_window sliding_counter sliding_log);
}
