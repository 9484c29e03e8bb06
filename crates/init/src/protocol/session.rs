//! A spawn that opens a session of PAM on its way (systemd.exec(5), "PAMName=").
//!
//! Modules of PAM are anybody's code, so they run in no helper: the new process executes `warren-pam`, which is for
//! that alone, opens the session there, leaves a copy of it behind that closes it again, and executes the helper's
//! program for what is left of the spawn. It is the same process all the time: the main process of its unit.
//!
//! Each of these programs gets a [`Continuation`], in a memfd. The helper, which waits as for any other process, is
//! told what becomes of it by a [`Report`], and after that by a word of shared memory: the unit's own filter may
//! forbid a process to say anything.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use serde::{Deserialize, Serialize};
use warren_sys::memfd::SharedWords;

use super::exec::{ExecSpec, Missing, SpawnError};
use super::{ExecStep, Packet};

/// The fd that `warren-pam` finds its [`Continuation`] at.
pub const CONTINUATION_FD: RawFd = 3;

/// What is left to be done for a process, and the fds that it has for it. They are open in it under these numbers,
/// none of which is one that its program gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// Whose session it is.
    pub user: String,
    /// The terminal of the session.
    pub terminal: Option<String>,
    /// The environment, `NAME=value`, but for what has the number of the process in it. Modules may change it.
    pub env: Vec<String>,
    /// The whole of the spawn.
    pub exec: Box<ExecSpec>,
    /// The request's fds.
    pub fds: Vec<RawFd>,
    /// The helper's program.
    pub program: RawFd,
    /// What the helper is asked by: who hears of it hears when the process is its program.
    pub socket: RawFd,
    /// Where [`Report`]s go.
    pub report: RawFd,
    /// The word that says what failed after the last report.
    pub fault: RawFd,
    /// Memory of [`super::birth::Birth`].
    pub birth: RawFd,
    /// Where in it.
    pub place: u64,
}

impl Packet for Continuation {
    const VERSION: u8 = 1;
}

/// What the process says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// A step has failed. The process ends.
    Failed(SpawnError),
    /// Its filter of system calls and execve(2) are left. The packet has an fd: a pipe that ends when the process is
    /// its program, or ends.
    Executes {
        /// What it runs without.
        missing: Missing,
        /// What it executes, for what is said if that fails.
        program: String,
    },
}

impl Packet for Report {
    const VERSION: u8 = 1;
}

/// Bytes of the memory of a [`Fault`].
pub const FAULT_BYTES: u64 = 8;

/// The step that failed after the last report, in memory that the helper sees.
pub struct Fault(pub SharedWords);

const STEP_SHIFT: u32 = 32;

impl Fault {
    /// Process: says it.
    pub fn set(&self, step: ExecStep, errno: i32) {
        let word = u64::from(step as u8) << STEP_SHIFT | u64::from(errno.unsigned_abs());
        self.0.as_slice().iter().take(1).for_each(|first| first.store(word, Release));
    }

    /// Helper: what was said.
    pub fn get(&self) -> Option<(ExecStep, i32)> {
        let word = self.0.as_slice().first().map_or(0, |first| first.load(Acquire));
        let step = ExecStep::ALL.iter().find(|step| **step as u64 == word >> STEP_SHIFT)?;
        Some((*step, word as u32 as i32))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use warren_sys::memfd;

    use super::*;

    #[test]
    fn a_fault_is_nothing_until_it_is_said() {
        let fd = memfd::fixed_size("fault", FAULT_BYTES).expect("memory");
        let here = Fault(SharedWords::map(fd.as_fd()).expect("it is sealed"));
        let there = Fault(SharedWords::map(fd.as_fd()).expect("it is sealed"));
        assert_eq!(here.get(), None);
        there.set(ExecStep::Exec, 2);
        assert_eq!(here.get(), Some((ExecStep::Exec, 2)));
        there.set(ExecStep::SystemCallFilter, 0);
        assert_eq!(here.get(), Some((ExecStep::SystemCallFilter, 0)));
    }
}
