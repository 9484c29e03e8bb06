//! What path units watch.

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Event, PathLook};

use super::{Happening, Kernel, MS};

/// The paths of one path unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// Whether a manager watches them.
    pub is_watched: bool,
    /// What is waited for is there.
    pub is_met: bool,
    /// How often something was changed.
    pub changes: u64,
}

impl Watched {
    fn look(self, is_changed: bool) -> PathLook {
        PathLook { is_met: self.is_met, is_changed, print: self.changes + 1 }
    }
}

impl Kernel {
    /// Something is changed at the paths of a unit, or what it waits for comes or goes.
    pub fn touch(&mut self, unit: UnitId, is_met: Option<bool>) {
        let paths = self.paths.entry(unit).or_default();
        let is_changed = is_met.is_none();
        paths.changes += u64::from(is_changed);
        paths.is_met = is_met.unwrap_or(paths.is_met);
        if paths.is_watched {
            let look = paths.look(is_changed);
            self.later(MS, Happening::Tell(Event::PathTouched { unit, look }));
        }
    }

    pub(super) fn watch_paths(&mut self, id: EffectId, unit: UnitId) {
        if self.random.chance(self.faults.listen) {
            let error = "no watches left".to_owned();
            return self.answer(id, Done::Failed { error });
        }
        let paths = self.paths.entry(unit).or_default();
        paths.is_watched = true;
        let look = paths.look(false);
        self.answer(id, Done::Paths(look));
    }

    pub(super) fn look_at_paths(&mut self, id: EffectId, unit: UnitId) {
        let paths = self.paths.entry(unit).or_default();
        let look = PathLook { print: 0, ..paths.look(false) };
        self.answer(id, Done::Paths(look));
    }

    pub(super) fn unwatch_paths(&mut self, unit: UnitId) {
        if let Some(paths) = self.paths.get_mut(&unit) {
            paths.is_watched = false;
        }
    }
}
