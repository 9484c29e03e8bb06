//! Device events over netlink(7): the kernel's own and those that udev sends on.
//!
//! A datagram is bytes here; who may be believed is told by [`Datagram`], to be decided elsewhere.

use std::io::IoSliceMut;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketFlags,
    SocketType, sockopt,
};

use crate::error::{Context, Result, check};

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The kernel: group 1.
    Kernel,
    /// udev, when it has applied its rules: group 2. There may be no udev.
    Udev,
}

impl Group {
    fn mask(self) -> u32 {
        match self {
            Group::Kernel => 1,
            Group::Udev => 2,
        }
    }
}

/// One instruction of a classic BPF program; `struct sock_filter` of linux/filter.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub jump_true: u8,
    /// Instructions to skip when it does not.
    pub jump_false: u8,
    /// Operand.
    pub value: u32,
}

/// A received datagram and its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes in the caller's buffer.
    pub bytes: usize,
    /// It did not fit.
    pub truncated: bool,
    /// Netlink port of the sender; 0 is the kernel.
    pub port: u32,
    /// User id of the sender, as the kernel saw it.
    pub uid: Option<u32>,
}

/// A socket that hears device events. Non-blocking.
#[derive(Debug)]
pub struct Uevents(OwnedFd);

/// Most instructions of a program that the kernel takes (BPF_MAXINSNS).
const INSTRUCTIONS_MAX: usize = 4096;

impl Uevents {
    /// Opens and binds. The receive buffer has `buffer_bytes` where that is permitted
    /// (CAP_NET_ADMIN), else as much as net.core.rmem_max allows: what does not fit is lost, which
    /// the next [`Uevents::receive`] tells as `ENOBUFS`.
    pub fn open(group: Group, buffer_bytes: usize) -> Result<Uevents> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::RAW;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, Some(KOBJECT_UEVENT))
                .call("socket")?;
        sockopt::set_socket_passcred(&socket, true).call("setsockopt SO_PASSCRED")?;
        if sockopt::set_socket_recv_buffer_size_force(&socket, buffer_bytes).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, buffer_bytes)
                .call("setsockopt SO_RCVBUF")?;
        }
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, group.mask())).call("bind")?;
        Ok(Uevents(socket))
    }

    /// Lets only datagrams through that a program accepts; SO_ATTACH_FILTER of socket(7).
    pub fn filter(&self, program: &[Instruction]) -> Result<()> {
        let length = program.len().min(INSTRUCTIONS_MAX) as libc::c_ushort;
        let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
        // SAFETY: `sock_fprog` points to `length` instructions of the kernel's own layout, which
        // it copies and checks before the call returns, and does not write to.
        let done = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        };
        check("setsockopt SO_ATTACH_FILTER", done.into()).map(|_| ())
    }

    /// Takes one datagram; [`receive`].
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Datagram> {
        receive(self.as_fd(), buffer)
    }

    /// Sends a datagram to everybody in a group of this network namespace, as udev does; needs
    /// CAP_NET_ADMIN. For tests that play udev.
    pub fn send(&self, group: Group, data: &[u8]) -> Result<()> {
        let to = SocketAddrNetlink::new(0, group.mask());
        rustix::net::sendto(&self.0, data, rustix::net::SendFlags::empty(), &to)
            .call("sendto")
            .map(|_| ())
    }
}

/// Takes one datagram of a netlink socket. `EAGAIN`: there is none. `ENOBUFS`: some were lost.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Datagram> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::empty())
    });
    let received = received.call("recvmsg")?;
    let sender = received.address.and_then(|address| SocketAddrNetlink::try_from(address).ok());
    let uid = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.uid.as_raw()),
        _ => None,
    });
    Ok(Datagram {
        bytes: received.bytes,
        truncated: received.flags.contains(ReturnFlags::TRUNC),
        port: sender.map_or(u32::MAX, |sender| sender.pid()),
        uid,
    })
}

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());

impl AsFd for Uevents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{Namespaces, unshare};

    /// Runs in a thread with a network namespace of its own, so that nobody else hears.
    fn alone(test: &'static str, body: fn()) {
        let run = move || match unshare(Namespaces::NET) {
            Ok(()) => body(),
            Err(_) => crate::test_not_run(test, "a network namespace of its own (root)"),
        };
        std::thread::spawn(run).join().expect("the test in the namespace holds");
    }

    #[test]
    fn a_datagram_tells_its_sender() {
        alone("a_datagram_tells_its_sender", || {
            let socket = Uevents::open(Group::Udev, 1 << 20).expect("a socket can be had");
            let sender = Uevents::open(Group::Kernel, 4096).expect("a socket can be had");
            let mut buffer = [0; 8];
            let none = socket.receive(&mut buffer).expect_err("nothing was sent");
            assert!(none.is_would_block());
            sender.send(Group::Udev, b"hello").expect("root may send");
            let got = socket.receive(&mut buffer).expect("it arrived");
            assert_eq!((got.bytes, got.truncated, got.uid), (5, false, Some(0)));
            assert_ne!(got.port, 0, "not the kernel");
            sender.send(Group::Udev, b"longer than eight").expect("root may send");
            assert!(socket.receive(&mut buffer).expect("it arrived").truncated);
        });
    }

    #[test]
    fn a_filter_keeps_datagrams_out() {
        alone("a_filter_keeps_datagrams_out", || {
            let socket = Uevents::open(Group::Udev, 1 << 20).expect("a socket can be had");
            let sender = Uevents::open(Group::Kernel, 4096).expect("a socket can be had");
            let step = |code, jump_true, jump_false, value| Instruction {
                code,
                jump_true,
                jump_false,
                value,
            };
            // Load byte 0; equal to 'y': accept, else drop.
            let program = [
                step(0x30, 0, 0, 0),
                step(0x15, 0, 1, u32::from(b'y')),
                step(0x06, 0, 0, u32::MAX),
                step(0x06, 0, 0, 0),
            ];
            socket.filter(&program).expect("a good program");
            sender.send(Group::Udev, b"no").expect("root may send");
            sender.send(Group::Udev, b"yes").expect("root may send");
            let mut buffer = [0; 8];
            let got = socket.receive(&mut buffer).expect("one arrived");
            assert_eq!(&buffer[..got.bytes], b"yes");
        });
    }

    #[test]
    fn what_does_not_fit_is_told_as_lost() {
        alone("what_does_not_fit_is_told_as_lost", || {
            let socket = Uevents::open(Group::Udev, 4096).expect("a socket can be had");
            let sender = Uevents::open(Group::Kernel, 4096).expect("a socket can be had");
            for _ in 0..1000 {
                // The sender may be told, too, that someone lost its message.
                let _ = sender.send(Group::Udev, &[0; 512]);
            }
            let mut buffer = [0; 512];
            let lost = (0..1000).find_map(|_| socket.receive(&mut buffer).err());
            assert_eq!(lost.map(|error| error.errno), Some(libc::ENOBUFS));
        });
    }
}
