//! Main processes that are not children of init, because a service named one of its own (`MAINPID=`):
//! init records their end only if their parent ends before them. Their pidfds are watched.

use std::os::fd::AsFd;

use warren_core::ids::UnitId;
use warren_core::state::ExitStatus;
use warren_sys::epoll::Interest;
use warren_sys::process;

use crate::daemon::{Daemon, token};

/// The process that records ends for us.
fn init() -> i32 {
    std::os::unix::process::parent_id() as i32
}

impl Daemon {
    /// The machine was told of new main processes: those that it took for such are watched.
    pub(crate) fn take_in_named(&mut self) {
        for (unit, pid) in std::mem::take(&mut self.named_mains) {
            if self.core.unit_of_pid(pid) != Some(unit) || self.pidfds.contains_key(&pid) {
                continue;
            }
            match process::pidfd_open(pid as i32) {
                Ok(pidfd) => {
                    self.pidfds.insert(pid, pidfd);
                    self.watch_stranger(unit);
                }
                // It ended since it was named, and nobody will tell of that.
                Err(_) => self.process_ended(pid, ExitStatus::Unknown),
            }
        }
    }

    /// Whether the end of the unit's process will be told of, because it is a child of init. The
    /// unit's group is looked at then.
    pub(crate) fn will_be_told(&self, unit: UnitId) -> bool {
        let run = self.core.unit_run(unit);
        let pid = run.main_process().map(|main| main.pid).or(run.control_pid());
        let pidfd = pid.and_then(|pid| self.pidfds.get(&pid)).map(AsFd::as_fd);
        pidfd.and_then(process::pidfd_parent) == Some(init())
    }

    /// Watches the unit's main process, unless its end will be told of.
    pub(crate) fn watch_stranger(&mut self, unit: UnitId) {
        if self.will_be_told(unit) {
            return;
        }
        let main = self.core.unit_run(unit).main_process().map(|main| main.pid);
        if let Some((pid, pidfd)) = main.and_then(|pid| Some((pid, self.pidfds.get(&pid)?))) {
            let token = token::STRANGER | u64::from(pid);
            let _ = self.epoll.add(pidfd.as_fd(), token, Interest::READ);
        }
    }

    /// A process that was watched has ended. If its parent ended before it, init has it now and
    /// says how.
    pub(crate) fn stranger_ended(&mut self, pid: u32) {
        self.read_exits();
        let Some(pidfd) = self.pidfds.remove(&pid) else { return };
        let _ = self.epoll.remove(&pidfd);
        if process::parent(pid as i32) != Ok(init()) {
            self.process_ended(pid, ExitStatus::Unknown);
        }
    }
}
