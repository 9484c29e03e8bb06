//! A manager that says what a host of containers would say, and the daemon beside it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use warren_testkit::{Scratch, free_address, wait_until};
use warren_trace::sample::host;
use warren_trace::words::Subject;
use warren_wire::call::Received;
use warren_wire::control::{
    Cat, CatAnswer, CatFile, Done, ErrorName, FileText, JobRow, JobsRow, ListAnswer, Method,
    OverviewAnswer, OverviewRow, ProcessRow, REQUEST_BYTES_MAX, ReasonAnswer, RecordAnswer,
    RecordRow, RecordsAnswer, ReloadAnswer, ReloadsAnswer, Request, StatusAnswer, TimerRow,
    TimersAnswer, TopAnswer, TopJob, TopRestarting, UnitRow, WhyAnswer, WhyStep, WhyUnit,
    write_answer, write_error,
};
use warren_wire::frame;

/// Units of a container.
const SERVICES: [&str; 8] = ["web", "php", "db", "cron", "mail", "cache", "backup", "stats"];

/// All that the manager knows.
pub struct World {
    rows: Vec<OverviewRow>,
    changed_us: Vec<u64>,
    now_us: u64,
    containers: usize,
    /// Units that change their state with each question for counters.
    pub changing: usize,
    changes: u64,
    /// How often it was asked, by method.
    pub asked: BTreeMap<&'static str, u64>,
    /// What was to be done.
    pub done: Vec<String>,
    /// It answers nothing.
    pub is_silent: bool,
    /// Where its cgroups lie.
    pub cgroup_root: Option<String>,
}

impl World {
    fn new(containers: usize) -> World {
        let now_us = 10_000_000;
        let wall_us = warren_sys::time::realtime_ns() / 1000;
        let mut rows = Vec::new();
        for container in 0..containers {
            for service in SERVICES {
                let is_down = service == "backup";
                rows.push(OverviewRow {
                    name: format!("c{container:04}-{service}.service"),
                    active: if is_down { "inactive" } else { "active" }.into(),
                    sub: if is_down { "dead" } else { "running" }.to_owned(),
                    slice: Some(container as u32),
                    target: Some(container as u32),
                    since_us: Some(wall_us - 3_720_000_000 - container as u64 * 1_000_000),
                    ..OverviewRow::default()
                });
            }
        }
        let changed_us = vec![0; rows.len()];
        let (changing, changes, asked, done) = (0, 0, BTreeMap::new(), Vec::new());
        let mut world = World {
            rows,
            changed_us,
            now_us,
            containers,
            changing,
            changes,
            asked,
            done,
            is_silent: false,
            cgroup_root: None,
        };
        if containers > 3 {
            world.set("c0003-db.service", "failed", "failed", "WR-0041");
            world.set("c0003-web.service", "inactive", "dead", "WR-0060");
            world.set("c0001-php.service", "activating", "auto-restart", "WR-0041");
            let at = world.place("c0003-web.service");
            world.rows[at].cause = Some("c0003-db.service".to_owned());
            let at = world.place("c0001-php.service");
            world.rows[at].restarts = 17;
        }
        world
    }

    fn place(&self, name: &str) -> usize {
        self.rows.iter().position(|row| row.name == name).expect("it is there")
    }

    /// Puts a unit into a state.
    pub fn set(&mut self, name: &str, active: &str, sub: &str, code: &str) {
        let at = self.place(name);
        self.now_us += 1_000;
        self.changes += 1;
        self.changed_us[at] = self.now_us;
        let since_us = Some(warren_sys::time::realtime_ns() / 1000);
        let (active, sub, code) = (active.into(), sub.to_owned(), code.to_owned().into());
        self.rows[at] = OverviewRow { active, sub, code, since_us, ..self.rows[at].clone() };
    }

