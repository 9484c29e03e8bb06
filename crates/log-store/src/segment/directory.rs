//! The directory of a segment: where its blocks, its index chunks and its text filters are.

use crate::block::{BLOCK_ENTRIES_MAX, BLOCK_HEADER_BYTES, Header};
use crate::bytes::{Input, put_bytes, put_delta, put_varint};
use crate::entry::Id128;
use crate::error::Damage;
use crate::segment::index::FieldIndex;
use crate::segment::layout::Place;

/// One block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// Where its header begins, bytes from the start of the file.
    pub offset: u64,
    /// Header and body, bytes.
    pub bytes: u64,
    /// First sequence number.
    pub first_seqnum: u64,
    /// Last sequence number.
    pub last_seqnum: u64,
    /// Earliest wall clock, µs.
    pub realtime_min_us: u64,
    /// Latest wall clock, µs.
    pub realtime_max_us: u64,
    /// Entries.
    pub count: u32,
}

impl From<&Header> for BlockPlace {
    fn from(header: &Header) -> BlockPlace {
        BlockPlace {
            offset: header.offset,
            bytes: BLOCK_HEADER_BYTES as u64 + header.body_bytes(),
            first_seqnum: header.first_seqnum,
            last_seqnum: header.last_seqnum,
            realtime_min_us: header.realtime_min_us,
            realtime_max_us: header.realtime_max_us,
            count: header.count,
        }
    }
}

/// A boot and when it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootSpan {
    /// Its id.
    pub boot: Id128,
    /// Earliest wall clock of an entry, µs.
    pub realtime_min_us: u64,
    /// Latest wall clock of an entry, µs.
    pub realtime_max_us: u64,
    /// First sequence number of a block that has an entry of it.
    pub first_seqnum: u64,
}

impl BootSpan {
    /// Adds a span to a list that has each boot once.
    pub fn join(all: &mut Vec<BootSpan>, new: BootSpan) {
        match all.iter_mut().find(|span| span.boot == new.boot) {
            Some(span) => {
                span.realtime_min_us = span.realtime_min_us.min(new.realtime_min_us);
                span.realtime_max_us = span.realtime_max_us.max(new.realtime_max_us);
                span.first_seqnum = span.first_seqnum.min(new.first_seqnum);
            }
            None => all.push(new),
        }
    }
}

/// Everything that is known about a segment without reading its blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directory {
    /// Blocks in order.
    pub blocks: Vec<BlockPlace>,
    /// Boots in order of first appearance.
    pub boots: Vec<BootSpan>,
    /// Fields by name, all that occur.
    pub fields: Vec<FieldIndex>,
    /// The text filters of all blocks.
    pub filters: Place,
}

impl Directory {
    /// The directory before packing.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.blocks.len() as u64);
        let mut end = 0;
        for block in &self.blocks {
            put_varint(&mut out, block.offset - end);
            put_varint(&mut out, block.bytes);
            put_varint(&mut out, block.first_seqnum);
            put_varint(&mut out, block.last_seqnum - block.first_seqnum);
            put_varint(&mut out, block.realtime_min_us);
            put_delta(&mut out, block.realtime_max_us, block.realtime_min_us);
            put_varint(&mut out, u64::from(block.count));
            end = block.offset + block.bytes;
        }
        put_varint(&mut out, self.boots.len() as u64);
        for boot in &self.boots {
            out.extend_from_slice(&boot.boot.0);
            put_varint(&mut out, boot.realtime_min_us);
            put_varint(&mut out, boot.realtime_max_us);
            put_varint(&mut out, boot.first_seqnum);
        }
        put_varint(&mut out, self.fields.len() as u64);
        for field in &self.fields {
            put_bytes(&mut out, &field.name);
            field.put(&mut out);
        }
        self.filters.put(&mut out);
        out
    }

    /// Reads a directory of a segment of so many bytes.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<Directory, Damage> {
        let mut input = Input::new(bytes);
        let blocks = read_blocks(&mut input, file_bytes)?;
        let boots = (0..input.count()?).map(|_| read_boot(&mut input)).collect::<Result<_, _>>()?;
        let count = input.count()?;
        let fields = (0..count)
            .map(|_| FieldIndex::read(&mut input, blocks.len()))
            .collect::<Result<Vec<_>, _>>()?;
        if !fields.is_sorted_by(|a, b| a.name < b.name) {
            return Err(Damage("fields out of order"));
        }
        Ok(Directory { blocks, boots, fields, filters: Place::read(&mut input)? })
    }

    /// The index of a field, by name; `None` when no entry of the segment has it.
    pub fn field(&self, name: &[u8]) -> Option<&FieldIndex> {
        let at = self.fields.binary_search_by(|field| (*field.name).cmp(name)).ok()?;
        self.fields.get(at)
    }
}

fn read_boot(input: &mut Input<'_>) -> Result<BootSpan, Damage> {
    Ok(BootSpan {
        boot: Id128(input.array()?),
        realtime_min_us: input.varint()?,
        realtime_max_us: input.varint()?,
        first_seqnum: input.varint()?,
    })
}

fn read_blocks(input: &mut Input<'_>, file_bytes: u64) -> Result<Vec<BlockPlace>, Damage> {
    let (mut blocks, mut end, mut last) = (Vec::new(), 0u64, 0u64);
    for _ in 0..input.count()? {
        let offset = end.checked_add(input.varint()?);
        let (bytes, first_seqnum) = (input.varint()?, input.varint()?);
        let last_seqnum = first_seqnum.checked_add(input.varint()?);
        let realtime_min_us = input.varint()?;
        let realtime_max_us = input.delta(realtime_min_us)?;
        let count = input.bounded(BLOCK_ENTRIES_MAX)? as u32;
        let (Some(offset), Some(last_seqnum)) = (offset, last_seqnum) else {
            return Err(Damage("a block lies beyond the end"));
        };
        match offset.checked_add(bytes) {
            Some(block_end) if block_end <= file_bytes => end = block_end,
            _ => return Err(Damage("a block lies beyond the end")),
        }
        if first_seqnum <= last && !blocks.is_empty() {
            return Err(Damage("blocks out of order"));
        }
        last = last_seqnum;
        blocks.push(BlockPlace {
            offset,
            bytes,
            first_seqnum,
            last_seqnum,
            realtime_min_us,
            realtime_max_us,
            count,
        });
    }
    Ok(blocks)
}
