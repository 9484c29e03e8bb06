//! From files to generations: unit directories, fleet rules, generators, enablement.
//!
//! Owns: the ground state of the unit directories and what is computed from it.
//! Must not: see run state or the loop.
//! Thread: the loader thread.

pub(crate) mod changed_on_disk;
pub(crate) mod file_states;
pub(crate) mod first_generation;
pub(crate) mod fleet;
pub(crate) mod fstab;
pub(crate) mod generation_file;
pub(crate) mod generators;
pub(crate) mod install;
pub mod loader;
pub(crate) mod snapshot;
pub(crate) mod transient;
pub(crate) mod unit_files;
