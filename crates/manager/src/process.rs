//! Processes of units: their exits, notify messages, PID files, stored descriptors, and the link to init.
//!
//! Owns: what is known of processes before the core knows them.
//! Must not: spawn a process.
//! Thread: the loop.

pub(crate) mod early_exits;
pub(crate) mod init_link;
pub(crate) mod notify_messages;
pub(crate) mod notify_socket;
pub(crate) mod pid_file;
pub(crate) mod signals;
pub(crate) mod start_times;
pub(crate) mod state;
pub(crate) mod stored_fds;
pub(crate) mod table;
pub(crate) mod unreported_exits;
pub(crate) mod watchdog;
