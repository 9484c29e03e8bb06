//! Where messages are kept, and when that changes: `Storage=` of journald.conf(5).
//!
//! A boot begins in memory. When `/var` is there, somebody asks for a flush: what was kept in memory
//! is moved to the disk, and a file says so for the rest of the boot, so that the next daemon
//! begins there. `--relinquish-var` goes back. By hand there is one directory and no change.

use std::path::{Path, PathBuf};

use crate::config::{Config, Room, Storage};
use crate::daemon::bounds::PARTS_OF_RETENTION;
use crate::daemon::readers::Readers;
use warren_log_store::error::{Error, Result};
use warren_log_store::files::Space;
use warren_log_store::places::{PERSISTENT, VOLATILE};
use warren_log_store::store::upkeep::{MERGE_BYTES_MAX, MergeBounds};
use warren_log_store::store::vacuum::{ClassLimits, Limits};

/// Defaults of `MaxUse=` and `KeepFree=`: parts of the file system, and a bound, bytes.
const USE_PERCENT: u64 = 10;
const KEEP_FREE_PERCENT: u64 = 15;
const DEFAULT_BYTES_MAX: u64 = 4 << 30;

/// Least and most time after which a wall clock is believed, µs.
const TRUST_MIN_US: u64 = 60_000_000;
const TRUST_MAX_US: u64 = 3_600_000_000;

/// So much of the newest is kept however little others leave free.
const FLOOR_BYTES: u64 = 16 << 20;

/// Files are joined to one of so much of `MaxUse=` by default, so that some are left to remove.
const FILES_OF_USE: u64 = 8;

/// One of both places, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Nothing is kept.
    Nowhere,
    /// In memory.
    Volatile,
    /// On disk.
    Persistent,
}

/// The places of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    volatile: Option<PathBuf>,
    persistent: Option<PathBuf>,
    /// Make the directory on disk, instead of using it if it is there.
    makes: bool,
    /// There while what comes in this boot goes to the disk.
    flag: PathBuf,
    /// The disk is there when the daemon begins.
    begins_on_disk: bool,
    /// Who else may read.
    readers: Readers,
}

impl Places {
    /// One directory for all.
    pub fn by_hand(directory: PathBuf) -> Places {
        Places {
            volatile: None,
            persistent: Some(directory),
            makes: true,
            flag: PathBuf::new(),
            begins_on_disk: true,
            readers: Readers::default(),
        }
    }

    /// As `Storage=` says, below a root, of the default namespace or another, which is on the disk
    /// if the default one may be, and from the beginning: its daemon is started after the file
    /// systems. The flag is in the directory of the sockets.
    pub fn of(storage: Storage, root: &Path, namespace: Option<&str>, sockets: &Path) -> Places {
        let below = |path: &str| {
            let path = root.join(path);
            match namespace {
                Some(name) => PathBuf::from(format!("{}.{name}", path.display())),
                None => path,
            }
        };
        Places {
            volatile: (storage != Storage::None).then(|| below(VOLATILE)),
            persistent: matches!(storage, Storage::Auto | Storage::Persistent)
                .then(|| below(PERSISTENT)),
            makes: storage == Storage::Persistent
                || (namespace.is_some() && root.join(PERSISTENT).is_dir()),
            flag: sockets.join("flushed"),
            begins_on_disk: namespace.is_some(),
            readers: Readers::default(),
        }
    }

    /// The same, whose directories others may read.
    pub fn read_by(self, readers: Readers) -> Places {
        Places { readers, ..self }
    }

    /// Who else may read.
    pub fn readers(&self) -> &Readers {
        &self.readers
    }

    /// Where to begin.
    pub fn first(&self) -> Place {
        match (&self.volatile, &self.persistent) {
            (None, None) => Place::Nowhere,
            (None, Some(_)) => Place::Persistent,
            (Some(_), Some(_)) if self.begins_on_disk && self.may_persist() => Place::Persistent,
            (Some(_), _) if self.was_at_disk() && self.may_persist() => Place::Persistent,
            (Some(_), _) => Place::Volatile,
        }
    }

    /// Whether the last thing that was remembered is the disk.
    pub fn was_at_disk(&self) -> bool {
        self.flag.exists()
    }

    /// Whether there is a place on disk to go to.
    pub fn may_persist(&self) -> bool {
        self.persistent.as_ref().is_some_and(|directory| self.makes || directory.is_dir())
    }

    /// Whether there is a place in memory.
    pub fn has_volatile(&self) -> bool {
        self.volatile.is_some()
    }

    /// The directory of a place, whether it is there or not.
    pub fn path(&self, place: Place) -> Option<&Path> {
        match place {
            Place::Nowhere => None,
            Place::Volatile => self.volatile.as_deref(),
            Place::Persistent => self.persistent.as_deref(),
        }
    }

