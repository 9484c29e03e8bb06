//! `cargo xtask vm`: a whole machine with Warrener as process 1, under QEMU. It shows what neither
//! namespaces nor the machine at hand can: controllers applied, and storage taken apart at the end.
//!
//! The machine is an initial RAM file system of the static programs, busybox and the kernel modules
//! that it needs, and one disk. It powers itself off; then its console and its disk are looked at.
//! Needs a release build (`make build`) and Debian's qemu-system-x86, linux-image-cloud-amd64,
//! busybox-static, cpio and e2fsprogs; without them it says what is missing and ends with an error.

pub mod crash;
pub mod devices;
pub mod disks;
pub mod ending;
pub mod guest_tests;
pub mod host;
pub mod logins;
pub mod md;
pub mod records;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::bench;
use crate::command::root;

/// QEMU without hardware help boots it in less than a minute; a busy machine takes longer.
const SECONDS_MAX: u32 = 300;

/// Modules that are loaded in it; what they depend on comes with them.
const MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "loop"];

const BUSYBOX: &str = "/bin/busybox";

/// What a program names that wants shared libraries: ld.so(8).
const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";

/// What busybox is called by.
const COMMANDS: [&str; 17] = [
    "sh", "mount", "umount", "modprobe", "mkswap", "swapon", "mke2fs", "dd", "sleep", "cat",
    "echo", "mkdir", "ls", "setsid", "tail", "grep", "sed",
];

const UNITS: [(&str, &str); 15] = [
    ("default.target", "[Unit]\nWants=report.service\n"),
    ("sysinit.target", "[Unit]\nDefaultDependencies=no\n"),
    ("basic.target", "[Unit]\nDefaultDependencies=no\n"),
    ("shutdown.target", "[Unit]\nDefaultDependencies=no\n"),
    (
        "modules.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/bin/modprobe -a virtio_pci virtio_blk loop\n",
    ),
    (
        "mnt.mount",
        "[Unit]\nDefaultDependencies=no\nRequires=modules.service\nAfter=modules.service\n\
         [Mount]\nWhat=/dev/vda\nWhere=/mnt\nType=ext4\n",
    ),
    (
        "limits.service",
        "[Service]\nExecStart=/bin/sleep 1000\nMemoryMax=64M\nTasksMax=20\nCPUWeight=50\n\
         CPUQuota=40%\n",
    ),
    (
        "delegated.service",
        "[Unit]\nAfter=mnt.mount\n[Service]\nExecStart=/bin/sleep 1000\nDelegate=yes\n\
         IOReadBandwidthMax=/dev/vda 1M\nMemoryLimit=32M\n",
    ),
    // Nobody starts it.
    ("system.slice", "[Slice]\nTasksMax=500\n"),
    // Each asks for more memory than it may have, in a process that is not its main one.
    ("hungry.slice", "[Unit]\nDefaultDependencies=no\n"),
    (
        "hungry-stop.service",
        "[Service]\nType=oneshot\nSlice=hungry.slice\nMemoryMax=16M\nMemorySwapMax=0\n\
         ExecStart=/bin/sh -c 'tail /dev/zero; sleep 1000'\n",
    ),
    (
        "hungry-kill.service",
        "[Service]\nType=oneshot\nSlice=hungry.slice\nMemoryMax=16M\nMemorySwapMax=0\n\
         OOMPolicy=kill\nExecStart=/bin/sh -c 'tail /dev/zero; sleep 1000'\n",
    ),
    (
        "hungry-continue.service",
        "[Service]\nType=oneshot\nSlice=hungry.slice\nMemoryMax=16M\nMemorySwapMax=0\n\
         OOMPolicy=continue\nExecStart=/bin/sh -c 'tail /dev/zero; exit 0'\n",
    ),
    (
        "protected.service",
        "[Service]\nType=oneshot\nStandardOutput=file:/protected\nStandardError=inherit\n\
         ProtectSystem=strict\nReadWritePaths=/mnt\nPrivateTmp=yes\nPrivateDevices=yes\n\
         PrivateNetwork=yes\nPrivateUsers=yes\nProtectKernelTunables=yes\nProtectHome=yes\n\
         ProtectProc=invisible\nIPAddressDeny=any\nSetCredential=key:secret\n\
         SystemCallFilter=@system-service\nExecStart=/bin/sh /protected.sh\n",
    ),
    (
        "report.service",
        "[Unit]\nRequires=mnt.mount limits.service delegated.service\n\
         After=mnt.mount limits.service delegated.service\n\
         [Service]\nType=oneshot\nKillMode=process\nExecStart=/bin/sh /report.sh\n",
    ),
];

