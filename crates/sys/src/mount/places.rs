//! Places that mounts of a unit's own begin from: resolved paths, nodes that nobody can open, and directories for
//! a unit's temporary files.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, makedev, mkdirat, mknodat,
    open, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};
use crate::file::descriptor_path;

/// What is at a path, as far as mounts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file, or anything that is none of the others.
    File,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
}

/// Opens a path as a place; links are followed.
pub fn open_place(path: &str) -> Result<OwnedFd> {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).call_on("open", path)
}

/// The path without links of what is at `path` below `root`, as this process sees it. Links that lead out of
/// `root` lead to the same path below it.
///
/// # Errors
/// `ENOENT` if there is nothing; `EINVAL` if the path is not UTF-8.
pub fn resolve(root: BorrowedFd<'_>, path: &str) -> Result<String> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    let place = place.call_on("open", path)?;
    let link = descriptor_path(place.as_fd());
    let resolved = readlinkat(CWD, &link, Vec::new()).call_on("readlink", link)?;
    let resolved = resolved.into_string().map_err(|_| Error::at("resolve", path, libc::EINVAL))?;
    match resolved.starts_with('/') {
        true => Ok(resolved),
        // In no mount that can be reached from here.
        false => Err(Error::at("resolve", path, libc::ENOENT)),
    }
}

/// What is at a path; links are not followed.
pub fn kind_of(path: &str) -> Result<Kind> {
    let stat = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).call_on("stat", path)?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::CharacterDevice => Kind::CharacterDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        _ => Kind::File,
    })
}

/// Where the nodes are that nobody but root can open, of each kind one.
const INACCESSIBLE: &str = "/run/systemd/inaccessible";

/// A node of this kind that nobody but root can open, and in which root finds nothing. It is made if it is not there.
/// A regular file stands for a device where none can be made.
pub fn inaccessible(kind: Kind) -> Result<String> {
    std::fs::create_dir_all(INACCESSIBLE).call_on("mkdir", INACCESSIBLE)?;
    let (name, file_type) = match kind {
        Kind::Directory => return inaccessible_directory(),
        Kind::File => ("reg", FileType::RegularFile),
        Kind::CharacterDevice => ("chr", FileType::CharacterDevice),
        Kind::BlockDevice => ("blk", FileType::BlockDevice),
        Kind::Fifo => ("fifo", FileType::Fifo),
        Kind::Socket => ("sock", FileType::Socket),
    };
    let path = format!("{INACCESSIBLE}/{name}");
    match mknodat(CWD, &path, file_type, Mode::empty(), makedev(0, 0)) {
        Ok(()) | Err(Errno::EXIST) => Ok(path),
        Err(Errno::PERM) if kind != Kind::File => inaccessible(Kind::File),
        Err(error) => Err(Error::at("mknod", path, error.raw_os_error())),
    }
}

fn inaccessible_directory() -> Result<String> {
    let path = format!("{INACCESSIBLE}/dir");
    match mkdirat(CWD, &path, Mode::empty()) {
        Ok(()) | Err(Errno::EXIST) => Ok(path),
        Err(error) => Err(Error::at("mkdir", path, error.raw_os_error())),
    }
}

/// The directory for a unit's own temporary files: `parent/name/tmp`, made if it is not there, in one that only this
/// user can enter.
///
/// # Errors
/// `EPERM` if something is there that is not ours alone: `parent` is for all to write to.
pub fn private_tmp(parent: &str, name: &str) -> Result<String> {
    let path = Path::new(parent).join(name);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent_fd = open(parent, flags, Mode::empty()).call_on("open", parent)?;
    make(parent_fd.as_fd(), name).call_on("mkdir", &path)?;
    let flags = flags | OFlags::NOFOLLOW;
    let own = openat(&parent_fd, name, flags, Mode::empty()).call_on("open", &path)?;
    let stat = fstat(&own).call_on("fstat", &path)?;
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if !is_ours {
        return Err(Error::at("mkdir", &path, libc::EPERM));
    }
    make(own.as_fd(), "tmp").call_on("mkdir", &path)?;
    let tmp = openat(&own, "tmp", flags, Mode::empty()).call_on("open", &path)?;
    // The umask took some of it away.
    fchmod(&tmp, Mode::from_raw_mode(0o1777)).call_on("chmod", &path)?;
    Ok(format!("{parent}/{name}/tmp"))
}

fn make(parent: BorrowedFd<'_>, name: &str) -> rustix::io::Result<()> {
    match mkdirat(parent, name, Mode::RWXU) {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use warren_testkit::Scratch;

    #[test]
    fn paths_are_resolved_within_a_root() {
        let s = Scratch::new("places");
        std::fs::create_dir_all(s.path("usr/lib")).expect("ours");
        symlink("usr/lib", s.path("lib")).expect("ours");
        symlink("/usr", s.path("abs")).expect("ours");
        symlink("../../..", s.path("up")).expect("ours");
        let root = s.0.canonicalize().expect("it is there");
        let place = open_place(root.to_str().expect("UTF-8")).expect("it is there");
        let inside = |path| {
            let found = resolve(place.as_fd(), path).map_err(|e| e.errno)?;
            Ok::<_, i32>(
                found.strip_prefix(root.to_str().expect("UTF-8")).expect("in it").to_owned(),
            )
        };
        assert_eq!(inside("/lib"), Ok("/usr/lib".to_owned()));
        assert_eq!(inside("/abs/lib"), Ok("/usr/lib".to_owned()));
        assert_eq!(inside("/up"), Ok(String::new()));
        assert_eq!(inside("/none"), Err(libc::ENOENT));
    }

    #[test]
    fn temporary_files_lie_where_only_the_owner_comes() {
        let s = Scratch::new("private-tmp");
        let parent = s.0.to_str().expect("UTF-8");
        for _ in 0..2 {
            let tmp = private_tmp(parent, "unit").expect("made");
            assert_eq!(tmp, format!("{parent}/unit/tmp"));
            let mode = |path: &str| std::fs::metadata(path).expect("there").mode() & 0o7777;
            assert_eq!(mode(&tmp), 0o1777);
            assert_eq!(mode(&s.text_path("unit")), 0o700);
        }
        // Somebody was there before, or put a link there.
        std::fs::create_dir(s.path("open")).expect("ours");
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(s.path("open"), all).expect("ours");
        symlink("unit", s.path("link")).expect("ours");
        assert_eq!(private_tmp(parent, "open").expect_err("not ours alone").errno, libc::EPERM);
        assert!(private_tmp(parent, "link").is_err());
    }
}
