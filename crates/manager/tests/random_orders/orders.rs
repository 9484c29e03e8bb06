//! Orders by chance, from the edit of a file to the end of the manager, one after the other without waiting.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::files::{Files, MOUNTS, SERVICES, any, chance};
use crate::lab::{Machine, PATIENCE, pause, send_call};
use warren_testkit::Dice;

/// What was ordered; printed if the test fails.
pub struct Trail {
    seed: u64,
    began: Instant,
    lines: RefCell<Vec<String>>,
}

impl Trail {
    pub fn new(seed: u64) -> Trail {
        Trail { seed, began: Instant::now(), lines: RefCell::default() }
    }

    pub fn note(&self, what: impl Into<String>) {
        let at = self.began.elapsed().as_millis();
        self.lines.borrow_mut().push(format!("{at:6} ms  {}", what.into()));
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let lines = self.lines.borrow().join("\n");
            eprintln!("---- orders with WARREN_SEED={} ----\n{lines}", self.seed);
        }
    }
}

/// Who gives them, and what is waited for.
pub struct Orders<'m> {
    pub m: &'m Machine,
    pub files: Files<'m>,
    pub dice: Dice,
    trail: &'m Trail,
    /// Ends of managers that were ordered.
    pub kills: usize,
    /// There is systemd's client.
    has_systemctl: bool,
    /// Jobs whose end is to be told.
    jobs: Vec<(String, UnixStream)>,
    /// Connections to sockets that somebody has to answer.
    connections: Vec<(String, UnixStream)>,
    /// The same, whose service goes on as long as they are open.
    open: Vec<UnixStream>,
    walkers: Vec<Child>,
    frozen: Vec<String>,
    /// Units whose files went or lead elsewhere: the next manager does not know how long they may take to stop.
    unknown: BTreeSet<String>,
    /// Empty groups that a manager may have left that was killed over their making or removal.
    excused: BTreeSet<String>,
    kills_before: usize,
}

