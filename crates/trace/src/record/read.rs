//! From bytes to a recording: everything that is whole, and what was not.
//!
//! A damaged payload costs its block. A damaged block header ends the reading, because nothing
//! says where the next block begins; so does the end of the bytes.

use std::collections::BTreeMap;
use std::fmt;

use super::{
    Anchor, BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BLOCK_MAGIC, EDGES_MAX, EVENTS_MAX, Head, MAGIC,
    Recording, UNITS_MAX, Unit, kind,
};
use crate::event::{EVENT_BYTES, Event};
use crate::words::Subject;

/// Why nothing at all can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// It does not begin as a recording does.
    NotARecording,
    /// It is a recording in a form that another version writes.
    OtherVersion,
    /// The block that says what it is of is damaged or missing.
    NoHead,
    /// It is of something that this version does not know.
    UnknownSubject,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadError::NotARecording => "not a recording",
            ReadError::OtherVersion => {
                "a recording of another version of Warrener, in an unknown format"
            }
            ReadError::NoHead => "the recording's first block is damaged or missing",
            ReadError::UnknownSubject => "an unknown kind of recording",
        })
    }
}

impl std::error::Error for ReadError {}

/// What could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// The file ends, or becomes unreadable, before its end mark.
    pub cut: bool,
    /// Blocks whose content does not match its checksum, or makes no sense.
    pub blocks: u32,
    /// Names or events beyond the bounds were left out.
    pub too_many: bool,
}

/// Takes out of `bytes` what is whole.
///
/// # Errors
/// When the bytes are not a recording, or too little of one to say what it is of.
pub fn read(bytes: &[u8]) -> Result<(Recording, Damage), ReadError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or_else(|| not_ours(bytes))?;
    let (first, rest) = block(rest).ok_or(ReadError::NoHead)?;
    if first.kind != kind::HEAD {
        return Err(ReadError::NoHead);
    }
    let mut payload = first.payload.ok_or(ReadError::NoHead)?;
    let head = head(&mut payload).ok_or(ReadError::NoHead)??;
    let mut reader = Reader { recording: empty(head), ..Reader::default() };
    reader.blocks(rest);
    Ok(reader.finish())
}

/// What begins otherwise: the last byte of the magic is the version of the form.
fn not_ours(bytes: &[u8]) -> ReadError {
    let (name, version) = MAGIC.split_at(MAGIC.len() - 1);
    let version_at = bytes.strip_prefix(name).and_then(|rest| rest.first());
    match version_at {
        Some(other) if *other != version[0] => ReadError::OtherVersion,
        _ => ReadError::NotARecording,
    }
}

fn empty(head: Head) -> Recording {
    let (units, reasons, edges, events) = Default::default();
    Recording { head, units, reasons, edges, events }
}

/// A block; the payload is missing when its checksum is wrong.
struct Block<'a> {
    kind: u32,
    count: usize,
    payload: Option<&'a [u8]>,
}

/// The first block of `bytes` and what follows it; `None` where no whole block is.
fn block(bytes: &[u8]) -> Option<(Block<'_>, &[u8])> {
    let (header, rest) = bytes.split_at_checked(BLOCK_HEADER_BYTES)?;
    let mut fields = header.strip_prefix(&BLOCK_MAGIC)?;
    let kind = u32_of(&mut fields)?;
    let count = u32_of(&mut fields)? as usize;
    let length = u32_of(&mut fields)? as usize;
    let sum = u32_of(&mut fields)?;
    let header_sum = u32_of(&mut fields)?;
    if crc32fast::hash(&header[..BLOCK_HEADER_BYTES - 4]) != header_sum || length > BLOCK_BYTES_MAX
    {
        return None;
    }
    let (payload, rest) = rest.split_at_checked(length)?;
    let payload = (crc32fast::hash(payload) == sum).then_some(payload);
    Some((Block { kind, count, payload }, rest))
}

/// What was gathered so far. A name that comes twice counts as it came last.
struct Reader {
    recording: Recording,
    units: BTreeMap<u32, Unit>,
    reasons: BTreeMap<u16, String>,
    damage: Damage,
}

