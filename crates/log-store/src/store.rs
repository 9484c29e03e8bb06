//! The writer: batches into logs, syncs, and the upkeep that turns logs into segments.
//!
//! One writer for a directory. Entries are appended in memory ([`Store::append`] does no I/O),
//! written by [`Store::flush`] and durable after [`Store::sync`]. A log that is long enough is
//! ended, made durable ([`Store::begin_syncs`]) and left to [`upkeep`], which seals it into a segment, merges small segments and
//! removes old ones; it may run in another thread, since it touches only files that the writer
//! is done with.
//!
//! What must hold at any crash: what was synced is there exactly once and in order; of what was
//! not, a beginning. [`names`] says how a reader tells a file from what replaces it, `log` what
//! is written when. `tests` loses writes at every point and checks it.

pub mod age;
pub mod carry;
pub mod fault;
mod log;
pub mod names;
#[cfg(test)]
mod tests;
pub mod upkeep;
pub mod vacuum;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::block::Identity;
use crate::entry::{ENTRY_BYTES_MAX, ENTRY_FIELDS_MAX, Entry, Fields, Id128, Stamp, is_valid_name};
use crate::error::{Error, Result};
use crate::files::{Disk, File, Files};
use crate::segment::layout::{FILE_HEADER_BYTES, FileHeader, FileKind};
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

/// Most contexts that are remembered as good.
const CHECKED_MAX: usize = 16;

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
    /// The last number that an entry got; some are left out.
    last_appended: u64,
    active: BTreeMap<String, ActiveLog>,
    /// Logs that have ended and are not durable: as long as there is one, nothing of the next log of
    /// its class is written, so that what a crash leaves is a beginning.
    closing: BTreeMap<String, ActiveLog>,
    sealable: Vec<FileName>,
    /// A log was created whose name may not be on the device.
    directory_dirty: bool,
    /// Some contexts whose names were looked at: a few senders send most.
    checked: VecDeque<Arc<Fields>>,
}

/// A file to be made durable, in whatever thread.
pub struct SyncJob {
    log: FileName,
    file: Arc<dyn File>,
    /// Its id, and how many bytes of it are to be made durable.
    id: Id128,
    bytes: u64,
    files: Arc<dyn Files>,
    /// Its name may not be durable.
    directory: bool,
}

impl SyncJob {
    /// Does it; may take as long as the disk does.
    pub fn run(self) -> Synced {
        let result = self.try_run();
        Synced { log: self.log, directory: self.directory, result }
    }

    /// A directory that is gone cannot be synced: that it is gone is what counts.
    fn try_run(&self) -> Result<()> {
        let synced = match self.directory {
            true => self.files.sync_directory().and_then(|()| self.file.sync()),
            false => self.file.sync(),
        };
        match &synced {
            Err(e) if !e.is_gone() => synced,
            _ => check_name(&*self.files, &self.log, self.id, self.bytes).and(synced),
        }
    }
}

/// What came of a [`SyncJob`].
pub struct Synced {
    log: FileName,
    directory: bool,
    result: Result<()>,
}

/// What is left of a store whose disk has given up.
pub struct Remains {
    /// Entries that may be on no device, with their classes, in the order of their numbers.
    pub entries: Vec<(String, Entry)>,
    /// The logs that they were to come to.
    pub logs: Vec<LeftLog>,
}

/// A log of a store that is written no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftLog {
    /// Its name.
    pub name: FileName,
    /// So much of it is durable, bytes.
    pub durable: u64,
    /// The id in its header.
    id: Id128,
}

impl LeftLog {
    /// Cuts the log to what was durable, unless its name is that of another file by now.
    pub fn cut(&self, disk: &Disk) -> Result<()> {
        let name = self.name.to_string();
        match disk.beginning(&name, FILE_HEADER_BYTES as usize) {
            Err(e) if e.is_gone() => Ok(()),
            Ok((beginning, _)) if !may_be(&beginning, &name, self.id) => Ok(()),
            found => found.and_then(|_| disk.cut(&name, self.durable)),
        }
    }
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
    /// The highest sequence number that was found in a file, by class. Classes are written one after
    /// the other, so the highest of all says nothing about the others.
    pub last_seqnums: BTreeMap<String, u64>,
    /// Leftovers that were removed: temporary files, and files that others replace.
    pub removed: Vec<String>,
}

