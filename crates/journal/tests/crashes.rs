//! The daemon killed, and power gone, again and again while eight senders are at work.
//!
//! `WARREN_KILLS` and `WARREN_CUTS` say how often, `WARREN_CRASH_SECONDS` after how long no further
//! round begins, `WARREN_CRASH_SEED` where the points come from.

mod crowd;
mod daemon_lab;
mod ground;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crowd::{Crowd, Numbers, SENDERS, Spread, numbers, read, setting};
use daemon_lab::{Lab, not_run};
use ground::Ground;

/// Most messages before the daemon is killed.
const ROUND_MESSAGES_MAX: u64 = 6000;

const FREE: [&str; 4] = ["--set", "RateLimitBurst=0", "--set", "ForwardToWall=no"];

/// Lets the crowd send until so many messages are out and then does what ends the daemon.
fn one_life(crowd: &Crowd, messages: u64, method: &str, lab: &mut Lab, end: impl FnOnce(&mut Lab)) {
    std::thread::scope(|scope| {
        (0..SENDERS).for_each(|sender| _ = scope.spawn(move || crowd.send(sender)));
        scope.spawn(|| crowd.ask(method));
        while crowd.sent() < messages && lab.is_alive() {
            std::thread::yield_now();
        }
        assert!(lab.is_alive(), "it lives until it is killed");
        end(lab);
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

/// A file system of the test's own on a device of its own.
struct Ext4 {
    ground: Ground,
}

impl Ext4 {
    /// `None`, and why is said, where that cannot be had.
    fn make(lab: &Lab) -> Option<Ext4> {
        const MAKE: &str = "truncate -s 1G image && mkfs.ext4 -q -F image && mkdir store";
        let ext4 = Ground::make(lab).map(|ground| Ext4 { ground }).and_then(|mut ext4| {
            let is_there =
                ext4.ground.run(MAKE) && ext4.mount() && ext4.ground.run("python3 --version");
            is_there.then_some(ext4)
        });
        if ext4.is_none() {
            not_run("needs root, a namespace, a loop device, mkfs.ext4 and python3");
        }
        ext4
    }

    fn mount(&mut self) -> bool {
        self.ground.run("mount -o loop image store")
    }

    /// A program that ends the file system at once when it is told to: what was not synced never
    /// reaches the device.
    fn knife(&self, lab: &Lab) -> Child {
        /// `EXT4_IOC_SHUTDOWN`, without writing the file system's own log.
        const CUT: &str = "import fcntl, os, struct, sys\n\
            fd = os.open(sys.argv[1], 0)\nprint(flush=True)\nsys.stdin.read()\n\
            fcntl.ioctl(fd, 0x8004587d, struct.pack('I', 2))";
        let mut command = self.ground.inside("python3");
        command.args(["-c", CUT]).arg(lab.path("store"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut knife = command.spawn().expect("nsenter(1) and python3");
        let told = BufReader::new(knife.stdout.take().expect("piped")).lines().next();
        assert!(matches!(told, Some(Ok(_))), "it is ready");
        knife
    }

    /// As after the next boot.
    fn mount_anew(&mut self) {
        assert!(self.ground.run("umount store"), "unmounted");
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
    let Some(mut ext4) = Ext4::make(&lab) else { return };
    let mut crowds = Vec::new();
    while crowds.len() < cuts as usize && begun.elapsed() < Duration::from_secs(seconds) {
        ext4.start(&mut lab);
        let crowd = Crowd::new(lab.path("run"), crowds.len());
        let messages = spread.below(ROUND_MESSAGES_MAX);
        let mut knife = ext4.knife(&lab);
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
