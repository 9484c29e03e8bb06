//! Messages to the manager about devices: one for all that happened in a turn. Pure. What a message says is
//! [`warren_wire::device_link`].

use std::collections::{BTreeMap, BTreeSet};

use warren_wire::device_link::{DeviceFacts, GroupFacts, Writer};

/// Remembers what was told, so that only what is new is told again.
#[derive(Debug, Default)]
pub struct Teller {
    devices: BTreeMap<String, DeviceFacts>,
    groups: BTreeMap<String, GroupFacts>,
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
    pub fn device(&mut self, told: DeviceFacts) {
        let before = self.devices.get(&told.path);
        let holds = |before: &DeviceFacts| {
            told.is_unknown && !before.is_unknown && before.diskseq == told.diskseq
        };
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
    pub fn group(&mut self, told: GroupFacts) {
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
        let mut out = Writer::default();
        let (fresh, fresh_groups) =
            (std::mem::take(&mut self.fresh), std::mem::take(&mut self.fresh_groups));
        let changed = std::mem::take(&mut self.changed);
        if std::mem::take(&mut self.was_asked) {
            out.whole();
            self.devices.values().for_each(|told| out.device(told));
            self.groups.values().for_each(|told| out.group(told));
            return Some(out.finish());
        }
        changed.iter().for_each(|path| out.changed(path));
        for path in fresh {
            match self.devices.get(&path) {
                Some(told) => out.device(told),
                None => out.gone(&path),
            }
        }
        for id in fresh_groups {
            match self.groups.get(&id) {
                Some(told) => out.group(told),
                None => out.group_gone(&id),
            }
        }
        Some(out.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, ready: bool) -> DeviceFacts {
        let names = vec![(format!("/dev{path}"), 0)];
        DeviceFacts { path: path.to_owned(), names, ready, ..DeviceFacts::default() }
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
        let unknown = |diskseq| DeviceFacts { is_unknown: true, diskseq, ..told("/a", false) };
        teller.open();
        teller.device(unknown(1));
        assert_eq!(next(&mut teller), "whole; device /a; seq 1; name 0 /dev/a; unknown; ");
        teller.device(DeviceFacts { diskseq: 1, ..told("/a", true) });
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
        let group = |state: &str| GroupFacts {
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
