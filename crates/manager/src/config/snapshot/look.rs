//! Reads directories and files: which exist, which have changed, and what they parse to.
//!
//! Three ends of a look are told apart. What is not there is nothing, and so is what stat(2) fails for.
//! A file that is there and cannot be read, as one on a bad disk, is a broken file. A directory that
//! cannot be read to its end, and what cannot be looked at for want of descriptors or memory, say
//! nothing: what was there before stays, and it is looked at again next time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::Bound;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warren_unit::parse::{UnitFile, parse, refused};
use warren_unit::search::directory_kind;
use warren_unit::{Code, Diagnostic, UnitName, UnitType};

use super::watch::is_link_nearby;
use super::{ENTRIES_MAX, Entry, File, Identity, Leads, Snapshot, Work};
use crate::base::file_identity::changed_at;
use crate::base::parallel;

/// Files for which a further thread pays.
const FILES_PER_THREAD_MIN: usize = 512;

/// Largest unit file that is read, in bytes; the parser has a bound of its own below this.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What is not there is nothing; an error says nothing of what is there.
type Lookup<T> = io::Result<Option<T>>;

/// Entries that are not the same as before, by name; nothing for one that is gone.
type EntryChanges = Vec<(String, Option<Entry>)>;

/// What looking at files said and cost.
#[derive(Default)]
struct Notes {
    work: Work,
    /// What could not be looked at, by name, and why.
    short: Vec<(String, io::Error)>,
    /// By path; nothing if what was wrong before is wrong no more.
    diagnostics: Vec<(Arc<str>, Vec<Diagnostic>)>,
}

impl Snapshot {
    /// Reads one entry of a search directory; nothing if it is not there or not of interest.
    ///
    /// # Errors
    /// Want of descriptors or memory, or a directory that cannot be read to its end.
    pub(super) fn look(
        &mut self,
        index: usize,
        path: &Path,
        name: &str,
        before: Option<&Entry>,
    ) -> Lookup<Entry> {
        let mut notes = Notes::default();
        if let Some((_, owner)) = directory_kind(name) {
            let now_ns = warren_sys::time::coarse_ns();
            let mut found = if_there(fs::symlink_metadata(path))?;
            let is_link = found.as_ref().is_some_and(fs::Metadata::is_symlink);
            if is_link {
                found = if_there(fs::metadata(path))?;
            }
            let found = found.filter(fs::Metadata::is_dir);
            let watch = found
                .as_ref()
                .and_then(|found| self.watch_directory(index, Some(name), is_link, found.dev()));
            if let Some(former) = self.note_linked(path, is_link, found.as_ref(), watch) {
                self.unwatch_former(former, (index, Some(name.into())));
            }
            let Some(metadata) = found else { return Ok(None) };
            let entry = self.look_into(path, owner, before, &mut notes)?;
            // What is done to it in this tick of the clock has the same time.
            let is_sure = changed_at(&metadata) < now_ns;
            if !name.ends_with(".d") && is_sure {
                let listed = &mut self.directories[index].listed;
                listed.insert(name.into(), Identity::of(&metadata));
            }
            self.take_notes(index, notes);
            return Ok(Some(entry));
        }
        let Ok(name) = UnitName::parse(name) else { return Ok(None) };
        let entry = self.look_at_file(path, name.unit_type(), before, &mut notes)?;
        self.take_notes(index, notes);
        Ok(entry)
    }

    /// A directory of drop-ins in which those links are looked at again that are known to lead to where
    /// configuration lies; what else is in it, and any other entry, is as it was.
    pub(super) fn look_nearby(
        &mut self,
        index: usize,
        path: &Path,
        name: &str,
        before: &Entry,
    ) -> Entry {
        let (Entry::Directory(entries), Some((_, owner))) = (before, directory_kind(name)) else {
            return before.clone();
        };
        let (mut now, mut notes) = (entries.clone(), Notes::default());
        let linked = self.linked(&(index, name.into()));
        let real = linked.and_then(|(path, linked)| Some(path.parent()?.join(&*linked.target)));
        let base = real.as_deref().unwrap_or(path);
        for (file, entry) in entries.iter().filter(|(_, entry)| is_link_nearby(base, entry)) {
            match self.look_at_dropin(&path.join(&**file), owner, Some(entry), &mut notes) {
                Ok(Some(found)) => drop(now.insert(file.clone(), found)),
                Ok(None) => drop(now.remove(file)),
                Err(error) => notes.short.push((name.to_owned(), error)),
            }
        }
        self.take_notes(index, notes);
        Entry::Directory(now)
    }

