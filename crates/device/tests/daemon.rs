//! The daemon over a tree and disks of the test, in a network namespace of its own where the test
//! plays udev: boot, hot plug, removal, rubbish, bursts, lost events.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use warren_device::Uuid;
use warren_device::begun::Begun;
use warren_device::btrfs::BtrfsMember;
use warren_device::daemon::{Daemon, Options};
use warren_device::file::DeviceFile;
use warren_device::image::{self, Disk};
use warren_device::index::{GroupId, Policy};
use warren_device::lvm::LvmId;
use warren_device::lvm::group::{Marks, Member, VolumeGroup};
use warren_device::lvm::label::{Area, PvHeader};
use warren_device::orders::{self, Answer, Order};
use warren_device::read::{ReadAt, ReadError};
use warren_device::readers::Readers;
use warren_device::sysfs::Roots;
use warren_device::udev;
use warren_sys::namespace::{Namespaces, unshare};
use warren_sys::netlink::{Group, Uevents};
use warren_sys::{fdpass, memfd};

/// A machine: a tree of sysfs, nodes that are image files, and a socket to play udev on.
struct Machine {
    top: PathBuf,
    udev: Uevents,
    daemon: Daemon,
    seen: Vec<String>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

/// Runs a test in a thread with a network namespace of its own.
fn alone(test: &'static str, body: fn(&'static str)) {
    let run = move || match unshare(Namespaces::NET) {
        Ok(()) => body(test),
        Err(_) => {
            println!("NOT RUN: {test} needs a network namespace of its own (root)");
            eprintln!("NOT RUN: {test} needs a network namespace of its own (root)");
        }
    };
    std::thread::spawn(run).join().expect("the test in the namespace holds");
}

fn id(text: &str) -> LvmId {
    LvmId::parse(&format!("{text:x<32}")).expect("a short word")
}

