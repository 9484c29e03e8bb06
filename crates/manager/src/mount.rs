//! Mounts, swap areas and automounts, as the kernel has them.
//!
//! Owns: the mount table, the swap table and the automount points.
//! Must not: open a path of a user on the loop.
//! Thread: the loop; `table`, `swaps` and `utab` have threads of their own that wait for the kernel.

pub(crate) mod automounts;
pub mod kernel_mounts;
pub(crate) mod kind;
pub(crate) mod swaps;
pub(crate) mod table;
pub(crate) mod utab;
