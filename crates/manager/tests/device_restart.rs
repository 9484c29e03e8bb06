//! A device daemon that takes another's place takes nothing away: whatever is on the disks and in
//! whatever order they and the executor answer, no unit of a device that is still there is told to
//! be gone, whether the manager knows what it was told before or is new as well. What did go is
//! told to be gone in the end.
//!
//! The daemon is the real one, over a tree of the test's and disks that answer when it wants.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use warren_core::model::device_table::DeviceTable;
use warren_device::Uuid;
use warren_device::btrfs::BtrfsMember;
use warren_device::daemon::{Daemon, Options};
use warren_device::file::DeviceFile;
use warren_device::image::{self, Disk};
use warren_device::index::{CryptEntry, Policy};
use warren_device::luks::Luks;
use warren_device::md::{self, MdMember};
use warren_device::orders::{self, Answer, ExecutorOrder};
use warren_device::read::ReadAt;
use warren_device::readers::Readers;
use warren_device::sysfs::Roots;
use warren_sys::namespace::{Namespaces, unshare};
use warren_sys::{fdpass, memfd};
use warren_unit::{UnitName, UnitType};
use warren_wire::device_link;

/// Machines that are tried.
const SEEDS: u64 = 60;

const DISK_BYTES: u64 = 2 << 20;

/// Longest wait for something that is certain to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fixed sequence of numbers that looks random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % bound
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// Which disks answer, and which answer with an error.
#[derive(Default)]
struct Gate {
    state: Mutex<(BTreeSet<String>, BTreeSet<String>)>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, name: &str) {
        self.state.lock().expect("no reader panicked").0.insert(name.to_owned());
        self.opened.notify_all();
    }

    fn spoil(&self, name: &str) {
        self.state.lock().expect("no reader panicked").1.insert(name.to_owned());
    }

    fn pass(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let state = self.state.lock().expect("no reader panicked");
        let shut = |state: &mut (BTreeSet<String>, BTreeSet<String>)| !state.0.contains(&name);
        let state = self.opened.wait_while(state, shut).expect("no reader panicked");
        match state.1.contains(&name) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }
}

/// A tree like sysfs, with files for nodes.
struct Tree {
    top: PathBuf,
    names: Vec<String>,
    /// Those whose going touches no other.
    loners: Vec<String>,
    /// One of two, which is not mounted: not ready.
    halves: BTreeSet<String>,
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

impl Tree {
    fn new(seed: u64) -> Tree {
        let name = format!("warren-device-restart-{seed}-{}", std::process::id());
        let top = std::env::temp_dir().join(name);
        for below in ["sys/class/block", "dev", "udev/data"] {
            fs::create_dir_all(top.join(below)).expect("the tree can be made");
        }
        Tree { top, names: Vec::new(), loners: Vec::new(), halves: BTreeSet::new() }
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.top.join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("the tree can be made");
        fs::write(path, text).expect("the tree can be made");
    }

    /// The directory of a device.
    fn of(&self, name: &str, file: &str) -> String {
        format!("sys/devices/block/{name}/{file}")
    }

    fn minor(&self, name: &str) -> usize {
        self.names.iter().position(|other| other == name).expect("it was plugged in")
    }

    fn plug(&mut self, name: &str, disk: &Disk) {
        self.names.push(name.to_owned());
        self.write(name, disk, 1);
        fs::create_dir_all(self.top.join(self.of(name, "holders"))).expect("the tree can be made");
        let link = self.top.join("sys/class/block").join(name);
        std::os::unix::fs::symlink(format!("../../devices/block/{name}"), link).expect("a link");
    }

    fn write(&self, name: &str, disk: &Disk, diskseq: u32) {
        let minor = self.minor(name);
        let uevent = format!("MAJOR=8\nMINOR={minor}\nDEVNAME={name}\nDISKSEQ={diskseq}\n");
        self.put(&self.of(name, "uevent"), &format!("{uevent}PARTUUID=part-{name}-{diskseq}\n"));
        self.put(&self.of(name, "size"), "4096\n");
        let mut bytes = vec![0; DISK_BYTES as usize];
        for (at, block) in disk.extents() {
            bytes[at as usize..at as usize + block.len()].copy_from_slice(block);
        }
        fs::write(self.top.join("dev").join(name), bytes).expect("the node can be made");
    }

