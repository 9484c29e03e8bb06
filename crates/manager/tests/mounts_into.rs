//! `systemctl bind` and `systemctl mount-image`: what services see that run already.

mod lab;

use std::path::Path;
use std::process::Command;

use lab::{Machine, until};

const PRIVATE: &str = "[Service]\nPrivateMounts=yes\nExecStart=@P stay\n";
const PLAIN: &str = "[Service]\nExecStart=@P stay\n";

/// What systemctl prints on both streams, and its exit status.
fn systemctl(m: &Machine, arguments: &str) -> String {
    run(m, &format!("systemctl {arguments} 2>&1; echo \"= $?\""))
}

fn run(m: &Machine, line: &str) -> String {
    m.run(&["sh", "-c", line]).expect("sh(1) runs")
}

/// The same where the main process of a unit is.
fn run_in(m: &Machine, unit: &str, line: &str) -> String {
    let pid = m.main_pid(unit).expect("it runs").to_string();
    let line = format!("{line}; true");
    m.run(&["nsenter", "-m", "-t", &pid, "sh", "-c", &line]).expect("sh(1) runs")
}

#[test]
fn a_directory_is_bound_into_a_service_that_runs() {
    let test = "a_directory_is_bound_into_a_service_that_runs";
    let oneshot =
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nPrivateMounts=yes\nExecStart=/bin/true\n";
    let units = [("own.service", PRIVATE), ("plain.service", PLAIN), ("over.service", oneshot)];
    let Some(m) = Machine::start("bind", &units) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    for unit in ["own.service", "plain.service", "over.service"] {
        m.expect_job("start", unit, "done");
    }
    run(
        &m,
        "cd /run; mkdir -p src/sub at; echo here >src/f; mount -t tmpfs none src/sub; touch src/sub/no",
    );
    assert_eq!(systemctl(&m, "bind own /run/src /run/at"), "= 0\n");
    // As with systemd 252, without what is mounted below.
    assert_eq!(
        run_in(&m, "own.service", "cd /run/at; cat f; ls sub; touch new && echo rw"),
        "here\nrw\n"
    );
    assert_eq!(run(&m, "ls /run/at"), "", "the host sees nothing of it");
    assert_eq!(run(&m, "ls /run/src"), "f\nnew\nsub\n");
    assert_eq!(systemctl(&m, "bind --read-only own /run/src /run/at"), "= 0\n");
    let refused = run_in(&m, "own.service", "touch /run/at/more 2>/dev/null || echo ro");
    assert_eq!(refused, "ro\n");
    assert_eq!(systemctl(&m, "bind --mkdir own /run/src/f /run/new/file"), "= 0\n");
    assert_eq!(run_in(&m, "own.service", "cat /run/new/file"), "here\n");
    let refusals = [
        (
            "plain /run/src /run/at",
            "Unit not running in private mount namespace, cannot activate bind mount",
        ),
        ("over /run/src /run/at", "Unit is not running"),
        ("none /run/src /run/at", "Unit none.service not loaded."),
        ("basic.target /run/src /run/at", "Unit is not of type .service"),
        ("own run/src /run/at", "Source path must be absolute and normalized."),
        ("own /run/src/../src /run/at", "Source path must be absolute and normalized."),
        ("own /run/src run/at", "Destination path must be absolute and normalized."),
        (
            "own /run/none /run/at",
            "Failed to mount /run/none on /run/at in unit's namespace: No such file or directory",
        ),
        (
            "own /run/src /run/none",
            "Failed to mount /run/src on /run/none in unit's namespace: No such file or directory",
        ),
        (
            "own /run/src/f /run/at",
            "Failed to mount /run/src/f on /run/at in unit's namespace: Invalid argument",
        ),
    ];
    for (arguments, text) in refusals {
        let expected = format!("Failed to bind mount: {text}\n= 1\n");
        assert_eq!(systemctl(&m, &format!("bind {arguments}")), expected, "{arguments}");
    }
    // The next manager, too, and nothing of it outlasts the process.
    m.kill_manager();
    m.wait_until_it_listens();
    assert_eq!(systemctl(&m, "bind --mkdir own /run/src /run/later"), "= 0\n");
    assert_eq!(run_in(&m, "own.service", "cat /run/at/f /run/later/f"), "here\nhere\n");
    m.expect_job("restart", "own.service", "done");
    assert_eq!(run_in(&m, "own.service", "ls /run/at /run/later | grep -v :"), "\n");
}

/// Where the host's mounts are shared, as they are on every host, a bound directory is no way back to it.
#[test]
fn what_a_service_mounts_on_what_was_bound_is_not_seen_by_the_host() {
    let test = "what_a_service_mounts_on_what_was_bound_is_not_seen_by_the_host";
    let units = [("own.service", PRIVATE)];
    let Some(m) = Machine::start("bind-shared", &units) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    run(
        &m,
        "mkdir -p /run/src /run/at; mount -t tmpfs none /run/src; mount --make-shared /run/src; \
         mkdir /run/src/a /run/src/b",
    );
    m.expect_job("start", "own.service", "done");
    assert_eq!(systemctl(&m, "bind own /run/src /run/at"), "= 0\n");
    run_in(&m, "own.service", "mount -t tmpfs none /run/at/a && touch /run/at/a/theirs");
    assert_eq!(run_in(&m, "own.service", "ls /run/at/a"), "theirs\n");
    assert_eq!(run(&m, "ls /run/src/a"), "");
    run(&m, "mount -t tmpfs none /run/src/b && touch /run/src/b/hosts");
    assert_eq!(run_in(&m, "own.service", "ls /run/at/b"), "hosts\n");
}

