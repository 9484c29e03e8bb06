//! The link to the log daemon: services' output is handed over as streams, and the daemon is told
//! which unit each is of. `warren_log_daemon::input::handover` says what is said over it.
//!
//! A stream is a socket pair. The writing end becomes a process's standard output; init keeps the
//! reading end from before the process is there until the daemon says that it was read to its
//! end. So neither the daemon's death nor this process's loses a line: the next daemon says `HELLO`
//! and gets every stream again, under the number that it had.
//!
//! Nothing here waits: what the daemon does not take at once is in a queue until its
//! socket has room, and what is too much for the queue is asked of init again. While no daemon has said `HELLO` and
//! none is on its way (`awaited`), output goes to a file for each unit, as [`crate::spawn::request`] says. One that says it hears
//! of every unit that runs: with its streams, or else without.

pub(crate) mod awaited;

pub(crate) mod spill;

pub(crate) mod words;

use crate::base::clock::now;
use crate::base::say;
use crate::peer::log_link::awaited::Awaited;
pub(crate) use crate::peer::log_link::words::exec_of;
use crate::peer::log_link::words::{STREAM, StreamName, stream_header};
use crate::process::init_link::InitLink;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use warren_core::graph::Graph;
use warren_core::model::ids::UnitId;
use warren_core::settings::Compiled;
use warren_sys::fdpass;
use warren_unit::UnitName;
use warren_unit::config::{Copies, ExecConfig};

/// The unit of the log daemon. Its name is systemd's, which other units are ordered after.
pub const LOG_DAEMON: &str = "systemd-journald.service";

/// The name under which the daemon finds its end of the link; sd_listen_fds(3).
pub const LINK_FD_NAME: &str = "warren-link";

/// Names of both ends in init's store.
const OWN_END: &str = "log/manager";

const DAEMON_END: &str = "log/daemon";

/// Stored while a daemon that speaks this language is known to be there.
pub(crate) const HEARD: &str = "log/heard";

/// Largest packet of the daemon.
pub(crate) const PACKET_BYTES_MAX: usize = 64;

/// Larger than any packet to the daemon, which takes 128 KiB.
const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// So many units are told of at once to a daemon that has begun: as many as wait to be sent, however long their packets.
pub(crate) const UNITS_AT_ONCE: usize = 8;

/// Packets of the daemon taken in one turn.
pub(crate) const PACKETS_PER_TURN_MAX: usize = 4096;

/// Most streams at a time: init's store has room for other things beside them. With more, output
/// goes to files.
pub(crate) const STREAMS_MAX: usize = 48 << 10;

/// Most streams that this process holds because the daemon has not taken them yet.
const OUTGOING_MAX: usize = 1024;

/// So many streams of one turn wait for its end; with more, the daemon hears of them at once.
pub(crate) const OUTGOING_PER_TURN_MAX: usize = 64;

/// So many streams that were read to their end are left to init when it is about to end itself: to
/// close them one by one would cost the end of thousands of services more than it frees.
pub(crate) const LEFT_MAX: usize = 8 << 10;

/// Most files of units that ended, for daemons of namespaces.
pub(crate) const OLD_UNIT_FILES_MAX: usize = 1024;

/// Longest identifier in the name of a stream that init keeps, bytes.
pub(crate) const IDENTIFIER_BYTES_MAX: usize = 64;

/// What of this init kept.
#[derive(Default)]
pub struct KeptLog {
    own: Option<OwnedFd>,
    daemon: Option<OwnedFd>,
    heard: bool,
    streams: Vec<(String, OwnedFd)>,
}

impl KeptLog {
    /// Takes what has a name of this module; gives back what has not.
    pub fn take(&mut self, name: String, fd: OwnedFd) -> Option<(String, OwnedFd)> {
        match name.as_str() {
            OWN_END => self.own = Some(fd),
            DAEMON_END => self.daemon = Some(fd),
            HEARD => self.heard = true,
            n if n.starts_with(STREAM) => self.streams.push((name, fd)),
            _ => return Some((name, fd)),
        }
        None
    }
}

