//! What the manager starts this daemon with, and what it keeps for it: sd_listen_fds(3) and
//! sd_notify(3). By hand there is neither.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::net::{SocketType, getsockname, sockopt};
use warren_sys::socket::{self, Kind, SocketOptions};
use warren_sys::{activation, notify};

/// Names of what is kept.
pub const LINK_NAME: &str = "warren-link";
/// The memory of entries that are in no file yet.
pub const PENDING_NAME: &str = "warren-pending";
/// Begins the name of a client's stream; its id follows.
pub const STREAM_NAME: &str = "stream-";

/// Begin the names of sockets that this daemon put in the place of those of the socket units; the inode of the file
/// follows.
pub const NATIVE_NAMES: &str = "native-";
/// The same for /dev/log.
pub const SYSLOG_NAMES: &str = "syslog-";

/// Name of the socket at which systemd's clients ask this daemon; varlink.
pub const VARLINK_SOCKET: &str = "io.systemd.journal";

/// File descriptors by what they are.
#[derive(Default)]
pub struct Inherited {
    /// Socket of the native protocol.
    pub native: Option<OwnedFd>,
    /// Socket of /dev/log.
    pub syslog: Option<OwnedFd>,
    /// Sockets that the last daemons put in the place of those two, by name.
    pub replaced: Vec<(String, OwnedFd)>,
    /// Listening socket for streams.
    pub stream: Option<OwnedFd>,
    /// Listening socket for questions of systemd's clients.
    pub varlink: Option<OwnedFd>,
    /// The link to the manager.
    pub link: Option<OwnedFd>,
    /// The memory of the last daemon.
    pub pending: Option<OwnedFd>,
    /// Streams of clients, by the ids in their names.
    pub streams: Vec<(String, OwnedFd)>,
}

impl Inherited {
    /// Takes what this process was started with.
    pub fn take() -> Inherited {
        let mut inherited = Inherited::default();
        activation::descriptors().into_iter().for_each(|(name, fd)| inherited.sort_in(&name, fd));
        inherited
    }

    fn sort_in(&mut self, name: &str, fd: OwnedFd) {
        if let Some(id) = name.strip_prefix(STREAM_NAME) {
            return self.streams.push((id.to_owned(), fd));
        }
        if name.starts_with(NATIVE_NAMES) || name.starts_with(SYSLOG_NAMES) {
            return self.replaced.push((name.to_owned(), fd));
        }
        match name {
            LINK_NAME => self.link = Some(fd),
            PENDING_NAME => self.pending = Some(fd),
            _ => match what_socket(fd.as_fd()) {
                Some(Which::Stream) => self.stream = Some(fd),
                Some(Which::Native) => self.native = Some(fd),
                Some(Which::Syslog) => self.syslog = Some(fd),
                Some(Which::Varlink) => self.varlink = Some(fd),
                None => {}
            },
        }
    }
}

enum Which {
    Stream,
    Native,
    Syslog,
    Varlink,
}

/// Which of the four sockets it is: the socket units may give their descriptors any name.
fn what_socket(fd: BorrowedFd<'_>) -> Option<Which> {
    let path = path_of(fd)?.to_string_lossy().into_owned();
    match sockopt::socket_type(fd).ok()? {
        SocketType::STREAM if path.ends_with(VARLINK_SOCKET) => Some(Which::Varlink),
        SocketType::STREAM => Some(Which::Stream),
        SocketType::DGRAM if path.ends_with("/dev-log") => Some(Which::Syslog),
        SocketType::DGRAM => Some(Which::Native),
        _ => None,
    }
}

/// Where a socket listens.
pub fn path_of(fd: BorrowedFd<'_>) -> Option<PathBuf> {
    let address = getsockname(fd).ok()?;
    let address = rustix::net::SocketAddrUnix::try_from(address).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(address.path()?.to_bytes())))
}

/// Tells the manager to keep this descriptor under a name; sd_notify(3), `FDSTORE=1`. False
/// without a manager.
pub fn keep(name: &str, fd: BorrowedFd<'_>) -> bool {
    // A client that is gone may have left lines in it, which the next daemon is to read.
    notify(&format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}"), &[fd])
}

/// Tells the manager to keep it no longer.
pub fn let_go(name: &str) {
    notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]);
}

/// Tells who started us that the sockets are there.
pub fn tell_ready() {
    notify("READY=1", &[]);
}

fn notify(text: &str, fds: &[BorrowedFd<'_>]) -> bool {
    notify::send(text, fds).unwrap_or_else(|e| {
        warren_sys::tell!("warren-journald: NOTIFY_SOCKET: {e}");
        false
    })
}

/// A socket of the daemon's own, where the manager gave none.
pub fn bind(path: String, kind: Kind, receive_buffer: u32) -> warren_sys::Result<OwnedFd> {
    Ok(socket::listen_at_once(kind, path, &options(receive_buffer))?.fd)
}

/// Another socket in the place of one at which datagrams come, and the inode of its file.
pub fn replace(path: &Path, receive_buffer: u32) -> warren_sys::Result<(OwnedFd, u64)> {
    socket::replace_datagram(path, &options(receive_buffer))
}

fn options(receive_buffer: u32) -> SocketOptions {
    SocketOptions {
        pass_credentials: true,
        receive_buffer: Some(receive_buffer),
        ..SocketOptions::default()
    }
}
