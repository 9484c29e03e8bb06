//! Block devices: what is on them, which belong together, and when a group of them is complete.
//!
//! Two halves. The pure one knows bytes and facts: scanners ([`scan`]) read on-disk metadata
//! through [`read::ReadAt`]. It opens no file, reads no clock, starts no thread. What must not be
//! here: activation of anything (that is lvm2's, mdadm's and cryptsetup's work), and a scanner
//! that believes a number from a disk without a bound.
//!
//! Start reading at [`scan`], then [`lvm`].

pub mod btrfs;
mod bytes;
pub mod file;
pub mod filesystem;
pub mod fuzz;
pub mod image;
pub mod luks;
pub mod lvm;
pub mod md;
pub mod partition;
pub mod read;
pub mod scan;
mod uuid;

pub use uuid::Uuid;
