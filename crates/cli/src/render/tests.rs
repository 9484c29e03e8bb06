use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

const PLAIN: Style = Style { colour: false };
const COLOUR: Style = Style { colour: true };

/// Compares with the golden file; `UPDATE_GOLDEN=1` writes it.
#[track_caller]
fn check(name: &str, got: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, got).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).expect("the golden file is there");
    assert_eq!(got, expected, "{name}");
}

fn row(name: &str, load: &str, active: &str, sub: &str, description: &str) -> Value {
    json!({"name": name, "load": load, "active": active, "sub": sub, "description": description})
}

fn rows() -> Vec<Value> {
    vec![
        row("a.service", "loaded", "active", "running", "A"),
        row("longer-name.socket", "loaded", "failed", "failed", "The socket"),
        row("ghost.service", "not-found", "inactive", "dead", "ghost.service"),
        row("b.mount", "loaded", "activating", "mounting", "B"),
    ]
}

/// An answer as it is read, so that what is written down here is what a manager sends.
fn read<A: DeserializeOwned>(answer: &Value) -> A {
    serde_json::from_value(answer.clone()).expect("it is an answer")
}

fn list(rows: &[&Value], style: Style, legend: bool, columns_max: Option<usize>) -> String {
    let rows: Vec<UnitRow> = rows.iter().map(|row| read(row)).collect();
    super::list(&rows.iter().collect::<Vec<_>>(), style, legend, columns_max)
}

fn status(unit: &Value, now_us: u64, style: Style) -> String {
    super::status(&read(unit), now_us, style)
}

fn show(unit: &Value) -> String {
    super::show(&read(unit))
}

fn file(file: &Value, is_terminal: bool, style: Style) -> String {
    super::file(&read(file), is_terminal, style)
}

fn refresh(answer: &Value, dry_run: bool, style: Style) -> String {
    super::refresh(&read(answer), dry_run, style)
}

fn totals(answer: &Value, style: Style) -> String {
    super::totals(&read(answer), style)
}

fn shutdown(answer: &Value, machine: Option<&str>) -> String {
    super::shutdown(&read(answer), machine)
}

/// Of the manager that is asked without `-M`.
fn why(answer: &Value, style: Style) -> String {
    super::why(&read(answer), style, None)
}

#[test]
fn a_list_fits_the_terminal_and_longer_names_are_shortened_before_descriptions_go() {
    let long = "run-containers-0123456789abcdef0123456789abcdef.mount";
    let rows = [row(long, "loaded", "active", "mounted", "A mount of a container")];
    let rows: Vec<&Value> = rows.iter().collect();
    let lines = |columns| list(&rows, PLAIN, false, columns);
    assert_eq!(lines(None), format!("  {long} loaded active mounted A mount of a container\n"));
    let narrow = "  run-containers-0123456789abcdef012… loaded active mounted A mount o…\n";
    assert_eq!(lines(Some(70)), narrow);
    assert!(lines(Some(20)).starts_with("  run-containers-0123… loaded"));
}

fn service() -> Value {
    json!({
        "name": "web.service", "load": "loaded", "active": "active", "sub": "running",
        "description": "The web", "files": ["/etc/web.service", "/etc/web.service.d/x.conf"],
        "file_state": "enabled", "since": 1_795_000_000_000_000u64, "main_pid": 12,
        "status_text": "serving", "result": "success", "restarts": 2,
        "processes": [{"pid": 12, "command": "/usr/bin/web --port 80"},
                      {"pid": 13, "command": "worker"}],
        "memory": 5_242_880u64, "cpu_ns": 81_000_000u64, "tasks": 3,
        "cgroup": "/system.slice/web.service",
        "job": {"id": 7, "type": "reload", "running": true},
        "reason": {"code": "WR-0010", "text": "started by a start job"},
        "log": ["line one", "line two"],
    })
}

