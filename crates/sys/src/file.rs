//! Small file operations that take an fd.

use std::os::fd::BorrowedFd;
use std::path::Path;

use crate::error::{Context, Error, Result};

/// Cuts a file, or extends it with zeros, to `bytes`.
pub fn set_length(fd: BorrowedFd<'_>, bytes: u64) -> Result<()> {
    rustix::fs::ftruncate(fd, bytes).call("ftruncate")
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
