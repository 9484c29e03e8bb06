//! Processes on the way to their program whose helper is gone.
//!
//! A helper sleeps until the process that it made has executed its program. On a file system whose
//! server does not answer, or behind an automount, that can take for ever, so a helper behind which
//! others wait is replaced, and its process goes on alone. That one still has the helper's end of the
//! socket, close-on-exec: when it hangs up, the process is its program or is ending, and so does not
//! run the helper's program any more: the kernel closes what is to be closed after it has taken the
//! new program's memory in place of the old one, and at an end after it has given up the memory.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_sys::signal::SIGKILL;

use warren_core::model::ids::EffectId;
use warren_sys::{process, time};

/// Names of the programs that a process runs before it is its own: the helpers', and the one that opens sessions.
const HELPER_NAMES: [&str; 2] = ["warren-exec", SESSION_NAME];

/// The program that opens a session of PAM.
const SESSION_NAME: &str = "warren-pam";

/// Processes that are looked after at most; with more, no helper is replaced. Two descriptors each.
pub const HELD_MAX: usize = 1024;

/// A process that is not its program yet.
pub struct Unborn {
    /// The spawn.
    pub id: EffectId,
    /// Its number; 0 for what the last incarnation sent.
    pub number: u64,
    /// The process.
    pub pid: i32,
    /// The same.
    pub pidfd: OwnedFd,
    /// When it was there, CLOCK_MONOTONIC, nanoseconds.
    pub seen_ns: u64,
}

impl Unborn {
    /// A process if it is not its program yet.
    pub fn of(id: EffectId, number: u64, pid: i32) -> Option<Unborn> {
        let seen_ns = time::monotonic_ns();
        let pidfd = process::pidfd_open(pid).ok()?;
        is_helper(pid).then_some(Unborn { id, number, pid, pidfd, seen_ns })
    }

    /// This process, as if it were one.
    #[cfg(test)]
    pub fn for_test(id: EffectId) -> Unborn {
        let pid = std::process::id() as i32;
        let pidfd = process::pidfd_open(pid).expect("it runs");
        Unborn { id, number: 0, pid, pidfd, seen_ns: 0 }
    }
}

/// All of them.
#[derive(Default)]
pub struct Held {
    /// By slot. No slot is given twice: what was reported of one that is closed since is of nobody.
    sockets: BTreeMap<u32, OwnedFd>,
    next: u32,
    unborn: Vec<Unborn>,
}

impl Held {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.unborn.len()
    }

    /// Whether anything will be heard of one.
    pub fn is_listening(&self) -> bool {
        !self.sockets.is_empty()
    }

    /// The number of the oldest of their spawns.
    pub fn oldest(&self) -> Option<u64> {
        self.unborn.iter().map(|unborn| unborn.number).min()
    }

    /// Whether it is one of them.
    pub fn knows(&self, pid: i32) -> bool {
        self.unborn.iter().any(|unborn| unborn.pid == pid)
    }

    /// All slots in use.
    pub fn slots(&self) -> Vec<u32> {
        self.sockets.keys().copied().collect()
    }

    /// Takes what a helper that is gone was heard by; the slot to watch it as.
    pub fn take_socket(&mut self, socket: OwnedFd) -> u32 {
        let slot = self.next;
        self.next = self.next.wrapping_add(1);
        self.sockets.insert(slot, socket);
        slot
    }

    /// What was taken as that slot.
    pub fn socket(&self, slot: u32) -> Option<BorrowedFd<'_>> {
        self.sockets.get(&slot).map(AsFd::as_fd)
    }

    /// Waits for a process of a helper whose socket was taken.
    pub fn take(&mut self, unborn: Unborn) {
        self.unborn.push(unborn);
    }

    /// A socket has hung up: those who are their programs now, and the spawns and numbers of those who are killed: of one
    /// that still is none nothing would be heard any more. It is a helper's of the last incarnation but one, or it is
    /// ending anyway.
    pub fn hung_up(&mut self, slot: u32) -> (Vec<Unborn>, Vec<(EffectId, i32)>) {
        if self.sockets.remove(&slot).is_none() {
            return Default::default();
        }
        let born = self.unborn.extract_if(.., |unborn| !is_helper(unborn.pid)).collect();
        let lost = if self.is_listening() { &[] } else { &self.unborn[..] };
        let is_killed =
            |unborn: &&Unborn| process::pidfd_signal(unborn.pidfd.as_fd(), SIGKILL).is_ok();
        let killed = lost.iter().filter(is_killed).map(|unborn| (unborn.id, unborn.pid));
        (born, killed.collect())
    }

    /// Takes one that has ended before it was its program, by its record of that time.
    pub fn ended(&mut self, pid: i32, time_ns: u64) -> Option<Unborn> {
        let is_its = |unborn: &Unborn| unborn.pid == pid && unborn.seen_ns <= time_ns;
        let index = self.unborn.iter().position(is_its)?;
        Some(self.unborn.swap_remove(index))
    }
}

/// Whether it runs a program on the way to its own.
pub fn is_helper(pid: i32) -> bool {
    HELPER_NAMES.contains(&&*program_name(pid))
}

/// Whether it is opening a session of PAM.
pub fn opens_session(pid: i32) -> bool {
    program_name(pid) == SESSION_NAME
}

fn program_name(pid: i32) -> String {
    let program = process::program(pid).unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    name.strip_suffix(" (deleted)").unwrap_or(name).to_owned()
}
