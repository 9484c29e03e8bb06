//! Entries as text: the output modes of journalctl(1).

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use crate::catalog::Catalog;
use crate::cut::{self, is_control};
use warren_log_store::entry::{Entry, Stamp};
use warren_log_store::query::Cursor;
use warren_log_store::time;

/// Longest value that JSON prints without `--all`, bytes.
const JSON_VALUE_BYTES_MAX: usize = 4096;

/// A time that a sender may have meant is below this, µs: the year 3111.
const TIME_US_END: u64 = 1 << 55;

/// What is printed for a tab.
const TAB: &[u8] = b"        ";

/// An output mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One line, as in syslog files; how to print the time, and whether with the unit's name.
    Short(Clock),
    /// The same with `short-full` times and the unit instead of the identifier.
    WithUnit,
    /// All fields, one a line.
    Verbose,
    /// The Journal Export Format.
    Export,
    /// One JSON object a line.
    Json,
    /// JSON for people.
    JsonPretty,
    /// JSON as server-sent events.
    JsonSse,
    /// JSON text sequences, RFC 7464.
    JsonSeq,
    /// The text alone.
    Cat,
}

/// How a short line prints the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// `Jan 05 09:30:00`.
    Syslog,
    /// With µs.
    Precise,
    /// ISO 8601.
    Iso,
    /// ISO 8601 with µs.
    IsoPrecise,
    /// With weekday, year and zone.
    Full,
    /// Seconds since 1970.
    Unix,
    /// Seconds since the start of the boot.
    Monotonic,
    /// The same, and how long after the entry before.
    Delta,
}

/// Names of the modes, in the order of journalctl(1).
const MODES: [(&str, Mode); 16] = [
    ("short", Mode::Short(Clock::Syslog)),
    ("short-full", Mode::Short(Clock::Full)),
    ("short-iso", Mode::Short(Clock::Iso)),
    ("short-iso-precise", Mode::Short(Clock::IsoPrecise)),
    ("short-precise", Mode::Short(Clock::Precise)),
    ("short-monotonic", Mode::Short(Clock::Monotonic)),
    ("short-delta", Mode::Short(Clock::Delta)),
    ("short-unix", Mode::Short(Clock::Unix)),
    ("verbose", Mode::Verbose),
    ("export", Mode::Export),
    ("json", Mode::Json),
    ("json-pretty", Mode::JsonPretty),
    ("json-sse", Mode::JsonSse),
    ("json-seq", Mode::JsonSeq),
    ("cat", Mode::Cat),
    ("with-unit", Mode::WithUnit),
];

impl Mode {
    /// A mode by its name.
    pub fn parse(name: &str) -> Option<Mode> {
        MODES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MODES.iter().map(|(name, _)| *name)
    }

    /// There are lines beside the entries, as between boots.
    pub fn is_for_people(self) -> bool {
        matches!(self, Mode::Short(_) | Mode::WithUnit | Mode::Verbose)
    }
}

/// Prints entries.
#[derive(Debug, Clone)]
pub struct Printer {
    /// Output mode.
    pub mode: Mode,
    /// Zone of times.
    pub zone: TimeZone,
    /// Print what is not printable, and values of any length.
    pub all: bool,
    /// Leave the host's name out of short lines.
    pub no_hostname: bool,
    /// Cut lines so that they fit into so many columns.
    pub columns: Option<usize>,
    /// Fields to print; all when empty.
    pub fields: Vec<String>,
    /// A terminal shows it: what senders wrote must not steer it, in no mode.
    pub for_terminal: bool,
    /// Texts that explain messages, in outputs for people.
    pub catalog: Option<Catalog>,
    /// When the entry before was sent.
    pub(crate) before: Option<Stamp>,
}

impl Printer {
    /// All fields, with nothing explained and what is not printable left out.
    pub fn new(mode: Mode, zone: TimeZone) -> Printer {
        let (all, no_hostname, for_terminal, fields) = (false, false, false, Vec::new());
        let (columns, catalog, before) = (None, None, None);
        Printer { mode, zone, all, no_hostname, columns, fields, for_terminal, catalog, before }
    }

