//! What kind of file a descriptor is of, and closing it, without waiting for whoever serves it: fstat(2), poll(2) and
//! each close(2) of a file on FUSE or a network ask a server, which may not answer; a socket may linger, and so may
//! those that were sent to a Unix socket and are closed with it.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, StatxFlags, fcntl_get_seals, readlink, statx};
use rustix::io::ioctl_fionread;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::error::{Context, Error, Result, last_errno};
use crate::file::descriptor_path;
use crate::signal::Interrupting;
use crate::socket::is_listening;

/// So long a socket that lingers is waited for; what it has to send is sent also after that (tcp(7)).
pub const LINGER_MAX: Duration = Duration::from_millis(100);

/// Device and inode of an open file, as far as the kernel knows by itself (statx(2), `AT_STATX_DONT_SYNC`).
pub fn identity(fd: BorrowedFd<'_>) -> Result<(u64, u64)> {
    let known = look(fd)?;
    Ok((rustix::fs::makedev(known.stx_dev_major, known.stx_dev_minor), known.stx_ino))
}

/// What is known of an open file without asking anybody, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Type and rights, as in stat(2).
    pub mode: u32,
    /// Major and minor number of the device that it lies on.
    pub device: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// Major and minor number of the device that it is.
    pub is_device: (u32, u32),
    /// Its path, or what the kernel says in the place of one.
    pub path: String,
    /// How it was opened: bits of open(2).
    pub flags: u32,
}

/// The facts of an open file, as far as the kernel knows them by itself.
pub fn open_file(fd: BorrowedFd<'_>) -> Result<OpenFile> {
    let known = look(fd)?;
    let link = readlink(descriptor_path(fd), Vec::new()).call("readlink")?;
    Ok(OpenFile {
        mode: known.stx_mode.into(),
        device: (known.stx_dev_major, known.stx_dev_minor),
        inode: known.stx_ino,
        is_device: (known.stx_rdev_major, known.stx_rdev_minor),
        path: link.to_string_lossy().into_owned(),
        flags: rustix::fs::fcntl_getfl(fd).call("fcntl")?.bits(),
    })
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

/// Whether closing it may wait for others: of files that lie in memory and what can be polled it does not, but for
/// sockets.
pub fn may_wait(fd: BorrowedFd<'_>) -> bool {
    match fcntl_get_seals(fd) {
        Ok(_) => false,
        Err(_) if is_socket(fd) => socket_may_wait(fd),
        Err(_) => !may_be_polled(fd),
    }
}

fn is_socket(fd: BorrowedFd<'_>) -> bool {
    let kind = look(fd).map(|known| FileType::from_raw_mode(known.stx_mode.into()));
    kind == Ok(FileType::Socket)
}

/// One that lingers (socket(7), `SO_LINGER`), or one in which there may be descriptors that are closed with it.
fn socket_may_wait(fd: BorrowedFd<'_>) -> bool {
    match is_unix(fd) {
        true => has_more(fd),
        false => sockopt::socket_linger(fd).is_ok_and(|time| time.is_some_and(|t| !t.is_zero())),
    }
}

fn is_unix(fd: BorrowedFd<'_>) -> bool {
    sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX)
}

