//! The writer: batches into logs, syncs, and the upkeep that turns logs into segments.
//!
//! One writer for a directory. Entries are appended in memory ([`Store::append`] does no I/O),
//! written by [`Store::flush`] and durable after [`Store::sync`]. A log that is long enough is
//! closed and left to [`upkeep`], which seals it into a segment, merges small segments and
//! removes old ones; it may run in another thread, since it touches only files that the writer
//! is done with.
//!
//! What must hold at any crash: what was synced is there exactly once and in order; of what was
//! not, a beginning. [`names`] says how a reader tells a file from what replaces it, [`log`] what
//! is written when. `tests` loses writes at every point and checks it.

pub mod carry;
#[cfg(test)]
pub(crate) mod fault;
pub mod log;
pub mod names;
#[cfg(test)]
mod tests;
pub mod upkeep;
pub mod vacuum;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::Identity;
use crate::entry::{ENTRY_BYTES_MAX, ENTRY_FIELDS_MAX, Fields, Id128, Stamp, is_valid_name};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::segment::layout::{FileHeader, FileKind};
use crate::segment::read::read_header;
use crate::segment::scan::{Salvage, Walk};
use crate::store::log::ActiveLog;
use crate::store::names::{Catalogue, FileName, is_valid_class};

/// Most classes of a store.
pub const CLASSES_MAX: usize = 16;

/// The class of everything that has no other.
pub const DEFAULT_CLASS: &str = "system";

/// Sequence numbers left out after a crash: more than can have been written without a sync, so
/// that no number that anybody saw is given out again.
pub const SEQNUM_GAP: u64 = (log::WAITING_ENTRIES_MAX * CLASSES_MAX) as u64;

/// What a store needs to know from outside.
pub struct Setup {
    /// The machine's id, for the file headers.
    pub machine: Id128,
    /// Makes random ids; a counter in tests.
    pub new_id: Box<dyn FnMut() -> Id128 + Send>,
}

/// The writer of a directory.
pub struct Store {
    files: Arc<dyn Files>,
    setup: Setup,
    sequence: Id128,
    next_seqnum: u64,
    active: BTreeMap<String, ActiveLog>,
    sealable: Vec<FileName>,
    /// A log was created whose name may not be on the device.
    directory_dirty: bool,
}

/// What [`Store::open`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Logs that the last writer left, to be sealed.
    pub logs: Vec<FileName>,
    /// One of them was not closed: the writer or the machine stopped.
    pub unclean: bool,
    /// Damaged parts of them, by file, in bytes.
    pub lost: Vec<(String, std::ops::Range<u64>)>,
    /// The highest sequence number that was found in a file.
    pub last_seqnum: u64,
    /// Leftovers that were removed: temporary files, and files that others replace.
    pub removed: Vec<String>,
}

impl Store {
    /// Takes over a directory: removes leftovers, finds the next sequence number.
    pub fn open(files: Arc<dyn Files>, mut setup: Setup) -> Result<(Store, Recovery)> {
        let catalogue = Catalogue::of(files.list()?);
        let mut recovery =
            Recovery { removed: remove_leftovers(&*files, &catalogue)?, ..Recovery::default() };
        let mut last = catalogue.last_seqnum();
        for log in catalogue.logs() {
            let salvage = walk_log(&*files, &log.to_string())?;
            last = last.max(salvage.1);
            recovery.unclean |= !salvage.0.closed;
            recovery.lost.extend(salvage.0.lost.into_iter().map(|gap| (log.to_string(), gap)));
            recovery.logs.push(log.clone());
        }
        recovery.last_seqnum = last;
        let gap = if recovery.unclean { SEQNUM_GAP } else { 0 };
        let sequence = find_sequence(&*files, &catalogue)?;
        let sequence = sequence.unwrap_or_else(|| (setup.new_id)());
        let (active, sealable) = (BTreeMap::new(), recovery.logs.clone());
        let next_seqnum = last + 1 + gap;
        let store =
            Store { files, setup, sequence, next_seqnum, active, sealable, directory_dirty: false };
        Ok((store, recovery))
    }

    /// Id of the sequence that the numbers count in.
    pub fn sequence(&self) -> Id128 {
        self.sequence
    }

    /// The number that the next entry gets.
    pub fn next_seqnum(&self) -> u64 {
        self.next_seqnum
    }

    /// Leaves out so many numbers, and gives the first of them: for entries that come as a file.
    pub fn reserve(&mut self, count: u64) -> u64 {
        let first = self.next_seqnum;
        self.next_seqnum += count;
        first
    }

    /// Takes an entry into memory and gives its sequence number. No I/O.
    ///
    /// # Errors
    /// For an entry beyond the bounds, a bad class, and when the disk takes nothing any more.
    pub fn append(
        &mut self,
        class: &str,
        stamp: &Stamp,
        context: &Arc<Fields>,
        fields: &Fields,
    ) -> Result<u64> {
        check_entry(context, fields)?;
        let seqnum = self.next_seqnum;
        self.log(class)?.append(seqnum, stamp, context, fields)?;
        self.next_seqnum += 1;
        Ok(seqnum)
    }

