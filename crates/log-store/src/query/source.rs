//! Logs and segments behind one face.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::block::{Block, Header, Kind, TEXT_FIELD};
use crate::entry::Id128;
use crate::error::{Damage, Error, Result};
use crate::files::memory::InMemory;
use crate::files::{File, Files};
use crate::query::distinct::DistinctValues;
use crate::query::expr::{BOOT_FIELD, each_text};
use crate::query::{Direction, Query};
use crate::segment::directory::{BlockPlace, BootSpan};
use crate::segment::read::{Health, Segment, read_header};
use crate::segment::scan::{self, Walk};
use crate::store::names::FileName;

/// A log of more bytes is not kept in memory while it is read.
const LOG_IN_MEMORY_BYTES_MAX: u64 = 8 << 20;

/// A file of a directory, open; what is in it is read when it is asked for.
pub struct Source {
    name: FileName,
    file: Arc<dyn File>,
    content: OnceLock<Content>,
}

enum Content {
    Log(LogContent),
    Segment(Segment),
}

/// A log as it was when it was read.
struct LogContent {
    file: Arc<dyn File>,
    headers: Vec<Header>,
    places: Vec<BlockPlace>,
    lost: Vec<Range<u64>>,
    /// Where it ends, if the file goes on.
    torn: Option<u64>,
    sequence: Option<Id128>,
    settled: u64,
}

impl Source {
    /// Opens the file and reads nothing yet.
    pub fn open(files: &dyn Files, name: &FileName) -> Result<Source> {
        let file = Arc::from(files.open(&name.to_string())?);
        Ok(Source { name: name.clone(), file, content: OnceLock::new() })
    }

    /// Its name.
    pub fn name(&self) -> &FileName {
        &self.name
    }

    /// The segment; `None` for a log.
    pub fn segment(&self) -> Result<Option<&Segment>> {
        match self.content()? {
            Content::Segment(segment) => Ok(Some(segment)),
            Content::Log(_) => Ok(None),
        }
    }

    fn content(&self) -> Result<&Content> {
        if let Some(content) = self.content.get() {
            return Ok(content);
        }
        let (file, name) = (self.file.clone(), self.name.to_string());
        let content = match self.name.is_log() {
            true => Content::Log(LogContent::read(file, &name)?),
            false => Content::Segment(Segment::read(file, &name)?),
        };
        Ok(self.content.get_or_init(|| content))
    }

    /// False when its name says that all its entries are on the wrong side of a position.
    pub fn may_follow(&self, direction: Direction, position: Option<u64>) -> bool {
        match (direction, position, &self.name) {
            (Direction::Forward, Some(at), FileName::Segment(segment)) => segment.last > at,
            (Direction::Backward, Some(at), name) => name.first() < at,
            _ => true,
        }
    }

    /// Where its blocks are.
    pub fn places(&self) -> Result<&[BlockPlace]> {
        Ok(match self.content()? {
            Content::Log(log) => &log.places,
            Content::Segment(segment) => &segment.directory().blocks,
        })
    }

    /// Reads a block by its number.
    pub fn block(&self, number: usize) -> Result<Block> {
        let (header, body) = self.stored_block(number)?;
        Block::open(header, body).map_err(|damage| self.damaged(&header, damage))
    }

    /// Reads a block without unpacking it.
    pub fn stored_block(&self, number: usize) -> Result<(Header, Vec<u8>)> {
        match self.content()? {
            Content::Log(log) => {
                let header = log.headers[number];
                Ok((header, scan::read_body(&*log.file, &header)?))
            }
            Content::Segment(segment) => segment.stored_block(number),
        }
    }

    /// An error about a block of this file.
    pub fn damaged(&self, header: &Header, Damage(what): Damage) -> Error {
        Error::Damaged { name: self.name.to_string(), offset: header.offset, what }
    }

    /// The blocks that may have entries that are wanted; `None`: all.
    pub fn candidates(&self, query: &Query) -> Result<Option<Vec<u32>>> {
        let Content::Segment(segment) = self.content()? else { return Ok(None) };
        let found = query.expr.candidates(segment)?;
        let Some(grep) = query.grep.as_ref().filter(|grep| grep.has_literal()) else {
            return Ok(found);
        };
        if *segment.health() != Health::Whole || found.as_ref().is_some_and(Vec::is_empty) {
            return Ok(found);
        }
        let Ok(filters) = segment.filters() else { return Ok(found) };
        let all = 0..segment.directory().blocks.len() as u32;
        let mut blocks = found.unwrap_or_else(|| all.collect());
        blocks.retain(|&block| grep.may_be_in(filters, block as usize));
        Ok(Some(blocks))
    }

    /// What is known to be damaged before any block is read.
    pub fn damage(&self) -> Result<Vec<Error>> {
        let gaps: &[Range<u64>] = match self.content()? {
            Content::Log(log) => &log.lost,
            Content::Segment(segment) => match segment.health() {
                Health::Whole => &[],
                Health::Rebuilt { gaps, .. } => gaps,
            },
        };
        let damaged = |gap: &Range<u64>| Error::Damaged {
            name: self.name.to_string(),
            offset: gap.start,
            what: "no block can be read here",
        };
        Ok(gaps.iter().map(damaged).chain(self.misnamed()?).collect())
    }

    /// Another file lies under its name: what it should have is lost.
    fn misnamed(&self) -> Result<Option<Error>> {
        let FileName::Segment(segment) = &self.name else { return Ok(None) };
        let is_foreign = |place: &&BlockPlace| {
            place.first_seqnum < segment.first || place.last_seqnum > segment.last
        };
        let what = "its entries do not match its name";
        let foreign = self.places()?.iter().find(is_foreign);
        Ok(foreign.map(|_| Error::Damaged { name: self.name.to_string(), offset: 0, what }))
    }

