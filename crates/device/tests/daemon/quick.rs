//! Disks that go and come so quickly that one thing happens while another is under way.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use warren_device::daemon::{Daemon, Options};
use warren_device::readers::Readers;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::netlink::{Group, Uevents};

use crate::machine::*;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// What makes the daemon look at a disk where there is no udev.
fn close_after_writing(node: &Path) {
    drop(fs::File::options().write(true).open(node).expect("the node is there"));
}

/// A disk comes back, the index asks for the text of its group, and the disk is written to before that is read: the
/// read that follows from the write is not the answer, and the group was lost for good.
#[test]
fn a_text_is_asked_for_while_its_disk_is_read_for_something_else() {
    alone("a_text_is_asked_for_while_its_disk_is_read_for_something_else", |test| {
        let top = make_top(test);
        make_device(&top, "loop0", 0, &pv_disk("a", "one", &["a"]));
        fs::remove_file(top.join("udev/data/b8:0")).expect("it is there");
        let backing = top.join("sys/devices/block/loop0/loop/backing_file");
        fs::create_dir_all(backing.parent().expect("a parent")).expect("the tree can be made");
        fs::write(&backing, "/image\n").expect("it can be written");
        let readers = Readers::new().expect("an eventfd can be had");
        let (has_answer, mut ready) = (Epoll::new().expect("an epoll"), Events::with_capacity(1));
        let answers = readers.fd().as_fd().try_clone_to_owned().expect("a descriptor can be had");
        has_answer.add(&answers, 0, Interest::READ).expect("it can be watched");
        let options = Options { udev: false, waits_for_udev: true, ..options(&top) };
        let mut daemon = Daemon::bind(options, readers, None).expect("a socket can be had");
        daemon.begin();
        let udev = Uevents::open(Group::Kernel, 4096).expect("a socket can be had");
        let node = top.join("dev/loop0");
        let mut machine = Machine { top, udev, daemon, seen: Vec::new() };
        assert_eq!(machine.said(), [format!("{START} one")]);
        fs::remove_file(&backing).expect("it is there");
        close_after_writing(&node);
        assert!(machine.said().is_empty());
        assert!(machine.daemon.report().text().contains("a loop device without a file"));
        fs::write(&backing, "/image\n").expect("it can be written");
        close_after_writing(&node);
        machine.daemon.turn(LONG).expect("the socket works");
        has_answer.wait(&mut ready, LONG).expect("the disk is read");
        close_after_writing(&node);
        assert_eq!(machine.said(), [format!("{START} one")]);
    });
}
