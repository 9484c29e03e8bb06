//! The kernel's mount table, watched by a thread of its own and told as events of mount units; its
//! table of swap areas ([`crate::mount::swaps`]) goes the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warren_core::graph::Graph;
use warren_core::model::ids::UnitId;
use warren_core::protocol::event::Event;
use warren_sys::epoll::{Epoll, Events};
use warren_sys::eventfd::EventFd;
use warren_sys::mount::{Mount, MountDelta, MountWatch};
use warren_unit::LoadState;
use warren_unit::{UnitName, UnitType};

use crate::base::backoff::Retries;
use crate::mount::kernel_mounts::{
    Changed, FoundMounts, KernelMounts, MountsNow, inherited, is_bound,
};
use crate::mount::swaps::SwapTable;
use crate::mount::utab::MountOptions;

/// Where the kernel cannot tell what changed, the whole table is read, at most this often.
const SLOW_READS_APART: Duration = Duration::from_millis(100);

/// And for at most one part in so many of the time: else a burst of mounts would cost the square of
/// their number.
const SLOW_READS_SHARE: u32 = 25;

/// A change is noticed after so long, however large the table is.
const SLOW_READS_APART_MAX: Duration = Duration::from_secs(5);

/// Stands for the id of a mount where the unit is a swap area's, which has none.
const SWAP: u64 = 0;

/// The manager's side.
pub struct MountTable {
    deltas: Receiver<MountDelta>,
    /// Mount points that are no autofs, by mount id.
    points: BTreeMap<u64, Point>,
    here: BTreeMap<UnitName, Here>,
    /// Paths of traps, by mount id.
    traps: BTreeMap<u64, Box<str>>,
    /// Those that went since somebody asked.
    gone_traps: Vec<Box<str>>,
    /// Mounts by the unit of the device that they name as their source.
    by_device: BTreeMap<UnitName, BTreeSet<u64>>,
    swaps: SwapTable,
    options: MountOptions,
    waiting: BTreeSet<UnitName>,
    /// Names whose mount came or went, and whose unit the loader is to make or take back.
    to_load: BTreeSet<UnitName>,
    /// It is at it.
    is_loading: bool,
}

/// The table is being read.
pub struct Reading(JoinHandle<warren_sys::Result<MountTable>>);

impl Reading {
    /// Begins to read it, in a thread; tells `found` what is mounted, and `wake` of changes later.
    /// `list` keeps what was there before the first manager of a machine that is not the host.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn begin(
        wake: Arc<EventFd>,
        found: Sender<FoundMounts>,
        list: PathBuf,
        is_first: bool,
        is_host: bool,
    ) -> std::io::Result<Reading> {
        let read = move || {
            let mut table = MountTable::start(wake.clone())?;
            if is_host {
                table.swaps = SwapTable::follow(wake);
            }
            // Nobody asks when the manager ends over its start.
            let _ = found.send(table.found(&list, is_first, is_host));
            Ok(table)
        };
        std::thread::Builder::new().name("mounts".into()).spawn(read).map(Reading)
    }

    /// Waits for it.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn wait(self) -> warren_sys::Result<MountTable> {
        self.0.join().expect("reading the mount table does not panic")
    }
}

/// A mount.
#[derive(PartialEq, Eq)]
struct Point {
    unit: UnitName,
    /// Its source, where that is a device.
    device: Option<UnitName>,
}

/// What is mounted at one path.
#[derive(Clone, Copy)]
struct Here {
    /// The mount that came last.
    last: u64,
    count: u32,
}

impl MountTable {
    /// One that knows of no mount and hears of none.
    pub fn unread() -> MountTable {
        MountTable::over(channel().1)
    }

