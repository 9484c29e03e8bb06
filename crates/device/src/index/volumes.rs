//! Volume groups: who carries which metadata, which members are there, and how many are missing.
//!
//! A member is there when a device with its PVID carries a text of this very group, or carries no
//! text at all. The text with the highest sequence number that any present device carries is the
//! truth; a change of it is the only thing that looks at a whole group.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::device::DeviceNumber;
use crate::lvm::LvmId;
use crate::lvm::area::TextKey;
use crate::lvm::group::{Part, VolumeGroup};

/// A physical volume that counts.
#[derive(Debug, Clone)]
pub(super) struct PvDevice {
    pub pv: LvmId,
    pub texts: Vec<TextKey>,
}

/// Texts that were read with a device, each with what it is known by.
pub type ReadTexts = [(TextKey, Arc<VolumeGroup>)];

/// A metadata text that some device carries.
#[derive(Debug, Clone, Default)]
struct Text {
    group: Option<Arc<VolumeGroup>>,
    /// Devices that carry it, with their PVIDs.
    holders: BTreeMap<DeviceNumber, LvmId>,
    /// Devices that were asked for it and could not give it.
    failed: BTreeSet<DeviceNumber>,
    /// The device that is being asked.
    asked: Option<DeviceNumber>,
}

/// One volume group.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// Its texts by sequence number, the truth last. Equal numbers mean two histories.
    ranks: BTreeSet<(u64, Reverse<TextKey>)>,
    texts: BTreeMap<TextKey, Arc<VolumeGroup>>,
    /// Devices with a text of this group, by PVID.
    carriers: BTreeMap<LvmId, u32>,
    /// Where each PVID of the true text stands in it.
    numbers: BTreeMap<LvmId, u32>,
    /// Which members are there.
    present: Vec<bool>,
    pub missing: u64,
    volumes: Option<Volumes>,
}

/// Per volume: how much of what it lies on is missing. Kept only when volumes start one by one.
#[derive(Debug, Clone)]
struct Volumes {
    missing: Vec<u32>,
    /// Members that count as lost though they may be there.
    written_off: Vec<bool>,
    users_of_member: Vec<Vec<u32>>,
    users_of_volume: Vec<Vec<u32>>,
}

/// All volume groups.
#[derive(Debug, Clone, Default)]
pub(super) struct VolumeGroups {
    texts: BTreeMap<TextKey, Text>,
    groups: BTreeMap<LvmId, Group>,
    /// Devices of each PVID.
    carriers: BTreeMap<LvmId, BTreeSet<DeviceNumber>>,
    /// Those of them without any text.
    bare: BTreeMap<LvmId, u32>,
    /// Groups whose true text lists a PVID.
    listed: BTreeMap<LvmId, BTreeSet<LvmId>>,
    /// How many groups are called so by their true texts.
    named: BTreeMap<String, u32>,
    /// Groups that something happened to since they were last asked for.
    pub touched: BTreeSet<LvmId>,
    /// Texts to be read, and from which device.
    pub wanted: Vec<(DeviceNumber, TextKey)>,
    /// How many texts are being asked for.
    questions: usize,
    /// Count volumes, not only members.
    per_volume: bool,
    /// Elementary steps so far.
    pub work: u64,
}

impl VolumeGroups {
    pub(super) fn new(per_volume: bool) -> VolumeGroups {
        VolumeGroups { per_volume, ..VolumeGroups::default() }
    }

    /// A physical volume arrived, with the texts that were read from it.
    pub(super) fn insert(&mut self, device: DeviceNumber, found: &PvDevice, read: &ReadTexts) {
        self.work += 1;
        self.carriers.entry(found.pv).or_default().insert(device);
        self.touch_listing(found.pv);
        if found.texts.is_empty() {
            self.add_bare(found.pv);
        }
        for &key in &found.texts {
            let text = self.texts.entry(key).or_default();
            text.holders.insert(device, found.pv);
            let known = text.group.clone();
            match (known, read.iter().find(|(k, _)| *k == key)) {
                (Some(group), _) => self.attach(found.pv, key, &group),
                (None, Some((_, group))) => self.text(device, key, Some(group)),
                (None, None) => self.want(key),
            }
        }
    }

