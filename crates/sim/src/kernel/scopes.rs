//! Processes of other programs, which scopes take in.

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::Done;

use super::{Happening, Kernel, MS, SIGTERM};
use crate::program::Step;

impl Kernel {
    /// Another program starts a process that is to be in a scope.
    pub fn start_outside(&mut self, steps: Vec<Step>) -> u32 {
        self.last_pid += 1;
        self.outside.insert(self.last_pid, steps);
        self.last_pid
    }

    /// Moves those processes that are still there into the group of a scope.
    pub(super) fn attach(&mut self, id: EffectId, unit: UnitId, pids: &[u32]) {
        let mut count = 0;
        for pid in pids {
            // A manager that was killed may have moved it already.
            if self.processes.get(pid).is_some_and(|process| process.unit == unit) {
                count += 1;
            }
            let Some(steps) = self.outside.remove(pid) else { continue };
            if self.random.chance(self.faults.cgroup) {
                continue;
            }
            count += 1;
            self.begin_process(*pid, unit, steps);
        }
        let done = match count {
            0 => Done::Failed { error: "none of its processes exists any more".to_owned() },
            _ => Done::Ok,
        };
        self.answer(id, done);
        if self.members(unit).is_empty() {
            self.later(MS, Happening::LookAtGroup(unit));
        }
    }

    /// The controller of a scope is asked to end it: it does, or it does not listen.
    pub fn ask_controller(&mut self, unit: UnitId) {
        if self.random.chance(300) {
            return;
        }
        for pid in self.members(unit) {
            self.signal(pid, SIGTERM);
        }
    }
}
