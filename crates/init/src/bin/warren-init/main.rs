//! warren-init: process 1 of a host, a VM or a container, or the root process of a nested or
//! user manager.
//!
//! Parent of every service process. Spawns through its helpers, reaps into the exit ring, holds
//! fds, starts warrend again when it ends, does the final reboot(2). One thread.
//!
//! Must not: know units, read configuration, wait for anything but epoll, or let anything grow
//! once the loop runs (the tables are made in [`supervise::Init::new`], with their bounds). Start reading at `supervise`.

mod again;
mod backoff;
mod boot;
mod closing;
mod command_line;
mod control;
mod crash;
mod environment;
mod finish;
mod helper;
mod initramfs;
mod looks;
mod machine_id;
mod options;
mod place;
mod power;
mod program;
mod say;
mod shared;
mod store;
mod supervise;

use options::Options;
use say::say;
use warren_sys::{process, usage};

fn main() {
    let status = match Options::parse(usage::words().skip(1), std::process::id() == 1) {
        Ok(options) if options.help => {
            print!("{}", options::HELP);
            0
        }
        Ok(options) if options.version => {
            print!("{}", usage::version("warren-init"));
            0
        }
        Ok(options) => run(options),
        Err(fault) => {
            eprint!("{}", usage::refusal(&fault, options::HELP));
            usage::EXIT_USAGE.into()
        }
    };
    std::process::exit(status);
}

fn run(options: Options) -> i32 {
    options.faults.iter().for_each(|fault| say(&format!("{fault}: ignored")));
    if is_known_by_name() {
        let _ = process::set_name(SYSTEMD);
    }
    if let Some(action) = options.finish {
        let place = place::Place {
            is_pid_1: std::process::id() == 1,
            is_host: boot::is_host(),
            tree: None,
        };
        return power::finish(action, &place);
    }
    let before = again::Before::take();
    // Another's manager has its rights by them. Without, services have none of them all the same.
    if process::own_ids().0 == 0
        && let Err(error) = warren_sys::child::drop_inherited()
    {
        say(&format!("reading own capabilities: {error}"));
    }
    let place = boot::prepare(&options, before.as_ref());
    let is_host = place.is_host;
    match supervise::Init::new(options, place, before) {
        Ok(mut init) => init.run(),
        Err(error) => {
            say(&format!("cannot start: {error}"));
            if is_host {
                crash::end_without();
            }
            1
        }
    }
}

/// Ansible, Puppet, Chef and many scripts tell which service manager they are to speak to by the name of
/// process 1 (`/proc/1/comm`).
const SYSTEMD: &str = "systemd";

/// Whether this is process 1 of a host or a container, and none of `warren run`, which finds its own by name.
fn is_known_by_name() -> bool {
    std::process::id() == 1 && std::env::var_os("container").is_none_or(|kind| kind != "warren")
}
