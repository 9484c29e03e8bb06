//! The identity of a file, by which a change of it is seen.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// What tells one state of a file from another without reading it: a fingerprint of its device,
/// inode, size and times, and whether it has other names. 64 bits for each of 40,000 files; two states of one
/// file agree in it by chance once in 2^63 changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(pub(crate) u64);

impl Identity {
    /// That of no file on a disk.
    pub(crate) const NONE: Identity = Identity(0);

    /// The bit of a file that has other names (hard links).
    const OTHER_NAMES: u64 = 1;

    pub(crate) fn of(m: &fs::Metadata) -> Identity {
        let Identity(own) = Identity::of_parts([
            m.dev(),
            m.ino(),
            m.size(),
            m.mtime().cast_unsigned(),
            m.mtime_nsec().cast_unsigned(),
            m.ctime().cast_unsigned(),
            m.ctime_nsec().cast_unsigned(),
        ]);
        Identity(own | if m.nlink() > 1 { Identity::OTHER_NAMES } else { 0 })
    }

    pub(crate) fn has_other_names(self) -> bool {
        self.0 & Identity::OTHER_NAMES != 0
    }

    /// Whether it is that of these parts, however many names the file has: who gives it another changes its
    /// time.
    pub(crate) fn is_of(self, parts: [u64; 7]) -> bool {
        self.0 & !Identity::OTHER_NAMES == Identity::of_parts(parts).0
    }

    fn of_parts(parts: [u64; 7]) -> Identity {
        // One round of a 64-bit mixer for each part.
        let mix = |seed: u64, part: u64| {
            let x = (seed ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
        };
        Identity(parts.into_iter().fold(1, mix) & !Identity::OTHER_NAMES)
    }
}

/// The time of change, ns since 1970: it moves with whatever is done to a file, a rename too.
pub(crate) fn changed_at(metadata: &std::fs::Metadata) -> u64 {
    let (seconds, nanos) =
        (metadata.ctime().cast_unsigned(), metadata.ctime_nsec().cast_unsigned());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
