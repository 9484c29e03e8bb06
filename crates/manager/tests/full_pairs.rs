//! Two tables of the kernel are full at the same time, each with each other one: root is answered, what there is room
//! for is started, the manager that is killed meanwhile is followed by another one, and all is well when there is room.
//!
//! One table alone is in `shortage.rs` and `full_tables.rs`.

mod lab;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lab::bound::{BOMB, Bound};
use lab::{Ended, Machine, ask, until, until_or};
use serde_json::{Value, json};

/// Whoever asks is answered, or refused, in that time.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// What is asked for is done or has failed in that time, if there is a manager.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// Files that the manager may open where they are few, and more sockets than that.
const FILES: u32 = 200;
const SOCKETS: usize = 220;

/// A manager that has this much more memory than it takes has none for a load of so many units.
const MEMORY_BYTES: u64 = 2 << 20;
const UNITS: usize = 3000;

/// Limits of the whole kernel: one test at a time.
static KERNEL: Mutex<()> = Mutex::new(());

const MOUNT_MAX: &str = "/proc/sys/fs/mount-max";
const WATCHES_MAX: &str = "/proc/sys/fs/inotify/max_user_watches";

/// A table that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    /// Files that the manager may open.
    Files,
    /// Threads and processes of the manager.
    Threads,
    /// Processes of the machine, of which a service takes what there are.
    Processes,
    /// Memory of the manager.
    Memory,
    /// Bytes of /run.
    Bytes,
    /// Files in /run.
    Inodes,
    /// What the manager may watch.
    Watches,
    /// Mounts of a namespace, for which the kernel has one limit.
    Mounts,
}

use Table::{Bytes, Files, Inodes, Memory, Mounts, Processes, Threads, Watches};

fn has_own_kernel() -> bool {
    std::env::var_os("WARREN_OWN_KERNEL").is_some()
}

/// A machine of which two tables are full.
struct Full {
    m: Machine,
    tables: [Table; 2],
    threads: Option<Bound>,
    memory: Option<Bound>,
    processes: Option<Bound>,
    wrapper: PathBuf,
    /// What the kernel's own limits were.
    before: Vec<(&'static str, String)>,
}

/// What is started then, with what it needs.
const SERVICES: [(&str, &str); 6] = [
    ("plain.service", "[Service]\nExecStart=@P stay"),
    ("ready.service", "[Service]\nType=notify\nTimeoutStartSec=30\nExecStart=@P ready stay"),
    ("directory.service", "[Service]\nRuntimeDirectory=d\nExecStart=@P stay"),
    (
        "protected.service",
        "[Service]\nType=exec\nPrivateTmp=yes\nProtectSystem=strict\nExecStart=@P stay",
    ),
    (
        "forks.service",
        "[Service]\nType=forking\nGuessMainPID=no\nExecStart=/bin/sh -c 'sleep 1000 &'",
    ),
    ("changes.path", "[Path]\nPathChanged=/run/changes\nUnit=plain.service"),
];

impl Full {
    /// A machine, and limits for the manager that are none yet.
    fn start(tables: [Table; 2]) -> Option<Full> {
        let name = format!("full-{tables:?}").replace(['[', ']', ' '], "").replace(',', "-");
        let has = |table| tables.contains(&table);
        let bound =
            |is_wanted: bool, made: fn(&str) -> Option<Bound>| is_wanted.then(|| made(&name));
        let threads = bound(has(Threads), Bound::of_processes);
        let memory = bound(has(Memory), Bound::of_memory);
        if matches!(threads, Some(None)) || matches!(memory, Some(None)) {
            lab::not_run(&name, "cgroups with the controllers of processes and memory");
            return None;
        }
        let (threads, memory) = (threads.flatten(), memory.flatten());
        let wrapper = std::env::temp_dir().join(format!("warren-{name}-{}", std::process::id()));
        let full = std::env::temp_dir()
            .join(format!("warren-manager-{}-{name}/out/full", std::process::id()));
        lab::install_script(&wrapper, &script(tables, &full, threads.iter().chain(&memory)));
        let sockets: Vec<String> = (0..SOCKETS).map(|n| format!("s{n}.socket")).collect();
        let all = format!("[Unit]\nWants={}", sockets.join(" "));
        let mut units = vec![("all.target".to_owned(), all)];
        for (number, socket) in sockets.into_iter().enumerate() {
            units.push((socket, format!("[Socket]\nListenStream=/run/s{number}")));
            units.push((format!("s{number}.service"), SERVICES[0].1.to_owned()));
        }
        let bomb =
            "[Service]\nExecStart=python3 @D/out/bomb.py\nTasksMax=infinity\nTimeoutStopSec=2";
        units.push(("bomb.service".to_owned(), bomb.to_owned()));
        units.extend(SERVICES.map(|(name, text)| (name.to_owned(), text.to_owned())));
        let units: Vec<(&str, &str)> =
            units.iter().map(|(name, text)| (&**name, &**text)).collect();
        let m = Machine::start_with(&name, &units, &[&format!("--manager={}", wrapper.display())])?;
        std::fs::write(m.out("bomb.py"), BOMB).expect("written");
        let processes = has(Processes).then(|| Bound::of_machine(&name, &m));
        if matches!(processes, Some(None)) {
            lab::not_run(&name, "a cgroup with the pids controller");
            return None;
        }
        let processes = processes.flatten();
        Some(Full { m, tables, threads, memory, processes, wrapper, before: Vec::new() })
    }

