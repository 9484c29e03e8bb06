//! `warren top`: what the manager does now, redrawn each second on the terminal's second screen.
//!
//! The manager answers with counters; rates are differences between two answers. Drawing is pure:
//! two answers and a size in, text out.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use warren_wire::control::{
    ShutdownWait, Top, TopAnswer, TopFailed, TopJob, TopRestarting, TopSlice,
};

use crate::client::{CallError, Client};
use crate::live::{Screen, Watch};
use crate::output::print_json;
use crate::output::{Style, Tone, cleaned, print};

/// Time between two pictures.
const PERIOD: Duration = Duration::from_secs(1);

/// Pictures without a manager before it is given up: it may be killed, or upgraded, at any time, and
/// comes back.
const SILENT_MAX: u32 = 60;

/// Size of a terminal that does not tell its own: columns and rows.
const SIZE_DEFAULT: (u16, u16) = (100, 40);

/// Columns from which on names come last.
const COLUMNS_WIDE: u16 = 60;

/// Columns that are kept for the name of a slice, as long as there is a column of numbers to leave out.
const SLICE_COLUMNS_MIN: usize = 20;

/// Lines below which there is nothing to be seen of a section: an empty one, the heading, a row.
const SECTION_LINES_MIN: usize = 3;

/// Shows it until `q`; once, where output is no terminal or JSON is wanted.
pub fn run(client: &mut Client, as_json: bool) -> Result<i32> {
    let style = Style::from_environment();
    if as_json {
        print_json(&client.call_as::<_, Value>(&Top {})?);
        return Ok(0);
    }
    let now = client.call(&Top {})?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        print(&picture(None, &now, false, SIZE_DEFAULT, style));
        return Ok(0);
    }
    // Keys and signals are looked at between two pictures: those are not to be held up.
    client.answers_within(PERIOD)?;
    let mut watch = Watch::new()?;
    let screen = Screen::enter();
    let is_over = watch_it(client, now, &mut watch, &screen, style)?;
    drop(screen);
    if is_over {
        print("The manager has ended.\n");
    }
    Ok(0)
}

/// Shows it until a key ends it, or until the manager is down for good: then true.
fn watch_it(
    client: &mut Client,
    mut now: TopAnswer,
    watch: &mut Watch,
    screen: &Screen,
    style: Style,
) -> Result<bool> {
    let (mut before, mut silent) = (None, 0);
    loop {
        let size = warren_sys::terminal::size(std::io::stdout()).unwrap_or(SIZE_DEFAULT);
        screen.show(&picture(before.as_ref(), &now, silent > 0, size, style));
        if !watch.wait(PERIOD)? {
            return Ok(false);
        }
        match client.call(&Top {}) {
            Ok(next) => (before, silent) = (Some(std::mem::replace(&mut now, next)), 0),
            Err(error) => {
                if lost(client, error, now.stopping, &mut silent)? {
                    return Ok(true);
                }
            }
        }
    }
}

/// The manager did not answer: it is looked for again, for so long. What it refuses, it always will.
/// True if it has ended: it was going down, and nobody listens at its socket any more, which init does
/// for one that was killed meanwhile.
fn lost(
    client: &mut Client,
    error: CallError,
    goes_down: bool,
    silent: &mut u32,
) -> Result<bool, CallError> {
    if matches!(error, CallError::Refused(..)) || *silent == SILENT_MAX {
        return Err(error);
    }
    *silent += 1;
    // If no manager listens yet, the next call on the broken connection says so again. The answer of one that
    // took too long may still come: it is to be no other call's.
    let again = client.connect_again();
    Ok(again.is_err_and(|error| error.is_nobody()) && goes_down)
}

