//! Directories made for a service, inside places that the service's user may be able to change.
//!
//! Below the base, which may be a link, every step is relative to the directory opened before and follows no
//! symbolic link but one that the administrator made on the way, in a directory that is the administrator's: a
//! user who swaps a directory for a link gets an error, not a chown of what the link points to.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};

/// Deepest nesting whose owner is changed.
const DEPTH_MAX: usize = 64;

/// Deepest nesting of links that lead to links.
const LINKS_MAX: usize = 8;

/// What becomes of a directory that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It gets the mode and the owner as one that is made.
    TakenOver,
    /// It stays as it is, whatever it is.
    Stays,
}

/// Who shall own a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Makes `base/name` with mode 0755 for missing parents, then gives the innermost directory
/// this mode and owner. When its owner was another, everything below it changes hands, too
/// (systemd.exec(5), "RuntimeDirectory="), and `goes_on` is told of each. `EINVAL` for a name that is absolute or
/// has `..`.
pub fn make_directory(
    base: &str,
    name: &str,
    mode: u32,
    owner: Option<Owner>,
    existing: Existing,
    goes_on: &dyn Fn(),
) -> Result<()> {
    let path = Path::new(base).join(name);
    let name = Path::new(name);
    let Some(last) = name.file_name() else {
        return Err(Error::at("directory name", name, libc::EINVAL));
    };
    let parent = make_below(base, name.parent().unwrap_or(Path::new("")))?;
    let is_made = make_one(parent.as_fd(), last).call_on("mkdir", &path)?;
    if !is_made && existing == Existing::Stays {
        return rustix::fs::statat(&parent, last, AtFlags::empty()).map(drop).call_on("stat", path);
    }
    let dir = open_one(parent.as_fd(), last).call_on("open", &path)?;
    if let Some(owner) = owner {
        take_over(dir.as_fd(), owner, goes_on).map_err(|e| e.on(&path))?;
    }
    rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode)).call_on("chmod", &path)
}

/// Below a base, what belongs to users that are made for a run: nobody else gets there.
pub const PRIVATE: &str = "private";

/// As [`make_directory`], of a user that is made for a run: it lies in `base/private`, and `base/name` is a link to it.
/// A directory that is in the place of the link goes there first (systemd.exec(5), "RuntimeDirectory=").
///
/// # Errors
/// `EEXIST`: `base/name` is neither a link nor a directory that may be moved.
pub fn make_private_directory(
    base: &str,
    name: &str,
    mode: u32,
    owner: Option<Owner>,
    goes_on: &dyn Fn(),
) -> Result<()> {
    let private = format!("{base}/{PRIVATE}");
    let dir = make_below(base, Path::new(PRIVATE))?;
    rustix::fs::fchmod(&dir, Mode::from_raw_mode(0o700)).call_on("chmod", &private)?;
    move_directory((base, name), (&private, name))?;
    make_directory(&private, name, mode, owner, Existing::TakenOver, goes_on)?;
    link_directory(base, &format!("{PRIVATE}/{name}"), name)
}

/// Takes back what [`make_private_directory`] made, if `base/name` is a link to it: the directory takes its place.
pub fn take_back_private_directory(base: &str, name: &str) -> Result<()> {
    let link = Path::new(base).join(name);
    let Ok(target) = std::fs::read_link(&link) else { return Ok(()) };
    let up = Path::new(name).components().count().saturating_sub(1);
    if target != Path::new(&("../".repeat(up) + PRIVATE + "/" + name)) {
        return Ok(());
    }
    let private = format!("{base}/{PRIVATE}");
    let last = Path::new(name).file_name().unwrap_or_default();
    let there = Path::new(&private).join(name);
    if !std::fs::symlink_metadata(&there).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let parent = make_below(base, Path::new(name).parent().unwrap_or(Path::new("")))?;
    rustix::fs::unlinkat(&parent, last, AtFlags::empty()).call_on("unlink", &link)?;
    move_directory((&private, name), (base, name))
}

