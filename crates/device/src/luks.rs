//! LUKS headers, versions 1 and 2: recognised and named, never opened.
//!
//! Numbers are big-endian. The checksum of a version 2 header is cryptsetup's to verify, which
//! reads the whole header anyway before it asks for a key.

use crate::bytes::{be16, be64, has, text};
use crate::uuid::Uuid;

/// What a header begins with.
pub const MAGIC: &[u8; 6] = b"LUKS\xba\xbe";

/// What the second header of version 2 begins with.
pub const MAGIC_SECOND: &[u8; 6] = b"SKUL\xba\xbe";

/// Places of the second header of version 2: it follows the first one, whose size is a power of two
/// (`--luks2-metadata-size`, cryptsetup-luksFormat(8)). The head covers the first three.
pub const SECOND_OFFSETS: [u64; 9] =
    [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];

/// Bytes of a header that name the device.
pub const NAMING_BYTES: usize = 512;

/// An encrypted device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Luks {
    /// 1 or 2.
    pub version: u16,
    /// Identifier.
    pub uuid: Uuid,
    /// Label; version 2 only.
    pub label: String,
    /// The first header is damaged; this is what the second one says.
    pub from_second: bool,
}

/// Looks for a header in `head`, the first bytes of a device.
pub fn find(head: &[u8]) -> Option<Luks> {
    if let Some(found) = parse(head, 0, MAGIC) {
        return Some(found);
    }
    let seconds = SECOND_OFFSETS.iter();
    seconds.filter_map(|&place| Some((head.get(place as usize..)?, place))).find_map(second)
}

/// Looks for a second header in the bytes at one of its places.
pub fn second((bytes, place): (&[u8], u64)) -> Option<Luks> {
    let found = parse(bytes, 0, MAGIC_SECOND).filter(|l| l.version == 2)?;
    // The header says where it is: an image of a whole disk inside another is not taken.
    (be64(bytes, 256)? == place).then_some(Luks { from_second: true, ..found })
}

fn parse(head: &[u8], at: usize, magic: &[u8]) -> Option<Luks> {
    let version = be16(head, at + 6)?;
    if !has(head, at, magic) || !matches!(version, 1 | 2) {
        return None;
    }
    let uuid = Uuid::parse(&text(head, at + 168, 40))?;
    let label = if version == 2 { text(head, at + 24, 48) } else { String::new() };
    Some(Luks { version, uuid, label, from_second: false })
}
