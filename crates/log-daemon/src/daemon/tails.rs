//! The last lines of each unit, in memory: what a unit said last is told without a read of the
//! disk. A new daemon begins without any.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use warren_log_store::entry::Fields;

/// Lines that are kept of each unit.
pub const TAIL_LINES: usize = 10;

/// Longest text of a line that is kept, bytes.
const TEXT_BYTES_MAX: usize = 240;

/// Longest identifier that is kept, bytes.
const IDENTIFIER_BYTES_MAX: usize = 60;

/// Most units whose lines are kept.
const UNITS_MAX: usize = 1 << 15;

/// One line, as it came: it is made into text when somebody asks.
#[derive(Debug, Default)]
pub struct Line {
    /// When it came, µs since 1970.
    pub realtime_us: u64,
    context: Arc<Fields>,
    /// Empty: its context says who wrote it.
    identifier: Vec<u8>,
    /// The beginning of its text.
    text: Vec<u8>,
}

/// The last lines of all units.
#[derive(Default)]
pub struct Tails {
    units: BTreeMap<Vec<u8>, VecDeque<Line>>,
}

impl Tails {
    /// Takes an entry of a unit, or of the manager about it.
    pub fn put(&mut self, unit: &[u8], realtime_us: u64, context: &Arc<Fields>, fields: &Fields) {
        let Some(message) = fields.get("MESSAGE") else { return };
        let lines = match self.units.get_mut(unit) {
            Some(lines) => lines,
            None => self.begin(unit),
        };
        // The oldest gives its memory to the newest.
        let oldest = (lines.len() >= TAIL_LINES).then(|| lines.pop_front()).flatten();
        let mut line = oldest.unwrap_or_default();
        line.realtime_us = realtime_us;
        if !Arc::ptr_eq(&line.context, context) {
            line.context = context.clone();
        }
        let identifier = fields.get("SYSLOG_IDENTIFIER").unwrap_or_default();
        copy_beginning(&mut line.identifier, identifier, IDENTIFIER_BYTES_MAX);
        copy_beginning(&mut line.text, message, TEXT_BYTES_MAX);
        lines.push_back(line);
    }

    fn begin(&mut self, unit: &[u8]) -> &mut VecDeque<Line> {
        if self.units.len() >= UNITS_MAX {
            self.units.pop_first();
        }
        self.units.entry(unit.to_vec()).or_default()
    }

    /// The last lines of a unit, oldest first.
    pub fn get(&self, unit: &[u8]) -> impl Iterator<Item = &Line> {
        self.units.get(unit).into_iter().flatten()
    }
}

fn copy_beginning(to: &mut Vec<u8>, from: &[u8], most: usize) {
    to.clear();
    to.extend_from_slice(&from[..from.len().min(most)]);
}

impl Line {
    /// Who wrote it, as the short output has it: `identifier[pid]`.
    pub fn who(&self) -> String {
        let name = match self.identifier.is_empty() {
            true => self.context.get("_COMM").unwrap_or(b"unknown"),
            false => &self.identifier,
        };
        match self.context.get("_PID") {
            Some(pid) => format!("{}[{}]", printable(name), printable(pid)),
            None => printable(name),
        }
    }

    /// Its text.
    pub fn text(&self) -> String {
        printable(&self.text)
    }
}

/// Text without what a terminal would act on.
fn printable(bytes: &[u8]) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    String::from_utf8_lossy(bytes).chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(tails: &mut Tails, unit: &str, text: &str) {
        let context = Arc::new([("_PID", "7"), ("_COMM", "sh")].into_iter().collect());
        tails.put(unit.as_bytes(), 1, &context, &[("MESSAGE", text)].into_iter().collect());
    }

    #[test]
    fn the_last_lines_of_each_unit_are_kept() {
        let mut tails = Tails::default();
        (0..25).for_each(|number| put(&mut tails, "a", &number.to_string()));
        put(&mut tails, "b", "\x1b[1mbold\n");
        let texts: Vec<String> = tails.get(b"a").map(Line::text).collect();
        assert_eq!(texts.join(" "), "15 16 17 18 19 20 21 22 23 24");
        let line = tails.get(b"b").next().expect("one line");
        assert_eq!((&*line.who(), &*line.text()), ("sh[7]", " [1mbold "));
        assert_eq!(tails.get(b"c").count(), 0);
    }

    #[test]
    fn lines_and_units_are_bounded() {
        let mut tails = Tails::default();
        put(&mut tails, "a", &"x".repeat(100_000));
        assert_eq!(tails.get(b"a").next().map(|line| line.text.len()), Some(TEXT_BYTES_MAX));
        (0..UNITS_MAX + 9).for_each(|unit| put(&mut tails, &unit.to_string(), "x"));
        assert_eq!(tails.units.len(), UNITS_MAX);
    }
}
