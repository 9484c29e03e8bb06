//! `cargo xtask vm records`: one disk, two boots. The recordings lie on a file system of its own that
//! is mounted after the manager was started and unmounted before the power goes off; the second boot
//! draws the shutdown of the first.
//!
//! Needs what `vm` needs.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::root;
use crate::vm;

/// Where the disk is mounted.
const LOG: &str = "var/log";

const MODULES: [&str; 2] = ["virtio_pci", "virtio_blk"];

const UNITS: [(&str, &str); 8] = [
    ("default.target", "[Unit]\nWants=slow.service report.service\n"),
    ("sysinit.target", "[Unit]\nDefaultDependencies=no\n"),
    ("basic.target", "[Unit]\nDefaultDependencies=no\n"),
    ("shutdown.target", "[Unit]\nDefaultDependencies=no\n"),
    (
        "modules.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/bin/modprobe -a virtio_pci virtio_blk\n",
    ),
    (
        "var-log.mount",
        "[Unit]\nDefaultDependencies=no\nRequires=modules.service\nAfter=modules.service\n\
         [Mount]\nWhat=/dev/vda\nWhere=/var/log\nType=ext4\n",
    ),
    (
        "slow.service",
        "[Unit]\nRequires=var-log.mount\nAfter=var-log.mount\n\
         [Service]\nExecStart=/bin/sleep 1000\nExecStop=/bin/sleep 1\n",
    ),
    (
        "report.service",
        "[Unit]\nAfter=slow.service\n[Service]\nKillMode=process\nExecStart=/bin/sh /report.sh\n",
    ),
];

/// The first boot finds no shutdown to draw.
const REPORT: &str = "\
exec > /dev/console 2>&1
set -- /var/log/warren/records/shutdown-*
if [ -e $1 ]
then echo REPORT second boot; /bin/warren chart shutdown; echo REPORT drawn
else echo REPORT first boot
fi
/bin/warren --no-block poweroff
";

/// What the first boot says, and what the second.
const EXPECTED: [&[&str]; 2] = [
    &["REPORT first boot", "The system is down. Shutdown took", "reboot: Power down"],
    &["REPORT second boot", "slow.service", "var-log.mount", "REPORT drawn", "reboot: Power down"],
];

/// Boots twice and looks at what was said.
pub fn run() -> Result<()> {
    let kernel = vm::kernel()?;
    let directory = root().join("target/vm-records");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).context("target/vm-records")?;
    let disk = directory.join("disk.img");
    vm::make_disk(&disk)?;
    let tree = directory.join("tree");
    vm::make_base(&tree)?;
    fs::create_dir_all(tree.join(LOG))?;
    for (name, text) in UNITS {
        fs::write(tree.join("etc/systemd/system").join(name), text)?;
    }
    fs::write(tree.join("report.sh"), REPORT)?;
    vm::copy_modules(&kernel, &tree, &MODULES)?;
    let archive = vm::pack(&directory, &tree)?;
    for (boot, expected) in EXPECTED.into_iter().enumerate() {
        let console = directory.join(format!("console-{boot}.log"));
        vm::boot(&kernel.image, &archive, &disk, &console)?;
        check(&console, expected)?;
    }
    vm::quietly(Command::new("fsck.ext4").args(["-f", "-n"]).arg(&disk))?;
    println!("vm records: the second boot draws the shutdown of the first");
    Ok(())
}

fn check(console: &Path, expected: &[&str]) -> Result<()> {
    let text = fs::read_to_string(console)?;
    let missing: Vec<&&str> = expected.iter().filter(|line| !text.contains(**line)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    println!("{text}");
    bail!("missing: {missing:?}")
}
