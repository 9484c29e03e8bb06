//! The daemon killed, and power gone, again and again while eight senders are at work.
//!
//! `WARREN_KILLS` and `WARREN_CUTS` say how often, `WARREN_CRASH_SECONDS` after how long no further
//! round begins, `WARREN_CRASH_SEED` where the points come from.

mod crowd;
mod daemon_lab;
mod ground;
#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;
use reader::journalctl;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crowd::{Crowd, Numbers, SENDERS, Spread, numbers, read, setting};
use daemon_lab::{Lab, not_run};
use ground::Ground;
use warren_log_store::entry::Entry;
use warren_sys::inotify::{Inotify, WatchFor};

/// Most messages before the daemon is killed.
const ROUND_MESSAGES_MAX: u64 = 6000;

const FREE: [&str; 4] = ["--set", "RateLimitBurst=0", "--set", "ForwardToWall=no"];

/// A daemon that goes with a test that fails: who sends to it would do so for ever.
struct Doomed<'l>(&'l mut Lab);

impl Drop for Doomed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.0.is_alive() {
            self.0.kill();
        }
    }
}

/// Lets the crowd send until so many messages are out and then does what ends the daemon.
fn one_life(crowd: &Crowd, messages: u64, method: &str, lab: &mut Lab, end: impl FnOnce(&mut Lab)) {
    std::thread::scope(|scope| {
        (0..SENDERS).for_each(|sender| _ = scope.spawn(move || crowd.send(sender)));
        scope.spawn(|| crowd.ask(method));
        warren_testkit::wait_until("the crowd has sent enough", || {
            crowd.sent() >= messages || !lab.is_alive()
        });
        assert!(lab.is_alive(), "it lives until it is killed");
        end(Doomed(lab).0);
    });
}

#[test]
fn killed_at_any_point_under_eight_senders() {
    let (kills, seconds) = (setting("WARREN_KILLS", 12), setting("WARREN_CRASH_SECONDS", 60));
    let mut spread = Spread::new(setting("WARREN_CRASH_SEED", 0x5eed));
    let (begun, mut lab) = (Instant::now(), Lab::new("crowd"));
    let mut crowds = Vec::new();
    while crowds.len() < kills as usize && begun.elapsed() < Duration::from_secs(seconds) {
        if spread.below(4) == 0 {
            // One that has not come up yet.
            let _not_ready = lab.spawn(&FREE);
            (0..spread.below(20_000)).for_each(|_| std::thread::yield_now());
            lab.kill();
        }
        lab.start(&FREE);
        let crowd = Crowd::new(lab.path("run"), crowds.len());
        one_life(&crowd, spread.below(ROUND_MESSAGES_MAX), "Write", &mut lab, Lab::kill);
        crowds.push(crowd);
    }
    lab.start(&[]);
    lab.stop();
    let found = numbers(read(&lab.path("store")));
    crowds.iter().for_each(|crowd| crowd.check(&found, false));
    say("kills", &crowds, &found);
}

/// The figures of a run, in which something must have been sure.
fn say(what: &str, crowds: &[Crowd], found: &Numbers) {
    let there: usize = found.values().map(Vec::len).sum();
    let of_all = |count: fn(&Crowd) -> u64| crowds.iter().map(count).sum::<u64>();
    let (sent, sure) = (of_all(Crowd::sent), of_all(Crowd::sure));
    println!("{} {what}: {sent} sent, {sure} answered for, {there} there", crowds.len());
    assert!(there as u64 >= sure && sure > 0);
}

/// How a file system ends: flags of `EXT4_IOC_SHUTDOWN`.
#[derive(Clone, Copy)]
enum End {
    /// All that was written before reaches the device; see [`Crowd::end`] for why not otherwise.
    Whole = 0,
    /// What was not synced never reaches it, nor does the file system's own log.
    Torn = 2,
}

/// A file system of the test's own on a device of its own.
struct Ext4 {
    ground: Ground,
    /// Where it is mounted, below the directory of the lab.
    place: &'static str,
}

