//! What a host says of itself: facts when it registers, and what became of the release that it was assigned to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::names::{HostId, is_name};

/// Labels of a host.
pub const LABELS_MAX: usize = 64;

/// Bytes of a label's value.
pub const LABEL_BYTES_MAX: usize = 256;

/// Root causes that a report has; further ones are counted.
pub const CAUSES_MAX: usize = 32;

/// Units that a report names as started again; further ones are counted.
pub const RESTARTED_MAX: usize = 16;

/// Units of rules that a report names as hidden; further ones are counted.
pub const HIDDEN_MAX: usize = 16;

/// Bytes of a text in a report.
const TEXT_BYTES_MAX: usize = 400;

/// Bytes of a line of a log in a report.
const LOG_BYTES_MAX: usize = 160;

/// What rules may ask about the host that they are evaluated for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// What its administrator says of it: `role`, `rack`, ...
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Processors.
    #[serde(default)]
    pub cpus: u32,
    /// Memory, bytes.
    #[serde(default)]
    pub memory: u64,
    /// `uname -r`
    #[serde(default)]
    pub kernel: String,
    /// The version of Warrener.
    #[serde(default)]
    pub version: String,
    /// How many copies of replicated containers it takes.
    #[serde(default)]
    pub capacity: u32,
    /// Where it is reached by ssh(1); rules do not see it.
    #[serde(default)]
    pub address: String,
}

impl Facts {
    /// Reads labels: a line `NAME=VALUE` each; empty lines and such with `#` first say nothing.
    ///
    /// # Errors
    /// The line that is no label, in words.
    pub fn read_labels(text: &str) -> Result<BTreeMap<String, String>, String> {
        let mut labels = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what: &str| Err(format!("line {}: {what}", at + 1));
            let Some((name, value)) = line.split_once('=') else { return wrong("no '=' in it") };
            let (name, value) = (name.trim(), value.trim());
            if !is_name(name) {
                return wrong("a label's name has letters, digits, '-', '_' and '.'");
            }
            if value.len() > LABEL_BYTES_MAX || value.contains(char::is_control) {
                return wrong("a label's value has at most 256 bytes and no control characters");
            }
            if labels.insert(name.to_owned(), value.to_owned()).is_some() {
                return wrong("this label is given twice");
            }
            if labels.len() > LABELS_MAX {
                return wrong("a host has at most 64 labels");
            }
        }
        Ok(labels)
    }
}

/// A host that is there: kept under a lease, so that it goes when the host does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Registration {
    /// What it is.
    pub facts: Facts,
    /// Which agent wrote this: another one with the same name is another machine.
    pub instance: Digest,
}

/// What became of an assignment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum Outcome {
    /// The rules are in force.
    Applied,
    /// It is being fetched or applied.
    Working,
    /// It goes on when something is out of the way: a full disk, a drain command that fails.
    Held(String),
    /// The rules have faults, or the manager did not take them; what was in force before stays.
    Failed(String),
    /// The host does not do it: a signature, a number that goes back, ...
    Refused(String),
}

/// Why units of an application are down: a reason code and how often.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Cause {
    /// A reason's code, `WR-0051`.
    pub code: String,
    /// The application: what the units have in common.
    pub app: String,
    /// How many units.
    pub units: u32,
    /// The first of them.
    pub example: String,
    /// What happened to that one, for people: `a process exited with a failure status: exited with code 7`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The last line of its log; empty if it has none, or the host does not send lines of logs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
    /// Since when, µs since 1970.
    pub since: u64,
}

impl Cause {
    /// The first unit and what happened to it, for people.
    pub fn words(&self) -> String {
        let Cause { code, app, example, why, log, .. } = self;
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        format!("{example}{why} ({code} of {app}){}", log_words(log))
    }
}

/// The end of a unit's log, for people, behind what happened to it.
fn log_words(line: &str) -> String {
    match line.is_empty() {
        true => String::new(),
        false => format!("; its log ends with \"{line}\""),
    }
}

/// A unit that rules make, and a file of the host counts more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hidden {
    /// Its name.
    pub unit: String,
    /// The file; empty if it is masked.
    pub by: String,
}