    /// Looks at many entries that are no directories, by several threads; `names` is sorted. Those
    /// that are the same as before are left out, and those that cannot be looked at.
    pub(super) fn look_at_files(&mut self, index: usize, names: Vec<String>) -> EntryChanges {
        let share = names.len().div_ceil(crate::base::host::threads()).max(FILES_PER_THREAD_MIN);
        let mut shares: Vec<Vec<String>> = Vec::new();
        let mut names = names.into_iter();
        while names.len() > 0 {
            shares.push(names.by_ref().take(share).collect());
        }
        let mut found = Vec::new();
        for (some, notes) in self.look_at_shares(index, shares) {
            found.extend(some);
            self.take_notes(index, notes);
        }
        found
    }

    /// Each share by a thread, as far as there are any: each begins the next one's.
    fn look_at_shares(
        &self,
        index: usize,
        mut shares: Vec<Vec<String>>,
    ) -> Vec<(EntryChanges, Notes)> {
        let Some(own) = shares.pop() else { return Vec::new() };
        let own = || {
            let mut notes = Notes::default();
            (self.look_at_share(index, own, &mut notes), notes)
        };
        if shares.is_empty() {
            return vec![own()];
        }
        let others = || self.look_at_shares(index, shares);
        let (mut looked, own) = parallel::both(parallel::builder(), others, own);
        looked.push(own);
        looked
    }

    /// Walks along the names and what was there before, side by side.
    fn look_at_share(&self, index: usize, names: Vec<String>, notes: &mut Notes) -> EntryChanges {
        let directory = &self.directories[index];
        let opened = fs::File::open(&directory.path).ok();
        let first = names.first().map_or("", String::as_str);
        let from = (Bound::Included(first), Bound::Unbounded);
        let mut old = directory.entries.range::<str, _>(from).peekable();
        let mut found = Vec::new();
        for name in names {
            while old.next_if(|(before, _)| ***before < *name).is_some() {}
            let before = old.next_if(|(before, _)| ***before == *name).map(|(_, entry)| entry);
            if is_same_file(opened.as_ref(), &name, before) {
                notes.work.looked_at += 1;
                continue;
            }
            let Ok(unit) = UnitName::parse(&name) else { continue };
            let path = directory.path.join(&name);
            match self.look_at_file(&path, unit.unit_type(), before, notes) {
                Ok(now) => found.push((name, now)),
                Err(error) => notes.short.push((name, error)),
            }
        }
        found
    }

    fn take_notes(&mut self, index: usize, notes: Notes) {
        for (name, error) in notes.short {
            self.look_again(index, &name, &error);
        }
        self.work.looked_at += notes.work.looked_at;
        self.work.parsed += notes.work.parsed;
        for (path, diagnostics) in notes.diagnostics {
            if diagnostics.is_empty() {
                self.diagnostics.remove(&path);
            } else {
                self.diagnostics.insert(path, diagnostics);
            }
        }
    }

    fn look_into(
        &self,
        path: &Path,
        owner: UnitType,
        before: Option<&Entry>,
        notes: &mut Notes,
    ) -> io::Result<Entry> {
        let old = match before {
            Some(Entry::Directory(entries)) => Some(entries),
            _ => None,
        };
        let mut new = BTreeMap::new();
        let dropins = path.extension().is_some_and(|e| e == "d");
        for name in names_in(path)?.unwrap_or_default() {
            let entry = path.join(&name);
            let before = old.and_then(|old| old.get(name.as_str()));
            let found = if dropins {
                if !name.ends_with(".conf") || name.starts_with('.') {
                    continue;
                }
                self.look_at_dropin(&entry, owner, before, notes)?
            } else {
                // Files that are no links say nothing here.
                let is_unit = UnitName::parse(&name).is_ok();
                let target = is_unit.then(|| fs::read_link(&entry).ok()).flatten();
                target.map(|target| Entry::link(&target, Leads::Inside))
            };
            if let Some(found) = found {
                new.insert(name.into_boxed_str(), found);
            }
        }
        Ok(Entry::Directory(Box::new(new)))
    }

