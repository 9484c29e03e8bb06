//! Device units (systemd.device(5)): they come and go with what the device daemon tells.
//!
//! No job makes a device: a start job of one waits until it is told of, for at most its
//! JobRunningTimeoutSec=, and there are no stops. What is bound to a device that goes is stopped
//! as with any other unit. Which units a device has, and what they follow, is in
//! [`crate::model::device_table`]; here a device is one unit with a state.
//!
//! What is not told of is not gone: before the first whole picture, and for a device that nobody
//! ever told of, nothing is stopped. A root file system from a device that only the kernel's
//! command line names must not be unmounted because nobody knows it by that name.

use crate::jobs::{ends, install};
use crate::machine::Core;
use crate::model::device_news::{DeviceChange, DeviceNews, Sight};
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobResult, JobType};
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::{Device, TypeState};
use crate::state_change;
use warren_unit::{Relation, UnitType};

impl Core {
    /// What is known of devices at all.
    pub fn sight(&self) -> Sight {
        self.totals.sight
    }

    /// The same for a machine that takes up another's work, before it recovers.
    pub fn set_sight(&mut self, sight: Sight) {
        self.totals.sight = sight;
    }

    pub(crate) fn hear_of_devices(&mut self, news: DeviceNews) {
        let blinded = self.totals.sight != Sight::Blind && news.sight == Sight::Blind;
        let began = self.totals.sight == Sight::Blind && news.sight != Sight::Blind;
        self.totals.sight = news.sight;
        for change in news.changes {
            if self.units.known(change.unit).is_some() && self.graph.is_device(change.unit) {
                self.device_told(change);
            }
        }
        if blinded {
            self.wait_for_no_device();
        }
        if began {
            self.look_at_devices_of_mounts();
        }
    }

    /// Somebody looks for devices from now on: of what was mounted while nobody did, devices that
    /// nobody has told of are there in some way too.
    fn look_at_devices_of_mounts(&mut self) {
        for unit in self.units.busy() {
            if self.units.active_state(unit).is_up() {
                self.look_at_devices(unit);
            }
        }
    }

    fn device_told(&mut self, change: DeviceChange) {
        let unit = change.unit;
        let was = self.units.run(unit).state == TypeState::Device(Device::Plugged);
        match (was, change.plugged) {
            (false, true) => {
                self.become_device(unit, Device::Plugged, Code::PluggedIn);
                for other in change.wants {
                    self.want_for_device(other, unit);
                }
            }
            // What is mounted of it is unmounted for it.
            (true, false) => self.become_device(unit, Device::Dead, Code::Vanished),
            (true, true) if change.changed => self.reload_followers(unit),
            _ => {}
        }
    }

    fn become_device(&mut self, unit: UnitId, state: Device, code: Code) {
        self.units.history_mut(unit).reason = Reason::new(code, Cause::Kernel);
        state_change::transit(self, unit, false, |run| run.state = TypeState::Device(state));
    }

    fn want_for_device(&mut self, unit: UnitId, device: UnitId) {
        if self.units.known(unit).is_none() || self.totals.stopping {
            return;
        }
        let reason = Reason::new(Code::WantedByDevice, Cause::Dependency(device));
        install::enqueue_because(self, unit, JobType::Start, JobMode::Fail, reason);
    }

    fn reload_followers(&mut self, unit: UnitId) {
        let graph = self.graph.clone();
        for other in graph.related(unit, Relation::PropagatesReloadTo) {
            if self.units.active_state(other).is_up() {
                let cause = Cause::Dependency(unit);
                install::enqueue_quietly(self, other, JobType::TryReload, JobMode::Fail, cause);
            }
        }
    }

    /// Nobody looks for devices any more: who waits for one goes on.
    fn wait_for_no_device(&mut self) {
        for unit in self.units.busy() {
            let waits = |core: &Core| {
                core.units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Start)
            };
            if self.graph.is_device(unit) && waits(self) {
                let reason = Reason::new(Code::NoDevices, Cause::Manager);
                self.units.history_mut(unit).reason = reason;
                ends::finish_job(self, unit, JobResult::Done, reason);
            }
        }
    }

    /// A mount came or went: what it is mounted from is there in some way, or not any more.
    pub(crate) fn look_at_devices(&mut self, mount: UnitId) {
        if self.totals.sight == Sight::Blind
            || self.graph.definition(mount).unit_type() != UnitType::Mount
        {
            return;
        }
        let graph = self.graph.clone();
        let needed = [Relation::BindsTo, Relation::Requires].into_iter();
        for device in needed.flat_map(|relation| graph.related(mount, relation)) {
            if graph.is_device(device) {
                self.look_at_users(device);
            }
        }
    }

    fn look_at_users(&mut self, device: UnitId) {
        let users = [Relation::BoundBy, Relation::RequiredBy].into_iter();
        let mut users = users.flat_map(|relation| self.graph.related(device, relation));
        let is_used = users.any(|user| {
            self.graph.definition(user).unit_type() == UnitType::Mount
                && self.units.active_state(user).is_up()
        });
        match (&self.units.run(device).state, is_used) {
            (TypeState::Device(Device::Dead), true) => {
                self.become_device(device, Device::Tentative, Code::MountedUnseen);
            }
            (TypeState::Device(Device::Tentative), false) => {
                self.become_device(device, Device::Dead, Code::Vanished);
            }
            _ => {}
        }
    }
}
