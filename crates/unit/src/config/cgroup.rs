//! Limits and accounting of a unit's cgroup (systemd.resource-control(5)), typed as cgroup v2
//! wants them. Controllers that are missing are the runner's business.

use std::time::Duration;

pub use warren_sandbox::bpf::address::Prefix;
use warren_sandbox::bpf::bind::Rules;
use warren_sandbox::bpf::interface::Interfaces;
use warren_sandbox::bpf::pinned::Pinned;

use crate::name::UnitName;

/// A share of something or an absolute amount of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No limit: `max`.
    Infinity,
    /// Bytes.
    Bytes(u64),
    /// A share of the host's memory, in parts of 10,000.
    PerMyriad(u32),
}

/// TasksMax=
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TasksLimit {
    /// No limit.
    Infinity,
    /// So many tasks.
    Tasks(u64),
    /// A share of what the host can have.
    Scale {
        /// Numerator.
        numerator: u32,
        /// Denominator, never 0.
        denominator: u32,
    },
}

/// CPUWeight=
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWeight {
    /// SCHED_IDLE for the whole cgroup.
    Idle,
    /// 1 to 10,000.
    Weight(u32),
}

words! {
    /// The controllers of Delegate= and DisableControllers=.
    Controller {
        /// cpu
        Cpu = "cpu",
        /// cpuacct, of cgroup v1.
        Cpuacct = "cpuacct",
        /// cpuset
        Cpuset = "cpuset",
        /// io
        Io = "io",
        /// blkio, of cgroup v1.
        Blkio = "blkio",
        /// memory
        Memory = "memory",
        /// devices, a BPF program in v2.
        Devices = "devices",
        /// pids
        Pids = "pids",
        /// BPF firewall.
        BpfFirewall = "bpf-firewall",
        /// BPF devices.
        BpfDevices = "bpf-devices",
        /// BPF foreign programs.
        BpfForeign = "bpf-foreign",
        /// BPF bind rules.
        BpfSocketBind = "bpf-socket-bind",
        /// BPF interface rules.
        BpfRestrictInterfaces = "bpf-restrict-network-interfaces",
    }
}

/// Delegate=
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delegate {
    /// The unit does not manage its own subtree.
    No,
    /// All controllers.
    All,
    /// These controllers (perhaps none), sorted.
    Controllers(Box<[Controller]>),
}

words! {
    /// DevicePolicy=
    DevicePolicy {
        /// All devices, unless DeviceAllow= is set.
        Auto = "auto",
        /// The standard pseudo devices and DeviceAllow=.
        Closed = "closed",
        /// DeviceAllow= only.
        Strict = "strict",
    }
}

words! {
    /// ManagedOOMSwap= and ManagedOOMMemoryPressure=
    ManagedOom {
        /// Not watched.
        Auto = "auto",
        /// Killed when the limit is passed.
        Kill = "kill",
    }
}

words! {
    /// MemoryPressureWatch=
    PressureWatch {
        /// Where memory is accounted for anyway.
        Auto = "auto",
        /// Watched, for which memory is accounted for.
        On = "on",
        /// Processes are told not to watch.
        Off = "off",
        /// Processes are told nothing.
        Skip = "skip",
    }
}

words! {
    /// ManagedOOMPreference=
    ManagedOomPreference {
        /// Neither.
        None = "none",
        /// Killed last.
        Avoid = "avoid",
        /// Never killed.
        Omit = "omit",
    }
}

/// One value for one block device (or for the device under a file).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerDevice {
    /// Path of a device node or of a file on it.
    pub path: Box<str>,
    /// Weight, bytes per second, operations per second or microseconds, by the setting.
    pub value: u64,
}

/// One DeviceAllow= line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAllow {
    /// A device node, or `char-NAME` or `block-NAME`.
    pub device: Box<str>,
    /// Reading, writing, making nodes.
    pub access: (bool, bool, bool),
}

