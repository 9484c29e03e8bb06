//! Files of systemd's journal that are shown with ours: those that `--file` names, those in a
//! directory that is named, and by default what its daemon left on this system.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::denied::Denied;
use crate::failure::Failure;
use crate::glob::fits;
use crate::report::put_verdict;
use warren_log_store::entry::Id128;
use warren_log_store::places;
use warren_log_store::query::Union;
use warren_log_store::query::union::Positions;
use warren_log_store::store::names::FileName;
use warren_log_store::systemd::SystemdFile;
use warren_log_store::time;
use warren_sys::progress::Progress;

/// Where systemd keeps them, below the root and in a directory named by the machine's id.
const DIRECTORIES: [&str; 2] = ["var/log/journal", "run/log/journal"];

/// Most files that are opened.
const FILES_MAX: usize = 4096;

/// Whether a file has the name of a log or a segment of ours.
pub fn is_own(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).and_then(FileName::parse).is_some()
}

/// A file that is read.
struct ForeignFile {
    /// Its place among the stores.
    part: usize,
    /// What it is on the disk; nothing else is as long as it is open.
    inode: Inode,
}

/// Device and number of a file.
type Inode = (u64, u64);

fn inode_of(path: &Path) -> Option<Inode> {
    path.metadata().ok().map(|stat| (stat.dev(), stat.ino()))
}

/// The files that are read, and where more may come.
pub struct Foreign {
    args: Args,
    /// Those that were added, by their ids: one that gets another name is the same.
    known: BTreeMap<Id128, ForeignFile>,
    /// Files that cannot be read, which is said once.
    refused: BTreeSet<PathBuf>,
    /// The log is not for the caller: what he logged himself is in a copy of it that is for him.
    shows_own: bool,
}

impl Foreign {
    /// Adds what the options name. What cannot be read is said, and does not stop the rest, unless
    /// `--file` named it; what the caller may not read is given.
    pub fn add(
        args: &Args,
        (journal, is_closed): (&mut Union, bool),
        denied: &mut Denied,
    ) -> Result<Foreign, Failure> {
        let shows_own = is_closed && args.file.is_empty() && args.directory.is_none();
        let (args, known) = (args.clone(), BTreeMap::new());
        let mut foreign = Foreign { args, known, refused: BTreeSet::new(), shows_own };
        for path in foreign.paths()? {
            match SystemdFile::open(&path) {
                Ok(file) => {
                    let inode = inode_of(&path).unwrap_or_default();
                    foreign.take(file, inode, journal);
                }
                Err(e) if e.is_gone() => {}
                Err(e) if !foreign.args.file.is_empty() => return Err(e.into()),
                // That of somebody else.
                Err(e) if e.is_of_access() && is_mirror(&path) => _ = foreign.refused.insert(path),
                Err(e) => {
                    match e.is_of_access() {
                        true => denied.add(path.clone()),
                        false => warren_sys::tell!("{e}"),
                    }
                    foreign.refused.insert(path);
                }
            }
        }
        Ok(foreign)
    }

    fn paths(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut paths = paths(&self.args)?;
        if self.shows_own {
            let found = directories(&self.args).into_iter().flat_map(|path| files_of(&path));
            paths.extend(found.filter(|path| is_mirror(path)));
            paths.truncate(FILES_MAX);
        }
        Ok(paths)
    }

    fn take(&mut self, file: SystemdFile, inode: Inode, journal: &mut Union) {
        let (id, part) = (file.header().file, journal.parts());
        match self.known.get_mut(&id) {
            Some(known) => known.inode = inode,
            None => {
                self.known.insert(id, ForeignFile { part, inode });
                journal.add(Box::new(file));
            }
        }
    }