/// The disk of a PV `pv` in group `name` of these members, or an empty disk.
fn pv_disk(pv: &str, name: &str, members: &[&str]) -> Disk {
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

fn make_device(top: &Path, name: &str, minor: usize, disk: &Disk) {
    let dir = top.join("sys/devices/block").join(name);
    fs::create_dir_all(dir.join("holders")).expect("the tree can be made");
    let uevent = format!("MAJOR=8\nMINOR={minor}\nDEVNAME={name}\nDISKSEQ={minor}\n");
    fs::write(dir.join("uevent"), uevent).expect("the tree can be made");
    fs::write(dir.join("size"), "4096\n").expect("the tree can be made");
    fs::write(top.join(format!("udev/data/b8:{minor}")), "I:1\n").expect("udev's record");
    let node = fs::File::create(top.join("dev").join(name)).expect("the node can be made");
    node.set_len(2 << 20).expect("it can be sparse");
    for (at, block) in disk.extents() {
        node.write_all_at(block, at).expect("the node can be written");
    }
    let link = top.join("sys/class/block").join(name);
    let _ = fs::remove_file(&link);
    let target = format!("../../devices/block/{name}");
    std::os::unix::fs::symlink(target, link).expect("the tree can be made");
}

fn make_top(test: &str) -> PathBuf {
    let top = std::env::temp_dir().join(format!("warren-deviced-{test}-{}", std::process::id()));
    for dir in ["sys/class/block", "dev", "udev/data"] {
        fs::create_dir_all(top.join(dir)).expect("the tree can be made");
    }
    top
}

/// Beside udev.
fn options(top: &Path) -> Options {
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
    fn without_udev(test: &str, disks: &[(&str, Disk)], orders: Option<OwnedFd>) -> Machine {
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
    fn boot(test: &str, receive_buffer_bytes: usize, disks: &[(&str, Disk)]) -> Machine {
        let readers = Readers::new().expect("an eventfd can be had");
        let mut machine = Machine::start(test, receive_buffer_bytes, disks, readers, 60_000);
        machine.settle();
        machine
    }

    fn start(
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
    fn settle(&mut self) {
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

    fn send(&self, action: &str, name: &str, minor: usize) {
        let properties = format!(
            "ACTION={action}\0DEVPATH=/devices/block/{name}\0SUBSYSTEM=block\0MAJOR=8\0MINOR={minor}\0"
        );
        let message = udev::message("block", "", properties.as_bytes());
        // Whoever lost a message is the receiver's matter.
        let _ = self.udev.send(Group::Udev, &message);
    }

    /// What the daemon said since it was asked last.
    fn said(&mut self) -> Vec<String> {
        self.settle();
        std::mem::take(&mut self.seen)
    }
}

const START: &str = "start: lvm vgchange -aay --autoactivation event";

#[test]
fn the_boot_batch_is_one_start_and_a_later_group_another() {
    alone("the_boot_batch_is_one_start_and_a_later_group_another", |test| {
        let disks = [
            ("sda", pv_disk("a", "data", &["a", "b"])),
            ("sdb", pv_disk("b", "data", &["a", "b"])),
            ("sdc", pv_disk("c", "one", &["c"])),
            ("sdd", pv_disk("d", "late", &["d", "e"])),
        ];
        let mut machine = Machine::boot(test, 1 << 20, &disks);
        assert_eq!(machine.said(), [format!("{START} data one")]);
        make_device(&machine.top, "sde", 4, &pv_disk("e", "late", &["d", "e"]));
        machine.send("add", "sde", 4);
        assert_eq!(machine.said(), [format!("{START} late")]);
        machine.send("change", "sde", 4);
        machine.send("add", "sde", 4);
        assert!(machine.said().is_empty(), "once");
        machine.send("remove", "sde", 4);
        assert!(machine.said().is_empty());
        let text = machine.daemon.report().text();
        assert!(text.contains("exxxxx") && text.contains("last seen as sde"), "{text}");
    });
}

#[test]
fn the_boot_batch_waits_for_what_udev_has_not_looked_at() {
    alone("the_boot_batch_waits_for_what_udev_has_not_looked_at", |test| {
        let top = make_top(test);
        for (minor, (name, group)) in [("sda", "data"), ("sdb", "late")].iter().enumerate() {
            make_device(&top, name, minor, &pv_disk(name, group, &[name]));
        }
        let record = top.join("udev/data/b8:1");
        fs::remove_file(&record).expect("it was made");
        fs::write(top.join("udev/queue"), "").expect("udev is busy");
        let readers = Readers::new().expect("an eventfd can be had");
        let daemon = Daemon::bind(options(&top), readers, None).expect("a socket can be had");
        let udev = Uevents::open(Group::Kernel, 4096).expect("a socket can be had");
        let mut machine = Machine { top, udev, daemon, seen: Vec::new() };
        machine.daemon.begin();
        let mut told = None;
        while told.is_none() {
            machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
            told = machine.daemon.message();
        }
        assert!(machine.daemon.take_lines().is_empty(), "nothing is started yet");
        fs::write(&record, "I:1\n").expect("udev's record");
        machine.send("change", "sdb", 1);
        assert_eq!(machine.said(), [format!("{START} data late")]);
    });
}

#[test]
fn a_group_that_went_and_comes_back_is_started_again() {
    alone("a_group_that_went_and_comes_back_is_started_again", |test| {
        let disk = pv_disk("c", "one", &["c"]);
        let mut machine = Machine::boot(test, 1 << 20, &[("sda", disk.clone())]);
        assert_eq!(machine.said(), [format!("{START} one")]);
        machine.send("remove", "sda", 0);
        assert!(machine.said().is_empty());
        // Its metadata was read once before; it is asked for again.
        machine.send("add", "sda", 0);
        assert_eq!(machine.said(), [format!("{START} one")]);
    });
}

#[test]
fn what_udev_has_not_looked_at_yet_does_not_count() {
    alone("what_udev_has_not_looked_at_yet_does_not_count", |test| {
        let mut machine = Machine::boot(test, 1 << 20, &[]);
        make_device(&machine.top, "sda", 0, &pv_disk("a", "data", &["a"]));
        make_device(&machine.top, "sdb", 1, &pv_disk("a", "data", &["a"]));
        let record = |name: &str| machine.top.join("udev/data").join(name);
        fs::remove_file(record("b8:0")).expect("it was made");
        fs::write(record("b8:1"), "I:1\nE:DM_MULTIPATH_DEVICE_PATH=1\n").expect("udev's record");
        machine.send("add", "sda", 0);
        machine.send("add", "sdb", 1);
        assert!(machine.said().is_empty(), "one is not looked at, one is a path");
        fs::write(machine.top.join("udev/data/b8:0"), "I:1\n").expect("udev's record");
        machine.send("change", "sda", 0);
        assert_eq!(machine.said(), [format!("{START} data")]);
    });
}

#[test]
fn a_suspended_map_stays_what_it_was() {
    alone("a_suspended_map_stays_what_it_was", |test| {
        let mut machine = Machine::boot(test, 1 << 20, &[("dm-0", pv_disk("a", "data", &["a"]))]);
        assert_eq!(machine.said(), [format!("{START} data")]);
        let state = machine.top.join("sys/devices/block/dm-0/dm/suspended");
        fs::create_dir_all(state.parent().expect("a parent")).expect("the tree can be made");
        for suspended in ["1", "0"] {
            fs::write(&state, suspended).expect("the tree can be made");
            machine.send("change", "dm-0", 0);
            assert!(machine.said().is_empty());
            assert!(machine.daemon.report().text().contains("complete"));
        }
    });
}

/// A device file that counts its reads.
struct Counted(DeviceFile, Arc<AtomicUsize>);

impl ReadAt for Counted {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read_at(offset, buffer)
    }
}

#[test]
fn each_disk_is_opened_once_and_read_twice() {
    alone("each_disk_is_opened_once_and_read_twice", |test| {
        let letters: Vec<String> = ('a'..='x').map(String::from).collect();
        let members: Vec<&str> = letters.iter().map(String::as_str).collect();
        let names: Vec<String> = letters.iter().map(|letter| format!("sd{letter}")).collect();
        let disks: Vec<(&str, Disk)> = names
            .iter()
            .zip(&members)
            .map(|(name, pv)| (name.as_str(), pv_disk(pv, "data", &members)))
            .collect();
        let (opens, reads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (my_opens, my_reads) = (opens.clone(), reads.clone());
        let open = move |path: &Path| -> std::io::Result<Box<dyn ReadAt>> {
            my_opens.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Counted(DeviceFile::open(path)?, my_reads.clone())))
        };
        let readers = Readers::with(Box::new(open), 60_000).expect("an eventfd can be had");
        let mut machine = Machine::start(test, 1 << 20, &disks, readers, 60_000);
        assert_eq!(machine.said(), [format!("{START} data")]);
        let counts = (opens.load(Ordering::Relaxed), reads.load(Ordering::Relaxed));
        assert_eq!(counts, (24, 48), "head and tail; the text is in the head");
    });
}

/// A disk that answers only when the test lets go.
struct Dead(Mutex<Receiver<()>>);

impl ReadAt for Dead {
    fn size_bytes(&self) -> u64 {
        1 << 20
    }

    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let _ = self.0.lock().expect("one reader").recv();
        Ok(buffer.len())
    }
}

#[test]
fn a_dead_disk_does_not_hold_up_the_batch() {
    alone("a_dead_disk_does_not_hold_up_the_batch", |test| {
        let (let_go, gate) = channel();
        let gate = Mutex::new(Some(gate));
        let open = move |path: &Path| -> std::io::Result<Box<dyn ReadAt>> {
            match path.ends_with("sdz") {
                true => {
                    let gate = gate.lock().expect("no reader panicked").take();
                    Ok(Box::new(Dead(Mutex::new(gate.expect("it is read once")))))
                }
                false => Ok(Box::new(DeviceFile::open(path)?)),
            }
        };
        let readers = Readers::with(Box::new(open), 60_000).expect("an eventfd can be had");
        let disks = [("sda", pv_disk("a", "data", &["a"])), ("sdz", Disk::new(1 << 20))];
        let mut machine = Machine::start(test, 1 << 20, &disks, readers, 100);
        let mut said = Vec::new();
        while said.len() < 2 {
            machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
            said.extend(machine.daemon.take_lines());
        }
        let slow = "sdz: slow to answer, not waited for".to_owned();
        assert_eq!(said, [slow, format!("{START} data")]);
        assert!(!machine.daemon.is_settled(), "the read is still under way");
        drop(let_go);
        assert!(machine.said().is_empty());
        assert_eq!(machine.daemon.index().devices().count(), 2, "late is not lost");
    });
}

#[test]
fn a_disk_that_answers_late_is_read_anew() {
    alone("a_disk_that_answers_late_is_read_anew", |test| {
        let (let_go, gate) = channel();
        let gate = Mutex::new(Some(gate));
        let open = move |path: &Path| -> std::io::Result<Box<dyn ReadAt>> {
            let mut gate = gate.lock().expect("no reader panicked");
            match gate.take_if(|_| path.ends_with("sdz")) {
                Some(gate) => Ok(Box::new(Dead(Mutex::new(gate)))),
                None => Ok(Box::new(DeviceFile::open(path)?)),
            }
        };
        let readers = Readers::with(Box::new(open), 50).expect("an eventfd can be had");
        let disks = [("sda", pv_disk("a", "data", &["a"])), ("sdz", pv_disk("z", "late", &["z"]))];
        let mut machine = Machine::start(test, 1 << 20, &disks, readers, 60_000);
        let mut until = |count: usize| {
            let mut said = Vec::new();
            while said.len() < count {
                machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
                said.extend(machine.daemon.take_lines());
            }
            said
        };
        assert_eq!(until(2), ["sdz: does not answer".to_owned(), format!("{START} data")]);
        drop(let_go);
        assert_eq!(until(1), [format!("{START} late")]);
    });
}

#[test]
fn a_map_that_comes_later_takes_the_place_of_its_paths() {
    alone("a_map_that_comes_later_takes_the_place_of_its_paths", |test| {
        let disk = || pv_disk("a", "data", &["a", "b"]);
        let mut machine = Machine::boot(test, 1 << 20, &[("sda", disk()), ("sdb", disk())]);
        let carriers = |machine: &Machine| {
            let numbers = machine.daemon.index().devices_of_pv(id("a"));
            numbers.iter().map(|number| number.minor).collect::<Vec<_>>()
        };
        assert_eq!(carriers(&machine), [0, 1], "nobody has said that they are one");
        make_device(&machine.top, "dm-0", 2, &disk());
        let block = machine.top.join("sys/devices/block");
        for (file, text) in [("dm/uuid", "mpath-3600a\n"), ("dm/suspended", "0\n")] {
            fs::create_dir_all(block.join("dm-0/dm")).expect("the tree can be made");
            fs::write(block.join("dm-0").join(file), text).expect("the tree can be made");
        }
        for path in ["sda", "sdb"] {
            fs::create_dir_all(block.join("dm-0/slaves").join(path)).expect("the tree can be made");
            fs::create_dir_all(block.join(path).join("holders/dm-0")).expect("it can be made");
        }
        machine.send("add", "dm-0", 2);
        machine.settle();
        assert_eq!(carriers(&machine), [2]);
    });
}

#[test]
fn a_changed_disk_is_read_again() {
    alone("a_changed_disk_is_read_again", |test| {
        let mut machine = Machine::boot(test, 1 << 20, &[("sda", Disk::new(2 << 20))]);
        assert!(machine.said().is_empty());
        make_device(&machine.top, "sda", 0, &pv_disk("a", "data", &["a"]));
        machine.send("add", "sda", 0);
        assert!(machine.said().is_empty(), "the same disk is there as before");
        machine.send("change", "sda", 0);
        assert_eq!(machine.said(), [format!("{START} data")]);
    });
}

#[test]
fn damage_is_told_and_a_node_that_is_gone_is_no_end() {
    alone("damage_is_told_and_a_node_that_is_gone_is_no_end", |test| {
        let mut damaged = pv_disk("a", "data", &["a"]);
        damaged.put(600, &[1]);
        let disks = [("sda", damaged), ("sdb", pv_disk("b", "one", &["b"]))];
        let top = make_top(test);
        fs::create_dir_all(top.join("sys/devices/block/sdz")).expect("the tree can be made");
        let link = top.join("sys/class/block/sdz");
        std::os::unix::fs::symlink("../../devices/block/sdz", link).expect("made");
        fs::write(top.join("sys/devices/block/sdz/uevent"), "MAJOR=8\nMINOR=99\n").expect("made");
        fs::write(top.join("udev/data/b8:99"), "I:1\n").expect("made");
        let mut said = Machine::boot(test, 1 << 20, &disks).said();
        said.sort();
        assert_eq!(said[0], "sda: LVM label: its checksum is wrong");
        assert!(said[1].starts_with("sdz: cannot be read: No such file"), "{said:?}");
        assert_eq!(said[2..], [format!("{START} one")]);
    });
}

#[test]
fn rubbish_and_other_subsystems_are_not_heard() {
    alone("rubbish_and_other_subsystems_are_not_heard", |test| {
        let mut machine = Machine::boot(test, 1 << 20, &[]);
        make_device(&machine.top, "sda", 0, &pv_disk("a", "data", &["a"]));
        let add = b"ACTION=add\0DEVPATH=/devices/block/sda\0SUBSYSTEM=block\0MAJOR=8\0MINOR=0\0";
        let kernels = [&b"add@/devices/block/sda\0"[..], add].concat();
        let net = b"ACTION=add\0DEVPATH=/devices/net/e0\0SUBSYSTEM=net\0INTERFACE=e0\0";
        let other = udev::message("net", "", net);
        let mut cut = udev::message("block", "", add);
        cut.truncate(50);
        for datagram in [&kernels[..], &other, &cut, b"", b"libudev\0", &[0xff; 4000]] {
            let _ = machine.udev.send(Group::Udev, datagram);
        }
        assert!(machine.said().is_empty());
        machine.send("add", "sda", 0);
        assert_eq!(machine.said(), [format!("{START} data")]);
    });
}

#[test]
fn what_has_the_tag_is_told_of_whatever_it_is() {
    alone("what_has_the_tag_is_told_of_whatever_it_is", |test| {
        let mut machine = Machine::boot(test, 1 << 20, &[]);
        assert_eq!(machine.daemon.message().as_deref(), Some("whole\n"));
        let text = |tags: &str| {
            format!(
                "ACTION=add\0DEVPATH=/devices/ttyS0\0SUBSYSTEM=tty\0DEVNAME=/dev/ttyS0\0TAGS={tags}\0"
            )
        };
        let send = |machine: &Machine, tag: &str, text: &str| {
            let message = udev::message("tty", tag, text.as_bytes());
            machine.udev.send(Group::Udev, &message).expect("somebody listens");
        };
        // The first does not pass the kernel's filter, the second is not tagged after all.
        send(&machine, "", &text(":systemd:"));
        send(&machine, "systemd", &text(":seat:"));
        assert!(machine.said().is_empty());
        assert_eq!(machine.daemon.message(), None);
        send(&machine, "systemd", &text(":seat:systemd:"));
        machine.said();
        let told = "device /sys/devices/ttyS0\nname 0 /dev/ttyS0\nready\n";
        assert_eq!(machine.daemon.message().as_deref(), Some(told));
    });
}

#[test]
fn disks_are_told_of_in_one_message() {
    alone("disks_are_told_of_in_one_message", |test| {
        let disk = |pv| pv_disk(pv, "data", &["a", "b"]);
        let mut machine = Machine::boot(test, 1 << 20, &[("sda", disk("a"))]);
        let record = "I:1\nQ:systemd\nS:disk/by-id/x\nL:7\nE:SYSTEMD_WANTS=up.service\n";
        fs::write(machine.top.join("udev/data/b8:0"), record).expect("udev's record");
        machine.send("change", "sda", 0);
        machine.said();
        let told = machine.daemon.message().expect("all is told");
        let id = format!("vg:{}", id("data"));
        let expected = [
            "whole",
            "device /sys/devices/block/sda",
            "name 0 /dev/sda",
            "name 7 /dev/disk/by-id/x",
            "ready",
            "wants up.service",
            &format!("note pv {}", crate::id("a")),
            &format!("part {id}"),
            "size 2097152",
            &format!("group {id}"),
            "name vg data",
            &format!("note 1 of 2 there, waits for PV {}", crate::id("b")),
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), expected);
        fs::remove_file(machine.top.join("sys/class/block/sda")).expect("it was made");
        machine.send("remove", "sda", 0);
        machine.said();
        let told = machine.daemon.message().expect("it went");
        assert_eq!(told, format!("gone /sys/devices/block/sda\nnogroup {id}\n"));
    });
}

