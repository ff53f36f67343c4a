//! What is to be reached, as data, and how it is compared with the figures.

use crate::common::output::{short, threads, time};
use crate::common::records::Records;
use crate::common::rounds::{TIME, doubt};
use crate::common::subject::{
    BARE_CHECK, CHECK, CHECK_MANY, GATE, GOVERNOR, GOVERNOR_DIRECT, MUTEX, RATELIMIT, RATELOCK, SESSION, bare, is_bare,
    is_ours,
};
use crate::common::tables::*;
use crate::common::workload::{Answer, Clients, EIGHT_MILLION, ONE, ONE_MILLION, THOUSAND, Workload};

/// The figures of all questions.
pub struct Figures {
    pub contention: Records,
    pub tails: Records,
    pub churn: Records,
    pub memory: Records,
    pub algorithms: Records,
}

/// A line of the table of targets.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub workload: String,
    pub against: String,
    pub wanted: String,
    pub measured: String,
    /// Nothing if it was not measured.
    pub met: Option<bool>,
}

impl Outcome {
    pub fn verdict(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not measured",
        }
    }

    /// Where the target is missed, with the ratio beside it that the bare parts of a check would have.
    fn beside(mut self, bare: Option<f64>) -> Self {
        if let (Some(false), Some(bare)) = (self.met, bare) {
            self.measured += &format!(" (bare: {bare:.2})");
        }
        self
    }
}

/// How many times longer others take than this crate's, on one workload of the contention suite.
struct Faster {
    clients: Clients,
    answer: Answer,
    threads: usize,
    ours: &'static str,
    theirs: &'static str,
    least: f64,
}

const fn faster(
    (clients, answer): (Clients, Answer),
    threads: usize,
    ours: &'static str,
    theirs: &'static str,
    least: f64,
) -> Faster {
    Faster { clients, answer, threads, ours, theirs, least }
}

const ALLOWED: Answer = Answer::Allowed;
const REFUSED: Answer = Answer::Refused;
const GATES: Clients = crate::common::workload::GATE;

const FASTER: [Faster; 22] = [
    faster((THOUSAND, ALLOWED), 1, CHECK, GOVERNOR, 1.35),
    faster((THOUSAND, ALLOWED), 1, SESSION, GOVERNOR, 1.7),
    faster((THOUSAND, ALLOWED), 1, CHECK_MANY, GOVERNOR, 4.5),
    faster((THOUSAND, ALLOWED), 2, CHECK, GOVERNOR, 1.9),
    faster((ONE, ALLOWED), 2, CHECK, GOVERNOR, 2.0),
    faster((ONE, ALLOWED), 16, CHECK, GOVERNOR, 2.0),
    faster((ONE, ALLOWED), 2, CHECK, MUTEX, 3.0),
    faster((ONE, ALLOWED), 16, CHECK, MUTEX, 3.0),
    faster((ONE, REFUSED), 2, CHECK, GOVERNOR, 3.0),
    faster((ONE, REFUSED), 16, CHECK, GOVERNOR, 3.0),
    faster((ONE, REFUSED), 2, CHECK, MUTEX, 8.0),
    faster((ONE, REFUSED), 16, CHECK, MUTEX, 8.0),
    faster((ONE_MILLION, ALLOWED), 1, CHECK, GOVERNOR, 2.3),
    faster((ONE_MILLION, ALLOWED), 2, CHECK, GOVERNOR, 2.6),
    faster((EIGHT_MILLION, ALLOWED), 1, CHECK, GOVERNOR, 2.5),
    faster((EIGHT_MILLION, ALLOWED), 1, CHECK_MANY, GOVERNOR, 10.0),
    faster((GATES, ALLOWED), 1, GATE, GOVERNOR_DIRECT, 1.0),
    faster((GATES, ALLOWED), 2, GATE, GOVERNOR_DIRECT, 1.0),
    faster((GATES, ALLOWED), 1, GATE, RATELIMIT, 1.2),
    faster((GATES, ALLOWED), 2, GATE, RATELIMIT, 1.2),
    faster((GATES, ALLOWED), 1, GATE, RATELOCK, 1.3),
    faster((GATES, ALLOWED), 2, GATE, RATELOCK, 1.3),
];

