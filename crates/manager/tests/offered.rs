//! File descriptors that others send hold nobody up, whatever their files do: those of a server that does not answer
//! cannot even be closed.

mod lab;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use lab::{Machine, read_answer, send_call, until};
use serde_json::json;
use warren_sys::fdpass;

const SERVER: &str = "[Service]\nType=notify\nExecStart=@P files:/run/files";

/// `server.service`, which is told to stop for a while, and `plain.service`, which is started meanwhile.
const PLAIN: &str = "[Service]\nType=notify\nExecStart=@P ready stay";

/// With another unit.
fn machine(name: &str, other: (&str, &str)) -> Option<Machine> {
    if !std::path::Path::new("/dev/fuse").exists() {
        lab::not_run(name, "/dev/fuse");
        return None;
    }
    let units = [("server.service", SERVER), ("plain.service", PLAIN), other];
    let m = Machine::start(name, &units)?;
    m.run(&["mkfifo", "/run/gate-1", "/run/gate-2"]).expect("mkfifo(1)");
    m.expect_job("start", "server.service", "done");
    Some(m)
}

/// Lets whoever waits at the fifo go on. There is one for each time, as who has not closed it yet would take
/// two for one.
fn open_gate(m: &Machine, n: usize) {
    m.run(&["sh", "-c", &format!("echo > /run/gate-{n}")]).expect("somebody reads it");
}

fn server(m: &Machine) -> String {
    m.main_pid("server.service").expect("it runs").to_string()
}

#[test]
fn a_stranger_cannot_stop_the_manager_with_a_file_that_cannot_be_closed() {
    let Some(m) = machine("offered-stranger", ("other.target", "")) else { return };
    let player = lab::player();
    let argv =
        ["env", "NOTIFY_SOCKET=/run/systemd/notify", &player, "offer:/run/files/file:/run/gate"];
    let mut stranger = m.spawn(&argv);
    open_gate(&m, 1);
    let server = server(&m);
    m.stop_server(&server);
    open_gate(&m, 2);
    m.expect_job("restart", "plain.service", "done");
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    m.expect_job("restart", "plain.service", "done");
    m.run(&["kill", "-CONT", &server]).expect("it is there");
    assert!(stranger.wait().expect("our child").success());
}

/// Whether process 1 keeps the served file for the manager.
fn is_kept(m: &Machine) -> bool {
    let all = std::fs::read_dir(format!("/proc/{}/fd", m.init_pid)).expect("it runs");
    let links = all.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    links.into_iter().any(|link| link.ends_with("files/file"))
}

/// Asks for a job and lets it go on.
fn begin(m: &Machine, kind: &str, unit: &str) -> UnixStream {
    let client = m.connect().expect("the manager listens");
    let job = json!({"unit": unit, "type": kind});
    send_call(&client, "Job", &job).expect("there is room in the socket");
    client
}

#[test]
fn a_stored_file_that_cannot_be_closed_holds_up_its_own_unit_alone() {
    let once = "test -e /run/once || { touch /run/once; exec @P offer:/run/files/file:/run/gate; }";
    let keeps = format!(
        "[Service]\nNotifyAccess=all\nFileDescriptorStoreMax=1\nTimeoutSec=infinity\n\
         ExecStart=@P fds:@D/out/fds stay\nExecStartPost=/bin/sh -c \"{once}\""
    );
    let Some(m) = machine("offered-stored", ("keeps.service", &keeps)) else { return };
    let start = begin(&m, "start", "keeps.service");
    open_gate(&m, 1);
    open_gate(&m, 2);
    read_answer(&start).expect("it has started");
    until("the file is kept", || is_kept(&m).then_some(()));
    let server = server(&m);
    // Its process gets the file under another number, for which that is closed once.
    for kind in ["restart", "stop"] {
        m.stop_server(&server);
        let job = begin(&m, kind, "keeps.service");
        m.expect_job("restart", "plain.service", "done");
        m.run(&["kill", "-CONT", &server]).expect("it is there");
        read_answer(&job).expect("it goes on");
        m.expect_job("restart", "plain.service", "done");
    }
    assert_eq!(m.lines("fds"), ["(unset)", "offered"]);
    until("the file is dropped", || (!is_kept(&m)).then_some(()));
}

/// A descriptor which it would take an hour to close is sent over a connection, which is left then.
fn leave_lingering(path: &Path, tcp: &TcpListener) {
    const LINGER: Option<Duration> = Some(Duration::from_secs(3600));
    let mut lingering = TcpStream::connect(tcp.local_addr().expect("bound")).expect("it listens");
    rustix::net::sockopt::set_socket_linger(&lingering, LINGER).expect("known");
    lingering.set_nonblocking(true).expect("it can be set");
    while lingering.write(&[0; 1 << 16]).is_ok() {}
    let connection = UnixStream::connect(path).expect("the manager listens");
    fdpass::send(connection.as_fd(), b"x", &[lingering.as_fd()]).expect("there is room");
    // It may be the last by then.
    std::thread::spawn(move || drop(lingering));
}

#[test]
fn what_is_sent_to_sockets_of_units_and_slow_to_close_holds_up_nobody() {
    const REFUSED: u64 = 20;
    let units = [
        ("door.socket", "[Socket]\nListenStream=/run/door\nAccept=yes\nMaxConnections=1"),
        ("door@.service", "[Service]\nExecStart=@P stay"),
        ("hall.socket", "[Socket]\nListenStream=/run/hall"),
        ("hall.service", "[Service]\nExecStart=@P stay"),
        ("yard.socket", "[Socket]\nListenStream=/run/yard\nFlushPending=yes"),
        ("yard.service", "[Service]\nExecStart=@P stay"),
        ("plain.service", PLAIN),
    ];
    let Some(m) = Machine::start("offered-sockets", &units) else { return };
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    m.expect_job("start", "door.socket", "done");
    m.expect_job("start", "hall.socket", "done");
    let _first = UnixStream::connect(m.inside("/run/door")).expect("the manager listens");
    let refused = || m.status("door.socket")["connections"]["refused"].as_u64();
    let manager = m.manager_pid().and_then(lab::pid_inside).expect("it runs").to_string();
    // Nobody is turned away before all is sent.
    m.stop_server(&manager);
    (0..REFUSED).for_each(|_| leave_lingering(&m.inside("/run/door"), &tcp));
    m.run(&["kill", "-CONT", &manager]).expect("it is there");
    until("all are refused", || (refused() == Some(REFUSED)).then_some(()));
    m.expect_job("restart", "plain.service", "done");
    leave_lingering(&m.inside("/run/hall"), &tcp);
    m.expect_job("start", "yard.socket", "done");
    m.expect_job("start", "yard.service", "done");
    (0..REFUSED).for_each(|_| leave_lingering(&m.inside("/run/yard"), &tcp));
    let mut last = UnixStream::connect(m.inside("/run/yard")).expect("it listens");
    m.expect_job("stop", "yard.service", "done");
    last.set_read_timeout(Some(lab::PATIENCE)).expect("setsockopt");
    assert_eq!(last.read(&mut [0]).expect("it is rejected"), 0);
    m.wait_for("yard.socket", "active/listening");
    for unit in ["hall.socket", "hall.service", "door.socket"] {
        m.expect_job("stop", unit, "done");
    }
    m.expect_job("restart", "plain.service", "done");
}
