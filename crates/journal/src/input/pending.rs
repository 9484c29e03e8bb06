//! Entries that were taken and are not in a file yet, as records in memory that outlives the
//! daemon: a daemon that is killed loses nothing of what it had taken.
//!
//! A row of records, each a length, a checksum and its content; reading ends at the first one that
//! is not whole. An entry names its context by a number, which an earlier record explains.
//! Entries carry their sequence number, so that one which did reach a file is not taken twice.
//! Of a stream there may be the beginning of a line; the last such record of a stream counts.
//!
//! Pure: bytes. The memory is [`crate::daemon`]'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bytes::{Input, put_bytes, put_varint};
use crate::entry::{Entry, Fields, Id128, Stamp};
use crate::error::Damage;

/// Bytes before the content of a record: its length and its checksum.
const HEADER_BYTES: usize = 8;

const CONTEXT: u8 = 1;
const ENTRY: u8 = 2;
const LINE: u8 = 3;

/// Makes records.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// The context that was explained last, and its number.
    context: Option<(Arc<Fields>, u64)>,
    contexts: u64,
}

impl Writer {
    /// Adds an entry.
    pub fn entry(&mut self, seqnum: u64, stamp: &Stamp, context: &Arc<Fields>, fields: &Fields) {
        let number = self.explain(context);
        self.record(ENTRY, |out| {
            put_varint(out, seqnum);
            put_varint(out, stamp.realtime_us);
            put_varint(out, stamp.monotonic_us);
            out.extend_from_slice(&stamp.boot.0);
            put_varint(out, number);
            put_fields(out, fields);
        });
    }

    /// Adds the beginning of a line of a stream.
    pub fn line(&mut self, stream: &str, begun: &[u8]) {
        self.record(LINE, |out| {
            put_bytes(out, stream.as_bytes());
            put_bytes(out, begun);
        });
    }

    /// What was added since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Nothing was added since the last [`Writer::take`].
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number of a context. Entries of one process come together: the last one is enough.
    fn explain(&mut self, context: &Arc<Fields>) -> u64 {
        if let Some((known, number)) = &self.context
            && Arc::ptr_eq(known, context)
        {
            return *number;
        }
        let number = self.contexts;
        self.contexts += 1;
        self.context = Some((context.clone(), number));
        self.record(CONTEXT, |out| {
            put_varint(out, number);
            put_fields(out, context);
        });
        number
    }

    fn record(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        self.bytes.push(kind);
        fill(&mut self.bytes);
        let content = &self.bytes[at + HEADER_BYTES..];
        let length = u32::try_from(content.len()).expect("entries are bounded far below 4 GiB");
        let header = [length.to_le_bytes(), crc32fast::hash(content).to_le_bytes()];
        self.bytes[at..at + HEADER_BYTES].copy_from_slice(header.as_flattened());
    }
}

fn put_fields(out: &mut Vec<u8>, fields: &Fields) {
    put_varint(out, fields.len() as u64);
    for (name, value) in fields.iter() {
        put_bytes(out, name);
        put_bytes(out, value);
    }
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries in order.
    pub entries: Vec<Entry>,
    /// Beginnings of lines, by stream.
    pub lines: BTreeMap<String, Vec<u8>>,
}

/// Reads records up to the first that is not whole.
pub fn read(bytes: &[u8]) -> Found {
    let (mut found, mut contexts) = (Found::default(), BTreeMap::new());
    let mut rest = bytes;
    while let Some((content, after)) = next_record(rest) {
        if read_record(content, &mut found, &mut contexts).is_err() {
            break;
        }
        rest = after;
    }
    found
}

fn next_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (content, after) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let whole = !content.is_empty() && crc32fast::hash(content) == u32::from_le_bytes(*crc);
    whole.then_some((content, after))
}

fn read_record(
    content: &[u8],
    found: &mut Found,
    contexts: &mut BTreeMap<u64, Arc<Fields>>,
) -> Result<(), Damage> {
    let mut input = Input::new(content);
    match input.take(1)? {
        [CONTEXT] => {
            let number = input.varint()?;
            contexts.insert(number, Arc::new(read_fields(&mut input)?));
        }
        [ENTRY] => {
            let seqnum = input.varint()?;
            let (realtime_us, monotonic_us) = (input.varint()?, input.varint()?);
            let stamp = Stamp { realtime_us, monotonic_us, boot: Id128(input.array()?) };
            let context = contexts.get(&input.varint()?).cloned();
            let context = context.ok_or(Damage("an entry names an unknown context"))?;
            let fields = read_fields(&mut input)?;
            found.entries.push(Entry { seqnum, stamp, context, fields });
        }
        [LINE] => {
            let stream = String::from_utf8_lossy(input.bytes()?).into_owned();
            found.lines.insert(stream, input.bytes()?.to_vec());
        }
        _ => return Err(Damage("an unknown record")),
    }
    Ok(())
}

fn read_fields(input: &mut Input<'_>) -> Result<Fields, Damage> {
    let mut fields = Fields::new();
    for _ in 0..input.count()? {
        let name = input.bytes()?;
        fields.push(name, input.bytes()?);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        text.split_whitespace().filter_map(|pair| pair.split_once('=')).collect()
    }

    fn stamp(at: u64) -> Stamp {
        Stamp { realtime_us: at, monotonic_us: at / 2, boot: Id128([7; 16]) }
    }

    fn sample() -> (Vec<u8>, Vec<Entry>) {
        let contexts = [Arc::new(fields("_PID=1")), Arc::new(fields("_PID=2 _UID=0"))];
        let (mut writer, mut entries) = (Writer::default(), Vec::new());
        for seqnum in 1..9 {
            let context = &contexts[usize::from(seqnum % 3 == 0)];
            let own = fields(&format!("MESSAGE=m{seqnum} EMPTY="));
            writer.entry(seqnum, &stamp(seqnum * 10), context, &own);
            entries.push(Entry {
                seqnum,
                stamp: stamp(seqnum * 10),
                context: context.clone(),
                fields: own,
            });
        }
        writer.line("s1", b"begun");
        writer.line("s2", b"x");
        writer.line("s1", b"");
        (writer.take(), entries)
    }

    #[test]
    fn what_was_written_is_read() {
        let (bytes, entries) = sample();
        let lines = [("s1".to_owned(), Vec::new()), ("s2".to_owned(), b"x".to_vec())];
        assert_eq!(read(&bytes), Found { entries, lines: lines.into() });
    }

    #[test]
    fn cut_anywhere_the_whole_records_are_read() {
        let (bytes, entries) = sample();
        let mut most = 0;
        for cut in 0..bytes.len() {
            let found = read(&bytes[..cut]);
            assert!(entries.starts_with(&found.entries), "cut at {cut}");
            assert!(found.entries.len() >= most, "cut at {cut}");
            most = found.entries.len();
        }
        assert_eq!(most, entries.len());
    }

    #[test]
    fn a_flipped_byte_ends_the_reading_and_nothing_else() {
        let (bytes, entries) = sample();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let found = read(&damaged);
            assert!(entries.starts_with(&found.entries), "flipped at {at}");
        }
    }
}
