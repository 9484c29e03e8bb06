//! `FlushPending=` (systemd.socket(5)): what waits in sockets is taken out of them on the loop, before anything else
//! is done, and closed by threads. File descriptors may come with it, whose closing takes as long as their owner likes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_sys::eventfd::EventFd;
use warren_sys::{Result, process, waits};

/// What is to be closed.
pub struct Flushes {
    wake: Arc<EventFd>,
    tell: Sender<u64>,
    told: Receiver<u64>,
    /// By the number of the thread that closes it.
    scrap: BTreeMap<u64, Scrap>,
    /// Threads so far.
    ever: u64,
}

/// What a thread closes. It is open here, too, until that thread has descriptors of its own.
struct Scrap {
    _fds: Arc<Vec<OwnedFd>>,
    /// Behind the others, so that the thread hears of its end when they are closed.
    _told: Sender<Infallible>,
}

impl Flushes {
    /// There is nothing. The loop is woken through `wake`.
    pub fn new(wake: Arc<EventFd>) -> Flushes {
        let (tell, told) = channel();
        Flushes { wake, tell, told, scrap: BTreeMap::new(), ever: 0 }
    }

    /// Has a thread close these; without one, processes do.
    pub fn close(&mut self, scrap: Vec<OwnedFd>) {
        if scrap.is_empty() {
            return;
        }
        self.ever += 1;
        let (number, fds) = (self.ever, Arc::new(scrap));
        let (told, closed_here) = channel();
        let (wake, tell, theirs) = (self.wake.clone(), self.tell.clone(), fds.clone());
        let close = move || close_last(number, theirs, &closed_here, (&tell, &wake));
        match std::thread::Builder::new().name("flush".to_owned()).spawn(close) {
            Ok(_) => _ = self.scrap.insert(number, Scrap { _fds: fds, _told: told }),
            Err(_) => drop(waits::close_all(Arc::into_inner(fds).into_iter().flatten(), true)),
        }
    }

    /// Closes what threads have descriptors of their own of.
    pub fn hear(&mut self) {
        for number in self.told.try_iter() {
            self.scrap.remove(&number);
        }
    }
}

/// Has the calling thread be the last that these are open in: they are closed when it ends, and what lingers does so
/// without it (socket(7), `SO_LINGER`).
fn close_last(
    number: u64,
    fds: Arc<Vec<OwnedFd>>,
    closed_elsewhere: &Receiver<Infallible>,
    (tell, wake): (&Sender<u64>, &EventFd),
) {
    // Without descriptors of its own it closes nothing, and all stays open.
    if keep_only(&fds, wake).is_ok() {
        drop(fds);
        // The loop is gone only with the process.
        let _ = tell.send(number);
        wake.notify();
        let _ = closed_elsewhere.recv();
    }
}

/// Who is held up while it closes something holds nothing else open: see [`process::keep_only_descriptors`].
fn keep_only(fds: &[OwnedFd], wake: &EventFd) -> Result<()> {
    let fds = fds.iter().map(AsFd::as_fd).chain([wake.as_fd()]);
    process::keep_only_descriptors(&fds.collect::<Vec<BorrowedFd<'_>>>())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use warren_sys::fdpass;

    use super::*;
    use crate::base::scratch::lingering;

    #[test]
    fn what_is_slow_to_close_is_closed_by_who_waits_for_nothing() {
        let (listener, sockets) = lingering(2);
        let (near, far) = UnixStream::pair().expect("a pair");
        let mut scrap: Vec<OwnedFd> = Vec::new();
        for (socket, is_sent) in sockets.into_iter().zip([true, false]) {
            match is_sent {
                true => fdpass::send(far.as_fd(), b"x", &[socket.as_fd()]).expect("room"),
                false => scrap.push(socket.into()),
            }
        }
        scrap.push(near.into());
        let mut flushes = Flushes::new(Arc::new(EventFd::new().expect("an eventfd")));
        flushes.close(scrap);
        warren_testkit::wait_until("all sockets are closed", || {
            flushes.hear();
            flushes.scrap.is_empty()
        });
        while !fdpass::wait_readable(far.as_fd(), std::time::Duration::from_secs(60))
            .expect("it can be waited for")
        {}
        drop(listener);
    }
}
