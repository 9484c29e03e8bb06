//! Units made by rules: they come and go with a reload, say why they are there, and a fault in one
//! rule changes nothing.

mod lab;

use lab::Machine;
use serde_json::{Value, json};

const RULES: &str = "\
template Service \"answering\" {
  ExecStart = \"@P stay\"
}
apply Service \"web\" to Container {
  import \"answering\"
  Description = \"web of \" + container.name + \" \" + container.vars.note
  WantedBy = \"all.target\"
  assign where container.vars.web
}
apply Service \"50-note\" to Container {
  drop_in_of = \"plain.service\"
  Environment = \"NOTE=\" + container.vars.note
  assign where container.vars.drop
}
";

const CONTAINERS: &str = "\
object Container \"a\" { vars.web = true; vars.note = \"one\" }
object Container \"b\" { vars.web = true; vars.note = \"two\" }
object Container \"c\" { vars.drop = true; vars.note = \"three\" }
";

fn start(name: &str) -> Option<Machine> {
    let plain = ("plain.service", "[Service]\nExecStart=@P stay");
    let m = Machine::start(name, &[plain, ("all.target", "[Unit]\nDescription=all")])?;
    m.write_rules("rules.conf", RULES);
    m.write_rules("containers.conf", CONTAINERS);
    check(
        &reload(&m, &json!({})),
        ["a-web.service b-web.service", "all.target plain.service", "", ""],
    );
    Some(m)
}

fn reload(m: &Machine, parameters: &Value) -> Value {
    m.call("ReloadConfiguration", parameters)
}

fn names(report: &Value, key: &str) -> String {
    let list = report[key].as_array().into_iter().flatten();
    let mut names: Vec<&str> = list.filter_map(Value::as_str).collect();
    names.sort_unstable();
    names.join(" ")
}

/// What a report says: added, changed, removed, to be restarted.
#[track_caller]
fn check(report: &Value, expected: [&str; 4]) {
    let keys = ["added", "changed", "removed", "needs_restart"];
    assert_eq!(keys.map(|key| names(report, key)), expected, "{report}");
}

/// `apply Service "web" rules.conf:4 Container 'a' containers.conf:1`
fn made_by(origin: &Value) -> String {
    let spot = |value: &Value| {
        let path = value["path"].as_str().unwrap_or_default();
        format!("{}:{}", path.rsplit('/').next().unwrap_or_default(), value["line"])
    };
    let (rule, target) = (origin["rule"].as_str().unwrap_or_default(), &origin["target"]);
    let name = target["name"].as_str().unwrap_or_default();
    format!("{rule} {} {name} {}", spot(origin), spot(target))
}

#[test]
fn units_of_rules_run_and_say_why_they_are_there() {
    let Some(m) = start("made") else { return };
    m.expect_job("start", "all.target", "done");
    m.wait_for("a-web.service", "active/running");
    let status = m.status("a-web.service");
    assert_eq!(status["description"], "web of a one");
    assert_eq!(status["file_state"], "generated");
    assert_eq!(status["files"], json!(["/run/warren/fleet/a-web.service"]));
    let why = "apply Service \"web\" rules.conf:4 Container 'a' containers.conf:1";
    assert_eq!(made_by(&status["made_by"][0]), why);
    let explained = m.call("Why", &json!({"unit": "a-web.service"}));
    assert_eq!(made_by(&explained["units"][0]["path"][0]["made_by"][0]), why);
    let drop_in = "apply Service \"50-note\" rules.conf:10 Container 'c' containers.conf:3";
    assert_eq!(made_by(&m.status("plain.service")["made_by"][0]), drop_in);

    let cat = m.call("Cat", &json!({"unit": "a-web.service"}));
    let text = cat["files"][0]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("# Made by apply Service \"web\""), "{text}");
    assert!(text.contains("/rules/rules.conf:2\nExecStart="), "{text}");
    let cat = m.call("Cat", &json!({"unit": "plain.service"}));
    let text = cat["files"][1]["text"].as_str().unwrap_or_default();
    assert!(text.contains("/rules/rules.conf:12\nEnvironment=NOTE=three\n"), "{text}");
}

