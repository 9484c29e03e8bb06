//! A manager in namespaces and a cgroup of its own, driven over its control socket.
//!
//! Everything is gone when the value is dropped: the processes die with the namespace's process 1,
//! which dies with its parent; the cgroup and the directory are removed. What a killed test left
//! behind is removed by the next one.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod bound;
pub mod held;
pub mod lateness;
pub mod recordings;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warren_sys::cgroup::Tree;

/// What has not happened by then never will.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at something that nobody tells about.
const LOOKS_APART: Duration = Duration::from_millis(3);

/// A user without privileges.
pub const OTHER_UID: u32 = 65534;

/// What default dependencies lead to.
const BASE: &[(&str, &str)] = &[
    ("sysinit.target", "[Unit]\nDefaultDependencies=no"),
    ("basic.target", "[Unit]\nDefaultDependencies=no\nRequires=sysinit.target"),
    ("default.target", "[Unit]\nRequires=basic.target\nAfter=basic.target"),
    ("shutdown.target", "[Unit]\nDefaultDependencies=no"),
    ("umount.target", "[Unit]\nDefaultDependencies=no"),
    ("sockets.target", ""),
    ("local-fs.target", "[Unit]\nDefaultDependencies=no"),
    ("local-fs-pre.target", "[Unit]\nDefaultDependencies=no"),
];

/// A running manager.
pub struct Machine {
    unshare: Child,
    /// Process 1 of the machine, as this test sees it.
    pub init_pid: i32,
    /// Scratch space, the same path inside and outside.
    pub directory: PathBuf,
    top: Tree,
    group: String,
}

/// How a job that was asked for ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The manager said so: `done`, `failed`, ...
    Said(String),
    /// It was refused.
    Refused(String),
    /// The manager was killed before it answered.
    Unknown,
}

/// Says past the test runner's capture that a test could not run here.
pub fn not_run(test: &str, needs: &str) {
    warren_testkit::not_run_of(test, &format!("needs {needs}"));
}

/// Waits a moment without being woken.
pub fn pause(time: Duration) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::park_timeout(left);
    }
}

/// Looks until there is something to see.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_or(what, look, String::new)
}

/// The same, with something to read where there never is.
#[track_caller]
pub fn until_or<T>(what: &str, look: impl FnMut() -> Option<T>, read: impl Fn() -> String) -> T {
    warren_testkit::wait_for_or(what, look, read)
}

/// `target/PROFILE`
fn programs() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_BIN_EXE_warrend")).parent().expect("target/PROFILE");
        build(&["--package=warren-init", "--package=warren-pam", "--bins"]);
        build(&["--package=warren-manager", "--example=player", "--example=foreign_exec"]);
        directory.to_owned()
    })
}

/// Whether there is systemd's client for what `test` asks; says so if not.
pub fn has_systemctl(test: &str) -> bool {
    let has = Path::new("/usr/bin/systemctl").exists();
    if !has {
        not_run(test, "systemctl(1)");
    }
    has
}

/// Whether users other than root reach the programs, as `test` needs; says so if not. A checkout may lie
/// in the home directory of root.
pub fn others_reach_programs(test: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    const SEARCHED_BY_OTHERS: u32 = 0o001;
    let is_open = |directory: &Path| {
        directory.metadata().is_ok_and(|found| found.mode() & SEARCHED_BY_OTHERS != 0)
    };
    let reach = programs().ancestors().all(is_open);
    if !reach {
        not_run(test, "a checkout that other users reach");
    }
    reach
}

/// A program of another package, built if need be.
pub fn program_of(package: &str, name: &str) -> String {
    let path = programs().join(name);
    build(&[&format!("--package={package}"), "--bin", name]);
    path.to_str().expect("the path is text").to_owned()
}

/// Cargo builds for a test only what is of its own package and asked for.
fn build(what: &[&str]) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["build", "--quiet"]).args(what);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    assert!(cargo.status().is_ok_and(|s| s.success()), "cargo builds {what:?}");
}

