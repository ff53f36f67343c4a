//! The charts. Colours are those of Okabe and Ito, which people tell apart however they see colours.

use crate::common::race::cores;
use crate::common::records::Records;
use crate::common::rounds::RATE;
use crate::common::subject::*;
use crate::common::tables::*;
use crate::common::workload::{self, Clients, THOUSAND};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::ops::Range;
use std::path::Path;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const BLACK: RGBColor = RGBColor(0, 0, 0);
const GREY: RGBColor = RGBColor(150, 150, 150);
const BLUE: RGBColor = RGBColor(0, 114, 178);
const SKY: RGBColor = RGBColor(86, 180, 233);
const VERMILION: RGBColor = RGBColor(213, 94, 0);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const GREEN: RGBColor = RGBColor(0, 158, 115);
const PURPLE: RGBColor = RGBColor(204, 121, 167);
const TEXT: RGBColor = RGBColor(60, 60, 60);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// The subjects that have a line in charts, at most eight in one; of two with the same colour the first that takes part. The
/// tables have all.
const LINES: [(&str, RGBColor); 20] = [
    (CHECK, BLUE),
    (CHECK_MANY, SKY),
    (GOVERNOR, VERMILION),
    (DASHMAP, ORANGE),
    (PAPAYA_BLOCKING, GREEN),
    (PAPAYA, GREEN),
    (MUTEX, BLACK),
    (SHARDED, GREY),
    (RWLOCK, PURPLE),
    (GATE, BLUE),
    (GOVERNOR_DIRECT, VERMILION),
    (RATELIMIT, ORANGE),
    (RATELOCK, GREEN),
    (LEAKY_BUCKET, GREY),
    (LEAKY_BUCKET_UNFAIR, BLACK),
    (EMPTY, PURPLE),
    (NOISE, BLACK),
    (FLOOD_MAX_KEYS, BLUE),
    (FLOOD_SWEPT, ORANGE),
    (FLOOD_UNSWEPT, VERMILION),
];

/// A line's points, in the order of their places on the axis.
struct Line {
    name: String,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

/// One of the pictures that stand beside each other and share a legend.
struct Panel {
    title: String,
    lines: Vec<Line>,
}

/// What the panels have in common.
struct Axes<'a> {
    x_title: &'a str,
    y_title: &'a str,
    /// What stands at each whole number of the axis.
    x_labels: Vec<String>,
    y_label: fn(f64) -> String,
    logarithmic: bool,
    /// A place on the axis to be marked, and what is there.
    mark: Option<(f64, String)>,
}

const WIDTH: u32 = 430;
const HEIGHT: u32 = 380;
const LEGEND: u32 = 20;

fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&TEXT)
}

fn width(line: &str) -> u32 {
    if is_ours(line) { 4 } else { 2 }
}

/// Ours first, which is then drawn last, on top of the others.
fn lines(records: &Records, mut points: impl FnMut(&str) -> Vec<(f64, f64)>) -> Vec<Line> {
    let subjects = records.each(|record| record.subject.clone());
    let taken = LINES.iter().filter(|(name, _)| subjects.iter().any(|subject| subject == name));
    let mut lines: Vec<Line> = Vec::new();
    for &(name, colour) in taken {
        let points = points(name);
        if !points.is_empty() && lines.iter().all(|line| line.colour != colour) {
            lines.push(Line { name: name.to_owned(), colour, points });
        }
    }
    lines
}

