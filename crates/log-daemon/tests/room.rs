//! A disk that others fill while the daemon writes to it: the log goes on in memory, and comes back.

mod daemon_lab;

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use daemon_lab::{
    DONE, Lab, PERSISTENT, VOLATILE, ask, not_run, numbers, send, shown, start_below_a_root,
};
use warren_log_store::files::Disk;
use warren_log_store::query::{Direction, Expr, Journal, Query};
use warren_sys::mount::{self, MountFlags, Sharing};
use warren_sys::namespace::{self, Namespaces};

/// A small disk for the store, in a mount namespace of this thread and its children.
fn mount_small_disk(lab: &Lab, options: &str) -> bool {
    let disk = lab.path(PERSISTENT);
    std::fs::create_dir_all(&disk).expect("a directory");
    let disk = disk.to_str().expect("its path is text");
    namespace::unshare(Namespaces::MOUNT).is_ok()
        && mount::set_propagation_of_all(Sharing::Private).is_ok()
        && mount::mount("none", disk, "tmpfs", MountFlags::empty(), options).is_ok()
}

fn fill(lab: &Lab) {
    let mut other = File::create(lab.path(PERSISTENT).join("other")).expect("a file");
    while other.write_all(&[b'x'; 4096]).is_ok() {}
}

/// Takes every inode that is left.
fn take_inodes(lab: &Lab) {
    let path = lab.path(PERSISTENT);
    assert!((0..).any(|n| File::create(path.join(format!("other{n}"))).is_err()));
}

fn free(lab: &Lab) {
    for entry in std::fs::read_dir(lab.path(PERSISTENT)).expect("it is there").flatten() {
        if entry.file_name().to_string_lossy().starts_with("other") {
            std::fs::remove_file(entry.path()).expect("it can be removed");
        }
    }
}

/// What the daemon says of itself in memory.
fn said(lab: &Lab) -> Vec<String> {
    let journal = Journal::open(Arc::new(Disk::new(lab.path(VOLATILE)))).expect("readable");
    let query = Query { expr: Expr::field("_TRANSPORT", "driver"), ..Query::default() };
    let entries = journal.entries(&query, Direction::Forward, None);
    entries.map(|entry| shown(&entry.expect("no read fails"), "MESSAGE")).collect()
}

fn check(name: &str, options: &str, fill: fn(&Lab)) {
    let mut lab = Lab::new(name);
    if !mount_small_disk(&lab, options) {
        return not_run("a file system cannot be mounted in a mount namespace");
    }
    let settings = ["SystemMaxUse=7M"];
    start_below_a_root(&mut lab, &settings);
    send(&lab, 0..100);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    fill(&lab);
    // Files that are closed want a file more, where only inodes are missing.
    let _ = ask(&lab, "Rotate");
    send(&lab, 100..3000);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE), "it is in memory");
    assert_eq!(numbers(&lab, VOLATILE).last(), Some(&2999), "readers see it");
    let own = said(&lab);
    let why = "Cannot write to disk; keeping messages in memory: ";
    let tells = |text: &String| text.strip_prefix(why).is_some_and(|why| why.contains("No space"));
    assert!(own.iter().any(tells), "{own:?}");
    lab.kill();
    start_below_a_root(&mut lab, &settings);
    send(&lab, 3000..3100);
    free(&lab);
    while !lab.path("run/flushed").exists() {
        assert!(lab.is_alive(), "it goes on");
        std::thread::yield_now();
    }
    lab.stop();
    assert_eq!(numbers(&lab, PERSISTENT), (0..3100).collect::<Vec<u32>>());
}

#[test]
fn without_room_on_the_disk_the_log_goes_on_in_memory() {
    check("no-room", "size=8m", fill);
}

#[test]
fn without_inodes_on_the_disk_the_log_goes_on_in_memory() {
    check("no-inodes", "size=64m,nr_inodes=64", take_inodes);
}
