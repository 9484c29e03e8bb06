//! Entries on their way to a receiver: bytes of a request, and where each entry ends in them. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use warren_log_store::query::Cursor;

/// A batch stays below so many bytes, as many receivers and proxies refuse a request of more than 1 MB. An entry that is
/// larger is a batch of its own.
pub const BATCH_BYTES_MAX: usize = 900_000;

/// A batch in the making.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Place>,
}

/// Where an entry is.
#[derive(Debug)]
struct Place {
    /// Where its head ends: what it has in common with others.
    head_end: usize,
    /// Where it ends.
    end: usize,
    cursor: Cursor,
}

impl Batch {
    /// Whether another entry of so many bytes has room.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.entries.is_empty() || self.bytes.len() + bytes <= BATCH_BYTES_MAX
    }

    /// Adds an entry below a head that others may have as well, or below none.
    pub fn add(&mut self, head: &[u8], bytes: &[u8], cursor: Cursor) {
        self.bytes.extend_from_slice(head);
        let head_end = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.entries.push(Place { head_end, end: self.bytes.len(), cursor });
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of some entries.
    pub fn part(&self, entries: &Range<usize>) -> &[u8] {
        let end_before = |number: usize| match number.checked_sub(1) {
            None => 0,
            Some(before) => self.entries.get(before).map_or(self.bytes.len(), |entry| entry.end),
        };
        self.bytes.get(end_before(entries.start)..end_before(entries.end)).unwrap_or_default()
    }

    /// Some entries by their heads, in the order of these; those below a head in the order in which they came.
    pub fn by_head(&self, entries: &Range<usize>) -> BTreeMap<&[u8], Vec<&[u8]>> {
        let mut out = BTreeMap::<&[u8], Vec<&[u8]>>::new();
        for number in entries.clone() {
            let (Some(place), whole) = (self.entries.get(number), self.part(&(number..number + 1)))
            else {
                break;
            };
            let at = whole.len() - (place.end - place.head_end);
            let (head, bytes) = whole.split_at(at);
            out.entry(head).or_default().push(bytes);
        }
        out
    }

    /// The cursor of the last of some entries.
    pub fn last(&self, entries: &Range<usize>) -> Option<&Cursor> {
        self.entries.get(entries.end.checked_sub(1)?).map(|entry| &entry.cursor)
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
            batch.add(b"", text.as_bytes(), cursor(number));
        }
        assert!(batch.has_room(BATCH_BYTES_MAX - 6) && !batch.has_room(BATCH_BYTES_MAX - 5));
        assert_eq!(batch.part(&(0..4)), b"abbccc");
        assert_eq!(batch.part(&(1..3)), b"bbccc");
        assert_eq!(batch.part(&(3..4)), b"");
        assert_eq!(batch.last(&(0..2)), Some(&cursor(2)));
        assert_eq!((batch.last(&(0..0)), batch.last(&(0..9))), (None, None));
        assert_eq!(halves(&(0..5)), Some([0..2, 2..5]));
        batch.add(b"h", b"1", cursor(5));
        batch.add(b"g", b"2", cursor(6));
        batch.add(b"h", b"3", cursor(7));
        let by_head: Vec<_> = batch.by_head(&(4..7)).into_iter().collect();
        assert_eq!(by_head, [(&b"g"[..], vec![&b"2"[..]]), (b"h", vec![b"1", b"3"])]);
        assert_eq!(batch.by_head(&(5..5)).len(), 0);
        assert_eq!((halves(&(3..4)), halves(&(4..4))), (None, None));
    }
}
