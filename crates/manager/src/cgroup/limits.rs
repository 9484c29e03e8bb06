//! What a unit's settings write to its group, and which controllers that takes
//! (systemd.resource-control(5); systemd.service(5) for `OOMPolicy=`).

use std::time::{Duration, Instant};

use warren_core::settings::{Compiled, TypeSettings};
use warren_unit::config::{
    CgroupConfig, Controller, CpuWeight, Delegate, Limit, ManagedOomPreference, OomPolicy,
    PerDevice, TasksLimit,
};
use warren_unit::settings::{Group, Id};

/// What the system is at: some limits are others while it starts or shuts down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It starts, or shuts down.
    #[default]
    Passing,
    /// Neither.
    Running,
}

/// Settings of limits that hold in [`Phase::Passing`].
pub const OF_STARTUP: [Id; 9] = [
    Id::of(Group::Cgroup, "StartupCPUWeight"),
    Id::of(Group::Cgroup, "StartupIOWeight"),
    Id::of(Group::Cgroup, "StartupAllowedCPUs"),
    Id::of(Group::Cgroup, "StartupAllowedMemoryNodes"),
    Id::of(Group::Cgroup, "StartupMemoryLow"),
    Id::of(Group::Cgroup, "StartupMemoryHigh"),
    Id::of(Group::Cgroup, "StartupMemoryMax"),
    Id::of(Group::Cgroup, "StartupMemorySwapMax"),
    Id::of(Group::Cgroup, "StartupMemoryZSwapMax"),
];

/// The same of a slice for the units in it.
pub const DEFAULT_OF_STARTUP: Id = Id::of(Group::Cgroup, "DefaultStartupMemoryLow");

/// The file that a setting is written to, and what is written.
#[derive(Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The setting, as people know it.
    pub setting: &'static str,
    /// The controller whose file it is.
    pub controller: &'static str,
    /// The file.
    pub file: &'static str,
    /// What to write; none if it cannot be said, as with a device that is not there.
    pub value: Option<String>,
}

impl Attribute {
    /// What the value begins with where a file has several.
    fn key(&self) -> &str {
        let value = self.value.as_deref().filter(|_| self.controller == "io").unwrap_or_default();
        &value[..value.rfind([' ', '=']).map_or(0, |at| at + 1)]
    }

    fn replaces(&self, other: &Attribute) -> bool {
        (self.file, self.key()) == (other.file, other.key())
    }

    /// With what the kernel begins with (cgroup-v2.rst). Nothing was written of a device that was not there.
    fn taken_back(&self) -> Option<Attribute> {
        let key = self.value.as_ref().map(|_| self.key())?;
        let value = match (self.file, key) {
            ("io.weight", "default ") | ("cpu.weight", _) => "100",
            ("io.weight", _) => "default",
            ("memory.min" | "memory.low" | "memory.oom.group" | "cpu.idle" | "io.latency", _) => {
                "0"
            }
            ("memory.zswap.writeback", _) => "1",
            ("cpuset.cpus" | "cpuset.mems", _) => "\n",
            _ => "max",
        };
        let Attribute { setting, controller, file, .. } = *self;
        Some(Attribute { setting, controller, file, value: Some(format!("{key}{value}")) })
    }
}

/// An extended attribute of the group itself, by which programs know what its unit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The setting, as people know it.
    pub setting: &'static str,
    /// The attribute.
    pub name: &'static str,
    /// Whether it is to be there.
    pub on: bool,
}

/// All that a unit wants of its group.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// Files to write.
    pub attributes: Vec<Attribute>,
    /// Controllers that are asked for by name, with the setting that does.
    pub controllers: Vec<(&'static str, &'static str)>,
    /// Every controller that there is, and is not turned off.
    pub all_controllers: bool,
    /// Extended attributes to set, and others to take away.
    pub marks: Vec<Mark>,
    /// Controllers that are turned off.
    disabled: Box<[Controller]>,
}

