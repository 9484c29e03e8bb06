//! `cargo xtask vm ending`: four machines. The first starts over twice without another kernel, from its
//! initial RAM file system to the disk and there by `soft-reboot.target`, with a service that goes on, and
//! runs a program at its very end. The programs of the second are replaced while they run. The third leaves
//! its end to an initial RAM file system, which unmounts the root. The fourth takes a stack apart on a slow
//! disk: a swap file on ext4 on a loop device on ext4 on the device-mapper on an MD mirror of two loop
//! devices. The fifth has another kernel loaded, is refused `kexec` before, and ends in that one at a time of
//! day to which the clock is set ahead.
//!
//! Needs what `vm` needs, and dmsetup, mdadm and kexec.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::root;
use crate::vm::devices::add_program;
use crate::vm::{self, Kernel};

const MODULES: [&str; 5] = ["virtio_pci", "virtio_blk", "loop", "raid1", "dm-mod"];

/// What busybox is called by besides.
const COMMANDS: [&str; 4] = ["losetup", "truncate", "cut", "date"];

/// What makes the stack, and loads another kernel.
const PROGRAMS: [&str; 3] = ["/usr/sbin/dmsetup", "/usr/sbin/mdadm", "/usr/sbin/kexec"];

/// So slow that an unmount takes longer than one that writes nothing may.
const DISK: &str = ",throttling.bps-write=3000000";

const UNITS: [(&str, &str); 9] = [
    ("default.target", "[Unit]\nWants=report.service kept.service\n"),
    ("sysinit.target", "[Unit]\nDefaultDependencies=no\n"),
    ("basic.target", "[Unit]\nDefaultDependencies=no\n"),
    ("shutdown.target", "[Unit]\nDefaultDependencies=no\n"),
    ("ctrl-alt-del.target", "[Unit]\nDefaultDependencies=no\nWants=typed.service\n"),
    (
        "typed.service",
        "[Unit]\nDefaultDependencies=no\nBefore=ctrl-alt-del.target\n\
         [Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo REPORT typed > /dev/console; echo > /run/typed'\n",
    ),
    (
        "modules.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/bin/modprobe -a virtio_pci virtio_blk loop raid1 dm-mod\n",
    ),
    (
        "kept.service",
        "[Unit]\nDefaultDependencies=no\nSurviveFinalKillSignal=yes\nConflicts=poweroff.target\n\
         [Service]\nExecStart=/bin/sleep 100000\n",
    ),
    (
        "report.service",
        "[Unit]\nRequires=modules.service\nAfter=modules.service kept.service\n\
         [Service]\nType=oneshot\nKillMode=process\nExecStart=/bin/sh /report.sh\n",
    ),
];

const STARTS_OVER: &str = "\
exec > /dev/console 2>&1
n=$(($(cat /run/count || echo 0) + 1)); echo $n > /run/count
pid=$(/bin/warren show kept.service | grep ^MainPID)
[ $n = 1 ] && echo $pid > /run/pid
[ \"$pid\" = \"$(cat /run/pid)\" ] && same=same
echo REPORT boot $n $same $(grep ' / ' /proc/mounts | tail -n 1 | cut -d' ' -f1-3)
case $n in
1) mkdir /run/nextroot; mount -t ext4 /dev/vda /run/nextroot; /bin/warren --no-block soft-reboot;;
2) /bin/warren --no-block start soft-reboot.target;;
*) at=/usr/lib/systemd/system-shutdown; mkdir -p $at; cat > $at/a <<'END'
#!/bin/sh
echo REPORT last $1 with $(grep -c '/ ext4 ro' /proc/mounts) read-only
END
   /bin/busybox chmod +x $at/a; /bin/warren --no-block poweroff;;
esac
";