/// Everything of systemd.resource-control(5). `None` leaves the kernel's value.
#[derive(Clone, Debug, PartialEq)]
pub struct CgroupConfig {
    /// Slice=, as written; the default slice is in [`crate::Loaded::slice`].
    pub slice: Option<UnitName>,
    /// Delegate=
    pub delegate: Delegate,
    /// DelegateSubgroup=
    pub delegate_subgroup: Option<Box<str>>,
    /// DisableControllers=, sorted.
    pub disable_controllers: Box<[Controller]>,
    /// CPUAccounting=
    pub cpu_accounting: bool,
    /// MemoryAccounting=
    pub memory_accounting: bool,
    /// TasksAccounting=
    pub tasks_accounting: bool,
    /// IOAccounting=
    pub io_accounting: bool,
    /// IPAccounting=
    pub ip_accounting: bool,
    /// CPUWeight=
    pub cpu_weight: Option<CpuWeight>,
    /// StartupCPUWeight=
    pub startup_cpu_weight: Option<CpuWeight>,
    /// CPUQuota=: CPU time per second of wall clock.
    pub cpu_quota: Option<Duration>,
    /// CPUQuotaPeriodSec=
    pub cpu_quota_period: Option<Duration>,
    /// AllowedCPUs=
    pub allowed_cpus: Option<IndexSet>,
    /// StartupAllowedCPUs=
    pub startup_allowed_cpus: Option<IndexSet>,
    /// AllowedMemoryNodes=
    pub allowed_memory_nodes: Option<IndexSet>,
    /// StartupAllowedMemoryNodes=
    pub startup_allowed_memory_nodes: Option<IndexSet>,
    /// MemoryMin=
    pub memory_min: Option<Limit>,
    /// MemoryLow=
    pub memory_low: Option<Limit>,
    /// MemoryHigh=
    pub memory_high: Option<Limit>,
    /// MemoryMax=
    pub memory_max: Option<Limit>,
    /// MemoryLimit=, the older name of MemoryMax=.
    pub memory_limit: Option<Limit>,
    /// MemorySwapMax=
    pub memory_swap_max: Option<Limit>,
    /// MemoryZSwapMax=
    pub memory_zswap_max: Option<Limit>,
    /// StartupMemoryLow=
    pub startup_memory_low: Option<Limit>,
    /// StartupMemoryHigh=
    pub startup_memory_high: Option<Limit>,
    /// StartupMemoryMax=
    pub startup_memory_max: Option<Limit>,
    /// StartupMemorySwapMax=
    pub startup_memory_swap_max: Option<Limit>,
    /// StartupMemoryZSwapMax=
    pub startup_memory_zswap_max: Option<Limit>,
    /// DefaultMemoryMin=
    pub default_memory_min: Option<Limit>,
    /// DefaultMemoryLow=
    pub default_memory_low: Option<Limit>,
    /// DefaultStartupMemoryLow=
    pub default_startup_memory_low: Option<Limit>,
    /// MemoryZSwapWriteback=
    pub memory_zswap_writeback: Option<bool>,
    /// What slices above turn off; sorted. Their files say so, not the unit's.
    pub disabled_above: Box<[Controller]>,
    /// TasksMax=; `None` is the manager's default.
    pub tasks_max: Option<TasksLimit>,
    /// IOWeight=, 1 to 10,000.
    pub io_weight: Option<u32>,
    /// StartupIOWeight=, 1 to 10,000.
    pub startup_io_weight: Option<u32>,
    /// IODeviceWeight=
    pub io_device_weight: Vec<PerDevice>,
    /// IOReadBandwidthMax=, bytes per second.
    pub io_read_bandwidth_max: Vec<PerDevice>,
    /// IOWriteBandwidthMax=, bytes per second.
    pub io_write_bandwidth_max: Vec<PerDevice>,
    /// IOReadIOPSMax=, operations per second.
    pub io_read_iops_max: Vec<PerDevice>,
    /// IOWriteIOPSMax=, operations per second.
    pub io_write_iops_max: Vec<PerDevice>,
    /// IODeviceLatencyTargetSec=, microseconds.
    pub io_device_latency_target: Vec<PerDevice>,
    /// DevicePolicy=
    pub device_policy: DevicePolicy,
    /// DeviceAllow=
    pub device_allow: Vec<DeviceAllow>,
    /// IPAddressAllow=
    pub ip_address_allow: Vec<Prefix>,
    /// IPAddressDeny=
    pub ip_address_deny: Vec<Prefix>,
    /// SocketBindAllow= and SocketBindDeny=
    pub socket_bind: Rules,
    /// RestrictNetworkInterfaces=
    pub network_interfaces: Option<Interfaces>,
    /// NFTSet=, each once
    pub nft_sets: Vec<super::NftSet>,
    /// IPIngressFilterPath=
    pub ingress_filters: Vec<Pinned>,
    /// IPEgressFilterPath=
    pub egress_filters: Vec<Pinned>,
    /// BPFProgram=
    pub bpf_programs: Vec<Pinned>,
    /// ManagedOOMSwap=
    pub managed_oom_swap: ManagedOom,
    /// ManagedOOMMemoryPressure=
    pub managed_oom_memory_pressure: ManagedOom,
    /// ManagedOOMMemoryPressureLimit=, in parts of 10,000.
    pub managed_oom_memory_pressure_limit: Option<u32>,
    /// ManagedOOMMemoryPressureDurationSec=; `None` is what systemd-oomd has.
    pub managed_oom_memory_pressure_duration: Option<Duration>,
    /// ManagedOOMPreference=
    pub managed_oom_preference: ManagedOomPreference,
    /// CoredumpReceive=
    pub coredump_receive: bool,
    /// MemoryPressureWatch=; `None` is as `skip`, which systemd 252 does.
    pub memory_pressure_watch: Option<PressureWatch>,
    /// MemoryPressureThresholdSec=
    pub memory_pressure_threshold: Option<Duration>,
}

