//! What the new process does to get mounts of its own: system calls only, as in [`crate::apply`].
//!
//! Everything that is copied from the host is copied before the first mount, so a path means the same whatever is
//! mounted over others. Attributes of file systems that are made anew are set last: things may have to be made in
//! them to mount on.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use warren_sandbox::mounts::{DEVICE_DIRECTORIES, DEVICE_LINKS, DEVICE_NODES};
use warren_sys::Error;
use warren_sys::errno::{EACCES, EINVAL, ENOENT, ENOSYS, EPERM};
use warren_sys::mount::{Sharing, own};

use crate::view::{MountSource, OwnMount, OwnMounts};

/// Gives this process its mounts. What cannot be had and may be missing is noted.
pub fn enter(own_mounts: &mut OwnMounts) -> Result<(), Error> {
    let result = all(own_mounts);
    // Here, in the process whose files they are.
    for mount in &mut own_mounts.mounts {
        drop(mount.mount.take());
    }
    result
}

fn all(view: &mut OwnMounts) -> Result<(), Error> {
    match own::begin() {
        Err(e) if view.may_be_missing && is_refused(&e) => {
            view.are_missing = true;
            return Ok(());
        }
        other => other?,
    }
    for (at, mount) in view.mounts.iter_mut().enumerate() {
        view.at = at;
        mount.mount = match make(mount, view.owner) {
            Err(e) if mount.optional && e.errno == ENOENT => None,
            // Other processes are then seen; nothing else depends on it (systemd.exec(5), "ProtectProc=").
            Err(e) if view.may_be_missing && is_processes(mount) && is_unsupported(&e) => {
                view.are_missing = true;
                None
            }
            other => other?,
        };
    }
    for (at, mount) in view.mounts.iter_mut().enumerate() {
        view.at = at;
        put(mount)?;
    }
    for (at, mount) in view.mounts.iter().enumerate() {
        view.at = at;
        if let Some(fd) = mount.mount.as_ref().filter(|_| mount.source.is_new()) {
            own::set_attributes(fd.as_fd(), mount.attributes, false)?;
        }
    }
    match (&view.root, &view.hidden) {
        // What is not below it is gone then.
        (Some(root), _) => own::change_root(own::place(root)?.as_fd())?,
        (None, Some(hidden)) => match own::detach(hidden) {
            // Something else is at the path.
            Err(e) if matches!(e.errno, EINVAL | ENOENT) => {}
            other => other?,
        },
        (None, None) => {}
    }
    match view.sharing {
        Sharing::Slave => Ok(()),
        sharing => own::end(sharing),
    }
}

/// The kernel or a container's rules do not let us.
fn is_refused(error: &Error) -> bool {
    matches!(error.errno, EPERM | EACCES | ENOSYS)
}

fn is_unsupported(error: &Error) -> bool {
    error.errno == EINVAL || is_refused(error)
}

fn is_processes(mount: &OwnMount) -> bool {
    matches!(&mount.source, MountSource::FileSystem(kind, _) if *kind == c"proc")
}

/// Makes what is to be mounted, unless it is made when its turn comes.
fn make(mount: &OwnMount, owner: (u32, u32)) -> Result<Option<OwnedFd>, Error> {
    match &mount.source {
        MountSource::InPlace | MountSource::Copy => Ok(None),
        MountSource::Tree(path, recursive) => {
            own::copy(own::place(path)?.as_fd(), *recursive).map(Some)
        }
        MountSource::FileSystem(kind, options) => {
            let options = options.iter().map(|(key, value)| (&**key, value.as_deref()));
            own::file_system(kind, options).map(Some)
        }
        MountSource::Devices { nodes } => devices(*nodes).map(Some),
        MountSource::Credentials(unit, files) => credentials(unit, files, owner).map(Some),
    }
}

