//! The notify socket: what services say about themselves (sd_notify(3)).
//!
//! Anybody may send to it, and file descriptors with it. To close one may take as long as its owner likes: a socket
//! lingers, a file's server is told. So none is taken but those that a unit may store, and messages that have some
//! are thrown away by other threads ([`NotifySocket::release`]).

use crate::base::patience::Patient;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_core::model::ids::EffectId;
use warren_core::model::time::Monotonic;
use warren_core::protocol::event::{Done, Notify};
use warren_sys::eventfd::EventFd;
use warren_sys::fdpass::{self, Mark, Received};
use warren_sys::signal::Interrupting;
use warren_sys::socket::{self, Address, Kind, SocketOptions};
use warren_sys::waits::LINGER_MAX;
use warren_sys::{Error, Result};

use crate::base::say::say;
use crate::base::worker_pool::{Piece, Workers};

/// Largest datagram that is taken, in bytes (sd_notify(3) sends up to a pipe's atomic size).
const DATAGRAM_BYTES_MAX: usize = 4096;

/// Error numbers of the kernel.
const ERRNOS: RangeInclusive<i32> = 0..=4095;

/// While threads throw messages away, it is looked at so often how far they are: who is held up tells nobody.
const LOOKS_APART: Duration = Duration::from_millis(100);

/// A datagram.
pub struct Datagram {
    /// The sender, as the kernel vouches for it.
    pub pid: i32,
    /// The sender's user.
    pub uid: u32,
    /// What the core acts on.
    pub message: Notify,
    /// `FDSTORE=1` and `FDNAME=`, if file descriptors came with it.
    pub store: Option<Store>,
    /// `FDSTOREREMOVE=1` and `FDNAME=`.
    pub unstore: Option<String>,
    /// What is stored is dropped when it hangs up (not with `FDPOLL=0`).
    pub polls: bool,
}

/// What is to be stored.
pub struct Store {
    /// Under which name.
    pub name: String,
    /// Where the datagram is that has it.
    place: Place,
}

/// Where a datagram is in the socket.
#[derive(Clone, Copy, Default)]
struct Place {
    /// How often datagrams had been released before.
    releases: u64,
    /// Bytes of those before it.
    bytes: usize,
}

/// The socket.
pub struct NotifySocket {
    fd: Arc<OwnedFd>,
    buffer: Vec<u8>,
    /// Datagrams that were looked at and are still in the socket: whether file descriptors came with each.
    seen: Vec<bool>,
    /// Where the next one is.
    next: Place,
    /// They throw away what has file descriptors.
    threads: Workers,
    leaving: Option<Leaving>,
}

/// Datagrams that threads are throwing away, each with a mark that says that it is out of the socket.
struct Leaving {
    marks: Arc<[Mark]>,
    is_held_up: bool,
}

impl NotifySocket {
    /// Binds it at `path`, in place of what an earlier manager left there. The loop is woken through `wake`.
    pub fn bind(path: &Path, wake: Arc<EventFd>) -> Result<NotifySocket> {
        let options = SocketOptions { mode: 0o777, ..SocketOptions::default() };
        let address = Address::Path(path.to_string_lossy().into_owned());
        let fd = socket::listen(Kind::Datagram, &address, &options)?.fd;
        fdpass::pass_credentials(fd.as_fd())?;
        NotifySocket::over(fd, wake)
    }

    /// Goes on with the socket of the last incarnation.
    pub fn over(fd: OwnedFd, wake: Arc<EventFd>) -> Result<NotifySocket> {
        let _ = fdpass::start_peeking(fd.as_fd());
        let fd = Arc::new(fd);
        let threads = Workers::start_keeping(wake, vec![fd.clone()])
            .map_err(|e| Error::new("start a thread", e.raw_os_error().unwrap_or(0)))?;
        let buffer = vec![0; DATAGRAM_BYTES_MAX];
        let (seen, next) = (Vec::new(), Place::default());
        Ok(NotifySocket { fd, buffer, seen, next, threads, leaving: None })
    }

    /// To be watched and to be stored.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Datagrams that were looked at and are still in the socket.
    pub fn seen(&self) -> usize {
        self.seen.len()
    }

    /// The next datagram; nothing when there is none, or while threads throw away what was released. Those
    /// without a sender or too large are skipped. It stays in the socket until [`NotifySocket::release`], for the
    /// next manager if this one ends before it has written down what follows.
    pub fn receive(&mut self) -> Option<Datagram> {
        while self.leaving.is_none() {
            let received = fdpass::peek_plain(self.fd.as_fd(), &mut self.buffer).ok()?;
            let Received { bytes, credentials, truncated, lost_fds: has_fds, .. } = received;
            if truncated {
                self.skip_large(has_fds)?;
                continue;
            }
            self.seen.push(has_fds);
            let place = self.next;
            self.next.bytes += bytes;
            if let Some(sender) = credentials.filter(|c| c.pid > 0) {
                let text = String::from_utf8_lossy(&self.buffer[..bytes]).into_owned();
                return Some(parse(sender.pid, sender.uid, &text, has_fds.then_some(place)));
            }
        }
        None
    }

