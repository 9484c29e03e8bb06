//! What the language may ask of the world, and who answers: not this crate.

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

/// Answers for one run. Methods that are not overridden know nothing.
pub trait Outside {
    /// The files that an `include` finds, in order.
    ///
    /// # Errors
    /// What to tell the user: there is no such file, or it cannot be read.
    fn include(&mut self, include: &Include) -> Result<Vec<Source>, String> {
        Err(format!("Include file '{}' does not exist", include.path))
    }

    /// Takes a line of `log()`.
    fn log(&mut self, _severity: u8, _facility: &str, _text: &[u8]) {}

    /// What time it is, in seconds since 1970; the same during a whole run.
    fn now(&self) -> f64 {
        0.0
    }

    /// A variable of the environment.
    fn variable(&self, _name: &str) -> Option<String> {
        None
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
