//! The comparison as text, in 80 columns of a terminal, and without colour.

use crate::columns::Columns;
use crate::comparison::Comparison;
use crate::time;
use std::fmt::Write;

/// Characters before the first column: a name, a sign, spaces.
const MARGIN: usize = 18;

/// Characters of a line, at most.
const WIDTH: usize = 80;

/// Where columns lie in a line.
struct Grid {
    columns: Columns,
    /// Characters of a column: the digits of the largest number and, if it has several, a space before it.
    cell: usize,
    /// Whether windows are wide enough to tell apart.
    bars: bool,
}

impl Grid {
    /// The finest that has room.
    fn new(comparison: &Comparison) -> Self {
        let of = |columns: &Columns| {
            let most = comparison.outcomes.iter().flat_map(|outcome| [&outcome.admitted, &outcome.refused]);
            let most = most.filter_map(|instants| columns.counts(instants).into_iter().max()).max().unwrap_or(0);
            let digits = most.to_string().len();
            (if digits == 1 { 1 } else { digits + 1 }, columns.in_a_window() >= 4)
        };
        let fits = |columns: &Columns| {
            columns.count <= WIDTH as u64 && {
                let (cell, bars) = of(columns);
                let bars = (0..=columns.count).filter(|&column| bars && columns.starts_window(column)).count();
                MARGIN + columns.count as usize * cell + bars <= WIDTH
            }
        };
        let columns = Columns::shortest(comparison.traffic.shown, comparison.period, fits);
        let (cell, bars) = of(&columns);
        Self { columns, cell, bars }
    }

    fn bar(&self, column: u64) -> &'static str {
        if self.bars && self.columns.starts_window(column) { "|" } else { "" }
    }

    /// A line of columns.
    fn line(&self, cell: impl Fn(u64) -> String) -> String {
        let mut line = String::new();
        for column in 0..self.columns.count {
            line += self.bar(column);
            line += &cell(column);
        }
        line + self.bar(self.columns.count)
    }

    fn counts(&self, instants: &[u64]) -> String {
        let counts = self.columns.counts(instants);
        self.line(|column| match counts[column as usize] {
            0 => format!("{:>1$}", ".", self.cell),
            count => format!("{count:>0$}", self.cell),
        })
    }

    /// The line of labels, each above where its column begins.
    fn labels(&self, unit: u64) -> String {
        let labels = self.columns.labels(unit, |label| (label.len() + 2).div_ceil(self.cell) as u64);
        let mut line = String::new();
        for (column, label) in labels {
            let bars = (0..column).map(|column| self.bar(column).len()).sum::<usize>();
            let at = bars + column as usize * self.cell;
            if MARGIN + at + label.len() <= WIDTH {
                line = format!("{line:<at$}{label}");
            }
        }
        line
    }
}

/// The chart, with a line end after each line.
pub fn draw(comparison: &Comparison) -> String {
    let Comparison { traffic, quota, period, outcomes } = comparison;
    let grid = Grid::new(comparison);
    let (column, window) = (time::text(grid.columns.length), time::text(*period));

    let bars = if grid.bars { format!("; | a new window of {window}") } else { String::new() };
    let mut text = format!("{}: {}, limit {quota}\n", traffic.title, traffic.size());
    text += &format!("+ admitted and - refused in each {column}{bars}\n\n");

    line(&mut text, "", ' ', &grid.labels(traffic.unit));
    for outcome in outcomes {
        line(&mut text, outcome.algorithm, '+', &grid.counts(&outcome.admitted));
        line(&mut text, "", '-', &grid.counts(&outcome.refused));
    }

    let most = format!("most in any {window}");
    let _ = writeln!(text, "\n{:15}  {:>8}  {:>7}  {most}", "", "admitted", "refused");
    for outcome in outcomes {
        let (admitted, refused) = (outcome.admitted.len(), outcome.refused.len());
        let (in_any, width) = (outcome.most_in(*period), most.len());
        let _ = writeln!(text, "{:15}  {admitted:>8}  {refused:>7}  {in_any:>width$}", outcome.algorithm);
    }
    text
}

fn line(text: &mut String, name: &str, sign: char, columns: &str) {
    let line = format!("{name:15} {sign} {columns}");
    text.push_str(line.trim_end());
    text.push('\n');
}
