//! cgroup v2: one handle on the delegated subtree, paths relative to it.
//!
//! Rules kept here: no call walks siblings or ancestors; every path is relative to a directory
//! fd that stays open, so that neither a later mount nor a cgroup namespace changes what a path
//! means; text files are bounded. Names are bytes: who has a group delegated gives those below it any. Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Context, Error, Result};
use crate::text;

pub mod watch;
pub use watch::{Watch, WatchId};

mod walk;
pub use walk::GROUPS_MAX;

/// Most bytes read from one attribute file. `cgroup.procs` of 200,000 processes fits.
const ATTRIBUTE_BYTES_MAX: usize = 4 << 20;

/// Bytes read at once: the kernel gives no more of such a file, and most are smaller.
const READ_BYTES: usize = 4096;

/// Longest line of a file of which the kernel gives whole lines, bytes: a process id.
const PID_LINE_BYTES_MAX: usize = 16;

/// Longest number that is read of an extended attribute, bytes.
const MARK_BYTES_MAX: usize = 32;

/// More than any `cgroup.events` has.
const EVENTS_BYTES: usize = 256;

/// What became of a group that was to be removed with all below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pruned {
    /// It is gone.
    All,
    /// There was none.
    WasGone,
    /// There is more below it than was to be removed at once.
    Some,
}

/// A subtree of the cgroup v2 hierarchy that Warrener manages.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    path: PathBuf,
}

/// Contents of `cgroup.events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Populated {
    /// Some process lives in the group or below.
    pub populated: bool,
    /// The freezer has finished.
    pub frozen: bool,
}

/// The mount point of the cgroup v2 hierarchy: `/sys/fs/cgroup`, on a hybrid host
/// `/sys/fs/cgroup/unified`, or wherever `/proc/self/mountinfo` has one. `None`: not mounted.
pub fn mount_point() -> Result<Option<PathBuf>> {
    Ok(hierarchy()?.map(|h| h.mount_point.into()))
}

/// Where the hierarchy is mounted, and which group is the mount's root.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    mount_point: String,
    root: String,
}

fn hierarchy() -> Result<Option<Hierarchy>> {
    Ok(parse_hierarchy(&text::read("/proc/self/mountinfo")?))
}

/// The last line wins: later mounts cover earlier ones.
fn parse_hierarchy(mountinfo: &str) -> Option<Hierarchy> {
    let mut found = None;
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        if right.split(' ').next() != Some("cgroup2") {
            continue;
        }
        let mut fields = left.split(' ').skip(3).map(text::unescape_octal);
        if let (Some(root), Some(mount_point)) = (fields.next(), fields.next()) {
            found = Some(Hierarchy { mount_point, root });
        }
    }
    found
}

impl Hierarchy {
    /// The directory of a group. A container's mount may show only a part of the hierarchy.
    fn directory_of(&self, group: &str) -> PathBuf {
        let inside = group.strip_prefix(self.root.trim_end_matches('/'));
        let inside = inside.filter(|rest| rest.is_empty() || rest.starts_with('/'));
        Path::new(&self.mount_point).join(inside.unwrap_or(group).trim_start_matches('/'))
    }
}

/// This process's path in the v2 hierarchy, from `/proc/self/cgroup`, starting with `/`.
pub fn own_path() -> Result<String> {
    let file = "/proc/self/cgroup";
    parse_own_path(&text::read(file)?).ok_or(Error::at("parse cgroup", file, libc::ENOENT))
}

pub(crate) fn parse_own_path(text: &str) -> Option<String> {
    text.lines().find_map(|l| l.strip_prefix("0::")).map(str::to_owned)
}

