//! Mounting and unmounting, and the table of mounts.
//!
//! [`options`] splits an option string, [`mount_fs`] mounts, [`table`] lists, [`MountWatch`]
//! reports changes. Every call here can block for ever on a dead server: none is for an event
//! loop, but those of [`MountWatch`].

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount as rm;

use crate::error::{Context, Error, Result};
use crate::namespace::{self, Namespaces};

pub mod inside;
pub mod mountinfo;
pub mod options;
pub mod own;
pub mod places;
mod point;
mod statmount;
mod watch;

pub use options::{MountOptions, Propagation, Sharing};
pub use point::{MountPoint, finish_at, mount_fs_at};
pub use rustix::mount::MountFlags;
pub use statmount::{list, options_of, stat};
pub use watch::{MountDelta, MountNews, MountWatch};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Names it; opaque, unique among those present, and comparable only with ids from the same
    /// [`MountWatch`].
    pub id: u64,
    /// The mount it is on; itself or unknown for the root.
    pub parent: u64,
    /// Where it is, as this process sees it.
    pub mount_point: String,
    /// Device, server or whatever was given; `none` when nothing was.
    pub source: String,
    /// File system type, with the subtype behind a dot (`fuse.sshfs`).
    pub fstype: String,
}

/// mount(2) as it is.
pub fn mount(
    source: &str,
    target: &str,
    fstype: &str,
    flags: MountFlags,
    data: &str,
) -> Result<()> {
    let data = CString::new(data).map_err(|_| Error::at("mount", target, libc::EINVAL))?;
    rm::mount(source, target, fstype, flags, data.as_c_str()).call_on("mount", target)
}

/// Mounts a file system: by the mount API of Linux 5.2, whose options have no limit of 4 KiB and
/// whose errors name the option, or where that is not to be had by mount(2).
///
/// Binds, remounts and changes of propagation are done as the options say.
pub fn mount_fs(source: &str, target: &str, fstype: &str, options: &MountOptions) -> Result<()> {
    if options.remount {
        remount(target, options)?;
        return share(target, options);
    }
    if options.flags.contains(MountFlags::BIND) {
        bind(source, target, options)?;
    } else {
        match mount_new(source, target, fstype, options) {
            Err(e) if may_be_unknown(e.errno) => {
                mount(source, target, fstype, options.flags, &options.data.join(","))?
            }
            other => other?,
        }
    }
    finish(target, options)
}

/// What [`mount_fs`] does when the mount is there, and is harmless twice: flags of a bind mount, which the bind itself
/// ignores, and propagation.
pub fn finish(target: &str, options: &MountOptions) -> Result<()> {
    let flags = options.flags.difference(MountFlags::BIND | MountFlags::REC);
    if options.flags.contains(MountFlags::BIND) && !flags.is_empty() {
        let bind = flags | MountFlags::BIND;
        rm::mount_remount(target, bind, "").call_on("remount bind", target)?;
    }
    share(target, options)
}

fn share(target: &str, options: &MountOptions) -> Result<()> {
    match options.propagation {
        Some(propagation) => set_propagation(target, propagation),
        None => Ok(()),
    }
}

/// Errors after which mount(2) may still succeed: no such call, forbidden by a filter, or an
/// option that only the old interface understands.
fn may_be_unknown(errno: i32) -> bool {
    matches!(errno, libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::EOPNOTSUPP)
}

fn mount_new(source: &str, target: &str, fstype: &str, options: &MountOptions) -> Result<()> {
    attach(make_new(source, fstype, options)?.as_fd(), target)
}

/// What these options say, mounted nowhere yet.
fn make_new(source: &str, fstype: &str, options: &MountOptions) -> Result<OwnedFd> {
    let data = options.data.iter().map(String::as_str);
    make_with(source, fstype, (options.superblock_flags(), data), options.attributes())
}

/// Makes a mount that is nowhere yet.
pub(crate) fn make<'d>(
    source: &str,
    fstype: &str,
    data: impl Iterator<Item = &'d str>,
) -> Result<OwnedFd> {
    make_with(source, fstype, ([], data), rm::MountAttrFlags::empty())
}

