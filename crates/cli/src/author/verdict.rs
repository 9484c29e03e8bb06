//! What a trial of a unit says: what differs from the first run, and which settings are in the program's way. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::listening::Listening;
use super::observe::{End, Observed};

/// Settings that take something from a program, with those that say nothing without them. What gives it something
/// (directories, capabilities) is not among them.
const CLOSING: [&[&str]; 27] = [
    &["DynamicUser"],
    &["ProtectSystem"],
    &["ProtectHome"],
    &["PrivateTmp"],
    &["PrivateDevices"],
    &["DevicePolicy", "DeviceAllow"],
    &["ProtectKernelTunables"],
    &["ProtectKernelModules"],
    &["ProtectKernelLogs"],
    &["ProtectControlGroups"],
    &["ProtectClock"],
    &["ProtectHostname"],
    &["ProtectProc"],
    &["ProcSubset"],
    &["NoNewPrivileges"],
    &["CapabilityBoundingSet"],
    &["RestrictNamespaces"],
    &["RestrictRealtime"],
    &["RestrictSUIDSGID"],
    &["LockPersonality"],
    &["MemoryDenyWriteExecute"],
    &["PrivateIPC"],
    &["RestrictAddressFamilies"],
    &["PrivateNetwork"],
    &["IPAddressDeny", "IPAddressAllow"],
    &["SystemCallArchitectures"],
    &["SystemCallFilter", "SystemCallErrorNumber"],
];

/// Where files are not the same in two runs, or not the host's.
const NOT_COMPARED: [&str; 5] = ["/tmp", "/var/tmp", "/dev", "/proc", "/sys"];

/// A setting of a unit that takes something from its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Its name.
    pub name: &'static str,
    /// Numbers of its lines, from 0.
    lines: BTreeSet<usize>,
}

/// The settings of a unit that take something from its program.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let line = |names: &[&str], line: &str| names.iter().any(|name| is_of(line, name));
    let part = |names: &&'static [&'static str]| {
        let numbered = text.lines().enumerate();
        let lines = numbered.filter(|(_, text)| line(names, text)).map(|(number, _)| number);
        Some(Part { name: names.first()?, lines: lines.collect() })
    };
    CLOSING.iter().filter_map(part).filter(|part| !part.lines.is_empty()).collect()
}

fn is_of(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
}

/// The unit with these of its parts alone, as it is tried: one start, whatever comes of it.
pub(super) fn with_only(text: &str, parts: &[Part], kept: &[usize]) -> String {
    let left_out = parts.iter().enumerate().filter(|(number, _)| !kept.contains(number));
    let left_out: BTreeSet<usize> = left_out.flat_map(|(_, part)| part.lines.clone()).collect();
    let numbered = text.lines().enumerate();
    let lines =
        numbered.filter(|(number, line)| !left_out.contains(number) && !is_of(line, "Restart"));
    lines.map(|(_, line)| format!("{line}\n")).collect()
}

/// The unit without these of its parts, and a comment that says why in place of each.
pub(super) fn without(text: &str, parts: &[Part], left_out: &[usize], reason: &str) -> String {
    let left_out: Vec<&Part> = left_out.iter().filter_map(|number| parts.get(*number)).collect();
    let mut out = String::new();
    for (number, line) in text.lines().enumerate() {
        match left_out.iter().find(|part| part.lines.contains(&number)) {
            None => out += &format!("{line}\n"),
            Some(part) if part.lines.first() == Some(&number) => {
                let root = if part.name == "DynamicUser" { ", so it runs as root" } else { "" };
                out += &format!("# without {}=: with it {reason}{root}\n", part.name);
            }
            Some(_) => {}
        }
    }
    out
}

/// What a unit has to do to have done what the command did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Expected {
    /// It goes on; else it ends well.
    pub goes_on: bool,
    /// Where it listens.
    pub listening: BTreeSet<Listening>,
    /// Files that it writes.
    pub files: BTreeSet<PathBuf>,
}

impl Expected {
    /// What a run showed.
    pub fn of(seen: &Observed) -> Expected {
        let goes_on = matches!(seen.end, End::Running | End::Forked);
        // What is in /run goes with the unit that made it.
        let not_compared = |path: &Path| {
            NOT_COMPARED.iter().any(|top| path.starts_with(top))
                || !goes_on && (path.starts_with("/run") || path.starts_with("/var/run"))
        };
        let files = seen.files.iter().filter(|path| !not_compared(path)).cloned().collect();
        Expected { goes_on, listening: seen.listening.clone(), files }
    }

    /// In a few words.
    pub fn words(&self) -> String {
        let state = if self.goes_on { "it goes on" } else { "it ends well" };
        let listening = self.listening.iter().map(|at| format!("listens at {at}"));
        let files = match self.files.len() {
            0 => None,
            1 => self.files.first().map(|path| format!("writes {}", path.display())),
            count => Some(format!("writes {count} files")),
        };
        let all: Vec<String> =
            [state.to_owned()].into_iter().chain(listening).chain(files).collect();
        all.join(", ")
    }
}

