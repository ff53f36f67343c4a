//! [`Quota`], how much is let through per period, and its text form.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How many permits a limiter hands out per period, and how many at once.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// const API: Quota = Quota::per_second(2).burst(10);
///
/// assert_eq!("2/s; burst=10".parse(), Ok(API));
/// assert_eq!(API.to_string(), "2/s;burst=10");
/// assert_eq!("5 per 2 minutes".parse(), Ok(Quota::per(5, Duration::from_secs(120))));
/// ```
///
/// `per_second(2)` is two per second: the number is a count, not an interval.
///
/// The burst is the capacity of the bucket: the number of permits that can pass
/// at once after idling. It equals the count unless [`burst`](Quota::burst)
/// replaces it, and it leaves the long-run rate, count over period, as it is.
///
/// # Text form
///
/// `COUNT / [N] UNIT [; burst = B]`, where the word `per` may stand for the `/`
/// and the period is one unit if `N` is left out. Case and the whitespace around
/// tokens are ignored. Numbers are digits only. A plain `m` is refused, as it may be
/// meant as minute, month or milli.
///
/// | Unit  | Also accepted                                     |
/// |-------|---------------------------------------------------|
/// | `ns`  | `nanosecond`, `nanoseconds`                       |
/// | `us`  | `µs` (either mu), `microsecond`, `microseconds`   |
/// | `ms`  | `millisecond`, `milliseconds`                     |
/// | `s`   | `sec`, `secs`, `second`, `seconds`                |
/// | `min` | `mins`, `minute`, `minutes`                       |
/// | `h`   | `hr`, `hrs`, `hour`, `hours`                      |
/// | `d`   | `day`, `days`                                     |
///
/// `Display` writes the canonical form: the largest unit that divides the period,
/// and `N` and the burst only where they differ from their defaults. It parses
/// back to the same quota, unless a part is zero: such a quota can be displayed,
/// but its text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    count: u64,
    period: Duration,
    burst: u64,
}

impl Quota {
    /// `count` permits per second.
    pub const fn per_second(count: u64) -> Quota {
        Quota::per(count, Duration::from_secs(1))
    }

    /// `count` permits per minute.
    pub const fn per_minute(count: u64) -> Quota {
        Quota::per(count, Duration::from_mins(1))
    }

    /// `count` permits per hour.
    pub const fn per_hour(count: u64) -> Quota {
        Quota::per(count, Duration::from_hours(1))
    }

    /// `count` permits per day of 24 hours.
    pub const fn per_day(count: u64) -> Quota {
        Quota::per(count, Duration::from_hours(24))
    }

    /// `count` permits per `period`, with a burst of `count`.
    ///
    /// Every `u64` and every `Duration` is taken; a quota no limiter can work with
    /// is reported by [`validate`](Quota::validate) or when the limiter is built.
    pub const fn per(count: u64, period: Duration) -> Quota {
        Quota { count, period, burst: count }
    }

    /// The same rate with a burst of `burst` permits, any `u64`.
    #[must_use]
    pub const fn burst(self, burst: u64) -> Quota {
        Quota { burst, ..self }
    }

    /// Permits per period.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The time over which [`count`](Quota::count) permits are handed out.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// The burst: permits that can pass at once after idling.
    pub const fn capacity(&self) -> u64 {
        self.burst
    }

    /// Checks that no part is zero.
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// const API: Quota = Quota::per_minute(700);
    /// const _: () = assert!(API.validate().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// The first that applies of [`QuotaError::ZeroCount`],
    /// [`QuotaError::ZeroPeriod`] and [`QuotaError::ZeroBurst`].
    pub const fn validate(&self) -> Result<(), QuotaError> {
        if self.count == 0 {
            Err(QuotaError::ZeroCount)
        } else if self.period.is_zero() {
            Err(QuotaError::ZeroPeriod)
        } else if self.burst == 0 {
            Err(QuotaError::ZeroBurst)
        } else {
            Ok(())
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.period.as_nanos();
        let (unit, names) = UNITS.iter().rev().find(|(unit, _)| nanos.is_multiple_of(*unit)).unwrap_or(&UNITS[0]);

        write!(f, "{}/", self.count)?;
        if nanos != *unit {
            write!(f, "{}", nanos / unit)?;
        }
        f.write_str(names[0])?;
        if self.burst != self.count {
            write!(f, ";burst={}", self.burst)?;
        }
        Ok(())
    }
}

impl FromStr for Quota {
    type Err = QuotaError;