/// Whether there is in a Unix socket what nobody has read, or who was not accepted.
pub(crate) fn has_more(fd: BorrowedFd<'_>) -> bool {
    let is_stream = sockopt::socket_type(fd) == Ok(SocketType::STREAM);
    // The end of a stream can be read, too.
    if is_stream && !is_listening(fd) {
        return ioctl_fionread(fd).map_or(true, |bytes| bytes > 0);
    }
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

/// Whether nobody else can have a socket's address before this one is closed: it listens, or is none that is connected
/// to a peer, as that for datagrams. What a listening one has accepted keeps no address.
pub fn keeps_address(fd: BorrowedFd<'_>) -> bool {
    let is_connection =
        |kind| matches!(kind, SocketType::STREAM | SocketType::SEQPACKET) && !is_listening(fd);
    sockopt::socket_type(fd).is_ok_and(|kind| !is_connection(kind))
}

/// Closes a descriptor; one that may wait is closed by a process that has the same table of descriptors
/// (clone(2), `CLONE_FILES`), whose number is returned. With `sibling` that is a child of the caller's parent, else
/// one of the caller's, which has to reap it. A socket does not hold it up for longer than 100 ms; a file may do
/// so for ever. If there is no process to be had, the descriptor stays open.
pub fn close(fd: OwnedFd, sibling: bool) -> Result<Option<i32>> {
    if !may_wait(fd.as_fd()) {
        close_here(fd);
        return Ok(None);
    }
    close_elsewhere(&[fd.into_raw_fd()], sibling).map(Some)
}

/// The same of several: one process, which is returned, makes a process for each that may wait. So the caller waits for
/// one copy of itself, and each number is free as soon as its process runs.
pub fn close_all(fds: impl IntoIterator<Item = OwnedFd>, sibling: bool) -> Result<Option<i32>> {
    let mut numbers = Vec::new();
    for fd in fds {
        match may_wait(fd.as_fd()) {
            true => numbers.push(fd.into_raw_fd()),
            false => close_here(fd),
        }
    }
    if numbers.is_empty() {
        return Ok(None);
    }
    close_elsewhere(&numbers, sibling).map(Some)
}

fn close_here(fd: OwnedFd) {
    // Somebody may be sending just now.
    let is_sent_to = is_socket(fd.as_fd()) && is_unix(fd.as_fd());
    let _interrupting = is_sent_to.then(|| Interrupting::each(LINGER_MAX));
    drop(fd);
}

/// From here on the numbers are the new process's to close.
fn close_elsewhere(numbers: &[RawFd], sibling: bool) -> Result<i32> {
    let parent = if sibling { libc::CLONE_PARENT } else { 0 };
    let flags = libc::c_long::from(libc::CLONE_FILES | parent | libc::SIGCHLD);
    // SAFETY: without CLONE_VM this is fork(2), also in a program of several threads: the new process makes system
    // calls alone, of which the last ends it.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        0 => close_and_exit(numbers),
        pid if pid > 0 => Ok(pid as i32),
        _ => Err(Error::new("clone", last_errno())),
    }
}

/// In the new process: closes the last, and has others made for the rest. Where there is no process to be had it
/// closes those itself, one after the other.
fn close_and_exit(numbers: &[RawFd]) -> ! {
    let flags = libc::c_long::from(libc::CLONE_FILES | libc::SIGCHLD);
    let Some((last, others)) = numbers.split_last() else { std::process::abort() };
    for number in others {
        // SAFETY: as above; a process that is made here has nothing but its number to look at.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            0 => close_one(*number),
            pid if pid > 0 => {}
            // SAFETY: nobody else uses this number.
            _ => _ = unsafe { libc::syscall(libc::SYS_close, *number) },
        }
    }
    close_one(*last)
}

