//! Questions and orders to the daemon: JSON objects over a Unix socket that only its user can
//! connect to, each ended by a zero byte, as the manager's control socket has them.
//!
//! `io.warrener.Journal.Tail` with `unit` answers with the unit's last `lines`, from memory;
//! `Write`, `Synchronize` and `Rotate` answer when it is done: what was logged before is in the
//! files, on the disk, in closed files. One question for a connection; nothing here
//! waits for a client.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::{fdpass, socket};

use crate::daemon::TOKEN_QUESTIONS;
use crate::daemon::core::Core;
use crate::daemon::tails::Line;
use crate::show::when;

/// Name of the socket.
pub const SOCKET_NAME: &str = "io.warrener.journal";

/// Begins the name of every method.
const INTERFACE: &str = "io.warrener.Journal.";

/// Longest question, bytes.
const QUESTION_BYTES_MAX: usize = 4096;

/// Most connections at a time; with one more, the oldest is closed.
const CONNECTIONS_MAX: usize = 64;

/// Those who ask.
pub struct Control {
    listener: OwnedFd,
    asking: BTreeMap<u64, Asking>,
    next: u64,
}

struct Asking {
    socket: OwnedFd,
    question: Vec<u8>,
}

impl Control {
    /// Over a listening socket.
    pub fn new(listener: OwnedFd) -> Control {
        Control { listener, asking: BTreeMap::new(), next: TOKEN_QUESTIONS }
    }

    /// To be watched.
    pub fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// Takes new connections.
    pub fn accept(&mut self, epoll: &Epoll) {
        for _ in 0..CONNECTIONS_MAX {
            let Ok(Some(socket)) = socket::accept(self.listener.as_fd()) else { return };
            if self.asking.len() >= CONNECTIONS_MAX {
                self.asking.pop_first();
            }
            let token = self.next;
            if epoll.add(&socket, token, Interest::READ).is_ok() {
                self.next += 1;
                self.asking.insert(token, Asking { socket, question: Vec::new() });
            }
        }
    }

    /// Reads from one who asks, and answers when the question is whole.
    pub fn read(&mut self, token: u64, core: &mut Core) {
        let Some(asking) = self.asking.get_mut(&token) else { return };
        let mut room = [0; QUESTION_BYTES_MAX];
        let received = fdpass::recv(asking.socket.as_fd(), &mut room, &mut Vec::new(), false);
        match received {
            Err(e) if e.is_would_block() => return,
            Ok(received) if received.bytes > 0 => {
                asking.question.extend_from_slice(&room[..received.bytes]);
                match asking.question.strip_suffix(b"\0") {
                    Some(question) => asking.answer(&answer(question, core)),
                    None if asking.question.len() < QUESTION_BYTES_MAX => return,
                    None => {}
                }
            }
            _ => {}
        }
        self.asking.remove(&token);
    }
}

impl Asking {
    /// An answer is small enough for an empty socket: who does not read it does not get it.
    fn answer(&self, answer: &Value) {
        let mut bytes = answer.to_string().into_bytes();
        bytes.push(0);
        let _ = fdpass::try_send(self.socket.as_fd(), &bytes, &[]);
    }
}

fn answer(question: &[u8], core: &mut Core) -> Value {
    let question: Value = serde_json::from_slice(question).unwrap_or_default();
    let method = question["method"].as_str().unwrap_or_default();
    let parameters = &question["parameters"];
    match method.strip_prefix(INTERFACE) {
        Some("Tail") => {
            let unit = parameters["unit"].as_str().unwrap_or_default();
            let zone = TimeZone::system();
            let lines = core.tails.get(unit.as_bytes());
            let host = core.senders.host_name();
            let lines: Vec<String> = lines.map(|line| shown(line, host, &zone)).collect();
            json!({"parameters": {"lines": lines}})
        }
        Some("Write") => done(core.flush()),
        Some("Synchronize") => done(core.sync()),
        Some("Rotate") => done(core.rotate()),
        _ => {
            json!({"error": "org.varlink.service.MethodNotFound", "parameters": {"method": method}})
        }
    }
}

fn done(result: crate::error::Result<()>) -> Value {
    match result {
        Ok(()) => json!({"parameters": {}}),
        Err(e) => {
            json!({"error": "io.warrener.Journal.Failed", "parameters": {"message": e.to_string()}})
        }
    }
}

/// As the short output has it.
fn shown(line: &Line, host: &str, zone: &TimeZone) -> String {
    let time = when::print(line.realtime_us, zone, "%b %d %H:%M:%S");
    format!("{time} {host} {}: {}", line.who(), line.text())
}
