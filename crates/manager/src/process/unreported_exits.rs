//! Main processes whose end nobody has told of: init may be about to write the record, or there will be
//! none, because they were no children of init. And the ends of all in cgroups that cannot be watched, which
//! nobody tells of either: those are looked at when some process has ended, and every few seconds.

use crate::base::patience::Patient;
use std::collections::VecDeque;
use std::time::Duration;
use warren_core::model::ids::UnitId;
use warren_core::model::time::Monotonic;

/// A process that is gone for so long has no record to come.
pub(crate) const MISSING_AFTER: Duration = Duration::from_secs(2);

/// Groups that cannot be watched are looked at so often while nothing ends, as with a lost process of a
/// debugger or another namespace.
pub(crate) const LOOK_AT_GROUPS: Duration = Duration::from_secs(3);

/// And not more often than this, however many processes end.
pub(crate) const GROUPS_REST: Duration = Duration::from_millis(100);

pub(crate) const ESRCH: i32 = 3;

/// One of them.
pub(crate) struct Absent {
    pub(crate) told_at: Monotonic,
    /// Nothing for a tool of the manager's own.
    pub(crate) unit: Option<UnitId>,
    pub(crate) pid: u32,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Missing {
    /// The first first.
    pub(crate) processes: VecDeque<Absent>,
    /// When groups that cannot be watched are looked at next.
    pub(crate) groups_due: Option<Monotonic>,
    /// When they were last.
    pub(crate) groups_at: Option<Monotonic>,
    /// Whether a process was killed since.
    pub(crate) killed: bool,
}

impl Patient for Missing {
    // When the next is to be told of.
    fn deadline(&self) -> Option<Monotonic> {
        let process = self.processes.front().map(|absent| absent.told_at);
        process.into_iter().chain(self.groups_due).min()
    }
}