    /// The directory of a place, which is made.
    pub fn directory(&self, place: Place) -> Result<Option<&Path>> {
        let Some(directory) = self.path(place) else { return Ok(None) };
        std::fs::create_dir_all(directory)
            .map_err(|e| Error::io("mkdir", &directory.display().to_string(), &e))?;
        if let Err(e) = self.readers.admit(directory) {
            // Root can read it.
            warren_sys::tell!("warren-journald: only root can read the log: {e}");
        }
        Ok(Some(directory))
    }

    /// The device of the file system that the place on disk is on, or would be.
    pub fn device(&self) -> Option<u64> {
        self.persistent.as_deref().and_then(device_of)
    }

    /// The devices of all that the file system of the place on disk is mounted on.
    pub fn devices_beneath(&self) -> Vec<u64> {
        self.persistent.as_deref().map(devices_beneath).unwrap_or_default()
    }

    /// Remembers for the rest of the boot whether what comes goes to the disk.
    pub fn remember(&self, place: Place) -> Result<()> {
        if self.flag.as_os_str().is_empty() {
            return Ok(());
        }
        let done = match place {
            Place::Persistent => std::fs::write(&self.flag, []),
            _ => match std::fs::remove_file(&self.flag) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            },
        };
        done.map_err(|e| Error::io("write", &self.flag.display().to_string(), &e))
    }

    /// Beside the flag: how it stands with a disk that had given up. By hand there is none.
    fn refuge_path(&self) -> Option<PathBuf> {
        let is_named = !self.flag.as_os_str().is_empty();
        is_named.then(|| self.flag.with_file_name("refuge"))
    }

    /// What the last daemon of this boot left to be known of a disk that had given up.
    pub fn refuge(&self) -> String {
        let read = self.refuge_path().and_then(|path| std::fs::read_to_string(path).ok());
        read.unwrap_or_default()
    }

    /// Leaves that to the next daemon, all at once; an empty text is no file.
    pub fn remember_refuge(&self, text: &str) -> Result<()> {
        let Some(path) = self.refuge_path() else { return Ok(()) };
        let fresh = path.with_extension("new");
        let done = match text.is_empty() {
            true => std::fs::remove_file(&path),
            false => std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &path)),
        };
        match done {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("write", &path.display().to_string(), &e))
            }
            _ => Ok(()),
        }
    }

    /// Whether the directory on disk is on the root file system, which is never unmounted.
    pub fn is_on_root(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let device = |path: &Path| std::fs::metadata(path).map(|stat| stat.dev()).ok();
        let persistent = self.persistent.as_deref().and_then(device);
        persistent.is_some() && persistent == device(Path::new("/"))
    }
}

/// The device of a directory, or of what it would be made in.
fn device_of(directory: &Path) -> Option<u64> {
    devices(directory).next()
}

/// The other devices on the way to the root, nearest first. What is bound from one of them is on that one: then none
/// are known.
fn devices_beneath(directory: &Path) -> Vec<u64> {
    let Some(own) = device_of(directory) else { return Vec::new() };
    let mut beneath: Vec<u64> = devices(directory).skip_while(|device| *device == own).collect();
    beneath.dedup();
    if beneath.contains(&own) { Vec::new() } else { beneath }
}

/// The devices of a directory and of those above it that are there.
fn devices(directory: &Path) -> impl Iterator<Item = u64> {
    use std::os::unix::fs::MetadataExt;
    directory.ancestors().filter_map(|path| Some(std::fs::metadata(path).ok()?.dev()))
}

/// What a place may keep; `space` is what its file system has when the daemon begins there.
pub fn limits(config: &Config, place: Place, space: Space) -> Limits {
    let room = match place {
        Place::Persistent => &config.system,
        _ => &config.runtime,
    };
    let age_max_us = (config.retention_us > 0).then_some(config.retention_us);
    let classes = config.classes.iter();
    Limits {
        bytes_max: Some(use_bytes_max(room, space)),
        keep_free_bytes: Some(keep_free(room.keep_free_bytes, space)),
        floor_bytes: FLOOR_BYTES,
        files_max: (room.files_max > 0).then_some(room.files_max as usize),
        other: ClassLimits { age_max_us, ..ClassLimits::default() },
        classes: classes.map(|(name, room)| (name.clone(), room.limits(age_max_us))).collect(),
    }
}

/// What is to be left free, bytes, where so many are set. What others filled before is no reason to remove what is there.
pub fn keep_free(set: Option<u64>, space: Space) -> u64 {
    let part = (space.total_bytes * KEEP_FREE_PERCENT / 100).min(DEFAULT_BYTES_MAX);
    set.unwrap_or(part).min(space.free_bytes)
}

