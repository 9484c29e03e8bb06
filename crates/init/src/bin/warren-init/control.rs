//! One manager's control socket: what it asks, and what is still to be told to it.
//!
//! What is to be told is state, not a queue: bits, a position in the store, the last ping. So a
//! manager that does not read costs no memory, and no message can be lost by a full socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use warren_sys::errno::{EAGAIN, EINVAL, ENOENT, ENOSPC};

use warren_init::protocol::control::{
    HELPERS_MAX, InitMessage, InitRequest, PowerAction, Refusal, STORE_NAME_BYTES_MAX, Welcome,
    pack_name,
};
use warren_init::protocol::{PACKET_BYTES_MAX, decode, encode_into};
use warren_sys::epoll::Interest;
use warren_sys::fdpass::{self, FDS_PER_MESSAGE_MAX};
use warren_sys::signal::SignalSet;
use warren_sys::{socket, time};

use crate::crash;
use crate::helper::Helper;
use crate::shared::Shared;
use crate::store::Store;

/// Requests handled in one turn of the loop.
const REQUESTS_PER_TURN_MAX: usize = 256;

/// Requests that a dead manager can have left in its socket: far more than the buffer holds.
const LAST_REQUESTS_MAX: usize = 65_536;

/// Names in one batch of stored fds, bytes.
const BATCH_NAMES_BYTES: usize = 32 << 10;

/// The answer to a ping is held back no longer than this for sockets that are being closed: each is for 100 ms at most,
/// and there may be many.
const PONG_HELD_NS_MAX: u64 = 5_000_000_000;

/// A `Welcome` carries the ring, two eventfds and the helpers.
const WELCOME_FDS_MAX: usize = 3 + HELPERS_MAX;

// errno(3), on Linux.

/// The socket is full: try again when it is writable.
struct Full;

/// The answer to an `Accept` that is still to be given. There is one at most: the next request is
/// read only after it was told.
struct Accepted {
    token: u64,
    errno: i32,
}

/// The answer to a ping that is still to be given. It says that whoever is to have the address of a socket that was to be
/// closed before it can.
#[derive(Clone, Copy)]
struct Pong {
    n: u64,
    /// Of [`crate::closing::Closing`], when the ping came.
    moment: u64,
    /// It is held back no longer, CLOCK_MONOTONIC.
    until_ns: u64,
}

/// What messages are taken into. Every manager's link has the same: there may be no memory for another.
pub struct Inbox {
    buffer: Box<[u8; PACKET_BYTES_MAX]>,
    fds: Vec<OwnedFd>,
    /// Where an accepted connection is stored.
    accepted_name: String,
}

impl Inbox {
    /// Empty.
    pub fn new() -> Inbox {
        Inbox {
            buffer: Box::new([0; PACKET_BYTES_MAX]),
            fds: Vec::with_capacity(FDS_PER_MESSAGE_MAX),
            accepted_name: String::with_capacity(STORE_NAME_BYTES_MAX),
        }
    }
}

/// The connection to one manager.
pub struct Link {
    socket: OwnedFd,
    inbox: Inbox,
    welcome_due: bool,
    welcomed: bool,
    listing: Option<usize>,
    helpers_due: u32,
    pong_due: Option<Pong>,
    accepted_due: Option<Accepted>,
    /// The peer has closed its end.
    pub ended: bool,
    interest: Interest,
    told_interest: Interest,
    /// When the last heartbeat came, CLOCK_MONOTONIC.
    pub last_ping_ns: Option<u64>,
    /// Signals that were told since the last heartbeat, and since the one before.
    told_signals: [SignalSet; 2],
}

impl Link {
    /// A connection over which nothing was said yet.
    pub fn new(socket: OwnedFd, inbox: Inbox) -> Link {
        Link {
            socket,
            inbox,
            welcome_due: false,
            welcomed: false,
            listing: None,
            helpers_due: 0,
            pong_due: None,
            accepted_due: None,
            ended: false,
            interest: Interest::READ,
            told_interest: Interest::READ,
            last_ping_ns: None,
            told_signals: [SignalSet::EMPTY; 2],
        }
    }

