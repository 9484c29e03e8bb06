//! Automount points: one pipe for all of them, which the kernel tells by device number which process is
//! meant. A trap costs no file descriptor. They are set, answered and taken away off the loop: the way to
//! one may lead past a server that does not answer, and each unmount makes the kernel wait for all
//! processors. So each has a bound, after which the setting is given up or it is left where it is
//! ([`Traps::leave_late`]).

mod errands;

use crate::base::patience::Patient;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Event};
use warren_sys::autofs::{self, Device, ExpireHow, Packet, Point};
use warren_sys::eventfd::EventFd;
use warren_sys::{Result, mount, process};
use warren_unit::config::AutomountConfig;

use crate::base::worker_pool::{Piece, Workers};
pub use crate::mount::automounts::errands::SET_WITHIN;
use crate::mount::automounts::errands::{ErrandResult, Errands};

/// How often idleness is looked at, at most.
const IDLE_LOOKS_MIN: Duration = Duration::from_secs(1);

/// Threads that look for idleness, if there is much to look at.
const LOOKERS: usize = 2;

/// Threads that take traps away, if there are many.
const CLOSERS_MAX: usize = 8;

/// A trap has gone within this time, or is left where it is.
pub const GOES_WITHIN: Duration = Duration::from_secs(10);

/// Mounts stacked on a trap that are taken away with it at most.
const STACKED_MAX: usize = 32;

/// What those who wait hear if nothing could be mounted: ENODEV, as from systemd.
const NO_DEVICE: i32 = 19;

/// Answers to those who wait in a trap.
#[derive(Default)]
struct Answers(Vec<(u32, bool)>);

impl Answers {
    /// A token that is gone already has nobody behind it.
    fn give(&self, control: &Device, handle: &OwnedFd) {
        for &(token, ok) in &self.0 {
            let _ = match ok {
                true => control.ready(handle.as_fd(), token),
                false => control.fail(handle.as_fd(), token, NO_DEVICE),
            };
        }
    }
}

/// One trap.
#[derive(Default)]
struct Trap {
    path: String,
    device: u32,
    idle: Option<Duration>,
    /// By a manager that was killed, perhaps before the kernel knew the time.
    taken_up: bool,
    /// Which of all that ever were.
    serial: u64,
    /// It may stay mounted when it catches nobody any more.
    stays: bool,
    /// To be given before it goes.
    answers: Answers,
}

/// How a trap goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Going {
    /// It is taken away.
    Soon,
    /// It catches nobody any more, soon, and stays: its mount namespace ends with the manager.
    WithTheRest,
}

impl Trap {
    fn close(&self, control: Option<&Device>) {
        let open = |control: &Device| {
            control.open_mount(&self.path, autofs::user_device(self.device)).ok()
        };
        if let Some((control, handle)) = control.and_then(|c| Some((c, open(c)?))) {
            self.answers.give(control, &handle);
            let _ = control.make_catatonic(handle.as_fd());
        }
        if self.stays {
            return;
        }
        // What is mounted over it goes first.
        for _ in 0..STACKED_MAX {
            let is_unmounted = mount::unmount(&self.path, mount::Unmount::Lazy).is_ok();
            if !is_unmounted || control.is_none_or(|control| open(control).is_none()) {
                break;
            }
        }
    }
}

/// A trap that is to go.
#[derive(Clone, Debug)]
pub struct GoingTrap {
    /// Whose it is.
    pub unit: UnitId,
    /// Where it is.
    pub path: Box<str>,
    /// Since it is to go.
    pub since: Instant,
}

/// Something the kernel asks.
pub enum AutofsRequest {
    /// Somebody waits for the mount.
    Missing(UnitId, u32),
    /// The mount was idle.
    Idle(UnitId, u32),
}

