//! Why units are as they are, as the manager tells it.

mod lab;

use lab::{Machine, until};
use serde_json::json;

#[test]
fn what_was_wanted_in_vain_tells_whose_fault_it_is() {
    let units = [
        ("main.target", "[Unit]\nWants=top.service"),
        ("top.service", "[Unit]\nRequires=middle.service\n[Service]\nExecStart=@P stay"),
        ("middle.service", "[Unit]\nRequires=gone.service\n[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("in-vain", &units) else { return };
    m.expect_job("start", "main.target", "done");
    let path = |unit: &str| {
        let why = m.call("Why", &json!({"unit": unit}));
        let steps = why["units"][0]["path"].as_array().expect("a path").clone();
        let step =
            |step: &serde_json::Value| format!("{} {}", step["name"], step["reason"]["code"]);
        steps.iter().map(step).collect::<Vec<_>>()
    };
    assert_eq!(
        path("top.service"),
        ["\"top.service\" \"WR-0062\"", "\"gone.service\" \"WR-0080\""],
        "{}",
        m.console()
    );
    let told = "top.service: WR-0062 skipped as an optional dependency";
    assert!(m.console().contains(told), "{}", m.console());
    assert!(m.console().contains("Unit gone.service not found."), "{}", m.console());
    let all = m.call("Why", &json!({}))["units"].to_string();
    assert!(all.contains("gone.service") && all.contains("top.service"), "{all}");

    // Once it can be, it is, and nothing is told any more.
    m.write("gone.service", "[Service]\nExecStart=@P stay");
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", "main.target", "done");
    m.wait_for("top.service", "active/running");
    assert_eq!(m.call("Why", &json!({}))["units"].as_array().map(Vec::len), Some(0));
}

/// What was left out of a circle says which; who waits does not explain what it waits for; who a command kept from
/// running says so.
#[test]
fn what_is_left_out_what_starts_and_what_is_skipped_speak_for_themselves() {
    let units = [
        ("main.target", "[Unit]\nWants=a.service"),
        ("a.service", "[Unit]\nWants=b.service\nAfter=b.service\n[Service]\nExecStart=@P stay"),
        ("b.service", "[Unit]\nWants=c.service\nAfter=c.service\n[Service]\nExecStart=@P stay"),
        ("c.service", "[Unit]\nWants=a.service\nAfter=a.service\n[Service]\nExecStart=@P stay"),
        (
            "waits.service",
            "[Unit]\nWants=slow.service\nAfter=slow.service\n[Service]\nExecStart=@P stay",
        ),
        ("slow.service", "[Service]\nType=oneshot\nExecStart=@P stay"),
        ("no.service", "[Service]\nExecCondition=/bin/false\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("speak", &units) else { return };
    let why = |unit: &str| m.call("Why", &json!({"unit": unit}))["units"][0]["path"].clone();
    m.expect_job("start", "main.target", "done");
    let left_out = &why("c.service")[0];
    assert_eq!(left_out["reason"]["code"], "WR-0091", "{left_out}");
    assert!(
        left_out["refusal"]["text"].as_str().is_some_and(|text| text.contains("b.service -> c"))
    );
    let all = m.call("Why", &json!({}))["units"].to_string();
    assert!(all.contains("c.service"), "{all}");

    m.try_call("Job", &json!({"unit": "waits.service", "type": "start", "wait": false}));
    m.wait_for("slow.service", "activating/start");
    for unit in ["slow.service", "waits.service"] {
        let path = why(unit);
        let root = path.as_array().and_then(|path| path.last()).expect("a path");
        assert_eq!(root["name"], "slow.service", "{path}");
        assert!(!path.to_string().contains("WR-0001"), "{path}");
    }

    m.job("start", "no.service");
    let skipped = &why("no.service")[0];
    assert_eq!(skipped["reason"]["code"], "WR-0030", "{skipped}");
    assert!(skipped["command_ended"].as_str().is_some_and(|text| text.contains("ExecCondition")));
}

/// A start that was refused leaves its reason, through a kill of the manager too; one that is not
/// refused takes it away.
#[test]
fn a_refused_start_is_remembered() {
    let units = [
        ("top.service", "[Unit]\nRequires=gone.service\n[Service]\nExecStart=@P stay"),
        ("a.service", "[Unit]\nRequires=b.service\nAfter=b.service\n[Service]\nExecStart=@P stay"),
        ("b.service", "[Unit]\nRequires=a.service\nAfter=a.service\n[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("refused-starts", &units) else { return };
    let refused = |unit: &str| {
        let ended = m.job("start", unit);
        assert!(matches!(ended, lab::Ended::Refused(_)), "{ended:?}");
    };
    let first = |unit: &str| m.call("Why", &json!({"unit": unit}))["units"][0]["path"][0].clone();
    refused("top.service");
    refused("a.service");
    let look = || {
        let top = first("top.service");
        assert_eq!(top["reason"]["code"], "WR-0062", "{top}");
        assert_eq!(top["refusal"]["text"], "Unit gone.service not found.", "{top}");
        assert!(top["refusal"]["at"].is_u64() && top["refusal"]["by"]["uid"] == 0, "{top}");
        let circle = first("a.service");
        assert_eq!(circle["reason"]["code"], "WR-0091", "{circle}");
        assert!(circle["refusal"]["text"].to_string().contains("b.service -> "), "{circle}");
        let all = m.call("Why", &json!({}))["units"].to_string();
        assert!(all.contains("gone.service") && all.contains("WR-0091"), "{all}");
    };
    look();
    assert!(m.kill_manager());
    look();

    m.write("gone.service", "[Service]\nExecStart=@P stay");
    m.write("b.service", "[Service]\nExecStart=@P stay");
    m.call("ReloadConfiguration", &json!({}));
    for unit in ["top.service", "a.service"] {
        m.expect_job("start", unit, "done");
        assert!(first(unit)["refusal"].is_null(), "{}", first(unit));
    }
    assert_eq!(m.call("Why", &json!({}))["units"].as_array().map(Vec::len), Some(0));
}

/// What is not met is named, as it is when one asks and as it was; what needs a unit that is down leads to it, and what
/// nobody asked for to the socket that would have.
#[test]
fn what_stands_in_the_way_is_named() {
    let conditions =
        "ConditionPathExists=/run/there\nConditionPathExists=|/run/a\nConditionPathExists=|!/run\n";
    let skipped = format!("[Unit]\n{conditions}[Service]\nExecStart=@P stay");
    let units = [
        ("skipped.service", &*skipped),
        ("down.service", "[Service]\nExecStart=@P stay"),
        (
            "needs.service",
            "[Unit]\nRequisite=down.service\nAfter=down.service\n[Service]\nExecStart=@P stay",
        ),
        ("s.socket", "[Socket]\nListenStream=/proc/s"),
        ("s.service", "[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("named", &units) else { return };
    let path = |unit: &str| m.call("Why", &json!({"unit": unit}))["units"][0]["path"].clone();
    m.expect_job("start", "skipped.service", "done");
    let all = [
        "ConditionPathExists=/run/there",
        "ConditionPathExists=|/run/a",
        "ConditionPathExists=|!/run",
    ];
    assert_eq!(path("skipped.service")[0]["unmet"], json!(all));
    std::fs::write(m.inside("/run/a"), "").expect("a file");
    assert_eq!(path("skipped.service")[0]["unmet"], json!(all[..1]), "one of two will do");
    std::fs::write(m.inside("/run/there"), "").expect("a file");
    assert_eq!(path("skipped.service")[0]["unmet"], json!([]));
    // The first decided: what `|` is before was not looked at any more.
    assert_eq!(path("skipped.service")[0]["unmet_then"], json!(all[..1]));

    m.expect_job("start", "needs.service", "dependency");
    m.expect_job("start", "s.socket", "failed");
    for (unit, root) in [("needs.service", "down.service"), ("s.service", "s.socket")] {
        assert_eq!(path(unit)[1]["name"], root, "{}", path(unit));
    }
    assert!(path("down.service")[0]["unmet"].is_null());
}

/// Who asked for it explains nothing of that; and what was wanted and cannot be is trouble, of which nothing else tells.
#[test]
fn what_its_own_file_keeps_down_explains_itself() {
    let wants = "[Unit]\nWants=skipped.service assert.service bad.service needs.service command.service \
                 first.service second.service";
    let units = [
        ("main.target", wants),
        ("skipped.service", "[Unit]\nConditionPathExists=/nope\n[Service]\nExecStart=@P stay"),
        ("assert.service", "[Unit]\nAssertPathExists=/nope\n[Service]\nExecStart=@P stay"),
        ("bad.service", "[Service]\nType=simple"),
        ("idle-bad.service", "[Service]\nType=simple"),
        (
            "needs.service",
            "[Unit]\nRequisite=down.service\nAfter=down.service\n[Service]\nExecStart=@P stay",
        ),
        ("down.service", "[Service]\nExecStart=@P stay"),
        (
            "command.service",
            "[Unit]\nConditionPathExists=/\n[Service]\nExecCondition=/bin/false\nExecStart=@P stay",
        ),
        ("first.service", "[Unit]\nConflicts=second.service\n[Service]\nExecStart=@P stay"),
        ("second.service", "[Service]\nExecStart=@P stay"),
        ("reloads.service", "[Service]\nExecStart=@P stay\nExecReload=/bin/false"),
        ("fails.service", "[Service]\nType=oneshot\nExecStart=/bin/false"),
    ];
    let Some(m) = Machine::start("own-file", &units) else { return };
    m.expect_job("start", "main.target", "done");
    let path = |unit: &str| {
        let why = m.call("Why", &json!({"unit": unit}));
        why["units"][0]["path"].as_array().expect("a path").clone()
    };
    until("all is looked at", || {
        let codes = ["skipped", "assert", "command"].map(|unit| {
            path(&format!("{unit}.service"))[0]["reason"]["code"].as_str() != Some("WR-0001")
        });
        (codes == [true; 3]).then_some(())
    });
    for (unit, code) in [("skipped", "WR-0030"), ("assert", "WR-0031"), ("bad", "WR-0082")] {
        let path = path(&format!("{unit}.service"));
        assert_eq!((path.len(), &path[0]["reason"]["code"]), (1, &json!(code)), "{path:?}");
    }
    let named = |unit: &str| path(unit)[1]["name"].clone();
    assert_eq!(path("second.service")[0]["reason"]["code"], "WR-0062");
    assert_eq!(
        (named("second.service"), named("needs.service")),
        (json!("first.service"), json!("down.service"))
    );
    let all = m.call("Why", &json!({}))["units"].clone();
    let mut roots: Vec<&str> =
        all.as_array().into_iter().flatten().filter_map(|root| root["unit"].as_str()).collect();
    roots.sort_unstable();
    assert_eq!(roots, ["assert.service", "bad.service", "down.service", "first.service"], "{all}");

    let command = &path("command.service")[0];
    assert!(command["unmet"].is_null() && command["unmet_then"].is_null(), "{command}");
    assert!(command["command_ended"].as_str().is_some_and(|it| it.starts_with("ExecCondition= ")));

    // Nobody has looked at what an edit put in the place of what was not met.
    assert_eq!(path("skipped.service")[0]["unmet_then"], json!(["ConditionPathExists=/nope"]));
    m.write("skipped.service", "[Unit]\nConditionPathExists=/other\n[Service]\nExecStart=@P stay");
    m.call("ReloadConfiguration", &json!({}));
    let skipped = &path("skipped.service")[0];
    assert_eq!(skipped["unmet"], json!(["ConditionPathExists=/other"]));
    assert_eq!(skipped["unmet_then"], json!([]));

    // A reload that failed is forgotten when the service is down.
    m.expect_job("start", "reloads.service", "done");
    m.expect_job("reload", "reloads.service", "failed");
    assert_eq!(path("reloads.service")[0]["lost_job"]["type"], "reload");
    m.expect_job("stop", "reloads.service", "done");
    assert!(path("reloads.service")[0]["lost_job"].is_null());

    // What has failed is counted though its file is gone.
    m.expect_job("start", "fails.service", "failed");
    std::fs::remove_file(m.directory.join("units/fails.service")).expect("it is there");
    m.call("ReloadConfiguration", &json!({}));
    let top = m.call("Top", &json!({}));
    assert_eq!(
        (&top["failed_total"], &top["failed"][0]["unit"]),
        (&json!(1), &json!("fails.service"))
    );
}

#[test]
fn a_restart_may_have_a_dump_first() {
    let Some(m) = Machine::start("dump", &[("a.service", "[Service]\nExecStart=@P stay")]) else {
        return;
    };
    m.expect_job("start", "a.service", "done");
    let before = m.main_pid("a.service");
    m.call("Kill", &json!({"unit": "a.service", "whom": "main", "signal": 6}));
    m.expect_job("restart", "a.service", "done");
    m.wait_for("a.service", "active/running");
    assert_ne!(m.main_pid("a.service"), before);
    assert!(m.console().contains("SIGABRT"), "{}", m.console());
    let wrong = m.try_call("Kill", &json!({"unit": "a.service", "signal": 99}));
    assert!(wrong.is_some_and(|answer| answer["error"].is_string()));
}

/// What is up without its device says so, where nobody looks for devices.
#[test]
fn what_is_up_without_its_device_says_so() {
    let user = "[Unit]\nBindsTo=dev-sdx.device\nAfter=dev-sdx.device\nRequires=dev-sdy.device\n\
                Wants=dev-sdz.device\n[Service]\nExecStart=@P stay";
    let units = [("user.service", user), ("other.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("deviceless", &units) else { return };
    let told = |unit: &str| m.call("Why", &json!({"unit": unit}))["units"][0]["path"][0].clone();
    assert!(told("user.service")["device"].is_null(), "it is down");
    m.expect_job("start", "user.service", "done");
    m.expect_job("start", "other.service", "done");
    let words = told("user.service")["device"].to_string();
    assert!(
        words.contains("dev-sdx.device, dev-sdy.device: warren-deviced is not running"),
        "{words}"
    );
    assert!(told("other.service")["device"].is_null());
}

/// What is under way says for how long, by which process, and how long it may yet.
#[test]
fn a_start_that_is_under_way_tells_its_time() {
    let units = [
        ("slow.service", "[Service]\nType=oneshot\nTimeoutStartSec=600\nExecStart=@P stay"),
        ("ever.service", "[Service]\nType=oneshot\nExecStart=@P stay"),
        ("next.service", "[Unit]\nAfter=slow.service\n[Service]\nExecStart=@P stay"),
        ("brief.service", "[Service]\nRuntimeMaxSec=50ms\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("under-way", &units) else { return };
    for unit in ["slow.service", "ever.service", "next.service"] {
        m.call("Job", &json!({"type": "start", "unit": unit, "wait": false}));
    }
    for unit in ["slow.service", "ever.service"] {
        m.wait_for(unit, "activating/start");
    }
    let told = |unit: &str| {
        let path = m.call("Why", &json!({"unit": unit}))["units"][0]["path"].clone();
        path.as_array().and_then(|path| path.last()).cloned().unwrap_or_default()
    };
    let slow = &until("it has a process", || {
        let slow = told("slow.service")["under_way"].clone();
        slow["process"].is_string().then_some(slow)
    });
    let (so_far, left) = (slow["so_far_us"].as_u64(), slow["left_us"].as_u64());
    // Two clocks are read, so it is not the limit to the last microsecond.
    let whole = so_far.zip(left).map(|(so_far, left)| (so_far + left) / 1_000_000);
    assert!(matches!(whole, Some(599..=600)), "{slow}");
    assert!(slow["process"].as_str().is_some_and(|name| name.starts_with("pid ")), "{slow}");
    let ever = &told("ever.service")["under_way"];
    assert!(ever["so_far_us"].is_u64() && ever["left_us"].is_null(), "{ever}");
    assert_eq!(told("next.service")["name"], "slow.service");

    m.expect_job("start", "brief.service", "done");
    m.wait_for("brief.service", "failed/failed");
    let brief = told("brief.service");
    assert_eq!(brief["reason"]["code"], "WR-0045", "{brief}");
    assert!(brief["reason"]["cure"].is_string() && brief["since"].is_u64(), "{brief}");
    assert!(brief["under_way"].is_null(), "{brief}");
}

/// Each of those that it waits for has to end; and what takes long is told of though nobody waits for it.
#[test]
fn all_that_is_waited_for_is_named_and_so_is_what_takes_long() {
    let ever = "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=@P stay";
    let waits = "[Unit]\nRequires=fails.service\nAfter=fails.service\n[Service]\nExecStart=@P stay";
    let units = [
        ("one.service", ever),
        ("two.service", ever),
        ("alone.service", ever),
        ("fails.service", "[Service]\nType=oneshot\nExecStart=/bin/false"),
        ("all.target", "[Unit]\nWants=one.service two.service\nAfter=one.service two.service"),
        ("app.service", waits),
        (
            "asks.service",
            "[Unit]\nWants=alone.service\nAfter=alone.service\n[Service]\nExecStart=@P stay",
        ),
    ];
    let Some(m) = Machine::start("all-waits", &units) else { return };
    for unit in ["all.target", "asks.service", "app.service"] {
        m.call("Job", &json!({"type": "start", "unit": unit, "wait": false}));
    }
    m.wait_for("fails.service", "failed/failed");
    for unit in ["one.service", "two.service", "alone.service"] {
        m.wait_for(unit, "activating/start");
    }
    let all = m.call("Why", &json!({}))["units"].clone();
    let impact = |unit: &str| {
        let found = all.as_array().and_then(|all| all.iter().find(|root| root["unit"] == unit));
        found.unwrap_or_else(|| panic!("no {unit}: {all}"))["impact"].clone()
    };
    assert_eq!(
        (impact("one.service"), impact("two.service")),
        (json!(["all.target"]), json!(["all.target"]))
    );
    impact("fails.service");
    let step = &m.call("Why", &json!({"unit": "all.target"}))["units"][0]["path"][0];
    let named = (&step["waits_for"], &step["waits_for_also"], &step["waits_for_more"]);
    assert_eq!(named, (&json!("one.service"), &json!(["two.service"]), &json!(0)));

    // Nobody waits for it any more; who did explains nothing of how far it is.
    m.expect_job("stop", "asks.service", "done");
    assert_eq!(m.state("alone.service"), "activating/start");
    let path = m.call("Why", &json!({"unit": "alone.service"}))["units"][0]["path"].clone();
    assert_eq!(path.as_array().map(Vec::len), Some(1), "{path}");
    until("it takes long", || {
        let all = m.call("Why", &json!({}))["units"].clone();
        all.as_array()?.iter().find(|root| root["unit"] == "alone.service").map(drop)
    });
}

/// Who asked for it may still wait for another, which did not bring it up.
#[test]
fn who_is_up_is_explained_by_who_brought_it_up_alone() {
    let units = [
        ("boot.service", "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=@P stay"),
        ("slow.service", "[Service]\nExecStart=@P stay"),
        ("all.target", "[Unit]\nWants=boot.service slow.service\nAfter=boot.service slow.service"),
    ];
    let Some(m) = Machine::start("brought-up", &units) else { return };
    m.call("Job", &json!({"type": "start", "unit": "all.target", "wait": false}));
    m.wait_for("boot.service", "activating/start");
    m.wait_for("slow.service", "active/running");
    let path = m.call("Why", &json!({"unit": "slow.service"}))["units"][0]["path"].clone();
    let names = path.as_array().expect("a path").iter().map(|step| step["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["slow.service", "all.target"], "{path}");
    let path = m.call("Why", &json!({"unit": "all.target"}))["units"][0]["path"].clone();
    assert_eq!(path[1]["name"], "boot.service", "{path}");
}

/// A start that waits tells for whom, and one whose place a stop took tells whose stop that was.
#[test]
fn a_waiting_and_a_cancelled_start_are_explained() {
    let first = "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=@P stay";
    let next = "[Unit]\nRequires=first.service\nAfter=first.service\n[Service]\nExecStart=@P stay";
    let units = [("first.service", first), ("next.service", next)];
    let Some(m) = Machine::start("cancelled", &units) else { return };
    m.call("Job", &json!({"type": "start", "unit": "next.service", "wait": false}));
    m.wait_for("first.service", "activating/start");
    let step = || m.call("Why", &json!({"unit": "next.service"}))["units"][0]["path"][0].clone();
    assert_eq!(step()["waits_for"], "first.service", "{}", step());

    m.expect_job("stop", "first.service", "done");
    let lost = step()["lost_job"].clone();
    assert_eq!((&lost["type"], &lost["result"]), (&json!("start"), &json!("canceled")), "{lost}");
    assert_eq!(lost["reason"]["code"], "WR-0070");
    assert_eq!(lost["reason"]["cause"]["unit"], "first.service", "{lost}");
    // It never began to start: that is why it is down, and not that nobody asked for it.
    assert_eq!(step()["reason"], lost["reason"]);
}

fn remarks(m: &Machine, unit: &str) -> Vec<String> {
    let status = m.status(unit);
    let said = status["remarks"].as_array().expect("a list").clone();
    said.iter().map(|remark| format!("{} {}", remark["of"], remark["text"])).collect()
}

#[test]
fn what_is_put_aside_stays_down_until_it_is_cleared() {
    let units = [
        ("db.service", "[Service]\nExecStart=@P stay"),
        (
            "web.service",
            "[Unit]\nRequires=db.service\nAfter=db.service\n[Service]\nExecStart=@P stay",
        ),
        (
            "flaky.service",
            "[Unit]\nStartLimitBurst=1\n[Service]\nRestart=always\nRestartSec=0\nExecStart=@P exit 1\n\
             [X-Warren]\nMaintenance=start-limit",
        ),
    ];
    let Some(m) = Machine::start("put-aside", &units) else { return };
    m.expect_job("start", "web.service", "done");
    let mark = |kind: &str| {
        let said = json!({"unit": "db.service", "as": kind, "comment": "OPS-1000\nnew disks"});
        m.try_call("Mark", &said).expect("an answer")
    };
    assert!(mark("degraded")["error"].is_null());
    assert_eq!(remarks(&m, "db.service"), ["\"degraded\" \"OPS-1000 new disks\""]);
    assert!(mark("maintenance")["error"].is_null());
    m.wait_for("db.service", "failed/maintenance");
    m.wait_for("web.service", "inactive/dead");

    m.kill_manager();
    let start = json!({"type": "start", "unit": "web.service"});
    let refused = until("the next manager answers", || m.try_call("Job", &start)).to_string();
    assert!(refused.contains("DependencyRefused"), "{refused}");
    assert!(refused.contains("db.service is in maintenance"), "{refused}");
    let reset = m.try_call("ResetFailed", &json!({"unit": "db.service"})).expect("an answer");
    assert!(reset["error"].is_string(), "{reset}");
    m.call("ResetFailed", &json!({}));
    assert_eq!(m.state("db.service"), "failed/maintenance");
    let why = m.call("Why", &json!({"unit": "db.service"})).to_string();
    assert!(why.contains("OPS-1000 new disks") && why.contains("\"uid\":0"), "{why}");

    m.call("Clear", &json!({"unit": "db.service"}));
    assert_eq!(m.state("db.service"), "inactive/dead");
    m.expect_job("start", "web.service", "done");

    m.expect_job("start", "flaky.service", "done");
    m.wait_for("flaky.service", "failed/maintenance");
    let reason = m.status("flaky.service")["reason"]["code"].clone();
    assert_eq!(
        (reason, remarks(&m, "flaky.service")),
        (json!("WR-0048"), vec!["\"maintenance\" \"\"".to_owned()])
    );
}

#[test]
fn comments_stay_until_what_they_are_of_is_undone() {
    let service = "[Service]\nExecStart=@P stay\n[Install]\nWantedBy=default.target";
    let Some(m) = Machine::start("comments", &[("a.service", service)]) else { return };
    m.expect_job("start", "a.service", "done");
    let said = json!({"type": "stop", "unit": "a.service", "comment": "until Monday"});
    m.try_call("Job", &said);
    m.kill_manager();
    assert_eq!(remarks(&m, "a.service"), ["\"stop\" \"until Monday\""]);
    m.expect_job("start", "a.service", "done");
    assert_eq!(remarks(&m, "a.service"), [""; 0]);

    let verb = |verb: &str, comment: serde_json::Value| {
        let files = json!({"verb": verb, "files": ["a.service"], "comment": comment});
        m.call("UnitFiles", &files);
        m.call("ReloadConfiguration", &json!({}));
    };
    verb("disable", json!("too slow"));
    assert_eq!(remarks(&m, "a.service"), ["\"disable\" \"too slow\""]);
    assert!(m.directory.join("units/.a.service.remark").exists());
    verb("enable", json!(null));
    assert_eq!(remarks(&m, "a.service"), [""; 0]);
}

/// Whoever has a service that fails again and again reads it: how often, what ended it, when it is
/// tried next; also while it happens to run.
#[test]
fn what_restart_starts_again_tells_how_often_and_what_ended_it() {
    let units = [
        (
            "waits.service",
            "[Unit]\nStartLimitIntervalSec=2h\nStartLimitBurst=7\n[Service]\nRestart=on-failure\n\
             RestartSec=1h\nExecStart=@P exit:4",
        ),
        (
            "again.service",
            "[Service]\nRestart=on-failure\nRestartSec=0\nExecStart=/bin/sh -c 'test -e @D/out/was && \
             exec @P stay; touch @D/out/was; exit 3'",
        ),
    ];
    let Some(m) = Machine::start("restarts", &units) else { return };
    let step = |unit: &str| m.call("Why", &json!({"unit": unit}))["units"][0]["path"][0].clone();
    m.call("Job", &json!({"type": "start", "unit": "waits.service", "wait": false}));
    m.wait_for("waits.service", "activating/auto-restart");
    let waits = step("waits.service");
    assert_eq!(waits["reason"]["code"], "WR-0040", "{waits}");
    assert_eq!((&waits["restart"]["count"], &waits["restart"]["waits"]), (&json!(0), &json!(true)));
    let left = waits["restart"]["next_in_us"].as_u64().expect("it is known when");
    assert!((1..=3_600_000_000).contains(&left), "{waits}");
    assert!(waits["ended"].as_str().is_some_and(|e| e.ends_with("exited with code 4")), "{waits}");
    let limit = json!({"starts": 1, "burst": 7, "interval_us": 7_200_000_000u64});
    assert_eq!(m.status("waits.service")["restart"]["limit"], limit);

    m.call("Job", &json!({"type": "start", "unit": "again.service", "wait": false}));
    let again = until("it runs again", || {
        Some(step("again.service")).filter(|step| step["reason"]["code"] == "WR-0012")
    });
    assert_eq!(again["restart"]["count"], 1, "{again}");
    let before = &again["restart"]["before"];
    assert_eq!(before["reason"]["code"], "WR-0040", "{again}");
    assert!(before["ended"].as_str().is_some_and(|e| e.ends_with("exited with code 3")), "{again}");
    let all = m.call("Why", &json!({}))["units"].to_string();
    assert!(all.contains("waits.service") && all.contains("again.service"), "{all}");

    let top = m.call("Top", &json!({}))["restarting"].to_string();
    assert!(top.contains("waits.service") && top.contains("WR-0040"), "{top}");

    // Who asks for it anew begins a new count.
    m.expect_job("restart", "again.service", "done");
    assert!(step("again.service")["restart"].is_null());
    assert_eq!(m.call("Why", &json!({}))["units"].as_array().map(Vec::len), Some(1));
}

/// The first line is the root cause, and what stands below it says enough to mend it.
#[test]
fn the_root_is_whose_fault_it_is_and_says_what_it_was() {
    let never = "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=@P stay";
    let late = "[Unit]\nAfter=never.service\nJobTimeoutSec=100ms\n[Service]\nExecStart=@P stay";
    let units = [
        ("limit.socket", "[Socket]\nListenStream=/run/limit"),
        ("limit.service", "[Unit]\nStartLimitBurst=2\n[Service]\nExecStart=@P exit:7"),
        ("broken.socket", "[Socket]\nListenStream=/run/broken"),
        ("broken.service", "[Unit]\nRequires=gone.service\n[Service]\nExecStart=@P serve"),
        ("alone.socket", "[Socket]\nListenStream=/run/alone"),
        ("down.service", "[Service]\nExecStart=@P stay"),
        (
            "needs.service",
            "[Unit]\nRequisite=down.service\nAfter=down.service\n[Service]\nExecStart=@P stay",
        ),
        ("never.service", never),
        (
            "puller.service",
            "[Unit]\nWants=never.service\nAfter=never.service\n[Service]\nExecStart=@P stay",
        ),
        ("late.service", late),
        ("pre.service", "[Service]\nExecStartPre=@P exit:2\nExecStart=@P stay"),
        ("stop.service", "[Service]\nExecStart=@P stay\nExecStop=@P exit:5"),
        (
            "pre-post.service",
            "[Service]\nExecStartPre=@P exit:9\nExecStart=@P stay\nExecStopPost=@P exit:7",
        ),
        (
            "pre-well.service",
            "[Service]\nExecStartPre=@P exit:8\nExecStart=@P stay\nExecStopPost=/bin/true",
        ),
        (
            "post.service",
            "[Service]\nType=oneshot\nExecStart=/bin/true\nExecStartPost=@P exit:6\n\
             ExecStopPost=/bin/true",
        ),
        (
            "main.service",
            "[Service]\nType=oneshot\nExecStartPre=-@P exit:4\nExecStart=@P exit:3\n\
             ExecStopPost=@P exit:7",
        ),
        ("mute.service", "[Service]\nType=notify\nTimeoutStartSec=100ms\nExecStart=@P stay"),
        (
            "says.service",
            "[Service]\nType=notify\nTimeoutStartSec=500ms\nExecStart=@P status:busy stay",
        ),
        ("out.service", "[Service]\nStandardOutput=append:/none/out\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("roots", &units) else { return };
    let path = |unit: &str| {
        let why = m.call("Why", &json!({"unit": unit}));
        why["units"][0]["path"].as_array().expect("a path").clone()
    };
    let root = |unit: &str| path(unit).pop().expect("itself at least");
    let code = |unit: &str| root(unit)["reason"]["code"].clone();

    // A socket whose service ends at once over and over.
    m.expect_job("start", "limit.socket", "done");
    let connect = |path: &str| drop(std::os::unix::net::UnixStream::connect(m.inside(path)));
    connect("/run/limit");
    m.wait_for("limit.socket", "failed/failed");
    for unit in ["limit.socket", "limit.service"] {
        let root = root(unit);
        assert_eq!(
            (&root["name"], &root["reason"]["code"]),
            (&json!("limit.service"), &json!("WR-0048"))
        );
        assert!(
            root["ended"].as_str().is_some_and(|it| it.ends_with("exited with code 7")),
            "{root}"
        );
        assert!(root["reason"]["cure"].to_string().contains("reset-failed limit.service"));
    }
    // One whose service cannot be started at all is not told to have started it too often.
    m.expect_job("start", "broken.socket", "done");
    connect("/run/broken");
    m.wait_for("broken.socket", "failed/failed");
    assert_eq!(path("broken.socket")[0]["reason"]["code"], "WR-0060");
    assert_eq!(root("broken.socket")["name"], "gone.service");
    m.expect_job("start", "alone.socket", "failed");
    assert_eq!(root("alone.socket")["detail"], "alone.service is not there");

    m.expect_job("start", "needs.service", "dependency");
    assert_eq!((path("needs.service").len(), code("needs.service")), (2, json!("WR-0001")));

    m.call("Job", &json!({"type": "start", "unit": "puller.service", "wait": false}));
    m.wait_for("never.service", "activating/start");
    m.expect_job("start", "late.service", "timeout");
    assert_eq!(path("late.service")[0]["reason"]["code"], "WR-0072");
    assert_eq!(root("late.service")["name"], "never.service");

    m.expect_job("start", "pre.service", "failed");
    m.expect_job("start", "stop.service", "done");
    m.expect_job("stop", "stop.service", "done");
    // The first that failed is the cause, and no main process that did its work.
    for unit in ["pre-post.service", "pre-well.service", "post.service", "main.service"] {
        m.expect_job("start", unit, "failed");
    }
    let main = root("main.service");
    assert!(main["command_ended"].is_null(), "{main}");
    assert!(main["ended"].as_str().is_some_and(|it| it.ends_with("exited with code 3")), "{main}");
    assert!(root("post.service")["ended"].is_null(), "{}", root("post.service"));
    for (unit, what) in [
        ("pre", ("ExecStartPre=", 2)),
        ("stop", ("ExecStop=", 5)),
        ("pre-post", ("ExecStartPre=", 9)),
        ("pre-well", ("ExecStartPre=", 8)),
        ("post", ("ExecStartPost=", 6)),
    ] {
        let told = root(&format!("{unit}.service"))["command_ended"].clone();
        let is_told = |text: &str| {
            text.starts_with(what.0) && text.ends_with(&format!("exited with code {}", what.1))
        };
        assert!(told.as_str().is_some_and(is_told), "{told}");
    }

    m.expect_job("start", "mute.service", "failed");
    assert_eq!(root("mute.service")["detail"], "READY=1 was not heard");
    m.expect_job("start", "says.service", "failed");
    assert_eq!(root("says.service")["detail"], "busy", "its own words say more");
    m.call("Job", &json!({"type": "start", "unit": "out.service", "wait": false}));
    m.wait_for("out.service", "failed/failed");
    let detail = root("out.service")["detail"].to_string();
    assert!(detail.contains("open /none/out: No such file"), "{detail}");
}

/// Held back is who was to be up and is not for this: not who has done its work, or was taken down itself.
#[test]
fn what_a_unit_holds_back_is_what_was_to_be_up() {
    let fails = "[Service]\nType=oneshot\nExecStart=@P exit:1";
    let needs =
        |unit: &str| format!("[Unit]\nRequires={unit}\nAfter={unit}\n[Service]\nExecStart=@P stay");
    let (of_fails, of_unneeded) = (needs("fails.service"), needs("unneeded.service"));
    let units = [
        ("fails.service", fails),
        (
            "beside.service",
            "[Unit]\nRequires=fails.service\n[Service]\nType=oneshot\nExecStart=/bin/true",
        ),
        ("after.service", &*of_fails),
        ("unneeded.service", "[Unit]\nStopWhenUnneeded=yes\n[Service]\nExecStart=@P stay"),
        ("uses.service", &*of_unneeded),
        ("mnt-bad.mount", "[Mount]\nWhat=/none\nWhere=/mnt/bad\nType=nonesuch"),
        ("below.service", "[Unit]\nRequiresMountsFor=/mnt/bad/below\n[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("held-back", &units) else { return };
    let held = |unit: &str| m.call("Why", &json!({"unit": unit}))["units"][0]["impact"].clone();
    m.expect_job("start", "beside.service", "done");
    m.wait_for("fails.service", "failed/failed");
    m.expect_job("start", "after.service", "dependency");
    assert_eq!(held("fails.service"), json!(["after.service"]));
    let all = m.call("Why", &json!({}))["units"].to_string();
    assert!(all.contains("after.service") && !all.contains("beside.service"), "{all}");

    m.expect_job("start", "uses.service", "done");
    m.expect_job("stop", "uses.service", "done");
    m.wait_for("unneeded.service", "inactive/dead");
    assert_eq!(held("unneeded.service"), json!([]));

    m.expect_job("start", "below.service", "dependency");
    assert_eq!(held("mnt-bad.mount"), json!(["below.service"]));
}

/// systemd.unit(5), "ConditionEnvironment=": the block that `systemctl set-environment` changes.
#[test]
fn a_condition_on_the_environment_sees_what_was_set_and_unset() {
    if !lab::has_systemctl("a_condition_on_the_environment_sees_what_was_set_and_unset") {
        return;
    }
    let unit = "[Unit]\nConditionEnvironment=COLOUR=red\n[Service]\nExecStart=@P stay";
    let Some(m) = Machine::start("set-environment", &[("a.service", unit)]) else { return };
    m.expect_job("start", "a.service", "done");
    assert_eq!(m.state("a.service"), "inactive/dead");
    m.run(&["systemctl", "set-environment", "COLOUR=red"]).expect("it is set");
    m.expect_job("start", "a.service", "done");
    assert_eq!(m.state("a.service"), "active/running");
    m.run(&["systemctl", "unset-environment", "COLOUR"]).expect("it is unset");
    m.expect_job("stop", "a.service", "done");
    m.expect_job("start", "a.service", "done");
    let path = m.call("Why", &json!({"unit": "a.service"}))["units"][0]["path"].clone();
    assert_eq!(path[0]["unmet"], json!(["ConditionEnvironment=COLOUR=red"]), "{path}");
}