    fn manager(&self) -> i32 {
        self.m.manager_pid().expect("it runs")
    }

    /// From now on both are full.
    fn fill(&mut self) {
        std::fs::write(self.m.out("full"), "").expect("written");
        for table in self.tables {
            match table {
                Files => self.limit_files(FILES),
                Threads => {
                    let threads = self.threads.as_ref().expect("it was made");
                    threads.limit(&threads.count("pids.current").to_string());
                }
                Memory => {
                    let memory = self.memory.as_ref().expect("it was made");
                    memory.limit(&(memory.bytes() + MEMORY_BYTES).to_string());
                }
                Processes => {
                    let processes = self.processes.as_ref().expect("it was made");
                    let most = processes.count("pids.current") + 50;
                    processes.limit(&most.to_string());
                    self.m.expect_job("start", "bomb.service", "done");
                    until("it has all", || (processes.count("pids.current") >= most).then_some(()));
                }
                Bytes => {
                    self.inside("mount -o remount,size=64k /run; cat /dev/zero > /run/full; true")
                }
                Inodes => self.inside(
                    "mount -o remount,nr_inodes=$(($(find /run -xdev | wc -l) + 20)) /run; \
                     n=0; while touch /run/full$n; do n=$((n + 1)); done; true",
                ),
                Watches if has_own_kernel() => self.set(WATCHES_MAX, "0"),
                Watches => self.in_users("echo 0 > /proc/sys/user/max_inotify_watches"),
                Mounts => {
                    let there = self.m.run(&["sh", "-c", "wc -l </proc/self/mountinfo"]);
                    self.set(MOUNT_MAX, there.expect("it can be counted").trim());
                }
            }
        }
    }

    fn inside(&self, script: &str) {
        self.m.run(&["sh", "-c", script]).expect("it is done");
    }

    /// In the namespace of users that the manager is in.
    fn in_users(&self, script: &str) {
        let target = format!("--target={}", self.manager());
        let mut command = std::process::Command::new("nsenter");
        let status = command.args([&target, "--user", "--", "sh", "-c", script]).status();
        assert!(status.expect("nsenter(1) runs").success(), "{script}");
    }

    fn limit_files(&self, files: u32) {
        let manager = self.manager().to_string();
        let limit = format!("--nofile={files}:");
        let status =
            std::process::Command::new("prlimit").args(["--pid", &manager, &limit]).status();
        assert!(status.expect("prlimit(1) runs").success(), "{limit}");
    }

    fn set(&mut self, file: &'static str, value: &str) {
        self.before.push((file, std::fs::read_to_string(file).expect("it can be read")));
        std::fs::write(file, value).expect("the kernel takes it");
    }

