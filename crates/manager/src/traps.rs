//! Automount points: one pipe for all of them, which the kernel tells by device number who is
//! meant. A trap costs no file descriptor. They are taken away off the loop: each unmount makes the
//! kernel wait for all processors.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use warren_core::ids::UnitId;
use warren_sys::autofs::{self, Device, ExpireHow, Packet};
use warren_sys::eventfd::EventFd;
use warren_sys::{Result, mount};
use warren_unit::config::AutomountConfig;

use crate::aside::Aside;

/// How often idleness is looked at, at most.
const IDLE_LOOKS_MIN: Duration = Duration::from_secs(1);

/// Threads that take traps away, if there are many.
const CLOSERS_MAX: usize = 8;

/// One thread takes away so many before there is another.
const CLOSED_BY_ONE_MIN: usize = 16;

/// Mounts stacked on a trap that are taken away with it at most.
const STACKED_MAX: usize = 32;

/// What those who wait hear if nothing could be mounted: ENODEV, as from systemd.
const NO_DEVICE: i32 = 19;

/// One trap.
struct Trap {
    path: String,
    device: u32,
    idle: Option<Duration>,
    /// It may stay mounted when it catches nobody any more.
    stays: bool,
}

/// How a trap goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Going {
    /// It is away when the call returns.
    AtOnce,
    /// It is taken away meanwhile.
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

/// Something the kernel asks.
pub enum Asked {
    /// Somebody waits for the mount.
    Missing(UnitId, u32),
    /// The mount was idle.
    Idle(UnitId, u32),
}

