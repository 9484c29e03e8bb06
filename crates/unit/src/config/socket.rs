//! \[Socket\] (systemd.socket(5)).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::{CgroupConfig, Command, ExecConfig, KillConfig};
use crate::name::UnitName;

words! {
    /// Which Listen*= setting a socket came from.
    ListenKind {
        /// SOCK_STREAM
        Stream = "ListenStream",
        /// SOCK_DGRAM
        Datagram = "ListenDatagram",
        /// SOCK_SEQPACKET
        SequentialPacket = "ListenSequentialPacket",
        /// A FIFO in the file system.
        Fifo = "ListenFIFO",
        /// A special file in the file system.
        Special = "ListenSpecial",
        /// A netlink family.
        Netlink = "ListenNetlink",
        /// A POSIX message queue.
        MessageQueue = "ListenMessageQueue",
        /// A USB FunctionFS endpoint directory.
        UsbFunction = "ListenUSBFunction",
    }
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system; absolute.
    Unix(Box<str>),
    /// A socket in the abstract namespace, without its `@`.
    Abstract(Box<str>),
    /// A port of every address: IPv6 (and by it IPv4, see BindIPv6Only=) where the kernel has
    /// it, else IPv4.
    Port(u16),
    /// IPv4
    Ipv4(Ipv4Addr, u16),
    /// IPv6, with the name of the interface of a `%scope`.
    Ipv6(Ipv6Addr, u16, Option<Box<str>>),
    /// AF_VSOCK; a context id of `None` is any.
    Vsock {
        /// Context id.
        cid: Option<u32>,
        /// Port.
        port: u32,
    },
    /// The path of a FIFO, special file, message queue or endpoint directory.
    Path(Box<str>),
    /// A netlink family and its multicast group.
    Netlink {
        /// Family, by the names of systemd.socket(5).
        family: Box<str>,
        /// Its number, linux/netlink.h.
        protocol: u32,
        /// Group, 0 is none.
        group: u32,
    },
}

/// As systemctl shows it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) | Address::Path(path) => f.write_str(path),
            Address::Abstract(name) => write!(f, "@{name}"),
            Address::Port(port) => write!(f, "[::]:{port}"),
            Address::Ipv4(ip, port) => write!(f, "{ip}:{port}"),
            Address::Ipv6(ip, port, None) => write!(f, "[{ip}]:{port}"),
            Address::Ipv6(ip, port, Some(scope)) => write!(f, "[{ip}]:{port}%{scope}"),
            Address::Vsock { cid: Some(cid), port } => write!(f, "vsock:{cid}:{port}"),
            Address::Vsock { cid: None, port } => write!(f, "vsock::{port}"),
            Address::Netlink { family, group, .. } => write!(f, "{family} {group}"),
        }
    }
}

/// One Listen*= line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// What is opened.
    pub kind: ListenKind,
    /// Where.
    pub address: Address,
}

words! {
    /// BindIPv6Only=
    BindIpv6Only {
        /// As /proc/sys/net/ipv6/bindv6only says.
        Default = "default",
        /// IPv4 too.
        Both = "both",
        /// IPv6 only.
        Ipv6Only = "ipv6-only",
    }
}

words! {
    /// Timestamping=
    Timestamping {
        /// None.
        Off = "off",
        /// SO_TIMESTAMP
        Us = "us",
        /// SO_TIMESTAMPNS
        Ns = "ns",
    }
}

words! {
    /// SocketProtocol=
    SocketProtocol {
        /// UDP-Lite
        UdpLite = "udplite",
        /// SCTP
        Sctp = "sctp",
        /// MPTCP
        Mptcp = "mptcp",
    }
}

/// How often traffic may start something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TriggerLimit {
    /// TriggerLimitIntervalSec=; zero switches the limit off.
    pub interval: Duration,
    /// TriggerLimitBurst=, the default of Accept= applied; zero switches the limit off.
    pub burst: u32,
}

/// An extended attribute of a socket (xattr(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedAttribute {
    /// Its name, which begins with `user.`.
    pub name: Box<str>,
    /// Its value.
    pub value: Box<str>,
}

