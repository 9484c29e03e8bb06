//! The table of processes: what the manager knows of a process beside what the core knows.
//!
//! Owns: pidfds, start times and parents of followed processes; exits and notify messages that came before the
//! process that they are about was known; processes whose exit nobody reported.
//! Must not: decide which unit a process belongs to (the core does, by pid).
//! Thread: the loop.

use crate::process::early_exits::EarlyExits;
use crate::process::notify_messages::EarlyNotices;
use crate::process::start_times::StartTime;
use crate::process::unreported_exits::UnreportedExits;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use warren_core::model::ids::UnitId;
use warren_sys::descriptors::Allowance;
use warren_sys::errno::EMFILE;
use warren_sys::{process, time};

/// One process that is followed.
struct ProcessEntry {
    /// Missing where none could be had when the process was made.
    pidfd: Option<OwnedFd>,
    start_time: StartTime,
    /// Its parent, of a main process that is no child of init.
    parent: Option<OwnedFd>,
}

/// All processes that the manager follows, and the news of processes that it does not know yet.
#[derive(Default)]
pub(crate) struct Processes {
    followed: BTreeMap<u32, ProcessEntry>,
    /// Processes that helpers reported in this turn, with their units: the core learns of them at its end.
    fresh: BTreeMap<u32, Option<UnitId>>,
    /// Processes that units named as their main ones in this turn, or that were found to be.
    named_mains: Vec<(UnitId, u32)>,
    pub(crate) early_exits: EarlyExits,
    pub(crate) early_notices: EarlyNotices,
    pub(crate) unreported: UnreportedExits,
}

impl Processes {
    /// A helper reports a process: it began at `started_ns` (CLOCK_MONOTONIC), and is the unit's or a tool's.
    pub(crate) fn made(
        &mut self,
        pid: u32,
        pidfd: Option<OwnedFd>,
        started_ns: u64,
        unit: Option<UnitId>,
    ) {
        let start_time = StartTime::Seen(started_ns);
        self.followed.insert(pid, ProcessEntry { pidfd, start_time, parent: None });
        self.fresh.insert(pid, unit);
    }

    /// Holds a process by a pidfd: no other process with its number gets its signals, or is taken for it.
    /// Fails with ESRCH if it has ended, and with EMFILE where the reserve alone has a descriptor for it.
    pub(crate) fn follow(&mut self, pid: u32) -> warren_sys::Result<()> {
        let at = time::monotonic_ns();
        let pidfd = process::pidfd_open(pid as i32)?;
        if !Allowance::of_process().covers(pidfd.as_fd()) {
            return Err(warren_sys::Error::new("pidfd_open", EMFILE));
        }
        let start_time = StartTime::Seen(at);
        self.followed.insert(pid, ProcessEntry { pidfd: Some(pidfd), start_time, parent: None });
        Ok(())
    }

    /// Follows a process that the last manager knew at `known_ns`; whether it is still there.
    pub(crate) fn find(&mut self, pid: u32, known_ns: u64) -> bool {
        let at = time::monotonic_ns();
        if self.follow(pid).is_ok()
            && let Some(followed) = self.followed.get_mut(&pid)
        {
            followed.start_time = StartTime::Found { at, known: known_ns };
        }
        self.is_alive(pid)
    }

