//! Directories made for a service, inside places that the service's user may be able to change.
//!
//! Below the base, which may be a link, every step is relative to the directory opened before and follows no
//! symbolic link, so a user who swaps a directory for a link gets an error, not a chown of what the link
//! points to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};

use crate::error::{Context, Error, Result};

/// Deepest nesting whose owner is changed.
const DEPTH_MAX: usize = 64;

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
    goes_on: &dyn Fn(),
) -> Result<()> {
    let dir = make_below(base, Path::new(name))?;
    if let Some(owner) = owner {
        take_over(dir.as_fd(), owner, goes_on).map_err(|e| e.on(Path::new(base).join(name)))?;
    }
    rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode)).call_on("chmod", name)
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

/// Makes the directories of `name` below `base` that are missing, and opens the innermost.
fn make_below(base: &str, name: &Path) -> Result<OwnedFd> {
    let mut dir = open_base(base)?;
    for part in name.components() {
        let Component::Normal(part) = part else {
            return Err(Error::at("directory name", name, libc::EINVAL));
        };
        let part = Path::new(part);
        match rustix::fs::mkdirat(&dir, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(e).call_on("mkdir", Path::new(base).join(name)),
        }
        dir = rustix::fs::openat(&dir, part, OPEN_DIR, Mode::empty())
            .call_on("open", Path::new(base).join(name))?;
    }
    Ok(dir)
}

/// The base may be a link (`/var/run`) and is made if missing.
fn open_base(base: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::open(base, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => {
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
        make_directory(base, "a/b", 0o750, None, &|| ()).expect("made");
        let mode = |p: &str| std::fs::metadata(dir.join(p)).expect("there").permissions().mode();
        assert_eq!((mode("a") & 0o777, mode("a/b") & 0o777), (0o755, 0o750));
        symlink("/etc", dir.join("link")).expect("a link can be made");
        for bad in ["../x", "/x", "a/../b"] {
            let refused = make_directory(base, bad, 0o755, None, &|| ()).map_err(|e| e.errno);
            assert_eq!(refused, Err(libc::EINVAL), "{bad}");
        }
        let refused = make_directory(base, "link", 0o755, None, &|| ()).map_err(|e| e.errno);
        assert_eq!(refused, Err(libc::ENOTDIR));
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
        symlink(dir.join("outside"), dir.join("trap")).expect("a link can be made");
        let errno = |link| link_directory(base, "a", link).map_err(|e| e.errno);
        assert_eq!(errno("trap/link"), Err(libc::ENOTDIR));
        assert!(!dir.join("outside/link").exists());
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
        make_directory(base, "a/b/c", 0o755, None, &|| ()).expect("made");
        std::fs::write(dir.join("a/b/c/file"), "x").expect("written");
        symlink("/etc/passwd", dir.join("a/b/link")).expect("a link can be made");
        let before = std::fs::metadata("/etc/passwd").expect("there").uid();
        let (owner, done) = (Owner { uid: 12345, gid: 54321 }, std::cell::Cell::new(0));
        let goes_on = || done.set(done.get() + 1);
        make_directory(base, "a/b", 0o755, Some(owner), &goes_on).expect("made");
        assert_eq!(done.get(), 3, "each is told");
        for path in ["a/b", "a/b/c", "a/b/c/file", "a/b/link"] {
            let meta = std::fs::symlink_metadata(dir.join(path)).expect("there");
            assert_eq!((meta.uid(), meta.gid()), (12345, 54321), "{path}");
        }
        assert_eq!(std::fs::metadata("/etc/passwd").expect("there").uid(), before);
        std::fs::remove_dir_all(&dir).expect("clean up");
    }
}
