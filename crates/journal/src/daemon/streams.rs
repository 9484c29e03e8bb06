//! The streams of services' output.
//!
//! A stream comes in one of two ways. The manager hands over the reading end of a socket pair and
//! says what unit it is of ([`Origin::Handed`]): nothing is looked up. Or a client connects to the
//! socket `stdout` and says in a header what it is ([`Origin::Client`]), as `systemd-cat` does.
//! The manager keeps both over the end of this daemon, which tells it when a stream has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_sys::credentials;
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::fdpass::{self, Credentials, pass_credentials};

use crate::daemon::core::Core;
use crate::daemon::inherit::{self, STREAM_NAME};
use crate::daemon::pending::Pending;
use crate::daemon::{LAST_TURNS_MAX, TOKEN_STREAMS, TURN_MESSAGES_MAX, now_us};
use crate::entry::{Fields, Id128};
use crate::input::handover::UnitLog;
use crate::input::stream::{Header, LineBreak, Stream, fields};

/// Most streams at a time.
const STREAMS_MAX: usize = 1 << 16;

/// Bytes read from one stream at once.
const READ_BYTES: usize = 64 << 10;

/// Most reads from one stream in a turn.
const TURN_READS_MAX: usize = 8;

/// All streams, by token.
pub struct Streams {
    connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Those that the manager handed over, by its number.
    handed: BTreeMap<u64, u64>,
    /// Beginnings of lines that the last daemon read, by name of the stream.
    begun: BTreeMap<String, Vec<u8>>,
    /// Those that have the beginning of a line.
    open_lines: BTreeSet<u64>,
    /// Those among them whose beginning is another than at the end of the last turn.
    changed: BTreeSet<u64>,
    /// [`Pending::generation`] at the end of the last turn.
    generation: u64,
    /// Where the headers of clients' streams are kept; none without a manager.
    directory: Option<PathBuf>,
}

/// How a stream came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Somebody connected. `kept`: the manager has it too.
    Client { kept: bool },
    /// From the manager, under this number.
    Handed(u64),
}

struct Connection {
    socket: OwnedFd,
    origin: Origin,
    /// Who connected is root: the unit in the header counts.
    is_root: bool,
    id: Id128,
    stream: Stream,
    /// Who wrote last.
    writer: Credentials,
    /// What is known of the writer; made with its first line.
    context: Option<Arc<Fields>>,
    unit: Option<Arc<UnitLog>>,
}

impl Streams {
    /// No streams yet. `begun` is what the last daemon left of lines; `directory` keeps headers.
    pub fn new(begun: BTreeMap<String, Vec<u8>>, directory: Option<PathBuf>) -> Streams {
        Streams {
            connections: BTreeMap::new(),
            next: 0,
            handed: BTreeMap::new(),
            begun,
            open_lines: BTreeSet::new(),
            changed: BTreeSet::new(),
            generation: 0,
            directory,
        }
    }

    /// Takes new connections.
    pub fn accept(&mut self, epoll: &Epoll, listener: &OwnedFd) {
        use rustix::net::{SocketFlags, accept_with};
        for _ in 0..TURN_MESSAGES_MAX {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(listener, flags) else { return };
            let id = Id128(warren_sys::random::u128().to_le_bytes());
            if pass_credentials(socket.as_fd()).is_ok() {
                self.add_client(epoll, socket, id, Stream::default(), false);
            }
        }
    }

    /// Goes on with a client's stream that the last daemon had; one whose header was never read
    /// whole begins anew.
    pub fn take_up_client(&mut self, epoll: &Epoll, name: &str, socket: OwnedFd) {
        let Some(id) = Id128::parse(name) else { return };
        let header = self.directory.as_deref().and_then(|directory| read_header(directory, id));
        let stream = match header {
            Some(header) => Stream::with_header(header, self.take_begun(&name_of_client(id))),
            None => Stream::default(),
        };
        self.add_client(epoll, socket, id, stream, true);
    }

    fn add_client(
        &mut self,
        epoll: &Epoll,
        socket: OwnedFd,
        id: Id128,
        stream: Stream,
        kept: bool,
    ) {
        let Ok(peer) = credentials::peer(socket.as_fd()) else { return };
        let kept = kept
            || self.directory.is_some()
                && inherit::keep(&format!("{STREAM_NAME}{id}"), socket.as_fd());
        self.add(
            epoll,
            Connection {
                socket,
                origin: Origin::Client { kept },
                is_root: peer.uid == 0,
                id,
                stream,
                writer: Credentials { pid: peer.pid, uid: peer.uid, gid: peer.gid },
                context: None,
                unit: None,
            },
        );
    }

