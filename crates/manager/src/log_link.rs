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
//! none is on its way (`awaited`), output goes to a file for each unit, as [`crate::spawn`] says. One that says it hears
//! of every unit that runs: with its streams, or else without.

mod awaited;
mod spill;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_core::graph::Graph;
use warren_core::ids::UnitId;
use warren_core::settings::Compiled;
use warren_sys::epoll::Interest;
use warren_sys::fdpass;
use warren_unit::config::{Copies, ExecConfig};
use warren_unit::{UnitName, UnitType};

use crate::daemon::{Daemon, now, token};
use crate::fd_store;
use crate::init_link::InitLink;
use crate::log;
use crate::log_link::awaited::Awaited;
use crate::log_link::words::{SETTINGS_BYTES_MAX, STREAM, StreamName, packet, stream_header};
pub(crate) use crate::log_link::words::{exec_of, put_field};
use crate::say;

/// The unit of the log daemon. Its name is systemd's, which other units are ordered after.
pub const LOG_DAEMON: &str = "systemd-journald.service";

/// The name under which the daemon finds its end of the link; sd_listen_fds(3).
pub const LINK_FD_NAME: &str = "warren-link";

/// Names of both ends in init's store.
const OWN_END: &str = "log/manager";
const DAEMON_END: &str = "log/daemon";

/// Stored while a daemon that speaks this language is known to be there.
const HEARD: &str = "log/heard";

/// What a daemon says first.
const HELLO: &str = "HELLO";

/// Largest packet of the daemon.
const PACKET_BYTES_MAX: usize = 64;

/// Larger than any packet to the daemon, which takes 128 KiB.
const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// So many units are told of at once to a daemon that has begun: as many as wait to be sent, however long their packets.
const UNITS_AT_ONCE: usize = 8;

/// Packets of the daemon taken in one turn.
const PACKETS_PER_TURN_MAX: usize = 4096;

/// Most streams at a time: init's store has room for other things beside them. With more, output
/// goes to files.
const STREAMS_MAX: usize = 48 << 10;

/// Most streams that this process holds because the daemon has not taken them yet.
const OUTGOING_MAX: usize = 1024;

/// So many streams of one turn wait for its end; with more, the daemon hears of them at once.
const OUTGOING_PER_TURN_MAX: usize = 64;

/// So many streams that were read to their end are left to init when it is about to end itself: to
/// close them one by one would cost the end of thousands of services more than it frees.
const LEFT_MAX: usize = 8 << 10;

/// Most files of units that ended, for daemons of namespaces.
const OLD_UNIT_FILES_MAX: usize = 1024;

/// Longest identifier in the name of a stream that init keeps, bytes.
const IDENTIFIER_BYTES_MAX: usize = 64;

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
struct Outgoing {
    key: u64,
    reader: OwnedFd,
    /// What it is told of is in these; none: in the unit's files, as they are by then.
    settings: Option<Arc<Compiled>>,
}

/// The manager's side.
pub struct LogLink {
    /// Ours; [`crate::log`] has it too.
    own: OwnedFd,
    /// Handed to each daemon.
    daemon: OwnedFd,
    /// A daemon that speaks this language is there.
    heard: bool,
    /// Streams that init keeps.
    streams: BTreeMap<u64, StreamName>,
    next: u64,
    /// Streams that the daemon has not taken yet.
    outgoing: VecDeque<Outgoing>,
    /// Those that init alone has, and that it is to be asked for.
    left_out: BTreeSet<u64>,
    /// Units that run, of whose settings the daemon that has begun is still to be told.
    untold: BTreeSet<UnitId>,
    /// Units of which it was said that their settings are too long.
    said_long: BTreeSet<UnitId>,
    /// Files that tell daemons of namespaces of units' settings.
    unit_files: BTreeMap<UnitId, PathBuf>,
    /// Those of units that ended, oldest first: their last messages may not have been read yet.
    old_unit_files: VecDeque<(UnitId, PathBuf)>,
    /// The socket took no more: nothing is tried before its other end was heard of.
    full: bool,
    /// Waiting for room in the socket.
    watches_room: bool,
    /// Init was asked for streams and has not sent all yet.
    asked: bool,
    /// More were left out since it was asked, and it may have passed them by.
    ask_again: bool,
    /// That output goes to files was said since there was a daemon last.
    said_files: bool,
    /// Streams that wait for the first word of a daemon.
    awaited: Awaited,
    /// Streams that init still keeps though they were read to their end.
    left_to_init: usize,
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
        log::set_heard(kept.heard);
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

    fn queue(&mut self, stream: Outgoing) {
        if self.outgoing.len() < OUTGOING_MAX {
            self.outgoing.push_back(stream);
        } else {
            self.left_out.insert(stream.key);
        }
    }

