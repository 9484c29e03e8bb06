//! TLS of the gateway and the upload, with programs of others at the other end: openssl's and curl's
//! clients, and Debian's systemd-journal-remote as client and as server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

#[path = "../../log-show/tests/common/mod.rs"]
mod common;
#[path = "../../log-show/tests/reader/mod.rs"]
mod reader;
use common::{Lab, journal_remote, not_run};
use reader::journalctl;

/// Two authorities, each with certificates of a server on the loopback interface and of a client.
struct Keys(PathBuf);

impl Keys {
    /// `None` without openssl.
    fn make(lab: &Lab) -> Option<Keys> {
        let directory = lab.directory.join("keys");
        std::fs::create_dir(&directory).expect("a directory");
        let keys = Keys(directory);
        Command::new("openssl").arg("version").output().ok()?;
        for authority in ["a", "b"] {
            keys.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
                 -subj /CN={authority} -keyout {authority}.key -out {authority}.crt"
            ));
            keys.sign(authority, "server", "subjectAltName=IP:127.0.0.1,DNS:localhost");
            keys.sign(authority, "client", "extendedKeyUsage=clientAuth");
        }
        Some(keys)
    }

    fn sign(&self, authority: &str, who: &str, extension: &str) {
        let name = format!("{authority}-{who}");
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={who} \
             -keyout {name}.key -out {name}.csr"
        ));
        std::fs::write(self.0.join("extension"), extension).expect("a file");
        self.openssl(&format!(
            "x509 -req -days 2 -in {name}.csr -CA {authority}.crt -CAkey {authority}.key \
             -extfile extension -out {name}.crt"
        ));
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        command.args(arguments.split_whitespace()).current_dir(&self.0);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// `--cert`, `--key` and `--trust`, each with its file.
    fn options(&self, who: &str, trust: Option<&str>) -> Vec<String> {
        let path = |name: &str| self.path(name);
        let mut options = vec![
            format!("--cert={}", path(&format!("{who}.crt"))),
            format!("--key={}", path(&format!("{who}.key"))),
        ];
        options.extend(trust.map(|name| format!("--trust={}", path(&format!("{name}.crt")))));
        options
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

/// A program that listens on a port of its own, which it has as its descriptor 3.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &str, options: &[String]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "sh", program]).args(options);
        command.stdin(OwnedFd::from(listener)).stderr(Stdio::null());
        Server { child: command.spawn().expect("sh is there"), port }
    }

    fn gateway(lab: &Lab, options: &[String]) -> Server {
        let place = ["-D".to_owned(), lab.directory.display().to_string()];
        let program = env!("CARGO_BIN_EXE_warren-journal-gatewayd");
        Server::start(program, &[&place[..], options].concat())
    }

    fn curl(&self, options: &[String]) -> Output {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "60"]).args(options);
        command.arg(format!("https://localhost:{}/fields/MESSAGE", self.port));
        command.output().expect("it runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has(program: &str, version: &str) -> bool {
    let there = Command::new(program).arg(version).output().is_ok();
    if !there {
        not_run(&format!("no {program}"));
    }
    there
}

