//! The group of properties of all units that have a cgroup (systemd.resource-control(5)).

use super::property::properties;
use super::subject::Subject;
use super::values::*;
use crate::wire::Writer;
use warren_sandbox::bpf::bind::Rule;
use warren_sandbox::bpf::interface::Interfaces;
use warren_sandbox::bpf::pinned::Pinned;
use warren_unit::config::{Delegate, DevicePolicy};

properties! {
    /// The table of the group.
    CGROUP:
    Slice "s" Never => |s, w| w.str(s.slice());
    ControlGroup "s" Never => |s, w| w.str(&s.live().control_group);
    ControlGroupId "t" Never => |s, w| w.u64(s.live().control_group_id.unwrap_or(0));
    MemoryCurrent "t" Never => |s, w| w.u64(s.live().memory_current.unwrap_or(u64::MAX));
    MemoryAvailable "t" Never = "18446744073709551615";
    CPUUsageNSec "t" Never => |s, w| w.u64(s.live().cpu_usage_nsec.unwrap_or(u64::MAX));
    EffectiveCPUs "ay" Never = "0";
    EffectiveMemoryNodes "ay" Never = "0";
    TasksCurrent "t" Never => |s, w| w.u64(s.live().tasks_current.unwrap_or(u64::MAX));
    IPIngressBytes "t" Never => |s, w| w.u64(s.live().ip_ingress.map_or(u64::MAX, |ip| ip.0));
    IPIngressPackets "t" Never => |s, w| w.u64(s.live().ip_ingress.map_or(u64::MAX, |ip| ip.1));
    IPEgressBytes "t" Never => |s, w| w.u64(s.live().ip_egress.map_or(u64::MAX, |ip| ip.0));
    IPEgressPackets "t" Never => |s, w| w.u64(s.live().ip_egress.map_or(u64::MAX, |ip| ip.1));
    IOReadBytes "t" Never => |s, w| w.u64(io(s, s.live().io_read_bytes));
    IOReadOperations "t" Never => |s, w| w.u64(io(s, s.live().io_read_operations));
    IOWriteBytes "t" Never => |s, w| w.u64(io(s, s.live().io_write_bytes));
    IOWriteOperations "t" Never => |s, w| w.u64(io(s, s.live().io_write_operations));
    Delegate "b" Never => |s, w| w.bool(s.cgroup().delegate != Delegate::No);
    DelegateControllers "as" Never => |s, w| delegated(w, &s.cgroup().delegate);
    CPUAccounting "b" Never => |s, w| w.bool(s.cgroup().cpu_accounting);
    CPUWeight "t" Never => |s, w| w.u64(cpu_weight(s.cgroup().cpu_weight));
    StartupCPUWeight "t" Never => |s, w| w.u64(cpu_weight(s.cgroup().startup_cpu_weight));
    CPUShares "t" Never = "18446744073709551615";
    StartupCPUShares "t" Never = "18446744073709551615";
    CPUQuotaPerSecUSec "t" Never => |s, w| w.u64(usec(s.cgroup().cpu_quota));
    CPUQuotaPeriodUSec "t" Never => |s, w| w.u64(usec(s.cgroup().cpu_quota_period));
    AllowedCPUs "ay" Never => |s, w| index_set(w, s.cgroup().allowed_cpus.as_ref());
    StartupAllowedCPUs "ay" Never => |s, w| index_set(w, s.cgroup().startup_allowed_cpus.as_ref());
    AllowedMemoryNodes "ay" Never => |s, w| index_set(w, s.cgroup().allowed_memory_nodes.as_ref());
    StartupAllowedMemoryNodes "ay" Never => |s, w| index_set(w, s.cgroup().startup_allowed_memory_nodes.as_ref());
    IOAccounting "b" Never => |s, w| w.bool(s.cgroup().io_accounting);
    IOWeight "t" Never => |s, w| w.u64(s.cgroup().io_weight.map_or(u64::MAX, u64::from));
    StartupIOWeight "t" Never => |s, w| w.u64(s.cgroup().startup_io_weight.map_or(u64::MAX, u64::from));
    IODeviceWeight "a(st)" Never => |s, w| per_device(w, &s.cgroup().io_device_weight);
    IOReadBandwidthMax "a(st)" Never => |s, w| per_device(w, &s.cgroup().io_read_bandwidth_max);
    IOWriteBandwidthMax "a(st)" Never => |s, w| per_device(w, &s.cgroup().io_write_bandwidth_max);
    IOReadIOPSMax "a(st)" Never => |s, w| per_device(w, &s.cgroup().io_read_iops_max);
    IOWriteIOPSMax "a(st)" Never => |s, w| per_device(w, &s.cgroup().io_write_iops_max);
    IODeviceLatencyTargetUSec "a(st)" Never => |s, w| per_device(w, &s.cgroup().io_device_latency_target);
    BlockIOAccounting "b" Never = "false";
    BlockIOWeight "t" Never = "18446744073709551615";
    StartupBlockIOWeight "t" Never = "18446744073709551615";
    BlockIODeviceWeight "a(st)" Never = "0";
    BlockIOReadBandwidth "a(st)" Never = "0";
    BlockIOWriteBandwidth "a(st)" Never = "0";
    MemoryAccounting "b" Never => |s, w| w.bool(s.cgroup().memory_accounting);
    DefaultMemoryLow "t" Never => |s, w| s.memory(w, s.cgroup().default_memory_low, 0);
    DefaultMemoryMin "t" Never => |s, w| s.memory(w, s.cgroup().default_memory_min, 0);
    MemoryMin "t" Never => |s, w| s.memory(w, s.cgroup().memory_min, 0);
    MemoryLow "t" Never => |s, w| s.memory(w, s.cgroup().memory_low, 0);
    MemoryHigh "t" Never => |s, w| s.memory(w, s.cgroup().memory_high, u64::MAX);
    MemoryMax "t" Never => |s, w| s.memory(w, s.cgroup().memory_max, u64::MAX);
    MemorySwapMax "t" Never => |s, w| s.memory(w, s.cgroup().memory_swap_max, u64::MAX);
    MemoryLimit "t" Never => |s, w| s.memory(w, s.cgroup().memory_limit, u64::MAX);
    DevicePolicy "s" Never => |s, w| w.str(device_policy(s).as_str());
    DeviceAllow "a(ss)" Never => |s, w| device_allow(w, &s.cgroup().device_allow);
    TasksAccounting "b" Never => |s, w| w.bool(s.cgroup().tasks_accounting);
    TasksMax "t" Never => |s, w| w.u64(s.tasks_max());
    IPAccounting "b" Never => |s, w| w.bool(s.cgroup().ip_accounting);
    IPAddressAllow "a(iayu)" Never => |s, w| prefixes(w, &s.cgroup().ip_address_allow);
    IPAddressDeny "a(iayu)" Never => |s, w| prefixes(w, &s.cgroup().ip_address_deny);
    IPIngressFilterPath "as" Never => |s, w| w.strs(s.cgroup().ingress_filters.iter().map(|it| &*it.path));
    IPEgressFilterPath "as" Never => |s, w| w.strs(s.cgroup().egress_filters.iter().map(|it| &*it.path));
    DisableControllers "as" Never => |s, w| w.strs(s.cgroup().disable_controllers.iter().map(|c| c.as_str()));
    ManagedOOMSwap "s" Never => |s, w| w.str(s.cgroup().managed_oom_swap.as_str());
    ManagedOOMMemoryPressure "s" Never => |s, w| w.str(s.cgroup().managed_oom_memory_pressure.as_str());
    ManagedOOMMemoryPressureLimit "u" Never => |s, w| w.u32(per_32_bits(s.cgroup().managed_oom_memory_pressure_limit));
    ManagedOOMMemoryPressureDurationUSec "t" Never => |s, w| w.u64(s.cgroup().managed_oom_memory_pressure_duration.map_or(u64::MAX, micros));
    ManagedOOMPreference "s" Never => |s, w| w.str(s.cgroup().managed_oom_preference.as_str());
    CoredumpReceive "b" Never => |s, w| w.bool(s.cgroup().coredump_receive);
    BPFProgram "a(ss)" Never => |s, w| pinned(w, &s.cgroup().bpf_programs);
    SocketBindAllow "a(iiqq)" Never => |s, w| bind_rules(w, &s.cgroup().socket_bind.allow);
    SocketBindDeny "a(iiqq)" Never => |s, w| bind_rules(w, &s.cgroup().socket_bind.deny);
    RestrictNetworkInterfaces "(bas)" Never => |s, w| network_interfaces(w, s.cgroup().network_interfaces.as_ref());
}

