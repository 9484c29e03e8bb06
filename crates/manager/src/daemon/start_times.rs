//! When the processes of units started.

use crate::daemon::Daemon;
use warren_sys::process;

impl Daemon {
    /// Whether a record of that time is about another process than the one that is known by this number.
    pub(crate) fn is_about_another(&self, pid: u32, time_ns: u64) -> bool {
        let is_younger = |moment| !self.is_there(pid) || process::is_younger(pid as i32, moment);
        self.processes.since.get(&pid).is_some_and(|since| since.excludes(time_ns, is_younger))
    }
}
