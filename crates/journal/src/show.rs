//! The reading command: the options and outputs of journalctl(1) over this store.
//!
//! `args` is the table of options, `run` carries them out, `format` prints entries,
//! [`crate::time`] reads and prints times. What journalctl has and this has not is refused as an
//! unknown option, never ignored.

pub mod args;
pub(crate) mod ask;
mod boots;
pub mod catalog;
mod cut;
mod export;
mod failure;
mod foreign;
pub mod format;
mod import;
mod moved;
mod paths;
mod place;
mod progress;
mod proof;
pub(crate) mod reading;
pub mod run;
pub mod select;
pub(crate) mod stores;
pub(crate) mod walk;

pub use args::Args;
pub use failure::Failure;
pub(crate) use foreign::bytes as foreign_bytes;
pub use place::Place;
pub use run::run;
