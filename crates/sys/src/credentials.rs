//! Who is at the other end of a Unix socket: unix(7).

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{Result, check};
pub use crate::fdpass::Credentials;

/// SO_PEERPIDFD, Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// The peer as it was when it connected.
pub fn peer(socket: BorrowedFd<'_>) -> Result<Credentials> {
    let mut c = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the local.
    let ret = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut c).cast(), &raw mut length)
    };
    check("getsockopt SO_PEERCRED", ret as _)?;
    Ok(Credentials { pid: c.pid, uid: c.uid, gid: c.gid })
}

/// A pidfd of the peer: names it even when its pid is reused. `ENOPROTOOPT` before Linux 6.5.
pub fn peer_pidfd(socket: BorrowedFd<'_>) -> Result<OwnedFd> {
    let mut fd: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int to the local; on success it is a new fd of ours.
    unsafe {
        let (socket, level) = (socket.as_raw_fd(), libc::SOL_SOCKET);
        let value = (&raw mut fd).cast();
        let ret = libc::getsockopt(socket, level, SO_PEERPIDFD, value, &raw mut length);
        check("getsockopt SO_PEERPIDFD", ret as _)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_pair_is_ours() {
        let (a, _b) = crate::fdpass::seqpacket_pair(true).expect("a socket pair");
        let own = std::process::id() as i32;
        assert_eq!(peer(a.as_fd()).map(|c| c.pid), Ok(own));
        match peer_pidfd(a.as_fd()) {
            Ok(fd) => assert_eq!(crate::process::pidfd_pid(fd.as_fd()), Ok(own)),
            Err(e) if e.errno == libc::ENOPROTOOPT => {
                crate::test_not_run("a_socket_pair_is_ours", "Linux 6.5 for SO_PEERPIDFD")
            }
            Err(e) => panic!("{e}"),
        }
    }
}
