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
//!
//! File descriptors are received from root and the manager's own user alone. A message bus passes those of all on: who
//! sent a message with some is looked up while it is still in the socket ([`Front`]), and only what comes from one of
//! these is taken with them.

use crate::descriptors::{Descriptor, Descriptors};
use crate::sasl::{Greeting, NoGreeting, client_greeting, greeting_answer};
use crate::signals::SignalQueue;
use crate::wire::{self, WireError};
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, UCred, recv, sendmsg,
};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Instant;
use warren_sys::descriptors::Allowance;
use warren_sys::letting_go::Verdict;
use warren_sys::{disposal, endings, fdpass};

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
const LOOK_BYTES: usize = disposal::PIECE_BYTES_MAX;
/// Most file descriptors of messages that are not whole.
const FDS_MAX: usize = fdpass::FDS_PER_MESSAGE_MAX;
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
    /// It sent file descriptors, of which we take none, or that cannot be let go of.
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

/// What becomes of file descriptors that come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taking {
    /// The kernel refuses them.
    Refused,
    /// The same, but the kernel cannot: to read is to close them, which may take long. So what is there is looked at
    /// first.
    LeftThere,
    /// They are received: all are of root or the manager's own user.
    All,
    /// What has some waits until somebody says whether its sender is one of these.
    OfSome,
}

/// A message with its file descriptors.
#[derive(Debug, Default)]
pub struct Parcel {
    /// The message.
    pub bytes: Vec<u8>,
    /// Those that came with it, if its sender may change things.
    pub fds: Descriptors,
}

/// A message with file descriptors that is at the front of the socket, or its beginning.
struct Front {
    /// Who sent it, as the bus says; empty if it does not.
    sender: Box<str>,
    bytes: Vec<u8>,
}

/// Bytes to be sent.
struct Piece {
    bytes: Vec<u8>,
    /// One of ours, which nobody waits for when it is closed.
    fd: Option<OwnedFd>,
}

/// What came.
#[derive(Debug)]
pub enum Frame {
    /// A message.
    Whole(Parcel),
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
    taking: Taking,
    /// Received file descriptors of messages that are not whole yet.
    fds: VecDeque<Descriptor>,
    front: Option<Front>,
    /// File descriptors may be sent.
    sends_fds: bool,
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
    output: VecDeque<Piece>,
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

    /// A bus, which is greeted. It passes no file descriptors on.
    pub fn to_bus(socket: OwnedFd, peer: UCred, own_uid: u32, now: Instant) -> Connection {
        let mut bus = Connection::with(socket, peer, Handshake::Awaited, now);
        bus.push(client_greeting(own_uid, false));
        bus
    }

    /// The same of one that passes file descriptors on, about each of which it is to be decided ([`Connection::front`]).
    pub fn to_bus_with_fds(socket: OwnedFd, peer: UCred, own_uid: u32, now: Instant) -> Connection {
        let mut bus = Connection::over(socket, peer, Handshake::Awaited, Taking::OfSome, now);
        bus.push(client_greeting(own_uid, true));
        bus
    }

    fn with(socket: OwnedFd, peer: UCred, handshake: Handshake, now: Instant) -> Connection {
        let taking = match fdpass::refuse_fds(socket.as_fd()) {
            Ok(()) => Taking::Refused,
            Err(_) => Taking::LeftThere,
        };
        Connection::over(socket, peer, handshake, taking, now)
    }