impl Hidden {
    /// For people.
    pub fn words(&self) -> String {
        match self.by.is_empty() {
            true => {
                format!("{} is masked, so that what rules make of it does not count", self.unit)
            }
            false => format!("{} is by {}, and not by rules", self.unit, self.by),
        }
    }
}

/// A unit that fails and is started again by itself, since the release was applied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Restarted {
    /// Its name.
    pub unit: String,
    /// The application that it belongs to.
    pub app: String,
    /// How often it was started again; 0: it waits for the first time.
    pub times: u32,
    /// The code of the reason by which it ended last, `WR-0040`.
    pub code: String,
    /// How it ended last, for people: `exited with code 7`.
    pub ended: String,
    /// The last line of its log, as [`Cause::log`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
    /// When it did, µs since 1970.
    pub last: u64,
}

impl Restarted {
    /// For people.
    pub fn words(&self) -> String {
        let Restarted { unit, times, code, ended, log, .. } = self;
        let what = match times {
            0 => format!("{unit} ended and waits to be restarted: {ended} ({code})"),
            1 => format!("{unit} was restarted once since, after it {ended} ({code})"),
            n => format!("{unit} was restarted {n} times since, last: {ended} ({code})"),
        };
        what + &log_words(log)
    }
}

/// What a host reports, bounded however many units it has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The number of the release that this is about.
    pub release: u64,
    /// Whether it is about the way back.
    pub back: bool,
    /// What came of it.
    pub outcome: Outcome,
    /// The highest number of a release that it has followed: the next one needs a higher one.
    #[serde(default)]
    pub highest: u64,
    /// The revision whose rules are in force.
    pub applied: Option<Digest>,
    /// Units that the manager has.
    pub units: u32,
    /// Units that failed.
    pub failed: u32,
    /// Why, the most frequent first; at most [`CAUSES_MAX`].
    pub causes: Vec<Cause>,
    /// How many further causes there are.
    #[serde(default)]
    pub more_causes: u32,
    /// Units that are started again and again since the release was applied, the most often first; at most
    /// [`RESTARTED_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarted: Vec<Restarted>,
    /// How many further such units there are.
    #[serde(default)]
    pub more_restarted: u32,
    /// Units of rules that files of the host hide, by name; at most [`HIDDEN_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<Hidden>,
    /// How many further such units there are.
    #[serde(default)]
    pub more_hidden: u32,
}

impl Report {
    /// How many units are started again and again.
    pub fn restarted_units(&self) -> u32 {
        (self.restarted.len() as u32).saturating_add(self.more_restarted)
    }

    /// Cuts what is too large for a store of many hosts.
    pub fn bounded(mut self) -> Report {
        if self.causes.len() > CAUSES_MAX {
            self.causes.sort_by(|a, b| b.units.cmp(&a.units).then(a.cmp(b)));
            let rest = self.causes.split_off(CAUSES_MAX);
            self.more_causes = self.more_causes.saturating_add(rest.len() as u32);
        }
        if self.restarted.len() > RESTARTED_MAX {
            let rest = self.restarted.split_off(RESTARTED_MAX);
            self.more_restarted = self.more_restarted.saturating_add(rest.len() as u32);
        }
        if self.hidden.len() > HIDDEN_MAX {
            let rest = self.hidden.split_off(HIDDEN_MAX);
            self.more_hidden = self.more_hidden.saturating_add(rest.len() as u32);
        }
        for Restarted { unit, app, code, ended, log, .. } in &mut self.restarted {
            [unit, app, code, ended].into_iter().for_each(cut);
            cut_at(log, LOG_BYTES_MAX);
        }
        for Cause { code, app, example, why, log, .. } in &mut self.causes {
            [code, app, example, why].into_iter().for_each(cut);
            cut_at(log, LOG_BYTES_MAX);
        }
        for Hidden { unit, by } in &mut self.hidden {
            [unit, by].into_iter().for_each(cut);
        }
        if let Outcome::Held(why) | Outcome::Failed(why) | Outcome::Refused(why) = &mut self.outcome
        {
            cut(why);
        }
        self
    }
}

