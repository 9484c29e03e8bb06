//! Main processes whose end nobody has told of: init may be about to write the record, or there will be
//! none, because they were no children of init. And the ends of all in cgroups that cannot be watched, which
//! nobody tells of either: those are looked at when some process has ended, and every few seconds.

use std::collections::VecDeque;
use std::time::Duration;

use warren_core::model::ids::UnitId;
use warren_core::model::process::ExitStatus;
use warren_core::model::time::Monotonic;
use warren_sys::{process, time};

use super::since::Since;
use crate::daemon::{Daemon, now};

/// A process that is gone for so long has no record to come.
const MISSING_AFTER: Duration = Duration::from_secs(2);

/// Groups that cannot be watched are looked at so often while nothing ends, as with a lost process of a
/// debugger or another namespace.
const LOOK_AT_GROUPS: Duration = Duration::from_secs(3);

/// And not more often than this, however many processes end.
const GROUPS_REST: Duration = Duration::from_millis(100);

const ESRCH: i32 = 3;

/// One of them.
struct Absent {
    told_at: Monotonic,
    /// Nothing for a tool of the manager's own.
    unit: Option<UnitId>,
    pid: u32,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Missing {
    /// The first first.
    processes: VecDeque<Absent>,
    /// When groups that cannot be watched are looked at next.
    groups_due: Option<Monotonic>,
    /// When they were last.
    groups_at: Option<Monotonic>,
    /// Whether a process was killed since.
    killed: bool,
}

impl Missing {
    /// When the next is to be told of.
    pub(crate) fn deadline(&self) -> Option<Monotonic> {
        let process = self.processes.front().map(|absent| absent.told_at);
        process.into_iter().chain(self.groups_due).min()
    }
}

impl Daemon {
    /// Takes a process of which it was seen that it has ended, or that could not be held, for ended if no
    /// record comes.
    pub(crate) fn await_record(&mut self, unit: Option<UnitId>, pid: u32) {
        let told_at = now().monotonic.after(MISSING_AFTER);
        self.missing.processes.push_back(Absent { told_at, unit, pid });
    }

    /// Tells of processes whose end nobody has told of.
    pub(crate) fn tell_missing(&mut self) {
        let moment = now().monotonic;
        while let Some(absent) =
            self.missing.processes.pop_front_if(|absent| absent.told_at <= moment)
        {
            self.look_for(absent.unit, absent.pid);
        }
        self.look_at_groups(moment);
    }

    /// Processes have ended, of which the last of some group may be one.
    pub(crate) fn look_at_groups_after(&mut self, ended: bool, killed: bool) {
        self.missing.killed |= killed;
        if !ended || !self.groups.has_unwatched(self.missing.killed) {
            return;
        }
        let moment = now().monotonic;
        let rested = self.missing.groups_at.map_or(moment, |at| at.after(GROUPS_REST).max(moment));
        let due = self.missing.groups_due.map_or(rested, |due| due.min(rested));
        self.missing.groups_due = Some(due);
    }

    /// A group may just have been found that cannot be watched.
    pub(crate) fn await_groups(&mut self) {
        if self.groups.has_unwatched(false) {
            self.missing.groups_due.get_or_insert_with(|| now().monotonic.after(LOOK_AT_GROUPS));
        }
    }

    fn look_at_groups(&mut self, moment: Monotonic) {
        let killed = self.missing.killed;
        if !self.groups.has_unwatched(killed) {
            self.missing.groups_due = None;
            self.missing.killed = false;
            return;
        }
        let later = moment.after(LOOK_AT_GROUPS);
        if *self.missing.groups_due.get_or_insert(later) > moment {
            return;
        }
        (self.missing.groups_due, self.missing.groups_at) = (Some(later), Some(moment));
        self.missing.killed = false;
        let news = self.groups.look_at_unwatched(killed);
        self.take_news_of_groups(news);
    }

    fn look_for(&mut self, unit: Option<UnitId>, pid: u32) {
        let now_of = self.core.unit_of_pid(pid);
        if now_of != unit || self.is_there(pid) {
            return;
        }
        if now_of.is_none() && !self.tools.knows(pid) {
            return self.follow_no_more(pid);
        }
        if self.pidfds.contains_key(&pid) {
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
        self.pidfds.insert(pid, pidfd);
        self.since.insert(pid, Since::Seen(at));
        Ok(())
    }

    /// It has ended: its number may be that of another.
    pub(crate) fn follow_no_more(&mut self, pid: u32) {
        self.pidfds.remove(&pid);
        self.since.remove(&pid);
        self.parents.remove(&pid);
    }

    /// Whether a process that is held has not ended.
    pub(crate) fn is_there(&self, pid: u32) -> bool {
        use std::os::fd::AsFd;
        self.pidfds.get(&pid).is_some_and(|pidfd| process::is_alive(pidfd.as_fd()))
    }
}
