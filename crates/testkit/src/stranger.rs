//! A user who sends descriptors that nobody can close: `stranger.py`, which says how.
//! Must not: be used where there is no `unshare` and no python3; then there is none ([`Stranger::send`]).
//! Runs on the threads of tests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::wait::wait_until;

/// The program, whose functions tests may use.
pub const STRANGER: &str = include_str!("stranger.py");

/// What is sent: how, how often, by which user, and the text that comes with it.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// `datagram`, `file`, `stream` or `bus`.
    pub how: &'a str,
    /// So many messages or connections.
    pub count: usize,
    /// The user.
    pub uid: u32,
    /// What each says.
    pub text: &'a str,
}

/// He goes with what he has sent.
#[derive(Debug)]
pub struct Stranger {
    process: Child,
    /// How many messages the kernel took, and why not the next one.
    pub said: String,
}

impl Stranger {
    /// Sends to the socket at a path while its `receiver` stands still, so fewer than wait in a socket; `None` where that
    /// is not possible.
    ///
    /// # Panics
    /// When the receiver does not stop.
    pub fn send(socket: &Path, receiver: u32, sent: Sent<'_>) -> Option<Stranger> {
        signal("STOP", receiver);
        let status = format!("/proc/{receiver}/status");
        wait_until("the receiver stands still", || {
            std::fs::read_to_string(&status).is_ok_and(|text| text.contains("State:\tT"))
        });
        let stranger = Stranger::begin(socket, sent);
        signal("CONT", receiver);
        stranger
    }

    fn begin(socket: &Path, sent: Sent<'_>) -> Option<Stranger> {
        let [count, uid] = [sent.count.to_string(), sent.uid.to_string()];
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "python3", "-c", STRANGER, sent.how]);
        command.arg(socket).args([&count, &uid, sent.text]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut said = String::new();
        let out = process.stdout.take()?;
        // None where it has ended at once.
        BufReader::new(out).read_line(&mut said).ok()?;
        if said.is_empty() {
            let _ = process.wait();
            return None;
        }
        Some(Stranger { process, said: said.trim().to_owned() })
    }
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill(1) is there");
}

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
