//! Opens a segment: usually one read, and whatever is left of one that is damaged.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::block::{BLOCK_HEADER_BYTES, Block, Header, Identity, Kind, Section};
use crate::entry::Id128;
use crate::error::{Damage, Error, Result};
use crate::files::{File, Files};
use crate::segment::directory::{BlockPlace, Directory};
use crate::segment::index::{self, Coverage, Lookup};
use crate::segment::layout::{FILE_HEADER_BYTES, FileHeader, Place, Trailer};
use crate::segment::scan::Walk;
use crate::segment::trigram::Filters;

/// Bytes read from the end at first: a trailer and nearly every directory.
const TAIL_BYTES: u64 = 16 << 10;

/// In what state a segment was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Trailer and directory are as written.
    Whole,
    /// They are not; the blocks were found by walking. There is no index.
    Rebuilt {
        /// What is wrong with the end of the file.
        why: Damage,
        /// Bytes between and behind the blocks; the last may be what was left of the index.
        gaps: Vec<Range<u64>>,
    },
}

/// An open segment.
pub struct Segment {
    name: String,
    file: Arc<dyn File>,
    directory: Directory,
    health: Health,
    identity: Identity,
    raw_bytes: u64,
    file_bytes: u64,
    filters: OnceLock<Filters>,
}

impl Segment {
    /// Opens a segment by its file name.
    pub fn open(files: &dyn Files, name: &str) -> Result<Segment> {
        Segment::read(Arc::from(files.open(name)?), name)
    }

    /// Reads the end of an open file.
    pub fn read(file: Arc<dyn File>, name: &str) -> Result<Segment> {
        let file_bytes = file.len()?;
        let found = match read_end(&*file, name, file_bytes)? {
            Ok((directory, trailer)) => {
                (directory, trailer.raw_bytes, trailer.identity, Health::Whole)
            }
            Err(why) => rebuild(&*file, name, why)?,
        };
        let (directory, raw_bytes, identity, health) = found;
        let (name, filters) = (name.to_owned(), OnceLock::new());
        Ok(Segment { name, file, directory, health, identity, raw_bytes, file_bytes, filters })
    }

    /// File name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where everything is.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// In what state it was found.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Id of the sequence that its numbers count in.
    pub fn sequence(&self) -> Id128 {
        self.identity.sequence
    }

