//! The entries of a query, one after the other, over all classes and files.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::block::{Block, Header, Row};
use crate::entry::Entry;
use crate::error::{Damage, Error, Result};
use crate::query::source::Source;
use crate::query::{Direction, Query};
use crate::segment::directory::BlockPlace;

/// An iterator over entries; see [`crate::query::Journal::entries`].
pub struct Entries<'a> {
    query: &'a Query,
    direction: Direction,
    position: Option<u64>,
    /// Entries with higher numbers are left out.
    last: Option<u64>,
    classes: Vec<Class<'a>>,
    /// Somebody goes on later from the last entry: no log is left out, see [`Journal::keep_to_settled`].
    ///
    /// [`Journal::keep_to_settled`]: crate::query::Journal::keep_to_settled
    settled_only: bool,
    damage: Vec<Error>,
}

/// An opened block and its rows that are wanted; `None` when there can be none.
type BlockRows = std::result::Result<Option<(Block, Vec<u32>)>, Damage>;

/// Where the iterator is in the files of one class.
struct Class<'a> {
    sources: VecDeque<&'a Source>,
    /// Numbers of the blocks of the current source that are still to be read.
    blocks: VecDeque<u32>,
    source: Option<&'a Source>,
    block: Option<Block>,
    /// Rows of the current block that are wanted and still to come.
    rows: VecDeque<u32>,
}