    /// Appends an entry.
    pub fn put(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        let begin = out.len();
        match self.mode {
            Mode::Short(clock) => self.put_short(entry, clock, false, out),
            Mode::WithUnit => self.put_short(entry, Clock::Full, true, out),
            Mode::Verbose => self.put_verbose(entry, out),
            Mode::Export => self.put_export(entry, out),
            Mode::Cat => self.put_cat(entry, out),
            Mode::Json => self.put_json(entry, &["{", ",", ":", "}\n"], out),
            Mode::JsonPretty => self.put_json(entry, &["{\n\t", ",\n\t", " : ", "\n}\n"], out),
            Mode::JsonSse => self.put_json(entry, &["data: {", ",", ":", "}\n\n"], out),
            Mode::JsonSeq => self.put_json(entry, &["\x1e{", ",", ":", "}\n"], out),
        }
        // Entries without a text have no line, and nothing to be explained.
        if let Some(catalog) = self.catalog.as_ref().filter(|_| out.len() > begin)
            && self.mode.is_for_people()
        {
            catalog.put(entry, out);
        }
    }

    /// The cursor of an entry.
    pub fn cursor(&self, entry: &Entry) -> String {
        Cursor::of(entry).to_string()
    }

    fn wants(&self, name: &[u8]) -> bool {
        self.fields.is_empty() || self.fields.iter().any(|wanted| wanted.as_bytes() == name)
    }

    fn put_short(&mut self, entry: &Entry, clock: Clock, with_unit: bool, out: &mut Vec<u8>) {
        // Of a field that is there twice the last one counts.
        let last = |name: &str| {
            let all = entry.all_fields().filter(|field| field.0 == name.as_bytes());
            all.last().map(|field| field.1)
        };
        let stamp = sent(entry);
        let time = self.time(&stamp, clock);
        self.before = Some(stamp);
        let Some(message) = last("MESSAGE") else { return };
        let begin = out.len();
        // Senders choose some of these, and a line is to be of one sender.
        let named = |name: &str| last(name).filter(|value| self.all || is_for_heads(value));
        out.extend_from_slice(time.as_bytes());
        if let Some(host) = named("_HOSTNAME").filter(|_| !self.no_hostname) {
            out.push(b' ');
            out.extend_from_slice(host);
        }
        let first = |names: &[&str]| names.iter().find_map(|name| named(name));
        let unit = with_unit.then(|| {
            let units = ["_SYSTEMD_UNIT", "_SYSTEMD_USER_UNIT"].map(named);
            let units: Vec<&[u8]> = units.into_iter().flatten().collect();
            (!units.is_empty()).then(|| units.join(&b'/'))
        });
        let unit = unit.flatten();
        let name = unit
            .as_deref()
            .or_else(|| first(&["SYSLOG_IDENTIFIER", "_COMM"]))
            .unwrap_or(b"unknown");
        out.push(b' ');
        out.extend_from_slice(name);
        if let Some(pid) = first(&["_PID", "SYSLOG_PID"]) {
            out.push(b'[');
            out.extend_from_slice(pid);
            out.push(b']');
        }
        out.extend_from_slice(b": ");
        let indent = String::from_utf8_lossy(&out[begin..]).chars().count();
        match self.all {
            true => self.put_text(message, indent, out),
            false => {
                let text = for_lines(message);
                match (self.columns, printable(&text)) {
                    (Some(columns), Some(text)) => cut::put(text, indent, columns, out),
                    _ => self.put_text(&text, indent, out),
                }
            }
        }
    }

    fn time(&self, stamp: &Stamp, clock: Clock) -> String {
        let Stamp { realtime_us: real, monotonic_us: mono, .. } = *stamp;
        let print = |pattern| time::print(real, &self.zone, pattern);
        match clock {
            Clock::Syslog => print("%b %d %H:%M:%S"),
            Clock::Precise => print("%b %d %H:%M:%S.%6f"),
            Clock::Iso => print("%Y-%m-%dT%H:%M:%S%z"),
            Clock::IsoPrecise => print("%Y-%m-%dT%H:%M:%S.%6f%z"),
            Clock::Full => print("%a %Y-%m-%d %H:%M:%S %Z"),
            Clock::Unix => format!("{}.{:06}", real / 1_000_000, real % 1_000_000),
            Clock::Monotonic => format!("[{}]", seconds(mono)),
            Clock::Delta => format!("[{} {}]", seconds(mono), self.since_before(stamp)),
        }
    }

    /// How long after the entry before, as `short-delta` has it: of another boot by the wall clock,
    /// with a star.
    fn since_before(&self, stamp: &Stamp) -> String {
        let Some(before) = &self.before else { return format!("{:15}", "") };
        let (now, then, mark) = match before.boot == stamp.boot {
            true => (stamp.monotonic_us, before.monotonic_us, ' '),
            false => (stamp.realtime_us, before.realtime_us, '*'),
        };
        format!("<{}{mark}>", seconds(now.saturating_sub(then)))
    }

