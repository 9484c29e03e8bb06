//! File descriptors that others send stop nobody's log, whatever their files do.

mod daemon_lab;

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use daemon_lab::{Lab, not_run, shown};
use warren_log_store::query::Expr;
use warren_sys::{fdpass, memfd};

/// A socket that cannot be closed while the listener is there: what was written is never read.
fn lingering(listener: &TcpListener) -> TcpStream {
    const LINGER: Option<Duration> = Some(Duration::from_secs(3600));
    let to = listener.local_addr().expect("bound");
    let mut stream = TcpStream::connect(to).expect("it listens");
    rustix::net::sockopt::set_socket_linger(&stream, LINGER).expect("known");
    stream.set_nonblocking(true).expect("it can be set");
    while stream.write(&[0; 1 << 16]).is_ok() {}
    stream
}

/// Does something while the daemon stops: whoever is the last to close such a socket waits, which is to be the daemon.
fn while_it_stops<T>(lab: &Lab, act: impl FnOnce() -> T) -> T {
    use warren_sys::signal::{SIGCONT, SIGSTOP};
    let daemon = lab.daemon.as_ref().expect("it runs").id();
    warren_sys::process::kill(daemon as i32, SIGSTOP).expect("it is there");
    let status = format!("/proc/{daemon}/status");
    warren_testkit::wait_until("the daemon stands still", || {
        std::fs::read_to_string(&status).expect("it is there").contains("State:\tT")
    });
    let done = act();
    warren_sys::process::kill(daemon as i32, SIGCONT).expect("it is there");
    done
}

/// Sends the last descriptors of so many of them, unless the kernel refuses to.
fn offer(
    lab: &Lab,
    socket: BorrowedFd<'_>,
    (data, count): (&[u8], usize),
    listener: &TcpListener,
) -> bool {
    let all: Vec<TcpStream> = (0..count).map(|_| lingering(listener)).collect();
    while_it_stops(lab, || {
        let fds: Vec<BorrowedFd<'_>> = all.iter().map(AsFd::as_fd).collect();
        let was_sent = fdpass::send(socket, data, &fds).is_ok();
        if !was_sent {
            let at_once = |stream| rustix::net::sockopt::set_socket_linger(stream, None);
            all.iter().for_each(|stream| at_once(stream).expect("known"));
        }
        drop(all);
        was_sent
    })
}

/// What comes after all that was offered is heard.
fn assert_is_heard(lab: &Lab, number: usize) {
    let data = format!("MESSAGE=heard\nAFTER={number}\n");
    lab.native().send(data.as_bytes()).expect("the daemon is there");
    warren_testkit::wait_until("what comes after is heard", || {
        !lab.read(Expr::field("AFTER", number.to_string())).is_empty()
    });
}

/// What is empty is shown once: of a burst that was looked at and in which one is refused, the others are there still.
#[test]
fn what_comes_behind_files_that_are_refused_is_not_lost() {
    const OTHER_UID: u32 = 65534;
    /// More than are held of a user, and with what follows no more than wait in a socket.
    const FILES: usize = 4 + 3;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut lab = Lab::new("offered-burst");
    lab.start(&["--set", "RateLimitBurst=0"]);
    assert_is_heard(&lab, 1);
    let native = lab.native();
    let streams: Vec<TcpStream> = (0..FILES).map(|_| lingering(&listener)).collect();
    let sealed = memfd::sealed("message", b"MESSAGE=in memory\n").expect("a memfd");
    let send = || {
        // Of this thread alone.
        if warren_sys::child::set_uid(OTHER_UID).is_err() {
            return false;
        }
        for stream in streams {
            fdpass::send(native.as_fd(), b"", &[stream.as_fd()]).expect("sent");
        }
        fdpass::send(native.as_fd(), b"", &[sealed.as_fd()]).expect("sent");
        native.send(b"MESSAGE=behind\nOFFERED=1\n").expect("sent");
        true
    };
    let sent = while_it_stops(&lab, || {
        std::thread::scope(|scope| scope.spawn(send).join().expect("it is sent"))
    });
    if !sent {
        return not_run("needs root");
    }
    assert_is_heard(&lab, 2);
    lab.stop();
    assert_eq!(lab.read(Expr::field("OFFERED", "1")).len(), 1, "once");
    // Nor is a file in memory taken of who has so many; on a slow machine some may be let go of by then.
    let in_memory = lab.read(Expr::field("MESSAGE", "in memory")).len();
    let (told, lost) = (told(&lab), format!("{} more from ", FILES - in_memory));
    assert!(told.iter().any(|text| text.contains(&lost)), "each is counted: {told:?}");
}

