//! The workloads of the contention suite.

use super::form::Form;
use super::keys::{Key, Keys, Spread};
use super::limits::Limits;
use super::race::{self, Burst};
use super::rounds::Entrant;
use super::subject::{Contender, Subject};

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Nobody in particular: the subjects have no keys.
    Nobody,
    Uniform(u64),
    /// Zipf's distribution with an exponent of 0.99.
    Zipf(u64),
}

/// What the checks come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Allowed,
    Refused,
    /// Allowed, and every client has its whole limit again before its next check.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    pub clients: Clients,
    pub answer: Answer,
}

const MILLION: u64 = 1_000_000;

pub const GATE: Clients = Clients::Nobody;
pub const ONE: Clients = Clients::Uniform(1);
pub const THOUSAND: Clients = Clients::Uniform(1_000);
pub const ZIPF: Clients = Clients::Zipf(100_000);
pub const ONE_MILLION: Clients = Clients::Uniform(MILLION);
pub const EIGHT_MILLION: Clients = Clients::Uniform(8 * MILLION);

/// In the order of the reports.
pub const ALL: [Workload; 14] = {
    use Answer::{Allowed, Idle, Refused};
    [
        Workload { clients: ONE, answer: Allowed },
        Workload { clients: ONE, answer: Refused },
        Workload { clients: THOUSAND, answer: Allowed },
        Workload { clients: THOUSAND, answer: Refused },
        Workload { clients: THOUSAND, answer: Idle },
        Workload { clients: ZIPF, answer: Allowed },
        Workload { clients: ZIPF, answer: Refused },
        Workload { clients: ONE_MILLION, answer: Allowed },
        Workload { clients: ONE_MILLION, answer: Refused },
        Workload { clients: ONE_MILLION, answer: Idle },
        Workload { clients: EIGHT_MILLION, answer: Allowed },
        Workload { clients: EIGHT_MILLION, answer: Refused },
        Workload { clients: GATE, answer: Allowed },
        Workload { clients: GATE, answer: Refused },
    ]
};

impl Clients {
    pub fn name(self) -> String {
        match self {
            Self::Nobody => "gates".to_owned(),
            Self::Uniform(1) => "1 hot key".to_owned(),
            Self::Uniform(MILLION) => "1 million keys".to_owned(),
            Self::Uniform(clients) if clients % MILLION == 0 => format!("{} million keys", clients / MILLION),
            Self::Uniform(clients) => format!("{} keys", super::output::count(clients)),
            Self::Zipf(clients) => format!("Zipf 0.99 over {} keys", super::output::count(clients)),
        }
    }

    pub fn number(self) -> u64 {
        match self {
            Self::Nobody => 1,
            Self::Uniform(clients) | Self::Zipf(clients) => clients,
        }
    }
}

impl Answer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Allowed => "mostly allowed",
            Self::Refused => "mostly refused",
            Self::Idle => "always idle",
        }
    }
}

/// Fewer checks than this say nothing about how many are allowed.
const MANY: u64 = 100_000;

impl Workload {
    pub fn name(self) -> String {
        format!("{}, {}", self.clients.name(), self.answer.name())
    }

    fn limits(self) -> Limits {
        match (self.answer, self.clients.number()) {
            (Answer::Refused, _) => Limits::REFUSED,
            (Answer::Idle, _) => Limits::IDLE,
            (Answer::Allowed, 1) => Limits::ALONE,
            (Answer::Allowed, ..MILLION) => Limits::BUSY,
            (Answer::Allowed, _) => Limits::LIVE,
        }
    }

    /// Sets it up for these subjects.
    pub fn prepare<K: Key>(self, form: Form, contenders: &[Contender<K>], step: impl Fn(&str)) -> Prepared<K> {
        let clients = form.clients(self.clients.number());
        let spread = match self.clients {
            Clients::Nobody | Clients::Uniform(_) => Spread::Uniform(clients),
            Clients::Zipf(_) => Spread::zipf(clients as u32),
        };
        // As many checks of each as make it live for minutes, or refused.
        let checks =
            if (2..MILLION).contains(&self.clients.number()) && self.answer == Answer::Allowed { 10 } else { 1 };
        let prepare = |contender: &Contender<K>| {
            step(contender.name);
            let subject = (contender.make)(self.limits());
            for _ in 0..checks {
                for number in 0..clients {
                    assert!(subject.check(&K::of(number)), "{} refuses a first check", contender.name);
                }
            }
            (contender.name, subject)
        };
        Prepared { workload: self, spread, subjects: contenders.iter().map(prepare).collect() }
    }
}

/// Subjects that have seen every client before.
pub struct Prepared<K: Key> {
    workload: Workload,
    spread: Spread,
    pub subjects: Vec<(&'static str, Box<dyn Subject<K>>)>,
}

impl<K: Key> Prepared<K> {
    /// Lets every thread make `checks` checks a burst, of keys that another number makes others.
    pub fn run(&self, subject: &dyn Subject<K>, threads: usize, checks: u64, bursts: usize, number: u64) -> Vec<Burst> {
        let prepare = |thread| {
            let mut keys = Keys::new(&self.spread, number * threads as u64 + thread as u64);
            // What a thread has to set up on its first call is no part of a check.
            subject.run(&mut keys, 1);
            keys
        };
        let bursts = race::race(threads, bursts, prepare, |keys| subject.run(keys, checks));
        let all = checks * (threads * bursts.len()) as u64;
        let share = bursts.iter().map(|burst| burst.sum).sum::<u64>() as f64 / all as f64;
        let as_meant = match self.workload.answer {
            Answer::Allowed | Answer::Idle => share > 0.99,
            Answer::Refused => share < 0.01,
        };
        // Some crates cannot hold the limits as they are, and a fast one may use them up. Said, since its time is then
        // partly that of refusals.
        if all >= MANY && !as_meant {
            eprintln!("{}: of one subject, a share of {share:.2} was allowed", self.workload.name());
        }
        bursts
    }

    pub fn entrants(&self, threads: usize) -> Vec<Entrant<'_>> {
        self.subjects
            .iter()
            .map(|(name, subject)| Entrant {
                name,
                run: Box::new(move |checks, bursts, number| self.run(&**subject, threads, checks, bursts, number)),
                before: Box::new(|| {}),
                after: Box::new(|| {}),
            })
            .collect()
    }
}
