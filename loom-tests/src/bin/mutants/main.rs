//! Shows that the models can fail: weakens the core in one place at a time, each guard and each ordering that is not
//! relaxed, and says which model notices.
//!
//! `cargo run --release -p loom-tests --bin mutants [PART-OF-A-NAME]...`. Works on a copy below `target/mutants`. Ends with an
//! error if a mutation survives, or no longer matches the source.

mod list;

use list::{MUTATIONS, UNMISSED};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs, io};

/// Seconds for one model, which then ends, and says what it has seen.
const LONGEST_MODEL: &str = "30";
/// Seconds for a file of models, or one of them, that a mutation may have sent astray.
const LONGEST: &str = "900";

struct Mutation {
    name: &'static str,
    file: &'static str,
    /// What stands in the file, once, and what is put in its place.
    text: &'static str,
    with: &'static str,
    /// The models to try, in order: `file::model`, or all of a file.
    models: &'static [&'static str],
}

fn main() -> ExitCode {
    let parts: Vec<String> = env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let copy = root.join("target/mutants/tree");
    match run(&root, &copy, &parts) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, copy: &Path, parts: &[String]) -> io::Result<usize> {
    for part in ["src", "loom-tests", "benches", "examples", "tests"] {
        copy_tree(&root.join(part), &copy.join(part))?;
    }
    for part in ["Cargo.toml", "Cargo.lock", "README.md"] {
        fs::copy(root.join(part), copy.join(part))?;
    }
    let is_chosen = |mutation: &&Mutation| parts.is_empty() || parts.iter().any(|part| mutation.name.contains(part));
    let chosen: Vec<&Mutation> = MUTATIONS.iter().filter(is_chosen).collect();
    let mut models: Vec<&str> = chosen.iter().flat_map(|mutation| mutation.models).copied().collect();
    models.sort_unstable();
    models.dedup();
    // One of a file is run with the file.
    let files = models.clone();
    models.retain(|model| !files.iter().any(|file| model.starts_with(&format!("{file}::"))));
    if let Some(failed) = killer(copy, &["2"], &models)? {
        return Err(io::Error::other(format!("{failed} fails without any mutation")));
    }
    let (start, mut killed, mut explained, mut bad) = (Instant::now(), 0, 0, 0);
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
            Some(killer) => {
                println!("killed by {killer}");
                killed += 1;
            }
            None if UNMISSED.contains(&mutation.name) => {
                println!("survives, as the list explains");
                explained += 1;
            }
            None => {
                println!("SURVIVES");
                bad += 1;
            }
        }
        fs::write(&path, source)?;
    }
    let (all, time) = (chosen.len(), start.elapsed());
    println!("{all} mutations in {time:.0?}: {killed} killed, {explained} survive and are explained, {bad} bad");
    Ok(bad)
}

/// The first model that fails, if one does: sought with few preemptions first, which is quick.
fn killer(copy: &Path, bounds: &[&str], models: &[&str]) -> io::Result<Option<String>> {
    for (preemptions, model) in bounds.iter().flat_map(|bound| models.iter().map(move |model| (bound, model))) {
        let (file, name) = model.split_once("::").map_or((*model, None), |(file, name)| (file, Some(name)));
        let output = Command::new("timeout")
            .current_dir(copy)
            .env("RUSTFLAGS", "--cfg tollgate_loom -A warnings")
            .env("CARGO_TARGET_DIR", copy.join("../target"))
            .env("RUST_BACKTRACE", "0")
            .env("TOLLGATE_PREEMPTIONS", preemptions)
            .env("TOLLGATE_SECONDS", LONGEST_MODEL)
            .args([LONGEST, "cargo", "test", "--profile", "models", "-p", "loom-tests", "--test", file])
            .args(["--", "--test-threads", "1"])
            .args(name.into_iter().flat_map(|name| ["--exact", name]))
            .output()?;
        // A mutation may send a model astray; then another bound or another model has to notice.
        if output.status.success() || output.status.code() == Some(124) {
            continue;
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut results = printed.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
        // Who crashes has no result.
        return match results.find(|(_, result)| !result.starts_with("ok")) {
            Some((failed, _)) => Ok(Some(format!("{file}::{failed}"))),
            None => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        };
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
