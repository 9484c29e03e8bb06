//! The one door to the disk: a directory of files, positioned reads and appends, sync, rename.
//!
//! Everything the store does goes through [`Files`], so that tests can lose any write. There is
//! no memory map and no shared file position.

pub mod memory;
pub mod patient;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Mode of new files: the owner writes, the group reads.
const FILE_MODE: u32 = 0o640;

/// Mode of the lock.
const LOCK_MODE: u32 = 0o600;

/// A file of the directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Name in the directory.
    pub name: String,
    /// Size, bytes.
    pub bytes: u64,
}

/// An open file.
pub trait File: Send + Sync {
    /// Reads up to the length of `buffer` at `offset`; fewer bytes only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Comes back when content and size are on the device (fdatasync).
    fn sync(&self) -> Result<()>;
    /// Size now, bytes.
    fn len(&self) -> Result<u64>;
    /// True for an empty file.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A directory.
pub trait Files: Send + Sync {
    /// All regular files, by name; none of a directory that is not there.
    fn list(&self) -> Result<Vec<Listed>>;
    /// Opens for reading.
    fn open(&self, name: &str) -> Result<Box<dyn File>>;
    /// The first bytes of a file, at most so many, and its size, bytes.
    fn beginning(&self, name: &str, bytes_max: usize) -> Result<(Vec<u8>, u64)> {
        let (file, mut bytes) = (self.open(name)?, vec![0; bytes_max]);
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok((bytes, file.len()?))
    }
    /// Makes a file that must not be there yet.
    fn create(&self, name: &str) -> Result<Box<dyn File>>;
    /// Renames, replacing what has the new name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes; a file that is gone already is no error.
    fn unlink(&self, name: &str) -> Result<()>;
    /// Comes back when creations, renames and removals are on the device.
    fn sync_directory(&self) -> Result<()>;
    /// Bytes that the file system has left for this user, and its size.
    fn space(&self) -> Result<Space>;
}

/// What a file system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes left.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// A directory of the running system.
#[derive(Debug, Clone)]
pub struct Disk {
    directory: PathBuf,
    /// The directory itself, whatever its path leads to by now, and a path that leads to it.
    held: Option<Arc<(fs::File, PathBuf)>>,
    /// Only these files are listed.
    chosen: Option<BTreeSet<String>>,
}

impl Disk {
    /// The directory need not exist until something is created in it.
    pub fn new(directory: impl Into<PathBuf>) -> Disk {
        Disk { directory: directory.into(), held: None, chosen: None }
    }

    /// Some files of a directory, to be read.
    pub fn of_files(directory: impl Into<PathBuf>, names: BTreeSet<String>) -> Disk {
        Disk { directory: directory.into(), held: None, chosen: Some(names) }
    }

    /// A directory that is held: what is renamed to its path, or mounted over it, is never touched. Without /proc it
    /// is gone to by its path.
    ///
    /// # Errors
    /// As open(2).
    pub fn hold(directory: impl Into<PathBuf>) -> Result<Disk> {
        let mut disk = Disk::new(directory);
        let held = fs::File::open(&disk.directory);
        let held = held.map_err(|e| Error::io("open", &disk.own_name(), &e))?;
        let way = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        if way.exists() {
            disk.held = Some(Arc::new((held, way)));
        }
        Ok(disk)
    }

    /// Where it is.
    pub fn directory(&self) -> &std::path::Path {
        &self.directory
    }

    /// A path that leads there, for as long as this is held.
    pub fn way(&self) -> &std::path::Path {
        self.held.as_ref().map_or(&self.directory, |held| &held.1)
    }

    /// Makes sure that there is one writer; for as long as the file is open.
    ///
    /// # Errors
    /// [`Error::Locked`] when there is another.
    pub fn lock(&self) -> Result<fs::File> {
        const NAME: &str = "lock";
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(LOCK_MODE);
        let file = options.open(self.way().join(NAME));
        let file = file.map_err(|e| Error::io("open", NAME, &e))?;
        // Who can open it can hold it. One of an earlier version may be for the group to read.
        let is_private = file.metadata().is_ok_and(|stat| stat.mode() & 0o077 == 0);
        if !is_private {
            let permissions = fs::Permissions::from_mode(LOCK_MODE);
            file.set_permissions(permissions).map_err(|e| Error::io("chmod", NAME, &e))?;
        }
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(Error::Locked(self.own_name())),
            Err(fs::TryLockError::Error(e)) => Err(Error::io("lock", NAME, &e)),
        }
    }

    /// Whether a file can be made, filled, made durable and removed.
    pub fn try_out(&self) -> Result<()> {
        const NAME: &str = "probe.tmp";
        const SOME: [u8; 4096] = [b' '; 4096];
        self.unlink(NAME)?;
        let file = self.create(NAME)?;
        let tried = file.write_at(&SOME, 0).and_then(|()| file.sync());
        tried.and_then(|()| self.sync_directory()).and(self.unlink(NAME))
    }

