//! The manager's answers as text: pure functions from JSON and style to what is printed.
//!
//! Layout and marks are those of systemctl's list-units and status, so that nobody has to learn
//! them again. Nothing is printed from here. Each picture begins with [`cleaned`].

use std::fmt::Write;

use serde_json::Value;

use crate::output::{
    Style, Tone, bytes, clean, clean_lines, cleaned, cut, mark, span_us, tone_of_state,
};

mod restarts;

/// A line of text; writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { writeln!($out, $($arg)*).expect("a string grows") };
}

mod purpose;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn texts<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    value[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn width_of(rows: &[&Value], key: &str, heading: &str) -> usize {
    let longest = rows.iter().map(|row| text(row, key).chars().count()).max();
    longest.unwrap_or(0).max(heading.len())
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
pub fn list(rows: &[&Value], style: Style, legend: bool, columns_max: Option<usize>) -> String {
    let rows: Vec<_> = rows.iter().map(|row| cleaned(row)).collect();
    let rows: Vec<&Value> = rows.iter().map(|row| &**row).collect();
    let columns = [("name", "UNIT"), ("load", "LOAD"), ("active", "ACTIVE"), ("sub", "SUB")];
    let mut widths = columns.map(|(key, heading)| width_of(&rows, key, heading));
    if let Some(columns) = columns_max {
        let others = taken(widths) - widths[0] + DESCRIPTION_COLUMNS_MIN;
        widths[0] = widths[0].min(columns.saturating_sub(others).max(NAME_COLUMNS_MIN));
    }
    let mut out = String::new();
    if legend {
        let cells = columns.iter().zip(widths).map(|((_, heading), width)| {
            let cell = format!("{heading:width$}");
            style.paint(Tone::Strong, &cell)
        });
        let cells: Vec<String> = cells.collect();
        put!(out, "  {} {}", cells.join(" "), style.paint(Tone::Strong, "DESCRIPTION"));
    }
    for row in &rows {
        list_row(&mut out, row, &columns, widths, style, columns_max);
    }
    if legend {
        let units = if rows.len() == 1 { "unit" } else { "units" };
        put!(out, "\n{} {units} listed.", rows.len());
    }
    out
}

fn list_row(
    out: &mut String,
    row: &Value,
    columns: &[(&str, &str); 4],
    widths: [usize; 4],
    style: Style,
    columns_max: Option<usize>,
) {
    let active = text(row, "active");
    let unloaded = text(row, "load") != "loaded";
    let marked = active == "failed" || unloaded;
    let tone = if unloaded { Tone::Bad } else { tone_of_state(active) };
    let dot = if marked { style.paint(tone, "●") } else { " ".to_owned() };
    let cells = columns.iter().zip(widths).map(|((key, _), width)| {
        let cell = format!("{:width$}", cut(text(row, key), width));
        let tone = if *key == "load" && !unloaded { Tone::Plain } else { tone };
        if *key == "name" && !marked { cell } else { style.paint(tone, &cell) }
    });
    let cells: Vec<String> = cells.collect();
    let description = text(row, "description");
    let description = match columns_max {
        Some(columns) => {
            cut(description, columns.saturating_sub(taken(widths)).max(DESCRIPTION_COLUMNS_MIN))
        }
        None => description.to_owned(),
    };
    put!(out, "{}", format!("{dot} {} {description}", cells.join(" ")).trim_end());
}

/// What a shutdown waits for, and other stops that are under way.
pub fn shutdown(answer: &Value, machine: Option<&str>) -> String {
    let answer = &*cleaned(answer);
    let mut out = match answer["stopping"].as_bool() {
        Some(true) => {
            let left = match number(answer, "jobs") {
                0 => "all jobs done, ending the last processes".to_owned(),
                1 => "1 job left".to_owned(),
                jobs => format!("{jobs} jobs left"),
            };
            let follows = match text(answer, "follows") {
                "" => String::new(),
                what => format!(", then {what}"),
            };
            format!("Shutting down: {left}{follows}.\n")
        }
        _ => "No shutdown is under way.\n".to_owned(),
    };
    planned(&mut out, answer, machine);
    let elsewhere = &answer["planned_by_logind"];
    if elsewhere.is_object() {
        let (mode, left) = (text(elsewhere, "mode"), span_us(number(elsewhere, "left_us")));
        put!(out, "Planned by systemd-logind in {left}: {mode}.");
        put!(out, "To cancel it: shutdown -c");
    }
    inhibitors(&mut out, answer);
    out += &shutdown_waits(answer);
    out
}

/// An end that is planned, if one is.
fn planned(out: &mut String, answer: &Value, machine: Option<&str>) {
    let planned = &answer["planned"];
    if planned.is_object() {
        let left = match number(planned, "left_us") {
            0 => "Scheduled, due now".to_owned(),
            left => format!("Scheduled in {}", span_us(left)),
        };
        let line = format!("{left}: {}. {}", text(planned, "what"), text(planned, "message"));
        put!(out, "{}", line.trim_end());
        put!(out, "To cancel it: {} shutdown --cancel", crate::verbs::command(machine));
    }
}

/// Who has a lock against an end.
fn inhibitors(out: &mut String, answer: &Value) {
    for lock in answer["inhibitors"].as_array().into_iter().flatten() {
        let (who, why) = (text(lock, "who"), text(lock, "why"));
        let holder =
            lock["pid"].as_u64().map_or("from outside".to_owned(), |pid| format!("pid {pid}"));
        put!(out, "  inhibited by {who} ({holder}): {why}");
    }
}

fn shutdown_waits(answer: &Value) -> String {
    let mut out = String::new();
    let waits: Vec<&Value> = answer["waits"].as_array().into_iter().flatten().collect();
    let width = width_of(&waits, "unit", "no unit");
    for wait in &waits {
        let process = match text(wait, "process") {
            "" => String::new(),
            process => format!(", {process}"),
        };
        let server = match text(wait, "server") {
            "" => String::new(),
            server => format!(", server of {server}"),
        };
        let left = match wait["left_us"].as_u64() {
            Some(left) => format!("{} left", span_us(left)),
            None => "no limit".to_owned(),
        };
        let phase = text(wait, "phase");
        let unit = wait["unit"].as_str().unwrap_or("no unit");
        let so_far = span_us(number(wait, "so_far_us"));
        put!(out, "  waits for {unit:width$} {phase}{process}{server}, {so_far}, {left}");
    }
    if let Some(bytes) = answer["unwritten_bytes"].as_u64() {
        put!(out, "  {} MiB of unwritten data", bytes >> 20);
    }
    if !waits.is_empty() {
        put!(out, "To skip the wait for a unit: warren shutdown skip UNIT");
    }
    out
}

/// One unit, as `systemctl status` shows it. `now_us` is the time of day in microseconds.
pub fn status(unit: &Value, now_us: u64, style: Style) -> String {
    let unit = &*cleaned(unit);
    let active = text(unit, "active");
    let tone = tone_of_state(active);
    let mut out = String::new();
    let dot = style.paint(tone, mark(active));
    let (name, description) = (text(unit, "name"), text(unit, "description"));
    match description == name || description.is_empty() {
        true => put!(out, "{dot} {name}"),
        false => put!(out, "{dot} {name} - {description}"),
    }
    put!(out, "     Loaded: {}", loaded(unit, style));
    if unit["load_fault"].is_object() {
        put!(out, "      Fault: {}", diagnostic(&unit["load_fault"]));
    }
    for rule in rules(unit) {
        put!(out, "    Made by: {rule}");
    }
    for rule in unit["hides"].as_array().into_iter().flatten() {
        put!(out, "      Hides: what {} makes", crate::fleet::changes::origin(rule));
    }
    let state = style.paint(tone, &format!("{active} {}", detail_of_state(unit)));
    put!(out, "     Active: {state}{}", since(unit, now_us));
    purpose::lines(&mut out, unit, style);
    for line in restarts::lines(unit) {
        put!(out, "   Restarts: {line}");
    }
    for remark in remarks(unit) {
        put!(out, "       Note: {remark}");
    }
    processes(&mut out, unit, style);
    if let Some(job) = unit["job"].as_object() {
        let running = if job["running"].as_bool() == Some(true) { "running" } else { "waiting" };
        put!(out, "        Job: {} ({}, {running})", job["id"], job["type"].as_str().unwrap_or(""));
    }
    let log = texts(unit, "log");
    if !log.is_empty() {
        put!(out, "");
    }
    for line in log {
        put!(out, "{line}");
    }
    log_withheld(&mut out, unit, style);
    out
}

/// Says that there may be lines of the log which are not shown, and to whom they are.
fn log_withheld(out: &mut String, answer: &Value, style: Style) {
    if answer["log_withheld"] == true {
        let said = "Log not shown: run as root or as the user of the manager to see it.";
        put!(out, "\n{}", style.paint(Tone::Dim, said));
    }
}

/// One of the files of `warren cat`. Its text is as it is for what compares or copies it, and clean for
/// a terminal.
pub fn file(file: &Value, is_terminal: bool, style: Style) -> String {
    let heading = style.paint(Tone::Dim, &format!("# {}", clean(text(file, "path"))));
    let text = match (file["unread"].as_str(), is_terminal) {
        _ if file["withheld"] == true => {
            "# left out: not everybody may read this file; run as root to see it".to_owned()
        }
        (Some(why), _) => format!("# left out: it cannot be read: {}", clean(why)),
        (None, true) => clean_lines(text(file, "text")),
        (None, false) => text(file, "text").to_owned(),
    };
    format!("{heading}\n{text}{}", if text.ends_with('\n') { "" } else { "\n" })
}

fn loaded(unit: &Value, style: Style) -> String {
    let load = text(unit, "load");
    let files = texts(unit, "files");
    let state = unit["file_state"].as_str().map(|s| format!("; {s}")).unwrap_or_default();
    let word = if load == "loaded" { load.to_owned() } else { style.paint(Tone::Bad, load) };
    let mut out = match files.split_first() {
        None => word,
        Some((fragment, [])) => format!("{word} ({fragment}{state})"),
        Some((fragment, dropins)) => {
            let dropins = dropins.join("\n             ");
            format!("{word} ({fragment}{state})\n    Drop-In: {dropins}")
        }
    };
    if unit["differs_on_disk"] == true {
        let said = "its files have changed since; 'warren refresh' puts that into force";
        out = format!("{out}\n   Warning: {}", style.paint(Tone::Warn, said));
    }
    out
}

/// The sub state and what went wrong; a failed unit's sub state would say nothing more.
fn detail_of_state(unit: &Value) -> String {
    let (sub, result) = (text(unit, "sub"), text(unit, "result"));
    match (text(unit, "active"), result) {
        (_, "" | "success") => format!("({sub})"),
        ("failed", _) if sub == "maintenance" => format!("({sub})"),
        ("failed", _) => format!("(Result: {result})"),
        _ => format!("({sub}) (Result: {result})"),
    }
}

fn since(unit: &Value, now_us: u64) -> String {
    let Some(at) = unit["since"].as_u64() else { return String::new() };
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

fn processes(out: &mut String, unit: &Value, style: Style) {
    let listed: Vec<&Value> = unit["processes"].as_array().into_iter().flatten().collect();
    let command = |pid: u64| {
        let process = listed.iter().find(|p| number(p, "pid") == pid);
        let line = process.map(|p| text(p, "command")).unwrap_or_default();
        let path = line.trim_start_matches('"').split(' ').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default().to_owned()
    };
    for (key, heading) in [("main_pid", "   Main PID"), ("control_pid", "    Control")] {
        if let Some(pid) = unit[key].as_u64().filter(|&pid| pid != 0) {
            match command(pid).as_str() {
                // It has just ended.
                "" => put!(out, "{heading}: {pid}"),
                name => put!(out, "{heading}: {pid} ({name})"),
            }
        }
    }
    if let Some(ended) = unit["ended"].as_str().filter(|_| unit["main_pid"].is_null()) {
        put!(out, "      Ended: {ended}");
    }
    if let Some(status) = unit["status_text"].as_str().filter(|text| !text.is_empty()) {
        put!(out, "     Status: \"{status}\"");
    }
    for (key, heading) in [("tasks", "      Tasks"), ("memory", "     Memory")] {
        match unit[key].as_u64() {
            Some(n) if key == "tasks" => put!(out, "{heading}: {n}"),
            Some(n) => put!(out, "{heading}: {}", bytes(n)),
            None => {}
        }
    }
    if let Some(ns) = unit["cpu_ns"].as_u64() {
        put!(out, "        CPU: {}", span_us(ns / 1000));
    }
    let cgroup = text(unit, "cgroup");
    if !cgroup.is_empty() {
        put!(out, "     CGroup: {cgroup}");
    }
    for (i, process) in listed.iter().enumerate() {
        let branch = if i + 1 == listed.len() { "└─" } else { "├─" };
        let line = format!("{branch}{} {}", number(process, "pid"), text(process, "command"));
        put!(out, "             {}", style.paint(Tone::Dim, &line));
    }
}

/// The answer of `Why`.
pub fn why(answer: &Value, style: Style, machine: Option<&str>) -> String {
    let answer = &*cleaned(answer);
    let mut out = String::new();
    let units: Vec<&Value> = answer["units"].as_array().into_iter().flatten().collect();
    if answer["stopping"].as_bool() == Some(true) {
        out += &shutdown_waits(answer);
    }
    let is_due = answer["planned"]["left_us"].as_u64() == Some(0);
    if is_due && answer["inhibitors"].as_array().is_some_and(|locks| !locks.is_empty()) {
        planned(&mut out, answer, machine);
        inhibitors(&mut out, answer);
    }
    if units.is_empty() && out.is_empty() {
        return "No unit has failed or waits.\n".to_owned();
    }
    for unit in &units {
        why_unit(&mut out, unit, style);
    }
    if !units.is_empty() {
        log_withheld(&mut out, answer, style);
    }
    out
}

fn why_unit(out: &mut String, unit: &Value, style: Style) {
    let path: Vec<&Value> = unit["path"].as_array().into_iter().flatten().collect();
    let Some((asked, causes)) = path.split_first() else { return };
    let root = causes.last().unwrap_or(asked);
    headline(out, root, style);
    for line in last_words(&texts(root, "log")) {
        put!(out, "      {}", style.paint(Tone::Dim, line));
    }
    // Where nothing is wrong with the root, what clears it is told of the first that is not as it
    // should be.
    let mut is_cured = !text(&root["reason"], "cure").is_empty();
    // From the root to the unit that was asked about.
    for step in path.iter().rev().skip(1) {
        let state = style.paint(tone_of_state(text(step, "active")), text(step, "active"));
        put!(out, "   └ {} is {state}: {}", text(step, "name"), reason_of_step(step));
        for remark in remarks(step) {
            put!(out, "     Note: {remark}");
        }
        if let Some(refusal) = refusal(step) {
            put!(out, "     {refusal}");
        }
        let cure = text(&step["reason"], "cure");
        if !cure.is_empty() && !is_cured && step["waits_for"].is_null() {
            put!(out, "     Fix: {cure}");
            is_cured = true;
        }
    }
    let impact = texts(unit, "impact");
    if !impact.is_empty() {
        put!(out, "   Blocks {} units: {}", impact.len(), shortened(&impact));
    }
}

/// Log lines that are shown with a cause.
const LAST_WORDS: usize = 3;

/// The last lines of the log, the unit's own if there are any: what the manager said of it is told
/// above them already.
fn last_words<'a>(log: &[&'a str]) -> Vec<&'a str> {
    // Date, time of day, host, then who said it.
    let is_own = |line: &&&str| {
        let who = line.split_whitespace().nth(4).unwrap_or_default();
        who != "warrend:" && !who.starts_with("warrend[")
    };
    let own: Vec<&str> = log.iter().filter(is_own).copied().collect();
    let shown = if own.is_empty() { log.to_vec() } else { own };
    shown[shown.len().saturating_sub(LAST_WORDS)..].to_vec()
}

