//! The gateway as its clients see it, hostile ones among them, and beside Debian's own where that is
//! installed, or where `JOURNAL_GATEWAYD` and `JOURNAL_REMOTE` say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value};

#[path = "../../log-show/tests/common/mod.rs"]
mod common;
use common::{Lab, journal_remote, not_run};

/// A program that answers on a port of its own.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts it as the manager would: with a listening socket as its descriptor 3.
    fn start(program: &str, directory: &Path) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
        let child = Command::new("/bin/sh")
            .args(["-c", script, "sh", program, "-D"])
            .arg(directory)
            .stdin(OwnedFd::from(listener))
            .stderr(Stdio::null())
            .spawn();
        Server { child: child.expect("sh is there"), port }
    }

    fn ours(directory: &Path) -> Server {
        Server::start(env!("CARGO_BIN_EXE_warren-journal-gatewayd"), directory)
    }

    fn send(&self, head: &str) -> TcpStream {
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        client.write_all(head.as_bytes()).expect("sent");
        client
    }

    /// The answer to a request with HTTP/1.0, which has no chunks: status, head and body.
    fn get(&self, target: &str, fields: &str) -> (u16, String, Vec<u8>) {
        let mut answer = Vec::new();
        let mut client = self.send(&format!("GET {target} HTTP/1.0\r\n{fields}\r\n"));
        client.read_to_end(&mut answer).expect("a whole answer");
        split(&answer)
    }

    fn body(&self, target: &str, fields: &str) -> String {
        let (status, _, body) = self.get(target, fields);
        assert_eq!(status, 200, "{target} {fields}");
        String::from_utf8(body).expect("UTF-8").trim_end().replace('\n', " ")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn split(answer: &[u8]) -> (u16, String, Vec<u8>) {
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(answer[..end].to_vec()).expect("ASCII");
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
    (status.expect("a status"), head, answer[end + 4..].to_vec())
}

/// The texts that a body of JSON lines has.
fn texts(body: &str) -> String {
    let text = |line: &str| {
        let entry: Map<String, Value> = serde_json::from_str(line).expect("JSON");
        entry["MESSAGE"].as_str().expect("a text").to_owned()
    };
    body.lines().map(text).collect::<Vec<_>>().join(" ")
}

const JSON: &str = "Accept: application/json\r\n";

#[test]
fn a_log_is_read_by_ranges() {
    let mut lab = Lab::new("gateway-ranges");
    lab.append("a b c d");
    lab.seal();
    lab.append("e f");
    let server = Server::ours(&lab.directory);
    let texts = |range: &str| {
        let fields = format!("{JSON}Range: entries={range}\r\n");
        let (status, _, body) = server.get("/entries", &fields);
        assert_eq!(status, 200, "{range}");
        texts(&String::from_utf8(body).expect("UTF-8"))
    };
    assert_eq!(texts(""), "a b c d e f");
    assert_eq!(texts(":2"), "a b");
    assert_eq!(texts(":3:2"), "d e");
    assert_eq!(texts(":-1:9"), "e f");
    assert_eq!(texts(":-9:1"), "a");
    let export = server.body("/entries", "Accept: application/vnd.fdo.journal\r\n");
    let cursors: Vec<&str> =
        export.split(' ').filter_map(|line| line.strip_prefix("__CURSOR=")).collect();
    assert_eq!(cursors.len(), 6);
    assert_eq!(texts(&format!("{}:2", cursors[3])), "d e");
    assert_eq!(texts(&format!("{}:-2:2", cursors[3])), "b c");
    assert_eq!(texts(&format!("{}:9:2", cursors[3])), "");
    let discrete = |cursor: &str, query: &str| {
        let fields = format!("Range: entries={cursor}\r\n");
        server.body(&format!("/entries?discrete{query}"), &fields).chars().last()
    };
    assert_eq!(discrete(cursors[2], ""), Some('c'));
    assert_eq!(discrete(&cursors[2].replace("i=3", "i=99"), ""), None);
    assert_eq!(discrete(cursors[2], "&MESSAGE=b"), None);
    assert_eq!(server.body("/entries?MESSAGE=e&MESSAGE=f", "").matches('\u{20}').count(), 9);
    assert_eq!(server.body("/fields/MESSAGE", ""), "a b c d e f");
    assert_eq!(server.body("/entries?boot", ""), "", "that of this machine, now");
    let machine = server.body("/machine", "");
    let machine: Value = serde_json::from_str(&machine).expect("JSON");
    assert_eq!(machine["cutoff_from_realtime"], "1700000000000001");
    assert!(server.body("/browse", "").starts_with("<!DOCTYPE html>"));
    let (status, head, _) = server.get("/", "");
    assert!(status == 301 && head.contains("Location: /browse"), "{head}");
}

#[test]
fn what_comes_is_sent_while_it_comes() {
    let mut lab = Lab::new("gateway-follow");
    lab.append("a b");
    let server = Server::ours(&lab.directory);
    let head = "GET /entries?follow HTTP/1.1\r\nAccept: text/event-stream\r\n\
                Range: entries=:1:9\r\n\r\n";
    let mut lines = BufReader::new(server.send(head)).lines();
    let mut next = || loop {
        let line = lines.next().expect("it follows").expect("a line");
        if let Some(json) = line.strip_prefix("data: ") {
            return texts(json);
        }
    };
    assert_eq!(next(), "b");
    lab.append("c");
    assert_eq!(next(), "c");
    lab.seal();
    lab.append("d");
    assert_eq!(next(), "d");
}

#[test]
fn chunks_can_be_told_from_a_cut() {
    let mut lab = Lab::new("gateway-chunks");
    lab.append("a");
    let server = Server::ours(&lab.directory);
    let mut answer = Vec::new();
    let mut client = server.send("GET /fields/MESSAGE HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.read_to_end(&mut answer).expect("a whole answer");
    let (_, head, body) = split(&answer);
    assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
    assert_eq!(body, b"2\r\na\n\r\n0\r\n\r\n");
    let mut answer = Vec::new();
    let mut client = server.send("HEAD /entries HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.read_to_end(&mut answer).expect("a whole answer");
    assert_eq!(split(&answer).2, b"", "a head alone");
}

/// A web page that gives its own name the address of this machine reads nothing.
#[test]
fn who_asks_by_the_name_of_another_machine_is_refused() {
    let mut lab = Lab::new("gateway-host");
    lab.append("a");
    let server = Server::ours(&lab.directory);
    for (host, expected) in [("127.0.0.1:19531", 200), ("[::1]", 200), ("evil.example:19531", 421)]
    {
        let (status, _, body) = server.get("/fields/MESSAGE", &format!("Host: {host}\r\n"));
        assert_eq!((status, body == b"a\n"), (expected, expected == 200), "{host}");
    }
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let lab = Lab::new("gateway-refused");
    let server = Server::ours(&lab.directory);
    let check = |sent: &str, expected: u16| {
        let mut answer = Vec::new();
        // It may close while this is still being sent.
        let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
        let _ = client.write_all(sent.as_bytes());
        let _ = client.shutdown(std::net::Shutdown::Write);
        client.read_to_end(&mut answer).expect("an answer");
        assert_eq!(split(&answer).0, expected, "{sent:.60}");
    };
    check("\x16\x03\x01 a client that wants TLS\r\n\r\n", 400);
    check("GET /machine HTTP/1.1\r\nHo", 400);
    check(&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000)), 431);
    check(&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1000)), 431);
    check("GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404);
    check("DELETE /entries HTTP/1.1\r\n\r\n", 405);
    check("GET /entries?bogus HTTP/1.1\r\n\r\n", 400);
    check("GET /machine HTTP/1.1\r\n\r\n", 200);
}

