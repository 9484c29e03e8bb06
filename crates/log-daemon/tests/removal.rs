//! Somebody removes the files of the log under the daemon, moves them away or mounts something over them: what comes
//! afterwards can be read, and the log says what happened.

mod daemon_lab;
mod ground;

use std::path::Path;

use daemon_lab::{
    DONE, Lab, PERSISTENT, VOLATILE, ask, ask_with, numbers, send, start_below_a_root,
};
use ground::Ground;
use warren_log_store::query::Expr;

fn each_file(directory: &Path, act: impl Fn(&Path)) {
    for entry in std::fs::read_dir(directory).expect("it is there") {
        act(&entry.expect("it can be listed").path());
    }
}

fn remove_files(directory: &Path) {
    each_file(directory, |file| std::fs::remove_file(file).expect("it can be removed"));
}

fn remove_logs(directory: &Path) {
    each_file(directory, |file| {
        if file.extension().is_some_and(|ending| ending == "log") {
            std::fs::remove_file(file).expect("it can be removed");
        }
    });
}

fn empty_files(directory: &Path) {
    each_file(directory, |file| {
        std::fs::write(file, []).expect("it can be written");
    });
}

fn remove_all(directory: &Path) {
    std::fs::remove_dir_all(directory).expect("it can be removed");
}

fn replace(directory: &Path) {
    remove_all(directory);
    std::fs::create_dir(directory).expect("it can be made");
}

fn move_away(directory: &Path) {
    std::fs::rename(directory, directory.with_extension("old")).expect("it can be moved");
}

/// A copy of the files as they were lies at their place.
fn put_a_copy(directory: &Path) {
    let old = directory.with_extension("old");
    move_away(directory);
    std::fs::create_dir(directory).expect("it can be made");
    each_file(&old, |file| {
        let to = directory.join(file.file_name().expect("a file"));
        std::fs::copy(file, to).expect("it can be copied");
    });
}

type Way = (&'static str, fn(&Path));

const WAYS: [Way; 7] = [
    ("files", remove_files),
    ("logs", remove_logs),
    ("emptied", empty_files),
    ("directory", remove_all),
    ("replaced", replace),
    ("moved", move_away),
    ("copied", put_a_copy),
];

/// A message of the daemon that the files are gone.
fn is_said(lab: &Lab) -> bool {
    let own = lab.read(Expr::field("_TRANSPORT", "driver"));
    let texts = own.iter().map(|entry| daemon_lab::shown(entry, "PRIORITY MESSAGE"));
    texts.into_iter().any(|text| text.starts_with("4 Files of the log were removed"))
}

fn all_of(found: &[u32], range: std::ops::Range<u32>) -> bool {
    range.into_iter().all(|n| found.iter().filter(|m| **m == n).count() == 1)
}

/// By hand, with one directory. `ask_for`: when it is to be noticed.
fn check(name: &str, remove: fn(&Path), ask_for: &str) {
    let mut lab = Lab::new(&format!("removal-{name}-{ask_for}"));
    lab.start(&[]);
    send(&lab, 0..50);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    remove(&lab.path("store"));
    send(&lab, 50..100);
    assert_eq!(ask(&lab, ask_for).ok().as_deref(), Some(DONE), "{name}");
    assert!(all_of(&numbers(&lab, "store"), 50..100), "{name} {ask_for}");
    assert!(is_said(&lab), "{name} {ask_for}");
    send(&lab, 100..150);
    lab.stop();
    assert!(all_of(&numbers(&lab, "store"), 50..150), "{name} {ask_for}: after the end");
    lab.start(&[]);
    send(&lab, 150..200);
    lab.stop();
    assert!(all_of(&numbers(&lab, "store"), 50..200), "{name} {ask_for}: the next daemon");
}

#[test]
fn what_comes_after_files_were_removed_is_there() {
    for (name, remove) in WAYS {
        check(name, remove, "Synchronize");
        check(name, remove, "Rotate");
    }
}

/// Nothing was written since the log was closed: there is no file whose name could be looked at.
#[test]
fn a_directory_that_goes_while_nothing_is_written_is_made_again() {
    let mut lab = Lab::new("removal-quiet");
    lab.start(&[]);
    send(&lab, 0..50);
    // A file that is still to be sealed may become another one while the directory is emptied.
    let sealed = ask_with(&lab, "Rotate", "\"sealed\":true");
    assert_eq!(sealed.ok().as_deref(), Some(DONE));
    remove_all(&lab.path("store"));
    send(&lab, 50..100);
    lab.stop();
    assert!(all_of(&numbers(&lab, "store"), 50..100));
}

/// With a place in memory and no directory to be made on the disk, as with `Storage=auto`.
#[test]
fn without_a_directory_on_the_disk_it_goes_on_in_memory() {
    let mut lab = Lab::new("removal-auto");
    std::fs::create_dir_all(lab.path(PERSISTENT)).expect("a directory");
    start_below_a_root(&mut lab, &[]);
    send(&lab, 0..50);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    send(&lab, 50..60);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    remove_all(&lab.path(PERSISTENT));
    send(&lab, 60..100);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    assert!(all_of(&numbers(&lab, VOLATILE), 60..100));
    remove_all(&lab.path(VOLATILE));
    send(&lab, 100..150);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    assert!(all_of(&numbers(&lab, VOLATILE), 100..150), "memory, too");
    std::fs::create_dir_all(lab.path(PERSISTENT)).expect("a directory");
    warren_testkit::wait_until("the daemon is at the disk", || {
        assert!(lab.is_alive(), "it goes on");
        lab.path("run/flushed").exists()
    });
    send(&lab, 150..200);
    lab.stop();
    assert!(all_of(&numbers(&lab, PERSISTENT), 100..200));
}

/// The file system goes away behind the daemon, and another one comes.
#[test]
fn a_file_system_that_is_taken_away_is_noticed() {
    let mut lab = Lab::new("removal-umount");
    let Some(mut ground) = Ground::make(&lab) else {
        return daemon_lab::not_run("a mount namespace cannot be had");
    };
    if !ground.run("mkdir -p store/log && mount -t tmpfs none store && mkdir store/log") {
        return daemon_lab::not_run("a file system cannot be mounted in a mount namespace");
    }
    ground.start(&mut lab, &["--set", "SystemKeepFree=0"]);
    let read = |ground: &Ground| {
        let directory = ground.seen("store/log");
        let journal = warren_log_store::query::Journal::open(std::sync::Arc::new(
            warren_log_store::files::Disk::new(directory),
        ));
        let journal = journal.expect("readable");
        let query = warren_log_store::query::Query::default();
        let entries = journal.entries(&query, warren_log_store::query::Direction::Forward, None);
        let number = |entry: &warren_log_store::Entry| daemon_lab::shown(entry, "N").parse().ok();
        entries.filter_map(|entry| number(&entry.expect("no read fails"))).collect::<Vec<u32>>()
    };
    send(&lab, 0..50);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    assert!(ground.run("umount -l store"));
    send(&lab, 50..100);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    assert!(all_of(&read(&ground), 50..100));
    assert!(ground.run("mount -t tmpfs none store"), "and something is mounted over it");
    send(&lab, 100..150);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    assert!(all_of(&read(&ground), 100..150));
    lab.stop();
}
