//! The answer of `Devices`.
//!
//! - Owns: devices, their groups, and what waits for them.
//! - Must not: say what is on a device but in words for people.
//! - Runs on the thread of its caller.

use super::ActiveState;

answers! {
    /// Answers `Devices`.
    pub struct DevicesAnswer {
        /// warren-deviced runs. If not, all devices are assumed to be present.
        pub seeing: bool,
        /// All devices.
        pub devices: Vec<DeviceRow>,
        /// Volume groups, arrays and file systems of several devices.
        pub groups: Vec<DeviceGroup>,
        /// Devices that are waited for.
        pub waiting: Vec<DeviceWait>,
    }

    /// A device.
    pub struct DeviceRow {
        /// Its place in sysfs.
        pub path: String,
        /// Its node, links and aliases.
        pub names: Vec<String>,
        /// It counts as present.
        pub ready: bool,
        /// What is on it, for people.
        pub note: String,
        /// Its size in bytes; 0 where it is not known.
        pub size: u64,
        /// The group that it is a part of.
        pub part_of: Option<String>,
        /// The group that it is made from.
        pub made_of: Option<String>,
        /// Units that need it.
        pub users: Vec<DeviceUser>,
    }

    /// A unit that needs a device.
    pub struct DeviceUser {
        /// Its name.
        pub name: String,
        /// Its state.
        pub active: ActiveState,
        /// It has a job that waits.
        pub waits: bool,
    }

    /// A group of devices.
    pub struct DeviceGroup {
        /// Its kind and identifier.
        pub id: String,
        /// What people call it.
        pub name: String,
        /// It is started, or needs no start.
        pub up: bool,
        /// How it stands, for people.
        pub state: String,
    }

    /// A device that is waited for.
    pub struct DeviceWait {
        /// Its unit.
        pub unit: String,
        /// Why it is not there, for people.
        pub why: Option<String>,
        /// Units that need it.
        pub users: Vec<DeviceUser>,
    }
}
