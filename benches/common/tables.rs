//! What the figures come to, as tables, and the names by which they are found.

use super::output::{self, Table, count, short, time};
use super::records::{Record, Records};
use super::rounds::{RATE, TIME, doubt};
use super::subject::{CHECK, GATE};
use std::fmt;

/// Tables, each under its title.
#[derive(Debug, Default)]
pub struct Tables(Vec<(String, Table)>);

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(title, table)| writeln!(f, "{title}:\n\n{table}"))
    }
}

impl Tables {
    pub fn markdown(&self) -> String {
        let tables: Vec<_> = self.0.iter().map(|(title, table)| format!("{title}:\n\n{}", table.markdown())).collect();
        tables.join("\n")
    }

    /// Rows by columns, and what stands where no figure was taken.
    fn add<R, C>(
        &mut self,
        title: String,
        rows: &[(String, R)],
        columns: &[(String, C)],
        cell: impl Fn(&R, &C) -> Option<String>,
    ) {
        let header = std::iter::once("").chain(columns.iter().map(|(name, _)| name.as_str()));
        let mut table = Table::new(header);
        for (name, row) in rows {
            let cells = columns.iter().map(|(_, column)| cell(row, column).unwrap_or_else(|| "-".to_owned()));
            table.row(std::iter::once(name.clone()).chain(cells).collect());
        }
        self.0.push((title, table));
    }
}

/// Names for rows or columns that are shown as they are found.
fn as_named<T: ToString>(values: Vec<T>) -> Vec<(String, T)> {
    values.into_iter().map(|value| (value.to_string(), value)).collect()
}

fn threads_of(records: &Records) -> Vec<(String, usize)> {
    let mut threads = records.each(|record| record.threads);
    threads.sort_unstable();
    threads.into_iter().map(|threads| (output::threads(threads), threads)).collect()
}

pub fn contention(records: &Records) -> Tables {
    let mut tables = Tables::default();
    for workload in records.each(|record| record.workload.clone()) {
        let records = records.of(&workload);
        let subjects = as_named(records.each(|record| record.subject.clone()));
        let threads = threads_of(&records);
        tables.add(format!("{workload}, million checks a second"), &subjects, &threads, |subject, &threads| {
            let record = records.find(&workload, threads, subject, RATE)?;
            Some(format!("{}{}", doubt(record), short(record.value)))
        });
        let title = format!("{workload}, nanoseconds of a processor per check (x: as a multiple of tollgate's)");
        tables.add(title, &subjects, &threads, |subject, &threads| {
            let record = records.find(&workload, threads, subject, TIME)?;
            let value = |subject| records.value(&workload, threads, subject, TIME);
            let ours = value(CHECK).or_else(|| value(GATE))?;
            Some(format!("{}{} x{:.2}", doubt(record), short(record.value), record.value / ours))
        });
    }
    tables
}

pub const HOT_WHILE_GROWING: &str = "hot clients while 8 million come";
pub const HOT_WHILE_SWEEPING: &str = "hot clients while 8 million idle ones are swept";
pub const NEW_CLIENTS: &str = "new clients, up to 8 million";
pub const MIGRATION_START: &str = "the new client that starts the largest migration";
pub const MIGRATION: &str = "new clients during the largest migration";
pub const EMPTY: &str = "empty operation";
pub const NOISE: &str = "noise, of as many calls as tollgate's";

pub const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("p99.999", 0.99999)];
pub const MAX: &str = "maximum";
pub const MAX_UNDISTURBED: &str = "maximum, not switched out";
pub const MAX_UNDISTURBED_BEST: &str = "the same in the best pass";

pub fn tails(records: &Records) -> Tables {
    let mut tables = Tables::default();
    for workload in records.each(|record| record.workload.clone()) {
        let records = records.of(&workload);
        let subjects = as_named(records.each(|record| record.subject.clone()));
        let mut columns: Vec<_> = records.each(|record| record.measure.clone());
        columns.insert(0, "calls".to_owned());
        tables.add(workload.clone(), &subjects, &as_named(columns), |subject, measure| match measure.as_str() {
            "calls" => Some(count(records.find(&workload, 2, subject, PERCENTILES[0].0)?.samples as u64)),
            measure => records.value(&workload, 2, subject, measure).map(time),
        });
    }
    tables
}

pub const GROWING: &str = "growing to 8 million clients";
pub const CHURNING: &str = "every client new, idle ones forgotten";
pub const PER_KEY: &str = "ns per new key";

