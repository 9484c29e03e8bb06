//! The datagram sockets. What is in one is looked at in batches and taken with one more system call,
//! and dealt with only then: those who wait for room in the socket are woken once for many messages,
//! which costs more than all the rest. The trusted fields of a sender that is not known need a file
//! descriptor that only a message taken by itself has; so does a message that is a file. Those are
//! left in the socket and taken one by one. So is what comes under the id of a process that has ended.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use warren_sys::datagrams::{BATCH_MESSAGES_MAX, Batch, take};
use warren_sys::fdpass::{self, Credentials, Received};

use crate::daemon::TURN_MESSAGES_MAX;
use crate::daemon::core::{Core, Moment};
use crate::daemon::sender::known::Key;
use crate::daemon::sender::{Origin, Transport};
use crate::input::loss::Kind;

/// A datagram socket.
pub struct Inlet {
    socket: OwnedFd,
    transport: Transport,
    /// So many are taken without a look: the last daemon may have looked at them.
    unseen: usize,
}

/// What a look at a socket led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It is empty for now.
    Drained,
    /// It may have more.
    More,
    /// So many at its front must be taken one by one.
    Singly(usize),
}

/// Room for what a turn takes, used again and again.
#[derive(Default)]
pub struct Taken {
    batch: Batch,
    bytes: Vec<u8>,
    keys: Vec<Key>,
    /// Where each message ends in `bytes`, who sent it, and when it was there.
    messages: Vec<(usize, Arc<Origin>, Moment)>,
}

impl Taken {
    /// Deals with all of it.
    fn put(&mut self, transport: Transport, core: &mut Core) {
        let mut begin = 0;
        for (end, origin, now) in self.messages.drain(..) {
            core.datagram(transport, &self.bytes[begin..end], &origin, now);
            begin = end;
        }
        self.bytes.clear();
    }
}

impl Inlet {
    /// Takes over a socket.
    pub fn new(socket: OwnedFd, transport: Transport) -> Inlet {
        // Without, senders that are gone have no unit.
        let _ = fdpass::pass_pidfds(socket.as_fd());
        Inlet { socket, transport, unseen: BATCH_MESSAGES_MAX }
    }

    /// To be watched.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Takes what is there, up to the bound of a turn; true when there may be more. `learn` is
    /// called before a sender is looked up: who tells of units may have said something.
    pub fn read(
        &mut self,
        (taken, buffer): (&mut Taken, &mut [u8]),
        core: &mut Core,
        learn: impl FnMut(&mut Core),
    ) -> bool {
        if core.is_full() {
            return true;
        }
        let mut turn = match self.unseen {
            0 => Turn::More,
            count => Turn::Singly(count),
        };
        while turn == Turn::More && taken.messages.len() < TURN_MESSAGES_MAX {
            turn = self.take_batch(taken, core);
        }
        taken.put(self.transport, core);
        if let Turn::Singly(count) = turn {
            self.read_singly(count, buffer, core, learn);
        }
        turn != Turn::Drained
    }

    /// Takes the ordinary messages at the front of the socket.
    fn take_batch(&self, taken: &mut Taken, core: &mut Core) -> Turn {
        let Taken { batch, bytes, keys, messages } = taken;
        let seen = batch.look(self.socket.as_fd()).unwrap_or(0);
        let senders = batch.seen().iter().filter_map(|seen| seen.credentials);
        core.senders.look_at(self.transport, senders, keys);
        let (now, before) = (Moment::now(), messages.len());
        for (at, seen) in batch.seen().iter().enumerate() {
            let Some(origin) = self.known(seen, core, now) else { break };
            bytes.extend_from_slice(batch.data(at));
            messages.push((bytes.len(), origin, now));
        }
        let ordinary = messages.len() - before;
        let gone = take(self.socket.as_fd(), ordinary).unwrap_or(0);
        debug_assert_eq!(gone, ordinary, "nobody else takes from the socket");
        match seen {
            _ if ordinary < seen => Turn::Singly(seen - ordinary),
            BATCH_MESSAGES_MAX => Turn::More,
            _ => Turn::Drained,
        }
    }

    /// Who sent a message, if it is whole, not a file, and its sender is known.
    fn known(&self, seen: &Received, core: &mut Core, now: Moment) -> Option<Arc<Origin>> {
        let sender = seen.credentials.filter(|_| seen.bytes > 0 && !seen.truncated)?;
        core.senders.known(self.transport, sender, &core.units, now.monotonic_us)
    }

    /// Takes so many, or all there are.
    fn read_singly(
        &mut self,
        count: usize,
        buffer: &mut [u8],
        core: &mut Core,
        mut learn: impl FnMut(&mut Core),
    ) {
        for _ in 0..count {
            learn(core);
            if !self.read_one(buffer, core) {
                break;
            }
        }
        // Whatever was looked at is taken now, so the next look is at the front.
        self.unseen = match fdpass::start_peeking(self.socket.as_fd()) {
            Ok(()) => 0,
            Err(_) => BATCH_MESSAGES_MAX,
        };
    }

    /// Takes a message with all that belongs to it; false when there is none.
    fn read_one(&self, buffer: &mut [u8], core: &mut Core) -> bool {
        let mut fds = Vec::new();
        let received = fdpass::recv(self.socket.as_fd(), buffer, &mut fds, false);
        let Ok(received) = received else { return false };
        let unknown = Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let sender = (received.credentials.unwrap_or(unknown), received.pidfd);
        let data = &buffer[..received.bytes.min(buffer.len())];
        let now = Moment::now();
        let origin = core.senders.origin(self.transport, sender, &core.units, now.monotonic_us);
        match (self.transport, fds.pop()) {
            _ if received.truncated => core.lose(&origin, (Kind::Datagram, "", 1)),
            (Transport::Journal, Some(fd)) if fds.is_empty() && data.is_empty() => {
                core.message_file(&fd, &origin, now);
            }
            (_, Some(_)) => core.lose(&origin, (Kind::Descriptors, "", 1)),
            (transport, None) => core.datagram(transport, data, &origin, now),
        }
        true
    }
}
