//! What the machine notes of what happened, until its shell takes it.

use crate::model::ids::UnitId;
use crate::model::time::Monotonic;
use crate::protocol::trace_event::{Happening, What};

/// Happenings that are kept for a shell that does not take them; more are counted only.
const HAPPENINGS_MAX: usize = 1 << 20;

/// What the shell has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct TraceQueue {
    happenings: Vec<Happening>,
    lost: u64,
}

impl TraceQueue {
    /// What happened since the last call, in order, and how many events were dropped because the
    /// queue was full.
    pub fn take(&mut self) -> (Vec<Happening>, u64) {
        let all = std::mem::take(self);
        (all.happenings, all.lost)
    }

    pub fn push(&mut self, at: Monotonic, unit: UnitId, what: What) {
        if self.happenings.len() == HAPPENINGS_MAX {
            self.lost += 1;
            return;
        }
        self.happenings.push(Happening { at, unit, what });
    }
}