impl Store {
    /// Takes over a directory: removes leftovers, finds the next sequence number.
    pub fn open(files: Arc<dyn Files>, mut setup: Setup) -> Result<(Store, Recovery)> {
        let catalogue = Catalogue::of(files.list()?);
        let mut recovery =
            Recovery { removed: remove_leftovers(&*files, &catalogue)?, ..Recovery::default() };
        let mut last_seqnums = catalogue.last_seqnums();
        for log in catalogue.logs() {
            let salvage = walk_log(&*files, &log.to_string())?;
            let last = last_seqnums.entry(log.class().to_owned()).or_default();
            *last = salvage.1.max(*last);
            recovery.unclean |= !salvage.0.closed;
            recovery.lost.extend(salvage.0.lost.into_iter().map(|gap| (log.to_string(), gap)));
            recovery.logs.push(log.clone());
        }
        let last = last_seqnums.values().copied().max().unwrap_or(0);
        recovery.last_seqnums = last_seqnums;
        let gap = if recovery.unclean { SEQNUM_GAP } else { 0 };
        let sequence = find_sequence(&*files, &catalogue)?;
        let sequence = sequence.unwrap_or_else(|| (setup.new_id)());
        let (active, sealable) = (BTreeMap::new(), recovery.logs.clone());
        let next_seqnum = last + 1 + gap;
        let store = Store {
            files,
            setup,
            sequence,
            next_seqnum,
            last_appended: last,
            active,
            closing: BTreeMap::new(),
            sealable,
            directory_dirty: false,
            checked: VecDeque::new(),
        };
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
        self.check_context(context)?;
        check_names(fields)?;
        let (seqnum, settled) = (self.next_seqnum, self.settled_by(class));
        let log = self.log(class)?;
        log.settle(settled);
        log.append(seqnum, stamp, context, fields)?;
        self.last_appended = seqnum;
        self.next_seqnum += 1;
        Ok(seqnum)
    }

    /// Below which number everything is in a file once this class has written what it has.
    fn settled_by(&self, class: &str) -> u64 {
        let logs = self.active.values().chain(self.closing.values());
        let others = logs.filter(|log| log.class() != class);
        let lowest = others.filter_map(ActiveLog::unwritten).min();
        lowest.unwrap_or(self.last_appended + 1)
    }

