//! Ports for programs that are told where to listen.
//! Must not: give a port that the kernel hands to others by itself.
//! Runs on the threads of tests.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that the kernel gives to those that ask for any (`ip_local_port_range`, 32768 and up).
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// An address of the loopback interface at which nobody listens, for a program that is told its address.
/// Nobody gets the port by chance before that program listens, as could happen to one that the kernel chose:
/// while it is free, the kernel gives it to any other program that asks for a port.
pub fn free_address() -> SocketAddr {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    // Test programs that run at the same time begin in different places.
    let begin = (std::process::id() % u32::from(COUNT / 40)) as u16 * 40;
    (0..COUNT)
        .map(|_| begin.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) % COUNT + FIRST)
        .find(|port| is_free(*port))
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .expect("20,000 ports of the loopback interface are in use")
}

/// Whether nobody listens at the port, on IPv4 and IPv6.
fn is_free(port: u16) -> bool {
    let v6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    // Where there is no IPv6, IPv4 alone counts.
    let taken = v6.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::AddrInUse);
    drop(v6);
    !taken && TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_in_use_is_not_given() {
        let first = free_address();
        assert!((FIRST..FIRST + COUNT).contains(&first.port()), "{first}");
        let _taken = TcpListener::bind(first).expect("it is free");
        assert!(!is_free(first.port()));
        assert_ne!(free_address(), first);
    }
}
