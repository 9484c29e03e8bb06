//! Agents, drivers and operators around a real etcd: releases, failures, everything that can be lost.

mod real;
mod support;

use std::time::Duration;

use support::{Site, has_etcd};
use warren_testkit::{Dice, Scratch, wait_for_or, wait_until};

#[test]
fn a_release_reaches_all_and_a_bad_one_goes_back() {
    let Some(site) = Site::ready("hosts-release", 3) else { return };
    let status = site.roll_out(&[("a.conf", "one"), ("b.conf", "same")], &["--wave", "1"]);
    assert!(status.starts_with("release 1 is on all hosts"), "{status}");
    for host in &site.hosts {
        assert_eq!(host.manager.running(), "a.service=one b.service=same");
        host.manager.take_jobs();
    }
    let status = site
        .roll_out(&[("a.conf", "bad"), ("b.conf", "same"), ("c.conf", "new")], &["--wave", "1"]);
    assert!(
        status.starts_with("release 2 went back: h1: 1 more unit failed than before"),
        "{status}"
    );
    wait_until("the first host is as it was", || {
        site.hosts[0].manager.running() == "a.service=one b.service=same"
    });
    let jobs = site.hosts[0].manager.take_jobs();
    let expected =
        ["try-restart a.service", "start up.target", "stop c.service", "start a.service"];
    assert_eq!(jobs, expected);
    // The others were never told of it.
    for host in &site.hosts[1..] {
        assert_eq!(host.manager.take_jobs(), [""; 0]);
    }
    site.wait_listed("3 hosts: 3 ok");
    // Rules that the manager does not take change nothing.
    let status = site.roll_out(&[("a.conf", "fault")], &[]);
    assert!(status.contains("the rules have faults"), "{status}");
    let all = |text: &str| site.hosts.iter().all(|host| host.manager.running() == text);
    wait_until("all are as they were", || all("a.service=one b.service=same"));
    let key = site.scratch.text_path("key");
    let why = site.fails(&["rollback", "--key", &key]);
    assert!(why.contains("the current release is the first one"), "{why}");
    site.roll_out(&[("a.conf", "two")], &[]);
    wait_until("all have it", || all("a.service=two"));
    site.run(&["rollback", "--key", &key, "--soak", "0"]);
    site.run(&["drive", "--until-over"]);
    wait_until("all are back", || all("a.service=one b.service=same"));
    let audit = site.run(&["audit"]);
    let has = |what: &str| audit.contains(what);
    assert!(
        has(" release 2: ") && has(" went back 2: h1: 1 more unit") && has(" rollback 5: "),
        "{audit}"
    );
}

/// To start without them would stop what is assigned by labels.
#[test]
fn an_agent_does_not_start_without_its_labels() {
    let Some(mut site) = Site::ready("hosts-labels", 1) else { return };
    site.roll_out(&[("a.conf", "one")], &[]);
    site.hosts[0].agent.take().expect("an agent").kill();
    let labels = site.scratch.path("h1.labels");
    std::fs::remove_file(&labels).expect("it was there");
    site.start_agent(0);
    let agent = site.hosts[0].agent.as_mut().expect("an agent");
    let status = agent.0.wait().expect("a child");
    let said = format!("warren-agent: {} is not there, which Labels= names: ", labels.display());
    assert!(!status.success() && site.log("h1").contains(&said), "{}", site.log("h1"));
    assert_eq!(site.hosts[0].manager.running(), "a.service=one");
}

/// The release was stopped half way; before that it had no driver for a while.
#[test]
fn hosts_that_are_not_as_the_others_are_named() {
    let Some(mut site) = Site::ready("hosts-mixed", 3) else { return };
    site.roll_out(&[("a.conf", "one")], &[]);
    let revision = site.push(&[("a.conf", "two")]);
    let key = site.scratch.text_path("key");
    let begun = site.run(&["release", &revision, "--key", &key, "--wave", "1", "--soak", "3600"]);
    assert!(begun.contains("! no driver is running, so nothing advances"), "{begun}");
    let why = || String::from_utf8_lossy(&site.try_run(&["why"]).stdout).into_owned();
    assert!(why().contains("! no driver is running"), "{}", why());
    let driver = site.driver();
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let wanted = format!("  driven by {machine}\n");
    wait_until("it is driven", || site.run(&["status"]).contains(&wanted));
    wait_until("one has it", || site.hosts[0].manager.running() == "a.service=two");
    site.wait_listed("3 hosts: 3 ok");
    site.run(&["stop"]);
    site.wait_listed("3 hosts: 1 differs, 2 ok");
    let bad = site.try_run(&["list", "--bad"]);
    let text = String::from_utf8_lossy(&bad.stdout);
    assert!(bad.status.code() == Some(1) && text.contains("h1") && !text.contains("h2"), "{text}");
    assert!(why().starts_with("1 host is on another revision than the site: "), "{}", why());
    site.run(&["back"]);
    site.wait_listed("3 hosts: 3 ok");
    drop(driver);
    site.hosts[2].agent.take().expect("an agent").kill();
    site.wait_listed("1 away");
    let out = site.try_run(&["why"]);
    let why = String::from_utf8_lossy(&out.stdout);
    assert_eq!((&*why, out.status.code()), ("1 host is away\n  h3\n", Some(1)));
}

/// Whoever can write to the store can do that, and the store does not know who it was.
#[test]
fn a_host_that_others_assigned_elsewhere_comes_back() {
    let Some(site) = Site::ready("hosts-taken", 2) else { return };
    let _driver = site.driver();
    let revision = site.push(&[("a.conf", "one")]);
    site.release(&revision, &["--wave", "1", "--soak", "3600"]);
    wait_until("one has it", || site.hosts[0].manager.running() == "a.service=one");
    let waits = || site.run(&["status"]).contains("  waits for h1: healthy for at least ");
    wait_until("it is waited for", waits);
    // `/warren/v1/assigned/h1` is `{"release":9,"back":false}`, which nobody has signed.
    let assigned = r#"{"key":"L3dhcnJlbi92MS9hc3NpZ25lZC9oMQ==","value":"eyJyZWxlYXNlIjo5LCJiYWNrIjpmYWxzZX0="}"#;
    site.ask("/v3/kv/put", assigned);
    let words = "assigned again h1 to release 1; others had assigned it to release 9";
    wait_until("the driver says so", || site.run(&["audit"]).contains(words));
    wait_until("it is as it was", waits);
    site.wait_listed("2 hosts: 2 ok");
}

