//! Whether devices are plugged in, as far as the device daemon has reported them.
//!
//! Must not: change the state of a device; that is in `types::device`.

use crate::model::device_news::Sight;
use crate::model::ids::UnitId;
use crate::parts::Core;
use crate::parts::units::Units;

/// Whether the unit is a device and no device daemon reports devices. Units that need or are bound to
/// one take it for plugged in.
pub(crate) fn is_unseen(core: &Core, unit: UnitId) -> bool {
    core.totals.sight == Sight::Blind
        && core.graph.is_device(unit)
        && !core.units.active_state(unit).is_up()
}

/// Whether a device was there and is not any more.
pub(crate) fn has_gone(units: &Units, unit: UnitId) -> bool {
    let history = units.run(unit).history.as_ref();
    history.is_some_and(|history| !history.active_exit.is_never())
}