impl GroupLimits {
    /// What these settings want where such controllers are offered, and there can be so many tasks in all.
    pub fn of(
        settings: &Compiled,
        phase: Phase,
        offered: &[String],
        host_tasks: impl FnOnce() -> u64,
    ) -> GroupLimits {
        let mut wanted = GroupLimits::default();
        if let Some(config) = cgroup_config(settings) {
            match phase {
                Phase::Running => wanted.take(config, offered, host_tasks),
                Phase::Passing => wanted.take(&config.at_startup(), offered, host_tasks),
            }
        }
        let oom_policy = match &settings.own {
            TypeSettings::Service(config) => Some(config.oom_policy),
            TypeSettings::Scope(config) => Some(config.oom_policy),
            _ => None,
        };
        if oom_policy == Some(OomPolicy::Kill) {
            wanted.write("OOMPolicy", "memory", "memory.oom.group", "1".to_owned());
        }
        if let Some(config) = cgroup_config(settings) {
            wanted.leave_out(&config.disabled_above);
            wanted.mark(config);
        }
        wanted
    }

    /// Nothing is done about what slices above turn off (systemd.resource-control(5), "DisableControllers=").
    fn leave_out(&mut self, disabled: &[Controller]) {
        let is_off = |name: &str| disabled.iter().any(|controller| controller.as_str() == name);
        self.attributes.retain(|attribute| !is_off(attribute.controller));
        self.controllers.retain(|(_, controller)| !is_off(controller));
        self.disabled = disabled.into();
    }

    fn take(
        &mut self,
        config: &CgroupConfig,
        offered: &[String],
        host_tasks: impl FnOnce() -> u64,
    ) {
        self.account(config);
        self.delegate(&config.delegate);
        self.memory(config);
        self.cpu(config);
        // Every unit has such a limit by default: nothing is looked at for it where it cannot be applied.
        if offered.iter().any(|name| name == "pids") {
            self.tasks(config, host_tasks);
        }
        self.io(config);
    }

    /// The controllers of `offered` that all this takes, sorted.
    pub fn of_offered<'a>(&'a self, offered: &'a [String]) -> Vec<&'a str> {
        let mut names: Vec<&str> = match self.all_controllers {
            true => {
                let is_on = |name: &&str| !self.disabled.iter().any(|c| c.as_str() == *name);
                offered.iter().map(String::as_str).filter(is_on).collect()
            }
            false => {
                let written = self.attributes.iter().map(|attribute| attribute.controller);
                let named = self.controllers.iter().map(|(_, controller)| *controller);
                let is_offered = |name: &&str| offered.iter().any(|o| o == name);
                written.chain(named).filter(is_offered).collect()
            }
        };
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is to be written where that of before was: what differs, and what the kernel begins with where nothing
    /// is said any more.
    pub fn since(mut self, before: GroupLimits) -> GroupLimits {
        let is_gone = |old: &&Attribute| !self.attributes.iter().any(|new| new.replaces(old));
        let mut attributes: Vec<Attribute> =
            before.attributes.iter().filter(is_gone).filter_map(Attribute::taken_back).collect();
        self.attributes.retain(|new| !before.attributes.contains(new));
        attributes.append(&mut self.attributes);
        let gone = before.marks.iter().filter(|mark| !self.marks.contains(mark));
        let mut marks: Vec<Mark> = gone.map(|mark| Mark { on: false, ..*mark }).collect();
        marks.extend(self.marks.iter().filter(|mark| !before.marks.contains(mark)));
        GroupLimits { attributes, marks, ..self }
    }

    /// Settings that name a controller which is not on, and the controller. Accounting is a default of
    /// every unit and is not reported.
    pub fn missing(&self, on: &[String]) -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_missing = |(setting, controller): &(&str, &str)| {
            *setting == DELEGATE && !on.iter().any(|name| name == controller)
        };
        self.controllers.iter().copied().filter(is_missing)
    }

