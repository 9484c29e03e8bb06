//! Pages that say which test holds what: each test that they name must exist.
//!
//! Must not: run a test, or change a file.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::command::root;

/// The pages, below docs/src. The last cell of each row of their tables has the tests.
const PAGES: &[&str] = &["design/field-reports.md"];

/// What a row says that has none.
const NONE: &str = "not run";

/// Fails when a page names a test that does not exist, or a row has none and does not say so.
pub fn check() -> Result<()> {
    let mut count = 0;
    for page in PAGES {
        let path = root().join("docs/src").join(page);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let (rows, faults) = faults(&text, &exists);
        let shown = faults.join("\n  ");
        ensure!(faults.is_empty() && rows > 0, "docs/src/{page}, {rows} rows:\n  {shown}");
        count += rows;
    }
    println!("tests that pages name: all of {count} rows exist");
    Ok(())
}

/// The rows of a page's tables, and what is wrong with them.
fn faults(page: &str, exists: &dyn Fn(&str) -> bool) -> (usize, Vec<String>) {
    let (mut rows, mut numbers, mut faults) = (0, BTreeSet::new(), Vec::new());
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(number), Some(held_by)) = (cells.first(), cells.last()) else { continue };
        if *number == "#" || number.starts_with("--") {
            continue;
        }
        rows += 1;
        if !numbers.insert(*number) {
            faults.push(format!("{number}: has two rows"));
        }
        let named: Vec<&str> = held_by.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && *held_by != NONE {
            faults.push(format!("{number}: names no test and does not say '{NONE}'"));
        }
        let missing = named.into_iter().filter(|name| !exists(name));
        faults.extend(missing.map(|name| format!("{number}: there is no {name}")));
    }
    (rows, faults)
}

/// Whether there is a test `CRATE/FILE.rs::NAME`, a script `CRATE/FILE.txt`, a case `beside GROUP/CASE` or a command
/// `xtask WORDS`.
fn exists(name: &str) -> bool {
    let crates = root().join("crates");
    let read = |path: &str| fs::read_to_string(crates.join(path)).unwrap_or_default();
    if let Some(words) = name.strip_prefix("xtask ") {
        return read("xtask/src/main.rs").lines().any(|line| has_command(line, words));
    }
    if let Some((group, case)) = name.strip_prefix("beside ").and_then(|case| case.split_once('/'))
    {
        let head = format!("== {case}");
        return read(&format!("xtask/beside/{group}.txt")).lines().any(|line| line == head);
    }
    match name.split_once("::") {
        Some((file, test)) => has_test(&read(file), test),
        None => name.ends_with(".txt") && crates.join(name).is_file(),
    }
}

/// Whether a line of the help is about this command.
fn has_command(line: &str, words: &str) -> bool {
    let rest = line.trim_start().strip_prefix(words);
    line.starts_with("  ") && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Whether a source has a function of this name that is a test.
fn has_test(source: &str, name: &str) -> bool {
    let begin = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let above = lines.get(..at).unwrap_or_default().iter().rev();
        let mut attributes = above.take_while(|above| above.starts_with("#["));
        line.starts_with(&begin) && attributes.any(|above| *above == "#[test]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_tests_say_so_and_named_ones_exist() {
        let page = "| # | report | held by |\n|--|--|--|\n| A1 | x | `a.rs::t` and `s.txt` |\n\
                    | A2 | y | not run |\n| A2 | y | by hand |\n| A3 | `z` | `none.rs::t` |\ntext `of none`\n";
        let (rows, found) = faults(page, &|name| !name.starts_with("none"));
        assert_eq!(rows, 4);
        let expected = [
            "A2: has two rows",
            "A2: names no test and does not say 'not run'",
            "A3: there is no none.rs::t",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_test_is_not_taken_for_one() {
        let source = "/// Says.\n#[test]\nfn is_one() {}\n\nfn is_none() {}\n    fn is_longer_than_its_name() {}\n";
        let found = ["is_one", "is_none", "is_longer", "is"].map(|name| has_test(source, name));
        assert_eq!(found, [true, false, false, false]);
        assert!(exists("xtask vm md") && !exists("xtask vm m") && !exists("xtask nothing"));
        assert!(exists("sim/tests/scripts/cycle.txt") && !exists("sim/tests/scripts/none.txt"));
        assert!(exists("beside kill/watchdog") && !exists("beside kill/watch"));
        let own = "xtask/src/named_tests.rs::what_is_no_test_is_not_taken_for_one";
        assert!(exists(own) && !exists("xtask/src/named_tests.rs::exists"));
    }
}
