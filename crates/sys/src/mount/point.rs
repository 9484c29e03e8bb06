//! Where something is to be mounted, held by a descriptor: whoever may write in a directory on the way can put
//! neither a link nor another directory there between the look and the mount.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, open, openat, statat};
use rustix::io::Errno;
use rustix::mount as rm;

use super::{MountFlags, MountOptions, attach_to, finish, make_new, may_be_unknown, mount};
use crate::error::{Context, Error, Result};
use crate::file::descriptor_path;

/// Of directories above a file that is made, as systemd 252 has it.
const ABOVE_FILE: u32 = 0o755;

/// A place to mount at. No symbolic link led there.
#[derive(Debug)]
pub struct MountPoint {
    path: String,
    place: OwnedFd,
}

impl MountPoint {
    /// What is there, the topmost mount of it.
    ///
    /// # Errors
    /// `ELOOP` for a symbolic link in the path; `EINVAL` for a path that is relative or has `..`.
    pub fn open(path: &str) -> Result<MountPoint> {
        walk(path, &mut |_, _, _| Err(Errno::NOENT))
    }

    /// The same; directories that are missing are made with this mode.
    ///
    /// # Errors
    /// As [`MountPoint::open`]. Nothing is made behind a link.
    pub fn make_directory(path: &str, mode: u32) -> Result<MountPoint> {
        walk(path, &mut |dir, part, _| mkdirat(dir, part, Mode::from_raw_mode(mode)))
    }

    /// The same; what is missing is an empty file, below directories that everybody may read.
    ///
    /// # Errors
    /// As [`MountPoint::open`].
    pub fn make_file(path: &str) -> Result<MountPoint> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        walk(path, &mut |dir, part, is_last| match is_last {
            true => openat(dir, part, flags, Mode::from_raw_mode(0o666)).map(drop),
            false => mkdirat(dir, part, Mode::from_raw_mode(ABOVE_FILE)),
        })
    }

    /// The descriptor.
    pub fn place(&self) -> BorrowedFd<'_> {
        self.place.as_fd()
    }

    /// A path that leads to it whatever happens to its own. Without /proc, which has such paths, its own.
    fn kernel_path(&self) -> String {
        let path = descriptor_path(self.place());
        match rustix::fs::stat(&path) {
            Ok(_) => path,
            Err(_) => self.path.clone(),
        }
    }
}

/// As [`super::mount_fs`] at a place that is held. Not for what is mounted already.
///
/// # Errors
/// As mount(2); they name the place by its own path.
pub fn mount_fs_at(
    source: &str,
    at: &MountPoint,
    fstype: &str,
    options: &MountOptions,
) -> Result<()> {
    let named = |error: Error| match error.path.as_deref() == Some(Path::new(&at.kernel_path())) {
        true => error.on(&at.path),
        false => error,
    };
    if options.flags.contains(MountFlags::BIND) {
        let bound = match options.flags.contains(MountFlags::REC) {
            true => rm::mount_bind_recursive(source, at.kernel_path()),
            false => rm::mount_bind(source, at.kernel_path()),
        };
        bound.call_on("mount --bind", &at.path)?;
    } else {
        let new = make_new(source, fstype, options);
        match new.and_then(|new| attach_to(new.as_fd(), at.place()).map_err(|e| e.on(&at.path))) {
            Err(e) if may_be_unknown(e.errno) => {
                let data = options.data.join(",");
                mount(source, &at.kernel_path(), fstype, options.flags, &data).map_err(named)?;
            }
            other => other?,
        }
    }
    finish_at(&at.path, options)
}

/// As [`finish`], of what is mounted at a path in which there is no link.
///
/// # Errors
/// As mount(2), and as [`MountPoint::open`].
pub fn finish_at(path: &str, options: &MountOptions) -> Result<()> {
    let top = MountPoint::open(path)?;
    finish(&top.kernel_path(), options).map_err(|e| e.on(path))
}

/// Makes what is missing in a directory, which may be the last part of the path.
type Make<'m> = &'m mut dyn FnMut(BorrowedFd<'_>, &OsStr, bool) -> rustix::io::Result<()>;

/// Goes part by part from the root directory, over no link, and has `make` make what is missing.
fn walk(path: &str, make: Make<'_>) -> Result<MountPoint> {
    let invalid = || Error::at("mount point", path, libc::EINVAL);
    let below = path.strip_prefix('/').ok_or_else(invalid)?;
    let mut at = open("/", DIRECTORY, Mode::empty()).call_on("open", "/")?;
    let mut parts = Path::new(below).components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(part) = part else { return Err(invalid()) };
        let is_last = parts.peek().is_none();
        at = match enter(at.as_fd(), part, is_last) {
            Err(Errno::NOENT) => {
                match make(at.as_fd(), part, is_last) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    other => other.call_on("make", path)?,
                }
                enter(at.as_fd(), part, is_last)
            }
            other => other,
        }
        .call_on("open", path)?;
    }
    Ok(MountPoint { path: path.to_owned(), place: at })
}

/// Of a directory on the way: automount points are entered.
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Of the place itself, which may be a file, and an automount point that is to be mounted on.
const LAST: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// `ELOOP` for a link. That is what openat2(2) says with RESOLVE_NO_SYMLINKS; one part at a time needs no such call.
fn enter(dir: BorrowedFd<'_>, part: &OsStr, is_last: bool) -> rustix::io::Result<OwnedFd> {
    let flags = if is_last { LAST } else { DIRECTORY };
    match openat(dir, part, flags, Mode::empty()) {
        Err(Errno::NOTDIR) if is_link(dir, part) => Err(Errno::LOOP),
        // Opened as itself, a link is a place like others.
        Ok(place) if is_last && is_link(place.as_fd(), OsStr::new("")) => Err(Errno::LOOP),
        other => other,
    }
}

fn is_link(dir: BorrowedFd<'_>, part: &OsStr) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    let found = statat(dir, part, flags);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}