impl Tree {
    /// Opens the group at this absolute path of the file system as the root of a tree.
    pub fn open(path: impl AsRef<Path>) -> Result<Tree> {
        let path = path.as_ref().to_path_buf();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&path, flags, Mode::empty()).call_on("open", &path)?;
        Ok(Tree { root, path })
    }

    /// Opens the group this process is in. `Ok(None)` when no cgroup v2 is mounted.
    pub fn open_own() -> Result<Option<Tree>> {
        let Some(hierarchy) = hierarchy()? else { return Ok(None) };
        Tree::open(hierarchy.directory_of(&own_path()?)).map(Some)
    }

    /// Where the root of this tree is in the file system.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The root's directory fd.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Makes a group and the missing ones above it. `Ok(false)` when it was there.
    pub fn make(&self, group: impl AsRef<Path>) -> Result<bool> {
        let group = checked(group.as_ref())?;
        match self.mkdir(group) {
            Err(e) if e.errno == libc::ENOENT => {
                if let Some(parent) = group.parent().filter(|parent| *parent != Path::new("")) {
                    self.make(parent)?;
                }
                self.mkdir(group)
            }
            other => other,
        }
    }

    fn mkdir(&self, group: &Path) -> Result<bool> {
        if group == Path::new("") {
            return Ok(false);
        }
        match rustix::fs::mkdirat(&self.root, group, Mode::from_raw_mode(0o755)) {
            Err(rustix::io::Errno::EXIST) => Ok(false),
            other => other.call_on("mkdir", group).map(|()| true),
        }
    }

    /// Removes an empty group. `Ok(false)` when it was not there; `EBUSY` when it has processes
    /// or groups below it.
    pub fn remove(&self, group: impl AsRef<Path>) -> Result<bool> {
        let group = checked(group.as_ref())?;
        match rustix::fs::unlinkat(&self.root, group, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::NOENT) => Ok(false),
            Err(e) => Err(e).call_on("rmdir", group),
        }
    }

    /// Removes a group with everything below it that has no processes, however deep. Follows only what is
    /// below `group`. `EBUSY` when a process is left somewhere, or there were more than [`GROUPS_MAX`].
    pub fn prune(&self, group: impl AsRef<Path>) -> Result<bool> {
        self.prune_some(group, GROUPS_MAX).map(|pruned| pruned == Pruned::All)
    }

    /// The same with so many groups at most. `EBUSY` when a process is left somewhere.
    pub fn prune_some(&self, group: impl AsRef<Path>, most: usize) -> Result<Pruned> {
        let group = group.as_ref();
        let pruned = |is_gone| if is_gone { Pruned::All } else { Pruned::WasGone };
        match self.remove(group) {
            Err(e) if e.errno == libc::EBUSY => {
                let below = self.open_dir(group);
                match below.and_then(|below| walk::walk(below, group, most, &mut Prune)) {
                    // Somebody else removes the same.
                    Err(e) if !e.is_gone() => Err(e),
                    Ok(false) if most < GROUPS_MAX => Ok(Pruned::Some),
                    // What keeps one is said of the group itself.
                    _ => self.remove(group).map(pruned),
                }
            }
            other => other.map(pruned),
        }
    }

    /// Names of the groups directly below, sorted. For recovery and `prune`; never on a start.
    pub fn children(&self, group: impl AsRef<Path>) -> Result<Vec<OsString>> {
        let group = group.as_ref();
        let dir = self.open_dir(group)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&dir).call_on("opendir", group)? {
            let entry = entry.call_on("readdir", group)?;
            let name = entry.file_name().to_bytes();
            let is_dir = entry.file_type() == rustix::fs::FileType::Directory;
            if is_dir && name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// How many groups are directly below: the kernel counts them in the links of the directory,
    /// beside its name and its own `.`.
    pub fn count_children(&self, group: impl AsRef<Path>) -> Result<usize> {
        let group = group.as_ref();
        let rel = or_dot(checked(group)?);
        let links = rustix::fs::statat(&self.root, rel, AtFlags::empty());
        Ok((links.call_on("stat", group)?.st_nlink as usize).saturating_sub(2))
    }

    /// Opens the group's directory, for `CLONE_INTO_CGROUP` or to hand to a helper.
    pub fn open_dir(&self, group: impl AsRef<Path>) -> Result<OwnedFd> {
        open_group(self.root.as_fd(), group)
    }

    /// True when the group exists.
    pub fn exists(&self, group: &str) -> Result<bool> {
        match self.id(group) {
            Ok(_) => Ok(true),
            Err(e) if e.is_gone() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The group's id, which is its inode number (what the kernel calls cgroup id).
    pub fn id(&self, group: &str) -> Result<u64> {
        let rel = or_dot(checked(Path::new(group))?);
        let stat = rustix::fs::statat(&self.root, rel, AtFlags::SYMLINK_NOFOLLOW);
        Ok(stat.call_on("stat", group)?.st_ino)
    }

    /// Moves a process (0: the caller) into the group.
    pub fn attach(&self, group: &str, pid: i32) -> Result<()> {
        self.write(group, "cgroup.procs", &pid.to_string())
    }

    /// Writes an attribute file in one write(2). `ENOENT` usually means that the controller is
    /// not enabled here.
    pub fn write(&self, group: impl AsRef<Path>, attribute: &str, value: &str) -> Result<()> {
        let path = attribute_path(group.as_ref(), attribute)?;
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let fd =
            rustix::fs::openat(&self.root, &path, flags, Mode::empty()).call_on("open", &path)?;
        fs::File::from(fd).write_all(value.as_bytes()).call_on("write", &path)
    }

    /// Reads an attribute file, at most 4 MiB of it.
    pub fn read(&self, group: impl AsRef<Path>, attribute: &str) -> Result<String> {
        let path = attribute_path(group.as_ref(), attribute)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd =
            rustix::fs::openat(&self.root, &path, flags, Mode::empty()).call_on("open", &path)?;
        read_all(fd, &path)
    }

    /// `cgroup.events` of the group: a few words, which the kernel gives as a whole.
    pub fn events(&self, group: impl AsRef<Path>) -> Result<Populated> {
        let path = attribute_path(group.as_ref(), "cgroup.events")?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd =
            rustix::fs::openat(&self.root, &path, flags, Mode::empty()).call_on("open", &path)?;
        let mut bytes = [0; EVENTS_BYTES];
        let count = rustix::io::read(&fd, &mut bytes).call_on("read", &path)?;
        Ok(parse_events(&String::from_utf8_lossy(&bytes[..count])))
    }

    /// Processes directly in the group, but for those that have no number in this PID namespace, as who comes
    /// into a container's group from outside. `EOPNOTSUPP` of a threaded one: the domain that it belongs to
    /// lists them (cgroup-v2.rst, "Threads").
    pub fn procs(&self, group: impl AsRef<Path>) -> Result<Vec<i32>> {
        Ok(parse_pids(&self.read(group, "cgroup.procs")?))
    }

    /// Processes in the group and everywhere below it.
    pub fn procs_below(&self, group: impl AsRef<Path>) -> Result<Vec<i32>> {
        self.some_procs_below(group, GROUPS_MAX).map(|(pids, _)| pids)
    }

    /// The same of so many groups at most, the group itself first, and whether those are all.
    pub fn some_procs_below(
        &self,
        group: impl AsRef<Path>,
        most: usize,
    ) -> Result<(Vec<i32>, bool)> {
        let (group, mut pids) = (group.as_ref(), Vec::new());
        let mut tell = |_: &Path, more| pids.extend::<Vec<i32>>(more);
        let is_all = walk::walk(self.open_dir(group)?, group, most, &mut Listing(&mut tell))?;
        Ok((pids, is_all))
    }

    /// Tells of the processes of the group and of each below it; a group that goes meanwhile has none,
    /// and those of threaded ones are told of as their domain's. Beyond [`GROUPS_MAX`] groups none is told of.
    pub fn each_below(&self, group: &Path, tell: &mut impl FnMut(&Path, Vec<i32>)) -> Result<()> {
        let top = self.open_dir(group)?;
        walk::walk(top, group, GROUPS_MAX, &mut Listing(tell)).map(|_| ())
    }

    /// CPU time used by the group and everything below, microseconds (`cpu.stat`; there even
    /// without the cpu controller).
    pub fn cpu_usage_us(&self, group: &str) -> Result<u64> {
        let text = self.read(group, "cpu.stat")?;
        key_value(&text, "usage_usec").ok_or(Error::at("parse cpu.stat", group, libc::EINVAL))
    }

    /// Memory charged to the group, bytes. `ENOENT` without the memory controller.
    pub fn memory_current(&self, group: &str) -> Result<u64> {
        self.read_number(group, "memory.current")
    }

    /// How many processes of the group and of those below the kernel has killed for want of memory
    /// (`memory.events`). `ENOENT` without the memory controller.
    pub fn oom_kills(&self, group: &str) -> Result<u64> {
        let text = self.read(group, "memory.events")?;
        key_value(&text, "oom_kill").ok_or(Error::at("parse memory.events", group, libc::EINVAL))
    }

    /// Bytes read and written on all devices so far. `ENOENT` without the io controller.
    pub fn io_bytes(&self, group: &str) -> Result<(u64, u64)> {
        self.io_counts(group).map(|counts| (counts.read_bytes, counts.written_bytes))
    }

    /// What was done on all devices so far. `ENOENT` without the io controller.
    pub fn io_counts(&self, group: &str) -> Result<IoCounts> {
        self.read(group, "io.stat").map(|text| IoCounts::of(&text))
    }

    /// Tasks in the group and below. `ENOENT` without the pids controller.
    pub fn pids_current(&self, group: &str) -> Result<u64> {
        self.read_number(group, "pids.current")
    }

    /// Sets an extended attribute of the group itself (xattr(7)); without a value it is taken away, if it is there.
    /// `EOPNOTSUPP` where the kernel keeps none for groups.
    pub fn mark(&self, group: &str, name: &str, value: Option<&str>) -> Result<()> {
        let directory = self.open_dir(group)?;
        let done = match value {
            Some(value) => {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::fsetxattr(&directory, name, value.as_bytes(), flags)
            }
            None => rustix::fs::fremovexattr(&directory, name),
        };
        match done {
            Err(rustix::io::Errno::NODATA) => Ok(()),
            done => done.call_on("setxattr", group),
        }
    }

    /// A number that is an extended attribute of the group itself; none if it is not there, or no number.
    pub fn marked_number(&self, group: &str, name: &str) -> Option<u64> {
        let directory = self.open_dir(group).ok()?;
        let mut value = [0; MARK_BYTES_MAX];
        let count = rustix::fs::fgetxattr(&directory, name, &mut value[..]).ok()?;
        std::str::from_utf8(value.get(..count)?).ok()?.trim().parse().ok()
    }

    fn read_number(&self, group: &str, attribute: &str) -> Result<u64> {
        let text = self.read(group, attribute)?;
        text.trim().parse().map_err(|_| Error::at("parse", attribute, libc::EINVAL))
    }

    /// SIGKILL to everything in the group and below, in one write. `ENOENT` before Linux 5.14.
    /// May take long with many processes: call it off the event loop.
    pub fn kill(&self, group: impl AsRef<Path>) -> Result<()> {
        self.write(group, "cgroup.kill", "1")
    }

    /// Freezes or thaws the group. It is frozen when [`Tree::events`] says so.
    pub fn freeze(&self, group: &str, frozen: bool) -> Result<()> {
        self.write(group, "cgroup.freeze", if frozen { "1" } else { "0" })
    }

    /// Controllers that the group may use.
    pub fn controllers(&self, group: &str) -> Result<Vec<String>> {
        Ok(words(&self.read(group, "cgroup.controllers")?))
    }

    /// Enables controllers for the children of the group, one write each so that one refusal
    /// does not take the others with it. Returns those refused, with the error.
    pub fn enable_controllers(&self, group: &str, names: &[&str]) -> Vec<(String, Error)> {
        let enable = |name: &&str| {
            let result = self.write(group, "cgroup.subtree_control", &format!("+{name}"));
            result.err().map(|e| (name.to_string(), e))
        };
        names.iter().filter_map(enable).collect()
    }
}

/// All of an attribute file, at most 4 MiB of it.
fn read_all(fd: OwnedFd, path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; READ_BYTES];
    while bytes.len() < ATTRIBUTE_BYTES_MAX {
        // Small pieces would be read by many calls, and the kernel makes some texts anew for each.
        let count = rustix::io::read(&fd, &mut piece).call_on("read", path)?;
        bytes.extend_from_slice(&piece[..count]);
        // Less than there was room for is the end: `cgroup.procs` is given by whole lines, and
        // of all other files as much as fits.
        if count + PID_LINE_BYTES_MAX <= READ_BYTES {
            break;
        }
    }
    String::from_utf8(bytes).map_err(|_| Error::at("read", path, libc::EILSEQ))
}

/// Tells of processes.
struct Listing<'a, T>(&'a mut T);

