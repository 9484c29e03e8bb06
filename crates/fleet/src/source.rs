//! Files and places in them.
//!
//! A place is a file number and a range of bytes; lines and columns are worked out only when
//! somebody reads them.

use std::sync::Arc;

/// Which file of a run; numbers are given in the order in which files are parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A range of bytes in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From the start of this one to the end of the other.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}

/// A range of bytes in a file of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file.
    pub file: FileId,
    /// The range.
    pub span: Span,
}

impl Place {
    /// In no file: what no statement of a configuration is the reason for.
    pub const NOWHERE: Place = Place { file: FileId(u32::MAX), span: Span { start: 0, end: 0 } };
}

/// A file's name and contents.
#[derive(Clone, Debug)]
pub struct Source {
    /// What messages call it.
    pub path: Arc<str>,
    /// Its bytes; any bytes are allowed in strings and comments.
    pub text: Arc<[u8]>,
    /// Where each line starts.
    lines: Arc<[u32]>,
}

/// The largest file, in bytes: offsets and a margin fit 32 bits.
pub const FILE_BYTES_MAX: usize = 256 << 20;

impl Source {
    /// A file; what is beyond [`FILE_BYTES_MAX`] is cut off (the parser reports it).
    pub fn new(path: &str, text: &[u8]) -> Source {
        let text = &text[..text.len().min(FILE_BYTES_MAX)];
        let breaks = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1));
        Source { path: path.into(), text: text.into(), lines: starts.collect() }
    }

    /// Line and column of a byte, both from 1; columns count bytes.
    pub fn line_column(&self, at: u32) -> (u32, u32) {
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        (line as u32, at.saturating_sub(start) + 1)
    }

    /// First line and column of a range, and the last of both, as the installed Icinga 2 counts
    /// them: columns from 1, but from 0 in the first line of a file.
    pub fn extent(&self, span: Span) -> [u32; 4] {
        let [(line, column), (last_line, last_column)] = [span.start, span.end.saturating_sub(1)]
            .map(|at| {
                let (line, column) = self.line_column(at);
                (line, column - u32::from(line == 1))
            });
        [line, column, last_line, last_column]
    }

    /// The text of a line, from 1, without its end.
    pub fn line(&self, line: u32) -> &[u8] {
        let index = (line as usize).saturating_sub(1);
        let start = self.lines.get(index).copied().unwrap_or(self.text.len() as u32) as usize;
        let next = self.lines.get(index + 1).map_or(self.text.len(), |at| *at as usize - 1);
        self.text.get(start..next.max(start)).unwrap_or_default()
    }

    /// `path:line:column` of a byte.
    pub fn describe(&self, at: u32) -> String {
        let (line, column) = self.line_column(at);
        format!("{}:{line}:{column}", self.path)
    }
}
