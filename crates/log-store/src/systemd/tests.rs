//! Files that are made here from the documented layout, whole, changed and cut.

use std::collections::BTreeMap;

use super::SystemdFile;
use crate::files::memory::InMemory;
use crate::query::union::Reader;
use crate::query::{Direction, Expr, Query};

/// Makes a file, object by object.
struct Builder {
    bytes: Vec<u8>,
    is_compact: bool,
    data: BTreeMap<String, u64>,
    entries: Vec<u64>,
}

const HEADER_BYTES: usize = 264;

impl Builder {
    fn new(is_compact: bool) -> Builder {
        Builder {
            bytes: vec![0; HEADER_BYTES],
            is_compact,
            data: BTreeMap::new(),
            entries: Vec::new(),
        }
    }

    fn object(&mut self, kind: u8, flags: u8, body: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len() as u64;
        self.bytes.extend_from_slice(&[kind, flags, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend_from_slice(&(16 + body.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(body);
        at
    }

    fn offset(&self, out: &mut Vec<u8>, at: u64) {
        match self.is_compact {
            true => out.extend_from_slice(&(at as u32).to_le_bytes()),
            false => out.extend_from_slice(&at.to_le_bytes()),
        }
    }

    fn value(&mut self, field: &str) -> u64 {
        if let Some(at) = self.data.get(field) {
            return *at;
        }
        let packed = field.len() > 100;
        // Older versions wrote lz4.
        let (flags, payload) = match packed {
            true if self.is_compact => {
                (4, zstd::bulk::compress(field.as_bytes(), 1).expect("memory is there"))
            }
            true => {
                let size = (field.len() as u64).to_le_bytes();
                (2, [&size[..], &lz4_flex::block::compress(field.as_bytes())].concat())
            }
            false => (0, field.as_bytes().to_vec()),
        };
        let mut body = vec![0; if self.is_compact { 56 } else { 48 }];
        body.extend_from_slice(&payload);
        let at = self.object(1, flags, &body);
        self.data.insert(field.to_owned(), at);
        at
    }

    fn entry(&mut self, number: u64, fields: &[&str]) {
        let data: Vec<u64> = fields.iter().map(|field| self.value(field)).collect();
        let mut body = Vec::new();
        for stamp in [number, 1_000_000 * number, 7 * number] {
            body.extend_from_slice(&stamp.to_le_bytes());
        }
        body.extend_from_slice(&[9; 16]);
        body.extend_from_slice(&[0; 8]);
        for at in data {
            self.offset(&mut body, at);
            if !self.is_compact {
                body.extend_from_slice(&[0; 8]);
            }
        }
        let at = self.object(3, 0, &body);
        self.entries.push(at);
    }

    /// The entry arrays, two to each but the last, and the header.
    fn finish(mut self) -> Vec<u8> {
        let count = self.entries.len() as u64;
        let item = if self.is_compact { 4 } else { 8 };
        let lists: Vec<Vec<u64>> = self.entries.chunks(2).map(<[u64]>::to_vec).collect();
        let first = self.bytes.len().next_multiple_of(8) as u64;
        let mut at = first;
        for (number, list) in lists.iter().enumerate() {
            let size = (24 + item * list.len() as u64).next_multiple_of(8);
            let next = if number + 1 < lists.len() { at + size } else { 0 };
            let mut body = next.to_le_bytes().to_vec();
            list.iter().for_each(|entry| self.offset(&mut body, *entry));
            body.resize(size as usize - 16, 0);
            assert_eq!(self.object(6, 0, &body), at);
            at += size;
        }
        let features: u32 = if self.is_compact { 4 | 8 | 16 } else { 2 };
        let mut put =
            |at: usize, bytes: &[u8]| self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"LPKSHHRH");
        put(12, &features.to_le_bytes());
        put(72, &[5; 16]);
        put(88, &(HEADER_BYTES as u64).to_le_bytes());
        put(152, &count.to_le_bytes());
        put(176, &first.to_le_bytes());
        put(184, &1_000_000_u64.to_le_bytes());
        put(192, &(1_000_000 * count).to_le_bytes());
        self.bytes
    }
}

fn sample(is_compact: bool) -> Vec<u8> {
    let mut builder = Builder::new(is_compact);
    let long = format!("LONG={}", "ab".repeat(300));
    for number in 1..=7 {
        let (text, odd) = (format!("MESSAGE=number {number}"), format!("ODD={}", number % 2));
        let all = ["_BOOT_ID=09090909090909090909090909090909", &text, &odd, &long];
        builder.entry(number, &all[..if number == 3 { 3 } else { 4 }]);
    }
    builder.finish()
}

/// Texts of the entries, and how many faults there were; `None` for a file that is refused.
fn read(bytes: &[u8], query: &Query, direction: Direction) -> Option<(Vec<String>, usize)> {
    let file = SystemdFile::of("f", Box::new(InMemory::new("f", bytes.to_vec()))).ok()?;
    let mut stream = file.entries(query, direction, None);
    let mut texts = Vec::new();
    while let Some(entry) = stream.try_next().expect("no read fails") {
        let text = entry.get("MESSAGE").unwrap_or(b"-");
        let long = entry.get("LONG").map_or(0, <[u8]>::len);
        texts.push(format!("{} {long}", String::from_utf8_lossy(text)));
    }
    let damage = stream.damage().len();
    Some((texts, damage))
}

#[test]
fn entries_come_as_they_were_written() {
    for is_compact in [false, true] {
        let bytes = sample(is_compact);
        let expected = |numbers: &[u32]| {
            let text = |n: &u32| format!("number {n} {}", if *n == 3 { 0 } else { 600 });
            Some((numbers.iter().map(text).collect::<Vec<_>>(), 0))
        };
        let all = Query::default();
        assert_eq!(read(&bytes, &all, Direction::Forward), expected(&[1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(read(&bytes, &all, Direction::Backward), expected(&[7, 6, 5, 4, 3, 2, 1]));
        let some = Query {
            expr: Expr::field("ODD", "1").and(Expr::field("_BOOT_ID", "09".repeat(16))),
            since_us: Some(3_000_000),
            until_us: Some(6_000_000),
            ..Query::default()
        };
        assert_eq!(read(&bytes, &some, Direction::Forward), expected(&[3, 5]));
        let file = SystemdFile::of("f", Box::new(InMemory::new("f", bytes))).expect("whole");
        let (values, _) = file.values(b"ODD", usize::MAX).expect("no read fails");
        assert_eq!(values.len(), 2);
        assert_eq!(file.boots().expect("no read fails").0.len(), 1);
    }
}

#[test]
fn a_changed_byte_hurts_nobody() {
    for is_compact in [false, true] {
        let whole = sample(is_compact);
        let (all, query) = (read(&whole, &Query::default(), Direction::Forward), Query::default());
        let all = all.expect("whole").0;
        for at in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                let Some((found, _)) = read(&bytes, &query, Direction::Forward) else { continue };
                assert!(found.len() <= all.len(), "byte {at}");
            }
        }
    }
}

#[test]
fn a_cut_file_gives_what_is_left() {
    for is_compact in [false, true] {
        let whole = sample(is_compact);
        for cut in 0..whole.len() {
            if let Some((found, damage)) =
                read(&whole[..cut], &Query::default(), Direction::Forward)
            {
                assert!(damage > 0 || found.len() == 7, "cut at {cut}: it is said");
            }
        }
    }
}

#[test]
fn what_is_not_known_is_refused() {
    let mut bytes = sample(true);
    bytes[12] |= 64;
    assert_eq!(read(&bytes, &Query::default(), Direction::Forward), None);
    assert_eq!(read(b"LPKSHHRX", &Query::default(), Direction::Forward), None);
}

#[test]
fn a_value_that_unpacks_to_too_much_is_left_out() {
    let mut builder = Builder::new(true);
    let bomb = format!("BOMB={}", "a".repeat(crate::entry::ENTRY_BYTES_MAX + 1));
    builder.entry(1, &["MESSAGE=before", &bomb]);
    let found = read(&builder.finish(), &Query::default(), Direction::Forward);
    assert_eq!(found, Some((vec!["before 0".to_owned()], 1)));
}

/// A file with its index, and the number of its entries that are odd.
fn indexed() -> (Vec<u8>, usize) {
    let id = crate::entry::Id128([7; 16]);
    let ids = super::write::Ids { file: id, machine: id, sequence: id };
    let mut writer = super::write::Writer::new(ids, 64 << 10);
    let context: std::sync::Arc<crate::entry::Fields> =
        std::sync::Arc::new([("_PID", "7"), ("UNIT", "a")].into_iter().collect());
    for number in 1..=40_u64 {
        let stamp = crate::entry::Stamp { realtime_us: number, monotonic_us: number, boot: id };
        let (text, odd) = (format!("text {number}"), (number % 2).to_string());
        let fields = [("MESSAGE", &*text), ("ODD", &*odd)].into_iter().collect();
        writer.append(number, &stamp, &context, &fields);
    }
    let memory = crate::store::fault::Memory::new();
    let file = crate::files::Files::create(&memory, "f").expect("no faults");
    writer.flush(&*file).expect("no faults");
    (memory.content("f"), 20)
}

#[test]
fn matches_values_and_boots_come_from_the_index() {
    let (bytes, odd) = indexed();
    let count = |expr: Expr| {
        let query = Query { expr, ..Query::default() };
        read(&bytes, &query, Direction::Forward).expect("whole").0.len()
    };
    assert_eq!(count(Expr::field("ODD", "1")), odd);
    assert_eq!(count(Expr::field("ODD", "2")), 0);
    assert_eq!(count(Expr::field("NOSUCH", "1")), 0);
    assert_eq!(count(Expr::field("ODD", "1").and(Expr::field("UNIT", "a"))), odd);
    let any = vec![Expr::field("ODD", "0"), Expr::field("MESSAGE", "text 3")];
    assert_eq!(count(Expr::Any(any)), odd + 1);
    let file = SystemdFile::of("f", Box::new(InMemory::new("f", bytes.clone()))).expect("whole");
    assert_eq!(file.values(b"ODD", usize::MAX).expect("no read fails").0.len(), 2);
    assert_eq!(file.values(b"NOSUCH", usize::MAX).expect("no read fails").0.len(), 0);
    let names = file.field_names().expect("no read fails").0;
    let names: Vec<String> =
        names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    assert_eq!(names, ["MESSAGE", "ODD", "UNIT", "_BOOT_ID", "_PID"]);
    let boots = file.boots().expect("no read fails").0;
    assert_eq!((boots.len(), boots[0].realtime_min_us, boots[0].realtime_max_us), (1, 1, 40));
    let query = Query::default();
    let behind = |direction, position| {
        let mut entries = file.entries(&query, direction, Some(position));
        entries.try_next().expect("no read fails").map(|entry| entry.seqnum)
    };
    assert_eq!(behind(Direction::Forward, 0), Some(1));
    assert_eq!(behind(Direction::Forward, 17), Some(18));
    assert_eq!(behind(Direction::Forward, 40), None);
    assert_eq!(behind(Direction::Backward, 17), Some(16));
    assert_eq!(behind(Direction::Backward, 1), None);
}

/// What of the index is damaged leads nowhere, and never round and round.
#[test]
fn a_damaged_index_hurts_nobody() {
    let (whole, odd) = indexed();
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= [0x01, 0x10, 0xff][at % 3];
        let query = Query { expr: Expr::field("ODD", "1"), ..Query::default() };
        if let Some((found, _)) = read(&bytes, &query, Direction::Backward) {
            assert!(found.len() <= odd + 1, "byte {at}");
        }
        let Ok(file) = SystemdFile::of("f", Box::new(InMemory::new("f", bytes))) else { continue };
        let read = (file.values(b"ODD", usize::MAX), file.field_names(), file.boots());
        assert!(read.0.is_ok() && read.1.is_ok() && read.2.is_ok(), "byte {at}");
    }
}
