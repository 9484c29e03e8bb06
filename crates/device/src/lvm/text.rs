//! The text format of LVM2's metadata and configuration: `name = value`, arrays, sections.
//!
//! ```text
//! vg0 {
//!     id = "Yq2..."           # a comment
//!     seqno = 3
//!     status = ["RESIZEABLE", "READ", "WRITE"]
//!     physical_volumes { pv0 { ... } }
//! }
//! ```
//!
//! It borrows from the bytes it parses. It fails at the first fault: metadata is written by a
//! program and carries a checksum, so a fault is damage, not a typing error.

use std::borrow::Cow;

/// Sections within sections; metadata has five levels.
const DEPTH_MAX: usize = 16;

/// Entries and values of lists in one text: a volume has some 17, so this is twice what 40,000 volumes
/// need. In memory it is 200 MB, whoever wrote the text.
const VALUES_MAX: usize = 1_500_000;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A whole number.
    Number(i64),
    /// A number with a fraction.
    Fraction(f64),
    /// Text, or a bare word.
    Text(Cow<'a, str>),
    /// `[ ... ]`; arrays do not nest.
    List(Vec<Value<'a>>),
    /// `name { ... }`.
    Section(Section<'a>),
}

/// Names and values in the order of the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section<'a> {
    /// The entries.
    pub entries: Vec<(Cow<'a, str>, Value<'a>)>,
}

impl<'a> Section<'a> {
    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// The text of that name.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of that name, when it is not negative.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Number(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    /// The section of that name.
    pub fn section(&self, name: &str) -> Option<&Section<'a>> {
        match self.get(name)? {
            Value::Section(section) => Some(section),
            _ => None,
        }
    }

    /// All sections in this one with their names.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Section<'a>)> {
        self.entries.iter().filter_map(|(name, value)| match value {
            Value::Section(section) => Some((name.as_ref(), section)),
            _ => None,
        })
    }

    /// The texts of a list, or of a single text; what is no text is left out.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = match self.get(name) {
            Some(Value::List(values)) => values.as_slice(),
            Some(value) => std::slice::from_ref(value),
            None => &[],
        };
        values.iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.as_ref()),
            _ => None,
        })
    }
}

/// Where a text stops being one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextFault {
    /// Byte at which it was noticed.
    pub at: usize,
    /// What was wrong there.
    pub what: &'static str,
}

/// Parses a whole text; it ends at the first NUL.
pub fn parse(bytes: &[u8]) -> Result<Section<'_>, TextFault> {
    let used = bytes.split(|&b| b == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(used)
        .map_err(|e| TextFault { at: e.valid_up_to(), what: "not UTF-8" })?;
    let mut parser = Parser { text, at: 0, values: 0 };
    let section = parser.entries(0)?;
    match parser.at == text.len() {
        true => Ok(section),
        false => Err(parser.fault("one closing brace too many")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    values: usize,
}

impl<'a> Parser<'a> {
    fn fault(&self, what: &'static str) -> TextFault {
        TextFault { at: self.at, what }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// One more entry or value.
    fn count(&mut self) -> Result<(), TextFault> {
        self.values += 1;
        match self.values <= VALUES_MAX {
            true => Ok(()),
            false => Err(self.fault("too many values")),
        }
    }

    /// Skips blanks and comments; returns the byte that follows.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_ascii_start().len();
            match self.rest().bytes().next() {
                Some(b'#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                other => return other,
            }
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    /// Entries up to a closing brace or the end; the brace is left.
    fn entries(&mut self, depth: usize) -> Result<Section<'a>, TextFault> {
        let mut section = Section::default();
        while let Some(byte) = self.peek() {
            if byte == b'}' {
                break;
            }
            self.count()?;
            let name = self.name()?;
            let value = if self.take(b'{') {
                Value::Section(self.body(depth + 1)?)
            } else if self.take(b'=') {
                self.value()?
            } else {
                return Err(self.fault("neither '=' nor '{' after a name"));
            };
            section.entries.push((name, value));
        }
        Ok(section)
    }

    fn body(&mut self, depth: usize) -> Result<Section<'a>, TextFault> {
        if depth > DEPTH_MAX {
            return Err(self.fault("sections are nested too deeply"));
        }
        let section = self.entries(depth)?;
        match self.take(b'}') {
            true => Ok(section),
            false => Err(self.fault("a section is not closed")),
        }
    }

    fn name(&mut self) -> Result<Cow<'a, str>, TextFault> {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote),
            _ => self.word().map(Cow::Borrowed),
        }
    }

    /// What is not blank and no punctuation of the format.
    fn word(&mut self) -> Result<&'a str, TextFault> {
        let rest = self.rest();
        let ends = |c: char| c.is_ascii_whitespace() || "=[]{},\"'#".contains(c);
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        if word.is_empty() {
            return Err(self.fault("a word is missing"));
        }
        self.at += word.len();
        Ok(word)
    }

    fn value(&mut self) -> Result<Value<'a>, TextFault> {
        match self.take(b'[') {
            true => self.list(),
            false => self.scalar(),
        }
    }

    fn list(&mut self) -> Result<Value<'a>, TextFault> {
        let mut values = Vec::new();
        while !self.take(b']') {
            self.count()?;
            values.push(self.scalar()?);
            if !self.take(b',') && self.peek() != Some(b']') {
                return Err(self.fault("a list is not closed"));
            }
        }
        Ok(Value::List(values))
    }

    fn scalar(&mut self) -> Result<Value<'a>, TextFault> {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote).map(Value::Text),
            _ => self.word().map(bare),
        }
    }

    /// Text in quotes; in double ones `\` makes the next character plain.
    fn quoted(&mut self, quote: u8) -> Result<Cow<'a, str>, TextFault> {
        let start = self.at + 1;
        let (mut end, mut escaped) = (start, false);
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(end) {
                None => return Err(self.fault("a quoted string is not closed")),
                Some(b'\\') if quote == b'"' => {
                    escaped = true;
                    end += 2;
                }
                Some(&byte) if byte == quote => break,
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        let raw = &self.text[start..end];
        Ok(if escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) })
    }
}

