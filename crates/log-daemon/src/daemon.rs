//! The log daemon: sockets in, store out. By hand:
//! `warren-journald --directory DIR --socket-directory DIR`. As a service of the manager it gets
//! its sockets and the streams of services from it (`link`, `inherit`), and the manager keeps
//! them while it is away.
//!
//! One thread receives and writes; a second one (`syncer`) makes it durable, a third one (`upkeep`)
//! seals, merges and vacuums. A turn of
//! the loop takes what is ready, up to a bound for each source, so that one that floods does not
//! delay the others. What a turn took is put at its end where it outlives this process
//! (`pending`); it is written at once after a pause, else at most `FLUSH_US` after it came (10 ms
//! for `err` and worse), and synced every `SYNC_US`, at once for `crit` and worse.
//!
//! `places` says where messages are kept and when that changes, `forward` who else gets them.
//!
//! On a disk so full that no log can be sealed, and that has no
//! segment to remove, new messages are lost and said to be on stderr.

mod audit;
mod bounds;
mod clock;
mod control;
mod core;
mod datagrams;
mod forward;
mod half_lines;
mod inherit;
mod keep;
mod kmsg;
mod link;
mod message_file;
mod mirror;
mod mirrors;
mod mounts;
mod offered;
mod options;
mod pending;
mod places;
mod readers;
mod sender;
mod shortage;
mod stream_turns;
mod streams;
mod syncer;
mod tails;
mod tokens;
mod turnover;
mod unit_files;
mod units;
mod upkeep;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use warren_sys::signal::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::notify::Watchdog;
use warren_sys::process;
use warren_sys::signal::{self, SignalFd, SignalSet};
use warren_sys::socket::{self, Kind};
use warren_sys::{fdpass, memfd};
use warren_wire::control::LogCounts;
use warren_wire::log::{Answer, Order, Question};

use crate::daemon::audit::Audit;
use crate::daemon::bounds::{TURN_BYTES_MAX, TURN_MESSAGES_MAX};
use crate::daemon::clock::now_us;
use crate::daemon::control::Control;
use crate::daemon::core::Core;
use crate::daemon::datagrams::{Inlet, ReceiveBuffers};
use crate::daemon::inherit::{Inherited, PENDING_NAME};
use crate::daemon::kmsg::Kmsg;
use crate::daemon::link::{Link, Received};
use crate::daemon::mounts::Mounts;
pub use crate::daemon::options::Options;
use crate::daemon::pending::Pending;
pub use crate::daemon::places::Places;
pub use crate::daemon::readers::Readers;
use crate::daemon::sender::Transport;
use crate::daemon::shortage::Shortage;
use crate::daemon::stream_turns::{ORDER_BYTES_MAX, STREAM_BYTES_MIN, StreamsOf};
use crate::daemon::streams::Streams;
use crate::daemon::tokens::{
    TOKEN_AUDIT, TOKEN_CONTROL, TOKEN_KMSG, TOKEN_LINK, TOKEN_MOUNTS, TOKEN_NATIVE,
    TOKEN_OTHER_STREAMS, TOKEN_QUESTIONS, TOKEN_ROOT_STREAMS, TOKEN_SIGNAL, TOKEN_STREAM,
    TOKEN_SYSLOG, TOKEN_UPKEEP,
};
use crate::daemon::turnover::Turnover;
use crate::daemon::unit_files::UnitFiles;
use crate::input::handover::Packet;
use crate::input::loss;
use crate::input::pending::PendingContent;
use warren_log_store::entry::Id128;
use warren_log_store::error::{Error, Result, system};
use warren_log_store::host::Host;
use warren_log_store::places::CONTROL_SOCKET;

/// Most turns of a source at the end: what waits in it is taken, a flood is not.
const LAST_TURNS_MAX: usize = 64;

/// Most turns before an order is carried out in which what was sent before it is taken.
const ORDER_TURNS_MAX: usize = 64;

/// Largest datagram, bytes; what is larger comes in a memfd.
const DATAGRAM_BYTES_MAX: usize = 8 << 20;

/// Receive buffers of the sockets, bytes.
const RECEIVE_BUFFER_BYTES: u32 = 8 << 20;