/// The test service.
pub fn player() -> String {
    example("player")
}

/// A program of the manager's examples.
pub fn example(name: &str) -> String {
    programs().join("examples").join(name).to_str().expect("the path is text").to_owned()
}

impl Machine {
    /// Starts a manager over these unit files; `None` (said loudly) where that cannot be. `@P` in
    /// a file is the test service, `@D` the scratch directory.
    pub fn start(name: &str, units: &[(&str, &str)]) -> Option<Machine> {
        Machine::start_with(name, units, &[])
    }

    /// The same with more arguments for init, and after `--` for the manager.
    pub fn start_with(name: &str, units: &[(&str, &str)], arguments: &[&str]) -> Option<Machine> {
        remove_leftovers();
        let mut parts = arguments.split(|argument| *argument == "--");
        let [for_init, for_manager] = [(); 2].map(|()| parts.next().unwrap_or_default());
        let unshare = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child"];
        let works = Command::new(unshare[0]).args(&unshare[1..]).arg("true").status();
        let mount = warren_sys::cgroup::mount_point().ok().flatten();
        let group = format!("warren-manager-{}-{name}", std::process::id());
        let top = mount.and_then(|mount| Tree::open(mount).ok());
        let Some(top) =
            top.filter(|top| works.is_ok_and(|s| s.success()) && top.make(&group).is_ok())
        else {
            not_run(name, "root, unshare(1) and a cgroup2 mount that may be changed");
            return None;
        };
        let directory = std::env::temp_dir().join(&group);
        let _ = std::fs::remove_dir_all(&directory);
        for below in ["", "units", "out", "generators", "rules", "shutdown"] {
            std::fs::create_dir(directory.join(below)).expect("a scratch directory can be made");
        }
        let script = "mount --make-rprivate / && mount -t proc proc /proc \
                      && mount -t tmpfs -o mode=755 tmpfs /run && exec \"$@\"";
        let console = std::fs::File::create(directory.join("console")).expect("a file can be made");
        let errors = console.try_clone().expect("dup");
        let tree = top.path().join(&group);
        let mut command = Command::new(unshare[0]);
        command
            .args(&unshare[1..])
            .args(["sh", "-c", script, "sh"])
            .arg(programs().join("warren-init"))
            .arg(format!("--manager={}", env!("CARGO_BIN_EXE_warrend")))
            .arg(format!("--cgroup-root={}", tree.display()))
            .arg("--healthy=0")
            .args(for_init)
            .arg("--")
            .arg(format!(
                "--unit-path={}:{}:/run/systemd/system.control:/run/systemd/transient:\
                 /run/systemd/generator",
                directory.join("units").display(),
                directory.join("system.control").display(),
            ))
            .arg(format!("--generator-path={}", directory.join("generators").display()))
            .arg(format!("--record-path={}", directory.join("records").display()))
            .arg(format!("--fleet-path={}", directory.join("rules").display()))
            .arg(format!("--console={}", directory.join("keys").display()))
            .arg(format!("--shutdown-path={}", directory.join("shutdown").display()))
            .args(for_manager)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(console)
            .stderr(errors);
        for (file, text) in BASE.iter().chain(units) {
            write_unit(&directory, file, text);
        }
        let unshare = command.spawn().expect("unshare(1) runs");
        let mut machine = Machine { unshare, init_pid: 0, directory, top, group };
        let parent = machine.unshare.id() as i32;
        machine.init_pid = until("process 1 starts", || child_called(parent, "systemd"));
        machine.totals();
        Some(machine)
    }

    /// A file below the machine's own directory.
    pub fn own(&self, path: &str) -> PathBuf {
        self.directory.join(path.trim_start_matches('/'))
    }

    /// Writes a file below the unit directory.
    pub fn write(&self, file: &str, text: &str) {
        write_unit(&self.directory, file, text);
    }

    /// Writes a file of rules.
    pub fn write_rules(&self, file: &str, text: &str) {
        let text = text.replace("@P", &player());
        std::fs::write(self.directory.join("rules").join(file), text).expect("it can be written");
    }

