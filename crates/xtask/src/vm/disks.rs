//! `cargo xtask vm devices --disks N`: a machine that has N disks when it boots, each with a volume
//! group and a volume with a file system, and a service that needs all of them mounted. It is booted with
//! Warrener, without udev and beside it, and with Debian's own systemd, udev and lvm2's rules, one
//! after the other over copies of the same disks. What is told is when all were mounted, in seconds
//! since the kernel began, and whose CPU it took.
//!
//! By hand only: without hardware help a boot takes minutes. Needs what `vm devices` needs, and a
//! build of the examples of warren-device, which it makes itself.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::command::root;
use crate::vm::devices::{MODULES, PROGRAMS, TARGETS, add_daemon, add_program, add_udev, unit};
use crate::vm::{self, Kernel, quietly};

/// A boot that takes longer is given up; what it said until then is shown. A thousand disks take
/// udev more than half an hour without hardware help.
const PATIENCE: Duration = Duration::from_secs(2 * 3600);

/// Between two looks at the console.
const LOOKS_APART: Duration = Duration::from_millis(500);

/// Units of one disk bus: the disks of a target differ in their last number.
const LUNS: u32 = 8;

/// Most disks: targets of one bus, times units.
const DISKS_MAX: u32 = 255 * LUNS;

/// Who boots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Alone,
    BesideUdev,
    Debian,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Alone => "warrener-alone",
            Way::BesideUdev => "warrener-beside-udev",
            Way::Debian => "debian",
        }
    }

    fn init(self) -> &'static str {
        match self {
            Way::Debian => "/lib/systemd/systemd",
            _ => "/usr/lib/warren/warren-init",
        }
    }
}

const WAYS: [Way; 3] = [Way::Alone, Way::BesideUdev, Way::Debian];