    /// Takes a stream from the manager, unless it is here already. Its id is made of `boot` and
    /// the number, so that it stays the same with the next daemon.
    pub fn take(
        &mut self,
        epoll: &Epoll,
        key: u64,
        socket: OwnedFd,
        unit: Arc<UnitLog>,
        boot: Id128,
    ) {
        if self.handed.contains_key(&key) {
            return;
        }
        let mut id = boot;
        id.0[8..].copy_from_slice(&key.to_be_bytes());
        let begun = self.take_begun(&name_of_handed(key));
        let added = self.add(
            epoll,
            Connection {
                socket,
                origin: Origin::Handed(key),
                is_root: true,
                id,
                stream: Stream::with_header(unit.header.clone(), begun),
                writer: Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX },
                context: None,
                unit: Some(unit),
            },
        );
        if let Some(token) = added {
            self.handed.insert(key, token);
        }
    }

    fn take_begun(&mut self, name: &str) -> Vec<u8> {
        self.begun.remove(name).unwrap_or_default()
    }

    fn add(&mut self, epoll: &Epoll, connection: Connection) -> Option<u64> {
        let token = TOKEN_STREAMS + self.next;
        let fits = self.connections.len() < STREAMS_MAX;
        if !fits || epoll.add(&connection.socket, token, Interest::READ).is_err() {
            return None;
        }
        self.next += 1;
        if !connection.stream.begun().is_empty() {
            self.open_lines.insert(token);
            self.changed.insert(token);
        }
        self.connections.insert(token, connection);
        Some(token)
    }

    /// Reads from a stream that is ready. Gives the manager's number of one that has ended.
    pub fn read(
        &mut self,
        epoll: &Epoll,
        token: u64,
        buffer: &mut [u8],
        core: &mut Core,
    ) -> Option<u64> {
        let connection = self.connections.get_mut(&token)?;
        let had_header = connection.stream.has_header();
        let turn = connection.read(buffer, core);
        if turn == Turn::Ended {
            return self.end(epoll, token);
        }
        if connection.stream.has_header() && !had_header {
            connection.keep_header(self.directory.as_deref());
        }
        self.note_line(token);
        None
    }

    fn note_line(&mut self, token: u64) {
        let Some(connection) = self.connections.get(&token) else { return };
        let is_open = !connection.stream.begun().is_empty();
        let was_open = match is_open {
            true => !self.open_lines.insert(token),
            false => self.open_lines.remove(&token),
        };
        if is_open || was_open {
            self.changed.insert(token);
        }
    }

    fn end(&mut self, epoll: &Epoll, token: u64) -> Option<u64> {
        let connection = self.connections.remove(&token)?;
        self.open_lines.remove(&token);
        self.changed.remove(&token);
        // Others may hold it too, so closing it is not enough.
        let _ = epoll.remove(&connection.socket);
        match connection.origin {
            Origin::Handed(key) => {
                self.handed.remove(&key);
                Some(key)
            }
            Origin::Client { kept } => {
                if kept {
                    inherit::let_go(&format!("{STREAM_NAME}{}", connection.id));
                }
                if let Some(directory) = &self.directory {
                    // There is none before the header is whole.
                    let _ = std::fs::remove_file(header_path(directory, connection.id));
                }
                None
            }
        }
    }

    /// Puts down the beginnings of lines for the next daemon: those that changed, or all when what
    /// was put down before is void.
    pub fn put_lines(&mut self, pending: &mut Pending) {
        let all = self.generation != pending.generation();
        self.generation = pending.generation();
        let changed = std::mem::take(&mut self.changed);
        for token in if all { &self.open_lines } else { &changed } {
            if let Some(connection) = self.connections.get(token) {
                pending.line(&connection.name(), connection.stream.begun());
            }
        }
    }

    /// At the end of this daemon: takes what is still there, and cuts the lines of streams that
    /// nobody keeps.
    pub fn finish(&mut self, buffer: &mut [u8], core: &mut Core) {
        let tokens: Vec<u64> = self.connections.keys().copied().collect();
        for token in tokens {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            let more = |_: &usize| connection.read(buffer, core) == Turn::More;
            (0..LAST_TURNS_MAX).take_while(more).for_each(drop);
            if connection.origin == (Origin::Client { kept: false }) {
                connection.cut(LineBreak::Eof, core);
            }
            self.note_line(token);
        }
    }
}

