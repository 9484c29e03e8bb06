//! The program beside a manager that says what it is told to say: what clients get, and what becomes of bad ones.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;

use common::{Stream, Web, read_all};
use serde_json::{Value, json};
use warren_log_store::files::Disk;
use warren_log_store::store::{Setup, Store};
use warren_log_store::{Fields, Id128, Stamp};
use warren_testkit::{wait_for, wait_until};

const TOKEN: &str = "0123456789abcdefghijklmnop";

fn with_token(name: &str, more: &[&str]) -> Web {
    let scratch = warren_testkit::Scratch::new(&format!("{name}-token"));
    let file = scratch.write("token", TOKEN);
    // It is read before the daemon listens.
    Web::start(name, 4, &[&["--token-file", &file], more].concat())
}

fn names(table: &Value) -> Vec<&str> {
    let rows = table["rows"].as_array().expect("rows");
    rows.iter().filter_map(|row| row["n"].as_str()).collect()
}

#[test]
fn questions_are_answered_as_the_commands_do() {
    let web = Web::start("web-questions", 4, &[]);
    let all = web.json("/api/questions");
    let all = all.as_array().expect("questions");
    assert_eq!(all.len(), 15);
    assert!(all.iter().any(|one| one["command"] == "warren list --by restarts"));
    let ask = |query: &str| web.json(&format!("/api/ask?{query}"));
    let restarts = ask("question=restarts")["text"].as_str().expect("a text").to_owned();
    assert!(restarts.contains("      17") && restarts.contains("c0001-php.service"), "{restarts}");
    let timers = ask("question=timers")["text"].as_str().expect("a text").to_owned();
    assert!(timers.contains("MISSED") && timers.contains("job04.timer"), "{timers}");
    let boot = ask("question=boot")["text"].as_str().expect("a text").to_owned();
    assert!(boot.contains("Critical path"), "{boot}");
    // Lines of logs are for those who may read them.
    let why = ask("question=waits&about=c0003-web")["text"].as_str().expect("a text").to_owned();
    assert!(why.contains("c0003-web.service") && !why.contains("a secret of the log"), "{why}");
    let local = web.json_locally("/api/ask?question=waits&about=c0003-web");
    assert!(local["text"].as_str().is_some_and(|text| text.contains("a secret of the log")));
    let status = |path: &str| {
        let answer = web.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        answer.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok())
    };
    for path in ["/api/ask?question=logs&about=a.service", "/api/ask?question=oom&about=a.service"]
    {
        assert_eq!(status(path), Some(403), "{path}");
    }
    assert_eq!(status("/api/ask?question=stop"), Some(400));
    let reload = ask("question=reload")["text"].as_str().expect("a text").to_owned();
    assert!(reload.starts_with("No reload has changed a unit since"), "{reload}");
}

#[test]
fn tables_are_filtered_sorted_and_cut_by_the_server() {
    let web = Web::start("web-tables", 4, &[]);
    let look = |query: &str| web.json(&format!("/api/look?{query}"));
    let first = look("table=units&rows=3&cells=containers&series=1");
    assert_eq!(first["table"]["total"], 32);
    assert_eq!(
        names(&first["table"]),
        ["c0000-backup.service", "c0000-cache.service", "c0000-cron.service"]
    );
    assert_eq!(first["strip"]["states"], "ataf");
    assert_eq!(first["strip"]["names"].as_str().map(|names| names.lines().count()), Some(4));
    assert_eq!(first["top"]["failed"], 1);
    let failed = look("table=units&filter=failed");
    assert_eq!(names(&failed["table"]), ["c0003-db.service"]);
    let row = &failed["table"]["rows"][0];
    assert_eq!(row["w"], "the main process ended with a status that is no success");
    assert_eq!(row["c"], "Container 'c0003'");
    let within = look("table=units&within=containers:Container+'c0001'&sort=restarts&rows=1");
    assert_eq!(
        (names(&within["table"]), &within["table"]["total"]),
        (vec!["c0001-php.service"], &json!(8))
    );
    let trouble = look("table=trouble&open=c0003-db.service");
    assert_eq!(
        names(&trouble["table"]),
        ["c0003-db.service", "c0003-web.service", "c0001-php.service"]
    );
    assert_eq!(trouble["table"]["rows"][0]["h"], 1, "what it blocks");
    let jobs = look("table=jobs");
    assert_eq!(jobs["table"]["rows"][0]["j"], json!(["start", 12_000_000, 1, "c0002-php.service"]));
}

