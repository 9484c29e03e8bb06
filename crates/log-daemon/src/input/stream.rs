//! A stream of a service's output: seven header lines, then text.
//!
//! The header, each line ended by a newline: identifier, unit, priority, level prefix (0 or 1),
//! and whether to forward to syslog, kmsg and the console (0 or 1 each). Then each line is an
//! entry; a line may begin with `<N>` when the level prefix is on.

use crate::input::{split_priority, take_priority, trim_end, trim_start};
use warren_log_store::entry::Fields;
pub use warren_wire::log_link::{Copies, Header};

/// Longest line, bytes, unless `LineMax=` of journald.conf(5) says another; longer ones are split.
pub const LINE_BYTES_DEFAULT: usize = 48 << 10;

/// Longest header line, bytes.
const HEADER_BYTES_MAX: usize = 255;

/// Why an entry ends where it does; `_LINE_BREAK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineBreak {
    /// A newline: the ordinary case, not noted.
    Newline,
    /// A zero byte.
    Nul,
    /// The line is too long.
    LineMax,
    /// The stream ended.
    Eof,
    /// Another process writes on.
    PidChange,
}

impl LineBreak {
    /// Value of `_LINE_BREAK`.
    pub fn name(self) -> Option<&'static str> {
        match self {
            LineBreak::Newline => None,
            LineBreak::Nul => Some("nul"),
            LineBreak::LineMax => Some("line-max"),
            LineBreak::Eof => Some("eof"),
            LineBreak::PidChange => Some("pid-change"),
        }
    }
}

/// A stream as far as it was read.
#[derive(Debug)]
pub struct Stream {
    header: Header,
    header_lines: usize,
    line_bytes_max: usize,
    rest: Vec<u8>,
}

/// The header is no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadHeader;

/// Room that a stream keeps for what comes next, bytes.
const KEPT_BYTES: usize = 512;

/// How many lines a header has.
const HEADER_LINES: usize = 7;

impl Stream {
    /// A stream that begins with its header. Longer lines are split.
    pub fn new(line_bytes_max: usize) -> Stream {
        Stream { header: Header::default(), header_lines: 0, line_bytes_max, rest: Vec::new() }
    }

    /// A stream whose header is known, with what of its first line was read already.
    pub fn with_header(header: Header, begun: Vec<u8>, line_bytes_max: usize) -> Stream {
        Stream { header, header_lines: HEADER_LINES, line_bytes_max, rest: begun }
    }

    /// The header was read whole.
    pub fn has_header(&self) -> bool {
        self.header_lines == HEADER_LINES
    }

    /// A part of the header was read.
    pub fn is_in_header(&self) -> bool {
        !self.has_header() && (self.header_lines > 0 || !self.rest.is_empty())
    }

    /// What was read of a line that has not ended yet.
    pub fn begun(&self) -> &[u8] {
        if self.has_header() { &self.rest } else { &[] }
    }

    /// What the header said so far.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Takes bytes and gives every line that is complete.
    pub fn push(
        &mut self,
        data: &[u8],
        mut line: impl FnMut(&Header, &[u8], LineBreak),
    ) -> Result<(), BadHeader> {
        self.rest.extend_from_slice(data);
        let mut begin = 0;
        while let Some((end, next, line_break)) = find_end(&self.rest[begin..], self.limit()) {
            let text = &self.rest[begin..begin + end];
            if self.header_lines < HEADER_LINES {
                if line_break != LineBreak::Newline {
                    return Err(BadHeader);
                }
                read_header(&mut self.header, self.header_lines, text)?;
                self.header_lines += 1;
            } else if !text.is_empty() {
                line(&self.header, text, line_break);
            }
            begin += next;
        }
        self.rest.drain(..begin);
        // A stream may say nothing more for long.
        if self.rest.capacity() > self.rest.len() + KEPT_BYTES {
            self.rest.shrink_to_fit();
        }
        Ok(())
    }