#[test]
fn curl_reads_the_log() {
    let mut lab = Lab::new("tls-curl");
    lab.append("a b");
    let Some(keys) = Keys::make(&lab).filter(|_| has("curl", "-V")) else {
        return not_run("no openssl or no curl");
    };
    let trusting = |name: &str| vec!["--cacert".to_owned(), keys.path(&format!("{name}.crt"))];
    let shown = |output: Output| {
        let code = output.status.code().expect("it ended");
        (code, String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let open = Server::gateway(&lab, &keys.options("a-server", None));
    assert_eq!(shown(open.curl(&trusting("a"))), (0, "a\nb\n".to_owned()));
    let old = [trusting("a"), vec!["--tls-max".to_owned(), "1.2".to_owned()]].concat();
    assert_eq!(shown(open.curl(&old)), (0, "a\nb\n".to_owned()), "TLS 1.2");
    assert_eq!(shown(open.curl(&trusting("b"))).0, 60, "curl does not know who signed it");
    // Only clients of an authority.
    let closed = Server::gateway(&lab, &keys.options("a-server", Some("a")));
    let client = |who: &str| {
        let mut options = trusting("a");
        options.extend(["--cert".to_owned(), keys.path(&format!("{who}.crt"))]);
        options.extend(["--key".to_owned(), keys.path(&format!("{who}.key"))]);
        shown(closed.curl(&options))
    };
    assert_eq!(client("a-client"), (0, "a\nb\n".to_owned()));
    let refused = client("b-client");
    assert!(refused.0 != 0 && refused.1.is_empty(), "{refused:?}");
    let refused = shown(closed.curl(&trusting("a")));
    assert!(refused.0 != 0 && refused.1.is_empty(), "without a certificate: {refused:?}");
}

/// The certificate of the other authority comes in while somebody reads, and then rubbish.
#[test]
fn renewed_certificates_are_taken_without_ending_what_runs() {
    let mut lab = Lab::new("tls-renewed");
    lab.append("a b");
    let Some(keys) = Keys::make(&lab).filter(|_| has("curl", "-V")) else {
        return not_run("no openssl or no curl");
    };
    let install = |name: &str| {
        for end in ["key", "crt"] {
            let new = keys.path("new");
            std::fs::copy(keys.path(&format!("{name}.{end}")), &new).expect("copied");
            std::fs::rename(&new, keys.path(&format!("in-use.{end}"))).expect("renamed");
        }
    };
    install("a-server");
    let server = Server::gateway(&lab, &keys.options("in-use", None));
    let read = |authority: &str| {
        let output = server.curl(&["--cacert".to_owned(), keys.path(&format!("{authority}.crt"))]);
        (output.status.success(), output.stdout.len())
    };
    assert_eq!((read("a"), read("b")), ((true, 4), (false, 0)));
    let mut command = Command::new("curl");
    command.args(["-sSN", "--max-time", "60", "--cacert", &keys.path("a.crt")]);
    command.arg(format!("https://localhost:{}/entries?follow", server.port));
    let mut follower = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().and_then(Result::ok).unwrap_or_default();
    assert!(next().ends_with(": a") && next().ends_with(": b"));
    install("b-server");
    assert_eq!((read("a"), read("b")), ((false, 0), (true, 4)), "the new one");
    std::fs::write(keys.path("in-use.crt"), "rubbish").expect("written");
    assert_eq!(read("b"), (true, 4), "that stays");
    lab.append("c");
    assert!(next().ends_with(": c"), "who reads is not disturbed");
    follower.kill().and_then(|()| follower.wait()).expect("our child");
}

#[test]
fn the_end_of_an_answer_can_be_told_from_a_cut() {
    let mut lab = Lab::new("tls-end");
    lab.append("a");
    let Some(keys) = Keys::make(&lab) else { return not_run("no openssl") };
    let server = Server::gateway(&lab, &keys.options("a-server", None));
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{}", server.port)]);
    command.args(["-CAfile", &keys.path("a.crt"), "-verify_return_error"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"GET /fields/MESSAGE HTTP/1.0\r\n\r\n").expect("sent");
    let output = child.wait_with_output().expect("our child");
    drop(input);
    let (text, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.ends_with("\r\n\r\na\n"), "{text}");
    assert!(output.status.success() && !said.contains("unexpected eof"), "{said}");
}

#[test]
fn what_is_no_tls_is_dropped() {
    let mut lab = Lab::new("tls-hostile");
    lab.append("a");
    let Some(keys) = Keys::make(&lab) else { return not_run("no openssl") };
    let server = Server::gateway(&lab, &keys.options("a-server", None));
    let endless = [&[0x16, 3, 1, 0x40, 0][..], &[1, 0xff, 0xff, 0xff], &[0; 200_000]].concat();
    let cut = [0x16, 3, 1, 2, 0, 1, 0, 1];
    // The last one says nothing more: it is dropped when its time is over.
    for bytes in [&b"GET /machine HTTP/1.0\r\n\r\n"[..], &[0; 5], &[0xff; 70_000], &endless, &cut] {
        let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
        // It may close while this is still being sent.
        let _ = client.write_all(bytes);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.len() < 100 && !text.contains("HTTP"), "{text}");
    }
    let trust = ["--cacert".to_owned(), keys.path("a.crt")];
    if has("curl", "-V") {
        assert!(server.curl(&trust).status.success(), "others are served");
    }
}

#[test]
fn files_that_are_none_are_refused() {
    let lab = Lab::new("tls-files");
    let Some(keys) = Keys::make(&lab) else { return not_run("no openssl") };
    std::fs::write(keys.0.join("rubbish.crt"), "rubbish").expect("a file");
    let check = |cert: &str, key: &str, trust: &str, expected: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journal-gatewayd"));
        command.arg(format!("--cert={}", keys.path(cert)));
        command.arg(format!("--key={}", keys.path(key)));
        command.arg(format!("--trust={}", keys.path(trust)));
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{said}");
    };
    check("nosuch.crt", "a.key", "a.crt", "No such file");
    check("rubbish.crt", "a.key", "a.crt", "no certificate");
    check("a.crt", "a.crt", "a.crt", "a.crt: ");
    check("a.crt", "b.key", "a.crt", "a.crt: ");
    check("a.crt", "a.key", "rubbish.crt", "no certificate");
}

fn texts(path: &Path) -> Vec<String> {
    let mut command = Command::new("journalctl");
    command.arg("--file").arg(path).args(["-o", "cat", "--no-pager", "-q"]);
    let output = command.output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// A directory with fields that systemd-journal-remote wants of every entry.
fn import(lab: &Lab, count: u64) -> PathBuf {
    let (input, store) = (lab.directory.join("input"), lab.directory.join("import"));
    let entry = |number: u64| {
        format!(
            "__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP={number}\n_BOOT_ID={}\n\
             _MACHINE_ID={}\nMESSAGE=number {number}\n\n",
            1_700_000_000_000_000 + number,
            "a".repeat(32),
            "c".repeat(32),
        )
    };
    std::fs::write(&input, (0..count).map(entry).collect::<String>()).expect("a file");
    let mut command = Command::new(journalctl());
    command.arg("-D").arg(&store).arg("--import").arg(&input).stderr(Stdio::null());
    assert!(command.status().expect("it runs").success());
    store
}

fn upload(store: &Path, port: u16, options: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journal-upload"));
    command.args(["--follow=no", "--url", &format!("https://127.0.0.1:{port}"), "-D"]);
    command.arg(store).args(options).output().expect("it runs")
}

#[test]
fn debians_receiver_takes_the_upload() {
    let Some(receiver) = journal_remote() else { return };
    let lab = Lab::new("tls-upload");
    let Some(keys) = Keys::make(&lab) else { return not_run("no openssl") };
    // More than a batch, so that the connection is used again.
    let store = import(&lab, 20_000);
    let output = lab.directory.join("remote.journal");
    // Debian's cannot ask its senders for certificates.
    let mut options = keys.options("a-server", None);
    options.extend(["--listen-https=-3", "--split-mode=none"].map(str::to_owned));
    options.push(format!("--output={}", output.display()));
    let remote = Server::start(&receiver.display().to_string(), &options);
    let done = upload(&store, remote.port, &keys.options("a-client", Some("b")));
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("the receiver is not there: "), "{said}");
    let done = upload(&store, remote.port, &keys.options("a-client", Some("a")));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let found = texts(&output);
    let expected: Vec<String> = (0..20_000).map(|number| format!("number {number}")).collect();
    assert!(found == expected, "{} of {}", found.len(), expected.len());
}

#[test]
fn a_receiver_that_wants_certificates_has_ours() {
    let lab = Lab::new("tls-shown");
    let Some(keys) = Keys::make(&lab).filter(|_| has("python3", "-V")) else {
        return not_run("no openssl or no python3");
    };
    let store = import(&lab, 20_000);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/receiver.py"));
    command.args(["a-server.crt", "a-server.key", "a.crt"].map(|name| keys.path(name)));
    command.stdin(OwnedFd::from(listener)).stdout(Stdio::piped());
    let mut receiver = Server { child: command.spawn().expect("it runs"), port };
    for (who, good) in [("b-client", false), ("a-client", true)] {
        let done = upload(&store, port, &keys.options(who, Some("a")));
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.success(), good, "{who}: {said}");
    }
    // The names of journal-upload.conf(5), in the environment.
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journal-upload"));
    command.args(["--follow=no", "--url", &format!("https://localhost:{port}"), "-D"]).arg(&store);
    command.env("ServerCertificateFile", keys.path("a-client.crt"));
    command.env("ServerKeyFile", keys.path("a-client.key"));
    command.env("TrustedCertificateFile", keys.path("a.crt"));
    assert!(command.status().expect("it runs").success());
    receiver.child.kill().expect("our child");
    let mut said = String::new();
    let mut output = receiver.child.stdout.take().expect("a pipe");
    output.read_to_string(&mut said).expect("UTF-8");
    let counts: u64 = said
        .lines()
        .filter_map(|line| line.strip_prefix("client "))
        .map(|count| count.parse::<u64>().expect("a number"))
        .sum();
    assert!(said.starts_with("refused ") && counts == 40_000, "{said}");
}

#[test]
fn debians_receiver_takes_what_the_gateway_sends() {
    let Some(receiver) = journal_remote() else { return };
    let lab = Lab::new("tls-pull");
    let Some(keys) = Keys::make(&lab) else { return not_run("no openssl") };
    let store = import(&lab, 3000);
    let mut options = keys.options("a-server", Some("a"));
    options.extend(["-D".to_owned(), store.display().to_string()]);
    let gateway = Server::start(env!("CARGO_BIN_EXE_warren-journal-gatewayd"), &options);
    let output = lab.directory.join("pulled.journal");
    let mut command = Command::new("/bin/sh");
    let script = "curl -sS --max-time 60 --cacert \"$1\" --cert \"$2\" --key \"$3\" \
                  -H 'Accept: application/vnd.fdo.journal' \"$4/entries\" | \"$5\" -o \"$6\" -";
    command.args(["-c", script, "sh", &keys.path("a.crt"), &keys.path("a-client.crt")]);
    command.args([&keys.path("a-client.key"), &format!("https://localhost:{}", gateway.port)]);
    let done = command.arg(receiver).arg(&output).output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(texts(&output).len(), 3000);
}
