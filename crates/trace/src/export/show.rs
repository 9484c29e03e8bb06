//! How times, dates, counts and the headline are shown, everywhere.

use crate::analysis::Analysis;
use crate::analysis::repeat::Repeats;
use crate::analysis::timeline::{Bar, Span, Start};
use crate::record::Damage;
use crate::words::{Ending, Phase, Subject, Work};

/// A length of time, three digits or so: `12 us`, `4.1 ms`, `842 ms`, `1.533 s`, `2 min 3 s`. Halves
/// are rounded up, by whole numbers, as the page's program does too.
pub fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..99_950 => format!("{}.{} ms", (us + 50) / 1_000, (us + 50) / 100 % 10),
        99_950..999_500 => format!("{} ms", (us + 500) / 1_000),
        999_500..120_000_000 => seconds(us),
        _ => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
    }
}

/// Seconds with three digits, as in the last line of a shutdown: `0.842 s`.
pub fn seconds(us: u64) -> String {
    let ms = us.saturating_add(500) / 1_000;
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

/// A count with commas between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `s` behind anything but one.
pub fn plural(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

/// A date and a time of day in UTC, to the second.
pub fn date(realtime_us: u64) -> String {
    const DAY_SECONDS: u64 = 86_400;
    let seconds = realtime_us / 1_000_000;
    let (year, month, day) = civil(seconds / DAY_SECONDS);
    let (hour, minute) = (seconds % DAY_SECONDS / 3_600, seconds / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC", seconds % 60)
}

/// Year, month and day of a number of days since 1970-01-01 in the Gregorian calendar, counted from
/// the first of March, so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_0000_03_01_TO_1970: u64 = 719_468;
    const DAYS_400_YEARS: u64 = 146_097;
    let days = days + DAYS_0000_03_01_TO_1970;
    let (era, day) = (days / DAYS_400_YEARS, days % DAYS_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, month + 3);
    let (month, carry) = if month > 12 { (month - 12, 1) } else { (month, 0) };
    (era * 400 + year + carry, month, day)
}

/// What is counted of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Units that had a bar; of a shutdown, those that were stopped.
    pub units: u64,
    /// Units that were started as a part of a shutdown, and not stopped.
    pub started: u64,
    /// Units of which a bar ended in failure.
    pub failed: u64,
    /// Units that got a SIGKILL, and processes of none that did.
    pub killed: u64,
    /// The bar with the longest own time.
    pub longest: Option<u32>,
}

impl Totals {
    /// Counts.
    pub fn of(analysis: &Analysis<'_>) -> Totals {
        let bars = &analysis.timeline.bars;
        let rows_of = |wanted: &dyn Fn(&Bar) -> bool| {
            let mut rows: Vec<u32> = bars.iter().filter(|b| wanted(b)).map(|b| b.row).collect();
            rows.sort_unstable();
            rows.dedup();
            rows
        };
        let rows = |wanted: &dyn Fn(&Bar) -> bool| rows_of(wanted).len() as u64;
        let is_shutdown = analysis.recording.head.subject == Subject::Shutdown;
        let is_stop = |bar: &Bar| bar.start.is_some() && bar.work.is_stopping();
        let is_start = |bar: &Bar| bar.start.is_some() && bar.work == Work::Start;
        let stopped = rows_of(&is_stop);
        let is_started = |bar: &Bar| is_start(bar) && stopped.binary_search(&bar.row).is_err();
        let killed = analysis.timeline.rows.iter().filter(|row| row.kills > 0);
        let longest = (0..bars.len()).max_by_key(|bar| bars[*bar].own_us());
        Totals {
            units: rows(&|bar| !is_shutdown || is_stop(bar)),
            started: if is_shutdown { rows(&is_started) } else { 0 },
            failed: rows(&has_failed),
            killed: (killed.count() as u64).saturating_add(analysis.timeline.stragglers),
            longest: longest.map(|bar| bar as u32),
        }
    }
}

/// The phases in the order in which they began; of more than `most` the longest.
pub fn spans<'a>(analysis: &'a Analysis<'_>, most: usize) -> Vec<&'a Span> {
    let length_us = |span: &&Span| std::cmp::Reverse(span.until_us.saturating_sub(span.from_us));
    let mut spans: Vec<(usize, &Span)> = analysis.timeline.spans.iter().enumerate().collect();
    spans.sort_by_key(|(_, span)| length_us(span));
    spans.truncate(most);
    spans.sort_by_key(|(index, _)| *index);
    spans.into_iter().map(|(_, span)| span).collect()
}

/// What was waited for in a recording of such a subject that is neither a unit's nor the manager's.
pub fn outside(subject: Subject) -> &'static str {
    match subject {
        // Nothing is started again any more.
        Subject::Shutdown => "leftover processes",
        _ => "pauses before restarts",
    }
}

/// What a stretch of time was full of before its critical path began.
pub const BEFORE: &str = "other work was in progress";

/// What let a bar go: the unit, or in words what was no unit.
pub fn held_by<'a>(analysis: &'a Analysis<'_>, start: &Start) -> &'a str {
    start.edge.map_or(start.by.text(), |edge| analysis.name(edge))
}

/// Whether the bar ended in something that somebody has to look at.
pub fn has_failed(bar: &Bar) -> bool {
    bar.left_failed || bar.end.is_some_and(|end| is_failure(end.ending))
}