#[test]
fn changes_come_as_differences_and_nobody_is_asked_while_nobody_looks() {
    let web = Web::start("web-events", 40, &[]);
    assert_eq!(web.asked(), 0, "nobody looks");
    let mut streams: Vec<Stream> =
        (0..5).map(|_| Stream::open(&web, "table=units&rows=100&cells=units")).collect();
    for stream in &mut streams {
        let whole = stream.next();
        assert_eq!((&whole["whole"], &whole["table"]["total"]), (&json!(true), &json!(320)));
    }
    let whole = web.world().asked.clone();
    assert_eq!(whole.get("Overview"), Some(&1), "one question for all of them");
    web.world().set("c0002-db.service", "failed", "failed", "WR-0041");
    for stream in &mut streams {
        let told =
            wait_for("the change", || Some(stream.next()).filter(|told| told["cells"].is_array()));
        assert!(told["whole"].is_null());
        let place = told["cells"][0][0].as_u64().expect("a place");
        assert_eq!(told["cells"], json!([[place], "f"]));
        let row = &told["table"]["changed"][0];
        assert_eq!((&row[1]["n"], &row[1]["s"]), (&json!("c0002-db.service"), &json!("failed")));
        assert_eq!(told["table"]["changed"].as_array().map(Vec::len), Some(1));
    }
    drop(streams);
    // The daemon sees that they have gone when it tells them the next time; then it asks no more.
    let mut before = 0;
    let mut quiet = 0;
    wait_until("the manager is asked no more", || {
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        let asked = web.asked();
        quiet = if asked == before { quiet + 1 } else { 0 };
        before = asked;
        quiet > 25
    });
}

#[test]
fn a_unit_is_told_without_what_its_reader_may_not_see() {
    let web = Web::start("web-unit", 4, &[]);
    let path = "/api/unit?name=c0003-db.service";
    let over_tcp = web.json(path);
    assert_eq!(over_tcp["active"], "failed");
    assert!(
        over_tcp["why"]
            .as_str()
            .is_some_and(|why| why.contains("no success") && !why.contains("secret")),
        "{over_tcp}"
    );
    assert!(
        over_tcp["status"].as_str().is_some_and(|text| text.contains("Main PID: 4711")),
        "{over_tcp}"
    );
    let locally = web.json_locally(path);
    assert!(
        locally["why"].as_str().is_some_and(|why| why.contains("a secret of the log")),
        "{locally}"
    );
    let none = web.json("/api/unit?name=none.service");
    assert_eq!(none["error"], "Unit none.service could not be found.");
    for path in ["/api/files?name=a.service", "/api/log?name=a.service", "/api/plan"] {
        let answer = web.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{path}: {answer}");
    }
    assert!(
        web.json_locally("/api/files?name=a.service")["text"]
            .as_str()
            .is_some_and(|text| text.contains("ExecStart="))
    );
    let plan = web.json_locally("/api/plan");
    assert_eq!(plan["counts"], json!([1, 1, 0]));
    assert!(
        plan["diff"].as_str().is_some_and(|diff| diff.contains("\n-MemoryMax=1G\n+MemoryMax=2G\n")),
        "{plan}"
    );
    // Many who look at the same cost the manager little.
    let before = web.world().asked["Status"];
    (0..30).for_each(|_| _ = web.json(path));
    assert!(web.world().asked["Status"] < before + 30);
}

