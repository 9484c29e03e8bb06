//! What is done for groups that are to be started: which files of lvm2 are written and which
//! programs run, as few as can be. Pure: the daemon writes and runs.
//!
//! lvm2's run files (seen with 2.03.16 in `/run/lvm`; `tests/peers.rs` compares): a file for each
//! PV that is there, named by PVID, with `MAJOR:MINOR`, `vg:NAME`, `dev:PATH`; a list of PVIDs for
//! each group of several; an empty file for each group that was activated. With the first,
//! `vgchange --autoactivation event` opens exactly the disks of the groups it is given.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::{Device, GroupId, GroupState, Hold, Index, Role, Scope, Start};
use crate::lvm::LvmId;
use crate::lvm::group::VolumeGroup;

/// A file below `/run/lvm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFile {
    /// Path below `/run/lvm`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A program to be run and the groups it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Groups that are started when it succeeds.
    pub groups: Vec<GroupId>,
}

/// What is to be done for one decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Files that must be there first.
    pub files: Vec<RunFile>,
    /// Programs, each by itself.
    pub commands: Vec<Command>,
    /// Groups that need no program: a file system of several devices is mounted by whoever wants
    /// it, an encrypted device is opened by its `systemd-cryptsetup@` unit.
    pub ready: Vec<GroupId>,
}

/// Most bytes of names on one command line; the kernel takes 2 MiB, of which the environment
/// needs some.
const COMMAND_BYTES_MAX: usize = 512 << 10;

/// Most volumes on one command line: their names and the group's have at most 127 characters each.
const VOLUMES_PER_COMMAND_MAX: usize = COMMAND_BYTES_MAX / 256;

/// The file that tells lvm2 of a PV that is there; `None` for what is none, does not count, or is
/// of a group that lvm2 itself would not look at. Only a PV with metadata names its group.
pub fn online_file(index: &Index, device: &Device) -> Option<RunFile> {
    let Role::Lvm { pv, used: true, ref texts } = device.role else { return None };
    // Of clones one is told of, as lvm2 does: the one with the lowest number, whoever came first.
    let is_first = index.devices_of_pv(pv).first() == Some(&device.number);
    if index.refusal(device).is_some() || !is_first {
        return None;
    }
    let group = index.group_of(device).filter(|_| !texts.is_empty());
    if group.is_some_and(|group| is_out_of_bounds(index, group)) {
        return None;
    }
    let group = match group {
        Some(GroupId::Lvm(vg)) => index.volume_group(vg),
        _ => None,
    };
    let vg = group.map_or_else(String::new, |group| format!("vg:{}\n", group.name));
    let text = format!("{}\n{vg}dev:{}\n", device.number, node(device));
    Some(RunFile { path: online_path(pv), text })
}

fn is_out_of_bounds(index: &Index, group: GroupId) -> bool {
    let Some(GroupState::Held(why)) = index.state(group) else { return false };
    matches!(why, Hold::Exported | Hold::Shared | Hold::Foreign(_))
}

/// Path of a device's node; the kernel writes `!` for a slash in a name.
fn node(device: &Device) -> String {
    format!("/dev/{}", device.name.replace('!', "/"))
}

/// Where the file of a PV is, below `/run/lvm`.
pub fn online_path(pv: LvmId) -> String {
    format!("pvs_online/{}", pv.plain())
}

/// What is done for these starts.
pub fn plan(index: &Index, starts: &[Start]) -> Plan {
    let mut plan = Plan::default();
    let mut whole = Vec::new();
    let arrays = owners_of_names(index, starts);
    for start in starts {
        match (start.group, &start.scope) {
            (GroupId::Lvm(vg), scope) => {
                let Some(group) = index.volume_group(vg) else { continue };
                let is_single = index.groups_named(&group.name) == 1;
                plan.files.extend(member_files(index, start.group));
                plan.files.extend(group_files(group));
                match scope {
                    Scope::Whole if is_single => whole.push((start.group, group.name.as_str())),
                    _ => plan.commands.extend(own_commands(index, start, group)),
                }
            }
            (GroupId::Md(_), scope) => {
                let force = matches!(scope, Scope::Degraded(_));
                let name = array_name(index, start.group)
                    .filter(|name| arrays.get(name).is_none_or(|owner| *owner == start.group));
                plan.commands.extend(assemble(index, start.group, name, force));
            }
            (GroupId::Btrfs(_) | GroupId::Luks(_), _) => plan.ready.push(start.group),
        }
    }
    plan.commands.extend(batches(&whole));
    plan
}

/// The files of a group's members: they must be there before the program that reads them.
fn member_files(index: &Index, group: GroupId) -> Vec<RunFile> {
    let members = index.members(group).into_iter().filter_map(|number| index.device(number));
    members.filter_map(|device| online_file(index, device)).collect()
}

