//! Which streams are read in a turn: those of root and of services apart from those of other users, each kind up to a
//! bound, so that whoever fills a thousand of them has none of the others wait.
//! What must not be here: what is read, and what becomes of it.
//! Runs on the receiving thread.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use warren_sys::epoll::{Epoll, Events, Interest};

/// Most streams of a kind that are looked at in a turn.
const STREAMS_MAX: usize = 4096;

/// What is taken of streams of other users before an order is carried out, bytes: who asks for what was sent before does
/// not wait for all that a user can send.
pub const ORDER_BYTES_MAX: usize = 8 << 20;

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
    root: Epoll,
    others: Epoll,
    events: Events,
    /// How many turns there were.
    turn: usize,
}

impl StreamTurns {
    /// None yet.
    ///
    /// # Errors
    /// When there is no descriptor for it.
    pub fn new() -> warren_sys::Result<StreamTurns> {
        let (root, others) = (Epoll::new()?, Epoll::new()?);
        Ok(StreamTurns { root, others, events: Events::with_capacity(STREAMS_MAX), turn: 0 })
    }

    /// Readable while a stream of that kind is.
    pub fn fd(&self, of: StreamsOf) -> BorrowedFd<'_> {
        self.of(of).as_fd()
    }

    fn of(&self, of: StreamsOf) -> &Epoll {
        match of {
            StreamsOf::Root => &self.root,
            StreamsOf::Others => &self.others,
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

    /// Those that can be read, beginning with another one in each turn: what a turn has no room for is not always the
    /// same. Whether there may be more.
    pub fn ready(&mut self, of: StreamsOf) -> (Vec<u64>, bool) {
        let epoll = match of {
            StreamsOf::Root => &self.root,
            StreamsOf::Others => &self.others,
        };
        if epoll.wait(&mut self.events, Some(Duration::ZERO)).is_err() {
            return (Vec::new(), true);
        }
        let mut tokens: Vec<u64> = self.events.iter().map(|ready| ready.token).collect();
        if !tokens.is_empty() {
            /// The golden ratio of 2^32: turns that follow one another begin far apart.
            const APART: usize = 0x9e37_79b1;
            self.turn = self.turn.wrapping_add(1);
            let first = self.turn.wrapping_mul(APART) % tokens.len();
            tokens.rotate_left(first);
        }
        let is_full = tokens.len() == STREAMS_MAX;
        (tokens, is_full)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
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
        let mut read = BTreeSet::new();
        for _ in 0..20 * STREAMS as usize / ROOM {
            let (tokens, is_full) = turns.ready(StreamsOf::Others);
            assert!(tokens.len() == STREAMS as usize && !is_full);
            read.extend(tokens.into_iter().take(ROOM));
        }
        assert_eq!(read.len(), STREAMS as usize);
        assert!(turns.ready(StreamsOf::user(0)).0.is_empty(), "those of root are apart");
    }
}
