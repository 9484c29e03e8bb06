//! LVM2's on-disk metadata: label and PV header ([`label`]), metadata areas ([`area`]), the text
//! in them ([`text`]) and the volume group that a text describes ([`group`]).
//!
//! Source of the layout: the bytes that lvm2 2.03 writes, held against what its own tools say of
//! them by `tests/peers.rs`. All numbers are little-endian. A text that is known by its checksum
//! and size is not read again: that is what makes a group of 1,000 disks one parse.

use std::fmt;

pub mod area;
pub mod config;
pub mod group;
pub mod host;
pub mod label;
pub mod text;

/// A sector as LVM2 counts, in bytes, whatever the device's own are.
pub const SECTOR_BYTES: usize = 512;

/// Identifier of a physical volume, a volume group or a logical volume: 32 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LvmId([u8; 32]);

/// Characters to a group when an identifier is shown.
const ID_GROUPS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];

impl LvmId {
    /// The identifier as it stands on disk. `None` when a byte is not of the alphabet
    /// `0-9a-zA-Z!#`: ids become file names below `/run/lvm`.
    pub fn new(bytes: [u8; 32]) -> Option<LvmId> {
        let valid = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'!' | b'#');
        bytes.iter().all(valid).then_some(LvmId(bytes))
    }

    /// Reads it with or without dashes.
    pub fn parse(text: &str) -> Option<LvmId> {
        let bytes: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
        LvmId::new(bytes.try_into().ok()?)
    }

    /// The 32 characters without dashes, as lvm2 names its files.
    pub fn plain(&self) -> &str {
        std::str::from_utf8(&self.0).expect("new() lets ASCII in only")
    }
}

impl fmt::Display for LvmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.plain();
        for (i, length) in ID_GROUPS.into_iter().enumerate() {
            let (group, after) = rest.split_at(length);
            write!(f, "{}{group}", if i == 0 { "" } else { "-" })?;
            rest = after;
        }
        Ok(())
    }
}

impl fmt::Debug for LvmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// LVM2's checksum: the CRC of zlib with another start and no final inversion.
pub fn checksum(parts: &[&[u8]]) -> u32 {
    const START: u32 = 0xf597_a6cf;
    let mut hasher = crc32fast::Hasher::new_with_initial(!START);
    parts.iter().for_each(|part| hasher.update(part));
    !hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_shown_in_groups() {
        let text = "abcdef-0123-4567-89AB-CDEF-ghij-klmno!";
        let id = LvmId::parse(text).expect("32 characters");
        assert_eq!(id.to_string(), text);
        assert_eq!(id.plain(), "abcdef0123456789ABCDEFghijklmno!");
        for wrong in ["", "abc", "abcdef-0123-4567-89AB-CDEF-ghij-klmno/"] {
            assert_eq!(LvmId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_checksum_runs_over_all_parts() {
        assert_eq!(checksum(&[]), 0xf597_a6cf);
        assert_eq!(checksum(&[b"ab", b"c"]), checksum(&[b"abc"]));
    }
}
