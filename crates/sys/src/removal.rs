//! The removal of what a service has left in the file system, in places that the service's user may be able to change.
//! It follows no link but the administrator's, goes into no mount, and needs the same stack and the same number of
//! descriptors for a tree of any depth. Any thread may call it: it waits only for the file systems that it looks at.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};
use crate::tree::open_directory;

/// Directories inside each other that are open at a time. What lies deeper is moved up first.
const OPEN_MAX: usize = 64;

/// How often a directory is read again in which something new is found.
const PASSES_MAX: u32 = 16;

/// Names that are tried for a directory that is moved up.
const NAMES_MAX: u32 = 1 << 10;

/// Entries that one removal looks at, so that a user who goes on making files does not hold it up for ever.
pub const ENTRIES_MAX: u64 = 1 << 24;

/// How a removal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// Nothing is there any more.
    Done,
    /// There is more than it was to look at: some of it is gone.
    TooMuch,
    /// Something stays, and what is around it: the first such, by its path, and why. `EXDEV`: something is mounted
    /// there.
    Left(Error),
}

/// Removes a file, or a link itself, at an absolute path.
///
/// # Errors
/// `ENOTDIR` where the path leads over a link that is not the administrator's.
pub fn remove_file(path: &Path) -> Result<()> {
    let (parent, name) = open_parent(path)?;
    rustix::fs::unlinkat(parent, name, AtFlags::empty()).call_on("unlink", path)
}

/// Removes what lies at an absolute path if it is a link.
///
/// # Errors
/// As [`remove_file`].
pub fn remove_link(path: &Path) -> Result<()> {
    let (parent, name) = open_parent(path)?;
    match kind(parent.as_fd(), name).call_on("stat", path)? {
        FileType::Symlink => {
            rustix::fs::unlinkat(parent, name, AtFlags::empty()).call_on("unlink", path)
        }
        _ => Ok(()),
    }
}

/// Removes the directory at an absolute path with all that is in it, and looks at `entries_max` of them at most. A
/// link is removed itself. What is mounted below it, and on it, stays with all that it shows.
///
/// # Errors
/// The directory cannot be opened.
pub fn remove_directory(path: &Path, entries_max: u64) -> Result<Removal> {
    let (parent, name) = match open_parent(path) {
        Ok(found) => found,
        Err(e) if e.is_gone() => return Ok(Removal::Done),
        Err(e) => return Err(e),
    };
    let top = match open_below(parent.as_fd(), name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(Removal::Done),
        Err(Errno::LOOP | Errno::NOTDIR) => return remove_link(path).map(|()| Removal::Done),
        Err(Errno::XDEV) => {
            return Ok(Removal::Left(Error::at("remove", path, libc::EXDEV)));
        }
        Err(e) => return Err(e).call_on("open", path),
    };
    let name = CString::new(name.as_bytes()).map_err(|_| Error::at("open", path, libc::EINVAL))?;
    let top = Level::new(top, name).call_on("readdir", path)?;
    let mut walk = Walk { parent, path, open: vec![top], entries_max, moved: 0, left: None };
    walk.run()
}

fn open_parent(path: &Path) -> Result<(OwnedFd, &OsStr)> {
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => Ok((open_directory(parent)?, name)),
        _ => Err(Error::at("directory name", path, libc::EINVAL)),
    }
}

/// Opens a directory in another one: no link (`ELOOP`, `ENOTDIR`), and nothing mounted (`EXDEV`).
fn open_below(dir: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let how = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    rustix::fs::openat2(dir, name, flags, Mode::empty(), how)
}

