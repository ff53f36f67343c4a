//! What new clients cost: `cargo bench --bench churn`.
//!
//! - *growing*: each subject is filled from empty to 8 million live clients;
//! - *churning*: every call is a new client's, and those of before become idle and are forgotten all the time. tollgate does
//!   so by itself. The others are told to whenever as many clients have come as were left the last time, which bounds
//!   their memory by a factor as tollgate's is, and makes a sweep cost as little per client as it can.
//!
//! The subjects take turns in random order. Time is that of the calls, sweeps included, and not of dropping the subject.

mod common;

use common::form::Form;
use common::keys::Draw;
use common::limits::Limits;
use common::output::Progress;
use common::race;
use common::records::{Record, Records};
use common::subject::{self, CHECK, Contender, GOVERNOR, Subject};
use common::tables::{self, CHURNING, GROWING, PER_KEY};
use std::error::Error;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 8_000_000;

/// How long a client is live while clients churn.
const LIVE_FOR: Duration = Duration::from_millis(50);

/// A subject that is told to forget is told so not before so many new clients.
const SWEEP_AFTER: usize = 100_000;

fn contenders(form: Form, workload: &str) -> Vec<Contender<u64>> {
    let mut contenders = subject::keyed();
    contenders.retain(|contender| form != Form::Short || [CHECK, GOVERNOR].contains(&contender.name));
    if workload == GROWING {
        contenders.push(subject::bare_growth());
    }
    contenders
}

/// Time per new client, in nanoseconds.
fn grow(subject: &dyn Subject<u64>, clients: u64) -> f64 {
    let start = Instant::now();
    for number in 0..clients {
        assert!(subject.check(&number), "the first check of a client was refused");
    }
    start.elapsed().as_secs_f64() * 1e9 / clients as f64
}

/// The same, once as many clients come as are forgotten.
fn churn(subject: &dyn Subject<u64>, clients: u64, forgets_by_itself: bool) -> f64 {
    let mut until_sweep = SWEEP_AFTER;
    let mut call = |number| {
        assert!(subject.check(&number), "the first check of a client was refused");
        until_sweep -= 1;
        if until_sweep == 0 {
            if !forgets_by_itself {
                subject.sweep();
            }
            until_sweep = SWEEP_AFTER.max(subject.len());
        }
    };
    let settled = clients / 2;
    (0..settled).for_each(&mut call);
    let start = Instant::now();
    (settled..settled + clients).for_each(&mut call);
    start.elapsed().as_secs_f64() * 1e9 / clients as f64
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(form) = Form::from_args() else { return Ok(()) };
    let (clients, rounds) = (form.clients(CLIENTS), form.of(2, 3, 3));
    let progress = Progress::new("churn");
    let mut draw = Draw::unlike_before();
    let mut records = Vec::new();
    for workload in [GROWING, CHURNING] {
        let contenders = contenders(form, workload);
        let mut turns: Vec<_> = (0..contenders.len()).map(|place| (place, Vec::new(), 0)).collect();
        for round in 1..=rounds {
            progress.step(&format!("{workload}, round {round} of {rounds}"));
            draw.shuffle(&mut turns);
            for (place, times, calm) in &mut turns {
                let Contender { name, make } = contenders[*place];
                progress.detail(&format!("{workload}, round {round} of {rounds}: {name}"));
                let before = race::switches();
                times.push(match workload {
                    GROWING => grow(&*make(Limits::LIVE), clients),
                    _ => churn(&*make(Limits::every(LIVE_FOR)), clients, name == CHECK),
                });
                *calm += usize::from(race::switches() == before);
            }
        }
        turns.sort_unstable_by_key(|(place, ..)| *place);
        for (place, mut times, calm) in turns {
            let record = Record::median(workload, 1, contenders[place].name, PER_KEY, &mut times);
            records.push(Record { calm: 100 * calm / times.len(), ..record });
        }
    }
    drop(progress);
    let records = Records(records);
    records.save(form, "churn")?;
    println!("{}", tables::churn(&records));
    Ok(())
}