#[test]
fn lists_look_as_systemctl_users_expect() {
    let rows = rows();
    let rows: Vec<&Value> = rows.iter().collect();
    check("list", &list(&rows, PLAIN, true, None));
    check("list-colour", &list(&rows, COLOUR, true, None));
    let long = row("a.service", "loaded", "active", "running", &"long ".repeat(360));
    let narrow = list(&[&long], PLAIN, true, Some(60));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    assert!(narrow.contains(" running long long long long long …\n"), "{narrow}");
    assert!(narrow.ends_with("\n1 unit listed.\n"), "{narrow}");
    check("list-no-legend", &list(&rows, PLAIN, false, None));
}

#[test]
fn status_shows_all_that_is_known() {
    let now_us = 1_795_000_000_000_000 + 5_000_000;
    check("status", &status(&service(), now_us, PLAIN));
    check("status-colour", &status(&service(), now_us, COLOUR));
    let mut withheld = service();
    (withheld["log"], withheld["log_withheld"]) = (json!([]), json!(true));
    check("status-log-withheld", &status(&withheld, now_us, PLAIN));
    let failed = json!({
        "name": "x.service", "load": "loaded", "active": "failed", "sub": "failed",
        "description": "x.service", "files": ["/x"], "result": "exit-code",
        "since": 1_795_000_000_000_000u64 - 7_200_000_000,
    });
    check("status-failed", &status(&failed, now_us, PLAIN));
    let mut socket = row("web.socket", "loaded", "active", "listening", "Web");
    socket["triggers"] = json!([{"name": "web.service", "active": "active"}]);
    socket["documentation"] = json!(["man:web(8)", "https://example.org/web"]);
    socket["listen"] =
        json!([{"kind": "Stream", "address": "[::]:80"}, {"kind": "FIFO", "address": "/run/f"}]);
    socket["connections"] = json!({"now": 2, "accepted": 17, "refused": 1});
    let mut mount = row("srv.mount", "loaded", "active", "mounted", "srv.mount");
    mount["triggered_by"] =
        (0..20).map(|n| json!({"name": format!("{n}.automount"), "active": "inactive"})).collect();
    (mount["where"], mount["what"]) = (json!("/srv"), json!("tmpfs"));
    check("status-socket", &status(&socket, now_us, PLAIN));
    check("status-mount", &status(&mount, now_us, PLAIN));
    let missing = row("ghost.service", "not-found", "inactive", "dead", "ghost.service");
    check("status-not-found", &status(&missing, now_us, PLAIN));
}

#[test]
fn what_services_and_files_say_is_no_word_to_the_terminal() {
    let evil = "\x1b]0;title\x07\x1b[2J\r\n\u{9b}31mred";
    let mut unit = service();
    for key in ["description", "status_text", "cgroup"] {
        unit[key] = json!(evil);
    }
    unit["files"] = json!([evil, evil]);
    unit["processes"] = json!([{"pid": 12, "command": evil}]);
    unit["log"] = json!([evil]);
    unit["remarks"] = json!([{"of": "stop", "text": evil, "by": {"uid": 0}}]);
    check("status-cleaned", &status(&unit, 1_795_000_000_000_000, PLAIN));
    let row = row("a.service", "loaded", "active", "running", evil);
    let path = json!({"name": "a.service", "active": "failed", "sub": "failed", "detail": evil,
        "reason": {"code": "WR-0001", "text": "it failed"}, "log": [evil]});
    let shown = [
        list(&[&row], PLAIN, true, None),
        show(&unit),
        why(&json!({"units": [{"path": [path]}]}), PLAIN),
        refresh(&json!({"diagnostics": [{"path": evil, "message": evil}]}), false, PLAIN),
        shutdown(&json!({"inhibitors": [{"who": evil, "why": evil}]}), None),
    ];
    for text in shown {
        let is_forbidden = |c: char| c.is_control() && c != '\n';
        assert!(text.contains("title") && !text.contains(is_forbidden), "{text:?}");
    }
}

