//! Questions to the index: the state of groups, which members are missing, which device owns a name.

use super::volumes::Group;
use super::{Device, DeviceNumber, GroupId, Index, Refusal};
use crate::begun::StartRecord;
use crate::lvm::LvmId;
use crate::lvm::group::{Standing, VolumeGroup};

/// How a group stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupState {
    /// Never to be started by itself.
    Held(Hold),
    /// Members are missing.
    Waiting {
        /// How many.
        missing: u64,
        /// Of how many.
        of: u64,
    },
    /// All there.
    Complete,
}

/// Why a group is not started by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// `event_activation=0` in lvm.conf(5).
    EventActivationOff,
    /// Exported.
    Exported,
    /// Shared between hosts: lvmlockd(8)'s.
    Shared,
    /// Owned by another host.
    Foreign(String),
    /// Marked not to be activated by itself.
    NoAutoActivation,
    /// Two metadata texts with one sequence number.
    TwoTruths,
    /// Two disks with one PVID, and the policy is to wait.
    Duplicates,
    /// crypttab(5) does not want it opened.
    NotInCrypttab,
}

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Hold::EventActivationOff => "event_activation is off in lvm.conf",
            Hold::Exported => "exported",
            Hold::Shared => "shared: lvmlockd starts it",
            Hold::Foreign(system) => return write!(f, "owned by system {system:?}"),
            Hold::NoAutoActivation => "marked not to be activated automatically",
            Hold::TwoTruths => {
                "two different versions of its metadata have the same sequence number"
            }
            Hold::Duplicates => "two disks have the same PVID",
            Hold::NotInCrypttab => "not in crypttab",
        })
    }
}

/// A physical volume that a group waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingMember {
    /// Its identifier.
    pub id: LvmId,
    /// Kernel name under which it was here before, or else the path that the metadata gives.
    pub last_seen: String,
}

impl Index {
    /// Every device, by number.
    pub fn devices(&self) -> impl Iterator<Item = &Device> {
        self.devices.values().map(|entry| &entry.device)
    }

    /// One device.
    pub fn device(&self, number: DeviceNumber) -> Option<&Device> {
        self.devices.get(&number).map(|entry| &entry.device)
    }

    /// The device at a path below `/sys`.
    pub fn device_at(&self, path: &str) -> Option<DeviceNumber> {
        self.paths.get(path).copied()
    }

    /// The device that a link below `/dev` means: the highest priority, then the lowest number.
    pub fn device_of_link(&self, link: &str) -> Option<DeviceNumber> {
        self.links.get(link)?.first().map(|(_, number)| *number)
    }

    /// Every group, volume groups first.
    pub fn groups(&self) -> Vec<GroupId> {
        let arrays = self.arrays();
        let filesystems = self.filesystems();
        let encrypted = self.encrypted.keys().map(|id| GroupId::Luks(*id));
        let vgs = self.vgs.ids().map(GroupId::Lvm);
        vgs.chain(arrays).chain(filesystems).chain(encrypted).collect()
    }

    /// Every array.
    pub fn arrays(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.arrays.keys().map(|id| GroupId::Md(*id))
    }

    /// Every file system on several devices.
    pub fn filesystems(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.filesystems.keys().map(|id| GroupId::Btrfs(*id))
    }

    /// How a group stands; `None` when no device of it is there.
    pub fn state(&self, group: GroupId) -> Option<GroupState> {
        let places = match group {
            GroupId::Lvm(vg) => return self.vg_state(vg),
            GroupId::Luks(uuid) => {
                self.encrypted.get(&uuid)?;
                return Some(match self.policy.crypt_name(uuid) {
                    Some(_) => GroupState::Complete,
                    None => GroupState::Held(Hold::NotInCrypttab),
                });
            }
            GroupId::Md(set) => self.arrays.get(&set)?,
            GroupId::Btrfs(fsid) => self.filesystems.get(&fsid)?,
        };
        let (of, missing) = places.places_and_missing();
        Some(if missing == 0 { GroupState::Complete } else { GroupState::Waiting { missing, of } })
    }

