//! What clients of the control socket are shown, and what they can take up.

mod lab;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use lab::{Machine, ask, read_answer, send_call, until};
use serde_json::json;
use warren_sys::fdpass;

#[test]
fn logs_and_closed_files_are_shown_only_to_those_who_may_read_them() {
    let talks =
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo a secret'";
    let units = [("talks.service", talks), ("open.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("clients-shown", &units) else { return };
    let closed = m.directory.join("units/talks.service");
    std::fs::set_permissions(closed, PermissionsExt::from_mode(0o600)).expect("it is ours");
    m.expect_job("start", "talks.service", "done");
    let unit = json!({"unit": "talks.service"});
    let secret = |answer: &serde_json::Value| answer.to_string().contains("a secret");
    until("root sees the log", || secret(&m.call("Status", &unit)).then_some(()));
    for method in ["Status", "Why", "Cat"] {
        let own = m.call(method, &unit);
        assert!(secret(&own), "{method}: {own}");
        assert_ne!(own["log_withheld"], true, "{method}: {own}");
        let other = ask(&m.connect_as_other(), method, &unit).expect("it is answered");
        let other = &other["parameters"];
        assert!(!secret(other), "{method}: {other}");
        match method {
            "Cat" => assert_eq!(other["files"][0]["withheld"], true, "{other}"),
            _ => assert_eq!(other["log_withheld"], true, "{other}"),
        }
    }
    let open = ask(&m.connect_as_other(), "Cat", &json!({"unit": "open.service"}));
    let open = open.expect("it is answered");
    assert!(open["parameters"]["files"][0]["text"].to_string().contains("stay"), "{open}");
}

/// As many as are served at a time wait for a start that never ends, and hang up.
#[test]
fn a_client_that_hangs_up_during_its_job_makes_room_for_the_next() {
    const CONNECTIONS_MAX: usize = 64;
    let units =
        [("never.service", "[Service]\nType=notify\nTimeoutStartSec=infinity\nExecStart=@P stay")];
    let Some(m) = Machine::start("clients-gone", &units) else { return };
    let start = json!({"unit": "never.service", "type": "start"});
    let begin = |_: usize| {
        let client = m.connect().expect("the manager listens");
        send_call(&client, "Job", &start).expect("there is room in the socket");
        client
    };
    let mut clients = vec![begin(0)];
    // Who hangs up before it is taken has asked for nothing.
    m.wait_for("never.service", "activating/start");
    clients.extend((1..CONNECTIONS_MAX).map(begin));
    let refused = read_answer(&m.connect().expect("the manager listens"));
    let refused = refused.expect("it is told at once");
    assert_eq!(refused["error"], "io.warrener.Busy", "{refused}");
    drop(clients);
    until("there is room for one", || m.totals()["pid"].as_u64());
    assert_eq!(m.state("never.service"), "activating/start");
}

/// More than a socket takes: who does not read it has his turn until he does.
#[test]
fn one_recording_at_a_time_goes_to_users_without_privileges() {
    let Some(m) = Machine::start("clients-record", &[]) else { return };
    let name = "boot-00000000000000000001.record";
    let large = vec![0; 4 << 20];
    // The manager makes the directory when it has something to keep.
    let records = m.directory.join("records");
    std::fs::create_dir_all(&records).expect("it can be made");
    std::fs::write(records.join(name), large).expect("it can be written");
    let parameters = json!({"name": name});
    let first = m.connect_as_other();
    send_call(&first, "Record", &parameters).expect("there is room in the socket");
    let begun = (&first).read_exact(&mut [0; 1]);
    begun.expect("the answer begins to come");
    let second = m.connect_as_other();
    let refused = ask(&second, "Record", &parameters).expect("it is answered");
    assert_eq!(refused["error"], "io.warrener.Busy", "{refused}");
    assert!(m.call("Record", &parameters)["data"].is_string(), "root is served");
    drop(first);
    until("it is the second's turn", || {
        ask(&second, "Record", &parameters)?["parameters"]["data"].is_string().then_some(())
    });
}

#[test]
fn one_user_without_privileges_has_a_share_of_the_connections() {
    const OF_ONE_USER_MAX: usize = 16;
    let Some(m) = Machine::start("clients-share", &[]) else { return };
    let clients: Vec<_> = (0..OF_ONE_USER_MAX).map(|_| m.connect_as_other()).collect();
    let refused = read_answer(&m.connect_as_other()).expect("it is told at once");
    assert_eq!(refused["error"], "io.warrener.Busy", "{refused}");
    for client in &clients {
        let answer = ask(client, "List", &json!({})).expect("it is answered");
        assert!(answer["parameters"]["units"].is_array(), "{answer}");
    }
    assert!(m.totals()["pid"].is_u64());
}

/// Each loads an instance that nothing has asked for yet.
#[test]
fn questions_of_users_without_privileges_are_answered_one_after_the_other() {
    let units = [("some@.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("clients-questions", &units) else { return };
    let clients: Vec<_> = (0..12).map(|_| m.connect_as_other()).collect();
    for (at, client) in clients.iter().enumerate() {
        let unit = json!({"unit": format!("some@{at}.service")});
        send_call(client, "Status", &unit).expect("there is room in the socket");
    }
    for (at, client) in clients.iter().enumerate().filter(|(at, _)| at % 2 == 0) {
        let answer = read_answer(client).expect("it is answered");
        assert_eq!(answer["parameters"]["name"], format!("some@{at}.service"), "{answer}");
    }
    drop(clients);
    let again = ask(&m.connect_as_other(), "Status", &json!({"unit": "some@again.service"}));
    assert!(again.is_some_and(|again| again["parameters"]["load"] == "loaded"));
}

#[test]
fn patterns_and_requests_of_users_without_privileges_are_bounded() {
    let odd = (r"a\x2db.service", "[Service]\nExecStart=@P stay");
    let Some(m) = Machine::start("clients-patterns", &[odd]) else { return };
    let units = |answer: &serde_json::Value| answer["parameters"]["units"].to_string();
    for pattern in [r"a\x2db.service", r"a\x2d*", "a?x2d[b-c].service"] {
        let parameters = json!({"patterns": [pattern]});
        let other = ask(&m.connect_as_other(), "List", &parameters).expect("it is answered");
        assert!(units(&other).contains("x2db.service"), "{pattern}: {other}");
    }
    let long = format!("*{}", "?".repeat(4 << 10));
    for patterns in [json!([long]), json!(vec!["a*"; 100])] {
        let parameters = json!({"patterns": patterns});
        let other = ask(&m.connect_as_other(), "List", &parameters).expect("it is answered");
        assert_eq!(other["error"], "io.warrener.LimitsExceeded", "{other}");
        let own = ask(&m.connect().expect("it listens"), "List", &parameters);
        assert!(own.is_some_and(|own| own["parameters"]["units"].is_array()), "root is served");
    }
    let many = json!({"patterns": vec![json!({"": 0}); 5000]});
    let other = ask(&m.connect_as_other(), "List", &many).expect("it is answered");
    assert_eq!(other["error"], "io.warrener.Malformed", "{other}");
    let large = json!({"patterns": ["x".repeat(128 << 10)]});
    assert_eq!(ask(&m.connect_as_other(), "List", &large), None, "nobody reads it");
}

/// The descriptor is such that closing it would take an hour, as long as the listener is there.
#[test]
fn a_file_descriptor_of_one_who_is_turned_away_holds_up_nobody_who_comes_after() {
    const CONNECTIONS_MAX: usize = 48;
    let Some(m) = Machine::start("clients-descriptor", &[]) else { return };
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = tcp.local_addr().expect("bound");
    let mut lingering = std::net::TcpStream::connect(to).expect("it listens");
    let set = |stream: &_, time| rustix::net::sockopt::set_socket_linger(stream, time);
    set(&lingering, Some(std::time::Duration::from_secs(3600))).expect("known");
    lingering.set_nonblocking(true).expect("it can be set");
    while lingering.write(&[0; 1 << 16]).is_ok() {}
    let idle: Vec<_> = (0..CONNECTIONS_MAX).map(|_| m.connect_as_other()).collect();
    let client = m.connect_as_other();
    // Refused since Linux 6.16, or when the manager was faster.
    if fdpass::send(client.as_fd(), b"x", &[lingering.as_fd()]).is_err() {
        set(&lingering, None).expect("known");
    }
    // It may be the last by then.
    std::thread::spawn(move || drop(lingering));
    assert_eq!(read_answer(&client).expect("it is told")["error"], "io.warrener.Busy");
    drop(client);
    m.totals();
    drop(idle);
}

/// Requests that come in one turn of the manager, which was held up for a moment.
#[test]
fn a_signal_that_is_asked_for_meets_all_processes_of_each_of_many_units() {
    use warren_sys::signal::SIGUSR1;
    const UNITS: usize = 20;
    let told = "trap \"echo 1 >>@D/out/%i\" USR1; echo >>@D/out/up-%i; while :; do sleep 0.1; done";
    let unit = format!("[Service]\nExecStart=/bin/sh -c '{{ {told}; }} & {told}'");
    let Some(m) = Machine::start("clients-kill", &[("told@.service", &unit)]) else { return };
    let unit = |n: usize| format!("told@{n}.service");
    for n in 0..UNITS {
        m.expect_job("start", &unit(n), "done");
    }
    // Each of its two processes has set its trap before it writes.
    let are_up = || (0..UNITS).all(|n| m.lines(&format!("up-{n}")).len() == 2).then_some(());
    lab::until("they hear signals", are_up);
    let streams: Vec<_> = (0..UNITS).map(|_| m.connect().expect("it listens")).collect();
    let manager = m.manager_pid().expect("it runs");
    let signal = |signal| warren_sys::process::kill(manager, signal).expect("it can be signalled");
    signal(19);
    for (n, stream) in streams.iter().enumerate() {
        let parameters = json!({"unit": unit(n), "whom": "all", "signal": SIGUSR1});
        lab::send_call(stream, "Kill", &parameters).expect("it is sent");
    }
    signal(18);
    for stream in &streams {
        let answer = lab::read_answer(stream).expect("it is answered");
        assert!(answer["error"].is_null(), "{answer}");
    }
    for n in 0..UNITS {
        let both = || (m.lines(&n.to_string()).len() == 2).then_some(());
        lab::until("parent and child have had it", both);
    }
}

/// Who may not see the processes of others in /proc does not see them here either.
#[test]
fn command_lines_are_hidden_from_users_where_proc_hides_them() {
    let units = [("talks.service", "[Service]\nExecStart=@P stay secret")];
    let Some(m) = Machine::start("hidden-processes", &units) else { return };
    m.expect_job("start", "talks.service", "done");
    let shown = |client: &UnixStream| {
        let status =
            ask(client, "Status", &json!({"unit": "talks.service"})).expect("it is served");
        status["parameters"]["processes"][0]["command"].to_string()
    };
    let (root, other) = (m.connect().expect("it listens"), m.connect_as_other());
    assert!(shown(&other).contains("secret"));
    m.run(&["mount", "-o", "remount,hidepid=2", "/proc"]).expect("the kernel can");
    assert_eq!(shown(&other), "\"[hidden by hidepid=]\"");
    assert!(shown(&root).contains("secret"));
}

/// Somebody who has many users holds connections and asks nothing, or half of something.
#[test]
fn people_who_hold_all_connections_keep_nobody_out() {
    const OF_PEOPLE_MAX: u32 = 32;
    let Some(m) = Machine::start("clients-held", &[]) else { return };
    let held: Vec<UnixStream> = (0..2 * OF_PEOPLE_MAX)
        .map(|number| {
            let mut client = m.connect_as(100_000 + number);
            // Those that come when there is no place yet have ended.
            let _ = client.write(b"{\"method\":\"io.warr");
            client
        })
        .collect();
    for user in [999, 1000, 65_534, 61_184] {
        let answer = until("a place is made", || {
            let client = m.connect_as(user);
            let answer = ask(&client, "Totals", &json!({}))?;
            answer["error"].is_null().then_some(answer)
        });
        assert!(answer["parameters"].is_object(), "{user}: {answer}");
    }
    drop(held);
}