/// How many sources the server's loop waits for; proc_pid_fdinfo(5).
fn watched(server: &Server) -> usize {
    let listing = std::fs::read_dir(format!("/proc/{}/fdinfo", server.child.id()));
    let texts = listing.expect("its descriptors").flatten();
    let texts = texts.filter_map(|fd| std::fs::read_to_string(fd.path()).ok());
    texts.map(|text| text.matches("tfd:").count()).max().unwrap_or(0)
}

/// The first client comes when there is no descriptor for it, and no other connection whose end would
/// give one back: it waits, and the program does not end.
#[test]
fn the_first_client_waits_for_a_descriptor() {
    /// Looks, far more than the server needs for a turn.
    const LOOKS_MAX: usize = 1_000_000;
    let mut lab = Lab::new("gateway-shortage");
    lab.append("a b");
    let mut server = Server::ours(&lab.directory);
    assert_eq!(server.get("/entries", JSON).0, 200);
    let before = watched(&server);
    let limit = |count: &str| {
        let pid = server.child.id().to_string();
        let limit = format!("--nofile={count}:");
        let set = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(set.expect("prlimit(1)").success());
    };
    limit("3");
    let mut client = server.send(&format!("GET /entries HTTP/1.0\r\n{JSON}\r\n"));
    let is_resting = (0..LOOKS_MAX).any(|_| watched(&server) == before - 1);
    assert!(is_resting, "{} of {before} sources are watched", watched(&server));
    limit("64");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("a whole answer");
    let (status, _, body) = split(&answer);
    assert_eq!((status, texts(&String::from_utf8(body).expect("UTF-8"))), (200, "a b".to_owned()));
    assert!(server.child.try_wait().expect("ours").is_none(), "it goes on");
}

