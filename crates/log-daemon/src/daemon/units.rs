//! What the manager said of units, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::input::handover::UnitLog;

/// Most units that are known at a time.
const UNITS_MAX: usize = 1 << 16;

/// All units.
#[derive(Default)]
pub struct Units {
    known: BTreeMap<Vec<u8>, Arc<UnitLog>>,
    /// By the ids of their cgroups, which are never given out again: a unit that ran before is the
    /// one that its last processes belong to.
    by_cgroup: BTreeMap<u64, Arc<UnitLog>>,
    version: u64,
}

impl Units {
    /// Takes what is said of a unit, in place of what was said before.
    pub fn put(&mut self, unit: UnitLog) -> Arc<UnitLog> {
        if self.known.len() >= UNITS_MAX && !self.known.contains_key(unit.name.as_bytes()) {
            // Streams keep theirs; for the rest the defaults count.
            self.known.pop_first();
        }
        self.version += 1;
        let unit = Arc::new(unit);
        self.known.insert(unit.name.clone().into_bytes(), unit.clone());
        if let Some(id) = unit.cgroup_id {
            if self.by_cgroup.len() >= UNITS_MAX && !self.by_cgroup.contains_key(&id) {
                self.by_cgroup.pop_first();
            }
            self.by_cgroup.insert(id, unit.clone());
        }
        unit
    }

    /// Another number whenever something was said.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The unit that a cgroup is of.
    pub fn by_cgroup(&self, id: u64) -> Option<&Arc<UnitLog>> {
        self.by_cgroup.get(&id)
    }

    /// What is known of a unit.
    pub fn get(&self, name: &[u8]) -> Option<Arc<UnitLog>> {
        self.known.get(name).cloned()
    }
}
