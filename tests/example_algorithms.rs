//! The example that compares the algorithms, from end to end: the built program, its text and its picture.

// Miri cannot start programs.
#![cfg(not(miri))]

mod common;

use proptest::prelude::*;
use roxmltree::{Document, Node};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tollgate::{Algorithm, Clock, Limiter, ManualClock, Quota};

const ALGORITHMS: [&str; 4] = ["token bucket", "fixed window", "sliding log", "sliding counter"];

const SECOND: u64 = 1_000_000_000;

/// What is said of an algorithm: how many were admitted and refused, and the most in any period.
type Totals = [usize; 3];

fn run(args: &[&str]) -> Output {
    let program = common::example("algorithms");
    Command::new(&program).args(args).output().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// What it prints, where it succeeds.
fn text(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What it complains, where it fails in an orderly way.
fn complaint(args: &[&str]) -> String {
    let output = run(args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{args:?}: {stderr}");
    stderr
}

/// A file of this name for this test only.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn write(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = path(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The file that holds these instants, in nanoseconds.
fn write_instants(name: &str, instants: &[u64]) -> String {
    let lines = instants.iter().map(|instant| format!("{}.{:09}\n", instant / SECOND, instant % SECOND));
    write(name, lines.collect::<String>())
}

/// What the limiters themselves admit.
fn expected(quota: Quota, arrivals: &[u64]) -> [Totals; 4] {
    fn totals<A: Algorithm, C: Clock>(
        clock: &ManualClock,
        limiter: Limiter<A, C>,
        arrivals: &[u64],
        period: u64,
    ) -> Totals {
        let admitted: Vec<u64> = arrivals
            .iter()
            .copied()
            .filter(|&instant| {
                clock.set(Duration::from_nanos(instant));
                limiter.allow("client")
            })
            .collect();
        let in_any = |end: &u64| admitted.iter().filter(|&start| start <= end && end - start < period).count();
        [admitted.len(), arrivals.len() - admitted.len(), admitted.iter().map(in_any).max().unwrap()]
    }
    let period = quota.period().as_nanos() as u64;
    let window = Quota::per(quota.count(), quota.period());
    let clock = || {
        let clock = ManualClock::new();
        clock.set(Duration::from_nanos(arrivals[0]));
        clock
    };
    let clocks = [clock(), clock(), clock(), clock()];
    let [a, b, c, d] = &clocks;
    [
        totals(a, Limiter::token_bucket(quota).clock(a.clone()).build().unwrap(), arrivals, period),
        totals(b, Limiter::fixed_window(window).clock(b.clone()).build().unwrap(), arrivals, period),
        totals(c, Limiter::sliding_log(window).clock(c.clone()).build().unwrap(), arrivals, period),
        totals(d, Limiter::sliding_counter(window).clock(d.clone()).build().unwrap(), arrivals, period),
    ]
}

/// The table at the end of the text.
fn table(text: &str) -> [Totals; 4] {
    let (_, table) = text.rsplit_once("\n\n").unwrap();
    let mut lines = table.lines().skip(1);
    ALGORITHMS.map(|algorithm| {
        let numbers = lines.next().unwrap().strip_prefix(algorithm).unwrap();
        let numbers: Vec<usize> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    })
}

/// The sums of the timelines: admitted and refused.
fn sums(text: &str) -> [[usize; 2]; 4] {
    let chart = text.split("\n\n").nth(1).unwrap();
    assert!(chart.lines().all(|line| line.chars().count() <= 80), "{text}");
    let mut lines = chart.lines().skip(1);
    let mut sum = |name: &str, sign: char| {
        let row = lines.next().unwrap().strip_prefix(&format!("{name:15} {sign} ")).unwrap().replace('|', "");
        // Cells of several characters are right-aligned, so there are spaces; cells of one have none between them.
        let cells: Vec<String> = match row.contains(' ') {
            true => row.split_whitespace().map(str::to_owned).collect(),
            false => row.chars().map(String::from).collect(),
        };
        cells.iter().filter(|cell| *cell != ".").map(|cell| cell.parse::<usize>().unwrap()).sum::<usize>()
    };
    ALGORITHMS.map(|algorithm| [sum(algorithm, '+'), sum("", '-')])
}

fn number(node: Node, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

/// Marks for admitted and refused requests, and the totals, of each lane of the picture.
fn lanes(svg: &str) -> [([usize; 2], Totals); 4] {
    let document = Document::parse(svg).unwrap();
    let root = document.root_element();
    let lanes: Vec<Node> = root.children().filter(|node| node.has_attribute("data-algorithm")).collect();
    assert_eq!(lanes.len(), 4);
    let (width, height) = (number(root, "width"), number(root, "height"));
    for circle in root.descendants().filter(|node| node.has_attribute("cx")) {
        let (x, y, r) = (number(circle, "cx"), number(circle, "cy"), number(circle, "r"));
        assert!(x - r > 0.0 && x + r < width && y - r > 0.0 && y + r < height, "a mark at {x}, {y}");
    }
    let mut lanes = lanes.into_iter();
    ALGORITHMS.map(|algorithm| {
        let lane = lanes.next().unwrap();
        assert_eq!(lane.attribute("data-algorithm"), Some(algorithm));
        let marks = |class: &str, shape: &str| {
            let group = lane.children().find(|node| node.attribute("class") == Some(class)).unwrap();
            group.children().filter(|node| node.has_tag_name(shape)).count()
        };
        let texts: Vec<&str> =
            lane.children().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).collect();
        assert_eq!((texts.len(), texts[0]), (4, algorithm));
        let totals = [1, 2, 3].map(|text| texts[text].parse().unwrap());
        ([marks("admitted", "circle"), marks("refused", "path")], totals)
    })
}

/// Runs it with a picture, and holds both to what the limiters admit. Returns the text, and what was admitted.
fn check(name: &str, args: &[&str], quota: Quota, arrivals: &[u64]) -> (String, [usize; 4]) {
    let svg = path(&format!("{name}.svg"));
    let quota_text = quota.to_string();
    let text = text(&[args, &["--quota", &quota_text, "--svg", svg.to_str().unwrap()]].concat());
    let picture = fs::read_to_string(svg).unwrap();

    let expected = expected(quota, arrivals);
    assert_eq!(table(&text), expected, "{text}");
    assert_eq!(sums(&text), expected.map(|[admitted, refused, _]| [admitted, refused]), "{text}");
    let one_each = picture.contains("each mark 1 request,");
    for ((marks, totals), expected) in lanes(&picture).into_iter().zip(expected) {
        assert_eq!(totals, expected);
        match one_each {
            true => assert_eq!(marks, expected[..2]),
            false => assert!(marks.iter().zip(expected).all(|(&marks, total)| (marks > 0) == (total > 0))),
        }
    }
    (text, expected.map(|[admitted, ..]| admitted))
}

/// Where a pattern is a list of bursts: how many requests there are at an instant in milliseconds.
fn bursts(bursts: &[(u64, usize)]) -> Vec<u64> {
    bursts.iter().flat_map(|&(millis, requests)| vec![millis * 1_000_000; requests]).collect()
}

fn five_per_10_s() -> Quota {
    Quota::per(5, Duration::from_secs(10))
}

#[test]
fn a_burst_at_the_boundary_doubles_the_fixed_window() {
    let arrivals = bursts(&[(9_900, 5), (10_100, 5)]);
    let (text, admitted) = check("boundary", &["--pattern", "boundary"], five_per_10_s(), &arrivals);
    assert_eq!(admitted, [5, 10, 5, 6]);
    assert!(text.starts_with("Burst at the boundary: 10 requests, limit 5/10s\n"), "{text}");
    assert!(text.contains("fixed window    + |...................5|5...................|\n"), "{text}");
    assert!(text.contains("sliding log     + |...................5|....................|\n"), "{text}");
    assert_eq!(text, self::text(&[]), "this is what happens without arguments");
}

#[test]
fn a_client_that_keeps_to_its_quota_is_refused_by_none_but_the_estimate() {
    let arrivals: Vec<u64> = (0..20).map(|call| call * 2 * SECOND).collect();
    let (_, admitted) = check("steady", &["--pattern", "steady"], five_per_10_s(), &arrivals);
    assert_eq!(admitted, [20, 20, 20, 18]);
}

#[test]
fn a_hungry_client_gets_the_burst_on_top_of_the_rate_from_a_bucket() {
    let arrivals: Vec<u64> = (0..60).map(|call| call * 10 * SECOND / 15).collect();
    let (_, admitted) = check("hungry", &["--pattern", "hungry"], five_per_10_s(), &arrivals);
    assert_eq!(admitted, [24, 20, 20, 20]);
}

#[test]
fn after_a_silence_the_four_differ() {
    let arrivals = bursts(&[(0, 1), (25_000, 10), (30_000, 5), (35_000, 5)]);
    let (text, admitted) = check("idle", &["--pattern", "idle"], five_per_10_s(), &arrivals);
    assert_eq!(admitted, [11, 11, 11, 9]);
    for row in [
        "token bucket    + |1.........|..........|.....5....|2....3....|\n",
        "fixed window    + |1.........|..........|.....5....|5.........|\n",
        "sliding log     + |1.........|..........|.....5....|.....5....|\n",
        "sliding counter + |1.........|..........|.....5....|.....3....|\n",
    ] {
        assert!(text.contains(row), "{text}");
    }
}

#[test]
fn a_burst_of_its_own_is_the_buckets_only() {
    let quota = five_per_10_s().burst(8);
    let arrivals = bursts(&[(0, 1), (25_000, 16), (30_000, 8), (35_000, 8)]);
    let (text, admitted) = check("burst", &["--pattern", "idle"], quota, &arrivals);
    assert!(text.starts_with("Idle, then burst: 33 requests, limit 5/10s;burst=8\n"), "{text}");
    assert_eq!(admitted, [14, 11, 11, 9]);
}

#[test]
fn the_documents_show_what_it_prints() {
    let svg = path("document.svg");
    text(&["--pattern", "idle", "--svg", svg.to_str().unwrap()]);
    assert!(
        fs::read_to_string(svg).unwrap() == include_str!("../docs/algorithms.svg"),
        "docs/algorithms.svg is old: draw it anew, as the README says",
    );
    let readme = include_str!("../README.md");
    assert!(readme.contains(&text(&["--pattern", "boundary"])), "the README shows another chart");
}

#[test]
fn a_file_is_read_in_any_order() {
    let arrivals = bursts(&[(9_900, 5), (10_100, 5)]);
    let file = write(
        "any-order.txt",
        "\u{feff}# seconds\r\n10.1\r\n9.9\n 10.100 \n\n9.900000000\n10.1\n10.1\n9.9\n9.9\n10.1\n9.9",
    );
    let (text, admitted) = check("any-order", &["--file", &file], five_per_10_s(), &arrivals);
    assert_eq!(admitted, [5, 10, 5, 6]);
    assert!(text.starts_with("any-order.txt: 10 requests, limit 5/10s\n"), "{text}");
}

#[test]
fn unix_time_is_fine_to_the_nanosecond() {
    // 1767225600 is a multiple of ten, so a window starts there. A float has no two numbers so close to each other.
    let start = 1_767_225_600 * SECOND;
    let arrivals = [start - 1, start - 1, start, start, start + 10 * SECOND - 2, start + 10 * SECOND - 1];
    let file = write_instants("unix.txt", &arrivals);
    let (text, admitted) = check("unix", &["--file", &file], Quota::per(2, Duration::from_secs(10)), &arrivals);
    // The log refuses the fifth, for it remembers the first two for one more nanosecond.
    assert_eq!(admitted, [4, 4, 3, 4]);
    assert!(text.contains("1767225600s"), "{text}");
}

#[test]
fn a_mark_stands_for_several_where_there_are_many() {
    let arrivals: Vec<u64> = (0..5000).map(|call| call * SECOND / 100).collect();
    let file = write_instants("many.txt", &arrivals);
    let quota = Quota::per(500, Duration::from_secs(10));
    let (text, _) = check("many", &["--file", &file], quota, &arrivals);
    assert!(text.contains(" 500 "), "{text}");
    assert!(fs::read_to_string(path("many.svg")).unwrap().contains("each mark up to 9 requests, in columns of 1s"));
}

#[test]
fn the_most_requests_take_a_picture_of_bounded_size() {
    let file = write("most.txt", (0..100_000).map(|call| format!("{call}\n")).collect::<String>());
    let svg = path("most.svg");
    let text = text(&["--file", &file, "--quota", "1/2s", "--svg", svg.to_str().unwrap()]);
    assert_eq!(table(&text)[1..3], [[50_000, 50_000, 1]; 2], "{text}");
    lanes(&fs::read_to_string(&svg).unwrap());
    assert!(fs::metadata(svg).unwrap().len() < 400_000);
}

#[test]
fn bad_lines_are_told_with_their_number() {
    let cases = [
        ("1\n2\nabc\n", 3, "\"abc\" is not a time: write seconds, as in 12 or 12.5"),
        ("# a\n\n1 2\n", 3, "\"1 2\" is not a time: "),
        ("12s", 1, "\"12s\" is not a time: "),
        ("0\n1,5", 2, "\"1,5\" is not a time: "),
        ("0.", 1, "\"0.\" has more than digits and a point: write it as in 12 or 0.5"),
        (".5", 1, "\".5\" has more than digits and a point: "),
        ("1e3", 1, "\"1e3\" has more than digits and a point: "),
        ("+1", 1, "\"+1\" has more than digits and a point: "),
        ("1\n-1\n", 2, "\"-1\" is before 0: count seconds from an earlier start"),
        ("-0", 1, "\"-0\" is before 0: "),
        ("NaN", 1, "\"NaN\" is not finite: write seconds, as in 12 or 12.5"),
        ("inf", 1, "\"inf\" is not finite: "),
        ("-infinity", 1, "\"-infinity\" is not finite: "),
        ("0.1234567890", 1, "\"0.1234567890\" is finer than a nanosecond: use at most nine decimals"),
        (
            "9223372036.854775807\n9223372036.854775808",
            2,
            "\"9223372036.854775808\" is too late: use at most 9223372036 s",
        ),
        ("99999999999999999999999", 1, "\"99999999999999999999999\" is too late: "),
        ("0\n\u{1b}[2J", 2, "\"\\u{1b}[2J\" is not a time: "),
    ];
    for (number, (content, line, message)) in cases.into_iter().enumerate() {
        let file = write(&format!("bad-{number}.txt"), content);
        let complaint = complaint(&["--file", &file]);
        assert!(complaint.starts_with(&format!("error: {file}:{line}: {message}")), "{content:?}: {complaint}");
    }
    let file = write("latin.txt", b"1\n\xe9t\xe9\n");
    assert!(complaint(&["--file", &file]).contains(":2: \"\u{fffd}t\u{fffd}\" is not a time: "));
    let file = write("long.txt", "1\n".to_owned() + &"1".repeat(2000));
    assert!(complaint(&["--file", &file]).contains(":2: longer than 1000 bytes: "));
    let file = write("long-number.txt", "1".repeat(100));
    let cut = format!("\"{}\"… is too late", "1".repeat(32));
    assert!(complaint(&["--file", &file]).contains(&cut));
    let file = write("too-many.txt", "0\n".repeat(100_001));
    assert!(complaint(&["--file", &file]).contains(":100001: more than 100000 requests: take a part of them"));
}

#[test]
fn files_that_are_none_are_told() {
    for (number, content) in ["", "\n\n", "# nothing\n", "\u{feff}"].into_iter().enumerate() {
        let file = write(&format!("empty-{number}.txt"), content);
        let complaint = complaint(&["--file", &file]);
        assert!(complaint.starts_with(&format!("error: {file} has no request: write one time ")), "{complaint}");
    }
    let missing = path("missing.txt").to_str().unwrap().to_owned();
    for file in [&*missing, env!("CARGO_TARGET_TMPDIR")] {
        let complaint = complaint(&["--file", file]);
        assert!(complaint.starts_with(&format!("error: cannot read {file}: ")), "{complaint}");
    }
    #[cfg(unix)]
    assert!(complaint(&["--file", "/dev/zero"]).contains("/dev/zero:1: longer than 1000 bytes: "));

    // 30 years, and a second more.
    let file = write("30-years.txt", "5\n946728005");
    assert_eq!(table(&text(&["--file", &file])), [[2, 0, 1]; 4]);
    let file = write("more-than-30-years.txt", "5\n946728006");
    assert!(complaint(&["--file", &file]).contains(" spans more than the 30 years "));
}

#[test]
fn what_cannot_be_held_or_drawn_is_told() {
    let file = write("one.txt", "1");
    let cases: [(&[&str], &str); 7] = [
        (
            &["--pattern", "hungry", "--quota", "10000/s"],
            "\"Hungry client\" at 10000/s takes more than 100000 requests: ",
        ),
        (
            &["--pattern", "steady", "--quota", "18446744073709551615/s"],
            "\"Steady\" at 18446744073709551615/s takes more ",
        ),
        (&["--pattern", "idle", "--quota", "1/s;burst=18446744073709551615"], "\"Idle, then burst\" at 1/s;burst="),
        (&["--quota", "1/9999d"], "\"Burst at the boundary\" at 1/9999d takes more than the 30 years "),
        (&["--quota", "1/18446744073709551615s"], "\"Burst at the boundary\" at 1/18446744073709551615s takes more "),
        (&["--file", &file, "--quota", "70000/s"], "the limit of 70000/s is above 65536, "),
        (&["--file", &file, "--quota", "9/60000d;burst=1"], "the period of 9/60000d is over 146 years: "),
    ];
    for (args, message) in cases {
        let complaint = complaint(args);
        assert!(complaint.starts_with(&format!("error: {message}")), "{args:?}: {complaint}");
    }
    let nowhere = path("nowhere").join("picture.svg");
    let message = format!("error: cannot write {}: ", nowhere.display());
    assert!(complaint(&["--svg", nowhere.to_str().unwrap()]).starts_with(&message));

    let both = run(&["--pattern", "idle", "--file", &file]);
    assert_eq!(both.status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn a_files_name_cannot_break_the_chart_or_the_picture() {
    let name = "a<b>&\"c'\u{1b}]]>\u{ffff}.txt";
    let file = write(name, "1");
    let (text, _) = check("escaped", &["--file", &file], five_per_10_s(), &[SECOND]);
    assert!(text.starts_with("a<b>&\"c'\u{fffd}]]>\u{ffff}.txt: 1 request, "), "{text:?}");
    let picture = fs::read_to_string(path("escaped.svg")).unwrap();
    let document = Document::parse(&picture).unwrap();
    let title = document.descendants().find(|node| node.has_tag_name("title")).unwrap();
    assert_eq!(title.text(), Some("a<b>&\"c'\u{fffd}]]>\u{fffd}.txt"));

    let file = write(&"é".repeat(100), "1");
    let (text, _) = check("cut", &["--file", &file], five_per_10_s(), &[SECOND]);
    assert!(text.starts_with(&format!("{}…: 1 request, ", "é".repeat(60))), "{text:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the quota, and whether the requests fill a part of a window or millions of them.
    #[test]
    fn text_and_picture_agree_with_the_limiters(
        (count, burst) in (1_u64..40, 1_u64..40),
        period in prop_oneof![Just(1_000), Just(1_001), Just(SECOND), Just(60 * SECOND), 1_000_u64..1 << 50],
        start in 0_u64..1 << 62,
        gaps in prop::collection::vec((0_u64..1 << 40, 0_u32..40), 1..100),
    ) {
        let mut now = start;
        let arrivals: Vec<u64> = gaps.iter().map(|(gap, shift)| { now += gap >> shift; now }).collect();
        let quota = Quota::per(count, Duration::from_nanos(period)).burst(burst);
        let file = write_instants("random.txt", &arrivals);
        check("random", &["--file", &file], quota, &arrivals);
    }
}
