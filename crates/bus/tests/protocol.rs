//! The server over its socket, from the outside: replies, errors, signals, and clients that do
//! not behave.

mod support;

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use support::client::*;
use support::played::of_fds;
use support::*;
use warren_bus::backend::Call;
use warren_bus::wire::{self, Kind, Writer};
use warren_sys::{fdpass, memfd, process};
use warren_unit::UnitName;

const UNITS: &str = include_str!("units.txt");

fn serve(test: &str) -> (Scratch, std::sync::Arc<Machine>) {
    let dir = Scratch::new(test);
    let machine = Machine::new(UNITS);
    machine.serve(&dir.path("private"));
    (dir, machine)
}

/// Arguments in the notation `type:value`, a bare word being a text; `as` values are separated
/// by commas.
fn arguments(words: &str) -> (String, Writer) {
    let (mut signature, mut body) = (String::new(), Writer::new());
    for word in words.split_whitespace() {
        let (kind, value) = word.split_once(':').unwrap_or(("s", word));
        let value = value.replace('~', " ");
        signature.push_str(kind);
        match kind {
            "u" => drop_writer(body.u32(value.parse().expect("a number"))),
            "i" => drop_writer(body.i32(value.parse().expect("a number"))),
            "t" => drop_writer(body.u64(value.parse().expect("a number"))),
            "b" => drop_writer(body.bool(value == "true")),
            "ay" => drop_writer(body.bytes(value.as_bytes())),
            "as" => drop_writer(body.strs(value.split(',').filter(|text| !text.is_empty()))),
            "v" => drop_writer(body.variant("s").str(&value)),
            _ => drop_writer(body.str(&value)),
        }
    }
    (signature, body)
}

fn drop_writer(_: &mut Writer) {}

/// Connects, and agrees on file descriptors.
fn connect_with_fds(dir: &Scratch) -> Client {
    let mut client = Client::raw(&dir.path("private"));
    let greeting = b"\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";
    client.stream.write_all(greeting).expect("the bus reads");
    let mut answer = [0; 6 + 3 + 32 + 2 + 15];
    client.stream.read_exact(&mut answer).expect("the bus answers");
    assert!(answer.ends_with(b"AGREE_UNIX_FD\r\n"));
    client
}

/// Asks for a scope with the process of this file descriptor.
fn scope_of(client: &mut Client, name: &str, fd: BorrowedFd<'_>, index: u32) -> Received {
    let mut body = Writer::new();
    body.str(name).str("fail");
    body.array(b'(', |w| {
        w.structure().str("PIDFDs").variant("ah").array(b'h', |w| _ = w.u32(index));
    });
    body.array(b'(', |_| {});
    let member = format!("{MANAGER_INTERFACE}.StartTransientUnit");
    let mut call =
        wire::signal(wire::To::Peer, 77, MANAGER, &member, "ssa(sv)a(sa(sv))", body.as_bytes());
    (call[1], call[2]) = (1, 0);
    fdpass::send(client.stream.as_fd(), &of_fds(call, 1), &[fd]).expect("the bus reads");
    loop {
        let told = client.receive().expect("the bus replies");
        if told.kind != Kind::Signal {
            break told;
        }
    }
}

#[test]
fn the_unit_of_a_process_behind_a_descriptor_is_told() {
    let (dir, _machine) = serve("by-pidfd");
    let mut client = connect_with_fds(&dir);
    let mut ask = |fd: BorrowedFd<'_>| {
        let mut body = Writer::new();
        body.u32(0);
        let member = format!("{MANAGER_INTERFACE}.GetUnitByPIDFD");
        let bytes = body.as_bytes();
        let mut call = wire::signal(wire::To::Peer, 78, MANAGER, &member, "h", bytes);
        (call[1], call[2]) = (1, 0);
        fdpass::send(client.stream.as_fd(), &of_fds(call, 1), &[fd]).expect("the bus reads");
        loop {
            let told = client.receive().expect("the bus replies");
            if told.kind != Kind::Signal {
                break told.error();
            }
        }
    };
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let invalid = "org.freedesktop.DBus.Error.InvalidArgs: File descriptor";
    assert_eq!(ask(writer.as_fd()), format!("{invalid} 0 is not a process."));
    let mut child = std::process::Command::new("true").spawn().expect("true(1)");
    let ended = process::pidfd_open(child.id() as i32).expect("not reaped yet");
    child.wait().expect("our child");
    assert_eq!(ask(ended.as_fd()), format!("{invalid} 0 is not a process."));
    // None of this machine's.
    let own = process::pidfd_open(std::process::id() as i32).expect("it is there");
    let error = ask(own.as_fd());
    assert!(error.contains("NoUnitForPID: PID") && error.contains("any loaded unit"), "{error}");
}

