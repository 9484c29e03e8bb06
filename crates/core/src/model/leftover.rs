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
    /// What earlier boots have left in this directory of copies of roots; it says its boot
    /// (`features::ephemeral_root`).
    OfEarlierBoots {
        /// The directory.
        directory: String,
        /// This boot.
        boot: Box<str>,
    },
    /// A terminal that is to be as it was.
    Terminal(TerminalLeft),
    /// Objects of interprocess communication of this user, by name or number.
    Ipc(String),
}

/// How a terminal is reset after its last use (systemd.exec(5), "TTYReset=" and the others of that group).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TerminalLeft {
    /// Its path.
    pub path: String,
    /// It belongs to a user, and goes back to root.
    pub is_given: bool,
    /// Who has it open is cut off.
    pub hangup: bool,
    /// Its modes become the usual ones.
    pub reset: bool,
    /// If it is a virtual console, it is given up with what is on its screen.
    pub disallocate: bool,
}

impl Trace {
    /// Where it is; objects of interprocess communication and what earlier boots left are nowhere that a start would
    /// meet.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Trace::File(path) | Trace::Link(path) | Trace::Directory(path) => Some(Path::new(path)),
            Trace::Terminal(terminal) => Some(Path::new(&terminal.path)),
            Trace::Ipc(_) | Trace::OfEarlierBoots { .. } => None,
        }
    }
}