/// Once it runs from the disk, its programs there are replaced, as by an upgrade.
const REPLACED: &str = "\
exec > /dev/console 2>&1
n=$(($(cat /run/count || echo 0) + 1)); echo $n > /run/count
case $n in
1) mkdir /run/nextroot; mount -t ext4 /dev/vda /run/nextroot; /bin/warren --no-block soft-reboot;;
*) for i in /usr/lib/warren/*; do /bin/busybox cp $i /new; /bin/busybox mv /new $i; done
   echo REPORT replaced; /bin/warren --no-block poweroff;;
esac
";

const STACK: &str = "\
exec > /dev/console 2>&1
export MDADM_NO_UDEV=1 DM_DISABLE_UDEV=1
mount -t ext4 /dev/vda /mnt
for i in 0 1; do truncate -s 24M /mnt/$i; losetup /dev/loop$i /mnt/$i; done
mdadm --create /dev/md0 --run --level=1 -n 2 --assume-clean /dev/loop0 /dev/loop1 < /dev/null
echo 0 30000 linear /dev/md0 0 | dmsetup create upper
dmsetup mknodes
mkdir -p /upper /top
mke2fs -F /dev/dm-0 > /dev/null; mount -t ext4 /dev/mapper/upper /upper
dd if=/dev/zero of=/upper/img bs=1M count=6; losetup /dev/loop2 /upper/img
mke2fs -F /dev/loop2 > /dev/null; mount -t ext4 /dev/loop2 /top
dd if=/dev/zero of=/top/swap bs=1M count=3; mkswap /top/swap; swapon /top/swap && echo REPORT stacked
dd if=/dev/zero of=/mnt/big bs=1M count=60
/bin/warren --no-block poweroff
";

const OTHER_KERNEL: &str = "\
exec > /dev/console 2>&1
if grep -q again /proc/cmdline; then
    mount -t ext4 /dev/vda /mnt && echo REPORT again, with $(ls /mnt | grep -c kernel)
    kill -INT 1; while [ ! -e /run/typed ]; do sleep 1; done
    date -s '2040-01-01 00:00:00' && /bin/warren shutdown --at 05:00 && date -s '2040-01-01 04:59:57'
else
    /bin/warren --no-block kexec
    mount -t ext4 /dev/vda /mnt
    kexec -s -l /mnt/kernel --initrd=/mnt/initrd.cpio --command-line=\"$(cat /proc/cmdline) again\"
    echo REPORT loaded $(cat /sys/kernel/kexec_loaded)
    /bin/warren --no-block kexec
fi
";

/// From the disk, with an initial RAM file system that was unpacked for the end: its program unmounts what
/// was the root. That there is one more mount below, and a file that was written last, tells whether it does.
const GOES_BACK: &str = "\
exec > /dev/console 2>&1
n=$(($(cat /run/count || echo 0) + 1)); echo $n > /run/count
case $n in
1) mkdir /run/nextroot; mount -t ext4 /dev/vda /run/nextroot; /bin/warren --no-block soft-reboot;;
*) at=/run/initramfs; mkdir -p $at/bin; /bin/busybox cp /bin/busybox $at/bin/
   mkdir /lower; mount -t tmpfs lower /lower
   cat > $at/shutdown <<'END'
#!/bin/busybox sh
echo REPORT back as $$ to $1, $# argument, root $(/bin/busybox ls /oldroot/report.sh)
for i in $(/bin/busybox grep ' /oldroot' /proc/mounts | /bin/busybox cut -d' ' -f2 | /bin/busybox sort -r); do
    /bin/busybox umount $i
done
echo REPORT left $(/bin/busybox grep -c oldroot /proc/mounts)
/bin/busybox poweroff -f
END
   /bin/busybox chmod +x $at/shutdown; /bin/warren --no-block poweroff;;
esac
";

/// What the disk has.
#[derive(Clone, Copy)]
enum Disk {
    /// Nothing.
    Empty,
    /// The root directory, again.
    Root,
    /// What the machine is started with.
    Kernel,
}

/// One machine: what it does, how its disk is driven, what it must say and what not.
struct Case {
    name: &'static str,
    script: &'static str,
    disk: Disk,
    drive: &'static str,
    expected: &'static [&'static str],
    unwanted: &'static [&'static str],
}

const CASES: [Case; 5] = [
    Case {
        name: "soft-reboot",
        script: STARTS_OVER,
        disk: Disk::Root,
        drive: "",
        expected: &[
            "REPORT boot 1 same",
            "switched the root directory to /run/nextroot",
            "REPORT boot 2 same /dev/vda / ext4",
            "keeping the root directory: /run/nextroot has no init",
            "REPORT boot 3 same /dev/vda / ext4",
            "REPORT last poweroff with 1 read-only",
            "reboot: Power down",
        ],
        unwanted: &["could not be taken apart", "Kernel panic"],
    },
    Case {
        name: "replaced",
        script: REPLACED,
        disk: Disk::Root,
        drive: "",
        expected: &[
            "REPORT replaced",
            "cannot make / read-only: in use by",
            "as its programs were replaced, process 1 makes that read-only",
            "reboot: Power down",
        ],
        unwanted: &["could not be taken apart", "warren-init: / cannot", "Kernel panic"],
    },
    Case {
        name: "initramfs",
        script: GOES_BACK,
        disk: Disk::Root,
        drive: "",
        expected: &[
            "REPORT back as 1 to poweroff, 1 argument, root /oldroot/report.sh",
            "(vda): unmounting",
            "REPORT left 0",
            "reboot: Power down",
        ],
        unwanted: &["could not be taken apart", "umount:", "Kernel panic"],
    },
    Case {
        name: "stack",
        script: STACK,
        disk: Disk::Empty,
        drive: DISK,
        expected: &[
            "REPORT stacked",
            "warrend: waiting for unmount:",
            " MiB of unwritten data",
            "(loop2): unmounting",
            "(dm-0): unmounting",
            "(vda): unmounting",
            "reboot: Power down",
        ],
        unwanted: &["could not be taken apart", "is in use by", "takes too long", "Kernel panic"],
    },
    Case {
        name: "kexec",
        script: OTHER_KERNEL,
        disk: Disk::Kernel,
        drive: "",
        expected: &[
            "No kernel is loaded to be started",
            "REPORT loaded 1",
            "kexec_core: Starting new kernel",
            "REPORT again, with 1",
            "REPORT typed",
            "reboot: Power down",
        ],
        unwanted: &["could not be taken apart", "recovering journal", "Kernel panic"],
    },
];

/// Boots all and looks at what they said and left.
pub fn run() -> Result<()> {
    let kernel = vm::kernel()?;
    for case in CASES {
        case.run(&kernel).with_context(|| case.name)?;
        println!(
            "vm ending: {}: {} lines as expected, the disk is clean",
            case.name,
            case.expected.len()
        );
    }
    Ok(())
}

impl Case {
    fn run(&self, kernel: &Kernel) -> Result<()> {
        let directory = root().join("target/vm-ending").join(self.name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).context("target/vm-ending")?;
        let tree = directory.join("tree");
        self.make_tree(kernel, &tree)?;
        let archive = vm::pack(&directory, &tree)?;
        let disk = directory.join("disk.img");
        vm::quietly(Command::new("truncate").args(["-s", "256M"]).arg(&disk))?;
        let mut make = Command::new("mkfs.ext4");
        match self.disk {
            Disk::Empty => {}
            Disk::Root => _ = make.arg("-d").arg(&tree),
            Disk::Kernel => {
                let holds = directory.join("holds");
                fs::create_dir(&holds).context("target/vm-ending")?;
                fs::copy(&kernel.image, holds.join("kernel")).context("the kernel")?;
                fs::copy(&archive, holds.join("initrd.cpio")).context("its archive")?;
                make.arg("-d").arg(holds);
            }
        }
        vm::quietly(make.args(["-q", "-F"]).arg(&disk))?;
        let console = directory.join("console.log");
        vm::boot_slowly(&kernel.image, &archive, &disk, self.drive, &console)?;
        self.check(&fs::read_to_string(&console)?)?;
        let said = Command::new("dumpe2fs").arg("-h").arg(&disk).output().context("e2fsprogs")?;
        ensure!(!String::from_utf8_lossy(&said.stdout).contains("needs_recovery"), "it is unclean");
        vm::quietly(Command::new("fsck.ext4").args(["-f", "-n"]).arg(&disk))
    }

    fn make_tree(&self, kernel: &Kernel, tree: &Path) -> Result<()> {
        vm::make_base(tree)?;
        for program in PROGRAMS {
            add_program(tree, program)?;
        }
        for command in COMMANDS {
            std::os::unix::fs::symlink("busybox", tree.join("bin").join(command))?;
        }
        let units = tree.join("etc/systemd/system");
        for (name, text) in UNITS {
            fs::write(units.join(name), text)?;
        }
        // As `make install` has them, for this tree.
        for name in ["soft-reboot.target", "systemd-soft-reboot.service"] {
            let text = fs::read_to_string(root().join("units").join(name))?;
            fs::write(units.join(name), text.replace("/usr/bin/", "/bin/"))?;
        }
        fs::write(tree.join("report.sh"), format!("PATH=/bin:/usr/sbin\n{}", self.script))?;
        vm::copy_modules(kernel, tree, &MODULES)
    }

    fn check(&self, console: &str) -> Result<()> {
        let missing: Vec<_> =
            self.expected.iter().filter(|line| !console.contains(**line)).collect();
        let unwanted: Vec<_> =
            self.unwanted.iter().filter(|line| console.contains(**line)).collect();
        if missing.is_empty() && unwanted.is_empty() {
            return Ok(());
        }
        println!("{console}");
        bail!("missing: {missing:?}; unwanted: {unwanted:?}")
    }
}