    /// Ends it, and what it has taken but not understood; its inbox is for the next.
    pub fn into_inbox(mut self) -> Inbox {
        self.inbox.fds.clear();
        self.inbox.accepted_name.clear();
        self.inbox
    }

    /// Signals that the manager may not have acted on. It sends the next heartbeat when it has taken in what it
    /// was told up to the answer to the last, and has written down what follows from that.
    pub fn unheeded(&self) -> SignalSet {
        self.told_signals[0].union(self.told_signals[1])
    }

    /// The manager has called and was answered.
    pub fn is_welcomed(&self) -> bool {
        self.welcomed
    }

    /// When an answer is given that is held back, CLOCK_MONOTONIC.
    pub fn pong_held_until_ns(&self) -> Option<u64> {
        self.pong_due.map(|pong| pong.until_ns)
    }

    /// The socket, for epoll.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What to watch the socket for, when that has changed.
    pub fn new_interest(&mut self) -> Option<Interest> {
        let changed = self.interest != self.told_interest;
        self.told_interest = self.interest;
        changed.then_some(self.interest)
    }

    /// The helper has a new socket.
    pub fn tell_of_helper(&mut self, index: usize) {
        self.helpers_due |= 1 << index;
    }

    /// Tells what is due and reads what was asked, if epoll said that there is something. A request
    /// for the end is returned.
    pub fn exchange(&mut self, shared: &mut Shared, ready: bool) -> Option<PowerAction> {
        for _ in 0..REQUESTS_PER_TURN_MAX {
            // Answers of any size come first, so that a peer that only asks cannot pile them up.
            if self.tell(shared).is_err() {
                // Level-triggered this could spin: a socket that carries too many fds in flight
                // is writable and still refuses.
                self.interest = Interest::WRITE | Interest::EDGE;
                return None;
            }
            self.interest = Interest::READ;
            if !ready {
                return None;
            }
            match self.ask(shared) {
                Asked::Nothing => return None,
                Asked::Something => {}
                Asked::Power(action) => return Some(action),
            }
        }
        None // more is readable: epoll says so again
    }

    /// Handles what a manager that has ended left behind; answers go nowhere.
    pub fn drain(&mut self, shared: &mut Shared) -> Option<PowerAction> {
        let mut power = None;
        for _ in 0..LAST_REQUESTS_MAX {
            match self.ask(shared) {
                Asked::Nothing => break,
                Asked::Something => {}
                Asked::Power(action) => power = Some(action),
            }
        }
        power
    }

    // ---- from the manager ----

