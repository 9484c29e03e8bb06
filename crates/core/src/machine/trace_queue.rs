//! What the machine notes of what happened, until its shell takes it.

use crate::machine::Core;
use crate::model::ids::UnitId;
use crate::protocol::event::{Effect, KillTarget};
use crate::protocol::trace_event::{Happening, What};

/// Happenings that are kept for a shell that does not take them; more are counted only.
const UNTAKEN_MAX: usize = 1 << 20;

/// What the shell has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Untaken {
    happenings: Vec<Happening>,
    lost: u64,
}

impl Core {
    /// What happened since the last call, in order, and how many events were dropped because the
    /// queue was full.
    pub fn take_happenings(&mut self) -> (Vec<Happening>, u64) {
        let untaken = std::mem::take(&mut self.untaken);
        (untaken.happenings, untaken.lost)
    }

    /// Signals have many senders and one way out.
    pub(crate) fn note_signals(&mut self, effects: &[Effect]) {
        const SIGKILL: i32 = 9;
        for effect in effects {
            let (unit, target, signal) = match *effect {
                // Signal 0 only checks that a process exists.
                Effect::Kill { unit, target, signal, .. } if signal != 0 => (unit, target, signal),
                Effect::KillGroup { unit } => (unit, KillTarget::Group, SIGKILL),
                _ => continue,
            };
            self.happened(unit, What::Signal { target, signal });
        }
    }

    pub(crate) fn happened(&mut self, unit: UnitId, what: What) {
        if self.untaken.happenings.len() == UNTAKEN_MAX {
            self.untaken.lost += 1;
            return;
        }
        self.untaken.happenings.push(Happening { at: self.now.monotonic, unit, what });
    }
}
