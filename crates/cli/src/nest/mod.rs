//! `warren run`: a manager in namespaces of its own, under any init, that leaves nothing behind.
//!
//! Three processes, all of this program:
//! - *run* (this file) stays on the host, makes the cgroup, turns the user's signals into orders
//!   for *outer*, and removes the cgroup in the end;
//! - *outer* unshares the namespaces and waits for *inner*; when *run* is gone it kills and cleans
//!   up in its place;
//! - *inner* is process 1 inside: it builds the file system tree and becomes warren-init.
//!
//! What must not be here: anything that changes the host other than one cgroup, which is removed.

pub mod base;
mod ephemeral;
mod ground;
pub mod inner;
pub mod outer;
pub mod started;
mod tree;

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use warren_sys::signal::{SIGHUP, SIGINT, SIGTERM};

use anyhow::{Context, Result, bail};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::namespace::{self, Namespaces};
use warren_sys::process::{self, ExitKind};
use warren_sys::signal::{SignalFd, SignalSet};

use crate::args::RunArgs;
use crate::machine::{self, Machine};
pub use tree::Group;

/// Order to *outer*: ask the manager to stop everything.
pub const ORDER_STOP: u8 = b's';
/// Order to *outer*: kill everything now.
pub const ORDER_KILL: u8 = b'k';

/// The machine's name when none was given.
pub fn default_name() -> String {
    format!("nested-{}", std::process::id())
}

/// Runs a nested manager to its end; returns its exit status.
pub fn run(args: &RunArgs, user: bool, quiet: bool) -> Result<i32> {
    let name = args.name.clone().unwrap_or_else(default_name);
    // Its cgroup is named after it: ending the one would end the other.
    if let Some(other) = machine::find(&name).filter(|other| other.name == name) {
        bail!("a nested manager named {name} is already running (process {})", other.pid);
    }
    if args.with_parent {
        process::set_parent_death_signal(SIGTERM)?;
    }
    // Looked at before anything is made.
    let arguments = stage_arguments(args, &name)?;
    let signals = SignalSet::EMPTY.with(SIGINT).with(SIGTERM).with(SIGHUP);
    let signals = SignalFd::new(signals)?;
    let place = prepare(args, &name, quiet)?;
    let mut outer = outer_command(args, arguments, user, quiet, place.as_ref());
    let outer = outer.spawn().context("cannot start the inner stage of run");
    let status = outer.and_then(|mut outer| supervise(&signals, &mut outer));
    if let Some(group) = &place {
        group.remove();
    }
    status
}

/// The cgroup, or a word on why there is none.
fn prepare(args: &RunArgs, name: &str, quiet: bool) -> Result<Option<Group>> {
    if args.no_cgroup {
        return Ok(None);
    }
    match Group::make(name) {
        Ok(group) => Ok(Some(group)),
        Err(why) => {
            if !quiet {
                complain!("warren: running without cgroups: {why}");
            }
            Ok(None)
        }
    }
}

fn outer_command(
    args: &RunArgs,
    arguments: Vec<OsString>,
    user: bool,
    quiet: bool,
    place: Option<&Group>,
) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("warren").arg("nest-outer").args(arguments);
    command.args(user.then_some("--user")).args(quiet.then_some("--quiet"));
    if let Some(group) = place {
        command.arg("--cgroup").arg(group.path());
    }
    if process::own_ids().0 != 0 {
        command.arg("--user-namespace");
    }
    pass_on(&mut command, &args.manager_args);
    // A process group of its own: the terminal's signals are for *run* alone.
    command.stdin(Stdio::piped()).process_group(0);
    command
}

/// What all stages are told.
fn stage_arguments(args: &RunArgs, name: &str) -> Result<Vec<OsString>> {
    let init = match &args.init {
        Some(path) => absolute(path)?,
        None => find_init()?,
    };
    let mut out: Vec<OsString> = vec!["--name".into(), name.into()];
    out.extend(["--unit".into(), args.unit.clone().into(), "--init".into(), init.into()]);
    if let Some(units) = &args.units {
        out.extend(["--units".into(), directory(units)?.into()]);
    }
    if let Some(rules) = &args.fleet {
        out.extend(["--fleet".into(), directory(rules)?.into()]);
    }
    out.extend(args.private_network.then(|| "--private-network".into()));
    out.extend(args.no_cgroup.then(|| "--no-cgroup".into()));
    out.extend(args.ephemeral.then(|| "--ephemeral".into()));
    for path in &args.bind {
        out.extend(["--bind".into(), absolute(path)?.into()]);
    }
    out.extend(args.without.iter().flat_map(|path| ["--without".into(), path.into()]));
    Ok(out)
}