    /// A look at a part of a datagram leaves the socket in its middle. Nothing if what was seen
    /// before it must be released first.
    fn skip_large(&mut self, has_fds: bool) -> Option<()> {
        if !self.seen.is_empty() {
            let _ = fdpass::peek_from(self.fd.as_fd(), self.next.bytes);
            return None;
        }
        self.seen.push(has_fds);
        self.release();
        Some(())
    }

    /// The file descriptors that are to be stored; none if the datagram has been released.
    pub fn descriptors(&mut self, store: &Store) -> Vec<OwnedFd> {
        let mut fds = Vec::new();
        if store.place.releases == self.next.releases {
            let socket = self.fd.as_fd();
            let _ = fdpass::peek_from(socket, store.place.bytes)
                .and_then(|()| fdpass::peek(socket, &mut self.buffer, &mut fds));
            let _ = fdpass::peek_from(socket, self.next.bytes);
        }
        fds
    }

    /// What was received is written down. From the first datagram on that has file descriptors, threads throw them
    /// away; until [`NotifySocket::has_released`], nothing more is received.
    pub fn release(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        self.next = Place { releases: self.next.releases + 1, bytes: 0 };
        let plain = seen.iter().take_while(|has_fds| !**has_fds).count();
        for _ in 0..plain {
            fdpass::discard(self.fd.as_fd());
        }
        match seen.len() - plain {
            0 => _ = fdpass::start_peeking(self.fd.as_fd()),
            count => self.leave(count),
        }
    }

    /// Each thread takes what is at the front when its turn comes: one that is held up has taken its own. No socket
    /// that lingers holds one up for longer than [`LINGER_MAX`].
    fn leave(&mut self, count: usize) {
        let marks: Arc<[Mark]> = (0..count).map(|_| Mark::default()).collect();
        let piece = |index: usize| -> Piece {
            let (fd, marks) = (self.fd.clone(), marks.clone());
            let discard = move || {
                let _interrupting = Interrupting::each(LINGER_MAX);
                fdpass::discard_marked(fd.as_fd(), &marks[index]);
                Done::Ok
            };
            (EffectId(0), Box::new(discard))
        };
        self.threads.run_all((0..count).map(piece).collect());
        self.leaving = Some(Leaving { marks, is_held_up: false });
    }

    /// Whether threads have just got everything out of the socket that was released: what came meanwhile can be
    /// received.
    pub fn has_released(&mut self, now: Instant) -> bool {
        self.threads.results().for_each(drop);
        let Some(leaving) = &mut self.leaving else { return false };
        if !leaving.marks.iter().all(Mark::is_set) {
            self.threads.relieve(now);
            if self.threads.are_all_held() && !std::mem::replace(&mut leaving.is_held_up, true) {
                say!(
                    "notify socket: received file descriptors that cannot be closed; messages from services are not read until some can be"
                );
            }
            return false;
        }
        self.leaving = None;
        let _ = fdpass::start_peeking(self.fd.as_fd());
        true
    }
}

impl Patient for NotifySocket {
    // When [`NotifySocket::has_released`] is to be asked again, if it must be.
    fn patience_left(&self, _now: Instant) -> Option<Duration> {
        self.leaving.as_ref().map(|_| LOOKS_APART)
    }
}

/// What is said by being there counts wherever it stands; of fields with values the first one.
fn parse(pid: i32, uid: u32, text: &str, fds_at: Option<Place>) -> Datagram {
    let says = |line: &str| text.lines().any(|l| l == line);
    let first = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
    let number = |key: &str| first(key)?.parse::<u64>().ok();
    let errno = first("ERRNO").and_then(|value| value.parse().ok());
    let main_pid = first("MAINPID").and_then(|value| value.parse().ok());
    let message = Notify {
        ready: says("READY=1"),
        reloading: says("RELOADING=1"),
        stopping: says("STOPPING=1"),
        clean: first("CLEAN").map(|value| value == "1"),
        status: first("STATUS").map(str::to_owned),
        errno: errno.filter(|n| ERRNOS.contains(n)),
        main_pid: main_pid.filter(|&pid| pid > 1),
        watchdog: says("WATCHDOG=1"),
        watchdog_trigger: says("WATCHDOG=trigger"),
        watchdog_us: number("WATCHDOG_USEC"),
        extend_timeout_us: number("EXTEND_TIMEOUT_USEC"),
        made: number("MONOTONIC_USEC").map(Monotonic),
    };
    let name = first("FDNAME").filter(|name| is_fd_name(name)).unwrap_or("stored").to_owned();
    let fds_at = fds_at.filter(|_| says("FDSTORE=1"));
    Datagram {
        pid,
        uid,
        message,
        store: fds_at.map(|place| Store { name: name.clone(), place }),
        unstore: says("FDSTOREREMOVE=1").then_some(name),
        polls: !says("FDPOLL=0"),
    }
}