/// Such a unit never counts as failed.
#[test]
fn a_restart_loop_goes_back_and_is_shown() {
    let Some(site) = Site::ready("hosts-loop", 2) else { return };
    site.roll_out(&[("a.conf", "one")], &[]);
    let revision = site.push(&[("a.conf", "loops")]);
    site.release(&revision, &["--wave", "1", "--soak", "30"]);
    let status = site.drive_to_the_end();
    assert!(status.starts_with("release 2 went back: h1: a.service was restarted "), "{status}");
    assert!(
        status.contains("exited with code 7 (WR-0040); its log ends with \"no port\""),
        "{status}"
    );
    let log = site.run(&["log"]);
    assert!(log.contains("    release 2 went back "), "{log}");
    assert_eq!(site.hosts[1].manager.running(), "a.service=one");
    wait_until("it is back", || site.hosts[0].manager.running() == "a.service=one");
    site.wait_listed("2 hosts: 2 ok");
    // A failure that the release allows is shown for as long as it lasts.
    site.release(&revision, &["--failed-units", "1"]);
    site.drive_to_the_end();
    // Why the one before it went back is still there.
    let log = site.run(&["log"]);
    assert!(log.contains(" [release 2, 3] ") && log.contains(": h1: a.service was rest"), "{log}");
    assert!(!log.contains("release 3 is on"), "{log}");
    site.wait_listed("2 hosts: 2 degraded");
    let list = site.run(&["list"]);
    assert!(list.contains("a.service was restarted "), "{list}");
    let out = site.try_run(&["why", "a"]);
    let why = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        why.starts_with("WR-0040 a (2 units restarted again and again)\n  on 2 hosts"),
        "{why}"
    );
    assert!(why.contains("\n  h1: a.service was restarted "), "{why}");
}

#[test]
fn one_place_shows_all_hosts() {
    if !has_etcd() {
        return;
    }
    let mut site = Site::new("hosts-shown", 1, &[]);
    site.add_host_with("h2", "Address=h2.example.org\n");
    site.wait_listed("2 hosts: 2 ok");
    let status = site.roll_out(&[("a.conf", "bad"), ("b.conf", "good")], &["--failed-units", "1"]);
    assert!(status.starts_with("release 1 is on all hosts"), "{status}");
    site.wait_listed("2 hosts: 2 degraded");
    let list = site.run(&["list"]);
    assert!(
        list.contains("a.service: it failed (WR-0040 of a); its log ends with \"no port\""),
        "{list}"
    );
    let out = site.try_run(&["list", "--bad", "--label", "name=h2"]);
    assert_eq!(
        (out.status.code(), String::from_utf8_lossy(&out.stdout).contains("h1")),
        (Some(1), false)
    );
    let out = site.try_run(&["why", "a"]);
    let why = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(why.starts_with("WR-0040 a (2 units)\n  on 2 hosts: h1, h2, since "), "{why}");
    assert!(
        why.contains("\n  h1: a.service: it failed (WR-0040 of a); its log ends with"),
        "{why}"
    );
    let lines = String::from_utf8_lossy(&site.try_run(&["--json", "why"]).stdout).into_owned();
    let line: serde_json::Value = serde_json::from_str(&lines).expect("one line of JSON");
    assert_eq!(
        (&line["kind"], &line["since_us"], &line["format"]),
        (&"failed".into(), &1.into(), &2.into())
    );
    assert!(site.run(&["why", "other"]).starts_with("Nothing is wrong"));
    let line = site.run(&["--json", "list", "--label", "name=h1"]);
    let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        (&line["host"], &line["state"], &line["report"]["units"]),
        (&"h1".into(), &"degraded".into(), &2.into())
    );
    assert!(
        site.run(&["top", "--once"])
            .starts_with("2 hosts: 2 degraded\nrelease 1 is on all hosts\n")
    );
    // The same for programs, again and again.
    let lines = site.first_lines(&["--json", "top"], 2);
    for line in &lines {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&line["hosts"], &line["states"]["degraded"]), (&2.into(), &2.into()));
        assert_eq!((&line["rollout"]["release"], &line["format"]), (&1.into(), &2.into()));
        assert_eq!(
            (&line["causes"][0]["code"], &line["more_causes"]),
            (&"WR-0040".into(), &0.into())
        );
    }
    assert_eq!(site.run(&["--json", "top", "--once"]).lines().count(), 1);
    // A store that is away for a moment does not end it; one that was never there does.
    let (mut top, mut lines) = site.begin(&["--json", "top"]);
    assert!(lines.next().is_some_and(|line| line.contains("\"states\":{\"degraded\":2}")));
    site.stop_etcd();
    let mut is_told = |words: &str| lines.by_ref().take(60).any(|line| line.contains(words));
    assert!(is_told("\"fault\":\"the store does not answer"));
    assert!(site.fails(&["--json", "top"]).contains("the store does not answer"));
    site.start_etcd();
    assert!(is_told("\"states\""));
    // Nobody reads it any more.
    drop(lines);
    assert!(top.0.wait().expect("a child").success());
}

/// A container `cart` and, on h1 alone, `pay` are in the group `shop`; `blog` is in none.
fn shop(word: &str, pay: &str) -> Vec<(String, String)> {
    let rule = |container: &str, word: &str, more: &str| {
        let text = format!(
            "apply Service \"web\" to Container {{\n  ExecStart = \"/bin/{word}\"\n  \
             assign where container.name == \"{container}\"{more}\n}}\n"
        );
        (format!("{container}-web.conf"), text)
    };
    let containers = "object Container \"cart\" { groups = [ \"shop\" ] }\nobject Container \"pay\" { vars.shop = true }\n\
                      object Container \"blog\" { }\nobject Group \"shop\" { assign where container.vars.shop }\n";
    vec![
        ("containers.conf".to_owned(), containers.to_owned()),
        rule("cart", word, ""),
        rule("pay", pay, " && machine.labels.name == \"h1\""),
        rule("blog", word, ""),
    ]
}

fn push_shop(site: &Site, word: &str, pay: &str) -> String {
    let files = shop(word, pay);
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    site.push(&files)
}

/// Bounds, questions and logs take the name of a container or of a group, as rules have them.
#[test]
fn an_application_is_a_container_or_a_group_of_them() {
    let Some(site) = Site::ready("hosts-groups", 2) else { return };
    let first = push_shop(&site, "one", "one");
    site.release(&first, &["--wave", "2"]);
    site.drive_to_the_end();
    for host in &site.hosts {
        host.manager.take_jobs();
    }
    let second = push_shop(&site, "two", "two");
    site.release(&second, &["--wave", "2", "--max-unavailable-of", "shop=1"]);
    let begun: serde_json::Value =
        serde_json::from_str(&site.run(&["--json", "status"])).expect("JSON");
    let units = |at_work: u32, all: u32| serde_json::json!({"at_work": at_work, "all": all});
    let expected =
        serde_json::json!({"shop": {"most": 1, "hosts": {"h1": units(1, 2), "h2": units(1, 1)}}});
    assert_eq!(begun["apps"], expected, "{begun}");
    let status = site.drive_to_the_end();
    assert!(status.starts_with("release 2 is on all hosts"), "{status}");
    // Both would be restarted at once (MaxRestarts=2), and the blog is with the first of them.
    let jobs = site.hosts[0].manager.take_jobs();
    let expected =
        ["blog-web", "cart-web", "pay-web"].map(|unit| format!("try-restart {unit}.service"));
    assert_eq!(jobs, expected);
    assert_eq!(site.hosts[0].manager.restarted_at_once(), [2, 1]);
    let list = site.run(&["list", "--app", "shop"]);
    let head = list.lines().next().unwrap_or_default();
    assert!(head.ends_with("  UNITS  FAILED  OF shop  NOTE"), "{list}");
    let list = site.run(&["--json", "list", "--app", "shop"]);
    let units: Vec<serde_json::Value> = list
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["units_of_app"].clone()
        })
        .collect();
    let [both, one] = [&["cart-web.service", "pay-web.service"][..], &["cart-web.service"]];
    assert_eq!(units, [serde_json::json!(both), serde_json::json!(one)]);
    let list = site.run(&["list", "--app", "pay"]);
    assert!(list.contains("h1") && list.ends_with("1 host: 1 ok.\n"), "{list}");
    let why = site.fails(&["list", "--app", "shpo"]);
    assert!(why.contains("no rules in force on these hosts make units of shpo"), "{why}");
    // Logs come by ssh(1), and each line says from where.
    let ssh = site.scratch.write("ssh", "#!/bin/sh\necho \"$*\"\nprintf 'a\\033[31m line'\n");
    std::fs::set_permissions(&ssh, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a program");
    let logs = |app: &str| site.run(&["logs", app, "--label", "name=h1", "--ssh", &ssh, "-n", "3"]);
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let asked = format!("h1 -x -o BatchMode=yes -- {machine} warren logs -o short-iso -n 3");
    let line = "h1 a?[31m line\n";
    let both = "-u 'cart-web.service' -u 'pay-web.service'";
    assert_eq!(logs("shop"), format!("{asked} {both}\n{line}"));
    assert_eq!(logs("blog"), format!("{asked} -u 'blog-web.service'\n{line}"));
    let all = site.run(&["logs", "pay", "--ssh", &ssh]);
    assert!(all.contains("h1 ") && !all.contains("h2 "), "{all}");
    let why = site.fails(&["logs", "$(id)", "--ssh", &ssh]);
    assert!(why.contains("no rules in force on these hosts make units of $(id)"), "{why}");
}

