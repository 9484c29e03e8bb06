//! The manager's answers as text: pure functions from answers and style to what is printed.
//!
//! Layout and marks are those of systemctl's list-units and status, so that administrators need not learn
//! them again. Nothing is printed from here. Each picture begins with [`cleaned`].

use std::collections::BTreeMap;
use std::fmt::Write;

use warren_wire::control::{
    ActiveState, CatFile, Cause, CauseKind, Diagnostic, InhibitorLock, JobRow, LoadState, LostJob,
    PlannedShutdown, ReasonAnswer, ReasonCode, Refusal, ReloadAnswer, Remark, Removal, RuleOrigin,
    ShutdownAnswer, ShutdownWait, StatusAnswer, TotalsAnswer, UnitRow, WhyAnswer, WhyStep, WhyUnit,
};

use crate::output::{
    Style, Tone, bytes, clean, clean_lines, cleaned, cut, mark, span_us, tone_of_state,
};

pub(crate) mod origin;
pub mod past;
mod restarts;

/// A line of text; writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { writeln!($out, $($arg)*).expect("a string grows") };
}

mod purpose;

/// The widest of a column and its heading, in characters.
fn width_of<'a>(cells: impl Iterator<Item = &'a str>, heading: &str) -> usize {
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(heading.len())
}

/// Headings of the columns of a list before the description.
const HEADINGS: [&str; 4] = ["UNIT", "LOAD", "ACTIVE", "SUB"];

fn cells(row: &UnitRow) -> [&str; 4] {
    [&row.name, row.load.as_str(), row.active.as_str(), &row.sub]
}

/// So much of a description is shown on any terminal.
const DESCRIPTION_COLUMNS_MIN: usize = 10;

/// So much of a name.
const NAME_COLUMNS_MIN: usize = 20;

/// Columns before the description: the mark, and a space behind it and behind each cell.
fn taken(widths: [usize; 4]) -> usize {
    2 + widths.iter().map(|width| width + 1).sum::<usize>()
}

/// The table of `warren list`; on a terminal lines end where its `columns_max` do, as
/// far as that leaves enough of them.
pub fn list(rows: &[&UnitRow], style: Style, legend: bool, columns_max: Option<usize>) -> String {
    let rows: Vec<_> = rows.iter().map(|row| cleaned(*row)).collect();
    let mut widths = std::array::from_fn(|column| {
        width_of(rows.iter().map(|row| cells(row)[column]), HEADINGS[column])
    });
    if let Some(columns) = columns_max {
        let others = taken(widths) - widths[0] + DESCRIPTION_COLUMNS_MIN;
        widths[0] = widths[0].min(columns.saturating_sub(others).max(NAME_COLUMNS_MIN));
    }
    let mut out = String::new();
    if legend {
        let cells = HEADINGS.iter().zip(widths).map(|(heading, width)| {
            let cell = format!("{heading:width$}");
            style.paint(Tone::Strong, &cell)
        });
        let cells: Vec<String> = cells.collect();
        put!(out, "  {} {}", cells.join(" "), style.paint(Tone::Strong, "DESCRIPTION"));
    }
    for row in &rows {
        list_row(&mut out, row, widths, style, columns_max);
    }
    if legend {
        let units = if rows.len() == 1 { "unit" } else { "units" };
        put!(out, "\n{} {units} listed.", rows.len());
    }
    out
}

fn list_row(
    out: &mut String,
    row: &UnitRow,
    widths: [usize; 4],
    style: Style,
    columns_max: Option<usize>,
) {
    let unloaded = row.load != LoadState::Loaded;
    let marked = row.active == ActiveState::Failed || unloaded;
    let tone = if unloaded { Tone::Bad } else { tone_of_state(row.active.as_str()) };
    let dot = if marked { style.paint(tone, "●") } else { " ".to_owned() };
    let cells = HEADINGS.iter().zip(cells(row)).zip(widths).map(|((heading, cell), width)| {
        let cell = format!("{:width$}", cut(cell, width));
        let tone = if *heading == "LOAD" && !unloaded { Tone::Plain } else { tone };
        if *heading == "UNIT" && !marked { cell } else { style.paint(tone, &cell) }
    });
    let cells: Vec<String> = cells.collect();
    let description = match columns_max {
        Some(columns) => cut(
            &row.description,
            columns.saturating_sub(taken(widths)).max(DESCRIPTION_COLUMNS_MIN),
        ),
        None => row.description.clone(),
    };
    put!(out, "{}", format!("{dot} {} {description}", cells.join(" ")).trim_end());
}