/// Moves a directory below one base to another; nothing is amiss if there is none, or if there is one already.
fn move_directory(from: (&str, &str), to: (&str, &str)) -> Result<()> {
    let path = |(base, name): (&str, &str)| Path::new(base).join(name);
    if !std::fs::symlink_metadata(path(from)).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let parent = |(base, name): (&str, &str)| {
        make_below(base, Path::new(name).parent().unwrap_or(Path::new("")))
    };
    let last = Path::new(from.1).file_name().unwrap_or_default();
    let (old, new) = (parent(from)?, parent(to)?);
    let moved = rustix::fs::renameat_with(&old, last, &new, last, RenameFlags::NOREPLACE);
    match moved {
        Err(Errno::EXIST) => Ok(()),
        other => other.call_on("rename", path(to)),
    }
}

/// Makes the link `base/link` to the directory `base/name`, relative to where it lies, and missing parents
/// with mode 0755. A link that is there goes; anything else stays, and is `EEXIST`. `EINVAL` for a link that
/// is absolute or has `..`.
pub fn link_directory(base: &str, name: &str, link: &str) -> Result<()> {
    let path = Path::new(base).join(link);
    let link = Path::new(link);
    let up = link.components().count().saturating_sub(1);
    let target = "../".repeat(up) + name;
    let Some(last) = link.file_name() else {
        return Err(Error::at("link name", link, libc::EINVAL));
    };
    let dir = make_below(base, link.parent().unwrap_or(Path::new("")))?;
    let there = rustix::fs::statat(&dir, last, AtFlags::SYMLINK_NOFOLLOW);
    if there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
        rustix::fs::unlinkat(&dir, last, AtFlags::empty()).call_on("unlink", &path)?;
    }
    rustix::fs::symlinkat(target, &dir, last).call_on("symlink", &path)
}

/// Makes something at an absolute path to mount over, and missing directories above it: a directory, or an empty
/// file. What is there is as good.
pub fn make_mount_point(path: &str, is_directory: bool) -> Result<()> {
    let below = Path::new(path.trim_start_matches('/'));
    let Some(last) = below.file_name() else { return Ok(()) };
    if rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(());
    }
    let parent = make_below("/", below.parent().unwrap_or(Path::new("")))?;
    if is_directory {
        return make_one(parent.as_fd(), last).map(drop).call_on("mkdir", path);
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(&parent, last, flags, Mode::empty()).map(drop).call_on("open", path)
}

/// Makes a directory at an absolute path, and what is missing above it, with this mode.
pub fn make_directories(path: &str, mode: u32) -> Result<()> {
    make_all("/", Path::new(path.trim_start_matches('/')), mode).map(drop)
}

/// Makes the directories of `name` below `base` that are missing, and opens the innermost.
fn make_below(base: &str, name: &Path) -> Result<OwnedFd> {
    make_all(base, name, 0o755)
}

fn make_all(base: &str, name: &Path, mode: u32) -> Result<OwnedFd> {
    let mut dir = open_base(base)?;
    for part in name.components() {
        let Component::Normal(part) = part else {
            return Err(Error::at("directory name", name, libc::EINVAL));
        };
        let path = || Path::new(base).join(name);
        make_with_mode(dir.as_fd(), part, mode).call_on("mkdir", path())?;
        dir = enter(dir.as_fd(), part, LINKS_MAX).call_on("open", path())?;
    }
    Ok(dir)
}

/// Opens the directory at an absolute path, each step of it by the rule of this module. `EINVAL` for a path that
/// is relative or has `..`.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd> {
    let mut parts = path.components();
    let mut dir = match parts.next() {
        Some(Component::RootDir) => open_base("/")?,
        _ => return Err(Error::at("directory name", path, libc::EINVAL)),
    };
    for part in parts {
        let Component::Normal(part) = part else {
            return Err(Error::at("directory name", path, libc::EINVAL));
        };
        dir = enter(dir.as_fd(), part, LINKS_MAX).call_on("open", path)?;
    }
    Ok(dir)
}

