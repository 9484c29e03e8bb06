//! The store alone, without sockets: CPU, bytes, extents and reads for the Logs table.
//!
//! `cargo run --release -p warren-log-store --example bench -- [MESSAGES] [DIRECTORY]`;
//! `--btrfs` instead of a directory makes a loop-mounted btrfs with copy-on-write and checksums, in
//! a mount namespace of its own, and counts extents and bytes written to the device. `CORPUS=FILE`
//! takes texts from the second column of a tab-separated file instead of making them up. One sync
//! per 1,000 messages; one in fifty comes in a burst from one of 1,000 rare units (`RARE_UNITS=N`: of so many).

#[path = "common/texts.rs"]
mod texts;

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use warren_log_store::files::{Counted, Disk, Files};
use warren_log_store::query::{Direction, Expr, Grep, Journal, Query};
use warren_log_store::store::names::Catalogue;
use warren_log_store::store::upkeep::{MERGE_BYTES_MAX, MergeBounds, merge_all, seal};
use warren_log_store::store::{DEFAULT_CLASS, Setup, Store};
use warren_log_store::{Fields, Id128, Stamp};

type Outcome<T> = Result<T, Box<dyn Error>>;

const MESSAGES_DEFAULT: usize = 1_000_000;
const SYNC_EVERY: usize = 1_000;
const RARE_UNITS_DEFAULT: usize = 1_000;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let messages = args.next().map_or(Ok(MESSAGES_DEFAULT), |n| n.parse())?;
    let made = std::env::temp_dir().join(format!("warren-bench-{}", std::process::id()));
    let (directory, own) = match args.next() {
        Some(option) if option == "--btrfs" => return on_btrfs(&made, messages),
        Some(directory) => (PathBuf::from(directory), false),
        None => (made, true),
    };
    std::fs::create_dir_all(&directory)?;
    let result = run(&directory, messages);
    if own {
        std::fs::remove_dir_all(&directory)?;
    }
    result
}

/// Runs this program again on a file system of its own.
fn on_btrfs(image: &Path, messages: usize) -> Outcome<()> {
    const SCRIPT: &str = r#"
        set -e
        truncate -s 6G "$1.img"
        mkfs.btrfs -q "$1.img" >/dev/null
        LOOP=$(losetup --direct-io=on --show -f "$1.img")
        mkdir -p "$1"
        trap 'cd /; umount "$1"; losetup -d "$LOOP"; rmdir "$1"; rm "$1.img"' EXIT
        mount -o noatime "$LOOP" "$1"
        mkdir "$1/store"
        LOOP=$LOOP "$3" "$2" "$1/store"
    "#;
    let found =
        Command::new("sh").args(["-c", "command -v mkfs.btrfs losetup filefrag"]).output()?;
    if !found.status.success() || !is_root() {
        println!("NOT RUN: btrfs needs root, mkfs.btrfs, losetup and filefrag");
        return Ok(());
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]);
    command.arg(image).arg(messages.to_string()).arg(std::env::current_exe()?);
    match command.status()?.success() {
        true => Ok(()),
        false => Err("the run on btrfs failed".into()),
    }
}

/// Bytes written to the loop device that `LOOP` names.
fn device_bytes() -> Option<u64> {
    const SECTOR_BYTES: u64 = 512;
    let device = std::env::var("LOOP").ok()?;
    let stat = format!("/sys/block/{}/stat", device.strip_prefix("/dev/")?);
    let sectors = std::fs::read_to_string(stat).ok()?.split_whitespace().nth(6)?.parse::<u64>();
    Some(sectors.ok()? * SECTOR_BYTES)
}

