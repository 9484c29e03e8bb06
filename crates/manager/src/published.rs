//! What other threads see of the manager, and the orders they send back.
//!
//! Owns: the published view, and the messages to the loop and to the loader.
//! Must not: hold a lock across a system call.
//! Thread: any; `loader_thread` is the thread that loads.

pub(crate) mod counters;
pub(crate) mod loader_thread;
pub(crate) mod locks;
pub(crate) mod oomd_view;
pub(crate) mod orders;
pub(crate) mod reloads;
pub(crate) mod scheduled;
pub(crate) mod shared;
pub(crate) mod watchers;
