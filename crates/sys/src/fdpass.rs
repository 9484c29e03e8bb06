//! Messages with file descriptors over Unix sockets: SCM_RIGHTS and SCM_CREDENTIALS, unix(7).
//!
//! Sending and receiving allocate nothing, so that warren-init can use them. Every received fd
//! is close-on-exec. Of a message that had to be cut (too long, too many fds) [`recv`] and [`peek`] hand out no fds:
//! they are closed, and it is `truncated`. What others do with one is said with them.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::error::{Context, Error, Result, check, last_errno};

/// Most fds one message can carry (SCM_MAX_FD of the kernel).
pub const FDS_PER_MESSAGE_MAX: usize = 253;

/// Room for the control part: one SCM_RIGHTS of 253 fds, one SCM_CREDENTIALS, one SCM_PIDFD.
const CONTROL_BYTES: usize = 1152;

/// Room for SCM_CREDENTIALS, SCM_RIGHTS of two fds, and SCM_PIDFD.
const FEW_CONTROL_BYTES: usize = 80;

/// Control buffer with the alignment of `cmsghdr`.
#[repr(C, align(8))]
struct Control([MaybeUninit<u8>; CONTROL_BYTES]);

impl Control {
    fn new() -> Control {
        Control([MaybeUninit::zeroed(); CONTROL_BYTES])
    }
}

/// Who sent a message, as the kernel saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Process id in the receiver's pid namespace, 0 when it has none there.
    pub pid: i32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A received message.
#[derive(Debug)]
pub struct Received {
    /// Bytes written to the caller's buffer. 0 on a stream or seqpacket socket: peer closed.
    pub bytes: usize,
    /// How many fds were appended to the caller's vector.
    pub fds: usize,
    /// Sender; only with `SO_PASSCRED` ([`pass_credentials`]).
    pub credentials: Option<Credentials>,
    /// Sender as a pidfd, also of one that has ended; only with [`pass_pidfds`].
    pub pidfd: Option<OwnedFd>,
    /// True when the message or its control part did not fit and was discarded.
    pub truncated: bool,
    /// True when its bytes are all there and fds that came with it are not: there was no room for
    /// them, or this process may have no more open. Those that did fit are closed.
    pub lost_fds: bool,
}

/// A connected pair of sequenced-packet sockets, close-on-exec, non-blocking if asked.
pub fn seqpacket_pair(nonblocking: bool) -> Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let mut flags = SocketFlags::CLOEXEC;
    if nonblocking {
        flags |= SocketFlags::NONBLOCK;
    }
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).call("socketpair")
}

/// Ends a connection for both sides, whoever else holds a descriptor of it: the other side reads
/// what was sent before, then the end.
pub fn hang_up(socket: BorrowedFd<'_>) {
    // ENOTCONN: it has ended already.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

/// Waits until there is something to receive, or the end; false if there is nothing in that time.
pub fn wait_readable(socket: BorrowedFd<'_>, time: std::time::Duration) -> Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    let time = Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ };
    match poll(&mut fds, Some(&time)) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        ready => Ok(ready.call("poll")? > 0),
    }
}

