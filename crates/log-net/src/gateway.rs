//! The log over HTTP: warren-journal-gatewayd, with the URLs of systemd-journal-gatewayd(8).
//!
//! `request` reads a head, `route` says what it means, `entries` and `machine` answer through
//! `reply`. `serve` takes connections; each has a thread of its own and one answer. All that
//! a client can do is bounded: the head in bytes and time, the connections in all and of one
//! address, and how long it may not take what is sent to it. Nothing is written, and no right is
//! needed but to read the log's files.
//!
//! TLS is [`crate::tls`]'s. Not here: rights of single users; who can connect, and has the certificate
//! that is wanted, can read all that the program can.

mod entries;
mod listen;
mod machine;
mod reply;
pub(crate) mod request;
pub(crate) mod route;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ServerConfig;

pub use listen::{Address, parse_address};

use crate::gateway::request::{BadHead, HEAD_BYTES_MAX, Request, is_for_us};
use crate::gateway::route::{Refusal, Route, route};
use crate::serve::{self, Client, Service};
use crate::tls::Accepted;
use crate::tls::renewed::Renewed;
use warren_log_show::Args;
pub use warren_log_show::Failure;
use warren_log_show::ask;
use warren_log_show::reading::Reading;
use warren_log_show::stores;
use warren_log_store::host::Host;

/// A head must be there in this time, seconds.
const HEAD_SECONDS_MAX: u64 = 10;

/// A client may not take anything for so long, seconds.
const STALL_SECONDS_MAX: u64 = 60;

/// What a client still sends is read for so long before the connection is closed, seconds.
const LINGER_SECONDS_MAX: u64 = 1;

const TOO_MANY_VALUES: Refusal = Refusal(413, "The field has too many values: ask for entries.");

const OTHER_HOST: Refusal =
    Refusal(421, "Not a name of this machine: use its address, or start the gateway with --name.");

/// The page for people.
const PAGE: &str = include_str!("gateway/browse.html");

/// What the page may do: itself, and questions to where it came from.
const PAGE_POLICY: &str = "Content-Security-Policy: default-src 'none'; connect-src 'self'; \
    style-src 'unsafe-inline'; script-src 'unsafe-inline'\r\n";

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is read, in the options of the command.
    pub args: Args,
    /// Where to listen, besides the sockets that were handed over.
    pub listen: Vec<Address>,
    /// What clients are to speak TLS with.
    pub tls: Option<Arc<Renewed<ServerConfig>>>,
    /// Names by which clients know this machine, besides its own.
    pub names: Vec<String>,
}

/// Answers until the process is ended.
///
/// # Errors
/// When there is nothing to listen on, or the system gives no descriptor for a first connection.
pub fn run(options: Options) -> Result<(), Failure> {
    let listeners = listen::open(&options.listen)?;
    if listeners.is_empty() {
        return Err(Failure("no socket was handed over; see --listen".to_owned()));
    }
    let Options { args, tls, mut names, .. } = options;
    names.push(Host::read().name().to_owned());
    serve::run(Gateway { args, tls, names }, listeners)
}

/// What the gateway is to its clients.
struct Gateway {
    args: Args,
    tls: Option<Arc<Renewed<ServerConfig>>>,
    names: Vec<String>,
}

impl Service for Gateway {
    const CONNECTIONS_MAX: usize = 128;
    const CONNECTIONS_PER_PEER_MAX: usize = 32;

    fn serve(&self, client: &Client) {
        // Who goes away in the middle is nobody's fault.
        let _ = self.answer(client);
        linger(client);
    }

    /// Said without waiting for anything. Who still sends may not see it, nor who wants TLS.
    fn refuse(&self, mut client: &Client) {
        if self.tls.is_none() {
            let refusal = Refusal(503, "Too many connections.");
            let _ = client.never_wait();
            let _ = client.write_all(&reply::refusal(&Request::default(), refusal));
        }
    }
}

impl Gateway {
    /// Reads a question and answers it.
    fn answer(&self, client: &Client) -> Result<(), Failure> {
        client.bound_writes(Duration::from_secs(STALL_SECONDS_MAX))?;
        let tls = self.tls.as_ref().map(|tls| tls.current());
        let mut client = Accepted::new(client, tls)?;
        match read_head(&mut client)? {
            // With TLS it is the certificate that has the name.
            Ok(request) if self.tls.is_none() && !is_for_us(&request, &self.names) => {
                client.write_all(&reply::refusal(&request, OTHER_HOST))?;
            }
            Ok(request) => answer(&mut client, &request, &self.args)?,
            Err(refusal) => client.write_all(&reply::refusal(&Request::default(), refusal))?,
        }
        Ok(client.end()?)
    }
}

