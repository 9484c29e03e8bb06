//! What the process that reads disks gives up first: the author of a hostile label gains a process
//! that can read disks, and nothing else.
//!
//! It keeps the capability to read what others own (capabilities(7), CAP_DAC_READ_SEARCH), is nobody,
//! sees `/sys`, `/dev` and udev's records read-only and no other file, gains nothing by exec, and
//! the kernel refuses it every call but those that read and wait ([`warren_sys::seccomp`]).
//! Everything else is done by [`crate::executor`].

use std::ffi::CString;
use std::fs;
use std::path::Path;

use warren_sys::child::{self, Capabilities};
use warren_sys::mount::{self, MountOptions, Sharing};
use warren_sys::namespace::{self, Namespaces};
use warren_sys::{Result, seccomp};

use crate::sysfs::Roots;

/// Read what others own; a bit of capabilities(7).
const CAP_DAC_READ_SEARCH: u64 = 1 << 2;

/// Who owns nothing; user_namespaces(7) calls it the overflow id.
const NOBODY: u32 = 65_534;

/// A directory that is on every machine and that no reader needs: its own root is made there.
const STAGE: &str = "/proc";

/// Enters, for this thread and those it starts from now on; returns what could not be given up,
/// because it was not had or the kernel does not know it. It is an error if it can still do more
/// than read.
pub fn enter(roots: &Roots) -> Result<Vec<String>> {
    let is_privileged = child::capabilities()?.permitted != 0;
    let mut left = Vec::new();
    if is_privileged {
        left.extend(own_view(roots).err());
        become_nobody(&mut left)?;
    }
    seccomp::only_read()?;
    Ok(left)
}

/// A root directory with nothing in it but what is read.
fn own_view(roots: &Roots) -> std::result::Result<(), String> {
    let paths = [(&roots.sys, true), (&roots.dev, false), (&roots.udev, true)];
    if let Some((path, _)) = paths[..2].iter().find(|(path, _)| !path.is_dir()) {
        return Err(format!("no mount namespace: {} does not exist", path.display()));
    }
    let failed = |error: warren_sys::Error| format!("no mount namespace: {error}");
    namespace::unshare(Namespaces::MOUNT).map_err(failed)?;
    mount::set_propagation_of_all(Sharing::Slave).map_err(failed)?;
    let empty = MountOptions::parse("nosuid,nodev,noexec,mode=755,size=64k");
    mount::mount_fs("tmpfs", STAGE, "tmpfs", &empty).map_err(failed)?;
    for (path, without_devices) in paths {
        if path.is_dir() {
            bind(path, without_devices).map_err(failed)?;
        }
    }
    let read_only = MountOptions::parse("remount,ro,nosuid,nodev,noexec");
    mount::mount_fs("", STAGE, "", &read_only).map_err(failed)?;
    change_root().map_err(failed)
}

fn bind(path: &Path, without_devices: bool) -> Result<()> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    let target = Path::new(STAGE).join(inside);
    let target = target.to_string_lossy();
    fs::create_dir_all(&*target).map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(0);
        warren_sys::Error::at("mkdir", &*target, errno)
    })?;
    let options =
        if without_devices { "bind,ro,nosuid,noexec,nodev" } else { "bind,ro,nosuid,noexec" };
    mount::mount_fs(&path.to_string_lossy(), &target, "", &MountOptions::parse(options))
}

/// A root that is the initial RAM file system cannot be pivoted away from; without capabilities and
/// calls to get out, chroot(2) holds as well.
fn change_root() -> Result<()> {
    if namespace::pivot_root(Path::new(STAGE)).is_ok() {
        return Ok(());
    }
    let stage = CString::new(STAGE).expect("a constant without NUL");
    child::change_root(&stage)?;
    child::change_directory(c"/")
}

/// Gives up user, groups and capabilities but one.
fn become_nobody(left: &mut Vec<String>) -> Result<()> {
    let held = child::capabilities()?.permitted & CAP_DAC_READ_SEARCH;
    if let Err(error) = child::limit_bounding_set(held) {
        left.push(format!("cannot drop capabilities: {error}"));
    }
    child::set_no_new_privileges()?;
    child::keep_capabilities(true)?;
    let ids = child::set_groups(&[]).and_then(|()| child::set_gid(NOBODY));
    if let Err(error) = ids.and_then(|()| child::set_uid(NOBODY)) {
        left.push(format!("cannot change the user: {error}"));
    }
    child::set_capabilities(Capabilities { effective: held, permitted: held, inheritable: 0 })
}
