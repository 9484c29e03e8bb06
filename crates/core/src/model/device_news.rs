//! What the device daemon reported of devices, as changes of units.

use crate::model::ids::UnitId;

/// What is known of devices at all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Sight {
    /// Nobody looks for devices: each is taken for plugged in. A mount of one fails by itself if it
    /// is not.
    #[default]
    Blind,
    /// Somebody does, or is about to.
    Seeing,
}

/// A report of the device daemon, as changes of units.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceNews {
    /// What is known at all, from now on.
    pub sight: Sight,
    /// Units whose device came, went or changed.
    pub changes: Vec<DeviceChange>,
}

/// News of one unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceChange {
    /// The device unit.
    pub unit: UnitId,
    /// It is there and ready.
    pub plugged: bool,
    /// The kernel reported a change while the device was there: units with `ReloadPropagatedFrom=` reload.
    pub changed: bool,
    /// Units that it wants when it comes (`SYSTEMD_WANTS=`).
    pub wants: Vec<UnitId>,
}