/// How a unit fared when it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was up when the trial was over.
    Up,
    /// It ended well.
    EndedWell,
    /// It failed, in words.
    Failed(String),
    /// It was on its way up when the trial was over.
    NotYetUp,
}

/// What a unit did in a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Did {
    /// How it fared.
    pub fate: Fate,
    /// Where it listened.
    pub listening: BTreeSet<Listening>,
    /// Files that it wrote.
    pub files: BTreeSet<PathBuf>,
    /// When it had done all that was to be seen of it, or had failed, since it was started.
    pub after: Duration,
    /// The last lines that it printed.
    pub printed: Vec<String>,
    /// Protection that was not in force, as the manager says.
    pub not_in_force: Vec<String>,
}

/// Something that the command did and the unit did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Difference {
    /// How it fared, in words.
    Fate(String),
    /// It does not listen there.
    Listening(Listening),
    /// It did not write there.
    File(PathBuf),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Fate(words) => f.write_str(words),
            Difference::Listening(at) => write!(f, "it does not listen at {at}"),
            Difference::File(path) => write!(f, "it does not write {}", path.display()),
        }
    }
}

/// What of the expected did not happen.
pub(super) fn differences(expected: &Expected, did: &Did) -> Vec<Difference> {
    let fate = match (&did.fate, expected.goes_on) {
        (Fate::Up, true) | (Fate::EndedWell, false) => None,
        (Fate::Failed(words), _) => Some(words.clone()),
        (Fate::EndedWell, true) => Some("it ends, with success".to_owned()),
        (Fate::Up | Fate::NotYetUp, false) => Some("it does not end".to_owned()),
        (Fate::NotYetUp, true) => Some("it does not come up".to_owned()),
    };
    let silent = expected.listening.difference(&did.listening).cloned().map(Difference::Listening);
    let unwritten = expected.files.difference(&did.files).cloned().map(Difference::File);
    fate.map(Difference::Fate).into_iter().chain(silent).chain(unwritten).collect()
}

/// Several differences as one text; of many the first ones.
pub(super) fn words(differences: &[Difference]) -> String {
    /// Differences that are named.
    const NAMED_MAX: usize = 4;
    let named = differences.iter().take(NAMED_MAX).map(ToString::to_string);
    let mut all: Vec<String> = named.collect();
    if differences.len() > NAMED_MAX {
        all.push(format!("{} more", differences.len() - NAMED_MAX));
    }
    all.join(", ")
}

/// What both runs without a sandbox have in common: what happens once only is not expected again.
pub(super) fn repeated(expected: &Expected, bare: &Did) -> Expected {
    Expected {
        goes_on: expected.goes_on,
        listening: expected.listening.intersection(&bare.listening).cloned().collect(),
        files: expected.files.intersection(&bare.files).cloned().collect(),
    }
}

/// The parts, of `count`, that must go so that the rest works, as few as trials show. With all of them it does not work,
/// with none it does; what `works` says of any others is asked for.
///
/// # Errors
/// Those of `works`.
pub(super) fn in_the_way<E>(
    count: usize,
    works: &mut dyn FnMut(&[usize]) -> Result<bool, E>,
) -> Result<Vec<usize>, E> {
    let mut left: Vec<usize> = (0..count).collect();
    let mut found = Vec::new();
    while !left.is_empty() && (found.is_empty() || !works(&left)?) {
        narrow(&left, works, &mut found)?;
        left.retain(|number| !found.contains(number));
    }
    found.sort_unstable();
    Ok(found)
}

/// Finds those in a group that does not work.
fn narrow<E>(
    group: &[usize],
    works: &mut dyn FnMut(&[usize]) -> Result<bool, E>,
    found: &mut Vec<usize>,
) -> Result<(), E> {
    if let [one] = group {
        found.push(*one);
        return Ok(());
    }
    let (first, second) = group.split_at(group.len() / 2);
    let before = found.len();
    for half in [first, second] {
        if !works(half)? {
            narrow(half, works, found)?;
        }
    }
    if found.len() == before {
        found.extend(together(group, works)?);
    }
    Ok(())
}

