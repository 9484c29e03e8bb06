//! `OpenFile=` (systemd.service(5)): files that services are given opened.

mod lab;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixListener};

use lab::Machine;
use serde_json::json;

/// Waits until a service that runs once is over, and says what it printed.
#[track_caller]
fn printed(m: &Machine, unit: &str, result: &str) -> String {
    m.expect_job("start", unit, result);
    std::fs::read_to_string(m.inside("/run/out")).unwrap_or_default()
}

/// Files are opened as root and as the host sees them, for who could do neither, and come behind sockets in the order
/// of the files. Each option does what it says, and commands beside the program are given none.
#[test]
fn a_service_is_given_files_that_it_could_not_open() {
    const SECRET: &str = "[Service]\nType=oneshot\nUser=daemon\nInaccessiblePaths=/run/hidden\n\
        OpenFile=/run/hidden/secret:key:read-only\nOpenFile=/run/hidden/log::append\n\
        OpenFile=/run/hidden/none:gone:graceful\nOpenFile=/run/hidden/old:old:truncate\nOpenFile=/run/hidden/rw\n\
        ExecStartPre=/bin/sh -c 'echo before $$LISTEN_FDS >&2'\n\
        ExecStart=/bin/sh -c 'exec >/run/open/out; echo $LISTEN_FDNAMES $LISTEN_FDS; test $$LISTEN_PID = $$$$ || echo pid; \
        cat <&3; cat /run/hidden/secret 2>/dev/null || echo hidden; (echo x >&3) 2>/dev/null || echo read-only; \
        echo more >&4; echo new >&5; cat <&6; echo over >&6; ls /proc/self/fd | wc -l' one two\n";
    let Some(m) = Machine::start("open-files", &[("secret.service", SECRET)]) else { return };
    m.run(&["mkdir", "-m", "0777", "/run/open"]).expect("made");
    m.run(&["mkdir", "-m", "0700", "/run/hidden"]).expect("made");
    for (name, text) in
        [("secret", "s3cret\n"), ("log", "first\n"), ("old", "old\n"), ("rw", "rw\n")]
    {
        let path = m.inside(&format!("/run/hidden/{name}"));
        std::fs::write(&path, text).expect("it is written");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("it is changed");
    }
    m.expect_job("start", "secret.service", "done");
    let read = |path: &str| std::fs::read_to_string(m.inside(path)).expect("it is there");
    assert_eq!(
        read("/run/open/out"),
        "key:log:old:rw 4\ns3cret\nhidden\nread-only\nrw\n8\n",
        "{}",
        m.console()
    );
    assert_eq!(read("/run/hidden/secret"), "s3cret\n");
    assert_eq!(read("/run/hidden/log"), "first\nmore\n");
    assert_eq!(read("/run/hidden/old"), "new\n");
    assert_eq!(read("/run/hidden/rw"), "rw\nover\n");
}

/// Sockets of the file system are connected to, of whichever type. What is missing prevents the start, unless it may be
/// missing; without any there is nothing to be told of.
#[test]
fn sockets_are_connected_to_and_what_is_missing_is_said() {
    const TALK: &str = "[Service]\nType=oneshot\nOpenFile=/run/stream:s\nOpenFile=/run/datagram:d\n\
        ExecStart=/bin/sh -c 'echo one >&3; read x <&3; echo two >&4; echo heard $$x >/run/out'\n";
    const NONE: &str = "[Service]\nType=oneshot\nOpenFile=/run/none:n:graceful\n\
        ExecStart=/bin/sh -c 'echo \"<$LISTEN_FDS$LISTEN_FDNAMES$$LISTEN_PID>\" >/run/out'\n";
    const FAILS: &str =
        "[Service]\nType=oneshot\nOpenFile=/run/none\nExecStart=/bin/sh -c 'echo ran >/run/ran'\n";
    const DEAF: &str = "[Service]\nType=oneshot\nOpenFile=/run/deaf\nExecStart=/bin/true\n";
    let units = [
        ("talk.service", TALK),
        ("none.service", NONE),
        ("fails.service", FAILS),
        ("deaf.service", DEAF),
    ];
    let Some(m) = Machine::start("open-sockets", &units) else { return };
    let stream = UnixListener::bind(m.inside("/run/stream")).expect("a socket");
    let datagram = UnixDatagram::bind(m.inside("/run/datagram")).expect("a socket");
    datagram.set_read_timeout(Some(lab::PATIENCE)).expect("setsockopt");
    drop(UnixListener::bind(m.inside("/run/deaf")).expect("a socket"));
    let heard = std::thread::spawn(move || {
        let (mut connection, _) = stream.accept().expect("a connection");
        connection.write_all(b"you\n").expect("somebody reads");
        std::io::read_to_string(connection).expect("text")
    });
    assert_eq!(printed(&m, "talk.service", "done"), "heard you\n", "{}", m.console());
    assert_eq!(heard.join().expect("it is heard"), "one\n");
    let mut said = [0; 16];
    let length = datagram.recv(&mut said).expect("a message");
    assert_eq!(&said[..length], b"two\n");
    assert_eq!(printed(&m, "none.service", "done"), "<>\n");
    for (unit, what) in [("fails.service", "stat /run/none"), ("deaf.service", "connect /run/deaf")]
    {
        m.expect_job("start", unit, "failed");
        let status = m.status(unit).to_string();
        assert!(status.contains(what) && status.contains("step FDS failed"), "{status}");
    }
    assert!(!m.inside("/run/ran").exists());
}

/// A pipe that nobody reads or writes, a file that is a directory, and a manager that is killed while a helper opens
/// a file hold up no other unit.
#[test]
fn what_is_opened_holds_up_nobody() {
    const PIPE: &str =
        "[Service]\nOpenFile=/run/pipe:p:read-only\nExecStart=@P fds:@D/out/fds stay\n";
    const DIRECTORY: &str = "[Service]\nType=oneshot\nOpenFile=/run\nExecStart=/bin/true\n";
    const OTHER: &str = "[Service]\nType=oneshot\nExecStart=/bin/true\n";
    let units =
        [("pipe.service", PIPE), ("directory.service", DIRECTORY), ("other.service", OTHER)];
    let Some(m) = Machine::start("open-pipe", &units) else { return };
    m.run(&["mkfifo", "/run/pipe"]).expect("made");
    m.expect_job("start", "pipe.service", "done");
    m.expect_job("start", "directory.service", "failed");
    m.expect_job("start", "other.service", "done");
    lab::until("it has said what it was given", || (m.lines("fds") == ["p"]).then_some(()));
    assert!(m.kill_manager());
    m.wait_for("pipe.service", "active/running");
    m.call("Job", &json!({"type": "restart", "unit": "pipe.service", "wait": true}));
    lab::until("it was given the same again", || (m.lines("fds") == ["p", "p"]).then_some(()));
}
