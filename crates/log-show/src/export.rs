//! The Journal Export Format: <https://systemd.io/JOURNAL_EXPORT_FORMATS/>.
//!
//! Entries with an empty line between them. A field is `NAME=value` and a newline, or `NAME`, a
//! newline, 64 bits of length, the value and a newline. Names that begin with `__` are the entry's
//! place and times. Pure: bytes in, entries out, as they come.
//!
//! What cannot be understood is left out: a line that is no field by itself, and from a field that is broken on all up to
//! the next empty line.

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

/// What is wrong with a field: where it ends cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BadField(&'static str);

/// What of a stream was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Fields: bad names, too many, too large.
    pub fields: usize,
    /// Lines that are no fields.
    pub lines: usize,
    /// Broken parts.
    pub parts: usize,
    /// Where the first broken part begins, bytes, and what is wrong with it.
    pub first: Option<(u64, &'static str)>,
}

/// Takes a stream apart.
#[derive(Debug, Default)]
pub struct Parser {
    rest: Vec<u8>,
    /// Where `rest` begins in the stream, bytes.
    offset: u64,
    /// The next empty line is looked for.
    is_lost: bool,
    entry: Exported,
    has_time: bool,
    left_out: LeftOut,
}

/// A field at the head of some bytes, and how long it is; `None`: more bytes are needed.
type FieldAtHead<'a> = Option<(Line<'a>, usize)>;

enum Line<'a> {
    Field(&'a [u8], &'a [u8]),
    End,
    Noise,
}

impl Parser {
    /// Takes bytes and gives each entry that is whole.
    pub fn push(&mut self, data: &[u8], mut each: impl FnMut(Exported)) {
        self.rest.extend_from_slice(data);
        let rest = std::mem::take(&mut self.rest);
        let mut begin = 0;
        loop {
            if self.is_lost {
                begin += self.find_empty_line(&rest[begin..]);
                if self.is_lost {
                    break;
                }
            }
            match take_line(&rest[begin..]) {
                Ok(Some((line, length))) => {
                    match line {
                        Line::Field(name, value) => self.field(name, value),
                        Line::End => self.end().into_iter().for_each(&mut each),
                        Line::Noise => self.left_out.lines += 1,
                    }
                    begin += length;
                }
                Ok(None) => break,
                Err(BadField(what)) => self.lose(self.offset + begin as u64, what),
            }
        }
        self.offset += begin as u64;
        self.rest = rest[begin..].to_vec();
    }

    /// The last entry, which needs no empty line behind it, and what was left out.
    pub fn finish(mut self) -> (Option<Exported>, LeftOut) {
        if !self.rest.is_empty() && !self.is_lost {
            self.lose(self.offset, "the stream ends within a field");
        }
        let last = if self.is_lost { None } else { self.end() };
        (last, self.left_out)
    }

    /// Leaves out the entry that is being read.
    fn lose(&mut self, at: u64, what: &'static str) {
        (self.entry, self.has_time, self.is_lost) = (Exported::default(), false, true);
        self.left_out.parts += 1;
        self.left_out.first.get_or_insert((at, what));
    }

    /// How many bytes there are to what follows the next empty line, or that need not be looked at again.
    fn find_empty_line(&mut self, data: &[u8]) -> usize {
        const EMPTY_LINE: &[u8] = b"\n\n";
        match memchr::memmem::find(data, EMPTY_LINE) {
            Some(at) => {
                self.is_lost = false;
                at + EMPTY_LINE.len()
            }
            None => data.len().saturating_sub(1),
        }
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
            false => self.left_out.fields += 1,
        }
    }

    /// An entry without a time is none.
    fn end(&mut self) -> Option<Exported> {
        let entry = std::mem::take(&mut self.entry);
        let whole = std::mem::take(&mut self.has_time) && !entry.fields.is_empty();
        whole.then_some(entry)
    }
}

