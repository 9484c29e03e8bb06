//! `cargo xtask bench devices`: the figures of SPECIFICATION.md's table of devices.
//!
//! For each size there is one group of N disks, and then N groups of one: images behind loop devices,
//! in a mount namespace with a `/dev` that has no others and a `/run/lvm` of its own. One after the
//! other, in one run, over the same disks: warren-deviced as it is installed, in its sandbox, which
//! looks, reads and decides; lvm2's event way, a `pvscan` for each disk, and its activation; lvm2's
//! direct way, one `vgchange` over all. Opens and reads of disks and the system calls of a disk that
//! arrives later are counted by strace, and a burst of events is heard. Nothing is activated: lvm2
//! is told `--driverloaded n`.
//!
//! 10,000 disks are simulated: images without loop devices and a tree like sysfs.
//!
//! Arguments: `N...`; default: 64 256 1015. Needs root, a release build (`make build`), lvm2, strace
//! and GNU time.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use warren_sys::signal::{SIGTERM, SIGUSR1};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use warren_sys::{process, storage};

use crate::command::output;

const SIZES_DEFAULT: [u32; 3] = [64, 256, 1015];

/// Sizes of the simulated growth.
const SIMULATED: [u32; 2] = [1_000, 10_000];

/// The first loop device that is used: others are left alone.
const BASE: u32 = 5_000;

/// Events of the burst.
const BURST: u32 = 2_000;

/// What is measured is repeated so often that about so many disks were looked at: GNU time knows
/// hundredths of a second.
const DISKS_PER_MEASURE: u32 = 2_000;

const LVM_CONF: &str = "\
devices { use_devicesfile=0 obtain_device_list_from_udev=0 external_device_info_source=\"none\" hints=\"none\" }
global { use_lvmlockd=0 use_lvmpolld=0 notify_dbus=0 event_activation=1 }
activation { udev_sync=0 udev_rules=0 monitoring=0 }
backup { backup=0 archive=0 }
";

/// Links that udev would make for each disk.
const LINKS: u32 = 4;

/// Measures, prints the table, writes `bench/results/devices.json`.
pub fn run(args: &[&str]) -> Result<()> {
    if let ["--inside", scratch, shape, count] = args {
        return inside(Path::new(scratch), shape, count.parse()?);
    }
    let sizes: Vec<u32> = match args {
        [] => SIZES_DEFAULT.to_vec(),
        _ => args.iter().map(|word| word.parse().context("N")).collect::<Result<_>>()?,
    };
    for program in ["/usr/bin/time", "/usr/bin/strace", "/usr/sbin/lvm"] {
        ensure!(Path::new(program).exists(), "NOT RUN: {program} is not installed");
    }
    super::programs()?;
    build_example()?;
    let scratch = std::env::temp_dir().join(format!("warren-bench-devices-{}", std::process::id()));
    let measured = measure(&scratch, &sizes);
    let _ = fs::remove_dir_all(&scratch);
    super::write("devices.json", &measured?)
}

/// Builds what makes images, beside the programs and as they are built; returns where it is.
pub fn build_example() -> Result<PathBuf> {
    let built = example()?;
    let host = built.ancestors().nth(3).and_then(Path::file_name).and_then(|name| name.to_str());
    let words = ["build", "--locked", "--release", "--package", "warren-device", "--examples"];
    let target = ["--target", host.context("the programs lie below the host's name")?];
    let flags = [("RUSTFLAGS", "-C target-feature=+crt-static")];
    crate::command::cargo_with(&[&words[..], &target].concat(), &flags)?;
    Ok(built)
}

fn example() -> Result<PathBuf> {
    Ok(super::programs()?.join("examples/bench"))
}

fn measure(scratch: &Path, sizes: &[u32]) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for &count in sizes {
        for shape in ["one", "many"] {
            let disks = Disks::make(&scratch.join(format!("{shape}-{count}")), shape, count)?;
            let text = disks.measure(shape)?;
            rows.extend(text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
        }
    }
    for count in SIMULATED {
        rows.push(simulate(scratch, count)?);
    }
    Ok(rows)
}

/// Images behind loop devices; gone when dropped.
struct Disks {
    directory: PathBuf,
    count: u32,
}

