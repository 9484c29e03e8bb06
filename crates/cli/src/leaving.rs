//! Ending the machine: now, later, or not while something runs.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command as Process, ExitStatus};
use warren_sys::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use anyhow::{Context, Result, bail};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::inotify::{Inotify, WatchFor};
use warren_sys::process::{pidfd_open, pidfd_signal};
use warren_sys::signal::{self, SignalFd, SignalSet};
use warren_wire::control::{Inhibit, Leave, LeaveHow};

use crate::args::{InhibitArgs, LaterArgs, LeaveArgs};
use crate::client::{CallError, Client};

/// Signals that would end the lock before the command.
const ENDING: SignalSet = SignalSet::EMPTY.with(SIGHUP).with(SIGINT).with(SIGQUIT).with(SIGTERM);

/// Asks for a shutdown that begins at once.
pub fn now(how: LeaveHow, args: &LeaveArgs) -> Leave {
    let ignore_inhibitors = Some(args.ignore_inhibitors);
    Leave { how: Some(how), ignore_inhibitors, ..Leave::default() }
}

/// Asks for a shutdown that is planned; nothing if none is.
pub fn planned(args: &LaterArgs) -> Option<Leave> {
    let how = match args {
        LaterArgs { reboot: true, .. } => LeaveHow::Reboot,
        LaterArgs { halt: true, .. } => LeaveHow::Halt,
        LaterArgs { kexec: true, .. } => LeaveHow::Kexec,
        LaterArgs { soft_reboot: true, .. } => LeaveHow::SoftReboot,
        LaterArgs { exit: true, .. } => LeaveHow::Exit,
        _ => LeaveHow::Poweroff,
    };
    let (after, at) = (args.after.clone(), args.at.clone());
    let message = Some(args.message.clone());
    let is_planned = after.is_some() || at.is_some();
    is_planned.then_some(Leave { how: Some(how), after, at, message, ignore_inhibitors: None })
}

/// What a shell has for it: the status, or 128 and the signal.
pub fn exit_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Runs a command under a lock against an end; its exit status. The lock stays until the command has ended,
/// whatever somebody ends it with.
pub fn inhibit(args: &InhibitArgs, socket: &Path) -> Result<i32> {
    let (program, rest) = args.command.split_first().context("which command?")?;
    let who = args.who.clone().unwrap_or_else(|| program.clone());
    let (what, why) = (Some(args.what.clone()), Some(args.why.clone()));
    let lock = Lock(Inhibit { what, who: Some(who), why });
    let client = lock.take(socket, true)?;
    let path = socket.to_owned();
    let epoll = Epoll::new()?;
    // Before there is another thread, which would be ended by what is only blocked here.
    let before = signal::set_blocked(ENDING)?;
    let signals = SignalFd::new(ENDING)?;
    let mut command = Process::new(program);
    signal::begin_with_blocked(command.args(rest), before);
    let mut child = command.spawn().with_context(|| program.clone())?;
    // It ends with this process, and so does the lock.
    std::thread::Builder::new().name("lock".into()).spawn(move || lock.keep(client, &path))?;
    Ok(exit_of(wait(&mut child, &signals, &epoll)?))
}

/// Waits for a command, which gets the signals that come meanwhile. Keys are for it already: it is in the same
/// group of processes.
fn wait(child: &mut Child, signals: &SignalFd, epoll: &Epoll) -> Result<ExitStatus> {
    let process = pidfd_open(i32::try_from(child.id()).context("the number of a process")?)?;
    epoll.add(signals, 0, Interest::READ)?;
    epoll.add(&process, 1, Interest::READ)?;
    let mut ready = Events::with_capacity(2);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        epoll.wait(&mut ready, None)?;
        while let Some(info) = signals.read()? {
            if !matches!(info.signal, SIGINT | SIGQUIT) {
                // It may have ended just now.
                let _ = pidfd_signal(process.as_fd(), info.signal);
            }
        }
    }
}

struct Lock(Inhibit);

impl Lock {
    /// With `watchful` a manager that answers nothing is an error; else it is waited for.
    fn take(&self, socket: &Path, watchful: bool) -> Result<Client, CallError> {
        let mut client = Client::connect(socket)?;
        if watchful {
            client.be_watchful();
        }
        client.call(&self.0)?;
        Ok(client)
    }

    /// A manager that was restarted knows nothing of the lock: it is taken again.
    fn keep(&self, mut client: Client, socket: &Path) {
        loop {
            client.wait_for_end();
            match self.take_again(socket) {
                Ok(again) => client = again,
                Err(error) => return complain!("the inhibitor lock is lost: {error:#}"),
            }
        }
    }

    /// Tries whenever something appears beside the socket.
    fn take_again(&self, socket: &Path) -> Result<Client> {
        let directory = socket.parent().context("a socket is in a directory")?;
        let (inotify, epoll) = (Inotify::new()?, Epoll::new()?);
        inotify.add(directory, WatchFor::Entries)?;
        epoll.add(&inotify, 0, Interest::READ)?;
        loop {
            match self.take(socket, false) {
                Ok(client) => return Ok(client),
                Err(error @ CallError::Refused(..)) => bail!(error),
                Err(_) => {}
            }
            epoll.wait(&mut Events::with_capacity(1), None)?;
            inotify.drain(&mut Vec::new())?;
        }
    }
}
