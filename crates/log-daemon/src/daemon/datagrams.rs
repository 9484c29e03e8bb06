//! The datagram sockets. What is in one is looked at in batches and taken with one more system call,
//! and dealt with only then: those who wait for room in the socket are woken once for many messages,
//! which costs more than all the rest. The trusted fields of a sender that is not known need a file
//! descriptor that only a message taken by itself has; so does a message that is a file. Those are
//! left in the socket and taken one by one. So is what comes under the id of a process that has ended.
//!
//! Anybody may send file descriptors along. The socket tells of pidfds only while messages are taken one by one, so
//! that a look says whether there are descriptors, and [`warren_sys::letting_go`] says what becomes of them. What cannot
//! be let go of stays in its socket, of which this daemon then takes nothing more: [`Inlet::read_behind`] reads what is
//! behind it, and `turnover` puts another socket in its place.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use warren_sys::datagrams::{BATCH_MESSAGES_MAX, Batch, take};
use warren_sys::fdpass::{self, Credentials, Received};
use warren_sys::letting_go::Verdict;

use crate::daemon::bounds::{TURN_BYTES_MAX, TURN_MESSAGES_MAX};
use crate::daemon::clock::Moment;
use crate::daemon::core::Core;
use crate::daemon::sender::known::Key;
use crate::daemon::sender::{Origin, Transport};
use crate::input::loss::Kind;

/// Most messages behind one that stays that are read at once.
const BEHIND_MESSAGES_MAX: usize = 4096;

/// A datagram socket.
pub struct Inlet {
    socket: OwnedFd,
    transport: Transport,
    /// Where clients find it.
    pub(super) path: PathBuf,
    /// The name under which the manager keeps it, if not as that of a socket unit.
    pub(super) kept_as: Option<String>,
    /// The kernel refuses messages with descriptors for now.
    pub(super) refuses: bool,
    /// Bytes at its front that stay, with what was read of those behind; it is empty behind them.
    stays: Option<usize>,
    /// Whose message stays.
    pub(super) stays_of: u32,
    /// So many at the front are taken one by one: the last daemon or this one may have looked at them, and what is
    /// empty is not shown again.
    unseen: usize,
}

/// What is at the front of a socket.
#[derive(Debug)]
enum Front {
    /// Nothing that can be looked at.
    Nothing,
    /// A message without descriptors.
    Plain,
    /// One with descriptors.
    Offered(Received),
}

impl Front {
    fn of(looked: warren_sys::Result<Received>) -> Front {
        match looked {
            Ok(seen) if seen.lost_fds => Front::Offered(seen),
            Ok(_) => Front::Plain,
            Err(_) => Front::Nothing,
        }
    }
}

/// What a look at a socket led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It is empty for now.
    Drained,
    /// It may have more.
    More,
    /// So many at its front must be taken one by one; none of them has descriptors if they are `plain`.
    Singly { count: usize, plain: bool },
}

/// Room for what a turn takes, used again and again.
#[derive(Default)]
pub struct ReceiveBuffers {
    batch: Batch,
    bytes: Vec<u8>,
    keys: Vec<Key>,
    /// Where each message ends in `bytes`, who sent it, and when it was there.
    messages: Vec<(usize, Arc<Origin>, Moment)>,
}

impl ReceiveBuffers {
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
    pub fn new(socket: OwnedFd, transport: Transport, path: PathBuf) -> Inlet {
        let _ = fdpass::pass_credentials_alone(socket.as_fd());
        if transport == Transport::Syslog {
            let _ = fdpass::refuse_fds(socket.as_fd());
        }
        Inlet {
            socket,
            transport,
            path,
            kept_as: None,
            refuses: false,
            stays: None,
            stays_of: u32::MAX,
            unseen: BATCH_MESSAGES_MAX,
        }
    }

    /// Whether there is a message at its front that cannot be let go of, so that nothing is taken from it.
    pub fn is_stuck(&self) -> bool {
        self.stays.is_some()
    }

    /// Goes on with another socket, and gives the old one.
    pub fn replace(&mut self, socket: OwnedFd) -> OwnedFd {
        let _ = fdpass::pass_credentials_alone(socket.as_fd());
        self.refuses = fdpass::refuse_fds(socket.as_fd()).is_ok();
        (self.stays, self.unseen) = (None, BATCH_MESSAGES_MAX);
        std::mem::replace(&mut self.socket, socket)
    }

    /// The kernel takes messages with descriptors for it again, if it ever does.
    pub fn allow_files(&mut self) {
        if self.transport == Transport::Journal {
            let _ = fdpass::allow_fds(self.socket.as_fd());
        }
        self.refuses = false;
    }