pub fn churn(records: &Records) -> Tables {
    let mut tables = Tables::default();
    let subjects = as_named(records.each(|record| record.subject.clone()));
    let workloads = as_named(vec![GROWING, CHURNING]);
    let title = "Nanoseconds per new key (x: as a multiple of tollgate's)".to_owned();
    tables.add(title, &subjects, &workloads, |subject, workload| {
        let value = |subject| records.value(workload, 1, subject, PER_KEY);
        let (value, ours) = (value(subject)?, value(CHECK)?);
        Some(format!("{} x{:.2}", short(value), value / ours))
    });
    tables
}

pub const RESIDENT: &str = "resident bytes per client";
pub const PEAK: &str = "peak bytes per client";
pub const REPORTED: &str = "bytes per client, as it says itself";
pub const FLOOD: &str = "flood of clients that come once";
pub const FLOOD_MAX_KEYS: &str = "tollgate, max_keys of 1 million";
pub const FLOOD_SWEPT: &str = "governor, retain_recent after each million";
pub const FLOOD_UNSWEPT: &str = "governor, never swept";

/// The measure of memory after so many millions of clients.
pub fn after_millions(millions: u64) -> String {
    format!("MiB after {millions} million")
}

/// The name of a case of memory.
pub fn memory_workload(clients: u64, keys: &str) -> String {
    format!("{} {keys}", count(clients))
}

pub const U64_KEYS: &str = "u64 keys";
pub const IP_KEYS: &str = "IpAddr keys";
pub const STRING_KEYS: &str = "keys of 24 bytes";

pub fn memory(records: &Records) -> Tables {
    let mut tables = Tables::default();
    for keys in [U64_KEYS, IP_KEYS, STRING_KEYS] {
        let records = Records(records.0.iter().filter(|record| record.workload.ends_with(keys)).cloned().collect());
        let mut columns = Vec::new();
        for workload in records.each(|record| record.workload.clone()) {
            let clients = workload.trim_end_matches(keys).trim_end().to_owned();
            columns.extend(
                [("resident", RESIDENT), ("peak", PEAK)]
                    .map(|(name, measure)| (format!("{clients}, {name}"), (workload.clone(), measure))),
            );
        }
        let subjects = as_named(records.each(|record| record.subject.clone()));
        tables.add(format!("Bytes per client, {keys}"), &subjects, &columns, |subject, (workload, measure)| {
            records.value(workload, 1, subject, measure).map(|bytes| format!("{bytes:.1}"))
        });
    }
    let flood = records.of(FLOOD);
    if !flood.0.is_empty() {
        let subjects = as_named(flood.each(|record| record.subject.clone()));
        let columns: Vec<_> = (1..=10).map(|million| (format!("{million} million"), after_millions(million))).collect();
        tables.add(format!("MiB in a {FLOOD}, after"), &subjects, &columns, |subject, measure| {
            flood.value(FLOOD, 1, subject, measure).map(|size| format!("{size:.0}"))
        });
    }
    tables
}

pub const TOKEN_BUCKET: &str = "token bucket";
pub const FIXED_WINDOW: &str = "fixed window";
pub const SLIDING_COUNTER: &str = "sliding counter";
pub const SLIDING_LOG: &str = "sliding log";
pub const EVENTS: &str = "events in a log";
/// The lower bound of the last.
pub const BARE_LOG: &str = "bare: a check, a log copied";

pub fn algorithm_workload(clients: u64) -> String {
    format!("{} keys", count(clients))
}

pub fn algorithms(records: &Records) -> Tables {
    let mut tables = Tables::default();
    let mut columns = Vec::new();
    for workload in records.each(|record| record.workload.clone()) {
        for (threads, number) in threads_of(records) {
            columns.push((format!("{workload}, {threads}"), (workload.clone(), number)));
        }
    }
    let mut algorithms = as_named(records.each(|record| record.subject.clone()));
    algorithms.push((EVENTS.to_owned(), EVENTS.to_owned()));
    let title = "Nanoseconds per check (x: as a multiple of the token bucket's)".to_owned();
    tables.add(title, &algorithms, &columns, |algorithm, (workload, threads)| {
        if algorithm == EVENTS {
            return records.value(workload, *threads, SLIDING_LOG, EVENTS).map(short);
        }
        let find = |subject| -> Option<&Record> { records.find(workload, *threads, subject, TIME) };
        let (record, bucket) = (find(algorithm)?, find(TOKEN_BUCKET)?);
        Some(format!("{}{} x{:.2}", doubt(record), short(record.value), record.value / bucket.value))
    });
    tables
}
