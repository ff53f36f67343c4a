//! The scripts that decide, in Lua, inside the store.
//!
//! A state is three numbers x, y, z, and an algorithm a few lines that work on them: `look` brings what was found up to now
//! and sees whether the cost fits, `take` charges it, `keep` says for how long the state counts, `undo` puts back. Those
//! lines stand once, and two kinds of scripts are put together of them:
//!
//! - For a charge by one limit, what nearly every call is: straight through, in locals. The server runs the whole text for
//!   each call, so every function, table or string that is made on the way is paid for by all.
//! - For everything else, and for several limits at once: the same lines in functions, in a loop over the limits. There is
//!   one for each algorithm, and one that knows all of them.
//!
//! The log reads its state as it goes, and has the second kind only.
//!
//! `KEYS` are the keys of the limits. `ARGV[1]` is all numbers, as little-endian doubles, which one call unpacks: the time
//! in microseconds, or -1 for the server's own; how many milliseconds to keep keys beyond need; for each limit its cost,
//! limit, a, b, c (named by the algorithm) and algorithm; what to do, and the mark of the charge to return. A charge's mark
//! is the second number of a token bucket's or a log's state, and the start of a window.
//!
//! The answer is one string of such numbers too, which both sides have at less cost than an array: whether all was taken or
//! how much was put back, the time, and for each limit whether the cost fits, and x, y and z after it. Numbers are whole
//! and below 2^53, up to which a double holds each.

use super::rule::Algorithm;
use redis::Script;
use std::sync::LazyLock;

/// The lines of an algorithm whose state is one string.
struct Lines {
    look: &'static str,
    take: &'static str,
    keep: &'static str,
    undo: &'static str,
}

macro_rules! lines {
    ($directory:literal) => {
        Lines {
            look: include_str!(concat!("script/", $directory, "/look.lua")),
            take: include_str!(concat!("script/", $directory, "/take.lua")),
            keep: include_str!(concat!("script/", $directory, "/keep.lua")),
            undo: include_str!(concat!("script/", $directory, "/undo.lua")),
        }
    };
}

const TOKEN_BUCKET: Lines = lines!("token_bucket");
const FIXED_WINDOW: Lines = lines!("fixed_window");
const SLIDING_COUNTER: Lines = lines!("sliding_counter");
const SLIDING_LOG: &str = include_str!("script/sliding_log.lua");

const SINGLE: &str = include_str!("script/single.lua");
const SEVERAL: &str = include_str!("script/several.lua");
const CLOCK: &str = include_str!("script/clock.lua");
const READ: &str = include_str!("script/read.lua");
const TTL: &str = include_str!("script/ttl.lua");
const WRITE: &str = include_str!("script/write.lua");
const DECIDE: &str = include_str!("script/decide.lua");

/// Somebody may have taken the time to live off a key.
const HAS_NO_END: &str = "found and call('PTTL', key) == -1";
const EXPIRE: &str = "call('PEXPIRE', key, ttl)\n";

/// A script, and the hash by which the store knows it.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) hash: String,
}

impl Source {
    fn new(text: String) -> Self {
        let hash = Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// For a charge by one limit.
    fn single(algorithm: Algorithm) -> Self {
        let Some(Lines { look, take, keep, .. }) = lines_of(algorithm) else { return Self::several(&[algorithm]) };
        let tag = algorithm.number();
        Self::new(format!(
            "{SINGLE}local tag = {tag}\n{CLOCK}{READ}{look}\
             if fits then\n{take}{keep}{TTL}{WRITE}\
             elseif {HAS_NO_END} then\n{keep}{TTL}{EXPIRE}end\n\
             local one = fits and 1 or 0\nreturn struct.pack('<dddddd', one, now, one, x, y, z)\n"
        ))
    }

    /// For whatever is to be done, with limits of these algorithms.
    fn several(algorithms: &[Algorithm]) -> Self {
        let rules: String = algorithms.iter().map(|&algorithm| functions(algorithm)).collect();
        Self::new(format!(
            "{SEVERAL}{CLOCK}\
             local function expire(it)\nlocal key, keep = it.key, it.rule.keep(it)\n{TTL}{EXPIRE}end\n\
             local function repair(it)\nlocal key, found = it.key, it.found\nif {HAS_NO_END} then expire(it) end\nend\n\
             {rules}{DECIDE}"
        ))
    }
}

fn lines_of(algorithm: Algorithm) -> Option<Lines> {
    match algorithm {
        Algorithm::TokenBucket => Some(TOKEN_BUCKET),
        Algorithm::FixedWindow => Some(FIXED_WINDOW),
        Algorithm::SlidingCounter => Some(SLIDING_COUNTER),
        Algorithm::SlidingLog => None,
    }
}

/// An algorithm as functions of a table, which holds a limit and what is known of the client.
fn functions(algorithm: Algorithm) -> String {
    /// The fields of the table that the lines work on.
    const FIELDS: &str = "local key, cost, limit, a, b, c = it.key, it.cost, it.limit, it.a, it.b, it.c\n";
    const STATE: &str = "local x, y, z = it.x, it.y, it.z\n";
    let tag = algorithm.number();
    let rule = match lines_of(algorithm) {
        None => SLIDING_LOG.to_owned(),
        Some(Lines { look, take, keep, undo }) => format!(
            "local tag = {tag}\n\
             function rule.look(it)\n{FIELDS}{READ}{look}\
             it.found, it.fits, it.x, it.y, it.z = found, fits, x, y, z\nend\n\
             function rule.keep(it)\n{FIELDS}{STATE}{keep}return keep\nend\n\
             local function save(it)\n{FIELDS}{STATE}local keep = rule.keep(it)\n{TTL}{WRITE}end\n\
             function rule.take(it)\n{FIELDS}{STATE}{take}it.x, it.y, it.z = x, y, z\nsave(it)\nend\n\
             {undo}"
        ),
    };
    format!("do\nlocal rule = {{}}\nalgorithms[{tag}] = rule\n{rule}end\n")
}

/// The script for a charge by one limit of this algorithm.
pub(super) fn single(algorithm: Algorithm) -> &'static Source {
    static SINGLE: LazyLock<[Source; 4]> = LazyLock::new(|| Algorithm::ALL.map(Source::single));
    &SINGLE[algorithm.index()]
}

/// The script for anything else, with limits of these algorithms.
pub(super) fn several(algorithms: impl IntoIterator<Item = Algorithm>) -> &'static Source {
    static ONE: LazyLock<[Source; 4]> = LazyLock::new(|| Algorithm::ALL.map(|algorithm| Source::several(&[algorithm])));
    static ALL: LazyLock<Source> = LazyLock::new(|| Source::several(&Algorithm::ALL));
    let mut algorithms = algorithms.into_iter();
    match algorithms.next() {
        Some(first) if algorithms.all(|algorithm| algorithm == first) => &ONE[first.index()],
        _ => &ALL,
    }
}
