//! What the manager is told of devices: one message for all that happened in a turn. Pure.
//!
//! The text of a message has a line for each word about a device, after a line `device PATH` that
//! begins it; `gone PATH` for one that went and `changed PATH` for one of which the kernel told a
//! change; the same for groups. `whole` says that it tells of all there is. A device that is there
//! and of which it cannot be said yet what it is has the word `unknown`. Nothing in it needs quoting: paths of sysfs and names of links have no line
//! breaks, and what people called their disks is made printable before.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::printable;

/// A device as the manager is told of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Its place, `/sys/devices/...`.
    pub path: String,
    /// See [`crate::index::Device::diskseq`].
    pub diskseq: u64,
    /// It is there, and it cannot be said yet what it is: what was told of it before, by whomever,
    /// holds.
    pub is_unknown: bool,
    /// Node, links and aliases with their priorities, as absolute paths.
    pub names: Vec<(String, i32)>,
    /// It counts as there.
    pub ready: bool,
    /// Units that it wants (`SYSTEMD_WANTS=`).
    pub wants: Vec<String>,
    /// Mounts of it that are made by hand go with it (`SYSTEMD_MOUNT_DEVICE_BOUND=`).
    pub binds_mounts: bool,
    /// What is on it.
    pub note: String,
    /// What people call it: its model and its label.
    pub title: String,
    /// Size in bytes; 0 where it is not known.
    pub size_bytes: u64,
    /// Identifier of the group that it is a part of.
    pub part_of: Option<String>,
    /// Identifier of the group that it is made from.
    pub made_of: Option<String>,
}

/// A group as the manager is told of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToldGroup {
    /// Kind and identifier.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// It is started, or needs no start.
    pub is_up: bool,
    /// Its start is under way.
    pub is_starting: bool,
    /// How it stands.
    pub state: String,
}

/// Remembers what was told, so that only what is new is told again.
#[derive(Debug, Default)]
pub struct Teller {
    devices: BTreeMap<String, Told>,
    groups: BTreeMap<String, ToldGroup>,
    fresh: BTreeSet<String>,
    fresh_groups: BTreeSet<String>,
    changed: BTreeSet<String>,
    was_asked: bool,
    /// All of the first pass is one message.
    is_open: bool,
}

impl Teller {
    /// From here on there is something to tell: all there is.
    pub fn open(&mut self) {
        if !std::mem::replace(&mut self.is_open, true) {
            self.was_asked = true;
        }
    }

    /// Everything is to be told again.
    pub fn tell_all(&mut self) {
        self.was_asked = true;
    }

    /// How a device is now.
    pub fn device(&mut self, told: Told) {
        let before = self.devices.get(&told.path);
        let holds =
            |before: &Told| told.is_unknown && !before.is_unknown && before.diskseq == told.diskseq;
        if !before.is_some_and(holds) && before != Some(&told) {
            self.fresh.insert(told.path.clone());
            self.devices.insert(told.path.clone(), told);
        }
    }

    /// The kernel told of a change of it: others may follow that, whatever it was.
    pub fn changed(&mut self, path: &str) {
        if self.devices.contains_key(path) {
            self.fresh.insert(path.to_owned());
            self.changed.insert(path.to_owned());
        }
    }

    /// A device is gone.
    pub fn gone(&mut self, path: &str) {
        if self.devices.remove(path).is_some() {
            self.fresh.insert(path.to_owned());
        }
    }

    /// How a group is now.
    pub fn group(&mut self, told: ToldGroup) {
        if self.groups.get(&told.id) != Some(&told) {
            self.fresh_groups.insert(told.id.clone());
            self.groups.insert(told.id.clone(), told);
        }
    }

    /// Whether the group was told of.
    pub fn knows_group(&self, id: &str) -> bool {
        self.groups.contains_key(id)
    }

    /// A group has no members any more.
    pub fn group_gone(&mut self, id: &str) {
        if self.groups.remove(id).is_some() {
            self.fresh_groups.insert(id.to_owned());
        }
    }

    /// The next message, if there is anything to tell.
    pub fn message(&mut self) -> Option<String> {
        if !self.is_open || !self.was_asked && self.fresh.is_empty() && self.fresh_groups.is_empty()
        {
            return None;
        }
        let mut out = String::new();
        let (fresh, fresh_groups) =
            (std::mem::take(&mut self.fresh), std::mem::take(&mut self.fresh_groups));
        let changed = std::mem::take(&mut self.changed);
        if std::mem::take(&mut self.was_asked) {
            out += "whole\n";
            self.devices.values().for_each(|told| write_device(&mut out, told));
            self.groups.values().for_each(|told| write_group(&mut out, told));
            return Some(out);
        }
        changed.iter().for_each(|path| out += &format!("changed {path}\n"));
        for path in fresh {
            match self.devices.get(&path) {
                Some(told) => write_device(&mut out, told),
                None => out += &format!("gone {path}\n"),
            }
        }
        for id in fresh_groups {
            match self.groups.get(&id) {
                Some(told) => write_group(&mut out, told),
                None => out += &format!("nogroup {id}\n"),
            }
        }
        Some(out)
    }
}

