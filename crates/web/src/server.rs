//! Answers clients over HTTP: `warren_http::serve` takes them, bounded in number and time; here is what they get.
//!
//! Thread: one for each client. A client that takes nothing holds up its own thread and ends after `STALL_MAX`; one that
//! looks on is told what differs from what it took last, however long it took, so nothing is queued for it.

use std::io::{Error, ErrorKind, Result, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warren_cli::answers::{self, LogOf};
use warren_cli::console::Link;
use warren_console::questions::{self, Ask, Question};
use warren_http::listen;
use warren_http::reply;
use warren_http::request::{Refusal, Request, read_head};
use warren_http::serve::{self, Client, Service};
use warren_log_net::tls::{self, Accepted, Server};
use warren_log_show::Args;
use warren_sys::socket::is_readable;

use crate::ask::{Answer, Asker};
use crate::assets::{self, Asset, CHART_POLICY, POLICY};
use crate::guard::{Rights, Rules, Sessions, TOKEN_CHARS_MIN, cookie};
use crate::hub::Hub;
use crate::log;
use crate::options::Options;
use crate::query::{Route, Sight, Verb, route};
use crate::view::{self, Picture};

/// A client may not take anything for so long.
const STALL_MAX: Duration = Duration::from_secs(10);

/// An answer, and each event of a stream, must be taken in this time.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// The manager's first answer is waited for so long.
const FIRST_WITHIN: Duration = Duration::from_secs(5);

/// A stream says something at least so often, so that it is known whether its client is there.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// A stream ends so long after its begin; a browser begins another one, and is asked again who it is.
const STREAM_MAX: Duration = Duration::from_secs(3600);

/// Streams at a time: of what is in sight, and of logs.
const STREAMS_MAX: usize = 96;
const LOGS_MAX: usize = 48;

/// Where it listens when nothing is said: behind the port of the exporter.
const ADDRESS: &str = "127.0.0.1:19534";

/// Largest file of a token, bytes.
const TOKEN_BYTES_MAX: u64 = 4096;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

const TOO_MANY: Refusal = Refusal(503, "Too many connections.");
const TOO_MANY_STREAMS: Refusal = Refusal(503, "Too many pages are open.");
const NOT_FOUND: Refusal = Refusal(404, "There is no such page.");
const NO_TOKEN: Refusal = Refusal(401, "This is not the token.");

/// Answers until the process is ended.
///
/// # Errors
/// In words, when there is nothing to listen on, an address would be open to strangers, or a file cannot be used.
pub fn run(options: &Options) -> std::result::Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let tls = match options.cert.clone().zip(options.key.clone()) {
        Some((cert, key)) => Some(tls::server(cert, key, None).map_err(|failure| failure.0)?),
        None => None,
    };
    let token = match &options.token_file {
        Some(path) => Some(read_token(path)?),
        None => options.new_token.then(random),
    };
    let mut listeners = listen::open(&options.listen).map_err(|error| text(&error))?;
    if listeners.is_empty() {
        let address = listen::parse_address(ADDRESS)?;
        listeners = listen::open(&[address]).map_err(|error| text(&error))?;
    }
    let addresses: Vec<SocketAddr> = listeners.iter().filter_map(own_address).collect();
    check_addresses(&addresses, tls.is_some(), token.is_some())?;
    if let Some(address) = addresses.first() {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let token = token.as_ref().filter(|_| options.new_token);
        let token = token.map(|token| format!("#token={token}")).unwrap_or_default();
        warren_sys::tell!("The page is at {scheme}://{address}/{token}");
    }
    serve::run(Web::new(options, tls, token), listeners).map_err(|error| text(&error))
}

fn own_address(listener: &OwnedFd) -> Option<SocketAddr> {
    std::net::TcpListener::from(listener.try_clone().ok()?).local_addr().ok()
}

/// Who can connect may look: others than this machine only over TLS, and with a token.
fn check_addresses(
    addresses: &[SocketAddr],
    has_tls: bool,
    has_token: bool,
) -> std::result::Result<(), String> {
    match addresses.iter().find(|address| !address.ip().to_canonical().is_loopback()) {
        Some(address) if !has_tls || !has_token => Err(format!(
            "{address} can be reached by other machines: this needs --cert, --key and --token-file, or listen on \
             127.0.0.1 or a Unix socket and put a proxy in front"
        )),
        _ => Ok(()),
    }
}

fn read_token(path: &std::path::Path) -> std::result::Result<String, String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).map(|file| file.take(TOKEN_BYTES_MAX));
    let read = file.and_then(|mut file| file.read_to_string(&mut text));
    read.map_err(|error| format!("{}: {error}", path.display()))?;
    let token = text.trim();
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    match token.len() >= TOKEN_CHARS_MIN && is_plain {
        true => Ok(token.to_owned()),
        false => Err(format!(
            "{}: a token has {TOKEN_CHARS_MIN} characters at least, without spaces: make one by head -c 24 \
             /dev/urandom | base64",
            path.display()
        )),
    }
}

