//! What the manager is told: puts together what sysfs, udev, the scan and the index know of a
//! device. With udev its links, tags and readiness are the truth; without it they follow from the
//! scan, and the links are made here.

use super::Daemon;
use crate::activate;
use crate::index::{Device, DeviceNumber, GroupId, GroupState, Role};
use crate::lvm::LvmId;
use crate::names;
use crate::news::{Told, ToldGroup};
use crate::others::{self, Heard};
use crate::sysfs::Found;
use crate::uevent::Uevent;

/// Missing members that are named in one line.
const NAMED_MAX: usize = 3;

impl Daemon {
    /// The next message for the manager, if there is anything to tell.
    pub fn message(&mut self) -> Option<String> {
        for group in std::mem::take(&mut self.touched_groups) {
            self.tell_group(group);
        }
        self.teller.message()
    }

    /// Everything is to be told again, from the beginning.
    pub fn tell_all(&mut self) {
        self.teller.tell_all();
    }

    /// How a device is now, and the group that it is in.
    pub(super) fn tell(&mut self, number: DeviceNumber) {
        let Some(found) = self.found.get(&number).cloned() else { return };
        let device = self.index.device(number).cloned();
        let group = device.as_ref().and_then(|device| self.index.group_of(device));
        let told = self.told_of(&found, device.as_ref(), group);
        if !self.follows_udev(&found) {
            let links = told.names.iter().map(|(name, _)| name.as_str());
            let node = self.node_below_dev(&found);
            let orders = self.links.keep(number, &node, links);
            orders.into_iter().for_each(|order| self.order(order));
        }
        match self.follows_udev(&found) && !(found.words.is_tagged && found.is_initialized) {
            true => self.teller.gone(&told.path),
            false => self.teller.device(told),
        }
        self.touch(group);
    }

    /// The group is to be told of at the end of the turn.
    pub(super) fn touch(&mut self, group: Option<GroupId>) {
        self.touched_groups.extend(group);
    }

    pub(super) fn tell_gone(&mut self, found: &Found, group: Option<GroupId>) {
        self.teller.gone(&place(found));
        let orders = self.links.drop_all(found.number);
        orders.into_iter().for_each(|order| self.order(order));
        self.content_links.remove(&found.number);
        self.touch(group);
    }

    /// Others follow a change of the device, whatever it was.
    pub(super) fn tell_changed(&mut self, event: &Uevent) {
        self.teller.changed(&format!("/sys{}", event.path));
    }

    /// An event of what is no disk.
    pub(super) fn hear_other(&mut self, event: &Uevent) {
        match others::heard(event, self.options.udev) {
            Some(Heard::There(told)) => {
                let path = told.path.clone();
                self.teller.device(told);
                if event.action == crate::uevent::Action::Change {
                    self.teller.changed(&path);
                }
            }
            Some(Heard::Gone(path)) => self.teller.gone(&path),
            None => {}
        }
    }

    /// Looks at all that are no disks. What a late udev has not told of stays.
    pub(super) fn look_at_others(&mut self) {
        let there = others::list(&self.options.roots, self.options.udev);
        let paths = there.iter().map(|told| told.path.clone()).collect();
        for path in std::mem::replace(&mut self.others, paths) {
            match self.others.contains(&path) {
                false if self.udev_is_late => drop(self.others.insert(path)),
                false => self.teller.gone(&path),
                true => {}
            }
        }
        there.into_iter().for_each(|told| self.teller.device(told));
    }

    fn told_of(&self, found: &Found, device: Option<&Device>, group: Option<GroupId>) -> Told {
        let details = self.details.get(&found.number);
        Told {
            path: place(found),
            names: self.names_of(found),
            ready: match self.follows_udev(found) {
                true => !found.words.is_held_back,
                false => self.is_ready(found, device, group),
            },
            wants: found.words.wants.clone(),
            note: details.map_or_else(String::new, |details| details.what.clone()),
            size_bytes: details.map_or(0, |details| details.size_bytes),
            part_of: group.map(group_word),
            made_of: made_of(found).or_else(|| self.group_below(found)).map(group_word),
        }
    }

    /// The group of what a stacked device lies on.
    fn group_below(&self, found: &Found) -> Option<GroupId> {
        let name = found.words.lies_on.as_ref()?;
        self.index.group_of(self.index.device(*self.names.get(name)?)?)
    }

    pub(super) fn node_below_dev(&self, found: &Found) -> String {
        let node = found.node.strip_prefix(&self.options.roots.dev).unwrap_or(&found.node);
        node.display().to_string()
    }

    fn names_of(&self, found: &Found) -> Vec<(String, i32)> {
        let mut names = vec![(format!("/dev/{}", self.node_below_dev(found)), 0)];
        let mut link = |link: &String| names.push((format!("/dev/{link}"), found.link_priority));
        match self.follows_udev(found) {
            true => found.links.iter().for_each(&mut link),
            false => {
                let (uuid, name) = &found.words.partition;
                names::by_partition(uuid, name).iter().for_each(&mut link);
                let mapper = names::by_mapper(&found.words.mapper_name, &found.facts.dm_uuid);
                mapper.iter().for_each(&mut link);
                let array = found.name.starts_with("md").then(|| self.group_below(found)).flatten();
                let array = array.and_then(|group| activate::array_name(&self.index, group));
                array.iter().map(|name| format!("md/{name}")).for_each(|name| link(&name));
                self.content_links.get(&found.number).into_iter().flatten().for_each(&mut link);
            }
        }
        names.extend(found.words.aliases.iter().map(|alias| (alias.clone(), 0)));
        names
    }