    /// Writes a generator: a shell script.
    pub fn write_generator(&self, name: &str, text: &str) {
        let path = self.directory.join("generators").join(name);
        std::fs::create_dir_all(path.parent().expect("below")).expect("directories can be made");
        install_script(&path, text);
    }

    /// Writes a program of the very end: a shell script.
    pub fn write_shutdown_program(&self, name: &str, text: &str) {
        install_script(&self.directory.join("shutdown").join(name), text);
    }

    /// Takes a generator away.
    pub fn remove_generator(&self, name: &str) {
        let path = self.directory.join("generators").join(name);
        std::fs::remove_file(path).expect("it is there");
    }

    /// A path of the scratch directory for output.
    pub fn out(&self, name: &str) -> PathBuf {
        self.directory.join("out").join(name)
    }

    /// The lines of an output file.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.out(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A path inside the machine, as seen from outside.
    pub fn inside(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.init_pid))
    }

    /// What the manager and init said.
    pub fn console(&self) -> String {
        std::fs::read_to_string(self.directory.join("console")).unwrap_or_default()
    }

    /// What is read like a console; its keys are what is written there.
    pub fn make_console(&self) -> PathBuf {
        let keys = self.directory.join("keys");
        let made = Command::new("mkfifo").arg(&keys).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo(1) makes a console");
        keys
    }

    /// Ends the wait for processes that outlived their units by a key, when it is told; the line that told
    /// it.
    #[track_caller]
    pub fn skip_left(&self, keys: &Path) -> String {
        let told = || {
            let console = self.console();
            console
                .lines()
                .find(|line| line.ends_with("; press s twice to skip the wait"))
                .map(str::to_owned)
        };
        let line = until_or("who is left is told", told, || self.console());
        std::fs::write(keys, "ss").expect("the keys are read");
        line
    }

    // ---- talking ----

    /// Waits until the manager takes calls.
    pub fn wait_until_it_listens(&self) {
        let path = self.inside("/run/warren/control");
        until("the manager listens", || UnixStream::connect(&path).ok());
    }

    /// One call, made when the manager is there. `None`: it was killed over it.
    pub fn try_call(&self, method: &str, parameters: &Value) -> Option<Value> {
        let stream = until("the manager listens", || self.connect());
        ask(&stream, method, parameters)
    }

    /// A connection for several calls ([`ask`]). Nobody waits for ever for an answer: then there is none.
    pub fn connect(&self) -> Option<UnixStream> {
        let stream = UnixStream::connect(self.inside("/run/warren/control")).ok()?;
        stream.set_read_timeout(Some(3 * PATIENCE)).expect("setsockopt");
        Some(stream)
    }

    /// A call that changes nothing, repeated until it is answered.
    #[track_caller]
    pub fn call(&self, method: &str, parameters: &Value) -> Value {
        until(method, || self.try_call(method, parameters))["parameters"].clone()
    }

    /// The same while there is a machine; `None` when it has ended.
    pub fn call_while_up(&self, method: &str, parameters: &Value) -> Option<Value> {
        until(method, || {
            let stream = self.connect();
            let answer = stream.as_ref().and_then(|stream| ask(stream, method, parameters));
            (answer.is_some() || self.is_over()).then_some(answer)
        })
        .map(|answer| answer["parameters"].clone())
    }

    /// A connection of a user who is neither root nor the manager's own.
    pub fn connect_as_other(&self) -> UnixStream {
        self.connect_as(OTHER_UID)
    }

    /// A connection of this user.
    pub fn connect_as(&self, uid: u32) -> UnixStream {
        let directory = std::fs::File::open(self.inside("/run/warren")).expect("it is there");
        let path = format!("/proc/self/fd/{}/control", directory.as_raw_fd());
        let connect = || {
            // Of this thread alone.
            warren_sys::child::set_uid(uid).expect("root may");
            UnixStream::connect(path).expect("the manager listens")
        };
        std::thread::scope(|scope| scope.spawn(connect).join().expect("it connects"))
    }

    pub fn totals(&self) -> Value {
        self.call("Totals", &json!({}))
    }

    #[track_caller]
    pub fn status(&self, unit: &str) -> Value {
        self.call("Status", &json!({"unit": unit}))
    }

    /// `active/running`; of what is known no more, as a unit without a file when it ends, `inactive/dead`.
    #[track_caller]
    pub fn state(&self, unit: &str) -> String {
        let s = self.status(unit);
        if s["message"].as_str().is_some_and(|said| said.ends_with("not found.")) {
            return "inactive/dead".to_owned();
        }
        let word = |key: &str| s[key].as_str().unwrap_or("?").to_owned();
        format!("{}/{}", word("active"), word("sub"))
    }

    /// Moves a process from outside into a unit's group.
    #[track_caller]
    pub fn bring_in(&self, pid: u32, unit: &str) {
        let status = self.status(unit);
        let below = status["cgroup"].as_str().expect("it has a group").trim_start_matches('/');
        let group = Path::new(&self.group).join(below);
        self.top.write(&group, "cgroup.procs", &pid.to_string()).expect("it can be moved");
    }

    /// The main process, inside the machine.
    #[track_caller]
    pub fn main_pid(&self, unit: &str) -> Option<u64> {
        self.status(unit)["main_pid"].as_u64()
    }

    /// Waits for a state.
    #[track_caller]
    pub fn wait_for(&self, unit: &str, state: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let seen = self.state(unit);
            if seen == state {
                return;
            }
            assert!(
                Instant::now() < end,
                "{unit} is {seen}, not {state}: {}\n{}",
                self.status(unit),
                self.console()
            );
            pause(LOOKS_APART);
        }
    }

    /// Asks for a job and waits for its end.
    pub fn job(&self, kind: &str, unit: &str) -> Ended {
        match self.try_call("Job", &json!({"type": kind, "unit": unit})) {
            None => Ended::Unknown,
            Some(answer) => match answer["parameters"]["result"].as_str() {
                Some(result) => Ended::Said(result.to_owned()),
                None if answer.to_string().contains("the job goes on") => Ended::Unknown,
                None => Ended::Refused(answer.to_string()),
            },
        }
    }

    /// A job that must end like this.
    #[track_caller]
    pub fn expect_job(&self, kind: &str, unit: &str, result: &str) {
        let ended = self.job(kind, unit);
        let said = Ended::Said(result.to_owned());
        assert_eq!(ended, said, "{kind} {unit}: {}\n{}", self.status(unit), self.console());
    }

    /// SIGSTOP to a server, inside; a thread of it may answer once more until it has taken effect.
    pub fn stop_server(&self, pid: &str) {
        self.run(&["kill", "-STOP", pid]).expect("it can be stopped");
        let script = format!("grep -L '^State:.T' /proc/{pid}/task/*/status; true");
        until("all its threads are stopped", || {
            self.run(&["sh", "-c", &script]).expect("it is there").is_empty().then_some(())
        });
    }

    /// Where the machine's cgroups are.
    pub fn cgroup_directory(&self) -> PathBuf {
        self.top.path().join(&self.group)
    }

    /// The processes of each group below the machine's own, by its path, which begins with a slash.
    pub fn groups(&self) -> std::collections::BTreeMap<String, Vec<i32>> {
        let mut groups = std::collections::BTreeMap::new();
        let _ = self.top.each_below(Path::new(&self.group), &mut |group, pids| {
            let below = group.strip_prefix(&self.group).unwrap_or(group);
            groups.insert(format!("/{}", below.display()), pids);
        });
        groups
    }

    /// Runs a program inside; its output, or what it complained of.
    pub fn run(&self, argv: &[&str]) -> Result<String, String> {
        let target = format!("--target={}", self.init_pid);
        let mut command = Command::new("nsenter");
        let output = command.args([&target, "--mount", "--pid", "--ipc"]).args(argv).output();
        let output = output.expect("nsenter(1) runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    /// The same, while the test goes on.
    pub fn spawn(&self, argv: &[&str]) -> Child {
        let target = format!("--target={}", self.init_pid);
        let mut command = Command::new("nsenter");
        command.args([&target, "--mount", "--pid", "--ipc"]).args(argv);
        command.stdout(Stdio::null()).spawn().expect("nsenter(1) runs")
    }

    // ---- the end ----

    /// Whether the machine's process 1 has left.
    pub fn is_over(&self) -> bool {
        // A process that has ended has no program any more.
        std::fs::read_link(format!("/proc/{}/exe", self.init_pid)).is_err()
    }

    /// Asks for the end: `poweroff`, `reboot`, ...
    pub fn leave(&self, how: &str) {
        self.try_call("Leave", &json!({"how": how}));
    }

    /// Waits no longer for the stop of a unit. If it was the last, the machine may be over before
    /// there is an answer; asked again it would never come.
    pub fn skip(&self, unit: &str) {
        self.call_while_up("Hurry", &json!({"unit": unit}));
    }

    /// Waits until the machine's process 1 has left; returns what was said.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> String {
        until("the machine ends", || self.unshare.try_wait().ok().flatten());
        self.console()
    }

    // ---- killing ----

    /// The manager's process, if there is one now. One that was killed and is still held by the kernel is none, nor
    /// are the processes that it left behind: process 1 has them before it starts the next manager.
    pub fn manager_pid(&self) -> Option<i32> {
        children_called(self.init_pid, "warrend").filter(|&pid| !is_dead(pid)).last()
    }

    /// SIGKILL to the manager of the moment; false if there is none.
    pub fn kill_manager(&self) -> bool {
        self.manager_pid().is_some_and(|pid| warren_sys::process::kill(pid, 9).is_ok())
    }

    /// The exec helpers of the moment, and no process that one of them makes.
    pub fn helper_pids(&self) -> Vec<i32> {
        self.helpers_and_unborn().0
    }

    /// The exec helpers, when as many are there as process 1 keeps: one for each CPU, at most 4.
    pub fn all_helpers(&self) -> Vec<i32> {
        let count = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, 4);
        until("all helpers are there", || {
            let helpers = self.helper_pids();
            (helpers.len() == count).then_some(helpers)
        })
    }

    /// Processes of units that are not their program yet, for a moment or longer.
    pub fn unborn_pids(&self) -> Vec<i32> {
        self.helpers_and_unborn().1
    }

    /// Both have the helper's name; a process of a unit is made in the unit's cgroup.
    fn helpers_and_unborn(&self) -> (Vec<i32>, Vec<i32>) {
        let group = |pid| warren_sys::process::cgroup_path(pid).ok();
        let Some(own) = group(self.init_pid) else { return Default::default() };
        let (helpers, unborn): (Vec<_>, Vec<_>) = children_called(self.init_pid, "warren-exec")
            .filter_map(|pid| Some((pid, group(pid)?)))
            .partition(|(_, group)| *group == own);
        let pids = |found: Vec<(i32, String)>| found.into_iter().map(|(pid, _)| pid).collect();
        (pids(helpers), pids(unborn))
    }

    /// Processes that run the player as children of process 1: the services' main processes.
    pub fn players(&self) -> Vec<u64> {
        let player = player();
        let name = std::path::Path::new(&player).file_name().expect("a program");
        // The kernel keeps 15 bytes of a name.
        let name: String = name.to_string_lossy().chars().take(15).collect();
        let mut pids: Vec<u64> =
            children_called(self.init_pid, &name).filter_map(pid_inside).collect();
        pids.sort_unstable();
        pids
    }

    /// SIGKILL to an exec helper; false if there is none.
    pub fn kill_helper(&self) -> bool {
        let helper = self.helper_pids().first().copied();
        helper.is_some_and(|pid| warren_sys::process::kill(pid, 9).is_ok())
    }

    /// SIGKILL to a child of process 1 with this command name; false if there is none.
    pub fn kill_child(&self, name: &str) -> bool {
        let child = child_called(self.init_pid, name);
        child.is_some_and(|pid| warren_sys::process::kill(pid, 9).is_ok())
    }
}

