//! `warren security`: what protects a service's main process, as the kernel says of it, and what is left open.
//!
//! `facts` reads /proc and the control group, `checks` is the table of what can be open, this file shows. What the
//! kernel does not show of a filter of system calls is taken from the unit's files, if the process has a filter.

mod checks;
mod facts;

use serde_json::{Value, json};
use warren_unit::config::ExecConfig;

use warren_wire::control::{UnprotectedAnswer, UnprotectedService};

use crate::output::{Style, Tone, cleaned};
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

/// Services that are up and whose files ask for no protection: what the manager says of their files.
pub fn unprotected(answer: &UnprotectedAnswer, style: Style) -> String {
    let answer = &*cleaned(answer);
    if answer.total == 0 {
        return format!("Each of {} services that are up asks for some protection.\n", answer.up);
    }
    let heading =
        format!("{} of {} services that are up ask for no protection:", answer.total, answer.up);
    let mut out = style.paint(Tone::Strong, &heading) + "\n";
    let width = answer.services.iter().map(|service| service.name.chars().count()).max();
    let width = width.unwrap_or(0);
    for UnprotectedService { name, user } in &answer.services {
        let tone = if user.is_empty() { Tone::Bad } else { Tone::Warn };
        let user = if user.is_empty() { "root" } else { user };
        out += &style.paint(tone, &format!("  {name:width$}  as {user}"));
        out.push('\n');
    }
    match answer.total.saturating_sub(answer.services.len() as u64) {
        0 => {}
        more => out += &format!("  {more} more\n"),
    }
    out + "What protects the process of one that does: warren security UNIT\n"
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
    fn services_without_protection_are_named_with_their_user() {
        let one = |name: &str, user: &str| UnprotectedService {
            name: name.to_owned(),
            user: user.to_owned(),
        };
        let services = vec![one("a.service", ""), one("long.service", "www")];
        let text = |answer: &UnprotectedAnswer| unprotected(answer, Style::default());
        let expected = "\
3 of 9 services that are up ask for no protection:
  a.service     as root
  long.service  as www
  1 more
What protects the process of one that does: warren security UNIT
";
        assert_eq!(text(&UnprotectedAnswer { up: 9, total: 3, services }), expected);
        let none = UnprotectedAnswer { up: 2, ..UnprotectedAnswer::default() };
        assert_eq!(text(&none), "Each of 2 services that are up asks for some protection.\n");
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