/// A text that nobody can guess.
fn random() -> String {
    format!("{:032x}", warren_sys::random::u128())
}

/// What the daemon is to its clients.
struct Web {
    rules: Rules,
    tls: Option<Server>,
    sessions: Mutex<Sessions>,
    hub: Arc<Hub>,
    asker: Asker,
    log: Args,
    streams: AtomicUsize,
    logs: AtomicUsize,
}

/// A stream that counts until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn begin(count: &'a AtomicUsize, most: usize) -> Option<Counted<'a>> {
        let counted = Counted(count);
        (count.fetch_add(1, Ordering::SeqCst) < most).then_some(counted)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A client who must take what is written in some time.
struct Taker<'a> {
    to: Accepted<'a>,
    until: Instant,
}

impl Taker<'_> {
    fn begin(&mut self) {
        self.until = Instant::now() + TAKEN_WITHIN;
    }
}

impl Write for Taker<'_> {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        if Instant::now() > self.until {
            return Err(ErrorKind::TimedOut.into());
        }
        self.to.write(data)
    }

    fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

impl Service for Web {
    const CONNECTIONS_MAX: usize = 256;
    const CONNECTIONS_PER_PEER_MAX: usize = 64;

    fn serve(&self, client: &Client) {
        // Who goes away in the middle is nobody's fault.
        let _ = self.answer(client);
        client.linger();
    }

    /// Said without waiting for anything. Who wants TLS does not see it.
    fn refuse(&self, mut client: &Client) {
        let _ = client.never_wait();
        let _ = client.write_all(&reply::refusal(&Request::default(), TOO_MANY));
    }
}

impl Web {
    fn new(options: &Options, tls: Option<Server>, token: Option<String>) -> Web {
        let mut names = options.names.clone();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        names.push(host.trim().to_owned());
        let allows_actions = options.allow_actions;
        let rules =
            Rules { token, allows_actions, names, has_tls: tls.is_some(), secret: random() };
        let link = Arc::new(Link::to(options.control.clone()));
        Web {
            rules,
            tls,
            sessions: Mutex::default(),
            hub: Hub::new(link.clone()),
            asker: Asker::new(options.control.clone(), link),
            log: options.place.clone().into(),
            streams: AtomicUsize::new(0),
            logs: AtomicUsize::new(0),
        }
    }

    fn answer(&self, client: &Client) -> Result<()> {
        client.bound_writes(STALL_MAX)?;
        let address = warren_sys::socket::addresses(client.as_fd()).ok().flatten();
        // Over a Unix socket the file system says who may come, and there is no TLS.
        let tls = self.tls.as_ref().filter(|_| address.is_some()).map(Server::current);
        let mut to = Accepted::new(client, tls)?;
        let head = read_head(|room, until| to.read_until(room, until))?;
        let mut to = Taker { to, until: Instant::now() + TAKEN_WITHIN };
        let peer = address.map(|(_, peer)| peer);
        let (request, refusal) = match head {
            Ok(request) => match self.respond(client, &mut to, &request, peer)? {
                Ok(()) => return to.to.end(),
                Err(refusal) => (request, refusal),
            },
            Err(refusal) => (Request::default(), refusal),
        };
        to.write_all(&reply::refusal(&request, refusal))?;
        to.to.end()
    }