const SIGRTMIN_1: i32 = signal::SIGRTMIN + 1;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot begin. Later troubles with the disk are logged and tried again.
pub fn run(options: &Options) -> Result<()> {
    let mut daemon = Daemon::start(options)?;
    let mut events = Events::with_capacity(TURN_MESSAGES_MAX);
    inherit::tell_ready();
    while !daemon.stopping {
        // Before it waits: what was opened in the last turn has epochs that end.
        daemon.end_epoch();
        daemon.core.look_at_ages();
        daemon.return_to_disk();
        daemon.look_after_sockets();
        daemon.core.tell_losses();
        daemon.core.give_back_memory();
        daemon.watchdog.iter_mut().for_each(|watchdog| watchdog.feed(now_us()));
        let timeout = daemon.timeout_us().map(Duration::from_micros);
        daemon.epoll.wait(&mut events, timeout).map_err(system)?;
        let tokens = events.iter().map(|ready| ready.token);
        // Who asks for what is written means what others wrote before.
        let (questions, sources): (Vec<u64>, Vec<u64>) =
            tokens.partition(|token| *token >= TOKEN_QUESTIONS);
        let mut bytes_of_others = usize::MAX;
        sources.into_iter().for_each(|token| _ = daemon.ready(token, &mut bytes_of_others));
        daemon.end_turn();
        daemon.take_orders();
        if !questions.is_empty() {
            daemon.answer_all(questions, &mut events)?;
            daemon.end_turn();
        }
    }
    daemon.finish()
}

struct Daemon {
    epoll: Epoll,
    signals: SignalFd,
    native: Inlet,
    syslog: Inlet,
    stream: OwnedFd,
    link: Option<Link>,
    /// In a namespace, instead of the link.
    unit_files: Option<UnitFiles>,
    control: Control,
    kmsg: Option<Kmsg>,
    audit: Option<Audit>,
    streams: Streams,
    core: Core,
    boot: Id128,
    buffer: Vec<u8>,
    taken: ReceiveBuffers,
    /// What signals asked for in this turn.
    orders: Vec<Order>,
    shortage: Shortage,
    turnover: Turnover,
    mounts: Mounts,
    /// The manager kills a daemon whose loop does not turn.
    watchdog: Option<Watchdog>,
    stopping: bool,
}

/// The socket of that name: the manager's, or one of our own.
fn socket(given: Option<OwnedFd>, directory: &Path, name: &str, kind: Kind) -> Result<OwnedFd> {
    match given {
        Some(fd) => Ok(fd),
        None => {
            let path = directory.join(name).display().to_string();
            inherit::bind(path, kind, RECEIVE_BUFFER_BYTES).map_err(system)
        }
    }
}

/// The socket for datagrams of that name.
fn inlet(
    given: Option<OwnedFd>,
    directory: &Path,
    name: &str,
    transport: Transport,
) -> Result<Inlet> {
    let path = given.as_ref().and_then(|fd| inherit::path_of(fd.as_fd()));
    let path = path.unwrap_or_else(|| directory.join(name));
    Ok(Inlet::new(socket(given, directory, name, Kind::Datagram)?, transport, path))
}

/// The socket at which systemd's clients ask: the manager's, or one of our own.
fn varlink(given: Option<OwnedFd>, directory: &Path) -> Result<Option<OwnedFd>> {
    if given.is_some() {
        return Ok(given);
    }
    let path = directory.join(inherit::VARLINK_SOCKET).display().to_string();
    socket::listen_private(path).map(Some).map_err(system)
}

/// The socket at which the log's readers ask, too.
fn listen_at_control(path: String, readers: &Readers) -> Result<OwnedFd> {
    // Who is not root may not give files away.
    let group = readers.first().filter(|_| process::own_ids().0 == 0);
    socket::listen_for_group(path, group).map_err(system)
}

/// The memory for what is not written: the last daemon's, else a new one if the manager keeps it.
fn take_up_pending(given: Option<OwnedFd>) -> (Pending, PendingContent) {
    let memory = given.or_else(|| {
        let made = memfd::create("warren-pending").ok()?;
        inherit::keep(PENDING_NAME, made.as_fd()).then_some(made)
    });
    memory.map_or_else(|| (Pending::none(), PendingContent::default()), Pending::over)
}