/// One call over a connection; `None` when it ended over it.
pub fn ask(stream: &UnixStream, method: &str, parameters: &Value) -> Option<Value> {
    // Who is refused at the door is told so, and the connection ends, maybe before the call was sent.
    let _ = send_call(stream, method, parameters);
    read_answer(stream)
}

/// One call over a connection whose answer is read later or never.
pub fn send_call(mut stream: &UnixStream, method: &str, parameters: &Value) -> std::io::Result<()> {
    let method = format!("io.warrener.Manager.{method}");
    let mut bytes = json!({"method": method, "parameters": parameters}).to_string().into_bytes();
    bytes.push(0);
    stream.write_all(&bytes)
}

/// The answer to a call; `None` when the connection ended over it.
pub fn read_answer(stream: &UnixStream) -> Option<Value> {
    let mut answer = Vec::new();
    BufReader::new(stream).read_until(0, &mut answer).ok()?;
    (answer.pop() == Some(0)).then(|| serde_json::from_slice(&answer).expect("it is JSON"))
}

/// Installs an executable. Another process writes it: as long as a child that some other test has
/// just started holds a file open for writing, execve(2) refuses it (ETXTBSY).
pub fn install(program: &Path, target: &Path) {
    let done = Command::new("install").arg(program).arg(target).status();
    assert!(done.expect("coreutils are there").success(), "{}", target.display());
}

