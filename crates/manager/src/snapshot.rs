//! What the unit directories hold: the ground state of loading.
//!
//! One listing per search directory, kept up to date by watches. A file is read again only if its
//! stat identity changed, and counts as changed only if what it parses to differs. Nothing here
//! knows what the files mean to units; see `loader`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Bound;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_sys::inotify::{Change, Inotify, WatchFor, WatchId};
use warren_unit::parse::{UnitFile, parse};
use warren_unit::search::directory_kind;
use warren_unit::{Diagnostic, UnitName, UnitType};

/// Largest unit file that is read, in bytes; the parser has a bound of its own below this.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Entries of one directory that are looked at.
const ENTRIES_MAX: usize = 1 << 20;

/// Files for which a further thread pays.
const FILES_PER_THREAD_MIN: usize = 512;

/// What tells one state of a file from another without reading it: a fingerprint of its device,
/// inode, size and times. 64 bits for each of 40,000 files; two states of one file agree in it by
/// chance once in 2^64 changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(pub(crate) u64);

impl Identity {
    pub(crate) fn of(m: &fs::Metadata) -> Identity {
        Identity::of_parts([
            m.dev(),
            m.ino(),
            m.size(),
            m.mtime().cast_unsigned(),
            m.mtime_nsec().cast_unsigned(),
            m.ctime().cast_unsigned(),
            m.ctime_nsec().cast_unsigned(),
        ])
    }

    fn of_parts(parts: [u64; 7]) -> Identity {
        // One round of a 64-bit mixer for each part.
        let mix = |seed: u64, part: u64| {
            let x = (seed ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
        };
        Identity(parts.into_iter().fold(1, mix))
    }
}

/// One entry of a unit directory.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A file of unit settings.
    File(File),
    /// A symbolic link; what it leads to is resolved by name.
    Link(Box<Link>),
    /// A `.d`, `.wants`, `.requires` or `.upholds` directory.
    Directory(Box<BTreeMap<Box<str>, Entry>>),
    /// Something that is no unit file: a directory or device with a unit's name.
    Wrong(&'static str),
}

impl Entry {
    /// A link that leads there.
    pub(crate) fn link(target: &Path, leads: Leads) -> Entry {
        Entry::Link(Box::new(Link { target: target.to_string_lossy().into(), leads }))
    }
}

/// A symbolic link.
#[derive(Clone, Debug)]
pub struct Link {
    /// As readlink(2) gives it.
    pub target: Box<str>,
    /// Where that is.
    pub leads: Leads,
}

/// Where a link leads (systemd.unit(5), "UNIT FILE LOAD PATH").
#[derive(Clone, Debug)]
pub enum Leads {
    /// To a name in a search directory: it is another name of that unit.
    Inside,
    /// To a file elsewhere, which is the unit's own; its path is the link's.
    Outside(File),
    /// To nothing that a unit could be made of.
    Nowhere,
}

/// A file and what is in it.
#[derive(Clone, Debug)]
pub struct File {
    identity: Identity,
    /// Parsed, shared by all units that it makes.
    pub parsed: Arc<UnitFile>,
}

impl File {
    /// A file that is on no disk.
    pub(crate) fn made(parsed: Arc<UnitFile>) -> File {
        File { identity: Identity(0), parsed }
    }
}

/// One search directory.
#[derive(Debug)]
pub struct Directory {
    /// Its path.
    pub path: PathBuf,
    /// Nobody reads it from a disk: it is what rules made (see `fleet`).
    pub is_made: bool,
    /// Units, templates and their directories by name.
    pub entries: BTreeMap<Box<str>, Entry>,
    /// The directories of links among them, as they were when they were listed. A link is replaced
    /// and never changed, so that such a directory has changed when one of its links has.
    listed: BTreeMap<Box<str>, Identity>,
}

impl Directory {
    fn new(path: PathBuf, is_made: bool) -> Directory {
        Directory { path, is_made, entries: BTreeMap::new(), listed: BTreeMap::new() }
    }

    /// Whether this is a directory of links in which nothing changed since it was listed.
    fn is_as_listed(&self, name: &str) -> bool {
        let is = || fs::metadata(self.path.join(name)).map(|metadata| Identity::of(&metadata));
        self.listed.get(name).is_some_and(|listed| is().is_ok_and(|now| now == *listed))
    }