    /// What systemd-oomd and systemd-coredump look for.
    fn mark(&mut self, config: &CgroupConfig) {
        let mut mark = |setting, name| self.marks.push(Mark { setting, name, on: true });
        match config.managed_oom_preference {
            ManagedOomPreference::None => {}
            ManagedOomPreference::Avoid => mark("ManagedOOMPreference", "user.oomd_avoid"),
            ManagedOomPreference::Omit => mark("ManagedOOMPreference", "user.oomd_omit"),
        }
        // A container that has no group of its own gets none (systemd.resource-control(5)).
        if config.coredump_receive && config.delegate != Delegate::No {
            mark("CoredumpReceive", "user.coredump_receive");
            mark("CoredumpReceive", "user.delegate");
        }
    }

    fn write(
        &mut self,
        setting: &'static str,
        controller: &'static str,
        file: &'static str,
        value: String,
    ) {
        self.attributes.push(Attribute { setting, controller, file, value: Some(value) });
    }

    /// CPU time is counted without a controller.
    fn account(&mut self, config: &CgroupConfig) {
        let accounts = [
            (config.memory_accounting, "MemoryAccounting", "memory"),
            (config.tasks_accounting, "TasksAccounting", "pids"),
            (config.io_accounting, "IOAccounting", "io"),
        ];
        let on = accounts.into_iter().filter(|(on, ..)| *on);
        self.controllers.extend(on.map(|(_, setting, controller)| (setting, controller)));
    }

    fn delegate(&mut self, delegate: &Delegate) {
        match delegate {
            Delegate::No => {}
            Delegate::All => self.all_controllers = true,
            Delegate::Controllers(list) => {
                // Those of cgroup v1 and of BPF have no file in v2 to be enabled by.
                let of_v2 = |c: &&Controller| V2_CONTROLLERS.contains(&c.as_str());
                let names = list.iter().filter(of_v2).map(|c| (DELEGATE, c.as_str()));
                self.controllers.extend(names);
            }
        }
    }

    fn memory(&mut self, config: &CgroupConfig) {
        // systemd.resource-control(5), "DEPRECATED OPTIONS": the older name counts where no newer
        // one is used.
        let newer = [
            &config.memory_min,
            &config.memory_low,
            &config.memory_high,
            &config.memory_max,
            &config.memory_swap_max,
            &config.memory_zswap_max,
        ];
        let older = config.memory_limit.as_ref().filter(|_| newer.iter().all(|v| v.is_none()));
        let limits = [
            ("MemoryMin", "memory.min", config.memory_min.as_ref()),
            ("MemoryLow", "memory.low", config.memory_low.as_ref()),
            ("MemoryHigh", "memory.high", config.memory_high.as_ref()),
            ("MemoryMax", "memory.max", config.memory_max.as_ref()),
            ("MemoryLimit", "memory.max", older),
            ("MemorySwapMax", "memory.swap.max", config.memory_swap_max.as_ref()),
            ("MemoryZSwapMax", "memory.zswap.max", config.memory_zswap_max.as_ref()),
        ];
        for (setting, file, value) in limits {
            if let Some(value) = value {
                self.write(setting, "memory", file, limit(value));
            }
        }
        if let Some(writes_back) = config.memory_zswap_writeback {
            let value = u8::from(writes_back).to_string();
            self.write("MemoryZSwapWriteback", "memory", "memory.zswap.writeback", value);
        }
    }

    fn cpu(&mut self, config: &CgroupConfig) {
        match config.cpu_weight {
            Some(CpuWeight::Idle) => self.write("CPUWeight", "cpu", "cpu.idle", "1".to_owned()),
            Some(CpuWeight::Weight(w)) => {
                self.write("CPUWeight", "cpu", "cpu.weight", w.to_string());
            }
            None => {}
        }
        if let Some(quota) = &config.cpu_quota {
            let period = config.cpu_quota_period.unwrap_or(CPU_PERIOD);
            let (share, period) = cpu_share(*quota, period);
            self.write("CPUQuota", "cpu", "cpu.max", format!("{share} {period}"));
        }
        if let Some(cpus) = &config.allowed_cpus {
            self.write("AllowedCPUs", "cpuset", "cpuset.cpus", cpus.to_string());
        }
        if let Some(nodes) = &config.allowed_memory_nodes {
            self.write("AllowedMemoryNodes", "cpuset", "cpuset.mems", nodes.to_string());
        }
    }

