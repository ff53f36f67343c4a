//! The bodies of the targets, which `cargo test --all-features --test fuzz` runs too, on fewer inputs.
//!
//! ```text
//! cargo install cargo-fuzz
//! cargo +nightly fuzz run walk
//! ```

#[path = "../../tests/fuzz/client.rs"]
pub mod client;
#[path = "../../tests/fuzz/quota.rs"]
pub mod quota;
