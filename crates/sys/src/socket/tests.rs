use super::*;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;

use warren_testkit::Scratch;

#[test]
fn a_socket_file_has_its_mode_and_replaces_a_stale_one() {
    let scratch = Scratch::new("file");
    let path = scratch.text_path("a/b/socket");
    let options = SocketOptions { mode: 0o660, directory_mode: 0o711, ..SocketOptions::default() };
    for _ in 0..2 {
        let l = listen(Kind::Stream, &Address::Path(path.clone()), &options).expect("listens");
        assert_eq!(l.refused, []);
        let mode = std::fs::metadata(&path).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o660);
        assert_eq!(accept(l.fd.as_fd()).map(|c| c.is_some()), Ok(false));
        let _client = UnixStream::connect(&path).expect("connects");
        assert!(is_readable(&l.fd));
        assert_eq!(accept(l.fd.as_fd()).map(|c| c.is_some()), Ok(true));
    }
    let parent = std::fs::metadata(scratch.text_path("a/b")).expect("made").mode();
    assert_eq!(parent & 0o777, 0o711);
    for (name, errno) in [("plain", None), ("link", None), ("a", Some(libc::EADDRINUSE))] {
        match name {
            "plain" => std::fs::write(scratch.text_path(name), "").expect("written"),
            "link" => {
                std::os::unix::fs::symlink(&path, scratch.text_path(name))
                    .expect("a link can be made");
            }
            _ => {}
        }
        let listening = listen(Kind::Stream, &Address::Path(scratch.text_path(name)), &options);
        assert_eq!(listening.err().map(|e| e.errno), errno, "{name}");
        let is_there = std::fs::symlink_metadata(scratch.text_path(name)).expect("it is there");
        assert_eq!(is_there.file_type().is_socket(), errno.is_none(), "{name}");
    }
    let long = scratch.text_path(&"x".repeat(120));
    let refused = listen(Kind::Stream, &Address::Path(long), &options);
    assert_eq!(refused.map(|_| ()).map_err(|e| e.errno), Err(libc::ENAMETOOLONG));
}

#[test]
fn neither_owner_nor_mode_is_given_to_what_a_link_in_place_of_a_socket_leads_to() {
    let scratch = Scratch::new("swapped");
    let (victim, link, plain) =
        (scratch.text_path("victim"), scratch.text_path("link"), scratch.text_path("s"));
    let listener = std::os::unix::net::UnixListener::bind(&victim).expect("binds");
    std::os::unix::fs::symlink(&victim, &link).expect("a link can be made");
    std::fs::write(&plain, "").expect("written");
    for path in [&link, &plain] {
        let opened = open_socket_file(path).map(|_| ()).map_err(|e| e.errno);
        assert_eq!(opened, Err(libc::EEXIST), "{path}");
    }
    let file = open_socket_file(&victim).expect("it is a socket");
    // Whoever owns the directory changes it between the bind and what follows.
    std::fs::rename(&victim, scratch.text_path("moved")).expect("renamed");
    std::fs::rename(&plain, &victim).expect("renamed");
    let mode = |path: &str| std::fs::metadata(path).expect("it is there").mode() & 0o7777;
    let before = mode(&victim);
    let own = rustix::process::geteuid().as_raw();
    let options = SocketOptions { mode: 0o1606, uid: Some(own), ..SocketOptions::default() };
    let change = || {
        set_owner(file.as_fd(), &victim, &options).expect("it is ours");
        set_mode(file.as_fd(), &victim, &options).expect("it is ours");
    };
    change();
    assert_eq!((mode(&victim), mode(&scratch.text_path("moved"))), (before, 0o1606));
    // A thread with descriptors of its own, where this number is another's.
    let apart = std::thread::spawn(move || {
        crate::process::keep_only_descriptors(&[]).expect("unshare");
        let file = open_socket_file(&scratch.text_path("moved")).expect("it is a socket");
        set_mode(file.as_fd(), "moved", &SocketOptions { mode: 0o640, ..SocketOptions::default() })
            .expect("it is ours");
        mode(&scratch.text_path("moved"))
    });
    assert_eq!(apart.join().expect("it ends"), 0o640);
    drop(listener);
}