#[test]
fn files_are_shown_as_they_are_but_to_a_terminal() {
    let shown = |text: &str, is_terminal| {
        file(&json!({"path": "/a\x1b.service", "text": text}), is_terminal, PLAIN)
    };
    assert_eq!(shown("[Unit]\n\tx\x1b[2J", true), "# /a .service\n[Unit]\n\tx [2J\n");
    assert_eq!(shown("[Unit]\n\tx\x1b[2J\n", false), "# /a .service\n[Unit]\n\tx\x1b[2J\n");
    let withheld = json!({"path": "/a", "text": "", "withheld": true});
    assert!(file(&withheld, false, PLAIN).starts_with("# /a\n# not shown: "));
    let unread = json!({"path": "/a", "text": "", "unread": "Input/output error (os error 5)"});
    assert!(file(&unread, true, PLAIN).ends_with("read it: Input/output error (os error 5)\n"));
}

#[test]
fn show_prints_properties() {
    check("show", &show(&service()));
}

#[test]
fn why_tells_how_long_it_has_taken_and_may_take() {
    let root = |name: &str, active: &str, sub: &str, going: Value| {
        json!({"unit": name, "impact": [], "path": [{
            "name": name, "active": active, "sub": sub, "since": 1_795_000_000_000_000u64,
            "under_way": going,
            "reason": {"code": "WR-0010", "text": "started by a start job",
                       "cause": {"kind": "request", "uid": 0, "pid": 44}},
        }]})
    };
    let going = |so_far_us: u64, left_us: Option<u64>, process: Option<&str>| json!({"so_far_us": so_far_us, "left_us": left_us, "process": process});
    let mut held = root("held.service", "inactive", "dead", going(4_000_000, None, None));
    let left = json!({"unit": "left.service", "path": "/run/files/never"});
    held["path"][0]["removal"] = left;
    let under_way = json!({"units": [
        root("slow.service", "activating", "start-pre",
             going(12_300_000, Some(77_700_000), Some("pid 7 migrate"))),
        root("never.service", "activating", "start", going(3_700_000_000, None, None)),
        root("rel.service", "reloading", "reload", going(2_000_000, Some(88_000_000), None)),
        root("bye.service", "deactivating", "stop-sigterm", going(900_000, Some(1_000_000), None)),
        root("dev-sdx.device", "inactive", "dead", going(30_000_000, Some(60_000_000), None)),
        root("ready.service", "active", "running", Value::Null),
        held,
    ]});
    check("why-under-way", &why(&under_way, PLAIN));
}

/// Where the root is as it should be, what clears it is told of the unit that is not.
#[test]
fn why_tells_what_clears_it() {
    let step = |name: &str, active: &str, code: &str, text: &str, cure: &str| {
        json!({"name": name, "active": active, "sub": active,
               "reason": {"code": code, "text": text, "cure": cure, "cause": null}})
    };
    let excluded = json!({"unit": "a.service", "impact": [], "path": [
        step("a.service", "inactive", "WR-0065", "a unit named in ExcludeAll= is active", "stop that unit first"),
        step("b.service", "active", "WR-0010", "started by a start job", ""),
    ]});
    let mut stopped = step("c.service", "failed", "WR-0040", "a process left", "see its log");
    stopped["command_ended"] = json!("ExecStop= command 9 exited with code 5");
    stopped["ended"] = json!("main process 8 was killed by SIGTERM");
    let failed = json!({"unit": "c.service", "impact": [], "path": [stopped]});
    check("why-cure", &why(&json!({"units": [excluded, failed]}), PLAIN));
}