impl Ext4 {
    /// `None`, and why is said, where that cannot be had.
    fn make(lab: &Lab, place: &'static str) -> Option<Ext4> {
        let make = format!("truncate -s 1G image && mkfs.ext4 -q -F image && mkdir -p {place}");
        let ext4 = Ground::make(lab).map(|ground| Ext4 { ground, place }).and_then(|mut ext4| {
            let is_there =
                ext4.ground.run(&make) && ext4.mount() && ext4.ground.run("python3 --version");
            is_there.then_some(ext4)
        });
        if ext4.is_none() {
            not_run("needs root, a namespace, a loop device, mkfs.ext4 and python3");
        }
        ext4
    }

    fn mount(&mut self) -> bool {
        self.ground.run(&format!("mount -o loop image {}", self.place))
    }

    /// A program that ends the file system when it is told to.
    fn knife(&self, lab: &Lab, end: End) -> Child {
        /// `EXT4_IOC_SHUTDOWN`.
        const CUT: &str = "import fcntl, os, struct, sys\n\
            fd = os.open(sys.argv[1], 0)\nprint(flush=True)\nsys.stdin.read()\n\
            fcntl.ioctl(fd, 0x8004587d, struct.pack('I', int(sys.argv[2])))";
        let mut command = self.ground.inside("python3");
        command.args(["-c", CUT]).arg(lab.path(self.place));
        command.arg((end as u32).to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut knife = command.spawn().expect("nsenter(1) and python3");
        let told = BufReader::new(knife.stdout.take().expect("piped")).lines().next();
        assert!(matches!(told, Some(Ok(_))), "it is ready");
        knife
    }

    /// As after the next boot.
    fn mount_anew(&mut self) {
        self.unmount();
        assert!(self.mount(), "mounted again");
    }

    /// Who still has files open keeps it.
    fn unmount(&mut self) {
        assert!(self.ground.run(&format!("umount -l {}", self.place)), "unmounted");
    }

    /// As after a repair, in which the daemon looks whether the disk is back.
    fn mount_repaired(&mut self, lab: &Lab) {
        self.unmount();
        let names = Inotify::new().expect("inotify(7)");
        names.add(lab.path(self.place), WatchFor::Names).expect("it is there");
        let daemon = lab.daemon.as_ref().map(Child::id).expect("it runs");
        let before = turns_of_disk(daemon);
        warren_testkit::wait_until("the daemon has looked", || turns_of_disk(daemon) >= before + 2);
        let mut made = Vec::new();
        assert!(!names.drain(&mut made).expect("inotify(7)"), "few names are made");
        assert!(made.is_empty(), "nothing is made in what it is mounted on");
        assert!(self.mount(), "mounted again");
    }

    fn start(&self, lab: &mut Lab) {
        self.ground.start(lab, &[&FREE[..], &["--set", "SystemKeepFree=0"]].concat());
    }
}

/// What a sync answered for is there, the rest may not be, and nothing is wrong.
#[test]
fn power_goes_at_any_point_under_eight_senders() {
    let (cuts, seconds) = (setting("WARREN_CUTS", 5), setting("WARREN_CRASH_SECONDS", 60));
    let mut spread = Spread::new(setting("WARREN_CRASH_SEED", 0x5eed));
    let (begun, mut lab) = (Instant::now(), Lab::new("power"));
    let Some(mut ext4) = Ext4::make(&lab, "store") else { return };
    let mut crowds = Vec::new();
    while crowds.len() < cuts as usize && begun.elapsed() < Duration::from_secs(seconds) {
        ext4.start(&mut lab);
        let crowd = Crowd::new(lab.path("run"), crowds.len());
        let messages = spread.below(ROUND_MESSAGES_MAX);
        let mut knife = ext4.knife(&lab, End::Torn);
        one_life(&crowd, messages, "Synchronize", &mut lab, |lab| {
            crowd.end();
            drop(knife.stdin.take());
            let status = knife.wait();
            lab.kill();
            assert!(status.expect("our child").success(), "the file system was shut down");
        });
        ext4.mount_anew();
        crowds.push(crowd);
    }
    ext4.start(&mut lab);
    lab.stop();
    let found = numbers(read(&ext4.ground.seen("store/log")));
    crowds.iter().for_each(|crowd| crowd.check(&found, true));
    say("cuts of power", &crowds, &found);
}

/// Below the lab's directory, as the installed daemon has them.
const DISK: &str = "root/var/log/warren";
const MEMORY: &str = "root/run/log/warren/journal";
const SOCKETS: &str = "root/run/systemd/journal";

/// A file system that takes nothing: who writes to it waits until this is dropped.
struct Frozen<'e>(&'e mut Ext4);

