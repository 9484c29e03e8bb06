//! Limits of a unit's cgroup (systemd.resource-control(5)).

use std::time::Duration;

use super::Unit;
use crate::config::*;
use crate::diagnostic::Code;
use crate::escape::simplify_path;
use crate::name::{UnitName, UnitType};
use crate::settings::{Id, id};
use crate::value::{self, Fault};
use warren_sandbox::bpf::bind::{RULES_MAX, Rule, Rules};
use warren_sandbox::bpf::interface::{self, Interfaces};
use warren_sandbox::bpf::pinned::{PINNED_MAX, Pinned};

impl Unit<'_> {
    pub(super) fn cgroup(&self) -> CgroupConfig {
        let mut config = CgroupConfig::empty();
        self.placement(&mut config);
        self.accounting(&mut config);
        self.cpu(&mut config);
        self.memory(&mut config);
        self.io(&mut config);
        self.devices(&mut config);
        self.oom(&mut config);
        config.tasks_max =
            self.merged.value(id!(Cgroup "TasksMax"), value::tasks).or(self.default_tasks_max());
        config
    }

    /// DefaultTasksMax= is not for slices (systemd-system.conf(5)).
    fn default_tasks_max(&self) -> Option<TasksLimit> {
        let is_slice = self.merged.name().unit_type() == UnitType::Slice;
        let default = self.defaults.tasks_max;
        (!is_slice && default != TasksLimit::Infinity).then_some(default)
    }

    fn placement(&self, config: &mut CgroupConfig) {
        config.slice = self.merged.value(id!(Cgroup "Slice"), |text| {
            let name = UnitName::parse(text).map_err(|e| Fault::new(0, e.to_string()))?;
            match name.unit_type() == UnitType::Slice && name.is_valid_slice() {
                true => Ok(name),
                false => Err(Fault::new(0, format!("'{name}' is not a slice"))),
            }
        });
        config.delegate = self.delegate();
        config.delegate_subgroup = self.owned(id!(Cgroup "DelegateSubgroup"));
        config.disable_controllers = self.controllers(id!(Cgroup "DisableControllers")).into();
    }

    /// A boolean, or controllers that add up; an empty one delegates none.
    fn delegate(&self) -> Delegate {
        let mut delegate = Delegate::No;
        for entry in self.merged.raw(id!(Cgroup "Delegate")) {
            match value::boolean(entry.value) {
                Ok(true) => delegate = Delegate::All,
                Ok(false) => delegate = Delegate::No,
                Err(_) if entry.value.is_empty() => {
                    delegate = Delegate::Controllers(Box::default());
                }
                Err(_) => {
                    let mut list = match delegate {
                        Delegate::Controllers(list) => list.into_vec(),
                        _ => Vec::new(),
                    };
                    self.controller_words(entry, &mut list);
                    delegate = Delegate::Controllers(list.into());
                }
            }
        }
        delegate
    }

    fn controllers(&self, id: Id) -> Vec<Controller> {
        let mut list = Vec::new();
        for entry in self.merged.list(id) {
            self.controller_words(entry, &mut list);
        }
        list
    }

    fn controller_words(&self, entry: &crate::parse::Entry<'_>, list: &mut Vec<Controller>) {
        for word in entry.value.split_ascii_whitespace() {
            match Controller::from_word(word) {
                Some(controller) => list.push(controller),
                None => {
                    let fault = Fault::new(0, format!("'{word}' is not a cgroup controller"));
                    self.merged.fault(entry, Code::BadValue, &fault);
                }
            }
        }
        list.sort_unstable();
        list.dedup();
    }

    fn accounting(&self, config: &mut CgroupConfig) {
        let (merged, d) = (&self.merged, self.defaults);
        config.cpu_accounting = merged.flag(id!(Cgroup "CPUAccounting"), d.cpu_accounting);
        config.memory_accounting = merged.flag(id!(Cgroup "MemoryAccounting"), d.memory_accounting);
        config.tasks_accounting = merged.flag(id!(Cgroup "TasksAccounting"), d.tasks_accounting);
        config.io_accounting = merged.flag(id!(Cgroup "IOAccounting"), d.io_accounting);
        config.memory_pressure_watch =
            merged.word(id!(Cgroup "MemoryPressureWatch"), |text| match value::boolean(text) {
                Ok(true) => Some(PressureWatch::On),
                Ok(false) => Some(PressureWatch::Off),
                Err(_) => PressureWatch::from_word(text),
            });
        config.memory_pressure_threshold =
            merged.value(id!(Cgroup "MemoryPressureThresholdSec"), value::span).flatten();
        config.memory_accounting |= config.memory_pressure_watch == Some(PressureWatch::On);
        config.ip_accounting = merged.flag(id!(Cgroup "IPAccounting"), d.ip_accounting);
    }

    fn cpu(&self, config: &mut CgroupConfig) {
        let merged = &self.merged;
        config.cpu_weight = merged.value(id!(Cgroup "CPUWeight"), value::cpu_weight);
        config.startup_cpu_weight = merged.value(id!(Cgroup "StartupCPUWeight"), value::cpu_weight);
        config.cpu_quota = merged.value(id!(Cgroup "CPUQuota"), cpu_quota);
        let period = merged.value(id!(Cgroup "CPUQuotaPeriodSec"), value::span).flatten();
        // The kernel's bounds, systemd.resource-control(5).
        let bounds = (Duration::from_millis(1), Duration::from_secs(1));
        config.cpu_quota_period = period.map(|p| p.clamp(bounds.0, bounds.1));
        config.allowed_cpus = self.index_set(id!(Cgroup "AllowedCPUs"));
        config.startup_allowed_cpus = self.index_set(id!(Cgroup "StartupAllowedCPUs"));
        config.allowed_memory_nodes = self.index_set(id!(Cgroup "AllowedMemoryNodes"));
        config.startup_allowed_memory_nodes =
            self.index_set(id!(Cgroup "StartupAllowedMemoryNodes"));
    }

    fn memory(&self, config: &mut CgroupConfig) {
        let limit = |id: Id| self.merged.value(id, value::memory);
        let ceiling = |id: Id| self.merged.value(id, memory_ceiling);
        config.memory_min = limit(id!(Cgroup "MemoryMin"));
        config.memory_low = limit(id!(Cgroup "MemoryLow"));
        config.memory_high = ceiling(id!(Cgroup "MemoryHigh"));
        config.memory_max = ceiling(id!(Cgroup "MemoryMax"));
        config.memory_limit = ceiling(id!(Cgroup "MemoryLimit"));
        config.memory_swap_max = limit(id!(Cgroup "MemorySwapMax"));
        config.memory_zswap_max = limit(id!(Cgroup "MemoryZSwapMax"));
        config.startup_memory_low = limit(id!(Cgroup "StartupMemoryLow"));
        config.startup_memory_high = ceiling(id!(Cgroup "StartupMemoryHigh"));
        config.startup_memory_max = ceiling(id!(Cgroup "StartupMemoryMax"));
        config.startup_memory_swap_max = limit(id!(Cgroup "StartupMemorySwapMax"));
        config.startup_memory_zswap_max = limit(id!(Cgroup "StartupMemoryZSwapMax"));
        config.default_memory_min = limit(id!(Cgroup "DefaultMemoryMin"));
        config.default_memory_low = limit(id!(Cgroup "DefaultMemoryLow"));
        config.default_startup_memory_low = limit(id!(Cgroup "DefaultStartupMemoryLow"));
        config.memory_zswap_writeback =
            self.merged.optional_flag(id!(Cgroup "MemoryZSwapWriteback"));
    }

    fn io(&self, config: &mut CgroupConfig) {
        let weight = |text: &str| value::number(text, 1, 10_000).map(|n| n as u64);
        let micros = |text: &str| {
            let span = value::span(text)?.unwrap_or(Duration::MAX);
            Ok(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
        };
        config.io_weight = self.number(id!(Cgroup "IOWeight"), 1, 10_000);
        config.startup_io_weight = self.number(id!(Cgroup "StartupIOWeight"), 1, 10_000);
        config.io_device_weight = self.per_device(id!(Cgroup "IODeviceWeight"), weight);
        config.io_read_bandwidth_max =
            self.per_device(id!(Cgroup "IOReadBandwidthMax"), value::io_limit);
        config.io_write_bandwidth_max =
            self.per_device(id!(Cgroup "IOWriteBandwidthMax"), value::io_limit);
        config.io_read_iops_max = self.per_device(id!(Cgroup "IOReadIOPSMax"), value::io_limit);
        config.io_write_iops_max = self.per_device(id!(Cgroup "IOWriteIOPSMax"), value::io_limit);
        config.io_device_latency_target =
            self.per_device(id!(Cgroup "IODeviceLatencyTargetSec"), micros);
    }

    /// `path value`; a later value for the same path replaces an earlier one. The path begins at the root
    /// directory, also where it does not say so.
    fn per_device(&self, id: Id, parse: impl Fn(&str) -> Result<u64, Fault>) -> Vec<PerDevice> {
        let mut out: Vec<PerDevice> = Vec::new();
        for entry in self.merged.list(id) {
            let Some(text) = self.merged.expand(entry) else { continue };
            match device_and_value(&text).and_then(|(path, rest)| Ok((path, parse(rest)?))) {
                Ok((path, value)) => {
                    out.retain(|d| *d.path != *path);
                    out.push(PerDevice { path: path.into(), value });
                }
                Err(fault) => self.merged.fault(entry, Code::BadValue, &fault),
            }
        }
        out
    }

    fn devices(&self, config: &mut CgroupConfig) {
        config.ip_address_allow = self.addresses(id!(Cgroup "IPAddressAllow"));
        config.ip_address_deny = self.addresses(id!(Cgroup "IPAddressDeny"));
        config.socket_bind = Rules {
            allow: self.bind_rules(id!(Cgroup "SocketBindAllow")),
            deny: self.bind_rules(id!(Cgroup "SocketBindDeny")),
        };
        config.network_interfaces = self.network_interfaces();
        config.nft_sets = self.nft_sets();
        config.ingress_filters = self.pinned(id!(Cgroup "IPIngressFilterPath"), "ingress:");
        config.egress_filters = self.pinned(id!(Cgroup "IPEgressFilterPath"), "egress:");
        config.bpf_programs = self.pinned(id!(Cgroup "BPFProgram"), "");
        config.device_policy = self
            .merged
            .word(id!(Cgroup "DevicePolicy"), DevicePolicy::from_word)
            .unwrap_or(DevicePolicy::Auto);
        for entry in self.merged.list(id!(Cgroup "DeviceAllow")) {
            let Some(text) = self.merged.expand(entry) else { continue };
            let (device, access) = text.split_once([' ', '\t']).unwrap_or((&text, "rwm"));
            let access = access.trim();
            let known = ["/dev/", "char-", "block-", "/run/systemd/inaccessible/"];
            let good = known.iter().any(|k| device.starts_with(k))
                && !device.split('/').any(|part| part == "..")
                && access.chars().all(|c| "rwm".contains(c));
            if !good {
                let fault = Fault::new(
                    0,
                    format!("'{text}' is not a device and its access, such as '/dev/null rw'"),
                );
                self.merged.fault(entry, Code::BadValue, &fault);
                continue;
            }
            let has = |c: char| access.contains(c);
            config.device_allow.push(DeviceAllow {
                device: device.into(),
                access: (has('r'), has('w'), has('m')),
            });
        }
    }

    /// Prefixes of addresses, sorted: their order says nothing.
    fn addresses(&self, id: Id) -> Vec<Prefix> {
        let mut out = Vec::new();
        for (entry, at, word) in self.merged.words(id) {
            match Prefix::parse(&word) {
                Some(prefixes) => out.extend(prefixes),
                None => {
                    let fault = Fault::new(at, format!("'{word}' is not an address"));
                    self.merged.fault(&entry, Code::BadValue, &fault);
                }
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    fn bind_rules(&self, id: Id) -> Vec<Rule> {
        let mut out = Vec::new();
        for entry in self.merged.list(id) {
            let Some(text) = self.merged.expand(entry) else { continue };
            let message = match Rule::parse(text.trim()) {
                Some(_) if out.len() >= RULES_MAX => format!("there are more than {RULES_MAX}"),
                Some(rule) => {
                    out.push(rule);
                    continue;
                }
                None => format!("'{text}' is not a rule for sockets"),
            };
            self.merged.fault(entry, Code::BadValue, &Fault::new(0, message));
        }
        out
    }

    /// Programs in files, at the place that each names, or at this one.
    fn pinned(&self, id: Id, place: &str) -> Vec<Pinned> {
        let mut out = Vec::new();
        for entry in self.merged.list(id) {
            let Some(text) = self.merged.expand(entry) else { continue };
            match Pinned::parse(&format!("{place}{text}")) {
                Ok(_) if out.len() >= PINNED_MAX => {
                    let message = format!("there are more than {PINNED_MAX}");
                    self.merged.fault(entry, Code::BadValue, &Fault::new(0, message));
                }
                Ok(pinned) if out.contains(&pinned) => {}
                Ok(pinned) => out.push(pinned),
                Err(why) => {
                    let message = format!("'{text}' {why}");
                    self.merged.fault(entry, Code::BadValue, &Fault::new(0, message));
                }
            }
        }
        out
    }

    fn nft_sets(&self) -> Vec<NftSet> {
        let mut sets = Vec::new();
        for (entry, at, word) in self.merged.words(id!(Cgroup "NFTSet")) {
            match NftSet::parse(&word) {
                Some(set) if sets.contains(&set) => {}
                Some(set) if sets.len() < NFT_SETS_MAX => sets.push(set),
                _ => {
                    let message = format!(
                        "'{word}' is not a source, family, table and set, as cgroup:inet:filter:services"
                    );
                    self.merged.fault(&entry, Code::BadValue, &Fault::new(at, message));
                }
            }
        }
        sets
    }

    fn network_interfaces(&self) -> Option<Interfaces> {
        let mut list = None;
        for entry in self.merged.list(id!(Cgroup "RestrictNetworkInterfaces")) {
            let Some(text) = self.merged.expand(entry) else { continue };
            let (inverted, text) = match text.strip_prefix('~') {
                Some(rest) => (true, rest),
                None => (false, &*text),
            };
            let mut names: Vec<Box<str>> = Vec::new();
            for name in value::plain_words(text) {
                match interface::is_name(&name) && names.len() < interface::NAMES_MAX {
                    true => names.push(name.into()),
                    false => {
                        let message = format!("'{name}' is not a network device");
                        self.merged.fault(entry, Code::BadValue, &Fault::new(0, message));
                    }
                }
            }
            // What is wrong as a whole restricts nothing, as a list that is empty would restrict all.
            if !names.is_empty() {
                Interfaces::take(&mut list, inverted, names);
            }
        }
        list
    }

    fn oom(&self, config: &mut CgroupConfig) {
        let merged = &self.merged;
        let managed = |id: Id| merged.word(id, ManagedOom::from_word).unwrap_or(ManagedOom::Auto);
        config.managed_oom_swap = managed(id!(Cgroup "ManagedOOMSwap"));
        config.managed_oom_memory_pressure = managed(id!(Cgroup "ManagedOOMMemoryPressure"));
        config.managed_oom_memory_pressure_limit =
            merged.value(id!(Cgroup "ManagedOOMMemoryPressureLimit"), value::part_of_whole);
        config.managed_oom_memory_pressure_duration =
            merged.value(id!(Cgroup "ManagedOOMMemoryPressureDurationSec"), pressure_duration);
        config.coredump_receive = merged.flag(id!(Cgroup "CoredumpReceive"), false);
        config.managed_oom_preference = merged
            .word(id!(Cgroup "ManagedOOMPreference"), ManagedOomPreference::from_word)
            .unwrap_or(ManagedOomPreference::None);
    }
}

/// ManagedOOMMemoryPressureDurationSec=, which systemd-oomd takes from a second on.
fn pressure_duration(text: &str) -> Result<Duration, Fault> {
    let long_enough = |span: &Duration| *span >= Duration::from_secs(1);
    let bad = || Fault::new(0, format!("'{text}' is not a time span of at least 1s"));
    value::span(text)?.filter(long_enough).ok_or_else(bad)
}

/// The path may be quoted.
fn device_and_value(text: &str) -> Result<(String, &str), Fault> {
    let bad =
        || Fault::new(0, format!("'{text}' is not a device and a value, such as '/dev/sda 10M'"));
    let mut words = value::split(text);
    let (_, path) = words.next().ok_or_else(bad)??;
    let rest = Some(words.rest().trim()).filter(|rest| !rest.is_empty()).ok_or_else(bad)?;
    let not_normalized = || Fault::new(0, format!("'{path}' is not a normalized path"));
    Ok((simplify_path(&path).ok_or_else(not_normalized)?, rest))
}

/// A limit that leaves memory to run with; systemd 252 refuses others.
fn memory_ceiling(text: &str) -> Result<Limit, Fault> {
    match value::memory(text)? {
        Limit::Bytes(0) | Limit::PerMyriad(0) => {
            Err(Fault::new(0, format!("'{text}' would leave the unit no memory")))
        }
        limit => Ok(limit),
    }
}

/// CPUQuota=20% is 200 ms of CPU time in each second.
fn cpu_quota(text: &str) -> Result<Duration, Fault> {
    match value::percent(text)? {
        0 => Err(Fault::new(0, format!("'{text}' would leave the unit no CPU time"))),
        parts => Ok(Duration::from_micros(u64::from(parts) * 100)),
    }
}