fn kind(dir: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<FileType> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// A directory that is being emptied.
struct Level {
    dir: Dir,
    /// In the directory before.
    name: CString,
    passes: u32,
    /// Something in it stays, so that it does, too.
    is_kept: bool,
    /// A directory was moved into it that this pass may not come by.
    is_grown: bool,
}

impl Level {
    fn new(dir: OwnedFd, name: CString) -> rustix::io::Result<Level> {
        Ok(Level { dir: Dir::new(dir)?, name, passes: 0, is_kept: false, is_grown: false })
    }

    fn fd(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        self.dir.fd()
    }
}

struct Walk<'a> {
    /// The directory in which the top is.
    parent: OwnedFd,
    path: &'a Path,
    /// From the top down; each is in the one before.
    open: Vec<Level>,
    /// How many more may be looked at.
    entries_max: u64,
    /// Number of the next directory that is moved up.
    moved: u32,
    left: Option<Error>,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<Removal> {
        while let Some(level) = self.open.last_mut() {
            match level.dir.next() {
                None => self.leave_directory(),
                Some(Err(e)) => {
                    self.keep(None, e);
                    level_is_over(&mut self.open);
                }
                Some(Ok(entry)) if [c".", c".."].contains(&entry.file_name()) => {}
                Some(Ok(entry)) => {
                    let Some(rest) = self.entries_max.checked_sub(1) else {
                        return Ok(Removal::TooMuch);
                    };
                    self.entries_max = rest;
                    let name = entry.file_name().to_owned();
                    if let Err(e) = self.remove(&name, entry.file_type()) {
                        self.keep(Some(&name), e);
                    }
                }
            }
        }
        Ok(self.left.take().map_or(Removal::Done, Removal::Left))
    }

    /// Removes an entry of the innermost directory, or begins to empty it.
    fn remove(&mut self, name: &CStr, kind: FileType) -> rustix::io::Result<()> {
        let Some(level) = self.open.last() else { return Ok(()) };
        let dir = level.fd()?;
        if kind != FileType::Directory {
            match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // Not every file system says of what kind its entries are.
                Err(Errno::ISDIR | Errno::PERM) if kind == FileType::Unknown => {}
                Err(e) => return Err(e),
            }
        }
        let below = match open_below(dir, name) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        if self.open.len() == OPEN_MAX {
            return self.move_up(name);
        }
        self.open.push(Level::new(below, name.to_owned())?);
        Ok(())
    }

    /// Moves a directory into the top, where it is come by again.
    fn move_up(&mut self, name: &CStr) -> rustix::io::Result<()> {
        let (Some(top), Some(level)) = (self.open.first(), self.open.last()) else { return Ok(()) };
        let (top, dir) = (top.fd()?, level.fd()?);
        for _ in 0..NAMES_MAX {
            let to = format!(".deep-{}", self.moved);
            self.moved = self.moved.wrapping_add(1);
            match rustix::fs::renameat_with(dir, name, top, to, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => return Ok(()),
                other => {
                    other?;
                    self.open[0].is_grown = true;
                    return Ok(());
                }
            }
        }
        Err(Errno::EXIST)
    }

    /// The innermost directory has been read to its end: it goes, or is read once more.
    fn leave_directory(&mut self) {
        let Some(mut level) = self.open.pop() else { return };
        if std::mem::take(&mut level.is_grown) {
            level.dir.rewind();
            return self.open.push(level);
        }
        if level.is_kept {
            return level_stays(&mut self.open);
        }
        let parent = match self.open.last() {
            Some(above) => above.fd(),
            None => Ok(self.parent.as_fd()),
        };
        let removed =
            parent.and_then(|dir| rustix::fs::unlinkat(dir, &*level.name, AtFlags::REMOVEDIR));
        match removed {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if level.passes < PASSES_MAX => {
                level.passes += 1;
                level.dir.rewind();
                self.open.push(level);
            }
            Err(e) => {
                self.open.push(level);
                self.keep(None, e);
                level_is_over(&mut self.open);
            }
        }
    }

    /// Notes that an entry of the innermost directory stays, or that directory itself.
    fn keep(&mut self, name: Option<&CStr>, why: Errno) {
        if let Some(level) = self.open.last_mut() {
            level.is_kept = true;
        }
        if self.left.is_none() {
            let names = self.open.iter().skip(1).map(|level| &*level.name);
            let below = names.chain(name).map(|name| OsStr::from_bytes(name.to_bytes()));
            let path: PathBuf = std::iter::once(self.path.as_os_str()).chain(below).collect();
            self.left = Some(Error::at("remove", path, why.raw_os_error()));
        }
    }
}

/// The innermost directory is not looked at any more, and stays.
fn level_is_over(open: &mut Vec<Level>) {
    open.pop();
    level_stays(open);
}

