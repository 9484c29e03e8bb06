//! `warren fleet test`: what `*.test` files expect of the rules beside them.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::json;
use warren_fleet::session::test::{self, Tested};
use warren_fleet::{Severity, Source};
use warren_fleet_files::{Files, tests_below};

use super::messages::tell;
use super::rules;
use crate::args::{Global, RulesArgs};
use crate::output::{Style, Tone, print};

pub(super) fn run(args: &RulesArgs, global: &Global) -> Result<i32> {
    let directory = rules::directory(args, global)?;
    let tests = tests_below(&directory);
    ensure!(!tests.is_empty(), "{}: no *.test file in it or below it", directory.display());
    let (mut held, mut failed) = (0, 0);
    for path in &tests {
        let tested = load(&directory, path, global)?;
        let wrong = report(path, &tested, global);
        (held, failed) = (held + tested.verdicts.len() - wrong, failed + wrong);
        // An error that is not expected fails the test, and so does a test that expects nothing.
        let has_fault = tested.messages.iter().any(|m| m.severity == Severity::Error);
        failed += usize::from(wrong == 0 && (has_fault || tested.verdicts.is_empty()));
    }
    if !global.json && !global.quiet {
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let files = plural(tests.len(), "test file");
        print(&format!("{files}: {} hold, {failed} failed\n", plural(held, "expectation")));
    }
    Ok(i32::from(failed > 0))
}

/// The rules of the directory, then the test.
fn load(directory: &Path, test: &Path, global: &Global) -> Result<Tested> {
    let below: PathBuf = test.strip_prefix(directory).unwrap_or(test).to_path_buf();
    let name = below.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    let text = format!("include \"*.conf\"\ninclude \"{name}\"\n");
    let root = Source::new(&directory.join("(all files)").to_string_lossy(), text.as_bytes());
    let mut files = Files::new(directory.to_path_buf(), false);
    let options = rules::options();
    Ok(rules::shown(&format!("Testing the rules by {name}"), global, |log| {
        files.read(log, |reading| {
            rules::deep(|| test::run(root, Box::new(reading), &options, rules::LAYER))
        })
    }))
}

/// Tells what became of a test; returns how many of its expectations do not hold.
fn report(path: &Path, tested: &Tested, global: &Global) -> usize {
    let wrong: Vec<_> = tested.verdicts.iter().filter_map(|v| v.wrong.clone()).collect();
    let version = crate::output::JSON_VERSION;
    if global.json {
        for verdict in &tested.verdicts {
            let message = verdict.wrong.as_ref().map(|wrong| wrong.message.clone());
            let (name, holds) = (&verdict.name, verdict.wrong.is_none());
            print(&format!(
                "{}\n",
                json!({"test": path.display().to_string(), "name": name,
                "holds": holds, "message": message, "format": version})
            ));
        }
    }
    // Standard output is for verdicts.
    let plain = Global { json: false, ..global.clone() };
    let mut messages = tested.messages.clone();
    messages.extend(wrong.iter().cloned());
    let has_fault = tell(&messages, &plain);
    if !global.json && !global.quiet {
        let style = Style::from_environment();
        let count = tested.verdicts.len();
        let (tone, word) = match (has_fault, count) {
            (false, 1..) => (Tone::Good, "ok"),
            _ => (Tone::Bad, "FAILED"),
        };
        let what = match count {
            0 => "it has no expectations".to_owned(),
            count => format!("{} of {count}", count - wrong.len()),
        };
        print(&format!("{} {}: {what}\n", style.paint(tone, word), path.display()));
    }
    wrong.len()
}