/// Reads an integer option back.
fn get(fd: &OwnedFd, level: i32, option: i32) -> i32 {
    let mut value = 0i32;
    let mut length = 4;
    // SAFETY: the kernel writes at most four bytes to the local.
    let ret = unsafe {
        let value = (&raw mut value).cast();
        libc::getsockopt(fd.as_raw_fd(), level, option, value, &raw mut length)
    };
    assert_eq!(ret, 0, "option {level}/{option}");
    value
}

#[test]
fn tcp_options_arrive_in_the_kernel() {
    let options = SocketOptions {
        keep_alive: true,
        keep_alive_time_s: Some(77),
        keep_alive_probes: Some(3),
        keep_alive_interval_s: Some(9),
        no_delay: true,
        priority: Some(5),
        ip_ttl: Some(42),
        ip_tos: Some(16),
        reuse_port: true,
        free_bind: true,
        ipv6_only: Ipv6Only::Ipv6Only,
        defer_accept_s: Some(1),
        receive_buffer: Some(65_536),
        ..SocketOptions::default()
    };
    let to = Address::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0, 0, 0));
    let l = match listen(Kind::Stream, &to, &options) {
        Err(e) if matches!(e.errno, libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL) => {
            return crate::test_not_run("tcp_options_arrive_in_the_kernel", "IPv6");
        }
        other => other.expect("listens"),
    };
    assert_eq!(l.refused, []);
    use libc::{IPPROTO_IPV6 as V6, IPPROTO_TCP as T, SOL_SOCKET as S};
    for (level, option, expected) in [
        (S, libc::SO_KEEPALIVE, 1),
        (T, libc::TCP_KEEPIDLE, 77),
        (T, libc::TCP_KEEPCNT, 3),
        (T, libc::TCP_KEEPINTVL, 9),
        (T, libc::TCP_NODELAY, 1),
        (S, libc::SO_PRIORITY, 5),
        (V6, libc::IPV6_UNICAST_HOPS, 42),
        (S, libc::SO_REUSEPORT, 1),
        (V6, libc::IPV6_V6ONLY, 1),
        (S, libc::SO_RCVBUF, 131_072),
    ] {
        assert_eq!(get(&l.fd, level, option), expected, "option {level}/{option}");
    }
}

#[test]
fn a_connection_knows_both_ends() {
    let to = Address::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    let l = listen(Kind::Stream, &to, &SocketOptions::default()).expect("listens");
    let own = rustix::net::getsockname(&l.fd).expect("bound");
    let own = SocketAddr::try_from(own).expect("an IP address");
    let client = TcpStream::connect(own).expect("connects");
    let connection = accept(l.fd.as_fd()).expect("accept").expect("it waits");
    let ends = addresses(connection.as_fd()).expect("connected").expect("IP");
    assert_eq!(ends, (own, client.local_addr().expect("bound")));
}

#[test]
fn refused_options_are_reported_and_not_fatal() {
    let device = Some("no-such-device".into());
    let options = SocketOptions { device, ..SocketOptions::default() };
    let to = Address::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    let l = listen(Kind::Datagram, &to, &options).expect("it works all the same");
    assert_eq!(l.refused.iter().map(|e| e.call).collect::<Vec<_>>(), ["BindToDevice"]);
}

#[test]
fn abstract_names_and_fifos() {
    let name = format!("warren-test-{}", std::process::id()).into_bytes();
    let options = SocketOptions { pass_credentials: true, ..SocketOptions::default() };
    let l = listen(Kind::Datagram, &Address::Abstract(name), &options).expect("bound");
    assert_eq!((l.refused.len(), get(&l.fd, libc::SOL_SOCKET, libc::SO_PASSCRED)), (0, 1));

    let scratch = Scratch::new("fifo");
    let path = scratch.text_path("fifo");
    let options = SocketOptions { mode: 0o600, pipe_size: Some(8192), ..options };
    let fifo = open_fifo(&path, &options).expect("made");
    let mode = std::fs::metadata(&path).expect("the file is there").permissions().mode();
    assert_eq!((fifo.refused.len(), mode & 0o7777), (0, 0o600));
    assert!(!is_readable(&fifo.fd));
    let mut writer =
        std::fs::OpenOptions::new().write(true).open(&path).expect("a reader is there");
    writer.write_all(b"x").expect("written");
    assert!(is_readable(&fifo.fd));
    assert!(flush(fifo.fd.as_fd()).is_empty());
    assert!(!is_readable(&fifo.fd));
    make_symlink(&path, &scratch.text_path("d/link"), 0o755).expect("made");
    make_symlink("/elsewhere", &scratch.text_path("d/link"), 0o755).expect("replaced");
    assert_eq!(make_symlink("/x", &path, 0o755).map_err(|e| e.errno), Err(libc::EEXIST));
    let socket = scratch.text_path("socket");
    let _old = std::os::unix::net::UnixListener::bind(&socket).expect("binds");
    assert_eq!(make_symlink(&socket, &socket, 0o755).map_err(|e| e.errno), Err(libc::EEXIST));
    make_symlink("/elsewhere", &socket, 0o755).expect("a socket that was left is replaced");
    remove_file(&path).expect("removed");
    remove_file(&path).expect("fine when gone");
}

