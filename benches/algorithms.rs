//! What one check costs by each of the four algorithms: `cargo bench --bench algorithms`.
//!
//! All checks are allowed, and the algorithms take turns. A sliding log's cost is in its events, so it is measured with
//! logs that are half full: about 50 events, of a limit of 100. With few clients the window is as long as it takes for 50
//! calls of each to come, by the rate at which they do come, and a turn begins with two windows that do not count. With
//! many it would be minutes: there 50 events are put into each log before, and none expires. How full the logs were after
//! each turn stands beside the times. With many, what a log that is copied cannot be had without is measured too.

mod common;

use common::form::Form;
use common::keys::{Draw, Keys, Spread};
use common::limits::Limits;
use common::output::{self, Progress};
use common::peers::bare::BareLog;
use common::peers::tollgate::Single;
use common::race::{self, Burst};
use common::records::{Record, Records};
use common::rounds::{Entrant, Pace, interleave};
use common::subject::Subject;
use common::tables::{self, BARE_LOG, EVENTS, FIXED_WINDOW, SLIDING_COUNTER, SLIDING_LOG, TOKEN_BUCKET};
use std::cell::RefCell;
use std::error::Error;
use std::time::{Duration, Instant};
use tollgate::{Limiter, Quota, SlidingLog};

const FEW: u64 = 1_000;
const MANY: u64 = 1_000_000;

/// Of the sliding log. The others have a limit that the load does not reach.
const LOG_LIMIT: u64 = 100;
const LOG_EVENTS: f64 = 50.0;

/// Nothing expires during the measurement.
const LONG: Duration = Duration::from_hours(1);

/// Logs whose window has been found are within this of their wanted number of events.
const CLOSE: f64 = 5.0;

/// The limiters for so many clients. The log's is another for each number of threads: its window depends on them, or it has
/// become fuller.
struct Bench {
    form: Form,
    name: String,
    clients: u64,
}

impl Bench {
    fn run(&self, subject: &dyn Subject<u64>, threads: usize, checks: u64, bursts: usize, number: u64) -> Vec<Burst> {
        let spread = Spread::Uniform(self.clients);
        let prepare = |thread| {
            let mut keys = Keys::new(&spread, number * threads as u64 + thread as u64);
            subject.run(&mut keys, 1);
            keys
        };
        race::race(threads, bursts, prepare, |keys| subject.run(keys, checks))
    }

    /// The same, of a subject that refuses nothing. Of a log it is the number of events that tells.
    fn run_allowed(
        &self,
        subject: &dyn Subject<u64>,
        threads: usize,
        checks: u64,
        bursts: usize,
        number: u64,
    ) -> Vec<Burst> {
        let bursts = self.run(subject, threads, checks, bursts, number);
        let all = checks * (threads * bursts.len()) as u64;
        assert_eq!(bursts.iter().map(|burst| burst.sum).sum::<u64>(), all, "{}: checks were refused", self.name);
        bursts
    }

    /// Makes every client known, and live for long.
    fn known(&self, subject: impl Subject<u64> + 'static) -> Box<dyn Subject<u64>> {
        assert!((0..self.clients).all(|client| subject.check(&client)));
        Box::new(subject)
    }

    fn log(window: Duration) -> Limiter<SlidingLog> {
        Limiter::sliding_log(Quota::per(LOG_LIMIT, window)).build().expect("a limit and a window that fit")
    }

    /// Calls for so long as all threads would, at full speed.
    fn load(&self, limiter: &Limiter<SlidingLog>, threads: usize, time: Duration) {
        let start = Instant::now();
        let spread = Spread::Uniform(self.clients);
        let prepare = |thread| Keys::new(&spread, thread as u64);
        race::race(threads, 1, prepare, |keys| {
            while start.elapsed() < time {
                (0..64).for_each(|_| drop(limiter.check(&keys.number())));
            }
            0
        });
    }

    /// Events in a log, on an average.
    fn events(&self, limiter: &Limiter<SlidingLog>) -> f64 {
        let sample = self.clients.min(1_000);
        let used = |key: u64| LOG_LIMIT - limiter.peek(&key).remaining();
        (0..sample).map(used).sum::<u64>() as f64 / sample as f64
    }

