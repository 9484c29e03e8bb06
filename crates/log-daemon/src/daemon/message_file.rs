//! A message that is too large for a datagram comes as a file: a sealed memfd, or one that its sender
//! may still change. Either is read as it is now, never mapped.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, fstat, fstatfs};
use warren_sys::file::descriptor_path;
use warren_sys::memfd;

use warren_log_store::entry::ENTRY_BYTES_MAX;

/// Where others than root may have such a file, of no directory below.
const DIRECTORIES: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

/// Largest message of another user than root, bytes: each takes the daemon's time.
const OF_USER_BYTES_MAX: i64 = 8 << 20;

/// File systems of which a read does not wait for a server or a program: tmpfs (and memfds), ext4,
/// XFS, btrfs, overlayfs; statfs(2).
const FILE_SYSTEMS: [u64; 5] = [0x0102_1994, 0xef53, 0x5846_5342, 0x9123_683e, 0x794c_7630];

/// Whether it can be read and closed at once, without asking whoever serves it: a sealed memfd that is not too large.
pub fn is_at_hand(fd: &OwnedFd) -> bool {
    let is_small = |size| usize::try_from(size).is_ok_and(|size| size <= ENTRY_BYTES_MAX);
    memfd::is_sealed(fd) && fstat(fd).is_ok_and(|stat| is_small(stat.st_size))
}

/// Reads it, or says why not. Who serves it may keep the caller waiting, unless it [is at hand](is_at_hand).
pub fn read(fd: &OwnedFd, from_root: bool) -> Result<Vec<u8>, String> {
    let said = |e: rustix::io::Errno| e.to_string();
    let sealed = memfd::is_sealed(fd);
    if !from_root && fstat(fd).is_ok_and(|stat| stat.st_size > OF_USER_BYTES_MAX) {
        return Err("it is larger than 8 MiB, which only root's may be".to_owned());
    }
    if !sealed {
        if !from_root && !is_temporary(fd) {
            return Err("the file is not in /dev/shm, /tmp or /var/tmp".to_owned());
        }
        let stat = fstat(fd).map_err(said)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err("it is not a regular file".to_owned());
        }
        let kind = fstatfs(fd).map_err(said)?.f_type as u64 & 0xffff_ffff;
        if !FILE_SYSTEMS.contains(&kind) {
            return Err("it is on a file system that may not respond".to_owned());
        }
    }
    // What can still change has half the room.
    let bytes_max = if sealed { ENTRY_BYTES_MAX } else { ENTRY_BYTES_MAX / 2 };
    memfd::read_all(fd.as_fd(), bytes_max).map_err(|e| e.to_string())
}

fn is_temporary(fd: &OwnedFd) -> bool {
    let path = std::fs::read_link(descriptor_path(fd.as_fd()));
    let parent = path.as_ref().ok().and_then(|path| path.parent());
    parent.is_some_and(|parent| DIRECTORIES.map(Path::new).contains(&parent))
}
