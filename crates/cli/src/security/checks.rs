//! What can be open, and how much that weighs: tenths of a point, as `systemd-analyze security` shows them.

use std::collections::BTreeSet;

use warren_sandbox::seccomp::{Arch, Filter, groups};
use warren_unit::config::ExecConfig;
use warren_unit::value::capability;

use super::Facts;

/// Whether something is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// One thing that can be open.
pub struct Check {
    /// Its name; what a filter of system calls closes begins with `calls:`.
    pub name: &'static str,
    /// What the process can do if it is open.
    pub what: &'static str,
    /// Tenths of a point; 0 is looked at only where it is asked for.
    pub weight: u32,
    /// Settings that close it.
    pub settings: &'static [&'static str],
    /// Whether it is.
    pub open: fn(&Facts, &ExecConfig) -> Open,
}

fn open(is_open: bool) -> Open {
    if is_open { Open::Yes } else { Open::No }
}

/// Whether it has one of these capabilities.
fn has(facts: &Facts, names: &[&str]) -> Open {
    let bits = names.iter().filter_map(|name| capability(name)).map(|bit| 1u64 << bit);
    open(facts.capabilities & bits.sum::<u64>() != 0)
}

/// Whether the filter forbids nothing of what the check is about.
fn unfiltered(facts: &Facts, exec: &ExecConfig, forbids: impl Fn(&Filter) -> bool) -> Open {
    let (mut filter, mut problems) = (Filter::default(), Vec::new());
    let native = Arch::native().unwrap_or(Arch::X86_64);
    for asked in exec.protections.iter().chain(&exec.sandbox) {
        filter.take(asked.setting, &asked.value, native, &mut problems);
    }
    open(!facts.has_filter || !forbids(&filter))
}

/// Whether calls of a group are let through.
fn calls(facts: &Facts, exec: &ExecConfig, group: &str) -> Open {
    unfiltered(facts, exec, |filter| {
        let members: BTreeSet<&str> = groups::members(group).unwrap_or_default();
        filter.calls.as_ref().is_some_and(|list| match list.is_allowed {
            true => !members.iter().any(|name| list.items.contains_key(*name)),
            false => members.iter().all(|name| list.items.contains_key(*name)),
        })
    })
}

/// Whether sockets of these families can be made.
fn families(facts: &Facts, exec: &ExecConfig, numbers: &[u32]) -> Open {
    unfiltered(facts, exec, |filter| {
        filter.address_families.as_ref().is_some_and(|list| {
            let is_listed = |number: &u32| list.items.contains(number);
            match list.is_allowed {
                true => !numbers.iter().any(is_listed),
                false => numbers.iter().all(is_listed),
            }
        })
    })
}

fn namespaces(facts: &Facts, exec: &ExecConfig, bit: u32) -> Open {
    unfiltered(facts, exec, |filter| filter.denied_namespaces & bit != 0)
}

macro_rules! checks {
    ($($name:literal $weight:literal [$($setting:literal)*] $what:literal, $open:expr;)*) => {
        /// All of them.
        pub const CHECKS: &[Check] = &[$(Check {
            name: $name,
            what: $what,
            weight: $weight,
            settings: &[$($setting),*],
            open: $open,
        },)*];
    };
}

