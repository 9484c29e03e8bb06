//! The values of the settings that end in a filter.
//!
//! A list that stands more than once is read line by line: the first line says whether the list is of what is
//! allowed or of what is denied, the others add to it or, if they say the opposite, take away from it
//! (systemd.exec(5), "SystemCallFilter=").

use super::arch::{Arch, ArchWord};
use super::groups;
use std::collections::{BTreeMap, BTreeSet};

/// What a call that is not allowed comes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Denial {
    /// It fails with this error number.
    Errno(u16),
    /// The process is killed (SIGSYS).
    Kill,
}

/// A list of what is allowed, or of what is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T> {
    /// What is on the list is allowed and everything else denied.
    pub is_allowed: bool,
    /// What is on the list.
    pub items: T,
}

/// System calls on a list, with the denial that is stated for each.
pub type Calls = BTreeMap<Box<str>, Option<Denial>>;

/// Everything that a unit forbids its processes by a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// SystemCallFilter=
    pub calls: Option<List<Calls>>,
    /// SystemCallErrorNumber=; without it the process is killed.
    pub denial: Option<Denial>,
    /// SystemCallLog=
    pub logged: Option<List<Calls>>,
    /// SystemCallArchitectures=: those that may be used.
    pub architectures: Option<BTreeSet<Arch>>,
    /// RestrictAddressFamilies=: by number.
    pub address_families: Option<List<BTreeSet<u32>>>,
    /// RestrictNamespaces=: `CLONE_NEW*` that may not be used.
    pub denied_namespaces: u32,
    /// MemoryDenyWriteExecute=
    pub memory_deny_write_execute: bool,
    /// RestrictRealtime=
    pub restrict_realtime: bool,
    /// RestrictSUIDSGID=
    pub restrict_suid_sgid: bool,
    /// LockPersonality=: the personality that must stay.
    pub locked_personality: Option<u32>,
    /// Names and groups of calls that fail with EPERM, for other settings (ProtectClock= and its like).
    pub forbidden: BTreeSet<&'static str>,
}

/// A word of a value that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting.
    pub setting: &'static str,
    /// The word.
    pub word: Box<str>,
}

impl Filter {
    /// Whether nothing is forbidden or logged.
    pub fn is_empty(&self) -> bool {
        *self == Filter { denial: self.denial, ..Filter::default() }
    }

    /// Takes the value of a setting in, its lines with `\n` between them; false if the setting is no filter's. Words
    /// that mean nothing are left out and added to `problems`, as systemd leaves them out.
    pub fn take(
        &mut self,
        setting: &str,
        value: &str,
        native: Arch,
        problems: &mut Vec<Problem>,
    ) -> bool {
        match setting {
            "SystemCallFilter" => {
                self.calls = calls("SystemCallFilter", value, true, problems);
            }
            "SystemCallLog" => self.logged = calls("SystemCallLog", value, false, problems),
            "SystemCallErrorNumber" => match denial(value) {
                Some(denial) => self.denial = Some(denial),
                None => problems.push(problem("SystemCallErrorNumber", value)),
            },
            "SystemCallArchitectures" => {
                self.architectures = architectures(value, native, problems);
            }
            "RestrictAddressFamilies" => self.address_families = address_families(value, problems),
            "RestrictNamespaces" => self.denied_namespaces = denied_namespaces(value, problems),
            "MemoryDenyWriteExecute" => self.memory_deny_write_execute = true,
            "RestrictRealtime" => self.restrict_realtime = true,
            "RestrictSUIDSGID" => self.restrict_suid_sgid = true,
            // The personality that a process begins with, unless Personality= says otherwise.
            "LockPersonality" => {
                self.locked_personality = Some(self.locked_personality.unwrap_or(PER_LINUX));
            }
            // The name is the unit's own, which may change it.
            "ProtectHostname" if value.starts_with("private") => {}
            _ => {
                let Some(group) = forbidden_by(setting) else { return false };
                self.forbidden.extend(group);
            }
        }
        true
    }
}

/// The words of a setting's value that mean nothing.
pub fn unknown_words(setting: &str, value: &str) -> Vec<Box<str>> {
    let mut problems = Vec::new();
    // Whichever it is: the words are the same.
    let native = Arch::native().unwrap_or(Arch::X86_64);
    Filter::default().take(setting, value, native, &mut problems);
    problems.into_iter().map(|problem| problem.word).collect()
}

