//! What the loop does about processes whose exit nobody reported.

use crate::base::clock::now;
use crate::daemon::Daemon;
use crate::process::start_times::Since;
use crate::process::unreported_exits::{Absent, ESRCH, GROUPS_REST, LOOK_AT_GROUPS, MISSING_AFTER};
use warren_core::model::ids::UnitId;
use warren_core::model::process::ExitStatus;
use warren_core::model::time::Monotonic;
use warren_sys::{process, time};

impl Daemon {
    /// Takes a process of which it was seen that it has ended, or that could not be held, for ended if no
    /// record comes.
    pub(crate) fn await_record(&mut self, unit: Option<UnitId>, pid: u32) {
        let told_at = now().monotonic.after(MISSING_AFTER);
        self.processes.unreported.processes.push_back(Absent { told_at, unit, pid });
    }

    /// Tells of processes whose end nobody has told of.
    pub(crate) fn tell_missing(&mut self) {
        let moment = now().monotonic;
        while let Some(absent) =
            self.processes.unreported.processes.pop_front_if(|absent| absent.told_at <= moment)
        {
            self.look_for(absent.unit, absent.pid);
        }
        self.look_at_groups(moment);
    }

    /// Processes have ended, of which the last of some group may be one.
    pub(crate) fn look_at_groups_after(&mut self, ended: bool, killed: bool) {
        self.processes.unreported.killed |= killed;
        if !ended || !self.groups.has_unwatched(self.processes.unreported.killed) {
            return;
        }
        let moment = now().monotonic;
        let rested = self
            .processes
            .unreported
            .groups_at
            .map_or(moment, |at| at.after(GROUPS_REST).max(moment));
        let due = self.processes.unreported.groups_due.map_or(rested, |due| due.min(rested));
        self.processes.unreported.groups_due = Some(due);
    }

    /// A group may just have been found that cannot be watched.
    pub(crate) fn await_groups(&mut self) {
        if self.groups.has_unwatched(false) {
            self.processes
                .unreported
                .groups_due
                .get_or_insert_with(|| now().monotonic.after(LOOK_AT_GROUPS));
        }
    }

    fn look_at_groups(&mut self, moment: Monotonic) {
        let killed = self.processes.unreported.killed;
        if !self.groups.has_unwatched(killed) {
            self.processes.unreported.groups_due = None;
            self.processes.unreported.killed = false;
            return;
        }
        let later = moment.after(LOOK_AT_GROUPS);
        if *self.processes.unreported.groups_due.get_or_insert(later) > moment {
            return;
        }
        (self.processes.unreported.groups_due, self.processes.unreported.groups_at) =
            (Some(later), Some(moment));
        self.processes.unreported.killed = false;
        let news = self.groups.look_at_unwatched(killed);
        self.take_news_of_groups(news);
    }

    fn look_for(&mut self, unit: Option<UnitId>, pid: u32) {
        let now_of = self.core.unit_of_pid(pid);
        if now_of != unit || self.is_there(pid) {
            return;
        }
        if now_of.is_none() && !self.spawning.tools.knows(pid) {
            return self.follow_no_more(pid);
        }
        if self.processes.pidfds.contains_key(&pid) {
            return self.process_ended(pid, ExitStatus::Unknown);
        }
        match self.follow(pid) {
            Ok(()) => unit.into_iter().for_each(|unit| self.watch_stranger(unit)),
            Err(e) if e.errno == ESRCH => self.process_ended(pid, ExitStatus::Unknown),
            // For want of descriptors or memory, which can be had later.
            Err(_) => self.await_record(unit, pid),
        }
    }

    /// Holds a process by a pidfd: no other one with its number gets its signals, or is taken for it.
    pub(crate) fn follow(&mut self, pid: u32) -> warren_sys::Result<()> {
        let at = time::monotonic_ns();
        let pidfd = process::pidfd_open(pid as i32)?;
        self.processes.pidfds.insert(pid, pidfd);
        self.processes.since.insert(pid, Since::Seen(at));
        Ok(())
    }

    /// It has ended: its number may be that of another.
    pub(crate) fn follow_no_more(&mut self, pid: u32) {
        self.processes.pidfds.remove(&pid);
        self.processes.since.remove(&pid);
        self.processes.parents.remove(&pid);
    }

    /// Whether a process that is held has not ended.
    pub(crate) fn is_there(&self, pid: u32) -> bool {
        use std::os::fd::AsFd;
        self.processes.pidfds.get(&pid).is_some_and(|pidfd| process::is_alive(pidfd.as_fd()))
    }
}