    /// It has ended: its number may be that of another process now.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.followed.remove(&pid);
    }

    /// The pidfd of a process.
    pub(crate) fn pidfd(&self, pid: u32) -> Option<BorrowedFd<'_>> {
        self.followed.get(&pid)?.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Whether a process is held by a pidfd, so that a signal cannot meet another one.
    pub(crate) fn is_held(&self, pid: u32) -> bool {
        self.pidfd(pid).is_some()
    }

    /// Whether a process that is held has not ended.
    pub(crate) fn is_alive(&self, pid: u32) -> bool {
        self.pidfd(pid).is_some_and(process::is_alive)
    }

    /// Sends a signal, by pidfd where there is one: the number may be another process's by now. False if the
    /// process has ended.
    pub(crate) fn signal(&self, pid: u32, signal: i32) -> bool {
        match self.pidfd(pid) {
            Some(pidfd) => process::pidfd_signal(pidfd, signal).is_ok(),
            None => process::kill(pid as i32, signal).is_ok(),
        }
    }

    /// Whether an exit that was recorded at `time_ns` is that of another process with this number.
    pub(crate) fn is_about_another(&self, pid: u32, time_ns: u64) -> bool {
        let is_younger = |moment| !self.is_alive(pid) || process::is_younger(pid as i32, moment);
        self.followed
            .get(&pid)
            .is_some_and(|followed| followed.start_time.excludes(time_ns, is_younger))
    }

    /// Holds the parent of a followed process: while it lives, nobody else hears how the process has ended.
    pub(crate) fn hold_parent(&mut self, pid: u32) {
        let parent = || process::parent(pid as i32).ok().filter(|&parent| parent != init());
        if let Some(pidfd) = parent().and_then(|parent| process::pidfd_open(parent).ok())
            && process::pidfd_pid(pidfd.as_fd()).ok() == parent()
            && let Some(followed) = self.followed.get_mut(&pid)
        {
            followed.parent = Some(pidfd);
        }
    }

    /// Whether the parent of a process is held and lives.
    pub(crate) fn has_parent(&self, pid: u32) -> bool {
        let parent = self.followed.get(&pid).and_then(|followed| followed.parent.as_ref());
        parent.is_some_and(|parent| process::is_alive(parent.as_fd()))
    }

    /// Whether a held process is a child of init, which reports its exit.
    pub(crate) fn is_child_of_init(&self, pid: u32) -> bool {
        self.pidfd(pid).and_then(process::pidfd_parent) == Some(init())
    }

    /// Whether a helper reported the process in this turn.
    pub(crate) fn is_fresh(&self, pid: u32) -> bool {
        self.fresh.contains_key(&pid)
    }

    /// The unit of a process that a helper reported in this turn.
    pub(crate) fn unit_of_fresh(&self, pid: u32) -> Option<UnitId> {
        self.fresh.get(&pid).copied().flatten()
    }

    /// A unit named its main process, or it was found.
    pub(crate) fn name_main(&mut self, unit: UnitId, pid: u32) {
        self.named_mains.push((unit, pid));
    }

    /// The core has learnt of all processes that were reported and named in this turn; gives the named ones.
    pub(crate) fn core_was_told(&mut self) -> Vec<(UnitId, u32)> {
        self.fresh.clear();
        std::mem::take(&mut self.named_mains)
    }

    /// Forgets news that no spawn under way can be meant by: those from before the spawn with this number was
    /// sent, or all if none is under way.
    pub(crate) fn forget_orphans(&mut self, oldest_under_way: Option<u64>) {
        self.early_exits.forget(oldest_under_way);
        self.early_notices.forget(oldest_under_way);
    }
}

/// The process that records exits for the manager.
pub(crate) fn init() -> i32 {
    std::os::unix::process::parent_id() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: UnitId = UnitId(7);

    fn child() -> std::process::Child {
        std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs")
    }

    #[test]
    fn a_process_is_followed_until_it_is_forgotten() {
        let mut child = child();
        let (pid, mut table) = (child.id(), Processes::default());
        assert!(!table.is_held(pid) && !table.is_alive(pid));
        table.follow(pid).unwrap();
        assert!(table.is_held(pid) && table.is_alive(pid));
        assert!(table.signal(pid, 9));
        child.wait().unwrap();
        assert!(table.is_held(pid) && !table.is_alive(pid));
        assert!(!table.signal(pid, 9), "the number may be another's");
        table.forget(pid);
        assert!(!table.is_held(pid));
    }

    #[test]
    fn an_exit_from_before_a_process_was_made_is_that_of_another() {
        let mut table = Processes::default();
        table.made(40, None, 1_000, Some(UNIT));
        assert!(table.is_about_another(40, 999) && !table.is_about_another(40, 1_000));
        assert!(!table.is_about_another(41, 1));
    }

    #[test]
    fn what_helpers_report_is_fresh_until_the_core_knows_it() {
        let mut table = Processes::default();
        table.made(40, None, 1, Some(UNIT));
        table.made(41, None, 1, None);
        table.name_main(UNIT, 40);
        assert!(table.is_fresh(41) && !table.is_fresh(42));
        assert_eq!((table.unit_of_fresh(40), table.unit_of_fresh(41)), (Some(UNIT), None));
        table.forget(40);
        assert_eq!(
            table.unit_of_fresh(40),
            Some(UNIT),
            "its exit is told to the core in this turn"
        );
        assert_eq!(table.core_was_told(), [(UNIT, 40)]);
        assert!(!table.is_fresh(40) && table.core_was_told().is_empty());
    }

    #[test]
    fn a_process_that_the_last_manager_knew_is_found_while_it_lives() {
        let mut child = child();
        let mut table = Processes::default();
        assert!(table.find(child.id(), time::monotonic_ns()));
        let _ = child.kill();
        child.wait().unwrap();
        assert!(!table.find(child.id(), time::monotonic_ns()));
    }
}
