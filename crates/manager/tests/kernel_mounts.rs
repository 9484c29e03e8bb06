//! Mounts that no file is for are units like others: seen, ordered, and unmounted at the end as
//! soon as nobody needs them.

mod lab;

use std::os::unix::fs::MetadataExt;
use warren_sys::signal::{SIGCONT, SIGSTOP};

use lab::recordings::{bar, recording};
use lab::{Machine, until};
use serde_json::json;
use warren_trace::analysis::Analysis;
use warren_trace::words::Work;

/// Lets mount(8) inside know file systems whose mounting is a shell script; false where that cannot be.
fn has_helper(m: &Machine, file_system: &str, script: &str) -> bool {
    let directory = m.directory.join("helpers");
    std::fs::create_dir(&directory).expect("a directory can be made");
    let path = directory.join(format!("mount.{file_system}"));
    let script = script.replace("@D", &m.directory.to_string_lossy());
    lab::install_script(&path, &script);
    let lower = format!("lowerdir={}:/usr/sbin", directory.display());
    let done = m.run(&["mount", "-t", "overlay", "-o", &lower, "none", "/usr/sbin"]);
    if done.is_err() {
        lab::not_run("mount helpers", &format!("overlayfs: {done:?}"));
    }
    done.is_ok()
}

/// How many processes run the helper.
fn helpers_running(m: &Machine, file_system: &str) -> usize {
    let found = m.run(&["pgrep", "-f", &format!("^/bin/sh /sbin/mount.{file_system}")]);
    found.map_or(0, |pids| pids.lines().count())
}

/// Mounts a tmpfs inside.
fn mount(m: &Machine, path: &str) {
    m.run(&["mkdir", "-p", path]).expect("a directory");
    m.run(&["mount", "-t", "tmpfs", "by-hand", path]).expect("it can be mounted");
}

fn show(m: &Machine, unit: &str, property: &str) -> String {
    let all = ["systemctl", "show", "--value", "-p", property, unit];
    m.run(&all).map_or_else(|error| error, |text| text.trim().to_owned())
}

fn end(m: &mut Machine) -> (String, warren_trace::record::Recording) {
    m.leave("poweroff");
    let console = m.wait_for_end();
    let shutdown = recording(m, "shutdown").unwrap_or_else(|| panic!("no recording: {console}"));
    (console, shutdown)
}

#[test]
fn what_is_mounted_by_hand_is_a_unit_until_it_is_gone() {
    if !lab::has_systemctl("what_is_mounted_by_hand_is_a_unit_until_it_is_gone") {
        return;
    }
    let user = "[Unit]\nRequiresMountsFor=/run/data/below\n[Service]\nExecStart=@P stay";
    let Some(m) = Machine::start("by-hand", &[("user.service", user)]) else { return };
    mount(&m, "/run/data");
    m.wait_for("run-data.mount", "active/mounted");
    for (property, value) in [
        ("FragmentPath", ""),
        ("SourcePath", "/proc/self/mountinfo"),
        ("What", "by-hand"),
        ("Where", "/run/data"),
        ("Type", "tmpfs"),
        ("LoadState", "loaded"),
        ("Conflicts", "umount.target"),
        ("UnitFileState", ""),
    ] {
        assert_eq!(show(&m, "run-data.mount", property), value, "{property}");
    }
    let before = show(&m, "run-data.mount", "Before");
    assert!(before.contains("umount.target") && before.contains("user.service"), "{before}");
    let listed = m.run(&["systemctl", "--no-pager", "list-units", "-t", "mount"]);
    assert!(listed.as_ref().is_ok_and(|text| text.contains("run-data.mount")), "{listed:?}");

    mount(&m, "/run/other");
    m.wait_for("run-other.mount", "active/mounted");
    m.kill_manager();
    m.run(&["umount", "/run/other"]).expect("nobody uses it");
    m.wait_for("run-data.mount", "active/mounted");
    until("what went meanwhile is not a unit", || {
        (show(&m, "run-other.mount", "LoadState") == "not-found").then_some(())
    });
    assert_eq!(show(&m, "run-data.mount", "SourcePath"), "/proc/self/mountinfo");

    // A file that comes is stronger, and when it goes the kernel's word counts again.
    m.write("run-data.mount", "[Unit]\nDescription=By a file\n[Mount]\nWhat=x\nType=tmpfs");
    m.call("ReloadConfiguration", &json!({}));
    assert_eq!(show(&m, "run-data.mount", "Description"), "By a file");
    std::fs::remove_file(m.directory.join("units/run-data.mount")).expect("it is there");
    m.call("ReloadConfiguration", &json!({}));
    until("the kernel's word counts", || {
        (show(&m, "run-data.mount", "SourcePath") == "/proc/self/mountinfo").then_some(())
    });

    m.run(&["umount", "/run/data"]).expect("nobody uses it");
    until("it is not a unit any more", || {
        (show(&m, "run-data.mount", "LoadState") == "not-found").then_some(())
    });
    assert_eq!(m.state("run-data.mount"), "inactive/dead");
}

