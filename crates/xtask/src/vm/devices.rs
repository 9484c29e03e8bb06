//! `cargo xtask vm devices`: a machine with a volume group over three disks, of which one comes
//! late, an array of two, a btrfs of two, of which one comes late, an encrypted disk and one to swap
//! to. First the disks are made by lvm2, mdadm, cryptsetup, mkfs.btrfs, mkswap and mke2fs themselves;
//! then units that say nothing but `What=` wait for them, once without udev, where links, arrays and
//! volumes are the device daemon's doing, and once beside udev with Debian's rules. The encrypted
//! disk is opened by a service with the relations that systemd's generator gives it.
//!
//! At the end a volume is taken down by hand, manager and device daemon are killed, and it stays down.
//! What is swapped to by hand is a unit: one of its own, or that of the file that means it.
//!
//! Needs what `vm` needs, and lvm2, mdadm, cryptsetup-bin, btrfs-progs, dmsetup and udev.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bench;
use crate::command::root;
use crate::vm::{self, Kernel};

/// A boot takes less than a minute without hardware help; a busy machine takes longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks at the console.
const LOOKS_APART: Duration = Duration::from_millis(200);

pub(crate) const MODULES: [&str; 7] =
    ["virtio_pci", "virtio_scsi", "sd_mod", "dm-mod", "raid1", "ext4", "crc32c_generic"];

/// For what the disks of this machine hold besides.
const MORE_MODULES: [&str; 7] =
    ["btrfs", "dm-crypt", "xts", "ecb", "algif_skcipher", "algif_hash", "xxhash_generic"];

/// The same for programs.
const MORE_PROGRAMS: [&str; 4] =
    ["/usr/sbin/cryptsetup", "/usr/sbin/mkfs.btrfs", "/usr/sbin/swapon", "/usr/sbin/swapoff"];

/// Programs of the peers, which bring their libraries.
pub(crate) const PROGRAMS: [&str; 2] = ["/usr/sbin/lvm", "/usr/sbin/mdadm"];

/// Disks, by their place on the bus; the last ones come late.
const DISKS: [&str; 9] =
    ["vg0", "vg1", "md0", "md1", "crypt", "btrfs0", "swap", "vg-late", "btrfs-late"];

/// How many come late.
const LATE: usize = 2;

/// What the machine says when the late disk is to come.
const CUE: &str = "REPORT now the late disk";

/// One by one: some are part of some kernels, and then there is nothing to load.
const LOAD: &str = "ExecStart=-/bin/modprobe virtio_pci\nExecStart=-/bin/modprobe crc32c_generic\n\
    ExecStart=-/bin/modprobe ext4\nExecStart=-/bin/modprobe raid1\n\
    ExecStart=-/bin/modprobe dm-mod\nExecStart=-/bin/modprobe sd_mod\n\
    ExecStart=-/bin/modprobe btrfs\nExecStart=-/bin/modprobe dm-crypt\n\
    ExecStart=-/bin/modprobe ecb\nExecStart=-/bin/modprobe xts\nExecStart=-/bin/modprobe virtio_scsi\n";

pub(crate) const TARGETS: [(&str, &str); 6] = [
    ("default.target", "[Unit]\nWants=sysinit.target report.service\n"),
    ("sysinit.target", "[Unit]\nDefaultDependencies=no\n"),
    ("basic.target", "[Unit]\nDefaultDependencies=no\n"),
    ("local-fs-pre.target", "[Unit]\nDefaultDependencies=no\n"),
    ("local-fs.target", "[Unit]\nDefaultDependencies=no\n"),
    ("shutdown.target", "[Unit]\nDefaultDependencies=no\n"),
];