/// All traps.
pub struct Traps {
    reader: OwnedFd,
    writer: Arc<OwnedFd>,
    /// A pipe of this process's own: packets are read from it while the originals stay.
    copy: (OwnedFd, OwnedFd),
    /// Packets that were read and are still in the pipe.
    seen: usize,
    traps: BTreeMap<UnitId, Trap>,
    /// Counts those that ever were set.
    set_ever: u64,
    errands: Errands,
    /// For those who wait, by unit, at the end of the turn.
    to_answer: BTreeMap<UnitId, Answers>,
    /// Units whose idleness is to be looked at as soon as their trap is set.
    to_watch: BTreeSet<UnitId>,
    /// Take traps away; there are none before there is one to take.
    closers: Option<Workers>,
    wake: Arc<EventFd>,
    /// Traps that are to go, for the closers at the end of the turn.
    to_close: VecDeque<(EffectId, Trap)>,
    /// Those that have not gone yet, in the order in which they were told to.
    going: BTreeMap<EffectId, GoingTrap>,
    /// Counts those that ever were to go.
    closed_ever: u64,
    by_device: BTreeMap<u32, UnitId>,
    idle: Sender<IdleOrder>,
}

/// Names under which init keeps the pipe.
pub const PIPE_NAMES: [&str; 2] = ["autofs/reader", "autofs/writer"];

impl Traps {
    /// With the pipe that init kept, or a new one.
    pub fn new(pipe: Option<(OwnedFd, OwnedFd)>, wake: Arc<EventFd>) -> Result<Traps> {
        let (reader, writer) = match pipe {
            Some(pipe) => pipe,
            None => autofs::pipe()?,
        };
        let (idle, orders) = channel();
        // Without the thread nothing expires; everything else works.
        let _ = std::thread::Builder::new().name("expire".into()).spawn(|| watch_idle(orders));
        let writer = Arc::new(writer);
        let errands = Errands::new(wake.clone(), writer.clone());
        Ok(Traps {
            reader,
            writer,
            copy: autofs::pipe()?,
            seen: 0,
            traps: BTreeMap::new(),
            set_ever: 0,
            errands,
            to_answer: BTreeMap::new(),
            to_watch: BTreeSet::new(),
            closers: None,
            wake,
            to_close: VecDeque::new(),
            going: BTreeMap::new(),
            closed_ever: 0,
            by_device: BTreeMap::new(),
            idle,
        })
    }

    /// Both ends, for init's store.
    pub fn pipe(&self) -> [BorrowedFd<'_>; 2] {
        [self.reader.as_fd(), self.writer.as_fd()]
    }

    /// To be watched.
    pub fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Has a trap set, for an effect, unless it is there: then at once.
    pub fn set(&mut self, effect: EffectId, unit: UnitId, config: &AutomountConfig) -> bool {
        let is_set = self.is_set(unit);
        if !is_set {
            self.errands.set(effect, unit, config);
        }
        is_set
    }

    fn adopt(&mut self, unit: UnitId, mut trap: Trap) {
        self.set_ever += 1;
        trap.serial = self.set_ever;
        self.by_device.insert(trap.device, unit);
        self.traps.insert(unit, trap);
        if self.to_watch.contains(&unit) {
            self.watch_idle(unit, true);
        }
    }

    /// What was found out and done since the last call.
    pub fn hear(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for heard in self.errands.hear() {
            match heard {
                ErrandResult::Set(effect, unit, result) => {
                    let result = match result {
                        Ok(trap) => {
                            self.adopt(unit, trap);
                            Done::Ok
                        }
                        Err(error) => {
                            self.to_watch.remove(&unit);
                            Done::Failed { error }
                        }
                    };
                    events.push(Event::Done { effect, result });
                }
                ErrandResult::SetTooLate(unit, trap) => self.take_away(unit, trap),
                ErrandResult::Gone(unit, serial) => {
                    let is_it = |trap: &Trap| trap.serial == serial;
                    if self.traps.get(&unit).is_some_and(is_it) {
                        events.push(Event::TrapGone { unit });
                    }
                }
            }
        }
        events
    }