    fn check_context(&mut self, context: &Arc<Fields>) -> Result<()> {
        if self.checked.iter().any(|checked| Arc::ptr_eq(checked, context)) {
            return Ok(());
        }
        check_names(context)?;
        if self.checked.len() >= CHECKED_MAX {
            self.checked.pop_front();
        }
        self.checked.push_back(context.clone());
        Ok(())
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

    /// Writes what waits, and ends logs that are long enough. What fails stays in memory and
    /// is tried again the next time; so does what comes after a log that is not durable yet.
    pub fn flush(&mut self) -> Result<()> {
        let files = &*self.files;
        for log in self.closing.values_mut() {
            log.flush(files, &mut self.directory_dirty)?;
        }
        self.write_logs()?;
        if !self.is_settled() {
            return Ok(());
        }
        let is_free = |class: &str| !self.closing.contains_key(class);
        let full = self.active.values().filter(|log| log.is_full() && is_free(log.class()));
        let full: Vec<String> = full.map(|log| log.class().to_owned()).collect();
        full.iter().try_for_each(|class| self.end(class))
    }

    /// Everything that was appended is in a file. Only then logs end: a reader takes what is in a
    /// segment as settled.
    fn is_settled(&self) -> bool {
        self.active.values().chain(self.closing.values()).all(|log| log.unwritten().is_none())
    }

    /// Writes every log that may be written, even when one fails, and says how far everything is in
    /// a file; gives the first error.
    fn write_logs(&mut self) -> Result<()> {
        let mut result = Ok(());
        let classes: Vec<String> = self.active.keys().cloned().collect();
        for class in classes.iter().filter(|class| !self.closing.contains_key(*class)) {
            let settled = self.settled_by(class);
            let Some(log) = self.active.get_mut(class) else { continue };
            log.settle(settled);
            result = result.and(log.flush(&*self.files, &mut self.directory_dirty));
        }
        result.and_then(|()| self.tell_settled())
    }

    /// Blocks that were made before others were written do not say how far it is now: a mark does.
    fn tell_settled(&mut self) -> Result<()> {
        let logs = self.active.values().chain(self.closing.values());
        let told = logs.map(ActiveLog::told_settled).max();
        if told.is_none_or(|told| told > self.last_appended) || !self.is_settled() {
            return Ok(());
        }
        let free = self.active.values_mut().find(|log| !self.closing.contains_key(log.class()));
        let Some(log) = free else { return Ok(()) };
        log.settle(self.last_appended + 1);
        log.tell_settled()
    }

    /// Makes everything that was appended durable. Gives the number of the last entry.
    ///
    /// # Panics
    /// While a job of [`Store::begin_syncs`] is under way.
    pub fn sync(&mut self) -> Result<u64> {
        self.finish_closing()?;
        self.write_logs()?;
        self.sync_directory()?;
        let synced = self.active.values_mut().map(ActiveLog::sync);
        synced.fold(Ok(()), Result::and)?;
        Ok(self.next_seqnum - 1)
    }

    /// Closes all logs, so that they can be sealed. Everything is durable then.
    ///
    /// # Panics
    /// While a job of [`Store::begin_syncs`] is under way.
    pub fn rotate(&mut self) -> Result<()> {
        self.finish_closing()?;
        self.write_logs()?;
        let classes: Vec<String> = self.active.keys().cloned().collect();
        classes.iter().try_for_each(|class| self.end(class))?;
        self.finish_closing()
    }

    /// Ends all logs but those whose class has one that is closing, and makes nothing durable: that is
    /// for [`Store::begin_syncs`]. False when there is one that goes on, as all do while something
    /// cannot be written.
    pub fn end_logs(&mut self) -> Result<bool> {
        self.end_those(|_, _| true)
    }

    /// The same of logs that are meant, by their class and when their first entry came, monotonic µs.
    pub fn end_those(&mut self, are_meant: impl Fn(&str, u64) -> bool) -> Result<bool> {
        self.write_logs()?;
        if !self.is_settled() {
            return Ok(false);
        }
        let meant = self.active.values().filter(|log| are_meant(log.class(), log.begun_us()));
        let classes: Vec<String> = meant.map(|log| log.class().to_owned()).collect();
        let (later, now): (Vec<String>, Vec<String>) =
            classes.into_iter().partition(|class| self.closing.contains_key(class));
        now.iter().try_for_each(|class| self.end(class))?;
        Ok(later.is_empty())
    }

    /// What another thread is to do so that logs become durable: those that have ended, and with
    /// `all` the others too; and the first error. Callers flush first.
    pub fn begin_syncs(&mut self, all: bool) -> (Vec<SyncJob>, Result<()>) {
        let is_free: Vec<bool> =
            self.active.keys().map(|class| !self.closing.contains_key(class)).collect();
        let active = self.active.values_mut().zip(is_free).filter(|(_, free)| all && *free);
        let logs = self.closing.values_mut().chain(active.map(|(log, _)| log));
        let (mut jobs, mut result) = (Vec::new(), Ok(()));
        for log in logs {
            match log.begin_sync() {
                Ok(Some(file)) => {
                    // Each does it: another one's may fail.
                    let (files, directory) = (self.files.clone(), self.directory_dirty);
                    let (id, bytes) = (log.id(), log.position());
                    jobs.push(SyncJob { log: log.name(), file, id, bytes, files, directory });
                }
                Ok(None) => {}
                Err(e) => result = result.and(Err(e)),
            }
        }
        self.directory_dirty &= jobs.is_empty();
        (jobs, result)
    }

    /// Takes what came of a job.
    ///
    /// # Errors
    /// The job's. What it was about is written again with the next flush.
    pub fn end_sync(&mut self, done: Synced) -> Result<()> {
        let Synced { log: name, directory, result } = done;
        self.directory_dirty |= directory && result.is_err();
        let class = name.class();
        let of_name = |log: &&mut ActiveLog| log.name() == name;
        if let Some(log) = self.closing.get_mut(class).filter(of_name) {
            log.end_sync(result)?;
            if log.is_closed() {
                self.closing.remove(class);
                self.sealable.push(name);
            }
            return Ok(());
        }
        match self.active.get_mut(class).filter(of_name) {
            Some(log) => log.end_sync(result),
            None => Ok(()),
        }
    }

    /// Ends the store, of which nothing more is written.
    pub fn give_up(mut self) -> Remains {
        let mut left = Remains { entries: Vec::new(), logs: Vec::new() };
        for log in self.closing.values_mut().chain(self.active.values_mut()) {
            let (name, durable, id) = (log.name(), log.durable(), log.id());
            left.logs.push(LeftLog { name, durable, id });
            let class = log.class().to_owned();
            left.entries.extend(log.volatile().into_iter().map(|entry| (class.clone(), entry)));
        }
        left.entries.sort_by_key(|(_, entry)| entry.seqnum);
        left
    }

    /// A log has ended and is not durable yet.
    pub fn has_ended(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Bytes in memory that are not on the device.
    pub fn waiting_bytes(&self) -> usize {
        self.active.values().chain(self.closing.values()).map(ActiveLog::waiting_bytes).sum()
    }

    /// So much came while a log is on its way to the device that the next one would have no room.
    pub fn is_crowded(&self) -> bool {
        !self.closing.is_empty() && self.active.values().any(ActiveLog::is_crowded)
    }

    /// The logs that were closed since the last call, oldest first: for [`upkeep::seal`].
    pub fn take_sealable(&mut self) -> Vec<FileName> {
        std::mem::take(&mut self.sealable)
    }

    /// True when something was appended and not written.
    pub fn has_unwritten(&self) -> bool {
        self.active.values().chain(self.closing.values()).any(ActiveLog::has_unwritten)
    }

    /// So much waits that it should be written without regard to time, or a log is to be ended. None can be while
    /// something waits for a log that is on its way to the device.
    pub fn wants_flush(&self) -> bool {
        let is_free = |log: &&ActiveLog| !self.closing.contains_key(log.class());
        let waits = |log: &ActiveLog| !is_free(&log) && log.unwritten().is_some();
        let may_end = !self.active.values().any(waits);
        let is_due = |log: &ActiveLog| log.has_block() || may_end && log.is_full();
        self.active.values().filter(is_free).any(is_due)
    }

    /// Ends a log, of whose class none is closing.
    fn end(&mut self, class: &str) -> Result<()> {
        let Some(log) = self.active.get_mut(class) else { return Ok(()) };
        log.put_end();
        log.flush(&*self.files, &mut self.directory_dirty)?;
        if let Some((class, log)) = self.active.remove_entry(class) {
            self.closing.insert(class, log);
        }
        Ok(())
    }

    /// Makes logs that have ended durable.
    fn finish_closing(&mut self) -> Result<()> {
        while let Some(class) = self.closing.keys().next().cloned() {
            let log = self.closing.get_mut(&class).expect("it was there a moment ago");
            log.flush(&*self.files, &mut self.directory_dirty)?;
            self.sync_directory()?;
            let log = self.closing.get_mut(&class).expect("it was there a moment ago");
            log.sync()?;
            let name = log.name();
            self.closing.remove(&class);
            self.sealable.push(name);
        }
        Ok(())
    }

    fn sync_directory(&mut self) -> Result<()> {
        if self.directory_dirty {
            self.files.sync_directory()?;
            self.directory_dirty = false;
        }
        Ok(())
    }
}

/// Whether who opens a log by its name gets the one that is written, with so many bytes: it may have been removed,
/// moved, replaced or emptied, and its directory too. What identifies a file is the id in its header, since some file
/// systems number a file anew each time that they are asked. One whose header is damaged is there.
fn check_name(files: &dyn Files, log: &FileName, id: Id128, bytes: u64) -> Result<()> {
    let name = log.to_string();
    let (beginning, size) = match files.beginning(&name, FILE_HEADER_BYTES as usize) {
        Err(e) if e.is_gone() => return Err(Error::Removed(name)),
        // The device has said that it has the file.
        Err(_) => return Ok(()),
        Ok(found) => found,
    };
    let is_emptied = size < bytes || beginning.iter().all(|byte| *byte == 0);
    if is_emptied || !may_be(&beginning, &name, id) { Err(Error::Removed(name)) } else { Ok(()) }
}

/// Whether a file that begins so may have that id: it has no other.
fn may_be(beginning: &[u8], name: &str, id: Id128) -> bool {
    match FileHeader::parse(beginning, name) {
        Ok(Some(header)) => header.identity.file == id,
        Ok(None) => true,
        Err(_) => false,
    }
}

fn check_entry(context: &Fields, fields: &Fields) -> Result<()> {
    if fields.bytes_len() + context.bytes_len() > ENTRY_BYTES_MAX {
        return Err(Error::TooLarge { what: "an entry", max: ENTRY_BYTES_MAX });
    }
    if fields.len().max(context.len()) > ENTRY_FIELDS_MAX {
        return Err(Error::TooLarge { what: "the number of fields", max: ENTRY_FIELDS_MAX });
    }
    Ok(())
}

fn check_names(fields: &Fields) -> Result<()> {
    match fields.iter().all(|(name, _)| is_valid_name(name)) {
        true => Ok(()),
        false => Err(Error::TooLarge { what: "a field name", max: crate::entry::NAME_BYTES_MAX }),
    }
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
