//! Events: bursts, lost ones, rubbish, a udev that comes late, and what is told of them.

use std::fs;
use std::time::Duration;

use warren_device::image::Disk;
use warren_device::udev;
use warren_sys::netlink::Group;

use crate::machine::*;

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
fn what_is_written_to_a_disk_is_read_without_udev() {
    alone("what_is_written_to_a_disk_is_read_without_udev", |test| {
        let disks = [("sda", Disk::new(2 << 20)), ("dm-0", Disk::new(2 << 20))];
        let mut machine = Machine::without_udev(test, &disks, None);
        assert!(machine.said().is_empty());
        let dev = machine.top.join("dev");
        write_disk(&dev.join("sda"), &pv_disk("a", "one", &["a"]));
        assert_eq!(machine.said(), [format!("{START} one")]);
        // Who only reads does not make others read.
        fs::read(dev.join("sda")).expect("it can be read");
        assert!(machine.said().is_empty());
        // udev watches disks itself, and tells.
        let mut beside = Machine::boot(&format!("{test}-2"), 1 << 20, &disks);
        write_disk(&beside.top.join("dev/sda"), &pv_disk("a", "one", &["a"]));
        assert!(beside.said().is_empty());
        beside.send("change", "sda", 0);
        assert_eq!(beside.said(), [format!("{START} one")]);
    });
}

/// device-mapper's programs make a node of their own, behind which the kernel's is not seen.
#[test]
fn what_is_written_to_a_volume_is_read_without_udev() {
    alone("what_is_written_to_a_volume_is_read_without_udev", |test| {
        let dir = make_top(test).join("sys/devices/block/dm-0/dm");
        fs::create_dir_all(&dir).expect("the tree can be made");
        for (file, text) in [("name", "map"), ("uuid", "x"), ("suspended", "0")] {
            fs::write(dir.join(file), format!("{text}\n")).expect("the tree can be made");
        }
        let mut machine = Machine::without_udev(test, &[("dm-0", Disk::new(2 << 20))], None);
        while !machine.daemon.report().text().contains("nothing known") {
            machine.daemon.turn(None).expect("the socket works");
        }
        let dev = machine.top.join("dev");
        // Behind the back of whoever watches the kernel's node.
        let put = |disk: &Disk| {
            fs::File::create(dev.join("new"))
                .expect("it can be made")
                .set_len(2 << 20)
                .expect("sparse");
            write_disk(&dev.join("new"), disk);
            fs::rename(dev.join("new"), dev.join("dm-0")).expect("it is there");
        };
        put(&pv_disk("b", "two", &["b"]));
        assert_eq!(machine.seen, [""; 0]);
        fs::create_dir(dev.join("mapper")).expect("it can be made");
        fs::write(dev.join("mapper/map"), "").expect("it can be made");
        assert_eq!(machine.said(), [format!("{START} two")], "written before its node was watched");
        put(&pv_disk("c", "three", &["c"]));
        fs::write(dev.join("mapper/map"), "").expect("it is there");
        assert_eq!(machine.said(), [format!("{START} three")]);
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
            &format!("note pv {}", crate::machine::id("a")),
            &format!("part {id}"),
            "size 2097152",
            &format!("group {id}"),
            "name vg data",
            &format!("note 1 of 2 there, waits for PV {}", crate::machine::id("b")),
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
        for _ in 0..200 {
            if said.iter().any(|line: &String| line.contains("cannot list block devices")) {
                break;
            }
            machine.daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
            said.extend(machine.daemon.take_lines());
        }
        assert!(said.iter().any(|line| line.contains("cannot list block devices")), "{said:?}");
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