fn take_line(data: &[u8]) -> Result<FieldAtHead<'_>, BadField> {
    /// Longest name with what is before its value, bytes.
    const HEAD_BYTES_MAX: usize = 1 << 10;
    let Some(end) = memchr::memchr(b'\n', data) else {
        let is_long = data.len() > ENTRY_BYTES_MAX + HEAD_BYTES_MAX;
        return if is_long { Err(BadField("a line is too long")) } else { Ok(None) };
    };
    let line = &data[..end];
    if line.is_empty() {
        return Ok(Some((Line::End, 1)));
    }
    if let Some(equals) = memchr::memchr(b'=', line) {
        return Ok(Some((Line::Field(&line[..equals], &line[equals + 1..]), end + 1)));
    }
    // The name of a value with a length: what is none is said by somebody else.
    if !is_valid_name(line) && !line.starts_with(b"__") {
        return Ok(Some((Line::Noise, end + 1)));
    }
    let Some(length) = data[end + 1..].first_chunk() else { return Ok(None) };
    let length = u64::from_le_bytes(*length);
    if length > ENTRY_BYTES_MAX as u64 {
        return Err(BadField("a value is too large"));
    }
    let (begin, length) = (end + 9, length as usize);
    match data.get(begin..begin + length + 1) {
        None => Ok(None),
        Some(value) if value[length] == b'\n' => {
            Ok(Some((Line::Field(line, &value[..length]), begin + length + 1)))
        }
        Some(_) => Err(BadField("a value has no end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries as `time/monotonic NAME=value ...`, however the bytes are cut, and what was left out: fields, lines, parts
    /// and where the first of these begins.
    fn check(data: &[u8], expected: &[&str], left_out: (usize, usize, usize, Option<u64>)) {
        for piece in [1, 3, data.len().max(1)] {
            let (mut parser, mut found) = (Parser::default(), Vec::new());
            let show = |entry: Exported| {
                let mut text = format!("{}/{}", entry.stamp.realtime_us, entry.stamp.monotonic_us);
                for (name, value) in entry.fields.iter() {
                    text += &format!(" {}={}", name.escape_ascii(), value.escape_ascii());
                }
                text
            };
            data.chunks(piece)
                .for_each(|bytes| parser.push(bytes, |entry| found.push(show(entry))));
            let (last, left) = parser.finish();
            found.extend(last.map(show));
            assert_eq!(found, expected, "{} by {piece}", data.escape_ascii());
            let left = (left.fields, left.lines, left.parts, left.first.map(|(at, _)| at));
            assert_eq!(left, left_out, "{} by {piece}", data.escape_ascii());
        }
    }

    const NOTHING: (usize, usize, usize, Option<u64>) = (0, 0, 0, None);

    #[test]
    fn streams() {
        let two =
            b"__CURSOR=x\n__REALTIME_TIMESTAMP=5\n__MONOTONIC_TIMESTAMP=2\nMESSAGE=a=b\n_PID=1\n\n\
                    __REALTIME_TIMESTAMP=6\nB\n\x03\0\0\0\0\0\0\0x\ny\n";
        check(two, &["5/2 MESSAGE=a=b _PID=1", "6/0 B=x\\ny"], NOTHING);
        check(b"MESSAGE=no time\n\n", &[], NOTHING);
        check(b"", &[], NOTHING);
        check(b"__REALTIME_TIMESTAMP=5\nbad=1\nA=1\n", &["5/0 A=1"], (1, 0, 0, None));
    }

    #[test]
    fn what_is_broken_is_left_out_up_to_the_next_entry() {
        let one = b"__REALTIME_TIMESTAMP=5\nA=1\n\n";
        let check = |bad: &[u8], left_out| {
            check(&[&one[..], bad].concat(), &["5/0 A=1"], left_out);
            let more = [&one[..], bad, b"\n\n", one].concat();
            check(&more, &["5/0 A=1", "5/0 A=1"], left_out);
        };
        let begin = Some(one.len() as u64);
        check(b"B\n\xff\xff\xff\xff\xff\xff\xff\xff", (0, 0, 1, begin));
        check(b"B\n\x01\0\0\0\0\0\0\0xy\n", (0, 0, 1, begin));
        check(b"a line of somebody else\n", (0, 1, 0, None));
        check(b"-- Boot abc --\n\n", (0, 1, 0, None));
        super::tests::check(
            b"__REALTIME_TIMESTAMP=5\nA=1\n\nB=cut",
            &["5/0 A=1"],
            (0, 0, 1, begin),
        );
        let two = b"__REALTIME_TIMESTAMP=5\nnoise\nA=1\n\nnoise\n__REALTIME_TIMESTAMP=6\nA=2\n";
        super::tests::check(two, &["5/0 A=1", "6/0 A=2"], (0, 2, 0, None));
    }
}