    /// A value whose further lines begin below its first one.
    fn put_text(&self, value: &[u8], indent: usize, out: &mut Vec<u8>) {
        if !self.all && !is_printable(value) {
            return put_size(value, out);
        }
        let mut lines = value.split(|&byte| byte == b'\n').peekable();
        let mut first = true;
        while let Some(line) = lines.next() {
            if !first && line.is_empty() && lines.peek().is_none() {
                break;
            }
            if !first {
                out.resize(out.len() + indent, b' ');
            }
            out.extend_from_slice(line);
            out.push(b'\n');
            first = false;
        }
    }

    fn put_verbose(&self, entry: &Entry, out: &mut Vec<u8>) {
        let time = time::print(sent(entry).realtime_us, &self.zone, "%a %Y-%m-%d %H:%M:%S.%6f %Z");
        out.extend_from_slice(format!("{time} [{}]\n", self.cursor(entry)).as_bytes());
        let boot = entry.stamp.boot.to_string();
        let boot = std::iter::once((&b"_BOOT_ID"[..], boot.as_bytes()));
        for (name, value) in boot.chain(entry.all_fields()).filter(|field| self.wants(field.0)) {
            out.extend_from_slice(b"    ");
            out.extend_from_slice(name);
            out.push(b'=');
            match self.columns.is_some() && !self.all && cut::is_too_long(name, value) {
                true => put_size(value, out),
                false => self.put_text(value, 4 + name.len() + 1, out),
            }
        }
    }

    fn put_export(&self, entry: &Entry, out: &mut Vec<u8>) {
        let stamp = entry.stamp;
        let head = format!(
            "__CURSOR={}\n__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP={}\n_BOOT_ID={}\n",
            self.cursor(entry),
            stamp.realtime_us,
            stamp.monotonic_us,
            stamp.boot
        );
        out.extend_from_slice(head.as_bytes());
        for (name, value) in entry.all_fields().filter(|field| self.wants(field.0)) {
            out.extend_from_slice(name);
            if is_printable(value) && !value.contains(&b'\n') {
                out.push(b'=');
            } else {
                out.push(b'\n');
                out.extend_from_slice(&(value.len() as u64).to_le_bytes());
            }
            out.extend_from_slice(value);
            out.push(b'\n');
        }
        out.push(b'\n');
    }

    fn put_cat(&self, entry: &Entry, out: &mut Vec<u8>) {
        let fields: Vec<&str> = match self.fields.is_empty() {
            true => vec!["MESSAGE"],
            false => self.fields.iter().map(String::as_str).collect(),
        };
        let boot = entry.stamp.boot.to_string();
        let value = |name| match name {
            "_BOOT_ID" => Some(boot.as_bytes()),
            _ => entry.get(name),
        };
        for value in fields.into_iter().filter_map(value) {
            match self.for_terminal && !self.all {
                true => put_visible(value, out),
                false => out.extend_from_slice(value),
            }
            out.push(b'\n');
        }
    }

    /// `[begin, between, colon, end]` are what differs between the JSON modes.
    fn put_json(&self, entry: &Entry, [begin, between, colon, end]: &[&str; 4], out: &mut Vec<u8>) {
        let stamp = entry.stamp;
        let mut parts = vec![
            ("__CURSOR".to_owned(), quoted(&self.cursor(entry))),
            ("__REALTIME_TIMESTAMP".to_owned(), quoted(&stamp.realtime_us.to_string())),
            ("__MONOTONIC_TIMESTAMP".to_owned(), quoted(&stamp.monotonic_us.to_string())),
            ("_BOOT_ID".to_owned(), quoted(&stamp.boot.to_string())),
        ];
        let mut values: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
        for (name, value) in entry.all_fields().filter(|field| self.wants(field.0)) {
            values.entry(name).or_default().push(self.json_value(value));
        }
        for (name, mut values) in values {
            let value = match values.len() {
                1 => values.remove(0),
                _ => format!("[{}]", values.join(",")),
            };
            parts.push((String::from_utf8_lossy(name).into_owned(), value));
        }
        let parts: Vec<String> =
            parts.iter().map(|(name, value)| format!("{}{colon}{value}", quoted(name))).collect();
        out.extend_from_slice(format!("{begin}{}{end}", parts.join(between)).as_bytes());
    }