#[test]
fn why_starts_at_the_root_cause() {
    let answer = json!({"units": [{
    "unit": "web.service",
    "impact": ["proxy.service", "site.target"],
    "path": [
        {"name": "web.service", "active": "inactive", "sub": "dead",
         "remarks": [{"of": "mask", "by": {"uid": 7}, "text": "moved"}],
         "reason": {"code": "WR-0060", "text": "a unit that it requires failed to start",
                    "cure": "fix that unit",
                    "cause": {"kind": "dependency", "unit": "db.service"}}},
        {"name": "db.service", "active": "failed", "sub": "failed", "detail": "No such file",
         "log": ["Nov 23 02:01:18 host db[44]: the last words",
                 "Nov 23 02:01:19 host warrend[4]: Failed to start db.service"],
         "ended": "main process 44 exited with code 3",
         "lost_job": {"type": "stop", "result": "canceled",
                      "reason": {"code": "WR-0070", "text": "a later request replaced its job",
                                 "cause": {"kind": "request", "uid": 1, "pid": 9}}},
         "reason": {"code": "WR-0051", "text": "its program could not be executed",
                    "cure": "check the path, the user and the permissions",
                    "cause": {"kind": "request", "uid": 0, "pid": 44}}},
    ]}]});
    check("why", &why(&answer, PLAIN));
    let by = json!({"kind": "request", "uid": 0, "pid": 7});
    let masked = "Unit gone.service is masked.";
    let refused = json!({"units": [
        {"unit": "top.service", "impact": [], "path": [
            {"name": "top.service", "active": "inactive", "sub": "dead",
             "refusal": {"text": masked, "at": 1_795_000_000_000_000u64, "by": by},
             "reason": {"code": "WR-0062", "text": "it was wanted and not started, as a unit that \
                        it requires cannot be", "cause": {"kind": "dependency", "unit": "gone.service"}}},
            {"name": "gone.service", "active": "inactive", "sub": "dead",
             "reason": {"code": "WR-0081", "text": "the unit is masked", "cure": "unmask it"}},
        ]},
        {"unit": "a.service", "impact": [], "path": [
            {"name": "a.service", "active": "inactive", "sub": "dead",
             "refusal": {"text": "Transaction order is cyclic: a.service -> b.service -> a.service",
                         "at": 1_795_000_000_000_000u64, "by": by},
             "reason": {"code": "WR-0091", "text": "its start was refused: jobs that it needs wait for \
                        each other in a circle", "cause": by, "cure": "take an After= or Before= of the \
                        circle away"}},
        ]},
    ]});
    check("why-refused", &why(&refused, PLAIN));
    let skipped = |unmet: Option<&[&str]>, then: &[&str]| {
        let path = json!([{"name": "a.service", "active": "inactive", "sub": "dead", "unmet": unmet,
            "unmet_then": then,
            "since": 1_795_000_000_000_000u64,
            "reason": {"code": "WR-0030", "text": "skipped: a condition was not met",
                       "cause": by, "cure": "see the Condition*= settings of the unit"}}]);
        why(&json!({"units": [{"unit": "a.service", "impact": [], "path": path}]}), PLAIN)
    };
    let unmet = ["ConditionPathExists=/nope", "ConditionHost=!db"];
    let then = &unmet[..1];
    let known = skipped(Some(&unmet), then) + &skipped(Some(&[]), &[]) + &skipped(Some(&[]), then);
    let by_command = json!([{"name": "a.service", "active": "inactive", "sub": "dead", "unmet": null,
        "command_ended": "ExecCondition= command 44 exited with code 1",
        "reason": {"code": "WR-0030", "text": "skipped: a condition was not met"}}]);
    let by_command = json!({"units": [{"unit": "a.service", "impact": [], "path": by_command}]});
    let unknown = skipped(None, then) + &skipped(None, &[]);
    check("why-skipped", &(known + &unknown + &why(&by_command, PLAIN)));
    let stopping = json!({"units": [], "stopping": true, "unwritten_bytes": 412 << 20, "waits": [
        {"unit": "db.service", "phase": "stop-sigterm", "process": "pid 7 postgres",
         "so_far_us": 2_500_000, "left_us": 87_500_000},
        {"unit": "mnt.mount", "phase": "unmounting", "so_far_us": 100_000},
        {"unit": "srv-a.mount", "phase": "unmounting", "server": "/srv (nfs4 of host:/export)",
         "so_far_us": 100_000, "left_us": 89_900_000},
    ]});
    check("why-stopping", &why(&stopping, PLAIN));
    check("why-nothing", &why(&json!({"units": []}), PLAIN));
    let planned =
        |left_us| json!({"what": "power off", "left_us": left_us, "message": "new disks"});
    let locks = json!([{"who": "backup", "why": "half done", "uid": 0, "pid": 7}]);
    let held = json!({"units": [], "planned": planned(0), "inhibitors": locks});
    check("why-inhibited", &why(&held, PLAIN));
    let nothing = why(&json!({"units": []}), PLAIN);
    let later = json!({"units": [], "planned": planned(1), "inhibitors": locks});
    assert_eq!(why(&later, PLAIN), nothing, "it is not due");
}