/// CPU in hundredths of a second: own, the kernel's for it, and both of its children that ended; of
/// our own programs also each thread's.
const REPORT: &str = "\
exec > /dev/console 2>&1
read up rest < /proc/uptime
echo REPORT all volumes at $up
echo REPORT $(grep -c ' /m/' /proc/mounts) mounts
for p in /proc/[0-9]*; do
  read -r stat < $p/stat; set -- $stat
  [ $((${14}+${15}+${16}+${17})) -gt 20 ] && echo REPORT cpu $1 $2 ${14} ${15} ${16} ${17}
  case $2 in *warren*) for t in $p/task/*; do
    read -r stat < $t/stat; set -- $stat
    [ $((${14}+${15})) -gt 10 ] && echo REPORT thread $1 $2 ${14} ${15}
  done;; esac
done
read -r stat < /proc/stat; echo REPORT machine $stat
echo REPORT $(ls /dev/mapper | wc -l) nodes of volumes and one
echo o > /proc/sysrq-trigger
";

/// Where the figures of the last runs are kept, one for each way and count.
const RESULTS: &str = "devices-vm.json";

/// Ticks of the clock in which the kernel counts CPU.
const TICKS_PER_S: f64 = 100.0;

/// What a way of booting came to.
struct Boot {
    lines: Vec<String>,
    volumes_at_s: Option<f64>,
    /// Of the whole machine, from the beginning of its kernel to then.
    cpu_s: f64,
}

/// Boots the machine each way that is named; all of them by default.
pub fn run(count: u32, ways: &[&str]) -> Result<()> {
    ensure!((1..=DISKS_MAX).contains(&count), "1 to {DISKS_MAX} disks");
    let kernel = vm::kernel()?;
    let directory = root().join("target/vm-disks");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).context("target/vm-disks")?;
    let example = crate::bench::devices::build_example()?;
    let images = directory.join("made");
    quietly(Command::new(example).arg("make").arg(&images).args([&count.to_string(), "many"]))?;
    (0..count).try_for_each(|number| add_file_system(&images.join(format!("{number}.img"))))?;
    let mut results = kept_results();
    for way in WAYS.into_iter().filter(|way| ways.is_empty() || ways.contains(&way.name())) {
        let boot = boot(&kernel, &directory, &images, count, way)?;
        println!("\n{}, {count} disks", way.name());
        boot.lines.iter().for_each(|line| println!("  {line}"));
        let mounted_at_s = boot.volumes_at_s.context("not all volumes were there")?;
        let is_other =
            |row: &Value| (&row["way"], &row["disks"]) != (&json!(way.name()), &json!(count));
        results.retain(is_other);
        let date = warren_cli::render::date(warren_sys::time::realtime_ns() / 1000);
        results.push(json!({
            "way": way.name(), "disks": count, "mounted_at_s": mounted_at_s,
            "cpu_s": boot.cpu_s, "date": date,
        }));
        crate::bench::write(RESULTS, &results)?;
    }
    let _ = fs::remove_dir_all(&images);
    Ok(())
}

/// What other runs came to.
fn kept_results() -> Vec<Value> {
    let text = fs::read_to_string(root().join("bench/results").join(RESULTS)).unwrap_or_default();
    let all: Value = serde_json::from_str(&text).unwrap_or_default();
    all["results"].as_array().cloned().unwrap_or_default()
}

/// A file system on the volume, where the first extent lies.
fn add_file_system(image: &Path) -> Result<()> {
    let (at, size) = (format!("offset={}", 1 << 20), "4096k");
    let options = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E"];
    quietly(Command::new("mke2fs").args(options).arg(at).arg(image).arg(size))
}

fn boot(kernel: &Kernel, top: &Path, made: &Path, count: u32, way: Way) -> Result<Boot> {
    let directory = top.join(way.name());
    let tree = directory.join("tree");
    let images = directory.join("images");
    fill(kernel, &tree, count, way)?;
    quietly(Command::new("cp").args(["-r", "--sparse=always"]).arg(made).arg(&images))?;
    let archive = vm::pack(&directory, &tree)?;
    let console = directory.join("console.log");
    let mut machine = start(kernel, &archive, &console, &images, count, way)?;
    let ended = wait(&mut machine);
    let _ = machine.kill();
    let _ = machine.wait();
    let _ = fs::remove_dir_all(&images);
    let text = fs::read_to_string(&console)?;
    if let Err(error) = ended {
        println!("{text}");
        return Err(error);
    }
    Ok(read(&text))
}

fn read(console: &str) -> Boot {
    let lines = console.lines().filter_map(|line| line.split_once("REPORT ")).map(|(_, rest)| rest);
    let lines: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    let at = lines.iter().find_map(|line| line.strip_prefix("all volumes at ")?.parse().ok());
    let cpu = lines.iter().find_map(|line| line.strip_prefix("machine cpu "));
    // user, nice, system; idle, waiting; interrupts of both kinds.
    let ticks = cpu.into_iter().flat_map(str::split_whitespace).enumerate();
    let busy = ticks.filter(|(at, _)| matches!(at, 0..=2 | 5..=6));
    let ticks: f64 = busy.filter_map(|(_, word)| word.parse::<f64>().ok()).sum();
    Boot { lines, volumes_at_s: at, cpu_s: ticks / TICKS_PER_S }
}

/// The tree: the same units for all, other programs.
fn fill(kernel: &Kernel, tree: &Path, count: u32, way: Way) -> Result<()> {
    vm::make_base(tree)?;
    for (target, text) in TARGETS {
        unit(tree, target, text)?;
    }
    fs::create_dir_all(tree.join("etc/lvm"))?;
    std::os::unix::fs::symlink("usr/sbin", tree.join("sbin"))?;
    for program in PROGRAMS {
        add_program(tree, program)?;
    }
    std::os::unix::fs::symlink("busybox", tree.join("bin/wc"))?;
    vm::copy_modules(kernel, tree, &MODULES)?;
    fs::write(tree.join("report.sh"), REPORT)?;
    let mut text = "[Unit]\nDefaultDependencies=no\n".to_owned();
    for number in 0..count {
        let mount = format!("m-{number}.mount");
        writeln!(text, "Requires={mount}\nAfter={mount}").expect("memory takes all");
        fs::create_dir_all(tree.join(format!("m/{number}")))?;
        let what = format!("What=/dev/vg{number}/lv0\nWhere=/m/{number}\nType=ext4\n");
        unit(tree, &mount, &format!("[Unit]\nDefaultDependencies=no\n[Mount]\n{what}"))?;
    }
    text += "JobTimeoutSec=infinity\n[Service]\nType=oneshot\nExecStart=/bin/sh /report.sh\n";
    unit(tree, "report.service", &text)?;
    // What is slow here is no fault: no device is given up.
    for below in ["warren", "systemd"] {
        let directory = tree.join("etc").join(below).join("system.conf.d");
        fs::create_dir_all(&directory)?;
        fs::write(
            directory.join("slow.conf"),
            "[Manager]\nDefaultTimeoutStartSec=infinity\nDefaultDeviceTimeoutSec=infinity\n",
        )?;
    }
    match way {
        Way::Alone => add_daemon(tree, false),
        Way::BesideUdev => {
            add_udev(tree)?;
            add_daemon(tree, true)
        }
        Way::Debian => add_debian(tree),
    }
}

/// systemd with udev; lvm2's rules of Debian start groups by systemd-run.
fn add_debian(tree: &Path) -> Result<()> {
    add_udev(tree)?;
    for program in ["/lib/systemd/systemd", "/usr/bin/systemd-run", "/usr/bin/systemctl"] {
        add_program(tree, program)?;
    }
    for command in ["readlink", "cut", "expr"] {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(command))?;
    }
    add_daemon(tree, true)?;
    fs::remove_file(tree.join("etc/systemd/system/warren-deviced.service"))?;
    Ok(())
}

fn start(
    kernel: &Kernel,
    archive: &Path,
    console: &Path,
    images: &Path,
    count: u32,
    way: Way,
) -> Result<Child> {
    let mut qemu = Command::new("qemu-system-x86_64");
    let words = format!("console=ttyS0 panic=-1 loglevel=4 rdinit={}", way.init());
    qemu.args(["-accel", "tcg", "-M", "q35", "-cpu", "max", "-m", "2048", "-nographic"])
        .args(["-no-reboot", "-nodefaults", "-monitor", "none"])
        .args(["-device", "virtio-scsi-pci,id=bus"])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .args(["-append", &words])
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(archive);
    for number in 0..count {
        let image = images.join(format!("{number}.img"));
        let (target, lun) = (number / LUNS, number % LUNS);
        qemu.arg("-drive")
            .arg(format!("file={},format=raw,if=none,id=d{number}", image.display()))
            .arg("-device")
            .arg(format!(
                "scsi-hd,bus=bus.0,scsi-id={target},lun={lun},drive=d{number},serial=d{number}"
            ));
    }
    qemu.stdin(Stdio::null()).spawn().context("apt-get install qemu-system-x86")
}

fn wait(machine: &mut Child) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = machine.try_wait()? {
            ensure!(status.success(), "qemu: {status}");
            return Ok(());
        }
        std::thread::park_timeout(LOOKS_APART);
    }
    bail!("not all volumes were there after {} s", PATIENCE.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_read() {
        let boot =
            read("[ 1.0] x\r\n# REPORT all volumes at 12.34\r\nREPORT cpu 1 (init) 1 2 3 4\r\n");
        assert_eq!(boot.volumes_at_s, Some(12.34));
        assert_eq!(boot.lines, ["all volumes at 12.34", "cpu 1 (init) 1 2 3 4"]);
        assert_eq!(read("").volumes_at_s, None);
        assert_eq!(read("REPORT machine cpu 100 50 25 7 7 20 5 0 0 0\n").cpu_s, 2.0);
    }
}
