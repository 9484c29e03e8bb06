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
}

impl Units {
    /// Takes what is said of a unit, in place of what was said before.
    pub fn put(&mut self, unit: UnitLog) -> Arc<UnitLog> {
        if self.known.len() >= UNITS_MAX && !self.known.contains_key(unit.name.as_bytes()) {
            // Streams keep theirs; for the rest the defaults count.
            self.known.pop_first();
        }
        let unit = Arc::new(unit);
        self.known.insert(unit.name.clone().into_bytes(), unit.clone());
        unit
    }

    /// What is known of a unit.
    pub fn get(&self, name: &[u8]) -> Option<Arc<UnitLog>> {
        self.known.get(name).cloned()
    }
}
