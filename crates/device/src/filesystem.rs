//! File systems on one device, and swap: recognised and named, to tell what a device holds.

use crate::bytes::{array, be16, has, le16, le32, text};
use crate::uuid::Uuid;

/// Kinds that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// ext2: no journal.
    Ext2,
    /// ext3: a journal, and nothing that came later.
    Ext3,
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// FAT12, FAT16 or FAT32.
    Vfat,
    /// Swap space.
    Swap,
}

impl Kind {
    /// The name that mount(8) and blkid(8) use.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Ext2 => "ext2",
            Kind::Ext3 => "ext3",
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Vfat => "vfat",
            Kind::Swap => "swap",
        }
    }
}

/// A file system, or swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filesystem {
    /// Kind.
    pub kind: Kind,
    /// Identifier as blkid(8) shows it; vfat has eight digits with a dash.
    pub uuid: String,
    /// Label, empty without one.
    pub label: String,
}

/// Everything that is recognised in `head`; more than one when an older signature was left.
pub fn find(head: &[u8]) -> Vec<Filesystem> {
    [ext(head), xfs(head), swap(head), vfat(head)].into_iter().flatten().collect()
}

fn ext(head: &[u8]) -> Option<Filesystem> {
    const AT: usize = 1024;
    /// Features (struct ext2_super_block): a journal; being one for others; all that ext3 knows.
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    const EXT3_INCOMPATIBLE: u32 = 0x2 | 0x4 | 0x10;
    const EXT3_READ_ONLY: u32 = 0x1 | 0x2 | 0x4;
    if !has(head, AT + 56, &[0x53, 0xef]) {
        return None;
    }
    let (compatible, incompatible) = (le32(head, AT + 92)?, le32(head, AT + 96)?);
    let later = incompatible & !EXT3_INCOMPATIBLE | le32(head, AT + 100)? & !EXT3_READ_ONLY;
    // 64 KiB blocks are the largest there are; an external journal is no file system.
    if le32(head, AT + 24)? > 6 || incompatible & JOURNAL_DEVICE != 0 {
        return None;
    }
    let kind = match (later != 0, compatible & HAS_JOURNAL != 0) {
        (true, _) => Kind::Ext4,
        (false, true) => Kind::Ext3,
        (false, false) => Kind::Ext2,
    };
    let uuid = Uuid(array(head, AT + 104)?).to_string();
    Some(Filesystem { kind, uuid, label: text(head, AT + 120, 16) })
}

fn xfs(head: &[u8]) -> Option<Filesystem> {
    let sector = be16(head, 102)?;
    if !has(head, 0, b"XFSB") || !sector.is_power_of_two() || !(512..=32768).contains(&sector) {
        return None;
    }
    let uuid = Uuid(array(head, 32)?).to_string();
    Some(Filesystem { kind: Kind::Xfs, uuid, label: text(head, 108, 12) })
}

/// The signature ends the first page, whose size is the machine's that made it.
fn swap(head: &[u8]) -> Option<Filesystem> {
    let pages = [4 << 10, 8 << 10, 16 << 10, 64 << 10];
    pages.iter().find(|&&page| has(head, page - 10, b"SWAPSPACE2"))?;
    // Version 1 in either byte order.
    let version = le32(head, 1024)?;
    if version != 1 && version.swap_bytes() != 1 {
        return None;
    }
    let uuid = Uuid(array(head, 1036)?).to_string();
    Some(Filesystem { kind: Kind::Swap, uuid, label: text(head, 1052, 16) })
}

fn vfat(head: &[u8]) -> Option<Filesystem> {
    let (serial_at, label_at) = match () {
        () if has(head, 82, b"FAT32   ") => (67, 71),
        () if has(head, 54, b"FAT16   ") || has(head, 54, b"FAT12   ") => (39, 43),
        () => return None,
    };
    let sector = le16(head, 11)?;
    let sound = has(head, 510, &[0x55, 0xaa])
        && matches!(sector, 512 | 1024 | 2048 | 4096)
        && head.get(13)?.is_power_of_two()
        && matches!(head.get(16)?, 1 | 2);
    if !sound {
        return None;
    }
    let serial = le32(head, serial_at)?;
    let label = Some(text(head, label_at, 11)).filter(|label| label != "NO NAME");
    Some(Filesystem {
        kind: Kind::Vfat,
        uuid: format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff),
        label: label.unwrap_or_default(),
    })
}
