//! The manager's side of the channels: packets in and out, as owned values.
//!
//! Keeps no state: the manager registers init's socket with its own event loop and calls
//! [`receive_event`] when it is readable. Only what is sent to init may wait, for init to read: it
//! always does. With helpers the manager deals itself.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use warren_sys::errno::EMFILE;

use warren_sys::eventfd::EventFd;
use warren_sys::memfd::SharedWords;
use warren_sys::{Error, fdpass};

use crate::protocol::control::{InitMessage, InitRequest, Refusal, Welcome, unpack_names};
use crate::protocol::ring::Ring;
use crate::protocol::{PACKET_BYTES_MAX, WireError, decode, encode};

/// What went wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientError {
    /// A system call. `EAGAIN` from a send: the socket is full, try again when it is writable.
    Sys(Error),
    /// A packet that is not of this protocol, or a message too large for it.
    Wire(WireError),
    /// A message that came without the fds it announces, or with a damaged ring.
    Fds,
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ClientError::Sys(error) => error.fmt(f),
            ClientError::Wire(error) => error.fmt(f),
            ClientError::Fds => write!(f, "message without the fds that it announces"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<Error> for ClientError {
    fn from(error: Error) -> ClientError {
        ClientError::Sys(error)
    }
}

impl From<WireError> for ClientError {
    fn from(error: WireError) -> ClientError {
        ClientError::Wire(error)
    }
}

impl ClientError {
    /// The socket is full: keep the message and try again when it is writable.
    pub fn is_would_block(&self) -> bool {
        matches!(self, ClientError::Sys(error) if error.is_would_block())
    }
}

/// What a read of a socket found.
#[derive(Debug)]
pub enum Incoming<T> {
    /// A message.
    Message(T),
    /// Nothing (more) for now.
    Nothing,
    /// The other side has ended, and everything it sent was read.
    End,
}

/// Sends a request to init, in order with those before.
pub fn send_control(
    control: BorrowedFd<'_>,
    request: &InitRequest<'_>,
    fd: Option<BorrowedFd<'_>>,
) -> Result<(), ClientError> {
    let packet = encode(request)?;
    Ok(fdpass::send(control, &packet, fd.as_slice())?)
}

/// The same without waiting: an error that [`ClientError::is_would_block`] says that there is no room.
pub fn try_send_control(
    control: BorrowedFd<'_>,
    request: &InitRequest<'_>,
    fd: Option<BorrowedFd<'_>>,
) -> Result<(), ClientError> {
    let packet = encode(request)?;
    Ok(fdpass::try_send(control, &packet, fd.as_slice())?)
}

/// What a new manager is handed; see [`Welcome`].
#[derive(Debug)]
pub struct Handed {
    /// The facts.
    pub welcome: Welcome,
    /// Exits of processes.
    pub ring: Ring,
    /// Readable when the ring has new records.
    pub wake: EventFd,
    /// To be notified when [`Ring::release`] says so.
    pub room: EventFd,
    /// One socket for each helper.
    pub helpers: Vec<OwnedFd>,
}

/// [`InitMessage`], owned.
#[derive(Debug)]
pub enum InitEvent {
    /// Answer to `Hello`.
    Welcome(Box<Handed>),
    /// Stored fds by name, and whether these were the last.
    Stored(Vec<(String, OwnedFd)>, bool),
    /// A helper's new socket.
    Helper(u16, OwnedFd),
    /// A signal for the manager.
    Signal(i32),
    /// Answer to a ping.
    Pong(u64),
    /// A request that was refused, and the name it was about.
    Refused(Refusal, String),
    /// What came of an `Accept`: its token, and the connection or an errno.
    Accepted(u64, Result<OwnedFd, i32>),
}

/// Takes one message of init, if there is one.
pub fn receive_event(control: BorrowedFd<'_>) -> Result<Incoming<InitEvent>, ClientError> {
    receive(control, false, |packet, fds| event(decode(packet)?, fds))
}

/// Waits for a message of init: for a manager's start, when there is nothing else to do.
pub fn wait_for_event(control: BorrowedFd<'_>) -> Result<Incoming<InitEvent>, ClientError> {
    receive(control, true, |packet, fds| event(decode(packet)?, fds))
}

fn event(message: InitMessage<'_>, fds: Vec<OwnedFd>) -> Result<InitEvent, ClientError> {
    match message {
        InitMessage::Welcome(welcome) => {
            handed(welcome, fds).map(|handed| InitEvent::Welcome(Box::new(handed)))
        }
        InitMessage::Fds { names, last } => {
            let names: Vec<String> = unpack_names(names).map(str::to_owned).collect();
            if names.len() != fds.len() {
                return Err(ClientError::Fds);
            }
            Ok(InitEvent::Stored(names.into_iter().zip(fds).collect(), last))
        }
        InitMessage::Helper { index } => {
            let socket = fds.into_iter().next().ok_or(ClientError::Fds)?;
            Ok(InitEvent::Helper(index, socket))
        }
        InitMessage::Signal { signo } => Ok(InitEvent::Signal(i32::from(signo))),
        InitMessage::Pong { n } => Ok(InitEvent::Pong(n)),
        InitMessage::Refused { why, name } => Ok(InitEvent::Refused(why, name.to_owned())),
        InitMessage::Accepted { token, errno: 0 } => {
            // This process may have no more open: as if the same had befallen init.
            Ok(InitEvent::Accepted(token, fds.into_iter().next().ok_or(EMFILE)))
        }
        InitMessage::Accepted { token, errno } => Ok(InitEvent::Accepted(token, Err(errno))),
    }
}

fn handed(welcome: Welcome, fds: Vec<OwnedFd>) -> Result<Handed, ClientError> {
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or(ClientError::Fds);
    let words = SharedWords::map(next()?.as_fd())?;
    let ring = Ring::attach(words).map_err(|_| ClientError::Fds)?;
    let (wake, room) = (EventFd::from_fd(next()?), EventFd::from_fd(next()?));
    let helpers: Vec<OwnedFd> = fds.collect();
    if helpers.len() != usize::from(welcome.helpers) {
        return Err(ClientError::Fds);
    }
    Ok(Handed { welcome, ring, wake, room, helpers })
}

fn receive<T>(
    socket: BorrowedFd<'_>,
    wait: bool,
    read: impl Fn(&[u8], Vec<OwnedFd>) -> Result<T, ClientError>,
) -> Result<Incoming<T>, ClientError> {
    let (mut buffer, mut fds) = ([0u8; PACKET_BYTES_MAX], Vec::new());
    match fdpass::recv(socket, &mut buffer, &mut fds, wait) {
        Err(e) if e.is_would_block() => Ok(Incoming::Nothing),
        Err(e) => Err(e.into()),
        Ok(received) if received.truncated && !received.lost_fds => Err(ClientError::Fds),
        Ok(received) if received.bytes == 0 => Ok(Incoming::End),
        Ok(received) => {
            let packet = buffer.get(..received.bytes).unwrap_or_default();
            read(packet, fds).map(Incoming::Message)
        }
    }
}