    /// Parses the [text form](Quota#text-form) and validates the result.
    ///
    /// # Errors
    ///
    /// Any variant of [`QuotaError`], for the case it describes.
    fn from_str(text: &str) -> Result<Quota, QuotaError> {
        let mut parts = text.split(';');
        let rate = parts.next().unwrap_or_default();
        let mut quota = parse_rate(rate.trim_start())?;

        let mut burst = None;
        for option in parts {
            let value = parse_burst(option.trim())?;
            if burst.replace(value).is_some() {
                return Err(QuotaError::DuplicateBurst);
            }
        }
        quota.burst = burst.unwrap_or(quota.burst);

        quota.validate()?;
        Ok(quota)
    }
}

impl TryFrom<&str> for Quota {
    type Error = QuotaError;

    fn try_from(text: &str) -> Result<Quota, QuotaError> {
        text.parse()
    }
}

/// Nanoseconds in a unit, and its names; the first is the one displayed.
type Unit = (u128, &'static [&'static str]);

/// From the shortest, which divides every period, to the longest.
const UNITS: [Unit; 7] = [
    (1, &["ns", "nanosecond", "nanoseconds"]),
    // Unicode has two mus that look alike: the micro sign and the Greek letter.
    (1_000, &["us", "\u{b5}s", "\u{3bc}s", "microsecond", "microseconds"]),
    (1_000_000, &["ms", "millisecond", "milliseconds"]),
    (1_000_000_000, &["s", "sec", "secs", "second", "seconds"]),
    (60_000_000_000, &["min", "mins", "minute", "minutes"]),
    (3_600_000_000_000, &["h", "hr", "hrs", "hour", "hours"]),
    (86_400_000_000_000, &["d", "day", "days"]),
];

fn parse_rate(text: &str) -> Result<Quota, QuotaError> {
    let (count, rest) = split_number(text)?;
    let count = count.ok_or(QuotaError::MissingCount)?;
    let count = u64::try_from(count).map_err(|_| QuotaError::CountTooLarge)?;
    let period = parse_period(strip_separator(rest)?)?;
    Ok(Quota::per(count, period))
}

fn strip_separator(text: &str) -> Result<&str, QuotaError> {
    if let Some(rest) = text.strip_prefix('/') {
        return Ok(rest.trim_start());
    }
    match split_word(text) {
        (word, rest) if word.eq_ignore_ascii_case("per") => Ok(rest),
        _ => Err(QuotaError::MissingSeparator),
    }
}

fn parse_period(text: &str) -> Result<Duration, QuotaError> {
    let (number, rest) = split_number(text)?;
    let (name, rest) = split_word(rest);
    let unit = parse_unit(name)?;
    expect_end(rest)?;

    let nanos = number.unwrap_or(1).saturating_mul(unit);
    if nanos > Duration::MAX.as_nanos() {
        return Err(QuotaError::PeriodTooLong);
    }
    Ok(Duration::from_nanos_u128(nanos))
}

/// Returns the unit's length in nanoseconds.
fn parse_unit(name: &str) -> Result<u128, QuotaError> {
    if name.is_empty() {
        return Err(QuotaError::MissingUnit);
    }
    if name.eq_ignore_ascii_case("m") {
        return Err(QuotaError::AmbiguousUnit);
    }
    UNITS
        .iter()
        .find(|(_, names)| names.iter().any(|n| n.eq_ignore_ascii_case(name)))
        .map(|(nanos, _)| *nanos)
        .ok_or_else(|| QuotaError::UnknownUnit(Excerpt::new(name)))
}

fn parse_burst(option: &str) -> Result<u64, QuotaError> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let name = name.trim_end();
    if !name.eq_ignore_ascii_case("burst") {
        return Err(QuotaError::UnknownOption(Excerpt::new(name)));
    }
    let (burst, rest) = split_number(value.trim_start())?;
    let burst = burst.ok_or(QuotaError::MissingBurst)?;
    expect_end(rest)?;
    u64::try_from(burst).map_err(|_| QuotaError::BurstTooLarge)
}

/// Splits off a leading whole number; one over `u128::MAX` saturates, as every
/// limit it is held to is lower.
fn split_number(text: &str) -> Result<(Option<u128>, &str), QuotaError> {
    // Signs, points and separators are taken along to be refused as part of the number.
    let (number, rest) = split_before(text, |c| !c.is_ascii_digit() && !"+-.,_".contains(c));
    if number.is_empty() {
        return Ok((None, rest));
    }
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuotaError::NotWhole(Excerpt::new(number)));
    }
    Ok((Some(number.parse().unwrap_or(u128::MAX)), rest))
}

fn split_word(text: &str) -> (&str, &str) {
    split_before(text, |c| c.is_whitespace() || c.is_ascii_digit())
}

/// Splits before the first character that is an `end`, and drops the whitespace there.
fn split_before(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    let (token, rest) = text.split_at(text.find(end).unwrap_or(text.len()));
    (token, rest.trim_start())
}