/// Installs a shell script, as [`install`] does.
pub fn install_script(path: &Path, text: &str) {
    let mut install = Command::new("install");
    install.arg("/dev/stdin").arg(path).stdin(Stdio::piped());
    let mut process = install.spawn().expect("coreutils are there");
    let mut input = process.stdin.take().expect("it is piped");
    write!(input, "#!/bin/sh\n{text}\n").expect("it reads");
    drop(input);
    assert!(process.wait().expect("our child").success(), "{}", path.display());
}

fn write_unit(directory: &Path, file: &str, text: &str) {
    let text = text.replace("@P", &player()).replace("@D", &directory.to_string_lossy());
    let path = directory.join("units").join(file);
    let parent = path.parent().expect("it is below a directory");
    std::fs::create_dir_all(parent).expect("directories can be made");
    std::fs::write(path, text).expect("files can be written");
}

/// The pid that a process has in its own namespace; none if it is gone.
pub fn pid_inside(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

fn child_called(parent: i32, name: &str) -> Option<i32> {
    children_called(parent, name).next()
}

fn children_called(parent: i32, name: &str) -> impl Iterator<Item = i32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children: Vec<i32> =
        children.unwrap_or_default().split_whitespace().flat_map(str::parse).collect();
    children.into_iter().filter(move |pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// Whether a process has ended, though threads of it may be held by the kernel.
fn is_dead(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('Z'));
    state.unwrap_or(true)
}

/// Cgroups and directories of tests that were killed.
fn remove_leftovers() {
    let groups = warren_sys::cgroup::mount_point().ok().flatten().and_then(|m| Tree::open(m).ok());
    let Some(top) = groups else { return };
    for group in top.children("").unwrap_or_default() {
        let name = group.to_string_lossy();
        let Some(rest) = name.strip_prefix("warren-manager-") else { continue };
        let pid = rest.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            let _ = top.kill(&group);
            let _ = top.prune(&group);
            let _ = std::fs::remove_dir_all(std::env::temp_dir().join(&group));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- console of the machine ----\n{}", self.console());
        }
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        let _ = self.top.kill(&self.group);
        let end = Instant::now() + PATIENCE;
        while self.top.prune(&self.group).is_err() && Instant::now() < end {
            pause(LOOKS_APART);
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
