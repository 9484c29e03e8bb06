//! The streams of services' output.
//!
//! A stream comes in one of two ways. The manager hands over the reading end of a socket pair and
//! says what unit it is of ([`Origin::Handed`]): nothing is looked up. Or a client connects to the
//! socket `stdout` and says in a header what it is ([`Origin::Client`]), as `systemd-cat` does.
//! The manager keeps both over the end of this daemon, which tells it when a stream has ended.
//!
//! What is read in a turn stays in the socket until the end of the turn ([`Streams::take_looked_at`]), so
//! that a daemon that is killed at any instruction loses no line and doubles none;
//! [`crate::input::pending`] says how.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_sys::credentials;
use warren_sys::fdpass::{self, Credentials, pass_credentials};
use warren_sys::file::set_nonblocking;
use warren_sys::{process, socket};

use crate::daemon::clock::Moment;
use crate::daemon::core::Core;
use crate::daemon::half_lines::HalfLines;
use crate::daemon::inherit::{self, STREAM_NAME};
use crate::daemon::pending::Pending;
use crate::daemon::sender;
use crate::daemon::sender::known::held_max;
use crate::daemon::sender::told::WriterFields;
use crate::daemon::stream_turns::{CONNECTIONS_MAX, StreamTurns, StreamsOf};
use crate::daemon::tokens::TOKEN_STREAMS;
use crate::input::handover::UnitLog;
use crate::input::loss::Kind;
use crate::input::pending::{PendingContent, Writer};
use crate::input::stream::{Header, LINE_BYTES_DEFAULT, LineBreak, Stream, fields};
use warren_log_store::entry::{Fields, Id128};

/// Most streams of clients at a time, if there are descriptors for so many.
const CLIENTS_MAX: usize = 1 << 16;

/// Descriptors that are kept for everything but streams and senders: files of the store, merging,
/// questions.
const DESCRIPTORS_KEPT: usize = 512;

/// Streams that may be there at a time. Clients leave half of the room to the manager, so that no
/// service is without a log because somebody opens connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    all: usize,
    clients: usize,
    /// Of one user, if that is not root.
    of_user: usize,
}

impl Bounds {
    /// For a process that may have so many descriptors.
    fn of(descriptors: usize) -> Bounds {
        let all = descriptors - DESCRIPTORS_KEPT.min(descriptors / 2) - held_max(descriptors);
        let clients = CLIENTS_MAX.min(all / 2);
        Bounds { all, clients, of_user: clients / 4 }
    }
}

/// Bytes read from one stream at once.
const READ_BYTES: usize = 64 << 10;

/// Most reads from one stream in a turn.
const TURN_READS_MAX: usize = 8;

/// All streams, by token.
pub struct Streams {
    connections: BTreeMap<u64, Connection>,
    turns: StreamTurns,
    next: u64,
    /// Those that the manager handed over, by its number.
    handed: BTreeMap<u64, u64>,
    /// What the last daemon left of streams.
    left: PendingContent,
    /// Those that have the beginning of a line.
    open_lines: BTreeSet<u64>,
    /// Those among them whose beginning is another than at the end of the last turn.
    changed: BTreeSet<u64>,
    /// Those that were read in this turn.
    looked_at: BTreeSet<u64>,
    /// Those that ended in this turn.
    ended: Vec<u64>,
    /// Where the headers of clients' streams are kept; none without a manager.
    directory: Option<PathBuf>,
    /// `LineMax=`.
    line_bytes_max: usize,
    bounds: Bounds,
    /// Streams of clients, by user.
    by_user: BTreeMap<u32, usize>,
    /// What they hold of lines.
    half_lines: HalfLines,
    /// That clients are refused was said.
    is_refusing: bool,
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
    /// Who connected. If that is root, the unit in the header counts.
    owner: u32,
    id: Id128,
    stream: Stream,
    /// Who wrote last, and the inode of the pidfd: another process with the same id has another.
    writer: Credentials,
    writer_inode: Option<u64>,
    /// Who wrote what is being read, while it is.
    pidfd: Option<OwnedFd>,
    /// Something was read of that writer, and not by the last daemon alone.
    has_heard: bool,
    /// What is known of the writer; read with its first line.
    told: Option<WriterFields>,
    unit: Option<Arc<UnitLog>>,
    /// Its unit was not looked up yet.
    wants_unit: bool,
    /// The cgroup of the client that connected.
    peer_cgroup: Option<u64>,
    /// Bytes at the head of the socket whose lines were taken.
    looked_at: usize,
    /// Bytes of a line that are counted for its user.
    held: usize,
    /// The kernel lets no descriptors into it any more.
    refuses: bool,
    /// And there were none before.
    is_plain: bool,
    /// Descriptors came with what is still in the socket; it has ended.
    offends: bool,
}

