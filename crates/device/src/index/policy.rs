//! What the administrator and lvm2's own configuration say about activation.

use std::collections::BTreeSet;

use crate::lvm::LvmId;
use crate::lvm::config::Settings;
use crate::uuid::Uuid;

/// Rules that do not change while the index lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// `event_activation` of lvm.conf(5); off: no volume group is activated.
    pub event_activation: bool,
    /// What must be there before a group starts.
    pub completeness: Completeness,
    /// How long after its first member a group that can run degraded is started so, in
    /// milliseconds; `None`: never.
    pub degraded_after_ms: Option<u64>,
    /// System ids of this host: groups that name another one are foreign.
    pub system_ids: BTreeSet<String>,
    /// PVIDs of lvm2's devices file; `None` when it is not used.
    pub devices_file: Option<BTreeSet<LvmId>>,
    /// Physical volumes on logical volumes count, too (`scan_lvs`).
    pub pvs_on_lvs: bool,
    /// A group with two disks of one PVID waits until one is gone. Off: it is started as lvm2
    /// does, which takes one of them, and the report says so.
    pub hold_duplicates: bool,
    /// Encrypted devices that crypttab(5) names and wants at boot.
    pub crypttab: Vec<CryptEntry>,
}

/// What must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// All members of the group, as lvm2 does.
    Group,
    /// The members that a volume lies on: it starts when it can.
    Volume,
}

/// A line of crypttab(5) whose device is given by its identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CryptEntry {
    /// Name of the opened volume.
    pub name: String,
    /// Identifier of the encrypted device.
    pub uuid: Uuid,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            event_activation: true,
            completeness: Completeness::Group,
            degraded_after_ms: None,
            system_ids: BTreeSet::new(),
            devices_file: None,
            pvs_on_lvs: false,
            hold_duplicates: false,
            crypttab: Vec::new(),
        }
    }
}

impl Policy {
    /// False when lvm2 keeps a list of devices that this physical volume is not on.
    pub fn allows(&self, pv: LvmId) -> bool {
        self.devices_file.as_ref().is_none_or(|listed| listed.contains(&pv))
    }

    /// Takes over what lvm2 says. `listed`: the PVIDs of its devices file, when it uses one.
    pub fn follow_lvm(&mut self, settings: &Settings, listed: Option<BTreeSet<LvmId>>) {
        self.event_activation = settings.event_activation;
        self.pvs_on_lvs = settings.scan_lvs;
        self.devices_file = listed;
    }

    /// The name under which crypttab opens a device.
    pub fn crypt_name(&self, uuid: Uuid) -> Option<&str> {
        self.crypttab.iter().find(|entry| entry.uuid == uuid).map(|entry| entry.name.as_str())
    }
}

/// Reads crypttab(5): `name device [key-file [options]]`. Lines with `noauto`, and devices that
/// are not given as `UUID=` or below `/dev/disk/by-uuid/`, are left out.
pub fn parse_crypttab(text: &str) -> Vec<CryptEntry> {
    text.lines().filter_map(crypt_entry).take(CRYPT_ENTRIES_MAX).collect()
}

/// Lines of crypttab that are used, at most.
const CRYPT_ENTRIES_MAX: usize = 65_536;

fn crypt_entry(line: &str) -> Option<CryptEntry> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| !name.starts_with('#'))?;
    let device = words.next()?;
    let device = device.strip_prefix("UUID=").or(device.strip_prefix("/dev/disk/by-uuid/"))?;
    let uuid = Uuid::parse(device.trim_matches('"'))?;
    let options = words.nth(1).unwrap_or_default();
    let by_hand = options.split(',').any(|option| option == "noauto");
    (!by_hand).then(|| CryptEntry { name: name.to_owned(), uuid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crypttab_names_devices_by_identifier() {
        let uuid = "00112233-4455-6677-8899-aabbccddeeff";
        let text = format!(
            "# name device key options\n\
             root UUID={uuid} none luks,discard\n\
             late /dev/disk/by-uuid/{uuid}\n\
             quiet UUID=\"{uuid}\" - luks,noauto\n\
             other /dev/sda1 none\n\
             broken UUID=12\n\n"
        );
        let names: Vec<_> = parse_crypttab(&text).into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["root", "late"]);
    }
}