    /// Reads what is behind a message that stays, and leaves it there too. What has descriptors is lost.
    pub fn read_behind(
        &mut self,
        buffer: &mut [u8],
        core: &mut Core,
        mut learn: impl FnMut(&mut Core),
    ) {
        let Some(mut begin) = self.stays else { return };
        let socket = self.socket.as_fd();
        for _ in 0..BEHIND_MESSAGES_MAX {
            if core.is_full() {
                break;
            }
            learn(core);
            let _ = fdpass::pass_pidfds(socket, false);
            let looked =
                fdpass::peek_from(socket, begin).and_then(|()| fdpass::peek_plain(socket, &mut []));
            // The end of a socket that takes no more is nobody's.
            let Some(seen) = looked.ok().filter(|seen| seen.credentials.is_some()) else { break };
            match (seen.lost_fds, seen.bytes) {
                (true, _) => self.lose(&seen, (Kind::Descriptors, ""), core),
                // It is shown once, and says nothing.
                (false, 0) => {}
                _ => {
                    // Without, senders that are gone have no unit.
                    let _ = fdpass::pass_pidfds(socket, true);
                    let _ = fdpass::peek_from(socket, begin);
                    let looked = fdpass::peek(socket, buffer, &mut Vec::new());
                    let Ok(received) = looked else { break };
                    self.put(received, buffer, core);
                }
            }
            begin += seen.bytes;
        }
        let _ = fdpass::pass_pidfds(socket, false);
        self.stays = Some(begin);
    }

    /// To be watched.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Takes what is there, up to the bound of a turn; true when there may be more. `learn` is
    /// called before a sender is looked up: who tells of units may have said something.
    pub fn read(
        &mut self,
        (taken, buffer): (&mut ReceiveBuffers, &mut [u8]),
        core: &mut Core,
        learn: impl FnMut(&mut Core),
    ) -> bool {
        if core.is_full() || self.is_stuck() {
            return !self.is_stuck();
        }
        let mut turn = match self.unseen {
            0 => Turn::More,
            count => Turn::Singly { count, plain: false },
        };
        while turn == Turn::More
            && taken.messages.len() < TURN_MESSAGES_MAX
            && taken.bytes.len() < TURN_BYTES_MAX
        {
            turn = self.take_batch(taken, core);
        }
        taken.put(self.transport, core);
        if let Turn::Singly { count, plain } = turn {
            self.read_singly((count, plain), buffer, core, learn);
        }
        turn != Turn::Drained && !self.is_stuck()
    }

    /// Takes the ordinary messages at the front of the socket.
    fn take_batch(&self, taken: &mut ReceiveBuffers, core: &mut Core) -> Turn {
        let ReceiveBuffers { batch, bytes, keys, messages } = taken;
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
        // What is cut is shown in parts, so that there are fewer messages than were seen.
        let plain = batch.seen().iter().all(|seen| !seen.truncated && !seen.lost_fds);
        match seen {
            _ if ordinary < seen => Turn::Singly { count: seen - ordinary, plain },
            BATCH_MESSAGES_MAX => Turn::More,
            _ => Turn::Drained,
        }
    }

    /// Who sent a message, if it is whole, without descriptors, and its sender is known.
    fn known(&self, seen: &Received, core: &mut Core, now: Moment) -> Option<Arc<Origin>> {
        let sender = seen.credentials.filter(|_| is_ordinary(seen))?;
        core.senders.known(self.transport, sender, &core.units, now.monotonic_us)
    }

    /// Takes so many, or all there are, unless one of them was slow to go: what follows it is taken in the next turn.
    fn read_singly(
        &mut self,
        (count, plain): (usize, bool),
        buffer: &mut [u8],
        core: &mut Core,
        mut learn: impl FnMut(&mut Core),
    ) {
        if !plain {
            let _ = fdpass::peek_at_front(self.socket.as_fd());
        }
        // Without, senders that are gone have no unit.
        let _ = fdpass::pass_pidfds(self.socket.as_fd(), true);
        let (mut left, mut bytes) = (count, 0);
        while left > 0 && bytes < TURN_BYTES_MAX {
            learn(core);
            let taken = match self.front(plain) {
                Front::Nothing => {
                    left = 0;
                    break;
                }
                Front::Plain => self.read_one(buffer, core),
                Front::Offered(seen) => self.take_offered(&seen, core),
            };
            // It may still be there.
            let Some(taken) = taken else { break };
            bytes += taken;
            left -= 1;
        }
        let _ = fdpass::pass_pidfds(self.socket.as_fd(), false);
        self.unseen = match fdpass::start_peeking(self.socket.as_fd()) {
            Ok(()) => left,
            Err(_) => BATCH_MESSAGES_MAX,
        };
    }

    /// What is at the front; of what is known to be `plain` nothing is asked.
    fn front(&self, plain: bool) -> Front {
        if plain {
            return Front::Plain;
        }
        let socket = self.socket.as_fd();
        let _ = fdpass::pass_pidfds(socket, false);
        let looked = fdpass::peek_plain(socket, &mut []);
        let _ = fdpass::pass_pidfds(socket, true);
        Front::of(looked)
    }