impl<T: FnMut(&Path, Vec<i32>)> walk::Visit for Listing<'_, T> {
    fn is_to_be_entered(&mut self, _: BorrowedFd<'_>, _: &OsStr) -> bool {
        true
    }

    fn enter(&mut self, path: &Path, group: BorrowedFd<'_>) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let procs = rustix::fs::openat(group, "cgroup.procs", flags, Mode::empty());
        let procs = procs.call_on("open cgroup.procs", path)?;
        (self.0)(path, parse_pids(&read_all(procs, path)?));
        Ok(())
    }

    fn leave(&mut self, _: BorrowedFd<'_>, _: &OsStr) -> Result<()> {
        Ok(())
    }
}

/// Removes what has no processes.
struct Prune;

impl Prune {
    fn remove(above: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)
    }
}

impl walk::Visit for Prune {
    fn is_to_be_entered(&mut self, above: BorrowedFd<'_>, name: &OsStr) -> bool {
        // Somebody else may remove the same.
        Prune::remove(above, name) == Err(rustix::io::Errno::BUSY)
    }

    fn enter(&mut self, _: &Path, _: BorrowedFd<'_>) -> Result<()> {
        Ok(())
    }

    fn leave(&mut self, above: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
        // One that has processes keeps those above it, too.
        let _ = Prune::remove(above, name);
        Ok(())
    }
}

