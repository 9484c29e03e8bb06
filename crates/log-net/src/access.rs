//! The log for programs, over varlink: warren-journal-access, with the interface of systemd 260's
//! journalctl (`io.systemd.JournalAccess`) and one of our own that has all filters of the command.
//!
//! `call` reads a call, `answer` sends entries. A call is a JSON object that a zero byte ends, so is
//! each reply; a connection has one call after the other. `serve` takes connections; each
//! has a thread of its own. All that a client can do is bounded: a call in bytes and time, the
//! connections, and how long it may not take what is sent to it. Who sends what is no call is
//! dropped. Nothing is written, and no right is needed but to read the log's files.
//!
//! Who may connect is the socket's matter: everybody who can reads all that the program can.

mod answer;
pub(crate) mod call;

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use serde_json::{Value, json};
use warren_sys::{activation, socket};

use crate::access::call::{Call, What};
use warren_http::serve::{self, Client, Service};
use warren_log_show::Args;
pub use warren_log_show::Failure;

/// Longest call, bytes.
const CALL_BYTES_MAX: usize = 64 << 10;

/// A call must be there so long after the last answer, seconds.
const CALL_SECONDS_MAX: u64 = 60;

/// A client may not take anything for so long, seconds.
const STALL_SECONDS_MAX: u64 = 60;

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the log is, in the options of the command.
    pub args: Args,
    /// Paths of sockets to listen on, besides those that were handed over.
    pub listen: Vec<String>,
}

/// Answers until the process is ended; a client that was handed over connected, until it goes.
///
/// # Errors
/// When there is nothing to listen on, or the system gives no descriptor for a first connection.
pub fn run(options: Options) -> std::result::Result<(), Failure> {
    let access = Access { args: options.args };
    let bound = options.listen.into_iter().map(socket::listen_private);
    let mut listeners = bound.collect::<warren_sys::Result<Vec<OwnedFd>>>()?;
    for (_, fd) in activation::descriptors() {
        match sockopt::socket_acceptconn(&fd) {
            Ok(true) => listeners.push(fd),
            _ => access.serve_connected(fd)?,
        }
    }
    match listeners.is_empty() {
        true => Ok(()),
        false => Ok(serve::run(access, listeners)?),
    }
}

struct Access {
    args: Args,
}

impl Service for Access {
    /// Each that follows takes an inotify instance, of which root has 128 for all its programs.
    const CONNECTIONS_MAX: usize = 32;
    const CONNECTIONS_PER_PEER_MAX: usize = 16;

    fn serve(&self, client: &Client) {
        // Who goes away in the middle is nobody's fault.
        let _ = self.converse(client);
    }

    fn refuse(&self, _: &Client) {}
}

impl Access {
    /// A client that was connected before this program was started.
    fn serve_connected(&self, fd: OwnedFd) -> std::result::Result<(), Failure> {
        self.serve(&Client::new(fd)?);
        Ok(())
    }

    fn converse(&self, client: &Client) -> Result<()> {
        client.bound_writes(Duration::from_secs(STALL_SECONDS_MAX))?;
        let mut received = Vec::new();
        while let Some(text) = next_call(client, &mut received)? {
            let Some(Call { what, oneway }) = call::parse(&text) else {
                return Err(ErrorKind::InvalidData.into());
            };
            match what {
                // Nothing here does anything but answer.
                _ if oneway => {}
                Err(refusal) => say_error(client, &refusal.error())?,
                Ok(What::Say(parameters)) => say(client, &json!({"parameters": parameters}))?,
                Ok(What::Entries(wanted)) => answer::entries(client, *wanted, &self.args)?,
            }
        }
        Ok(())
    }
}

/// The next call without its end; `None`: the client has no more.
fn next_call(mut client: &Client, received: &mut Vec<u8>) -> Result<Option<Vec<u8>>> {
    let until = Instant::now() + Duration::from_secs(CALL_SECONDS_MAX);
    let mut room = [0; 4096];
    let mut seen = 0;
    loop {
        if let Some(at) = memchr::memchr(0, &received[seen..]) {
            let mut call: Vec<u8> = received.drain(..=seen + at).collect();
            call.pop();
            return Ok(Some(call));
        }
        seen = received.len();
        if seen > CALL_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        client.bound_reads(left)?;
        match client.read(&mut room) {
            Ok(0) if received.is_empty() => return Ok(None),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => received.extend_from_slice(&room[..bytes]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn say(mut client: &Client, reply: &Value) -> Result<()> {
    client.write_all(format!("{reply}\0").as_bytes())
}

fn say_error(client: &Client, (name, parameters): &(String, Value)) -> Result<()> {
    say(client, &json!({"error": name, "parameters": parameters}))
}

fn cut(failure: Failure) -> Error {
    Error::other(failure.0)
}
