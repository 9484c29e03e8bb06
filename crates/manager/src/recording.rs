//! What outlives the manager: run state, and recordings of boots, reloads and shutdowns.
//!
//! Owns: the state file, the ring of events and the files of recordings.
//! Must not: decide anything, or wait for a disk on the loop.
//! Thread: the loop; `files` writes on a thread of its own.

pub(crate) mod files;
pub(crate) mod jobs;
pub(crate) mod names;
pub(crate) mod recorder;
pub(crate) mod ring;
pub(crate) mod state;
pub(crate) mod state_file;
