//! Nodes and links of what device-mapper made, where no udev makes them: its programs do that
//! themselves, a moment after the kernel has told of the device. Until then nobody could open it by
//! its names, so it is not ready. inotify(7) tells when a name comes; only directories in which one is
//! waited for are watched, and only as long.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use warren_sys::inotify::{Inotify, WatchFor, WatchId};

use super::{Daemon, now_ms};
use crate::index::DeviceNumber;
use crate::names;
use crate::sysfs::BlockDevice;

/// A device that has no nodes after so long, in milliseconds, is ready without them: who made it
/// wants none.
const PATIENCE_MS: u64 = 5_000;

/// What is known of the nodes of all devices.
pub(super) struct Nodes {
    /// What device-mapper made; none: its nodes were there, or are not waited for any more. Else
    /// until when they are, in milliseconds.
    missing: BTreeMap<DeviceNumber, Option<u64>>,
    /// Those of which they are waited for.
    nodeless: BTreeSet<DeviceNumber>,
    /// When the first of them is not waited for any more.
    look_at_ms: Option<u64>,
    /// None where the machine has no instance left: then all nodes are given their time.
    inotify: Option<Inotify>,
    watched: BTreeMap<WatchId, PathBuf>,
    /// By the name that has to come next, who waits for it.
    awaited: BTreeMap<PathBuf, BTreeSet<DeviceNumber>>,
}

impl Nodes {
    /// Nothing is known yet. `inotify` is made before the sandbox is entered, which lets nobody make
    /// one.
    pub(super) fn new(inotify: Option<Inotify>) -> Nodes {
        Nodes {
            missing: BTreeMap::new(),
            nodeless: BTreeSet::new(),
            look_at_ms: None,
            inotify,
            watched: BTreeMap::new(),
            awaited: BTreeMap::new(),
        }
    }

    /// When to look again though nobody tells of anything.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.look_at_ms
    }

    /// True when no device lacks nodes.
    pub(super) fn are_there(&self) -> bool {
        self.nodeless.is_empty()
    }

    fn note(&mut self, number: DeviceNumber, until: Option<u64>) {
        self.missing.insert(number, until);
        match until {
            Some(until) => {
                self.nodeless.insert(number);
                self.look_at_ms = Some(self.look_at_ms.map_or(until, |at| at.min(until)));
            }
            None => self.settle(number),
        }
    }

    fn settle(&mut self, number: DeviceNumber) {
        self.nodeless.remove(&number);
        if self.nodeless.is_empty() {
            self.awaited.clear();
            self.look_at_ms = None;
            let watches = std::mem::take(&mut self.watched).into_keys();
            if let Some(inotify) = &self.inotify {
                watches.for_each(|watch| inotify.remove(watch));
                // The end of each watch is told, and nobody waits for that.
                let _ = inotify.drain(&mut Vec::new());
            }
        }
    }

    /// False when all these names are there; else the first that is not is watched for.
    fn lacks_one(&mut self, number: DeviceNumber, dev: &Path, names: &[String]) -> bool {
        // A directory and a name in it may each come between a look and its watch.
        for _ in 0..=2 * names.len() {
            let paths = names.iter().map(|name| dev.join(name));
            let Some(lacking) = paths.into_iter().find(|path| !path.exists()) else { return false };
            let parent = lacking.parent().unwrap_or(dev);
            let (directory, next) = match parent.is_dir() {
                true => (parent.to_owned(), lacking),
                false => (dev.to_owned(), parent.to_owned()),
            };
            // Without a watch the device is ready when its time is over.
            let watch = self.inotify.as_ref().map(|i| i.add(&directory, WatchFor::Names));
            if let Some(Ok(watch)) = watch {
                self.watched.insert(watch, directory);
            }
            if !next.exists() {
                self.awaited.entry(next).or_default().insert(number);
                return true;
            }
        }
        true
    }

    /// Devices that are to be looked at again: what they waited for has come, or their time is over.
    fn take_woken(&mut self, now_ms: u64) -> BTreeSet<DeviceNumber> {
        let mut changes = Vec::new();
        let drained = self.inotify.as_ref().map(|inotify| inotify.drain(&mut changes));
        let is_lost = drained.is_some_and(|drained| drained.unwrap_or(true));
        let is_over = self.look_at_ms.take_if(|at| *at <= now_ms).is_some();
        if is_lost || is_over || changes.iter().any(|change| change.ended) {
            let times = self.nodeless.iter().filter_map(|number| *self.missing.get(number)?);
            self.look_at_ms = times.filter(|&at| at > now_ms).min();
            return self.nodeless.clone();
        }
        let mut woken = BTreeSet::new();
        for change in changes {
            let Some(directory) = self.watched.get(&change.watch) else { continue };
            woken.extend(self.awaited.remove(&directory.join(change.name)).unwrap_or_default());
        }
        woken
    }
}

