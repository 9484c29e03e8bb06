//! Namespaces: for `nested` managers and for the tests, which must touch nothing of the host.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use crate::error::{Context, Error, Result, check};

/// Which namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Namespaces(libc::c_int);

impl Namespaces {
    /// Mounts.
    pub const MOUNT: Namespaces = Namespaces(libc::CLONE_NEWNS);
    /// Process ids; applies to children.
    pub const PID: Namespaces = Namespaces(libc::CLONE_NEWPID);
    /// Network.
    pub const NET: Namespaces = Namespaces(libc::CLONE_NEWNET);
    /// System V IPC and POSIX queues.
    pub const IPC: Namespaces = Namespaces(libc::CLONE_NEWIPC);
    /// Host name.
    pub const UTS: Namespaces = Namespaces(libc::CLONE_NEWUTS);
    /// Users and capabilities.
    pub const USER: Namespaces = Namespaces(libc::CLONE_NEWUSER);
    /// The view of the cgroup tree.
    pub const CGROUP: Namespaces = Namespaces(libc::CLONE_NEWCGROUP);

    /// The name in `/proc/PID/ns` of a kind.
    fn file(self) -> &'static str {
        match self {
            Namespaces::NET => "net",
            Namespaces::IPC => "ipc",
            Namespaces::UTS => "uts",
            Namespaces::USER => "user",
            Namespaces::CGROUP => "cgroup",
            Namespaces::PID => "pid_for_children",
            _ => "mnt",
        }
    }
}

impl std::ops::BitOr for Namespaces {
    type Output = Namespaces;
    fn bitor(self, other: Namespaces) -> Namespaces {
        Namespaces(self.0 | other.0)
    }
}

/// Moves this thread into new namespaces (for USER and some others: only when it is the only
/// thread); unshare(2).
pub fn unshare(what: Namespaces) -> Result<()> {
    // SAFETY: only CLONE_NEW* bits: no memory or fd table is unshared.
    check("unshare", unsafe { libc::unshare(what.0) } as _).map(|_| ())
}

/// Moves this thread into the namespace behind an fd, or into several of a process's with its
/// pidfd; setns(2).
pub fn enter(fd: BorrowedFd<'_>, what: Namespaces) -> Result<()> {
    // SAFETY: plain integers.
    check("setns", unsafe { libc::setns(fd.as_raw_fd(), what.0) } as _).map(|_| ())
}

/// Opens a namespace by a path, as ip-netns(8) makes them.
pub fn open(path: &str) -> Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)
}

/// A new namespace of one kind, of which this thread is no part afterwards. `inside` runs in it.
///
/// # Errors
/// `EPERM` and its like where there can be none.
///
/// # Aborts
/// If the thread cannot go back: nothing else may be done in a namespace that is a unit's.
pub fn make(kind: Namespaces, inside: impl FnOnce() -> Result<()>) -> Result<OwnedFd> {
    let path = format!("/proc/thread-self/ns/{}", kind.file());
    let own = open(&path)?;
    unshare(kind)?;
    let made = open(&path).and_then(|made| inside().map(|()| made));
    if enter(own.as_fd(), kind).is_err() {
        std::process::abort();
    }
    made
}

/// A new namespace of users with these maps. With `keeps_groups` no process in it can change its groups. A process
/// is made for it that ends before this returns, because maps are written from outside.
///
/// # Errors
/// `ENOSPC`, `EPERM` or `EUSERS` where there can be none.
pub fn make_users(uids: &[IdRange], gids: &[IdRange], keeps_groups: bool) -> Result<OwnedFd> {
    let (ready, at_work) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).call("pipe")?;
    let (ends, hold) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).call("pipe")?;
    // SAFETY: the new process makes system calls alone and leaves by _exit.
    let pid = check("fork", unsafe { libc::fork() } as _)? as i32;
    if pid == 0 {
        drop(hold);
        let errno = unshare(Namespaces::USER).err().map_or(0, |e| e.errno);
        let _ = rustix::io::write(&at_work, &errno.to_ne_bytes());
        // Until the other end is closed, or its process has ended.
        let _ = rustix::io::read(&ends, &mut [0; 1]);
        // SAFETY: a plain integer; nothing of this process's memory is looked at any more.
        unsafe { libc::_exit(0) };
    }
    drop((at_work, ends));
    let made = users_of(pid, ready.as_fd(), (uids, gids), keeps_groups);
    drop(hold);
    let _ = crate::process::wait(crate::process::Wait::Pid(pid), true);
    made
}

fn users_of(
    pid: i32,
    ready: BorrowedFd<'_>,
    (uids, gids): (&[IdRange], &[IdRange]),
    keeps_groups: bool,
) -> Result<OwnedFd> {
    let mut errno = [0; 4];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(ready, &mut errno)).call("read")?;
    match i32::from_ne_bytes(errno) {
        0 if read == errno.len() => {}
        0 => return Err(Error::new("unshare", libc::ESRCH)),
        errno => return Err(Error::new("unshare", errno)),
    }
    if keeps_groups {
        let path = format!("/proc/{pid}/setgroups");
        fs::write(&path, "deny").call_on("write", &path)?;
    }
    write_id_maps(pid, uids, gids)?;
    open(&format!("/proc/{pid}/ns/user"))
}

