//! The running bus: a listening socket and the thread behind it.

use crate::authority::{Authorize, Question, Verdict, Who};
use crate::backend::Backend;
use crate::server::{Link, Mail, Mailbox, Server};
use crate::signals::Announcement;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use warren_core::model::ids::UnitId;
use warren_core::protocol::request::Notice;
use warren_core::view::View;

const BACKLOG: i32 = 4096;
/// So long the bus's thread has at the end to send what there is to send: what it does is bounded, but
/// by what one call may cost. Whoever ends is not to wait longer for a client's sake.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

/// Why the bus could not be started.
#[derive(Debug)]
pub struct StartError {
    /// What was tried.
    pub action: &'static str,
    /// The socket's path.
    pub path: PathBuf,
    /// What the kernel said.
    pub errno: Errno,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.action, self.path.display(), self.errno)
    }
}

impl std::error::Error for StartError {}

/// A bus that serves. Dropping it ends its thread, for which it waits a second at most, and removes its
/// socket, unless somebody keeps that.
pub struct Bus {
    mailbox: Arc<Mailbox>,
    /// Hangs up when the thread ends.
    end: Receiver<()>,
    path: PathBuf,
    /// A copy of the one that clients come to.
    listener: OwnedFd,
    is_kept: bool,
}

impl Bus {
    /// Listens at `path`, in place of whatever socket is there, and serves in a thread of its
    /// own. If the socket there is that of an earlier bus, `kept` is its listener ([`Bus::listener`]):
    /// who connected since that one ended is served now, and who subscribed to its signals over the message
    /// bus is sent ours. Only the own user may connect: others, as with systemd, ask over a message bus. Who may
    /// write is decided by user id. With `message_bus`, the path of a message bus's socket,
    /// clients there are served as well, while its service is up.
    pub fn start(
        path: &Path,
        kept: Option<OwnedFd>,
        message_bus: Option<PathBuf>,
        backend: Arc<dyn Backend>,
    ) -> Result<Bus, StartError> {
        let error = |action| move |errno| StartError { action, path: path.to_owned(), errno };
        let mailbox = Arc::new(Mailbox::new().map_err(error("making the mailbox for"))?);
        let is_heir = kept.is_some();
        let listener = match kept.filter(|_| is_socket(path)) {
            Some(kept) => {
                // That of an older version may be open to all.
                rustix::fs::chmod(path, MODE).map_err(error("closing to others"))?;
                kept
            }
            None => listen_at(path).map_err(error("listening at"))?,
        };
        let copy = rustix::io::fcntl_dupfd_cloexec(&listener, 0);
        let copy = copy.map_err(error("copying the socket of"))?;
        let server_id = random_id().map_err(error("making an id for"))?;
        let link = message_bus.map(|path| Link::new(path, is_heir));
        let server = Server::new(listener, link, backend, mailbox.clone(), server_id)
            .map_err(error("waiting at"))?;
        let (running, end) = channel();
        std::thread::Builder::new()
            .name("bus".to_owned())
            .spawn(move || {
                server.run();
                drop(running);
            })
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))
            .map_err(error("making a thread for"))?;
        Ok(Bus { mailbox, end, path: path.to_owned(), listener: copy, is_kept: false })
    }

    /// The listening socket: whoever keeps it keeps those who connect while nobody serves.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The socket stays where it is when this bus ends: another one takes it over.
    pub fn leave_socket(&mut self) {
        self.is_kept = true;
    }

    /// Tells subscribers of a batch, after which things are as in `view`. [`Backend::view`] must give
    /// this one, or a later one, from now on. Never waits. What jobs that go on do may be kept back for others
    /// (see [`Bus::patience_left`]).
    pub fn publish(&self, view: &View, changed: Vec<UnitId>, notices: Vec<Notice>) {
        if !changed.is_empty() || !notices.is_empty() {
            self.mailbox.tell(view, changed, notices);
        }
    }

    /// Where clients of other sockets have polkit asked.
    pub fn authority(&self) -> Authority {
        Authority(self.mailbox.clone())
    }

    /// How long yet what may wait to be told has its time; [`Bus::relieve`] is to be called then.
    pub fn patience_left(&self, now: Instant) -> Option<Duration> {
        self.mailbox.patience_left(now)
    }

    /// Has told what has waited long enough.
    pub fn relieve(&self, now: Instant) {
        self.mailbox.relieve(now);
    }

    /// Wakes the bus's thread once for all that is told and answered until the value is dropped:
    /// what the manager has to say before it waits again. Never waits.
    pub fn hold(&self) -> Hold {
        self.mailbox.hold();
        Hold(self.mailbox.clone())
    }

    /// Tells all subscribers. Never waits.
    pub fn announce(&self, announcement: Announcement) {
        self.mailbox.put(Mail::Announcement(announcement));
    }
}

/// Has polkit asked for clients of other sockets: the bus's thread does it, which has the connection.
#[derive(Clone)]
pub struct Authority(Arc<Mailbox>);

impl Authority {
    /// Asks, without a person being asked for a password. Never waits; the verdict is dropped if the bus ends first.
    pub fn ask(&self, who: Who, question: Question, verdict: Verdict) {
        self.0.put(Mail::Authorize(Box::new(Authorize { who, question, verdict })));
    }
}

/// See [`Bus::hold`].
pub struct Hold(Arc<Mailbox>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.mailbox.put(Mail::Stop);
        // Nothing is ever sent: it hangs up, or does not in time.
        let _ = self.end.recv_timeout(FAREWELL_TIME);
        if !self.is_kept {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

/// Of the socket's file.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The socket gets its name by a rename: there is no moment at which the path leads nowhere.
fn listen_at(path: &Path) -> Result<OwnedFd, Errno> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::fs::unlink(&*fresh) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    bind(&socket, &SocketAddrUnix::new(&*fresh)?)?;
    rustix::fs::chmod(&*fresh, MODE)?;
    // Older kernels do not know it: see `Connection`.
    let _ = warren_sys::fdpass::refuse_fds(socket.as_fd());
    listen(&socket, BACKLOG)?;
    rustix::fs::rename(&*fresh, path)?;
    Ok(socket)
}

/// Whether the path leads to a socket: somebody may have removed it.
fn is_socket(path: &Path) -> bool {
    let found = rustix::fs::lstat(path);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Socket)
}

fn random_id() -> Result<[u8; 32], Errno> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let mut digits = [0_u8; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    Ok(digits)
}