    fn over(deltas: Receiver<MountDelta>) -> MountTable {
        MountTable {
            deltas,
            points: BTreeMap::new(),
            here: BTreeMap::new(),
            traps: BTreeMap::new(),
            gone_traps: Vec::new(),
            by_device: BTreeMap::new(),
            swaps: SwapTable::default(),
            options: MountOptions::default(),
            waiting: BTreeSet::new(),
            to_load: BTreeSet::new(),
            is_loading: false,
        }
    }

    /// Reads the table once and starts the thread that follows it.
    fn start(wake: Arc<EventFd>) -> warren_sys::Result<MountTable> {
        let mut watch = MountWatch::new()?;
        let epoll = Epoll::new()?;
        epoll.add(watch_fd(&watch), 0, watch.interest())?;
        let first = watch.drain()?;
        let (sender, deltas) = channel();
        let mut table = MountTable::over(deltas);
        table.note(first);
        table.options = MountOptions::follow(wake.clone());
        let follow = move || follow(watch, &epoll, &sender, &wake);
        // Without the thread mounts made by others are not noticed; everything else works.
        let _ = std::thread::Builder::new().name("mounts".into()).spawn(follow);
        Ok(table)
    }

    fn note(&mut self, delta: MountDelta) {
        delta.removed.into_iter().for_each(|id| self.forget(id));
        delta.added.into_iter().for_each(|mount| self.take_in(mount));
    }

    /// A mount is new, or other than it was: moved, or another one under the same id.
    fn take_in(&mut self, mount: Mount) {
        let id = mount.id;
        if mount.fstype == "autofs" {
            if self.traps.get(&id).is_none_or(|path| **path != *mount.mount_point) {
                self.forget(id);
                self.traps.insert(id, mount.mount_point.into());
            }
            return;
        }
        let Ok(name) = UnitName::for_path(&mount.mount_point, UnitType::Mount) else {
            return self.forget(id);
        };
        if self.points.get(&id).is_none_or(|before| before.unit != name) {
            self.forget(id);
            let here = self.here.entry(name.clone()).or_insert(Here { last: 0, count: 0 });
            *here = Here { last: id, count: here.count + 1 };
            self.waiting.insert(name.clone());
        }
        self.put(id, name, &mount.source);
    }

    /// A mount is no longer where it was.
    fn forget(&mut self, id: u64) {
        self.gone_traps.extend(self.traps.remove(&id));
        if let Some(point) = self.points.remove(&id) {
            self.release(id, &point);
            self.gone(id, &point.unit);
            self.waiting.insert(point.unit);
        }
    }

    /// Remembers a mount with its source, in place of what it was.
    fn put(&mut self, id: u64, unit: UnitName, source: &str) {
        let is_device = source.starts_with("/dev/");
        let device = is_device.then(|| UnitName::for_path(source, UnitType::Device).ok()).flatten();
        if let Some(before) = self.points.remove(&id) {
            self.release(id, &before);
        }
        if let Some(device) = &device {
            self.by_device.entry(device.clone()).or_default().insert(id);
        }
        self.points.insert(id, Point { unit, device });
    }

    fn release(&mut self, id: u64, point: &Point) {
        let Some(device) = &point.device else { return };
        let Some(mounts) = self.by_device.get_mut(device) else { return };
        mounts.remove(&id);
        if mounts.is_empty() {
            self.by_device.remove(device);
        }
    }

    /// There is news of a device that binds mounts, or bound them before: units of its mounts that
    /// no file is for may be tied otherwise.
    pub fn look_at_device(&mut self, graph: &Graph, device: &UnitName, binds: bool) {
        let mounts = self.by_device.get(device).into_iter().flatten();
        let units = mounts.filter_map(|id| self.points.get(id)).map(|point| &point.unit);
        let is_otherwise = |unit: &&UnitName| {
            let definition = graph.lookup(unit).map(|id| graph.definition(id));
            let binds = self.options.is_bound(unit).unwrap_or(binds);
            match definition.filter(|d| d.load_state != LoadState::NotFound) {
                Some(of_file) if !of_file.is_of_kernel() => false,
                Some(d) => d.files.fragment.as_ref().is_some_and(|file| is_bound(file) != binds),
                // It is being made, of what was known before.
                None => binds,
            }
        };
        self.to_load.extend(units.filter(is_otherwise).cloned());
    }