/// Takes what the manager tells of units, what it says itself, and streams; true when it said
/// something.
fn hear_manager(
    link: &mut Option<Link>,
    core: &mut Core,
    streams: &mut Streams,
    boot: Id128,
) -> bool {
    for turn in 0..TURN_MESSAGES_MAX {
        let Some(received) = link.as_mut().and_then(Link::receive) else { return turn > 0 };
        let Received { packets, mut fd, sender, faults } = received;
        faults.iter().for_each(|fault| core.note(fault));
        for packet in packets {
            match packet {
                Packet::Unit(unit) => _ = core.learn(unit),
                Packet::Entry { time_us, fields } => core.manager(sender, time_us, fields),
                Packet::Stream { key, unit } => {
                    let unit = core.learn(unit);
                    let taken = match fd.take() {
                        Some(fd) => streams.take((key, fd), unit.clone(), boot, core.pending()),
                        None => Err("its file descriptor is missing".to_owned()),
                    };
                    if let Err(why) = taken {
                        core.lose_of(unit.name.as_bytes(), None, (loss::Kind::Stream, &why, 1));
                    }
                }
            }
        }
    }
    true
}

impl Daemon {
    fn start(options: &Options) -> Result<Daemon> {
        let make = |path: &Path| {
            std::fs::create_dir_all(path)
                .map_err(|e| Error::io("mkdir", &path.display().to_string(), &e))
        };
        make(&options.socket_directory)?;
        let set = [SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGRTMIN_1];
        let set = set.iter().fold(SignalSet::EMPTY, |set, &signal| set.with(signal));
        // Blocked before the second thread is made, which inherits it.
        signal::set_blocked(set).map_err(system)?;
        let inherited = Inherited::take();
        // The daemon of a namespace has no link: its streams are connections that the manager made.
        let managed = inherited.link.is_some() || options.namespace.is_some();
        let (pending, mut found) = match managed {
            true => take_up_pending(inherited.pending),
            false => (Pending::none(), PendingContent::default()),
        };
        let old = std::mem::take(&mut found.entries);
        let next = found.next.get(kmsg::NAME).copied();
        let boot = Host::read().boot;
        let directory = &options.socket_directory;
        let control = directory.join(CONTROL_SOCKET).display().to_string();
        let descriptors = process::use_all_open_files().map_err(system)? as usize;
        let mut daemon = Daemon {
            epoll: Epoll::new().map_err(system)?,
            signals: SignalFd::new(set).map_err(system)?,
            native: inlet(inherited.native, directory, "socket", Transport::Journal)?,
            syslog: inlet(inherited.syslog, directory, "dev-log", Transport::Syslog)?,
            stream: socket(inherited.stream, directory, "stdout", Kind::Stream)?,
            link: inherited.link.map(Link::new),
            unit_files: None,
            kmsg: None,
            audit: None,
            control: Control::new(
                [listen_at_control(control, options.places.readers())?]
                    .into_iter()
                    .chain(varlink(inherited.varlink, directory)?)
                    .collect(),
            ),
            streams: Streams::new(
                found,
                managed.then(|| directory.join("streams")),
                options.config.line_bytes_max,
                descriptors,
            )
            .map_err(system)?,
            core: Core::start(options, (pending, old), descriptors)?,
            boot,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            taken: ReceiveBuffers::default(),
            orders: Vec::new(),
            shortage: Shortage::default(),
            turnover: Turnover::default(),
            mounts: Mounts::default(),
            watchdog: Watchdog::of_environment(now_us()),
            stopping: false,
        };
        daemon.take_up_replaced(inherited.replaced);
        if options.kmsg {
            daemon.open_kmsg(directory, next);
        }
        if options.audit {
            daemon.open_audit();
        }
        if options.namespace.is_some() {
            daemon.watch_unit_files(directory);
        }
        let _ = fdpass::refuse_fds(daemon.stream.as_fd());
        daemon.watch()?;
        for (name, stream) in inherited.streams {
            let pending = daemon.core.pending();
            let taken = daemon.streams.take_up_client(&name, stream, pending);
            if let Err(why) = taken {
                daemon.core.lose_of(b"", None, (loss::Kind::Stream, &why, 1));
            }
        }
        daemon.link.iter().for_each(Link::hello);
        options.faults.iter().for_each(|fault| daemon.core.note(&fault.to_string()));
        Ok(daemon)
    }

    /// A container has none, or may not read it.
    fn open_kmsg(&mut self, directory: &Path, next: Option<u64>) {
        match Kmsg::open(directory, self.boot, next) {
            Ok(kmsg) => self.kmsg = Some(kmsg),
            Err(e) => self.core.note(&format!("Cannot read the kernel's log: /dev/kmsg: {e}")),
        }
    }

    /// Without the right to, or in a container, there are no records for us.
    fn open_audit(&mut self) {
        match Audit::open() {
            Ok(audit) => self.audit = Some(audit),
            Err(e) => self.core.note(&format!("Cannot read audit records: {e}")),
        }
    }

