//! Closing connections over Unix sockets, whoever is at the other side: what he sent and nobody has read may have
//! file descriptors, which are closed with the connection, and closing one may wait for its owner for ever.
//!
//! Only such connections wait, and only for others of the same user: one [`LettingGo`] for all threads of a program.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::letting_go::{LettingGo, Verdict};

static ENDINGS: Mutex<LettingGo> = Mutex::new(LettingGo::new());

fn all() -> MutexGuard<'static, LettingGo> {
    // Nothing that holds it panics half-way.
    ENDINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections to this user that were ended and are not closed yet.
pub fn unended(uid: u32) -> usize {
    all().unended(uid)
}

/// Whether so many connections wait to be closed that none more should be accepted. That passes as they are closed,
/// which nothing tells of.
pub fn are_full() -> bool {
    all().is_full()
}

/// How much of all users is not let go of yet.
pub fn held_up() -> usize {
    all().count()
}

/// Throws away so many bytes at the front of a connection with the descriptors that this user sent with them. If
/// [`Verdict::Stays`], they are still there: the user has as many processes as he may.
pub fn discard_piece(socket: BorrowedFd<'_>, bytes: usize, uid: u32) -> Verdict {
    all().discard_piece(socket, bytes, uid)
}

/// Ends a connection to this user for both sides, without waiting. If there are file descriptors in it, a process
/// closes it, after others of the user if many are held up.
pub fn end(socket: OwnedFd, uid: u32) {
    all().end(socket, uid);
}
