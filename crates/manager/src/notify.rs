//! The notify socket: what services say about themselves (sd_notify(3)).

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use warren_core::event::Notify;
use warren_sys::Result;
use warren_sys::fdpass::{self, Received};
use warren_sys::socket::{self, Address, Kind, SocketOptions};

/// Largest datagram that is taken, in bytes (sd_notify(3) sends up to a pipe's atomic size).
const DATAGRAM_BYTES_MAX: usize = 4096;

/// Error numbers of the kernel.
const ERRNOS: RangeInclusive<i32> = 0..=4095;

/// File descriptors taken with one datagram.
const FDS_MAX: usize = 768;

/// A datagram.
pub struct Datagram {
    /// The sender, as the kernel vouches for it.
    pub pid: i32,
    /// The sender's user.
    pub uid: u32,
    /// What the core acts on.
    pub message: Notify,
    /// `FDSTORE=1` and `FDNAME=`.
    pub store: Option<String>,
    /// `FDSTOREREMOVE=1` and `FDNAME=`.
    pub unstore: Option<String>,
    /// What is stored is dropped when it hangs up (not with `FDPOLL=0`).
    pub polls: bool,
    /// File descriptors that came with it; among them that of `BARRIER=1`, which is answered by
    /// closing it.
    pub fds: Vec<OwnedFd>,
}

/// The socket.
pub struct NotifySocket {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// Datagrams that were looked at and are still in the socket.
    seen: usize,
}

impl NotifySocket {
    /// Binds it at `path`, in place of what an earlier manager left there.
    pub fn bind(path: &Path) -> Result<NotifySocket> {
        let options = SocketOptions { mode: 0o777, ..SocketOptions::default() };
        let address = Address::Path(path.to_string_lossy().into_owned());
        let fd = socket::listen(Kind::Datagram, &address, &options)?.fd;
        fdpass::pass_credentials(fd.as_fd())?;
        Ok(NotifySocket::over(fd))
    }

    /// Goes on with the socket of the last incarnation.
    pub fn over(fd: OwnedFd) -> NotifySocket {
        let _ = fdpass::start_peeking(fd.as_fd());
        NotifySocket { fd, buffer: vec![0; DATAGRAM_BYTES_MAX], seen: 0 }
    }

    /// To be watched and to be stored.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Datagrams that were looked at and are still in the socket.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// The next datagram; nothing when there is none. Those without a sender or too large are
    /// skipped. It stays in the socket until [`NotifySocket::release`], for the next manager if
    /// this one ends before it has written down what follows.
    pub fn receive(&mut self) -> Option<Datagram> {
        loop {
            let mut fds = Vec::new();
            let received = fdpass::peek(self.fd.as_fd(), &mut self.buffer, &mut fds).ok()?;
            // What it says holds also if there is no room for the descriptors that came with it.
            if received.truncated && !received.lost_fds {
                self.skip_large()?;
                continue;
            }
            self.seen += 1;
            let Received { bytes, credentials, .. } = received;
            let sender = credentials.filter(|c| c.pid > 0 && fds.len() <= FDS_MAX);
            if let Some(sender) = sender {
                let text = String::from_utf8_lossy(&self.buffer[..bytes]).into_owned();
                return Some(parse(sender.pid, sender.uid, &text, fds));
            }
        }
    }

    /// A look at a part of a datagram leaves the socket in its middle. Nothing if what was seen
    /// before it must be released first.
    fn skip_large(&mut self) -> Option<()> {
        if self.seen > 0 {
            return None;
        }
        fdpass::discard(self.fd.as_fd());
        fdpass::start_peeking(self.fd.as_fd()).ok()
    }

    /// What was received is written down.
    pub fn release(&mut self) {
        for _ in 0..std::mem::take(&mut self.seen) {
            fdpass::discard(self.fd.as_fd());
        }
        let _ = fdpass::start_peeking(self.fd.as_fd());
    }
}

/// What is said by being there counts wherever it stands; of fields with values the first one.
fn parse(pid: i32, uid: u32, text: &str, fds: Vec<OwnedFd>) -> Datagram {
    let says = |line: &str| text.lines().any(|l| l == line);
    let first = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
    let number = |key: &str| first(key)?.parse::<u64>().ok();
    let errno = first("ERRNO").and_then(|value| value.parse().ok());
    let main_pid = first("MAINPID").and_then(|value| value.parse().ok());
    let message = Notify {
        ready: says("READY=1"),
        reloading: says("RELOADING=1"),
        stopping: says("STOPPING=1"),
        clean: first("CLEAN").map(|value| value == "1"),
        status: first("STATUS").map(str::to_owned),
        errno: errno.filter(|n| ERRNOS.contains(n)),
        main_pid: main_pid.filter(|&pid| pid > 1),
        watchdog: says("WATCHDOG=1"),
        watchdog_trigger: says("WATCHDOG=trigger"),
        watchdog_us: number("WATCHDOG_USEC"),
        extend_timeout_us: number("EXTEND_TIMEOUT_USEC"),
    };
    let name = first("FDNAME").filter(|name| is_fd_name(name)).unwrap_or("stored").to_owned();
    Datagram {
        pid,
        uid,
        message,
        store: (says("FDSTORE=1") && !fds.is_empty()).then(|| name.clone()),
        unstore: says("FDSTOREREMOVE=1").then_some(name),
        polls: !says("FDPOLL=0"),
        fds,
    }
}

/// sd_notify(3): printable ASCII without colon, at most 255 characters.
fn is_fd_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_understood_and_rubbish_is_skipped() {
        let text =
            "READY=1\nSTATUS=up\nMAINPID=77\nERRNO=x\nFDNAME=a:b\nnothing\n=\nWATCHDOG=trigger";
        let got = parse(5, 0, text, Vec::new());
        assert_eq!((got.pid, got.message.ready, got.message.main_pid), (5, true, Some(77)));
        assert_eq!(got.message.status.as_deref(), Some("up"));
        assert_eq!((got.message.errno, got.message.watchdog_trigger), (None, true));
        assert_eq!((got.store, got.unstore), (None, None));
        let twice = parse(5, 0, "STATUS=a\nREADY=0\nSTATUS=b\nREADY=1", Vec::new()).message;
        assert_eq!((twice.status.as_deref(), twice.ready), (Some("a"), true));
        assert_eq!(parse(5, 0, "MAINPID=1", Vec::new()).message.main_pid, None);
    }
}
