//! Sockets and FIFOs that services are started by: systemd.socket(5).
//!
//! Plain types of this crate's own; users and groups are numbers here.

use std::ffi::CString;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::net::sockopt::Timeout;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::{Context, Error, Result, check};

mod flush;
pub use flush::flush;

/// ListenStream=, ListenDatagram=, ListenSequentialPacket=.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// SOCK_STREAM.
    Stream,
    /// SOCK_DGRAM.
    Datagram,
    /// SOCK_SEQPACKET.
    SeqPacket,
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket file; absolute path.
    Path(String),
    /// A name in the abstract namespace, without the `@`.
    Abstract(Vec<u8>),
    /// A port on all addresses: IPv6 with IPv4 inside, or IPv4 where there is no IPv6.
    Port(u16),
    /// An IPv4 address.
    V4(SocketAddrV4),
    /// An IPv6 address; the scope id is the interface's number.
    V6(SocketAddrV6),
    /// A VM socket; vsock(7). `u32::MAX` as cid: any.
    Vsock {
        /// Context id.
        cid: u32,
        /// Port.
        port: u32,
    },
}

/// BindIPv6Only=.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ipv6Only {
    /// As net.ipv6.bindv6only says.
    #[default]
    Default,
    /// IPv4, too.
    Both,
    /// IPv6 only.
    Ipv6Only,
}

/// Options; named as in systemd.socket(5). `None` leaves the kernel's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOptions {
    /// SocketMode=, for files.
    pub mode: u32,
    /// SocketUser=, for files.
    pub uid: Option<u32>,
    /// SocketGroup=, for files.
    pub gid: Option<u32>,
    /// DirectoryMode=, for missing parent directories.
    pub directory_mode: u32,
    /// Backlog=.
    pub backlog: u32,
    /// BindIPv6Only=.
    pub ipv6_only: Ipv6Only,
    /// BindToDevice=: a network interface.
    pub device: Option<String>,
    /// KeepAlive=.
    pub keep_alive: bool,
    /// KeepAliveTimeSec=, seconds.
    pub keep_alive_time_s: Option<u32>,
    /// KeepAliveIntervalSec=, seconds.
    pub keep_alive_interval_s: Option<u32>,
    /// KeepAliveProbes=.
    pub keep_alive_probes: Option<u32>,
    /// NoDelay=.
    pub no_delay: bool,
    /// Priority=.
    pub priority: Option<u32>,
    /// DeferAcceptSec=, seconds.
    pub defer_accept_s: Option<u32>,
    /// ReceiveBuffer=, bytes.
    pub receive_buffer: Option<u32>,
    /// SendBuffer=, bytes.
    pub send_buffer: Option<u32>,
    /// IPTOS=.
    pub ip_tos: Option<u8>,
    /// IPTTL=.
    pub ip_ttl: Option<u8>,
    /// Mark=.
    pub mark: Option<u32>,
    /// ReusePort=.
    pub reuse_port: bool,
    /// FreeBind=.
    pub free_bind: bool,
    /// Transparent=.
    pub transparent: bool,
    /// Broadcast=.
    pub broadcast: bool,
    /// PassCredentials=.
    pub pass_credentials: bool,
    /// PassSecurity=.
    pub pass_security: bool,
    /// PassPIDFD=; since Linux 6.5.
    pub pass_pidfd: bool,
    /// AcceptFileDescriptors=no, of Unix sockets; since Linux 6.16.
    pub refuse_fds: bool,
    /// PassPacketInfo=.
    pub pass_packet_info: bool,
    /// Timestamping=.
    pub timestamps: Option<Timestamps>,
    /// SocketProtocol=, by its number.
    pub protocol: Option<u32>,
    /// TCPCongestion=.
    pub tcp_congestion: Option<String>,
    /// PipeSize=, bytes, for FIFOs.
    pub pipe_size: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            mode: 0o666,
            uid: None,
            gid: None,
            directory_mode: 0o755,
            backlog: u32::MAX,
            ipv6_only: Ipv6Only::Default,
            device: None,
            keep_alive: false,
            keep_alive_time_s: None,
            keep_alive_interval_s: None,
            keep_alive_probes: None,
            no_delay: false,
            priority: None,
            defer_accept_s: None,
            receive_buffer: None,
            send_buffer: None,
            ip_tos: None,
            ip_ttl: None,
            mark: None,
            reuse_port: false,
            free_bind: false,
            transparent: false,
            broadcast: false,
            pass_credentials: false,
            pass_security: false,
            pass_pidfd: false,
            pass_packet_info: false,
            refuse_fds: false,
            timestamps: None,
            protocol: None,
            tcp_congestion: None,
            pipe_size: None,
        }
    }
}

