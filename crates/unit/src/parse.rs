//! The line scanner: bytes of a unit file to a compact table of assignments (systemd.syntax(7)).
//!
//! What is kept is the values, one after the other in one text, and five or six bytes for each; keys
//! become ids of the settings table, comments and unknown settings are dropped. Values are not
//! interpreted here: no quoting, no specifiers.

mod packed;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::diagnostic::{Code, Diagnostic, Severity, Sink};
use crate::name::UnitType;
use crate::settings::{Id, Section};
use packed::{Packed, Packer, Unpacked};

/// The largest unit file, in bytes; of a larger one nothing is used.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// The longest line, in bytes, with its continuations (systemd.syntax(7): 1 MB).
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// A parsed unit file or drop-in: frozen, small, shared. Written down, it is for the same version of
/// the settings table only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitFile {
    path: Arc<str>,
    /// See [`packed`]: 40,000 files have some 300,000 assignments.
    assignments: Box<str>,
    is_empty: bool,
    is_broken: bool,
}

/// An assignment as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Which setting.
    pub setting: Id,
    /// Its value, trimmed.
    pub value: &'a str,
    /// The file it stands in.
    pub file: &'a UnitFile,
    /// Line, from 1.
    pub line: u32,
    /// Column of the value in bytes, from 1.
    pub column: u16,
}

impl UnitFile {
    /// Where it was read from.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Whether the file has no byte at all, which masks a unit.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Whether systemd would refuse the whole file: a broken section header, bytes that are not
    /// UTF-8 outside of comments, or a size beyond the bound. Nothing of a unit's file is used then; of a
    /// drop-in what comes before that, as with systemd 252.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Every assignment in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        Unpacked::of(&self.assignments).map(|a| Entry {
            setting: a.setting,
            value: a.value,
            file: self,
            line: a.line,
            column: a.column,
        })
    }

    /// Bytes that the file keeps on the heap, its path aside.
    pub fn heap_bytes(&self) -> usize {
        self.assignments.len()
    }

    /// The assignments as text, one a line, in an order and form that parses to the same.
    pub fn print(&self, unit_type: UnitType) -> String {
        let mut out = String::with_capacity(self.assignments.len() * 2);
        let mut section = None;
        for entry in self.entries() {
            let here = entry.section(unit_type);
            if section != Some(here) {
                out.push_str(if section.is_some() { "\n[" } else { "[" });
                out.push_str(here.name());
                out.push_str("]\n");
                section = Some(here);
            }
            out.push_str(entry.setting.setting().name);
            out.push('=');
            out.push_str(entry.value);
            // A space keeps a backslash at the end from joining the next line.
            out.push_str(if entry.value.ends_with('\\') { " \n" } else { "\n" });
        }
        out
    }
}

impl Entry<'_> {
    /// The section in which a unit of this type writes it.
    fn section(&self, unit_type: UnitType) -> Section {
        use crate::settings::Group;
        match self.setting.setting().group {
            Group::Warren => Section::Warren,
            Group::Unit => Section::Unit,
            Group::Install => Section::Install,
            Group::Manager => Section::Manager,
            _ => Section::Type(unit_type),
        }
    }

    /// A diagnostic at the value, or at an offset in it.
    pub fn diagnostic(
        &self,
        severity: Severity,
        code: Code,
        offset: usize,
        message: String,
    ) -> Diagnostic {
        let offset = u32::try_from(offset).unwrap_or(0);
        Diagnostic {
            path: self.file.path.clone(),
            line: self.line,
            column: u32::from(self.column).saturating_add(offset),
            severity,
            code,
            message,
        }
    }
}

/// Parses a unit file or drop-in of a unit of this type. Never fails: what cannot be used is
/// left out and reported.
pub fn parse(path: Arc<str>, bytes: &[u8], unit_type: UnitType) -> (UnitFile, Vec<Diagnostic>) {
    parse_as(path, bytes, What::Unit(unit_type))
}

/// The same for the manager's own file or a drop-in of it (systemd-system.conf(5)).
pub fn parse_manager(path: Arc<str>, bytes: &[u8]) -> (UnitFile, Vec<Diagnostic>) {
    parse_as(path, bytes, What::Manager)
}

/// A unit file or drop-in that is there and of which nothing is used for a reason outside of it: broken,
/// and not empty, which would mask the unit.
pub fn refused(path: Arc<str>, code: Code, message: String) -> (UnitFile, Vec<Diagnostic>) {
    let severity = Severity::Error;
    let diagnostic = Diagnostic { path: path.clone(), line: 0, column: 0, severity, code, message };
    let file = UnitFile { path, assignments: Box::default(), is_empty: false, is_broken: true };
    (file, vec![diagnostic])
}