    /// Cuts a file to a length, bytes; one that is shorter stays as it is, and one of nothing goes.
    pub fn cut(&self, name: &str, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return self.unlink(name);
        }
        let at = |e: std::io::Error| Error::io("cut", name, &e);
        let file = match fs::OpenOptions::new().write(true).open(self.way().join(name)) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(at)?,
        };
        if file.metadata().map_err(at)?.len() > bytes {
            file.set_len(bytes).and_then(|()| file.sync_all()).map_err(at)?;
        }
        Ok(())
    }

    fn wrap(&self, name: &str, file: fs::File) -> Box<dyn File> {
        Box::new(DiskFile { name: name.to_owned(), file })
    }

    fn own_name(&self) -> String {
        self.directory.display().to_string()
    }
}

struct DiskFile {
    name: String,
    file: fs::File,
}

impl File for DiskFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("read", &self.name, &e)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|e| Error::io("write", &self.name, &e))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io("sync", &self.name, &e))
    }

    fn len(&self) -> Result<u64> {
        let stat = self.file.metadata().map_err(|e| Error::io("stat", &self.name, &e))?;
        Ok(stat.len())
    }
}

impl Files for Disk {
    fn list(&self) -> Result<Vec<Listed>> {
        let at = |e: std::io::Error| Error::io("list", &self.own_name(), &e);
        let mut all = Vec::new();
        let listing = match fs::read_dir(self.way()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(all),
            listing => listing.map_err(at)?,
        };
        for entry in listing {
            let entry = entry.map_err(at)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if self.chosen.as_ref().is_some_and(|chosen| !chosen.contains(&name)) {
                continue;
            }
            match entry.metadata() {
                Ok(stat) if stat.is_file() => all.push(Listed { name, bytes: stat.len() }),
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("list", &name, &e)),
            }
        }
        all.sort();
        Ok(all)
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>> {
        let file = fs::File::open(self.way().join(name));
        Ok(self.wrap(name, file.map_err(|e| Error::io("open", name, &e))?))
    }

    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(FILE_MODE);
        let file = options.open(self.way().join(name));
        Ok(self.wrap(name, file.map_err(|e| Error::io("create", name, &e))?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        fs::rename(self.way().join(from), self.way().join(to))
            .map_err(|e| Error::io("rename", from, &e))
    }

    fn unlink(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.way().join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("unlink", name, &e))
            }
            _ => Ok(()),
        }
    }

    fn sync_directory(&self) -> Result<()> {
        fs::File::open(self.way())
            .and_then(|directory| directory.sync_all())
            .map_err(|e| Error::io("sync", &self.own_name(), &e))
    }

    fn space(&self) -> Result<Space> {
        let stat = rustix::fs::statvfs(self.way())
            .map_err(|e| Error::io("statvfs", &self.own_name(), &e.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(Space { free_bytes: bytes(stat.f_bavail), total_bytes: bytes(stat.f_blocks) })
    }
}

/// Reads a small file whole; `max_bytes` is more than it ever has.
///
/// # Errors
/// Those of the file, and `FileTooLarge` for one of more bytes or without an end, as a device is.
pub fn read_small(path: &std::path::Path, max_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > max_bytes {
        true => Err(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            "it is not one of our files: it is too large",
        )),
        false => Ok(bytes),
    }
}

/// What was read through a [`Counted`] directory since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads {
    /// Positioned reads.
    pub count: u64,
    /// Bytes they brought.
    pub bytes: u64,
}

/// Counts the reads of a directory's files: a promise of the store is how few they are.
pub struct Counted {
    inner: Arc<dyn Files>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Counted {
    /// Counts from zero.
    pub fn new(inner: Arc<dyn Files>) -> Counted {
        Counted { inner, counters: Arc::default() }
    }

    /// What was read so far.
    pub fn reads(&self) -> Reads {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reads { count: load(&self.counters.count), bytes: load(&self.counters.bytes) }
    }

    fn wrap(&self, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(CountedFile { inner: file, counters: self.counters.clone() })
    }
}

struct CountedFile {
    inner: Box<dyn File>,
    counters: Arc<Counters>,
}

impl File for CountedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let count = self.inner.read_at(buffer, offset)?;
        self.counters.count.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
}

impl Files for Counted {
    fn list(&self) -> Result<Vec<Listed>> {
        self.inner.list()
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>> {
        Ok(self.wrap(self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        Ok(self.wrap(self.inner.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.inner.unlink(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.inner.sync_directory()
    }

    fn space(&self) -> Result<Space> {
        self.inner.space()
    }
}
