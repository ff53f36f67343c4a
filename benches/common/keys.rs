//! Which client calls next.

use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A cheap stream of random numbers, the same for every subject.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Different seeds give different streams.
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds would start alike, and 0 would stay 0.
        Self(scatter(seed + 1))
    }

    /// A stream that is another in each run.
    pub fn unlike_before() -> Self {
        Self::new(std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64))
    }

    #[inline]
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`, which is at most 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.number() >> 32) * bound) >> 32
    }

    /// At least 0 and less than 1.
    fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Another number for each, in no order that a table could like.
const fn scatter(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// What clients are known by.
pub trait Key: Hash + Eq + Ord + Clone + Send + Sync + 'static {
    /// The key of a client with that number: another for each.
    fn of(number: u64) -> Self;
}

impl Key for u64 {
    #[inline]
    fn of(number: u64) -> Self {
        number
    }
}

/// Half of them IPv4, half IPv6.
impl Key for IpAddr {
    fn of(number: u64) -> Self {
        match number % 2 {
            0 => Ipv4Addr::from_bits(scatter(number) as u32).into(),
            _ => Ipv6Addr::from_bits((0x2001_0db8 << 96) | u128::from(scatter(number))).into(),
        }
    }
}

/// 24 bytes each.
impl Key for String {
    fn of(number: u64) -> Self {
        format!("client-{number:017}")
    }
}

/// The key of limiters that have none.
impl Key for () {
    #[inline]
    fn of(_: u64) {}
}

/// How clients are spread over the calls.
#[derive(Clone, Debug)]
pub enum Spread {
    /// All as often as each other.
    Uniform(u64),
    /// Drawn beforehand, for a distribution that takes longer to draw from than a check takes.
    Drawn(Arc<[u32]>),
}

impl Spread {
    /// The client of rank r calls in proportion to r^-0.99.
    pub fn zipf(clients: u32) -> Self {
        const DRAWN: usize = 1 << 20;
        let mut sums = Vec::with_capacity(clients as usize);
        let mut sum = 0.0;
        for rank in 1..=clients {
            sum += f64::from(rank).powf(-0.99);
            sums.push(sum);
        }
        let mut draw = Draw::new(0);
        let mut rank = || sums.partition_point(|&upto| upto <= draw.fraction() * sum) as u32;
        Self::Drawn((0..DRAWN).map(|_| rank()).collect())
    }
}

/// The numbers of the clients whose calls come, on one thread.
#[derive(Clone, Debug)]
pub struct Keys {
    draw: Draw,
    spread: Spread,
    at: usize,
}

impl Keys {
    /// Another seed gives other clients.
    pub fn new(spread: &Spread, seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let at = match spread {
            Spread::Uniform(_) => 0,
            Spread::Drawn(numbers) => draw.below(numbers.len() as u64) as usize,
        };
        Self { draw, spread: spread.clone(), at }
    }

    #[inline]
    pub fn number(&mut self) -> u64 {
        match &self.spread {
            Spread::Uniform(clients) => self.draw.below(*clients),
            Spread::Drawn(numbers) => {
                self.at = if self.at + 1 < numbers.len() { self.at + 1 } else { 0 };
                numbers[self.at].into()
            }
        }
    }
}