    /// Without, units have the defaults.
    fn watch_unit_files(&mut self, directory: &Path) {
        match UnitFiles::watch(directory) {
            Ok(files) => self.unit_files = Some(files),
            Err(e) => self.core.note(&format!("Cannot read the log settings of units: {e}")),
        }
    }

    fn watch(&self) -> Result<()> {
        let add =
            |fd: BorrowedFd<'_>, token| self.epoll.add(fd, token, Interest::READ).map_err(system);
        add(self.signals.as_fd(), TOKEN_SIGNAL)?;
        add(self.native.socket().as_fd(), TOKEN_NATIVE)?;
        add(self.syslog.socket().as_fd(), TOKEN_SYSLOG)?;
        add(self.stream.as_fd(), TOKEN_STREAM)?;
        add(self.streams.fd(StreamsOf::Root), TOKEN_ROOT_STREAMS)?;
        add(self.streams.fd(StreamsOf::Others), TOKEN_OTHER_STREAMS)?;
        self.link.iter().try_for_each(|link| add(link.fd(), TOKEN_LINK))?;
        self.kmsg.iter().try_for_each(|kmsg| add(kmsg.file().as_fd(), TOKEN_KMSG))?;
        self.audit.iter().try_for_each(|audit| add(audit.fd(), TOKEN_AUDIT))?;
        let listeners = self.control.listeners().iter();
        listeners.into_iter().try_for_each(|listener| add(listener.as_fd(), TOKEN_CONTROL))?;
        add(self.core.event().as_fd(), TOKEN_UPKEEP)
    }

    /// Takes what a source has, up to the bound of a turn; true when there may be more. `bytes_of_others` may come from
    /// streams of users, new ones among them, and is less by what came.
    fn ready(&mut self, token: u64, bytes_of_others: &mut usize) -> bool {
        match token {
            TOKEN_SIGNAL => self.signal(),
            TOKEN_NATIVE => return self.datagrams(Transport::Journal),
            TOKEN_SYSLOG => return self.datagrams(Transport::Syslog),
            TOKEN_STREAM if *bytes_of_others > 0 => {
                let (some, of_others) = self.accept_streams();
                *bytes_of_others = bytes_of_others.saturating_sub(of_others * STREAM_BYTES_MIN);
                return some;
            }
            TOKEN_UPKEEP => self.core.hear_upkeep(),
            TOKEN_MOUNTS => self.core.hasten_trial(),
            TOKEN_LINK => return self.hear_manager(),
            TOKEN_KMSG => return self.read_kmsg(),
            TOKEN_AUDIT => return self.read_audit(),
            TOKEN_CONTROL => self.accept_questions(),
            TOKEN_ROOT_STREAMS => return self.read_streams(StreamsOf::Root, &mut { usize::MAX }),
            TOKEN_OTHER_STREAMS => return self.read_streams(StreamsOf::Others, bytes_of_others),
            _ => {}
        }
        false
    }

    /// Reads from streams up to the bound of a turn and so many bytes; true when there may be more.
    fn read_streams(&mut self, of: StreamsOf, bytes_left: &mut usize) -> bool {
        if *bytes_left == 0 {
            return false;
        }
        let (tokens, mut has_more) = self.streams.ready(of);
        let mut bytes = 0;
        for (at, &token) in tokens.iter().enumerate() {
            if bytes >= TURN_BYTES_MAX.min(*bytes_left) {
                self.streams.leave(of, &tokens[at..]);
                has_more = true;
                break;
            }
            if self.streams.wants_unit(token) {
                self.hear_manager();
            }
            let (read, more) = self.streams.read(token, &mut self.buffer, &mut self.core);
            bytes += read.max(STREAM_BYTES_MIN);
            has_more |= more;
        }
        *bytes_left = bytes_left.saturating_sub(bytes);
        has_more && *bytes_left > 0
    }

    fn read_kmsg(&mut self) -> bool {
        self.kmsg.as_mut().is_some_and(|kmsg| kmsg.read(&mut self.core))
    }

    fn read_audit(&mut self) -> bool {
        self.audit.as_ref().is_some_and(|audit| audit.read(&mut self.core))
    }

    fn hear_manager(&mut self) -> bool {
        let Daemon { link, unit_files, core, streams, boot, .. } = self;
        unit_files.iter_mut().for_each(|files| files.learn(core));
        hear_manager(link, core, streams, *boot)
    }

