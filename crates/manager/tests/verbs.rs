//! `warren start`, `stop` and the like of several units at once, as a user types them.

mod lab;

use lab::{Machine, program_of};

/// What `warren` prints on both streams, and its exit status.
fn warren(m: &Machine, arguments: &str) -> String {
    let command = program_of("warren-cli", "warren");
    let line = format!("{command} {arguments} 2>&1; echo \"= $?\"");
    m.run(&["sh", "-c", &line]).expect("sh(1) runs")
}

/// Each stop ends only when the other has begun: opening a FIFO waits for its other side.
#[test]
fn several_units_are_stopped_together() {
    let one = "[Service]\nExecStart=@P stay\nTimeoutStopSec=40\n\
               ExecStop=/bin/sh -c 'echo > /run/meeting'";
    let other = "[Service]\nExecStart=@P stay\nTimeoutStopSec=40\n\
                 ExecStop=/bin/sh -c 'read line < /run/meeting'";
    let units = [("meet-a.service", one), ("meet-b.service", other)];
    let Some(m) = Machine::start("verbs-together", &units) else { return };
    m.run(&["mkfifo", "/run/meeting"]).expect("a FIFO can be made");
    assert_eq!(warren(&m, "start meet-a meet-b"), "= 0\n");
    assert_eq!(warren(&m, "stop meet-a meet-b"), "= 0\n");
    assert_eq!(m.state("meet-a.service"), "inactive/dead");
    assert_eq!(m.state("meet-b.service"), "inactive/dead");
}

/// What systemctl prints on both streams, and its exit status.
fn systemctl(m: &Machine, arguments: &str) -> String {
    let line = format!("systemctl {arguments} 2>&1; echo \"= $?\"");
    m.run(&["sh", "-c", &line]).expect("sh(1) runs")
}

#[test]
fn templates_and_instances_that_are_not_in_use_have_states_and_files() {
    let test = "templates_and_instances_that_are_not_in_use_have_states_and_files";
    let install = "[Service]\nExecStart=@P stay\n[Install]\nWantedBy=default.target";
    let units = [
        ("bare@.service", "[Unit]\nDescription=of %i\n[Service]\nExecStart=@P stay"),
        ("able@.service", install),
        ("plain.service", install),
        ("able@.service.d/more.conf", "[Service]\nEnvironment=A=%i"),
    ];
    let Some(m) = Machine::start("verbs-templates", &units) else { return };
    assert_eq!(warren(&m, "-q enable able@on.service"), "= 0\n");
    let states = [
        ("bare@.service", "static\n= 0\n"),
        ("bare@x.service", "static\n= 0\n"),
        ("able@x.service", "disabled\n= 1\n"),
        ("able@on.service", "enabled\n= 0\n"),
        ("plain.service", "disabled\n= 1\n"),
        ("missing.service", "not-found\n= 1\n"),
    ];
    for (unit, expected) in states {
        assert_eq!(warren(&m, &format!("is-enabled {unit}")), expected, "{unit}");
    }
    let template = warren(&m, "cat bare@.service");
    assert!(template.contains("/bare@.service\n[Unit]\nDescription=of %i\n"), "{template}");
    let instance = warren(&m, "cat able@y.service");
    assert!(instance.contains("/able@.service\n") && instance.contains("/more.conf\n"));
    let status = warren(&m, "status bare@z.service");
    assert!(status.starts_with("○ bare@z.service - of z\n"), "{status}");
    assert!(status.contains("Active: inactive (dead)") && status.ends_with("= 3\n"), "{status}");
    for missing in ["missing.service", "missing@x.service", "missing@.service"] {
        let expected = format!("Unit {missing} could not be found.\n= 4\n");
        assert_eq!(warren(&m, &format!("status {missing}")), expected);
    }
    if lab::has_systemctl(test) {
        for (unit, expected) in &states[..5] {
            assert_eq!(systemctl(&m, &format!("is-enabled {unit}")), *expected, "{unit}");
        }
        let lines = |said: String| said.lines().filter(|l| !l.is_empty()).collect::<String>();
        let theirs = lines(systemctl(&m, "cat able@q.service"));
        assert_eq!(lines(warren(&m, "cat able@q.service")), theirs);
    }
}

