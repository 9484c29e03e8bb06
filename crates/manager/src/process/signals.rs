//! Signals to processes and groups.
//!
//! The main process of a group is signalled first. Whether others are in its group costs more to
//! find out than the signal, and of most services nobody is; whether it is stopped and is to go on is
//! no matter once it has ended. So where many stop at once both are seen to a moment later, after the
//! ends that have come meanwhile, and not at all of a unit of which they left nobody. Where few do it
//! is done at once: what the main process starts because of its signal is not to get it too.

use crate::base::worker_pool::Workers;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::FollowUp;
use warren_sys::cgroup::Tree;
use warren_sys::eventfd::EventFd;
use warren_sys::process;
pub(crate) use warren_sys::signal::{SIGCONT, SIGHUP, SIGKILL};

/// A group whose processes fork is listed so often for one signal.
pub(crate) const LISTINGS_MAX: usize = 4;

/// Groups that are looked at for others in one turn, so that ends are heard of in between.
pub(crate) const LOOKED_AT_PER_TURN_MAX: usize = 64;

/// Groups whose others are signalled right after their main process, in one turn.
pub(crate) const AT_ONCE_PER_TURN_MAX: usize = 8;

/// The signals and kills that are under way.
pub(crate) struct Kills {
    /// Groups whose main process was signalled, and in which there may be other processes. One for each effect that
    /// is under way at most.
    pub(crate) other_processes: VecDeque<GroupSignal>,
    /// Groups all processes of which were signalled at once in this turn.
    pub(crate) signalled_at_once: usize,
    /// Units whose processes are to be killed in this turn.
    pub(crate) dying: Vec<UnitId>,
    /// Threads that kill large groups.
    pub(crate) killers: Workers,
}

impl Kills {
    /// No signal is under way; fails if no thread can be started.
    pub(crate) fn start(wake: Arc<EventFd>) -> std::io::Result<Kills> {
        Ok(Kills {
            other_processes: VecDeque::new(),
            signalled_at_once: 0,
            dying: Vec::new(),
            killers: Workers::start_beside(wake)?,
        })
    }
}

/// What the others of a group are to be asked.
pub(crate) struct GroupSignal {
    /// The effect that is answered when they were.
    pub(crate) id: EffectId,
    pub(crate) unit: UnitId,
    pub(crate) signal: i32,
    pub(crate) then: FollowUp,
    /// It had the signal, and is to go on with it if it was stopped.
    pub(crate) main: Option<i32>,
    /// Those who had the signal, or are not to have it.
    pub(crate) seen: BTreeSet<i32>,
    /// How many had it.
    pub(crate) sent: u32,
}

impl GroupSignal {
    /// Signals those of a group and of all below it, each when its group is read, so that a number is of whom it was read of.
    /// How many have had the signal, with those before.
    pub(crate) fn signal_below(mut self, tree: &Tree, path: &str) -> u32 {
        for _ in 0..LISTINGS_MAX {
            let before = self.seen.len();
            let mut tell = |_: &Path, pids: Vec<i32>| {
                for pid in pids.into_iter().filter(|pid| self.seen.insert(*pid)) {
                    self.sent += u32::from(process::kill(pid, self.signal).is_ok());
                    let then = [(self.then.hangup, SIGHUP), (self.then.resume, SIGCONT)];
                    for (_, signal) in then.into_iter().filter(|(is_wanted, _)| *is_wanted) {
                        let _ = process::kill(pid, signal);
                    }
                }
            };
            if tree.each_below(Path::new(path), &mut tell).is_err() || self.seen.len() == before {
                break;
            }
        }
        self.sent
    }
}
