//! Closing fds. Process 1 waits for nobody: what may wait is closed by other processes, which may be held up by a
//! server for ever, or by a socket for a moment ([`warren_sys::waits`]). There are a few of them at most; what there
//! is none for waits open. Sockets that keep an address have processes of their own: whoever is to have it next waits
//! for them alone. So have the connections of each listening Unix socket: whoever can connect to one may leave in it what
//! is never closed, and holds up nobody who connects to another, or over a network.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_sys::socket::is_any_socket;
use warren_sys::waits;

use crate::say::say;

/// Processes that close files, as many that close connections over networks, and as many for sockets that keep an
/// address, at a time: files may hold theirs for ever.
const CLOSERS_MAX: usize = 16;

/// Those that close connections to one Unix socket, and to all.
const CLOSERS_OF_DOOR_MAX: usize = 8;
/// The same to all.
const CLOSERS_OF_DOORS_MAX: usize = 128;

/// No connection is taken from a socket while so many of its own wait to be closed, nor from any while so many of all do:
/// strangers may have sent them.
const WAITING_FEW: usize = 64;
/// The same of all.
const WAITING_MANY: usize = 1024;

/// Whose connection it is: that of a listening socket, by its address.
type DoorKey = u64;

/// What is being closed, and what is to be.
pub struct Closing {
    files: Lane,
    /// Connections over networks, and Unix sockets that nobody connected to.
    connections: Lane,
    doors: Lane,
    addresses: Lane,
    waiting_max: usize,
}

/// Those of one kind, which are counted from 1.
struct Lane {
    closers: Vec<Closer>,
    /// The oldest first.
    waiting: VecDeque<Waiting>,
    /// The number of the newest.
    newest: u64,
    /// Most processes, and of one door.
    closers_max: usize,
    of_door_max: usize,
}

/// A process that closes the one with this number.
struct Closer {
    pid: i32,
    number: u64,
    door: DoorKey,
}

struct Waiting {
    number: u64,
    door: DoorKey,
    fd: OwnedFd,
}

/// The address at which a Unix socket listens, or listened when this connection was taken; 0 of others.
fn door_of(fd: BorrowedFd<'_>) -> DoorKey {
    // FNV-1a: it allocates nothing, and who makes two paths alike shares their processes.
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    warren_sys::socket::with_unix_name(fd, |name| name.iter().fold(BASIS, hash)).unwrap_or(0)
}

impl Closing {
    /// Nothing, with room for so many of each kind.
    pub fn new(waiting_max: usize) -> Closing {
        let lane = |closers_max, of_door_max| Lane {
            closers: Vec::with_capacity(closers_max),
            waiting: VecDeque::with_capacity(waiting_max),
            newest: 0,
            closers_max,
            of_door_max,
        };
        let plain = || lane(CLOSERS_MAX, CLOSERS_MAX);
        Closing {
            files: plain(),
            connections: plain(),
            doors: lane(CLOSERS_OF_DOORS_MAX, CLOSERS_OF_DOOR_MAX),
            addresses: plain(),
            waiting_max,
        }
    }

    /// Closes an fd, or has it closed as soon as may be.
    pub fn close(&mut self, fd: OwnedFd) {
        let (lane, door) = match is_any_socket(fd.as_fd()) {
            true if waits::keeps_address(fd.as_fd()) => (&mut self.addresses, 0),
            true => match door_of(fd.as_fd()) {
                0 => (&mut self.connections, 0),
                door => (&mut self.doors, door),
            },
            false => (&mut self.files, 0),
        };
        lane.newest += 1;
        let next = Waiting { number: lane.newest, door, fd };
        if lane.has_room(door) || !waits::may_wait(next.fd.as_fd()) {
            return lane.begin(next);
        }
        match lane.waiting.len() < self.waiting_max {
            true => lane.waiting.push_back(next),
            // The store was full of what may wait: it stays open.
            false => std::mem::forget(next.fd),
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lanes().map(|lane| lane.waiting.len()).sum()
    }

    /// What waits.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lanes().flat_map(|lane| &lane.waiting).map(|waiting| waiting.fd.as_fd())
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        [&self.files, &self.connections, &self.doors, &self.addresses].into_iter()
    }

    /// Whether many connections to a listening socket wait, or so many to all that it makes no difference.
    pub fn is_behind(&self, listener: BorrowedFd<'_>) -> bool {
        let door = door_of(listener);
        let lane = if door == 0 { &self.connections } else { &self.doors };
        let own = lane.waiting.iter().filter(|waiting| waiting.door == door).count();
        own >= WAITING_FEW || lane.waiting.len() >= WAITING_MANY
    }

    /// A moment, for [`Closing::has_freed`]: what was to be closed before it.
    pub fn moment(&self) -> u64 {
        self.addresses.newest
    }

    /// Whether all sockets that were to be closed before that moment have given up their addresses.
    pub fn has_freed(&self, moment: u64) -> bool {
        self.addresses.oldest().is_none_or(|oldest| oldest > moment)
    }

