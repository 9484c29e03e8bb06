//! The page of one unit: what is known of it, and where the person is in it. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::manager::{Start, UnitPage};
use crate::numbers;
use crate::text;

/// Lines of the log that are kept.
pub const LOG_LINES_MAX: usize = 1000;

/// Starts that are shown.
pub const STARTS_MAX: usize = 100;

/// Lines of one text that are shown: files of 10,000 lines are read elsewhere.
const TEXT_LINES_MAX: usize = 5000;

/// A part of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Why it is as it is, and its state.
    Status,
    /// The end of its log, and what comes.
    Log,
    /// Its processes.
    Processes,
    /// Its last starts.
    Starts,
    /// Its files.
    Files,
}

impl Part {
    /// All, in the order of their keys.
    pub const ALL: [Part; 5] =
        [Part::Status, Part::Log, Part::Processes, Part::Starts, Part::Files];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Part::Status => "Status",
            Part::Log => "Log",
            Part::Processes => "Processes",
            Part::Starts => "Starts",
            Part::Files => "Files",
        }
    }
}

/// The page of a unit.
#[derive(Debug, Clone)]
pub struct Page {
    /// The unit.
    pub unit: Arc<str>,
    /// The part that is shown.
    pub part: Part,
    /// What the manager told, or why it told nothing.
    pub told: Option<Result<UnitPage, String>>,
    /// The files, or why they are not there.
    pub files: Option<Result<String, String>>,
    /// The last lines of the log.
    pub log: VecDeque<String>,
    /// The starts, the newest first, or why they are not known.
    pub starts: Option<Result<Vec<Start>, String>>,
    /// Lines that are scrolled: of the log from its end, of all else from the begin.
    pub scrolled: usize,
}

impl Page {
    /// Of this unit, without anything known.
    pub fn new(unit: Arc<str>) -> Page {
        Page {
            unit,
            part: Part::Status,
            told: None,
            files: None,
            log: VecDeque::new(),
            starts: None,
            scrolled: 0,
        }
    }

    /// Shows another part, from its begin.
    pub fn turn_to(&mut self, part: Part) {
        (self.part, self.scrolled) = (part, 0);
    }

    /// Takes lines of the log. Who has scrolled up stays where he is.
    pub fn take_log(&mut self, lines: Vec<String>) {
        let is_scrolled = self.part == Part::Log && self.scrolled > 0;
        self.scrolled += if is_scrolled { lines.len() } else { 0 };
        self.log.extend(lines.iter().map(|line| text::plain(line).into_owned()));
        let over = self.log.len().saturating_sub(LOG_LINES_MAX);
        self.log.drain(..over);
    }

    /// The lines of the part that is shown, each fit for a terminal, for so many columns.
    pub fn lines(&self, columns: usize, has_blocks: bool) -> Vec<String> {
        let wait = || vec!["...".to_owned()];
        match self.part {
            Part::Status => self.told.as_ref().map_or_else(wait, |told| match told {
                Ok(page) => {
                    let mut lines = Vec::new();
                    if !page.why.trim().is_empty() {
                        lines.extend(of_text(&page.why, columns));
                        lines.push(String::new());
                    }
                    lines.extend(of_text(&page.status, columns));
                    lines
                }
                Err(why) => of_text(why, columns),
            }),
            Part::Processes => self.told.as_ref().map_or_else(wait, |told| match told {
                Ok(page) if page.processes.is_empty() => vec!["No process.".to_owned()],
                Ok(page) => {
                    let rows = page.processes.iter().take(TEXT_LINES_MAX);
                    rows.map(|row| format!("{:>9}  {}", row.pid, text::plain(&row.command)))
                        .collect()
                }
                Err(why) => of_text(why, columns),
            }),
            Part::Log if self.log.is_empty() => vec!["No line yet.".to_owned()],
            Part::Log => self.log.iter().cloned().collect(),
            Part::Files => self.files.as_ref().map_or_else(wait, |files| match files {
                Ok(files) | Err(files) => of_text(files, usize::MAX),
            }),
            Part::Starts => self.starts.as_ref().map_or_else(wait, |starts| match starts {
                Ok(starts) => chart(starts, columns, has_blocks),
                Err(why) => of_text(why, columns),
            }),
        }
    }
}