/// How many times more one client takes at governor.
const SMALLER: [(&str, f64); 3] = [(U64_KEYS, 1.0), (IP_KEYS, 1.4), (STRING_KEYS, 2.2)];
const MANY_CLIENTS: u64 = 8_000_000;

const GROWTH: f64 = 2.0;

const SHORTER: f64 = 10.0;
const P99_999: (&str, f64) = ("p99.999", 50_000.0);

const NOWHERE: f64 = 0.9;

/// How many times longer than a token bucket's another algorithm's check may take, and at how many clients.
const ALGORITHMS: [(&str, &[u64], f64); 3] = [
    (FIXED_WINDOW, &[1_000, 1_000_000], 1.15),
    (SLIDING_COUNTER, &[1_000, 1_000_000], 1.15),
    (SLIDING_LOG, &[1_000, 1_000_000], 4.0),
];

/// Logs that hold another number of events are not what was to be measured.
const HALF_FULL: std::ops::RangeInclusive<f64> = 40.0..=60.0;

/// All of them.
pub fn outcomes(figures: &Figures) -> Vec<Outcome> {
    let mut all: Vec<_> = FASTER.iter().map(|target| target.compare(&figures.contention)).collect();
    all.push(growth(&figures.churn));
    all.extend([HOT_WHILE_GROWING, HOT_WHILE_SWEEPING].iter().flat_map(|workload| tails(&figures.tails, workload)));
    all.extend(SMALLER.iter().map(|&(keys, least)| bytes(&figures.memory, keys, least)));
    for (algorithm, clients, most) in ALGORITHMS {
        for &clients in clients {
            all.extend([1, 2].map(|threads| cost(&figures.algorithms, algorithm, clients, threads, most)));
        }
    }
    all.push(nowhere_slower(figures));
    all
}

fn with_threads(workload: &str, number: usize) -> String {
    format!("{workload}, {}", threads(number))
}

fn at_least(workload: String, against: String, least: f64, ratio: Option<(f64, &str)>) -> Outcome {
    Outcome {
        workload,
        against,
        wanted: format!("{least}"),
        measured: ratio.map_or("-".to_owned(), |(ratio, doubt)| format!("{doubt}{ratio:.2}")),
        met: ratio.map(|(ratio, _)| ratio >= least),
    }
}

impl Faster {
    fn compare(&self, records: &Records) -> Outcome {
        let workload = Workload { clients: self.clients, answer: self.answer }.name();
        let find = |subject| records.find(&workload, self.threads, subject, TIME);
        let ratio = find(self.ours).zip(find(self.theirs)).map(|(ours, theirs)| {
            let doubt = [doubt(ours), doubt(theirs)].concat();
            (theirs.value / ours.value, if doubt.is_empty() { "" } else { "~" })
        });
        let workload = format!("{}: {}", with_threads(&workload, self.threads), self.ours);
        let outcome = at_least(workload, self.theirs.to_owned(), self.least, ratio);
        outcome.beside(
            bare(self.ours).and_then(find).zip(find(self.theirs)).map(|(bare, theirs)| theirs.value / bare.value),
        )
    }
}

fn growth(records: &Records) -> Outcome {
    let value = |subject| records.value(GROWING, 1, subject, PER_KEY);
    let ratio = value(CHECK).zip(value(GOVERNOR)).map(|(ours, theirs)| (theirs / ours, ""));
    let bare = value(BARE_CHECK).zip(value(GOVERNOR)).map(|(bare, theirs)| theirs / bare);
    at_least(format!("new key, {GROWING}"), GOVERNOR.to_owned(), GROWTH, ratio).beside(bare)
}

fn tails(records: &Records, workload: &str) -> [Outcome; 2] {
    let value = |subject, measure| records.value(workload, 2, subject, measure);
    let longest = value(CHECK, MAX).zip(value(GOVERNOR, MAX)).zip(value(EMPTY, MAX));
    let (percentile, most) = P99_999;
    let ours = value(CHECK, percentile);
    let measured = ours.zip(value(NOISE, percentile)).map(|(ours, noise)| match ours < most {
        true => time(ours),
        false => format!("{} (noise: {})", time(ours), time(noise)),
    });
    let outcome = |what: &str, against: &str, wanted: String, measured: Option<String>, met| Outcome {
        workload: format!("{workload}: {what}"),
        against: against.to_owned(),
        wanted,
        measured: measured.unwrap_or_else(|| "-".to_owned()),
        met,
    };
    [
        outcome(
            "worst check",
            "governor; or noise",
            format!("{SHORTER}; or 1"),
            longest.map(|((ours, theirs), noise)| format!("{:.2}; {:.2}", theirs / ours, noise / ours)),
            longest.map(|((ours, theirs), noise)| theirs / ours >= SHORTER || ours <= noise),
        ),
        outcome(percentile, "", format!("under {}", time(most)), measured, ours.map(|ours| ours < most)),
    ]
}

