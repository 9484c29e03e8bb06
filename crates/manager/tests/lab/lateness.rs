//! Processes that get no processor for a while, as on a machine that is far too busy: SIGSTOP, and
//! SIGCONT a moment later.
//!
//! Whoever waits for one of them sees it late, and finds what is done by several in another order than
//! a quiet machine ever shows.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use warren_sys::signal::{SIGCONT, SIGSTOP};

use super::{Machine, pause};
use warren_testkit::{Dice, variable};

/// So long one is held up at most: less than what any unit of the tests is given.
const HELD_MAX_US: u64 = 250_000;

/// Between the end of one and the begin of the next at most.
const APART_MAX_US: u64 = 60_000;

/// So long is waited for a process that is not its program yet.
const UNBORN_WITHIN: Duration = Duration::from_millis(20);

/// Holds up one process of the machine after the other until told to end: exec helpers, what they make
/// before it is its program, the manager, process 1. How often one was. `WARREN_LATE=0`: never.
pub fn hold_up(m: &Machine, ends: &AtomicBool, seed: u64) -> usize {
    let (mut count, mut dice) = (0, Dice(seed));
    while variable("WARREN_LATE", 1) != 0 && !ends.load(Ordering::Relaxed) && !m.is_over() {
        pause(Duration::from_micros(dice.roll(APART_MAX_US)));
        let chosen = match dice.roll(8) {
            0 | 1 => any(&mut dice, &m.helper_pids()),
            2..=5 => any(&mut dice, &unborn(m)),
            6 => m.manager_pid(),
            _ => Some(m.init_pid),
        };
        let time = Duration::from_micros(dice.roll(HELD_MAX_US));
        count += usize::from(chosen.is_some_and(|pid| hold(pid, time)));
    }
    count
}

fn any(dice: &mut Dice, pids: &[i32]) -> Option<i32> {
    pids.get(dice.roll(pids.len() as u64) as usize).copied()
}

fn unborn(m: &Machine) -> Vec<i32> {
    let end = Instant::now() + UNBORN_WITHIN;
    loop {
        let pids = m.unborn_pids();
        if !pids.is_empty() || Instant::now() >= end {
            return pids;
        }
    }
}

/// False if it is gone already. It may be killed meanwhile.
fn hold(pid: i32, time: Duration) -> bool {
    let Ok(pidfd) = warren_sys::process::pidfd_open(pid) else { return false };
    let signal = |signal| warren_sys::process::pidfd_signal(pidfd.as_fd(), signal).is_ok();
    if !signal(SIGSTOP) {
        return false;
    }
    pause(time);
    signal(SIGCONT);
    true
}