/// Why a unit on the way to the root is as it is: what its job waits for, if it has one that does.
fn reason_of_step(step: &Value) -> String {
    match step["waits_for"].as_str() {
        Some(other) => {
            let others: Vec<&str> =
                std::iter::once(other).chain(texts(step, "waits_for_also")).collect();
            let more = match number(step, "waits_for_more") {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let kind = text(&step["job"], "type");
            format!("its {kind} job waits for {}{more}", others.join(", "))
        }
        None => reason_text(&step["reason"]),
    }
}

fn headline(out: &mut String, root: &Value, style: Style) {
    let active = text(root, "active");
    let tone = tone_of_state(active);
    let state = style.paint(tone, &format!("{active} ({})", text(root, "sub")));
    let since = root["since"].as_u64().map(|at| format!(" since {}", date(at))).unwrap_or_default();
    put!(out, "{} {} is {state}{since}", style.paint(tone, mark(active)), text(root, "name"));
    put!(out, "   {} {}", text(&root["reason"], "code"), reason_text(&root["reason"]));
    if root["load_fault"].is_object() {
        put!(out, "   Fault: {}", diagnostic(&root["load_fault"]));
    }
    for remark in remarks(root) {
        put!(out, "   Note: {remark}");
    }
    for rule in rules(root) {
        put!(out, "   Made by {rule}");
    }
    if let Some(words) = root["device"].as_str() {
        put!(out, "   Device: {words}");
    }
    match root["unmet"].as_array().map(|_| texts(root, "unmet")).as_deref() {
        None if root["unmet_then"].is_array() => match &texts(root, "unmet_then")[..] {
            [] => put!(out, "   The conditions could not be checked again in time."),
            then => put!(
                out,
                "   Not met at the start: {}; the conditions could not be checked again in time.",
                then.join(", ")
            ),
        },
        None => {}
        Some([]) => match &texts(root, "unmet_then")[..] {
            [] => put!(out, "   All conditions are met now."),
            then => put!(
                out,
                "   All conditions are met now; at the start, these were not: {}.",
                then.join(", ")
            ),
        },
        Some(unmet) => put!(out, "   Not met: {}", unmet.join(", ")),
    }
    if let Some(refusal) = refusal(root) {
        put!(out, "   {refusal}");
    }
    if let Some(line) = under_way(root) {
        put!(out, "   {line}");
    }
    if root["removal"].is_object() {
        let (path, unit) = (text(&root["removal"], "path"), text(&root["removal"], "unit"));
        put!(out, "   Waiting for the cleanup of {path}, left by a previous run of {unit}.");
    }
    let left = texts(root, "left_over");
    if !left.is_empty() {
        put!(out, "   Left over: {}", left.join(", "));
    }
    let job = &root["lost_job"];
    // What failed the job is mostly what failed the unit.
    let same = text(&job["reason"], "code") == text(&root["reason"], "code");
    if job.is_object() && !same {
        let (kind, result) = (text(job, "type"), text(job, "result"));
        put!(out, "   Its last {kind} job ended as {result}: {}", reason_text(&job["reason"]));
    }
    // Of what goes well nobody asks how it went the last time.
    let is_over = active == "failed" || root["restart"]["waits"] == true;
    // Some signals end a service as well as its own wish does: SIGTERM of an administrator.
    let left = text(&root["reason"], "code") == "WR-0024";
    // A command has skipped it, too.
    let skipped = text(&root["reason"], "code") == "WR-0030";
    let told = |ended: &&str| {
        is_over
            || left && ended.contains(" by SIG")
            || skipped && ended.starts_with("ExecCondition= ")
    };
    // A command of ExecStartPre= or ExecStop= that failed is more than how the main process went.
    for ended in ["command_ended", "ended"].into_iter().filter_map(|key| root[key].as_str()) {
        if told(&ended) {
            put!(out, "   Its {ended}");
        }
    }
    for line in restarts::lines(root) {
        put!(out, "   Restarts: {line}");
    }
    if let Some(detail) = root["detail"].as_str().filter(|detail| !detail.is_empty()) {
        put!(out, "   Status text: {detail}");
    }
    let cure = text(&root["reason"], "cure");
    if !cure.is_empty() {
        put!(out, "   Fix: {cure}");
    }
}

/// How long a start, stop or reload, or a job that waits, has gone on, and may yet.
fn under_way(unit: &Value) -> Option<String> {
    let going = &unit["under_way"];
    let so_far = span_us(going["so_far_us"].as_u64()?);
    let what = match text(unit, "active") {
        "activating" => "Starting",
        "deactivating" => "Stopping",
        "reloading" => "Reloading",
        _ => "Its job waits",
    };
    let server = going["server"].as_str().map(|server| format!("server of {server}"));
    let process = going["process"].as_str().map(str::to_owned).or(server);
    let process = process.map(|it| format!(" ({it})")).unwrap_or_default();
    let left = match going["left_us"].as_u64() {
        Some(left) => format!("it is given up in {}", span_us(left)),
        None => "it may take for ever".to_owned(),
    };
    Some(format!("{what} for {so_far}{process}; {left}"))
}

/// What administrators said of a unit.
fn remarks(unit: &Value) -> impl Iterator<Item = String> + '_ {
    unit["remarks"].as_array().into_iter().flatten().map(|remark| {
        let by = match &remark["by"]["uid"] {
            Value::Null => "the manager".to_owned(),
            uid => format!("user {uid}"),
        };
        let at = remark["at"].as_u64().map(|at| format!(", {}", date(at))).unwrap_or_default();
        let said = match text(remark, "text") {
            "" => String::new(),
            said => format!(": {said}"),
        };
        format!("{} by {by}{at}{said}", text(remark, "of"))
    })
}

