//! Small file operations that take an fd.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

use crate::error::{Context, Error, Result};
use crate::waits;

/// A path that leads to what an open descriptor is of. Some threads have a table of descriptors of their own
/// ([`crate::process::keep_only_descriptors`]), in which the number is another's.
pub fn descriptor_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd())
}

/// O_NONBLOCK of open(2), for options of opening of the standard library.
pub const NONBLOCK: i32 = libc::O_NONBLOCK;

/// O_NOFOLLOW of open(2), likewise.
pub const NOFOLLOW: i32 = libc::O_NOFOLLOW;

/// A lock of flock(2) on a file, until it is dropped.
pub struct FileLock<'a>(&'a std::fs::File);

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(self.0, rustix::fs::FlockOperation::Unlock);
    }
}

/// Waits until nobody else has the file locked, and locks it.
pub fn lock(file: &std::fs::File) -> Result<FileLock<'_>> {
    rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive).call("flock")?;
    Ok(FileLock(file))
}

/// Whether a file has an extended attribute; xattr(7).
pub fn has_attribute(path: &str, name: &str) -> bool {
    rustix::fs::getxattr(path, name, &mut [0u8; 0][..]).is_ok()
}

/// Cuts a file, or extends it with zeros, to `bytes`.
pub fn set_length(fd: BorrowedFd<'_>, bytes: u64) -> Result<()> {
    rustix::fs::ftruncate(fd, bytes).call("ftruncate")
}

/// Opens a device of the kernel's miscellaneous ones (Documentation/admin-guide/devices.txt, major 10)
/// for reading and writing. Opening its node has the kernel load the module, so that the node is made
/// where there is none yet, and taken away again if there is no such driver.
pub fn open_misc(path: &str, minor: u32) -> Result<OwnedFd> {
    use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, open, unlink};
    const MISC_MAJOR: u32 = 10;
    let open = || open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let made_and_opened = || {
        let (mode, number) = (Mode::RUSR | Mode::WUSR, makedev(MISC_MAJOR, minor));
        mknodat(CWD, path, FileType::CharacterDevice, mode, number)?;
        open().inspect_err(|_| {
            let _ = unlink(path);
        })
    };
    match open() {
        Err(rustix::io::Errno::NOENT) => made_and_opened().call_on("open", path),
        other => other.call_on("open", path),
    }
}

/// What tells one state of a directory's entry from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryFacts {
    /// Whether it is a regular file; links are not followed.
    pub is_file: bool,
    /// Device, inode, size in bytes, and the times of the last change of its content and of itself
    /// in seconds and nanoseconds.
    pub parts: [u64; 7],
}

/// Looks at an entry of the directory behind `directory`: the kernel need not find the directory
/// for each of its entries.
pub fn stat_at(directory: BorrowedFd<'_>, name: &str) -> Result<EntryFacts> {
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    let stat = rustix::fs::statat(directory, name, flags).call("fstatat")?;
    let (mtime, ctime) = (stat.st_mtime.cast_unsigned(), stat.st_ctime.cast_unsigned());
    Ok(EntryFacts {
        is_file: rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file(),
        parts: [
            stat.st_dev,
            stat.st_ino,
            stat.st_size.cast_unsigned(),
            mtime,
            stat.st_mtime_nsec,
            ctime,
            stat.st_ctime_nsec,
        ],
    })
}

/// Whether two of this process's file descriptors are one open file; kcmp(2). Where that may not be
/// asked, two of the same inode are taken for one.
pub fn is_same(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    /// kcmp(2), which the kernel numbers so.
    const KCMP_FILE: libc::c_int = 0;
    let pid = std::process::id() as libc::c_int;
    let (a_fd, b_fd) = (a.as_raw_fd() as libc::c_ulong, b.as_raw_fd() as libc::c_ulong);
    // SAFETY: kcmp only compares, by numbers.
    match unsafe { libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_FILE, a_fd, b_fd) } {
        order if order >= 0 => Ok(order == 0),
        _ => Ok(waits::identity(a)? == waits::identity(b)?),
    }
}

/// Writes everything at `offset`; the file position is left alone.
pub fn write_at(fd: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pwrite(fd, rest, offset + done as u64) {
            Ok(0) => return Err(Error::new("pwrite", libc::ENOSPC)),
            Ok(n) => done += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).call("pwrite"),
        }
    }
    Ok(())
}

/// What an open file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
    /// The same; what is written goes to the end.
    Append,
    /// The same; it is emptied.
    Truncate,
}

