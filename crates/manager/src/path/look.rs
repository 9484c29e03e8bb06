//! One look at the paths of a unit: first what is on the way is watched, then it is looked at. So no change is lost
//! between the two.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use warren_core::protocol::event::PathLook;
use warren_sys::inotify::{WatchFor, tells_all};
use warren_unit::config::{PathConfig, PathKind, PathSpec};

use crate::base::path_globs::{glob_paths, is_pattern};
use crate::base::say::say;

/// Directories of one level of a pattern that are watched.
const PATTERN_DIRECTORIES_MAX: usize = 256;

/// Why a watch tells of something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// The directory has an entry of this name on the way to the path.
    Way(OsString),
    /// Any entry of the directory may match the pattern.
    Pattern,
    /// It is what is waited at; the flag says that writes count.
    Target(bool),
    /// It is the directory that is to have an entry.
    Directory,
}

/// What cannot be watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Untold {
    /// There are no watches left.
    NoWatches,
    /// Others than this kernel change what is there.
    Remote,
}

impl Untold {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Untold::NoWatches => "no inotify watches are left (sysctl fs.inotify.max_user_watches)",
            Untold::Remote => "they are on a network file system, which does not report changes",
        }
    }
}

/// What a watch came to.
pub(super) enum Watched {
    /// It is watched.
    Yes,
    /// It is not there, or may not be looked at.
    NotThere,
    /// There are no watches left.
    NoWatches,
}

/// Watches, as the look asks for them.
pub(super) trait Watch {
    /// Watches one thing.
    fn watch(&mut self, path: &Path, what: WatchFor, role: Role) -> Watched;
    /// Something is not told of.
    fn untold(&mut self, why: Untold);
}

/// Watches the paths and looks at them; `makes` directories first, where that is asked for.
pub(super) fn look(config: &PathConfig, makes: bool, watch: &mut impl Watch) -> PathLook {
    let mut out = PathLook::default();
    let mut hasher = DefaultHasher::new();
    for spec in &config.paths {
        if makes && config.make_directory {
            make_directory(spec, config.directory_mode);
        }
        watch_spec(spec, watch);
        let path = Path::new(&*spec.path);
        match spec.kind {
            PathKind::Changed | PathKind::Modified => {
                print(fs::metadata(path).ok().as_ref(), &mut hasher);
            }
            PathKind::Exists => out.is_met |= path.exists(),
            PathKind::ExistsGlob => out.is_met |= !glob_paths(&spec.path, 1).paths.is_empty(),
            PathKind::DirectoryNotEmpty => out.is_met |= has_entry(path),
        }
    }
    // 0 is none.
    out.print = hasher.finish().max(1);
    out
}

fn make_directory(spec: &PathSpec, mode: u32) {
    if matches!(spec.kind, PathKind::Exists | PathKind::ExistsGlob) {
        return;
    }
    if let Err(e) = DirBuilder::new().recursive(true).mode(mode).create(&*spec.path) {
        say!("MakeDirectory=yes: {}: {e}", spec.path);
    }
}

/// An entry that is not hidden (systemd.path(5)).
fn has_entry(path: &Path) -> bool {
    let is_shown = |name: OsString| !name.as_encoded_bytes().starts_with(b".");
    fs::read_dir(path)
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|e| is_shown(e.file_name()))))
}

/// How it looks: what tells a change of it.
fn print(found: Option<&Metadata>, hasher: &mut DefaultHasher) {
    let of = |m: &Metadata| {
        (m.dev(), m.ino(), m.mode(), m.uid(), m.gid(), m.size(), m.mtime(), m.mtime_nsec())
    };
    found.map(of).hash(hasher);
}

fn watch_spec(spec: &PathSpec, watch: &mut impl Watch) {
    if spec.kind == PathKind::ExistsGlob && is_pattern(&spec.path) {
        return watch_pattern(&spec.path, watch);
    }
    let path = Path::new(&*spec.path);
    if !watch_way(path, watch) {
        return;
    }
    let (what, role) = match spec.kind {
        PathKind::Changed => (WatchFor::Changes, Role::Target(false)),
        PathKind::Modified => (WatchFor::Writes, Role::Target(true)),
        PathKind::DirectoryNotEmpty => (WatchFor::Way, Role::Directory),
        PathKind::Exists | PathKind::ExistsGlob => return,
    };
    if let Watched::NoWatches = watch.watch(path, what, role) {
        watch.untold(Untold::NoWatches);
    }
}

/// Watches all directories above a path; false if not all of them are there.
fn watch_way(path: &Path, watch: &mut impl Watch) -> bool {
    let mut directory = PathBuf::new();
    for component in path.components() {
        let name: &OsStr = component.as_os_str();
        if !directory.as_os_str().is_empty() {
            match watch.watch(&directory, WatchFor::Way, Role::Way(name.to_owned())) {
                Watched::Yes => {}
                Watched::NotThere => return false,
                Watched::NoWatches => {
                    watch.untold(Untold::NoWatches);
                    return true;
                }
            }
        }
        directory.push(name);
    }
    let parent = path.parent().unwrap_or(path);
    if !tells_all(parent) {
        watch.untold(Untold::Remote);
    }
    true
}

/// Watches the directories in which something may come that matches, level by level.
fn watch_pattern(pattern: &str, watch: &mut impl Watch) {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let plain = parts.iter().take_while(|part| !is_pattern(part)).count();
    let fixed: PathBuf = Path::new("/").join(parts[..plain].join("/"));
    if !watch_way(&fixed, watch) {
        return;
    }
    for level in plain..parts.len() {
        let above = match level {
            level if level == plain => vec![fixed.clone()],
            level => {
                let pattern = format!("/{}", parts[..level].join("/"));
                glob_paths(&pattern, PATTERN_DIRECTORIES_MAX).paths
            }
        };
        for directory in above {
            if let Watched::NoWatches = watch.watch(&directory, WatchFor::Way, Role::Pattern) {
                return watch.untold(Untold::NoWatches);
            }
        }
    }
}