checks! {
    "user" 4 [] "runs as root", |f, _| open(f.uid == 0);
    "new privileges" 2 [] "may get new privileges by executing programs", |f, _| open(!f.no_new_privileges);
    "root directory" 1 [] "sees the host's root directory", |f, _| open(!f.has_other_root);
    "mounts" 2 ["PrivateMounts"] "may change the host's mounts", |f, _| open(!f.own.contains("mnt"));
    "system files" 2 ["ProtectSystem"] "may write to the system's files", |f, _| open(!f.is_read_only("/usr"));
    "home directories" 2 ["ProtectHome"] "sees home directories", |f, _| open(!f.hides_homes);
    "temporary files" 2 ["PrivateTmp"] "sees the temporary files of others", |f, _| open(!f.is_mounted("/tmp"));
    "devices" 2 ["PrivateDevices"] "may see hardware devices", |f, _| open(!f.is_mounted("/dev"));
    "device rules" 2 ["DeviceAllow"] "may use every device that it sees", |f, _| open(!f.devices_limited);
    "processes" 2 ["ProtectProc" "PrivatePIDs"] "sees the processes of others", |f, _| open(!f.own.contains("pid") && !f.has_option("/proc", "hidepid"));
    "kernel files" 1 ["ProcSubset"] "sees what /proc says of the kernel", |f, _| open(!f.has_option("/proc", "subset=pid"));
    "kernel settings" 2 ["ProtectKernelTunables"] "may change settings of the kernel", |f, _| open(!f.is_read_only("/proc/sys"));
    "control groups" 2 ["ProtectControlGroups"] "may change control groups", |f, _| open(!f.is_read_only("/sys/fs/cgroup"));
    "kernel log" 2 ["ProtectKernelLogs"] "may read the kernel's log", |f, _| open(!f.is_mounted("/proc/kmsg"));
    "network" 5 ["PrivateNetwork"] "has the host's network", |f, _| open(!f.own.contains("net"));
    "addresses" 2 ["IPAddressDeny"] "may talk to every address", |f, _| open(!f.addresses_limited);
    "file systems" 0 ["RestrictFileSystems"] "may open files of every file system", |f, _| open(!f.file_systems_limited);
    "users" 2 ["PrivateUsers"] "sees the host's users", |f, _| open(!f.own.contains("user"));
    "host name" 1 ["ProtectHostname"] "may change the host's name", |f, _| open(!f.own.contains("uts"));
    "file mode" 1 [] "makes files that others can read", |f, _| open(f.umask & 0o007 != 0o007);
    "CAP_SYS_ADMIN" 3 [] "has privileges of an administrator", |f, _| has(f, &["CAP_SYS_ADMIN"]);
    "CAP_SYS_PTRACE" 3 [] "may trace other processes", |f, _| has(f, &["CAP_SYS_PTRACE"]);
    "CAP_SETUID and its like" 3 [] "may become other users", |f, _| has(f, &["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"]);
    "CAP_CHOWN and its like" 2 [] "may give files away", |f, _| has(f, &["CAP_CHOWN", "CAP_FSETID", "CAP_SETFCAP"]);
    "CAP_DAC_OVERRIDE and its like" 2 [] "may read and write all files", |f, _| has(f, &["CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_IPC_OWNER"]);
    "CAP_SYS_TIME" 2 ["ProtectClock"] "may set the clock", |f, _| has(f, &["CAP_SYS_TIME"]);
    "CAP_SYS_MODULE" 2 ["ProtectKernelModules"] "may load kernel modules", |f, _| has(f, &["CAP_SYS_MODULE"]);
    "CAP_SYS_RAWIO" 2 [] "has raw input and output", |f, _| has(f, &["CAP_SYS_RAWIO"]);
    "CAP_NET_ADMIN" 2 [] "may configure networks", |f, _| has(f, &["CAP_NET_ADMIN"]);
    "CAP_NET_RAW and its like" 1 [] "may use low ports and raw sockets", |f, _| has(f, &["CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_RAW"]);
    "CAP_AUDIT_CONTROL and its like" 1 [] "may change auditing", |f, _| has(f, &["CAP_AUDIT_CONTROL", "CAP_AUDIT_READ", "CAP_AUDIT_WRITE"]);
    "CAP_MAC_ADMIN and its like" 1 [] "may change labels", |f, _| has(f, &["CAP_MAC_ADMIN", "CAP_MAC_OVERRIDE"]);
    "CAP_SYSLOG" 1 [] "may change the kernel's log", |f, _| has(f, &["CAP_SYSLOG"]);
    "CAP_SYS_NICE and its like" 1 [] "may take resources of others", |f, _| has(f, &["CAP_SYS_NICE", "CAP_SYS_RESOURCE"]);
    "CAP_SYS_BOOT" 1 [] "may reboot", |f, _| has(f, &["CAP_SYS_BOOT"]);
    "CAP_SYS_CHROOT" 1 [] "may change its root", |f, _| has(f, &["CAP_SYS_CHROOT"]);
    "CAP_MKNOD" 1 [] "may make devices", |f, _| has(f, &["CAP_MKNOD"]);
    "CAP_BPF" 1 [] "may load programs into the kernel", |f, _| has(f, &["CAP_BPF"]);
    "CAP_KILL" 1 [] "may send signals to all processes", |f, _| has(f, &["CAP_KILL"]);
    "CAP_LINUX_IMMUTABLE" 1 [] "may make files immutable", |f, _| has(f, &["CAP_LINUX_IMMUTABLE"]);
    "CAP_IPC_LOCK" 1 [] "may lock memory", |f, _| has(f, &["CAP_IPC_LOCK"]);
    "CAP_LEASE" 1 [] "may take leases of files", |f, _| has(f, &["CAP_LEASE"]);
    "CAP_SYS_TTY_CONFIG" 1 [] "may hang up terminals", |f, _| has(f, &["CAP_SYS_TTY_CONFIG"]);
    "CAP_SYS_PACCT" 1 [] "may change accounting", |f, _| has(f, &["CAP_SYS_PACCT"]);
    "CAP_WAKE_ALARM" 1 [] "may wake the machine", |f, _| has(f, &["CAP_WAKE_ALARM"]);
    "CAP_BLOCK_SUSPEND" 1 [] "may keep the machine awake", |f, _| has(f, &["CAP_BLOCK_SUSPEND"]);
    "calls: architectures" 2 ["SystemCallArchitectures"] "may make calls of other architectures", |f, e| unfiltered(f, e, |filter| filter.architectures.is_some());
    "calls: writable code" 1 ["MemoryDenyWriteExecute"] "may make memory that is writable and executable", |f, e| unfiltered(f, e, |filter| filter.memory_deny_write_execute);
    "calls: realtime" 1 ["RestrictRealtime"] "may run before all others", |f, e| unfiltered(f, e, |filter| filter.restrict_realtime);
    "calls: set-user-id files" 2 ["RestrictSUIDSGID"] "may make files that run as another user", |f, e| unfiltered(f, e, |filter| filter.restrict_suid_sgid);
    "calls: personality" 1 ["LockPersonality"] "may change its personality", |f, e| unfiltered(f, e, |filter| filter.locked_personality.is_some());
    "calls: user namespaces" 3 ["RestrictNamespaces"] "may make namespaces of users", |f, e| namespaces(f, e, 0x1000_0000);
    "calls: process namespaces" 1 ["RestrictNamespaces"] "may make namespaces of processes", |f, e| namespaces(f, e, 0x2000_0000);
    "calls: network namespaces" 1 ["RestrictNamespaces"] "may make networks", |f, e| namespaces(f, e, 0x4000_0000);
    "calls: host name namespaces" 1 ["RestrictNamespaces"] "may make namespaces of host names", |f, e| namespaces(f, e, 0x0400_0000);
    "calls: mount namespaces" 1 ["RestrictNamespaces"] "may make namespaces of mounts", |f, e| namespaces(f, e, 0x0002_0000);
    "calls: cgroup namespaces" 1 ["RestrictNamespaces"] "may make namespaces of control groups", |f, e| namespaces(f, e, 0x0200_0000);
    "calls: IPC namespaces" 1 ["RestrictNamespaces"] "may make namespaces of IPC", |f, e| namespaces(f, e, 0x0800_0000);
    "calls: Internet" 3 ["RestrictAddressFamilies"] "may make sockets of the Internet", |f, e| families(f, e, &[2, 10]);
    "calls: packets" 2 ["RestrictAddressFamilies"] "may make sockets of packets", |f, e| families(f, e, &[17]);
    "calls: netlink" 1 ["RestrictAddressFamilies"] "may make sockets to the kernel", |f, e| families(f, e, &[16]);
    "calls: local sockets" 1 ["RestrictAddressFamilies"] "may make local sockets", |f, e| families(f, e, &[1]);
    "calls: other sockets" 3 ["RestrictAddressFamilies"] "may make exotic sockets", |f, e| unfiltered(f, e, |filter| filter.address_families.as_ref().is_some_and(|list| list.is_allowed));
    "calls: @clock" 2 ["SystemCallFilter" "ProtectClock"] "may set the clock", |f, e| calls(f, e, "@clock");
    "calls: @cpu-emulation" 1 ["SystemCallFilter"] "may use emulation of processors", |f, e| calls(f, e, "@cpu-emulation");
    "calls: @debug" 2 ["SystemCallFilter"] "may debug processes", |f, e| calls(f, e, "@debug");
    "calls: @module" 2 ["SystemCallFilter"] "may load kernel modules", |f, e| calls(f, e, "@module");
    "calls: @mount" 2 ["SystemCallFilter"] "may mount", |f, e| calls(f, e, "@mount");
    "calls: @obsolete" 1 ["SystemCallFilter"] "may make obsolete calls", |f, e| calls(f, e, "@obsolete");
    "calls: @privileged" 2 ["SystemCallFilter"] "may make calls of administrators", |f, e| calls(f, e, "@privileged");
    "calls: @raw-io" 2 ["SystemCallFilter"] "may make raw input and output", |f, e| calls(f, e, "@raw-io");
    "calls: @reboot" 2 ["SystemCallFilter"] "may reboot", |f, e| calls(f, e, "@reboot");
    "calls: @resources" 2 ["SystemCallFilter"] "may change what it may use", |f, e| calls(f, e, "@resources");
    "calls: @swap" 2 ["SystemCallFilter"] "may change swap areas", |f, e| calls(f, e, "@swap");
}