impl Disks {
    fn make(directory: &Path, shape: &str, count: u32) -> Result<Disks> {
        fs::create_dir_all(directory)?;
        let images = directory.join("img");
        let mut make = Command::new(example()?);
        quietly(make.arg("make").arg(&images).args([&count.to_string(), shape]))?;
        let disks = Disks { directory: directory.to_owned(), count };
        for number in 0..count {
            disks.attach(number)?;
        }
        fs::create_dir_all(directory.join("etc"))?;
        fs::write(directory.join("etc/lvm.conf"), LVM_CONF)?;
        Ok(disks)
    }

    fn attach(&self, number: u32) -> Result<()> {
        attach(&self.directory, number)
    }

    /// In namespaces of its own, by this program.
    fn measure(&self, shape: &str) -> Result<String> {
        let own = std::env::current_exe()?;
        let child = Command::new("unshare")
            .args(["-m", "--propagation", "private"])
            .arg(own)
            .args(["bench", "devices", "--inside"])
            .arg(&self.directory)
            .args([shape, &self.count.to_string()])
            .stderr(Stdio::inherit())
            .output()
            .context("unshare")?;
        ensure!(child.status.success(), "measuring {} disks: {}", self.count, child.status);
        Ok(String::from_utf8(child.stdout)?)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for number in BASE..BASE + self.count {
            let _ = Command::new("losetup").arg("-d").arg(format!("/dev/loop{number}")).status();
            let _ = storage::remove_loop(number);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether a text begins with the name of a disk that is used.
fn is_disk(text: &str) -> bool {
    let digits = text.strip_prefix("loop").unwrap_or_default();
    let digits = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().is_ok_and(|number: u32| number >= BASE)
}

fn attach(directory: &Path, number: u32) -> Result<()> {
    let image = directory.join(format!("img/{number}.img"));
    quietly(Command::new("losetup").arg(node(number)).arg(image))
}

fn node(number: u32) -> String {
    format!("/dev/loop{}", BASE + number)
}

fn quietly(command: &mut Command) -> Result<()> {
    crate::vm::quietly(command)
}

// ---- inside of the namespaces: rows go to standard output, words for people to standard error ----

fn inside(directory: &Path, shape: &str, count: u32) -> Result<()> {
    make_dev(directory, count)?;
    let case = Case { directory, shape, count };
    eprintln!("\n{} ({count} disks)", case.label());
    case.ours()?;
    case.ours_counted()?;
    case.lvm()?;
    case.later()?;
    if shape == "many" {
        case.burst()?;
    }
    Ok(())
}

/// A `/dev` with these disks and no others, and a `/run/lvm`.
fn make_dev(directory: &Path, count: u32) -> Result<()> {
    let dev = directory.join("dev");
    let by_id = dev.join("disk/by-id");
    fs::create_dir_all(&dev)?;
    fs::create_dir_all("/run/lvm")?;
    for place in [&dev, Path::new("/run/lvm")] {
        quietly(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(place))?;
    }
    fs::create_dir_all(&by_id)?;
    let disks = (0..count).map(node);
    let nodes = ["null", "zero", "urandom", "loop-control"].map(|name| format!("/dev/{name}"));
    quietly(Command::new("cp").arg("-a").args(nodes).args(disks).arg(&dev))?;
    for number in 0..count {
        for link in 0..LINKS {
            let name = format!("wwn-{link}-{number}");
            symlink(format!("../../loop{}", BASE + number), by_id.join(name))?;
        }
    }
    quietly(Command::new("mount").arg("--move").arg(&dev).arg("/dev"))
}

/// One size and shape.
struct Case<'a> {
    directory: &'a Path,
    shape: &'a str,
    count: u32,
}

/// What GNU time says of some runs, for one of them.
#[derive(Clone, Copy)]
struct Cost {
    wall_s: f64,
    cpu_s: f64,
}

impl Case<'_> {
    fn label(&self) -> &'static str {
        if self.shape == "one" { "one group" } else { "a group for each disk" }
    }

