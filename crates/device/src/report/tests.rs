//! Reports as golden files: `UPDATE_GOLDEN=1 cargo test` writes them, the diff is read.

use super::*;
use crate::btrfs::BtrfsMember;
use crate::filesystem::{Filesystem, Kind};
use crate::firmware::{FirmwareRaid, Format};
use crate::luks::Luks;
use crate::lvm::area::TextKey;
use crate::lvm::group::{Marks, Member, Part, Quorum, Volume};
use crate::lvm::label::PvHeader;
use crate::md::{self, MdMember, Version};
use crate::scan::{Fault, LvmMember, MetadataText};
use crate::uuid::Uuid;

fn check(name: &str, report: &Report) {
    for (ending, got) in [("txt", report.text()), ("json", report.json_lines())] {
        let path = format!("{}/tests/golden/{name}.{ending}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &got).expect("the golden file can be written");
        }
        let expected = std::fs::read_to_string(&path).expect("the golden file is there");
        assert_eq!(got, expected, "{path}");
    }
}

fn id(letter: char) -> LvmId {
    LvmId::parse(&letter.to_string().repeat(32)).expect("a valid id")
}

fn scan_of(content: Content) -> Scan {
    Scan { size_bytes: 32 << 20, content, also: Vec::new(), faults: Vec::new(), reads: 2 }
}

fn group(name: &str, seqno: u64, members: &str, marks: Marks) -> VolumeGroup {
    let member = |letter| Member {
        id: id(letter),
        device_hint: format!("/dev/sd{letter}"),
        device_bytes: 32 << 20,
        written_off: false,
    };
    let volume = |name: &str, auto_activation, legs: Vec<Vec<Part>>| Volume {
        name: name.into(),
        id: None,
        visible: true,
        auto_activation,
        extents: 1,
        needs: vec![Quorum { legs, needed: 1 }],
        snapshots: Vec::new(),
    };
    let last = Part::Member(members.len() as u32 - 1);
    VolumeGroup {
        id: id(name.chars().next().expect("a name")),
        name: name.into(),
        seqno,
        system_id: String::new(),
        marks,
        members: members.chars().map(member).collect(),
        volumes: vec![
            volume("root", true, vec![vec![Part::Member(0)]]),
            volume("safe", true, vec![vec![Part::Member(0)], vec![last]]),
            volume("wide", false, vec![vec![Part::Member(0), last]]),
        ],
    }
}

fn pv(letter: char, groups: &[&VolumeGroup]) -> Scan {
    let header = PvHeader {
        id: id(letter),
        device_bytes: 32 << 20,
        data_areas: Vec::new(),
        metadata_areas: Vec::new(),
        extension_version: 2,
        flags: 1,
    };
    let text = |group: &&VolumeGroup| {
        let letter = group.name.bytes().next().expect("a name");
        let key = TextKey { checksum: u32::from(letter) + 1000 * group.seqno as u32, bytes: 9 };
        MetadataText { key, group: Some(std::sync::Arc::new((*group).clone())) }
    };
    let texts = groups.iter().map(text).collect();
    scan_of(Content::Lvm(LvmMember { header, texts }))
}

fn report(disks: Vec<(&str, Scan)>) -> Report {
    let scans: Vec<_> = disks.into_iter().map(|(name, scan)| (name.to_owned(), Ok(scan))).collect();
    of_scans(&scans, Policy::default())
}

#[test]
fn groups() {
    let none = Marks::default();
    let data = group("data", 3, "ab", none);
    let old = group("data", 2, "abx", none);
    let away = group("gone", 1, "e", Marks { exported: true, ..none });
    let twin = group("twin", 1, "c", none);
    let mut back = group("back", 2, "hi", none);
    back.members[1].written_off = true;
    let mut freed = pv('b', &[]);
    if let Content::Lvm(member) = &mut freed.content {
        member.header.flags = 0;
    }
    let mut grown = pv('a', &[&data]);
    grown.size_bytes = 48 << 20;
    let report = report(vec![
        ("/dev/sda", grown),
        ("/dev/sdx", pv('x', &[&old])),
        ("/dev/sde", pv('e', &[&away])),
        ("/dev/sdc", pv('c', &[&twin])),
        ("/dev/sdd", pv('c', &[&twin])),
        ("/dev/sdf", pv('f', &[])),
        ("/dev/sdb", freed),
        ("/dev/sdh", pv('h', &[&back])),
        ("/dev/sdi", pv('i', &[&back])),
    ]);
    check("groups", &report);
}

#[test]
fn others() {
    let raid = |place, raid_disks| {
        scan_of(Content::Md(MdMember {
            version: Version::V12,
            array: Uuid([7; 16]),
            name: "host:0".into(),
            level: 1,
            raid_disks,
            working: raid_disks,
            events: 9,
            role: md::Role::Active(place),
        }))
    };
    let volume = |devid| {
        scan_of(Content::Btrfs(BtrfsMember {
            fsid: Uuid([1; 16]),
            metadata_uuid: None,
            device_uuid: Uuid([2; 16]),
            devid,
            num_devices: 2,
            generation: 5,
            label: "pool".into(),
            seeding: false,
        }))
    };
    let luks = Luks { version: 2, uuid: Uuid([3; 16]), label: "secret".into(), from_second: false };
    let ext4 = Filesystem { kind: Kind::Ext4, uuid: Uuid([4; 16]).to_string(), label: "/".into() };
    let mut damaged = scan_of(Content::Nothing);
    damaged.faults.push(Fault::Label(crate::lvm::label::LabelFault::Checksum));
    damaged.also.push(Content::Filesystem(ext4.clone()));
    let mut scans: Vec<(String, std::io::Result<Scan>)> = vec![
        ("/dev/sda".into(), Ok(raid(0, 2))),
        ("/dev/sdb".into(), Ok(volume(1))),
        ("/dev/sdc".into(), Ok(volume(2))),
        ("/dev/sdd".into(), Ok(scan_of(Content::Luks(luks.clone())))),
        ("/dev/sde".into(), Ok(scan_of(Content::Filesystem(ext4)))),
        ("/dev/sdf".into(), Ok(damaged)),
    ];
    let second = Luks { uuid: Uuid([8; 16]), from_second: true, ..luks.clone() };
    scans.push(("/dev/sdh".into(), Ok(scan_of(Content::Luks(second)))));
    let firmware =
        FirmwareRaid { format: Format::Intel, version: "1.3.00".into(), offset: (32 << 20) - 1024 };
    scans.push(("/dev/sdi".into(), Ok(scan_of(Content::Firmware(firmware)))));
    scans.push(("/dev/sdg".into(), Err(std::io::Error::from_raw_os_error(5))));
    check("others", &of_scans(&scans, Policy::default()));
}

#[test]
fn sizes() {
    for (bytes, expected) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1 << 30, "1 GiB"),
        (u64::MAX, "16777215.9 TiB"),
    ] {
        assert_eq!(size(bytes), expected);
    }
}
