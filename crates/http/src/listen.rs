//! Where clients come in: sockets that the manager hands over, and our own.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use warren_sys::activation;
pub use warren_sys::socket::Address;
use warren_sys::socket::{Kind, SocketOptions, listen};

/// Where to listen: a port, an address with a port, or the path of a Unix socket.
///
/// # Errors
/// In words, where it is none of these.
pub fn parse_address(text: &str) -> Result<Address, String> {
    if text.starts_with('/') {
        return Ok(Address::Path(text.to_owned()));
    }
    if let Ok(port) = text.parse() {
        return Ok(Address::Port(port));
    }
    match text.parse() {
        Ok(SocketAddr::V4(address)) => Ok(Address::V4(address)),
        Ok(SocketAddr::V6(address)) => Ok(Address::V6(address)),
        Err(_) => Err(format!("{text}: neither a port, nor ADDRESS:PORT, nor a path")),
    }
}

/// All sockets to listen on.
///
/// # Errors
/// Where a socket cannot be bound.
pub fn open(addresses: &[Address]) -> warren_sys::Result<Vec<OwnedFd>> {
    let mut sockets: Vec<OwnedFd> =
        activation::descriptors().into_iter().map(|(_, fd)| fd).collect();
    for address in addresses {
        sockets.push(listen(Kind::Stream, address, &SocketOptions::default())?.fd);
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let cases = [
            ("19531", "Port(19531)"),
            ("127.0.0.1:80", "V4(127.0.0.1:80)"),
            ("[::1]:80", "V6([::1]:80)"),
            ("/run/x", "Path(\"/run/x\")"),
        ];
        for (text, expected) in cases {
            assert_eq!(format!("{:?}", parse_address(text).expect(text)), expected);
        }
        for bad in ["", "x", "127.0.0.1", "70000", "::1:x"] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
    }
}