    fn json_value(&self, value: &[u8]) -> String {
        if !self.all && value.len() > JSON_VALUE_BYTES_MAX {
            return "null".to_owned();
        }
        match std::str::from_utf8(value) {
            Ok(text) if is_printable(value) => quoted(text),
            _ => {
                let numbers: Vec<String> = value.iter().map(u8::to_string).collect();
                format!("[{}]", numbers.join(","))
            }
        }
    }
}

/// When a message was sent, as its sender or the kernel said: journalctl(1) prints that where it is
/// known.
fn sent(entry: &Entry) -> Stamp {
    let said = |name| std::str::from_utf8(entry.get(name)?).ok()?.parse().ok();
    let said = |name| said(name).filter(|time| *time < TIME_US_END);
    let Stamp { realtime_us, monotonic_us, boot } = entry.stamp;
    let real = said("_SOURCE_REALTIME_TIMESTAMP").filter(|time| *time > 0);
    Stamp {
        realtime_us: real.unwrap_or(realtime_us),
        monotonic_us: said("_SOURCE_MONOTONIC_TIMESTAMP").unwrap_or(monotonic_us),
        boot,
    }
}

/// As the kernel prints times.
fn seconds(us: u64) -> String {
    format!("{:>5}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A text for short lines: no colours, no returns at the ends of lines, and blanks in place of tabs.
fn for_lines(text: &[u8]) -> Cow<'_, [u8]> {
    let plain = without_colours(text);
    if !plain.iter().any(|byte| matches!(byte, b'\t' | b'\r')) {
        return plain;
    }
    let mut lines = Vec::with_capacity(plain.len() + TAB.len());
    for line in plain.split_inclusive(|&byte| byte == b'\n') {
        let (line, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |line| (line, b"\n"));
        let returns = line.iter().rev().take_while(|&&byte| byte == b'\r').count();
        for (at, part) in line[..line.len() - returns].split(|&byte| byte == b'\t').enumerate() {
            lines.extend_from_slice(if at > 0 { TAB } else { b"" });
            lines.extend_from_slice(part);
        }
        lines.extend_from_slice(end);
    }
    Cow::Owned(lines)
}

/// A text without the sequences that colour it (`ESC [`, numbers, `m`) and those that give the terminal a title (`ESC ]`,
/// printable ASCII, BEL); ECMA-48, 8.3.117 and 8.3.89, and where systemd 252 sees their ends.
fn without_colours(text: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    if memchr::memchr(ESCAPE, text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut rest) = (Vec::new(), text);
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        let (before, sequence) = rest.split_at(at);
        plain.extend_from_slice(before);
        let bytes = sequence_bytes(sequence);
        // What is none stays.
        plain.extend_from_slice(&sequence[..usize::from(bytes == 0)]);
        rest = &sequence[bytes.max(1)..];
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

/// Bytes of the sequence that a text begins with; 0: it begins with none.
fn sequence_bytes(text: &[u8]) -> usize {
    const BEGIN_BYTES: usize = 2;
    let end_of = |body: &[u8], is_inside: fn(&u8) -> bool, end: u8| {
        let length = body.iter().take_while(|byte| is_inside(byte)).count();
        (body.get(length) == Some(&end)).then_some(BEGIN_BYTES + length + 1)
    };
    let found = match text {
        [0x1b, b'[', body @ ..] => end_of(body, |byte| matches!(byte, b'0'..=b'9' | b';'), b'm'),
        [0x1b, b']', body @ ..] => end_of(body, |byte| matches!(byte, b' '..=b'~'), 0x07),
        _ => None,
    };
    found.unwrap_or(0)
}

/// What is said of a value that is not printed.
fn put_size(value: &[u8], out: &mut Vec<u8>) {
    let bytes = print_bytes(value.len() as u64);
    out.extend_from_slice(format!("[{bytes} blob data]\n").as_bytes());
}

fn is_printable(value: &[u8]) -> bool {
    printable(value).is_some()
}

/// Whether a value can stand before the text of a line: it does not end the line.
fn is_for_heads(value: &[u8]) -> bool {
    is_printable(value) && !value.contains(&b'\n')
}

/// UTF-8 without control characters other than newline and tab.
fn printable(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok().filter(|text| !text.chars().any(is_control))
}

/// A size for people: `5B`, `1.2K`, `8.0M`.
pub fn print_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let power = bytes.ilog2() / 10;
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[power as usize - 1])
}

