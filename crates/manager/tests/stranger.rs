//! A user who sends file descriptors that nobody can let go of to the manager's sockets: everybody else goes on.

mod lab;

use lab::{Machine, not_run};
use serde_json::json;
use warren_sys::seccomp;
use warren_testkit::{Sent, Stranger, wait_until};

const STRANGER: u32 = 65_534;
const NEEDS: &str = "root, /dev/fuse, a mount namespace and python3";

/// More than there may be processes for a user, and fewer than wait in a socket.
const MESSAGES: usize = 8;

const UNITS: &[(&str, &str)] = &[
    ("talks.service", "[Service]\nType=notify\nTimeoutStartSec=20\nExecStart=@P ready stay\n"),
    ("again.service", "[Service]\nType=notify\nTimeoutStartSec=20\nExecStart=@P ready stay\n"),
];

/// A machine whose kernel can refuse descriptors, or cannot.
fn machine(name: &'static str, units: &'static [(&str, &str)], is_old: bool) -> Option<Machine> {
    let start = move || {
        if is_old {
            seccomp::without_refusal().expect("a filter");
        }
        Machine::start(name, units)
    };
    // The filter is the thread's, and of what it starts.
    std::thread::spawn(start).join().expect("no panic")
}

/// Children of all its threads.
fn children(pid: i32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.map(|list| list.split_whitespace().count()).sum()
}

fn check_notify_socket(name: &'static str, is_old: bool) {
    let Some(m) = machine(name, UNITS, is_old) else { return };
    m.expect_job("start", "talks.service", "done");
    let sent = Sent { how: "datagram", count: MESSAGES, uid: STRANGER, text: "STATUS=x\n" };
    let manager = m.manager_pid().expect("it runs");
    let to = m.inside("/run/systemd/notify");
    let Some(stranger) = Stranger::send(&to, manager as u32, sent) else {
        return not_run(name, NEEDS);
    };
    wait_until("another socket is there", || {
        m.console().contains("opened a new socket in its place")
    });
    let most = warren_sys::letting_go::OF_ONE_USER_MAX + warren_sys::letting_go::QUEUES_MAX;
    assert!(children(manager) <= most, "{}", children(manager));
    m.expect_job("start", "again.service", "done");
    // The manager ends at once, whatever its processes wait for, and the next one goes on.
    assert!(m.kill_manager());
    wait_until("there is another manager", || m.manager_pid().is_some_and(|pid| pid != manager));
    m.expect_job("restart", "talks.service", "done");
    drop(stranger);
    m.expect_job("restart", "again.service", "done");
    assert!(m.try_call("Totals", &json!({})).is_some());
}

#[test]
fn services_are_heard_whatever_comes_to_the_notify_socket() {
    check_notify_socket("stranger-notify", false);
}

#[test]
fn services_are_heard_where_the_kernel_cannot_refuse_descriptors() {
    check_notify_socket("stranger-notify-old", true);
}

/// Where the kernel refuses descriptors at these sockets, none comes that far.
#[test]
fn connections_with_descriptors_have_a_few_processes_where_the_kernel_cannot_refuse_them() {
    /// Fewer than wait at a socket.
    const CONNECTIONS: usize = 100;
    let name = "stranger-connections";
    let Some(m) = machine(name, UNITS, true) else { return };
    let manager = m.manager_pid().expect("it runs");
    // Nobody but root can connect to it, unless somebody opens it.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(m.inside("/run/systemd/private"), mode).expect("it is there");
    let mut strangers = Vec::new();
    for (uid, socket) in [(STRANGER, "/run/warren/control"), (STRANGER - 1, "/run/systemd/private")]
    {
        let sent = Sent { how: "stream", count: CONNECTIONS, uid, text: "x" };
        let stranger = Stranger::send(&m.inside(socket), manager as u32, sent);
        let Some(stranger) = stranger else { return not_run(name, NEEDS) };
        assert_eq!(stranger.said, format!("sent {CONNECTIONS}"));
        strangers.push(stranger);
        m.totals();
    }
    // And one that keeps all others.
    let most = strangers.len() * warren_sys::letting_go::OF_ONE_USER_MAX + 1;
    wait_until("some are held up", || children(manager) > 0);
    m.expect_job("start", "talks.service", "done");
    assert!(children(manager) <= most, "{}", children(manager));
    assert!(m.kill_manager());
    wait_until("there is another manager", || m.manager_pid().is_some_and(|pid| pid != manager));
    m.expect_job("start", "again.service", "done");
    drop(strangers);
}

/// Whoever can connect to one socket holds up none of the others, of the same kind or over a network.
#[test]
fn connections_to_one_accepting_socket_hold_up_no_other() {
    use std::io::Read;
    /// More than there are processes for a socket, and than may wait for them.
    const CONNECTIONS: usize = 100;
    let units = [
        (
            "door.socket",
            "[Socket]\nListenStream=/run/door\nAccept=yes\nBacklog=4096\nMaxConnections=1",
        ),
        ("door@.service", "[Service]\nExecStart=@P stay\n"),
        ("other.socket", "[Socket]\nListenStream=/run/other\nAccept=yes\nBacklog=4096"),
        ("other@.service", "[Service]\nExecStart=/bin/echo here\nStandardOutput=socket"),
    ];
    let name = "stranger-doors";
    let Some(m) = Machine::start(name, &units) else { return };
    m.expect_job("start", "door.socket", "done");
    m.expect_job("start", "other.socket", "done");
    // All others are refused, so that process 1 is the last who has them.
    let first = std::os::unix::net::UnixStream::connect(m.inside("/run/door"));
    wait_until("the first one is served", || {
        !m.call("List", &json!({"patterns": "door@*"}))["units"]
            .as_array()
            .is_none_or(Vec::is_empty)
    });
    let manager = m.manager_pid().expect("it runs");
    let sent = Sent { how: "stream", count: CONNECTIONS, uid: STRANGER, text: "x" };
    let stranger = Stranger::send(&m.inside("/run/door"), manager as u32, sent);
    let Some(stranger) = stranger else { return not_run(name, NEEDS) };
    assert_eq!(stranger.said, format!("sent {CONNECTIONS}"));
    wait_until("no more are taken from there", || {
        m.console().contains("door.socket: cannot accept a connection")
    });
    let mut said = String::new();
    let mut other =
        std::os::unix::net::UnixStream::connect(m.inside("/run/other")).expect("it listens");
    other.set_read_timeout(Some(lab::PATIENCE)).expect("a socket");
    other.read_to_string(&mut said).expect("it is served");
    assert_eq!(said, "here\n");
    drop((first, stranger));
}
