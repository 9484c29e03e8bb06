//! How times, dates, counts and the headline are shown, everywhere.

use crate::analysis::Analysis;
use crate::analysis::timeline::Bar;
use crate::words::{Ending, Subject};

/// A length of time, three digits or so: `12 us`, `4.1 ms`, `842 ms`, `1.533 s`, `2 min 3 s`.
pub fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..100_000 => format!("{:.1} ms", us as f64 / 1e3),
        100_000..1_000_000 => format!("{} ms", (us + 500) / 1_000),
        1_000_000..120_000_000 => format!("{:.3} s", us as f64 / 1e6),
        _ => format!("{} min {} s", us / 60_000_000, us / 1_000_000 % 60),
    }
}

/// Seconds with three digits, as in the last line of a shutdown: `0.842 s`.
pub fn seconds(us: u64) -> String {
    format!("{:.3} s", us as f64 / 1e6)
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
    /// Units that had a bar.
    pub units: u64,
    /// Bars that ended in failure.
    pub failed: u64,
    /// Units that got a SIGKILL.
    pub killed: u64,
    /// The bar with the longest own time.
    pub longest: Option<u32>,
}

impl Totals {
    /// Counts.
    pub fn of(analysis: &Analysis<'_>) -> Totals {
        let bars = &analysis.timeline.bars;
        let rows = |wanted: &dyn Fn(&Bar) -> bool| {
            let mut rows: Vec<u32> = bars.iter().filter(|b| wanted(b)).map(|b| b.row).collect();
            rows.sort_unstable();
            rows.dedup();
            rows.len() as u64
        };
        let longest = (0..bars.len()).max_by_key(|bar| bars[*bar].own_us());
        Totals {
            units: rows(&|_| true),
            failed: bars.iter().filter(|bar| has_failed(bar)).count() as u64,
            killed: rows(&|bar| bar.kills > 0),
            longest: longest.map(|bar| bar as u32),
        }
    }
}

/// Whether the bar ended in something that somebody has to look at.
pub fn has_failed(bar: &Bar) -> bool {
    bar.end.is_some_and(|end| is_failure(end.ending))
}

/// What units of a type that is not run were asked for did not fail: every boot has some of those.
pub fn is_failure(ending: Ending) -> bool {
    use Ending::{Canceled, Collected, Done, Skipped, Unsupported};
    !matches!(ending, Done | Canceled | Skipped | Collected | Unsupported)
}

/// One line that says it all.
pub fn headline(analysis: &Analysis<'_>) -> String {
    let recording = analysis.recording;
    let totals = Totals::of(analysis);
    let parts = analysis.path.parts;
    let date = date(recording.realtime_us(analysis.timeline.end_us));
    let (begin, verb) = match recording.head.subject {
        Subject::Shutdown => ("The system is down. ", "Shutdown took"),
        Subject::Boot => ("The system is up. ", "Boot took"),
        Subject::Reload => ("", "Reload took"),
        Subject::Live => ("", "Recorded"),
    };
    // A reload is too short for seconds.
    let length = if recording.head.subject == Subject::Reload { time } else { seconds };
    let total = length(parts.total_us());
    let (path, manager) = (length(parts.path_us()), time(parts.manager_us));
    let units = format!("{} unit{}", count(totals.units), plural(totals.units));
    let longest = totals.longest.map_or(String::new(), |bar| {
        let bar = &analysis.timeline.bars[bar as usize];
        format!(", longest {} {}", analysis.name(bar.row), seconds(bar.own_us()))
    });
    let killed = match recording.head.subject {
        Subject::Shutdown => format!(", {} killed", totals.killed),
        _ => format!(", {} failed", totals.failed),
    };
    format!(
        "{date} {begin}{verb} {total} (critical path {path}, manager {manager}): \
         {units}{longest}{killed}."
    )
}
