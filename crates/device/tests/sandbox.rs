//! The daemon in its sandbox: it reads disks and tells, the executor does what is to be done, and
//! whoever took the reader over could do nothing else.

use std::fs;
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::path::{Path, PathBuf};
use std::time::Duration;

use warren_device::daemon::{Daemon, Options};
use warren_device::executor::{Places, serve};
use warren_device::index::Policy;
use warren_device::readers::Readers;
use warren_device::sandbox;
use warren_device::sysfs::Roots;
use warren_sys::namespace::{Namespaces, unshare};
use warren_sys::{child, fdpass};

/// A LUKS1 header with this identifier.
fn luks(uuid: &str) -> Vec<u8> {
    let mut disk = vec![0; 1 << 20];
    disk[..6].copy_from_slice(b"LUKS\xba\xbe");
    disk[7] = 1;
    disk[168..168 + uuid.len()].copy_from_slice(uuid.as_bytes());
    disk
}

fn make_disk(top: &Path, name: &str, minor: u32, content: &[u8]) {
    let dir = top.join("sys/devices/block").join(name);
    fs::create_dir_all(&dir).expect("the tree can be made");
    let uevent = format!("MAJOR=8\nMINOR={minor}\nDEVNAME={name}\nDISKSEQ=1\n");
    fs::write(dir.join("uevent"), uevent).expect("the tree can be made");
    fs::write(dir.join("size"), "2048\n").expect("the tree can be made");
    fs::write(top.join("dev").join(name), content).expect("the node can be made");
    use std::os::unix::fs::{PermissionsExt, symlink};
    let none = fs::Permissions::from_mode(0o600);
    fs::set_permissions(top.join("dev").join(name), none).expect("it is ours");
    let link = top.join("sys/class/block").join(name);
    symlink(format!("../../devices/block/{name}"), link).expect("the tree can be made");
}

fn make_top(test: &str) -> PathBuf {
    let top = std::env::temp_dir().join(format!("warren-{test}-{}", std::process::id()));
    for dir in ["sys/class/block", "dev"] {
        fs::create_dir_all(top.join(dir)).expect("the tree can be made");
    }
    top
}

/// Runs in a thread, which takes what it gave up with it to its end.
fn apart(test: &'static str, body: fn(&Path)) {
    let run = move || {
        // Nobody else is to hear of the test's disks; and without privileges nothing is given up.
        if child::capabilities().map_or(0, |caps| caps.permitted) == 0
            || unshare(Namespaces::NET | Namespaces::MOUNT).is_err()
        {
            warren_testkit::not_run_of(test, "needs namespaces of its own (root)");
            return;
        }
        body(&make_top(test));
    };
    let ended = std::thread::spawn(run).join();
    let _ = fs::remove_dir_all(
        std::env::temp_dir().join(format!("warren-{test}-{}", std::process::id())),
    );
    ended.expect("the test holds");
}

fn roots(top: &Path) -> Roots {
    Roots { sys: top.join("sys"), udev: top.join("udev"), dev: top.join("dev"), ..Roots::default() }
}

#[test]
fn a_disk_is_read_in_the_sandbox_and_its_link_is_made_outside() {
    const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";
    apart("sandbox_reads", |top| {
        make_disk(top, "sda", 0, &luks(UUID));
        let (near, far) = fdpass::seqpacket_pair(false).expect("a pair");
        let places =
            Places { dev: top.join("dev"), lvm_run: top.join("lvm"), records: top.join("records") };
        let executor = std::thread::spawn(move || serve(far, &places));
        let options = Options {
            roots: roots(top),
            udev: false,
            waits_for_udev: false,
            receive_buffer_bytes: 1 << 20,
            pass_patience_ms: 60_000,
            policy: Policy::default(),
            begun: Default::default(),
        };
        let readers = Readers::new().expect("an eventfd can be had");
        let mut daemon = Daemon::bind(options, readers, Some(near)).expect("a socket can be had");
        assert_eq!(sandbox::enter(&roots(top)), Ok(Vec::new()), "nothing is left");
        daemon.begin();
        while !daemon.is_settled() {
            daemon.turn(Some(Duration::from_secs(60))).expect("the socket works");
        }
        assert_eq!(daemon.take_lines(), [""; 0], "nothing failed");
        let told = daemon.message().expect("there is a disk");
        assert!(told.contains(&format!("name 0 /dev/disk/by-uuid/{UUID}\nready")), "{told}");
        // The link is looked at from the outside, when the executor has done all and is gone.
        drop(daemon);
        executor.join().expect("no panic").expect("it ends with the other side");
        let link = top.join("dev/disk/by-uuid").join(UUID);
        assert_eq!(fs::read_link(link).ok(), Some("../../sda".into()));
    });
}

#[test]
fn nothing_else_can_be_done_or_seen() {
    apart("sandbox_holds", |top| {
        make_disk(top, "sda", 0, b"content");
        let node = top.join("dev/sda");
        assert!(fs::read("/etc/passwd").is_ok());
        assert_eq!(sandbox::enter(&roots(top)), Ok(Vec::new()), "nothing is left");
        assert_eq!(
            fs::read(&node).ok().as_deref(),
            Some(&b"content"[..]),
            "it reads what others own"
        );
        let kind = |result: std::io::Result<()>| result.map_err(|error| error.kind());
        let write = || fs::File::options().write(true).open(&node).map(drop);
        let tries = [
            ("read a file", kind(fs::read("/etc/passwd").map(drop)), NotFound),
            ("see processes", kind(fs::read("/proc/1/status").map(drop)), NotFound),
            ("write to a disk", kind(write()), PermissionDenied),
            ("make a file", kind(fs::write(top.join("dev/x"), "")), PermissionDenied),
            ("run", kind(std::process::Command::new("true").status().map(drop)), PermissionDenied),
            (
                "connect",
                kind(std::os::unix::net::UnixDatagram::unbound().map(drop)),
                PermissionDenied,
            ),
        ];
        for (what, result, expected) in tries {
            assert_eq!(result, Err(expected), "{what}");
        }
        assert_eq!(unshare(Namespaces::USER).map_err(|error| error.errno), Err(1), "a new user");
        let caps = child::capabilities().expect("they can be asked");
        let all = (caps.effective, caps.permitted, caps.inheritable);
        assert_eq!(all, (4, 4, 0), "to read what others own");
    });
}
