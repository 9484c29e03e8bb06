//! Questions and orders to the daemon: JSON objects over a Unix socket that only its user can
//! connect to, each ended by a zero byte, as the manager's control socket has them.
//!
//! `io.warrener.Journal.Tail` with `unit` answers with the unit's last `lines`, from memory;
//! `Write`, `Synchronize` and `Rotate` answer when it is done: what was logged before is in the
//! files, on the disk, in closed files (with `sealed`: in segments, which can be removed). `FlushToVar` answers when all is on the disk, if it is to be
//! kept there, and `RelinquishVar` (with `smart`: unless that disk stays mounted) when nothing is
//! written there any more. One question for a connection; nothing here waits for a client. At
//! `io.systemd.journal` systemd's journalctl orders the same, under systemd's names.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::{fdpass, socket};

use crate::daemon::core::Core;
use crate::daemon::tails::Line;
use crate::daemon::tokens::TOKEN_QUESTIONS;
use warren_log_store::time;

/// Begins the name of every method: ours, and what `journalctl --sync` and its like say.
const INTERFACES: [&str; 2] = ["io.warrener.Journal.", "io.systemd.Journal."];

/// Longest question, bytes.
const QUESTION_BYTES_MAX: usize = 4096;

/// Most connections at a time; with one more, the oldest is closed.
const CONNECTIONS_MAX: usize = 64;

/// Those who ask.
pub struct Control {
    listeners: Vec<OwnedFd>,
    asking: BTreeMap<u64, Asking>,
    next: u64,
}

/// One who asks. Without an answer he is told, when this is dropped, that there is none.
pub struct Asking {
    socket: OwnedFd,
    question: Vec<u8>,
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
            if self.asking.len() >= CONNECTIONS_MAX {
                self.asking.pop_first();
            }
            let token = self.next;
            if epoll.add(&socket, token, Interest::READ).is_ok() {
                self.next += 1;
                self.asking.insert(token, Asking { socket, question: Vec::new() });
            }
        }
        Ok(())
    }

    /// Reads from one who asks; gives the question when it is whole.
    pub fn read(&mut self, token: u64) -> Option<Question> {
        let asking = self.asking.get_mut(&token)?;
        let mut room = [0; QUESTION_BYTES_MAX];
        let received = fdpass::recv(asking.socket.as_fd(), &mut room, &mut Vec::new(), false);
        match received {
            Err(e) if e.is_would_block() => return None,
            Ok(received) if received.bytes > 0 => {
                asking.question.extend_from_slice(&room[..received.bytes]);
                match asking.question.strip_suffix(b"\0") {
                    Some(question) => return Some(parse(question)),
                    None if asking.question.len() < QUESTION_BYTES_MAX => return None,
                    None => {}
                }
            }
            _ => {}
        }
        self.asking.remove(&token);
        None
    }

    /// Answers, which ends the connection.
    pub fn answer(&mut self, token: u64, answer: &Value) {
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
    pub fn answer(&self, answer: &Value) {
        let mut bytes = answer.to_string().into_bytes();
        bytes.push(0);
        let _ = fdpass::try_send(self.socket.as_fd(), &bytes, &[]);
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The last lines of this unit.
    Tail(String),
    /// Something to do.
    Order(Order),
    /// A method that there is not.
    Unknown(String),
}

/// What the daemon can be asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Put everything into files.
    Write,
    /// Put everything on the device.
    Synchronize,
    /// Close all files and begin new ones.
    Rotate {
        /// And seal those that were closed.
        sealed: bool,
    },
    /// Go from memory to the disk.
    FlushToVar,
    /// Go from the disk to memory.
    RelinquishVar {
        /// Unless that disk is never unmounted.
        smart: bool,
    },
}

fn parse(question: &[u8]) -> Question {
    let question: Value = serde_json::from_slice(question).unwrap_or_default();
    let method = question["method"].as_str().unwrap_or_default();
    let parameters = &question["parameters"];
    let name = INTERFACES.into_iter().find_map(|interface| method.strip_prefix(interface));
    Question::Order(match name {
        Some("Tail") => {
            return Question::Tail(parameters["unit"].as_str().unwrap_or_default().to_owned());
        }
        Some("Write") => Order::Write,
        Some("Synchronize") => Order::Synchronize,
        Some("Rotate") => Order::Rotate { sealed: parameters["sealed"].as_bool().unwrap_or(false) },
        Some("FlushToVar") => Order::FlushToVar,
        Some("RelinquishVar") => {
            Order::RelinquishVar { smart: parameters["smart"].as_bool().unwrap_or(false) }
        }
        _ => return Question::Unknown(method.to_owned()),
    })
}

/// The last lines of a unit.
pub fn tail(core: &Core, unit: &str) -> Value {
    let zone = TimeZone::system();
    let lines = core.tails.get(unit.as_bytes());
    let host = core.senders.host_name();
    let lines: Vec<String> = lines.map(|line| shown(line, host, &zone)).collect();
    json!({"parameters": {"lines": lines}})
}

/// There is no such method.
pub fn unknown(method: &str) -> Value {
    json!({"error": "org.varlink.service.MethodNotFound", "parameters": {"method": method}})
}

/// It is done, or why not.
pub fn done(result: warren_log_store::error::Result<()>) -> Value {
    match result {
        Ok(()) => json!({"parameters": {}}),
        Err(e) => {
            json!({"error": "io.warrener.Journal.Failed", "parameters": {"message": e.to_string()}})
        }
    }
}

/// As the short output has it.
fn shown(line: &Line, host: &str, zone: &TimeZone) -> String {
    let time = time::print(line.realtime_us, zone, "%b %d %H:%M:%S");
    format!("{time} {host} {}: {}", line.who(), line.text())
}
