//! Metadata of firmware RAID at the end of a disk: Intel's (IMSM) and the common one of other
//! controllers (SNIA, "Common RAID Disk Data Format Specification" 2.0).
//!
//! Such a disk is part of a container, of which mdadm(8) makes arrays. Nothing here starts one: it
//! is recognised so that a disk is not taken for what an array on it begins with.

use crate::bytes::{array, has, text};
use crate::read::Image;

/// What Intel's anchor begins with; its version follows.
pub const INTEL_MAGIC: &[u8; 24] = b"Intel Raid ISM Cfg Sig. ";

/// What the other one's anchor begins with.
pub const DDF_MAGIC: [u8; 4] = [0xde, 0x11, 0xde, 0x11];

/// Sizes of sectors, in bytes: anchors are counted in them from the end.
const SECTORS: [u64; 2] = [512, 4096];

/// Bytes of an anchor that are looked at.
pub const ANCHOR_BYTES: usize = 512;

/// Whose metadata it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Intel Matrix Storage Manager.
    Intel,
    /// Disk Data Format.
    Ddf,
}

impl Format {
    /// The name that blkid(8) has for a disk of it.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Intel => "isw_raid_member",
            Format::Ddf => "ddf_raid_member",
        }
    }

    /// The name that mdadm(8) has for it.
    pub fn mdadm_name(self) -> &'static str {
        match self {
            Format::Intel => "imsm",
            Format::Ddf => "ddf",
        }
    }
}

/// A disk of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirmwareRaid {
    /// Whose.
    pub format: Format,
    /// Version that the metadata gives itself.
    pub version: String,
    /// Where the anchor is, in bytes.
    pub offset: u64,
}

/// Looks for an anchor near the end of a disk. One that is damaged is none: blkid(8) and mdadm(8)
/// say so, too.
pub fn find(image: &Image<'_>) -> Option<FirmwareRaid> {
    SECTORS.iter().find_map(|&sector| intel(image, sector).or_else(|| ddf(image, sector)))
}

/// In the last sector but one.
fn intel(image: &Image<'_>, sector: u64) -> Option<FirmwareRaid> {
    let offset = image.size_bytes().checked_sub(2 * sector)?;
    let anchor = image.get(offset, ANCHOR_BYTES)?;
    let version = text(anchor, INTEL_MAGIC.len(), 8);
    has(anchor, 0, INTEL_MAGIC).then_some(FirmwareRaid { format: Format::Intel, version, offset })
}

/// In the last sector; its checksum is made with all bits of its own set.
fn ddf(image: &Image<'_>, sector: u64) -> Option<FirmwareRaid> {
    let offset = image.size_bytes().checked_sub(sector)?;
    let anchor = image.get(offset, ANCHOR_BYTES)?;
    if !has(anchor, 0, &DDF_MAGIC) || array(anchor, 4)? != ddf_checksum(anchor).to_be_bytes() {
        return None;
    }
    Some(FirmwareRaid { format: Format::Ddf, version: text(anchor, 32, 8), offset })
}

/// The checksum of an anchor.
pub fn ddf_checksum(anchor: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let (magic, behind) = (anchor.get(..4), anchor.get(8..ANCHOR_BYTES));
    [magic, Some(&[0xff; 4]), behind].into_iter().flatten().for_each(|part| hasher.update(part));
    hasher.finalize()
}
