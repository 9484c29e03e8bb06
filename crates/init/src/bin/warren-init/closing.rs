//! Closing fds. Process 1 waits for nobody: what may wait is closed by other processes, which may be held up by a
//! server for ever, or by a socket for a moment ([`warren_sys::waits`]). There are a few of them at most; what there
//! is none for waits open. Sockets that keep an address have processes of their own: whoever is to have it next waits
//! for them alone.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_sys::socket::is_any_socket;
use warren_sys::waits;

use crate::say;

/// Processes that close files, as many that close connections, and as many for sockets that keep an address, at a time:
/// files may hold theirs for ever.
const CLOSERS_MAX: usize = 16;

/// No connection is taken while so many wait to be closed: strangers may have sent them.
const WAITING_FEW: usize = 256;

/// What is being closed, and what is to be.
pub struct Closing {
    files: Lane,
    connections: Lane,
    addresses: Lane,
    waiting_max: usize,
}

/// Those of one kind, which are counted from 1.
struct Lane {
    closers: Vec<Closer>,
    /// The oldest first.
    waiting: VecDeque<(u64, OwnedFd)>,
    /// The number of the newest.
    newest: u64,
}

/// A process that closes the one with this number.
struct Closer {
    pid: i32,
    number: u64,
}

impl Closing {
    /// Nothing, with room for so many of each kind.
    pub fn new(waiting_max: usize) -> Closing {
        let lane = || Lane {
            closers: Vec::with_capacity(CLOSERS_MAX),
            waiting: VecDeque::with_capacity(waiting_max),
            newest: 0,
        };
        Closing { files: lane(), connections: lane(), addresses: lane(), waiting_max }
    }

    /// Closes an fd, or has it closed as soon as may be.
    pub fn close(&mut self, fd: OwnedFd) {
        let lane = match is_any_socket(fd.as_fd()) {
            true if waits::keeps_address(fd.as_fd()) => &mut self.addresses,
            true => &mut self.connections,
            false => &mut self.files,
        };
        lane.newest += 1;
        if lane.closers.len() < CLOSERS_MAX || !waits::may_wait(fd.as_fd()) {
            return lane.begin(lane.newest, fd);
        }
        match lane.waiting.len() < self.waiting_max {
            true => lane.waiting.push_back((lane.newest, fd)),
            // The store was full of what may wait: it stays open.
            false => std::mem::forget(fd),
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lanes().map(|lane| lane.waiting.len()).sum()
    }

    /// What waits.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.lanes().flat_map(|lane| &lane.waiting).map(|(_, fd)| fd.as_fd())
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        [&self.files, &self.connections, &self.addresses].into_iter()
    }

    /// Whether many connections wait.
    pub fn is_behind(&self) -> bool {
        self.connections.waiting.len() >= WAITING_FEW
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
        self.files.ended(pid) || self.connections.ended(pid) || self.addresses.ended(pid)
    }
}

impl Lane {
    fn begin(&mut self, number: u64, fd: OwnedFd) {
        match waits::close(fd, false) {
            Ok(pid) => self.closers.extend(pid.map(|pid| Closer { pid, number })),
            Err(error) => say(&format!("cannot close a stored file descriptor: {error}")),
        }
    }

    /// The number of the oldest that is not closed.
    fn oldest(&self) -> Option<u64> {
        let waiting = self.waiting.front().map(|(number, _)| *number);
        self.closers.iter().map(|closer| closer.number).chain(waiting).min()
    }

    fn ended(&mut self, pid: i32) -> bool {
        let Some(at) = self.closers.iter().position(|closer| closer.pid == pid) else {
            return false;
        };
        self.closers.swap_remove(at);
        while self.closers.len() < CLOSERS_MAX
            && let Some((number, fd)) = self.waiting.pop_front()
        {
            self.begin(number, fd);
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
}
