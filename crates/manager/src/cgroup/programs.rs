//! Programs of bpf(2) that limit what the processes of a group may use: devices and addresses.
//!
//! Groups with the same content share a program. A group's own settings and those of its slices are joined for
//! addresses, because the kernel asks the innermost program alone; for devices and file systems it asks all.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::rc::Rc;

use warren_core::settings::{Compiled, TypeSettings};
use warren_sandbox::bpf::Instruction;
use warren_sandbox::bpf::account;
use warren_sandbox::bpf::address::{self, Direction, Lists};
use warren_sandbox::bpf::bind::{self, Family, Rules};
use warren_sandbox::bpf::device::{self, Kind, PSEUDO, Rule, access};
use warren_sandbox::bpf::file_system::{self, FileSystems};
use warren_sandbox::bpf::interface::Interfaces;
use warren_sandbox::bpf::pinned::Pinned;
use warren_sys::bpf::{self, Hook};
use warren_sys::cgroup::Tree;
use warren_unit::config::{CgroupConfig, DeviceAllow, DevicePolicy, ExecConfig};

use super::controllers::NotApplied;
use super::file_hook::FileHook;
use super::limits::cgroup_config;
use crate::base::by_content::ByContent;

/// Programs that are kept; then all are made anew.
const KEPT_MAX: usize = 256;

