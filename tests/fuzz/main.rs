//! The bodies of the fuzz targets in `fuzz/`, run here on a bounded number of random inputs.

#[cfg(feature = "tower")]
mod client;
mod quota;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Random bytes, and random sequences of what means something to one of the parsers.
fn input(pieces: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let pieces = vec(select(pieces), 0..40).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![vec(any::<u8>(), 0..200), pieces.clone(), pieces, (vec(any::<u8>(), 0..4)).prop_map(|b| b.repeat(50))]
}

const QUOTA_PIECES: &[&str] = &[
    "1",
    "0",
    "10",
    "18446744073709551615",
    "340282366920938463463374607431768211456",
    "/",
    "per",
    "s",
    "min",
    "ms",
    "µs",
    "m",
    "d",
    " ",
    "\t",
    ";",
    "burst",
    "=",
    "-",
    ".",
    "€",
    "ns",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_a_quota_or_an_error(data in input(QUOTA_PIECES)) {
        quota::parse(&data);
    }
}

#[cfg(feature = "tower")]
mod with_tower {
    use super::*;
    use client::Outcome;
    use proptest::test_runner::{Config, TestRunner};
    use std::cell::Cell;

    const HEADER_PIECES: &[&str] = &[
        ",",
        ", ",
        ";",
        "=",
        "\"",
        "\\",
        "\\\"",
        "for",
        "for=",
        "For=\"",
        "by=",
        "proto=https",
        "[",
        "]",
        ":",
        "::",
        "_",
        "a",
        "unknown",
        "203.0.113.9",
        "10.0.0.2",
        "[2001:db8::1]",
        "::ffff:",
        ":80",
        " ",
        "\t",
        "\n",
        "Bearer ",
        "/8",
        "0",
        "1",
        "\u{e9}",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn any_headers_leave_a_client_what_it_is(data in input(HEADER_PIECES)) {
            client::headers(&data);
        }

        #[test]
        fn any_text_is_a_network_or_an_error(data in input(HEADER_PIECES)) {
            client::network(&data);
        }
    }

    #[test]
    fn the_walk_agrees_with_a_naive_one_and_ends_in_every_way() {
        let seen: [Cell<u32>; Outcome::ALL.len()] = Default::default();
        let mut runner = TestRunner::new(Config { cases: 5_000, ..Config::default() });
        runner
            .run(&vec(any::<u8>(), 0..150), |data| {
                let outcome = client::walk(&data);
                let seen = &seen[Outcome::ALL.iter().position(|&known| known == outcome).unwrap()];
                seen.set(seen.get() + 1);
                Ok(())
            })
            .unwrap();
        for (outcome, seen) in Outcome::ALL.iter().zip(&seen) {
            assert!(seen.get() >= 50, "{outcome:?}: {}", seen.get());
        }
    }
}
