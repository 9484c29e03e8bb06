//! Walks over what lies below a group. Who was given a group makes any number below it, as deep as he likes: a walk
//! goes from directory to directory, so that each step costs the same, holds one of them open, and has a bound.
//! What must not be here: groups by their paths.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::error::{Context, Result};

/// Most groups of one walk. What lies beyond is not seen by it.
pub const GROUPS_MAX: usize = 1 << 16;

/// What a walk does with each group.
pub(super) trait Visit {
    /// A group below, before it is opened; whether the walk goes into it.
    fn is_to_be_entered(&mut self, above: BorrowedFd<'_>, name: &OsStr) -> bool;

    /// A group, at this path. Below a group of which it fails because that is gone, or `skips` says so, nothing is seen.
    fn enter(&mut self, path: &Path, group: BorrowedFd<'_>) -> Result<()>;

    /// All that is below a group was seen.
    fn leave(&mut self, above: BorrowedFd<'_>, name: &OsStr) -> Result<()>;
}

/// Walks over a group, which is open and at this path, and all below it, `most` groups in all. Whether it has seen all.
pub(super) fn walk(top: OwnedFd, path: &Path, most: usize, visit: &mut impl Visit) -> Result<bool> {
    let (mut here, mut path) = (top, path.to_path_buf());
    visit.enter(&path, here.as_fd())?;
    let mut levels = vec![names_below(here.as_fd(), &path, most)?];
    let (mut seen, mut is_all) = (1, true);
    while let Some(names) = levels.last_mut() {
        if seen == most {
            is_all &= names.is_empty();
            names.clear();
        }
        let Some(name) = names.pop() else {
            levels.pop();
            if !levels.is_empty() {
                let name = path.file_name().map(OsStr::to_owned).unwrap_or_default();
                path.pop();
                // Groups are never moved.
                here = open(here.as_fd(), OsStr::new(".."), &path)?;
                visit.leave(here.as_fd(), &name)?;
            }
            continue;
        };
        seen += 1;
        if !visit.is_to_be_entered(here.as_fd(), &name) {
            continue;
        }
        path.push(&name);
        let entered = open(here.as_fd(), &name, &path).and_then(|group| {
            visit.enter(&path, group.as_fd())?;
            names_below(group.as_fd(), &path, most - seen).map(|names| (group, names))
        });
        match entered {
            Ok((group, names)) => {
                here = group;
                levels.push(names);
            }
            Err(error) if error.is_gone() || error.errno == libc::EOPNOTSUPP => _ = path.pop(),
            Err(error) => return Err(error),
        }
    }
    Ok(is_all)
}

fn open(above: BorrowedFd<'_>, name: &OsStr, path: &PathBuf) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(above, name, flags, Mode::empty()).call_on("open cgroup", path)
}

/// The last by name first. Of more than `most` that many and one.
fn names_below(group: BorrowedFd<'_>, path: &Path, most: usize) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    // The kernel counts the groups below in the links, beside its name and its own `.`.
    if rustix::fs::fstat(group).call_on("stat", path)?.st_nlink <= 2 {
        return Ok(names);
    }
    for entry in rustix::fs::Dir::read_from(group).call_on("opendir", path)? {
        let entry = match entry {
            // It is gone.
            Err(rustix::io::Errno::NOENT) => break,
            other => other.call_on("readdir", path)?,
        };
        let name = entry.file_name().to_bytes();
        if entry.file_type() == FileType::Directory && name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
        if names.len() > most {
            break;
        }
    }
    names.sort_unstable_by(|a, b| b.as_bytes().cmp(a.as_bytes()));
    Ok(names)
}
