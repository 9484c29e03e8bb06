//! What the boot batch costs: the daemon over N image files and a tree of sysfs made for them.
//!
//! ```text
//! bench make DIR N one|many   writes N sparse images: one group of N, or N groups of one
//! bench run DIR               looks at, reads and decides all of DIR, prints wall and CPU seconds
//! bench away DIR N            the same beside udev, then N of them go and come back (root: own network namespace)
//! ```
//! `run` takes images that lvm2 made just as well. For opens and reads per device:
//! `strace -f -c -e trace=openat,pread64 bench run DIR`.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warren_device::daemon::{Daemon, Options, PASS_PATIENCE_MS};
use warren_device::file::DeviceFile;
use warren_device::image::{self, Disk};
use warren_device::index::Policy;
use warren_device::lvm::LvmId;
use warren_device::lvm::group::{Marks, Member, Part, Quorum, Volume, VolumeGroup};
use warren_device::lvm::label::{Area, PvHeader};
use warren_device::read::{ReadAt, ReadError};
use warren_device::readers::{READ_TIMEOUT_MS, Readers};
use warren_device::report::GroupReport;
use warren_device::sysfs::Roots;
use warren_device::udev;
use warren_sys::namespace::{Namespaces, unshare};
use warren_sys::netlink::{Group, Uevents};

/// Size of an image: with lvm2's usual metadata area of 1 MiB.
const IMAGE_BYTES: u64 = 32 << 20;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["make", dir, count, shape @ ("one" | "many")] => {
            let count: u32 = count.parse().expect("a number of images");
            make(Path::new(dir), count, if shape == "one" { count } else { 1 });
        }
        ["run", dir] => run(Path::new(dir)),
        ["away", dir, count] => away(Path::new(dir), count.parse().expect("a number of disks")),
        _ => eprintln!("bench make DIR N one|many; bench run DIR; bench away DIR N"),
    }
}

fn make(dir: &Path, count: u32, each: u32) {
    fs::create_dir_all(dir).expect("the directory can be made");
    for vg in 0..count / each {
        let text = image::group_text(&group(vg, each));
        for number in 0..each {
            let disk = disk(vg, number, &text);
            let file = File::create(dir.join(format!("{}.img", vg * each + number)));
            let file = file.expect("an image can be made");
            file.set_len(IMAGE_BYTES).expect("it can be sparse");
            for (at, bytes) in disk.extents() {
                file.write_all_at(bytes, at).expect("it can be written");
            }
        }
    }
}

fn pv(vg: u32, number: u32) -> LvmId {
    LvmId::parse(&format!("{vg:0>16}{number:0>16}")).expect("digits")
}

fn group(vg: u32, members: u32) -> VolumeGroup {
    let member = |number| Member {
        id: pv(vg, number),
        device_hint: format!("/dev/sd{number}"),
        device_bytes: IMAGE_BYTES,
        written_off: false,
    };
    let volume = Volume {
        name: "lv0".into(),
        id: LvmId::parse(&format!("lv{vg:0>30}")),
        visible: true,
        auto_activation: true,
        extents: 1,
        needs: vec![Quorum { legs: vec![vec![Part::Member(0)]], needed: 1 }],
        snapshots: Vec::new(),
    };
    VolumeGroup {
        id: LvmId::parse(&format!("{vg:0>32}")).expect("digits"),
        name: format!("vg{vg}"),
        seqno: 1,
        system_id: String::new(),
        marks: Marks::default(),
        members: (0..members).map(member).collect(),
        volumes: vec![volume],
    }
}

fn disk(vg: u32, number: u32, text: &[u8]) -> Disk {
    let area = Area { offset: 4096, bytes: (1 << 20) - 4096 };
    let header = PvHeader {
        id: pv(vg, number),
        device_bytes: IMAGE_BYTES,
        data_areas: vec![Area { offset: 1 << 20, bytes: 0 }],
        metadata_areas: vec![area],
        extension_version: 2,
        flags: 1,
    };
    let mut disk = Disk::new(IMAGE_BYTES);
    image::put_label(&mut disk, 1, &header);
    image::put_area(&mut disk, area, 512, text);
    disk
}

/// Counts what the readers do.
#[derive(Default)]
struct Counts {
    opens: AtomicU64,
    reads: AtomicU64,
    bytes: AtomicU64,
}

struct Counted(DeviceFile, Arc<Counts>);

impl ReadAt for Counted {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let count = self.0.read_at(offset, buffer)?;
        self.1.reads.fetch_add(1, Ordering::Relaxed);
        self.1.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn run(images: &Path) {
    let top = std::env::temp_dir().join(format!("warren-bench-{}", std::process::id()));
    let count = make_tree(&top, images);
    let counts = Arc::new(Counts::default());
    let options = options(&top, images, false);
    let (began, cpu) = (Instant::now(), warren_sys::time::process_cpu_ns());
    let mine = counts.clone();
    let open = move |path: &Path| -> std::io::Result<Box<dyn ReadAt>> {
        mine.opens.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Counted(DeviceFile::open(path)?, mine.clone())))
    };
    let readers = Readers::with(Box::new(open), READ_TIMEOUT_MS).expect("an eventfd can be had");
    let mut daemon = Daemon::bind(options, readers, None).expect("a socket can be had");
    daemon.begin();
    settle(&mut daemon);
    let (wall, cpu) = (began.elapsed(), warren_sys::time::process_cpu_ns() - cpu);
    let report = daemon.report();
    let complete = report.groups.iter().filter(|g: &&GroupReport| g.present == g.of).count();
    let starts = daemon.take_lines().iter().filter(|line| line.starts_with("start:")).count();
    let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
    println!(
        "{count} devices: wall {:.3} s, CPU {:.3} s; {} opens, {} reads, {} KiB; {complete} of {} \
         groups complete, {starts} processes to start them, {} steps",
        wall.as_secs_f64(),
        cpu as f64 / 1e9,
        get(&counts.opens),
        get(&counts.reads),
        get(&counts.bytes) >> 10,
        report.groups.len(),
        daemon.index().work(),
    );
    fs::remove_dir_all(&top).expect("it was made here");
}

