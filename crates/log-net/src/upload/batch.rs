//! Entries on their way to a receiver: bytes of a request, and where each entry ends in them. Pure.

use std::ops::Range;

use warren_log_store::query::Cursor;

/// A batch stays below so many bytes, as many receivers and proxies refuse a request of more than 1 MB. An entry that is
/// larger is a batch of its own.
pub const BATCH_BYTES_MAX: usize = 900_000;

/// A batch in the making.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Of each entry, its end and its cursor.
    entries: Vec<(usize, Cursor)>,
}

impl Batch {
    /// Whether another entry of so many bytes has room.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.entries.is_empty() || self.bytes.len() + bytes <= BATCH_BYTES_MAX
    }

    /// Adds an entry.
    pub fn add(&mut self, bytes: &[u8], cursor: Cursor) {
        self.bytes.extend_from_slice(bytes);
        self.entries.push((self.bytes.len(), cursor));
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of some entries.
    pub fn part(&self, entries: &Range<usize>) -> &[u8] {
        let end_before = |number: usize| match number.checked_sub(1) {
            None => 0,
            Some(before) => self.entries.get(before).map_or(self.bytes.len(), |entry| entry.0),
        };
        self.bytes.get(end_before(entries.start)..end_before(entries.end)).unwrap_or_default()
    }

    /// The cursor of the last of some entries.
    pub fn last(&self, entries: &Range<usize>) -> Option<&Cursor> {
        self.entries.get(entries.end.checked_sub(1)?).map(|(_, cursor)| cursor)
    }
}

/// The halves of some entries; `None` of a single one.
pub fn halves(entries: &Range<usize>) -> Option<[Range<usize>; 2]> {
    let middle = entries.start + entries.len() / 2;
    (entries.len() > 1).then_some([entries.start..middle, middle..entries.end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_log_store::entry::{Id128, Stamp};

    fn cursor(seqnum: u64) -> Cursor {
        Cursor { sequence: Id128([1; 16]), seqnum, stamp: Stamp::default(), checksum: 0 }
    }

    #[test]
    fn parts_are_whole_entries() {
        let mut batch = Batch::default();
        assert!(batch.has_room(BATCH_BYTES_MAX + 1), "it has a batch of its own");
        for (number, text) in (1..).zip(["a", "bb", "ccc", ""]) {
            batch.add(text.as_bytes(), cursor(number));
        }
        assert!(batch.has_room(BATCH_BYTES_MAX - 6) && !batch.has_room(BATCH_BYTES_MAX - 5));
        assert_eq!(batch.part(&(0..4)), b"abbccc");
        assert_eq!(batch.part(&(1..3)), b"bbccc");
        assert_eq!(batch.part(&(3..4)), b"");
        assert_eq!(batch.last(&(0..2)), Some(&cursor(2)));
        assert_eq!((batch.last(&(0..0)), batch.last(&(0..9))), (None, None));
        assert_eq!(halves(&(0..5)), Some([0..2, 2..5]));
        assert_eq!((halves(&(3..4)), halves(&(4..4))), (None, None));
    }
}
