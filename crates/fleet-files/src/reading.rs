//! Answers for one evaluation: files, patterns, the clock, the environment.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use warren_fleet::Source;
use warren_fleet::ast::IncludeKind;
use warren_fleet::outside::{Data, Facts, Include, Outside};

use crate::find;
use crate::identity::Identity;
use crate::{ALL_BYTES_MAX, FILE_BYTES_MAX};

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    pub identity: Identity,
    pub source: Source,
    /// On whose word it was read.
    pub word: Word,
}

/// Files that a pattern finds.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub asked: IncludeRequest,
    pub found: Vec<PathBuf>,
    /// On whose word.
    pub word: Word,
}

/// Which files an `include` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IncludeRequest {
    /// `include "a.conf"`, `include "*.conf"`: the path, which may be a pattern.
    Path(PathBuf),
    /// `include_recursive "dir", "*.conf"`: the directory and the pattern of names below it.
    Below(PathBuf, String),
}

/// What an evaluation looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observation {
    pub files: BTreeMap<PathBuf, SourceFile>,
    pub patterns: Vec<Pattern>,
    pub directories: Vec<PathBuf>,
    /// What was asked for in vain, and what was there instead.
    pub refused: Vec<(PathBuf, Option<Identity>)>,
}

/// Takes a line that a configuration logs.
pub type Log<'l> = &'l mut (dyn FnMut(&str) + Send);

/// Answers what an evaluation asks, and notes what it looked at.
pub struct Reading<'r> {
    pub(crate) seen: &'r mut Observation,
    /// What was read before: a file that is as it was then is not read again.
    pub(crate) before: &'r BTreeMap<PathBuf, SourceFile>,
    pub(crate) search: &'r [PathBuf],
    pub(crate) reach: &'r Reach,
    pub(crate) bytes: u64,
    pub(crate) log: Log<'r>,
}

impl IncludeRequest {
    /// What an `include` asks for.
    ///
    /// # Errors
    /// In words: `include <...>` has no search path here.
    pub fn of(include: &Include) -> Result<IncludeRequest, String> {
        let directory = Path::new(&include.from).parent().unwrap_or(Path::new(""));
        let path = directory.join(&include.path);
        match include.kind {
            IncludeKind::Search => {
                let name = &include.path;
                Err(format!(
                    "Include file '{name}' does not exist: nothing of that name is in the search path"
                ))
            }
            IncludeKind::Recursive | IncludeKind::Zones => {
                let pattern = include.pattern.clone().unwrap_or_else(|| "*.conf".to_owned());
                Ok(IncludeRequest::Below(path, pattern))
            }
            IncludeKind::Relative => Ok(IncludeRequest::Path(path)),
        }
    }

    /// Whether it asks for this file.
    pub fn covers(&self, path: &Path) -> bool {
        match self {
            IncludeRequest::Path(pattern) => find::path_fits(pattern, path),
            IncludeRequest::Below(directory, pattern) => {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                path.starts_with(directory) && find::name_fits(pattern, name)
            }
        }
    }

    /// Which of two files that it asks for is read first.
    pub fn order(&self, a: &Path, b: &Path) -> std::cmp::Ordering {
        match self {
            IncludeRequest::Path(_) => a.cmp(b),
            IncludeRequest::Below(..) => find::read_order(a, b),
        }
    }

    /// The files that it asks for. What a pattern finds and is none, or leads nowhere, is left out.
    pub(crate) fn find(&self, listed: &mut Vec<PathBuf>) -> Vec<PathBuf> {
        match self {
            IncludeRequest::Path(pattern) => {
                let mut found = find::glob_paths(pattern, listed);
                found.retain(|path| fs::metadata(path).is_ok_and(|m| !m.is_dir()));
                found
            }
            IncludeRequest::Below(directory, pattern) => {
                find::below(directory, pattern, find::Selection::FILES, listed)
            }
        }
    }

