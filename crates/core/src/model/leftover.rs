//! What a run of a unit leaves in the file system and must be removed.

use std::path::Path;

/// One thing that is to be removed; nothing is amiss if it is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trace {
    /// A file.
    File(String),
    /// A link, if it is one.
    Link(String),
    /// A directory with all that is in it.
    Directory(String),
    /// A terminal that belongs to a user: it goes back to root.
    Terminal(String),
}

impl Trace {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Trace::File(path)
            | Trace::Link(path)
            | Trace::Directory(path)
            | Trace::Terminal(path) => Path::new(path),
        }
    }
}
