//! A soft reboot: init executes itself anew, from another root directory if there is one.
//!
//! What outlasts it is what the kernel keeps for a process over execve(2) — its children, its number,
//! its open descriptors — and a memfd that says which descriptor is what. It comes to the new program
//! by an environment variable, which another program in our place overlooks. Must not: decide what is
//! kept; the manager has stopped and dropped everything else before.
//!
//! And the very end of an init whose file was replaced: a copy of it in memory ends the machine.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use warren_sys::errno::EINVAL;

use serde::{Deserialize, Serialize};
use warren_init::protocol::{Packet, decode, encode};
use warren_sys::child::{self, ExecStrings};
use warren_sys::namespace::{self, Namespaces};
use warren_sys::{Error, Result, fdpass, memfd, process, root, usage};

use crate::environment::environment;
use crate::place::Place;
use crate::say::say;
use crate::shared::Shared;
use crate::store::Store;

/// The number of the memfd, for the program that follows.
pub const HANDED_OVER_ENV: &str = "WARREN_INIT_HANDED_OVER";

/// Becomes the root directory if it is there (systemd-soft-reboot.service(8)).
const NEXT_ROOT: &str = "/run/nextroot";

/// How the link to a file ends that was removed (proc_pid_exe(5)).
const REPLACED: &str = " (deleted)";

/// Where init is looked for if it is not where this one was.
const USUAL_PATHS: [&str; 2] = ["/usr/lib/warren/warren-init", "/sbin/init"];

/// Standard descriptors come first, then those of our own.
const FD_MIN: i32 = 10;

/// 65,536 names of 512 bytes and their numbers.
const HANDED_OVER_BYTES_MAX: usize = 64 << 20;

/// What is in the memfd.
#[derive(Serialize, Deserialize)]
struct HandedOver {
    instance: [u8; 16],
    incarnation: u64,
    soft_reboots: u32,
    cgroup_root: Option<String>,
    /// Numbers of descriptors.
    ring: i32,
    store: BTreeMap<String, i32>,
}

impl Packet for HandedOver {
    const VERSION: u8 = 1;
}

/// What is left of the init before this one.
pub struct Before {
    /// Random, its.
    pub instance: Option<[u8; 16]>,
    /// Counts managers.
    pub incarnation: u64,
    /// With the one that has just been done.
    pub soft_reboots: u32,
    /// The cgroup that it managed.
    pub cgroup_root: Option<PathBuf>,
    /// Memory of the exit ring.
    pub ring: Option<OwnedFd>,
    /// What it kept for the manager.
    pub store: Store,
}

impl Before {
    /// There was none.
    pub fn nothing() -> Before {
        Before {
            instance: None,
            incarnation: 0,
            soft_reboots: 0,
            cgroup_root: None,
            ring: None,
            store: Store::new(),
        }
    }

    /// Takes up what was handed over, if something was. What cannot be understood is left alone:
    /// this is then a first start.
    pub fn take() -> Option<Before> {
        let number = std::env::var(HANDED_OVER_ENV).ok()?;
        match number.parse().map_err(|_| Error::new(HANDED_OVER_ENV, EINVAL)).and_then(take_from) {
            Ok(before) => Some(before),
            Err(error) => {
                say(&format!("cannot take over from the previous init: {error}"));
                None
            }
        }
    }
}

fn take_from(number: i32) -> Result<Before> {
    let memory = fdpass::take_inherited(number, FD_MIN)?;
    let bytes = memfd::read_all(memory.as_fd(), HANDED_OVER_BYTES_MAX)?;
    let wrong = |_| Error::new("reading the state of the previous init", EINVAL);
    let handed: HandedOver = decode(&bytes).map_err(wrong)?;
    let mut store = Store::new();
    for (name, number) in handed.store {
        let taken = fdpass::adopt_inherited(number).and_then(|fd| out_of_the_way(&mut store, fd));
        if taken.is_ok_and(|fd| store.put(&name, fd).is_err()) {
            say(&format!("cannot keep {name}"));
        }
    }
    Ok(Before {
        instance: Some(handed.instance),
        incarnation: handed.incarnation,
        soft_reboots: handed.soft_reboots,
        cgroup_root: handed.cgroup_root.map(PathBuf::from),
        ring: Some(fdpass::take_inherited(handed.ring, FD_MIN)?),
        store,
    })
}

/// Programs get descriptors of their own at low numbers. Where it was is closed like what is kept: that may wait.
fn out_of_the_way(store: &mut Store, fd: OwnedFd) -> Result<OwnedFd> {
    if fd.as_raw_fd() >= FD_MIN {
        return Ok(fd);
    }
    let copy = fdpass::duplicate(&fd, FD_MIN)?;
    store.closing.close(fd);
    Ok(copy)
}

/// Goes to the next root directory, if there is one, and executes init. Returns only on failure.
pub fn start_over(shared: &Shared, place: &Place, cgroup_root: Option<&Path>) -> Error {
    let own = own_path();
    match hand_over(shared, cgroup_root).and_then(|memory| Ok((memory, keep_program()?))) {
        Ok((memory, program)) => {
            if place.is_pid_1 && Path::new(NEXT_ROOT).exists() {
                go_to_next_root(place, &own);
            }
            execute(&own, &program, &memory)
        }
        Err(error) => error,
    }
}

/// Whether the file that a process runs is on the disk no more, as after an upgrade. It goes with the last
/// process that runs it, and so long its file system cannot be made read-only (systemd-halt.service(8)).
pub fn is_replaced(pid: i32) -> bool {
    process::program(pid).is_ok_and(|program| program.ends_with(REPLACED))
}

