//! What is done at an automount point by threads, as the way to it may lead past a server that does not
//! answer: setting it, letting in who waits there, looking whether it is still there.
//!
//! The threads hold nothing open but the pipe's end that a new point gets, and `/dev/autofs`.

use crate::base::patience::Patient;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::Done;
use warren_sys::Result;
use warren_sys::autofs::{self, Detached, Device, Point};
use warren_sys::eventfd::EventFd;
use warren_sys::mount::{self, MountPoint, Unmount};
use warren_unit::config::AutomountConfig;

use crate::base::worker_pool::{HeldOpen, Piece, Workers};
use crate::mount::automounts::{Answers, Trap, tell_idle};
use crate::mount::kind::no_place;

/// A trap is set within this time, or its unit fails.
pub const SET_WITHIN: Duration = Duration::from_secs(30);

/// Units of traps that are being set, by device as the kernel passes it: somebody may walk in before it is
/// heard that they are set.
type Attaching = Arc<Mutex<BTreeMap<u32, UnitId>>>;

/// What became of something.
pub enum ErrandResult {
    /// Of an effect; with the trap if it was set.
    Set(EffectId, UnitId, std::result::Result<Trap, String>),
    /// A trap was set after it had been given up.
    SetTooLate(UnitId, Trap),
    /// The trap of this serial number is not there any more.
    Gone(UnitId, u64),
}

enum Errand {
    Set(Setting),
    Look(UnitId, u64),
    Answer,
}

/// A trap that is being set.
struct Setting {
    /// `None` from when it was given up.
    effect: Option<EffectId>,
    unit: UnitId,
    path: String,
    idle: Option<Duration>,
    /// Its number, once it has one.
    device: Arc<AtomicU32>,
}

/// All of it.
pub struct Errands {
    /// There are none before there is something to do.
    hands: Option<Workers>,
    wake: Arc<EventFd>,
    /// What a new trap reports into.
    writer: Arc<OwnedFd>,
    control: Control,
    attaching: Attaching,
    /// For the threads at the end of the turn.
    to_do: VecDeque<Piece>,
    under_way: BTreeMap<EffectId, Errand>,
    /// Counts all that ever were.
    ever: u64,
    /// Units whose trap is being set, by nobody who has given up.
    setting: BTreeSet<UnitId>,
    /// Since when what is being set is, in that order.
    since: VecDeque<(Instant, EffectId)>,
}

impl Errands {
    /// With the pipe's end that traps get.
    pub fn new(wake: Arc<EventFd>, writer: Arc<OwnedFd>) -> Errands {
        Errands {
            hands: None,
            wake,
            writer,
            control: Control(Device::open().ok().map(Arc::new)),
            attaching: Attaching::default(),
            to_do: VecDeque::new(),
            under_way: BTreeMap::new(),
            ever: 0,
            setting: BTreeSet::new(),
            since: VecDeque::new(),
        }
    }

    /// Has a trap set, for an effect.
    pub fn set(&mut self, effect: EffectId, unit: UnitId, config: &AutomountConfig) {
        let device = Arc::<AtomicU32>::default();
        let setter = Setter {
            unit,
            path: config.where_.to_string(),
            mode: config.directory_mode,
            options: config.extra_options.as_deref().unwrap_or_default().to_owned(),
            idle: config.timeout_idle,
            device: device.clone(),
            attaching: self.attaching.clone(),
            writer: self.writer.clone(),
            control: self.control.clone(),
        };
        let (path, idle) = (setter.path.clone(), setter.idle);
        let setting = Setting { effect: Some(effect), unit, path, idle, device };
        let id = self.add(Errand::Set(setting), move || match setter.set() {
            Ok(()) => Done::Ok,
            Err(error) => Done::Failed { error },
        });
        self.setting.insert(unit);
        self.since.push_back((Instant::now(), id));
    }

    /// Whether the trap is being set.
    pub fn is_setting(&self, unit: UnitId) -> bool {
        self.setting.contains(&unit)
    }

    /// Whose trap this device is, if it is being set.
    pub fn unit_of(&self, device: u32) -> Option<UnitId> {
        self.attaching.lock().unwrap_or_else(PoisonError::into_inner).get(&device).copied()
    }

    /// Lets those who wait go on, or fails them.
    pub fn answer(&mut self, trap: &Trap, answers: Answers) {
        let (path, device) = (trap.path.clone(), autofs::user_device(trap.device));
        let control = self.control.clone();
        self.add(Errand::Answer, move || {
            if let Ok(control) = control.get()
                && let Ok(handle) = control.open_mount(&path, device)
            {
                answers.give(&control, &handle);
            }
            Done::Ok
        });
    }

    /// Has it looked whether a trap is still there.
    pub fn look(&mut self, unit: UnitId, trap: &Trap) {
        let (path, device) = (trap.path.clone(), autofs::user_device(trap.device));
        let control = self.control.clone();
        self.add(Errand::Look(unit, trap.serial), move || {
            let Ok(control) = control.get() else { return Done::Ok };
            match control.open_mount(&path, device) {
                Ok(_) => Done::Ok,
                Err(e) => Done::Failed { error: e.to_string() },
            }
        });
    }

    /// Has a trap that is of nobody catch nobody any more, and go if nothing else is mounted where it is.
    pub fn silence(&mut self, point: &Point) {
        let (point, control) = (point.clone(), self.control.clone());
        self.add(Errand::Answer, move || {
            if let Ok(control) = control.get()
                && let Ok(handle) = control.open_mount(&point.path, point.device)
                && control.make_catatonic(handle.as_fd()).is_ok()
                && point.is_alone
            {
                drop(handle);
                let _ = mount::unmount(&point.path, Unmount::Lazy);
            }
            Done::Ok
        });
    }