/// Opens what is there without waiting for anybody, as at a pipe, and takes no terminal as its own. Reads and writes
/// do not wait either ([`set_nonblocking`]).
pub fn open_at_once(path: &str, access: Access) -> Result<OwnedFd> {
    use rustix::fs::OFlags;
    let of_access = match access {
        Access::Read => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
        Access::Append => OFlags::RDWR | OFlags::APPEND,
        Access::Truncate => OFlags::RDWR | OFlags::TRUNC,
    };
    let flags = of_access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).call_on("open", path)
}

/// Whether a socket lies there, where links are followed.
pub fn is_socket(path: &str) -> Result<bool> {
    let found = rustix::fs::stat(path).call_on("stat", path)?;
    Ok(rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Socket)
}

/// Makes reads, writes and accepts on the open file behind `fd` wait, or not. The flag belongs to
/// the open file: whoever shares it sees the change.
pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd).call("fcntl F_GETFL")?;
    let wanted = match on {
        true => flags | rustix::fs::OFlags::NONBLOCK,
        false => flags - rustix::fs::OFlags::NONBLOCK,
    };
    if wanted == flags {
        return Ok(());
    }
    rustix::fs::fcntl_setfl(fd, wanted).call("fcntl F_SETFL")
}

/// Whether the file system that holds `path` is mounted read-write.
pub fn is_writable_mount(path: &Path) -> bool {
    let read_only = rustix::fs::StatVfsMountFlags::RDONLY;
    rustix::fs::statvfs(path).is_ok_and(|s| !s.f_flag.contains(read_only))
}

/// Whether what lies there is made by the kernel as it is read: proc(5), sysfs(5) and their like.
pub fn is_of_kernel(fd: BorrowedFd<'_>) -> bool {
    const KINDS: [u64; 8] = [
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x7363_6673, // securityfs
        0x6367_7270, // cgroup2
        0x0027_e0eb, // cgroup
        0x6265_6570, // configfs
    ];
    #[allow(clippy::unnecessary_cast, reason = "the type is another on other machines")]
    rustix::fs::fstatfs(fd).is_ok_and(|found| KINDS.contains(&(found.f_type as u64)))
}

/// What room a file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// In all, bytes; 0 if it has no bound.
    pub size: u64,
    /// For who asks, bytes.
    pub free: u64,
    /// Whether one more file can be made.
    pub has_files: bool,
}

/// The room of the file system that holds `path`; statvfs(3).
pub fn room(path: &Path) -> Result<Room> {
    let found = rustix::fs::statvfs(path).call_on("statvfs", path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let has_files = found.f_files == 0 || found.f_favail > 0;
    Ok(Room { size: bytes(found.f_blocks), free: bytes(found.f_bavail), has_files })
}

/// Major and minor number of a device, as stat(2) gives it; makedev(3).
pub fn device_numbers(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
}

/// Whether `path` is a regular file that somebody may execute, where `root` is the root directory, which
/// the links on the way do not lead out of. An empty `root` is this process's own.
pub fn is_program(root: &str, path: &str) -> bool {
    use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
    let found = match root {
        "" => rustix::fs::stat(path),
        root => {
            let (flags, mode) = (OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            rustix::fs::openat(CWD, root, flags | OFlags::DIRECTORY, mode)
                .and_then(|root| {
                    rustix::fs::openat2(&root, path, flags, mode, ResolveFlags::IN_ROOT)
                })
                .and_then(|file| rustix::fs::fstat(&file))
        }
    };
    found.is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & 0o111 != 0
    })
}

/// Whether the way to `path`, which need not exist, leads from the directory `base` over no other mount and
/// no link: nobody's server is asked on it, and nobody mounts something first. False without openat2(2).
pub fn is_within(base: &Path, path: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let Ok(below) = path.strip_prefix(base) else { return false };
    let Ok(base) = rustix::fs::openat(CWD, base, flags | OFlags::DIRECTORY, Mode::empty()) else {
        return false;
    };
    let looks = below
        .ancestors()
        .filter(|way| !way.as_os_str().is_empty())
        .map(|way| rustix::fs::openat2(&base, way, flags, Mode::empty(), resolve).map(drop));
    // What is missing is made, below what is there.
    let mut found = looks.skip_while(|look| *look == Err(rustix::io::Errno::NOENT));
    found.next().is_none_or(|look| look.is_ok())
}