/// What units of a type that is not run were asked for did not fail: every boot has some of those.
pub fn is_failure(ending: Ending) -> bool {
    use Ending::{Canceled, Collected, Done, Skipped, Unsupported};
    !matches!(ending, Done | Canceled | Skipped | Collected | Unsupported)
}

/// One line that says it all.
pub fn headline(analysis: &Analysis<'_>) -> String {
    let date = date(analysis.recording.realtime_us(analysis.timeline.end_us));
    let manager = format!(", manager {}", time(analysis.path.parts.manager_us));
    format!("{date} {}.", words_with(analysis, &manager))
}

/// The same without the date, the manager's part and the full stop: a shutdown says it as its last words.
pub fn words(analysis: &Analysis<'_>) -> String {
    words_with(analysis, "")
}

/// The same with this behind the critical path, where there is one.
fn words_with(analysis: &Analysis<'_>, manager: &str) -> String {
    let recording = analysis.recording;
    let total_us = analysis.path.parts.total_us();
    let subject = recording.head.subject;
    let begin = match (subject, analysis.timeline.is_over) {
        (Subject::Boot, true) if analysis.timeline.is_given_up => {
            "The system did not come up. It was shut down after "
        }
        (Subject::Shutdown, true) => "The system is down. Shutdown took ",
        (Subject::Boot, true) => "The system is up. Boot took ",
        (Subject::Reload, true) => "Reload took ",
        // Usual where recordings lie on a file system that the shutdown itself unmounts.
        (Subject::Shutdown, false) => "Shutdown took at least ",
        (Subject::Boot, false) => "Boot was not over after ",
        (Subject::Reload, false) => "Reload was not over after ",
        (Subject::Live, _) => "Recorded ",
    };
    match subject {
        // Too short for seconds, and no unit does anything for it.
        Subject::Reload => format!("{begin}{}{}", time(total_us), reloaded(analysis)),
        _ => format!("{begin}{} {}", seconds(total_us), units(analysis, manager)),
    }
}

/// What a boot, a shutdown or a stretch of time came to.
fn units(analysis: &Analysis<'_>, manager: &str) -> String {
    let totals = Totals::of(analysis);
    let parts = analysis.path.parts;
    let path = seconds(parts.path_us());
    let mut units = format!("{} unit{}", count(totals.units), plural(totals.units));
    if totals.started > 0 {
        units.push_str(&format!(", {} started for it", count(totals.started)));
    }
    let longest = totals.longest.map_or(String::new(), |bar| {
        let bar = &analysis.timeline.bars[bar as usize];
        format!(", longest {} {}", analysis.name(bar.row), seconds(bar.own_us()))
    });
    let subject = analysis.recording.head.subject;
    let bad = match subject {
        Subject::Shutdown => format!("{} killed", totals.killed),
        _ => format!("{} failed", totals.failed),
    };
    let of_it = match (subject, parts.outside_us) {
        (Subject::Shutdown, 1..) => {
            format!(", {} of it {}", time(parts.outside_us), outside(subject))
        }
        _ => String::new(),
    };
    let before = match parts.before_us {
        0 => String::new(),
        us => format!(", before it other work was in progress for {}", seconds(us)),
    };
    format!("(critical path {path}{of_it}{before}{manager}): {units}{longest}, {bad}")
}

/// What a reload came to: for how long nothing else could be done, and how many units it touched.
fn reloaded(analysis: &Analysis<'_>) -> String {
    let spans = &analysis.timeline.spans;
    let span = |phase| spans.iter().find(|span| span.phase == phase);
    let stood = span(Phase::Apply).map_or(String::new(), |apply| {
        format!(", {} of it in the manager's loop", time(apply.until_us - apply.from_us))
    });
    let touched = span(Phase::Reload).map_or(0, |reload| reload.detail);
    let (number, s) = (count(touched), plural(touched));
    format!("{stood}: {number} unit{s} added, changed or removed")
}

/// What a reader has to know before believing the rest; nothing for a recording that is whole.
pub fn remarks(analysis: &Analysis<'_>) -> Vec<String> {
    let mut out = Vec::new();
    if analysis.damage != Damage::default() {
        out.push(damaged(analysis.damage));
    }
    match analysis.timeline.lost {
        0 => {}
        1 => out.push("1 event was lost: the ring of events was too small.".to_owned()),
        lost => {
            out.push(format!("{} events were lost: the ring of events was too small.", count(lost)))
        }
    }
    out
}

/// What a reader has to know of many recordings before believing how long all took.
pub fn not_whole(repeats: &Repeats) -> Option<String> {
    const WHAT: &str = "total, critical path and the manager are";
    let missing = (repeats.count() - repeats.whole()) as u64;
    match (missing, repeats.whole()) {
        (0, _) => None,
        (_, 0) => Some(format!("All of them are incomplete: {WHAT} not known.")),
        (1, _) => Some(format!("1 of them is incomplete: {WHAT} those of the others.")),
        _ => {
            Some(format!("{} of them are incomplete: {WHAT} those of the others.", count(missing)))
        }
    }
}

/// What could not be read of a file.
fn damaged(damage: Damage) -> String {
    let mut parts = Vec::new();
    if damage.cut {
        parts.push("its end is missing".to_owned());
    }
    match damage.blocks {
        0 => {}
        1 => parts.push("one of its blocks is damaged".to_owned()),
        blocks => parts.push(format!("{blocks} of its blocks are damaged")),
    }
    if damage.too_many {
        parts.push("it is too large and only partly shown".to_owned());
    }
    format!("The recording is incomplete: {}.", parts.join(", "))
}
