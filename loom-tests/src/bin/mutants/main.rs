//! Shows that the models can fail: weakens the core in one place at a time, each guard and each ordering that is not
//! relaxed, and says which model notices.
//!
//! `cargo run --release -p loom-tests --bin mutants [PART-OF-A-NAME]`. Works on a copy below `target/mutants`. Ends with an
//! error if a mutation survives, or no longer matches the source.

mod list;

use list::{MUTATIONS, UNMISSED};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs, io};

/// Seconds for one file of models.
const LONGEST: &str = "60";

struct Mutation {
    name: &'static str,
    file: &'static str,
    /// What stands in the file, once, and what is put in its place.
    text: &'static str,
    with: &'static str,
    /// The model files to try, in order.
    models: &'static [&'static str],
}

fn main() -> ExitCode {
    let wanted = env::args().nth(1).unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let copy = root.join("target/mutants/tree");
    match run(&root, &copy, &wanted) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, copy: &Path, wanted: &str) -> io::Result<usize> {
    for part in ["src", "loom-tests", "benches", "examples", "tests"] {
        copy_tree(&root.join(part), &copy.join(part))?;
    }
    for part in ["Cargo.toml", "Cargo.lock", "README.md"] {
        fs::copy(root.join(part), copy.join(part))?;
    }
    let mut models: Vec<&str> = MUTATIONS.iter().flat_map(|mutation| mutation.models).copied().collect();
    models.sort_unstable();
    models.dedup();
    if let Some(failed) = killer(copy, &["2"], &models)? {
        return Err(io::Error::other(format!("{failed} fails without any mutation")));
    }
    let chosen: Vec<&Mutation> = MUTATIONS.iter().filter(|mutation| mutation.name.contains(wanted)).collect();
    let (start, mut bad) = (Instant::now(), 0);
    for (i, mutation) in chosen.iter().enumerate() {
        let path = copy.join(mutation.file);
        let source = fs::read_to_string(root.join(mutation.file))?;
        print!("{:>2}/{} {:<72} ", i + 1, chosen.len(), mutation.name);
        io::Write::flush(&mut io::stdout())?;
        if source.matches(mutation.text).count() != 1 {
            println!("DOES NOT MATCH {} once", mutation.file);
            bad += 1;
            continue;
        }
        fs::write(&path, source.replacen(mutation.text, mutation.with, 1))?;
        match killer(copy, &["2", "3"], mutation.models)? {
            Some(killer) => println!("killed by {killer}"),
            None if UNMISSED.contains(&mutation.name) => println!("survives, as the list explains"),
            None => {
                println!("SURVIVES");
                bad += 1;
            }
        }
        fs::write(&path, source)?;
    }
    println!("{} mutations, {bad} of them not killed, {:.0?}", chosen.len(), start.elapsed());
    Ok(bad)
}

/// The first model that fails, if one does: sought with few preemptions first, which is quick.
fn killer(copy: &Path, bounds: &[&str], models: &[&str]) -> io::Result<Option<String>> {
    for (preemptions, model) in bounds.iter().flat_map(|bound| models.iter().map(move |model| (bound, model))) {
        let command = |program: &str| {
            let mut command = Command::new(program);
            command
                .current_dir(copy)
                .env("RUSTFLAGS", "--cfg tollgate_loom -A warnings")
                .env("CARGO_TARGET_DIR", copy.join("../target"))
                .env("RUST_BACKTRACE", "0")
                .env("TOLLGATE_PREEMPTIONS", preemptions);
            command
        };
        let test = ["test", "--release", "--quiet", "-p", "loom-tests", "--test", model];
        // Compiling may take its time. What does not compile is told by the run.
        command("cargo").args(test).arg("--no-run").output()?;
        // A mutation may send a model astray; then another bound or another model has to notice.
        let output =
            command("timeout").args([LONGEST, "cargo"]).args(test).args(["--", "--test-threads", "1"]).output()?;
        if output.status.code() == Some(124) {
            continue;
        }
        if !output.status.success() {
            let printed = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let failed = printed.lines().find_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"));
            return match failed {
                Some(name) => Ok(Some(format!("{name} ({model})"))),
                None if printed.contains("running ") => Ok(Some(format!("a crash of {model}"))),
                None => Err(io::Error::other(errors)),
            };
        }
    }
    Ok(None)
}

/// Copies what has changed, so that little has to be compiled again, and removes what is gone.
fn copy_tree(from: &Path, to: &PathBuf) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !from.join(entry.file_name()).exists() {
            if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else if fs::read(entry.path())? != fs::read(&target).unwrap_or_default() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