/// All traps.
pub struct Traps {
    control: Option<Device>,
    reader: OwnedFd,
    writer: OwnedFd,
    /// A pipe of this process's own: packets are read from it while the originals stay.
    copy: (OwnedFd, OwnedFd),
    /// Packets that were read and are still in the pipe.
    seen: usize,
    traps: BTreeMap<UnitId, Trap>,
    /// Takes traps away.
    closer: Aside<Trap>,
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
        Ok(Traps {
            control: Device::open().ok(),
            reader,
            writer,
            copy: autofs::pipe()?,
            seen: 0,
            traps: BTreeMap::new(),
            closer: Aside::new("traps", wake, take_away),
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

    /// Sets a trap.
    pub fn set(
        &mut self,
        unit: UnitId,
        config: &AutomountConfig,
    ) -> std::result::Result<(), String> {
        if self.control.is_none() {
            // A module may have brought it since the manager was started.
            self.control = Device::open().ok();
        }
        let control =
            self.control.as_ref().ok_or("the kernel has no autofs (/dev/autofs is missing)")?;
        let path = config.where_.to_string();
        make_directories(&path, config.directory_mode).map_err(|e| format!("{path}: {e}"))?;
        let options = config.extra_options.as_deref().unwrap_or("");
        let device = autofs::mount(&path, "warren", options, self.writer.as_fd())
            .map_err(|e| e.to_string())?;
        if let Some(idle) = config.timeout_idle {
            let timeout = control
                .open_mount(&path, device)
                .and_then(|handle| control.set_timeout(handle.as_fd(), idle.as_secs().max(1)));
            timeout.map_err(|e| e.to_string())?;
        }
        self.adopt(unit, path, device, config.timeout_idle);
        Ok(())
    }

    fn adopt(&mut self, unit: UnitId, path: String, device: u64, idle: Option<Duration>) {
        let device = autofs::kernel_device(device);
        self.by_device.insert(device, unit);
        self.traps.insert(unit, Trap { path, device, idle, stays: false });
    }

    /// After a restart: takes up the trap that the last incarnation set at the unit's path.
    pub fn take_up(
        &mut self,
        unit: UnitId,
        config: &AutomountConfig,
        table: &BTreeMap<String, u64>,
    ) -> bool {
        match table.get(&*config.where_) {
            Some(&device) => {
                self.adopt(unit, config.where_.to_string(), device, config.timeout_idle);
                true
            }
            None => false,
        }
    }

    /// Whether the trap is set.
    pub fn is_set(&self, unit: UnitId) -> bool {
        self.traps.contains_key(&unit)
    }

    /// Whether a trap that was set is not there any more.
    pub fn is_gone(&self, unit: UnitId) -> bool {
        self.is_set(unit) && self.control.is_some() && self.handle(unit).is_none()
    }

    /// What the kernel asks now. It stays in the pipe until [`Traps::release`], for the next
    /// manager if this one ends before it has written down what follows.
    pub fn read(&mut self) -> Vec<Asked> {
        let mut out = Vec::new();
        let (copy, into) = &self.copy;
        if self.seen > 0 || autofs::peek(self.reader.as_fd(), into.as_fd()).is_err() {
            return out;
        }
        loop {
            match autofs::read_packet(copy.as_fd()) {
                Ok(Some((device, packet))) => {
                    self.seen += 1;
                    let Some(&unit) = self.by_device.get(&device) else { continue };
                    out.push(match packet {
                        Packet::Missing { token, .. } => Asked::Missing(unit, token),
                        Packet::Expire { token } => Asked::Idle(unit, token),
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

    fn handle(&self, unit: UnitId) -> Option<(&Device, OwnedFd)> {
        let (control, trap) = (self.control.as_ref()?, self.traps.get(&unit)?);
        let handle = control.open_mount(&trap.path, autofs::user_device(trap.device)).ok()?;
        Some((control, handle))
    }

    /// Lets those who wait go on, or fails them.
    pub fn answer(&self, unit: UnitId, tokens: &[u32], ok: bool) {
        let Some((control, handle)) = self.handle(unit) else { return };
        for &token in tokens {
            // A token that is gone already has nobody behind it.
            let _ = match ok {
                true => control.ready(handle.as_fd(), token),
                false => control.fail(handle.as_fd(), token, NO_DEVICE),
            };
        }
    }

    /// Begins or ends to look for idleness.
    pub fn watch_idle(&self, unit: UnitId, on: bool) {
        let Some(trap) = self.traps.get(&unit) else { return };
        let Some(idle) = trap.idle else { return };
        let order = match on {
            true => {
                IdleOrder::Watch(unit, trap.path.clone(), autofs::user_device(trap.device), idle)
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
        match going {
            Going::AtOnce => trap.close(self.control.as_ref()),
            Going::Soon | Going::WithTheRest => self.closer.begin(unit, trap),
        }
    }

    /// Whether all that were to go have gone. If not, the loop is woken when more have.
    pub fn have_gone(&mut self) -> bool {
        self.closer.is_idle()
    }

    /// Units whose traps are to go and may still be there.
    pub fn going(&mut self) -> impl Iterator<Item = UnitId> + '_ {
        self.closer.under_way()
    }

    /// The unit whose trap is at this path.
    pub fn unit_at(&self, path: &str) -> Option<UnitId> {
        self.traps.iter().find(|(_, trap)| trap.path == path).map(|(unit, _)| *unit)
    }
}

/// Takes traps away. Each unmount makes the kernel wait for all processors, and those who do so at
/// the same time wait together.
fn take_away(traps: Vec<Trap>) {
    let control = Device::open().ok();
    let share = traps.len().div_ceil(CLOSERS_MAX).max(CLOSED_BY_ONE_MIN);
    let close = |share: &[Trap]| share.iter().for_each(|trap| trap.close(control.as_ref()));
    std::thread::scope(|scope| {
        let mut shares = traps.chunks(share);
        let own = shares.next();
        for share in shares {
            if std::thread::Builder::new().spawn_scoped(scope, move || close(share)).is_err() {
                close(share);
            }
        }
        own.into_iter().for_each(close);
    });
}

/// Makes a directory and what is missing above it, with this mode.
pub fn make_directories(path: &str, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)
}

enum IdleOrder {
    Watch(UnitId, String, u64, Duration),
    Leave(UnitId),
}

/// The thread that asks the kernel to expire what is idle: the kernel answers with a packet in the
/// pipe, and the call returns when that was answered.
fn watch_idle(orders: Receiver<IdleOrder>) {
    let Ok(control) = Device::open() else { return };
    let mut watched: BTreeMap<UnitId, (String, u64, Duration)> = BTreeMap::new();
    loop {
        let shortest = watched.values().map(|(_, _, idle)| *idle / 3).min();
        let order = match shortest {
            Some(wait) => orders.recv_timeout(wait.max(IDLE_LOOKS_MIN)),
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match order {
            Ok(IdleOrder::Watch(unit, path, device, idle)) => {
                watched.insert(unit, (path, device, idle));
            }
            Ok(IdleOrder::Leave(unit)) => {
                watched.remove(&unit);
            }
            Err(RecvTimeoutError::Timeout) => {
                for (path, device, _) in watched.values() {
                    if let Ok(handle) = control.open_mount(path, *device) {
                        let _ = control.expire(handle.as_fd(), ExpireHow::Unused);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