const REPORT: &str = "\
exec > /dev/console 2>&1
cd /sys/fs/cgroup/system.slice/limits.service
for f in memory.max pids.max cpu.weight cpu.max; do echo REPORT $f $(cat $f); done
echo REPORT queue $(cat /proc/sys/net/unix/max_dgram_qlen)
echo REPORT name $(cat /proc/sys/kernel/hostname) lo $(cat /sys/class/net/lo/flags)
read id </etc/machine-id; echo REPORT id ${#id}
[ -e /run/systemd/first-boot ] && echo REPORT first boot
echo REPORT mounted $(grep -c -e ' /sys/kernel/security ' -e ' /sys/fs/bpf ' -e ' /run/lock ' /proc/self/mounts)
echo REPORT slice pids.max $(cat ../pids.max)
sed -i -e '/^MemoryMax/d' -e s/TasksMax=20/TasksMax=30/ /etc/systemd/system/limits.service
sed -i s/500/600/ /etc/systemd/system/system.slice
/bin/warren refresh >/dev/null
for f in memory.max pids.max cpu.weight; do echo REPORT edited $f $(cat $f); done
echo REPORT edited slice $(cat ../pids.max)
cd ../delegated.service
for f in cgroup.controllers memory.max io.max; do echo REPORT delegated $f $(cat $f); done
[ $(cat pids.max) != max ] && echo REPORT DefaultTasksMax=
cd /
mkdir -p /tmp /var/tmp /root; echo host > /tmp/of-host
/bin/warren start protected.service; echo REPORT protected $?; sed 's/^/REPORT protected /' /protected
for policy in stop kill continue; do
    /bin/warren start hungry-$policy.service
    echo REPORT $policy $? $(/bin/warren show hungry-$policy.service | grep ^Result)
done
dd if=/dev/zero of=/mnt/swap bs=1M count=16; mkswap /mnt/swap; swapon /mnt/swap && echo REPORT swap
dd if=/dev/zero of=/mnt/loop.img bs=1M count=8; mke2fs -F /mnt/loop.img
mkdir -p /loop; mount -t ext4 -o loop /mnt/loop.img /loop && echo REPORT loop
echo data > /loop/file
cd /loop
setsid sleep 1000 &
/bin/warren --no-block poweroff
";

/// What the protected service finds.
const PROTECTED: &str = "\
for path in / /mnt /tmp /proc/sys/kernel/hostname /dev/vda; do
    file=$path; [ -d $path ] && file=$path/.written
    if [ ! -e $path ]; then echo $path none; elif (: >>$file) 2>/dev/null; then echo $path rw; else echo $path ro; fi
done
echo tmp $(ls /tmp) devices $(ls /dev | grep -c ^vd) users $(grep -c . /proc/self/uid_map)
echo net $(grep -c : /proc/net/dev) $(grep Seccomp: /proc/self/status)
echo credential $(cat $CREDENTIALS_DIRECTORY/key)
";

/// Lines that the console must have.
const EXPECTED: [&str; 36] = [
    "REPORT protected 0",
    "REPORT protected / ro",
    "REPORT protected /mnt rw",
    "REPORT protected /tmp rw",
    "REPORT protected /proc/sys/kernel/hostname ro",
    "REPORT protected /dev/vda none",
    "REPORT protected tmp devices 0 users 1",
    "REPORT protected net 1 Seccomp: 2",
    "REPORT protected credential secret",
    "REPORT name in-a-machine lo 0x9",
    "REPORT id 32",
    "REPORT first boot",
    "REPORT mounted 3",
    "REPORT stop 3 Result=oom-kill",
    "REPORT kill 3 Result=oom-kill",
    "REPORT continue 0 Result=success",
    "REPORT memory.max 67108864",
    "REPORT pids.max 20",
    "REPORT cpu.weight 50",
    "REPORT cpu.max 40000 100000",
    "REPORT queue 512",
    "REPORT slice pids.max 500",
    "REPORT edited memory.max max",
    "REPORT edited pids.max 30",
    "REPORT edited cpu.weight 50",
    "REPORT edited slice 600",
    "REPORT delegated cgroup.controllers cpuset cpu io memory hugetlb pids",
    "REPORT delegated memory.max 33554432",
    "REPORT delegated io.max 254:0 rbps=1000000 wbps=max riops=max wiops=max",
    "REPORT DefaultTasksMax=",
    "REPORT swap",
    "REPORT loop",
    "1 process still running after all units have stopped: sleep",
    "(loop0): unmounting",
    "The system is down. Shutdown took",
    "reboot: Power down",
];

/// What it must not have.
const UNWANTED: [&str; 5] =
    ["startup finished", "could not be released", "is in use by", "takes too long", "Kernel panic"];

/// Boots the machine and looks at what it leaves.
pub fn run() -> Result<()> {
    let kernel = kernel()?;
    let directory = root().join("target/vm");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).context("target/vm")?;
    let disk = directory.join("disk.img");
    make_disk(&disk)?;
    let archive = make_archive(&directory, &kernel)?;
    let console = directory.join("console.log");
    boot(&kernel.image, &archive, &disk, &console)?;
    check(&fs::read_to_string(&console)?)?;
    // Exit status 4 would be: errors are left.
    quietly(Command::new("fsck.ext4").args(["-f", "-n"]).arg(&disk))?;
    println!("vm: {} lines as expected, the disk is clean", EXPECTED.len());
    Ok(())
}

pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    pub(crate) modules: PathBuf,
}

/// The newest of Debian's cloud kernels.
pub(crate) fn kernel() -> Result<Kernel> {
    let names = fs::read_dir("/boot").context("/boot")?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let newest = names.filter(|name| name.starts_with("vmlinuz-") && name.contains("cloud")).max();
    let name =
        newest.context("no /boot/vmlinuz-*cloud*: apt-get install linux-image-cloud-amd64")?;
    let version = name.trim_start_matches("vmlinuz-");
    Ok(Kernel {
        image: Path::new("/boot").join(&name),
        modules: Path::new("/lib/modules").join(version),
    })
}

pub(crate) fn make_disk(disk: &Path) -> Result<()> {
    quietly(Command::new("truncate").args(["-s", "128M"]).arg(disk))?;
    quietly(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk))
}

/// The initial RAM file system.
fn make_archive(directory: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let tree = directory.join("tree");
    make_base(&tree)?;
    for (name, text) in UNITS {
        fs::write(tree.join("etc/systemd/system").join(name), text)?;
    }
    fs::write(tree.join("report.sh"), REPORT)?;
    fs::write(tree.join("protected.sh"), PROTECTED)?;
    fs::write(tree.join("etc/hostname"), "# what it is called\nin-a-machine\n")?;
    copy_modules(kernel, &tree, &MODULES)?;
    pack(directory, &tree)
}

/// What every machine has: our programs, busybox, directories.
pub(crate) fn make_base(tree: &Path) -> Result<()> {
    let programs = bench::programs()?;
    for below in ["bin", "usr/lib/warren", "etc/systemd/system", "dev", "proc", "sys", "run", "mnt"]
    {
        fs::create_dir_all(tree.join(below))?;
    }
    for name in ["warren-init", "warrend", "warren-exec"] {
        add_own(&programs.join(name), &tree.join("usr/lib/warren").join(name))?;
    }
    add_own(&programs.join("warren"), &tree.join("bin/warren"))?;
    add_busybox(tree, &COMMANDS)
}

/// Busybox, by these names.
fn add_busybox(tree: &Path, commands: &[&str]) -> Result<()> {
    let busybox = fs::read(BUSYBOX).context("apt-get install busybox-static")?;
    // One that wants libraries would not start in there, and the guest would wait for ever.
    let wants_libraries = busybox.windows(LOADER.len()).any(|bytes| bytes == LOADER);
    ensure!(!wants_libraries, "{BUSYBOX} is not static: apt-get install busybox-static");
    fs::create_dir_all(tree.join("bin"))?;
    fs::copy(BUSYBOX, tree.join("bin/busybox"))?;
    for command in commands {
        symlink("busybox", tree.join("bin").join(command))?;
    }
    Ok(())
}

/// A program of ours without what debuggers want: it is most of it, and the tree lies in memory.
pub(crate) fn add_own(program: &Path, to: &Path) -> Result<()> {
    quietly(Command::new("strip").arg("--strip-debug").arg("-o").arg(to).arg(program))
}

/// Packs the tree.
pub(crate) fn pack(directory: &Path, tree: &Path) -> Result<PathBuf> {
    let archive = directory.join("initrd.cpio");
    let pack = format!("find . | cpio --quiet -o -H newc > {}", archive.display());
    quietly(Command::new("sh").args(["-c", &pack]).current_dir(tree))?;
    Ok(archive)
}

