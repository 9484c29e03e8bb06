//! Another root directory for a machine: one for a machine that goes on running, as switch_root(8) gives one
//! to a machine that leaves its initial RAM file system, and one below which the old root is taken apart.

use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_move,
    move_mount, open_tree, unmount,
};

use crate::error::{Context, Result};
use crate::mount::{Sharing, set_propagation_of_all};

/// What the new root gets from the old one: the kernel's own file systems and the run-time state.
const TAKEN_ALONG: [&str; 4] = ["dev", "proc", "sys", "run"];

/// Makes a directory the root of this mount namespace. It may be a mount point or a symbolic link,
/// and may lie in one of the file systems that are taken along (`/dev`, `/proc`, `/sys`, `/run`);
/// what is mounted below it comes with it. The old root is detached and goes when nobody uses it
/// any more; the root file system of an initial RAM disk stays below, because it cannot go.
///
/// All mounts are private to this namespace afterwards: what is shared cannot be moved.
///
/// # Errors
/// The directory is not there, or the kernel refuses; the old root is then still in force.
pub fn switch_root(new_root: &Path) -> Result<()> {
    set_propagation_of_all(Sharing::Private)?;
    let copy = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    // A copy of it: the mount at its place would otherwise lie below one that is moved into it.
    let root = open_tree(CWD, new_root, copy).call_on("open_tree", new_root)?;
    let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&root, "", CWD, "/", empty).call_on("move_mount", new_root)?;
    rustix::process::fchdir(&root).call_on("fchdir", new_root)?;
    // Where it was no mount point, nothing is to go.
    let _ = unmount(new_root, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    for name in TAKEN_ALONG {
        take_along(name)?;
    }
    match rustix::process::pivot_root(".", ".") {
        // The old root, which is now on top of the new one.
        Ok(()) => unmount(".", UnmountFlags::DETACH).call_on("umount2", "/")?,
        Err(Errno::INVAL) => rustix::process::chroot(".").call_on("chroot", new_root)?,
        Err(error) => return Err(error).call_on("pivot_root", new_root),
    }
    std::env::set_current_dir("/").call_on("chdir", "/")
}

/// Makes a directory the root of this mount namespace, with the old root below it at `old`, which is made:
/// whoever runs there takes that apart. The kernel's own file systems come along, and `/run`, below which the
/// new root may lie, is in both, as they are.
///
/// All mounts are private to this namespace afterwards.
///
/// # Errors
/// The directory is not there, or the kernel refuses, as where the root is that of an initial RAM file system,
/// which cannot be left below another; the old root is then still in force.
pub fn enter_root(new_root: &Path, old: &str) -> Result<()> {
    set_propagation_of_all(Sharing::Private)?;
    mount_bind_recursive(new_root, new_root).call_on("mount --bind", new_root)?;
    // What was mounted now, not what it lies on.
    let root = rustix::fs::openat(CWD, new_root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    rustix::process::fchdir(root.call_on("open", new_root)?).call_on("fchdir", new_root)?;
    for name in ["dev", "proc", "sys"] {
        let _ = std::fs::create_dir(name);
        mount_bind_recursive(format!("/{name}"), name).call_on("mount --bind", name)?;
    }
    // Not what is mounted below it: that is this root, again and again.
    let _ = std::fs::create_dir("run");
    mount_bind("/run", "run").call_on("mount --bind", "run")?;
    let _ = std::fs::create_dir(old);
    rustix::process::pivot_root(".", old).call_on("pivot_root", new_root)?;
    rustix::process::chroot(".").call_on("chroot", new_root)?;
    std::env::set_current_dir("/").call_on("chdir", "/")
}

/// Has what is at `/NAME` at `NAME` of the working directory too, or only there if it is a mount.
fn take_along(name: &str) -> Result<()> {
    let from = format!("/{name}");
    let _ = std::fs::create_dir(name);
    match mount_move(&*from, name) {
        // No mount point: a directory of the old root.
        Err(Errno::INVAL) => mount_bind_recursive(&*from, name).call_on("mount --bind", name),
        Err(Errno::NOENT) => Ok(()),
        moved => moved.call_on("mount --move", name),
    }
}