    fn signal(&mut self) {
        while let Ok(Some(info)) = self.signals.read() {
            match info.signal {
                SIGUSR1 => self.orders.push(Order::FlushToVar),
                SIGUSR2 => self.orders.push(Order::Rotate { sealed: false }),
                SIGRTMIN_1 => self.core.sync_now = true,
                _ => self.stopping = true,
            }
        }
    }

    /// What an epoch of the ledger has goes to a segment when it ends. The receiving thread does not
    /// wait for that: on a slow disk it has its line in the next epoch.
    fn end_epoch(&mut self) {
        if self.core.epoch_has_ended() {
            self.core.begin_rotation();
            self.core.write_ledger();
        }
    }

    /// Does what signals asked for. What is wrong is said.
    fn take_orders(&mut self) {
        for order in std::mem::take(&mut self.orders) {
            let _ = self.carry_out(order);
        }
    }

    /// Reads from those who ask, and answers when it is done.
    fn answer_all(&mut self, tokens: Vec<u64>, events: &mut Events) -> Result<()> {
        let read = |token| Some((token, self.control.read(token)?));
        let questions: Vec<(u64, Question)> = tokens.into_iter().filter_map(read).collect();
        let (questions, refused): (Vec<_>, Vec<_>) = questions
            .into_iter()
            .partition(|(token, question)| self.control.may_ask(*token, question));
        refused.into_iter().for_each(|(token, _)| self.control.answer(token, &control::refused()));
        if questions.iter().any(|(_, question)| matches!(question, Question::Order(_))) {
            self.catch_up(events)?;
        }
        for (token, question) in questions {
            let answer = match question {
                Question::Order(order @ Order::Rotate { sealed: true }) => {
                    self.rotate_and_seal(token, order);
                    continue;
                }
                Question::Tail(unit) => control::tail(&self.core, &unit),
                Question::Counts => Answer::Counts(LogCounts {
                    streams: self.streams.count() as u64,
                    ..self.core.counts()
                }),
                Question::Order(order) => control::done(self.carry_out(order)),
                Question::Unknown(method) => Answer::Unknown(method),
            };
            self.control.answer(token, &answer);
        }
        Ok(())
    }

    /// Closes all files, and has who asked for it answered when they are sealed.
    fn rotate_and_seal(&mut self, token: u64, order: Order) {
        let answer = control::done(self.carry_out(order));
        if let Some(asking) = self.control.release(&self.epoll, token) {
            self.core.when_sealed(move || asking.answer(&answer));
        }
    }

    /// Takes what was sent before an order came, of which a turn may have left something: until
    /// each source has had nothing more once. Who writes without a pause is taken up to a bound.
    fn catch_up(&mut self, events: &mut Events) -> Result<()> {
        let (mut drained, mut bytes_of_others) = (BTreeSet::new(), ORDER_BYTES_MAX);
        for _ in 0..ORDER_TURNS_MAX {
            self.epoll.wait(events, Some(Duration::ZERO)).map_err(system)?;
            let is_all = events.len() < TURN_MESSAGES_MAX;
            let tokens = events.iter().map(|ready| ready.token);
            let sources: Vec<u64> = tokens.filter(|token| *token < TOKEN_QUESTIONS).collect();
            for token in &sources {
                if !self.ready(*token, &mut bytes_of_others) {
                    drained.insert(*token);
                }
            }
            self.end_turn();
            if is_all && sources.iter().all(|token| drained.contains(token)) {
                break;
            }
        }
        Ok(())
    }

    /// Does what is asked for between two turns.
    fn carry_out(&mut self, order: Order) -> Result<()> {
        match order {
            Order::Write => self.core.flush(),
            Order::Synchronize => self.core.sync(),
            Order::Rotate { .. } => self.core.rotate(),
            Order::FlushToVar | Order::RelinquishVar { .. } => self.change_place(order),
        }
    }

    /// Goes to the disk or back. Numbers of entries are others there, so none may be pending.
    fn change_place(&mut self, order: Order) -> Result<()> {
        self.core.rotate()?;
        self.begin_anew();
        match order {
            Order::RelinquishVar { smart } => self.core.leave_disk(smart),
            _ => self.core.go_to_disk(),
        }
    }

    /// Goes back to a disk that had given up.
    fn return_to_disk(&mut self) {
        self.core.reopen();
        if self.core.disk_is_back() {
            // What fails is said, and tried again by the clock.
            let _ = self.change_place(Order::FlushToVar);
        }
        self.mounts.watch(&self.epoll, self.core.waits_for_disk());
    }

