//! `warren top`: the console on a terminal, what the manager does now as a list elsewhere.
//!
//! The list is of one answer, so that it has no rates. Drawing it is pure: an answer and a size in, text out.

use std::io::IsTerminal;
use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;
use warren_console::run::End;
use warren_console::state::Look;
use warren_wire::control::{
    ShutdownWait, Top, TopAnswer, TopFailed, TopJob, TopRestarting, TopSlice,
};

use crate::args::{Global, TopArgs};
use crate::client::Client;
use crate::console::Link;
use crate::output::print_json;
use crate::output::{Style, Tone, cleaned, print};

/// Size of what is no terminal: columns and rows.
const SIZE_DEFAULT: (u16, u16) = (100, 40);

/// Columns from which on names come last.
const COLUMNS_WIDE: u16 = 60;

/// Columns that are kept for the name of a slice, as long as there is a column of numbers to leave out.
const SLICE_COLUMNS_MIN: usize = 20;

/// Lines below which there is nothing to be seen of a section: an empty one, the heading, a row.
const SECTION_LINES_MIN: usize = 3;

/// Shows it until `q`; once and as a list, where output is no terminal that has a cursor or JSON is wanted.
pub fn run(client: &mut Client, args: &TopArgs, global: &Global) -> Result<i32> {
    let style = Style::from_environment();
    if global.json {
        print_json(&client.call_as::<_, Value>(&Top {})?);
        return Ok(0);
    }
    let now = client.call(&Top {})?;
    let end = if args.lines {
        warren_console::run::run_lines(Arc::new(Link::new(global)?))?
    } else if has_cursor() {
        let look =
            Look { has_colour: style.colour, has_unicode: is_unicode(), has_mouse: !args.no_mouse };
        warren_console::run::run(Arc::new(Link::new(global)?), look)?
    } else {
        let size = warren_sys::terminal::size(std::io::stdout()).unwrap_or(SIZE_DEFAULT);
        print(&picture(&now, size, style));
        End::Quit
    };
    if end == End::ManagerEnded {
        print("The manager has ended.\n");
    }
    Ok(0)
}

/// Whether there is a terminal on which a cursor can be moved.
fn has_cursor() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !is_dumb
}

/// Whether the locale has characters beyond ASCII, locale(7).
fn is_unicode() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale =
        variables.filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// The list, in so many columns and rows.
fn picture(now: &TopAnswer, (columns, rows): (u16, u16), style: Style) -> String {
    let now = &*cleaned(now);
    let mut lines = summary(now, style);
    let room = usize::from(rows).saturating_sub(lines.len() + 1);
    let failed = format!("FAILED: {}", now.failed_total);
    let restarting = format!("STARTED AGAIN: {}", now.restarting.len());
    let jobs = format!("JOBS: {}, the oldest first", now.jobs);
    let waits = format!("WAITED FOR: {}, the longest first", now.waits_total);
    let mut sections = vec![
        section(&waits, &now.waits, style, |row| wait_line(row, columns)),
        section(&failed, &now.failed, style, |row| failed_line(row, style)),
        section(&restarting, &now.restarting, style, |row| restarting_line(row, style)),
        section(&jobs, &now.job_rows, style, |row| job_line(row, columns)),
        slices(now, columns, style),
    ];
    sections.retain(|section| section.len() > 1);
    if room < SECTION_LINES_MIN {
        // What counts most, without its heading.
        lines.extend(sections.drain(..).next().into_iter().flatten().skip(1).take(room));
    }
    // Where there is not room for all, the first count more.
    sections.truncate(room / SECTION_LINES_MIN);
    let mut left = room;
    let count = sections.len();
    for (index, section) in sections.into_iter().enumerate() {
        // Each has its share of what is left, the last has all.
        let share = (left / (count - index)).min(section.len() + 1);
        lines.push(String::new());
        lines.extend(section.into_iter().take(share - 1));
        left -= share;
    }
    let cut = |line: &String| cut_to(line, usize::from(columns));
    lines.iter().map(cut).collect::<Vec<_>>().join("\n") + "\n"
}

/// A line that is not wider than the terminal. Escape sequences have no width, and stay, so that what
/// they began ends with the line.
fn cut_to(line: &str, columns: usize) -> String {
    let (mut shown, mut escapes) = (0, false);
    let mut stays = |c: char| {
        let is_escape = escapes || c == '\x1b';
        escapes = is_escape && !c.is_ascii_alphabetic();
        shown += usize::from(!is_escape);
        is_escape || shown <= columns
    };
    line.chars().filter(|&c| stays(c)).collect()
}

