//! `cargo xtask bench journal`: the figures of SPECIFICATION.md's table of logs.
//!
//! Warrener's log daemon and the installed systemd-journald take the same messages, one after the
//! other in one run, each on a btrfs of its own in a loop device (copy-on-write, checksums on), in
//! namespaces of their own with nothing else in `/run`. Four clients. Each transport is run twice:
//! with no sync but the daemon's own, which says how fast messages are taken, and with the file system
//! synced every 1,000 messages, which says what the device gets; there the clients wait for the device.
//! btrfs checks all checksums after each run. What is read from the device is counted after the file
//! system was mounted anew. journald keeps its own settings but for limits, and `+C` is not set.
//!
//! What the messages say is made up of eight shapes, or, with the environment variable `CORPUS`, the lines
//! of that file (an absolute path): in each the text behind the first tab, half of its digits drawn anew.
//! The figures of SPECIFICATION.md are of a corpus of 32,000 lines of 16 systems, 71 bytes on average;
//! the file is not in the repository, and other texts pack otherwise.
//!
//! Arguments: `MESSAGES` (default 1,000,000) for the run whose store is queried; the other runs have
//! a fifth of them. Needs root and btrfs-progs; without systemd-journald its rows are NOT RUN.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::command::{cargo, output, root};

const MESSAGES_DEFAULT: usize = 1_000_000;
const CLIENTS: usize = 4;

/// Set in the process that has namespaces of its own.
const INSIDE: &str = "WARREN_BENCH_INSIDE";

const JOURNALD: &str = "/lib/systemd/systemd-journald";
const SOCKETS: &str = "/run/systemd/journal";

/// Where the results of the process inside go.
const RESULTS: &str = "target/bench-journal.json";

const JOURNALD_CONF: &str = "[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\n\
    SystemMaxUse=8G\nSystemKeepFree=100M\nSystemMaxFiles=1000\nForwardToSyslog=no\n\
    ForwardToWall=no\nReadKMsg=no\nAudit=no\nSeal=no\n";

/// Who takes the messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Warrener,
    Journald,
}

/// What is done with a daemon.
struct Run<'a> {
    /// The transport.
    mode: &'a str,
    messages: usize,
    /// The file system is synced every 1,000 messages.
    synced: bool,
    /// What it kept is queried.
    queried: bool,
}

/// Measures, prints, writes `bench/results/journal.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let messages = match args {
        [] => MESSAGES_DEFAULT,
        [count] => count.parse().context("MESSAGES")?,
        _ => bail!("usage: bench journal [MESSAGES]"),
    };
    if std::env::var_os(INSIDE).is_some() {
        let results = measure(messages)?;
        fs::write(root().join(RESULTS), serde_json::to_vec(&results)?)?;
        return Ok(());
    }
    let packages = ["warren-log-daemon", "warren-log-show"].map(|name| ["--package", name]);
    let what = ["--bins", "--examples"];
    cargo(&[&["build", "--locked", "--release"], packages.as_flattened(), &what].concat())?;
    let mut command = Command::new("unshare");
    command.args(["-m", "-n", "--propagation", "private"]).arg(std::env::current_exe()?);
    let status = command.args(["bench", "journal", &messages.to_string()]).env(INSIDE, "1");
    ensure!(status.status()?.success(), "NOT RUN: needs root, or what is said above");
    let results: Vec<Value> = serde_json::from_slice(&fs::read(root().join(RESULTS))?)?;
    super::write("journal.json", &results)
}

fn measure(messages: usize) -> Result<Vec<Value>> {
    sh(
        "mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/log && sysctl -qw net.unix.max_dgram_qlen=512",
    )?;
    let mut subjects = vec![Subject::Warrener];
    match Path::new(JOURNALD).exists() {
        true => subjects.push(Subject::Journald),
        false => println!("NOT RUN: {JOURNALD} is not installed"),
    }
    let mut rows = Vec::new();
    for mode in ["native", "syslog", "stdout"] {
        for synced in [false, true] {
            for subject in &subjects {
                let run = Run { mode, messages: messages / 5, synced, queried: false };
                rows.push(one_run(*subject, &run)?);
            }
        }
    }
    for subject in &subjects {
        let run = Run { mode: "native", messages, synced: true, queried: true };
        rows.push(one_run(*subject, &run)?);
    }
    Ok(rows)
}

fn sh(script: &str) -> Result<String> {
    output("sh", &["-c", script])
}