    fn gone(&mut self, id: u64, name: &UnitName) {
        let Some(here) = self.here.get_mut(name) else { return };
        here.count = here.count.saturating_sub(1);
        if here.count == 0 {
            self.here.remove(name);
        } else if here.last == id {
            // Mounts on one path are few, so this is seldom.
            let left = self.points.iter().filter(|(_, point)| point.unit == *name);
            here.last = left.map(|(id, _)| *id).max().unwrap_or(0);
        }
    }

    /// What the loader is to know before its first load. `list` keeps what was there before the
    /// first manager of a machine that is not the host.
    fn found(&self, list: &Path, is_first: bool, is_host: bool) -> FoundMounts {
        let inherited = inherited(list, is_first, is_host, self.points.keys().copied());
        let now = self.here.iter().map(|(name, here)| Changed {
            name: name.clone(),
            mount: Some(here.last),
            is_bound: None,
        });
        FoundMounts { kernel: KernelMounts::new(inherited), now: now.collect() }
    }

    /// Events for the units of mounts and swap areas whose place in the tables changed.
    pub fn take(&mut self, graph: &Graph) -> Vec<Event> {
        while let Ok(delta) = self.deltas.try_recv() {
            self.note(delta);
        }
        self.waiting.extend(self.swaps.take(|| files_of_swap(graph)));
        let tied = self.options.take().into_iter().filter(|name| self.here.contains_key(name));
        self.to_load.extend(tied);
        let waiting = std::mem::take(&mut self.waiting);
        let changed: Vec<UnitName> =
            waiting.iter().filter(|name| self.is_for_loader(graph, name)).cloned().collect();
        self.to_load.extend(changed);
        waiting.into_iter().filter_map(|name| self.event(graph, &name)).collect()
    }

    /// Automount units whose traps may be gone: somebody unmounted one at their path.
    pub fn take_gone_traps(&mut self, graph: &Graph) -> Vec<UnitId> {
        let unit =
            |path: Box<str>| graph.lookup(&UnitName::for_path(&path, UnitType::Automount).ok()?);
        std::mem::take(&mut self.gone_traps).into_iter().filter_map(unit).collect()
    }

    /// A unit was made of a mount that went while there was no manager.
    pub fn vanished(&mut self, name: &UnitName) {
        self.to_load.insert(name.clone());
    }

    /// Whether the unit is to be made of the mount, or was and is to go.
    fn is_for_loader(&self, graph: &Graph, name: &UnitName) -> bool {
        let definition = graph.lookup(name).map(|unit| graph.definition(unit));
        match self.is_mounted(name) {
            true => {
                definition.is_none_or(|d| d.load_state == LoadState::NotFound || d.is_of_kernel())
            }
            false => definition.is_some_and(|d| d.is_of_kernel()),
        }
    }

    /// What the loader is to look at now, if it is not at it already. A unit whose mount is gone
    /// is left to it while it is busy: others may wait for it by what the mount's text says.
    /// `binds` says of a device whether its mounts go with it, if anything is known of it.
    pub fn take_to_load(
        &mut self,
        is_busy: impl Fn(&UnitName) -> bool,
        binds: impl Fn(&UnitName) -> Option<bool>,
    ) -> Option<Vec<Changed>> {
        if self.is_loading || self.to_load.is_empty() {
            return None;
        }
        let to_load = std::mem::take(&mut self.to_load);
        let stays = |name: &UnitName| !self.is_mounted(name) && is_busy(name);
        let (later, now): (BTreeSet<UnitName>, BTreeSet<UnitName>) =
            to_load.into_iter().partition(stays);
        self.to_load = later;
        self.is_loading = !now.is_empty();
        let change = |name: UnitName| {
            let last = self.here.get(&name).map(|here| here.last);
            let device = last.and_then(|id| self.points.get(&id)?.device.as_ref());
            let mount = if self.swaps.is_on(&name) { Some(SWAP) } else { last };
            let is_bound = self.options.is_bound(&name).or(device.and_then(&binds));
            Changed { mount, is_bound, name }
        };
        self.is_loading.then(|| now.into_iter().map(change).collect())
    }

