//! The machine that the tests play: a tree of sysfs, disks, udev, and the executor's end.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use warren_device::Uuid;
use warren_device::btrfs::BtrfsMember;
use warren_device::daemon::{Daemon, Options};
use warren_device::image::{self, Disk};
use warren_device::index::Policy;
use warren_device::lvm::LvmId;
use warren_device::lvm::group::{Marks, Member, VolumeGroup};
use warren_device::lvm::label::{Area, PvHeader};
use warren_device::orders::{self, ExecutorOrder};
use warren_device::readers::Readers;
use warren_device::sysfs::Roots;
use warren_device::udev;
use warren_sys::namespace::{Namespaces, unshare};
use warren_sys::netlink::{Group, Uevents};
use warren_sys::{fdpass, memfd};

/// A machine: a tree of sysfs, nodes that are image files, and a socket to play udev on.
pub struct Machine {
    pub top: PathBuf,
    pub udev: Uevents,
    pub daemon: Daemon,
    pub seen: Vec<String>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

/// Runs a test in a thread with a network namespace of its own.
pub fn alone(test: &'static str, body: fn(&'static str)) {
    let run = move || match unshare(Namespaces::NET) {
        Ok(()) => body(test),
        Err(_) => {
            warren_testkit::not_run_of(test, "needs a network namespace of its own (root)");
        }
    };
    std::thread::spawn(run).join().expect("the test in the namespace holds");
}

pub fn id(text: &str) -> LvmId {
    LvmId::parse(&format!("{text:x<32}")).expect("a short word")
}

/// The disk of a PV `pv` in group `name` of these members, or an empty disk.
pub fn pv_disk(pv: &str, name: &str, members: &[&str]) -> Disk {
    let size = 2 << 20;
    let area = Area { offset: 4096, bytes: (1 << 20) - 4096 };
    let member = |pv: &&str| Member {
        id: id(pv),
        device_hint: String::new(),
        device_bytes: size,
        written_off: false,
    };
    let group = VolumeGroup {
        id: id(name),
        name: name.to_owned(),
        seqno: 1,
        system_id: String::new(),
        marks: Marks::default(),
        members: members.iter().map(member).collect(),
        volumes: Vec::new(),
    };
    let header = PvHeader {
        id: id(pv),
        device_bytes: size,
        data_areas: Vec::new(),
        metadata_areas: vec![area],
        extension_version: 2,
        flags: 1,
    };
    let mut disk = Disk::new(size);
    image::put_label(&mut disk, 1, &header);
    image::put_area(&mut disk, area, 512, &image::group_text(&group));
    disk
}

pub fn make_device(top: &Path, name: &str, minor: usize, disk: &Disk) {
    let dir = top.join("sys/devices/block").join(name);
    fs::create_dir_all(dir.join("holders")).expect("the tree can be made");
    let uevent = format!("MAJOR=8\nMINOR={minor}\nDEVNAME={name}\nDISKSEQ={minor}\n");
    fs::write(dir.join("uevent"), uevent).expect("the tree can be made");
    fs::write(dir.join("size"), "4096\n").expect("the tree can be made");
    fs::write(top.join(format!("udev/data/b8:{minor}")), "I:1\n").expect("udev's record");
    let node = top.join("dev").join(name);
    fs::File::create(&node).and_then(|n| n.set_len(2 << 20)).expect("the node can be made");
    write_disk(&node, disk);
    let link = top.join("sys/class/block").join(name);
    let _ = fs::remove_file(&link);
    let target = format!("../../devices/block/{name}");
    std::os::unix::fs::symlink(target, link).expect("the tree can be made");
}

/// Writes through a node, as mkfs(8) does.
pub fn write_disk(node: &Path, disk: &Disk) {
    let node = fs::File::options().write(true).open(node).expect("the node is there");
    for (at, block) in disk.extents() {
        node.write_all_at(block, at).expect("the node can be written");
    }
}

pub fn make_top(test: &str) -> PathBuf {
    let top = std::env::temp_dir().join(format!("warren-deviced-{test}-{}", std::process::id()));
    for dir in ["sys/class/block", "dev", "udev/data"] {
        fs::create_dir_all(top.join(dir)).expect("the tree can be made");
    }
    top
}

/// Beside udev.
pub fn options(top: &Path) -> Options {
    Options {
        roots: Roots {
            sys: top.join("sys"),
            udev: top.join("udev"),
            dev: top.join("dev"),
            ..Roots::default()
        },
        udev: true,
        waits_for_udev: false,
        receive_buffer_bytes: 1 << 20,
        pass_patience_ms: 60_000,
        policy: Policy::default(),
        begun: Default::default(),
    }
}

