//! The scripts that decide, in Lua, inside the store.
//!
//! A script is put together of a prelude, the algorithms it knows, and what is common to all decisions. There is one for
//! each algorithm, and one that knows all of them, for decisions over limits of several.

use super::rule::Algorithm;
use redis::Script;
use std::sync::LazyLock;

const PRELUDE: &str = include_str!("script/prelude.lua");
const TOKEN_BUCKET: &str = include_str!("script/token_bucket.lua");
const FIXED_WINDOW: &str = include_str!("script/fixed_window.lua");
const SLIDING_COUNTER: &str = include_str!("script/sliding_counter.lua");
const SLIDING_LOG: &str = include_str!("script/sliding_log.lua");
const DECIDE: &str = include_str!("script/decide.lua");

/// A script, and the hash by which the store knows it.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) hash: String,
}

impl Source {
    fn of(algorithms: &[&str]) -> Self {
        let text = [&[PRELUDE], algorithms, &[DECIDE]].concat().concat();
        let hash = Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }
}

/// The script for limits of these algorithms.
pub(super) fn script(algorithms: impl IntoIterator<Item = Algorithm>) -> &'static Source {
    static SINGLE: LazyLock<[Source; 4]> = LazyLock::new(|| {
        [TOKEN_BUCKET, FIXED_WINDOW, SLIDING_COUNTER, SLIDING_LOG].map(|algorithm| Source::of(&[algorithm]))
    });
    static ALL: LazyLock<Source> =
        LazyLock::new(|| Source::of(&[TOKEN_BUCKET, FIXED_WINDOW, SLIDING_COUNTER, SLIDING_LOG]));
    let mut algorithms = algorithms.into_iter();
    match algorithms.next() {
        Some(first) if algorithms.all(|algorithm| algorithm == first) => &SINGLE[first as usize],
        _ => &ALL,
    }
}