fn summary(now: &TopAnswer, style: Style) -> Vec<String> {
    let failed = now.failed_total;
    let tone = if failed > 0 { Tone::Bad } else { Tone::Good };
    let doing = match (now.stopping, now.jobs) {
        (true, 0) => "shutting down, no job left".to_owned(),
        (true, 1) => "shutting down, 1 job left".to_owned(),
        (true, jobs) => format!("shutting down, {jobs} jobs left"),
        (false, 0) => "idle".to_owned(),
        (false, 1) if now.jobs_running == 0 => "1 job, which waits".to_owned(),
        (false, 1) => "1 job, running".to_owned(),
        (false, jobs) => format!("{jobs} jobs, {} of them running", now.jobs_running),
    };
    let doing = match now.reloading_us {
        Some(us) if doing == "idle" => format!("reloads since {:.1} s", us as f64 / 1e6),
        Some(us) => format!("{doing}; reloads since {:.1} s", us as f64 / 1e6),
        None => doing,
    };
    let doing = match now.unwritten_bytes {
        Some(bytes) => format!("{doing}; {} MiB of unwritten data", bytes >> 20),
        None => doing,
    };
    let resident = bytes(now.resident_bytes);
    vec![
        format!("{}  {doing}", style.paint(Tone::Strong, "warren top")),
        format!("manager {resident}; generation {}", now.generation),
        format!(
            "units   {} loaded, {} active, {}; {} restarts",
            now.loaded,
            now.active,
            style.paint(tone, &format!("{failed} failed")),
            now.restarts,
        ),
    ]
}

/// A heading and a line for each row; only the heading when there is none.
fn section<R>(title: &str, rows: &[R], style: Style, line: impl Fn(&R) -> String) -> Vec<String> {
    let heading = style.paint(Tone::Strong, title);
    std::iter::once(heading).chain(rows.iter().map(line)).collect()
}

fn failed_line(row: &TopFailed, style: Style) -> String {
    format!("{}  {} {}", style.paint(Tone::Bad, &row.unit), row.code, row.text)
}

fn restarting_line(row: &TopRestarting, style: Style) -> String {
    let TopRestarting { unit, code, text: why, restarts } = row;
    let plural = if *restarts == 1 { "" } else { "s" };
    let unit = style.paint(Tone::Bad, unit);
    format!("{unit}  {restarts} restart{plural}  {code} {why}")
}

/// Whom a job waits for.
fn waits_on(row: &TopJob) -> String {
    match (&row.waits_on, row.waits_for) {
        (None, _) | (_, 0) => String::new(),
        (Some(unit), 1) => format!("  {unit}"),
        (Some(unit), others) => format!("  {unit} and {} more", others - 1),
    }
}

/// A job; on a narrow terminal the name comes before what can be cut.
fn job_line(row: &TopJob, columns: u16) -> String {
    let age = row.age_us as f64 / 1e6;
    let state = match row.waits_for {
        0 => "running".to_owned(),
        others => format!("waits for {others}"),
    };
    let (kind, unit) = (row.kind.as_str(), &row.unit);
    match columns {
        COLUMNS_WIDE.. => format!("{age:>8.1} s  {kind:<8} {state:<16} {unit}{}", waits_on(row)),
        _ => format!("{age:>6.1} s {kind} {unit}  {state}"),
    }
}

/// A unit whose stop is waited for: for how long, how long yet, and for what of it.
fn wait_line(row: &ShutdownWait, columns: u16) -> String {
    let seconds = |us: u64| format!("{:.1} s", us as f64 / 1e6);
    let so_far = seconds(row.so_far_us);
    let left = row.left_us.map_or("no limit".to_owned(), |us| seconds(us) + " left");
    let server = row.server.as_ref().map(|server| format!("server of {server}"));
    let what = [Some(row.phase.as_str()), row.process.as_deref(), server.as_deref()];
    let what: Vec<&str> = what.into_iter().flatten().collect();
    let (unit, what) = (row.unit.as_deref().unwrap_or_default(), what.join(", "));
    match columns {
        COLUMNS_WIDE.. => format!("{so_far:>10}  {left:<14}{unit}  {what}"),
        _ => format!("{so_far:>8} {unit}  {left}, {what}"),
    }
}