fn parse_as(path: Arc<str>, bytes: &[u8], what: What) -> (UnitFile, Vec<Diagnostic>) {
    let mut scanner = Scanner {
        path,
        what,
        place: Place::Outside,
        assignments: Packer::default(),
        sink: Sink::default(),
        broken: false,
    };
    scanner.file(bytes);
    let Scanner { path, assignments, sink, broken, .. } = scanner;
    let file = UnitFile {
        path,
        assignments: assignments.finish(),
        is_empty: bytes.is_empty(),
        is_broken: broken,
    };
    (file, sink.finish())
}

/// Where the scanner is.
#[derive(Clone, Copy)]
enum Place {
    Outside,
    Known(Section),
    Ignored,
}

/// What a file is of; sections depend on it.
#[derive(Clone, Copy)]
enum What {
    Unit(UnitType),
    Manager,
}

impl What {
    fn section(self, name: &str) -> Option<Section> {
        match self {
            What::Unit(unit_type) => Section::find(name, unit_type),
            What::Manager => (name == Section::Manager.name()).then_some(Section::Manager),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Unit(unit_type) => write!(f, "a {unit_type} unit"),
            What::Manager => f.write_str("the manager's file"),
        }
    }
}

struct Scanner {
    path: Arc<str>,
    what: What,
    place: Place,
    assignments: Packer,
    sink: Sink,
    broken: bool,
}

/// Splits off one physical line. LF, CR, CR LF and NUL end lines, as they do for systemd.
fn split_line(text: &str) -> (&str, &str, bool) {
    match memchr::memchr3(b'\n', b'\r', b'\0', text.as_bytes()) {
        None => (text, "", false),
        Some(at) => {
            let (line, rest) = text.split_at(at);
            let nul = rest.starts_with('\0');
            (line, rest.strip_prefix("\r\n").unwrap_or(&rest[1..]), nul)
        }
    }
}

impl Scanner {
    fn file(&mut self, bytes: &[u8]) {
        if bytes.len() > FILE_BYTES_MAX {
            let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
            return self.refuse(0, 0, Code::FileTooLarge, message);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => self.lines(text.strip_prefix('\u{feff}').unwrap_or(text)),
            Err(_) => match without_bytes_in_comments(bytes) {
                Ok(text) => self.lines(text.strip_prefix('\u{feff}').unwrap_or(&text)),
                Err((before, line)) => {
                    // Of a drop-in what comes before counts, as with systemd 252.
                    self.lines(before.strip_prefix('\u{feff}').unwrap_or(&before));
                    self.refuse(line, 0, Code::NotUtf8, "the line is not UTF-8".to_owned());
                }
            },
        }
    }

    fn lines(&mut self, text: &str) {
        // Most of a file is values; its comments are the slack.
        self.assignments.reserve(text.len() / 2);
        let mut rest = text;
        let mut number = 0u32;
        while !rest.is_empty() && !self.broken {
            let (line, after, nul) = split_line(rest);
            rest = after;
            number += 1;
            if nul {
                self.warn(
                    number,
                    0,
                    Code::NulByte,
                    "the line has a NUL byte; what follows it is ignored".to_owned(),
                );
            }
            let line = line.trim_start_matches([' ', '\t']);
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            match before_continuation(line) {
                None => self.line(number, line),
                Some(first) => {
                    let (joined, after, more) = join(first, rest);
                    rest = after;
                    self.line(number, &joined);
                    number += more;
                }
            }
        }
    }

    fn line(&mut self, number: u32, line: &str) {
        if line.len() > LINE_BYTES_MAX {
            let message = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            return self.refuse(number, 0, Code::LineTooLong, message);
        }
        let line = line.trim_matches([' ', '\t']);
        match line.strip_prefix('[') {
            Some(header) => self.header(number, line, header),
            None => self.assignment(number, line),
        }
    }

    fn header(&mut self, number: u32, line: &str, header: &str) {
        let Some(name) = header.strip_suffix(']') else {
            let message = format!("invalid section header '{line}'");
            return self.refuse(number, 1, Code::BadSectionHeader, message);
        };
        self.place = match self.what.section(name) {
            Some(section) => Place::Known(section),
            None => Place::Ignored,
        };
        if matches!(self.place, Place::Ignored) && !name.starts_with("X-") {
            let message = format!("{} has no section [{name}]", self.what);
            self.warn(number, 1, Code::UnknownSection, message);
        }
    }

