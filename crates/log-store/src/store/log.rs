//! A log that is being written.
//!
//! Blocks go to the end, never over what is durable. Until a sync has come back, their bytes are
//! also kept in memory: a failed sync means that the kernel may have dropped them, so they are
//! written again before the next one. A mark before each sync fills the file up to a whole page, so
//! that the next blocks touch no page that was synced; one after it, when nothing came meanwhile,
//! says how far the file is durable. What came says it itself.
//!
//! A sync may be left to another thread ([`ActiveLog::begin_sync`]): what is appended meanwhile goes
//! behind what is being synced.

use std::sync::Arc;

use crate::block::{
    BLOCK_HEADER_BYTES, Block, Builder, Header, Identity, Kind, Section, SectionInfo,
};
use crate::entry::{Entry, Fields, Id128, Stamp};
use crate::error::{Error, Result};
use crate::files::{File, Files};
use crate::segment::layout::{FILE_HEADER_BYTES, FileHeader};
use crate::store::names::FileName;

/// A log is closed when its entries have so many bytes before compression.
pub const LOG_RAW_BYTES: u64 = 2 << 20;

/// A log is closed when the file has so many bytes.
pub const LOG_BYTES: u64 = 1 << 20;

/// A log is closed when it has so many entries.
pub const LOG_ENTRIES_MAX: usize = 1 << 16;

/// Most entries of a log that cannot be closed because the disk takes nothing.
pub const WAITING_ENTRIES_MAX: usize = 2 * LOG_ENTRIES_MAX;

/// A block is made of a batch that has so many bytes before compression.
const BATCH_RAW_BYTES: usize = 128 << 10;

/// Most bytes that wait for a sync to succeed; an entry of the largest size must fit.
const UNSYNCED_BYTES_MAX: usize = crate::block::SECTION_RAW_BYTES_MAX + (16 << 20);

/// What a mark fills up to, bytes.
const PAGE_BYTES: u64 = 4096;

/// A log that is being written.
pub struct ActiveLog {
    class: String,
    first: u64,
    identity: Identity,
    /// Made with the first write.
    file: Option<Arc<dyn File>>,
    builder: Builder,
    /// Everything behind `durable`, in the form of the file.
    unsynced: Vec<u8>,
    /// How much of `unsynced` was written since the last failure.
    written: usize,
    /// Bytes of the file that are on the device.
    durable: u64,
    raw_bytes: u64,
    entries: usize,
    last_seqnum: u64,
    /// More than a mark is not durable.
    news: bool,
    /// The last block is an end mark.
    ended: bool,
    /// Another thread makes the file durable up to here, and to the entry of this number.
    syncing: Option<(u64, u64)>,
    /// The number of the first entry that is not known to be durable.
    first_volatile: u64,
    /// The lowest number that was appended and is not in the file.
    unwritten: Option<u64>,
    /// When the first entry came, monotonic µs.
    begun_us: u64,
    /// [`Header::settled`] of the blocks to come, and of the last one.
    settled: u64,
    told: u64,
}

impl ActiveLog {
    /// An empty log; nothing is written yet.
    pub fn new(class: &str, first: u64, header: FileHeader) -> ActiveLog {
        ActiveLog {
            class: class.to_owned(),
            first,
            identity: header.identity,
            file: None,
            builder: Builder::default(),
            unsynced: header.to_bytes(),
            written: 0,
            durable: 0,
            raw_bytes: 0,
            entries: 0,
            last_seqnum: first,
            news: false,
            ended: false,
            syncing: None,
            first_volatile: first,
            unwritten: None,
            begun_us: 0,
            settled: 0,
            told: 0,
        }
    }

    /// Its class.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// Its file name.
    pub fn name(&self) -> FileName {
        FileName::Log { class: self.class.clone(), first: self.first }
    }

    /// To be sealed: long enough, or closing it failed before.
    pub fn is_full(&self) -> bool {
        self.ended
            || self.raw_bytes >= LOG_RAW_BYTES
            || self.position() >= LOG_BYTES
            || self.entries >= LOG_ENTRIES_MAX
    }