fn group_files(group: &VolumeGroup) -> Vec<RunFile> {
    let list = || group.members.iter().map(|m| format!("{}\n", m.id.plain())).collect();
    let lookup = (group.members.len() > 1)
        .then(|| RunFile { path: format!("pvs_lookup/{}", group.name), text: list() });
    let started = RunFile { path: format!("vgs_online/{}", group.name), text: String::new() };
    lookup.into_iter().chain([started]).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// All complete groups on as few command lines as take their names.
fn batches(groups: &[(GroupId, &str)]) -> Vec<Command> {
    let mut out: Vec<Command> = Vec::new();
    let mut room = 0;
    for (id, name) in groups {
        if room < name.len() + 1 {
            let words = words(&["lvm", "vgchange", "-aay", "--autoactivation", "event"]);
            out.push(Command { words, groups: Vec::new() });
            room = COMMAND_BYTES_MAX;
        }
        room -= name.len() + 1;
        let command = out.last_mut().expect("one was pushed when there was no room");
        command.words.push((*name).to_owned());
        command.groups.push(*id);
    }
    out
}

/// A group that shares its name with another, or of which only some volumes are started: lvm2 is
/// shown the disks of this group and no others.
fn own_commands(index: &Index, start: &Start, group: &VolumeGroup) -> Vec<Command> {
    let (verb, mode, volumes) = match &start.scope {
        Scope::Whole => ("vgchange", None, None),
        Scope::Volumes(names) => ("lvchange", None, Some(names)),
        Scope::Degraded(names) => ("lvchange", Some("degraded"), Some(names)),
    };
    let mut common = words(&["lvm", verb, "-aay"]);
    common.extend(mode.into_iter().flat_map(|mode| words(&["--activationmode", mode])));
    let devices = index.members(start.group).into_iter().filter_map(|number| index.device(number));
    for device in devices {
        common.extend(["--devices".to_owned(), node(device)]);
    }
    let targets = match volumes {
        None => vec![group.name.clone()],
        Some(names) => names.iter().map(|name| format!("{}/{name}", group.name)).collect(),
    };
    let command = |targets: &[String]| Command {
        words: [&common[..], targets].concat(),
        groups: vec![start.group],
    };
    targets.chunks(VOLUMES_PER_COMMAND_MAX).map(command).collect()
}

/// Which array has each name: of several that are started together the first, and what runs under
/// it keeps it. Looked at only when an array is started.
fn owners_of_names(index: &Index, starts: &[Start]) -> BTreeMap<String, GroupId> {
    let starting: BTreeSet<GroupId> = starts.iter().map(|start| start.group).collect();
    let mut owners = BTreeMap::new();
    if !starting.iter().any(|group| matches!(group, GroupId::Md(_))) {
        return owners;
    }
    let is_up = |group: &GroupId| !starting.contains(group) && index.was_complete(*group);
    let running = index.arrays().filter(is_up);
    for group in running.chain(starting.iter().copied()) {
        if let Some(name) = array_name(index, group) {
            owners.entry(name).or_insert(group);
        }
    }
    owners
}

/// An array under its name, or under its identifier, without dashes, when it has none that can be a
/// file's or another array has it: mdadm(8) takes at most 32 letters.
fn assemble(index: &Index, group: GroupId, name: Option<String>, force: bool) -> Option<Command> {
    let GroupId::Md(set) = group else { return None };
    let members: Vec<&Device> =
        index.members(group).into_iter().filter_map(|number| index.device(number)).collect();
    let name = name.unwrap_or_else(|| set.to_string().replace('-', ""));
    let path = format!("/dev/md/{name}");
    let uuid = format!("--uuid={}", md_uuid(&set.to_string()));
    let mut command = words(&["mdadm", "--assemble"]);
    // Without it an array that is not complete is put together and not started, mdadm(8).
    command.extend(force.then(|| "--run".to_owned()));
    command.extend([uuid, path]);
    command.extend(members.iter().map(|device| node(device)));
    Some(Command { words: command, groups: vec![group] })
}

/// The name of an array, if it can be a file's.
pub fn array_name(index: &Index, group: GroupId) -> Option<String> {
    let members = index.members(group).into_iter().filter_map(|number| index.device(number));
    let mut names = members.filter_map(|device| match &device.role {
        // mdadm(8) keeps the host before a colon.
        Role::Md(member) => member.name.rsplit(':').next().filter(|name| is_plain(name)),
        _ => None,
    });
    names.next().map(str::to_owned)
}

fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    !name.is_empty() && name.bytes().all(plain) && !name.starts_with(['.', '-'])
}

/// mdadm(8) writes four groups of eight digits with colons.
fn md_uuid(text: &str) -> String {
    let digits: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    digits.chunks(8).map(|group| group.iter().collect()).collect::<Vec<String>>().join(":")
}

#[cfg(test)]
mod tests;
