//! What is on which disk and which group waits for what, as data: [`of_index`] asks the index,
//! [`of_scans`] makes an index of devices that were just read.
//!
//! [`Report::text`] shows it to people, [`Report::json_lines`] to programs. Nothing here reads a
//! device.

use std::collections::BTreeMap;

use crate::index::{
    Device, DeviceNumber, Event, Facts, GroupId, GroupState, Hold, Index, Policy, Role,
};
use crate::lvm::LvmId;
use crate::lvm::group::{Standing, VolumeGroup};
use crate::scan::{Content, Scan};

mod render;

/// Kinds of groups in the order in which they are shown.
const KINDS: [&str; 4] = ["vg", "md", "btrfs", "luks"];

/// What is said of a physical volume that its group takes for lost.
const WRITTEN_OFF: &str =
    "its volume group was changed while it was missing; to add it again: vgextend --restoremissing";

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Groups with their members, volume groups first.
    pub groups: Vec<GroupReport>,
    /// Devices that belong to no group.
    pub others: Vec<DiskReport>,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReport {
    /// `vg`, `md`, `btrfs` or `luks`.
    pub kind: &'static str,
    /// Its name, or what there is of one; may be empty.
    pub name: String,
    /// Its identifier.
    pub id: String,
    /// Members there, and members in all.
    pub present: u64,
    /// Members in all.
    pub of: u64,
    /// Why it is not started by itself, even when complete.
    pub held: Option<String>,
    /// What went wrong at its last start.
    pub failed: Option<String>,
    /// Devices of it that are there.
    pub disks: Vec<DiskReport>,
    /// Physical volumes that are missing: identifier, and where it was last seen.
    pub missing: Vec<(String, String)>,
    /// Visible logical volumes.
    pub volumes: Vec<VolumeReport>,
}

/// A logical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeReport {
    /// Name.
    pub name: String,
    /// Whether what it lies on is there.
    pub standing: Standing,
    /// It is started with its group.
    pub auto_activation: bool,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskReport {
    /// Path or kernel name.
    pub name: String,
    /// Size in bytes; 0 when it is not known.
    pub size_bytes: u64,
    /// What is on it, in a few words.
    pub what: String,
    /// What is odd about it.
    pub notes: Vec<String>,
    /// It could be read.
    pub is_read: bool,
}

/// What a scan found, as far as the index does not keep it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Size in bytes.
    pub size_bytes: u64,
    /// What is on it, in a few words.
    pub what: String,
    /// What is damaged, and signatures that lost.
    pub notes: Vec<String>,
}

impl Details {
    /// The details of a scan.
    pub fn of(scan: &Scan) -> Details {
        let also = scan.also.iter().map(|content| format!("also looks like {}", describe(content)));
        let mut notes: Vec<String> = scan.faults.iter().map(ToString::to_string).collect();
        notes.extend(also);
        if let Content::Lvm(member) = &scan.content
            && member.header.device_bytes != scan.size_bytes
        {
            notes.push(format!("its header says {}", size(member.header.device_bytes)));
        }
        if let Content::Luks(luks) = &scan.content
            && luks.from_second
        {
            notes.push("its first header is damaged; using the second one".to_owned());
        }
        Details { size_bytes: scan.size_bytes, what: describe(&scan.content), notes }
    }
}

/// Devices as they were read, in the order given: a path, and the scan or why there is none.
pub fn of_scans(scans: &[(String, Result<Scan, std::io::Error>)], policy: Policy) -> Report {
    let mut index = Index::new(policy);
    let mut details = BTreeMap::new();
    for ((name, result), minor) in scans.iter().zip(0..) {
        // Image files have no numbers: 0:0 and on are nobody's.
        let number = DeviceNumber { major: 0, minor };
        details.insert(number, details_of(result));
        index.step(0, arrival(number, name, result));
    }
    index.step(0, Event::ColdplugDone);
    of_index(&index, &details)
}

fn details_of(result: &Result<Scan, std::io::Error>) -> Details {
    match result {
        Ok(scan) => Details::of(scan),
        Err(error) => Details { what: format!("cannot be read: {error}"), ..Details::default() },
    }
}

