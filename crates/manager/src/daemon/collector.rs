//! Units that may be forgotten, and those that are just being forgotten.

use crate::base::patience::Patient;
use std::collections::BTreeSet;
use warren_core::model::ids::UnitId;
use warren_core::model::time::Monotonic;
use warren_unit::UnitName;

/// What is known of units that may be forgotten.
#[derive(Default)]
pub struct Collector {
    /// Seen at rest since the last collection.
    pub(super) idle: BTreeSet<UnitId>,
    /// At rest for some time.
    pub(super) rested: BTreeSet<UnitId>,
    /// Given to the loader to be forgotten.
    pub(super) leaving: BTreeSet<UnitId>,
    /// Those of them whose mounts came back.
    pub(super) mounted: BTreeSet<UnitName>,
    /// Clients on the bus refer to them.
    pub(super) referred: BTreeSet<UnitId>,
    pub(super) due: Option<Monotonic>,
}

impl Collector {
    /// Whether the unit is about to be forgotten.
    pub fn is_leaving(&self, unit: UnitId) -> bool {
        self.leaving.contains(&unit)
    }

    /// Whether this is to be told later, as the unit is about to be forgotten.
    pub(crate) fn holds_mounted(&mut self, unit: UnitId, name: &UnitName) -> bool {
        self.is_leaving(unit) && {
            self.mounted.insert(name.clone());
            true
        }
    }
}

impl Patient for Collector {
    // When `Daemon::collect` is due.
    fn deadline(&self) -> Option<Monotonic> {
        self.due
    }
}
