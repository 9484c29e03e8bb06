//! Answers about files: of units, of rules, of recordings.
//!
//! - Owns: what `FileState`, `Cat`, `Verify`, `UnitFiles`, `ReloadConfiguration`, `Records` and `Record` answer.
//! - Must not: have a text of a file that its reader may not see.
//! - Runs on the thread of its caller.

use super::{Diagnostic, LoadState, RuleOrigin};

answers! {
    /// Answers `FileState`.
    pub struct FileStateAnswer {
        /// Whether the file is enabled, systemctl(1); null without a file.
        pub state: Option<String>,
    }

    /// Answers `Cat`.
    pub struct CatAnswer {
        /// The unit's file, then its drop-ins.
        pub files: Vec<CatFile>,
    }

    /// A unit file.
    pub struct CatFile {
        /// Where it is.
        pub path: String,
        /// What it says; bytes that are no UTF-8 are U+FFFD.
        pub text: String,
        /// The text is left out, as not every user may read the file.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub withheld: Option<bool>,
        /// The text is left out, as the file cannot be read: why.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub unread: Option<String>,
    }

    /// Answers `Verify`.
    pub struct VerifyAnswer {
        /// Whether the unit's files can be used.
        pub load: LoadState,
        /// All that is wrong with them.
        pub diagnostics: Vec<Diagnostic>,
    }

    /// Answers `UnitFiles`.
    pub struct UnitFilesAnswer {
        /// What was changed.
        pub changes: Vec<FileChange>,
        /// A file has something to enable.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub carries_install_info: Option<bool>,
        /// What was passed over, for people.
        pub remarks: Vec<String>,
    }

    /// A link or a file that was changed.
    pub struct FileChange {
        /// `symlink` or `unlink`.
        pub kind: String,
        /// Which.
        pub path: String,
        /// What a link leads to; empty otherwise.
        pub source: String,
    }

    /// Answers `ReloadConfiguration`.
    pub struct ReloadAnswer {
        /// Unit files of rules that differ, if they were asked for.
        pub texts: Vec<FileText>,
        /// Generation in force.
        pub generation: u64,
        /// Units that came.
        pub added: Vec<String>,
        /// Units that differ.
        pub changed: Vec<String>,
        /// Units that went.
        pub removed: Vec<String>,
        /// Units that run with settings of before.
        pub needs_restart: Vec<String>,
        /// Rules behind units that differ.
        pub made_by: Vec<RuleOrigin>,
        /// What is wrong with files that were read.
        pub diagnostics: Vec<Diagnostic>,
        /// Files that were looked at.
        pub files_looked_at: u64,
        /// Files that were read.
        pub files_parsed: u64,
        /// How long all of it took, in µs.
        pub took_us: u64,
        /// How long of that the manager's loop was held up, in µs.
        pub loop_us: u64,
    }

    /// Answers `Reloads`.
    pub struct ReloadsAnswer {
        /// Since when this manager's process has counted, in µs since 1970; it knows of no reload before.
        pub since_us: u64,
        /// Reloads that changed units, the newest first.
        pub reloads: Vec<PastReload>,
    }

    /// A reload that changed units.
    pub struct PastReload {
        /// When it came into force, in µs since 1970.
        pub at_us: u64,
        /// The generation that it put in force.
        pub generation: u64,
        /// Units that came.
        pub added: ChangedUnits,
        /// Units that differ.
        pub changed: ChangedUnits,
        /// Units that went.
        pub removed: ChangedUnits,
    }

    /// Units that a reload changed in one way.
    pub struct ChangedUnits {
        /// How many.
        pub total: u64,
        /// The first of them; the manager has a bound.
        pub names: Vec<String>,
    }

    /// A unit file of a rule.
    pub struct FileText {
        /// Its path below the directory of rules' files.
        pub path: String,
        /// What it said; null if it is new.
        pub before: Option<String>,
        /// What it says; null if it is gone.
        pub after: Option<String>,
    }

    /// Answers `Records`.
    pub struct RecordsAnswer {
        /// Recordings, the oldest first.
        pub records: Vec<RecordRow>,
        /// Why the last one could not be kept.
        pub trouble: Option<String>,
        /// What is being recorded.
        pub under_way: Option<RecordUnderWay>,
    }

    /// A recording.
    pub struct RecordRow {
        /// Its name.
        pub name: String,
        /// What it is of.
        pub subject: String,
        /// When it began, in µs since 1970.
        pub began_us: u64,
        /// Its size in bytes.
        pub bytes: u64,
    }

    /// A recording that goes on.
    pub struct RecordUnderWay {
        /// What it is of.
        pub subject: String,
        /// When it began, on the monotonic clock, in µs.
        pub since_us: u64,
    }

    /// Answers `Record`.
    pub struct RecordAnswer {
        /// The recording's bytes in base64.
        pub data: String,
    }
}
