//! The index: which devices are there, which group each belongs to, which groups are complete.
//!
//! A state machine without I/O or clock: [`Index::step`] takes an event with its time and returns
//! decisions. Devices that were there at boot are one batch; after that each event decides for
//! itself. An arrival costs a few look-ups, however many devices there are
//! ([`Index::work`] counts).
//!
//! What must not be here: opening of devices, running of programs, and rules that depend on the
//! order in which devices arrive. The end state is a function of what is there; the tests hold it
//! against an evaluator that starts from nothing.
//!
//! Start reading at [`Event`], then [`Index::step`]; `volumes` counts the members of volume groups,
//! `places` those of arrays and file systems, `decide` says what is started.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::begun::StartRecord;
use crate::lvm::LvmId;
use crate::lvm::area::TextKey;
use crate::lvm::group::VolumeGroup;
use crate::md::{self, MdMember};
use crate::uuid::Uuid;

mod decide;
mod device;
mod places;
mod policy;
mod view;
mod volumes;

pub use device::{Device, DeviceNumber, Facts, Holder, NotReady, Refusal, Role};
pub use policy::{Completeness, CryptEntry, Policy, parse_crypttab};
pub use view::{GroupState, Hold, MissingMember};

use places::{Claim, Places, expected};
use volumes::{PvDevice, VolumeGroups};

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A device is there, new or changed; with the metadata texts that were read from it.
    Arrived {
        /// The device.
        device: Device,
        /// Texts that were not known before.
        texts: Vec<(TextKey, Arc<VolumeGroup>)>,
    },
    /// A device went.
    Removed(DeviceNumber),
    /// The answer to [`Decision::ReadText`].
    Text {
        /// The device that was asked.
        device: DeviceNumber,
        /// What was asked for.
        key: TextKey,
        /// The group that the text describes; `None` when it could not be read.
        group: Option<Arc<VolumeGroup>>,
    },
    /// Events were lost: every device will be told again, then [`Event::RescanDone`] follows.
    RescanBegun,
    /// What was not told since [`Event::RescanBegun`] is gone.
    RescanDone,
    /// Everything that was there at boot has been told: the batch can be decided.
    ColdplugDone,
    /// Time passed: [`Index::next_deadline_ms`] was reached.
    Time,
    /// A start that was decided came to its end.
    Activated {
        /// The group.
        group: GroupId,
        /// What went wrong, if anything did.
        result: Result<(), String>,
    },
}

/// What names a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupId {
    /// A volume group, by VGID: names are not unique.
    Lvm(LvmId),
    /// An MD array.
    Md(Uuid),
    /// A btrfs file system.
    Btrfs(Uuid),
    /// An encrypted device.
    Luks(Uuid),
}

/// `vg:IDENTIFIER`: what the manager and records call it.
impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupId::Lvm(id) => write!(f, "vg:{id}"),
            GroupId::Md(id) => write!(f, "md:{id}"),
            GroupId::Btrfs(id) => write!(f, "btrfs:{id}"),
            GroupId::Luks(id) => write!(f, "luks:{id}"),
        }
    }
}

impl GroupId {
    /// Reads what is written that way; `None` for what is not.
    pub fn parse(text: &str) -> Option<GroupId> {
        let (kind, id) = text.split_once(':')?;
        let group = match kind {
            "vg" => GroupId::Lvm(LvmId::parse(id)?),
            "md" => GroupId::Md(Uuid::parse(id)?),
            "btrfs" => GroupId::Btrfs(Uuid::parse(id)?),
            "luks" => GroupId::Luks(Uuid::parse(id)?),
            _ => return None,
        };
        (group.to_string() == text).then_some(group)
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Start groups: all that are complete at the end of the boot batch, or one later.
    Activate(Vec<Start>),
    /// Read a metadata text from a device; answered by [`Event::Text`].
    ReadText {
        /// The device.
        device: DeviceNumber,
        /// The text.
        key: TextKey,
    },
}

/// One group to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The group.
    pub group: GroupId,
    /// How much of it.
    pub scope: Scope,
}

