//! Log entries about units: what a notice of the core says, and what is wrong with unit files.
//!
//! Each carries the fields of systemd.journal-fields(7) and, where systemd has an id for such a message
//! (`journalctl --list-catalog`), that id. [`crate::base::say`] sends them.

use crate::base::process_name::client;
use crate::base::say::about_named;
use crate::base::say::say;
use crate::base::say::{ERR, INFO, WARNING};
use crate::base::unmet;
use std::collections::BTreeMap;
use warren_core::features::restart_mode;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::{JobKind, JobResult};
use warren_core::model::process::Outcome;
use warren_core::model::reason::{Cause, Code};
use warren_core::protocol::request::{Asker, Notice};
use warren_core::settings::{Settings, TypeSettings};
use warren_core::view::View;
use warren_unit::config::StatusUnitFormat;
use warren_unit::settings::{Group, Id};
use warren_unit::{Diagnostic, Severity};

/// Diagnostics that are written out after one load; the rest is counted.
pub(crate) const DIAGNOSTICS_SHOWN_MAX: usize = 50;

/// Of one file, so that it does not hide what is wrong with others.
pub(crate) const DIAGNOSTICS_OF_FILE_MAX: usize = 10;

/// Says what a notice has for the log.
pub fn notice(view: &View, settings: &Settings, notice: &Notice) {
    match notice {
        Notice::Log { unit, reason, .. } if reason.code == Code::Hurried => {
            let by = match reason.cause {
                Cause::Request { uid, pid } => format!(" ({})", client(Asker { uid, pid })),
                _ => String::new(),
            };
            let (name, code) = (view.graph.name(*unit), reason.code.id());
            let text = format!("{name}: {code} {}{by}", reason.code.text());
            about(view, settings, *unit, INFO, &text, &[("WARREN_REASON", &code)], true);
        }
        Notice::Log { reason, .. } if !reason.code.is_trouble() => {}
        Notice::Log { unit, reason, .. } if reason.code == Code::ConditionFailed => {
            skipped(view, settings, *unit);
        }
        Notice::Log { unit, reason, detail } => {
            let name = view.graph.name(*unit).as_str();
            let by = match reason.cause {
                Cause::Dependency(other) | Cause::Trigger(other) | Cause::Outcome(other) => {
                    format!(" ({})", view.graph.name(other))
                }
                _ => String::new(),
            };
            let asserts = match reason.code {
                Code::AssertFailed => unmet::asserts(view, settings, *unit).join(", "),
                _ => String::new(),
            };
            let detail = if detail.is_empty() { &asserts } else { detail };
            let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
            let code = reason.code.id();
            let text = format!("{name}: {code} {}{by}{detail}", reason.code.text());
            // Of those there may be thousands, and the console tells of the end itself.
            let to_console = reason.code != Code::ManagerExit;
            about(view, settings, *unit, WARNING, &text, &[("WARREN_REASON", &code)], to_console);
        }
        Notice::RemovalGivenUp { unit, paths } => {
            let name = view.graph.name(*unit);
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let text = format!(
                "{name}: {} was not removed: the manager crashed several times while removing it. Remove it manually",
                paths.join(", ")
            );
            about(view, settings, *unit, WARNING, &text, &[], true);
        }
        Notice::CycleBroken { units, at, is_kept } => {
            let names: Vec<&str> = units.iter().map(|u| view.graph.name(*u).as_str()).collect();
            let name = view.graph.name(*at);
            let how = match is_kept {
                true => "does not wait",
                false => "was dropped",
            };
            let text = format!("ordering cycle {}: the job of {name} {how}", names.join(" -> "));
            about(view, settings, *at, WARNING, &text, &[], true);
        }
        Notice::JobRemoved { result: JobResult::Done, changed: false, .. } => {}
        Notice::JobRemoved { job, unit, kind, result, .. } => {
            job_ended(view, settings, *unit, *job, *kind, *result);
        }
        _ => {}
    }
}

/// Says that a unit was not started, since a condition of its own was not met or `ExecCondition=` said no.
pub(crate) fn skipped(view: &View, settings: &Settings, unit: UnitId) {
    /// Of the second kind.
    const SKIPPED: &str = "0e4284a0caca4bfc81c0bb6786972673";
    let code = Code::ConditionFailed.id();
    let (text, more) = match unmet::why_skipped(view, settings, unit) {
        Some(why) => (format!("{} was skipped because {why}.", title(view, unit)), Vec::new()),
        None => {
            let result = Outcome::ExecCondition.as_str();
            let text = format!("{}: Skipped due to '{result}'.", view.graph.name(unit));
            (text, vec![("UNIT_RESULT", result), ("MESSAGE_ID", SKIPPED)])
        }
    };
    let fields = [vec![("WARREN_REASON", &*code)], more].concat();
    about(view, settings, unit, INFO, &text, &fields, true);
}

