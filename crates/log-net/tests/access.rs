//! The log over varlink as its clients see it, hostile ones and one that is not ours among them.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

#[path = "../../log-show/tests/common/mod.rs"]
mod common;
use common::{Lab, not_run};

const ENTRIES: &str = "io.warrener.JournalAccess.GetEntries";
const SYSTEMD_ENTRIES: &str = "io.systemd.JournalAccess.GetEntries";

/// A program that answers on a socket of its own.
struct Server {
    child: Child,
    path: PathBuf,
}

impl Server {
    /// Starts it as the manager would: with a listening socket as its descriptor 3.
    fn start(lab: &Lab) -> Server {
        let path = lab.directory.with_extension("varlink");
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        Server { child: spawn(&lab.directory, OwnedFd::from(listener)), path }
    }

    fn connect(&self) -> Client {
        Client { stream: BufReader::new(UnixStream::connect(&self.path).expect("it listens")) }
    }

    /// The texts, or the error, that one call is answered with.
    fn ask(&self, method: &str, parameters: Value) -> String {
        let mut client = self.connect();
        client.send(&call(method, parameters));
        client.texts()
    }
}

fn spawn(directory: &Path, socket: OwnedFd) -> Child {
    let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_warren-journal-access"), "-D"]);
    command.arg(directory).stdin(socket).spawn().expect("sh is there")
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

fn call(method: &str, parameters: Value) -> Value {
    json!({"method": method, "parameters": parameters, "more": true})
}

struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    fn send(&mut self, call: &Value) {
        self.send_bytes(format!("{call}\0").as_bytes());
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        // It may close while this is still being sent.
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// The next reply; `None`: the connection has ended.
    fn reply(&mut self) -> Option<Value> {
        let mut bytes = Vec::new();
        // A reset is an end, too: it closed with something unread.
        let _ = self.stream.read_until(0, &mut bytes);
        let text = bytes.strip_suffix(b"\0")?;
        Some(serde_json::from_slice(text).expect("JSON"))
    }

    /// All replies to a call, in short.
    fn texts(&mut self) -> String {
        let mut texts = Vec::new();
        loop {
            let reply = self.reply().expect("a reply");
            texts.push(in_short(&reply));
            if reply["continues"] != json!(true) {
                return texts.join(" ");
            }
        }
    }

    fn is_dropped(&mut self) -> bool {
        self.reply().is_none()
    }
}

fn in_short(reply: &Value) -> String {
    match reply["error"].as_str() {
        Some(error) => format!("{error} {}", reply["parameters"]),
        None => match &reply["parameters"]["entry"]["MESSAGE"] {
            Value::String(text) => text.clone(),
            _ => reply["parameters"].to_string(),
        },
    }
}

#[test]
fn entries_are_found_as_the_command_finds_them() {
    let mut lab = Lab::new("access-found");
    lab.append("a b c d");
    lab.seal();
    lab.append("e f");
    let server = Server::start(&lab);
    let check = |parameters: Value, expected: &str| {
        assert_eq!(server.ask(ENTRIES, parameters.clone()), expected, "{parameters}");
    };
    check(json!({}), "a b c d e f");
    check(json!({"limit": 2}), "e f");
    check(json!({"limit": 2, "reverse": true}), "f e");
    check(json!({"limit": 5000}), "a b c d e f");
    check(json!({"grep": "[bf]"}), "b f");
    check(json!({"grep": "B", "caseSensitive": false}), "b");
    check(json!({"matches": ["MESSAGE=a", "+", "MESSAGE=e"]}), "a e");
    check(json!({"since": "@1700000000.000005"}), "e f");
    check(json!({"units": ["nosuch"]}), "io.warrener.JournalAccess.NoEntries {}");
    check(json!({"limit": 0}), "io.warrener.JournalAccess.NoEntries {}");
    let bad = server.ask(ENTRIES, json!({"grep": "("}));
    assert!(bad.starts_with("io.warrener.JournalAccess.Failed "), "{bad}");
    let wrong = server.ask(ENTRIES, json!({"limit": "x"}));
    assert_eq!(wrong, r#"org.varlink.service.InvalidParameter {"parameter":"limit"}"#);
    let systemd = |parameters| server.ask(SYSTEMD_ENTRIES, parameters);
    assert_eq!(systemd(json!({"limit": 2, "units": null})), "e f");
    assert_eq!(systemd(json!({"priority": 3})), "io.systemd.JournalAccess.NoEntries {}");
}

#[test]
fn a_cursor_goes_on_on_the_same_connection() {
    let mut lab = Lab::new("access-cursor");
    lab.append("a b c");
    let server = Server::start(&lab);
    let mut client = server.connect();
    client.send(&call(ENTRIES, json!({"limit": 2, "fields": ["MESSAGE"]})));
    let first = client.reply().expect("an entry");
    let entry = first["parameters"]["entry"].as_object().expect("an object");
    assert_eq!(entry["MESSAGE"], "b");
    let cursor = entry["__CURSOR"].clone();
    assert_eq!(client.texts(), "c");
    lab.seal();
    // Two calls at once are answered one after the other, and one that wants no answer has none.
    let mut calls = Vec::new();
    for call in [
        call(ENTRIES, json!({"cursor": cursor})),
        json!({"method": "org.varlink.service.GetInfo", "oneway": true}),
        call(ENTRIES, json!({"afterCursor": cursor})),
    ] {
        calls.extend_from_slice(format!("{call}\0").as_bytes());
    }
    client.send_bytes(&calls);
    assert_eq!(client.texts(), "b c");
    assert_eq!(client.texts(), "c");
}

#[test]
fn what_comes_is_sent_while_it_comes() {
    let mut lab = Lab::new("access-follow");
    lab.append("a b");
    let server = Server::start(&lab);
    let mut client = server.connect();
    client.send(&call(SYSTEMD_ENTRIES, json!({"limit": 1, "follow": true})));
    let next = |client: &mut Client| {
        let reply = client.reply().expect("it follows");
        assert_eq!(reply["continues"], json!(true));
        in_short(&reply)
    };
    assert_eq!(next(&mut client), "b");
    lab.append("c");
    assert_eq!(next(&mut client), "c");
    lab.seal();
    lab.append("d");
    assert_eq!(next(&mut client), "d");
    client.send_bytes(b"x");
    assert!(client.is_dropped(), "who talks while he listens is not heard");
}

#[test]
fn what_is_no_call_ends_the_connection() {
    let mut lab = Lab::new("access-hostile");
    lab.append("a");
    let server = Server::start(&lab);
    let long = [vec![b' '; 70_000], b"{}\0".to_vec()].concat();
    let deep = [vec![b'['; 10_000], b"\0".to_vec()].concat();
    for bytes in [&b"\0"[..], b"{}\0", b"GET / HTTP/1.1\r\n\r\n\0", b"\xff\xfe\0", &long, &deep] {
        let mut client = server.connect();
        client.send_bytes(bytes);
        assert!(client.is_dropped(), "{:.20}", String::from_utf8_lossy(bytes));
    }
    let mut half = server.connect();
    half.send_bytes(b"{\"method\":");
    half.stream.get_mut().shutdown(std::net::Shutdown::Write).expect("connected");
    assert!(half.is_dropped());
    assert_eq!(server.ask(ENTRIES, json!({})), "a", "others are served");
    let mut one = server.connect();
    one.send(&json!({"method": ENTRIES}));
    assert_eq!(one.texts(), "org.varlink.service.ExpectedMore {}");
}

#[test]
fn there_are_not_more_connections_than_there_may_be() {
    let mut lab = Lab::new("access-many");
    lab.append("a");
    let server = Server::start(&lab);
    // Root is bounded by what there is for all, others before.
    let mut taken = Vec::new();
    let refused = (0..100).find(|_| {
        let mut client = server.connect();
        client.send(&call(ENTRIES, json!({"follow": true})));
        let refused = client.reply().is_none();
        taken.push(client);
        refused
    });
    assert!(matches!(refused, Some(16 | 32)), "{refused:?}");
    taken.clear();
    // Threads end when they see that their clients are gone, each in its own time.
    loop {
        let mut client = server.connect();
        client.send(&call(ENTRIES, json!({})));
        if client.reply().is_some() {
            return;
        }
    }
}

#[test]
fn a_client_that_is_handed_over_is_served_until_it_goes() {
    let mut lab = Lab::new("access-handed");
    lab.append("a b");
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let mut child = spawn(&lab.directory, OwnedFd::from(theirs));
    let mut client = Client { stream: BufReader::new(ours) };
    client.send(&call(ENTRIES, json!({})));
    assert_eq!(client.texts(), "a b");
    drop(client);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_client_that_is_not_ours_reads_it() {
    let mut lab = Lab::new("access-python");
    lab.append("a b c");
    let server = Server::start(&lab);
    let python = std::env::var("WARREN_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/access.py");
    let run = |method: &str, parameters: Value| {
        let mut command = Command::new(&python);
        command.arg(&script).arg(&server.path).args([method, &parameters.to_string()]);
        command.stderr(Stdio::inherit()).output()
    };
    let Ok(output) = run(ENTRIES, json!({"grep": "[ac]"})) else {
        not_run(&format!("no {python}"));
        return;
    };
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut lines = text.lines();
    if lines.next() == Some("by hand") {
        not_run(&format!("the client of varlink.org, no module `varlink` of {python}"));
    }
    let texts: Vec<String> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .map(|reply: Value| reply["entry"]["MESSAGE"].as_str().expect("a text").to_owned())
        .collect();
    assert_eq!(texts, ["a", "c"]);
    let output = run(ENTRIES, json!({"units": ["nosuch"]})).expect("it ran before");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("io.warrener.JournalAccess.NoEntries"), "{text}");
}

#[test]
fn interfaces_are_described() {
    let lab = Lab::new("access-described");
    let server = Server::start(&lab);
    let mut client = server.connect();
    client.send(&json!({"method": "org.varlink.service.GetInfo"}));
    let info = client.reply().expect("an answer");
    let interfaces = info["parameters"]["interfaces"].as_array().expect("a list");
    assert_eq!(interfaces.len(), 3);
    for interface in interfaces {
        client.send(&json!({
            "method": "org.varlink.service.GetInterfaceDescription",
            "parameters": {"interface": interface},
        }));
        let description = client.reply().expect("an answer")["parameters"]["description"].clone();
        let line = format!("interface {}\n", interface.as_str().expect("a name"));
        assert!(description.as_str().is_some_and(|text| text.contains(&line)), "{description}");
    }
    let mut rest = Vec::new();
    client.stream.get_mut().shutdown(std::net::Shutdown::Write).expect("connected");
    client.stream.read_to_end(&mut rest).expect("it ends");
    assert!(rest.is_empty());
}
