//! What is counted of the log since this process began, for those who watch it from outside.
//!
//! Must not: be asked by anything that decides.

use std::collections::BTreeMap;

use warren_wire::control::LogCounts;

use crate::input::loss::Kind;

/// Counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Entries that the store took, and their bytes.
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// Entries that a rate limit left out.
    pub(super) suppressed: u64,
    /// What is not in the log, or not whole.
    pub(super) lost: BTreeMap<Kind, u64>,
    /// Entries for which neither disk nor memory had room.
    pub(super) unkept: u64,
}

impl super::Core {
    /// What is counted.
    pub fn counts(&self) -> LogCounts {
        let lost = self.tally.lost.iter();
        LogCounts {
            entries: self.tally.entries,
            bytes: self.tally.bytes,
            suppressed: self.tally.suppressed,
            lost: lost.map(|(kind, count)| (kind.word().to_owned(), *count)).collect(),
            unkept: self.tally.unkept,
            refuge: self.refuge.due_us().is_some(),
            trouble: self.trouble.clone(),
            ..LogCounts::default()
        }
    }
}
