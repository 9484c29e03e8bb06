//! The upload to a receiver of the tests that refuses, hangs up and unpacks, and to Debian's own where
//! that is installed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Map, Value};

#[path = "../../log-show/tests/common/mod.rs"]
mod common;
#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;
use common::{Lab, journal_remote};
use reader::journalctl;

/// A request as it came: the lines of its head, and its body out of chunks.
struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    /// The texts of the entries in it.
    fn texts(&self) -> String {
        let body = match self.head.contains("Content-Encoding: zstd") {
            true => zstd::decode_all(&self.body[..]).expect("zstd"),
            false => self.body.clone(),
        };
        let text = String::from_utf8(body).expect("texts only");
        let texts = text.lines().filter_map(|line| line.strip_prefix("MESSAGE="));
        texts.collect::<Vec<_>>().join(" ")
    }
}

fn read_request(from: &mut impl BufRead) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut body = Vec::new();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    if let Some(length) = length {
        from.take(length.parse().ok()?).read_to_end(&mut body).ok()?;
        return Some(Request { head, body });
    }
    loop {
        let mut size = String::new();
        from.read_line(&mut size).ok()?;
        let size = u64::from_str_radix(size.trim(), 16).ok()?;
        from.take(size).read_to_end(&mut body).ok()?;
        from.read_line(&mut String::new()).ok()?;
        if size == 0 {
            return Some(Request { head, body });
        }
    }
}

/// A receiver on a port of its own.
struct Receiver(TcpListener);

impl Receiver {
    fn new() -> Receiver {
        Receiver(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    fn accept(&self) -> BufReader<TcpStream> {
        BufReader::new(self.0.accept().expect("a connection").0)
    }

    fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().expect("bound"))
    }
}

fn answer(client: &mut BufReader<TcpStream>, status: u16, more: &str) {
    let text = format!("HTTP/1.1 {status} So\r\n{more}Content-Length: 3\r\n\r\nOK.");
    client.get_mut().write_all(text.as_bytes()).expect("sent");
}

fn start(lab: &Lab, url: &str, options: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journal-upload"));
    command.args(["--url", url, "-D"]).arg(&lab.directory).args(options);
    command.stderr(Stdio::piped()).spawn().expect("it runs")
}

fn finish(child: Child) -> Output {
    child.wait_with_output().expect("our child")
}

fn state(lab: &Lab) -> String {
    format!("--save-state={}", lab.directory.join("state/cursor").display())
}

#[test]
fn what_was_answered_is_not_sent_again() {
    let mut lab = Lab::new("upload-state");
    lab.append("a b");
    lab.seal();
    lab.append("c");
    let (receiver, state) = (Receiver::new(), state(&lab));
    let options = [state.as_str(), "--follow=no"];
    let run = |status: u16| {
        let child = start(&lab, &receiver.url(), &options);
        let mut client = receiver.accept();
        let request = read_request(&mut client).expect("a request");
        answer(&mut client, status, "");
        (request, finish(child))
    };
    let (request, output) = run(500);
    assert_eq!(request.texts(), "a b c");
    assert!(request.head.starts_with("POST /upload HTTP/1.1\r\n"), "{}", request.head);
    assert!(request.head.contains("Content-Type: application/vnd.fdo.journal\r\n"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("refuses: 500 OK."), "{said}");
    let (request, output) = run(202);
    assert_eq!(request.texts(), "a b c", "nobody has said that it has them");
    assert!(output.status.success());
    // Nothing new: no connection, and the state stays.
    assert!(finish(start(&lab, &receiver.url(), &options)).status.success());
    lab.append("d");
    let child = start(&lab, &receiver.url(), &options);
    let mut client = receiver.accept();
    assert_eq!(read_request(&mut client).expect("a request").texts(), "d");
    answer(&mut client, 202, "");
    assert!(finish(child).status.success());
    for rubbish in ["", "rubbish", "LAST_CURSOR=\n"] {
        std::fs::write(lab.directory.join("state/cursor"), rubbish).expect("writable");
        let child = start(&lab, &receiver.url(), &options);
        let mut client = receiver.accept();
        assert_eq!(read_request(&mut client).expect("a request").texts(), "a b c d", "{rubbish:?}");
        answer(&mut client, 202, "");
        let output = finish(child);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.contains("it holds no cursor"), "{said}");
    }
}