/// What a shutdown waits for, and other stops that are under way.
pub fn shutdown(answer: &ShutdownAnswer, machine: Option<&str>) -> String {
    let answer = &*cleaned(answer);
    let mut out = match answer.stopping {
        true => {
            let left = match answer.jobs {
                0 => "all jobs done, stopping the last processes".to_owned(),
                1 => "1 job left".to_owned(),
                jobs => format!("{jobs} jobs left"),
            };
            let follows = answer.follows.as_ref().map(|what| format!(", then {what}"));
            let follows = follows.unwrap_or_default();
            format!("Shutting down: {left}{follows}.\n")
        }
        false => "No shutdown is under way.\n".to_owned(),
    };
    answer.planned.iter().for_each(|plan| planned(&mut out, plan, machine));
    if let Some(elsewhere) = &answer.planned_by_logind {
        let (mode, left) = (&elsewhere.mode, span_us(elsewhere.left_us));
        put!(out, "Planned by systemd-logind in {left}: {mode}.");
        put!(out, "To cancel it: shutdown -c");
    }
    inhibitors(&mut out, &answer.inhibitors);
    out += &shutdown_waits(&answer.waits, answer.unwritten_bytes);
    out
}

/// A shutdown that is planned.
fn planned(out: &mut String, planned: &PlannedShutdown, machine: Option<&str>) {
    let left = match planned.left_us {
        0 => "Scheduled, due now".to_owned(),
        left => format!("Scheduled in {}", span_us(left)),
    };
    let line = format!("{left}: {}. {}", planned.what, planned.message);
    put!(out, "{}", line.trim_end());
    put!(out, "To cancel it: {} shutdown --cancel", crate::connection::command(machine));
}

/// Who has a lock against a shutdown.
fn inhibitors(out: &mut String, locks: &[InhibitorLock]) {
    for InhibitorLock { who, why, pid, .. } in locks {
        let holder = pid.map_or("from outside".to_owned(), |pid| format!("pid {pid}"));
        put!(out, "  inhibited by {who} ({holder}): {why}");
    }
}

fn shutdown_waits(waits: &[ShutdownWait], unwritten_bytes: Option<u64>) -> String {
    const NO_UNIT: &str = "no unit";
    let mut out = String::new();
    let width = width_of(waits.iter().filter_map(|wait| wait.unit.as_deref()), NO_UNIT);
    for wait in waits {
        let process = wait.process.as_ref().map(|it| format!(", {it}")).unwrap_or_default();
        let server = wait.server.as_ref().map(|it| format!(", server of {it}"));
        let server = server.unwrap_or_default();
        let left = match wait.left_us {
            Some(left) => format!("{} left", span_us(left)),
            None => "no limit".to_owned(),
        };
        let unit = wait.unit.as_deref().unwrap_or(NO_UNIT);
        let (phase, so_far) = (&wait.phase, span_us(wait.so_far_us));
        put!(out, "  waits for {unit:width$} {phase}{process}{server}, {so_far}, {left}");
    }
    if let Some(bytes) = unwritten_bytes {
        put!(out, "  {} MiB of unwritten data", bytes >> 20);
    }
    if !waits.is_empty() {
        put!(out, "To skip the wait for a unit: warren shutdown skip UNIT");
    }
    out
}