impl<'m> Orders<'m> {
    pub fn new(m: &'m Machine, dice: Dice, trail: &'m Trail, has_systemctl: bool) -> Orders<'m> {
        Orders {
            m,
            files: Files(m),
            dice,
            trail,
            kills: 0,
            has_systemctl,
            jobs: Vec::new(),
            connections: Vec::new(),
            open: Vec::new(),
            walkers: Vec::new(),
            frozen: Vec::new(),
            unknown: BTreeSet::new(),
            excused: BTreeSet::new(),
            kills_before: 0,
        }
    }

    /// The next one.
    pub fn give(&mut self) {
        match self.dice.roll(100) {
            0..30 => self.job(),
            30..34 => self.job_and_edit(),
            34..44 => self.edit(),
            44..47 => self.edit_others(),
            47..54 => self.relink(),
            54..58 => self.enable(),
            58..61 => self.reload(json!({"full": true})),
            61..70 => self.connect(),
            70..73 => self.walk(),
            73..76 => self.mount_by_hand(),
            76..83 => self.signal(),
            83..87 => self.kill_manager(),
            87..88 => self.reexecute(),
            88..91 => self.kill_helper(),
            91..93 => self.isolate(),
            93..94 => self.systemctl(&["cancel"]),
            94..95 => self.reset_failed(),
            95..97 => self.freeze_or_thaw(),
            _ => pause(Duration::from_micros(self.dice.roll(200_000))),
        }
    }

    fn unit(&mut self) -> String {
        match self.dice.roll(21) {
            0..9 => format!("s{}.service", self.dice.roll(SERVICES)),
            9 => format!("alias{}.service", self.dice.roll(2)),
            10..12 => format!("k{}.socket", self.dice.roll(2)),
            12 => format!("k{}.service", self.dice.roll(2)),
            13 => "each.socket".to_owned(),
            14..16 => format!("run-r-m{}.mount", self.dice.roll(MOUNTS)),
            16 => "run-r-m0.automount".to_owned(),
            17 => format!("t{}.target", self.dice.roll(2)),
            18 => any(&mut self.dice, &["a.slice", "a-b.slice", "c.slice"]).to_owned(),
            _ => format!("p@{}.service", self.dice.roll(3)),
        }
    }

    /// Whatever the answer says; the manager may have been killed over it.
    fn call(&self, method: &str, parameters: Value) {
        self.trail.note(format!("{method} {parameters}"));
        if self.m.try_call(method, &parameters).is_none() {
            self.trail.note("    was not answered");
        }
    }

    /// Its end is heard of later.
    fn ask(&mut self, parameters: Value) {
        self.trail.note(format!("Job {parameters}"));
        self.m.wait_until_it_listens();
        let Some(stream) = self.m.connect() else { return };
        if send_call(&stream, "Job", &parameters).is_ok() {
            self.jobs.push((parameters.to_string(), stream));
        }
    }

    fn job(&mut self) {
        let kinds = ["start", "start", "stop", "stop", "restart", "try-restart", "reload", "start"];
        let (kind, unit) = (any(&mut self.dice, &kinds), self.unit());
        let or_reloads = kind == "restart" && chance(&mut self.dice, 30);
        let mode = match self.dice.roll(20) {
            0 | 1 => "fail",
            2 => "ignore-dependencies",
            3 => "flush",
            _ => "replace",
        };
        let parameters =
            json!({"type": kind, "unit": unit, "mode": mode, "reload_if_possible": or_reloads});
        match self.dice.roll(10) {
            0..7 => self.ask(parameters),
            7 => self.call("Job", parameters),
            _ => self.systemctl(&["--no-block", kind, &unit]),
        }
        // In the middle of what comes of it.
        match self.dice.roll(20) {
            0..2 => self.kill_helper(),
            2 => self.kill_manager(),
            _ => {}
        }
    }

    /// An edit in the middle of a start or a stop.
    fn job_and_edit(&mut self) {
        let n = self.dice.roll(SERVICES);
        let kind = any(&mut self.dice, &["start", "stop", "restart"]);
        self.ask(json!({"type": kind, "unit": format!("s{n}.service")}));
        self.write_service(n);
        self.reload(json!({}));
    }

    fn write_service(&mut self, n: u64) {
        self.files.write_service(&mut self.dice, n);
        let text = self.m.directory.join(format!("units/s{n}.service"));
        let text = std::fs::read_to_string(text).expect("it was written");
        self.trail.note(format!("edit s{n}.service: {text:?}"));
    }

    fn edit(&mut self) {
        let n = self.dice.roll(SERVICES);
        self.write_service(n);
        self.reload_mostly();
    }

    fn edit_others(&mut self) {
        let sockets = self.dice.roll(2) == 0;
        self.trail.note(if sockets { "edit the sockets" } else { "edit the mounts" });
        match sockets {
            true => self.files.write_sockets(&mut self.dice),
            false => self.files.write_mounts(&mut self.dice),
        }
        self.reload(json!({}));
    }

    /// A file goes, is masked, or is a name of another; drop-ins come and go.
    fn relink(&mut self) {
        let file = format!("s{}.service", self.dice.roll(SERVICES));
        let other = format!("s{}.service", self.dice.roll(SERVICES));
        let what = match self.dice.roll(7) {
            0 => {
                self.files.remove(&file);
                format!("remove {file}")
            }
            1 => {
                self.files.link(&file, "/dev/null");
                format!("mask {file}")
            }
            2 if file != other => {
                self.files.link(&file, &other);
                format!("{file} is a name of {other}")
            }
            3..6 => format!("drop-in {}", self.files.write_drop_in(&mut self.dice)),
            _ => format!("no drop-in {}", self.files.remove_drop_ins(&mut self.dice)),
        };
        self.trail.note(what);
        self.unknown.insert(file);
        self.reload_mostly();
    }

    fn enable(&mut self) {
        let verb = any(&mut self.dice, &["enable", "disable", "enable", "mask", "unmask"]);
        let file = format!("s{}.service", self.dice.roll(SERVICES));
        let runtime = chance(&mut self.dice, 50);
        self.call("UnitFiles", json!({"verb": verb, "files": [file], "runtime": runtime}));
        self.unknown.insert(file);
        self.reload_mostly();
    }

    fn reload_mostly(&mut self) {
        if chance(&mut self.dice, 80) {
            self.reload(json!({}));
        }
    }

    /// What lies on the disk is in force.
    pub fn reload(&mut self, parameters: Value) {
        self.call("ReloadConfiguration", parameters);
    }

    fn connect(&mut self) {
        let path = any(&mut self.dice, &["/run/r/k0", "/run/r/k1", "/run/r/each"]);
        self.connect_to(path);
    }

    /// A connection that is to be answered, if anybody listens; false if nobody does.
    pub fn connect_to(&mut self, path: &str) -> bool {
        let stream = UnixStream::connect(self.m.inside(path));
        self.trail.note(format!("connect to {path}: {:?}", stream.as_ref().err()));
        let Ok(mut stream) = stream else { return false };
        if path == "/run/r/each" {
            // It may be closed already, if too many are connected.
            let _ = stream.write_all(b"x");
        }
        self.connections.push((path.to_owned(), stream));
        true
    }

    fn walk(&mut self) {
        self.trail.note("walk into the trap");
        self.walkers.push(self.m.spawn(&["timeout", "-s", "KILL", "50", "stat", "/run/r/m0/."]));
    }

    fn mount_by_hand(&mut self) {
        let n = self.dice.roll(MOUNTS);
        let mount = format!("mkdir -p /run/r/m{n}; mount -t tmpfs byhand /run/r/m{n}");
        let how = ["umount", "umount -l", ""];
        let script = match any(&mut self.dice, &how) {
            // One that lies in the trap would wait for it to be sprung.
            "" if n == 0 => return,
            "" => mount,
            how => format!("{how} /run/r/m{n}"),
        };
        self.trail.note(script.clone());
        let _ = self.m.run(&["timeout", "20", "sh", "-c", &script]);
    }

    /// To the processes of a service, or only one of them.
    fn signal(&mut self) {
        let unit = self.unit();
        let signal = any(&mut self.dice, &["TERM", "KILL", "SEGV", "INT", "STOP", "CONT", "HUP"]);
        if chance(&mut self.dice, 20) {
            let whom = any(&mut self.dice, &["main", "all", "control"]);
            let number = [15, 9, 2][self.dice.roll(3) as usize];
            return self.call("Kill", json!({"unit": unit, "whom": whom, "signal": number}));
        }
        let status = self.m.status(&unit);
        let pids = [&status["main_pid"], &status["control_pid"]];
        let Some(pid) = pids.iter().find_map(|pid| pid.as_u64()) else { return };
        self.trail.note(format!("SIG{signal} to {pid} of {unit}"));
        let _ = self.m.run(&["kill", &format!("-{signal}"), &pid.to_string()]);
    }

    /// The manager of the moment.
    pub fn kill_manager(&mut self) {
        self.trail.note("kill the manager");
        self.kills += usize::from(self.m.kill_manager());
    }

    fn reexecute(&mut self) {
        self.call("Reexecute", json!({}));
    }

    fn kill_helper(&mut self) {
        self.trail.note("kill a helper");
        let helpers = self.m.helper_pids();
        let which = self.dice.roll(helpers.len() as u64) as usize;
        if let Some(&pid) = helpers.get(which) {
            let _ = warren_sys::process::kill(pid, 9);
        }
    }

    fn isolate(&mut self) {
        let target = any(&mut self.dice, &["t0.target", "t1.target", "default.target"]);
        self.ask(json!({"type": "start", "mode": "isolate", "unit": target}));
    }

    fn reset_failed(&mut self) {
        self.call("ResetFailed", json!({}));
    }

    fn freeze_or_thaw(&mut self) {
        let unit = format!("s{}.service", self.dice.roll(SERVICES));
        let verb = any(&mut self.dice, &["freeze", "freeze", "thaw"]);
        self.frozen.push(unit.clone());
        self.systemctl(&[verb, &unit]);
    }

    fn systemctl(&mut self, arguments: &[&str]) {
        self.trail.note(format!("systemctl {}", arguments.join(" ")));
        if self.has_systemctl {
            let _ = self.m.run(&[&["timeout", "30", "systemctl"], arguments].concat());
        }
    }

    /// Nobody is held up any more.
    pub fn let_go(&mut self) {
        for unit in std::mem::take(&mut self.frozen) {
            self.systemctl(&["thaw", &unit]);
        }
        let pids: Vec<i32> = self.m.groups().into_values().flatten().collect();
        for pid in pids {
            let _ = warren_sys::process::kill(pid, 18);
        }
    }

    /// Ends who is told to stop and does not, and may take as long as units without files may.
    pub fn end_unknown(&self) {
        for unit in self.unknown.iter().filter(|unit| self.m.status(unit)["sub"] == "stop-sigterm")
        {
            let of_it = |path: &str| path.ends_with(&format!("/{unit}"));
            for pid in
                self.m.groups().into_iter().filter(|(path, _)| of_it(path)).flat_map(|(_, p)| p)
            {
                let _ = warren_sys::process::kill(pid, 9);
            }
        }
    }

    /// Empty groups that there should not be.
    pub fn inexcusable(&mut self, bare: BTreeSet<String>) -> Option<String> {
        if self.kills > self.kills_before {
            self.excused.extend(bare);
            return None;
        }
        let left: Vec<_> = bare.difference(&self.excused).collect();
        (!left.is_empty()).then(|| format!("empty groups are left: {left:?}"))
    }

    /// All is at rest.
    pub fn note_rest(&mut self) {
        let files = &self.files;
        self.unknown.retain(|unit| !files.is_written(unit));
        self.kills_before = self.kills;
    }

    /// Everybody who waits for something has an answer by now or gets one.
    pub fn check_answers(&mut self) {
        self.trail.note("all have an answer?");
        for (what, stream) in std::mem::take(&mut self.jobs) {
            assert!(has_word(&stream), "the job was never told of: {what}");
        }
        for (path, stream) in std::mem::take(&mut self.connections) {
            assert!(has_word(&stream), "a connection to {path} was never answered");
            if path == "/run/r/each" {
                self.open.push(stream);
            }
        }
        for mut walker in std::mem::take(&mut self.walkers) {
            let status = walker.wait().expect("it can be waited for");
            assert!(!status.to_string().contains("signal"), "who walks into the trap is held up");
        }
        self.check_open();
    }

    /// Who holds a connection open is served over all edits.
    fn check_open(&mut self) {
        let (most, mut byte) = (6, [0]);
        let is_open = |mut stream: &UnixStream| stream.write_all(b"x").is_ok();
        self.open.retain(is_open);
        for mut stream in &self.open {
            assert!(has_word(stream), "an open connection is served no longer");
            let _ = stream.read(&mut byte);
        }
        self.open.drain(..self.open.len().saturating_sub(most));
    }

    pub fn stop(&mut self, unit: &str) {
        self.ask(json!({"type": "stop", "unit": unit}));
    }

    /// Whatever was mounted by hand.
    pub fn unmount_all(&mut self) {
        let script = "for m in 0 1 2; do while umount -l /run/r/m$m; do :; done; done 2>/dev/null";
        self.trail.note(script);
        let _ = self.m.run(&["timeout", "20", "sh", "-c", script]);
    }

    /// Lets go of open connections.
    pub fn hang_up(&mut self) {
        self.open.clear();
    }
}

/// Whether something comes, or the end.
fn has_word(stream: &UnixStream) -> bool {
    let word = warren_sys::fdpass::wait_readable(std::os::fd::AsFd::as_fd(stream), PATIENCE);
    word.is_ok_and(|word| word)
}
