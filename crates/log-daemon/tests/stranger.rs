//! File descriptors that nobody can let go of, as on a file system whose server never answers: the daemon takes some
//! with processes of which it has a few, and leaves the rest where they are.

mod daemon_lab;

use std::os::fd::AsFd;

use daemon_lab::{Lab, not_run, shown};
use warren_log_store::query::Expr;
use warren_sys::{fdpass, memfd, seccomp};
use warren_testkit::{Sent, Stranger, wait_until};

const STRANGER: u32 = 65_534;
/// More than there may be processes for a user, and fewer than wait in a socket.
const MESSAGES: usize = 8;
/// [`warren_sys::letting_go::OF_ONE_USER_MAX`], and one for the socket that was left.
const HELD_MAX: usize = warren_sys::letting_go::OF_ONE_USER_MAX + 1;
const NEEDS: &str = "needs root, /dev/fuse, a mount namespace and python3";

fn pid(lab: &Lab) -> u32 {
    lab.daemon.as_ref().expect("it runs").id()
}

/// Children of the daemon.
fn held(lab: &Lab) -> usize {
    let daemon = pid(lab);
    let path = format!("/proc/{daemon}/task/{daemon}/children");
    std::fs::read_to_string(path).expect("it runs").split_whitespace().count()
}

/// Threads of the daemon that have to do with files of others.
fn threads(lab: &Lab) -> usize {
    let daemon = pid(lab);
    let tasks = std::fs::read_dir(format!("/proc/{daemon}/task")).expect("it runs").flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "offered").count()
}

fn told(lab: &Lab, what: &str) -> usize {
    let told = lab.read(Expr::field("_TRANSPORT", "driver"));
    told.iter().filter(|entry| shown(entry, "MESSAGE").contains(what)).count()
}

fn assert_is_heard(lab: &Lab, number: usize) {
    let data = format!("MESSAGE=heard\nAFTER={number}\n");
    lab.native().send(data.as_bytes()).expect("the daemon is there");
    wait_until("an honest message is heard", || {
        !lab.read(Expr::field("AFTER", number.to_string())).is_empty()
    });
}

fn message_in_a_file(lab: &Lab, name: &str) -> warren_sys::Result<()> {
    let file = memfd::sealed("message", format!("MESSAGE={name}\nIN_FILE={name}\n").as_bytes());
    fdpass::send(lab.native().as_fd(), b"", &[file.expect("a memfd").as_fd()])
}

/// With a kernel that can refuse descriptors, and one that cannot.
fn check(how: &'static str, is_old: bool) -> bool {
    let begun = move || {
        if is_old {
            seccomp::without_refusal().expect("a filter");
        }
        let mut lab = Lab::new(&format!("stranger-{how}-{is_old}"));
        lab.start(&["--set", "RateLimitBurst=0"]);
        lab
    };
    // The filter is the thread's, and of what it starts.
    let mut lab = std::thread::spawn(begun).join().expect("no panic");
    message_in_a_file(&lab, "before").expect("room");
    assert_is_heard(&lab, 0);
    let path = lab.path("run/socket");
    let sent = Sent { how, count: MESSAGES, uid: STRANGER, text: "MESSAGE=of a stranger\n" };
    let Some(stranger) = Stranger::send(&path, pid(&lab), sent) else { return false };
    assert_is_heard(&lab, 1);
    wait_until("another socket is there", || told(&lab, "a new socket replaced this one") > 0);
    // The path is another socket's by now; a third message comes to it.
    assert_is_heard(&lab, 2);
    let is_refused = message_in_a_file(&lab, "meanwhile");
    let can_refuse = !is_old && {
        let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        fdpass::refuse_fds(socket.as_fd()).is_ok()
    };
    assert_eq!(is_refused.map_err(|e| e.errno), if can_refuse { Err(1) } else { Ok(()) });
    if can_refuse {
        assert_eq!(told(&lab, "a new socket replaced this one"), 1, "{}", stranger.said);
    }
    wait_until("no thread has to do with it", || threads(&lab) == 0);
    assert!(held(&lab) <= HELD_MAX + MESSAGES, "{}", held(&lab));
    if can_refuse {
        assert!(held(&lab) <= HELD_MAX, "{}", held(&lab));
    }
    // He who cannot close them is in nobody's way: SIGKILL ends the daemon, and the next one begins.
    lab.kill();
    lab.start(&["--set", "RateLimitBurst=0"]);
    assert_is_heard(&lab, 3);
    drop(stranger);
    message_in_a_file(&lab, "after").expect("room");
    wait_until("a message in a file", || !lab.read(Expr::field("IN_FILE", "after")).is_empty());
    lab.stop();
    assert_eq!(lab.read(Expr::field("IN_FILE", "before")).len(), 1);
    assert!(lab.read(Expr::field("MESSAGE", "of a stranger")).is_empty());
    true
}

#[test]
fn what_cannot_be_closed_stays_in_its_socket_and_another_takes_its_place() {
    if !["datagram", "file"].into_iter().all(|how| check(how, false)) {
        not_run(NEEDS);
    }
}

#[test]
fn a_kernel_that_cannot_refuse_descriptors_has_a_socket_more_for_each() {
    if !["datagram", "file"].into_iter().all(|how| check(how, true)) {
        not_run(NEEDS);
    }
}

/// When all is let go of, files are messages again.
#[test]
fn files_are_taken_again_when_nothing_is_held_up() {
    let mut lab = Lab::new("stranger-again");
    lab.start(&["--set", "RateLimitBurst=0"]);
    let sent = Sent { how: "datagram", count: MESSAGES, uid: STRANGER, text: "MESSAGE=x\n" };
    let Some(stranger) = Stranger::send(&lab.path("run/socket"), pid(&lab), sent) else {
        return not_run(NEEDS);
    };
    wait_until("another socket is there", || told(&lab, "a new socket replaced this one") > 0);
    drop(stranger);
    wait_until("nothing is held up", || held(&lab) == 0);
    wait_until("files are taken", || message_in_a_file(&lab, "again").is_ok());
    wait_until("a message in a file", || !lab.read(Expr::field("IN_FILE", "again")).is_empty());
    lab.stop();
}
