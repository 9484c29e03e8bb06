//! What tells one state of a file from another without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Device, inode, size and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity([u64; 7]);

impl Identity {
    /// Of what is there; none if nothing is.
    pub(crate) fn at(path: &Path) -> Option<Identity> {
        std::fs::metadata(path).ok().map(|m| Identity::of(&m))
    }

    pub(crate) fn of(m: &Metadata) -> Identity {
        Identity([
            m.dev(),
            m.ino(),
            m.size(),
            m.mtime().cast_unsigned(),
            m.mtime_nsec().cast_unsigned(),
            m.ctime().cast_unsigned(),
            m.ctime_nsec().cast_unsigned(),
        ])
    }
}
