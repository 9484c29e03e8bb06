//! Ending the machine: now, later, or not while something runs.

use std::path::Path;
use std::process::Command as Process;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::inotify::{Inotify, WatchFor};

use crate::args::{InhibitArgs, LaterArgs, LeaveArgs};
use crate::client::{CallError, Client};

/// The parameters of an end that begins at once.
pub fn now(how: &str, args: &LeaveArgs) -> Value {
    json!({"how": how, "ignore_inhibitors": args.ignore_inhibitors})
}

/// The parameters of an end that is planned; none if none is.
pub fn planned(args: &LaterArgs) -> Option<Value> {
    let how = match args {
        LaterArgs { reboot: true, .. } => "reboot",
        LaterArgs { halt: true, .. } => "halt",
        LaterArgs { kexec: true, .. } => "kexec",
        LaterArgs { soft_reboot: true, .. } => "soft-reboot",
        LaterArgs { exit: true, .. } => "exit",
        _ => "poweroff",
    };
    let (after, at) = (args.after.as_deref(), args.at.as_deref());
    (after.is_some() || at.is_some())
        .then(|| json!({"how": how, "after": after, "at": at, "message": args.message}))
}

/// Runs a command under a lock against an end; its exit status.
pub fn inhibit(args: &InhibitArgs, socket: &Path) -> Result<i32> {
    let (program, rest) = args.command.split_first().context("which command?")?;
    let who = args.who.clone().unwrap_or_else(|| program.clone());
    let lock = Lock { what: args.what.clone(), who, why: args.why.clone() };
    let client = lock.take(socket)?;
    let path = socket.to_owned();
    // It ends with this process, and so does the lock.
    std::thread::Builder::new().name("lock".into()).spawn(move || lock.keep(client, &path))?;
    let status = Process::new(program).args(rest).status().with_context(|| program.clone())?;
    Ok(status.code().unwrap_or(1))
}

struct Lock {
    what: String,
    who: String,
    why: String,
}

impl Lock {
    fn take(&self, socket: &Path) -> Result<Client, CallError> {
        let mut client = Client::connect(socket)?;
        client.call("Inhibit", json!({"what": self.what, "who": self.who, "why": self.why}))?;
        Ok(client)
    }

    /// A manager that was restarted knows nothing of the lock: it is taken again.
    fn keep(&self, mut client: Client, socket: &Path) {
        loop {
            client.wait_for_end();
            match self.take_again(socket) {
                Ok(again) => client = again,
                Err(error) => return complain!("the lock is lost: {error:#}"),
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
            match self.take(socket) {
                Ok(client) => return Ok(client),
                Err(error @ CallError::Refused(..)) => bail!(error),
                Err(_) => {}
            }
            epoll.wait(&mut Events::with_capacity(1), None)?;
            inotify.drain(&mut Vec::new())?;
        }
    }
}
