//! The btrfs superblock at 64 KiB: which file system a device belongs to and as which of how many.

use crate::bytes::{array, has, le16, le64, text};
use crate::uuid::Uuid;

/// Where the first superblock is, in bytes.
pub const OFFSET: usize = 64 << 10;

/// Its size in bytes.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// Its magic, at byte 0x40 of it.
pub const MAGIC: &[u8; 8] = b"_BHRfS_M";

/// Flag of a seed device: read-only ground of other file systems.
const FLAG_SEEDING: u64 = 1 << 32;

/// Feature bit: blocks carry another identifier than the file system shows.
const FEATURE_METADATA_UUID: u64 = 1 << 10;

/// A device of a btrfs file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BtrfsMember {
    /// Identifier of the file system.
    pub fsid: Uuid,
    /// Identifier in its blocks, when that is another one.
    pub metadata_uuid: Option<Uuid>,
    /// Identifier of this device.
    pub device_uuid: Uuid,
    /// Number of this device.
    pub devid: u64,
    /// Devices that the file system has.
    pub num_devices: u64,
    /// Counts commits; after a crash devices may differ by one.
    pub generation: u64,
    /// Label of the file system.
    pub label: String,
    /// A seed device.
    pub seeding: bool,
}

/// Why something that looks like a superblock is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BtrfsFault {
    /// It was written for another place.
    OtherPlace,
    /// The checksum is wrong. Only CRC32C, the default, is verified; of file systems with another
    /// one the magic and the place must do.
    Checksum,
    /// A number in it cannot be.
    Header,
}

/// Looks for a superblock in `head`.
pub fn find(head: &[u8]) -> Result<Option<BtrfsMember>, BtrfsFault> {
    let Some(block) = head.get(OFFSET..OFFSET + SUPERBLOCK_BYTES) else { return Ok(None) };
    if !has(block, 0x40, MAGIC) {
        return Ok(None);
    }
    if le64(block, 0x30) != Some(OFFSET as u64) {
        return Err(BtrfsFault::OtherPlace);
    }
    if le16(block, 0xc4) == Some(0) && array(block, 0) != Some(checksum(block).to_le_bytes()) {
        return Err(BtrfsFault::Checksum);
    }
    parse(block).map(Some).ok_or(BtrfsFault::Header)
}

fn parse(block: &[u8]) -> Option<BtrfsMember> {
    let num_devices = le64(block, 0x88).filter(|&n| n > 0)?;
    let metadata_uuid = match le64(block, 0xbc)? & FEATURE_METADATA_UUID {
        0 => None,
        _ => Some(Uuid(array(block, 0x23b)?)),
    };
    Some(BtrfsMember {
        fsid: Uuid(array(block, 0x20)?),
        metadata_uuid,
        device_uuid: Uuid(array(block, 0x10b)?),
        devid: le64(block, 0xc9)?,
        num_devices,
        generation: le64(block, 0x48)?,
        label: text(block, 0x12b, 256),
        seeding: le64(block, 0x38)? & FLAG_SEEDING != 0,
    })
}

/// CRC32C of a superblock, everything behind the checksum's own 32 bytes.
pub fn checksum(block: &[u8]) -> u32 {
    let bytes = block.get(0x20..SUPERBLOCK_BYTES).unwrap_or_default();
    !bytes.iter().fold(!0, crc_step)
}

fn crc_step(crc: u32, byte: &u8) -> u32 {
    (crc >> 8) ^ CRC32C[(crc as u8 ^ byte) as usize]
}

/// Table of CRC32C (polynomial 0x1edc6f41, reflected).
const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ ((crc & 1) * 0x82f6_3b78);
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_crc32c() {
        // The check value of the CRC catalogue.
        assert_eq!(!b"123456789".iter().fold(!0, crc_step), 0xe306_9283);
    }
}
