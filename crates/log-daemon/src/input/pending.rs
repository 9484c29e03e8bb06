//! Entries that were taken and are not in a file yet, as records in memory that outlives the
//! daemon: a daemon that is killed loses nothing of what it had taken.
//!
//! A row of frames, each a length, a checksum and records; reading ends at the first frame that is
//! not whole, so what a frame says counts as a whole or not at all. An entry names its context by a
//! number, which an earlier record explains, and is of the class that its frame said last.
//! Entries carry their sequence number, so that one which did reach a file is not taken twice.
//! Of a stream there may be the beginning of a line; the last such record of a stream counts.
//!
//! What is read from a stream stays in its socket until its entries are here: it is looked at, its
//! lines are put here with the number of its bytes ([`Writer::looked_at`]), and then it is taken
//! from the socket. The socket counts the bytes that were looked at and not taken, so the next
//! daemon knows whether the last one came to the taking, and takes it up neither twice nor never.
//! Before a stream is looked at again, the number is put back to 0.
//!
//! Pure: bytes. The memory is [`crate::daemon`]'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use warren_log_store::bytes::{Input, put_bytes, put_varint};
use warren_log_store::entry::{Entry, Fields, Id128, Stamp};
use warren_log_store::error::Damage;
use warren_log_store::store::DEFAULT_CLASS;

/// Bytes before the records of a frame: their length and their checksum.
const HEADER_BYTES: usize = 8;

const CONTEXT: u8 = 1;
const ENTRY: u8 = 2;
const LINE: u8 = 3;
const LOOKED_AT: u8 = 4;
const NEXT: u8 = 5;
const CLASS: u8 = 6;

/// Makes a frame.
#[derive(Debug, Default)]
pub struct Writer {
    frame: Vec<u8>,
    /// The context that was explained last, and its number.
    context: Option<(Arc<Fields>, u64)>,
    contexts: u64,
    /// The class of the entries to come, as the frame says; a frame begins with the default one.
    class: Option<String>,
}

impl Writer {
    /// Says the class of the entries to come.
    pub fn class(&mut self, class: &str) {
        if self.class.as_deref().unwrap_or(DEFAULT_CLASS) != class {
            put_bytes(self.record(CLASS), class.as_bytes());
            self.class = Some(class.to_owned());
        }
    }

    /// Adds an entry.
    pub fn entry(&mut self, seqnum: u64, stamp: &Stamp, context: &Arc<Fields>, fields: &Fields) {
        let number = self.explain(context);
        let out = self.record(ENTRY);
        put_varint(out, seqnum);
        put_varint(out, stamp.realtime_us);
        put_varint(out, stamp.monotonic_us);
        out.extend_from_slice(&stamp.boot.0);
        put_varint(out, number);
        put_fields(out, fields);
    }

    /// Adds the beginning of a line of a stream.
    pub fn line(&mut self, stream: &str, begun: &[u8]) {
        let out = self.record(LINE);
        put_bytes(out, stream.as_bytes());
        put_bytes(out, begun);
    }

    /// Says how many bytes at the head of a stream's socket are in records and still there.
    pub fn looked_at(&mut self, stream: &str, bytes: u64) {
        let out = self.record(LOOKED_AT);
        put_bytes(out, stream.as_bytes());
        put_varint(out, bytes);
    }

    /// Says which record of a numbered source is the next.
    pub fn next(&mut self, source: &str, number: u64) {
        let out = self.record(NEXT);
        put_bytes(out, source.as_bytes());
        put_varint(out, number);
    }

    /// What was added since the last call, as one frame.
    pub fn take(&mut self) -> Vec<u8> {
        let mut frame = std::mem::take(&mut self.frame);
        self.class = None;
        if let Some((header, records)) = frame.split_first_chunk_mut::<HEADER_BYTES>() {
            let length = u32::try_from(records.len()).expect("a turn is bounded far below 4 GiB");
            let parts = [length.to_le_bytes(), crc32fast::hash(records).to_le_bytes()];
            header.copy_from_slice(parts.as_flattened());
        }
        frame
    }

    /// Nothing was added since the last [`Writer::take`].
    pub fn is_empty(&self) -> bool {
        self.frame.is_empty()
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
        let out = self.record(CONTEXT);
        put_varint(out, number);
        put_fields(out, context);
        number
    }

    fn record(&mut self, kind: u8) -> &mut Vec<u8> {
        if self.frame.is_empty() {
            self.frame.extend_from_slice(&[0; HEADER_BYTES]);
        }
        self.frame.push(kind);
        &mut self.frame
    }
}

fn put_fields(out: &mut Vec<u8>, fields: &Fields) {
    put_varint(out, fields.len() as u64);
    for (name, value) in fields.iter() {
        put_bytes(out, name);
        put_bytes(out, value);
    }
}

/// An entry that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEntry {
    /// The class it was appended to.
    pub class: String,
    /// It.
    pub entry: Entry,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PendingContent {
    /// Entries in order.
    pub entries: Vec<PendingEntry>,
    /// Beginnings of lines, by stream.
    pub lines: BTreeMap<String, Vec<u8>>,
    /// Bytes that are in records and maybe still in their sockets, by stream.
    pub looked_at: BTreeMap<String, u64>,
    /// The next record of numbered sources, by source.
    pub next: BTreeMap<String, u64>,
}

