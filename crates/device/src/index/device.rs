//! One block device as the index knows it, and whether it may count for a group at all.
//!
//! A refusal depends on the device and the policy only, never on other devices: that is what lets
//! disks arrive in any order.

use std::fmt;

use super::Policy;
use crate::lvm::LvmId;
use crate::lvm::area::TextKey;
use crate::md::MdMember;
use crate::scan::{Content, Scan};
use crate::uuid::Uuid;

/// Number of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Major number: the driver.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl DeviceNumber {
    /// Reads `8:0`.
    pub fn parse(text: &str) -> Option<DeviceNumber> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// A block device that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its number.
    pub number: DeviceNumber,
    /// The kernel's count of disks: another disk under the same number has another one. 0 where
    /// the kernel does not tell (before 5.15).
    pub diskseq: u64,
    /// Kernel name: `sda`, `dm-0`.
    pub name: String,
    /// Path below `/sys`, as in uevents: `/devices/.../block/sda`.
    pub path: String,
    /// Symbolic links below `/dev`, without `/dev/`.
    pub links: Vec<String>,
    /// Of several devices that claim a link, the one with the highest has it (`L:` of udev).
    pub link_priority: i32,
    /// What the system says of it.
    pub facts: Facts,
    /// What is on it.
    pub role: Role,
}

/// What the system says of a device, as far as it decides whether the device counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// One path of a multipath device (`DM_MULTIPATH_DEVICE_PATH=1`).
    pub multipath_path: bool,
    /// What is stacked on it already.
    pub held_by: Holder,
    /// Identifier that device-mapper gave it, which tells who made it; empty otherwise.
    pub dm_uuid: String,
    /// Whoever made it wants nobody to look (`DM_UDEV_DISABLE_OTHER_RULES_FLAG=1`).
    pub others_disabled: bool,
    /// It exists but holds nothing yet.
    pub not_ready: Option<NotReady>,
}

/// What is stacked on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Holder {
    /// Nothing, or something that does not take the device as a whole.
    #[default]
    None,
    /// A multipath map: the device is one of its paths.
    Multipath,
    /// An MD array: the device is one of its legs.
    Raid,
}

/// Why a device that exists holds nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReady {
    /// A loop device without a file.
    LoopEmpty,
    /// An MD array that is not assembled.
    ArrayInactive,
    /// A device-mapper device that is suspended or has no table yet.
    MapperSuspended,
    /// Its rules say so (`SYSTEMD_READY=0`).
    Rules,
    /// udev runs and has not looked at it yet: it may turn out to be a path of a multipath device.
    NotInitialized,
    /// Its size is 0: a drive without a medium.
    NoMedium,
}

/// What is on a device, reduced to what groups need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Not looked at, because it counts for nothing.
    Unread,
    /// It could not be read; error number of errno(3).
    Unreadable(i32),
    /// It did not answer in time.
    TimedOut,
    /// Part of no group that is known here; a word what it is.
    Plain(&'static str),
    /// A physical volume.
    Lvm {
        /// Its identifier.
        pv: LvmId,
        /// False when its header says that it is in no group.
        used: bool,
        /// Metadata texts on it; none when it keeps no metadata.
        texts: Vec<TextKey>,
    },
    /// A member of an MD array.
    Md(MdMember),
    /// A device of a btrfs file system.
    Btrfs {
        /// File system.
        fsid: Uuid,
        /// Number of this device.
        devid: u64,
        /// Devices that the file system has, as of `generation`.
        num_devices: u64,
        /// Counts commits.
        generation: u64,
    },
    /// Encrypted.
    Luks(Uuid),
}

impl Role {
    /// What of a scan groups need. Texts that were read come separately, as
    /// [`super::Event::Text`].
    pub fn of(scan: &Scan) -> Role {
        match &scan.content {
            Content::Nothing => Role::Plain("nothing known"),
            Content::Partitions(_) => Role::Plain("partitions"),
            Content::Firmware(_) => Role::Plain("a disk of a firmware RAID"),
            Content::Filesystem(found) => Role::Plain(found.kind.as_str()),
            Content::Luks(luks) => Role::Luks(luks.uuid),
            Content::Md(member) => Role::Md(member.clone()),
            Content::Lvm(member) => Role::Lvm {
                pv: member.header.id,
                used: member.header.maybe_used(),
                texts: member.texts.iter().map(|text| text.key).collect(),
            },
            Content::Btrfs(member) => Role::Btrfs {
                fsid: member.fsid,
                devid: member.devid,
                num_devices: member.num_devices,
                generation: member.generation,
            },
        }
    }
}

/// Why a device counts for no group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It holds nothing yet.
    NotReady(NotReady),
    /// A path of a multipath device: the map counts, not its paths.
    MultipathPath,
    /// A leg of an array that is running, and no member by its own word: the array counts.
    RaidLeg,
    /// Its maker wants nobody to look.
    OthersDisabled,
    /// A physical volume on a logical volume: a guest's, unless the policy takes them.
    OnLogicalVolume,
    /// lvm2 keeps a list of devices and this one is not on it.
    NotInDevicesFile,
    /// A physical volume that is in no group.
    UnusedPv,
}

impl Refusal {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::NotReady(NotReady::LoopEmpty) => "a loop device without a file",
            Refusal::NotReady(NotReady::ArrayInactive) => "the array is not assembled",
            Refusal::NotReady(NotReady::MapperSuspended) => "suspended by device-mapper",
            Refusal::NotReady(NotReady::Rules) => "blocked by udev rules",
            Refusal::NotReady(NotReady::NotInitialized) => "udev has not processed it yet",
            Refusal::NotReady(NotReady::NoMedium) => "no medium",
            Refusal::MultipathPath => "a path of a multipath device",
            Refusal::RaidLeg => "a leg of a running array",
            Refusal::OthersDisabled => "private to the program that made it",
            Refusal::OnLogicalVolume => "a physical volume on a logical volume",
            Refusal::NotInDevicesFile => "not in lvm2's devices file",
            Refusal::UnusedPv => "a physical volume without a volume group",
        }
    }
}

/// Prefix of the identifiers that lvm2 gives to its volumes.
const LVM_PREFIX: &str = "LVM-";

impl Device {
    /// Why it need not be read, from facts alone.
    pub fn refusal_unread(facts: &Facts) -> Option<Refusal> {
        if let Some(why) = facts.not_ready {
            return Some(Refusal::NotReady(why));
        }
        if facts.others_disabled {
            return Some(Refusal::OthersDisabled);
        }
        let is_path = facts.multipath_path || facts.held_by == Holder::Multipath;
        is_path.then_some(Refusal::MultipathPath)
    }

    /// Why it counts for no group; `None` when it counts.
    pub fn refusal(&self, policy: &Policy) -> Option<Refusal> {
        let early = Device::refusal_unread(&self.facts);
        early.or_else(|| match &self.role {
            // A leg of a running array counts for the array and for nothing else.
            Role::Md(_) => None,
            _ if self.facts.held_by == Holder::Raid => Some(Refusal::RaidLeg),
            Role::Lvm { .. } if self.is_guest(policy) => Some(Refusal::OnLogicalVolume),
            Role::Lvm { used: false, .. } => Some(Refusal::UnusedPv),
            Role::Lvm { pv, .. } if !policy.allows(*pv) => Some(Refusal::NotInDevicesFile),
            _ => None,
        })
    }

    fn is_guest(&self, policy: &Policy) -> bool {
        self.facts.dm_uuid.starts_with(LVM_PREFIX) && !policy.pvs_on_lvs
    }
}