    /// Takes what a socket has, up to the bound of a turn; true when there may be more.
    fn datagrams(&mut self, transport: Transport) -> bool {
        let has_more = self.with_inlet(transport, |inlet, (taken, buffer), core, learn| {
            inlet.read((taken, buffer), core, learn)
        });
        if self.inlet(transport).is_stuck() {
            self.turn_over(transport);
        }
        has_more
    }

    fn inlet(&mut self, transport: Transport) -> &mut Inlet {
        if transport == Transport::Journal { &mut self.native } else { &mut self.syslog }
    }

    /// With a socket, room for what it has, and what hears of units: the manager told of a sender's before it was there.
    fn with_inlet<T>(
        &mut self,
        transport: Transport,
        act: impl FnOnce(
            &mut Inlet,
            (&mut ReceiveBuffers, &mut [u8]),
            &mut Core,
            &mut dyn FnMut(&mut Core),
        ) -> T,
    ) -> T {
        let Daemon { native, syslog, core, buffer, taken, .. } = self;
        let Daemon { link, unit_files, streams, boot, .. } = self;
        let inlet = if transport == Transport::Journal { native } else { syslog };
        let mut learn = |core: &mut Core| {
            unit_files.iter_mut().for_each(|files| files.learn(core));
            let _ = hear_manager(link, core, streams, *boot);
        };
        act(inlet, (taken, buffer), core, &mut learn)
    }

    /// How long may pass before something must be written or synced, µs.
    fn timeout_us(&self) -> Option<u64> {
        let link = self.link.as_ref().and_then(Link::due_us);
        let all = self.core.due_us().into_iter().chain(link).chain(self.shortage.due_us());
        let all = all.chain(self.turnover.due_us()).chain(self.watchdog.map(|w| w.due_us()));
        all.min().map(|due| due.saturating_sub(now_us()))
    }

    /// Puts what was taken where it outlives this process, and only then takes it from the
    /// streams' sockets; writes and syncs what is due.
    fn end_turn(&mut self) {
        let Daemon { streams, core, buffer, kmsg, .. } = self;
        if let Some(writer) = core.pending().writer() {
            streams.put_turn(writer);
            if let Some(next) = kmsg.as_ref().and_then(Kmsg::next).filter(|_| !writer.is_empty()) {
                writer.next(kmsg::NAME, next);
            }
        }
        core.pending().write();
        streams.take_looked_at(buffer, core.pending().writer());
        match core.end_turn() {
            true => self.begin_anew(),
            false => core.pending().write(),
        }
        let Daemon { streams, link, core, .. } = self;
        let has_room = streams.has_ended();
        let ended = streams.take_ended(core);
        link.iter_mut().for_each(|link| link.ended(&ended, now_us()));
        self.accept_again(has_room);
    }

    /// All entries are in files: none need be kept for the next daemon.
    fn begin_anew(&mut self) {
        let Daemon { streams, core, kmsg, .. } = self;
        core.pending().begin_anew(|writer| {
            streams.put_lines(writer);
            let next = kmsg.as_ref().and_then(Kmsg::next);
            next.into_iter().for_each(|next| writer.next(kmsg::NAME, next));
        });
    }

    /// Takes what is still in the sockets, and leaves everything durable but the beginnings of
    /// lines, which the next daemon goes on with.
    fn finish(mut self) -> Result<()> {
        self.hear_manager();
        for _ in 0..LAST_TURNS_MAX {
            let datagrams = [Transport::Journal, Transport::Syslog].map(|t| self.datagrams(t));
            let streams = self.streams.read_all(&mut self.buffer, &mut self.core);
            // Both, whatever the first one says.
            let kernel = self.read_kmsg() | self.read_audit();
            self.end_turn();
            if datagrams == [false, false] && !streams && !kernel {
                break;
            }
        }
        self.leave_stuck();
        self.core.take_last_files();
        self.link.iter_mut().for_each(|link| link.tell_ended(now_us()));
        self.streams.cut_unkept(&mut self.core);
        self.core.tell_all_losses();
        self.core.rotate_last()?;
        // Its place is in a file before it may leave the memory: a daemon that is killed here takes no record twice.
        self.kmsg.iter().for_each(Kmsg::finish);
        self.begin_anew();
        self.core.finish_mirror();
        self.core.close();
        Ok(())
    }
}
