//! The part of the manager's state that is about other daemons.

use crate::peer::bus_names::BusNames;
use crate::peer::devices::Devices;
use crate::peer::log_link::LogLink;
use crate::peer::unit_log_file::UnitLogFiles;

/// The log daemon, the device daemon and the message bus.
pub(crate) struct Peers {
    pub(crate) log_link: LogLink,
    /// Where output of units goes while there is no log daemon.
    pub(crate) log_files: UnitLogFiles,
    pub(crate) devices: Devices,
    pub(crate) bus_names: BusNames,
}