    fn limit(&self) -> usize {
        if self.header_lines < HEADER_LINES { HEADER_BYTES_MAX } else { self.line_bytes_max }
    }

    /// Ends the line that is being written: the stream ended, or its writer is another.
    pub fn cut(&mut self, why: LineBreak, mut line: impl FnMut(&Header, &[u8], LineBreak)) {
        if self.has_header() && !self.rest.is_empty() {
            line(&self.header, &self.rest, why);
        }
        self.rest = Vec::new();
    }

    /// Bytes that were read and are in no line yet.
    pub fn held_bytes(&self) -> usize {
        self.rest.len()
    }
}

/// Where the first line ends, where the next begins, and why.
fn find_end(data: &[u8], limit: usize) -> Option<(usize, usize, LineBreak)> {
    match memchr::memchr2(b'\n', 0, &data[..data.len().min(limit + 1)]) {
        Some(end) if data[end] == b'\n' => Some((end, end + 1, LineBreak::Newline)),
        Some(end) => Some((end, end + 1, LineBreak::Nul)),
        None if data.len() > limit => Some((limit, limit, LineBreak::LineMax)),
        None => None,
    }
}

fn read_header(header: &mut Header, number: usize, text: &[u8]) -> Result<(), BadHeader> {
    let text = trim_start(trim_end(text));
    match number {
        0 => header.identifier = text.to_vec(),
        1 => header.unit = text.to_vec(),
        2 => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            header.priority = number.filter(|&number| number <= 999).ok_or(BadHeader)?;
        }
        3 => header.level_prefix = read_bool(text)?,
        4 => header.copies.syslog = read_bool(text)?,
        5 => header.copies.kmsg = read_bool(text)?,
        _ => header.copies.console = read_bool(text)?,
    }
    Ok(())
}

fn read_bool(text: &[u8]) -> Result<bool, BadHeader> {
    match text {
        b"0" | b"no" | b"false" | b"off" | b"n" | b"f" => Ok(false),
        b"1" | b"yes" | b"true" | b"on" | b"y" | b"t" => Ok(true),
        _ => Err(BadHeader),
    }
}