/// Timestamping=: how exactly the kernel says when a packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamps {
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

/// A socket that listens.
#[derive(Debug)]
pub struct Listening {
    /// Non-blocking, close-on-exec.
    pub fd: OwnedFd,
    /// Options that the kernel refused: to be reported, no reason not to listen.
    pub refused: Vec<Error>,
}

/// A listening stream socket at a path, which only the user of this process can connect to.
pub fn listen_private(path: String) -> Result<OwnedFd> {
    listen_for_group(path, None)
}

/// The same for a socket that the members of a group may connect to as well.
pub fn listen_for_group(path: String, gid: Option<u32>) -> Result<OwnedFd> {
    let mode = if gid.is_some() { 0o660 } else { 0o600 };
    let options = SocketOptions { mode, gid, ..SocketOptions::default() };
    Ok(listen_at_once(Kind::Stream, path, &options)?.fd)
}

/// The same as [`listen`] at a path, which has the socket when it can be connected to and not before: between bind(2) and
/// listen(2) a client would be refused. The kernel goes on to show the name that it had until then.
pub fn listen_at_once(kind: Kind, path: String, options: &SocketOptions) -> Result<Listening> {
    let fresh = format!("{path}.fresh");
    let is_too_long = SocketAddrUnix::new(&*fresh).is_err();
    if kind == Kind::Datagram || is_too_long || is_directory(&path) {
        return listen(kind, &Address::Path(path), options);
    }
    let listening = listen(kind, &Address::Path(fresh.clone()), options)?;
    std::fs::rename(&fresh, &path).call_on("rename", &path)?;
    Ok(listening)
}

/// Makes a socket, sets its options, binds it and, unless it is for datagrams, listens.
pub fn listen(kind: Kind, address: &Address, options: &SocketOptions) -> Result<Listening> {
    let (fd, family) = create(kind, address, options.protocol)?;
    let mut refused = set_options(fd.as_fd(), family, kind, options);
    match address {
        Address::Path(path) => bind_path(&fd, path, options, &mut refused)?,
        Address::Abstract(name) => {
            let to = SocketAddrUnix::new_abstract_name(name).call("abstract name")?;
            rustix::net::bind(&fd, &to).call_on("bind", String::from_utf8_lossy(name).as_ref())?
        }
        Address::Port(port) if family == AddressFamily::INET6 => {
            bind_ip(&fd, SocketAddrV6::new(std::net::Ipv6Addr::UNSPECIFIED, *port, 0, 0).into())?
        }
        Address::Port(port) => {
            bind_ip(&fd, SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, *port).into())?
        }
        Address::V4(to) => bind_ip(&fd, (*to).into())?,
        Address::V6(to) => bind_ip(&fd, (*to).into())?,
        Address::Vsock { cid, port } => bind_vsock(&fd, *cid, *port)?,
    }
    if kind != Kind::Datagram {
        let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
        rustix::net::listen(&fd, backlog).call("listen")?;
    }
    Ok(Listening { fd, refused })
}

fn create(
    kind: Kind,
    address: &Address,
    protocol: Option<u32>,
) -> Result<(OwnedFd, AddressFamily)> {
    let family = match address {
        Address::Path(_) | Address::Abstract(_) => AddressFamily::UNIX,
        Address::V4(_) => AddressFamily::INET,
        Address::Port(_) | Address::V6(_) => AddressFamily::INET6,
        Address::Vsock { .. } => AddressFamily::from_raw(libc::AF_VSOCK as u16),
    };
    let is_ip = [AddressFamily::INET, AddressFamily::INET6].contains(&family);
    let protocol = protocol.filter(|_| is_ip);
    match (open(kind, family, protocol), address) {
        (Err(e), Address::Port(_)) if e.errno == libc::EAFNOSUPPORT => {
            Ok((open(kind, AddressFamily::INET, protocol)?, AddressFamily::INET))
        }
        (result, _) => Ok((result?, family)),
    }
}