fn arrival(number: DeviceNumber, name: &str, result: &Result<Scan, std::io::Error>) -> Event {
    let role = match result {
        Ok(scan) => Role::of(scan),
        Err(error) => Role::Unreadable(error.raw_os_error().unwrap_or(0)),
    };
    let device = Device {
        number,
        diskseq: 0,
        name: name.to_owned(),
        path: name.to_owned(),
        links: Vec::new(),
        link_priority: 0,
        facts: Facts::default(),
        role,
    };
    let texts = result.as_ref().map_or_else(|_| Vec::new(), Scan::texts_read);
    Event::Arrived { device, texts }
}

/// Everything the index knows.
pub fn of_index(index: &Index, details: &BTreeMap<DeviceNumber, Details>) -> Report {
    let disk = |device: &Device| disk_report(index, device, details.get(&device.number));
    let (mut by_group, mut others) = (BTreeMap::<GroupId, Vec<DiskReport>>::new(), Vec::new());
    for device in index.devices() {
        match index.group_of(device) {
            Some(group) => by_group.entry(group).or_default().push(disk(device)),
            None => others.push(disk(device)),
        }
    }
    let mut take = |id| by_group.remove(&id).unwrap_or_default();
    let groups = index.groups().into_iter().filter_map(|id| group_report(index, id, take(id)));
    let mut groups: Vec<GroupReport> = groups.collect();
    let order = |group: &GroupReport| KINDS.iter().position(|kind| *kind == group.kind);
    groups.sort_by_cached_key(|group| (order(group), group.name.clone(), group.id.clone()));
    Report { groups, others }
}

fn disk_report(index: &Index, device: &Device, details: Option<&Details>) -> DiskReport {
    let unread = || Details { what: "not read".to_owned(), ..Details::default() };
    let details = details.cloned().unwrap_or_else(unread);
    let mut notes = details.notes;
    notes.extend(index.refusal(device).map(|refusal| refusal.as_str().to_owned()));
    let listed = index.lists_freed(device).into_iter();
    notes.extend(listed.map(|group| format!("vg {group} is older and still lists it")));
    if index.is_outdated(device) {
        notes.push("its group no longer lists it".to_owned());
    }
    if index.is_written_off(device) {
        notes.push(WRITTEN_OFF.to_owned());
    }
    if let Role::Lvm { pv, .. } = device.role {
        notes.extend(clone_note(index, device, pv));
    }
    DiskReport {
        name: device.name.clone(),
        size_bytes: details.size_bytes,
        what: details.what,
        notes,
        is_read: !matches!(device.role, Role::Unread | Role::Unreadable(_) | Role::TimedOut),
    }
}

fn clone_note(index: &Index, device: &Device, pv: LvmId) -> Option<String> {
    let others = index.devices_of_pv(pv).into_iter().filter(|number| *number != device.number);
    let names: Vec<&str> =
        others.filter_map(|number| index.device(number)).map(|d| d.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("the same PVID is on {}", names.join(", ")))
}

fn group_report(index: &Index, id: GroupId, disks: Vec<DiskReport>) -> Option<GroupReport> {
    let state = index.state(id)?;
    let (kind, shown) = match id {
        GroupId::Lvm(vg) => ("vg", vg.to_string()),
        GroupId::Md(set) => ("md", set.to_string()),
        GroupId::Btrfs(fsid) => ("btrfs", fsid.to_string()),
        GroupId::Luks(uuid) => ("luks", uuid.to_string()),
    };
    let vg = match id {
        GroupId::Lvm(vg) => index.volume_group(vg).map(|group| (vg, group)),
        _ => None,
    };
    let (missing, of) = missing_of(index, id, &state);
    Some(GroupReport {
        kind,
        name: vg.map_or_else(|| other_name(index, id), |(_, group)| group.name.clone()),
        id: shown,
        present: of - missing,
        of,
        held: match state {
            GroupState::Held(hold) => Some(hold.to_string()),
            _ => None,
        },
        failed: index.result(id).and_then(|result| result.clone().err()),
        disks,
        missing: vg.map_or_else(Vec::new, |(vg, _)| missing_members(index, vg)),
        volumes: vg.map_or_else(Vec::new, |(vg, group)| volumes(index, vg, group)),
    })
}