    fn assignment(&mut self, number: u32, line: &str) {
        let section = match self.place {
            Place::Known(section) => section,
            Place::Ignored => return,
            Place::Outside => {
                let message = "this assignment stands before the first section".to_owned();
                return self.warn(number, 1, Code::OutsideSection, message);
            }
        };
        let Some(equals) = memchr::memchr(b'=', line.as_bytes()).filter(|&at| at > 0) else {
            return self.warn(
                number,
                1,
                Code::MissingEquals,
                "this line is not an assignment, Name=value".to_owned(),
            );
        };
        let key = line[..equals].trim_end_matches([' ', '\t']);
        let value = line[equals + 1..].trim_start_matches([' ', '\t']);
        let column = line.len() - value.len() + 1;
        if let Some(setting) = section.setting(key) {
            self.keep(setting, number, column, value);
        } else if !key.starts_with("X-") {
            let message = format!("[{}] has no setting {key}=", section.name());
            self.warn(number, 1, Code::UnknownSetting, message);
        }
    }

    fn keep(&mut self, setting: Id, line: u32, column: usize, value: &str) {
        let column = u16::try_from(column).unwrap_or(0);
        self.assignments.push(&Packed { setting, line, column, value });
    }

    fn warn(&mut self, line: u32, column: u32, code: Code, message: String) {
        self.report(line, column, Severity::Warning, code, message);
    }

    fn refuse(&mut self, line: u32, column: u32, code: Code, message: String) {
        self.broken = true;
        self.report(line, column, Severity::Error, code, message);
    }

    fn report(&mut self, line: u32, column: u32, severity: Severity, code: Code, message: String) {
        let path = self.path.clone();
        self.sink.push(Diagnostic { path, line, column, severity, code, message });
    }
}

/// The line without the backslash that joins the next one to it. Of two the first one escapes the
/// second, so only an odd number of them at the end does.
fn before_continuation(line: &str) -> Option<&str> {
    let backslashes = line.bytes().rev().take_while(|&byte| byte == b'\\').count();
    line.strip_suffix('\\').filter(|_| backslashes % 2 == 1)
}

/// Whether it is a comment, which no backslash continues.
fn is_comment(line: &[u8]) -> bool {
    let start = line.iter().find(|byte| !b" \t".contains(byte));
    start.is_some_and(|byte| b"#;".contains(byte))
}

/// The text of a file that is not UTF-8, if only its comments are not; else what comes before the first other
/// line that is not, and the number of that.
fn without_bytes_in_comments(bytes: &[u8]) -> Result<String, (String, u32)> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let end = memchr::memchr3(b'\n', b'\r', b'\0', rest).unwrap_or(rest.len());
        let line_end = match &rest[end..] {
            [b'\r', b'\n', ..] => 2,
            [] => 0,
            _ => 1,
        };
        let (whole, after) = rest.split_at(end + line_end);
        match std::str::from_utf8(whole) {
            Ok(line) => text.push_str(line),
            Err(_) if is_comment(whole) => text.push_str(&String::from_utf8_lossy(whole)),
            Err(_) => {
                text.truncate(without_begun_line(&text).len());
                return Err((text, number));
            }
        }
        rest = after;
    }
    Ok(text)
}

/// Whole lines, without those at the end that go on in the next.
fn without_begun_line(text: &str) -> &str {
    let mut whole = text;
    while let Some(lines) = whole.strip_suffix('\n') {
        let start = lines.rfind('\n').map_or(0, |at| at + 1);
        if before_continuation(&lines[start..]).is_none() {
            break;
        }
        whole = &lines[..start];
    }
    whole
}

/// Joins continuation lines: each backslash becomes a space, comment lines in between go away.
/// Returns the logical line, what follows it, and how many physical lines were taken.
fn join<'a>(first: &str, rest: &'a str) -> (String, &'a str, u32) {
    let mut out = String::from(first);
    let mut rest = rest;
    let mut taken = 0;
    while !rest.is_empty() {
        let (line, after, _) = split_line(rest);
        rest = after;
        taken += 1;
        if line.trim_start_matches([' ', '\t']).starts_with(['#', ';']) {
            continue;
        }
        if out.len() <= LINE_BYTES_MAX {
            out.push(' ');
            out.push_str(before_continuation(line).unwrap_or(line));
        }
        if before_continuation(line).is_none() {
            break;
        }
    }
    (out, rest, taken)
}

#[cfg(test)]
mod tests;
