//! What the loop does about exits and empty cgroups that were not reported.

use crate::base::clock::now;
use crate::daemon::Daemon;
use warren_core::model::ids::UnitId;
use warren_core::model::process::ExitStatus;
use warren_sys::errno::ESRCH;

impl Daemon {
    /// A process was seen to be gone, or could not be held: it counts as ended if no record comes.
    pub(crate) fn await_record(&mut self, unit: Option<UnitId>, pid: u32) {
        self.process.table.unreported.wait(unit, pid, now().monotonic);
    }

    /// Takes processes whose record is overdue for ended, and looks at groups that cannot be watched.
    pub(crate) fn tell_missing(&mut self) {
        let moment = now().monotonic;
        while let Some(absent) = self.process.table.unreported.next_due(moment) {
            self.look_for(absent.unit, absent.pid);
        }
        if let Some(news) = self.cgroup.unwatched_groups.look(&mut self.cgroup.groups, moment) {
            self.take_news_of_groups(news);
        }
    }

    /// A group may just have been found that cannot be watched.
    pub(crate) fn await_groups(&mut self) {
        self.cgroup.unwatched_groups.group_found(&self.cgroup.groups, now().monotonic);
    }

    fn look_for(&mut self, unit: Option<UnitId>, pid: u32) {
        let now_of = self.core.unit_of_pid(pid);
        if now_of != unit || self.process.table.is_alive(pid) {
            return;
        }
        if now_of.is_none() && !self.spawning.tools.knows(pid) {
            return self.process.table.forget(pid);
        }
        if self.process.table.is_held(pid) {
            return self.process_ended(pid, ExitStatus::Unknown);
        }
        match self.process.table.follow(pid) {
            Ok(()) => unit.into_iter().for_each(|unit| self.watch_stranger(unit)),
            Err(e) if e.errno == ESRCH => self.process_ended(pid, ExitStatus::Unknown),
            // For want of descriptors or memory, which can be had later.
            Err(_) => self.await_record(unit, pid),
        }
    }
}