const MAKE: &str = "\
exec > /dev/console 2>&1
export DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
modprobe algif_skcipher; modprobe algif_hash
disk() { set -- /sys/bus/scsi/devices/*:0:$1:0/block/*; echo /dev/${1##*/}; }
while ! [ -b $(disk 8) ]; do sleep 1; done
vg0=$(disk 0) vg1=$(disk 1) md0=$(disk 2) md1=$(disk 3) crypt=$(disk 4) btrfs0=$(disk 5)
swap=$(disk 6) vg2=$(disk 7) btrfs1=$(disk 8)
lvm pvcreate -q $vg0 $vg1 $vg2 && lvm vgcreate -q data $vg0 $vg1 $vg2
lvm lvcreate -q -y -Zn -Wn -i 3 -l 6 -n spare data
lvm lvcreate -q -y -Zn -Wn -i 3 -l 100%FREE -n home data && mke2fs -F /dev/data/home
mdadm --create /dev/md/arr --run --metadata=1.2 --homehost=any --level=1 --raid-devices=2 \
  $md0 $md1 && mke2fs -F -L arr /dev/md/arr
mkdir /a /b; mount /dev/data/home /a && echo home > /a/name && umount /a
mount /dev/md/arr /b && echo arr > /b/name && umount /b
lvm vgchange -an data; mdadm --stop /dev/md/arr
echo -n secret > /key
cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /key \
  --uuid 11111111-2222-3333-4444-555555555555 $crypt
cryptsetup open --key-file /key $crypt secret && mke2fs -F /dev/mapper/secret
mkdir /c /d; mount -t ext2 /dev/mapper/secret /c && echo crypt > /c/name && umount /c
cryptsetup close secret
mkfs.btrfs -q -f -M -L both $btrfs0 $btrfs1
mount -t btrfs -o device=$btrfs0,device=$btrfs1 $btrfs0 /d && echo btrfs > /d/name && umount /d
mkswap -L swp $swap && echo REPORT made
/bin/warren --no-block poweroff
";

/// There is no generator of systemd in the machine: these are the manager's own to read.
const FSTAB: &str = "\
LABEL=arr  /arr  ext4  defaults,x-systemd.device-timeout=100  0 0
LABEL=swp  none  swap  sw,pri=7,nofail  0 0
";

const MOUNTS: [(&str, &str); 7] = [
    ("both.mount", "[Mount]\nWhat=/dev/disk/by-label/both\nWhere=/both\nType=btrfs\n"),
    ("secret.mount", "[Mount]\nWhat=/dev/mapper/secret\nWhere=/secret\nType=ext2\n"),
    (
        "dev-mapper-secret.device",
        "[Unit]\nRequires=systemd-cryptsetup@secret.service\n\
         After=systemd-cryptsetup@secret.service\n",
    ),
    (
        "systemd-cryptsetup@secret.service",
        "[Unit]\nDefaultDependencies=no\nIgnoreOnIsolate=true\nBefore=umount.target\n\
         Conflicts=umount.target\n\
         BindsTo=dev-disk-by\\x2duuid-11111111\\x2d2222\\x2d3333\\x2d4444\\x2d555555555555.device\n\
         After=dev-disk-by\\x2duuid-11111111\\x2d2222\\x2d3333\\x2d4444\\x2d555555555555.device\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nEnvironmentFile=-/etc/no-udev\n\
         ExecStart=/usr/sbin/cryptsetup open --key-file /key \
         /dev/disk/by-uuid/11111111-2222-3333-4444-555555555555 secret\n\
         ExecStop=/usr/sbin/cryptsetup close secret\n",
    ),
    ("home.mount", "[Mount]\nWhat=/dev/data/home\nWhere=/home\nType=ext4\n"),
    (
        "early.service",
        "[Unit]\nRequires=arr.mount secret.mount\nWants=dev-disk-by\\x2dlabel-swp.swap\n\
         After=arr.mount secret.mount dev-disk-by\\x2dlabel-swp.swap\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh /early.sh\n",
    ),
    (
        "report.service",
        "[Unit]\nRequires=home.mount both.mount early.service\n\
         After=home.mount both.mount early.service\n\
         [Service]\nType=oneshot\nKillMode=process\nExecStart=/bin/sh /report.sh\n",
    ),
];

const EARLY: &str = "\
exec > /dev/console 2>&1
echo REPORT array has $(cat /arr/name)
echo REPORT encrypted disk has $(cat /secret/name)
while read -r name kind size used priority; do
  echo REPORT swaps to a $kind at $priority
done < /proc/swaps
warren why home.mount
warren why both.mount
warren is-active home.mount && echo REPORT too early
warren is-active both.mount && echo REPORT too early
echo REPORT now the late disk
";