    /// Bytes of all blocks before compression.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Size of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Reads and opens a block by its number: one read.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn block(&self, number: usize) -> Result<Block> {
        let (header, body) = self.stored_block(number)?;
        Block::open(header, body).map_err(|damage| self.damaged(header.offset, damage))
    }

    /// Reads a block without unpacking it.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn stored_block(&self, number: usize) -> Result<(Header, Vec<u8>)> {
        let place = self.directory.blocks[number];
        let mut bytes = vec![0; place.bytes as usize];
        let count = self.file.read_at(&mut bytes, place.offset)?;
        let header = Header::parse(&bytes[..count], place.offset)
            .and_then(|header| match self.owns(&header, &place) && count == bytes.len() {
                true => Ok(header),
                false => Err(Damage("the block does not match the directory")),
            })
            .map_err(|damage| self.damaged(place.offset, damage))?;
        bytes.drain(..BLOCK_HEADER_BYTES);
        Ok((header, bytes))
    }

    fn owns(&self, header: &Header, place: &BlockPlace) -> bool {
        header.identity == self.identity && BlockPlace::from(header) == *place
    }

    fn damaged(&self, offset: u64, Damage(what): Damage) -> Error {
        Error::Damaged { name: self.name.clone(), offset, what }
    }

    fn read_place(&self, place: &Place) -> Result<Vec<u8>> {
        read_place(&*self.file, place, self.file_bytes)?
            .map_err(|damage| self.damaged(place.offset, damage))
    }

    /// The blocks that have a value: `None` when the index cannot say.
    pub fn blocks_with(&self, name: &[u8], value: &[u8]) -> Result<Option<Vec<u32>>> {
        if self.health != Health::Whole {
            return Ok(None);
        }
        let chunk = match self.directory.field(name).map(|field| field.lookup(value)) {
            None | Some(Lookup::Absent) => return Ok(Some(Vec::new())),
            Some(Lookup::Unknown) => return Ok(None),
            Some(Lookup::In(chunk)) => chunk,
        };
        let raw = match self.read_place(&chunk.place) {
            Ok(raw) => raw,
            Err(Error::Damaged { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut found = Vec::new();
        let read = index::each_value(&raw, self.directory.blocks.len(), |known, blocks| {
            if known == value {
                found.extend_from_slice(blocks);
            }
        });
        Ok(read.is_ok().then_some(found))
    }

    /// Every different value of a field: `None` when the index does not have them all.
    pub fn values(&self, name: &[u8], mut each: impl FnMut(&[u8])) -> Result<Option<()>> {
        if self.health != Health::Whole {
            return Ok(None);
        }
        let Some(field) = self.directory.field(name) else { return Ok(Some(())) };
        if field.coverage != Coverage::All {
            return Ok(None);
        }
        for chunk in &field.chunks {
            let Ok(raw) = self.read_place(&chunk.place) else { return Ok(None) };
            let blocks = self.directory.blocks.len();
            if index::each_value(&raw, blocks, |value, _| each(value)).is_err() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Everything in the index: name, value, block.
    pub fn each_index_value(&self, mut each: impl FnMut(&[u8], &[u8], u32)) -> Result<()> {
        let blocks = self.directory.blocks.len();
        for field in &self.directory.fields {
            for chunk in &field.chunks {
                let raw = self.read_place(&chunk.place)?;
                index::each_value(&raw, blocks, |value, numbers| {
                    numbers.iter().for_each(|&block| each(&field.name, value, block));
                })
                .map_err(|damage| self.damaged(chunk.place.offset, damage))?;
            }
        }
        Ok(())
    }

    /// The text filters, read once.
    pub fn filters(&self) -> Result<&Filters> {
        if let Some(filters) = self.filters.get() {
            return Ok(filters);
        }
        let place = &self.directory.filters;
        let filters = Filters::new(self.read_place(place)?, self.directory.blocks.len())
            .map_err(|damage| self.damaged(place.offset, damage))?;
        Ok(self.filters.get_or_init(|| filters))
    }

    /// Proves every checksum and that every entry can be read; gives all that is wrong.
    pub fn verify(&self) -> Result<Vec<Error>> {
        let mut faults = Vec::new();
        if let Health::Rebuilt { why, gaps } = &self.health {
            faults.push(self.damaged(gaps.last().map_or(self.file_bytes, |gap| gap.start), *why));
            faults.extend(
                gaps.iter()
                    .rev()
                    .skip(1)
                    .map(|gap| self.damaged(gap.start, Damage("no block begins here"))),
            );
        }
        let mut note = |result: Result<()>| match result {
            Err(e) if e.leaves_the_rest() => {
                faults.push(e);
                Ok(())
            }
            other => other,
        };
        for number in 0..self.directory.blocks.len() {
            note(self.verify_block(number))?;
        }
        if self.health == Health::Whole {
            note(self.verify_header())?;
            note(self.each_index_value(|_, _, _| {}))?;
            note(self.filters().map(|_| ()))?;
        }
        Ok(faults)
    }

    fn verify_block(&self, number: usize) -> Result<()> {
        let (header, body) = self.stored_block(number)?;
        let padding = body[header.section_range(Section::Text).end..].iter().all(|&b| b == 0);
        let padded = padding.then_some(()).ok_or(Damage("the end of a block is not zero"));
        padded
            .and_then(|()| Block::open(header, body)?.check())
            .map_err(|damage| self.damaged(header.offset, damage))
    }

    fn verify_header(&self) -> Result<()> {
        match read_header(&*self.file, &self.name)? {
            Some(_) => Ok(()),
            None => Err(self.damaged(0, Damage("the file header fails its checksum"))),
        }
    }
}

/// Reads the header of a file; `None` when it is damaged.
pub fn read_header(file: &dyn File, name: &str) -> Result<Option<FileHeader>> {
    let mut bytes = [0; FILE_HEADER_BYTES as usize];
    let count = file.read_at(&mut bytes, 0)?;
    FileHeader::parse(&bytes[..count], name)
}

fn read_place(
    file: &dyn File,
    place: &Place,
    file_bytes: u64,
) -> Result<std::result::Result<Vec<u8>, Damage>> {
    if u64::from(place.stored) > file_bytes {
        return Ok(Err(Damage("a piece of the index lies beyond the end")));
    }
    let mut stored = vec![0; place.stored as usize];
    let count = file.read_at(&mut stored, place.offset)?;
    Ok(place.unpack(&stored[..count]))
}

type End = std::result::Result<(Directory, Trailer), Damage>;

/// Reads trailer and directory.
fn read_end(file: &dyn File, name: &str, file_bytes: u64) -> Result<End> {
    let begin = file_bytes.saturating_sub(TAIL_BYTES);
    let mut tail = vec![0; (file_bytes - begin) as usize];
    let count = file.read_at(&mut tail, begin)?;
    let trailer = match Trailer::parse(&tail[..count], file_bytes) {
        Ok((trailer, 0)) => trailer,
        Ok((_, flags)) => return Err(Error::Unsupported { name: name.to_owned(), flags }),
        Err(damage) => return Ok(Err(damage)),
    };
    let place = trailer.directory;
    let in_tail = place.offset.checked_sub(begin).and_then(|skip| {
        let skip = usize::try_from(skip).ok()?;
        tail.get(skip..skip.checked_add(place.stored as usize)?)
    });
    let raw = match in_tail {
        Some(stored) => place.unpack(stored),
        None => read_place(file, &place, file_bytes)?,
    };
    let directory = raw.and_then(|raw| Directory::parse(&raw, file_bytes));
    Ok(directory.map(|directory| (directory, trailer)))
}

/// Finds the blocks of a segment whose end is lost.
fn rebuild(file: &dyn File, name: &str, why: Damage) -> Result<(Directory, u64, Identity, Health)> {
    let identity = read_header(file, name)?.map(|header| header.identity);
    let mut walk = Walk::new(identity);
    walk.advance(file)?;
    let entries = || walk.blocks.iter().filter(|header| header.kind == Kind::Entries);
    let blocks = entries().map(BlockPlace::from).collect();
    let raw_bytes = entries().map(Header::raw_bytes).sum();
    let directory = Directory { blocks, ..Directory::default() };
    let identity = walk.identity.unwrap_or_default();
    Ok((directory, raw_bytes, identity, Health::Rebuilt { why, gaps: walk.gaps }))
}
