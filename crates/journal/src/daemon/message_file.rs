//! A message that is too large for a datagram comes as a file: a sealed memfd, or one that its sender
//! may still change. Either is read as it is now, never mapped.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, fstat, fstatfs};
use warren_sys::memfd;

use crate::entry::ENTRY_BYTES_MAX;

/// Where others than root may have such a file, of no directory below.
const DIRECTORIES: [&str; 3] = ["/dev/shm", "/tmp", "/var/tmp"];

/// File systems of which a read does not wait for a server or a program: tmpfs (and memfds), ext4,
/// XFS, btrfs, overlayfs; statfs(2).
const FILE_SYSTEMS: [u64; 5] = [0x0102_1994, 0xef53, 0x5846_5342, 0x9123_683e, 0x794c_7630];

/// Reads it, or says why not.
pub fn read(fd: &OwnedFd, from_root: bool) -> Result<Vec<u8>, String> {
    let said = |e: rustix::io::Errno| e.to_string();
    let sealed = memfd::is_sealed(fd);
    if !sealed {
        let stat = fstat(fd).map_err(said)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err("it is no regular file".to_owned());
        }
        let kind = fstatfs(fd).map_err(said)?.f_type as u64 & 0xffff_ffff;
        if !FILE_SYSTEMS.contains(&kind) {
            return Err("its file system may not answer".to_owned());
        }
        if !from_root && !is_temporary(fd) {
            return Err("it is not in /dev/shm, /tmp or /var/tmp".to_owned());
        }
    }
    // What can still change has half the room.
    let bytes_max = if sealed { ENTRY_BYTES_MAX } else { ENTRY_BYTES_MAX / 2 };
    memfd::read_all(fd.as_fd(), bytes_max).map_err(|e| e.to_string())
}

fn is_temporary(fd: &OwnedFd) -> bool {
    let number = std::os::fd::AsRawFd::as_raw_fd(fd);
    let path = std::fs::read_link(format!("/proc/self/fd/{number}"));
    let parent = path.as_ref().ok().and_then(|path| path.parent());
    parent.is_some_and(|parent| DIRECTORIES.map(Path::new).contains(&parent))
}