/// One user of this host has 32, and root what there is for all; `http/src/serve/places.rs` has the rest.
#[test]
fn connections_are_bounded() {
    let most = if warren_sys::process::own_ids().0 == 0 { 128 } else { 32 };
    let mut lab = Lab::new("gateway-many");
    lab.append("a");
    let server = Server::ours(&lab.directory);
    // Each of them is taken when it has its first entry.
    let mut followers = Vec::new();
    for _ in 0..most {
        let client = server.send("GET /entries?follow HTTP/1.0\r\n\r\n");
        let mut lines = BufReader::new(client).lines();
        let has_entry = |line: std::io::Result<String>| line.expect("a line").ends_with(": a");
        assert!(lines.any(has_entry));
        followers.push(lines);
    }
    // Nobody waits to read what it asks for: it may be reset before it sees the answer.
    let is_refused = || {
        let mut answer = Vec::new();
        let mut client = server.send("GET /machine HTTP/1.0\r\n\r\n");
        client.read_to_end(&mut answer).is_err() || split(&answer).0 == 503
    };
    assert!(is_refused());
    followers.clear();
    // Threads end when they see that their clients are gone, each in its own time.
    while is_refused() {}
}

/// Entries as the export format has them, enough to be different.
fn sample() -> Vec<u8> {
    let mut data = Vec::new();
    for number in 0..300u64 {
        let boot = if number < 100 { "a" } else { "b" }.repeat(32);
        let time = 1_700_000_000_000_000 + number * 1000;
        let (pid, identifier) = (100 + number % 5, number % 7);
        let text = if number % 13 == 0 { "two\\nlines " } else { "number " };
        data.extend_from_slice(
            format!(
                "__REALTIME_TIMESTAMP={time}\n__MONOTONIC_TIMESTAMP={number}000\n_BOOT_ID={boot}\n\
                 MESSAGE={text}{number}\nPRIORITY={}\nSYSLOG_IDENTIFIER=id{identifier}\n\
                 _HOSTNAME=box\n_PID={pid}\nN={number}\n",
                number % 8
            )
            .as_bytes(),
        );
        if number % 11 == 0 {
            data.extend_from_slice(b"DOUBLE=a\nDOUBLE=b\nBIN\n\x03\0\0\0\0\0\0\0\x01\xff\n\n");
        }
        data.push(b'\n');
    }
    data
}

/// A body without what differs by right: cursors, and the order of fields and of values.
fn comparable(target: &str, accept: &str, body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    let mut lines: Vec<String> = match accept {
        "application/json" | "text/event-stream" | "application/json-seq" => {
            let lines = text.lines().filter(|line| !line.is_empty());
            let begin = if accept.ends_with("seq") { "\x1e" } else { "data: " };
            lines.map(|line| sorted(line.trim_start_matches(begin))).collect()
        }
        "application/vnd.fdo.journal" => text
            .split("\n\n")
            .map(|entry| {
                let lines = entry.lines().filter(|line| !line.starts_with("__CURSOR="));
                let mut lines: Vec<&str> = lines.collect();
                lines.sort_unstable();
                lines.join("\n")
            })
            .collect(),
        _ => text.lines().map(str::to_owned).collect(),
    };
    if target.starts_with("/fields/") {
        lines.sort();
    }
    lines
}

