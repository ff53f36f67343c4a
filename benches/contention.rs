//! What one check costs, on 1 to 64 threads, beside other ways to have it.
//!
//! - `cargo bench --bench contention` measures one and two threads with criterion; a part of a name after it selects, as
//!   `'1,000 keys'`.
//! - `cargo bench --bench contention -- --ratios [--form short]` takes the subjects in turns, on all numbers of threads,
//!   and prints how many times tollgate's median the others' medians are.
//!
//! Every subject has the same limits, as far as it can, and draws its keys in the same way.

mod common;

use common::form::Form;
use common::keys::{Draw, Key};
use common::output::{self, Progress};
use common::records::{Record, Records};
use common::rounds::{Pace, interleave};
use common::subject::{self, Contender};
use common::tables;
use common::workload::{self, Answer, Clients, EIGHT_MILLION, GATE, ONE, ONE_MILLION, THOUSAND, Workload};
use criterion::{BenchmarkId, Criterion, SamplingMode};
use std::cell::LazyCell;
use std::error::Error;
use std::time::Duration;

const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

fn main() -> Result<(), Box<dyn Error>> {
    if !std::env::args().any(|arg| arg == "--ratios") {
        if std::env::args().any(|arg| arg == "--bench") {
            with_criterion();
        }
        return Ok(());
    }
    let Some(form) = Form::from_args() else { return Ok(()) };
    let progress = Progress::new("contention");
    let mut draw = Draw::unlike_before();
    let workloads: Vec<_> = workload::ALL.into_iter().map(|workload| (workload, threads(form, workload))).collect();
    let mut records = Vec::new();
    for (workload, threads) in workloads {
        records.extend(match workload.clients {
            Clients::Nobody => measure(form, workload, &threads, &direct(workload), &progress, &mut draw),
            _ => measure(form, workload, &threads, &entered(form, workload), &progress, &mut draw),
        });
    }
    drop(progress);
    let records = Records(records);
    records.save(form, "contention")?;
    println!("Medians of bursts in interleaved rounds: {}.", Pace::stated(form));
    println!("{}. {}\n{}\n", output::machine(), output::oversubscription(), subject::NOTES);
    println!("{}", tables::contention(&records));
    Ok(())
}

/// The numbers of threads on which a workload is measured: in the short form those that targets are set for.
fn threads(form: Form, workload: Workload) -> Vec<usize> {
    match (form, workload.clients, workload.answer) {
        (Form::Full, ..) => THREADS.to_vec(),
        (Form::Smoke, ..) => vec![1, 4],
        (Form::Short, ONE, Answer::Allowed | Answer::Refused) => vec![2, 16],
        (Form::Short, THOUSAND | ONE_MILLION | GATE, Answer::Allowed) => vec![1, 2],
        (Form::Short, EIGHT_MILLION, Answer::Allowed) => vec![1],
        (Form::Short, ..) => vec![],
    }
}

/// The subjects of a workload. In the short form only those of its targets where there are many clients, as it takes long
/// until all subjects know them.
fn entered(form: Form, workload: Workload) -> Vec<Contender<u64>> {
    let mut contenders = subject::keyed_in_loops();
    if workload.answer != Answer::Refused && workload.clients.number() <= THOUSAND.number() {
        contenders.extend(subject::bare_keyed());
    }
    if form == Form::Short && workload.clients.number() >= ONE_MILLION.number() {
        let targets = [subject::CHECK, subject::CHECK_MANY, subject::GOVERNOR];
        contenders.retain(|contender| targets.contains(&contender.name));
    }
    contenders
}

/// The subjects of a workload without clients.
fn direct(workload: Workload) -> Vec<Contender<()>> {
    let mut contenders = subject::direct();
    if workload.answer != Answer::Refused {
        contenders.extend(subject::bare_direct());
    }
    contenders
}

fn measure<K: Key>(
    form: Form,
    workload: Workload,
    threads: &[usize],
    contenders: &[Contender<K>],
    progress: &Progress,
    draw: &mut Draw,
) -> Vec<Record> {
    if threads.is_empty() {
        return Vec::new();
    }
    let name = workload.name();
    let prepared = workload.prepare(form, contenders, |subject| progress.detail(&format!("{name}: fills {subject}")));
    let mut records = Vec::new();
    for &threads in threads {
        progress.step(&format!("{name}, {}", output::threads(threads)));
        let pace = Pace::of(form, threads);
        records.extend(interleave(&name, pace, prepared.entrants(threads), progress, draw));
    }
    records
}

fn with_criterion() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    for workload in workload::ALL {
        match workload.clients {
            Clients::Nobody => group(&mut criterion, workload, &direct(workload)),
            _ => group::<u64>(&mut criterion, workload, &entered(Form::Full, workload)),
        }
    }
    criterion.final_summary();
}

fn group<K: Key>(criterion: &mut Criterion, workload: Workload, contenders: &[Contender<K>]) {
    for threads in [1, 2] {
        let mut group = criterion.benchmark_group(format!("{}, {}", workload.name(), output::threads(threads)));
        // Samples of equal length, and no longer than it takes to leave every client some of its burst.
        group.sampling_mode(SamplingMode::Flat).sample_size(20);
        group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
        for contender in contenders {
            let prepared = LazyCell::new(|| workload.prepare(Form::Full, &[*contender], |_| {}));
            let mut numbers = 0..;
            group.bench_function(BenchmarkId::from_parameter(contender.name), |bencher| {
                bencher.iter_custom(|checks| {
                    let number = numbers.next().expect("numbers do not end");
                    let (_, subject) = &prepared.subjects[0];
                    prepared.run(&**subject, threads, checks, 1, number)[0].time
                });
            });
        }
        group.finish();
    }
}
