//! Devices: the link to the device daemon, what it told, and the units that this is news to.
//!
//! The daemon is a service (`warren-deviced.service`). Init keeps both ends of the link, so what
//! was said while either side was away is not lost; a manager that comes back knows nothing of what
//! was told before and asks for all of it. Units of devices are made when something names them: a
//! batch touches those that there are and loads those whose device wants something.
//!
//! Whether anybody looks for devices is decided before anything is started: the daemon's unit must
//! be there and wanted, and when it is down without a job, each device is taken for plugged in, as
//! in a container. `warren_core::types::device` says what that means.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use warren_core::graph::{Delta, Graph};
use warren_core::model::device_news::{DeviceChange, DeviceNews, Sight};
use warren_core::model::device_table::DeviceTable;
use warren_core::model::ids::UnitId;
use warren_core::model::state::{Device, TypeState, UnitRun};
use warren_core::model::time::Monotonic;
use warren_core::persist::run_state::Restored;
use warren_core::protocol::event::Event;
use warren_sys::{fdpass, memfd};
use warren_trace::words::Phase;
use warren_unit::{LoadState, Relation, UnitName, UnitType};

use crate::daemon::{Daemon, now, token};
use crate::device_words;
use crate::init_link::InitLink;
use crate::orders::LoaderOrder;
use crate::recorder;
use crate::requests::AfterLoad;
use crate::say;

/// The unit of the device daemon.
pub const DEVICE_DAEMON: &str = "warren-deviced.service";

/// The name under which the daemon finds its end of the link; sd_listen_fds(3).
pub const LINK_FD_NAME: &str = "warren-devices";

/// Names of both ends in init's store.
const OWN_END: &str = "devices/manager";
const DAEMON_END: &str = "devices/daemon";

/// What is said to the daemon: tell everything.
const ALL: &[u8] = b"ALL";

/// Largest message that is believed, in bytes.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Messages taken in one turn; the others wait for the next.
const MESSAGES_PER_TURN_MAX: usize = 64;

/// Most units that one device has loaded because it wants them.
const WANTS_MAX: usize = 64;

/// What of this init kept.
#[derive(Default)]
pub struct KeptDevices {
    own: Option<OwnedFd>,
    daemon: Option<OwnedFd>,
}

impl KeptDevices {
    /// Takes what has a name of this module; gives back what has not.
    pub fn take(&mut self, name: String, fd: OwnedFd) -> Option<(String, OwnedFd)> {
        match name.as_str() {
            OWN_END => self.own = Some(fd),
            DAEMON_END => self.daemon = Some(fd),
            _ => return Some((name, fd)),
        }
        None
    }
}

/// The manager's side.
pub struct Devices {
    own: OwnedFd,
    /// Handed to each daemon.
    daemon: OwnedFd,
    table: DeviceTable,
    /// Since when groups are being started, and how many were at most at a time.
    activation: Option<(Monotonic, usize)>,
}

impl Devices {
    /// The link as init kept it, or a new one that it keeps from now on.
    pub fn open(kept: KeptDevices, init: &InitLink) -> Result<Devices, String> {
        let text = |e: &dyn std::fmt::Display| format!("making the link to the device daemon: {e}");
        let (own, daemon) = match (kept.own, kept.daemon) {
            (Some(own), Some(daemon)) => (own, daemon),
            _ => {
                let pair = fdpass::seqpacket_pair(true).map_err(|e| text(&e))?;
                init.store(OWN_END, pair.0.as_fd()).map_err(|e| text(&e))?;
                init.store(DAEMON_END, pair.1.as_fd()).map_err(|e| text(&e))?;
                pair
            }
        };
        Ok(Devices { own, daemon, table: DeviceTable::default(), activation: None })
    }

    /// To be watched.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }

    /// The end for a new daemon.
    pub fn daemon_end(&self) -> std::io::Result<OwnedFd> {
        self.daemon.try_clone()
    }

    /// Whether a unit is kept though nothing names it: its device wants something, and is to ask
    /// for that only once.
    pub fn keeps(&self, name: &UnitName) -> bool {
        name.unit_type() == UnitType::Device && !self.table.wants(name).is_empty()
    }

    /// Whether mounts of a device that no file is for go with it; `None` where nothing is known of it.
    pub fn binds_mounts(&self, device: &UnitName) -> Option<bool> {
        self.table.ready(device).map(|facts| facts.binds_mounts)
    }

    /// The daemon tells everything again. If it has no room for the request, requests are waiting.
    fn ask(&self) {
        let _ = fdpass::try_send(self.own.as_fd(), ALL, &[]);
    }

