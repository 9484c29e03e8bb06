//! What is there at boot: one batch, each disk read once, and nobody waits for a dead one.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use warren_device::daemon::Daemon;
use warren_device::file::DeviceFile;
use warren_device::image::Disk;
use warren_device::read::{ReadAt, ReadError};
use warren_device::readers::Readers;
use warren_sys::netlink::{Group, Uevents};

use crate::machine::*;

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
        let slow = "sdz: slow to respond, not waiting for it".to_owned();
        assert_eq!(said, [slow, format!("{START} data")]);
        assert!(!machine.daemon.is_settled(), "the read is still under way");
        drop(let_go);
        assert!(machine.said().is_empty());
        assert_eq!(machine.daemon.index().devices().count(), 2, "late is not lost");
    });
}

/// To ask a thousand disks takes longer than one may take to answer, on a machine that is busy.
#[test]
fn no_disk_is_late_before_its_answer_was_waited_for() {
    alone("no_disk_is_late_before_its_answer_was_waited_for", |test| {
        let readers = Readers::new().expect("an eventfd can be had");
        let disks = [("sda", pv_disk("a", "data", &["a"]))];
        let mut machine = Machine::start(test, 1 << 20, &disks, readers, 0);
        assert_eq!(machine.daemon.take_lines(), [""; 0]);
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
        let until = |machine: &mut Machine, count: usize| {
            let mut said = Vec::new();
            while said.len() < count {
                machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
                said.extend(machine.daemon.take_lines());
            }
            said
        };
        let silent = "sdz: does not respond";
        assert_eq!(until(&mut machine, 2), [silent.to_owned(), format!("{START} data")]);
        let report = machine.daemon.report().text();
        assert!(report.lines().any(|line| line == silent), "{report}");
        drop(let_go);
        assert_eq!(until(&mut machine, 1), [format!("{START} late")]);
    });
}

#[test]
fn what_was_read_before_the_file_of_a_loop_device_went_is_not_told() {
    alone("what_was_read_before_the_file_of_a_loop_device_went_is_not_told", |test| {
        let (let_go, gate) = channel();
        let gate = Mutex::new(Some(gate));
        let open = move |_: &Path| -> std::io::Result<Box<dyn ReadAt>> {
            let gate = gate.lock().expect("no reader panicked").take();
            Ok(Box::new(Dead(Mutex::new(gate.expect("it is read once")))))
        };
        let readers = Readers::with(Box::new(open), 60_000).expect("an eventfd can be had");
        let mut machine = Machine::start(test, 1 << 20, &[], readers, 60_000);
        make_device(&machine.top, "loop0", 0, &Disk::new(2 << 20));
        let file = machine.top.join("sys/devices/block/loop0/loop/backing_file");
        fs::create_dir_all(file.parent().expect("a parent")).expect("the tree can be made");
        fs::write(&file, "/image\n").expect("it can be written");
        machine.send("add", "loop0", 0);
        machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
        fs::remove_file(&file).expect("it is there");
        machine.send("change", "loop0", 0);
        machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
        drop(let_go);
        machine.said();
        let report = machine.daemon.report().text();
        assert_eq!(report, "loop0: not read\n  a loop device without a file\n");
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