/// The rules that made a unit and its drop-ins.
fn rules(unit: &Value) -> impl Iterator<Item = String> + '_ {
    unit["made_by"].as_array().into_iter().flatten().map(crate::fleet::changes::origin)
}

/// The last start of the unit that was refused.
fn refusal(unit: &Value) -> Option<String> {
    let refusal = unit["refusal"].as_object()?;
    let at = refusal["at"].as_u64().map(|at| format!(" {}", date(at))).unwrap_or_default();
    let said = refusal["text"].as_str().unwrap_or_default();
    Some(format!("A start was refused{at}{}: {said}", by_whom(&refusal["by"])))
}

fn reason_text(reason: &Value) -> String {
    format!("{}{}", text(reason, "text"), by_whom(&reason["cause"]))
}

/// Who or what set something off, in brackets.
fn by_whom(cause: &Value) -> String {
    match text(cause, "kind") {
        "request" if cause["pid"].is_null() => {
            format!(" (requested by user {} from outside)", cause["uid"])
        }
        "request" => format!(" (requested by user {}, process {})", cause["uid"], cause["pid"]),
        "" | "kernel" => String::new(),
        "manager" => " (by the manager itself)".to_owned(),
        _ if cause["unit"].is_string() => format!(" ({})", text(cause, "unit")),
        kind => format!(" ({kind})"),
    }
}

