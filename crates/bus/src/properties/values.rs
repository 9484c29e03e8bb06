//! Values as systemd puts them on the wire.

use crate::wire::Writer;
use std::net::IpAddr;
use std::time::Duration;
use warren_core::model::process::{Ended, ExitStatus, Process};
use warren_core::model::state::Tested;
use warren_core::model::time::Moment;
use warren_unit::config::*;

/// A duration in microseconds; saturates.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The same; none is for ever.
pub fn usec(duration: Option<Duration>) -> u64 {
    duration.map_or(u64::MAX, micros)
}

/// `TimeoutIdleUSec` of an automount point: 0 where nobody said that it has none.
pub fn idle_limit(config: &AutomountConfig) -> u64 {
    let none = if config.idles_for_ever { u64::MAX } else { 0 };
    config.timeout_idle.map_or(none, micros)
}

/// A text that may not be there.
pub fn text(value: &Option<Box<str>>) -> &str {
    value.as_deref().unwrap_or_default()
}

/// A length as the wire has it.
pub fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// A counter as the wire has it.
pub fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The words that mean yes in unit files.
pub fn is_yes(word: &str) -> bool {
    matches!(word.to_ascii_lowercase().as_str(), "1" | "yes" | "y" | "true" | "t" | "on")
}

/// A word that may also be a switch: `true` is `yes`.
pub fn normal_word(word: &str) -> &str {
    match word.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => "yes",
        "0" | "no" | "n" | "false" | "f" | "off" => "no",
        _ => word,
    }
}

/// A path without the slash at its end; any other word as it is.
pub fn simple_path(word: &str) -> &str {
    match word.trim_end_matches('/') {
        "" | "-" | "+" | "-+" => word,
        path => path,
    }
}

/// A main process as the ExecMain properties tell of it; all zero if there was none.
#[derive(Clone, Copy, Default)]
pub struct Main {
    pub pid: u32,
    pub started: Moment,
    pub ended: Moment,
    /// CLD_EXITED, CLD_KILLED or CLD_DUMPED of waitid(2).
    pub code: i32,
    /// Exit code or signal.
    pub status: i32,
}

impl Main {
    pub fn running(process: Process) -> Main {
        Main { pid: process.pid, started: process.started, ..Main::default() }
    }

    pub fn ended(ended: Ended) -> Main {
        let (code, status) = match ended.status {
            ExitStatus::Exited(code) => (1, i32::from(code)),
            ExitStatus::Killed(signal) => (2, i32::from(signal)),
            ExitStatus::Dumped(signal) => (3, i32::from(signal)),
            ExitStatus::Unknown => (0, 0),
        };
        Main { pid: ended.pid, started: ended.started, ended: ended.ended, code, status }
    }
}

/// `a(sbbsi)`: what came of each is kept unless all were met.
pub fn conditions<'w>(
    w: &'w mut Writer,
    prefix: &str,
    conditions: &[Condition],
    tested: (Moment, bool),
    each: &[Tested],
) -> &'w mut Writer {
    let all = if tested.0.is_never() || !tested.1 { Tested::Untested } else { Tested::Met };
    w.array(b'(', |w| {
        for (at, condition) in conditions.iter().enumerate() {
            // After an edit of the file the list may be another one.
            let is_same = each.len() == conditions.len();
            let result = match if is_same { each[at] } else { all } {
                Tested::Untested => 0,
                Tested::Met => 1,
                Tested::Unmet => -1,
            };
            w.structure().str(&format!("{prefix}{}", condition.kind.as_str()));
            w.bool(condition.trigger).bool(condition.negate).str(&condition.parameter).i32(result);
        }
    })
}

/// `(aiai)`
pub fn exit_statuses<'w>(w: &'w mut Writer, set: &ExitStatusSet) -> &'w mut Writer {
    w.structure();
    w.array(b'i', |w| {
        set.codes.iter().for_each(|code| {
            w.i32(i32::from(*code));
        });
    });
    w.array(b'i', |w| {
        set.signals.iter().for_each(|signal| {
            w.i32(signal.number());
        });
    })
}

/// `a(ss)` of what a socket listens on.
pub fn listen<'w>(w: &'w mut Writer, listen: &[Listen]) -> &'w mut Writer {
    w.array(b'(', |w| {
        for one in listen {
            let kind = one.kind.as_str();
            w.structure().str(kind.strip_prefix("Listen").unwrap_or(kind));
            w.str(&one.address.to_string());
        }
    })
}