const REPORT: &str = "\
exec > /dev/console 2>&1
echo REPORT volume has $(cat /home/name)
echo REPORT two disks have $(cat /both/name)
warren devices | cat
[ -e /etc/no-udev ] && export DM_DISABLE_UDEV=1
[ -e /dev/mapper/data-spare ] && echo REPORT spare is up
lvm lvchange -an data/spare
dd if=/dev/zero of='/home/by hand' bs=1M count=8 2> /dev/null; chmod 600 '/home/by hand'
mkswap '/home/by hand' > /dev/null; swapon '/home/by hand'
until warren is-active 'home-by\\x20hand.swap'; do sleep 1; done
echo REPORT swap by hand is a unit
kill -9 $(pidof warren-deviced); kill -9 $(pidof warrend); sleep 1
until warren devices | grep 'vg data complete'; do sleep 1; done
[ -e /dev/mapper/data-spare ] || echo REPORT spare stays down
warren is-active home.mount arr.mount both.mount secret.mount && echo REPORT still there
ls -l /dev/disk/by-label
warren is-active 'home-by\\x20hand.swap' && echo REPORT swap by hand is a unit still
warren stop 'home-by\\x20hand.swap' 'dev-disk-by\\x2dlabel-swp.swap'
while read -r name kind size used priority; do
  echo REPORT left of swap: $kind
done < /proc/swaps
swapon '/home/by hand'; swapon /dev/disk/by-label/swp
until warren is-active 'dev-disk-by\\x2dlabel-swp.swap'; do sleep 1; done
until warren is-active 'home-by\\x20hand.swap'; do sleep 1; done
warren list --type swap
swapoff $(readlink -f /dev/disk/by-label/swp)
while warren is-active 'dev-disk-by\\x2dlabel-swp.swap'; do sleep 1; done
echo REPORT swap by hand ends a unit
/bin/warren --no-block poweroff
";

const EXPECTED: [&str; 20] = [
    "REPORT swap by hand is a unit",
    "REPORT swap by hand is a unit still",
    "REPORT swap by hand ends a unit",
    "REPORT spare is up",
    "REPORT spare stays down",
    "REPORT encrypted disk has crypt",
    "REPORT swaps to a partition at 7",
    "1 of 2 there",
    "REPORT two disks have btrfs",
    "REPORT left of swap: Type",
    "REPORT array has arr",
    "dev-data-home.device is inactive",
    "vg data: 2 of 3 there, waits for PV",
    "REPORT now the late disk",
    "REPORT volume has home",
    "vg data complete",
    "on /dev/sd",
    "gives /dev/data/home",
    "REPORT still there",
    "reboot: Power down",
];

/// What the device daemon says when it starts the group: once, whoever is killed.
const START: &str = "start: lvm vgchange";

const UNWANTED: [&str; 6] = [
    "REPORT too early",
    "Kernel panic",
    "did not appear",
    "start failed",
    "sandbox:",
    "left of swap: partition",
];

/// Boots the machine three times.
pub fn run() -> Result<()> {
    let kernel = vm::kernel()?;
    let directory = root().join("target/vm-devices");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).context("target/vm-devices")?;
    for disk in DISKS {
        let path = directory.join(disk);
        vm::quietly(Command::new("truncate").args(["-s", "128M"]).arg(path))?;
    }
    let made = boot(&kernel, &directory, "make", &DISKS, |tree| {
        unit(
            tree,
            "report.service",
            &format!(
                "[Service]\nType=oneshot\nKillMode=process\n{LOAD}ExecStart=/bin/sh /make.sh\n"
            ),
        )?;
        Ok(fs::write(tree.join("make.sh"), MAKE)?)
    })?;
    check(&made, &["REPORT made"], &["Kernel panic"])?;
    for (name, udev) in [("alone", false), ("beside-udev", true)] {
        let seen =
            boot(&kernel, &directory, name, &DISKS[..DISKS.len() - LATE], |tree| fill(tree, udev))?;
        check(&seen, &EXPECTED, &UNWANTED)?;
        let starts = seen.matches(START).count();
        ensure!(starts == 1, "the group was started {starts} times:\n{seen}");
        println!("vm devices, {name}: {} lines as expected", EXPECTED.len());
    }
    Ok(())
}

