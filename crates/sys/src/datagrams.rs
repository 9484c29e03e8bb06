//! Many datagrams with two system calls: [`Batch::look`] reads some without taking them, and
//! [`take`] takes as many as the caller wants. So a receiver can leave one in the socket that it must
//! take in another way ([`crate::fdpass::recv`], which makes file descriptors), and those who wait
//! for room in the socket are woken once for a batch and not for each message.
//!
//! The socket's place of looking (socket(7), `SO_PEEK_OFF`) counts bytes over all messages in it. It
//! is right as long as everything that was looked at is taken before the next look; otherwise
//! [`crate::fdpass::start_peeking`] sets it back. An empty datagram is shown once only.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::{Result, check};
use crate::fdpass::{Received, take_control};

/// Most datagrams of a batch. The kernel finds the place of looking by walking over what was looked
/// at, so that many cost more than they save.
pub const BATCH_MESSAGES_MAX: usize = 32;

/// Room for a datagram, bytes. What is longer is shown in parts, of which the first is cut.
pub const BATCH_MESSAGE_BYTES: usize = 16 << 10;

/// SCM_CREDENTIALS alone: the kernel makes no file descriptor that has no room.
const CONTROL_BYTES: usize = 32;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([MaybeUninit<u8>; CONTROL_BYTES]);

/// Room for a batch, used again and again.
pub struct Batch {
    room: Vec<u8>,
    controls: [Control; BATCH_MESSAGES_MAX],
    seen: Vec<Received>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            room: vec![0; BATCH_MESSAGES_MAX * BATCH_MESSAGE_BYTES],
            controls: [Control([MaybeUninit::zeroed(); CONTROL_BYTES]); BATCH_MESSAGES_MAX],
            seen: Vec::with_capacity(BATCH_MESSAGES_MAX),
        }
    }
}