fn open(kind: Kind, family: AddressFamily, protocol: Option<u32>) -> Result<OwnedFd> {
    let kind = match kind {
        Kind::Stream => SocketType::STREAM,
        Kind::Datagram => SocketType::DGRAM,
        Kind::SeqPacket => SocketType::SEQPACKET,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = protocol.and_then(std::num::NonZeroU32::new);
    let protocol = protocol.map(rustix::net::Protocol::from_raw);
    rustix::net::socket_with(family, kind, flags, protocol).call("socket")
}

// ---- options ----

/// One setsockopt(2): name for messages, level, option, value.
type IntOption = (&'static str, libc::c_int, libc::c_int, i64);

fn set_options(
    fd: BorrowedFd<'_>,
    family: AddressFamily,
    kind: Kind,
    options: &SocketOptions,
) -> Vec<Error> {
    let mut wanted = Vec::new();
    if family == AddressFamily::INET || family == AddressFamily::INET6 {
        wanted.extend(ip_options(options, family));
        if kind == Kind::Stream {
            wanted.extend(tcp_options(options));
        }
    }
    // Last, because setting the TOS changes the priority.
    wanted.extend(general_options(options));
    if options.refuse_fds && family == AddressFamily::UNIX {
        let option = crate::fdpass::SO_PASSRIGHTS;
        wanted.push(("AcceptFileDescriptors", libc::SOL_SOCKET, option, 0));
    }
    let set = |(name, level, option, value): &IntOption| {
        set_int(fd, level, option, *value).map_err(|errno| Error::new(name, errno)).err()
    };
    let mut refused: Vec<Error> = wanted.iter().filter_map(set).collect();
    refused.extend(set_buffers(fd, options));
    refused.extend(set_texts(fd, options));
    refused
}

fn general_options(o: &SocketOptions) -> Vec<IntOption> {
    use crate::fdpass::SO_PASSPIDFD;
    use libc::SOL_SOCKET as S;
    let on = |yes: bool, option: IntOption| yes.then_some(option);
    let value = |v: Option<u32>, name, option| v.map(|v| (name, S, option, i64::from(v)));
    [
        on(o.keep_alive, ("KeepAlive", S, libc::SO_KEEPALIVE, 1)),
        on(o.broadcast, ("Broadcast", S, libc::SO_BROADCAST, 1)),
        on(o.pass_credentials, ("PassCredentials", S, libc::SO_PASSCRED, 1)),
        on(o.pass_security, ("PassSecurity", S, libc::SO_PASSSEC, 1)),
        on(o.pass_pidfd, ("PassPIDFD", S, SO_PASSPIDFD, 1)),
        on(o.timestamps == Some(Timestamps::Us), ("Timestamping", S, libc::SO_TIMESTAMP, 1)),
        on(o.timestamps == Some(Timestamps::Ns), ("Timestamping", S, libc::SO_TIMESTAMPNS, 1)),
        on(o.reuse_port, ("ReusePort", S, libc::SO_REUSEPORT, 1)),
        value(o.priority, "Priority", libc::SO_PRIORITY),
        value(o.mark, "Mark", libc::SO_MARK),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn ip_options(o: &SocketOptions, family: AddressFamily) -> Vec<IntOption> {
    const IPV6_TRANSPARENT: libc::c_int = 75;
    const IPV6_FREEBIND: libc::c_int = 78;
    use libc::{IPPROTO_IP as V4, IPPROTO_IPV6 as V6};
    let v6 = family == AddressFamily::INET6;
    let mut wanted = vec![("reuse address", libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)];
    if o.free_bind {
        wanted.push(("FreeBind", V4, libc::IP_FREEBIND, 1));
        wanted.extend(v6.then_some(("FreeBind", V6, IPV6_FREEBIND, 1)));
    }
    if o.transparent {
        wanted.push(("Transparent", V4, libc::IP_TRANSPARENT, 1));
        wanted.extend(v6.then_some(("Transparent", V6, IPV6_TRANSPARENT, 1)));
    }
    if o.pass_packet_info {
        wanted.push(("PassPacketInfo", V4, libc::IP_PKTINFO, 1));
        wanted.extend(v6.then_some(("PassPacketInfo", V6, libc::IPV6_RECVPKTINFO, 1)));
    }
    if let Some(ttl) = o.ip_ttl {
        wanted.push(("IPTTL", V4, libc::IP_TTL, ttl.into()));
        wanted.extend(v6.then_some(("IPTTL", V6, libc::IPV6_UNICAST_HOPS, ttl.into())));
    }
    if let Some(tos) = o.ip_tos {
        wanted.push(("IPTOS", V4, libc::IP_TOS, tos.into()));
    }
    let only = match o.ipv6_only {
        Ipv6Only::Default => None,
        Ipv6Only::Both => Some(0),
        Ipv6Only::Ipv6Only => Some(1),
    };
    wanted.extend(only.filter(|_| v6).map(|v| ("BindIPv6Only", V6, libc::IPV6_V6ONLY, v)));
    wanted
}

fn tcp_options(o: &SocketOptions) -> Vec<IntOption> {
    use libc::IPPROTO_TCP as T;
    let value = |v: Option<u32>, name, option| v.map(|v| (name, T, option, i64::from(v)));
    [
        o.no_delay.then_some(("NoDelay", T, libc::TCP_NODELAY, 1)),
        value(o.keep_alive_time_s, "KeepAliveTimeSec", libc::TCP_KEEPIDLE),
        value(o.keep_alive_interval_s, "KeepAliveIntervalSec", libc::TCP_KEEPINTVL),
        value(o.keep_alive_probes, "KeepAliveProbes", libc::TCP_KEEPCNT),
        value(o.defer_accept_s, "DeferAcceptSec", libc::TCP_DEFER_ACCEPT),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Beyond the host's limit when allowed, else up to it.
fn set_buffers(fd: BorrowedFd<'_>, o: &SocketOptions) -> Vec<Error> {
    let pairs = [
        ("ReceiveBuffer", o.receive_buffer, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        ("SendBuffer", o.send_buffer, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ];
    let set = |(name, bytes, force, plain): (&'static str, Option<u32>, i32, i32)| {
        let bytes = i64::from(bytes?);
        let done = set_int(fd, &libc::SOL_SOCKET, &force, bytes)
            .or_else(|_| set_int(fd, &libc::SOL_SOCKET, &plain, bytes));
        done.map_err(|errno| Error::new(name, errno)).err()
    };
    pairs.into_iter().filter_map(set).collect()
}

fn set_texts(fd: BorrowedFd<'_>, o: &SocketOptions) -> Vec<Error> {
    let pairs = [
        ("BindToDevice", &o.device, libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
        ("TCPCongestion", &o.tcp_congestion, libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    ];
    let set = |(name, text, level, option): (&'static str, &Option<String>, i32, i32)| {
        let text = text.as_deref()?.as_bytes();
        set_bytes(fd, level, option, text).map_err(|errno| Error::new(name, errno)).err()
    };
    pairs.into_iter().filter_map(set).collect()
}

fn set_int(
    fd: BorrowedFd<'_>,
    level: &libc::c_int,
    option: &libc::c_int,
    value: i64,
) -> std::result::Result<(), i32> {
    let value = value as u32; // marks use all 32 bits
    set_bytes(fd, *level, *option, &value.to_ne_bytes())
}

fn set_bytes(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
) -> std::result::Result<(), i32> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of the slice.
    let ret =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, value.as_ptr().cast(), length) };
    check("setsockopt", ret as _).map(|_| ()).map_err(|e| e.errno)
}

// ---- binding ----

fn bind_ip(fd: &OwnedFd, to: SocketAddr) -> Result<()> {
    rustix::net::bind(fd, &to).call_on("bind", to.to_string())
}

fn bind_vsock(fd: &OwnedFd, cid: u32, port: u32) -> Result<()> {
    // SAFETY: an all-zero sockaddr_vm is valid.
    let mut to: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    to.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    to.svm_cid = cid;
    to.svm_port = port;
    let length = size_of_val(&to) as libc::socklen_t;
    // SAFETY: the address is a live local of that length.
    let ret = unsafe { libc::bind(fd.as_raw_fd(), (&raw const to).cast(), length) };
    check("bind", ret as _).map_err(|e| e.on(format!("vsock:{cid}:{port}"))).map(|_| ())
}

/// What is in the way, as a socket file left behind by a predecessor, is replaced, unless it is a directory; a link
/// is, and not what it leads to. systemd 252, asked by experiment, does the same.
fn bind_path(
    fd: &OwnedFd,
    path: &str,
    options: &SocketOptions,
    refused: &mut Vec<Error>,
) -> Result<()> {
    make_parents(path, options.directory_mode)?;
    let to = SocketAddrUnix::new(path).call_on("socket path", path)?;
    // The file is made with the mode of the socket's own inode, so it is never too open.
    let mode = rustix::fs::Mode::from_raw_mode(options.mode & 0o777);
    rustix::fs::fchmod(fd, mode).call_on("fchmod", path)?;
    match rustix::net::bind(fd, &to) {
        Err(rustix::io::Errno::ADDRINUSE) if !is_directory(path) => {
            std::fs::remove_file(path).call_on("unlink", path)?;
            rustix::net::bind(fd, &to).call_on("bind", path)?;
        }
        other => other.call_on("bind", path)?,
    }
    let file = open_socket_file(path)?;
    set_owner(file.as_fd(), path, options)?;
    refused.extend(set_mode(file.as_fd(), path, options).err());
    Ok(())
}

/// A datagram socket in the place of the one at a path, with the same mode and owner; whoever sends to the path has the
/// one or the other. Returns it with the inode of its file.
pub fn replace_datagram(path: &Path, options: &SocketOptions) -> Result<(OwnedFd, u64)> {
    use std::os::unix::fs::MetadataExt;
    let old = std::fs::symlink_metadata(path).call_on("stat", path)?;
    let fresh = path.with_extension("fresh").to_string_lossy().into_owned();
    let (mode, uid, gid) = (old.mode() & 0o777, Some(old.uid()), Some(old.gid()));
    let options = SocketOptions { mode, uid, gid, ..options.clone() };
    let socket = listen(Kind::Datagram, &Address::Path(fresh.clone()), &options)?.fd;
    let made = std::fs::symlink_metadata(&fresh).call_on("stat", &fresh)?;
    std::fs::rename(&fresh, path).call_on("rename", path)?;
    Ok((socket, made.ino()))
}

/// The file itself, as open(2)'s `O_PATH` has it. Whoever owns the directory may have put something
/// else in its place by now: `EEXIST`, as what a link leads to is nobody's to change.
fn open_socket_file(path: &str) -> Result<OwnedFd> {
    use rustix::fs::{FileType, Mode, OFlags};
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)?;
    let stat = rustix::fs::fstat(&file).call_on("fstat", path)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => Ok(file),
        _ => Err(Error::at("open socket file", path, libc::EEXIST)),
    }
}

fn is_directory(path: &str) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Owner of a socket file or FIFO. Without it others than those who are meant could connect.
fn set_owner(file: BorrowedFd<'_>, path: &str, options: &SocketOptions) -> Result<()> {
    use rustix::fs::{AtFlags, Gid, Uid};
    if options.uid.is_none() && options.gid.is_none() {
        return Ok(());
    }
    let (uid, gid) = (options.uid.map(Uid::from_raw), options.gid.map(Gid::from_raw));
    rustix::fs::chownat(file, "", uid, gid, AtFlags::EMPTY_PATH).call_on("chown", path)
}

/// Mode of a socket file or FIFO, exactly, whatever the umask was. By /proc, as fchmod(2) takes no
/// `O_PATH` descriptor and the call that does is of Linux 6.6.
fn set_mode(file: BorrowedFd<'_>, path: &str, options: &SocketOptions) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(options.mode & 0o7777);
    std::fs::set_permissions(crate::file::descriptor_path(file), mode).call_on("chmod", path)
}

fn make_parents(path: &str, mode: u32) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    match Path::new(path).parent() {
        Some(parent) if !parent.exists() => std::fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(parent)
            .call_on("mkdir", parent),
        _ => Ok(()),
    }
}

/// What was there before is one's own, or already as the options have it: has their mode, and is of this process or
/// of whom they name. Anybody else could read along.
fn is_as_asked(stat: &rustix::fs::Stat, options: &SocketOptions) -> bool {
    use rustix::process::{getegid, geteuid};
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    stat.st_mode & 0o777 == options.mode & 0o777
        && (stat.st_uid == uid || Some(stat.st_uid) == options.uid)
        && (stat.st_gid == gid || Some(stat.st_gid) == options.gid)
}

/// ListenFIFO=: makes the FIFO if missing and opens it for reading and writing, so that it has
/// no end of file. Non-blocking, close-on-exec. `EEXIST` for one of somebody else's, or with another mode.
pub fn open_fifo(path: &str, options: &SocketOptions) -> Result<Listening> {
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
    make_parents(path, options.directory_mode)?;
    let mode = Mode::from_raw_mode(options.mode & 0o777);
    let is_new = match mknodat(CWD, path, FileType::Fifo, mode, 0) {
        Err(rustix::io::Errno::EXIST) => false,
        other => other.call_on("mkfifo", path).map(|_| true)?,
    };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let fd = rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)?;
    let stat = rustix::fs::fstat(&fd).call_on("fstat", path)?;
    let is_fifo = FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
    if !is_fifo || !is_new && !is_as_asked(&stat, options) {
        return Err(Error::at("open fifo", path, libc::EEXIST));
    }
    set_owner(fd.as_fd(), path, options)?;
    let mut refused: Vec<Error> = set_mode(fd.as_fd(), path, options).err().into_iter().collect();
    if let Some(bytes) = options.pipe_size {
        let set = rustix::pipe::fcntl_setpipe_size(&fd, bytes as usize);
        refused.extend(set.call_on("PipeSize", path).err());
    }
    Ok(Listening { fd, refused })
}

/// ListenSpecial=: opens a device or a file of /proc or /sys, for reading or for both. Non-blocking,
/// close-on-exec. `EEXIST` for anything else.
pub fn open_special(path: &str, writable: bool) -> Result<Listening> {
    use rustix::fs::{FileType, Mode, OFlags};
    let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)?;
    let stat = rustix::fs::fstat(&fd).call_on("fstat", path)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice | FileType::RegularFile => {
            Ok(Listening { fd, refused: Vec::new() })
        }
        _ => Err(Error::at("open special", path, libc::EEXIST)),
    }
}

/// ListenMessageQueue=: makes a queue of mq_overview(7) if it is missing, and opens it for reading. `EEXIST` for one of
/// somebody else's, or with another mode. `sizes` are the most messages and the bytes of one; as the host has them without.
pub fn open_message_queue(
    name: &str,
    sizes: Option<(u64, u64)>,
    options: &SocketOptions,
) -> Result<Listening> {
    let c_name =
        std::ffi::CString::new(name).map_err(|_| Error::at("mq_open", name, libc::EINVAL))?;
    // SAFETY: plain data, for which zeros are a value.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    let clamp = |value: u64| value.min(i32::MAX as u64) as libc::c_long;
    let given = sizes.map(|(messages, bytes)| {
        (attributes.mq_maxmsg, attributes.mq_msgsize) = (clamp(messages), clamp(bytes));
        &raw const attributes
    });
    let open = |how: libc::c_int| -> Result<OwnedFd> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | how;
        // SAFETY: a terminated string, and attributes that live as long as the call, or none.
        let fd = unsafe {
            let attributes = given.unwrap_or(std::ptr::null());
            libc::mq_open(c_name.as_ptr(), flags, options.mode as libc::mode_t, attributes)
        };
        check("mq_open", fd as _).map_err(|e| e.on(name))?;
        // SAFETY: on Linux a queue's descriptor is a file descriptor, new and nobody else's.
        Ok(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) })
    };
    let fd = match open(libc::O_CREAT | libc::O_EXCL) {
        Err(e) if e.errno == libc::EEXIST => {
            let fd = open(0)?;
            let stat = rustix::fs::fstat(&fd).call_on("fstat", name)?;
            match is_as_asked(&stat, options) {
                true => fd,
                false => return Err(Error::at("mq_open", name, libc::EEXIST)),
            }
        }
        made => made?,
    };
    let mode = rustix::fs::Mode::from_raw_mode(options.mode & 0o777);
    let refused: Vec<Error> =
        rustix::fs::fchmod(&fd, mode).call_on("chmod", name).err().into_iter().collect();
    let (uid, gid) =
        (options.uid.map(rustix::fs::Uid::from_raw), options.gid.map(rustix::fs::Gid::from_raw));
    if uid.is_some() || gid.is_some() {
        rustix::fs::fchown(&fd, uid, gid).call_on("chown", name)?;
    }
    Ok(Listening { fd, refused })
}