impl<'e> Frozen<'e> {
    fn of(ext4: &'e mut Ext4) -> Frozen<'e> {
        let freeze = format!("fsfreeze -f {}", ext4.place);
        assert!(ext4.ground.run(&freeze), "fsfreeze(8)");
        Frozen(ext4)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let thaw = format!("fsfreeze -u {}", self.0.place);
        assert!(self.0.ground.run(&thaw) || std::thread::panicking(), "fsfreeze(8)");
    }
}

/// Starts a daemon with a store on the disk and one in memory, and where it begins.
fn start_with_both(ext4: &Ext4, lab: &mut Lab, on_disk: bool) {
    start_with_patience(ext4, lab, on_disk, "300ms");
}

fn start_with_patience(ext4: &Ext4, lab: &mut Lab, on_disk: bool, patience: &str) {
    std::fs::create_dir_all(lab.path(SOCKETS)).expect("a directory");
    if on_disk {
        std::fs::write(lab.path(SOCKETS).join("flushed"), []).expect("a file");
    }
    let mut command = ext4.ground.inside(env!("CARGO_BIN_EXE_warren-journald"));
    command.arg("--root").arg(lab.path("root")).args(FREE);
    for setting in [
        "SystemKeepFree=0",
        "RuntimeKeepFree=0",
        "ReadKMsg=no",
        "Storage=persistent",
        &format!("DiskPatienceSec={patience}"),
    ] {
        command.args(["--set", setting]);
    }
    let listener = lab.spawn_command(command);
    listener.recv(&mut [0; 64]).expect("it says that it is ready");
}

/// The daemon goes on in memory, readers show that, and when there is a disk again all is there once:
/// also what was written and not known to be durable, which is in the old log and in memory.
#[test]
fn the_file_system_gives_up_under_eight_senders_and_comes_back() {
    let (deaths, seconds) = (setting("WARREN_CUTS", 3), setting("WARREN_CRASH_SECONDS", 60));
    let mut spread = Spread::new(setting("WARREN_CRASH_SEED", 0x5eed));
    let (begun, mut lab) = (Instant::now(), Lab::new("given-up"));
    let Some(mut ext4) = Ext4::make(&lab, DISK) else { return };
    let mut crowds = Vec::new();
    while crowds.len() < deaths as usize && begun.elapsed() < Duration::from_secs(seconds) {
        // It answers, if late on a machine that is busy.
        start_with_patience(&ext4, &mut lab, true, "30s");
        let crowd = Crowd::new(lab.path(SOCKETS), crowds.len());
        let messages = spread.below(ROUND_MESSAGES_MAX);
        let (mut knife, flag) = (ext4.knife(&lab, End::Whole), lab.path(SOCKETS).join("flushed"));
        one_life(&crowd, messages, "Write", &mut lab, |lab| {
            crowd.end();
            drop(knife.stdin.take());
            assert!(knife.wait().expect("our child").success(), "the file system was shut down");
            wait(lab, || !flag.exists());
            let said = shows_memory(&ext4, lab, &crowd);
            assert!(said.contains("Input/output error"), "{said}");
            ext4.mount_anew();
            wait(lab, || flag.exists());
            lab.stop();
        });
        crowds.push(crowd);
    }
    let found = numbers(read(&ext4.ground.seen(DISK)));
    crowds.iter().for_each(|crowd| crowd.check(&found, false));
    say("ends of a file system", &crowds, &found);
}

/// The daemon is started anew meanwhile: the next one knows that the disk is to be tried, and what is to be cut from it.
#[test]
fn a_daemon_that_begins_while_the_file_system_has_given_up_goes_back_to_it() {
    let mut spread = Spread::new(setting("WARREN_CRASH_SEED", 0x5eed));
    let mut lab = Lab::new("given-up-anew");
    let Some(mut ext4) = Ext4::make(&lab, DISK) else { return };
    start_with_both(&ext4, &mut lab, true);
    let crowd = Crowd::new(lab.path(SOCKETS), 0);
    let (mut knife, flag) = (ext4.knife(&lab, End::Whole), lab.path(SOCKETS).join("flushed"));
    let messages = 1000 + spread.below(ROUND_MESSAGES_MAX);
    one_life(&crowd, messages, "Write", &mut lab, |lab| {
        crowd.end();
        drop(knife.stdin.take());
        assert!(knife.wait().expect("our child").success(), "the file system was shut down");
        wait(lab, || !flag.exists());
        shows_memory(&ext4, lab, &crowd);
        lab.stop();
        start_with_both(&ext4, lab, false);
        ext4.mount_repaired(lab);
        wait(lab, || flag.exists());
        lab.stop();
    });
    let found = numbers(read(&ext4.ground.seen(DISK)));
    crowd.check(&found, false);
    assert!(found.values().map(Vec::len).sum::<usize>() > 1000, "it is on the disk");
}

/// Somebody asks for a flush while nothing is mounted, and it is mounted when the daemon has begun: what is to be cut is
/// not in the one directory, and is in the other.
#[test]
fn a_file_system_that_is_mounted_during_a_flush_has_nothing_twice() {
    let mut spread = Spread::new(setting("WARREN_CRASH_SEED", 0x5eed));
    let mut lab = Lab::new("given-up-mounted");
    let Some(mut ext4) = Ext4::make(&lab, DISK) else { return };
    // Seen by who does not see what is mounted: who opens it to write waits for a reader.
    let lock = lab.path(DISK).join("lock");
    let made = Command::new("mkfifo").args(["-m", "600"]).arg(&lock).status();
    assert!(made.expect("mkfifo(1)").success());
    start_with_patience(&ext4, &mut lab, true, "1min");
    let crowd = Crowd::new(lab.path(SOCKETS), 0);
    let (mut knife, flag) = (ext4.knife(&lab, End::Whole), lab.path(SOCKETS).join("flushed"));
    let messages = 1000 + spread.below(ROUND_MESSAGES_MAX);
    one_life(&crowd, messages, "Write", &mut lab, |lab| {
        crowd.end();
        drop(knife.stdin.take());
        assert!(knife.wait().expect("our child").success(), "the file system was shut down");
        wait(lab, || !flag.exists());
        shows_memory(&ext4, lab, &crowd);
        ext4.unmount();
        let daemon = lab.daemon.as_ref().map(Child::id).expect("it runs");
        std::thread::scope(|scope| {
            scope.spawn(|| crowd.ask_once("FlushToVar", &mut drop));
            wait(lab, || waits_for_a_reader(daemon));
            assert!(ext4.mount(), "mounted");
            drop(std::fs::File::open(&lock).expect("the daemon is at the other end"));
        });
        wait(lab, || flag.exists());
        lab.stop();
    });
    let found = numbers(read(&ext4.ground.seen(DISK)));
    crowd.check(&found, false);
    assert!(found.values().map(Vec::len).sum::<usize>() > 1000, "it is on the disk");
}

/// Whether a thread of a process has begun to open a named pipe.
fn waits_for_a_reader(process: u32) -> bool {
    threads(process).any(|thread| {
        let place = std::fs::read_to_string(thread.join("wchan")).unwrap_or_default();
        place == "wait_for_partner"
    })
}

/// How often the thread that asks the disk has had to wait.
fn turns_of_disk(process: u32) -> u64 {
    let of_disk = |thread: &PathBuf| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name == "disk\n")
    };
    let thread = threads(process).find(of_disk).expect("it has one");
    let status = std::fs::read_to_string(thread.join("status")).expect("it runs");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).expect("a number")
}