/// One unit, as `systemctl status` shows it. `now_us` is the time of day in microseconds.
pub fn status(unit: &StatusAnswer, now_us: u64, style: Style) -> String {
    let unit = &*cleaned(unit);
    let active = unit.row.active.as_str();
    let tone = tone_of_state(active);
    let mut out = String::new();
    let dot = style.paint(tone, mark(active));
    let (name, description) = (&unit.row.name, &unit.row.description);
    match description == name || description.is_empty() {
        true => put!(out, "{dot} {name}"),
        false => put!(out, "{dot} {name} - {description}"),
    }
    put!(out, "     Loaded: {}", loaded(unit, style));
    if let Some(fault) = &unit.load_fault {
        put!(out, "      Fault: {}", diagnostic(fault));
    }
    for rule in rules(&unit.made_by) {
        put!(out, "    Made by: {rule}");
    }
    for rule in &unit.hides {
        put!(out, "      Hides: what {} makes", origin::origin(rule));
    }
    let state = style.paint(tone, &format!("{active} {}", detail_of_state(unit)));
    put!(out, "     Active: {state}{}", since(unit.since, now_us));
    purpose::lines(&mut out, unit, style);
    for line in restarts::lines(&unit.restart) {
        put!(out, "   Restarts: {line}");
    }
    for remark in remarks(&unit.remarks) {
        put!(out, "       Note: {remark}");
    }
    processes(&mut out, unit, style);
    if let Some(JobRow { id, kind, running }) = &unit.row.job {
        let running = if *running { "running" } else { "waiting" };
        put!(out, "        Job: {id} ({kind}, {running})");
    }
    if !unit.log.is_empty() {
        put!(out, "");
    }
    for line in &unit.log {
        put!(out, "{line}");
    }
    log_withheld(&mut out, unit.log_withheld, style);
    out
}

/// Says that there may be lines of the log which are not shown, and to whom they are.
fn log_withheld(out: &mut String, is_withheld: bool, style: Style) {
    if is_withheld {
        let said = "Log not shown: run as root or as the user of the manager to see it.";
        put!(out, "\n{}", style.paint(Tone::Dim, said));
    }
}

/// One of the files of `warren cat`. Its text is as it is for what compares or copies it, and clean for
/// a terminal.
pub fn file(file: &CatFile, is_terminal: bool, style: Style) -> String {
    let heading = style.paint(Tone::Dim, &format!("# {}", clean(&file.path)));
    let text = match (&file.unread, is_terminal) {
        _ if file.withheld == Some(true) => {
            "# not shown: not everybody may read this file; run as root to see it".to_owned()
        }
        (Some(why), _) => format!("# not shown: cannot read it: {}", clean(why)),
        (None, true) => clean_lines(&file.text),
        (None, false) => file.text.clone(),
    };
    format!("{heading}\n{text}{}", if text.ends_with('\n') { "" } else { "\n" })
}

fn loaded(unit: &StatusAnswer, style: Style) -> String {
    let load = unit.row.load.as_str();
    let state = unit.file_state.as_ref().map(|s| format!("; {s}")).unwrap_or_default();
    let word = match unit.row.load {
        LoadState::Loaded => load.to_owned(),
        _ => style.paint(Tone::Bad, load),
    };
    let mut out = match unit.files.split_first() {
        None => word,
        Some((fragment, [])) => format!("{word} ({fragment}{state})"),
        Some((fragment, dropins)) => {
            let dropins = dropins.join("\n             ");
            format!("{word} ({fragment}{state})\n    Drop-In: {dropins}")
        }
    };
    if unit.differs_on_disk {
        let said = "its files have changed since; to apply that: warren refresh";
        out = format!("{out}\n   Warning: {}", style.paint(Tone::Warn, said));
    }
    out
}

/// The sub state and what went wrong; a failed unit's sub state would say nothing more.
fn detail_of_state(unit: &StatusAnswer) -> String {
    let (sub, result) = (&unit.row.sub, unit.result.as_str());
    match (&unit.row.active, result) {
        (_, "" | "success") => format!("({sub})"),
        (ActiveState::Failed, _) if sub == "maintenance" => format!("({sub})"),
        (ActiveState::Failed, _) => format!("(Result: {result})"),
        _ => format!("({sub}) (Result: {result})"),
    }
}

fn since(at: Option<u64>, now_us: u64) -> String {
    let Some(at) = at else { return String::new() };
    let ago = whole_seconds(now_us.saturating_sub(at));
    format!(" since {}; {ago} ago", date(at))
}

fn whole_seconds(us: u64) -> String {
    if us < 60_000_000 { format!("{}s", us / 1_000_000) } else { span_us(us) }
}

/// The moment in UTC, as `2026-11-21 20:15:03 UTC`.
pub fn date(us: u64) -> String {
    let seconds = us / 1_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Day count since 1970-01-01 to a date, by whole 400-year cycles that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let m = (5 * of_year + 2) / 153;
    let month = if m < 10 { m + 3 } else { m - 9 };
    (year + era * 400 + u64::from(month <= 2), month, of_year - (153 * m + 2) / 5 + 1)
}