    /// Names that are no more; `names` is sorted.
    fn gone(&self, names: &[String]) -> Vec<String> {
        let mut names = names.iter().peekable();
        let mut is_gone = |name: &str| {
            while names.next_if(|there| there.as_str() < name).is_some() {}
            names.peek().is_none_or(|there| there.as_str() != name)
        };
        let gone = self.entries.keys().filter(|name| is_gone(name));
        gone.map(|name| name.to_string()).collect()
    }
}

/// All search directories, highest precedence first.
pub struct Snapshot {
    /// In order of precedence.
    pub directories: Vec<Directory>,
    watch: Option<Inotify>,
    /// Which directory, or which directory in it, a watch is for.
    watched: BTreeMap<WatchId, (usize, Option<Box<str>>)>,
    /// Links that lead out of the search directories, be it to nothing yet.
    outside: BTreeSet<(usize, Box<str>)>,
    /// Search directories that did not exist when they were last looked at.
    missing: BTreeSet<usize>,
    /// Files that the last incarnation had read, by path; those that are the same stay these.
    known: KnownFiles,
    /// Diagnostics of parsing, by path.
    pub diagnostics: BTreeMap<Arc<str>, Vec<Diagnostic>>,
    /// Something other than the content of a file changed: names, links, directories. Whoever
    /// keeps an index of those clears it.
    pub structure_changed: bool,
    /// Files read and files looked at by the last scan or update.
    pub work: Work,
}

/// Parsed files by path.
pub type KnownFiles = BTreeMap<Arc<str>, Arc<UnitFile>>;

/// What a scan cost.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Work {
    /// Files whose identity was looked at.
    pub looked_at: u32,
    /// Files that were read and parsed.
    pub parsed: u32,
}

/// What looking at files said and cost.
#[derive(Default)]
struct Notes {
    work: Work,
    /// By path; nothing if what was wrong before is wrong no more.
    diagnostics: Vec<(Arc<str>, Vec<Diagnostic>)>,
}

impl Snapshot {
    /// Reads everything below `paths` and watches it.
    pub fn read(paths: Vec<PathBuf>) -> Snapshot {
        Snapshot::read_knowing(paths, KnownFiles::new())
    }

    /// The same, where some files were read before.
    pub fn read_knowing(paths: Vec<PathBuf>, known: KnownFiles) -> Snapshot {
        Snapshot::read_with(paths, Inotify::new().ok(), known)
    }

    /// Reads everything below `paths` once.
    pub fn read_unwatched(paths: Vec<PathBuf>) -> Snapshot {
        Snapshot::read_with(paths, None, KnownFiles::new())
    }

    fn read_with(paths: Vec<PathBuf>, watch: Option<Inotify>, known: KnownFiles) -> Snapshot {
        let directories = paths.into_iter().map(|path| Directory::new(path, false)).collect();
        let mut snapshot = Snapshot {
            directories,
            watch,
            watched: BTreeMap::new(),
            outside: BTreeSet::new(),
            missing: BTreeSet::new(),
            known,
            diagnostics: BTreeMap::new(),
            structure_changed: true,
            work: Work::default(),
        };
        snapshot.sweep();
        snapshot.known.clear();
        snapshot
    }

    /// Enters a directory that nobody reads from a disk, at this place in the order.
    pub(crate) fn add_made(&mut self, at: usize, path: PathBuf) {
        self.directories.insert(at, Directory::new(path, true));
        let shifted = |index: usize| index + usize::from(index >= at);
        self.watched.values_mut().for_each(|(index, _)| *index = shifted(*index));
        self.outside =
            std::mem::take(&mut self.outside).into_iter().map(|(i, n)| (shifted(i), n)).collect();
        self.missing = std::mem::take(&mut self.missing).into_iter().map(shifted).collect();
    }

    /// What rules made, if there is room for it.
    pub(crate) fn made_mut(&mut self) -> Option<&mut Directory> {
        self.directories.iter_mut().find(|directory| directory.is_made)
    }