fn threads(process: u32) -> impl Iterator<Item = PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    all.flatten().map(|thread| thread.path())
}

/// The file system does not answer for a time: nobody waits for it longer than is said.
#[test]
fn the_file_system_hangs_under_eight_senders_and_answers_again() {
    let (times, seconds) = (setting("WARREN_CUTS", 3), setting("WARREN_CRASH_SECONDS", 60));
    let mut spread = Spread::new(setting("WARREN_CRASH_SEED", 0x5eed));
    let (begun, mut lab) = (Instant::now(), Lab::new("hanging"));
    let Some(mut ext4) = Ext4::make(&lab, DISK) else { return };
    let mut crowds = Vec::new();
    while crowds.len() < times as usize && begun.elapsed() < Duration::from_secs(seconds) {
        start_with_both(&ext4, &mut lab, true);
        let crowd = Crowd::new(lab.path(SOCKETS), crowds.len());
        let messages = spread.below(ROUND_MESSAGES_MAX);
        let flag = lab.path(SOCKETS).join("flushed");
        // Whatever it is at: a file that is made, written to, or synced.
        let method = ["Write", "Synchronize", "Rotate"][spread.below(3) as usize];
        one_life(&crowd, messages, method, &mut lab, |lab| {
            crowd.end();
            let frozen = Frozen::of(&mut ext4);
            wait(lab, || !flag.exists());
            let said = shows_memory(frozen.0, lab, &crowd);
            assert_eq!(said, "", "what is on the disk can be read");
            drop(frozen);
            wait(lab, || flag.exists());
            lab.stop();
        });
        crowds.push(crowd);
    }
    let found = numbers(read(&ext4.ground.seen(DISK)));
    crowds.iter().for_each(|crowd| crowd.check(&found, false));
    say("disks that hang", &crowds, &found);
}

