//! A real warren-init, not as process 1, whose manager is the test itself: `examples/relay`
//! hands the control socket over.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use warren_init::client::{self, Handed, Incoming, InitEvent};
use warren_init::protocol::control::InitRequest;
use warren_init::protocol::exec::{
    ExecSpec, FromHelper, HelperReply, LARGE, SpawnReply, SpawnRequest,
};
use warren_init::protocol::ring::ExitRecord;
use warren_init::protocol::{PACKET_BYTES_MAX, encode};
use warren_sys::cgroup::Tree;
use warren_sys::{fdpass, memfd};

/// A message that does not come for so long never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// The running init and this test's connections to it.
pub struct Lab {
    begun: Begun,
    relay: UnixStream,
    pub manager_pid: i32,
    pub control: OwnedFd,
}

/// An init that was started and whose manager has not yet called. It ends with this value: also
/// when a test panics while it waits for the manager.
pub struct Begun {
    pub init: Child,
    directory: PathBuf,
    pub listener: UnixListener,
    pub tree: Option<(Tree, String)>,
}

/// What a manager has after `Hello`.
pub struct Session {
    pub handed: Handed,
    pub stored: Vec<(String, OwnedFd)>,
}

impl Lab {
    /// Starts init with these options, without cgroups.
    pub fn start(name: &str, options: &[&str]) -> Lab {
        Lab::launch(name, options, None)
    }

    /// Starts init in a cgroup subtree of its own; `None` (said loudly) where that cannot be.
    pub fn start_with_cgroup(name: &str) -> Option<Lab> {
        let mount = warren_sys::cgroup::mount_point().ok().flatten();
        let made = mount.and_then(|mount| {
            let top = Tree::open(mount).ok()?;
            let group = format!("warren-init-{name}-{}", std::process::id());
            top.make(&group).ok()?;
            Some((top, group))
        });
        let Some((top, group)) = made else {
            not_run(name, "a cgroup2 mount that this user may change");
            return None;
        };
        Some(Lab::launch(name, &[], Some((top, group))))
    }

    /// Starts init as process 1 of a pid and mount namespace; `None` (said loudly) where that
    /// cannot be.
    pub fn start_as_pid_1(name: &str) -> Option<Lab> {
        Lab::start_as_pid_1_by(name, &[])
    }

    /// The same with more options for setpriv(1).
    pub fn start_as_pid_1_by(name: &str, privileges: &[&str]) -> Option<Lab> {
        let unshare = [
            &["setpriv", "--pdeathsig=KILL"][..],
            privileges,
            &["unshare", "--pid", "--mount", "--fork", "--kill-child"],
        ]
        .concat();
        let works = Command::new(unshare[0]).args(&unshare[1..]).arg("true").status();
        if !works.is_ok_and(|s| s.success()) {
            not_run(name, "unshare(1) and the right to use it");
            return None;
        }
        Some(Lab::launch_by(&unshare, name, &["--helpers=1"], None))
    }

    fn launch(name: &str, options: &[&str], tree: Option<(Tree, String)>) -> Lab {
        Lab::launch_by(&[], name, options, tree)
    }

    fn launch_by(
        wrapper: &[&str],
        name: &str,
        options: &[&str],
        tree: Option<(Tree, String)>,
    ) -> Lab {
        Lab::joined(Begun::by(wrapper, name, options, tree))
    }

    /// Waits for the manager's call.
    pub fn joined(begun: Begun) -> Lab {
        let (relay, manager_pid, control) = accept(&begun.listener);
        Lab { relay, manager_pid, control, begun }
    }

    /// Waits for the next manager.
    pub fn next_manager(&mut self) {
        (self.relay, self.manager_pid, self.control) = accept(&self.listener);
    }

    /// Tells the relay to exit: see its own help.
    pub fn command(&mut self, byte: u8) {
        self.relay.write_all(&[byte]).expect("the relay listens");
    }

    pub fn kill_manager(&self) {
        warren_sys::process::kill(self.manager_pid, 9).expect("the manager runs");
    }

    pub fn ask(&self, request: &InitRequest<'_>, fds: &[&OwnedFd]) {
        let packet = encode(request).expect("small");
        self.ask_raw(&packet, fds);
    }

    pub fn ask_raw(&self, packet: &[u8], fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        fdpass::send(self.control.as_fd(), packet, &fds).expect("init listens");
    }

    /// Says hello and takes everything that is handed out.
    pub fn hello(&self) -> Session {
        self.ask(&InitRequest::Hello, &[]);
        match self.told() {
            InitEvent::Welcome(handed) => Session { handed: *handed, stored: self.stored() },
            other => panic!("expected Welcome, got {other:?}"),
        }
    }