/// A stream that the daemon is to be told of.
pub(crate) struct Outgoing {
    pub(crate) key: u64,
    pub(crate) reader: OwnedFd,
    /// What it is told of is in these; none: in the unit's files, as they are by then.
    pub(crate) settings: Option<Arc<Compiled>>,
}

/// The manager's side.
pub struct LogLink {
    /// Ours; [`crate::base::say`] has it too.
    pub(crate) own: OwnedFd,
    /// Handed to each daemon.
    pub(crate) daemon: OwnedFd,
    /// A daemon that speaks this language is there.
    pub(crate) heard: bool,
    /// Streams that init keeps.
    pub(crate) streams: BTreeMap<u64, StreamName>,
    pub(crate) next: u64,
    /// Streams that the daemon has not taken yet.
    pub(crate) outgoing: VecDeque<Outgoing>,
    /// Those that init alone has, and that it is to be asked for.
    pub(crate) left_out: BTreeSet<u64>,
    /// Units that run, of whose settings the daemon that has begun is still to be told.
    pub(crate) untold: BTreeSet<UnitId>,
    /// Units of which it was said that their settings are too long.
    pub(crate) said_long: BTreeSet<UnitId>,
    /// Files that tell daemons of namespaces of units' settings.
    pub(crate) unit_files: BTreeMap<UnitId, PathBuf>,
    /// Those of units that ended, oldest first: their last messages may not have been read yet.
    pub(crate) old_unit_files: VecDeque<(UnitId, PathBuf)>,
    /// The socket took no more: nothing is tried before its other end was heard of.
    pub(crate) full: bool,
    /// Waiting for room in the socket.
    pub(crate) watches_room: bool,
    /// Init was asked for streams and has not sent all yet.
    pub(crate) asked: bool,
    /// More were left out since it was asked, and it may have passed them by.
    pub(crate) ask_again: bool,
    /// That output goes to files was said since there was a daemon last.
    pub(crate) said_files: bool,
    /// Streams that wait for the first word of a daemon.
    pub(crate) awaited: Awaited,
    /// Streams that init still keeps though they were read to their end.
    pub(crate) left_to_init: usize,
}

impl LogLink {
    /// The link as init kept it, or a new one that it keeps from now on.
    pub fn open(kept: KeptLog, init: &InitLink) -> Result<LogLink, String> {
        let text = |e: &dyn std::fmt::Display| format!("making the link to the log daemon: {e}");
        let (own, daemon) = match (kept.own, kept.daemon) {
            (Some(own), Some(daemon)) => (own, daemon),
            _ => {
                let pair = fdpass::seqpacket_pair(true).map_err(|e| text(&e))?;
                // The daemon is to see who speaks.
                fdpass::pass_credentials(pair.1.as_fd()).map_err(|e| text(&e))?;
                init.store(OWN_END, pair.0.as_fd()).map_err(|e| text(&e))?;
                init.store(DAEMON_END, pair.1.as_fd()).map_err(|e| text(&e))?;
                pair
            }
        };
        let mut link = LogLink {
            own,
            daemon,
            heard: kept.heard,
            streams: BTreeMap::new(),
            next: now().monotonic.0,
            outgoing: VecDeque::new(),
            left_out: BTreeSet::new(),
            untold: BTreeSet::new(),
            said_long: BTreeSet::new(),
            unit_files: BTreeMap::new(),
            old_unit_files: VecDeque::new(),
            full: false,
            watches_room: false,
            asked: false,
            ask_again: false,
            said_files: false,
            awaited: Awaited::default(),
            left_to_init: 0,
        };
        say::set_heard(kept.heard);
        for (name, fd) in kept.streams {
            link.take_up(&name, fd);
        }
        if !link.heard && !link.streams.is_empty() {
            link.awaited.begin();
        }
        Ok(link)
    }