/// A file system of its own, until it is dropped.
struct Disk {
    device: String,
    image: PathBuf,
    directory: PathBuf,
}

impl Disk {
    fn make(directory: &str) -> Result<Disk> {
        let image = std::env::temp_dir().join(format!("warren-bench-{}.img", std::process::id()));
        let path = image.display();
        sh(&format!("truncate -s 12G {path} && mkfs.btrfs -q {path} >/dev/null"))?;
        let device = output("losetup", &["--direct-io=on", "--show", "-f", &path.to_string()])?;
        let device = device.trim().to_owned();
        let disk = Disk { device, image, directory: directory.into() };
        fs::create_dir_all(&disk.directory)?;
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        sh(&format!("mount -o noatime {} {}", self.device, self.directory.display())).map(drop)
    }

    fn unmount(&self) -> Result<()> {
        sh(&format!("umount {}", self.directory.display())).map(drop)
    }

    /// Reads, bytes read, bytes written since it was made.
    fn counters(&self) -> Result<[u64; 3]> {
        const SECTOR_BYTES: u64 = 512;
        let name = self.device.trim_start_matches("/dev/");
        let text = fs::read_to_string(format!("/sys/block/{name}/stat"))?;
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let at = |place: usize| numbers.get(place).copied().context("/sys/block/*/stat");
        Ok([at(0)?, at(2)? * SECTOR_BYTES, at(6)? * SECTOR_BYTES])
    }

    /// Has btrfs read everything and compare it with its checksums; gives its verdict.
    fn scrub(&self) -> Result<String> {
        let directory = self.directory.display().to_string();
        let said = output("btrfs", &["scrub", "start", "-B", "-r", &directory])?;
        let verdict = said.lines().find_map(|line| line.strip_prefix("Error summary:"));
        Ok(verdict.context("btrfs scrub has no error summary")?.trim().to_owned())
    }

    /// Extents of all files, as filefrag(8) counts them, and their bytes.
    fn extents(&self) -> Result<(u64, u64)> {
        let files = sh(&format!("find {} -type f -size +0", self.directory.display()))?;
        let (mut extents, mut bytes) = (0, 0);
        for file in files.lines() {
            let said = output("filefrag", &[file])?;
            let count = said.rsplit(": ").next().and_then(|rest| rest.split(' ').next());
            extents += count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
            bytes += fs::metadata(file)?.len();
        }
        Ok((extents, bytes))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What is left over is said by losetup(8).
        let _ = self.unmount();
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
        let _ = fs::remove_file(&self.image);
    }
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Subject::Warrener => "warren-journald",
            Subject::Journald => "systemd-journald",
        }
    }

    /// Where it keeps messages.
    fn directory(self) -> &'static str {
        match self {
            Subject::Warrener => "/run/bench-store",
            Subject::Journald => "/var/log/journal",
        }
    }

    /// Starts it, and comes back when it takes messages.
    fn start(self) -> Result<Child> {
        let _ = fs::remove_dir_all(SOCKETS);
        fs::create_dir_all(SOCKETS)?;
        let mut command = match self {
            Subject::Warrener => {
                let mut command = Command::new(program("warren-journald"));
                command.args(["--directory", self.directory()]);
                command.args(["--set", "RateLimitBurst=0", "--set", "SystemKeepFree=0"]);
                command.args(["--set", "SystemMaxUse=8G", "--set", "ForwardToWall=no"]);
                command
            }
            Subject::Journald => {
                fs::write("/run/journald.conf", JOURNALD_CONF)?;
                // It keeps messages on disk from the start if this is there.
                fs::write(Path::new(SOCKETS).join("flushed"), [])?;
                let id = fs::read_to_string("/etc/machine-id")?;
                fs::create_dir_all(Path::new(self.directory()).join(id.trim()))?;
                sh("mount --bind /run/journald.conf /etc/systemd/journald.conf")?;
                Command::new(JOURNALD)
            }
        };
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let begun = Instant::now();
        while !Path::new(SOCKETS).join("stdout").exists() {
            ensure!(begun.elapsed() < Duration::from_secs(10), "{} does not start", self.name());
            pause();
        }
        Ok(child)
    }

    /// A query as a command.
    fn query(self, args: &[&str]) -> Command {
        let mut command = match self {
            Subject::Warrener => Command::new(program("warren-journalctl")),
            Subject::Journald => Command::new("journalctl"),
        };
        command.args(["-q", "--no-pager", "-D", self.directory()]).args(args);
        command
    }
}

