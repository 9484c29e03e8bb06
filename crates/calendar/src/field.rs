//! The values that one part of an expression matches: years, months, days, hours, minutes or µs of a minute.

use std::fmt;

/// One value, or a row of them with equal steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Row {
    /// The first value.
    pub first: u32,
    /// The last value, where it is stated; else the row goes on as far as the field does.
    pub last: Option<u32>,
    /// The distance of the values; 0 for a single value.
    pub step: u32,
}

/// Every whole second of a minute, in µs.
pub(crate) const EVERY_SECOND: Row = Row { first: 0, last: None, step: 1_000_000 };

impl Row {
    /// A single value.
    pub fn single(value: u32) -> Row {
        Row { first: value, last: None, step: 0 }
    }

    /// The smallest value that is `from` or more.
    fn at_or_after(self, from: u32) -> Option<u32> {
        if from <= self.first {
            return Some(self.first);
        }
        if self.step == 0 {
            return None;
        }
        let steps = (from - self.first).div_ceil(self.step);
        let value = self.first.checked_add(steps.checked_mul(self.step)?)?;
        (value <= self.last.unwrap_or(u32::MAX)).then_some(value)
    }
}

/// All values that a part of an expression matches. Without rows it matches every value.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Field(Vec<Row>);

impl Field {
    /// The rows in their order, each once.
    pub fn new(mut rows: Vec<Row>) -> Field {
        rows.sort_unstable_by_key(|row| (row.first, row.last.unwrap_or(0), row.step));
        rows.dedup();
        Field(rows)
    }

    /// It matches every value: `*`.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// It is written with ranges or steps, or as `*`: it tells how often rather than when.
    pub fn is_row(&self) -> bool {
        self.is_any() || self.0.iter().any(|row| row.step > 0)
    }

    /// The smallest value from `from` to `most` that matches.
    pub fn at_or_after(&self, from: u32, most: u32) -> Option<u32> {
        let next = match self.is_any() {
            true => Some(from),
            false => self.0.iter().filter_map(|row| row.at_or_after(from)).min(),
        };
        next.filter(|&value| value <= most)
    }

    /// Whether it matches `value`.
    pub fn matches(&self, value: u32) -> bool {
        self.at_or_after(value, value).is_some()
    }

    /// Whether it matches `value` where open rows go down to 1, as those of days from the end of a month do.
    pub fn matches_downwards(&self, value: u32) -> bool {
        let is_in = |row: &Row| match (row.last, row.step) {
            (None, step @ 1..) => value <= row.first && (row.first - value).is_multiple_of(step),
            _ => row.at_or_after(value) == Some(value),
        };
        self.is_any() || self.0.iter().any(is_in)
    }

    /// Writes the rows with two digits a value, years with four.
    pub fn write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        self.write_with(out, |out, value| write!(out, "{value:02}"), 1)
    }

    /// Writes rows of µs as seconds.
    pub fn write_seconds(&self, out: &mut impl fmt::Write) -> fmt::Result {
        if self.0.contains(&EVERY_SECOND) {
            return out.write_char('*');
        }
        self.write_with(out, write_seconds, 1_000_000)
    }

    fn write_with<W: fmt::Write>(
        &self,
        out: &mut W,
        write: impl Fn(&mut W, u32) -> fmt::Result,
        unit: u32,
    ) -> fmt::Result {
        if self.is_any() {
            return out.write_char('*');
        }
        for (index, row) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_char(',')?;
            }
            write(out, row.first)?;
            if let Some(last) = row.last {
                out.write_str("..")?;
                write(out, last)?;
            }
            if row.step > 0 && !(row.last.is_some() && row.step == unit) {
                out.write_char('/')?;
                write_step(out, row.step, unit)?;
            }
        }
        Ok(())
    }
}

fn write_step(out: &mut impl fmt::Write, step: u32, unit: u32) -> fmt::Result {
    match step % unit {
        0 => write!(out, "{}", step / unit),
        part => write!(out, "{}.{part:06}", step / unit),
    }
}

fn write_seconds(out: &mut impl fmt::Write, us: u32) -> fmt::Result {
    match us % 1_000_000 {
        0 => write!(out, "{:02}", us / 1_000_000),
        part => write!(out, "{:02}.{part:06}", us / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_value_of_each_kind_of_row() {
        let field = Field::new(vec![
            Row { first: 10, last: Some(20), step: 5 },
            Row::single(3),
            Row { first: 40, last: None, step: 9 },
        ]);
        let next = |from| field.at_or_after(from, 59);
        let expected = [(0, 3), (3, 3), (4, 10), (11, 15), (16, 20), (21, 40), (41, 49), (50, 58)];
        for (from, value) in expected {
            assert_eq!(next(from), Some(value), "{from}");
        }
        assert_eq!(next(59), None);
        assert_eq!(Field::default().at_or_after(7, 59), Some(7));
    }
}
