//! Questions and orders to the daemon, [`warren_wire::log`], over a Unix socket that its user can connect to, and the
//! members of the group that may read the log. They may ask for lines and counts, and that what is held is written, no
//! more.
//!
//! `io.warrener.Journal.Tail` with `unit` answers with the unit's last `lines`, from memory; `Counts` with how much came
//! and how much of it is not in the log;
//! `Write`, `Synchronize` and `Rotate` answer when it is done: what was logged before is in the
//! files, on the disk, in closed files (with `sealed`: in segments, which can be removed). `FlushToVar` answers when all is on the disk, if it is to be
//! kept there, and `RelinquishVar` (with `smart`: unless that disk stays mounted) when nothing is
//! written there any more. One question for a connection; nothing here waits for a client. At
//! `io.systemd.journal` systemd's journalctl orders the same, under systemd's names.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use jiff::tz::TimeZone;
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::{credentials, fdpass, process, socket};
use warren_wire::frame::{Inbox, Pushed};
use warren_wire::log::{Answer, Order, QUESTION_BYTES_MAX, Question};

use crate::daemon::core::Core;
use crate::daemon::tails::Line;
use crate::daemon::tokens::TOKEN_QUESTIONS;
use warren_log_store::time;

/// Most connections at a time; with one more, the oldest is closed.
const CONNECTIONS_MAX: usize = 64;

/// Most of them of others than root and the daemon's own user; with one more, the oldest of those is closed.
const OF_MEMBERS_MAX: usize = 16;

/// Those who ask.
pub struct Control {
    listeners: Vec<OwnedFd>,
    asking: BTreeMap<u64, Asking>,
    next: u64,
}

/// One who asks. Without an answer he is told, when this is dropped, that there is none.
pub struct Asking {
    socket: OwnedFd,
    question: Inbox,
    /// Not root, and not the daemon's own user.
    is_member: bool,
}

impl Control {
    /// Over listening sockets.
    pub fn new(listeners: Vec<OwnedFd>) -> Control {
        Control { listeners, asking: BTreeMap::new(), next: TOKEN_QUESTIONS }
    }

    /// To be watched.
    pub fn listeners(&self) -> &[OwnedFd] {
        &self.listeners
    }

    /// Takes new connections.
    ///
    /// # Errors
    /// When the system has none to give; the connection stays where it is.
    pub fn accept(&mut self, epoll: &Epoll) -> warren_sys::Result<()> {
        (0..self.listeners.len()).try_for_each(|listener| self.accept_from(epoll, listener))
    }

    fn accept_from(&mut self, epoll: &Epoll, listener: usize) -> warren_sys::Result<()> {
        for _ in 0..CONNECTIONS_MAX {
            let socket = socket::accept(self.listeners[listener].as_fd())?;
            let Some(socket) = socket else { return Ok(()) };
            let is_member = is_member(socket.as_fd());
            self.make_room(is_member);
            let token = self.next;
            if epoll.add(&socket, token, Interest::READ).is_ok() {
                self.next += 1;
                let question = Inbox::new(QUESTION_BYTES_MAX);
                self.asking.insert(token, Asking { socket, question, is_member });
            }
        }
        Ok(())
    }

    /// Closes the oldest connection where there are too many.
    fn make_room(&mut self, for_member: bool) {
        let mut members = self.asking.iter().filter(|(_, asking)| asking.is_member);
        let oldest = members.next().map(|(token, _)| *token);
        let many_members = for_member && members.count() + 1 >= OF_MEMBERS_MAX;
        match oldest {
            Some(oldest) if many_members => _ = self.asking.remove(&oldest),
            _ if self.asking.len() >= CONNECTIONS_MAX => _ = self.asking.pop_first(),
            _ => {}
        }
    }

    /// Whether this question is one for who asks it.
    pub fn may_ask(&self, token: u64, question: &Question) -> bool {
        let for_all = matches!(
            question,
            Question::Tail(_) | Question::Counts | Question::Order(Order::Write)
        );
        for_all || self.asking.get(&token).is_none_or(|asking| !asking.is_member)
    }

    /// Reads from one who asks; gives the question when it is whole.
    pub fn read(&mut self, token: u64) -> Option<Question> {
        let asking = self.asking.get_mut(&token)?;
        let mut room = [0; QUESTION_BYTES_MAX];
        let received = fdpass::recv(asking.socket.as_fd(), &mut room, &mut Vec::new(), false);
        match received {
            Err(e) if e.is_would_block() => return None,
            Ok(received) if received.bytes > 0 => {
                match asking.question.push(&room[..received.bytes]) {
                    Pushed::Whole(question, _) => return Some(Question::read(&question)),
                    Pushed::Part => return None,
                    Pushed::TooLong => {}
                }
            }
            _ => {}
        }
        self.asking.remove(&token);
        None
    }

    /// Answers, which ends the connection.
    pub fn answer(&mut self, token: u64, answer: &Answer) {
        if let Some(asking) = self.asking.remove(&token) {
            asking.answer(answer);
        }
    }

    /// Lets go of one who asks, to be answered later.
    pub fn release(&mut self, epoll: &Epoll, token: u64) -> Option<Asking> {
        let asking = self.asking.remove(&token)?;
        // The descriptor is open, so it is watched.
        let _ = epoll.remove(&asking.socket);
        Some(asking)
    }
}

impl Asking {
    /// An answer is small enough for an empty socket: who does not read it does not get it.
    pub fn answer(&self, answer: &Answer) {
        let _ = fdpass::try_send(self.socket.as_fd(), &answer.write(), &[]);
    }
}

/// Who cannot be told apart has no rights.
fn is_member(socket: BorrowedFd<'_>) -> bool {
    let uid = credentials::peer(socket).map(|peer| peer.uid);
    uid.map_or(true, |uid| uid != 0 && uid != process::own_ids().0)
}

/// What who may not give an order is told.
pub fn refused() -> Answer {
    Answer::Failed("only root may order that".to_owned())
}

/// The last lines of a unit.
pub fn tail(core: &Core, unit: &str) -> Answer {
    let zone = time::local_zone();
    let lines = core.tails.get(unit.as_bytes());
    let host = core.senders.host_name();
    Answer::Lines(lines.map(|line| shown(line, host, &zone)).collect())
}

/// It is done, or why not.
pub fn done(result: warren_log_store::error::Result<()>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(e) => Answer::Failed(e.to_string()),
    }
}

/// As the short output has it.
fn shown(line: &Line, host: &str, zone: &TimeZone) -> String {
    let time = time::print(line.realtime_us, zone, "%b %d %H:%M:%S");
    format!("{time} {host} {}: {}", line.who(), line.text())
}
