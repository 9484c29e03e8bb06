//! Who may read the files of the log besides root: the groups that systemd's journal has for it, where a system has them.
//!
//! A directory that is nobody's yet becomes that of the first group, which new files inherit, and has entries for the
//! others in its access control list. One that somebody has given to a group is left as it is.
//! Must not: decide what is in the files. Runs on the thread that makes the directory.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, setxattr};
use rustix::io::Errno;
use warren_sys::passwd::Database;

use warren_log_store::error::{Error, Result};
use warren_log_store::files::{Disk, read_small};
use warren_log_store::store::names::FileName;

/// Groups whose members may read the log; systemd-journald.service(8), "Access control".
const GROUPS: [&str; 3] = ["systemd-journal", "adm", "wheel"];

/// Largest list of groups that is read, bytes.
const GROUPS_BYTES_MAX: u64 = 64 << 20;

/// Most files of a directory that are given to the groups with it.
const FILES_MAX: usize = 1 << 16;

/// Names of access control lists; xattr(7).
const OF_FILE: &str = "system.posix_acl_access";
const OF_NEW_FILES: &str = "system.posix_acl_default";

/// Files of a directory go to its group; the owner writes, others may see what there is.
const DIRECTORY_MODE: u32 = 0o2755;
const FILE_MODE: u32 = 0o640;

/// Permissions in an access control list.
const READ: u16 = 4;
const WRITE: u16 = 2;
const SEARCH: u16 = 1;

/// Groups that may read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Readers {
    /// Their numbers, the owning one first.
    groups: Vec<u32>,
}

impl Readers {
    /// Those that the system below a root has.
    pub fn of(root: &Path) -> Readers {
        let bytes = read_small(&root.join("etc/group"), GROUPS_BYTES_MAX).unwrap_or_default();
        let group = String::from_utf8_lossy(&bytes).into_owned();
        let database = Database { group, ..Database::default() };
        let groups = GROUPS.iter().filter_map(|name| database.group(name)).map(|group| group.gid);
        Readers { groups: groups.filter(|gid| *gid != 0).collect() }
    }

    /// The group whose members may ask the daemon to write what it holds.
    pub fn first(&self) -> Option<u32> {
        self.groups.first().copied()
    }

    /// Gives a directory of root's own, and what is in it, to the groups.
    ///
    /// # Errors
    /// When the system refuses; a file system without such lists is left with the first group.
    pub fn admit(&self, directory: &Path) -> Result<()> {
        let Some((first, others)) = self.groups.split_first() else { return Ok(()) };
        let at = |e: std::io::Error| Error::io("chown", &directory.display().to_string(), &e);
        let stat = directory.metadata().map_err(at)?;
        let is_untouched = stat.gid() == 0 && stat.mode() & 0o7777 == 0o755;
        if stat.uid() != 0 || !is_untouched || !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        for path in files_of(directory) {
            self.give(&path, (*first, FILE_MODE))?;
            set_list(&path, OF_FILE, &list(READ | WRITE, (READ, others), 0))?;
        }
        let new = list(READ | WRITE | SEARCH, (READ | SEARCH, others), 0);
        set_list(directory, OF_NEW_FILES, &new)?;
        // Last: a directory that has its group is not looked at again.
        self.give(directory, (*first, DIRECTORY_MODE))?;
        let own = list(READ | WRITE | SEARCH, (READ | SEARCH, others), READ | SEARCH);
        set_list(directory, OF_FILE, &own)
    }

    /// Has a user read a file, too, and come to it: systemd's tmpfiles.d closes the directory below `/run` to all but
    /// the groups, as it has no files of users there. Each file has its own list.
    ///
    /// # Errors
    /// When the system refuses, or the file system has no such lists.
    pub fn admit_owner(&self, path: &Path, uid: u32) -> Result<()> {
        let others = self.groups.get(1..).unwrap_or_default();
        let list = list_with((READ | WRITE, Some(uid)), (READ, others), 0);
        setxattr(path, OF_FILE, &list, XattrFlags::empty())
            .map_err(|e| Error::io("setxattr", &path.display().to_string(), &e.into()))?;
        path.parent().map_or(Ok(()), open_to_others)
    }