    /// The search directories.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(|d| d.path.as_path())
    }

    /// Looks at every file; returns the names (below the search directories) that differ.
    pub fn sweep(&mut self) -> BTreeSet<Box<str>> {
        self.sweep_all(true)
    }

    fn sweep_all(&mut self, trusting: bool) -> BTreeSet<Box<str>> {
        self.work = Work::default();
        let mut changed = BTreeSet::new();
        for index in 0..self.directories.len() {
            if self.directories[index].is_made {
                continue;
            }
            self.watch_directory(index, None);
            changed.extend(self.sweep_directory(index, trusting));
        }
        changed
    }

    /// `trusting` takes the times of a directory of links for what was done to it. They are as
    /// coarse as the kernel's clock tick, so that this needs a watch that tells what they do not.
    fn sweep_directory(&mut self, index: usize, trusting: bool) -> BTreeSet<Box<str>> {
        let names = sorted_names(&self.directories[index].path);
        match &names {
            Ok(_) => self.missing.remove(&index),
            Err(_) => self.missing.insert(index),
        };
        let names = names.unwrap_or_default();
        let mut others = self.directories[index].gone(&names);
        let (directories, files): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|name| directory_kind(name).is_some());
        others.extend(directories);
        let mut changed = BTreeSet::new();
        for (name, now) in self.look_at_files(index, files) {
            let before = self.directories[index].entries.remove(name.as_str());
            if self.enter(index, &name, before, now) {
                changed.insert(name.into());
            }
        }
        let entries = &mut self.directories[index].entries;
        if changed.len() > entries.len() / 2 {
            // Entered in their order they leave every node half empty; made of all at once it is full.
            *entries = std::mem::take(entries).into_iter().collect();
        }
        for name in others {
            let same = trusting && self.directories[index].is_as_listed(&name);
            if !same && self.refresh(index, &name) {
                changed.insert(name.into());
            }
        }
        changed
    }

    /// Reads one entry of a search directory; nothing if it is not there or not of interest.
    fn look(
        &mut self,
        index: usize,
        path: &Path,
        name: &str,
        before: Option<&Entry>,
    ) -> Option<Entry> {
        if let Some((_, owner)) = directory_kind(name) {
            let metadata = fs::metadata(path).ok()?;
            if !metadata.is_dir() {
                return None;
            }
            self.watch_directory(index, Some(name));
            if !name.ends_with(".d") {
                let listed = &mut self.directories[index].listed;
                listed.insert(name.into(), Identity::of(&metadata));
            }
            let mut notes = Notes::default();
            let entry = self.look_into(path, owner, before, &mut notes);
            self.take_notes(notes);
            return Some(entry);
        }
        let name = UnitName::parse(name).ok()?;
        let mut notes = Notes::default();
        let entry = self.look_at_file(path, name.unit_type(), before, &mut notes);
        self.take_notes(notes);
        entry
    }

    /// Looks at many entries that are no directories, by several threads; `names` is sorted. Those
    /// that are the same as before are left out.
    fn look_at_files(&mut self, index: usize, names: Vec<String>) -> Vec<(String, Option<Entry>)> {
        let this = &*self;
        let look = |names: Vec<String>| {
            let mut notes = Notes::default();
            (this.look_at_share(index, names, &mut notes), notes)
        };
        let share = names.len().div_ceil(crate::host::threads()).max(FILES_PER_THREAD_MIN);
        let mut shares: Vec<Vec<String>> = Vec::new();
        let mut names = names.into_iter();
        while names.len() > 0 {
            shares.push(names.by_ref().take(share).collect());
        }
        let looked: Vec<_> = std::thread::scope(|scope| {
            let shares = shares.into_iter().map(|share| scope.spawn(move || look(share)));
            let shares: Vec<_> = shares.collect();
            shares.into_iter().map(|t| t.join().expect("looking at files does not panic")).collect()
        });
        let mut found = Vec::new();
        for (some, notes) in looked {
            found.extend(some);
            self.take_notes(notes);
        }
        found
    }

    /// Walks along the names and what was there before, side by side.
    fn look_at_share(
        &self,
        index: usize,
        names: Vec<String>,
        notes: &mut Notes,
    ) -> Vec<(String, Option<Entry>)> {
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
            let now = self.look_at_file(&path, unit.unit_type(), before, notes);
            found.push((name, now));
        }
        found
    }

    fn take_notes(&mut self, notes: Notes) {
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
    ) -> Entry {
        let old = match before {
            Some(Entry::Directory(entries)) => Some(entries),
            _ => None,
        };
        let mut new = BTreeMap::new();
        let Ok(entries) = fs::read_dir(path) else { return Entry::Directory(Box::default()) };
        let dropins = path.extension().is_some_and(|e| e == "d");
        for entry in entries.flatten().take(ENTRIES_MAX) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let before = old.and_then(|old| old.get(name.as_str()));
            let found = if dropins {
                let is_dropin = name.ends_with(".conf") && !name.starts_with('.');
                is_dropin
                    .then(|| self.look_at_dropin(&entry.path(), owner, before, notes))
                    .flatten()
            } else {
                let is_unit = UnitName::parse(&name).is_ok();
                // A file in place of a link counts by its name as well.
                let target = || fs::read_link(entry.path()).unwrap_or_default();
                is_unit.then(|| Entry::link(&target(), Leads::Inside))
            };
            if let Some(found) = found {
                new.insert(name.into_boxed_str(), found);
            }
        }
        Entry::Directory(Box::new(new))
    }

    /// A drop-in may be a link to anywhere; a link to /dev/null or an empty file masks those of
    /// the same name in other directories.
    fn look_at_dropin(
        &self,
        path: &Path,
        owner: UnitType,
        before: Option<&Entry>,
        notes: &mut Notes,
    ) -> Option<Entry> {
        let metadata = fs::metadata(path).ok()?;
        if metadata.is_file() {
            return self.read_file(path, &metadata, owner, before, notes).map(Entry::File);
        }
        let target = fs::read_link(path).ok()?;
        Some(Entry::link(&target, Leads::Nowhere))
    }

    fn look_at_file(
        &self,
        path: &Path,
        unit_type: UnitType,
        before: Option<&Entry>,
        notes: &mut Notes,
    ) -> Option<Entry> {
        let metadata = fs::symlink_metadata(path).ok()?;
        if metadata.is_symlink() {
            let target = fs::read_link(path).ok()?;
            let leads = self.behind(path, &target, unit_type, before, notes);
            return Some(Entry::link(&target, leads));
        }
        if metadata.is_dir() {
            return Some(Entry::Wrong("is a directory"));
        }
        if !metadata.is_file() {
            return Some(Entry::Wrong("is not a regular file"));
        }
        self.read_file(path, &metadata, unit_type, before, notes).map(Entry::File)
    }

    /// Where a link leads. A file outside of the search directories is read.
    fn behind(
        &self,
        path: &Path,
        target: &Path,
        unit_type: UnitType,
        before: Option<&Entry>,
        notes: &mut Notes,
    ) -> Leads {
        let full = path.parent().map(|directory| directory.join(target)).unwrap_or_default();
        if self.is_inside(&full) {
            return Leads::Inside;
        }
        // A link that leads there may itself lead back.
        let Ok(full) = fs::canonicalize(full) else { return Leads::Nowhere };
        if self.is_inside(&full) {
            return Leads::Inside;
        }
        let Some(metadata) = fs::metadata(&full).ok().filter(fs::Metadata::is_file) else {
            return Leads::Nowhere;
        };
        let before = match before {
            Some(Entry::Link(link)) => match &link.leads {
                Leads::Outside(file) => Some(Entry::File(file.clone())),
                Leads::Inside | Leads::Nowhere => None,
            },
            _ => None,
        };
        let file = self.read_file(path, &metadata, unit_type, before.as_ref(), notes);
        file.map_or(Leads::Nowhere, Leads::Outside)
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
    ) -> Option<File> {
        let identity = Identity::of(metadata);
        notes.work.looked_at += 1;
        let old = match before {
            Some(Entry::File(file)) => Some(file),
            _ => None,
        };
        if let Some(old) = old.filter(|old| old.identity == identity) {
            return Some(old.clone());
        }
        let name: Arc<str> = path.to_string_lossy().into();
        let bytes = read_bounded(path, metadata.len())?;
        let (parsed, diagnostics) = parse(name.clone(), &bytes, unit_type);
        notes.work.parsed += 1;
        if old.is_some() || !diagnostics.is_empty() {
            notes.diagnostics.push((name, diagnostics));
        }
        // Touched but the same is no change: the old value stays the value.
        let parsed = match old.map(|old| &old.parsed).or_else(|| self.known.get(parsed.path())) {
            Some(old) if **old == parsed => old.clone(),
            _ => Arc::new(parsed),
        };
        Some(File { identity, parsed })
    }

    fn note_outside(&mut self, index: usize, name: &str, now: Option<&Entry>) {
        // A mask leads nowhere and always will.
        let leads_out = matches!(now, Some(Entry::Link(link))
            if !matches!(link.leads, Leads::Inside) && &*link.target != "/dev/null");
        if leads_out {
            self.outside.insert((index, name.into()));
        } else if !self.outside.is_empty() {
            self.outside.remove(&(index, Box::from(name)));
        }
    }

    // ---- watches ----

    fn watch_directory(&mut self, index: usize, below: Option<&str>) {
        let Some(watch) = &self.watch else { return };
        let path = match below {
            Some(name) => self.directories[index].path.join(name),
            None => self.directories[index].path.clone(),
        };
        if let Ok(id) = watch.add(&path, WatchFor::Entries) {
            self.watched.insert(id, (index, below.map(Box::from)));
        }
    }

    /// Whether watches are in place, so that [`Snapshot::update`] sees every change.
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Looks at what the watches reported; returns the names that differ. Falls back to a sweep
    /// when reports were lost.
    pub fn update(&mut self) -> BTreeSet<Box<str>> {
        self.work = Work::default();
        let Some(watch) = &self.watch else { return self.sweep_all(false) };
        let mut events = Vec::new();
        match watch.drain(&mut events) {
            Ok(false) => {}
            Ok(true) | Err(_) => return self.sweep_all(false),
        }
        let mut touched: BTreeSet<(usize, Box<str>)> = BTreeSet::new();
        for event in events {
            self.take_event(&event, &mut touched);
        }
        self.outside_links(&mut touched);
        let mut changed = BTreeSet::new();
        for index in self.missing.clone() {
            if self.directories[index].path.is_dir() {
                self.watch_directory(index, None);
                changed.extend(self.sweep_directory(index, false));
            }
        }
        for (index, name) in touched {
            if self.refresh(index, &name) {
                changed.insert(name);
            }
        }
        changed
    }

    fn take_event(&mut self, event: &Change, touched: &mut BTreeSet<(usize, Box<str>)>) {
        let Some((index, below)) = self.watched.get(&event.watch) else { return };
        let index = *index;
        match (below, event.name.to_str()) {
            (Some(name), _) => {
                touched.insert((index, name.clone()));
            }
            // The search directory itself went away or was replaced.
            (None, Some("")) => {
                let names = self.directories[index].entries.keys().cloned();
                touched.extend(names.map(|name| (index, name)));
                self.missing.insert(index);
            }
            (None, Some(name)) => {
                touched.insert((index, name.into()));
            }
            (None, None) => {}
        }
        if event.ended {
            self.watched.remove(&event.watch);
        }
    }

    /// Files behind links out of the search directories are not watched: looked at each time.
    fn outside_links(&self, touched: &mut BTreeSet<(usize, Box<str>)>) {
        touched.extend(self.outside.iter().cloned());
    }

    /// Looks at one name again; true if it differs.
    fn refresh(&mut self, index: usize, name: &str) -> bool {
        let path = self.directories[index].path.join(name);
        let before = self.directories[index].entries.remove(name);
        self.directories[index].listed.remove(name);
        let now = self.look(index, &path, name, before.as_ref());
        self.enter(index, name, before, now)
    }

    /// Puts what a name is now in the place of what it was; true if it differs.
    fn enter(
        &mut self,
        index: usize,
        name: &str,
        before: Option<Entry>,
        now: Option<Entry>,
    ) -> bool {
        let differs = match (&before, &now) {
            (Some(before), Some(now)) => !same(before, now),
            (None, None) => false,
            _ => true,
        };
        self.structure_changed |= differs && !both_files(before.as_ref(), now.as_ref());
        self.note_outside(index, name, now.as_ref());
        if let Some(now) = now {
            self.directories[index].entries.insert(name.into(), now);
        }
        differs
    }
}

