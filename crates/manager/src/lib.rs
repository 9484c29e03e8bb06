//! warrend: the manager around the pure core. Loop, loader, effect runner, and the glue to bus,
//! control socket and init.
//!
//! Where to start: [`daemon`] (one turn of the loop), [`start`] (first start and going on after a
//! crash), [`effects`] (what is done to the system), [`loader`] (what files mean), [`requests`]
//! (what clients want). Nothing here decides what is to become of a unit: that is the core.

pub mod accept;
pub mod answers;
pub mod aside;
pub mod collect;
mod command_line;
pub mod conditions;
pub mod control;
pub mod control_calls;
mod control_files;
mod control_jobs;
mod control_records;
pub mod control_top;
pub mod daemon;
mod device_report;
pub mod device_words;
pub mod devices;
pub mod effects;
mod ending;
mod ends;
mod environment_files;
mod faults;
pub mod fd_store;
pub mod first;
pub mod fleet;
pub mod fstab;
pub mod generation_file;
pub mod generators;
mod group_kills;
pub mod groups;
pub mod helpers;
pub mod host;
pub mod inhibit;
pub mod init_link;
pub mod install;
pub mod kernel_mounts;
pub mod last;
pub mod loader;
pub mod loader_thread;
pub mod log;
pub mod log_link;
pub mod log_tail;
mod looks;
pub mod mount_options;
pub mod mount_table;
pub mod mounts;
mod notices;
pub mod notify;
pub mod on_disk;
pub mod options;
pub mod orders;
mod path_globs;
pub mod pid_file;
mod questions;
pub mod ready;
mod record_jobs;
pub mod record_names;
pub mod record_ring;
pub mod recorder;
pub mod records;
mod remarks;
pub mod requests;
mod restarts;
mod resume;
mod retries;
#[cfg(test)]
mod scratch;
pub mod shared;
mod signals;
pub mod snapshot;
pub mod sockets;
pub mod spawn;
mod spawns;
pub mod start;
pub mod state_file;
mod strangers;
pub mod swap_table;
mod sweep;
pub mod tools;
pub mod traps;
pub mod unit_files;
pub mod why;
pub mod workers;
