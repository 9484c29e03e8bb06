//! Which streams are read in a turn: those of root and of services apart from those of other users, each kind up to a
//! bound, so that whoever fills a thousand of them has none of the others wait.
//! What must not be here: what is read, and what becomes of it.
//! Runs on the receiving thread.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use warren_sys::epoll::{Epoll, Events, Interest};

/// Most streams of a kind that are looked at in a turn.
const STREAMS_MAX: usize = 4096;

/// What is taken of streams of other users before an order is carried out, bytes: who asks for what was sent before does
/// not wait for all that a user can send.
pub const ORDER_BYTES_MAX: usize = 2 << 20;

/// What a stream counts as at least, bytes, when it is taken, read or ended: each takes a dozen system calls.
pub const STREAM_BYTES_MIN: usize = 16 << 10;

/// Most connections that are taken in a turn.
pub const CONNECTIONS_MAX: usize = 32;

/// Whose streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamsOf {
    /// Root, and services, whose output the manager hands over.
    Root,
    /// Who else has connected.
    Others,
}

impl StreamsOf {
    /// Those of a user.
    pub fn user(uid: u32) -> StreamsOf {
        if uid == 0 { StreamsOf::Root } else { StreamsOf::Others }
    }
}

/// All streams that are watched.
pub struct StreamTurns {
    root: Kind,
    others: Kind,
    events: Events,
}

/// Streams of a kind.
struct Kind {
    epoll: Epoll,
    /// Those for which the last turn had no room, in order.
    left: Vec<u64>,
}

impl Kind {
    fn new() -> warren_sys::Result<Kind> {
        Ok(Kind { epoll: Epoll::new()?, left: Vec::new() })
    }
}

impl StreamTurns {
    /// None yet.
    ///
    /// # Errors
    /// When there is no descriptor for it.
    pub fn new() -> warren_sys::Result<StreamTurns> {
        let (root, others) = (Kind::new()?, Kind::new()?);
        Ok(StreamTurns { root, others, events: Events::with_capacity(STREAMS_MAX) })
    }

    /// Readable while a stream of that kind is.
    pub fn fd(&self, of: StreamsOf) -> BorrowedFd<'_> {
        self.of(of).as_fd()
    }

    fn of(&self, of: StreamsOf) -> &Epoll {
        match of {
            StreamsOf::Root => &self.root.epoll,
            StreamsOf::Others => &self.others.epoll,
        }
    }

    fn kind(&mut self, of: StreamsOf) -> &mut Kind {
        match of {
            StreamsOf::Root => &mut self.root,
            StreamsOf::Others => &mut self.others,
        }
    }

    /// Watches a stream.
    ///
    /// # Errors
    /// When the kernel has no room for it.
    pub fn add(&self, of: StreamsOf, stream: impl AsFd, token: u64) -> warren_sys::Result<()> {
        self.of(of).add(stream, token, Interest::READ)
    }

    /// Watches a stream no more.
    pub fn remove(&self, of: StreamsOf, stream: impl AsFd) {
        let _ = self.of(of).remove(stream);
    }

    /// Those that can be read: first those for which the last turn had no room, then the others in the order in which
    /// they came to have something, so that lines of two streams of a service stay in order. Whether there may be more.
    pub fn ready(&mut self, of: StreamsOf) -> (Vec<u64>, bool) {
        let StreamTurns { root, others, events } = self;
        let epoll = if of == StreamsOf::Root { &root.epoll } else { &others.epoll };
        let waited = epoll.wait(events, Some(Duration::ZERO));
        let tokens: Vec<u64> = events.iter().map(|ready| ready.token).collect();
        if waited.is_err() {
            return (Vec::new(), true);
        }
        let is_full = tokens.len() == STREAMS_MAX;
        let mut out = std::mem::take(&mut self.kind(of).left);
        if out.is_empty() {
            return (tokens, is_full);
        }
        let waiting: BTreeSet<u64> = out.iter().copied().collect();
        let ready: BTreeSet<u64> = tokens.iter().copied().collect();
        // Those that have ended meanwhile are not ready; where not all are told, reading them does nothing.
        out.retain(|token| is_full || ready.contains(token));
        out.extend(tokens.into_iter().filter(|token| !waiting.contains(token)));
        (out, is_full)
    }

    /// Has these come first in the next turn.
    pub fn leave(&mut self, of: StreamsOf, tokens: &[u64]) {
        self.kind(of).left = tokens.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn each_stream_has_its_turn_though_a_turn_has_room_for_few() {
        const STREAMS: u64 = 100;
        const ROOM: usize = 3;
        let mut turns = StreamTurns::new().expect("descriptors");
        let mut held = Vec::new();
        for token in 0..STREAMS {
            let (mut near, far) = UnixStream::pair().expect("sockets");
            near.write_all(b"half a line").expect("room");
            turns.add(StreamsOf::user(65_534), &far, token).expect("room");
            held.push((near, far));
        }
        let mut read = Vec::new();
        for _ in 0..STREAMS.div_ceil(ROOM as u64) {
            let (tokens, is_full) = turns.ready(StreamsOf::Others);
            assert!(tokens.len() == STREAMS as usize && !is_full);
            let (now, later) = tokens.split_at(ROOM);
            read.extend_from_slice(now);
            turns.leave(StreamsOf::Others, later);
        }
        read.truncate(STREAMS as usize);
        assert!(
            read.iter().copied().eq(0..STREAMS),
            "in the order in which they had something: {read:?}"
        );
        assert!(turns.ready(StreamsOf::user(0)).0.is_empty(), "those of root are apart");
    }
}