/// Links that others than root made lead nowhere, and none leads out of what the service sees.
#[test]
fn a_service_cannot_say_where_the_mount_goes() {
    let test = "a_service_cannot_say_where_the_mount_goes";
    let units = [("own.service", PRIVATE)];
    let Some(m) = Machine::start("bind-links", &units) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    run(
        &m,
        "cd /run; mkdir -p src theirs real/in host; echo here >src/f; chown 4242 theirs; \
         ln -s /run/real theirs/link; chown -h 4242 theirs/link; ln -s /run/real ours; \
         ln -s /proc/1/root/run/host out",
    );
    m.expect_job("start", "own.service", "done");
    let refused = |to: &str| {
        let why = "Too many levels of symbolic links";
        format!(
            "Failed to bind mount: Failed to mount /run/src on {to} in unit's namespace: {why}\n= 1\n"
        )
    };
    for to in ["/run/theirs/link/in", "/run/theirs/link/made", "/run/ours"] {
        assert_eq!(systemctl(&m, &format!("bind --mkdir own /run/src {to}")), refused(to));
    }
    assert_eq!(run(&m, "ls /run/real"), "in\n", "nothing was made behind the link");
    assert_eq!(systemctl(&m, "bind own /run/src /run/ours/in"), "= 0\n");
    assert_eq!(run_in(&m, "own.service", "cat /run/real/in/f"), "here\n");
    assert_eq!(systemctl(&m, "bind --mkdir own /run/src /run/out/at"), "= 0\n");
    assert_eq!(run(&m, "cat /proc/1/root/run/host/at/f 2>&1 | grep -c here; true"), "0\n");
    assert_eq!(run_in(&m, "own.service", "cat /run/host/at/f"), "here\n");
}

#[test]
fn an_image_is_mounted_into_a_service_that_runs() {
    let test = "an_image_is_mounted_into_a_service_that_runs";
    let has_tools = Command::new("mke2fs").arg("-V").output().is_ok();
    if !has_tools || !Path::new("/dev/loop-control").exists() {
        return lab::not_run(test, "mke2fs(8) and loop devices");
    }
    let units = [("own.service", PRIVATE), ("plain.service", PLAIN)];
    let Some(m) = Machine::start("mount-image", &units) else { return };
    if !lab::has_systemctl(test) {
        return;
    }
    for unit in ["own.service", "plain.service"] {
        m.expect_job("start", unit, "done");
    }
    let name = m.directory.file_name().expect("it has a name").to_string_lossy().into_owned();
    run(
        &m,
        &format!(
            "mkdir -p /run/of-{name}/tree /run/at; ln -s /run/of-{name} /run/w; cd /run/w; echo of it >tree/marker; \
             mke2fs -q -t ext4 -d tree it.raw 8M; head -c 300000 /dev/urandom >garbage.raw"
        ),
    );
    assert_eq!(systemctl(&m, "mount-image own /run/w/it.raw /run/at"), "= 0\n");
    assert_eq!(
        run_in(&m, "own.service", "cd /run/at; cat marker; touch new && echo rw"),
        "of it\nrw\n"
    );
    assert_eq!(
        systemctl(&m, "mount-image --mkdir own /run/w/it.raw /run/deep/er root:ro,noatime"),
        "= 0\n"
    );
    let look = "cat /run/deep/er/marker; touch /run/deep/er/x 2>/dev/null || echo ro";
    assert_eq!(run_in(&m, "own.service", look), "of it\nro\n");
    assert_eq!(
        systemctl(&m, "mount-image --read-only --mkdir own /run/w/it.raw /run/third"),
        "= 0\n"
    );
    let look = "cat /run/third/marker; touch /run/third/x 2>/dev/null || echo ro";
    assert_eq!(run_in(&m, "own.service", look), "of it\nro\n");
    let refusals = [
        (
            "plain /run/w/it.raw",
            "Unit not running in private mount namespace, cannot activate bind mount",
        ),
        (
            "own /run/w/none.raw",
            "Failed to mount /run/w/none.raw on /run/at in unit's namespace: \
             No such file or directory (/run/w/none.raw)",
        ),
        (
            "own /run/w/garbage.raw",
            "Failed to mount /run/w/garbage.raw on /run/at in unit's namespace: /run/w/garbage.raw: \
             it has no file system or partition table that Warrener knows",
        ),
    ];
    for (arguments, text) in refusals {
        let expected = format!("Failed to mount image: {text}\n= 1\n");
        assert_eq!(systemctl(&m, &format!("mount-image {arguments} /run/at")), expected);
    }
    m.expect_job("stop", "own.service", "done");
    let loops = || {
        let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let file = |device: std::fs::DirEntry| {
            std::fs::read_to_string(device.path().join("loop/backing_file")).ok()
        };
        devices.filter_map(file).filter(|path| path.contains(&format!("of-{name}"))).count()
    };
    until("no loop device is left", || (loops() == 0).then_some(()));
}
