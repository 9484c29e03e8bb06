//! The Journal Export Format: <https://systemd.io/JOURNAL_EXPORT_FORMATS/>.
//!
//! Entries with an empty line between them. A field is `NAME=value` and a newline, or `NAME`, a
//! newline, 64 bits of length, the value and a newline. Names that begin with `__` are the entry's
//! place and times. Pure: bytes in, entries out, as they come.

use warren_log_store::entry::{
    ENTRY_BYTES_MAX, ENTRY_FIELDS_MAX, Fields, Id128, Stamp, is_valid_name,
};

/// An entry as it was exported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exported {
    /// When it came in.
    pub stamp: Stamp,
    /// All fields, trusted ones too; the id of the boot is in the stamp.
    pub fields: Fields,
}

/// What is wrong with a stream: nothing behind it can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadStream(pub &'static str);

/// Takes a stream apart.
#[derive(Debug, Default)]
pub struct Parser {
    rest: Vec<u8>,
    entry: Exported,
    has_time: bool,
    /// Fields that were left out: bad names, too many, too large.
    refused: usize,
}

/// A field at the head of some bytes, and how long it is; `None`: more bytes are needed.
type Taken<'a> = Option<(Line<'a>, usize)>;

enum Line<'a> {
    Field(&'a [u8], &'a [u8]),
    End,
}

impl Parser {
    /// Takes bytes and gives each entry that is whole.
    ///
    /// # Errors
    /// When it is no stream of entries. Entries before that were given.
    pub fn push(&mut self, data: &[u8], mut each: impl FnMut(Exported)) -> Result<(), BadStream> {
        self.rest.extend_from_slice(data);
        let rest = std::mem::take(&mut self.rest);
        let mut begin = 0;
        while let Some((line, length)) = take_line(&rest[begin..])? {
            match line {
                Line::Field(name, value) => self.field(name, value),
                Line::End => self.end().into_iter().for_each(&mut each),
            }
            begin += length;
        }
        self.rest = rest[begin..].to_vec();
        Ok(())
    }

    /// The last entry, which needs no empty line behind it, and how many fields were left out.
    ///
    /// # Errors
    /// When the stream ends within a field.
    pub fn finish(mut self) -> Result<(Option<Exported>, usize), BadStream> {
        if !self.rest.is_empty() {
            return Err(BadStream("it ends within a field"));
        }
        let last = self.end();
        Ok((last, self.refused))
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = || std::str::from_utf8(value).ok();
        let number = || text()?.parse().ok();
        let stamp = &mut self.entry.stamp;
        match name {
            b"__REALTIME_TIMESTAMP" => {
                self.has_time = number().is_some();
                stamp.realtime_us = number().unwrap_or(0);
            }
            b"__MONOTONIC_TIMESTAMP" => stamp.monotonic_us = number().unwrap_or(0),
            b"_BOOT_ID" => stamp.boot = text().and_then(Id128::parse).unwrap_or_default(),
            name if name.starts_with(b"__") => {}
            name => self.keep(name, value),
        }
    }

    fn keep(&mut self, name: &[u8], value: &[u8]) {
        let fields = &mut self.entry.fields;
        let fits = fields.len() < ENTRY_FIELDS_MAX
            && fields.bytes_len() + name.len() + value.len() <= ENTRY_BYTES_MAX;
        match is_valid_name(name) && fits {
            true => fields.push(name, value),
            false => self.refused += 1,
        }
    }

    /// An entry without a time is none.
    fn end(&mut self) -> Option<Exported> {
        let entry = std::mem::take(&mut self.entry);
        let whole = std::mem::take(&mut self.has_time) && !entry.fields.is_empty();
        whole.then_some(entry)
    }
}

fn take_line(data: &[u8]) -> Result<Taken<'_>, BadStream> {
    /// Longest name with what is before its value, bytes.
    const HEAD_BYTES_MAX: usize = 1 << 10;
    let Some(end) = memchr::memchr(b'\n', data) else {
        let is_long = data.len() > ENTRY_BYTES_MAX + HEAD_BYTES_MAX;
        return if is_long { Err(BadStream("a line is too long")) } else { Ok(None) };
    };
    let line = &data[..end];
    if line.is_empty() {
        return Ok(Some((Line::End, 1)));
    }
    if let Some(equals) = memchr::memchr(b'=', line) {
        return Ok(Some((Line::Field(&line[..equals], &line[equals + 1..]), end + 1)));
    }
    let Some(length) = data[end + 1..].first_chunk() else { return Ok(None) };
    let length = u64::from_le_bytes(*length);
    if length > ENTRY_BYTES_MAX as u64 {
        return Err(BadStream("a value is too large"));
    }
    let (begin, length) = (end + 9, length as usize);
    match data.get(begin..begin + length + 1) {
        None => Ok(None),
        Some(value) if value[length] == b'\n' => {
            Ok(Some((Line::Field(line, &value[..length]), begin + length + 1)))
        }
        Some(_) => Err(BadStream("a value has no end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries as `time/monotonic NAME=value ...`, however the bytes are cut.
    fn check(data: &[u8], expected: &[&str], ends_well: bool) {
        for piece in [1, 3, data.len().max(1)] {
            let (mut parser, mut found) = (Parser::default(), Vec::new());
            let show = |entry: Exported| {
                let mut text = format!("{}/{}", entry.stamp.realtime_us, entry.stamp.monotonic_us);
                for (name, value) in entry.fields.iter() {
                    text += &format!(" {}={}", name.escape_ascii(), value.escape_ascii());
                }
                text
            };
            let mut pushed = Ok(());
            for bytes in data.chunks(piece) {
                pushed = pushed.and_then(|()| parser.push(bytes, |entry| found.push(show(entry))));
            }
            let finished = pushed.and_then(|()| parser.finish());
            assert_eq!(finished.is_ok(), ends_well, "{} by {piece}", data.escape_ascii());
            found.extend(finished.ok().and_then(|(last, _)| last).map(show));
            assert_eq!(found, expected, "{} by {piece}", data.escape_ascii());
        }
    }

    #[test]
    fn streams() {
        let two =
            b"__CURSOR=x\n__REALTIME_TIMESTAMP=5\n__MONOTONIC_TIMESTAMP=2\nMESSAGE=a=b\n_PID=1\n\n\
                    __REALTIME_TIMESTAMP=6\nB\n\x03\0\0\0\0\0\0\0x\ny\n";
        check(two, &["5/2 MESSAGE=a=b _PID=1", "6/0 B=x\\ny"], true);
        check(b"MESSAGE=no time\n\n", &[], true);
        check(b"", &[], true);
        check(b"__REALTIME_TIMESTAMP=5\nbad=1\nA=1\n", &["5/0 A=1"], true);
        check(b"__REALTIME_TIMESTAMP=5\nA=1\n\nB=cut", &["5/0 A=1"], false);
        check(
            b"__REALTIME_TIMESTAMP=5\nA=1\n\nB\n\xff\xff\xff\xff\xff\xff\xff\xff",
            &["5/0 A=1"],
            false,
        );
        check(b"B\n\x01\0\0\0\0\0\0\0xy\n", &[], false);
    }
}