/// Says that the kernel killed a process of a unit for want of memory, whatever `OOMPolicy=` makes of it: who asks how
/// often that was looks for these.
pub(crate) fn out_of_memory(view: &View, settings: &Settings, unit: UnitId) {
    /// Of systemd's message for it.
    const KILLED: &str = "fe6faa94e7774663a0da52717891d8ef";
    let (name, code) = (view.graph.name(unit), Code::OomKilled.id());
    let text = format!("{name}: the kernel killed a process because memory ran out");
    let fields = [("WARREN_REASON", &*code), ("MESSAGE_ID", KILLED)];
    about(view, settings, unit, WARNING, &text, &fields, true);
}

/// Says that systemd-oomd killed what was in a unit's group.
pub(crate) fn killed_by_oomd(view: &View, settings: &Settings, unit: UnitId) {
    /// Of systemd's message for it.
    const KILLED: &str = "d989611b15e44c9dbf31e3c81256e4ed";
    let (name, code) = (view.graph.name(unit), Code::OomKilled.id());
    let text = format!("{name}: systemd-oomd killed its processes because memory was short");
    let fields = [("WARREN_REASON", &*code), ("MESSAGE_ID", KILLED)];
    about(view, settings, unit, WARNING, &text, &fields, true);
}

/// A unit's name and, if it has one, its description.
pub(crate) fn title(view: &View, unit: UnitId) -> String {
    let definition = view.definition(unit);
    let (name, description) = (definition.name.as_str(), definition.title());
    match description.is_empty() || description == name {
        true => name.to_owned(),
        false => format!("{name} - {description}"),
    }
}

/// Warns of a unit: among its messages, and with the console.
#[track_caller]
pub fn warn(view: &View, settings: &Settings, unit: UnitId, text: &str) {
    about(view, settings, unit, WARNING, text, &[], true);
}

/// Whether the manager says something of a unit at this level: `LogLevelMax=` is for its messages too
/// (systemd.exec(5)). Few units have it: only theirs are compiled for that.
pub(crate) fn is_said(view: &View, settings: &Settings, unit: UnitId, level: u8) -> bool {
    const LEVEL_MAX: Id = Id::of(Group::Exec, "LogLevelMax");
    let definition = view.definition(unit);
    if !definition.files.in_use().mention(LEVEL_MAX) {
        return true;
    }
    let compiled = settings.compile_running(definition);
    if restart_mode::is_for_debugging(view.run(unit), &compiled) {
        return true;
    }
    let level_max = match compiled.own {
        TypeSettings::Service(config) => config.exec.log_level_max,
        TypeSettings::Socket(config) => config.exec.log_level_max,
        TypeSettings::Mount(config) => config.exec.log_level_max,
        TypeSettings::Automount(_)
        | TypeSettings::Slice(_)
        | TypeSettings::Timer(_)
        | TypeSettings::Path(_)
        | TypeSettings::Scope(_)
        | TypeSettings::None => None,
    };
    level_max.is_none_or(|max| level <= max)
}

/// Says something about a unit, with the fields that name it.
#[track_caller]
pub(crate) fn about(
    view: &View,
    settings: &Settings,
    unit: UnitId,
    level: u8,
    text: &str,
    more: &[(&str, &str)],
    to_console: bool,
) {
    if !is_said(view, settings, unit, level) {
        return;
    }
    let invocation = view.run(unit).history.as_ref().map_or(0, |h| h.invocation);
    about_named(view.graph.name(unit), invocation, level, text, more, to_console);
}

/// What is said at the end of a job.
pub(crate) struct Words {
    level: u8,
    /// Before and after the unit's name and description.
    before: &'static str,
    after: &'static str,
    /// The id under which systemd says the same.
    id: &'static str,
}

pub(crate) fn words_of(kind: JobKind, result: JobResult) -> Option<Words> {
    const START_FAILED: &str = "be02cf6855d2428ba40df7e9d022f03d";
    use JobResult::{Assert, Dependency, Done, Failed, Timeout};
    let words = |level, before, after, id| Some(Words { level, before, after, id });
    let failed = |before| words(ERR, before, ".", START_FAILED);
    match (kind, result) {
        (JobKind::Start, Done) => words(INFO, "Started ", ".", "39f53479d3a045ac8e11786248231fbf"),
        (JobKind::Stop, Done) => words(INFO, "Stopped ", ".", "9d1aaa27d60140bd96365438aad20286"),
        (JobKind::Reload, Done) => {
            words(INFO, "Reloaded ", ".", "7b05ebc668384222baa8881179cfda54")
        }
        (JobKind::Start, Failed) => failed("Failed to start "),
        (JobKind::Start, Timeout) => failed("Timed out starting "),
        (JobKind::Start, Dependency) => failed("Dependency failed for "),
        (JobKind::Start, Assert) => failed("Assertion failed for "),
        _ => None,
    }
}

