//! `cargo xtask vm crash`: a machine whose process 1 makes a fault. Signals that somebody sends it are none, and change
//! nothing. Then a service breaks its program: there is a core dump, services go on, and the machine restarts, as the
//! manager's file says.
//!
//! Needs what `vm` needs.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::command::root;
use crate::vm;

const UNITS: [(&str, &str); 4] = [
    ("default.target", "[Unit]\nWants=report.service\n"),
    ("sysinit.target", "[Unit]\nDefaultDependencies=no\n"),
    ("basic.target", "[Unit]\nDefaultDependencies=no\n"),
    ("report.service", "[Service]\nType=oneshot\nExecStart=/bin/sh /report.sh\n"),
];

const SETTINGS: &str = "[Manager]\nCrashReboot=yes\nDumpCore=yes\n";

/// What is executed next, once the process has a signal to take, is no instruction: the last word that the kernel says of
/// it is where it waits.
const REPORT: &str = "\
exec > /dev/console 2>&1
kill -SEGV 1; kill -ABRT 1; sleep 1; /bin/warren status >/dev/null && echo REPORT answers
at=$(cat /proc/1/syscall); at=${at##* }
printf '\\017\\013' | dd of=/proc/1/mem bs=1 seek=$(($at)) conv=notrunc
kill -USR2 1
until [ -s /core ]; do sleep 1; done
echo REPORT goes on
sleep 1000
";

/// What busybox is called by besides.
const COMMANDS: [&str; 2] = ["printf", "kill"];

/// Lines that the console must have.
const EXPECTED: [&str; 5] = [
    "REPORT answers",
    "warren-init: process 1 has crashed: SIGILL",
    "warren-init: the machine ends in 10 s",
    "REPORT goes on",
    "reboot: Restarting system",
];

/// Boots the machine and looks at what it says.
pub fn run() -> Result<()> {
    let kernel = vm::kernel()?;
    let directory = root().join("target/vm-crash");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).context("target/vm-crash")?;
    let tree = directory.join("tree");
    vm::make_base(&tree)?;
    for (name, text) in UNITS {
        fs::write(tree.join("etc/systemd/system").join(name), text)?;
    }
    fs::write(tree.join("etc/systemd/system.conf"), SETTINGS)?;
    fs::write(tree.join("report.sh"), REPORT)?;
    for command in COMMANDS {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(command))?;
    }
    let archive = vm::pack(&directory, &tree)?;
    let (disk, console) = (directory.join("disk.img"), directory.join("console.log"));
    vm::make_disk(&disk)?;
    vm::boot(&kernel.image, &archive, &disk, &console)?;
    let said = fs::read_to_string(&console)?;
    let missing: Vec<&str> = EXPECTED.into_iter().filter(|line| !said.contains(line)).collect();
    if !missing.is_empty() || said.contains("Kernel panic") {
        println!("{said}");
        bail!("missing: {missing:?}");
    }
    println!("vm crash: {} lines as expected", EXPECTED.len());
    Ok(())
}