/// One of those that are in the way together and not alone: without it the others are not.
fn together<E>(
    group: &[usize],
    works: &mut dyn FnMut(&[usize]) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    let mut group = group.to_vec();
    let mut at = 0;
    while at < group.len() && group.len() > 1 {
        let mut less = group.clone();
        less.remove(at);
        match works(&less)? {
            true => at += 1,
            false => group = less,
        }
    }
    Ok(group.last().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: &str = "[Unit]
Description=App

[Service]
Type=exec
ExecStart=/bin/app
Restart=on-failure
DynamicUser=yes

# Files
ProtectSystem=strict
StateDirectory=app

# System calls
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
";

    #[test]
    fn a_unit_is_tried_with_some_of_its_settings() {
        let parts = parts(UNIT);
        let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
        assert_eq!(names, ["DynamicUser", "ProtectSystem", "SystemCallFilter"]);
        let bare = with_only(UNIT, &parts, &[]);
        for gone in ["DynamicUser", "ProtectSystem=", "SystemCall", "Restart="] {
            assert!(!bare.contains(gone), "{bare}");
        }
        assert!(bare.contains("StateDirectory=app\n") && bare.contains("Type=exec\n"), "{bare}");
        let all = with_only(UNIT, &parts, &[0, 1, 2]);
        assert_eq!(all, UNIT.replace("Restart=on-failure\n", ""));
    }

    #[test]
    fn what_is_left_out_is_said_in_its_place() {
        let text = without(UNIT, &parts(UNIT), &[0, 2], "it ends with status 7");
        let expected = UNIT
            .replace(
                "DynamicUser=yes",
                "# without DynamicUser=: with it it ends with status 7, so it runs as root",
            )
            .replace(
                "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged\nSystemCallErrorNumber=EPERM",
                "# without SystemCallFilter=: with it it ends with status 7",
            );
        assert_eq!(text, expected);
        assert_eq!(without(UNIT, &parts(UNIT), &[], "x"), UNIT);
    }

    fn did(fate: Fate) -> Did {
        Did {
            fate,
            listening: BTreeSet::new(),
            files: BTreeSet::new(),
            after: Duration::ZERO,
            printed: Vec::new(),
            not_in_force: Vec::new(),
        }
    }

    #[test]
    fn a_trial_is_compared_with_the_run() {
        let at = Listening::Unix("/run/app.sock".to_owned());
        let file = PathBuf::from("/srv/x");
        let expected = Expected {
            goes_on: true,
            listening: [at.clone()].into(),
            files: [file.clone()].into(),
        };
        let check = |expected: &Expected, did: &Did, text: &str| {
            assert_eq!(words(&differences(expected, did)), text, "{did:?}");
        };
        let all = Did { listening: [at].into(), files: [file].into(), ..did(Fate::Up) };
        check(&expected, &all, "");
        let silent = did(Fate::Up);
        let both = "it does not listen at /run/app.sock, it does not write /srv/x";
        check(&expected, &silent, both);
        check(&repeated(&expected, &silent), &silent, "");
        let plain = Expected { goes_on: true, ..Expected::default() };
        check(&plain, &did(Fate::EndedWell), "it ends, with success");
        check(&plain, &did(Fate::NotYetUp), "it does not come up");
        check(&plain, &did(Fate::Failed("it ends with status 7".into())), "it ends with status 7");
        let once = Expected::default();
        check(&once, &did(Fate::EndedWell), "");
        check(&once, &did(Fate::Up), "it does not end");
        let many = ["/a", "/b", "/c", "/d", "/e"].map(PathBuf::from);
        let many = Expected { files: many.into(), ..Expected::default() };
        assert!(words(&differences(&many, &did(Fate::EndedWell))).ends_with("/d, 1 more"));
    }

    #[test]
    fn what_passes_away_is_not_compared() {
        let paths = ["/tmp/x", "/srv/x", "/run/app/pid", "/var/run/x", "/dev/shm/x", "/var/tmp/x"];
        let files: BTreeSet<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let of = |end| {
            let seen = Observed { files: files.clone(), end, ..Observed::default() };
            let expected = Expected::of(&seen);
            expected.files.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(End::Running), ["/run/app/pid", "/srv/x", "/var/run/x"]);
        let ended = End::Ended(warren_sys::process::ExitKind::Exited(0));
        assert_eq!(of(ended), ["/srv/x"]);
    }

    /// Every way in which two sets of settings, of up to six, can be in the way: those found are enough, and none of
    /// them is too many.
    #[test]
    fn settings_that_are_in_the_way_are_found_whatever_they_are() {
        const COUNT: usize = 6;
        let sets = || 1_u32..1 << COUNT;
        let members = |set: u32| (0..COUNT).filter(move |number| set & 1 << number != 0);
        for (first, second) in sets().flat_map(|first| sets().map(move |second| (first, second))) {
            let mut trials = 0;
            let works = |kept: &[usize]| {
                let fails = |set: u32| members(set).all(|number| kept.contains(&number));
                !fails(first) && !fails(second)
            };
            let found = in_the_way::<()>(COUNT, &mut |kept| {
                trials += 1;
                Ok(works(kept))
            });
            let found = found.expect("no trial fails");
            let left = |but: Option<usize>| -> Vec<usize> {
                (0..COUNT)
                    .filter(|number| !found.contains(number) || but == Some(*number))
                    .collect()
            };
            assert!(works(&left(None)), "{first:b} {second:b}: {found:?}");
            let is_alone = first.count_ones() == 1 && second.count_ones() == 1;
            if is_alone {
                for one in &found {
                    assert!(!works(&left(Some(*one))), "{first:b} {second:b}: {found:?}");
                }
            }
            assert!(trials <= 40, "{first:b} {second:b}: {trials} trials");
        }
    }

    #[test]
    fn one_of_all_is_found_in_a_dozen_trials() {
        for wrong in 0..CLOSING.len() {
            let mut trials = 0;
            let found = in_the_way::<()>(CLOSING.len(), &mut |kept| {
                trials += 1;
                Ok(!kept.contains(&wrong))
            });
            assert_eq!(found, Ok(vec![wrong]));
            assert!(trials <= 12, "{trials}");
        }
    }
}
