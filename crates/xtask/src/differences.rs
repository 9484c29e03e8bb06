//! What is meant to differ from systemd, with a reason for each.
//! Must not: know how the texts came about that are compared.
//! Runs on the main thread of xtask.
//!
//! ```text
//! ## GROUP/CASE
//! The reason.
//!
//!     - what systemd says
//!     + what is said here
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// How far a line of a difference is indented in the file.
const INDENT: &str = "    ";

/// Lines that differ, by case.
pub struct Differences(BTreeMap<String, Vec<String>>);

impl Differences {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Differences> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        parse(&text).with_context(|| format!("{}", path.display()))
    }

    /// Whether lines that differ are those that were chosen; else what is wrong.
    pub fn judge(&self, case: &str, diff: &[String]) -> Result<(), &'static str> {
        match self.0.get(case) {
            None if diff.is_empty() => Ok(()),
            None => Err("differs"),
            Some(chosen) if chosen == diff => Ok(()),
            Some(_) if diff.is_empty() => Err("is in differences.md, and does not differ any more"),
            Some(_) => Err("differs in another way than differences.md says"),
        }
    }

    /// Cases that are in the file and not among these.
    pub fn without(&self, cases: &[String]) -> Vec<String> {
        self.0.keys().filter(|name| !cases.contains(name)).cloned().collect()
    }
}

fn parse(text: &str) -> Result<Differences> {
    let mut all = BTreeMap::new();
    for section in text.split("\n## ").skip(1) {
        let (name, rest) = section.split_once('\n').unwrap_or((section, ""));
        let (lines, reason): (Vec<&str>, Vec<&str>) =
            rest.lines().filter(|line| !line.is_empty()).partition(|line| line.starts_with(INDENT));
        ensure!(!reason.is_empty(), "{name}: no reason");
        ensure!(!lines.is_empty(), "{name}: no lines that differ");
        let lines = lines.iter().map(|line| line[INDENT.len()..].trim_end().to_owned()).collect();
        ensure!(all.insert(name.to_owned(), lines).is_none(), "{name} is there twice");
    }
    Ok(Differences(all))
}

/// Lines of the first text that the second has not (`- `), and the other way round (`+ `), in order.
pub fn diff(theirs: &str, ours: &str) -> Result<Vec<String>> {
    if theirs == ours {
        return Ok(Vec::new());
    }
    let first = std::env::temp_dir().join(format!("warren-beside-{}", std::process::id()));
    fs::write(&first, theirs)?;
    let mut command = Command::new("diff");
    command.args(["--old-line-format=- %L", "--new-line-format=+ %L", "--unchanged-line-format="]);
    command.arg(&first).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start diff")?;
    let mut input = child.stdin.take().context("its input")?;
    input.write_all(ours.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    fs::remove_file(&first)?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(|line| line.trim_end().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_is_found_and_nothing_else() {
        let chosen = parse("# Head\n\n## g/a\nA reason,\nlong.\n\n    - 1\n    + 2\n");
        let chosen = chosen.expect("it is well formed");
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(chosen.judge("g/a", &lines("- 1\n+ 2")), Ok(()));
        assert!(chosen.judge("g/a", &lines("- 1\n+ 3")).is_err());
        assert!(chosen.judge("g/a", &[]).is_err());
        assert!(chosen.judge("g/b", &lines("- 1")).is_err());
        assert_eq!(chosen.judge("g/b", &[]), Ok(()));
        assert_eq!(chosen.without(&["g/b".to_owned()]), ["g/a"]);
        assert!(chosen.without(&["g/a".to_owned()]).is_empty());
    }

    #[test]
    fn a_difference_has_a_reason() {
        assert!(parse("# Head\n\n## g/a\n\n    - 1\n").is_err());
        assert!(parse("# Head\n\n## g/a\nWhy.\n").is_err());
    }

    #[test]
    fn lines_that_differ_are_told_in_order() {
        assert_eq!(diff("a\nb\nc\n", "a\nx\nc\nd\n").expect("diff runs"), ["- b", "+ x", "+ d"]);
        assert!(diff("a\n", "a\n").expect("diff runs").is_empty());
    }
}