/// RemoveOnStop=: removes a message queue; fine when it is gone.
pub fn remove_message_queue(name: &str) -> Result<()> {
    let c_name =
        std::ffi::CString::new(name).map_err(|_| Error::at("mq_unlink", name, libc::EINVAL))?;
    // SAFETY: a terminated string.
    let removed = check("mq_unlink", unsafe { libc::mq_unlink(c_name.as_ptr()) } as _);
    match removed {
        Err(e) if e.errno == libc::ENOENT => Ok(()),
        other => other.map(|_| ()).map_err(|e| e.on(name)),
    }
}

/// A netlink socket of this protocol (netlink(7)), bound to these multicast groups, a bit each.
pub fn open_netlink(protocol: u32, groups: u32, options: &SocketOptions) -> Result<Listening> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol = std::num::NonZeroU32::new(protocol).map(rustix::net::Protocol::from_raw);
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let fd = rustix::net::socket_with(family, kind, flags, protocol).call("socket")?;
    let refused = set_options(fd.as_fd(), family, Kind::Datagram, options);
    let address = rustix::net::netlink::SocketAddrNetlink::new(0, groups);
    rustix::net::bind(&fd, &address).call("bind")?;
    Ok(Listening { fd, refused })
}

/// XAttrListen=, XAttrAccept=: an extended attribute of the socket itself; since Linux 7.0.
pub fn set_attribute(socket: BorrowedFd<'_>, name: &str, value: &str) -> Result<()> {
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(socket, name, value.as_bytes(), flags).call("fsetxattr")
}