fn name_of_client(id: Id128) -> String {
    format!("client {id}")
}

fn name_of_handed(key: u64) -> String {
    format!("handed {key}")
}

fn header_path(directory: &Path, id: Id128) -> PathBuf {
    directory.join(id.to_string())
}

fn read_header(directory: &Path, id: Id128) -> Option<Header> {
    let bytes = std::fs::read(header_path(directory, id)).ok()?;
    let mut stream = Stream::default();
    stream.push(&bytes, |_, _, _| {}).ok()?;
    stream.has_header().then(|| stream.header().clone())
}

/// How reading from a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It has no more for now.
    Drained,
    /// It may have more; others come first.
    More,
    /// It is closed, or no stream of ours.
    Ended,
}

impl Connection {
    fn name(&self) -> String {
        match self.origin {
            Origin::Client { .. } => name_of_client(self.id),
            Origin::Handed(key) => name_of_handed(key),
        }
    }

    fn read(&mut self, buffer: &mut [u8], core: &mut Core) -> Turn {
        let mut fds = Vec::new();
        let room = &mut buffer[..READ_BYTES];
        for _ in 0..TURN_READS_MAX {
            let received = match fdpass::recv(self.socket.as_fd(), room, &mut fds, false) {
                Ok(received) if received.bytes > 0 => received,
                Err(e) if e.is_would_block() => return Turn::Drained,
                _ => {
                    self.cut(LineBreak::Eof, core);
                    return Turn::Ended;
                }
            };
            fds.clear();
            self.set_writer(received.credentials.unwrap_or(self.writer), core);
            let lines = take(&mut self.stream, &room[..received.bytes]);
            let Ok(lines) = lines else { return Turn::Ended };
            self.log(&lines, core);
        }
        Turn::More
    }

    /// A line ends where another process writes on.
    fn set_writer(&mut self, writer: Credentials, core: &mut Core) {
        if writer != self.writer {
            if self.context.is_some() {
                self.cut(LineBreak::PidChange, core);
            }
            (self.writer, self.context) = (writer, None);
        }
    }

    /// For the daemon that goes on with it.
    fn keep_header(&self, directory: Option<&Path>) {
        let (Some(directory), Origin::Client { kept: true }) = (directory, self.origin) else {
            return;
        };
        let written = std::fs::create_dir_all(directory).and_then(|()| {
            std::fs::write(header_path(directory, self.id), self.stream.header().to_bytes())
        });
        if let Err(e) = written {
            eprintln!("warren-journald: {}: {e}", directory.display());
        }
    }

    fn make_context(&self, core: &Core) -> Arc<Fields> {
        let mut more = Fields::new();
        more.push(b"_STREAM_ID", self.id.to_string().as_bytes());
        match &self.unit {
            Some(unit) => {
                unit.put_identity(&mut more);
                unit.put_extra(&mut more);
            }
            None if self.is_root && !self.stream.header().unit.is_empty() => {
                more.push(b"_SYSTEMD_UNIT", &self.stream.header().unit);
            }
            None => {}
        }
        core.senders.of_stream(self.writer, &more)
    }

    fn cut(&mut self, why: LineBreak, core: &mut Core) {
        let mut lines = Vec::new();
        self.stream.cut(why, |header, text, why| lines.push(fields(header, text, why)));
        self.log(&lines, core);
    }

    fn log(&mut self, lines: &[Fields], core: &mut Core) {
        if lines.is_empty() {
            return;
        }
        let known = self.context.take();
        let context = known.unwrap_or_else(|| self.make_context(core));
        let now = now_us();
        lines.iter().for_each(|line| core.take_with(&context, self.unit.as_deref(), line, now));
        self.context = Some(context);
    }
}

fn take(stream: &mut Stream, data: &[u8]) -> Result<Vec<Fields>, crate::input::stream::BadHeader> {
    let mut lines = Vec::new();
    let line = |header: &Header, text: &[u8], why| lines.push(fields(header, text, why));
    stream.push(data, line)?;
    Ok(lines)
}