/// On the console only where somebody says so (ShowStatus=): a boot of thousands of units would be told one by one
/// there. What went wrong is there by its reason.
pub(crate) fn job_ended(
    view: &View,
    settings: &Settings,
    unit: UnitId,
    job: JobId,
    kind: JobKind,
    result: JobResult,
) {
    let Some(words) = words_of(kind, result) else { return };
    let title = shown_title(view, unit, settings.defaults.status_unit_format);
    let text = format!("{}{title}{}", words.before, words.after);
    let took = start_took_us(view, unit, kind).map(|us| us.to_string());
    let number = job.0.to_string();
    let mut more = vec![
        ("JOB_ID", &*number),
        ("JOB_TYPE", kind.as_str()),
        ("JOB_RESULT", result.as_str()),
        ("MESSAGE_ID", words.id),
    ];
    more.extend(took.as_deref().map(|took| ("WARREN_TOOK_US", took)));
    about(view, settings, unit, words.level, &text, &more, false);
    let passes = !view.totals.startup_finished || view.is_going_down();
    if passes && crate::base::say::shows(words.level == ERR) {
        crate::base::say::status(words.level, &text);
    }
}

/// A unit as StatusUnitFormat= has it.
fn shown_title(view: &View, unit: UnitId, format: StatusUnitFormat) -> String {
    let definition = view.definition(unit);
    match format {
        StatusUnitFormat::Combined => title(view, unit),
        StatusUnitFormat::Description if !definition.title().is_empty() => {
            definition.title().into_owned()
        }
        StatusUnitFormat::Name | StatusUnitFormat::Description => definition.name.to_string(),
    }
}

/// How long a start was at work that has just ended; none where its unit never began.
fn start_took_us(view: &View, unit: UnitId, kind: JobKind) -> Option<u64> {
    let history = view.run(unit).history.as_deref().filter(|_| kind == JobKind::Start)?;
    let (began, ended) = (history.inactive_exit, history.state_change);
    let took = ended.monotonic.0.checked_sub(began.monotonic.0)?;
    (!began.is_never()).then_some(took)
}

/// Says what was wrong with unit files.
pub fn diagnostics(all: &[Diagnostic]) {
    shown(all).for_each(|text| say!("{text}"));
}

/// The same, of a unit's own files.
pub fn diagnostics_of(view: &View, settings: &Settings, unit: UnitId, all: &[Diagnostic]) {
    shown(all).for_each(|text| warn(view, settings, unit, &text));
}

/// Errors first: they say why a unit cannot be used.
pub(crate) fn shown(all: &[Diagnostic]) -> impl Iterator<Item = String> {
    let line = |diagnostic: &Diagnostic| {
        let Diagnostic { path, line, column, severity, message, .. } = diagnostic;
        match column {
            0 => format!("{path}:{line}: {severity}: {message}"),
            column => format!("{path}:{line}:{column}: {severity}: {message}"),
        }
    };
    let mut of_files = BTreeMap::<&str, usize>::new();
    let (errors, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|diagnostic| diagnostic.severity == Severity::Error);
    let mut shown = Vec::new();
    for diagnostic in errors.into_iter().chain(others) {
        let of_file = of_files.entry(&diagnostic.path).or_default();
        if *of_file < DIAGNOSTICS_OF_FILE_MAX && shown.len() < DIAGNOSTICS_SHOWN_MAX {
            *of_file += 1;
            shown.push(line(diagnostic));
        }
    }
    let more = all.len() - shown.len();
    let more = (more > 0).then(|| format!("and {more} more; see warren verify"));
    shown.into_iter().chain(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_hides_what_is_wrong_with_another_and_errors_come_first() {
        let one = |path: &str, line, severity| {
            let (path, code, message) = (path.into(), warren_unit::Code::NotUtf8, String::new());
            Diagnostic { path, line, column: 0, severity, code, message }
        };
        let mut all: Vec<_> = (1..=256).map(|line| one("a", line, Severity::Warning)).collect();
        all.extend((1..=60).map(|n| one(&format!("b{n}"), 1, Severity::Warning)));
        all.push(one("c", 7, Severity::Error));
        let shown: Vec<String> = shown(&all).collect();
        assert!(shown[0].starts_with("c:7: "), "{}", shown[0]);
        assert_eq!(shown.iter().filter(|line| line.starts_with("a:")).count(), 10);
        assert_eq!((shown.len(), &*shown[50]), (51, "and 267 more; see warren verify"));
    }
}
