//! Names on the message bus that services of `Type=dbus` take.

use std::collections::BTreeMap;
use warren_bus::names::NameWatcher;
use warren_core::model::ids::UnitId;

/// The names that units wait for.
#[derive(Default)]
pub(crate) struct BusNames {
    /// The thread that watches names; none before the first service of `Type=dbus`.
    pub(crate) watcher: Option<NameWatcher>,
    /// Services of `Type=dbus` by the name that they are to take.
    pub(crate) units: BTreeMap<Box<str>, Vec<UnitId>>,
}