impl Machine {
    /// Without udev; orders go over the socket, if there is one.
    pub fn without_udev(test: &str, disks: &[(&str, Disk)], orders: Option<OwnedFd>) -> Machine {
        let top = make_top(test);
        for (minor, (name, disk)) in disks.iter().enumerate() {
            make_device(&top, name, minor, disk);
            let _ = fs::remove_file(top.join(format!("udev/data/b8:{minor}")));
        }
        let options = Options { udev: false, waits_for_udev: true, ..options(&top) };
        let readers = Readers::new().expect("an eventfd can be had");
        let mut daemon = Daemon::bind(options, readers, orders).expect("a socket can be had");
        daemon.begin();
        let udev = Uevents::open(Group::Kernel, 4096).expect("a socket can be had");
        Machine { top, udev, daemon, seen: Vec::new() }
    }

    /// Starts the daemon over devices that are there already.
    pub fn boot(test: &str, receive_buffer_bytes: usize, disks: &[(&str, Disk)]) -> Machine {
        let readers = Readers::new().expect("an eventfd can be had");
        let mut machine = Machine::start(test, receive_buffer_bytes, disks, readers, 60_000);
        machine.settle();
        machine
    }

    pub fn start(
        test: &str,
        receive_buffer_bytes: usize,
        disks: &[(&str, Disk)],
        readers: Readers,
        pass_patience_ms: u64,
    ) -> Machine {
        let top = make_top(test);
        for (minor, (name, disk)) in disks.iter().enumerate() {
            make_device(&top, name, minor, disk);
        }
        let options = Options { receive_buffer_bytes, pass_patience_ms, ..options(&top) };
        let mut daemon = Daemon::bind(options, readers, None).expect("a socket can be had");
        daemon.begin();
        let udev = Uevents::open(Group::Kernel, 4096).expect("a socket can be had");
        Machine { top, udev, daemon, seen: Vec::new() }
    }

    /// Turns until nothing is under way and no event waits.
    pub fn settle(&mut self) {
        loop {
            let limit =
                if self.daemon.is_settled() { Duration::ZERO } else { Duration::from_secs(60) };
            let was_settled = self.daemon.is_settled();
            self.daemon.turn(Some(limit)).expect("the socket works");
            let lines = self.daemon.take_lines();
            let quiet = lines.is_empty();
            self.seen.extend(lines);
            if was_settled && quiet && self.daemon.is_settled() {
                return;
            }
        }
    }

    pub fn send(&self, action: &str, name: &str, minor: usize) {
        let properties = format!(
            "ACTION={action}\0DEVPATH=/devices/block/{name}\0SUBSYSTEM=block\0MAJOR=8\0MINOR={minor}\0"
        );
        let message = udev::message("block", "", properties.as_bytes());
        // Whoever lost a message is the receiver's matter.
        let _ = self.udev.send(Group::Udev, &message);
    }

    /// What the daemon said since it was asked last.
    pub fn said(&mut self) -> Vec<String> {
        self.settle();
        std::mem::take(&mut self.seen)
    }
}

pub const START: &str = "start: lvm vgchange -aay --autoactivation event";

/// The disk of one of two devices of a btrfs.
pub fn btrfs_disk(devid: u64) -> Disk {
    let uuid = Uuid::parse("00112233-4455-6677-8899-aabbccddeeff").expect("an identifier");
    let mut disk = Disk::new(2 << 20);
    let label = String::new();
    let (generation, num_devices) = (1, 2);
    let (metadata_uuid, device_uuid, seeding) = (None, Uuid([devid as u8; 16]), false);
    let member = BtrfsMember {
        fsid: uuid,
        metadata_uuid,
        device_uuid,
        devid,
        num_devices,
        generation,
        label,
        seeding,
    };
    image::put_btrfs(&mut disk, &member);
    disk
}

/// The orders that wait, with the numbers of what is to be told.
pub fn taken(socket: &OwnedFd) -> Vec<ExecutorOrder> {
    let (mut buffer, mut fds) = ([0; 16], Vec::new());
    let mut out = Vec::new();
    while fdpass::recv(socket.as_fd(), &mut buffer, &mut fds, false).is_ok() {
        for fd in fds.drain(..) {
            let text = memfd::read_all(fd.as_fd(), 1 << 20).expect("a message");
            out.extend(orders::read(&String::from_utf8_lossy(&text)).flatten());
        }
    }
    out
}
