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

/// The checksum of an anchor: the CRC of zlib that begins with 0 and is not inverted at its end.
pub fn ddf_checksum(anchor: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0);
    let (magic, behind) = (anchor.get(..4), anchor.get(8..ANCHOR_BYTES));
    [magic, Some(&[0xff; 4]), behind].into_iter().flatten().for_each(|part| hasher.update(part));
    !hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Scratch;

    /// What mdadm 4.2 wrote, but for bytes that are all set: where, and what.
    const BY_MDADM: [(usize, &[u8]); 9] = [
        (0, b"\xde\x11\xde\x11\x0e\xd2\x58\xa8Linux-MD"),
        (16, b"\xde\xad\xbe\xef\0\0\0\0\x58\x35\x32\x53\x6a\x9d\x26\x0a01.02.00"),
        (44, b"\x58\x35\x32\x53\xff\0\0"),
        (96, b"\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0\x40\0\0"),
        (116, b"\0\0\x80\0\0\0\0\0\0\0\x40\0\x03\xff\0\xff\0\x40\0\x07\x01\0"),
        (192, b"\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\x80\0\0\0\x82\0\0\0\x20"),
        (216, b"\0\0\0\xa2\0\0\x01\xc7\0\0\x02\x69\0\0\0\x01"),
        (236, b"\0\0\0\0"),
        (244, b"\0\0\0\0\xff\xff\xff\xff\0\0\0\0"),
    ];

    #[test]
    fn an_anchor_by_mdadm_is_found() {
        let mut disk = vec![0; 1 << 20];
        let anchor = (1 << 20) - ANCHOR_BYTES;
        disk[anchor..].fill(0xff);
        for (at, bytes) in BY_MDADM {
            disk[anchor + at..anchor + at + bytes.len()].copy_from_slice(bytes);
        }
        let (mut scratch, source) = (Scratch::default(), disk.as_slice());
        let image = Image::load(&source, &mut scratch).expect("memory can be read");
        let found = find(&image).map(|found| (found.format, found.version));
        assert_eq!(found, Some((Format::Ddf, "01.02.00".to_owned())));
    }
}