/// Slices by the memory that they use.
fn slices(now: &TopAnswer, columns: u16, style: Style) -> Vec<String> {
    let mut rows: Vec<&TopSlice> = now.slices.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.memory_bytes));
    let row = |row: &TopSlice| {
        let tasks = row.tasks.map_or("-".to_owned(), |tasks| tasks.to_string());
        let memory = row.memory_bytes.map_or("-".to_owned(), bytes);
        slice_line(&[memory, tasks], &row.name, columns)
    };
    let heads = ["MEMORY", "TASKS"].map(str::to_owned);
    std::iter::once(style.paint(Tone::Strong, &slice_line(&heads, "SLICE", columns)))
        .chain(rows.into_iter().map(row))
        .collect()
}

/// Columns of numbers, as many as leave room for the name, and the name.
fn slice_line(numbers: &[String; 2], name: &str, columns: u16) -> String {
    const WIDTHS: [usize; 2] = [10, 8];
    let mut room = usize::from(columns).saturating_sub(SLICE_COLUMNS_MIN + 2);
    let mut line = String::new();
    for (index, (number, width)) in numbers.iter().zip(WIDTHS).enumerate() {
        // The first is always there: rows are sorted by it.
        if index > 0 && width > room {
            break;
        }
        room = room.saturating_sub(width);
        line.push_str(&format!("{number:>width$}"));
    }
    format!("{line}  {name}")
}

