//! The last stage, process 1 of the new pid namespace: enters the cgroup, builds the ground and
//! becomes warren-init.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use warren_sys::signal::SIGKILL;

use anyhow::{Context, Result};
use warren_sys::namespace::{self, Namespaces};
use warren_sys::{process, signal};

use super::{Group, base, ground};
use crate::args::NestArgs;
use crate::machine::{CONTROL_VARIABLE, NAME_VARIABLE};

/// Variables of the caller that the machine gets too.
const KEPT_VARIABLES: [&str; 6] =
    ["TERM", "LANG", "NOTIFY_SOCKET", "WARREN_LOG", "NO_COLOR", "RUST_BACKTRACE"];

/// Directories that are searched for units inside.
const SYSTEM_UNIT_PATH: &str = "/etc/systemd/system.control:/run/systemd/system.control:\
     /run/systemd/transient:/etc/systemd/system:/run/systemd/system";

/// Builds everything and executes warren-init. Returns only when that failed.
pub fn run(args: &NestArgs, user: bool) -> Result<i32> {
    // The kernel kills the whole namespace with process 1, and process 1 with *outer*.
    process::set_parent_death_signal(SIGKILL)?;
    signal::reset_all();
    let name = args.run.name.as_deref().unwrap_or("nested");
    namespace::set_host_name(name)?;
    let cgroups = match &args.cgroup {
        Some(path) => enter_group(path)?,
        None => false,
    };
    if args.run.private_network {
        namespace::loopback_up()?;
    }
    let cgroups = ground::build(&args.run, cgroups)?;
    let programs = args.run.init.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
    base::write(Path::new(base::DIRECTORY), programs).context("cannot write the base units")?;
    let mut init = init_command(args, user, cgroups)?;
    let error = init.exec();
    Err(error).with_context(|| format!("{}", init.get_program().display()))
}

fn enter_group(path: &Path) -> Result<bool> {
    let group = Group::open(path).with_context(|| format!("{}", path.display()))?;
    group.enter()?;
    namespace::unshare(Namespaces::CGROUP)?;
    Ok(true)
}

fn init_command(args: &NestArgs, user: bool, cgroups: bool) -> Result<Command> {
    let init = args.run.init.as_deref().context("which warren-init?")?;
    let runtime = if user { "/run/user/0" } else { "/run" };
    std::fs::create_dir_all(runtime)?;
    let mut command = Command::new(init);
    command.arg0("warren-init").env_clear();
    for name in KEPT_VARIABLES {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("container", "warren")
        .env(NAME_VARIABLE, args.run.name.as_deref().unwrap_or("nested"))
        .env(CONTROL_VARIABLE, format!("{runtime}/warren/control"))
        .env("HOME", "/root");
    if user {
        command.env("XDG_RUNTIME_DIR", runtime);
        // Root's is closed to whoever is root in a user namespace alone.
        command.envs(std::env::var_os("HOME").map(|home| ("HOME", home)));
    }
    if !cgroups {
        command.arg("--no-cgroup");
    }
    command.arg("--").arg(if user { "--user" } else { "--system" });
    command.arg(format!("--unit={}", args.run.unit));
    command.arg(format!("--unit-path={SYSTEM_UNIT_PATH}:{}", base::DIRECTORY));
    if args.run.fleet.is_some() {
        command.arg(format!("--fleet-path={}", ground::RULES_DIRECTORY));
    }
    command.args(&args.run.manager_args);
    Ok(command)
}