    /// A stream that init keeps and that the daemon may not have.
    fn take_up(&mut self, name: &str, fd: OwnedFd) {
        let Some(name) = StreamName::parse(name) else { return };
        self.next = self.next.max(name.key + 1);
        self.queue(Outgoing { key: name.key, reader: fd, settings: None });
        self.streams.insert(name.key, name);
    }

    pub(crate) fn queue(&mut self, stream: Outgoing) {
        if self.outgoing.len() < OUTGOING_MAX {
            self.outgoing.push_back(stream);
        } else {
            self.left_out.insert(stream.key);
        }
    }

    /// Takes what the daemon has not taken. The streams among it are let go, for init and this process hold
    /// the socket that they are in; messages go back for the next daemon.
    pub(crate) fn take_back(&self) {
        let (mut buffer, mut fds, mut messages) =
            (vec![0; MESSAGE_BYTES_MAX], Vec::new(), Vec::new());
        while let Ok(received) = fdpass::recv(self.daemon.as_fd(), &mut buffer, &mut fds, false) {
            let is_stream = received.fds > 0 || received.lost_fds;
            fds.clear();
            match buffer.get(..received.bytes) {
                Some([]) | None => break,
                Some(bytes) if !is_stream => messages.push(bytes.to_owned()),
                Some(_) => {}
            }
        }
        for message in messages {
            // There was room for more.
            let _ = fdpass::try_send(self.own.as_fd(), &message, &[]);
        }
    }

    /// To be watched, and for the log.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    /// The end for a new daemon.
    pub fn daemon_end(&self) -> std::io::Result<OwnedFd> {
        self.daemon.try_clone()
    }
}

/// A writing end and what names it in `$JOURNAL_STREAM` (systemd.exec(5)).
pub(crate) struct NewStream {
    /// For the process.
    pub fd: OwnedFd,
    /// `DEVICE:INODE`.
    pub name: String,
}

/// A stream to the daemon of a namespace, which has no link: a connection like any client's, with
/// the unit's name, which is believed because root says it. It lasts as long as that daemon's unit
/// keeps its descriptors.
pub(crate) fn connect(
    unit: &str,
    exec: &ExecConfig,
    named: (&str, Copies),
) -> Result<NewStream, String> {
    let namespace = exec.log_namespace.as_deref().unwrap_or_default();
    let path = format!("{}/stdout", crate::spawn::request::log_sockets(namespace));
    let fd = warren_sys::socket::connect_stream(&path).map_err(|e| e.to_string())?;
    let stream = UnixStream::from(fd);
    let header = stream_header(unit, exec, named);
    // Into an empty socket: it fits.
    (&stream).write_all(header.as_bytes()).map_err(|e| e.to_string())?;
    stream.shutdown(Shutdown::Read).map_err(|e| e.to_string())?;
    let name = stream_name(&stream)?;
    Ok(NewStream { fd: stream.into(), name })
}

/// The directory beside the sockets of a namespace in which its daemon finds what it is to know of
/// units; `warren_log_daemon::daemon::unit_files` reads it.
const UNIT_FILES: &str = "units";

/// Puts what a daemon without a link is to know of a unit where that looks for it; gives the file.
pub(crate) fn put_unit_file(sockets: &Path, unit: &str, packet: &[u8]) -> std::io::Result<PathBuf> {
    let directory = sockets.join(UNIT_FILES);
    match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let (fresh, path) = (directory.join(".new"), directory.join(unit));
    std::fs::write(&fresh, packet)?;
    std::fs::rename(&fresh, &path)?;
    Ok(path)
}

/// `DEVICE:INODE` of a socket.
pub(crate) fn stream_name(stream: &UnixStream) -> Result<String, String> {
    let (device, inode) = warren_sys::waits::identity(stream.as_fd()).map_err(|e| e.to_string())?;
    Ok(format!("{device}:{inode}"))
}

pub(crate) fn lookup(graph: &Graph, name: &str) -> Option<UnitId> {
    graph.lookup(&UnitName::parse(name).ok()?)
}

#[cfg(test)]
mod tests;