/// Waits until there is something to read from one of two fds, or the end of it.
pub fn wait_for_either(fds: [BorrowedFd<'_>; 2]) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
    match poll(&mut fds, None) {
        Err(rustix::io::Errno::INTR) => Ok(()),
        ready => ready.map(drop).call("poll"),
    }
}

/// Waits until there is something to read or room to write.
pub fn wait_ready(socket: BorrowedFd<'_>) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(&socket, PollFlags::IN | PollFlags::OUT)];
    match poll(&mut fds, None) {
        Err(rustix::io::Errno::INTR) => Ok(()),
        ready => ready.map(drop).call("poll"),
    }
}

/// Makes the socket report the sender of each message.
pub fn pass_credentials(socket: BorrowedFd<'_>) -> Result<()> {
    rustix::net::sockopt::set_socket_passcred(socket, true).call("setsockopt SO_PASSCRED")
}

/// Makes the socket report the sender of each message as a pidfd too, or no more. `ENOPROTOOPT` before
/// Linux 6.5; of a process that has ended there is one since 6.16. The kernel makes a file for each
/// message, which [`recv_plain`] saves.
pub fn pass_pidfds(socket: BorrowedFd<'_>, on: bool) -> Result<()> {
    set_option(socket, SO_PASSPIDFD, on.into()).call("setsockopt SO_PASSPIDFD")
}

/// Makes the socket report the sender of each message and nothing else, so that [`peek_plain`] says of
/// fds alone that they are not there; bytes out of band, which may have some, are looked at and taken with others.
pub fn pass_credentials_alone(socket: BorrowedFd<'_>) -> Result<()> {
    // A kernel that does not know one of them does not report it.
    let _ = pass_pidfds(socket, false);
    let _ = set_option(socket, libc::SO_PASSSEC, 0);
    let _ = set_option(socket, libc::SO_OOBINLINE, 1);
    pass_credentials(socket)
}

/// Has the kernel refuse messages with fds to this socket, and to those that are accepted from it:
/// their senders get `EPERM`. `ENOPROTOOPT` before Linux 6.16.
pub fn refuse_fds(socket: BorrowedFd<'_>) -> Result<()> {
    set_option(socket, SO_PASSRIGHTS, 0).call("setsockopt SO_PASSRIGHTS")
}

/// Has the kernel take messages with fds to this socket again.
pub fn allow_fds(socket: BorrowedFd<'_>) -> Result<()> {
    set_option(socket, SO_PASSRIGHTS, 1).call("setsockopt SO_PASSRIGHTS")
}

/// SO_PASSPIDFD of the kernel, since Linux 6.5.
pub(crate) const SO_PASSPIDFD: libc::c_int = 76;

/// SO_PASSRIGHTS of the kernel.
pub(crate) const SO_PASSRIGHTS: libc::c_int = 83;

/// Ends a socket for who sends to it, with `EPIPE`; what is in it can be received still.
pub fn take_no_more(socket: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Read);
}

fn set_option(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    value: libc::c_int,
) -> rustix::io::Result<()> {
    // SAFETY: the value is a live c_int of the size that is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(rustix::io::Errno::from_raw_os_error(last_errno())) }
}

/// Sends one message with at most [`FDS_PER_MESSAGE_MAX`] fds. Never raises SIGPIPE.
///
/// Fails with `EAGAIN` on a full non-blocking socket, `EPIPE`/`ECONNRESET` when the peer is
/// gone, `EMSGSIZE` when a packet is too large, `ETOOMANYREFS` when too many fds are in flight.
pub fn send(socket: BorrowedFd<'_>, data: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    send_parts(socket, &[data], fds).map(|_| ())
}

/// As [`send`], with the message in several parts. Returns the bytes taken (all of them, unless
/// the socket is a non-blocking stream).
pub fn send_parts(
    socket: BorrowedFd<'_>,
    parts: &[&[u8]],
    fds: &[BorrowedFd<'_>],
) -> Result<usize> {
    send_flags(socket, parts, fds, 0)
}

/// As [`send`], but fails with `EAGAIN` instead of waiting, whatever the socket's mode.
pub fn try_send(socket: BorrowedFd<'_>, data: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
    send_flags(socket, &[data], fds, libc::MSG_DONTWAIT).map(|_| ())
}

/// As [`send`], out of band.
#[cfg(test)]
pub(crate) fn send_out_of_band(
    socket: BorrowedFd<'_>,
    data: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<()> {
    send_flags(socket, &[data], fds, libc::MSG_OOB).map(|_| ())
}

fn send_flags(
    socket: BorrowedFd<'_>,
    parts: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    flags: i32,
) -> Result<usize> {
    const PARTS_MAX: usize = 4;
    if fds.len() > FDS_PER_MESSAGE_MAX || parts.len() > PARTS_MAX {
        return Err(Error::new("sendmsg", libc::EINVAL));
    }
    let mut iov = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PARTS_MAX];
    for (slot, part) in iov.iter_mut().zip(parts) {
        *slot = libc::iovec { iov_base: part.as_ptr() as *mut _, iov_len: part.len() };
    }
    let mut control = Control::new();
    // SAFETY: an all-zero msghdr is valid (no name, no buffers).
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = iov.as_mut_ptr();
    msg.msg_iovlen = parts.len() as _;
    if !fds.is_empty() {
        put_rights(&mut msg, &mut control, fds);
    }
    loop {
        // SAFETY: msg points to iov and control, which live until the end of this function.
        let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &msg, libc::MSG_NOSIGNAL | flags) };
        match check("sendmsg", n as _) {
            Err(e) if e.errno == libc::EINTR => continue,
            Err(e) => return Err(e),
            Ok(n) => return Ok(n as usize),
        }
    }
}

