//! The program beside a manager that says what it is told to say: what clients get, and what becomes of bad ones.

mod prometheus;

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus::of_prometheus;
use warren_testkit::{Scratch, free_address, wait_for, wait_until};
use warren_wire::call::Received;
use warren_wire::control::{
    Histogram, LogCounts, Method, MetricsAnswer, REQUEST_BYTES_MAX, TimerRow, UnitCount,
    write_answer,
};
use warren_wire::frame;

/// A manager that answers `Metrics`, and counts how often.
struct Manager {
    asked: Arc<AtomicUsize>,
}

impl Manager {
    fn start(socket: &Path, answer: MetricsAnswer) -> Manager {
        let listener = UnixListener::bind(socket).expect("a scratch directory");
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let read = frame::read(&mut BufReader::new(&stream), REQUEST_BYTES_MAX);
                // Who only looked whether anybody is there asks nothing.
                let Ok(request) = read else { continue };
                let received = Received::read(&request).expect("a request");
                assert_eq!(Method::from_full_name(&received.method), Some(Method::Metrics));
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = (&stream).write_all(&write_answer(&answer, false));
            }
        });
        Manager { asked }
    }
}

fn answer() -> MetricsAnswer {
    MetricsAnswer {
        version: "0.1.0".into(),
        state: "degraded".into(),
        turns: Histogram { bounds_us: vec![100, 1000], counts: vec![5, 2, 1], sum_us: 4000 },
        units: vec![UnitCount { kind: "service".into(), state: "failed".into(), count: 2 }],
        failures: [("WR-0030".into(), 2)].into(),
        restarts: [("WR-0031".into(), 9)].into(),
        timers_total: 1,
        timers: vec![TimerRow {
            name: "a.timer".into(),
            next_us: Some(1_764_000_000_500_000),
            last_us: Some(1),
            missed: 1,
            ..TimerRow::default()
        }],
        log: Some(LogCounts {
            entries: 7,
            lost: [("datagram".into(), 1)].into(),
            ..LogCounts::default()
        }),
        ..MetricsAnswer::default()
    }
}

/// The program.
struct Exporter {
    child: Child,
    address: SocketAddr,
    scratch: Scratch,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Exporter {
    /// On a port and a Unix socket of its own.
    fn start(name: &str, arguments: &[&str]) -> Exporter {
        let scratch = Scratch::new(name);
        let address = free_address();
        let child = Command::new(env!("CARGO_BIN_EXE_warren-exporter"))
            .args(["--listen", &address.to_string(), "--listen", &scratch.text_path("metrics")])
            .args([
                "--control",
                &scratch.text_path("control"),
                "--cgroups",
                &scratch.text_path("cgroup"),
            ])
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .expect("cargo built it");
        wait_until("the exporter listens", || TcpStream::connect(address).is_ok());
        Exporter { child, address, scratch }
    }

    fn control(&self) -> PathBuf {
        self.scratch.path("control")
    }

    /// What it answers to this request, until it ends the connection.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        read_all(&mut stream, request)
    }

    fn metrics(&self, accept: &str) -> (String, String) {
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
        let text = self.ask(&request);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{text}");
        (head.to_owned(), body.to_owned())
    }
}

fn read_all(stream: &mut (impl Read + Write), request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("it takes a request");
    let mut out = Vec::new();
    // A refusal of what was not read may end in a reset.
    let _ = stream.read_to_end(&mut out);
    String::from_utf8(out).expect("text")
}

fn promtool(input: &str) {
    let Some(promtool) = of_prometheus("promtool") else { return };
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{input}");
}

fn group(exporter: &Exporter, path: &str) {
    let files = [
        ("cpu.stat", "usage_usec 2500000\n"),
        ("memory.current", "4096\n"),
        ("pids.current", "3\n"),
        ("io.stat", "8:0 rbytes=5 wbytes=7\n"),
        ("cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"),
    ];
    for (file, text) in files {
        exporter.scratch.write(&format!("cgroup/{path}/{file}"), text);
    }
}

