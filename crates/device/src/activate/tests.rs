//! Plans for a few disks, as lines.

use std::sync::Arc;

use super::*;
use crate::index::{Completeness, DeviceNumber, Event, Facts, Policy};
use crate::lvm::area::TextKey;
use crate::lvm::group::{Marks, Member, Part, Quorum, Volume};
use crate::md::{MdMember, Version};
use crate::uuid::Uuid;

fn id(text: &str) -> LvmId {
    LvmId::parse(&format!("{text:x<32}")).expect("a short word")
}

fn device(minor: u32, role: Role) -> Device {
    let name = format!("sd{}", char::from(b'a' + (minor % 26) as u8));
    Device {
        number: DeviceNumber { major: 8, minor },
        diskseq: 1,
        path: format!("/devices/{name}{minor}"),
        name,
        links: Vec::new(),
        link_priority: 0,
        facts: Facts::default(),
        role,
    }
}

/// Disks of a group `name` with VGID `vg`; PVIDs `vg0`, `vg1`, ...
fn pvs(first: u32, vg: &str, name: &str, count: u32) -> Vec<Event> {
    let member = |number| Member {
        id: id(&format!("{vg}{number}")),
        device_hint: String::new(),
        device_bytes: 0,
        written_off: false,
    };
    let legs = vec![vec![Part::Member(0)], vec![Part::Member(count - 1)]];
    let group = Arc::new(VolumeGroup {
        id: id(vg),
        name: name.into(),
        seqno: 1,
        system_id: String::new(),
        marks: Marks::default(),
        members: (0..count).map(member).collect(),
        volumes: vec![Volume {
            name: "root".into(),
            id: None,
            visible: true,
            auto_activation: true,
            extents: 1,
            needs: vec![Quorum { legs, needed: 1 }],
            snapshots: Vec::new(),
        }],
    });
    let key = TextKey { checksum: first, bytes: 1 };
    let arrival = |(member, minor): (&Member, u32)| Event::Arrived {
        device: device(minor, Role::Lvm { pv: member.id, used: true, texts: vec![key] }),
        texts: vec![(key, group.clone())],
    };
    group.members.iter().zip(first..).map(arrival).collect()
}

fn legs(first: u32, name: &str) -> Vec<Event> {
    legs_of(Uuid([0xab; 16]), first, name)
}

fn legs_of(array: Uuid, first: u32, name: &str) -> Vec<Event> {
    let leg = |place: u32| MdMember {
        version: Version::V12,
        array,
        name: name.into(),
        level: 1,
        raid_disks: 2,
        working: 2,
        events: 1,
        role: crate::md::Role::Active(place),
    };
    let arrival = |place| Event::Arrived {
        device: device(first + place, Role::Md(leg(place))),
        texts: Vec::new(),
    };
    (0..2).map(arrival).collect()
}

/// Steps through events, then the boot batch, then `late`; the plans, a line for each thing.
fn check(policy: Policy, events: Vec<Event>, late: bool, expected: &str) {
    let mut index = Index::new(policy);
    events.into_iter().for_each(|event| assert!(index.step(0, event).is_empty()));
    let mut decisions = index.step(0, Event::ColdplugDone);
    if late {
        decisions.extend(index.step(u64::MAX / 2, Event::Time));
    }
    let mut out = String::new();
    for decision in decisions {
        let crate::index::Decision::Activate(starts) = decision else { panic!("{decision:?}") };
        let plan = plan(&index, &starts);
        let is_of_pv = |file: &RunFile| file.path.starts_with("pvs_online");
        let (online, files): (Vec<RunFile>, Vec<RunFile>) =
            plan.files.into_iter().partition(is_of_pv);
        let members = starts.iter().map(|s| match s.group {
            GroupId::Lvm(_) => index.members(s.group).len(),
            _ => 0,
        });
        assert_eq!(online.len(), members.sum::<usize>(), "lvm2 is told of every member");
        for file in files {
            out += &format!("{}: {}\n", file.path, file.text.replace('\n', " ").trim());
        }
        for command in plan.commands {
            out += &format!("{} ({})\n", command.words.join(" "), command.groups.len());
        }
        out += &plan.ready.iter().map(|_| "ready\n").collect::<String>();
    }
    let expected: Vec<&str> = expected.lines().map(str::trim).collect();
    let got: Vec<&str> = out.lines().map(str::trim).collect();
    assert_eq!(got, expected);
}

#[test]
fn the_boot_batch_is_one_process() {
    let events = [pvs(0, "g", "data", 2), pvs(4, "h", "one", 1), pvs(8, "i", "two", 1)].concat();
    check(
        Policy::default(),
        events,
        false,
        "pvs_lookup/data: g0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx g1xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        vgs_online/data:
        vgs_online/one:
        vgs_online/two:
        lvm vgchange -aay --autoactivation event data one two (3)",
    );
}

