//! Stretches of time as text.

pub const SECOND: u64 = 1_000_000_000;
pub const DAY: u64 = 86_400 * SECOND;
pub const YEAR: u64 = 31_557_600 * SECOND;

/// A unit of time.
#[derive(Clone, Copy)]
pub struct Unit {
    nanos: u64,
    name: &'static str,
    /// How many decimals it takes to be exact to the nanosecond; `None` where no number is enough.
    decimals: Option<usize>,
}

/// From the longest to the one of which everything is a whole number.
const UNITS: [Unit; 7] = [
    Unit { nanos: DAY, name: "d", decimals: None },
    Unit { nanos: 3600 * SECOND, name: "h", decimals: None },
    Unit { nanos: 60 * SECOND, name: "min", decimals: None },
    Unit { nanos: SECOND, name: "s", decimals: Some(9) },
    Unit { nanos: 1_000_000, name: "ms", decimals: Some(6) },
    Unit { nanos: 1_000, name: "us", decimals: Some(3) },
    NANOSECOND,
];

const NANOSECOND: Unit = Unit { nanos: 1, name: "ns", decimals: Some(0) };

impl Unit {
    /// The one to label multiples of `step` in, none above `longest`. Where decimals do, it is not much below `scale`.
    pub fn of_labels(step: u64, scale: u64, longest: u64) -> Self {
        let suits = |unit: &&Self| {
            unit.nanos <= longest
                && (step.is_multiple_of(unit.nanos) || (unit.decimals.is_some() && unit.nanos <= scale))
        };
        UNITS.iter().find(suits).copied().unwrap_or(NANOSECOND)
    }

    /// Nanoseconds in this unit, exactly.
    pub fn text(self, nanos: u64) -> String {
        let (whole, rest) = (nanos / self.nanos, nanos % self.nanos);
        let fraction = match self.decimals {
            Some(decimals) if rest > 0 => format!(".{rest:0decimals$}"),
            _ => String::new(),
        };
        format!("{whole}{}{}", fraction.trim_end_matches('0'), self.name)
    }
}

/// A stretch of time in the longest unit of which it is a whole number.
pub fn text(nanos: u64) -> String {
    Unit::of_labels(nanos, 0, DAY).text(nanos)
}
