//! Processes that were looked up, and whether what comes under their id is still theirs.
//!
//! A process id is given to another process when the first is gone, which may be at once. A message
//! with a pidfd names its sender for sure: another number of its inode is another process. One without
//! is the known process's if that has not ended when the message is already here, which a look at the
//! pidfd that is held of it says ([`Table::look_at`]): its id was its own all the time. What cannot be
//! told so (no pidfd, or one of a kernel before Linux 6.9, whose inodes say nothing) is believed by the
//! id alone.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use warren_sys::fdpass::Credentials;
use warren_sys::process;

use super::{Origin, Transport};
use crate::daemon::units::Units;

/// A process is looked up again after so long, µs.
pub(super) const FRESH_US: u64 = 1_000_000;

/// A process that is gone is forgotten after so long, µs.
const STALE_US: u64 = 5_000_000;

/// Most processes that are remembered.
const SENDERS_MAX: usize = 1 << 14;

/// How many pidfds of senders are held by a daemon that may have so many descriptors.
pub fn held_max(descriptors: usize) -> usize {
    (descriptors / 64).min(SENDERS_MAX)
}

/// By what a sender is found. Those of one socket are apart from those of another: messages have an
/// order in each.
pub type Key = (i32, u32, u32, Transport);

pub(super) fn key_of(transport: Transport, sender: Credentials) -> Key {
    (sender.pid, sender.uid, sender.gid, transport)
}

/// A sender as a message names it, for sure if there is a pidfd with an inode of its own.
pub(super) struct SenderKey {
    pub(super) pidfd: Option<OwnedFd>,
    inode: Option<u64>,
}

impl SenderKey {
    pub(super) fn by(pidfd: Option<OwnedFd>) -> SenderKey {
        let inode = pidfd.as_ref().and_then(|pidfd| process::pidfd_inode(pidfd.as_fd()));
        SenderKey { pidfd, inode }
    }
}

struct CachedSender {
    origin: Arc<Origin>,
    /// Which state of the units it was made with.
    units: u64,
    read_us: u64,
    /// Of the process, if that is its alone.
    inode: Option<u64>,
    /// Held until the process has ended, if there is room.
    pidfd: Option<OwnedFd>,
}

impl CachedSender {
    fn is(&self, named: &SenderKey) -> bool {
        self.inode.zip(named.inode).is_none_or(|(known, named)| known == named)
    }

    fn is_younger(&self, age_us: u64, now_us: u64) -> bool {
        now_us.saturating_sub(self.read_us) < age_us
    }

    /// With what the manager says of its unit now.
    fn origin(&mut self, units: &Units) -> Arc<Origin> {
        if self.units != units.version() {
            self.units = units.version();
            self.origin = Arc::new(Origin::of(self.origin.context.clone(), units));
        }
        self.origin.clone()
    }
}

/// All that are remembered.
pub(super) struct Table {
    known: BTreeMap<Key, CachedSender>,
    /// Pidfds among them, and most that there may be.
    held: usize,
    held_max: usize,
    /// When pidfds of those that are not fresh were last let go, µs.
    swept_us: u64,
}

impl Table {
    pub(super) fn new(held_max: usize) -> Table {
        Table { known: BTreeMap::new(), held: 0, held_max, swept_us: 0 }
    }