    /// A physical volume went.
    pub(super) fn remove(&mut self, device: DeviceNumber, found: &PvDevice) {
        self.work += 1;
        if let Some(devices) = self.carriers.get_mut(&found.pv) {
            devices.remove(&device);
            if devices.is_empty() {
                self.carriers.remove(&found.pv);
            }
        }
        self.touch_listing(found.pv);
        if found.texts.is_empty() {
            self.remove_bare(found.pv);
        }
        for &key in &found.texts {
            self.drop_holder(device, found.pv, key);
        }
    }

    fn drop_holder(&mut self, device: DeviceNumber, pv: LvmId, key: TextKey) {
        self.forget_question(device, key);
        let Some(text) = self.texts.get_mut(&key) else { return };
        text.holders.remove(&device);
        text.failed.remove(&device);
        let (group, last) = (text.group.clone(), text.holders.is_empty());
        if last {
            self.texts.remove(&key);
        }
        match group {
            Some(group) => self.detach(pv, key, &group, last),
            None if !last => self.want(key),
            None => {}
        }
    }

    /// Asks one device that carries a text for it, unless one is being asked.
    fn want(&mut self, key: TextKey) {
        let Some(text) = self.texts.get_mut(&key) else { return };
        let mut left = text.holders.keys().filter(|device| !text.failed.contains(device));
        if let (None, None, Some(&device)) = (&text.group, text.asked, left.next()) {
            text.asked = Some(device);
            self.questions += 1;
            self.wanted.push((device, key));
        }
    }

    fn forget_question(&mut self, device: DeviceNumber, key: TextKey) {
        if let Some(text) = self.texts.get_mut(&key).filter(|text| text.asked == Some(device)) {
            text.asked = None;
            self.questions -= 1;
        }
    }

    /// A text was read from a device, or could not be.
    pub(super) fn text(
        &mut self,
        device: DeviceNumber,
        key: TextKey,
        group: Option<&Arc<VolumeGroup>>,
    ) {
        let asked = self.texts.get(&key).and_then(|text| text.asked);
        self.forget_question(asked.filter(|_| group.is_some()).unwrap_or(device), key);
        let Some(text) = self.texts.get_mut(&key).filter(|text| text.group.is_none()) else {
            return;
        };
        let Some(group) = group else {
            text.failed.insert(device);
            return self.want(key);
        };
        text.group = Some(group.clone());
        let holders: Vec<LvmId> = text.holders.values().copied().collect();
        holders.into_iter().for_each(|pv| self.attach(pv, key, group));
    }

    /// The device that is being asked for a text.
    pub(super) fn asked(&self, key: TextKey) -> Option<DeviceNumber> {
        self.texts.get(&key)?.asked
    }

    /// True when a text was asked for and no answer came yet.
    pub(super) fn is_waiting_for_text(&self) -> bool {
        self.questions > 0
    }

    fn add_bare(&mut self, pv: LvmId) {
        let count = self.bare.entry(pv).or_default();
        *count += 1;
        if *count == 1 {
            self.member_may_change(pv);
        }
    }

    fn remove_bare(&mut self, pv: LvmId) {
        let Some(count) = self.bare.get_mut(&pv) else { return };
        *count -= 1;
        if *count == 0 {
            self.bare.remove(&pv);
            self.member_may_change(pv);
        }
    }

    /// Looks again whether a PVID is there in each group that lists it.
    fn member_may_change(&mut self, pv: LvmId) {
        let bare = self.bare.contains_key(&pv);
        for vg in self.listed.get(&pv).into_iter().flatten() {
            let group = self.groups.get_mut(vg).expect("only groups list members");
            self.work += group.update(pv, bare);
        }
    }

    /// Reports may change for every group that lists a PVID (a second device with it).
    fn touch_listing(&mut self, pv: LvmId) {
        self.touched.extend(self.listed.get(&pv).into_iter().flatten());
    }

    /// A device with `pv` carries `key`, a text of `text`'s group.
    fn attach(&mut self, pv: LvmId, key: TextKey, text: &Arc<VolumeGroup>) {
        let group = self.groups.entry(text.id).or_default();
        *group.carriers.entry(pv).or_default() += 1;
        self.touched.insert(text.id);
        if group.texts.insert(key, text.clone()).is_none() {
            let before = group.truth_key();
            group.ranks.insert((text.seqno, Reverse(key)));
            if group.truth_key() != before {
                return self.rebuild(text.id, before);
            }
        }
        let bare = self.bare.contains_key(&pv);
        self.work += self.groups.get_mut(&text.id).map_or(0, |group| group.update(pv, bare));
    }

