//! The comparison as a picture: a lane for each algorithm, admitted requests piled up above its line and refused ones
//! below.

use crate::columns::Columns;
use crate::comparison::{Comparison, Outcome};
use crate::time;
use std::fmt::{self, Display, Write};

// Pixels, and colours of Okabe and Ito's palette, which do not look alike to anybody.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 720.0;
const TOP: f64 = 124.0;
/// The middle of the three columns of totals.
const TOTALS: [f64; 3] = [770.0, 836.0, 908.0];
/// The height of a lane, at least.
const LANE: f64 = 64.0;
const ADMITTED: &str = "#0072b2";
const REFUSED: &str = "#d55e00";
const INK: &str = "#1f2328";
const FAINT: &str = "#59636e";

/// The most marks above or below each other.
const HIGHEST: usize = 12;

/// The most columns.
const MOST_COLUMNS: u64 = 60;

/// Where marks lie in a lane.
struct Grid {
    columns: Columns,
    /// Pixels of a column.
    pitch: f64,
    /// The requests that a mark stands for, at most.
    weight: usize,
    /// Pixels from one mark to the next above it.
    mark: f64,
    /// The most marks above a line, and below.
    highest: [usize; 2],
}

impl Grid {
    fn new(comparison: &Comparison) -> Self {
        let fit = |columns: &Columns| columns.count <= MOST_COLUMNS;
        let columns = Columns::shortest(comparison.traffic.shown, comparison.period, fit);
        let most = |instants: fn(&Outcome) -> &[u64]| {
            let counts = comparison.outcomes.iter().flat_map(|outcome| columns.counts(instants(outcome)));
            counts.max().unwrap_or(0)
        };
        let most = [most(|outcome| &outcome.admitted), most(|outcome| &outcome.refused)];
        let weight = most[0].max(most[1]).div_ceil(HIGHEST).max(1);
        let pitch = (RIGHT - LEFT) / columns.count as f64;
        Self { pitch, weight, mark: pitch.min(10.0), highest: most.map(|most| most.div_ceil(weight)), columns }
    }

    /// Whether windows are wide enough to tell apart.
    fn windows_show(&self) -> bool {
        self.columns.in_a_window() as f64 * self.pitch >= 12.0
    }

    fn left_of(&self, column: u64) -> f64 {
        LEFT + column as f64 * self.pitch
    }

    fn height(&self) -> f64 {
        let marks = (self.highest[0] + self.highest[1]) as f64 * self.mark + 20.0;
        marks.max(LANE)
    }

    /// How far below a lane's top its line is.
    fn line(&self) -> f64 {
        let [above, below] = self.highest.map(|marks| marks as f64 * self.mark);
        (self.height() + above - below) / 2.0
    }

    /// Where marks are for so many requests in a column, counted away from the line: in columns and marks.
    fn marks(&self, instants: &[u64]) -> Vec<(f64, f64)> {
        let counts = self.columns.counts(instants).into_iter().zip(0..);
        let pile = |(count, column): (usize, u64)| {
            let x = self.left_of(column) + self.pitch / 2.0;
            (0..count.div_ceil(self.weight)).map(move |level| (x, (level as f64 + 0.5) * self.mark + 2.0))
        };
        counts.flat_map(pile).collect()
    }
}

/// The picture, a whole SVG document.
pub fn draw(comparison: &Comparison) -> String {
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut svg, comparison);
    svg
}