fn processes(out: &mut String, unit: &StatusAnswer, style: Style) {
    let listed = &unit.processes;
    let command = |pid: u32| {
        let process = listed.iter().find(|process| process.pid == pid);
        let line = process.map_or("", |process| &process.command);
        let path = line.trim_start_matches('"').split(' ').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default().to_owned()
    };
    for (pid, heading) in [(unit.main_pid, "   Main PID"), (unit.control_pid, "    Control")] {
        if let Some(pid) = pid.filter(|&pid| pid != 0) {
            match command(pid).as_str() {
                // It has just ended.
                "" => put!(out, "{heading}: {pid}"),
                name => put!(out, "{heading}: {pid} ({name})"),
            }
        }
    }
    if let Some(ended) = unit.ended.as_ref().filter(|_| unit.main_pid.is_none()) {
        put!(out, "      Ended: {ended}");
    }
    if !unit.status_text.is_empty() {
        put!(out, "     Status: \"{}\"", unit.status_text);
    }
    if let Some(tasks) = unit.tasks {
        put!(out, "      Tasks: {tasks}");
    }
    if let Some(memory) = unit.memory {
        put!(out, "     Memory: {}", bytes(memory));
    }
    if let Some(ns) = unit.cpu_ns {
        put!(out, "        CPU: {}", span_us(ns / 1000));
    }
    if !unit.cgroup.is_empty() {
        put!(out, "     CGroup: {}", unit.cgroup);
    }
    for (i, process) in listed.iter().enumerate() {
        let branch = if i + 1 == listed.len() { "└─" } else { "├─" };
        let line = format!("{branch}{} {}", process.pid, process.command);
        put!(out, "             {}", style.paint(Tone::Dim, &line));
    }
}

/// The answer of `Why`.
pub fn why(answer: &WhyAnswer, style: Style, machine: Option<&str>) -> String {
    let answer = &*cleaned(answer);
    let mut out = String::new();
    if answer.stopping == Some(true) {
        let waits = answer.waits.as_deref().unwrap_or_default();
        out += &shutdown_waits(waits, answer.unwritten_bytes.flatten());
    }
    let plan = answer.planned.as_ref().and_then(Option::as_ref);
    let locks = answer.inhibitors.as_deref().unwrap_or_default();
    if let Some(plan) = plan.filter(|plan| plan.left_us == 0 && !locks.is_empty()) {
        planned(&mut out, plan, machine);
        inhibitors(&mut out, locks);
    }
    if answer.units.is_empty() && out.is_empty() {
        return "No unit has failed or is waiting.\n".to_owned();
    }
    for unit in &answer.units {
        why_unit(&mut out, unit, style);
    }
    if !answer.units.is_empty() {
        log_withheld(&mut out, answer.log_withheld == Some(true), style);
    }
    out
}

fn why_unit(out: &mut String, unit: &WhyUnit, style: Style) {
    let Some((asked, causes)) = unit.path.split_first() else { return };
    let root = causes.last().unwrap_or(asked);
    headline(out, root, style);
    for line in last_words(&root.log) {
        put!(out, "      {}", style.paint(Tone::Dim, line));
    }
    // Where nothing is wrong with the root, what clears it is told of the first that is not as it
    // should be.
    let mut is_cured = !root.reason.cure.is_empty();
    // From the root to the unit that was asked about.
    for step in unit.path.iter().rev().skip(1) {
        let active = step.row.active.as_str();
        let state = style.paint(tone_of_state(active), active);
        put!(out, "   └ {} is {state}: {}", step.row.name, reason_of_step(step));
        for remark in remarks(&step.remarks) {
            put!(out, "     Note: {remark}");
        }
        if let Some(timer) = &step.timer {
            put!(out, "     Elapses: {}", purpose::elapses(timer));
        }
        if let Some(refusal) = &step.refusal {
            put!(out, "     {}", refusal_text(refusal));
        }
        let cure = &step.reason.cure;
        if !cure.is_empty() && !is_cured && step.waits_for.is_none() {
            put!(out, "     Fix: {cure}");
            is_cured = true;
        }
    }
    if !unit.impact.is_empty() {
        put!(out, "   Blocks {} units: {}", unit.impact.len(), shortened(&unit.impact));
    }
}

/// Log lines that are shown with a cause.
const LAST_WORDS: usize = 3;