#[test]
fn groups_of_one_name_are_started_by_their_disks() {
    let events = [pvs(0, "g", "data", 1), pvs(1, "h", "data", 1)].concat();
    check(
        Policy::default(),
        events,
        false,
        "vgs_online/data:
        vgs_online/data:
        lvm vgchange -aay --devices /dev/sda data (1)
        lvm vgchange -aay --devices /dev/sdb data (1)",
    );
}

#[test]
fn an_incomplete_group_is_started_by_volume() {
    let events = || pvs(0, "g", "data", 2)[..1].to_vec();
    let files = "pvs_lookup/data: g0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx g1xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        vgs_online/data:\n";
    let degraded = "lvm lvchange -aay --activationmode degraded --devices /dev/sda data/root (1)";
    let policy = Policy { degraded_after_ms: Some(10), ..Policy::default() };
    check(policy.clone(), events(), true, &format!("{files}{degraded}"));
    check(Policy { completeness: Completeness::Volume, ..policy }, events(), false, "");
}

#[test]
fn an_array_is_assembled_under_its_name() {
    let uuid = "--uuid=abababab:abababab:abababab:abababab";
    let array = |mode: &str, name: &str, devices: &str| {
        format!("mdadm --assemble {mode}{uuid} /dev/md/{name} {devices} (1)")
    };
    check(Policy::default(), legs(0, "host:0"), false, &array("", "0", "/dev/sda /dev/sdb"));
    let plain = "abababababababababababababababab";
    check(Policy::default(), legs(0, "../x"), false, &array("", plain, "/dev/sda /dev/sdb"));
    let late = Policy { degraded_after_ms: Some(10), ..Policy::default() };
    check(late, legs(0, "h:0")[..1].to_vec(), true, &array("--run ", "0", "/dev/sda"));
}

#[test]
fn two_arrays_of_one_name_are_both_assembled() {
    let both = || [legs_of(Uuid([9; 16]), 4, "h:data"), legs(0, "data")];
    let line = |id: &str, name: &str, devices: &str| {
        let quarter = id.repeat(4);
        let id = format!("{quarter}:{quarter}:{quarter}:{quarter}");
        format!("mdadm --assemble --uuid={id} /dev/md/{name} {devices} (1)")
    };
    let second = "ab".repeat(16);
    let first = line("09", "data", "/dev/sde /dev/sdf");
    let expected = format!(
        "{first}
{}",
        line("ab", &second, "/dev/sda /dev/sdb")
    );
    check(Policy::default(), both().concat(), false, &expected);
    // One that runs keeps its name, whatever comes.
    let [early, late] = both();
    let mut index = Index::new(Policy::default());
    early.into_iter().for_each(|event| drop(index.step(0, event)));
    index.step(0, Event::ColdplugDone);
    let decisions: Vec<_> = late.into_iter().flat_map(|event| index.step(0, event)).collect();
    let [crate::index::Decision::Activate(starts)] = &decisions[..] else {
        panic!("{decisions:?}")
    };
    let words = plan(&index, starts).commands[0].words.join(" ");
    assert_eq!(format!("{words} (1)"), line("ab", &second, "/dev/sda /dev/sdb"));
}

#[test]
fn a_long_batch_is_cut() {
    let names: Vec<String> = (0..6000).map(|i| format!("{i:0>100}")).collect();
    let groups: Vec<_> = names.iter().map(|n| (GroupId::Luks(Uuid([0; 16])), n.as_str())).collect();
    let commands = batches(&groups);
    let lengths = commands.iter().map(|c| c.words.iter().map(|w| w.len() + 1).sum::<usize>());
    assert!(lengths.max() < Some(COMMAND_BYTES_MAX + 100));
    assert_eq!(commands.iter().map(|c| c.groups.len()).sum::<usize>(), 6000);
    assert_eq!(commands.len(), 2);
}

#[test]
fn the_file_of_a_pv() {
    let mut index = Index::new(Policy::default());
    let events = pvs(0, "g", "data", 1);
    let Event::Arrived { device, .. } = &events[0] else { panic!("an arrival") };
    let device = device.clone();
    index.step(0, events[0].clone());
    let file = online_file(&index, &device).expect("a PV that counts");
    assert_eq!(file.path, "pvs_online/g0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    assert_eq!(file.text, "8:0\nvg:data\ndev:/dev/sda\n");
    let Event::Arrived { device: mut clone, texts } = events[0].clone() else {
        panic!("an arrival")
    };
    (clone.number.minor, clone.name) = (7, "sdh".into());
    index.step(0, Event::Arrived { device: clone.clone(), texts });
    assert_eq!(online_file(&index, &clone), None, "its twin has a lower number");
    assert_eq!(online_file(&index, &device), Some(file));
    index.step(0, Event::Removed(device.number));
    assert!(online_file(&index, &clone).is_some());
    let other = super::tests::device(9, Role::Plain("nothing known"));
    assert_eq!(online_file(&index, &other), None);
}