fn sorted(line: &str) -> String {
    let mut entry: Map<String, Value> = serde_json::from_str(line).expect("JSON");
    entry.remove("__CURSOR");
    entry.sort_keys();
    for value in entry.values_mut() {
        if let Value::Array(values) = value {
            values.sort_by_key(Value::to_string);
        }
    }
    Value::Object(entry).to_string()
}

#[test]
fn debians_gateway_answers_the_same() {
    const THEIRS: &str = "/lib/systemd/systemd-journal-gatewayd";
    let program = std::env::var("JOURNAL_GATEWAYD").unwrap_or_else(|_| THEIRS.to_owned());
    let Some(remote) = journal_remote() else { return };
    if !Path::new(&program).exists() {
        return not_run("no systemd-journal-gatewayd is installed");
    }
    let lab = Lab::new("gateway-debian");
    // A directory of its own: theirs is not to see files that are not its own.
    let directory = lab.directory.join("theirs");
    std::fs::create_dir(&directory).expect("a directory");
    let input = lab.directory.join("input");
    std::fs::write(&input, sample()).expect("a file");
    let mut make = Command::new(remote);
    make.arg("-o").arg(directory.join("t.journal")).arg(&input).stderr(Stdio::null());
    assert!(make.status().expect("it runs").success());
    let (theirs, ours) = (Server::start(&program, &directory), Server::ours(&directory));
    let cursor = {
        let fields = "Accept: application/vnd.fdo.journal\r\nRange: entries=:150:1\r\n";
        let export = theirs.body("/entries", fields);
        let cursor = export.split(' ').find_map(|line| line.strip_prefix("__CURSOR="));
        cursor.expect("an entry").to_owned()
    };
    let check = |target: &str, accept: &str, range: &str| {
        let range = range.replace("CURSOR", &cursor);
        let fields = format!("Accept: {accept}\r\n{range}\r\n");
        let fields = fields.trim_end().to_owned() + "\r\n";
        let (their, our) = (theirs.get(target, &fields), ours.get(target, &fields));
        assert_eq!(our.0, their.0, "{target} {fields}");
        if their.0 == 200 {
            let body = |answer: &(u16, String, Vec<u8>)| comparable(target, accept, &answer.2);
            assert_eq!(body(&our), body(&their), "{target} {fields}");
        }
    };
    let ranges = [
        "",
        "Range: entries=CURSOR",
        "Range: entries=CURSOR:3",
        "Range: entries=CURSOR:2:3",
        "Range: entries=CURSOR:-2:3",
        "Range: entries=CURSOR:-2000:3",
        "Range: entries=:-3:30",
        "Range: entries=:3:3",
        "Range: entries=::3",
        "Range: entries=CURSOR:0:0",
        "Range: entries=garbage",
        "Range: bytes=0-5",
    ];
    let formats = [
        "text/plain",
        "application/json",
        "text/event-stream",
        "application/json-seq",
        "application/vnd.fdo.journal",
        "text/html",
    ];
    for accept in formats {
        ranges.iter().for_each(|range| check("/entries", accept, range));
    }
    let queries = [
        "boot",
        "boot=0",
        "boot=x",
        "_PID=101&_PID=102",
        "_PID=101&PRIORITY=3",
        "DOUBLE=b",
        "MESSAGE=number%203",
        "bogus",
        "discrete",
        "NOSUCH",
    ];
    for query in queries {
        check(&format!("/entries?{query}"), "application/json", "");
        check(&format!("/entries?{query}"), "application/json", "Range: entries=:-10:4");
        check(&format!("/entries?discrete&{query}"), "application/json", "Range: entries=CURSOR");
    }
    for name in ["_PID", "N", "MESSAGE", "_BOOT_ID", "NOSUCH", "nosuch", "", "A=b"] {
        check(&format!("/fields/{name}"), "text/plain", "");
        check(&format!("/fields/{name}"), "application/json", "");
    }
    check("/nosuch", "text/plain", "");
}