    fn ask(&mut self, shared: &mut Shared) -> Asked {
        if self.ended {
            return Asked::Nothing;
        }
        self.inbox.fds.clear();
        let buffer = self.inbox.buffer.as_mut_slice();
        let received = match fdpass::recv(self.socket.as_fd(), buffer, &mut self.inbox.fds, false) {
            Ok(received) => received,
            Err(e) => {
                self.ended = !e.is_would_block();
                return Asked::Nothing;
            }
        };
        if received.truncated {
            // Too long, or our table of fds is full: then it is known what was to be kept.
            let packet = self.inbox.buffer.get(..received.bytes).unwrap_or_default();
            let name = match decode::<InitRequest<'_>>(packet) {
                Ok(InitRequest::StoreFd { name }) => name,
                _ => "",
            };
            self.refuse(Refusal::StoreFull, name);
            return Asked::Something;
        }
        if received.bytes == 0 {
            self.ended = true;
            return Asked::Nothing;
        }
        self.handle(received.bytes, shared)
    }

    fn handle(&mut self, bytes: usize, shared: &mut Shared) -> Asked {
        let packet = self.inbox.buffer.get(..bytes).unwrap_or_default();
        match decode::<InitRequest<'_>>(packet) {
            Err(_) => self.refuse(Refusal::Malformed, ""),
            Ok(InitRequest::Hello) => {
                self.welcome_due = true;
                self.listing = Some(0);
            }
            Ok(InitRequest::ListFds) => self.listing = Some(0),
            Ok(InitRequest::DropFd { name }) => shared.store.drop_fd(name),
            Ok(InitRequest::Ping { n }) => {
                let now = time::monotonic_ns();
                self.last_ping_ns = Some(now);
                self.told_signals = [SignalSet::EMPTY, self.told_signals[0]];
                // Who pings on meanwhile waits no longer for that.
                let until_ns = self.pong_held_until_ns().unwrap_or(now + PONG_HELD_NS_MAX);
                let moment = shared.store.closing.moment();
                self.pong_due = Some(Pong { n, moment, until_ns });
            }
            Ok(InitRequest::Power(action)) => return Asked::Power(action),
            Ok(InitRequest::OnCrash(plan)) => crash::set(plan),
            Ok(InitRequest::EndHelper { index }) => {
                shared.helpers.get_mut(usize::from(index)).into_iter().for_each(Helper::end);
            }
            Ok(InitRequest::Accept { token, listener, name }) => {
                let errno = accept(&mut shared.store, listener, name).err().unwrap_or(0);
                self.inbox.accepted_name.clear();
                if errno == 0 {
                    self.inbox.accepted_name.push_str(name); // it fits, or it were not stored
                }
                self.accepted_due = Some(Accepted { token, errno });
            }
            Ok(InitRequest::StoreFd { name }) => {
                let result = match self.inbox.fds.pop() {
                    Some(fd) if self.inbox.fds.is_empty() => shared.store.put(name, fd),
                    _ => Err(Refusal::NoFd),
                };
                if let Err(why) = result {
                    refuse(self.socket.as_fd(), why, name);
                }
            }
        }
        Asked::Something
    }

    fn refuse(&self, why: Refusal, name: &str) {
        refuse(self.socket.as_fd(), why, name);
    }

    // ---- to the manager ----

    fn tell(&mut self, shared: &mut Shared) -> Result<(), Full> {
        if self.welcome_due {
            self.tell_welcome(shared)?;
        }
        while let Some(at) = self.listing {
            self.listing = self.tell_fds(shared, at)?;
        }
        if !self.welcomed {
            return Ok(()); // it would not understand
        }
        for index in 0..HELPERS_MAX {
            if self.helpers_due & 1 << index != 0 {
                self.tell_helper(shared, index)?;
                self.helpers_due &= !(1 << index);
            }
        }
        for signal in shared.signals.iter() {
            if !self.send_to_peer(&InitMessage::Signal { signo: signal as u8 })? {
                return Ok(()); // the next one is told
            }
            self.told_signals[0] = self.told_signals[0].with(signal);
            shared.signals = shared.signals.without(signal);
        }
        if let Some(Accepted { token, errno }) = self.accepted_due {
            let connection = shared.store.by_name(&self.inbox.accepted_name).filter(|_| errno == 0);
            self.send(&InitMessage::Accepted { token, errno }, connection.as_slice())?;
            self.accepted_due = None;
        }
        if let Some(Pong { n, moment, until_ns }) = self.pong_due
            && (shared.store.closing.has_freed(moment) || time::monotonic_ns() >= until_ns)
        {
            self.send(&InitMessage::Pong { n }, &[])?;
            self.pong_due = None;
        }
        Ok(())
    }

    fn tell_welcome(&mut self, shared: &Shared) -> Result<(), Full> {
        let message = InitMessage::Welcome(Welcome {
            incarnation: shared.incarnation,
            instance: shared.instance,
            reason: shared.reason,
            init_pid: std::process::id() as i32,
            helpers: shared.helpers.len() as u16,
            stored_fds: shared.store.len() as u32,
            heartbeat_ms: shared.heartbeat_ms,
            init_started_ns: shared.started_ns,
        });
        let mut fds = [shared.ring_fd.as_fd(); WELCOME_FDS_MAX];
        fds[1] = shared.wake.as_fd();
        fds[2] = shared.room.as_fd();
        for (slot, helper) in fds[3..].iter_mut().zip(&shared.helpers) {
            *slot = helper.socket.as_fd();
        }
        self.send(&message, &fds[..3 + shared.helpers.len()])?;
        self.welcome_due = false;
        self.welcomed = true;
        self.helpers_due = 0; // it has the newest
        Ok(())
    }

    /// One batch from this position on; the position of the next, if there is one.
    fn tell_fds(&self, shared: &Shared, start: usize) -> Result<Option<usize>, Full> {
        let mut names = [0u8; BATCH_NAMES_BYTES];
        let mut used = 0;
        let mut fds = [self.socket.as_fd(); FDS_PER_MESSAGE_MAX];
        let mut at = start;
        for slot in &mut fds {
            let Some((name, fd)) = shared.store.get(at) else { break };
            if !pack_name(&mut names, &mut used, name) {
                break;
            }
            *slot = fd;
            at += 1;
        }
        let last = at >= shared.store.len();
        let names = names.get(..used).unwrap_or_default();
        self.send(&InitMessage::Fds { names, last }, &fds[..at - start])?;
        Ok((!last).then_some(at))
    }

    fn tell_helper(&self, shared: &Shared, index: usize) -> Result<(), Full> {
        let Some(helper) = shared.helpers.get(index) else { return Ok(()) };
        let message = InitMessage::Helper { index: index as u16 };
        self.send(&message, &[helper.socket.as_fd()])
    }

    /// A peer that is gone counts as told: its end is noticed elsewhere.
    fn send(&self, message: &InitMessage<'_>, fds: &[BorrowedFd<'_>]) -> Result<(), Full> {
        send(self.socket.as_fd(), message, fds).map(|_| ())
    }

    /// Whether somebody is there to read it.
    fn send_to_peer(&self, message: &InitMessage<'_>) -> Result<bool, Full> {
        send(self.socket.as_fd(), message, &[])
    }
}