    fn unplug(&self, name: &str) {
        fs::remove_file(self.top.join("sys/class/block").join(name)).expect("it was made");
    }

    /// Between one and a dozen devices of all kinds.
    fn fill(&mut self, numbers: &mut Numbers) {
        for set in 0..1 + numbers.below(4) as u8 {
            let base = b'a' + 2 * set;
            let one = format!("sd{}", char::from(base));
            let two = format!("sd{}", char::from(base + 1));
            match numbers.below(6) {
                0 => self.plug(&one, &Disk::new(DISK_BYTES)),
                1 => self.plug(&one, &luks(set)),
                2 => self.plug_mapped(set),
                3 => self.plug_array(set, &one, &two),
                4 => {
                    self.plug(&one, &btrfs(set, 1));
                    self.plug(&two, &btrfs(set, 2));
                    continue;
                }
                _ => {
                    self.plug(&one, &btrfs(set, 1));
                    match numbers.one_in(2) {
                        true => self.put(&format!("sys/fs/btrfs/{}/devices/{one}", uuid(set)), ""),
                        false => drop(self.halves.insert(one)),
                    }
                    continue;
                }
            }
            if self.names.last() == Some(&one) {
                self.loners.push(one);
            }
        }
    }

    fn plug_mapped(&mut self, set: u8) {
        let name = format!("dm-{set}");
        self.plug(&name, &luks(set));
        self.put(&self.of(&name, "dm/name"), &format!("vg{set}-lv"));
        self.put(&self.of(&name, "dm/uuid"), &format!("LVM-{}", "a".repeat(64)));
        self.put(&self.of(&name, "dm/suspended"), "0");
        for node in [format!("mapper/vg{set}-lv"), format!("vg{set}/lv")] {
            self.put(&format!("dev/{node}"), "");
        }
    }

    fn plug_array(&mut self, set: u8, one: &str, two: &str) {
        let name = format!("md{set}");
        self.plug(&name, &luks(set));
        self.put(&self.of(&name, "md/array_state"), "clean");
        for (place, leg) in [one, two].into_iter().enumerate() {
            self.plug(leg, &leg_of(set, place as u32));
            self.put(&self.of(leg, &format!("holders/{name}")), "");
            self.put(&self.of(&name, &format!("slaves/{leg}")), "");
        }
    }

    /// udev knows all but some of the devices.
    fn record(&self, numbers: &mut Numbers) {
        for (minor, name) in self.names.iter().enumerate() {
            if !numbers.one_in(5) {
                let is_half = self.halves.contains(name);
                let held = if is_half { "E:SYSTEMD_READY=0\nE:ID_FS_TYPE=btrfs\n" } else { "" };
                let record = format!("I:1\nQ:systemd\nS:disk/by-id/{name}\n{held}");
                self.put(&format!("udev/data/b8:{minor}"), &record);
            }
        }
    }