#[test]
fn refresh_prints_the_delta() {
    let answer = json!({
        "generation": 4, "added": ["n.service"], "changed": ["c.service"], "removed": ["r.socket"],
        "needs_restart": ["c.service"], "took_us": 4310, "loop_us": 198,
        "diagnostics": [{"path": "/etc/c.service", "line": 3, "column": 1, "severity": "warning",
                         "code": "unknown-setting", "message": "no setting is called Foo"}],
    });
    check("refresh", &refresh(&answer, false, PLAIN));
    check("refresh-dry-run", &refresh(&answer, true, PLAIN));
}

#[test]
fn totals_are_short() {
    let answer = json!({
        "version": "(warrener 0.1.0)", "loaded": 4018, "by_state": {"active": 2010, "inactive": 2008},
        "by_type": {"mount": 1000, "service": 1000}, "jobs": 0, "failed": 0, "generation": 3,
        "stopping": false, "load_us": 84_000, "startup_us": 310_000, "resident_bytes": 21_000_000,
        "pid": 2, "state": "running", "started": true,
    });
    check("totals", &totals(&answer, PLAIN));
    let mut starting = answer;
    (starting["state"], starting["started"]) = (json!("starting"), json!(false));
    let shown = totals(&starting, PLAIN);
    assert!(shown.starts_with("● starting\n"), "{shown}");
    assert!(shown.contains("    Start: 84.00 ms to load, not up yet\n"), "{shown}");
}

#[test]
fn dates_are_those_of_the_calendar() {
    let at = |seconds: u64| date(seconds * 1_000_000);
    assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
    assert_eq!(at(951_782_399), "2000-02-28 23:59:59 UTC");
    assert_eq!(at(951_782_400), "2000-02-29 00:00:00 UTC");
    assert_eq!(at(4_107_542_399), "2100-02-28 23:59:59 UTC");
    assert_eq!(at(4_107_542_400), "2100-03-01 00:00:00 UTC");
}

#[test]
fn a_file_by_hand_says_which_rule_it_hides() {
    let mut unit = service();
    unit["hides"] = json!([{"rule": "apply Service \"web\"", "path": "r.conf", "line": 3,
        "target": {"name": "Container 'shop'", "path": "c.conf", "line": 1}}]);
    let shown = status(&unit, 1_795_000_000_000_000, PLAIN);
    let line = "      Hides: what apply Service \"web\" (r.conf:3) for Container 'shop' (c.conf:1) makes\n";
    assert!(shown.contains(line), "{shown}");
}

fn failing(active: &str, sub: &str, restart: Value) -> Value {
    json!({
        "name": "flaky.service", "load": "loaded", "active": active, "sub": sub,
        "description": "flaky.service", "files": ["/x"], "result": "exit-code",
        "ended": "main process 44 exited with code 1", "restart": restart,
        "since": 1_795_000_000_000_000u64,
        "reason": {"code": "WR-0040", "text": "a process exited with a failure status",
                   "cure": "see its last log lines", "cause": {"kind": "kernel"}},
    })
}