/// Writes one SCM_RIGHTS record. `fds` is not empty and at most [`FDS_PER_MESSAGE_MAX`] long.
fn put_rights(msg: &mut libc::msghdr, control: &mut Control, fds: &[BorrowedFd<'_>]) {
    let bytes = size_of_val(fds) as u32;
    debug_assert_eq!(size_of::<BorrowedFd<'_>>(), size_of::<RawFd>());
    // SAFETY: CMSG_SPACE only computes; the largest value (253 fds) is below CONTROL_BYTES.
    let space = unsafe { libc::CMSG_SPACE(bytes) } as usize;
    assert!(space <= CONTROL_BYTES, "253 fds fit the control buffer");
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = space as _;
    // SAFETY: the control buffer is aligned and has room for one header and `bytes` of data, as
    // asserted; BorrowedFd is a transparent RawFd.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(msg);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
        std::ptr::copy_nonoverlapping(
            fds.as_ptr().cast::<u8>(),
            libc::CMSG_DATA(header),
            bytes as usize,
        );
    }
}

/// Receives one message into `data` and appends its fds to `fds`.
///
/// Blocks unless the socket is non-blocking or `wait` is false (then `EAGAIN`). `fds` must have
/// spare capacity for [`FDS_PER_MESSAGE_MAX`] more if the caller must not allocate.
pub fn recv(
    socket: BorrowedFd<'_>,
    data: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    wait: bool,
) -> Result<Received> {
    receive(socket, data, fds, if wait { 0 } else { libc::MSG_DONTWAIT })
}

/// Receives a datagram, or bytes of a stream, without fds and pidfd, which are dropped, and without
/// blocking: there is room for the credentials alone, so nothing else is made for us.
pub fn recv_plain(socket: BorrowedFd<'_>, data: &mut [u8]) -> Result<Received> {
    Ok(Received { lost_fds: false, ..receive_plain(socket, data, 0)? })
}

/// As [`peek`], without the fds: they stay in the message, and nothing is made for us that had to be closed.
/// That there are some is said by `lost_fds`, where the socket reports the sender alone
/// ([`pass_credentials_alone`]). `bytes` counts what did not
/// fit, too.
pub fn peek_plain(socket: BorrowedFd<'_>, data: &mut [u8]) -> Result<Received> {
    receive_plain(socket, data, libc::MSG_PEEK)
}

fn receive_plain(socket: BorrowedFd<'_>, data: &mut [u8], flags: i32) -> Result<Received> {
    let room = data.len();
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    let mut control = Control::new();
    let mut iov = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: an all-zero msghdr is valid.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE only computes.
    msg.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) } as _;
    let bytes = recv_retry(socket, &mut msg, libc::MSG_CMSG_CLOEXEC | flags)?;
    let mut fds = Vec::new();
    let (credentials, _) = take_control(&msg, &mut fds);
    let (truncated, lost_fds) = (bytes > room, msg.msg_flags & libc::MSG_CTRUNC != 0);
    Ok(Received { bytes, fds: 0, credentials, pidfd: None, truncated, lost_fds })
}

/// Looks at the next message that was not looked at yet, without taking it and without blocking.
/// The socket counts bytes, not messages, so one that is larger than `data` ends the looking: see
/// [`start_peeking`].
pub fn peek(socket: BorrowedFd<'_>, data: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<Received> {
    receive(socket, data, fds, libc::MSG_DONTWAIT | libc::MSG_PEEK)
}