fn draw(path: &Path, title: &str, panels: &[Panel], axes: &Axes<'_>) -> Outcome {
    let mut names: Vec<(&str, RGBColor)> = Vec::new();
    for line in panels.iter().flat_map(|panel| &panel.lines) {
        if !names.iter().any(|(name, _)| *name == line.name) {
            names.push((&line.name, line.colour));
        }
    }
    // Wide enough for a title over a single panel.
    let size_x = (WIDTH * panels.len() as u32).max(620);
    let in_a_row = (size_x / 215).max(1) as usize;
    let top = 36 + LEGEND * names.len().div_ceil(in_a_row) as u32;
    let root = SVGBackend::new(path, (size_x, top + HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw_text(title, &font(18), (12, 10))?;
    for (place, (name, colour)) in names.iter().enumerate() {
        let (x, y) = (12 + (place % in_a_row) as i32 * 215, 44 + (place / in_a_row) as i32 * LEGEND as i32);
        root.draw(&PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(width(name))))?;
        root.draw_text(name, &font(13), (x + 28, y - 7))?;
    }
    let (_, below) = root.split_vertically(top);
    for (area, panel) in below.split_evenly((1, panels.len())).iter().zip(panels) {
        panel.draw(area, axes)?;
    }
    root.present()?;
    Ok(())
}

impl Panel {
    fn draw(&self, area: &Area<'_>, axes: &Axes<'_>) -> Outcome {
        let values = || self.lines.iter().flat_map(|line| &line.points).map(|&(_, y)| y).filter(|y| *y > 0.0);
        let (low, high) = values().fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), y| (low.min(y), high.max(y)));
        // On a logarithmic axis places are exponents.
        let place = |y: f64| if axes.logarithmic { y.log10() } else { y };
        let ticks = if axes.logarithmic { logarithmic_ticks(low, high) } else { ticks(high) };
        let range = place(ticks[0])..place(ticks[ticks.len() - 1]);
        let last = (axes.x_labels.len() - 1) as f64;
        let x_ticks = (0..axes.x_labels.len()).map(|at| at as f64).collect();
        let x_scale = Scale { range: -0.15..last + 0.15, ticks: x_ticks };
        let y_scale = Scale { range: range.clone(), ticks: ticks.iter().map(|&tick| place(tick)).collect() };
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, font(15))
            .margin(8)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(x_scale, y_scale)?;
        let x_label = |x: &f64| axes.x_labels[*x as usize].clone();
        let y_label = |y: &f64| (axes.y_label)(if axes.logarithmic { 10_f64.powf(*y) } else { *y });
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GREY)
            .x_labels(axes.x_labels.len())
            .x_label_formatter(&x_label)
            .y_labels(ticks.len())
            .y_label_formatter(&y_label)
            .x_desc(axes.x_title)
            .y_desc(axes.y_title)
            .label_style(font(13))
            .axis_desc_style(font(13))
            .draw()?;
        if let Some((x, what)) = &axes.mark {
            let line = DashedLineSeries::new([(*x, range.start), (*x, range.end)], 4, 4, GREY.stroke_width(1));
            chart.draw_series(line)?;
            let (x, y) = chart.backend_coord(&(*x, range.end));
            area.draw_text(
                what,
                &font(12).color(&GREY),
                (x + 4 - area.get_base_pixel().0, y + 3 - area.get_base_pixel().1),
            )?;
        }
        for line in self.lines.iter().rev() {
            let points: Vec<_> = line.points.iter().map(|&(x, y)| (x, place(y))).collect();
            let style = line.colour.stroke_width(width(&line.name));
            chart.draw_series(LineSeries::new(points.clone(), style))?;
            let radius = if is_ours(&line.name) { 4 } else { 3 };
            chart.draw_series(points.iter().map(|&point| Circle::new(point, radius, line.colour.filled())))?;
        }
        Ok(())
    }
}

