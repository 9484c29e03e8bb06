//! The link to warren-init: what it hands over at the start, its store of file descriptors, and
//! the ring of ended processes.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_init::protocol::control::{
    CONTROL_FD, InitMessage, InitRequest, PowerAction, Welcome, unpack_names,
};
use warren_init::protocol::ring::{ExitRecord, Ring};
use warren_init::protocol::{PACKET_BYTES_MAX, decode, encode};
use warren_sys::eventfd::EventFd;
use warren_sys::memfd::SharedWords;
use warren_sys::{Error, Result, fdpass};

/// Lowest number that own file descriptors get: below are the standard streams and the link.
const OWN_FDS_MIN: i32 = 10;

/// What init said.
#[derive(Debug)]
pub enum FromInit {
    /// A new exec helper in place of one that died.
    Helper {
        /// Which.
        index: usize,
        /// Its socket.
        socket: OwnedFd,
    },
    /// A signal that init got.
    Signal(i32),
    /// A request was refused.
    Refused(String),
    /// Init is gone: nothing can be done any more.
    Gone,
}

/// What a new incarnation finds.
pub struct Greeting {
    /// Incarnation and reason.
    pub welcome: Welcome,
    /// Sockets of the exec helpers.
    pub helpers: Vec<OwnedFd>,
    /// Stored file descriptors with their names.
    pub stored: Vec<(String, OwnedFd)>,
}

/// The connection.
pub struct InitLink {
    socket: OwnedFd,
    ring: Ring,
    wake: EventFd,
    room: EventFd,
    next: u64,
    early: VecDeque<FromInit>,
    buffer: Vec<u8>,
}

fn protocol(what: &'static str) -> Error {
    Error::new(what, 71)
}

impl InitLink {
    /// Takes the link that this process was started with and greets init.
    pub fn connect() -> Result<(InitLink, Greeting)> {
        let socket = fdpass::take_inherited(CONTROL_FD, OWN_FDS_MIN)?;
        send(socket.as_fd(), &InitRequest::Hello, &[])?;
        let mut buffer = vec![0; PACKET_BYTES_MAX];
        let mut fds = Vec::new();
        let received = fdpass::recv(socket.as_fd(), &mut buffer, &mut fds, true)?;
        let welcome = match decode(&buffer[..received.bytes]) {
            Ok(InitMessage::Welcome(welcome)) => welcome,
            _ => return Err(protocol("greet init")),
        };
        let mut fds = fds.into_iter();
        let mut next_fd = || fds.next().ok_or(protocol("greet init: too few descriptors"));
        let words = SharedWords::map(next_fd()?.as_fd())?;
        let ring = Ring::attach(words).map_err(|_| protocol("attach the exit ring"))?;
        let (wake, room) = (EventFd::from_fd(next_fd()?), EventFd::from_fd(next_fd()?));
        let helpers: Vec<OwnedFd> = fds.collect();
        let next = ring.read_position();
        let early = VecDeque::new();
        let mut link = InitLink { socket, ring, wake, room, next, early, buffer };
        let stored = link.take_store()?;
        Ok((link, Greeting { welcome, helpers, stored }))
    }

    fn take_store(&mut self) -> Result<Vec<(String, OwnedFd)>> {
        let mut stored = Vec::new();
        loop {
            let mut fds = Vec::new();
            let received = fdpass::recv(self.socket.as_fd(), &mut self.buffer, &mut fds, true)?;
            match decode(&self.buffer[..received.bytes]) {
                Ok(InitMessage::Fds { names, last }) => {
                    stored.extend(unpack_names(names).map(str::to_owned).zip(fds));
                    if last {
                        return Ok(stored);
                    }
                }
                Ok(other) => {
                    let other = understood(other, &mut fds);
                    self.early.extend(other);
                }
                Err(_) => return Err(protocol("read init's store")),
            }
        }
    }

    /// To be watched for messages.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// To be watched for ended processes.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The next message, if one is there.
    pub fn receive(&mut self) -> Option<FromInit> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        loop {
            let mut fds = Vec::new();
            match fdpass::recv(self.socket.as_fd(), &mut self.buffer, &mut fds, false) {
                Ok(received) if received.bytes == 0 => return Some(FromInit::Gone),
                Ok(received) => {
                    let message = decode(&self.buffer[..received.bytes]).ok()?;
                    if let Some(message) = understood(message, &mut fds) {
                        return Some(message);
                    }
                }
                Err(e) if e.is_would_block() => return None,
                Err(_) => return Some(FromInit::Gone),
            }
        }
    }

    /// Ended processes not seen yet, at most `max`. They count as handled only after
    /// [`InitLink::release`].
    pub fn ended(&mut self, max: usize) -> Vec<ExitRecord> {
        self.wake.clear();
        let mut out = Vec::new();
        while out.len() < max
            && let Some(record) = self.ring.get(self.next)
        {
            self.next += 1;
            out.push(record);
        }
        if self.ring.get(self.next).is_some() {
            self.wake.notify();
        }
        out
    }

    /// Everything seen so far, up to the record `held` if there is one, is written down: its place
    /// in the ring is free.
    pub fn release(&self, held: Option<u64>) {
        let done = held.unwrap_or(self.next).min(self.next);
        if self.ring.read_position() < done && self.ring.release(done) {
            self.room.notify();
        }
    }

    /// Keeps a file descriptor over the manager's death.
    pub fn store(&self, name: &str, fd: BorrowedFd<'_>) -> Result<()> {
        send(self.socket.as_fd(), &InitRequest::StoreFd { name }, &[fd])
    }

    /// Ends the keeping.
    pub fn drop_stored(&self, name: &str) -> Result<()> {
        send(self.socket.as_fd(), &InitRequest::DropFd { name }, &[])
    }

    /// The manager is alive.
    pub fn ping(&self, n: u64) -> Result<()> {
        send(self.socket.as_fd(), &InitRequest::Ping { n }, &[])
    }

    /// Ends everything.
    pub fn power(&self, action: PowerAction) -> Result<()> {
        send(self.socket.as_fd(), &InitRequest::Power(action), &[])
    }
}

fn send(socket: BorrowedFd<'_>, request: &InitRequest<'_>, fds: &[BorrowedFd<'_>]) -> Result<()> {
    let packet = encode(request).map_err(|_| protocol("encode for init"))?;
    fdpass::send(socket, &packet, fds)
}

fn understood(message: InitMessage<'_>, fds: &mut Vec<OwnedFd>) -> Option<FromInit> {
    match message {
        InitMessage::Helper { index } => {
            fds.pop().map(|socket| FromInit::Helper { index: usize::from(index), socket })
        }
        InitMessage::Signal { signo } => Some(FromInit::Signal(i32::from(signo))),
        InitMessage::Refused { why, name } => Some(FromInit::Refused(format!("{why:?} {name}"))),
        InitMessage::Welcome(_) | InitMessage::Fds { .. } | InitMessage::Pong { .. } => None,
    }
}