/// A wall clock is believed how old files are when it has not jumped for a part of the shortest time that messages are
/// kept, as they stay for so much longer anyway; µs.
pub fn trust_us(config: &Config) -> u64 {
    let shortest = config.retentions().min().unwrap_or(0);
    (shortest / PARTS_OF_RETENTION).clamp(TRUST_MIN_US, TRUST_MAX_US)
}

fn use_bytes_max(room: &Room, space: Space) -> u64 {
    let part = (space.total_bytes * USE_PERCENT / 100).min(DEFAULT_BYTES_MAX);
    room.use_bytes_max.unwrap_or(part)
}

/// No file is joined to one of more bytes.
pub fn file_bytes_max(config: &Config, place: Place, space: Space) -> u64 {
    let room = if place == Place::Persistent { &config.system } else { &config.runtime };
    let default = (use_bytes_max(room, space) / FILES_OF_USE).min(MERGE_BYTES_MAX);
    room.file_bytes_max.unwrap_or(default)
}

/// What is joined: neither to too large files, nor so that messages stay for much longer than they
/// should.
pub fn merge_bounds(config: &Config, place: Place, space: Space) -> MergeBounds {
    let of_class = |class: &str| {
        let retention = config.retention_of(class)?;
        Some((class.to_owned(), retention / PARTS_OF_RETENTION))
    };
    MergeBounds {
        bytes_max: file_bytes_max(config, place, space),
        span_max_us: config.known_classes().filter_map(of_class).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &str, total_gib: u64, free_gib: u64, expected: [u64; 3]) {
        let (mut read, mut faults) = (Config::default(), Vec::new());
        read.read("f", &format!("[Journal]\n{config}"), &mut faults);
        assert_eq!(faults, []);
        let space = Space { total_bytes: total_gib << 30, free_bytes: free_gib << 30 };
        let limits = limits(&read, Place::Persistent, space);
        let file = file_bytes_max(&read, Place::Persistent, space);
        let found = [limits.bytes_max, limits.keep_free_bytes, Some(file)];
        assert_eq!(found.map(|bytes| bytes.unwrap_or(0) >> 20), expected, "{config}");
        assert_eq!(limits.floor_bytes >> 20, 16, "{config}");
    }

    #[test]
    fn limits_are_parts_of_the_file_system() {
        check("", 1000, 500, [4096, 4096, 64]);
        check("", 1, 1, [102, 153, 12]);
        check("", 10, 1, [1024, 1024, 64]);
        check("SystemMaxUse=2G\nSystemKeepFree=1G\nSystemMaxFileSize=8M", 10, 5, [2048, 1024, 8]);
        check("RuntimeMaxUse=2G\nRuntimeKeepFree=0", 1, 1, [102, 153, 12]);
    }

    #[test]
    fn what_a_file_system_is_mounted_on_is_told_by_the_devices() {
        let device = |path: &str| device_of(Path::new(path)).expect("it is there");
        assert_eq!(device("/proc/no/such/directory"), device("/proc"));
        assert_ne!(device("/proc"), device("/"));
        assert_eq!(devices_beneath(Path::new("/proc/no/such")), vec![device("/")]);
        assert!(devices_beneath(Path::new("/")).is_empty());
    }

    #[test]
    fn a_namespace_begins_where_the_default_one_may_go() {
        let root = std::env::temp_dir().join(format!("warren-spaces-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a directory");
        let places = || Places::of(Storage::Auto, &root, Some("x"), &root);
        assert_eq!(places().first(), Place::Volatile);
        std::fs::create_dir_all(root.join(PERSISTENT)).expect("a directory");
        assert_eq!(places().first(), Place::Persistent);
        let directory = places().directory(Place::Persistent).expect("made").map(Path::to_owned);
        assert_eq!(directory, Some(root.join("var/log/warren.x")));
        std::fs::remove_dir_all(&root).expect("it was made");
    }

    #[test]
    fn the_flag_and_the_directory_say_where_a_daemon_begins() {
        let root = std::env::temp_dir().join(format!("warren-places-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a directory");
        let places = |storage| Places::of(storage, &root, None, &root);
        let first = || {
            let all = [Storage::None, Storage::Volatile, Storage::Auto, Storage::Persistent];
            all.map(|storage| match places(storage).first() {
                Place::Nowhere => '-',
                Place::Volatile => 'v',
                Place::Persistent => 'p',
            })
        };
        assert_eq!(first(), ['-', 'v', 'v', 'v']);
        places(Storage::Auto).remember(Place::Persistent).expect("a file");
        assert_eq!(first(), ['-', 'v', 'v', 'p']);
        std::fs::create_dir_all(root.join(PERSISTENT)).expect("a directory");
        assert_eq!(first(), ['-', 'v', 'p', 'p']);
        places(Storage::Auto).remember(Place::Volatile).expect("no file");
        assert_eq!(first(), ['-', 'v', 'v', 'v']);
        std::fs::remove_dir_all(&root).expect("it was made");
    }
}
