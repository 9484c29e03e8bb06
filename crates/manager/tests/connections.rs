//! `Accept=yes`: a connection is an instance, and an instance that is over is forgotten.

mod lab;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use lab::recordings::live;
use lab::{Machine, PATIENCE, until};
use serde_json::json;
use warren_testkit::free_address;
use warren_trace::analysis::Analysis;
use warren_trace::words::Work;

const SOCKET: &str =
    "[Socket]\nListenStream=/run/each\nAccept=yes\nMaxConnections=2\nTriggerLimitIntervalSec=0";

fn connect(m: &Machine) -> UnixStream {
    let stream = UnixStream::connect(m.inside("/run/each")).expect("the socket is there");
    stream.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
    stream
}

/// A number needs no entry in the user database. Whom they are to belong to decides who may connect: they are not
/// opened for others.
#[test]
fn sockets_belong_to_whom_they_are_to() {
    use std::os::unix::fs::MetadataExt;
    type Owner = Option<(u32, u32)>;
    const OTHERS: [(&str, &str, Owner); 5] = [
        ("number", "SocketUser=12345\nSocketGroup=54321", Some((12345, 54321))),
        ("group", "SocketGroup=54321", Some((0, 54321))),
        ("name", "SocketUser=daemon", Some((1, 1))),
        ("nobody", "SocketUser=no-such-user", None),
        ("no-group", "SocketGroup=no-such-group", None),
    ];
    let mut units = Vec::new();
    for (kind, at) in [("s", "ListenStream"), ("f", "ListenFIFO")] {
        for (name, owner, _) in OTHERS {
            let text = format!("[Socket]\n{at}=/run/{kind}/{name}\nSocketMode=0640\n{owner}");
            units.push((format!("{kind}-{name}.socket"), text));
            let service = "[Service]\nExecStart=@P stay".to_owned();
            units.push((format!("{kind}-{name}.service"), service));
        }
    }
    let units: Vec<(&str, &str)> = units.iter().map(|(n, text)| (&**n, &**text)).collect();
    let Some(m) = Machine::start("owners", &units) else { return };
    for kind in ["s", "f"] {
        for (name, owner, expected) in OTHERS {
            let unit = format!("{kind}-{name}.socket");
            let Some(expected) = expected else {
                m.expect_job("start", &unit, "failed");
                let said = m.status(&unit).to_string();
                assert!(said.contains(&format!("{owner}: no such ")), "{said}");
                continue;
            };
            m.expect_job("start", &unit, "done");
            let file = std::fs::metadata(m.inside(&format!("/run/{kind}/{name}"))).expect("it");
            assert_eq!((file.uid(), file.gid()), expected, "{unit}");
            assert_eq!(file.mode() & 0o7777, 0o640, "{unit}");
        }
    }
}

/// systemd.socket(5), `FlushPending=`: what waits when the service has ended starts none, and clients are rejected.
#[test]
fn connections_that_wait_are_rejected_where_what_is_pending_is_flushed() {
    let socket = "[Socket]\nListenStream=/run/flushed\nFlushPending=yes\nTriggerLimitIntervalSec=0";
    let service = "[Service]\nExecStart=@P append:@D/out/runs:run stay";
    let units = [("flushed.socket", socket), ("flushed.service", service)];
    let Some(m) = Machine::start("flushed", &units) else { return };
    m.expect_job("start", "flushed.socket", "done");
    for runs in 1..=2 {
        let connect = || UnixStream::connect(m.inside("/run/flushed")).expect("it listens");
        let mut clients = Vec::new();
        // Who comes while others are being rejected is so, too.
        until("it runs", || {
            clients.push(connect());
            (m.lines("runs").len() == runs).then_some(())
        });
        clients.extend((0..3).map(|_| connect()));
        m.expect_job("stop", "flushed.service", "done");
        for mut client in clients {
            client.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
            assert_eq!(client.read(&mut [0]).expect("it is rejected"), 0);
        }
        m.wait_for("flushed.socket", "active/listening");
        assert_eq!(m.state("flushed.service"), "inactive/dead");
        assert_eq!(m.lines("runs").len(), runs);
    }
}

