//! What the unit directories hold: the ground state of loading.
//!
//! One listing per search directory, kept up to date by watches. A file is read again only if its
//! stat identity changed, and counts as changed only if what it parses to differs. Nothing here
//! knows what the files mean to units; see `loader`. `look` is what is read of a file, `watch` what
//! the kernel tells, `untold` what it does not. `masks` says which links lead to nothing on purpose.

mod look;

mod masks;

mod untold;

mod watch;

use crate::base::file_identity::Identity;
use look::{both_files, names_in};
pub(crate) use look::{is_shortage, open_to_read, said};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
pub use untold::LinkedDirectory;
use warren_sys::inotify::{Inotify, WatchId};
use warren_sys::mount::MountNews;
use warren_unit::Diagnostic;
use warren_unit::parse::UnitFile;
use warren_unit::search::directory_kind;

/// Entries of one directory that are looked at.
const ENTRIES_MAX: usize = 1 << 20;

/// Bytes of settings that are kept of all files together, in memory; of a file that goes beyond nothing
/// is used. 40,000 ordinary files have some 10 MB.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// One entry of a unit directory.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A file of unit settings.
    File(File),
    /// A symbolic link; what it leads to is resolved by name.
    Link(Box<Link>),
    /// A `.d`, `.wants`, `.requires` or `.upholds` directory. In a box: of 40,000 entries most are files.
    #[allow(clippy::box_collection)]
    Directory(Box<BTreeMap<Box<str>, Entry>>),
    /// Something that is no unit file: a directory or device with a unit's name.
    Wrong(&'static str),
}

impl Entry {
    /// The file that it is, or that a link out of the search directories leads to.
    pub(crate) fn file(&self) -> Option<&File> {
        match self {
            Entry::File(file) => Some(file),
            Entry::Link(link) => match &link.leads {
                Leads::Outside(file) => Some(file),
                Leads::Inside | Leads::Nowhere => None,
            },
            Entry::Directory(_) | Entry::Wrong(_) => None,
        }
    }

    /// Bytes of settings that it keeps.
    fn kept_bytes(&self) -> usize {
        match self {
            Entry::Directory(entries) => entries.values().map(Entry::kept_bytes).sum(),
            _ => self.file().map_or(0, |file| file.parsed.heap_bytes()),
        }
    }

    /// The links out of the search directories that it is or has in it. A mask leads nowhere and
    /// always will.
    fn links_out(&self) -> impl Iterator<Item = &Link> {
        let (own, inner) = match self {
            Entry::Link(link) => (Some(link), None),
            Entry::Directory(entries) => (None, Some(entries.values())),
            Entry::File(_) | Entry::Wrong(_) => (None, None),
        };
        let inner = inner.into_iter().flatten().filter_map(|entry| match entry {
            Entry::Link(link) => Some(link),
            _ => None,
        });
        let all = own.into_iter().chain(inner).map(|link| &**link);
        all.filter(|link| !matches!(link.leads, Leads::Inside) && &*link.target != "/dev/null")
    }

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
    /// To a name in a search directory, by itself: it is another name of that unit.
    Inside,
    /// To a file elsewhere, which is the unit's own, as that of a drop-in is wherever it lies; its
    /// path is the link's.
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
        File { identity: Identity::NONE, parsed }
    }
}

/// One search directory.
#[derive(Debug)]
pub struct Directory {
    /// Its path.
    pub path: PathBuf,
    /// The same without links, if that is another, when it was last looked at.
    real: Option<PathBuf>,
    /// Nobody reads it from a disk: it is what rules made (see `fleet`).
    pub is_made: bool,
    /// Units, templates and their directories by name, which the unit shares.
    pub entries: BTreeMap<Arc<str>, Entry>,
    /// The directories of links among them, as they were when they were listed. A link is replaced
    /// and never changed, so that such a directory has changed when one of its links has.
    listed: BTreeMap<Box<str>, Identity>,
    /// Device and inode that it had when it was last looked at, if it was there.
    inode: Option<(u64, u64)>,
}

impl Directory {
    fn new(path: PathBuf, is_made: bool) -> Directory {
        let (entries, listed) = (BTreeMap::new(), BTreeMap::new());
        Directory { path, real: None, is_made, entries, listed, inode: None }
    }

