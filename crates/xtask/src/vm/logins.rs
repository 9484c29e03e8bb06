//! `cargo xtask vm logins [CASE...]`: a Debian host that people log in to, booted from one disk with systemd 252 and with
//! Warrener as process 1, and what differs.
//!
//! The cases are functions of `logins/cases.sh`: logins by ssh, su, sudo, a terminal and cron, users who linger, what
//! logins leave behind. What they print is compared; what is meant to differ is in `docs/src/reference/differences.md`
//! with its reason. What both sides said stays in `target/vm-logins`.
//! With `--again` before the cases only Warrener's machine is booted, and compared with what systemd's said the last time.
//! Needs what `vm::host` needs.
//! Must not: run on a host's own users.
//! Runs on the main thread of xtask.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};

use crate::command::root;
use crate::differences::{self, Differences};
use crate::vm::host::{self, Host, Limits, REPORT, SIDES, Side, Typing};

/// In the order in which they run.
const CASES: [&str; 20] = [
    "ssh",
    "terminal",
    "two-sessions",
    "su-dash",
    "sudo",
    "console",
    "cron",
    "lingering",
    "leftover",
    "leftover-killed",
    "idle",
    "terminate",
    "user-units",
    "slow-unit",
    "activation",
    "polkit",
    "again",
    "reinstall",
    "at-rest",
    "end",
];

/// Below `target`.
const NAME: &str = "vm-logins";

/// What comes before the first case.
const BOOT: &str = "boot";

/// How the page names a case.
const GROUP: &str = "logins";

const LIMITS: Limits = Limits { seconds_max: 2400, memory_mib: 1536 };

/// Who logs in at the terminal. The case asks for it, so prompts that were there before do not count.
const TYPING: [Typing; 4] = [
    ("trial: log in", "\r"),
    ("login: ", "frida\r"),
    ("assword: ", "trial\r"),
    ("$ ", "sh /trial/console.sh; exit\r"),
];

/// Runs these cases on both, or all of them.
pub fn run(names: &[&str]) -> Result<()> {
    let (again, names) = match names {
        ["--again", rest @ ..] => (true, rest),
        _ => (false, names),
    };
    let cases = if names.is_empty() { &CASES[..] } else { names };
    for name in cases {
        ensure!(CASES.contains(name), "no case {name}; there are {}", CASES.join(", "));
    }
    let chosen = Differences::read(&root().join("docs/src/reference/differences.md"))?;
    let command = format!("/bin/sh /trial/cases.sh {}", cases.join(" "));
    let left = root().join("target").join(NAME).join(SIDES[0].name).join(REPORT);
    let before = again.then(|| fs::read(&left).with_context(|| format!("{}", left.display())));
    let host = Host::make(NAME, &[&command])?;
    let boot = |side: Side| {
        println!("booting {}", side.name);
        host.boot(side, LIMITS, &TYPING)
    };
    let theirs = match before.transpose()? {
        Some(report) => {
            fs::create_dir_all(left.parent().context("a directory")?)?;
            fs::write(&left, &report)?;
            host::text(&report)
        }
        None => boot(SIDES[0])?,
    };
    let (theirs, ours) = (&by_case(&theirs), &by_case(&boot(SIDES[1])?));
    let mut faults = 0;
    for name in [&[BOOT], cases].concat() {
        let text = |said: &BTreeMap<String, String>| said.get(name).cloned().unwrap_or_default();
        ensure!(!text(theirs).is_empty(), "systemd's machine did not come as far as {name}");
        let diff = differences::diff(&text(theirs), &text(ours))?;
        if let Err(complaint) = chosen.judge(&format!("{GROUP}/{name}"), &diff) {
            faults += 1;
            println!("{name}: {complaint}\n{}", diff.join("\n"));
        }
    }
    let all: Vec<String> =
        [&[BOOT], &CASES[..]].concat().iter().map(|name| format!("{GROUP}/{name}")).collect();
    let stale = chosen.without(&all);
    ensure!(stale.is_empty(), "in differences.md, but there is no such case: {}", stale.join(", "));
    ensure!(faults == 0, "{faults} cases differ in other ways than differences.md says");
    println!("vm logins: {} cases differ in nothing but what differences.md says", cases.len());
    Ok(())
}

/// What each case said.
fn by_case(report: &str) -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    let (mut name, mut text) = (BOOT.to_owned(), String::new());
    for line in report.lines() {
        match line.strip_prefix("== ") {
            Some(next) => {
                _ = said.insert(
                    std::mem::replace(&mut name, next.to_owned()),
                    std::mem::take(&mut text),
                )
            }
            None => text += &format!("{}\n", line.trim_end()),
        }
    }
    said.insert(name, text);
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_what_it_said() {
        let said = by_case("running\n== a\n1 \n\n2\n== b\n");
        let said: Vec<_> = said.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(said, [("a", "1\n\n2\n"), ("b", ""), ("boot", "running\n")]);
    }

    #[test]
    fn each_case_is_a_function_of_the_script() {
        let script =
            fs::read_to_string(root().join("crates/xtask/logins/cases.sh")).expect("it is there");
        let functions: Vec<String> = script
            .lines()
            .filter_map(|line| line.strip_prefix("case_")?.strip_suffix("() {"))
            .map(|name| name.replace('_', "-"))
            .collect();
        assert_eq!(functions, CASES);
    }
}
