//! What is accepted as text: a table of snippets, compared with the installed program.
//!
//! `tests/data/syntax.txt` has a verdict before each snippet: `accept` or `reject` where both
//! agree, `ours accept: REASON` or `ours reject: REASON` where this crate differs on purpose.

use std::process::Command;

use warren_fleet::{FileId, Source, parse};

struct Case {
    ours: bool,
    theirs: bool,
    text: String,
}

fn cases() -> Vec<Case> {
    let all = include_str!("data/syntax.txt");
    all.split("\n---\n").filter(|case| !case.trim().is_empty()).map(case).collect()
}

fn case(text: &str) -> Case {
    let (verdict, text) = text.split_once('\n').unwrap_or((text, ""));
    let (ours, theirs) = match verdict {
        "accept" => (true, true),
        "reject" => (false, false),
        _ if verdict.starts_with("ours accept: ") => (true, false),
        _ if verdict.starts_with("ours reject: ") => (false, true),
        _ => panic!("no verdict: {verdict}"),
    };
    Case { ours, theirs, text: wrap(text) }
}

/// In a function, nothing of it is run.
fn wrap(text: &str) -> String {
    format!("globals.wrapped = function() {{\n{text}\n}}")
}

fn accepts(text: &str) -> bool {
    parse(FileId(0), Source::new("snippet", text.as_bytes())).1.is_empty()
}

#[test]
fn snippets_are_accepted_or_not() {
    let wrong: Vec<String> = cases()
        .into_iter()
        .filter(|case| accepts(&case.text) != case.ours)
        .map(|case| case.text)
        .collect();
    assert!(wrong.is_empty(), "not as the table says:\n{}", wrong.join("\n---\n"));
}

#[test]
fn the_installed_program_says_the_same() {
    if Command::new("icinga2").arg("--version").output().is_err() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let wrong: Vec<String> = cases()
        .into_iter()
        .filter(|case| they_accept(&case.text) != case.theirs)
        .map(|c| c.text)
        .collect();
    assert!(wrong.is_empty(), "not as the table says:\n{}", wrong.join("\n---\n"));
}

fn they_accept(text: &str) -> bool {
    let output = Command::new("icinga2").args(["console", "-e", text]).output();
    output.expect("icinga2 starts").status.success()
}