#[test]
fn a_mount_that_was_moved_or_followed_by_another_is_no_longer_where_it_was() {
    let Some(m) = Machine::start("moved", &[]) else { return };
    mount(&m, "/run/a");
    m.wait_for("run-a.mount", "active/mounted");
    m.run(&["mkdir", "/run/b", "/run/c"]).expect("directories");
    m.run(&["mount", "--move", "/run/a", "/run/b"]).expect("it can be moved");
    m.wait_for("run-b.mount", "active/mounted");
    m.wait_for("run-a.mount", "inactive/dead");
    // The kernel may give the second the number of the first, before anybody has looked.
    let both = "umount /run/b && mount -t tmpfs by-hand /run/c";
    m.run(&["sh", "-c", both]).expect("nobody uses it");
    m.wait_for("run-c.mount", "active/mounted");
    m.wait_for("run-b.mount", "inactive/dead");
}

#[test]
fn mounts_go_by_tree_as_soon_as_their_last_user_is_down() {
    let user = "[Unit]\nRequiresMountsFor=/run/data/a/deep\n[Service]\nExecStart=@P stay\n\
                ExecStop=@P wait:100";
    let slow = "[Service]\nExecStart=@P stay\nExecStop=@P wait:2000";
    let units = [("user.service", user), ("slow.service", slow)];
    let Some(mut m) = Machine::start("tree", &units) else { return };
    for path in ["/run/data", "/run/data/a", "/run/data/a/deep", "/run/data/b"] {
        mount(&m, path);
    }
    for unit in ["run-data-a-deep.mount", "run-data-b.mount"] {
        m.wait_for(unit, "active/mounted");
    }
    m.expect_job("start", "user.service", "done");
    m.expect_job("start", "slow.service", "done");
    let (console, recording) = end(&mut m);
    let analysis = Analysis::of(&recording);
    let stop = |unit: &str| bar(&analysis, unit, Work::Stop);
    let began = |unit: &str| stop(unit).start.expect("it ran").at;
    let ended = |unit: &str| stop(unit).end.unwrap_or_else(|| panic!("{unit}: {console}")).at;
    for (first, then) in [
        ("user.service", "run-data-a-deep.mount"),
        ("run-data-a-deep.mount", "run-data-a.mount"),
        ("run-data-a.mount", "run-data.mount"),
        ("run-data-b.mount", "run-data.mount"),
        ("run-data.mount", "slow.service"),
    ] {
        assert!(ended(first) <= ended(then), "{first} before {then}: {console}");
    }
    assert!(began("run-data-b.mount") < ended("user.service"), "it is in nobody's use");
    // What was mounted before the machine is not its own.
    let mounts = analysis.timeline.bars.iter().map(|bar| analysis.name(bar.row));
    let others = mounts.filter(|n| n.ends_with(".mount") && !n.starts_with("run-data"));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0], "{console}");
}

#[test]
fn who_keeps_a_mount_busy_is_named() {
    let user = "[Unit]\nDefaultDependencies=no\n[Service]\nWorkingDirectory=/run/data\n\
                KillMode=none\nExecStart=@P stay";
    let Some(mut m) = Machine::start("busy", &[("user.service", user)]) else { return };
    mount(&m, "/run/data");
    m.wait_for("run-data.mount", "active/mounted");
    m.expect_job("start", "user.service", "done");
    let (console, _) = end(&mut m);
    let line = console.lines().find(|line| line.contains("run-data.mount: WR-"));
    let line = line.unwrap_or_else(|| panic!("it is told: {console}"));
    assert!(line.contains("in use by player (pid ") && line.contains(", cwd)"), "{line}");
    assert!(console.contains("The system is down."), "{console}");
}

