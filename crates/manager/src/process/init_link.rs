//! The link to warren-init: what it hands over at the start, its store of file descriptors, and
//! the ring of ended processes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_init::client::{self, ClientError, Handed, Incoming, InitEvent};
use warren_init::protocol::control::{
    CONTROL_FD, InitRequest, OnCrash, PowerAction, Refusal, Welcome,
};
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
    /// A request was refused: why, and what it named.
    Refused(Refusal, String),
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
    /// Answer to [`InitLink::ping`] with this number: what was asked for before it is done.
    Pong(u64),
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
    /// Records before this one have become events.
    told: u64,
    /// Messages that came while the store was read, or while there was no room for a request.
    early: RefCell<VecDeque<FromInit>>,
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
        let early = RefCell::default();
        let mut link = InitLink { socket, ring, wake, room, next, told: next, early };
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
                other => self.early.get_mut().extend(understood(other)),
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
        if let Some(early) = self.early.get_mut().pop_front() {
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

    /// Ended processes not seen yet, at most `max`. Their records are not released before all of them
    /// have become events ([`InitLink::all_told`]).
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

    /// What was seen so far has become events.
    pub fn all_told(&mut self) {
        self.told = self.next;
    }

    /// Everything that became events, up to the record `held` if there is one, is written down: its place
    /// in the ring is free. Half of the ring is free for init, whatever is held.
    pub fn release(&self, held: Option<u64>) {
        let held_min = self.told.saturating_sub(self.ring.capacity() / 2);
        let done = held.unwrap_or(self.told).clamp(held_min, self.told);
        if self.ring.read_position() < done && self.ring.release(done) {
            self.room.notify();
        }
    }

    /// Whether messages were taken in that [`InitLink::receive`] has not given yet.
    pub fn has_early(&self) -> bool {
        !self.early.borrow().is_empty()
    }

    fn send(&self, request: &InitRequest<'_>, fd: Option<BorrowedFd<'_>>) -> Result<()> {
        send(self.socket(), &self.early, request, fd)
    }

    /// Keeps a file descriptor over the manager's death.
    pub fn store(&self, name: &str, fd: BorrowedFd<'_>) -> Result<()> {
        self.send(&InitRequest::StoreFd { name }, Some(fd))
    }

    /// Ends the keeping.
    pub fn drop_stored(&self, name: &str) -> Result<()> {
        self.send(&InitRequest::DropFd { name }, None)
    }

    /// Asks for all that init keeps: [`FromInit::Stored`] comes, in several parts.
    pub fn list_stored(&self) -> Result<()> {
        self.send(&InitRequest::ListFds, None)
    }

    /// Asks init to take a connection from a socket that it keeps and to keep it under `name`;
    /// [`FromInit::Accepted`] is the answer.
    pub fn accept(&self, token: u64, listener: &str, name: &str) -> Result<()> {
        let request = InitRequest::Accept { token, listener, name };
        self.send(&request, None)
    }

    /// Ends a helper that is held up: [`FromInit::Helper`] comes with the next one.
    pub fn end_helper(&self, index: usize) -> Result<()> {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        self.send(&InitRequest::EndHelper { index }, None)
    }

    /// The manager is alive; [`FromInit::Pong`] is the answer to the last of several.
    pub fn ping(&self, n: u64) -> Result<()> {
        self.send(&InitRequest::Ping { n }, None)
    }

    /// What process 1 does when it has made a fault.
    pub fn on_crash(&self, plan: OnCrash) -> Result<()> {
        self.send(&InitRequest::OnCrash(plan), None)
    }

    /// Ends everything.
    pub fn power(&self, action: PowerAction) -> Result<()> {
        self.send(&InitRequest::Power(action), None)
    }
}

/// Sends a request. Init takes none while there is no room for its answers: for as long as it has no
/// room for this one, what it says is taken in, or both would wait for ever.
fn send(
    socket: BorrowedFd<'_>,
    early: &RefCell<VecDeque<FromInit>>,
    request: &InitRequest<'_>,
    fd: Option<BorrowedFd<'_>>,
) -> Result<()> {
    loop {
        match client::try_send_control(socket, request, fd) {
            Err(e) if e.is_would_block() => {}
            sent => return sent,
        }
        while let Incoming::Message(message) = client::receive_event(socket)? {
            early.borrow_mut().extend(understood(message));
        }
        fdpass::wait_ready(socket)?;
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
        InitEvent::Refused(why, name) => Some(FromInit::Refused(why, name)),
        InitEvent::Accepted(token, connection) => Some(FromInit::Accepted { token, connection }),
        InitEvent::Stored(listed, last) => Some(FromInit::Stored { listed, last }),
        InitEvent::Pong(n) => Some(FromInit::Pong(n)),
        InitEvent::Welcome(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_init::protocol::control::InitMessage;
    use warren_init::protocol::encode;

    /// Neither reads before all of its own is sent.
    #[test]
    fn two_that_say_much_at_once_do_not_wait_for_each_other() {
        const MESSAGES: u64 = 20_000;
        let (ours, theirs) = fdpass::seqpacket_pair(false).expect("a pair");
        let init = std::thread::spawn(move || {
            let packet = encode(&InitMessage::Signal { signo: 1 }).expect("it is small");
            for _ in 0..MESSAGES {
                fdpass::send(theirs.as_fd(), &packet, &[]).expect("somebody reads");
            }
            let (mut buffer, mut fds) = (vec![0; 64], Vec::new());
            for _ in 0..MESSAGES {
                fdpass::recv(theirs.as_fd(), &mut buffer, &mut fds, true).expect("somebody writes");
            }
        });
        let early = RefCell::default();
        for n in 0..MESSAGES {
            send(ours.as_fd(), &early, &InitRequest::Ping { n }, None).expect("it is there");
        }
        init.join().expect("it has all");
        assert!(!early.borrow().is_empty());
    }
}