enum Asked {
    Nothing,
    Something,
    Power(PowerAction),
}

/// Whether somebody is there to read it.
fn send(
    socket: BorrowedFd<'_>,
    message: &InitMessage<'_>,
    fds: &[BorrowedFd<'_>],
) -> Result<bool, Full> {
    use warren_sys::errno::{ENOBUFS, ETOOMANYREFS};
    let mut buffer = [0u8; BATCH_NAMES_BYTES + 1024];
    let packet = encode_into(message, &mut buffer).expect("the buffer fits the largest message");
    match fdpass::try_send(socket, packet, fds) {
        Err(e) if e.is_would_block() || matches!(e.errno, ENOBUFS | ETOOMANYREFS) => Err(Full),
        sent => Ok(sent.is_ok()),
    }
}

/// Takes a connection from a stored socket into the store, without waiting for one.
fn accept(store: &mut Store, listener: &str, name: &str) -> Result<(), i32> {
    let listener = store.by_name(listener).ok_or(ENOENT)?;
    if store.closing.is_behind(listener) {
        return Err(ENOSPC);
    }
    // Whoever shares the open socket may have made it wait.
    warren_sys::file::set_nonblocking(listener, true).map_err(|e| e.errno)?;
    let connection = socket::accept(listener).map_err(|e| e.errno)?.ok_or(EAGAIN)?;
    store.put(name, connection).map_err(|why| match why {
        Refusal::StoreFull => ENOSPC,
        _ => EINVAL,
    })
}

/// Best effort: a peer that floods us with wrong requests need not hear of each.
fn refuse(socket: BorrowedFd<'_>, why: Refusal, name: &str) {
    let _ = send(socket, &InitMessage::Refused { why, name }, &[]);
}
