//! Writes a segment from front to back, under a temporary name.

use std::sync::Arc;

use crate::block::{Block, Builder, Header, Identity, Kind, TEXT_FIELD};
use crate::entry::{Fields, Stamp};
use crate::error::{Damage, Error, Result};
use crate::files::{File, Files};
use crate::segment::directory::{BlockPlace, BootSpan, Directory};
use crate::segment::index::{Coverage, IndexBuilder};
use crate::segment::layout::{FileHeader, Place, Trailer};
use crate::segment::read::Segment;
use crate::segment::trigram::put_filter;

/// A block is closed when it has so many bytes before compression.
pub const BLOCK_RAW_BYTES: usize = 256 << 10;

/// Bytes collected before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// A segment that is being written.
pub struct SegmentWriter {
    file: Box<dyn File>,
    identity: Identity,
    /// Not written yet; begins at `written` in the file.
    pending: Vec<u8>,
    written: u64,
    raw_bytes: u64,
    builder: Builder,
    index: IndexBuilder,
    filters: Vec<u8>,
    directory: Directory,
}

impl SegmentWriter {
    /// Creates the file and its header.
    pub fn create(files: &dyn Files, name: &str, header: &FileHeader) -> Result<SegmentWriter> {
        Ok(SegmentWriter {
            file: files.create(name)?,
            identity: header.identity,
            pending: header.to_bytes(),
            written: 0,
            raw_bytes: 0,
            builder: Builder::default(),
            index: IndexBuilder::default(),
            filters: Vec::new(),
            directory: Directory::default(),
        })
    }

    /// Adds an entry. Sequence numbers must rise.
    pub fn push(
        &mut self,
        seqnum: u64,
        stamp: &Stamp,
        context: &Arc<Fields>,
        fields: &Fields,
    ) -> Result<()> {
        let more = fields.bytes_len();
        if self.builder.is_full()
            || (!self.builder.is_empty() && self.builder.raw_bytes() + more > BLOCK_RAW_BYTES)
        {
            self.close_block()?;
        }
        self.builder.push(seqnum, stamp, context, fields);
        Ok(())
    }

    /// Adds all entries of a block that was read from the file of that name; `shift` is added to
    /// their sequence numbers.
    pub fn push_block(&mut self, block: &Block, name: &str, shift: u64) -> Result<()> {
        let damaged = |Damage(what)| {
            let offset = block.header().offset;
            Error::Damaged { name: name.to_owned(), offset, what }
        };
        block.check().map_err(damaged)?;
        let mut fields = Fields::new();
        for (at, row) in block.rows().iter().enumerate() {
            fields.clear();
            block.each_field(at, |name, value| fields.push(name, value)).map_err(damaged)?;
            let context = &block.contexts()[row.context as usize];
            self.push(row.seqnum.wrapping_add(shift), &block.stamp(row), context, &fields)?;
        }
        Ok(())
    }

    fn close_block(&mut self) -> Result<()> {
        if self.builder.is_empty() {
            return Ok(());
        }
        let number = self.directory.blocks.len() as u32;
        self.note_values(number);
        put_filter(&mut self.filters, self.builder.text());
        let first_seqnum = self.builder.first_seqnum();
        for (boot, realtime_min_us, realtime_max_us) in self.builder.boots() {
            let span = BootSpan { boot, realtime_min_us, realtime_max_us, first_seqnum };
            BootSpan::join(&mut self.directory.boots, span);
        }
        let offset = self.position();
        let header = self.builder.finish(&mut self.pending, self.identity, offset, (0, 0));
        self.note_block(&header);
        self.write_if(WRITE_BYTES)
    }

    fn note_values(&mut self, number: u32) {
        let index = &mut self.index;
        if self.builder.has_text() {
            index.add_coverage(TEXT_FIELD, Coverage::Nothing);
        }
        self.builder.each_value(|name, value| index.add(name, value, number));
        for context in self.builder.contexts() {
            context.iter().for_each(|(name, value)| index.add(name, value, number));
        }
    }

    fn note_block(&mut self, header: &Header) {
        self.directory.blocks.push(BlockPlace::from(header));
        self.raw_bytes += header.raw_bytes();
    }

    /// True when nothing was added.
    pub fn is_empty(&self) -> bool {
        self.builder.is_empty() && self.directory.blocks.is_empty()
    }

    fn position(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    fn write_if(&mut self, bytes_min: usize) -> Result<()> {
        if self.pending.len() >= bytes_min {
            self.file.write_at(&self.pending, self.written)?;
            self.written += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }

    /// Adds a whole segment: its blocks as they are, its index and filters joined to ours. `shift` is
    /// added to all sequence numbers, which a block has in its header alone.
    ///
    /// # Errors
    /// Of the source too: nothing was lost, the caller throws the temporary file away.
    pub fn append_segment(&mut self, source: &Segment, shift: u64) -> Result<()> {
        self.close_block()?;
        let base = self.directory.blocks.len() as u32;
        source.each_index_value(|name, value, block| self.index.add(name, value, base + block))?;
        for field in &source.directory().fields {
            self.index.add_coverage(&field.name, field.coverage);
        }
        self.filters.extend_from_slice(source.filters()?.as_bytes());
        for span in &source.directory().boots {
            let first_seqnum = span.first_seqnum.wrapping_add(shift);
            BootSpan::join(&mut self.directory.boots, BootSpan { first_seqnum, ..*span });
        }
        for at in 0..source.directory().blocks.len() {
            let (header, body) = source.stored_block(at)?;
            let identity = self.identity;
            let header = Header {
                identity,
                offset: self.position(),
                kind: Kind::Entries,
                first_seqnum: header.first_seqnum.wrapping_add(shift),
                last_seqnum: header.last_seqnum.wrapping_add(shift),
                ..header
            };
            self.pending.extend_from_slice(&header.to_bytes());
            self.pending.extend_from_slice(&body);
            self.note_block(&header);
            self.write_if(WRITE_BYTES)?;
        }
        Ok(())
    }

    /// Writes index, filters, directory and trailer, and comes back when all is on the device.
    ///
    /// # Panics
    /// If there was no entry.
    pub fn finish(mut self) -> Result<Finished> {
        self.close_block()?;
        let blocks = &self.directory.blocks;
        let first = blocks.first().expect("a segment has entries").first_seqnum;
        let last = blocks.last().expect("a segment has entries").last_seqnum;
        let offset = self.position();
        self.directory.fields = std::mem::take(&mut self.index).finish(offset, &mut self.pending);
        let offset = self.position();
        self.directory.filters = Place::pack(&self.filters, offset, &mut self.pending);
        let offset = self.position();
        let directory = Place::pack(&self.directory.to_bytes(), offset, &mut self.pending);
        let file_bytes = self.position() + crate::segment::layout::TRAILER_BYTES as u64;
        let (identity, raw_bytes) = (self.identity, self.raw_bytes);
        let trailer = Trailer { identity, directory, file_bytes, raw_bytes };
        self.pending.extend_from_slice(&trailer.to_bytes());
        self.write_if(1)?;
        self.file.sync()?;
        Ok(Finished { first_seqnum: first, last_seqnum: last, file_bytes, raw_bytes })
    }
}

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// First sequence number.
    pub first_seqnum: u64,
    /// Last sequence number.
    pub last_seqnum: u64,
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of its blocks before compression, bytes.
    pub raw_bytes: u64,
}
