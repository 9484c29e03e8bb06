//! What kind of mount a unit is.

use warren_sys::Error;
use warren_unit::{UnitName, UnitType};

/// Whether the unit is a swap area's.
pub fn is_swap(unit: &UnitName) -> bool {
    unit.unit_type() == UnitType::Swap
}

/// Why nothing can be mounted at a path, in words. Whoever may write in a directory on the way could have anything
/// mounted elsewhere by a link.
pub fn no_place(path: &str, error: &Error) -> String {
    match error.is_link() {
        true => format!("{path}: there is a symbolic link in the path"),
        false => format!("{path}: {}", error.message()),
    }
}