/// Copies the modules with those that they depend on, by modules.dep(5).
pub(crate) fn copy_modules(kernel: &Kernel, tree: &Path, modules: &[&str]) -> Result<()> {
    let table = fs::read_to_string(kernel.modules.join("modules.dep")).context("modules.dep")?;
    let stem =
        |path: &str| path.rsplit('/').next().unwrap_or(path).split('.').next().map(str::to_owned);
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    for line in table.lines() {
        let Some((path, needs)) = line.split_once(':') else { continue };
        if modules.iter().any(|name| stem(path).as_deref() == Some(name)) {
            wanted.insert(path);
            wanted.extend(needs.split_whitespace());
        }
    }
    let relative = kernel.modules.strip_prefix("/").unwrap_or(&kernel.modules);
    let to = tree.join(relative);
    for path in wanted {
        let target = to.join(path);
        fs::create_dir_all(target.parent().context("a module lies in a directory")?)?;
        fs::copy(kernel.modules.join(path), target).with_context(|| path.to_owned())?;
    }
    fs::write(to.join("modules.dep"), table)?;
    Ok(())
}

pub(crate) fn boot(kernel: &Path, archive: &Path, disk: &Path, console: &Path) -> Result<()> {
    boot_within(SECONDS_MAX, kernel, archive, disk, console)
}

/// The same with options for how the disk is driven.
pub(crate) fn boot_slowly(
    kernel: &Path,
    archive: &Path,
    disk: &Path,
    drive: &str,
    console: &Path,
) -> Result<()> {
    boot_driven(Boot { seconds_max: SECONDS_MAX, kernel, archive, console }, disk, drive)
}

/// Boots the machine and waits until it powers off, so long at most.
pub(crate) fn boot_within(
    seconds_max: u32,
    kernel: &Path,
    archive: &Path,
    disk: &Path,
    console: &Path,
) -> Result<()> {
    boot_driven(Boot { seconds_max, kernel, archive, console }, disk, "")
}

fn boot_driven(boot: Boot<'_>, disk: &Path, drive: &str) -> Result<()> {
    let drive = format!("file={},format=raw,if=virtio{drive}", disk.display());
    let machine = ["-accel", "tcg", "-m", "512", "-drive", &drive];
    boot.until_off(&machine, "rdinit=/usr/lib/warren/warren-init")
}

/// A machine of QEMU that boots a kernel and an initrd.
#[derive(Clone, Copy)]
pub(crate) struct Boot<'a> {
    /// It is ended after so long, s.
    pub seconds_max: u32,
    pub kernel: &'a Path,
    pub archive: &'a Path,
    /// Takes what it writes to its serial console.
    pub console: &'a Path,
}

impl Boot<'_> {
    /// Boots it with these options of QEMU and this of the kernel, and waits until it powers off.
    pub fn until_off(self, machine: &[&str], kernel_option: &str) -> Result<()> {
        let status = Command::new("timeout")
            .arg(self.seconds_max.to_string())
            .args(["qemu-system-x86_64", "-M", "q35", "-cpu", "max"])
            .args(["-nographic", "-no-reboot", "-nodefaults", "-monitor", "none"])
            .arg("-serial")
            .arg(format!("file:{}", self.console.display()))
            .arg("-kernel")
            .arg(self.kernel)
            .arg("-initrd")
            .arg(self.archive)
            .args(machine)
            .args(["-append", &format!("console=ttyS0 panic=-1 {kernel_option}")])
            .stdin(Stdio::null())
            .status()
            .context("apt-get install qemu-system-x86")?;
        let Boot { seconds_max, console, .. } = self;
        ensure!(
            status.success(),
            "the machine did not power off within {seconds_max} s; see {}",
            console.display()
        );
        Ok(())
    }
}

fn check(console: &str) -> Result<()> {
    let missing: Vec<&str> = EXPECTED.into_iter().filter(|line| !console.contains(line)).collect();
    let unwanted: Vec<&str> = UNWANTED.into_iter().filter(|line| console.contains(line)).collect();
    if missing.is_empty() && unwanted.is_empty() {
        return Ok(());
    }
    println!("{console}");
    bail!("missing: {missing:?}; unwanted: {unwanted:?}")
}

pub(crate) fn quietly(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(())
}