fn pass_on(command: &mut Command, manager_args: &[String]) {
    if !manager_args.is_empty() {
        command.arg("--").args(manager_args);
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{}", path.display()))
}

fn directory(path: &Path) -> Result<PathBuf> {
    let path = absolute(path)?;
    anyhow::ensure!(path.is_dir(), "{}: not a directory", path.display());
    Ok(path)
}

/// warren-init beside this program, in `../lib/warren`, or where it is installed.
fn find_init() -> Result<PathBuf> {
    let own = std::env::current_exe().context("where is this program?")?;
    let here = own.parent().unwrap_or(Path::new("/"));
    let places = [here.join("warren-init"), here.join("../lib/warren/warren-init")];
    let installed = PathBuf::from("/usr/lib/warren/warren-init");
    let found = places.into_iter().chain([installed]).find_map(|p| p.canonicalize().ok());
    found.context("warren-init is not installed; name it with --init")
}

/// Waits for *outer*, handing on what the user asks: once to stop, twice to kill.
fn supervise(signals: &SignalFd, outer: &mut Child) -> Result<i32> {
    let mut orders = outer.stdin.take().context("the pipe to the inner stage is missing")?;
    let pidfd = process::pidfd_open(outer.id() as i32)?;
    let epoll = Epoll::new()?;
    epoll.add(signals, 0, Interest::READ)?;
    epoll.add(&pidfd, 1, Interest::READ)?;
    let mut ready = Events::with_capacity(2);
    let mut asked = SignalRequests::default();
    while process::is_alive(pidfd.as_fd()) {
        epoll.wait(&mut ready, None)?;
        while let Some(signal) = signals.read()? {
            let now_ms = warren_sys::time::monotonic_ns() / 1_000_000;
            if let Some(order) = asked.order(signal.signal, now_ms) {
                // It may just have ended: the loop will notice.
                let _ = orders.write_all(&[order]);
            }
        }
    }
    let exit = process::wait(process::Wait::Pid(outer.id() as i32), true)?;
    Ok(exit.map_or(1, |exit| status_of(exit.kind)))
}

/// Signals that come so soon after the first are the same wish: who closes a terminal or ends a service may send several.
const SAME_WISH_MS: u64 = 500;

/// What the user has asked for by signals.
#[derive(Default)]
struct SignalRequests {
    first_ms: Option<u64>,
}

impl SignalRequests {
    /// The order that a signal is. A hang-up comes to a terminal's processes more than once, and with other signals: it
    /// asks to stop, and never to kill.
    fn order(&mut self, signal: i32, now_ms: u64) -> Option<u8> {
        let Some(first_ms) = self.first_ms else {
            self.first_ms = Some(now_ms);
            return Some(ORDER_STOP);
        };
        let is_second = signal != SIGHUP && now_ms.saturating_sub(first_ms) >= SAME_WISH_MS;
        is_second.then_some(ORDER_KILL)
    }
}

/// The exit status that stands for how process 1 ended. reboot(2) in a pid namespace ends it with
/// SIGINT (power off, halt) or SIGHUP (boot again): pid_namespaces(7).
pub fn status_of(end: ExitKind) -> i32 {
    match end {
        ExitKind::Exited(status) => status,
        ExitKind::Killed(SIGINT | SIGHUP) => 0,
        ExitKind::Killed(signal) | ExitKind::Dumped(signal) => 128 + signal,
    }
}

/// Moves this process into the namespaces of a machine's process 1; pid: its next children.
pub fn enter_namespaces(machine: &Machine) -> Result<()> {
    let pid = machine.pid;
    let pidfd = process::pidfd_open(pid)?;
    // Looked at again, now that the pidfd holds on to the process.
    anyhow::ensure!(machine.is_there(), "the machine has shut down");
    let all = [
        ("user", Namespaces::USER),
        ("mnt", Namespaces::MOUNT),
        ("pid", Namespaces::PID),
        ("net", Namespaces::NET),
        ("ipc", Namespaces::IPC),
        ("uts", Namespaces::UTS),
        ("cgroup", Namespaces::CGROUP),
    ];
    let link = |who: &str, kind: &str| std::fs::read_link(format!("/proc/{who}/ns/{kind}")).ok();
    // Entering the user namespace one is already in is an error.
    let differs = |kind: &str| link("self", kind) != link(&pid.to_string(), kind);
    let root = differs("mnt").then(|| std::fs::File::open(format!("/proc/{pid}/root")));
    let wanted = all.into_iter().filter(|(kind, _)| differs(kind)).map(|(_, what)| what);
    let Some(what) = wanted.reduce(|a, b| a | b) else { return Ok(()) };
    namespace::enter(pidfd.as_fd(), what).context("cannot enter the machine")?;
    if let Some(root) = root {
        namespace::set_root(root?.as_fd()).context("cannot enter the machine")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_a_shell_would() {
        let ends = [ExitKind::Exited(3), ExitKind::Killed(SIGINT), ExitKind::Killed(9)];
        assert_eq!(ends.map(status_of), [3, 0, 137]);
    }

    #[test]
    fn a_second_signal_kills_unless_it_is_a_hang_up_or_the_same_wish() {
        let check = |signals: &[(i32, u64)], expected: &str| {
            let mut asked = SignalRequests::default();
            let order =
                |&(signal, at_ms): &(i32, u64)| asked.order(signal, at_ms).map_or('-', char::from);
            assert_eq!(signals.iter().map(order).collect::<String>(), expected, "{signals:?}");
        };
        check(&[(SIGINT, 1000), (SIGINT, 2000)], "sk");
        check(&[(SIGTERM, 1000), (SIGINT, 1499), (SIGTERM, 1500), (SIGINT, 1501)], "s-kk");
        check(&[(SIGHUP, 1000), (SIGHUP, 1001), (SIGHUP, 9000)], "s--");
        check(&[(SIGTERM, 1000), (SIGHUP, 1000), (SIGHUP, 9000), (SIGTERM, 9001)], "s--k");
        check(&[(SIGHUP, 1000), (SIGTERM, 9000)], "sk");
    }
}