/// An axis with its ticks where they are wanted.
struct Scale {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        from + (f64::from(to - from) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Steps of an axis that begins at nothing: about six, each 1, 2 or 5 times a power of ten.
fn ticks(high: f64) -> Vec<f64> {
    let decade = 10_f64.powf((high / 6.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|times| decade * times);
    let step = steps.into_iter().find(|step| step * 6.0 >= high).unwrap_or(high);
    (0..=(high / step).ceil() as u32).map(|at| f64::from(at) * step).collect()
}

/// Powers of ten; with their doubles and halves, where there are few.
fn logarithmic_ticks(low: f64, high: f64) -> Vec<f64> {
    let times: &[f64] = if high < low * 1e4 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all: Vec<_> = decades.flat_map(|decade| times.iter().map(move |times| times * 10_f64.powi(decade))).collect();
    let first = all.iter().rposition(|&tick| tick <= low).unwrap_or(0);
    let last = all.iter().position(|&tick| tick >= high).unwrap_or(all.len() - 1);
    all[first..=last.max(first + 1)].to_vec()
}

/// A chart of each set of clients, with a panel for each answer. Returns their file names, and what they show.
pub fn throughput(records: &Records, directory: &Path) -> Outcome<Vec<(String, String)>> {
    let mut threads = records.each(|record| record.threads);
    threads.sort_unstable();
    let axes = Axes {
        x_title: "threads",
        y_title: "million checks a second",
        x_labels: threads.iter().map(ToString::to_string).collect(),
        y_label: |rate| format!("{:.2}", rate).trim_end_matches('0').trim_end_matches('.').to_owned(),
        logarithmic: true,
        mark: threads
            .iter()
            .position(|&threads| threads == cores())
            .map(|at| (at as f64, format!("{} processors", cores()))),
    };
    let mut files = Vec::new();
    let mut clients: Vec<Clients> = workload::ALL.iter().map(|workload| workload.clients).collect();
    clients.dedup();
    for clients in clients {
        let panels: Vec<_> = workload::ALL
            .iter()
            .filter(|workload| workload.clients == clients)
            .map(|workload| {
                let (name, title) = (workload.name(), workload.answer.name().to_owned());
                let lines = lines(&records.of(&name), |subject| {
                    let rate = |&threads| records.value(&name, threads, subject, RATE);
                    threads.iter().enumerate().filter_map(|(at, threads)| Some((at as f64, rate(threads)?))).collect()
                });
                Panel { title, lines }
            })
            .collect();
        let file = file_name(clients);
        draw(&directory.join(&file), &format!("Throughput, {}", clients.name()), &panels, &axes)?;
        files.push((file, clients.name()));
    }
    Ok(files)
}

/// The chart that stands in the README.
pub const README_CHART: &str = "throughput-1-000-keys.svg";

fn file_name(clients: Clients) -> String {
    debug_assert!(clients != THOUSAND || clients.name() == "1,000 keys", "the README's chart has another name");
    let name: String =
        clients.name().chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    format!("throughput-{name}.svg")
}

pub fn tails(records: &Records, path: &Path) -> Outcome {
    let mut measures: Vec<_> = PERCENTILES.iter().map(|(name, _)| *name).collect();
    measures.push(MAX);
    let axes = Axes {
        x_title: "share of the checks that are shorter",
        y_title: "time of a check",
        x_labels: measures.iter().map(|name| name.replace("maximum", "max")).collect(),
        y_label: |nanos| match nanos {
            n if n < 999.0 => format!("{n:.0} ns"),
            n if n < 999e3 => format!("{:.0} µs", n / 1e3),
            n if n < 999e6 => format!("{:.0} ms", n / 1e6),
            n => format!("{:.0} s", n / 1e9),
        },
        logarithmic: true,
        mark: None,
    };
    let panels = [HOT_WHILE_GROWING, HOT_WHILE_SWEEPING].map(|workload| {
        let lines = lines(&records.of(workload), |subject| {
            let value = |measure| records.value(workload, 2, subject, measure);
            measures.iter().enumerate().filter_map(|(at, measure)| Some((at as f64, value(measure)?))).collect()
        });
        Panel { title: workload.to_owned(), lines }
    });
    draw(path, "Latency of a check on one thread, beside another that grows or sweeps the table", &panels, &axes)
}

pub fn flood(records: &Records, path: &Path) -> Outcome {
    let axes = Axes {
        x_title: "million clients that came once",
        y_title: "MiB resident",
        x_labels: (0..=10).map(|million: u32| million.to_string()).collect(),
        y_label: |size| format!("{size:.0}"),
        logarithmic: false,
        mark: None,
    };
    let lines = lines(&records.of(FLOOD), |subject| {
        let value = |million| records.value(FLOOD, 1, subject, &after_millions(million));
        (1..=10).filter_map(|million| Some((million as f64, value(million)?))).collect()
    });
    draw(path, "Memory in a flood of unique keys", &[Panel { title: String::new(), lines }], &axes)
}

/// Bars: one for each subject, in a panel for each kind of key. The part beyond what is resident in the end is the peak.
pub fn bytes(records: &Records, path: &Path) -> Outcome {
    const BAR: i32 = 26;
    const NAMES: i32 = 190;
    const PANEL: i32 = 290;
    let clients = 8_000_000;
    let workloads = [U64_KEYS, IP_KEYS, STRING_KEYS].map(|keys| (keys, memory_workload(clients, keys)));
    let subjects: Vec<_> = records.of(&workloads[0].1).each(|record| record.subject.clone());
    let height = 90 + BAR * subjects.len() as i32;
    let root = SVGBackend::new(path, ((NAMES + 3 * PANEL + 12) as u32, height as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw_text(
        "Bytes per client at 8 million clients: resident, and pale the peak on the way",
        &font(18),
        (12, 10),
    )?;
    let right = font(13).pos(Pos::new(HPos::Right, VPos::Center));
    let left = font(13).pos(Pos::new(HPos::Left, VPos::Center));
    let longest = records.0.iter().filter(|record| workloads.iter().any(|(_, workload)| *workload == record.workload));
    let longest = longest.filter(|record| record.measure == PEAK).map(|record| record.value).fold(1.0, f64::max);
    // Room for a label behind the longest.
    let pixels = |bytes: f64| (bytes / longest * f64::from(PANEL - 60)) as i32;
    for (row, subject) in subjects.iter().enumerate() {
        let y = 80 + BAR * row as i32;
        let style = if is_ours(subject) { right.clone().color(&BLUE) } else { right.clone() };
        root.draw_text(subject, &style, (NAMES - 8, y))?;
        for (panel, (keys, workload)) in workloads.iter().enumerate() {
            let x = NAMES + PANEL * panel as i32;
            if row == 0 {
                root.draw_text(keys, &left.clone(), (x, 52))?;
            }
            let value = |measure| records.value(workload, 1, subject, measure);
            let (Some(resident), Some(peak)) = (value(RESIDENT), value(PEAK)) else { continue };
            let colour = if is_ours(subject) { BLUE } else { GREY };
            let bar = |bytes: f64, style: ShapeStyle| Rectangle::new([(x, y - 9), (x + pixels(bytes), y + 9)], style);
            root.draw(&bar(peak, colour.mix(0.3).filled()))?;
            root.draw(&bar(resident, colour.filled()))?;
            root.draw_text(&format!("{resident:.0}, {peak:.0}"), &left, (x + pixels(peak) + 5, y))?;
        }
    }
    root.present()?;
    Ok(())
}