/// Extents of all files with an ending, as filefrag(8) counts them.
fn extents(directory: &Path, ending: &str) -> Outcome<u64> {
    let mut sum = 0;
    for file in std::fs::read_dir(directory)? {
        let path = file?.path();
        if path.extension().is_none_or(|e| e != ending) {
            continue;
        }
        let output = Command::new("filefrag").arg(path).output()?.stdout;
        let text = String::from_utf8_lossy(&output).into_owned();
        let count = text.rsplit(": ").next().and_then(|rest| rest.split(' ').next());
        sum += count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

fn run(directory: &Path, messages: usize) -> Outcome<()> {
    let files: Arc<dyn Files> = Arc::new(Disk::new(directory));
    let texts = texts::texts()?;
    let before = device_bytes();
    let raw = write(&files, &texts, messages)?;
    if let (Some(before), Some(_)) = (before, device_bytes()) {
        Command::new("sync").arg("-f").arg(directory).status()?;
        let written = device_bytes().unwrap_or(before) - before;
        let (sealed, open) = (extents(directory, "seg")?, extents(directory, "log")?);
        let each = written / messages as u64;
        println!("device {each} B/message, {sealed} extents, and {open} of the open log");
    }
    let listing = Catalogue::of(files.list()?);
    let bytes: u64 = listing.files.iter().map(|file| file.bytes).sum();
    println!(
        "text {:.1} B/message, at rest {:.1} B/message in {} files",
        raw as f64 / messages as f64,
        bytes as f64 / messages as f64,
        listing.files.len()
    );
    for unit in ["rare-7.service", "busy-3.service", "nosuch.service"] {
        let expr = Expr::field("_SYSTEMD_UNIT", unit);
        query(&files, &format!("-u {unit} -n 20"), &Query { expr, ..Query::default() }, 20)?;
    }
    query(&files, "-n 20", &Query::default(), 20)?;
    for pattern in ["Connection refused", "qzxwv", "session opened for user"] {
        let grep = Some(Grep::new(pattern, None)?);
        let began = cpu();
        query(&files, &format!("-g {pattern:?}"), &Query { grep, ..Query::default() }, usize::MAX)?;
        let speed = raw as f64 / (cpu() - began) / 1e9;
        println!("    {speed:.2} GB of text per CPU second");
    }
    Ok(())
}

fn write(files: &Arc<dyn Files>, texts: &[String], messages: usize) -> Outcome<usize> {
    let mut ids = 0u128;
    let new_id = Box::new(move || {
        ids += 1;
        Id128(ids.to_le_bytes())
    });
    let (mut store, _) = Store::open(files.clone(), Setup { machine: Id128::default(), new_id })?;
    let busy: Vec<_> = (0..8).map(|n| context(&format!("busy-{n}.service"), n)).collect();
    let rare_units = std::env::var("RARE_UNITS").map_or(Ok(RARE_UNITS_DEFAULT), |n| n.parse())?;
    let (mut raw, mut upkeep_s, mut fields) = (0, 0.0, Fields::new());
    let began = cpu();
    for at in 0..messages {
        let text = &texts[at % texts.len()];
        raw += text.len();
        let time = 1_700_000_000_000_000 + at as u64 * 37;
        fields.clear();
        fields.push(b"PRIORITY", b"6");
        fields.push(b"SYSLOG_IDENTIFIER", b"bench");
        fields.push(b"MESSAGE", text.as_bytes());
        fields.push(b"_SOURCE_REALTIME_TIMESTAMP", (time - at as u64 % 23).to_string().as_bytes());
        let stamp = Stamp {
            realtime_us: time,
            monotonic_us: time % 1_000_000_000_000,
            boot: Id128([1; 16]),
        };
        let burst = at / 500;
        let rare = at % 500 < 10;
        let rare =
            rare.then(|| context(&format!("rare-{}.service", burst % rare_units), 100 + burst));
        let context = rare.as_ref().unwrap_or(&busy[at % busy.len()]);
        store.append(DEFAULT_CLASS, &stamp, context, &fields)?;
        if (at + 1) % SYNC_EVERY == 0 {
            store.flush()?;
            store.sync()?;
            upkeep_s += upkeep(files, &mut store, at as u128)?;
        }
    }
    store.sync()?;
    let all = (cpu() - began) * 1e6 / messages as f64;
    let upkeep = upkeep_s * 1e6 / messages as f64;
    println!("CPU {all:.2} µs/message, of it {upkeep:.2} for sealing and merging");
    Ok(raw)
}

fn upkeep(files: &Arc<dyn Files>, store: &mut Store, id: u128) -> Outcome<f64> {
    let began = cpu();
    let mut ids = id << 32;
    let mut new_id = || {
        ids += 1;
        Id128(ids.to_le_bytes())
    };
    for log in store.take_sealable() {
        seal(&**files, &log, Id128::default(), new_id())?;
        merge_all(
            &**files,
            Id128::default(),
            &MergeBounds::bytes(MERGE_BYTES_MAX),
            &mut new_id,
            &mut BTreeSet::new(),
        )?;
    }
    Ok(cpu() - began)
}

fn query(files: &Arc<dyn Files>, what: &str, query: &Query, most: usize) -> Outcome<()> {
    let counted = Arc::new(Counted::new(files.clone()));
    let began = cpu();
    let journal = Journal::open(counted.clone())?;
    let mut entries = journal.entries(query, Direction::Backward, None);
    let mut found = 0;
    while found < most && entries.try_next()?.is_some() {
        found += 1;
    }
    let (reads, spent_ms) = (counted.reads(), (cpu() - began) * 1e3);
    println!(
        "{what}: {found} found, {} reads, {:.2} MB, {spent_ms:.1} ms CPU",
        reads.count,
        reads.bytes as f64 / 1e6
    );
    Ok(())
}

fn context(unit: &str, pid: usize) -> Arc<Fields> {
    let (pid, cgroup) = (pid.to_string(), format!("/system.slice/{unit}"));
    let invocation = format!("{:032x}", pid.len() * 7919 + unit.len());
    let pairs = [
        ("_PID", &*pid),
        ("_UID", "0"),
        ("_GID", "0"),
        ("_COMM", "bench"),
        ("_EXE", "/usr/bin/bench"),
        ("_CMDLINE", "/usr/bin/bench --run"),
        ("_CAP_EFFECTIVE", "1ffffffffff"),
        ("_SYSTEMD_CGROUP", &cgroup),
        ("_SYSTEMD_UNIT", unit),
        ("_SYSTEMD_SLICE", "system.slice"),
        ("_SYSTEMD_INVOCATION_ID", &invocation),
        ("_MACHINE_ID", "0123456789abcdef0123456789abcdef"),
        ("_HOSTNAME", "host"),
        ("_TRANSPORT", "journal"),
        ("_RUNTIME_SCOPE", "system"),
    ];
    Arc::new(pairs.into_iter().collect())
}

fn cpu() -> f64 {
    warren_sys::time::process_cpu_ns() as f64 / 1e9
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|stat| stat.uid() == 0)
}
