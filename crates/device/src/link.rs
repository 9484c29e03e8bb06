//! The link to the manager: a socket whose ends init keeps, handed over as sd_listen_fds(3) says.
//!
//! [`warren_wire::device_link`] says what is said. What is not taken at once is not queued: everything is told again as
//! soon as there is room.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use warren_sys::{fdpass, file, memfd};
use warren_wire::device_link::{ALL, LINK_FD_NAME, NEWS};

/// The first descriptor that is handed over, and the most that are looked at.
const FIRST_FD: i32 = 3;
const FDS_MAX: i32 = 64;

/// Requests of the manager taken at a time.
const REQUESTS_MAX: usize = 64;

/// This end of the link.
#[derive(Debug)]
pub struct ManagerLink(OwnedFd);

impl ManagerLink {
    /// The link that this process was started with; none by hand.
    pub fn inherited() -> Option<ManagerLink> {
        let own = std::process::id().to_string();
        if std::env::var("LISTEN_PID").ok()? != own {
            return None;
        }
        let count: i32 = std::env::var("LISTEN_FDS").ok()?.parse().ok()?;
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let last = FIRST_FD + count.clamp(0, FDS_MAX);
        let number =
            (FIRST_FD..last).zip(names.split(':')).find(|(_, name)| *name == LINK_FD_NAME)?.0;
        let fd = fdpass::take_inherited(number, last).ok()?;
        ManagerLink::over(fd)
    }

    /// A link over this end.
    pub fn over(fd: OwnedFd) -> Option<ManagerLink> {
        file::set_nonblocking(fd.as_fd(), true).ok()?;
        Some(ManagerLink(fd))
    }

    /// Whether the manager wants to be told everything.
    pub fn is_asked(&self) -> bool {
        let (mut buffer, mut fds) = ([0; 16], Vec::new());
        let mut asked = false;
        for _ in 0..REQUESTS_MAX {
            match fdpass::recv(self.0.as_fd(), &mut buffer, &mut fds, false) {
                Ok(received) if received.bytes > 0 => {
                    asked |= buffer.get(..received.bytes) == Some(ALL);
                }
                _ => break,
            }
        }
        asked
    }

    /// Sends one message; false if there is no room for it now.
    pub fn send(&self, message: &str) -> bool {
        let Ok(content) = memfd::sealed("warren-devices", message.as_bytes()) else { return false };
        fdpass::try_send(self.0.as_fd(), NEWS, &[content.as_fd()]).is_ok()
    }
}

impl AsFd for ManagerLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Who started this program and wants to know when it has told what there is; sd_notify(3). Found
/// before the sandbox, in which there is no way to it.
#[derive(Debug)]
pub struct Starter(UnixDatagram);

impl Starter {
    /// The one that the environment names, if any.
    pub fn find() -> Option<Starter> {
        let path = std::env::var("NOTIFY_SOCKET").ok()?;
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(&path),
        };
        let connected = address.and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.connect_addr(&address)?;
            Ok(socket)
        });
        connected.map(Starter).inspect_err(say).ok()
    }

    /// Tells it.
    pub fn tell_ready(&self) {
        let _ = self.0.send(b"READY=1").inspect_err(say);
    }
}

fn say(error: &std::io::Error) {
    warren_sys::tell!("warren-deviced: NOTIFY_SOCKET: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_travel_and_requests_are_heard() {
        let (near, far) = fdpass::seqpacket_pair(true).expect("a socket pair");
        let link = ManagerLink::over(near).expect("a link");
        assert!(!link.is_asked());
        fdpass::try_send(far.as_fd(), ALL, &[]).expect("there is room");
        fdpass::try_send(far.as_fd(), b"WHAT", &[]).expect("there is room");
        assert!(link.is_asked() && !link.is_asked());
        assert!(link.send("whole\n"));
        let (mut buffer, mut fds) = ([0; 16], Vec::new());
        let received = fdpass::recv(far.as_fd(), &mut buffer, &mut fds, false).expect("news");
        assert_eq!(&buffer[..received.bytes], NEWS);
        let text = memfd::read_all(fds[0].as_fd(), 100).expect("a message");
        assert_eq!(text, b"whole\n");
        assert!(memfd::is_sealed(&fds[0]));
        let mut sent = 0;
        while link.send("x") {
            sent += 1;
            assert!(sent < 10_000, "a link that nobody reads fills up");
        }
    }
}
