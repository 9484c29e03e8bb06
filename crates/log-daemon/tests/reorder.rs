//! Power goes below a real file system on a device that changes the order of what it writes: of what came
//! after its last flush anything may be there, in parts, and the rest not.
//!
//! qemu-storage-daemon keeps a record of each write and flush of the device (`blklogwrites`, in the form of
//! the kernel's dm-log-writes), which is a file of FUSE below a loop device. From the record the device is
//! made as it may have been at many points. `WARREN_REORDERS` says at how many, `WARREN_CRASH_SEED` where
//! they come from, `WARREN_REORDER_FS` on what file system: ext4, btrfs or xfs.

mod crowd;
mod daemon_lab;
mod ground;
#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;
use reader::journalctl;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use crowd::{Crowd, Numbers, SENDERS, Spread, numbers, read, setting};
use daemon_lab::{Lab, not_run};
use ground::Ground;

/// Messages that are sent while the record is kept: several segments.
const MESSAGES: u64 = 30_000;

/// As many are sent before the next sync is asked for.
const SYNC_MESSAGES: u64 = 500;

const SECTOR_BYTES: u64 = 512;

const QUIET: [&str; 8] = [
    "--set",
    "RateLimitBurst=0",
    "--set",
    "ForwardToWall=no",
    "--set",
    "SystemKeepFree=0",
    "--set",
    "SystemMaxFileSize=1M",
];

/// A step of the device.
enum Step {
    Write { at: u64, data: std::ops::Range<u64> },
    Flush,
}

/// What the device was told, in order, with where each step ends in the record, bytes.
fn steps(record: &File) -> Vec<(u64, Step)> {
    /// Bits of an entry's flags: `LOG_FLUSH_FLAG`, `LOG_FUA_FLAG`, `LOG_DISCARD_FLAG`.
    const FLUSH: u64 = 1;
    const FUA: u64 = 2;
    const DISCARD: u64 = 4;
    let end = record.metadata().expect("it is there").len();
    let (mut at, mut steps) = (SECTOR_BYTES, Vec::new());
    while at + SECTOR_BYTES <= end {
        let mut head = [0; 24];
        record.read_exact_at(&mut head, at).expect("an entry");
        let number = |place: usize| {
            let bytes = head[place..place + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let (sector, sectors, flags) = (number(0), number(8), number(16));
        let data = at + SECTOR_BYTES;
        let length = if flags & DISCARD != 0 { 0 } else { sectors * SECTOR_BYTES };
        at = data + length;
        if at > end {
            break;
        }
        if flags & (FLUSH | FUA) != 0 {
            steps.push((data, Step::Flush));
        }
        if length > 0 {
            steps.push((at, Step::Write { at: sector * SECTOR_BYTES, data: data..at }));
        }
    }
    steps
}

/// The device, with a file system on it that is mounted.
struct Device {
    ground: Ground,
    server: Option<Child>,
}

impl Device {
    /// `None` where that cannot be had.
    fn make(lab: &Lab) -> Option<Device> {
        let mut device = Device { ground: Ground::make(lab)?, server: None };
        let kind = std::env::var("WARREN_REORDER_FS");
        let make = match kind.as_deref().unwrap_or("ext4") {
            "ext4" => "mkfs.ext4 -q -F disk".to_owned(),
            other => format!("mkfs.{other} -q -f disk"),
        };
        let made = device.ground.run(&format!("truncate -s 320M disk && {make} && mkdir store"))
            && device.ground.run("cp --sparse=always disk base && : > record && : > device")
            && device.serve(lab)
            && device.ground.run("mount -o loop device store");
        made.then_some(device)
    }

    /// Puts the device that keeps a record over its file.
    fn serve(&mut self, lab: &Lab) -> bool {
        let path = |name: &str| lab.path(name).display().to_string();
        let mut command = self.ground.inside("qemu-storage-daemon");
        for node in [
            format!("driver=file,node-name=disk,filename={}", path("disk")),
            format!("driver=file,node-name=record,filename={}", path("record")),
            "driver=blklogwrites,node-name=device,file=disk,log=record".to_owned(),
        ] {
            command.args(["--blockdev", &node]);
        }
        let export = format!("node-name=device,mountpoint={},writable=on", path("device"));
        command.args(["--export", &format!("type=fuse,id=device,{export}")]);
        let ready = path("ready");
        command.args(["--pidfile", &ready]).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut server) = command.spawn() else { return false };
        // The file is written when the export is there.
        let is_there = warren_testkit::wait_for("the server exports the device, or ends", || {
            let has_ended = server.try_wait().is_ok_and(|status| status.is_some());
            let is_ready = Path::new(&ready).exists();
            (is_ready || has_ended).then_some(is_ready)
        });
        if !is_there {
            return false;
        }
        self.server = Some(server);
        self.ground.run("test -s device")
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.ground.run("umount store");
        let _ = self.ground.run("umount device");
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// So often is asked at least for what is there to be made durable.
const SURE_MIN: usize = 11;

/// How much of each sender's was durable when the record was so long, bytes.
type Sure = Vec<(u64, [u32; SENDERS])>;

/// Has the crowd send, and a client ask for what is there to be made durable.
fn load(ground: &Ground, lab: &mut Lab, crowd: &Crowd) -> Sure {
    let (record, sure) = (lab.path("record"), Mutex::new(Sure::new()));
    ground.start(lab, &QUIET);
    std::thread::scope(|scope| {
        (0..SENDERS).for_each(|sender| _ = scope.spawn(move || crowd.send(sender)));
        scope.spawn(|| {
            crowd.ask_and("Synchronize", |counts| {
                let length = fs::metadata(&record).expect("it is there").len();
                sure.lock().expect("nobody panics").push((length, counts));
                let more = crowd.sent() + SYNC_MESSAGES;
                warren_testkit::wait_until("the crowd sends more", || {
                    crowd.sent() >= more.min(MESSAGES)
                });
            });
        });
        // On a busy machine who asks may come to it rarely.
        let is_asked = || sure.lock().expect("nobody panics").len() >= SURE_MIN;
        warren_testkit::wait_until("the crowd has sent all, and was asked often enough", || {
            (crowd.sent() >= MESSAGES && is_asked()) || !lab.is_alive()
        });
        assert!(lab.is_alive(), "it lives until it is killed");
        crowd.end();
        lab.kill();
    });
    sure.into_inner().expect("nobody panics")
}

/// Carries a write out, whole or some of its sectors.
fn write(record: &File, image: &File, step: &Step, mut takes: impl FnMut() -> bool) {
    let Step::Write { at, data } = step else { return };
    for offset in (0..data.end - data.start).step_by(SECTOR_BYTES as usize) {
        if takes() {
            let mut sector = [0; SECTOR_BYTES as usize];
            record.read_exact_at(&mut sector, data.start + offset).expect("an entry's data");
            image.write_all_at(&sector, at + offset).expect("room");
        }
    }
}

/// Makes `cut` of `base`, which has all that is durable after so many steps: of those that follow, each
/// write came whole, in parts or not at all, and in no order.
fn cut(lab: &Lab, record: &File, loose: &[(u64, Step)], spread: &mut Spread) {
    let copied = Command::new("cp")
        .args(["--sparse=always".as_ref(), lab.path("base").as_os_str()])
        .arg(lab.path("cut"))
        .status();
    assert!(copied.expect("cp(1)").success());
    let image = File::options().write(true).open(lab.path("cut")).expect("it is there");
    let mut order: Vec<&Step> = loose.iter().map(|(_, step)| step).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, spread.below(last as u64 + 1) as usize);
    }
    for step in order {
        match spread.below(4) {
            0 => {}
            1 => write(record, &image, step, || true),
            _ => write(record, &image, step, || spread.below(2) == 0),
        }
    }
}

/// Starts a daemon on what is left, ends it in order, and reads.
fn recovered(ground: &mut Ground, lab: &mut Lab) -> Numbers {
    // A superblock of which one sector came is ext4's to mend from a copy, as at every boot.
    let mount = "mount -o loop cut store";
    let mend = format!("e2fsck -fy cut > fsck 2>&1; {mount}");
    assert!(ground.run(mount) || ground.run(&mend), "the file system takes it");
    ground.start(lab, &QUIET);
    lab.stop();
    let verify = ground
        .inside(journalctl())
        .args(["--verify", "-q", "-D"])
        .arg(lab.path("store/log"))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&verify.stdout).into_owned();
    assert!(verify.status.success(), "the daemon has put it in order: {said}");
    let found = numbers(read(&ground.seen("store/log")));
    assert!(ground.run("umount store"));
    found
}