/// How much of a group is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of it.
    Whole,
    /// These logical volumes, which have all they lie on.
    Volumes(Vec<String>),
    /// What can run without the missing members; for volume groups, these logical volumes.
    Degraded(Vec<String>),
}

/// Physical volumes of which it is remembered where they were seen last.
const LAST_SEEN_MAX: usize = 65_536;

/// What a device counts for.
#[derive(Debug, Clone, PartialEq)]
enum Counted {
    Nothing,
    Lvm(LvmId, Vec<TextKey>),
    Md(Uuid, Claim),
    Btrfs(Uuid, Claim),
    Luks(Uuid),
}

#[derive(Debug, Clone)]
struct Entry {
    device: Device,
    counted: Counted,
    /// The rescan that told of it last.
    round: u64,
}

/// What was done for a group.
#[derive(Debug, Clone, Default)]
struct Run {
    begun: StartRecord,
    deadline_ms: Option<u64>,
    overdue: bool,
    result: Option<Result<(), String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Boot { told: bool },
    Running,
}

/// The index.
#[derive(Debug, Clone)]
pub struct Index {
    policy: Policy,
    devices: BTreeMap<DeviceNumber, Entry>,
    paths: BTreeMap<String, DeviceNumber>,
    links: BTreeMap<String, BTreeSet<(Reverse<i32>, DeviceNumber)>>,
    vgs: VolumeGroups,
    arrays: BTreeMap<Uuid, Places>,
    filesystems: BTreeMap<Uuid, Places>,
    encrypted: BTreeMap<Uuid, BTreeSet<DeviceNumber>>,
    runs: BTreeMap<GroupId, Run>,
    deadlines: BTreeSet<(u64, GroupId)>,
    touched: BTreeSet<GroupId>,
    last_seen: BTreeMap<LvmId, String>,
    phase: Phase,
    round: u64,
    work: u64,
}

impl Index {
    /// An empty index, waiting for the boot batch.
    pub fn new(policy: Policy) -> Index {
        let per_volume = policy.completeness == Completeness::Volume;
        Index {
            policy,
            devices: BTreeMap::new(),
            paths: BTreeMap::new(),
            links: BTreeMap::new(),
            vgs: VolumeGroups::new(per_volume),
            arrays: BTreeMap::new(),
            filesystems: BTreeMap::new(),
            encrypted: BTreeMap::new(),
            runs: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            touched: BTreeSet::new(),
            last_seen: BTreeMap::new(),
            phase: Phase::Boot { told: false },
            round: 0,
            work: 0,
        }
    }

    /// Takes one event in; `now_ms` is the time it happened, in milliseconds of any steady clock.
    pub fn step(&mut self, now_ms: u64, event: Event) -> Vec<Decision> {
        match event {
            Event::Arrived { device, texts } => self.arrived(device, &texts),
            Event::Removed(number) => self.removed(number),
            Event::Text { device, key, group } => self.vgs.text(device, key, group.as_ref()),
            Event::RescanBegun => self.round += 1,
            Event::RescanDone => self.rescan_done(),
            Event::ColdplugDone if self.phase == Phase::Running => {}
            Event::ColdplugDone => self.phase = Phase::Boot { told: true },
            Event::Time => {}
            Event::Activated { group, result } => self.activated(group, result),
        }
        let late = self.take_deadlines(now_ms);
        let mut decisions = self.decide(now_ms);
        let degraded = late.into_iter().filter_map(|group| self.degraded(group));
        decisions.extend(degraded.map(|start| Decision::Activate(vec![start])));
        self.forget_results(&decisions);
        decisions
    }

    // ---- devices ----