impl Daemon {
    /// Notes whether the nodes of a device are there. Once they were, that is not asked again.
    pub(super) fn look_for_nodes(&mut self, found: &BlockDevice) {
        if found.words.mapper_name.is_empty() || self.follows_udev(found) {
            return;
        }
        let now = now_ms();
        let until = match self.nodes.missing.get(&found.number) {
            Some(None) => return,
            Some(Some(until)) => *until,
            None => now.saturating_add(PATIENCE_MS),
        };
        let names = names::by_mapper(&found.words.mapper_name, &found.facts.dm_uuid);
        let dev = &self.options.roots.dev;
        let is_settled = until <= now || !self.nodes.lacks_one(found.number, dev, &names);
        self.nodes.note(found.number, (!is_settled).then_some(until));
    }

    /// Whether a device cannot be opened by its names yet.
    pub(super) fn is_nodeless(&self, number: DeviceNumber) -> bool {
        self.nodes.nodeless.contains(&number)
    }

    /// Looks at those whose names have come, and at those whose time is over.
    pub(super) fn look_for_nodes_again(&mut self) {
        if self.nodes.are_there() {
            return;
        }
        for number in self.nodes.take_woken(now_ms()) {
            self.tell(number);
            let found = self.found.get(&number).filter(|_| !self.is_nodeless(number)).cloned();
            // What was written by a name that was not watched yet is not known.
            if let Some(found) = found.filter(|found| self.watch_for_writes(found)) {
                self.consider(found, true);
            }
        }
    }

    /// The device went.
    pub(super) fn forget_nodes(&mut self, number: DeviceNumber) {
        if self.nodes.missing.remove(&number).is_some() {
            self.nodes.settle(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NUMBER: DeviceNumber = DeviceNumber { major: 253, minor: 0 };

    #[test]
    fn who_waits_for_a_name_is_woken_by_it_alone() {
        let dev = std::env::temp_dir().join(format!("warren-nodes-{}", std::process::id()));
        fs::create_dir(&dev).expect("the temporary directory takes one more");
        let names = ["mapper/a-b", "a/b"].map(str::to_owned);
        let mut nodes = Nodes::new(Some(Inotify::new().expect("an instance")));
        let look = |nodes: &mut Nodes| {
            let lacks = nodes.lacks_one(NUMBER, &dev, &names);
            nodes.note(NUMBER, lacks.then_some(1000));
        };
        let make = |name: &str| match name.contains('/') {
            true => fs::write(dev.join(name), "").expect("it can be made"),
            false => fs::create_dir(dev.join(name)).expect("it can be made"),
        };
        look(&mut nodes);
        // Each is the next thing that has to be there, or none of them.
        for (name, wakes) in [
            ("other", false),
            ("mapper", true),
            ("mapper/x", false),
            ("a", false),
            ("mapper/a-b", true),
        ] {
            make(name);
            assert_eq!(!nodes.take_woken(0).is_empty(), wakes, "{name}");
            look(&mut nodes);
            assert!(!nodes.are_there() && nodes.deadline_ms() == Some(1000), "{name}");
        }
        // One that is never made is given up at its time.
        assert_eq!(nodes.take_woken(1000).len(), 1);
        assert_eq!(nodes.deadline_ms(), None);
        make("a/b");
        assert_eq!(nodes.take_woken(0).len(), 1);
        look(&mut nodes);
        // Nothing is left that would wake anybody.
        let has_news = |nodes: &Nodes| nodes.inotify.as_ref().is_some_and(Inotify::has_news);
        assert!(nodes.are_there() && !has_news(&nodes) && nodes.watched.is_empty());
        make("mapper/y");
        assert!(!has_news(&nodes));
        // Without an instance there is the time alone.
        fs::remove_file(dev.join("a/b")).expect("it was made");
        let mut nodes = Nodes::new(None);
        look(&mut nodes);
        make("a/b");
        assert!(nodes.take_woken(0).is_empty());
        assert_eq!(nodes.take_woken(1000).len(), 1);
        look(&mut nodes);
        assert!(nodes.are_there());
        fs::remove_dir_all(&dev).expect("it was made here");
    }
}
