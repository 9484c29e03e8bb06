//! When the system gives no descriptor for a connection (`EMFILE`, `ENFILE`, accept(2)): it stays in the
//! queue of its socket, and that socket is ready all the time. So nobody is taken until a stream of
//! ours ends or a moment has passed, and the loop sleeps meanwhile. Datagrams and streams that are
//! there go on.

use std::os::fd::AsFd;

use warren_sys::epoll::Interest;

use crate::daemon::Daemon;
use crate::daemon::clock::now_us;
use crate::daemon::tokens::{TOKEN_CONTROL, TOKEN_STREAM};

/// So long nobody is taken, µs: nothing tells when other programs give descriptors back.
const REST_US: u64 = 1_000_000;

/// How it stands with descriptors for connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shortage {
    /// Nobody is taken until then.
    again_us: Option<u64>,
    /// It was said, and nobody could be taken since.
    is_told: bool,
}

impl Shortage {
    /// When the next try is due, µs.
    pub fn due_us(self) -> Option<u64> {
        self.again_us
    }
}

impl Daemon {
    /// Takes streams of clients: whether there may be more, and how many are of other users than root.
    pub fn accept_streams(&mut self) -> (bool, usize) {
        let accepted = self.streams.accept(&self.stream, &mut self.core);
        match accepted {
            Ok((some, of_others)) => {
                self.shortage.is_told &= !some;
                (some, of_others)
            }
            Err(e) => {
                self.rest(&e);
                (false, 0)
            }
        }
    }

    /// Takes those who ask.
    pub fn accept_questions(&mut self) {
        if let Err(e) = self.control.accept(&self.epoll) {
            self.rest(&e);
        }
    }

    fn rest(&mut self, error: &warren_sys::Error) {
        if self.shortage.again_us.is_none() {
            let Daemon { epoll, stream, control, .. } = self;
            // What cannot be taken off is ready again at once.
            let _ = epoll.remove(&*stream);
            control.listeners().iter().for_each(|listener| _ = epoll.remove(listener));
        }
        self.shortage.again_us = Some(now_us() + REST_US);
        if !std::mem::replace(&mut self.shortage.is_told, true) {
            self.core.note(&format!("Cannot accept connections for now: {error}"));
        }
    }

    /// Watches the sockets again when it is time, or when streams have `ended`.
    pub fn accept_again(&mut self, ended: bool) {
        let is_due = |due| ended || now_us() >= due;
        if !self.shortage.again_us.is_some_and(is_due) {
            return;
        }
        let watched = self.epoll.add(self.stream.as_fd(), TOKEN_STREAM, Interest::READ);
        let listeners = self.control.listeners().iter();
        let watch = |listener| self.epoll.add(listener, TOKEN_CONTROL, Interest::READ);
        let all = listeners.map(watch).fold(watched, Result::and);
        // The kernel may have no memory for that; what is watched already stays so.
        self.shortage.again_us = all.is_err().then(|| now_us() + REST_US);
    }
}