#[test]
fn a_burst_is_heard_whole_and_lost_events_are_made_up_for() {
    alone("a_burst_is_heard_whole_and_lost_events_are_made_up_for", |test| {
        // The small buffer loses nearly all of the burst, the large one nothing.
        for (buffer, loses) in [(32 << 20, false), (4096, true)] {
            let name = format!("{test}-{loses}");
            let mut machine =
                Machine::boot(&name, buffer, &[("sdy", pv_disk("y", "gone", &["y"]))]);
            assert_eq!(machine.said(), [format!("{START} gone")]);
            let letters = ["a", "b", "c", "d", "e", "f"];
            for (i, letter) in letters.iter().enumerate() {
                let disk = pv_disk(letter, "data", &letters);
                make_device(&machine.top, &format!("sd{letter}"), 10 + i, &disk);
            }
            fs::remove_file(machine.top.join("sys/class/block/sdy")).expect("it was made");
            for _ in 0..333 {
                for (i, letter) in letters.iter().enumerate() {
                    machine.send("add", &format!("sd{letter}"), 10 + i);
                }
            }
            machine.send("remove", "sdy", 0);
            let said = machine.said();
            let lost = said.iter().any(|line| line.starts_with("events were lost"));
            assert_eq!(lost, loses, "{said:?}");
            assert!(said.contains(&format!("{START} data")), "{said:?}");
            assert_eq!(machine.daemon.index().devices().count(), 6, "the one that went is gone");
        }
    });
}

