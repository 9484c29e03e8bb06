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
use crate::model::device_news::{DeviceChange, DeviceNews, Sight};
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobResult, JobType};
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::{Device, TypeState};
use crate::parts::Core;
use crate::state_change;
use warren_unit::{Relation, UnitType};

pub(crate) fn hear_of_devices(core: &mut Core, news: DeviceNews) {
    let blinded = core.totals.sight != Sight::Blind && news.sight == Sight::Blind;
    let began = core.totals.sight == Sight::Blind && news.sight != Sight::Blind;
    core.totals.sight = news.sight;
    for change in news.changes {
        if core.units.known(change.unit).is_some() && core.graph.is_device(change.unit) {
            device_told(core, change);
        }
    }
    if blinded {
        wait_for_no_device(core);
    }
    if began {
        look_at_devices_of_mounts(core);
    }
}

/// Somebody looks for devices from now on: of what was mounted while nobody did, devices that
/// nobody has told of are there in some way too.
fn look_at_devices_of_mounts(core: &mut Core) {
    for unit in core.units.busy() {
        if core.units.active_state(unit).is_up() {
            look_at_devices(core, unit);
        }
    }
}

fn device_told(core: &mut Core, change: DeviceChange) {
    let unit = change.unit;
    let was = core.units.run(unit).state == TypeState::Device(Device::Plugged);
    match (was, change.plugged) {
        (false, true) => {
            become_device(core, unit, Device::Plugged, Code::PluggedIn);
            for other in change.wants {
                want_for_device(core, other, unit);
            }
        }
        // What is mounted of it is unmounted for it.
        (true, false) => become_device(core, unit, Device::Dead, Code::Vanished),
        (true, true) if change.changed => reload_followers(core, unit),
        _ => {}
    }
}

fn become_device(core: &mut Core, unit: UnitId, state: Device, code: Code) {
    core.units.history_mut(unit).reason = Reason::new(code, Cause::Kernel);
    state_change::transit(core, unit, false, |run| run.state = TypeState::Device(state));
}

fn want_for_device(core: &mut Core, unit: UnitId, device: UnitId) {
    if core.units.known(unit).is_none() || core.totals.stopping {
        return;
    }
    let reason = Reason::new(Code::WantedByDevice, Cause::Dependency(device));
    install::enqueue_because(core, unit, JobType::Start, JobMode::Fail, reason);
}

fn reload_followers(core: &mut Core, unit: UnitId) {
    let graph = core.graph.clone();
    for other in graph.related(unit, Relation::PropagatesReloadTo) {
        if core.units.active_state(other).is_up() {
            let cause = Cause::Dependency(unit);
            install::enqueue_quietly(core, other, JobType::TryReload, JobMode::Fail, cause);
        }
    }
}

/// Nobody looks for devices any more: who waits for one goes on.
fn wait_for_no_device(core: &mut Core) {
    for unit in core.units.busy() {
        let waits = |core: &Core| {
            core.units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Start)
        };
        if core.graph.is_device(unit) && waits(core) {
            let reason = Reason::new(Code::NoDevices, Cause::Manager);
            core.units.history_mut(unit).reason = reason;
            ends::finish_job(core, unit, JobResult::Done, reason);
        }
    }
}

/// A mount came or went: what it is mounted from is there in some way, or not any more.
pub(crate) fn look_at_devices(core: &mut Core, mount: UnitId) {
    if core.totals.sight == Sight::Blind
        || core.graph.definition(mount).unit_type() != UnitType::Mount
    {
        return;
    }
    let graph = core.graph.clone();
    let needed = [Relation::BindsTo, Relation::Requires].into_iter();
    for device in needed.flat_map(|relation| graph.related(mount, relation)) {
        if graph.is_device(device) {
            look_at_users(core, device);
        }
    }
}

fn look_at_users(core: &mut Core, device: UnitId) {
    let users = [Relation::BoundBy, Relation::RequiredBy].into_iter();
    let mut users = users.flat_map(|relation| core.graph.related(device, relation));
    let is_used = users.any(|user| {
        core.graph.definition(user).unit_type() == UnitType::Mount
            && core.units.active_state(user).is_up()
    });
    match (&core.units.run(device).state, is_used) {
        (TypeState::Device(Device::Dead), true) => {
            become_device(core, device, Device::Tentative, Code::MountedUnseen);
        }
        (TypeState::Device(Device::Tentative), false) => {
            become_device(core, device, Device::Dead, Code::Vanished);
        }
        _ => {}
    }
}