    /// Answers; or says what is refused, before anything was sent.
    fn respond(
        &self,
        client: &Client,
        to: &mut Taker<'_>,
        request: &Request,
        peer: Option<SocketAddr>,
    ) -> Result<std::result::Result<(), Refusal>> {
        let (route, rights) = match self.admit(request, peer.is_none()) {
            Ok(admitted) => admitted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let send = |to: &mut Taker<'_>, status, kind: &str, more: &str, body: &str| {
            to.write_all(&reply::short(request, status, kind, more, body)).map(Ok)
        };
        let json = |to: &mut Taker<'_>, answer: Answer| match answer {
            Ok(value) => send(to, 200, JSON, "", &value.to_string()),
            // The page shows it: a manager that is away is nothing that the client did wrong.
            Err(why) => send(to, 200, JSON, "", &json!({ "error": why }).to_string()),
        };
        match route {
            Route::Asset(path) => {
                let (status, asset) = match self.asset(&path, rights) {
                    Ok(found) => found,
                    Err(refusal) => return Ok(Err(refusal)),
                };
                send(to, status, asset.kind, POLICY, asset.text)
            }
            Route::Login => {
                let name = random();
                self.sessions().begin(name.clone(), now_us());
                send(to, 204, TEXT, &self.rules.set_cookie(&name), "")
            }
            Route::Logout => {
                self.sessions().end(cookie(request, self.rules.cookie()));
                send(to, 204, TEXT, &self.rules.set_cookie(""), "")
            }
            Route::Session => json(to, Ok(Arc::new(self.session(rights)))),
            Route::Look(sight) => {
                let picture = self.hub.read().next(&sight, FIRST_WITHIN);
                let answer = picture.map(|picture| Arc::new(view::whole(&picture)));
                json(to, answer.ok_or_else(|| "the manager does not answer in time".to_owned()))
            }
            Route::Events(sight) => match Counted::begin(&self.streams, STREAMS_MAX) {
                None => Ok(Err(TOO_MANY_STREAMS)),
                Some(_) if request.method == "HEAD" => send(to, 200, "text/event-stream", "", ""),
                Some(_counted) => self.events(client, to, &sight).map(Ok),
            },
            Route::Log(unit) => match Counted::begin(&self.logs, LOGS_MAX) {
                None => Ok(Err(TOO_MANY_STREAMS)),
                Some(_) if request.method == "HEAD" => send(to, 200, "text/event-stream", "", ""),
                Some(_counted) => self.log(client, to, &unit).map(Ok),
            },
            Route::Unit(name) => json(to, self.asker.unit(&name, rights.may_read)),
            Route::Files(name) => json(to, self.asker.files(&name)),
            Route::Timers => json(to, self.asker.timers()),
            Route::Sessions => json(to, self.users()),
            Route::Records => json(to, self.asker.records()),
            Route::Plan => json(to, self.asker.plan()),
            Route::Questions => json(to, Ok(Arc::new(all_questions()))),
            Route::Ask(ask, subject) => match answers::log_of(ask, &subject) {
                None => json(to, self.asker.question(ask, &subject, rights.may_read)),
                Some(part) => match Counted::begin(&self.logs, LOGS_MAX) {
                    None => Ok(Err(TOO_MANY_STREAMS)),
                    Some(_counted) => json(to, self.read_log(ask, &part)),
                },
            },
            Route::Chart(of) => match self.asker.chart(&of) {
                Ok(page) => send(to, 200, "text/html; charset=utf-8", CHART_POLICY, &page),
                Err(why) => send(to, 404, TEXT, CHART_POLICY, &format!("{why}\n")),
            },
            Route::Act(verb, units) => json(to, self.act(verb, &units, peer)),
        }
    }

    /// What is asked for, and what the client may do; nothing was done or sent yet.
    fn admit(
        &self,
        request: &Request,
        is_local: bool,
    ) -> std::result::Result<(Route, Rights), Refusal> {
        self.rules.check(request)?;
        let route = route(&request.method, &request.target)?;
        let rights = self.rules.rights(request, is_local, &self.sessions(), now_us());
        match &route {
            Route::Asset(_) => {}
            Route::Login => {
                self.rules.check_login(request)?;
                if !self.rules.has_token(request) {
                    return Err(NO_TOKEN);
                }
            }
            Route::Logout => self.rules.check_login(request)?,
            Route::Files(_) | Route::Log(_) | Route::Plan => self.rules.check_read(rights)?,
            Route::Ask(ask, subject) if answers::log_of(*ask, subject).is_some() => {
                self.rules.check_read(rights)?;
            }
            Route::Act(..) => {
                self.rules.check_look(rights)?;
                self.rules.check_change(request, rights)?;
            }
            _ => self.rules.check_look(rights)?,
        }
        Ok((route, rights))
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asset(&self, path: &str, rights: Rights) -> std::result::Result<(u16, Asset), Refusal> {
        match assets::find(path) {
            Some(asset) if asset.is_public || rights.may_look => Ok((200, asset)),
            Some(Asset { path: "/", .. }) => Ok((401, assets::LOGIN)),
            Some(_) => self.rules.check_look(rights).and(Err(NOT_FOUND)),
            None => Err(NOT_FOUND),
        }
    }

    fn session(&self, rights: Rights) -> Value {
        json!({
            "may_read": rights.may_read, "may_act": rights.may_act, "has_token": self.rules.token.is_some(),
            "allows_actions": self.rules.allows_actions, "secret": self.rules.secret,
            "host": self.rules.names.last(), "version": env!("CARGO_PKG_VERSION"),
        })
    }

    fn users(&self) -> Answer {
        let mut reader = self.hub.read();
        let sight = Sight {
            wish: None,
            from: 0,
            rows: 1,
            cells: crate::query::Cells::None,
            has_series: false,
        };
        reader.next(&sight, FIRST_WITHIN);
        self.asker.sessions(&reader.slices(&["session-", "user@"]))
    }

    fn act(&self, verb: Verb, units: &[String], peer: Option<SocketAddr>) -> Answer {
        let asked = self.asker.act(verb, units);
        let by =
            peer.map_or("a client of the Unix socket".to_owned(), |peer| peer.ip().to_string());
        let which = units.first().map_or("", String::as_str);
        let more = units.len().saturating_sub(1);
        let which = if more > 0 { format!("{which} and {more} more") } else { which.to_owned() };
        let done = if asked.is_ok() { "asked" } else { "failed to ask" };
        warren_sys::tell!("{by} {done} the manager to {} {which}", verb.word());
        asked.map(Arc::new)
    }

    /// The part of the log that answers a question.
    fn read_log(&self, ask: Ask, part: &LogOf) -> Answer {
        let text = log::last(&self.log, part).map_err(|failure| failure.0)?;
        let text = if text.is_empty() { answers::no_line(ask).to_owned() } else { text };
        Ok(Arc::new(json!({ "text": text })))
    }

    /// Sends what is in sight, and then what differs, until the client goes.
    fn events(&self, client: &Client, to: &mut Taker<'_>, sight: &Sight) -> Result<()> {
        let begun = Instant::now();
        begin_stream(to)?;
        let mut reader = self.hub.read();
        let (mut sent, mut said) = (None::<Picture>, Instant::now());
        // There is one question for a connection: what can be read now is its end.
        while begun.elapsed() < STREAM_MAX && !is_readable(client) {
            let next = reader.next(sight, ALIVE_EVERY);
            let told = next.as_ref().and_then(|picture| match &sent {
                None => Some(view::whole(picture)),
                Some(before) => view::difference(before, picture),
            });
            let text = match told {
                // As one piece: a value writes itself in very small ones.
                Some(told) => format!("event: picture\ndata: {told}\n\n"),
                None if said.elapsed() >= ALIVE_EVERY => ": alive\n\n".to_owned(),
                None => continue,
            };
            to.begin();
            to.write_all(text.as_bytes())?;
            to.flush()?;
            (sent, said) = (next.or(sent), Instant::now());
        }
        Ok(())
    }

    fn log(&self, client: &Client, to: &mut Taker<'_>, unit: &str) -> Result<()> {
        begin_stream(to)?;
        let mut lines = Lines(to);
        match log::follow(&self.log, unit, client, &mut lines) {
            Ok(()) => Ok(()),
            Err(failure) => {
                lines.write_all(
                    format!("event: trouble\ndata: {}\n\n", json!(failure.0)).as_bytes(),
                )?;
                lines.flush()
            }
        }
    }
}