    fn forget_records(&self, numbers: &mut Numbers) {
        for minor in 0..self.names.len() {
            if numbers.one_in(4) {
                let _ = fs::remove_file(self.top.join(format!("udev/data/b8:{minor}")));
            }
        }
    }
}

fn uuid(set: u8) -> Uuid {
    Uuid([0x40 + set; 16])
}

fn luks(set: u8) -> Disk {
    let mut disk = Disk::new(DISK_BYTES);
    let label = format!("luks{set}");
    let found = Luks { version: 2, uuid: uuid(set), label, from_second: false };
    image::put_luks(&mut disk, &found, 0x4000);
    disk
}

fn btrfs(set: u8, devid: u64) -> Disk {
    let mut disk = Disk::new(DISK_BYTES);
    let member = BtrfsMember {
        fsid: uuid(set),
        metadata_uuid: None,
        device_uuid: Uuid([devid as u8; 16]),
        devid,
        num_devices: 2,
        generation: 1,
        label: format!("both{set}"),
        seeding: false,
    };
    image::put_btrfs(&mut disk, &member);
    disk
}

fn leg_of(set: u8, place: u32) -> Disk {
    let mut disk = Disk::new(DISK_BYTES);
    let member = MdMember {
        version: md::Version::V12,
        array: uuid(set),
        name: format!("host:arr{set}"),
        level: 1,
        raid_disks: 2,
        working: 2,
        events: 7,
        role: md::Role::Active(place),
    };
    image::put_md(&mut disk, &member, place);
    disk
}

/// A daemon, and the executor that the test plays.
struct Run {
    daemon: Daemon,
    executor: OwnedFd,
    asked: Vec<u64>,
    gate: Arc<Gate>,
}

impl Run {
    fn begin(tree: &Tree, udev: bool, pass_patience_ms: u64) -> Run {
        let gate = Arc::new(Gate::default());
        let at_gate = gate.clone();
        let open = move |path: &Path| -> io::Result<Box<dyn ReadAt>> {
            at_gate.pass(path)?;
            Ok(Box::new(DeviceFile::open(path)?))
        };
        let readers = Readers::with(Box::new(open), 600_000).expect("an eventfd can be had");
        let entry = |set: u8| CryptEntry { name: format!("c{set}"), uuid: uuid(set) };
        let policy = Policy { crypttab: (0..4).map(entry).collect(), ..Policy::default() };
        let top = &tree.top;
        let options = Options {
            roots: Roots {
                sys: top.join("sys"),
                udev: top.join("udev"),
                dev: top.join("dev"),
                ..Roots::default()
            },
            udev,
            waits_for_udev: false,
            receive_buffer_bytes: 1 << 20,
            pass_patience_ms,
            policy,
            begun: Default::default(),
        };
        let (near, executor) = fdpass::seqpacket_pair(true).expect("a pair");
        let mut daemon = Daemon::bind(options, readers, Some(near)).expect("a socket can be had");
        daemon.begin();
        Run { daemon, executor, asked: Vec::new(), gate }
    }

    /// One turn; a message, if there is one.
    fn turn(&mut self, limit: Duration) -> Option<String> {
        self.daemon.turn(Some(limit)).expect("the sockets work");
        let (mut buffer, mut fds) = ([0; 16], Vec::new());
        while fdpass::recv(self.executor.as_fd(), &mut buffer, &mut fds, false).is_ok() {
            for fd in fds.drain(..) {
                let text = memfd::read_all(fd.as_fd(), 1 << 20).expect("orders");
                let text = String::from_utf8_lossy(&text);
                self.asked.extend(orders::read(&text).flatten().filter_map(|order| match order {
                    ExecutorOrder::Register(id, _) => Some(id),
                    ExecutorOrder::Run(run) => Some(run.id),
                    _ => None,
                }));
            }
        }
        self.daemon.message()
    }

    fn answer(&mut self, at: usize) {
        let done = Answer::Ended(self.asked.swap_remove(at), Ok(())).write();
        fdpass::send(self.executor.as_fd(), done.as_bytes(), &[]).expect("it listens");
    }

    /// Everything answers; what is told meanwhile goes to `told`.
    fn finish(&mut self, names: &[String], mut told: impl FnMut(String)) {
        names.iter().for_each(|name| self.gate.open(name));
        loop {
            (0..self.asked.len()).rev().for_each(|at| self.answer(at));
            let is_settled = self.daemon.is_settled();
            let limit = if is_settled { Duration::ZERO } else { PATIENCE };
            let message = self.turn(limit);
            let is_quiet = message.is_none();
            message.into_iter().for_each(&mut told);
            if is_settled && is_quiet && self.daemon.is_settled() {
                return;
            }
        }
    }
}

/// All units of devices that are ready, by the paths of their devices.
fn ready_units(table: &DeviceTable) -> Vec<(String, UnitName)> {
    let of = |path: &str| UnitName::for_path(path, UnitType::Device).ok();
    let mut all = Vec::new();
    for facts in table.devices().filter(|facts| facts.ready) {
        let names = facts.names.iter().map(|(name, _)| name).chain([&facts.path]);
        all.extend(names.filter_map(|name| Some((facts.path.clone(), of(name)?))));
    }
    all
}

/// The manager's side: what it is told must not take away what stays.
struct Told<'a> {
    table: DeviceTable,
    stays: &'a BTreeSet<UnitName>,
    gone: BTreeSet<UnitName>,
    seed: u64,
}