/// Gives a group to a user, as Delegate= does: the directory and the files by which processes and
/// controllers are moved (cgroup-v2.rst, "Delegation").
pub fn delegate(root: BorrowedFd<'_>, group: &str, uid: u32, gid: u32) -> Result<()> {
    use rustix::fs::{Gid, Uid, chownat};
    let chown = |path: &Path| {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        chownat(root, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW).call_on("chown", path)
    };
    let group = Path::new(group);
    chown(checked(group)?)?;
    for file in ["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        chown(&attribute_path(group, file)?)?;
    }
    Ok(())
}

/// Gives one file of a group to a user.
pub fn give_file(root: BorrowedFd<'_>, group: &str, file: &str, uid: u32) -> Result<()> {
    let path = attribute_path(Path::new(group), file)?;
    let uid = Some(rustix::fs::Uid::from_raw(uid));
    rustix::fs::chownat(root, &path, uid, None, AtFlags::SYMLINK_NOFOLLOW).call_on("chown", path)
}

/// Opens a group's directory relative to another, under the rules for paths of [`Tree`].
pub fn open_group(root: BorrowedFd<'_>, group: impl AsRef<Path>) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let rel = or_dot(checked(group.as_ref())?);
    rustix::fs::openat(root, rel, flags, Mode::empty()).call_on("open cgroup", group)
}