    fn top(&mut self) -> TopAnswer {
        self.now_us += 1_000_000;
        for n in 0..self.changing {
            let at = (self.changes as usize * 7919 + n * 13) % self.rows.len();
            let is_up = self.rows[at].active.as_str() == "active";
            let (active, sub) = if is_up { ("activating", "start") } else { ("active", "running") };
            self.rows[at].active = active.into();
            self.rows[at].sub = sub.to_owned();
            self.changed_us[at] = self.now_us;
            self.changes += 1;
        }
        let count =
            |word: &str| self.rows.iter().filter(|row| row.active.as_str() == word).count() as u64;
        let restarting = |row: &&OverviewRow| row.restarts > 0;
        let jobs = ["c0002-web.service", "c0002-php.service"].map(|unit| TopJob {
            unit: unit.to_owned(),
            kind: "start".into(),
            age_us: 12_000_000,
            waits_for: u32::from(unit.contains("web")),
            waits_on: unit.contains("web").then(|| "c0002-php.service".to_owned()),
        });
        TopAnswer {
            now_us: self.now_us,
            cpu_us: self.now_us / 100 + self.changes * 40,
            resident_bytes: 180 << 20,
            generation: 4,
            loaded: self.rows.len() as u64,
            active: count("active"),
            failed_total: count("failed"),
            restarts: self.changes / 3,
            jobs: 2,
            jobs_running: 1,
            jobs_ever: Some(self.changes),
            job_rows: jobs.to_vec(),
            restarting: self
                .rows
                .iter()
                .filter(restarting)
                .map(|row| TopRestarting {
                    unit: row.name.clone(),
                    code: row.code.clone(),
                    text: "the main process ended with a status that is no success".to_owned(),
                    restarts: row.restarts,
                })
                .collect(),
            ..TopAnswer::default()
        }
    }

    fn overview(&self, since_us: Option<u64>) -> OverviewAnswer {
        let is_wanted = |at: usize| since_us.is_none_or(|since| self.changed_us[at] >= since);
        let rows = (0..self.rows.len()).filter(|at| is_wanted(*at)).map(|at| self.rows[at].clone());
        OverviewAnswer {
            now_us: self.now_us,
            set: 1,
            units_total: self.rows.len() as u64,
            cgroup_root: self.cgroup_root.clone(),
            slices: (0..self.containers).map(|n| format!("customer-c{n:04}.slice")).collect(),
            targets: (0..self.containers).map(|n| format!("Container 'c{n:04}'")).collect(),
            texts: [
                ("WR-0041", "the main process ended with a status that is no success"),
                ("WR-0060", "a unit that it requires failed to start"),
            ]
            .map(|(code, text)| (code.to_owned(), text.to_owned()))
            .into(),
            rows: rows.collect(),
        }
    }

    fn unit(&self, name: &str) -> UnitRow {
        let row = self.rows.iter().find(|row| row.name == name);
        UnitRow {
            name: name.to_owned(),
            load: "loaded".into(),
            active: row.map_or("inactive".into(), |row| row.active.clone()),
            sub: row.map_or("dead".to_owned(), |row| row.sub.clone()),
            description: format!("Service <b>{name}</b>"),
            job: None::<JobRow>,
        }
    }