#[test]
fn power_goes_on_a_device_that_changes_the_order_of_writes() {
    let (cuts, mut spread) =
        (setting("WARREN_REORDERS", 5), Spread::new(setting("WARREN_CRASH_SEED", 0x5eed)));
    let mut lab = Lab::new("reorder");
    let Some(mut device) = Device::make(&lab) else {
        return not_run(
            "needs root, a namespace, loop devices, mkfs, FUSE and qemu-storage-daemon",
        );
    };
    let crowd = Crowd::new(lab.path("run"), 0);
    let sure = load(&device.ground, &mut lab, &crowd);
    assert!(device.ground.run("umount store && umount device"), "the record is whole");
    let record = File::open(lab.path("record")).expect("it is there");
    let steps = steps(&record);
    // Power goes when a flush was asked for and nothing of it is done.
    let is_flush = |step: &(u64, Step)| matches!(step.1, Step::Flush);
    let flushes: Vec<usize> = (0..steps.len()).filter(|at| is_flush(&steps[*at])).collect();
    let mut at: Vec<usize> =
        (0..cuts).map(|_| flushes[spread.below(flushes.len() as u64) as usize]).collect();
    at.sort_unstable();
    let base = File::options().write(true).open(lab.path("base")).expect("it is there");
    let (mut done, mut lost, mut kept) = (0, 0, 0);
    for at in at {
        let flush = steps[..at].iter().rposition(is_flush);
        let durable = flush.map_or(0, |place| place + 1).max(done);
        steps[done..durable].iter().for_each(|(_, step)| write(&record, &base, step, || true));
        done = durable;
        cut(&lab, &record, &steps[durable..at], &mut spread);
        let length = steps[..at].last().map_or(0, |(end, _)| *end);
        let counts = sure.iter().rev().find(|(then, _)| *then <= length).map(|(_, counts)| *counts);
        let found = recovered(&mut device.ground, &mut lab);
        crowd.check_for(&found, counts.unwrap_or_default(), true);
        kept += counts.unwrap_or_default().iter().map(|count| u64::from(*count)).sum::<u64>();
        lost += at - durable;
    }
    let steps = steps.len();
    println!("{cuts} cuts, {steps} steps, {lost} not flushed, {kept} answered for in all");
    assert!(lost > 0 && kept > 0);
}