    /// A drop-in may be a link to anywhere; a link to /dev/null or an empty file masks those of
    /// the same name in other directories.
    fn look_at_dropin(
        &self,
        path: &Path,
        owner: UnitType,
        before: Option<&Entry>,
        notes: &mut Notes,
    ) -> Lookup<Entry> {
        let target = if_there(fs::read_link(path))?;
        let metadata = if_there(fs::metadata(path))?.filter(fs::Metadata::is_file);
        let file = match metadata {
            Some(metadata) => {
                let before = before.and_then(Entry::file).cloned().map(Entry::File);
                self.read_file(path, &metadata, owner, before.as_ref(), notes)?
            }
            None => None,
        };
        Ok(match target {
            Some(target) => Some(Entry::link(&target, file.map_or(Leads::Nowhere, Leads::Outside))),
            None => file.map(Entry::File),
        })
    }

    fn look_at_file(
        &self,
        path: &Path,
        unit_type: UnitType,
        before: Option<&Entry>,
        notes: &mut Notes,
    ) -> Lookup<Entry> {
        let Some(metadata) = if_there(fs::symlink_metadata(path))? else { return Ok(None) };
        if metadata.is_symlink() {
            let Some(target) = if_there(fs::read_link(path))? else { return Ok(None) };
            let leads = self.behind(path, &target, unit_type, before, notes)?;
            return Ok(Some(Entry::link(&target, leads)));
        }
        if metadata.is_dir() {
            return Ok(Some(Entry::Wrong("is a directory")));
        }
        if !metadata.is_file() {
            return Ok(Some(Entry::Wrong("is not a regular file")));
        }
        Ok(self.read_file(path, &metadata, unit_type, before, notes)?.map(Entry::File))
    }

    /// Where a link leads. A file outside of the search directories is read.
    fn behind(
        &self,
        path: &Path,
        target: &Path,
        unit_type: UnitType,
        before: Option<&Entry>,
        notes: &mut Notes,
    ) -> io::Result<Leads> {
        let full = path.parent().map(|directory| directory.join(target)).unwrap_or_default();
        if self.is_inside(&full) {
            return Ok(Leads::Inside);
        }
        // A link that leads there may itself lead back in: the file is this unit's own all the same, as it may
        // have another name there.
        let Some(full) = if_there(fs::canonicalize(full))? else { return Ok(Leads::Nowhere) };
        let Some(metadata) = if_there(fs::metadata(&full))?.filter(fs::Metadata::is_file) else {
            return Ok(Leads::Nowhere);
        };
        let before = before.filter(|before| matches!(before, Entry::Link(_)));
        let before = before.and_then(Entry::file).cloned().map(Entry::File);
        let file = self.read_file(path, &metadata, unit_type, before.as_ref(), notes)?;
        Ok(file.map_or(Leads::Nowhere, Leads::Outside))
    }

    fn is_inside(&self, path: &Path) -> bool {
        let directory = path.parent().and_then(|directory| fs::canonicalize(directory).ok());
        directory.is_some_and(|directory| self.is_search_directory(&directory))
    }

    fn is_search_directory(&self, dir: &Path) -> bool {
        self.directories
            .iter()
            .any(|d| d.path == dir || fs::canonicalize(&d.path).is_ok_and(|real| real == dir))
    }

    fn read_file(
        &self,
        path: &Path,
        metadata: &fs::Metadata,
        unit_type: UnitType,
        before: Option<&Entry>,
        notes: &mut Notes,
    ) -> Lookup<File> {
        let mut identity = Identity::of(metadata);
        notes.work.looked_at += 1;
        let old = match before {
            Some(Entry::File(file)) => Some(file),
            _ => None,
        };
        if let Some(old) = old.filter(|old| old.identity == identity) {
            return Ok(Some(old.clone()));
        }
        let name: Arc<str> = path.to_string_lossy().into();
        let (mut parsed, mut diagnostics) = match read_bounded(path, metadata.len()) {
            Ok(bytes) => parse(name.clone(), &bytes, unit_type),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if is_shortage(&error) => return Err(error),
            Err(error) => {
                // It may be readable next time without having changed.
                identity = Identity::NONE;
                let message = format!("the file cannot be read: {}", said(&error));
                refused(name.clone(), Code::Unreadable, message)
            }
        };
        if !self.has_room_for(&parsed) {
            // There may be room the next time.
            identity = Identity::NONE;
            let max = self.kept_bytes_max;
            let message = format!("all unit files together have more than {max} bytes of settings");
            (parsed, diagnostics) = refused(name.clone(), Code::FileTooLarge, message);
        }
        notes.work.parsed += 1;
        if old.is_some() || !diagnostics.is_empty() {
            notes.diagnostics.push((name, diagnostics));
        }
        // Touched but the same is no change: the old value stays the value.
        let parsed = match old.map(|old| &old.parsed).or_else(|| self.known.get(parsed.path())) {
            Some(old) if **old == parsed => old.clone(),
            _ => Arc::new(parsed),
        };
        Ok(Some(File { identity, parsed }))
    }

