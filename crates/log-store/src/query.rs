//! Reading: which entries, in which order, from where on.
//!
//! A [`Journal`] is a picture of a directory: every file is opened when the picture is taken, so
//! that sealing, merging and vacuum in the meantime do not disturb it. [`Journal::refresh`]
//! takes a new one and keeps what is still the same. Entries come in the order of their sequence
//! numbers, and a position is a sequence number: it stays valid whatever file the entry is in.
//!
//! Damaged blocks, and files that their device does not give, are left out and reported
//! ([`Entries::damage`]), never silently.
//!
//! Several stores are read as one by [`union`], which merges them by time.
//!
//! Start at [`Query`]; [`expr`] finds candidates in indexes and decides row by row, `grep`
//! searches texts, [`source`] makes logs and segments look alike, `stream` walks them.

mod cursor;
mod distinct;
pub mod expr;
mod grep;
pub mod matches;
pub mod source;
mod stream;
#[cfg(test)]
mod tests;
pub mod union;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use crate::segment::directory::BootSpan;
pub use cursor::Cursor;
pub use expr::{BOOT_FIELD, Expr};
pub use grep::{Case, Grep};
pub use stream::Entries;
pub use union::Union;

use crate::entry::Id128;
use crate::error::{Error, Result};
use crate::files::Files;
pub use crate::query::distinct::DistinctValues;
use crate::query::source::Source;

use crate::store::names::{Catalogue, FileName};

/// Which entries are wanted.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// What fields they must have.
    pub expr: Expr,
    /// Earliest wall clock, µs; inclusive.
    pub since_us: Option<u64>,
    /// Latest wall clock, µs; inclusive.
    pub until_us: Option<u64>,
    /// What their text must match.
    pub grep: Option<Grep>,
    /// Is told how far it is.
    pub pulse: Option<Pulse>,
}

/// Is told of each block that is read: of what time it is, µs since 1970.
#[derive(Clone)]
pub struct Pulse(pub Arc<dyn Fn(u64) + Send + Sync>);

impl std::fmt::Debug for Pulse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pulse")
    }
}

/// Which way to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Oldest first.
    Forward,
    /// Newest first.
    Backward,
}

/// A picture of a directory.
pub struct Journal {
    files: Arc<dyn Files>,
    classes: BTreeMap<String, Vec<Arc<Source>>>,
    settled_only: bool,
    /// With `settled_only`: the last number below which nothing more comes.
    settled: Option<u64>,
    /// What the device does not give.
    unreadable: Vec<Error>,
    /// What the caller may not read.
    denied: Vec<Error>,
}

impl Journal {
    /// Opens every file that counts.
    pub fn open(files: Arc<dyn Files>) -> Result<Journal> {
        let mut journal = Journal {
            files,
            classes: BTreeMap::new(),
            settled_only: false,
            settled: None,
            unreadable: Vec::new(),
            denied: Vec::new(),
        };
        journal.refresh()?;
        Ok(journal)
    }

    /// Takes a new picture. Files that were open and still count are kept, and what was read of
    /// them.
    pub fn refresh(&mut self) -> Result<()> {
        /// How often files may vanish between listing and opening before it is an error.
        const TRIES_MAX: usize = 100;
        for _ in 1..TRIES_MAX {
            match self.try_refresh() {
                Ok(false) => {}
                Err(e) if e.is_gone() => {}
                done => return done.map(drop),
            }
        }
        self.try_refresh().map(drop)
    }

    /// Leaves out, from now on, entries that others with lower numbers may still come before: the
    /// writer writes one class after the other. Who goes on later from the last entry that he saw
    /// misses none then. What a writer that was killed wrote last shows when it is sealed.
    pub fn keep_to_settled(&mut self) -> Result<()> {
        self.settled_only = true;
        self.refresh()
    }

    /// True when the files are the same in the end: a listing is not made at one moment, so it may
    /// have neither a file that was removed nor the one that came in its place.
    fn try_refresh(&mut self) -> Result<bool> {
        let mut classes: BTreeMap<String, Vec<Arc<Source>>> = BTreeMap::new();
        let (mut unreadable, mut denied) = (Vec::new(), Vec::new());
        let may_leave_out = !self.settled_only;
        let faults = (&mut unreadable, &mut denied);
        let listing = left_out(self.files.list(), may_leave_out, faults)?;
        let listing = listing.unwrap_or_default();
        let listed = Catalogue::of(listing).files;
        for file in &listed {
            let source = match self.known(&file.name) {
                Some(source) => Some(source),
                None => {
                    let opened = Source::open(&*self.files, &file.name).map(Arc::new);
                    left_out(
                        opened,
                        self.may_leave_out(&file.name),
                        (&mut unreadable, &mut denied),
                    )?
                }
            };
            let Some(source) = source else { continue };
            classes.entry(file.name.class().to_owned()).or_default().push(source);
        }
        let mut settled = classes.values().flatten().map(|source| source.settled());
        self.settled = match self.settled_only {
            true => settled.try_fold(None, |last, settled| Ok(last.max(Some(settled?))))?,
            false => None,
        };
        (self.classes, self.unreadable, self.denied) = (classes, unreadable, denied);
        let Ok(again) = self.files.list() else { return Ok(true) };
        let again = Catalogue::of(again).files;
        Ok(listed.iter().map(|file| &file.name).eq(again.iter().map(|file| &file.name)))
    }