/// A template is no unit: no definition tells that its text changed.
#[test]
fn a_template_that_was_edited_has_the_installation_state_of_its_text() {
    let bare = "[Service]\nExecStart=@P stay";
    let install = format!("{bare}\n[Install]\nWantedBy=default.target");
    let units = [("free@.service", bare), ("used@.service", bare)];
    let Some(m) = Machine::start("verbs-template-edited", &units) else { return };
    m.expect_job("start", "used@x.service", "done");
    for template in ["free", "used"] {
        let check = |expected: &str| {
            for unit in [format!("{template}@.service"), format!("{template}@x.service")] {
                assert_eq!(warren(&m, &format!("is-enabled {unit}")), expected, "{unit}");
            }
        };
        check("static\n= 0\n");
        for (text, state) in [(install.as_str(), "disabled\n= 1\n"), (bare, "static\n= 0\n")] {
            m.write(&format!("{template}@.service"), text);
            warren(&m, "refresh");
            check(state);
        }
    }
}

/// systemctl(1), "is-enabled": no reload comes between.
#[test]
fn installation_states_are_those_of_the_disk() {
    let test = "installation_states_are_those_of_the_disk";
    let install = "[Service]\nExecStart=@P stay\n[Install]\nWantedBy=x.target";
    let Some(m) = Machine::start("verbs-disk", &[("old.service", install)]) else { return };
    let has_systemctl = lab::has_systemctl(test);
    let check = |unit: &str, expected: &str| {
        assert_eq!(warren(&m, &format!("is-enabled {unit}")), expected, "{unit}");
        if has_systemctl && !expected.starts_with("not-found") {
            assert_eq!(systemctl(&m, &format!("is-enabled {unit}")), expected, "{unit}");
        }
    };
    check("old", "disabled\n= 1\n");
    check("new", "not-found\n= 1\n");
    m.write("new.service", install);
    check("new", "disabled\n= 1\n");
    let units = m.directory.join("units");
    let wants = units.join("x.target.wants");
    std::fs::create_dir(&wants).expect("a directory");
    std::os::unix::fs::symlink("../old.service", wants.join("old.service")).expect("a link");
    check("old", "enabled\n= 0\n");
    m.write("started.service", install);
    m.expect_job("start", "started.service", "done");
    assert_eq!(m.status("started.service")["file_state"], "disabled");
    m.write("listed.service", install);
    if has_systemctl {
        let listed = systemctl(&m, "list-unit-files --no-legend 'listed.service' 'old.service'");
        assert!(listed.contains("listed.service disabled"), "{listed}");
        assert!(listed.contains("old.service    enabled"), "{listed}");
        let said = systemctl(&m, "enable --no-reload started.service");
        assert!(said.ends_with("= 0\n"), "{said}");
        check("started", "enabled\n= 0\n");
    }
    std::fs::remove_file(wants.join("old.service")).expect("it is there");
    check("old", "disabled\n= 1\n");
    // So many that all are made known at once, and some more.
    for n in 0..20 {
        let unit = format!("many-{n}.service");
        let state = || m.call("FileState", &serde_json::json!({"unit": unit}))["state"].clone();
        m.write(&unit, install);
        assert_eq!(state(), "disabled", "{unit}");
        m.write(&unit, "");
        assert_eq!(state(), "masked", "{unit}");
    }
    std::fs::remove_file(units.join("new.service")).expect("it is there");
    check("new", "not-found\n= 1\n");
}