/// The lines of a text, each fit for a terminal, broken at so many columns.
pub(crate) fn of_text(text: &str, columns: usize) -> Vec<String> {
    let lines = text.lines().take(TEXT_LINES_MAX);
    // Tabs of unit files.
    let plain = lines.map(|line| text::plain(&line.replace('\t', "    ")).into_owned());
    plain.flat_map(|line| wrapped(line, columns)).collect()
}

/// Broken with the indent of its begin.
fn wrapped(line: String, columns: usize) -> Vec<String> {
    if text::width(&line) <= columns {
        return vec![line];
    }
    let indent = line.len() - line.trim_start().len();
    let indent = indent.min(columns / 2);
    let (head, rest) = (" ".repeat(indent), line.trim_start());
    text::wrap(rest, columns - indent).into_iter().map(|line| format!("{head}{line}")).collect()
}

/// A bar for each start, as long as it took.
fn chart(starts: &[Start], columns: usize, has_blocks: bool) -> Vec<String> {
    if starts.is_empty() {
        return vec!["The log tells of no start.".to_owned()];
    }
    let longest = starts.iter().filter_map(|start| start.took_us).max().unwrap_or(0).max(1);
    let room = columns.saturating_sub(46).clamp(8, 60);
    let mut lines = vec![format!("{:<23}  {:<10}  {:>7}  HOW LONG IT TOOK", "WHEN", "HOW", "")];
    for start in starts.iter().take(STARTS_MAX) {
        let how = match (start.is_stop, &*start.result) {
            (true, "done") => "stopped",
            (false, "done") => "started",
            (_, result) => result,
        };
        let took = start.took_us.map(numbers::span).unwrap_or_default();
        let length = |us: u64| (us as u128 * room as u128).div_ceil(u128::from(longest)) as usize;
        let bar = start.took_us.map_or(0, length).min(room);
        let bar = if has_blocks { "█" } else { "#" }.repeat(bar);
        let when = text::fit(&text::plain(&start.when), 23);
        lines.push(format!("{when}  {:<10}  {took:>7}  {bar}", text::cut(&text::plain(how), 10)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_starts_took() {
        let start = |took_us, result: &str| Start {
            took_us,
            result: result.to_owned(),
            ..Start::default()
        };
        let starts = [
            start(Some(2_000_000), "done"),
            start(Some(500_000), "failed"),
            Start { is_stop: true, ..start(None, "done") },
        ];
        let lines = chart(&starts, 62, false);
        let bars: Vec<&str> =
            lines.iter().skip(1).map(|line| line.get(25..).expect("a line")).collect();
        let expected = [
            "started        2.0s  ################",
            "failed        500ms  ####",
            "stopped              ",
        ];
        assert_eq!(
            bars.iter().map(|line| line.trim_end()).collect::<Vec<_>>(),
            expected.map(str::trim_end)
        );
    }

    #[test]
    fn who_has_scrolled_up_in_the_log_stays_there() {
        let mut page = Page::new("a.service".into());
        page.turn_to(Part::Log);
        page.take_log(vec!["one".into(), "t\x1b[2Jwo".into()]);
        assert_eq!(page.lines(80, true), ["one", "t [2Jwo"]);
        page.scrolled = 1;
        page.take_log(vec!["three".into()]);
        assert_eq!(page.scrolled, 2);
        page.take_log(vec!["x".into(); 5000]);
        assert_eq!(page.log.len(), LOG_LINES_MAX);
    }

    #[test]
    fn long_lines_keep_their_indent() {
        assert_eq!(wrapped("  one two three".into(), 9), ["  one two", "  three"]);
    }
}
