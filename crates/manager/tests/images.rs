//! Images of disks as roots, below paths and over /usr: services look at what they see of them.

mod lab;

use std::path::Path;
use std::process::Command;

use lab::{Machine, until};
use warren_testkit::Dice;

/// Settings of a service, what its shell looks at, and what it finds; it finds nothing if it is not started.
struct Look {
    name: &'static str,
    settings: &'static str,
    script: &'static str,
    finds: &'static str,
}

const LOOKS: &[Look] = &[
    Look {
        name: "root",
        settings: "RootImage=/run/w/root.raw\nBindReadOnlyPaths=/usr\nMountAPIVFS=yes",
        script: "cat /marker; touch /new && echo rw; ls -d /run/warren /etc/passwd; stat -f -c %%T / /proc",
        finds: "of the image\nrw\next2/ext3\nproc\n",
    },
    // What was written is in the image, and nothing of it is in the host.
    Look {
        name: "root-again",
        settings: "RootImage=/run/w/root.raw\nBindReadOnlyPaths=/usr\nRootImageOptions=ro,noatime\nWorkingDirectory=/inner",
        script: "ls /new; touch /other || echo ro; pwd; cat f",
        finds: "/new\nro\n/inner\ninner\n",
    },
    // Each of its processes has the same copy, and nobody else.
    Look {
        name: "ephemeral",
        settings: "RootImage=/run/w/root.raw\nRootEphemeral=yes\nBindReadOnlyPaths=/usr\nExecStartPre=/bin/sh -c 'echo pre >/of-pre'",
        script: "cat /marker /of-pre; ls -d /new; touch /gone && echo rw",
        finds: "of the image\npre\n/new\nrw\n",
    },
    Look {
        name: "ephemeral-directory",
        settings: "RootDirectory=/run/w/tree\nRootEphemeral=yes\nBindReadOnlyPaths=/usr\nExecStartPre=/bin/sh -c 'echo pre >/of-pre'",
        script: "cat /marker /of-pre /inner/f; stat -c '%%a %%u' /special /inner; touch /gone && echo rw",
        finds: "of the image\npre\ninner\n4750 4243\n755 0\nrw\n",
    },
    Look {
        name: "ephemeral-host",
        settings: "RootDirectory=/run/w/host\nRootEphemeral=yes",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "root-of-user",
        settings: "RootImage=/run/w/root.raw\nBindReadOnlyPaths=/usr\nUser=4242\nProtectSystem=strict\nPrivateTmp=yes\nStateDirectory=img",
        script: "id -u; cat /marker; touch /x || echo ro; touch /tmp/t && echo tmp; touch /var/lib/img/s && echo state",
        finds: "4242\nof the image\nro\ntmp\nstate\n",
    },
    Look {
        name: "partition",
        settings: "RootImage=/run/w/disk.raw\nBindReadOnlyPaths=/usr",
        script: "cat /marker; touch /made && echo rw",
        finds: "of the image\nrw\n",
    },
    Look {
        name: "mounted",
        settings: "MountImages=/run/w/root.raw:/run/w/at:ro -/run/w/none.raw:/run/w/no /run/w/disk.raw:/run/w/a\\:b:root:nosuid",
        script: "cat /run/w/at/marker /run/w/a:b/inner/f; touch /run/w/at/x || echo ro; touch /run/w/a:b/x && echo rw; ls -A /run/warren/images",
        finds: "of the image\ninner\nro\nrw\n",
    },
    Look {
        name: "over",
        settings: "ExtensionDirectories=/run/w/ext -/run/w/none\nExtensionImages=/run/w/more.raw",
        script: "cat /usr/share/of-ext /usr/share/of-more /opt/of-ext; which sh; touch /usr/share/x || echo ro; ls -A /run/warren/images",
        finds: "ext\nmore\nopt\n/usr/bin/sh\nro\n",
    },
    Look {
        name: "over-a-root",
        settings: "RootImage=/run/w/root.raw\nBindReadOnlyPaths=/usr/bin /usr/lib /usr/lib64\nExtensionDirectories=/run/w/ext\nMountAPIVFS=yes",
        script: "cat /opt/of-ext /marker",
        finds: "opt\nof the image\n",
    },
    Look {
        name: "of-another-system",
        settings: "ExtensionDirectories=/run/w/other",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "without-release",
        settings: "ExtensionDirectories=/run/w/w",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "missing",
        settings: "RootImage=/run/w/none.raw",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "garbage",
        settings: "RootImage=/run/w/garbage.raw",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "truncated",
        settings: "RootImage=/run/w/short.raw",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "cut-disk",
        settings: "RootImage=/run/w/cut.raw",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "directory",
        settings: "MountImages=/run/w:/mnt",
        script: "echo never",
        finds: "",
    },
    Look { name: "fifo", settings: "RootImage=/run/w/fifo", script: "echo never", finds: "" },
    Look {
        name: "hashed",
        settings: "RootImage=/run/w/hashed.raw",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "verity",
        settings: "RootImage=/run/w/root.raw\nRootHash=00",
        script: "echo never",
        finds: "",
    },
    // Others are still where they were.
    Look {
        name: "plain",
        settings: "",
        script: "ls -A /run/warren/images; readlink /proc/self/ns/mnt | cmp - /run/ns && echo same",
        finds: "same\n",
    },
];

