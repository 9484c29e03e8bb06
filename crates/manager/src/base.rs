//! What every room may use: the clock, log lines, worker threads, small readers of /proc.
//!
//! Owns: helpers without state of the manager. Each file stands alone.
//! Must not: know a unit type, a job or another room.
//! Thread: any.

pub(crate) mod answers;
pub(crate) mod backoff;
pub(crate) mod batch_worker;
pub(crate) mod boot_options;
pub(crate) mod by_content;
pub(crate) mod clock;
pub(crate) mod command_line;
pub(crate) mod conditions;
pub(crate) mod console;
pub(crate) mod environment;
pub(crate) mod fair_queue;
pub(crate) mod file_identity;
pub(crate) mod first_boot;
pub(crate) mod heartbeat;
pub(crate) mod hidden_processes;
pub(crate) mod host;
pub(crate) mod inherited;
pub(crate) mod locale;
pub(crate) mod open_files;
pub(crate) mod own_limits;
pub(crate) mod parallel;
pub(crate) mod path_globs;
pub(crate) mod patience;
pub(crate) mod power_action;
pub(crate) mod process_name;
pub(crate) mod programs;
pub(crate) mod readiness;
pub(crate) mod replace_file;
pub(crate) mod say;
#[cfg(test)]
pub(crate) mod scratch;
pub(crate) mod server_mounts;
pub(crate) mod token;
pub(crate) mod unmet;
pub(crate) mod worker_pool;
