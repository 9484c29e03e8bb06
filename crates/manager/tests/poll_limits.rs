//! Settings of sockets that systemd has since versions after 252: `PollLimitIntervalSec=`, `PollLimitBurst=`,
//! `PassFileDescriptorsToExec=` (systemd.socket(5)).

mod lab;

use std::os::unix::net::UnixDatagram;

use lab::{Machine, until};

fn send(m: &Machine, path: &str, messages: usize) {
    let sender = UnixDatagram::unbound().expect("a socket");
    for _ in 0..messages {
        sender.send_to(b"x", m.inside(path)).expect("it is there");
    }
}

/// A socket with too much traffic is not looked at for a while, and serves who has waited afterwards; it does not fail.
#[test]
fn a_socket_with_too_much_traffic_is_paused_and_goes_on() {
    let socket = |path: &str, interval: &str| {
        format!(
            "[Socket]\nListenDatagram={path}\nTriggerLimitIntervalSec=0\nPollLimitIntervalSec={interval}\n\
             PollLimitBurst=2\n"
        )
    };
    let service = |out: &str| {
        format!(
            "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\nStandardInput=socket\n\
             ExecStart=/bin/sh -c 'head -c 1 >/dev/null; echo run >>/run/{out}'\n"
        )
    };
    let units = [
        ("short.socket", socket("/run/short", "1s")),
        ("short.service", service("short.out")),
        ("long.socket", socket("/run/long", "1h")),
        ("long.service", service("long.out")),
    ];
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (*name, &**text)).collect();
    let Some(m) = Machine::start("poll-limits", &units) else { return };
    let runs = |out: &str| {
        let text = std::fs::read_to_string(m.inside(&format!("/run/{out}.out")));
        text.unwrap_or_default().lines().count()
    };
    for unit in ["short.socket", "long.socket"] {
        m.expect_job("start", unit, "done");
    }
    send(&m, "/run/short", 6);
    until("all are served, two of them in each second", || (runs("short") == 6).then_some(()));
    assert_eq!(m.console().matches("short.socket: traffic more often").count(), 1);
    send(&m, "/run/long", 3);
    until("the third has to wait", || {
        m.console().contains("long.socket: traffic more often").then_some(())
    });
    m.wait_for("long.service", "inactive/dead");
    assert_eq!((runs("long"), m.state("long.socket")), (2, "active/listening".to_owned()));
    // Orders are carried out meanwhile, and who comes by an order is served.
    m.expect_job("start", "long.service", "done");
    assert_eq!(runs("long"), 3);
    send(&m, "/run/long", 1);
    assert!(m.kill_manager());
    until("the next manager begins to count anew", || (runs("long") == 4).then_some(()));
    m.expect_job("stop", "long.socket", "done");
}

const SERVICE: &str = "[Service]\nExecStart=@P stay\n";

/// Commands of a socket have its descriptors while they are open, if its file says so.
#[test]
fn commands_of_a_socket_are_handed_its_descriptors() {
    let commands = |out: &str| {
        let list = |list: &str| {
            format!("{list}=/bin/sh -c 'echo {list} $$LISTEN_FDS $$LISTEN_FDNAMES >>/run/{out}'\n")
        };
        ["ExecStartPre", "ExecStartPost", "ExecStopPre", "ExecStopPost"].map(list).concat()
    };
    let with = format!(
        "[Socket]\nListenStream=/run/with\nListenFIFO=/run/with.pipe\nFileDescriptorName=door\n\
         PassFileDescriptorsToExec=yes\n{}",
        commands("with.out")
    );
    let without = format!("[Socket]\nListenStream=/run/without\n{}", commands("without.out"));
    let units = [
        ("with.socket", &*with),
        ("with.service", SERVICE),
        ("without.socket", &*without),
        ("without.service", SERVICE),
    ];
    let Some(m) = Machine::start("pass-to-exec", &units) else { return };
    for (unit, passed) in [("with", " 2 door:door"), ("without", "")] {
        m.expect_job("start", &format!("{unit}.socket"), "done");
        m.expect_job("stop", &format!("{unit}.socket"), "done");
        let said = std::fs::read_to_string(m.inside(&format!("/run/{unit}.out"))).expect("said");
        let expected =
            format!("ExecStartPre\nExecStartPost{passed}\nExecStopPre{passed}\nExecStopPost\n");
        assert_eq!(said.replace("  ", "").replace(" \n", "\n"), expected);
    }
}