    /// Without udev: a device counts when it holds something and what is on it is known, and one
    /// of a file system on several when all of them are there.
    fn is_ready(&self, found: &Found, device: Option<&Device>, group: Option<GroupId>) -> bool {
        if found.facts.not_ready.is_some() {
            return false;
        }
        let is_known = device.is_some_and(|device| match device.role {
            Role::Unread => Device::refusal_unread(&found.facts).is_some(),
            _ => true,
        });
        is_known && self.is_whole(group)
    }

    /// All parts of a file system on several devices are there, and the kernel knows them.
    fn is_whole(&self, group: Option<GroupId>) -> bool {
        let Some(group @ GroupId::Btrfs(_)) = group else { return true };
        let is_busy = self.hands.as_ref().is_some_and(|hands| hands.is_busy_with(group));
        !is_busy && self.index.state(group) == Some(GroupState::Complete)
    }

    /// Members of a file system on several devices become ready together.
    pub(super) fn tell_members(&mut self, number: DeviceNumber) {
        let Some(device) = self.index.device(number) else { return };
        if let Some(group) = self.index.group_of(device) {
            self.tell_all_of(group);
        }
    }

    /// The same of a group, which need not be one of those.
    pub(super) fn tell_all_of(&mut self, group: GroupId) {
        if let GroupId::Btrfs(_) = group {
            self.index.members(group).into_iter().for_each(|member| self.tell(member));
        }
    }

    fn tell_group(&mut self, id: GroupId) {
        let word = group_word(id);
        let Some(state) = self.index.state(id) else { return self.teller.group_gone(&word) };
        let told =
            ToldGroup { name: self.group_name(id), state: String::new(), id: word, is_up: false };
        if !self.teller.knows_group(&told.id) {
            // Which group they are in was not known when they were told of.
            self.index.members(id).into_iter().for_each(|member| self.tell(member));
        }
        let (is_up, text) = self.standing(id, &state);
        self.teller.group(ToldGroup { is_up, state: text, ..told });
    }

    fn standing(&self, id: GroupId, state: &GroupState) -> (bool, String) {
        if let Some(Err(why)) = self.index.result(id) {
            return (false, format!("its start failed: {why}"));
        }
        match state {
            GroupState::Held(hold) => (false, hold.to_string()),
            GroupState::Waiting { missing, of } => {
                (false, format!("{} of {of} there{}", of - missing, self.missing_words(id)))
            }
            GroupState::Complete => match (self.index.result(id), id) {
                (None, GroupId::Lvm(_) | GroupId::Md(_)) => (false, "complete".to_owned()),
                _ => (self.is_whole(Some(id)), "complete".to_owned()),
            },
        }
    }

    fn missing_words(&self, id: GroupId) -> String {
        let GroupId::Lvm(vg) = id else { return String::new() };
        let missing = self.index.missing(vg);
        let words = missing.iter().take(NAMED_MAX).map(|member| match &*member.last_seen {
            "" => format!("PV {}", member.id),
            seen => format!("PV {} (last seen as {seen})", member.id),
        });
        let words: Vec<String> = words.collect();
        let more = if missing.len() > NAMED_MAX { ", ..." } else { "" };
        format!(", waits for {}{more}", words.join(", "))
    }

    fn group_name(&self, id: GroupId) -> String {
        let (kind, name) = match id {
            GroupId::Lvm(vg) => ("vg", self.index.volume_group(vg).map(|group| group.name.clone())),
            GroupId::Md(_) => ("md", activate::array_name(&self.index, id)),
            GroupId::Btrfs(_) => ("btrfs", None),
            GroupId::Luks(uuid) => {
                ("luks", self.index.policy().crypt_name(uuid).map(str::to_owned))
            }
        };
        format!("{kind} {}", name.unwrap_or_else(|| identifier(id)))
    }
}

/// Where a device is, as units are named.
fn place(found: &Found) -> String {
    format!("/sys{}", found.path)
}

/// The group that a logical volume is of stands in the identifier that lvm2 gives it.
fn made_of(found: &Found) -> Option<GroupId> {
    let ids = found.facts.dm_uuid.strip_prefix("LVM-")?;
    LvmId::parse(ids.get(..32)?).map(GroupId::Lvm)
}

fn identifier(id: GroupId) -> String {
    match id {
        GroupId::Lvm(vg) => vg.to_string(),
        GroupId::Md(uuid) | GroupId::Btrfs(uuid) | GroupId::Luks(uuid) => uuid.to_string(),
    }
}

fn group_word(id: GroupId) -> String {
    let kind = match id {
        GroupId::Lvm(_) => "vg",
        GroupId::Md(_) => "md",
        GroupId::Btrfs(_) => "btrfs",
        GroupId::Luks(_) => "luks",
    };
    format!("{kind}:{}", identifier(id))
}
