//! One client: its socket, what it sent and is not looked at yet, what it has yet to be sent. A message
//! bus is one as well, whose greeting goes the other way.
//!
//! Everything here is bounded: the greeting, one message, the calls that wait for the manager and
//! their bytes. A client that overruns a bound is dropped, or not read from until there is room. What
//! waits for the client is bounded by that: with [`HIGH_WATER_BYTES`] unsent, no call is looked at,
//! so there is one reply more at most. While a call waits for what it asked the manager to do, those behind it
//! are not looked at: each sees what those before it have done.
//!
//! A message bus is not dropped for what one of its clients sent: what is too long is passed over as
//! it comes, and is not kept.

use crate::sasl::{Greeting, NoGreeting, client_greeting, greeting_answer};
use crate::signals::SignalQueue;
use crate::wire::{self, WireError};
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, UCred, recv, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;
use warren_sys::fdpass;

/// Above this many unsent bytes a client's calls are left unread.
pub const HIGH_WATER_BYTES: usize = 1 << 20;
/// Most calls of one client that wait for the manager.
pub const CALLS_WAITING_MAX: usize = 1024;
/// Most bytes of calls of one client that wait for the manager, but for the last.
const WAITING_BYTES_MAX: usize = wire::MAX_MESSAGE_BYTES;
/// Longest message of a client who may change nothing.
pub const STRANGER_MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Longest header that is read of a message which is passed over.
const HEADER_BYTES_MAX: usize = 16 << 10;
const READ_BYTES: usize = 64 << 10;
/// The same where what is there is looked at first.
const LOOK_BYTES: usize = 16 << 10;
const SLICES_MAX: usize = 32;

/// Why a client is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// It closed its end.
    Closed,
    /// The kernel says so.
    Failed(Errno),
    /// It did not greet as it should.
    NoGreeting,
    /// It sent what is no message.
    Garbage(WireError),
    /// It fell too far behind with signals, or has taken nothing for too long.
    TooSlow,
    /// It sent file descriptors, of which we take none.
    Descriptors,
}

impl From<WireError> for Gone {
    fn from(error: WireError) -> Gone {
        Gone::Garbage(error)
    }
}

/// Where the greeting is.
enum Handshake {
    /// The other end is a client, which greets.
    Greeted(Greeting),
    /// The other end is a bus: its answer is awaited.
    Awaited,
    /// The bus has answered.
    Answered,
}

/// What came.
#[derive(PartialEq, Eq, Debug)]
pub enum Frame {
    /// A message.
    Whole(Vec<u8>),
    /// The beginning of one that is longer than [`wire::MAX_MESSAGE_BYTES`], whose rest is passed over.
    TooLong(Vec<u8>),
}

/// One client.
pub struct Connection {
    pub socket: OwnedFd,
    pub peer: UCred,
    pub since: Instant,
    /// As long as it is there.
    pub there: Arc<()>,
    /// Calls that wait for the manager ...
    pub waiting: usize,
    /// ... and bytes of those that are looked at again.
    pub waiting_bytes: usize,
    /// Those of them that later calls wait for.
    pub holding: usize,
    /// It has said its last word: what it said is looked at, answered or not.
    pub is_over: bool,
    /// What it has yet to be told. On a private socket all are told, subscribed or not:
    /// systemctl waits for jobs without subscribing.
    pub signals: SignalQueue,
    pub is_subscribed: bool,
    /// It has sent a message. Before that it is told nothing: who takes this for a bus wants the answer to Hello() first.
    pub has_spoken: bool,
    /// Closed as soon as everything is sent.
    pub is_closing: bool,
    /// When it last took anything of what was to be sent, or there last was nothing to send.
    taken_at: Instant,
    /// What the socket is watched for.
    pub interest: epoll::EventFlags,
    handshake: Handshake,
    /// The kernel does not refuse file descriptors for us: to read is to close them, which may take long.
    looks_first: bool,
    /// Longest message.
    message_bytes_max: usize,
    /// Since when there is a part of a message and not the whole of it.
    half_since: Option<Instant>,
    /// When something last came.
    pub heard_at: Instant,
    input: Vec<u8>,
    /// Bytes at the front of the input that were looked at.
    taken: usize,
    /// Bytes of a message that is too long which are yet to come.
    passing: usize,
    output: VecDeque<Vec<u8>>,
    /// Bytes of the first output that are sent already.
    sent: usize,
    unsent: usize,
}