/// The last lines of the log, the unit's own if there are any: what the manager said of it is told
/// above them already.
fn last_words(log: &[String]) -> Vec<&str> {
    let log: Vec<&str> = log.iter().map(String::as_str).collect();
    // Date, time of day, host, then who said it.
    let is_own = |line: &&&str| {
        let who = line.split_whitespace().nth(4).unwrap_or_default();
        who != "warrend:" && !who.starts_with("warrend[")
    };
    let own: Vec<&str> = log.iter().filter(is_own).copied().collect();
    let shown = if own.is_empty() { log } else { own };
    shown[shown.len().saturating_sub(LAST_WORDS)..].to_vec()
}

/// Why a unit on the way to the root is as it is: what its job waits for, if it has one that does.
fn reason_of_step(step: &WhyStep) -> String {
    let Some(other) = &step.waits_for else { return reason_text(&step.reason) };
    let others: Vec<&str> =
        std::iter::once(other).chain(&step.waits_for_also).map(String::as_str).collect();
    let more = match step.waits_for_more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let kind = step.row.job.as_ref().map_or("", |job| job.kind.as_str());
    format!("its {kind} job waits for {}{more}", others.join(", "))
}

fn headline(out: &mut String, root: &WhyStep, style: Style) {
    let active = root.row.active.as_str();
    let tone = tone_of_state(active);
    let state = style.paint(tone, &format!("{active} ({})", root.row.sub));
    let since = root.since.map(|at| format!(" since {}", date(at))).unwrap_or_default();
    put!(out, "{} {} is {state}{since}", style.paint(tone, mark(active)), root.row.name);
    put!(out, "   {} {}", root.reason.code, reason_text(&root.reason));
    if let Some(fault) = &root.load_fault {
        put!(out, "   Fault: {}", diagnostic(fault));
    }
    for remark in remarks(&root.remarks) {
        put!(out, "   Note: {remark}");
    }
    for rule in rules(&root.made_by) {
        put!(out, "   Made by {rule}");
    }
    if let Some(words) = &root.device {
        put!(out, "   Device: {words}");
    }
    if let Some(timer) = &root.timer {
        put!(out, "   Elapses: {}", purpose::elapses(timer));
    }
    conditions(out, root);
    if let Some(refusal) = &root.refusal {
        put!(out, "   {}", refusal_text(refusal));
    }
    if let Some(line) = under_way(root) {
        put!(out, "   {line}");
    }
    if let Some(Removal { unit, path }) = &root.removal {
        put!(out, "   Waiting for the cleanup of {path}, left by a previous run of {unit}.");
    }
    if !root.left_over.is_empty() {
        put!(out, "   Left over: {}", root.left_over.join(", "));
    }
    // What failed the job is mostly what failed the unit.
    let lost = root.lost_job.as_ref().filter(|job| job.reason.code != root.reason.code);
    if let Some(LostJob { kind, result, reason, .. }) = lost {
        put!(out, "   Its last {kind} job ended as {result}: {}", reason_text(reason));
    }
    how_it_ended(out, root);
    for line in restarts::lines(&root.restart) {
        put!(out, "   Restarts: {line}");
    }
    if !root.detail.is_empty() {
        put!(out, "   Status text: {}", root.detail);
    }
    if !root.reason.cure.is_empty() {
        put!(out, "   Fix: {}", root.reason.cure);
    }
}

/// Conditions that kept a unit from being started, now and then.
fn conditions(out: &mut String, root: &WhyStep) {
    match (root.unmet.as_deref(), root.unmet_then.as_deref()) {
        (None, None) => {}
        (None, Some([])) => put!(out, "   The conditions could not be checked again in time."),
        (None, Some(then)) => put!(
            out,
            "   Not met at the start: {}; the conditions could not be checked again in time.",
            then.join(", ")
        ),
        (Some([]), None | Some([])) => put!(out, "   All conditions are met now."),
        (Some([]), Some(then)) => {
            put!(
                out,
                "   All conditions are met now; at the start, these were not: {}.",
                then.join(", ")
            );
        }
        (Some(unmet), _) => put!(out, "   Not met: {}", unmet.join(", ")),
    }
}

