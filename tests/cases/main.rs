//! What has gone wrong with rate limiters in production, and what must happen instead.
//!
//! Every clock here is moved by hand. Where it makes sense, a test runs on a [`Gate`] and on one client of a
//! [`Limiter`], and for [every](ALL) algorithm. What is about memory is in `allocations.rs`, and what takes many threads in
//! `stress.rs`.

mod answers;
mod arithmetic;
mod clients;
mod clocks;
mod costs;
mod returns;
mod waits;
mod windows;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;
use tollgate::{
    Algorithm, Allowed, Anchor, BuildError, Clock, Denied, Gate, Limiter, ManualClock, Quota, QuotaError, Reason,
    Status, TokenBucket, WhenFull,
};

/// An algorithm, and how it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    TokenBucket,
    FixedWindow(Anchor),
    SlidingLog,
    SlidingCounter(Anchor),
    StrictCounter(Anchor),
}

use Anchor::{Aligned, FirstRequest};
use Kind::{FixedWindow, SlidingCounter, SlidingLog, StrictCounter};

const ALL: [Kind; 8] = [
    Kind::TokenBucket,
    FixedWindow(Aligned),
    FixedWindow(FirstRequest),
    SlidingLog,
    SlidingCounter(Aligned),
    SlidingCounter(FirstRequest),
    StrictCounter(Aligned),
    StrictCounter(FirstRequest),
];

/// All but the token bucket.
fn windows() -> impl Iterator<Item = Kind> {
    ALL.into_iter().skip(1)
}

/// One client of whatever algorithm, and whatever holds it.
trait Client: Sync {
    fn check_n(&self, cost: u64) -> Result<Allowed, Denied>;
    fn peek(&self) -> Status;
    fn refund(&self, tokens: u64) -> u64;
    fn reset(&self) -> bool;

    fn allow(&self) -> bool {
        self.check_n(1).is_ok()
    }

    /// What is left after one token is taken.
    fn left(&self) -> u64 {
        self.check_n(1).expect("one token is there").remaining()
    }

    fn drain(&self) {
        let left = self.peek().remaining();
        self.check_n(left).expect("as much as remains can be taken");
        assert_eq!(self.peek().remaining(), 0);
    }

    /// How long a call has to wait that is refused for now.
    fn wait(&self, cost: u64) -> Duration {
        let denied = self.check_n(cost).expect_err("nothing is left");
        assert_eq!(denied.reason(), Reason::Limited);
        denied.retry_after().expect("a wait that ends")
    }

    /// How many calls of one token pass at this moment, if not more than the limit.
    fn passes(&self) -> u64 {
        (0..=self.peek().limit()).take_while(|_| self.allow()).count() as u64
    }
}

impl<A: Algorithm, C: Clock> Client for Gate<A, C> {
    fn check_n(&self, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(cost)
    }

    fn peek(&self) -> Status {
        self.peek()
    }

    fn refund(&self, tokens: u64) -> u64 {
        self.refund(tokens)
    }

    fn reset(&self) -> bool {
        self.reset()
    }
}

const CLIENT: &str = "client";

impl<A: Algorithm, C: Clock> Client for Limiter<A, C> {
    fn check_n(&self, cost: u64) -> Result<Allowed, Denied> {
        self.check_n(CLIENT, cost)
    }

    fn peek(&self) -> Status {
        self.peek(CLIENT)
    }

    fn refund(&self, tokens: u64) -> u64 {
        self.refund(CLIENT, tokens)
    }

    fn reset(&self) -> bool {
        self.reset(CLIENT)
    }
}

/// A limiter of whatever algorithm, with numbers for keys.
trait Clients: Client {
    fn client(&self, key: u64) -> Box<dyn Client + '_>;
    fn check_many(&self, keys: &[u64]) -> Vec<Result<Allowed, Denied>>;
    /// Keys and costs in one session.
    fn check_in_session(&self, calls: &[(u64, u64)]) -> Vec<Result<Allowed, Denied>>;
    fn sweep(&self) -> usize;
    fn len(&self) -> usize;

    fn check(&self, key: u64) -> Result<Allowed, Denied> {
        self.client(key).check_n(1)
    }
}

/// The client of a limiter with this key.
struct Keyed<'a, A: Algorithm, C>(&'a Limiter<A, C>, u64);

impl<A: Algorithm, C: Clock> Client for Keyed<'_, A, C> {
    fn check_n(&self, cost: u64) -> Result<Allowed, Denied> {
        self.0.check_n(&self.1, cost)
    }

    fn peek(&self) -> Status {
        self.0.peek(&self.1)
    }

    fn refund(&self, tokens: u64) -> u64 {
        self.0.refund(&self.1, tokens)
    }

    fn reset(&self) -> bool {
        self.0.reset(&self.1)
    }
}

