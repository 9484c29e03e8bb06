//! The links to warren-journald and warren-deviced.
//!
//! Owns: both links, and what waits to be sent over them.
//! Must not: wait for either daemon.
//! Thread: the loop; `log_link::spill` copies on a thread of its own.

pub(crate) mod bus_names;
pub(crate) mod devices;
pub(crate) mod log_link;
pub(crate) mod log_tail;
pub(crate) mod state;
pub(crate) mod unit_log_file;