/// XAttrEntryPoint=: an extended attribute of a socket file, which older kernels than Linux 7.0 refuse.
pub fn set_attribute_of_file(path: &str, name: &str, value: &str) -> Result<()> {
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::lsetxattr(path, name, value.as_bytes(), flags).call_on("lsetxattr", path)
}

/// Symlinks=: makes a link to a socket file. It takes the place of a link that leads elsewhere, and of a socket file,
/// as those are where others have listened; not of the socket itself.
pub fn make_symlink(target: &str, link: &str, directory_mode: u32) -> Result<()> {
    make_parents(link, directory_mode)?;
    match std::os::unix::fs::symlink(target, link) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            if !may_be_replaced(target, link) {
                return Err(Error::at("symlink", link, libc::EEXIST));
            }
            std::fs::remove_file(link).call_on("unlink", link)?;
            std::os::unix::fs::symlink(target, link).call_on("symlink", link)
        }
        other => other.call_on("symlink", link),
    }
}

fn may_be_replaced(target: &str, link: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: std::fs::Metadata| (found.dev(), found.ino());
    let own = std::fs::symlink_metadata(target).ok().map(place);
    let is_another = |found: std::fs::Metadata| {
        let kind = found.file_type();
        kind.is_symlink() || kind.is_socket() && Some(place(found)) != own
    };
    std::fs::symlink_metadata(link).is_ok_and(is_another)
}