impl CgroupConfig {
    /// What holds while the system starts or shuts down (systemd.resource-control(5), "StartupCPUWeight=").
    pub fn at_startup(&self) -> CgroupConfig {
        let mut config = self.clone();
        let replace = |value: &mut Option<Limit>, other: &Option<Limit>| {
            if other.is_some() {
                value.clone_from(other);
            }
        };
        config.cpu_weight = self.startup_cpu_weight.or(self.cpu_weight);
        config.io_weight = self.startup_io_weight.or(self.io_weight);
        for (value, other) in [
            (&mut config.allowed_cpus, &self.startup_allowed_cpus),
            (&mut config.allowed_memory_nodes, &self.startup_allowed_memory_nodes),
        ] {
            if other.is_some() {
                value.clone_from(other);
            }
        }
        replace(&mut config.memory_low, &self.startup_memory_low);
        replace(&mut config.memory_high, &self.startup_memory_high);
        replace(&mut config.memory_max, &self.startup_memory_max);
        replace(&mut config.memory_swap_max, &self.startup_memory_swap_max);
        replace(&mut config.memory_zswap_max, &self.startup_memory_zswap_max);
        config
    }

    /// Nothing set, accounting off.
    pub fn empty() -> CgroupConfig {
        CgroupConfig {
            slice: None,
            delegate: Delegate::No,
            delegate_subgroup: None,
            disable_controllers: Box::default(),
            cpu_accounting: false,
            memory_accounting: false,
            tasks_accounting: false,
            io_accounting: false,
            ip_accounting: false,
            cpu_weight: None,
            startup_cpu_weight: None,
            cpu_quota: None,
            cpu_quota_period: None,
            allowed_cpus: None,
            startup_allowed_cpus: None,
            allowed_memory_nodes: None,
            startup_allowed_memory_nodes: None,
            memory_min: None,
            memory_low: None,
            memory_high: None,
            memory_max: None,
            memory_limit: None,
            memory_swap_max: None,
            memory_zswap_max: None,
            startup_memory_low: None,
            startup_memory_high: None,
            startup_memory_max: None,
            startup_memory_swap_max: None,
            startup_memory_zswap_max: None,
            default_memory_min: None,
            default_memory_low: None,
            default_startup_memory_low: None,
            memory_zswap_writeback: None,
            disabled_above: Box::default(),
            tasks_max: None,
            io_weight: None,
            startup_io_weight: None,
            io_device_weight: Vec::new(),
            io_read_bandwidth_max: Vec::new(),
            io_write_bandwidth_max: Vec::new(),
            io_read_iops_max: Vec::new(),
            io_write_iops_max: Vec::new(),
            io_device_latency_target: Vec::new(),
            device_policy: DevicePolicy::Auto,
            device_allow: Vec::new(),
            ip_address_allow: Vec::new(),
            ip_address_deny: Vec::new(),
            socket_bind: Rules::default(),
            network_interfaces: None,
            nft_sets: Vec::new(),
            ingress_filters: Vec::new(),
            egress_filters: Vec::new(),
            bpf_programs: Vec::new(),
            managed_oom_swap: ManagedOom::Auto,
            managed_oom_memory_pressure: ManagedOom::Auto,
            managed_oom_memory_pressure_limit: None,
            managed_oom_memory_pressure_duration: None,
            managed_oom_preference: ManagedOomPreference::None,
            coredump_receive: false,
            memory_pressure_watch: None,
            memory_pressure_threshold: None,
        }
    }
}

/// A set of CPU or memory node numbers: sorted, disjoint, inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexSet {
    ranges: Vec<(u16, u16)>,
}

impl IndexSet {
    /// The largest number of a CPU or node.
    pub const INDEX_MAX: u16 = 8191;

    /// The ranges, both ends included.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.ranges
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a number is in the set.
    pub fn contains(&self, index: u16) -> bool {
        self.ranges.iter().any(|&(low, high)| (low..=high).contains(&index))
    }

    /// Adds a range, both ends included.
    pub fn insert(&mut self, low: u16, high: u16) {
        self.ranges.push((low.min(high), low.max(high)));
        self.ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(self.ranges.len());
        for &(low, high) in &self.ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        self.ranges = merged;
    }

    /// Adds everything of another set.
    pub fn extend(&mut self, other: &IndexSet) {
        for &(low, high) in &other.ranges {
            self.insert(low, high);
        }
    }
}

/// As the kernel's cpuset files want it: `0-3,8`.
impl std::fmt::Display for IndexSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, (low, high)) in self.ranges.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            if low == high { write!(f, "{low}")? } else { write!(f, "{low}-{high}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge() {
        let mut set = IndexSet::default();
        for (low, high) in [(8, 8), (0, 1), (3, 2), (20, 30), (25, 40)] {
            set.insert(low, high);
        }
        assert_eq!(set.to_string(), "0-3,8,20-40");
        assert!(set.contains(40) && !set.contains(41));
    }
}