/// What a unit allows its group to use.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Devices, and the setting that says so; none for all.
    devices: Option<(&'static str, Vec<DevicePatterns>)>,
    /// Addresses.
    addresses: Lists,
    /// Network devices: each list has to agree.
    interfaces: Vec<Interfaces>,
    /// Ports that sockets are bound to.
    binds: Rules,
    /// Programs of others, and the setting that names each.
    pinned: Vec<(&'static str, Pinned)>,
    /// File systems that files are opened on; none for all.
    file_systems: Option<FileSystems>,
    /// Packets are counted. Those of slices are not: the kernel asks the innermost program alone.
    counts: bool,
}

/// Devices as a unit names them.
#[derive(Debug, PartialEq, Eq)]
enum DevicePatterns {
    /// Those that everybody has.
    Pseudo,
    /// By path or group.
    Named(String, u8),
}

impl Allowed {
    /// What these settings allow, with what those of the unit's slices say of addresses.
    pub fn of(settings: &Compiled, slices: &[Compiled]) -> Allowed {
        let Some(config) = cgroup_config(settings) else { return Allowed::default() };
        let exec = match &settings.own {
            TypeSettings::Service(service) => Some(&*service.exec),
            TypeSettings::Socket(socket) => Some(&*socket.exec),
            _ => None,
        };
        let mut addresses = lists(config);
        let mut interfaces: Vec<Interfaces> = config.network_interfaces.iter().cloned().collect();
        // Its program for packets stands for those of its slices.
        let counts = config.ip_accounting && !matches!(settings.own, TypeSettings::Slice(_));
        if addresses != Lists::default() || !interfaces.is_empty() || counts {
            for slice in slices.iter().filter_map(cgroup_config) {
                let outer = lists(slice);
                addresses.allow.extend(outer.allow);
                addresses.deny.extend(outer.deny);
                interfaces.extend(slice.network_interfaces.iter().cloned());
            }
        }
        let binds = config.socket_bind.clone();
        let (devices, pinned) = (devices(config, exec), pinned(config));
        let file_systems = exec.and_then(file_systems);
        Allowed { devices, addresses, interfaces, binds, pinned, file_systems, counts }
    }
}

impl Allowed {
    /// What cannot be had where there are no control groups.
    pub fn without_groups(&self) -> Vec<NotApplied> {
        let devices = self.devices.as_ref().map(|(setting, _)| *setting);
        let addresses = (self.addresses != Lists::default()).then_some("IPAddressDeny");
        let interfaces = (!self.interfaces.is_empty()).then_some("RestrictNetworkInterfaces");
        let binds = (self.binds != Rules::default()).then_some("SocketBindDeny");
        let pinned = self.pinned.first().map(|(setting, _)| *setting);
        let files = self.file_systems.as_ref().map(|_| file_system::SETTING);
        let all = [devices, addresses, interfaces, binds, pinned, files].into_iter().flatten();
        all.map(|setting| not_applied(setting, "there are no control groups".to_owned())).collect()
    }
}

/// What a slice says of packets, which counts for units in it that have a program of their own.
pub fn said_of_packets(config: &CgroupConfig) -> (Lists, Option<Interfaces>) {
    (lists(config), config.network_interfaces.clone())
}

/// Each program once, by the setting that names it first.
fn pinned(config: &CgroupConfig) -> Vec<(&'static str, Pinned)> {
    let mut out: Vec<(&'static str, Pinned)> = Vec::new();
    for (setting, programs) in [
        ("IPIngressFilterPath", &config.ingress_filters),
        ("IPEgressFilterPath", &config.egress_filters),
        ("BPFProgram", &config.bpf_programs),
    ] {
        for program in programs {
            if !out.iter().any(|(_, other)| other == program) {
                out.push((setting, program.clone()));
            }
        }
    }
    out
}

fn lists(config: &CgroupConfig) -> Lists {
    Lists { allow: config.ip_address_allow.clone(), deny: config.ip_address_deny.clone() }
}

/// systemd.resource-control(5), "DevicePolicy=", and systemd.exec(5), "PrivateDevices=" and "ProtectClock=".
fn devices(
    config: &CgroupConfig,
    exec: Option<&ExecConfig>,
) -> Option<(&'static str, Vec<DevicePatterns>)> {
    let asks =
        |name: &str| exec.is_some_and(|exec| exec.protections.iter().any(|s| s.setting == name));
    let mut asked: Vec<DevicePatterns> = config.device_allow.iter().map(named).collect();
    // Where all may be used, the capability that it takes away protects the clock.
    if asks("ProtectClock") && (!asked.is_empty() || config.device_policy != DevicePolicy::Auto) {
        asked.push(DevicePatterns::Named("char-rtc".to_owned(), access::READ));
    }
    let setting = match config.device_policy {
        DevicePolicy::Auto if asks("PrivateDevices") => "PrivateDevices",
        DevicePolicy::Auto if asked.is_empty() => return None,
        DevicePolicy::Auto => "DeviceAllow",
        _ => "DevicePolicy",
    };
    if config.device_policy != DevicePolicy::Strict {
        asked.push(DevicePatterns::Pseudo);
    }
    Some((setting, asked))
}

fn named(allow: &DeviceAllow) -> DevicePatterns {
    let (read, write, make) = allow.access;
    let bit = |is_set: bool, bit| if is_set { bit } else { 0 };
    let access = bit(read, access::READ) | bit(write, access::WRITE) | bit(make, access::MAKE);
    DevicePatterns::Named(allow.device.to_string(), access)
}

fn file_systems(exec: &ExecConfig) -> Option<FileSystems> {
    let asked = exec.protections.iter().find(|asked| asked.setting == file_system::SETTING)?;
    FileSystems::of(&asked.value)
}

/// Whether processes of such a unit mark themselves until they are its program (see [`file_system`]).
pub fn restricts_file_systems(exec: &ExecConfig) -> bool {
    file_systems(exec).is_some()
}

/// Rules for what is there: a device or a group of devices that is not can be used by nobody.
fn rules(asked: &[DevicePatterns], groups: impl Fn() -> String) -> Vec<Rule> {
    let mut out = Vec::new();
    let mut listed: Option<Vec<(Kind, u32, String)>> = None;
    for one in asked {
        match one {
            DevicePatterns::Pseudo => out.extend(PSEUDO),
            DevicePatterns::Named(name, access) => {
                let (kind, pattern) =
                    match (name.strip_prefix("char-"), name.strip_prefix("block-")) {
                        (Some(pattern), _) => (Kind::Character, pattern),
                        (_, Some(pattern)) => (Kind::Block, pattern),
                        _ => {
                            out.extend(node(name, *access));
                            continue;
                        }
                    };
                if pattern == "*" {
                    out.push(Rule { kind, major: None, minor: None, access: *access });
                    continue;
                }
                let listed = listed.get_or_insert_with(|| device_groups(&groups()));
                let fits = |(of, _, group): &&(Kind, u32, String)| {
                    *of == kind && warren_unit::glob::matches(pattern, group)
                };
                out.extend(listed.iter().filter(fits).map(|(kind, major, _)| Rule {
                    kind: *kind,
                    major: Some(*major),
                    minor: None,
                    access: *access,
                }));
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// The rule for a node in /dev.
fn node(path: &str, access: u8) -> Option<Rule> {
    let found = fs::metadata(path).ok()?;
    let kind = match found.file_type() {
        kind if kind.is_block_device() => Kind::Block,
        kind if kind.is_char_device() => Kind::Character,
        _ => return None,
    };
    let number = found.rdev();
    let (major, minor) = warren_sys::file::device_numbers(number);
    Some(Rule { kind, major: Some(major), minor: Some(minor), access })
}

/// The groups of devices that drivers have registered (proc(5), "/proc/devices").
fn device_groups(text: &str) -> Vec<(Kind, u32, String)> {
    let mut kind = None;
    let mut out = Vec::new();
    for line in text.lines() {
        match line.trim() {
            "Character devices:" => kind = Some(Kind::Character),
            "Block devices:" => kind = Some(Kind::Block),
            line => {
                let Some((number, name)) = line.split_once(char::is_whitespace) else { continue };
                if let (Some(kind), Ok(major)) = (kind, number.parse()) {
                    out.push((kind, major, name.trim().to_owned()));
                }
            }
        }
    }
    out
}

/// The programs that were loaded, by what they say.
pub struct Programs {
    /// Counters of all groups whose traffic is counted.
    counters: Option<Rc<OwnedFd>>,
    /// What programs about files need, once one was asked for.
    files: Option<FileHook>,
    loaded: ByContent<(Hook, Vec<u8>), Rc<OwnedFd>>,
}

impl Default for Programs {
    fn default() -> Programs {
        Programs { counters: None, files: None, loaded: ByContent::new(KEPT_MAX) }
    }
}

impl Programs {
    /// Has a group use no more than is allowed. Without `before` it is one that was made just now; else what that
    /// allowed and this says nothing of is as free as it was before. Returned is what cannot be had.
    pub fn apply(
        &mut self,
        tree: &Tree,
        path: &str,
        before: Option<&Allowed>,
        allowed: &Allowed,
    ) -> Vec<NotApplied> {
        let mut failed = Vec::new();
        let old = before.map(|before| &before.devices);
        if old.map_or(allowed.devices.is_some(), |old| *old != allowed.devices) {
            let setting = allowed.devices.as_ref().map_or("DevicePolicy", |(setting, _)| setting);
            let rules = allowed.devices.as_ref().map(|(_, asked)| {
                let groups = || fs::read_to_string("/proc/devices").unwrap_or_default();
                device::program(&rules(asked, groups))
            });
            let done = self.put(tree, path, Hook::Device, rules.as_deref());
            failed.extend(done.err().map(|why| not_applied(setting, why)));
        }
        let none = Allowed::default();
        let before = before.unwrap_or(&none);
        let of_packets = |allowed: &Allowed| {
            (allowed.addresses.clone(), allowed.interfaces.clone(), allowed.counts)
        };
        let are_others = before.pinned != allowed.pinned;
        if are_others {
            failed.extend(put_pinned(tree, path, &before.pinned, &allowed.pinned));
        }
        let has_own = of_packets(allowed) != of_packets(&none);
        if of_packets(before) != of_packets(allowed) || are_others && has_own {
            let devices: Vec<_> = allowed.interfaces.iter().map(indexes).collect();
            let setting = match allowed.interfaces.is_empty() {
                true if allowed.addresses == Lists::default() && allowed.counts => "IPAccounting",
                true => "IPAddressDeny",
                false => "RestrictNetworkInterfaces",
            };
            for (hook, direction) in
                [(Hook::Ingress, Direction::Ingress), (Hook::Egress, Direction::Egress)]
            {
                let program = match has_own {
                    false => Ok(None),
                    true => address::program(&allowed.addresses, &devices, direction)
                        .and_then(|code| match allowed.counts {
                            true => account::counted(code),
                            false => Ok(code),
                        })
                        .map(Some),
                };
                let done = program.and_then(|code| self.put(tree, path, hook, code.as_deref()));
                failed.extend(done.err().map(|why| not_applied(setting, why)));
            }
        }
        if before.binds != allowed.binds {
            for (hook, family) in [(Hook::Bind4, Family::Ip4), (Hook::Bind6, Family::Ip6)] {
                let is_asked = allowed.binds != Rules::default();
                let code = is_asked.then(|| bind::program(&allowed.binds, family));
                let done = self.put(tree, path, hook, code.as_deref());
                failed.extend(done.err().map(|why| not_applied("SocketBindDeny", why)));
            }
        }
        if before.file_systems != allowed.file_systems {
            let done = self.restrict_files(tree, path, allowed.file_systems.as_ref());
            failed.extend(done.err().map(|why| not_applied(file_system::SETTING, why)));
        }
        failed.dedup();
        failed
    }

    /// Has processes of a group open files of no other file systems; all if there is no list.
    fn restrict_files(
        &mut self,
        tree: &Tree,
        path: &str,
        list: Option<&FileSystems>,
    ) -> Result<(), String> {
        let Some(list) = list else { return self.put(tree, path, Hook::FileOpen, None) };
        let hook = match self.files.take() {
            Some(hook) => hook,
            None => FileHook::of_kernel()?,
        };
        let hook = self.files.insert(hook);
        let code = hook.program(list);
        let program = self
            .loaded
            .get((Hook::FileOpen, bytes(&code)), |(_, code)| hook.load(code).map(Rc::new))?;
        let group = tree.open_dir(path).map_err(|e| e.to_string())?;
        bpf::attach(group.as_fd(), Hook::FileOpen, program.as_fd()).map_err(|e| e.to_string())
    }

    /// The map in which processes mark themselves, if a group was restricted as to files.
    pub fn marks(&self) -> Option<BorrowedFd<'_>> {
        self.files.as_ref().map(FileHook::marks)
    }

    /// Attaches a program to a group, or takes away what is attached.
    fn put(
        &mut self,
        tree: &Tree,
        path: &str,
        hook: Hook,
        code: Option<&[Instruction]>,
    ) -> Result<(), String> {
        let mut put = || {
            let group = tree.open_dir(path)?;
            match code {
                Some(code) => {
                    let program = self.program(hook, code)?;
                    bpf::attach(group.as_fd(), hook, program.as_fd())
                }
                None => bpf::detach(group.as_fd(), hook),
            }
        };
        put().map_err(|e| match bpf::is_refused(&e) {
            true => format!("this machine does not allow BPF programs on cgroups ({e})"),
            false => e.to_string(),
        })
    }

    fn program(&mut self, hook: Hook, code: &[Instruction]) -> warren_sys::Result<Rc<OwnedFd>> {
        let counts = code.iter().any(account::is_counting);
        let only_counts = account::only_counts(code);
        let map = match (&self.counters, counts) {
            (_, false) => None,
            (Some(map), true) => Some(map.clone()),
            (None, true) => {
                let map = Rc::new(bpf::counters_map()?);
                self.counters = Some(map.clone());
                Some(map)
            }
        };
        let map = map.as_ref().map(|map| map.as_fd());
        self.loaded.get((hook, bytes(code)), |(hook, code)| {
            bpf::load(*hook, bpf::Program { code, map, only_counts, function: 0 }).map(Rc::new)
        })
    }
}

fn bytes(code: &[Instruction]) -> Vec<u8> {
    code.iter().flat_map(|one| one.bytes()).collect()
}

/// Attaches programs of others, and takes those away that are named no more. Ours for packets go first: they are one for
/// all of a group where it has no other, and one among several where it has.
fn put_pinned(
    tree: &Tree,
    path: &str,
    before: &[(&'static str, Pinned)],
    now: &[(&'static str, Pinned)],
) -> Vec<NotApplied> {
    let group = match tree.open_dir(path) {
        Ok(group) => group,
        Err(e) => {
            return now.iter().map(|(setting, _)| not_applied(setting, e.to_string())).collect();
        }
    };
    for hook in [Hook::Ingress, Hook::Egress] {
        let _ = bpf::detach(group.as_fd(), hook);
    }
    for (_, gone) in before.iter().filter(|old| !now.contains(old)) {
        // A file that is gone may be that of a program which is asked all the same: until the unit stops.
        let _ = bpf::open_pinned(&gone.path)
            .and_then(|program| bpf::detach_other(group.as_fd(), gone.place, program.as_fd()));
    }
    let new = now.iter().filter(|new| !before.contains(new));
    let failed = new.filter_map(|(setting, pinned)| {
        let put = bpf::open_pinned(&pinned.path)
            .and_then(|program| bpf::attach_other(group.as_fd(), pinned.place, program.as_fd()));
        put.err().map(|e| not_applied(setting, format!("{}: {e}", pinned.path)))
    });
    failed.collect()
}

/// The numbers of the devices of a list that are there.
fn indexes(list: &Interfaces) -> (bool, Vec<u32>) {
    let indexes =
        list.names.iter().filter_map(|name| warren_sys::socket::interface_index(name).ok());
    (list.is_allowed, indexes.collect())
}

fn not_applied(setting: &str, why: String) -> NotApplied {
    NotApplied { setting: setting.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str =
        "Character devices:\n  1 mem\n136 pts\n 10 misc\n\nBlock devices:\n  7 loop\n259 blkext\n";

    fn of(asked: &[(&str, u8)]) -> Vec<Rule> {
        let asked: Vec<DevicePatterns> = asked
            .iter()
            .map(|(name, access)| DevicePatterns::Named((*name).to_owned(), *access))
            .collect();
        rules(&asked, || LISTED.to_owned())
    }

    #[test]
    fn groups_of_devices_are_those_that_are_registered() {
        let rule = |kind, major, access| Rule { kind, major, minor: None, access };
        assert_eq!(
            of(&[("char-p*", 6), ("block-loop", 7), ("block-mem", 7), ("char-*", 2)]),
            [
                rule(Kind::Block, Some(7), 7),
                rule(Kind::Character, None, 2),
                rule(Kind::Character, Some(136), 6),
            ]
        );
    }

    #[test]
    fn nodes_are_known_by_number_and_what_is_no_device_is_none() {
        let null = Rule { kind: Kind::Character, major: Some(1), minor: Some(3), access: 7 };
        assert_eq!(of(&[("/dev/null", 7), ("/dev/none", 7), ("/dev", 7)]), [null]);
    }

    #[test]
    fn what_may_be_used_follows_from_several_settings() {
        let check = |config: &CgroupConfig, protections: &[&'static str]| {
            let one = |&setting: &&'static str| warren_unit::config::SandboxSetting {
                setting,
                value: "yes".into(),
            };
            let exec = ExecConfig {
                protections: protections.iter().map(one).collect(),
                ..ExecConfig::default()
            };
            devices(config, Some(&exec)).map(|(setting, asked)| {
                (setting, asked.len(), asked.contains(&DevicePatterns::Pseudo))
            })
        };
        let mut config = CgroupConfig::empty();
        assert_eq!(check(&config, &["LockPersonality"]), None);
        assert_eq!(check(&config, &["PrivateDevices"]), Some(("PrivateDevices", 1, true)));
        assert_eq!(check(&config, &["ProtectClock"]), None);
        let device = "/dev/kmsg".into();
        config.device_allow.push(DeviceAllow { device, access: (true, false, false) });
        assert_eq!(check(&config, &[]), Some(("DeviceAllow", 2, true)));
        assert_eq!(check(&config, &["ProtectClock"]), Some(("DeviceAllow", 3, true)));
        config.device_policy = DevicePolicy::Strict;
        assert_eq!(check(&config, &["PrivateDevices"]), Some(("DevicePolicy", 1, false)));
    }
}