    /// Takes it.
    fn has_room_for(&self, parsed: &UnitFile) -> bool {
        let bytes = parsed.heap_bytes();
        let read = self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = self.kept_bytes + read + bytes <= self.kept_bytes_max;
        if !has_room {
            self.read_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        has_room
    }
}

/// The file's bytes, no more than the bound and one (so that the parser, which has a lower bound,
/// reports it).
fn read_bounded(path: &Path, size: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let bound = size.clamp(1 << 20, FILE_BYTES_MAX) + 1;
    let mut bytes = Vec::with_capacity(size.min(1 << 16) as usize);
    open_to_read(path)?.take(bound).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens what is to be read as a unit file. What is no regular file any more since it was looked at is
/// refused, and so is what the kernel makes as it is read: some of that does not end, or has who reads wait.
pub(crate) fn open_to_read(path: &Path) -> io::Result<fs::File> {
    const O_NONBLOCK: i32 = 0o4000;
    // So that opening a FIFO does not wait for who writes.
    let file = fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if warren_sys::file::is_of_kernel(file.as_fd()) {
        return Err(io::Error::other("a file that the kernel generates cannot be a unit file"));
    }
    Ok(file)
}

/// The names in a directory, in order; nothing if it is not there, or not for us to read.
///
/// # Errors
/// It cannot be read to its end: what is not among the names may be there.
pub(super) fn names_in(path: &Path) -> Lookup<Vec<String>> {
    match fs::read_dir(path) {
        Ok(entries) => all_names(entries.map(|entry| Ok(entry?.file_name()))).map(Some),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn all_names(entries: impl Iterator<Item = io::Result<OsString>>) -> io::Result<Vec<String>> {
    let names = entries.take(ENTRIES_MAX).map(|name| Ok(name?.into_string().ok()));
    let mut names = names.filter_map(Result::transpose).collect::<io::Result<Vec<String>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Whether a directory is not there, or not for us.
fn is_absence(error: &io::Error) -> bool {
    use warren_sys::errno::{EACCES, ELOOP, ENOENT, ENOTDIR};
    matches!(error.raw_os_error(), Some(ENOENT | EACCES | ENOTDIR | ELOOP))
}

/// Whether this says nothing of the file: descriptors or memory are wanting, here or in the system.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    use warren_sys::errno::{EMFILE, ENFILE, ENOMEM};
    matches!(error.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE))
}

/// The error in words, without its number.
pub(crate) fn said(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), warren_sys::error::errno_text)
}

/// What cannot be found, for whatever reason but want of memory, is not there.
fn if_there<T>(found: io::Result<T>) -> Lookup<T> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_shortage(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

pub(super) fn both_files(before: Option<&Entry>, now: Option<&Entry>) -> bool {
    matches!((before, now), (Some(Entry::File(_)), Some(Entry::File(_))))
}

/// Whether the entry of this name is the file that it was.
fn is_same_file(directory: Option<&fs::File>, name: &str, before: Option<&Entry>) -> bool {
    let (Some(directory), Some(Entry::File(file))) = (directory, before) else { return false };
    let facts = warren_sys::file::stat_at(directory.as_fd(), name);
    facts.is_ok_and(|facts| facts.is_file && file.identity.is_of(facts.parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_directory_is_an_error() {
        let names = |read: &[Option<&str>]| {
            let entries = read.iter().map(|name| match name {
                Some(name) => Ok((*name).into()),
                None => Err(io::Error::from_raw_os_error(5)),
            });
            all_names(entries).map_err(|error| said(&error))
        };
        assert_eq!(names(&[Some("b"), Some("a")]), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(names(&[Some("b"), None]).is_err());
    }
}