impl<A: Algorithm, C: Clock> Clients for Limiter<A, C> {
    fn client(&self, key: u64) -> Box<dyn Client + '_> {
        Box::new(Keyed(self, key))
    }

    fn check_many(&self, keys: &[u64]) -> Vec<Result<Allowed, Denied>> {
        self.check_many(keys)
    }

    fn check_in_session(&self, calls: &[(u64, u64)]) -> Vec<Result<Allowed, Denied>> {
        let mut session = self.session();
        calls.iter().map(|(key, cost)| session.check_n(key, *cost)).collect()
    }

    fn sweep(&self) -> usize {
        self.sweep()
    }

    fn len(&self) -> usize {
        self.len()
    }
}

impl Kind {
    fn gate<C: Clock>(self, quota: Quota, clock: C) -> Result<Box<dyn Client>, BuildError> {
        Ok(match self {
            Kind::TokenBucket => Box::new(Gate::token_bucket(quota).clock(clock).build()?),
            FixedWindow(anchor) => Box::new(Gate::fixed_window(quota).anchor(anchor).clock(clock).build()?),
            SlidingLog => Box::new(Gate::sliding_log(quota).clock(clock).build()?),
            SlidingCounter(anchor) => Box::new(Gate::sliding_counter(quota).anchor(anchor).clock(clock).build()?),
            StrictCounter(anchor) => {
                Box::new(Gate::sliding_counter(quota).strict().anchor(anchor).clock(clock).build()?)
            }
        })
    }

    fn limiter<C: Clock>(self, quota: Quota, clock: C) -> Result<Box<dyn Clients>, BuildError> {
        self.bounded(quota, clock, 100_000_000, WhenFull::Deny)
    }

    fn bounded<C: Clock>(
        self,
        quota: Quota,
        clock: C,
        max_keys: usize,
        mode: WhenFull,
    ) -> Result<Box<dyn Clients>, BuildError> {
        macro_rules! build {
            ($builder:expr) => {
                Box::new($builder.clock(clock).max_keys(max_keys).when_full(mode).build()?)
            };
        }
        Ok(match self {
            Kind::TokenBucket => build!(Limiter::token_bucket(quota)),
            FixedWindow(anchor) => build!(Limiter::fixed_window(quota).anchor(anchor)),
            SlidingLog => build!(Limiter::sliding_log(quota)),
            SlidingCounter(anchor) => build!(Limiter::sliding_counter(quota).anchor(anchor)),
            StrictCounter(anchor) => build!(Limiter::sliding_counter(quota).strict().anchor(anchor)),
        })
    }
}

fn quota(text: &str) -> Quota {
    text.parse().unwrap()
}

fn limiter(text: &str, clock: &ManualClock) -> Limiter<TokenBucket, ManualClock> {
    Limiter::token_bucket(quota(text)).clock(clock.clone()).build().unwrap()
}

/// A clock that shows a time.
fn clock_at(time: Duration) -> ManualClock {
    let clock = ManualClock::new();
    clock.set(time);
    clock
}

/// Runs a test on a client of its own for each of [`Gate`] and [`Limiter`]. Time starts somewhere, as the time of real
/// clocks does: where days begin, so that aligned windows of up to a day do too.
fn on(kind: Kind, text: &str, test: impl Fn(&dyn Client, &ManualClock)) {
    let clock = clock_at(12 * DAY);
    test(&*kind.gate(quota(text), clock.clone()).unwrap(), &clock);
    let clock = ManualClock::new();
    test(&*kind.limiter(quota(text), clock.clone()).unwrap(), &clock);
}

/// The same for every algorithm.
fn on_all(text: &str, test: impl Fn(&dyn Client, &ManualClock)) {
    ALL.into_iter().for_each(|kind| on(kind, text, &test));
}

/// The same for token buckets only.
fn on_both(text: &str, test: impl Fn(&dyn Client, &ManualClock)) {
    on(Kind::TokenBucket, text, test);
}

fn build_error(kind: Kind, quota: Quota) -> BuildError {
    let clock = ManualClock::new();
    let error = kind.gate(quota, clock.clone()).err().expect("no such quota");
    assert_eq!(kind.limiter(quota, clock).err().expect("no such quota"), error);
    error
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

const fn nanos(n: u64) -> Duration {
    Duration::from_nanos(n)
}

const HOUR: Duration = secs(3600);
const DAY: Duration = secs(86_400);
const YEAR: Duration = secs(31_557_600);
