//! What timers need of the system: the wall clock, time zones and stamp files.
//!
//! Owns: the descriptors that tell of the clock, and how zone and stamp files are read.
//! Must not: decide when a timer elapses; that is in the core.
//! Threads: `clock` on the loop; `zones` and `stamps` on workers and a thread of their own, since files may lie on a
//! server that does not respond.

pub(crate) mod clock;
pub(crate) mod stamps;
pub(crate) mod zones;