    /// A window in which about 50 calls of each client come, with a limiter that has it.
    fn half_full(&self, threads: usize) -> (Limiter<SlidingLog>, Duration) {
        // A guess, as if a check took 400 ns. A log that is full says nothing about how far too long its window is, so from
        // there the window is halved.
        let mut window = Duration::from_nanos(LOG_EVENTS as u64 * self.clients * 400 / threads as u64);
        for _ in 0..self.form.of(3, 12, 12) {
            let limiter = Self::log(window);
            self.load(&limiter, threads, 3 * window);
            let events = self.events(&limiter);
            if (events - LOG_EVENTS).abs() < CLOSE {
                return (limiter, window);
            }
            window = window.mul_f64((LOG_EVENTS / events.max(1.0)).clamp(0.5, 2.0));
        }
        (Self::log(window), window)
    }

    /// The lower bound of a log, where its memory does not stay in the caches.
    fn bare(&self) -> Option<BareLog<{ LOG_EVENTS as usize }>> {
        (self.clients > FEW).then(|| BareLog::new(self.clients as usize))
    }

    fn measure(&self, progress: &Progress, draw: &mut Draw) -> Vec<Record> {
        let Limits { period, burst } = Limits::LIVE;
        // As many in a window as a bucket may give at once, and windows that do not end: all have the same to do.
        let windows = Quota::per(burst.into(), period);
        let bucket = Limiter::token_bucket(Quota::per(1, period).burst(burst.into())).build().expect("limits that fit");
        let fixed = Limiter::fixed_window(windows).build().expect("limits that fit");
        let counter = Limiter::sliding_counter(windows).build().expect("limits that fit");
        progress.detail(&format!("{}: fills the limiters", self.name));
        let mut numbers = vec![
            (TOKEN_BUCKET, self.known(Single(bucket))),
            (FIXED_WINDOW, self.known(Single(fixed))),
            (SLIDING_COUNTER, self.known(Single(counter))),
        ];
        numbers.extend(self.bare().map(|bare| (BARE_LOG, self.known(bare))));
        let mut records = Vec::new();
        for threads in [1, 2] {
            progress.step(&format!("{}, {}", self.name, output::threads(threads)));
            let (log, window) = match self.prefilled() {
                Some(log) => (log, Duration::ZERO),
                None => self.half_full(threads),
            };
            let events = RefCell::new(Vec::new());
            let numbers = numbers.iter().map(|(name, subject)| Entrant {
                name,
                run: Box::new(move |checks, bursts, number| {
                    self.run_allowed(&**subject, threads, checks, bursts, number)
                }),
                before: Box::new(|| {}),
                after: Box::new(|| {}),
            });
            let subject = Single(log.clone());
            let logs = Entrant {
                name: SLIDING_LOG,
                run: Box::new(|checks, bursts, number| self.run(&subject, threads, checks, bursts, number)),
                before: Box::new(|| self.load(&log, threads, 2 * window)),
                after: Box::new(|| events.borrow_mut().push(self.events(&log))),
            };
            let entrants = numbers.chain([logs]).collect();
            records.extend(interleave(&self.name, Pace::of(self.form, threads), entrants, progress, draw));
            records.push(Record::median(&self.name, threads, SLIDING_LOG, EVENTS, &mut events.take()));
        }
        records
    }

    /// Where there are many clients: a limiter whose logs are half full, and stay so.
    fn prefilled(&self) -> Option<Limiter<SlidingLog>> {
        (self.clients > FEW).then(|| {
            let log = Self::log(LONG);
            // One call of each client, that costs as many events.
            assert!((0..self.clients).all(|client| log.check_n(&client, LOG_EVENTS as u64).is_ok()));
            log
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(form) = Form::from_args() else { return Ok(()) };
    let progress = Progress::new("algorithms");
    let mut draw = Draw::unlike_before();
    let mut records = Vec::new();
    for clients in [FEW, MANY] {
        let bench = Bench { form, name: tables::algorithm_workload(clients), clients: form.clients(clients) };
        records.extend(bench.measure(&progress, &mut draw));
    }
    drop(progress);
    let records = Records(records);
    records.save(form, "algorithms")?;
    println!("{}", tables::algorithms(&records));
    Ok(())
}
