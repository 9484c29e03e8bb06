//! \[Path\] (systemd.path(5)).

use super::TriggerLimit;

words! {
    /// What a path unit waits for at a path.
    PathKind {
        /// Something is there.
        Exists = "PathExists",
        /// Something matches the pattern.
        ExistsGlob = "PathExistsGlob",
        /// It was changed: a file that was open for writing was closed, an entry of a directory came or went.
        Changed = "PathChanged",
        /// It was changed or written to.
        Modified = "PathModified",
        /// The directory has an entry that is not hidden.
        DirectoryNotEmpty = "DirectoryNotEmpty",
    }
}

impl PathKind {
    /// It waits for a change rather than for how things are.
    pub fn is_of_change(self) -> bool {
        matches!(self, PathKind::Changed | PathKind::Modified)
    }
}

/// One path that is waited at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpec {
    /// For what.
    pub kind: PathKind,
    /// The path, absolute and simplified, or the pattern.
    pub path: Box<str>,
}

/// \[Path\]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// In the order of the files.
    pub paths: Vec<PathSpec>,
    /// MakeDirectory=: the directories to watch are made.
    pub make_directory: bool,
    /// DirectoryMode= of these.
    pub directory_mode: u32,
    /// TriggerLimitIntervalSec=, TriggerLimitBurst=
    pub trigger_limit: TriggerLimit,
}
