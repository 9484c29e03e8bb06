//! What processes say of themselves over the notify socket, and to which unit it belongs.

use crate::process::notify_socket::Datagram;
use warren_sys::epoll::Interest;

/// Datagrams taken from the notify socket in one turn.
pub(crate) const DATAGRAMS_PER_TURN_MAX: usize = 4096;

/// Datagrams that are kept until their sender is known.
const EARLY_NOTICES_MAX: usize = 256;

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

/// Messages of processes whose helper has not reported them yet, where their cgroup does not say which unit they are
/// of.
#[derive(Default)]
pub(crate) struct EarlyNotices(Vec<EarlyNotice>);

impl EarlyNotices {
    /// Whether there is no room for another one.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= EARLY_NOTICES_MAX
    }

    /// Whether none is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps one.
    pub(crate) fn keep(&mut self, notice: EarlyNotice) {
        self.0.push(notice);
    }

    /// The messages of a process that was made at `started_ns`. What was heard before, another process with its
    /// number has said.
    pub(crate) fn take(&mut self, pid: u32, started_ns: u64) -> Vec<EarlyNotice> {
        let is_its = |early: &mut EarlyNotice| {
            early.datagram.pid as u32 == pid && early.heard_ns >= started_ns
        };
        self.0.extract_if(.., is_its).collect()
    }

    /// Forgets what was heard before the spawn with this number was sent; everything if none is under way.
    pub(crate) fn forget(&mut self, oldest_under_way: Option<u64>) {
        match oldest_under_way {
            Some(oldest) => self.0.retain(|early| early.sent >= oldest),
            None => self.0.clear(),
        }
    }
}

/// By arrivals: what stays in the socket for a while must not wake the loop over and over.
pub(crate) fn notify_interest() -> Interest {
    Interest::READ | Interest::EDGE
}