#[test]
fn nothing_is_gone_because_the_list_cannot_be_read() {
    alone("nothing_is_gone_because_the_list_cannot_be_read", |test| {
        let mut machine = Machine::boot(test, 4096, &[("sda", pv_disk("a", "data", &["a"]))]);
        machine.said();
        machine.daemon.message();
        let (list, kept) = (machine.top.join("sys/class/block"), machine.top.join("kept"));
        fs::rename(&list, &kept).expect("it is there");
        fs::write(&list, "").expect("no directory");
        // More than the buffer holds.
        (0..100).for_each(|_| machine.send("add", "sdz", 9));
        let mut said = Vec::new();
        while !said.iter().any(|line: &String| line.contains("cannot be listed")) {
            machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
            said.extend(machine.daemon.take_lines());
        }
        assert!(!machine.daemon.message().unwrap_or_default().contains("gone"));
        fs::remove_file(&list).expect("it was made");
        fs::rename(&kept, &list).expect("it is there");
        assert!(machine.said().is_empty(), "it is tried again");
        assert_eq!(machine.daemon.index().devices().count(), 1);
    });
}

#[test]
fn a_udev_that_is_started_later_takes_over() {
    alone("a_udev_that_is_started_later_takes_over", |test| {
        let disks = [("sda", pv_disk("a", "data", &["a"])), ("sdb", Disk::new(2 << 20))];
        let mut machine = Machine::without_udev(test, &disks, None);
        assert_eq!(machine.said(), [format!("{START} data")]);
        let all = machine.daemon.message().expect("all is told");
        assert!(all.contains("name 0 /dev/sda\nready"), "{all}");
        let record = "I:1\nQ:systemd\nS:disk/by-id/b\nE:SYSTEMD_WANTS=up.service\n";
        fs::write(machine.top.join("udev/data/b8:1"), record).expect("udev's record");
        machine.send("add", "sdb", 1);
        assert_eq!(machine.said(), ["udev is running now"]);
        // What udev has not told of stays as it was, and counts no less.
        let told = machine.daemon.message().expect("a disk has changed");
        assert!(told.starts_with("device /sys/devices/block/sdb\n"), "{told}");
        assert!(told.contains("name 0 /dev/disk/by-id/b\nready\nwants up.service"), "{told}");
        assert!(!told.contains("gone") && !told.contains("sda"), "{told}");
        // A new disk waits for udev's word, and an old one follows it once there is one.
        make_device(&machine.top, "sdc", 2, &pv_disk("c", "late", &["c"]));
        fs::remove_file(machine.top.join("udev/data/b8:2")).expect("it was made");
        fs::write(machine.top.join("udev/data/b8:0"), "I:1\n").expect("udev's record");
        machine.send("add", "sda", 0);
        machine.send("add", "sdc", 2);
        assert!(machine.said().is_empty());
        let told = machine.daemon.message().expect("a disk has changed");
        assert!(told.contains("gone /sys/devices/block/sda\n"), "it has no tag: {told}");
        fs::write(machine.top.join("udev/data/b8:2"), "I:1\n").expect("udev's record");
        machine.send("change", "sdc", 2);
        assert_eq!(machine.said(), [format!("{START} late")]);
    });
}

