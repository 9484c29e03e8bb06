//! What processes say of themselves over the notify socket, and to which unit it belongs.

use crate::process::notify_socket::Datagram;
use warren_sys::epoll::Interest;

/// Datagrams taken from the notify socket in one turn.
pub(crate) const DATAGRAMS_PER_TURN_MAX: usize = 4096;

/// Datagrams that are kept until their sender is known.
pub(crate) const EARLY_NOTICES_MAX: usize = 256;

/// Datagrams that stay in the notify socket while the sender of one of them is not known.
pub(crate) const HELD_NOTICES_MAX: usize = 64;

/// What a process said of itself that nobody knows yet. It stays in the notify socket.
pub(crate) struct EarlyNotice {
    pub(crate) datagram: Datagram,
    /// The last spawn that was sent before it was heard.
    pub(crate) sent: u64,
    /// When that was, CLOCK_MONOTONIC, nanoseconds.
    pub(crate) heard_ns: u64,
}

/// By arrivals: what stays in the socket for a while must not wake the loop over and over.
pub(crate) fn notify_interest() -> Interest {
    Interest::READ | Interest::EDGE
}
