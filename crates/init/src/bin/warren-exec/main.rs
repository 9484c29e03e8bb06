//! warren-exec: the helper that makes service processes.
//!
//! Reads requests from a socket, one at a time. What can be prepared (strings, users,
//! directories, opened cgroups) is prepared here, before the clone; the new process then only
//! makes system calls ([`apply`]). It is init's child, not ours ([`warren_sys::clone`]).
//!
//! Must not decide: a request that cannot be followed to the letter is refused. Must stay
//! single-threaded: the new process shares our memory. May block in a system call; the others of
//! the pool go on. Ends when its socket does.

mod apply;
mod credentials;
mod ephemeral;
mod extensions;
mod fault;
mod fds;
mod identity;
mod images;
mod labels;
mod mount_into;
mod mounts;
mod namespaces;
mod nft_sets;
mod numa;
mod open_files;
mod prepare;
mod request;
mod sealed;
mod serve;
mod session;
mod stdio;
mod view;

use std::os::fd::{OwnedFd, RawFd};

use warren_sys::usage;

/// Text of `--help`.
const HELP: &str = "\
Usage: warren-exec --socket=FD [--cgroup-root=FD]   (started by warren-init)

  --socket=FD       where requests come from
  --cgroup-root=FD  root of the cgroup tree
  --continue=FD     what is left of a spawn, for the process that has opened its session
  --mount-into=...  mount something for the process whose pidfd is standard input
  --version         print the version
  --help            this text
";

fn main() {
    let words: Vec<String> = usage::words().skip(1).collect();
    let asks = |long: &str, short: &str| words.iter().any(|word| word == long || word == short);
    if asks("--help", "-h") {
        print!("{HELP}");
        return;
    }
    if asks("--version", "-V") {
        print!("{}", usage::version("warren-exec"));
        return;
    }
    if let [word] = &words[..]
        && let Some(fd) = word.strip_prefix("--continue=")
    {
        match own(fd) {
            Ok(fd) => session::go_on(fd),
            Err(fault) => {
                eprint!("{}", usage::refusal(&fault, HELP));
                std::process::exit(usage::EXIT_USAGE.into())
            }
        }
    }
    if let Some((first, rest)) = words.split_first()
        && let Some(parent) = first.strip_prefix("--mount-into=")
    {
        std::process::exit(mount_into::run(parent, rest));
    }
    let status = match arguments(words.into_iter()) {
        Ok(arguments) => serve::run(arguments),
        Err(fault) => {
            eprint!("{}", usage::refusal(&fault, HELP));
            usage::EXIT_USAGE.into()
        }
    };
    std::process::exit(status);
}

/// What init tells its helpers.
struct Arguments {
    /// Where requests come from.
    socket: OwnedFd,
    /// Root of the cgroup tree, unless there is none.
    cgroup_root: Option<OwnedFd>,
}

fn arguments(args: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut socket, mut cgroup_root) = (None, None);
    for arg in args {
        match arg.split_once('=') {
            Some(("--socket", fd)) => socket = Some(own(fd)?),
            Some(("--cgroup-root", fd)) => cgroup_root = Some(own(fd)?),
            _ => return Err(usage::unexpected(&arg)),
        }
    }
    let socket = socket.ok_or("no --socket=FD: started by warren-init only")?;
    Ok(Arguments { socket, cgroup_root })
}

fn own(fd: &str) -> Result<OwnedFd, String> {
    let fd: RawFd = fd.parse().map_err(|_| format!("not an fd: {fd}"))?;
    fds::own_inherited(fd).map_err(|e| format!("fd {fd}: {e}"))
}