/// RemoveOnStop=: removes a socket file, FIFO or link; fine when it is gone.
pub fn remove_file(path: &str) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.call_on("unlink", path),
    }
}

// ---- connections ----

/// Takes a connection, blocking mode, close-on-exec; `None` when there is none (any more).
pub fn accept(socket: BorrowedFd<'_>) -> Result<Option<OwnedFd>> {
    use rustix::io::Errno;
    match rustix::net::accept_with(socket, SocketFlags::CLOEXEC) {
        Ok(fd) => Ok(Some(fd)),
        // The last: the client has gone before we came.
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(e) => Err(e).call("accept4"),
    }
}

/// Connects to a stream socket in the file system without waiting: an error where its queue is full.
/// Reads and writes of the connection wait.
pub fn connect_stream(path: &str) -> Result<OwnedFd> {
    let fd = unconnected_stream()?;
    let address = SocketAddrUnix::new(path).call_on("connect", path)?;
    rustix::net::connect(&fd, &address).call_on("connect", path)?;
    crate::file::set_nonblocking(fd.as_fd(), false)?;
    Ok(fd)
}

/// A stream socket that is not connected, and does not wait.
pub fn unconnected_stream() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).call("socket")
}

/// Connects, but waits so long for a place in its queue.
pub fn connect_stream_within(path: &str, time: std::time::Duration) -> Result<OwnedFd> {
    let fd = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let fd = fd.call("socket")?;
    let limit = |time| rustix::net::sockopt::set_socket_timeout(&fd, Timeout::Send, time);
    limit(Some(time)).call("setsockopt SO_SNDTIMEO")?;
    let address = SocketAddrUnix::new(path).call_on("connect", path)?;
    rustix::net::connect(&fd, &address).call_on("connect", path)?;
    limit(None).call("setsockopt SO_SNDTIMEO")?;
    Ok(fd)
}

