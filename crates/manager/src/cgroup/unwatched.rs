//! When to look at groups that cannot be watched: the kernel reports nothing about them, so they are looked at
//! when a process has ended, and every few seconds.

use crate::base::patience::Patient;
use crate::cgroup::tree::{Groups, News};
use std::time::Duration;
use warren_core::model::time::Monotonic;

/// How often they are looked at while no process is reported as ended, as one of a debugger or of another namespace.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// How far looks are apart at least, however many processes end.
const REST: Duration = Duration::from_millis(100);

/// When groups that cannot be watched are looked at.
#[derive(Default)]
pub(crate) struct UnwatchedGroups {
    next: Option<Monotonic>,
    last: Option<Monotonic>,
    /// Whether a process was killed since.
    was_killed: bool,
}

impl UnwatchedGroups {
    /// Processes have ended, of which one may be the last of its group; `killed` says that some were killed.
    pub(crate) fn processes_ended(&mut self, groups: &Groups, killed: bool, moment: Monotonic) {
        self.was_killed |= killed;
        if groups.has_unwatched(self.was_killed) {
            let rested = self.last.map_or(moment, |at| at.after(REST).max(moment));
            self.next = Some(self.next.map_or(rested, |next| next.min(rested)));
        }
    }

    /// A group may just have been found that cannot be watched.
    pub(crate) fn group_found(&mut self, groups: &Groups, moment: Monotonic) {
        if groups.has_unwatched(false) {
            self.next.get_or_insert_with(|| moment.after(LOOK_EVERY));
        }
    }

    /// Looks at them if it is time; what is new there.
    pub(crate) fn look(&mut self, groups: &mut Groups, moment: Monotonic) -> Option<News> {
        let killed = self.was_killed;
        if !groups.has_unwatched(killed) {
            (self.next, self.was_killed) = (None, false);
            return None;
        }
        let later = moment.after(LOOK_EVERY);
        if *self.next.get_or_insert(later) > moment {
            return None;
        }
        (self.next, self.last, self.was_killed) = (Some(later), Some(moment), false);
        Some(groups.look_at_unwatched(killed))
    }
}

impl Patient for UnwatchedGroups {
    // When they are looked at next.
    fn deadline(&self) -> Option<Monotonic> {
        self.next
    }
}