/// What waits for the disks, and what looks for them.
fn fill(tree: &Path, udev: bool) -> Result<()> {
    for (name, text) in MOUNTS {
        unit(tree, name, text)?;
    }
    fs::write(tree.join("etc/fstab"), FSTAB)?;
    fs::write(tree.join("early.sh"), EARLY)?;
    fs::write(tree.join("key"), "secret")?;
    if !udev {
        // Who opens devices makes their nodes itself.
        fs::write(tree.join("etc/no-udev"), "DM_DISABLE_UDEV=1\n")?;
    }
    fs::write(tree.join("report.sh"), REPORT)?;
    if udev {
        add_udev(tree)?;
    }
    add_daemon(tree, udev)
}

/// udev with all of the host's rules, under the names of its own units.
pub(crate) fn add_udev(tree: &Path) -> Result<()> {
    for program in ["/bin/udevadm", "/usr/sbin/dmsetup"] {
        add_program(tree, program)?;
    }
    fs::create_dir_all(tree.join("lib/systemd"))?;
    std::os::unix::fs::symlink("/bin/udevadm", tree.join("lib/systemd/systemd-udevd"))?;
    vm::quietly(Command::new("cp").args(["-a", "/lib/udev"]).arg(tree.join("lib")))?;
    for file in ["passwd", "group"] {
        fs::copy(Path::new("/etc").join(file), tree.join("etc").join(file))?;
    }
    unit(
        tree,
        "systemd-udevd.service",
        "[Unit]\nDefaultDependencies=no\nBefore=modules.service\n\
         [Service]\nType=notify\nExecStart=/lib/systemd/systemd-udevd\n",
    )?;
    unit(
        tree,
        "systemd-udev-trigger.service",
        "[Unit]\nDefaultDependencies=no\nWants=systemd-udevd.service\n\
         After=systemd-udevd.service\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/bin/udevadm trigger --action=add\n",
    )
}

pub(crate) fn unit(tree: &Path, name: &str, text: &str) -> Result<()> {
    Ok(fs::write(tree.join("etc/systemd/system").join(name), text)?)
}

/// The device daemon as it is installed, started when the modules are loaded.
pub(crate) fn add_daemon(tree: &Path, udev: bool) -> Result<()> {
    let name = "warren-deviced";
    vm::add_own(&bench::programs()?.join(name), &tree.join("usr/lib/warren").join(name))?;
    let text = fs::read_to_string(root().join("units/warren-deviced.service"))?;
    unit(
        tree,
        "warren-deviced.service",
        &text.replace("[Service]", "[Service]\nStandardError=tty"),
    )?;
    let modules = format!(
        "[Unit]\nDefaultDependencies=no\nBefore=warren-deviced.service\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\n{LOAD}"
    );
    unit(tree, "modules.service", &modules)?;
    let more = if udev { "Wants=systemd-udev-trigger.service\n" } else { "" };
    let wants = "[Unit]\nDefaultDependencies=no\nWants=warren-deviced.service modules.service\n";
    unit(tree, "sysinit.target", &format!("{wants}{more}"))
}

/// Boots a machine with these disks; returns its console.
fn boot(
    kernel: &Kernel,
    directory: &Path,
    name: &str,
    disks: &[&str],
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<String> {
    let directory = directory.join(name);
    let tree = directory.join("tree");
    vm::make_base(&tree)?;
    for (target, text) in TARGETS {
        unit(&tree, target, text)?;
    }
    for below in ["etc/lvm", "home", "arr", "both", "secret"] {
        fs::create_dir_all(tree.join(below))?;
    }
    // udev's rules name /sbin.
    std::os::unix::fs::symlink("usr/sbin", tree.join("sbin"))?;
    for program in PROGRAMS.iter().chain(&MORE_PROGRAMS) {
        add_program(&tree, program)?;
    }
    for command in ["kill", "pidof", "chmod", "readlink"] {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(command))?;
    }
    let modules = [&MODULES[..], &MORE_MODULES].concat();
    vm::copy_modules(kernel, &tree, &modules)?;
    fill(&tree)?;
    let archive = vm::pack(&directory, &tree)?;
    let console = directory.join("console.log");
    let monitor = directory.join("monitor");
    let mut machine = start(kernel, &archive, &console, &monitor, disks)?;
    let ended = watch(&mut machine, &console, &monitor);
    let _ = machine.kill();
    let _ = machine.wait();
    let text = fs::read_to_string(&console)?;
    match ended {
        Ok(()) => Ok(text),
        Err(error) => {
            println!("{text}");
            Err(error)
        }
    }
}