    fn vg_state(&self, vg: LvmId) -> Option<GroupState> {
        let group = self.vgs.get(vg)?;
        let truth = group.truth()?;
        if let Some(hold) = self.vg_hold(group, truth) {
            return Some(GroupState::Held(hold));
        }
        Some(match group.missing {
            0 => GroupState::Complete,
            missing => GroupState::Waiting { missing, of: truth.members.len() as u64 },
        })
    }

    fn vg_hold(&self, group: &Group, truth: &VolumeGroup) -> Option<Hold> {
        let policy = &self.policy;
        let foreign = !truth.system_id.is_empty() && !policy.system_ids.contains(&truth.system_id);
        let twice = || truth.members.iter().any(|m| self.vgs.devices_of(m.id).nth(1).is_some());
        [
            (truth.marks.exported, Hold::Exported),
            (truth.marks.shared, Hold::Shared),
            (foreign, Hold::Foreign(truth.system_id.clone())),
            (truth.marks.no_auto_activation, Hold::NoAutoActivation),
            (!policy.event_activation, Hold::EventActivationOff),
            (group.has_two_truths(), Hold::TwoTruths),
            // Looked at last, and only by those who chose it: it walks over the members.
            (policy.hold_duplicates && group.missing == 0 && twice(), Hold::Duplicates),
        ]
        .into_iter()
        .find_map(|(holds, why)| holds.then_some(why))
    }

    /// The metadata in force of a volume group.
    pub fn volume_group(&self, vg: LvmId) -> Option<&VolumeGroup> {
        self.vgs.get(vg)?.truth().map(|truth| truth.as_ref())
    }

    /// How each logical volume of a group stands, in the order of its metadata.
    pub fn standings(&self, vg: LvmId) -> Vec<Standing> {
        let Some(group) = self.vgs.get(vg) else { return Vec::new() };
        let present = |number| group.is_present(number);
        group.truth().map_or_else(Vec::new, |truth| truth.standings(&present))
    }

