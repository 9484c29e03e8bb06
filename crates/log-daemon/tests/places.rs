//! Where messages are kept: in memory, on the disk, and on the way from one to the other.

mod daemon_lab;
#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;
use reader::journalctl;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;

use daemon_lab::{DONE, Lab, PERSISTENT, VOLATILE, ask, numbers, send, start_below_a_root};
use warren_log_store::files::Disk;
use warren_log_store::query::{Direction, Journal, Query};

#[test]
fn what_was_in_memory_goes_to_the_disk_once() {
    let mut lab = Lab::new("flush");
    start_below_a_root(&mut lab, &[]);
    send(&lab, 0..100);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    let all: Vec<u32> = (0..100).collect();
    assert_eq!(numbers(&lab, VOLATILE), all, "auto, and there is no directory");
    std::fs::create_dir_all(lab.path(PERSISTENT)).expect("a directory");
    for _ in 0..2 {
        assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    }
    assert!(numbers(&lab, VOLATILE).is_empty());
    send(&lab, 100..150);
    lab.kill();
    start_below_a_root(&mut lab, &[]);
    send(&lab, 150..200);
    assert_eq!(ask(&lab, "RelinquishVar").ok().as_deref(), Some(DONE));
    send(&lab, 200..250);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    assert_eq!(numbers(&lab, VOLATILE), (200..250).collect::<Vec<u32>>());
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    lab.stop();
    let found = numbers(&lab, PERSISTENT);
    let of_killed = found.iter().filter(|n| (100..150).contains(*n)).count();
    let expected: Vec<u32> = (0..100 + of_killed as u32).chain(150..250).collect();
    assert_eq!(found, expected, "nobody kept what the killed one had not written");
}

/// The writer of the store on disk is there for the test: it cannot be had as long as this lives.
fn lock_disk(lab: &Lab) -> std::fs::File {
    std::fs::create_dir_all(lab.path(PERSISTENT)).expect("a directory");
    Disk::new(lab.path(PERSISTENT)).lock().expect("nobody has it")
}

/// Waits until the daemon is at the disk, as long as it lives.
fn wait_for_disk(lab: &mut Lab) {
    warren_testkit::wait_until("the daemon is at the disk", || {
        assert!(lab.is_alive(), "it goes on");
        lab.path("run/flushed").exists()
    });
}

/// Somebody else has the disk when the daemon begins, and when the next one does.
#[test]
fn a_daemon_that_begins_without_its_disk_goes_there_later() {
    let mut lab = Lab::new("late-disk");
    std::fs::create_dir_all(lab.path(PERSISTENT)).expect("a directory");
    start_below_a_root(&mut lab, &[]);
    send(&lab, 0..10);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    lab.stop();
    let lock = lock_disk(&lab);
    start_below_a_root(&mut lab, &[]);
    send(&lab, 10..20);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    assert_eq!(numbers(&lab, VOLATILE), (10..20).collect::<Vec<u32>>());
    lab.kill();
    start_below_a_root(&mut lab, &[]);
    send(&lab, 20..30);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    drop(lock);
    wait_for_disk(&mut lab);
    send(&lab, 30..40);
    lab.stop();
    assert_eq!(numbers(&lab, PERSISTENT), (0..40).collect::<Vec<u32>>());
    assert!(!lab.path("run/refuge").exists(), "nothing is left to be done");
}

/// What a daemon left that had gone to memory: of a log on the disk only a part is its own, the rest is in memory.
#[test]
fn what_is_kept_in_memory_is_cut_from_the_disk_by_the_next_daemon() {
    let mut lab = Lab::new("cut-later");
    std::fs::create_dir_all(lab.path(PERSISTENT)).expect("a directory");
    start_below_a_root(&mut lab, &[]);
    send(&lab, 0..10);
    assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    send(&lab, 10..20);
    assert_eq!(ask(&lab, "Synchronize").ok().as_deref(), Some(DONE));
    let files = std::fs::read_dir(lab.path(PERSISTENT)).expect("it is there").flatten();
    let log = files
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|end| end == "log"))
        .expect("it is written to");
    let durable = log.metadata().expect("it is there").len();
    send(&lab, 20..30);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    lab.kill();
    std::fs::remove_file(lab.path("run/flushed")).expect("it was at the disk");
    let name = log.file_name().expect("a file").display();
    let mark = format!("try\ncut {name} {durable}\n");
    std::fs::write(lab.path("run/refuge"), mark).expect("a file");
    start_below_a_root(&mut lab, &[]);
    send(&lab, 20..40);
    wait_for_disk(&mut lab);
    lab.stop();
    assert_eq!(numbers(&lab, PERSISTENT), (0..40).collect::<Vec<u32>>());
}