/// systemd.unit(5): an empty file masks.
#[test]
fn a_unit_file_that_was_emptied_or_filled_has_that_state_after_a_reload() {
    let install = "[Service]\nExecStart=@P stay\n[Install]\nWantedBy=x.target";
    let units = [("own.service", install), ("none.service", "")];
    let Some(m) = Machine::start("verbs-emptied", &units) else { return };
    let check = |own: &str, none: &str| {
        for (unit, state) in [("own", own), ("none", none)] {
            assert_eq!(warren(&m, &format!("is-enabled {unit}")), format!("{state}\n= 1\n"));
        }
    };
    check("disabled", "masked");
    for (own, none) in [("masked", "disabled"), ("disabled", "masked")] {
        for (unit, state) in [("own", own), ("none", none)] {
            let text = if state == "masked" { "" } else { install };
            m.write(&format!("{unit}.service"), text);
        }
        assert!(warren(&m, "refresh").ends_with("= 0\n"));
        check(own, none);
    }
}

#[test]
fn a_unit_that_others_name_is_there_when_it_has_got_a_file() {
    let test = "a_unit_that_others_name_is_there_when_it_has_got_a_file";
    let late = ["status", "cat", "seen", "show"];
    let wants: String = late.iter().map(|name| format!("Wants={name}.service\n")).collect();
    let text = format!("[Unit]\n{wants}[Service]\nExecStart=@P stay");
    let Some(m) = Machine::start("verbs-named", &[("own.service", &text)]) else { return };
    for name in late {
        let status = warren(&m, &format!("status {name}"));
        assert!(status.contains("Loaded: not-found\n") && status.ends_with("= 4\n"), "{status}");
    }
    let write = |name: &str| m.write(&format!("{name}.service"), "[Service]\nExecStart=@P stay");
    let is_shown = |name: &str| {
        let status = warren(&m, &format!("status {name}"));
        assert!(status.starts_with(&format!("○ {name}.service")), "{status}");
    };
    write("status");
    is_shown("status");
    write("cat");
    let cat = warren(&m, "cat cat.service");
    assert!(cat.contains("ExecStart="), "{cat}");
    write("seen");
    assert_eq!(warren(&m, "is-enabled seen"), "static\n= 0\n");
    is_shown("seen");
    write("show");
    if lab::has_systemctl(test) {
        assert_eq!(systemctl(&m, "show -P LoadState show.service"), "loaded\n= 0\n");
    }
    m.write("new@.service", "[Service]\nExecStart=@P stay");
    let template = warren(&m, "cat new@.service");
    assert!(template.contains("ExecStart="), "{template}");
}

#[test]
fn a_comment_that_cannot_be_kept_keeps_nothing_else_from_being_done() {
    let text = "[Service]\nExecStart=@P stay\n[Install]\nWantedBy=default.target";
    let Some(m) = Machine::start("verbs-comment", &[("a.service", text)]) else { return };
    assert!(warren(&m, "enable --now a.service").ends_with("= 0\n"));
    let in_the_way = m.directory.join("units/.a.service.remark.tmp");
    std::fs::create_dir(in_the_way).expect("a directory");
    let said = warren(&m, "disable --now --comment gone a.service");
    assert!(said.starts_with("Removed "), "{said}");
    assert!(said.contains("disable succeeded, but the comment was not saved"), "{said}");
    assert!(said.ends_with("= 0\n"), "{said}");
    assert_eq!(m.state("a.service"), "inactive/dead");
}

/// Whatever a unit's job does, what is not up has 3.
#[test]
fn a_unit_on_its_way_up_has_systemctls_status() {
    let unit = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'read line < /run/never'";
    let Some(m) = Machine::start("verbs-activating", &[("way.service", unit)]) else { return };
    m.run(&["mkfifo", "/run/never"]).expect("a FIFO can be made");
    assert_eq!(warren(&m, "--no-block start way"), "= 0\n");
    m.wait_for("way.service", "activating/start");
    let ours = warren(&m, "status way");
    assert!(ours.ends_with("= 3\n"), "{ours}");
    if lab::has_systemctl("a_unit_on_its_way_up_has_systemctls_status") {
        let theirs = systemctl(&m, "status way.service");
        assert!(theirs.ends_with("= 3\n"), "{theirs}");
    }
}