/// Reads frames up to the first that is not whole; also gives how many bytes they are.
pub fn read(bytes: &[u8]) -> (PendingContent, usize) {
    let (mut found, mut contexts) = (PendingContent::default(), BTreeMap::new());
    let mut rest = bytes;
    while let Some((records, after)) = next_frame(rest) {
        let (mut input, mut class) = (Input::new(records), DEFAULT_CLASS.to_owned());
        while !input.rest().is_empty() {
            if read_record(&mut input, &mut found, &mut contexts, &mut class).is_err() {
                // A whole frame that is not understood: another version wrote it.
                return (found, bytes.len() - rest.len());
            }
        }
        rest = after;
    }
    (found, bytes.len() - rest.len())
}

fn next_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (records, after) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let whole = !records.is_empty() && crc32fast::hash(records) == u32::from_le_bytes(*crc);
    whole.then_some((records, after))
}

fn read_record(
    input: &mut Input<'_>,
    found: &mut PendingContent,
    contexts: &mut BTreeMap<u64, Arc<Fields>>,
    class: &mut String,
) -> Result<(), Damage> {
    match input.take(1)? {
        [CONTEXT] => {
            let number = input.varint()?;
            contexts.insert(number, Arc::new(read_fields(input)?));
        }
        [ENTRY] => {
            let seqnum = input.varint()?;
            let (realtime_us, monotonic_us) = (input.varint()?, input.varint()?);
            let stamp = Stamp { realtime_us, monotonic_us, boot: Id128(input.array()?) };
            let context = contexts.get(&input.varint()?).cloned();
            let context = context.ok_or(Damage("an entry names an unknown context"))?;
            let fields = read_fields(input)?;
            // The daemon that reads it gives it a number of its own.
            let sequence = Id128::default();
            let entry = Entry { sequence, seqnum, stamp, context, fields };
            found.entries.push(PendingEntry { class: class.clone(), entry });
        }
        [CLASS] => *class = String::from_utf8_lossy(input.bytes()?).into_owned(),
        [LINE] => {
            let stream = String::from_utf8_lossy(input.bytes()?).into_owned();
            found.lines.insert(stream, input.bytes()?.to_vec());
        }
        [LOOKED_AT] => {
            let stream = String::from_utf8_lossy(input.bytes()?).into_owned();
            found.looked_at.insert(stream, input.varint()?);
        }
        [NEXT] => {
            let source = String::from_utf8_lossy(input.bytes()?).into_owned();
            found.next.insert(source, input.varint()?);
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

    /// Three frames, and how many entries each ends with.
    fn sample() -> (Vec<u8>, Vec<PendingEntry>) {
        let contexts = [Arc::new(fields("_PID=1")), Arc::new(fields("_PID=2 _UID=0"))];
        let (mut writer, mut entries, mut bytes) = (Writer::default(), Vec::new(), Vec::new());
        for seqnum in 1..9 {
            let context = &contexts[usize::from(seqnum % 3 == 0)];
            let fields = fields(&format!("MESSAGE=m{seqnum} EMPTY="));
            let stamp = stamp(seqnum * 10);
            let class = ["system", "noisy"][usize::from(seqnum % 4 > 1)].to_owned();
            writer.class(&class);
            writer.entry(seqnum, &stamp, context, &fields);
            let (sequence, context) = (Id128::default(), context.clone());
            entries.push(PendingEntry {
                class,
                entry: Entry { sequence, seqnum, stamp, context, fields },
            });
            if seqnum % 3 == 0 {
                writer.looked_at("s1", seqnum);
                bytes.extend(writer.take());
            }
        }
        writer.line("s1", b"begun");
        writer.line("s2", b"x");
        writer.line("s1", b"");
        writer.looked_at("s1", 0);
        writer.looked_at("s2", 7);
        writer.next("kmsg", 9);
        bytes.extend(writer.take());
        (bytes, entries)
    }

    #[test]
    fn what_was_written_is_read() {
        let (bytes, entries) = sample();
        let lines = [("s1".to_owned(), Vec::new()), ("s2".to_owned(), b"x".to_vec())];
        let looked_at = [("s1".to_owned(), 0), ("s2".to_owned(), 7)].into();
        let next = [("kmsg".to_owned(), 9)].into();
        let found = PendingContent { entries, lines: lines.into(), looked_at, next };
        assert_eq!(read(&bytes), (found, bytes.len()));
        assert_eq!(read(&[&bytes[..], &[0; 8]].concat()).1, bytes.len(), "zeros are no record");
    }

    /// A frame counts as a whole or not at all.
    #[track_caller]
    fn check_beginning(found: &PendingContent, entries: &[PendingEntry], what: &str) {
        assert!(entries.starts_with(&found.entries), "{what}");
        assert!([0, 3, 6, 8].contains(&found.entries.len()), "{what}");
        let looked_at = found.looked_at.get("s1").copied().unwrap_or(0);
        let expected = if found.entries.len() == 8 { 0 } else { found.entries.len() as u64 };
        assert_eq!(looked_at, expected, "{what}");
    }

    #[test]
    fn cut_anywhere_the_whole_frames_are_read() {
        let (bytes, entries) = sample();
        for cut in 0..=bytes.len() {
            check_beginning(&read(&bytes[..cut]).0, &entries, &format!("cut at {cut}"));
        }
    }

    #[test]
    fn a_flipped_byte_ends_the_reading_and_nothing_else() {
        let (bytes, entries) = sample();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            check_beginning(&read(&damaged).0, &entries, &format!("flipped at {at}"));
        }
    }
}