impl Streams {
    /// How many are open.
    pub fn count(&self) -> usize {
        self.connections.len()
    }

    /// No streams yet. `left` is what the last daemon left of them; `directory` keeps headers;
    /// longer lines are split; there are so many descriptors.
    ///
    /// # Errors
    /// When there is no descriptor to watch them by.
    pub fn new(
        left: PendingContent,
        directory: Option<PathBuf>,
        line_bytes_max: usize,
        descriptors: usize,
    ) -> warren_sys::Result<Streams> {
        Ok(Streams {
            connections: BTreeMap::new(),
            turns: StreamTurns::new()?,
            next: 0,
            handed: BTreeMap::new(),
            left,
            open_lines: BTreeSet::new(),
            changed: BTreeSet::new(),
            looked_at: BTreeSet::new(),
            ended: Vec::new(),
            directory,
            line_bytes_max,
            bounds: Bounds::of(descriptors),
            by_user: BTreeMap::new(),
            half_lines: HalfLines::default(),
            is_refusing: false,
        })
    }

    /// Takes new connections, whose lines are read in later turns: whether there were some, and how many of them are of
    /// other users than root. One too many is closed at once, which its client sees.
    ///
    /// # Errors
    /// When the system has none to give; the connection stays where it is.
    pub fn accept(
        &mut self,
        listener: &OwnedFd,
        core: &mut Core,
    ) -> warren_sys::Result<(bool, usize)> {
        let mut of_others = 0;
        for taken in 0..CONNECTIONS_MAX {
            if core.letting_go.is_full() {
                let errno = rustix::io::Errno::MFILE.raw_os_error();
                return Err(warren_sys::Error::new("close what strangers sent", errno));
            }
            let Some(socket) = socket::accept(listener.as_fd())? else {
                return Ok((taken > 0, of_others));
            };
            set_nonblocking(socket.as_fd(), true)?;
            let owner = credentials::peer(socket.as_fd()).map_or(u32::MAX, |peer| peer.uid);
            of_others += usize::from(StreamsOf::user(owner) == StreamsOf::Others);
            if !self.has_room_for_client(owner, core) || !self.has_room_for_user(owner, core) {
                core.letting_go.end(socket, owner);
            } else if pass_credentials(socket.as_fd()).is_ok() {
                let id = Id128(warren_sys::random::u128().to_le_bytes());
                let stream = Stream::new(self.line_bytes_max);
                let added = self.add_client(socket, (id, stream), false, core.pending());
                if let Err(why) = added {
                    core.lose_of(b"", None, (Kind::Stream, &why, 1));
                }
            }
        }
        Ok((true, of_others))
    }

    /// That there is none is said when it begins. Somebody may have as many users as he likes (subuid(5)), so all but
    /// root leave some to root.
    fn has_room_for_client(&mut self, owner: u32, core: &mut Core) -> bool {
        let Bounds { all, clients, of_user } = self.bounds;
        let count = self.connections.len() - self.handed.len();
        let of_root = self.by_user.get(&0).copied().unwrap_or(0);
        let has_share = owner == 0 || count - of_root.min(count) < clients - of_user;
        let has_room = has_share && count < clients && self.connections.len() < all;
        if !has_room && !self.is_refusing {
            core.note(&format!("Refusing new log streams: {count} are open"));
        }
        // Who opens one whenever one is closed is not told of each time.
        self.is_refusing = !has_room || self.is_refusing && count > clients / 8 * 5;
        has_room
    }