/// sd_notify(3): printable ASCII without colon, at most 255 characters.
fn is_fd_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b':')
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::base::scratch::lingering;

    #[test]
    fn fields_are_understood_and_rubbish_is_skipped() {
        let text =
            "READY=1\nSTATUS=up\nMAINPID=77\nERRNO=x\nFDNAME=a:b\nnothing\n=\nWATCHDOG=trigger";
        let got = parse(5, 0, text, None);
        assert_eq!((got.pid, got.message.ready, got.message.main_pid), (5, true, Some(77)));
        assert_eq!(got.message.status.as_deref(), Some("up"));
        assert_eq!((got.message.errno, got.message.watchdog_trigger), (None, true));
        assert!(got.store.is_none() && got.unstore.is_none());
        let twice = parse(5, 0, "STATUS=a\nREADY=0\nSTATUS=b\nREADY=1", None).message;
        assert_eq!((twice.status.as_deref(), twice.ready), (Some("a"), true));
        assert_eq!(parse(5, 0, "MAINPID=1", None).message.main_pid, None);
    }

    /// A socket, and who sends to it.
    fn pair() -> (UnixDatagram, NotifySocket) {
        let (sender, receiver) = UnixDatagram::pair().expect("a pair");
        fdpass::pass_credentials(receiver.as_fd()).expect("allowed");
        let wake = Arc::new(EventFd::new().expect("an eventfd"));
        (sender, NotifySocket::over(receiver.into(), wake).expect("threads"))
    }

    /// Sends `TEXT` or, with a descriptor, `TEXT+`; an empty text is one, too.
    fn send(to: &UnixDatagram, text: &str) {
        let (words, has_fd) = text.strip_suffix('+').map_or((text, false), |words| (words, true));
        let own = [to.as_fd()];
        fdpass::send(to.as_fd(), words.as_bytes(), if has_fd { &own } else { &[] }).expect("room");
    }

    fn heard(socket: &mut NotifySocket) -> Vec<String> {
        std::iter::from_fn(|| socket.receive()).filter_map(|got| got.message.status).collect()
    }

    fn wait_released(socket: &mut NotifySocket) {
        warren_testkit::wait_until("what was read is released", || {
            socket.has_released(Instant::now());
            socket.leaving.is_none()
        });
    }

    #[test]
    fn what_is_released_is_gone_and_the_rest_is_heard_with_and_without_descriptors() {
        let (sender, mut socket) = pair();
        let long = format!("STATUS=long{}", " ".repeat(DATAGRAM_BYTES_MAX));
        for text in
            ["STATUS=1", "STATUS=2+", "+", "", "STATUS=3", &long, "STATUS=4", &(long.clone() + "+")]
        {
            send(&sender, text);
        }
        assert_eq!(heard(&mut socket), ["1", "2", "3"]);
        assert_eq!(heard(&mut socket), [""; 0], "a long one is not looked at in parts");
        assert_eq!(socket.seen(), 5);
        socket.release();
        send(&sender, "STATUS=5");
        wait_released(&mut socket);
        assert_eq!(heard(&mut socket), ["4"]);
        socket.release();
        assert_eq!(heard(&mut socket), [""; 0], "it is thrown away");
        wait_released(&mut socket);
        assert_eq!(heard(&mut socket), ["5"]);
    }

    #[test]
    fn threads_are_soon_back_from_messages_with_sockets_that_linger() {
        const MESSAGES: usize = 3;
        let (sender, mut socket) = pair();
        let (listener, sockets) = lingering(MESSAGES);
        for stream in sockets {
            fdpass::send(sender.as_fd(), b"READY=1", &[stream.as_fd()]).expect("room");
        }
        assert_eq!(std::iter::from_fn(|| socket.receive()).count(), MESSAGES);
        socket.release();
        let mut back = 0;
        warren_testkit::wait_until("all threads are back", || {
            back += socket.threads.results().count();
            socket.threads.relieve(Instant::now());
            back >= MESSAGES
        });
        wait_released(&mut socket);
        drop(listener);
    }

    #[test]
    fn only_descriptors_that_are_asked_for_are_taken_and_only_while_they_are_there() {
        let (sender, mut socket) = pair();
        for text in ["+", "READY=1+", "FDSTORE=1\nFDNAME=a+", "FDSTORE=1", "STATUS=later"] {
            send(&sender, text);
        }
        let all: Vec<Datagram> = (0..4).filter_map(|_| socket.receive()).collect();
        let stores: Vec<&Store> =
            all.iter().filter_map(|datagram| datagram.store.as_ref()).collect();
        let [store] = stores[..] else { panic!("{} are to be stored", stores.len()) };
        assert_eq!((store.name.as_str(), socket.descriptors(store).len()), ("a", 1));
        assert_eq!(heard(&mut socket), ["later"], "it goes on where it was");
        socket.release();
        assert!(socket.descriptors(store).is_empty());
        wait_released(&mut socket);
    }
}