/// What mount(8) mounts gets its directory too (systemd.mount(5), `DirectoryMode=`), and is not mounted
/// over what a link in the path leads to.
#[test]
fn programs_that_mount_are_given_a_directory_and_no_link() {
    let made =
        "[Mount]\nWhat=/dev/no-such-disk\nWhere=/run/made/deep\nType=ext4\nDirectoryMode=0750";
    let linked = "[Mount]\nWhat=/dev/no-such-disk\nWhere=/run/link\nType=ext4";
    let units = [("run-made-deep.mount", made), ("run-link.mount", linked)];
    let Some(m) = Machine::start("mount-points", &units) else { return };
    m.expect_job("start", "run-made-deep.mount", "failed");
    let mode = std::fs::metadata(m.inside("/run/made/deep")).map(|made| made.mode() & 0o7777);
    assert_eq!(mode.ok(), Some(0o750));

    std::os::unix::fs::symlink("/etc", m.inside("/run/link")).expect("a link");
    m.expect_job("start", "run-link.mount", "failed");
    let said = std::fs::read_to_string(m.inside("/run/log/warren/units/run-link.mount.log"));
    let wanted = "/run/link: there is a symbolic link in the path";
    assert!(said.as_ref().is_ok_and(|said| said.contains(wanted)), "{said:?}\n{}", m.console());
}

/// A reload changes the options of a bind mount, and what a file is bound to is a file (systemd.mount(5)).
#[test]
fn a_bind_mount_is_reloaded_as_it_is_and_a_file_is_bound_to_a_file() {
    let tree = |options: &str| {
        format!("[Mount]\nWhat=/run/from\nWhere=/run/to\nType=none\nOptions={options}")
    };
    let of_file =
        |at: &str| format!("[Mount]\nWhat=/run/from/file\nWhere=/run/{at}/deep/file\nOptions=bind");
    let sloppy = of_file("told") + "\nSloppyOptions=yes";
    let units = [
        ("run-to.mount", tree("bind")),
        ("run-own-deep-file.mount", of_file("own")),
        // By mount(8).
        ("run-told-deep-file.mount", sloppy),
    ];
    let units = units.each_ref().map(|(name, text)| (*name, &**text));
    let Some(m) = Machine::start("bind", &units) else { return };
    std::fs::create_dir(m.inside("/run/from")).expect("a directory");
    std::fs::write(m.inside("/run/from/file"), "bound").expect("a file");
    m.expect_job("start", "run-to.mount", "done");
    std::fs::write(m.inside("/run/to/new"), "").expect("it is writable");
    m.write("run-to.mount", &tree("bind,ro"));
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("reload", "run-to.mount", "done");
    let table = m.run(&["cat", "/proc/mounts"]).expect("a table");
    assert_eq!(table.matches(" /run/to ").count(), 1, "{table}");
    let refused = std::fs::write(m.inside("/run/to/new"), "").map_err(|e| e.kind());
    assert_eq!(refused, Err(std::io::ErrorKind::ReadOnlyFilesystem));
    for at in ["own", "told"] {
        m.expect_job("start", &format!("run-{at}-deep-file.mount"), "done");
        let text = std::fs::read_to_string(m.inside(&format!("/run/{at}/deep/file")));
        assert_eq!(text.ok().as_deref(), Some("bound"), "{at}");
    }
}

/// More than are unmounted by one stop.
#[test]
fn what_is_left_of_a_tall_stack_of_mounts_is_told_and_goes_with_the_next_stop() {
    let unit = "[Mount]\nWhat=tmpfs\nWhere=/run/data\nType=tmpfs";
    let Some(m) = Machine::start("stack", &[("run-data.mount", unit)]) else { return };
    m.expect_job("start", "run-data.mount", "done");
    for _ in 0..33 {
        mount(&m, "/run/data");
    }
    m.expect_job("stop", "run-data.mount", "failed");
    let said = m.status("run-data.mount").to_string();
    assert!(said.contains("/run/data: more than 32 mounts"), "{said}");
    m.expect_job("stop", "run-data.mount", "done");
    m.wait_for("run-data.mount", "inactive/dead");
}