/// The fields of a line, but for blanks at its end; `None` where nothing is left. A line of blanks alone
/// stays. What does not begin with a priority alone (`<0>` to `<7>`) begins with no prefix.
pub fn fields(header: &Header, text: &[u8], line_break: LineBreak) -> Option<Fields> {
    let trimmed = trim_end(text);
    let text = if trimmed.is_empty() { text } else { trimmed };
    let prefixed = header.level_prefix.then(|| take_priority(text)).flatten();
    let (number, text) = match prefixed.filter(|(number, _)| *number < 8) {
        Some((number, text)) => (number | header.priority & !7, text),
        None => (header.priority, text),
    };
    if text.is_empty() {
        return None;
    }
    let (priority, facility) = split_priority(number);
    let mut fields = Fields::new();
    fields.push(b"PRIORITY", priority.to_string().as_bytes());
    if facility > 0 {
        fields.push(b"SYSLOG_FACILITY", facility.to_string().as_bytes());
    }
    if !header.identifier.is_empty() {
        fields.push(b"SYSLOG_IDENTIFIER", &header.identifier);
    }
    fields.push(b"MESSAGE", text);
    if let Some(name) = line_break.name() {
        fields.push(b"_LINE_BREAK", name.as_bytes());
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as `priority text (break)`, however the bytes are cut.
    fn check(body: &str, expected: &[&str]) {
        let data = format!("id\nu.service\n30\n1\n0\n0\n0\n{body}");
        for piece in [1, 2, 7, data.len()] {
            let (mut stream, mut lines) = (Stream::new(LINE_BYTES_DEFAULT), Vec::new());
            let mut note = |header: &Header, text: &[u8], line_break: LineBreak| {
                let Some(fields) = fields(header, text, line_break) else { return };
                let get =
                    |name| String::from_utf8_lossy(fields.get(name).unwrap_or(b"")).into_owned();
                let (priority, text) = (get("PRIORITY"), get("MESSAGE"));
                lines.push(format!("{priority} {text} ({})", get("_LINE_BREAK")));
            };
            for piece in data.as_bytes().chunks(piece) {
                stream.push(piece, &mut note).expect("a good header");
            }
            stream.cut(LineBreak::Eof, &mut note);
            assert_eq!(lines, expected, "{body:?} by {piece}");
            assert_eq!(stream.header().unit, b"u.service");
        }
    }

    #[test]
    fn lines() {
        check("one\ntwo\n", &["6 one ()", "6 two ()"]);
        check("<3>bad\n<x>odd\n", &["3 bad ()", "6 <x>odd ()"]);
        check("<30>a\n<03>b\n<8>c\n<3>\n", &["6 <30>a ()", "3 b ()", "6 <8>c ()"]);
        check(" a \t\r\n \n<3> b \nc ", &["6  a ()", "6   ()", "3  b ()", "6 c (eof)"]);
        check("one\n\n\ntwo", &["6 one ()", "6 two (eof)"]);
        check("a\0b\n", &["6 a (nul)", "6 b ()"]);
        check("", &[]);
    }

    #[test]
    fn blanks_in_a_header_are_nothing() {
        let mut stream = Stream::new(LINE_BYTES_DEFAULT);
        stream.push(b" id \nu\n 06\nyes\noff\n1\nt\n", |_, _, _| {}).expect("a good header");
        let expected = Header {
            identifier: b"id".to_vec(),
            unit: b"u".to_vec(),
            priority: 6,
            level_prefix: true,
            copies: Copies { syslog: false, kmsg: true, console: true },
        };
        assert_eq!(stream.header(), &expected);
    }

    #[test]
    fn a_header_is_read_back() {
        let mut stream = Stream::new(LINE_BYTES_DEFAULT);
        stream.push(b"id\nu.service\n30\n1\n0\n0\n0\n", |_, _, _| {}).expect("a good header");
        let mut again = Stream::new(LINE_BYTES_DEFAULT);
        again.push(&stream.header().to_bytes(), |_, _, _| {}).expect("a good header");
        assert!(again.has_header());
        assert_eq!(again.header(), stream.header());
    }

    #[test]
    fn long_lines_are_split() {
        let long = "x".repeat(LINE_BYTES_DEFAULT);
        check(&format!("{long}\n"), &[&format!("6 {long} ()")]);
        check(&format!("{long}y\n"), &[&format!("6 {long} (line-max)"), "6 y ()"]);
    }

    #[test]
    fn what_is_held_is_what_was_begun() {
        let mut stream = Stream::with_header(Header::default(), Vec::new(), LINE_BYTES_DEFAULT);
        let lines = b"a line\n".repeat(10_000);
        stream.push(&lines, |_, _, _| {}).expect("it has its header");
        stream.push(b"begun", |_, _, _| {}).expect("it has its header");
        assert_eq!(stream.held_bytes(), 5);
        assert!(stream.rest.capacity() <= 2 * KEPT_BYTES, "{}", stream.rest.capacity());
        stream.cut(LineBreak::LineMax, |_, _, _| {});
        assert_eq!((stream.held_bytes(), stream.rest.capacity()), (0, 0));
    }

    #[test]
    fn bad_headers_are_refused() {
        let long = "x".repeat(HEADER_BYTES_MAX + 1);
        for bad in [&*long, "a\nb\n1000\n", "a\nb\n-1\n", "a\nb\n6\nx\n", "a\0"] {
            let mut stream = Stream::new(LINE_BYTES_DEFAULT);
            assert_eq!(stream.push(bad.as_bytes(), |_, _, _| {}), Err(BadHeader), "{bad:?}");
        }
    }
}