/// How the main process ended, and a command that failed beside it.
fn how_it_ended(out: &mut String, root: &WhyStep) {
    // Of what goes well nobody asks how it went the last time.
    let waits = root.restart.as_ref().is_some_and(|restart| restart.waits);
    let is_over = root.row.active == ActiveState::Failed || waits;
    // Some signals end a service as well as its own wish does: SIGTERM of an administrator.
    let left = root.reason.code == ReasonCode::FINISHED;
    // A command has skipped it, too.
    let skipped = root.reason.code == ReasonCode::CONDITION_FAILED;
    let told = |ended: &&String| {
        is_over
            || left && ended.contains(" by SIG")
            || skipped && ended.starts_with("ExecCondition= ")
    };
    // A command of ExecStartPre= or ExecStop= that failed is more than how the main process went.
    for ended in [&root.command_ended, &root.ended].into_iter().flatten().filter(told) {
        put!(out, "   Its {ended}");
    }
}

/// How long a start, stop or reload, or a job that waits, has gone on, and may yet.
/// What a unit is at, for how long, and until when.
pub(crate) fn under_way(unit: &WhyStep) -> Option<String> {
    let going = unit.under_way.as_ref()?;
    let so_far = span_us(going.so_far_us);
    let what = match unit.row.active {
        ActiveState::Activating => "Starting",
        ActiveState::Deactivating => "Stopping",
        ActiveState::Reloading => "Reloading",
        _ => "Its job waits",
    };
    let server = going.server.as_ref().map(|server| format!("server of {server}"));
    let process = going.process.clone().or(server);
    let process = process.map(|it| format!(" ({it})")).unwrap_or_default();
    let left = match going.left_us {
        Some(left) => format!("gives up in {}", span_us(left)),
        None => "no time limit".to_owned(),
    };
    Some(format!("{what} for {so_far}{process}; {left}"))
}

/// What administrators said of a unit.
fn remarks(remarks: &[Remark]) -> impl Iterator<Item = String> + '_ {
    remarks.iter().map(|remark| {
        let by = match remark.by.as_ref().and_then(|by| by.uid) {
            None => "the manager".to_owned(),
            Some(uid) => format!("user {uid}"),
        };
        let at = remark.at.map(|at| format!(", {}", date(at))).unwrap_or_default();
        let said = match remark.text.as_str() {
            "" => String::new(),
            said => format!(": {said}"),
        };
        format!("{} by {by}{at}{said}", remark.of)
    })
}

/// The rules that made a unit and its drop-ins.
fn rules(made_by: &[RuleOrigin]) -> impl Iterator<Item = String> + '_ {
    made_by.iter().map(origin::origin)
}

/// The last start of the unit that was refused.
fn refusal_text(refusal: &Refusal) -> String {
    let at = refusal.at.map(|at| format!(" {}", date(at))).unwrap_or_default();
    format!("A start was refused{at}{}: {}", by_whom(refusal.by.as_ref()), refusal.text)
}

fn reason_text(reason: &ReasonAnswer) -> String {
    format!("{}{}", reason.text, by_whom(reason.cause.as_ref()))
}

/// Who or what set something off, in brackets.
fn by_whom(cause: Option<&Cause>) -> String {
    let Some(cause) = cause else { return String::new() };
    match (
        &cause.kind,
        cause.uid,
        cause.pid.flatten(),
        cause.unit.as_ref().and_then(Option::as_ref),
    ) {
        (CauseKind::Request, Some(uid), None, _) => {
            format!(" (requested by user {uid} from outside)")
        }
        (CauseKind::Request, Some(uid), Some(pid), _) => {
            format!(" (requested by user {uid}, process {pid})")
        }
        (CauseKind::Kernel, ..) => String::new(),
        (CauseKind::Manager, ..) => " (by the manager itself)".to_owned(),
        (kind, ..) if *kind == CauseKind::default() => String::new(),
        (_, _, _, Some(unit)) => format!(" ({unit})"),
        (kind, ..) => format!(" ({kind})"),
    }
}

fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len() {
        0..=SHOWN => shown,
        n => format!("{shown} and {} more", n - SHOWN),
    }
}

