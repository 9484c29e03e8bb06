//! The part of the manager's state that is about processes which run.

use crate::process::init_link::InitLink;
use crate::process::notify_socket::NotifySocket;
use crate::process::pid_file::searches::Searches;
use crate::process::signals::Kills;
use crate::process::stored_fds::FdStore;
use crate::process::table::Processes;
use crate::process::watchdog::MachineWatchdog;

/// The processes, and those who tell of them.
pub(crate) struct ProcessState {
    pub(crate) table: Processes,
    pub(crate) init: InitLink,
    pub(crate) notify: NotifySocket,
    /// PID files that are waited for.
    pub(crate) pid_files: Searches,
    /// File descriptors that services have stored.
    pub(crate) stored_fds: FdStore,
    pub(crate) kills: Kills,
    /// The device that resets the machine when the manager is silent.
    pub(crate) watchdog: MachineWatchdog,
}