    /// Device and inode of what is at its path now.
    fn inode_now(&self) -> Option<(u64, u64)> {
        fs::metadata(&self.path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    /// Whether its path leads to another directory than before: something was mounted there, or a
    /// directory above it was replaced, of which its watch tells nothing.
    fn is_another(&self) -> bool {
        !self.is_made && self.inode_now() != self.inode
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

/// The entry that counts of those of this name, and its directory's place among these: the first, of which one
/// that is no unit file is passed over if there is another.
pub(crate) fn strongest<'d>(
    directories: &'d [Directory],
    name: &str,
) -> Option<(usize, &'d Entry)> {
    let mut wrong = None;
    for (index, directory) in directories.iter().enumerate() {
        match directory.entries.get(name) {
            None | Some(Entry::Directory(_)) => {}
            Some(entry @ Entry::Wrong(_)) => wrong = wrong.or(Some((index, entry))),
            Some(entry) => return Some((index, entry)),
        }
    }
    wrong
}

/// Behind which links out of the search directories a look goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Links<'a> {
    All,
    /// Those to where configuration lies, and of these entries all. What else is known of a name with
    /// other links stays.
    Nearby(&'a BTreeSet<Box<str>>),
    /// Those of these entries only; those to elsewhere only if it goes far.
    Of {
        asked: &'a BTreeSet<Box<str>>,
        goes_far: bool,
    },
}

/// A search directory, and the name of an entry of it.
type Place = (usize, Box<str>);

/// A search directory, or a directory of this name in it.
type Watched = (usize, Option<Box<str>>);

/// All search directories, highest precedence first.
pub struct Snapshot {
    /// In order of precedence.
    pub directories: Vec<Directory>,
    watch: Option<Arc<Inotify>>,
    /// When it was last looked, ns since 1970 by the clock of file systems.
    looked_at_ns: u64,
    /// The same of what lies behind links to where configuration does.
    looked_behind_at_ns: u64,
    /// Which directories, or which directories in them, a watch is for: several if links make one of
    /// them.
    watched: BTreeMap<WatchId, BTreeSet<Watched>>,
    /// What each look goes to, as no watch tells of it: links that lead out of the search directories, be it to
    /// nothing yet, directories that are links, and directories that have such links, or files with other names.
    outside: BTreeSet<Place>,
    /// The files with other names, to which each look goes for the same reason.
    named: BTreeSet<Place>,
    /// Such a file was new, or another than before: one of its names may be that of a file which had no other when
    /// it was last looked at.
    has_new_names: bool,
    /// Names of entries that came, went or changed, and are or were masks or links, since this was last asked.
    remasked: BTreeSet<Box<str>>,
    /// There are others of those since this was last asked.
    outside_changed: bool,
    /// Directories that are links, by their paths.
    linked: Arc<BTreeMap<PathBuf, LinkedDirectory>>,
    /// Devices, and whether watches tell of all that is done there, as this look found it.
    devices: BTreeMap<u64, bool>,
    /// Tells that something was mounted, somewhere.
    mounts: Option<MountNews>,
    /// Entries at or below which something was mounted when it last told.
    mounted: BTreeSet<Place>,
    /// Search directories that did not exist, or could not be read, when they were last looked at.
    missing: BTreeSet<usize>,
    /// What could not be looked at for want of descriptors or memory, or not to its end.
    again: BTreeSet<Place>,
    /// The first such want of the last look, in words.
    short: Option<String>,
    /// The first directory that the last look could not read to its end for another reason, in words.
    unread: Option<String>,
    /// Bytes of settings that are kept.
    kept_bytes: usize,
    /// The same of those that were read and are not entered yet.
    read_bytes: AtomicUsize,
    /// See [`KEPT_BYTES_MAX`]; fewer in tests.
    kept_bytes_max: usize,
    /// Some directory could not be watched: only looking at all tells what changed.
    is_partly_watched: bool,
    /// That was said.
    is_unwatched_said: bool,
    /// Files that the last incarnation had read, by path; those that are the same stay these.
    known: KnownFiles,
    /// Diagnostics of parsing, by path.
    pub diagnostics: BTreeMap<Arc<str>, Vec<Diagnostic>>,
    /// Something other than the content of a file changed: names, links, directories. Whoever
    /// keeps an index of those clears it.
    pub structure_changed: bool,
    /// Names of files of units that came or went, and were or are nothing but files: what links lead to may be
    /// another by that, and no directory is.
    pub plain_changes: BTreeSet<Box<str>>,
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
    #[cfg(test)]
    pub fn read_unwatched(paths: Vec<PathBuf>) -> Snapshot {
        Snapshot::read_with(paths, None, KnownFiles::new())
    }

    fn read_with(paths: Vec<PathBuf>, watch: Option<Inotify>, known: KnownFiles) -> Snapshot {
        let directories = paths.into_iter().map(|path| Directory::new(path, false)).collect();
        let mut snapshot = Snapshot {
            directories,
            watch: watch.map(Arc::new),
            looked_at_ns: 0,
            looked_behind_at_ns: 0,
            watched: BTreeMap::new(),
            outside: BTreeSet::new(),
            named: BTreeSet::new(),
            has_new_names: false,
            remasked: BTreeSet::new(),
            outside_changed: false,
            linked: Arc::default(),
            devices: BTreeMap::new(),
            mounts: None,
            mounted: BTreeSet::new(),
            missing: BTreeSet::new(),
            again: BTreeSet::new(),
            short: None,
            unread: None,
            kept_bytes: 0,
            read_bytes: AtomicUsize::new(0),
            kept_bytes_max: KEPT_BYTES_MAX,
            is_partly_watched: false,
            is_unwatched_said: false,
            known,
            diagnostics: BTreeMap::new(),
            structure_changed: true,
            plain_changes: BTreeSet::new(),
            work: Work::default(),
        };
        if snapshot.watch.is_some() {
            snapshot.look_at_mounts();
        }
        snapshot.sweep();
        snapshot.known.clear();
        snapshot.remasked.clear();
        snapshot
    }

    /// Enters a directory that nobody reads from a disk, at this place in the order.
    pub(crate) fn add_made(&mut self, at: usize, path: PathBuf) {
        self.directories.insert(at, Directory::new(path, true));
        let shifted = |index: usize| index + usize::from(index >= at);
        for places in self.watched.values_mut() {
            *places = std::mem::take(places).into_iter().map(|(i, n)| (shifted(i), n)).collect();
        }
        for names in [&mut self.outside, &mut self.named, &mut self.again, &mut self.mounted] {
            *names = std::mem::take(names).into_iter().map(|(i, n)| (shifted(i), n)).collect();
        }
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

    /// Its watch, if that tells everything, and when it last looked.
    pub fn watched(&self) -> (Option<Arc<Inotify>>, u64) {
        (self.watch.clone().filter(|_| !self.is_partly_watched), self.looked_at_ns)
    }

    /// When it last looked behind links to where configuration lies, by the same clock.
    pub fn looked_behind_at_ns(&self) -> u64 {
        self.looked_behind_at_ns
    }

    /// Why the last look did not see everything: for want of descriptors or memory. What it did not see
    /// is as it was, and is looked at again next time.
    pub fn shortage(&self) -> Option<&str> {
        self.short.as_deref()
    }

    /// A directory that the last look could not read to its end, and why. What was known of it stays,
    /// and it is looked at again next time.
    pub fn unread(&self) -> Option<&str> {
        self.unread.as_deref()
    }

    fn look_again(&mut self, index: usize, name: &str, error: &std::io::Error) {
        let path = self.directories[index].path.join(name);
        self.note_unseen(&path, error);
        self.again.insert((index, name.into()));
    }

    fn note_unseen(&mut self, path: &Path, error: &std::io::Error) {
        let first = if is_shortage(error) { &mut self.short } else { &mut self.unread };
        first.get_or_insert_with(|| format!("{}: {}", path.display(), said(error)));
    }

    /// Nothing is wrong with the look that begins now.
    fn begin_look(&mut self, links: Links<'_>) {
        self.begin_part();
        self.looked_at_ns = warren_sys::time::coarse_ns();
        if !matches!(links, Links::Of { .. }) {
            self.looked_behind_at_ns = self.looked_at_ns;
        }
    }

    /// The same of one that does not see all that has changed.
    fn begin_part(&mut self) {
        self.work = Work::default();
        self.devices.clear();
        (self.short, self.unread) = (None, None);
    }

    /// Looks at every file; returns the names (below the search directories) that differ.
    pub fn sweep(&mut self) -> BTreeSet<Box<str>> {
        self.sweep_all(true, Links::All)
    }

    fn sweep_all(&mut self, trusting: bool, links: Links<'_>) -> BTreeSet<Box<str>> {
        // Every directory is looked into, and so watched if there is room for that by now.
        let trusting = !std::mem::take(&mut self.is_partly_watched) && trusting;
        self.begin_look(links);
        let mut changed = BTreeSet::new();
        for index in 0..self.directories.len() {
            if self.directories[index].is_made {
                continue;
            }
            changed.extend(self.watch_and_sweep(index, trusting, links));
        }
        self.is_unwatched_said &= self.is_partly_watched;
        changed
    }

    fn watch_and_sweep(
        &mut self,
        index: usize,
        trusting: bool,
        links: Links<'_>,
    ) -> BTreeSet<Box<str>> {
        // First, so that what takes its place meanwhile is seen the next time.
        let directory = &mut self.directories[index];
        directory.inode = directory.inode_now();
        directory.real =
            fs::canonicalize(&directory.path).ok().filter(|real| *real != directory.path);
        let device = self.directories[index].inode.map_or(0, |(device, _)| device);
        self.watch_directory(index, None, false, device);
        self.sweep_directory(index, trusting, links)
    }

    /// `trusting` takes the times of a directory of links for what was done to it. They are as
    /// coarse as the kernel's clock tick, so that this needs a watch that tells what they do not.
    fn sweep_directory(
        &mut self,
        index: usize,
        trusting: bool,
        links: Links<'_>,
    ) -> BTreeSet<Box<str>> {
        let path = self.directories[index].path.clone();
        let names = names_in(&path);
        match &names {
            Ok(Some(_)) => self.missing.remove(&index),
            Ok(None) | Err(_) => self.missing.insert(index),
        };
        let mut names = match names {
            Ok(names) => names.unwrap_or_default(),
            Err(error) => {
                self.note_unseen(&path, &error);
                return BTreeSet::new();
            }
        };
        let mut others = self.directories[index].gone(&names);
        let mut held = Vec::new();
        if links != Links::All && !self.outside.is_empty() {
            let place = |name: &String| (index, name.as_str().into());
            (names, held) = names.into_iter().partition(|name| self.is_due(&place(name), links));
            held.retain(|name| self.is_held(&place(name), links));
        }
        let (directories, files): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|name| directory_kind(name).is_some());
        others.extend(directories);
        let mut changed = self.refresh_files(index, files);
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
        for name in held {
            if self.refresh_nearby(index, &name) {
                changed.insert(name.into());
            }
        }
        changed
    }

    /// Looks at these entries again that are no directories; `names` is sorted. The names that differ.
    fn refresh_files(&mut self, index: usize, names: Vec<String>) -> BTreeSet<Box<str>> {
        let mut changed = BTreeSet::new();
        for (name, now) in self.look_at_files(index, names) {
            let before = self.directories[index].entries.remove(name.as_str());
            if self.enter(index, &name, before, now) {
                changed.insert(name.into());
            }
        }
        *self.read_bytes.get_mut() = 0;
        changed
    }

    /// Looks at one name again; true if it differs.
    fn refresh(&mut self, index: usize, name: &str) -> bool {
        let path = self.directories[index].path.join(name);
        let before = self.directories[index].entries.remove(name);
        self.directories[index].listed.remove(name);
        let looked = self.look(index, &path, name, before.as_ref());
        *self.read_bytes.get_mut() = 0;
        match looked {
            Ok(now) => self.enter(index, name, before, now),
            Err(error) => {
                let entries = &mut self.directories[index].entries;
                entries.extend(before.map(|before| (name.into(), before)));
                self.look_again(index, name, &error);
                false
            }
        }
    }

    /// Looks again at those files of a directory that are links to where configuration lies; true if one
    /// differs.
    fn refresh_nearby(&mut self, index: usize, name: &str) -> bool {
        let Some(before) = self.directories[index].entries.remove(name) else { return false };
        let path = self.directories[index].path.join(name);
        let now = self.look_nearby(index, &path, name, &before);
        *self.read_bytes.get_mut() = 0;
        self.enter(index, name, Some(before), Some(now))
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
        if differs {
            self.note_masks(name, before.as_ref(), now.as_ref());
        }
        let bytes = |entry: Option<&Entry>| entry.map_or(0, Entry::kept_bytes);
        self.kept_bytes += bytes(now.as_ref());
        self.kept_bytes -= bytes(before.as_ref());
        match differs && !both_files(before.as_ref(), now.as_ref()) {
            true if is_plain(before.as_ref()) && is_plain(now.as_ref()) => {
                self.plain_changes.insert(name.into());
            }
            differs => self.structure_changed |= differs,
        }
        self.note_outside(index, name, now.as_ref());
        self.has_new_names |= now.as_ref().is_some_and(|now| now.has_new_names(before.as_ref()));
        if let Some(now) = now {
            self.directories[index].entries.insert(name.into(), now);
        }
        differs
    }
}

/// Whether there is nothing, or a file.
fn is_plain(entry: Option<&Entry>) -> bool {
    matches!(entry, None | Some(Entry::File(_)))
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

#[cfg(test)]
mod tests;