    /// The physical volumes that a group waits for.
    pub fn missing(&self, vg: LvmId) -> impl Iterator<Item = MissingMember> + '_ {
        let group = self.vgs.get(vg);
        let truth = group.and_then(|group| group.truth());
        let numbers = group.into_iter().flat_map(|group| group.missing_members());
        let members = numbers.filter_map(move |number| truth?.members.get(number));
        members.map(|member| MissingMember {
            id: member.id,
            last_seen: self.last_seen.get(&member.id).unwrap_or(&member.device_hint).clone(),
        })
    }

    /// How many volume groups have this name: lvm2's programs mean none of two by it.
    pub fn groups_named(&self, name: &str) -> u32 {
        self.vgs.count_of_name(name)
    }

    /// Devices that carry a PVID, the lowest number first. More than one: a clone.
    pub fn devices_of_pv(&self, pv: LvmId) -> Vec<DeviceNumber> {
        self.vgs.devices_of(pv).collect()
    }

    /// Devices that count for a group, by number.
    pub fn members(&self, group: GroupId) -> Vec<DeviceNumber> {
        match group {
            GroupId::Lvm(vg) => self.vg_members(vg),
            GroupId::Md(set) => {
                self.arrays.get(&set).map_or_else(Vec::new, |p| p.devices().collect())
            }
            GroupId::Btrfs(fsid) => {
                self.filesystems.get(&fsid).map_or_else(Vec::new, |p| p.devices().collect())
            }
            GroupId::Luks(uuid) => {
                self.encrypted.get(&uuid).into_iter().flatten().copied().collect()
            }
        }
    }

    fn vg_members(&self, vg: LvmId) -> Vec<DeviceNumber> {
        let Some(truth) = self.volume_group(vg) else { return Vec::new() };
        let mut out: Vec<DeviceNumber> =
            truth.members.iter().flat_map(|member| self.vgs.devices_of(member.id)).collect();
        out.sort_unstable();
        out
    }

    /// Places of an array or a file system that two devices claim.
    pub fn places_claimed_twice(&self, group: GroupId) -> Vec<u64> {
        let places = match group {
            GroupId::Md(set) => self.arrays.get(&set),
            GroupId::Btrfs(fsid) => self.filesystems.get(&fsid),
            GroupId::Lvm(_) | GroupId::Luks(_) => None,
        };
        places.map_or_else(Vec::new, |places| places.twice().collect())
    }

    /// The group a device belongs to, as far as its metadata is known.
    pub fn group_of(&self, device: &Device) -> Option<GroupId> {
        let counted = &self.devices.get(&device.number)?.counted;
        match counted {
            super::Counted::Nothing => None,
            super::Counted::Md(set, _) => Some(GroupId::Md(*set)),
            super::Counted::Btrfs(fsid, _) => Some(GroupId::Btrfs(*fsid)),
            super::Counted::Luks(uuid) => Some(GroupId::Luks(*uuid)),
            super::Counted::Lvm(pv, keys) => {
                let own = keys.iter().find_map(|key| self.vgs.group_of_text(*key));
                let listed = || self.vgs.groups_of(*pv).next();
                own.map(|group| group.id).or_else(listed).map(GroupId::Lvm)
            }
        }
    }

    /// True for a physical volume whose group does not list it any more.
    pub fn is_outdated(&self, device: &Device) -> bool {
        let super::Role::Lvm { pv, .. } = device.role else { return false };
        match self.group_of(device) {
            Some(GroupId::Lvm(vg)) => self.vgs.get(vg).is_some_and(|group| !group.lists(pv)),
            _ => false,
        }
    }

    /// True for a physical volume that was away while its group was changed, and which the group
    /// takes for lost since: lvm2 does not use it before `vgextend --restoremissing`.
    pub fn is_written_off(&self, device: &Device) -> bool {
        let super::Role::Lvm { pv, .. } = device.role else { return false };
        let Some(GroupId::Lvm(vg)) = self.group_of(device) else { return false };
        self.vgs.get(vg).is_some_and(|group| group.has_written_off(pv))
    }

    /// Names of the groups that list a physical volume whose own header says that it is in none: lvm2
    /// freed it while another member was away, which still has the old list.
    pub fn lists_freed(&self, device: &Device) -> Vec<&str> {
        let super::Role::Lvm { pv, used: false, .. } = device.role else { return Vec::new() };
        let groups = self.vgs.groups_of(pv).filter_map(|vg| self.volume_group(vg));
        groups.map(|group| group.name.as_str()).collect()
    }

    /// Why a device counts for no group.
    pub fn refusal(&self, device: &Device) -> Option<Refusal> {
        device.refusal(&self.policy)
    }

    /// Whether a group was complete once, as far as it was decided.
    pub fn was_complete(&self, group: GroupId) -> bool {
        self.runs.get(&group).is_some_and(|run| run.begun.whole)
    }

    /// What was started of a group; nothing while that is under way, or when it failed.
    pub fn begun(&self, group: GroupId) -> Option<&StartRecord> {
        let run = self.runs.get(&group)?;
        (run.result == Some(Ok(())) && !run.begun.is_empty()).then_some(&run.begun)
    }

    /// Whether a program is starting a group.
    pub fn is_starting(&self, group: GroupId) -> bool {
        let needs_one = matches!(group, GroupId::Lvm(_) | GroupId::Md(_));
        let begun = |run: &super::Run| run.result.is_none() && !run.begun.is_empty();
        needs_one && self.runs.get(&group).is_some_and(begun)
    }

    /// What became of the last start of a group.
    pub fn result(&self, group: GroupId) -> Option<&Result<(), String>> {
        self.runs.get(&group)?.result.as_ref()
    }

    /// The policy in force.
    pub fn policy(&self) -> &super::Policy {
        &self.policy
    }
}
