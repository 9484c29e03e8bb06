//! Mounts that a new process makes for itself before it execs; mount_namespaces(7).
//!
//! Nothing here allocates, and files are named by terminated strings: all of it is fit for the closure of
//! [`crate::clone::spawn`].

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, makedev, mkdirat, mknodat, openat2};
use rustix::io::Errno;
use rustix::mount as rm;

use super::{Sharing, set_propagation_of_all};
use crate::error::{Context, Error, Result, check};
use crate::namespace::{self, Namespaces};

/// Gives this process mounts of its own: what is mounted outside later is still seen, what is mounted here is not
/// seen outside.
///
/// # Errors
/// `EPERM` or `ENOSYS` where the machine has no such thing to give.
pub fn begin() -> Result<()> {
    namespace::unshare(Namespaces::MOUNT)?;
    set_propagation_of_all(Sharing::Slave)
}

/// Says how mounts that are made from now on travel.
pub fn end(sharing: Sharing) -> Result<()> {
    set_propagation_of_all(sharing)
}

/// Opens a path as a place. No part of it may be a link.
pub fn place(path: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).call("openat2")
}

/// A copy of the mounts at a place, that is nowhere yet.
pub fn copy(place: BorrowedFd<'_>, recursive: bool) -> Result<OwnedFd> {
    let mut flags = rm::OpenTreeFlags::OPEN_TREE_CLONE
        | rm::OpenTreeFlags::OPEN_TREE_CLOEXEC
        | rm::OpenTreeFlags::AT_EMPTY_PATH;
    if recursive {
        flags |= rm::OpenTreeFlags::AT_RECURSIVE;
    }
    rm::open_tree(place, c"", flags).call("open_tree")
}

/// A new file system of a kind, that is nowhere yet. An option without a value is a flag.
///
/// # Errors
/// `EINVAL` for an option that this kernel does not know.
pub fn file_system<'a>(
    kind: &CStr,
    options: impl Iterator<Item = (&'a CStr, Option<&'a CStr>)>,
) -> Result<OwnedFd> {
    let context = rm::fsopen(kind, rm::FsOpenFlags::FSOPEN_CLOEXEC).call("fsopen")?;
    let context = context.as_fd();
    for (key, value) in options {
        match value {
            Some(value) => rm::fsconfig_set_string(context, key, value),
            None => rm::fsconfig_set_flag(context, key),
        }
        .call("fsconfig")?;
    }
    rm::fsconfig_create(context).call("fsconfig create")?;
    let none = rm::MountAttrFlags::empty();
    rm::fsmount(context, rm::FsMountFlags::FSMOUNT_CLOEXEC, none).call("fsmount")
}

/// Bits of the times of access, of which one alone can be set.
const ATIME: u64 = 0x70;

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets attributes (`MOUNT_ATTR_*`) of a mount, and of all below it if it is `recursive`.
pub fn set_attributes(mount: BorrowedFd<'_>, bits: u64, recursive: bool) -> Result<()> {
    if bits == 0 {
        return Ok(());
    }
    let clear = if bits & ATIME == 0 { 0 } else { ATIME };
    let attributes = MountAttr { set: bits, clear, propagation: 0, user_namespace: 0 };
    set(mount, &attributes, recursive)
}

/// Has a mount, and all below it, follow what it is a copy of: what is mounted on the copy is not seen there.
pub fn follow(mount: BorrowedFd<'_>) -> Result<()> {
    let propagation = libc::MS_SLAVE;
    set(mount, &MountAttr { set: 0, clear: 0, propagation, user_namespace: 0 }, true)
}

fn set(mount: BorrowedFd<'_>, attributes: &MountAttr, recursive: bool) -> Result<()> {
    let mut flags = libc::AT_EMPTY_PATH;
    if recursive {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: a terminated string, and a struct of the size that is told, which the kernel only reads.
    let ret = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<MountAttr>(),
        )
    };
    check("mount_setattr", ret as _).map(|_| ())
}

/// Puts a mount that is nowhere yet at a place.
pub fn attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<()> {
    let flags =
        rm::MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | rm::MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rm::move_mount(mount, c"", place, c"", flags).call("move_mount")
}

/// Takes away what is mounted at a path, with all below it.
pub fn detach(path: &CStr) -> Result<()> {
    rm::unmount(path, rm::UnmountFlags::DETACH | rm::UnmountFlags::NOFOLLOW).call("umount2")
}

/// Makes a directory; one that is there is as good.
pub fn make_directory(at: Option<BorrowedFd<'_>>, path: &CStr, mode: u32) -> Result<()> {
    let made = mkdirat(at.unwrap_or(CWD), path, Mode::from_raw_mode(mode));
    unless_there(made, "mkdir")
}

/// Makes an empty file to mount something over; one that is there is as good.
pub fn make_file(at: Option<BorrowedFd<'_>>, path: &CStr) -> Result<()> {
    let made = mknodat(at.unwrap_or(CWD), path, FileType::RegularFile, Mode::empty(), 0);
    unless_there(made, "mknod")
}