#[test]
fn what_is_started_again_says_how_often_and_when() {
    let limit = json!({"starts": 3, "burst": 5, "interval_us": 10_000_000});
    let before = json!({
        "reason": {"code": "WR-0046", "text": "no watchdog message within WatchdogSec="},
        "ended": "main process 43 was killed by signal 6", "at": 1_794_999_999_000_000u64,
    });
    let waiting = json!({"count": 2, "waits": true, "next_in_us": 1_250_000, "limit": limit,
                         "before": before});
    let queued = json!({"count": 0, "waits": true, "next_in_us": null, "limit": null});
    let running = json!({"count": 17, "waits": false, "limit": limit, "before": before});
    let now_us = 1_795_000_000_000_000 + 1_000_000;
    let (mut texts, states) = (String::new(), [("activating", "auto-restart"); 2]);
    for ((active, sub), restart) in states.into_iter().zip([waiting, queued]) {
        let unit = failing(active, sub, restart);
        texts += &status(&unit, now_us, PLAIN);
        texts += &why(&json!({"units": [{"unit": "flaky.service", "path": [unit]}]}), PLAIN);
    }
    let mut unit = failing("active", "running", running);
    unit["result"] = json!("success");
    unit["main_pid"] = json!(45);
    unit["reason"] = json!({"code": "WR-0012", "text": "restarted by Restart=", "cure": "",
                            "cause": {"kind": "restart"}});
    texts += &status(&unit, now_us, PLAIN);
    texts += &why(&json!({"units": [{"unit": "flaky.service", "path": [unit]}]}), PLAIN);
    check("restarts", &texts);
}

#[test]
fn a_shutdown_tells_what_comes_when_all_jobs_are_over() {
    let told = |jobs: u64| shutdown(&json!({"stopping": true, "jobs": jobs}), None);
    assert_eq!(told(2), "Shutting down: 2 jobs left.\n");
    assert_eq!(told(1), "Shutting down: 1 job left.\n");
    let over = "Shutting down: all jobs done, stopping the last processes.\n";
    assert_eq!(told(0), over);
    let follows = json!({"stopping": true, "jobs": 1, "follows": "reboot"});
    assert_eq!(shutdown(&follows, None), "Shutting down: 1 job left, then reboot.\n");
    let planned = |left_us: u64, message: &str| {
        let planned = json!({"what": "power off", "left_us": left_us, "message": message});
        let told = shutdown(&json!({"planned": planned}), None);
        told.lines().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(planned(0, "bye"), "Scheduled, due now: power off. bye");
    assert_eq!(planned(2_000_000, ""), "Scheduled in 2.00 s: power off.");
    let hint = |machine: Option<&str>| {
        let planned = json!({"what": "reboot", "left_us": 2_000_000});
        let told = shutdown(&json!({"planned": planned}), machine);
        told.lines().nth(2).unwrap_or_default().to_owned()
    };
    assert_eq!(hint(None), "To cancel it: warren shutdown --cancel");
    assert_eq!(hint(Some("lab")), "To cancel it: warren -M lab shutdown --cancel");
    let elsewhere = json!({"mode": "reboot", "left_us": 60_000_000});
    let told = shutdown(&json!({"planned_by_logind": elsewhere}), None);
    assert!(told.contains("Planned by systemd-logind in 1min 0s: reboot.\n"), "{told}");
}

#[test]
fn why_names_who_is_left_and_all_that_is_waited_for() {
    let step = |name: &str, active: &str| {
        json!({"name": name, "active": active, "sub": active,
               "reason": {"code": "WR-0098", "text": "held", "cure": "", "cause": null}})
    };
    let (mut waits, mut held) = (step("a.service", "inactive"), step("b.service", "failed"));
    waits["job"] = json!({"type": "start"});
    waits["waits_for"] = json!("b.service");
    waits["waits_for_also"] = json!(["c.service"]);
    waits["waits_for_more"] = json!(7);
    held["left_over"] = json!(["cat (pid 31, held by the kernel)"]);
    let unit = json!({"unit": "a.service", "impact": [], "path": [waits, held]});
    let told = why(&json!({"units": [unit]}), PLAIN);
    assert!(told.contains("   Left over: cat (pid 31, held by the kernel)\n"), "{told}");
    let waits = "a.service is inactive: its start job waits for b.service, c.service and 7 more\n";
    assert!(told.contains(waits), "{told}");
}
