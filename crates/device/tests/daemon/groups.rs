//! Groups that come and go, and what lies on maps and several disks.

use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

use warren_device::image::Disk;
use warren_device::orders::{Answer, ExecutorOrder};
use warren_sys::fdpass;

use crate::machine::*;

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
fn a_file_system_on_several_disks_is_ready_when_the_kernel_knows_all() {
    alone("a_file_system_on_several_disks_is_ready_when_the_kernel_knows_all", |test| {
        let (near, far) = fdpass::seqpacket_pair(false).expect("a pair");
        let disks = [("sda", btrfs_disk(1)), ("sdb", btrfs_disk(2))];
        let mut machine = Machine::without_udev(test, &disks, Some(near));
        let mut orders = Vec::new();
        let is_asked = |order: &&ExecutorOrder| matches!(order, ExecutorOrder::Register(..));
        while orders.iter().filter(is_asked).count() < 2 {
            machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
            orders.extend(taken(&far));
        }
        let told = machine.daemon.message().expect("all is told");
        assert!(told.contains("note btrfs") && !told.contains("\nready\nnote"), "{told}");
        for order in orders {
            if let ExecutorOrder::Register(id, node) = order {
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
fn what_was_on_a_loop_device_is_gone_with_its_file() {
    alone("what_was_on_a_loop_device_is_gone_with_its_file", |test| {
        let mut machine = Machine::boot(test, 1 << 20, &[]);
        make_device(&machine.top, "loop0", 0, &btrfs_disk(1));
        let file = machine.top.join("sys/devices/block/loop0/loop/backing_file");
        fs::create_dir_all(file.parent().expect("a parent")).expect("the tree can be made");
        for (is_there, expected) in [
            (true, "loop0: btrfs devid 1, one of 2"),
            (false, "loop0: not read\n  a loop device without a file\n"),
            (true, "loop0: btrfs devid 1, one of 2"),
        ] {
            match is_there {
                true => fs::write(&file, "/image\n").expect("it can be written"),
                false => fs::remove_file(&file).expect("it is there"),
            }
            machine.send("change", "loop0", 0);
            machine.said();
            let report = machine.daemon.report().text();
            assert!(report.contains(expected), "{report}");
        }
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