/// What is in memory stays there when the disk does not answer that it is to go to, and goes when it does.
#[test]
fn a_flush_to_a_file_system_that_hangs_is_given_up_and_done_later() {
    let mut lab = Lab::new("hanging-flush");
    let Some(mut ext4) = Ext4::make(&lab, DISK) else { return };
    start_with_both(&ext4, &mut lab, false);
    let crowd = Crowd::new(lab.path(SOCKETS), 0);
    let (flag, memory) = (lab.path(SOCKETS).join("flushed"), lab.path(MEMORY));
    let names = Inotify::new().expect("inotify(7)");
    names.add(lab.path(SOCKETS), WatchFor::Names).expect("it is there");
    let frozen = Frozen::of(&mut ext4);
    one_life(&crowd, 1000, "FlushToVar", &mut lab, |lab| {
        crowd.end();
        let stays = |entry: Entry| {
            entry
                .get("MESSAGE")
                .is_some_and(|text| text.starts_with(b"Cannot write to disk; messages stay"))
        };
        wait(lab, || read(&memory).any(stays));
        let before = crowd.sent();
        wait(lab, || crowd.sent() > before + 1000);
        let mut made = Vec::new();
        assert!(!names.drain(&mut made).expect("inotify(7)"), "few names are made");
        assert!(
            made.iter().all(|change| change.name != "flushed"),
            "it was never said to be there"
        );
        drop(frozen);
        wait(lab, || flag.exists());
        lab.stop();
    });
    let found = numbers(read(&ext4.ground.seen(DISK)));
    crowd.check(&found, false);
    assert!(found.values().map(Vec::len).sum::<usize>() > 1000, "it is on the disk");
}

/// Waits for what the daemon does, as long as it lives.
#[track_caller]
fn wait(lab: &mut Lab, is_done: impl Fn() -> bool) {
    warren_testkit::wait_until("what the daemon does is done", || {
        assert!(lab.is_alive(), "it lives until it is ended");
        is_done()
    });
}

/// A reader shows what came since. Gives what it says that it cannot read.
fn shows_memory(ext4: &Ext4, lab: &mut Lab, crowd: &Crowd) -> String {
    let (before, memory) = (crowd.sent(), lab.path(MEMORY));
    wait(lab, || crowd.sent() > before + 100);
    wait(lab, || read(&memory).count() > 100);
    let mut command = ext4.ground.inside(journalctl());
    command.arg("--root").arg(lab.path("root")).args(["-q", "-n", "100", "-o", "cat"]);
    let output = command.output().expect("it runs");
    let (shown, said) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    let lines = String::from_utf8_lossy(&shown).lines().filter(|l| l.starts_with("crowd")).count();
    assert!(output.status.success() && lines > 90, "{lines} lines: {said}");
    said
}
