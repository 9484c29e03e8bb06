//! Disks written by [`crate::image`], one line each, and what a scan says of them.

use super::*;
use crate::btrfs::BtrfsMember;
use crate::firmware::Format;
use crate::image::{self, Disk};
use crate::lvm::LvmId;
use crate::lvm::group::{Marks, Member, Part, Quorum, Volume};
use crate::lvm::label::Area;
use crate::md::Role;
use crate::partition::TableKind;
use crate::uuid::Uuid;

const SIZE: u64 = 8 << 20;
const AREA: Area = Area { offset: 4096, bytes: (1 << 20) - 4096 };

fn id(letter: char) -> LvmId {
    LvmId::parse(&letter.to_string().repeat(32)).expect("a valid id")
}

fn header(letter: char, areas: &[Area]) -> PvHeader {
    PvHeader {
        id: id(letter),
        device_bytes: SIZE,
        data_areas: vec![Area { offset: 1 << 20, bytes: 0 }],
        metadata_areas: areas.to_vec(),
        extension_version: 2,
        flags: label::FLAG_USED,
    }
}

fn group(seqno: u64) -> VolumeGroup {
    let member = |letter| Member {
        id: id(letter),
        device_hint: "/dev/sda".into(),
        device_bytes: SIZE,
        written_off: false,
    };
    let legs = vec![vec![Part::Member(0), Part::Member(1)]];
    VolumeGroup {
        id: id('g'),
        name: "data".into(),
        seqno,
        system_id: String::new(),
        marks: Marks::default(),
        members: vec![member('a'), member('b')],
        volumes: vec![Volume {
            name: "root".into(),
            id: Some(id('l')),
            visible: true,
            auto_activation: true,
            extents: 4,
            needs: vec![Quorum { legs, needed: 1 }],
            snapshots: Vec::new(),
        }],
    }
}

fn member(version: Version) -> MdMember {
    MdMember {
        version,
        array: Uuid([7; 16]),
        name: if version == Version::V090 { "7".into() } else { "host:0".into() },
        level: 1,
        raid_disks: 2,
        working: 2,
        events: 17,
        role: Role::Active(1),
    }
}

fn volume() -> BtrfsMember {
    BtrfsMember {
        fsid: Uuid([1; 16]),
        metadata_uuid: Some(Uuid([2; 16])),
        device_uuid: Uuid([3; 16]),
        devid: 2,
        num_devices: 3,
        generation: 9,
        label: "pool".into(),
        seeding: false,
    }
}

fn luks(version: u16) -> Luks {
    let label = if version == 2 { "secret".into() } else { String::new() };
    Luks { version, uuid: Uuid([5; 16]), label, from_second: false }
}

fn firmware(format: Format, offset: u64) -> FirmwareRaid {
    FirmwareRaid { format, version: "1.3.00".into(), offset }
}

/// A disk from words: each writes one structure.
fn disk(words: &str) -> Disk {
    let mut disk = Disk::new(SIZE);
    words.split_whitespace().for_each(|word| put(&mut disk, word));
    disk
}

fn put(disk: &mut Disk, word: &str) {
    let text = image::group_text(&group(3));
    match word {
        "pv" => image::put_label(disk, 1, &header('a', &[AREA])),
        "pv3" => image::put_label(disk, 3, &header('b', &[AREA])),
        "bare" => image::put_label(disk, 1, &header('a', &[])),
        "text" => drop(image::put_area(disk, AREA, 512, &text)),
        "wrapped" => drop(image::put_area(disk, AREA, AREA.bytes - 100, &text)),
        "md0.90" => image::put_md(disk, &member(Version::V090), 1),
        "md1.0" => image::put_md(disk, &member(Version::V10), 1),
        "md1.1" => image::put_md(disk, &member(Version::V11), 1),
        "md1.2" => image::put_md(disk, &member(Version::V12), 1),
        "btrfs" => image::put_btrfs(disk, &volume()),
        "luks1" => image::put_luks(disk, &luks(1), 0x4000),
        "luks2" => image::put_luks(disk, &luks(2), 0x4000),
        "imsm" => image::put_firmware(disk, &firmware(Format::Intel, SIZE - 1024)),
        "imsm4k" => image::put_firmware(disk, &firmware(Format::Intel, SIZE - 8192)),
        "ddf" => image::put_firmware(disk, &firmware(Format::Ddf, SIZE - 512)),
        "nofirst" => disk.put(0, &[0; 512]),
        "mbr-half" => mbr(disk, 4096),
        "mbr" => mbr(disk, (SIZE / 512 - 2048) as u32),
        "grown" => disk.resize(SIZE + (1 << 20)),
        _ => {
            let (at, byte) = word.split_once('=').expect("a word of this notation");
            let at: u64 = at.parse().expect("an offset");
            disk.put(at, &[byte.parse().expect("a byte")]);
        }
    }
}

