//! Waves: the order in which a release reaches hosts.
//!
//! A policy names steps: `3` hosts, `10%` of all, hosts with a label (`role=canary`), one wave for each value of a label
//! (`each rack`), `rest`. What the steps leave over is a last wave. Hosts are taken by their names, so a plan is the
//! same wherever it is made.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::{HostId, is_name};

/// Steps of a policy.
pub const STEPS_MAX: usize = 64;

/// Values of a label that are named of many.
const VALUES_NAMED: usize = 10;

/// One step of a policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Step {
    /// So many hosts.
    Hosts(u32),
    /// So many percent of all hosts, at least one.
    Share(u32),
    /// All hosts with this label.
    Label(String, String),
    /// A wave for each value of this label; those without it are left for later steps.
    Each(String),
    /// All others.
    Rest,
}

/// The text is no step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAStep(String);

impl fmt::Display for NotAStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a step: give 5, 10%, label=value, 'each label' or rest", self.0)
    }
}

impl std::error::Error for NotAStep {}

impl FromStr for Step {
    type Err = NotAStep;

    fn from_str(text: &str) -> Result<Step, NotAStep> {
        let wrong = || NotAStep(text.chars().take(100).collect());
        let number = |digits: &str| {
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|n| is_plain && *n > 0).ok_or_else(wrong)
        };
        if text == "rest" {
            return Ok(Step::Rest);
        }
        if let Some(label) = text.strip_prefix("each ") {
            return if is_name(label) { Ok(Step::Each(label.to_owned())) } else { Err(wrong()) };
        }
        if let Some((label, value)) = text.split_once('=') {
            let step = Step::Label(label.to_owned(), value.to_owned());
            return if is_name(label) { Ok(step) } else { Err(wrong()) };
        }
        match text.strip_suffix('%') {
            Some(digits) => number(digits)
                .and_then(|n| if n <= 100 { Ok(Step::Share(n)) } else { Err(wrong()) }),
            None => number(text).map(Step::Hosts),
        }
    }
}

impl TryFrom<String> for Step {
    type Error = NotAStep;

    fn try_from(text: String) -> Result<Step, NotAStep> {
        text.parse()
    }
}

impl From<Step> for String {
    fn from(step: Step) -> String {
        step.to_string()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Hosts(n) => write!(f, "{n}"),
            Step::Share(n) => write!(f, "{n}%"),
            Step::Label(label, value) => write!(f, "{label}={value}"),
            Step::Each(label) => write!(f, "each {label}"),
            Step::Rest => write!(f, "rest"),
        }
    }
}

