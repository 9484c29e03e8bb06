//! The connections of services' output.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use warren_sys::credentials;
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::fdpass::{self, Credentials, pass_credentials};

use crate::daemon::{Core, LAST_TURNS_MAX, TOKEN_STREAMS, TURN_MESSAGES_MAX, now_us};
use crate::entry::{Fields, Id128};
use crate::input::stream::{Header, LineBreak, Stream, fields};

/// Most connections at a time.
const STREAMS_MAX: usize = 1 << 16;

/// Bytes read from one connection at once.
const READ_BYTES: usize = 64 << 10;

/// Most reads from one connection in a turn.
const TURN_READS_MAX: usize = 8;

/// All connections, by token.
#[derive(Default)]
pub struct Streams {
    connections: BTreeMap<u64, Connection>,
    next: u64,
}

struct Connection {
    socket: OwnedFd,
    /// Who connected is root: the unit in the header counts.
    is_root: bool,
    id: Id128,
    stream: Stream,
    /// Who wrote last.
    writer: Credentials,
    /// What is known of the writer; made with its first line.
    context: Option<Arc<Fields>>,
}

impl Streams {
    /// Takes new connections.
    pub fn accept(&mut self, epoll: &Epoll, listener: &OwnedFd) {
        use rustix::net::{SocketFlags, accept_with};
        for _ in 0..TURN_MESSAGES_MAX {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(listener, flags) else { return };
            if self.connections.len() >= STREAMS_MAX {
                continue;
            }
            let Ok(peer) = credentials::peer(socket.as_fd()) else { continue };
            let token = TOKEN_STREAMS + self.next;
            let watched = pass_credentials(socket.as_fd())
                .and_then(|()| epoll.add(&socket, token, Interest::READ));
            if watched.is_ok() {
                self.next += 1;
                let id = Id128(warren_sys::random::u128().to_le_bytes());
                let writer = Credentials { pid: peer.pid, uid: peer.uid, gid: peer.gid };
                let (is_root, stream, context) = (peer.uid == 0, Stream::default(), None);
                let connection = Connection { socket, is_root, id, stream, writer, context };
                self.connections.insert(token, connection);
            }
        }
    }

    /// Reads from a connection that is ready.
    pub(super) fn read(&mut self, epoll: &Epoll, token: u64, buffer: &mut [u8], core: &mut Core) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if connection.read(buffer, core) == Turn::Ended {
            // Closing it does the same; nothing else refers to it.
            let _ = epoll.remove(&connection.socket);
            self.connections.remove(&token);
        }
    }

    /// Takes what is still there, and the lines without an end.
    pub(super) fn end(&mut self, buffer: &mut [u8], core: &mut Core) {
        for connection in self.connections.values_mut() {
            let more = |_: &usize| connection.read(buffer, core) == Turn::More;
            (0..LAST_TURNS_MAX).take_while(more).for_each(drop);
            connection.cut(LineBreak::Eof, core);
        }
    }
}

/// How reading from a connection ended.
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

    fn make_context(&self, core: &Core) -> Arc<Fields> {
        let mut more = Fields::new();
        more.push(b"_STREAM_ID", self.id.to_string().as_bytes());
        let unit = &self.stream.header().unit;
        if self.is_root && !unit.is_empty() {
            more.push(b"_SYSTEMD_UNIT", unit);
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
        lines.iter().for_each(|line| core.take_with(&context, line, now));
        self.context = Some(context);
    }
}

fn take(stream: &mut Stream, data: &[u8]) -> Result<Vec<Fields>, crate::input::stream::BadHeader> {
    let mut lines = Vec::new();
    let line = |header: &Header, text: &[u8], why| lines.push(fields(header, text, why));
    stream.push(data, line)?;
    Ok(lines)
}