/// Makes a file that its owner can read and nobody can write to.
pub fn make_secret(
    at: BorrowedFd<'_>,
    name: &CStr,
    content: &[u8],
    owner: (u32, u32),
) -> Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(at, name, flags, Mode::RUSR).call("open")?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).call("write")?;
        rest = rest.get(written..).unwrap_or_default();
    }
    give(file.as_fd(), owner)
}

/// Gives a file to a user and a group.
pub fn give(file: BorrowedFd<'_>, (uid, gid): (u32, u32)) -> Result<()> {
    let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
    rustix::fs::fchown(file, Some(uid), Some(gid)).call("fchown")
}

/// Opens a directory below a place.
pub fn directory(at: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty()).call("open")
}

/// Makes a character device that all may read and write.
pub fn make_device(at: BorrowedFd<'_>, name: &CStr, major: u32, minor: u32) -> Result<()> {
    const MODE: Mode = Mode::from_bits_truncate(0o666);
    let device = makedev(major, minor);
    mknodat(at, name, FileType::CharacterDevice, MODE, device).call("mknod")
}

/// Makes a symbolic link.
pub fn make_link(at: BorrowedFd<'_>, name: &CStr, to: &CStr) -> Result<()> {
    rustix::fs::symlinkat(to, at, name).call("symlink")
}

fn unless_there(made: rustix::io::Result<()>, call: &'static str) -> Result<()> {
    match made {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(Error::new(call, error.raw_os_error())),
    }
}

/// Makes a place the root directory of this process, and detaches the old root. Where that cannot go, as in an
/// initial RAM file system, it stays below.
pub fn change_root(place: BorrowedFd<'_>) -> Result<()> {
    rustix::process::fchdir(place).call("fchdir")?;
    match rustix::process::pivot_root(c".", c".") {
        // The old root, which is now on top of the new one.
        Ok(()) => rm::unmount(c".", rm::UnmountFlags::DETACH).call("umount2"),
        Err(Errno::INVAL) => rustix::process::chroot(c".").call("chroot"),
        Err(error) => Err(Error::new("pivot_root", error.raw_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use warren_testkit::Scratch;

    const READ_ONLY: u64 = 1;

    fn c(path: &std::path::Path) -> std::ffi::CString {
        std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no NUL")
    }

    /// In a thread that has mounts of its own.
    fn with_own_mounts(name: &'static str, test: impl FnOnce(&std::path::Path) + Send) {
        let scratch = Scratch::new(name);
        std::thread::scope(|scope| {
            let run = || match begin() {
                Ok(()) => test(&scratch.0),
                Err(e) if e.errno == libc::EPERM => crate::test_not_run(name, "CAP_SYS_ADMIN"),
                Err(e) => panic!("{e}"),
            };
            scope.spawn(run).join().expect("the thread ends well");
        });
    }

    #[test]
    fn a_copy_keeps_its_rights_where_it_lies_in_something_read_only() {
        with_own_mounts("own-mounts-copy", |at| {
            let (outer, inner) = (at.join("outer"), at.join("outer/inner"));
            fs::create_dir_all(&inner).expect("it is ours");
            let inner_copy = place(&c(&inner)).and_then(|p| copy(p.as_fd(), true)).expect("copied");
            let outer_copy = place(&c(&outer)).and_then(|p| copy(p.as_fd(), true)).expect("copied");
            set_attributes(outer_copy.as_fd(), READ_ONLY, true).expect("set");
            for (mount, path) in [(&outer_copy, &outer), (&inner_copy, &inner)] {
                let target = place(&c(path)).expect("it is there");
                attach(mount.as_fd(), target.as_fd()).expect("attached");
            }
            fs::write(outer.join("f"), "").expect_err("it is read-only");
            fs::write(inner.join("f"), "").expect("it is as it was");
        });
    }

    #[test]
    fn a_file_system_has_its_options_and_what_is_made_in_it() {
        with_own_mounts("own-mounts-new", |at| {
            let options = [(c"mode", Some(c"0710")), (c"size", Some(c"64k"))];
            let made = file_system(c"tmpfs", options.into_iter()).expect("made");
            make_directory(Some(made.as_fd()), c"d", 0o700).expect("made");
            make_directory(Some(made.as_fd()), c"d", 0o700).expect("there is one");
            make_link(made.as_fd(), c"l", c"d").expect("made");
            attach(made.as_fd(), place(&c(at)).expect("there").as_fd()).expect("attached");
            assert!(at.join("l").is_dir());
            assert_eq!(place(&c(&at.join("l"))).expect_err("a link").errno, libc::ELOOP);
            fs::write(at.join("big"), vec![0; 128 << 10]).expect_err("it is small");
            let unknown = file_system(c"tmpfs", [(c"nonsense", None)].into_iter());
            assert_eq!(unknown.expect_err("unknown").errno, libc::EINVAL);
        });
    }
}