/// More at once than there is room for on their way to the manager, and more of one unit than one message has.
#[test]
fn any_number_of_sockets_is_opened_beside_the_loop() {
    const UNITS: usize = 700;
    const OF_ONE: usize = 300;
    let mut units: Vec<(String, String)> = (0..UNITS)
        .map(|n| (format!("far{n}.socket"), format!("[Socket]\nListenStream=@D/out/far{n}")))
        .collect();
    let services = (0..UNITS).map(|n| format!("far{n}.service"));
    units.extend(services.map(|name| (name, "[Service]\nExecStart=@P stay".to_owned())));
    let fifos: String = (0..OF_ONE).map(|n| format!("ListenFIFO=@D/out/fifo{n}\n")).collect();
    units.push(("many.socket".to_owned(), format!("[Socket]\nRemoveOnStop=yes\n{fifos}")));
    // Whatever it was passed, and nothing else, is open beyond the standard streams: FIFOs all of them.
    let counts = "[Service]\nExecStart=/bin/sh -c 'ls -l /proc/$$$$/fd | grep -c /out/fifo >@D/out/many; \
                  exec @P stay'";
    units.push(("many.service".to_owned(), counts.to_owned()));
    let all: String = (0..UNITS).map(|n| format!("Wants=far{n}.socket\n")).collect();
    units.push(("all.target".to_owned(), format!("[Unit]\n{all}Wants=many.socket")));
    let units: Vec<(&str, &str)> = units.iter().map(|(n, text)| (&**n, &**text)).collect();
    let Some(m) = Machine::start("any-number", &units) else { return };
    m.expect_job("start", "all.target", "done");
    for n in 0..UNITS {
        m.wait_for(&format!("far{n}.socket"), "active/listening");
        UnixStream::connect(m.out(&format!("far{n}"))).expect("it listens");
    }
    m.wait_for("many.socket", "active/listening");
    let last = m.out(&format!("fifo{}", OF_ONE - 1));
    std::fs::write(&last, "x").expect("somebody has it open");
    m.wait_for("many.service", "active/running");
    let counted = || m.lines("many").first()?.parse::<usize>().ok();
    assert_eq!(until("it counts them", counted), OF_ONE);
    m.expect_job("start", "far1.service", "done");
    m.expect_job("stop", "many.socket", "done");
    until("they are removed", || (!last.exists()).then_some(()));
}

/// What the service says until it closes the connection.
fn answer(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer, or the end");
    text
}

/// Connects, takes the answer, and waits until the connection counts no more: a client sees the end of it before the
/// manager hears of the process's.
fn served(m: &Machine) -> String {
    let answered = answer(connect(m));
    until("it is no connection any more", || {
        (m.status("each.socket")["connections"]["now"] == 0).then_some(())
    });
    answered
}

/// As with systemd 252. Commands in front of `ExecStart=` had no connection, and services never ran; those behind it
/// had none, and services failed.
#[test]
fn all_commands_of_an_inetd_service_have_its_connection() {
    let lists = [
        ("Condition", "condition"),
        ("StartPre", "pre"),
        ("Start", "sh -c 'echo main $$LISTEN_FDS; read x; echo $$x'"),
        ("Stop", "stop"),
        ("StopPost", "post"),
    ];
    let line = |&(list, words): &(&str, &str)| match words.starts_with("sh ") {
        true => format!("Exec{list}=/bin/{words}\n"),
        false => format!("Exec{list}=/bin/echo {words}\n"),
    };
    let lists = lists.iter().map(line).collect::<String>();
    let service = format!("[Service]\nStandardInput=socket\n{lists}");
    let units = [("each.socket", SOCKET), ("each@.service", &service)];
    let Some(m) = Machine::start("inetd", &units) else { return };
    m.expect_job("start", "each.socket", "done");
    for killed in [false, true] {
        let mut stream = connect(&m);
        let mut begin = [0; "condition\npre\nmain\n".len()];
        stream.read_exact(&mut begin).expect("it runs");
        assert_eq!(String::from_utf8_lossy(&begin), "condition\npre\nmain\n");
        let old = m.manager_pid();
        assert!(!killed || m.kill_manager());
        until("a manager answers", || (!killed || m.manager_pid() != old).then_some(()));
        stream.write_all(b"said\n").expect("it reads");
        assert_eq!(answer(stream), "said\nstop\npost\n", "killed {killed}");
    }
    until("no instance is left", || {
        (m.status("each.socket")["connections"]["now"] == 0).then_some(())
    });
}