#[test]
fn a_change_costs_what_it_changes() {
    let Some(m) = start("change") else { return };
    m.expect_job("start", "b-web.service", "done");
    check(&reload(&m, &json!({})), ["", "", "", ""]);
    check(&reload(&m, &json!({"full": true})), ["", "", "", ""]);
    let before = m.totals()["generation"].clone();
    // Lines move, nothing else: no unit differs.
    m.write_rules("rules.conf", &format!("// A comment.\n\n{RULES}"));
    check(&reload(&m, &json!({})), ["", "", "", ""]);
    assert_eq!(m.totals()["generation"], before);
    let made = made_by(&m.status("a-web.service")["made_by"][0]);
    assert!(made.contains("rules.conf:6"), "{made}");

    m.write_rules("containers.conf", &CONTAINERS.replace("two", "2").replace("\"a\"", "\"x\""));
    let expected = ["x-web.service", "all.target b-web.service", "a-web.service", ""];
    let plan = reload(&m, &json!({"dry_run": true, "rules_only": true}));
    check(&plan, expected);
    let of =
        |unit: &str| plan["made_by"].as_array().into_iter().flatten().find(|o| o["unit"] == unit);
    let why = "apply Service \"web\" rules.conf:6 Container 'x' containers.conf:1";
    assert_eq!(of("x-web.service").map(made_by).as_deref(), Some(why));
    assert!(of("a-web.service").is_some(), "{plan}");
    // The target's own file is nobody's rule: it wants one more unit, and one less.
    let all = of("all.target").cloned().unwrap_or_default();
    assert_eq!(all["through"], json!({"setting": "WantedBy", "unit": "a-web.service"}), "{plan}");
    assert!(made_by(&all).starts_with("apply Service \"web\" rules.conf:6"), "{plan}");
    // A plan is a plan.
    assert_eq!(m.totals()["generation"], before);
    assert_eq!(m.status("b-web.service")["description"], "web of b two");
    m.write("other.service", "[Service]\nExecStart=@P stay");
    check(&reload(&m, &json!({"rules_only": true})), expected);
    assert_eq!(m.status("b-web.service")["description"], "web of b 2");
    check(&reload(&m, &json!({})), ["other.service", "", "", ""]);

    let back = reload(&m, &json!({"rollback": before}));
    check(&back, ["a-web.service", "all.target b-web.service", "other.service x-web.service", ""]);
    let made = made_by(&m.status("b-web.service")["made_by"][0]);
    assert!(made.contains("containers.conf:2"), "{made}");
    // Set back stays set back, until somebody says otherwise.
    check(&reload(&m, &json!({})), ["", "", "", ""]);
    check(&reload(&m, &json!({"rules_only": true})), expected);
}

#[test]
fn nothing_is_said_of_a_unit_of_rules_that_a_link_is_for() {
    let Some(m) = start("link-for-made") else { return };
    for (unit, target, is_there) in
        [("l.service", "a-web.service", true), ("n.service", "no.service", false)]
    {
        m.write(unit, &format!("[Service]\nExecStart=@P stay\n[Install]\nWantedBy={target}"));
        let done = m.call("UnitFiles", &json!({"verb": "enable", "files": [unit]}));
        assert!(done["changes"].to_string().contains(target), "{done}");
        let is_missing = done["remarks"].to_string().contains("non-existent unit");
        assert_eq!(is_missing, !is_there, "{done}");
    }
}

#[test]
fn containers_come_and_go_with_their_files() {
    let Some(m) = start("files") else { return };
    m.write_rules("d.conf", "object Container \"d\" { vars.web = true; vars.note = \"new\" }\n");
    check(&reload(&m, &json!({})), ["d-web.service", "all.target", "", ""]);
    m.write_rules("d.conf", "object Container \"e\" { vars.web = true; vars.note = \"new\" }\n");
    check(&reload(&m, &json!({})), ["e-web.service", "all.target", "d-web.service", ""]);
    std::fs::remove_file(m.directory.join("rules/d.conf")).expect("it is there");
    check(&reload(&m, &json!({})), ["", "all.target", "e-web.service", ""]);
    check(&reload(&m, &json!({"full": true})), ["", "", "", ""]);
}

