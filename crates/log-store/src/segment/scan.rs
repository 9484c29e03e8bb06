//! Walks the blocks of a file from its start: how a log is read, and a segment without its end.
//!
//! Blocks lie without gaps, so anything else between two of them is a loss; what to make of it
//! differs. In a segment, and in a log before the point that a later block knew to be on the
//! device, it is damage: what follows still counts. In a log after that point it is the torn end
//! of a crash: what follows does not count, so that a log always reads as a beginning of what
//! was written.

use std::ops::Range;

use crate::block::{BLOCK_HEADER_BYTES, Block, Header, Identity, Kind, SECTIONS, Section};
use crate::error::{Damage, Result};
use crate::files::File;
use crate::segment::layout::FILE_HEADER_BYTES;

/// Bytes read at once.
const WINDOW_BYTES: usize = 256 << 10;

/// What a walk found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walk {
    /// Blocks whose checksums hold, marks included, in order.
    pub blocks: Vec<Header>,
    /// Bytes that are no block, by offset.
    pub gaps: Vec<Range<u64>>,
    /// Where the last block ends; a later walk may go on from there.
    pub end: u64,
    /// Whose blocks these are.
    pub identity: Option<Identity>,
}

impl Walk {
    /// A walk that begins behind the file header.
    pub fn new(identity: Option<Identity>) -> Walk {
        Walk { end: FILE_HEADER_BYTES, identity, ..Walk::default() }
    }

    /// Goes on from where the last walk ended, to the end of the file.
    pub fn advance(&mut self, file: &dyn File) -> Result<()> {
        let mut window = Window { file, bytes: Vec::new(), start: 0, file_bytes: file.len()? };
        self.gaps.retain(|gap| gap.end <= self.end);
        let mut at = self.end;
        while at < window.file_bytes {
            if let Some(header) = self.block_at(&mut window, at)? {
                at = self.take(header);
                continue;
            }
            let next = self.search(&mut window, at + 1)?;
            self.gaps.push(at..next.map_or(window.file_bytes, |header| header.offset));
            match next {
                Some(header) => at = self.take(header),
                None => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, header: Header) -> u64 {
        self.identity = Some(header.identity);
        self.end = header.end();
        self.blocks.push(header);
        self.end
    }

    fn block_at(&self, window: &mut Window<'_>, offset: u64) -> Result<Option<Header>> {
        let Ok(header) = Header::parse(window.at(offset, BLOCK_HEADER_BYTES)?, offset) else {
            return Ok(None);
        };
        let ours = self.identity.is_none_or(|identity| identity == header.identity);
        let last = self.blocks.last().map_or(0, |block| block.last_seqnum);
        if !ours || header.first_seqnum < last || header.end() > window.file_bytes {
            return Ok(None);
        }
        let all = (header.end() - offset) as usize;
        let body = window.at(offset, all)?.get(BLOCK_HEADER_BYTES..all);
        Ok(body.filter(|body| verify(&header, body).is_ok()).map(|_| header))
    }

    fn search(&self, window: &mut Window<'_>, mut from: u64) -> Result<Option<Header>> {
        let magic = memchr::memmem::Finder::new(&crate::block::MAGIC);
        loop {
            let bytes = window.at(from, WINDOW_BYTES)?;
            if bytes.len() < BLOCK_HEADER_BYTES {
                return Ok(None);
            }
            // The last bytes are looked at again with what follows them.
            let searched = (bytes.len() - crate::block::MAGIC.len() + 1) as u64;
            match magic.find(bytes) {
                None => from += searched,
                Some(found) => {
                    let offset = from + found as u64;
                    if let Some(header) = self.block_at(window, offset)? {
                        return Ok(Some(header));
                    }
                    from = offset + 1;
                }
            }
        }
    }

    /// For a log: what counts of it.
    pub fn salvage(&self) -> Salvage {
        let durable = self.blocks.iter().map(|block| block.durable).max().unwrap_or(0);
        let torn = self.gaps.iter().find(|gap| gap.start >= durable);
        let end = torn.map_or(self.end, |gap| gap.start);
        let count = self.blocks.partition_point(|block| block.offset < end);
        let lost = self.gaps.iter().filter(|gap| gap.start < durable).cloned().collect();
        let closed = torn.is_none() && self.blocks.last().is_some_and(|b| b.kind == Kind::End);
        Salvage { count, end, lost, closed }
    }
}

/// The part of a log that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvage {
    /// How many of the walk's blocks.
    pub count: usize,
    /// Where they end, bytes.
    pub end: u64,
    /// Damage before that: bytes that were on the device and are not blocks any more.
    pub lost: Vec<Range<u64>>,
    /// The writer left in order: nothing can be missing at the end.
    pub closed: bool,
}

/// Proves the checksums of all sections without unpacking them.
fn verify(header: &Header, body: &[u8]) -> std::result::Result<(), Damage> {
    let sections: [Section; SECTIONS] = [Section::Rows, Section::Fields, Section::Text];
    for section in sections {
        let stored =
            body.get(header.section_range(section)).ok_or(Damage("a block is cut short"))?;
        if crc32fast::hash(stored) != header.sections[section as usize].crc {
            return Err(Damage("a section fails its checksum"));
        }
    }
    Ok(())
}

/// Reads one block of which the header is known.
pub fn read_block(file: &dyn File, name: &str, header: &Header) -> Result<Block> {
    let body = read_body(file, header)?;
    Block::open(*header, body).map_err(|Damage(what)| crate::error::Error::Damaged {
        name: name.to_owned(),
        offset: header.offset,
        what,
    })
}

/// Reads what follows a header; fewer bytes at the end of the file.
pub fn read_body(file: &dyn File, header: &Header) -> Result<Vec<u8>> {
    let mut body = vec![0; header.body_bytes() as usize];
    let count = file.read_at(&mut body, header.offset + BLOCK_HEADER_BYTES as u64)?;
    body.truncate(count);
    Ok(body)
}

/// A part of a file in memory that moves forward.
struct Window<'a> {
    file: &'a dyn File,
    bytes: Vec<u8>,
    start: u64,
    file_bytes: u64,
}

impl Window<'_> {
    /// Bytes from `offset`, so many or up to the end of the file.
    fn at(&mut self, offset: u64, count: usize) -> Result<&[u8]> {
        let left = self.file_bytes.saturating_sub(offset);
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        let have = offset.checked_sub(self.start).map(|skip| skip as usize);
        let inside = have.filter(|skip| skip + count <= self.bytes.len());
        let skip = match inside {
            Some(skip) => skip,
            None => {
                let wanted = (count.max(WINDOW_BYTES) as u64).min(left);
                self.bytes.resize(wanted as usize, 0);
                let read = self.file.read_at(&mut self.bytes, offset)?;
                self.bytes.truncate(read);
                self.start = offset;
                0
            }
        };
        let end = (skip + count).min(self.bytes.len());
        Ok(&self.bytes[skip..end])
    }
}