fn told(lab: &Lab) -> Vec<String> {
    let told = lab.read(Expr::field("_TRANSPORT", "driver"));
    told.iter().map(|entry| shown(entry, "MESSAGE")).collect()
}

#[test]
fn sockets_that_cannot_be_closed_stop_no_log() {
    /// More than are held of a user.
    const FILES: usize = 20;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut lab = Lab::new("offered-linger");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let native = lab.native();
    assert!(offer(&lab, native.as_fd(), (b"MESSAGE=with one\nOFFERED=1\n", 1), &listener));
    assert_is_heard(&lab, 1);
    assert!(offer(&lab, native.as_fd(), (b"", 2), &listener), "more than a file");
    assert_is_heard(&lab, 2);
    for _ in 0..FILES {
        assert!(offer(&lab, native.as_fd(), (b"", 1), &listener));
    }
    assert_is_heard(&lab, 3);
    let syslog = UnixDatagram::unbound().expect("a socket");
    syslog.connect(lab.path("run/dev-log")).expect("the daemon listens");
    offer(&lab, syslog.as_fd(), (b"<30>daemon: by syslog", 1), &listener);
    assert_is_heard(&lab, 4);
    lab.stop();
    assert!(lab.read(Expr::field("OFFERED", "1")).is_empty());
    let told = told(&lab);
    let is_told = |what: &str| told.iter().any(|text| text.contains(what));
    assert!(is_told("Lost a datagram: it carried file descriptors"), "{told:?}");
    assert!(is_told("Lost a message sent as a file: it is not a regular file"), "{told:?}");
    assert!(is_told(&format!("{} more from ", FILES - 1)), "{told:?}");
}

/// The kernel refuses them, unless it is an old one or they were sent before the daemon had the stream.
#[test]
fn a_stream_with_descriptors_ends_and_the_others_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut lab = Lab::new("offered-stream");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let mut stream = UnixStream::connect(lab.path("run/stdout")).expect("the daemon listens");
    stream.write_all(b"offers\n\n6\n0\n0\n0\n0\nbefore\n").expect("it is read");
    warren_testkit::wait_until("the line before", || {
        !lab.read(Expr::field("SYSLOG_IDENTIFIER", "offers")).is_empty()
    });
    let was_sent = offer(&lab, stream.as_fd(), (b"with\n", 1), &listener);
    assert_is_heard(&lab, 1);
    if !was_sent {
        stream.write_all(b"after\n").expect("it was not ended");
    }
    drop(stream);
    lab.stop();
    let lines = lab.read(Expr::field("SYSLOG_IDENTIFIER", "offers"));
    let lines: Vec<String> = lines.iter().map(|entry| shown(entry, "MESSAGE")).collect();
    assert_eq!(lines, ["before", if was_sent { "with" } else { "after" }]);
}

/// Threads read them, and are waited for at the end.
#[test]
fn files_that_are_no_sealed_memory_are_messages_too() {
    let mut lab = Lab::new("offered-files");
    lab.start(&[]);
    let native = lab.native();
    let path = std::path::Path::new("/dev/shm").join(format!("warren-{}", std::process::id()));
    std::fs::write(&path, b"MESSAGE=in a file\nOFFERED=1\n").expect("it can be written");
    let file = File::open(&path).expect("it is there");
    std::fs::remove_file(&path).expect("it is there");
    fdpass::send(native.as_fd(), b"", &[file.as_fd()]).expect("sent");
    let sealed = memfd::sealed("message", b"MESSAGE=in memory\nOFFERED=1\n").expect("a memfd");
    fdpass::send(native.as_fd(), b"", &[sealed.as_fd()]).expect("sent");
    lab.stop();
    let found = lab.read(Expr::field("OFFERED", "1"));
    let mut found: Vec<String> = found.iter().map(|entry| shown(entry, "MESSAGE")).collect();
    found.sort();
    assert_eq!(found, ["in a file", "in memory"], "{:?}", told(&lab));
}
