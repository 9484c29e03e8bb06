//! The device daemon as a service of the manager: units wait for their devices and go with them,
//! whoever is killed. The devices are a tree like sysfs with files for nodes.

mod lab;

use std::fs;
use std::os::unix::fs::symlink;

use lab::recordings::{bar, recording};
use lab::{Machine, until};
use serde_json::json;
use warren_trace::analysis::Analysis;
use warren_trace::words::Work;

const UNIT: &str = include_str!("../../../units/warren-deviced.service");

/// Starts a machine whose device daemon looks at a tree of the test's.
fn start(name: &str, units: &[(&str, &str)]) -> Option<Machine> {
    let deviced = lab::program_of("warren-device", "warren-deviced");
    let roots = "--sys=@D/tree/sys --udev-run=@D/tree/udev --dev=@D/tree/dev --lvm-run=@D/tree/lvm";
    let text = UNIT
        .replace("/usr/lib/warren/warren-deviced --activate", &format!("{deviced} {roots}"))
        .replace("ConditionVirtualization=!container\nConditionPathIsReadWrite=/sys\n", "");
    assert!(!text.contains("\nCondition"), "the tree is this test's own: {text}");
    let sysinit = "[Unit]\nDefaultDependencies=no\nWants=warren-deviced.service";
    let mut all = vec![("warren-deviced.service", &*text), ("sysinit.target", sysinit)];
    all.extend(units);
    let machine = Machine::start(name, &all)?;
    machine.expect_job("start", "warren-deviced.service", "done");
    Some(machine)
}

/// Puts a disk into the tree that udev knows under a link.
fn plug(machine: &Machine, name: &str, minor: u32, more: &str) {
    let tree = machine.directory.join("tree");
    let dir = tree.join("sys/devices/block").join(name);
    for below in ["sys/class/block", "udev/data", "dev"] {
        fs::create_dir_all(tree.join(below)).expect("the tree can be made");
    }
    fs::create_dir_all(&dir).expect("the tree can be made");
    let uevent = format!("MAJOR=8\nMINOR={minor}\nDEVNAME={name}\nDISKSEQ=1\n");
    fs::write(dir.join("uevent"), uevent).expect("the tree can be made");
    fs::write(dir.join("size"), "2048\n").expect("the tree can be made");
    fs::write(tree.join("dev").join(name), vec![0; 1 << 20]).expect("the node can be made");
    let record = format!("I:1\nQ:systemd\nS:disk/by-id/{name}\n{more}");
    fs::write(tree.join(format!("udev/data/b8:{minor}")), record).expect("the record can be made");
    fs::write(tree.join("udev/control"), "").expect("udev runs");
    let link = tree.join("sys/class/block").join(name);
    let _ = symlink(format!("../../devices/block/{name}"), link);
}

fn unplug(machine: &Machine, name: &str) {
    let link = machine.directory.join("tree/sys/class/block").join(name);
    fs::remove_file(link).expect("it was plugged in");
}

/// Kills the device daemon; the next one looks at everything.
fn look_again(machine: &Machine) {
    let daemon = "warren-deviced.service";
    let pid = machine.main_pid(daemon);
    assert!(machine.kill_child("warren-deviced"), "it runs");
    until("another device daemon is up", || {
        let other = machine.main_pid(daemon).filter(|_| machine.main_pid(daemon) != pid);
        (other.is_some() && machine.state(daemon) == "active/running").then_some(())
    });
}

/// Asks for a start and does not wait.
fn begin(machine: &Machine, unit: &str) {
    let asked = machine.try_call("Job", &json!({"type": "start", "unit": unit, "wait": false}));
    assert!(asked.as_ref().is_some_and(|answer| answer.get("error").is_none()), "{asked:?}");
}

