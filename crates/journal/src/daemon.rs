//! The log daemon: sockets in, store out. By hand:
//! `warren-journald --directory DIR --socket-directory DIR`.
//!
//! One thread receives and writes; a second one (`upkeep`) seals, merges and vacuums. A turn of
//! the loop takes what is ready, up to a bound for each source, so that one that floods does not
//! delay the others; entries are written at most `FLUSH_US` after they came and synced every
//! `SYNC_US`, at once for `crit` and worse.
//!
//! Not here yet: /dev/kmsg, audit, forwarding, namespaces, and the manager's own table of units;
//! a sender that is gone before it was looked up has no unit. On a disk so full that no log can be
//! sealed, and that has no segment to remove, new messages are lost and said to be on stderr.

mod sender;
mod streams;
mod upkeep;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::fdpass::{self, Credentials};
use warren_sys::signal::{self, SignalFd, SignalSet};
use warren_sys::socket::{Address, Kind, SocketOptions, listen};
use warren_sys::{memfd, time};

use crate::daemon::sender::{Host, Senders, Transport};
use crate::daemon::streams::Streams;
use crate::daemon::upkeep::Upkeep;
use crate::entry::{ENTRY_BYTES_MAX, Fields, Id128, Stamp};
use crate::error::{Error, Result};
use crate::files::Disk;
use crate::input::limit::{Limiter, Verdict};
use crate::input::{native, syslog};
use crate::store::vacuum::Limits;
use crate::store::{DEFAULT_CLASS, Setup, Store};

/// An entry is written so long after it came at the latest, µs.
const FLUSH_US: u64 = 250_000;

/// What was written is synced so long after it at the latest, µs.
const SYNC_US: u64 = 10_000_000;

/// Most messages that one source may have in a turn.
const TURN_MESSAGES_MAX: usize = 256;

/// Most turns of a source at the end: what waits in it is taken, a flood is not.
const LAST_TURNS_MAX: usize = 64;

/// Largest datagram, bytes; what is larger comes in a memfd.
const DATAGRAM_BYTES_MAX: usize = 8 << 20;

/// Receive buffers of the sockets, bytes.
const RECEIVE_BUFFER_BYTES: u32 = 8 << 20;

/// Priorities up to this one are synced at once: `crit`.
const SYNC_PRIORITY_MAX: u8 = b'2';

const TOKEN_SIGNAL: u64 = 0;
const TOKEN_NATIVE: u64 = 1;
const TOKEN_SYSLOG: u64 = 2;
const TOKEN_STREAM: u64 = 3;
const TOKEN_UPKEEP: u64 = 4;
/// Streams have this and higher ones.
const TOKEN_STREAMS: u64 = 16;

/// Signals of systemd-journald.service(8): rotate, and sync.
const SIGUSR2: i32 = 12;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGRTMIN_1: i32 = signal::SIGRTMIN + 1;

/// How to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the store is.
    pub directory: PathBuf,
    /// Where the sockets `socket`, `stdout` and `dev-log` are made.
    pub socket_directory: PathBuf,
    /// `RateLimitIntervalSec=`, µs.
    pub rate_limit_interval_us: u64,
    /// `RateLimitBurst=`.
    pub rate_limit_burst: u64,
    /// What to keep.
    pub limits: Limits,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot begin. Later troubles with the disk are logged and tried again.
pub fn run(options: &Options) -> Result<()> {
    let mut daemon = Daemon::start(options)?;
    let mut events = Events::with_capacity(TURN_MESSAGES_MAX);
    tell_ready();
    while !daemon.stopping {
        let timeout = daemon.timeout_us().map(Duration::from_micros);
        daemon.epoll.wait(&mut events, timeout).map_err(system)?;
        let tokens: Vec<u64> = events.iter().map(|ready| ready.token).collect();
        tokens.into_iter().for_each(|token| daemon.ready(token));
        daemon.end_turn();
    }
    daemon.finish()
}

