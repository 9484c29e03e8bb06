//! The log over HTTP: warren-journal-gatewayd, with the URLs of systemd-journal-gatewayd(8).
//!
//! `request` reads a head, [`mod@route`] says what it means, `entries` and `machine` answer through
//! `reply`. One thread takes connections; each has a thread of its own and one answer. All that a
//! client can do is bounded: the head in bytes and time, the connections in all and of one
//! address, and how long it may not take what is sent to it. Nothing is written, and no right is
//! needed but to read the log's files.
//!
//! Not here: TLS, which a proxy in front does, and rights of single users: who can connect can read
//! all that the program can.

mod entries;
mod listen;
mod machine;
mod reply;
pub mod request;
pub mod route;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::eventfd::EventFd;
use warren_sys::socket;

pub use listen::{Address, parse_address};

use crate::gateway::request::{BadHead, HEAD_BYTES_MAX, Request};
use crate::gateway::route::{Refusal, Route, route};
use crate::show::Args;
use crate::show::ask;
use crate::show::reading::Reading;
pub use crate::show::run::Failure;
use crate::show::stores;

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 128;

/// Most connections of one address at a time.
const CONNECTIONS_PER_ADDRESS_MAX: usize = 32;

/// A head must be there in this time, seconds.
const HEAD_SECONDS_MAX: u64 = 10;

/// A client may not take anything for so long, seconds.
const STALL_SECONDS_MAX: u64 = 60;

/// What a client still sends is read for so long before the connection is closed, seconds.
const LINGER_SECONDS_MAX: u64 = 1;

/// Listening sockets have lower tokens.
const TOKEN_ENDED: u64 = 1 << 32;

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
    Server::new(options.args, listeners)?.run()
}

/// Who is connected.
struct Server {
    args: Arc<Args>,
    listeners: Vec<OwnedFd>,
    epoll: Epoll,
    /// Connections by address; those of a Unix socket have none.
    open: BTreeMap<Option<IpAddr>, usize>,
    ended: (Sender<Option<IpAddr>>, Receiver<Option<IpAddr>>),
    wake: Arc<EventFd>,
    /// The system gives no more descriptors: nobody is taken until a connection ends.
    paused: bool,
}

/// Says that a connection is over, however its thread ends.
struct Ending {
    address: Option<IpAddr>,
    to: Sender<Option<IpAddr>>,
    wake: Arc<EventFd>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.to.send(self.address);
        self.wake.notify();
    }
}

impl Server {
    fn new(args: Args, listeners: Vec<OwnedFd>) -> Result<Server, Failure> {
        let (epoll, wake) = (Epoll::new()?, Arc::new(EventFd::new()?));
        epoll.add(&*wake, TOKEN_ENDED, Interest::READ)?;
        let server = Server {
            args: Arc::new(args),
            listeners,
            epoll,
            open: BTreeMap::new(),
            ended: mpsc::channel(),
            wake,
            paused: false,
        };
        server.watch()?;
        Ok(server)
    }