fn bare(word: &str) -> Value<'_> {
    if let Ok(number) = word.parse() {
        return Value::Number(number);
    }
    let dotted = word.contains('.') && !word.contains(|c: char| c.is_ascii_alphabetic());
    match word.parse() {
        Ok(fraction) if dotted => Value::Fraction(fraction),
        _ => Value::Text(Cow::Borrowed(word)),
    }
}

fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints what was parsed, or where it stopped.
    fn show(text: &str) -> String {
        match parse(text.as_bytes()) {
            Ok(section) => show_section(&section),
            Err(fault) => format!("{}: {}", fault.at, fault.what),
        }
    }

    fn show_section(section: &Section<'_>) -> String {
        let entries = section.entries.iter();
        entries
            .map(|(name, value)| format!("{name}={}", show_value(value)))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn show_value(value: &Value<'_>) -> String {
        match value {
            Value::Number(n) => n.to_string(),
            Value::Fraction(n) => format!("{n:?}"),
            Value::Text(text) => format!("<{text}>"),
            Value::List(list) => {
                format!("[{}]", list.iter().map(show_value).collect::<Vec<_>>().join(","))
            }
            Value::Section(section) => format!("{{{}}}", show_section(section)),
        }
    }

    #[test]
    fn texts() {
        for (text, expected) in [
            ("", ""),
            ("a = 1", "a=1"),
            ("a=-1 b=1.5", "a=-1 b=1.5"),
            ("a = \"x \\\"y\\\" \\\\\"", "a=<x \"y\" \\>"),
            ("a = 'x\\' b = word", "a=<x\\> b=<word>"),
            ("# all of it\na { # why\n b = [\"x\", 0,\n 'y'] }\n", "a={b=[<x>,0,<y>]}"),
            ("\"q n\" { } e = []", "q n={} e=[]"),
            ("a = 1\0 } rubbish", "a=1"),
            ("a { b { c = 2 } } d = 99999999999999999999", "a={b={c=2}} d=<99999999999999999999>"),
            ("a", "1: neither '=' nor '{' after a name"),
            ("a =", "3: a word is missing"),
            ("a { b = 1", "9: a section is not closed"),
            ("a = 1 }", "6: one closing brace too many"),
            ("a = [1", "6: a list is not closed"),
            ("a = [[1]]", "5: a word is missing"),
            ("a = \"x", "4: a quoted string is not closed"),
            ("a = \"x\\", "4: a quoted string is not closed"),
            ("a = \"é\\é\"", "a=<éé>"),
        ] {
            assert_eq!(show(text), expected, "{text}");
        }
    }

    #[test]
    fn values_are_counted_wherever_they_are() {
        let check = |text: &str, fits: bool| {
            let fault = parse(text.as_bytes()).err().map(|fault| fault.what);
            assert_eq!(fault, (!fits).then_some("too many values"), "{}", &text[..9]);
        };
        let (half, rest) = (VALUES_MAX / 2, VALUES_MAX - VALUES_MAX / 2);
        let entries = "a=1 ".repeat(half - 1);
        check(&format!("{entries} b=[{}]", "1,".repeat(rest)), true);
        check(&format!("{entries} b=[{}]", "1,".repeat(rest + 1)), false);
        check(&"a{}".repeat(VALUES_MAX + 1), false);
    }

    #[test]
    fn depth_is_bounded() {
        assert_eq!(show(&"a{".repeat(100_000)), "34: sections are nested too deeply");
    }
}