    /// Nobody takes the room of all others; that somebody tries is said.
    fn has_room_for_user(&self, uid: u32, core: &mut Core) -> bool {
        let count = self.by_user.get(&uid).copied().unwrap_or(0);
        let has_room = uid == 0 || count < self.bounds.of_user;
        if !has_room {
            let why = format!("user {uid} has {count} open, the most allowed");
            core.lose_of(b"", None, (Kind::Stream, &why, 1));
        }
        has_room
    }

    /// Goes on with a client's stream that the last daemon had; one whose header was never read
    /// whole begins anew.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn take_up_client(
        &mut self,
        name: &str,
        socket: OwnedFd,
        pending: &mut Pending,
    ) -> Result<(), String> {
        let id = Id128::parse(name).ok_or("the manager kept it under no id of ours")?;
        let header = self.directory.as_deref().and_then(|directory| read_header(directory, id));
        let longest = self.line_bytes_max;
        let stream = match header {
            Some(header) => {
                Stream::with_header(header, self.take_begun(&name_of_client(id)), longest)
            }
            None => Stream::new(longest),
        };
        self.add_client(socket, (id, stream), true, pending)
    }

    fn add_client(
        &mut self,
        socket: OwnedFd,
        (id, stream): (Id128, Stream),
        kept: bool,
        pending: &mut Pending,
    ) -> Result<(), String> {
        let peer = credentials::peer(socket.as_fd()).map_err(|e| e.to_string())?;
        // It may end before its first line is read.
        let pidfd = credentials::peer_pidfd(socket.as_fd()).ok();
        let peer_cgroup = pidfd.as_ref().and_then(|fd| process::pidfd_cgroup_id(fd.as_fd()));
        let writer_inode = pidfd.as_ref().and_then(|fd| process::pidfd_inode(fd.as_fd()));
        let kept = kept
            || self.directory.is_some()
                && inherit::keep(&format!("{STREAM_NAME}{id}"), socket.as_fd());
        self.add(
            Connection {
                socket,
                origin: Origin::Client { kept },
                owner: peer.uid,
                id,
                stream,
                writer: Credentials { pid: peer.pid, uid: peer.uid, gid: peer.gid },
                writer_inode,
                pidfd: None,
                has_heard: false,
                told: None,
                unit: None,
                wants_unit: true,
                peer_cgroup,
                looked_at: 0,
                held: 0,
                refuses: false,
                is_plain: false,
                offends: false,
            },
            pending,
        )
        .map(|_| ())
    }

    /// Takes a stream from the manager, unless it is here already. Its id is made of `boot` and
    /// the number, so that it stays the same with the next daemon.
    ///
    /// # Errors
    /// Why it cannot be read, as when there is no room.
    pub fn take(
        &mut self,
        (key, socket): (u64, OwnedFd),
        unit: Arc<UnitLog>,
        boot: Id128,
        pending: &mut Pending,
    ) -> Result<(), String> {
        if self.handed.contains_key(&key) {
            return Ok(());
        }
        let mut id = boot;
        id.0[8..].copy_from_slice(&key.to_be_bytes());
        let begun = self.take_begun(&name_of_handed(key));
        let token = self.add(
            Connection {
                socket,
                origin: Origin::Handed(key),
                owner: 0,
                id,
                stream: Stream::with_header(unit.header.clone(), begun, self.line_bytes_max),
                writer: Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX },
                writer_inode: None,
                pidfd: None,
                has_heard: false,
                told: None,
                unit: Some(unit),
                wants_unit: false,
                peer_cgroup: None,
                looked_at: 0,
                held: 0,
                refuses: false,
                is_plain: false,
                offends: false,
            },
            pending,
        )?;
        self.handed.insert(key, token);
        Ok(())
    }

    fn take_begun(&mut self, name: &str) -> Vec<u8> {
        self.left.lines.remove(name).unwrap_or_default()
    }

    fn add(&mut self, mut connection: Connection, pending: &mut Pending) -> Result<u64, String> {
        let token = TOKEN_STREAMS + self.next;
        let fits = self.connections.len() < self.bounds.all;
        let name = connection.name();
        let in_records = self.left.looked_at.remove(&name).is_some_and(|bytes| bytes > 0);
        connection.begin(in_records).map_err(|e| e.to_string())?;
        if in_records && let Some(writer) = pending.writer() {
            // Before it is looked at again.
            writer.looked_at(&name, 0);
            pending.write();
        }
        if !fits {
            return Err("there are too many".to_owned());
        }
        self.turns.add(connection.of(), &connection.socket, token).map_err(|e| e.to_string())?;
        self.next += 1;
        if !connection.stream.begun().is_empty() {
            self.open_lines.insert(token);
            self.changed.insert(token);
        }
        connection.holds_too_much(&mut self.half_lines);
        if matches!(connection.origin, Origin::Client { .. }) {
            *self.by_user.entry(connection.owner).or_default() += 1;
        }
        self.connections.insert(token, connection);
        Ok(token)
    }

    /// Whether the stream's unit is to be looked up with its next line.
    pub fn wants_unit(&self, token: u64) -> bool {
        self.connections.get(&token).is_some_and(|connection| connection.wants_unit)
    }

    /// Readable while a stream of that kind is.
    pub fn fd(&self, of: StreamsOf) -> BorrowedFd<'_> {
        self.turns.fd(of)
    }

    /// Those of a kind that can be read, in the order of this turn, and whether there may be more.
    pub fn ready(&mut self, of: StreamsOf) -> (Vec<u64>, bool) {
        self.turns.ready(of)
    }

    /// Has these come first in the next turn.
    pub fn leave(&mut self, of: StreamsOf, tokens: &[u64]) {
        self.turns.leave(of, tokens);
    }

    /// Reads from a stream that is ready: how many bytes, and whether it may have more.
    pub fn read(&mut self, token: u64, buffer: &mut [u8], core: &mut Core) -> (usize, bool) {
        let (bytes, turn) = self.read_one(token, buffer, core);
        if turn == Some(Turn::Ended)
            && let Some(connection) = self.connections.get(&token)
        {
            // Others may hold it too, so closing it is not enough.
            self.turns.remove(connection.of(), &connection.socket);
        }
        (bytes, turn == Some(Turn::More))
    }

    fn read_one(
        &mut self,
        token: u64,
        buffer: &mut [u8],
        core: &mut Core,
    ) -> (usize, Option<Turn>) {
        let Some(connection) = self.connections.get_mut(&token) else { return (0, None) };
        let had_header = connection.stream.has_header();
        let before = connection.looked_at;
        let mut turn = connection.read(buffer, core);
        let bytes = connection.looked_at.saturating_sub(before);
        if connection.stream.has_header() && !had_header {
            connection.keep_header(self.directory.as_deref());
        }
        if connection.looked_at > 0 {
            self.looked_at.insert(token);
        }
        if connection.holds_too_much(&mut self.half_lines) {
            turn = connection.hold_nothing(turn, core);
            connection.holds_too_much(&mut self.half_lines);
        }
        if turn == Turn::Ended {
            self.ended.push(token);
        }
        self.note_line(token);
        (bytes, Some(turn))
    }

    /// Reads from all, at the end of the daemon; true when there may be more.
    pub fn read_all(&mut self, buffer: &mut [u8], core: &mut Core) -> bool {
        let tokens: Vec<u64> = self.connections.keys().copied().collect();
        let mut more = false;
        for token in tokens {
            more |= self.read_one(token, buffer, core).1 == Some(Turn::More);
        }
        more
    }

    /// At the end of the daemon: cuts the lines of streams that nobody keeps.
    pub fn cut_unkept(&mut self, core: &mut Core) {
        let unkept =
            |connection: &&mut Connection| connection.origin == (Origin::Client { kept: false });
        let connections = self.connections.values_mut();
        connections.filter(unkept).for_each(|connection| connection.cut(LineBreak::Eof, core));
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

    /// Puts down what was read in this turn: how much of each stream, and beginnings of lines.
    pub fn put_turn(&mut self, writer: &mut Writer) {
        for token in std::mem::take(&mut self.changed) {
            self.put_line(token, writer);
        }
        for token in &self.looked_at {
            if let Some(connection) = self.connections.get(token) {
                writer.looked_at(&connection.name(), connection.looked_at as u64);
            }
        }
    }

    /// Puts down all beginnings of lines, and what the last daemon left of streams that have not
    /// come yet.
    pub fn put_lines(&self, writer: &mut Writer) {
        self.open_lines.iter().for_each(|token| self.put_line(*token, writer));
        self.left.lines.iter().for_each(|(name, begun)| writer.line(name, begun));
        self.left.looked_at.iter().for_each(|(name, bytes)| writer.looked_at(name, *bytes));
    }

    fn put_line(&self, token: u64, writer: &mut Writer) {
        if let Some(connection) = self.connections.get(&token) {
            writer.line(&connection.name(), connection.stream.begun());
        }
    }

    /// What was read is put down: takes it from the sockets, and says so.
    pub fn take_looked_at(&mut self, buffer: &mut [u8], mut writer: Option<&mut Writer>) {
        for token in std::mem::take(&mut self.looked_at) {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            connection.take_looked_at(buffer);
            if let Some(writer) = &mut writer {
                writer.looked_at(&connection.name(), 0);
            }
        }
    }

    /// Whether any ended in this turn.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Forgets the streams that ended in this turn, and gives the manager's numbers of its own.
    pub fn take_ended(&mut self, core: &mut Core) -> Vec<u64> {
        let ended = std::mem::take(&mut self.ended);
        let keys = ended.into_iter().filter_map(|token| self.forget(token, core)).collect();
        if self.half_lines.take_shrunk() {
            core.note_large();
        }
        keys
    }

    fn forget(&mut self, token: u64, core: &mut Core) -> Option<u64> {
        let mut connection = self.connections.remove(&token)?;
        connection.stream.cut(LineBreak::Eof, |_, _, _| {});
        connection.holds_too_much(&mut self.half_lines);
        if connection.offends {
            core.letting_go.end(connection.socket, connection.writer.uid);
        }
        self.open_lines.remove(&token);
        self.changed.remove(&token);
        match connection.origin {
            Origin::Handed(key) => {
                self.handed.remove(&key);
                Some(key)
            }
            Origin::Client { kept } => {
                self.by_user.entry(connection.owner).and_modify(|count| *count -= 1);
                self.by_user.retain(|_, count| *count > 0);
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
    let mut stream = Stream::new(LINE_BYTES_DEFAULT);
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
    /// Among whose it is read.
    fn of(&self) -> StreamsOf {
        StreamsOf::user(self.owner)
    }

    fn name(&self) -> String {
        match self.origin {
            Origin::Client { .. } => name_of_client(self.id),
            Origin::Handed(key) => name_of_handed(key),
        }
    }

    /// Begins to look at the socket. What the last daemon looked at and did not come to take is
    /// taken now if it is in its records.
    fn begin(&mut self, in_records: bool) -> warren_sys::Result<()> {
        if in_records {
            self.looked_at = fdpass::peeked(self.socket.as_fd())?;
            self.take_looked_at(&mut vec![0; READ_BYTES]);
        }
        fdpass::pass_credentials_alone(self.socket.as_fd())?;
        self.refuses = fdpass::refuse_fds(self.socket.as_fd()).is_ok();
        fdpass::start_peeking(self.socket.as_fd())
    }

    /// Reads what is there, up to the bound of a turn; it stays in the socket.
    fn read(&mut self, buffer: &mut [u8], core: &mut Core) -> Turn {
        let turn = self.read_some(buffer, core);
        self.pidfd = None;
        turn
    }

    fn read_some(&mut self, buffer: &mut [u8], core: &mut Core) -> Turn {
        let room = &mut buffer[..READ_BYTES];
        for _ in 0..TURN_READS_MAX {
            if core.is_full() {
                return Turn::More;
            }
            let received = match self.look(room) {
                Ok(received) if received.bytes > 0 => received,
                Err(e) if e.is_would_block() => {
                    self.is_plain |= self.refuses;
                    let _ = fdpass::pass_pidfds(self.socket.as_fd(), self.is_plain);
                    return Turn::Drained;
                }
                _ => {
                    if self.stream.is_in_header() {
                        self.lose_header(core);
                    }
                    self.cut(LineBreak::Eof, core);
                    return Turn::Ended;
                }
            };
            let is_plain = !received.lost_fds;
            if is_plain {
                self.looked_at += received.bytes;
            }
            let writer = received.credentials.unwrap_or(self.writer);
            self.set_writer(writer, received.pidfd, core);
            let lines = take(&mut self.stream, &room[..received.bytes]);
            let Ok(lines) = lines else {
                self.lose_header(core);
                self.offends = true;
                return Turn::Ended;
            };
            self.log(&lines, core);
            if !is_plain {
                self.refuse(core);
                return Turn::Ended;
            }
        }
        Turn::More
    }

    /// Looks at what is next, with who sent it, and makes no descriptor of a sender's one of ours: that there are some
    /// is said by `lost_fds`.
    fn look(&self, room: &mut [u8]) -> warren_sys::Result<fdpass::Received> {
        let socket = self.socket.as_fd();
        if !self.is_plain {
            let _ = fdpass::pass_pidfds(socket, false);
            let seen = fdpass::peek_plain(socket, room)?;
            if seen.lost_fds || seen.bytes == 0 || fdpass::pass_pidfds(socket, true).is_err() {
                // Before Linux 6.5 the id is believed.
                return Ok(seen);
            }
            fdpass::peek_from(socket, self.looked_at)?;
            // What came meanwhile was not looked at.
            return fdpass::peek_few(socket, &mut room[..seen.bytes], &mut Vec::new());
        }
        fdpass::peek_few(socket, room, &mut Vec::new())
    }

    /// Descriptors came along, which no stream may have: who sends them could end it in other ways. What they came
    /// with stays in the socket, since it cannot be taken without closing them.
    fn refuse(&mut self, core: &mut Core) {
        self.offends = true;
        let _ = fdpass::peek_from(self.socket.as_fd(), self.looked_at);
        let origin = self.make_context(core);
        core.lose(&origin, (Kind::Stream, "it carried file descriptors", 1));
        self.cut(LineBreak::Eof, core);
    }

    /// Counts what it holds for its user; whether all that he, or all, have is too much.
    fn holds_too_much(&mut self, lines: &mut HalfLines) -> bool {
        let before = std::mem::replace(&mut self.held, self.stream.held_bytes());
        matches!(self.origin, Origin::Client { .. }) && lines.change(self.owner, before, self.held)
    }

    /// Ends the line that is being written, as one that is too long, or the stream, if it has no header yet.
    fn hold_nothing(&mut self, turn: Turn, core: &mut Core) -> Turn {
        let origin = self.make_context(core);
        let why = "its user has too many bytes in unfinished lines";
        core.lose(&origin, (Kind::HalfLine, why, 1));
        match self.stream.has_header() {
            true => {
                self.cut(LineBreak::LineMax, core);
                turn
            }
            false => {
                self.lose_header(core);
                self.cut(LineBreak::LineMax, core);
                Turn::Ended
            }
        }
    }

    fn take_looked_at(&mut self, buffer: &mut [u8]) {
        while self.looked_at > 0 {
            let length = self.looked_at.min(buffer.len());
            match fdpass::recv_plain(self.socket.as_fd(), &mut buffer[..length]) {
                Ok(taken) if taken.bytes > 0 => self.looked_at -= taken.bytes,
                // It was there to be looked at; without it there is nothing to take.
                _ => self.looked_at = 0,
            }
        }
    }

    /// A line ends where another process writes on.
    fn set_writer(&mut self, writer: Credentials, pidfd: Option<OwnedFd>, core: &mut Core) {
        let inode = pidfd.as_ref().and_then(|pidfd| process::pidfd_inode(pidfd.as_fd()));
        let is_heir = self.writer_inode.zip(inode).is_some_and(|(then, now)| then != now);
        if writer != self.writer || is_heir {
            if self.has_heard {
                self.cut(LineBreak::PidChange, core);
            }
            (self.writer, self.told, self.writer_inode) = (writer, None, None);
        }
        self.writer_inode = inode.or(self.writer_inode);
        self.pidfd = pidfd;
        self.has_heard = true;
    }

    fn lose_header(&self, core: &mut Core) {
        let origin = self.make_context(core);
        core.lose(&origin, (Kind::Header, "", 1));
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
            warren_sys::tell!("warren-journald: {}: {e}", directory.display());
        }
    }

    /// Only root may say what unit it is.
    fn names_its_unit(&self) -> bool {
        self.owner == 0 && self.stream.has_header() && !self.stream.header().unit.is_empty()
    }

    fn make_context(&self, core: &Core) -> Arc<sender::Origin> {
        let mut more = Fields::new();
        more.push(b"_STREAM_ID", self.id.to_string().as_bytes());
        match &self.unit {
            Some(unit) => {
                unit.put_identity(&mut more);
                unit.put_extra(&mut more);
            }
            None if self.names_its_unit() => {
                more.push(b"_SYSTEMD_UNIT", &self.stream.header().unit);
            }
            None => {}
        }
        let context = core.senders.of_stream((self.writer, self.pidfd.as_ref()), &more);
        Arc::new(sender::Origin::new(context, self.unit.clone()))
    }

    fn cut(&mut self, why: LineBreak, core: &mut Core) {
        let mut lines = Vec::new();
        self.stream.cut(why, |header, text, why| lines.extend(fields(header, text, why)));
        self.log(&lines, core);
    }

    fn log(&mut self, lines: &[Fields], core: &mut Core) {
        if lines.is_empty() {
            return;
        }
        if std::mem::take(&mut self.wants_unit) {
            self.unit = match self.names_its_unit() {
                true => core.units.get(&self.stream.header().unit),
                false => self.peer_cgroup.and_then(|id| core.units.by_cgroup(id)).cloned(),
            };
        }
        let (now, pid) = (Moment::now(), self.writer.pid);
        let known = self.told.take_if(|told| !told.is_outdated(pid, now.monotonic_us));
        let read = || WriterFields::read(pid, now.monotonic_us, || self.make_context(core));
        let told = known.unwrap_or_else(read);
        let copies = self.stream.header().copies;
        lines.iter().for_each(|line| core.line(told.origin(), line, copies, now));
        self.told = Some(told);
    }
}

fn take(stream: &mut Stream, data: &[u8]) -> Result<Vec<Fields>, crate::input::stream::BadHeader> {
    let mut lines = Vec::new();
    let line = |header: &Header, text: &[u8], why| lines.extend(fields(header, text, why));
    stream.push(data, line)?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::Bounds;

    #[test]
    fn what_there_is_room_for() {
        let check = |descriptors, all, clients, of_user| {
            let expected = Bounds { all, clients, of_user };
            assert_eq!(Bounds::of(descriptors), expected, "{descriptors}");
        };
        check(0, 0, 0, 0);
        check(100, 49, 24, 6);
        check(1024, 496, 248, 62);
        check(20_000, 19_176, 9588, 2397);
        check(262_144, 257_536, 65_536, 16_384);
    }
}
