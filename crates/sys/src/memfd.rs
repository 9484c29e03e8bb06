//! Anonymous memory files: sealed payloads and memory shared between processes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};

use crate::error::{Context, Error, Result, last_errno};

/// A new memfd, close-on-exec, that can be sealed. The name shows in `/proc` only.
pub fn create(name: &str) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    rustix::fs::memfd_create(name, flags).call_on("memfd_create", name)
}

/// A sealed memfd with this content: neither side can change it afterwards.
pub fn sealed(name: &str, content: &[u8]) -> Result<OwnedFd> {
    let fd = create(name)?;
    let mut rest = content;
    while !rest.is_empty() {
        let n = rustix::io::write(&fd, rest).call("write memfd")?;
        rest = rest.get(n..).unwrap_or_default();
    }
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&fd, seals).call("fcntl F_ADD_SEALS")?;
    rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(0)).call("lseek")?;
    Ok(fd)
}

/// Reads a memfd (or file) from its start; `EFBIG` when it has more than `bytes_max`.
pub fn read_all(fd: BorrowedFd<'_>, bytes_max: usize) -> Result<Vec<u8>> {
    let size = rustix::fs::fstat(fd).call("fstat")?.st_size.max(0) as u64;
    if size > bytes_max as u64 {
        return Err(Error::new("read memfd", libc::EFBIG));
    }
    let mut content = vec![0; size as usize];
    let mut done = 0;
    while let Some(room) = content.get_mut(done..).filter(|r| !r.is_empty()) {
        match rustix::io::pread(fd, room, done as u64).call("pread")? {
            0 => break,
            n => done += n,
        }
    }
    content.truncate(done);
    Ok(content)
}

/// A memfd of exactly `bytes`, zeroed, whose size can no longer change: mapping it is safe
/// against a peer that would shrink it.
pub fn fixed_size(name: &str, bytes: u64) -> Result<OwnedFd> {
    let fd = create(name)?;
    rustix::fs::ftruncate(&fd, bytes).call("ftruncate")?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&fd, seals).call("fcntl F_ADD_SEALS")?;
    Ok(fd)
}

/// Gives the memory of a file from a byte on back; what is there reads as zeros. The size stays.
pub fn release_from(fd: BorrowedFd<'_>, from: u64) -> Result<()> {
    let size = rustix::fs::fstat(fd).call("fstat")?.st_size.max(0) as u64;
    let Some(length) = size.checked_sub(from).filter(|length| *length > 0) else { return Ok(()) };
    let how = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fd, how, from, length).call("fallocate")
}

/// Memory shared with other processes, as atomic 64-bit words.
///
/// Words are the only access there is, so that what another process writes at the same time can
/// be a wrong value but never undefined behaviour.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is owned by this value, is only accessed through atomics and stays mapped
// until the drop, whichever thread does it.
unsafe impl Send for SharedWords {}
// SAFETY: as above; all access through & is atomic.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps a file whose size is sealed ([`fixed_size`]), readable and writable. `EPERM` when
    /// it could still shrink, which would turn an access into SIGBUS.
    pub fn map(fd: BorrowedFd<'_>) -> Result<SharedWords> {
        let seals = rustix::fs::fcntl_get_seals(fd).call("fcntl F_GET_SEALS")?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(Error::new("map memfd: size not sealed", libc::EPERM));
        }
        let bytes = rustix::fs::fstat(fd).call("fstat")?.st_size.max(0) as usize;
        let words = bytes / 8;
        if words == 0 {
            return Err(Error::new("map memfd: empty", libc::EINVAL));
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            let at = std::ptr::null_mut();
            libc::mmap(at, words * 8, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(Error::new("mmap", last_errno()));
        }
        let start = NonNull::new(start.cast()).ok_or(Error::new("mmap", libc::ENOMEM))?;
        Ok(SharedWords { start, words })
    }

    /// The words.
    pub fn as_slice(&self) -> &[AtomicU64] {
        // SAFETY: start is page aligned and mapped for `words` words until the drop; the size
        // cannot shrink; AtomicU64 allows concurrent change and has no invalid values.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`, and no reference outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}

/// True when the fd is a memfd that can no longer be written to or resized.
pub fn is_sealed(fd: impl AsFd) -> bool {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_get_seals(fd).is_ok_and(|s| s.contains(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn a_sealed_payload_comes_back_and_cannot_change() {
        let fd = sealed("test", b"content").expect("memfd works");
        assert!(is_sealed(&fd));
        assert_eq!(read_all(fd.as_fd(), 7), Ok(b"content".to_vec()));
        assert_eq!(read_all(fd.as_fd(), 6).map_err(|e| e.errno), Err(libc::EFBIG));
        assert_eq!(rustix::io::write(&fd, b"x"), Err(rustix::io::Errno::PERM));
    }

    #[test]
    fn two_mappings_see_the_same_words() {
        let fd = fixed_size("test", 64).expect("memfd works");
        let a = SharedWords::map(fd.as_fd()).expect("sealed memory can be mapped");
        let b = SharedWords::map(fd.as_fd()).expect("sealed memory can be mapped");
        assert_eq!(b.as_slice().len(), 8);
        a.as_slice()[7].store(9, SeqCst);
        assert_eq!(b.as_slice()[7].load(SeqCst), 9);
    }

    #[test]
    fn memory_that_could_shrink_is_not_mapped() {
        let fd = create("test").expect("memfd works");
        let refused = SharedWords::map(fd.as_fd()).map(|_| ()).map_err(|e| e.errno);
        assert_eq!(refused, Err(libc::EPERM));
    }
}
