//! From a recording to bytes.
//!
//! [`write`] makes a whole file. [`Writer`] makes it piece by piece, for a recording that is
//! written while things still happen (the shutdown's): what was handed out so far can always be
//! read.

use super::{
    Anchor, BLOCK_BYTES_MAX, BLOCK_EVENTS_MAX, BLOCK_MAGIC, Head, MAGIC, Recording, TEXT_BYTES_MAX,
    Unit, kind,
};
use crate::event::{EVENT_BYTES, Event};

/// Edges of one block.
const BLOCK_EDGES_MAX: usize = 8192;

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
        writer.block(kind::HEAD, 1, &payload);
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
            let pairs = chunk.iter().flat_map(|(unit, after)| [*unit, *after]);
            let payload: Vec<u8> = pairs.flat_map(u32::to_le_bytes).collect();
            self.block(kind::EDGES, chunk.len(), &payload);
        }
    }

    /// Adds events.
    pub fn events(&mut self, events: &[Event]) {
        for chunk in events.chunks(BLOCK_EVENTS_MAX) {
            let mut payload = Vec::with_capacity(chunk.len() * EVENT_BYTES);
            chunk.iter().for_each(|event| payload.extend_from_slice(&event.to_bytes()));
            self.block(kind::EVENTS, chunk.len(), &payload);
        }
        self.events += events.len() as u64;
    }

    /// Says that nothing is missing.
    pub fn end(&mut self) {
        let payload = self.events.to_le_bytes();
        self.block(kind::END, 1, &payload);
    }

    /// The bytes since the last call: what is to be appended to the file.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Blocks of as many items as go into one.
    fn pieces<T>(&mut self, kind: u32, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
        let (mut payload, mut count) = (Vec::new(), 0);
        for item in items {
            put(&mut payload, item);
            count += 1;
            if payload.len() > BLOCK_BYTES_MAX / 64 {
                self.block(kind, count, &payload);
                (payload, count) = (Vec::new(), 0);
            }
        }
        if count > 0 {
            self.block(kind, count, &payload);
        }
    }

    fn block(&mut self, kind: u32, count: usize, payload: &[u8]) {
        let start = self.out.len();
        self.out.extend_from_slice(&BLOCK_MAGIC);
        let sum = crc32fast::hash(payload);
        for number in [kind, count as u32, payload.len() as u32, sum] {
            self.out.extend_from_slice(&number.to_le_bytes());
        }
        let sum = crc32fast::hash(&self.out[start..]);
        self.out.extend_from_slice(&sum.to_le_bytes());
        self.out.extend_from_slice(payload);
    }
}

/// A length in one byte and so many bytes; a longer text is cut at a character.
fn put_text(payload: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    payload.push(end as u8);
    payload.extend_from_slice(&text.as_bytes()[..end]);
}