    fn watch(&self) -> Result<(), Failure> {
        for (token, listener) in self.listeners.iter().enumerate() {
            self.epoll.add(listener, token as u64, Interest::READ)?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), Failure> {
        let mut events = Events::with_capacity(16);
        loop {
            self.epoll.wait(&mut events, None)?;
            let tokens: Vec<u64> = events.iter().map(|ready| ready.token).collect();
            for token in tokens {
                match token {
                    TOKEN_ENDED => self.forget_ended()?,
                    token => self.accept(token as usize)?,
                }
            }
        }
    }

    fn forget_ended(&mut self) -> Result<(), Failure> {
        self.wake.clear();
        while let Ok(address) = self.ended.1.try_recv() {
            if let Some(count) = self.open.get_mut(&address) {
                *count -= 1;
            }
        }
        self.open.retain(|_, count| *count > 0);
        match std::mem::take(&mut self.paused) {
            true => self.watch(),
            false => Ok(()),
        }
    }

    fn accept(&mut self, listener: usize) -> Result<(), Failure> {
        match socket::accept(self.listeners[listener].as_fd()) {
            Ok(Some(connection)) => self.take(connection),
            Ok(None) => {}
            Err(e) if self.open.is_empty() => return Err(e.into()),
            Err(_) if self.paused => {}
            Err(_) => {
                self.paused = true;
                self.listeners.iter().try_for_each(|listener| self.epoll.remove(listener))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, connection: OwnedFd) {
        let addresses = socket::addresses(connection.as_fd()).ok().flatten();
        let address = addresses.map(|(_, peer)| peer.ip().to_canonical());
        let of_all: usize = self.open.values().sum();
        let of_address = self.open.get(&address).copied().unwrap_or(0);
        let client = TcpStream::from(connection);
        if of_all >= CONNECTIONS_MAX
            || (address.is_some() && of_address >= CONNECTIONS_PER_ADDRESS_MAX)
        {
            return refuse_unheard(&client);
        }
        *self.open.entry(address).or_default() += 1;
        let ending = Ending { address, to: self.ended.0.clone(), wake: self.wake.clone() };
        let args = self.args.clone();
        let answer = move || {
            let _ending = ending;
            // Who goes away in the middle is nobody's fault.
            let _ = serve(&client, &args);
        };
        // Without a thread the connection is closed, and said to be over.
        let _ = std::thread::Builder::new().name("client".to_owned()).spawn(answer);
    }
}

/// One answer too many: said without waiting for anything. Who still sends may not see it.
fn refuse_unheard(client: &TcpStream) {
    let refusal = reply::refusal(&Request::default(), Refusal(503, "Too many connections."));
    let _ = client.set_nonblocking(true);
    let mut client = client;
    let _ = client.write_all(&refusal);
}

/// Reads a question and answers it.
fn serve(client: &TcpStream, args: &Args) -> Result<(), Failure> {
    client.set_write_timeout(Some(Duration::from_secs(STALL_SECONDS_MAX)))?;
    let mut writer = client;
    let done = match read_head(client) {
        Ok(request) => answer(client, &request, args),
        Err(refusal) => Ok(writer.write_all(&reply::refusal(&Request::default(), refusal))?),
    };
    linger(client);
    done
}

/// Closing a connection on which something was not read would throw away the answer.
fn linger(mut client: &TcpStream) {
    let _ = client.shutdown(Shutdown::Write);
    let _ = client.set_read_timeout(Some(Duration::from_secs(LINGER_SECONDS_MAX)));
    let mut scrap = [0; 4096];
    for _ in 0..HEAD_BYTES_MAX / scrap.len() {
        if !matches!(client.read(&mut scrap), Ok(1..)) {
            return;
        }
    }
}

fn read_head(mut client: &TcpStream) -> Result<Request, Refusal> {
    const LATE: Refusal = Refusal(408, "Too slow.");
    let until = Instant::now() + Duration::from_secs(HEAD_SECONDS_MAX);
    let (mut data, mut room) = (Vec::new(), [0; 2048]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || client.set_read_timeout(Some(left)).is_err() {
            return Err(LATE);
        }
        match client.read(&mut room) {
            Ok(0) => return Err(Refusal(400, "The head has no end.")),
            Ok(bytes) => data.extend_from_slice(&room[..bytes]),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err(LATE),
        }
        match request::parse(&data) {
            Ok(None) => {}
            Ok(Some(request)) => return Ok(request),
            Err(BadHead::Garbage) => return Err(Refusal(400, "This is no HTTP.")),
            Err(BadHead::TooLarge) => return Err(Refusal(431, "The head is too large.")),
        }
    }
}

/// An answer that is ready to go out.
enum Ready {
    Short(Vec<u8>),
    Long { kind: &'static str, body: Vec<u8> },
    Entries(Box<entries::Answer>),
}

fn answer(mut client: &TcpStream, request: &Request, args: &Args) -> Result<(), Failure> {
    let ready = route(request).and_then(|route| {
        prepare(request, route, args).map_err(|failure| {
            eprintln!("warren-journal-gatewayd: {}: {}", request.target, failure.0);
            Refusal(500, "Failed to read the log.")
        })
    });
    match ready {
        Err(refusal) => Ok(client.write_all(&reply::refusal(request, refusal))?),
        Ok(Ready::Short(bytes)) => Ok(client.write_all(&bytes)?),
        Ok(Ready::Entries(answer)) => answer.send(client, request),
        Ok(Ready::Long { kind, body }) => {
            let mut long = reply::Long::begin(&mut client, request, kind)?;
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
            Ok(Ready::Long { kind, body: machine::values(reading.journal(), &name, json)? })
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
    let bytes = stores::bytes(&own)? + crate::show::foreign_bytes(args);
    Ok((Reading::of(args, own)?, bytes))
}