    /// The reverse; `last`: nobody carries the text any more.
    fn detach(&mut self, pv: LvmId, key: TextKey, text: &Arc<VolumeGroup>, last: bool) {
        let Some(group) = self.groups.get_mut(&text.id) else { return };
        self.touched.insert(text.id);
        if let Some(count) = group.carriers.get_mut(&pv) {
            *count -= 1;
            if *count == 0 {
                group.carriers.remove(&pv);
            }
        }
        if last {
            let before = group.truth_key();
            group.texts.remove(&key);
            group.ranks.remove(&(text.seqno, Reverse(key)));
            if group.truth_key() != before {
                return self.rebuild_from(text.id, text);
            }
        }
        let bare = self.bare.contains_key(&pv);
        self.work += self.groups.get_mut(&text.id).map_or(0, |group| group.update(pv, bare));
    }

    fn rebuild(&mut self, vg: LvmId, before: Option<TextKey>) {
        let old = before.and_then(|key| self.groups.get(&vg)?.texts.get(&key).cloned());
        if let Some(old) = old {
            self.unlist(vg, &old);
        }
        self.list(vg);
    }

    fn rebuild_from(&mut self, vg: LvmId, old: &Arc<VolumeGroup>) {
        self.unlist(vg, old);
        self.list(vg);
    }

    fn unlist(&mut self, vg: LvmId, old: &VolumeGroup) {
        if let Some(count) = self.named.get_mut(&old.name) {
            *count -= 1;
            if *count == 0 {
                self.named.remove(&old.name);
            }
        }
        for member in &old.members {
            self.work += 1;
            if let Some(groups) = self.listed.get_mut(&member.id) {
                groups.remove(&vg);
                if groups.is_empty() {
                    self.listed.remove(&member.id);
                }
            }
        }
    }

    /// Takes a group's true text into force, or forgets a group that nobody carries.
    fn list(&mut self, vg: LvmId) {
        let Some(group) = self.groups.get_mut(&vg) else { return };
        let Some(truth) = group.truth().cloned() else {
            self.groups.remove(&vg);
            return;
        };
        *self.named.entry(truth.name.clone()).or_default() += 1;
        for member in &truth.members {
            self.work += 1;
            self.listed.entry(member.id).or_default().insert(vg);
        }
        let bare = &self.bare;
        self.work += group.rebuild(&truth, self.per_volume, &|pv| bare.contains_key(&pv));
    }

    /// How many groups are called so.
    pub(super) fn count_of_name(&self, name: &str) -> u32 {
        self.named.get(name).copied().unwrap_or(0)
    }

    pub(super) fn get(&self, vg: LvmId) -> Option<&Group> {
        self.groups.get(&vg)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = LvmId> {
        self.groups.keys().copied()
    }

    /// Devices with a PVID, the lowest number first.
    pub(super) fn devices_of(&self, pv: LvmId) -> impl Iterator<Item = DeviceNumber> {
        self.carriers.get(&pv).into_iter().flatten().copied()
    }

    /// Groups that list a PVID.
    pub(super) fn groups_of(&self, pv: LvmId) -> impl Iterator<Item = LvmId> {
        self.listed.get(&pv).into_iter().flatten().copied()
    }

    /// The group that a text describes, when it was read.
    pub(super) fn group_of_text(&self, key: TextKey) -> Option<&Arc<VolumeGroup>> {
        self.texts.get(&key)?.group.as_ref()
    }
}

impl Group {
    fn truth_key(&self) -> Option<TextKey> {
        self.ranks.last().map(|(_, Reverse(key))| *key)
    }

    /// The text in force.
    pub(super) fn truth(&self) -> Option<&Arc<VolumeGroup>> {
        self.texts.get(&self.truth_key()?)
    }

    /// Two texts claim to be the newest.
    pub(super) fn has_two_truths(&self) -> bool {
        let mut newest = self.ranks.iter().rev().map(|(seqno, _)| *seqno);
        newest.next().is_some_and(|seqno| newest.next() == Some(seqno))
    }

    fn is_there(&self, pv: LvmId, bare: bool) -> bool {
        bare || self.carriers.contains_key(&pv)
    }

    /// Makes all counters anew; returns how much was looked at.
    fn rebuild(
        &mut self,
        truth: &VolumeGroup,
        per_volume: bool,
        bare: &dyn Fn(LvmId) -> bool,
    ) -> u64 {
        let ids = || truth.members.iter().map(|member| member.id);
        self.numbers = ids().zip(0..).collect();
        self.present = ids().map(|pv| self.is_there(pv, bare(pv))).collect();
        self.missing = self.present.iter().filter(|there| !**there).count() as u64;
        self.volumes = per_volume.then(|| Volumes::new(truth));
        let mut work = truth.members.len() as u64;
        for (number, _) in self.present.iter().enumerate().filter(|(_, there)| **there) {
            work += self.volumes.as_mut().map_or(0, |volumes| volumes.member_came(number));
        }
        work
    }

