//! The reader of the log: the options and outputs of journalctl(1) over the log store.
//!
//! [`args`] is the table of options, `run` carries them out, [`mod@format`] prints entries; [`reading`]
//! follows several stores over seals and moves for all that send entries on. What journalctl has and
//! this has not is refused as an unknown option, never ignored. What must not be here: a write to a
//! store, but for `--import`, `--vacuum-…` and `--setup-keys`, and anything of a network.

// They panic when nothing can be written, which ends a daemon: `warren_sys::tell!` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod args;
pub mod ask;
mod boots;
mod catalog;
mod cut;
mod denied;
mod export;
mod failure;
mod foreign;
pub mod format;
pub mod fuzz;
mod glob;
mod import;
mod moved;
mod paths;
mod place;
pub mod program;
mod proof;
pub mod reading;
pub mod report;
mod run;
mod select;
pub mod stores;
pub mod walk;

pub use args::Args;
pub use failure::Failure;
pub use foreign::bytes as foreign_bytes;
pub use place::Place;
pub use run::run;