    /// Looks whether there is the directory in which it asks for files.
    fn check_directory(&self, kind: IncludeKind) -> Result<(), String> {
        let directory = match self {
            IncludeRequest::Path(pattern) => find::fixed_part(pattern),
            IncludeRequest::Below(directory, _) => directory.clone(),
        };
        let directory = if directory.as_os_str().is_empty() { ".".into() } else { directory };
        match fs::metadata(&directory) {
            Ok(m) if kind == IncludeKind::Recursive && !m.is_dir() => {
                Err(format!("Include directory '{}' is not a directory", directory.display()))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(format!("Include directory '{}': {error}", directory.display())),
        }
    }
}

/// What may be read. Faults in a file are shown with its lines, and its text may come to be that of units: who may
/// write rules is not thereby one who may read every file that root can. What root's own files include is root's to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Every file.
    Everything,
    /// What lies below this directory, links followed, and what everybody may read.
    Below(PathBuf),
}

impl Reach {
    /// Of rules in a directory: root reads what others could not.
    pub fn of(directory: &Path) -> Reach {
        match warren_sys::process::own_ids() {
            (0, _) => Reach::Below(directory.to_owned()),
            _ => Reach::Everything,
        }
    }

    /// Whether a file may be read that is open.
    fn covers(&self, file: &fs::File) -> bool {
        let Reach::Below(directory) = self else { return true };
        let way = format!("/proc/self/fd/{}", file.as_raw_fd());
        // Without /proc nobody says where it is.
        let Ok(real) = fs::read_link(way) else { return true };
        let is_below = || fs::canonicalize(directory).is_ok_and(|root| real.starts_with(root));
        is_below() || is_for_everybody(file, &real)
    }
}

/// Whose word a file stands for that includes another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// Root alone may write it.
    Root,
    /// It is this user's, whose own files it may include.
    User(u32),
    /// Anybody's.
    Nobody,
}

impl Word {
    fn of(path: &str) -> Word {
        match fs::metadata(path) {
            Ok(found) if found.uid() != 0 => Word::User(found.uid()),
            Ok(found) if found.mode() & 0o022 == 0 => Word::Root,
            _ => Word::Nobody,
        }
    }

    fn covers(self, file: &fs::File) -> bool {
        match self {
            Word::Root => true,
            Word::User(uid) => file.metadata().is_ok_and(|found| found.uid() == uid),
            Word::Nobody => false,
        }
    }
}

/// Whether everybody may come to a file and read it.
fn is_for_everybody(file: &fs::File, real: &Path) -> bool {
    let has = |metadata: std::io::Result<fs::Metadata>, bit| {
        metadata.is_ok_and(|found| found.mode() & bit != 0)
    };
    let above = real.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
    has(file.metadata(), 0o004) && above.into_iter().all(|path| has(fs::metadata(path), 0o001))
}