    /// Looks again whether a PVID is there; returns how much was looked at.
    fn update(&mut self, pv: LvmId, bare: bool) -> u64 {
        let now = self.is_there(pv, bare);
        let Some(&number) = self.numbers.get(&pv) else { return 1 };
        let Some(there) = self.present.get_mut(number as usize) else { return 1 };
        if *there == now {
            return 1;
        }
        *there = now;
        let volumes = self.volumes.as_mut();
        if now {
            self.missing -= 1;
            1 + volumes.map_or(0, |volumes| volumes.member_came(number as usize))
        } else {
            self.missing += 1;
            1 + volumes.map_or(0, |volumes| volumes.member_went(number as usize))
        }
    }

    /// True for a member of the text in force.
    pub(super) fn lists(&self, pv: LvmId) -> bool {
        self.numbers.contains_key(&pv)
    }

    /// True for a member that the text in force takes for lost.
    pub(super) fn has_written_off(&self, pv: LvmId) -> bool {
        let number = self.numbers.get(&pv);
        number.zip(self.truth()).is_some_and(|(&number, truth)| truth.is_written_off(number))
    }

    /// Numbers of the members that are missing.
    pub(super) fn missing_members(&self) -> impl Iterator<Item = usize> {
        self.present.iter().enumerate().filter(|(_, there)| !**there).map(|(number, _)| number)
    }

    pub(super) fn is_present(&self, number: u32) -> bool {
        self.present.get(number as usize).copied().unwrap_or(false)
    }

    /// Numbers of the volumes that have all they lie on; nothing when volumes are not counted.
    pub(super) fn complete_volumes(&self) -> impl Iterator<Item = usize> {
        let counters = self.volumes.iter().flat_map(|volumes| volumes.missing.iter().enumerate());
        counters.filter(|(_, missing)| **missing == 0).map(|(number, _)| number)
    }
}

impl Volumes {
    /// All members are absent.
    fn new(truth: &VolumeGroup) -> Volumes {
        let mut out = Volumes {
            missing: vec![0; truth.volumes.len()],
            written_off: truth.members.iter().map(|member| member.written_off).collect(),
            users_of_member: vec![Vec::new(); truth.members.len()],
            users_of_volume: vec![Vec::new(); truth.volumes.len()],
        };
        for (number, volume) in truth.volumes.iter().enumerate() {
            for part in volume.all_parts() {
                let users = match part {
                    Part::Member(member) => &mut out.users_of_member[member as usize],
                    Part::Volume(below) => &mut out.users_of_volume[below as usize],
                };
                users.push(number as u32);
                out.missing[number] += 1;
            }
        }
        // A volume that lies on nothing is complete from the start.
        let ready = (0..out.missing.len() as u32).filter(|&v| out.missing[v as usize] == 0);
        let ready: Vec<u32> = ready.collect();
        for volume in ready {
            let users = out.users_of_volume[volume as usize].clone();
            out.less_missing(users);
        }
        out
    }

    fn member_came(&mut self, number: usize) -> u64 {
        let users = self.users_of(number);
        self.less_missing(users)
    }

    /// Volumes for which it matters whether a member is there.
    fn users_of(&self, member: usize) -> Vec<u32> {
        match self.written_off.get(member) {
            Some(false) => self.users_of_member.get(member).cloned().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Counts down for each user; what becomes complete counts down for its own.
    fn less_missing(&mut self, mut work: Vec<u32>) -> u64 {
        let mut done = 0;
        while let Some(volume) = work.pop() {
            done += 1;
            let missing = &mut self.missing[volume as usize];
            *missing -= 1;
            if *missing == 0 {
                work.extend(&self.users_of_volume[volume as usize]);
            }
        }
        done
    }

    fn member_went(&mut self, number: usize) -> u64 {
        let mut work = self.users_of(number);
        let mut done = 0;
        while let Some(volume) = work.pop() {
            done += 1;
            let missing = &mut self.missing[volume as usize];
            *missing += 1;
            if *missing == 1 {
                work.extend(&self.users_of_volume[volume as usize]);
            }
        }
        done
    }
}