/// Tells who started us that the sockets are there; sd_notify(3). Without a listener nothing is
/// lost.
fn tell_ready() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Ok(path) = std::env::var("NOTIFY_SOCKET") else { return };
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let told =
        address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address));
    if let Err(e) = told {
        eprintln!("warren-journald: NOTIFY_SOCKET: {e}");
    }
}

struct Daemon {
    epoll: Epoll,
    signals: SignalFd,
    native: OwnedFd,
    syslog: OwnedFd,
    stream: OwnedFd,
    streams: Streams,
    core: Core,
    buffer: Vec<u8>,
    stopping: bool,
}

/// What every input ends in.
struct Core {
    store: Store,
    upkeep: Upkeep,
    senders: Senders,
    limiter: Limiter,
    boot: Id128,
    /// When the oldest entry that is not written came, monotonic µs.
    unwritten_us: Option<u64>,
    /// When the oldest entry that is not synced came, monotonic µs.
    unsynced_us: Option<u64>,
    sync_now: bool,
    /// The last trouble, so that it is logged once and not each turn.
    trouble: Option<String>,
}

fn system(error: warren_sys::Error) -> Error {
    let name = error.path.as_ref().map_or(error.call.to_owned(), |path| path.display().to_string());
    Error::Io { op: error.call, name, errno: error.errno }
}

fn now_us() -> u64 {
    time::monotonic_ns() / 1000
}

fn bind(directory: &Path, name: &str, kind: Kind) -> Result<OwnedFd> {
    let path = directory.join(name);
    let options = SocketOptions {
        pass_credentials: true,
        receive_buffer: Some(RECEIVE_BUFFER_BYTES),
        ..SocketOptions::default()
    };
    let address = Address::Path(path.display().to_string());
    Ok(listen(kind, &address, &options).map_err(system)?.fd)
}

impl Daemon {
    fn start(options: &Options) -> Result<Daemon> {
        let make = |path: &Path| {
            std::fs::create_dir_all(path)
                .map_err(|e| Error::io("mkdir", &path.display().to_string(), &e))
        };
        make(&options.directory)?;
        make(&options.socket_directory)?;
        let set = [SIGTERM, SIGINT, SIGUSR2, SIGRTMIN_1];
        let set = set.iter().fold(SignalSet::EMPTY, |set, &signal| set.with(signal));
        // Blocked before the second thread is made, which inherits it.
        signal::set_blocked(set).map_err(system)?;
        let core = Core::start(options)?;
        let directory = &options.socket_directory;
        let daemon = Daemon {
            epoll: Epoll::new().map_err(system)?,
            signals: SignalFd::new(set).map_err(system)?,
            native: bind(directory, "socket", Kind::Datagram)?,
            syslog: bind(directory, "dev-log", Kind::Datagram)?,
            stream: bind(directory, "stdout", Kind::Stream)?,
            streams: Streams::default(),
            core,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            stopping: false,
        };
        daemon.watch()?;
        Ok(daemon)
    }

    fn watch(&self) -> Result<()> {
        let add =
            |fd: BorrowedFd<'_>, token| self.epoll.add(fd, token, Interest::READ).map_err(system);
        add(self.signals.as_fd(), TOKEN_SIGNAL)?;
        add(self.native.as_fd(), TOKEN_NATIVE)?;
        add(self.syslog.as_fd(), TOKEN_SYSLOG)?;
        add(self.stream.as_fd(), TOKEN_STREAM)?;
        add(self.core.upkeep.event().as_fd(), TOKEN_UPKEEP)
    }

    fn ready(&mut self, token: u64) {
        match token {
            TOKEN_SIGNAL => self.signal(),
            TOKEN_NATIVE => _ = self.datagrams(Transport::Journal),
            TOKEN_SYSLOG => _ = self.datagrams(Transport::Syslog),
            TOKEN_STREAM => self.streams.accept(&self.epoll, &self.stream),
            TOKEN_UPKEEP => self.core.hear_upkeep(),
            token => self.streams.read(&self.epoll, token, &mut self.buffer, &mut self.core),
        }
    }

