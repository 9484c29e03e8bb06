//! What a value can be: words for completion, and what is known of one.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use warren_calendar::{Calendar, Zone, Zones};
use warren_sandbox::seccomp::groups;
use warren_unit::settings::{Kind, Setting};
use warren_unit::signal::Signal;
use warren_unit::specifier::SPECIFIERS;
use warren_unit::value::capability_name;

/// Users and groups that are offered.
const NAMES_MAX: usize = 500;

/// Times that are shown of a calendar expression.
const TIMES: usize = 3;

/// The zone of the host (localtime(5)), and where others are (tzfile(5)).
const LOCAL: &str = "/etc/localtime";
const ZONES: &str = "/usr/share/zoneinfo";

/// Kinds of sockets (address_families(7)).
const FAMILIES: [&str; 10] = [
    "none",
    "AF_UNIX",
    "AF_INET",
    "AF_INET6",
    "AF_NETLINK",
    "AF_PACKET",
    "AF_VSOCK",
    "AF_ALG",
    "AF_BLUETOOTH",
    "AF_CAN",
];

/// Kinds of namespaces (namespaces(7)).
const NAMESPACES: [&str; 9] = ["yes", "no", "cgroup", "ipc", "net", "mnt", "pid", "user", "uts"];

/// Priorities of syslog(3).
const PRIORITIES: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Where standard output can go.
const OUTPUTS: [&str; 11] = [
    "inherit",
    "null",
    "tty",
    "journal",
    "kmsg",
    "journal+console",
    "kmsg+console",
    "file:",
    "append:",
    "truncate:",
    "socket",
];

/// Where standard input can come from.
const INPUTS: [&str; 8] =
    ["null", "tty", "tty-force", "tty-fail", "data", "file:", "socket", "fd:"];

/// Words that a value can have at the end of what is written of it, without names of units.
pub(super) fn words(setting: &Setting, written: &str) -> Vec<String> {
    if written.ends_with('%') {
        return SPECIFIERS.iter().map(|(letter, _)| format!("{written}{letter}")).collect();
    }
    if written.starts_with('/') && takes_paths(setting) {
        return entries(written);
    }
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match (setting.name, setting.kind) {
        (_, Kind::Bool) => own(&["yes", "no"]),
        (_, Kind::BoolOr(words)) => own(&[&["yes", "no"], words].concat()),
        (_, Kind::Word(words)) => own(words),
        (_, Kind::Signal) => signals(),
        (_, Kind::ExitStatus) => signals(),
        (_, Kind::Capabilities) => {
            (0..u8::MAX).map_while(capability_name).map(|name| format!("CAP_{name}")).collect()
        }
        (_, Kind::Memory | Kind::Tasks | Kind::Span | Kind::Rlimit(_)) => own(&["infinity"]),
        (_, Kind::CpuWeight) => own(&["idle"]),
        (_, Kind::Calendar) => own(&[
            "minutely",
            "hourly",
            "daily",
            "weekly",
            "monthly",
            "quarterly",
            "semiannually",
            "yearly",
            "Mon..Fri 08:00",
        ]),
        ("SystemCallFilter" | "SystemCallLog", _) => {
            groups::names().flat_map(|name| [name.to_owned(), format!("~{name}")]).collect()
        }
        ("SystemCallArchitectures", _) => own(&["native", "x86", "x86-64", "arm", "arm64"]),
        ("RestrictAddressFamilies", _) => own(&FAMILIES),
        ("RestrictNamespaces", _) => own(&NAMESPACES),
        ("LogLevelMax" | "SyslogLevel", _) => own(&PRIORITIES),
        ("StandardOutput" | "StandardError", _) => own(&OUTPUTS),
        ("StandardInput", _) => own(&INPUTS),
        ("Delegate", _) => own(&["yes", "no", "cpu", "cpuset", "io", "memory", "pids"]),
        ("IPAddressAllow" | "IPAddressDeny", _) => {
            own(&["any", "localhost", "link-local", "multicast"])
        }
        ("User" | "SocketUser", _) => names_in("/etc/passwd"),
        ("Group" | "SupplementaryGroups" | "SocketGroup", _) => names_in("/etc/group"),
        _ => Vec::new(),
    }
}

fn signals() -> Vec<String> {
    (1..32).filter_map(Signal::new).map(|signal| signal.to_string()).collect()
}

/// Whether a value can begin with a path of the host.
fn takes_paths(setting: &Setting) -> bool {
    let named = setting.name;
    matches!(setting.kind, Kind::Path | Kind::Command | Kind::MountsFor)
        || named.ends_with("Paths")
        || named.starts_with("ConditionPath")
        || named.starts_with("ConditionFile")
        || ["EnvironmentFile", "WorkingDirectory", "RootImage", "PIDFile"].contains(&named)
}

/// What a path can become: entries of the directory that is written, which begin as it does.
fn entries(written: &str) -> Vec<String> {
    let (directory, begun) = written.split_at(written.rfind('/').map_or(0, |slash| slash + 1));
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let slash = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
        let is_meant = name.starts_with(begun) && !name.contains(char::is_whitespace);
        is_meant.then(|| format!("{directory}{name}{slash}"))
    };
    let mut all: Vec<String> = entries.filter_map(one).collect();
    all.sort();
    all
}

/// The first field of each line of passwd(5) or group(5).
fn names_in(path: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split(':').next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).take(NAMES_MAX).collect()
}

/// What is known of a value, or of a word of it.
pub(super) fn known(setting: &Setting, value: &str, word: &str) -> Option<String> {
    if setting.kind == Kind::Calendar {
        return Some(times(value));
    }
    if let Some(group) = groups::members(word.trim_start_matches('~')) {
        let calls: Vec<&str> = group.into_iter().collect();
        return Some(format!("{word}: {}", calls.join(", ")));
    }
    let used = SPECIFIERS.iter().filter(|(letter, _)| word.contains(&format!("%{letter}")));
    let lines: Vec<String> =
        used.map(|(letter, meaning)| format!("`%{letter}` {meaning}")).collect();
    (!lines.is_empty()).then(|| lines.join("\n\n"))
}

/// A calendar expression in full, and when it elapses next.
fn times(text: &str) -> String {
    let calendar = match Calendar::parse(text) {
        Ok(calendar) => calendar,
        Err(fault) => return fault.to_string(),
    };
    let file = |path: &Path, name: &str| {
        fs::read(path).ok().and_then(|bytes| Zone::from_tzfile(name, &bytes))
    };
    let mut zones = Zones::default();
    if let Some(local) = file(Path::new(LOCAL), "local") {
        zones.local = local;
    }
    if let Some(name) = calendar.needs_zone() {
        let zone = file(&Path::new(ZONES).join(name), name);
        zones.named.insert(name.into(), zone);
    }
    let mut lines = vec![format!("`{calendar}`")];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut at = now.as_micros() as u64;
    for _ in 0..TIMES {
        match calendar.next_after(at, &zones) {
            Ok(Some(next)) => {
                at = next;
                lines.push(warren_trace::export::show::date(next));
            }
            Ok(None) => {
                lines.push("never again".to_owned());
                break;
            }
            Err(fault) => {
                lines.push(fault.to_string());
                break;
            }
        }
    }
    lines.join("\n\n")
}
