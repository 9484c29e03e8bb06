//! Who wrote to a device, where no udev watches for that: the kernel tells nobody when mkfs(8),
//! pvcreate(8) or cryptsetup(8) has put something on a disk. inotify(7) tells when a node is closed that
//! was open for writing, and then the disk is read again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use warren_sys::errno::ENOENT;

use warren_sys::inotify::{Inotify, WatchFor, WatchId};

use super::Daemon;
use crate::index::DeviceNumber;
use crate::names;
use crate::sysfs::{self, BlockDevice};

/// The nodes that are watched.
pub(super) struct Writes {
    /// None where the machine has no instance left: then what is written is seen at the next event.
    inotify: Option<Inotify>,
    /// Two of one device: device-mapper's programs make a node besides the kernel's.
    watched: BTreeMap<WatchId, DeviceNumber>,
    /// The same by device.
    watches: BTreeMap<DeviceNumber, BTreeSet<WatchId>>,
    /// It was told that one could not be watched.
    is_told: bool,
}

impl Writes {
    /// Nothing is watched yet. `inotify` is made before the sandbox is entered.
    pub(super) fn new(inotify: Option<Inotify>) -> Writes {
        Writes { inotify, watched: BTreeMap::new(), watches: BTreeMap::new(), is_told: false }
    }

    /// Watches a node from now on; true when it was not watched before.
    fn watch(&mut self, number: DeviceNumber, node: &Path) -> warren_sys::Result<bool> {
        let Some(inotify) = &self.inotify else { return Ok(false) };
        let watch = inotify.add(node, WatchFor::Written)?;
        if let Some(before) = self.watched.insert(watch, number).filter(|before| *before != number)
        {
            self.unlist(before, watch);
        }
        Ok(self.watches.entry(number).or_default().insert(watch))
    }

    fn unlist(&mut self, number: DeviceNumber, watch: WatchId) {
        let Some(watches) = self.watches.get_mut(&number) else { return };
        watches.remove(&watch);
        if watches.is_empty() {
            self.watches.remove(&number);
        }
    }

    /// Devices that were written to since it was last asked, and whether some went unheard.
    fn take(&mut self) -> (BTreeSet<DeviceNumber>, bool) {
        let mut changes = Vec::new();
        let drained = self.inotify.as_ref().map(|inotify| inotify.drain(&mut changes));
        let mut written = BTreeSet::new();
        for change in changes {
            let Some(&number) = self.watched.get(&change.watch) else { continue };
            match change.ended {
                true => {
                    self.watched.remove(&change.watch);
                    self.unlist(number, change.watch);
                }
                false => drop(written.insert(number)),
            }
        }
        (written, drained.is_some_and(|drained| drained.unwrap_or(true)))
    }

    /// The device went; a node that stays, as that of a loop device does, is watched anew with the next.
    pub(super) fn forget(&mut self, number: DeviceNumber) {
        for watch in self.watches.remove(&number).into_iter().flatten() {
            self.watched.remove(&watch);
            self.inotify.iter().for_each(|inotify| inotify.remove(watch));
        }
    }
}

impl Daemon {
    /// Watches the nodes of a device of which udev tells nothing; true when one of them was not watched
    /// before.
    pub(super) fn watch_for_writes(&mut self, found: &BlockDevice) -> bool {
        if self.follows_udev(found) {
            return false;
        }
        let dev = &self.options.roots.dev;
        let own = names::by_mapper(&found.words.mapper_name, &found.facts.dm_uuid);
        let own = own.first().map(|name| dev.join(name)).filter(|path| path.exists());
        let mut is_new = false;
        for node in own.iter().chain([&found.node]) {
            match self.writes.watch(found.number, node) {
                Ok(news) => is_new |= news,
                Err(error) if self.writes.is_told || error.errno == ENOENT => {}
                Err(error) => {
                    self.writes.is_told = true;
                    self.log(format!("cannot watch devices for writes: {error}"));
                }
            }
        }
        is_new
    }

    /// Reads what was written to again.
    pub(super) fn look_at_written(&mut self) {
        let (written, is_lost) = self.writes.take();
        self.lost_events |= is_lost;
        for number in written {
            let Some(found) = self.found.get(&number).filter(|f| !self.follows_udev(f)) else {
                continue;
            };
            let name = found.name.clone();
            match sysfs::look(&self.options.roots, &name) {
                Ok(Some(found)) => self.consider(found, true),
                // The kernel is about to tell that it went.
                Ok(None) => {}
                Err(error) => self.log(format!("{name}: cannot be read: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const fn number(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 7, minor }
    }

    #[test]
    fn only_devices_that_are_there_are_watched() {
        let dev = std::env::temp_dir().join(format!("warren-writes-{}", std::process::id()));
        fs::create_dir(&dev).expect("the temporary directory takes one more");
        let node = |name: &str| dev.join(name);
        let write = |name: &str| fs::write(node(name), "x").expect("it can be written");
        ["a", "b", "map"].iter().for_each(|name| write(name));
        let mut writes = Writes::new(Some(Inotify::new().expect("an instance")));
        let watch = |writes: &mut Writes, minor, name: &str| {
            writes.watch(number(minor), &node(name)).expect("it can be watched")
        };
        assert!(watch(&mut writes, 0, "a") && watch(&mut writes, 0, "map"));
        assert!(watch(&mut writes, 1, "b") && !watch(&mut writes, 0, "a"));
        // A child that another test has just forked keeps files open until it executes its program.
        let take = |writes: &mut Writes, expected: &[DeviceNumber]| {
            let mut seen = BTreeSet::new();
            warren_testkit::wait_until("the written devices are reported", || {
                let (written, is_lost) = writes.take();
                assert!(!is_lost);
                seen.extend(written);
                seen.len() >= expected.len()
            });
            assert!(seen.iter().eq(expected), "{seen:?}");
        };
        ["map", "a", "b"].iter().for_each(|name| write(name));
        take(&mut writes, &[number(0), number(1)]);
        // The node of a loop device stays when its file goes, and is that of the next.
        writes.forget(number(0));
        write("a");
        assert_eq!(writes.take(), (BTreeSet::new(), false));
        assert!(watch(&mut writes, 2, "a") && watch(&mut writes, 3, "a"));
        write("a");
        take(&mut writes, &[number(3)]);
        // A node that went takes its watch along.
        ["a", "b", "map"].iter().for_each(|name| fs::remove_file(node(name)).expect("it is there"));
        writes.take();
        assert!(writes.watched.is_empty() && writes.watches.is_empty());
        fs::remove_dir_all(&dev).expect("it was made here");
    }
}