/// Whether a setting ends in a filter, or has one as a part.
pub fn concerns(setting: &str) -> bool {
    const OWN: [&str; 10] = [
        "LockPersonality",
        "MemoryDenyWriteExecute",
        "RestrictAddressFamilies",
        "RestrictNamespaces",
        "RestrictRealtime",
        "RestrictSUIDSGID",
        "SystemCallArchitectures",
        "SystemCallErrorNumber",
        "SystemCallFilter",
        "SystemCallLog",
    ];
    OWN.contains(&setting) || forbidden_by(setting).is_some()
}

const PER_LINUX: u32 = 0;

/// System calls that settings forbid which are no filters themselves.
pub fn forbidden_by(setting: &str) -> Option<&'static [&'static str]> {
    Some(match setting {
        "ProtectClock" => &["@clock"],
        "ProtectHostname" => &["sethostname", "setdomainname"],
        "ProtectKernelLogs" => &["syslog"],
        "ProtectKernelModules" => &["@module"],
        "ProtectKernelTunables" => &["_sysctl"],
        "PrivateDevices" => &["@raw-io"],
        _ => return None,
    })
}

fn problem(setting: &'static str, word: &str) -> Problem {
    Problem { setting, word: word.into() }
}

/// The lines of a value that count: an empty one forgets those before it.
fn lines(value: &str) -> Vec<(bool, &str)> {
    let mut found = Vec::new();
    for line in value.split('\n').map(str::trim) {
        match line.strip_prefix('~') {
            _ if line.is_empty() => found.clear(),
            Some(rest) => found.push((true, rest)),
            None => found.push((false, line)),
        }
    }
    found
}

fn calls(
    setting: &'static str,
    value: &str,
    has_default: bool,
    problems: &mut Vec<Problem>,
) -> Option<List<Calls>> {
    let lines = lines(value);
    let is_allowed = !lines.first()?.0;
    let mut items = Calls::new();
    if is_allowed && has_default {
        items.extend(groups::members(groups::DEFAULT)?.into_iter().map(|name| (name.into(), None)));
    }
    for (inverted, line) in lines {
        for word in line.split_whitespace() {
            let (name, stated) = word.split_once(':').map_or((word, None), |(n, d)| (n, Some(d)));
            let stated = match stated.map(denial) {
                Some(None) => {
                    problems.push(problem(setting, word));
                    continue;
                }
                other => other.flatten(),
            };
            let Some(names) = named(name) else {
                problems.push(problem(setting, word));
                continue;
            };
            for name in names {
                match inverted == is_allowed {
                    true => _ = items.remove(name.as_ref()),
                    false => _ = items.insert(name, stated),
                }
            }
        }
    }
    Some(List { is_allowed, items })
}

/// The calls of a name or group.
fn named(name: &str) -> Option<Vec<Box<str>>> {
    if name.starts_with('@') {
        return Some(groups::members(name)?.into_iter().map(Into::into).collect());
    }
    groups::is_known(name).then(|| vec![name.into()])
}

/// `EPERM`, `1` or `kill`.
pub fn denial(text: &str) -> Option<Denial> {
    const ERRNO_MAX: u16 = 4095;
    if text == "kill" {
        return Some(Denial::Kill);
    }
    let number = text.parse::<u16>().ok().or_else(|| errno(text));
    number.filter(|&number| (1..=ERRNO_MAX).contains(&number)).map(Denial::Errno)
}

fn errno(name: &str) -> Option<u16> {
    let number = (1..=133)
        .find(|&number| syscalls::Errno::new(number).name().is_some_and(|known| known == name))?;
    u16::try_from(number).ok()
}

fn architectures(value: &str, native: Arch, problems: &mut Vec<Problem>) -> Option<BTreeSet<Arch>> {
    let lines = lines(value);
    lines.first()?;
    // Its own is always there: nothing could be executed.
    let mut found = BTreeSet::from([native]);
    for word in lines.iter().flat_map(|(_, line)| line.split_whitespace()) {
        match Arch::from_word(word, native) {
            Some(ArchWord::Of(arch)) => _ = found.insert(arch),
            Some(ArchWord::Foreign) => {}
            None => problems.push(problem("SystemCallArchitectures", word)),
        }
    }
    Some(found)
}