/// A program with the libraries that ldd(1) names.
pub(crate) fn add_program(tree: &Path, program: &str) -> Result<()> {
    let output = Command::new("ldd").arg(program).output().context("ldd")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut paths: BTreeSet<&str> =
        text.split_whitespace().filter(|word| word.starts_with('/')).collect();
    paths.insert(program);
    for path in paths {
        let target = tree.join(path.trim_start_matches('/'));
        fs::create_dir_all(target.parent().context("a program lies in a directory")?)?;
        fs::copy(path, target)
            .with_context(|| format!("{path}: apt-get install lvm2 mdadm fdisk cryptsetup-bin"))?;
    }
    Ok(())
}

fn start(
    kernel: &Kernel,
    archive: &Path,
    console: &Path,
    monitor: &Path,
    disks: &[&str],
) -> Result<Child> {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg", "-M", "q35", "-cpu", "max", "-m", "768", "-nographic"])
        .args(["-no-reboot", "-nodefaults", "-device", "virtio-scsi-pci,id=bus"])
        .arg("-monitor")
        .arg(format!("unix:{},server,nowait", monitor.display()))
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .args(["-append", "console=ttyS0 panic=-1 rdinit=/usr/lib/warren/warren-init"])
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(archive);
    for (place, disk) in DISKS.iter().enumerate() {
        let image = image(archive, disk);
        qemu.arg("-drive").arg(format!("file={},format=raw,if=none,id={disk}", image.display()));
        if disks.contains(disk) {
            qemu.arg("-device").arg(device(place, disk));
        }
    }
    qemu.stdin(Stdio::null()).spawn().context("apt-get install qemu-system-x86")
}

/// Images lie beside the directories of the boots.
fn image(archive: &Path, disk: &str) -> PathBuf {
    let top = archive.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    top.join(disk)
}

fn device(place: usize, disk: &str) -> String {
    format!("scsi-hd,bus=bus.0,scsi-id={place},drive={disk},serial={disk},id=dev-{disk}")
}

/// Waits for the end, and plugs the late disks in when it is asked for.
fn watch(machine: &mut Child, console: &Path, monitor: &Path) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    let mut is_plugged = false;
    loop {
        if let Some(status) = machine.try_wait()? {
            return match status.success() {
                true => Ok(()),
                false => bail!("qemu: {status}"),
            };
        }
        let text = fs::read(console).unwrap_or_default();
        if !is_plugged && String::from_utf8_lossy(&text).contains(CUE) {
            plug(monitor)?;
            is_plugged = true;
        }
        if Instant::now() > end {
            bail!("the machine did not power off");
        }
        std::thread::park_timeout(LOOKS_APART);
    }
}

fn plug(monitor: &Path) -> Result<()> {
    let mut stream = UnixStream::connect(monitor).context("the monitor of qemu")?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    for (place, disk) in DISKS.iter().enumerate().skip(DISKS.len() - LATE) {
        writeln!(stream, "device_add {}", device(place, disk))?;
    }
    // It reads a line when it pleases; who hangs up before is not heard.
    let mut said = [0; 4096];
    while stream.read(&mut said).is_ok_and(|bytes| bytes > 0) {}
    Ok(())
}

fn check(console: &str, expected: &[&str], unwanted: &[&str]) -> Result<()> {
    let missing: Vec<&&str> = expected.iter().filter(|line| !console.contains(**line)).collect();
    let found: Vec<&&str> = unwanted.iter().filter(|line| console.contains(**line)).collect();
    if missing.is_empty() && found.is_empty() {
        return Ok(());
    }
    println!("{console}");
    bail!("missing: {missing:?}; unwanted: {found:?}")
}