/// What was the innermost directory stays in the one before.
fn level_stays(open: &mut [Level]) {
    if let Some(above) = open.last_mut() {
        above.is_kept = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("warren-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("a scratch directory can be made");
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Makes so many directories inside each other, each with a file.
    fn make_deep(top: &Path, levels: usize) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut dir = rustix::fs::open(top, flags, Mode::empty()).expect("it is there");
        for _ in 0..levels {
            rustix::fs::mkdirat(&dir, "d", Mode::RWXU).expect("made");
            let file = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&dir, "f", file, Mode::RWXU).expect("made");
            dir = rustix::fs::openat(&dir, "d", flags, Mode::empty()).expect("it is there");
        }
    }

    /// A stack of 64 KiB and as many descriptors as for any other tree are enough.
    #[test]
    fn a_tree_of_any_depth_goes() {
        let scratch = Scratch::new("deep");
        let top = scratch.0.join("top");
        fs::create_dir(&top).expect("made");
        make_deep(&top, 20_000);
        fs::create_dir(top.join(".deep-0")).expect("made");
        let remove = move || remove_directory(&top, ENTRIES_MAX);
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(remove);
        let removal = thread.expect("a thread can be had").join().expect("it ends");
        assert_eq!(removal, Ok(Removal::Done));
        assert_eq!(fs::read_dir(&scratch.0).expect("it is there").count(), 0);
    }

    #[test]
    fn a_removal_looks_at_no_more_than_it_is_to() {
        let scratch = Scratch::new("bound");
        let top = scratch.0.join("top");
        fs::create_dir(&top).expect("made");
        (0..40).for_each(|n| fs::write(top.join(n.to_string()), "").expect("written"));
        assert_eq!(remove_directory(&top, 30), Ok(Removal::TooMuch));
        assert_eq!(fs::read_dir(&top).expect("it is there").count(), 10);
        assert_eq!(remove_directory(&top, 10), Ok(Removal::Done));
        assert!(!top.exists());
        assert_eq!(remove_directory(&top, 10), Ok(Removal::Done));
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let scratch = Scratch::new("links-go");
        let (top, other) = (scratch.0.join("top"), scratch.0.join("other"));
        fs::create_dir_all(top.join("in")).expect("made");
        fs::create_dir(&other).expect("made");
        fs::write(other.join("file"), "").expect("written");
        for link in ["to-directory", "in/to-file"] {
            let target = if link == "to-directory" { other.clone() } else { other.join("file") };
            symlink(target, top.join(link)).expect("a link can be made");
        }
        symlink(&other, scratch.0.join("link")).expect("a link can be made");
        for path in [&top, &scratch.0.join("link")] {
            assert_eq!(remove_directory(path, ENTRIES_MAX), Ok(Removal::Done));
            assert!(path.symlink_metadata().is_err(), "{path:?}");
        }
        assert!(other.join("file").exists());
    }

    /// On the way too, where the link may be the user's.
    #[test]
    fn a_users_link_on_the_way_leads_nowhere() {
        if !rustix::process::geteuid().is_root() {
            return crate::test_not_run("a_users_link_on_the_way_leads_nowhere", "root");
        }
        let scratch = Scratch::new("way");
        let (theirs, other) = (scratch.0.join("theirs"), scratch.0.join("other"));
        fs::create_dir(&theirs).expect("made");
        fs::create_dir_all(other.join("b")).expect("made");
        fs::write(other.join("file"), "").expect("written");
        symlink("file", other.join("link")).expect("a link can be made");
        symlink(&other, theirs.join("a")).expect("a link can be made");
        std::os::unix::fs::chown(&theirs, Some(12345), None).expect("chown");
        let errno = |result: Result<()>| result.map_err(|e| e.errno);
        let directory = remove_directory(&theirs.join("a/b"), ENTRIES_MAX);
        assert_eq!(errno(directory.map(drop)), Err(libc::ENOTDIR));
        assert_eq!(errno(remove_file(&theirs.join("a/file"))), Err(libc::ENOTDIR));
        assert_eq!(errno(remove_link(&theirs.join("a/link"))), Err(libc::ENOTDIR));
        assert!(["b", "file", "link"].iter().all(|name| other.join(name).exists()));
        assert_eq!(errno(remove_link(&other.join("file"))), Ok(()));
        assert!(other.join("file").exists());
        assert_eq!(errno(remove_link(&other.join("link"))), Ok(()));
        assert!(!other.join("link").exists());
    }
}
