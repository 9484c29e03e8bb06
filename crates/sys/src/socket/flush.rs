//! What waits in a socket is thrown away: systemd.socket(5), `FlushPending=`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::fdpass::{hang_up, take};
use crate::file::set_nonblocking;
use crate::signal::Interrupting;
use crate::socket::{accept, is_any_socket, is_listening, is_readable};
use crate::waits::LINGER_MAX;

/// Connections, datagrams or pieces of a stream that are thrown away at a time.
const FLUSHED_MAX: usize = 65_536;

/// The same of descriptors: as many as the queue of a socket has unless somebody said otherwise (listen(2)).
const FLUSHED_FDS_MAX: usize = 4096;

/// Bytes that are taken at a time.
const PIECE_BYTES: usize = 4096;

/// FlushPending=: takes what waits out of a socket or FIFO: connections where it listens, which are hung up, else
/// datagrams or bytes. At most 65,536 of them, and 4,096 descriptors. Returned is what is open of it: closing that may
/// take as long as its owner likes. Waits for nobody, but for 100 ms if somebody who shares the socket has it wait again
/// meanwhile.
pub fn flush(socket: BorrowedFd<'_>) -> Vec<OwnedFd> {
    let _ = set_nonblocking(socket, true);
    let _interrupting = Interrupting::each(LINGER_MAX);
    let kind = match is_listening(socket) {
        true => Pending::Connections,
        false if is_any_socket(socket) => Pending::Messages,
        false => Pending::Bytes,
    };
    let (mut scrap, mut bytes) = (Vec::new(), [0; PIECE_BYTES]);
    for _ in 0..FLUSHED_MAX {
        let has_room = scrap.len() < FLUSHED_FDS_MAX;
        if !has_room || !is_readable(socket) || !kind.take_one(socket, &mut bytes, &mut scrap) {
            break;
        }
    }
    scrap
}

/// What waits in a socket.
enum Pending {
    Connections,
    Messages,
    Bytes,
}

impl Pending {
    /// Takes one; whether there may be more.
    fn take_one(&self, from: BorrowedFd<'_>, bytes: &mut [u8], scrap: &mut Vec<OwnedFd>) -> bool {
        match self {
            Pending::Connections => accept(from).is_ok_and(|connection| {
                connection.iter().for_each(|connection| hang_up(connection.as_fd()));
                scrap.extend(connection);
                true
            }),
            Pending::Messages => take(from, bytes, scrap).is_ok(),
            Pending::Bytes => rustix::io::read(from, bytes).is_ok_and(|count| count > 0),
        }
    }
}
