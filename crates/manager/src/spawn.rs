//! From a command of a unit to a request to an exec helper.
//!
//! Owns: the helpers and what was asked of them, environment files and users that are being looked up.
//! Must not: know the log daemon or the device daemon.
//! Thread: the loop; `users` and `environment_files` have workers look things up.

pub(crate) mod dynamic_names;
pub(crate) mod environment_files;
pub(crate) mod filters;
pub(crate) mod helpers;
pub mod mount_commands;
pub(crate) mod mounts_into;
pub(crate) mod namespaces;
pub(crate) mod queue;
pub mod removals;
pub(crate) mod request;
pub(crate) mod state;
pub(crate) mod tools;
pub(crate) mod users;
pub(crate) mod views;
