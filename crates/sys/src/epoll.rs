//! epoll(7): the wait of every event loop in Warrener.
//!
//! A source is any fd, named by a `u64` token of the caller's. Nothing here owns a source.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use crate::error::{Context, Result};

/// What a source is watched for. Combine with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest(EventFlags);

impl Interest {
    /// Data, a connection or a peer's half close can be read.
    pub const READ: Interest = Interest(EventFlags::IN.union(EventFlags::RDHUP));
    /// Writing would not block.
    pub const WRITE: Interest = Interest(EventFlags::OUT);
    /// Exceptional condition: `/proc/self/mountinfo`, cgroup and PSI files report changes so.
    pub const PRIORITY: Interest = Interest(EventFlags::PRI);
    /// Report changes only, not the level.
    pub const EDGE: Interest = Interest(EventFlags::ET);
    /// Nothing but errors and hang-ups; a source kept registered while it is not wanted.
    pub const NONE: Interest = Interest(EventFlags::empty());
}

impl std::ops::BitOr for Interest {
    type Output = Interest;
    fn bitor(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }
}

/// One source that is ready.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// The token given to [`Epoll::add`].
    pub token: u64,
    flags: EventFlags,
}

impl Ready {
    /// Reading will not block (data, end of file or an error to be collected).
    pub fn readable(&self) -> bool {
        self.flags
            .intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
    }

    /// Writing will not block.
    pub fn writable(&self) -> bool {
        self.flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP)
    }

    /// The exceptional condition was raised.
    pub fn priority(&self) -> bool {
        self.flags.contains(EventFlags::PRI)
    }

    /// The peer is gone or has shut down its writing side.
    pub fn hangup(&self) -> bool {
        self.flags.intersects(EventFlags::HUP | EventFlags::RDHUP)
    }
}

/// Room for the answers of one wait; made once and reused.
pub struct Events {
    buffer: Vec<epoll::Event>,
}

impl Events {
    /// Room for `capacity` ready sources per wait; more stay ready for the next.
    pub fn with_capacity(capacity: usize) -> Events {
        Events { buffer: Vec::with_capacity(capacity.max(1)) }
    }

    /// The sources found ready by the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Ready> + '_ {
        self.buffer.iter().map(|e| Ready { token: e.data.u64(), flags: e.flags })
    }

    /// How many sources the last wait found ready.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// True when the last wait ran into its timeout.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// A new instance, close-on-exec.
    pub fn new() -> Result<Epoll> {
        epoll::create(epoll::CreateFlags::CLOEXEC).call("epoll_create1").map(Epoll)
    }

    /// Watches `source`, to be reported as `token`.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::add(&self.0, source, EventData::new_u64(token), interest.0).call("epoll_ctl add")
    }

    /// Changes what a watched source is watched for.
    pub fn modify(&self, source: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        epoll::modify(&self.0, source, EventData::new_u64(token), interest.0).call("epoll_ctl mod")
    }

    /// Stops watching. Must be called before the fd is closed if it was ever duplicated.
    pub fn remove(&self, source: impl AsFd) -> Result<()> {
        epoll::delete(&self.0, source).call("epoll_ctl del")
    }

    /// Waits until a source is ready or `timeout` has passed (`None`: for ever).
    /// Being interrupted by a signal counts as nothing ready.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> Result<()> {
        let limit = timeout.map(timespec);
        events.buffer.clear();
        let room = rustix::buffer::spare_capacity(&mut events.buffer);
        match epoll::wait(&self.0, room, limit.as_ref()) {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e).call("epoll_wait"),
        }
    }
}

/// Rounded up to a millisecond: kernels without epoll_pwait2 know no finer wait, and rounding
/// down would make a loop spin until its timer is due.
fn timespec(d: Duration) -> Timespec {
    let ms = d.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i64;
    Timespec { tv_sec: ms / 1000, tv_nsec: (ms % 1000) * 1_000_000 }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readable_pipe_is_reported_by_its_token() {
        let (rx, tx) = rustix::pipe::pipe().expect("a pipe can be made");
        let ep = Epoll::new().expect("an epoll instance can be made");
        ep.add(&rx, 42, Interest::READ).expect("a pipe can be watched");
        let mut events = Events::with_capacity(4);
        ep.wait(&mut events, Some(Duration::ZERO)).expect("wait works");
        assert!(events.is_empty());
        rustix::io::write(&tx, b"x").expect("the pipe has room");
        ep.wait(&mut events, None).expect("wait works");
        let ready: Vec<_> = events.iter().map(|r| (r.token, r.readable(), r.hangup())).collect();
        assert_eq!(ready, [(42, true, false)]);
    }
}