impl Connection {
    /// A client that has yet to greet.
    pub fn new(socket: OwnedFd, peer: UCred, server_id: [u8; 32], now: Instant) -> Connection {
        let greeting = Greeting::new(peer.uid.as_raw(), server_id);
        Connection::with(socket, peer, Handshake::Greeted(greeting), now)
    }

    /// A bus, which is greeted.
    pub fn to_bus(socket: OwnedFd, peer: UCred, own_uid: u32, now: Instant) -> Connection {
        let mut bus = Connection::with(socket, peer, Handshake::Awaited, now);
        bus.push(client_greeting(own_uid));
        bus
    }

    fn with(socket: OwnedFd, peer: UCred, handshake: Handshake, now: Instant) -> Connection {
        let looks_first = fdpass::refuse_fds(socket.as_fd()).is_err();
        Connection::over(socket, peer, handshake, looks_first, now)
    }

    fn over(
        socket: OwnedFd,
        peer: UCred,
        handshake: Handshake,
        looks_first: bool,
        now: Instant,
    ) -> Connection {
        if looks_first {
            // Then there is no room for file descriptors.
            let _ = fdpass::pass_credentials_alone(socket.as_fd());
        }
        Connection {
            socket,
            peer,
            since: now,
            there: Arc::default(),
            waiting: 0,
            waiting_bytes: 0,
            holding: 0,
            is_over: false,
            signals: SignalQueue::default(),
            is_subscribed: false,
            has_spoken: false,
            is_closing: false,
            taken_at: now,
            interest: epoll::EventFlags::IN,
            handshake,
            looks_first,
            message_bytes_max: wire::MAX_MESSAGE_BYTES,
            half_since: None,
            heard_at: now,
            input: Vec::new(),
            taken: 0,
            passing: 0,
            output: VecDeque::new(),
            sent: 0,
            unsent: 0,
        }
    }

    /// A client who may change nothing: his messages are short, and no more memory is kept for them than they have.
    pub fn bound(&mut self) {
        self.message_bytes_max = STRANGER_MESSAGE_BYTES_MAX;
    }

    /// Whether it is such a client.
    pub fn is_bound(&self) -> bool {
        self.message_bytes_max < wire::MAX_MESSAGE_BYTES
    }

    /// Bytes of a message that is not whole, and since when it is not.
    pub fn half(&self) -> Option<(usize, Instant)> {
        self.half_since.map(|since| (self.input.len() - self.taken, since))
    }

    /// Whether it has greeted, or was greeted.
    pub fn is_open(&self) -> bool {
        match &self.handshake {
            Handshake::Greeted(greeting) => greeting.is_done(),
            Handshake::Awaited => false,
            Handshake::Answered => true,
        }
    }

    /// Whether its calls are to be looked at: each sees what those before it have done.
    pub fn is_ready_for_calls(&self) -> bool {
        let is_held = self.holding > 0 && !self.is_over;
        !is_held && self.may_say_more()
    }

    /// Whether what it says is to be read. Who waits for each answer is, also meanwhile, so that nothing need be
    /// changed for it.
    pub fn is_to_be_read(&self) -> bool {
        let is_looked_at = self.taken == self.input.len();
        self.is_ready_for_calls() || is_looked_at && self.may_say_more()
    }

    fn may_say_more(&self) -> bool {
        let is_idle = self.waiting < CALLS_WAITING_MAX && self.waiting_bytes < WAITING_BYTES_MAX;
        is_idle && self.has_room()
    }

    /// Whether there may be another reply.
    pub fn has_room(&self) -> bool {
        self.unsent < HIGH_WATER_BYTES && !self.is_closing
    }