    fn tasks(&mut self, config: &CgroupConfig, host_tasks: impl FnOnce() -> u64) {
        let Some(tasks) = &config.tasks_max else { return };
        let value = match tasks {
            TasksLimit::Infinity => "max".to_owned(),
            TasksLimit::Tasks(n) => n.to_string(),
            TasksLimit::Scale { numerator, denominator } => {
                (host_tasks() * u64::from(*numerator) / u64::from(*denominator)).to_string()
            }
        };
        self.write("TasksMax", "pids", "pids.max", value);
    }

    fn io(&mut self, config: &CgroupConfig) {
        if let Some(weight) = config.io_weight {
            self.write("IOWeight", "io", "io.weight", format!("default {weight}"));
        }
        let limits = [
            ("IODeviceWeight", "io.weight", "", &config.io_device_weight),
            ("IOReadBandwidthMax", "io.max", "rbps=", &config.io_read_bandwidth_max),
            ("IOWriteBandwidthMax", "io.max", "wbps=", &config.io_write_bandwidth_max),
            ("IOReadIOPSMax", "io.max", "riops=", &config.io_read_iops_max),
            ("IOWriteIOPSMax", "io.max", "wiops=", &config.io_write_iops_max),
            ("IODeviceLatencyTargetSec", "io.latency", "target=", &config.io_device_latency_target),
        ];
        for (setting, file, key, devices) in limits {
            for device in devices {
                let value = io_value(device, key, disk_of);
                self.attributes.push(Attribute { setting, controller: "io", file, value });
            }
        }
    }
}

/// CPUQuotaPeriodSec= where it is not set.
const CPU_PERIOD: Duration = Duration::from_millis(100);

/// The shortest quota, and the longest period, that the kernel takes (cgroup-v2.rst, "cpu.max").
const CPU_SHARE_MIN_US: u128 = 1_000;
const CPU_PERIOD_MAX_US: u128 = 1_000_000;

/// CPU time, of a second, as so many µs of each period of so many: the period grows with a quota that
/// would be too short in it (systemd.resource-control(5), "CPUQuotaPeriodSec=").
fn cpu_share(quota: Duration, period: Duration) -> (u128, u128) {
    let (quota, period) = (quota.as_micros().max(1), period.as_micros());
    let period = period.max((CPU_SHARE_MIN_US * 1_000_000).div_ceil(quota));
    let period = period.clamp(CPU_SHARE_MIN_US, CPU_PERIOD_MAX_US);
    ((quota * period / 1_000_000).max(CPU_SHARE_MIN_US), period)
}

/// How many tasks the host can have is looked at again after this time: sysctl(8) may change it.
const HOST_TASKS_LAST: Duration = Duration::from_secs(1);

/// The setting by which controllers are asked for by name.
const DELEGATE: &str = "Delegate";

/// What cgroup.controllers can name of what `Delegate=` takes.
const V2_CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "io", "memory", "pids"];

/// The limits of a unit whose processes have a group.
pub fn cgroup_config(settings: &Compiled) -> Option<&CgroupConfig> {
    match &settings.own {
        TypeSettings::Service(c) => Some(&c.cgroup),
        TypeSettings::Socket(c) => Some(&c.cgroup),
        TypeSettings::Mount(c) => Some(&c.cgroup),
        TypeSettings::Slice(c) => Some(&c.cgroup),
        TypeSettings::Scope(c) => Some(&c.cgroup),
        _ => None,
    }
}

fn limit(limit: &Limit) -> String {
    match limit {
        Limit::Infinity => "max".to_owned(),
        Limit::Bytes(bytes) => bytes.to_string(),
        Limit::PerMyriad(part) => (host_memory() / 10_000 * u64::from(*part)).to_string(),
    }
}

/// `8:0 rbps=1000000`, if the disk is known.
fn io_value(
    device: &PerDevice,
    key: &str,
    disk_of: impl Fn(&str) -> Option<(u32, u32)>,
) -> Option<String> {
    let (major, minor) = disk_of(&device.path)?;
    let value = match device.value {
        u64::MAX => "max".to_owned(),
        value => value.to_string(),
    };
    Some(format!("{major}:{minor} {key}{value}"))
}