fn write_device(out: &mut String, told: &Told) {
    *out += &format!("device {}\n", printable(&told.path));
    if told.diskseq > 0 {
        *out += &format!("seq {}\n", told.diskseq);
    }
    for (name, priority) in &told.names {
        *out += &format!("name {priority} {}\n", printable(name));
    }
    let words =
        [(told.ready, "ready\n"), (told.is_unknown, "unknown\n"), (told.binds_mounts, "binds\n")];
    for (is_so, word) in words {
        *out += if is_so { word } else { "" };
    }
    told.wants.iter().for_each(|unit| *out += &format!("wants {}\n", printable(unit)));
    let words = [
        ("note", Some(&told.note).filter(|note| !note.is_empty())),
        ("title", Some(&told.title).filter(|title| !title.is_empty())),
        ("part", told.part_of.as_ref()),
        ("made", told.made_of.as_ref()),
    ];
    for (word, text) in words {
        text.into_iter().for_each(|text| *out += &format!("{word} {}\n", printable(text)));
    }
    if told.size_bytes > 0 {
        *out += &format!("size {}\n", told.size_bytes);
    }
}

fn write_group(out: &mut String, told: &ToldGroup) {
    *out += &format!("group {}\nname {}\n", printable(&told.id), printable(&told.name));
    for (is_so, word) in [(told.is_up, "ready\n"), (told.is_starting, "starting\n")] {
        *out += if is_so { word } else { "" };
    }
    *out += &format!("note {}\n", printable(&told.state));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, ready: bool) -> Told {
        let names = vec![(format!("/dev{path}"), 0)];
        Told { path: path.to_owned(), names, ready, ..Told::default() }
    }

    fn next(teller: &mut Teller) -> String {
        teller.message().unwrap_or_default().replace('\n', "; ")
    }

    #[test]
    fn all_is_told_once_and_then_what_is_new() {
        let mut teller = Teller::default();
        teller.device(told("/a", true));
        assert_eq!(teller.message(), None, "the first pass is not over");
        teller.device(told("/b", false));
        teller.open();
        let whole = "whole; device /a; name 0 /dev/a; ready; device /b; name 0 /dev/b; ";
        assert_eq!(next(&mut teller), whole);
        teller.device(told("/a", true));
        assert_eq!(teller.message(), None, "nothing is new");
        teller.device(told("/b", true));
        teller.gone("/a");
        teller.gone("/never");
        assert_eq!(next(&mut teller), "gone /a; device /b; name 0 /dev/b; ready; ");
        teller.changed("/b");
        assert_eq!(next(&mut teller), "changed /b; device /b; name 0 /dev/b; ready; ");
        teller.tell_all();
        assert_eq!(next(&mut teller), "whole; device /b; name 0 /dev/b; ready; ");
    }

    #[test]
    fn what_is_not_known_stays_what_it_was() {
        let mut teller = Teller::default();
        let unknown = |diskseq| Told { is_unknown: true, diskseq, ..told("/a", false) };
        teller.open();
        teller.device(unknown(1));
        assert_eq!(next(&mut teller), "whole; device /a; seq 1; name 0 /dev/a; unknown; ");
        teller.device(Told { diskseq: 1, ..told("/a", true) });
        assert_eq!(next(&mut teller), "device /a; seq 1; name 0 /dev/a; ready; ");
        teller.device(unknown(1));
        assert_eq!(teller.message(), None);
        teller.device(unknown(2));
        assert_eq!(next(&mut teller), "device /a; seq 2; name 0 /dev/a; unknown; ");
    }

    #[test]
    fn groups_are_told_and_go() {
        let mut teller = Teller::default();
        teller.open();
        assert_eq!(next(&mut teller), "whole; ");
        let group = |state: &str| ToldGroup {
            id: "vg:x".to_owned(),
            name: "vg data".to_owned(),
            is_starting: false,
            is_up: false,
            state: state.to_owned(),
        };
        teller.group(group("1 of 2\nparts"));
        assert_eq!(next(&mut teller), "group vg:x; name vg data; note 1 of 2?parts; ");
        teller.group_gone("vg:x");
        assert_eq!(next(&mut teller), "nogroup vg:x; ");
    }
}