    fn arrived(&mut self, device: Device, texts: &volumes::ReadTexts) {
        self.work += 1;
        let number = device.number;
        let counted = counted(&device, &self.policy);
        let old = self.devices.get_mut(&number);
        if let Some(old) = old.filter(|old| old.device == device) {
            old.round = self.round;
            // The same device again may bring a text that was asked for.
            texts.iter().for_each(|(key, group)| self.vgs.text(number, *key, Some(group)));
            return;
        }
        let before = self.devices.remove(&number);
        if let Some(old) = &before {
            self.unname(&old.device);
        }
        let same_disk = before.as_ref().is_some_and(|old| old.device.diskseq == device.diskseq);
        let before = before.map_or(Counted::Nothing, |old| old.counted);
        if !same_disk || before != counted {
            // Whoever read the device may have left out a text because this very device had
            // told it before.
            let known = self.known_texts(&counted);
            self.leave(number, &before);
            self.join(number, &counted, &[texts, &known].concat());
        } else if let Counted::Md(set, _) = counted {
            // Somebody may have put the array together.
            self.touched.insert(GroupId::Md(set));
        }
        self.name(&device);
        self.devices.insert(number, Entry { device, counted, round: self.round });
    }

    fn known_texts(&self, counted: &Counted) -> Vec<(TextKey, Arc<VolumeGroup>)> {
        let Counted::Lvm(_, keys) = counted else { return Vec::new() };
        let known = |key: &TextKey| Some((*key, self.vgs.group_of_text(*key)?.clone()));
        keys.iter().filter_map(known).collect()
    }

    fn removed(&mut self, number: DeviceNumber) {
        self.work += 1;
        let Some(old) = self.devices.remove(&number) else { return };
        self.unname(&old.device);
        self.leave(number, &old.counted);
        if let Counted::Lvm(pv, _) = old.counted
            && (self.last_seen.len() < LAST_SEEN_MAX || self.last_seen.contains_key(&pv))
        {
            self.last_seen.insert(pv, old.device.name);
        }
    }

    fn rescan_done(&mut self) {
        self.work += self.devices.len() as u64;
        self.unseen().into_iter().for_each(|number| self.removed(number));
    }

    /// Devices that were not told of since [`Event::RescanBegun`].
    pub fn unseen(&self) -> Vec<DeviceNumber> {
        let unseen = self.devices.iter().filter(|(_, entry)| entry.round != self.round);
        unseen.map(|(number, _)| *number).collect()
    }

    fn name(&mut self, device: &Device) {
        self.paths.insert(device.path.clone(), device.number);
        for link in &device.links {
            let claims = self.links.entry(link.clone()).or_default();
            claims.insert((Reverse(device.link_priority), device.number));
        }
    }

    fn unname(&mut self, device: &Device) {
        if self.paths.get(&device.path) == Some(&device.number) {
            self.paths.remove(&device.path);
        }
        for link in &device.links {
            let Some(claims) = self.links.get_mut(link) else { continue };
            claims.remove(&(Reverse(device.link_priority), device.number));
            if claims.is_empty() {
                self.links.remove(link);
            }
        }
    }

    // ---- groups ----

    fn join(&mut self, number: DeviceNumber, counted: &Counted, texts: &volumes::ReadTexts) {
        match counted {
            Counted::Nothing => {}
            Counted::Lvm(pv, keys) => {
                self.vgs.insert(number, &PvDevice { pv: *pv, texts: keys.clone() }, texts);
            }
            Counted::Md(set, claim) => {
                let places = self.arrays.entry(*set).or_insert_with(|| Places::new(Some(1)));
                self.work += places.insert(number, *claim);
                self.touched.insert(GroupId::Md(*set));
            }
            Counted::Btrfs(fsid, claim) => {
                let places = self.filesystems.entry(*fsid).or_insert_with(|| Places::new(None));
                self.work += places.insert(number, *claim);
                self.touched.insert(GroupId::Btrfs(*fsid));
            }
            Counted::Luks(uuid) => {
                self.encrypted.entry(*uuid).or_default().insert(number);
                self.touched.insert(GroupId::Luks(*uuid));
            }
        }
    }