/// As [`peek`], with room for a pidfd and a few fds. What came of a message with more is not closed.
pub fn peek_few(
    socket: BorrowedFd<'_>,
    data: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> Result<Received> {
    receive_whole(socket, data, fds, (libc::MSG_DONTWAIT | libc::MSG_PEEK, FEW_CONTROL_BYTES))
}

/// Looks begin at the first message in the socket (socket(7), `SO_PEEK_OFF`).
pub fn start_peeking(socket: BorrowedFd<'_>) -> Result<()> {
    peek_from(socket, 0)
}

/// The next look is behind so many bytes.
pub fn peek_from(socket: BorrowedFd<'_>, bytes: usize) -> Result<()> {
    let offset = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(socket, libc::SO_PEEK_OFF, offset).call("setsockopt SO_PEEK_OFF")
}

/// Each look is at the first message, also at one that is empty and was looked at.
pub fn peek_at_front(socket: BorrowedFd<'_>) -> Result<()> {
    set_option(socket, libc::SO_PEEK_OFF, -1).call("setsockopt SO_PEEK_OFF")
}

/// How many bytes were looked at and not taken since [`start_peeking`]: the socket counts them,
/// whichever process looks.
pub fn peeked(socket: BorrowedFd<'_>) -> Result<usize> {
    let mut bytes: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: value and length are live and of the size that is given.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEEK_OFF,
            (&raw mut bytes).cast(),
            &raw mut length,
        )
    };
    check("getsockopt SO_PEEK_OFF", done as _)?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Takes the first message and throws it away; false if there is none. Its fds are not made ours before; the kernel
/// closes them in this thread, which may take as long as their sender likes.
pub fn discard(socket: BorrowedFd<'_>) -> bool {
    // SAFETY: an all-zero msghdr is valid.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    recv_retry(socket, &mut msg, libc::MSG_DONTWAIT).is_ok()
}

/// Takes the first message, as much of it as fits, with its fds, and throws nothing away that had to be closed. Fails
/// with `EAGAIN` if there is none.
pub fn take(socket: BorrowedFd<'_>, data: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<()> {
    receive_whole(socket, data, fds, (libc::MSG_DONTWAIT, CONTROL_BYTES)).map(|_| ())
}