fn make_with<'d>(
    source: &str,
    fstype: &str,
    (flags, data): (impl IntoIterator<Item = &'static str>, impl Iterator<Item = &'d str>),
    attributes: rm::MountAttrFlags,
) -> Result<OwnedFd> {
    let context = rm::fsopen(fstype, rm::FsOpenFlags::FSOPEN_CLOEXEC).call_on("fsopen", fstype)?;
    let fs = context.as_fd();
    if !source.is_empty() {
        rm::fsconfig_set_string(fs, "source", source).call_on("fsconfig source", source)?;
    }
    for name in flags {
        rm::fsconfig_set_flag(fs, name).call_on("fsconfig", name)?;
    }
    for option in data {
        match option.split_once('=') {
            Some((key, value)) => rm::fsconfig_set_string(fs, key, value),
            None => rm::fsconfig_set_flag(fs, option),
        }
        .call_on("fsconfig", option)?;
    }
    rm::fsconfig_create(fs).call_on("fsconfig create", source)?;
    rm::fsmount(fs, rm::FsMountFlags::FSMOUNT_CLOEXEC, attributes).call_on("fsmount", source)
}

/// Puts a mount that is nowhere yet at an existing place.
pub(crate) fn attach(mounted: BorrowedFd<'_>, target: &str) -> Result<()> {
    let from_empty = rm::MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rm::move_mount(mounted, "", rustix::fs::CWD, target, from_empty).call_on("move_mount", target)
}

/// The same at a place that is held.
pub(crate) fn attach_to(mounted: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<()> {
    let both =
        rm::MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | rm::MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rm::move_mount(mounted, "", place, "", both).call("move_mount")
}

fn bind(source: &str, target: &str, options: &MountOptions) -> Result<()> {
    let recursive = options.flags.contains(MountFlags::REC);
    let bound = if recursive {
        rm::mount_bind_recursive(source, target)
    } else {
        rm::mount_bind(source, target)
    };
    bound.call_on("mount --bind", target)
}

/// With `bind` it is the mount that changes, not its file system (mount(2), "Remounting an existing mount").
fn remount(target: &str, options: &MountOptions) -> Result<()> {
    let flags = options.flags.difference(MountFlags::REC);
    rm::mount_remount(target, flags, options.data.join(",").as_str()).call_on("remount", target)
}

/// Changes how mounts below are shared with other namespaces.
pub fn set_propagation(target: &str, propagation: Propagation) -> Result<()> {
    let (kind, recursive) = propagation;
    let rest = rm::MountPropagationFlags::REC;
    let flags = if recursive { kind.flag() | rest } else { kind.flag() };
    rm::mount_change(target, flags).call_on("mount propagation", target)
}

/// Changes how every mount of this namespace is shared with others. The root directory is a mount point
/// afterwards: where it is none, as in a plain chroot(2), it is bound over itself.
///
/// For a thread that has its root directory for itself, as after unshare(2) of its mounts. Makes no
/// allocation, so it may be called in a vfork child.
///
/// # Errors
/// Without a mount point, `/proc` is needed too.
pub fn set_propagation_of_all(kind: Sharing) -> Result<()> {
    let change = || rm::mount_change("/", kind.flag() | rm::MountPropagationFlags::REC);
    match change() {
        Err(Errno::INVAL) => {}
        other => return other.call("mount propagation of the root directory"),
    }
    let root = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open("/", root, Mode::empty()).call("open the root directory")?;
    // What a change is to begin with lies outside of the root directory. Who enters a mount namespace
    // comes to its root (setns(2)), also when it is his own.
    let own = "/proc/thread-self/ns/mnt";
    let own = open(own, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).call("open ns/mnt")?;
    namespace::enter(own.as_fd(), Namespaces::MOUNT)?;
    change().call("mount propagation of the namespace")?;
    let all = rm::OpenTreeFlags::OPEN_TREE_CLONE
        | rm::OpenTreeFlags::OPEN_TREE_CLOEXEC
        | rm::OpenTreeFlags::AT_EMPTY_PATH
        | rm::OpenTreeFlags::AT_RECURSIVE;
    let bound = rm::open_tree(&root, "", all).call("open_tree")?;
    let both =
        rm::MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | rm::MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rm::move_mount(&bound, "", &root, "", both).call("move_mount")?;
    rustix::process::fchdir(&bound).call("fchdir")?;
    rustix::process::chroot(".").call("chroot")
}

/// How to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmount {
    /// `EBUSY` while it is in use.
    Normal,
    /// Detach now, clean up when it is no longer in use (ForceUnmount= no, LazyUnmount=).
    Lazy,
    /// Abort requests to a server first (ForceUnmount=).
    Force,
    /// Both.
    ForceLazy,
}

/// umount2(2), following no symbolic link. May block on a dead server whatever `how` says.
pub fn unmount(target: &str, how: Unmount) -> Result<()> {
    use rm::UnmountFlags as U;
    let flags = match how {
        Unmount::Normal => U::empty(),
        Unmount::Lazy => U::DETACH,
        Unmount::Force => U::FORCE,
        Unmount::ForceLazy => U::FORCE | U::DETACH,
    };
    rm::unmount(target, flags | U::NOFOLLOW).call_on("umount2", target)
}