    /// Notes whether groups are being started; returns what is over.
    fn note_activation(&mut self, now: Monotonic) -> Option<recorder::Done> {
        let count = self.table.starting();
        if count > 0 {
            let (began, most) = self.activation.unwrap_or((now, 0));
            self.activation = Some((began, most.max(count)));
            return None;
        }
        let (began, most) = self.activation.take()?;
        let detail = most as u64;
        Some(recorder::Done { phase: Phase::Activate, began, ended: now, detail })
    }

    /// The messages that wait.
    fn receive(&self) -> Vec<String> {
        let (mut buffer, mut fds) = ([0; 16], Vec::new());
        let mut texts = Vec::new();
        for _ in 0..MESSAGES_PER_TURN_MAX {
            match fdpass::recv(self.own.as_fd(), &mut buffer, &mut fds, false) {
                Ok(received) if received.bytes > 0 => texts.extend(fds.drain(..).filter_map(read)),
                _ => break,
            }
        }
        texts
    }
}

/// The content of one message. What could change under our eyes is not believed.
fn read(fd: OwnedFd) -> Option<String> {
    if !memfd::is_sealed(&fd) {
        return None;
    }
    let bytes = memfd::read_all(fd.as_fd(), MESSAGE_BYTES_MAX).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether somebody is going to look for devices, as the unit files say.
fn is_expected(graph: &Graph) -> bool {
    let wanted_by = |unit| [Relation::WantedBy, Relation::RequiredBy].map(|r| (unit, r));
    daemon_unit(graph).is_some_and(|unit| {
        graph.definition(unit).load_state == LoadState::Loaded
            && wanted_by(unit).iter().any(|&(unit, r)| graph.related(unit, r).next().is_some())
    })
}

fn daemon_unit(graph: &Graph) -> Option<UnitId> {
    graph.lookup(&UnitName::parse(DEVICE_DAEMON).ok()?)
}

/// Nothing runs of it and nothing is about to.
fn is_out(run: &UnitRun) -> bool {
    run.active_state().is_down() && run.job.is_none()
}

fn is_plugged(run: &UnitRun) -> bool {
    run.state == TypeState::Device(Device::Plugged)
}

impl Daemon {
    /// At the first start: whether somebody is going to look for devices.
    pub(crate) fn foresee_devices(&mut self, graph: &Graph) {
        if is_expected(graph) {
            self.core.set_sight(Sight::Seeing);
        }
    }

    /// After a restart: whether somebody does; and all that was told is asked for again.
    pub(crate) fn take_up_devices(&mut self, graph: &Graph, restored: &Restored) {
        let unit = daemon_unit(graph);
        let run = unit.and_then(|unit| restored.runs.get(&unit));
        let not_begun = restored.manager.is_none_or(|manager| manager.jobs_ever == 0);
        if run.is_some_and(|run| !is_out(run)) || not_begun && is_expected(graph) {
            self.core.set_sight(Sight::Seeing);
            self.devices.ask();
            let plugged = restored.runs.iter().filter(|(_, run)| is_plugged(run));
            let names = plugged.map(|(&unit, _)| graph.name(unit).clone());
            self.devices.table.expect(names);
        }
    }

    /// Takes what the daemon said.
    pub(crate) fn read_devices(&mut self) {
        for text in self.devices.receive() {
            let began = now().monotonic;
            let said = device_words::parse(&text);
            let first = self.core.sight() == Sight::Blind || self.devices.table.is_empty();
            let touched = self.devices.table.apply(said.batch);
            self.tell_replaced();
            self.look_at_mounts(&touched);
            let started = self.devices.note_activation(began);
            started.into_iter().for_each(|done| self.recorder.did(done));
            self.shared.publish_devices(Arc::new(self.devices.table.clone()));
            let changed = |name: &UnitName| {
                let facts = self.devices.table.ready(name);
                facts.is_some_and(|facts| said.changed.contains(&facts.path))
            };
            let with_change = |name: UnitName| {
                let changed = changed(&name);
                (name, changed)
            };
            let news: Vec<(UnitName, bool)> = touched.into_iter().map(with_change).collect();
            self.tell_devices(news);
            if first {
                let count = self.devices.table.devices().count();
                let took = now().monotonic.since(began);
                say!("{count} devices were told of, taken in in {:.3} s", took.as_secs_f64());
            }
        }
    }

    /// What was bound to a disk in whose place another one is has lost it, before the other one is told of.
    fn tell_replaced(&mut self) {
        let replaced = self.devices.table.take_replaced();
        let units = replaced.iter().filter_map(|name| self.core.graph().lookup(name));
        let gone = |unit| DeviceChange { unit, plugged: false, changed: false, wants: Vec::new() };
        let changes: Vec<DeviceChange> = units.map(gone).collect();
        if !changes.is_empty() {
            self.events.push_back(Event::Devices(DeviceNews { sight: Sight::Seeing, changes }));
        }
    }

    /// What is known of these devices may be news to mounts of them.
    fn look_at_mounts(&mut self, devices: &BTreeSet<UnitName>) {
        let graph = self.core.graph().clone();
        for device in devices {
            if let Some(binds) = self.devices.binds_mounts(device) {
                self.mounts.look_at_device(&graph, device, binds);
            }
        }
    }

    /// Makes events of what is new to units, and has those loaded that a device wants.
    fn tell_devices(&mut self, names: Vec<(UnitName, bool)>) {
        let graph = self.core.graph().clone();
        let mut changes = Vec::new();
        for (name, changed) in names {
            let wants = self.devices.table.wants(&name);
            let unknown = wants.iter().take(WANTS_MAX).filter(|name| graph.lookup(name).is_none());
            let unknown: Vec<UnitName> = unknown.cloned().collect();
            match graph.lookup(&name) {
                _ if !unknown.is_empty() => self.load_wanted(unknown, name),
                // It is told of when it is loaded.
                None if !wants.is_empty() => self.load_name(name, AfterLoad::Nothing),
                None => {}
                Some(unit) => changes.push(self.device_change(unit, &name, changed)),
            }
        }
        let news = DeviceNews { sight: Sight::Seeing, changes };
        self.events.push_back(Event::Devices(news));
    }

    fn device_change(&self, unit: UnitId, name: &UnitName, changed: bool) -> DeviceChange {
        let table = &self.devices.table;
        let graph = self.core.graph();
        let wants = table.wants(name).iter().filter_map(|name| graph.lookup(name)).collect();
        DeviceChange { unit, plugged: table.ready(name).is_some(), changed, wants }
    }

    /// The device is told of when the last of what it wants is loaded, or found not to exist.
    fn load_wanted(&mut self, wanted: Vec<UnitName>, device: UnitName) {
        let last = wanted.len() - 1;
        for (at, name) in wanted.into_iter().enumerate() {
            let after = match at == last {
                true => AfterLoad::Wanted(device.clone()),
                false => AfterLoad::Nothing,
            };
            self.load_name(name, after);
        }
    }

    fn load_name(&mut self, name: UnitName, after: AfterLoad) {
        self.load(|token| LoaderOrder::LoadOne { name, goes_far: false, token }, after);
    }

    /// What a device wants is loaded as far as it can be.
    pub(crate) fn wanted_loaded(&mut self, device: UnitName) {
        let Some(unit) = self.core.graph().lookup(&device) else {
            return self.load_name(device, AfterLoad::Nothing);
        };
        let changes = vec![self.device_change(unit, &device, false)];
        self.events.push_back(Event::Devices(DeviceNews { sight: Sight::Seeing, changes }));
    }

    /// Units of devices that are new in this generation are told what is known.
    pub(crate) fn tell_new_devices(&mut self, graph: &Graph, delta: &Delta) {
        if self.core.sight() == Sight::Blind {
            return;
        }
        let new = delta.added.iter().chain(&delta.reused).filter(|&&unit| graph.is_device(unit));
        let names: Vec<(UnitName, bool)> =
            new.map(|&unit| (graph.name(unit).clone(), false)).collect();
        if !names.is_empty() && !self.devices.table.is_empty() {
            self.tell_devices(names);
        }
    }

    /// The daemon is down for good, or was never started: nobody waits for devices any more.
    pub(crate) fn look_for_device_daemon(&mut self) {
        if self.core.sight() == Sight::Blind || !self.first_unit_asked || !self.events.is_empty() {
            return;
        }
        let unit = daemon_unit(self.core.graph());
        if unit.is_none_or(|unit| is_out(self.core.unit_run(unit))) && !self.core.totals().stopping
        {
            say!("{DEVICE_DAEMON} is down: each device is taken for plugged in");
            self.events.push_back(Event::Devices(DeviceNews::default()));
        }
    }

    /// Begins to watch the link.
    pub(crate) fn watch_devices(&self) -> warren_sys::Result<()> {
        let interest = warren_sys::epoll::Interest::READ;
        self.epoll.add(self.devices.fd(), token::DEVICES, interest)
    }
}