/// The disk is left alone when somebody wants messages to be in memory, by the next daemon too.
#[test]
fn who_wants_messages_in_memory_has_no_disk_tried() {
    let mut lab = Lab::new("left-alone");
    let lock = lock_disk(&lab);
    start_below_a_root(&mut lab, &[]);
    assert_ne!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    assert!(lab.path("run/refuge").exists(), "it is tried again");
    assert_eq!(ask(&lab, "RelinquishVar").ok().as_deref(), Some(DONE));
    assert!(!lab.path("run/refuge").exists(), "it is left alone");
    drop(lock);
    lab.stop();
}

/// Logs are not removed, so what was written goes only if it is sealed before.
#[test]
fn files_that_are_closed_by_an_order_are_removed_by_the_same_command() {
    let mut lab = Lab::new("rotate-vacuum");
    start_below_a_root(&mut lab, &["Storage=persistent"]);
    send(&lab, 0..100);
    let reader = |options: &[&str]| {
        let mut command = Command::new(journalctl());
        let output = command.arg("--root").arg(&lab.root).args(options).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let sockets = lab.path("run/systemd");
    std::fs::create_dir_all(&sockets).expect("a directory");
    std::os::unix::fs::symlink(lab.path("run"), sockets.join("journal")).expect("a link");
    reader(&["--flush", "--rotate"]);
    assert_eq!(numbers(&lab, PERSISTENT), (0..100).collect::<Vec<u32>>());
    send(&lab, 100..200);
    reader(&["--rotate", "--vacuum-size=0", "--vacuum-time=0s"]);
    assert_eq!(numbers(&lab, PERSISTENT), (0..200).collect::<Vec<u32>>(), "zero is no limit");
    reader(&["--rotate", "--vacuum-size=1"]);
    assert_eq!(numbers(&lab, PERSISTENT), Vec::<u32>::new());
    lab.stop();
}

/// Neither the disk nor the memory can be had: the memory is tried again, and what came meanwhile counted.
#[test]
fn without_any_store_messages_are_counted_until_there_is_one_again() {
    let mut lab = Lab::new("without");
    start_below_a_root(&mut lab, &["Storage=persistent"]);
    send(&lab, 0..10);
    let (memory, aside) = (lab.path(VOLATILE), lab.path("aside"));
    std::fs::rename(&memory, &aside).expect("it is there");
    std::fs::write(&memory, []).expect("a file in its place");
    assert_ne!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
    send(&lab, 10..15);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    std::fs::remove_file(&memory).expect("it is ours");
    std::fs::rename(&aside, &memory).expect("it is ours");
    warren_testkit::wait_until("the daemon is at the disk", || {
        assert!(lab.is_alive(), "it goes on");
        lab.path("run/flushed").exists()
    });
    send(&lab, 15..20);
    lab.stop();
    let journal = Journal::open(Arc::new(Disk::new(lab.path(PERSISTENT)))).expect("readable");
    let query = Query::default();
    let entries = journal.entries(&query, Direction::Forward, None);
    let texts: Vec<String> = entries
        .filter_map(|entry| {
            let entry = entry.expect("no read fails");
            Some(String::from_utf8_lossy(entry.get("MESSAGE")?).into_owned())
        })
        .filter(|text| text.contains("because the log could not be written"))
        .collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].starts_with("Lost 5 messages") && texts[0].contains("mkdir"), "{texts:?}");
    assert_eq!(numbers(&lab, PERSISTENT), (0..10).chain(15..20).collect::<Vec<u32>>());
}

#[test]
fn a_daemon_that_is_killed_while_it_goes_to_the_disk_doubles_and_loses_nothing() {
    for round in 0..12_u32 {
        let mut lab = Lab::new(&format!("flush-kill-{round}"));
        start_below_a_root(&mut lab, &["Storage=persistent"]);
        send(&lab, 0..3000);
        assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
        let mut stream = UnixStream::connect(lab.path("run/io.warrener.journal")).expect("there");
        let question = "{\"method\":\"io.warrener.Journal.FlushToVar\",\"parameters\":{}}\0";
        stream.write_all(question.as_bytes()).expect("sent");
        // Some time into it: as long as so many connections take.
        for _ in 0..round * round * 4 {
            let _ = UnixStream::connect(lab.path("run/stdout"));
        }
        lab.kill();
        start_below_a_root(&mut lab, &["Storage=persistent"]);
        send(&lab, 3000..3010);
        assert_eq!(ask(&lab, "FlushToVar").ok().as_deref(), Some(DONE));
        lab.stop();
        assert_eq!(numbers(&lab, PERSISTENT), (0..3010).collect::<Vec<u32>>(), "round {round}");
        assert!(numbers(&lab, VOLATILE).is_empty());
    }
}