#[test]
fn what_comes_goes_over_the_same_connection() {
    let mut lab = Lab::new("upload-follow");
    lab.append("a");
    let receiver = Receiver::new();
    let state = state(&lab);
    let mut child = start(&lab, &receiver.url(), &[&state]);
    let mut client = receiver.accept();
    let next = |client: &mut BufReader<TcpStream>, more: &str| {
        let request = read_request(client).expect("a request");
        answer(client, 202, more);
        request
    };
    assert_eq!(next(&mut client, "Accept-Encoding: zstd\r\n").texts(), "a");
    lab.append("b");
    let request = next(&mut client, "");
    assert!(request.head.contains("Content-Encoding: zstd"), "it was said to be taken");
    assert_eq!(request.texts(), "b");
    lab.append("c");
    let request = next(&mut client, "");
    assert!(!request.head.contains("Content-Encoding"), "it is not said any more");
    // Between two batches the receiver may hang up; within one it may, too.
    drop(client);
    lab.append("d");
    let mut client = receiver.accept();
    assert_eq!(next(&mut client, "").texts(), "d");
    lab.append("e");
    assert_eq!(read_request(&mut client).expect("a request").texts(), "e");
    drop(client);
    let mut client = receiver.accept();
    assert_eq!(next(&mut client, "").texts(), "e", "the answer was lost");
    child.kill().expect("our child");
    child.wait().expect("our child");
    // Started again, it goes on behind what was answered: "e", unless it was killed before it knew.
    lab.append("f");
    let mut child = start(&lab, &receiver.url(), &[&state]);
    let mut client = receiver.accept();
    let texts = next(&mut client, "").texts();
    assert!(texts == "f" || texts == "e f", "{texts}");
    child.kill().expect("our child");
    child.wait().expect("our child");
}

