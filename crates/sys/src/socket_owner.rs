//! Whose socket is at the other end of a TCP connection of this host: sock_diag(7).

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::{Context, Result};

/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h: what is asked, and what is answered.
const BY_FAMILY: u16 = 20;

/// NLM_F_REQUEST
const REQUEST: u16 = 1;

/// `struct nlmsghdr`, bytes.
const HEAD_BYTES: usize = 16;

/// Room for the answer about one socket.
const ANSWER_BYTES: usize = 1024;

/// Where an answer has the user and the inode, after its head: `struct inet_diag_msg` of linux/inet_diag.h.
const UID_AT: usize = 64;
const INODE_AT: usize = 68;

/// The user whose socket is connected from `peer` to `own`, both of this network namespace. `None`: there is none any
/// more, or nobody holds it.
///
/// # Errors
/// `EPROTONOSUPPORT` or `EAFNOSUPPORT`: a kernel, or a sandbox, without sock_diag.
pub fn of_peer(own: SocketAddr, peer: SocketAddr) -> Result<Option<u32>> {
    let flags = SocketFlags::CLOEXEC;
    let kind = SocketType::RAW;
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, Some(SOCK_DIAG))
            .call("socket")?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &question(own, peer), SendFlags::empty(), &kernel)
        .call("sendto")?;
    let mut answer = [0; ANSWER_BYTES];
    // It is there when the question was sent.
    let (bytes, _) =
        rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT).call("recv")?;
    Ok(owner_in(&answer[..bytes]))
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`. The addresses as they are: the socket of a client that came over
/// IPv4 is one of IPv4, whatever its server's is.
fn question(own: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let (own, peer) = (canonical(own), canonical(peer));
    let family = match peer.ip() {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    let mut body = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    // In any state.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(peer.port().to_be_bytes());
    body.extend(own.port().to_be_bytes());
    body.extend(address(peer.ip()));
    body.extend(address(own.ip()));
    // On any interface, with any cookie.
    body.extend(0u32.to_ne_bytes());
    body.extend([u8::MAX; 8]);
    let length = (HEAD_BYTES + body.len()) as u32;
    let mut out = length.to_ne_bytes().to_vec();
    out.extend(BY_FAMILY.to_ne_bytes());
    out.extend(REQUEST.to_ne_bytes());
    out.extend([0; 8]);
    out.extend(body);
    out
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Four words, in the order of the network.
fn address(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let mut words = [0; 16];
            words[..4].copy_from_slice(&ip.octets());
            words
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// A socket that was closed has no inode, and root for its user.
fn owner_in(answer: &[u8]) -> Option<u32> {
    let kind = answer.get(4..6)?;
    let body = answer.get(HEAD_BYTES..)?;
    let word = |at: usize| Some(u32::from_ne_bytes(*body.get(at..)?.first_chunk()?));
    let is_held = kind == BY_FAMILY.to_ne_bytes() && word(INODE_AT)? != 0;
    word(UID_AT).filter(|_| is_held)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[track_caller]
    fn check(listen: &str, connect: &str) {
        let listener = TcpListener::bind((listen, 0)).expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        let client = TcpStream::connect((connect, port)).expect("it listens");
        let (connection, _) = listener.accept().expect("it connects");
        let addresses = crate::socket::addresses(connection.as_fd()).expect("a socket");
        let (own, peer) = addresses.expect("of TCP");
        let own_user = rustix::process::geteuid().as_raw();
        assert_eq!(of_peer(own, peer).expect("the kernel tells"), Some(own_user));
        drop(client);
        // A socket that nobody holds is not root's.
        assert_eq!(of_peer(own, peer).expect("the kernel tells"), None);
    }

    #[test]
    fn the_kernel_says_whose_the_other_end_is() {
        check("127.0.0.1", "127.0.0.1");
    }

    #[test]
    fn a_server_of_both_protocols_is_connected_to_by_either() {
        check("::", "127.0.0.1");
        check("::", "::1");
    }

    #[test]
    fn who_is_not_connected_has_no_owner() {
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        assert_eq!(of_peer(nobody, nobody).expect("the kernel tells"), None);
    }

    #[test]
    fn answers_that_are_cut_tell_nothing() {
        let mut answer = vec![0; HEAD_BYTES + 72];
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        answer[HEAD_BYTES + UID_AT] = 7;
        assert_eq!(owner_in(&answer), None, "it has no inode");
        answer[HEAD_BYTES + INODE_AT] = 1;
        assert_eq!(owner_in(&answer), Some(7));
        (0..answer.len()).for_each(|bytes| assert_eq!(owner_in(&answer[..bytes]), None));
    }
}
