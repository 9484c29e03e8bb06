//! What a transaction looks at.

use crate::features::{device_sight, remarks};
use crate::jobs::dependency_groups;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::JobKind;
use crate::parts::Core;
use crate::transaction::World;

impl World for Core {
    fn active_state(&self, unit: UnitId) -> ActiveState {
        self.units.active_state(unit)
    }

    fn installed(&self, unit: UnitId) -> Option<(JobKind, bool)> {
        self.units.run(unit).job.as_ref().map(|job| (job.kind, job.irreversible))
    }

    fn has_begun(&self, unit: UnitId) -> bool {
        self.units.run(unit).job.as_ref().is_some_and(|job| job.running)
    }

    fn busy_units(&self) -> Vec<UnitId> {
        self.units.busy()
    }

    fn can_reload(&self, unit: UnitId) -> bool {
        self.graph.can_reload(unit)
    }

    fn is_unseen(&self, unit: UnitId) -> bool {
        device_sight::is_unseen(self, unit)
    }

    fn is_put_aside(&self, unit: UnitId) -> bool {
        remarks::is_put_aside(&self.units, unit)
    }

    fn does_without(&self, unit: UnitId, other: UnitId) -> bool {
        dependency_groups::does_without(self, unit, other)
    }

    fn accepted_by(&self, unit: UnitId) -> Option<UnitId> {
        self.resources.connections.get(&unit).copied()
    }
}
