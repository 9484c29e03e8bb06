//! Listening sockets: opened by their units' settings, kept by init over restarts of the manager.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_core::ids::UnitId;
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::fdpass;
use warren_sys::passwd::Database;
use warren_sys::socket::{self, Ipv6Only, Kind, SocketOptions, Timestamps};
use warren_unit::config::{
    Address, BindIpv6Only, Listen, ListenKind, SocketConfig, SocketProtocol, Timestamping,
};

/// One open socket or FIFO.
pub struct Open {
    /// It.
    pub fd: OwnedFd,
    /// The name that services know it by.
    pub name: String,
}

/// All open sockets, by unit.
#[derive(Default)]
pub struct Sockets {
    open: BTreeMap<UnitId, Vec<Open>>,
    /// Those in which traffic is looked for.
    watched: BTreeSet<UnitId>,
}

/// Removes what a socket is known by in the file system, if it is; what is not there is gone already.
fn remove_path(listen: &Listen) {
    let Some(path) = path_of(&listen.address) else { return };
    let _ = match listen.kind {
        ListenKind::Special => Ok(()),
        ListenKind::MessageQueue => socket::remove_message_queue(path),
        _ => socket::remove_file(path),
    };
}

/// The name under which init keeps a socket.
pub fn stored_name(unit: &str, index: usize) -> String {
    format!("socket/{unit}/{index}")
}

/// The unit and index of such a name.
pub fn parse_stored_name(name: &str) -> Option<(&str, usize)> {
    let (unit, index) = name.strip_prefix("socket/")?.rsplit_once('/')?;
    Some((unit, index.parse().ok()?))
}

impl Sockets {
    /// Opens everything that the unit lists. On a failure nothing stays open.
    pub fn open(&mut self, unit: UnitId, name: &str, config: &SocketConfig) -> Result<u16, String> {
        if let Some(open) = self.open.get(&unit) {
            return Ok(open.len() as u16);
        }
        let options = options(config)?;
        let fd_name = config.fd_name.as_deref().unwrap_or(name).to_owned();
        let mut open = Vec::with_capacity(config.listen.len());
        for listen in &config.listen {
            let fd = open_one(listen, config, &options)?;
            open.push(Open { fd, name: fd_name.clone() });
        }
        for link in &config.symlinks {
            let target = config.listen.iter().find_map(|l| path_of(&l.address));
            if let Some(target) = target {
                socket::make_symlink(target, link, config.directory_mode)
                    .map_err(|e| e.to_string())?;
            }
        }
        let count = open.len() as u16;
        self.open.insert(unit, open);
        Ok(count)
    }

    /// Takes up a socket that init kept.
    pub fn take_up(&mut self, unit: UnitId, fd: OwnedFd, name: String) {
        self.open.entry(unit).or_default().push(Open { fd, name });
    }

    /// Takes note whether traffic is looked for in a unit's sockets; false if that is as it was.
    pub fn set_watched(&mut self, unit: UnitId, on: bool) -> bool {
        match on {
            true => self.watched.insert(unit),
            false => self.watched.remove(&unit),
        }
    }

    /// What is open for a unit.
    pub fn get(&self, unit: UnitId) -> &[Open] {
        self.open.get(&unit).map_or(&[], |open| open)
    }

    /// Closes a unit's sockets; returns the indices of those that init is to close too. If it `ends`
    /// soon by itself, those who connect are refused without it. What `remove` lists is removed.
    pub fn close(&mut self, unit: UnitId, remove: Option<&SocketConfig>, ends: bool) -> Vec<usize> {
        self.watched.remove(&unit);
        let open = self.open.remove(&unit).unwrap_or_default();
        let refuses: Vec<bool> =
            open.iter().map(|open| ends && socket::is_listening(open.fd.as_fd())).collect();
        let closed = open.iter().zip(&refuses).filter(|(_, refuses)| **refuses);
        closed.for_each(|(open, _)| fdpass::hang_up(open.fd.as_fd()));
        if let Some(config) = remove {
            let listed = config.listen.iter().filter(|_| !open.is_empty());
            listed.for_each(remove_path);
            config.symlinks.iter().for_each(|link| _ = socket::remove_file(link));
        }
        (0..open.len()).filter(|&index| !refuses[index]).collect()
    }

    /// The names and descriptors that a service gets from these socket units, in order.
    pub fn for_service(&self, units: &[UnitId]) -> Vec<(String, BorrowedFd<'_>)> {
        let all = units.iter().flat_map(|unit| self.get(*unit));
        all.map(|open| (open.name.clone(), open.fd.as_fd())).collect()
    }
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
            Some(database.user(name).ok_or_else(|| format!("SocketUser={name}: no such user"))?)
        }
        None => None,
    };
    let group = match config.socket_group.as_deref() {
        Some(name) => Some(
            database.group(name).ok_or_else(|| format!("SocketGroup={name}: no such group"))?.gid,
        ),
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
        pass_packet_info: config.pass_packet_info,
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
) -> Result<OwnedFd, String> {
    let kind = match listen.kind {
        ListenKind::Stream => Kind::Stream,
        ListenKind::Datagram => Kind::Datagram,
        ListenKind::SequentialPacket => Kind::SeqPacket,
        ListenKind::Fifo => {
            let path = path_of(&listen.address).unwrap_or_default();
            return socket::open_fifo(path, options).map(|l| l.fd).map_err(|e| e.to_string());
        }
        ListenKind::Netlink => {
            let Address::Netlink { protocol, group, .. } = listen.address else {
                return Err("no netlink address".to_owned());
            };
            let opened = socket::open_netlink(protocol, group, options);
            return opened.map(|l| l.fd).map_err(|e| e.to_string());
        }
        ListenKind::Special => {
            let path = path_of(&listen.address).unwrap_or_default();
            let opened = socket::open_special(path, config.writable).map_err(|e| e.to_string())?;
            let events = Epoll::new().and_then(|epoll| epoll.add(&opened.fd, 0, Interest::READ));
            events.map_err(|e| format!("{path} does not tell when there is something: {e}"))?;
            return Ok(opened.fd);
        }
        ListenKind::MessageQueue => {
            let name = path_of(&listen.address).unwrap_or_default();
            let sizes = config.message_queue_max_messages.zip(config.message_queue_message_size);
            let opened = socket::open_message_queue(name, sizes, options);
            return opened.map(|l| l.fd).map_err(|e| e.to_string());
        }
        other => return Err(format!("{}= is not acted on by this version", other.as_str())),
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
        Address::Path(_) | Address::Netlink { .. } => return Err("no socket address".to_owned()),
    };
    socket::listen(kind, &address, options).map(|l| l.fd).map_err(|e| e.to_string())
}