/// Appends a line of a unit to the log that the daemon reads.
fn append(store: &mut Store, unit: &str, text: &str) {
    let fields: Fields = [("MESSAGE", text), ("_SYSTEMD_UNIT", unit)].into_iter().collect();
    let realtime_us = 1_700_000_000_000_000 + store.next_seqnum();
    let stamp = Stamp { realtime_us, ..Stamp::default() };
    store.append("system", &stamp, &Arc::default(), &fields).expect("in bounds");
    store.sync().expect("a sync");
}

#[test]
fn a_log_is_told_and_goes_on() {
    let web = Web::start("web-log", 4, &[]);
    let new_id = Box::new(|| Id128([7; 16]));
    let setup = Setup { machine: Id128::default(), new_id };
    let files = Arc::new(Disk::new(web.scratch.path("log")));
    let (mut store, _) = Store::open(files, setup).expect("empty");
    append(&mut store, "a.service", "first <b>line</b>");
    append(&mut store, "b.service", "of another");
    append(&mut store, "a.service", "sec\u{1b}[2Jond");
    let mut stream = UnixStream::connect(web.scratch.path("page")).expect("it listens");
    stream.set_read_timeout(Some(warren_testkit::WAIT_MAX)).expect("a socket");
    stream.write_all(b"GET /api/log?name=a.service HTTP/1.0\r\n\r\n").expect("it takes a request");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("text"));
    let mut event = |name: &str| {
        let heading = format!("event: {name}");
        lines.find(|line| *line == heading).expect("the event comes");
        let data = lines.next().expect("its data");
        serde_json::from_str::<Value>(data.strip_prefix("data: ").expect("data")).expect("JSON")
    };
    let told = event("lines");
    let texts: Vec<&str> =
        told.as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    assert_eq!(texts.len(), 2, "{told}");
    assert!(texts[0].ends_with("first <b>line</b>") && !texts[1].contains('\u{1b}'), "{told}");
    event("rest");
    append(&mut store, "b.service", "of another");
    append(&mut store, "a.service", "third");
    assert!(event("lines")[0].as_str().is_some_and(|line| line.ends_with("third")));
}

