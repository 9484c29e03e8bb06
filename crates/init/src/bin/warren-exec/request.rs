//! Receiving: one packet, or a packet that points to a memfd.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_init::protocol::exec::{LARGE, MANY, REQUEST_BYTES_MAX, SpawnRequest, Sync};
use warren_init::protocol::{PACKET_BYTES_MAX, decode};
use warren_sys::{fdpass, memfd};

/// What came from the socket.
pub enum Incoming {
    /// A process is to be made, with these fds.
    Spawn(SpawnRequest, Vec<OwnedFd>),
    /// A new manager is there.
    Sync(Sync),
    /// A spawn that this helper cannot read but whose id it can.
    Unreadable { id: u64, message: String },
    /// A spawn whose descriptors could not be received: too many are open.
    WithoutFds { id: u64 },
    /// No request at all.
    Garbage(String),
    /// The other side is gone for good.
    End,
}

/// Waits for the next packet. `buffer` has [`PACKET_BYTES_MAX`] bytes.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Incoming {
    let mut fds = Vec::new();
    let received = match fdpass::recv(socket, buffer, &mut fds, true) {
        Ok(r) if r.lost_fds => return without_fds(buffer.get(..r.bytes).unwrap_or_default()),
        Ok(r) if r.truncated => return Incoming::Garbage("packet too large".into()),
        Ok(r) if r.bytes == 0 => return Incoming::End,
        Ok(r) => r,
        Err(e) if e.errno == libc_enobufs() => return Incoming::Garbage(e.to_string()),
        Err(_) => return Incoming::End,
    };
    let packet = buffer.get(..received.bytes).unwrap_or_default();
    match packet {
        [MANY] => many(fds, buffer),
        packet => whole(packet, fds),
    }
}

fn whole(packet: &[u8], fds: Vec<OwnedFd>) -> Incoming {
    if packet == [LARGE] { large(fds) } else { understand(packet, fds) }
}

/// The manager has sent everything, and its end, before it sent the socket.
fn many(mut fds: Vec<OwnedFd>, buffer: &mut [u8]) -> Incoming {
    let Some(way) = fds.pop() else {
        return Incoming::Garbage("a request with many files lacks its socket".into());
    };
    let mut all = Vec::new();
    let packet = match fdpass::recv(way.as_fd(), buffer, &mut all, true) {
        Ok(r) if r.lost_fds => return without_fds(buffer.get(..r.bytes).unwrap_or_default()),
        Ok(r) if !r.truncated => buffer.get(..r.bytes).unwrap_or_default(),
        _ => return Incoming::Garbage("a request with many files lacks its packet".into()),
    };
    loop {
        let mut byte = [0; 1];
        match fdpass::recv(way.as_fd(), &mut byte, &mut all, true) {
            Ok(r) if r.lost_fds => return without_fds(packet),
            Ok(r) if r.bytes == 0 => return whole(packet, all),
            Ok(_) => {}
            Err(e) => return Incoming::Garbage(e.to_string()),
        }
    }
}

/// What asks for nothing but the id can be answered by it; with the memfd of a large request that is
/// lost too.
fn without_fds(packet: &[u8]) -> Incoming {
    match SpawnRequest::id_of(packet).filter(|_| packet != [LARGE]) {
        Some(id) => Incoming::WithoutFds { id },
        None => Incoming::Garbage("too many files are open to receive a request".into()),
    }
}

/// Out of memory for the message: the next may fit.
fn libc_enobufs() -> i32 {
    105
}

fn large(mut fds: Vec<OwnedFd>) -> Incoming {
    if fds.is_empty() {
        return Incoming::Garbage("a large request lacks its memfd".into());
    }
    let payload = fds.remove(0);
    if !memfd::is_sealed(&payload) {
        return Incoming::Garbage("the memfd of a large request is not sealed".into());
    }
    match memfd::read_all(payload.as_fd(), REQUEST_BYTES_MAX) {
        Ok(content) => understand(&content, fds),
        Err(e) => Incoming::Garbage(e.to_string()),
    }
}

fn understand(packet: &[u8], fds: Vec<OwnedFd>) -> Incoming {
    if let Some(sync) = Sync::parse(packet) {
        return Incoming::Sync(sync);
    }
    match decode(packet) {
        Ok(request) => Incoming::Spawn(request, fds),
        Err(error) => match SpawnRequest::id_of(packet) {
            Some(id) => Incoming::Unreadable { id, message: error.to_string() },
            None => Incoming::Garbage(error.to_string()),
        },
    }
}

/// The fixed room for one packet.
pub fn buffer() -> Vec<u8> {
    vec![0; PACKET_BYTES_MAX]
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_init::protocol::encode;

    #[track_caller]
    fn check(packet: &[u8], expected: &str) {
        let text = match understand(packet, Vec::new()) {
            Incoming::Spawn(s, _) => format!("spawn {}", s.id),
            Incoming::Sync(Sync(n)) => format!("sync {n}"),
            Incoming::Unreadable { id, .. } => format!("unreadable {id}"),
            Incoming::WithoutFds { id } => format!("without fds {id}"),
            Incoming::Garbage(_) => "garbage".into(),
            Incoming::End => "end".into(),
        };
        assert_eq!(text, expected);
    }

    #[test]
    fn a_damaged_spawn_still_has_its_id() {
        let request = SpawnRequest { id: 9000, exec: Box::default() };
        let mut packet = encode(&request).expect("small");
        check(&packet, "spawn 9000");
        packet.push(1);
        check(&packet, "unreadable 9000");
        check(&packet[..5], "unreadable 9000");
        check(&packet[..2], "garbage");
        check(b"hello", "garbage");
    }

    #[test]
    fn the_first_question_is_understood_in_every_version() {
        check(&Sync(3).packet(), "sync 3");
        check(&Sync(3).packet()[..8], "garbage");
    }
}