/// A table with one partition from 1 MiB on.
fn mbr(disk: &mut Disk, sectors: u32) {
    let mut entry = [0; 16];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&2048u32.to_le_bytes());
    entry[12..].copy_from_slice(&sectors.to_le_bytes());
    disk.put(446, &entry);
    disk.put(510, &[0x55, 0xaa]);
}

fn run(disk: &Disk) -> Scan {
    let mut scratch = Scratch::default();
    scan(disk, &mut scratch, &mut |_| false).expect("memory can be read")
}

fn name(content: &Content) -> String {
    match content {
        Content::Nothing => "nothing".into(),
        Content::Md(member) => format!("md{}", member.version.as_str()),
        Content::Partitions(_) => "partitions".into(),
        Content::Firmware(found) => found.format.mdadm_name().into(),
        Content::Luks(luks) => format!("luks{}", luks.version),
        Content::Lvm(member) => {
            let pv = &member.header.id.plain()[..1];
            let group =
                |t: &MetadataText| t.group.as_ref().map(|g| format!(":{}@{}", g.name, g.seqno));
            format!("pv-{pv}{}", member.texts.iter().filter_map(group).collect::<String>())
        }
        Content::Btrfs(member) => format!("btrfs{}/{}", member.devid, member.num_devices),
        Content::Filesystem(f) => f.kind.as_str().into(),
    }
}

/// `what it is + what else it looks like | faults | reads`.
fn show(scan: &Scan) -> String {
    let names: Vec<String> = std::iter::once(&scan.content).chain(&scan.also).map(name).collect();
    let faults: Vec<String> = scan.faults.iter().map(ToString::to_string).collect();
    format!("{} | {} | {}", names.join(" + "), faults.join("; "), scan.reads)
}

#[test]
fn disks() {
    for (words, expected) in [
        ("", "nothing |  | 8"),
        ("pv text", "pv-a:data@3 |  | 2"),
        ("pv3 text", "pv-b:data@3 |  | 2"),
        ("pv wrapped", "pv-a:data@3 |  | 3"),
        ("bare", "pv-a |  | 2"),
        ("pv", "pv-a | LVM metadata area 0: its header is damaged | 2"),
        ("pv text 600=88", "nothing | LVM label: its checksum is wrong | 8"),
        ("pv text 520=2", "nothing | LVM label: it belongs to another sector | 8"),
        ("pv text 4200=1", "pv-a | LVM metadata area 0: the checksum of its header is wrong | 2"),
        ("pv text 5000=1", "pv-a | LVM metadata area 0: the checksum of its text is wrong | 2"),
        ("pv text pv3 600=88", "pv-b:data@3 |  | 2"),
        ("md1.0", "md1.0 |  | 2"),
        ("md1.1", "md1.1 |  | 2"),
        ("md1.2", "md1.2 |  | 2"),
        ("md0.90", "md0.90 |  | 2"),
        ("md1.2 4200=1", "nothing | MD 1.2 superblock: its checksum is wrong | 8"),
        ("md1.0 grown", "nothing |  | 8"),
        ("pv text md1.0", "md1.0 + pv-a |  | 2"),
        ("pv text md0.90", "md0.90 + pv-a |  | 2"),
        ("btrfs md0.90", "md0.90 + btrfs2/3 |  | 2"),
        ("luks1", "luks1 |  | 2"),
        ("luks2", "luks2 |  | 2"),
        ("luks2 nofirst", "luks2 |  | 2"),
        ("luks1 nofirst", "nothing |  | 8"),
        ("btrfs", "btrfs2/3 |  | 2"),
        ("btrfs 66000=1", "nothing | btrfs superblock: its checksum is wrong | 8"),
        ("btrfs 65584=1", "nothing | btrfs superblock: it was written for another position | 8"),
        ("pv text btrfs", "pv-a:data@3 + btrfs2/3 |  | 2"),
        ("mbr", "partitions |  | 2"),
        ("mbr pv text", "partitions + pv-a |  | 2"),
        // The last partition is the member; then the disk is, whose array is partitioned.
        ("mbr md0.90", "partitions + md0.90 |  | 2"),
        ("mbr-half md0.90", "md0.90 + partitions |  | 2"),
        // What lies at the start of a disk of a container is its first array's.
        ("pv text imsm", "imsm + pv-a |  | 2"),
        ("mbr-half imsm4k", "imsm + partitions |  | 2"),
        ("btrfs ddf", "ddf + btrfs2/3 |  | 2"),
        // Nobody puts a partition where the metadata of a container is.
        ("mbr ddf", "partitions |  | 2"),
        ("ddf 8388308=1", "nothing |  | 8"),
    ] {
        assert_eq!(show(&run(&disk(words))), expected, "{words}");
    }
}