/// Connects to a socket in the file system, of whichever type it is. One whose queue is full is waited for.
pub fn connect_any(path: &str) -> Result<OwnedFd> {
    use rustix::io::Errno;
    let address = SocketAddrUnix::new(path).call_on("connect", path)?;
    let connected = |kind: SocketType| -> Result<std::result::Result<OwnedFd, Errno>> {
        let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let fd = fd.call("socket")?;
        Ok(rustix::net::connect(&fd, &address).map(|()| fd))
    };
    for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
        match connected(kind)? {
            // It is of another type.
            Err(Errno::PROTOTYPE) => {}
            result => return result.call_on("connect", path),
        }
    }
    connected(SocketType::DGRAM)?.call_on("connect", path)
}

/// Connects to a stream socket from an abstract address of this name.
pub fn connect_from(name: &str, path: &std::path::Path) -> Result<OwnedFd> {
    let fd = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let fd = fd.call("socket")?;
    let own = SocketAddrUnix::new_abstract_name(name.as_bytes()).call_on("bind", name)?;
    rustix::net::bind(&fd, &own).call_on("bind", name)?;
    let address = SocketAddrUnix::new(path).call_on("connect", path)?;
    rustix::net::connect(&fd, &address).call_on("connect", path)?;
    Ok(fd)
}

