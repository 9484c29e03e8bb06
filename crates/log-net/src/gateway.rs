//! The log over HTTP: warren-journal-gatewayd, with the URLs of systemd-journal-gatewayd(8).
//!
//! `warren_http::request` reads a head, `route` says what it means, `entries` and `machine` answer through
//! `warren_http::reply`. `warren_http::serve` takes connections; each has a thread of its own and one answer. All that
//! a client can do is bounded: the head in bytes and time, the connections in all and of one
//! address, and how long it may not take what is sent to it. Nothing is written, and no right is
//! needed but to read the log's files.
//!
//! TLS is [`crate::tls`]'s. Not here: rights of single users; who can connect, and has the certificate
//! that is wanted, can read all that the program can.

mod entries;
mod machine;
pub(crate) mod route;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use crate::gateway::route::{Route, route};
use crate::tls::Accepted;
use crate::tls::renewed::Renewed;
use warren_http::listen;
pub use warren_http::listen::{Address, parse_address};
use warren_http::reply;
use warren_http::request::{Refusal, Request, is_for_us, read_head};
use warren_http::serve::{self, Client, Service};
use warren_log_show::Args;
pub use warren_log_show::Failure;
use warren_log_show::ask;
use warren_log_show::reading::Reading;
use warren_log_show::stores;
use warren_log_store::host::Host;

/// A client may not take anything for so long, seconds.
const STALL_SECONDS_MAX: u64 = 60;

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
        return Err(Failure("no socket was passed; see --listen".to_owned()));
    }
    let Options { args, tls, mut names, .. } = options;
    names.push(Host::read().name().to_owned());
    Ok(serve::run(Gateway { args, tls, names }, listeners)?)
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
        client.linger();
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
        match read_head(|room, until| client.read_until(room, until))? {
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
