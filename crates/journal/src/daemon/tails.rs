//! The last lines of each unit, in memory: what a unit said last is told without a read of the
//! disk. A new daemon begins without any.

use std::collections::{BTreeMap, VecDeque};

use crate::entry::Fields;

/// Lines that are kept of each unit.
pub const TAIL_LINES: usize = 10;

/// Longest text of a line that is kept, bytes.
const TEXT_BYTES_MAX: usize = 240;

/// Longest identifier that is kept, bytes.
const IDENTIFIER_BYTES_MAX: usize = 60;

/// Most units whose lines are kept.
const UNITS_MAX: usize = 1 << 15;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When it came, µs since 1970.
    pub realtime_us: u64,
    /// Who wrote it: identifier or command, and pid.
    pub who: Box<str>,
    /// The beginning of its text.
    pub text: Box<str>,
}

/// The last lines of all units.
#[derive(Default)]
pub struct Tails {
    units: BTreeMap<Vec<u8>, VecDeque<Line>>,
}

impl Tails {
    /// Takes an entry of a unit, or of the manager about it.
    pub fn put(&mut self, unit: &[u8], realtime_us: u64, context: &Fields, fields: &Fields) {
        let Some(message) = fields.get("MESSAGE") else { return };
        let line = Line {
            realtime_us,
            who: who(context, fields),
            text: beginning(message, TEXT_BYTES_MAX),
        };
        if let Some(lines) = self.units.get_mut(unit) {
            if lines.len() >= TAIL_LINES {
                lines.pop_front();
            }
            return lines.push_back(line);
        }
        if self.units.len() >= UNITS_MAX {
            self.units.pop_first();
        }
        self.units.insert(unit.to_vec(), VecDeque::from([line]));
    }

    /// The last lines of a unit, oldest first.
    pub fn get(&self, unit: &[u8]) -> impl Iterator<Item = &Line> {
        self.units.get(unit).into_iter().flatten()
    }
}

/// `identifier[pid]`, as the short output has it.
fn who(context: &Fields, fields: &Fields) -> Box<str> {
    let first = |names: [&str; 2]| {
        names.iter().find_map(|name| fields.get(name).or_else(|| context.get(name)))
    };
    let name = first(["SYSLOG_IDENTIFIER", "_COMM"]).unwrap_or(b"unknown");
    let name = beginning(name, IDENTIFIER_BYTES_MAX);
    match first(["_PID", "SYSLOG_PID"]) {
        Some(pid) => format!("{name}[{}]", beginning(pid, IDENTIFIER_BYTES_MAX)).into(),
        None => name,
    }
}

/// Text without what a terminal would act on.
fn beginning(bytes: &[u8], most: usize) -> Box<str> {
    let bytes = &bytes[..bytes.len().min(most)];
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    String::from_utf8_lossy(bytes).chars().map(printable).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(tails: &mut Tails, unit: &str, text: &str) {
        let context = [("_PID", "7"), ("_COMM", "sh")].into_iter().collect();
        tails.put(unit.as_bytes(), 1, &context, &[("MESSAGE", text)].into_iter().collect());
    }

    #[test]
    fn the_last_lines_of_each_unit_are_kept() {
        let mut tails = Tails::default();
        (0..25).for_each(|number| put(&mut tails, "a", &number.to_string()));
        put(&mut tails, "b", "\x1b[1mbold\n");
        let texts: Vec<&str> = tails.get(b"a").map(|line| &*line.text).collect();
        assert_eq!(texts.join(" "), "15 16 17 18 19 20 21 22 23 24");
        let line = tails.get(b"b").next().expect("one line");
        assert_eq!((&*line.who, &*line.text), ("sh[7]", " [1mbold "));
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