    /// Takes batches of stored fds up to the last.
    pub fn stored(&self) -> Vec<(String, OwnedFd)> {
        let mut stored = Vec::new();
        loop {
            match self.told() {
                InitEvent::Stored(batch, last) => {
                    stored.extend(batch);
                    if last {
                        return stored;
                    }
                }
                other => panic!("expected stored fds, got {other:?}"),
            }
        }
    }

    /// The next message.
    pub fn told(&self) -> InitEvent {
        wait_readable(self.control.as_fd());
        message(client::receive_event(self.control.as_fd())).expect("init lives")
    }

    /// The next message, as a word or two.
    pub fn told_text(&self) -> String {
        match self.told() {
            InitEvent::Signal(n) => format!("signal {n}"),
            InitEvent::Pong(n) => format!("pong {n}"),
            InitEvent::Refused(why, name) => format!("refused {why:?} {name}"),
            other => format!("{other:?}"),
        }
    }

    /// Takes the new socket of a helper.
    pub fn new_helper(&self) -> OwnedFd {
        match self.told() {
            InitEvent::Helper(0, socket) => socket,
            other => panic!("expected a helper, got {other:?}"),
        }
    }

    /// Scratch space of this test.
    pub fn path(&self, name: &str) -> String {
        self.directory.join(name).to_str().expect("the scratch path is text").to_owned()
    }
}

impl std::ops::Deref for Lab {
    type Target = Begun;
    fn deref(&self) -> &Begun {
        &self.begun
    }
}

impl std::ops::DerefMut for Lab {
    fn deref_mut(&mut self) -> &mut Begun {
        &mut self.begun
    }
}