    fn signal(&mut self) {
        while let Ok(Some(info)) = self.signals.read() {
            match info.signal {
                SIGUSR2 => self.core.rotate(),
                SIGRTMIN_1 => self.core.sync_now = true,
                _ => self.stopping = true,
            }
        }
    }

    /// Takes what a socket has, up to the bound of a turn; true when there may be more.
    fn datagrams(&mut self, transport: Transport) -> bool {
        let Daemon { native, syslog, core, buffer, .. } = self;
        let socket = if transport == Transport::Journal { native } else { syslog };
        let mut fds = Vec::new();
        for _ in 0..TURN_MESSAGES_MAX {
            let Ok(received) = fdpass::recv(socket.as_fd(), buffer, &mut fds, false) else {
                return false;
            };
            let sender = received.credentials.unwrap_or(Credentials {
                pid: 0,
                uid: u32::MAX,
                gid: u32::MAX,
            });
            let data = &buffer[..received.bytes.min(buffer.len())];
            match (transport, fds.pop()) {
                _ if received.truncated => core.note("A datagram was too large and is lost"),
                (Transport::Journal, Some(fd)) if fds.is_empty() && data.is_empty() => {
                    core.memfd(&fd, sender);
                }
                (_, Some(_)) => core.note("A datagram with file descriptors is lost"),
                (Transport::Journal, None) => core.native(data, sender),
                (_, None) => core.take(transport, sender, syslog::parse(data)),
            }
            fds.clear();
        }
        true
    }

    /// How long may pass before something must be written or synced, µs.
    fn timeout_us(&self) -> Option<u64> {
        let core = &self.core;
        let due =
            [core.unwritten_us.map(|at| at + FLUSH_US), core.unsynced_us.map(|at| at + SYNC_US)];
        due.into_iter().flatten().min().map(|due| due.saturating_sub(now_us()))
    }

    fn end_turn(&mut self) {
        let (core, now) = (&mut self.core, now_us());
        if core.sync_now || core.unsynced_us.is_some_and(|at| now >= at + SYNC_US) {
            core.sync();
        } else if core.unwritten_us.is_some_and(|at| now >= at + FLUSH_US) {
            core.flush();
        }
    }

    /// Takes what is still in the sockets, and leaves everything durable.
    fn finish(mut self) -> Result<()> {
        for transport in [Transport::Journal, Transport::Syslog] {
            (0..LAST_TURNS_MAX).take_while(|_| self.datagrams(transport)).for_each(drop);
        }
        self.streams.end(&mut self.buffer, &mut self.core);
        self.core.store.rotate()?;
        self.core.hand_over();
        self.core.upkeep.finish();
        Ok(())
    }
}

impl Core {
    fn start(options: &Options) -> Result<Core> {
        let disk = Disk::new(&options.directory);
        let lock = disk.lock()?;
        let files = Arc::new(disk);
        let host = Host::read();
        let boot = host.boot;
        let new_id = || Id128(warren_sys::random::u128().to_le_bytes());
        let setup = Setup { machine: host.machine, new_id: Box::new(new_id) };
        let (store, recovery) = Store::open(files.clone(), setup)?;
        let upkeep = Upkeep::start(files, lock, host.machine, options.limits.clone())?;
        let mut core = Core {
            store,
            upkeep,
            senders: Senders::new(host),
            limiter: Limiter::new(options.rate_limit_interval_us, options.rate_limit_burst),
            boot,
            unwritten_us: None,
            unsynced_us: None,
            sync_now: false,
            trouble: None,
        };
        core.hand_over();
        core.note("Journal started");
        for (name, bytes) in recovery.lost {
            core.note(&format!("{name} is damaged from byte {} to {}", bytes.start, bytes.end));
        }
        Ok(core)
    }

