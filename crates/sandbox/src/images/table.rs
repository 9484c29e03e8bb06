//! Partition tables (UEFI specification, 5.3; uapi-group.org, "Discoverable Partitions Specification") and the first
//! bytes of file systems.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// So much of an image is looked at: a table of partitions, and where btrfs says that it is one.
pub const HEAD_BYTES: usize = 128 << 10;

/// Bytes of a sector that tables count in.
pub const SECTOR_SIZES: [usize; 2] = [512, 4096];

/// Partitions that a table has at most.
const PARTITIONS_MAX: usize = 256;

/// What a part of an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// /
    Root,
    /// /usr
    Usr,
    /// /home
    Home,
    /// /srv
    Srv,
    /// /var
    Var,
    /// /var/tmp
    Tmp,
    /// The EFI system partition.
    Esp,
    /// The extended boot loader partition.
    Xbootldr,
}

impl Role {
    const NAMES: [(&'static str, Role); 8] = [
        ("root", Role::Root),
        ("usr", Role::Usr),
        ("home", Role::Home),
        ("srv", Role::Srv),
        ("var", Role::Var),
        ("tmp", Role::Tmp),
        ("esp", Role::Esp),
        ("xbootldr", Role::Xbootldr),
    ];

    /// All of them.
    pub fn all() -> impl Iterator<Item = Role> {
        Role::NAMES.iter().map(|(_, role)| *role)
    }

    /// By its name in settings.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::NAMES.iter().find(|(known, _)| *known == name).map(|(_, role)| *role)
    }

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        Role::NAMES.iter().find(|(_, role)| *role == self).map_or("", |(name, _)| name)
    }

    /// Where it is mounted below the root of an image; none for those that nothing runs from.
    pub fn mount_point(self) -> Option<&'static str> {
        match self {
            Role::Root => Some(""),
            Role::Usr => Some("/usr"),
            Role::Home => Some("/home"),
            Role::Srv => Some("/srv"),
            Role::Tmp => Some("/var/tmp"),
            Role::Var | Role::Esp | Role::Xbootldr => None,
        }
    }
}

/// A part of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub role: Role,
    /// Its bytes.
    pub bytes: Range<u64>,
    /// Its table says that it cannot be written to.
    pub read_only: bool,
}

/// How an image is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// It is one file system, of this kind.
    Whole(&'static str),
    /// It has partitions: those that are mounted, the root first.
    Parts(Vec<Part>),
}

/// Types of partitions of this machine's architecture, as the table has them.
#[cfg(target_arch = "x86_64")]
const OF_MACHINE: [(u128, Role); 2] = [
    (0x4f68bce3_e8cd_4db1_96e7_fbcaf984b709, Role::Root),
    (0x8484680c_9521_48c6_9c11_b0720656f69e, Role::Usr),
];
#[cfg(target_arch = "aarch64")]
const OF_MACHINE: [(u128, Role); 2] = [
    (0xb921b045_1df0_41c3_af44_4c6f280d3fae, Role::Root),
    (0xb0e01050_ee5f_4390_949a_9101b17104e9, Role::Usr),
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OF_MACHINE: [(u128, Role); 0] = [];

/// Types of partitions that are the same on all machines.
const OF_ALL: [(u128, Role); 5] = [
    (0x933ac7e1_2eb4_4f13_b844_0e14e2aef915, Role::Home),
    (0x3b8f8425_20e0_4f3b_907f_1a25a76f98e8, Role::Srv),
    (0x7ec6f557_3bc5_4aca_b293_16ef5df639d1, Role::Tmp),
    (0xc12a7328_f81f_11d2_ba4b_00a0c93ec93b, Role::Esp),
    (0xbc13c2ff_59e6_4262_a352_b275fd6f7172, Role::Xbootldr),
];

/// What Linux calls a file system of its own.
const GENERIC: u128 = 0x0fc63daf_8483_4772_8e79_3d69d8477de4;

/// Attributes of partitions: not to be mounted by itself, not to be written to.
const NO_AUTO: u64 = 1 << 63;
const READ_ONLY: u64 = 1 << 60;

/// The kind of the file system that begins so, as mount(8) calls it.
pub fn file_system(head: &[u8]) -> Option<&'static str> {
    const KINDS: [(usize, &[u8], &str); 7] = [
        (0, b"hsqs", "squashfs"),
        (1024, &[0xe2, 0xe1, 0xf5, 0xe0], "erofs"),
        (0, b"XFSB", "xfs"),
        (1080, &[0x53, 0xef], "ext4"),
        (0x1_0040, b"_BHRfS_M", "btrfs"),
        (82, b"FAT32   ", "vfat"),
        (54, b"FAT16   ", "vfat"),
    ];
    let is = |at: &usize, magic: &[u8]| head.get(*at..at + magic.len()) == Some(magic);
    KINDS.iter().find(|(at, magic, _)| is(at, magic)).map(|(.., kind)| *kind)
}

/// How an image of so many bytes is laid out, of which `head` is the beginning.
///
/// # Errors
/// Why nothing of it can be mounted.
pub fn layout(head: &[u8], bytes: u64) -> Result<Layout, String> {
    for sector in SECTOR_SIZES {
        if let Some(parts) = gpt(head, sector, bytes)? {
            return chosen(parts).map(Layout::Parts);
        }
    }
    if let Some(kind) = file_system(head) {
        return Ok(Layout::Whole(kind));
    }
    match mbr(head, bytes)? {
        Some(part) => Ok(Layout::Parts(vec![part])),
        None => Err("it has no file system or partition table that Warrener knows".to_owned()),
    }
}

/// A partition of a table.
struct Entry {
    kind: u128,
    bytes: Range<u64>,
    flags: u64,
}

