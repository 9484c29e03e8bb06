//! What the manager is told: puts together what sysfs, udev, the scan and the index know of a
//! device. With udev its links, tags and readiness are the truth; without it they follow from the
//! scan, and the links are made here.

use warren_wire::device_link::{DeviceFacts, GroupFacts};

use super::Daemon;
use crate::activate;
use crate::index::{
    Device, DeviceNumber, GroupId, GroupState, Holder, MissingMember, NotReady, Role,
};
use crate::lvm::LvmId;
use crate::names;
use crate::orders::ExecutorOrder;
use crate::others::{self, OtherEvent};
use crate::sysfs::{self, BlockDevice};
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
        let Some(found) = self.found.get(&number).cloned() else {
            return self.forget_nodes(number);
        };
        self.look_for_nodes(&found);
        let device = self.index.device(number).cloned();
        let group = device.as_ref().and_then(|device| self.index.group_of(device));
        let told = self.told_of(&found, device.as_ref(), group);
        if !self.follows_udev(&found) {
            let links = told.names.iter().map(|(name, _)| name.as_str());
            let node = self.node_below_dev(&found);
            let orders = self.links.keep(number, &node, links);
            // Disks of one file system have its name together.
            let clashes = self.links.take_clashes().into_iter().filter(|_| group.is_none());
            clashes.for_each(|line| self.log(line));
            orders.into_iter().for_each(|order| self.order(order));
        }
        // What udev has looked at and gave no tag has no unit.
        match self.follows_udev(&found) && found.is_initialized && !found.words.is_tagged {
            true => self.teller.gone(&told.path),
            false => self.teller.device(told),
        }
        self.touch(group);
    }

    /// The group is to be told of at the end of the turn.
    pub(super) fn touch(&mut self, group: Option<GroupId>) {
        self.touched_groups.extend(group);
        self.unkept.extend(group.filter(|id| matches!(id, GroupId::Lvm(_) | GroupId::Md(_))));
    }

    /// Keeps what was started, for a daemon that takes this one's place.
    pub(super) fn keep_begun(&mut self) {
        for group in std::mem::take(&mut self.unkept) {
            let is_decided =
                self.index.result(group).is_some() || self.index.state(group).is_none();
            let begun = self.index.begun(group).cloned();
            if !is_decided || self.kept.get(&group) == begun.as_ref() {
                continue;
            }
            self.order(ExecutorOrder::Keep(group, begun.clone()));
            match begun {
                Some(begun) => drop(self.kept.insert(group, begun)),
                None => drop(self.kept.remove(&group)),
            }
        }
    }

    /// What was started before this daemon and is not there any more is started when it comes back.
    /// That it is not there is known when each disk has been read.
    pub(super) fn forget_absent(&mut self) {
        if self.has_absent && self.is_settled() && self.unread.is_empty() {
            self.has_absent = false;
            let absent = self.index.forget_absent();
            self.unkept.extend(absent);
        }
    }

    pub(super) fn tell_gone(&mut self, found: &BlockDevice, group: Option<GroupId>) {
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
            Some(OtherEvent::There(told)) => {
                let path = told.path.clone();
                self.teller.device(told);
                if event.action == crate::uevent::Action::Change {
                    self.teller.changed(&path);
                }
            }
            Some(OtherEvent::Gone(path)) => self.teller.gone(&path),
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

    fn told_of(
        &self,
        found: &BlockDevice,
        device: Option<&Device>,
        group: Option<GroupId>,
    ) -> DeviceFacts {
        let details = self.details.get(&found.number);
        DeviceFacts {
            path: place(found),
            diskseq: found.diskseq,
            is_unknown: self.is_unknown(found, device, group),
            names: self.names_of(found),
            ready: match self.follows_udev(found) {
                true => found.is_initialized && !found.words.is_held_back,
                false => self.is_ready(found, device, group),
            },
            wants: found.words.wants.clone(),
            binds_mounts: found.words.binds_mounts,
            title: found.words.title.clone(),
            note: details.map_or_else(String::new, |details| details.what.clone()),
            size_bytes: details.map_or(0, |details| details.size_bytes),
            part_of: group.map(|group| group.to_string()),
            made_of: made_of(found)
                .or_else(|| self.group_below(found))
                .map(|group| group.to_string()),
        }
    }

    /// It is there, and it cannot be said yet what it is: whoever was told before, by another
    /// process of this daemon or before this disk fell silent, keeps to that.
    fn is_unknown(
        &self,
        found: &BlockDevice,
        device: Option<&Device>,
        group: Option<GroupId>,
    ) -> bool {
        if self.follows_udev(found) {
            return !found.is_initialized;
        }
        let is_nameless = || found.name.starts_with("md") && self.group_below(found).is_none();
        let may_have_more = || match group {
            Some(group @ GroupId::Btrfs(_)) => {
                let is_late = !self.is_whole(Some(group)) && !self.index.was_complete(group);
                is_late && !self.unread.is_empty()
            }
            _ => is_nameless() && found.words.lies_on.iter().any(|leg| self.is_unread(leg)),
        };
        device.is_none_or(|device| self.is_to_be_read(device))
            || self.is_nodeless(found.number)
            || self.is_being_told(group)
            || may_have_more()
    }

    /// It is not known what is on a device, and it would count.
    pub(super) fn is_to_be_read(&self, device: &Device) -> bool {
        match device.role {
            Role::Unread => device.facts.not_ready == Some(NotReady::MapperSuspended),
            Role::TimedOut | Role::Unreadable(_) => {
                !self.content_links.contains_key(&device.number)
            }
            _ => false,
        }
    }

    fn is_unread(&self, name: &str) -> bool {
        self.names.get(name).is_none_or(|number| self.unread.contains(number))
    }

    /// It is known what is on a device, or it went. When nothing is unread any more, what waits
    /// for a part waits in earnest.
    pub(super) fn was_read(&mut self, number: DeviceNumber) {
        if !self.unread.remove(&number) || !self.unread.is_empty() {
            return;
        }
        let waits =
            |group: &GroupId| matches!(self.index.state(*group), Some(GroupState::Waiting { .. }));
        let waiting: Vec<GroupId> = self.index.filesystems().filter(waits).collect();
        waiting.into_iter().for_each(|group| self.tell_all_of(group));
    }

    /// The kernel is being told of parts of this file system.
    fn is_being_told(&self, group: Option<GroupId>) -> bool {
        let Some(group @ GroupId::Btrfs(_)) = group else { return false };
        self.hands.as_ref().is_some_and(|hands| hands.is_busy_with(group))
    }

    /// The group of what a stacked device lies on.
    fn group_below(&self, found: &BlockDevice) -> Option<GroupId> {
        let group = |name| self.index.group_of(self.index.device(*self.names.get(name)?)?);
        found.words.lies_on.iter().find_map(group)
    }

    /// What a leg says of its array is news of the array, too.
    pub(super) fn tell_array_of(&mut self, leg: &BlockDevice) {
        if leg.facts.held_by != Holder::Raid {
            return;
        }
        let arrays = self.names.range("md".to_owned().."me".to_owned()).map(|(_, number)| *number);
        let lies_on_it = |number: &DeviceNumber| {
            self.found.get(number).is_some_and(|found| found.words.lies_on.contains(&leg.name))
        };
        let arrays: Vec<DeviceNumber> = arrays.filter(lies_on_it).collect();
        arrays.into_iter().for_each(|array| self.tell(array));
    }

    pub(super) fn node_below_dev(&self, found: &BlockDevice) -> String {
        let node = found.node.strip_prefix(&self.options.roots.dev).unwrap_or(&found.node);
        node.display().to_string()
    }

    fn names_of(&self, found: &BlockDevice) -> Vec<(String, i32)> {
        let mut names = vec![(format!("/dev/{}", self.node_below_dev(found)), 0)];
        let mut link = |link: &String| {
            let name = (format!("/dev/{link}"), found.link_priority);
            if !names.contains(&name) {
                names.push(name);
            }
        };
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
                // What a leg seems to hold is what its array holds.
                if found.facts.held_by == Holder::None {
                    let links = self.content_links.get(&found.number);
                    links.into_iter().flatten().for_each(&mut link);
                }
                // A udev that is down now has left its word.
                found.links.iter().for_each(&mut link);
            }
        }
        names.extend(found.words.aliases.iter().map(|alias| (alias.clone(), 0)));
        names
    }

    /// Without udev: a device counts when it holds something and what is on it is known, and one
    /// of a file system on several when all of them are there.
    fn is_ready(
        &self,
        found: &BlockDevice,
        device: Option<&Device>,
        group: Option<GroupId>,
    ) -> bool {
        if found.facts.not_ready.is_some() || self.is_nodeless(found.number) {
            return false;
        }
        let is_known = device.is_some_and(|device| match device.role {
            Role::Unread => Device::refusal_unread(&found.facts).is_some(),
            _ => true,
        });
        is_known && (self.is_whole(group) || self.is_in_use(found, group))
    }

    /// All parts of a file system on several devices are there, and the kernel knows them.
    fn is_whole(&self, group: Option<GroupId>) -> bool {
        let Some(group @ GroupId::Btrfs(_)) = group else { return true };
        !self.is_being_told(Some(group)) && self.index.state(group) == Some(GroupState::Complete)
    }

    /// The kernel has mounted it, with all its parts or without.
    fn is_in_use(&self, found: &BlockDevice, group: Option<GroupId>) -> bool {
        let Some(GroupId::Btrfs(id)) = group else { return false };
        sysfs::is_mounted_btrfs(&self.options.roots, &id.to_string(), &found.name)
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
        let word = id.to_string();
        let Some(state) = self.index.state(id) else { return self.teller.group_gone(&word) };
        let is_starting = self.hands.is_some() && self.index.is_starting(id);
        let name = self.group_name(id);
        let told = GroupFacts { name, id: word, is_starting, ..GroupFacts::default() };
        if !self.teller.knows_group(&told.id) {
            // Which group they are in was not known when they were told of.
            self.index.members(id).into_iter().for_each(|member| self.tell(member));
        }
        let (is_up, text) = self.standing(id, &state);
        self.teller.group(GroupFacts { is_up, state: text, ..told });
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
        let some: Vec<MissingMember> = self.index.missing(vg).take(NAMED_MAX + 1).collect();
        let words = some.iter().take(NAMED_MAX).map(|member| match &*member.last_seen {
            "" => format!("PV {}", member.id),
            seen => format!("PV {} (last seen as {seen})", member.id),
        });
        let words: Vec<String> = words.collect();
        let more = if some.len() > NAMED_MAX { ", ..." } else { "" };
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
fn place(found: &BlockDevice) -> String {
    format!("/sys{}", found.path)
}

/// The group that a logical volume is of stands in the identifier that lvm2 gives it.
fn made_of(found: &BlockDevice) -> Option<GroupId> {
    let ids = found.facts.dm_uuid.strip_prefix("LVM-")?;
    LvmId::parse(ids.get(..32)?).map(GroupId::Lvm)
}

fn identifier(id: GroupId) -> String {
    match id {
        GroupId::Lvm(vg) => vg.to_string(),
        GroupId::Md(uuid) | GroupId::Btrfs(uuid) | GroupId::Luks(uuid) => uuid.to_string(),
    }
}
