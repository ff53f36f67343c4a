//! Time, cut into columns of one length for a chart.
//!
//! A column's length is a fraction of the period or a multiple of it, so no column lies in two windows unless it holds
//! whole ones.

use crate::time::Unit;

/// How many columns a period may have, the most first.
const PARTS: [u64; 19] = [1000, 500, 250, 200, 100, 60, 50, 40, 30, 24, 20, 12, 10, 8, 6, 5, 4, 2, 1];

pub struct Columns {
    /// When the first one starts.
    start: u64,
    /// How long each is.
    pub length: u64,
    pub count: u64,
    period: u64,
}

impl Columns {
    /// The shortest ones from the first instant to the last that `fit`. At some length there is only one.
    pub fn shortest((first, last): (u64, u64), period: u64, fit: impl Fn(&Self) -> bool) -> Self {
        let of = |length| {
            let start = first - first % length;
            Self { start, length, count: (last - start) / length + 1, period }
        };
        lengths(period).map(of).find(fit).unwrap_or_else(|| of(u64::MAX))
    }

    /// How many of the instants, which are none before the first column, lie in each.
    pub fn counts(&self, instants: &[u64]) -> Vec<usize> {
        let mut counts = vec![0; self.count as usize];
        for instant in instants {
            counts[((instant - self.start) / self.length) as usize] += 1;
        }
        counts
    }

    /// Columns in a window; 0 if a column holds several.
    pub fn in_a_window(&self) -> u64 {
        self.period / self.length
    }

    /// Whether a window starts with this column.
    pub fn starts_window(&self, column: u64) -> bool {
        (self.start + column * self.length).is_multiple_of(self.period)
    }

    /// Which window a column lies in.
    pub fn window(&self, column: u64) -> u64 {
        (self.start + column * self.length) / self.period
    }

    /// As many labels as have room, none in a unit above `longest`: the columns whose starts they name, the one after the
    /// last included. `room` tells how many columns a label takes.
    pub fn labels(&self, longest: u64, room: impl Fn(&str) -> u64) -> Vec<(u64, String)> {
        let steps = lengths(self.period).filter(|step| step.is_multiple_of(self.length));
        for step in steps {
            let unit = Unit::of_labels(step, self.period, longest);
            let every = step / self.length;
            let first = (self.start.next_multiple_of(step) - self.start) / self.length;
            let labels: Vec<_> = (first..=self.count)
                .step_by(usize::try_from(every).unwrap_or(usize::MAX))
                .map(|column| (column, unit.text(self.start + column * self.length)))
                .collect();
            if labels.len() < 2 {
                break;
            }
            if labels.iter().all(|(_, label)| room(label) <= every) {
                return labels;
            }
        }
        vec![(0, Unit::of_labels(self.length, self.period, longest).text(self.start))]
    }
}

/// The lengths that columns can have, the shortest first.
fn lengths(period: u64) -> impl Iterator<Item = u64> {
    let parts = PARTS.into_iter().filter(move |parts| period.is_multiple_of(*parts)).map(move |parts| period / parts);
    let tens = std::iter::successors(Some(1_u64), |ten| ten.checked_mul(10));
    let multiples = tens.flat_map(|ten| [Some(ten), ten.checked_mul(2), ten.checked_mul(5)]);
    parts.chain(multiples.skip(1).map_while(move |multiple| period.checked_mul(multiple?)))
}
