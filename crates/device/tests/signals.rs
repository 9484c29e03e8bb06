//! Signals at moments when nobody expects them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

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
