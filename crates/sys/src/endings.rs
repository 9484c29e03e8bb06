//! Closing connections over Unix sockets, whoever is at the other side: what he sent and nobody has read may have
//! file descriptors, which are closed with the connection, and closing one may wait for its owner for ever.
//!
//! Only such connections wait, and only for others of the same user.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fdpass::{hang_up, pass_credentials_alone, peek_plain, recv_plain};
use crate::signal::Interrupting;
use crate::waits::{self, LINGER_MAX, has_more};

/// Threads that close connections of one user.
const THREADS_OF_ONE_USER_MAX: usize = 4;

/// The same of all users.
const THREADS_MAX: usize = 64;

/// Connections of one user that wait for those threads.
const KEPT_OF_ONE_USER_MAX: usize = 64;

/// The same of all users.
const KEPT_MAX: usize = 1024;

/// Bytes that are taken out of a connection at a time.
const PIECE_BYTES: usize = 4096;

/// By user; of whom nothing is to be closed has none.
static ENDINGS: Mutex<BTreeMap<u32, Endings>> = Mutex::new(BTreeMap::new());

/// What is to be closed of a user.
#[derive(Default)]
struct Endings {
    /// Threads that are about it.
    threads: usize,
    /// What waits for them.
    kept: Vec<OwnedFd>,
}

fn all() -> MutexGuard<'static, BTreeMap<u32, Endings>> {
    // Nothing that holds it panics half-way.
    ENDINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections to this user that were ended and are not closed yet.
pub fn unended(uid: u32) -> usize {
    all().get(&uid).map_or(0, |of| of.threads + of.kept.len())
}

/// Ends a connection to this user for both sides, without waiting. If there are file descriptors in it, a thread
/// closes it, after others of the user if many are held up; if too many wait, a process that is a child of the
/// caller's parent does.
pub fn end(socket: OwnedFd, uid: u32) {
    // From here on there comes nothing more.
    hang_up(socket.as_fd());
    if is_emptied(socket.as_fd()) {
        return;
    }
    match keep(socket, uid) {
        Ok(false) => {}
        Ok(true) => begin(uid),
        // What no process can be had for stays open.
        Err(socket) => drop(waits::close(socket, true)),
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

/// Has a connection wait for the threads of its user; whether there is to be one more. Given back if there is no
/// room.
fn keep(socket: OwnedFd, uid: u32) -> Result<bool, OwnedFd> {
    let mut all = all();
    let count = |of: fn(&Endings) -> usize| all.values().map(of).sum::<usize>();
    let (threads, kept) = (count(|of| of.threads), count(|of| of.kept.len()));
    let own = all.get(&uid).map_or((0, 0), |of| (of.threads, of.kept.len()));
    let begins = own.0 < THREADS_OF_ONE_USER_MAX && threads < THREADS_MAX;
    let has_room = kept < KEPT_MAX && own.1 < KEPT_OF_ONE_USER_MAX;
    if !has_room || !begins && own.0 == 0 {
        return Err(socket);
    }
    let of = all.entry(uid).or_default();
    of.threads += usize::from(begins);
    of.kept.push(socket);
    Ok(begins)
}

/// Begins a thread for this user, which was counted.
fn begin(uid: u32) {
    let close_all = move || {
        let _interrupting = Interrupting::each(LINGER_MAX);
        while let Some(socket) = next(uid) {
            drop(socket);
        }
    };
    if std::thread::Builder::new().name("ending".into()).spawn(close_all).is_ok() {
        return;
    }
    for socket in end_thread(uid) {
        drop(waits::close(socket, true));
    }
}

/// What a thread of this user closes next; it has ended if there is nothing.
fn next(uid: u32) -> Option<OwnedFd> {
    let mut all = all();
    let of = all.get_mut(&uid)?;
    let next = of.kept.pop();
    if next.is_none() {
        of.threads -= 1;
        if of.threads == 0 {
            all.remove(&uid);
        }
    }
    next
}

/// There is a thread less; what waits for nobody then.
fn end_thread(uid: u32) -> Vec<OwnedFd> {
    let mut all = all();
    let Some(of) = all.get_mut(&uid) else { return Vec::new() };
    of.threads -= 1;
    match of.threads {
        0 => all.remove(&uid).map(|of| of.kept).unwrap_or_default(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::fdpass;

    /// Users of whom no other test has connections.
    const SOMEBODY: u32 = 4_000_000_000;

    /// A connection, and its other side.
    fn connection() -> [OwnedFd; 2] {
        let (near, far) = UnixStream::pair().expect("a pair");
        [near.into(), far.into()]
    }

    fn wait_until_closed(uid: u32) {
        warren_testkit::wait_until("all connections of the user are closed", || unended(uid) == 0);
    }

    #[test]
    fn what_a_stranger_has_left_in_a_connection_holds_nobody_up() {
        let uid = SOMEBODY;
        let (listener, sockets) = crate::test_lingering::<2>();
        let all = sockets.map(|lingering| {
            let [near, far] = connection();
            fdpass::send(far.as_fd(), b"x", &[lingering.as_fd()]).expect("room");
            drop(lingering);
            end(near, uid);
            far
        });
        for far in all {
            let sent = fdpass::send(far.as_fd(), b"x", &[]);
            assert!(sent.is_err_and(|e| e.is_closed()));
        }
        wait_until_closed(uid);
        drop(listener);
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

    /// Threads that are held up are counted as such and never run.
    #[test]
    fn connections_that_are_held_up_count_against_their_user_alone() {
        let [one, other] = [SOMEBODY + 1, SOMEBODY + 2];
        let keep_one = |uid| {
            let [near, _far] = connection();
            keep(near, uid)
        };
        let begun: Vec<_> = (0..KEPT_OF_ONE_USER_MAX).map(|_| keep_one(one).ok()).collect();
        let expected = (0..KEPT_OF_ONE_USER_MAX).map(|n| Some(n < THREADS_OF_ONE_USER_MAX));
        assert_eq!(begun, expected.collect::<Vec<_>>());
        assert!(keep_one(one).is_err(), "a process closes it");
        assert_eq!(unended(one), KEPT_OF_ONE_USER_MAX + THREADS_OF_ONE_USER_MAX);
        assert_eq!((unended(other), keep_one(other).ok()), (0, Some(true)));
        for (uid, threads) in [(one, THREADS_OF_ONE_USER_MAX), (other, 1)] {
            (0..threads).for_each(|_| while next(uid).is_some() {});
            assert_eq!(unended(uid), 0);
        }
    }
}