/// Receives without blocking, and closes nothing: what came of descriptors that did not all fit is handed out, and
/// that some are lost is said.
pub fn recv_all(
    socket: BorrowedFd<'_>,
    data: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> Result<Received> {
    receive_whole(socket, data, fds, (libc::MSG_DONTWAIT, CONTROL_BYTES))
}

fn receive(
    socket: BorrowedFd<'_>,
    data: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    flags: i32,
) -> Result<Received> {
    let before = fds.len();
    let mut received = receive_whole(socket, data, fds, (flags, CONTROL_BYTES))?;
    if received.truncated || received.lost_fds {
        fds.truncate(before);
        (received.fds, received.truncated) = (0, true);
    }
    Ok(received)
}

/// With so many bytes of room for the control part; `truncated` says of the data alone.
fn receive_whole(
    socket: BorrowedFd<'_>,
    data: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    (flags, control_bytes): (i32, usize),
) -> Result<Received> {
    let mut control = Control::new();
    let mut iov = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: an all-zero msghdr is valid.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = control_bytes.min(CONTROL_BYTES) as _;
    let flags = libc::MSG_CMSG_CLOEXEC | flags;
    let bytes = recv_retry(socket, &mut msg, flags)?;
    let before = fds.len();
    let (credentials, pidfd) = take_control(&msg, fds);
    let truncated = msg.msg_flags & libc::MSG_TRUNC != 0;
    let lost_fds = !truncated && msg.msg_flags & libc::MSG_CTRUNC != 0;
    Ok(Received { bytes, fds: fds.len() - before, credentials, pidfd, truncated, lost_fds })
}

/// A Unix socket whose peer closed it with messages unread reports `ECONNRESET` once, and
/// before what the peer had sent. That is taken as what it is, a peer that has ended: what it
/// sent comes next, then the end.
fn recv_retry(socket: BorrowedFd<'_>, msg: &mut libc::msghdr, flags: i32) -> Result<usize> {
    let mut reset = false;
    loop {
        // SAFETY: msg points to buffers that the caller keeps alive over this call.
        let n = unsafe { libc::recvmsg(socket.as_raw_fd(), msg, flags) };
        match check("recvmsg", n as _) {
            Err(e) if e.errno == libc::EINTR => continue,
            Err(e) if e.errno == libc::ECONNRESET && !reset => reset = true,
            Err(e) => return Err(e),
            Ok(n) => return Ok(n as usize),
        }
    }
}

/// Walks the control records: owns every fd received, reports the sender.
pub(crate) fn take_control(
    msg: &libc::msghdr,
    fds: &mut Vec<OwnedFd>,
) -> (Option<Credentials>, Option<OwnedFd>) {
    /// SCM_PIDFD of the kernel.
    const SCM_PIDFD: libc::c_int = 4;
    let (mut credentials, mut pidfd) = (None, None);
    // SAFETY: msg was filled by a successful recvmsg; CMSG_* stay inside msg_controllen. Each
    // fd in SCM_RIGHTS is new and owned by nobody else.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(msg);
        while !header.is_null() {
            let payload = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(header);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    for i in 0..payload / size_of::<RawFd>() {
                        let fd = data.cast::<RawFd>().add(i).read_unaligned();
                        fds.push(OwnedFd::from_raw_fd(fd));
                    }
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if payload >= 12 => {
                    let c = data.cast::<libc::ucred>().read_unaligned();
                    credentials = Some(Credentials { pid: c.pid, uid: c.uid, gid: c.gid });
                }
                (libc::SOL_SOCKET, SCM_PIDFD) if payload >= size_of::<RawFd>() => {
                    // A negative number is an errno.
                    let fd = data.cast::<RawFd>().read_unaligned();
                    pidfd = (fd >= 0).then(|| OwnedFd::from_raw_fd(fd));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(msg, header);
        }
    }
    (credentials, pidfd)
}

/// Has programs that this one starts inherit an fd, under its number.
pub fn set_inheritable(fd: BorrowedFd<'_>) -> Result<()> {
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).call("fcntl F_SETFD")
}

/// Takes an fd that this program was started with, under its number, close-on-exec. Standard fds and
/// numbers that are not open are refused.
pub fn adopt_inherited(number: RawFd) -> Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(Error::new("take inherited fd", libc::EINVAL));
    }
    // SAFETY: plain integers: the call fails when the number is not an open fd.
    let set = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    check("fcntl F_SETFD", set as _)?;
    // SAFETY: it is open, and came from our parent for us to own.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The same at `min` or above; the number that it came under is closed.
pub fn take_inherited(number: RawFd, min: RawFd) -> Result<OwnedFd> {
    duplicate(adopt_inherited(number)?, min.max(3))
}