impl Begun {
    /// Starts init with these options, run by `wrapper` where that is not empty. A wrapper is
    /// killed with the thread that starts it, so that a test that is killed leaves none either:
    /// unshare(1) asks for its child's death, not for its own.
    pub fn by(
        wrapper: &[&str],
        name: &str,
        options: &[&str],
        tree: Option<(Tree, String)>,
    ) -> Begun {
        let directory =
            std::env::temp_dir().join(format!("warren-init-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).expect("a scratch directory can be made");
        let path = directory.join("socket");
        let listener = UnixListener::bind(&path).expect("the test can listen");
        let program = [wrapper, &[env!("CARGO_BIN_EXE_warren-init")]].concat();
        let mut command = Command::new(program[0]);
        command
            .args(&program[1..])
            .arg(format!("--manager={}", relay_program().display()))
            .arg(format!("--exec={}", env!("CARGO_BIN_EXE_warren-exec")));
        match &tree {
            Some((top, group)) => {
                command.arg(format!("--cgroup-root={}", top.path().join(group).display()))
            }
            None => command.arg("--no-cgroup"),
        };
        let init = command.args(options).arg("--").arg(&path).spawn().expect("init starts");
        Begun { init, directory, listener, tree }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
        if let Some((top, group)) = &self.tree {
            let _ = top.kill(group);
            // A panic in a test that fails already would hide why.
            if std::thread::panicking() {
                let _ = top.prune(group);
            } else {
                warren_testkit::wait_until("the group of init is empty", || {
                    top.prune(group).is_ok()
                });
            }
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn relay_program() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its path");
    let target = own.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps/TEST");
    target.join("examples/relay")
}

fn accept(listener: &UnixListener) -> (UnixStream, i32, OwnedFd) {
    wait_readable(listener.as_fd());
    let (relay, _) = listener.accept().expect("the relay connects");
    let (mut pid, mut fds) = ([0u8; 4], Vec::new());
    let received = fdpass::recv(relay.as_fd(), &mut pid, &mut fds, true).expect("it speaks");
    assert_eq!((received.bytes, fds.len()), (4, 1));
    (relay, i32::from_le_bytes(pid), fds.remove(0))
}

/// Panics when nothing comes within [`PATIENCE`].
pub fn wait_readable(fd: std::os::fd::BorrowedFd<'_>) {
    use warren_sys::epoll::{Epoll, Events, Interest};
    let epoll = Epoll::new().expect("epoll");
    epoll.add(fd, 0, Interest::READ).expect("epoll");
    let mut events = Events::with_capacity(1);
    let until = std::time::Instant::now() + PATIENCE;
    // A signal ends a wait early.
    while events.is_empty() {
        let left = until.saturating_duration_since(std::time::Instant::now());
        assert!(!left.is_zero(), "nothing came within {PATIENCE:?}");
        epoll.wait(&mut events, Some(left)).expect("epoll");
    }
}

/// A large one goes in a memfd. Fds in the order of their indexes.
fn send_request(helper: BorrowedFd<'_>, request: &SpawnRequest, fds: &[BorrowedFd<'_>]) {
    let mut packet = encode(request).expect("it can be written");
    let mut large = None;
    if packet.len() > PACKET_BYTES_MAX {
        large = Some(memfd::sealed("warren-request", &packet).expect("a memfd"));
        packet = vec![LARGE];
    }
    let all: Vec<_> = large.iter().map(|fd| fd.as_fd()).chain(fds.iter().copied()).collect();
    fdpass::try_send(helper, &packet, &all).expect("the helper listens");
}

/// The message of a readable socket; `None` at the end.
fn message<T>(received: Result<Incoming<T>, client::ClientError>) -> Option<T> {
    match received.expect("the protocol is spoken") {
        Incoming::Message(message) => Some(message),
        Incoming::End => None,
        Incoming::Nothing => panic!("it was readable"),
    }
}

impl std::ops::Deref for Session {
    type Target = Handed;
    fn deref(&self) -> &Handed {
        &self.handed
    }
}

impl Session {
    /// Asks one helper for a process.
    pub fn request(&self, helper: usize, id: u64, exec: ExecSpec, fds: &[&OwnedFd]) {
        let request = SpawnRequest { id, exec: Box::new(exec) };
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        send_request(self.helpers[helper].as_fd(), &request, &fds);
    }

    /// What the helper says next, or `None` when it is gone and all it sent was read.
    fn heard_or_end(&self, helper: usize) -> Option<(FromHelper, Option<OwnedFd>)> {
        let socket = self.helpers[helper].as_fd();
        wait_readable(socket);
        let (mut buffer, mut fds) = ([0; PACKET_BYTES_MAX], Vec::new());
        let received = fdpass::recv(socket, &mut buffer, &mut fds, false).expect("it was readable");
        assert!(!received.truncated, "a helper says little");
        let said =
            FromHelper::parse(buffer.get(..received.bytes).filter(|packet| !packet.is_empty())?);
        Some((said.expect("the protocol is spoken"), fds.pop()))
    }

    pub fn heard(&self, helper: usize) -> FromHelper {
        self.heard_or_end(helper).expect("the helper lives").0
    }

    pub fn spawn_reply(&self, helper: usize) -> (SpawnReply, Option<OwnedFd>) {
        self.spawn_reply_or_end(helper).expect("the helper lives")
    }

    pub fn spawn_reply_or_end(&self, helper: usize) -> Option<(SpawnReply, Option<OwnedFd>)> {
        match self.heard_or_end(helper)? {
            (FromHelper::Reply(HelperReply::Spawned(reply)), fd) => Some((reply, fd)),
            (other, _) => panic!("expected Spawned, got {other:?}"),
        }
    }

    /// Runs a program to its end: its reply and exit record.
    pub fn run(&self, exec: ExecSpec, fds: &[&OwnedFd]) -> (SpawnReply, ExitRecord) {
        self.request(0, 1, exec, fds);
        let (reply, _) = self.spawn_reply(0);
        let pid = match &reply.result {
            Ok(spawned) => spawned.pid,
            Err(error) => error.pid.expect("the tests that use this make a process"),
        };
        (reply, self.exit_of(pid))
    }

    /// Releases every exit record there is, unread.
    #[allow(dead_code, reason = "for the benchmark")]
    pub fn discard_exits(&self) {
        let read = self.ring.read_position();
        if self.ring.pending() > 0 && self.ring.release(read + self.ring.pending()) {
            self.room.notify();
        }
    }

    /// Waits for a process's exit record and releases everything up to it.
    pub fn exit_of(&self, pid: i32) -> ExitRecord {
        loop {
            let record = self.next_exit();
            if record.exit.pid == pid {
                return record;
            }
        }
    }

    /// Waits for the next exit record and releases it.
    pub fn next_exit(&self) -> ExitRecord {
        loop {
            let seq = self.ring.read_position();
            match self.ring.get(seq) {
                Some(record) => {
                    if self.ring.release(seq + 1) {
                        self.room.notify();
                    }
                    return record;
                }
                None => {
                    wait_readable(self.wake.as_fd());
                    self.wake.clear();
                }
            }
        }
    }
}

/// A shell script with its output in a file.
pub fn script(text: &str, output: &str) -> ExecSpec {
    use warren_init::protocol::exec::StdOutput;
    ExecSpec {
        path: "/bin/sh".into(),
        argv: vec!["sh".into(), "-c".into(), text.into()],
        env: vec!["PATH=/usr/bin:/bin".into()],
        stdout: StdOutput::Truncate(output.into()),
        ..ExecSpec::default()
    }
}

/// Says past the test runner's capture that a test could not run here.
pub fn not_run(test: &str, needs: &str) {
    warren_testkit::not_run_of(test, &format!("needs {needs}"));
}