#[test]
fn scopes_are_made_of_processes_behind_descriptors() {
    let (dir, machine) = serve("pidfds");
    let mut client = connect_with_fds(&dir);
    let own = process::pidfd_open(std::process::id() as i32).expect("it is there");
    // The machine of these tests has files alone: what it was asked counts.
    let error = scope_of(&mut client, "a.scope", own.as_fd(), 0).error();
    assert!(error.contains("NoSuchUnit"), "{error}");
    let pids = || {
        let asked = machine.asked.lock().expect("nobody panics");
        let made = asked.iter().filter_map(|call| match call {
            Call::StartTransient(made) => Some(made.pids.clone()),
            _ => None,
        });
        made.collect::<Vec<_>>()
    };
    assert_eq!(pids(), [vec![std::process::id()]]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let invalid = "org.freedesktop.DBus.Error.InvalidArgs: File descriptor";
    let error = scope_of(&mut client, "b.scope", writer.as_fd(), 0).error();
    assert_eq!(error, format!("{invalid} 0 is not a process."));
    let error = scope_of(&mut client, "c.scope", own.as_fd(), 1).error();
    assert_eq!(error, format!("{invalid} 1 did not come along."));
    assert_eq!(pids().len(), 1);
    // Nothing keeps what came.
    drop(writer);
    warren_testkit::wait_until("the pipe is closed", || {
        fdpass::wait_readable(reader.as_fd(), std::time::Duration::ZERO) == Ok(true)
    });
}

#[test]
fn a_dump_is_a_file_in_memory_for_whom_passes_descriptors() {
    let (dir, _machine) = serve("dump");
    let member = "DumpByFileDescriptor";
    let mut without = Client::new(&dir.path("private"));
    let text = without.manager("Dump", &[]).body().str().map(str::to_owned).expect("a text");
    assert!(text.contains("-> Unit "), "{text}");
    let refused =
        "org.freedesktop.DBus.Error.NotSupported: The connection passes no file descriptors.";
    assert_eq!(without.manager(member, &[]).error(), refused);
    let mut client = connect_with_fds(&dir);
    // What is before it and behind it comes without.
    for member in ["GetDefaultTarget", member, "Dump"] {
        client.send(MANAGER, MANAGER_INTERFACE, member, ("", Writer::new()));
    }
    let (mut bytes, mut fds) = (Vec::new(), Vec::new());
    let is_whole = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    warren_testkit::wait_until("all is answered", || {
        let mut room = vec![0; 1 << 16];
        if let Ok(received) = fdpass::recv_all(client.stream.as_fd(), &mut room, &mut fds) {
            bytes.extend_from_slice(&room[..received.bytes]);
        }
        is_whole(&bytes)
    });
    let dump = memfd::read_all(fds[0].as_fd(), 1 << 20).expect("a file");
    assert_eq!((String::from_utf8_lossy(&dump).as_ref(), fds.len()), (text.as_str(), 1));
    assert!(memfd::is_sealed(fds[0].as_fd()));
    let with_fds = |bytes: &[u8]| {
        let (mut rest, mut all) = (bytes, Vec::new());
        while let Ok(Some(end)) = wire::frame_bytes(rest) {
            let header = wire::parse_header(rest).expect("a message");
            if header.kind != Kind::Signal {
                all.push(header.descriptors);
            }
            rest = rest.get(end..).unwrap_or_default();
        }
        all
    };
    assert_eq!(with_fds(&bytes), [0, 1, 0]);
}

/// The descriptor is such that closing it would take an hour, as long as the listener is there.
#[test]
fn a_file_descriptor_that_a_client_sends_holds_nobody_up() {
    let (dir, _machine) = serve("descriptor");
    let mut other = Client::new(&dir.path("private"));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = tcp.local_addr().expect("bound");
    let mut stream = std::net::TcpStream::connect(to).expect("it listens");
    let linger = Some(std::time::Duration::from_secs(3600));
    rustix::net::sockopt::set_socket_linger(&stream, linger).expect("known");
    stream.set_nonblocking(true).expect("it can be set");
    while stream.write(&[0; 1 << 16]).is_ok() {}
    let client = Client::raw(&dir.path("private"));
    // Refused since Linux 6.16.
    let sent = fdpass::send(client.stream.as_fd(), b"\0", &[stream.as_fd()]);
    let is_refused = fdpass::refuse_fds(client.stream.as_fd()).is_ok();
    assert_eq!(sent.is_err(), is_refused, "{sent:?}");
    if is_refused {
        rustix::net::sockopt::set_socket_linger(&stream, None).expect("known");
    }
    // It may be the last by then.
    std::thread::spawn(move || drop(stream));
    for _ in 0..2 {
        assert_eq!(other.manager("ListJobs", &[]).kind, Kind::MethodReturn);
    }
    drop(client);
    for _ in 0..2 {
        assert_eq!(other.manager("ListJobs", &[]).kind, Kind::MethodReturn);
    }
}

#[test]
fn a_question_is_in_vain_when_the_client_who_asked_has_gone() {
    let (dir, machine) = serve("in-vain");
    *machine.unanswered.lock().unwrap() = Some(Vec::new());
    let mut clients: Vec<Client> = (0..3).map(|_| Client::new(&dir.path("private"))).collect();
    let mut other = Client::new(&dir.path("private"));
    for client in &mut clients {
        let (_, body) = arguments("a.service b:false");
        client.send(MANAGER, MANAGER_INTERFACE, "GetUnitFileLinks", ("sb", body));
    }
    let mut are_in_vain = || {
        // Whoever calls behind them is answered when what they did was looked at.
        for _ in 0..2 {
            assert_eq!(other.manager("ListJobs", &[]).kind, Kind::MethodReturn);
        }
        let unanswered = machine.unanswered.lock().unwrap();
        let replies = unanswered.iter().flatten();
        replies.map(|reply| reply.is_in_vain()).collect::<Vec<_>>()
    };
    assert_eq!(are_in_vain(), [false; 3]);
    drop(clients.remove(1));
    assert_eq!(are_in_vain(), [false, true, false]);
    *machine.unanswered.lock().unwrap() = None;
    machine.stop();
}

#[test]
fn a_call_sees_what_those_before_it_have_done() {
    let (dir, machine) = serve("order");
    let mut client = Client::new(&dir.path("private"));
    let mut sent = Vec::new();
    for at in 0..50 {
        let name = format!("tmpl@{at}.service");
        sent.push(client.send(MANAGER, MANAGER_INTERFACE, "LoadUnit", strings(&[&name])));
        sent.push(client.send(MANAGER, MANAGER_INTERFACE, "GetUnit", strings(&[&name])));
        sent.push(client.send(
            MANAGER,
            MANAGER_INTERFACE,
            "StartUnit",
            strings(&[&name, "replace"]),
        ));
        sent.push(client.send(MANAGER, MANAGER_INTERFACE, "ListJobs", strings(&[])));
    }
    for serial in sent {
        let reply = std::iter::from_fn(|| client.receive()).find(|it| it.reply_serial != 0);
        let reply = reply.expect("all are answered");
        assert_eq!((reply.reply_serial, reply.kind), (serial, Kind::MethodReturn));
    }
    machine.stop();
}

#[test]
fn what_a_client_called_before_it_hung_up_is_done_though_nobody_waits() {
    let (dir, machine) = serve("hung-up");
    *machine.unanswered.lock().unwrap() = Some(Vec::new());
    let mut client = Client::new(&dir.path("private"));
    let mut other = Client::new(&dir.path("private"));
    client.send(MANAGER, MANAGER_INTERFACE, "ClearJobs", strings(&[]));
    let (signature, body) = arguments("as:LAST=word");
    client.send(MANAGER, MANAGER_INTERFACE, "SetEnvironment", (&signature, body));
    let mut is_asked = || {
        assert_eq!(other.manager("ListJobs", &[]).kind, Kind::MethodReturn);
        let asked = machine.asked.lock().unwrap();
        asked.iter().any(|call| matches!(call, Call::Environment { .. }))
    };
    assert!(!is_asked(), "the order before it is not carried out");
    drop(client);
    assert!((0..10_000).any(|_| is_asked()));
    machine.stop();
}

/// Each line: `path interface.member arguments => answer`. The answer is an error's name after
/// its prefix and its text, or the reply's types. `M` is the manager, `U/x` the unit `x`.
/// Every error was taken from systemd 252's answer to the same call.
#[test]
fn answers_are_those_of_systemd() {
    let (dir, machine) = serve("answers");
    machine.start("a.service");
    machine.start("one.service");
    machine.start("slow.service");
    let mut client = Client::new(&dir.path("private"));
    let mut wrong = Vec::new();
    for line in include_str!("answers.txt").lines().filter(|line| !line.starts_with('#')) {
        let Some((call, want)) = line.split_once(" => ") else { continue };
        let mut words = call.splitn(3, ' ');
        let path = words.next().expect("a path").replace("U/", "M/unit/").replace('M', MANAGER);
        let member = words.next().expect("a member");
        let (interface, member) = member.rsplit_once('.').unwrap_or((MANAGER_INTERFACE, member));
        let interface = match interface {
            "P" => PROPERTIES.to_owned(),
            "D" => "org.freedesktop.DBus".to_owned(),
            "-" => String::new(),
            full if full.starts_with("org.") => full.to_owned(),
            short => format!("org.freedesktop.systemd1.{short}"),
        };
        let (signature, body) = arguments(words.next().unwrap_or(""));
        let received = client.call(&path, &interface, member, (&signature, body));
        let got = match received.kind {
            Kind::Error => received
                .error()
                .replace("org.freedesktop.systemd1.", "")
                .replace("org.freedesktop.DBus.Error.", ""),
            _ => format!("{:?}", received.signature),
        };
        let want = want.replace("org.freedesktop.systemd1.", "");
        if got != want {
            wrong.push(format!("{call}\n  is   {got}\n  want {want}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    machine.stop();
}

#[test]
fn a_signal_to_all_that_must_meet_somebody_fails_where_nobody_is() {
    let (dir, machine) = serve("all-fail");
    machine.start("a.service");
    machine.start("one.service");
    let mut client = Client::new(&dir.path("private"));
    let mut kill = |unit: &str, whom: &str| {
        let mut body = Writer::new();
        body.str(unit).str(whom).i32(15);
        client.call(MANAGER, MANAGER_INTERFACE, "KillUnit", ("ssi", body))
    };
    let nobody = "org.freedesktop.systemd1.NoSuchProcess: No matching processes to kill";
    assert_eq!(kill("one.service", "all-fail").error(), nobody);
    assert_eq!(kill("one.service", "all").kind, Kind::MethodReturn);
    assert_eq!(kill("a.service", "all-fail").kind, Kind::MethodReturn);
    machine.stop();
}

#[test]
fn all_interfaces_come_with_an_empty_name() {
    let (dir, machine) = serve("getall");
    let mut client = Client::new(&dir.path("private"));
    let path = format!("{MANAGER}/unit/a_2eservice");
    let mut names = |interface: &str| {
        let reply = client.call(&path, PROPERTIES, "GetAll", strings(&[interface]));
        let entries = reply.body().array(b'{', |r| {
            r.align(8)?;
            let name = r.str()?.to_owned();
            r.skip("v")?;
            Ok(name)
        });
        entries.expect("a dictionary")
    };
    let service = names("org.freedesktop.systemd1.Service");
    let unit = names("org.freedesktop.systemd1.Unit");
    assert_eq!((service.len(), unit.len()), (307, 98));
    assert_eq!(names(""), [service, unit].concat());
    machine.stop();
}

#[test]
fn a_unit_that_is_not_in_memory_is_loaded_to_be_read() {
    let (dir, machine) = serve("load");
    let mut client = Client::new(&dir.path("private"));
    let missing = client.manager("GetUnit", &["tmpl@7.service"]);
    assert!(missing.error().ends_with("Unit tmpl@7.service not loaded."));
    let path = format!("{MANAGER}/unit/tmpl_407_2eservice");
    let unit = "org.freedesktop.systemd1.Unit";
    let reply = client.call(&path, PROPERTIES, "Get", strings(&[unit, "LoadState"]));
    let mut body = reply.body();
    assert_eq!((body.signature(), body.str()), (Ok("s"), Ok("loaded")));
    assert_eq!(client.manager("GetUnit", &["tmpl@7.service"]).signature, "o");
    machine.stop();
}

/// What a client hears of a start, subscribed or not: what is new, the changes by interface, then the end.
#[test]
fn a_job_ends_after_its_units_changes() {
    let (dir, machine) = serve("signals");
    let mut client = Client::new(&dir.path("private"));
    let serial =
        client.send(MANAGER, MANAGER_INTERFACE, "StartUnit", strings(&["a.service", "replace"]));
    let mut heard = Vec::new();
    while heard.last().is_none_or(|line: &String| line != "JobRemoved a.service done") {
        let message = client.receive().expect("the bus tells of the job");
        let mut body = message.body();
        match message.member.as_str() {
            "JobRemoved" => {
                body.skip("(uo)").expect("job");
                let (unit, result) = (body.str().expect("unit"), body.str().expect("result"));
                if unit == "a.service" {
                    heard.push(format!("JobRemoved {unit} {result}"));
                }
            }
            "PropertiesChanged" if message.path.ends_with("/a_2eservice") => {
                heard.push(body.str().expect("interface").rsplit('.').next().unwrap().to_owned());
            }
            _ if message.reply_serial == serial => heard.push("reply".to_owned()),
            _ => {}
        }
    }
    let want = ["reply", "Service", "Unit", "JobRemoved a.service done"];
    heard.dedup();
    assert_eq!(heard, want);
    machine.stop();
}

/// How often properties are compiled when `a.service` starts and so many clients hear of it.
fn compiled_for(test: &str, count: usize) -> usize {
    let (dir, machine) = serve(test);
    let mut clients: Vec<Client> = (0..count).map(|_| Client::new(&dir.path("private"))).collect();
    for client in &mut clients {
        assert_eq!(client.manager("ListJobs", &[]).kind, Kind::MethodReturn);
    }
    let before = machine.compiled.load(Ordering::Relaxed);
    machine.start("a.service");
    for client in &mut clients {
        while client.receive().expect("the bus tells of the job").member != "JobRemoved" {}
    }
    let compiled = machine.compiled.load(Ordering::Relaxed) - before;
    machine.stop();
    compiled
}

#[test]
fn a_change_is_encoded_once_for_all_who_hear_of_it() {
    let one = compiled_for("hears-one", 1);
    assert!(one > 0);
    assert_eq!(compiled_for("hears-many", 16), one);
}

#[test]
fn a_call_with_many_names_is_looked_at_twice_and_has_each_loaded_once() {
    const NAMES: usize = 1000;
    let (dir, machine) = serve("many-names");
    let mut client = Client::new(&dir.path("private"));
    let names: Vec<String> = (0..NAMES).map(|n| format!("tmpl@{n}.service")).collect();
    let before = machine.viewed.load(Ordering::Relaxed);
    let names: Vec<&str> = names.iter().flat_map(|name| [&**name; 2]).collect();
    let mut body = Writer::new();
    body.strs(names.iter().copied());
    let reply = client.call(MANAGER, MANAGER_INTERFACE, "ListUnitsByNames", ("as", body));
    assert_eq!(reply.signature, "a(ssssssouso)");
    let asked = machine.asked.lock().unwrap().len();
    assert_eq!(asked, NAMES);
    // Beside these two, one for each time that the client is told of a unit.
    let viewed = machine.viewed.load(Ordering::Relaxed) - before;
    assert!(viewed <= 2 * NAMES + 10, "{viewed}");
    machine.stop();
}

#[test]
fn unit_files_are_looked_at_before_something_is_told_of_them_that_is_not_known() {
    for (test, member, names, of) in [
        ("look-state", "GetUnitFileState", &["a.service"][..], Some("a.service")),
        ("look-default", "GetDefaultTarget", &[], Some("default.target")),
        ("look-all", "ListUnitFiles", &[], None),
    ] {
        let (dir, machine) = serve(test);
        let mut client = Client::new(&dir.path("private"));
        machine.has_looked.store(false, Ordering::Relaxed);
        for _ in 0..2 {
            assert_eq!(client.manager(member, names).kind, Kind::MethodReturn);
        }
        let of = of.map(|text| UnitName::parse(text).expect("a name"));
        assert_eq!(*machine.asked.lock().unwrap(), [Call::LookAtUnitFiles(of)]);
        machine.stop();
    }
}

/// Its file may have been written since.
#[test]
fn a_unit_that_is_only_named_is_looked_for_while_files_are_not_known() {
    let (dir, machine) = serve("only-named");
    let mut client = Client::new(&dir.path("private"));
    let name = "nowhere.service";
    assert_eq!(client.manager("LoadUnit", &[name]).kind, Kind::MethodReturn);
    let unit = UnitName::parse(name).expect("a name");
    let path = warren_bus::path::unit(name);
    for (is_listed, looks_for) in [(false, Some(unit)), (true, None)] {
        machine.has_looked.store(false, Ordering::Relaxed);
        machine.asked.lock().unwrap().clear();
        for _ in 0..2 {
            let mut body = Writer::new();
            let reply = match is_listed {
                true => {
                    body.strs([name]);
                    client.call(MANAGER, MANAGER_INTERFACE, "ListUnitsByNames", ("as", body))
                }
                false => {
                    body.str("org.freedesktop.systemd1.Unit");
                    client.call(&path, "org.freedesktop.DBus.Properties", "GetAll", ("s", body))
                }
            };
            assert_eq!(reply.kind, Kind::MethodReturn);
        }
        assert_eq!(*machine.asked.lock().unwrap(), [Call::LookAtUnitFiles(looks_for)]);
    }
    machine.stop();
}

#[test]
fn garbage_ends_the_connection_and_nothing_else() {
    let (dir, machine) = serve("garbage");
    let mut good = Client::new(&dir.path("private"));
    for garbage in [&b"GET / HTTP/1.0\r\n\r\n"[..], &[0xff; 64], b"l\x01\x00\x02aaaaaaaaaaaaaaaa"] {
        let mut raw = Client::raw(&dir.path("private"));
        drop(raw.stream.write_all(garbage));
        if garbage[0] != b'l' {
            assert!(raw.is_dropped(), "{garbage:?} before the greeting");
        }
        let mut greeted = Client::new(&dir.path("private"));
        drop(greeted.stream.write_all(garbage));
        assert!(greeted.is_dropped(), "{garbage:?} after the greeting");
    }
    assert_eq!(good.manager("ListJobs", &[]).kind, Kind::MethodReturn);
    machine.stop();
}

#[test]
fn a_body_that_is_not_what_it_says_ends_the_connection() {
    let (dir, machine) = serve("body");
    let mut client = Client::new(&dir.path("private"));
    let mut body = Writer::new();
    body.u32(1000).raw(b"short");
    client.send(MANAGER, MANAGER_INTERFACE, "GetUnit", ("s", body));
    assert!(client.is_dropped());
    machine.stop();
}

/// A subscriber that reads nothing while every unit changes a thousand times: each unit stands in
/// its queue once, so it is still there and hears of the last state when it reads again.
#[test]
fn a_slow_subscriber_costs_little_and_misses_nothing() {
    let (dir, machine) = serve("slow");
    let (mut slow, mut other) =
        (Client::new(&dir.path("private")), Client::new(&dir.path("private")));
    assert_eq!(slow.manager("Subscribe", &[]).kind, Kind::MethodReturn);
    let view = warren_bus::Backend::view(&*machine);
    let all: Vec<_> = view.graph.definitions().map(|definition| definition.id).collect();
    for _ in 0..1000 {
        machine.touch(all.clone());
    }
    assert_eq!(other.manager("ListUnits", &[]).signature, "a(ssssssouso)");
    machine.start("a.service");
    let ended = |message: &Received| message.member == "JobRemoved";
    let mut messages = 0;
    while !ended(&slow.receive().expect("the slow reader is still connected")) {
        messages += 1;
    }
    assert!(messages < 200_000, "{messages} messages were queued");
    machine.stop();
}

/// Calls whose replies are not read are not read either, and wait without being lost.
#[test]
fn calls_wait_while_replies_are_not_read() {
    let (dir, machine) = serve("backpressure");
    let mut client = Client::new(&dir.path("private"));
    const CALLS: u32 = 3000;
    let mut writer = client.stream.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || {
        for serial in 1..=CALLS {
            let member = format!("{PROPERTIES}.GetAll");
            let path = format!("{MANAGER}/unit/a_2eservice");
            let mut body = Writer::new();
            body.str("");
            let mut call = warren_bus::wire::signal(
                warren_bus::wire::To::Peer,
                serial,
                &path,
                &member,
                "s",
                body.as_bytes(),
            );
            (call[1], call[2]) = (1, 0);
            writer.write_all(&call).expect("the bus reads in the end");
        }
    });
    for serial in 1..=CALLS {
        let reply = client.receive().expect("a reply for each call");
        assert_eq!((reply.reply_serial, reply.kind), (serial, Kind::MethodReturn));
    }
    sender.join().expect("all calls were sent");
    machine.stop();
}

/// What is rendered for a client that reads nothing is what its socket takes, and a little more; all of
/// it comes when it reads.
#[test]
fn a_client_that_reads_nothing_is_not_served_without_end() {
    const CALLS: usize = 150;
    let dir = Scratch::new("unread");
    let name = |number: usize| format!("{}{number}.service", "n".repeat(240));
    let units: String =
        (0..1000).map(|number| format!("== {}\n[Service]\n", name(number))).collect();
    let machine = Machine::new(&units);
    machine.serve(&dir.path("private"));
    let (mut slow, mut other) =
        (Client::new(&dir.path("private")), Client::new(&dir.path("private")));
    for _ in 0..CALLS {
        slow.send(MANAGER, MANAGER_INTERFACE, "ListUnitFiles", strings(&[]));
    }
    // Whoever calls behind it is answered when its calls were looked at.
    for _ in 0..2 {
        assert_eq!(other.manager("ListJobs", &[]).kind, Kind::MethodReturn);
    }
    let listed = machine.listed.load(Ordering::Relaxed);
    assert!(listed < 100, "{listed} lists of 270 kB were made");
    for _ in 0..CALLS {
        assert_eq!(slow.receive().expect("a reply for each call").signature, "a(ss)");
    }
    machine.stop();
}

/// Each loads a unit that it names thousands of times, so that the replies are large.
#[test]
fn calls_that_wait_for_units_wait_for_the_client_too() {
    const CALLS: u32 = 40;
    let (dir, machine) = serve("again");
    let mut client = Client::new(&dir.path("private"));
    let mut writer = Client::accepted(client.stream.try_clone().expect("a second handle"));
    let sender = std::thread::spawn(move || {
        for number in 0..CALLS {
            let name = format!("tmpl@{number}.service");
            let mut body = Writer::new();
            body.strs((0..4000).map(|_| name.as_str()));
            writer.send(MANAGER, MANAGER_INTERFACE, "ListUnitsByNames", ("as", body));
        }
    });
    let mut answered: Vec<u32> = Vec::new();
    while answered.len() < CALLS as usize {
        let reply = client.receive().expect("a reply for each call");
        if reply.kind == Kind::MethodReturn {
            answered.push(reply.reply_serial);
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, (1..=CALLS).collect::<Vec<_>>());
    sender.join().expect("all calls were sent");
    machine.stop();
}

#[test]
fn a_bus_that_is_at_work_holds_up_nobody_who_ends_it() {
    let (dir, machine) = serve("busy");
    let mut client = Client::new(&dir.path("private"));
    machine.while_held(|| {
        client.send(MANAGER, MANAGER_INTERFACE, "ListUnitFiles", strings(&[]));
        warren_testkit::wait_until("the bus reads the files", || {
            machine.listed.load(Ordering::Relaxed) > 0
        });
        machine.stop();
    });
    assert!(!dir.path("private").exists());
    assert_eq!(client.receive().expect("what was begun is answered").signature, "a(ss)");
    assert!(client.is_dropped());
}

#[test]
fn the_socket_is_gone_when_the_bus_ends() {
    let (dir, machine) = serve("end");
    assert!(dir.path("private").exists());
    machine.stop();
    assert!(!dir.path("private").exists());
}
