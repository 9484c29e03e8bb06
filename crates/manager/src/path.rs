//! The paths of path units: watched, and looked at.
//!
//! Owns: the inotify instance and the threads that look. Start at [`watcher::PathWatcher`].
//! Must not: decide what a change means to a unit; that is in the core. Open or look at a path on the loop: it may lie
//! on a server that does not respond.
//! Threads: `watcher` on the loop, `look` on its workers.

mod look;
pub(crate) mod watcher;
