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
//! `KEYS` are the keys of the limits. `ARGV[1]` is all numbers, as little-endian doubles, which one call unpacks: the time
//! in microseconds, or -1 for the server's own; how many milliseconds to keep keys beyond need; and for each limit its cost,
//! limit, a, b and c, named by the algorithm. The second kind is also told what to do, the mark of the charge to return, and
//! for each limit its algorithm. A charge's mark is the second number of a token bucket's or a log's state, and the start
//! of a window.
//!
//! The answer has for each limit its state after the decision: a byte for the algorithm, or 0 if the cost does not fit, and
//! as such doubles a, x, y, z and the time. That is what is stored too, but for the log, which has a list; so a charge by
//! one limit makes one string, writes it, and answers by it. The second kind adds whether all was taken, or how much was
//! put back. Numbers are whole and below 2^53, up to which a double holds each.

use super::rule::Algorithm;
use redis::Script;
use std::sync::LazyLock;

/// The lines of an algorithm.
struct Lines {
    /// Functions that the others use.
    help: &'static str,
    read: &'static str,
    look: &'static str,
    take: &'static str,
    keep: &'static str,
    /// Writes the state, and for how long to keep it.
    save: &'static str,
    undo: &'static str,
    /// What `take` and `undo` know of `look` beside the state.
    known: &'static [&'static str],
}

/// The lines of an algorithm whose state is one string.
macro_rules! lines {
    ($directory:literal) => {
        Lines {
            help: "",
            read: include_str!("script/read.lua"),
            look: include_str!(concat!("script/", $directory, "/look.lua")),
            take: include_str!(concat!("script/", $directory, "/take.lua")),
            keep: include_str!(concat!("script/", $directory, "/keep.lua")),
            save: include_str!("script/write.lua"),
            undo: include_str!(concat!("script/", $directory, "/undo.lua")),
            known: &[],
        }
    };
}

const TOKEN_BUCKET: Lines = lines!("token_bucket");
const FIXED_WINDOW: Lines = lines!("fixed_window");
const SLIDING_COUNTER: Lines = lines!("sliding_counter");
const SLIDING_LOG: Lines = Lines {
    help: include_str!("script/sliding_log/list.lua"),
    read: "",
    save: EXPIRE,
    known: &["from", "total", "instant"],
    ..lines!("sliding_log")
};

const SINGLE: &str = include_str!("script/single.lua");
const SEVERAL: &str = include_str!("script/several.lua");
const CLOCK: &str = include_str!("script/clock.lua");
const TTL: &str = include_str!("script/ttl.lua");
const PACK: &str = include_str!("script/pack.lua");
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
        let Lines { help, read, look, take, keep, save, .. } = lines_of(algorithm);
        let tag = algorithm.number();
        Self::new(format!(
            "{SINGLE}local tag = {tag}\n{CLOCK}{help}{read}{look}\
             if fits then\n{take}{PACK}{keep}{TTL}{save}return state\nend\n\
             if {HAS_NO_END} then\n{keep}{TTL}{EXPIRE}end\n\
             tag = 0\n{PACK}return state\n"
        ))
    }

    /// For whatever is to be done, with limits of these algorithms.
    fn several(algorithms: &[Algorithm]) -> Self {
        let rules: String = algorithms.iter().map(|&algorithm| functions(algorithm)).collect();
        Self::new(format!(
            "{SEVERAL}{CLOCK}\
             local function repair(it)\nlocal key, found = it.key, it.found\n\
             if {HAS_NO_END} then\nlocal keep = it.rule.keep(it)\n{TTL}{EXPIRE}end\nend\n\
             local function state_of(it)\nlocal tag = it.fits and it.rule.tag or 0\n\
             local a, x, y, z = it.a, it.x, it.y, it.z\n{PACK}return state\nend\n\
             {rules}{DECIDE}"
        ))
    }
}

fn lines_of(algorithm: Algorithm) -> Lines {
    match algorithm {
        Algorithm::TokenBucket => TOKEN_BUCKET,
        Algorithm::FixedWindow => FIXED_WINDOW,
        Algorithm::SlidingCounter => SLIDING_COUNTER,
        Algorithm::SlidingLog => SLIDING_LOG,
    }
}

/// An algorithm as functions of a table, which holds a limit and what is known of the client.
fn functions(algorithm: Algorithm) -> String {
    let Lines { help, read, look, take, keep, save, undo, known } = lines_of(algorithm);
    let tag = algorithm.number();
    let known = [&["found", "fits", "x", "y", "z"], known].concat();
    let (learn, recall) = (assign("it.", &known, ""), assign("", &known, "it."));
    let limit = assign("", &["key", "cost", "limit", "a", "b", "c"], "it.");
    format!(
        "do\nlocal tag = {tag}\nlocal rule = {{ tag = tag }}\nalgorithms[tag] = rule\n{help}\
         function rule.look(it)\nlocal {limit}{read}{look}{learn}end\n\
         function rule.keep(it)\nlocal {limit}local {recall}{keep}return keep\nend\n\
         local function save(it)\nlocal {limit}local {recall}{PACK}{keep}{TTL}{save}end\n\
         function rule.take(it)\nlocal {limit}local {recall}{take}it.x, it.y, it.z = x, y, z\nsave(it)\nend\n\
         {undo}end\n"
    )
}

/// An assignment of variables, or fields of a table, to those of the same names.
fn assign(to: &str, names: &[&str], from: &str) -> String {
    let list = |prefix| names.iter().map(|name| format!("{prefix}{name}")).collect::<Vec<_>>().join(", ");
    format!("{} = {}\n", list(to), list(from))
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