fn expect_end(rest: &str) -> Result<(), QuotaError> {
    if rest.is_empty() { Ok(()) } else { Err(QuotaError::UnexpectedText(Excerpt::new(rest))) }
}

/// Why a quota is refused. The message says what to write instead.
///
/// ```
/// use tollgate::Quota;
///
/// let error = "10/fortnight".parse::<Quota>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown unit \"fortnight\": use ns, us, ms, s, min, h or d",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The text is empty or does not start with a number.
    MissingCount,
    /// Neither `/` nor `per` follows the count.
    MissingSeparator,
    /// The period has no unit.
    MissingUnit,
    /// `burst` has no number.
    MissingBurst,
    /// The number has a sign, a decimal point or a digit separator.
    NotWhole(Excerpt),
    /// The unit is a plain `m`, which may be meant as minute, month or milli.
    AmbiguousUnit,
    /// There is no unit of this name.
    UnknownUnit(Excerpt),
    /// There is no option of this name, empty if nothing follows a `;`.
    UnknownOption(Excerpt),
    /// `burst` is given more than once.
    DuplicateBurst,
    /// The text follows the period or the burst, where only a `;` may.
    UnexpectedText(Excerpt),
    /// The count is over `u64::MAX`.
    CountTooLarge,
    /// The burst is over `u64::MAX`.
    BurstTooLarge,
    /// The period is over `Duration::MAX`.
    PeriodTooLong,
    /// The count is zero.
    ZeroCount,
    /// The period is zero.
    ZeroPeriod,
    /// The burst is zero.
    ZeroBurst,
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingCount => f.write_str("no count: start with a whole number, as in 10/s"),
            Self::MissingSeparator => f.write_str("no / or per after the count: write it as 10/s"),
            Self::MissingUnit => write!(f, "no unit in the period: use {UNIT_NAMES}"),
            Self::MissingBurst => f.write_str("no number for burst: write burst=N, as in burst=20"),
            Self::NotWhole(found) => {
                write!(f, "{found:?} is not a whole number: use digits only")
            }
            Self::AmbiguousUnit => f.write_str("ambiguous unit \"m\": use min for minutes, ms for milliseconds"),
            Self::UnknownUnit(found) => write!(f, "unknown unit {found:?}: use {UNIT_NAMES}"),
            Self::UnknownOption(found) => {
                write!(f, "unknown option {found:?}: the only one is burst=N")
            }
            Self::DuplicateBurst => f.write_str("more than one burst: give it once"),
            Self::UnexpectedText(found) => {
                write!(f, "unexpected {found:?}: only ;burst=N may follow")
            }
            Self::CountTooLarge => write!(f, "count too large: use at most {}", u64::MAX),
            Self::BurstTooLarge => write!(f, "burst too large: use at most {}", u64::MAX),
            Self::PeriodTooLong => write!(f, "period too long: use at most {}s", u64::MAX),
            Self::ZeroCount => f.write_str("zero count: use at least 1"),
            Self::ZeroPeriod => f.write_str("zero period: use at least 1ns"),
            Self::ZeroBurst => f.write_str("zero burst: use at least 1"),
        }
    }
}

impl Error for QuotaError {}

const UNIT_NAMES: &str = "ns, us, ms, s, min, h or d";

/// The start of a refused piece of text, at most 32 bytes of it.
///
/// Held inline, so that parsing never allocates and a `Result` of
/// [`Quota::validate`] can be inspected in a `const`. `Debug` writes it quoted and
/// escaped, followed by `…` if the text goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Excerpt::MAX_LEN],
    len: usize,
    cut: bool,
}

impl Excerpt {
    const MAX_LEN: usize = 32;

    pub(crate) fn new(text: &str) -> Excerpt {
        let len = text.floor_char_boundary(Excerpt::MAX_LEN);
        let mut bytes = [0; Excerpt::MAX_LEN];
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        Excerpt { bytes, len, cut: len < text.len() }
    }

