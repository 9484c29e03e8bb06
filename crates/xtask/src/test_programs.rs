//! The programs of tests that cargo builds, and runs of them side by side: many wait for most of their time.
//! Must not: know what a test is about.
//! Runs on the main thread of xtask, and on threads of its own that wait for the programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::root;

/// A program of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestProgram {
    pub package: String,
    /// `lib`, or a program of the package, or a file of its `tests/`.
    pub name: String,
    /// Where its package is: tests run there.
    pub directory: PathBuf,
    pub path: PathBuf,
}

/// Builds those that `cargo test` with these arguments runs, in cargo's order.
pub fn build(arguments: &[&str]) -> Result<Vec<TestProgram>> {
    let first = ["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    println!("+ cargo {} {}", first.join(" "), arguments.join(" "));
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(first)
        .args(arguments)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo test --no-run {} failed", arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect())
}

/// The program that a message of cargo's tells of, if it is one of tests.
fn program(line: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(line).ok()?;
    message["profile"]["test"].as_bool()?.then_some(())?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let target = &message["target"];
    let name = match target["kind"][0].as_str()? {
        "lib" => "lib",
        _ => target["name"].as_str()?,
    };
    // `path+file:///DIRECTORY#NAME@VERSION`, or `#VERSION` where the directory has the name.
    let (place, version) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = match version.split_once('@') {
        Some((package, _)) => package,
        None => place.rsplit('/').next()?,
    };
    Some(TestProgram {
        package: package.to_owned(),
        name: name.to_owned(),
        directory: manifest.parent()?.to_owned(),
        path: message["executable"].as_str()?.into(),
    })
}

/// Runs all, so many at a time, each with so many threads; what each has said is printed when it has ended.
///
/// # Errors
/// Which of them failed.
pub fn run(
    programs: &[TestProgram],
    (at_once, threads): (usize, usize),
    variables: &[(&str, &str)],
) -> Result<()> {
    let (left, failed) = (Mutex::new(programs.iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let next = left.lock().ok().and_then(|mut left| left.next());
            let Some(program) = next else { return };
            let name = format!("{}/{}", program.package, program.name);
            println!("begins: {name}");
            if let Err(why) = run_one(program, &name, threads, variables) {
                println!("{name}: {why:#}");
                failed.lock().iter_mut().for_each(|failed| failed.push(name.clone()));
            }
        }
    };
    std::thread::scope(|scope| (0..at_once).for_each(|_| _ = scope.spawn(work)));
    let failed = failed.into_inner().unwrap_or_default();
    ensure!(failed.is_empty(), "these tests failed: {}", failed.join(", "));
    Ok(())
}

fn run_one(
    program: &TestProgram,
    name: &str,
    threads: usize,
    variables: &[(&str, &str)],
) -> Result<()> {
    let began = Instant::now();
    let output = Command::new(&program.path)
        .arg(format!("--test-threads={threads}"))
        .current_dir(&program.directory)
        .env("CARGO_PKG_NAME", &program.package)
        .env("CARGO_MANIFEST_DIR", &program.directory)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .context("cannot be started")?;
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let seconds = began.elapsed().as_secs_f32();
    println!("\n     Ran {name} in {seconds:.1} s\n{said}{errors}");
    ensure!(output.status.success(), "{}", output.status);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(id: &str, (kind, is_test): (&str, bool), expected: Option<(&str, &str)>) {
        let line = serde_json::json!({
            "package_id": id, "manifest_path": "/w/crates/xtask/Cargo.toml",
            "target": {"kind": [kind], "name": "shortage"}, "profile": {"test": is_test},
            "executable": "/w/target/debug/deps/shortage-1",
        });
        let found = program(&line.to_string()).map(|found| (found.package, found.name));
        let expected = expected.map(|(package, name)| (package.to_owned(), name.to_owned()));
        assert_eq!(found, expected, "{id}");
    }

    #[test]
    fn programs_have_the_names_of_their_packages() {
        let named = "path+file:///w/crates/manager#warren-manager@0.1.0";
        check(named, ("test", true), Some(("warren-manager", "shortage")));
        check(named, ("lib", true), Some(("warren-manager", "lib")));
        check("path+file:///w/crates/xtask#0.1.0", ("bin", true), Some(("xtask", "shortage")));
        check(named, ("bin", false), None);
        check("nonsense", ("lib", true), None);
        assert_eq!(program("{\"reason\":\"build-finished\"}"), None);
    }
}
