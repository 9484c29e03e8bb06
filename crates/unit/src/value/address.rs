//! Where a socket listens (systemd.socket(5), ListenStream= and its relatives).

use super::fault::Fault;
use super::paths::path;
use crate::config::{Address, Listen, ListenKind};

/// The longest path of an AF_UNIX socket, in bytes (unix(7), without its terminator).
const UNIX_PATH_BYTES_MAX: usize = 107;

/// The path that is meant: what was below /var/run once is below /run, and who goes there does so
/// through a link.
pub fn below_run(path: &str) -> &str {
    match path.starts_with("/var/run/") {
        true => &path["/var".len()..],
        false => path,
    }
}

/// The address of one Listen*= setting.
pub fn listen_address(kind: ListenKind, text: &str) -> Result<Listen, Fault> {
    let address = match kind {
        ListenKind::Stream | ListenKind::Datagram | ListenKind::SequentialPacket => {
            socket_address(text)?
        }
        ListenKind::Netlink => netlink_address(text)?,
        ListenKind::Fifo
        | ListenKind::Special
        | ListenKind::MessageQueue
        | ListenKind::UsbFunction => Address::Path(path(text)?.into()),
    };
    let is_ip = matches!(address, Address::Port(_) | Address::Ipv4(..) | Address::Ipv6(..));
    if kind == ListenKind::SequentialPacket && is_ip {
        return Err(Fault::new(
            0,
            format!("'{text}': ListenSequentialPacket= takes no IP address"),
        ));
    }
    Ok(Listen { kind, address })
}

fn socket_address(text: &str) -> Result<Address, Fault> {
    let bad = || Fault::new(0, format!("'{text}' is not an address to listen on"));
    let too_long = text.len() > UNIX_PATH_BYTES_MAX;
    match text.as_bytes().first() {
        Some(b'/' | b'@') if too_long => {
            let message = format!("a socket's path has at most {UNIX_PATH_BYTES_MAX} bytes");
            Err(Fault::new(0, message))
        }
        Some(b'/') => Ok(Address::Unix(text.into())),
        Some(b'@') => Ok(Address::Abstract(text[1..].into())),
        Some(b'[') => ipv6(text).ok_or_else(bad),
        _ => match text.strip_prefix("vsock:") {
            Some(rest) => vsock(rest).ok_or_else(bad),
            None => port_or_ipv4(text).ok_or_else(bad),
        },
    }
}

fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&p| digits && p > 0)
}

/// `[x]:y` or `[x]:y%scope`.
fn ipv6(text: &str) -> Option<Address> {
    let (address, rest) = text.strip_prefix('[')?.split_once("]:")?;
    let (number, scope) = match rest.split_once('%') {
        Some((number, scope)) if !scope.is_empty() => (number, Some(scope.into())),
        Some(_) => return None,
        None => (rest, None),
    };
    Some(Address::Ipv6(address.parse().ok()?, port(number)?, scope))
}

/// `cid:port`, where an empty cid is any.
fn vsock(text: &str) -> Option<Address> {
    let (cid, port) = text.split_once(':')?;
    let cid = if cid.is_empty() { None } else { Some(cid.parse().ok()?) };
    Some(Address::Vsock { cid, port: port.parse().ok()? })
}

fn port_or_ipv4(text: &str) -> Option<Address> {
    match text.split_once(':') {
        Some((address, number)) => Some(Address::Ipv4(address.parse().ok()?, port(number)?)),
        None => port(text).map(Address::Port),
    }
}

/// The families of netlink(7), as systemd spells them, and their numbers (linux/netlink.h).
const NETLINK_FAMILIES: &[(&str, u32)] = &[
    ("route", 0),
    ("firewall", 3),
    ("inet-diag", 4),
    ("nflog", 5),
    ("xfrm", 6),
    ("selinux", 7),
    ("iscsi", 8),
    ("audit", 9),
    ("fib-lookup", 10),
    ("connector", 11),
    ("netfilter", 12),
    ("ip6-fw", 13),
    ("dnrtmsg", 14),
    ("kobject-uevent", 15),
    ("generic", 16),
    ("scsitransport", 18),
    ("ecryptfs", 19),
    ("rdma", 20),
];

/// `family` or `family group`.
pub fn netlink_address(text: &str) -> Result<Address, Fault> {
    let bad = || Fault::new(0, format!("'{text}' is not a netlink family and group"));
    let (family, group) = text.split_once(' ').unwrap_or((text, "0"));
    let (_, protocol) =
        NETLINK_FAMILIES.iter().find(|(name, _)| *name == family).ok_or_else(bad)?;
    let group = group.trim().parse().map_err(|_| bad())?;
    Ok(Address::Netlink { family: family.into(), protocol: *protocol, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: ListenKind, text: &str, want: &str) {
        let got = match listen_address(kind, text) {
            Ok(listen) => format!("{:?}", listen.address),
            Err(_) => "!".to_owned(),
        };
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn addresses_by_kind() {
        use ListenKind::{Fifo, Netlink, SequentialPacket, Stream};
        check(Stream, "/run/x", "Unix(\"/run/x\")");
        check(Stream, "@x", "Abstract(\"x\")");
        check(Stream, "80", "Port(80)");
        check(Stream, "127.0.0.1:80", "Ipv4(127.0.0.1, 80)");
        check(Stream, "[::1]:80", "Ipv6(::1, 80, None)");
        check(Stream, "[fe80::1]:80%eth0", "Ipv6(fe80::1, 80, Some(\"eth0\"))");
        check(Stream, "vsock::1", "Vsock { cid: None, port: 1 }");
        check(Stream, "vsock:2:1", "Vsock { cid: Some(2), port: 1 }");
        for bad in ["", "0", "99999", "foo:1", "1.2.3.4", "::1:80", "+80", "[::1]", "vsock:x:1"] {
            check(Stream, bad, "!");
        }
        check(SequentialPacket, "80", "!");
        check(SequentialPacket, "/run/x", "Unix(\"/run/x\")");
        check(Fifo, "/run//x/", "Path(\"/run/x\")");
        check(Fifo, "x", "!");
        check(
            Netlink,
            "kobject-uevent 1",
            "Netlink { family: \"kobject-uevent\", protocol: 15, group: 1 }",
        );
        check(Netlink, "audit", "Netlink { family: \"audit\", protocol: 9, group: 0 }");
        check(Netlink, "foo", "!");
        check(Stream, &format!("/{}", "x".repeat(107)), "!");
    }
}