/// Opens one that was there before, with this mode and group; others are refused.
#[test]
fn a_fifo_or_queue_that_was_there_is_taken_if_it_is_as_asked() {
    let scratch = Scratch::new("was-there");
    let own = rustix::process::getegid().as_raw();
    let may_give = rustix::process::geteuid().is_root();
    let queue = format!("/warren-was-there-{}", std::process::id());
    let fifo = scratch.text_path("fifo");
    let errno = |opened: Result<Listening>| opened.err().map(|e| e.errno);
    for (mode, group, asked, expected) in [
        (0o640, own, None, None),
        (0o600, own, None, Some(libc::EEXIST)),
        (0o660, own, None, Some(libc::EEXIST)),
        (0o640, own + 1, None, Some(libc::EEXIST)),
        (0o640, own + 1, Some(own + 1), None),
        (0o640, own, Some(own + 1), None),
    ] {
        if !may_give && (group != own || asked.is_some()) {
            crate::test_not_run("a_fifo_or_queue_that_was_there", "root");
            continue;
        }
        let before = SocketOptions {
            mode,
            gid: (group != own).then_some(group),
            ..SocketOptions::default()
        };
        let options = SocketOptions { mode: 0o640, gid: asked, ..SocketOptions::default() };
        let shown = format!("{mode:o} {group} {asked:?}");
        open_fifo(&fifo, &before).expect("made");
        assert_eq!(errno(open_fifo(&fifo, &options)), expected, "{shown}");
        let gid = std::fs::metadata(&fifo).expect("it is there").gid();
        assert_eq!(gid, asked.unwrap_or(group), "{shown}");
        remove_file(&fifo).expect("removed");
        match open_message_queue(&queue, None, &before) {
            Err(e) if matches!(e.errno, libc::ENOSYS | libc::EACCES) => {
                crate::test_not_run("a_fifo_or_queue_that_was_there", "message queues");
            }
            made => {
                made.expect("made");
                assert_eq!(errno(open_message_queue(&queue, None, &options)), expected, "{shown}");
                remove_message_queue(&queue).expect("removed");
            }
        }
    }
}

#[test]
fn connections_and_datagrams_that_wait_are_taken_out_with_what_came_with_them() {
    let scratch = Scratch::new("flush");
    let path = |name: &str| Address::Path(scratch.text_path(name));
    let stream = listen(Kind::Stream, &path("stream"), &SocketOptions::default()).expect("binds");
    let clients: Vec<OwnedFd> =
        (0..3).map(|_| connect_stream(&scratch.text_path("stream")).expect("connects")).collect();
    let scrap = flush(stream.fd.as_fd());
    assert_eq!((scrap.len(), is_readable(&stream.fd)), (clients.len(), false));
    assert!(clients.iter().all(is_readable), "they are hung up before anything is closed");
    let datagrams = listen(Kind::Datagram, &path("dgram"), &SocketOptions::default());
    let datagrams = datagrams.expect("binds").fd;
    let sender = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
    sender.connect(scratch.text_path("dgram")).expect("connects");
    sender.send(b"").expect("sent");
    crate::fdpass::send(sender.as_fd(), b"x", &[stream.fd.as_fd()]).expect("sent");
    crate::fdpass::send(sender.as_fd(), &[0; 9000], &[stream.fd.as_fd()]).expect("sent");
    assert_eq!((flush(datagrams.as_fd()).len(), is_readable(&datagrams)), (2, false));
    // Somebody who shares it lets it wait.
    let shared = stream.fd.try_clone().expect("dup");
    crate::file::set_nonblocking(shared.as_fd(), false).expect("it can be set");
    assert!(flush(stream.fd.as_fd()).is_empty(), "nobody is waited for");
}

