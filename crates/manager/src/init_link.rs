//! The link to warren-init: what it hands over at the start, its store of file descriptors, and
//! the ring of ended processes.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_init::client::{self, ClientError, Handed, Incoming, InitEvent};
use warren_init::protocol::control::{CONTROL_FD, InitRequest, PowerAction, Welcome};
use warren_init::protocol::ring::{ExitRecord, Ring};
use warren_sys::eventfd::EventFd;
use warren_sys::fdpass;

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
    /// Answer to [`InitLink::accept`]: a connection, which init keeps, or an errno.
    Accepted {
        /// The number of the request.
        token: u64,
        /// The connection, or why there is none (EAGAIN: none waits).
        connection: std::result::Result<OwnedFd, i32>,
    },
    /// Answer to [`InitLink::list_stored`]: some of what is kept.
    Stored {
        /// With their names.
        listed: Vec<(String, OwnedFd)>,
        /// No more parts follow.
        last: bool,
    },
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
    /// Messages that came while the store was read.
    early: VecDeque<FromInit>,
}

type Result<T> = std::result::Result<T, ClientError>;

impl InitLink {
    /// Takes the link that this process was started with and greets init.
    pub fn connect() -> Result<(InitLink, Greeting)> {
        let socket = fdpass::take_inherited(CONTROL_FD, OWN_FDS_MIN)?;
        client::send_control(socket.as_fd(), &InitRequest::Hello, None)?;
        let InitEvent::Welcome(handed) = wait_for_event(socket.as_fd())? else {
            return Err(ClientError::Fds);
        };
        let Handed { welcome, ring, wake, room, helpers } = *handed;
        let next = ring.read_position();
        let mut link = InitLink { socket, ring, wake, room, next, early: VecDeque::new() };
        let stored = link.take_store()?;
        Ok((link, Greeting { welcome, helpers, stored }))
    }

    fn take_store(&mut self) -> Result<Vec<(String, OwnedFd)>> {
        let mut stored = Vec::new();
        loop {
            match wait_for_event(self.socket.as_fd())? {
                InitEvent::Stored(batch, last) => {
                    stored.extend(batch);
                    if last {
                        return Ok(stored);
                    }
                }
                other => self.early.extend(understood(other)),
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
            match client::receive_event(self.socket.as_fd()) {
                Ok(Incoming::Nothing) => return None,
                Ok(Incoming::Message(message)) => {
                    if let Some(message) = understood(message) {
                        return Some(message);
                    }
                }
                Ok(Incoming::End) | Err(_) => return Some(FromInit::Gone),
            }
        }
    }

    /// Ended processes not seen yet, at most `max`. They count as handled only after
    /// [`InitLink::release`].
    pub fn ended(&mut self, max: usize) -> Vec<ExitRecord> {
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
        client::send_control(self.socket(), &InitRequest::StoreFd { name }, Some(fd))
    }

    /// Ends the keeping.
    pub fn drop_stored(&self, name: &str) -> Result<()> {
        client::send_control(self.socket(), &InitRequest::DropFd { name }, None)
    }

    /// Asks for all that init keeps: [`FromInit::Stored`] comes, in several parts.
    pub fn list_stored(&self) -> Result<()> {
        client::send_control(self.socket(), &InitRequest::ListFds, None)
    }

    /// Asks init to take a connection from a socket that it keeps and to keep it under `name`;
    /// [`FromInit::Accepted`] is the answer.
    pub fn accept(&self, token: u64, listener: &str, name: &str) -> Result<()> {
        let request = InitRequest::Accept { token, listener, name };
        client::send_control(self.socket(), &request, None)
    }

    /// Ends a helper that is held up: [`FromInit::Helper`] comes with the next one.
    pub fn end_helper(&self, index: usize) -> Result<()> {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        client::send_control(self.socket(), &InitRequest::EndHelper { index }, None)
    }

    /// The manager is alive.
    pub fn ping(&self, n: u64) -> Result<()> {
        client::send_control(self.socket(), &InitRequest::Ping { n }, None)
    }

    /// Ends everything.
    pub fn power(&self, action: PowerAction) -> Result<()> {
        client::send_control(self.socket(), &InitRequest::Power(action), None)
    }
}

fn wait_for_event(socket: BorrowedFd<'_>) -> Result<InitEvent> {
    match client::wait_for_event(socket)? {
        Incoming::Message(event) => Ok(event),
        Incoming::Nothing | Incoming::End => Err(ClientError::Fds),
    }
}

fn understood(event: InitEvent) -> Option<FromInit> {
    match event {
        InitEvent::Helper(index, socket) => {
            Some(FromInit::Helper { index: usize::from(index), socket })
        }
        InitEvent::Signal(signal) => Some(FromInit::Signal(signal)),
        InitEvent::Refused(why, name) => Some(FromInit::Refused(format!("{why:?} {name}"))),
        InitEvent::Accepted(token, connection) => Some(FromInit::Accepted { token, connection }),
        InitEvent::Stored(listed, last) => Some(FromInit::Stored { listed, last }),
        InitEvent::Welcome(_) | InitEvent::Pong(_) => None,
    }
}
