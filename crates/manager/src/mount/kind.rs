//! What kind of mount a unit is.

use warren_unit::{UnitName, UnitType};

/// Whether the unit is a swap area's.
pub fn is_swap(unit: &UnitName) -> bool {
    unit.unit_type() == UnitType::Swap
}
