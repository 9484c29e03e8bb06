//! The socket to the manager; [`crate::input::handover`] says what is said.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_sys::fdpass::{self, Credentials};

use crate::input::handover::{ENDED, HELLO, Packet, parse};

/// Largest packet that is taken, bytes.
const PACKET_BYTES_MAX: usize = 128 << 10;

/// The link.
pub struct Link {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// What came over it.
pub struct Received {
    /// What it says.
    pub packets: Vec<Packet>,
    /// The stream of [`Packet::Stream`].
    pub fd: Option<OwnedFd>,
    /// Who said it.
    pub sender: Credentials,
    /// What of it was left out.
    pub faults: Vec<String>,
}

impl Link {
    /// Over the socket that the manager gave this daemon.
    pub fn new(socket: OwnedFd) -> Link {
        Link { socket, buffer: vec![0; PACKET_BYTES_MAX] }
    }

    /// To be watched.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next packet; `None` when there is none.
    pub fn receive(&mut self) -> Option<Received> {
        let mut fds = Vec::new();
        let received = fdpass::recv(self.socket.as_fd(), &mut self.buffer, &mut fds, false).ok()?;
        if received.bytes == 0 && !received.truncated {
            return None;
        }
        let unknown = Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let sender = received.credentials.unwrap_or(unknown);
        let packet = self.buffer.get(..received.bytes).filter(|_| !received.truncated);
        let (packets, faults) = match packet {
            Some(packet) => parse(packet),
            None => (Vec::new(), vec!["A packet of the manager was too large".to_owned()]),
        };
        Some(Received { packets, fd: fds.pop(), sender, faults })
    }

    /// Asks for every stream that there is.
    pub fn hello(&self) {
        self.say(HELLO);
    }

    /// A stream has ended: the manager need not keep it.
    pub fn ended(&self, key: u64) {
        self.say(&format!("{ENDED}{key}"));
    }

    fn say(&self, text: &str) {
        // The manager takes what it is told; what it misses while it is away it hears again when
        // it hands over what it still has.
        let _ = fdpass::try_send(self.socket.as_fd(), text.as_bytes(), &[]);
    }
}