#[test]
fn a_mount_that_nobody_uses_goes_though_others_come_and_go() {
    let mount = |at: &str| {
        format!("[Unit]\nStartLimitIntervalSec=0\n[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/{at}")
    };
    let trap = |at: &str, idle: &str| format!("[Automount]\nWhere=/run/{at}{idle}");
    let idle = "\nTimeoutIdleSec=1";
    let units = [
        ("run-told.mount", mount("told")),
        ("run-told.automount", trap("told", idle)),
        ("run-late.mount", mount("late")),
        ("run-late.automount", trap("late", "")),
        ("run-busy.mount", mount("busy")),
        ("run-busy.automount", trap("busy", idle)),
    ];
    let units = units.each_ref().map(|(name, text)| (*name, &**text));
    let Some(m) = Machine::start("idle", &units) else { return };
    for at in ["told", "late", "busy"] {
        m.expect_job("start", &format!("run-{at}.automount"), "done");
    }
    let enter = |at: &str| m.run(&["ls", &format!("/run/{at}")]).expect("it is mounted");
    let goes = |at: &str| {
        enter(at);
        let unit = format!("run-{at}.mount");
        m.wait_for(&unit, "active/mounted");
        until(&format!("{unit} goes"), || {
            enter("busy");
            m.expect_job("stop", "run-busy.mount", "done");
            (m.state(&unit) == "inactive/dead").then_some(())
        });
        m.wait_for(&format!("run-{at}.automount"), "active/waiting");
    };
    goes("told");
    // A point that was set without a time gets it from the manager that takes it up.
    m.write("run-late.automount", &trap("late", idle));
    m.call("ReloadConfiguration", &json!({}));
    assert!(m.kill_manager());
    m.wait_until_it_listens();
    goes("late");
    enter("late");
}

/// Whatever else is mounted, as at a path that is no text.
#[test]
fn automount_points_outlast_a_manager_and_one_that_is_taken_away_meanwhile_is_told() {
    let mount = |at: &str| format!("[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/{at}");
    let trap = |at: &str| format!("[Automount]\nWhere=/run/{at}");
    let units = [
        ("run-stays.mount", mount("stays")),
        ("run-stays.automount", trap("stays")),
        ("run-goes.mount", mount("goes")),
        ("run-goes.automount", trap("goes")),
    ];
    let units = units.each_ref().map(|(name, text)| (*name, &**text));
    let Some(m) = Machine::start("outlast", &units) else { return };
    for at in ["stays", "goes"] {
        m.expect_job("start", &format!("run-{at}.automount"), "done");
    }
    let other = "d=/run/$(printf '\\377') && mkdir $d && mount -t tmpfs none $d";
    m.run(&["sh", "-c", other]).expect("it is mounted");
    let manager = m.manager_pid().and_then(lab::pid_inside).expect("it runs").to_string();
    m.stop_server(&manager);
    m.run(&["umount", "-c", "-l", "/run/goes"]).expect("it is taken away");
    assert!(m.kill_manager());
    m.wait_for("run-goes.automount", "failed/failed");
    assert_eq!(m.status("run-goes.automount")["result"], "unmounted");
    m.run(&["ls", "/run/stays"]).expect("it is mounted");
    m.wait_for("run-stays.mount", "active/mounted");
    m.expect_job("stop", "run-stays.automount", "done");
    until("the point is away", || {
        let points = m.run(&["grep", "-c", " /run/stays .* autofs ", "/proc/self/mountinfo"]);
        points.is_err().then_some(())
    });
}

/// It would be writable, and nobody would say so.
#[test]
fn a_bind_mount_over_which_the_manager_was_killed_has_its_options() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("bound", "/dev/fuse");
    }
    let bound = "[Mount]\nWhat=/run/files/d0\nWhere=/run/bound\nOptions=bind,ro";
    let server = "[Service]\nType=notify\nExecStart=@P files:/run/files";
    let units = [("server.service", server), ("run-bound.mount", bound)];
    let Some(m) = Machine::start("bound", &units) else { return };
    m.expect_job("start", "server.service", "done");
    let server = m.main_pid("server.service").expect("it runs").to_string();
    m.stop_server(&server);
    m.call("Job", &json!({"type": "start", "unit": "run-bound.mount", "wait": false}));
    m.wait_for("run-bound.mount", "activating/mounting");
    let tell_init = |signal| warren_sys::process::kill(m.init_pid, signal).expect("it is ours");
    tell_init(SIGSTOP);
    assert!(m.kill_manager());
    // As far as it would have come.
    let begun = "mkdir /run/bound && mount -t tmpfs none /run/bound";
    m.run(&["sh", "-c", begun]).expect("it is mounted");
    m.run(&["kill", "-CONT", &server]).expect("it is there");
    tell_init(SIGCONT);
    m.wait_for("run-bound.mount", "active/mounted");
    let lines = m.run(&["grep", " /run/bound ", "/proc/self/mountinfo"]).expect("it is mounted");
    assert!(lines.lines().count() == 1 && lines.contains(" /run/bound ro,"), "{lines}");
}