/// Executes a copy of this program out of memory, of which no file system knows, with an argument of its own.
/// Returns only on failure.
pub fn execute_from_memory(shared: &Shared, argument: &str) -> Error {
    match copy_to_memory(shared).and_then(|copy| Ok((strings_of(&copy, argument)?, copy))) {
        Ok(((path, argv, env), _copy)) => child::exec(&path, &argv, &env),
        Err(error) => error,
    }
}

fn copy_to_memory(shared: &Shared) -> Result<OwnedFd> {
    let own = "/proc/self/exe";
    let program = std::fs::read(own);
    let program =
        program.map_err(|e| Error::at("read", own, e.raw_os_error().unwrap_or(EINVAL)))?;
    let stored = (0..shared.store.len()).filter_map(|at| shared.store.get(at)).map(|(_, fd)| fd);
    // To close these could wait: execve(2) is not to do it.
    for fd in stored.chain(shared.store.closing.fds()) {
        fdpass::set_inheritable(fd)?;
    }
    memfd::sealed("warren-init", &program)
}

fn strings_of(copy: &OwnedFd, argument: &str) -> Result<(CString, ExecStrings, ExecStrings)> {
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let mut argv = ExecStrings::with_capacity(2);
    [path.as_str(), argument].iter().try_for_each(|text| argv.push(text))?;
    argv.finish();
    let mut env = ExecStrings::with_capacity(0);
    environment(&[HANDED_OVER_ENV]).iter().try_for_each(|entry| env.push(entry))?;
    env.finish();
    Ok((CString::new(path).expect("a number has no zero byte"), argv, env))
}

/// Where this program was, and after an upgrade its successor is: the kernel says so behind the name.
fn own_path() -> PathBuf {
    let path = std::env::current_exe().unwrap_or_default();
    match path.to_str().and_then(|path| path.strip_suffix(REPLACED)) {
        Some(before) => before.into(),
        None => path,
    }
}

/// This program, should there be none at the new root.
fn keep_program() -> Result<OwnedFd> {
    let own = "/proc/self/exe";
    let file = std::fs::File::open(own)
        .map_err(|e| Error::at("open", own, e.raw_os_error().unwrap_or(EINVAL)))?;
    Ok(OwnedFd::from(file))
}

fn hand_over(shared: &Shared, cgroup_root: Option<&Path>) -> Result<OwnedFd> {
    let mut store = BTreeMap::new();
    for (name, fd) in (0..shared.store.len()).filter_map(|at| shared.store.get(at)) {
        fdpass::set_inheritable(fd)?;
        store.insert(name.to_owned(), fd.as_raw_fd());
    }
    // To close these could wait: execve(2) is not to do it.
    for fd in shared.store.closing.fds() {
        fdpass::set_inheritable(fd)?;
    }
    fdpass::set_inheritable(shared.ring_fd.as_fd())?;
    let handed = HandedOver {
        instance: shared.instance,
        incarnation: shared.incarnation,
        soft_reboots: shared.soft_reboots.saturating_add(1),
        cgroup_root: cgroup_root.map(|path| path.to_string_lossy().into_owned()),
        ring: shared.ring_fd.as_raw_fd(),
        store,
    };
    let bytes =
        encode(&handed).map_err(|_| Error::new("writing the state for the next init", EINVAL))?;
    let memory = memfd::sealed("warren-handed-over", &bytes)?;
    fdpass::set_inheritable(memory.as_fd())?;
    Ok(memory)
}

/// Where it cannot be, the old root stays: that is said, and better than none.
fn go_to_next_root(place: &Place, own: &Path) {
    // Not followed: a link is one for those who are there.
    let is_there = |init: &Path| {
        let path = Path::new(NEXT_ROOT).join(init.strip_prefix("/").unwrap_or(init));
        path.symlink_metadata().is_ok()
    };
    if !is_there(own) && !USUAL_PATHS.iter().any(|path| is_there(Path::new(path))) {
        return say(&format!("keeping the root directory: {NEXT_ROOT} has no init"));
    }
    // Whether the mounts of a container are its own cannot be asked: it makes them so.
    let own = if place.is_host { Ok(()) } else { namespace::unshare(Namespaces::MOUNT) };
    match own.and_then(|()| root::switch_root(Path::new(NEXT_ROOT))) {
        Ok(()) => say(&format!("switched the root directory to {NEXT_ROOT}")),
        Err(error) => say(&format!("keeping the root directory: {error}")),
    }
}

fn execute(own: &Path, program: &OwnedFd, memory: &OwnedFd) -> Error {
    let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", program.as_raw_fd()));
    let usual = USUAL_PATHS.into_iter().map(PathBuf::from);
    let mut last = Error::at("execve", own, EINVAL);
    for path in std::iter::once(own.to_owned()).chain(usual).chain([by_descriptor]) {
        last = match strings(&path, memory) {
            Ok((path, argv, env)) => child::exec(&path, &argv, &env),
            Err(error) => error,
        };
        last = last.on(&path);
    }
    last
}

/// Path, arguments and environment: those that this program was given.
fn strings(path: &Path, memory: &OwnedFd) -> Result<(CString, ExecStrings, ExecStrings)> {
    let text = path.to_string_lossy();
    let path = CString::new(text.as_bytes()).map_err(|_| Error::at("execve", path, EINVAL))?;
    let mut argv = ExecStrings::with_capacity(0);
    usage::words().try_for_each(|argument| argv.push(&argument))?;
    argv.finish();
    let mut env = ExecStrings::with_capacity(0);
    environment(&[HANDED_OVER_ENV]).iter().try_for_each(|entry| env.push(entry))?;
    env.push(&format!("{HANDED_OVER_ENV}={}", memory.as_raw_fd()))?;
    env.finish();
    Ok((path, argv, env))
}
