//! Writes what the scanners read: for tests, the fuzzer and benchmarks.
//!
//! Nothing here is for real disks. A [`Disk`] is sparse memory; [`Disk::extents`] says what to
//! write where, for those who want a file.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::firmware::{self, FirmwareRaid, Format};
use crate::lvm::area::{self, TextKey};
use crate::lvm::group::{Part, Quorum, VolumeGroup};
use crate::lvm::label::{self, Area, PvHeader};
use crate::lvm::{SECTOR_BYTES, checksum};
use crate::md::{self, MdMember, Role, Version};
use crate::read::{ReadAt, ReadError};
use crate::{btrfs, luks};

/// A disk in memory; what was never written is zero.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    size: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

/// Unit in which a disk keeps its bytes.
const BLOCK_BYTES: u64 = 4096;

impl Disk {
    /// An empty disk of so many bytes.
    pub fn new(size: u64) -> Disk {
        Disk { size, blocks: BTreeMap::new() }
    }

    /// Writes bytes; what lies past the end is dropped.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        for (at, &byte) in (offset..self.size).zip(bytes) {
            let block = self.blocks.entry(at / BLOCK_BYTES);
            let block = block.or_insert_with(|| vec![0; BLOCK_BYTES as usize]);
            block[(at % BLOCK_BYTES) as usize] = byte;
        }
    }

    /// Cuts the disk, or lets it grow.
    pub fn resize(&mut self, size: u64) {
        self.size = size;
    }

    /// Everything that was written, in order: offsets and bytes.
    pub fn extents(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks.iter().map(|(number, block)| (number * BLOCK_BYTES, block.as_slice()))
    }
}

impl ReadAt for Disk {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let count = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut rest = &mut buffer[..count];
        let mut at = offset;
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES) as usize;
            let (part, after) = rest.split_at_mut(rest.len().min(BLOCK_BYTES as usize - within));
            match self.blocks.get(&(at / BLOCK_BYTES)) {
                Some(block) => part.copy_from_slice(&block[within..within + part.len()]),
                None => part.fill(0),
            }
            at += part.len() as u64;
            rest = after;
        }
        Ok(count)
    }
}

/// Where a text begins in its ring unless a test wants otherwise: right behind the header.
pub const TEXT_START: u64 = SECTOR_BYTES as u64;

/// Writes a label with its header into a sector.
pub fn put_label(disk: &mut Disk, sector: u64, header: &PvHeader) {
    let mut bytes = vec![0; SECTOR_BYTES];
    bytes[..8].copy_from_slice(label::MAGIC);
    bytes[8..16].copy_from_slice(&sector.to_le_bytes());
    bytes[20..24].copy_from_slice(&32u32.to_le_bytes());
    bytes[24..32].copy_from_slice(label::KIND);
    let mut body = header.id.plain().as_bytes().to_vec();
    body.extend(header.device_bytes.to_le_bytes());
    for areas in [&header.data_areas, &header.metadata_areas] {
        let ends = std::iter::once(&Area { offset: 0, bytes: 0 });
        for area in areas.iter().chain(ends) {
            body.extend(area.offset.to_le_bytes());
            body.extend(area.bytes.to_le_bytes());
        }
    }
    body.extend(header.extension_version.to_le_bytes());
    body.extend(header.flags.to_le_bytes());
    let room = &mut bytes[32..];
    let fits = body.len().min(room.len());
    room[..fits].copy_from_slice(&body[..fits]);
    let sum = checksum(&[&bytes[20..]]);
    bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    disk.put(sector * SECTOR_BYTES as u64, &bytes);
}

/// Writes a metadata area whose committed text begins at `start` of the area and goes round the
/// ring where it must. Returns what the text is known by.
pub fn put_area(disk: &mut Disk, area: Area, start: u64, text: &[u8]) -> TextKey {
    let key = TextKey { checksum: checksum(&[text]), bytes: text.len() as u64 };
    put_area_header(disk, area, start, key);
    let first = text.len().min((area.bytes - start) as usize);
    disk.put(area.offset + start, &text[..first]);
    disk.put(area.offset + TEXT_START, &text[first..]);
    key
}