    fn give(&self, path: &Path, (gid, mode): (u32, u32)) -> Result<()> {
        let permissions = std::fs::Permissions::from_mode(mode);
        let given =
            chown(path, None, Some(gid)).and_then(|()| std::fs::set_permissions(path, permissions));
        match given {
            // Removed since it was listed.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            given => given.map_err(|e| Error::io("chown", &path.display().to_string(), &e)),
        }
    }
}

/// Has everybody search a directory that a group may search. One that is for its owner alone stays so.
fn open_to_others(directory: &Path) -> Result<()> {
    const OF_GROUP: u32 = 0o050;
    const OF_OTHERS: u32 = 0o005;
    let at = |e: std::io::Error| Error::io("chmod", &directory.display().to_string(), &e);
    let mode = directory.metadata().map_err(at)?.mode() & 0o7777;
    if mode & OF_GROUP != OF_GROUP || mode & OF_OTHERS == OF_OTHERS {
        return Ok(());
    }
    let permissions = std::fs::Permissions::from_mode(mode | OF_OTHERS);
    std::fs::set_permissions(directory, permissions).map_err(at)
}

/// Logs, segments and files of the mirror; not keys and the lock, which are for the daemon alone.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    use warren_log_store::files::Files;
    let is_log = |name: &str| FileName::parse(name).is_some() || name.ends_with(".journal");
    let listing = Disk::new(directory).list().unwrap_or_default().into_iter();
    let logs = listing.filter(|file| is_log(&file.name)).take(FILES_MAX);
    logs.map(|file| directory.join(file.name)).collect()
}

/// An access control list as the kernel has it, version 2 of `linux/posix_acl_xattr.h`: what the owner may, the owning
/// group and more groups, and everybody else.
fn list(owner: u16, groups: (u16, &[u32]), other: u16) -> Vec<u8> {
    list_with((owner, None), groups, other)
}

/// The same with a user who may read.
fn list_with(
    (owner, user): (u16, Option<u32>),
    (group, more): (u16, &[u32]),
    other: u16,
) -> Vec<u8> {
    const USER: u16 = 0x02;
    const VERSION: u32 = 2;
    const NOBODY: u32 = u32::MAX;
    const OWNER: u16 = 0x01;
    const OWNING_GROUP: u16 = 0x04;
    const GROUP: u16 = 0x08;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    let mut sorted = more.to_vec();
    sorted.sort_unstable();
    let groups = sorted.into_iter().map(|gid| (GROUP, group, gid));
    let users = user.into_iter().map(|uid| (USER, READ, uid));
    let before = std::iter::once((OWNER, owner, NOBODY));
    let before = before.chain(users).chain([(OWNING_GROUP, group, NOBODY)]);
    let after = [(MASK, group, NOBODY), (OTHER, other, NOBODY)];
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, may, id) in before.chain(groups).chain(after) {
        bytes.extend([tag.to_le_bytes(), may.to_le_bytes()].concat());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set_list(path: &Path, name: &str, list: &[u8]) -> Result<()> {
    match setxattr(path, name, list, XattrFlags::empty()) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOENT) => Ok(()),
        Err(e) => Err(Error::io("setxattr", &path.display().to_string(), &e.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_files_of_users_is_open_to_them() {
        let directory = std::env::temp_dir().join(format!("warren-readers-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("made");
        for (before, after) in [(0o750, 0o755), (0o755, 0o755), (0o700, 0o700), (0o2750, 0o2755)] {
            let permissions = std::fs::Permissions::from_mode(before);
            std::fs::set_permissions(&directory, permissions).expect("it is ours");
            open_to_others(&directory).expect("it is ours");
            let mode = directory.metadata().expect("it is there").mode() & 0o7777;
            assert_eq!(mode, after, "{before:o}");
        }
        std::fs::remove_dir(&directory).expect("it is empty");
    }
}