/// Makes an open directory the root of this process, and where it is; chroot(2). Who enters a mount namespace
/// has the namespace's own root, which need not be that of those who are in it.
pub fn set_root(directory: BorrowedFd<'_>) -> Result<()> {
    rustix::process::fchdir(directory).call("fchdir")?;
    rustix::process::chroot(".").call("chroot")
}

/// Makes `new_root` the root of this mount namespace and detaches the old one; `new_root` must
/// be a mount point.
pub fn pivot_root(new_root: &Path) -> Result<()> {
    std::env::set_current_dir(new_root).call_on("chdir", new_root)?;
    // Old root stacked onto the new one, then detached: no directory for it is needed.
    rustix::process::pivot_root(".", ".").call_on("pivot_root", new_root)?;
    rustix::mount::unmount(".", rustix::mount::UnmountFlags::DETACH).call_on("umount2", "/")?;
    std::env::set_current_dir("/").call_on("chdir", "/")
}

/// One line of a uid or gid map: user_namespaces(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// First id inside.
    pub inside: u32,
    /// First id outside.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// Writes the maps of a process's user namespace. Without privileges only one's own id can be
/// mapped, and setgroups(2) is then forbidden inside.
pub fn write_id_maps(pid: i32, uids: &[IdRange], gids: &[IdRange]) -> Result<()> {
    let file = |name: &str| format!("/proc/{pid}/{name}");
    if rustix::process::geteuid().as_raw() != 0 {
        let path = file("setgroups");
        fs::write(&path, "deny").call_on("write", &path)?;
    }
    for (name, ranges) in [("uid_map", uids), ("gid_map", gids)] {
        let path = file(name);
        fs::write(&path, id_map(ranges)).call_on("write", &path)?;
    }
    Ok(())
}

fn id_map(ranges: &[IdRange]) -> String {
    let line = |r: &IdRange| format!("{} {} {}\n", r.inside, r.outside, r.count);
    ranges.iter().map(line).collect()
}

/// Sets the host name of this UTS namespace.
pub fn set_host_name(name: &str) -> Result<()> {
    rustix::system::sethostname(name.as_bytes()).call("sethostname")
}

/// Brings up the loopback interface of this network namespace, unless it is up.
///
/// # Errors
/// `EPERM` in a namespace whose interfaces are not ours to change, `ENODEV` without such an interface.
pub fn loopback_up() -> Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .call("socket")?;
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCGIFFLAGS reads the name of this struct and fills in its flags.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) };
    check("ioctl SIOCGIFFLAGS", ret as _).map_err(|e: Error| e.on("lo"))?;
    // SAFETY: the kernel filled in the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    if flags & libc::IFF_UP as libc::c_short != 0 {
        return Ok(());
    }
    request.ifr_ifru.ifru_flags = flags | up;
    // SAFETY: SIOCSIFFLAGS reads name and flags of this struct.
    let ret =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    check("ioctl SIOCSIFFLAGS", ret as _).map_err(|e: Error| e.on("lo")).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_written_as_the_manual_says() {
        let own = IdRange { inside: 0, outside: 1000, count: 1 };
        let rest = IdRange { inside: 1, outside: 100_000, count: 65_535 };
        assert_eq!(id_map(&[own, rest]), "0 1000 1\n1 100000 65535\n");
    }

    #[test]
    fn users_are_those_of_the_map() {
        let own = rustix::process::geteuid().as_raw();
        let only = [IdRange { inside: own, outside: own, count: 1 }];
        match make_users(&only, &only, true) {
            Ok(users) => {
                let path = crate::file::descriptor_path(users.as_fd());
                let kind = fs::read_link(path).expect("it is open");
                assert!(kind.to_string_lossy().starts_with("user:"), "{kind:?}");
            }
            Err(e) if matches!(e.errno, libc::EPERM | libc::ENOSPC) => {
                crate::test_not_run("users_are_those_of_the_map", "namespaces of users")
            }
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn a_namespace_is_made_and_left() {
        let run = || {
            let link = || fs::read_link("/proc/thread-self/ns/net").expect("it is there");
            let before = link();
            let made = make(Namespaces::NET, || {
                assert_ne!(link(), before);
                loopback_up()
            })?;
            assert_eq!(link(), before);
            enter(made.as_fd(), Namespaces::NET).map(|()| assert_ne!(link(), before))
        };
        match std::thread::spawn(run).join().expect("the thread ends well") {
            Ok(()) => {}
            Err(e) if e.errno == libc::EPERM => {
                crate::test_not_run("a_namespace_is_made_and_left", "CAP_SYS_ADMIN")
            }
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn loopback_comes_up_in_a_namespace_of_its_own() {
        let run = || -> Result<()> {
            unshare(Namespaces::NET)?;
            let here = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let own = here.local_addr().expect("an address");
            let down = here.send_to(b"x", own).expect_err("nothing is up").raw_os_error();
            assert_eq!(down, Some(libc::ENETUNREACH));
            // A second time changes nothing.
            loopback_up().and_then(|()| loopback_up())?;
            here.send_to(b"x", own).expect("it is up");
            Ok(())
        };
        match std::thread::spawn(run).join().expect("the thread ends well") {
            Ok(()) => {}
            Err(e) if e.errno == libc::EPERM => {
                crate::test_not_run("loopback_comes_up_in_a_namespace_of_its_own", "CAP_SYS_ADMIN")
            }
            Err(e) => panic!("{e}"),
        }
    }
}