/// Number of the protocol, 0 for the socket type's own.
pub fn protocol(protocol: Option<SocketProtocol>) -> i32 {
    match protocol {
        None => 0,
        Some(SocketProtocol::UdpLite) => 136,
        Some(SocketProtocol::Sctp) => 132,
        Some(SocketProtocol::Mptcp) => 262,
    }
}

/// `as` of the controllers that are delegated.
pub fn delegated<'w>(w: &'w mut Writer, delegate: &Delegate) -> &'w mut Writer {
    let listed: &[Controller] = match delegate {
        Delegate::No => &[],
        Delegate::All => Controller::ALL,
        Delegate::Controllers(controllers) => controllers,
    };
    w.strs(listed.iter().map(|controller| controller.as_str()))
}

/// A CPU weight; 0 is idle, all ones is unset.
pub fn cpu_weight(weight: Option<CpuWeight>) -> u64 {
    match weight {
        None => u64::MAX,
        Some(CpuWeight::Idle) => 0,
        Some(CpuWeight::Weight(weight)) => u64::from(weight),
    }
}

/// `ay`: a bit for each number, the lowest first.
pub fn index_set<'w>(w: &'w mut Writer, set: Option<&IndexSet>) -> &'w mut Writer {
    let mut bits = Vec::new();
    for &(low, high) in set.map_or(&[][..], |set| set.ranges()) {
        for index in low..=high {
            let byte = usize::from(index / 8);
            bits.resize(bits.len().max(byte + 1), 0);
            bits[byte] |= 1_u8 << (index % 8);
        }
    }
    w.bytes(&bits)
}

/// `aay`
pub fn byte_arrays<'w>(w: &'w mut Writer, texts: &[Box<str>]) -> &'w mut Writer {
    w.array(b'a', |w| {
        for text in texts {
            w.bytes(text.as_bytes());
        }
    })
}

/// `a(st)`
pub fn per_device<'w>(w: &'w mut Writer, devices: &[PerDevice]) -> &'w mut Writer {
    w.array(b'(', |w| {
        // As in systemd, without those that are not limited.
        for device in devices.iter().filter(|device| device.value != u64::MAX) {
            w.structure().str(&device.path).u64(device.value);
        }
    })
}

/// `a(ss)`: device and `rwm`.
pub fn device_allow<'w>(w: &'w mut Writer, devices: &[DeviceAllow]) -> &'w mut Writer {
    w.array(b'(', |w| {
        for device in devices {
            let (read, write, make) = device.access;
            let letters = [(read, 'r'), (write, 'w'), (make, 'm')];
            let access: String = letters.iter().filter(|(on, _)| *on).map(|(_, c)| c).collect();
            w.structure().str(&device.device).str(&access);
        }
    })
}

/// `a(iayu)`: address family, address and bits.
pub fn prefixes<'w>(w: &'w mut Writer, prefixes: &[Prefix]) -> &'w mut Writer {
    const AF_INET: i32 = 2;
    const AF_INET6: i32 = 10;
    w.array(b'(', |w| {
        for prefix in prefixes {
            let (family, bytes) = match prefix.address {
                IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
                IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
            };
            w.structure().i32(family);
            w.array(b'y', |w| bytes.iter().for_each(|byte| _ = w.byte(*byte)));
            w.u32(u32::from(prefix.bits));
        }
    })
}

/// Parts of 10,000 as a share of 2^32 - 1, rounded as systemd 252 does.
pub fn per_32_bits(parts: Option<u32>) -> u32 {
    let share = (u64::from(parts.unwrap_or(0)) * u64::from(u32::MAX) + 5_000) / 10_000;
    saturate(share)
}

/// `as`: `NAME=value`.
pub fn environment<'w>(w: &'w mut Writer, variables: &[EnvironmentVariable]) -> &'w mut Writer {
    let texts = variables.iter().map(|v| format!("{}={}", v.name, v.value));
    let texts: Vec<String> = texts.collect();
    w.strs(texts.iter().map(|text| &**text))
}

/// `as`: names, or `NAME=value`.
pub fn unset_environment<'w>(w: &'w mut Writer, unset: &[UnsetEnvironment]) -> &'w mut Writer {
    let text = |one: &UnsetEnvironment| match &one.value {
        Some(value) => format!("{}={value}", one.name),
        None => one.name.to_string(),
    };
    let texts: Vec<String> = unset.iter().map(text).collect();
    w.strs(texts.iter().map(|text| &**text))
}

/// `a(sb)`
pub fn environment_files<'w>(w: &'w mut Writer, files: &[EnvironmentFile]) -> &'w mut Writer {
    w.array(b'(', |w| {
        for file in files {
            w.structure().str(&file.path).bool(file.optional);
        }
    })
}