impl Batch {
    /// Reads the next datagrams without taking them and without blocking; they stay here until the
    /// next look. Says how many: none means that the socket is empty.
    pub fn look(&mut self, socket: BorrowedFd<'_>) -> Result<usize> {
        self.seen.clear();
        let mut parts = empty_parts();
        for (part, room) in parts.iter_mut().zip(self.room.chunks_exact_mut(BATCH_MESSAGE_BYTES)) {
            *part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        }
        let mut messages = empty_messages();
        for ((message, part), control) in
            messages.iter_mut().zip(&mut parts).zip(&mut self.controls)
        {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        let count = match receive(socket, &mut messages, libc::MSG_PEEK) {
            Err(e) if e.is_would_block() => 0,
            other => other?,
        };
        for message in &messages[..count] {
            let (credentials, _) = take_control(&message.msg_hdr, &mut Vec::new());
            let truncated = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let bytes = message.msg_len as usize;
            let lost_fds = message.msg_hdr.msg_flags & libc::MSG_CTRUNC != 0;
            self.seen.push(Received {
                bytes,
                fds: 0,
                credentials,
                pidfd: None,
                truncated,
                lost_fds,
            });
        }
        Ok(count)
    }

    /// What was seen at the last look: length, credentials, whether it was cut, and whether fds came
    /// with it, where the socket reports nothing else ([`crate::fdpass::pass_credentials_alone`]).
    pub fn seen(&self) -> &[Received] {
        &self.seen
    }

    /// The bytes of one that was seen.
    ///
    /// # Panics
    /// If there were not so many.
    pub fn data(&self, at: usize) -> &[u8] {
        &self.room[at * BATCH_MESSAGE_BYTES..][..self.seen[at].bytes]
    }
}

/// Takes so many datagrams, at most [`BATCH_MESSAGES_MAX`], and throws them away; says how many there
/// were.
pub fn take(socket: BorrowedFd<'_>, count: usize) -> Result<usize> {
    let mut messages = empty_messages();
    let count = count.min(BATCH_MESSAGES_MAX);
    receive(socket, &mut messages[..count], 0)
}

fn empty_parts() -> [libc::iovec; BATCH_MESSAGES_MAX] {
    [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_MESSAGES_MAX]
}

fn empty_messages() -> [libc::mmsghdr; BATCH_MESSAGES_MAX] {
    // SAFETY: all-zero message headers are valid: no name, no buffers.
    unsafe { std::mem::zeroed() }
}

fn receive(socket: BorrowedFd<'_>, messages: &mut [libc::mmsghdr], flags: i32) -> Result<usize> {
    debug_assert_eq!(size_of::<Control>(), CONTROL_BYTES);
    if messages.is_empty() {
        return Ok(0);
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | flags;
    loop {
        // SAFETY: each header points to buffers that the caller keeps alive over this call, or to
        // none; there is no timeout.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as _,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        match check("recvmmsg", count as _) {
            Err(e) if e.errno == libc::EINTR => continue,
            Err(e) => return Err(e),
            Ok(count) => return Ok(count as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdpass::{pass_credentials_alone, recv, send, start_peeking};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    fn pair() -> (UnixDatagram, UnixDatagram) {
        let (sender, receiver) = UnixDatagram::pair().expect("a pair");
        pass_credentials_alone(receiver.as_fd()).expect("allowed");
        start_peeking(receiver.as_fd()).expect("allowed");
        (sender, receiver)
    }

    fn shown(batch: &Batch) -> String {
        let one = |(at, seen): (usize, &Received)| {
            let cut = if seen.truncated { "+" } else { "" };
            format!("{}{cut}", batch.data(at).first().map_or("-".into(), |b| b.to_string()))
        };
        batch.seen().iter().enumerate().map(one).collect::<Vec<_>>().join(" ")
    }

    /// Sends datagrams of these lengths, numbered by their bytes, then plays `l` (look), `tN` (take
    /// N), `r` (receive one whole) and `0` (look from the front).
    #[track_caller]
    fn check_script(lengths: &[usize], script: &str, expected: &str) {
        let (sender, receiver) = pair();
        for (at, &length) in lengths.iter().enumerate() {
            send(sender.as_fd(), &vec![at as u8; length], &[]).expect("room");
        }
        let (mut batch, mut said, mut data) = (Batch::default(), Vec::new(), vec![0; 1 << 17]);
        for step in script.split(' ') {
            said.push(match step.split_at(1) {
                ("l", _) => {
                    batch.look(receiver.as_fd()).expect("it can be looked at");
                    shown(&batch)
                }
                ("t", count) => {
                    let count = count.parse().expect("a number");
                    format!("took {}", take(receiver.as_fd(), count).expect("there are some"))
                }
                ("r", _) => {
                    let got = recv(receiver.as_fd(), &mut data, &mut Vec::new(), false);
                    got.map_or("none".into(), |got| format!("{}x{}", data[0], got.bytes))
                }
                _ => {
                    start_peeking(receiver.as_fd()).expect("allowed");
                    "front".into()
                }
            });
        }
        assert_eq!(said.join(", "), expected, "{lengths:?} {script}");
    }

    #[test]
    fn what_was_looked_at_is_taken() {
        check_script(&[3, 4, 5], "l t3 l", "0 1 2, took 3, ");
        check_script(&[3, 4, 5], "l t1 r r l", "0 1 2, took 1, 1x4, 2x5, ");
        check_script(&[], "l", "");
        let (most, last) = (vec![1; BATCH_MESSAGES_MAX + 1], BATCH_MESSAGES_MAX);
        let all = (0..last).map(|at| at.to_string()).collect::<Vec<_>>().join(" ");
        let expected = format!("{all}, took {last}, {last}, took 1, ");
        check_script(&most, &format!("l t{last} l t1 l"), &expected);
    }

    #[test]
    fn what_is_long_or_empty_is_shown_as_such() {
        let long = 2 * BATCH_MESSAGE_BYTES + 1;
        check_script(&[1, long, 1], "l t1 r r r", "0 1+ 1+ 1 2, took 1, 1x32769, 2x1, none");
        check_script(
            &[1, long, 1],
            "l t1 r 0 l t1",
            "0 1+ 1+ 1 2, took 1, 1x32769, front, 2, took 1",
        );
        check_script(&[1, 0, 1], "l t1 r r l", "0 - 2, took 1, 0x0, 2x1, ");
        // Why each that was seen is taken before the next look.
        check_script(&[0, 1], "l 0 l", "- 1, front, 1");
    }

    #[test]
    fn the_sender_is_known_and_no_descriptor_is_made() {
        let (sender, receiver) = pair();
        send(sender.as_fd(), b"x", &[sender.as_fd()]).expect("room");
        send(sender.as_fd(), b"y", &[]).expect("room");
        let mut batch = Batch::default();
        assert_eq!(batch.look(receiver.as_fd()), Ok(2));
        assert_eq!([0, 1].map(|at| batch.seen()[at].lost_fds), [true, false]);
        let own = std::process::id() as i32;
        assert_eq!(batch.seen()[0].credentials.map(|c| c.pid), Some(own));
        let mut fds = Vec::new();
        let got = recv(receiver.as_fd(), &mut [0; 4], &mut fds, false).expect("it is still there");
        assert_eq!((got.bytes, fds.len()), (1, 1));
    }
}