/// A file's state and text, bounded. What is neither a file nor readable is an error in words.
pub(crate) fn read(
    path: &Path,
    before: Option<&SourceFile>,
    (reach, word): (&Reach, Word),
) -> Result<SourceFile, String> {
    let says = |error: std::io::Error| format!("{}: {error}", path.display());
    let metadata = fs::metadata(path).map_err(says)?;
    let identity = Identity::of(&metadata);
    let is_same = |known: &&SourceFile| known.identity == identity && known.word == word;
    if let Some(known) = before.filter(is_same) {
        return Ok(known.clone());
    }
    if !metadata.is_file() {
        return Err(format!("{}: is not a regular file", path.display()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("{}: is larger than {FILE_BYTES_MAX} bytes", path.display()));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
    let file = fs::File::open(path).map_err(says)?;
    if !word.covers(&file) && !reach.covers(&file) {
        let path = path.display();
        return Err(format!(
            "{path}: it lies outside of the directory of rules, and not everybody may read it; move it there, or include \
             it from a file that root alone may write"
        ));
    }
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(says)?;
    // Touched but the same: the old text stays the text.
    let source = match before {
        Some(known) if *known.source.text == *bytes => known.source.clone(),
        _ => Source::new(&path.to_string_lossy(), &bytes),
    };
    Ok(SourceFile { identity, source, word })
}

impl Reading<'_> {
    fn file(&mut self, path: &Path, word: Word) -> Result<Source, String> {
        let one = read(path, self.before.get(path), (self.reach, word))
            .inspect_err(|_| self.note_refused(path.to_owned()))?;
        self.bytes += one.source.text.len() as u64;
        if self.bytes > ALL_BYTES_MAX {
            return Err(format!("all files together are larger than {ALL_BYTES_MAX} bytes"));
        }
        let source = one.source.clone();
        self.seen.directories.extend(path.parent().map(Path::to_path_buf));
        self.seen.files.insert(path.to_owned(), one);
        Ok(source)
    }

    /// Notes what a request that failed was for: the evaluation is to be tried again when that changes.
    fn refused(&mut self, include: &Include) {
        let paths: Vec<PathBuf> = match IncludeRequest::of(include) {
            Ok(IncludeRequest::Path(path)) => vec![find::fixed_part(&path)],
            Ok(IncludeRequest::Below(directory, _)) => vec![directory],
            Err(_) => self.search.iter().map(|directory| directory.join(&include.path)).collect(),
        };
        paths.into_iter().for_each(|path| self.note_refused(path));
    }

    fn note_refused(&mut self, path: PathBuf) {
        let identity = Identity::at(&path);
        self.seen.refused.push((path, identity));
    }

    fn files(&mut self, asked: IncludeRequest, word: Word) -> Result<Vec<Source>, String> {
        let found = asked.find(&mut self.seen.directories);
        let sources = found.iter().map(|path| self.file(path, word)).collect();
        self.seen.patterns.push(Pattern { asked, found, word });
        sources
    }
}

impl Outside for Reading<'_> {
    fn include(&mut self, include: &Include) -> Result<Vec<Source>, String> {
        let found = self.included(include);
        if found.is_err() {
            self.refused(include);
        }
        found
    }

    fn data(&mut self, include: &Include) -> Result<Data, String> {
        let found = match IncludeRequest::of(include)? {
            IncludeRequest::Path(path) => {
                let word = Word::of(&include.from);
                self.file(&path, word).and_then(|source| crate::data::parse(&source))
            }
            IncludeRequest::Below(..) => Err("an inventory is one file".to_owned()),
        };
        if found.is_err() {
            self.refused(include);
        }
        found
    }

    fn log(&mut self, _severity: u8, facility: &str, text: &[u8]) {
        (self.log)(&format!("{facility}: {}", String::from_utf8_lossy(text)));
    }

    fn now(&self) -> f64 {
        (warren_sys::time::realtime_ns() / 1_000_000_000) as f64
    }
}

impl Reading<'_> {
    fn included(&mut self, include: &Include) -> Result<Vec<Source>, String> {
        let word = Word::of(&include.from);
        if include.kind == IncludeKind::Search {
            let mut places = self.search.iter().map(|directory| directory.join(&include.path));
            if let Some(path) = places.find(|path| path.symlink_metadata().is_ok()) {
                return self.file(&path, word).map(|source| vec![source]);
            }
        }
        match IncludeRequest::of(include)? {
            IncludeRequest::Path(path) if !find::is_pattern(&include.path) => {
                if path.symlink_metadata().is_err() {
                    return Err(format!("Include file '{}' does not exist", path.display()));
                }
                match fs::metadata(&path) {
                    Ok(m) if !m.is_dir() => self.file(&path, word).map(|source| vec![source]),
                    // A directory, or a link that leads nowhere yet: nothing is included.
                    _ => self.files(IncludeRequest::Path(path), word),
                }
            }
            asked => {
                // Beside a file there is its directory.
                let is_beside = Path::new(&include.path).parent() == Some(Path::new(""));
                if include.kind != IncludeKind::Relative || !is_beside {
                    asked.check_directory(include.kind)?;
                }
                self.files(asked, word)
            }
        }
    }
}

/// The host on which a configuration is read.
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl Facts for Host {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn constants(&self) -> Vec<(&'static str, String)> {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        vec![("NodeName", name.trim().to_owned())]
    }

    fn path_exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }

    fn glob(
        &self,
        pattern: &str,
        below: Option<&str>,
        files: bool,
        directories: bool,
    ) -> Vec<String> {
        let mut listed = Vec::new();
        if let Some(directory) = below {
            let wanted = find::Selection { files, directories };
            let found = find::below(Path::new(directory), pattern, wanted, &mut listed);
            return found.into_iter().map(|path| path.to_string_lossy().into_owned()).collect();
        }
        let mut found = find::glob_paths(Path::new(pattern), &mut listed);
        found.sort_by_key(|path| path.is_dir());
        let wanted = |path: &PathBuf| match fs::metadata(path) {
            Ok(m) => m.is_dir() && directories || !m.is_dir() && files,
            Err(_) => false,
        };
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        found.into_iter().filter(wanted).map(text).collect()
    }
}