    fn log(&mut self, class: &str) -> Result<&mut ActiveLog> {
        if !self.active.contains_key(class) {
            if !is_valid_class(class) || self.active.len() >= CLASSES_MAX {
                return Err(Error::BadClass(class.to_owned()));
            }
            let identity = Identity { file: (self.setup.new_id)(), sequence: self.sequence };
            let header = FileHeader::new(FileKind::Log, identity, self.setup.machine, class);
            let log = ActiveLog::new(class, self.next_seqnum, header);
            self.active.insert(class.to_owned(), log);
        }
        Ok(self.active.get_mut(class).expect("it was put there if it was missing"))
    }

    /// Writes what waits, and closes logs that are long enough. What fails stays in memory and
    /// is tried again the next time.
    pub fn flush(&mut self) -> Result<()> {
        self.each_log(|log, files, dirty| log.flush(files, dirty))?;
        let full = self.active.values().filter(|log| log.is_full());
        let full: Vec<String> = full.map(|log| log.class().to_owned()).collect();
        full.iter().try_for_each(|class| self.close(class))
    }

    /// Makes everything that was appended durable. Gives the number of the last entry.
    pub fn sync(&mut self) -> Result<u64> {
        self.each_log(|log, files, dirty| log.flush(files, dirty))?;
        self.sync_directory()?;
        self.each_log(|log, _, _| log.sync())?;
        Ok(self.next_seqnum - 1)
    }

    /// Closes all logs, so that they can be sealed. Everything is durable then.
    pub fn rotate(&mut self) -> Result<()> {
        let classes: Vec<String> = self.active.keys().cloned().collect();
        classes.iter().try_for_each(|class| self.close(class))
    }

    /// The logs that were closed since the last call, oldest first: for [`upkeep::seal`].
    pub fn take_sealable(&mut self) -> Vec<FileName> {
        std::mem::take(&mut self.sealable)
    }

    /// True when something was appended and not written.
    pub fn has_unwritten(&self) -> bool {
        self.active.values().any(ActiveLog::has_unwritten)
    }

    /// So much waits that it should be written without regard to time.
    pub fn wants_flush(&self) -> bool {
        self.active.values().any(ActiveLog::wants_flush)
    }

    fn close(&mut self, class: &str) -> Result<()> {
        let Some(log) = self.active.get_mut(class) else { return Ok(()) };
        log.put_end();
        log.flush(&*self.files, &mut self.directory_dirty)?;
        self.sync_directory()?;
        let log = self.active.get_mut(class).expect("it was there a moment ago");
        log.sync()?;
        let name = log.name();
        self.active.remove(class);
        self.sealable.push(name);
        Ok(())
    }

    fn sync_directory(&mut self) -> Result<()> {
        if self.directory_dirty {
            self.files.sync_directory()?;
            self.directory_dirty = false;
        }
        Ok(())
    }

    /// Does it for every log even when one fails; gives the first error.
    fn each_log(
        &mut self,
        mut each: impl FnMut(&mut ActiveLog, &dyn Files, &mut bool) -> Result<()>,
    ) -> Result<()> {
        let mut result = Ok(());
        for log in self.active.values_mut() {
            let this = each(log, &*self.files, &mut self.directory_dirty);
            result = result.and(this);
        }
        result
    }
}

fn check_entry(context: &Fields, fields: &Fields) -> Result<()> {
    if fields.bytes_len() + context.bytes_len() > ENTRY_BYTES_MAX {
        return Err(Error::TooLarge { what: "an entry", max: ENTRY_BYTES_MAX });
    }
    if fields.len().max(context.len()) > ENTRY_FIELDS_MAX {
        return Err(Error::TooLarge { what: "the number of fields", max: ENTRY_FIELDS_MAX });
    }
    if !fields.iter().chain(context.iter()).all(|(name, _)| is_valid_name(name)) {
        return Err(Error::TooLarge { what: "a field name", max: crate::entry::NAME_BYTES_MAX });
    }
    Ok(())
}

fn remove_leftovers(files: &dyn Files, catalogue: &Catalogue) -> Result<Vec<String>> {
    for name in &catalogue.leftovers {
        files.unlink(name)?;
    }
    if !catalogue.leftovers.is_empty() {
        files.sync_directory()?;
    }
    Ok(catalogue.leftovers.clone())
}

/// Walks a log: what counts of it, and the last sequence number of that.
fn walk_log(files: &dyn Files, name: &str) -> Result<(Salvage, u64)> {
    let file = files.open(name)?;
    let mut walk = Walk::new(read_header(&*file, name)?.map(|header| header.identity));
    walk.advance(&*file)?;
    let salvage = walk.salvage();
    let last = walk.blocks[..salvage.count].iter().map(|block| block.last_seqnum).max();
    Ok((salvage, last.unwrap_or(0)))
}

/// The sequence id of the newest file that still says it.
fn find_sequence(files: &dyn Files, catalogue: &Catalogue) -> Result<Option<Id128>> {
    for name in catalogue.newest_first() {
        if let Some(identity) = identity_of(files, name)? {
            return Ok(Some(identity.sequence));
        }
    }
    Ok(None)
}

/// Whose file this is: its header says so, or else its first block.
fn identity_of(files: &dyn Files, name: &FileName) -> Result<Option<Identity>> {
    let file = files.open(&name.to_string())?;
    if let Some(header) = read_header(&*file, &name.to_string())? {
        return Ok(Some(header.identity));
    }
    let mut walk = Walk::new(None);
    walk.advance(&*file)?;
    Ok(walk.identity)
}