/// A number of bytes with a unit of 1,024.
fn bytes(count: u64) -> String {
    let (mut value, mut units) = (count as f64, ["B", "K", "M", "G", "T"].iter());
    let mut unit = units.next();
    while value >= 1024.0
        && let Some(next) = units.next()
    {
        (value, unit) = (value / 1024.0, Some(next));
    }
    let digits = usize::from(unit != Some(&"B"));
    format!("{value:.digits$} {}", unit.copied().unwrap_or("B"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(answer: &Value) -> TopAnswer {
        serde_json::from_value(answer.clone()).expect("it is an answer")
    }

    fn picture(now: &Value, size: (u16, u16), style: Style) -> String {
        super::picture(&read(now), size, style)
    }

    fn answer() -> Value {
        json!({
            "resident_bytes": 17 << 20, "generation": 3,
            "loaded": 32000, "active": 4000, "jobs": 2, "jobs_running": 1, "stopping": false,
            "restarts": 8, "failed_total": 1,
            "failed": [{"unit": "db.service", "code": "WR-0040", "text": "it left"}],
            "restarting": [{"unit": "flaky.service", "code": "WR-0046", "text": "no food",
                            "restarts": 17}],
            "job_rows": [
                {"unit": "slow.service", "type": "start", "age_us": 61_500_000, "waits_for": 0},
                {"unit": "late.service", "type": "stop", "age_us": 1_000_000, "waits_for": 3,
                 "waits_on": "slow.service"},
            ],
            "slices": [
                {"name": "a.slice", "tasks": 1},
                {"name": "b.slice", "memory_bytes": 3u64 << 30, "tasks": 12},
            ],
        })
    }

    #[test]
    fn the_failed_come_first() {
        let shown = picture(&answer(), (100, 40), Style::default());
        let expect = "\
warren top  2 jobs, 1 of them running
manager 17.0 M; generation 3
units   32000 loaded, 4000 active, 1 failed; 8 restarts

FAILED: 1
db.service  WR-0040 it left

STARTED AGAIN: 1
flaky.service  17 restarts  WR-0046 no food

JOBS: 2, the oldest first
    61.5 s  start    running          slow.service
     1.0 s  stop     waits for 3      late.service  slow.service and 2 more

    MEMORY   TASKS  SLICE
     3.0 G      12  b.slice
         -       1  a.slice
";
        assert_eq!(shown, expect);
    }

    #[test]
    fn the_list_fits() {
        let mut many = answer();
        let row = json!({"unit": "x".repeat(300), "code": "WR-0040", "text": ""});
        many["failed"] = Value::Array(vec![row; 500]);
        for rows in [5, 10, 24, 60] {
            let shown = picture(&many, (80, rows), Style::default());
            assert!(shown.lines().count() <= usize::from(rows), "{rows} rows: {shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= 80));
        }
        let nothing = picture(&json!({}), (80, 24), Style::default());
        assert!(nothing.starts_with("warren top  idle\n"), "{nothing}");
    }

    #[test]
    fn what_failed_is_shown_first_where_there_is_room_for_little() {
        let now = answer();
        let shown = |rows| {
            let shown = picture(&now, (80, rows), Style::default());
            ["FAILED: 1", "STARTED AGAIN: 1", "JOBS: 2", "SLICE"].map(|head| shown.contains(head))
        };
        assert_eq!(shown(5), [false; 4]);
        for (rows, shows) in [(4, false), (5, true), (6, true), (7, true)] {
            let small = picture(&now, (20, rows), Style::default());
            assert_eq!(small.contains("db.service  WR-0040"), shows, "{rows} rows: {small}");
            assert!(small.lines().count() < usize::from(rows), "{rows} rows: {small}");
        }
        assert_eq!(shown(7), [true, false, false, false]);
        assert_eq!(shown(10), [true, true, false, false]);
        assert_eq!(shown(13), [true, true, true, false]);
        assert_eq!(shown(16), [true; 4]);
    }

    #[test]
    fn what_a_shutdown_waits_for_comes_first() {
        let now = json!({
            "stopping": true, "jobs": 2, "unwritten_bytes": 3 << 20, "waits_total": 2, "waits": [
                {"unit": "db.service", "phase": "stop", "process": "pid 7 sh", "so_far_us": 2_000_000,
                 "left_us": 88_000_000},
                {"unit": "a.mount", "phase": "unmounting", "server": "/srv (nfs of host:/a)",
                 "so_far_us": 900_000},
            ],
            "job_rows": [{"unit": "db.service", "type": "stop", "age_us": 2_000_000, "waits_for": 0}],
        });
        let shown = |columns| picture(&now, (columns, 24), Style::default());
        let wide = shown(100);
        assert!(
            wide.starts_with("warren top  shutting down, 2 jobs left; 3 MiB of unwritten data"),
            "{wide}"
        );
        let lines: Vec<&str> = wide.lines().skip(4).take(3).collect();
        let want = [
            "WAITED FOR: 2, the longest first",
            "     2.0 s  88.0 s left   db.service  stop, pid 7 sh",
            "     0.9 s  no limit      a.mount  unmounting, server of /srv (nfs of host:/a)",
        ];
        assert_eq!(lines, want, "{wide}");
        assert!(shown(40).contains("   2.0 s db.service  88.0 s left, stop,"), "{}", shown(40));
    }

    #[test]
    fn jobs_are_counted_in_words() {
        let told = |stopping: bool, jobs: u64, running: u64| {
            let now = json!({"stopping": stopping, "jobs": jobs, "jobs_running": running,
                             "restarting": [{"unit": "a.service", "restarts": 1}]});
            let shown = picture(&now, (80, 24), Style::default());
            assert!(shown.contains("a.service  1 restart  "), "{shown}");
            shown.lines().next().map(|line| line.replace("warren top  ", "")).unwrap_or_default()
        };
        assert_eq!(told(true, 0, 0), "shutting down, no job left");
        assert_eq!(told(true, 1, 1), "shutting down, 1 job left");
        assert_eq!(told(true, 2, 1), "shutting down, 2 jobs left");
        assert_eq!(told(false, 0, 0), "idle");
        assert_eq!(told(false, 1, 1), "1 job, running");
        assert_eq!(told(false, 1, 0), "1 job, which waits");
        assert_eq!(told(false, 2, 1), "2 jobs, 1 of them running");
    }

    #[test]
    fn names_are_seen_on_a_narrow_terminal() {
        let now = answer();
        let shown = |columns| picture(&now, (columns, 40), Style::default());
        for line in ["  61.5 s start slow.service  running\n", "     3.0 G      12  b.slice\n"] {
            assert!(shown(40).contains(line), "{line}: {}", shown(40));
        }
        assert!(shown(20).contains("     3.0 G  b.slice\n"), "{}", shown(20));
        assert!(shown(40).contains("TASKS  SLICE\n") && !shown(39).contains("TASKS"));
    }

    #[test]
    fn colours_have_no_width() {
        let now = answer();
        let picture = |style| picture(&now, (30, 40), style);
        let plain = picture(Style::default());
        assert!(plain.lines().all(|line| line.chars().count() <= 30), "{plain}");
        let mut coloured = picture(Style { colour: true });
        assert!(coloured.contains("\x1b[0m"), "{coloured}");
        while let Some(at) = coloured.find('\x1b') {
            let end = coloured[at..].find('m').expect("a sequence ends");
            coloured.replace_range(at..=at + end, "");
        }
        assert_eq!(coloured, plain);
    }
}