    /// After a restart: takes up the trap that the last incarnation set at the unit's path.
    pub fn take_up(&mut self, unit: UnitId, config: &AutomountConfig, points: &[Point]) -> bool {
        // Of several the last is on top.
        match points.iter().rev().find(|point| point.path == *config.where_) {
            Some(point) => {
                let (path, idle) = (config.where_.to_string(), config.timeout_idle);
                let device = autofs::kernel_device(point.device);
                self.adopt(unit, Trap { path, device, idle, taken_up: true, ..Trap::default() });
                true
            }
            None => false,
        }
    }

    /// After a restart, when what units have is taken up: traps of this manager that no unit has catch nobody any
    /// more. They would hold up whoever comes there for ever. Returns where they are.
    pub fn leave_unclaimed(&mut self, points: &[Point]) -> Vec<String> {
        let Ok(own) = autofs::pipe_inode(self.reader.as_fd()) else { return Vec::new() };
        let is_unclaimed = |point: &&Point| {
            let device = autofs::kernel_device(point.device);
            point.pipe == Some(own) && !self.by_device.contains_key(&device)
        };
        let unclaimed: Vec<&Point> = points.iter().filter(is_unclaimed).collect();
        unclaimed.iter().for_each(|point| self.errands.silence(point));
        unclaimed.into_iter().map(|point| point.path.clone()).collect()
    }

    /// Whether the trap is set.
    pub fn is_set(&self, unit: UnitId) -> bool {
        self.traps.contains_key(&unit)
    }

    /// Has it looked whether a trap that was set is still there.
    pub fn look(&mut self, unit: UnitId) {
        if let Some(trap) = self.traps.get(&unit) {
            self.errands.look(unit, trap);
        }
    }

    /// What the kernel asks now. It stays in the pipe until [`Traps::release`], for the next
    /// manager if this one ends before it has written down what follows.
    pub fn read(&mut self) -> Vec<AutofsRequest> {
        let mut out = Vec::new();
        let (copy, into) = &self.copy;
        if self.seen > 0 || autofs::peek(self.reader.as_fd(), into.as_fd()).is_err() {
            return out;
        }
        loop {
            match autofs::read_packet(copy.as_fd()) {
                Ok(Some((device, packet))) => {
                    self.seen += 1;
                    let known = self.by_device.get(&device).copied();
                    let unit = known.or_else(|| self.errands.unit_of(device));
                    let Some(unit) = unit else { continue };
                    out.push(match packet {
                        Packet::Missing { token, .. } => AutofsRequest::Missing(unit, token),
                        Packet::Expire { token } => AutofsRequest::Idle(unit, token),
                    });
                }
                Ok(None) => return out,
                Err(e) if e.errno == 71 => self.seen += 1,
                Err(_) => return out,
            }
        }
    }

    /// What was read is written down.
    pub fn release(&mut self) {
        for _ in 0..std::mem::take(&mut self.seen) {
            let _ = autofs::read_packet(self.reader.as_fd());
        }
    }

    /// Lets those who wait go on, or fails them, at the end of the turn.
    pub fn answer(&mut self, unit: UnitId, tokens: &[u32], ok: bool) {
        let answers = self.to_answer.entry(unit).or_default();
        answers.0.extend(tokens.iter().map(|&token| (token, ok)));
    }

    /// Begins or ends to look for idleness.
    pub fn watch_idle(&mut self, unit: UnitId, on: bool) {
        self.to_watch.remove(&unit);
        let Some(trap) = self.traps.get(&unit) else {
            // The mount may be up before the word comes that the trap is set.
            if on && self.errands.is_setting(unit) {
                self.to_watch.insert(unit);
            }
            return;
        };
        let Some(idle) = trap.idle else { return };
        let order = match on {
            true => {
                let (path, device) = (trap.path.clone(), autofs::user_device(trap.device));
                let is_told = Arc::new(AtomicBool::new(!trap.taken_up));
                IdleOrder::Watch(unit, Watched { path, device, idle, is_told })
            }
            false => IdleOrder::Leave(unit),
        };
        let _ = self.idle.send(order);
    }

