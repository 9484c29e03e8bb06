//! Seeded runs of the fuzzer's entry functions: flipped bits, cuts, rubbish.

use super::*;
use crate::btrfs::BtrfsMember;
use crate::bytes::le64;
use crate::firmware::{FirmwareRaid, Format};
use crate::image::{self, Disk};
use crate::luks::Luks;
use crate::lvm::label::{Area, PvHeader};
use crate::lvm::{LvmId, checksum};
use crate::md::{MdMember, Role, Version};
use crate::read::ReadAt;
use crate::uuid::Uuid;

/// A fixed sequence of numbers that looks random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// `WARREN_FUZZ_SEED=N cargo test -p warren-device --lib fuzz`: another sequence for each N, for
/// runs by hand.
fn numbers(own: u64) -> Numbers {
    let more = std::env::var("WARREN_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok());
    Numbers(own.wrapping_add(1_000_003u64.wrapping_mul(more.unwrap_or(0))))
}

const SIZE: u64 = 256 << 10;
const AREA: Area = Area { offset: 4096, bytes: 32 << 10 };

const TEXT: &str = "vg0 { id = \"gggggggggggggggggggggggggggggggg\" seqno = 1 status = [\"READ\"]\n\
    physical_volumes { pv0 { id = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" dev_size = 9 } }\n\
    logical_volumes { l { status = [\"VISIBLE\"] segment1 { type = \"striped\" extent_count = 2\n\
    stripes = [\"pv0\", 0] } } m { segment1 { type = \"thin\" thin_pool = \"l\" } }\n\
    c { segment1 { type = \"striped\" extent_count = 1 stripes = [\"pv0\", 9] } }\n\
    s { segment1 { type = \"snapshot\" origin = \"l\" cow_store = \"c\" } } } }\n\0";

/// Kinds of [`disk`].
const KINDS: usize = 5;

/// A small disk with one of everything that can be side by side.
fn disk(kind: usize) -> Vec<u8> {
    let mut disk = Disk::new(SIZE);
    match kind {
        0 => {
            let header = PvHeader {
                id: LvmId::parse(&"a".repeat(32)).expect("an id"),
                device_bytes: SIZE,
                data_areas: Vec::new(),
                metadata_areas: vec![AREA],
                extension_version: 2,
                flags: 1,
            };
            image::put_label(&mut disk, 1, &header);
            image::put_area(&mut disk, AREA, AREA.bytes - 200, TEXT.as_bytes());
        }
        1 => put_raid(&mut disk, Version::V10),
        2 => put_raid(&mut disk, Version::V090),
        3 => {
            for (format, before) in [(Format::Intel, 1024), (Format::Ddf, 512)] {
                let found =
                    FirmwareRaid { format, version: "1.3.00".into(), offset: SIZE - before };
                image::put_firmware(&mut disk, &found);
            }
        }
        _ => {
            let uuid = Uuid([1; 16]);
            image::put_luks(
                &mut disk,
                &Luks { version: 2, uuid, label: String::new(), from_second: true },
                0x4000,
            );
            let member = BtrfsMember {
                fsid: uuid,
                metadata_uuid: None,
                device_uuid: uuid,
                devid: 1,
                num_devices: 2,
                generation: 1,
                label: String::new(),
                seeding: false,
            };
            image::put_btrfs(&mut disk, &member);
        }
    }
    let mut bytes = vec![0; SIZE as usize];
    disk.read_at(0, &mut bytes).expect("memory can be read");
    bytes
}

fn put_raid(disk: &mut Disk, version: Version) {
    let member = MdMember {
        version,
        array: Uuid([1; 16]),
        name: "h:0".into(),
        level: 1,
        raid_disks: 2,
        working: 2,
        events: 3,
        role: Role::Active(0),
    };
    image::put_md(disk, &member, 0);
}

/// Bytes at which something is written: where a flipped bit can matter.
fn used(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|&at| bytes[at] != 0).collect()
}

#[test]
fn every_flipped_bit_is_harmless() {
    for kind in 0..KINDS {
        let mut bytes = disk(kind);
        device(&bytes);
        for (turn, at) in used(&bytes).into_iter().enumerate() {
            let bit = 1 << (turn % 8);
            bytes[at] ^= bit;
            device(&bytes);
            bytes[at] ^= bit;
        }
    }
}

/// Several damages at once, anywhere: what is written over, moved, doubled, of another kind.
#[test]
fn damaged_disks_are_harmless() {
    let mut numbers = numbers(7);
    let disks: Vec<Vec<u8>> = (0..KINDS).map(disk).collect();
    for _ in 0..400 {
        let mut bytes = disks[numbers.below(disks.len())].clone();
        for _ in 0..1 + numbers.below(8) {
            let (from, to) = (numbers.below(bytes.len()), numbers.below(bytes.len()));
            let length = numbers.below(4096).min(bytes.len() - from.max(to));
            match numbers.below(4) {
                0 => bytes.copy_within(from..from + length, to),
                1 => bytes[to..to + length].fill(numbers.below(256) as u8),
                2 => {
                    let other = &disks[numbers.below(disks.len())];
                    bytes[to..to + length].copy_from_slice(&other[from..from + length]);
                }
                _ => {
                    let number = 1u64.rotate_left(numbers.below(64) as u32).wrapping_sub(1);
                    let end = (to + 8).min(bytes.len());
                    bytes[to..end].copy_from_slice(&number.to_le_bytes()[..end - to]);
                }
            }
        }
        device(&bytes);
    }
}

/// Right checksums over whatever is in the label, in the header of the area and in its text.
fn seal(bytes: &mut [u8]) {
    let at = |from: u64| usize::try_from(from).ok();
    let number = |from: usize| le64(bytes, from);
    let area = AREA.offset as usize;
    let place = number(area + 40).zip(number(area + 48));
    let text = place.and_then(|(offset, length)| {
        let from = at(AREA.offset.checked_add(offset)?)?;
        let end = (AREA.offset + AREA.bytes) as usize;
        let first = bytes.get(from..from.checked_add(at(length)?)?.min(end))?;
        let ring = area + 512;
        let rest = bytes.get(ring..ring.checked_add(at(length)?.checked_sub(first.len())?)?)?;
        Some(checksum(&[first, rest]))
    });
    if let Some(sum) = text {
        bytes[area + 56..area + 60].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = checksum(&[&bytes[area + 4..area + 512]]);
    bytes[area..area + 4].copy_from_slice(&sum.to_le_bytes());
    let sum = checksum(&[&bytes[512 + 20..1024]]);
    bytes[512 + 16..512 + 20].copy_from_slice(&sum.to_le_bytes());
}

/// A checksum is no secret: what whoever wrote it wanted is behind a right one, too.
#[test]
fn damage_under_right_checksums_is_harmless() {
    let mut numbers = numbers(11);
    let whole = disk(0);
    // The lists of areas, the header of the area with its places, the text at the end of the ring.
    let area = AREA.offset as usize;
    let text = area + AREA.bytes as usize - 200;
    let targets =
        [512 + 64..512 + 200, area + 24..area + 90, text..text + 200, area + 512..area + 1100];
    let (mut told, mut read) = (0, 0);
    for _ in 0..1500 {
        let mut bytes = whole.clone();
        for _ in 0..1 + numbers.below(3) {
            let target = targets[numbers.below(targets.len())].clone();
            let to = target.start + numbers.below(target.len());
            match numbers.below(3) {
                0 => bytes[to] = TEXT.as_bytes()[numbers.below(TEXT.len())],
                1 => {
                    let from = target.start + numbers.below(target.len());
                    let length = numbers.below(60).min(target.end - from.max(to));
                    bytes.copy_within(from..from + length, to);
                }
                _ => {
                    let number = 1u64.rotate_left(numbers.below(64) as u32).wrapping_sub(1);
                    let to = to & !7;
                    bytes[to..to + 8].copy_from_slice(&number.to_le_bytes());
                }
            }
        }
        seal(&mut bytes);
        device(&bytes);
        let found = scan(&bytes.as_slice(), &mut Scratch::default(), &mut |_| false);
        let found = found.expect("memory can be read");
        told += usize::from(!found.faults.is_empty());
        read += usize::from(!found.texts_read().is_empty());
    }
    // Not all are stopped by the same check.
    assert!(told > 100 && read > 100, "{told} told of, {read} read");
}

#[test]
fn every_truncation_of_the_text_is_harmless() {
    for end in 0..TEXT.len() {
        metadata(&TEXT.as_bytes()[..end]);
    }
    assert!(group::from_text(TEXT.as_bytes()).is_ok(), "the whole text is good");
}

#[test]
fn rubbish_is_harmless() {
    let mut numbers = numbers(11);
    let pieces: &[&[u8]] = &[
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b"\\",
        b"=",
        b"#",
        b"\n",
        b"'",
        b",",
        b"pv0 ",
        b"segment1",
        b"-1",
        b"\xff",
        b"\xc3\xa9",
    ];
    for _ in 0..3000 {
        let mut text = TEXT.as_bytes().to_vec();
        for _ in 0..1 + numbers.below(6) {
            let at = numbers.below(text.len());
            let end = (at + numbers.below(4)).min(text.len());
            text.splice(at..end, pieces[numbers.below(pieces.len())].iter().copied());
        }
        metadata(&text);
    }
}

/// Labels and headers whose checksums are right and whose numbers are anything.
#[test]
fn signed_nonsense_is_harmless() {
    let mut numbers = numbers(5);
    for _ in 0..2000 {
        let mut number = || match numbers.below(5) {
            0 => u64::MAX,
            1 => SIZE,
            2 => 4096,
            3 => numbers.below(70_000) as u64,
            _ => 1u64 << numbers.below(64),
        };
        let area = Area { offset: number(), bytes: number() };
        let header = PvHeader {
            id: LvmId::parse(&"b".repeat(32)).expect("an id"),
            device_bytes: number(),
            data_areas: vec![Area { offset: number(), bytes: number() }],
            metadata_areas: vec![area, AREA],
            extension_version: number() as u32,
            flags: number() as u32,
        };
        let key = crate::lvm::area::TextKey { checksum: number() as u32, bytes: number() };
        let start = number();
        let mut disk = Disk::new(SIZE);
        image::put_label(&mut disk, 1, &header);
        image::put_area_header(&mut disk, AREA, start, key);
        if area.offset < SIZE {
            image::put_area_header(&mut disk, area, start, key);
        }
        let mut bytes = vec![0; SIZE as usize];
        disk.read_at(0, &mut bytes).expect("memory can be read");
        device(&bytes);
    }
}

#[test]
fn mutated_events_are_harmless() {
    let properties = b"ACTION=add\0DEVPATH=/devices/block/sda\0SUBSYSTEM=block\0MAJOR=8\0MINOR=0\0";
    let kernels = [&b"add@/devices/block/sda\0"[..], properties].concat();
    let pieces: &[&[u8]] = &[b"\0", b"=", b"/../", b"DEVPATH=", b"@", b"\xff", b"S:../x\n", b":"];
    let mut numbers = numbers(9);
    for whole in [kernels, crate::udev::message("block", "", properties)] {
        for _ in 0..3000 {
            let mut data = whole.clone();
            for _ in 0..1 + numbers.below(4) {
                let at = numbers.below(data.len());
                match numbers.below(3) {
                    0 => data[at] ^= 1 << numbers.below(8),
                    1 => data.truncate(at + 1),
                    _ => drop(
                        data.splice(at..at, pieces[numbers.below(pieces.len())].iter().copied()),
                    ),
                }
            }
            event(&data);
        }
    }
}