    /// Adds files that have come since, and a position in each: the furthest that is known of their sequence, as numbers
    /// go on from file to file. A new one takes the place of one that is gone, which was read to its end: who follows
    /// for long holds no more files than there are. One that cannot be read yet is tried again the next time.
    pub fn add_new(
        &mut self,
        journal: &mut Union,
        positions: &mut Positions,
    ) -> Result<(), Failure> {
        let paths = self.paths().unwrap_or_default().into_iter();
        let found: Vec<(PathBuf, Inode)> =
            paths.filter_map(|path| inode_of(&path).map(|inode| (path, inode))).collect();
        let known: BTreeSet<Inode> = self.known.values().map(|known| known.inode).collect();
        for (path, inode) in &found {
            if known.contains(inode) || self.refused.contains(path) {
                continue;
            }
            let Ok(file) = SystemdFile::open(path) else { continue };
            let position = journal.furthest(file.header().sequence, positions)?;
            match self.gone(&found).filter(|_| !self.known.contains_key(&file.header().file)) {
                Some(gone) => {
                    let Some(ForeignFile { part, .. }) = self.known.remove(&gone) else { continue };
                    let id = file.header().file;
                    self.known.insert(id, ForeignFile { part, inode: *inode });
                    journal.replace(part, Box::new(file));
                    positions[part] = position;
                }
                None if journal.parts() < FILES_MAX => {
                    self.take(file, *inode, journal);
                    positions.resize(journal.parts(), position);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// A file that was added and is there no more.
    fn gone(&self, found: &[(PathBuf, Inode)]) -> Option<Id128> {
        let is_there = |known: &ForeignFile| found.iter().any(|(_, inode)| *inode == known.inode);
        self.known.iter().find(|(_, known)| !is_there(known)).map(|(id, _)| *id)
    }

    /// The directories of the files: those of a copy of our own store alone are left out.
    pub fn watched(&self) -> Vec<PathBuf> {
        let mut all = match self.args.file.is_empty() {
            true => directories(&self.args),
            false => {
                let parents = self.args.file.iter().filter_map(|path| path.parent());
                let here = |path: &Path| path.as_os_str().is_empty();
                let parents = parents.map(|path| if here(path) { Path::new(".") } else { path });
                parents.map(Path::to_owned).collect()
            }
        };
        let is_meant = |path: &PathBuf| {
            let is_named = self.args.directory.is_some() || !self.args.file.is_empty();
            let is_named = is_named || self.shows_own;
            is_named || files_of(path).iter().any(|path| !is_mirror(path))
        };
        all.retain(|path| path.is_dir() && is_meant(path));
        all
    }
}

/// What the files that the options name take on the device, bytes: they have holes.
pub fn bytes(args: &Args) -> u64 {
    /// What st_blocks counts; inode(7).
    const BLOCK_BYTES: u64 = 512;
    let paths = paths(args).unwrap_or_default();
    paths.iter().filter_map(|path| path.metadata().ok()).map(|m| m.blocks() * BLOCK_BYTES).sum()
}

/// Reads every entry of the files, and says on stderr of each whether that can be done. Seals of
/// systemd's are not looked at.
pub fn verify(args: &Args) -> Result<bool, Failure> {
    let mut whole = true;
    let (paths, mut progress) = (paths(args)?, Progress::begin(args.quiet));
    let count = paths.len();
    for (at, path) in paths.into_iter().enumerate() {
        progress.tell(|| format!("Checked {at} of {count} files, at {}", path.display()));
        let faults = match SystemdFile::open(&path) {
            Ok(file) => file.verify().unwrap_or_else(|e| vec![e]),
            Err(e) => vec![e],
        };
        progress.clear();
        put_verdict(&path, &faults, args.quiet);
        whole &= faults.is_empty();
    }
    Ok(whole)
}

/// Says what each file holds.
pub fn header(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    for path in paths(args)? {
        let file = match SystemdFile::open(&path) {
            Err(e) if args.file.is_empty() => {
                warren_sys::tell!("{e}");
                continue;
            }
            file => file?,
        };
        let header = file.header();
        let (first, last) = header.realtime_us;
        let print = |us| time::print(us, &args.zone(), "%a %Y-%m-%d %H:%M:%S %Z");
        writeln!(out, "File path: {}", path.display())?;
        writeln!(out, "Sequential number ID: {}", header.sequence)?;
        writeln!(out, "State: SYSTEMD\nEntries: {}", header.count)?;
        writeln!(out, "Head realtime timestamp: {}", print(first))?;
        writeln!(out, "Tail realtime timestamp: {}\n", print(last))?;
    }
    Ok(())
}

/// The files that `--file` names, whoever wrote them.
pub fn named(args: &Args) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for glob in &args.file {
        let found = matching(glob);
        if found.is_empty() {
            return Err(Failure(format!("{}: no such file", glob.display())));
        }
        paths.extend(found);
    }
    Ok(paths)
}

fn paths(args: &Args) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = named(args)?;
    paths.retain(|path| !is_own(path));
    if args.file.is_empty() {
        let mut found =
            directories(args).iter().flat_map(|directory| files_of(directory)).collect();
        paths.append(&mut found);
        // A mirror of our own store has nothing that is not there.
        paths.retain(|path| args.directory.is_some() || !is_mirror(path));
    }
    paths.truncate(FILES_MAX);
    Ok(paths)
}

fn is_mirror(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(places::is_mirror)
}

fn directories(args: &Args) -> Vec<PathBuf> {
    if let Some(directory) = &args.directory {
        return with_machines(directory);
    }
    if args.in_memory {
        return Vec::new();
    }
    if args.merge || args.root.is_some() {
        return directories_below(args);
    }
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match machine.trim() {
        "" => Vec::new(),
        id => {
            let name = |namespace: Option<String>| match namespace {
                Some(namespace) => format!("{id}.{namespace}"),
                None => id.to_owned(),
            };
            let names: Vec<String> = args.namespaces().into_iter().map(name).collect();
            let below = |path| names.iter().map(move |name| args.root().join(path).join(name));
            DIRECTORIES.iter().flat_map(below).collect()
        }
    }
}

/// A directory and, as with systemd 252, those in it that are named by the id of a machine: so
/// `-D /var/log/journal` shows what is there.
fn with_machines(directory: &Path) -> Vec<PathBuf> {
    let is_machine = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        Id128::parse(name).is_some() && path.is_dir()
    };
    let machines = listing(directory).into_iter().filter(is_machine);
    std::iter::once(directory.to_owned()).chain(machines).collect()
}

/// Below the root, as with systemd 252: those of any machine, and of the namespaces.
fn directories_below(args: &Args) -> Vec<PathBuf> {
    let namespaces = args.namespaces();
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let (id, namespace) = name.split_once('.').map_or((name, None), |(id, it)| (id, Some(it)));
        let named = namespaces.iter().any(|wanted| wanted.as_deref() == namespace);
        named && Id128::parse(id).is_some() && path.is_dir()
    };
    let parents = DIRECTORIES.iter().map(|path| args.root().join(path));
    parents.flat_map(|parent| listing(&parent)).filter(is_wanted).collect()
}