    /// The trap is to go.
    pub fn close(&mut self, unit: UnitId, going: Going) {
        self.watch_idle(unit, false);
        let Some(mut trap) = self.traps.remove(&unit) else { return };
        self.by_device.remove(&trap.device);
        trap.stays = going == Going::WithTheRest;
        trap.answers = self.to_answer.remove(&unit).unwrap_or_default();
        self.take_away(unit, trap);
    }

    fn take_away(&mut self, unit: UnitId, trap: Trap) {
        self.closed_ever += 1;
        let id = EffectId(self.closed_ever);
        let path = trap.path.as_str().into();
        self.going.insert(id, GoingTrap { unit, path, since: Instant::now() });
        self.to_close.push_back((id, trap));
    }

    /// Has done what is to be done.
    pub fn begin(&mut self) {
        for (unit, answers) in std::mem::take(&mut self.to_answer) {
            if let Some(trap) = self.traps.get(&unit) {
                self.errands.answer(trap, answers);
            } else if self.errands.is_setting(unit) {
                // Somebody walked in who came before the word that it is set.
                self.to_answer.insert(unit, answers);
            }
        }
        self.errands.begin();
        self.begin_closing();
    }

    /// Hands to the closers what is to go. Those who unmount at the same time wait together.
    fn begin_closing(&mut self) {
        if self.to_close.is_empty() {
            return;
        }
        if self.closers.is_none() {
            self.closers = Workers::start_many(self.wake.clone(), CLOSERS_MAX).ok();
        }
        // Without threads they are left where they are, as if they were held up: the next turn tries
        // again to have some.
        let Some(closers) = &self.closers else { return };
        let traps = std::mem::take(&mut self.to_close).into_iter();
        closers.share_out(traps.map(piece).collect(), CLOSERS_MAX);
    }

    fn take_gone(&mut self) {
        for (id, _) in self.closers.iter().flat_map(Workers::results) {
            // One that was left has gone after all.
            self.going.remove(&id);
        }
    }

    /// Whether all that were to go have gone, or are left. If not, the loop is woken when more have.
    pub fn have_gone(&mut self) -> bool {
        self.take_gone();
        self.going.is_empty()
    }

    /// Those that are to go and may still be there, in the order in which they were told to.
    pub fn going(&mut self) -> impl Iterator<Item = &GoingTrap> + '_ {
        self.take_gone();
        self.going.values()
    }

    /// Waits no longer for those that should have gone by now.
    pub fn leave_late(&mut self, now: Instant) -> Vec<GoingTrap> {
        self.take_gone();
        let mut late = Vec::new();
        while let Some(first) = self.going.first_entry()
            && first.get().since + GOES_WITHIN <= now
        {
            late.push(first.remove());
        }
        late
    }

    /// Gives up setting what should be set by now: the effects, and where.
    pub fn give_up_late(&mut self, now: Instant) -> Vec<(EffectId, String)> {
        self.errands.leave_late(now)
    }
}

impl Patient for Traps {
    // Has done by others what waits behind threads that are held up.
    fn relieve(&self, now: Instant) {
        self.errands.relieve(now);
        self.closers.iter().for_each(|closers| closers.relieve(now));
    }

    // How long nothing is to be done about those that are to go or being set, if there are any.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let oldest = self.going.first_key_value().map(|(_, trap)| trap.since + GOES_WITHIN);
        let late = oldest.map(|at| at.saturating_duration_since(now));
        let held = self.closers.as_ref().and_then(|closers| closers.patience_left(now));
        late.into_iter().chain(held).chain(self.errands.patience_left(now)).min()
    }
}

/// Takes one trap away, with a way to the kernel of its own: the thread may be held for ever.
fn piece((id, trap): (EffectId, Trap)) -> Piece {
    let close = move || {
        trap.close(Device::open().ok().as_ref());
        Done::Ok
    };
    (id, Box::new(close))
}