/// systemd.service(5), NonBlocking=: descriptors that are handed over, and none of the standard streams.
#[test]
fn connections_that_are_handed_over_do_not_wait_if_the_service_says_so() {
    let flags = |fd: u32| format!("/bin/sh -c 'grep flags /proc/self/fdinfo/{fd} >&{fd}'");
    let passed = format!("[Service]\nNonBlocking=yes\nExecStart={}", flags(3));
    let stream =
        format!("[Service]\nNonBlocking=yes\nStandardInput=socket\nExecStart={}", flags(0));
    let units = [
        ("each.socket", SOCKET),
        ("each@.service", &*passed),
        ("in.socket", "[Socket]\nListenStream=/run/in\nAccept=yes"),
        ("in@.service", &*stream),
    ];
    let Some(m) = Machine::start("flags", &units) else { return };
    m.expect_job("start", "each.socket", "done");
    m.expect_job("start", "in.socket", "done");
    assert_eq!(answer(connect(&m)), "flags:\t04002\n");
    let stream = UnixStream::connect(m.inside("/run/in")).expect("the socket is there");
    stream.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
    assert_eq!(answer(stream), "flags:\t02\n");
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
        assert!(served(&m).trim().parse::<u32>().is_ok(), "a pid");
    }
    assert!(services(&m) > before, "the instances are there for a while");
    until("the instances are forgotten", || (services(&m) == before).then_some(()));

    // What the state file says of ids that mean nothing any more holds for the next manager too.
    assert!(m.kill_manager());
    assert!(answer(connect(&m)).trim().parse::<u32>().is_ok(), "a pid");
    until("the instance is forgotten", || (services(&m) == before).then_some(()));
    assert_eq!(m.state("each.socket"), "active/listening");
}

/// The numbers of units that are forgotten come again.
#[test]
fn what_forgotten_instances_did_is_recorded_under_their_names() {
    let units = [("each.socket", SOCKET), ("each@.service", "[Service]\nExecStart=@P answer")];
    let Some(m) = Machine::start("former", &units) else { return };
    let before = services(&m);
    m.expect_job("start", "each.socket", "done");
    for _ in 0..3 {
        assert!(served(&m).trim().parse::<u32>().is_ok(), "a pid");
    }
    until("the instances are forgotten", || (services(&m) == before).then_some(()));
    let live = live(&m, 0);
    let analysis = Analysis::of(&live);
    let bars = analysis.timeline.bars.iter().filter(|bar| bar.work == Work::Start);
    let names: BTreeSet<&str> = bars.map(|bar| analysis.name(bar.row)).collect();
    let instances = names.iter().filter(|name| name.starts_with("each@")).count();
    assert_eq!(instances, 3, "{names:?}");
}

/// What comes back of a line from `cat` behind a port of this machine; nothing if it is refused.
fn echoed(stream: &mut (impl std::io::Read + std::io::Write)) -> Option<String> {
    let mut line = String::new();
    // Who is refused may hear of it while writing or while reading.
    stream.write_all(b"here\n").ok()?;
    BufReader::new(stream).read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line)
}

