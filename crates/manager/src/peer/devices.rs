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

use crate::process::init_link::InitLink;
use crate::recording::recorder;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use warren_core::graph::Graph;
use warren_core::model::device_table::DeviceTable;
use warren_core::model::ids::UnitId;
use warren_core::model::state::{Device, TypeState, UnitRun};
use warren_core::model::time::Monotonic;
use warren_sys::{fdpass, memfd};
use warren_trace::words::Phase;
use warren_unit::{LoadState, Relation, UnitName, UnitType};
use warren_wire::device_link::{ALL, MESSAGE_BYTES_MAX};

/// The unit of the device daemon.
pub const DEVICE_DAEMON: &str = "warren-deviced.service";

/// Names of both ends in init's store.
const OWN_END: &str = "devices/manager";

const DAEMON_END: &str = "devices/daemon";

/// Messages taken in one turn; the others wait for the next.
const MESSAGES_PER_TURN_MAX: usize = 64;

/// Most units that one device has loaded because it wants them.
pub(crate) const WANTS_MAX: usize = 64;

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
    pub(crate) table: DeviceTable,
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
    pub(crate) fn ask(&self) {
        let _ = fdpass::try_send(self.own.as_fd(), ALL, &[]);
    }

    /// Notes whether groups are being started; returns what is over.
    pub(crate) fn note_activation(&mut self, now: Monotonic) -> Option<recorder::Done> {
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
    pub(crate) fn receive(&self) -> Vec<String> {
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
pub(crate) fn is_expected(graph: &Graph) -> bool {
    let wanted_by = |unit| [Relation::WantedBy, Relation::RequiredBy].map(|r| (unit, r));
    daemon_unit(graph).is_some_and(|unit| {
        graph.definition(unit).load_state == LoadState::Loaded
            && wanted_by(unit).iter().any(|&(unit, r)| graph.related(unit, r).next().is_some())
    })
}

pub(crate) fn daemon_unit(graph: &Graph) -> Option<UnitId> {
    graph.lookup(&UnitName::parse(DEVICE_DAEMON).ok()?)
}

/// Nothing runs of it and nothing is about to.
pub(crate) fn is_out(run: &UnitRun) -> bool {
    run.active_state().is_down() && run.job.is_none()
}

pub(crate) fn is_plugged(run: &UnitRun) -> bool {
    run.state == TypeState::Device(Device::Plugged)
}
