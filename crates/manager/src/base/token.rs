//! The sources of the loop, as epoll names them: the kind in the upper half, a number in the lower; of a socket its
//! place among those of its unit is above both.

use warren_core::model::ids::{ClientId, UnitId};

pub(crate) const INIT: u64 = 1 << 32;
pub(crate) const EXITS: u64 = 2 << 32;
pub(crate) const HELPER: u64 = 3 << 32;
pub(crate) const WAKE: u64 = 4 << 32;
pub(crate) const NOTIFY: u64 = 5 << 32;
pub(crate) const GROUPS: u64 = 6 << 32;
pub(crate) const TRAPS: u64 = 7 << 32;
pub(crate) const SOCKET: u64 = 8 << 32;
pub(crate) const LOG: u64 = 9 << 32;
pub(crate) const DEVICES: u64 = 10 << 32;
pub(crate) const CONSOLE: u64 = 11 << 32;
pub(crate) const STRANGER: u64 = 12 << 32;
pub(crate) const HELD: u64 = 13 << 32;
pub(crate) const STORED: u64 = 14 << 32;
pub(crate) const CLOCK: u64 = 15 << 32;
pub(crate) const PID_FILES: u64 = 16 << 32;
pub(crate) const WALL_CLOCK: u64 = 17 << 32;
pub(crate) const PATHS: u64 = 18 << 32;
pub(crate) const KIND: u64 = 0xffff << 32;

/// Of which of a unit's sockets a token of [`SOCKET`] is: a number above its kind.
pub(crate) fn socket(unit: UnitId, index: usize) -> u64 {
    (index as u64) << 48 | SOCKET | u64::from(unit.0)
}

/// The place among its unit's of the socket that a token is of.
pub(crate) fn socket_index(token: u64) -> u16 {
    (token >> 48) as u16
}

/// Nobody waits for the answer: clients are numbered from 1.
pub(crate) const NOBODY: ClientId = ClientId(0);

/// Whether a source has news of processes: it is read after those that say which processes there are.
pub(crate) fn is_of_process(token: u64) -> bool {
    matches!(token & KIND, EXITS | NOTIFY | STRANGER)
}