#[test]
fn a_mount_that_takes_too_long_or_is_not_wanted_any_more_leaves_no_process() {
    let text = |seconds| {
        format!("[Mount]\nWhat=none\nType=hang\nTimeoutSec={seconds}\nWhere=/run/hang{seconds}")
    };
    let (short, long) = (text(1), text(600));
    let units = [("run-hang1.mount", &*short), ("run-hang600.mount", &*long)];
    let Some(m) = Machine::start("hanging-mount", &units) else { return };
    // The first is deaf.
    let script = "case $2 in */hang1) trap : TERM;; esac\necho $2 >>@D/out/begun\nwhile :; do sleep 600; done";
    if !has_helper(&m, "hang", script) {
        return;
    }
    m.expect_job("start", "run-hang1.mount", "failed");
    m.wait_for("run-hang1.mount", "failed/failed");
    assert_eq!(m.status("run-hang1.mount")["result"], "timeout");
    assert_eq!(m.lines("begun"), ["/run/hang1"]);
    until("its helper is gone", || (helpers_running(&m, "hang") == 0).then_some(()));

    m.call("Job", &json!({"type": "start", "unit": "run-hang600.mount", "wait": false}));
    until("it mounts", || m.lines("begun").contains(&"/run/hang600".to_owned()).then_some(()));
    assert!(m.kill_manager());
    assert_eq!(m.state("run-hang600.mount"), "activating/mounting");
    m.expect_job("stop", "run-hang600.mount", "done");
    assert_eq!(m.lines("begun"), ["/run/hang1", "/run/hang600"], "mounted once each");
    assert_eq!(m.state("run-hang600.mount"), "inactive/dead");
    until("its helper is gone", || (helpers_running(&m, "hang") == 0).then_some(()));
}

#[test]
fn a_mount_that_its_helper_only_claims_fails() {
    let mount = "[Mount]\nWhat=x\nType=claims\nWhere=/run/claimed";
    let user = "[Unit]\nRequiresMountsFor=/run/claimed\n[Service]\nExecStart=@P stay";
    let units = [("run-claimed.mount", mount), ("user.service", user)];
    let Some(m) = Machine::start("claims", &units) else { return };
    if !has_helper(&m, "claims", "exit 0") {
        return;
    }
    m.expect_job("start", "user.service", "dependency");
    m.wait_for("run-claimed.mount", "failed/failed");
    let text = m.status("run-claimed.mount")["status_text"].to_string();
    assert!(text.contains("nothing is mounted there"), "{text}");
}

/// Of processes in a namespace of their own some see another file system at that path.
#[test]
fn who_uses_a_busy_mount_is_named_and_nobody_else() {
    let script = "umount /run/busy; mkdir -p /run/busy/own; mount -t tmpfs x /run/busy/own; cd /run/busy/own; \
                  mkfifo @D/out/ready; exec sleep 10000";
    let elsewhere = format!(
        "[Unit]\nAfter=run-busy.mount\n[Service]\nExecStart=unshare -m --propagation private sh -c '{script}'"
    );
    let holder = "[Service]\nExecStart=/bin/sh -c 'exec 9</run/busy/file; mkfifo @D/out/held; exec sleep 10000'";
    let mount = "[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/busy";
    let units =
        [("run-busy.mount", mount), ("elsewhere.service", &*elsewhere), ("holder.service", holder)];
    let Some(m) = Machine::start("users", &units) else { return };
    m.expect_job("start", "run-busy.mount", "done");
    let by_hand =
        "echo x > /run/busy/file; mkdir /run/busy/below; mount -t tmpfs y /run/busy/below";
    m.run(&["sh", "-c", by_hand]).expect("a mount by hand");
    for (unit, ready) in [("elsewhere.service", "ready"), ("holder.service", "held")] {
        m.expect_job("start", unit, "done");
        until("it is there", || m.out(ready).exists().then_some(()));
    }
    let pid = m.main_pid("holder.service").expect("it runs");
    let said = m.run(&["umount", "/run/busy"]);
    assert!(said.is_err(), "it is busy");
    let mode = json!({"type": "stop", "unit": "run-busy.mount", "mode": "ignore-dependencies"});
    m.call("Job", &mode);
    let text = m.status("run-busy.mount")["status_text"].as_str().unwrap_or_default().to_owned();
    let named =
        format!("sleep (pid {pid}, holder.service, file /run/busy/file), mount /run/busy/below");
    assert!(text.ends_with(&format!("in use by {named}")), "{text}");
}