/// Ends with it: the alarm kills the process, which ends the wait of a socket.
fn close_one(number: RawFd) -> ! {
    let time = libc::timeval { tv_sec: 0, tv_usec: LINGER_MAX.subsec_micros() as _ };
    let once = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let alarm = libc::itimerval { it_interval: once, it_value: time };
    let none: *mut libc::itimerval = std::ptr::null_mut();
    // SAFETY: plain integers and pointers to locals, and nobody else uses this number.
    unsafe {
        libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const alarm, none);
        libc::syscall(libc::SYS_close, number);
        libc::syscall(libc::SYS_exit_group, 0);
    }
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdpass;
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
    fn sockets_that_linger_or_in_which_somebody_has_left_something_may_wait() {
        use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
        let check = |name: &str, fd: BorrowedFd<'_>, expected: bool| {
            assert_eq!(may_wait(fd), expected, "{name}");
        };
        let (near, far) = UnixStream::pair().expect("a pair");
        check("stream", near.as_fd(), false);
        fdpass::send(far.as_fd(), b"x", &[]).expect("room");
        check("stream with a byte", near.as_fd(), true);
        check("its sender", far.as_fd(), false);
        drop(near);
        check("a stream that was ended", far.as_fd(), false);
        let (near, far) = UnixDatagram::pair().expect("a pair");
        check("datagrams", near.as_fd(), false);
        far.send(b"").expect("room");
        check("an empty datagram", near.as_fd(), true);

        let path = std::env::temp_dir().join(format!("warren-waits-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a socket");
        check("listener", listener.as_fd(), false);
        let connected = UnixStream::connect(&path).expect("it listens");
        check("listener at which somebody waits", listener.as_fd(), true);
        let accepted = listener.accept().expect("somebody waits").0;
        std::fs::remove_file(&path).expect("it is there");
        check("accepted", accepted.as_fd(), false);
        drop(connected);
        check("accepted and ended", accepted.as_fd(), false);

        let (listener, [lingering, other]) = crate::test_lingering();
        check("TCP listener", listener.as_fd(), false);
        check("lingering", lingering.as_fd(), true);
        sockopt::set_socket_linger(&other, Some(Duration::ZERO)).expect("known");
        check("ended at once", other.as_fd(), false);
        drop(listener);
    }

    #[test]
    fn who_listens_or_takes_datagrams_keeps_an_address_and_a_connection_does_not() {
        use std::net::{TcpListener, TcpStream, UdpSocket};
        let check = |fd: BorrowedFd<'_>, expected: bool| assert_eq!(keeps_address(fd), expected);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("bound");
        let connection = TcpStream::connect(to).expect("it listens");
        check(listener.as_fd(), true);
        check(UdpSocket::bind("127.0.0.1:0").expect("a port").as_fd(), true);
        check(connection.as_fd(), false);
        check(listener.accept().expect("somebody waits").0.as_fd(), false);
        check(std::fs::File::open("/dev/null").expect("it is there").as_fd(), false);
    }

    /// A stream in which there is the last descriptor of a socket that lingers, and its sender.
    fn with_lingering(lingering: std::net::TcpStream) -> [OwnedFd; 2] {
        let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        fdpass::send(far.as_fd(), b"x", &[lingering.as_fd()]).expect("room");
        [near.into(), far.into()]
    }

    #[test]
    fn sockets_that_linger_are_closed_by_processes_that_end_soon() {
        let (listener, [own, sent]) = crate::test_lingering();
        let [near, _far] = with_lingering(sent);
        for socket in [OwnedFd::from(own), near] {
            let pid = close(socket, false).expect("a process").expect("not at once");
            let ended = crate::process::wait(crate::process::Wait::Pid(pid), true);
            assert!(ended.is_ok_and(|exit| exit.is_some()));
        }
        drop(listener);
    }

    #[test]
    fn one_process_has_all_closed() {
        const FILES: usize = 50;
        let (listener, sockets) = crate::test_lingering::<2>();
        let open = || OwnedFd::from(std::fs::File::open("/proc/self/exe").expect("it is there"));
        let mut fds: Vec<OwnedFd> = (0..FILES).map(|_| open()).collect();
        fds.extend(sockets.map(OwnedFd::from));
        let paths: Vec<_> = fds.iter().map(|fd| descriptor_path(fd.as_fd())).collect();
        let targets = || paths.iter().map(|path| std::fs::read_link(path).ok());
        let before: Vec<_> = targets().collect();
        let pid = close_all(fds, false).expect("a process").expect("they may wait");
        let ended = crate::process::wait(crate::process::Wait::Pid(pid), true);
        assert!(ended.is_ok_and(|exit| exit.is_some()));
        // Those that it has made run on. Another test may have a number by then, for something else.
        warren_testkit::wait_until("most files are closed", || {
            targets().zip(&before).filter(|(now, was)| now == *was).count() <= FILES / 2
        });
        drop(listener);
    }

    #[test]
    fn what_may_wait_is_closed_by_another_process() {
        let file = std::fs::File::open("/proc/self/exe").expect("it is there");
        let number = file.as_raw_fd();
        let is_open = || std::fs::read_link(format!("/proc/self/fd/{number}"));
        let program = is_open().expect("it is open");
        close(file.into(), false).expect("a process");
        // Another test may have the number by then, for something else.
        warren_testkit::wait_until("the file is closed", || {
            !is_open().is_ok_and(|there| there == program)
        });
    }
}
