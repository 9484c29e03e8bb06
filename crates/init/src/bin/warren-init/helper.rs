//! An exec helper, as init sees it.

use std::os::fd::OwnedFd;
use warren_sys::signal::SIGKILL;

use warren_sys::{Result, fdpass, process, time};

use crate::backoff::Backoff;
use crate::say::say;

/// One that was killed is reaped within this time, or the kernel holds it, as in a look at a path whose
/// server does not answer: others may wait for it.
const DYING_NS_MAX: u64 = 2_000_000_000;

/// One exec helper: its place stays, the process behind it may change.
pub struct Helper {
    /// 0 while none runs.
    pub pid: i32,
    /// The manager's end of its socket, kept for every manager to come.
    pub socket: OwnedFd,
    /// When it was started, or has ended, CLOCK_MONOTONIC, nanoseconds.
    started_ns: u64,
    /// When the next is to be started.
    pub start_at_ns: Option<u64>,
    backoff: Backoff,
    /// When we killed it, as the manager asked.
    killed_ns: Option<u64>,
    /// A manager that was started anew on request has it end, for the program that is on the disk now.
    is_due_to_go: bool,
}

impl Helper {
    /// A place whose process is due at once. Its socket is replaced when it starts.
    pub fn new(backoff: Backoff) -> Result<Helper> {
        let (socket, _) = fdpass::seqpacket_pair(false)?;
        Ok(Helper {
            pid: 0,
            socket,
            started_ns: 0,
            start_at_ns: Some(0),
            backoff,
            killed_ns: None,
            is_due_to_go: false,
        })
    }

    /// A process that takes this place, and the manager's end of its socket.
    pub fn started(&mut self, pid: i32, socket: OwnedFd, now: u64) {
        (self.pid, self.socket) = (pid, socket);
        (self.started_ns, self.start_at_ns) = (now, None);
        self.is_due_to_go = false;
    }

    /// That it ends by itself is no fault of its from now on: the manager that comes has it end.
    pub fn is_to_go(&mut self) {
        self.is_due_to_go = true;
    }

    /// Kills it, if it runs: the next one is started as soon as it is reaped, or soon if the kernel
    /// holds it.
    pub fn end(&mut self) {
        if self.pid > 0 && process::kill(self.pid, SIGKILL).is_ok() {
            self.killed_ns.get_or_insert_with(time::monotonic_ns);
        }
    }

    /// Whether we have killed it.
    pub fn was_killed(&self) -> bool {
        self.killed_ns.is_some()
    }

    /// When there is something to be done about it.
    pub fn due_ns(&self) -> Option<u64> {
        self.start_at_ns.or(self.left_at_ns())
    }

    /// When another takes its place although it was not reaped.
    fn left_at_ns(&self) -> Option<u64> {
        self.killed_ns.filter(|_| self.pid > 0).map(|killed_ns| killed_ns + DYING_NS_MAX)
    }

    /// Waits no longer for it if the kernel holds it. SIGKILL is pending: it does not come back to its
    /// program, so it begins nothing more that it was asked for, and in the kernel clone3(2) fails. Its
    /// record, whenever it comes, is that of a process that nobody knows.
    pub fn leave_if_held(&mut self, now: u64) {
        if self.left_at_ns().is_some_and(|at| at <= now) {
            say(&format!(
                "exec helper {} does not exit (uninterruptible sleep): starting another one",
                self.pid
            ));
            self.ended(now, false);
        }
    }

    /// It was reaped, or is left; `by_itself` if it has left of its own accord.
    pub fn ended(&mut self, now: u64, by_itself: bool) {
        self.pid = 0;
        let delay = match self.killed_ns.take() {
            Some(_) => 0,
            None if by_itself && std::mem::take(&mut self.is_due_to_go) => 0,
            None => self.backoff.delay_ns(now.saturating_sub(self.started_ns)),
        };
        self.start_at_ns = Some(now + delay);
        self.started_ns = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_sent_away_by_one_manager_after_another_has_not_failed() {
        let mut helper = Helper::new(Backoff::new(u64::MAX)).expect("a pair of sockets");
        for now in 0..9 {
            let (socket, _) = fdpass::seqpacket_pair(false).expect("a pair");
            helper.started(7, socket, now);
            helper.is_to_go();
            helper.ended(now, true);
            assert_eq!(helper.due_ns(), Some(now));
        }
        helper.ended(9, true);
        helper.ended(9, true);
        assert!(helper.due_ns() > Some(9), "nobody has sent it away");
    }

    #[test]
    fn another_takes_the_place_of_one_that_is_not_reaped_after_it_was_killed() {
        let mut helper = Helper::new(Backoff::new(0)).expect("a pair of sockets");
        let (socket, _) = fdpass::seqpacket_pair(false).expect("a pair");
        helper.started(i32::MAX, socket, 5);
        helper.leave_if_held(u64::MAX);
        assert_eq!((helper.pid, helper.due_ns()), (i32::MAX, None), "nobody has killed it");
        helper.killed_ns = Some(7);
        let due = 7 + DYING_NS_MAX;
        assert_eq!(helper.due_ns(), Some(due));
        helper.leave_if_held(due - 1);
        assert_eq!(helper.pid, i32::MAX);
        helper.leave_if_held(due);
        assert_eq!((helper.pid, helper.due_ns()), (0, Some(due)));
        assert!(!helper.was_killed());
    }
}