    /// A whole block waits to be written.
    pub fn has_block(&self) -> bool {
        self.unsynced.len() - self.written >= BATCH_RAW_BYTES / 2
    }

    /// Something was appended and not written.
    pub fn has_unwritten(&self) -> bool {
        !self.builder.is_empty() || self.written < self.unsynced.len()
    }

    /// The id in its header.
    pub fn id(&self) -> Id128 {
        self.identity.file
    }

    /// Bytes of the file once all of it but the batch is written.
    pub fn position(&self) -> u64 {
        self.durable + self.unsynced.len() as u64
    }

    /// Takes an entry into the batch.
    ///
    /// # Errors
    /// [`Error::Backlog`] when the disk has refused so much that there is no room.
    pub fn append(
        &mut self,
        seqnum: u64,
        stamp: &Stamp,
        context: &Arc<Fields>,
        fields: &Fields,
    ) -> Result<()> {
        let waiting = self.unsynced.len() + self.builder.raw_bytes();
        let more = fields.bytes_len() + context.bytes_len();
        if waiting + more > UNSYNCED_BYTES_MAX || self.entries >= WAITING_ENTRIES_MAX {
            return Err(Error::Backlog);
        }
        if self.builder.raw_bytes() + more > BATCH_RAW_BYTES || self.builder.is_full() {
            self.put_batch();
        }
        if self.entries == 0 {
            self.begun_us = stamp.monotonic_us;
        }
        self.builder.push(seqnum, stamp, context, fields);
        self.entries += 1;
        self.last_seqnum = seqnum;
        self.unwritten.get_or_insert(seqnum);
        Ok(())
    }

    /// Closes the batch: a block of it waits to be written.
    pub fn put_batch(&mut self) {
        if self.builder.is_empty() {
            return;
        }
        let (at, known) = (self.position(), (self.durable, self.settled));
        let header = self.builder.finish(&mut self.unsynced, self.identity, at, known);
        self.told = self.settled;
        self.raw_bytes += header.raw_bytes();
        self.news = true;
        self.ended = false;
    }

    /// Writes what waits; makes the file first if need be.
    pub fn flush(&mut self, files: &dyn Files, directory_dirty: &mut bool) -> Result<()> {
        self.put_batch();
        if self.file.is_none() {
            let file = files.create(&self.name().to_string())?;
            *directory_dirty = true;
            self.file = Some(Arc::from(file));
        }
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if self.written < self.unsynced.len() {
            file.write_at(&self.unsynced[self.written..], self.durable + self.written as u64)?;
            self.written = self.unsynced.len();
        }
        if self.builder.is_empty() {
            self.unwritten = None;
        }
        Ok(())
    }

    /// The lowest number that was appended and is not in the file.
    pub fn unwritten(&self) -> Option<u64> {
        self.unwritten
    }

    /// When the first entry came, monotonic µs.
    pub fn begun_us(&self) -> u64 {
        self.begun_us
    }

    /// What blocks to come say: below this number everything is in a file when they are.
    pub fn settle(&mut self, settled: u64) {
        self.settled = settled;
    }

    /// What the last block says of it.
    pub fn told_settled(&self) -> u64 {
        self.told
    }

    /// Writes a mark that says how far everything is in a file.
    pub fn tell_settled(&mut self) -> Result<()> {
        self.put_mark(Kind::Mark);
        self.write()
    }

    /// More comes than the disk can be waited for without end.
    pub fn is_crowded(&self) -> bool {
        self.entries > LOG_ENTRIES_MAX + LOG_ENTRIES_MAX / 2
    }

    /// Makes what was written durable, and marks it. Callers flush first and sync the directory.
    ///
    /// # Panics
    /// While another thread is at it: it may get the error that was ours.
    pub fn sync(&mut self) -> Result<()> {
        assert!(self.syncing.is_none(), "callers wait for the other thread");
        let Some(file) = &self.file else { return Ok(()) };
        if !self.news {
            return Ok(());
        }
        let synced = file.sync();
        self.syncing = Some((self.position(), self.last_seqnum));
        self.news = false;
        self.end_sync(synced)
    }