    /// Lets go of those among the senders of messages that are already here who have ended: what comes
    /// under their id may be another's.
    pub(super) fn look_at(&mut self, keys: &mut Vec<Key>) {
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| self.known.get(key).is_some_and(|known| known.pidfd.is_some()));
        if keys.is_empty() {
            return;
        }
        let pidfds = keys.iter().filter_map(|key| self.known[key].pidfd.as_ref().map(AsFd::as_fd));
        let ended = process::have_ended(pidfds);
        for (key, ended) in keys.iter().zip(ended) {
            if ended && let Some(known) = self.known.get_mut(key) {
                known.pidfd = None;
                self.held -= 1;
            }
        }
    }

    /// A sender that was looked up a moment ago, and had not ended at the last look.
    pub(super) fn alive(&mut self, key: Key, units: &Units, now_us: u64) -> Option<Arc<Origin>> {
        let known = self.known.get_mut(&key)?;
        let is_there = known.pidfd.is_some() || known.inode.is_none();
        (is_there && known.is_younger(FRESH_US, now_us)).then(|| known.origin(units))
    }

    /// What was read of a process a moment ago.
    pub(super) fn fresh(
        &mut self,
        (key, named): (Key, &SenderKey),
        units: &Units,
        now_us: u64,
    ) -> Option<Arc<Origin>> {
        self.get((key, named), FRESH_US, units, now_us)
    }

    /// What was read of a process that is gone by now.
    pub(super) fn usable(
        &mut self,
        (key, named): (Key, &SenderKey),
        units: &Units,
        now_us: u64,
    ) -> Option<Arc<Origin>> {
        self.get((key, named), STALE_US, units, now_us)
    }

    fn get(
        &mut self,
        (key, named): (Key, &SenderKey),
        age_us: u64,
        units: &Units,
        now_us: u64,
    ) -> Option<Arc<Origin>> {
        let known = self.known.get_mut(&key)?;
        (known.is(named) && known.is_younger(age_us, now_us)).then(|| known.origin(units))
    }

    /// Whatever is known of that id.
    pub(super) fn any(&self, key: Key) -> Option<&Arc<Origin>> {
        self.known.get(&key).map(|known| &known.origin)
    }

    /// Remembers what was read of a process.
    pub(super) fn put(
        &mut self,
        (key, named): (Key, SenderKey),
        origin: Arc<Origin>,
        units: &Units,
        now_us: u64,
    ) {
        if self.known.len() >= SENDERS_MAX {
            self.known.retain(|_, known| known.is_younger(STALE_US, now_us));
            self.count();
        }
        if self.known.len() >= SENDERS_MAX {
            self.known.clear();
            self.count();
        }
        let SenderKey { pidfd, inode } = named;
        let before = self.known.get_mut(&key).and_then(|known| known.pidfd.take());
        self.held -= usize::from(before.is_some());
        self.sweep(now_us);
        let pidfd = pidfd.filter(|_| inode.is_some() && self.held < self.held_max);
        self.held += usize::from(pidfd.is_some());
        let known = CachedSender { origin, units: units.version(), read_us: now_us, inode, pidfd };
        self.known.insert(key, known);
    }

    /// Makes room for pidfds: those that are not fresh are looked up again anyway.
    fn sweep(&mut self, now_us: u64) {
        if self.held < self.held_max || now_us.saturating_sub(self.swept_us) < FRESH_US {
            return;
        }
        self.swept_us = now_us;
        let old = self.known.values_mut().filter(|known| !known.is_younger(FRESH_US, now_us));
        old.for_each(|known| known.pidfd = None);
        self.count();
    }

    fn count(&mut self) {
        self.held = self.known.values().filter(|known| known.pidfd.is_some()).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use warren_log_store::entry::Fields;

    const KEY: Key = (77, 0, 0, Transport::Journal);

    fn origin() -> Arc<Origin> {
        Arc::new(Origin::new(Arc::new(Fields::new()), None))
    }

    fn child() -> (Child, OwnedFd) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat(1)");
        let pidfd = process::pidfd_open(child.id() as i32).expect("it was not reaped");
        (child, pidfd)
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
    }

    fn copy(pidfd: &OwnedFd) -> SenderKey {
        SenderKey::by(Some(pidfd.try_clone().expect("a descriptor")))
    }

    /// Whether an unnamed message of now is its, after a look.
    fn is_alive(table: &mut Table, now_us: u64) -> bool {
        table.look_at(&mut vec![KEY, KEY]);
        table.alive(KEY, &Units::default(), now_us).is_some()
    }

    #[test]
    fn who_has_ended_is_known_by_his_pidfd_alone() {
        let (mut table, units) = (Table::new(8), Units::default());
        let (first, pidfd) = child();
        if SenderKey::by(Some(pidfd.try_clone().expect("a descriptor"))).inode.is_none() {
            warren_testkit::not_run("needs Linux 6.9");
            return end(first);
        }
        table.put((KEY, copy(&pidfd)), origin(), &units, 0);
        assert!(is_alive(&mut table, FRESH_US - 1));
        assert!(!is_alive(&mut table, FRESH_US), "it is looked up again");
        end(first);
        assert!(!is_alive(&mut table, 1));
        assert_eq!(table.held, 0);
        let (second, heir) = child();
        let mut finds = |pidfd, now_us| {
            let named = copy(pidfd);
            let fresh = table.fresh((KEY, &named), &units, now_us).is_some();
            (fresh, table.usable((KEY, &named), &units, now_us).is_some())
        };
        assert_eq!(finds(&pidfd, 1), (true, true));
        assert_eq!(finds(&pidfd, FRESH_US), (false, true));
        assert_eq!(finds(&heir, 1), (false, false), "another process");
        table.put((KEY, copy(&heir)), origin(), &units, 2);
        assert!(is_alive(&mut table, 3));
        end(second);
    }

    #[test]
    fn pidfds_are_bounded() {
        let (mut table, units) = (Table::new(2), Units::default());
        let (child, pidfd) = child();
        if copy(&pidfd).inode.is_none() {
            warren_testkit::not_run("needs Linux 6.9");
            return end(child);
        }
        let key = |pid| (pid, 0, 0, Transport::Journal);
        for pid in 1..=5 {
            table.put((key(pid), copy(&pidfd)), origin(), &units, 0);
        }
        let alive = |table: &mut Table, now_us| {
            let there = |pid: &i32| table.alive(key(*pid), &units, now_us).is_some();
            (1..=6).filter(there).collect::<Vec<i32>>()
        };
        assert_eq!((table.held, alive(&mut table, 0)), (2, vec![1, 2]));
        table.put((key(6), copy(&pidfd)), origin(), &units, FRESH_US);
        assert_eq!((table.held, alive(&mut table, FRESH_US)), (1, vec![6]), "in place of old ones");
        table.put((key(6), copy(&pidfd)), origin(), &units, FRESH_US);
        assert_eq!(table.held, 1);
        end(child);
    }

    #[test]
    fn without_pidfds_the_id_is_believed() {
        let (mut table, units) = (Table::new(2), Units::default());
        table.put((KEY, SenderKey::by(None)), origin(), &units, 0);
        assert!(is_alive(&mut table, 1));
        assert!(table.fresh((KEY, &SenderKey::by(None)), &units, 1).is_some());
    }
}