/// A text whose control characters are written out, but for tabs and ends of lines: `\u{1b}`.
fn put_visible(value: &[u8], out: &mut Vec<u8>) {
    for part in value.utf8_chunks() {
        for character in part.valid().chars() {
            match character {
                '\n' | '\t' => out.push(character as u8),
                _ if character.is_control() => {
                    out.extend(character.escape_default().to_string().bytes())
                }
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        part.invalid().iter().for_each(|byte| out.extend(byte.escape_ascii()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `-o cat` gives the text as it is, but not to a terminal.
    #[test]
    fn a_text_alone_does_not_steer_a_terminal() {
        let text = "a\tb\n\u{1b}]0;title\u{7}\u{9b}2J ä\r";
        let fields = [("MESSAGE", text)].into_iter().collect();
        let (sequence, stamp, context) = Default::default();
        let entry = Entry { sequence, seqnum: 1, stamp, context, fields };
        let printed = |for_terminal: bool, all: bool| {
            let plain = Printer::new(Mode::Cat, TimeZone::UTC);
            let mut out = Vec::new();
            Printer { for_terminal, all, ..plain }.put(&entry, &mut out);
            String::from_utf8(out).expect("UTF-8")
        };
        let as_it_is = format!("{text}\n");
        assert_eq!(printed(false, false), as_it_is);
        assert_eq!(printed(true, true), as_it_is, "--all");
        let visible = "a\tb\n\\u{1b}]0;title\\u{7}\\u{9b}2J ä\\r\n";
        assert_eq!(printed(true, false), visible);
    }

    #[test]
    fn lines_end_without_returns() {
        let check = |text: &str, expected: &str| {
            let lines = for_lines(text.as_bytes());
            assert_eq!(lines.escape_ascii().to_string(), expected, "{text:?}");
        };
        check("a\r\nb\r\n", "a\\nb\\n");
        check("a\r\r", "a");
        check("\r", "");
        check("a\rb\r \r", "a\\rb\\r ");
        check("a\tb\t\r\n\t", "a        b        \\n        ");
    }

    /// Who sends may choose it, and must not write lines of others or to the terminal.
    #[test]
    fn what_is_before_the_text_ends_no_line_and_tells_no_terminal() {
        let check = |named: &[(&str, &str)], all: bool, expected: &str| {
            let fields = named.iter().copied().chain([("MESSAGE", "text")]).collect();
            let (sequence, stamp, context) = Default::default();
            let entry = Entry { sequence, seqnum: 1, stamp, context, fields };
            let mode = Mode::Short(Clock::Unix);
            let mut printer = Printer { all, ..Printer::new(mode, TimeZone::UTC) };
            let mut out = Vec::new();
            printer.put(&entry, &mut out);
            let shown = String::from_utf8_lossy(&out).into_owned();
            assert_eq!(shown, format!("0.000000{expected}: text\n"), "{named:?}");
        };
        let forged = "a: x\n0.000000 root b";
        check(&[("SYSLOG_IDENTIFIER", "a b"), ("SYSLOG_PID", "7")], false, " a b[7]");
        check(&[("SYSLOG_IDENTIFIER", forged), ("_COMM", "sh"), ("_PID", "1")], false, " sh[1]");
        check(&[("_COMM", "\x1b[2J"), ("SYSLOG_PID", "1\n2")], false, " unknown");
        check(&[("_HOSTNAME", "h\x07"), ("_COMM", "\u{9b}31m")], false, " unknown");
        check(&[("SYSLOG_IDENTIFIER", forged)], true, &format!(" {forged}"));
    }

    #[test]
    fn colours_are_taken_out() {
        let check = |text: &str, expected: &str| {
            let plain = without_colours(text.as_bytes());
            assert_eq!(plain.escape_ascii().to_string(), expected, "{text:?}");
        };
        check("plain", "plain");
        check("\x1b[31mred\x1b[0m", "red");
        check("a\x1b[1;3mb\x1b[mc", "abc");
        check("a\x1b[2Kb\x1b[0m", "a\\x1b[2Kb");
        check("\x1b[9", "\\x1b[9");
        check("\x1b[\x1b[1m", "\\x1b[");
        check("\x1b]0;my title\x07built", "built");
        check("x\x1b]\x07y\x1b[31mz\x1b]0;t\x07", "xyz");
        check("\x1b]0;no end", "\\x1b]0;no end");
        check("\x1b]0;t\x1b\\x", "\\x1b]0;t\\x1b\\\\x");
        check("\x1b]0;\u{e4}\x07", "\\x1b]0;\\xc3\\xa4\\x07");
    }
}
