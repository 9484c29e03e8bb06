//! What is known of devices, by the names that units have for them.
//!
//! A device has one unit for its place in sysfs, one for its node, one for each link to it and one
//! for each `SYSTEMD_ALIAS=` (systemd.device(5)). A link that several devices claim is that of the
//! ready one with the highest priority, udev(7). Units are not made here: there is one record per
//! device, and whoever has a unit asks for its state by name.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use warren_unit::{UnitName, UnitType};

pub use warren_wire::device_link::{DeviceBatch, DeviceFacts, GroupFacts};

/// Whether these facts stay in force when those are told.
fn holds_beside(facts: &DeviceFacts, told: &DeviceFacts) -> bool {
    told.is_unknown && !facts.is_unknown && told.diskseq == facts.diskseq
}

/// Whether another disk is told of in this one's place: this one has gone, though nobody said so.
fn gives_way_to(facts: &DeviceFacts, told: &DeviceFacts) -> bool {
    let are_counted = facts.diskseq != 0 && told.diskseq != 0;
    facts.ready && told.ready && are_counted && facts.diskseq != told.diskseq
}

/// Claims of devices to one name, the best first.
type Claims = BTreeSet<(Reverse<i32>, Arc<str>)>;

/// All devices. A copy costs next to nothing: it shares what does not change.
#[derive(Clone, Debug, Default)]
pub struct DeviceTable {
    devices: imbl::OrdMap<Arc<str>, Arc<DeviceFacts>>,
    names: imbl::OrdMap<UnitName, Claims>,
    groups: imbl::OrdMap<String, GroupFacts>,
    /// How many of them are being started.
    starting: usize,
    /// It was told of all there is.
    was_told_all: bool,
    /// Units that were plugged in when another table ended, and of which nothing was told since.
    expected: imbl::OrdSet<UnitName>,
    /// See [`DeviceTable::take_replaced`].
    replaced: BTreeSet<UnitName>,
}

impl DeviceTable {
    /// A table that takes up another's work, which is lost: these units were plugged in.
    pub fn expect(&mut self, units: impl Iterator<Item = UnitName>) {
        self.expected.extend(units);
    }

    /// Takes a batch in; returns the units that it says something about. Among them is what was
    /// expected and is not told of, once it is known of each device what it is.
    pub fn apply(&mut self, batch: DeviceBatch) -> BTreeSet<UnitName> {
        let mut touched = BTreeSet::new();
        self.was_told_all |= batch.is_whole;
        let mut gone = batch.gone;
        if batch.is_whole {
            let named: BTreeSet<&str> = batch.devices.iter().map(|d| d.path.as_str()).collect();
            let others = self.devices.keys().filter(|path| !named.contains(&***path));
            gone.extend(others.map(|path| path.to_string()));
            self.groups.clear();
            self.starting = 0;
        }
        gone.iter().for_each(|path| self.remove(path, &mut touched));
        for facts in batch.devices {
            let old = self.devices.get(&*facts.path);
            if old.is_some_and(|old| holds_beside(old, &facts) || **old == facts && batch.is_whole)
            {
                continue;
            }
            // Of what was not known there was nothing to be lost.
            let gives_way = old.is_some_and(|old| gives_way_to(old, &facts));
            let had = old.filter(|_| gives_way).map_or_else(Vec::new, |old| self.names_of(old));
            self.replaced.extend(had);
            let is_quiet = old.is_some_and(|old| old.is_unknown && !old.ready);
            let lost = if is_quiet { &mut BTreeSet::new() } else { &mut touched };
            self.remove(&facts.path, lost);
            self.insert(facts, &mut touched);
        }
        for id in &batch.gone_groups {
            let gone = self.groups.remove(id);
            self.starting -= usize::from(gone.is_some_and(|group| group.is_starting));
        }
        for group in batch.groups {
            self.starting += usize::from(group.is_starting);
            let before = self.groups.insert(group.id.clone(), group);
            self.starting -= usize::from(before.is_some_and(|group| group.is_starting));
        }
        if self.was_told_all && !self.expected.is_empty() && self.knows_all() {
            touched.extend(std::mem::take(&mut self.expected));
        }
        touched
    }

    /// Units that were plugged in for a disk in whose place another one was told of: what was there for them
    /// has gone, whatever they are now. They are told once.
    pub fn take_replaced(&mut self) -> BTreeSet<UnitName> {
        std::mem::take(&mut self.replaced)
    }