enum IdleOrder {
    Watch(UnitId, Watched),
    Leave(UnitId),
}

/// A trap that is looked at for idleness.
#[derive(Clone)]
struct Watched {
    path: String,
    device: u64,
    idle: Duration,
    /// The kernel knows the time.
    is_told: Arc<AtomicBool>,
}

impl Watched {
    fn look(&self, control: &Device) {
        let Ok(handle) = control.open_mount(&self.path, self.device) else { return };
        if !self.is_told.load(Ordering::Relaxed) {
            let told = tell_idle(control, &handle, self.idle).is_ok();
            self.is_told.store(told, Ordering::Relaxed);
        }
        let _ = control.expire(handle.as_fd(), ExpireHow::Unused);
    }
}

/// Tells the kernel for how long nobody has to come before a mount is idle.
fn tell_idle(control: &Device, handle: &OwnedFd, idle: Duration) -> Result<()> {
    control.set_timeout(handle.as_fd(), idle.as_secs().max(1))
}

/// Asks the kernel to expire what is idle: it answers with a packet in the pipe, and the call returns when
/// that was answered. So each trap is looked at by a thread that may be held for ever, and by one at a time.
struct Looks {
    hands: Workers,
    control: Arc<Device>,
    under_way: BTreeSet<EffectId>,
}

impl Looks {
    fn new() -> Option<Looks> {
        let control = Arc::new(Device::open().ok()?);
        let wake = Arc::new(EventFd::new().ok()?);
        let hands = Workers::start_keeping(wake, vec![control.clone()]).ok()?;
        Some(Looks { hands, control, under_way: BTreeSet::new() })
    }

    fn begin(&mut self, watched: &BTreeMap<UnitId, Watched>) {
        for (id, _) in self.hands.results() {
            self.under_way.remove(&id);
        }
        let mut pieces = VecDeque::<Piece>::new();
        for (unit, trap) in watched {
            let id = EffectId(u64::from(unit.0));
            if self.under_way.insert(id) {
                let (trap, control) = (trap.clone(), self.control.clone());
                let look = move || {
                    trap.look(&control);
                    Done::Ok
                };
                pieces.push_back((id, Box::new(look)));
            }
        }
        self.hands.share_out(pieces, LOOKERS);
    }
}

/// The thread that has traps looked at when they may be idle.
fn watch_idle(orders: Receiver<IdleOrder>) {
    // It holds open nothing that the process has.
    let _ = process::keep_only_descriptors(&[]);
    let mut looks: Option<Looks> = None;
    let mut watched: BTreeMap<UnitId, Watched> = BTreeMap::new();
    let mut look_at: Option<Instant> = None;
    loop {
        let now = Instant::now();
        let patience = looks.as_ref().and_then(|looks| looks.hands.patience_left(now));
        let patience = patience.map(|left| now + left);
        let order = match look_at.into_iter().chain(patience).min() {
            Some(at) => orders.recv_timeout(at.saturating_duration_since(now)),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match order {
            Ok(IdleOrder::Watch(unit, trap)) => _ = watched.insert(unit, trap),
            Ok(IdleOrder::Leave(unit)) => _ = watched.remove(&unit),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        looks.iter().for_each(|looks| looks.hands.relieve(now));
        if look_at.is_some_and(|at| at <= now) {
            looks = looks.or_else(Looks::new);
            looks.iter_mut().for_each(|looks| looks.begin(&watched));
            look_at = None;
        }
        // However many come and go, who is watched is looked at in time.
        let shortest = watched.values().map(|trap| trap.idle / 3).min();
        let next = shortest.map(|wait| now + wait.max(IDLE_LOOKS_MIN));
        look_at = match (look_at, next) {
            (Some(soon), Some(next)) => Some(soon.min(next)),
            (_, next) => next,
        };
    }
}
