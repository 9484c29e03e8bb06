//! Limits of units that are up (systemd.resource-control(5)): what an edit says of them holds for the group that
//! there is, as with systemd, and slices that nobody starts have theirs too.

use crate::graph::{Definition, Graph};
use crate::model::ids::UnitId;
use crate::parts::Core;
use crate::parts::unit_settings;
use crate::protocol::event::Effect;
use crate::settings::Settings;
use std::sync::Arc;
use warren_unit::settings::{Group, Id};
use warren_unit::{LoadState, UnitType};

/// Settings that are written to a cgroup, set its extended attributes, or are reported to systemd-oomd.
const LIMITS: [Id; 51] = [
    Id::of(Group::Cgroup, "CPUWeight"),
    Id::of(Group::Cgroup, "CPUQuota"),
    Id::of(Group::Cgroup, "CPUQuotaPeriodSec"),
    Id::of(Group::Cgroup, "AllowedCPUs"),
    Id::of(Group::Cgroup, "AllowedMemoryNodes"),
    Id::of(Group::Cgroup, "MemoryMin"),
    Id::of(Group::Cgroup, "MemoryLow"),
    Id::of(Group::Cgroup, "MemoryHigh"),
    Id::of(Group::Cgroup, "MemoryMax"),
    Id::of(Group::Cgroup, "MemoryLimit"),
    Id::of(Group::Cgroup, "MemorySwapMax"),
    Id::of(Group::Cgroup, "MemoryZSwapMax"),
    Id::of(Group::Cgroup, "TasksMax"),
    Id::of(Group::Cgroup, "IOWeight"),
    Id::of(Group::Cgroup, "IODeviceWeight"),
    Id::of(Group::Cgroup, "IOReadBandwidthMax"),
    Id::of(Group::Cgroup, "IOWriteBandwidthMax"),
    Id::of(Group::Cgroup, "IOReadIOPSMax"),
    Id::of(Group::Cgroup, "IOWriteIOPSMax"),
    Id::of(Group::Cgroup, "IODeviceLatencyTargetSec"),
    Id::of(Group::Cgroup, "DeviceAllow"),
    Id::of(Group::Cgroup, "DevicePolicy"),
    Id::of(Group::Cgroup, "IPAddressAllow"),
    Id::of(Group::Cgroup, "IPAddressDeny"),
    Id::of(Group::Cgroup, "IPAccounting"),
    Id::of(Group::Cgroup, "SocketBindAllow"),
    Id::of(Group::Cgroup, "SocketBindDeny"),
    Id::of(Group::Cgroup, "RestrictNetworkInterfaces"),
    Id::of(Group::Cgroup, "IPIngressFilterPath"),
    Id::of(Group::Cgroup, "IPEgressFilterPath"),
    Id::of(Group::Cgroup, "BPFProgram"),
    Id::of(Group::Cgroup, "MemoryZSwapWriteback"),
    Id::of(Group::Cgroup, "DefaultMemoryMin"),
    Id::of(Group::Cgroup, "DefaultMemoryLow"),
    Id::of(Group::Cgroup, "DefaultStartupMemoryLow"),
    Id::of(Group::Cgroup, "DisableControllers"),
    Id::of(Group::Cgroup, "StartupCPUWeight"),
    Id::of(Group::Cgroup, "StartupIOWeight"),
    Id::of(Group::Cgroup, "StartupAllowedCPUs"),
    Id::of(Group::Cgroup, "StartupAllowedMemoryNodes"),
    Id::of(Group::Cgroup, "StartupMemoryLow"),
    Id::of(Group::Cgroup, "StartupMemoryHigh"),
    Id::of(Group::Cgroup, "StartupMemoryMax"),
    Id::of(Group::Cgroup, "StartupMemorySwapMax"),
    Id::of(Group::Cgroup, "StartupMemoryZSwapMax"),
    Id::of(Group::Cgroup, "ManagedOOMSwap"),
    Id::of(Group::Cgroup, "ManagedOOMMemoryPressure"),
    Id::of(Group::Cgroup, "ManagedOOMMemoryPressureLimit"),
    Id::of(Group::Cgroup, "ManagedOOMMemoryPressureDurationSec"),
    Id::of(Group::Cgroup, "ManagedOOMPreference"),
    Id::of(Group::Cgroup, "CoredumpReceive"),
];

/// The unit was edited, and `before` is the generation before that.
pub(crate) fn renew_limits(core: &mut Core, unit: UnitId, before: &Graph) {
    let new = core.graph.definition(unit);
    if !has_group(new.unit_type()) || core.units.active_state(unit).is_down() {
        return;
    }
    let is_used = |definition: &&Arc<Definition>| definition.load_state == LoadState::Loaded;
    let Some(old) = before.get(unit).filter(is_used) else { return };
    if !is_used(&new) || !says_limits(old) && !says_limits(new) {
        return;
    }
    let before = Some(Arc::new(core.settings.common.compile_running(old)));
    let settings = unit_settings::compiled(core, unit);
    core.outbox.effects.push(Effect::LimitGroup { unit, before, settings });
}

/// Other defaults are in force, and `before` is what units were compiled with. `DefaultTasksMax=` is the only
/// one that is written to a group, and not to that of a slice (systemd-system.conf(5)).
pub(crate) fn renew_default_limits(core: &mut Core, unit: UnitId, before: &Settings) {
    let definition = core.graph.definition(unit);
    let unit_type = definition.unit_type();
    if unit_type == UnitType::Slice
        || !has_group(unit_type)
        || definition.flags.perpetual()
        || definition.load_state != LoadState::Loaded
        || definition.mentions(Id::of(Group::Cgroup, "TasksMax"))
        || before.defaults.tasks_max == core.settings.common.defaults.tasks_max
    {
        return;
    }
    let before = Some(Arc::new(before.compile_running(definition)));
    let settings = unit_settings::compiled(core, unit);
    core.outbox.effects.push(Effect::LimitGroup { unit, before, settings });
}

/// Limits the group of a perpetual slice. Such a slice is never started: its group is made with its first
/// unit, without the limits of the slice.
pub(crate) fn limit_perpetual(core: &mut Core, unit: UnitId) {
    let definition = core.graph.definition(unit);
    if definition.unit_type() == UnitType::Slice && says_limits(definition) {
        let settings = unit_settings::compiled(core, unit);
        core.outbox.effects.push(Effect::LimitGroup { unit, before: None, settings });
    }
}

fn has_group(unit_type: UnitType) -> bool {
    use UnitType::{Mount, Scope, Service, Slice, Socket, Swap};
    matches!(unit_type, Mount | Scope | Service | Slice | Socket | Swap)
}

fn says_limits(definition: &Definition) -> bool {
    LIMITS.iter().any(|&limit| definition.mentions(limit))
}
