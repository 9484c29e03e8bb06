//! Cursors: a position as text, in the form that systemd.journal-fields(7) shows for `__CURSOR`.

use std::fmt;

use crate::entry::{Entry, Id128, Stamp};

/// The position of an entry: by sequence number in this store, else by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Which store.
    pub sequence: Id128,
    /// Which entry.
    pub seqnum: u64,
    /// When it came in.
    pub stamp: Stamp,
    /// Checksum of its fields.
    pub checksum: u64,
}

impl Cursor {
    /// The cursor of an entry.
    pub fn of(entry: &Entry) -> Cursor {
        let checksum = entry.all_fields().fold(0, |sum: u64, (name, value)| {
            let mut hash = crc32fast::Hasher::new();
            hash.update(name);
            hash.update(b"=");
            hash.update(value);
            sum.rotate_left(7) ^ u64::from(hash.finalize())
        });
        Cursor { sequence: entry.sequence, seqnum: entry.seqnum, stamp: entry.stamp, checksum }
    }

    /// Reads `s=…;i=…;b=…;m=…;t=…;x=…`; parts may be in any order, a sequence number with its
    /// sequence or a time must be among them.
    pub fn parse(text: &str) -> Option<Cursor> {
        let mut cursor =
            Cursor { sequence: Id128::default(), seqnum: 0, stamp: Stamp::default(), checksum: 0 };
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        for part in text.split(';') {
            let (key, value) = part.split_once('=')?;
            match key {
                "s" => cursor.sequence = Id128::parse(value)?,
                "i" => cursor.seqnum = number(value)?,
                "b" => cursor.stamp.boot = Id128::parse(value)?,
                "m" => cursor.stamp.monotonic_us = number(value)?,
                "t" => cursor.stamp.realtime_us = number(value)?,
                "x" => cursor.checksum = number(value)?,
                _ => {}
            }
        }
        let is_numbered = cursor.seqnum > 0 && cursor.sequence != Id128::default();
        (is_numbered || cursor.stamp.realtime_us > 0).then_some(cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp { realtime_us, monotonic_us, boot } = self.stamp;
        let (sequence, seqnum, checksum) = (self.sequence, self.seqnum, self.checksum);
        write!(
            f,
            "s={sequence};i={seqnum:x};b={boot};m={monotonic_us:x};t={realtime_us:x};x={checksum:x}"
        )
    }
}
