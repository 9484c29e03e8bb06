//! Reloads: what changed is told and in force, what did not stays as it was.

mod lab;

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use lab::Machine;
use serde_json::{Value, json};

fn reload(m: &Machine, parameters: &Value) -> Value {
    m.call("ReloadConfiguration", parameters)
}

fn names(report: &Value, key: &str) -> Vec<String> {
    let list = report[key].as_array().into_iter().flatten();
    list.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// What changes in the tick of the clock in which it is read may have changed after that.
fn let_time_pass_after(edited: &Path) {
    let edited = std::fs::metadata(edited).expect("it is there");
    let edited_ns = edited.ctime() * 1_000_000_000 + edited.ctime_nsec();
    let is_later = || warren_sys::time::coarse_ns() > edited_ns.cast_unsigned();
    lab::until("the clock of files goes on", || is_later().then_some(()));
}

#[test]
fn a_command_that_was_edited_has_no_result_and_the_others_keep_theirs() {
    if !lab::has_systemctl("a_command_that_was_edited_has_no_result") {
        return;
    }
    let with_main =
        |main: &str| format!("[Service]\nType=oneshot\nExecStartPre=/bin/true\nExecStart={main}\n");
    let Some(m) = Machine::start("edited-command", &[("e.service", &with_main("/bin/false"))])
    else {
        return;
    };
    let has_ended = |setting: &str| {
        let said = || m.run(&["systemctl", "show", "-p", setting, "e"]).ok();
        lab::until("a manager answers", said).contains("code=exited")
    };
    m.expect_job("start", "e.service", "failed");
    m.wait_for("e.service", "failed/failed");
    assert!(has_ended("ExecStartPre") && has_ended("ExecStart"));
    let file = m.directory.join("units/e.service");
    std::fs::write(file, with_main("/bin/true")).expect("a file");
    reload(&m, &json!({}));
    assert!(has_ended("ExecStartPre") && !has_ended("ExecStart"));
    assert!(m.kill_manager());
    assert!(has_ended("ExecStartPre") && !has_ended("ExecStart"));
}

/// As `/etc/fstab` is for the units of its lines.
#[test]
fn a_unit_whose_source_was_edited_says_so_until_a_reload() {
    let unit = "[Unit]\nSourcePath=/run/source-of-%n\n[Service]\nExecStart=@P stay";
    let units = [("a.service", unit), ("b.service", unit)];
    let Some(m) = Machine::start("source", &units) else { return };
    let source = "/run/source-of-a.service";
    let check = |expected: &[&str]| {
        let differs = |unit: &&str| m.status(unit)["differs_on_disk"] == true;
        let all = ["a.service", "b.service"].into_iter();
        assert_eq!(all.filter(differs).collect::<Vec<_>>(), expected);
    };
    m.run(&["touch", source]).expect("a file");
    let_time_pass_after(&m.inside(source));
    // The other one's is never there.
    check(&["a.service", "b.service"]);
    reload(&m, &json!({"dry_run": true}));
    check(&["a.service", "b.service"]);
    // A manager that comes back has not read it, and knows that once it has looked at all files.
    let knows = || m.status("b.service")["differs_on_disk"] == true;
    assert!(m.kill_manager());
    lab::until("the manager has looked", || knows().then_some(()));
    check(&["a.service", "b.service"]);
    reload(&m, &json!({}));
    check(&["b.service"]);
    assert!(m.kill_manager());
    lab::until("the manager has looked", || knows().then_some(()));
    check(&["b.service"]);
    m.run(&["rm", source]).expect("it is there");
    check(&["a.service", "b.service"]);
}

/// What is written down of a generation has a shared file once for each time that units came to be.
#[test]
fn instances_that_came_one_after_the_other_are_as_their_files_after_a_crash() {
    let Some(m) = Machine::start("shared-file", &[("d@.service", "[Service]\nExecStart=@P stay")])
    else {
        return;
    };
    let instances = ["d@1.service", "d@2.service", "d@3.service"];
    instances.iter().for_each(|unit| m.expect_job("start", unit, "done"));
    assert!(m.kill_manager());
    check(&reload(&m, &json!({"dry_run": true})), [&[], &[], &[], &[]]);
    for unit in instances {
        assert_eq!(m.status(unit)["differs_on_disk"], false, "{unit}");
    }
}

#[test]
fn what_runs_of_a_name_is_stopped_by_it_though_it_leads_to_a_file_that_is_of_no_use() {
    let units = [
        ("a.service", "[Service]\nExecStart=@P stay"),
        ("bad.service", "[Service]\nType=oneshot\nRestart=always\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("bad-name", &units) else { return };
    m.expect_job("start", "a.service", "done");
    let file = m.directory.join("units/a.service");
    std::fs::remove_file(&file).expect("it is there");
    symlink("bad.service", file).expect("a link");
    reload(&m, &json!({}));
    assert_eq!(m.players().len(), 1);
    m.expect_job("stop", "a.service", "done");
    lab::until("it is stopped", || m.players().is_empty().then_some(()));
}

#[test]
fn a_slice_that_went_down_before_a_unit_in_it_leaves_no_group() {
    let in_slice = |slice: &str| format!("[Service]\nSlice={slice}.slice\nExecStart=@P stay");
    let Some(m) = Machine::start("left-slice", &[("a.service", &in_slice("x-y"))]) else { return };
    m.expect_job("start", "a.service", "done");
    m.write("a.service", &in_slice("z"));
    reload(&m, &json!({}));
    m.expect_job("stop", "x.slice", "done");
    assert!(m.groups().contains_key("/x.slice/x-y.slice/a.service"), "it stays where it is");
    m.expect_job("stop", "a.service", "done");
    let slices = || m.groups().into_keys().any(|path| path.starts_with("/x.slice"));
    lab::until("its slices are gone", || (!slices()).then_some(()));
}

/// What a report says: added, changed, removed, to be restarted.
#[track_caller]
fn check(report: &Value, expected: [&[&str]; 4]) {
    let keys = ["added", "changed", "removed", "needs_restart"];
    let seen = keys.map(|key| names(report, key));
    assert_eq!(seen, expected.map(|names| names.to_vec()), "{report}");
}

#[test]
fn what_follows_a_reload_by_itself_needs_no_restart() {
    let unit =
        |unit: &str, more: &str| format!("[Unit]\n{unit}\n[Service]\nExecStart=@P stay\n{more}");
    let units = [("a.service", unit("", "")), ("b.slice", "[Slice]\n".to_owned())];
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (*name, &**text)).collect();
    let Some(m) = Machine::start("follows", &units) else { return };
    m.expect_job("start", "a.service", "done");
    m.expect_job("start", "b.slice", "done");
    m.write("b.slice", "[Slice]\nMemoryMax=5G");
    check(&reload(&m, &json!({})), [&[], &["b.slice"], &[], &[]]);
    for (own, more) in [
        ("Description=another", ""),
        ("", "MemoryMax=5G"),
        ("", "TimeoutStopSec=3\nRestart=always\nExecStop=/bin/true\nKillMode=mixed"),
        ("", "[Install]\nWantedBy=b.target"),
    ] {
        m.write("a.service", &unit(own, more));
        check(&reload(&m, &json!({})), [&[], &["a.service"], &[], &[]]);
    }
    let mut before = String::new();
    for more in
        ["Environment=A=1", "ExecStartPre=/bin/true", "Nice=3", "Slice=b.slice", "Type=exec"]
    {
        let lines = format!("{before}{more}\n");
        m.write("a.service", &unit("", &lines));
        check(&reload(&m, &json!({})), [&[], &["a.service"], &[], &["a.service"]]);
        before = lines;
    }
}

#[test]
fn a_unit_whose_files_were_edited_says_so_until_they_are_in_force() {
    let unit = "[Service]\nExecStart=@P stay";
    let units =
        [("a.service", unit), ("b.service", unit), ("c.service", unit), ("d@.service", unit)];
    let Some(m) = Machine::start("edited", &units) else { return };
    if !lab::has_systemctl("a_unit_whose_files_were_edited_says_so_until_they_are_in_force") {
        return;
    }
    m.expect_job("start", "d@1.service", "done");
    let check = |expected: &[&str]| {
        let all = ["a.service", "b.service", "c.service", "d@1.service"];
        let differs = |unit: &&str| m.status(unit)["differs_on_disk"] == true;
        assert_eq!(all.into_iter().filter(differs).collect::<Vec<_>>(), expected);
    };
    check(&[]);
    // A manager that comes back and has not looked yet says nothing; then it knows.
    assert!(m.kill_manager());
    m.call_while_up("Totals", &json!({}));
    check(&[]);
    m.write("a.service", "[Unit]\nDescription=new\n[Service]\nExecStart=@P stay");
    let knows = || m.status("a.service")["differs_on_disk"] == true;
    lab::until("the edit is seen", || knows().then_some(()));
    check(&["a.service"]);
    std::fs::create_dir(m.directory.join("units/d@.service.d")).expect("a new directory");
    m.write("d@.service.d/x.conf", "[Service]\nNice=1");
    std::fs::remove_file(m.directory.join("units/c.service")).expect("it is there");
    check(&["a.service", "c.service", "d@1.service"]);
    // Looked at, but not in force.
    reload(&m, &json!({"dry_run": true}));
    check(&["a.service", "c.service", "d@1.service"]);
    reload(&m, &json!({"unit": "a.service"}));
    check(&["c.service", "d@1.service"]);
    let said = m.run(&["systemctl", "show", "-p", "NeedDaemonReload", "--value", "d@1.service"]);
    assert_eq!(said.as_deref(), Ok("yes\n"));
    reload(&m, &json!({}));
    check(&[]);
}

#[test]
fn files_behind_links_are_reloaded_when_they_were_edited() {
    let units =
        [("a.service", "[Service]\nExecStart=@P stay"), ("a.service.d/own.conf", "[Unit]\n")];
    let Some(m) = Machine::start("behind-links", &units) else { return };
    let write = |path: &str, text: &str| {
        std::fs::create_dir_all(m.inside("/run/site")).expect("a directory");
        std::fs::write(m.inside(path), text).expect("a file");
        let_time_pass_after(&m.inside(path));
    };
    let (dropin, fragment) = ("/run/site/x.conf", "/run/site/b.service");
    write(dropin, "[Unit]\nDescription=first");
    write(fragment, "[Unit]\nDescription=first\n[Service]\nExecStart=/bin/true");
    let units = m.directory.join("units");
    symlink(dropin, units.join("a.service.d/x.conf")).expect("a link");
    symlink(fragment, units.join("b.service")).expect("a link");
    check(&reload(&m, &json!({})), [&["b.service"], &["a.service"], &[], &[]]);
    let shown = |unit: &str| {
        let status = m.status(unit);
        (status["description"].clone(), status["differs_on_disk"].clone())
    };
    for unit in ["a.service", "b.service"] {
        assert_eq!(shown(unit), (json!("first"), json!(false)), "{unit}");
    }
    write(dropin, "[Unit]\nDescription=second");
    write(fragment, "[Unit]\nDescription=second\n[Service]\nExecStart=/bin/true");
    for unit in ["a.service", "b.service"] {
        assert_eq!(shown(unit), (json!("first"), json!(true)), "{unit}");
    }
    check(&reload(&m, &json!({})), [&[], &["a.service", "b.service"], &[], &[]]);
    for unit in ["a.service", "b.service"] {
        assert_eq!(shown(unit), (json!("second"), json!(false)), "{unit}");
    }
}

/// Where no configuration lies somebody may have to wait: who asks for the unit itself does.
#[test]
fn a_file_on_another_file_system_is_read_when_its_own_unit_is_asked_for() {
    let Some(m) = Machine::start("far-asked", &[]) else { return };
    let far = |name: &str| m.out(name);
    for unit in ["late.service", "app.service"] {
        symlink(far(unit), m.directory.join("units").join(unit)).expect("a link");
    }
    let write = |unit: &str, by: &str| {
        let text =
            format!("[Service]\nExecStart={} stay\n[Install]\nWantedBy={by}\n", lab::player());
        std::fs::write(far(unit), text).expect("a file");
    };
    write("app.service", "first.target");
    reload(&m, &json!({}));
    // As of a file system that is mounted later.
    write("late.service", "first.target");
    m.expect_job("start", "late.service", "done");
    assert_eq!(m.state("late.service"), "active/running");
    write("app.service", "second.target");
    let enabled = m.call("UnitFiles", &json!({"verb": "enable", "files": ["app.service"]}));
    assert!(enabled["changes"].to_string().contains("second.target.wants"), "{enabled}");
}

/// A look that passes over what lies far away does not pass over what lies beside it.
#[test]
fn an_edit_behind_a_near_link_beside_a_far_one_waits_for_a_reload_and_is_not_lost() {
    let unit = "[Service]\nExecStart=@P stay";
    let units = [("a.service", unit), ("a.service.d/own.conf", "[Unit]\n")];
    let Some(m) = Machine::start("near-beside-far", &units) else { return };
    let (near, far) = (m.inside("/run/near.conf"), m.out("far.conf"));
    for path in [&near, &far] {
        std::fs::write(path, "[Unit]\n").expect("a file");
    }
    let dropins = m.directory.join("units/a.service.d");
    symlink("/run/near.conf", dropins.join("near.conf")).expect("a link");
    symlink(&far, dropins.join("far.conf")).expect("a link");
    let_time_pass_after(&near);
    reload(&m, &json!({}));
    let differs = || m.status("a.service")["differs_on_disk"].clone();
    assert_eq!(differs(), json!(false));
    std::fs::write(&near, "[Unit]\nDescription=edited").expect("a file");
    let_time_pass_after(&near);
    assert_eq!(differs(), json!(true));
    m.write("new.service", "[Service]\nExecStart=@P stay");
    m.expect_job("start", "new.service", "done");
    assert_eq!(differs(), json!(true), "the loader has looked since");
    check(&reload(&m, &json!({})), [&[], &["a.service"], &[], &[]]);
}

#[test]
fn a_reload_by_signal_that_is_refused_is_told_of() {
    let Some(m) = Machine::start("sighup", &[("a.service", "[Service]\nExecStart=@P stay")]) else {
        return;
    };
    m.write_rules("rules.conf", "apply Nonsense {");
    m.run(&["kill", "-HUP", "1"]).expect("process 1 hands it on");
    lab::until("the refusal is said", || m.console().contains("SIGHUP: ").then_some(()));
}

/// As systemd-sysext(8) does it with all of /usr: the watch of the directory below tells nothing.
#[test]
fn what_is_mounted_over_a_unit_directory_is_seen_by_a_reload() {
    let unit = "[Service]\nExecStart=@P stay";
    let Some(m) = Machine::start("mounted-over", &[("a.service", unit)]) else { return };
    let run = |argv: &[&str]| m.run(argv).expect("it works");
    let units = m.directory.join("units").to_string_lossy().into_owned();
    run(&["cp", "-a", &units, "/run/over"]);
    run(&["rm", "/run/over/a.service"]);
    let write = |name: &str| std::fs::write(m.inside("/run/over").join(name), "[Unit]\n");
    write("b.target").expect("a file");
    run(&["mount", "--bind", "/run/over", &units]);
    check(&reload(&m, &json!({})), [&["b.target"], &[], &["a.service"], &[]]);
    write("c.target").expect("a file");
    check(&reload(&m, &json!({})), [&["c.target"], &[], &[], &[]]);
    run(&["umount", &units]);
    check(&reload(&m, &json!({})), [&["a.service"], &[], &["b.target", "c.target"], &[]]);
}

#[test]
fn a_reload_tells_what_differs_and_disturbs_nobody() {
    let units = [
        ("a.service", "[Service]\nExecStart=@P stay"),
        ("b.service", "[Service]\nExecStart=@P stay"),
        ("c.service", "[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("reload", &units) else { return };
    m.expect_job("start", "a.service", "done");
    let pid = m.main_pid("a.service");
    check(&reload(&m, &json!({})), [&[], &[], &[], &[]]);
    m.write("a.service", "[Unit]\nDescription=new\n[Service]\nNice=1\nExecStart=@P stay");
    m.write("d.service", "[Service]\nExecStart=@P stay");
    std::fs::remove_file(m.directory.join("units/c.service")).expect("it is there");
    let expected: [&[&str]; 4] = [&["d.service"], &["a.service"], &["c.service"], &["a.service"]];
    let before = m.totals()["generation"].clone();
    check(&reload(&m, &json!({"dry_run": true})), expected);
    assert_eq!(m.status("a.service")["description"], "a.service");
    assert_eq!(m.totals()["generation"], before);
    check(&reload(&m, &json!({})), expected);
    assert_eq!(m.status("a.service")["description"], "new");
    assert_eq!((m.main_pid("a.service"), m.state("a.service").as_str()), (pid, "active/running"));
    check(&reload(&m, &json!({"full": true})), [&[], &[], &[], &[]]);
    let generation = m.totals()["generation"].as_u64().unwrap_or(0);
    assert_eq!(Some(generation), before.as_u64().map(|g| g + 1));

    m.write("b.service", "[Unit]\nDescription=one\n[Service]\nExecStart=@P stay");
    m.write("d.service", "[Unit]\nDescription=two\n[Service]\nExecStart=@P stay");
    check(&reload(&m, &json!({"unit": "b.service"})), [&[], &["b.service"], &[], &[]]);
    assert_eq!(m.status("d.service")["description"], "d.service");
    check(&reload(&m, &json!({})), [&[], &["d.service"], &[], &[]]);

    let report = reload(&m, &json!({"rollback": generation}));
    check(&report, [&[], &["b.service", "d.service"], &[], &[]]);
    assert_eq!(m.status("b.service")["description"], "b.service");
}

#[test]
fn the_generation_goes_on_over_a_restart() {
    let units = [("a.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("generation", &units) else { return };
    m.expect_job("start", "a.service", "done");
    for n in 0..3 {
        m.write("a.service", &format!("[Unit]\nDescription={n}\n[Service]\nExecStart=@P stay"));
        reload(&m, &json!({}));
    }
    let (before, pid) = (m.totals()["generation"].as_u64(), m.main_pid("a.service"));
    for unit in ["b.service", "0.service"] {
        m.write(unit, "[Service]\nExecStart=@P stay");
    }
    let old = m.manager_pid();
    let _ = m.try_call("Reexecute", &json!({}));
    lab::until("another manager", || m.manager_pid().filter(|pid| Some(*pid) != old));
    assert!(m.totals()["generation"].as_u64() > before);
    assert!(
        m.console().contains("taking over from the previous manager: Asked"),
        "{}",
        m.console()
    );
    assert_eq!((m.main_pid("a.service"), m.state("a.service").as_str()), (pid, "active/running"));
    m.expect_job("start", "0.service", "done");
}

#[test]
fn an_edit_that_nobody_reloaded_is_not_in_force_after_a_crash() {
    let text = |description: &str| {
        format!("[Unit]\nDescription={description}\n[Service]\nExecStart=@P stay")
    };
    let (a, gone) = (text("old"), text("gone"));
    let units = [("a.service", a.as_str()), ("gone.service", &gone), ("same.service", &gone)];
    let Some(m) = Machine::start("unreloaded", &units) else { return };
    m.expect_job("start", "a.service", "done");
    m.write("a.service", &text("reloaded"));
    m.write("b.service.d/x.conf", "[Unit]\nDescription=dropped in");
    m.write("b.service", &text("b"));
    reload(&m, &json!({}));
    let before = m.totals()["generation"].clone();

    m.write("a.service", &text("new"));
    m.write("c.service", &text("c"));
    std::fs::remove_file(m.directory.join("units/gone.service")).expect("it is there");
    for _ in 0..2 {
        assert!(m.kill_manager());
        let descriptions = ["a.service", "b.service", "gone.service", "same.service"]
            .map(|unit| m.status(unit)["description"].as_str().unwrap_or_default().to_owned());
        assert_eq!(descriptions, ["reloaded", "dropped in", "gone", "gone"]);
        assert_eq!(m.totals()["generation"], before);
    }
    let report = reload(&m, &json!({}));
    check(&report, [&["c.service"], &["a.service"], &["gone.service"], &[]]);
    assert_eq!(m.status("a.service")["description"], "new");
    assert!(m.kill_manager());
    assert_eq!(m.status("a.service")["description"], "new");
    check(&reload(&m, &json!({})), [&[], &[], &[], &[]]);
}

#[test]
fn generators_run_before_a_reload() {
    let units = [("a.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("generated", &units) else { return };
    m.write_generator(
        "g",
        "echo '[Unit]' > $1/made.target\n\
         mkdir $1/a.service.d\n\
         printf '[Unit]\\nDescription=by a generator\\n' > $1/a.service.d/10-g.conf",
    );
    check(&reload(&m, &json!({"dry_run": true})), [&[], &[], &[], &[]]);
    check(&reload(&m, &json!({})), [&["made.target"], &["a.service"], &[], &[]]);
    assert_eq!(m.status("a.service")["description"], "by a generator");
    check(&reload(&m, &json!({})), [&[], &[], &[], &[]]);
    // After a crash what they made is still there, and they do not run again.
    m.write_generator("g", "exit 1");
    assert!(m.kill_manager());
    assert_eq!(m.status("a.service")["description"], "by a generator");
    check(&reload(&m, &json!({})), [&[], &["a.service"], &["made.target"], &[]]);
    assert!(m.console().contains("/generators/g failed: exit status: 1"), "{}", m.console());
}

#[test]
fn generators_of_the_environment_are_under_what_clients_set() {
    let prints = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo $A $B >>@D/out/seen'";
    let Some(m) = Machine::start("generated-variables", &[("prints.service", prints)]) else {
        return;
    };
    if !lab::has_systemctl("generators_of_the_environment_are_under_what_clients_set") {
        return;
    }
    let systemctl = |arguments: &[&str]| {
        m.run(&[&["systemctl"], arguments].concat()).expect("it is done");
    };
    let check = |expected: &str| {
        m.expect_job("start", "prints.service", "done");
        assert_eq!(m.lines("seen").last().map_or("", |line| line.as_str()), expected);
    };
    m.write_generator("environment/10-a", "echo A=made; echo B=made");
    check("");
    reload(&m, &json!({"dry_run": true}));
    check("");
    reload(&m, &json!({}));
    check("made made");
    systemctl(&["set-environment", "A=set"]);
    systemctl(&["unset-environment", "B"]);
    check("set made");
    let killed = m.manager_pid();
    assert!(m.kill_manager());
    lab::until("the next one is there", || {
        (m.manager_pid().is_some() && m.manager_pid() != killed).then_some(())
    });
    check("set made");
    systemctl(&["unset-environment", "A"]);
    check("made made");
    m.remove_generator("environment/10-a");
    reload(&m, &json!({}));
    check("");
}

/// Unit files that name others by numbers that never come again leave nothing behind.
#[test]
fn names_that_nothing_mentions_any_more_are_forgotten() {
    let Some(m) = Machine::start("mentions", &[]) else { return };
    if !lab::has_systemctl("names_that_nothing_mentions_any_more_are_forgotten") {
        return;
    }
    let names = || {
        let shown = m.run(&["systemctl", "show", "-P", "NNames"]).expect("it is answered");
        shown.trim().parse::<usize>().expect("a number")
    };
    // A question about a unit makes a name too, for a while.
    let before = lab::until("it is quiet", || (names() == names()).then(names));
    let wants: String =
        (0..100).map(|n| format!("Wants=w{n}.service\nAfter=a{n}.service\n")).collect();
    m.write("a.service", &format!("[Unit]\n{wants}[Service]\nExecStart=@P stay"));
    reload(&m, &json!({}));
    assert_eq!(names(), before + 201);
    std::fs::remove_file(m.directory.join("units/a.service")).expect("it is there");
    reload(&m, &json!({}));
    lab::until("they are forgotten", || (names() == before).then_some(()));
}

/// The loader is busy with generators for longer than a unit stays that nothing needs.
#[test]
fn a_mount_that_comes_back_while_its_unit_is_being_forgotten_has_a_unit() {
    const UNTIL_FORGOTTEN: Duration = Duration::from_secs(11);
    let Some(m) = Machine::start("leaving-mount", &[]) else { return };
    let run = |argv: &[&str]| m.run(argv).expect("it works");
    let mount = || run(&["mount", "-t", "tmpfs", "by-hand", "/run/m"]);
    run(&["mkdir", "/run/m"]);
    mount();
    m.wait_for("run-m.mount", "active/mounted");
    let (begun, gate) = (m.out("begun"), m.out("gate"));
    run(&["mkfifo", &begun.to_string_lossy(), &gate.to_string_lossy()]);
    m.write_generator("g", &format!("echo > {}; cat {}", begun.display(), gate.display()));
    std::thread::scope(|scope| {
        scope.spawn(|| reload(&m, &json!({})));
        std::fs::read(&begun).expect("the reload has begun");
        run(&["umount", "/run/m"]);
        m.wait_for("run-m.mount", "inactive/dead");
        lab::pause(UNTIL_FORGOTTEN);
        mount();
        m.totals();
        std::fs::write(&gate, "").expect("the reload goes on");
    });
    m.remove_generator("g");
    m.wait_for("run-m.mount", "active/mounted");
    assert!(!m.console().contains("panicked"), "{}", m.console());
}

/// A unit that nobody has loaded is read when it is asked for, as systemd does it, also where others name it
/// and in a search directory that was not there; what is loaded stays as it was until a reload.
#[test]
fn new_files_need_no_reload() {
    let wants = "[Unit]\nWants=later.service\n[Service]\nExecStart=@P stay";
    let Some(m) = Machine::start("new-files", &[("a.service", wants)]) else { return };
    if !lab::has_systemctl("new_files_need_no_reload") {
        return;
    }
    m.expect_job("start", "a.service", "done");
    m.write("a.service", "[Unit]\nDescription=edited\n[Service]\nExecStart=@P stay");
    for unit in ["later.service", "new.service", "t@.service"] {
        m.write(unit, "[Service]\nExecStart=@P stay");
    }
    for unit in ["later.service", "new.service", "t@x.service"] {
        m.expect_job("start", unit, "done");
        assert_eq!(m.state(unit), "active/running");
    }
    let show = |unit: &str, property: &str| {
        m.run(&["systemctl", "show", "-P", property, unit]).map(|text| text.trim().to_owned())
    };
    for unit in ["later.service", "new.service", "t@x.service"] {
        assert_eq!(show(unit, "NeedDaemonReload").as_deref(), Ok("no"), "{unit}");
    }
    assert_eq!(show("a.service", "Description").as_deref(), Ok("a.service"));
    assert_eq!(show("a.service", "NeedDaemonReload").as_deref(), Ok("yes"));
    m.write("show.service", "[Unit]\nDescription=found\n[Service]\nExecStart=@P stay");
    assert_eq!(show("show.service", "Description").as_deref(), Ok("found"));
    m.call("ReloadConfiguration", &json!({}));
    assert_eq!(show("a.service", "Description").as_deref(), Ok("edited"));
}

/// Of a mount over a file no watch tells, nor of the edits of what is mounted there.
#[test]
fn a_reload_sees_what_is_mounted_over_a_unit_file_or_its_drop_ins() {
    let unit = "[Service]\nExecStart=@P stay";
    let units = [("a.service", unit), ("b.service", unit), ("b.service.d/own.conf", "[Unit]\n")];
    let Some(m) = Machine::start("mounted-over", &units) else { return };
    let describe = |text: &str| {
        let text = format!("[Unit]\nDescription={text}\n");
        std::fs::write(m.out("b.service.d/other.conf"), &text).expect("a file");
        let text = format!("{text}[Service]\nExecStart={} stay", lab::player());
        std::fs::write(m.out("a.service"), text).expect("a file");
    };
    std::fs::create_dir(m.out("b.service.d")).expect("a directory");
    describe("mounted");
    let path = |name: &str| m.directory.join("units").join(name).display().to_string();
    for name in ["a.service", "b.service.d"] {
        let from = m.out(name).display().to_string();
        m.run(&["mount", "--bind", &from, &path(name)]).expect("it can be mounted");
    }
    let both = ["a.service", "b.service"];
    check(&reload(&m, &json!({})), [&[], &both, &[], &[]]);
    describe("edited");
    check(&reload(&m, &json!({})), [&[], &both, &[], &[]]);
    assert_eq!(m.status("a.service")["description"], "edited");
    check(&reload(&m, &json!({})), [&[], &[], &[], &[]]);
    for name in ["a.service", "b.service.d"] {
        m.run(&["umount", &path(name)]).expect("it can be unmounted");
    }
    check(&reload(&m, &json!({})), [&[], &both, &[], &[]]);
}

/// As a directory of a release that `current` leads to.
#[test]
fn a_directory_of_drop_ins_that_is_a_link_is_seen_to_lead_elsewhere() {
    let Some(m) =
        Machine::start("linked-directory", &[("a.service", "[Service]\nExecStart=@P stay")])
    else {
        return;
    };
    for release in ["v1", "v2"] {
        let directory = m.inside(&format!("/run/site/{release}/drop-ins"));
        std::fs::create_dir_all(&directory).expect("a directory");
        let text = format!("[Unit]\nDescription={release}\n");
        std::fs::write(directory.join("x.conf"), text).expect("a file");
        let_time_pass_after(&directory.join("x.conf"));
    }
    let switch = |release: &str| {
        m.run(&["ln", "-sfn", release, "/run/site/current"]).expect("ln(1)");
    };
    let shown = || {
        let status = m.status("a.service");
        (status["description"].clone(), status["differs_on_disk"].clone())
    };
    // First to nowhere.
    let link = m.directory.join("units/a.service.d");
    symlink("/run/site/current/drop-ins", link).expect("a link");
    check(&reload(&m, &json!({})), [&[], &[], &[], &[]]);
    let mut before = json!("a.service");
    for release in ["v1", "v2", "v1"] {
        switch(release);
        assert_eq!(shown(), (before, json!(true)), "{release}");
        check(&reload(&m, &json!({})), [&[], &["a.service"], &[], &[]]);
        before = json!(release);
        assert_eq!(shown(), (before.clone(), json!(false)), "{release}");
        check(&reload(&m, &json!({})), [&[], &[], &[], &[]]);
    }
}

/// Those of a template are its instances'.
#[test]
fn a_template_s_directory_of_links_is_seen_to_lead_elsewhere_by_its_instances() {
    let unit = "[Service]\nExecStart=@P stay";
    let units = [("t@.service", unit), ("b.service", unit)];
    let Some(m) = Machine::start("linked-template", &units) else { return };
    for release in ["v1", "v2"] {
        std::fs::create_dir_all(m.inside(&format!("/run/site/{release}"))).expect("a directory");
    }
    let wanted = m.inside("/run/site/v2/b.service");
    symlink("../b.service", &wanted).expect("a link");
    let switch = |release: &str| {
        m.run(&["ln", "-sfn", release, "/run/site/current"]).expect("ln(1)");
    };
    switch("v1");
    let link = m.directory.join("units/t@.service.wants");
    symlink("/run/site/current", link).expect("a link");
    m.expect_job("start", "t@x.service", "done");
    reload(&m, &json!({}));
    let differs = || m.status("t@x.service")["differs_on_disk"].clone();
    assert_eq!(differs(), json!(false));
    switch("v2");
    assert_eq!(differs(), json!(true));
    check(&reload(&m, &json!({})), [&[], &["t@x.service"], &[], &[]]);
    assert_eq!(differs(), json!(false));
}

/// What runs in `one.slice`: the first with a known main process, the second without, each with a child.
const STAYS: [(&str, &str); 4] = [
    ("edited.service", "ExecStart=/bin/sh -c 'sleep 1000 & exec @P stay'"),
    (
        "forked.service",
        "Type=forking\nGuessMainPID=no\nExecStart=/bin/sh -c 'sleep 1000 & sleep 1000 &'",
    ),
    ("gone.service", "ExecStart=/bin/sh -c 'sleep 1000 & exec @P stay'"),
    ("renamed.service", "ExecStart=/bin/sh -c 'sleep 1000 & exec @P stay'"),
];

fn in_slice(service: &str, slice: &str) -> String {
    format!("[Service]\nSlice={slice}\n{service}")
}

/// The group that the manager tells of, and who is in it.
fn place(m: &Machine, unit: &str) -> (Value, Vec<u64>) {
    let status = m.status(unit);
    let pids = status["processes"].as_array().into_iter().flatten();
    let mut pids: Vec<u64> = pids.filter_map(|process| process["pid"].as_u64()).collect();
    pids.sort_unstable();
    (status["cgroup"].clone(), pids)
}

/// As systemd 252: it is in the new slice when it is started again.
#[test]
fn what_runs_stays_in_its_group_when_its_slice_is_edited_its_file_goes_or_its_name_is_another_s() {
    let texts = STAYS.map(|(unit, text)| (unit, in_slice(text, "one.slice")));
    let units = texts.each_ref().map(|(unit, text)| (*unit, text.as_str()));
    let Some(m) = Machine::start("stays", &units) else { return };
    let is_there = |pid: &u64| m.inside(&format!("/proc/{pid}")).exists();
    for how in ["reload", "SIGKILL", "reexec", "reexec alone"] {
        for (unit, text) in STAYS {
            m.write(unit, &in_slice(text, "one.slice"));
        }
        reload(&m, &json!({}));
        let before = STAYS.map(|(unit, _)| {
            m.expect_job("start", unit, "done");
            let both = || Some(place(&m, unit)).filter(|(_, pids)| pids.len() == 2);
            let (group, pids) = lab::until("it and its child run", both);
            assert_eq!(group, format!("/one.slice/{unit}"), "{how}");
            (unit, group, pids)
        });
        for (unit, text) in &STAYS[..2] {
            m.write(unit, &in_slice(text, "two.slice"));
        }
        let file = |unit: &str| m.directory.join("units").join(unit);
        std::fs::rename(file("renamed.service"), file("other.service")).expect("it is there");
        symlink("other.service", file("renamed.service")).expect("a link");
        std::fs::remove_file(file("gone.service")).expect("it is there");
        // Who comes by `reexec` reads the files anew.
        if how != "reexec alone" {
            reload(&m, &json!({}));
        }
        let old = m.manager_pid();
        match how {
            "SIGKILL" => assert!(m.kill_manager()),
            "reload" => {}
            _ => _ = m.try_call("Reexecute", &json!({})),
        }
        lab::until("a manager", || {
            m.manager_pid().filter(|&pid| (Some(pid) == old) == (how == "reload"))
        });
        for (unit, group, pids) in &before[..3] {
            assert_eq!(m.state(unit), "active/running", "{how}");
            assert_eq!(place(&m, unit), (group.clone(), pids.clone()), "{unit}, {how}");
        }
        for (unit, _, pids) in &before {
            assert!(pids.iter().all(is_there), "{unit}, {how}");
        }
        // Nobody but the kernel tells of the end of the last one.
        m.call("Kill", &json!({"unit": "forked.service", "signal": 9}));
        m.wait_for("forked.service", "inactive/dead");
        for unit in ["edited.service", "gone.service", "renamed.service"] {
            m.expect_job("stop", unit, "done");
            assert_eq!(m.state(unit), "inactive/dead", "{how}: {}", m.console());
        }
        lab::until("all have ended", || {
            (!before.iter().any(|(_, _, pids)| pids.iter().any(is_there))).then_some(())
        });
        for unit in ["edited.service", "forked.service"] {
            m.expect_job("start", unit, "done");
            assert_eq!(place(&m, unit).0, format!("/two.slice/{unit}"), "{how}");
            m.expect_job("stop", unit, "done");
        }
        std::fs::remove_file(file("renamed.service")).expect("it is there");
        std::fs::remove_file(file("other.service")).expect("it is there");
    }
}

/// Each was loaded when it was started, from files that they share.
#[test]
fn instances_that_were_loaded_one_by_one_do_not_count_as_edited_after_a_crash() {
    let service = "[Service]\nExecStart=@P stay";
    let units = [("t@.service", service), ("t@.service.d/own.conf", "[Unit]\nDescription=own\n")];
    let Some(m) = Machine::start("one-by-one", &units) else { return };
    let instances = ["t@1.service", "t@2.service", "t@3.service"];
    instances.iter().for_each(|unit| m.expect_job("start", unit, "done"));
    assert!(m.kill_manager());
    // Once it has looked at all files.
    check(&reload(&m, &json!({"dry_run": true})), [&[], &[], &[], &[]]);
    let differs = |unit: &&&str| m.status(unit)["differs_on_disk"] == true;
    assert_eq!(instances.iter().filter(differs).count(), 0);
    m.write("t@.service.d/own.conf", "[Unit]\nDescription=edited\n");
    check(&reload(&m, &json!({"dry_run": true})), [&[], &instances, &[], &[]]);
}

/// What a generator cannot write is not gone: its units would be, and what they say of those that run.
#[test]
fn without_room_for_generators_a_reload_changes_nothing_and_says_so() {
    let Some(m) = Machine::start("full-run", &[]) else { return };
    let generator = |text: &str| {
        let unit = format!("[Unit]\\nDescription={text}\\n[Service]\\nExecStart={}", lab::player());
        m.write_generator("generates", &format!("printf '{unit} stay\\n' > $1/gened.service"));
    };
    std::fs::create_dir(m.directory.join("generators/environment")).expect("a directory");
    m.write_generator("environment/generates", "echo FROMGEN=1");
    generator("first");
    reload(&m, &json!({}));
    m.expect_job("start", "gened.service", "done");
    let is_in_force = |description: &str| {
        let unit = m.status("gened.service");
        assert_eq!((&unit["description"], &unit["load"]), (&json!(description), &json!("loaded")));
        let environment = std::fs::read(m.inside("/run/systemd/generator.environment"));
        assert_eq!(environment.expect("a file"), b"FROMGEN=1\0");
    };
    is_in_force("first");
    generator("second");
    let refused = || {
        let said = lab::ask(&m.connect().expect("it listens"), "ReloadConfiguration", &json!({}));
        said.expect("it is served").to_string()
    };
    m.run(&["mount", "-o", "remount,size=32M", "/run"]).expect("it is a tmpfs");
    m.run(&["fallocate", "-l", "28M", "/run/filler"]).expect("there is room");
    assert!(refused().contains("KB free"), "{}", refused());
    is_in_force("first");
    // There is room, until one of them takes it all.
    m.run(&["rm", "/run/filler"]).expect("it is there");
    m.write_generator("takes", "dd if=/dev/zero of=$1/all bs=1M 2>/dev/null");
    assert!(refused().contains("generators have filled it"), "{}", refused());
    is_in_force("first");
    m.remove_generator("takes");
    reload(&m, &json!({}));
    is_in_force("second");
}
