//! The nested manager of the tour: started, waited for, asked, stopped.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use warren_sys::signal::{SIGINT, SIGTERM};

use anyhow::{Context, Result, bail};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::process;
use warren_wire::control::Call;

use crate::client::{CallError, Client};
use crate::machine::{self, Machine};

/// Time until readiness: this, and [`READY_MS_PER_SET`] for each set. A bound, not a promise.
const READY_MS: u64 = 20_000;

/// See [`READY_MS`].
const READY_MS_PER_SET: u64 = 10;

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

/// What a nested manager is started over.
pub struct Over<'o> {
    /// `--units` or `--fleet`.
    pub flag: &'o str,
    /// The directory of unit files or rules.
    pub directory: &'o Path,
    /// What is started first.
    pub target: &'o str,
    /// How many sets of units there are.
    pub sets: u32,
}

impl Nested {
    /// Starts one by this `warren` and waits until its first transaction is done.
    pub fn start(program: &Path, scratch: &Path, over: &Over<'_>) -> Result<Nested> {
        let (notify_path, log) = (scratch.join("notify"), scratch.join("log"));
        let notify = UnixDatagram::bind(&notify_path)?;
        let name = format!("tour-{}", std::process::id());
        let output = File::create(&log)?;
        let mut child = Command::new(program)
            .arg0("warren")
            .args(["run", "--with-parent", "--name", &name, "--unit", over.target, over.flag])
            .arg(over.directory)
            .env("NOTIFY_SOCKET", &notify_path)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .context("cannot start warren run")?;
        let bound = Duration::from_millis(READY_MS + READY_MS_PER_SET * u64::from(over.sets));
        let found = wait_ready(&notify, &child, bound)
            .and_then(|()| machine::find(&name).context("process 1 cannot be inspected"));
        match found.with_context(|| tail(&log)) {
            Ok(machine) => Ok(Nested { machine, child, log }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// Ends it after something went wrong.
    pub fn abandon(mut self) {
        end(&mut self.child);
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

/// Ends `warren run` and its machine at once. The first signal asks, the second kills; two
/// different ones, as equal ones may become one.
fn end(child: &mut Child) {
    let pid = child.id() as i32;
    // It may have ended by itself.
    let _ = process::kill(pid, SIGTERM).and_then(|()| process::kill(pid, SIGINT));
    let _ = child.wait();
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