/// A duplicate of any fd at `min` or above, close-on-exec.
pub fn duplicate(fd: impl AsFd, min: RawFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, min).call("fcntl F_DUPFD_CLOEXEC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_taken_without_what_costs() {
        use std::os::unix::net::UnixDatagram;
        let (sender, receiver) = UnixDatagram::pair().expect("a pair");
        pass_credentials(receiver.as_fd()).expect("allowed");
        let with_pidfds = pass_pidfds(receiver.as_fd(), true).is_ok();
        sender.send(b"hello").expect("room");
        sender.send(b"").expect("room");
        let mut room = [0; 3];
        let cut = recv_plain(receiver.as_fd(), &mut room).expect("there is one");
        assert_eq!(
            (cut.bytes, cut.truncated, cut.pidfd.is_some(), &room),
            (5, true, false, b"hel")
        );
        let whole =
            recv(receiver.as_fd(), &mut room, &mut Vec::new(), false).expect("there is one");
        assert_eq!((whole.bytes, whole.pidfd.is_some()), (0, with_pidfds));
        assert!(recv_plain(receiver.as_fd(), &mut room).is_err_and(|e| e.is_would_block()));
    }

    #[test]
    fn a_stream_counts_what_was_looked_at() {
        use std::io::Write;
        use std::os::unix::net::UnixStream;
        let (mut writer, reader) = UnixStream::pair().expect("a pair");
        pass_credentials(reader.as_fd()).expect("allowed");
        start_peeking(reader.as_fd()).expect("allowed");
        let (mut room, mut fds) = ([0; 4], Vec::new());
        let mut look = |count: usize| {
            let got = peek(reader.as_fd(), &mut room[..count], &mut fds).map(|got| got.bytes);
            got.map(|n| String::from_utf8_lossy(&room[..n]).into_owned())
        };
        writer.write_all(b"abcdef").expect("room");
        assert_eq!(look(4).as_deref(), Ok("abcd"));
        assert_eq!(look(4).as_deref(), Ok("ef"));
        assert!(look(4).is_err_and(|e| e.is_would_block()));
        assert_eq!(peeked(reader.as_fd()), Ok(6));
        // Another process would see the same: it is the socket's.
        let other = reader.try_clone().expect("dup");
        let taken = recv(other.as_fd(), &mut [0; 4], &mut Vec::new(), false).expect("there");
        assert_eq!((taken.bytes, peeked(reader.as_fd())), (4, Ok(2)));
        writer.write_all(b"gh").expect("room");
        assert_eq!(look(4).as_deref(), Ok("gh"));
        drop(writer);
        assert_eq!(look(4).as_deref(), Ok(""), "the end");
        start_peeking(reader.as_fd()).expect("allowed");
        assert_eq!(look(4).as_deref(), Ok("efgh"));
    }

    #[test]
    fn bytes_of_a_stream_are_taken_without_what_costs() {
        use std::io::Write;
        use std::os::unix::net::UnixStream;
        let (mut writer, reader) = UnixStream::pair().expect("a pair");
        pass_credentials(reader.as_fd()).expect("allowed");
        let with_pidfds = pass_pidfds(reader.as_fd(), true).is_ok();
        writer.write_all(b"hello you").expect("room");
        let (mut room, mut fds) = ([0; 5], Vec::new());
        let whole = peek(reader.as_fd(), &mut room, &mut fds).expect("there is something");
        assert_eq!((whole.bytes, whole.pidfd.is_some()), (5, with_pidfds));
        let taken = recv_plain(reader.as_fd(), &mut room).expect("there is something");
        assert_eq!((taken.bytes, &room, taken.pidfd.is_some()), (5, b"hello", false));
        let rest = recv_plain(reader.as_fd(), &mut room).expect("there is something");
        assert_eq!((rest.bytes, &room[..4]), (4, &b" you"[..]));
    }

    /// Sends datagrams of these lengths, then plays `p` (peek), `d` (discard) and says the lengths
    /// seen; `-` for nothing.
    #[track_caller]
    fn check_peek(lengths: &[usize], script: &str, expected: &str) {
        let (a, b) = std::os::unix::net::UnixDatagram::pair().expect("a socket pair can be made");
        start_peeking(b.as_fd()).expect("the option is known");
        for &length in lengths {
            send(a.as_fd(), &vec![7; length], &[a.as_fd()]).expect("a small message can be sent");
        }
        let mut seen = String::new();
        for step in script.chars() {
            let (mut data, mut fds) = ([0; 64], Vec::new());
            seen.push_str(&match step {
                'd' => if discard(b.as_fd()) { "d " } else { "- " }.to_owned(),
                _ => match peek(b.as_fd(), &mut data, &mut fds) {
                    Ok(r) if r.truncated => "big ".to_owned(),
                    Ok(r) => format!("{}+{} ", r.bytes, fds.len()),
                    Err(_) => "- ".to_owned(),
                },
            });
        }
        assert_eq!(seen.trim(), expected, "{lengths:?} {script}");
    }

    #[test]
    fn a_look_without_room_for_fds_leaves_them_in_the_message() {
        let (a, b) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
        pass_credentials(b.as_fd()).expect("allowed");
        start_peeking(b.as_fd()).expect("the option is known");
        let (near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        send(a.as_fd(), b"none", &[]).expect("room");
        send(a.as_fd(), b"one", &[far.as_fd()]).expect("room");
        send(a.as_fd(), b"long", &[]).expect("room");
        drop(far);
        let mut room = [0; 4];
        let mut look = |bytes: usize| {
            peek_plain(b.as_fd(), &mut room[..bytes]).map(|r| (r.bytes, r.truncated, r.lost_fds))
        };
        assert_eq!((look(4), look(4)), (Ok((4, false, false)), Ok((3, false, true))));
        assert_eq!(look(2), Ok((4, true, false)));
        let (mut data, mut fds) = ([0; 4], Vec::new());
        peek_from(b.as_fd(), 4).expect("the option is known");
        let whole = peek(b.as_fd(), &mut data, &mut fds).expect("it is there");
        assert_eq!((whole.bytes, fds.len(), whole.lost_fds), (3, 1, false));
        drop(fds);
        assert!(discard(b.as_fd()));
        let hung_up = |time| wait_readable(near.as_fd(), time);
        assert_eq!(hung_up(std::time::Duration::ZERO), Ok(false), "it is in the socket still");
        assert!(discard(b.as_fd()));
        assert_eq!(hung_up(std::time::Duration::from_secs(60)), Ok(true), "nobody has it any more");
    }

    #[test]
    fn messages_are_looked_at_before_they_are_taken() {
        check_peek(&[5, 9, 3], "pppp", "5+1 9+1 3+1 -");
        check_peek(&[5, 9, 3], "ppddpp", "5+1 9+1 d d 3+1 -");
        check_peek(&[5, 9, 3], "pdpd", "5+1 d 9+1 d");
        check_peek(&[5, 99, 3], "pp", "5+1 big");
        check_peek(&[], "pd", "- -");
    }

    /// Sends `count` fds and a text, and says what arrived: `BYTES bytes FDS fds`.
    #[track_caller]
    fn check_pass(count: usize, room: usize, expected: &str) {
        let (a, b) = seqpacket_pair(true).expect("a socket pair can be made");
        let own = a.as_fd();
        let fds = vec![own; count];
        send(a.as_fd(), b"hello", &fds).expect("a small message can be sent");
        let mut buffer = vec![0; room];
        let mut got = Vec::new();
        let r = recv(b.as_fd(), &mut buffer, &mut got, true).expect("a message is there");
        let text = format!("{} bytes {} fds cut={}", r.bytes, got.len(), r.truncated);
        assert_eq!(text, expected);
        assert_eq!(r.fds, got.len());
    }

    #[test]
    fn fds_travel_with_the_message() {
        check_pass(0, 16, "5 bytes 0 fds cut=false");
        check_pass(1, 16, "5 bytes 1 fds cut=false");
        check_pass(253, 16, "5 bytes 253 fds cut=false");
        check_pass(2, 3, "3 bytes 0 fds cut=true");
    }

    #[test]
    fn too_many_fds_are_refused() {
        let (a, _b) = seqpacket_pair(true).expect("a socket pair can be made");
        let fds = vec![a.as_fd(); 254];
        assert_eq!(send(a.as_fd(), b"x", &fds).map_err(|e| e.errno), Err(libc::EINVAL));
    }

    #[test]
    fn what_a_peer_sent_before_its_end_comes_before_the_end() {
        let (a, b) = seqpacket_pair(true).expect("a socket pair can be made");
        send(a.as_fd(), b"never read", &[]).expect("sent");
        send(b.as_fd(), b"last", &[]).expect("sent");
        send(b.as_fd(), b"words", &[]).expect("sent");
        drop(b);
        let (mut buffer, mut fds) = ([0; 16], Vec::new());
        let mut next = || recv(a.as_fd(), &mut buffer, &mut fds, true).map(|r| r.bytes);
        assert_eq!((next(), next(), next()), (Ok(4), Ok(5), Ok(0)));
    }

    #[test]
    fn the_sender_is_reported() {
        let (a, b) = seqpacket_pair(true).expect("a socket pair can be made");
        pass_credentials(b.as_fd()).expect("the option is known");
        send(a.as_fd(), b"x", &[]).expect("a small message can be sent");
        let mut fds = Vec::new();
        let r = recv(b.as_fd(), &mut [0; 4], &mut fds, true).expect("a message is there");
        assert_eq!(r.credentials.map(|c| c.pid), Some(std::process::id() as i32));
    }
}
