//! The middle stage: unshares, starts *inner*, waits, and cleans up when *run* was killed.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use warren_sys::signal::SIGKILL;

use anyhow::{Context, Result};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::namespace::{self, IdRange, Namespaces};
use warren_sys::process;
use warren_sys::signal::SIGRTMIN;

use super::{Group, ORDER_KILL, ORDER_STOP, pass_on, stage_arguments, status_of};
use crate::args::NestArgs;

/// Orders that are read at once.
const ORDERS_MAX: usize = 64;

/// What a service manager takes as "power off": systemd(1), "SIGNALS".
const SIGNAL_POWEROFF: i32 = SIGRTMIN + 4;

/// Runs the stage; returns the exit status of process 1.
pub fn run(args: &NestArgs, user: bool, quiet: bool) -> Result<i32> {
    // Opened before the namespaces change: this is the host's tree.
    let group = args.cgroup.as_deref().and_then(Group::open);
    unshare(args)?;
    let inner = start_inner(args, user)?;
    let pid = inner.id() as i32;
    if !quiet {
        complain!("{}", greeting(args.run.name.as_deref().unwrap_or_default(), pid, user));
    }
    let ran_alone = wait(pid)?;
    if let (true, Some(group)) = (ran_alone, &group) {
        group.remove();
    }
    let exit = process::wait(process::Wait::Pid(pid), true)?;
    Ok(exit.map_or(1, |exit| status_of(exit.kind)))
}

fn greeting(name: &str, pid: i32, user: bool) -> String {
    let systemctl = if user { "" } else { ", or: nsenter -t PID -a systemctl status" };
    let systemctl = systemctl.replace("PID", &pid.to_string());
    format!(
        "warren: machine {name} runs (process {pid}). From another terminal: \
         warren -M {name} status{systemctl}"
    )
}

fn unshare(args: &NestArgs) -> Result<()> {
    let (uid, gid) = process::own_ids();
    let mut what = Namespaces::MOUNT | Namespaces::PID | Namespaces::UTS | Namespaces::IPC;
    if args.user_namespace {
        what = what | Namespaces::USER;
    }
    if args.run.private_network {
        what = what | Namespaces::NET;
    }
    namespace::unshare(what).context(match args.user_namespace {
        true => "new namespaces are not allowed here (never in a chroot, to users other than root)",
        false => "new namespaces are not allowed here",
    })?;
    if args.user_namespace {
        let own = |id: u32| [IdRange { inside: 0, outside: id, count: 1 }];
        namespace::write_id_maps(std::process::id() as i32, &own(uid), &own(gid))?;
    }
    Ok(())
}

fn start_inner(args: &NestArgs, user: bool) -> Result<std::process::Child> {
    let mut command = Command::new("/proc/self/exe");
    let name = args.run.name.clone().unwrap_or_default();
    command.arg0("warren").arg("nest-inner").args(stage_arguments(&args.run, &name)?);
    command.args(user.then_some("--user"));
    command.args(args.user_namespace.then_some("--user-namespace"));
    if let Some(path) = &args.cgroup {
        command.arg("--cgroup").arg(path);
    }
    pass_on(&mut command, &args.run.manager_args);
    command.stdin(Stdio::null()).spawn().context("cannot start process 1 of the machine")
}

/// Waits for process 1, taking orders on standard input. True: *run* is gone.
fn wait(pid: i32) -> Result<bool> {
    let pidfd = process::pidfd_open(pid)?;
    // The descriptor itself: what a buffer has read, epoll does not see.
    let mut orders = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let epoll = Epoll::new()?;
    epoll.add(&orders, 0, Interest::READ)?;
    epoll.add(&pidfd, 1, Interest::READ)?;
    let mut ready = Events::with_capacity(2);
    let mut alone = false;
    while process::is_alive(pidfd.as_fd()) {
        epoll.wait(&mut ready, None)?;
        if alone || !ready.iter().any(|r| r.token == 0) {
            continue;
        }
        let mut given = [0u8; ORDERS_MAX];
        let count = orders.read(&mut given)?;
        alone = count == 0;
        if alone {
            epoll.remove(&orders)?;
        }
        // It may just have ended: the loop will notice.
        let _ = process::pidfd_signal(pidfd.as_fd(), signal_for(&given[..count]));
    }
    Ok(alone)
}

/// What process 1 is sent for the orders that have come since; none have when *run* is gone.
fn signal_for(orders: &[u8]) -> i32 {
    match orders.contains(&ORDER_STOP) && !orders.contains(&ORDER_KILL) {
        true => SIGNAL_POWEROFF,
        false => SIGKILL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_to_kill_counts_over_those_that_came_with_it() {
        let orders: [&[u8]; 5] = [b"s", b"sk", b"ss", b"kk", b""];
        let signals = [SIGNAL_POWEROFF, SIGKILL, SIGNAL_POWEROFF, SIGKILL, SIGKILL];
        assert_eq!(orders.map(signal_for), signals);
    }
}
