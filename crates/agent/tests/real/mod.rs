//! Real managers in nested machines, each with an agent that is one of its services, around a real etcd.
//!
//! The other tests have a manager that only writes down what it is told. What is tried here is what that one cannot
//! show: services that do not become ready, files of a host that hide those of rules, logs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use warren_testkit::wait_until;

use crate::support::{AGENT, Process, Site, has_etcd};

/// The directory of the programs, if real managers can be run here.
fn programs() -> Option<PathBuf> {
    if !has_etcd() {
        return None;
    }
    let programs = Path::new(AGENT).parent().expect("a directory").to_owned();
    if !rustix::process::geteuid().is_root() {
        warren_testkit::not_run("needs root");
        return None;
    }
    let needed = ["warren", "warrend", "warren-init", "warren-exec"];
    if !needed.iter().all(|name| programs.join(name).exists()) {
        warren_testkit::not_run("the manager is not built (cargo build --workspace)");
        return None;
    }
    Some(programs)
}

/// A nested machine whose agent follows the site. It ends when this is dropped.
struct Machine {
    name: String,
    run: Process,
}

impl Machine {
    fn start(site: &Site, programs: &Path, name: &str) -> Machine {
        let path = |what: &str| site.scratch.text_path(&format!("{name}.{what}"));
        let wants = site.scratch.path(&format!("{name}.units/multi-user.target.wants"));
        std::fs::create_dir_all(&wants).expect("a directory");
        site.scratch.write(&format!("{name}.labels"), &format!("name={name}\n"));
        let settings = format!(
            "[Hosts]\nEndpoints={}\nName={name}\nLabels={}\nTrustedKeys={}\nStateDirectory={}\nLeaseSec=10\nCapacity=4\n",
            site.url,
            path("labels"),
            site.scratch.text_path("trusted-keys"),
            path("state"),
        );
        site.scratch.write(&format!("{name}.conf"), &settings);
        let prepared = Command::new(AGENT)
            .args(["--config", &path("conf"), "--prepare", &path("fleet")])
            .status()
            .expect("the agent runs");
        assert!(prepared.success());
        let unit = format!(
            "[Unit]\nDescription=Agent of many hosts\n[Service]\nType=notify\nExecStart={AGENT} --config {}\n\
             Restart=always\nRestartSec=1\n",
            path("conf")
        );
        site.scratch.write(&format!("{name}.units/warren-agent.service"), &unit);
        std::os::unix::fs::symlink("../warren-agent.service", wants.join("warren-agent.service"))
            .expect("a link");
        let log = std::fs::File::create(site.scratch.path(&format!("{name}.log"))).expect("a log");
        // Tests run beside one another, each with hosts of the same names.
        let of_site = site.scratch.0.file_name().expect("a name").to_string_lossy();
        let name = format!("{of_site}-{name}");
        let mut run = Command::new(programs.join("warren"));
        run.args(["run", "--name", &name])
            .args(["--units", &path("units"), "--fleet", &path("fleet")])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        Machine { name, run: Process(run.spawn().expect("warren(1)")) }
    }

    /// Runs `warren` for the manager of this machine.
    fn run_command(&self, programs: &Path, words: &[&str]) {
        let mut command = Command::new(programs.join("warren"));
        let out = command.args(["--machine", &self.name]).args(words).output().expect("warren(1)");
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // So told, it takes its machine down; a kill would leave that to the kernel.
        self.run.signal("TERM");
        let _ = self.run.0.wait();
    }
}

/// Rules for one service of a container on each host.
fn rules(exec: &str, timeout: &str) -> String {
    format!(
        "object Container \"shop\" {{ }}\napply Service \"web\" to Container {{\n  Type = \"notify\"\n  \
         NotifyAccess = \"all\"\n  ExecStart = \"{exec}\"\n  TimeoutStartSec = \"{timeout}\"\n  \
         WantedBy = \"multi-user.target\"\n  assign where true\n}}\n"
    )
}

const READY: &str = "/bin/sh -c 'systemd-notify --ready && exec sleep infinity'";
const NEVER_READY: &str = "/bin/sh -c 'echo I wait for the database; exec sleep infinity'";

