//! What tests of examples share.

use std::path::PathBuf;

/// Where the built example of this name is.
///
/// `cargo test` builds it; `cargo test --test NAME` alone does not, and would test whatever was built before.
pub fn example(name: &str) -> PathBuf {
    // Tests are in target/<profile>/deps, examples in target/<profile>/examples.
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let program = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        program.exists(),
        "{} is missing: build it with `cargo build --example {name}`, or `cargo build --release --example {name}` for \
         tests in release mode",
        program.display(),
    );
    program
}