/// The content of a file of which it is not known who made it, and the user whose it is. It is not opened if it is
/// no regular file: to open a device may do something, and a FIFO waits. `EINVAL` for these, `EFBIG` for more than
/// `bytes_max`.
pub fn read_owned(path: &Path, bytes_max: usize) -> Result<(Vec<u8>, u32)> {
    use rustix::fs::{FileType, Mode, OFlags, fstat, open};
    use std::io::Read;
    let file = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).call_on("open", path)?;
    let stat = fstat(&file).call_on("fstat", path)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::at("open", path, libc::EINVAL));
    }
    // The file that was looked at, whatever is at the path by now. Threads may have descriptors of their own.
    let opened = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(opened, flags, Mode::empty()).call_on("open", path)?;
    let mut bytes = Vec::new();
    let most = bytes_max as u64 + 1;
    std::fs::File::from(file).take(most).read_to_end(&mut bytes).call_on("read", path)?;
    match bytes.len() <= bytes_max {
        true => Ok((bytes, stat.st_uid)),
        false => Err(Error::at("read", path, libc::EFBIG)),
    }
}

/// Sets when a file was last changed, and makes it, empty and with `mode`, if there is none. A symbolic link is left
/// alone, and nothing waits for whoever reads what is no plain file.
pub fn touch(path: &Path, mode: u32, at: SystemTime) -> Result<()> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::from_raw_mode(mode)).call_on("open", path)?;
    std::fs::File::from(file).set_modified(at).call_on("futimens", path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_lies_within_needs_nobody() {
        let base = std::env::temp_dir().join(format!("warren-sys-within-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir_all(base.join("there")).expect("a directory");
        symlink("there", base.join("link")).expect("a link");
        let check = |path: &str, expected: bool| {
            assert_eq!(is_within(&base, &base.join(path)), expected, "{path}");
        };
        check("there", true);
        check("new", true);
        check("there/new/and/newer", true);
        check("link", true);
        check("link/new", false);
        check("there/../new", true);
        check("../other", false);
        check("", true);
        check("/etc/passwd", false);
        assert!(!is_within(&base.join("missing"), &base.join("missing/new")));
        assert!(!is_within(Path::new("/"), Path::new("/proc/self")), "another mount");
        std::fs::remove_dir_all(&base).expect("it can be removed");
    }

    #[test]
    fn a_program_is_looked_for_below_its_root() {
        let root = std::env::temp_dir().join(format!("warren-sys-program-{}", std::process::id()));
        let file = |name: &str, mode: u32| {
            let path = root.join(name);
            std::fs::write(&path, "").expect("a file can be written");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("its mode can be set");
        };
        std::fs::create_dir_all(root.join("bin")).expect("a directory can be made");
        file("bin/runs", 0o755);
        file("bin/reads", 0o644);
        symlink("/bin/runs", root.join("bin/linked")).expect("a link can be made");
        let below = root.to_str().expect("the scratch path is text");
        let found = ["/bin/runs", "/bin/linked", "/bin/reads", "/bin", "/bin/none"]
            .map(|path| is_program(below, path));
        assert_eq!(found, [true, true, false, false, false]);
        assert!(is_program("", &format!("{below}/bin/runs")) && !is_program("", "/bin/linked"));
        std::fs::remove_dir_all(&root).expect("clean up");
    }

    #[test]
    fn only_regular_files_up_to_a_size_are_read() {
        let base = std::env::temp_dir().join(format!("warren-sys-regular-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&base);
        std::fs::create_dir(&base).expect("a directory can be made");
        let check = |name: &str, expected: std::result::Result<&str, i32>| {
            let read = read_owned(&base.join(name), 4);
            let read = read.map(|(bytes, _)| String::from_utf8(bytes).expect("it is text"));
            assert_eq!(read.as_deref().map_err(|e| e.errno), expected, "{name}");
        };
        std::fs::write(base.join("file"), "1234").expect("a file can be written");
        std::fs::write(base.join("long"), "12345").expect("a file can be written");
        symlink("file", base.join("link")).expect("a link");
        symlink("/dev/zero", base.join("zero")).expect("a link");
        let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, base.join("fifo"), kind, mode, 0).expect("a FIFO");
        check("file", Ok("1234"));
        check("link", Ok("1234"));
        check("long", Err(libc::EFBIG));
        check("zero", Err(libc::EINVAL));
        check("fifo", Err(libc::EINVAL));
        check("", Err(libc::EINVAL));
        check("missing", Err(libc::ENOENT));
        std::fs::remove_dir_all(&base).expect("it can be removed");
    }
}
