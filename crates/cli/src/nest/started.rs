//! A nested manager that another command needs: started, waited for, asked, stopped.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::process::{self, end_with_parent};
use warren_sys::signal::SIGTERM;
use warren_wire::control::Call;

use crate::client::{CallError, Client};
use crate::machine::{self, Machine};

/// Time until everything is stopped.
const STOP_WAIT: Duration = Duration::from_secs(120);

/// Lines of the manager's own output that an error shows.
const LOG_LINES: usize = 15;

/// A running nested manager.
pub struct Nested {
    /// Where it is.
    pub machine: Machine,
    child: Child,
    log: PathBuf,
}

/// Longest wait for the last processes of a machine that is killed.
const KILL_WAIT: Duration = Duration::from_secs(30);

/// Time until readiness of one over sets of units: this, and [`READY_MS_PER_SET`] for each. A bound, not a promise.
const READY_MS: u64 = 20_000;

/// See [`READY_MS`].
const READY_MS_PER_SET: u64 = 10;

/// Sets of units that a nested manager is started over.
pub struct Over<'o> {
    /// `--units` or `--fleet`.
    pub flag: &'o str,
    /// The directory of unit files or rules.
    pub directory: &'o Path,
    /// What is started first.
    pub target: &'o str,
    /// How many sets there are.
    pub sets: u32,
}

/// How a nested manager is started.
pub struct Start<'s> {
    /// The `warren` that does it.
    pub program: &'s Path,
    /// Its name; no other machine of this user has it.
    pub name: &'s str,
    /// Arguments of `warren run` beside its name.
    pub arguments: Vec<OsString>,
    /// A directory for what it prints.
    pub scratch: &'s Path,
    /// Time until readiness: a bound, not a promise.
    pub ready_within: Duration,
}

impl Nested {
    /// Starts one over sets of units, by a `warren`, and waits until its first transaction is done.
    pub fn over(program: &Path, scratch: &Path, over: &Over<'_>) -> Result<Nested> {
        let words: [&OsStr; 4] =
            ["--unit".as_ref(), over.target.as_ref(), over.flag.as_ref(), over.directory.as_ref()];
        Nested::start(&Start {
            program,
            name: &format!("tour-{}", std::process::id()),
            arguments: words.map(Into::into).to_vec(),
            scratch,
            ready_within: Duration::from_millis(READY_MS + READY_MS_PER_SET * u64::from(over.sets)),
        })
    }

    /// Starts one and waits until its first transaction is done.
    pub fn start(start: &Start<'_>) -> Result<Nested> {
        let log = start.scratch.join("log");
        // A name without a file: what lies in the machine's way to a file does not matter.
        let address = format!("warren-run-{:x}", warren_sys::random::u128());
        let notify = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&address)?)?;
        let output = File::create(&log)?;
        let mut command = Command::new(start.program);
        command
            .arg0("warren")
            .args(["run", "--with-parent", "--name", start.name])
            .args(&start.arguments)
            .env("NOTIFY_SOCKET", format!("@{address}"))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0);
        // It asks for that itself, which may be too late.
        let mut child =
            end_with_parent(&mut command, SIGTERM).spawn().context("cannot start warren run")?;
        let found = wait_ready(&notify, &child, start.ready_within)
            .and_then(|()| machine::find(start.name).context("process 1 cannot be inspected"));
        match found.with_context(|| tail(&log)) {
            Ok(machine) => Ok(Nested { machine, child, log }),
            Err(error) => {
                kill(&mut child, None);
                Err(error)
            }
        }
    }

    /// Ends it at once, after something went wrong or when nothing of it is needed any more.
    pub fn kill(mut self) {
        kill(&mut self.child, middle_stage(&self.machine));
    }

    /// Calls a method over a new connection.
    pub fn call<C: Call>(&self, call: &C) -> Result<C::Answer> {
        let mut client = Client::connect(&self.machine.control)?;
        self.called::<C>(client.call(call))
    }

    fn called<C: Call>(&self, answered: Result<C::Answer, CallError>) -> Result<C::Answer> {
        answered.with_context(|| format!("{}\n{}", C::METHOD.name(), tail(&self.log)))
    }

    /// The same if the answer comes in that time.
    pub fn call_within<C: Call>(&self, time: Duration, call: &C) -> Result<C::Answer> {
        let mut client = Client::connect(&self.machine.control)?;
        client.answers_within(time)?;
        self.called::<C>(client.call(call))
    }

    /// A path inside, as seen from here.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.machine.pid))
    }

    /// What the manager had to say about what is missing here.
    pub fn complaints(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let missing = |line: &&str| line.starts_with("warren: ") && line.contains("without");
        text.lines().filter(missing).map(str::to_owned).collect()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Result<ExitStatus> {
        let pidfd = process::pidfd_open(self.child.id() as i32)?;
        if !becomes_ready(&pidfd, STOP_WAIT)? {
            self.child.kill()?;
            bail!("the manager did not exit within {} s\n{}", STOP_WAIT.as_secs(), tail(&self.log));
        }
        Ok(self.child.wait()?)
    }
}

/// The process that cleans up when *run* was killed.
fn middle_stage(machine: &Machine) -> Option<OwnedFd> {
    let stage = process::parent(machine.pid).ok()?;
    let pidfd = process::pidfd_open(stage).ok()?;
    // Its number is its own as long as its child is there.
    machine.is_there().then_some(pidfd)
}

/// Kills `warren run`, whose middle stage kills the machine and removes its cgroup.
fn kill(child: &mut Child, middle: Option<OwnedFd>) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    if let Some(middle) = middle {
        process::ends_within(middle, KILL_WAIT);
    }
}

fn becomes_ready(fd: impl std::os::fd::AsFd, bound: Duration) -> Result<bool> {
    let epoll = Epoll::new()?;
    epoll.add(fd, 0, Interest::READ)?;
    let mut ready = Events::with_capacity(1);
    epoll.wait(&mut ready, Some(bound))?;
    Ok(!ready.is_empty())
}

fn wait_ready(notify: &UnixDatagram, child: &Child, bound: Duration) -> Result<()> {
    let pidfd = process::pidfd_open(child.id() as i32)?;
    let epoll = Epoll::new()?;
    epoll.add(notify, 0, Interest::READ)?;
    epoll.add(&pidfd, 1, Interest::READ)?;
    let mut ready = Events::with_capacity(2);
    let mut message = [0u8; 4096];
    loop {
        epoll.wait(&mut ready, Some(bound))?;
        if ready.is_empty() {
            bail!("the nested manager was not ready within {} s", bound.as_secs());
        }
        if ready.iter().any(|r| r.token == 1) {
            bail!("the nested manager exited before it was ready");
        }
        let length = notify.recv(&mut message)?;
        let text = String::from_utf8_lossy(message.get(..length).unwrap_or_default());
        if text.lines().any(|line| line == "READY=1") {
            return Ok(());
        }
    }
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
}
