//! The datagram sockets. What is in one is looked at in batches and taken with one more system call,
//! so that those who wait for room in it are woken once for a batch. The trusted fields of a sender
//! that is not known need a file descriptor that only a message taken by itself has; so does a
//! message that is a file. Those are left in the socket and taken one by one.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use warren_sys::datagrams::{BATCH_MESSAGES_MAX, Batch, take};
use warren_sys::fdpass::{self, Credentials, Received};

use crate::daemon::core::Core;
use crate::daemon::sender::{Origin, Transport};
use crate::daemon::{TURN_MESSAGES_MAX, now_us};

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
        (batch, buffer): (&mut Batch, &mut [u8]),
        core: &mut Core,
        mut learn: impl FnMut(&mut Core),
    ) -> bool {
        for _ in 0..TURN_MESSAGES_MAX / BATCH_MESSAGES_MAX {
            if core.is_full() {
                return true;
            }
            let turn = match self.unseen {
                0 => self.read_batch(batch, core),
                count => Turn::Singly(count),
            };
            let count = match turn {
                Turn::Drained => return false,
                Turn::More => continue,
                Turn::Singly(count) => count,
            };
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
        true
    }

    /// Takes the ordinary messages at the front of the socket.
    fn read_batch(&self, batch: &mut Batch, core: &mut Core) -> Turn {
        let Ok(seen) = batch.look(self.socket.as_fd()) else { return Turn::Drained };
        if seen == 0 {
            return Turn::Drained;
        }
        let now = now_us();
        let origins: Vec<Arc<Origin>> =
            batch.seen().iter().map_while(|seen| self.known(seen, core, now)).collect();
        // Before they are dealt with: senders go on meanwhile.
        let taken = take(self.socket.as_fd(), origins.len()).unwrap_or(0);
        debug_assert_eq!(taken, origins.len(), "nobody else takes from the socket");
        for (at, origin) in origins.iter().enumerate() {
            core.datagram(self.transport, batch.data(at), origin);
        }
        match (origins.len() == seen, seen == BATCH_MESSAGES_MAX) {
            (false, _) => Turn::Singly(seen - origins.len()),
            (true, true) => Turn::More,
            (true, false) => Turn::Drained,
        }
    }

    /// Who sent a message, if it is whole, not a file, and its sender is known.
    fn known(&self, seen: &Received, core: &mut Core, now_us: u64) -> Option<Arc<Origin>> {
        let sender = seen.credentials.filter(|_| seen.bytes > 0 && !seen.truncated)?;
        core.senders.known(self.transport, sender, &core.units, now_us)
    }

    /// Takes a message with all that belongs to it; false when there is none.
    fn read_one(&self, buffer: &mut [u8], core: &mut Core) -> bool {
        let mut fds = Vec::new();
        let received = fdpass::recv(self.socket.as_fd(), buffer, &mut fds, false);
        let Ok(received) = received else { return false };
        let unknown = Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let sender = (received.credentials.unwrap_or(unknown), received.pidfd.as_ref());
        let data = &buffer[..received.bytes.min(buffer.len())];
        let origin = |core: &mut Core| {
            core.senders.origin(self.transport, sender, &core.units, now_us())
        };
        match (self.transport, fds.pop()) {
            _ if received.truncated => core.note("A datagram was too large and is lost"),
            (Transport::Journal, Some(fd)) if fds.is_empty() && data.is_empty() => {
                let origin = origin(core);
                core.memfd(&fd, &origin);
            }
            (_, Some(_)) => core.note("A datagram with file descriptors is lost"),
            (transport, None) => {
                let origin = origin(core);
                core.datagram(transport, data, &origin);
            }
        }
        true
    }
}
