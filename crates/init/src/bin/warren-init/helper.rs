//! An exec helper, as init sees it.

use std::os::fd::OwnedFd;

use warren_sys::{Result, fdpass, process};

use crate::backoff::Backoff;

const SIGKILL: i32 = 9;

/// One exec helper: its place stays, the process behind it may change.
pub struct Helper {
    /// 0 while none runs.
    pub pid: i32,
    /// The manager's end of its socket, kept for every manager to come.
    pub socket: OwnedFd,
    /// When it was started, or has ended, CLOCK_MONOTONIC, nanoseconds.
    started_ns: u64,
    /// When the next is to be started.
    pub start_at_ns: Option<u64>,
    backoff: Backoff,
    /// Killed by us, as the manager asked.
    pub ended: bool,
}

impl Helper {
    /// A place whose process is due at once. Its socket is replaced when it starts.
    pub fn new(backoff: Backoff) -> Result<Helper> {
        let (socket, _) = fdpass::seqpacket_pair(false)?;
        Ok(Helper { pid: 0, socket, started_ns: 0, start_at_ns: Some(0), backoff, ended: false })
    }

    /// A process that takes this place, and the manager's end of its socket.
    pub fn started(&mut self, pid: i32, socket: OwnedFd, now: u64) {
        (self.pid, self.socket) = (pid, socket);
        (self.started_ns, self.start_at_ns) = (now, None);
    }

    /// Kills it, if it runs: the next one is started as soon as it is reaped.
    pub fn end(&mut self) {
        if self.pid > 0 && process::kill(self.pid, SIGKILL).is_ok() {
            self.ended = true;
        }
    }

    /// It was reaped.
    pub fn ended(&mut self, now: u64) {
        self.pid = 0;
        let delay = match std::mem::take(&mut self.ended) {
            true => 0,
            false => self.backoff.delay_ns(now.saturating_sub(self.started_ns)),
        };
        self.start_at_ns = Some(now + delay);
        self.started_ns = now;
    }
}
