//! The machine and the boot that entries are of, as the running system names them.
//! What must not be here: an answer for another root than the running system's.
//! Reads three small files of /etc and /proc; runs on the caller's thread.

use crate::entry::Id128;

/// What all entries have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// /etc/machine-id; zero without one.
    pub machine: Id128,
    /// Of this boot.
    pub boot: Id128,
    name: String,
}

impl Host {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks the running system.
    pub fn read() -> Host {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let id = |path: &str| Id128::parse(text(path).trim()).unwrap_or_default();
        Host {
            machine: id("/etc/machine-id"),
            boot: id("/proc/sys/kernel/random/boot_id"),
            name: text("/proc/sys/kernel/hostname").trim().to_owned(),
        }
    }
}