impl Told<'_> {
    fn take(&mut self, message: &str) {
        let touched = self.table.apply(device_link::read(message).batch);
        let lost: BTreeSet<UnitName> =
            touched.into_iter().filter(|name| self.table.ready(name).is_none()).collect();
        let wrong: Vec<&UnitName> = lost.intersection(self.stays).collect();
        assert!(wrong.is_empty(), "seed {}: {wrong:?} gone by\n{message}", self.seed);
        self.gone.extend(lost);
    }
}

fn check(seed: u64) {
    let numbers = &mut Numbers(seed);
    let mut tree = Tree::new(seed);
    tree.fill(numbers);
    let (udev_before, udev_after) = (numbers.one_in(3), numbers.one_in(3));
    if udev_before {
        tree.record(numbers);
    }
    let mut table = DeviceTable::default();
    let mut before = Run::begin(&tree, udev_before, 0);
    before.finish(&tree.names, |message| drop(table.apply(device_link::read(&message).batch)));
    let units = ready_units(&table);

    let lost: Vec<String> = tree.loners.iter().filter(|_| numbers.one_in(4)).cloned().collect();
    for name in &lost {
        match numbers.one_in(2) {
            true => tree.unplug(name),
            false => tree.write(name, &Disk::new(DISK_BYTES), 2),
        }
    }
    if udev_before && udev_after {
        tree.forget_records(numbers);
    }
    let is_lost = |path: &str| lost.iter().any(|name| path.ends_with(&format!("/{name}")));
    let stays = units.iter().filter(|(path, _)| !is_lost(path)).map(|(_, unit)| unit.clone());
    let stays: BTreeSet<UnitName> = stays.collect();
    let is_suspended = numbers.one_in(2);
    for name in tree.names.iter().filter(|name| name.starts_with("dm-") && is_suspended) {
        tree.put(&tree.of(name, "dm/suspended"), "1");
    }
    if numbers.one_in(3) {
        // The manager is new as well: it knows which units were plugged in and nothing else.
        table = DeviceTable::default();
        table.expect(units.iter().map(|(_, unit)| unit.clone()));
    }

    // What udev never looks at is waited for so long.
    let patience_ms = if udev_after || numbers.one_in(2) { 0 } else { 600_000 };
    let mut after = Run::begin(&tree, udev_after, patience_ms);
    let spoilt: Vec<&String> = tree.names.iter().filter(|_| numbers.one_in(6)).collect();
    spoilt.iter().for_each(|name| after.gate.spoil(name));
    let mut told = Told { table, stays: &stays, gone: BTreeSet::new(), seed };
    for _ in 0..3 * tree.names.len() {
        match numbers.below(3) {
            0 => after.gate.open(&tree.names[numbers.below(tree.names.len())]),
            1 if !after.asked.is_empty() => after.answer(numbers.below(after.asked.len())),
            _ => after.turn(Duration::ZERO).iter().for_each(|message| told.take(message)),
        }
    }
    after.finish(&tree.names, |message| told.take(&message));
    // Of a device that cannot be read it is never known what it was.
    let is_open = !spoilt.is_empty() || is_suspended || udev_after;
    for (path, unit) in units.iter().filter(|(path, _)| !is_open && is_lost(path)) {
        let is_there = told.table.ready(unit).is_some();
        assert!(is_there || told.gone.contains(unit), "seed {seed}: {unit} of {path} is not gone");
    }
}

#[test]
fn a_daemon_that_takes_anothers_place_takes_nothing_away() {
    let run = || match unshare(Namespaces::NET) {
        Ok(()) => (0..SEEDS).for_each(check),
        Err(_) => warren_testkit::not_run("it needs a network namespace of its own (root)"),
    };
    std::thread::spawn(run).join().expect("nothing is taken away");
}