/// Its start job ends by the timeout, and then the unit has failed; without a timeout it never ends.
#[test]
fn a_service_that_never_gets_ready_goes_back() {
    let Some(programs) = programs() else { return };
    if Command::new("systemd-notify").arg("--version").output().is_err() {
        return warren_testkit::not_run("systemd-notify(1), not installed");
    }
    let site = Site::new("hosts-notify", 0, &[]);
    let machines = ["h1", "h2"].map(|name| Machine::start(&site, &programs, name));
    site.wait_listed("2 hosts: 2 ok");
    let status = site.roll_out(&[("shop.conf", &rules(READY, "20s"))], &["--soak", "1"]);
    assert!(status.starts_with("release 1 is on all hosts"), "{status}");
    let status = site.roll_out(&[("shop.conf", &rules(NEVER_READY, "2s"))], &["--soak", "1"]);
    let why = "release 2 went back: h1: 1 more unit failed than before: shop-web.service: not ready within \
               TimeoutStartSec=";
    assert!(status.starts_with(why) && status.contains("(WR-0043 of shop)"), "{status}");
    assert!(status.contains("; its log ends with \"I wait for the database\""), "{status}");
    site.wait_listed("2 hosts: 2 ok");
    // A job that never ends keeps nobody from going back.
    let status = site.roll_out(
        &[("shop.conf", &rules(NEVER_READY, "infinity"))],
        &["--soak", "1", "--patience", "6"],
    );
    let why = "release 3 went back: h1: it is still at work after 6 s";
    assert!(status.starts_with(why) && status.contains("1 of 1 host went back\n"), "{status}");
    site.wait_listed("2 hosts: 2 ok");
    drop(machines);
}

/// That is no fault, and somebody who wonders why the host is not as others is told.
#[test]
fn a_file_by_hand_that_hides_a_unit_of_rules_is_named() {
    let Some(programs) = programs() else { return };
    let site = Site::new("hosts-hidden", 0, &[]);
    let machine = Machine::start(&site, &programs, "h1");
    site.wait_listed("1 host: 1 ok");
    let rules = "object Container \"shop\" { }\napply Service \"web\" to Container {\n  \
                 ExecStart = \"/bin/sleep infinity\"\n  WantedBy = \"multi-user.target\"\n  assign where true\n}\n";
    site.roll_out(&[("shop.conf", rules)], &["--soak", "1"]);
    assert!(!site.run(&["list"]).contains("by rules"));
    let unit = "[Service]\nExecStart=/bin/sleep 1000\n";
    let by_hand = site.scratch.write("h1.units/shop-web.service", unit);
    machine.run_command(&programs, &["refresh"]);
    let words = "shop-web.service is by /etc/systemd/system/shop-web.service, and not by rules";
    site.wait_listed(words);
    site.wait_listed("1 host: 1 ok");
    let why = site.run(&["why"]);
    let expected = format!("units of rules are hidden on 1 host\n  h1: {words}\nNothing is wrong");
    assert!(why.starts_with(&expected), "{why}");
    std::fs::remove_file(by_hand).expect("it was there");
    machine.run_command(&programs, &["refresh"]);
    wait_until("it is by rules again", || !site.run(&["list"]).contains("by rules"));
}

/// `make run HOSTS=3` as a new user does it: real managers in nested machines, each with an agent that is one of its
/// services.
#[test]
fn the_tour_over_three_hosts_comes_back_from_a_bad_revision() {
    let Some(programs) = programs() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hosts/tour.sh");
    let mut tour = Command::new("sh");
    tour.arg(script).env("PROGRAMS", programs).env("HOSTS", "3");
    let out = tour.output().expect("sh(1)");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    let said = [
        "release 1 is on all hosts",
        "release 2 went back: h",
        "2 of 2 hosts went back",
        "3 hosts: 3 ok.",
    ];
    for said in said.into_iter().chain(["Nothing is wrong"]) {
        assert!(text.contains(said), "{said}: {text}");
    }
}
