//! How many processes may be held up by what strangers sent over Unix sockets ([`crate::disposal`]), and what becomes
//! of what there is none for: what cannot be let go of must not be taken out of its socket.
//!
//! What must not be here: sockets that are listened at, messages. Any thread; who has it waits a moment at most.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::disposal::{Disposal, Front};
use crate::fdpass::{hang_up, pass_credentials_alone, peek_plain, recv_plain, try_send};
use crate::waits::has_more;

/// Processes that may be held up by one user, and by all but root; root has as many as all others.
pub const OF_ONE_USER_MAX: usize = 4;
/// The same of all.
pub const OF_ALL_MAX: usize = 16;

/// Connections that wait for a process: with so many nobody is to be accepted, as what is not accepted costs nothing.
/// Each counts as in flight for who sent what is in it (getrlimit(2), `RLIMIT_NOFILE`).
pub const WAITING_MAX: usize = 16_384;

/// Bytes that are taken out of a connection at a time.
const PIECE_BYTES: usize = 4096;

/// Sockets that were given up with what is in them, each with a process.
pub const QUEUES_MAX: usize = 64;

/// One that is not held up is over in less.
const PATIENCE: Duration = Duration::from_millis(10);

/// The same where to find that one is held up costs others more than a moment.
const LONG_PATIENCE: Duration = Duration::from_millis(100);

/// A process is told of by the kernel, which has more to do on a machine that is busy.
const FRONT_PATIENCE: Duration = Duration::from_millis(500);

/// Processes that let go of things, by user.
#[derive(Debug, Default)]
pub struct LettingGo {
    running: Vec<Running>,
    /// How many connections to each user one more process has, since there was none for each of them.
    waiting: BTreeMap<u32, usize>,
    /// That process, and the socket over which it gets them. This program has them no more: whoever ends it waits for
    /// none of them.
    keeper: Option<(Disposal, OwnedFd)>,
    queues: Vec<Disposal>,
}

/// A process that lets go of what a user sent.
#[derive(Debug)]
struct Running {
    uid: u32,
    since: Instant,
    disposal: Disposal,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is out of the socket.
    Gone,
    /// It is one file in memory, and still in the socket.
    Memory,
    /// Its user has as many processes as he may, and it is still in the socket.
    Stays,
}

impl LettingGo {
    /// Nothing is let go of.
    pub const fn new() -> LettingGo {
        LettingGo {
            running: Vec::new(),
            waiting: BTreeMap::new(),
            keeper: None,
            queues: Vec::new(),
        }
    }

    /// How much is not let go of yet.
    pub fn count(&mut self) -> usize {
        if self.reap() {
            self.dismiss_keeper();
        }
        self.running.len() + self.waiting() + self.queues.len()
    }

    /// What one user let go of others may have, too: the keeper closes all that it has, and may be held up by some.
    fn dismiss_keeper(&mut self) {
        if self.queues.len() < QUEUES_MAX
            && let Some((keeper, _)) = self.keeper.take()
        {
            self.queues.push(keeper);
            self.waiting.clear();
        }
    }

    fn waiting(&self) -> usize {
        self.waiting.values().sum()
    }

    /// Connections to this user that were ended and are not closed yet.
    pub fn unended(&mut self, uid: u32) -> usize {
        self.count();
        let waiting = self.waiting.get(&uid).copied().unwrap_or(0);
        self.running.iter().filter(|running| running.uid == uid).count() + waiting
    }

    /// Whether no connection more should be accepted, whoever it is to.
    pub fn is_full(&mut self) -> bool {
        self.count();
        self.waiting() >= WAITING_MAX
    }

    /// Ends a connection to this user for both sides, without waiting. It waits itself, if there are file descriptors
    /// in it and the user has as many processes as he may.
    pub fn end(&mut self, socket: OwnedFd, uid: u32) {
        // From here on there comes nothing more.
        hang_up(socket.as_fd());
        if is_emptied(socket.as_fd()) {
            return;
        }
        self.reap();
        let begun = if self.has_room(uid) { self.begin_close(socket, uid) } else { Err(socket) };
        if let Err(socket) = begun {
            self.keep(socket, uid);
        }
    }