/// The disk of one of two devices of a btrfs.
fn btrfs_disk(devid: u64) -> Disk {
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
fn taken(socket: &OwnedFd) -> Vec<Order> {
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

#[test]
fn a_file_system_on_several_disks_is_ready_when_the_kernel_knows_all() {
    alone("a_file_system_on_several_disks_is_ready_when_the_kernel_knows_all", |test| {
        let (near, far) = fdpass::seqpacket_pair(false).expect("a pair");
        let disks = [("sda", btrfs_disk(1)), ("sdb", btrfs_disk(2))];
        let mut machine = Machine::without_udev(test, &disks, Some(near));
        let mut orders = Vec::new();
        let is_asked = |order: &&Order| matches!(order, Order::Register(..));
        while orders.iter().filter(is_asked).count() < 2 {
            machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
            orders.extend(taken(&far));
        }
        let told = machine.daemon.message().expect("all is told");
        assert!(told.contains("note btrfs") && !told.contains("\nready\nnote"), "{told}");
        for order in orders {
            if let Order::Register(id, node) = order {
                assert!(node == "/dev/sda" || node == "/dev/sdb", "{node}");
                let done = Answer::Ended(id, Ok(())).write();
                fdpass::send(far.as_fd(), done.as_bytes(), &[]).expect("it listens");
            }
        }
        let said = machine.said();
        assert!(said.len() == 1 && said[0].starts_with("ready: btrfs"), "{said:?}");
        let told = machine.daemon.message().expect("both are ready");
        assert_eq!(told.matches("ready\nnote btrfs").count(), 2, "{told}");
    });
}

#[test]
fn a_volume_is_ready_when_it_can_be_opened_by_its_names() {
    alone("a_volume_is_ready_when_it_can_be_opened_by_its_names", |test| {
        let dir = make_top(test).join("sys/devices/block/dm-0/dm");
        fs::create_dir_all(&dir).expect("the tree can be made");
        for (file, text) in [("name", "data-home"), ("uuid", "LVM-x"), ("suspended", "0")] {
            fs::write(dir.join(file), format!("{text}\n")).expect("the tree can be made");
        }
        let disk = Disk::new(2 << 20);
        let mut machine = Machine::without_udev(test, &[("dm-0", disk)], None);
        let mut next = || loop {
            machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
            if let Some(told) = machine.daemon.message() {
                return told;
            }
        };
        let told = next();
        assert!(told.contains("name 0 /dev/data/home") && !told.contains("\nready\n"), "{told}");
        assert!(told.contains("\nunknown\n"), "what was told of it before holds: {told}");
        for node in ["mapper/data-home", "data/home"] {
            let path = dir.ancestors().nth(5).expect("the top").join("dev").join(node);
            fs::create_dir_all(path.parent().expect("a parent")).expect("it can be made");
            fs::write(path, "").expect("it can be made");
        }
        // Nobody tells of that: the daemon wakes by itself.
        let told = next();
        assert!(told.contains("\nready\n") && !told.contains("\nunknown\n"), "{told}");
    });
}

#[test]
fn a_part_that_udev_holds_back_is_counted_all_the_same() {
    alone("a_part_that_udev_holds_back_is_counted_all_the_same", |test| {
        let mut machine = Machine::boot(test, 1 << 20, &[]);
        make_device(&machine.top, "sda", 0, &btrfs_disk(1));
        let record = "I:1\nQ:systemd\nE:ID_FS_TYPE=btrfs\nE:SYSTEMD_READY=0\n";
        fs::write(machine.top.join("udev/data/b8:0"), record).expect("udev's record");
        machine.send("add", "sda", 0);
        machine.said();
        let told = machine.daemon.message().expect("a disk came");
        assert!(told.contains("\nnote 1 of 2 there"), "{told}");
        assert!(!told.contains("\nready\n"), "that is udev's to say: {told}");
    });
}

/// The machine's daemon is gone and another takes its place, with these records.
fn taken_over(mut machine: Machine, begun: BTreeMap<GroupId, Begun>) -> (Machine, OwnedFd) {
    let (near, far) = fdpass::seqpacket_pair(false).expect("a pair");
    let options = Options { begun, ..options(&machine.top) };
    let readers = Readers::new().expect("an eventfd can be had");
    machine.daemon = Daemon::bind(options, readers, Some(near)).expect("a socket can be had");
    machine.seen.clear();
    machine.daemon.begin();
    (machine, far)
}

/// Plays the executor until the daemon has settled: all programs succeed. Returns their command
/// lines, and changes the records as it is told.
fn carry_out(
    machine: &mut Machine,
    executor: &OwnedFd,
    records: &mut BTreeMap<GroupId, Begun>,
) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let was_settled = machine.daemon.is_settled();
        let limit = if was_settled { Duration::ZERO } else { Duration::from_secs(60) };
        machine.daemon.turn(Some(limit)).expect("the socket works");
        let orders = taken(executor);
        if was_settled && orders.is_empty() && machine.daemon.is_settled() {
            let told = machine.daemon.message().unwrap_or_default();
            assert!(!told.contains("\nstarting\n"), "nothing is any more: {told}");
            return lines;
        }
        for order in orders {
            match order {
                Order::Run(run) => {
                    let told = machine.daemon.message().expect("a start is news");
                    assert!(told.contains("\nstarting\n"), "{told}");
                    lines.push(run.words.join(" "));
                    let done = Answer::Ended(run.id, Ok(())).write();
                    fdpass::send(executor.as_fd(), done.as_bytes(), &[]).expect("it listens");
                }
                Order::Keep(group, Some(begun)) => drop(records.insert(group, begun)),
                Order::Keep(group, None) => drop(records.remove(&group)),
                _ => {}
            }
        }
    }
}

