//! Tests that did not run, held against the committed list of those that need not run in CI.
//! Must not: run tests, or judge those that ran.
//! Runs on the main thread of xtask.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::root;

/// A test, as `PACKAGE TEST`, and why it did not run.
type Tests = BTreeMap<String, String>;

/// Where tests write that they do not run; made empty.
pub fn begin() -> Result<PathBuf> {
    let path = root().join("target/not-run.txt");
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(path),
    }
}

/// Tells which tests did not run and are not on the list, and which are on it and ran. In CI (where the variable
/// `WARREN_CI` is set) a new one is an error: it is elsewhere what that machine lacks. `UPDATE_GOLDEN=1` writes the list.
pub fn check(found: &Path) -> Result<()> {
    let list = root().join("crates/xtask/not-run.txt");
    let committed = fs::read_to_string(&list).with_context(|| format!("{}", list.display()))?;
    let text = match fs::read_to_string(found) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        text => text.with_context(|| format!("{}", found.display()))?,
    };
    let found = parse(&text);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(&list, written(&committed, &found)).context("not-run.txt");
    }
    let (new, ran) = compare(&parse(&committed), &found);
    println!("\n{} tests did not run, or not all of them.", found.len());
    ran.iter().for_each(|test| println!("  runs again, strike it from not-run.txt: {test}"));
    new.iter().for_each(|line| println!("  did not run, and is not in not-run.txt: {line}"));
    if !new.is_empty() && std::env::var_os("WARREN_CI").is_some() {
        bail!("{} tests newly do not run", new.len());
    }
    Ok(())
}

/// Lines `PACKAGE TEST<tab>WHY`; `#` begins a comment. A test may say several times that it does not run.
fn parse(text: &str) -> Tests {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| line.split_once('\t').unwrap_or((line, "")))
        .map(|(test, why)| (test.into(), why.into()))
        .collect()
}

/// Tests that are new, with the reason, and those of the list that ran.
fn compare(committed: &Tests, found: &Tests) -> (Vec<String>, Vec<String>) {
    let new = found.iter().filter(|(test, _)| !committed.contains_key(*test));
    let ran = committed.keys().filter(|test| !found.contains_key(*test));
    (new.map(|(test, why)| format!("{test}: {why}")).collect(), ran.cloned().collect())
}

fn written(old: &str, found: &Tests) -> String {
    let comments = old.lines().filter(|line| line.starts_with('#')).map(str::to_owned);
    let lines = found.iter().map(|(test, why)| format!("{test}\t{why}"));
    comments.chain(lines).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_newly_does_not_run_is_told_from_one_that_runs_again() {
        let committed = "# why\na one\tneeds root\na two\tneeds tc(8)\n";
        for (found, new, ran) in [
            ("a two\tneeds tc(8)\na one\tneeds root\na two\tneeds tc(8)\n", "", ""),
            ("a one\tother\nb one\tneeds root\n", "b one: needs root", "a two"),
            ("", "", "a one a two"),
        ] {
            let (found_new, found_ran) = compare(&parse(committed), &parse(found));
            assert_eq!(
                (found_new.join(" ").as_str(), found_ran.join(" ").as_str()),
                (new, ran),
                "{found}"
            );
        }
        assert_eq!(written(committed, &parse("b x\ty\n")), "# why\nb x\ty\n");
    }
}