    /// Bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        self.unsent
    }

    /// Whether there is something to send.
    pub fn has_output(&self) -> bool {
        self.unsent > 0
    }

    /// Reads once and takes the greeting out of it.
    pub fn receive(&mut self) -> Result<(), Gone> {
        self.input.drain(..std::mem::take(&mut self.taken));
        let looks_first = self.looks_first || self.is_bound();
        let received = if looks_first { self.look_and_read() } else { self.read() };
        let bytes = match received {
            Ok(bytes) => bytes,
            Err(Gone::Failed(Errno::AGAIN | Errno::INTR)) => return Ok(()),
            Err(gone) => return Err(gone),
        };
        if bytes == 0 {
            return Err(Gone::Closed);
        }
        self.heard_at = Instant::now();
        if self.is_open() { Ok(()) } else { self.greet() }
    }

    fn read(&mut self) -> Result<usize, Gone> {
        self.input.reserve(READ_BYTES);
        let room = rustix::buffer::spare_capacity(&mut self.input);
        recv(&self.socket, room, RecvFlags::DONTWAIT).map(|(_, bytes)| bytes).map_err(Gone::Failed)
    }

    /// Reads what no file descriptors are with.
    fn look_and_read(&mut self) -> Result<usize, Gone> {
        let mut room = [0; LOOK_BYTES];
        let failed = |e: warren_sys::Error| Gone::Failed(Errno::from_raw_os_error(e.errno));
        let seen = fdpass::peek_plain(self.socket.as_fd(), &mut room).map_err(failed)?;
        if seen.lost_fds {
            return Err(Gone::Descriptors);
        }
        let room = room.get_mut(..seen.bytes).unwrap_or_default();
        let (_, bytes) =
            recv(&self.socket, &mut *room, RecvFlags::DONTWAIT).map_err(Gone::Failed)?;
        self.input.extend_from_slice(&room[..bytes]);
        Ok(bytes)
    }

    fn greet(&mut self) -> Result<(), Gone> {
        let mut answer = Vec::new();
        let fed = match &mut self.handshake {
            Handshake::Greeted(greeting) => greeting.feed(&self.input, &mut answer),
            Handshake::Awaited | Handshake::Answered => {
                greeting_answer(&self.input).map(|end| end.unwrap_or(0))
            }
        };
        let used = fed.map_err(|NoGreeting| Gone::NoGreeting)?;
        if used > 0 && matches!(self.handshake, Handshake::Awaited) {
            self.handshake = Handshake::Answered;
        }
        self.input.drain(..used);
        if !answer.is_empty() {
            self.push(answer);
        }
        Ok(())
    }

    /// The next whole message, if one is there.
    ///
    /// Errors: what is there is none; a client's is too long.
    pub fn next_message(&mut self) -> Result<Option<Frame>, Gone> {
        if !self.is_open() {
            return Ok(None);
        }
        self.pass(0);
        let input = &self.input[self.taken..];
        let Some(bytes) = wire::frame_bytes(input)? else { return self.wait_for_more() };
        if bytes > self.message_bytes_max {
            return self.begin_passing(bytes);
        }
        let Some(frame) = input.get(..bytes) else { return self.wait_for_more() };
        let frame = frame.to_vec();
        self.taken += bytes;
        self.half_since = None;
        Ok(Some(Frame::Whole(frame)))
    }

    fn wait_for_more(&mut self) -> Result<Option<Frame>, Gone> {
        let is_half = self.taken < self.input.len();
        self.half_since = is_half.then(|| self.half_since.unwrap_or(self.heard_at));
        if !is_half && self.is_bound() {
            (self.input, self.taken) = (Vec::new(), 0);
        }
        Ok(None)
    }

    fn begin_passing(&mut self, bytes: usize) -> Result<Option<Frame>, Gone> {
        if matches!(self.handshake, Handshake::Greeted(_)) {
            return Err(WireError::TooLong.into());
        }
        let input = &self.input[self.taken..];
        if input.len() < HEADER_BYTES_MAX {
            return Ok(None);
        }
        let beginning = input[..HEADER_BYTES_MAX].to_vec();
        self.pass(bytes);
        Ok(Some(Frame::TooLong(beginning)))
    }

    /// Passes over so many bytes more.
    fn pass(&mut self, more: usize) {
        self.passing += more;
        let here = self.passing.min(self.input.len() - self.taken);
        self.taken += here;
        self.passing -= here;
    }

    /// Since when it has taken nothing of what is to be sent; nothing if all is sent.
    pub fn waits_since(&self) -> Option<Instant> {
        self.has_output().then_some(self.taken_at)
    }

    /// Adds bytes to what is to be sent.
    pub fn push(&mut self, bytes: Vec<u8>) {
        if !self.has_output() {
            self.taken_at = Instant::now();
        }
        self.unsent += bytes.len();
        self.output.push_back(bytes);
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) -> Result<(), Gone> {
        while self.unsent > 0 {
            match self.send_some() {
                Ok(bytes) => self.advance(bytes),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Gone::Failed(errno)),
            }
        }
        if self.is_closing { Err(Gone::Closed) } else { Ok(()) }
    }

    fn send_some(&self) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        for (slot, bytes) in slices.iter_mut().zip(&self.output) {
            let from = if count == 0 { self.sent } else { 0 };
            *slot = IoSlice::new(&bytes[from..]);
            count += 1;
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags)
    }

    fn advance(&mut self, bytes: usize) {
        self.unsent -= bytes;
        self.sent += bytes;
        self.taken_at = Instant::now();
        while let Some(first) = self.output.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            self.output.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// A client whose kernel refuses no file descriptors, and its end.
    fn client() -> (Connection, UnixStream) {
        let (near, far) = UnixStream::pair().expect("a pair");
        let peer = rustix::net::sockopt::socket_peercred(&near).expect("it is known");
        let greeting = Handshake::Greeted(Greeting::new(peer.uid.as_raw(), [b'0'; 32]));
        (Connection::over(near.into(), peer, greeting, true, Instant::now()), far)
    }

    #[test]
    fn file_descriptors_that_the_kernel_does_not_refuse_are_left_where_they_are() {
        let (mut own, far) = client();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        (&far).write_all(b"\0AUTH ANONYMOUS\r\n").expect("there is room");
        fdpass::send(far.as_fd(), b"x", &[writer.as_fd()]).expect("nobody refuses");
        drop(writer);
        assert_eq!(own.receive(), Err(Gone::Descriptors));
        let is_closed = || fdpass::wait_readable(reader.as_fd(), std::time::Duration::ZERO);
        assert_eq!(is_closed(), Ok(false));
        drop(own);
        assert_eq!(is_closed(), Ok(true));
    }

    #[test]
    fn where_the_kernel_refuses_no_file_descriptors_all_else_is_read() {
        let (mut own, far) = client();
        assert_eq!(own.receive(), Ok(()));
        (&far).write_all(b"\0AUTH ANONYMOUS\r\n").expect("there is room");
        assert_eq!(own.receive(), Ok(()));
        assert!(own.has_output(), "it is answered");
        drop(far);
        assert_eq!(own.receive(), Err(Gone::Closed));
    }

    fn connection() -> (Connection, OwnedFd) {
        let pair = || {
            let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
            socketpair(family, kind, SocketFlags::NONBLOCK, None)
        };
        let (own, client) = pair().expect("a pair");
        let peer = rustix::net::sockopt::socket_peercred(&own).expect("a peer");
        (Connection::new(own, peer, [0; 32], Instant::now()), client)
    }

    #[test]
    fn who_takes_nothing_waits_since_he_last_took_something() {
        let (mut own, client) = connection();
        assert_eq!(own.waits_since(), None);
        own.push(vec![0; 8 << 20]);
        own.flush().expect("the socket is full");
        let first = own.waits_since().expect("not all is sent");
        own.push(vec![0; 1]);
        own.flush().expect("the socket is full");
        assert_eq!(own.waits_since(), Some(first), "more to send is nothing taken");
        let mut buffer = vec![0; 16 << 20];
        while own.has_output() {
            recv(&client, &mut buffer, RecvFlags::empty()).expect("something is there");
            own.flush().expect("the client is there");
        }
        assert_eq!(own.waits_since(), None);
        own.push(vec![0; 8 << 20]);
        assert!(own.waits_since().is_some_and(|since| since > first), "he had taken all");
    }
}