#[test]
fn what_was_written_comes_back() {
    let Content::Lvm(lvm) = run(&disk("pv text")).content else { panic!("a PV") };
    assert_eq!(lvm.header, header('a', &[AREA]));
    assert_eq!(lvm.texts[0].group.as_deref(), Some(&group(3)));
    for version in [Version::V090, Version::V10, Version::V11, Version::V12] {
        for role in [Role::Active(0), Role::Active(1), Role::Spare, Role::Faulty] {
            let written = MdMember { role, ..member(version) };
            let mut disk = Disk::new(SIZE + 512);
            image::put_md(&mut disk, &written, 1);
            assert_eq!(run(&disk).content, Content::Md(written));
        }
    }
    for found in [firmware(Format::Intel, SIZE - 1024), firmware(Format::Ddf, SIZE - 512)] {
        let mut disk = Disk::new(SIZE);
        image::put_firmware(&mut disk, &found);
        assert_eq!(run(&disk).content, Content::Firmware(found));
    }
    assert_eq!(run(&disk("btrfs")).content, Content::Btrfs(volume()));
    assert_eq!(run(&disk("luks2")).content, Content::Luks(luks(2)));
}

#[test]
fn a_second_header_is_found_wherever_it_can_be() {
    let second = Luks { from_second: true, ..luks(2) };
    for (number, place) in luks::SECOND_OFFSETS.into_iter().enumerate() {
        let mut disk = Disk::new(SIZE);
        image::put_luks(&mut disk, &second, place);
        let scan = run(&disk);
        assert_eq!(scan.content, Content::Luks(second.clone()), "{place}");
        assert_eq!(scan.reads as usize, 2 + number.saturating_sub(2), "{place}");
        // Where something else is, nobody looks further than the head.
        put(&mut disk, "btrfs");
        let luks_is_seen = run(&disk).also.iter().any(|also| matches!(also, Content::Luks(_)));
        assert!(!luks_is_seen || number < 3, "{place}");
        // A header in another place than its own is somebody else's.
        let mut moved = Disk::new(SIZE);
        image::put_luks(&mut moved, &second, place);
        let mut block = vec![0; luks::NAMING_BYTES];
        moved.read_at(place, &mut block).expect("memory can be read");
        moved.put(place, &[0; luks::NAMING_BYTES]);
        moved.put(luks::SECOND_OFFSETS[(number + 1) % 9], &block);
        assert_eq!(run(&moved).content, Content::Nothing, "{place}");
    }
}

#[test]
fn a_known_text_is_not_read() {
    let disk = disk("pv wrapped");
    let mut asked = Vec::new();
    let mut scratch = Scratch::default();
    let scan = scan(&disk, &mut scratch, &mut |key| {
        asked.push(key);
        true
    });
    let scan = scan.expect("memory can be read");
    assert_eq!((asked.len(), scan.reads), (1, 2));
    let Content::Lvm(member) = scan.content else { panic!("a PV") };
    assert_eq!(member.texts, [MetadataText { key: asked[0], group: None }]);
}