/// Address families of address_families(7) by name.
const FAMILIES: [(&str, u32); 44] = [
    ("AF_UNIX", 1),
    ("AF_LOCAL", 1),
    ("AF_INET", 2),
    ("AF_AX25", 3),
    ("AF_IPX", 4),
    ("AF_APPLETALK", 5),
    ("AF_NETROM", 6),
    ("AF_BRIDGE", 7),
    ("AF_ATMPVC", 8),
    ("AF_X25", 9),
    ("AF_INET6", 10),
    ("AF_ROSE", 11),
    ("AF_NETBEUI", 13),
    ("AF_SECURITY", 14),
    ("AF_KEY", 15),
    ("AF_NETLINK", 16),
    ("AF_PACKET", 17),
    ("AF_ASH", 18),
    ("AF_ECONET", 19),
    ("AF_ATMSVC", 20),
    ("AF_RDS", 21),
    ("AF_SNA", 22),
    ("AF_IRDA", 23),
    ("AF_PPPOX", 24),
    ("AF_WANPIPE", 25),
    ("AF_LLC", 26),
    ("AF_IB", 27),
    ("AF_MPLS", 28),
    ("AF_CAN", 29),
    ("AF_TIPC", 30),
    ("AF_BLUETOOTH", 31),
    ("AF_IUCV", 32),
    ("AF_RXRPC", 33),
    ("AF_ISDN", 34),
    ("AF_PHONET", 35),
    ("AF_IEEE802154", 36),
    ("AF_CAIF", 37),
    ("AF_ALG", 38),
    ("AF_NFC", 39),
    ("AF_VSOCK", 40),
    ("AF_KCM", 41),
    ("AF_QIPCRTR", 42),
    ("AF_SMC", 43),
    ("AF_XDP", 44),
];

/// The name of an address family, as systemd shows it.
pub fn family_name(number: u32) -> Option<&'static str> {
    FAMILIES.iter().find(|(_, other)| *other == number).map(|(name, _)| *name)
}

fn address_families(value: &str, problems: &mut Vec<Problem>) -> Option<List<BTreeSet<u32>>> {
    let lines = lines(value);
    let first = lines.first()?;
    let is_allowed = !first.0;
    let mut items = BTreeSet::new();
    for (inverted, line) in &lines {
        // "none" forbids all.
        for word in line.split_whitespace().filter(|word| *word != "none") {
            let Some(&(_, number)) = FAMILIES.iter().find(|(name, _)| *name == word) else {
                problems.push(problem("RestrictAddressFamilies", word));
                continue;
            };
            match *inverted == is_allowed {
                true => _ = items.remove(&number),
                false => _ = items.insert(number),
            }
        }
    }
    Some(List { is_allowed, items })
}

/// Types of namespaces and their flags of clone(2).
pub const NAMESPACES: [(&str, u32); 8] = [
    ("cgroup", 0x0200_0000),
    ("ipc", 0x0800_0000),
    ("net", 0x4000_0000),
    ("mnt", 0x0002_0000),
    ("pid", 0x2000_0000),
    ("user", 0x1000_0000),
    ("uts", 0x0400_0000),
    ("time", 0x0000_0080),
];

/// Those that systemd 252 has a word for; `yes` forbids these. A time namespace is not among them: bit 7 is a part of
/// the signal number in the flags of clone(2).
fn all_namespaces() -> u32 {
    NAMESPACES[..7].iter().fold(0, |all, (_, flag)| all | flag)
}

fn denied_namespaces(value: &str, problems: &mut Vec<Problem>) -> u32 {
    let mut allowed: Option<u32> = None;
    for (inverted, line) in lines(value) {
        if !inverted && let Some(restricts) = boolean(line) {
            allowed = Some(if restricts { 0 } else { all_namespaces() });
            continue;
        }
        let mut flags = 0;
        for word in line.split_whitespace() {
            match NAMESPACES[..7].iter().find(|(name, _)| *name == word) {
                Some((_, flag)) => flags |= flag,
                None => problems.push(problem("RestrictNamespaces", word)),
            }
        }
        // A line of which no word is known is as if it were not there.
        if flags == 0 && !line.trim().is_empty() {
            continue;
        }
        allowed = Some(match (inverted, allowed) {
            (false, before) => before.unwrap_or(0) | flags,
            (true, before) => before.unwrap_or(all_namespaces()) & !flags,
        });
    }
    all_namespaces() & !allowed.unwrap_or(all_namespaces())
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}