fn unit(look: &Look) -> String {
    format!(
        "[Service]\nType=oneshot\nStandardOutput=file:/run/out-{0}\nStandardError=null\n{1}\n\
         ExecStart=/bin/sh -c \"{2}\"\n",
        look.name,
        look.settings,
        look.script.replace('"', "\\\""),
    )
}

/// A disk with one partition, in which this file system is.
fn disk(file_system: &[u8]) -> Vec<u8> {
    const FIRST: u64 = 2048;
    const ROOT: [u8; 16] = [
        0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d,
        0xe4,
    ];
    let sectors = file_system.len() as u64 / 512;
    let mut entries = vec![0; 128 * 128];
    entries[..16].copy_from_slice(&ROOT);
    entries[32..40].copy_from_slice(&FIRST.to_le_bytes());
    entries[40..48].copy_from_slice(&(FIRST + sectors - 1).to_le_bytes());
    let mut header = vec![0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[12] = 92;
    header[24] = 1;
    header[72] = 2;
    header[80] = 128;
    header[84] = 128;
    header[88..92].copy_from_slice(&crc32fast::hash(&entries).to_le_bytes());
    let sum = crc32fast::hash(&header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    let mut out = vec![0; FIRST as usize * 512];
    out[512..604].copy_from_slice(&header);
    out[1024..1024 + entries.len()].copy_from_slice(&entries);
    out.extend_from_slice(file_system);
    out
}

/// Loop devices that are parts of files below a directory of this name.
fn loops_of(name: &str) -> usize {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let backing = |device: std::fs::DirEntry| {
        std::fs::read_to_string(device.path().join("loop/backing_file")).ok()
    };
    // The path is as the kernel sees it: of a file in the machine's own /run it begins there.
    devices.filter_map(backing).filter(|path| path.contains(name)).count()
}

fn has_tools() -> bool {
    let made = Command::new("mke2fs").arg("-V").output().is_ok();
    made && Path::new("/dev/loop-control").exists()
}

#[test]
fn services_see_the_images_that_their_units_ask_for() {
    if !has_tools() {
        return lab::not_run("images", "mke2fs(8) and loop devices");
    }
    let units: Vec<(String, String)> =
        LOOKS.iter().map(|look| (format!("{}.service", look.name), unit(look))).collect();
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (&**name, &**text)).collect();
    let Some(m) = Machine::start("images", &units) else { return };
    // Files of the test's own name, so that their loop devices can be told from others.
    let name = m.directory.file_name().expect("it has a name").to_string_lossy().into_owned();
    let prepare = format!(
        "set -e; mkdir -p /run/of-{name} && ln -s /run/of-{name} /run/w; cd /run/w; \
         mkdir -p tree/usr tree/proc tree/sys tree/dev tree/run tree/tmp tree/var/tmp tree/var/lib tree/etc tree/inner tree/opt; \
         for d in bin lib lib64; do ln -s usr/$d tree/$d; done; echo of the image >tree/marker; echo inner >tree/inner/f; \
         mkdir -p tree/usr/bin tree/usr/lib tree/usr/lib64; echo ID=debian >tree/etc/os-release; \
         touch tree/special && chown 4243 tree/special && chmod 4750 tree/special && ln -s / host; \
         mke2fs -q -t ext4 -d tree root.raw 8M; cp root.raw fs; head -c 100000 root.raw >short.raw; \
         cp root.raw hashed.raw; echo 00 >hashed.roothash; \
         for e in ext more other w; do mkdir -p $e/usr/share $e/usr/lib/extension-release.d; echo $e >$e/usr/share/of-$e; done; \
         mkdir ext/opt; echo opt >ext/opt/of-ext; \
         echo ID=_any >ext/usr/lib/extension-release.d/extension-release.ext; \
         . /etc/os-release; echo ID=$ID >more/usr/lib/extension-release.d/extension-release.more; \
         echo VERSION_ID=$VERSION_ID >>more/usr/lib/extension-release.d/extension-release.more; \
         echo ID=other >other/usr/lib/extension-release.d/extension-release.other; \
         mke2fs -q -t ext4 -d more more.raw 4M; head -c 300000 /dev/urandom >garbage.raw; mkfifo fifo; \
         mkdir /run/tmp && mount -t tmpfs none /var/tmp && mount -t tmpfs none /var/lib; readlink /proc/1/ns/mnt >/run/ns"
    );
    m.run(&["/bin/sh", "-c", &prepare]).expect("prepared");
    let of_machine = |path: &str| m.inside(&format!("/run/of-{name}/{path}"));
    let made = disk(&std::fs::read(of_machine("fs")).expect("it was made"));
    std::fs::write(of_machine("disk.raw"), &made).expect("written");
    std::fs::write(of_machine("cut.raw"), &made[..made.len() - 512]).expect("written");
    let mut wrong = Vec::new();
    for look in LOOKS {
        m.job("start", &format!("{}.service", look.name));
        let found = std::fs::read_to_string(m.inside(&format!("/run/out-{}", look.name)));
        let found = found.unwrap_or_default();
        if found != look.finds {
            wrong.push(format!("--- {}\n{}\n--- not\n{}", look.name, found, look.finds));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), m.console());
    let said = m.console();
    for (what, why) in [
        ("garbage", "it has no file system or partition table that Warrener knows"),
        ("cut", "extends past its end"),
        ("short", "cannot mount its ext4 file system"),
        ("hashed", "(dm-verity) is not supported"),
        ("other", "it is for the system \"other\""),
    ] {
        let line = said
            .lines()
            .find(|line| line.contains(&format!("/run/w/{what}")) && line.contains(why));
        assert!(line.is_some(), "{what}: {why}\n{said}");
    }
    until("no loop device is left", || (loops_of(&format!("of-{name}")) == 0).then_some(()));
    let read = |path: &str| std::fs::read_dir(m.inside(path)).map_or(0, |names| names.count());
    assert_eq!(read("/var/lib/systemd/ephemeral-trees"), 0, "copies of roots are left");
    assert!(!m.inside("/run/w/tree/of-pre").exists() && !m.inside("/run/w/tree/gone").exists());
}

/// A helper that is killed has its mounts go with it, and so has a process that ends: the kernel clears the devices.
#[test]
fn nothing_is_left_of_images_whoever_is_killed() {
    if !has_tools() {
        return lab::not_run("images-killed", "mke2fs(8) and loop devices");
    }
    let unit = "[Service]\nRootImage=/run/w/root.raw\nMountImages=/run/w/root.raw:/inner:ro\nBindReadOnlyPaths=/usr\n\
                TimeoutStopSec=5\nExecStart=/bin/sleep 1000\n";
    let Some(m) = Machine::start("images-killed", &[("imaged.service", unit)]) else { return };
    let name = m.directory.file_name().expect("it has a name").to_string_lossy().into_owned();
    let prepare = format!(
        "set -e; mkdir -p /run/of-{name} && ln -s /run/of-{name} /run/w; cd /run/w; mkdir -p tree/usr tree/inner; \
         for d in bin lib lib64; do ln -s usr/$d tree/$d; done; mke2fs -q -t ext4 -d tree root.raw 8M"
    );
    m.run(&["/bin/sh", "-c", &prepare]).expect("prepared");
    let mut dice = Dice(warren_testkit::seed());
    let mut killed = 0;
    for round in 0..12 {
        std::thread::scope(|scope| {
            let start = scope.spawn(|| m.job("start", "imaged.service"));
            // Somewhere in what a start does; to look for helpers takes a moment itself.
            (0..dice.roll(20)).for_each(|_| drop(m.helper_pids()));
            killed += usize::from(m.kill_helper());
            if round % 4 == 3 {
                m.kill_manager();
            }
            start.join().expect("it ends");
        });
        m.wait_until_it_listens();
        m.job("stop", "imaged.service");
    }
    assert!(killed > 0, "no helper was found");
    m.wait_until_it_listens();
    until("it runs", || {
        (m.job("start", "imaged.service") == lab::Ended::Said("done".to_owned())).then_some(())
    });
    assert!(loops_of(&format!("of-{name}")) > 0, "{}", m.console());
    m.expect_job("stop", "imaged.service", "done");
    until("no loop device is left", || (loops_of(&format!("of-{name}")) == 0).then_some(()));
    let mounts =
        std::fs::read_to_string(format!("/proc/{}/mountinfo", m.init_pid)).expect("it is there");
    assert!(!mounts.contains("/run/warren/images"), "{mounts}");
}

/// A start ends whatever becomes of helpers: each of them may be killed over it, all the time. While managers are killed
/// as quickly, none lives until it answers: that is no state that a start can end in, and not tried here.
#[test]
fn a_start_ends_though_helpers_are_killed_all_the_time() {
    if !has_tools() {
        return lab::not_run("images-endless", "mke2fs(8) and loop devices");
    }
    let unit = "[Service]\nRootImage=/run/w/root.raw\nMountImages=/run/w/root.raw:/inner:ro\nBindReadOnlyPaths=/usr\n\
                StartLimitIntervalSec=0\nTimeoutStopSec=5\nExecStart=/bin/sleep 1000\n";
    let Some(m) = Machine::start("images-endless", &[("imaged.service", unit)]) else { return };
    let name = m.directory.file_name().expect("it has a name").to_string_lossy().into_owned();
    let prepare = format!(
        "set -e; mkdir -p /run/of-{name} && ln -s /run/of-{name} /run/w; cd /run/w; mkdir -p tree/usr tree/inner; \
         for d in bin lib lib64; do ln -s usr/$d tree/$d; done; mke2fs -q -t ext4 -d tree root.raw 8M"
    );
    m.run(&["/bin/sh", "-c", &prepare]).expect("prepared");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (mut ended, mut killed) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let kills = scope.spawn(|| {
            let mut killed = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                killed += usize::from(m.kill_helper());
            }
            killed
        });
        for _ in 0..20 {
            ended.push(m.job("start", "imaged.service"));
            ended.push(m.job("stop", "imaged.service"));
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        killed = kills.join().expect("it ends");
    });
    let is_said = |ended: &lab::Ended| matches!(ended, lab::Ended::Said(how) if how == "done" || how == "failed");
    assert!(killed > 0 && ended.iter().all(is_said), "{killed} {ended:?}\n{}", m.console());
    until("it runs", || {
        (m.job("start", "imaged.service") == lab::Ended::Said("done".to_owned())).then_some(())
    });
    m.expect_job("stop", "imaged.service", "done");
    until("no loop device is left", || (loops_of(&format!("of-{name}")) == 0).then_some(()));
}
