//! `Accept=yes`: a connection is an instance, and an instance that is over is forgotten.

mod lab;

use std::io::Read;
use std::os::unix::net::UnixStream;

use lab::{Machine, PATIENCE, until};

const SOCKET: &str =
    "[Socket]\nListenStream=/run/each\nAccept=yes\nMaxConnections=2\nTriggerLimitIntervalSec=0";

fn connect(m: &Machine) -> UnixStream {
    let stream = UnixStream::connect(m.inside("/run/each")).expect("the socket is there");
    stream.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
    stream
}

/// What the service says until it closes the connection.
fn answer(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer, or the end");
    text
}

fn services(m: &Machine) -> u64 {
    m.totals()["by_type"]["service"].as_u64().unwrap_or(0)
}

#[test]
fn instances_are_forgotten_and_their_connections_never_lost() {
    let units = [("each.socket", SOCKET), ("each@.service", "[Service]\nExecStart=@P answer")];
    let Some(m) = Machine::start("connections", &units) else { return };
    let before = services(&m);
    m.expect_job("start", "each.socket", "done");
    for _ in 0..3 {
        assert!(answer(connect(&m)).trim().parse::<u32>().is_ok(), "a pid");
    }
    assert!(services(&m) > before, "the instances are there for a while");
    until("the instances are forgotten", || (services(&m) == before).then_some(()));

    // What the state file says of ids that mean nothing any more holds for the next manager too.
    assert!(m.kill_manager());
    assert!(answer(connect(&m)).trim().parse::<u32>().is_ok(), "a pid");
    until("the instance is forgotten", || (services(&m) == before).then_some(()));
    assert_eq!(m.state("each.socket"), "active/listening");
}

#[test]
fn an_instance_that_cannot_run_is_forgotten() {
    let units = [("t@.service", "[Unit]\nRefuseManualStart=yes\n[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("refused-instances", &units) else { return };
    let before = services(&m);
    for n in 0..20 {
        let ended = m.job("start", &format!("t@{n}.service"));
        assert!(matches!(ended, lab::Ended::Refused(_)), "{ended:?}");
    }
    assert_eq!(services(&m), before + 20);
    until("they are forgotten", || (services(&m) == before).then_some(()));
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let units = [("each.socket", SOCKET), ("each@.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("refused", &units) else { return };
    let before = services(&m);
    m.expect_job("start", "each.socket", "done");
    let kept = [connect(&m), connect(&m)];
    until("two are served", || {
        (services(&m) == before + 2 && m.totals()["jobs"] == 0).then_some(())
    });
    assert_eq!(answer(connect(&m)), "", "the third is closed");
    drop(kept);
}
