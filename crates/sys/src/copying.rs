//! Copies of trees and of files, as cheap as the file system makes them: a snapshot, shared blocks, or else the bytes.
//!
//! The source may be a place that others write to meanwhile: no step follows a link or goes into another mount. What is
//! mounted in the source is an empty directory, or an empty file, in the copy.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, SeekFrom, Stat, Timespec, Timestamps,
    Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};

/// Files and directories of one tree.
pub const ENTRIES_MAX: usize = 1 << 22;

/// Bytes that are copied at a time.
const CHUNK_BYTES: u64 = 16 << 20;

/// Bytes of the list of a file's attributes, and of one value: limits of the kernel (xattr(7)).
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Copies a directory with all that is in it to a path that is not there yet: contents, owners, modes, times,
/// attributes, hard links, devices. The root of a btrfs subvolume becomes a snapshot. `goes_on` is called for each file
/// and each chunk of one.
///
/// # Errors
/// `E2BIG`: there is more than [`ENTRIES_MAX`]. What was copied until then stays.
pub fn copy_tree(source: &Path, target: &Path, goes_on: &dyn Fn()) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from = rustix::fs::open(source, flags, Mode::empty()).call_on("open", source)?;
    let stat = rustix::fs::fstat(&from).call_on("stat", source)?;
    if is_subvolume(from.as_fd(), &stat) && snapshot(from.as_fd(), target).is_ok() {
        return Ok(());
    }
    rustix::fs::mkdir(target, Mode::RWXU).call_on("mkdir", target)?;
    let to = rustix::fs::open(target, flags | OFlags::NOFOLLOW, Mode::empty());
    let to = to.call_on("open", target)?;
    let mut copy = Copy { from, to, source, links: BTreeMap::new(), entries: 0, goes_on };
    copy.run(stat)
}

/// Copies a file to a path that is not there yet, which its owner alone may open.
pub fn copy_file(source: &std::fs::File, target: &Path, goes_on: &dyn Fn()) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = rustix::fs::open(target, flags, Mode::RUSR | Mode::WUSR).call_on("open", target)?;
    let stat = rustix::fs::fstat(source).call_on("stat", target)?;
    copy_content(source.as_fd(), to.as_fd(), stat.st_size as u64, goes_on).call_on("copy", target)
}

/// Gives what was copied its name. What has that name already stays.
pub fn settle(part: &Path, path: impl AsRef<Path>) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, part, CWD, path.as_ref(), RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => Ok(()),
        other => other.call_on("rename", part),
    }
}

/// A directory whose entries are to be copied, relative to the source.
struct Level {
    path: PathBuf,
    stat: Stat,
}

struct Copy<'a> {
    from: OwnedFd,
    to: OwnedFd,
    source: &'a Path,
    /// Files with more than one name: the first of them in the copy.
    links: BTreeMap<(u64, u64), PathBuf>,
    entries: usize,
    goes_on: &'a dyn Fn(),
}

