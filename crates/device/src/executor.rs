//! The process that has the privileges and reads no disk: it writes lvm2's files, makes links and
//! runs lvm2 and mdadm, for the process that reads disks and has no privileges.
//!
//! What it is asked for comes from a process that a hostile disk may have taken over: each order is
//! looked at by [`crate::orders`] first. It ends with the other side.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::{fdpass, memfd, notify, storage};

use crate::orders::{self, Answer, ExecutorOrder, Run};

mod files;
mod runner;

use runner::Runner;

/// What a message with orders says.
pub(crate) const ORDERS: &[u8] = b"ORDERS";

/// Largest message that is believed, in bytes: the files of 100,000 PVs take a tenth of it.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// What woke it.
const ASKED: u64 = 0;
const ENDED: u64 = 1;

/// Where files and links are made.
#[derive(Debug, Clone)]
pub struct Places {
    /// `/dev`
    pub dev: PathBuf,
    /// `/run/lvm`
    pub lvm_run: PathBuf,
    /// Where [`crate::begun`] keeps its records.
    pub records: PathBuf,
}

/// Carries out what comes over the socket, until the other side is gone.
pub fn serve(socket: OwnedFd, places: &Places) -> warren_sys::Result<()> {
    let mut runner = Runner::new()?;
    let (epoll, mut ready) = (Epoll::new()?, Events::with_capacity(4));
    epoll.add(socket.as_fd(), ASKED, Interest::READ)?;
    epoll.add(runner.fd(), ENDED, Interest::READ)?;
    loop {
        epoll.wait(&mut ready, None)?;
        for (id, result) in runner.ended() {
            answer(&socket, &Answer::Ended(id, result))?;
        }
        if ready.iter().any(|source| source.token == ASKED) {
            let mut fds = Vec::new();
            if fdpass::recv(socket.as_fd(), &mut [0; 16], &mut fds, false)?.bytes == 0 {
                return Ok(());
            }
            carry_out(&socket, fds, places, &mut runner)?;
        }
    }
}

fn carry_out(
    socket: &OwnedFd,
    fds: Vec<OwnedFd>,
    places: &Places,
    runner: &mut Runner,
) -> warren_sys::Result<()> {
    for fd in fds.iter().filter(|fd| memfd::is_sealed(fd)) {
        let bytes = memfd::read_all(fd.as_fd(), MESSAGE_BYTES_MAX)?;
        for order in orders::read(&String::from_utf8_lossy(&bytes)) {
            if let Some(said) = obey(order, places, runner) {
                answer(socket, &said)?;
            }
        }
    }
    Ok(())
}

fn obey(order: Option<ExecutorOrder>, places: &Places, runner: &mut Runner) -> Option<Answer> {
    let Some(order) = order else {
        return Some(Answer::Trouble("refused a malformed order".to_owned()));
    };
    let refusal = order.refusal();
    let trouble = |path: &str, done: io::Result<()>| {
        done.err().map(|error| Answer::Trouble(format!("{path}: {error}")))
    };
    match (order, refusal) {
        (ExecutorOrder::Run(Run { id, .. }) | ExecutorOrder::Register(id, _), Some(why)) => {
            Some(Answer::Ended(id, Err(why)))
        }
        (_, Some(why)) => Some(Answer::Trouble(why)),
        (ExecutorOrder::Alive, None) => {
            // What cannot be sent is asked for again soon.
            let _ = notify::send("WATCHDOG=1", &[]);
            None
        }
        (ExecutorOrder::Run(run), None) => {
            runner.submit(run);
            None
        }
        (ExecutorOrder::Write(file), None) => {
            trouble(&file.path, files::write(&places.lvm_run, &file.path, &file.text))
        }
        (ExecutorOrder::Remove(path, number), None) => {
            trouble(&path, files::remove(&places.lvm_run, &path, number))
        }
        (ExecutorOrder::Link(link, node), None) => {
            trouble(&link, files::link(&places.dev, &link, node.as_deref()))
        }
        (ExecutorOrder::Keep(group, begun), None) => {
            let (name, text) = (group.to_string(), begun.map(|begun| begun.to_text()));
            trouble(&name, files::keep(&places.records, &name, text.as_deref()))
        }
        (ExecutorOrder::Register(id, node), None) => {
            let path = places.dev.join(node.trim_start_matches("/dev/"));
            let done = storage::register_btrfs(&path);
            Some(Answer::Ended(id, done.map_err(|error| error.to_string())))
        }
    }
}

/// Waits while the other side has not taken what was said before.
fn answer(socket: &OwnedFd, answer: &Answer) -> warren_sys::Result<()> {
    fdpass::send(socket.as_fd(), answer.write().as_bytes(), &[])
}

/// Starts the executor as a process of its own and returns the link to it. `program` is this
/// program, which takes the socket as its standard input with [`ARGUMENT`].
pub fn start(program: &Path, places: &Places) -> io::Result<OwnedFd> {
    let raw = |error: warren_sys::Error| io::Error::from_raw_os_error(error.errno);
    let (near, far) = fdpass::seqpacket_pair(false).map_err(raw)?;
    let place = |name: &str, path: &Path| format!("--{name}={}", path.display());
    std::process::Command::new(program)
        .args([ARGUMENT, &place("dev", &places.dev), &place("lvm-run", &places.lvm_run)])
        .arg(place("records", &places.records))
        .stdin(far)
        .spawn()?;
    Ok(near)
}

/// The argument of the program by which it is the executor.
pub const ARGUMENT: &str = "--executor";

#[cfg(test)]
mod tests;