/// Writes the header of an area alone, saying whatever it is told to.
pub fn put_area_header(disk: &mut Disk, area: Area, start: u64, key: TextKey) {
    let mut bytes = vec![0; SECTOR_BYTES];
    bytes[4..20].copy_from_slice(area::MAGIC);
    bytes[20] = 1;
    for (at, number) in [(24, area.offset), (32, area.bytes), (40, start), (48, key.bytes)] {
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    bytes[56..60].copy_from_slice(&key.checksum.to_le_bytes());
    let sum = checksum(&[&bytes[4..]]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    disk.put(area.offset, &bytes);
}

/// Where the first extent of a PV begins, and the size of an extent, in sectors: lvm2's defaults.
const FIRST_EXTENT_SECTORS: u64 = 2048;
const EXTENT_SECTORS: u64 = 8192;

/// A metadata text as lvm2 writes it, for groups whose volumes are striped or mirrored. lvm2 takes
/// it for its own where each volume has an identifier and lies on one disk.
pub fn group_text(group: &VolumeGroup) -> Vec<u8> {
    let mut out = String::new();
    let marks = group.marks;
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(out, "{text}").expect("memory takes all");
    };
    line(format_args!("{} {{\nid = \"{}\"\nseqno = {}", group.name, group.id, group.seqno));
    line(format_args!("format = \"lvm2\"\nextent_size = {EXTENT_SECTORS}"));
    line(format_args!("max_lv = 0\nmax_pv = 0\nmetadata_copies = 0"));
    let exported = option(marks.exported, ", \"EXPORTED\"");
    line(format_args!("status = [\"RESIZEABLE\", \"READ\", \"WRITE\"{exported}]"));
    line(format_args!("flags = [{}]", option(marks.no_auto_activation, "\"NOAUTOACTIVATE\"")));
    if !group.system_id.is_empty() {
        line(format_args!("system_id = \"{}\"", group.system_id));
    }
    line(format_args!("{}", option(marks.shared, "lock_type = \"sanlock\"")));
    line(format_args!("physical_volumes {{"));
    for (i, member) in group.members.iter().enumerate() {
        line(format_args!("pv{i} {{\nid = \"{}\"\ndevice = \"{}\"", member.id, member.device_hint));
        let flags = option(member.written_off, "\"MISSING\"");
        let sectors = member.device_bytes / 512;
        let extents = sectors.saturating_sub(FIRST_EXTENT_SECTORS) / EXTENT_SECTORS;
        line(format_args!("status = [\"ALLOCATABLE\"]\nflags = [{flags}]\ndev_size = {sectors}"));
        line(format_args!("pe_start = {FIRST_EXTENT_SECTORS}\npe_count = {extents}\n}}"));
    }
    line(format_args!("}}\nlogical_volumes {{"));
    for volume in &group.volumes {
        line(format_args!("{} {{", volume.name));
        if let Some(id) = volume.id {
            line(format_args!("id = \"{id}\""));
        }
        let visible = option(volume.visible, ", \"VISIBLE\"");
        line(format_args!("status = [\"READ\", \"WRITE\"{visible}]"));
        line(format_args!("segment_count = {}", volume.needs.len()));
        line(format_args!("flags = [{}]", option(!volume.auto_activation, "\"NOAUTOACTIVATE\"")));
        for (i, need) in volume.needs.iter().enumerate() {
            let extents = if i == 0 { volume.extents } else { 0 };
            line(format_args!("segment{} {{\nstart_extent = 0", i + 1));
            line(format_args!("extent_count = {extents}"));
            line(format_args!("{}\n}}", segment_text(group, need)));
        }
        line(format_args!("}}"));
    }
    line(format_args!("}}\n}}\ncontents = \"Text Format Volume Group\"\nversion = 1"));
    out.push('\0');
    out.into_bytes()
}

fn option(on: bool, text: &str) -> &str {
    if on { text } else { "" }
}

fn segment_text(group: &VolumeGroup, need: &Quorum) -> String {
    let name = |part: &Part| match *part {
        Part::Member(number) => format!("\"pv{number}\", 0"),
        Part::Volume(number) => format!("\"{}\", 0", group.volumes[number as usize].name),
    };
    let names: Vec<String> = need.legs.iter().flatten().map(name).collect();
    let field = if need.legs.len() > 1 { "mirrors" } else { "stripes" };
    format!(
        "type = \"{}\"\n{}_count = {}\n{field} = [{}]",
        if field == "mirrors" { "mirror" } else { "striped" },
        field.trim_end_matches('s'),
        names.len(),
        names.join(", ")
    )
}

/// Writes the superblock of an array's member; 1.x has a table of eight roles.
pub fn put_md(disk: &mut Disk, member: &MdMember, number: u32) {
    let Some(at) = member.version.offset(disk.size) else { return };
    let block = match member.version {
        Version::V090 => md_090(member, number),
        _ => md_1(member, number, at),
    };
    disk.put(at, &block);
}

fn md_1(member: &MdMember, number: u32, at: u64) -> Vec<u8> {
    const ROLES: u32 = 8;
    let mut block = vec![0; 512];
    put32(&mut block, 0, md::MAGIC);
    put32(&mut block, 4, 1);
    block[16..32].copy_from_slice(&member.array.0);
    let name = member.name.as_bytes();
    block[32..32 + name.len().min(32)].copy_from_slice(&name[..name.len().min(32)]);
    put32(&mut block, 72, member.level as u32);
    put64(&mut block, 80, 1024);
    put32(&mut block, 92, member.raid_disks);
    put64(&mut block, 128, 2048);
    put64(&mut block, 136, 1024);
    put64(&mut block, 144, at / 512);
    put32(&mut block, 160, number);
    block[168] = number as u8 + 1;
    put64(&mut block, 200, member.events);
    put32(&mut block, 220, ROLES);
    let (role, own) = match member.role {
        Role::Active(place) => (place as u16, Some(place)),
        Role::Spare => (0xffff, None),
        Role::Faulty => (0xfffe, None),
        Role::Journal => (0xfffd, None),
    };
    // The others that are at work have the numbers that are left.
    let others = (0..member.raid_disks).filter(|&place| Some(place) != own);
    let mut others = others.take(member.working as usize - usize::from(own.is_some()));
    for at in 0..ROLES {
        let role = match at == number % ROLES {
            true => role,
            false => others.next().map_or(0xffff, |place| place as u16),
        };
        put16(&mut block, 256 + 2 * at as usize, role);
    }
    let sum = md::checksum_1(&block, ROLES).expect("the block is long enough");
    put32(&mut block, 216, sum);
    block
}

fn md_090(member: &MdMember, number: u32) -> Vec<u8> {
    let mut block = vec![0; md::SUPERBLOCK_BYTES];
    let mut word = |at: usize, value: u32| {
        block[4 * at..4 * at + 4].copy_from_slice(&value.to_ne_bytes());
    };
    let uuid = member.array.0;
    let part = |i: usize| u32::from_be_bytes([uuid[i], uuid[i + 1], uuid[i + 2], uuid[i + 3]]);
    let (state, place) = match member.role {
        Role::Active(place) => (0b110, place),
        Role::Faulty => (1, number),
        Role::Spare | Role::Journal => (0, number),
    };
    for (at, value) in [
        (0, md::MAGIC),
        (2, 90),
        (5, part(0)),
        (11, member.name.parse().unwrap_or(0)),
        (7, member.level as u32),
        (8, 1024),
        (9, member.raid_disks),
        (10, member.raid_disks),
        (34, member.working),
        (13, part(4)),
        (14, part(8)),
        (15, part(12)),
        (992, number),
        (995, place),
        (996, state),
    ] {
        word(at, value);
    }
    block[4 * 39..4 * 41].copy_from_slice(&member.events.to_ne_bytes());
    let sum = md::checksum_090(&block).expect("the block is long enough");
    block[4 * 38..4 * 39].copy_from_slice(&sum.to_ne_bytes());
    block
}

/// Writes a btrfs superblock with its checksum.
pub fn put_btrfs(disk: &mut Disk, member: &btrfs::BtrfsMember) {
    let mut block = vec![0; btrfs::SUPERBLOCK_BYTES];
    block[0x20..0x30].copy_from_slice(&member.fsid.0);
    put64(&mut block, 0x30, btrfs::OFFSET as u64);
    put64(&mut block, 0x38, u64::from(member.seeding) << 32);
    block[0x40..0x48].copy_from_slice(btrfs::MAGIC);
    put64(&mut block, 0x48, member.generation);
    put64(&mut block, 0x88, member.num_devices);
    if let Some(uuid) = member.metadata_uuid {
        put64(&mut block, 0xbc, 1 << 10);
        block[0x23b..0x24b].copy_from_slice(&uuid.0);
    }
    put64(&mut block, 0xc9, member.devid);
    block[0x10b..0x11b].copy_from_slice(&member.device_uuid.0);
    let label = member.label.as_bytes();
    block[0x12b..0x12b + label.len().min(255)].copy_from_slice(&label[..label.len().min(255)]);
    let sum = btrfs::checksum(&block);
    put32(&mut block, 0, sum);
    disk.put(btrfs::OFFSET as u64, &block);
}

/// Writes the fields of a LUKS header that name the device; version 2 gets its second header, too, at
/// this byte.
pub fn put_luks(disk: &mut Disk, found: &luks::Luks, second: u64) {
    let mut block = vec![0; luks::NAMING_BYTES];
    block[6..8].copy_from_slice(&found.version.to_be_bytes());
    let uuid = found.uuid.to_string();
    block[168..168 + uuid.len()].copy_from_slice(uuid.as_bytes());
    if found.version == 2 {
        let label = found.label.as_bytes();
        block[24..24 + label.len().min(47)].copy_from_slice(&label[..label.len().min(47)]);
        block[256..264].copy_from_slice(&second.to_be_bytes());
        block[..6].copy_from_slice(luks::MAGIC_SECOND);
        disk.put(second, &block);
        block[256..264].fill(0);
    }
    block[..6].copy_from_slice(luks::MAGIC);
    if !found.from_second {
        disk.put(0, &block);
    }
}

/// Writes the anchor of a firmware RAID into one of the last sectors.
pub fn put_firmware(disk: &mut Disk, found: &FirmwareRaid) {
    let mut block = vec![0; firmware::ANCHOR_BYTES];
    let version = found.version.as_bytes();
    match found.format {
        Format::Intel => {
            block[..24].copy_from_slice(firmware::INTEL_MAGIC);
            block[24..24 + version.len()].copy_from_slice(version);
        }
        Format::Ddf => {
            block[..4].copy_from_slice(&firmware::DDF_MAGIC);
            block[32..32 + version.len()].copy_from_slice(version);
            let sum = firmware::ddf_checksum(&block);
            block[4..8].copy_from_slice(&sum.to_be_bytes());
        }
    }
    disk.put(found.offset, &block);
}

fn put16(block: &mut [u8], at: usize, value: u16) {
    block[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

fn put32(block: &mut [u8], at: usize, value: u32) {
    block[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(block: &mut [u8], at: usize, value: u64) {
    block[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