/// The answer of `ReloadConfiguration`.
pub fn refresh(answer: &ReloadAnswer, dry_run: bool, style: Style) -> String {
    let answer = &*cleaned(answer);
    let mut out = String::new();
    for (units, sign, tone) in [
        (&answer.added, "+", Tone::Good),
        (&answer.changed, "~", Tone::Warn),
        (&answer.removed, "-", Tone::Bad),
    ] {
        for name in units {
            put!(out, "{}", style.paint(tone, &format!("{sign} {name}")));
        }
    }
    for name in &answer.needs_restart {
        put!(out, "! {name} still runs with its old configuration: warren restart {name}");
    }
    for fault in &answer.diagnostics {
        put!(out, "{}", diagnostic(fault));
    }
    let verb = if dry_run { "would be" } else { "now" };
    put!(
        out,
        "Generation {} {verb} in force: {} added, {} changed, {} removed; {} in all, {} of the loop.",
        answer.generation,
        answer.added.len(),
        answer.changed.len(),
        answer.removed.len(),
        span_us(answer.took_us),
        span_us(answer.loop_us),
    );
    out
}

/// One diagnostic: `file:line:column: severity: message [code]`.
pub fn diagnostic(fault: &Diagnostic) -> String {
    let mut place = fault.path.clone();
    for number in [fault.line, fault.column] {
        match number {
            0 => break,
            n => write!(place, ":{n}").expect("a string grows"),
        }
    }
    format!("{place}: {}: {} [{}]", fault.severity, fault.message, fault.code)
}

/// The answer of `Totals`.
pub fn totals(answer: &TotalsAnswer, style: Style) -> String {
    let mut out = String::new();
    let tone = match (answer.failed, answer.state.as_str()) {
        (0, "running") => Tone::Good,
        (_, "degraded") => Tone::Bad,
        _ => Tone::Warn,
    };
    put!(out, "{} {}", style.paint(tone, "●"), style.paint(tone, &answer.state));
    put!(out, "    Units: {} loaded ({})", answer.loaded, counts(&answer.by_type));
    put!(out, "   States: {}", counts(&answer.by_state));
    put!(out, "     Jobs: {}", answer.jobs);
    put!(out, "   Failed: {}", answer.failed);
    put!(
        out,
        "    Start: {} to load, {}",
        span_us(answer.load_us),
        match answer.started {
            Some(false) => "not up yet".to_owned(),
            _ => format!("{} to be up", span_us(answer.startup_us)),
        }
    );
    let each = answer.resident_bytes.checked_div(answer.loaded).unwrap_or(0);
    put!(out, "   Memory: {} ({} a unit)", bytes(answer.resident_bytes), bytes(each));
    put!(
        out,
        "  Manager: process {}, {}, generation {}",
        answer.pid,
        answer.version.trim_matches(['(', ')']),
        answer.generation
    );
    out
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
}

/// Properties as `systemctl show` prints them, from the answer of `Status`.
pub fn show(unit: &StatusAnswer) -> String {
    let unit = &*cleaned(unit);
    let mut out = String::new();
    let file_state = unit.file_state.as_deref().unwrap_or_default();
    for (name, text) in [
        ("Id", unit.row.name.as_str()),
        ("Description", &unit.row.description),
        ("LoadState", unit.row.load.as_str()),
        ("ActiveState", unit.row.active.as_str()),
        ("SubState", &unit.row.sub),
        ("UnitFileState", file_state),
        ("Result", &unit.result),
        ("StatusText", &unit.status_text),
        ("ControlGroup", &unit.cgroup),
        ("FragmentPath", unit.files.first().map_or("", String::as_str)),
        ("DropInPaths", &unit.files.get(1..).unwrap_or_default().join(" ")),
    ] {
        put!(out, "{name}={text}");
    }
    for (name, number) in [
        ("MainPID", unit.main_pid.unwrap_or(0)),
        ("ControlPID", unit.control_pid.unwrap_or(0)),
        ("NRestarts", unit.restarts),
    ] {
        put!(out, "{name}={number}");
    }
    for (name, number) in [
        ("MemoryCurrent", unit.memory),
        ("CPUUsageNSec", unit.cpu_ns),
        ("TasksCurrent", unit.tasks),
    ] {
        match number {
            Some(n) => put!(out, "{name}={n}"),
            None => put!(out, "{name}=[not set]"),
        }
    }
    put!(out, "X-Warren-Reason={}", unit.reason.code);
    for rule in rules(&unit.made_by) {
        put!(out, "X-Warren-MadeBy={rule}");
    }
    out
}

#[cfg(test)]
mod tests;