#[test]
fn why_tells_of_all_containers_of_a_group() {
    let Some(site) = Site::ready("hosts-why-group", 2) else { return };
    let well = push_shop(&site, "one", "one");
    site.release(&well, &[]);
    site.drive_to_the_end();
    assert_eq!(site.run(&["why", "shop"]), "Nothing is wrong with shop: 3 units on 2 hosts.\n");
    assert_eq!(site.run(&["why", "blog"]), "Nothing is wrong with blog: 2 units on 2 hosts.\n");
    let why = site.run(&["why", "shpo"]);
    assert!(
        why.starts_with("Nothing is wrong on any host that has reported.\nBut no rules"),
        "{why}"
    );
    let bad = push_shop(&site, "two", "bad");
    site.release(&bad, &["--failed-units", "1"]);
    site.drive_to_the_end();
    site.wait_listed("2 hosts: 2 degraded");
    let why = |app: &str| {
        let out = site.try_run(&["why", app]);
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let (status, text) = why("shop");
    assert!(status == Some(1) && text.starts_with("WR-0040 pay (2 units)\n  on 2 hosts"), "{text}");
    assert_eq!(why("pay"), (status, text));
    assert_eq!(why("cart").0, Some(0));
}

#[test]
fn the_command_is_the_agent_by_its_name() {
    let run = |name: &str| {
        let mut command = std::process::Command::new(support::HOSTS);
        let out = std::os::unix::process::CommandExt::arg0(&mut command, name)
            .arg("--help")
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    assert!(run("/usr/lib/warren/warren-agent").contains("--prepare"));
    assert!(run("/usr/bin/warren-hosts").contains("rollback"));
}

/// The command takes longer than the lease of who drives, and another driver waits for that.
#[test]
fn a_slow_gate_is_asked_once_for_each_wave() {
    let Some(site) = Site::ready("hosts-gate", 2) else { return };
    let asked = site.scratch.text_path("asked");
    let gate = format!("echo asked >> {asked}; sleep 17");
    let _drivers = [site.gated_driver(&gate), site.gated_driver(&gate)];
    let revision = site.push(&[("a.conf", "one")]);
    site.release(&revision, &["--wave", "1"]);
    wait_until("the rollout is over", || site.run(&["status"]).contains("is on all hosts"));
    assert_eq!(std::fs::read_to_string(asked).expect("it was asked"), "asked\nasked\n");
}

/// One unit of the application at a time on all hosts, though a host would restart two at once.
#[test]
fn few_units_of_an_application_are_unavailable_at_once() {
    let Some(site) = Site::ready("hosts-apps", 3) else { return };
    let rules = |word: &str| {
        let unit = |name: &str| {
            let rule = format!(
                "apply Service \"{name}\" to Container {{\n  ExecStart = \"/bin/{word}\"\n  assign where true\n}}\n"
            );
            (format!("shop-{name}.conf"), rule)
        };
        let container = ("shop.conf".to_owned(), "object Container \"shop\" { }\n".to_owned());
        [unit("a"), unit("b"), unit("c"), container]
    };
    let files =
        |word: &str| site.push(&rules(word).each_ref().map(|(name, text)| (&**name, &**text)));
    let first = files("one");
    site.release(&first, &["--wave", "3", "--max-unavailable-of", "shop=1"]);
    site.drive_to_the_end();
    let second = files("two");
    let plan = site.run(&["plan", &second]);
    assert!(plan.contains("~ shop-a.service  (restart)\n"), "{plan}");
    assert!(plan.contains("3 units restarted where they run\n"), "{plan}");
    site.release(&second, &["--wave", "3", "--max-unavailable-of", "shop=1"]);
    let begun: serde_json::Value =
        serde_json::from_str(&site.run(&["--json", "status"])).expect("JSON");
    let shop = &begun["apps"]["shop"];
    let h1 = serde_json::json!({"at_work": 1, "all": 3});
    assert_eq!((&shop["most"], &shop["hosts"]["h1"]), (&1.into(), &h1), "{begun}");
    let status = site.drive_to_the_end();
    assert!(status.starts_with("release 2 is on all hosts"), "{status}");
    for host in &site.hosts {
        assert_eq!(host.manager.restarted_at_once(), [1, 1, 1], "{}", host.name);
    }
    let why = site.try_run(&["release", &first, "--key", "k", "--max-unavailable-of", "shop"]);
    assert!(String::from_utf8_lossy(&why.stderr).contains("APP=N is expected"), "{why:?}");
}

/// A host with a command for drains, after a release; and what that command was called with so far. The command is a line
/// of sh, in which `LOG` and `STUCK` are files, of which the second is there from now on.
fn with_drain_command(test: &str, line: &str) -> (Site, impl Fn() -> String) {
    let mut site = Site::new(test, 0, &[]);
    let (log, stuck) = (site.scratch.text_path("log"), site.scratch.text_path("stuck"));
    let script = line.replace("LOG", &log).replace("STUCK", &stuck);
    let script = site.scratch.write("drain", &format!("#!/bin/sh\n{script}\n"));
    site.add_host_with("h1", &format!("DrainCommand=/bin/sh {script}\n"));
    site.wait_listed(": 1 ok");
    let words = move || std::fs::read_to_string(&log).unwrap_or_default().replace('\n', " ");
    site.roll_out(&[("a.conf", "one")], &[]);
    assert_eq!(words(), "drain undrain ");
    site.scratch.write("stuck", "");
    (site, words)
}

/// The host is relieved of its work before, and takes it up again after; one that does not is not healthy.
#[test]
fn a_host_that_does_not_take_up_its_work_again_says_so() {
    if !has_etcd() {
        return;
    }
    let (mut site, words) =
        with_drain_command("hosts-drain", "echo $1 >> LOG; [ $1 = drain ] || [ ! -e STUCK ]");
    let second = site.push(&[("a.conf", "two")]);
    site.release(&second, &["--patience", "600"]);
    let driver = site.driver();
    site.wait_listed("1 behind");
    wait_until("the host says why", || {
        let list = site.run(&["list"]);
        list.contains(&second[..12]) && list.contains("/bin/sh undrain: exit status: 1")
    });
    // The next agent knows it, too.
    site.hosts[0].agent.take().expect("an agent").kill();
    std::fs::remove_file(site.scratch.path("stuck")).expect("it was there");
    site.start_agent(0);
    site.wait_listed("1 ok");
    wait_until("the release is done", || site.run(&["status"]).contains("is on all hosts"));
    assert!(words().ends_with("undrain "), "{}", words());
    driver.signal("TERM");
    // `/warren/v1/driver`: another one need not wait.
    wait_until("the driver gives up its key", || {
        !site.ask("/v3/kv/range", r#"{"key":"L3dhcnJlbi92MS9kcml2ZXI="}"#).contains("kvs")
    });
}

/// Each would have reached all hosts, or taken them to what was bad.
#[test]
fn mistakes_of_an_operator_are_refused() {
    if !has_etcd() {
        return;
    }
    let site = Site::new("hosts-mistakes", 2, &[]);
    site.wait_listed("2 hosts");
    let key = site.scratch.text_path("key");
    let rules = site.scratch.path("faulty");
    std::fs::create_dir(&rules).expect("a directory");
    std::fs::write(rules.join("a.conf"), "object Container {{\n").expect("written");
    let why = site.fails(&["push", &site.scratch.text_path("faulty")]);
    assert!(why.contains("the rules have faults: a.conf:2:"), "{why}");
    let good = site.push(&[("a.conf", "one")]);
    let release = |revision: &str, wave: &str| {
        site.fails(&["release", revision, "--key", &key, "--wave", wave])
    };
    let why = release(&good, "name=h7");
    assert!(why.contains("wave name=h7: no host has it; name is h1, h2"), "{why}");
    let why = release(&good, "each rack");
    assert!(why.contains("no host has the label rack"), "{why}");
    site.release(&good, &[]);
    site.drive_to_the_end();
    let better = site.push(&[("a.conf", "two")]);
    site.release(&better, &[]);
    site.drive_to_the_end();
    let rollback = || site.run(&["rollback", "--key", &key, "--soak", "0"]);
    let said = rollback();
    assert!(said.contains(&good[..12]), "{said}");
    site.drive_to_the_end();
    // Not forward again to what was gone back from.
    let why = site.fails(&["rollback", "--key", &key]);
    assert!(why.contains("was gone back from"), "{why}");
    // A plan is about what each host has, and one that was stopped is not gone back from by another release.
    let third = site.push(&[("a.conf", "three")]);
    site.release(&third, &["--wave", "name=h1", "--soak", "600"]);
    let driver = site.driver();
    site.wait_listed(&third[..12]);
    drop(driver);
    site.run(&["stop"]);
    let why = site.fails(&["rollback", "--key", &key]);
    assert!(why.contains("warren-hosts back") || why.contains("warren hosts back"), "{why}");
    let first = site.run(&["plan", &third, "--json"]);
    let groups = first.lines().filter(|line| line.contains("\"hosts\"")).count();
    assert_eq!(groups, 2, "one for each revision: {first}");
    assert_eq!(site.run(&["diff", &good, &good]), "");
}

#[test]
fn what_looks_like_a_secret_is_not_pushed() {
    if !has_etcd() {
        return;
    }
    let site = Site::new("hosts-secret", 0, &[]);
    let rules = site.scratch.path("rules");
    std::fs::create_dir(&rules).expect("a directory");
    std::fs::write(
        rules.join("a.conf"),
        "globals.x = 1\nglobals.y = { password = \"hunter22\" }\n",
    )
    .expect("written");
    let rules = site.scratch.text_path("rules");
    let why = site.fails(&["push", &rules]);
    assert!(why.contains("a.conf:2: 'password' has a value here"), "{why}");
    site.run(&["push", &rules, "--allow-secrets"]);
    let key = site.scratch.text_path("key");
    let known = site.run(&["keygen", "--show", &key]);
    let trusted = std::fs::read_to_string(site.scratch.path("trusted-keys")).expect("text");
    assert_eq!(known, trusted);
    // Who is at it keeps others out, and is not waited for without an end when he is gone.
    let writer = r#"{"key":"L3dhcnJlbi92MS93cml0ZXI=","value":"eA=="}"#;
    site.ask("/v3/kv/put", writer);
    let began = std::thread::spawn({
        let key = r#"{"key":"L3dhcnJlbi92MS93cml0ZXI="}"#;
        let url = site.url.clone();
        move || {
            std::thread::park_timeout(std::time::Duration::from_millis(500));
            let mut curl = std::process::Command::new("curl");
            curl.args(["-s", "-X", "POST", "-d", key]).arg(format!("{url}/v3/kv/deleterange"));
            curl.output().expect("curl(1)")
        }
    });
    site.run(&["prune"]);
    assert!(began.is_finished(), "it did not wait");
}

#[test]
fn who_drives_may_be_killed() {
    let Some(site) = Site::ready("hosts-drivers", 4) else { return };
    let revision = site.push(&[("a.conf", "one")]);
    site.release(&revision, &["--wave", "1", "--wave", "1", "--wave", "1", "--soak", "1"]);
    let mut drivers = vec![site.driver(), site.driver()];
    for wave in 1..4 {
        wait_until("a wave is over", || {
            site.run(&["status"]).matches(", healthy\n").count() >= wave
        });
        // Whichever of them drives.
        drivers.remove(0).kill();
        drivers.push(site.driver());
    }
    wait_until("the rollout is over", || {
        site.run(&["status"]).starts_with("release 1 is on all hosts")
    });
    for host in &site.hosts {
        assert_eq!(
            (host.manager.running().as_str(), host.manager.reloads()),
            ("a.service=one", 1),
            "{}",
            host.name
        );
    }
}

#[test]
fn who_drives_goes_on_after_what_it_did_not_understand() {
    let Some(site) = Site::ready("hosts-rubbish", 2) else { return };
    let driver = site.driver();
    // `/warren/v1/driver`, `/warren/v1/rollout`
    let (driven, rollout) = ("L3dhcnJlbi92MS9kcml2ZXI=", "L3dhcnJlbi92MS9yb2xsb3V0");
    wait_until("it drives", || {
        site.ask("/v3/kv/range", &format!(r#"{{"key":"{driven}"}}"#)).contains("kvs")
    });
    site.ask("/v3/kv/put", &format!(r#"{{"key":"{rollout}","value":"cnViYmlzaA=="}}"#));
    let revision = site.push(&[("a.conf", "one")]);
    let key = site.scratch.text_path("key");
    for words in [&["status"][..], &["release", &revision, "--key", &key]] {
        let why = site.fails(words);
        assert!(why.contains("/warren/v1/rollout means nothing to this version"), "{why}");
    }
    // The driver has seen it, too.
    std::thread::park_timeout(Duration::from_secs(3));
    site.ask("/v3/kv/deleterange", &format!(r#"{{"key":"{rollout}"}}"#));
    site.release(&revision, &[]);
    wait_until("the same one goes on", || {
        site.run(&["status"]).starts_with("release 1 is on all hosts")
    });
    // One that was on all hosts and goes back is not what a new host takes.
    let other = site.push(&[("a.conf", "two")]);
    site.release(&other, &[]);
    wait_until("it is there", || site.run(&["status"]).starts_with("release 2 is on all hosts"));
    site.run(&["back"]);
    wait_until("it is gone", || site.run(&["status"]).starts_with("release 2 went back"));
    assert!(site.run(&["log"]).contains(&format!("* {}", &revision[..12])));
    let why = site.fails(&["rollback", "--key", &key]);
    assert!(why.contains("release 2 went back"), "{why}");
    drop(driver);
}

#[test]
fn an_agent_that_is_killed_restarts_nothing_twice() {
    let Some(mut site) = Site::ready("hosts-killed", 1) else { return };
    let mut dice = Dice(warren_testkit::seed());
    let rules = |round: usize| -> Vec<(String, String)> {
        (0..6).map(|n| (format!("u{n}.conf"), format!("{round}"))).collect()
    };
    let roll_out = |site: &Site, round| {
        let rules = rules(round);
        let rules: Vec<(&str, &str)> =
            rules.iter().map(|(name, text)| (&**name, &**text)).collect();
        let revision = site.push(&rules);
        site.release(&revision, &["--patience", "60"]);
    };
    roll_out(&site, 0);
    site.run(&["drive", "--until-over"]);
    site.hosts[0].manager.take_jobs();
    // Long enough that kills fall between all steps.
    site.hosts[0].manager.slow_down(Duration::from_millis(15));
    let driver = site.driver();
    for round in 1..=12 {
        roll_out(&site, round);
        for _ in 0..4 {
            std::thread::park_timeout(Duration::from_millis(dice.roll(400)));
            site.hosts[0].agent.take().expect("an agent").kill();
            site.start_agent(0);
        }
        wait_until("it is over", || {
            let status = site.run(&["status"]);
            assert!(!status.contains("back"), "{status}{}", site.log("h1"));
            status.contains("is on all hosts")
        });
        let mut jobs = site.hosts[0].manager.take_jobs();
        jobs.sort_unstable();
        let expected: Vec<String> = (0..6).map(|n| format!("try-restart u{n}.service")).collect();
        // The manager goes on with a job whose client was killed; what it does not tell any more is asked for again.
        jobs.dedup();
        assert_eq!(jobs, expected, "round {round}");
        let starts = site.hosts[0].manager.starts();
        assert!(
            starts.iter().all(|starts| *starts == round as u64 + 1),
            "round {round}: {starts:?}"
        );
    }
    drop(driver);
}

/// A manager that is killed leaves requests unanswered. Each of the first so many is one in turn: of what the rules ask
/// for, of the reload, of jobs.
#[test]
fn a_manager_that_is_away_for_a_moment_loses_no_restart() {
    let Some(site) = Site::ready("hosts-manager", 1) else { return };
    let names = ["a.conf", "b.conf", "c.conf"];
    let rules = |text: &'static str| names.map(|name| (name, text));
    site.roll_out(&rules("0"), &[]);
    let texts = ["1", "2", "3", "4", "5", "6", "7", "8"];
    for (unanswered, text) in (1..).zip(texts) {
        site.hosts[0].manager.leave_unanswered(unanswered);
        let status = site.roll_out(&rules(text), &[]);
        assert!(status.contains("is on all hosts"), "{status}");
        let expected = format!("a.service={text} b.service={text} c.service={text}");
        wait_until("all run by the new rules", || site.hosts[0].manager.running() == expected);
    }
    let starts = site.hosts[0].manager.starts();
    assert_eq!(starts, [texts.len() as u64 + 1; 3], "each is restarted once by each release");
}

#[test]
fn a_host_that_is_long_at_work_is_not_away() {
    let Some(site) = Site::ready("hosts-slow", 1) else { return };
    let names = ["a.conf", "b.conf", "c.conf", "d.conf"];
    site.roll_out(&names.map(|name| (name, "0")), &[]);
    // `/warren/v1/hosts/h1`: another one was created if the lease was over in between.
    let registration = || {
        let answer = site.ask("/v3/kv/range", r#"{"key":"L3dhcnJlbi92MS9ob3N0cy9oMQ=="}"#);
        answer
            .split("\"create_revision\":\"")
            .nth(1)
            .map(|rest| rest[..rest.find('"').expect("text")].to_owned())
    };
    let before = registration().expect("it is registered");
    // Four restarts take longer than the lease of 5 s and what etcd adds to it.
    site.hosts[0].manager.slow_down(Duration::from_secs(3));
    let status = site.roll_out(&names.map(|name| (name, "1")), &[]);
    assert!(status.contains("is on all hosts"), "{status}");
    assert_eq!(registration(), Some(before));
}

#[test]
fn nothing_happens_because_the_store_is_away() {
    let Some(mut site) = Site::ready("hosts-away", 2) else { return };
    site.roll_out(&[("a.conf", "one")], &[]);
    let etcd = site.etcd.as_ref().expect("it runs");
    etcd.signal("STOP");
    wait_until("both say so", || {
        ["h1", "h2"].iter().all(|host| site.log(host).contains("keeps what it has"))
    });
    // One that starts while the store is away keeps what it has, too.
    site.hosts[1].agent.take().expect("an agent").kill();
    site.start_agent(1);
    wait_until("it says so", || site.log("h2").matches("keeps what it has").count() == 2);
    let etcd = site.etcd.as_ref().expect("it runs");
    etcd.signal("CONT");
    site.wait_listed("2 hosts: 2 ok");
    for host in &site.hosts {
        assert_eq!(
            (host.manager.running().as_str(), host.manager.reloads()),
            ("a.service=one", 1),
            "{}",
            host.name
        );
    }
    let status = site.roll_out(&[("a.conf", "two")], &[]);
    assert!(status.starts_with("release 2 is on all hosts"), "{status}");
}

#[test]
fn of_three_members_one_may_be_killed_and_another_hang_in_mid_rollout() {
    if !has_etcd() {
        return;
    }
    let (site, mut members) = Site::of_three_members("hosts-three", 3);
    let _driver = site.driver();
    let on_all = |release: u32| {
        let wanted = format!("release {release} is on all hosts");
        let look = || site.run(&["status"]).starts_with(&wanted).then_some(());
        let tell = || {
            let logs =
                ["driver", "h1", "h2", "h3"].map(|name| format!("{name}:\n{}", site.log(name)));
            format!("{}{}", site.run(&["status"]), logs.concat())
        };
        wait_for_or(&wanted, look, tell);
    };
    let revision = site.push(&[("a.conf", "one")]);
    site.release(&revision, &["--wave", "1", "--wave", "1", "--wave", "1", "--soak", "1"]);
    wait_until("a wave is over", || site.run(&["status"]).contains("healthy"));
    // All are connected to the first.
    members[0].kill();
    on_all(1);
    members[0].start();
    // Whoever was at the first is at the second now: it hangs, and so do the watches there.
    members[1].signal("STOP");
    let revision = site.push(&[("a.conf", "two")]);
    site.release(&revision, &["--wave", "1", "--wave", "2", "--soak", "1"]);
    on_all(2);
    // One whose lease of 5 s was over meanwhile was away, and catches up.
    wait_until("all have it", || {
        site.hosts.iter().all(|host| host.manager.running() == "a.service=two")
    });
    members[1].signal("CONT");
    for host in &site.hosts {
        assert_eq!(host.manager.reloads(), 2, "{}", host.name);
    }
}

#[test]
fn a_store_that_was_restored_is_told_and_not_followed() {
    let Some(mut site) = Site::ready("hosts-restored", 2) else { return };
    site.roll_out(&[("a.conf", "one")], &[]);
    site.stop_etcd();
    let (data, backup) = (site.scratch.path("etcd"), site.scratch.path("backup"));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let _ = std::fs::remove_dir_all(to);
        let status = std::process::Command::new("cp").arg("-a").args([from, to]).status();
        assert!(status.expect("cp(1)").success());
    };
    copy(&data, &backup);
    site.start_etcd();
    for text in ["two", "three", "four"] {
        site.roll_out(&[("a.conf", text)], &[]);
    }
    site.stop_etcd();
    copy(&backup, &data);
    site.start_etcd();
    site.wait_listed("the store assigns release 1, but this host has followed release 4");
    for host in &site.hosts {
        assert_eq!(host.manager.running(), "a.service=four");
    }
    // The next release has a number that they follow.
    let status = site.roll_out(&[("a.conf", "five")], &[]);
    assert!(status.starts_with("release 5 is on all hosts"), "{status}");
    site.wait_listed("2 hosts: 2 ok");
    // Nor is there anything to follow in a store that lost all.
    site.stop_etcd();
    std::fs::remove_dir_all(&data).expect("removed");
    site.start_etcd();
    site.wait_listed("2 hosts: 2 refuses");
    site.wait_listed("the store assigns no release, but this host has followed release 5");
    assert_eq!(site.hosts[0].manager.running(), "a.service=five");
    let status = site.roll_out(&[("a.conf", "six")], &[]);
    assert!(status.starts_with("release 6 is on all hosts"), "{status}");
}

/// All that agents and drivers meet then but a token for which etcd waits long: the tests of the store have one of those.
#[test]
fn a_store_with_access_control_that_was_restored_is_taken_up_without_a_restart() {
    if !has_etcd() {
        return;
    }
    let mut site = Site::new("hosts-restored-auth", 0, &[]);
    site.scratch.write("operator.password", "operator\n");
    let turn_on_access_control = |site: &Site| {
        site.ask("/v3/auth/user/add", r#"{"name":"root","password":"operator"}"#);
        site.ask("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
        site.ask("/v3/auth/enable", "{}");
        let file = site.scratch.text_path("operator.password");
        site.write_operator(&format!("User=root\nPasswordFile={file}\n"));
    };
    turn_on_access_control(&site);
    let password = site.scratch.text_path("h1.password");
    site.run(&["admit", "h1", &password]);
    site.add_host_with("h1", &format!("User=warren-h1\nPasswordFile={password}\n"));
    site.wait_listed("1 host: 1 ok");
    site.roll_out(&[("a.conf", "one")], &[]);
    site.stop_etcd();
    let (data, backup) = (site.scratch.text_path("etcd"), site.scratch.text_path("backup"));
    let copy = |from: &str, to: &str| {
        let _ = std::fs::remove_dir_all(to);
        let status = std::process::Command::new("cp").args(["-a", from, to]).status();
        assert!(status.expect("cp(1)").success());
    };
    copy(&data, &backup);
    site.start_etcd();
    let _driver = site.driver();
    for (release, text) in [(2, "two"), (3, "three")] {
        let revision = site.push(&[("a.conf", text)]);
        site.release(&revision, &[]);
        let wanted = format!("release {release} is on all hosts");
        wait_until(&wanted, || site.run(&["status"]).starts_with(&wanted));
    }
    site.stop_etcd();
    copy(&backup, &data);
    site.start_etcd();
    site.wait_listed("the store assigns release 1, but this host has followed release 3");
    // One that is away is not waited for.
    site.wait_listed("1 host: 1 refuses");
    // The agent and the driver are those of before.
    let revision = site.push(&[("a.conf", "four")]);
    site.release(&revision, &[]);
    wait_until("it is there", || site.run(&["status"]).starts_with("release 4 is on all hosts"));
    assert_eq!(site.hosts[0].manager.running(), "a.service=four");
    // A store that lost all has lost its users, too.
    site.stop_etcd();
    std::fs::remove_dir_all(&data).expect("removed");
    site.write_operator("");
    site.start_etcd();
    turn_on_access_control(&site);
    std::fs::remove_file(&password).expect("removed");
    site.run(&["admit", "h1", &password]);
    site.wait_listed("the store assigns no release, but this host has followed release 4");
    site.wait_listed("1 host: 1 refuses");
    let revision = site.push(&[("a.conf", "five")]);
    site.release(&revision, &[]);
    wait_until("it is there", || site.run(&["status"]).starts_with("release 5 is on all hosts"));
    assert_eq!(site.hosts[0].manager.running(), "a.service=five");
}

#[test]
fn a_full_store_and_one_that_was_compacted_are_lived_with() {
    if !has_etcd() {
        return;
    }
    let mut site = Site::new("hosts-full", 1, &["--quota-backend-bytes", "2000000"]);
    site.wait_listed("1 host: 1 ok");
    site.roll_out(&[("a.conf", "one")], &[]);
    let agent = site.hosts[0].agent.as_ref().expect("an agent");
    agent.signal("STOP");
    // Values that differ, so that nothing is stored once.
    let large = |n: usize| format!("// {}", format!("{n} ").repeat(100_000));
    let full = (0..20).find_map(|n| {
        let text = large(n + 100);
        let rules = site.scratch.path("rules/a.conf");
        std::fs::write(rules, text).expect("written");
        let out = site.try_run(&["push", &site.scratch.text_path("rules")]);
        (!out.status.success()).then(|| String::from_utf8_lossy(&out.stderr).into_owned())
    });
    let full = full.expect("it gets full");
    assert!(
        full.contains("the store is full: compact and defragment etcd, then disarm its alarm"),
        "{full}"
    );
    // Another agent would register; the one that waits will ask for what is gone by then.
    let waiting = site.hosts[0].agent.take().expect("an agent");
    site.start_agent(0);
    wait_until("the agent says so", || site.log("h1").contains("the store is full"));
    site.hosts[0].agent.take().expect("an agent").kill();
    site.hosts[0].agent = Some(waiting);
    assert_eq!(site.hosts[0].manager.running(), "a.service=one");
    // The operator makes room.
    site.ask(
        "/v3/kv/deleterange",
        r#"{"key":"L3dhcnJlbi92MS9jaHVua3Mv","range_end":"L3dhcnJlbi92MS9jaHVua3Mw"}"#,
    );
    let status = site.ask("/v3/maintenance/status", "{}");
    let of = |name: &str| {
        let rest = status.split(&format!("\"{name}\":\"")).nth(1).expect("it says so");
        rest.split('"').next().expect("a number").to_owned()
    };
    let (revision, member) = (of("revision"), of("member_id"));
    site.ask("/v3/kv/compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#));
    site.ask("/v3/maintenance/defragment", "{}");
    site.ask(
        "/v3/maintenance/alarm",
        &format!(r#"{{"memberID":"{member}","action":"DEACTIVATE","alarm":"NOSPACE"}}"#),
    );
    site.hosts[0].agent.as_ref().expect("an agent").signal("CONT");
    let status = site.roll_out(&[("a.conf", "two")], &[]);
    assert!(status.starts_with("release 2 is on all hosts"), "{status}");
}

#[test]
fn a_machine_that_was_copied_follows_nothing() {
    let Some(mut site) = Site::ready("hosts-copied", 1) else { return };
    site.roll_out(&[("a.conf", "one")], &[]);
    // The copy has the same name and the same state, and a manager of its own.
    let state = site.scratch.path("h1.state");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(&state)
        .arg(site.scratch.path("copy.state"))
        .status();
    assert!(copied.expect("cp(1)").success());
    site.add_host("copy");
    site.hosts[1].agent.take().expect("an agent").kill();
    let conf = std::fs::read_to_string(site.scratch.path("copy.conf")).expect("settings");
    site.scratch.write("copy.conf", &conf.replace("Name=copy", "Name=h1"));
    site.start_agent(1);
    wait_until("one of them says so", || {
        ["h1", "copy"]
            .iter()
            .any(|host| site.log(host).contains("another machine is registered as h1"))
    });
    let of_one = |site: &Site| {
        site.hosts.iter().filter(|host| host.manager.running() == "a.service=two").count()
    };
    site.roll_out(&[("a.conf", "two")], &[]);
    wait_until("one of them follows", || of_one(&site) == 1);
    site.wait_listed("another machine has the same name");
}

#[test]
fn keys_and_damage_are_told_by_name() {
    let Some(site) = Site::ready("hosts-keys", 1) else { return };
    site.roll_out(&[("a.conf", "one")], &[]);
    // A key that is not, or no longer, trusted.
    let trusted = std::fs::read_to_string(site.scratch.path("trusted-keys")).expect("keys");
    site.scratch.write("trusted-keys", "");
    let status = site.roll_out(&[("a.conf", "two")], &[]);
    assert!(status.contains("which this host does not trust"), "{status}");
    assert_eq!(site.hosts[0].manager.running(), "a.service=one");
    site.scratch.write("trusted-keys", &trusted);
    // Half of a revision is not released.
    let revision = site.push(&[("a.conf", "three")]);
    site.ask(
        "/v3/kv/deleterange",
        r#"{"key":"L3dhcnJlbi92MS9jaHVua3Mv","range_end":"L3dhcnJlbi92MS9jaHVua3Mw"}"#,
    );
    let why = site.fails(&["release", &revision, "--key", &site.scratch.text_path("key")]);
    assert!(why.contains("the revision is incomplete: the store lacks"), "{why}");
    let why = site.fails(&["plan", "abcdef"]);
    assert!(why.contains("there is no revision abcdef"), "{why}");
}

/// The copies of shop that a host's rules make units of.
fn held(site: &Site, host: &str) -> Vec<u32> {
    let text = std::fs::read_to_string(site.scratch.path(&format!("{host}.state/machine.conf")))
        .unwrap_or_default();
    let list = text
        .split("\"shop\" = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next())
        .unwrap_or_default();
    list.split(", ").filter_map(|number| number.parse().ok()).collect()
}

/// Those of several hosts, which are looked at one after the other.
fn all(site: &Site, names: &[&str]) -> Vec<u32> {
    let mut all: Vec<u32> = names.iter().flat_map(|host| held(site, host)).collect();
    all.sort_unstable();
    all
}

/// Its copies are claimed elsewhere before they stop here, one after the other; what rules assign to it stays; no release
/// waits for it, and it catches up.
#[test]
fn a_drained_host_gives_its_copies_to_others() {
    let Some(mut site) = Site::ready("hosts-drained", 3) else { return };
    let shop = ("shop.conf", "object Container \"shop\" {\n  replicas = 6\n}\n");
    site.roll_out(&[shop, ("a.conf", "one")], &[]);
    let names = ["h1", "h2", "h3"];
    wait_until("each copy has a host", || all(&site, &names) == [0, 1, 2, 3, 4, 5]);
    let why = site.fails(&["drain", "h9"]);
    assert!(why.contains("h9 is not a host of this site"), "{why}");
    let said = site.run(&["drain", "h1", "--reason", "a new disk"]);
    assert!(said.starts_with("h1 is drained. 2 copies move to other hosts"), "{said}");
    wait_until("its copies are elsewhere", || {
        // Who takes a copy is looked at before the one who gives it.
        let now = all(&site, &["h3", "h2", "h1"]);
        let mut once = now.clone();
        once.dedup();
        assert!(now == once && now.len() >= 5, "twice, or more than one on the way: {now:?}");
        held(&site, "h1").is_empty() && now.len() == 6
    });
    let said = site.run(&["drain", "h1", "--wait", "60"]);
    assert!(said.ends_with("h1 has no copies any more.\n"), "{said}");
    assert!(site.hosts[0].manager.running().contains("a.service=one"));
    let list = site.run(&["list"]);
    assert!(list.contains("ok,drained") && list.contains(": a new disk\n"), "{list}");
    assert!(list.ends_with("3 hosts: 3 ok; 1 of them drained.\n"), "{list}");
    assert_eq!(site.try_run(&["list", "--bad"]).status.code(), Some(0));
    let why = site.run(&["why"]);
    assert!(why.starts_with("1 host is out of service\n  h1: drained by "), "{why}");
    assert!(site.run(&["audit"]).contains(" drain h1 a new disk"));
    // It is switched off, and a release is made.
    site.hosts[0].agent.take().expect("an agent").kill();
    site.wait_listed("away,drained");
    assert_eq!(site.try_run(&["list", "--bad"]).status.code(), Some(0));
    let status = site.roll_out(&[shop, ("a.conf", "two")], &["--wave", "1"]);
    let words = "release 2 is on all hosts that were online and are in service";
    assert!(status.starts_with(words) && status.contains(", 1 out of service"), "{status}");
    site.start_agent(0);
    wait_until("it catches up", || site.hosts[0].manager.running().contains("a.service=two"));
    site.wait_listed("ok,drained");
    assert!(held(&site, "h1").is_empty());
    // What no other host has room for stays.
    let before = held(&site, "h2");
    site.run(&["drain", "h2"]);
    site.wait_listed("2 copies left, 2 of them claimed by no other host");
    let why = site.fails(&["drain", "h2", "--wait", "0"]);
    assert!(why.contains("after 0 s h2 still has 2 copies:\n  copy "), "{why}");
    let no_room =
        "of shop: no room: the 1 host in service takes 4 in all, and no more: raise Capacity=";
    assert_eq!(why.matches(no_room).count(), 2, "{why}");
    let lines = site.try_run(&["--json", "drain", "h2", "--wait", "0"]).stdout;
    let line: serde_json::Value = serde_json::from_slice(&lines).expect("a line of JSON");
    assert_eq!((&line["kind"], &line["copies_left"]), (&"drained".into(), &2.into()));
    // While it waits it says why.
    let lines = site.first_lines(&["--json", "drain", "h2", "--wait", "60"], 2);
    let line: serde_json::Value = serde_json::from_str(&lines[1]).expect("JSON");
    let copy = &line["copies"][0];
    assert_eq!((&line["kind"], &copy["why"]), (&"left".into(), &"no-room".into()), "{line}");
    assert_eq!((&copy["container"], &copy["for_good"]), (&"shop".into(), &true.into()), "{line}");
    assert!(before.len() == 3 && held(&site, "h2").len() == 2, "{before:?}");
    // With a host more there is room.
    site.run(&["undrain", "h1"]);
    wait_until("the rest has moved", || {
        held(&site, "h2").is_empty() && all(&site, &names) == [0, 1, 2, 3, 4, 5]
    });
    let why = site.fails(&["undrain", "h1"]);
    assert!(why.contains("h1 is not drained"), "{why}");
}

/// The command that has a load balancer leave a host out is for operators, too, and not for releases meanwhile.
#[test]
fn a_drained_host_is_relieved_of_its_work_by_its_own_command() {
    if !has_etcd() {
        return;
    }
    let (site, words) =
        with_drain_command("hosts-relieved", "[ ! -e STUCK ] || exit 1; echo $1 >> LOG");
    site.run(&["drain", "h1"]);
    site.wait_listed("/bin/sh drain: exit status: 1");
    std::fs::remove_file(site.scratch.path("stuck")).expect("it was there");
    wait_until("it is relieved", || words() == "drain undrain drain ");
    site.wait_listed("ok,drained");
    site.roll_out(&[("a.conf", "two")], &[]);
    wait_until("it has the release", || site.hosts[0].manager.running() == "a.service=two");
    site.wait_listed("ok,drained");
    assert_eq!(words(), "drain undrain drain ");
    site.run(&["undrain", "h1"]);
    wait_until("it takes up its work", || words() == "drain undrain drain undrain ");
    site.wait_listed("1 host: 1 ok.");
}

#[test]
fn copies_move_when_a_host_is_lost_and_only_then() {
    let Some(mut site) = Site::ready("hosts-copies", 3) else { return };
    let rules = "object Container \"shop\" {\n  replicas = 6\n}\n";
    site.roll_out(&[("shop.conf", rules)], &[]);
    let names = ["h1", "h2", "h3"];
    wait_until("each copy has a host", || all(&site, &names) == [0, 1, 2, 3, 4, 5]);
    let before: Vec<Vec<u32>> = names.iter().map(|host| held(&site, host)).collect();
    assert!(before.iter().all(|slots| slots.len() == 2), "{before:?}");
    // An agent that is started again keeps its copies.
    site.hosts[0].agent.take().expect("an agent").kill();
    site.start_agent(0);
    wait_until("it follows again", || site.log("h1").contains("release 1 is in force"));
    site.hosts[2].agent.take().expect("an agent").kill();
    wait_until("its copies have moved", || all(&site, &names[..2]) == [0, 1, 2, 3, 4, 5]);
    for (host, before) in names[..2].iter().zip(&before) {
        let now = held(&site, host);
        assert!(before.iter().all(|slot| now.contains(slot)), "{host}: {before:?} became {now:?}");
    }
    // One that comes back takes nothing away.
    let settled: Vec<Vec<u32>> = names[..2].iter().map(|host| held(&site, host)).collect();
    site.start_agent(2);
    wait_until("it gives up what others have", || held(&site, "h3").is_empty());
    let now: Vec<Vec<u32>> = names[..2].iter().map(|host| held(&site, host)).collect();
    assert_eq!(now, settled);
}

/// A certificate authority, and certificates of it: for the store, and for clients.
fn certificates(scratch: &Scratch) {
    let openssl = |words: &str| {
        let mut command = std::process::Command::new("openssl");
        let out =
            command.args(words.split(' ')).current_dir(&scratch.0).output().expect("openssl(1)");
        assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("req -x509 {new_key} -days 2 -subj /CN=site -keyout ca.key -out ca.pem"));
    scratch.write("san", "subjectAltName=IP:127.0.0.1\n");
    for name in ["store", "client"] {
        openssl(&format!("req {new_key} -subj /O={name} -keyout {name}.key -out {name}.csr"));
        let more = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san";
        openssl(&format!("x509 -req -in {name}.csr {more} -out {name}.pem"));
    }
}

#[test]
fn a_host_may_write_what_is_its_own_over_mutual_tls() {
    if !has_etcd() {
        return;
    }
    let scratch = Scratch::new("hosts-tls");
    certificates(&scratch);
    let path = |name: &str| scratch.text_path(name);
    let words = [
        ["--cert-file", &path("store.pem")],
        ["--key-file", &path("store.key")],
        ["--trusted-ca-file", &path("ca.pem")],
    ];
    let mut words: Vec<String> = words.concat().into_iter().map(str::to_owned).collect();
    words.push("--client-cert-auth".to_owned());
    let settings = format!(
        "CACertificate={}\nCertificate={}\nCertificateKey={}\n",
        path("ca.pem"),
        path("client.pem"),
        path("client.key")
    );
    let curl =
        ["--cacert", &path("ca.pem"), "--cert", &path("client.pem"), "--key", &path("client.key")]
            .map(str::to_owned);
    let mut site = Site::with(scratch, "https", words, settings);
    site.curl_words = curl.to_vec();
    // Without a certificate nobody gets in; a store whose certificate comes from elsewhere is none.
    let settings = std::mem::take(&mut site.more_settings);
    for (authority, wrong) in
        [("ca.pem", "does not answer"), ("client.pem", "invalid peer certificate")]
    {
        site.write_operator(&format!("CACertificate={}\n", site.scratch.text_path(authority)));
        let why = site.fails(&["list"]);
        assert!(why.contains(wrong), "{why}");
    }
    site.more_settings = settings;
    site.ask("/v3/auth/user/add", r#"{"name":"root","password":"operator"}"#);
    site.ask("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    site.ask("/v3/auth/enable", "{}");
    site.scratch.write("operator.password", "operator\n");
    site.write_operator(&format!(
        "User=root\nPasswordFile={}\n",
        site.scratch.text_path("operator.password")
    ));
    for name in ["h1", "h2"] {
        let file = site.scratch.text_path(&format!("{name}.password"));
        let words = site.run(&["admit", name, &file]);
        assert!(words.contains(&format!("User=warren-{name}")), "{words}");
        site.add_host_with(name, &format!("User=warren-{name}\nPasswordFile={file}\n"));
        // A second time would shut it out.
        let why = site.fails(&["admit", name, &site.scratch.text_path("again")]);
        assert!(why.contains("let in before; --again"), "{why}");
    }
    site.run(&["admit", "h3", &site.scratch.text_path("h3.first")]);
    site.run(&["admit", "h3", "--again", &site.scratch.text_path("h3.second")]);
    site.wait_listed("2 hosts: 2 ok");
    let status =
        site.roll_out(&[("shop.conf", "object Container \"shop\" {\n  replicas = 3\n}\n")], &[]);
    assert!(status.starts_with("release 1 is on all hosts"), "{status}");
    // With what a host has nobody pushes, releases or speaks for another.
    let as_host = |words: &[&str]| {
        let conf = site.scratch.text_path("h1.conf");
        let out = std::process::Command::new(support::HOSTS)
            .args(["--config", &conf])
            .args(words)
            .output()
            .expect("it runs");
        (out.status.success(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    assert!(as_host(&["list"]).0);
    for words in [&["push", &site.scratch.text_path("rules")][..], &["expel", "h2"], &["prune"]] {
        let (is_done, why) = as_host(words);
        assert!(!is_done && why.contains("the store does not allow this"), "{words:?}: {why}");
    }
    // A host that is no longer admitted logs that, and keeps what it has.
    site.run(&["expel", "h2"]);
    wait_until("the host says so", || site.log("h2").contains("the store does not allow this"));
    assert!(
        site.hosts[1].agent.as_mut().expect("an agent").0.try_wait().expect("a child").is_none()
    );
}