/// The names in a directory.
fn sorted_names(path: &Path) -> std::io::Result<Vec<String>> {
    let entries = fs::read_dir(path)?.flatten().take(ENTRIES_MAX);
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// Whether the entry of this name is the file that it was.
fn is_same_file(directory: Option<&fs::File>, name: &str, before: Option<&Entry>) -> bool {
    let (Some(directory), Some(Entry::File(file))) = (directory, before) else { return false };
    let facts = warren_sys::file::stat_at(directory.as_fd(), name);
    facts.is_ok_and(|facts| facts.is_file && Identity::of_parts(facts.parts) == file.identity)
}

fn both_files(before: Option<&Entry>, now: Option<&Entry>) -> bool {
    matches!((before, now), (Some(Entry::File(_)), Some(Entry::File(_))))
}

/// Whether two looks at an entry saw the same, but for its identity.
fn same(a: &Entry, b: &Entry) -> bool {
    match (a, b) {
        (Entry::File(a), Entry::File(b)) => Arc::ptr_eq(&a.parsed, &b.parsed),
        (Entry::Link(a), Entry::Link(b)) => {
            a.target == b.target
                && match (&a.leads, &b.leads) {
                    (Leads::Outside(x), Leads::Outside(y)) => Arc::ptr_eq(&x.parsed, &y.parsed),
                    (Leads::Inside, Leads::Inside) | (Leads::Nowhere, Leads::Nowhere) => true,
                    _ => false,
                }
        }
        (Entry::Directory(a), Entry::Directory(b)) => {
            a.len() == b.len()
                && a.iter().zip(b.iter()).all(|((n, x), (m, y))| n == m && same(x, y))
        }
        (Entry::Wrong(a), Entry::Wrong(b)) => a == b,
        _ => false,
    }
}

/// The file's bytes, no more than the bound and one (so that the parser, which has a lower bound,
/// reports it). Nothing if it vanished; a byte that is no text if it cannot be read, so that it
/// counts as broken and not as empty, which would mask the unit.
fn read_bounded(path: &Path, size: u64) -> Option<Vec<u8>> {
    use std::io::Read;
    let bound = size.clamp(1 << 20, FILE_BYTES_MAX) + 1;
    let mut bytes = Vec::with_capacity(size.min(1 << 16) as usize);
    match fs::File::open(path).and_then(|file| file.take(bound).read_to_end(&mut bytes)) {
        Ok(_) => Some(bytes),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => Some(vec![0xff]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    impl Scratch {
        /// `PATH` with a text, `PATH -> TARGET`, or `- PATH` to take one away.
        fn edit(&self, edit: &str) {
            let place = |name: &str| {
                let path = self.0.join(name);
                fs::create_dir_all(path.parent().expect("it is in the directory")).expect("mkdir");
                let _ = fs::remove_file(&path);
                path
            };
            match edit.split_once(' ') {
                Some(("-", name)) => _ = place(name),
                Some((name, target)) if target.starts_with("-> ") => {
                    std::os::unix::fs::symlink(&target[3..], place(name)).expect("a link");
                }
                Some((name, text)) => fs::write(place(name), text).expect("a file"),
                None => panic!("no edit: {edit}"),
            }
        }
    }

    #[test]
    fn looking_at_all_again_sees_what_reading_all_sees() {
        let scratch = Scratch::new("sweep");
        let read = || Snapshot::read_unwatched(vec![scratch.0.clone()]);
        for name in ["a", "c", "e", "g"] {
            scratch.edit(&format!("{name}.service [Service]"));
        }
        scratch.edit("x.target.wants/a.service -> ../a.service");
        scratch.edit("a.service.d/1.conf [Unit]");
        let mut snapshot = read();
        for (edit, changed) in [
            ("c.service [Unit]\nDescription=longer", "c.service"),
            ("0.service [Service]", "0.service"),
            ("d.service -> c.service", "d.service"),
            ("z.service -> /dev/null", "z.service"),
            ("d.service [Service]", "d.service"),
            ("- a.service", "a.service"),
            ("- z.service", "z.service"),
            ("x.target.wants/e.service -> ../e.service", "x.target.wants"),
            ("x.target.wants/a.service -> /dev/null", "x.target.wants"),
            ("- x.target.wants/e.service", "x.target.wants"),
            ("a.service.d/1.conf [Unit]\nDescription=longer", "a.service.d"),
            ("y.target.requires/c.service -> ../c.service", "y.target.requires"),
            ("notes about nothing", ""),
        ] {
            scratch.edit(edit);
            // Without a watch nothing but the files tells.
            let trusting = edit.starts_with("a.service.d");
            let seen: Vec<Box<str>> = snapshot.sweep_all(trusting).into_iter().collect();
            let want: Vec<Box<str>> =
                Some(changed.into()).filter(|_| !changed.is_empty()).into_iter().collect();
            assert_eq!(seen, want, "{edit}");
            let (now, fresh) = (&snapshot.directories[0].entries, &read().directories[0].entries);
            assert!(now.keys().eq(fresh.keys()), "{edit}");
        }
        assert!(snapshot.sweep().is_empty(), "nothing was done since");
    }
}