/// Members that are missing, of how many: also for a group that is held.
fn missing_of(index: &Index, id: GroupId, state: &GroupState) -> (u64, u64) {
    match (id, state) {
        (_, GroupState::Waiting { missing, of }) => (*missing, *of),
        (GroupId::Lvm(vg), _) => {
            let of = index.volume_group(vg).map_or(0, |group| group.members.len() as u64);
            (index.missing(vg).count() as u64, of)
        }
        _ => (0, index.members(id).len() as u64),
    }
}

fn missing_members(index: &Index, vg: LvmId) -> Vec<(String, String)> {
    index.missing(vg).map(|m| (m.id.to_string(), m.last_seen)).collect()
}

fn volumes(index: &Index, vg: LvmId, group: &VolumeGroup) -> Vec<VolumeReport> {
    let standings = index.standings(vg);
    let visible = group.volumes.iter().zip(standings).filter(|(volume, _)| volume.visible);
    let report = visible.map(|(volume, standing)| VolumeReport {
        name: volume.name.clone(),
        standing,
        auto_activation: volume.auto_activation,
    });
    report.collect()
}

/// The name of an array, the name under which crypttab opens a device.
fn other_name(index: &Index, id: GroupId) -> String {
    if let GroupId::Luks(uuid) = id {
        return index.policy().crypt_name(uuid).unwrap_or_default().to_owned();
    }
    let members = index.members(id).into_iter().filter_map(|number| index.device(number));
    let names = members.filter_map(|device| match &device.role {
        Role::Md(member) => Some(member.name.clone()),
        _ => None,
    });
    names.max().unwrap_or_default()
}

/// What is on a device, in a few words.
pub fn describe(content: &Content) -> String {
    let named = |what: &str, label: &str, uuid: &dyn std::fmt::Display| match label {
        "" => format!("{what} {uuid}"),
        label => format!("{what} {label:?} {uuid}"),
    };
    match content {
        Content::Nothing => "nothing known".to_owned(),
        Content::Md(member) => {
            let (version, level) = (member.version.as_str(), member.level_name());
            format!("md {version} {level} {} of {}", role(member.role), member.raid_disks)
        }
        Content::Partitions(_) => "partitions".to_owned(),
        Content::Firmware(found) => {
            let (name, version) = (found.format.mdadm_name(), &found.version);
            format!(
                "{name} {version}, a disk of a firmware RAID: mdadm starts it, not warren-deviced"
            )
        }
        Content::Luks(luks) => named(&format!("luks{}", luks.version), &luks.label, &luks.uuid),
        Content::Lvm(member) => format!("pv {}", member.header.id),
        Content::Btrfs(member) => {
            // Numbers are not reused: those of three devices may be 1, 3 and 4.
            let of = format!("btrfs devid {}, one of {}", member.devid, member.num_devices);
            named(&of, &member.label, &member.fsid)
        }
        Content::Filesystem(found) => named(found.kind.as_str(), &found.label, &found.uuid),
    }
}

fn role(role: crate::md::Role) -> String {
    match role {
        crate::md::Role::Active(place) => format!("device {}", place + 1),
        crate::md::Role::Spare => "spare".to_owned(),
        crate::md::Role::Faulty => "faulty".to_owned(),
        crate::md::Role::Journal => "journal".to_owned(),
    }
}

/// A size for people: whole units when it is whole, else one digit more.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut unit, mut scale) = (0, 1u64);
    while unit + 1 < UNITS.len() && bytes >= scale * 1024 {
        unit += 1;
        scale *= 1024;
    }
    let (whole, tenths) = (bytes / scale, bytes % scale * 10 / scale);
    match tenths {
        0 => format!("{whole} {}", UNITS[unit]),
        _ => format!("{whole}.{tenths} {}", UNITS[unit]),
    }
}

/// Why a group is not started by itself is worth a word, except for encrypted devices: most are
/// nobody's to open at boot.
pub(crate) fn is_plain_hold(held: &str) -> bool {
    held == Hold::NotInCrypttab.to_string()
}

#[cfg(test)]
mod tests;
