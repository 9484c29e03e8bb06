//! Block devices: what is on them, which belong together, and when a group of them is complete.
//!
//! The pure part knows bytes and facts: scanners ([`scan`]) read on-disk metadata through
//! [`read::ReadAt`], the [`index`] takes what they found and decides what is complete. Neither
//! opens a file, reads a clock or starts a thread. What must not be here: activation of anything
//! by our own means (that is lvm2's, mdadm's and cryptsetup's work), and a scanner that believes a
//! number from a disk without a bound.
//!
//! Around them: [`uevent`], [`udev`] and [`sysfs`] tell which devices there are, [`readers`] read
//! them in parallel, [`activate`] says what is run for a complete group, [`daemon`] ties it all
//! together, [`report`] shows it.
//!
//! Start reading at [`scan`], then [`index`], then [`daemon`].

// They panic when nothing can be written, which ends a daemon: `warren_sys::tell!` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod activate;
pub mod begun;
pub mod btrfs;
mod bytes;
pub mod daemon;
pub mod executor;
pub mod file;
pub mod filesystem;
pub mod firmware;
pub mod fuzz;
pub mod image;
pub mod index;
pub mod link;
pub mod luks;
pub mod lvm;
pub mod md;
pub mod names;
pub mod news;
pub mod orders;
pub mod others;
pub mod partition;
pub mod read;
pub mod readers;
pub mod report;
pub mod sandbox;
pub mod scan;
pub mod sysfs;
pub mod udev;
pub mod uevent;
mod uuid;

pub use uuid::Uuid;