/// The whole disk behind a block device's node. A file may be named as well, which stands for the
/// disk that its file system is on; what may lie on a server that hangs is not looked at from here,
/// so that is reported as not applied.
fn disk_of(path: &str) -> Option<(u32, u32)> {
    path.starts_with("/dev/").then(|| warren_sys::block::disk_of(path)).flatten()
}

/// Memory of the host in bytes.
pub fn host_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Tasks that the host can have.
pub fn host_tasks() -> u64 {
    let number =
        |path: &str| std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<u64>().ok());
    let max = [number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max")];
    max.into_iter().flatten().min().unwrap_or(32_768)
}

/// The same, looked at again after a second: of thousands of units that start together the first asks.
#[derive(Debug, Default)]
pub struct HostTasks(Option<(Instant, u64)>);

impl HostTasks {
    /// As of now.
    pub fn get(&mut self, now: Instant) -> u64 {
        match self.0 {
            Some((seen, tasks)) if now.duration_since(seen) < HOST_TASKS_LAST => tasks,
            _ => self.0.insert((now, host_tasks())).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(a: &Attribute) -> String {
        format!("{}={}", a.file, a.value.as_deref().unwrap_or("?"))
    }

    #[track_caller]
    fn check(config: CgroupConfig, files: &[&str], controllers: &str) {
        let mut wanted = GroupLimits::default();
        let offered = V2_CONTROLLERS.map(String::from);
        wanted.take(&config, &offered, || 1000);
        let found: Vec<String> = wanted.attributes.iter().map(line).collect();
        assert_eq!(found, files);
        assert_eq!(wanted.of_offered(&offered).join(" "), controllers);
    }

    #[test]
    fn settings_become_files_and_controllers() {
        let none = CgroupConfig::empty;
        check(none(), &[], "");
        check(CgroupConfig { memory_accounting: true, ..none() }, &[], "memory");
        check(CgroupConfig { delegate: Delegate::All, ..none() }, &[], "cpu cpuset io memory pids");
        let list = Delegate::Controllers([Controller::Pids, Controller::Cpuacct].into());
        check(CgroupConfig { delegate: list, ..none() }, &[], "pids");
        let quota = Some(std::time::Duration::from_millis(500));
        check(CgroupConfig { cpu_quota: quota, ..none() }, &["cpu.max=50000 100000"], "cpu");
    }

    #[test]
    fn nothing_is_done_about_controllers_that_slices_turn_off() {
        let config = CgroupConfig {
            memory_zswap_writeback: Some(false),
            cpu_weight: Some(CpuWeight::Weight(7)),
            tasks_max: Some(TasksLimit::Tasks(7)),
            delegate: Delegate::All,
            ..CgroupConfig::empty()
        };
        let all = ["memory.zswap.writeback=0", "cpu.weight=7", "pids.max=7"];
        check(config.clone(), &all, "cpu cpuset io memory pids");
        let mut wanted = GroupLimits::default();
        let offered = V2_CONTROLLERS.map(String::from);
        wanted.take(&config, &offered, || 1000);
        wanted.leave_out(&[Controller::Cpu, Controller::Pids]);
        let found: Vec<String> = wanted.attributes.iter().map(line).collect();
        assert_eq!(found, ["memory.zswap.writeback=0"]);
        assert_eq!(wanted.of_offered(&offered).join(" "), "cpuset io memory");
    }

    #[test]
    fn the_start_and_the_shutdown_have_limits_of_their_own() {
        let regular = CgroupConfig {
            cpu_weight: Some(CpuWeight::Weight(50)),
            startup_cpu_weight: Some(CpuWeight::Idle),
            startup_io_weight: Some(7),
            memory_max: Some(Limit::Bytes(4096)),
            startup_memory_max: Some(Limit::Infinity),
            startup_memory_low: Some(Limit::Bytes(8192)),
            ..CgroupConfig::empty()
        };
        let passing = regular.at_startup();
        check(regular.clone(), &["memory.max=4096", "cpu.weight=50"], "cpu memory");
        let other = ["memory.low=8192", "memory.max=max", "cpu.idle=1", "io.weight=default 7"];
        check(passing.clone(), &other, "cpu io memory");
        let wanted = |config: &CgroupConfig| {
            let mut wanted = GroupLimits::default();
            wanted.take(config, &[], || 1000);
            wanted
        };
        let after = wanted(&regular).since(wanted(&passing));
        let written: Vec<String> = after.attributes.iter().map(line).collect();
        let back = ["memory.low=0", "cpu.idle=0", "io.weight=default 100"];
        assert_eq!(written, [&back[..], &["memory.max=4096", "cpu.weight=50"]].concat());
    }

    #[test]
    fn tasks_are_limited_where_the_controller_is() {
        let tasks = |tasks| CgroupConfig { tasks_max: Some(tasks), ..CgroupConfig::empty() };
        let share = TasksLimit::Scale { numerator: 15, denominator: 100 };
        check(tasks(TasksLimit::Tasks(7)), &["pids.max=7"], "pids");
        check(tasks(TasksLimit::Infinity), &["pids.max=max"], "pids");
        check(tasks(share), &["pids.max=150"], "pids");
        let mut without = GroupLimits::default();
        without.take(&tasks(share), &["memory".to_owned()], || panic!("nobody has to know"));
        assert_eq!(without, GroupLimits::default());
    }

    #[test]
    fn how_many_tasks_there_can_be_is_looked_at_once_a_second() {
        let start = Instant::now();
        let mut host = HostTasks(Some((start, 7)));
        assert_eq!(host.get(start + HOST_TASKS_LAST / 2), 7);
        assert_eq!(host.get(start + HOST_TASKS_LAST), host_tasks());
    }

    #[test]
    fn a_small_share_of_the_processor_is_of_a_longer_period() {
        let us = Duration::from_micros;
        for (quota, period, expect) in [
            (500_000, 100_000, (50_000, 100_000)),
            (2_000_000, 10_000, (20_000, 10_000)),
            (10_000, 100_000, (1_000, 100_000)),
            (5_000, 100_000, (1_000, 200_000)),
            (1_000, 100_000, (1_000, 1_000_000)),
            // Less than a thousandth is not to be had.
            (100, 100_000, (1_000, 1_000_000)),
            (500_000, 1_000, (1_000, 2_000)),
            (500_000, 5_000_000, (500_000, 1_000_000)),
        ] {
            assert_eq!(cpu_share(us(quota), us(period)), expect, "{quota} {period}");
        }
    }

    #[test]
    fn the_older_name_of_the_memory_limit_counts_where_no_newer_one_does() {
        let older =
            || CgroupConfig { memory_limit: Some(Limit::Bytes(5)), ..CgroupConfig::empty() };
        check(older(), &["memory.max=5"], "memory");
        let both = CgroupConfig { memory_high: Some(Limit::Infinity), ..older() };
        check(both, &["memory.high=max"], "memory");
    }

    #[test]
    fn what_an_edit_takes_away_is_as_it_was() {
        let of = |one: CgroupConfig| {
            let mut wanted = GroupLimits::default();
            wanted.take(&one, &V2_CONTROLLERS.map(String::from), || 1000);
            wanted
        };
        let limited = CgroupConfig {
            memory_max: Some(Limit::Bytes(7)),
            memory_low: Some(Limit::Bytes(5)),
            cpu_weight: Some(CpuWeight::Idle),
            io_weight: Some(50),
            ..CgroupConfig::empty()
        };
        let lines = |wanted: GroupLimits| {
            let line = |a: Attribute| format!("{}={}", a.file, a.value.unwrap_or_default());
            wanted.attributes.into_iter().map(line).collect::<Vec<_>>().join(" ")
        };
        let weight = Some(CpuWeight::Weight(9));
        let other = CgroupConfig {
            memory_low: Some(Limit::Bytes(6)),
            cpu_weight: weight,
            ..limited.clone()
        };
        assert_eq!(lines(of(limited.clone()).since(of(limited.clone()))), "");
        assert_eq!(
            lines(of(other).since(of(limited.clone()))),
            "cpu.idle=0 memory.low=6 cpu.weight=9"
        );
        assert_eq!(
            lines(of(CgroupConfig::empty()).since(of(limited))),
            "memory.low=0 memory.max=max cpu.idle=0 io.weight=default 100"
        );
        let disk = |file, value: &str| Attribute {
            setting: "IOReadBandwidthMax",
            controller: "io",
            file,
            value: Some(value.to_owned()),
        };
        let disks = |attributes| GroupLimits { attributes, ..GroupLimits::default() };
        let before = disks(vec![
            disk("io.max", "8:0 rbps=9"),
            disk("io.max", "8:0 wbps=9"),
            disk("io.weight", "8:0 20"),
            disk("io.latency", "8:0 target=5"),
        ]);
        let after = disks(vec![disk("io.max", "8:0 rbps=8")]);
        assert_eq!(
            lines(after.since(before)),
            "io.max=8:0 wbps=max io.weight=8:0 default io.latency=8:0 target=0 io.max=8:0 rbps=8"
        );
    }

    #[test]
    fn groups_are_marked_for_programs_and_unmarked() {
        use ManagedOomPreference::{Avoid, None, Omit};
        let of = |managed_oom_preference, coredump_receive, delegates: bool| {
            let delegate = if delegates { Delegate::All } else { Delegate::No };
            let mut wanted = GroupLimits::default();
            wanted.mark(&CgroupConfig {
                managed_oom_preference,
                coredump_receive,
                delegate,
                ..CgroupConfig::empty()
            });
            wanted
        };
        let check = |before: GroupLimits, now: GroupLimits, expected: &str| {
            let line = |mark: &Mark| format!("{}{}", if mark.on { "+" } else { "-" }, mark.name);
            let marks: Vec<String> = now.since(before).marks.iter().map(line).collect();
            assert_eq!(marks.join(" ").replace("user.", ""), expected);
        };
        let none = || of(None, false, true);
        check(none(), none(), "");
        check(none(), of(Avoid, false, false), "+oomd_avoid");
        check(of(Avoid, false, false), of(Avoid, false, false), "");
        check(of(Avoid, false, false), of(Omit, false, false), "-oomd_avoid +oomd_omit");
        check(of(Omit, false, false), none(), "-oomd_omit");
        check(none(), of(None, true, false), "");
        check(none(), of(None, true, true), "+coredump_receive +delegate");
        check(of(None, true, true), none(), "-coredump_receive -delegate");
    }

    #[test]
    fn limits_of_disks_name_them_by_number() {
        let device = |value| PerDevice { path: "/dev/sda".into(), value };
        let disk = |path: &str| (path == "/dev/sda").then_some((8, 0));
        let value = |value, key| io_value(&device(value), key, disk);
        assert_eq!(value(1000, "rbps=").as_deref(), Some("8:0 rbps=1000"));
        assert_eq!(value(u64::MAX, "wiops=").as_deref(), Some("8:0 wiops=max"));
        assert_eq!(value(200, "").as_deref(), Some("8:0 200"));
        assert_eq!(io_value(&device(1), "rbps=", |_| None), None);
        let gone = vec![PerDevice { path: "/dev/no-such-disk".into(), value: 1 }];
        let config = CgroupConfig { io_read_bandwidth_max: gone, ..CgroupConfig::empty() };
        check(config, &["io.max=?"], "io");
    }

    #[test]
    fn delegated_controllers_that_are_not_there_are_told() {
        let mut wanted = GroupLimits::default();
        wanted.delegate(&Delegate::Controllers([Controller::Cpu, Controller::Io].into()));
        let missing = |on: &[String]| wanted.missing(on).collect::<Vec<_>>();
        assert_eq!(missing(&["cpu".to_owned()]), [("Delegate", "io")]);
        assert_eq!(missing(&["cpu".to_owned(), "io".to_owned()]), []);
    }
}
