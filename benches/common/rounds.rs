//! Subjects that take turns, so that what slows the machine down for long falls on all of them.
//!
//! In each round every subject has a turn, in a new random order, and a turn consists of short bursts. Those in which a
//! thread lost its processor to another program are left out, since two threads of which one waits for a processor do not
//! get into each other's way. With more threads than processors all of them wait: there bursts are longer, and all count.

use super::form::Form;
use super::keys::Draw;
use super::output::{self, Progress};
use super::race::{Burst, cores};
use super::records::Record;
use std::time::Duration;

/// How much is measured of each subject.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    threads: usize,
    pub rounds: u64,
    /// What a burst takes of each thread's time on a processor, about.
    burst: Duration,
    /// So many bursts at a time, until enough of them were undisturbed or patience is at an end.
    bursts: usize,
    calm_a_turn: usize,
    bursts_a_turn: usize,
}

/// With fewer undisturbed bursts in all rounds, the others count too.
const ENOUGH: usize = 10;

impl Pace {
    pub fn of(form: Form, threads: usize) -> Self {
        if threads > cores() {
            // Longer than a time slice, so that threads do stop in the middle of things.
            let burst = Duration::from_millis(form.of(1, 8, 10));
            Self { threads, rounds: form.of(1, 5, 5), burst, bursts: 1, calm_a_turn: 1, bursts_a_turn: 1 }
        } else {
            // A system lets a thread that has just woken up run for some milliseconds before it gives its processor away.
            let burst = Duration::from_millis(2);
            let (bursts, calm_a_turn, bursts_a_turn) = form.of((2, 2, 2), (16, 16, 32), (16, 24, 48));
            Self { threads, rounds: form.of(2, 7, 11), burst, bursts, calm_a_turn, bursts_a_turn }
        }
    }

    /// The numbers of rounds, in words.
    pub fn stated(form: Form) -> String {
        let [calm, crowded] = [cores(), cores() + 1].map(|threads| Self::of(form, threads).rounds);
        format!("{calm} rounds of short bursts, {crowded} with more threads than processors")
    }

    /// Processors that the threads have, together.
    fn processors(self) -> usize {
        self.threads.min(cores())
    }

    /// How many checks a thread makes in a burst of the wanted length, when nothing disturbs it.
    fn checks(self, run: impl Fn(u64, usize) -> Vec<Burst>) -> u64 {
        let wanted = self.burst * (self.threads / self.processors()) as u32;
        let mut checks = 1 << 8;
        loop {
            let bursts = run(checks, self.bursts.min(8));
            let took = bursts.iter().map(|burst| burst.time).min().expect("at least one burst");
            if took * 4 >= wanted {
                return ((checks as f64 * wanted.as_secs_f64() / took.as_secs_f64()) as u64).max(1);
            }
            checks *= 2;
        }
    }
}

/// A subject in its turns.
pub struct Entrant<'a> {
    pub name: &'static str,
    /// Lets each thread make so many checks in each of so many bursts. Another number draws other keys: else a slow
    /// subject, which does not come far, would soon have all of its own in the cache.
    pub run: Box<dyn Fn(u64, usize, u64) -> Vec<Burst> + 'a>,
    /// What is done before a turn, and is no part of it.
    pub before: Box<dyn Fn() + 'a>,
    pub after: Box<dyn Fn() + 'a>,
}

/// Lets all take turns. Of each comes its time per check: of all processors that the threads have, in nanoseconds.
pub fn interleave(
    workload: &str,
    pace: Pace,
    entrants: Vec<Entrant<'_>>,
    progress: &Progress,
    draw: &mut Draw,
) -> Vec<Record> {
    struct Turns<'a> {
        place: usize,
        entrant: Entrant<'a>,
        checks: u64,
        bursts: Vec<Burst>,
    }
    let mut all: Vec<_> = entrants
        .into_iter()
        .enumerate()
        .map(|(place, entrant)| {
            (entrant.before)();
            let checks = pace.checks(|checks, bursts| (entrant.run)(checks, bursts, 0));
            Turns { place, entrant, checks, bursts: Vec::new() }
        })
        .collect();
    for round in 1..=pace.rounds {
        progress.detail(&format!("{workload}, {}, round {round} of {}", output::threads(pace.threads), pace.rounds));
        draw.shuffle(&mut all);
        for Turns { entrant, checks, bursts, .. } in &mut all {
            (entrant.before)();
            let (mut made, mut calm) = (0, 0);
            while calm < pace.calm_a_turn && made < pace.bursts_a_turn {
                let more = (entrant.run)(*checks, pace.bursts, round * pace.bursts_a_turn as u64 + made as u64);
                calm += more.iter().filter(|burst| burst.calm).count();
                made += more.len();
                bursts.extend(more);
            }
            (entrant.after)();
        }
    }
    all.sort_unstable_by_key(|turns| turns.place);
    all.iter().flat_map(|turns| records(workload, pace, turns.entrant.name, &turns.bursts, turns.checks)).collect()
}

pub const TIME: &str = "ns per check";
pub const RATE: &str = "million checks/s";

fn records(workload: &str, pace: Pace, name: &str, bursts: &[Burst], checks: u64) -> [Record; 2] {
    let calm = bursts.iter().filter(|burst| burst.calm).count();
    let in_doubt = pace.threads <= cores() && calm < ENOUGH;
    let counts = |burst: &&Burst| burst.calm || pace.threads > cores() || in_doubt;
    let processors = pace.processors() as f64;
    let each = processors / (pace.threads as f64 * checks as f64);
    let mut times: Vec<_> = bursts.iter().filter(counts).map(|burst| burst.time.as_secs_f64() * 1e9 * each).collect();
    let mut rates: Vec<_> = times.iter().map(|time| processors * 1e3 / time).collect();
    let calm = if in_doubt { 0 } else { 100 * calm / bursts.len() };
    [(TIME, &mut times), (RATE, &mut rates)].map(|(measure, values)| {
        let record = Record::median(workload, pace.threads, name, measure, values);
        Record { calm, ..record }
    })
}

/// A mark for figures of which hardly a burst was undisturbed, so that all had to count.
pub fn doubt(record: &Record) -> &'static str {
    if record.threads <= cores() && record.calm == 0 { "~" } else { "" }
}
