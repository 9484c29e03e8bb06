//! The kernel's mount table, watched by a thread of its own and told as events of mount units.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use warren_core::event::Event;
use warren_core::graph::Graph;
use warren_core::ids::UnitId;
use warren_sys::epoll::{Epoll, Events};
use warren_sys::eventfd::EventFd;
use warren_sys::mount::{MountDelta, MountWatch};
use warren_unit::{UnitName, UnitType};

/// Where the kernel cannot tell what changed, the table is read at most this often.
const SLOW_READS_APART: Duration = Duration::from_millis(100);

/// The manager's side.
pub struct MountTable {
    deltas: Receiver<MountDelta>,
    /// Mount points that are no autofs, by mount id.
    points: BTreeMap<u64, UnitName>,
    count: BTreeMap<UnitName, u32>,
    waiting: BTreeSet<UnitName>,
}

impl MountTable {
    /// Reads the table once and starts the thread that follows it.
    pub fn start(wake: Arc<EventFd>) -> warren_sys::Result<MountTable> {
        let mut watch = MountWatch::new()?;
        let epoll = Epoll::new()?;
        epoll.add(watch_fd(&watch), 0, watch.interest())?;
        let first = watch.drain()?;
        let (sender, deltas) = channel();
        let mut table = MountTable {
            deltas,
            points: BTreeMap::new(),
            count: BTreeMap::new(),
            waiting: BTreeSet::new(),
        };
        table.note(first);
        let follow = move || follow(watch, &epoll, &sender, &wake);
        // Without the thread mounts made by others are not noticed; everything else works.
        let _ = std::thread::Builder::new().name("mounts".into()).spawn(follow);
        Ok(table)
    }

    fn note(&mut self, delta: MountDelta) {
        for mount in delta.added {
            if mount.fstype == "autofs" {
                continue;
            }
            let Ok(name) = UnitName::for_path(&mount.mount_point, UnitType::Mount) else {
                continue;
            };
            if self.points.insert(mount.id, name.clone()).as_ref() != Some(&name) {
                *self.count.entry(name.clone()).or_default() += 1;
                self.waiting.insert(name);
            }
        }
        for id in delta.removed {
            if let Some(name) = self.points.remove(&id) {
                let left = self.count.entry(name.clone()).or_default();
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.count.remove(&name);
                }
                self.waiting.insert(name);
            }
        }
    }

    /// Events for the mount units whose place in the table changed.
    pub fn take(&mut self, graph: &Graph) -> Vec<Event> {
        while let Ok(delta) = self.deltas.try_recv() {
            self.note(delta);
        }
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().filter_map(|name| self.event(graph, &name)).collect()
    }

    fn event(&self, graph: &Graph, name: &UnitName) -> Option<Event> {
        let unit = graph.lookup(name)?;
        Some(match self.is_mounted(name) {
            true => Event::Mounted { unit },
            false => Event::Unmounted { unit },
        })
    }

    /// Whether something other than a trap is mounted at the unit's path.
    pub fn is_mounted(&self, name: &UnitName) -> bool {
        self.count.contains_key(name)
    }

    /// Says the state of these units again: they are new, or the manager was restarted.
    pub fn tell_again(&mut self, graph: &Graph, units: impl Iterator<Item = UnitId>) {
        let names = units.map(|unit| graph.name(unit).clone());
        self.waiting.extend(
            names.filter(|n| n.unit_type() == UnitType::Mount && self.count.contains_key(n)),
        );
    }
}

fn watch_fd(watch: &MountWatch) -> std::os::fd::BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(watch)
}

fn follow(mut watch: MountWatch, epoll: &Epoll, deltas: &Sender<MountDelta>, wake: &EventFd) {
    let mut events = Events::with_capacity(1);
    let mut pause = Events::with_capacity(1);
    let Ok(idle) = Epoll::new() else { return };
    loop {
        if epoll.wait(&mut events, None).is_err() {
            return;
        }
        let Ok(delta) = watch.drain() else { return };
        if delta.added.is_empty() && delta.removed.is_empty() {
            continue;
        }
        if deltas.send(delta).is_err() {
            return;
        }
        wake.notify();
        if watch.is_slow() {
            // Nothing is in this set: the wait is a bound on how often the table is read.
            let _ = idle.wait(&mut pause, Some(SLOW_READS_APART));
        }
    }
}