/// Why a step is a mistake: it names a label, or a value of one, that no host has. Its hosts would come with the rest,
/// all at once.
///
/// # Errors
/// In words, with the values that there are.
pub fn check_labels(
    hosts: &BTreeMap<HostId, BTreeMap<String, String>>,
    steps: &[Step],
) -> Result<(), String> {
    for step in steps {
        let (Step::Label(name, _) | Step::Each(name)) = step else { continue };
        let values: BTreeSet<&str> =
            hosts.values().filter_map(|labels| Some(&**labels.get(name)?)).collect();
        match step {
            _ if values.is_empty() => {
                return Err(format!("wave {step}: no host has the label {name}"));
            }
            Step::Label(_, value) if !values.contains(&**value) => {
                let some: Vec<&str> = values.into_iter().take(VALUES_NAMED).collect();
                return Err(format!("wave {step}: no host has it; {name} is {}", some.join(", ")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Cuts hosts into waves; each host is in one, and none is empty.
pub fn waves(
    hosts: &BTreeMap<HostId, BTreeMap<String, String>>,
    steps: &[Step],
) -> Vec<Vec<HostId>> {
    let mut left: BTreeSet<&HostId> = hosts.keys().collect();
    let mut out: Vec<Vec<HostId>> = Vec::new();
    let label = |id: &HostId, label: &str| hosts.get(id).and_then(|labels| labels.get(label));
    for step in steps.iter().chain([&Step::Rest]) {
        let with = |name: &str, value: &str| -> Vec<&HostId> {
            left.iter().copied().filter(|id| label(id, name).is_some_and(|v| v == value)).collect()
        };
        let new: Vec<Vec<&HostId>> = match step {
            Step::Hosts(n) => vec![left.iter().take(*n as usize).copied().collect()],
            Step::Share(n) => {
                let count = (hosts.len() as u64 * u64::from(*n)).div_ceil(100);
                vec![left.iter().take(count as usize).copied().collect()]
            }
            Step::Label(name, value) => vec![with(name, value)],
            Step::Each(name) => {
                let values: BTreeSet<&String> =
                    left.iter().filter_map(|id| label(id, name)).collect();
                values.into_iter().map(|value| with(name, value)).collect()
            }
            Step::Rest => vec![left.iter().copied().collect()],
        };
        for wave in new.into_iter().filter(|wave| !wave.is_empty()) {
            wave.iter().for_each(|id| {
                left.remove(id);
            });
            out.push(wave.into_iter().cloned().collect());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(count: usize) -> BTreeMap<HostId, BTreeMap<String, String>> {
        let labels = |n: usize| {
            let role = if n % 10 == 9 { "canary" } else { "web" };
            let mut labels = BTreeMap::from([("role".to_owned(), role.to_owned())]);
            if n < 8 {
                labels.insert("rack".to_owned(), format!("r{}", n % 3));
            }
            labels
        };
        (0..count).map(|n| (format!("h{n:03}").parse().expect("a name"), labels(n))).collect()
    }

    #[track_caller]
    fn check(steps: &str, expected: &[usize]) {
        let hosts = hosts(20);
        let steps: Vec<Step> = steps
            .split(", ")
            .filter(|s| !s.is_empty())
            .map(|s| s.parse().expect("a step"))
            .collect();
        let waves = waves(&hosts, &steps);
        assert_eq!(waves.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{steps:?}");
        let all: BTreeSet<&HostId> = waves.iter().flatten().collect();
        assert_eq!(all.len(), 20);
    }

    #[test]
    fn each_host_is_in_one_wave() {
        check("", &[20]);
        check("rest", &[20]);
        check("1, 10%, rest", &[1, 2, 17]);
        check("role=canary, 5", &[2, 5, 13]);
        check("each rack", &[3, 3, 2, 12]);
        check("50%, 50%, 50%", &[10, 10]);
        check("role=none, 100%, 5", &[20]);
        check("1%, 1000", &[1, 19]);
        assert!(waves(&BTreeMap::new(), &[Step::Rest]).is_empty());
    }

    #[test]
    fn a_wave_of_no_host_is_a_mistake() {
        let check = |steps: &[&str]| {
            let steps: Vec<Step> = steps.iter().map(|s| s.parse().expect("a step")).collect();
            check_labels(&hosts(20), &steps)
        };
        assert_eq!(check(&["1", "role=canary", "each rack", "10%", "rest"]), Ok(()));
        let canary = "wave role=canari: no host has it; role is canary, web";
        assert_eq!(check(&["role=canari"]), Err(canary.to_owned()));
        let label = "wave each none: no host has the label none";
        assert_eq!(check(&["role=web", "each none"]), Err(label.to_owned()));
        assert!(check(&["none=x"]).is_err());
    }

    #[test]
    fn steps_are_read_and_written() {
        for text in ["5", "10%", "a=b", "a=", "each rack", "rest"] {
            assert_eq!(text.parse::<Step>().expect("a step").to_string(), text);
        }
        for wrong in ["", "0", "-1", "+1", "0%", "101%", "each ", "each a b", "=x", "all", "1.5"] {
            assert!(wrong.parse::<Step>().is_err(), "{wrong}");
        }
    }
}