/// False: it was there.
fn make_one(dir: BorrowedFd<'_>, part: &OsStr) -> rustix::io::Result<bool> {
    make_with_mode(dir, part, 0o755)
}

fn make_with_mode(dir: BorrowedFd<'_>, part: &OsStr, mode: u32) -> rustix::io::Result<bool> {
    match rustix::fs::mkdirat(dir, part, Mode::from_raw_mode(mode)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(e) => Err(e),
    }
}

fn open_one(dir: BorrowedFd<'_>, part: &OsStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(dir, part, OPEN_DIR, Mode::empty())
}

/// Opens a directory on the way, which may be a link that the administrator made.
fn enter(dir: BorrowedFd<'_>, part: &OsStr, links: usize) -> rustix::io::Result<OwnedFd> {
    match open_one(dir, part) {
        Err(Errno::NOTDIR | Errno::LOOP) if is_trusted_link(dir, part)? => follow(dir, part, links),
        other => other,
    }
}

/// Whether this is a link in a directory in which nobody else may move links about, both the
/// administrator's (or ours, who are not root).
fn is_trusted_link(dir: BorrowedFd<'_>, part: &OsStr) -> rustix::io::Result<bool> {
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = |uid: u32| uid == 0 || uid == own;
    let around = rustix::fs::fstat(dir)?;
    let link = rustix::fs::statat(dir, part, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_link = FileType::from_raw_mode(link.st_mode) == FileType::Symlink;
    let others = if around.st_gid == 0 { libc::S_IWOTH } else { libc::S_IWOTH | libc::S_IWGRP };
    let is_closed = around.st_mode & others == 0;
    Ok(is_link && is_closed && is_trusted(around.st_uid) && is_trusted(link.st_uid))
}

/// Goes where a link leads, by the same rule at each step.
fn follow(dir: BorrowedFd<'_>, link: &OsStr, links: usize) -> rustix::io::Result<OwnedFd> {
    let links = links.checked_sub(1).ok_or(Errno::LOOP)?;
    let target = rustix::fs::readlinkat(dir, link, Vec::new())?;
    let target = Path::new(OsStr::from_bytes(target.as_bytes()));
    let start = if target.is_absolute() { "/" } else { "." };
    let mut at = rustix::fs::openat(dir, start, OPEN_DIR, Mode::empty())?;
    for part in target.components() {
        at = match part {
            Component::Normal(part) => enter(at.as_fd(), part, links)?,
            Component::ParentDir => open_one(at.as_fd(), OsStr::new(".."))?,
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
        };
    }
    Ok(at)
}

/// The base may be a link (`/var/run`) and is made if missing.
fn open_base(base: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(base, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            std::fs::create_dir_all(base).call_on("mkdir", base)?;
            rustix::fs::open(base, flags, Mode::empty()).call_on("open", base)
        }
        other => other.call_on("open", base),
    }
}

fn take_over(dir: BorrowedFd<'_>, owner: Owner, goes_on: &dyn Fn()) -> Result<()> {
    let stat = rustix::fs::fstat(dir).call("fstat")?;
    if (stat.st_uid, stat.st_gid) == (owner.uid, owner.gid) {
        return Ok(());
    }
    chown_below(dir, owner, DEPTH_MAX, goes_on)?;
    let (uid, gid) = ids(owner);
    rustix::fs::fchown(dir, uid, gid).call("fchown")
}

