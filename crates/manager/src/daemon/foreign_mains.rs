//! Main processes that are not children of init, because a service named one of its own (`MAINPID=`,
//! `PIDFile=`): init records their end only if their parent ends before them. Their pidfds are watched.

use warren_core::model::ids::UnitId;
use warren_core::model::process::ExitStatus;
use warren_sys::epoll::Interest;
use warren_sys::errno::ESRCH;
use warren_sys::process;

use crate::base::token;
use crate::daemon::Daemon;
use crate::process::table::init;

impl Daemon {
    /// The machine was told of new main processes: those that it took for such are watched.
    pub(crate) fn take_in_named(&mut self, named: Vec<(UnitId, u32)>) {
        for (unit, pid) in named {
            if self.core.unit_of_pid(pid) != Some(unit) || self.process.table.is_held(pid) {
                continue;
            }
            match self.process.table.follow(pid) {
                Ok(()) => {
                    self.watch_stranger(unit);
                    self.process.table.hold_parent(pid);
                }
                Err(e) if e.errno == ESRCH => self.named_too_late(unit, pid),
                // For want of descriptors or memory.
                Err(_) => self.await_record(Some(unit), pid),
            }
        }
    }

    /// It ended since it was named. Its record may be that of a process that nobody knew.
    fn named_too_late(&mut self, unit: UnitId, pid: u32) {
        match self.process.table.early_exits.take(pid, 0) {
            Some(status) => self.process_ended(pid, status),
            None => self.await_record(Some(unit), pid),
        }
    }

    /// Whether the end of the unit's process will be told of, because it is a child of init. The
    /// unit's group is looked at then.
    pub(crate) fn will_be_told(&self, unit: UnitId) -> bool {
        let run = self.core.unit_run(unit);
        let pid = run.main_process().map(|main| main.pid).or(run.control_pid());
        pid.is_some_and(|pid| self.process.table.is_child_of_init(pid))
    }

    /// Watches the unit's main process, unless its end will be told of.
    pub(crate) fn watch_stranger(&mut self, unit: UnitId) {
        if self.will_be_told(unit) {
            return;
        }
        let main = self.core.unit_run(unit).main_process().map(|main| main.pid);
        if let Some((pid, pidfd)) = main.and_then(|pid| Some((pid, self.process.table.pidfd(pid)?)))
        {
            let token = token::STRANGER | u64::from(pid);
            let _ = self.event_loop.epoll.add(pidfd, token, Interest::READ);
        }
    }

    /// A process that was watched has ended. If its parent ended before it, init has it now and
    /// says how, or has had it already.
    pub(crate) fn stranger_ended(&mut self, pid: u32) {
        self.read_exits();
        let Some(pidfd) = self.process.table.pidfd(pid) else { return };
        let _ = self.event_loop.epoll.remove(pidfd);
        match process::parent(pid as i32) {
            Ok(parent) if parent == init() => {}
            Ok(_) => self.process_ended(pid, ExitStatus::Unknown),
            Err(_) if self.process.table.has_parent(pid) => {
                self.process_ended(pid, ExitStatus::Unknown)
            }
            Err(_) => self.await_record(self.core.unit_of_pid(pid), pid),
        }
    }
}
