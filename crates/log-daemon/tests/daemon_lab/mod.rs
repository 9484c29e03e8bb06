//! A daemon by hand in a directory, for tests that are its clients.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;

use warren_log_store::Entry;
use warren_log_store::files::Disk;
use warren_log_store::query::{Direction, Expr, Journal, Query};
use warren_testkit::Scratch;

/// A directory of its own that goes away in the end, with a daemon in it.
pub struct Lab {
    pub root: Scratch,
    pub daemon: Option<Child>,
}

impl Lab {
    pub fn new(name: &str) -> Lab {
        let root = Scratch::new(name);
        Lab { root, daemon: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Starts the daemon and comes back when it has said that it is ready.
    pub fn start(&mut self, options: &[&str]) {
        let listener = self.spawn(options);
        let mut said = [0; 64];
        let count = listener.recv(&mut said).expect("it says something");
        assert_eq!(&said[..count], b"READY=1");
    }

    /// Starts the daemon; what it has to say comes from the socket.
    pub fn spawn(&mut self, options: &[&str]) -> UnixDatagram {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journald"));
        command.args(["--set", "SystemKeepFree=0", "--directory"]).arg(self.path("store"));
        command.arg("--socket-directory").arg(self.path("run")).args(options);
        self.spawn_command(command)
    }

    /// The same with a command of the caller's.
    pub fn spawn_command(&mut self, mut command: Command) -> UnixDatagram {
        let notify = self.path("notify");
        let _ = std::fs::remove_file(&notify);
        let listener = UnixDatagram::bind(&notify).expect("a socket");
        let child = command.env("NOTIFY_SOCKET", &notify).spawn();
        self.daemon = Some(child.expect("the daemon starts"));
        listener
    }

    /// Whether it has not ended by itself.
    pub fn is_alive(&mut self) -> bool {
        let daemon = self.daemon.as_mut().map(|child| child.try_wait().expect("our child"));
        daemon.is_some_and(|status| status.is_none())
    }

    /// Ends it in order: everything that was sent is in the store then.
    pub fn stop(&mut self) {
        let mut child = self.daemon.take().expect("it runs");
        let kill = Command::new("kill").arg(child.id().to_string()).status();
        assert!(kill.expect("kill(1)").success());
        assert!(child.wait().expect("our child").success());
    }

    pub fn kill(&mut self) {
        let mut child = self.daemon.take().expect("it runs");
        child.kill().expect("our child");
        child.wait().expect("our child");
    }

    pub fn native(&self) -> UnixDatagram {
        let socket = UnixDatagram::unbound().expect("a socket");
        socket.connect(self.path("run/socket")).expect("the daemon listens");
        socket
    }

    pub fn read(&self, expr: Expr) -> Vec<Entry> {
        let journal = Journal::open(Arc::new(Disk::new(self.path("store")))).expect("readable");
        let query = Query { expr, ..Query::default() };
        let entries = journal.entries(&query, Direction::Forward, None);
        entries.map(|entry| entry.expect("no read fails")).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut child) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A daemon that keeps messages in memory first, below a root of its own.
pub fn start_below_a_root(lab: &mut Lab, settings: &[&str]) {
    let notify = lab.path("notify");
    let _ = std::fs::remove_file(&notify);
    let listener = UnixDatagram::bind(&notify).expect("a socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren-journald"));
    command.arg("--root").arg(&lab.root).arg("--socket-directory").arg(lab.path("run"));
    let all = ["ReadKMsg=no", "ForwardToWall=no", "SystemKeepFree=0", "RuntimeKeepFree=0"];
    all.iter().chain(settings).for_each(|setting| _ = command.args(["--set", setting]));
    lab.daemon = Some(command.env("NOTIFY_SOCKET", &notify).spawn().expect("the daemon starts"));
    let mut said = [0; 64];
    let count = listener.recv(&mut said).expect("it says something");
    assert_eq!(&said[..count], b"READY=1");
}

/// Asks the daemon for something; gives its answer.
pub fn ask(lab: &Lab, method: &str) -> std::io::Result<String> {
    ask_with(lab, method, "")
}

/// The same with parameters, as in JSON.
pub fn ask_with(lab: &Lab, method: &str, parameters: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(lab.path("run/io.warrener.journal"))?;
    let method = format!("\"method\":\"io.warrener.Journal.{method}\"");
    write!(stream, "{{{method},\"parameters\":{{{parameters}}}}}\0")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The answer when it is done.
pub const DONE: &str = "{\"parameters\":{}}\0";

/// All `N=` of a directory below the root, in order.
pub fn numbers(lab: &Lab, directory: &str) -> Vec<u32> {
    let journal = Journal::open(Arc::new(Disk::new(lab.path(directory)))).expect("readable");
    let query = Query::default();
    let entries = journal.entries(&query, Direction::Forward, None);
    let number = |entry: Entry| std::str::from_utf8(entry.get("N")?).ok()?.parse().ok();
    entries.filter_map(|entry| number(entry.expect("no read fails"))).collect()
}

/// Below the root: the store in memory, and the one on disk.
pub const VOLATILE: &str = "run/log/warren/journal";
pub const PERSISTENT: &str = "var/log/warren";

/// Sends a message for each number.
pub fn send(lab: &Lab, range: std::ops::Range<u32>) {
    let native = lab.native();
    range.for_each(|n| {
        native.send(format!("MESSAGE=number {n}\nN={n}\n").as_bytes()).expect("sent");
    });
}

/// The fields of an entry that are asked for, as text.
pub fn shown(entry: &Entry, names: &str) -> String {
    let value = |name| String::from_utf8_lossy(entry.get(name).unwrap_or(b"-")).into_owned();
    names.split(' ').map(value).collect::<Vec<_>>().join(" ")
}

/// Says past the test runner's capture that a test could not run here.
pub fn not_run(why: &str) {
    warren_testkit::not_run(why);
}