    /// The units that are plugged in for this device.
    fn names_of(&self, facts: &DeviceFacts) -> Vec<UnitName> {
        let is_of =
            |name: &UnitName| self.ready(name).is_some_and(|other| other.path == facts.path);
        units_of(facts).map(|(name, _)| name).filter(is_of).collect()
    }

    fn remove(&mut self, path: &str, touched: &mut BTreeSet<UnitName>) {
        let Some((path, facts)) = self.devices.remove_with_key(path) else { return };
        for (name, priority) in units_of(&facts) {
            if let Some(claims) = self.names.get_mut(&name) {
                claims.remove(&(Reverse(priority), path.clone()));
                if claims.is_empty() {
                    self.names.remove(&name);
                }
            }
            touched.insert(name);
        }
    }

    fn insert(&mut self, facts: DeviceFacts, touched: &mut BTreeSet<UnitName>) {
        let path: Arc<str> = facts.path.as_str().into();
        for (name, priority) in units_of(&facts) {
            let claims = self.names.entry(name.clone()).or_default();
            claims.insert((Reverse(priority), path.clone()));
            // What is not known is no news.
            if facts.ready || !facts.is_unknown {
                touched.insert(name);
            }
        }
        self.devices.insert(path, Arc::new(facts));
    }

    /// No device is there of which it is not known what it is.
    fn knows_all(&self) -> bool {
        !self.devices.values().any(|facts| facts.is_unknown)
    }

    /// Nothing was told yet, or there is nothing.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// The device that a unit is of, if one is there and ready.
    pub fn ready(&self, name: &UnitName) -> Option<&DeviceFacts> {
        let claims = self.names.get(name)?;
        let claimants = claims.iter().filter_map(|(_, path)| self.devices.get(path));
        claimants.map(|facts| &**facts).find(|facts| facts.ready)
    }

    /// All units of devices that are there and ready, made or not, by name.
    pub fn ready_units(&self) -> impl Iterator<Item = (&UnitName, &DeviceFacts)> {
        self.names.keys().filter_map(|name| Some((name, self.ready(name)?)))
    }

    /// A device that claims the name, ready or not.
    pub fn claimant(&self, name: &UnitName) -> Option<&DeviceFacts> {
        let (_, path) = self.names.get(name)?.first()?;
        self.devices.get(path).map(|facts| &**facts)
    }

    /// The unit whose state this one follows: that of its device's place in sysfs (`Following=`).
    pub fn following(&self, name: &UnitName) -> Option<UnitName> {
        let main = main_unit(self.ready(name)?)?;
        (main != *name).then_some(main)
    }

    /// The units that a device's main unit wants when it comes; none for its other units, so that
    /// each is asked for once. A template gets the device's place as its instance.
    pub fn wants(&self, name: &UnitName) -> Vec<UnitName> {
        let Some(facts) = self.ready(name).filter(|f| main_unit(f).as_ref() == Some(name)) else {
            return Vec::new();
        };
        facts.wants.iter().filter_map(|word| wanted(word, name)).collect()
    }

    /// All devices, by their places.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceFacts> {
        self.devices.values().map(|facts| &**facts)
    }

    /// All groups, by identifier.
    pub fn groups(&self) -> impl Iterator<Item = &GroupFacts> {
        self.groups.values()
    }

    /// How many groups are being started.
    pub fn starting(&self) -> usize {
        self.starting
    }

    /// One group.
    pub fn group(&self, id: &str) -> Option<&GroupFacts> {
        self.groups.get(id)
    }
}

/// The unit of a device's place in sysfs.
pub fn main_unit(facts: &DeviceFacts) -> Option<UnitName> {
    UnitName::for_path(&facts.path, UnitType::Device).ok()
}

/// The names of all its units; a path that cannot be one is left out.
fn units_of(facts: &DeviceFacts) -> impl Iterator<Item = (UnitName, i32)> + '_ {
    let names = facts.names.iter().map(|(path, priority)| (path.as_str(), *priority));
    let paths = std::iter::once((facts.path.as_str(), 0)).chain(names);
    paths.filter_map(|(path, priority)| {
        Some((UnitName::for_path(path, UnitType::Device).ok()?, priority))
    })
}