    fn row(&self, what: &str, cost: Cost, more: Value) {
        eprintln!("  {what:<44} CPU {:8.3} s, wall {:8.3} s  {more}", cost.cpu_s, cost.wall_s);
        self.put(what, json!({"cpu_s": cost.cpu_s, "wall_s": cost.wall_s}), more);
    }

    fn put(&self, what: &str, figures: Value, more: Value) {
        let mut row = json!({"groups": self.label(), "disks": self.count, "what": what,
            "load": load()});
        let fields = row.as_object_mut().expect("it was made as one");
        for part in [figures, more] {
            fields.extend(part.as_object().cloned().unwrap_or_default());
        }
        println!("{row}");
    }

    /// Runs a shell's words and says what one of its runs costs.
    fn time(&self, script: &str, runs: u32) -> Result<Cost> {
        let file = self.directory.join("time");
        let script = format!("for run in $(seq {runs}); do {script}; done");
        let status = Command::new("/usr/bin/time")
            .args(["-f", "%e %U %S", "-o"])
            .arg(&file)
            .args(["bash", "-c", &script])
            .env("LVM_SYSTEM_DIR", self.directory.join("etc"))
            .env("LVM_SUPPRESS_FD_WARNINGS", "1")
            .env("DM_DISABLE_UDEV", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        // Without device-mapper an activation fails after all that is measured.
        ensure!(status.code().is_some(), "{script}: {status}");
        let text = fs::read_to_string(&file)?;
        let last = text.lines().last().unwrap_or_default();
        let parts: Vec<f64> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [wall, user, system] = parts[..] else { anyhow::bail!("GNU time said: {text}") };
        let each = |seconds: f64| seconds / f64::from(runs);
        Ok(Cost { wall_s: each(wall), cpu_s: each(user + system) })
    }

    fn repeats(&self) -> u32 {
        (DISKS_PER_MEASURE / self.count).max(1)
    }

    fn daemon(&self) -> Result<String> {
        Ok(super::programs()?.join("warren-deviced").display().to_string())
    }

    fn ours(&self) -> Result<()> {
        let script = format!("{} --once --kernel", self.daemon()?);
        let said = Command::new("bash")
            .args(["-c", &script])
            .env("LVM_SYSTEM_DIR", self.directory.join("etc"))
            .output()?;
        let started = String::from_utf8_lossy(&said.stderr);
        let starts = started.lines().filter(|line| line.starts_with("start: ")).count();
        let names = started.lines().filter(|line| line.starts_with("start: "));
        let groups: usize = names.map(|line| line.matches(" vg").count() - 1).sum();
        let expected = if self.shape == "one" { 1 } else { self.count as usize };
        ensure!(groups == expected, "{groups} groups were decided on, not {expected}: {started}");
        let cost = self.time(&script, self.repeats())?;
        self.row("warren-deviced, all decided", cost, json!({"activation_processes": starts}));
        Ok(())
    }

    /// Opens and reads of disks.
    fn ours_counted(&self) -> Result<()> {
        let trace = self.directory.join("trace");
        let status = Command::new("strace")
            .args(["-f", "-qq", "-y", "-e", "trace=openat,pread64", "-o"])
            .arg(&trace)
            .args([&self.daemon()?, "--once", "--kernel"])
            .env("LVM_SYSTEM_DIR", self.directory.join("etc"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "strace: {status}");
        let text = fs::read_to_string(&trace)?;
        let of_disk = |line: &&str| line.split("/dev/").nth(1).is_some_and(is_disk);
        let begun = text.lines().filter(|line| !line.contains("resumed>")).filter(of_disk);
        let (opens, reads): (Vec<&str>, Vec<&str>) =
            begun.partition(|line| line.contains("openat("));
        let each = |count: usize| count as f64 / f64::from(self.count);
        let figures =
            json!({"opens_per_disk": each(opens.len()), "reads_per_disk": each(reads.len())});
        eprintln!("  opens and reads of a disk: {figures}");
        self.put("warren-deviced, by strace", figures, Value::Null);
        Ok(())
    }

    fn lvm(&self) -> Result<()> {
        let pvscan = "lvm pvscan --driverloaded n --cache --listvg --checkcomplete --vgonline \
             --autoactivation event --udevoutput --journal=output";
        let last = BASE + self.count - 1;
        let each = format!(
            "for i in $(seq {BASE} {last}); do \
             DEVLINKS=/dev/disk/by-id/wwn-0-$((i-{BASE})) {pvscan} /dev/loop$i; done"
        );
        self.row("lvm2's event way: a pvscan for each disk", self.time(&each, 1)?, Value::Null);
        let groups: Vec<String> = match self.shape {
            "one" => vec!["vg0".to_owned()],
            _ => (0..self.count).map(|number| format!("vg{number}")).collect(),
        };
        let change = "lvm vgchange --driverloaded n -aay --autoactivation event";
        let batch = self.time(&format!("{change} {}", groups.join(" ")), 1)?;
        self.row("the one vgchange that our batch is", batch, Value::Null);
        if self.shape == "many" {
            let each = format!("for vg in {}; do {change} $vg; done", groups.join(" "));
            let what = "lvm2's event way: then a vgchange for each group";
            self.row(what, self.time(&each, 1)?, Value::Null);
        }
        let direct = self.time("lvm vgchange --driverloaded n -aay", 1)?;
        self.row("lvm2's direct way: one vgchange over all", direct, Value::Null);
        Ok(())
    }

    /// The system calls of a disk that comes when all others are there.
    fn later(&self) -> Result<()> {
        let last = self.count - 1;
        quietly(Command::new("losetup").arg("-d").arg(node(last)))?;
        let trace = self.directory.join("trace");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o"]).arg(&trace);
        let mut daemon = Running::start(strace, &self.daemon()?, self.directory)?;
        daemon.wait_for_disks(self.count - 1)?;
        attach(self.directory, last)?;
        let group = if self.shape == "one" { "vg0".to_owned() } else { format!("vg{last}") };
        daemon.wait_for_line(&format!("event {group}"))?;
        daemon.end()?;
        let text = fs::read_to_string(&trace)?;
        let calls = calls_of_arrival(&text, &group);
        let total: u32 = calls.values().sum();
        let mut most: Vec<(&&str, &u32)> = calls.iter().collect();
        most.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), **name));
        let most: Vec<String> = most.iter().take(6).map(|(n, c)| format!("{n} {c}")).collect();
        eprintln!("  a later arrival: {total} system calls: {}", most.join(", "));
        let figures = json!({"system_calls": total, "most": most});
        self.put("warren-deviced, a later arrival", figures, Value::Null);
        Ok(())
    }

    /// 2,000 events of the kernel as fast as they can be made.
    fn burst(&self) -> Result<()> {
        let strace = Command::new("env");
        let mut daemon = Running::start(strace, &self.daemon()?, self.directory)?;
        daemon.wait_for_disks(self.count)?;
        let before = daemon.cpu_s()?;
        for event in 0..BURST {
            let name = format!("loop{}", BASE + event % self.count);
            fs::write(format!("/sys/block/{name}/uevent"), "change")?;
        }
        daemon.wait_for_disks(self.count)?;
        let cpu_s = daemon.cpu_when_quiet()? - before;
        let lost = daemon.lines.iter().filter(|line| line.contains("events were lost")).count();
        daemon.end()?;
        eprintln!("  a burst of {BURST} events: CPU {cpu_s:.3} s, lost {lost} times");
        let figures = json!({"events": BURST, "cpu_s": cpu_s, "times_lost": lost});
        self.put("warren-deviced, a burst", figures, Value::Null);
        Ok(())
    }
}

