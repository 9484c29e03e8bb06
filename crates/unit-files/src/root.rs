//! The root of a file system: this host's, or that of an image or a container below a directory.
//!
//! Links in a root lead to places in that root, wherever they seem to point: the kernel resolves
//! them so (openat2(2), `RESOLVE_IN_ROOT`). Nothing here can reach what lies outside.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

/// Entries of one directory that are looked at.
const ENTRIES_MAX: usize = 1 << 20;

/// A root.
#[derive(Debug)]
pub struct Root {
    /// The directory that it is; none is the root that this process has.
    top: Option<OwnedFd>,
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Link,
    Directory,
    Other,
}

impl Root {
    /// The root that this process has.
    pub const OWN: Root = Root { top: None };

    /// Opens the one that this directory is.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(path: &Path) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root { top: Some(rustix::fs::open(path, flags, Mode::empty())?) })
    }

    /// Whether it is the root that this process has.
    pub(crate) fn is_own(&self) -> bool {
        self.top.is_none()
    }

    fn open_at(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let Some(top) = &self.top else { return Ok(rustix::fs::open(path, flags, Mode::empty())?) };
        let inside = Some(path.trim_start_matches('/')).filter(|path| !path.is_empty());
        let how = ResolveFlags::IN_ROOT;
        Ok(rustix::fs::openat2(top, inside.unwrap_or("."), flags, Mode::empty(), how)?)
    }

    /// A directory in it, links followed.
    ///
    /// # Errors
    /// As open(2).
    pub(crate) fn directory(&self, path: &str) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Which directory a path leads to, links followed: its device and number. `None` if there is
    /// none.
    pub(crate) fn identity(&self, path: &str) -> Option<(u64, u64)> {
        let stat = rustix::fs::fstat(self.directory(path).ok()?).ok()?;
        Some((stat.st_dev, stat.st_ino))
    }

    /// A directory, made with all above it where it is not there.
    ///
    /// # Errors
    /// As open(2) and mkdir(2).
    pub(crate) fn directory_made(&self, path: &str) -> io::Result<OwnedFd> {
        match self.directory(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let above = self.directory_made(if above.is_empty() { "/" } else { above })?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => self.directory(path),
            Err(e) => Err(e.into()),
        }
    }

    /// The bytes of a regular file, links followed, up to a bound; a fifo or a device is not
    /// waited for.
    ///
    /// # Errors
    /// As open(2) and read(2), and if it is no regular file.
    pub(crate) fn read(&self, path: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open_at(path, OFlags::RDONLY | OFlags::NOCTTY)?;
        let stat = rustix::fs::fstat(&file)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        std::fs::File::from(file).take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The text of a small file, without the white space around it; empty if it cannot be had.
    pub(crate) fn text(&self, path: &str) -> String {
        const BYTES_MAX: u64 = 64 << 10;
        let bytes = self.read(path, BYTES_MAX).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// The names in a directory and what they are, sorted. Names that are no text are left out: no
/// unit has one.
pub(crate) fn entries(directory: &OwnedFd) -> io::Result<Vec<(String, Kind)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)?.take(ENTRIES_MAX) {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if !matches!(name, "." | "..") {
            found.push((name.to_owned(), kind(directory, name, entry.file_type())));
        }
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Not every file system says it in the listing.
fn kind(directory: &OwnedFd, name: &str, listed: FileType) -> Kind {
    let look = || {
        let stat = rustix::fs::statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
    };
    match if listed == FileType::Unknown { look() } else { listed } {
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Link,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    }
}

/// What a link says.
pub(crate) fn link_target(directory: &OwnedFd, name: &str) -> io::Result<String> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
    target.into_string().map_err(|_| io::Error::other("its target is not valid UTF-8"))
}
