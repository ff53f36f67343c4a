//! Puts the figures of the other parts together: `benches/run` runs it last.
//!
//! It prints the table of targets. After a full run it also writes the charts to `docs/benchmarks`, and the tables to their
//! places in `docs/benchmarks.md` and `README.md`; after a smoke run it does so with copies, beside the figures.

#[path = "../common/mod.rs"]
mod common;

mod charts;
mod document;
mod targets;

use common::form::Form;
use common::output::{Table, escaped, machine, oversubscription};
use common::records::Records;
use common::rounds::Pace;
use common::subject::NOTES;
use common::tables;
use std::error::Error;
use std::fs;
use std::path::Path;
use targets::{Figures, Outcome};

fn main() -> Result<(), Box<dyn Error>> {
    let Some(form) = Form::from_args() else { return Ok(()) };
    let load = |question| Records::load(form, question);
    let figures = Figures {
        contention: load("contention")?,
        tails: load("tails")?,
        churn: load("churn")?,
        memory: load("memory")?,
        algorithms: load("algorithms")?,
    };
    let outcomes = targets::outcomes(&figures);
    println!("{}\n", about(form));
    println!("{}", targets_table(&outcomes));
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    match form {
        Form::Short => {}
        Form::Full => write(&figures, &outcomes, form, repository)?,
        Form::Smoke => {
            let copies = form.directory();
            fs::create_dir_all(copies.join("docs"))?;
            for document in ["README.md", "docs/benchmarks.md"] {
                fs::copy(repository.join(document), copies.join(document))?;
            }
            write(&figures, &outcomes, form, &copies)?;
            println!("A smoke run: its figures mean nothing. Documents and charts: {}", copies.display());
        }
    }
    Ok(())
}

/// What the table of targets is to be read with.
fn about(form: Form) -> String {
    format!(
        "Ratios of medians, of subjects that took turns in random order: {}. {}. {} {} ~ marks what was hardly ever \
         undisturbed.",
        Pace::stated(form),
        machine(),
        oversubscription(),
        NOTES
    )
}

fn targets_table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(["workload", "against", "at least", "measured", "target"]);
    for outcome in outcomes {
        table.row(vec![
            outcome.workload.clone(),
            outcome.against.clone(),
            outcome.wanted.clone(),
            outcome.measured.clone(),
            outcome.verdict().to_owned(),
        ]);
    }
    table
}

/// Writes charts and tables, below `root`.
fn write(figures: &Figures, outcomes: &[Outcome], form: Form, root: &Path) -> Result<(), Box<dyn Error>> {
    let directory = root.join("docs/benchmarks");
    fs::create_dir_all(&directory)?;
    let throughput = charts::throughput(&figures.contention, &directory)?;
    charts::tails(&figures.tails, &directory.join("tails.svg"))?;
    charts::bytes(&figures.memory, &directory.join("bytes.svg"))?;
    charts::flood(&figures.memory, &directory.join("flood.svg"))?;

    let targets = targets_table(outcomes).markdown();
    let image = |file: &str, what: &str, from: &str| format!("![{what}]({from}{file})\n");
    let charts: Vec<_> = throughput
        .iter()
        .map(|(file, what)| image(file, &format!("Throughput against threads: {what}"), "benchmarks/"))
        .collect();
    let slower = match targets::slower(figures) {
        none if none.is_empty() => "None.".to_owned(),
        some => {
            some.iter().map(|(place, ratio)| escaped(&format!("- {place}: {ratio:.2}"))).collect::<Vec<_>>().join("\n")
        }
    };
    let parts = [
        ("machine", escaped(&about(form))),
        ("targets", targets.clone()),
        ("slower", slower),
        ("throughput charts", charts.join("\n")),
        ("contention", tables::contention(&figures.contention).markdown()),
        ("tails", tables::tails(&figures.tails).markdown()),
        ("churn", tables::churn(&figures.churn).markdown()),
        ("memory", tables::memory(&figures.memory).markdown()),
        ("algorithms", tables::algorithms(&figures.algorithms).markdown()),
    ];
    rewrite(&root.join("docs/benchmarks.md"), &parts)?;
    let chart = image(charts::README_CHART, "Throughput against threads, 1,000 keys", "docs/benchmarks/");
    rewrite(&root.join("README.md"), &[("benchmarks", format!("{}\n\n{chart}\n{targets}", escaped(&about(form))))])
}

fn rewrite(path: &Path, parts: &[(&str, String)]) -> Result<(), Box<dyn Error>> {
    let mut text = fs::read_to_string(path)?;
    for (name, content) in parts {
        text = document::fill(&text, name, content).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    fs::write(path, text)?;
    eprintln!("{} is written", path.display());
    Ok(())
}