/// What is mounted of the partitions of a table: the first of each role, or the only one that is Linux's.
fn chosen(entries: Vec<Entry>) -> Result<Vec<Part>, String> {
    let mut parts: Vec<Part> = Vec::new();
    for entry in &entries {
        let known = OF_MACHINE.iter().chain(&OF_ALL).find(|(kind, _)| *kind == entry.kind);
        let Some(&(_, role)) = known.filter(|_| entry.flags & NO_AUTO == 0) else { continue };
        if role.mount_point().is_some() && !parts.iter().any(|part| part.role == role) {
            let read_only = entry.flags & READ_ONLY != 0;
            parts.push(Part { role, bytes: entry.bytes.clone(), read_only });
        }
    }
    parts.sort_by_key(|part| part.role);
    match parts.first() {
        Some(first) if first.role == Role::Root || first.role == Role::Usr => return Ok(parts),
        _ => {}
    }
    let mut generic = entries.iter().filter(|entry| entry.kind == GENERIC);
    match (generic.next(), generic.next()) {
        (Some(entry), None) => {
            let read_only = entry.flags & READ_ONLY != 0;
            Ok(vec![Part { role: Role::Root, bytes: entry.bytes.clone(), read_only }])
        }
        (Some(_), Some(_)) => {
            Err("it has several partitions, and none is marked as the root".to_owned())
        }
        (None, _) => Err("it has no root partition for this architecture".to_owned()),
    }
}

/// The partitions of a table of UEFI; none if there is no such table.
fn gpt(head: &[u8], sector: usize, bytes: u64) -> Result<Option<Vec<Entry>>, String> {
    const HEADER_BYTES: Range<usize> = 92..513;
    const ENTRY_BYTES: Range<usize> = 128..4097;
    let Some(header) = head.get(sector..2 * sector).filter(|h| h.starts_with(b"EFI PART")) else {
        return Ok(None);
    };
    let damaged = || "its partition table is damaged".to_owned();
    let length = number(header, 12, 4).filter(|n| HEADER_BYTES.contains(n)).ok_or_else(damaged)?;
    let mut summed = header.get(..length).ok_or_else(damaged)?.to_vec();
    summed.get_mut(16..20).ok_or_else(damaged)?.fill(0);
    if Some(crc32fast::hash(&summed) as usize) != number(header, 16, 4) {
        return Err(damaged());
    }
    let at = number(header, 72, 8).and_then(|lba| lba.checked_mul(sector)).ok_or_else(damaged)?;
    let count = number(header, 80, 4).filter(|n| *n <= PARTITIONS_MAX).ok_or_else(damaged)?;
    let size = number(header, 84, 4).filter(|n| ENTRY_BYTES.contains(n)).ok_or_else(damaged)?;
    let table = at.checked_add(count * size).and_then(|end| head.get(at..end));
    let table = table.ok_or_else(damaged)?;
    if Some(crc32fast::hash(table) as usize) != number(header, 88, 4) {
        return Err(damaged());
    }
    let used = table.chunks_exact(size).filter(|entry| entry.iter().take(16).any(|b| *b != 0));
    let entries = used.map(|entry| {
        let lba = |at| number(entry, at, 8).map(|lba| lba as u64);
        let range = lba(32).zip(lba(40)).and_then(|(first, last)| {
            let sector = sector as u64;
            let begin = first.checked_mul(sector)?;
            let end = last.checked_add(1)?.checked_mul(sector)?;
            (begin < end).then_some(begin..end)
        });
        let bytes = within(range.ok_or_else(damaged)?, bytes)?;
        let (kind, flags) = (guid(entry).ok_or_else(damaged)?, lba(48).ok_or_else(damaged)?);
        Ok(Entry { kind, bytes, flags })
    });
    entries.collect::<Result<_, String>>().map(Some)
}

/// The one partition of the PC's old table that is Linux's; none if there is no such table.
fn mbr(head: &[u8], bytes: u64) -> Result<Option<Part>, String> {
    const LINUX: u8 = 0x83;
    const SECTOR: u64 = 512;
    if head.get(510..512) != Some(&[0x55, 0xaa]) {
        return Ok(None);
    }
    let entries = head.get(446..510).unwrap_or_default().chunks_exact(16);
    let mut of_linux = entries.filter(|entry| entry.get(4) == Some(&LINUX));
    let (Some(entry), None) = (of_linux.next(), of_linux.next()) else {
        return Err("its partition table does not have exactly one Linux partition".to_owned());
    };
    let lba = |at| number(entry, at, 4).unwrap_or(0) as u64;
    let begin = lba(8) * SECTOR;
    let bytes = within(begin..begin + lba(12) * SECTOR, bytes)?;
    Ok(Some(Part { role: Role::Root, bytes, read_only: false }))
}

/// A range of an image's bytes.
fn within(range: Range<u64>, bytes: u64) -> Result<Range<u64>, String> {
    match range.end <= bytes && !range.is_empty() {
        true => Ok(range),
        false => Err(format!(
            "a partition at bytes {} to {} extends past its end: it has {bytes} bytes",
            range.start, range.end
        )),
    }
}

/// A number of so many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let mut out = [0; 8];
    out.get_mut(..length)?.copy_from_slice(bytes.get(at..at.checked_add(length)?)?);
    usize::try_from(u64::from_le_bytes(out)).ok()
}

/// A type of partitions, as it is written: the first three groups of a table have the lowest byte first.
fn guid(bytes: &[u8]) -> Option<u128> {
    let mut id: [u8; 16] = *bytes.first_chunk()?;
    id[..4].reverse();
    id[4..6].reverse();
    id[6..8].reverse();
    Some(u128::from_be_bytes(id))
}