impl Copy<'_> {
    fn run(&mut self, stat: Stat) -> Result<()> {
        let mut levels = vec![Level { path: PathBuf::from("."), stat }];
        let mut at = 0;
        while let Some(level) = levels.get(at) {
            let path = level.path.clone();
            let more = self.directory(&path).map_err(|e| self.about(&path, e))?;
            levels.extend(more);
            at += 1;
        }
        // Inner ones first: to write into a directory changes its times.
        levels.iter().rev().try_for_each(|level| {
            let set = || {
                let to = self.open_target(&level.path)?;
                self.attributes(&level.path, to.as_fd())?;
                finish(to.as_fd(), &level.stat)
            };
            set().map_err(|e| self.about(&level.path, e))
        })
    }

    fn about(&self, path: &Path, error: Errno) -> Error {
        Error::at("copy", self.source.join(path), error.raw_os_error())
    }

    fn open_source(&self, path: impl AsRef<Path>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let how = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.from, path.as_ref(), flags, Mode::empty(), how)
    }

    fn open_target(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.to, path, flags, Mode::empty())
    }

    /// Copies what is in a directory; returns the directories in it, which are made and empty.
    fn directory(&mut self, path: &Path) -> rustix::io::Result<Vec<Level>> {
        let from = match self.open_source(path, OFlags::DIRECTORY) {
            // Something is mounted there, or it is gone.
            Err(Errno::XDEV | Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(Vec::new()),
            other => other?,
        };
        let to = self.open_target(path)?;
        let mut inner = Vec::new();
        for entry in Dir::read_from(&from)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(Errno::TOOBIG);
            }
            (self.goes_on)();
            let stat = match rustix::fs::statat(&from, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                other => other?,
            };
            let path = path.join(OsStr::from_bytes(name.to_bytes()));
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                rustix::fs::mkdirat(&to, name, Mode::RWXU)?;
                inner.push(Level { path, stat });
            } else {
                self.entry(&from, &to, name, &path, &stat)?;
            }
        }
        Ok(inner)
    }

    /// Copies what is no directory.
    fn entry(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &std::ffi::CStr,
        path: &Path,
        stat: &Stat,
    ) -> rustix::io::Result<()> {
        let id = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1 {
            if let Some(first) = self.links.get(&id) {
                return rustix::fs::linkat(&self.to, first, to, name, AtFlags::empty());
            }
            self.links.insert(id, path.to_path_buf());
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        match kind {
            FileType::RegularFile => return self.file(to, name, path, stat),
            FileType::Symlink => {
                let leads_to = rustix::fs::readlinkat(from, name, Vec::new())?;
                rustix::fs::symlinkat(&leads_to, to, name)?;
            }
            kind => rustix::fs::mknodat(to, name, kind, Mode::empty(), stat.st_rdev)?,
        }
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        rustix::fs::chownat(to, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        if kind != FileType::Symlink {
            rustix::fs::chmodat(to, name, Mode::from_raw_mode(stat.st_mode), AtFlags::empty())?;
        }
        rustix::fs::utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn file(
        &self,
        to: &OwnedFd,
        name: &std::ffi::CStr,
        path: &Path,
        stat: &Stat,
    ) -> rustix::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let target = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
        match self.open_source(path, OFlags::empty()) {
            // Something is mounted there, or it is gone or another thing now.
            Err(Errno::XDEV | Errno::NOENT | Errno::LOOP | Errno::NXIO) => {}
            Err(e) => return Err(e),
            Ok(source) => {
                let size = rustix::fs::fstat(&source)?.st_size as u64;
                copy_content(source.as_fd(), target.as_fd(), size, self.goes_on)?;
                copy_attributes(source.as_fd(), target.as_fd())?;
            }
        }
        finish(target.as_fd(), stat)
    }

    fn attributes(&self, path: &Path, to: BorrowedFd<'_>) -> rustix::io::Result<()> {
        match self.open_source(path, OFlags::DIRECTORY) {
            Ok(from) => copy_attributes(from.as_fd(), to),
            Err(_) => Ok(()),
        }
    }
}

fn times(stat: &Stat) -> Timestamps {
    let at =
        |seconds: i64, nanoseconds: u64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
    Timestamps {
        last_access: at(stat.st_atime, stat.st_atime_nsec),
        last_modification: at(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Owner, then mode (another owner takes the set-user-id bit away), then times.
fn finish(to: BorrowedFd<'_>, stat: &Stat) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    rustix::fs::fchown(to, Some(uid), Some(gid))?;
    rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode))?;
    rustix::fs::futimens(to, &times(stat))
}

/// Shares the blocks where the file system can, and copies what is no hole where it cannot.
fn copy_content(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    size: u64,
    goes_on: &dyn Fn(),
) -> rustix::io::Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            // No more data.
            Err(Errno::NXIO) => break,
            other => other?,
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(data))?.min(size);
        copy_range(from, to, data..end, goes_on)?;
        at = end.max(data + 1);
    }
    rustix::fs::ftruncate(to, size)
}

