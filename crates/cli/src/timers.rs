//! `warren timers`: when timers elapse and elapsed, how long what they start takes, and which of them meet.

use warren_wire::control::{TimerRow, TimersAnswer};

use crate::output::{Style, Tone, cleaned, span_us, tone_of_state};
use crate::render::date;

/// Timers that elapse so close to each other meet, also if what they start takes no time, in µs.
const MEETING_US: u64 = 1_000_000;

/// Names of others that are shown for a timer.
const NAMES_MAX: usize = 2;

const HEADINGS: [&str; 7] = ["NEXT", "IN", "LAST", "TOOK", "MISSED", "TIMER", "STARTS"];

/// The answer of `Timers` as a table: what comes first is first.
pub fn table(answer: &TimersAnswer, style: Style) -> String {
    let answer = &*cleaned(answer);
    let mut timers: Vec<&TimerRow> = answer.timers.iter().collect();
    timers.sort_by_key(|row| (row.next_us.unwrap_or(u64::MAX), row.name.clone()));
    let lines: Vec<[String; 7]> = timers.iter().map(|row| line(row, answer.now_us)).collect();
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([HEADINGS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let mut out =
        style.paint(Tone::Strong, joined(&HEADINGS.map(String::from), &widths).trim_end());
    out.push('\n');
    for (row, cells) in timers.iter().zip(&lines) {
        let text = joined(cells, &widths);
        out += &style.paint(tone_of_state(row.active.as_str()), text.trim_end());
        if let Some(others) = meets(row, &timers) {
            out += &format!("  {}", style.paint(Tone::Warn, &format!("meets {others}")));
        }
        out.push('\n');
    }
    out + &format!("{} timers.\n", timers.len())
}

fn joined(cells: &[String; 7], widths: &[usize]) -> String {
    let padded = |(cell, width): (&String, &usize)| {
        let room = width.saturating_sub(cell.chars().count());
        format!("{cell}{}", " ".repeat(room))
    };
    cells.iter().zip(widths).map(padded).collect::<Vec<_>>().join("  ")
}

fn line(row: &TimerRow, now_us: u64) -> [String; 7] {
    let none = || "-".to_owned();
    let next = match row.next_us {
        Some(at) => date(at),
        None if row.active.as_str() == "active" => row.sub.clone(),
        None => row.active.as_str().to_owned(),
    };
    [
        next,
        row.next_us.map_or_else(none, |at| span_us(at.saturating_sub(now_us))),
        row.last_us.map_or_else(none, date),
        row.took_us.map_or_else(none, span_us),
        row.missed.to_string(),
        row.name.clone(),
        row.unit.clone(),
    ]
}

/// The timers whose elapse falls into the run that this one starts, or the other way round, if their last runs are a
/// measure.
fn meets(row: &TimerRow, all: &[&TimerRow]) -> Option<String> {
    let span = |row: &TimerRow| {
        let begin = row.next_us?;
        Some((begin, begin.saturating_add(row.took_us.unwrap_or(0).max(MEETING_US))))
    };
    let (begin, end) = span(row)?;
    let overlaps = |other: &&&TimerRow| {
        let met = span(other).is_some_and(|(from, until)| from < end && begin < until);
        met && other.name != row.name && other.unit != row.unit
    };
    let names: Vec<&str> = all.iter().filter(overlaps).map(|other| other.name.as_str()).collect();
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        count if count > NAMES_MAX => Some(format!("{shown} and {} more", count - NAMES_MAX)),
        _ => Some(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, next_s: Option<u64>, took_s: u64) -> TimerRow {
        TimerRow {
            name: format!("{name}.timer"),
            active: "active".into(),
            sub: "waiting".to_owned(),
            unit: format!("{name}.service"),
            next_us: next_s.map(|s| s * 1_000_000),
            took_us: Some(took_s * 1_000_000),
            ..TimerRow::default()
        }
    }

    fn met(rows: &[TimerRow], at: usize) -> Option<String> {
        let all: Vec<&TimerRow> = rows.iter().collect();
        meets(&rows[at], &all)
    }

    #[test]
    fn timers_meet_where_runs_overlap() {
        let rows = [
            row("a", Some(100), 10),
            row("b", Some(109), 0),
            row("c", Some(111), 5),
            row("d", None, 9),
        ];
        assert_eq!(met(&rows, 0).as_deref(), Some("b.timer"));
        assert_eq!(met(&rows, 1).as_deref(), Some("a.timer"));
        assert_eq!(met(&rows, 2), None);
        assert_eq!(met(&rows, 3), None);
        let many = [
            row("a", Some(5), 1),
            row("b", Some(5), 1),
            row("c", Some(5), 1),
            row("d", Some(5), 1),
        ];
        assert_eq!(met(&many, 0).as_deref(), Some("b.timer, c.timer and 1 more"));
    }

    #[test]
    fn what_comes_first_is_first_and_what_never_comes_last() {
        let answer = TimersAnswer {
            now_us: 1_000_000,
            timers: vec![
                row("never", None, 0),
                row("late", Some(7200), 0),
                row("soon", Some(61), 3),
            ],
        };
        let table = table(&answer, Style::default());
        let names: Vec<usize> = ["soon.timer", "late.timer", "never.timer"]
            .iter()
            .filter_map(|name| table.find(name))
            .collect();
        assert!(names.len() == 3 && names.is_sorted(), "{table}");
        assert!(table.contains("1min 0s") && table.contains("3.00 s"), "{table}");
        assert!(table.ends_with("3 timers.\n"), "{table}");
    }
}