    /// It has looked.
    pub fn loaded(&mut self) {
        self.is_loading = false;
    }

    fn event(&self, graph: &Graph, name: &UnitName) -> Option<Event> {
        let unit = graph.lookup(name)?;
        let is_known = graph.definition(unit).load_state != LoadState::NotFound;
        match self.is_mounted(name) {
            // Told again when it is loaded. What the manager itself is over has no unit at all.
            true => is_known.then_some(Event::Mounted { unit }),
            false => Some(Event::Unmounted { unit }),
        }
    }

    /// Whether something other than a trap is mounted at the unit's path, or its area is swapped to.
    pub fn is_mounted(&self, name: &UnitName) -> bool {
        self.here.contains_key(name) || self.swaps.is_on(name)
    }

    /// Whether several mounts lie at the unit's path.
    pub fn is_stacked(&self, name: &UnitName) -> bool {
        self.here.get(name).is_some_and(|here| here.count > 1)
    }

    /// Asks the kernel where the mounts at the unit's path are: it tells nobody of a directory above one that was
    /// renamed.
    pub fn look_again(&mut self, name: &UnitName) {
        let mut now = MountsNow::default();
        while let Some(here) = self.here.get(name) {
            let Some(mount) = now.look_at(here.last) else { break };
            let place = UnitName::for_path(&mount.mount_point, UnitType::Mount).ok();
            if place.as_ref() == Some(name) {
                break;
            }
            self.take_in(mount);
        }
    }

    /// Whether another unit stands for the unit's swap area now.
    pub fn is_given_away(&self, name: &UnitName) -> bool {
        self.swaps.is_given_away(name)
    }

    /// Whether the table speaks for a unit: of swap areas only the host's manager knows.
    pub fn is_followed(&self, name: &UnitName) -> bool {
        !crate::mount::kind::is_swap(name) || self.swaps.is_followed()
    }

    /// Says again what is mounted at the paths of these units, whether there are such units or not.
    pub fn tell_again_of(&mut self, names: BTreeSet<UnitName>) {
        self.waiting.extend(names);
    }

    /// Says the state of these units again: they are new, or the manager was restarted.
    pub fn tell_again(&mut self, graph: &Graph, units: impl Iterator<Item = UnitId>) {
        let names: Vec<&UnitName> = units.map(|unit| graph.name(unit)).collect();
        let mounts = names.iter().filter(|name| self.here.contains_key(**name));
        self.waiting.extend(mounts.map(|name| (*name).clone()));
        self.waiting.extend(self.swaps.look_again(names.into_iter()));
    }
}

/// The swap units that a file is for.
fn files_of_swap(graph: &Graph) -> Vec<UnitName> {
    let swaps = graph.definitions().filter(|d| d.name.unit_type() == UnitType::Swap);
    let files = swaps.filter(|d| d.load_state == LoadState::Loaded && !d.is_of_kernel());
    files.map(|definition| definition.name.clone()).collect()
}

fn watch_fd(watch: &MountWatch) -> std::os::fd::BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(watch)
}