/// Whether others can connect to this socket; a socket that is none cannot be.
pub fn is_listening(socket: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_acceptconn(socket).unwrap_or(false)
}

/// Whether it is a socket, of any family.
pub fn is_any_socket(fd: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_type(fd).is_ok()
}

/// Own and peer's address of an IP connection; `None` for other families.
pub fn addresses(connection: BorrowedFd<'_>) -> Result<Option<(SocketAddr, SocketAddr)>> {
    let own = rustix::net::getsockname(connection).call("getsockname")?;
    let peer = rustix::net::getpeername(connection).call("getpeername")?;
    let ip = |any: SocketAddrAny| SocketAddr::try_from(any).ok();
    Ok(ip(own).zip(peer.and_then(ip)))
}

/// Gives the name of a Unix socket, or of the one that took this connection, to `look`: a path, or after a zero byte a
/// name of the abstract namespace. `None` for other families and without a name. Allocates nothing.
pub fn with_unix_name<T>(socket: BorrowedFd<'_>, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let address = SocketAddrUnix::try_from(rustix::net::getsockname(socket).ok()?).ok()?;
    match (address.path_bytes(), address.abstract_name()) {
        (Some(path), _) if !path.is_empty() => Some(look(path)),
        (_, Some(name)) if !name.is_empty() => Some(look(name)),
        _ => None,
    }
}

/// Number of a network interface, for scope ids. `ENODEV` when there is none of that name.
pub fn interface_index(name: &str) -> Result<u32> {
    let text = CString::new(name).map_err(|_| Error::at("if_nametoindex", name, libc::EINVAL))?;
    // SAFETY: a live, terminated string.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(Error::at("if_nametoindex", name, libc::ENODEV)),
        index => Ok(index),
    }
}

/// True while something can be read (or accepted) without waiting.
pub fn is_readable(fd: impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)), Ok(n) if n > 0)
}

/// Waits until the other end of a connection is closed (POLLHUP) or `other` is readable; true for the
/// first. A peer that has only shut its sending down has not hung up. False when a signal came.
pub fn wait_or_hang_up(connection: BorrowedFd<'_>, other: impl AsFd) -> Result<bool> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds =
        [PollFd::new(&connection, PollFlags::empty()), PollFd::new(&other, PollFlags::IN)];
    match poll(&mut fds, None) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        ready => ready.call("poll").map(|_| !fds[0].revents().is_empty()),
    }
}

/// Waits until one of two can be read; true if that is `other`, whether the first can be or not.
pub fn wait_readable_or(fd: impl AsFd, other: impl AsFd) -> Result<bool> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(&fd, PollFlags::IN), PollFd::new(&other, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready.call("poll").map(|_| !fds[1].revents().is_empty()),
        }
    }
}

#[cfg(test)]
mod tests;
