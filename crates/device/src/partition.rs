//! Partition tables: recognised, because a disk that has one is no member of a group itself.

use crate::bytes::{array, has, le32, le64};
use crate::uuid::Uuid;

/// A partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionTable {
    /// Which kind, and its identifier.
    pub kind: TableKind,
    /// Byte behind the last one that partitions may use (GPT) or do use (MBR).
    pub end: u64,
}

/// Kinds of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// UEFI's.
    Gpt(Uuid),
    /// The PC's old one, with its disk signature.
    Mbr(u32),
}

/// Looks for a table in `head`.
pub fn find(head: &[u8]) -> Option<PartitionTable> {
    [512, 4096].into_iter().find_map(|sector| gpt(head, sector)).or_else(|| mbr(head))
}

/// UEFI specification, 5.3.2: the header in the second sector, checksum of 92 bytes or more.
fn gpt(head: &[u8], sector: usize) -> Option<PartitionTable> {
    let header = head.get(sector..2 * sector)?;
    if !has(header, 0, b"EFI PART") || le64(header, 24) != Some(1) {
        return None;
    }
    let length = le32(header, 12).filter(|&n| n >= 92)? as usize;
    let mut summed = header.get(..length)?.to_vec();
    summed[16..20].fill(0);
    if crc32fast::hash(&summed) != le32(header, 16)? {
        return None;
    }
    let end = le64(header, 48)?.saturating_add(1).saturating_mul(sector as u64);
    Some(PartitionTable { kind: TableKind::Gpt(Uuid::from_guid(array(header, 56)?)), end })
}

/// The signature alone is found on every boot sector: at least one entry must be in use, and all
/// must look like entries.
fn mbr(head: &[u8]) -> Option<PartitionTable> {
    let entries: Vec<&[u8]> = head.get(446..510)?.chunks_exact(16).collect();
    let sound = |e: &&&[u8]| matches!(e.first(), Some(0 | 0x80));
    if !has(head, 510, &[0x55, 0xaa]) || entries.iter().filter(sound).count() != entries.len() {
        return None;
    }
    let ends = entries.iter().filter_map(|e| {
        let (kind, sectors) = (*e.get(4)?, le32(e, 12)?);
        let used = kind != 0 && sectors != 0;
        used.then(|| (u64::from(le32(e, 8).unwrap_or(0)) + u64::from(sectors)) * 512)
    });
    Some(PartitionTable { kind: TableKind::Mbr(le32(head, 440)?), end: ends.max()? })
}