/// Secrets in memory that is never swapped.
fn credentials(
    unit: &CStr,
    files: &[(CString, Vec<u8>)],
    owner: (u32, u32),
) -> Result<OwnedFd, Error> {
    let made = own::file_system(c"ramfs", [(c"mode", Some(c"0755"))].into_iter())?;
    own::make_directory(Some(made.as_fd()), unit, 0o500)?;
    let directory = own::directory(made.as_fd(), unit)?;
    for (name, content) in files {
        own::make_secret(directory.as_fd(), name, content, owner)?;
    }
    own::give(directory.as_fd(), owner)?;
    Ok(made)
}

/// A /dev without physical devices.
fn devices(nodes: bool) -> Result<OwnedFd, Error> {
    const OPTIONS: [(&CStr, Option<&CStr>); 3] =
        [(c"mode", Some(c"0755")), (c"size", Some(c"4m")), (c"nr_inodes", Some(c"64k"))];
    let made = own::file_system(c"tmpfs", OPTIONS.into_iter())?;
    let mut room = [0; NAME_BYTES];
    for (name, major, minor) in DEVICE_NODES.into_iter().filter(|_| nodes) {
        own::make_device(made.as_fd(), terminated(name, &mut room)?, major, minor)?;
    }
    let mut other = [0; NAME_BYTES];
    for (name, to) in DEVICE_LINKS {
        let to = terminated(to, &mut other)?;
        own::make_link(made.as_fd(), terminated(name, &mut room)?, to)?;
    }
    for name in DEVICE_DIRECTORIES {
        own::make_directory(Some(made.as_fd()), terminated(name, &mut room)?, 0o755)?;
    }
    Ok(made)
}

/// Bytes of a name in /dev, or of what a link there says.
const NAME_BYTES: usize = 64;

/// A name of a table, terminated, without allocation.
fn terminated<'a>(name: &str, room: &'a mut [u8; NAME_BYTES]) -> Result<&'a CStr, Error> {
    let (text, end) = room.split_at_mut_checked(name.len()).ok_or(Error::new("name", EINVAL))?;
    text.copy_from_slice(name.as_bytes());
    *end.first_mut().ok_or(Error::new("name", EINVAL))? = 0;
    CStr::from_bytes_until_nul(room).map_err(|_| Error::new("name", EINVAL))
}

/// Puts a mount at its place.
fn put(mount: &mut OwnMount) -> Result<(), Error> {
    let is_copy = matches!(mount.source, MountSource::Copy);
    let is_in_place = matches!(mount.source, MountSource::InPlace);
    if mount.mount.is_none() && !is_copy && !is_in_place {
        return Ok(());
    }
    let place = match place(mount) {
        Err(e) if mount.optional && e.errno == ENOENT => return Ok(()),
        other => other?,
    };
    if is_in_place {
        return own::set_attributes(place.as_fd(), mount.attributes, true);
    }
    if is_copy {
        mount.mount = Some(own::copy(place.as_fd(), true)?);
    }
    let Some(made) = &mount.mount else { return Ok(()) };
    if !mount.source.is_new() {
        let alone = matches!(mount.source, MountSource::Tree(_, false));
        own::set_attributes(made.as_fd(), mount.attributes, !alone)?;
    }
    own::attach(made.as_fd(), place.as_fd())
}

/// The place of a mount, made if it is not there.
fn place(mount: &OwnMount) -> Result<OwnedFd, Error> {
    match own::place(&mount.target) {
        Err(e) if e.errno == ENOENT && !mount.makes.is_empty() => {
            make_all(&mount.makes, mount.is_directory)?;
            own::place(&mount.target)
        }
        other => other,
    }
}

fn make_all(paths: &[CString], is_directory: bool) -> Result<(), Error> {
    const MODE: u32 = 0o755;
    let Some((last, above)) = paths.split_last() else { return Ok(()) };
    for path in above {
        own::make_directory(None, path, MODE)?;
    }
    match is_directory {
        true => own::make_directory(None, last, MODE),
        false => own::make_file(None, last),
    }
}
