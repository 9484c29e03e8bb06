//! Signals at moments when nobody expects them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use warren_sys::namespace::{Namespaces, unshare};

/// The program that is asked first asks back: it ends nobody, and is answered.
#[test]
fn who_asks_before_the_daemon_listens_does_not_end_it() {
    const TEST: &str = "who_asks_before_the_daemon_listens_does_not_end_it";
    if unshare(Namespaces::NET).is_err() {
        warren_testkit::not_run_of(TEST, "needs a network namespace of its own (root)");
        return;
    }
    let top = std::env::temp_dir().join(format!("warren-signals-{}", std::process::id()));
    for dir in ["sys/class/block", "dev", "bin", "etc"] {
        fs::create_dir_all(top.join(dir)).expect("the tree can be made");
    }
    let lvm = top.join("bin/lvm");
    fs::write(&lvm, "#!/bin/sh\nkill -USR1 $PPID\n").expect("it can be written");
    fs::set_permissions(&lvm, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let option = |name: &str, below: &str| format!("--{name}={}", top.join(below).display());
    let ran = Command::new(env!("CARGO_BIN_EXE_warren-deviced"))
        .args(["--once", "--kernel", "--activate"])
        .args([option("sys", "sys"), option("dev", "dev"), option("udev-run", "udev")])
        .args([option("lvm-run", "lvm"), option("records", "records")])
        .env("PATH", format!("{}:/usr/bin:/bin", top.join("bin").display()))
        .env("LVM_SYSTEM_DIR", top.join("etc"))
        .output();
    let _ = fs::remove_dir_all(&top);
    let ran = ran.expect("the daemon can be started");
    assert!(ran.status.success(), "{}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
}

/// The process that reads disks sees no socket of the manager: the other one says for both that they are well.
#[test]
fn both_processes_together_say_that_they_are_well() {
    let top = std::env::temp_dir().join(format!("warren-well-{}", std::process::id()));
    for dir in ["sys/class/block", "dev", "etc"] {
        fs::create_dir_all(top.join(dir)).expect("the tree can be made");
    }
    let option = |name: &str, below: &str| format!("--{name}={}", top.join(below).display());
    let listener = UnixDatagram::bind(top.join("notify")).expect("a socket");
    listener.set_read_timeout(Some(Duration::from_secs(60))).expect("setsockopt");
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_warren-deviced"))
        .args(["--kernel", "--activate"])
        .args([option("sys", "sys"), option("dev", "dev"), option("udev-run", "udev")])
        .args([option("lvm-run", "lvm"), option("records", "records")])
        .env("PATH", top.join("etc"))
        .env("LVM_SYSTEM_DIR", top.join("etc"))
        .env("NOTIFY_SOCKET", top.join("notify"))
        .env("WATCHDOG_USEC", "20000")
        .spawn()
        .expect("the daemon can be started");
    let mut room = [0; 64];
    let mut hear = || listener.recv(&mut room).map(|count| room[..count].to_vec());
    let said = [hear(), hear(), hear()];
    let ended = (daemon.kill(), daemon.wait());
    let _ = fs::remove_dir_all(&top);
    assert!(ended.0.is_ok() && ended.1.is_ok(), "it was there: {ended:?}");
    for said in said {
        assert_eq!(said.expect("it says something"), b"WATCHDOG=1");
    }
}

/// Nor does a standard error that takes nothing, as a file on a full disk: what it has to say of itself is lost.
#[test]
fn what_cannot_be_said_does_not_end_the_daemon() {
    let top = std::env::temp_dir().join(format!("warren-unsaid-{}", std::process::id()));
    for dir in ["sys/class/block", "dev", "etc"] {
        fs::create_dir_all(top.join(dir)).expect("the tree can be made");
    }
    let option = |name: &str, below: &str| format!("--{name}={}", top.join(below).display());
    let full = fs::File::options().write(true).open("/dev/full").expect("the kernel has it");
    // It complains of lvm2, which it does not find.
    let ran = Command::new(env!("CARGO_BIN_EXE_warren-deviced"))
        .args(["--once", "--kernel", "--activate"])
        .args([option("sys", "sys"), option("dev", "dev"), option("udev-run", "udev")])
        .args([option("lvm-run", "lvm"), option("records", "records")])
        .env("PATH", top.join("etc"))
        .env("LVM_SYSTEM_DIR", top.join("etc"))
        .stderr(full)
        .status();
    let _ = fs::remove_dir_all(&top);
    assert!(ran.as_ref().is_ok_and(|status| status.success()), "{ran:?}");
}
