//! The notify socket: what services say about themselves (sd_notify(3)).
//!
//! Anybody may send to it, and file descriptors with it. To close one may take as long as its owner likes: a file's
//! server is told. So none is taken but those that a unit may store, and messages that have some are thrown away by
//! other processes ([`warren_sys::letting_go`]). What cannot be let go of stays in the socket, and another socket takes
//! its place: what is behind it is heard, and the old one is left to a process that may be held up for ever.

use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use warren_core::model::time::Monotonic;
use warren_core::protocol::event::Notify;
use warren_sys::Result;
use warren_sys::fdpass::{self, Received};
use warren_sys::letting_go::{LettingGo, Verdict};
use warren_sys::socket::{self, Address, Kind, SocketOptions};

use crate::base::patience::Patient;
use crate::base::say::say;

/// Largest datagram that is taken, in bytes (sd_notify(3) sends up to a pipe's atomic size).
const DATAGRAM_BYTES_MAX: usize = 4096;

/// Error numbers of the kernel.
const ERRNOS: RangeInclusive<i32> = 0..=4095;

/// Another socket so often at most, and looks at what is held up: nothing tells when it is let go of.
const LOOKS_APART: Duration = Duration::from_secs(1);

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
pub(crate) struct Place {
    /// How often datagrams had been released before.
    releases: u64,
    /// Bytes of those before it.
    bytes: usize,
}

/// A datagram that was looked at and is still in the socket.
#[derive(Clone, Copy)]
struct PeekedDatagram {
    bytes: usize,
    uid: u32,
    has_fds: bool,
}

/// A socket that another one has taken the place of, which nobody can send to.
struct Old {
    fd: OwnedFd,
    /// Bytes of the datagrams that were heard.
    heard: usize,
    /// It is watched still.
    is_watched: bool,
}

/// The socket.
pub struct NotifySocket {
    fd: OwnedFd,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Datagrams that were looked at and are still in the socket.
    seen: Vec<PeekedDatagram>,
    /// Where the next one is.
    next: Place,
    letting_go: LettingGo,
    /// So many at the front were released, and the first of them cannot be let go of.
    stuck: usize,
    old: Option<Old>,
    /// When the last one was replaced.
    replaced: Option<Instant>,
    /// The kernel refuses datagrams with file descriptors, or may do so since the last manager.
    refuses: bool,
    /// Something is held up.
    is_busy: bool,
    is_told: bool,
}

impl NotifySocket {
    /// Binds it at `path`, in place of what an earlier manager left there.
    pub fn bind(path: &Path) -> Result<NotifySocket> {
        let address = Address::Path(path.to_string_lossy().into_owned());
        let fd = socket::listen(Kind::Datagram, &address, &options())?.fd;
        fdpass::pass_credentials(fd.as_fd())?;
        Ok(NotifySocket::over(fd, path))
    }

    /// Goes on with the socket of the last incarnation, which clients find at `path`.
    pub fn over(fd: OwnedFd, path: &Path) -> NotifySocket {
        let _ = fdpass::start_peeking(fd.as_fd());
        NotifySocket {
            fd,
            path: path.to_owned(),
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            seen: Vec::new(),
            next: Place::default(),
            letting_go: LettingGo::new(),
            stuck: 0,
            old: None,
            replaced: None,
            refuses: true,
            is_busy: true,
            is_told: false,
        }
    }

    /// To be watched and to be stored.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Datagrams that were looked at and are to be released.
    pub fn seen(&self) -> usize {
        self.seen.len() - self.stuck
    }

    /// The next datagram; nothing when there is none. Those without a sender or too large are skipped. It stays in the
    /// socket until [`NotifySocket::release`], for the next manager if this one ends before it has written down what
    /// follows.
    pub fn receive(&mut self) -> Option<Datagram> {
        while self.old.is_some() {
            if let Some(datagram) = self.receive_old() {
                return Some(datagram);
            }
        }
        loop {
            let received = fdpass::peek_plain(self.fd.as_fd(), &mut self.buffer).ok()?;
            let Received { bytes, credentials, truncated, lost_fds: has_fds, .. } = received;
            let uid = credentials.map_or(u32::MAX, |sender| sender.uid);
            if truncated {
                self.skip_large(PeekedDatagram { bytes, uid, has_fds })?;
                continue;
            }
            self.seen.push(PeekedDatagram { bytes, uid, has_fds });
            let place = self.next;
            self.next.bytes += bytes;
            if let Some(sender) = credentials.filter(|c| c.pid > 0) {
                let text = String::from_utf8_lossy(&self.buffer[..bytes]).into_owned();
                return Some(parse(sender.pid, sender.uid, &text, has_fds.then_some(place)));
            }
        }
    }

    /// The next one of the socket that was before this one, whose file descriptors cannot be stored. When there is
    /// none, that socket is left.
    fn receive_old(&mut self) -> Option<Datagram> {
        let mut old = self.old.take()?;
        let looked = fdpass::peek_from(old.fd.as_fd(), old.heard)
            .and_then(|()| fdpass::peek_plain(old.fd.as_fd(), &mut self.buffer));
        // A socket that takes no more has an end, which is as an empty datagram of nobody.
        let Some((seen, sender)) = looked.ok().and_then(|seen| seen.credentials.map(|c| (seen, c)))
        else {
            self.is_busy = true;
            if let Err(fd) = self.letting_go.give_up(old.fd) {
                // Without a process it stays open: to close it is to wait.
                std::mem::forget(fd);
            }
            return None;
        };
        old.heard += seen.bytes;
        self.old = Some(old);
        match seen.truncated || sender.pid <= 0 {
            true => None,
            false => {
                let text = String::from_utf8_lossy(&self.buffer[..seen.bytes]).into_owned();
                Some(parse(sender.pid, sender.uid, &text, None))
            }
        }
    }