    fn leave(&mut self, number: DeviceNumber, counted: &Counted) {
        match counted {
            Counted::Nothing => {}
            Counted::Lvm(pv, keys) => {
                self.vgs.remove(number, &PvDevice { pv: *pv, texts: keys.clone() });
            }
            Counted::Md(set, _) => {
                self.work += leave_places(&mut self.arrays, *set, number);
                self.touched.insert(GroupId::Md(*set));
            }
            Counted::Btrfs(fsid, _) => {
                self.work += leave_places(&mut self.filesystems, *fsid, number);
                self.touched.insert(GroupId::Btrfs(*fsid));
            }
            Counted::Luks(uuid) => {
                if let Some(devices) = self.encrypted.get_mut(uuid) {
                    devices.remove(&number);
                    if devices.is_empty() {
                        self.encrypted.remove(uuid);
                    }
                }
                self.touched.insert(GroupId::Luks(*uuid));
            }
        }
    }

    /// What is started anew has no result yet.
    fn forget_results(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            let Decision::Activate(starts) = decision else { continue };
            for start in starts {
                self.runs.entry(start.group).or_default().result = None;
            }
        }
    }

    fn activated(&mut self, group: GroupId, result: Result<(), String>) {
        let result = if self.is_running(group) { Ok(()) } else { result };
        // Of several programs for one start, the one that failed is told of.
        if let Some(run) = self.runs.get_mut(&group)
            && !matches!(run.result, Some(Err(_)))
        {
            run.result = Some(result);
        }
    }

    /// Takes up what was started before: none of it is started again.
    pub fn take_up(&mut self, groups: BTreeMap<GroupId, StartRecord>) {
        let run = |begun| Run { begun, result: Some(Ok(())), ..Run::default() };
        self.runs.extend(groups.into_iter().map(|(group, begun)| (group, run(begun))));
    }

    /// What was taken up and of which nothing is there, now that everything that is was told:
    /// when it comes back, it is started.
    pub fn forget_absent(&mut self) -> Vec<GroupId> {
        let groups = self.runs.keys().copied();
        let absent: Vec<GroupId> = groups.filter(|&group| self.state(group).is_none()).collect();
        absent.iter().for_each(|&group| self.forget(group));
        absent
    }

    /// True while [`Decision::ReadText`] has no answer: another device may have brought the text.
    pub fn is_asked(&self, device: DeviceNumber, key: TextKey) -> bool {
        self.vgs.asked(key) == Some(device)
    }

    /// Elementary steps so far: what grows with the number of devices, and nothing else.
    pub fn work(&self) -> u64 {
        self.work + self.vgs.work
    }
}

fn counted(device: &Device, policy: &Policy) -> Counted {
    if device.refusal(policy).is_some() {
        return Counted::Nothing;
    }
    match &device.role {
        Role::Lvm { pv, texts, .. } => Counted::Lvm(*pv, texts.clone()),
        Role::Luks(uuid) => Counted::Luks(*uuid),
        Role::Md(member) => Counted::Md(member.array, md_claim(member)),
        Role::Btrfs { fsid, devid, num_devices, generation } => {
            let (place, places, changes) = (Some(*devid), *num_devices, *generation);
            Counted::Btrfs(*fsid, Claim { place, places, changes, spare_places: 0 })
        }
        Role::Unread | Role::Unreadable(_) | Role::TimedOut | Role::Plain(_) => Counted::Nothing,
    }
}

fn md_claim(member: &MdMember) -> Claim {
    let place = match member.role {
        md::Role::Active(place) => Some(u64::from(place)),
        md::Role::Spare | md::Role::Faulty | md::Role::Journal => None,
    };
    let (places, spare_places) = expected(member.level, member.raid_disks, member.working);
    Claim { place, places, changes: member.events, spare_places }
}

fn leave_places(groups: &mut BTreeMap<Uuid, Places>, id: Uuid, device: DeviceNumber) -> u64 {
    let Some(places) = groups.get_mut(&id) else { return 0 };
    let work = places.remove(device);
    if places.is_empty() {
        groups.remove(&id);
    }
    work
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