#[test]
fn of_two_areas_both_are_looked_at() {
    let second = Area { offset: SIZE - (1 << 20), bytes: 1 << 20 };
    for (seqnos, expected) in
        [([3, 3], "pv-a:data@3 |  | 3"), ([3, 4], "pv-a:data@3:data@4 |  | 4")]
    {
        let mut disk = Disk::new(SIZE);
        image::put_label(&mut disk, 1, &header('a', &[AREA, second]));
        for (area, seqno) in [AREA, second].into_iter().zip(seqnos) {
            image::put_area(&mut disk, area, 512, &image::group_text(&group(seqno)));
        }
        assert_eq!(show(&run(&disk)), expected);
    }
}

#[test]
fn an_area_must_lie_on_the_device_and_a_text_in_its_area() {
    let key = |bytes| TextKey { checksum: 1, bytes };
    let off = "LVM metadata area 0: it lies beyond the end of the device";
    let out = "LVM metadata area 0: its text lies outside of it";
    for (area, start, bytes, fault) in [
        (Area { offset: SIZE - 4096, bytes: 8192 }, 512, 10, off),
        (Area { offset: u64::MAX, bytes: 8192 }, 512, 10, off),
        (Area { offset: 4096, bytes: 512 }, 512, 10, off),
        (AREA, 511, 10, out),
        (AREA, AREA.bytes, 10, out),
        (AREA, u64::MAX, 10, out),
        (AREA, 512, AREA.bytes, out),
        (AREA, 512, u64::MAX, out),
    ] {
        let mut disk = Disk::new(SIZE);
        image::put_label(&mut disk, 1, &header('a', &[area]));
        image::put_area_header(&mut disk, area, start, key(bytes));
        assert_eq!(show(&run(&disk)), format!("pv-a | {fault} | 2"), "{area:?} {start} {bytes}");
    }
}

#[test]
fn a_disk_cut_anywhere_is_read_without_harm() {
    let whole = disk("pv text btrfs luks2 nofirst mbr");
    let last = 70 << 10;
    for size in (0..last).step_by(7).chain((SIZE - 70_000..SIZE).step_by(97)) {
        let mut cut = whole.clone();
        cut.resize(size);
        let scan = run(&cut);
        assert!(scan.reads <= 8, "{size}");
        assert_eq!(scan.size_bytes, size);
    }
}

#[test]
fn a_gpt_is_known_by_its_checksum() {
    let mut header = vec![0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[12] = 92;
    header[24] = 1;
    header[48..56].copy_from_slice(&1000u64.to_le_bytes());
    header[56] = 9;
    let sum = crc32fast::hash(&header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    let mut disk = Disk::new(SIZE);
    disk.put(512, &header);
    let expected = PartitionTable {
        kind: TableKind::Gpt(Uuid::parse("00000009-0000-0000-0000-000000000000").expect("valid")),
        end: 1001 * 512,
    };
    assert_eq!(run(&disk).content, Content::Partitions(expected));
    disk.put(512 + 60, &[1]);
    assert_eq!(run(&disk).content, Content::Nothing);
}

/// A disk of which the page cache has what was there before.
struct Cached {
    cached: Disk,
    disk: Disk,
    is_fresh: std::cell::Cell<bool>,
}

impl ReadAt for Cached {
    fn size_bytes(&self) -> u64 {
        SIZE
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let from = if self.is_fresh.get() { &self.disk } else { &self.cached };
        from.read_at(offset, buffer)
    }

    fn refresh(&self, _: u64, _: u64) -> bool {
        !self.is_fresh.replace(true)
    }
}

/// The legs of an array that runs: their superblocks are written past the page cache.
#[test]
fn a_superblock_is_read_from_the_disk_itself() {
    for version in [Version::V090, Version::V10, Version::V11, Version::V12] {
        let (mut cached, mut disk) = (Disk::new(SIZE), Disk::new(SIZE));
        let newer = MdMember { events: member(version).events + 2, ..member(version) };
        image::put_md(&mut cached, &member(version), 1);
        image::put_md(&mut disk, &newer, 1);
        let source = Cached { cached, disk, is_fresh: false.into() };
        let scan = scan(&source, &mut Scratch::default(), &mut |_| false).expect("it can be read");
        assert_eq!((scan.content, scan.reads), (Content::Md(newer), 2), "{version:?}");
    }
    // What is on no array is read once.
    let source = Cached { cached: Disk::new(SIZE), disk: Disk::new(SIZE), is_fresh: false.into() };
    scan(&source, &mut Scratch::default(), &mut |_| false).expect("it can be read");
    assert!(!source.is_fresh.get());
}