/// Closing a connection on which something was not read would throw away the answer.
fn linger(mut client: &Client) {
    let _ = client.end_writes();
    let _ = client.bound_reads(Duration::from_secs(LINGER_SECONDS_MAX));
    let mut scrap = [0; 4096];
    for _ in 0..HEAD_BYTES_MAX / scrap.len() {
        if !matches!(client.read(&mut scrap), Ok(1..)) {
            return;
        }
    }
}

/// A head, or what is wrong with it. What is no TLS is no head, and nobody who could be told.
fn read_head(client: &mut Accepted<'_>) -> Result<Result<Request, Refusal>, Failure> {
    let until = Instant::now() + Duration::from_secs(HEAD_SECONDS_MAX);
    let (mut data, mut room) = (Vec::new(), [0; 2048]);
    loop {
        match client.read_until(&mut room, until) {
            Ok(0) => return Ok(Err(Refusal(400, "The head has no end."))),
            Ok(bytes) => data.extend_from_slice(&room[..bytes]),
            Err(e) if e.kind() == ErrorKind::InvalidData => return Err(e.into()),
            Err(_) => return Ok(Err(Refusal(408, "Too slow."))),
        }
        match request::parse(&data) {
            Ok(None) => {}
            Ok(Some(request)) => return Ok(Ok(request)),
            Err(BadHead::Garbage) => return Ok(Err(Refusal(400, "This is no HTTP."))),
            Err(BadHead::TooLarge) => return Ok(Err(Refusal(431, "The head is too large."))),
        }
    }
}

/// An answer that is ready to go out.
enum Ready {
    Short(Vec<u8>),
    Long { kind: &'static str, body: Vec<u8> },
    Entries(Box<entries::Answer>),
}

fn answer(client: &mut Accepted<'_>, request: &Request, args: &Args) -> Result<(), Failure> {
    let ready = route(request).and_then(|route| {
        prepare(request, route, args).map_err(|failure| {
            warren_sys::tell!("warren-journal-gatewayd: {}: {}", request.target, failure.0);
            Refusal(500, "Failed to read the log.")
        })
    });
    match ready {
        Err(refusal) => Ok(client.write_all(&reply::refusal(request, refusal))?),
        Ok(Ready::Short(bytes)) => Ok(client.write_all(&bytes)?),
        Ok(Ready::Entries(answer)) => answer.send(client, request),
        Ok(Ready::Long { kind, body }) => {
            let mut long = reply::Long::begin(client, request, kind)?;
            if request.method != "HEAD" {
                long.buffer = body;
                long.end()?;
            }
            Ok(())
        }
    }
}

/// Does everything that can fail before the first byte.
fn prepare(request: &Request, route: Route, args: &Args) -> Result<Ready, Failure> {
    let whole = |kind: &str, more: &str, body: &str| {
        Ok(Ready::Short(reply::short(request, 200, kind, more, body)))
    };
    match route {
        Route::Root => {
            let more = "Location: /browse\r\n";
            let text = "text/plain; charset=utf-8";
            Ok(Ready::Short(reply::short(request, 301, text, more, "")))
        }
        Route::Browse => whole("text/html; charset=utf-8", PAGE_POLICY, PAGE),
        Route::Machine => {
            let (reading, bytes) = open(args)?;
            let about = machine::machine(reading.journal(), bytes)?;
            whole("application/json", "", &format!("{about}\n"))
        }
        Route::Values { name, json } => {
            let (reading, _) = open(args)?;
            let kind = if json { "application/json" } else { "text/plain" };
            match machine::values(reading.journal(), &name, json)? {
                Some(body) => Ok(Ready::Long { kind, body }),
                None => Ok(Ready::Short(reply::refusal(request, TOO_MANY_VALUES))),
            }
        }
        Route::Entries(wanted) => {
            let (mut reading, _) = open(args)?;
            // Clients go on from cursors.
            reading.keep_to_settled()?;
            Ok(Ready::Entries(Box::new(entries::Answer::new(wanted, reading)?)))
        }
    }
}

/// What there is to read, and the bytes of its files.
fn open(args: &Args) -> Result<(Reading, u64), Failure> {
    if args.directory.is_none() && args.file.is_empty() {
        ask::write(args);
    }
    let own = stores::open(args)?;
    let bytes = stores::bytes(&own)? + warren_log_show::foreign_bytes(args);
    Ok((Reading::of(args, own)?, bytes))
}