    /// Takes a message without descriptors, with all that belongs to it: how many bytes, if there is one.
    fn read_one(&self, buffer: &mut [u8], core: &mut Core) -> Option<usize> {
        let received = fdpass::recv(self.socket.as_fd(), buffer, &mut Vec::new(), false).ok()?;
        let bytes = received.bytes;
        self.put(received, buffer, core);
        Some(bytes)
    }

    /// Deals with a message without descriptors.
    fn put(&self, received: Received, buffer: &[u8], core: &mut Core) {
        let sender = (received.credentials.unwrap_or(UNKNOWN), received.pidfd);
        let data = &buffer[..received.bytes.min(buffer.len())];
        let now = Moment::now();
        let origin = core.senders.origin(self.transport, sender, &core.units, now.monotonic_us);
        match received.truncated {
            true => core.lose(&origin, (Kind::Datagram, "", 1)),
            false => core.datagram(self.transport, data, &origin, now),
        }
    }

    /// Takes a message with descriptors: how many bytes were read, unless it stays where it is.
    fn take_offered(&mut self, seen: &Received, core: &mut Core) -> Option<usize> {
        let sender = seen.credentials.unwrap_or(UNKNOWN);
        let may_be_file = self.transport == Transport::Journal && seen.bytes == 0;
        let has_room = may_be_file && core.offered.make_room(sender.uid);
        // Root's files may be any.
        let verdict = match has_room && sender.uid == 0 {
            true => Verdict::Memory,
            false => core.letting_go.discard(self.socket.as_fd(), sender.uid, has_room),
        };
        if verdict == Verdict::Memory
            && let Some((file, pidfd)) = self.file(sender.uid, core)
        {
            // It is open here, so that nothing is closed with the message.
            let _ = fdpass::discard(self.socket.as_fd());
            let (now, sender) = (Moment::now(), (sender, pidfd));
            let uid = sender.0.uid;
            let origin = core.senders.origin(self.transport, sender, &core.units, now.monotonic_us);
            return Some(core.message_file(uid, file, origin, now));
        }
        let gone = match verdict {
            Verdict::Memory => core.letting_go.discard(self.socket.as_fd(), sender.uid, false),
            other => other,
        };
        if gone == Verdict::Stays {
            (self.stays, self.stays_of) = (Some(0), sender.uid);
            return None;
        }
        let lost = match may_be_file {
            true if !has_room => (Kind::File, "its sender has too many unread files"),
            true if verdict == Verdict::Gone => (Kind::File, "it is not a memfd"),
            _ => (Kind::Descriptors, ""),
        };
        self.lose(seen, lost, core);
        Some(seen.bytes)
    }

    fn lose(&self, seen: &Received, (kind, why): (Kind, &str), core: &mut Core) {
        let sender = seen.credentials.unwrap_or(UNKNOWN);
        let origin = core.senders.unsure(self.transport, sender, &core.units);
        core.lose(&origin, (kind, why, 1));
    }

    /// The only descriptor of the message at the front, and who sent it for sure.
    fn file(&self, uid: u32, core: &mut Core) -> Option<(OwnedFd, Option<OwnedFd>)> {
        let mut fds = Vec::new();
        let seen = fdpass::peek_few(self.socket.as_fd(), &mut [], &mut fds).ok()?;
        match fds.len() == 1 && !seen.lost_fds {
            true => fds.pop().map(|file| (file, seen.pidfd)),
            false => {
                core.offered.close(uid, fds);
                None
            }
        }
    }
}

/// Who sent what the kernel names no sender of.
const UNKNOWN: Credentials = Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX };

/// Whether it can be taken in a batch.
fn is_ordinary(seen: &Received) -> bool {
    seen.bytes > 0 && !seen.truncated && !seen.lost_fds
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// What comes between a look at an empty socket and taking from it has not been looked at.
    #[test]
    fn an_empty_socket_is_not_one_whose_message_has_no_descriptors() {
        let (sender, receiver) = UnixDatagram::pair().expect("sockets");
        let inlet = Inlet::new(receiver.into(), Transport::Journal, PathBuf::new());
        fdpass::peek_at_front(inlet.socket().as_fd()).expect("known");
        let front = || inlet.front(false);
        assert!(matches!(front(), Front::Nothing));
        sender.send(b"MESSAGE=x").expect("room");
        assert!(matches!(front(), Front::Plain));
        fdpass::discard(inlet.socket().as_fd());
        assert!(matches!(front(), Front::Nothing));
        fdpass::send(sender.as_fd(), b"", &[sender.as_fd()]).expect("room");
        // It is shown again, though it is empty.
        assert!(matches!((front(), front()), (Front::Offered(_), Front::Offered(_))));
        fdpass::discard(inlet.socket().as_fd());
        assert!(matches!(front(), Front::Nothing));
    }
}