fn chown_below(dir: BorrowedFd<'_>, owner: Owner, depth: usize, goes_on: &dyn Fn()) -> Result<()> {
    if depth == 0 {
        return Err(Error::new("chown: nested too deep", libc::ELOOP));
    }
    let (uid, gid) = ids(owner);
    for entry in Dir::read_from(dir).call("readdir")? {
        let entry = entry.call("readdir")?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entry.file_type() == FileType::Directory {
            let sub = rustix::fs::openat(dir, name, OPEN_DIR, Mode::empty()).call("open")?;
            chown_below(sub.as_fd(), owner, depth - 1, goes_on)?;
        }
        rustix::fs::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).call("chown")?;
        goes_on();
    }
    Ok(())
}

fn ids(owner: Owner) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("warren-sys-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir(&dir).expect("a scratch directory can be made");
        dir
    }

    #[test]
    fn directories_are_made_with_mode_and_links_are_not_followed() {
        let dir = scratch("tree");
        let base = dir.to_str().expect("the scratch path is text");
        let make =
            |name: &str| make_directory(base, name, 0o750, None, Existing::TakenOver, &|| ());
        make("a/b").expect("made");
        let mode = |p: &str| std::fs::metadata(dir.join(p)).expect("there").permissions().mode();
        assert_eq!((mode("a") & 0o777, mode("a/b") & 0o777), (0o755, 0o750));
        symlink("/etc", dir.join("link")).expect("a link can be made");
        for bad in ["../x", "/x", "a/../b"] {
            let refused = make(bad).map_err(|e| e.errno);
            assert_eq!(refused, Err(libc::EINVAL), "{bad}");
        }
        let refused = make("link").map_err(|e| e.errno);
        assert_eq!(refused, Err(libc::ENOTDIR));
        std::fs::remove_dir_all(&dir).expect("clean up");
    }

    #[test]
    fn what_is_to_stay_is_left_alone() {
        let dir = scratch("stays");
        let base = dir.to_str().expect("the scratch path is text");
        let make = |name: &str| make_directory(base, name, 0o750, None, Existing::Stays, &|| ());
        let mode = |p: &str| std::fs::metadata(dir.join(p)).expect("there").permissions().mode();
        std::fs::create_dir(dir.join("old")).expect("made");
        std::fs::write(dir.join("file"), "x").expect("written");
        symlink("old", dir.join("link")).expect("a link can be made");
        symlink("nothing", dir.join("dangling")).expect("a link can be made");
        let before = ["old", "file"].map(mode);
        for there in ["old", "file", "link"] {
            make(there).expect("it is there");
        }
        assert_eq!(["old", "file"].map(mode), before);
        make("new").expect("made");
        assert_eq!(mode("new") & 0o777, 0o750);
        assert_eq!(make("dangling").map_err(|e| e.errno), Err(libc::ENOENT));
        assert_eq!(make("file/x").map_err(|e| e.errno), Err(libc::ENOTDIR));
        std::fs::remove_dir_all(&dir).expect("clean up");
    }

    /// An administrator moves directories to other disks, and leaves links. Below a directory that is a user's
    /// own, and where anybody may write, links lead nowhere.
    #[test]
    fn links_of_the_administrator_are_followed_on_the_way() {
        if !rustix::process::geteuid().is_root() {
            let test = "links_of_the_administrator_are_followed_on_the_way";
            return crate::test_not_run(test, "root");
        }
        let dir = scratch("moved");
        let base = dir.to_str().expect("the scratch path is text");
        let errno = |name: &str| {
            make_directory(base, name, 0o755, None, Existing::TakenOver, &|| ())
                .map_err(|e| e.errno)
        };
        for made in ["disk", "disk/deep", "users", "open", "group"] {
            std::fs::create_dir(dir.join(made)).expect("made");
        }
        std::fs::set_permissions(dir.join("open"), PermissionsExt::from_mode(0o777))
            .expect("chmod");
        std::os::unix::fs::chown(dir.join("group"), None, Some(12345)).expect("chown");
        std::fs::set_permissions(dir.join("group"), PermissionsExt::from_mode(0o775))
            .expect("chmod");
        for (link, target) in [
            ("moved", dir.join("disk")),
            ("near", "disk/../disk/deep".into()),
            ("far", "moved/deep".into()),
            ("circle", "circle".into()),
            ("users/moved", dir.join("disk")),
            ("open/moved", dir.join("disk")),
            ("group/moved", dir.join("disk")),
            ("by-user", "users/moved".into()),
            ("theirs", "disk".into()),
        ] {
            symlink(target, dir.join(link)).expect("a link can be made");
        }
        let given = [dir.join("users"), dir.join("theirs")];
        given
            .iter()
            .for_each(|path| std::os::unix::fs::lchown(path, Some(12345), None).expect("chown"));
        for (name, at) in [
            ("moved/a", "disk/a"),
            ("moved/b/c", "disk/b/c"),
            ("near/d", "disk/deep/d"),
            ("far/e", "disk/deep/e"),
        ] {
            assert_eq!(errno(name), Ok(()), "{name}");
            assert!(dir.join(at).is_dir(), "{name}");
        }
        for name in
            ["users/moved/x", "open/moved/x", "group/moved/x", "by-user/x", "theirs/x", "moved"]
        {
            assert_eq!(errno(name), Err(libc::ENOTDIR), "{name}");
        }
        assert_eq!(errno("circle/x"), Err(libc::ELOOP));
        assert!(!dir.join("disk/x").exists());
        std::fs::remove_dir_all(&dir).expect("clean up");
    }

    #[test]
    fn links_are_made_where_no_link_leads() {
        let dir = scratch("links");
        let base = dir.to_str().expect("the scratch path is text");
        let read = |path: &str| std::fs::read_link(dir.join(path)).expect("a link");
        for name in ["a", "b"] {
            link_directory(base, name, "deep/er/link").expect("made, or made anew");
            assert_eq!(read("deep/er/link"), Path::new("../../").join(name));
        }
        link_directory(base, "a", "link").expect("made");
        assert_eq!(read("link"), Path::new("a"));
        std::fs::create_dir(dir.join("outside")).expect("made");
        let errno = |link| link_directory(base, "a", link).map_err(|e| e.errno);
        assert_eq!(errno("outside"), Err(libc::EEXIST));
        assert_eq!((errno("/x"), errno("a/../x")), (Err(libc::EINVAL), Err(libc::EINVAL)));
        std::fs::remove_dir_all(&dir).expect("clean up");
    }

    #[test]
    fn another_owner_takes_everything_over() {
        if !rustix::process::geteuid().is_root() {
            return crate::test_not_run("another_owner_takes_everything_over", "root");
        }
        let dir = scratch("owner");
        let base = dir.to_str().expect("the scratch path is text");
        let make = |name: &str, owner, goes_on: &dyn Fn()| {
            make_directory(base, name, 0o755, owner, Existing::TakenOver, goes_on).expect("made");
        };
        make("a/b/c", None, &|| ());
        std::fs::write(dir.join("a/b/c/file"), "x").expect("written");
        symlink("/etc/passwd", dir.join("a/b/link")).expect("a link can be made");
        let before = std::fs::metadata("/etc/passwd").expect("there").uid();
        let (owner, done) = (Owner { uid: 12345, gid: 54321 }, std::cell::Cell::new(0));
        let goes_on = || done.set(done.get() + 1);
        make("a/b", Some(owner), &goes_on);
        assert_eq!(done.get(), 3, "each is told");
        for path in ["a/b", "a/b/c", "a/b/c/file", "a/b/link"] {
            let meta = std::fs::symlink_metadata(dir.join(path)).expect("there");
            assert_eq!((meta.uid(), meta.gid()), (12345, 54321), "{path}");
        }
        assert_eq!(std::fs::metadata("/etc/passwd").expect("there").uid(), before);
        std::fs::remove_dir_all(&dir).expect("clean up");
    }
}