/// Every mount that this process can see, from `/proc/self/mountinfo`, in the kernel's order
/// (a mount comes after the one it is on).
pub fn table() -> Result<Vec<Mount>> {
    Ok(mountinfo::parse(&crate::text::read("/proc/thread-self/mountinfo")?))
}

/// The same, each with its options as mount(8) shows them: those of the mount, and those of its file system.
pub fn table_with_options() -> Result<Vec<(Mount, String)>> {
    Ok(mountinfo::parse_with_options(&crate::text::read("/proc/thread-self/mountinfo")?))
}

/// Whether the kernel can be asked of one mount (Linux 6.8), so that nobody has to read the table.
pub fn is_told_of_one() -> bool {
    !matches!(stat(0), Err(e) if e.errno == libc::ENOSYS)
}

/// The topmost mount at exactly this path; `Ok(None)` when nothing is mounted there. Triggers no
/// automount, and waits for nobody: where only a server knows the way, the table tells.
pub fn at(path: &str) -> Result<Option<Mount>> {
    Now::default().at(path)
}

/// What is mounted at paths that are looked at together: where the kernel cannot be asked of each, as before Linux
/// 6.8, the table is read once for all of them.
#[derive(Debug, Default)]
pub struct Now {
    table: Option<Vec<Mount>>,
}

impl Now {
    /// As [`at`].
    pub fn at(&mut self, path: &str) -> Result<Option<Mount>> {
        match statmount::mount_root_id(path) {
            Ok(Some(id)) => statmount::stat(id).map(Some),
            Ok(None) => Ok(None),
            Err(e) if e.is_gone() => Ok(None),
            // EACCES of another user's FUSE among them.
            Err(_) => self.at_by_table(path),
        }
    }

    fn at_by_table(&mut self, path: &str) -> Result<Option<Mount>> {
        let table = match self.table.take() {
            Some(table) => table,
            None => table()?,
        };
        let table = self.table.insert(table);
        Ok(table.iter().rev().find(|mount| mount.mount_point == path).cloned())
    }
}

/// Whether something is mounted at what this path leads to, links followed: a directory or a file,
/// of another file system or of the same. Triggers no automount of its own.
pub fn is_mount_point(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let root = StatxAttributes::MOUNT_ROOT;
    match statx(CWD, path, AtFlags::NO_AUTOMOUNT, StatxFlags::empty()) {
        Ok(found) if found.stx_attributes_mask.contains(root) => {
            found.stx_attributes.contains(root)
        }
        // Before Linux 5.8 only the table tells.
        Ok(_) => path.canonicalize().is_ok_and(|path| {
            table().is_ok_and(|all| all.iter().any(|mount| path == Path::new(&mount.mount_point)))
        }),
        Err(_) => false,
    }
}

/// The mount that a path leads into, links followed, and whether it leads to its root. Ids are as in
/// proc_pid_mountinfo(5), and say which mount whatever namespace it is in. Triggers no automount and asks no
/// server; none where that is so, or before Linux 5.8.
pub fn mount_of(path: &Path) -> Option<(u64, bool)> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, path, flags, StatxFlags::MNT_ID).ok()?;
    let is_root = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    StatxFlags::from_bits_retain(found.stx_mask)
        .contains(StatxFlags::MNT_ID)
        .then_some((found.stx_mnt_id, is_root))
}

/// Whether something other than a trap of autofs is mounted at what this path leads to. Triggers none, and reads the
/// table only where the path itself does not tell.
pub fn is_covered(path: &Path) -> bool {
    let by_table = || {
        let covers = |mount: &Mount| Path::new(&mount.mount_point) == path;
        let top = table().ok().and_then(|all| all.into_iter().rev().find(covers));
        top.is_some_and(|mount| mount.fstype != "autofs")
    };
    is_mount_point(path) && is_trap(path) == Ok(false) || by_table()
}

fn is_trap(path: &Path) -> Result<bool> {
    use rustix::fs::{Mode, OFlags, fstatfs, open};
    /// Of linux/magic.h.
    const AUTOFS_SUPER_MAGIC: i64 = 0x0187;
    let fd = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).call("open O_PATH")?;
    let found = fstatfs(fd).call("fstatfs")?;
    Ok(found.f_type as i64 == AUTOFS_SUPER_MAGIC)
}

#[cfg(test)]
mod tests;