fn shortened(names: &[&str]) -> String {
    const SHOWN: usize = 6;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0..=SHOWN => shown,
        n => format!("{shown} and {} more", n - SHOWN),
    }
}

/// The answer of `ReloadConfiguration`.
pub fn refresh(answer: &Value, dry_run: bool, style: Style) -> String {
    let answer = &*cleaned(answer);
    let mut out = String::new();
    for (key, sign, tone) in
        [("added", "+", Tone::Good), ("changed", "~", Tone::Warn), ("removed", "-", Tone::Bad)]
    {
        for name in texts(answer, key) {
            put!(out, "{}", style.paint(tone, &format!("{sign} {name}")));
        }
    }
    for name in texts(answer, "needs_restart") {
        put!(out, "! {name} still runs with its old configuration: warren restart {name}");
    }
    for fault in answer["diagnostics"].as_array().into_iter().flatten() {
        put!(out, "{}", diagnostic(fault));
    }
    let count = |key: &str| answer[key].as_array().map_or(0, Vec::len);
    let verb = if dry_run { "would be" } else { "now" };
    put!(
        out,
        "Generation {} {verb} in force: {} added, {} changed, {} removed; {} in all, {} of the loop.",
        number(answer, "generation"),
        count("added"),
        count("changed"),
        count("removed"),
        span_us(number(answer, "took_us")),
        span_us(number(answer, "loop_us")),
    );
    out
}