/// Files that journalctl(1) takes for its own.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let ours = |path: &PathBuf| {
        let extension = path.extension().and_then(OsStr::to_str);
        matches!(extension, Some("journal" | "journal~"))
    };
    listing(directory).into_iter().filter(ours).collect()
}

/// The paths that fit a pattern: `*` and `?` in any part.
fn matching(glob: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in glob.components() {
        let name = part.as_os_str();
        let is_pattern = name.as_encoded_bytes().iter().any(|byte| b"*?".contains(byte));
        found = match is_pattern {
            false => found.into_iter().map(|path| path.join(name)).collect(),
            true => found.iter().flat_map(|path| fitting(path, name)).take(FILES_MAX).collect(),
        };
    }
    found.retain(|path| path.exists());
    found
}

/// What fits a pattern in a directory; hidden files are not meant, as in a shell.
fn fitting(directory: &Path, pattern: &OsStr) -> Vec<PathBuf> {
    let here = directory.as_os_str().is_empty();
    let all = listing(if here { Path::new(".") } else { directory });
    let names = all.iter().filter_map(|path| path.file_name());
    let (pattern, is_hidden) = (pattern.as_encoded_bytes(), |name: &[u8]| name.starts_with(b"."));
    let fit = names.filter(|name| {
        let name = name.as_encoded_bytes();
        fits(pattern, name) && is_hidden(name) == is_hidden(pattern)
    });
    fit.map(|name| directory.join(name)).collect()
}

/// Files of a directory, by name; none of one that cannot be read.
fn listing(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