impl Default for Reader {
    fn default() -> Reader {
        let (host, kernel, version) = Default::default();
        let head =
            Head { subject: Subject::Live, anchor: Anchor::default(), host, kernel, version };
        let (units, reasons) = Default::default();
        Reader { recording: empty(head), units, reasons, damage: Damage::default() }
    }
}

impl Reader {
    fn blocks(&mut self, mut bytes: &[u8]) {
        self.damage.cut = true;
        while let Some((block, rest)) = block(bytes) {
            bytes = rest;
            if block.kind == kind::END {
                self.damage.cut = false;
                return;
            }
            let understood = block.payload.and_then(|payload| self.block(&block, payload));
            if understood.is_none() {
                self.damage.blocks += 1;
            }
        }
    }

    /// Takes one block in; `None` when it makes no sense.
    fn block(&mut self, block: &Block<'_>, mut payload: &[u8]) -> Option<()> {
        match block.kind {
            kind::UNITS => (0..block.count).try_for_each(|_| self.unit(&mut payload)),
            kind::REASONS => (0..block.count).try_for_each(|_| self.reason(&mut payload)),
            kind::EDGES => (0..block.count).try_for_each(|_| self.edge(&mut payload)),
            kind::EVENTS => (0..block.count).try_for_each(|_| self.event(&mut payload)),
            _ => Some(()),
        }
    }

    fn unit(&mut self, payload: &mut &[u8]) -> Option<()> {
        let id = u32_of(payload)?;
        let slice = u32_of(payload)?;
        let unit = Unit { id, slice, name: text_of(payload)? };
        if self.units.len() < UNITS_MAX || self.units.contains_key(&id) {
            self.units.insert(id, unit);
        } else {
            self.damage.too_many = true;
        }
        Some(())
    }

    fn reason(&mut self, payload: &mut &[u8]) -> Option<()> {
        let code = u16::from_le_bytes(*take::<2>(payload)?);
        self.reasons.insert(code, text_of(payload)?);
        Some(())
    }

    fn edge(&mut self, payload: &mut &[u8]) -> Option<()> {
        let edge = (u32_of(payload)?, u32_of(payload)?);
        if self.recording.edges.len() < EDGES_MAX {
            self.recording.edges.push(edge);
        } else {
            self.damage.too_many = true;
        }
        Some(())
    }

    fn event(&mut self, payload: &mut &[u8]) -> Option<()> {
        let event = Event::from_bytes(take::<EVENT_BYTES>(payload)?);
        if self.recording.events.len() < EVENTS_MAX {
            self.recording.events.push(event);
        } else {
            self.damage.too_many = true;
        }
        Some(())
    }

    fn finish(self) -> (Recording, Damage) {
        let Reader { mut recording, units, reasons, damage } = self;
        recording.units = units.into_values().collect();
        recording.reasons = reasons.into_iter().collect();
        (recording, damage)
    }
}

/// The outer `None`: too short. The inner error: of an unknown subject.
fn head(payload: &mut &[u8]) -> Option<Result<Head, ReadError>> {
    let [subject] = *take::<1>(payload)?;
    let anchor = Anchor {
        monotonic_us: u64_of(payload)?,
        realtime_us: u64_of(payload)?,
        boottime_us: u64_of(payload)?,
    };
    let (host, kernel, version) = (text_of(payload)?, text_of(payload)?, text_of(payload)?);
    let subject = Subject::from_number(subject).ok_or(ReadError::UnknownSubject);
    Some(subject.map(|subject| Head { subject, anchor, host, kernel, version }))
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

fn u32_of(bytes: &mut &[u8]) -> Option<u32> {
    take::<4>(bytes).map(|four| u32::from_le_bytes(*four))
}

fn u64_of(bytes: &mut &[u8]) -> Option<u64> {
    take::<8>(bytes).map(|eight| u64::from_le_bytes(*eight))
}

/// A length in one byte and so many bytes of UTF-8; what is not UTF-8 is shown as such.
fn text_of(bytes: &mut &[u8]) -> Option<String> {
    let [length] = *take::<1>(bytes)?;
    let (text, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}