/// Names of the calls between the last report and the decision.
fn calls_of_arrival<'a>(trace: &'a str, group: &str) -> BTreeMap<&'a str, u32> {
    let lines: Vec<&str> = trace.lines().collect();
    let end = lines.iter().position(|line| line.contains("write(2") && line.contains(group));
    let end = end.unwrap_or(lines.len());
    let reported = |line: &&str| line.contains("write(1");
    let begin = lines[..end].iter().rposition(reported).unwrap_or(0);
    let mut calls = BTreeMap::new();
    for line in &lines[begin + 1..end] {
        let call = line.split_once(' ').map_or("", |(_, rest)| rest.trim_start());
        if let Some((name, _)) = call.split_once('(').filter(|_| !call.starts_with('<')) {
            *calls.entry(name).or_default() += 1;
        }
    }
    calls
}

/// A daemon that runs.
struct Running {
    child: Child,
    pid: i32,
    lines: Vec<String>,
    said: std::sync::mpsc::Receiver<String>,
}

impl Running {
    /// `by` starts it: strace, or env(1).
    fn start(mut by: Command, daemon: &str, directory: &Path) -> Result<Running> {
        let mut child = by
            .args([daemon, "--kernel"])
            .env("LVM_SYSTEM_DIR", directory.join("etc"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (sender, said) = std::sync::mpsc::channel();
        let outputs: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().context("it has an output")?),
            Box::new(child.stderr.take().context("it has an output")?),
        ];
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        let mut running = Running { pid: child.id() as i32, child, lines: Vec::new(), said };
        running.pid = running.find()?;
        Ok(running)
    }