/// One diagnostic: `file:line:column: severity: message [code]`.
pub fn diagnostic(fault: &Value) -> String {
    let mut place = text(fault, "path").to_owned();
    for key in ["line", "column"] {
        match number(fault, key) {
            0 => break,
            n => write!(place, ":{n}").expect("a string grows"),
        }
    }
    let (severity, message) = (text(fault, "severity"), text(fault, "message"));
    format!("{place}: {severity}: {message} [{}]", text(fault, "code"))
}

/// The answer of `Totals`.
pub fn totals(answer: &Value, style: Style) -> String {
    let mut out = String::new();
    let failed = number(answer, "failed");
    let word = text(answer, "state");
    let tone = match (failed, word) {
        (0, "running") => Tone::Good,
        (_, "degraded") => Tone::Bad,
        _ => Tone::Warn,
    };
    let loaded = number(answer, "loaded");
    put!(out, "{} {}", style.paint(tone, "●"), style.paint(tone, word));
    put!(out, "    Units: {loaded} loaded ({})", counts(&answer["by_type"]));
    put!(out, "   States: {}", counts(&answer["by_state"]));
    put!(out, "     Jobs: {}", number(answer, "jobs"));
    put!(out, "   Failed: {failed}");
    put!(
        out,
        "    Start: {} to load, {}",
        span_us(number(answer, "load_us")),
        match answer["started"].as_bool() {
            Some(false) => "not up yet".to_owned(),
            _ => format!("{} to be up", span_us(number(answer, "startup_us"))),
        }
    );
    let resident = number(answer, "resident_bytes");
    let each = resident.checked_div(loaded).unwrap_or(0);
    put!(out, "   Memory: {} ({} a unit)", bytes(resident), bytes(each));
    put!(
        out,
        "  Manager: process {}, {}, generation {}",
        number(answer, "pid"),
        text(answer, "version").trim_matches(['(', ')']),
        number(answer, "generation")
    );
    out
}