    /// A look at a part of a datagram leaves the socket in its middle. Nothing if what was seen
    /// before it must be released first.
    fn skip_large(&mut self, large: PeekedDatagram) -> Option<()> {
        match self.seen.len() - self.stuck {
            0 => {
                self.seen.push(large);
                self.next.bytes += large.bytes;
                self.release();
                Some(())
            }
            _ => {
                let _ = fdpass::peek_from(self.fd.as_fd(), self.next.bytes);
                None
            }
        }
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

    /// What was received is written down. It is taken out of the socket, unless it cannot be let go of.
    pub fn release(&mut self) {
        let mut released = std::mem::take(&mut self.seen);
        let mut gone = 0;
        for seen in &released {
            let is_gone = match seen.has_fds {
                false => fdpass::discard(self.fd.as_fd()),
                true => {
                    self.is_busy = true;
                    self.letting_go.discard(self.fd.as_fd(), seen.uid, false) == Verdict::Gone
                }
            };
            if !is_gone {
                break;
            }
            gone += 1;
        }
        released.drain(..gone);
        let bytes = released.iter().map(|seen| seen.bytes).sum();
        self.next = Place { releases: self.next.releases + u64::from(gone > 0), bytes };
        (self.stuck, self.seen) = (released.len(), released);
        let _ = fdpass::peek_from(self.fd.as_fd(), bytes);
        if self.stuck > 0 {
            self.replace(Instant::now());
        }
    }

    /// Another socket takes the place of one that is stuck, if it is time and there may be one.
    fn replace(&mut self, now: Instant) {
        let uid = self.seen.first().map_or(u32::MAX, |seen| seen.uid);
        let is_time = self.replaced.is_none_or(|then| now.duration_since(then) >= LOOKS_APART);
        if !is_time || self.old.is_some() {
            return;
        }
        let fresh = match self.letting_go.has_room_for_queue() {
            true => socket::replace_datagram(&self.path, &options()),
            false => Err(warren_sys::Error::new("leave another socket", FULL)),
        };
        let fresh = fresh.and_then(|(fd, _)| fdpass::pass_credentials(fd.as_fd()).map(|()| fd));
        match fresh {
            Ok(fresh) => {
                self.refuses = fdpass::refuse_fds(fresh.as_fd()).is_ok();
                let _ = fdpass::start_peeking(fresh.as_fd());
                let fd = std::mem::replace(&mut self.fd, fresh);
                fdpass::take_no_more(fd.as_fd());
                self.old = Some(Old { fd, heard: self.next.bytes, is_watched: true });
                (self.stuck, self.replaced) = (0, Some(now));
                self.seen.clear();
                self.next = Place { releases: self.next.releases + 1, bytes: 0 };
                say!(
                    "notify socket: user {uid} sent file descriptors that cannot be closed: opened a new socket in \
                     its place"
                );
            }
            Err(error) if !std::mem::replace(&mut self.is_told, true) => say!(
                "notify socket: user {uid} sent file descriptors that cannot be closed, and a new socket cannot be \
                 created: {error}. Once this one is full, messages of services are lost"
            ),
            Err(_) => {}
        }
    }

    /// The socket that another one has taken the place of, once: it is not to be watched, and the new one to be stored.
    pub fn replaced(&mut self) -> Option<BorrowedFd<'_>> {
        let old = self.old.as_mut()?;
        std::mem::take(&mut old.is_watched).then(|| old.fd.as_fd())
    }

    /// Whether there is something to be heard of which nothing tells.
    pub fn has_old(&self) -> bool {
        self.old.is_some()
    }

    /// Looks at what was held up: tries again, and takes file descriptors again when all is let go of.
    pub fn look_after(&mut self, now: Instant) {
        if !self.is_busy {
            return;
        }
        if self.stuck > 0 {
            self.replace(now);
        }
        self.is_busy = self.letting_go.count() > 0 || self.stuck > 0;
        if !self.is_busy {
            self.is_told = false;
            if std::mem::take(&mut self.refuses) {
                let _ = fdpass::allow_fds(self.fd.as_fd());
            }
        }
    }
}

/// `EMFILE`.
const FULL: i32 = 24;

fn options() -> SocketOptions {
    SocketOptions { mode: 0o777, ..SocketOptions::default() }
}

impl Patient for NotifySocket {
    fn patience_left(&self, _now: Instant) -> Option<Duration> {
        if self.has_old() { Some(Duration::ZERO) } else { self.is_busy.then_some(LOOKS_APART) }
    }
}

/// What is said by being there counts wherever it stands; of fields with values the first one.
pub(crate) fn parse(pid: i32, uid: u32, text: &str, fds_at: Option<Place>) -> Datagram {
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
pub(crate) fn is_fd_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b':')
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

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
        (sender, NotifySocket::over(receiver.into(), Path::new("/none")))
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
        assert_eq!(heard(&mut socket), ["4"]);
        socket.release();
        assert_eq!(heard(&mut socket), ["5"], "the long one with a descriptor is thrown away");
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
    }
}
