//! What kind of file a descriptor is of, and closing it, without waiting for whoever serves it: fstat(2), poll(2) and
//! each close(2) of a file on FUSE or a network ask a server, which may not answer.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, StatxFlags, fcntl_get_seals, readlink, statx};

use crate::error::{Context, Error, Result, last_errno};
use crate::file::descriptor_path;

/// Device and inode of an open file, as far as the kernel knows by itself (statx(2), `AT_STATX_DONT_SYNC`).
pub fn identity(fd: BorrowedFd<'_>) -> Result<(u64, u64)> {
    let known = look(fd)?;
    Ok((rustix::fs::makedev(known.stx_dev_major, known.stx_dev_minor), known.stx_ino))
}

fn look(fd: BorrowedFd<'_>) -> Result<rustix::fs::Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    statx(fd, c"", flags, StatxFlags::TYPE | StatxFlags::INO).call("statx")
}

/// Whether it can be polled without asking anybody: a socket, a pipe, a device, or one of the kernel's own, as an
/// eventfd or a pidfd.
pub fn may_be_polled(fd: BorrowedFd<'_>) -> bool {
    let kind = look(fd).map(|known| FileType::from_raw_mode(known.stx_mode.into()));
    let is_one =
        |kind| matches!(kind, FileType::Socket | FileType::Fifo | FileType::CharacterDevice);
    kind.is_ok_and(is_one) || is_of_kernel(fd)
}

/// proc_pid_fd(5): what is at no path is shown as `TYPE:[INODE]`.
fn is_of_kernel(fd: BorrowedFd<'_>) -> bool {
    readlink(descriptor_path(fd), Vec::new()).is_ok_and(|link| !link.to_bytes().starts_with(b"/"))
}

/// Whether closing it may wait for a server: of files that lie in memory and what can be polled it does not.
fn may_wait(fd: BorrowedFd<'_>) -> bool {
    fcntl_get_seals(fd).is_err() && !may_be_polled(fd)
}

/// Closes a descriptor; one that may wait is closed by a process that has the same table of descriptors
/// (clone(2), `CLONE_FILES`). With `sibling` that is a child of the caller's parent, else one of the caller's, which
/// has to reap it. If there is no process to be had, it stays open.
pub fn close(fd: OwnedFd, sibling: bool) -> Result<()> {
    if !may_wait(fd.as_fd()) {
        return Ok(());
    }
    let parent = if sibling { libc::CLONE_PARENT } else { 0 };
    let flags = libc::c_long::from(libc::CLONE_FILES | parent | libc::SIGCHLD);
    // From here on the number is the new process's to close.
    let number = fd.into_raw_fd();
    // SAFETY: without CLONE_VM this is fork(2), also in a program of several threads: the new process makes two
    // system calls, of which the second ends it.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        0 => {
            // SAFETY: plain integers, and nobody else uses this number.
            unsafe {
                libc::syscall(libc::SYS_close, number);
                libc::syscall(libc::SYS_exit_group, 0);
            }
            std::process::abort()
        }
        pid if pid > 0 => Ok(()),
        _ => Err(Error::new("clone", last_errno())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn files_are_told_from_what_the_kernel_serves_itself() {
        let check = |name: &str, fd: BorrowedFd<'_>, polled: bool, waits: bool| {
            assert_eq!((may_be_polled(fd), may_wait(fd)), (polled, waits), "{name}");
        };
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let (socket, _) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let event = crate::eventfd::EventFd::new().expect("an eventfd");
        let memory = crate::memfd::sealed("warren-sys", b"x").expect("a memfd");
        let open = |path: &str| std::fs::File::open(path).expect("it is there");
        let process = crate::process::pidfd_open(std::process::id() as i32).expect("a pidfd");
        check("pipe", reader.as_fd(), true, false);
        check("socket", socket.as_fd(), true, false);
        check("eventfd", event.as_fd(), true, false);
        check("pidfd", process.as_fd(), true, false);
        check("device", open("/dev/null").as_fd(), true, false);
        check("memfd", memory.as_fd(), false, false);
        check("file", open("/proc/self/exe").as_fd(), false, true);
        check("directory", open("/proc/self").as_fd(), false, true);
        let file = open("/proc/self/exe");
        assert_eq!(identity(file.as_fd()), identity(open("/proc/self/exe").as_fd()));
        assert_ne!(identity(file.as_fd()), identity(memory.as_fd()));
    }

    #[test]
    fn what_may_wait_is_closed_by_another_process() {
        let file = std::fs::File::open("/proc/self/exe").expect("it is there");
        let number = file.as_raw_fd();
        let is_open = || std::fs::read_link(format!("/proc/self/fd/{number}"));
        let program = is_open().expect("it is open");
        close(file.into(), false).expect("a process");
        // Another test may have the number by then, for something else.
        while is_open().is_ok_and(|there| there == program) {
            std::thread::yield_now();
        }
    }
}
