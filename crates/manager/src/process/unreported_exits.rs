//! Processes that are gone and whose exit was not reported: init may be about to write the record, or there will be
//! none, because the process was no child of init.

use crate::base::patience::Patient;
use std::collections::VecDeque;
use std::time::Duration;
use warren_core::model::ids::UnitId;
use warren_core::model::time::Monotonic;

/// A process that has been gone for so long has no record to come.
const UNREPORTED_AFTER: Duration = Duration::from_secs(2);

/// A process that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Absent {
    due: Monotonic,
    /// None for a tool of the manager's own.
    pub(crate) unit: Option<UnitId>,
    pub(crate) pid: u32,
}

/// All processes whose record is awaited, in the order in which they are due.
#[derive(Default)]
pub(crate) struct UnreportedExits(VecDeque<Absent>);

impl UnreportedExits {
    /// A process was seen to be gone, or could not be held: it counts as ended if no record comes.
    pub(crate) fn wait(&mut self, unit: Option<UnitId>, pid: u32, moment: Monotonic) {
        self.0.push_back(Absent { due: moment.after(UNREPORTED_AFTER), unit, pid });
    }

    /// The next process whose record is overdue.
    pub(crate) fn next_due(&mut self, moment: Monotonic) -> Option<Absent> {
        self.0.pop_front_if(|absent| absent.due <= moment)
    }
}

impl Patient for UnreportedExits {
    // When the next record is overdue.
    fn deadline(&self) -> Option<Monotonic> {
        self.0.front().map(|absent| absent.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_overdue_after_two_seconds() {
        let mut exits = UnreportedExits::default();
        let at = |seconds: u64| Monotonic(seconds * 1_000_000);
        exits.wait(None, 5, at(10));
        exits.wait(Some(UnitId(1)), 6, at(11));
        assert_eq!((exits.deadline(), exits.next_due(at(11))), (Some(at(12)), None));
        assert_eq!(exits.next_due(at(12)).map(|absent| absent.pid), Some(5));
        assert_eq!((exits.next_due(at(12)), exits.deadline()), (None, Some(at(13))));
    }
}