    fn memfd(&mut self, fd: &OwnedFd, sender: Credentials) {
        if !memfd::is_sealed(fd) {
            return self.note("A file that its sender may still change is refused");
        }
        match memfd::read_all(fd.as_fd(), ENTRY_BYTES_MAX) {
            Ok(data) => self.native(&data, sender),
            Err(e) => self.note(&format!("A message in a file is lost: {e}")),
        }
    }

    fn native(&mut self, data: &[u8], sender: Credentials) {
        for fields in native::parse(data).entries {
            self.take(Transport::Journal, sender, fields);
        }
    }

    /// Takes an entry of a client.
    fn take(&mut self, transport: Transport, sender: Credentials, fields: Fields) {
        let now = now_us();
        let context = self.senders.context(transport, sender, now);
        self.take_with(&context, &fields, now);
    }

    /// Takes an entry whose context is known, unless its service logs too much.
    fn take_with(&mut self, context: &Arc<Fields>, fields: &Fields, now: u64) {
        let who = context.get("_SYSTEMD_UNIT").or(context.get("_SYSTEMD_CGROUP")).unwrap_or(b"");
        match self.limiter.check(who, now) {
            Verdict::Drop => return,
            Verdict::Keep => {}
            Verdict::KeepAfter(count) => {
                let who = String::from_utf8_lossy(who).into_owned();
                self.note(&format!("Suppressed {count} messages from {who}"));
            }
        }
        self.append(context, fields, now);
    }

    fn append(&mut self, context: &Arc<Fields>, fields: &Fields, monotonic_us: u64) {
        let realtime_us = time::realtime_ns() / 1000;
        let stamp = Stamp { realtime_us, monotonic_us, boot: self.boot };
        match self.store.append(DEFAULT_CLASS, &stamp, context, fields) {
            Ok(_) => {
                self.unwritten_us.get_or_insert(monotonic_us);
                self.unsynced_us.get_or_insert(monotonic_us);
                let urgent = |priority: &[u8]| matches!(priority, [p] if *p <= SYNC_PRIORITY_MAX);
                self.sync_now |= fields.get("PRIORITY").is_some_and(urgent);
            }
            Err(e) => self.trouble(&e),
        }
        // A turn may bring more than the store keeps in memory. While the disk refuses, the next
        // try is left to the clock.
        if self.trouble.is_none() && self.store.wants_flush() {
            self.flush();
        }
    }

    /// An entry of the daemon's own.
    fn note(&mut self, text: &str) {
        let fields =
            [("PRIORITY", "5"), ("SYSLOG_IDENTIFIER", "warren-journald"), ("MESSAGE", text)];
        let now = now_us();
        let context = self.senders.own(now);
        self.append(&context, &fields.into_iter().collect(), now);
    }

    /// Says on stderr what is wrong, once for as long as it is the same, and asks for room.
    fn trouble(&mut self, error: &Error) {
        let text = error.to_string();
        if self.trouble.as_ref() != Some(&text) {
            eprintln!("warren-journald: {text}");
            self.upkeep.make_room();
            self.trouble = Some(text);
        }
    }

    fn flush(&mut self) {
        match self.store.flush() {
            Ok(()) => {
                self.unwritten_us = None;
                self.trouble = None;
            }
            Err(e) => {
                self.trouble(&e);
                self.unwritten_us = Some(now_us());
            }
        }
        self.hand_over();
    }

    fn sync(&mut self) {
        self.flush();
        match self.store.sync() {
            Ok(_) => (self.unsynced_us, self.sync_now) = (None, false),
            Err(e) => {
                self.trouble(&e);
                (self.unsynced_us, self.sync_now) = (Some(now_us()), false);
            }
        }
    }

    fn rotate(&mut self) {
        if let Err(e) = self.store.rotate() {
            self.trouble(&e);
        }
        self.hand_over();
    }

    /// Gives closed logs to the other thread.
    fn hand_over(&mut self) {
        let logs = self.store.take_sealable();
        if !logs.is_empty() {
            self.upkeep.seal(logs);
        }
    }

    fn hear_upkeep(&mut self) {
        for report in self.upkeep.reports() {
            self.note(&report);
        }
    }
}