    fn keep(&mut self, socket: OwnedFd, uid: u32) {
        debug_assert!(self.waiting() < 2 * WAITING_MAX, "who accepts asks whether it is full");
        if self.keeper.is_none() {
            self.keeper = Disposal::keeper().ok();
        }
        let keeper = self.keeper.as_ref().map(|(_, to)| to.as_fd());
        match keeper.map(|to| try_send(to, b"x", &[socket.as_fd()])) {
            Some(Ok(())) => *self.waiting.entry(uid).or_default() += 1,
            // Without a process it stays open: to close it is to wait.
            _ => std::mem::forget(socket),
        }
    }

    /// Whether a process has ended.
    fn reap(&mut self) -> bool {
        let before = self.running.len();
        self.running.retain_mut(|running| !running.disposal.has_ended());
        self.queues.retain_mut(|disposal| !disposal.has_ended());
        self.running.len() < before
    }

    /// Throws away the message at the front of a socket, which this user sent; not if it is one file in memory and
    /// those are `kept`.
    pub fn discard(&mut self, socket: BorrowedFd<'_>, uid: u32, kept: bool) -> Verdict {
        if !self.make_room(uid, PATIENCE) {
            return Verdict::Stays;
        }
        let begun = match kept {
            true => Disposal::of_front_unless_memory(socket),
            false => Disposal::of_front(socket),
        };
        let Ok(disposal) = begun else { return Verdict::Stays };
        let front = disposal.front(FRONT_PATIENCE);
        self.run(uid, disposal);
        match front {
            Front::Taken => Verdict::Gone,
            Front::Memory => Verdict::Memory,
            Front::Nothing => Verdict::Stays,
        }
    }

    /// Throws away so many bytes at the front of a stream with the descriptors that came with them, which this user
    /// sent; whoever calls has looked at them.
    pub fn discard_piece(&mut self, socket: BorrowedFd<'_>, bytes: usize, uid: u32) -> Verdict {
        if !self.make_room(uid, LONG_PATIENCE) {
            return Verdict::Stays;
        }
        let Ok(disposal) = Disposal::of_piece(socket, bytes) else { return Verdict::Stays };
        let front = disposal.front(FRONT_PATIENCE);
        self.run(uid, disposal);
        match front {
            Front::Taken => Verdict::Gone,
            Front::Memory | Front::Nothing => Verdict::Stays,
        }
    }

    fn begin_close(&mut self, socket: OwnedFd, uid: u32) -> Result<(), OwnedFd> {
        let disposal = Disposal::of_socket(socket)?;
        self.run(uid, disposal);
        Ok(())
    }

    fn run(&mut self, uid: u32, disposal: Disposal) {
        self.running.push(Running { uid, since: Instant::now(), disposal });
    }

    /// Whether a socket more may be given up.
    pub fn has_room_for_queue(&mut self) -> bool {
        self.count();
        self.queues.len() < QUEUES_MAX
    }

    /// Gives up a datagram socket, with the messages that are in it.
    ///
    /// # Errors
    /// The socket, if there is no process for it.
    pub fn give_up(&mut self, socket: OwnedFd) -> Result<(), OwnedFd> {
        if !self.has_room_for_queue() {
            return Err(socket);
        }
        self.queues.push(Disposal::of_queue(socket)?);
        Ok(())
    }

    fn has_room(&self, uid: u32) -> bool {
        let own = self.running.iter().filter(|running| running.uid == uid).count();
        let of_users = self.running.iter().filter(|running| running.uid != 0).count();
        has_room(uid, own, of_users)
    }

    /// Whether there may be a process more for this user, now or in a moment: who is known to be held up is not waited
    /// for.
    fn make_room(&mut self, uid: u32, patience: Duration) -> bool {
        loop {
            self.reap();
            if self.has_room(uid) {
                return true;
            }
            let left = |running: &Running| patience.saturating_sub(running.since.elapsed());
            let young = self.running.iter().filter(|running| !left(running).is_zero());
            let Some(left) = young.clone().map(left).max() else { return false };
            let pidfds: Vec<_> = young.map(|running| running.disposal.pidfd()).collect();
            let mut fds: Vec<PollFd<'_>> =
                pidfds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            let time = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
            let _ = poll(&mut fds, Some(&time));
        }
    }
}