fn counts(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    pairs.map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
}

/// Properties as `systemctl show` prints them, from the answer of `Status`.
pub fn show(unit: &Value) -> String {
    let unit = &*cleaned(unit);
    let mut out = String::new();
    for (name, key) in [
        ("Id", "name"),
        ("Description", "description"),
        ("LoadState", "load"),
        ("ActiveState", "active"),
        ("SubState", "sub"),
        ("UnitFileState", "file_state"),
        ("Result", "result"),
        ("StatusText", "status_text"),
        ("ControlGroup", "cgroup"),
    ] {
        put!(out, "{name}={}", text(unit, key));
    }
    let files = texts(unit, "files");
    put!(out, "FragmentPath={}", files.first().unwrap_or(&""));
    put!(out, "DropInPaths={}", files.get(1..).unwrap_or_default().join(" "));
    for (name, key) in [
        ("MainPID", "main_pid"),
        ("ControlPID", "control_pid"),
        ("NRestarts", "restarts"),
        ("MemoryCurrent", "memory"),
        ("CPUUsageNSec", "cpu_ns"),
        ("TasksCurrent", "tasks"),
    ] {
        match unit[key].as_u64() {
            Some(n) => put!(out, "{name}={n}"),
            None if name.ends_with("PID") => put!(out, "{name}=0"),
            None => put!(out, "{name}=[not set]"),
        }
    }
    put!(out, "X-Warren-Reason={}", text(&unit["reason"], "code"));
    for rule in rules(unit) {
        put!(out, "X-Warren-MadeBy={rule}");
    }
    out
}

#[cfg(test)]
mod tests;
