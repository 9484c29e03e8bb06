//! Files of systemd's journal that are shown with ours: those that `--file` names, those in a
//! directory that is named, and by default what its daemon left on this system.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::daemon::mirror;
use crate::entry::Id128;
use crate::query::Union;
use crate::show::args::Args;
use crate::show::run::Failure;
use crate::show::select::fits;
use crate::show::stores::is_own;
use crate::systemd::SystemdFile;

/// Where systemd keeps them, below the root and in a directory named by the machine's id.
const DIRECTORIES: [&str; 2] = ["var/log/journal", "run/log/journal"];

/// Most files that are opened.
const FILES_MAX: usize = 4096;

/// Adds what the options name. What cannot be read is said, and does not stop the rest.
pub fn add(args: &Args, journal: &mut Union) -> Result<(), Failure> {
    for path in paths(args)? {
        match SystemdFile::open(&path) {
            Ok(file) => journal.add(Box::new(file)),
            Err(e) if e.is_gone() => {}
            Err(e) => eprintln!("{e}"),
        }
    }
    Ok(())
}

/// Bytes of the files that the options name.
pub fn bytes(args: &Args) -> u64 {
    let paths = paths(args).unwrap_or_default();
    paths.iter().filter_map(|path| path.metadata().ok()).map(|about| about.len()).sum()
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

/// Whether `--file` names files that are not ours.
pub fn is_named(args: &Args) -> Result<bool, Failure> {
    Ok(named(args)?.iter().any(|path| !is_own(path)))
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
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(mirror::NAME.as_bytes())
}

fn directories(args: &Args) -> Vec<PathBuf> {
    if let Some(directory) = &args.directory {
        return vec![directory.clone()];
    }
    if args.in_memory {
        return Vec::new();
    }
    if args.merge {
        let parents = DIRECTORIES.iter().map(|path| args.root().join(path));
        return parents.flat_map(|parent| listing(&parent)).filter(|path| path.is_dir()).collect();
    }
    if args.root.is_some() {
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

/// Below a root of one's own choice, as with systemd 252: those of any machine, and of the namespaces.
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

fn matching(glob: &Path) -> Vec<PathBuf> {
    let Some(pattern) = glob.file_name() else { return Vec::new() };
    if !pattern.as_encoded_bytes().iter().any(|byte| b"*?".contains(byte)) {
        return if glob.exists() { vec![glob.to_owned()] } else { Vec::new() };
    }
    let directory = glob.parent().filter(|path| !path.as_os_str().is_empty());
    let all = listing(directory.unwrap_or(Path::new(".")));
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        fits(pattern.as_encoded_bytes(), name.as_encoded_bytes())
    };
    all.into_iter().filter(named).collect()
}

/// Files of a directory, by name; none of one that cannot be read.
fn listing(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
