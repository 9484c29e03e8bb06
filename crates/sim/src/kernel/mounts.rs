//! What is mounted, and what swaps are used.

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::Done;

use super::{Happening, Kernel, SIGKILL, SIGTERM};

/// What is done to a mount or a swap area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Mount,
    Remount,
    Unmount,
}

/// Such work that does not come back by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hanging {
    unit: UnitId,
    work: Work,
    /// Only SIGKILL ends it.
    deaf: bool,
    /// It has done its work before it ended.
    comes_to_it: bool,
}

impl Kernel {
    /// Whether a mount, a remount or an unmount hangs; some of them do what they were to do at the last
    /// moment. A remount that hangs may be of what is gone by then: the file system went with its server.
    fn hangs(&mut self, id: EffectId, unit: UnitId, work: Work) -> bool {
        let hangs = self.faults.hang > 0 && self.random.chance(self.faults.hang);
        if hangs {
            let (deaf, comes_to_it) = (self.random.chance(300), self.random.chance(200));
            self.hanging.insert(id, Hanging { unit, work, deaf, comes_to_it });
        }
        hangs
    }

    /// Processes of a unit that hang get a signal.
    pub(super) fn end_hanging(&mut self, unit: UnitId, signal: i32) {
        let ends = |hanging: &Hanging| signal == SIGKILL || signal == SIGTERM && !hanging.deaf;
        let own = self.hanging.iter().filter(|(_, hanging)| hanging.unit == unit);
        let own: Vec<(EffectId, Hanging)> = own.map(|(id, hanging)| (*id, *hanging)).collect();
        for (id, hanging) in own {
            let Hanging { work, comes_to_it, .. } = hanging;
            if work == Work::Remount && comes_to_it {
                self.mount_by_hand(unit, false);
            }
            if !ends(&hanging) {
                continue;
            }
            self.hanging.remove(&id);
            if work == Work::Remount || !comes_to_it {
                self.answer(id, Done::Failed { error: format!("killed by signal {signal}") });
                continue;
            }
            self.mount_by_hand(unit, work == Work::Mount);
            self.answer(id, Done::Ok);
        }
    }

    pub(super) fn mount(&mut self, id: EffectId, unit: UnitId, remount: bool) {
        if self.hangs(id, unit, if remount { Work::Remount } else { Work::Mount }) {
            return;
        }
        let mut done = self.works(self.faults.mount);
        if remount && !self.mounts.contains(&unit) {
            done = Done::Failed { error: "it is not mounted".to_owned() };
        }
        if done == Done::Ok && !remount {
            self.mounts.insert(unit);
            self.table_changed(unit);
        }
        self.answer(id, done);
    }

    pub(super) fn unmount(&mut self, id: EffectId, unit: UnitId) {
        if self.is_busy(unit) {
            return self.answer(id, Done::Failed { error: "it is always busy".to_owned() });
        }
        if self.hangs(id, unit, Work::Unmount) {
            return;
        }
        let done = self.works(self.faults.unmount);
        if done == Done::Ok && self.mounts.remove(&unit) {
            self.table_changed(unit);
        }
        self.answer(id, done);
    }

    fn is_busy(&mut self, unit: UnitId) -> bool {
        if self.faults.busy == 0 {
            return false;
        }
        let is_busy = self.random.chance(self.faults.busy);
        *self.busy.entry(unit).or_insert(is_busy) && self.mounts.contains(&unit)
    }

    /// Somebody else mounts at a unit's path, or unmounts what is there.
    pub fn mount_by_hand(&mut self, unit: UnitId, on: bool) {
        let changed = if on { self.mounts.insert(unit) } else { self.mounts.remove(&unit) };
        if changed {
            self.table_changed(unit);
        }
    }

    /// The manager reads the table some time after it has changed.
    fn table_changed(&mut self, unit: UnitId) {
        let delay = self.moment();
        self.later(delay, Happening::LookAtMount(unit));
    }
}
