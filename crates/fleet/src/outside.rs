//! What the language may ask of the world, and who answers: not this crate.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use crate::ast::IncludeKind;
use crate::source::Source;

/// What an `include` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    /// Which `include`.
    pub kind: IncludeKind,
    /// The file that has the `include`.
    pub from: String,
    /// The path or directory.
    pub path: String,
    /// The pattern of file names, for recursive includes.
    pub pattern: Option<String>,
}

/// What a file of data says.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named by the value")]
pub enum Data {
    Null,
    Boolean(bool),
    Number(f64),
    Text(String),
    List(Vec<Data>),
    /// Keys and values, each key once.
    Table(Vec<(String, Data)>),
}

/// Answers for one run. Methods that are not overridden know nothing.
pub trait Outside {
    /// The files that an `include` finds, in order.
    ///
    /// # Errors
    /// What to tell the user: there is no such file, or it cannot be read.
    fn include(&mut self, include: &Include) -> Result<Vec<Source>, String> {
        Err(format!("Include file '{}' does not exist", include.path))
    }

    /// What a file of data says: an inventory.
    ///
    /// # Errors
    /// What to tell the user: there is no such file, or it is wrong.
    fn data(&mut self, include: &Include) -> Result<Data, String> {
        Err(format!("the file '{}' does not exist", include.path))
    }

    /// Takes a line of `log()`.
    fn log(&mut self, _severity: u8, _facility: &str, _text: &[u8]) {}

    /// What time it is, in seconds since 1970; the same during a whole run.
    fn now(&self) -> f64 {
        0.0
    }
}

/// What a configuration may ask of the host: any thread asks, at the top level and while objects
/// are made. Methods that are not overridden know nothing.
pub trait Facts: Sync + fmt::Debug {
    /// A variable of the environment.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// Constants that say something of the host: `NodeName`.
    fn constants(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Whether a path exists.
    fn path_exists(&self, _path: &str) -> bool {
        false
    }

    /// The paths that a pattern matches, sorted: below a directory if one is given; files,
    /// directories or both.
    fn glob(
        &self,
        _pattern: &str,
        _below: Option<&str>,
        _files: bool,
        _directories: bool,
    ) -> Vec<String> {
        Vec::new()
    }
}

/// Knows nothing of a host.
#[derive(Clone, Copy, Debug)]
pub struct NoFacts;

impl Facts for NoFacts {}

/// A line of `log()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub severity: u8,
    pub facility: String,
    pub text: Vec<u8>,
}

/// Most bytes of lines that are kept for one worker.
const LINES_BYTES_MAX: usize = 64 << 20;

/// Lines that were logged where others work too: they are told later, in the order of the plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    lines: Rc<RefCell<Vec<Line>>>,
    bytes: Rc<Cell<usize>>,
}

impl Lines {
    pub(crate) fn take(&self) -> Vec<Line> {
        self.lines.take()
    }

    fn push(&self, line: Line) {
        let before = self.bytes.replace(self.bytes.get().saturating_add(line.text.len()));
        if self.bytes.get() <= LINES_BYTES_MAX {
            self.lines.borrow_mut().push(line);
        } else if before <= LINES_BYTES_MAX {
            let text = b"more lines are not shown".to_vec();
            self.lines.borrow_mut().push(Line { text, ..line });
        }
    }
}

/// For those who make objects: no files, and lines are kept.
#[derive(Debug)]
pub(crate) struct Aside {
    pub now: f64,
    pub lines: Lines,
}

impl Outside for Aside {
    fn log(&mut self, severity: u8, facility: &str, text: &[u8]) {
        self.lines.push(Line { severity, facility: facility.to_owned(), text: text.to_owned() });
    }

    fn now(&self) -> f64 {
        self.now
    }
}

/// Knows nothing but the time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing {
    /// Seconds since 1970.
    pub now: f64,
}

impl Outside for Nothing {
    fn now(&self) -> f64 {
        self.now
    }
}