fn write(svg: &mut String, comparison: &Comparison) -> fmt::Result {
    let Comparison { traffic, quota, period, outcomes } = comparison;
    let grid = Grid::new(comparison);
    let bottom = TOP + grid.height() * outcomes.len() as f64;
    let (height, window) = (bottom + 44.0, time::text(*period));

    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Helvetica, Arial, sans-serif" font-size="13" fill="{INK}">"#
    )?;
    writeln!(svg, "<title>{}</title>", Escaped(&traffic.title))?;
    write!(svg, "<desc>")?;
    for outcome in outcomes {
        let Outcome { algorithm, admitted, refused } = outcome;
        write!(svg, "{algorithm}: {} admitted, {} refused. ", admitted.len(), refused.len())?;
    }
    writeln!(svg, "</desc>")?;
    // A page may be dark: the picture brings its own background.
    let (inner_width, inner_height) = (WIDTH - 1.0, height - 1.0);
    writeln!(
        svg,
        r##"<rect x="0.5" y="0.5" width="{inner_width}" height="{inner_height}" rx="6" fill="#ffffff" stroke="#d1d9e0"/>"##
    )?;

    let subtitle = format!("{}, limit {quota}", traffic.size());
    text(svg, 24.0, 38.0, r#"font-size="19" font-weight="600""#, &traffic.title)?;
    text(svg, 24.0, 60.0, &format!(r#"fill="{FAINT}""#), &subtitle)?;
    legend(svg, &grid)?;
    windows(svg, &grid, bottom)?;

    let heading = format!(r#"text-anchor="middle" font-size="12" fill="{FAINT}""#);
    for (x, heads) in TOTALS.into_iter().zip([["", "admitted"], ["", "refused"], ["most in", &format!("any {window}")]])
    {
        text(svg, x, TOP - 26.0, &heading, heads[0])?;
        text(svg, x, TOP - 10.0, &heading, heads[1])?;
    }
    for (outcome, lane) in outcomes.iter().zip(0..) {
        self::lane(svg, &grid, comparison, outcome, TOP + f64::from(lane) * grid.height())?;
    }
    writeln!(svg, r##"<path d="M24 {bottom}H{}" stroke="#d1d9e0"/>"##, WIDTH - 24.0)?;

    // An average character of a label is about 7 wide.
    let room = |label: &str| ((label.chars().count() as f64 * 7.0 + 16.0) / grid.pitch).ceil() as u64;
    for (column, label) in grid.columns.labels(traffic.unit, room) {
        let x = grid.left_of(column);
        writeln!(svg, r#"<path d="M{x:.1} {bottom}v5" stroke="{FAINT}"/>"#)?;
        text(svg, x, bottom + 20.0, &heading, &label)?;
    }
    writeln!(svg, "</svg>")
}

/// What marks mean, in the order in which they are explained from the left.
fn legend(svg: &mut String, grid: &Grid) -> fmt::Result {
    let y = 90.0;
    let mut x = 24.0;
    let mut entry = |svg: &mut String, mark: &str, label: &str| {
        writeln!(svg, r#"<g transform="translate({} {})">{mark}</g>"#, x + 4.0, y - 4.5)?;
        text(svg, x + 16.0, y, "", label)?;
        x += 40.0 + 7.0 * label.len() as f64;
        fmt::Result::Ok(())
    };
    entry(svg, &format!(r#"<circle r="4" fill="{ADMITTED}"/>"#), "admitted")?;
    entry(svg, &format!(r#"<path d="M-4-4l8 8m0-8l-8 8" stroke="{REFUSED}" stroke-width="2"/>"#), "refused")?;
    if grid.windows_show() {
        entry(svg, &format!(r#"<path d="M0-7v14" stroke="{FAINT}" stroke-dasharray="3 2"/>"#), "a window begins")?;
    }
    let length = time::text(grid.columns.length);
    let label = match grid.weight {
        1 => format!("each mark 1 request, in columns of {length}"),
        weight => format!("each mark up to {weight} requests, in columns of {length}"),
    };
    text(svg, x, y, &format!(r#"fill="{FAINT}""#), &label)
}

/// Every other window is shaded, and the beginning of each is a dashed line.
fn windows(svg: &mut String, grid: &Grid, bottom: f64) -> fmt::Result {
    if !grid.windows_show() {
        return Ok(());
    }
    let (columns, height) = (&grid.columns, bottom - TOP);
    let starts: Vec<u64> = (0..=columns.count).filter(|&column| columns.starts_window(column)).collect();
    let edges = [&[0], &*starts, &[columns.count]].concat();
    for edge in edges.windows(2).filter(|edge| edge[0] < edge[1] && columns.window(edge[0]) % 2 == 1) {
        let (x, width) = (grid.left_of(edge[0]), (edge[1] - edge[0]) as f64 * grid.pitch);
        writeln!(svg, r##"<rect x="{x:.1}" y="{TOP}" width="{width:.1}" height="{height}" fill="#f3f5f7"/>"##)?;
    }
    for start in starts {
        let x = grid.left_of(start);
        writeln!(svg, r#"<path d="M{x:.1} {TOP}V{bottom}" stroke="{FAINT}" stroke-dasharray="3 3"/>"#)?;
    }
    Ok(())
}

fn lane(svg: &mut String, grid: &Grid, comparison: &Comparison, outcome: &Outcome, top: f64) -> fmt::Result {
    let line = top + grid.line();
    let r = grid.mark * 0.4;
    writeln!(svg, r#"<g data-algorithm="{}">"#, outcome.algorithm)?;
    writeln!(svg, r##"<path d="M24 {top}H{}" stroke="#d1d9e0"/>"##, WIDTH - 24.0)?;
    writeln!(svg, r##"<path d="M{LEFT} {line:.1}H{RIGHT}" stroke="#818b98"/>"##)?;
    text(svg, 24.0, line + 5.0, r#"font-size="15" font-weight="600""#, outcome.algorithm)?;

    writeln!(svg, r#"<g class="admitted" fill="{ADMITTED}">"#)?;
    for (x, above) in grid.marks(&outcome.admitted) {
        writeln!(svg, r#"<circle cx="{x:.1}" cy="{:.1}" r="{r:.1}"/>"#, line - above)?;
    }
    writeln!(svg, r#"</g><g class="refused" stroke="{REFUSED}" stroke-width="{:.1}">"#, grid.mark * 0.2)?;
    for (x, below) in grid.marks(&outcome.refused) {
        let (x, y, d) = (x - r, line + below - r, 2.0 * r);
        writeln!(svg, r#"<path d="M{x:.1} {y:.1}l{d:.1} {d:.1}m0-{d:.1}l-{d:.1} {d:.1}"/>"#)?;
    }
    writeln!(svg, "</g>")?;

    let most = outcome.most_in(comparison.period);
    // More than the quota's count in one period is what the algorithms differ in.
    let weight = if most as u64 > comparison.quota.count() { 700 } else { 400 };
    let totals = [(outcome.admitted.len(), 400), (outcome.refused.len(), 400), (most, weight)];
    for (x, (total, weight)) in TOTALS.into_iter().zip(totals) {
        let style = format!(r#"text-anchor="middle" font-size="16" font-weight="{weight}""#);
        text(svg, x, line + 5.0, &style, &total.to_string())?;
    }
    writeln!(svg, "</g>")
}

fn text(svg: &mut String, x: f64, y: f64, attributes: &str, content: &str) -> fmt::Result {
    writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#, Escaped(content))
}

/// A text as the content of an element. Characters that XML has no way to write are replaced.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '\u{fffe}' | '\u{ffff}' => f.write_char(char::REPLACEMENT_CHARACTER),
            c if c.is_control() => f.write_char(char::REPLACEMENT_CHARACTER),
            c => f.write_char(c),
        })
    }
}