    /// What others have is still worth to be shown where the device does not give this one. But who
    /// goes on later from the last entry that he saw would miss what comes of a log when the device is
    /// well again; what it does not give of a segment it will not give again.
    fn may_leave_out(&self, name: &FileName) -> bool {
        !(self.settled_only && name.is_log())
    }

    /// A segment never changes, so it stays as it is; a log is read again.
    fn known(&self, name: &FileName) -> Option<Arc<Source>> {
        let sources = self.classes.get(name.class())?;
        sources.iter().find(|source| source.name() == name && !name.is_log()).cloned()
    }

    /// The entries that are wanted, from a position on: forward those with higher sequence
    /// numbers, backward those with lower ones; all without a position.
    pub fn entries<'a>(
        &'a self,
        query: &'a Query,
        direction: Direction,
        position: Option<u64>,
    ) -> Entries<'a> {
        let classes = self.classes.values().map(Vec::as_slice);
        let faults = (self.settled_only, self.unreadable.clone());
        Entries::new((classes, faults), query, direction, position, self.settled)
    }

    /// Every different value of a field, and the damage met on the way.
    pub fn values(&self, field: &[u8]) -> Result<(BTreeSet<Vec<u8>>, Vec<Error>)> {
        self.values_within(field, usize::MAX)
    }

    /// The same, of at most so many bytes.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when there are more.
    pub fn values_within(
        &self,
        field: &[u8],
        bytes_max: usize,
    ) -> Result<(BTreeSet<Vec<u8>>, Vec<Error>)> {
        let mut values = DistinctValues::new(bytes_max);
        let damage = self.each(|source, damage| {
            source.values(field, &mut values, damage)?;
            values.check()
        })?;
        Ok((values.into_set()?, damage))
    }

    /// Every field name that occurs, and the damage met on the way.
    pub fn field_names(&self) -> Result<(BTreeSet<Vec<u8>>, Vec<Error>)> {
        let mut names = BTreeSet::from([expr::BOOT_FIELD.to_vec()]);
        let damage = self.each(|source, damage| source.field_names(&mut names, damage))?;
        Ok((names, damage))
    }

    /// All boots in the order of their first entries, and the damage met on the way.
    pub fn boots(&self) -> Result<(Vec<BootSpan>, Vec<Error>)> {
        let mut spans = Vec::new();
        let damage = self.each(|source, damage| {
            let of_source = source.boots(damage)?;
            of_source.into_iter().for_each(|span| BootSpan::join(&mut spans, span));
            Ok(())
        })?;
        spans.sort_by_key(|span: &BootSpan| span.first_seqnum);
        Ok((spans, damage))
    }

    /// Does it for each file; those that the device does not give are in the damage.
    fn each(
        &self,
        mut each: impl FnMut(&Source, &mut Vec<Error>) -> Result<()>,
    ) -> Result<Vec<Error>> {
        let mut damage = self.unreadable.clone();
        for source in self.sources() {
            match each(source, &mut damage) {
                Err(e) if e.is_of_device() => damage.push(e),
                done => done?,
            }
        }
        Ok(damage)
    }

    /// Id of the sequence that the numbers of the newest file count in which the device gives.
    pub fn sequence(&self) -> Result<Option<Id128>> {
        let mut sources: Vec<&Arc<Source>> = self.sources().collect();
        sources.sort_by_key(|source| std::cmp::Reverse(source.name().first()));
        let sequences = sources.into_iter().map(|source| source.sequence());
        let given = sequences.filter(|read| !read.as_ref().is_err_and(Error::is_of_device));
        given.into_iter().next().unwrap_or(Ok(None))
    }

    /// What the device did not give when the picture was taken.
    pub fn unreadable(&self) -> &[Error] {
        &self.unreadable
    }

    /// The files that the caller may not read, or the directory, when the picture was taken.
    pub fn denied(&self) -> &[Error] {
        &self.denied
    }

    /// All files, by class and first sequence number.
    pub fn sources(&self) -> impl Iterator<Item = &Arc<Source>> {
        self.classes.values().flatten()
    }
}

/// What is read, or nothing and the error kept where the device does not give it; and whenever the caller may not read it,
/// which is no passing trouble.
fn left_out<T>(
    read: Result<T>,
    may: bool,
    (unreadable, denied): (&mut Vec<Error>, &mut Vec<Error>),
) -> Result<Option<T>> {
    match read {
        Err(e) if e.is_of_access() => {
            denied.push(e);
            Ok(None)
        }
        Err(e) if may && e.is_of_device() => {
            unreadable.push(e);
            Ok(None)
        }
        read => read.map(Some),
    }
}
