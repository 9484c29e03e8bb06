//! Assignments one after the other in one text: setting, lines since the last one, column and
//! length as numbers, then the value. A number is written six bits a byte, lowest first, as ASCII,
//! so that the whole is a text that values can be taken from as they are.

use crate::settings::Id;

const BITS: u32 = 6;

/// Another byte follows.
const MORE: u8 = 1 << BITS;

/// One assignment, as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    pub setting: Id,
    /// From 1.
    pub line: u32,
    /// From 1, in bytes; 0 if it is too large.
    pub column: u16,
    pub value: &'a str,
}

/// Puts assignments into a text.
#[derive(Debug, Default)]
pub struct Packer {
    text: String,
    /// That of the last assignment.
    line: u32,
}

impl Packer {
    /// Makes room for so many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.text.reserve(bytes);
    }

    /// Appends one; lines do not go back.
    pub fn push(&mut self, assignment: &Packed<'_>) {
        let since = assignment.line.saturating_sub(self.line);
        self.line = assignment.line;
        // A value comes from a file, whose size is bounded far below.
        let length = u32::try_from(assignment.value.len()).unwrap_or(u32::MAX);
        let setting = u32::from(u16::from(assignment.setting));
        for number in [setting, since, u32::from(assignment.column), length] {
            push(&mut self.text, number);
        }
        self.text.push_str(assignment.value);
    }

    pub fn finish(self) -> Box<str> {
        self.text.into()
    }
}

fn push(text: &mut String, mut number: u32) {
    while number >= u32::from(MORE) {
        text.push(char::from(number as u8 & (MORE - 1) | MORE));
        number >>= BITS;
    }
    text.push(char::from(number as u8));
}

/// The assignments in a text. One that is none, which only a damaged file of the manager's own
/// has, ends them.
#[derive(Clone, Debug)]
pub struct Unpacked<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Unpacked<'a> {
    pub fn of(text: &'a str) -> Unpacked<'a> {
        Unpacked { rest: text, line: 0 }
    }

    fn number(&mut self) -> Option<u32> {
        let (mut number, mut shift) = (0, 0);
        for (at, byte) in self.rest.bytes().enumerate() {
            number |= u32::from(byte & (MORE - 1)).checked_shl(shift)?;
            shift += BITS;
            if byte & MORE == 0 {
                self.rest = self.rest.get(at + 1..)?;
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Iterator for Unpacked<'a> {
    type Item = Packed<'a>;

    fn next(&mut self) -> Option<Packed<'a>> {
        let setting = Id::try_from(u16::try_from(self.number()?).ok()?).ok()?;
        self.line = self.line.checked_add(self.number()?)?;
        let column = u16::try_from(self.number()?).ok()?;
        let length = self.number()? as usize;
        let value = self.rest.get(..length)?;
        self.rest = &self.rest[length..];
        Some(Packed { setting, line: self.line, column, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    fn sample() -> Vec<Packed<'static>> {
        let last = u16::try_from(SETTINGS.len() - 1).expect("fewer");
        let setting = |index| Id::try_from(index).expect("in the table");
        let of =
            |index, line, column, value| Packed { setting: setting(index), line, column, value };
        vec![
            of(0, 1, 1, ""),
            of(63, 1, 0, "ä€𐍈"),
            of(64, 64, u16::MAX, "\0 \u{7f}@A"),
            of(last, u32::MAX, 63, "x"),
        ]
    }

    fn text() -> Box<str> {
        let mut packer = Packer::default();
        sample().iter().for_each(|assignment| packer.push(assignment));
        packer.finish()
    }

    #[test]
    fn what_is_put_in_comes_out() {
        assert_eq!(Unpacked::of(&text()).collect::<Vec<_>>(), sample());
        assert_eq!(Unpacked::of("").next(), None);
    }

    #[test]
    fn a_damaged_text_ends_where_it_is_damaged() {
        let whole = text();
        for (at, _) in whole.char_indices() {
            assert!(Unpacked::of(&whole[..at]).count() < sample().len());
            for instead in ["\u{7f}", "\0", "€", "@@@@@@@@"] {
                let damaged = format!("{}{instead}{}", &whole[..at], &whole[at..]);
                assert!(Unpacked::of(&damaged).count() <= damaged.len());
            }
        }
    }
}