/// Takes out of a connection that was ended what has no descriptors; whether nothing is left.
fn is_emptied(socket: BorrowedFd<'_>) -> bool {
    if !has_more(socket) {
        return true;
    }
    if pass_credentials_alone(socket).is_err() {
        return false;
    }
    let mut room = [0; PIECE_BYTES];
    loop {
        match peek_plain(socket, &mut room) {
            Ok(seen) if seen.bytes > 0 && !seen.lost_fds => {
                let room = room.get_mut(..seen.bytes).unwrap_or_default();
                if recv_plain(socket, room).is_err() {
                    return false;
                }
            }
            _ => return !has_more(socket),
        }
    }
}

/// Root's are beside those of others.
fn has_room(uid: u32, own: usize, of_users: usize) -> bool {
    match uid {
        0 => own < OF_ALL_MAX,
        _ => own < OF_ONE_USER_MAX && of_users < OF_ALL_MAX,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::fdpass;

    #[test]
    fn each_user_has_a_few_and_root_has_some_beside_all_others() {
        let check = |uid, own, of_users, expected| {
            assert_eq!(has_room(uid, own, of_users), expected, "{uid} {own} {of_users}");
        };
        check(1000, 0, 0, true);
        check(1000, OF_ONE_USER_MAX - 1, OF_ONE_USER_MAX - 1, true);
        check(1000, OF_ONE_USER_MAX, OF_ONE_USER_MAX, false);
        check(1000, 0, OF_ALL_MAX, false);
        check(0, 0, OF_ALL_MAX, true);
        check(0, OF_ALL_MAX, 0, false);
    }

    /// A connection, and its other side.
    fn connection() -> [OwnedFd; 2] {
        let (near, far) = UnixStream::pair().expect("a pair");
        [near.into(), far.into()]
    }

    #[test]
    fn bytes_without_descriptors_are_taken_out_and_those_with_some_are_not() {
        let file = std::fs::File::open("/dev/null").expect("it is there");
        let check = |is_left: bool, send: &dyn Fn(BorrowedFd<'_>)| {
            let [near, far] = connection();
            send(far.as_fd());
            hang_up(near.as_fd());
            assert_eq!(is_emptied(near.as_fd()), !is_left);
            assert_eq!(has_more(near.as_fd()), is_left);
        };
        let plain = |far: BorrowedFd<'_>, bytes: usize| {
            fdpass::send(far, &vec![b'x'; bytes], &[]).expect("room");
        };
        let with_file = |far: BorrowedFd<'_>| {
            fdpass::send(far, b"x", &[file.as_fd()]).expect("room");
        };
        check(false, &|_| {});
        check(false, &|far| plain(far, 1));
        check(false, &|far| (0..9).for_each(|_| plain(far, PIECE_BYTES / 2 + 1)));
        check(true, &with_file);
        check(true, &|far| {
            plain(far, PIECE_BYTES);
            with_file(far);
        });
        check(true, &|far| {
            with_file(far);
            plain(far, PIECE_BYTES);
        });
    }

    /// A reader passes over such a byte, and has its descriptors closed: unix(7), socket(7) `SO_OOBINLINE`.
    #[test]
    fn a_byte_out_of_band_with_a_descriptor_stays_in_the_connection() {
        let file = std::fs::File::open("/dev/null").expect("it is there");
        let [near, far] = connection();
        match fdpass::send_out_of_band(far.as_fd(), b"x", &[file.as_fd()]) {
            Ok(()) => {}
            // A kernel that is made without them.
            Err(error) if error.errno == libc::EOPNOTSUPP => return,
            Err(error) => panic!("{error}"),
        }
        fdpass::send(far.as_fd(), b"y", &[]).expect("room");
        hang_up(near.as_fd());
        assert!(!is_emptied(near.as_fd()));
        assert_eq!(
            fdpass::peek_plain(near.as_fd(), &mut [0; 2]).map(|seen| seen.lost_fds),
            Ok(true)
        );
    }
}