fn wanted(word: &str, device: &UnitName) -> Option<UnitName> {
    let name = UnitName::parse(word).ok()?;
    match name.is_template() {
        true => name.with_instance(device.stem()).ok(),
        false => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PATH ready|waiting|unknown NAME[=PRIORITY]... [+WANTED...] [#DISKSEQ]`, a line for each
    /// device; `-PATH` is one that went.
    fn batch(is_whole: bool, text: &str) -> DeviceBatch {
        let mut batch = DeviceBatch { is_whole, ..DeviceBatch::default() };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(path) = line.strip_prefix('-') {
                batch.gone.push(path.to_owned());
                continue;
            }
            let mut words = line.split(' ');
            let path = words.next().expect("a path").to_owned();
            let word = words.next();
            let (ready, is_unknown) = (word == Some("ready"), word == Some("unknown"));
            let mut facts = DeviceFacts { path, ready, is_unknown, ..DeviceFacts::default() };
            for word in words {
                if let Some(count) = word.strip_prefix('#') {
                    facts.diskseq = count.parse().expect("a number");
                    continue;
                }
                match (word.strip_prefix('+'), word.split_once('=')) {
                    (Some(wanted), _) => facts.wants.push(wanted.to_owned()),
                    (None, Some((name, priority))) => {
                        let priority = priority.parse().expect("a number");
                        facts.names.push((name.to_owned(), priority));
                    }
                    (None, None) => facts.names.push((word.to_owned(), 0)),
                }
            }
            batch.devices.push(facts);
        }
        batch
    }

    fn unit(path: &str) -> UnitName {
        UnitName::for_path(path, UnitType::Device).expect("a path")
    }

    fn check(table: &DeviceTable, path: &str, wanted: &str) {
        let got = table.ready(&unit(path)).map_or("-", |facts| facts.path.as_str());
        assert_eq!(got, wanted, "{path}");
    }

    #[test]
    fn a_link_is_that_of_the_ready_device_with_the_highest_priority() {
        let mut table = DeviceTable::default();
        table.apply(batch(true, "/sys/a ready /dev/a /dev/l=1\n/sys/b ready /dev/b /dev/l=5"));
        check(&table, "/dev/l", "/sys/b");
        check(&table, "/dev/a", "/sys/a");
        check(&table, "/sys/a", "/sys/a");
        table.apply(batch(false, "/sys/b waiting /dev/b /dev/l=5"));
        check(&table, "/dev/l", "/sys/a");
        check(&table, "/dev/b", "-");
        assert_eq!(table.claimant(&unit("/dev/b")).map(|f| f.path.as_str()), Some("/sys/b"));
        table.apply(batch(false, "-/sys/a"));
        check(&table, "/dev/l", "-");
        check(&table, "/sys/a", "-");
    }

    #[test]
    fn what_a_whole_picture_does_not_name_is_gone() {
        let mut table = DeviceTable::default();
        table.apply(batch(true, "/sys/a ready /dev/a\n/sys/b ready /dev/b"));
        let touched = table.apply(batch(true, "/sys/b ready /dev/b\n/sys/c ready /dev/c"));
        let names: Vec<&str> = touched.iter().map(UnitName::as_str).collect();
        assert_eq!(names, ["dev-a.device", "dev-c.device", "sys-a.device", "sys-c.device"]);
        check(&table, "/dev/a", "-");
        check(&table, "/dev/b", "/sys/b");
    }

    #[test]
    fn what_is_not_known_stays_what_it_was() {
        let mut table = DeviceTable::default();
        table.apply(batch(true, "/sys/a ready /dev/a /dev/l #1\n/sys/b ready /dev/b #2"));
        let touched = table.apply(batch(true, "/sys/a unknown /dev/a #1\n/sys/b ready /dev/b #2"));
        assert_eq!(touched, BTreeSet::new());
        check(&table, "/dev/l", "/sys/a");
        // Another disk at the same place is another matter.
        let touched = table.apply(batch(true, "/sys/a unknown /dev/a #3\n/sys/b ready /dev/b #2"));
        assert!(touched.contains(&unit("/dev/a")) && touched.contains(&unit("/dev/l")));
        assert!(!table.knows_all());
        check(&table, "/dev/a", "-");
        let touched = table.apply(batch(false, "/sys/a ready /dev/a #3"));
        assert!(touched.contains(&unit("/dev/a")) && table.knows_all());
        check(&table, "/dev/a", "/sys/a");
    }

    #[test]
    fn a_disk_in_the_place_of_another_is_no_change_of_that_one() {
        let mut table = DeviceTable::default();
        let replaced = |table: &mut DeviceTable, text: &str| {
            table.apply(batch(true, text));
            let names: Vec<String> = table.take_replaced().iter().map(|n| n.to_string()).collect();
            names.join(" ")
        };
        table.apply(batch(true, "/sys/a ready /dev/a /dev/l #1\n/sys/b ready /dev/l=1 #2"));
        // A link that is another device's stays.
        let other = "/sys/a ready /dev/a #3\n/sys/b ready /dev/l=1 #2";
        assert_eq!(replaced(&mut table, other), "dev-a.device sys-a.device");
        assert_eq!(replaced(&mut table, other), "", "it is told once");
        assert_eq!(replaced(&mut table, "/sys/a ready /dev/a /dev/m #3"), "", "the same disk");
        assert_eq!(replaced(&mut table, "/sys/a ready /dev/a /dev/m"), "", "without a number");
        assert_eq!(replaced(&mut table, "/sys/a waiting /dev/a #4"), "", "it is seen to be down");
        check(&table, "/dev/a", "-");
    }

    #[test]
    fn what_was_expected_is_gone_when_all_is_known() {
        let mut table = DeviceTable::default();
        table.expect([unit("/dev/a"), unit("/dev/l")].into_iter());
        assert!(!table.apply(batch(false, "/sys/b ready /dev/b")).contains(&unit("/dev/l")));
        assert!(!table.apply(batch(true, "/sys/a unknown /dev/a")).contains(&unit("/dev/l")));
        let touched = table.apply(batch(false, "/sys/a ready /dev/a"));
        assert!(touched.contains(&unit("/dev/l")), "another has it now, or nobody");
        assert_eq!(table.apply(batch(true, "/sys/a ready /dev/a")), BTreeSet::new());
    }

    #[test]
    fn of_what_was_never_known_there_is_no_news() {
        let mut table = DeviceTable::default();
        let touched = table.apply(batch(true, "/sys/a unknown /dev/a\n/sys/b ready /dev/b"));
        let names: Vec<&str> = touched.iter().map(UnitName::as_str).collect();
        assert_eq!(names, ["dev-b.device", "sys-b.device"]);
        assert_eq!(table.claimant(&unit("/dev/a")).map(|f| f.ready), Some(false));
    }

    #[test]
    fn groups_that_are_being_started_are_counted() {
        let group = |id: &str, is_starting| GroupFacts {
            id: id.to_owned(),
            is_starting,
            ..GroupFacts::default()
        };
        let told = |groups: Vec<GroupFacts>| DeviceBatch { groups, ..DeviceBatch::default() };
        let mut table = DeviceTable::default();
        table.apply(told(vec![group("a", true), group("b", true), group("c", false)]));
        assert_eq!(table.starting(), 2);
        table.apply(told(vec![group("a", true), group("b", false)]));
        assert_eq!(table.starting(), 1);
        let gone = DeviceBatch { gone_groups: vec!["a".into(), "a".into()], ..told(vec![]) };
        table.apply(gone);
        assert_eq!(table.starting(), 0);
        table.apply(told(vec![group("a", true), group("b", true)]));
        table.apply(DeviceBatch { is_whole: true, ..told(vec![group("b", true)]) });
        assert_eq!(table.starting(), 1);
    }

    #[test]
    fn a_device_that_lost_a_link_says_so() {
        let mut table = DeviceTable::default();
        table.apply(batch(true, "/sys/a ready /dev/a /dev/old"));
        let touched = table.apply(batch(false, "/sys/a ready /dev/a /dev/new"));
        assert!(touched.contains(&unit("/dev/old")) && touched.contains(&unit("/dev/new")));
        check(&table, "/dev/old", "-");
        check(&table, "/dev/new", "/sys/a");
    }

    #[test]
    fn only_the_main_unit_wants_and_the_others_follow_it() {
        let mut table = DeviceTable::default();
        table.apply(batch(true, "/sys/x/a ready /dev/a +up.service +t@.service +bad"));
        let wants: Vec<String> =
            table.wants(&unit("/sys/x/a")).iter().map(|name| name.to_string()).collect();
        assert_eq!(wants, ["up.service", "t@sys-x-a.service"]);
        assert!(table.wants(&unit("/dev/a")).is_empty());
        assert_eq!(table.following(&unit("/dev/a")), Some(unit("/sys/x/a")));
        assert_eq!(table.following(&unit("/sys/x/a")), None);
    }
}