/// A log on its way: each event has its own time.
struct Lines<'a, 'b>(&'a mut Taker<'b>);

impl Write for Lines<'_, '_> {
    fn write(&mut self, data: &[u8]) -> Result<usize> {
        self.0.write(data)
    }

    fn write_all(&mut self, data: &[u8]) -> Result<()> {
        self.0.begin();
        self.0.write_all(data)
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

/// The questions, for the page.
fn all_questions() -> Value {
    let one = |question: &Question| {
        json!({
            "word": question.word, "text": question.text, "command": question.command,
            "needs": question.needs.prompt(),
        })
    };
    questions::ALL.iter().map(one).collect()
}

fn begin_stream(to: &mut Taker<'_>) -> Result<()> {
    // A proxy in front is not to wait for more.
    to.write_all(reply::head(200, "text/event-stream", "X-Accel-Buffering: no\r\n").as_bytes())?;
    to.flush().map_err(Error::other)
}

/// The monotonic clock, µs.
fn now_us() -> u64 {
    warren_sys::time::monotonic_ns() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_come_over_tls_and_with_a_token_alone() {
        let check = |address: &str, has_tls, has_token| {
            check_addresses(&[address.parse().expect("an address")], has_tls, has_token).is_ok()
        };
        for address in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(check(address, false, false), "{address}");
        }
        for address in ["0.0.0.0:1", "192.0.2.1:1", "[::]:1"] {
            assert!(check(address, true, true), "{address}");
            for (has_tls, has_token) in [(false, false), (true, false), (false, true)] {
                assert!(!check(address, has_tls, has_token), "{address}");
            }
        }
    }

    #[test]
    fn a_token_is_long_and_plain() {
        let scratch = warren_testkit::Scratch::new("web-token");
        let read = |text: &str| read_token(std::path::Path::new(&scratch.write("token", text)));
        assert_eq!(read("0123456789abcdefghij\n"), Ok("0123456789abcdefghij".to_owned()));
        for bad in ["", "short\n", "0123456789 abcdefghij\n", "0123456789abcdefghi\u{e4}\n"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read_token(&scratch.path("none")).is_err());
        assert_ne!(random(), random());
    }
}
