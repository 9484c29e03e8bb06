//! What systemd-oomd is told of units, what is made of what it kills (`ManagedOOMSwap=` and its relatives), and marks of groups.

mod lab;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};
use warren_sys::cgroup::Tree;

use lab::{Machine, until};

const KEPT: &str = "[Service]\nExecStart=/bin/sleep 1000\nManagedOOMSwap=kill\n\
                    ManagedOOMMemoryPressure=kill\nManagedOOMMemoryPressureLimit=50%\n";

/// Who asks as systemd-oomd does.
struct Subscriber {
    stream: UnixStream,
    rest: Vec<u8>,
}

impl Subscriber {
    fn new(m: &Machine) -> Subscriber {
        let path = m.inside("/run/systemd/io.system.ManagedOOM");
        let mut stream = until("it listens", || UnixStream::connect(&path).ok());
        let wait = Some(Duration::from_secs(60));
        stream.set_read_timeout(wait).expect("it can be bounded");
        let method = "io.systemd.ManagedOOM.SubscribeManagedOOMCGroups";
        let call = json!({"method": method, "parameters": {}, "more": true});
        let bytes = [call.to_string().as_bytes(), b"\0"].concat();
        stream.write_all(&bytes).expect("it reads");
        Subscriber { stream, rest: Vec::new() }
    }

    /// What comes next, a line for each group: path, property, mode, limit.
    #[track_caller]
    fn next(&mut self) -> Vec<String> {
        let end = loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == 0) {
                break end;
            }
            let mut room = [0; 4096];
            let bytes = self.stream.read(&mut room).expect("it answers in time");
            assert_ne!(bytes, 0, "it has hung up");
            self.rest.extend_from_slice(&room[..bytes]);
        };
        let message: Vec<u8> = self.rest.drain(..=end).collect();
        let answer: Value = serde_json::from_slice(&message[..end]).expect("JSON");
        assert_eq!(answer["continues"], true, "{answer}");
        let said = &answer["parameters"];
        let method = "SubscribeManagedOOMCGroups";
        let checked = warren_manager::fuzz::varlink_answer("io.systemd.ManagedOOM", method, said);
        assert_eq!(checked, Ok(()), "{said}");
        let line = |group: &Value| {
            let word = |name: &str| group[name].as_str().unwrap_or_default().to_owned();
            let number = |name: &str| group[name].as_u64().map(|number| format!(" {number}"));
            let property = word("property").replace("ManagedOOM", "");
            let more = [number("limit"), number("duration")].map(Option::unwrap_or_default);
            format!("{} {property} {}{}", word("path"), word("mode"), more.concat())
        };
        said["cgroups"].as_array().expect("a list").iter().map(line).collect()
    }

    /// All that comes until these have, in their order; other groups may come between.
    #[track_caller]
    fn hear(&mut self, expected: &[&str]) {
        let mut left = expected;
        let mut heard = Vec::new();
        while !left.is_empty() {
            for line in self.next() {
                if line == left[0] {
                    left = &left[1..];
                }
                heard.push(line);
                if left.is_empty() {
                    break;
                }
            }
            assert!(heard.len() < 100, "{left:?} did not come: {heard:?}");
        }
    }
}

fn tree(m: &Machine) -> Tree {
    Tree::open(m.cgroup_directory()).expect("it is there")
}

#[test]
fn systemd_oomd_is_told_of_groups_and_of_what_changes() {
    let slice = "[Slice]\nManagedOOMSwap=kill\n";
    let units = [("kept.service", KEPT), ("-.slice.d/10-oomd.conf", slice)];
    let Some(m) = Machine::start("oomd-told", &units) else { return };
    let mut oomd = Subscriber::new(&m);
    assert_eq!(oomd.next(), [" Swap kill"]);
    m.expect_job("start", "kept.service", "done");
    let path = "/system.slice/kept.service";
    // As of 252.
    let half = 2_147_483_648_u32;
    let of = |what: &str| format!("{path} {what}");
    let pressure = of(&format!("MemoryPressure kill {half}"));
    oomd.hear(&[&of("Swap kill"), &pressure]);
    // An edit of what runs.
    let edited = KEPT.replace("ManagedOOMSwap=kill\n", "ManagedOOMMemoryPressureDurationSec=7s\n");
    m.write("kept.service", &edited.replace("50%", "25%"));
    m.call("ReloadConfiguration", &json!({}));
    let quarter = of("MemoryPressure kill 1073741824");
    // Of 252 nobody knows the second.
    let lasts = format!("{quarter} 7000000");
    oomd.hear(&[&of("Swap auto"), &quarter, &lasts]);
    // The next manager knows as much.
    assert!(m.kill_manager());
    let mut oomd = Subscriber::new(&m);
    oomd.hear(&[" Swap kill", &quarter, &lasts]);
    m.expect_job("stop", "kept.service", "done");
    oomd.hear(&[&of("MemoryPressure auto")]);
}