#[test]
fn a_unit_is_enabled_and_started_by_its_path() {
    let Some(m) = Machine::start("verbs-path", &[]) else { return };
    let text = format!(
        "[Service]\nExecStart={} stay\n[Install]\nWantedBy=default.target\n",
        lab::player()
    );
    let write = format!("mkdir /run/here && echo '{text}' > /run/here/web.service");
    m.run(&["sh", "-c", &write]).expect("it can be written");
    let said = warren(&m, "enable --now /run/here/web.service");
    assert!(said.ends_with("= 0\n"), "{said}");
    assert_eq!(m.state("web.service"), "active/running");
    let said = warren(&m, "disable --now /run/here/web.service");
    assert!(said.ends_with("= 0\n"), "{said}");
    assert_eq!(warren(&m, "is-active web"), "inactive\n= 3\n");
}

#[test]
fn each_of_several_units_is_answered_for() {
    let units = [
        ("good-1.service", "[Service]\nExecStart=@P stay"),
        ("good-2.service", "[Service]\nExecStart=@P stay"),
        ("bad.service", "[Service]\nType=oneshot\nExecStart=/bin/false"),
        ("no.service", "[Unit]\nRefuseManualStart=yes\n[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("verbs-answers", &units) else { return };
    let said = warren(&m, "start good-1 bad no missing good-2");
    let expected = "Job for bad.service failed. See 'warren why bad.service'.\n\
                    Failed to start no.service: ";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("Failed to start missing.service: Unit missing.service not found."));
    assert!(said.ends_with("= 5\n"), "the highest status of all: {said}");
    for unit in ["good-1.service", "good-2.service"] {
        assert_eq!(m.state(unit), "active/running");
    }
    assert_eq!(warren(&m, "stop 'good-*'"), "= 0\n");
    assert_eq!(m.state("good-1.service"), "inactive/dead");
    assert_eq!(m.state("good-2.service"), "inactive/dead");
    assert_eq!(warren(&m, "stop 'nobody-*'"), "No unit matches nobody-*.\n= 0\n");
    let rows = warren(&m, "--json start good-2 good-1");
    let rows: Vec<&str> = rows.lines().collect();
    assert!(rows[0].contains("good-2.service") && rows[1].contains("good-1.service"), "{rows:?}");
    let before = m.main_pid("good-1.service");
    assert_eq!(warren(&m, "restart --dump 'good-*'"), "= 0\n");
    assert_eq!(m.state("good-1.service"), "active/running");
    assert_ne!(m.main_pid("good-1.service"), before);
    let before = m.main_pid("good-1.service");
    assert_eq!(warren(&m, "stop good-2"), "= 0\n");
    assert_eq!(warren(&m, "restart --dump good-2 good-1"), "= 0\n", "one is down");
    assert_eq!(m.state("good-2.service"), "active/running");
    assert_ne!(m.main_pid("good-1.service"), before);
}

/// By a link that the file does not name any more.
#[test]
fn a_unit_whose_alias_was_edited_away_is_not_enabled_by_it_after_a_reload() {
    let alias = "[Service]\nExecStart=@P stay\n[Install]\nAlias=other.service";
    let Some(m) = Machine::start("verbs-alias", &[("a.service", alias)]) else { return };
    assert_eq!(warren(&m, "-q enable a"), "= 0\n");
    assert!(warren(&m, "refresh").ends_with("= 0\n"));
    assert_eq!(warren(&m, "is-enabled a"), "enabled\n= 0\n");
    m.write("a.service", "[Service]\nExecStart=@P stay\n[Install]\nWantedBy=none.target");
    assert!(warren(&m, "refresh").ends_with("= 0\n"));
    assert_eq!(warren(&m, "is-enabled a"), "indirect\n= 0\n");
}

#[test]
fn the_default_target_is_what_its_link_says_without_a_reload() {
    let Some(m) = Machine::start("verbs-default", &[("other.target", "[Unit]\n")]) else { return };
    if !lab::has_systemctl("the_default_target_is_what_its_link_says_without_a_reload") {
        return;
    }
    assert_eq!(systemctl(&m, "get-default"), "default.target\n= 0\n");
    std::fs::remove_file(m.directory.join("units/default.target")).expect("it is there");
    for target in ["other.target", "basic.target"] {
        assert_eq!(systemctl(&m, &format!("-q set-default {target}")), "= 0\n");
        assert_eq!(systemctl(&m, "get-default"), format!("{target}\n= 0\n"));
    }
}

/// systemctl over the bus says the same, with the same status.
#[test]
fn what_is_not_there_is_neither_stopped_nor_restarted() {
    let units = [
        ("down.service", "[Service]\nExecStart=@P stay"),
        ("some@.service", "[Service]\nExecStart=@P stay"),
        ("faulty.service", "[Service]\nType=oneshot\nRemainAfterExit=yes"),
    ];
    let Some(m) = Machine::start("verbs-absent", &units) else { return };
    let has_systemctl = lab::has_systemctl("what_is_not_there_is_neither_stopped_nor_restarted");
    let check = |verb: &str, unit: &str, said: &str, status: i32| {
        let expected = format!("Failed to {verb} {unit}: {said}\n= {status}\n");
        assert_eq!(warren(&m, &format!("{verb} {unit}")), expected);
        assert_eq!(warren(&m, &format!("--no-block {verb} {unit}")), expected);
        if has_systemctl {
            let theirs = systemctl(&m, &format!("{verb} {unit}"));
            assert!(theirs.starts_with(&format!("Failed to {verb} {unit}: {said}\n")), "{theirs}");
        }
    };
    check("stop", "typo.service", "Unit typo.service not loaded.", 5);
    for verb in ["try-restart", "reload"] {
        check(verb, "typo.service", "Unit typo.service not found.", 5);
    }
    for verb in ["start", "stop", "try-restart"] {
        let said = "Unit name some@.service is missing the instance name.";
        check(verb, "some@.service", said, 1);
    }
    let said = "Unit faulty.service has a bad unit file setting.";
    check("try-restart", "faulty.service", said, 3);
    for verb in ["stop", "try-restart"] {
        assert_eq!(warren(&m, &format!("{verb} down")), "= 0\n");
    }
    let status = warren(&m, "status some@");
    assert_eq!(status, "warren: Unit name some@.service is missing the instance name.\n= 1\n");
}

/// It is loaded to see that, with both commands.
#[test]
fn what_nothing_has_led_to_and_has_a_file_or_needs_none_is_stopped_already() {
    let test = "what_nothing_has_led_to_and_has_a_file_or_needs_none_is_stopped_already";
    let units = [("some@.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("verbs-unloaded", &units) else { return };
    m.write("late-1.service", "[Service]\nExecStart=@P stay");
    m.write("late-2.service", "[Service]\nExecStart=@P stay");
    for line in ["some@1 some@1", "dev-no1.device no1.slice", "late-1", "some@2 --no-block"] {
        assert_eq!(warren(&m, &format!("stop {line}")), "= 0\n", "{line}");
    }
    if lab::has_systemctl(test) {
        for line in ["some@3 some@3", "dev-no2.device no2.slice", "late-2", "some@4 --no-block"] {
            assert_eq!(systemctl(&m, &format!("stop {line}")), "= 0\n", "{line}");
        }
    }
}

#[test]
fn one_wrong_name_keeps_nothing_from_being_done_for_the_others() {
    let units = [
        ("bad.service", "[Service]\nExecStart=@P exit:7"),
        ("web.service", "[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("verbs-wrong", &units) else { return };
    let not_found = "warren: Unit typo.service not found.\n= 1\n";
    m.job("start", "bad.service");
    lab::until("it has failed", || (m.state("bad.service") == "failed/failed").then_some(()));
    assert_eq!(warren(&m, "reset-failed typo bad"), not_found);
    assert_eq!(m.state("bad.service"), "inactive/dead");
    m.expect_job("start", "web.service", "done");
    assert_eq!(warren(&m, "mark web degraded --comment slow"), "= 0\n");
    assert_eq!(warren(&m, "clear typo web"), not_found);
    assert!(!warren(&m, "status web").contains("slow"));
    let said = warren(&m, "shutdown skip typo web");
    assert!(said.starts_with("warren: Unit typo.service not found.\nwarren: "), "{said}");
    let said = warren(&m, "is-enabled 'a b' web");
    assert!(said.starts_with("warren: unit a b.service: "), "{said}");
    assert!(said.ends_with("\nstatic\n= 1\n"), "{said}");
    let said = warren(&m, "status 'a b' web");
    assert!(said.contains("a b.service: ") && said.contains("● web.service\n"), "{said}");
    assert!(said.ends_with("= 1\n"), "{said}");
}

#[test]
fn a_job_that_is_not_waited_for_is_told_as_queued() {
    let units = [("slow.service", "[Service]\nType=notify\nExecStart=@P stay")];
    let Some(m) = Machine::start("verbs-queued", &units) else { return };
    let said = warren(&m, "--json start --no-block slow");
    assert!(said.contains(r#""result":"queued""#) && said.ends_with("= 0\n"), "{said}");
}

#[test]
fn a_start_that_was_refused_leaves_no_unit_behind() {
    let Some(m) = Machine::start("verbs-ghost", &[]) else { return };
    let asked = ["mark typo maintenance", "cat typo", "show typo", "why typo", "clear typo"];
    let asked = asked.into_iter().chain(["reset-failed typo", "shutdown skip typo"]);
    let check = || {
        for line in asked.clone() {
            assert_eq!(warren(&m, line), "warren: Unit typo.service not found.\n= 1\n", "{line}");
        }
        let failed = warren(&m, "list --failed --no-legend");
        let count = m.totals()["failed"].as_u64().expect("it is told");
        assert_eq!(failed.lines().count() as u64, count + 1, "{failed}");
    };
    check();
    let said = warren(&m, "start typo");
    assert_eq!(said, "Failed to start typo.service: Unit typo.service not found.\n= 5\n");
    check();
}

#[test]
fn a_name_without_a_unit_is_said_to_be_none_when_it_is_refreshed_or_masked() {
    let Some(m) = Machine::start("verbs-names", &[]) else { return };
    let said = warren(&m, "refresh typo");
    assert_eq!(said, "warren: Unit typo.service not found.\n= 1\n");
    m.write("late.service", "[Service]\nExecStart=@P stay");
    let said = warren(&m, "refresh late");
    assert!(said.starts_with("+ late.service\n") && said.ends_with("= 0\n"), "{said}");
    std::fs::remove_file(m.directory.join("units/late.service")).expect("it is there");
    let said = warren(&m, "refresh late");
    assert!(said.starts_with("- late.service\n") && said.ends_with("= 0\n"), "{said}");
    let said = warren(&m, "mask --runtime typo");
    assert!(said.starts_with("Unit typo.service does not exist, proceeding anyway.\n"), "{said}");
    assert!(said.contains("Created symlink ") && said.ends_with("= 0\n"), "{said}");
}

#[test]
fn a_unit_without_files_has_none_to_be_shown() {
    let wants = [("own.service", "[Unit]\nWants=gone.service\n[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("verbs-no-files", &wants) else { return };
    for unit in ["gone.service", "-.slice"] {
        let said = warren(&m, &format!("cat -- {unit}"));
        assert_eq!(said, format!("warren: No files found for {unit}.\n= 1\n"));
    }
}

#[test]
fn units_of_several_types_and_states_are_listed_together() {
    let units = [
        ("up.service", "[Service]\nExecStart=@P stay"),
        ("bad.service", "[Service]\nType=oneshot\nExecStart=/bin/false"),
        ("way.socket", "[Socket]\nListenStream=@D/way"),
        ("way.service", "[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("verbs-list", &units) else { return };
    warren(&m, "start up bad way.socket");
    let check = |options: &str, expected: &[&str]| {
        let listed =
            warren(&m, &format!("list --no-legend {options} up.service way bad way.socket"));
        let names = ["bad.service", "up.service", "way.socket"];
        let found: Vec<&str> = names.into_iter().filter(|name| listed.contains(name)).collect();
        assert_eq!(found, expected, "{options}: {listed}");
    };
    check("", &["bad.service", "up.service", "way.socket"]);
    check("-t service,socket", &["bad.service", "up.service", "way.socket"]);
    check("-t socket -t target", &["way.socket"]);
    check("--state failed,running", &["bad.service", "up.service"]);
    check("--state listening --failed", &["bad.service", "way.socket"]);
    let unknown = warren(&m, "list -t foo");
    assert!(unknown.contains("[possible values: service, ") && unknown.ends_with("= 2\n"));
    let unknown = m.try_call("List", &serde_json::json!({"type": "foo"}));
    let unknown = unknown.expect("it is answered");
    assert_eq!(unknown["parameters"]["message"], "Unknown unit type foo.");
}

#[test]
fn what_is_wrong_with_a_unit_file_is_shown_where_the_unit_is() {
    let units = [
        ("parse.service", "[Unit\nDescription=x\n"),
        ("empty.service", "[Unit]\nDescription=x\n[Service]\nType=simple\n"),
        ("value.service", "[Service]\nExecStart=@P stay\nRestart=often\n"),
    ];
    let Some(m) = Machine::start("verbs-faults", &units) else { return };
    let place = |unit: &str| format!("{}/units/{unit}.service", m.directory.display());
    for (unit, at, word) in [("parse", ":1:", "section"), ("empty", ": ", "ExecStart=")] {
        warren(&m, &format!("start {unit}"));
        let fault = format!("Fault: {}{at}", place(unit));
        for verb in ["status", "why"] {
            let said = warren(&m, &format!("{verb} {unit}"));
            let line = said.lines().find(|line| line.contains(&fault));
            assert!(line.is_some_and(|line| line.contains(word)), "{said}");
        }
    }
    for (unit, at) in [("parse", 1), ("value", 3)] {
        let answer = m.call("Verify", &serde_json::json!({"unit": format!("{unit}.service")}));
        let first = &answer["diagnostics"][0];
        assert_eq!((&first["path"], &first["line"]), (&place(unit).into(), &at.into()), "{answer}");
    }
    assert!(!warren(&m, "status value").contains("Fault:"), "it can be used");
}

/// As packages do it: what is noted counts until the unit is restarted, reloaded or down, and outlasts the manager.
#[test]
fn marked_units_are_restarted_or_reloaded() {
    const NAME: &str = "marked_units_are_restarted_or_reloaded";
    let reloads = "[Service]\nExecStart=@P stay\nExecReload=/bin/true\n";
    let plain = "[Service]\nExecStart=@P stay\n";
    let units =
        [("a.service", plain), ("b.service", reloads), ("c.service", plain), ("d.service", plain)];
    let Some(m) = Machine::start("verbs-marked", &units) else { return };
    if !lab::has_systemctl(NAME) {
        return;
    }
    let markers = |unit: &str| {
        systemctl(&m, &format!("show -p Markers --value {unit}")).replace("\n= 0\n", "")
    };
    let set =
        |unit: &str, words: &str| systemctl(&m, &format!("set-property {unit} 'Markers={words}'"));
    for unit in ["a.service", "b.service", "d.service"] {
        m.expect_job("start", unit, "done");
    }
    for (words, left) in [
        ("needs-restart", "needs-restart"),
        ("+needs-reload", "needs-reload needs-restart"),
        ("-needs-restart", "needs-reload"),
        ("needs-restart needs-reload", "needs-reload needs-restart"),
        ("", "needs-reload needs-restart"),
        ("needs-restart", "needs-restart"),
    ] {
        assert_eq!(set("a.service", words), "= 0\n");
        assert_eq!(markers("a.service"), left, "after {words:?}");
    }
    assert!(set("a.service", "+needs-restart needs-reload").contains("Bad marker syntax."));
    assert!(set("a.service", "bogus").contains("Unknown marker \"bogus\"."));
    for unit in ["b.service", "c.service", "d.service"] {
        assert_eq!(set(unit, "needs-reload"), "= 0\n");
    }
    assert_eq!(markers("c.service"), "", "it is down");
    // The end of a run is the end of what it needed.
    m.run(&["systemctl", "kill", "--signal=KILL", "d.service"]).expect("it runs");
    m.wait_for("d.service", "failed/failed");
    assert_eq!(markers("d.service"), "");
    let old = m.manager_pid();
    assert!(m.kill_manager());
    lab::until("another manager answers", || {
        (m.manager_pid() != old).then(|| m.try_call("Totals", &serde_json::json!({})))?
    });
    assert_eq!([markers("a.service"), markers("b.service")], ["needs-restart", "needs-reload"]);
    let pids = || ["a.service", "b.service"].map(|unit| m.main_pid(unit));
    let [a, b] = pids();
    assert_eq!(systemctl(&m, "reload-or-restart --marked"), "= 0\n");
    let [new_a, new_b] = pids();
    assert!(new_a != a && new_b == b, "{a:?} {new_a:?} {b:?} {new_b:?}");
    assert_eq!([markers("a.service"), markers("b.service")], ["", ""]);
    assert_eq!(m.state("c.service"), "inactive/dead");
    assert_eq!(systemctl(&m, "reload-or-restart --marked"), "= 0\n");
    assert_eq!(pids(), [new_a, new_b]);
}

#[test]
fn what_the_manager_logs_is_changed_while_it_runs_and_stays() {
    const NAME: &str = "what_the_manager_logs_is_changed_while_it_runs_and_stays";
    let failing = "[Service]\nExecStart=/bin/false\n";
    let Some(m) = Machine::start("verbs-log-level", &[("bad.service", failing)]) else { return };
    if !lab::has_systemctl(NAME) {
        return;
    }
    assert_eq!(systemctl(&m, "log-level"), "info\n= 0\n");
    assert_eq!(systemctl(&m, "log-target"), "auto\n= 0\n");
    let said = |what: &str| m.console().matches(what).count();
    let fail = || {
        m.expect_job("restart", "bad.service", "done");
        m.wait_for("bad.service", "failed/failed");
        // What is said of it is said before another question is answered.
        systemctl(&m, "log-level");
    };
    fail();
    let before = said("bad.service: ");
    assert!(before > 0, "{}", m.console());
    assert_eq!(systemctl(&m, "log-level crit"), "= 0\n");
    assert_eq!(systemctl(&m, "log-level"), "crit\n= 0\n");
    assert!(systemctl(&m, "log-target kmsg").contains("auto, console, journal or null"));
    fail();
    assert_eq!(said("bad.service: "), before);
    let old = m.manager_pid();
    assert!(m.kill_manager());
    lab::until("another manager answers", || {
        (m.manager_pid() != old).then(|| m.try_call("Totals", &serde_json::json!({})))?
    });
    assert_eq!(systemctl(&m, "log-level"), "crit\n= 0\n");
    fail();
    assert_eq!(said("bad.service: "), before);
    assert_eq!(systemctl(&m, "log-level info"), "= 0\n");
    assert_eq!(systemctl(&m, "log-target null"), "= 0\n");
    assert_eq!(systemctl(&m, "log-target"), "null\n= 0\n");
    fail();
    assert_eq!(said("bad.service: "), before);
    assert_eq!(systemctl(&m, "log-target console"), "= 0\n");
    fail();
    assert!(said("bad.service: ") > before, "{}", m.console());
}
