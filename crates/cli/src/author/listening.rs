//! Where processes listen, as `/proc` says: sockets of their network namespaces that they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// States of sockets in `/proc/net/tcp` and `/proc/net/udp` (include/net/tcp_states.h): one that listens, and one that
/// takes datagrams from any sender.
const TCP_LISTEN: u64 = 0x0a;
const UDP_UNCONNECTED: u64 = 0x07;

/// The flag of a listening socket and the type of one for datagrams in `/proc/net/unix` (include/uapi/linux/net.h).
const UNIX_LISTENS: u64 = 0x1_0000;
const UNIX_DATAGRAM: u64 = 2;

/// An address at which a process listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Listening {
    /// TCP; port 0 is one that the kernel chose.
    Tcp(SocketAddr),
    /// UDP at a port that was named.
    Udp(SocketAddr),
    /// A path or, with `@`, a name without a file.
    Unix(String),
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listening::Tcp(address) if address.port() == 0 => {
                write!(f, "TCP {}, a port of the kernel's choice", address.ip())
            }
            Listening::Tcp(address) => write!(f, "TCP {address}"),
            Listening::Udp(address) => write!(f, "UDP {address}"),
            Listening::Unix(path) => f.write_str(path),
        }
    }
}

/// Where these processes listen. `proc` is a `/proc` that has them by these numbers, `ports` are those that they chose
/// themselves: of two runs the others differ.
pub(super) fn of(proc: &Path, processes: &[i32], ports: &BTreeSet<u16>) -> BTreeSet<Listening> {
    let mut out = BTreeSet::new();
    for process in processes {
        let process = proc.join(process.to_string());
        let held = held_sockets(&process.join("fd"));
        if held.is_empty() {
            continue;
        }
        let table = |name: &str| fs::read_to_string(process.join("net").join(name));
        let all = ["tcp", "tcp6", "udp", "udp6", "unix"].into_iter().filter_map(|name| {
            let table = table(name).ok()?;
            Some(if name == "unix" { parse_unix(&table) } else { parse_internet(name, &table) })
        });
        let own = all.flatten().filter(|(inode, _)| held.contains(inode)).map(|(_, at)| at);
        out.extend(own.filter_map(|at| comparable(at, ports)));
    }
    out
}

/// Inodes of the sockets that a process has descriptors of.
fn held_sockets(directory: &Path) -> BTreeSet<u64> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let inode = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.filter_map(inode).collect()
}

/// An address without what is another one in each run; nothing if all of it is.
fn comparable(at: Listening, ports: &BTreeSet<u16>) -> Option<Listening> {
    match at {
        Listening::Tcp(mut address) => {
            if !ports.contains(&address.port()) {
                address.set_port(0);
            }
            Some(Listening::Tcp(address))
        }
        // Who asks a name server has such a socket, too.
        Listening::Udp(address) => {
            ports.contains(&address.port()).then_some(Listening::Udp(address))
        }
        unix => Some(unix),
    }
}

/// The sockets of `/proc/net/tcp` and its like (proc_pid_net(5)) that listen, by their inodes.
fn parse_internet(name: &str, table: &str) -> BTreeMap<u64, Listening> {
    let is_tcp = name.starts_with("tcp");
    let wanted = if is_tcp { TCP_LISTEN } else { UDP_UNCONNECTED };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let state = u64::from_str_radix(words.get(3)?, 16).ok()?;
        let address = parse_address(words.get(1)?).filter(|_| state == wanted)?;
        let at = if is_tcp { Listening::Tcp(address) } else { Listening::Udp(address) };
        Some((words.get(9)?.parse().ok()?, at))
    };
    table.lines().skip(1).filter_map(line).collect()
}

/// An address as words of 32 bits in hexadecimal digits, each in the byte order of this machine, and a port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The sockets of `/proc/net/unix` with a name that others can send to, by their inodes.
fn parse_unix(table: &str) -> BTreeMap<u64, Listening> {
    let line = |line: &str| {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let flags = u64::from_str_radix(words.nth(3)?, 16).ok()?;
        let kind = u64::from_str_radix(words.next()?, 16).ok()?;
        let inode: u64 = words.nth(1)?.parse().ok()?;
        let (_, path) = line.split_once(&format!(" {inode} "))?;
        // A name without a file may be one that the kernel chose.
        let takes = flags & UNIX_LISTENS != 0 || kind == UNIX_DATAGRAM && path.starts_with('/');
        takes.then(|| (inode, Listening::Unix(path.to_owned())))
    };
    table.lines().skip(1).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(all: BTreeMap<u64, Listening>) -> Vec<String> {
        all.into_iter().map(|(inode, at)| format!("{inode} {at}")).collect()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn tables_of_the_internet_are_read() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0000000000000000 100 0 0 10 0
   1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 42 1 0000000000000000 20 4 30 10 -1
rubbish
   2: 00000000:00";
        assert_eq!(shown(parse_internet("tcp", tcp)), ["41 TCP 127.0.0.1:8080"]);
        let six = "head\n 0: 00000000000000000000000001000000:0050 0:0 07 0:0 0:0 0 0 0 7 2 0 0";
        assert_eq!(shown(parse_internet("udp6", six)), ["7 UDP [::1]:80"]);
        assert_eq!(shown(parse_internet("tcp6", six)), Vec::<String>::new());
        for end in 0..six.len() {
            parse_internet("udp6", &six[..end]);
        }
    }

    #[test]
    fn named_sockets_of_the_file_system_are_read() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01    11 /run/a b.sock
0000000000000000: 00000002 00000000 00010000 0001 01 12 @name
0000000000000000: 00000002 00000000 00000000 0002 01 13 /run/log
0000000000000000: 00000002 00000000 00000000 0002 01 14 @0001f
0000000000000000: 00000003 00000000 00000000 0001 03 15
0000000000000000: 00000003 00000000 00000000 0001 03 16 /run/a b.sock";
        assert_eq!(shown(parse_unix(table)), ["11 /run/a b.sock", "12 @name", "13 /run/log"]);
        for end in 0..table.len() {
            parse_unix(&table[..end]);
        }
    }

    #[test]
    fn ports_that_the_kernel_chose_are_all_the_same() {
        let check = |at: Listening, expected: Option<&str>| {
            let got = comparable(at, &BTreeSet::from([80])).map(|at| at.to_string());
            assert_eq!(got.as_deref(), expected);
        };
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        check(Listening::Tcp(at(80)), Some("TCP 127.0.0.1:80"));
        check(Listening::Tcp(at(40_000)), Some("TCP 127.0.0.1, a port of the kernel's choice"));
        check(Listening::Udp(at(80)), Some("UDP 127.0.0.1:80"));
        check(Listening::Udp(at(40_000)), None);
    }

    #[test]
    fn own_sockets_are_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = socket.local_addr().expect("it is bound");
        let own = [std::process::id() as i32];
        let found = of(Path::new("/proc"), &own, &BTreeSet::from([address.port()]));
        assert!(found.contains(&Listening::Tcp(address)), "{found:?}");
    }
}