fn program(name: &str) -> PathBuf {
    root().join("target/release").join(name)
}

fn pause() {
    let (_held, never) = channel::<()>();
    let _ = never.recv_timeout(Duration::from_millis(100));
}

/// CPU of a process, seconds.
fn cpu(pid: u32) -> Result<f64> {
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = stat.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / TICKS)
}

/// CPU when it has not moved for half a second.
fn settled_cpu(pid: u32) -> Result<f64> {
    let mut last = cpu(pid)?;
    let mut same = 0;
    while same < 5 {
        pause();
        let now = cpu(pid)?;
        same = if now > last { 0 } else { same + 1 };
        last = now;
    }
    Ok(last)
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

fn one_run(subject: Subject, run: &Run<'_>) -> Result<Value> {
    let disk = Disk::make(subject.directory())?;
    let mut child = subject.start()?;
    let measured = flood(subject, run, &disk, child.id());
    sh(&format!("kill {}", child.id()))?;
    child.wait()?;
    if subject == Subject::Journald {
        sh("umount /etc/systemd/journald.conf")?;
    }
    let mut row = measured?;
    sh(&format!("sync -f {}", subject.directory()))?;
    let (extents, bytes) = disk.extents()?;
    row["extents"] = json!(extents);
    row["bytes_per_message"] = json!(bytes as f64 / run.messages as f64);
    row["checksums"] = json!(disk.scrub()?);
    println!("{row}");
    if run.queried {
        row["queries"] = ask(subject, &disk)?;
    }
    Ok(row)
}

fn flood(subject: Subject, run: &Run<'_>, disk: &Disk, pid: u32) -> Result<Value> {
    let count = run.messages;
    let (cpu_before, [_, _, before]) = (settled_cpu(pid)?, disk.counters()?);
    let (load_before, begun) = (load(), Instant::now());
    let mut command = Command::new(program("examples/flood"));
    command.args([run.mode, &count.to_string(), &CLIENTS.to_string(), SOCKETS]);
    command.args(run.synced.then_some(subject.directory()));
    ensure!(command.status()?.success(), "flood failed");
    let seconds = begun.elapsed().as_secs_f64();
    let spent = settled_cpu(pid)? - cpu_before;
    sh(&format!("sync -f {}", subject.directory()))?;
    let [_, _, after] = disk.counters()?;
    Ok(json!({
        "subject": subject.name(), "transport": run.mode, "messages": count,
        "synced_every_1000": run.synced, "load": load_before,
        "messages_per_second": (count as f64 / seconds).round(),
        "cpu_us_per_message": spent * 1e6 / count as f64,
        "device_bytes_per_message": (after - before) / count as u64,
    }))
}

/// Queries with nothing in memory, and once more.
fn ask(subject: Subject, disk: &Disk) -> Result<Value> {
    let rare = ["-t", "rare-7", "-n", "20"];
    let cases: [(&str, &[&str]); 5] = [
        ("-t rare-7 -n 20", &rare),
        ("-t nosuch -n 20", &["-t", "nosuch", "-n", "20"]),
        ("-n 20", &["-n", "20"]),
        ("-g 'Connection refused'", &["-g", "Connection refused", "-o", "cat"]),
        ("-g qzxwv", &["-g", "qzxwv", "-o", "cat"]),
    ];
    let mut rows = Vec::new();
    for (name, args) in cases {
        disk.unmount()?;
        disk.mount()?;
        let [reads, bytes, _] = disk.counters()?;
        let cold = timed(subject.query(args))?;
        let [reads_after, bytes_after, _] = disk.counters()?;
        let warm = timed(subject.query(args))?;
        let row = json!({
            "query": name, "reads": reads_after - reads, "bytes": bytes_after - bytes,
            "cold_ms": cold, "warm_ms": warm,
        });
        println!("  {} {row}", subject.name());
        rows.push(row);
    }
    Ok(json!(rows))
}

/// How long it takes, ms. That nothing is found is no failure.
fn timed(mut command: Command) -> Result<f64> {
    let begun = Instant::now();
    let status = command.stdout(Stdio::null()).status()?;
    ensure!(status.code().is_some_and(|code| code <= 1), "a query ended with {status}");
    Ok((begun.elapsed().as_secs_f64() * 1e5).round() / 100.0)
}