/// The lines of the kernel's table with a mount at this path.
fn lines_of(m: &Machine, path: &str) -> Vec<String> {
    let table = m.run(&["cat", "/proc/self/mountinfo"]).expect("procfs");
    let is_there = |line: &&str| line.split(' ').nth(4) == Some(path);
    table.lines().filter(is_there).map(str::to_owned).collect()
}

/// The kernel's table does not have all that it would take, as the size of a tmpfs, or with what words it was said.
#[test]
fn what_no_file_is_for_is_shown_with_its_options_and_not_mounted_again() {
    let Some(m) = Machine::start("no-file", &[]) else { return };
    let mount = "mkdir /run/x && mount -t tmpfs -o ro,nosuid,noexec,size=64k by-hand /run/x";
    m.run(&["sh", "-c", mount]).expect("it can be mounted");
    m.wait_for("run-x.mount", "active/mounted");
    let before = lines_of(&m, "/run/x");
    if lab::has_systemctl("what_no_file_is_for_is_shown_with_its_options") {
        let options = show(&m, "run-x.mount", "Options");
        assert!(options.starts_with("ro,nosuid,noexec,relatime,size=64k"), "{options}");
    }
    m.expect_job("reload", "run-x.mount", "failed");
    assert_eq!((m.state("run-x.mount"), lines_of(&m, "/run/x")), ("active/mounted".into(), before));
    m.expect_job("restart", "run-x.mount", "failed");
    assert_eq!(lines_of(&m, "/run/x"), [""; 0]);
}

#[test]
fn what_is_mounted_below_a_mount_that_is_moved_or_a_directory_that_is_renamed_goes_with_it() {
    let text = "[Mount]\nWhat=x\nType=tmpfs\nWhere=/run/par/um";
    let Some(m) = Machine::start("moved-trees", &[("run-par-um.mount", text)]) else { return };
    for path in ["/run/a", "/run/a/c", "/run/a/c/d"] {
        mount(&m, path);
    }
    m.wait_for("run-a-c-d.mount", "active/mounted");
    m.run(&["sh", "-c", "mkdir /run/b && mount --move /run/a /run/b"]).expect("it is moved");
    for unit in ["run-b.mount", "run-b-c.mount", "run-b-c-d.mount"] {
        m.wait_for(unit, "active/mounted");
    }
    for unit in ["run-a.mount", "run-a-c.mount", "run-a-c-d.mount"] {
        m.wait_for(unit, "inactive/dead");
    }
    // The kernel tells nobody of a rename.
    for _ in 0..2 {
        m.expect_job("start", "run-par-um.mount", "done");
        assert_eq!(lines_of(&m, "/run/par/um").len(), 1);
    }
    m.run(&["mv", "/run/par", "/run/other"]).expect("it is renamed");
    m.expect_job("start", "run-par-um.mount", "done");
    assert_eq!(lines_of(&m, "/run/par/um").len(), 1);
    m.wait_for("run-other-um.mount", "active/mounted");
    m.expect_job("stop", "run-par-um.mount", "done");
    m.wait_for("run-par-um.mount", "inactive/dead");
    m.wait_for("run-other-um.mount", "active/mounted");
}