impl<'a> Entries<'a> {
    pub(super) fn new(
        (classes, faults): (impl Iterator<Item = &'a [Arc<Source>]>, (bool, Vec<Error>)),
        query: &'a Query,
        direction: Direction,
        position: Option<u64>,
        last: Option<u64>,
    ) -> Entries<'a> {
        let class = |sources: &'a [Arc<Source>]| {
            let mut sources: VecDeque<&Source> = sources.iter().map(Arc::as_ref).collect();
            sources.retain(|source| source.may_follow(direction, position));
            turn(sources.make_contiguous(), direction);
            let (blocks, rows) = (VecDeque::new(), VecDeque::new());
            Class { sources, blocks, source: None, block: None, rows }
        };
        let classes = classes.map(class).collect();
        let (settled_only, damage) = faults;
        Entries { query, direction, position, last, classes, settled_only, damage }
    }

    /// What could not be read so far.
    pub fn damage(&self) -> &[Error] {
        &self.damage
    }

    /// The next entry, or `None` at the end.
    ///
    /// # Errors
    /// Failed reads, and files of a later version. Damage, and what the device does not give, is no
    /// error, see [`Entries::damage`].
    pub fn try_next(&mut self) -> Result<Option<Entry>> {
        let mut best: Option<(usize, u64)> = None;
        for at in 0..self.classes.len() {
            if let Some(seqnum) = self.peek(at)? {
                let better = best.is_none_or(|(_, other)| match self.direction {
                    Direction::Forward => seqnum < other,
                    Direction::Backward => seqnum > other,
                });
                best = if better { Some((at, seqnum)) } else { best };
            }
        }
        let Some((at, _)) = best else { return Ok(None) };
        let class = &mut self.classes[at];
        let row = class.rows.pop_front().expect("a row was just seen");
        let block = class.block.as_ref().expect("rows are of a block");
        let source = class.source.expect("blocks are of a file");
        let entry = block.entry(row as usize);
        entry.map_err(|damage| source.damaged(block.header(), damage)).map(Some)
    }

    /// The sequence number of the next entry of a class; reads blocks until there is one.
    fn peek(&mut self, at: usize) -> Result<Option<u64>> {
        loop {
            let class = &mut self.classes[at];
            if let (Some(&row), Some(block)) = (class.rows.front(), &class.block) {
                return Ok(Some(block.rows()[row as usize].seqnum));
            }
            if let (Some(source), Some(number)) = (class.source, class.blocks.pop_front()) {
                self.load(at, source, number as usize)?;
            } else if let Some(source) = class.sources.pop_front() {
                match self.enter(at, source) {
                    Err(e) if self.is_left_out(source, &e) => self.damage.push(e),
                    entered => entered?,
                }
            } else {
                return Ok(None);
            }
        }
    }

    /// Begins with a file: which of its blocks are to be read?
    fn enter(&mut self, at: usize, source: &'a Source) -> Result<()> {
        let places = source.places()?;
        self.damage.extend(source.damage()?);
        let passes =
            |number: &u32| places.get(*number as usize).is_some_and(|place| self.passes(place));
        let all = 0..places.len() as u32;
        // The cheap test goes first: no index is read for a file of another time.
        let mut blocks: Vec<u32> = all.filter(passes).collect();
        if !blocks.is_empty()
            && let Some(candidates) = source.candidates(self.query)?
        {
            blocks.retain(|number| candidates.binary_search(number).is_ok());
        }
        turn(&mut blocks, self.direction);
        let class = &mut self.classes[at];
        (class.source, class.blocks) = (Some(source), blocks.into());
        Ok(())
    }

    /// What the device does not give is left out.
    fn is_left_out(&self, source: &Source, error: &Error) -> bool {
        error.is_of_device() && !(self.settled_only && source.name().is_log())
    }

    fn passes(&self, place: &BlockPlace) -> bool {
        self.query.since_us.is_none_or(|since| place.realtime_max_us >= since)
            && self.query.until_us.is_none_or(|until| place.realtime_min_us <= until)
            && self.last.is_none_or(|last| place.first_seqnum <= last)
            && self.position.is_none_or(|position| match self.direction {
                Direction::Forward => place.last_seqnum > position,
                Direction::Backward => place.first_seqnum < position,
            })
    }

    fn load(&mut self, at: usize, source: &'a Source, number: usize) -> Result<()> {
        let found = source.stored_block(number).and_then(|(header, body)| {
            self.search(header, body).map_err(|damage| source.damaged(&header, damage))
        });
        match found {
            Ok(None) => Ok(()),
            Ok(Some((block, mut rows))) => {
                turn(&mut rows, self.direction);
                let class = &mut self.classes[at];
                (class.block, class.rows) = (Some(block), rows.into());
                Ok(())
            }
            Err(e) if self.is_left_out(source, &e) || matches!(e, Error::Damaged { .. }) => {
                self.damage.push(e);
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Opens a block and finds the rows that are wanted. With a text to search for, the text is
    /// unpacked first: most blocks end there.
    fn search(&self, header: Header, body: Vec<u8>) -> BlockRows {
        if let Some(pulse) = &self.query.pulse {
            (pulse.0)(header.realtime_min_us);
        }
        let block = match &self.query.grep {
            None => Block::open(header, body)?,
            Some(grep) => {
                let text = Block::unpack_text(&header, &body)?;
                if !grep.may_match(&text) {
                    return Ok(None);
                }
                Block::open_with_text(header, body, text)?
            }
        };
        let rows = self.rows(&block)?;
        Ok(Some((block, rows)))
    }

    /// The rows of a block that are wanted, in order. Proves that they can be read.
    fn rows(&self, block: &Block) -> std::result::Result<Vec<u32>, Damage> {
        let mut wanted: Vec<bool> = block.rows().iter().map(|row| self.takes(row)).collect();
        if let Some(grep) = &self.query.grep {
            keep(&mut wanted, grep.rows(block)?);
        }
        if wanted.contains(&true) {
            keep(&mut wanted, self.query.expr.rows(block)?);
        }
        if wanted.contains(&true) {
            block.check()?;
        }
        Ok((0..wanted.len() as u32).filter(|&row| wanted[row as usize]).collect())
    }

    fn takes(&self, row: &Row) -> bool {
        self.query.since_us.is_none_or(|since| row.realtime_us >= since)
            && self.query.until_us.is_none_or(|until| row.realtime_us <= until)
            && self.last.is_none_or(|last| row.seqnum <= last)
            && self.position.is_none_or(|position| match self.direction {
                Direction::Forward => row.seqnum > position,
                Direction::Backward => row.seqnum < position,
            })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        self.try_next().transpose()
    }
}

fn keep(wanted: &mut [bool], those: Vec<bool>) {
    wanted.iter_mut().zip(those).for_each(|(wanted, that)| *wanted &= that);
}

fn turn<T>(all: &mut [T], direction: Direction) {
    if direction == Direction::Backward {
        all.reverse();
    }
}