    /// A child has ended; false if it was none of those that close something.
    pub fn ended(&mut self, pid: i32) -> bool {
        self.files.ended(pid)
            || self.connections.ended(pid)
            || self.doors.ended(pid)
            || self.addresses.ended(pid)
    }
}

impl Lane {
    fn has_room(&self, door: DoorKey) -> bool {
        let own = self.closers.iter().filter(|closer| closer.door == door).count();
        self.closers.len() < self.closers_max && own < self.of_door_max
    }

    fn begin(&mut self, Waiting { number, door, fd }: Waiting) {
        match waits::close(fd, false) {
            Ok(pid) => self.closers.extend(pid.map(|pid| Closer { pid, number, door })),
            Err(error) => say(&format!("cannot close a stored file descriptor: {error}")),
        }
    }

    /// The number of the oldest that is not closed.
    fn oldest(&self) -> Option<u64> {
        let waiting = self.waiting.front().map(|waiting| waiting.number);
        self.closers.iter().map(|closer| closer.number).chain(waiting).min()
    }

    fn ended(&mut self, pid: i32) -> bool {
        let Some(at) = self.closers.iter().position(|closer| closer.pid == pid) else {
            return false;
        };
        self.closers.swap_remove(at);
        while let Some(at) = self.waiting.iter().position(|waiting| self.has_room(waiting.door))
            && let Some(next) = self.waiting.remove(at)
        {
            self.begin(next);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use warren_sys::process::{Wait, wait};

    /// Waits for a closer; whether there was one.
    fn reap(closing: &mut Closing) -> bool {
        let Some(pid) = closing.connections.closers.first().map(|closer| closer.pid) else {
            return false;
        };
        wait(Wait::Pid(pid), true).expect("our child");
        assert!(closing.ended(pid) && !closing.ended(pid));
        true
    }

    #[test]
    fn a_few_processes_close_what_may_wait_and_the_rest_has_its_turn() {
        const MANY: usize = 3 * CLOSERS_MAX;
        let mut closing = Closing::new(MANY);
        let (mut peers, mut quiet) = (Vec::new(), Vec::new());
        for _ in 0..MANY {
            let (near, far) = UnixStream::pair().expect("a pair");
            std::io::Write::write_all(&mut &far, b"x").expect("there is room");
            closing.close(near.into());
            peers.push(far);
            let (near, far) = UnixStream::pair().expect("a pair");
            closing.close(near.into());
            quiet.push(far);
        }
        assert_eq!(
            (closing.connections.closers.len(), closing.waiting()),
            (CLOSERS_MAX, MANY - CLOSERS_MAX)
        );
        let is_over = |far: &UnixStream| std::io::Write::write(&mut &*far, b"x").is_err();
        assert!(quiet.iter().all(is_over), "what does not wait is closed at once");
        while reap(&mut closing) {}
        assert_eq!(closing.waiting(), 0);
        assert!(peers.iter().all(is_over));
        assert_eq!(
            (closing.connections.closers.capacity(), closing.connections.waiting.capacity()),
            (CLOSERS_MAX, MANY)
        );
    }

    /// A connection to a listening socket in which there is something, and its other side.
    fn connection(path: &std::path::Path) -> (OwnedFd, UnixStream, OwnedFd) {
        let _ = std::fs::remove_file(path);
        let listener = std::os::unix::net::UnixListener::bind(path).expect("a socket");
        let far = UnixStream::connect(path).expect("it listens");
        std::io::Write::write_all(&mut &far, b"x").expect("there is room");
        (listener.accept().expect("somebody waits").0.into(), far, listener.into())
    }

    /// They are never reaped, as if none of them came back.
    #[test]
    fn connections_to_one_socket_hold_up_none_to_another() {
        let directory = warren_testkit::Scratch::new("closing-doors");
        let mut closing = Closing::new(4096);
        let path = directory.path("one");
        let mut kept = Vec::new();
        for _ in 0..CLOSERS_OF_DOOR_MAX + WAITING_FEW {
            let (near, far, listener) = connection(&path);
            closing.close(near);
            kept.push((far, listener));
        }
        assert_eq!(
            (closing.doors.closers.len(), closing.waiting()),
            (CLOSERS_OF_DOOR_MAX, WAITING_FEW)
        );
        let (_, listener) = kept.last().expect("there are some");
        assert!(closing.is_behind(listener.as_fd()));
        let (near, _far, other) = connection(&directory.path("other"));
        assert!(!closing.is_behind(other.as_fd()));
        closing.close(near);
        assert_eq!(closing.doors.closers.len(), CLOSERS_OF_DOOR_MAX + 1, "it is closed at once");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        assert!(!closing.is_behind(tcp.as_fd()));
        while let Some(pid) = closing.doors.closers.first().map(|closer| closer.pid) {
            wait(Wait::Pid(pid), true).expect("our child");
            assert!(closing.ended(pid));
        }
        assert_eq!(closing.waiting(), 0);
    }
}
