//! Faults in unit files, with the place where they are.
//!
//! A diagnostic is data: it is collected, never printed here. Its [`Code`] is stable and may be
//! relied upon by scripts; its message is for people.

use std::fmt;
use std::sync::Arc;

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is lost.
    Note,
    /// An assignment or a line was ignored, or is not applied.
    Warning,
    /// The unit cannot be loaded, or loses something it was meant to be protected by.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

macro_rules! codes {
    ($( $(#[$doc:meta])* $name:ident = $text:literal, )*) => {
        /// What kind of fault it is. Codes are only ever added.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code { $( $(#[$doc])* $name, )* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$( Code::$name, )*];

            /// The stable name, as machine-readable output shows it.
            pub const fn as_str(self) -> &'static str {
                match self { $( Code::$name => $text, )* }
            }
        }
    };
}

codes! {
    /// The file, or all files together, are larger than the bound; nothing of it is used.
    FileTooLarge = "file-too-large",
    /// A line is longer than the bound. Nothing of a unit's file is used; of a drop-in what comes before.
    LineTooLong = "line-too-long",
    /// More diagnostics than the bound; the rest is not listed.
    TooManyDiagnostics = "too-many-diagnostics",
    /// Bytes that are not UTF-8 outside of comments. Nothing of a unit's file is used; of a drop-in what comes before.
    NotUtf8 = "not-utf8",
    /// A NUL byte; it ends the line.
    NulByte = "nul-byte",
    /// A section header without its closing bracket.
    BadSectionHeader = "bad-section-header",
    /// A line that is neither header, comment nor assignment.
    MissingEquals = "missing-equals",
    /// An assignment before the first section header.
    OutsideSection = "outside-section",
    /// A section that units of this type do not have.
    UnknownSection = "unknown-section",
    /// A setting that this section does not have.
    UnknownSetting = "unknown-setting",
    /// A setting that is known but that this version does not act on.
    NotActedOn = "not-acted-on",
    /// A setting that protects the host and is not applied.
    SandboxNotApplied = "sandbox-not-applied",
    /// A setting that has been replaced or has no effect any more.
    Obsolete = "obsolete",
    /// A value that its setting cannot have.
    BadValue = "bad-value",
    /// A `%` sequence that is not known.
    UnknownSpecifier = "unknown-specifier",
    /// A name that is no unit name.
    BadUnitName = "bad-unit-name",
    /// A unit that depends on itself.
    SelfDependency = "self-dependency",
    /// A unit without what its type needs.
    MissingSetting = "missing-setting",
    /// A setting with more values than the bound.
    TooManyValues = "too-many-values",
    /// A link in a search directory that is no valid alias.
    BadAlias = "bad-alias",
    /// A fault in the rules that make units; `warren fleet check` shows its lines.
    Rule = "rule",
    /// A unit made by rules that hides a file, or is hidden by one.
    HiddenFile = "hidden-file",
    /// A file that is there and cannot be read; nothing of it is used.
    Unreadable = "unreadable",
}

/// One fault at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file; the unit's name where there is none.
    pub path: Arc<str>,
    /// Line, from 1; 0 if the fault belongs to no line.
    pub line: u32,
    /// Column in bytes, from 1; 0 if the fault belongs to the whole line.
    pub column: u32,
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub code: Code,
    /// What it is, for people.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.path)?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        if self.column > 0 {
            write!(f, "{}:", self.column)?;
        }
        write!(f, " {}: {} [{}]", self.severity, self.message, self.code.as_str())
    }
}

/// How many diagnostics one file or unit can have.
pub const DIAGNOSTICS_MAX: usize = 256;

/// Collects diagnostics, up to [`DIAGNOSTICS_MAX`].
#[derive(Debug, Default)]
pub struct Sink {
    list: Vec<Diagnostic>,
}

impl Sink {
    /// Adds one; the last that fits says that there were more.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        match self.list.len() {
            n if n + 1 < DIAGNOSTICS_MAX => self.list.push(diagnostic),
            n if n < DIAGNOSTICS_MAX => self.list.push(Diagnostic {
                code: Code::TooManyDiagnostics,
                message: "more faults are not listed".to_owned(),
                ..diagnostic
            }),
            _ => {}
        }
    }

    /// What was collected, in order.
    pub fn finish(self) -> Vec<Diagnostic> {
        self.list
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