    /// The daemon below strace; env(1) has become it.
    fn find(&self) -> Result<i32> {
        let children = format!("/proc/{0}/task/{0}/children", self.pid);
        loop {
            let text = fs::read_to_string(&children)?;
            let own = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm"));
            let pids = text.split(' ').filter_map(|word| word.parse().ok());
            for pid in pids.chain([self.pid]) {
                // What it starts for a moment ends meanwhile.
                let Ok(catches) = fs::read_to_string(format!("/proc/{pid}/status")) else {
                    continue;
                };
                // It has blocked its signals: from then on it answers them.
                let blocked = catches.lines().any(|line| line == "SigBlk:\t0000000000004202");
                if blocked && own(pid).is_ok_and(|name| name.trim() == "warren-deviced") {
                    return Ok(pid);
                }
            }
            std::thread::yield_now();
        }
    }

    fn wait_for_line(&mut self, part: &str) -> Result<()> {
        while !self.lines.iter().any(|line| line.contains(part)) {
            self.lines.push(self.said.recv().context("it ended")?);
        }
        Ok(())
    }

    /// Asks what is there until all disks are.
    fn wait_for_disks(&mut self, count: u32) -> Result<()> {
        loop {
            process::kill(self.pid, SIGUSR1)?;
            // The report ends with the group or the device that is last; what comes within a
            // moment belongs to it.
            let mut disks = 0;
            while let Ok(line) = self.said.recv_timeout(REPORT_WAIT) {
                disks += u32::from(is_disk(line.trim_start()) && line.contains(": pv "));
                self.lines.push(line);
            }
            if disks >= count {
                return Ok(());
            }
        }
    }

    /// CPU seconds until now.
    fn cpu_s(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|word| word.parse::<f64>().ok());
        Ok((ticks(12).unwrap_or(0.0) + ticks(13).unwrap_or(0.0)) / 100.0)
    }

    /// The same when it has nothing to do any more.
    fn cpu_when_quiet(&self) -> Result<f64> {
        let mut before = self.cpu_s()?;
        loop {
            std::thread::park_timeout(REPORT_WAIT);
            let now = self.cpu_s()?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
    }

    fn end(mut self) -> Result<()> {
        process::kill(self.pid, SIGTERM)?;
        self.child.wait()?;
        Ok(())
    }
}

/// Longest pause within a report.
const REPORT_WAIT: std::time::Duration = std::time::Duration::from_millis(500);

// ---- simulated ----

fn simulate(scratch: &Path, count: u32) -> Result<Value> {
    let directory = scratch.join(format!("simulated-{count}"));
    let images = directory.display().to_string();
    quietly(Command::new(example()?).args(["make", &images, &count.to_string(), "many"]))?;
    let said = output(&example()?.display().to_string(), &["run", &images])?;
    fs::remove_dir_all(&directory)?;
    println!("\nsimulated, {count} disks\n{}", said.trim());
    let after = |word: &str| -> Option<f64> {
        said.split_once(word)?.1.trim_start().split([' ', ',', 's']).next()?.parse().ok()
    };
    Ok(json!({"groups": "a group for each disk", "disks": count, "what": "simulated",
        "load": load(), "cpu_s": after("CPU"), "wall_s": after("wall")}))
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}