fn bytes(records: &Records, keys: &str, least: f64) -> Outcome {
    let workload = memory_workload(MANY_CLIENTS, keys);
    let value = |subject| records.value(&workload, 1, subject, RESIDENT);
    let ratio = value(CHECK).zip(value(GOVERNOR)).map(|(ours, theirs)| (theirs / ours, ""));
    at_least(format!("bytes per client, {workload}"), GOVERNOR.to_owned(), least, ratio)
}

fn cost(records: &Records, algorithm: &str, clients: u64, threads: usize, most: f64) -> Outcome {
    let name = algorithm_workload(clients);
    let find = |subject| records.find(&name, threads, subject, TIME);
    let events = records.value(&name, threads, algorithm, EVENTS);
    let ratio = find(algorithm).zip(find(TOKEN_BUCKET));
    let bare = find(BARE_LOG).zip(find(TOKEN_BUCKET)).filter(|_| algorithm == SLIDING_LOG);
    let measured = ratio.map(|(ours, bucket)| {
        let doubt = [doubt(ours), doubt(bucket)].concat();
        let doubt = if doubt.is_empty() { "" } else { "~" };
        let events = events.map_or(String::new(), |events| format!(" with {} events", short(events)));
        format!("{doubt}{:.2}{events}", ours.value / bucket.value)
    });
    Outcome {
        workload: format!("{}: {algorithm}", with_threads(&name, threads)),
        against: format!("{TOKEN_BUCKET}, times its time"),
        wanted: format!("at most {most}"),
        measured: measured.unwrap_or_else(|| "-".to_owned()),
        met: ratio
            .filter(|_| events.is_none_or(|events| HALF_FULL.contains(&events)))
            .map(|(ours, bucket)| ours.value <= most * bucket.value),
    }
    .beside(bare.map(|(bare, bucket)| bare.value / bucket.value))
}

/// A workload, and how many times longer than this crate's check, or gate, one of the others takes there.
struct Worst {
    place: String,
    ratio: f64,
}

fn is_peer(subject: &str) -> bool {
    !is_ours(subject) && !is_bare(subject)
}

/// Everywhere where times are taken, the ones nearest to being faster first.
fn all_ratios(figures: &Figures) -> Vec<Worst> {
    let mut all = Vec::new();
    for (records, measure) in [(&figures.contention, TIME), (&figures.churn, PER_KEY)] {
        for record in &records.0 {
            let value = |subject| records.value(&record.workload, record.threads, subject, measure);
            let ours = value(CHECK).or_else(|| value(GATE));
            if let Some(ours) = ours.filter(|_| record.measure == measure && is_peer(&record.subject)) {
                let place = format!("{}: {}", with_threads(&record.workload, record.threads), record.subject);
                all.push(Worst { place, ratio: record.value / ours });
            }
        }
    }
    all.sort_unstable_by(|one, other| one.ratio.total_cmp(&other.ratio));
    all
}

fn nowhere_slower(figures: &Figures) -> Outcome {
    let worst = all_ratios(figures).into_iter().next();
    let place = worst.as_ref().map_or(String::new(), |worst| format!(" (worst: {})", worst.place));
    let ratio = worst.map(|worst| (worst.ratio, ""));
    at_least(format!("every workload{place}"), "each subject".to_owned(), NOWHERE, ratio)
}

/// Where others are faster by more than is to be allowed, and how many times longer they take.
pub fn slower(figures: &Figures) -> Vec<(String, f64)> {
    let all = all_ratios(figures).into_iter();
    all.filter(|worst| worst.ratio < NOWHERE).map(|worst| (worst.place, worst.ratio)).collect()
}
