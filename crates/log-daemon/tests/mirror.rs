//! The mirror: what Debian's programs make of the files that we write for them.

mod daemon_lab;
mod ground;
#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use daemon_lab::{DONE, Lab, ask, not_run};
use ground::Ground;
use warren_log_store::files::{Disk, Files};
use warren_log_store::query::union::Reader;
use warren_log_store::query::{Direction, Query};
use warren_log_store::systemd::SystemdFile;
use warren_log_store::systemd::write::{Ids, State, Writer};
use warren_log_store::{Fields, Id128, Stamp};

fn start(lab: &mut Lab) {
    lab.start(&["--set", "RateLimitBurst=0", "--set", "Mirror=2M"]);
}

fn send(lab: &Lab, numbers: std::ops::Range<u32>) {
    let socket = lab.native();
    for number in numbers {
        let more = "x".repeat(300);
        let text =
            format!("MESSAGE=number {number}\nSYSLOG_IDENTIFIER=test\nMORE={number}{more}\n");
        socket.send(text.as_bytes()).expect("sent");
    }
}

/// The directory of the mirror.
fn mirror(lab: &Lab) -> PathBuf {
    let mut below = std::fs::read_dir(lab.path("store/run/log/journal")).expect("made");
    below.next().expect("that of the machine").expect("readable").path()
}

fn has_journalctl() -> bool {
    let there = Command::new("journalctl").arg("--version").output().is_ok();
    if !there {
        not_run("journalctl of systemd is not installed");
    }
    there
}