/// systemd-oomd has a user of its own.
#[test]
fn a_process_of_its_unit_may_ask() {
    if !lab::others_reach_programs("oomd-user") {
        return;
    }
    let asks = "import json,socket\n\
        s=socket.socket(socket.AF_UNIX); s.connect('/run/systemd/io.system.ManagedOOM')\n\
        m='io.systemd.ManagedOOM.SubscribeManagedOOMCGroups'\n\
        s.sendall(json.dumps({'method':m,'more':True}).encode()+b'\\0')\n\
        b=b''\n\
        while not b.endswith(b'\\0'): b+=s.recv(65536)\n\
        print(b[:-1].decode())\n";
    let Some(m) = Machine::start("oomd-user", &[("kept.service", KEPT)]) else { return };
    let script = m.out("asks.py");
    std::fs::write(&script, asks).expect("it can be written");
    let script = script.display();
    for (unit, expected) in [("systemd-oomd.service", "cgroups"), ("other.service", "Denied")] {
        let said = m.out(unit);
        let text = format!(
            "[Service]\nType=oneshot\nUser=65534\nStandardOutput=file:{}\n\
             StandardInput=file:{script}\nExecStart=/usr/bin/python3 -\n",
            said.display()
        );
        m.write(unit, &text);
        m.call("ReloadConfiguration", &json!({}));
        m.expect_job("start", unit, "done");
        let said = std::fs::read_to_string(&said).expect("it is there");
        assert!(said.contains(expected), "{unit}: {said}");
    }
}

#[test]
fn a_group_is_marked_as_spared_as_long_as_its_unit_says_so() {
    let spared = "[Service]\nExecStart=/bin/sleep 1000\nManagedOOMPreference=avoid\n";
    let Some(m) = Machine::start("oomd-spared", &[("spared.service", spared)]) else { return };
    m.expect_job("start", "spared.service", "done");
    let marks = || {
        let mark = |name: &str| tree(&m).marked_number("system.slice/spared.service", name);
        (mark("user.oomd_avoid"), mark("user.oomd_omit"))
    };
    assert_eq!(marks(), (Some(1), None));
    m.write("spared.service", &spared.replace("avoid", "omit"));
    m.call("ReloadConfiguration", &json!({}));
    until("the other mark is set", || (marks() == (None, Some(1))).then_some(()));
    m.write("spared.service", &spared.replace("avoid", "none"));
    m.call("ReloadConfiguration", &json!({}));
    until("no mark is left", || (marks() == (None, None)).then_some(()));
}

/// systemd-coredump looks for both.
#[test]
fn a_group_that_receives_core_dumps_is_marked() {
    let service = "[Service]\nExecStart=/bin/sleep 1000\nDelegate=yes\nCoredumpReceive=yes\n";
    let Some(m) = Machine::start("oomd-core", &[("core.service", service)]) else { return };
    m.expect_job("start", "core.service", "done");
    let mark = |name: &str| tree(&m).marked_number("system.slice/core.service", name);
    let marks = || (mark("user.coredump_receive"), mark("user.delegate"));
    assert_eq!(marks(), (Some(1), Some(1)));
    m.write("core.service", &service.replace("CoredumpReceive=yes", "CoredumpReceive=no"));
    m.call("ReloadConfiguration", &json!({}));
    until("no mark is left", || (marks() == (None, None)).then_some(()));
}

/// systemd-oomd counts its kills in the group before it kills.
#[test]
fn what_systemd_oomd_kills_has_run_out_of_memory() {
    let units =
        [("kept.service", KEPT), ("other.service", "[Service]\nExecStart=/bin/sleep 1000\n")];
    let Some(m) = Machine::start("oomd-kills", &units) else { return };
    for unit in ["kept.service", "other.service"] {
        m.expect_job("start", unit, "done");
    }
    for (unit, count, result) in
        [("kept.service", true, "oom-kill"), ("other.service", false, "signal")]
    {
        let group = format!("system.slice/{unit}");
        if count {
            tree(&m).mark(&group, "user.oomd_ooms", Some("1")).expect("it can be set");
        }
        tree(&m).kill(&group).expect("it can be killed");
        m.wait_for(unit, "failed/failed");
        assert_eq!(m.status(unit)["result"], result, "{unit}");
    }
}