/// One socket unit, ready to listen. `None` leaves a socket option as the kernel has it.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketConfig {
    /// Listen*= in the order of the file; handed over in this order.
    pub listen: Vec<Listen>,
    /// SocketProtocol=
    pub protocol: Option<SocketProtocol>,
    /// BindIPv6Only=
    pub bind_ipv6_only: BindIpv6Only,
    /// Backlog=
    pub backlog: u32,
    /// BindToDevice=
    pub bind_to_device: Option<Box<str>>,
    /// SocketUser=
    pub socket_user: Option<Box<str>>,
    /// SocketGroup=
    pub socket_group: Option<Box<str>>,
    /// SocketMode=
    pub socket_mode: u32,
    /// DirectoryMode=
    pub directory_mode: u32,
    /// Accept=: one service instance per connection.
    pub accept: bool,
    /// Writable=, for ListenSpecial=.
    pub writable: bool,
    /// FlushPending=
    pub flush_pending: bool,
    /// MaxConnections=
    pub max_connections: u32,
    /// MaxConnectionsPerSource=, of one IP address; `None`, and 0 in the file, is as `max_connections`.
    pub max_connections_per_source: Option<u32>,
    /// KeepAlive=
    pub keep_alive: bool,
    /// KeepAliveTimeSec=
    pub keep_alive_time: Option<Duration>,
    /// KeepAliveIntervalSec=
    pub keep_alive_interval: Option<Duration>,
    /// KeepAliveProbes=
    pub keep_alive_probes: Option<u32>,
    /// NoDelay=
    pub no_delay: bool,
    /// Priority=
    pub priority: Option<i32>,
    /// DeferAcceptSec=
    pub defer_accept: Option<Duration>,
    /// ReceiveBuffer=, bytes.
    pub receive_buffer: Option<u64>,
    /// SendBuffer=, bytes.
    pub send_buffer: Option<u64>,
    /// IPTOS=
    pub ip_tos: Option<u8>,
    /// IPTTL=
    pub ip_ttl: Option<u8>,
    /// Mark=
    pub mark: Option<u32>,
    /// ReusePort=
    pub reuse_port: bool,
    /// PipeSize=, bytes.
    pub pipe_size: Option<u64>,
    /// MessageQueueMaxMessages=
    pub message_queue_max_messages: Option<u64>,
    /// MessageQueueMessageSize=
    pub message_queue_message_size: Option<u64>,
    /// FreeBind=
    pub free_bind: bool,
    /// Transparent=
    pub transparent: bool,
    /// Broadcast=
    pub broadcast: bool,
    /// PassCredentials=
    pub pass_credentials: bool,
    /// PassSecurity=
    pub pass_security: bool,
    /// PassPIDFD=
    pub pass_pidfd: bool,
    /// XAttrEntryPoint=
    pub xattr_entry_point: Vec<ExtendedAttribute>,
    /// XAttrListen=
    pub xattr_listen: Vec<ExtendedAttribute>,
    /// XAttrAccept=
    pub xattr_accept: Vec<ExtendedAttribute>,
    /// AcceptFileDescriptors=no: the kernel refuses them.
    pub refuse_fds: bool,
    /// PassPacketInfo=
    pub pass_packet_info: bool,
    /// Timestamping=
    pub timestamping: Timestamping,
    /// TCPCongestion=
    pub tcp_congestion: Option<Box<str>>,
    /// ExecStartPre=
    pub exec_start_pre: Vec<Command>,
    /// ExecStartPost=
    pub exec_start_post: Vec<Command>,
    /// ExecStopPre=
    pub exec_stop_pre: Vec<Command>,
    /// ExecStopPost=
    pub exec_stop_post: Vec<Command>,
    /// TimeoutSec= of those commands.
    pub timeout: Option<Duration>,
    /// The service it starts; a template's instances with Accept=yes.
    pub service: Option<UnitName>,
    /// RemoveOnStop=
    pub remove_on_stop: bool,
    /// Symlinks=
    pub symlinks: Vec<Box<str>>,
    /// FileDescriptorName=; the unit's name without one.
    pub fd_name: Option<Box<str>>,
    /// TriggerLimitIntervalSec=, TriggerLimitBurst=
    pub trigger_limit: TriggerLimit,
    /// PollLimitIntervalSec=, PollLimitBurst=: how often traffic is looked for in one of its sockets; `None` is no limit.
    pub poll_limit: Option<TriggerLimit>,
    /// PassFileDescriptorsToExec=: commands behind ExecStartPre= are handed its sockets.
    pub pass_fds_to_exec: bool,
    /// Environment of its commands.
    pub exec: Box<ExecConfig>,
    /// How its commands are stopped.
    pub kill: KillConfig,
    /// Limits of its commands.
    pub cgroup: Box<CgroupConfig>,
}