/// What Debian's journalctl prints of a directory.
fn journalctl(directory: &Path, options: &[&str]) -> (bool, String) {
    let output = Command::new("journalctl")
        .args(["-q", "--no-pager", "-D"])
        .arg(directory)
        .args(options)
        .output()
        .expect("it was there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text + &errors)
}

#[track_caller]
fn verify(directory: &Path) {
    let (whole, said) = journalctl(directory, &["--verify"]);
    assert!(whole && !said.contains("FAIL"), "{said}");
}

/// Entries of many shapes: new values, old ones, a name twice, a value twice, binary and empty ones.
fn sample(number: u64) -> (Stamp, Fields, Fields) {
    let boot = Id128([1 + u8::from(number >= 900); 16]);
    let stamp = Stamp { realtime_us: 1_700_000_000_000_000 + number, monotonic_us: number, boot };
    let unit = format!("u{}.service", number % 7);
    let context = [("_SYSTEMD_UNIT", &*unit), ("_PID", "7"), ("_HOSTNAME", "h")];
    let mut fields: Fields = [("MESSAGE", &*format!("text {number}"))].into_iter().collect();
    fields.push(b"TWICE", b"same");
    fields.push(b"TWICE", if number.is_multiple_of(2) { b"same" } else { b"other" });
    fields.push(b"BINARY", &number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    fields.push(b"EMPTY", b"");
    fields.push(format!("F{}", number % 50).as_bytes(), b"value");
    (stamp, context.into_iter().collect(), fields)
}

/// Fields as a set: the format keeps neither order nor doubles.
fn set(fields: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all: Vec<_> = fields.filter(|(name, _)| name != b"_BOOT_ID").collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn what_is_written_is_read_by_us_and_found_whole_by_debian() {
    const ENTRIES: u64 = 1000;
    let lab = Lab::new("mirror-format");
    let disk = Disk::new(&lab.root);
    let file = disk.create("system@test.journal").expect("a file");
    let ids = Ids { file: Id128([5; 16]), machine: Id128([6; 16]), sequence: Id128([7; 16]) };
    let mut writer = Writer::new(ids, 2 << 20);
    let debian = has_journalctl();
    for number in 0..ENTRIES {
        let (stamp, context, fields) = sample(number);
        assert!(writer.has_room(&context, &fields), "{number}");
        writer.append(number + 1, &stamp, &std::sync::Arc::new(context), &fields);
        if number < 20 || number % 97 == 0 {
            writer.flush(&*file).expect("written");
            if debian {
                verify(&lab.root);
            }
        }
    }
    writer.set_state(State::Archived);
    writer.flush(&*file).expect("written");
    let path = lab.root.join("system@test.journal");
    let read = SystemdFile::open(&path).expect("we read it");
    let query = Query::default();
    let mut entries = read.entries(&query, Direction::Forward, None);
    let own = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    for number in 0..ENTRIES {
        let entry = entries.try_next().expect("readable").expect("it is there");
        let (stamp, context, fields) = sample(number);
        assert_eq!((entry.seqnum, entry.stamp), (number + 1, stamp));
        let expected = set(fields.iter().chain(context.iter()).map(own));
        assert_eq!(
            set(entry.fields.iter().chain(entry.context.iter()).map(own)),
            expected,
            "{number}"
        );
    }
    assert_eq!(entries.try_next().expect("readable"), None);
    if debian {
        verify(&lab.root);
        let lines = |options: &[&str]| journalctl(&lab.root, options).1.lines().count();
        assert_eq!(lines(&["-o", "cat"]), ENTRIES as usize);
        assert_eq!(lines(&["-o", "cat", "_SYSTEMD_UNIT=u3.service"]), 143);
        assert_eq!(lines(&["-o", "cat", "TWICE=other"]), 500);
        assert_eq!(lines(&["-F", "_SYSTEMD_UNIT"]), 7);
        assert_eq!(lines(&["--list-boots"]), 2);
        assert_eq!(lines(&["-o", "cat", "-b", "-1"]), 900);
        assert_eq!(lines(&["-o", "cat", "-n", "3", "F7=value"]), 3);
    }
}

#[test]
fn a_file_keeps_to_its_bound_and_says_when_it_is_full() {
    let ids = Ids { file: Id128([5; 16]), machine: Id128([6; 16]), sequence: Id128([7; 16]) };
    const BYTES_MAX: usize = 512 << 10;
    let lab = Lab::new("mirror-bound");
    let file = Disk::new(&lab.root).create("x.journal").expect("a file");
    let mut writer = Writer::new(ids, BYTES_MAX);
    let mut count = 0;
    loop {
        let (stamp, context, fields) = sample(count);
        if !writer.has_room(&context, &fields) {
            break;
        }
        writer.append(count + 1, &stamp, &std::sync::Arc::new(context), &fields);
        count += 1;
    }
    writer.flush(&*file).expect("written");
    let bytes = file.len().expect("a size");
    assert!(bytes <= BYTES_MAX as u64, "{bytes}");
    assert!(bytes > BYTES_MAX as u64 * 3 / 4, "{bytes} of {BYTES_MAX} are in use");
    let large: Fields = [("MESSAGE", &*"x".repeat(BYTES_MAX))].into_iter().collect();
    assert!(!Writer::new(ids, BYTES_MAX).has_room(&Fields::new(), &large));
}

/// A reader that ends with the test.
struct Following(std::process::Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn both_readers_follow_what_comes_over_files_that_go_and_a_daemon_that_is_killed() {
    const MESSAGES: u32 = 3000;
    let mut lab = Lab::new("mirror-daemon");
    start(&mut lab);
    if !has_journalctl() {
        return;
    }
    // Something is there when the reader begins, or it looks elsewhere.
    let mirror = mirror(&lab);
    let follow = |program: &str| {
        let mut reader = Command::new(program)
            .args(["-q", "-f", "-n", "all", "-o", "cat", "-t", "test", "-D"])
            .arg(&mirror)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was there");
        let shown = reader.stdout.take().expect("a pipe");
        (Following(reader), std::io::BufRead::lines(std::io::BufReader::new(shown)))
    };
    let mut readers = ["journalctl", reader::journalctl()].map(follow);
    for begin in (0..MESSAGES).step_by(100) {
        if begin == 1500 {
            lab.kill();
            start(&mut lab);
        }
        send(&lab, begin..begin + 100);
        // Each is seen before more come, so none goes with its file unseen.
        for (_, lines) in &mut readers {
            for number in begin..begin + 100 {
                let line = lines.next().expect("it follows").expect("text");
                assert_eq!(line, format!("number {number}"));
            }
        }
    }
    drop(readers);
    lab.stop();
    verify(&mirror);
    let files = Disk::new(&mirror).list().expect("a listing");
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    assert!(files.len() == 4 && bytes <= 2 << 20, "{files:?}");
    assert!(journalctl(&mirror, &["--header"]).1.contains("State: OFFLINE"));
    // Our own reader has the store and needs no copy of it.
    let machine = mirror.file_name().expect("a name").to_str().expect("digits").to_owned();
    std::fs::create_dir_all(lab.path("store/etc")).expect("a directory");
    std::fs::write(lab.path("store/etc/machine-id"), machine).expect("a file");
    let own = |options: &[&str], path: &Path| {
        let mut command = Command::new(reader::journalctl());
        let output = command.args(["-q", "-o", "cat"]).args(options).arg(path).output();
        String::from_utf8(output.expect("it runs").stdout).expect("text").lines().count()
    };
    assert_eq!(own(&["--root"], &lab.path("store")), 0);
    assert!(own(&["-D"], &mirror) > 1000);
}

/// Entries of all files of a mirror, and whether the one of that number is there.
fn mirrored(directory: &Path, number: u32) -> (usize, bool) {
    let (mut count, mut is_there) = (0, false);
    for file in Disk::new(directory).list().expect("a listing") {
        let read = SystemdFile::open(&directory.join(&file.name)).expect("a file of ours");
        let query = Query::default();
        let mut entries = read.entries(&query, Direction::Forward, None);
        while let Some(entry) = entries.try_next().expect("readable") {
            count += 1;
            let text = entry.get("MESSAGE").unwrap_or_default();
            is_there |= text == format!("number {number}").as_bytes();
        }
    }
    (count, is_there)
}

fn free_bytes(directory: &Path) -> (u64, u64) {
    let space = Disk::new(directory).space().expect("it is mounted");
    (space.free_bytes, space.total_bytes)
}

/// Others live in `/run`, too.
#[test]
fn a_mirror_leaves_free_what_is_to_be_left_free() {
    for (size, keep) in [("3m", None), ("12m", None), ("24m", Some(6 << 20))] {
        let mut lab = Lab::new(&format!("mirror-room-{size}"));
        let Some(mut ground) = Ground::make(&lab) else {
            return not_run("a mount namespace cannot be had");
        };
        if !ground.run(&format!(
            "mkdir -p store/log/run && mount -t tmpfs -o size={size} none store/log/run"
        )) {
            return not_run("a file system cannot be mounted in a mount namespace");
        }
        let mut settings = vec!["SystemKeepFree=0", "RateLimitBurst=0", "Mirror=32M"];
        let room = keep.map(|bytes: u64| format!("RuntimeKeepFree={bytes}"));
        settings.extend(room.as_deref());
        let options: Vec<&str> = settings.into_iter().flat_map(|set| ["--set", set]).collect();
        ground.start(&mut lab, &options);
        let run = ground.seen("store/log/run");
        let mut below = std::fs::read_dir(run.join("log/journal")).expect("made");
        let mirror = below.next().expect("that of the machine").expect("readable").path();
        send(&lab, 0..20_000);
        assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
        let (free, total) = free_bytes(&run);
        let wanted = keep.unwrap_or(total * 15 / 100);
        assert!(free >= wanted, "{size}: {free} of {total} bytes are free");
        let (count, is_last) = mirrored(&mirror, 19_999);
        assert!(is_last && count > 100, "{size}: {count} entries, the last one: {is_last}");
        // Somebody else takes most of what was left.
        let other = std::fs::write(run.join("other"), vec![b'x'; (free - wanted / 2) as usize]);
        other.expect("there is room");
        send(&lab, 20_000..30_000);
        assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
        let (free, _) = free_bytes(&run);
        assert!(free >= wanted / 2, "{size}: the mirror takes no more of {free} bytes");
        std::fs::remove_file(run.join("other")).expect("it can be removed");
        send(&lab, 30_000..31_000);
        assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
        send(&lab, 31_000..32_000);
        assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
        assert!(mirrored(&mirror, 31_999).1, "{size}: it goes on");
        lab.stop();
    }
}

/// All of a file is in memory: who removes it by mistake has it back.
#[test]
fn a_mirror_that_somebody_removes_is_made_again() {
    let mut lab = Lab::new("mirror-removed");
    start(&mut lab);
    let mirror = mirror(&lab);
    let removals: [fn(&Path); 2] = [
        |mirror| std::fs::remove_file(mirror.join("system@warren.journal")).expect("it is there"),
        |mirror| std::fs::remove_dir_all(mirror).expect("it is there"),
    ];
    for (round, remove) in (0..).zip(removals) {
        let first = 100 * round;
        send(&lab, first..first + 50);
        assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
        remove(&mirror);
        send(&lab, first + 50..first + 100);
        assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
        for number in [first, first + 49, first + 50, first + 99] {
            assert!(mirrored(&mirror, number).1, "{number}");
        }
    }
    lab.stop();
}

/// Messages that are to be kept for a time only are not kept for longer in a copy.
#[test]
fn a_mirror_forgets_what_the_log_forgets() {
    let mut lab = Lab::new("mirror-age");
    lab.start(&["--set", "Mirror=2M", "--set", "MaxRetentionSec=1s"]);
    let mirror = mirror(&lab);
    send(&lab, 0..3);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    assert!(mirrored(&mirror, 2).1);
    warren_testkit::wait_until("they are gone", || {
        let read = |name: String| SystemdFile::open(&mirror.join(name)).ok();
        let listing = Disk::new(&mirror).list().expect("a listing");
        listing.into_iter().filter_map(|file| read(file.name)).all(|file| {
            let query = Query::default();
            let mut entries = file.entries(&query, Direction::Forward, None);
            let mut texts = std::iter::from_fn(|| entries.try_next().ok().flatten());
            !texts.any(|entry| entry.get("SYSLOG_IDENTIFIER") == Some(b"test"))
        })
    });
    send(&lab, 3..6);
    assert_eq!(ask(&lab, "Write").ok().as_deref(), Some(DONE));
    assert!(mirrored(&mirror, 5).1, "it goes on");
    lab.stop();
}