#[test]
fn a_unit_waits_for_its_device_and_goes_with_it() {
    let user = "[Unit]\nBindsTo=dev-disk-by\\x2did-sda.device\n\
                After=dev-disk-by\\x2did-sda.device\n[Service]\nExecStart=/bin/sleep 1000";
    let wanted = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo %i >> @D/out/wanted'";
    let units = [("user.service", user), ("wanted@.service", wanted)];
    let Some(m) = start("devices", &units) else { return };
    let device = "dev-disk-by\\x2did-sda.device";
    begin(&m, "user.service");
    assert_eq!([m.state("user.service"), m.state(device)], ["inactive/dead", "inactive/dead"]);

    let why = || {
        let why = m.call("Why", &json!({"unit": "user.service"}));
        why["units"][0]["path"][1]["device"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(why(), "no such device has appeared");
    // One that udev has not looked at may be the one that is waited for.
    plug(&m, "sdz", 9, "");
    fs::remove_file(m.directory.join("tree/udev/data/b8:9")).expect("it was made");
    look_again(&m);
    until("another disk is told of", || {
        (why() == "no such device has appeared; the contents of /dev/sdz are unknown").then_some(())
    });
    unplug(&m, "sdz");
    plug(&m, "sda", 0, "E:SYSTEMD_WANTS=wanted@.service\n");
    look_again(&m);
    m.wait_for("user.service", "active/running");
    assert_eq!(m.state(device), "active/plugged");
    until("what the device wants is started", || (m.lines("wanted").len() == 1).then_some(()));

    m.kill_manager();
    m.wait_until_it_listens();
    assert_eq!([m.state("user.service"), m.state(device)], ["active/running", "active/plugged"]);
    look_again(&m);
    assert_eq!([m.state("user.service"), m.state(device)], ["active/running", "active/plugged"]);

    let told = m.call("Devices", &json!({}));
    assert_eq!(told["devices"][0]["users"][0]["name"], "user.service", "{told}");
    unplug(&m, "sda");
    look_again(&m);
    m.wait_for("user.service", "inactive/dead");
    m.wait_for(device, "inactive/dead");
    plug(&m, "sda", 0, "E:SYSTEMD_READY=0\n");
    look_again(&m);
    assert_eq!(m.state(device), "inactive/dead", "it is there but not ready");
    assert_eq!(m.lines("wanted"), ["sys-devices-block-sda"], "asked for once");
}

/// A disk that another daemon finds in the place of the one that was there is another disk.
#[test]
fn what_is_bound_to_a_disk_goes_when_another_is_in_its_place() {
    let user = "[Unit]\nBindsTo=dev-disk-by\\x2did-sda.device\n\
                After=dev-disk-by\\x2did-sda.device\n[Service]\nExecStart=/bin/sleep 1000";
    let Some(m) = start("replaced", &[("user.service", user)]) else { return };
    plug(&m, "sda", 0, "");
    look_again(&m);
    m.expect_job("start", "user.service", "done");
    let uevent = m.directory.join("tree/sys/devices/block/sda/uevent");
    let text = fs::read_to_string(&uevent).expect("the disk is there");
    fs::write(&uevent, text.replace("DISKSEQ=1", "DISKSEQ=2")).expect("the tree can be made");
    look_again(&m);
    m.wait_for("user.service", "inactive/dead");
    m.wait_for("dev-disk-by\\x2did-sda.device", "active/plugged");
}

/// What is mounted by hand goes with its device if that one's `SYSTEMD_MOUNT_DEVICE_BOUND=` or
/// mount(8) says so.
#[test]
fn a_mount_by_hand_goes_with_a_device_that_binds_it() {
    let Some(m) = start("bound", &[]) else { return };
    let binds = "E:SYSTEMD_MOUNT_DEVICE_BOUND=1\n";
    let mount_as = |name: &str, options: &str| {
        let (path, device) = (format!("/run/{name}"), format!("/dev/{name}"));
        m.run(&["mkdir", "-p", &path]).expect("a directory");
        m.run(&["mount", "-t", "tmpfs", "-o", options, &device, &path]).expect("it is mounted");
    };
    let mount = |name: &str| mount_as(name, "size=1M");
    // Mounted before its device is told of, after it, and of a device that binds nothing.
    mount("sda");
    plug(&m, "sda", 0, binds);
    plug(&m, "sdb", 1, binds);
    plug(&m, "sdc", 2, "");
    plug(&m, "sdd", 3, binds);
    plug(&m, "sde", 4, "");
    plug(&m, "sdf", 5, binds);
    look_again(&m);
    ["sdb", "sdc", "sdd"].into_iter().for_each(mount);
    // mount(8) was told.
    mount_as("sde", "x-systemd.device-bound");
    mount_as("sdf", "x-systemd.device-bound=no");
    let shown = |letter: &str| {
        let device = m.state(&format!("dev-sd{letter}.device"));
        format!("{} {device}", m.state(&format!("run-sd{letter}.mount")))
    };
    for letter in ["a", "b", "d", "e"] {
        until("the mount needs its device", || {
            (shown(letter) == "active/mounted active/plugged").then_some(())
        });
    }
    ["c", "f"].iter().for_each(|l| m.wait_for(&format!("run-sd{l}.mount"), "active/mounted"));
    // udev changed its mind about one of them.
    plug(&m, "sdd", 3, "");
    look_again(&m);
    m.kill_manager();
    m.wait_until_it_listens();
    ["sda", "sdb", "sdc", "sdd", "sde", "sdf"].into_iter().for_each(|name| unplug(&m, name));
    look_again(&m);
    for letter in ["a", "b", "e"] {
        m.wait_for(&format!("run-sd{letter}.mount"), "inactive/dead");
    }
    for letter in ["c", "d", "f"] {
        assert_eq!(m.state(&format!("run-sd{letter}.mount")), "active/mounted");
    }
}

#[test]
fn units_of_one_device_follow_its_place_in_sysfs() {
    if !lab::has_systemctl("units_of_one_device_follow_its_place_in_sysfs") {
        return;
    }
    let user = "[Unit]\nWants=dev-disk-by\\x2did-sda.device dev-other.device dev-alias.device \
                sys-alias.device relative.device";
    let Some(m) = start("following", &[("user.target", user)]) else { return };
    let alias = "E:SYSTEMD_ALIAS=/dev/alias /sys/alias relative\n";
    plug(&m, "sda", 0, &format!("E:ID_MODEL=Best_Disk\nE:ID_FS_LABEL=data\n{alias}"));
    plug(&m, "sdb", 1, "");
    look_again(&m);
    let (link, main) = ("dev-disk-by\\x2did-sda.device", "sys-devices-block-sda.device");
    let check = |unit: &str, property: &str, expected: &str| {
        let words = ["systemctl", "show", "--value", "-p", property, unit];
        let said = m.run(&words).expect("systemctl answers");
        assert_eq!(said.trim(), expected, "{property} of {unit}");
    };
    begin(&m, "user.target");
    m.wait_for(link, "active/plugged");
    let rows = |more: &[&str]| {
        let words = ["systemctl", "--no-pager", "--plain", "list-units", "-t", "device"];
        m.run(&[&words, more].concat()).expect("systemctl answers")
    };
    // What nobody names is listed; followers are not shown.
    let unnamed = "sys-devices-block-sdb.device";
    for shown in [main, unnamed] {
        let is_row =
            |row: &str| row.split_whitespace().take(4).eq([shown, "loaded", "active", "plugged"]);
        assert!(rows(&[]).lines().any(is_row), "{}", rows(&[]));
    }
    assert!(!rows(&[]).contains(link) && !rows(&[]).contains("dev-sdb.device"), "{}", rows(&[]));
    assert!(rows(&["--all"]).contains(link) && rows(&["--all"]).contains("dev-sdb.device"));
    assert!(rows(&["dev-sdb*", "--all"]).contains("dev-sdb.device "), "{}", rows(&["dev-sdb*"]));
    assert!(!rows(&["dev-sdb*", "--all"]).contains(main) && !rows(&["--failed"]).contains("sdb"));
    // Whoever asks for a unit makes it.
    check(main, "SubState", "plugged");
    check("dev-sdb.device", "Following", unnamed);
    check("dev-sdb.device", "SubState", "plugged");
    check(unnamed, "Description", "/sys/devices/block/sdb");
    for unit in [link, main] {
        check(unit, "Description", "Best_Disk data");
        check(unit, "SysFSPath", "/sys/devices/block/sda");
    }
    for unit in [link, "dev-alias.device", "sys-alias.device"] {
        check(unit, "Following", main);
        check(unit, "SubState", "plugged");
    }
    check("relative.device", "SubState", "dead");
    check(main, "Following", "");
    check("dev-other.device", "Description", "/dev/other");
    let all = rows(&["--all"]);
    let names = all.lines().filter_map(|row| row.split_whitespace().next());
    let dev_sdb = names.filter(|name| *name == "dev-sdb.device").count();
    assert_eq!(dev_sdb, 1, "one that was made is listed once: {all}");
}

const FSTAB: &str = "\
/dev/disk/by-id/sda /mnt/a ext4 x-systemd.device-timeout=7s,nofail 0 0
/dev/disk/by-id/sdb /mnt/b ext4 x-systemd.automount,x-systemd.idle-timeout=1min,noauto 0 0
/dev/disk/by-id/sdc /mnt/c ext4 x-systemd.requires=user.service,x-systemd.after=other.service,\
x-systemd.before=late.service,x-systemd.mount-timeout=9s 0 0
/dev/disk/by-id/sde /mnt/e ext4 x-systemd.required-by=user.service,\
x-systemd.device-bound=no 0 0
/dev/disk/by-id/sdf /mnt/f ext4 _netdev,x-systemd.wanted-by=late.target,x-systemd.rw-only 0 0
";

/// What fstab(5) says of devices, by systemd's own generator.
#[test]
fn fstab_says_how_devices_are_waited_for() {
    const GENERATOR: &str = "/usr/lib/systemd/system-generators/systemd-fstab-generator";
    let programs = ["/usr/bin/systemctl", GENERATOR];
    if !programs.iter().all(|program| std::path::Path::new(program).exists()) {
        return lab::not_run("fstab", "systemctl(1) and systemd-fstab-generator(8)");
    }
    let user = [("user.service", "[Service]\nExecStart=@P stay"), ("late.target", "[Unit]")];
    let Some(m) = start("fstab", &user) else { return };
    let fstab = m.directory.join("fstab");
    fs::write(&fstab, FSTAB).expect("a file can be made");
    let script = format!("SYSTEMD_FSTAB={} exec {GENERATOR} \"$@\"", fstab.display());
    m.write_generator("fstab", &script);
    m.run(&["systemctl", "daemon-reload"]).expect("it reads them");
    let device = |letter: char| format!("dev-disk-by\\x2did-sd{letter}.device");
    let sd = ['a', 'b', 'c', 'e', 'f'].map(device);
    for (unit, property, words) in [
        ("mnt-a.mount", "BindsTo", &*sd[0]),
        (&sd[0], "JobRunningTimeoutUSec", "7s"),
        (&sd[1], "JobRunningTimeoutUSec", "1min 30s"),
        ("mnt-b.automount", "TimeoutIdleUSec", "1min"),
        ("mnt-c.mount", "TimeoutUSec", "9s"),
        ("mnt-c.mount", "Requires", "user.service"),
        ("mnt-c.mount", "After", &format!("user.service other.service {}", sd[2])),
        ("mnt-c.mount", "Before", "late.service local-fs.target"),
        ("user.service", "Requires", "mnt-e.mount"),
        ("mnt-e.mount", "Requires", &*sd[3]),
        ("mnt-f.mount", "Before", "remote-fs.target"),
        ("mnt-f.mount", "WantedBy", "late.target"),
        ("mnt-f.mount", "ReadWriteOnly", "yes"),
        (&sd[4], "After", "network-online.target"),
        (&sd[4], "Wants", "network-online.target"),
    ] {
        let show = ["systemctl", "show", "--value", "-p", property, unit];
        // It quotes what it escapes.
        let said = m.run(&show).expect("systemctl answers").replace('"', "").replace("\\\\", "\\");
        let said: Vec<&str> = said.split_whitespace().collect();
        let missing: Vec<&str> = words.split(' ').filter(|word| !said.contains(word)).collect();
        assert!(missing.is_empty(), "{property} of {unit}: {said:?}, without {missing:?}");
    }
    let before = m.run(&["systemctl", "show", "--value", "-p", "Before", "mnt-a.mount"]);
    assert!(before.is_ok_and(|words| !words.contains("local-fs.target")), "it may fail");
}

/// The daemon's own bar is its first look at everything; each device that was waited for has one.
#[test]
fn the_chart_of_the_boot_shows_what_devices_were_waited_for() {
    let device = "dev-disk-by\\x2did-sda.device";
    let user = format!("[Unit]\nRequires={device}\nAfter={device}\n[Service]\nExecStart=@P stay");
    let target = "[Unit]\nDefaultDependencies=no\nRequires=sysinit.target user.service\n\
                  After=sysinit.target user.service";
    let Some(m) = start("chart", &[("user.service", &*user), ("default.target", target)]) else {
        return;
    };
    plug(&m, "sda", 0, "");
    look_again(&m);
    let boot = until("the boot is kept", || recording(&m, "boot"));
    let analysis = Analysis::of(&boot);
    let holder = |name: &str| {
        let start = bar(&analysis, name, Work::Start).start;
        start.and_then(|start| start.edge).map(|row| analysis.name(row).to_owned())
    };
    bar(&analysis, "warren-deviced.service", Work::Start);
    assert_eq!(holder("user.service").as_deref(), Some(device));
    let names: Vec<&str> = analysis
        .path
        .steps
        .iter()
        .map(|step| analysis.name(analysis.timeline.bars[step.bar as usize].row))
        .collect();
    assert!(names.contains(&device), "the boot was as long as that: {names:?}");
}

#[test]
fn what_went_while_nobody_looked_is_gone() {
    let user = "[Unit]\nBindsTo=dev-disk-by\\x2did-sda.device\n\
                After=dev-disk-by\\x2did-sda.device\n[Service]\nExecStart=/bin/sleep 1000";
    let Some(m) = start("went", &[("user.service", user)]) else { return };
    plug(&m, "sda", 0, "");
    plug(&m, "sdb", 1, "");
    look_again(&m);
    begin(&m, "user.service");
    m.wait_for("user.service", "active/running");
    // Both who know of it are killed; who comes after them has never heard of it.
    unplug(&m, "sda");
    assert!(m.kill_child("warren-deviced"), "it runs");
    m.kill_manager();
    m.wait_until_it_listens();
    m.wait_for("user.service", "inactive/dead");
    m.wait_for("dev-disk-by\\x2did-sda.device", "inactive/dead");
}

#[test]
fn without_a_daemon_devices_are_taken_for_plugged_in() {
    let user = "[Unit]\nBindsTo=dev-sda.device\nAfter=dev-sda.device\n\
                [Service]\nExecStart=/bin/sleep 1000";
    let Some(m) = start("no-devices", &[("user.service", user)]) else { return };
    begin(&m, "user.service");
    assert_eq!(m.state("user.service"), "inactive/dead");
    m.expect_job("stop", "warren-deviced.service", "done");
    m.wait_for("user.service", "active/running");
    assert!(m.console().contains("all devices are assumed to be present"), "{}", m.console());
}

/// Who waits for a job hears that only a person can end the wait; the job stays.
#[test]
fn a_wait_without_a_limit_for_a_device_is_not_waited_for() {
    let device = "dev-disk-by\\x2did-sdz.device";
    let user =
        format!("[Unit]\nAfter={device}\nWants={device}\n[Service]\nExecStart=/bin/sleep 1000");
    let later = "[Unit]\nAfter=user.service\n[Service]\nExecStart=/bin/sleep 1000";
    let patient = "[Unit]\nJobTimeoutSec=infinity\nJobRunningTimeoutSec=infinity";
    let units = [("user.service", &*user), ("later.service", later), (device, patient)];
    let Some(m) = start("devices-vain", &units) else { return };
    begin(&m, "user.service");
    for (unit, error) in [
        ("later.service", "io.warrener.DependencyRefused"),
        ("user.service", "io.warrener.DependencyRefused"),
        (device, "io.warrener.UnitRefused"),
    ] {
        let said = m.try_call("Job", &json!({"type": "start", "unit": unit, "wait": true}));
        let said = said.expect("it is answered");
        assert_eq!(said["error"], error, "{said}");
        assert!(said.to_string().contains("is missing"), "{said}");
    }
    plug(&m, "sdz", 7, "");
    look_again(&m);
    m.wait_for("later.service", "active/running");
}