    /// There is room again.
    fn lift(&mut self) {
        std::fs::remove_file(self.m.out("full")).expect("it is there");
        for (file, before) in self.before.drain(..) {
            std::fs::write(file, before.trim()).expect("the kernel takes it");
        }
        let bounds = [&self.threads, &self.memory, &self.processes];
        bounds.into_iter().flatten().for_each(|bound| bound.limit("max"));
        // Who has given up the right to more files gets it back with its successor.
        if self.tables.contains(&Files) {
            self.m.kill_manager();
        }
        self.m.totals();
        for table in self.tables {
            match table {
                Processes => self.m.expect_job("stop", "bomb.service", "done"),
                Bytes | Inodes => {
                    self.inside("rm -f /run/full*; mount -o remount,size=64m,nr_inodes=99999 /run");
                }
                Watches if !has_own_kernel() => {
                    self.in_users("echo 100000 > /proc/sys/user/max_inotify_watches");
                }
                _ => {}
            }
        }
    }

    /// One call; nothing where the manager was killed over it and may have no successor.
    fn ask(&self, method: &str, parameters: &Value) -> Option<Value> {
        let client = self.m.connect()?;
        client.set_read_timeout(Some(DONE_WITHIN)).expect("setsockopt");
        ask(&client, method, parameters)
    }

    /// A start, as [`Machine::job`] has it.
    fn job(&self, unit: &str) -> Ended {
        let answer = self.ask("Job", &json!({"type": "start", "unit": unit}));
        let Some(answer) = answer else { return Ended::Unknown };
        match answer["parameters"]["result"].as_str() {
            Some(result) => Ended::Said(result.to_owned()),
            None => Ended::Refused(answer.to_string()),
        }
    }

    /// Whether a manager that is killed may have no successor before there is room.
    fn may_have_no_manager(&self) -> bool {
        self.tables.contains(&Processes)
    }

    /// Root has an answer in time. Where a manager cannot be started, the command says so itself.
    #[track_caller]
    fn assert_is_answered(&self, first: i32) {
        until_or(
            &format!("{:?}: root is answered", self.tables),
            || self.is_answered(first).then_some(()),
            || self.m.console(),
        );
    }

    /// Whether the manager answers; not where it was killed over the question, as one that lacks memory may be.
    fn is_answered(&self, first: i32) -> bool {
        if self.may_have_no_manager() && self.m.manager_pid() != Some(first) {
            let warren = lab::program_of("warren-cli", "warren");
            let said = self.m.run(&[&warren, "status", "plain.service"]);
            let is_told = |said: &String| said.contains("does not respond");
            assert!(said.as_ref().err().is_none_or(is_told), "{:?}: {said:?}", self.tables);
            return true;
        }
        let client = self.m.connect();
        let asked = client.map(|client| {
            client.set_read_timeout(Some(ANSWERED_WITHIN)).expect("setsockopt");
            ask(&client, "Totals", &json!({}))
        });
        let is_answered = asked.flatten().is_some();
        let may_be_killed = self.tables.contains(&Memory);
        let console = || self.m.console();
        assert!(is_answered || may_be_killed, "{:?}: no answer\n{}", self.tables, console());
        is_answered
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        for (file, before) in self.before.drain(..) {
            let _ = std::fs::write(file, before.trim());
        }
        let _ = std::fs::remove_file(&self.wrapper);
    }
}

/// What is executed in place of the manager: it has limits while there is a file `full`.
fn script<'b>(
    tables: [Table; 2],
    full: &std::path::Path,
    bounds: impl Iterator<Item = &'b Bound>,
) -> String {
    let program = env!("CARGO_BIN_EXE_warrend");
    let enter = bounds.map(|bound| format!("echo $$ > {} && ", bound.processes().display()));
    let enter = enter.collect::<String>();
    let full = format!("test -e {}", full.display());
    let files = match tables.contains(&Files) {
        // It raises its limit as far as the kernel lets it: the right to that is taken.
        true => format!(
            "if {full}; then ulimit -S -n {FILES} && ulimit -H -n {FILES} && \
             exec setpriv --bounding-set=-sys_resource {program} \"$@\"; fi; "
        ),
        false => String::new(),
    };
    let run = format!("{files}exec {program} \"$@\"");
    match tables.contains(&Watches) && !has_own_kernel() {
        true => format!(
            "{enter}exec unshare --user --map-root-user sh -c '\
             if {full}; then echo 0 > /proc/sys/user/max_inotify_watches; fi; {run}' sh \"$@\""
        ),
        false => format!("{enter}{run}"),
    }
}

