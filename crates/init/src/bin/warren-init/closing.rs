//! Closing fds. Process 1 waits for nobody: what may wait is closed by other processes, which may be held up by a
//! server for ever, or by a socket for a moment ([`warren_sys::waits`]). There are a few of them at most; what there
//! is none for waits open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_sys::socket::is_any_socket;
use warren_sys::waits;

use crate::say;

/// Processes that close files, and as many that close sockets, at a time: files may hold theirs for ever.
const CLOSERS_MAX: usize = 16;

/// No connection is taken while so many sockets wait to be closed: strangers may have sent them.
const WAITING_FEW: usize = 256;

/// What is being closed, and what is to be.
pub struct Closing {
    files: Lane,
    sockets: Lane,
    waiting_max: usize,
}

/// Those of one kind.
struct Lane {
    closers: Vec<i32>,
    waiting: Vec<OwnedFd>,
}

impl Closing {
    /// Nothing, with room for so many of each kind.
    pub fn new(waiting_max: usize) -> Closing {
        let lane = || Lane {
            closers: Vec::with_capacity(CLOSERS_MAX),
            waiting: Vec::with_capacity(waiting_max),
        };
        Closing { files: lane(), sockets: lane(), waiting_max }
    }

    /// Closes an fd, or has it closed as soon as may be.
    pub fn close(&mut self, fd: OwnedFd) {
        let lane = match is_any_socket(fd.as_fd()) {
            true => &mut self.sockets,
            false => &mut self.files,
        };
        if lane.closers.len() < CLOSERS_MAX || !waits::may_wait(fd.as_fd()) {
            return lane.begin(fd);
        }
        match lane.waiting.len() < self.waiting_max {
            true => lane.waiting.push(fd),
            // The store was full of what may wait: it stays open.
            false => std::mem::forget(fd),
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.files.waiting.len() + self.sockets.waiting.len()
    }

    /// What waits.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.files.waiting.iter().chain(&self.sockets.waiting).map(AsFd::as_fd)
    }

    /// Whether many sockets wait.
    pub fn is_behind(&self) -> bool {
        self.sockets.waiting.len() >= WAITING_FEW
    }

    /// A child has ended; false if it was none of those that close something.
    pub fn ended(&mut self, pid: i32) -> bool {
        self.files.ended(pid) || self.sockets.ended(pid)
    }
}

impl Lane {
    fn begin(&mut self, fd: OwnedFd) {
        match waits::close(fd, false) {
            Ok(closer) => self.closers.extend(closer),
            Err(error) => say(&format!("a stored fd cannot be closed: {error}")),
        }
    }

    fn ended(&mut self, pid: i32) -> bool {
        let Some(at) = self.closers.iter().position(|&closer| closer == pid) else { return false };
        self.closers.swap_remove(at);
        while self.closers.len() < CLOSERS_MAX
            && let Some(fd) = self.waiting.pop()
        {
            self.begin(fd);
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
        let Some(&pid) = closing.sockets.closers.first() else { return false };
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
            (closing.sockets.closers.len(), closing.waiting()),
            (CLOSERS_MAX, MANY - CLOSERS_MAX)
        );
        let is_over = |far: &UnixStream| std::io::Write::write(&mut &*far, b"x").is_err();
        assert!(quiet.iter().all(is_over), "what does not wait is closed at once");
        while reap(&mut closing) {}
        assert_eq!(closing.waiting(), 0);
        assert!(peers.iter().all(is_over));
        assert_eq!(
            (closing.sockets.closers.capacity(), closing.sockets.waiting.capacity()),
            (CLOSERS_MAX, MANY)
        );
    }
}
