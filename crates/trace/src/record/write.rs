//! From a recording to bytes.
//!
//! [`write()`] makes a whole file. [`Writer`] makes it piece by piece, for a recording that is
//! written while things still happen (the shutdown's): what was handed out so far can always be
//! read.

use super::{
    Anchor, BLOCK_BYTES_MAX, BLOCK_EVENTS_MAX, BLOCK_HEADER_BYTES, BLOCK_MAGIC, Head, MAGIC,
    Recording, TEXT_BYTES_MAX, Unit, kind,
};
use crate::event::Event;

/// Edges of one block.
const BLOCK_EDGES_MAX: usize = 8192;

/// Names or reasons of one block: each has a few hundred bytes at most.
const BLOCK_TEXTS_MAX: usize = 1024;

/// The whole recording as a file.
pub fn write(recording: &Recording) -> Vec<u8> {
    let mut writer = Writer::new(&recording.head);
    writer.units(&recording.units);
    writer.reasons(&recording.reasons);
    writer.edges(&recording.edges);
    writer.events(&recording.events);
    writer.end();
    writer.take()
}

/// Makes a file piece by piece. Names must be written before the events that use them.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    events: u64,
}

impl Writer {
    /// Begins a file.
    pub fn new(head: &Head) -> Writer {
        let mut writer = Writer { out: MAGIC.to_vec(), events: 0 };
        let mut payload = vec![head.subject.number()];
        let Anchor { monotonic_us, realtime_us, boottime_us } = head.anchor;
        for clock in [monotonic_us, realtime_us, boottime_us] {
            payload.extend_from_slice(&clock.to_le_bytes());
        }
        for text in [&head.host, &head.kernel, &head.version] {
            put_text(&mut payload, text);
        }
        writer.block(kind::HEAD, 1, |out| out.extend_from_slice(&payload));
        writer
    }

    /// Adds names of units.
    pub fn units(&mut self, units: &[Unit]) {
        self.pieces(kind::UNITS, units, |payload, unit| {
            payload.extend_from_slice(&unit.id.to_le_bytes());
            payload.extend_from_slice(&unit.slice.to_le_bytes());
            put_text(payload, &unit.name);
        });
    }

    /// Adds texts of reason codes.
    pub fn reasons(&mut self, reasons: &[(u16, String)]) {
        self.pieces(kind::REASONS, reasons, |payload, (code, text)| {
            payload.extend_from_slice(&code.to_le_bytes());
            put_text(payload, text);
        });
    }

    /// Adds order between units: the first starts after the second.
    pub fn edges(&mut self, edges: &[(u32, u32)]) {
        for chunk in edges.chunks(BLOCK_EDGES_MAX) {
            self.block(kind::EDGES, chunk.len(), |out| {
                for (unit, after) in chunk {
                    out.extend_from_slice(&unit.to_le_bytes());
                    out.extend_from_slice(&after.to_le_bytes());
                }
            });
        }
    }

    /// Adds events.
    pub fn events(&mut self, events: &[Event]) {
        for chunk in events.chunks(BLOCK_EVENTS_MAX) {
            self.block(kind::EVENTS, chunk.len(), |out| {
                chunk.iter().for_each(|event| out.extend_from_slice(&event.to_bytes()));
            });
        }
        self.events += events.len() as u64;
    }

    /// Says that nothing is missing.
    pub fn end(&mut self) {
        let count = self.events.to_le_bytes();
        self.block(kind::END, 1, |out| out.extend_from_slice(&count));
    }

    /// The bytes since the last call: what is to be appended to the file.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The same without giving up the memory: the bytes, to be followed by [`Writer::clear`].
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Forgets the bytes that were appended.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    /// Blocks of so many items that none is too large.
    fn pieces<T>(&mut self, kind: u32, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
        for chunk in items.chunks(BLOCK_TEXTS_MAX) {
            self.block(kind, chunk.len(), |out| chunk.iter().for_each(|item| put(out, item)));
        }
    }

    /// A header, and the payload that `put` appends. The header is filled in when the payload is
    /// known, so that nothing is copied.
    fn block(&mut self, kind: u32, count: usize, put: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; BLOCK_HEADER_BYTES]);
        put(&mut self.out);
        let (header, payload) = self.out[start..].split_at_mut(BLOCK_HEADER_BYTES);
        debug_assert!(payload.len() <= BLOCK_BYTES_MAX);
        header[..4].copy_from_slice(&BLOCK_MAGIC);
        let sum = crc32fast::hash(payload);
        let fields = [kind, count as u32, payload.len() as u32, sum];
        for (slot, number) in header[4..20].chunks_mut(4).zip(fields) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32fast::hash(&header[..20]);
        header[20..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// A length in one byte and so many bytes; a longer text is cut at a character.
fn put_text(payload: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    payload.push(end as u8);
    payload.extend_from_slice(&text.as_bytes()[..end]);
}