#[test]
fn what_was_started_is_not_started_again_by_another_daemon() {
    alone("what_was_started_is_not_started_again_by_another_daemon", |test| {
        const VGCHANGE: &str = "lvm vgchange -aay --autoactivation event";
        let disks = [
            ("sda", pv_disk("a", "one", &["a"])),
            ("sdb", pv_disk("b", "two", &["b"])),
            ("sdc", pv_disk("c", "gone", &["c"])),
            ("sdd", pv_disk("d", "late", &["d", "e"])),
        ];
        let mut records = BTreeMap::new();
        let machine = Machine::start(test, 1 << 20, &[], Readers::new().expect("readers"), 60_000);
        for (minor, (name, disk)) in disks.iter().enumerate() {
            make_device(&machine.top, name, minor, disk);
        }
        let (mut machine, executor) = taken_over(machine, records.clone());
        let ran = carry_out(&mut machine, &executor, &mut records);
        assert_eq!(ran, [format!("{VGCHANGE} gone one two")]);
        assert_eq!(records.len(), 3, "{records:?}");
        // While nobody looked, one disk went, and a group became complete.
        fs::remove_file(machine.top.join("sys/class/block/sdc")).expect("it was there");
        make_device(&machine.top, "sde", 4, &pv_disk("e", "late", &["d", "e"]));
        let (mut machine, executor) = taken_over(machine, records.clone());
        let ran = carry_out(&mut machine, &executor, &mut records);
        assert_eq!(ran, [format!("{VGCHANGE} late")], "and nothing again");
        assert_eq!(records.len(), 3, "what went is forgotten: {records:?}");
        assert!(records.values().all(|begun| begun.whole));
        // What comes back is started, whoever saw it go.
        make_device(&machine.top, "sdc", 2, &pv_disk("c", "gone", &["c"]));
        machine.send("add", "sdc", 2);
        let ran = carry_out(&mut machine, &executor, &mut records);
        assert_eq!(ran, [format!("{VGCHANGE} gone")]);
        machine.send("remove", "sda", 0);
        assert!(carry_out(&mut machine, &executor, &mut records).is_empty());
        assert_eq!(records.len(), 3);
        machine.send("add", "sda", 0);
        let ran = carry_out(&mut machine, &executor, &mut records);
        assert_eq!(ran, [format!("{VGCHANGE} one")]);
        assert_eq!(records.len(), 4);
    });
}

/// Twelve times as many disks as descriptors; the limit of a service is 1,024.
#[test]
fn no_disk_has_a_descriptor_that_is_not_being_read() {
    const DISKS: usize = 600;
    let top = make_top("no_disk_has_a_descriptor");
    for minor in 0..DISKS {
        let pv = format!("{minor:03}");
        make_device(&top, &format!("sd{minor}"), minor, &pv_disk(&pv, &format!("g{pv}"), &[&pv]));
        fs::remove_file(top.join(format!("udev/data/b8:{minor}"))).expect("it was made");
    }
    let option = |name: &str, below: &str| format!("--{name}={}", top.join(below).display());
    let limited = "ulimit -n 50 && exec \"$0\" \"$@\"";
    let ran = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_warren-deviced"), "--once", "--kernel"])
        .args([option("sys", "sys"), option("dev", "dev"), option("udev-run", "none")])
        .env("LVM_SYSTEM_DIR", top.join("none"))
        .output();
    let ran = ran.expect("a shell can be started");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let found = said.lines().filter(|line| line.starts_with("vg g")).count();
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    let _ = fs::remove_dir_all(&top);
    assert_eq!(found, DISKS, "{said}\n{errors}");
}
