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

/// Places of the second header of version 2 that the head covers: it follows the first one, whose
/// size is a power of two from 16 KiB on.
const SECOND_OFFSETS: [usize; 3] = [0x4000, 0x8000, 0x10000];

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

/// Looks for a header in `head`.
pub fn find(head: &[u8]) -> Option<Luks> {
    if let Some(found) = parse(head, 0, MAGIC) {
        return Some(found);
    }
    let second = |&at: &usize| {
        let found = parse(head, at, MAGIC_SECOND).filter(|l| l.version == 2)?;
        // The header says where it is: an image of a whole disk inside another is not taken.
        let own_place = be64(head, at + 256)? == at as u64;
        own_place.then_some(Luks { from_second: true, ..found })
    };
    SECOND_OFFSETS.iter().find_map(second)
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
