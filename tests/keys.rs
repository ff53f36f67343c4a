//! What a key of the user's own may do while a limiter waits for its hash.

use std::hash::{Hash, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;
use tollgate::{Algorithm, Limiter, ManualClock, Quota};

/// A key that does something else while it is hashed.
struct Busy<'a>(u64, &'a dyn Fn());

impl Hash for Busy<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.1)();
        self.0.hash(state);
    }
}

#[test]
fn a_key_may_call_limiters_while_it_is_hashed() {
    fn survives<A: Algorithm>(limiter: &Limiter<A, ManualClock>, other: impl Fn() -> Limiter<A, ManualClock>) {
        let work = || {
            let _ = limiter.allow(&9_u64);
            limiter.sweep();
            let other = other();
            (0..1_000).for_each(|client| assert!(other.session().allow(&client)));
            assert!(limiter.memory_bytes() > 0);
        };
        let key = || Busy(1, &work);
        assert!(limiter.allow(&key()));
        assert!(limiter.session().allow(&key()));
        let many = limiter.check_many(&[key(), key()]);
        assert_eq!(many.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);
        assert_eq!(limiter.peek(&key()).remaining(), 0);
        assert!(limiter.check_n(&key(), 0).is_ok() && limiter.check_n(&key(), 4).is_err());
        assert!(limiter.reset(&key()));
        assert_eq!([1_u64, 9].map(|client| limiter.peek(&client).remaining()), [3, 0]);
        let fails = || panic::resume_unwind(Box::new(()));
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| limiter.allow(&Busy(1, &fails))));
        assert!(outcome.is_err() && limiter.allow(&1_u64));
        assert_eq!(limiter.peek(&1_u64).remaining(), 2);
    }
    let (clock, quota) = (ManualClock::new(), Quota::per(3, Duration::from_secs(10)));
    let log = || Limiter::sliding_log(quota).clock(clock.clone()).build().unwrap();
    survives(&log(), log);
    let bucket = || Limiter::token_bucket(quota).clock(clock.clone()).build().unwrap();
    survives(&bucket(), bucket);
}
