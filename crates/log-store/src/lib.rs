//! The log store: entries in, files that cannot be hurt much, queries out.
//!
//! What is here: the format of logs and segments (`block`, `segment`), the writer that
//! batches, syncs, seals, merges and vacuums ([`store`]), and what reads it back. What must not
//! be here: a memory map of a file (others may truncate it), an update in place, or a decision
//! taken in a thread of its own.
//!
//! From the ground up: [`error`], [`bytes`], [`entry`], [`files`]; `block`, `segment`; [`store`] writes
//! them; [`query`] and [`ledger`] read them; [`systemd`] has the same face over systemd's files. Beside
//! these stand [`places`], [`host`], [`time`] and [`size`], which the daemon and the reader share.
//!
//! Start reading at `block`: a log and a segment are both rows of blocks, and everything else
//! follows from a block being readable without anything around it. The format is written down in
//! `docs/src/design/journal-format.md`.

// They panic when nothing can be written, which ends a daemon: `warren_sys::tell!` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod block;
pub mod bytes;
pub mod entry;
pub mod error;
pub mod files;
pub mod fuzz;
pub mod host;
pub mod ledger;
pub mod places;
pub mod query;
mod segment;
pub mod size;
pub mod store;
pub mod systemd;
pub mod time;

pub use entry::{Entry, Fields, Id128, Stamp};
pub use error::{Error, Result};
