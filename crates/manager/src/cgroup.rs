//! The cgroup tree of the units.
//!
//! Owns: the directory descriptor of the tree and the groups that were made.
//! Must not: touch a sibling of the group it works on, or walk the tree.
//! Thread: the loop.

pub(crate) mod controllers;
pub(crate) mod file_hook;
pub(crate) mod limits;
pub(crate) mod nft_sets;
pub(crate) mod oomd;
pub(crate) mod programs;
pub(crate) mod slices;
pub(crate) mod state;
pub(crate) mod tree;
pub(crate) mod unwatched;