/// The error of a call.
fn refused(m: &Machine, parameters: &Value) -> String {
    let answer = m.try_call("ReloadConfiguration", parameters).unwrap_or_default();
    assert!(answer["error"].is_string(), "{answer}");
    answer["parameters"]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_fault_leaves_everything_as_it_was() {
    let Some(m) = start("fault") else { return };
    m.expect_job("start", "a-web.service", "done");
    let pid = m.main_pid("a-web.service");
    let before = m.totals()["generation"].clone();
    let throws = "apply Slice \"x\" to Container {\n  MemoryMax = 100 / container.vars.size\n  \
                  assign where container.vars.size == 0\n}\n";
    m.write_rules("throws.conf", throws);
    m.write_rules("containers.conf", &CONTAINERS.replace("\"two\" }", "\"2\"; vars.size = 0 }"));
    m.write("other.service", "[Service]\nExecStart=@P stay");
    for _ in 0..2 {
        let fault = refused(&m, &json!({}));
        assert!(fault.contains("Container 'b'") && fault.contains("throws.conf:2"), "{fault}");
    }
    assert!(refused(&m, &json!({"rules_only": true})).contains("Container 'b'"));
    assert_eq!(m.totals()["generation"], before);
    assert_eq!(m.status("b-web.service")["description"], "web of b two");
    // One unit's file can be read again all the same.
    check(&reload(&m, &json!({"unit": "other.service"})), ["other.service", "", "", ""]);

    // A manager that comes after this one goes on with the rules that were in force.
    assert!(m.kill_manager());
    assert_eq!(m.status("b-web.service")["description"], "web of b two");
    assert_eq!(
        (m.main_pid("a-web.service"), m.state("a-web.service").as_str()),
        (pid, "active/running")
    );
    assert!(refused(&m, &json!({})).contains("Container 'b'"));
    m.write_rules("throws.conf", "");
    check(&reload(&m, &json!({})), ["", "b-web.service", "", ""]);
}

#[test]
fn files_by_hand_come_before_rules_and_rules_before_generators() {
    let Some(m) = start("precedence") else { return };
    m.write("a-web.service", "[Unit]\nDescription=by hand\n[Service]\nExecStart=@P stay");
    m.write_generator("g", "printf '[Unit]\\nDescription=g\\n' > $1/b-web.service");
    let report = reload(&m, &json!({}));
    check(&report, ["", "a-web.service", "", ""]);
    let told = report["diagnostics"].to_string();
    assert!(told.contains("is hidden by") && told.contains("/units/a-web.service"), "{told}");
    assert!(told.contains("hides /run/systemd/generator/b-web.service"), "{told}");
    let by_hand = m.status("a-web.service");
    assert_eq!((&by_hand["description"], &by_hand["made_by"]), (&json!("by hand"), &json!([])));
    let why = "apply Service \"web\" rules.conf:4 Container 'a' containers.conf:1";
    assert_eq!(made_by(&by_hand["hides"][0]), why);
    assert_eq!(m.status("b-web.service")["description"], "web of b two");
    std::fs::remove_file(m.directory.join("units/a-web.service")).expect("it is there");
    check(&reload(&m, &json!({})), ["", "a-web.service", "", ""]);
    let made = m.status("a-web.service");
    assert_eq!((&made["description"], &made["hides"]), (&json!("web of a one"), &json!([])));
}

#[test]
fn systemctl_reads_them_as_files() {
    let Some(m) = start("systemctl") else { return };
    if !lab::has_systemctl("systemctl_reads_them_as_files") {
        return;
    }
    let shown = m.run(&["systemctl", "cat", "a-web.service"]).expect("cat works");
    assert!(shown.contains("# Made by apply Service") && shown.contains("ExecStart="), "{shown}");
    let shown = m.run(&["systemctl", "cat", "plain.service"]).expect("cat works");
    assert!(shown.contains("Environment=NOTE=three"), "{shown}");
    let state = m.run(&["systemctl", "is-enabled", "a-web.service"]).expect("it is");
    assert_eq!(state.trim(), "generated");
    let listed = m.run(&["systemctl", "list-unit-files", "*-web.service"]).expect("listed");
    assert!(listed.contains("a-web.service") && listed.contains("generated"), "{listed}");
    let refused = m.run(&["systemctl", "enable", "a-web.service"]).expect_err("it cannot be");
    assert!(refused.contains("made by apply Service"), "{refused}");
    m.write_rules("containers.conf", &CONTAINERS.replace("one", "first"));
    m.run(&["systemctl", "daemon-reload"]).expect("it works");
    let shown = m.run(&["systemctl", "cat", "a-web.service"]).expect("cat works");
    assert!(shown.contains("web of a first"), "{shown}");
}

/// How often the manager is killed while rules are edited.
const KILLS: u64 = 8;

/// What is known of a unit's rule once the manager that came after a crash has evaluated those in
/// force again.
fn rule_of(m: &Machine, unit: &str) -> String {
    lab::until("the rules are known again", || {
        let made_by = m.status(unit)["made_by"].clone();
        made_by[0].is_object().then(|| self::made_by(&made_by[0]))
    })
}

#[test]
fn after_a_crash_the_rules_in_force_stay_in_force() {
    let Some(m) = start("crash") else { return };
    m.expect_job("start", "a-web.service", "done");
    let pid = m.main_pid("a-web.service");
    let generation = m.totals()["generation"].clone();
    let why = "apply Service \"web\" rules.conf:4 Container 'a' containers.conf:1";
    m.write_rules("containers.conf", &CONTAINERS.replace("\"one\"", "\"edited\""));
    for _ in 0..2 {
        assert!(m.kill_manager());
        let status = m.status("a-web.service");
        assert_eq!(status["description"], "web of a one", "nobody reloaded");
        assert_eq!(m.main_pid("a-web.service"), pid);
        assert_eq!(m.totals()["generation"], generation);
        assert_eq!(rule_of(&m, "a-web.service"), why);
    }
    check(&reload(&m, &json!({})), ["", "a-web.service", "", ""]);
    assert_eq!(m.status("a-web.service")["description"], "web of a edited");
    assert!(m.kill_manager());
    assert_eq!(m.status("a-web.service")["description"], "web of a edited");
    // Nothing differs from what a generation in writing says.
    check(&reload(&m, &json!({})), ["", "", "", ""]);
    assert_eq!(rule_of(&m, "a-web.service"), why);
}

#[test]
fn a_manager_killed_over_an_edit_has_the_old_rules_or_the_new() {
    let Some(m) = start("killed") else { return };
    let mut instant = u64::from(std::process::id());
    for round in 0..KILLS {
        let notes = [round, round + 1].map(|note| format!("web of a {note}"));
        let text = |note: u64| CONTAINERS.replace("\"one\"", &format!("\"{note}\""));
        m.write_rules("containers.conf", &text(round));
        let settled = reload(&m, &json!({}));
        assert_eq!(m.status("a-web.service")["description"], *notes[0], "{settled}");
        m.write_rules("containers.conf", &text(round + 1));
        std::thread::scope(|scope| {
            scope.spawn(|| m.try_call("ReloadConfiguration", &json!({})));
            instant = instant.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            lab::pause(std::time::Duration::from_micros((instant >> 33) % 20_000));
            m.kill_manager();
        });
        let found = m.status("a-web.service")["description"].clone();
        assert!(notes.iter().any(|note| found == **note), "{found}");
        reload(&m, &json!({}));
        assert_eq!(m.status("a-web.service")["description"], *notes[1]);
        check(&reload(&m, &json!({})), ["", "", "", ""]);
        assert!(rule_of(&m, "a-web.service").contains("containers.conf:1"));
    }
}

/// A unit says what the files say that it was made from: a user who may not read those is not shown it.
#[test]
fn units_made_from_closed_files_are_closed() {
    use std::os::unix::fs::PermissionsExt;
    let Some(m) = start("rules-closed") else { return };
    let shown_to_other = || {
        let answer = lab::ask(&m.connect_as_other(), "Cat", &json!({"unit": "a-web.service"}));
        answer.expect("it is answered")["parameters"]["files"][0].clone()
    };
    let file = m.directory.join("rules/containers.conf");
    let close = |mode| {
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    assert!(shown_to_other()["text"].to_string().contains("web of a one"), "{}", shown_to_other());
    close(0o600);
    assert_eq!(shown_to_other()["withheld"], true, "{}", shown_to_other());
    let own = m.call("Cat", &json!({"unit": "a-web.service"}))["files"][0].clone();
    assert!(own["text"].to_string().contains("web of a one"), "{own}");
    // Who reads files asks for their paths: the manager writes them then.
    let path = own["path"].as_str().expect("it has a path").to_owned();
    let mode = || {
        m.run(&["systemctl", "cat", "a-web.service"]).expect("root reads it");
        std::fs::metadata(m.inside(&path)).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode(), 0o600);
    close(0o644);
    assert_eq!(mode(), 0o644);
}

/// Makes the other user the agent: he is who the machine's list of users says.
fn make_other_the_agent(m: &Machine) {
    let users =
        format!("root:x:0:0::/:/bin/sh\nwarren-agent:x:{0}:{0}::/:/bin/false\n", lab::OTHER_UID);
    std::fs::write(m.inside("/run/users"), users).expect("written");
    m.run(&["mount", "--bind", "/run/users", "/etc/passwd"]).expect("mount(8)");
}

/// He reports why units of rules failed. What other services write is not his to read.
#[test]
fn the_agent_reads_logs_of_units_of_rules_and_no_others() {
    let Some(m) = start("agent-logs") else { return };
    m.write(
        "other.service",
        "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo a secret; exit 7'\n",
    );
    m.write_rules(
        "told.conf",
        "object Service \"told\" {\n  Type = \"oneshot\"\n  ExecStart = \"/bin/sh -c 'echo a word; exit 7'\"\n}\n",
    );
    reload(&m, &json!({}));
    for unit in ["told.service", "other.service"] {
        m.expect_job("start", unit, "failed");
    }
    let unit = |name: &str| json!({"unit": name});
    let has = |answer: &Value, words: &str| answer.to_string().contains(words);
    lab::until("root sees both logs", || {
        let seen = |name: &str, words: &str| has(&m.call("Status", &unit(name))["log"], words);
        (seen("told.service", "a word") && seen("other.service", "a secret")).then_some(())
    });
    let agent = m.connect_as_other();
    let asked = |method: &str, parameters: &Value| {
        let answer = lab::ask(&agent, method, parameters).expect("an answer");
        assert!(answer["error"].is_null(), "{method} {parameters}: {answer}");
        answer["parameters"].clone()
    };
    // Before he is the agent he is anybody.
    let status = asked("Status", &unit("told.service"));
    assert!(!has(&status["log"], "a word") && status["log_withheld"] == true, "{status}");
    make_other_the_agent(&m);
    let status = asked("Status", &unit("told.service"));
    assert!(has(&status["log"], "a word") && status["log_withheld"] != true, "{status}");
    let status = asked("Status", &unit("other.service"));
    assert!(has(&status["log"], "[]") && status["log_withheld"] == true, "{status}");
    let why = asked("Why", &json!({}));
    assert!(has(&why, "other.service") && has(&why, "told.service"), "{why}");
    assert!(has(&why, "a word") && !has(&why, "a secret"), "{why}");
    let why = asked("Why", &unit("other.service"));
    assert!(has(&why, "other.service") && !has(&why, "a secret"), "{why}");
}

#[test]
fn the_agent_puts_rules_into_force_without_being_root() {
    let Some(m) = start("agent") else { return };
    m.expect_job("start", "plain.service", "done");
    let agent = m.connect_as_other();
    let asked = |method: &str, parameters: Value| {
        let answer = lab::ask(&agent, method, &parameters).expect("an answer");
        answer["error"].as_str().unwrap_or_default().to_owned()
    };
    let rules_only = json!({"rules_only": true, "texts": true});
    let denied = "io.warrener.AccessDenied";
    assert_eq!(asked("ReloadConfiguration", rules_only.clone()), denied);
    make_other_the_agent(&m);
    m.write_rules(
        "more.conf",
        "object Container \"d\" { vars.web = true; vars.note = \"four\" }\n",
    );
    assert_eq!(asked("ReloadConfiguration", rules_only), "");
    let jobs = |job: &str, unit: &str| json!({"units": [unit], "type": job});
    // What is not denied is told that it has several answers.
    let served = "org.varlink.service.ExpectedMore";
    assert_eq!(asked("Jobs", jobs("start", "d-web.service")), served);
    for (method, parameters) in [
        ("ReloadConfiguration", json!({})),
        ("Jobs", jobs("stop", "all.target")),
        ("Jobs", jobs("start", "nothing.service")),
        ("Job", json!({"unit": "d-web.service", "type": "stop"})),
        ("Kill", json!({"unit": "d-web.service"})),
        ("Leave", json!({"how": "poweroff"})),
    ] {
        assert_eq!(asked(method, parameters), denied, "{method}");
    }
    // A unit of which rules make a drop-in counts as theirs, one that they do not touch does not.
    assert_eq!(asked("Jobs", jobs("try-restart", "plain.service")), served);
    m.write("other.service", "[Service]\nExecStart=/bin/true\n");
    m.call("ReloadConfiguration", &json!({}));
    assert_eq!(asked("Jobs", jobs("start", "other.service")), denied);
}
