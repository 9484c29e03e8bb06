//! `warren security`: what protects a service's main process, as the kernel says of it, and what is left open.
//!
//! `facts` reads /proc and the control group, `checks` is the table of what can be open, this file shows. What the
//! kernel does not show of a filter of system calls is taken from the unit's files, if the process has a filter.

mod checks;
mod facts;

use serde_json::{Value, json};
use warren_unit::config::ExecConfig;

use crate::output::{Style, Tone};
use checks::{CHECKS, Check, Open};
pub use facts::Facts;

/// What is known of one service.
pub struct Report {
    /// The unit.
    pub unit: String,
    /// Its main process.
    pub pid: u32,
    /// What the process has.
    pub facts: Facts,
    /// What its files ask for.
    pub asked: ExecConfig,
}

/// Tenths of a point, from 0 (all is closed) to 100 (nothing is).
fn exposure(found: &[(&Check, Open)]) -> u32 {
    let weights = |open: bool| {
        let counted = found.iter().filter(|(_, state)| *state == Open::Yes || !open);
        counted.map(|(check, _)| check.weight).sum::<u32>()
    };
    (weights(true) * 100).checked_div(weights(false)).unwrap_or(0)
}

fn word(exposure: u32) -> (&'static str, Tone) {
    match exposure {
        0..=19 => ("closed", Tone::Good),
        20..=49 => ("OK", Tone::Good),
        50..=69 => ("medium", Tone::Warn),
        70..=89 => ("exposed", Tone::Warn),
        _ => ("open", Tone::Bad),
    }
}

impl Report {
    fn found(&self) -> Vec<(&'static Check, Open)> {
        let counts = |check: &&Check| check.weight > 0 || self.asked_for(check).is_some();
        let found = |check: &'static Check| (check, (check.open)(&self.facts, &self.asked));
        CHECKS.iter().filter(counts).map(found).collect()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let found = self.found();
        let one = |(check, open): &(&Check, Open)| {
            json!({"check": check.name, "open": *open == Open::Yes, "weight": check.weight, "what": check.what,
                "asked": self.asked_for(check)})
        };
        json!({"unit": self.unit, "pid": self.pid, "exposure": f64::from(exposure(&found)) / 10.0,
            "checks": found.iter().map(one).collect::<Vec<_>>()})
    }

    /// What the files ask for that this check is about.
    fn asked_for(&self, check: &Check) -> Option<String> {
        let all = self.asked.protections.iter().chain(&self.asked.sandbox);
        let found = all.into_iter().find(|asked| check.settings.contains(&asked.setting));
        found.map(|asked| format!("{}={}", asked.setting, asked.value.replace('\n', " ")))
    }

    /// What is open, the heaviest first, and the names of what is closed.
    pub fn text(&self, style: Style) -> String {
        let found = self.found();
        let mut of = [Open::Yes, Open::No].map(|state| {
            found.iter().filter(|(_, s)| *s == state).map(|(check, _)| *check).collect::<Vec<_>>()
        });
        of[0].sort_by_key(|check| std::cmp::Reverse(check.weight));
        let [open, closed] = of;
        let mut out = format!("{}: process {}\n\n", self.unit, self.pid);
        out += &style.paint(Tone::Strong, "Open");
        out.push('\n');
        for check in open {
            out += &self.line(check, style);
        }
        let names: Vec<&str> = closed.iter().map(|check| check.name).collect();
        let heading = style.paint(Tone::Strong, "Closed");
        out += &format!("\n{heading}\n{}\n", wrapped(&names));
        let exposure = exposure(&found);
        let (word, tone) = word(exposure);
        let last =
            format!("{}: exposure {:.1} of 10, {word}", self.unit, f64::from(exposure) / 10.0);
        out + "\n" + &style.paint(tone, &last) + "\n"
    }

    /// What is open; in red what should not be by the unit's files.
    fn line(&self, check: &Check, style: Style) -> String {
        // What a filter lets through may be meant to go through, if there is one.
        let is_meant = check.name.starts_with("calls:") && self.facts.has_filter;
        let missing = self.asked_for(check).filter(|_| !is_meant);
        let weight = f64::from(check.weight) / 10.0;
        let line = format!("  {weight:3.1}  {:30} {}", check.name, check.what);
        match missing {
            Some(asked) => style.paint(Tone::Bad, &format!("{line}  (asked for: {asked})")) + "\n",
            None => style.paint(Tone::Warn, &line) + "\n",
        }
    }
}

/// Names with commas between them, on lines of a terminal.
fn wrapped(names: &[&str]) -> String {
    const COLUMNS: usize = 78;
    let (mut out, mut column) = (String::new(), 0);
    for name in names {
        if column > 0 && column + name.len() + 2 > COLUMNS {
            out.push_str(",\n");
            column = 0;
        }
        let before = if column == 0 { "  " } else { ", " };
        out.push_str(before);
        out.push_str(name);
        column += before.len() + name.len();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(facts: Facts) -> Report {
        let asked = ExecConfig::default();
        Report { unit: "a.service".to_owned(), pid: 7, facts, asked }
    }

    #[test]
    fn who_is_without_protection_is_open_and_who_has_all_is_closed() {
        let open = report(Facts { capabilities: u64::MAX, umask: 0o022, ..Facts::default() });
        assert_eq!(exposure(&open.found()), 100);
        let text = open.text(Style::default());
        assert!(text.ends_with("a.service: exposure 10.0 of 10, open\n"), "{text}");
        let mounts = [
            ("/", "ro"),
            ("/usr", "ro"),
            ("/proc", "hidepid=invisible,subset=pid"),
            ("/proc/sys", "ro"),
            ("/sys/fs/cgroup", "ro"),
            ("/tmp", ""),
            ("/dev", ""),
            ("/proc/kmsg", ""),
        ];
        let facts = Facts {
            uid: 9,
            no_new_privileges: true,
            umask: 0o077,
            own: ["mnt", "net", "user", "uts"].into_iter().collect(),
            mounts: mounts.map(|(at, options)| (at.to_owned(), options.to_owned())).into(),
            has_other_root: true,
            hides_homes: true,
            devices_limited: true,
            addresses_limited: true,
            ..Facts::default()
        };
        let closed = report(facts);
        let left: Vec<&str> = closed
            .found()
            .iter()
            .filter(|(_, open)| *open == Open::Yes)
            .map(|(check, _)| check.name)
            .collect();
        // What a filter would do, and nothing else.
        assert!(left.iter().all(|name| name.starts_with("calls:")), "{left:?}");
        assert!(exposure(&closed.found()) < 50);
    }

    #[test]
    fn what_is_asked_for_and_not_in_force_is_named() {
        let mut report = report(Facts::default());
        report.asked.protections.push(warren_unit::config::SandboxSetting {
            setting: "PrivateTmp",
            value: "yes".into(),
        });
        let text = report.text(Style::default());
        assert!(text.contains("(asked for: PrivateTmp=yes)"), "{text}");
        assert!(!text.contains("file systems"), "{text}");
        report.asked.protections.push(warren_unit::config::SandboxSetting {
            setting: "RestrictFileSystems",
            value: "~proc\nsysfs".into(),
        });
        let text = report.text(Style::default());
        assert!(text.contains("(asked for: RestrictFileSystems=~proc sysfs)"), "{text}");
        report.facts.file_systems_limited = true;
        let closed = report.text(Style::default());
        assert!(
            !closed.contains("RestrictFileSystems") && closed.contains("file systems"),
            "{closed}"
        );
        assert_eq!(report.json()["unit"], "a.service");
    }
}