fn copy_range(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    range: std::ops::Range<u64>,
    goes_on: &dyn Fn(),
) -> rustix::io::Result<()> {
    let (mut read, mut written) = (range.start, range.start);
    let mut buffer = Vec::new();
    while read < range.end {
        goes_on();
        let bytes = (range.end - read).min(CHUNK_BYTES) as usize;
        let copied = if buffer.is_empty() {
            rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), bytes)
        } else {
            Err(Errno::XDEV)
        };
        match copied {
            // It was cut meanwhile.
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                const BUFFER_BYTES: usize = 256 << 10;
                buffer.resize(BUFFER_BYTES, 0);
                let bytes = bytes.min(BUFFER_BYTES);
                let count = rustix::io::pread(from, &mut buffer[..bytes], read)?;
                let mut rest = &buffer[..count];
                if rest.is_empty() {
                    return Ok(());
                }
                while !rest.is_empty() {
                    let count = rustix::io::pwrite(to, rest, written)?;
                    rest = rest.get(count..).unwrap_or_default();
                    written += count as u64;
                }
                read += count as u64;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Attributes that the file system of the copy does not take are left out.
fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mut names = vec![0u8; ATTRIBUTE_BYTES_MAX];
    let count = match rustix::fs::flistxattr(from, &mut names[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        other => other?,
    };
    let mut value = Vec::new();
    for name in names.get(..count).unwrap_or_default().split(|byte| *byte == 0) {
        if name.is_empty() {
            continue;
        }
        value.resize(ATTRIBUTE_BYTES_MAX, 0);
        let Ok(name) = CString::new(name) else { continue };
        let Ok(bytes) = rustix::fs::fgetxattr(from, &name, &mut value[..]) else { continue };
        let value = value.get(..bytes).unwrap_or_default();
        match rustix::fs::fsetxattr(to, &name, value, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => {}
            other => other?,
        }
    }
    Ok(())
}

// ---- btrfs (Documentation/filesystems/btrfs.rst, btrfs-ioctl(2)) ----

/// The number of the root of each subvolume.
const SUBVOLUME_INODE: u64 = 256;

fn is_subvolume(fd: BorrowedFd<'_>, stat: &Stat) -> bool {
    const BTRFS_SUPER_MAGIC: i64 = 0x9123_683e;
    let is_btrfs = || rustix::fs::fstatfs(fd).is_ok_and(|found| found.f_type == BTRFS_SUPER_MAGIC);
    stat.st_ino == SUBVOLUME_INODE && is_btrfs()
}

/// `struct btrfs_ioctl_vol_args_v2`
#[repr(C)]
struct SnapshotArgs {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// Makes a snapshot that can be written to.
fn snapshot(source: BorrowedFd<'_>, target: &Path) -> Result<()> {
    use std::os::fd::AsRawFd as _;
    const BTRFS_IOC_SNAP_CREATE_V2: u64 = 0x5000_9417;
    let wrong = || Error::at("snapshot", target, libc::EINVAL);
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(wrong());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(parent, flags, Mode::empty()).call_on("open", parent)?;
    let mut args = SnapshotArgs {
        fd: i64::from(source.as_raw_fd()),
        transid: 0,
        flags: 0,
        unused: [0; 4],
        name: [0; 4040],
    };
    // A NUL must follow.
    let room = args.name.len() - 1;
    let place = args.name.get_mut(..name.len().min(room)).filter(|place| place.len() == name.len());
    place.ok_or_else(wrong)?.copy_from_slice(name.as_bytes());
    // SAFETY: the kernel reads a structure of this size, which lives until the call returns, and keeps none of it.
    let result =
        unsafe { libc::ioctl(parent.as_raw_fd(), BTRFS_IOC_SNAP_CREATE_V2 as _, &raw mut args) };
    if result < 0 {
        Err(Error { path: Some(target.to_path_buf()), ..Error::last("snapshot") })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
    use warren_testkit::Scratch;

    #[test]
    fn a_copy_has_all_that_the_tree_has() {
        let scratch = Scratch::new("copying");
        let from = scratch.path("from");
        fs::create_dir_all(from.join("a/b")).expect("made");
        fs::write(from.join("a/f"), "text").expect("written");
        fs::hard_link(from.join("a/f"), from.join("a/b/g")).expect("linked");
        symlink("/nowhere", from.join("l")).expect("linked");
        fs::set_permissions(from.join("a/f"), fs::Permissions::from_mode(0o4751)).expect("set");
        fs::set_permissions(from.join("a/b"), fs::Permissions::from_mode(0o500)).expect("set");
        let big = fs::File::create(from.join("holes")).expect("made");
        std::os::unix::fs::FileExt::write_at(&big, b"end", 40 << 20).expect("written");
        rustix::fs::mknodat(rustix::fs::CWD, from.join("pipe"), FileType::Fifo, Mode::RUSR, 0)
            .expect("made");
        let old = Timespec { tv_sec: 1_000, tv_nsec: 5 };
        let times = Timestamps { last_access: old, last_modification: old };
        rustix::fs::utimensat(rustix::fs::CWD, from.join("a"), &times, AtFlags::empty())
            .expect("set");
        let steps = std::cell::Cell::new(0);
        let to = scratch.path("to");
        copy_tree(&from, &to, &|| steps.set(steps.get() + 1)).expect("copied");
        assert!(steps.get() >= 7, "{}", steps.get());
        let stat = |path: &str| fs::symlink_metadata(to.join(path)).expect(path);
        assert_eq!(fs::read_to_string(to.join("a/b/g")).expect("there"), "text");
        assert_eq!(stat("a/f").ino(), stat("a/b/g").ino());
        assert_eq!(stat("a/f").mode() & 0o7777, 0o4751);
        assert_eq!(stat("a/b").mode() & 0o7777, 0o500);
        assert_eq!(stat("a").mtime(), 1_000);
        assert_eq!(fs::read_link(to.join("l")).expect("a link"), Path::new("/nowhere"));
        assert!(stat("pipe").file_type().is_fifo());
        assert_eq!(stat("holes").len(), (40 << 20) + 3);
        assert!(stat("holes").blocks() < 1 << 11, "{}", stat("holes").blocks());
        // What is written to one is not in the other.
        fs::write(to.join("a/f"), "other").expect("written");
        assert_eq!(fs::read_to_string(from.join("a/f")).expect("there"), "text");
        let again = copy_tree(&from, &to, &|| ()).map_err(|e| e.errno);
        assert_eq!(again, Err(libc::EEXIST));
        let file = fs::File::open(from.join("holes")).expect("there");
        copy_file(&file, &scratch.path("file"), &|| ()).expect("copied");
        let copied = fs::metadata(scratch.path("file")).expect("there");
        assert_eq!((copied.len(), copied.mode() & 0o777), ((40 << 20) + 3, 0o600));
    }
}