/// umount(8) takes off one of them.
#[test]
fn a_stop_unmounts_all_that_lies_on_one_another() {
    let lower = "lowerdir=/usr/share:/usr/lib";
    let text = format!("[Mount]\nWhat=x\nType=overlay\nOptions={lower}\nWhere=/run/stack");
    let Some(m) = Machine::start("stacked", &[("run-stack.mount", &text)]) else { return };
    m.expect_job("start", "run-stack.mount", "done");
    let more = format!("for i in 1 2; do mount -t overlay -o {lower} x /run/stack; done");
    m.run(&["sh", "-c", &more]).expect("mounted");
    assert_eq!(lines_of(&m, "/run/stack").len(), 3);
    m.expect_job("restart", "run-stack.mount", "done");
    assert_eq!(lines_of(&m, "/run/stack").len(), 1);
    m.run(&["sh", "-c", &more]).expect("mounted");
    m.expect_job("stop", "run-stack.mount", "done");
    assert_eq!(lines_of(&m, "/run/stack"), [""; 0]);
    assert_eq!(m.state("run-stack.mount"), "inactive/dead");
}

/// The kernel's table would have it elsewhere, and nobody could take it up.
#[test]
fn no_automount_point_lies_behind_a_link_and_one_of_nobody_holds_up_nobody() {
    let mount = |at: &str| format!("[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/{at}/x");
    let trap = |at: &str| format!("[Automount]\nWhere=/run/{at}/x");
    let units = [
        ("run-link-x.mount", mount("link")),
        ("run-link-x.automount", trap("link")),
        ("run-before-x.mount", mount("before")),
        ("run-before-x.automount", trap("before")),
    ];
    let units = units.each_ref().map(|(name, text)| (*name, &**text));
    let Some(m) = Machine::start("unclaimed", &units) else { return };
    std::os::unix::fs::symlink("real", m.inside("/run/link")).expect("a link");
    m.run(&["mkdir", "/run/real"]).expect("a directory");
    m.expect_job("start", "run-link-x.automount", "failed");
    let said = m.status("run-link-x.automount").to_string();
    assert!(said.contains("there is a symbolic link in the path"), "{said}");
    assert_eq!(lines_of(&m, "/run/real/x"), [""; 0]);

    m.expect_job("start", "run-before-x.automount", "done");
    m.run(&["mv", "/run/before", "/run/after"]).expect("it is renamed");
    assert_eq!(lines_of(&m, "/run/after/x").len(), 1);
    assert!(m.kill_manager());
    m.wait_for("run-before-x.automount", "failed/failed");
    until("it is away", || lines_of(&m, "/run/after/x").is_empty().then_some(()));
    m.run(&["ls", "/run/after/x/."]).expect("it is a directory");
}

/// What mounts may have more to do when the kernel's table has the mount.
#[test]
fn a_manager_that_comes_back_waits_for_what_still_mounts() {
    let text = "[Mount]\nWhat=none\nType=slow\nWhere=/run/slow";
    let Some(m) = Machine::start("still-mounts", &[("run-slow.mount", text)]) else { return };
    let script = "mount -i -t tmpfs none $2\nuntil [ -e @D/out/go ]; do sleep 0.1; done\n\
                  echo done >@D/out/ended";
    if !has_helper(&m, "slow", script) {
        return;
    }
    m.call("Job", &json!({"type": "start", "unit": "run-slow.mount", "wait": false}));
    until("it is mounted", || (!lines_of(&m, "/run/slow").is_empty()).then_some(()));
    assert!(m.kill_manager());
    assert_eq!(m.state("run-slow.mount"), "activating/mounting");
    std::fs::write(m.out("go"), "").expect("a file");
    m.wait_for("run-slow.mount", "active/mounted");
    assert_eq!(m.lines("ended"), ["done"]);
}

/// The kernel knows numbers alone, and nothing of `iversion` where it means nothing.
#[test]
fn users_of_options_are_given_by_name() {
    let text = "[Mount]\nWhat=x\nType=tmpfs\nWhere=/run/named\nOptions=uid=daemon,gid=daemon";
    let counts = "[Mount]\nWhat=x\nType=tmpfs\nWhere=/run/counts\nOptions=iversion,size=64k";
    let units = [("run-named.mount", text), ("run-counts.mount", counts)];
    let Some(m) = Machine::start("named-users", &units) else { return };
    for unit in ["run-named.mount", "run-counts.mount"] {
        m.expect_job("start", unit, "done");
    }
    let line = lines_of(&m, "/run/named").concat();
    assert!(line.contains("uid=") && line.contains("gid="), "{line}");
    m.expect_job("stop", "run-named.mount", "done");
}