fn options(top: &Path, images: &Path, udev: bool) -> Options {
    Options {
        roots: Roots {
            sys: top.join("sys"),
            udev: top.join("udev"),
            dev: images.to_owned(),
            ..Roots::default()
        },
        udev,
        waits_for_udev: false,
        receive_buffer_bytes: 1 << 20,
        pass_patience_ms: PASS_PATIENCE_MS,
        policy: Policy::default(),
        begun: Default::default(),
    }
}

/// Turns until all is done and no event waits.
fn settle(daemon: &mut Daemon) {
    loop {
        let was_settled = daemon.is_settled();
        let limit = if was_settled { Duration::ZERO } else { Duration::from_secs(60) };
        daemon.turn(Some(limit)).expect("the socket works");
        if was_settled && daemon.is_settled() && daemon.take_lines().is_empty() {
            return;
        }
    }
}

/// Events that are sent before the daemon reads them: fewer than its socket has room for.
const EVENTS_AT_ONCE: usize = 100;

fn away(images: &Path, count: usize) {
    unshare(Namespaces::NET).expect("a network namespace of its own (root)");
    let top = std::env::temp_dir().join(format!("warren-bench-{}", std::process::id()));
    let all = make_tree(&top, images);
    let readers = Readers::new().expect("an eventfd can be had");
    let options = options(&top, images, true);
    let mut daemon = Daemon::bind(options, readers, None).expect("a socket can be had");
    let complete = |daemon: &Daemon| {
        daemon.report().groups.iter().filter(|group| group.present == group.of).count()
    };
    daemon.begin();
    settle(&mut daemon);
    let before = complete(&daemon);
    let udev = Uevents::open(Group::Kernel, 4096).expect("a socket can be had");
    let class = top.join("sys/class/block");
    let entries = fs::read_dir(&class).expect("the tree can be listed").flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.truncate(count);
    let mut figures = Vec::new();
    for action in ["remove", "add"] {
        let (began, cpu) = (Instant::now(), warren_sys::time::process_cpu_ns());
        for names in names.chunks(EVENTS_AT_ONCE) {
            for name in names {
                let minor = if action == "remove" { take(&top, name) } else { put(&top, name) };
                let properties = format!(
                    "ACTION={action}\0DEVPATH=/devices/block/{name}\0SUBSYSTEM=block\0MAJOR=259\0MINOR={minor}\0"
                );
                let message = udev::message("block", "", properties.as_bytes());
                udev.send(Group::Udev, &message).expect("the daemon listens");
            }
            settle(&mut daemon);
        }
        let cpu = (warren_sys::time::process_cpu_ns() - cpu) as f64 / 1e9;
        figures.push((began.elapsed().as_secs_f64(), cpu, complete(&daemon)));
    }
    let [(gone_s, gone_cpu, left), (back_s, back_cpu, after)] = figures[..] else { unreachable!() };
    assert!(left + names.len() >= before && left < before, "{left} groups of {before} are left");
    assert_eq!(after, before, "all groups are complete again");
    println!(
        "{all} devices, {} away: wall {gone_s:.3} s, gone CPU {gone_cpu:.3} s; back: wall {back_s:.3} s, back CPU {back_cpu:.3} s",
        names.len()
    );
    fs::remove_dir_all(&top).expect("it was made here");
}

/// Takes a device out of the tree; its minor number.
fn take(top: &Path, name: &str) -> String {
    fs::create_dir_all(top.join("gone")).expect("the tree can be made");
    fs::remove_file(top.join("sys/class/block").join(name)).expect("the tree can be changed");
    moved(&top.join("sys/devices/block").join(name), &top.join("gone").join(name))
}

/// Puts it back.
fn put(top: &Path, name: &str) -> String {
    let link = top.join("sys/class/block").join(name);
    symlink(format!("../../devices/block/{name}"), link).expect("the tree can be changed");
    moved(&top.join("gone").join(name), &top.join("sys/devices/block").join(name))
}

fn moved(from: &Path, to: &Path) -> String {
    fs::rename(from, to).expect("the tree can be changed");
    let properties = fs::read_to_string(to.join("uevent")).expect("the device's properties");
    let minor = properties.lines().find_map(|line| line.strip_prefix("MINOR="));
    minor.expect("a device number").to_owned()
}

/// A tree of sysfs with a device for each image, and a record of udev.
fn make_tree(top: &Path, images: &Path) -> usize {
    let class = top.join("sys/class/block");
    for made in [&class, &top.join("udev/data")] {
        fs::create_dir_all(made).expect("the tree can be made");
    }
    let entries = fs::read_dir(images).expect("the images can be listed");
    let paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    for (minor, path) in paths.iter().enumerate() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
        let dir = top.join("sys/devices/block").join(name);
        fs::create_dir_all(dir.join("holders")).expect("the tree can be made");
        let uevent = format!("MAJOR=259\nMINOR={minor}\nDEVNAME={name}\nDISKSEQ={minor}\n");
        fs::write(dir.join("uevent"), uevent).expect("the tree can be made");
        fs::write(dir.join("size"), "65536\n").expect("the tree can be made");
        let record = top.join(format!("udev/data/b259:{minor}"));
        fs::write(record, "I:1\n").expect("udev's record");
        let target = format!("../../devices/block/{name}");
        symlink(target, class.join(name)).expect("the tree can be made");
    }
    paths.len()
}