#[test]
fn a_receiver_that_is_not_there_ends_it() {
    let mut lab = Lab::new("upload-away");
    lab.append("a");
    let receiver = Receiver::new();
    let url = receiver.url();
    drop(receiver);
    let output = finish(start(&lab, &url, &[]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("the receiver is not there"), "{said}");
    assert_eq!(finish(start(&lab, "ftp://a", &[])).status.code(), Some(2));
}

/// Reads until the upload ends and refuses what `refuses` says; gives the texts that were taken and the sizes of requests.
fn take_all(
    receiver: &Receiver,
    mut refuses: impl FnMut(&Request) -> Option<u16>,
) -> (String, Vec<usize>) {
    let (mut taken, mut sizes) = (Vec::new(), Vec::new());
    let mut client = receiver.accept();
    while let Some(request) = read_request(&mut client) {
        sizes.push(request.body.len());
        let status = refuses(&request);
        if status.is_none() {
            taken.push(request.texts());
        }
        answer(&mut client, status.unwrap_or(202), "");
    }
    (taken.join(" "), sizes)
}

fn upload_to(
    lab: &Lab,
    refuses: impl FnMut(&Request) -> Option<u16>,
) -> (String, Vec<usize>, Output) {
    let (receiver, state) = (Receiver::new(), state(lab));
    let child = start(lab, &receiver.url(), &[&state, "--follow=no"]);
    let (taken, sizes) = take_all(&receiver, refuses);
    (taken, sizes, finish(child))
}

#[test]
fn one_entry_that_is_refused_holds_up_no_other() {
    let all = "a b c d e f g h";
    for (bad, taken) in [("e", "a b c d f g h"), ("a", "b c d e f g h"), ("h", "a b c d e f g")] {
        let mut lab = Lab::new(&format!("upload-bad-{bad}"));
        lab.append(all);
        let has_bad = |request: &Request| request.texts().split(' ').any(|text| text == bad);
        let (found, _, output) = upload_to(&lab, |request| has_bad(request).then_some(400));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(found, taken, "{bad}");
        assert!(output.status.success() && said.contains("left out: an entry of"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// Nothing is left out for a receiver that takes nothing.
#[test]
fn a_receiver_that_refuses_everything_costs_no_entry() {
    let mut lab = Lab::new("upload-all-bad");
    lab.append("a b c");
    let (found, _, output) = upload_to(&lab, |_| Some(400));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(found.is_empty() && !output.status.success(), "{said}");
    let (found, _, output) = upload_to(&lab, |_| None);
    assert!(output.status.success());
    assert_eq!(found, "a b c");
}

#[test]
fn what_is_too_large_is_sent_in_smaller_requests() {
    let mut lab = Lab::new("upload-large");
    let mut texts: Vec<String> = (0..30).map(|n| format!("{n}{}", "x".repeat(99_998))).collect();
    texts.push("y".repeat(1_500_000));
    texts.push("end".to_owned());
    lab.append(&texts.join(" "));
    let (found, sizes, output) = upload_to(&lab, |_| None);
    assert!(output.status.success() && found == texts.join(" "));
    let large = sizes.iter().filter(|bytes| **bytes >= 1_000_000).count();
    assert!(sizes.len() < 8 && large == 1, "{sizes:?}");
    std::fs::remove_dir_all(lab.directory.join("state")).expect("it was made");
    let (found, _, output) =
        upload_to(&lab, |request| (request.body.len() > 250_000).then_some(413));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    texts.remove(30);
    assert!(output.status.success() && found == texts.join(" "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("413") && said.contains("left out: an entry of 1500"), "{said}");
}

/// A collector's request as JSON.
fn json(request: &Request) -> Value {
    serde_json::from_slice(&request.body).expect("JSON")
}

/// The lines in a request to Loki.
fn lines(request: &Request) -> String {
    let streams = json(request)["streams"].as_array().cloned().unwrap_or_default();
    let values =
        streams.iter().flat_map(|stream| stream["values"].as_array().into_iter().flatten());
    values.filter_map(|value| value[1].as_str()).collect::<Vec<_>>().join(" ")
}

/// A receiver of Loki's kind that does with each request what it is told; what it has taken, and the program's end.
fn collect(
    lab: &Lab,
    more: &[&str],
    does: impl FnMut(usize, &Request) -> Does,
) -> (Vec<String>, Output) {
    let (receiver, state) = (Receiver::new(), state(lab));
    let words = [&[&*state, "--follow=no", "--to=loki"], more].concat();
    let child = start(lab, &receiver.url(), &words);
    let taken = serve(&receiver, does);
    (taken, finish(child))
}

/// What a receiver does with a request.
enum Does {
    Answers(u16, &'static str),
    /// Hangs up without an answer.
    HangsUp,
    /// Says nothing until the other one is gone.
    SaysNothing,
    /// Takes it, and no request behind it.
    TakesTheLast,
}

fn serve(receiver: &Receiver, mut does: impl FnMut(usize, &Request) -> Does) -> Vec<String> {
    let (mut taken, mut count) = (Vec::new(), 0);
    loop {
        let mut client = receiver.accept();
        while let Some(request) = read_request(&mut client) {
            count += 1;
            match does(count, &request) {
                Does::Answers(status, more) => {
                    if status < 300 {
                        taken.push(lines(&request));
                    }
                    answer(&mut client, status, more);
                }
                Does::HangsUp => break,
                Does::SaysNothing => {
                    let _ = client.read_to_end(&mut Vec::new());
                    break;
                }
                Does::TakesTheLast => {
                    taken.push(lines(&request));
                    answer(&mut client, 204, "");
                    return taken;
                }
            }
        }
    }
}

#[test]
fn loki_gets_streams_with_a_few_labels() {
    let mut lab = Lab::new("upload-loki");
    lab.append("a b");
    let headers = lab.directory.join("headers");
    std::fs::write(&headers, "X-Scope-OrgID: tenant-1\nAuthorization: Bearer secret\n")
        .expect("writable");
    let headers = format!("--headers={}", headers.display());
    let mut seen = None;
    let (taken, output) = collect(&lab, &[&headers], |_, request| {
        seen = Some((request.head.clone(), json(request)));
        Does::TakesTheLast
    });
    assert!(output.status.success() && taken == ["a b"], "{output:?}");
    let (head, body) = seen.expect("a request");
    assert!(head.starts_with("POST /loki/api/v1/push HTTP/1.1\r\n"), "{head}");
    for line in ["Content-Type: application/json", "X-Scope-OrgID: tenant-1", "Bearer secret"] {
        assert!(head.contains(line), "{head}");
    }
    let labels = body["streams"][0]["stream"].as_object().expect("labels");
    assert!(labels.contains_key("host") && labels["job"] == "warrener", "{labels:?}");
    assert!(!labels.contains_key("unit"), "units may be any number: {labels:?}");
    // Nothing new: no connection.
    let state = state(&lab);
    let again = start(&lab, "http://127.0.0.1:1", &[&state, "--follow=no", "--to=loki"]);
    assert!(finish(again).status.success());
}

/// Refused, silent, gone, busy: nothing is lost and nothing is passed over, and it is said once why it waits.
#[test]
fn a_collector_that_is_busy_or_silent_is_tried_again() {
    let mut lab = Lab::new("upload-busy");
    lab.append("a b c");
    let (taken, output) = collect(&lab, &["--timeout=1"], |count, _| match count {
        1 => Does::Answers(429, "Retry-After: 1\r\n"),
        2 => Does::HangsUp,
        3 => Does::SaysNothing,
        4 => Does::Answers(503, "Retry-After: 0\r\n"),
        _ => Does::TakesTheLast,
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && taken == ["a b c"], "{taken:?} {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("the receiver answers 429; trying again in 1 s, 6 times"), "{said}");
}

#[test]
fn tries_have_an_end_and_what_was_taken_is_kept() {
    let mut lab = Lab::new("upload-gives-up");
    let texts: Vec<String> = (0..20).map(|n| format!("{n}{}", "x".repeat(99_000))).collect();
    lab.append(&texts.join(" "));
    let receiver = Receiver::new();
    let state = state(&lab);
    let words = [&*state, "--follow=no", "--to=loki", "--retries=1"];
    let child = start(&lab, &receiver.url(), &words);
    let mut client = receiver.accept();
    let first = lines(&read_request(&mut client).expect("a request"));
    answer(&mut client, 204, "");
    for _ in 0..2 {
        read_request(&mut client).expect("the next one, and again");
        answer(&mut client, 429, "Retry-After: 0\r\n");
    }
    let output = finish(child);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("refuses: 429"), "{said}");
    // One that is not there at all.
    drop((client, receiver));
    let output = finish(start(&lab, "http://127.0.0.1:1", &words));
    assert!(!output.status.success());
    let (taken, output) =
        collect(&lab, &[], |_, request| match lines(request).ends_with(&texts[19]) {
            true => Does::TakesTheLast,
            false => Does::Answers(204, ""),
        });
    assert!(output.status.success());
    assert_eq!([vec![first], taken].concat().join(" "), texts.join(" "), "each once");
}

#[test]
fn an_entry_that_loki_refuses_holds_up_no_other() {
    let mut lab = Lab::new("upload-loki-bad");
    lab.append("a b c d e");
    let (taken, output) = collect(&lab, &[], |_, request| {
        let lines = lines(request);
        match lines.split(' ').any(|line| line == "c") {
            true => Does::Answers(400, ""),
            false if lines.ends_with('e') => Does::TakesTheLast,
            false => Does::Answers(204, ""),
        }
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(taken.join(" "), "a b d e");
    assert!(output.status.success() && said.contains("left out: an entry of"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn otlp_says_what_it_left_out() {
    let mut lab = Lab::new("upload-otlp");
    lab.append("a b");
    let receiver = Receiver::new();
    let child = start(&lab, &receiver.url(), &["--follow=no", "--to=otlp", "--unit-label"]);
    let mut client = receiver.accept();
    let request = read_request(&mut client).expect("a request");
    assert!(request.head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{}", request.head);
    let records = &json(&request)["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
    assert_eq!(records[1]["body"]["stringValue"], "b");
    let part = r#"{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old"}}"#;
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{part}", part.len());
    client.get_mut().write_all(text.as_bytes()).expect("sent");
    let output = finish(child);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("left out 1 entries of a request: too old"), "{said}");
}

/// Debian's receiver, which stays until the end of the test.
struct Remote(Child);

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it with a listening socket as its descriptor 3; gives its URL.
fn start_remote(program: &Path, output: &Path) -> (Remote, String) {
    let listener = Receiver::new();
    let url = listener.url();
    let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
    let child = Command::new("/bin/sh")
        .args(["-c", script, "sh"])
        .arg(program)
        .args(["--listen-http=-3", "--split-mode=none", "-o"])
        .arg(output)
        .stdin(OwnedFd::from(listener.0))
        .stderr(Stdio::null())
        .spawn();
    (Remote(child.expect("sh is there")), url)
}

/// All entries as JSON without cursors, fields sorted.
fn entries(program: &str, options: &[&str], path: &Path) -> Vec<String> {
    let mut command = Command::new(program);
    command.args(options).arg(path).args(["-o", "json", "--all", "--no-pager", "-q"]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = |line: &str| {
        let mut entry: Map<String, Value> = serde_json::from_str(line).expect("JSON");
        entry.remove("__CURSOR");
        entry.sort_keys();
        for value in entry.values_mut() {
            if let Value::Array(values) = value {
                values.sort_by_key(Value::to_string);
            }
        }
        Value::Object(entry).to_string()
    };
    text.lines().map(line).collect()
}

/// A store of `count` entries with doubled, binary and long values, made by import.
fn import(lab: &Lab, count: u64) -> PathBuf {
    let mut data = Vec::new();
    for number in 0..count {
        let time = 1_700_000_000_000_000 + number * 1000;
        let boot = if number < count / 3 { "a" } else { "b" }.repeat(32);
        let head = format!(
            "__REALTIME_TIMESTAMP={time}\n__MONOTONIC_TIMESTAMP={number}000\n_BOOT_ID={boot}\n\
             _MACHINE_ID={}\nMESSAGE=number {number}\nPRIORITY={}\n",
            "c".repeat(32),
            number % 8
        );
        data.extend_from_slice(head.as_bytes());
        if number % 7 == 0 {
            let value = [&vec![b'x'; number as usize * 5][..], &[b'\n', number as u8]].concat();
            data.extend_from_slice(b"DOUBLE=a\nDOUBLE=b\nBIG\n");
            data.extend_from_slice(&(value.len() as u64).to_le_bytes());
            data.extend_from_slice(&value);
            data.push(b'\n');
        }
        data.push(b'\n');
    }
    let (input, store) = (lab.directory.join("input"), lab.directory.join("import"));
    std::fs::write(&input, data).expect("a file");
    let mut command = Command::new(journalctl());
    command.arg("-D").arg(&store).arg("--import").arg(&input).stderr(Stdio::null());
    assert!(command.status().expect("it runs").success());
    store
}

#[test]
fn debians_receiver_has_every_entry() {
    let Some(program) = journal_remote() else { return };
    let lab = Lab::new("upload-debian");
    let store = import(&lab, 2000);
    let output = lab.directory.join("remote.journal");
    let (_remote, url) = start_remote(&program, &output);
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journal-upload"));
    command.args(["--url", &url, "--follow=no", "-D"]).arg(&store);
    assert!(command.status().expect("it runs").success());
    let ours = entries(journalctl(), &["-D"], &store);
    let theirs = entries("journalctl", &["--file"], &output);
    assert_eq!(ours.len(), 2000);
    assert!(ours == theirs, "{} entries of {}", theirs.len(), ours.len());
}