    fn over(
        socket: OwnedFd,
        peer: UCred,
        handshake: Handshake,
        taking: Taking,
        now: Instant,
    ) -> Connection {
        if taking != Taking::Refused {
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
            taking,
            fds: VecDeque::new(),
            front: None,
            sends_fds: false,
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

    /// A client who may send file descriptors, if it asks for that.
    pub fn allow_fds(&mut self) {
        if let Handshake::Greeted(greeting) = &mut self.handshake {
            greeting.allow_fds();
        }
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
        self.front.is_none() && (self.is_ready_for_calls() || is_looked_at && self.may_say_more())
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
        let received = match self.taking {
            Taking::OfSome => self.look_for_descriptors(),
            Taking::All => self.read_all(),
            Taking::Refused if !self.is_bound() => self.read(),
            Taking::Refused | Taking::LeftThere => self.look_and_read(),
        };
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

    /// Reads with the file descriptors that are there.
    fn read_all(&mut self) -> Result<usize, Gone> {
        let at = self.input.len();
        self.input.resize(at + READ_BYTES, 0);
        let received = self.take_in(at);
        self.input.truncate(at + *received.as_ref().unwrap_or(&0));
        if self.fds.len() > FDS_MAX { Err(Gone::Descriptors) } else { received }
    }

    /// Receives into the input from this place on, with file descriptors. Those that do not leave the reserve alone
    /// are dropped; who sent them finds them missing.
    fn take_in(&mut self, at: usize) -> Result<usize, Gone> {
        let mut fds = Vec::new();
        let room = self.input.get_mut(at..).unwrap_or_default();
        let received = fdpass::recv_all(self.socket.as_fd(), room, &mut fds);
        let allowance = Allowance::of_process();
        let fds: Vec<Descriptor> = fds.into_iter().map(Descriptor::new).collect();
        let received = received.map_err(|e| Gone::Failed(Errno::from_raw_os_error(e.errno)))?;
        if !received.lost_fds && fds.iter().all(|fd| allowance.covers(fd.as_fd())) {
            self.fds.extend(fds);
        }
        Ok(received.bytes)
    }

    /// Reads what is before the first message that has file descriptors. What is behind it stays where it is until it
    /// is decided what becomes of them.
    fn look_for_descriptors(&mut self) -> Result<usize, Gone> {
        const LATER: Gone = Gone::Failed(Errno::AGAIN);
        if self.front.is_some() {
            return Err(LATER);
        }
        let mut room = [0; LOOK_BYTES];
        let failed = |e: warren_sys::Error| Gone::Failed(Errno::from_raw_os_error(e.errno));
        let seen = fdpass::peek_plain(self.socket.as_fd(), &mut room).map_err(failed)?;
        let there = room.get(..seen.bytes).unwrap_or_default();
        let plain = if seen.lost_fds { self.bytes_without(there) } else { there.len() };
        if plain == 0 && seen.lost_fds {
            let sender = wire::parse_header(there).map_or("", |header| header.sender).into();
            self.front = Some(Front { sender, bytes: there.to_vec() });
            return Err(LATER);
        }
        let (_, bytes) =
            recv(&self.socket, room.get_mut(..plain).unwrap_or_default(), RecvFlags::DONTWAIT)
                .map_err(Gone::Failed)?;
        self.input.extend_from_slice(&room[..bytes]);
        Ok(bytes)
    }

    /// How much of what is next in the socket, whose last message has file descriptors, is before that: they come with
    /// a message's first byte.
    fn bytes_without(&self, there: &[u8]) -> usize {
        let kept = self.input.get(self.taken..).unwrap_or_default();
        let all = [kept, there].concat();
        let mut at = match self.is_open() {
            true => self.passing,
            false => greeting_answer(&all, true).ok().flatten().map_or(0, |answer| answer.bytes),
        };
        while let Some(rest) = all.get(at..)
            && let Ok(Some(bytes)) = wire::frame_bytes(rest)
        {
            let is_next = || wire::parse_header(rest).map_or(true, |header| header.descriptors > 0);
            // Of what was read before it was decided.
            if at >= kept.len() && is_next() {
                break;
            }
            at += bytes;
        }
        let before = at.saturating_sub(kept.len());
        if before < there.len() { before } else { 0 }
    }

    /// Who sent the message with file descriptors that is next, if one is.
    pub fn front(&self) -> Option<&str> {
        self.front.as_ref().map(|front| &*front.sender)
    }

    /// Takes that message with its file descriptors.
    pub fn take_front(&mut self) -> Result<(), Gone> {
        let Some(front) = self.front.take() else { return Ok(()) };
        self.input.drain(..std::mem::take(&mut self.taken));
        let at = self.input.len();
        self.input.resize(at + front.bytes.len(), 0);
        let received = self.take_in(at);
        self.input.truncate(at + *received.as_ref().unwrap_or(&0));
        received.map(|_| ())
    }

    /// Takes that message, which this user sent, without its file descriptors. They are let go of by another process.
    ///
    /// Errors: the user has as many of those held up as he may.
    pub fn take_front_without(&mut self, uid: u32) -> Result<(), Gone> {
        let Some(front) = self.front.take() else { return Ok(()) };
        match endings::discard_piece(self.socket.as_fd(), front.bytes.len(), uid) {
            Verdict::Gone => {
                self.input.drain(..std::mem::take(&mut self.taken));
                self.input.extend_from_slice(&front.bytes);
                Ok(())
            }
            Verdict::Memory | Verdict::Stays => Err(Gone::Descriptors),
        }
    }

    fn greet(&mut self) -> Result<(), Gone> {
        let mut answer = Vec::new();
        let wants_fds = self.taking == Taking::OfSome;
        let fed = match &mut self.handshake {
            Handshake::Greeted(greeting) => greeting.feed(&self.input, &mut answer),
            Handshake::Awaited | Handshake::Answered => greeting_answer(&self.input, wants_fds)
                .map(|answer| {
                    self.sends_fds |= answer.is_some_and(|answer| answer.has_fds);
                    answer.map_or(0, |answer| answer.bytes)
                }),
        };
        let used = fed.map_err(|NoGreeting| Gone::NoGreeting)?;
        match &self.handshake {
            Handshake::Awaited if used > 0 => self.handshake = Handshake::Answered,
            Handshake::Greeted(greeting) if greeting.has_fds() && self.taking != Taking::All => {
                // A kernel that cannot refuse them takes them anyway.
                let _ = fdpass::allow_fds(self.socket.as_fd());
                self.taking = Taking::All;
                self.sends_fds = true;
            }
            _ => {}
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
        let bytes = frame.to_vec();
        self.taken += bytes.len();
        self.half_since = None;
        let fds = self.fds_of(&bytes);
        Ok(Some(Frame::Whole(Parcel { bytes, fds })))
    }

    /// The file descriptors of a message that begins with this.
    fn fds_of(&mut self, beginning: &[u8]) -> Descriptors {
        if self.fds.is_empty() {
            return Descriptors::default();
        }
        let said = wire::parse_header(beginning).map_or(0, |header| header.descriptors as usize);
        self.fds.drain(..said.min(self.fds.len())).collect()
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
        drop(self.fds_of(&beginning));
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
        self.output.push_back(Piece { bytes, fd: None });
    }

    /// Whether a file descriptor can be sent.
    pub fn sends_fds(&self) -> bool {
        self.sends_fds
    }

    /// Adds bytes to what is to be sent, with a file descriptor that goes with the first of them.
    pub fn push_with_fd(&mut self, bytes: Vec<u8>, fd: OwnedFd) {
        self.push(bytes);
        if let Some(piece) = self.output.back_mut() {
            piece.fd = Some(fd);
        }
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
        let (mut count, mut fd) = (0, None);
        for (slot, piece) in slices.iter_mut().zip(&self.output) {
            let from = if count == 0 { self.sent } else { 0 };
            if let Some(own) = piece.fd.as_ref().filter(|_| from == 0) {
                // It goes with the first byte that is sent.
                if count > 0 {
                    break;
                }
                fd = Some([own.as_fd()]);
            }
            *slot = IoSlice::new(&piece.bytes[from..]);
            count += 1;
        }
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut along = SendAncillaryBuffer::new(&mut room);
        if let Some(fd) = &fd {
            along.push(SendAncillaryMessage::ScmRights(fd));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &slices[..count], &mut along, flags)
    }

    fn advance(&mut self, bytes: usize) {
        self.unsent -= bytes;
        self.sent += bytes;
        self.taken_at = Instant::now();
        while let Some(first) = self.output.front()
            && self.sent >= first.bytes.len()
        {
            self.sent -= first.bytes.len();
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
        (Connection::over(near.into(), peer, greeting, Taking::LeftThere, Instant::now()), far)
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