fn follow(mut watch: MountWatch, epoll: &Epoll, deltas: &Sender<MountDelta>, wake: &EventFd) {
    let mut events = Events::with_capacity(1);
    let Ok(mut retries) = Retries::new() else { return };
    loop {
        // What an error hid makes nothing readable.
        let waited = match retries.are_going_on() {
            true => Ok(()),
            false => epoll.wait(&mut events, None),
        };
        let began = Instant::now();
        let delta = match waited.and_then(|()| watch.drain()) {
            Ok(delta) => delta,
            Err(e) => {
                retries.failed("mounts and unmounts by other programs are not seen", &e);
                continue;
            }
        };
        retries.succeeded();
        let took = began.elapsed();
        if !delta.added.is_empty() || !delta.removed.is_empty() {
            if deltas.send(delta).is_err() {
                return;
            }
            wake.notify();
        }
        if watch.is_slow() {
            // A bound on how often the table is read.
            retries.rest(apart(took));
        }
    }
}

/// How long after a read that took so long the next one may begin.
fn apart(took: Duration) -> Duration {
    took.saturating_mul(SLOW_READS_SHARE).clamp(SLOW_READS_APART, SLOW_READS_APART_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_table_is_read_less_often() {
        for (took_ms, apart_ms) in [(0, 100), (3, 100), (4, 100), (40, 1000), (1000, 5000)] {
            let took = Duration::from_millis(took_ms);
            assert_eq!(apart(took), Duration::from_millis(apart_ms), "{took_ms} ms");
        }
        assert_eq!(apart(Duration::MAX), SLOW_READS_APART_MAX);
    }

    /// Applies changes of the table, one after the other, each with words `ID=PATH`, `ID=autofs:PATH` and `-ID`;
    /// then says what is mounted, which traps are gone, and of which units something is to be told.
    #[track_caller]
    fn check_changes(changes: &[&str], expected: &str) {
        let mut table = MountTable::unread();
        for change in changes {
            let (mut delta, none) = (MountDelta::default(), || "none".to_owned());
            for word in change.split(' ') {
                if let Some(gone) = word.strip_prefix('-') {
                    delta.removed.push(gone.parse().expect("an id"));
                    continue;
                }
                let (id, place) = word.split_once('=').expect("ID=PATH");
                let (fstype, path) = place.split_once(':').unwrap_or(("tmpfs", place));
                let (id, mount_point) = (id.parse().expect("an id"), path.to_owned());
                let (source, fstype) = (none(), fstype.to_owned());
                delta.added.push(Mount { id, parent: 1, mount_point, source, fstype });
            }
            table.waiting.clear();
            table.note(delta);
        }
        let counts = table.here.iter().map(|(name, here)| format!("{name}*{}", here.count));
        let waiting = table.waiting.iter().map(|name| format!("?{name}"));
        let gone = table.gone_traps.iter().map(|path| format!("-{path}"));
        let words: Vec<String> = counts.chain(waiting).chain(gone).collect();
        assert_eq!(words.join(" "), expected, "{changes:?}");
    }

    #[test]
    fn a_mount_that_was_moved_is_no_longer_where_it_was() {
        check_changes(&["1=/a", "1=/b"], "b.mount*1 ?a.mount ?b.mount");
        check_changes(&["1=/a 2=/a", "2=/b"], "a.mount*1 b.mount*1 ?a.mount ?b.mount");
        check_changes(&["1=autofs:/a", "1=autofs:/b"], "-/a");
    }

    #[test]
    fn an_id_that_was_used_again_names_another_mount() {
        check_changes(&["1=/a", "1=/b", "1=/a"], "a.mount*1 ?a.mount ?b.mount");
        check_changes(&["1=/a", "1=autofs:/a"], "?a.mount");
        check_changes(&["1=autofs:/a", "1=/a"], "a.mount*1 ?a.mount -/a");
        check_changes(&["1=/a", "-1 1=/a"], "a.mount*1 ?a.mount");
        check_changes(&["1=/a", "1=/a"], "a.mount*1");
        check_changes(&["1=/a 2=/b", "-2 1=/b"], "b.mount*1 ?a.mount ?b.mount");
    }
}