#[test]
fn packets_tell_of_their_way_and_time() {
    let options = SocketOptions {
        pass_packet_info: true,
        timestamps: Some(Timestamps::Ns),
        protocol: Some(136),
        ..SocketOptions::default()
    };
    let address = Address::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 0, 0, 0));
    let l = listen(Kind::Datagram, &address, &options).expect("binds");
    assert_eq!(l.refused, []);
    for (level, option, value) in [
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMP, 0),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL, 136),
    ] {
        assert_eq!(get(&l.fd, level, option), value, "{option}");
    }
}

/// The pidfd that comes with the next message, if one does.
fn received_pidfd(socket: &OwnedFd) -> Option<OwnedFd> {
    use std::os::fd::{FromRawFd, RawFd};
    const SCM_PIDFD: libc::c_int = 4;
    let mut byte = [0u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: byte.len() };
    let mut control = [0u64; 8];
    // SAFETY: zeroes are such a value, with no address in it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: what it points to is live.
    let bytes =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    assert_eq!(bytes, 1);
    // SAFETY: the kernel filled it.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() }?;
    assert_eq!((header.cmsg_level, header.cmsg_type), (libc::SOL_SOCKET, SCM_PIDFD));
    // SAFETY: the data of such a message is one new descriptor, which is ours alone.
    Some(unsafe { OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()) })
}

#[test]
fn a_message_comes_with_a_pidfd_of_its_sender() {
    let scratch = Scratch::new("socket-pidfd");
    for pass_pidfd in [false, true] {
        let path = scratch.text_path(if pass_pidfd { "with" } else { "without" });
        let options = SocketOptions { pass_pidfd, ..SocketOptions::default() };
        let l = listen(Kind::Datagram, &Address::Path(path.clone()), &options).expect("binds");
        if l.refused.iter().any(|e| e.errno == libc::ENOPROTOOPT) {
            return warren_testkit::not_run("pidfds of senders, which Linux 6.5 has");
        }
        assert_eq!(l.refused, []);
        let sender = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        sender.send_to(b"x", path).expect("sent");
        let pidfd = received_pidfd(&l.fd);
        assert_eq!(pidfd.is_some(), pass_pidfd);
        let Some(pidfd) = pidfd else { continue };
        let info = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
        let info = std::fs::read_to_string(info).expect("it is open");
        assert!(info.contains(&format!("Pid:\t{}\n", std::process::id())), "{info}");
    }
}

#[test]
fn a_socket_that_takes_no_descriptors_takes_all_else() {
    let scratch = warren_testkit::Scratch::new("socket-refuses");
    let options = SocketOptions { refuse_fds: true, ..SocketOptions::default() };
    let address = Address::Path(scratch.text_path("stream"));
    let listening = listen(Kind::Stream, &address, &options).expect("binds");
    let client = connect_stream(&scratch.text_path("stream")).expect("connects");
    let with_one = crate::fdpass::send(client.as_fd(), b"x", &[client.as_fd()]);
    // Linux 6.16 knows it.
    let expected = if listening.refused.is_empty() { Err(libc::EPERM) } else { Ok(()) };
    assert_eq!(with_one.map_err(|e| e.errno), expected, "{:?}", listening.refused);
    crate::fdpass::send(client.as_fd(), b"x", &[]).expect("room");
    let options = SocketOptions { refuse_fds: true, ..SocketOptions::default() };
    let tcp = listen(Kind::Stream, &Address::V4("127.0.0.1:0".parse().expect("one")), &options);
    assert_eq!(tcp.expect("binds").refused, [], "nobody can send any there");
}

/// Clients wait for a name and connect: none is refused.
#[test]
fn who_sees_the_name_can_connect() {
    use std::os::unix::net::UnixStream;
    const ROUNDS: usize = 300;
    let directory = std::env::temp_dir().join(format!("warren-at-once-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = |round: usize| directory.join(format!("socket{round}")).display().to_string();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            (0..ROUNDS).all(|round| {
                loop {
                    match UnixStream::connect(path(round)) {
                        Ok(_) => break true,
                        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                            std::thread::yield_now()
                        }
                        Err(_) => break false,
                    }
                }
            })
        });
        let sockets: Vec<OwnedFd> =
            (0..ROUNDS).map(|round| listen_private(path(round)).expect("a socket")).collect();
        assert!(client.join().expect("it does not panic"), "none is refused");
        drop(sockets);
    });
    std::fs::remove_dir_all(&directory).expect("ours to remove");
}