#[test]
fn timers_sessions_and_recordings() {
    let web = Web::start("web-others", 4, &[]);
    let timers = web.json("/api/timers");
    assert_eq!(
        (&timers["total"], &timers["timers"][0]["name"]),
        (&json!(24), &json!("job00.timer"))
    );
    let sessions = web.json("/api/sessions");
    assert_eq!((&sessions["total"], &sessions["users"][0]["name"]), (&json!(2), &json!("root")));
    assert_eq!(sessions["users"][0]["units"][0][0], "user@0.service");
    assert_eq!(web.json("/api/records")["records"][0]["subject"], "shutdown", "the newest first");
    let chart = web.ask("GET /chart?name=boot-1.record HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(chart.starts_with("HTTP/1.1 200 ") && chart.contains("Boot took"), "a chart");
    assert!(chart.contains("Content-Security-Policy: sandbox allow-scripts"), "of no origin");
    let none = web.ask("GET /chart?name=none.record HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(none.starts_with("HTTP/1.1 404 ") && none.contains("no such recording"), "{none}");
}

#[test]
fn what_a_hostile_page_or_client_sends_is_refused() {
    let web = Web::start("web-hostile", 4, &["--name", "watch.example", "--allow-actions"]);
    let check = |request: &str, expected: &str| {
        let answer = web.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{request}\n{answer}");
        answer
    };
    check("GET / HTTP/1.1\r\nHost: watch.example:19534\r\n\r\n", "200");
    check("HEAD /api/session HTTP/1.0\r\n\r\n", "200");
    check("GET /api/session HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421");
    check("GET /api/session HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "400");
    check("GET /etc/passwd HTTP/1.0\r\n\r\n", "404");
    check("GET /../style.css HTTP/1.0\r\n\r\n", "404");
    check("GET //evil.example/ HTTP/1.0\r\n\r\n", "404");
    check("DELETE / HTTP/1.0\r\n\r\n", "405");
    check("GET /api/act?verb=stop&unit=a.service HTTP/1.0\r\n\r\n", "405");
    check("\u{16}\u{3}\u{1}\r\n\r\n", "400");
    check(&format!("GET /{}", "x".repeat(20 << 10)), "431");
    check(&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65)), "431");
    check(&format!("GET /api/unit?name={} HTTP/1.0\r\n\r\n", "x".repeat(600)), "400");
    check("GET /api/look?table=units&rows=100000 HTTP/1.0\r\n\r\n", "400");
    // Over TCP nobody may act without a token, whatever else is right.
    let act = "POST /api/act?verb=stop&unit=c0000-web.service HTTP/1.1\r\nHost: localhost\r\n";
    check(&format!("{act}\r\n"), "403");
    let secret = web.json("/api/session")["secret"].as_str().expect("a text").to_owned();
    check(&format!("{act}Origin: http://localhost\r\nX-Warren-Secret: {secret}\r\n\r\n"), "403");
    assert!(web.world().done.is_empty(), "nothing was done");
    let page = check("GET / HTTP/1.0\r\n\r\n", "200");
    for field in [
        "Content-Security-Policy: default-src 'none'; script-src 'self'",
        "frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff",
        "Cross-Origin-Resource-Policy: same-origin",
    ] {
        assert!(page.contains(field), "{field} is not in {page}");
    }
    assert!(!page.contains("Access-Control-Allow-Origin"), "{page}");
}

#[test]
fn who_comes_over_the_unix_socket_may_act_where_that_is_allowed() {
    let post = |web: &Web, fields: &str| {
        web.ask_locally(&format!("POST /api/act?verb=restart&unit=a.service&unit=b.service HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    };
    let closed = Web::start("web-read-only", 4, &[]);
    let secret =
        |web: &Web| web.json_locally("/api/session")["secret"].as_str().expect("a text").to_owned();
    let ours =
        |web: &Web| format!("Origin: http://localhost\r\nX-Warren-Secret: {}\r\n", secret(web));
    let refused = post(&closed, &ours(&closed));
    assert!(
        refused.starts_with("HTTP/1.1 403 ") && refused.contains("--allow-actions"),
        "{refused}"
    );
    let open = Web::start("web-acting", 4, &["--allow-actions"]);
    let other_site =
        format!("Origin: http://evil.example\r\nX-Warren-Secret: {}\r\n", secret(&open));
    assert!(post(&open, &other_site).starts_with("HTTP/1.1 403 "));
    assert!(post(&open, "Origin: http://localhost\r\n").starts_with("HTTP/1.1 403 "));
    assert!(open.world().done.is_empty());
    let done = post(&open, &ours(&open));
    assert!(
        done.starts_with("HTTP/1.1 200 ") && done.contains("{\"asked\":2,\"refusals\":[]}"),
        "{done}"
    );
    assert_eq!(open.world().done, ["restart a.service b.service"]);
}

#[test]
fn a_token_becomes_a_cookie_that_ends() {
    let web = with_token("web-login", &["--allow-actions"]);
    let get = |path: &str, fields: &str| {
        web.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    };
    let page = get("/", "");
    assert!(page.starts_with("HTTP/1.1 401 ") && page.contains("Log in"), "{page}");
    assert!(get("/style.css", "").starts_with("HTTP/1.1 200 "), "the form has its style");
    for path in [
        "/main.js",
        "/api/session",
        "/api/look",
        "/api/unit?name=a.service",
        "/chart?last=5",
        "/api/events",
    ] {
        assert!(get(path, "").starts_with("HTTP/1.1 401 "), "{path}");
    }
    let login = |token: &str, more: &str| {
        web.ask(&format!(
            "POST /login HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        ))
    };
    assert!(login("wrong", "").starts_with("HTTP/1.1 401 "));
    assert!(login(TOKEN, "Origin: http://evil.example\r\n").starts_with("HTTP/1.1 403 "));
    let answer = login(TOKEN, "Origin: http://localhost\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 204 ") && answer.contains("HttpOnly; SameSite=Strict"),
        "{answer}"
    );
    let cookie = answer
        .split("Set-Cookie: ")
        .nth(1)
        .and_then(|rest| rest.split(';').next())
        .expect("a cookie");
    let with = format!("Cookie: {cookie}\r\n");
    assert!(!cookie.contains(TOKEN), "the token itself is in no cookie");
    assert!(get("/", &with).contains("Skip to the content"));
    let session = get("/api/session", &with);
    assert!(session.contains("\"may_read\":true,\"may_act\":true"), "{session}");
    assert!(get("/api/files?name=a.service", &with).contains("ExecStart="));
    // A program needs no cookie.
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    assert!(get("/api/timers", &bearer).starts_with("HTTP/1.1 200 "));
    let stop = "POST /api/act?verb=stop&unit=a.service HTTP/1.1\r\nHost: localhost\r\n";
    assert!(
        web.ask(&format!("{stop}{with}\r\n")).starts_with("HTTP/1.1 403 "),
        "a cookie alone does nothing"
    );
    assert!(web.ask(&format!("{stop}{bearer}\r\n")).starts_with("HTTP/1.1 200 "));
    assert_eq!(web.world().done, ["stop a.service"]);
    assert!(
        web.ask(&format!("POST /logout HTTP/1.1\r\nHost: localhost\r\n{with}\r\n"))
            .starts_with("HTTP/1.1 204 ")
    );
    assert!(get("/api/session", &with).starts_with("HTTP/1.1 401 "));
}

/// Another program's TLS, with a certificate that it is told to trust.
#[test]
fn over_tls_a_token_opens_the_page_and_its_stream() {
    let has = |program: &str, version: &str| Command::new(program).arg(version).output().is_ok();
    if !has("openssl", "version") || !has("curl", "--version") {
        return warren_testkit::not_run("needs openssl and curl");
    }
    let scratch = warren_testkit::Scratch::new("web-tls-keys");
    let (token, cert, key) =
        (scratch.write("token", TOKEN), scratch.text_path("cert"), scratch.text_path("key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", &key, "-out", &cert])
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let web = Web::start("web-tls", 400, &["--token-file", &token, "--cert", &cert, "--key", &key]);
    let curl = |more: &[&str], path: &str| {
        let mut command = Command::new("curl");
        command.args(["-sSi", "--max-time", "3", "--cacert", &cert]).args(more);
        command.arg(format!("https://localhost:{}{path}", web.address.port()));
        String::from_utf8_lossy(&command.output().expect("it runs").stdout).into_owned()
    };
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert!(curl(&[], "/api/session").starts_with("HTTP/1.1 401 "));
    let login = curl(&["-X", "POST", "-H", &bearer], "/login");
    assert!(login.contains("Set-Cookie: __Host-warren=") && login.contains("; Secure"), "{login}");
    // What is larger than a record, and a stream, which goes on until curl has had enough.
    let whole = curl(&["-H", &bearer], "/api/look?table=units&rows=500&cells=units");
    assert!(whole.starts_with("HTTP/1.1 200 ") && whole.ends_with('}') && whole.len() > 100_000);
    let stream = curl(&["-N", "-H", &bearer], "/api/events?table=units");
    assert!(stream.matches("event: picture").count() >= 2, "{stream}");
    // Who speaks no TLS is no client; over the Unix socket there is none.
    assert!(!web.ask("GET / HTTP/1.0\r\n\r\n").contains("200"));
    assert!(web.ask_locally("GET /api/session HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 "));
}

#[test]
fn strangers_are_not_listened_to_without_tls_and_a_token() {
    let output = Command::new(env!("CARGO_BIN_EXE_warren-web"))
        .args(["--listen", "0.0.0.0:0"])
        .output()
        .expect("cargo built it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("can be reached by other machines"),
        "{said}"
    );
}

#[test]
fn a_manager_that_is_away_is_said_and_found_again() {
    let web = Web::start("web-away", 4, &[]);
    web.world().is_silent = true;
    let mut stream = Stream::open(&web, "table=units");
    let told = wait_for("it is said", || {
        Some(stream.next()).filter(|told| told["top"]["silent"].is_string())
    });
    assert_eq!(told["top"]["loaded"], false);
    assert!(web.json("/api/timers")["error"].is_string());
    web.world().is_silent = false;
    wait_until("it is found", || {
        let told = stream.next();
        told["top"]["silent"].is_null() && told["top"]["loaded"] == true
    });
    wait_until("others are asked too", || web.json("/api/timers")["total"] == 24);
}

/// Clients that ask for nothing, and clients that take nothing, hold up no other.
#[test]
fn bad_clients_hold_up_nobody() {
    let web = Web::start("web-clients", 400, &[]);
    web.world().changing = 400;
    let silent: Vec<TcpStream> = (0..20)
        .map(|at| {
            let mut stream = web.connect();
            let _ = stream.write_all(if at % 2 == 0 { b"" } else { b"GET /api/lo" });
            stream
        })
        .collect();
    let deaf: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = web.connect();
            let request = b"GET /api/events?table=units&rows=500&cells=units HTTP/1.0\r\n\r\n";
            stream.write_all(request).expect("it takes a request");
            stream
        })
        .collect();
    let mut stream = Stream::open(&web, "cells=units");
    stream.next();
    for _ in 0..3 {
        assert!(stream.next()["top"]["loaded"] == true, "who takes what comes gets more");
    }
    // A client that was deaf for a while is told the picture of now, not all of those that it missed.
    let mut late = deaf.into_iter().next().expect("one of them");
    late.set_read_timeout(Some(warren_testkit::WAIT_MAX)).expect("a socket");
    let mut room = vec![0; 1 << 20];
    assert!(late.read(&mut room).expect("it is there") > 0);
    drop(silent);
    assert_eq!(
        read_all(&mut web.connect(), "GET /api/session HTTP/1.0\r\n\r\n").split(' ').nth(1),
        Some("200")
    );
}

#[test]
fn more_streams_than_there_is_room_for_are_refused() {
    let web = Web::start("web-streams", 4, &[]);
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..150 {
        let mut stream = web.connect();
        stream.set_read_timeout(Some(warren_testkit::WAIT_MAX)).expect("a socket");
        stream.write_all(b"GET /api/events HTTP/1.0\r\n\r\n").expect("it takes a request");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("it answers");
        if &head[9..] == b"200" { open.push(stream) } else { refused += 1 }
    }
    assert!(open.len() < 100 && refused > 50, "{} are open", open.len());
    // Over the Unix socket there is still room: another user's pages do not count for this one.
    assert!(web.ask_locally("GET /api/session HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 "));
    drop(open);
    wait_until("they are forgotten", || {
        web.ask("GET /api/session HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200 ")
    });
}

/// What the daemon holds, and held at most, in MB (`VmRSS` and `VmHWM` of proc_pid_status(5)).
fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("it is told");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

#[test]
fn forty_thousand_units_take_little_memory() {
    let web = Web::start("web-memory", 5_000, &[]);
    let before = memory(web.pid());
    web.world().changing = 200;
    let sights = ["name", "state", "since", "restarts"]
        .map(|sort| format!("table=units&rows=100&cells=units&series=1&sort={sort}"));
    let mut streams: Vec<Stream> = Vec::new();
    for at in 0..10 {
        streams.push(Stream::open(&web, &sights[at % sights.len()]));
        streams.last_mut().expect("it is there").next();
    }
    let one = memory(web.pid());
    for _ in 0..8 {
        streams.iter_mut().for_each(|stream| drop(stream.next()));
    }
    let after = memory(web.pid());
    println!("{before:?} MB before a page was open, {one:?} then, {after:?} with ten");
    // Twice what it is: the library's heap is not the same on each machine.
    assert!(after.0 <= 64 && after.1 <= 96, "{before:?} MB, then {one:?}, then {after:?}");
}

/// Cgroups as the kernel shows them, of the units of two containers: the further down a unit is in the list, the more it
/// uses.
fn write_cgroups(root: &std::path::Path) {
    for container in 0..2 {
        for (at, service) in ["web", "php", "db"].into_iter().enumerate() {
            let name = format!("customer-c{container:04}.slice/c{container:04}-{service}.service");
            let group = root.join(name);
            std::fs::create_dir_all(&group).expect("a directory");
            let place = container * 3 + at;
            let write = |file: &str, text: String| {
                std::fs::write(group.join(file), text).expect("it can be written");
            };
            write("cpu.stat", "usage_usec 1000\n".to_owned());
            write("memory.current", format!("{}\n", (place + 1) << 20));
            write("pids.current", format!("{}\n", 60 - place * 10));
            write("io.stat", "8:0 rbytes=1 wbytes=2\n".to_owned());
            write("io.pressure", format!("some avg10={place}.50 avg60=0 avg300=0 total=0\n"));
        }
    }
}

#[test]
fn tables_show_what_units_use_and_are_sorted_by_it() {
    let web = Web::start("web-usage", 4, &[]);
    let root = web.scratch.0.join("cgroup");
    write_cgroups(&root);
    web.world().cgroup_root = Some(root.display().to_string());
    let rows = |query: &str, is_there: fn(&Value) -> bool| {
        wait_for(query, || {
            let told = web.json(&format!("/api/look?{query}"));
            let rows = told["table"]["rows"].as_array().expect("rows").clone();
            rows.first().is_some_and(is_there).then_some(rows)
        })
    };
    // Someone looks all the while: when nobody does, what is known is forgotten.
    let _stream = Stream::open(&web, "table=units&rows=1&sort=tasks");
    let names = |rows: &[Value]| -> Vec<String> {
        rows.iter().filter_map(|row| row["n"].as_str().map(str::to_owned)).collect()
    };
    let by_memory = rows("table=units&rows=2&sort=memory", |row| row["m"] == "6.0M");
    assert_eq!(names(&by_memory), ["c0001-db.service", "c0001-php.service"]);
    let by_tasks = rows("table=units&rows=2&sort=tasks", |row| row["q"] == 60);
    assert_eq!(names(&by_tasks), ["c0000-web.service", "c0000-php.service"]);
    let by_waits = rows("table=units&rows=1&sort=waits", |row| row["z"] == json!(["5.5", "io"]));
    assert_eq!(names(&by_waits), ["c0001-db.service"]);
    let by_io = rows("table=units&rows=1&sort=io", |row| row["i"] == json!(["0B", "0B"]));
    assert_eq!(by_io[0]["p"], "0.0", "nothing was used since: {by_io:?}");
    // A container is no cgroup: its units are added up, whatever is in sight of them.
    let sets = rows("table=containers&rows=2&sort=memory", |row| row["q"] == 60);
    assert_eq!(sets[0]["m"], "15M", "{sets:?}");
    // What has no cgroup shows nothing, and is not zero.
    let down = web.json("/api/look?table=units&filter=backup&rows=1");
    assert!(down["table"]["rows"][0]["m"].is_null(), "{down}");
}
