//! How the daemon is to run: what its command line and its configuration come to.
//! What must not be here: a look at the system; warren-journald makes the options.
//! Read once, by the receiving thread.

use std::path::PathBuf;

use crate::config::{Config, Fault};
use crate::daemon::places::Places;

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where messages are kept.
    pub places: Places,
    /// Where the sockets `socket`, `stdout` and `dev-log` are made.
    pub socket_directory: PathBuf,
    /// Settings.
    pub config: Config,
    /// What was wrong with them, to be logged.
    pub faults: Vec<Fault>,
    /// Read the kernel's log.
    pub kmsg: bool,
    /// Read records of the audit system.
    pub audit: bool,
    /// It is the log of a system, as its programs look for it: neither one by hand nor of a namespace.
    pub is_of_system: bool,
    /// Below which the mirror is, if there is one.
    pub mirror_root: PathBuf,
    /// The namespace that the messages are of, if it is not the default one.
    pub namespace: Option<String>,
}