#[test]
fn what_promtool_checks_is_what_clients_get() {
    let exporter = Exporter::start("exporter-promtool", &["--unit", "web-*"]);
    group(&exporter, "system.slice");
    group(&exporter, "system.slice/web.service");
    let _manager = Manager::start(&exporter.control(), answer());
    let whole =
        |text: &String| text.contains("warren_top_unit_memory_bytes{unit=\"web.service\"} 4096\n");
    // The first answer is not kept waiting by the sweep of cgroups.
    let text = wait_for("the sweep's choice", || Some(exporter.metrics("*/*").1).filter(whole));
    for line in [
        "warren_up 1",
        "warren_host_state{state=\"degraded\"} 1",
        "warren_host_state{state=\"running\"} 0",
        "warren_units{type=\"service\",state=\"failed\"} 2",
        "warren_unit_failures_total{code=\"WR-0030\"} 2",
        "warren_unit_restarts_total{code=\"WR-0031\"} 9",
        "warren_manager_turn_seconds_bucket{le=\"0.001\"} 7",
        "warren_timer_next_timestamp_seconds{timer=\"a.timer\"} 1764000000.5",
        "warren_timer_missed_total{timer=\"a.timer\"} 1",
        "warren_slice_cpu_seconds_total{slice=\"system.slice\"} 2.5",
        "warren_slice_pressure_seconds_total{slice=\"system.slice\",resource=\"cpu\",kind=\"some\"} 0.000009",
        "warren_log_entries_total 7",
        "warren_log_lost_total{kind=\"datagram\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
    }
    promtool(&text);
    let (head, open) = exporter.metrics("application/openmetrics-text;version=1.0.0");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(open.ends_with("\n# EOF\n"), "{open}");
    // The Unix socket answers the same.
    let mut local = UnixStream::connect(exporter.scratch.path("metrics")).expect("it listens");
    assert!(read_all(&mut local, "GET /metrics HTTP/1.0\r\n\r\n").contains("\nwarren_up 1\n"));
}

#[test]
fn a_manager_that_is_away_is_up_0_until_it_is_back() {
    let exporter = Exporter::start("exporter-away", &[]);
    group(&exporter, "system.slice");
    let has = |line: &str| exporter.metrics("").1.lines().any(|found| found == line);
    assert!(has("warren_up 0"));
    wait_until("what the kernel counts", || has("warren_slice_tasks{slice=\"system.slice\"} 3"));
    promtool(&exporter.metrics("").1);
    let manager = Manager::start(&exporter.control(), answer());
    wait_until("the manager is found", || has("warren_up 1"));
    // Many clients cost the manager one question a second.
    let asked = manager.asked.load(Ordering::SeqCst);
    (0..50).for_each(|_| _ = exporter.metrics(""));
    assert!(manager.asked.load(Ordering::SeqCst) < asked + 50);
}

#[test]
fn what_is_no_scrape_is_refused() {
    let exporter = Exporter::start("exporter-refusals", &["--name", "watch.example"]);
    let check = |request: &str, expected: &str| {
        let answer = exporter.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{request}\n{answer}");
    };
    check("GET /metrics?x=1 HTTP/1.1\r\nHost: watch.example:19533\r\n\r\n", "200");
    check("HEAD /metrics HTTP/1.0\r\n\r\n", "200");
    check("GET / HTTP/1.0\r\n\r\n", "200");
    check("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421");
    check("GET /etc/passwd HTTP/1.0\r\n\r\n", "404");
    check("POST /metrics HTTP/1.0\r\n\r\n", "405");
    check("\u{16}\u{3}\u{1}\r\n\r\n", "400");
    check(&format!("GET /{}", "x".repeat(20 << 10)), "431");
    let head = exporter.ask("HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n") && head.contains("Content-Length: "), "{head}");
}

/// `CONNECTIONS_PER_PEER_MAX`, of others than root.
const OF_ONE_USER: usize = 16;

fn is_root() -> bool {
    warren_sys::process::own_ids().0 == 0
}

/// Connections over TCP that ask for nothing, of a user if this one may be somebody else, until the value is dropped.
fn hold(exporter: &Exporter, user: u32, count: usize) -> Ended {
    let [port, count] = [exporter.address.port().to_string(), count.to_string()];
    let script = "for ((n = 0; n < $2; n++)); do exec {fd}<>/dev/tcp/127.0.0.1/$1; done\n\
                  echo held; read";
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args([&format!("--reuid={user}"), "--clear-groups", "bash"]);
            command
        }
        false => Command::new("bash"),
    };
    command.args(["-c", script, "bash", &port, &count]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash(1) runs");
    let mut said = [0; 4];
    child.stdout.take().expect("a pipe").read_exact(&mut said).expect("it connects");
    Ended(child)
}