    fn add(&mut self, errand: Errand, work: impl FnOnce() -> Done + Send + 'static) -> EffectId {
        self.ever += 1;
        let id = EffectId(self.ever);
        self.under_way.insert(id, errand);
        self.to_do.push_back((id, Box::new(work)));
        id
    }

    /// Hands to the threads what is to be done.
    pub fn begin(&mut self) {
        if self.to_do.is_empty() {
            return;
        }
        if self.hands.is_none() {
            let mut keep: Vec<HeldOpen> = vec![self.writer.clone()];
            keep.extend(self.control.0.iter().map(|control| control.clone() as HeldOpen));
            self.hands = Workers::start_keeping(self.wake.clone(), keep).ok();
        }
        // Without threads it waits: the next turn tries again to have some.
        let Some(hands) = &self.hands else { return };
        hands.share_out(std::mem::take(&mut self.to_do), 2);
    }

    /// What was done since the last call.
    pub fn hear(&mut self) -> Vec<ErrandResult> {
        let results: Vec<_> = self.hands.iter().flat_map(Workers::results).collect();
        let mut heard = Vec::new();
        for (id, done) in results {
            match (self.under_way.remove(&id), done) {
                (Some(Errand::Set(setting)), done) => heard.extend(self.was_set(setting, done)),
                (Some(Errand::Look(unit, serial)), Done::Failed { .. }) => {
                    heard.push(ErrandResult::Gone(unit, serial));
                }
                _ => {}
            }
        }
        heard
    }

    fn was_set(&mut self, setting: Setting, done: Done) -> Option<ErrandResult> {
        let Setting { effect, unit, path, idle, device } = setting;
        if effect.is_some() {
            self.setting.remove(&unit);
        }
        let result = match done {
            Done::Failed { error } => Err(error),
            _ => {
                let device = device.load(Ordering::Acquire);
                self.attaching.lock().unwrap_or_else(PoisonError::into_inner).remove(&device);
                Ok(Trap { path, device, idle, ..Trap::default() })
            }
        };
        match (effect, result) {
            (Some(effect), result) => Some(ErrandResult::Set(effect, unit, result)),
            (None, Ok(trap)) => Some(ErrandResult::SetTooLate(unit, trap)),
            (None, Err(_)) => None,
        }
    }

    /// Gives up what should have been set by now: the effects, and where.
    pub fn leave_late(&mut self, now: Instant) -> Vec<(EffectId, String)> {
        let mut late = Vec::new();
        while let Some(&(since, id)) = self.since.front() {
            let setting = match self.under_way.get_mut(&id) {
                Some(Errand::Set(_)) if since + SET_WITHIN > now => break,
                Some(Errand::Set(setting)) => Some(setting),
                _ => None,
            };
            if let Some(setting) = setting
                && let Some(effect) = setting.effect.take()
            {
                self.setting.remove(&setting.unit);
                late.push((effect, setting.path.clone()));
            }
            self.since.pop_front();
        }
        late
    }
}

impl Patient for Errands {
    // Has done by others what waits behind threads that are held up.
    fn relieve(&self, now: Instant) {
        self.hands.iter().for_each(|hands| hands.relieve(now));
    }

    // How long nothing is to be done about those that are held up, if somebody may be.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        let late = self.since.front().map(|(since, _)| *since + SET_WITHIN);
        let late = late.map(|at| at.saturating_duration_since(now));
        let held = self.hands.as_ref().and_then(|hands| hands.patience_left(now));
        late.into_iter().chain(held).min()
    }
}

/// `/dev/autofs`, where it was there when the manager was started.
#[derive(Clone)]
struct Control(Option<Arc<Device>>);

impl Control {
    /// A module may have brought it since.
    fn get(&self) -> Result<Arc<Device>> {
        self.0.clone().map_or_else(|| Device::open().map(Arc::new), Ok)
    }
}

/// What a thread needs to set a trap.
struct Setter {
    unit: UnitId,
    path: String,
    mode: u32,
    options: String,
    idle: Option<Duration>,
    device: Arc<AtomicU32>,
    attaching: Attaching,
    writer: Arc<OwnedFd>,
    control: Control,
}

impl Setter {
    fn set(&self) -> std::result::Result<(), String> {
        let control = self
            .control
            .get()
            .map_err(|_| "the kernel has no autofs (/dev/autofs is missing)".to_owned())?;
        let Setter { path, mode, .. } = self;
        // Behind a link, the kernel's table would have it elsewhere: nobody could take it up after a restart.
        let at = MountPoint::make_directory(path, *mode);
        let at = at.map_err(|e| no_place(path, &e))?;
        self.attach(&control, &at).map_err(|e| e.to_string())
    }

    fn attach(&self, control: &Device, at: &MountPoint) -> Result<()> {
        let detached = Detached::make("warren", &self.options, self.writer.as_fd())?;
        let device = autofs::kernel_device(detached.device());
        self.device.store(device, Ordering::Release);
        let attaching = || self.attaching.lock().unwrap_or_else(PoisonError::into_inner);
        attaching().insert(device, self.unit);
        let attached = detached.attach(at).map_err(|e| e.on(&self.path)).and_then(|()| {
            let Some(idle) = self.idle else { return Ok(()) };
            let timeout = control
                .open_mount(&self.path, detached.device())
                .and_then(|handle| tell_idle(control, &handle, idle));
            // It would catch people for nobody.
            timeout.inspect_err(|_| _ = mount::unmount(&self.path, Unmount::Lazy))
        });
        if attached.is_err() {
            attaching().remove(&device);
        }
        attached
    }
}