#[test]
fn one_source_has_so_many_connections() {
    let port = free_address().port();
    let socket = format!("[Socket]\nListenStream={port}\nAccept=yes\nMaxConnectionsPerSource=1");
    let service = "[Service]\nExecStart=/bin/cat\nStandardInput=socket";
    let units = [("per.socket", &*socket), ("per@.service", service)];
    let Some(m) = Machine::start("sources", &units) else { return };
    m.expect_job("start", "per.socket", "done");
    let connect = |from: &str| {
        let stream = TcpStream::connect((from, port)).expect("the socket listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
        stream
    };
    let mut first = connect("127.0.0.1");
    assert_eq!(echoed(&mut first).as_deref(), Some("here\n"));
    assert_eq!(echoed(&mut connect("127.0.0.1")), None);
    assert_eq!(echoed(&mut connect("::1")).as_deref(), Some("here\n"), "another source");
    // Whose connections there are is known to the next manager.
    assert!(m.kill_manager());
    assert_eq!(echoed(&mut connect("127.0.0.1")), None);
    assert_eq!(echoed(&mut first).as_deref(), Some("here\n"));
    drop(first);
    until("the source is free again", || echoed(&mut connect("127.0.0.1")).map(drop));
}

/// systemd 252 counts addresses alone, newer ones users, too.
#[test]
fn one_user_has_so_many_connections_over_a_unix_socket() {
    let socket = "[Socket]\nListenStream=/run/per\nAccept=yes\nMaxConnectionsPerSource=1";
    let service = "[Service]\nExecStart=/bin/cat\nStandardInput=socket";
    let units = [("per.socket", socket), ("per@.service", service)];
    let Some(m) = Machine::start("sources-users", &units) else { return };
    m.expect_job("start", "per.socket", "done");
    let connect = || {
        let stream = UnixStream::connect(m.inside("/run/per")).expect("the socket listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("setsockopt");
        stream
    };
    let mut first = connect();
    assert_eq!(echoed(&mut first).as_deref(), Some("here\n"));
    assert_eq!(echoed(&mut connect()), None);
    assert!(m.kill_manager());
    assert_eq!(echoed(&mut connect()), None);
    assert!(m.console().contains("too many connections from user "), "{}", m.console());
    drop(first);
    until("the user may come again", || echoed(&mut connect()).map(drop));
}

#[test]
fn of_many_connections_at_once_no_more_than_the_limit_are_served() {
    let socket = SOCKET.replace("MaxConnections=2", "MaxConnections=5");
    let units = [
        ("each.socket", &*socket),
        ("each@.service", "[Service]\nStandardInput=socket\nExecStart=/bin/cat"),
    ];
    let Some(m) = Machine::start("burst", &units) else { return };
    m.expect_job("start", "each.socket", "done");
    let number = |of: &str| m.status("each.socket")["connections"][of].as_u64().expect("a number");
    for round in 1..=8 {
        let all: Vec<UnixStream> = (0..12).map(|_| connect(&m)).collect();
        until("each is counted", || {
            (number("accepted") + number("refused") == round * 12).then_some(())
        });
        assert_eq!(number("now"), 5, "in round {round}");
        drop(all);
        until("nobody is connected", || (number("now") == 0).then_some(()));
    }
}

/// Process 1 has closed what it kept of the sockets before they are bound again.
#[test]
fn an_address_is_free_when_its_socket_comes_up_again() {
    let mut socket =
        "[Unit]\nStartLimitIntervalSec=0\n[Socket]\nAccept=yes\nListenStream=@warren-test-again"
            .to_owned();
    for _ in 0..3 {
        socket += &format!("\nListenStream={}", free_address());
    }
    let units = [("again.socket", &*socket), ("again@.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("again", &units) else { return };
    for _ in 0..40 {
        m.expect_job("restart", "again.socket", "done");
    }
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
    // Who is closed may see it before the manager's next view is out.
    let counted = json!({"now": 2, "accepted": 2, "refused": 1});
    until("it is counted", || (m.status("each.socket")["connections"] == counted).then_some(()));
    drop(kept);
}

/// Who has its name by then is not forgotten before it.
#[test]
fn an_instance_whose_template_was_renamed_gives_way_to_who_has_its_name() {
    let service = "[Service]\nSlice=-.slice\nExecStart=@P stay";
    let units = [("a@.service", service), ("other@.service", service)];
    let Some(m) = Machine::start("renamed-template", &units) else { return };
    let before = services(&m);
    m.expect_job("start", "a@1.service", "done");
    let units = m.directory.join("units");
    std::fs::rename(units.join("a@.service"), units.join("b@.service")).expect("it is there");
    std::os::unix::fs::symlink("b@.service", units.join("a@.service")).expect("a link");
    m.call("ReloadConfiguration", &json!({}));
    // What comes to rest later is forgotten later.
    m.expect_job("start", "other@1.service", "done");
    let with_other = services(&m);
    m.expect_job("stop", "other@1.service", "done");
    until("the other is forgotten", || (services(&m) < with_other).then_some(()));
    let runs = m.players();
    m.expect_job("start", "b@1.service", "done");
    // A process has its program's name only a moment after who began it is told so.
    until("the other name's runs in its place", || {
        let now = m.players();
        (now.len() == 1 && now != runs).then_some(())
    });
    m.expect_job("stop", "a@1.service", "done");
    until("nobody runs", || m.players().is_empty().then_some(()));
    until("both are forgotten", || (services(&m) == before).then_some(()));
}

/// As those of a pool for each customer, with a socket before it.
#[test]
fn a_socket_and_a_service_of_templates_that_name_each_other_are_forgotten_together() {
    let service = "[Unit]\nRequires=pool@%i.socket\n[Service]\nExecStart=@P stay";
    let units = [("pool@.service", service), ("pool@.socket", "[Socket]\nListenStream=/run/%i")];
    let Some(m) = Machine::start("pairs", &units) else { return };
    let before = services(&m);
    for customer in ["a", "b"] {
        m.expect_job("start", &format!("pool@{customer}.service"), "done");
    }
    m.expect_job("stop", "pool@a.service", "done");
    m.expect_job("stop", "pool@b.socket", "done");
    until("one of them is forgotten", || (services(&m) == before + 1).then_some(()));
    assert_eq!(m.state("pool@a.socket"), "active/listening");
    m.expect_job("start", "pool@a.service", "done");
    m.expect_job("start", "pool@b.service", "done");
    m.expect_job("stop", "pool@a.socket", "done");
    m.expect_job("stop", "pool@b.socket", "done");
    until("both are forgotten", || (services(&m) == before).then_some(()));
}

/// systemd 252 fails it by what it calls resources, too.
#[test]
fn a_socket_without_a_template_fails_when_somebody_comes() {
    let units = [("alone.socket", "[Socket]\nListenStream=/run/alone\nAccept=yes")];
    let Some(m) = Machine::start("no-template", &units) else { return };
    m.expect_job("start", "alone.socket", "done");
    let _client = std::os::unix::net::UnixStream::connect(m.inside("/run/alone")).expect("heard");
    m.wait_for("alone.socket", "failed/failed");
    assert_eq!(m.status("alone.socket")["result"], "resources");
}

/// Linux 7.0 keeps extended attributes of sockets; older ones refuse them, which is said.
#[test]
fn sockets_have_the_extended_attributes_that_the_kernel_keeps() {
    let socket = "[Socket]\nListenStream=/run/marked\nAccept=yes\nXAttrEntryPoint=user.varlink=entrypoint\n\
                  XAttrListen=user.listens=%n\nXAttrAccept=user.accepted=yes\n";
    let service = "[Service]\nExecStart=@P stay";
    let units = [("marked.socket", socket), ("marked@.service", service)];
    let Some(m) = Machine::start("extended-attributes", &units) else { return };
    m.expect_job("start", "marked.socket", "done");
    let _client = std::os::unix::net::UnixStream::connect(m.inside("/run/marked")).expect("heard");
    until("the connection is served", || (m.players().len() == 1).then_some(()));
    let script = "import os;print(os.getxattr('/run/marked','user.varlink',follow_symlinks=False))";
    let marked = m.run(&["/usr/bin/python3", "-c", script]);
    let is_marked = marked.is_ok_and(|value| value.contains("entrypoint"));
    for setting in
        ["XAttrEntryPoint=user.varlink", "XAttrListen=user.listens", "XAttrAccept=user.accepted"]
    {
        let said = m.console().contains(&format!("{setting} is not applied: "));
        assert_ne!(said, is_marked, "{setting}: {}", m.console());
    }
}