/// A group's path relative to the root, without leading or trailing slashes; `""` is the root.
/// Refuses `..` and empty parts: a unit name must not be able to leave the tree.
fn checked(group: &Path) -> Result<&Path> {
    let bytes = group.as_os_str().as_bytes();
    let start = bytes.iter().take_while(|&&b| b == b'/').count();
    let bytes = bytes.get(start..).unwrap_or_default();
    let end = bytes.len() - bytes.iter().rev().take_while(|&&b| b == b'/').count();
    let bytes = bytes.get(..end).unwrap_or_default();
    let bad = |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.contains(&0);
    if !bytes.is_empty() && bytes.split(|&b| b == b'/').any(bad) {
        return Err(Error::at("cgroup path", group, libc::EINVAL));
    }
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// The root as a directory is opened by.
fn or_dot(group: &Path) -> &Path {
    if group == Path::new("") { Path::new(".") } else { group }
}

fn attribute_path(group: &Path, attribute: &str) -> Result<PathBuf> {
    if attribute.contains('/') {
        return Err(Error::at("cgroup attribute", attribute, libc::EINVAL));
    }
    Ok(checked(group)?.join(attribute))
}

fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Who is of a PID namespace that this one does not see is listed as 0, and cannot be named or signalled.
fn parse_pids(text: &str) -> Vec<i32> {
    text.lines().filter_map(|l| l.parse().ok()).filter(|&pid| pid > 0).collect()
}

fn parse_events(text: &str) -> Populated {
    Populated {
        populated: key_value(text, "populated") == Some(1),
        frozen: key_value(text, "frozen") == Some(1),
    }
}

/// The number behind `key` in a flat-keyed file.
fn key_value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Sums over all devices (`io.stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoCounts {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Read operations.
    pub reads: u64,
    /// Write operations.
    pub writes: u64,
}

impl IoCounts {
    fn of(text: &str) -> IoCounts {
        let sum = |name: &str| {
            let values = text.split_ascii_whitespace().filter_map(|word| word.strip_prefix(name));
            values.filter_map(|value| value.parse::<u64>().ok()).fold(0, u64::saturating_add)
        };
        IoCounts {
            read_bytes: sum("rbytes="),
            written_bytes: sum("wbytes="),
            reads: sum("rios="),
            writes: sum("wios="),
        }
    }
}

#[cfg(test)]
mod tests;