/// `~`, or the path, with a `!` before it when it may be missing.
pub fn working_directory(exec: &ExecConfig) -> String {
    let mark = if exec.working_directory_optional { "!" } else { "" };
    match &exec.working_directory {
        None => String::new(),
        Some(WorkingDirectory::Home) => format!("{mark}~"),
        Some(WorkingDirectory::Path(path)) => format!("{mark}{path}"),
    }
}

/// The kernel's number of the class; best effort where none is set.
pub fn io_class(exec: &ExecConfig) -> i32 {
    match exec.io_scheduling_class {
        Some(IoSchedulingClass::None) => 0,
        Some(IoSchedulingClass::Realtime) => 1,
        Some(IoSchedulingClass::BestEffort) | None => 2,
        Some(IoSchedulingClass::Idle) => 3,
    }
}

/// The kernel's number of the policy.
pub fn cpu_policy(exec: &ExecConfig) -> i32 {
    match exec.cpu_scheduling_policy {
        Some(CpuSchedulingPolicy::Other) | None => 0,
        Some(CpuSchedulingPolicy::Fifo) => 1,
        Some(CpuSchedulingPolicy::Rr) => 2,
        Some(CpuSchedulingPolicy::Batch) => 3,
        Some(CpuSchedulingPolicy::Idle) => 5,
    }
}

/// The word of StandardInput=.
pub fn input_word(input: &Input) -> &'static str {
    match input {
        Input::Null => "null",
        Input::Tty => "tty",
        Input::TtyForce => "tty-force",
        Input::TtyFail => "tty-fail",
        Input::Data => "data",
        Input::File(_) => "file",
        Input::Socket => "socket",
        Input::Fd(_) => "fd",
    }
}

/// The name of a handed-over file descriptor.
pub fn input_fd(input: &Input) -> &str {
    if let Input::Fd(name) = input { name } else { "" }
}

/// The word of StandardOutput= and StandardError=.
pub fn output_word(output: &Output) -> &'static str {
    match output {
        Output::Inherit => "inherit",
        Output::Null => "null",
        Output::Tty => "tty",
        Output::Journal => "journal",
        Output::Kmsg => "kmsg",
        Output::JournalConsole => "journal+console",
        Output::KmsgConsole => "kmsg+console",
        Output::File(_) => "file",
        Output::Append(_) => "append",
        Output::Truncate(_) => "truncate",
        Output::Socket => "socket",
        Output::Fd(_) => "fd",
    }
}

/// The name of a handed-over file descriptor.
pub fn output_fd(output: &Output) -> &str {
    if let Output::Fd(name) = output { name } else { "" }
}

/// A capability set without the bits that the kernel has no capability for; the full set stays
/// full, as systemd shows it.
pub fn known_capabilities(set: CapabilitySet) -> u64 {
    const LAST: u32 = 40; // CAP_CHECKPOINT_RESTORE of Linux 5.9
    if set == CapabilitySet::ALL { u64::MAX } else { set.0 & ((1 << (LAST + 1)) - 1) }
}

/// `as` of the paths.
pub fn directories<'w>(w: &'w mut Writer, directory: &ExecDirectory) -> &'w mut Writer {
    w.strs(directory.paths.iter().map(|one| &*one.path))
}

/// `a(sst)`: path, link and flags.
pub fn directory_links<'w>(w: &'w mut Writer, directory: &ExecDirectory) -> &'w mut Writer {
    w.array(b'(', |w| {
        for one in &directory.paths {
            for link in &one.symlinks {
                w.structure().str(&one.path).str(link).u64(0);
            }
        }
    })
}

/// What this process has, which is what a service gets that sets nothing.
pub fn inherited_limit(resource: Resource) -> Rlimit {
    use rustix::process::{Resource as Kernel, getrlimit};
    let limit = getrlimit(match resource {
        Resource::Cpu => Kernel::Cpu,
        Resource::Fsize => Kernel::Fsize,
        Resource::Data => Kernel::Data,
        Resource::Stack => Kernel::Stack,
        Resource::Core => Kernel::Core,
        Resource::Rss => Kernel::Rss,
        Resource::Nofile => Kernel::Nofile,
        Resource::As => Kernel::As,
        Resource::Nproc => Kernel::Nproc,
        Resource::Memlock => Kernel::Memlock,
        Resource::Locks => Kernel::Locks,
        Resource::Sigpending => Kernel::Sigpending,
        Resource::Msgqueue => Kernel::Msgqueue,
        Resource::Nice => Kernel::Nice,
        Resource::Rtprio => Kernel::Rtprio,
        Resource::Rttime => Kernel::Rttime,
    });
    Rlimit { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}