    /// Takes what the daemon has not taken. The streams among it are let go, for init and this process hold
    /// the socket that they are in; messages go back for the next daemon.
    fn take_back(&self) {
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
fn connect(unit: &str, exec: &ExecConfig, named: (&str, Copies)) -> Result<NewStream, String> {
    let namespace = exec.log_namespace.as_deref().unwrap_or_default();
    let path = format!("{}/stdout", crate::spawn::log_sockets(namespace));
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
fn put_unit_file(sockets: &Path, unit: &str, packet: &[u8]) -> std::io::Result<PathBuf> {
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
fn stream_name(stream: &UnixStream) -> Result<String, String> {
    let (device, inode) = warren_sys::waits::identity(stream.as_fd()).map_err(|e| e.to_string())?;
    Ok(format!("{device}:{inode}"))
}

impl Daemon {
    /// A stream for a process of a unit; `None` when there is no log daemon to read it.
    /// `identifier` is what its lines are called if the unit does not say, `copies` who else gets them.
    pub(crate) fn open_stream(
        &mut self,
        unit: UnitId,
        settings: &Arc<Compiled>,
        invocation: u128,
        (identifier, copies): (&str, Copies),
    ) -> Option<NewStream> {
        let name = self.core.graph().name(unit).as_str().to_owned();
        if name == LOG_DAEMON {
            return None;
        }
        if let Some(exec) = exec_of(settings).filter(|exec| exec.log_namespace.is_some()) {
            self.tell_namespace(unit, &name, exec, invocation);
            return connect(&name, exec, (identifier, copies))
                .inspect_err(|e| say!("{name}: its output goes to a file: {e}"))
                .ok();
        }
        if !self.has_log_daemon() || self.log_link.streams.len() >= STREAMS_MAX {
            self.say_files();
            return None;
        }
        let identifier: String = identifier.chars().take(IDENTIFIER_BYTES_MAX / 4).collect();
        let key = self.log_link.next;
        self.log_link.next += 1;
        let name = StreamName { key, unit: name, invocation, identifier, copies };
        match self.make_stream(&name) {
            Ok((stream, reader)) => {
                self.log_link.streams.insert(key, name);
                if self.log_link.heard {
                    // A daemon that is behind hears of many much later.
                    let settings = (!self.log_link.full).then(|| settings.clone());
                    self.tell_of_stream(Outgoing { key, reader, settings });
                } else {
                    // One that begins asks for all that init keeps.
                    self.log_link.awaited.begin();
                }
                Some(stream)
            }
            Err(e) => {
                say!("{}: its output goes to a file: {e}", name.unit);
                None
            }
        }
    }

    fn make_stream(&self, name: &StreamName) -> Result<(NewStream, OwnedFd), String> {
        let (writer, reader) = UnixStream::pair().map_err(|e| e.to_string())?;
        // Set before anything is written: each line is to come with its writer.
        fdpass::pass_credentials(reader.as_fd()).map_err(|e| e.to_string())?;
        writer.shutdown(Shutdown::Read).map_err(|e| e.to_string())?;
        self.init.store(&name.stored(), reader.as_fd()).map_err(|e| e.to_string())?;
        let stream = NewStream { name: stream_name(&writer)?, fd: writer.into() };
        Ok((stream, reader.into()))
    }

    /// Tells the daemon of the settings of a unit that gets no stream.
    pub(crate) fn tell_log_settings(
        &mut self,
        unit: UnitId,
        settings: &Compiled,
        invocation: u128,
    ) {
        let Some(exec) = exec_of(settings) else { return };
        if exec.log_namespace.is_some() {
            let name = self.core.graph().name(unit).as_str().to_owned();
            return self.tell_namespace(unit, &name, exec, invocation);
        }
        if self.log_link.heard {
            let packet = self.packet_of_unit(unit, exec, invocation);
            log::packet(packet);
        }
    }

    fn packet_of_unit(&mut self, unit: UnitId, exec: &ExecConfig, invocation: u128) -> Vec<u8> {
        let name = self.core.graph().name(unit).as_str().to_owned();
        let name = StreamName { unit: name, invocation, ..StreamName::default() };
        let (packet, is_long) = packet(&name, false, self.groups.path_and_id(unit), exec);
        if is_long {
            self.say_long(unit);
        }
        packet
    }

    /// Once for each run of a unit.
    fn say_long(&mut self, unit: UnitId) {
        if self.log_link.said_long.insert(unit) {
            let (name, room) = (self.core.graph().name(unit), SETTINGS_BYTES_MAX >> 10);
            say!(
                "{name}: LogExtraFields= and LogFilterPatterns= have more than {room} KiB: the last ones do not count"
            );
        }
    }

    /// Tells the daemon of the unit's namespace of its settings, which are kept for those that follow
    /// it.
    fn tell_namespace(&mut self, unit: UnitId, name: &str, exec: &ExecConfig, invocation: u128) {
        let sockets = crate::spawn::log_sockets(exec.log_namespace.as_deref().unwrap_or_default());
        let packet = self.packet_of_unit(unit, exec, invocation);
        match put_unit_file(Path::new(&sockets), name, &packet) {
            Ok(path) => _ = self.log_link.unit_files.insert(unit, path),
            Err(e) => say!("{name}: its log settings do not reach its namespace's daemon: {e}"),
        }
    }

    /// The daemon hears of a stream at the end of the turn: whoever is to write to it is made first.
    fn tell_of_stream(&mut self, stream: Outgoing) {
        self.log_link.queue(stream);
        if self.log_link.outgoing.len() >= OUTGOING_PER_TURN_MAX {
            self.send_outgoing();
        }
    }

    /// Sends what waits, as far as the daemon takes it.
    pub(crate) fn send_outgoing(&mut self) {
        if !self.log_link.full {
            self.try_outgoing();
        }
        self.watch_log_room();
    }

    fn try_outgoing(&mut self) {
        while self.log_link.heard
            && let Some(mut stream) = self.log_link.outgoing.pop_front()
        {
            let Some(name) = self.log_link.streams.get(&stream.key).cloned() else { continue };
            let packet = self.packet_of_stream(&name, stream.settings.take());
            let sent = fdpass::try_send(self.log_link.fd(), &packet, &[stream.reader.as_fd()]);
            if sent.is_err() {
                // The files may say something else by then.
                self.log_link.outgoing.push_front(stream);
                break;
            }
        }
        self.log_link.full = !log::flush(self.log_link.fd());
        self.tell_units();
        if self.log_link.heard
            && self.log_link.outgoing.is_empty()
            && !self.log_link.left_out.is_empty()
        {
            self.ask_for_streams();
        }
    }

    /// Tells a daemon that has begun of units, as far as it takes it: by the settings that their files have now.
    fn tell_units(&mut self) {
        while !self.log_link.full && !self.log_link.untold.is_empty() {
            for _ in 0..UNITS_AT_ONCE {
                let Some(unit) = self.log_link.untold.pop_first() else { break };
                self.tell_unit(unit);
            }
            self.log_link.full = !log::flush(self.log_link.fd());
        }
    }

    fn tell_unit(&mut self, unit: UnitId) {
        let Some(definition) = self.core.graph().get(unit) else { return };
        let settings = self.core.settings().compile(definition);
        // What a namespace is told stays in a file.
        let Some(exec) = exec_of(&settings).filter(|exec| exec.log_namespace.is_none()) else {
            return;
        };
        let invocation = self.core.unit_run(unit).history.as_ref().map_or(0, |h| h.invocation);
        let packet = self.packet_of_unit(unit, exec, invocation);
        log::packet(packet);
    }

    /// Units that run, but for those that the daemon is told of with their streams.
    fn units_to_tell(&self) -> BTreeSet<UnitId> {
        let graph = self.core.graph();
        let streams = self.log_link.streams.values();
        let told: BTreeSet<UnitId> = streams.filter_map(|name| lookup(graph, &name.unit)).collect();
        let logs = |name: &UnitName| {
            matches!(name.unit_type(), UnitType::Service | UnitType::Socket | UnitType::Mount)
        };
        let runs = |unit: &UnitId| !self.core.unit_run(*unit).active_state().is_down();
        let units = graph.names().filter(|(name, _)| logs(name)).map(|(_, unit)| unit);
        units.filter(|unit| !told.contains(unit) && runs(unit)).collect()
    }

    /// Asks init for the streams that are left out; [`Daemon::take_listed`] gets them.
    fn ask_for_streams(&mut self) {
        if std::mem::replace(&mut self.log_link.asked, true) {
            return;
        }
        if let Err(e) = self.init.list_stored() {
            say!("cannot ask init for the streams of services: {e}");
        }
    }

    /// What is told of a stream: by these settings, or by what the unit's files say now.
    fn packet_of_stream(&mut self, name: &StreamName, settings: Option<Arc<Compiled>>) -> Vec<u8> {
        let unit = lookup(self.core.graph(), &name.unit);
        let settings = settings.or_else(|| {
            let definition = self.core.graph().get(unit?)?;
            Some(Arc::new(self.core.settings().compile(definition)))
        });
        let default = ExecConfig::default();
        let exec = settings.as_deref().and_then(exec_of).unwrap_or(&default);
        let group = unit.and_then(|unit| self.groups.path_and_id(unit));
        let (packet, is_long) = packet(name, true, group, exec);
        if let Some(unit) = unit.filter(|_| is_long) {
            self.say_long(unit);
        }
        packet
    }

    fn watch_log_room(&mut self) {
        let link = &self.log_link;
        let waits = !link.outgoing.is_empty() || !link.untold.is_empty() || log::is_behind();
        let wanted = link.heard && waits;
        if wanted != self.log_link.watches_room {
            let interest = if wanted { Interest::READ | Interest::WRITE } else { Interest::READ };
            let changed = self.epoll.modify(self.log_link.fd(), token::LOG, interest);
            self.log_link.watches_room = wanted && changed.is_ok();
        }
    }

    /// Takes what the daemon said, and goes on with what waits for it.
    pub(crate) fn read_log_link(&mut self) {
        self.log_link.full = false;
        if !self.log_link.heard && self.is_greeted() {
            self.note_log_daemon();
        }
        let (mut buffer, mut fds) = ([0; PACKET_BYTES_MAX], Vec::new());
        for _ in 0..PACKETS_PER_TURN_MAX {
            let own = self.log_link.own.as_fd();
            let Ok(received) = fdpass::recv(own, &mut buffer, &mut fds, false) else { break };
            fds.clear();
            let said = buffer.get(..received.bytes).unwrap_or_default();
            match std::str::from_utf8(said).unwrap_or_default() {
                "" => break,
                HELLO => self.greet_log_daemon(),
                said => {
                    let key = said.strip_prefix("ENDED=").and_then(|key| key.parse().ok());
                    key.into_iter().for_each(|key| self.stream_ended(key));
                }
            }
        }
        self.send_outgoing();
    }

    fn stream_ended(&mut self, key: u64) {
        self.log_link.left_out.remove(&key);
        let Some(name) = self.log_link.streams.remove(&key) else { return };
        let link = &mut self.log_link;
        if self.ending.as_ref().is_some_and(|e| e.takes_init()) && link.left_to_init < LEFT_MAX {
            link.left_to_init += 1;
            return;
        }
        let _ = self.init.drop_stored(&name.stored());
    }

    /// Whether a daemon has begun, and nothing was read of it yet.
    fn is_greeted(&self) -> bool {
        let mut said = [0; PACKET_BYTES_MAX];
        let next = fdpass::peek_plain(self.log_link.fd(), &mut said);
        next.is_ok_and(|next| said.get(..next.bytes) == Some(HELLO.as_bytes()))
    }

    /// A daemon is there. Init hears of it before its word is read, which is said once.
    fn note_log_daemon(&mut self) {
        self.log_link.heard = true;
        self.log_link.said_files = false;
        self.log_link.awaited.end();
        log::set_heard(true);
        if let Err(e) = self.init.store(HEARD, self.log_link.daemon.as_fd()) {
            say!("init cannot keep that the log daemon is there: {e}");
        }
    }

    /// A daemon has begun: init is asked for all streams, as this process has none of them but what waits to be
    /// sent, and what is let go by who copies it.
    fn greet_log_daemon(&mut self) {
        if !self.log_link.heard {
            self.note_log_daemon();
        }
        self.log_link.leave_out_all();
        self.log_link.untold = self.units_to_tell();
    }

    /// A part of what init keeps, as it was asked for.
    pub(crate) fn take_listed(&mut self, listed: Vec<(String, OwnedFd)>, last: bool) {
        // Init keeps the others: they may be of units', whatever they are.
        let mut others = Vec::new();
        for (name, fd) in listed {
            let Some(name) = StreamName::parse(&name) else {
                others.push(fd);
                continue;
            };
            if !self.log_link.heard {
                self.log_link.copy(name, fd);
            } else if self.log_link.left_out.remove(&name.key) {
                self.log_link.queue(Outgoing { key: name.key, reader: fd, settings: None });
            }
        }
        fd_store::let_go(others);
        if last {
            self.log_link.asked = false;
            let again = std::mem::take(&mut self.log_link.ask_again);
            if !again && self.log_link.outgoing.is_empty() && !self.log_link.awaited.is_full() {
                // Init does not have the others.
                self.log_link.left_out.clear();
            }
            if again && !self.log_link.heard {
                self.ask_for_streams();
            }
        }
        self.send_outgoing();
    }

    /// The unit forgot what it was: nothing more is to be said of it.
    pub(crate) fn forget_log_settings(&mut self, unit: UnitId) {
        self.log_link.untold.remove(&unit);
        self.log_link.said_long.remove(&unit);
        let Some(path) = self.log_link.unit_files.remove(&unit) else { return };
        self.log_link.old_unit_files.push_back((unit, path));
        if self.log_link.old_unit_files.len() > OLD_UNIT_FILES_MAX
            && let Some((unit, path)) = self.log_link.old_unit_files.pop_front()
            && self.log_link.unit_files.get(&unit) != Some(&path)
        {
            // It goes with the sockets' directory otherwise.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn lookup(graph: &Graph, name: &str) -> Option<UnitId> {
    graph.lookup(&UnitName::parse(name).ok()?)
}

#[cfg(test)]
mod tests;
