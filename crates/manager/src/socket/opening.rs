//! Opening what a socket unit listens at, and removing it again: system calls alone, for the loop or for a
//! thread beside it.

use std::net::{SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use warren_sys::epoll::{Epoll, Interest};
use warren_sys::file;
use warren_sys::passwd::Database;
use warren_sys::socket::{self, Ipv6Only, Kind, Listening, SocketOptions, Timestamps};
use warren_unit::config::{
    Address, BindIpv6Only, ExtendedAttribute, Listen, ListenKind, SocketConfig, SocketProtocol,
    Timestamping,
};

/// What a unit's settings have had opened.
#[derive(Default)]
pub struct Opened {
    /// In the order of the settings.
    pub fds: Vec<OwnedFd>,
    /// Options that the kernel has refused and links that could not be made, which is no reason not to listen.
    pub refused: Vec<String>,
}

/// Opens everything that the settings list. On a failure nothing stays open.
pub fn open_all(config: &SocketConfig) -> Result<Opened, String> {
    let options = options(config)?;
    let mut opened = Opened::default();
    for listen in &config.listen {
        let Listening { fd, refused } = open_one(listen, config, &options)?;
        opened.refused.extend(refused.iter().map(ToString::to_string));
        opened.refused.extend(mark(listen, config, fd.as_fd()));
        opened.fds.push(fd);
    }
    if let Some(target) = paths(config).next() {
        for link in &config.symlinks {
            let made = socket::make_symlink(target, link, config.directory_mode);
            opened.refused.extend(made.err().map(|e| e.to_string()));
        }
    }
    Ok(opened)
}

/// Sets the extended attributes of what was opened. Returned are those that the kernel refuses.
fn mark(listen: &Listen, config: &SocketConfig, fd: BorrowedFd<'_>) -> Vec<String> {
    let is_socket = !matches!(
        listen.kind,
        ListenKind::Fifo | ListenKind::Special | ListenKind::MessageQueue | ListenKind::UsbFunction
    );
    if !is_socket {
        return Vec::new();
    }
    let mut refused = mark_socket(fd, "XAttrListen", &config.xattr_listen);
    if let Address::Unix(path) = &listen.address {
        let set = |name: &str, value: &str| socket::set_attribute_of_file(path, name, value);
        refused.extend(set_all("XAttrEntryPoint", &config.xattr_entry_point, set));
    }
    refused
}

/// Sets extended attributes of a socket, which a setting of this name lists. Returned are those that the kernel
/// refuses, in words.
pub fn mark_socket(
    fd: BorrowedFd<'_>,
    setting: &str,
    attributes: &[ExtendedAttribute],
) -> Vec<String> {
    set_all(setting, attributes, |name, value| socket::set_attribute(fd, name, value))
}

fn set_all(
    setting: &str,
    attributes: &[ExtendedAttribute],
    set: impl Fn(&str, &str) -> warren_sys::Result<()>,
) -> Vec<String> {
    let refusal = |one: &ExtendedAttribute| {
        let error = set(&one.name, &one.value).err()?;
        Some(format!("{setting}={} is not applied: {error}", one.name))
    };
    attributes.iter().filter_map(refusal).collect()
}

/// Removes the links, and what the sockets are `listed` by in the file system if they were open; what is
/// not there is gone already.
pub fn remove_all(config: &SocketConfig, listed: bool) {
    if listed {
        config.listen.iter().for_each(remove_path);
    }
    config.symlinks.iter().for_each(|link| _ = socket::remove_file(link));
}

fn remove_path(listen: &Listen) {
    let Some(path) = path_of(&listen.address) else { return };
    let _ = match listen.kind {
        ListenKind::Special => Ok(()),
        ListenKind::MessageQueue => socket::remove_message_queue(path),
        _ => socket::remove_file(path),
    };
}

/// Whether all of it is the kernel's or lies on the very file system of `runtime`, so that it can be
/// opened and removed without waiting for anybody.
pub fn is_near(config: &SocketConfig, runtime: &Path) -> bool {
    // Users and groups are looked up in files, or by a name service.
    let names = config.socket_user.is_some() || config.socket_group.is_some();
    let is_near = |path: &str| file::is_within(runtime, Path::new(path));
    let listens_near = |listen: &Listen| match listen.kind {
        ListenKind::MessageQueue => true,
        ListenKind::Special => false,
        _ => path_of(&listen.address).is_none_or(is_near),
    };
    !names
        && config.listen.iter().all(listens_near)
        && config.symlinks.iter().all(|link| is_near(link))
}

/// Where in the file system, or under which names of message queues, it is listened.
pub fn paths(config: &SocketConfig) -> impl Iterator<Item = &str> {
    config.listen.iter().filter_map(|listen| path_of(&listen.address))
}

/// Whether it is listened at anything that another socket may still have, as it is no path.
pub fn may_be_in_use(config: &SocketConfig) -> bool {
    config.listen.iter().any(|listen| path_of(&listen.address).is_none())
}

fn path_of(address: &Address) -> Option<&str> {
    match address {
        Address::Unix(path) | Address::Path(path) => Some(path),
        _ => None,
    }
}

fn options(config: &SocketConfig) -> Result<SocketOptions, String> {
    let owned = config.socket_user.is_some() || config.socket_group.is_some();
    let database =
        if owned { Database::read().map_err(|e| e.to_string())? } else { Database::default() };
    let user = match config.socket_user.as_deref() {
        Some(name) => {
            let user = database.find_user(name);
            Some(user.ok_or_else(|| format!("SocketUser={name}: no such user"))?)
        }
        None => None,
    };
    let group = match config.socket_group.as_deref() {
        Some(name) => {
            let group = database.find_group(name);
            Some(group.ok_or_else(|| format!("SocketGroup={name}: no such group"))?.gid)
        }
        None => user.as_ref().map(|user| user.gid),
    };
    let seconds = |d: Option<std::time::Duration>| d.map(|d| d.as_secs() as u32);
    let bytes = |n: Option<u64>| n.map(|n| n.min(i32::MAX as u64) as u32);
    Ok(SocketOptions {
        mode: config.socket_mode,
        uid: user.map(|user| user.uid),
        gid: group,
        directory_mode: config.directory_mode,
        backlog: config.backlog,
        ipv6_only: match config.bind_ipv6_only {
            BindIpv6Only::Default => Ipv6Only::Default,
            BindIpv6Only::Both => Ipv6Only::Both,
            BindIpv6Only::Ipv6Only => Ipv6Only::Ipv6Only,
        },
        device: config.bind_to_device.as_ref().map(|d| d.to_string()),
        keep_alive: config.keep_alive,
        keep_alive_time_s: seconds(config.keep_alive_time),
        keep_alive_interval_s: seconds(config.keep_alive_interval),
        keep_alive_probes: config.keep_alive_probes,
        no_delay: config.no_delay,
        priority: config.priority.and_then(|p| u32::try_from(p).ok()),
        defer_accept_s: seconds(config.defer_accept),
        receive_buffer: bytes(config.receive_buffer),
        send_buffer: bytes(config.send_buffer),
        ip_tos: config.ip_tos,
        ip_ttl: config.ip_ttl,
        mark: config.mark,
        reuse_port: config.reuse_port,
        free_bind: config.free_bind,
        transparent: config.transparent,
        broadcast: config.broadcast,
        pass_credentials: config.pass_credentials,
        pass_security: config.pass_security,
        pass_pidfd: config.pass_pidfd,
        pass_packet_info: config.pass_packet_info,
        refuse_fds: config.refuse_fds,
        timestamps: match config.timestamping {
            Timestamping::Off => None,
            Timestamping::Us => Some(Timestamps::Us),
            Timestamping::Ns => Some(Timestamps::Ns),
        },
        protocol: config.protocol.map(|protocol| match protocol {
            SocketProtocol::UdpLite => 136,
            SocketProtocol::Sctp => 132,
            SocketProtocol::Mptcp => 262,
        }),
        tcp_congestion: config.tcp_congestion.as_ref().map(|c| c.to_string()),
        pipe_size: bytes(config.pipe_size),
    })
}

fn open_one(
    listen: &Listen,
    config: &SocketConfig,
    options: &SocketOptions,
) -> Result<Listening, String> {
    let kind = match listen.kind {
        ListenKind::Stream => Kind::Stream,
        ListenKind::Datagram => Kind::Datagram,
        ListenKind::SequentialPacket => Kind::SeqPacket,
        ListenKind::Fifo => {
            let path = path_of(&listen.address).unwrap_or_default();
            return socket::open_fifo(path, options).map_err(|e| e.to_string());
        }
        ListenKind::Netlink => {
            let Address::Netlink { protocol, group, .. } = listen.address else {
                return Err("not a netlink address".to_owned());
            };
            return socket::open_netlink(protocol, group, options).map_err(|e| e.to_string());
        }
        ListenKind::Special => {
            let path = path_of(&listen.address).unwrap_or_default();
            let opened = socket::open_special(path, config.writable).map_err(|e| e.to_string())?;
            let events = Epoll::new().and_then(|epoll| epoll.add(&opened.fd, 0, Interest::READ));
            events.map_err(|e| format!("{path} cannot be watched for input: {e}"))?;
            return Ok(opened);
        }
        ListenKind::MessageQueue => {
            let name = path_of(&listen.address).unwrap_or_default();
            let sizes = config.message_queue_max_messages.zip(config.message_queue_message_size);
            let opened = socket::open_message_queue(name, sizes, options);
            return opened.map_err(|e| e.to_string());
        }
        other => return Err(format!("{}= is not supported by this version", other.as_str())),
    };
    let address = match &listen.address {
        Address::Unix(path) => socket::Address::Path(path.to_string()),
        Address::Abstract(name) => socket::Address::Abstract(name.as_bytes().to_vec()),
        Address::Port(port) => socket::Address::Port(*port),
        Address::Ipv4(ip, port) => socket::Address::V4(SocketAddrV4::new(*ip, *port)),
        Address::Ipv6(ip, port, interface) => {
            let scope = match interface {
                Some(name) => socket::interface_index(name).map_err(|e| e.to_string())?,
                None => 0,
            };
            socket::Address::V6(SocketAddrV6::new(*ip, *port, 0, scope))
        }
        Address::Vsock { cid, port } => {
            socket::Address::Vsock { cid: cid.unwrap_or(u32::MAX), port: *port }
        }
        Address::Path(_) | Address::Netlink { .. } => return Err("not a socket address".to_owned()),
    };
    socket::listen(kind, &address, options).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use warren_unit::compile::Compiler;
    use warren_unit::load::Sources;
    use warren_unit::parse::parse;
    use warren_unit::{Context, Defaults, UnitName};

    /// What comes of a socket unit: how many descriptors, and how many links that could not be made.
    fn open(text: &str) -> (usize, usize) {
        let name = UnitName::parse("a.socket").expect("a name");
        let file = Arc::new(parse("f".into(), text.as_bytes(), name.unit_type()).0);
        let sources = Sources { fragment: Some(&file), ..Sources::default() };
        let (context, defaults) = (Context::system(), Defaults::default());
        let compiler =
            Compiler { name: &name, sources: &sources, context: &context, defaults: &defaults };
        let opened = open_all(&compiler.socket().0).expect("it listens");
        (opened.fds.len(), opened.refused.len())
    }

    #[test]
    fn a_link_that_cannot_be_made_is_no_reason_not_to_listen() {
        let scratch = std::env::temp_dir().join(format!("warren-links-{}", std::process::id()));
        std::fs::create_dir_all(scratch.join("taken")).expect("a scratch directory can be made");
        let dir = scratch.display();
        let text = |place: &str, links: &str| {
            format!("[Socket]\nListenStream={dir}/{place}\nSymlinks={links}\n")
        };
        let links = format!("{dir}/taken {dir}/good {dir}/taken/none/");
        assert_eq!(open(&text("s", &links)), (1, 2));
        // A new version listens elsewhere, and a link is where the old one did; and back.
        for (place, links) in [("new", format!("{dir}/s")), ("s", format!("{dir}/new"))] {
            assert_eq!(open(&text(place, &links)), (1, 0), "{place}");
        }
        let leads_to = std::fs::read_link(scratch.join("new")).expect("a link");
        assert_eq!(leads_to, scratch.join("s"));
        let _ = std::fs::remove_dir_all(&scratch);
    }
}
