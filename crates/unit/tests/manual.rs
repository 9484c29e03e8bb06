//! Every setting that the installed manual pages describe must be in the table.

use std::process::Command;

use warren_unit::settings::{ALIASES, SETTINGS};

const PAGES: [&str; 14] = [
    "systemd.unit",
    "systemd.service",
    "systemd.socket",
    "systemd.mount",
    "systemd.automount",
    "systemd.swap",
    "systemd.timer",
    "systemd.path",
    "systemd.slice",
    "systemd.scope",
    "systemd.exec",
    "systemd.kill",
    "systemd.resource-control",
    "systemd-system.conf",
];

/// Names in these pages that are settings of other files.
const ELSEWHERE: [&str; 4] = ["Name", "Exec", "SystemdService", "DefaultTimeoutStartSec"];

/// The text of a manual page without formatting.
fn page(name: &str) -> Option<String> {
    let mut command = Command::new("man");
    command.env("MANWIDTH", "200").env("LC_ALL", "C").args(["-P", "cat", name]);
    let out = command.output().ok().filter(|o| o.status.success())?;
    // Bold letters are the letter, a backspace and the letter again.
    let mut text = String::new();
    for c in String::from_utf8_lossy(&out.stdout).chars() {
        match c {
            '\u{8}' => _ = text.pop(),
            c => text.push(c),
        }
    }
    Some(text)
}

/// The names that head a description: a line of seven blanks and `Name=, Name=`.
fn headings(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines().filter_map(|l| l.strip_prefix("       ")) {
        let words: Vec<&str> = line.split(", ").map(str::trim).filter(|w| !w.is_empty()).collect();
        let name = |word: &str| {
            let (name, _) = word.split_once('=')?;
            let good = name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric());
            good.then(|| name.to_owned())
        };
        let names: Option<Vec<String>> = words.iter().map(|w| name(w)).collect();
        out.extend(names.filter(|_| !line.contains(". ")).unwrap_or_default());
    }
    out
}

#[test]
fn the_table_has_every_setting_of_the_manual() {
    let mut missing = Vec::new();
    let mut seen = 0;
    for name in PAGES {
        let Some(text) = page(name) else {
            warren_testkit::not_run(&format!("no manual page {name}"));
            continue;
        };
        for setting in headings(&text) {
            seen += 1;
            let known = SETTINGS.iter().any(|s| s.name == setting)
                || ALIASES.iter().any(|a| a.name == setting);
            if !known && !ELSEWHERE.contains(&&*setting) {
                missing.push(format!("{name}: {setting}"));
            }
        }
    }
    println!("{seen} settings in the manual pages");
    assert_eq!(missing, Vec::<String>::new());
}
