//! File descriptors that services keep with the manager (`FDSTORE=1`, sd_notify(3)); init keeps
//! them too, so that they outlive the manager.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use warren_core::ids::UnitId;
use warren_core::settings::TypeSettings;

use crate::daemon::Daemon;
use crate::notify::Datagram;

/// All stored file descriptors.
#[derive(Default)]
pub struct FdStore {
    stored: BTreeMap<UnitId, Vec<Stored>>,
    next: u64,
}

struct Stored {
    name: String,
    key: u64,
    fd: OwnedFd,
}

/// The name under which init keeps one.
fn stored_name(unit: &str, key: u64, name: &str) -> String {
    format!("fdstore/{unit}/{key}/{name}")
}

impl FdStore {
    /// Takes up one that init kept; false if the name is not one of these.
    pub fn take_up(&mut self, unit: UnitId, rest: &str, fd: OwnedFd) -> bool {
        let Some((key, name)) = rest.split_once('/') else { return false };
        let Ok(key) = key.parse::<u64>() else { return false };
        self.next = self.next.max(key + 1);
        self.stored.entry(unit).or_default().push(Stored { name: name.to_owned(), key, fd });
        true
    }

    /// Whether the unit has any.
    pub fn has(&self, unit: UnitId) -> bool {
        self.stored.get(&unit).is_some_and(|stored| !stored.is_empty())
    }

    /// Duplicates for a new run of the unit, with their names.
    pub fn for_unit(&self, unit: UnitId) -> std::io::Result<Vec<(String, OwnedFd)>> {
        let stored = self.stored.get(&unit).into_iter().flatten();
        stored.map(|s| Ok((s.name.clone(), s.fd.try_clone()?))).collect()
    }
}

/// The unit and the rest of a name that init keeps a stored file descriptor under.
pub fn parse_stored_name(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("fdstore/")?.split_once('/')
}

impl Daemon {
    /// Stores or removes what a datagram says; returns how many were stored.
    pub(crate) fn store_fds(&mut self, unit: UnitId, datagram: &mut Datagram) -> u32 {
        if datagram.store.is_none() && datagram.unstore.is_none() {
            return 0;
        }
        let name = self.core.graph().name(unit).to_string();
        if let Some(wanted) = &datagram.unstore {
            let all = self.stored_fds.stored.entry(unit).or_default();
            for gone in all.extract_if(.., |s| s.name == *wanted) {
                let _ = self.init.drop_stored(&stored_name(&name, gone.key, &gone.name));
            }
        }
        let Some(fd_name) = &datagram.store else { return 0 };
        let definition = self.core.graph().definition(unit).clone();
        let max = match self.core.settings().compile(&definition).own {
            TypeSettings::Service(config) => config.fd_store_max as usize,
            _ => 0,
        };
        let mut stored = 0;
        for fd in datagram.fds.drain(..) {
            let all = self.stored_fds.stored.entry(unit).or_default();
            if all.len() >= max {
                break;
            }
            let key = self.stored_fds.next;
            self.stored_fds.next += 1;
            if self.init.store(&stored_name(&name, key, fd_name), fd.as_fd()).is_ok() {
                all.push(Stored { name: fd_name.clone(), key, fd });
                stored += 1;
            }
        }
        stored
    }

    /// The unit is down for good: what it stored goes.
    pub(crate) fn drop_stored_fds(&mut self, unit: UnitId) {
        let Some(all) = self.stored_fds.stored.remove(&unit) else { return };
        let name = self.core.graph().name(unit).to_string();
        for gone in all {
            let _ = self.init.drop_stored(&stored_name(&name, gone.key, &gone.name));
        }
    }
}