    /// The text, up to the cut.
    pub fn as_str(&self) -> &str {
        // Never the default: `new` copies whole characters.
        str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.cut { "…" } else { "" };
        write!(f, "{:?}{mark}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Quota, QuotaError> {
        text.parse()
    }

    #[test]
    fn parses_every_spelling() {
        let cases = [
            ("10/s", Quota::per_second(10)),
            ("700/min", Quota::per_minute(700)),
            ("3/h", Quota::per_hour(3)),
            ("10/13s", Quota::per(10, Duration::from_secs(13))),
            ("5/50ms", Quota::per(5, Duration::from_millis(50))),
            ("10 per 2 minutes", Quota::per(10, Duration::from_mins(2))),
            ("10PER2Min", Quota::per(10, Duration::from_mins(2))),
            ("1/day;burst=2", Quota::per_day(1).burst(2)),
            (" 10 / s ;\tBurst = 20 ", Quota::per_second(10).burst(20)),
            ("007/01s", Quota::per_second(7)),
        ];
        for (text, quota) in cases {
            assert_eq!(parse(text), Ok(quota), "{text}");
        }
    }

    #[test]
    fn parses_every_unit_name() {
        for (nanos, names) in UNITS {
            let quota = Quota::per(1, Duration::from_nanos_u128(nanos));
            for name in names {
                assert_eq!(parse(&format!("1/{name}")), Ok(quota));
                let upper = name.to_ascii_uppercase();
                assert_eq!(parse(&format!("1/1 {upper}")), Ok(quota));
            }
        }
    }

    #[test]
    fn displays_the_canonical_form() {
        let cases = [
            ("10 per second", "10/s"),
            ("700/60s", "700/min"),
            ("1/24h;burst=1", "1/d"),
            ("1/25h", "1/25h"),
            ("5/50000us;burst=7", "5/50ms;burst=7"),
        ];
        for (text, canonical) in cases {
            assert_eq!(parse(text).unwrap().to_string(), canonical);
        }
        let zero = Quota::per(0, Duration::ZERO).burst(1);
        assert_eq!(zero.to_string(), "0/0d;burst=1");
    }

    #[test]
    fn refuses_with_a_typed_error() {
        use QuotaError::*;
        let found = Excerpt::new;
        let cases = [
            ("", MissingCount),
            (" ;burst=2", MissingCount),
            ("ten/s", MissingCount),
            ("/s", MissingCount),
            ("10", MissingSeparator),
            ("10 s", MissingSeparator),
            ("10 persecond", MissingSeparator),
            ("10/", MissingUnit),
            ("10 per 5", MissingUnit),
            ("10/m", AmbiguousUnit),
            ("10/5M", AmbiguousUnit),
            ("10/2/s", UnknownUnit(found("/s"))),
            ("10/s🦀", UnknownUnit(found("s🦀"))),
            ("-1/s", NotWhole(found("-1"))),
            ("1_000/s", NotWhole(found("1_000"))),
            ("10/1.5s", NotWhole(found("1.5"))),
            ("10/s;burst=+2", NotWhole(found("+2"))),
            ("10/s burst=2", UnexpectedText(found("burst=2"))),
            ("10/s;burst=2x", UnexpectedText(found("x"))),
            ("10/s;", UnknownOption(found(""))),
            ("10/s;size=2", UnknownOption(found("size"))),
            ("10/s;burst", MissingBurst),
            ("10/s;burst=", MissingBurst),
            ("10/s;burst=2;burst=2", DuplicateBurst),
            ("18446744073709551616/s", CountTooLarge),
            ("1/s;burst=18446744073709551616", BurstTooLarge),
            ("1/18446744073709551616s", PeriodTooLong),
            ("1/999999999999999999999999999999999999999d", PeriodTooLong),
            ("0/0s;burst=0", ZeroCount),
            ("1/0s;burst=0", ZeroPeriod),
            ("1/s;burst=0", ZeroBurst),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn cuts_an_excerpt_at_a_character() {
        let excerpt = Excerpt::new(&"€".repeat(11));
        assert_eq!(excerpt.as_str(), "€".repeat(10));
        assert_eq!(format!("{excerpt:?}"), format!("\"{}\"…", "€".repeat(10)));
    }

    fn any_period() -> impl Strategy<Value = Duration> {
        let whole_units =
            (0..UNITS.len(), 1..1_000_u128).prop_map(|(unit, n)| Duration::from_nanos_u128(n * UNITS[unit].0));
        prop_oneof![Just(Duration::MAX), any::<Duration>(), whole_units]
    }

    proptest! {
        #[test]
        fn display_round_trips(
            count in 1..=u64::MAX,
            period in any_period().prop_filter("zero", |period| !period.is_zero()),
            burst in proptest::option::of(1..=u64::MAX),
        ) {
            let quota = Quota::per(count, period).burst(burst.unwrap_or(count));
            prop_assert_eq!(parse(&quota.to_string()), Ok(quota));
        }

        #[test]
        fn any_text_gives_a_valid_quota_or_a_short_message(
            text in prop_oneof![
                any::<String>(),
                "[0-9]{0,50} ?(/|per|) ?[0-9]{0,50} ?[a-zµ🦀]{0,50} ?(; ?burst ?= ?[0-9+._-]{0,50}){0,3}",
            ],
        ) {
            match parse(&text) {
                Ok(quota) => prop_assert_eq!(quota.validate(), Ok(())),
                Err(error) => prop_assert!(error.to_string().len() < 400),
            }
        }
    }
}