/// Programs as places and paths.
fn pinned<'w>(w: &'w mut Writer, programs: &[Pinned]) -> &'w mut Writer {
    w.array(b'(', |w| {
        for program in programs {
            w.structure().str(program.name()).str(&program.path);
        }
    })
}

/// Rules as families, protocols, how many ports, and the first of them.
fn bind_rules<'w>(w: &'w mut Writer, rules: &[Rule]) -> &'w mut Writer {
    w.array(b'(', |w| {
        for rule in rules {
            let (low, high) = rule.ports.unwrap_or((0, 0));
            let count = rule.ports.map_or(0, |_| high - low + 1);
            let family = rule.family.map_or(0, |family| family as i32);
            let protocol = rule.protocol.map_or(0, |protocol| protocol as i32);
            w.structure().i32(family).i32(protocol).u16(count).u16(low);
        }
    })
}

/// Whether those are allowed or forbidden, and their names.
fn network_interfaces<'w>(w: &'w mut Writer, list: Option<&Interfaces>) -> &'w mut Writer {
    let names = list.map(|list| &list.names[..]).unwrap_or_default();
    w.structure().bool(list.is_some_and(|list| list.is_allowed));
    w.strs(names.iter().map(|name| &**name))
}

/// Counted as long as a neighbour wants it, shown where `IOAccounting=` says so.
fn io(subject: &Subject<'_>, count: Option<u64>) -> u64 {
    count.filter(|_| subject.cgroup().io_accounting).unwrap_or(u64::MAX)
}

/// PrivateDevices= closes devices that no setting names (systemd.exec(5), PrivateDevices=).
fn device_policy(subject: &Subject<'_>) -> DevicePolicy {
    let mut protections = subject.exec().protections.iter();
    match subject.cgroup().device_policy {
        DevicePolicy::Auto if protections.any(|s| s.setting == "PrivateDevices") => {
            DevicePolicy::Closed
        }
        policy => policy,
    }
}
