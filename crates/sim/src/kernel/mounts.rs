//! What is mounted, and what swaps are used.

use std::collections::BTreeMap;

use warren_core::event::Done;
use warren_core::ids::{EffectId, UnitId};

use super::{Happening, Kernel, SIGKILL, SIGTERM};

/// A mount or an unmount that does not come back by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hanging {
    unit: UnitId,
    /// Only SIGKILL ends it.
    deaf: bool,
    /// What it did before it ended, if it comes to that: mount, unmount.
    mounts: Option<bool>,
}

impl Kernel {
    /// Whether a mount or an unmount hangs; some of them do what they were to do at the last moment.
    fn hangs(&mut self, id: EffectId, unit: UnitId, mounts: Option<bool>) -> bool {
        let hangs = self.faults.hang > 0 && self.random.chance(self.faults.hang);
        if hangs {
            let (deaf, comes_to_it) = (self.random.chance(300), self.random.chance(200));
            let mounts = mounts.filter(|_| comes_to_it);
            self.hanging.insert(id, Hanging { unit, deaf, mounts });
        }
        hangs
    }

    pub(super) fn end_hanging(&mut self, unit: UnitId, signal: i32) {
        let ends = |hanging: &Hanging| {
            hanging.unit == unit && (signal == SIGKILL || signal == SIGTERM && !hanging.deaf)
        };
        let all = std::mem::take(&mut self.hanging);
        let (ended, rest): (BTreeMap<_, _>, _) = all.into_iter().partition(|(_, one)| ends(one));
        self.hanging = rest;
        for (id, Hanging { mounts, .. }) in ended {
            let Some(on) = mounts else {
                self.answer(id, Done::Failed { error: format!("killed by signal {signal}") });
                continue;
            };
            self.mount_by_hand(unit, on);
            self.answer(id, Done::Ok);
        }
    }

    pub(super) fn mount(&mut self, id: EffectId, unit: UnitId, remount: bool) {
        if self.hangs(id, unit, (!remount).then_some(true)) {
            return;
        }
        let done = self.works(self.faults.mount);
        if done == Done::Ok && !remount {
            self.mounts.insert(unit);
            self.table_changed(unit);
        }
        self.answer(id, done);
    }

    pub(super) fn unmount(&mut self, id: EffectId, unit: UnitId) {
        if self.hangs(id, unit, Some(false)) {
            return;
        }
        let done = self.works(self.faults.unmount);
        if done == Done::Ok && self.mounts.remove(&unit) {
            self.table_changed(unit);
        }
        self.answer(id, done);
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