    /// What another thread is to sync; `None` when nothing is to be done or it is at it. Callers
    /// flush first, and sync the directory before the file.
    pub fn begin_sync(&mut self) -> Result<Option<Arc<dyn File>>> {
        if self.syncing.is_some() || !self.news {
            return Ok(None);
        }
        // A mark has the number of the last entry.
        self.put_batch();
        if !self.ended && !self.position().is_multiple_of(PAGE_BYTES) {
            self.put_mark(Kind::Mark);
        }
        self.write()?;
        let Some(file) = &self.file else { return Ok(None) };
        self.syncing = Some((self.position(), self.last_seqnum));
        self.news = false;
        Ok(Some(file.clone()))
    }

    /// Takes what came of a sync.
    ///
    /// # Errors
    /// Its own: everything since the last one is written again with the next flush.
    pub fn end_sync(&mut self, synced: Result<()>) -> Result<()> {
        let Some((end, last)) = self.syncing.take() else { return synced };
        if let Err(e) = synced {
            (self.written, self.news) = (0, true);
            self.unwritten = Some(self.first_volatile);
            return Err(e);
        }
        self.first_volatile = last + 1;
        let count = (end - self.durable) as usize;
        self.unsynced.drain(..count);
        self.written -= count;
        self.durable = end;
        if !self.ended && self.unsynced.is_empty() && self.builder.is_empty() {
            self.put_mark(Kind::Mark);
            // A mark that cannot be written now is written with the next batch.
            let _ = self.write();
        }
        Ok(())
    }

    /// Bytes of the file that are on the device.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// The entries that are not known to be on the device, in order.
    ///
    /// # Panics
    /// Never: the blocks were made here.
    pub fn volatile(&mut self) -> Vec<Entry> {
        self.put_batch();
        let mut entries = Vec::new();
        let mut at = if self.durable == 0 { FILE_HEADER_BYTES as usize } else { 0 };
        while at < self.unsynced.len() {
            let (bytes, offset) = (&self.unsynced[at..], self.durable + at as u64);
            let header = Header::parse(bytes, offset).expect("it was made here");
            if header.kind == Kind::Entries {
                let block = Block::parse(bytes, offset).expect("it was made here");
                let rows = 0..block.rows().len();
                entries.extend(rows.map(|row| block.entry(row).expect("it was made here")));
            }
            at = (header.end() - self.durable) as usize;
        }
        entries
    }

    /// All that was appended is on the device, and the log has ended.
    pub fn is_closed(&self) -> bool {
        self.ended && self.unsynced.is_empty() && self.builder.is_empty()
    }

    /// Bytes in memory that are not on the device.
    pub fn waiting_bytes(&self) -> usize {
        self.unsynced.len() + self.builder.raw_bytes()
    }

    /// Ends the log, for now: should closing fail, more may be appended.
    pub fn put_end(&mut self) {
        self.put_batch();
        if !self.ended {
            self.put_mark(Kind::End);
            self.ended = true;
            self.news = true;
        }
    }

    fn put_mark(&mut self, kind: Kind) {
        assert!(self.builder.is_empty(), "numbers rise from block to block");
        let offset = self.position();
        let filled = (offset + BLOCK_HEADER_BYTES as u64).next_multiple_of(PAGE_BYTES);
        let fill = (filled - offset) as usize - BLOCK_HEADER_BYTES;
        let zeros = vec![0; fill];
        let mut sections = [SectionInfo::default(); 3];
        let crc = crc32fast::hash(&zeros);
        let bytes = fill as u32;
        sections[Section::Text as usize] = SectionInfo { stored: bytes, raw: bytes, crc };
        let header = Header {
            identity: self.identity,
            offset,
            first_seqnum: self.last_seqnum,
            last_seqnum: self.last_seqnum,
            realtime_min_us: 0,
            realtime_max_us: 0,
            durable: self.durable,
            settled: self.settled,
            count: 0,
            kind,
            sections,
        };
        self.told = self.settled;
        self.unsynced.extend_from_slice(&header.to_bytes());
        self.unsynced.extend_from_slice(&zeros);
    }
}