/// One picture of so many columns and rows. Without an answer from before there are no rates. Of a manager that is
/// silent it is the last answer that there was.
fn picture(
    before: Option<&TopAnswer>,
    now: &TopAnswer,
    is_silent: bool,
    (columns, rows): (u16, u16),
    style: Style,
) -> String {
    let now = &*cleaned(now);
    let mut lines = summary(before, now, is_silent, style);
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
        slices(before, now, columns, style),
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

fn summary(
    before: Option<&TopAnswer>,
    now: &TopAnswer,
    is_silent: bool,
    style: Style,
) -> Vec<String> {
    let cpu = rate(before, now, |answer| Some(answer.cpu_us));
    let cpu = cpu.map_or(String::new(), |us| format!(", {:.1} % CPU", us / 1e4));
    let restarts = rate(before, now, |answer| Some(answer.restarts));
    let restarts = restarts.map_or("-".to_owned(), |each| format!("{:.0}", each * 60.0));
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
    // What came and was done between two pictures is in none of them.
    let new_jobs = rate(before, now, |answer| answer.jobs_ever);
    let doing = match new_jobs.filter(|each| *each >= 0.5) {
        Some(each) => format!("{doing}; {each:.0} new jobs a second"),
        None => doing,
    };
    let doing = match now.unwritten_bytes {
        Some(bytes) => format!("{doing}; {} MiB of unwritten data", bytes >> 20),
        None => doing,
    };
    let doing = match is_silent {
        true => "the manager does not respond; retrying".to_owned(),
        false => doing,
    };
    let resident = bytes(now.resident_bytes);
    vec![
        format!("{}  {doing}", style.paint(Tone::Strong, "warren top")),
        format!("manager {resident}{cpu}; generation {}", now.generation),
        format!(
            "units   {} loaded, {} active, {}; {restarts} restarts a minute",
            now.loaded,
            now.active,
            style.paint(tone, &format!("{failed} failed")),
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

/// A job; on a narrow terminal the name comes before what can be cut.
fn job_line(row: &TopJob, columns: u16) -> String {
    let age = row.age_us as f64 / 1e6;
    let state = match row.waits_for {
        0 => "running".to_owned(),
        others => format!("waits for {others}"),
    };
    let (kind, unit) = (row.kind.as_str(), &row.unit);
    match columns {
        COLUMNS_WIDE.. => format!("{age:>8.1} s  {kind:<8} {state:<16} {unit}"),
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

/// Slices by the CPU time that they use now; by name without an answer from before.
fn slices(before: Option<&TopAnswer>, now: &TopAnswer, columns: u16, style: Style) -> Vec<String> {
    let row = |row: &TopSlice| {
        let rate = |counter: fn(&TopSlice) -> Option<u64>| {
            let of = |answer: &TopAnswer| {
                answer.slices.iter().find(|slice| slice.name == row.name).and_then(counter)
            };
            rate(before, now, of)
        };
        let cpu = rate(|slice| slice.cpu_us).unwrap_or(0.0) / 1e4;
        let in_bytes = |each: Option<f64>| each.map_or("-".to_owned(), |each| bytes(each as u64));
        let numbers = [
            format!("{cpu:.1}"),
            row.memory_bytes.map_or("-".to_owned(), bytes),
            row.tasks.map_or("-".to_owned(), |tasks| tasks.to_string()),
            in_bytes(rate(|slice| slice.read_bytes)),
            in_bytes(rate(|slice| slice.written_bytes)),
        ];
        (cpu, slice_line(&numbers, &row.name, columns))
    };
    let mut rows: Vec<(f64, String)> = now.slices.iter().map(row).collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let heads = ["CPU %", "MEMORY", "TASKS", "READ/s", "WRITTEN/s"].map(str::to_owned);
    std::iter::once(style.paint(Tone::Strong, &slice_line(&heads, "SLICE", columns)))
        .chain(rows.into_iter().map(|r| r.1))
        .collect()
}

/// Columns of numbers, as many as leave room for the name, and the name.
fn slice_line(numbers: &[String; 5], name: &str, columns: u16) -> String {
    const WIDTHS: [usize; 5] = [7, 11, 8, 13, 13];
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

/// How much a counter grew in a second between two answers; none where one of them lacks it. A
/// counter that was set back did not grow.
fn rate(
    before: Option<&TopAnswer>,
    now: &TopAnswer,
    counter: impl Fn(&TopAnswer) -> Option<u64>,
) -> Option<f64> {
    let before = before?;
    let seconds = now.now_us.checked_sub(before.now_us)? as f64 / 1e6;
    let grown = counter(now)?.saturating_sub(counter(before)?);
    (seconds > 0.0).then(|| grown as f64 / seconds)
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

    fn picture(before: Option<&Value>, now: &Value, size: (u16, u16), style: Style) -> String {
        let before = before.map(read);
        super::picture(before.as_ref(), &read(now), now["silent"] == true, size, style)
    }

    fn rate(
        before: Option<&Value>,
        now: &Value,
        counter: fn(&Value) -> Option<u64>,
    ) -> Option<f64> {
        let of =
            |answer: &TopAnswer| counter(&serde_json::to_value(answer).expect("it is written"));
        super::rate(before.map(read).as_ref(), &read(now), of)
    }

    fn answer(now_us: u64, cpu_us: u64, restarts: u64, slice_us: u64) -> Value {
        json!({
            "now_us": now_us, "cpu_us": cpu_us, "resident_bytes": 17 << 20, "generation": 3,
            "loaded": 32000, "active": 4000, "jobs": 2, "jobs_running": 1, "stopping": false,
            "restarts": restarts, "failed_total": 1,
            "failed": [{"unit": "db.service", "code": "WR-0040", "text": "it left"}],
            "restarting": [{"unit": "flaky.service", "code": "WR-0046", "text": "no food",
                            "restarts": 17}],
            "job_rows": [
                {"unit": "slow.service", "type": "start", "age_us": 61_500_000, "waits_for": 0},
                {"unit": "late.service", "type": "stop", "age_us": 1_000_000, "waits_for": 3},
            ],
            "slices": [
                {"name": "a.slice", "cpu_us": 5, "tasks": 1},
                {"name": "b.slice", "cpu_us": slice_us, "memory_bytes": 3u64 << 30,
                 "read_bytes": 0, "written_bytes": slice_us, "tasks": 12},
            ],
        })
    }

    #[test]
    fn rates_are_differences_and_the_failed_come_first() {
        let (before, now) = (answer(0, 0, 7, 0), answer(2_000_000, 50_000, 8, 3_000_000));
        let shown = picture(Some(&before), &now, (100, 40), Style::default());
        let expect = "\
warren top  2 jobs, 1 of them running
manager 17.0 M, 2.5 % CPU; generation 3
units   32000 loaded, 4000 active, 1 failed; 30 restarts a minute

FAILED: 1
db.service  WR-0040 it left

STARTED AGAIN: 1
flaky.service  17 restarts  WR-0046 no food

JOBS: 2, the oldest first
    61.5 s  start    running          slow.service
     1.0 s  stop     waits for 3      late.service

  CPU %     MEMORY   TASKS       READ/s    WRITTEN/s  SLICE
  150.0      3.0 G      12          0 B        1.4 M  b.slice
    0.0          -       1            -            -  a.slice
";
        assert_eq!(shown, expect);
    }

    #[test]
    fn a_picture_fits_and_needs_no_answer_from_before() {
        let mut many = answer(0, 0, 0, 0);
        let row = json!({"unit": "x".repeat(300), "code": "WR-0040", "text": ""});
        many["failed"] = Value::Array(vec![row; 500]);
        for rows in [5, 10, 24, 60] {
            let shown = picture(None, &many, (80, rows), Style::default());
            assert!(shown.lines().count() <= usize::from(rows), "{rows} rows: {shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= 80));
        }
        let nothing = picture(None, &json!({}), (80, 24), Style::default());
        assert!(nothing.starts_with("warren top  idle\n"), "{nothing}");
    }

    #[test]
    fn what_failed_is_shown_first_where_there_is_room_for_little() {
        let now = answer(0, 0, 7, 0);
        let shown = |rows| {
            let shown = picture(None, &now, (80, rows), Style::default());
            ["FAILED: 1", "STARTED AGAIN: 1", "JOBS: 2", "SLICE"].map(|head| shown.contains(head))
        };
        assert_eq!(shown(5), [false; 4]);
        for (rows, shows) in [(4, false), (5, true), (6, true), (7, true)] {
            let small = picture(None, &now, (20, rows), Style::default());
            assert_eq!(small.contains("db.service  WR-0040"), shows, "{rows} rows: {small}");
            assert!(small.lines().count() < usize::from(rows), "{rows} rows: {small}");
        }
        assert_eq!(shown(7), [true, false, false, false]);
        assert_eq!(shown(10), [true, true, false, false]);
        assert_eq!(shown(13), [true, true, true, false]);
        assert_eq!(shown(16), [true; 4]);
    }

    /// One that is killed comes back, and is asked over a new connection.
    #[test]
    fn a_manager_that_is_gone_for_a_moment_is_waited_for() {
        use std::io::{Read, Write};
        let path = std::env::temp_dir().join(format!("warren-top-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("it can be made");
        let manager = std::thread::spawn(move || {
            for answers in [&b""[..], b"{\"parameters\":{\"jobs\":3}}\0"] {
                let (mut client, _) = listener.accept().expect("it is asked");
                let mut call = [0u8; 256];
                let _ = client.read(&mut call);
                client.write_all(answers).expect("somebody listens");
            }
        });
        let mut client = Client::connect(&path).expect("it listens");
        let mut silent = 0;
        let error = client.call(&Top {}).expect_err("it was killed over it");
        let is_over = lost(&mut client, error, true, &mut silent).expect("it may come back");
        assert_eq!((is_over, silent), (false, 1), "somebody listens, so it is started again");
        assert_eq!(client.call(&Top {}).expect("it is back").jobs, 3);
        manager.join().expect("it ends");

        let mut gone = || client.call(&Top {}).expect_err("the manager is gone");
        let errors = [gone(), gone(), gone()];
        let over = [(false, 1), (true, 1), (false, SILENT_MAX)].into_iter().zip(errors).map(
            |((goes_down, mut silent), error)| {
                lost(&mut client, error, goes_down, &mut silent).ok()
            },
        );
        assert_eq!(over.collect::<Vec<_>>(), [Some(false), Some(true), None], "not for ever");
        let refused = CallError::Refused("x".into(), "no".to_owned());
        assert!(lost(&mut client, refused, true, &mut 0).is_err());
        let _ = std::fs::remove_file(&path);

        let shown = picture(None, &json!({"silent": true}), (80, 24), Style::default());
        assert!(shown.starts_with("warren top  the manager does not respond"), "{shown}");
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
        let shown = |columns| picture(None, &now, (columns, 24), Style::default());
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
            let shown = picture(None, &now, (80, 24), Style::default());
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
        let (before, now) = (answer(0, 0, 7, 0), answer(2_000_000, 50_000, 8, 3_000_000));
        let shown = |columns| picture(Some(&before), &now, (columns, 40), Style::default());
        for line in ["  61.5 s start slow.service  running\n", "  150.0      3.0 G  b.slice\n"] {
            assert!(shown(40).contains(line), "{line}: {}", shown(40));
        }
        assert!(shown(20).contains("  150.0  b.slice\n"), "{}", shown(20));
        assert!(shown(74).contains("WRITTEN/s  SLICE\n") && !shown(73).contains("WRITTEN"));
    }

    /// Work that is done within a second, and a reload, which is no job.
    #[test]
    fn what_was_done_between_two_pictures_is_told() {
        let (mut before, mut now) = (answer(0, 0, 7, 0), answer(2_000_000, 0, 7, 0));
        let first = |before: &Value, now: &Value| {
            let shown = picture(Some(before), now, (100, 24), Style::default());
            shown.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(first(&before, &now), "warren top  2 jobs, 1 of them running");
        (before["jobs_ever"], now["jobs_ever"]) = (json!(100), json!(2_322));
        (now["jobs"], now["reloading_us"]) = (json!(0), json!(1_250_000));
        let told = "warren top  reloads since 1.2 s; 1111 new jobs a second";
        assert_eq!(first(&before, &now), told);
    }

    #[test]
    fn colours_have_no_width() {
        let (before, now) = (answer(0, 0, 7, 0), answer(2_000_000, 50_000, 8, 3_000_000));
        let picture = |style| picture(Some(&before), &now, (30, 40), style);
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

    #[test]
    fn a_counter_that_was_set_back_did_not_grow() {
        let (before, now) = (answer(0, 900, 9, 9), answer(1_000_000, 100, 1, 0));
        assert_eq!(rate(Some(&before), &now, |a| a["cpu_us"].as_u64()), Some(0.0));
        assert_eq!(rate(Some(&now), &now, |a| a["cpu_us"].as_u64()), None);
        assert_eq!(rate(None, &now, |a| a["cpu_us"].as_u64()), None);
    }
}
