//! What every manager is handed.

use std::os::fd::OwnedFd;

use warren_init::protocol::control::StartReason;
use warren_sys::eventfd::EventFd;
use warren_sys::signal::SignalSet;

use crate::helper::Helper;
use crate::store::Store;

/// What every manager is handed.
pub struct Shared {
    /// Fds kept for it.
    pub store: Store,
    /// Its helpers.
    pub helpers: Vec<Helper>,
    /// The ring's memory.
    pub ring_fd: OwnedFd,
    /// Wakes its reader.
    pub wake: EventFd,
    /// Tells us of new room.
    pub room: EventFd,
    /// Signals that no manager has been told of.
    pub signals: SignalSet,
    /// Counts managers.
    pub incarnation: u64,
    /// Why this one was started.
    pub reason: StartReason,
    /// Random, ours.
    pub instance: [u8; 16],
    /// How many there were.
    pub soft_reboots: u32,
    /// When we started.
    pub started_ns: u64,
    /// Heartbeat bound.
    pub heartbeat_ms: u32,
}