    fn answer(&mut self, request: &Request) -> Vec<u8> {
        let reason = ReasonAnswer {
            code: "WR-0041".to_owned().into(),
            text: "the main process ended with a status that is no success".to_owned(),
            cure: "Read its log, mend it, then: warren restart UNIT".to_owned(),
            cause: None,
        };
        match request {
            Request::Top(_) => write_answer(&self.top(), false),
            Request::Overview(question) => {
                write_answer(&self.overview(question.changed_since_us), false)
            }
            Request::Status(question) => {
                let name = question.unit.clone().unwrap_or_default();
                if name == "none.service" {
                    return write_error(
                        &ErrorName::NoSuchUnit,
                        "Unit none.service could not be found.",
                    );
                }
                write_answer(
                    &StatusAnswer {
                        row: self.unit(&name),
                        files: vec![format!("/etc/systemd/system/{name}")],
                        main_pid: Some(4711),
                        memory: Some(44 << 20),
                        cpu_ns: Some(75_000_000_000),
                        tasks: Some(12),
                        processes: vec![ProcessRow {
                            pid: 4711,
                            command: "/usr/bin/serve --port 80".to_owned(),
                        }],
                        reason,
                        log: vec!["a line of the log".to_owned()],
                        ..StatusAnswer::default()
                    },
                    false,
                )
            }
            Request::Why(question) => {
                let name = question.unit.clone().unwrap_or_default();
                let log = vec!["a secret of the log".to_owned()];
                let step = WhyStep { row: self.unit(&name), reason, log, ..WhyStep::default() };
                let impact = vec!["c0003-web.service".to_owned()];
                write_answer(
                    &WhyAnswer {
                        units: vec![WhyUnit { unit: name, path: vec![step], impact }],
                        ..WhyAnswer::default()
                    },
                    false,
                )
            }
            Request::Timers(_) => {
                let now_us = warren_sys::time::realtime_ns() / 1000;
                let timer = |n: u64| TimerRow {
                    name: format!("job{n:02}.timer"),
                    active: "active".into(),
                    sub: "waiting".to_owned(),
                    unit: format!("job{n:02}.service"),
                    unit_active: "inactive".into(),
                    next_us: Some(now_us + n * n * 1_100_000_000),
                    last_us: Some(now_us - n * 3_600_000_000),
                    took_us: Some(n * 700_000),
                    missed: n % 5 / 4,
                };
                write_answer(&TimersAnswer { now_us, timers: (0..24).map(timer).collect() }, false)
            }
            Request::List(_) => {
                let row = |name: &str, description: &str, sub: &str| UnitRow {
                    name: name.to_owned(),
                    load: "loaded".into(),
                    active: "active".into(),
                    sub: sub.to_owned(),
                    description: description.to_owned(),
                    job: None,
                };
                write_answer(
                    &ListAnswer {
                        units: vec![
                            row("user@0.service", "User Manager for UID 0", "running"),
                            row("user@1000.service", "User Manager for UID 1000", "running"),
                        ],
                    },
                    false,
                )
            }
            Request::Cat(Cat { .. }) => write_answer(
                &CatAnswer {
                    files: vec![CatFile {
                        path: "/etc/systemd/system/x.service".to_owned(),
                        text: "[Service]\nExecStart=/usr/bin/serve\n".to_owned(),
                        ..CatFile::default()
                    }],
                },
                false,
            ),
            Request::Reloads(_) => write_answer(&ReloadsAnswer::default(), false),
            Request::Records(_) => {
                let row = |subject: &str, began_us| RecordRow {
                    name: format!("{subject}-1.record"),
                    subject: subject.to_owned(),
                    began_us,
                    bytes: 81_234,
                };
                let records = vec![
                    row("boot", 1_795_000_000_000_000),
                    row("reload", 1_795_000_100_000_000),
                    row("shutdown", 1_795_000_200_000_000),
                ];
                write_answer(&RecordsAnswer { records, ..RecordsAnswer::default() }, false)
            }
            Request::Record(question) => match question.name.as_deref() {
                Some("none.record") => write_error(&ErrorName::Refused, "no such recording"),
                _ => {
                    let bytes = warren_trace::record::write(&host(Subject::Boot, 40, 1).record());
                    write_answer(
                        &RecordAnswer { data: warren_trace::base64::encode(&bytes) },
                        false,
                    )
                }
            },
            Request::ReloadConfiguration(question) if question.dry_run => {
                let file = |path: &str, before: Option<&str>, after: Option<&str>| FileText {
                    path: path.to_owned(),
                    before: before.map(str::to_owned),
                    after: after.map(str::to_owned),
                };
                write_answer(
                    &ReloadAnswer {
                        texts: vec![
                            file(
                                "c0001-web.service",
                                Some("[Service]\nMemoryMax=1G\nNice=5\n"),
                                Some("[Service]\nMemoryMax=2G\nNice=5\n"),
                            ),
                            file(
                                "c0009-web.service",
                                None,
                                Some("[Service]\nExecStart=/usr/bin/serve\n"),
                            ),
                        ],
                        generation: 4,
                        added: vec!["c0009-web.service".to_owned()],
                        changed: vec!["c0001-web.service".to_owned()],
                        ..ReloadAnswer::default()
                    },
                    false,
                )
            }
            Request::Jobs(question) => {
                let kind =
                    question.job_type.as_ref().map_or("start", |kind| kind.as_str()).to_owned();
                self.done.push(format!("{kind} {}", question.units.join(" ")));
                let mut out = Vec::new();
                for unit in &question.units {
                    let (job, unit) = (Some(7), Some(unit.clone()));
                    out.extend(write_answer(&JobsRow { job, unit, ..JobsRow::default() }, true));
                }
                out.extend(write_answer(&JobsRow::default(), false));
                out
            }
            Request::Clear(question) => {
                self.done.push(format!("clear {}", question.unit.clone().unwrap_or_default()));
                write_answer(&Done {}, false)
            }
            other => panic!("the page asks for {other:?}"),
        }
    }
}