/// How often a line is on the console that has this.
fn told(m: &Machine, what: &str) -> usize {
    m.console().lines().filter(|line| line.contains(what)).count()
}

fn check(tables: [Table; 2]) {
    let has = |table| tables.contains(&table);
    let began = std::time::Instant::now();
    if has(Mounts) && !has_own_kernel() {
        let needs = "a kernel of its own: `cargo xtask vm tests`";
        return lab::not_run("a_full_table_of_mounts_and_another_one", needs);
    }
    let _one = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut full) = Full::start(tables) else { return };
    full.m.expect_job("start", "plain.service", "done");
    let running = full.m.main_pid("plain.service");
    full.fill();
    let first = full.manager();
    let is_there = |full: &Full| !full.may_have_no_manager() || full.m.manager_pid() == Some(first);
    let all = || std::iter::once("all.target").chain(SERVICES.map(|(name, _)| name));
    for unit in all() {
        // Done or failed, but over. A manager that lacks memory may be killed.
        let ended = if is_there(&full) { full.job(unit) } else { Ended::Unknown };
        let is_over = matches!(ended, Ended::Said(_)) || has(Memory) && ended == Ended::Unknown;
        assert!(is_over, "{tables:?}: {unit}: {ended:?}");
        full.assert_is_answered(first);
    }
    // Without room in /run no socket gets as far as to need a descriptor, and without processes no service a group.
    for (is_told, said) in [
        (has(Files) && !has(Inodes), "more file descriptors than there are"),
        (has(Watches) && !has(Processes), "cannot watch all cgroups"),
    ] {
        let times = told(&full.m, said);
        assert!(!is_told || times == 1, "{tables:?}: {times} times {said}\n{}", full.m.console());
    }
    if has(Memory) && is_there(&full) {
        (0..UNITS).for_each(|n| full.m.write(&format!("many{n}.service"), SERVICES[0].1));
        // It may be killed over that.
        full.ask("ReloadConfiguration", &json!({}));
    }
    full.m.kill_manager();
    until("it has ended", || (full.m.manager_pid() != Some(first)).then_some(()));
    if !full.may_have_no_manager() {
        full.m.totals();
    }
    full.assert_is_answered(first);
    full.lift();
    full.m.totals();
    for unit in all() {
        full.m.expect_job("start", unit, "done");
    }
    for number in 0..SOCKETS {
        full.m.expect_job("start", &format!("s{number}.socket"), "done");
    }
    assert_eq!(full.m.main_pid("plain.service"), running, "{tables:?}");
    full.m.expect_job("restart", "ready.service", "done");
    println!("{tables:?}: {:.1} s", began.elapsed().as_secs_f32());
}

/// Each table with those behind it. Threads and processes are one table for the kernel.
fn check_with(table: Table) {
    let all = [Files, Threads, Processes, Memory, Bytes, Inodes, Watches, Mounts];
    for other in all.into_iter().skip_while(|other| *other != table).skip(1) {
        if (table, other) != (Threads, Processes) {
            check([table, other]);
        }
    }
}

#[test]
fn files_and_another_table() {
    check_with(Files);
}

#[test]
fn threads_and_another_table() {
    check_with(Threads);
}

#[test]
fn processes_and_another_table() {
    check_with(Processes);
}

#[test]
fn memory_and_another_table() {
    check_with(Memory);
}

#[test]
fn bytes_and_another_table() {
    check_with(Bytes);
}

#[test]
fn inodes_and_another_table() {
    check_with(Inodes);
}

#[test]
fn watches_and_mounts() {
    check_with(Watches);
}