fn cut(text: &mut String) {
    cut_at(text, TEXT_BYTES_MAX);
}

fn cut_at(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
}

/// Which release a host is to have, and whether the way back of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Assignment {
    /// The number of the release.
    pub release: u64,
    /// The revision to go back to instead.
    pub back: bool,
}

impl Assignment {
    /// `release 7`, `the way back of release 7`
    pub fn words(self) -> String {
        let of = if self.back { "the way back of " } else { "" };
        format!("{of}release {}", self.release)
    }
}

/// Says of a host that an operator has taken it out of service: it gives its copies to others and takes none, and no
/// release waits for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Drain {
    /// Who took it out.
    pub author: String,
    /// What for; empty if nobody said.
    #[serde(default)]
    pub reason: String,
    /// When, seconds since 1970.
    pub at: u64,
}

/// A host as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name in the store.
    pub id: HostId,
    /// What it registered; none if its lease is over.
    pub registration: Option<Registration>,
    /// What it reported last.
    pub report: Option<Report>,
    /// Another machine that has the same name, in its own words.
    pub double: Option<String>,
    /// An operator has taken it out of service.
    pub drained: Option<Drain>,
    /// What it is assigned to itself; hosts that have nothing of their own follow what is current.
    pub assigned: Option<Assignment>,
}

impl Host {
    /// A host of which nothing is known.
    pub fn new(id: HostId) -> Host {
        let (registration, report, double, drained, assigned) = Default::default();
        Host { id, registration, report, double, drained, assigned }
    }

    /// Whether it is there.
    pub fn is_there(&self) -> bool {
        self.registration.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_line_by_line() {
        let labels = Facts::read_labels("# comment\n\nrole = web\nrack=r1=a\n").expect("labels");
        assert_eq!(labels["role"], "web");
        assert_eq!(labels["rack"], "r1=a");
        for (text, wrong) in [
            ("role", "line 1: no '=' in it"),
            ("\nro le=x", "line 2: a label's name has letters, digits, '-', '_' and '.'"),
            ("a=1\na=2", "line 2: this label is given twice"),
        ] {
            assert_eq!(Facts::read_labels(text), Err(wrong.to_owned()));
        }
        let many: String = (0..65).map(|n| format!("l{n}=x\n")).collect();
        assert_eq!(Facts::read_labels(&many), Err("line 65: a host has at most 64 labels".into()));
    }

    #[test]
    fn a_report_is_bounded() {
        let cause = |n: u32| Cause {
            code: "WR-0051".into(),
            app: format!("app{n}"),
            units: n,
            example: "é".repeat(1000),
            why: "é".repeat(1000),
            log: "é".repeat(1000),
            since: 0,
        };
        let restarted = |n: u32| Restarted {
            unit: "é".repeat(1000),
            app: "é".repeat(1000),
            times: n,
            code: "WR-0040".into(),
            ended: "é".repeat(1000),
            log: "é".repeat(1000),
            last: 0,
        };
        let hidden = Hidden { unit: "é".repeat(1000), by: "é".repeat(1000) };
        let report = Report {
            release: 1,
            back: false,
            outcome: Outcome::Failed("x".repeat(100_000)),
            highest: 1,
            applied: None,
            units: 40_000,
            failed: 40_000,
            causes: (0..1000).map(cause).collect(),
            more_causes: 0,
            restarted: (0..1000).map(restarted).collect(),
            more_restarted: 0,
            hidden: (0..1000).map(|_| hidden.clone()).collect(),
            more_hidden: 0,
        };
        let bounded = report.bounded();
        assert_eq!((bounded.causes.len(), bounded.more_causes), (32, 968));
        assert_eq!(bounded.causes[0].units, 999);
        assert_eq!((bounded.restarted.len(), bounded.more_restarted), (16, 984));
        assert_eq!(bounded.restarted_units(), 1000);
        assert_eq!((bounded.hidden.len(), bounded.more_hidden), (16, 984));
        assert!(bounded.causes[0].log.len() <= LOG_BYTES_MAX + "…".len());
        assert!(serde_json::to_string(&bounded).expect("JSON").len() < 128 << 10);
    }
}
