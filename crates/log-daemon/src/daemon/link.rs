//! The socket to the manager; [`crate::input::handover`] says what is said.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_sys::fdpass::{self, Credentials};
use warren_wire::log_link::DaemonWord;

use crate::input::handover::{Packet, parse};

/// Largest packet that is taken, bytes.
const PACKET_BYTES_MAX: usize = 128 << 10;

/// The manager is told of streams that have ended together: it has to be woken for it, and init by
/// it. Until then a stream's file descriptor is kept for nothing, µs.
const ENDED_WAIT_US: u64 = 100_000;

/// So many are told of at once.
const ENDED_WAITING_MAX: usize = 64;

/// The link.
pub struct Link {
    socket: OwnedFd,
    buffer: Vec<u8>,
    ended: Vec<u64>,
    /// When the first of them is told of at the latest, CLOCK_MONOTONIC, µs.
    due_us: Option<u64>,
}

/// What came over it.
pub struct Received {
    /// What it says.
    pub packets: Vec<Packet>,
    /// The stream of [`Packet::Stream`].
    pub fd: Option<OwnedFd>,
    /// Who said it.
    pub sender: Credentials,
    /// What of it was left out.
    pub faults: Vec<String>,
}

impl Link {
    /// Over the socket that the manager gave this daemon.
    pub fn new(socket: OwnedFd) -> Link {
        Link { socket, buffer: vec![0; PACKET_BYTES_MAX], ended: Vec::new(), due_us: None }
    }

    /// To be watched.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next packet; `None` when there is none.
    pub fn receive(&mut self) -> Option<Received> {
        let mut fds = Vec::new();
        let received = fdpass::recv(self.socket.as_fd(), &mut self.buffer, &mut fds, false).ok()?;
        if received.bytes == 0 && !received.truncated {
            return None;
        }
        let unknown = Credentials { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let sender = received.credentials.unwrap_or(unknown);
        let packet = self.buffer.get(..received.bytes).filter(|_| !received.truncated);
        let (packets, faults) = match packet {
            Some(packet) => parse(packet),
            None => {
                (Vec::new(), vec!["Ignored a message of the manager: it was too large".to_owned()])
            }
        };
        Some(Received { packets, fd: fds.pop(), sender, faults })
    }

    /// Asks for every stream that there is.
    pub fn hello(&self) {
        let _ = self.say(DaemonWord::Hello);
    }

    /// These streams have ended: the manager need not keep them, and is told so soon.
    pub fn ended(&mut self, keys: &[u64], now_us: u64) {
        self.ended.extend_from_slice(keys);
        if !keys.is_empty() {
            self.due_us.get_or_insert(now_us + ENDED_WAIT_US);
        }
        if self.ended.len() >= ENDED_WAITING_MAX || self.due_us.is_some_and(|due| due <= now_us) {
            self.tell_ended(now_us);
        }
    }

    /// When there is something to tell.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// Tells of all streams that have ended; of those for which there is no room, later.
    pub fn tell_ended(&mut self, now_us: u64) {
        let told = self.ended.iter().take_while(|key| self.say(DaemonWord::Ended(**key))).count();
        self.ended.drain(..told);
        self.due_us = (!self.ended.is_empty()).then_some(now_us + ENDED_WAIT_US);
    }

    /// Whether there was room. What the manager misses while it is away it hears again when it
    /// hands over what it still has.
    fn say(&self, word: DaemonWord) -> bool {
        fdpass::try_send(self.socket.as_fd(), word.write().as_bytes(), &[]).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the manager's end has in it.
    fn said(socket: &OwnedFd) -> Vec<String> {
        let (mut buffer, mut fds) = ([0; 64], Vec::new());
        std::iter::from_fn(|| {
            let received = fdpass::recv(socket.as_fd(), &mut buffer, &mut fds, false).ok()?;
            Some(String::from_utf8_lossy(&buffer[..received.bytes]).into_owned())
        })
        .collect()
    }

    #[test]
    fn streams_that_end_are_told_of_together() {
        let (ours, theirs) = fdpass::seqpacket_pair(true).expect("sockets");
        let mut link = Link::new(ours);
        link.ended(&[3], 1000);
        link.ended(&[4], 2000);
        assert_eq!((said(&theirs), link.due_us()), (vec![], Some(1000 + ENDED_WAIT_US)));
        link.ended(&[], 1000 + ENDED_WAIT_US);
        assert_eq!(
            (said(&theirs), link.due_us()),
            (vec!["ENDED=3".into(), "ENDED=4".into()], None)
        );
        let many: Vec<u64> = (0..ENDED_WAITING_MAX as u64).collect();
        link.ended(&many, 0);
        assert_eq!((said(&theirs).len(), link.due_us()), (ENDED_WAITING_MAX, None));
    }

    #[test]
    fn what_finds_no_room_is_told_later() {
        let (ours, theirs) = fdpass::seqpacket_pair(true).expect("sockets");
        let mut link = Link::new(ours);
        let many: Vec<u64> = (0..100_000).collect();
        link.ended(&many, 0);
        assert_eq!(link.due_us(), Some(ENDED_WAIT_US), "the socket takes less");
        let mut told = said(&theirs);
        while link.due_us().is_some() {
            link.tell_ended(0);
            told.extend(said(&theirs));
        }
        let expected: Vec<String> = many.iter().map(|key| format!("ENDED={key}")).collect();
        assert!(told == expected, "{} of {}", told.len(), expected.len());
    }
}