/// The daemon, beside such a manager.
pub struct Web {
    child: Child,
    /// Where it listens over TCP.
    pub address: SocketAddr,
    pub scratch: Scratch,
    world: Arc<Mutex<World>>,
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Web {
    /// On a port and a Unix socket of its own, with so many containers of 8 units.
    pub fn start(name: &str, containers: usize, arguments: &[&str]) -> Web {
        let scratch = Scratch::new(name);
        let address = free_address();
        let world = Arc::new(Mutex::new(World::new(containers)));
        manage(&scratch.path("control"), world.clone());
        std::fs::create_dir_all(scratch.path("log")).expect("a scratch directory");
        // A release build may be looked at in the place of the one that was built for tests.
        let program = std::env::var_os("WEB_PROGRAM");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_warren-web").into());
        let child = Command::new(program)
            .args(["--listen", &address.to_string(), "--listen", &scratch.text_path("page")])
            .args([
                "--control",
                &scratch.text_path("control"),
                "--directory",
                &scratch.text_path("log"),
            ])
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .expect("cargo built it");
        wait_until("the daemon listens", || {
            TcpStream::connect(address).is_ok() && UnixStream::connect(scratch.path("page")).is_ok()
        });
        Web { child, address, scratch, world }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the manager knows.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the manager was asked in all.
    pub fn asked(&self) -> u64 {
        self.world().asked.values().sum()
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("it listens")
    }

    /// What it answers over TCP to this request, until it ends the connection.
    pub fn ask(&self, request: &str) -> String {
        read_all(&mut self.connect(), request)
    }

    /// The same over the Unix socket.
    pub fn ask_locally(&self, request: &str) -> String {
        let mut stream = UnixStream::connect(self.scratch.path("page")).expect("it listens");
        read_all(&mut stream, request)
    }

    /// The JSON at a path.
    pub fn json(&self, path: &str) -> Value {
        json_of(&self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")))
    }

    /// The same over the Unix socket.
    pub fn json_locally(&self, path: &str) -> Value {
        json_of(&self.ask_locally(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")))
    }
}

fn json_of(answer: &str) -> Value {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("a head: {answer}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

pub fn read_all(stream: &mut (impl Read + Write), request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("it takes a request");
    let mut out = Vec::new();
    // A refusal of what was not read may end in a reset.
    let _ = stream.read_to_end(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn manage(socket: &Path, world: Arc<Mutex<World>>) {
    let listener = UnixListener::bind(socket).expect("a scratch directory");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let world = world.clone();
            std::thread::spawn(move || talk(stream, &world));
        }
    });
}

fn talk(stream: UnixStream, world: &Mutex<World>) {
    let mut reader = BufReader::new(stream);
    while let Ok(message) = frame::read(&mut reader, REQUEST_BYTES_MAX) {
        let received = Received::read(&message).expect("a request");
        let method = Method::from_full_name(&received.method).expect("a method");
        let request = Request::read(method, received.parameters).expect("its parameters");
        let answer = {
            let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
            *world.asked.entry(method.name()).or_default() += 1;
            if world.is_silent {
                return;
            }
            world.answer(&request)
        };
        if reader.get_mut().write_all(&answer).is_err() {
            return;
        }
    }
}

/// Events of a stream, one after the other.
pub struct Stream(BufReader<TcpStream>);

impl Stream {
    /// Opens one that must be given.
    pub fn open(web: &Web, query: &str) -> Stream {
        let mut stream = web.connect();
        stream.set_read_timeout(Some(warren_testkit::WAIT_MAX)).expect("a socket");
        let request = format!("GET /api/events?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it takes a request");
        let mut stream = Stream(BufReader::new(stream));
        let head = stream.until_empty_line();
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/event-stream"), "{head}");
        stream
    }

    fn until_empty_line(&mut self) -> String {
        use std::io::BufRead;
        let mut text = String::new();
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line).expect("an event comes");
            if read == 0 || line.trim().is_empty() {
                return text;
            }
            text += &line;
        }
    }

    /// The next picture, or what differs.
    pub fn next(&mut self) -> Value {
        loop {
            let text = self.until_empty_line();
            assert!(!text.is_empty(), "the stream has ended");
            if let Some(data) = text.lines().find_map(|line| line.strip_prefix("data: ")) {
                return serde_json::from_str(data).expect("JSON");
            }
        }
    }
}