    /// Where a log ends whose file goes on: with what a crash tore off, or what somebody cut.
    pub fn torn_at(&self) -> Result<Option<u64>> {
        Ok(match self.content()? {
            Content::Log(log) => log.torn,
            Content::Segment(_) => None,
        })
    }

    /// Id of the sequence that its numbers count in.
    pub fn sequence(&self) -> Result<Option<Id128>> {
        Ok(match self.content()? {
            Content::Log(log) => log.sequence,
            Content::Segment(segment) => Some(segment.sequence()),
        })
    }

    /// Up to which number nothing more is written to any file of the directory, as far as this one
    /// says.
    pub fn settled(&self) -> Result<u64> {
        if let FileName::Segment(segment) = &self.name {
            return Ok(segment.last);
        }
        Ok(match self.content()? {
            Content::Log(log) => log.settled,
            Content::Segment(_) => 0,
        })
    }

    /// Adds every different value of a field.
    pub fn values(
        &self,
        field: &[u8],
        values: &mut DistinctValues,
        damage: &mut Vec<Error>,
    ) -> Result<()> {
        if field == BOOT_FIELD {
            let boots = self.boots(damage)?;
            boots.iter().for_each(|span| values.insert(span.boot.to_string().as_bytes()));
            return Ok(());
        }
        if let Content::Segment(segment) = self.content()?
            && segment.values(field, |value| values.insert(value))?.is_some()
        {
            return Ok(());
        }
        damage.extend(self.damage()?);
        self.each_block(damage, |block| {
            block.contexts().iter().for_each(|context| {
                let of_field = context.iter().filter(|(name, _)| *name == field);
                of_field.for_each(|(_, value)| values.insert(value));
            });
            if field == TEXT_FIELD {
                return each_text(block, |_, text| values.insert(text));
            }
            if let Some(column) = block.column(field)? {
                (0..column.len()).for_each(|place| values.insert(&column.get(place)));
            }
            Ok(())
        })
    }

    /// Adds every field name; those of a log, and of a segment without its index, by reading it.
    pub fn field_names(
        &self,
        names: &mut BTreeSet<Vec<u8>>,
        damage: &mut Vec<Error>,
    ) -> Result<()> {
        if let Content::Segment(segment) = self.content()?
            && *segment.health() == Health::Whole
        {
            names.extend(segment.directory().fields.iter().map(|field| field.name.to_vec()));
            return Ok(());
        }
        damage.extend(self.damage()?);
        self.each_block(damage, |block| {
            block.names().for_each(|name| insert(names, name));
            Ok(())
        })
    }

    /// Proves everything that can be proved; gives all that is wrong.
    pub fn verify(&self) -> Result<Vec<Error>> {
        if let Content::Segment(segment) = self.content()? {
            let faults = segment.verify()?;
            return Ok(faults.into_iter().chain(self.misnamed()?).collect());
        }
        let mut faults = self.damage()?;
        self.each_block(&mut faults, Block::check)?;
        Ok(faults)
    }

    fn each_block(
        &self,
        damage: &mut Vec<Error>,
        mut each: impl FnMut(&Block) -> std::result::Result<(), Damage>,
    ) -> Result<()> {
        for number in 0..self.places()?.len() {
            let read =
                |block: Block| each(&block).map_err(|damage| self.damaged(block.header(), damage));
            match self.block(number).and_then(read) {
                Err(e) if e.leaves_the_rest() => damage.push(e),
                done => done?,
            }
        }
        Ok(())
    }

    /// Its boots; of a log, and of a segment without its index, by reading it.
    pub fn boots(&self, damage: &mut Vec<Error>) -> Result<Vec<BootSpan>> {
        if let Content::Segment(segment) = self.content()?
            && *segment.health() == Health::Whole
        {
            return Ok(segment.directory().boots.clone());
        }
        damage.extend(self.damage()?);
        let mut spans = Vec::new();
        self.each_block(damage, |block| {
            block.rows().iter().for_each(|row| {
                let (boot, at) = (block.boots()[row.boot as usize], row.realtime_us);
                let first_seqnum = block.header().first_seqnum;
                let (realtime_min_us, realtime_max_us) = (at, at);
                let span = BootSpan { boot, realtime_min_us, realtime_max_us, first_seqnum };
                BootSpan::join(&mut spans, span);
            });
            Ok(())
        })?;
        Ok(spans)
    }
}

fn insert(values: &mut BTreeSet<Vec<u8>>, value: &[u8]) {
    if !values.contains(value) {
        values.insert(value.to_vec());
    }
}

impl LogContent {
    fn read(file: Arc<dyn File>, name: &str) -> Result<LogContent> {
        let file = match file.len()? <= LOG_IN_MEMORY_BYTES_MAX {
            true => Arc::new(InMemory::read(&*file, name)?),
            false => file,
        };
        let mut walk = Walk::new(read_header(&*file, name)?.map(|header| header.identity));
        walk.advance(&*file)?;
        let salvage = walk.salvage();
        let torn = (salvage.end < file.len()?).then_some(salvage.end);
        let sequence = walk.identity.map(|identity| identity.sequence);
        walk.blocks.truncate(salvage.count);
        let settled = walk.blocks.iter().map(|header| match header.settled {
            0 => header.last_seqnum,
            settled => settled - 1,
        });
        let settled = settled.max().unwrap_or(0);
        walk.blocks.retain(|header| header.kind == Kind::Entries);
        let places = walk.blocks.iter().map(BlockPlace::from).collect();
        let (headers, lost) = (walk.blocks, salvage.lost);
        Ok(LogContent { file, headers, places, lost, torn, sequence, settled })
    }
}