/// Clients that ask for nothing, and clients that take nothing, hold up no other; nobody has all places.
#[test]
fn bad_clients_hold_up_nobody() {
    let exporter = Exporter::start("exporter-clients", &[]);
    let _manager = Manager::start(&exporter.control(), answer());
    let silent = hold(&exporter, 65534, OF_ONE_USER - 4);
    let mut half = TcpStream::connect(exporter.address).expect("it listens");
    half.write_all(b"GET /metr").expect("it takes a part");
    let mut deaf = TcpStream::connect(exporter.address).expect("it listens");
    deaf.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it takes a request");
    assert!(exporter.metrics("").1.contains("\nwarren_up 1\n"));
    let mut local = UnixStream::connect(exporter.scratch.path("metrics")).expect("it listens");
    assert!(read_all(&mut local, "GET /metrics HTTP/1.0\r\n\r\n").contains("\nwarren_up 1\n"));
    drop((silent, half, deaf));
}

/// Local users are distinguished by user id over TCP, too.
#[test]
fn a_user_who_has_many_connections_is_refused_and_others_are_not() {
    let exporter = Exporter::start("exporter-users", &[]);
    let _manager = Manager::start(&exporter.control(), answer());
    let user = is_root().then_some("65534");
    let ask = |user: Option<&str>| {
        let url = format!("http://{}/metrics", exporter.address);
        let mut command = match user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", user, "--clear-groups", "bash"]);
                command
            }
            None => Command::new("bash"),
        };
        let script = "exec 3<>/dev/tcp/127.0.0.1/$1 && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3";
        command.args(["-c", script, "bash", &exporter.address.port().to_string()]);
        let said = command.output().unwrap_or_else(|e| panic!("{url}: {e}"));
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    let held = hold(&exporter, 65534, OF_ONE_USER);
    wait_until("there are too many", || ask(user).contains(" 503 "));
    if is_root() {
        let others: Vec<Ended> =
            (0..3).map(|n| hold(&exporter, 100_000 + n, OF_ONE_USER)).collect();
        for other in [None, Some("7")] {
            assert!(ask(other).contains("\nwarren_up 1\n"), "{other:?}");
        }
        assert!(exporter.metrics("").1.contains("\nwarren_up 1\n"));
        drop(others);
    }
    drop(held);
    wait_until("they are forgotten", || ask(user).contains("\nwarren_up 1\n"));
}

/// Debian's Prometheus scrapes it, in the format that it prefers.
#[test]
fn prometheus_scrapes_it() {
    let Some(prometheus) = of_prometheus("prometheus") else { return };
    let exporter = Exporter::start("exporter-prometheus", &[]);
    group(&exporter, "system.slice");
    let _manager = Manager::start(&exporter.control(), answer());
    let scratch = &exporter.scratch;
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n\
         - job_name: warrener\n  static_configs: [{{targets: ['{}']}}]\n",
        exporter.address
    );
    let config = scratch.write("prometheus.yml", &config);
    let address = free_address();
    let server = Command::new(prometheus)
        .args([
            format!("--config.file={config}"),
            format!("--storage.tsdb.path={}", scratch.text_path("db")),
        ])
        .arg(format!("--web.listen-address={address}"))
        .current_dir(scratch.path(""))
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    // Ended with the test.
    let _server = Ended(server);
    let query = |expression: &str| -> Option<String> {
        let mut stream = TcpStream::connect(address).ok()?;
        let request = format!("GET /api/v1/query?query={expression} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    };
    wait_until("Prometheus has a counter", || {
        query("warren_unit_restarts_total").is_some_and(|text| text.contains("\"WR-0031\""))
    });
    wait_until("and a histogram", || {
        let expression = "histogram_quantile(0.5,warren_manager_turn_seconds_bucket)";
        query(expression).is_some_and(|text| text.contains("\"value\""))
    });
    let up = query("up").expect("it answers");
    assert!(up.contains(",\"1\"]"), "{up}");
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
